/* SPDX-License-Identifier: Apache-2.0 */
/* harness/kid.h - what a child of the zygote is given and what it may do.
 *
 * The zygote never sees a job.  The worker's main process writes what *one*
 * child needs into a memfd (meta JSON, then named blobs, as frames), passes the
 * descriptor on, and only the child maps it: so no candidate's process holds
 * another's draw keys, references or modules, not even as freed memory. */
#ifndef JB_HARNESS_KID_H
#define JB_HARNESS_KID_H

#include "core/base/json.h"
#include "harness/sandbox.h"

/* Kinds of child. */
#define JB_KIDS(X)                      \
    X(TRACER, "tracer")                   \
    X(INSPECTOR, "inspector")             \
    X(COMPILER, "compiler")               \
    X(REFERENCE, "reference")             \
    X(EXECUTOR, "executor")               \
    X(TIMER, "timer")                     \
    X(PLAN, "plan")                       \
    X(PROBE, "probe")                     \
    X(SELFTEST, "selftest")

typedef enum {
    JB_KID_NONE = 0,
#define X(id, name) JB_KID_##id,
    JB_KIDS(X)
#undef X
    JB_KID_COUNT
} jb_kid_kind;

const char *jb_kid_name(uint32_t kind);

typedef struct jb_blob {
    jb_view name, bytes;
} jb_blob;

#define JB_KID_MAX_BLOBS 256u

/* Denied accesses that a tracer was seen to attempt: a page shared with the
 * worker, written by the audit hook.  Hostile like everything a tracer writes:
 * the reader trusts no length and no byte. */
#define JB_NOTES_BYTES 4096u
#define JB_NOTE_NETWORK 0u
#define JB_NOTE_FILE 1u
#define JB_NOTE_PROCESS 2u
#define JB_NOTE_LIBRARY 3u
#define JB_NOTE_COUNT 4u
typedef struct jb_notes {
    uint32_t seen[JB_NOTE_COUNT];     /* how often */
    char detail[JB_NOTE_COUNT][200];  /* the first one, NUL-terminated by an honest writer */
} jb_notes;

typedef struct jb_kid_input {
    uint32_t kind;    /* jb_kid_kind */
    int ctl;          /* frames to the worker */
    cJSON *meta;      /* owned by the process that parsed it */
    jb_blob *blobs;   /* views into the mapping */
    size_t blob_count;
    jb_notes *notes;  /* may be NULL */
    const jb_limits *limits;
    const jb_sandbox_paths *paths;
    void *prepared;   /* of ops->prepare, inherited by the leaf */
} jb_kid_input;

/* What the program behind the zygote does; tests put C functions here. */
typedef struct jb_kid_ops {
    void *self;
    /* JSON for READY, malloc'ed by jb_alloc; called once in the zygote. */
    char *(*ready)(void *self);
    const jb_sandbox_paths *paths;
    /* In the init process, before the walls: open what must be open.  May be NULL. */
    int (*prepare)(void *self, jb_kid_input *in, jb_error *err);
    /* In the leaf, behind the walls.  Its return value is the exit code. */
    int (*run)(void *self, jb_kid_input *in);
} jb_kid_ops;

/* A RESULT frame that only says why the child could not work:
 * {"child":{"status":"infra"|"exception","reason":"...","error":"..."}}. */
int jb_kid_fail(int ctl, const char *status, const char *reason, const char *error);
/* Emit one RESULT frame. */
int jb_kid_result(int ctl, const cJSON *result);

/* The request in a memfd: meta and blobs.  The descriptor, or -1. */
int jb_kid_pack(const cJSON *meta, const jb_blob *blobs, size_t count, jb_error *err);
/* Map and parse it.  Memory is never given back: the process ends with it. */
int jb_kid_unpack(int fd, jb_kid_input *in, jb_error *err);
const jb_blob *jb_kid_blob(const jb_kid_input *in, const char *name);

#endif
