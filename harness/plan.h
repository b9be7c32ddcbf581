/* SPDX-License-Identifier: Apache-2.0 */
/* harness/plan.h - the gates of a job unrolled into trials.
 *
 *     gate sets -> rows (a checker with options) -> trials
 *
 * A trial is (variant, shape, distribution, draw, phase key) and is executed
 * once however many rows ask for it.  Order: loop rows before final ones, then
 * published, own, outlier, tiny, others; a set's first fail ends that set.  A
 * pure function of the job's JSON: the worker and the executor child build the
 * same plan and talk about trials by number. */
#ifndef JB_HARNESS_PLAN_H
#define JB_HARNESS_PLAN_H

#include "core/base/json.h"

typedef struct jb_plan_trial {
    const char *variant, *shape, *distribution, *when; /* "loop" | "final" */
    uint32_t draw;
    double scale;
} jb_plan_trial;

typedef struct jb_plan_row {
    uint32_t set;        /* index into sets */
    const char *use, *when;
    const cJSON *options;/* object or NULL */
    uint32_t *trials;    /* numbers, ascending */
    uint32_t trial_count;
} jb_plan_row;

typedef struct jb_plan_set {
    const char *name, *variant;
} jb_plan_set;

/* Strings point into the job, which must outlive the plan. */
typedef struct jb_plan {
    jb_plan_set *sets;
    jb_plan_row *rows;
    jb_plan_trial *trials;
    uint32_t set_count, row_count, trial_count;
} jb_plan;

/* JB_EINVAL when the gates are malformed; the error names set and row.  A row
 * over shapes that the job does not trace falls back on the job's check shapes. */
int jb_plan_build(const cJSON *job, jb_plan *out, jb_error *err);
void jb_plan_free(jb_plan *p);

/* The request of a reference child for trial `i` ("groups" is added by the
 * caller).  Caller frees; NULL when memory is out. */
cJSON *jb_plan_request(const cJSON *job, const jb_plan *p, uint32_t i);
/* ... and for the baseline of `shape` on `platform`, as `variant` sees it. */
cJSON *jb_plan_base_request(const cJSON *job, const char *variant, const char *shape, const char *platform);

#endif
