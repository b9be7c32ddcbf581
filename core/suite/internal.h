/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/internal.h - what the files of core/suite share and nobody else. */
#ifndef JB_SUITE_INTERNAL_H
#define JB_SUITE_INTERNAL_H

#include "core/base/hash.h"
#include "core/suite/suite.h"

#define JB_VARIANT_COUNT 2
extern const char *const jb_variants[JB_VARIANT_COUNT]; /* "published", "repaired" */

struct jb_workload {
    char *dir, *id, *name;
    cJSON *spec;
    char *source; /* workload.py */
    size_t source_len;
    char versions[JB_VARIANT_COUNT][JB_HASH_HEX];
};

/* Read and check one folder of a suite. */
int jb_workload_load(const char *dir, jb_workload *out, jb_error *err);
void jb_workload_clear(jb_workload *w);
/* workload.yaml against its schema; workload_yaml.c. */
int jb_workload_yaml_check(const jb_yaml_doc *doc, jb_error *err);

/* A JSON number or expression under the symbols of a shape. */
int jb_suite_number(const cJSON *value, const cJSON *symbols, double *out, jb_error *err);

#endif
