/* SPDX-License-Identifier: Apache-2.0 */
/* harness/record.h - writing the stages of a record (docs/protocol.md), and the
 * one place that decides what of a child's own words gets into it. */
#ifndef JB_HARNESS_RECORD_H
#define JB_HARNESS_RECORD_H

#include "core/base/json.h"

/* Stages in order; their names are jb_rec_stages[]. */
typedef enum {
    JB_ST_EXTRACT, JB_ST_TRACE, JB_ST_EXPORT, JB_ST_INSPECT, JB_ST_COMPILE, JB_ST_CHECK, JB_ST_TIME, JB_ST_PROFILE, JB_ST_COUNT
} jb_step_id;
extern const char *const jb_rec_stages[JB_ST_COUNT];
int jb_rec_stage_id(const char *name); /* -1: unknown */

#define JB_REC_ERROR_MAX 4096u

/* A fresh record with an empty "stages". */
cJSON *jb_rec_new(void);
/* The stage's object, made when absent. */
cJSON *jb_rec_stage(cJSON *record, jb_step_id stage);
/* Set status and, where not NULL, outcome, reason (first line, capped) and
 * error (capped). */
void jb_rec_set(cJSON *record, jb_step_id stage, const char *status, const char *outcome, const char *reason, const char *error);
/* "ok", "fail", ... or "" when the stage has not been written. */
const char *jb_rec_status(const cJSON *record, jb_step_id stage);
/* Every stage after `stage` that has none: skipped, with the reason. */
void jb_rec_skip_after(cJSON *record, jb_step_id stage, const char *reason);

/* Take a stage from a tracer: display text only.  Status and outcome outside
 * what a tracer may claim (it can't claim a fault of ours) become trace-error. */
void jb_rec_from_tracer(cJSON *record, jb_step_id stage, const cJSON *said);
/* Take a stage from a child that ran no candidate Python.  An object without a
 * valid status becomes infra. */
void jb_rec_from_judge(cJSON *record, jb_step_id stage, const cJSON *said);

#endif
