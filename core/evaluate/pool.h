/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/pool.h - jobs through an executor plugin: a queue, a number of
 * slots, retries of what the infrastructure lost.  `run` and `eval` share it.
 *
 * One thread, never blocking: poll jb_pool_fd for a second at most, then call
 * jb_pool_next until it returns 0.  Every submitted job ends in exactly one
 * JB_POOL_DONE, also when the executor says nothing any more: jb_pool_next is
 * where the pool looks at the clock.
 *
 *   READY        no event within ready_s of open: what it was given ends as `infra`,
 *                and whatever it is given later at once, until it says something
 *   a job        nothing new of it for `patience`, or no end within ten times
 *                that: its record is `infra`, and it is cancelled
 *   patience     the sum of the job's limits in seconds, check_s a second time (a
 *                checker has its own), and margin_s; the end of another job, which
 *                may have held what this one waits for, starts both anew */
#ifndef JB_EVALUATE_POOL_H
#define JB_EVALUATE_POOL_H

#include "core/base/json.h"
#include <jaxbench/executor.h>

typedef struct jb_pool jb_pool;

typedef struct jb_pool_options {
    const jb_component *executor;
    const cJSON *config;          /* of the executor, nullable */
    jb_paths_service paths;       /* strings live as long as the pool */
    int64_t slots;                /* jobs in the executor at a time, >= 1 */
    int64_t infra_retries;        /* how often a lost job is tried again */
    double ready_s, margin_s;     /* of the watch above; 0: JB_POOL_READY_S, JB_POOL_MARGIN_S */
    void (*log)(void *ctx, uint32_t level, jb_view text); /* nullable */
    void *log_ctx;
} jb_pool_options;

#define JB_POOL_READY_S 120.0  /* a cold start imports jax from a slow disk */
#define JB_POOL_MARGIN_S 120.0 /* set-up of children, the cache, a busy machine */

#define JB_POOL_DONE 1u
#define JB_POOL_PROGRESS 2u
#define JB_POOL_READY 3u

typedef struct jb_pool_event {
    uint32_t kind;     /* JB_POOL_* */
    uint32_t attempts; /* JB_POOL_DONE: how often the job was tried */
    uint64_t tag;      /* as given to submit */
    cJSON *record;     /* the caller's to delete; never NULL for DONE */
    int cancelled;     /* DONE of a job that was cancelled; record is a stub */
} jb_pool_event;

int jb_pool_open(const jb_pool_options *o, jb_pool **out, jb_error *err);
/* Kills what runs.  NULL allowed. */
void jb_pool_close(jb_pool *p);
/* `spec` (taken over, also on failure) and `body` (copied) make the job; tags
 * are the caller's and unique among unfinished jobs.  Queued in order. */
int jb_pool_submit(jb_pool *p, uint64_t tag, cJSON *spec, jb_view body, jb_error *err);
void jb_pool_cancel(jb_pool *p, uint64_t tag); /* its DONE still comes */
/* Hand queued jobs to the executor while slots are free. */
int jb_pool_pump(jb_pool *p, jb_error *err);
int jb_pool_fd(jb_pool *p);
/* 1: *out filled; 0: nothing now; negative: the executor is broken for good. */
int jb_pool_next(jb_pool *p, jb_pool_event *out, jb_error *err);
size_t jb_pool_busy(const jb_pool *p);   /* in the executor */
size_t jb_pool_queued(const jb_pool *p); /* not yet there */
int64_t jb_pool_slots(const jb_pool *p);

#endif
