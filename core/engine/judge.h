/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/judge.h - the candidates of a finished run under other gates.
 *
 * A candidate whose exported modules are in blobs/ is judged from them: no token,
 * no trace, no candidate Python.  One whose modules are gone, or were exported at
 * other shapes than the gates ask for, is traced again from its source.  What
 * never reached check keeps its outcome.  The run itself is not changed: verdicts
 * go to judgements/<hash>.jsonl, a journal of its own, so that an interrupted
 * judgement goes on where it stopped. */
#ifndef JB_ENGINE_JUDGE_H
#define JB_ENGINE_JUDGE_H

#include "core/engine/progress.h"
#include "core/engine/records.h"
#include "core/evaluate/pool.h"
#include "core/study/study.h"

typedef struct jb_judge_options {
    const char *run_dir;
    const jb_records *records;      /* of that run */
    const jb_study *study;          /* of that run: workloads, limits, seed */
    const jb_gateset *const *sets;  /* in the order given; the outcome follows `headline` */
    size_t set_count;
    const jb_gateset *headline;
    const char *variant;            /* judge every set on this variant; NULL: each set's own */
    const char *phase;              /* "loop" or "all": which rows */
    jb_pool_options pool;
    jb_progress *progress;          /* nullable */
    const volatile int *stop;       /* becomes a signal's number to end early; nullable */
    int stop_fd;                    /* readable when *stop changed; -1: none */
} jb_judge_options;

/* *out: {"schema":1,"kind":"judgement","run","gates":[{"name","variant","sha256"}],"headline","phase","complete",
 * "counts":{"candidates","kept","known","from_modules","traced_again","pending"},
 * "methods":[{"method","backend","counted_was","correct_was","counted_is","correct_is","pending","was":{outcome:n},"is":{outcome:n}}],
 * "changes":[{"cell","candidate","was","is","reason"}]} (docs/reports.md).  The caller
 * frees it.  JB_ESTATE when the run holds no candidates; an executor's errors. */
int jb_judge_run(const jb_judge_options *o, cJSON **out, jb_error *err);

#endif
