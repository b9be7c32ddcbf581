/* SPDX-License-Identifier: Apache-2.0 */
/* harness/task.h - between the files of a job's state machine: task.c (the
 * machine), task_tools.c, task_module.c (trace, inspect, compile), task_check.c
 * (plan, references, check, time).  Nobody else includes it.
 *
 * `start` functions: 1 something changed, 0 ask again later.  They either get a
 * child, begin to wait for a reference, move t->step on, or end the task.  `end`
 * functions read the child that the step had; what a death means is said there. */
#ifndef JB_HARNESS_TASK_H
#define JB_HARNESS_TASK_H

#include "harness/worker.h"

typedef enum { S_TRACE, S_INSPECT, S_COMPILE, S_VERIFY_COMPILE, S_PLAN, S_REFS, S_CHECK, S_VERIFY_CHECK, S_BASE, S_TIME, S_END } step;

/* ---- the job ------------------------------------------------------------ */
const cJSON *jb_task_workload(const jb_task *t);
const char *jb_task_timed_shape(const jb_task *t);
double jb_task_limit_s(const jb_task *t, const char *key, double def); /* of "limits" */
int jb_task_skipped(const jb_task *t, jb_step_id stage);              /* in "skip" */
/* The module of a shape that came out of the tracer, or NULL. */
jb_module *jb_task_module(const jb_task *t, const char *shape, const char *platform);
jb_blob jb_task_blob(const jb_module *m);
/* A copy of the job without `keys`, and without the workload's folder unless asked. */
cJSON *jb_task_job_without(const jb_task *t, const char *const *keys, size_t count, int with_dir);
cJSON *jb_task_judge_job(const jb_task *t); /* what inspector and compiler see */

/* ---- ending it ---------------------------------------------------------- */
void jb_task_end(jb_task *t);
/* The stage did not succeed; what follows is skipped. */
void jb_task_stop(jb_task *t, jb_step_id stage, const char *status, const char *outcome, const char *reason, const char *error);
void jb_task_infra(jb_task *t, jb_step_id stage, const char *reason, const char *error);
/* 1, and the task has ended, when `stage` lies past the last one asked for. */
int jb_task_beyond(jb_task *t, jb_step_id stage);

/* ---- children ----------------------------------------------------------- */
/* 1: the child runs; 0: not now; -1: it can't be had, and the task has ended. */
int jb_task_ask(jb_worker *w, jb_task *t, jb_step_id stage, uint32_t kind, double seconds, int64_t memory, const cJSON *meta,
                const jb_blob *blobs, size_t count);
char *jb_task_last_words(const jb_child *c); /* what it printed last; jb_free */
/* Faults that are ours whoever the child was: no walls, refused ones, or a keeper
 * that vanished and took the status with it. */
int jb_task_is_infra(const jb_child *c);
/* 1, and the task has ended as infra, when the child died or hung inside a checker
 * without a result: the reason names the checker, its plugin and the call. */
int jb_task_checker_died(jb_task *t, jb_step_id stage, const jb_child *c);
void jb_task_read_infra(jb_task *t, jb_step_id stage, const jb_child *c);
const cJSON *jb_task_failure(const jb_child *c); /* its {"child":...}, or NULL */

/* ---- a crash, and the reference's own module ---------------------------- */
/* Keep how it died; `next` tries the reference's module. */
void jb_task_verify_later(jb_task *t, const jb_child *c, int next, const char *what);
/* 0: t->base_path is there; 1: waiting for it; -1: err says why not. */
int jb_task_want_base(jb_worker *w, jb_task *t, const char *shape, const char *platform, jb_error *err);
/* Read it; `name` must live as long as the blob. */
int jb_task_load_base(jb_task *t, const char *shape, const char *platform, jb_buf *bytes, jb_blob *blob, char name[96]);
/* The crash counts against the candidate; `note` says what the retry showed. */
void jb_task_crash_stands(jb_task *t, jb_step_id stage, const char *outcome, const char *note);

/* ---- the steps ---------------------------------------------------------- */
/* The names a tracer may send; 0, JB_EINVAL or JB_ENOMEM. */
int jb_task_expect_modules(jb_task *t);
void jb_task_note_tracer(jb_task *t, const jb_child *c); /* log, flags, walls */
int jb_task_start_trace(jb_worker *w, jb_task *t);
int jb_task_start_inspect(jb_worker *w, jb_task *t);
int jb_task_start_compile(jb_worker *w, jb_task *t);
int jb_task_start_verify_compile(jb_worker *w, jb_task *t);
int jb_task_start_plan(jb_worker *w, jb_task *t);
int jb_task_start_refs(jb_worker *w, jb_task *t);
int jb_task_start_check(jb_worker *w, jb_task *t);
int jb_task_start_verify_check(jb_worker *w, jb_task *t);
int jb_task_start_base(jb_worker *w, jb_task *t);
int jb_task_start_time(jb_worker *w, jb_task *t);
void jb_task_end_trace(jb_task *t, const jb_child *c);
void jb_task_end_inspect(jb_task *t, const jb_child *c);
void jb_task_end_compile(jb_task *t, const jb_child *c);
void jb_task_end_verify_compile(jb_task *t, const jb_child *c);
void jb_task_end_plan(jb_worker *w, jb_task *t, const jb_child *c);
void jb_task_end_check(jb_worker *w, jb_task *t, const jb_child *c);
void jb_task_end_verify_check(jb_task *t, const jb_child *c);
void jb_task_end_time(jb_task *t, const jb_child *c);

#endif
