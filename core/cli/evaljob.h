/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/evaljob.h - what the options of `jaxbench eval` ask for: workload, gate
 * sets, limits, timers, as one job.  Reads no candidate and runs nothing. */
#ifndef JB_CLI_EVALJOB_H
#define JB_CLI_EVALJOB_H

#include "core/cli/cli.h"
#include "core/suite/suite.h"

#define JB_EVAL_SETS_MAX 16

typedef struct jb_eval_job {
    jb_cli *cli;
    jb_suite *suite;
    const jb_workload *workload;
    jb_gateset *sets[JB_EVAL_SETS_MAX];
    size_t set_count;
    const char *headline;  /* the set that the outcome follows */
    cJSON *timers, *limits, *job;
    char *keep, seed[24];  /* folder of --keep or NULL; the seed in its one form */
    uint32_t judges;       /* the last stage the outcome may follow */
} jb_eval_job;

/* JB_EINVAL or JB_ENOTFOUND for what a person mistyped; jb_eval_job_free in every case. */
int jb_eval_job_read(jb_cli *c, const jb_registry *r, const jb_layout *l, jb_eval_job *out, jb_error *err);
/* Of that only --gates: sets by name or file, several in one value parted by commas, each once.  No set when it is not given. */
int jb_eval_read_gates(jb_eval_job *e, const jb_registry *r, const jb_layout *l, jb_error *err);
void jb_eval_job_free(jb_eval_job *e);

#endif
