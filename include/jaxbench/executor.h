/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/executor.h - kind jb.executor/1: where candidates are traced,
 * compiled, executed and judged.
 *
 * A job is a JSON document and a body of bytes (docs/protocol.md): the same
 * job can be sent to local processes or to another machine.  The host polls
 * `event_fd` for readability and then calls `next` until it returns 0. */
#ifndef JAXBENCH_EXECUTOR_H
#define JAXBENCH_EXECUTOR_H

#include <jaxbench/plugin.h>

/* paths/1, offered to executors: where the host found its parts.  NUL-terminated,
 * absolute; live as long as the instance. */
#define JB_SERVICE_PATHS "paths/1"
typedef struct jb_paths_service {
    uint32_t struct_size;
    uint32_t reserved;
    const char *worker; /* the jaxbench-worker program */
    const char *cache;  /* cache folder, may be created */
    const char *suite;  /* folder that holds the suites */
    const char *plugins;/* ':'-separated plugin folders */
} jb_paths_service;

#define JB_JOB_PROGRESS 1u /* a stage began or ended; record is partial */
#define JB_JOB_DONE 2u     /* the only other event of this job is none */
#define JB_JOB_LOST 3u     /* infrastructure failed; err says how; the host may submit again */
#define JB_EXECUTOR_READY 4u /* once, after open: record describes isolation, device, versions */

/* An event; views live until the next call on the executor. */
typedef struct jb_job_event {
    uint32_t struct_size;
    uint32_t kind;   /* JB_JOB_* */
    uint64_t job;    /* as given to submit; 0 for JB_EXECUTOR_READY */
    jb_view record;  /* JSON, docs/protocol.md */
    jb_error error;  /* JB_JOB_LOST only */
} jb_job_event;

typedef struct jb_executor_ops {
    uint32_t struct_size;
    uint32_t reserved;
    /* All functions: [main], none blocks longer than a spawn. */
    int (*open)(const jb_host *host, const void *config, void **out, jb_error *err);
    int (*submit)(void *self, uint64_t job, jb_view spec_json, jb_view body, jb_error *err);
    /* A descriptor that is readable when `next` has something; valid until close. */
    int (*event_fd)(void *self);
    /* 1: *out filled; 0: nothing now; negative: error. */
    int (*next)(void *self, jb_job_event *out, jb_error *err);
    /* The job still ends with exactly one DONE or LOST. */
    int (*cancel)(void *self, uint64_t job, jb_error *err);
    /* Kills what runs, reaps it, frees. NULL allowed. */
    void (*close)(void *self);
} jb_executor_ops;

#endif
