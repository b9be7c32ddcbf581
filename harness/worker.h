/* SPDX-License-Identifier: Apache-2.0 */
/* harness/worker.h - the main process of jaxbench-worker: one thread, one poll
 * loop, no Python.
 *
 *   executor plugin ==frames==> worker ==spawn==> zygote
 *                                  |  tasks (one a job), children, references
 *
 * A task is a state machine that wants one child at a time.  A want is granted
 * in the order of jobs, when a slot and the estimated memory are there; equal
 * references wanted by several tasks are computed by one child.  The worker
 * ends when its peer does, and takes everything with it. */
#ifndef JB_HARNESS_WORKER_H
#define JB_HARNESS_WORKER_H

#include "harness/child.h"
#include "harness/plan.h"
#include "harness/record.h"

#define JB_GIB ((int64_t)1 << 30)

typedef struct jb_worker_options {
    int fd;                 /* frames with the executor plugin */
    int zygote;             /* socket to the zygote */
    int slots;              /* jobs at once; 0: number of cores */
    int64_t memory_bytes;   /* of all children together; 0: 85 % of what is available */
    int64_t cache_bytes;    /* cap of <cache>/refs */
    const char *cache;      /* folder; created */
    const char *plugins;    /* ':'-separated, for checkers and timers */
} jb_worker_options;

typedef struct jb_worker jb_worker;
typedef struct jb_task jb_task;

/* A reference that could not be made: whoever asks again is told at once. */
typedef struct jb_ref_failure {
    struct jb_ref_failure *next;
    char key[65];
    char *reason;
} jb_ref_failure;

/* A reference file being made, and who waits for it (task->waits_for). */
typedef struct jb_ref_job {
    struct jb_ref_job *next;
    char key[65];
    char *path, *temp;
    cJSON *request;
    int64_t limit_ns, memory;
    jb_child *child;        /* NULL: not started */
    int waiting;            /* tasks */
    int struck;             /* its child was struck down from outside and tried again */
    int base;               /* a baseline module, not a reference file */
} jb_ref_job;

struct jb_worker {
    jb_worker_options o;
    jb_frame_reader reader;
    jb_buf out;             /* frames to the executor */
    jb_task *tasks;         /* in order of arrival */
    jb_child *child[512];
    size_t child_count;
    jb_ref_job *refs;
    jb_ref_failure *failures; /* kept as long as the worker lives */
    uint64_t next_child;
    int64_t reserved;       /* by running children */
    int quit, ready, cpus;
    int held;               /* this round, an older want did not fit: younger ones wait too */
    int selftest;           /* 0 unknown, 1 good, -1 a defect: wrong becomes inconclusive */
    cJSON *versions;        /* READY of the zygote */
    jb_isolation walls;     /* as probed */
    char harness[65], jax[32];
    struct { char hash[65]; cJSON *groups; } plans[16]; /* what gate plans need */
    size_t plan_next;
};

/* Run until QUIT or the end of either socket.  0, or an exit code. */
int jb_worker_run(const jb_worker_options *o);

/* ---- for task.c --------------------------------------------------------- */

/* Start a child for `owner` (a task or a jb_ref_job); NULL: not now (slots of
 * memory are taken; ask again later) with err->code 0, or a failure with err set. */
jb_child *jb_worker_spawn(jb_worker *w, void *owner, uint32_t kind, const jb_limits *limits, int required, double limit_s,
                          int64_t memory, const cJSON *meta, const jb_blob *blobs, size_t blob_count, jb_error *err);
void jb_worker_kill(jb_worker *w, jb_child *c);
/* The reference a request names: its path when it lies in the cache with all
 * groups; else a job to wait for (found or made).  0: *path_out is set (free
 * it); 1: wait for *wait_out; negative: error, also when it failed before. */
int jb_worker_reference(jb_worker *w, const cJSON *request, uint32_t groups, double limit_s, int64_t memory, char **path_out,
                        jb_ref_job **wait_out, jb_error *err);
void jb_worker_progress(jb_worker *w, uint64_t job, const char *stage, const char *status);
void jb_worker_done(jb_worker *w, uint64_t job, const cJSON *record);
/* Is a module of the Python package there?  NULL: yes; else why not. */
const char *jb_worker_module_missing(const jb_worker *w, const char *name);

/* ---- task.c -------------------------------------------------------------- */

struct jb_task {
    jb_task *next;
    uint64_t job;
    int step;               /* task.c */
    int cancelled, done;
    cJSON *spec, *record;
    char *source;           /* candidate, jb_alloc'ed */
    size_t source_len;
    jb_module *modules;
    size_t module_count;
    jb_child *child;
    jb_ref_job *waits_for;
    jb_plan plan;
    uint32_t *groups;       /* one a trial */
    char **refs;            /* one a trial: paths */
    uint32_t refs_done;
    char *base_path;        /* baseline module */
    int64_t began_ns;
    int last_stage, phase_stage, specialised;
    int crashed_timeout;    /* verifying: was a timeout */
    int crash_trial;        /* the trial the executor was in, or -1 */
    int struck;             /* a child was struck down from outside and tried again */
    int damaged;            /* references found damaged and made again */
    char crash_reason[512];
    char *crash_error;
    double cost[JB_ST_COUNT];
    double reference_s;
};

/* A task for a JOB frame.  A malformed job gives a task whose record says so. */
jb_task *jb_task_new(jb_worker *w, uint64_t job, jb_view spec, jb_view body);
void jb_task_free(jb_task *t);
/* Do what can be done now.  1: something changed; 0: it waits for a child,
 * memory or a reference. */
int jb_task_advance(jb_worker *w, jb_task *t);
void jb_task_on_child(jb_worker *w, jb_task *t, jb_child *c);
/* Its reference is there (reason NULL), or not. */
void jb_task_on_reference(jb_worker *w, jb_task *t, const char *reason, double seconds);
void jb_task_cancel(jb_worker *w, jb_task *t);

#endif
