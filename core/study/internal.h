/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/internal.h - what the files of core/study share and nobody else. */
#ifndef JB_STUDY_INTERNAL_H
#define JB_STUDY_INTERNAL_H

#include "core/base/mem.h"
#include "core/base/yaml.h"
#include "core/study/study.h"

/* Nodes that came from `--set` number k carry this line plus k.  A study has
 * less than a million lines, so the two can't be confused; jb_tree_relabel turns
 * "study.yaml:16777216" into "--set K=V" on the way out. */
#define JB_SET_LINE (1 << 24)

/* A YAML document and, over it, what --set changed. */
typedef struct jb_tree {
    jb_yaml_doc *doc;
    jb_arena *arena;
    jb_yaml *root; /* in the arena; texts of untouched nodes are the document's */
    const char *const *set;
    size_t set_count;
} jb_tree;

int jb_tree_open(jb_tree *t, const char *text, size_t len, const char *path, const char *const *set, size_t set_count, jb_error *err);
void jb_tree_close(jb_tree *t);
void jb_tree_relabel(const jb_tree *t, jb_error *err);

/* What reading needs at hand. */
typedef struct jb_reading {
    jb_study *s;
    const jb_study_options *o;
    const jb_yaml_doc *doc;
    const jb_yaml *root;
    const char *base_dir;
    int64_t seeds;
    jb_error *err;
} jb_reading;

int jb_study_read(jb_reading *r);                      /* read.c: every key but the matrix's cells */
int jb_study_read_suites(jb_reading *r, const jb_yaml *n);
int jb_study_read_gates(jb_reading *r, const jb_yaml *n); /* n NULL: every set there is */
int jb_study_read_budget(jb_reading *r, const jb_yaml *n); /* spend.c */
int jb_study_read_prices(jb_reading *r, const jb_yaml *n);
/* Prices of backends; budgets that can't hold are refused.  After expansion. */
int jb_study_check_spend(jb_reading *r);
/* limits.c: `limits` and `timeouts` of a backend's mapping; `on_error` (nullable), once the backends are read */
int jb_study_read_call_limits(jb_reading *r, const jb_yaml *backend, jb_study_part *p);
int jb_study_read_patience(jb_reading *r, const jb_yaml *on_error);
int jb_study_expand(jb_reading *r);                    /* expand.c: cells */
int jb_study_canonical(jb_reading *r);                 /* canonical.c: json, text, hash */

/* "unknown WHAT "name"" with the nearest or the list as hint. Returns JB_EINVAL. */
int jb_study_unknown(const jb_reading *r, const jb_yaml *node, const char *what, const char *name, const char *const *names, size_t count);
/* Does the glob match the workload's id, name or id_name? */
int jb_study_is_workload(const char *glob, const jb_workload *w);
/* A name of a part: letters, digits, . _ -; it becomes part of folder names. */
int jb_study_good_name(const char *s);

#endif
