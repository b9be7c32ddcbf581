/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/engine.h - runs cells: methods as state machines over operations,
 * one thread, one poll loop, the only writer of the journal.
 *
 *     plan --> cells --start/on_event--> operations --> backend | executor
 *                 ^                                         |
 *                 +---- ordered delivery <---- journal <----+
 *
 * Running and resuming are one thing: the same methods run from the start, an
 * operation that the journal knows gets its stored end for nothing, one that it
 * does not know is executed.  What a cell does therefore depends on its plan
 * only: never on slots, on other cells, on what was killed, or on the clock. */
#ifndef JB_ENGINE_H
#define JB_ENGINE_H

#include "core/base/json.h"
#include "core/engine/ledger.h"
#include "core/engine/progress.h"
#include "core/study/budget.h"
#include "core/evaluate/pool.h"
#include "core/http/limits.h"
#include <jaxbench/method.h>

/* One cell: a method on a workload with a backend and a seed.  All of it is
 * borrowed and must outlive the engine. */
typedef struct jb_cell_plan {
    const char *key;   /* unique in the run, a safe folder name: "8p+iid+scripted+s0" */
    const char *label; /* for people: "8p/iid/scripted s0" */
    const char *identity; /* what keys the cell's random numbers: workload, method, backend, seed ordinal */
    const jb_component *method;
    const cJSON *method_options;   /* nullable */
    const char *method_data;       /* folder of its templates; nullable */
    const jb_component *backend;   /* NULL for methods that ask none */
    const cJSON *backend_options;  /* nullable */
    const jb_price *price;         /* of the backend's tokens; NULL: unpriced */
    int64_t max_output;            /* output tokens that one call may cost at most; 0: not known */
    const char *backend_name;      /* the study's; nullable */
    const jb_call_limits *limits;  /* remote backends; NULL: defaults.  Cells with one pointer share one gate */
    const cJSON *facts;            /* prompt facts: name -> text */
    const cJSON *job;              /* the job of a candidate, phase "loop" (core/evaluate/job.h) */
    int64_t samples;               /* budget of the cell; -1 unlimited */
    int64_t expected;              /* candidates to expect, for progress; -1 unknown */
} jb_cell_plan;

typedef struct jb_engine_options {
    const jb_cell_plan *cells;
    size_t cell_count;
    const char *run_dir;      /* exists, locked by the caller */
    const char *study_seed;   /* as text; keys all random numbers */
    const char *headline;     /* the gate set the outcome follows */
    uint32_t last_stage;      /* JB_STAGE_*, what the study asks for */
    jb_pool_options pool;     /* opened when the first job needs it */
    double stop_after_infra_share; /* 0: never; else stop when more of >= 10 candidates are infra */
    const jb_amounts *budget; /* of the run, over all its sessions; NULL: none */
    jb_progress *progress;    /* nullable */
    const volatile int *stop; /* becomes a signal's number to end early; nullable */
    int stop_fd;              /* readable when *stop changed; -1: none */
} jb_engine_options;

#define JB_END_DONE 0u
#define JB_END_SIGNAL 1u /* *stop was set */
#define JB_END_INFRA 2u  /* stop_after_infra_share */
#define JB_END_BUDGET 3u /* `budget`: no new work fits in, what had begun has ended */
#define JB_END_PROVIDER 5u /* a backend that no call can succeed with: key, quota, rate limit without retries */

typedef struct jb_engine_result {
    uint32_t end;            /* JB_END_*: why it returned */
    uint32_t unit;           /* JB_END_BUDGET: JB_UNIT_* of the budget that was reached */
    jb_amounts spent;        /* by the run so far */
    size_t cells_done, cells_failed;
    int64_t candidates, replayed, infra;
    int64_t failed_calls;    /* calls that failed for good: a provider's, no sample charged */
    char first_failed_call[400]; /* "cell: class: message" */
    uint32_t provider_class; /* JB_LLM_*, with JB_END_PROVIDER */
    jb_error provider;       /* what a person is told then */
    uint64_t torn_bytes;     /* of a torn last line that was removed */
    jb_error first_failure;  /* of a cell, when cells_failed > 0 */
} jb_engine_result;

/* Returns 0 when it ended as `out->end` says; an error when the run as a whole
 * can't go on (journal, executor, replay mismatch).  The journal is intact in
 * every case. */
int jb_engine_run(const jb_engine_options *o, jb_engine_result *out, jb_error *err);

#endif
