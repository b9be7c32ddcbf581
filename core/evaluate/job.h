/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/job.h - the job document (docs/protocol.md) of a workload under
 * a study's gates and settings.  One document serves all candidates of a
 * workload; only phase, modules and last stage change. */
#ifndef JB_EVALUATE_JOB_H
#define JB_EVALUATE_JOB_H

#include "core/base/hash.h"
#include "core/suite/suite.h"

typedef struct jb_job_settings {
    const char *check_shape;  /* run every gate row at this shape instead of its own; NULL: the rows' own */
    const char *timed_shape;  /* NULL: "full" */
    const char *variant;      /* judge every set on this variant; NULL: each set's own */
    const char *last_stage;   /* NULL: "time" with timers, else "check" */
    const char *const *skip;  /* stages left out */
    size_t skip_count;
    const char *phase;        /* "loop", "final" or "all"; NULL: "loop" */
    const cJSON *timers;      /* [{"use","options"}], nullable */
    const cJSON *limits;      /* {"trace_s":15,...}: replaces the defaults by name; nullable */
    const char *isolation;    /* NULL: "required" */
    const char *store;        /* folder that keeps modules by hash; NULL: none */
    const char *seed;         /* of the study, as text: keys the final draws */
} jb_job_settings;

/* JB_EINVAL for an unknown shape, stage or limit (naming the nearest); JB_ENOMEM.
 * Free *out with cJSON_Delete. */
int jb_job_build(const jb_workload *w, const jb_gateset *const *sets, size_t set_count, const jb_job_settings *s,
                 cJSON **out, jb_error *err);

/* The key of the draws that candidates and prompts may know, and of those they
 * may not: SHA-256 of the study's seed. */
#define JB_LOOP_DRAWS "jaxbench-suite-1/loop"
void jb_job_final_key(const char *seed, char out[JB_HASH_HEX]);
int jb_job_has_final(const cJSON *job); /* any row with `when: final` */
/* A copy for the final rows of a candidate whose loop record is `record`; with
 * its modules when the store still holds them all (then *needs_source is 0). */
cJSON *jb_job_final(const cJSON *job, const cJSON *record, int *needs_source);
/* A limit as a person gave it: a known name, and at least what a right kernel
 * needs.  JB_EINVAL names the range; a value that is no number is given as 0. */
int jb_job_check_limit(const char *name, double value, jb_error *err);
/* A copy that ends at `last_stage` (a name). */
cJSON *jb_job_until(const cJSON *job, const char *last_stage);
/* What the verdict on a source depends on: the job without machine paths, and
 * the source.  Equal keys need one evaluation. */
int jb_job_key(const cJSON *job, const char *source_hash, char out[JB_HASH_HEX]);

#endif
