/* SPDX-License-Identifier: Apache-2.0 */
/* core/report/report.h - what a run found, as one JSON document and as text.
 *
 * Every number says what it is: which denominator and what left it, which
 * interval, interpreted or native, by a model or not.  No speedup is computed
 * unless both sides were timed natively by one timer. */
#ifndef JB_REPORT_H
#define JB_REPORT_H

#include "core/engine/records.h"

#include <stdio.h>

/* The document (docs/reports.md), schema 1.  `run_dir` is where the record lies.
 * `stable`: without the fields of core/engine/volatile.h.  NULL without memory. */
cJSON *jb_report_json(const jb_records *r, const char *run_dir, int stable);

/* The same for a person.  `style(ctx, c)` gives an escape sequence for 'b', 'd',
 * 'g', 'y', 'r', '0', or "".  Reads the document only. */
typedef struct jb_report_style {
    const char *(*style)(const void *ctx, char c);
    const void *ctx;
} jb_report_style;
int jb_report_print(const cJSON *report, FILE *out, const jb_report_style *style);

/* The letter of an outcome in a strip: '+' ok, 'x' wrong, ... */
char jb_report_letter(uint32_t outcome);

/* The document of jb_missing_bodies (core/engine/missing.h), for a person: which
 * bodies, what still works, what to do.  NULL prints nothing. */
void jb_report_print_missing(const cJSON *missing, FILE *out, const jb_report_style *style);

#endif
