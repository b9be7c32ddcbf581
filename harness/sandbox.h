/* SPDX-License-Identifier: Apache-2.0 */
/* harness/sandbox.h - the walls around a child of the zygote, each probed and
 * recorded.
 *
 *   keeper   jb_sandbox_unshare: namespaces; its next child is pid 1 of a new one
 *    `- init  jb_sandbox_root: tmpfs root, read-only binds, pivot; gives up root
 *        `- leaf jb_sandbox_close: user namespace, capabilities, no_new_privs,
 *                landlock, rlimits, seccomp; then candidate or judge code
 *
 * Works as real root (mount first, then become an unprivileged uid) and as an
 * ordinary user (a user namespace first, one uid mapped).  A layer the kernel
 * refuses is recorded with its errno and the rest goes on: whether a job may run
 * with a layer missing is the caller's decision (jb_isolation_missing).
 *
 * It does not filter system calls by name for Python to work or not: the filter
 * is a deny-list, as allow-lists break imports (c_style.md); the namespaces, the
 * empty root and the uid are what keeps secrets out. */
#ifndef JB_HARNESS_SANDBOX_H
#define JB_HARNESS_SANDBOX_H

#include "core/base/json.h"
#include <sys/types.h>

/* Layers, in the order of the record.  `needed`: counted by `isolation: required`
 * (user_ns is not: as root an unprivileged uid without capabilities stands for it). */
#define JB_LAYERS(X)                     \
    X(USER_NS, "user_ns", 0)             \
    X(NET_NS, "net_ns", 1)               \
    X(PID_NS, "pid_ns", 1)               \
    X(MOUNT_NS, "mount_ns", 1)           \
    X(IPC_NS, "ipc_ns", 1)               \
    X(UTS_NS, "uts_ns", 1)               \
    X(ROOT, "private_root", 1)           \
    X(UID, "unprivileged_uid", 1)        \
    X(CAPS, "no_capabilities", 1)        \
    X(NNP, "no_new_privs", 1)            \
    X(LANDLOCK, "landlock", 1)           \
    X(SECCOMP, "seccomp", 1)             \
    X(RLIMITS, "rlimits", 1)             \
    X(OOM, "oom_score", 0)

typedef enum {
#define X(id, name, needed) JB_LAYER_##id,
    JB_LAYERS(X)
#undef X
    JB_LAYER_COUNT
} jb_layer;

#define JB_LAYER_UNTRIED 0
#define JB_LAYER_ACTIVE 1
#define JB_LAYER_MISSING 2

/* Plain data: written through a pipe by the leaf before it runs anything else. */
typedef struct jb_isolation {
    uint8_t state[JB_LAYER_COUNT];
    int32_t error[JB_LAYER_COUNT]; /* errno where MISSING */
    int32_t landlock_abi;
} jb_isolation;

#define JB_PROFILE_TRUSTED 0u /* limits only: reference and plan children */
#define JB_PROFILE_TRACER 1u  /* candidate Python */
#define JB_PROFILE_JUDGE 2u   /* our Python on a candidate's module bytes */

/* Numbers of one sandbox; 0 leaves a limit alone. */
typedef struct jb_limits {
    uint32_t profile;      /* JB_PROFILE_* */
    uint32_t uid;          /* what root becomes; distinct per slot, as NPROC counts by uid */
    int64_t as_bytes;      /* RLIMIT_AS */
    int64_t data_bytes;    /* RLIMIT_DATA */
    int64_t cpu_s;
    int64_t processes;     /* RLIMIT_NPROC, threads included */
    int64_t files;         /* RLIMIT_NOFILE */
    int64_t file_bytes;    /* RLIMIT_FSIZE */
    int64_t tmp_bytes;     /* size of the private /tmp */
} jb_limits;

/* Read-only paths of the new root; set once by the zygote. */
typedef struct jb_sandbox_paths {
    char **paths;   /* where they appear: absolute, as the interpreter names them */
    char **sources; /* what lies there, symbolic links resolved */
    size_t count;
} jb_sandbox_paths;

/* Collects what every sandbox sees: system libraries and `extra` (interpreter,
 * site-packages, harness).  Nested and missing paths are left out. */
int jb_sandbox_paths_init(jb_sandbox_paths *out, const char *const *extra, size_t count);
void jb_sandbox_paths_free(jb_sandbox_paths *p);
/* True when `path` lies in one of them, in /tmp or is one of the devices. */
int jb_sandbox_allows(const jb_sandbox_paths *p, const char *path);

/* The three steps, each in its own process (above).  They never fail: what did
 * not work is in `iso`. */
void jb_sandbox_unshare(const jb_limits *l, jb_isolation *iso);
void jb_sandbox_root(const jb_limits *l, const jb_sandbox_paths *p, jb_isolation *iso);
void jb_sandbox_close(const jb_limits *l, const jb_sandbox_paths *p, jb_isolation *iso);

/* First missing needed layer, or NULL. */
const char *jb_isolation_missing(const jb_isolation *iso);
/* {"user_ns":true,...,"landlock_abi":7,"errors":{"pid_ns":"Operation not permitted"}} */
cJSON *jb_isolation_json(const jb_isolation *iso);

/* harness/filter.c: the parts of step three.  0 or an errno. */
int jb_filter_caps(void);
int jb_filter_landlock(const jb_sandbox_paths *p, int32_t *abi_out);
int jb_filter_rlimits(const jb_limits *l);
int jb_filter_seccomp(const jb_limits *l);

#endif
