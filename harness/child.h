/* SPDX-License-Identifier: Apache-2.0 */
/* harness/child.h - one running child as the worker's main process sees it:
 * its pipes (always drained), its deadline, its frames (validated), and how it
 * ended.  It judges nothing; job.c does. */
#ifndef JB_HARNESS_CHILD_H
#define JB_HARNESS_CHILD_H

#include "harness/capture.h"
#include "harness/frameio.h"
#include "harness/zygote.h"

#define JB_CHILD_RESULT_MAX (16ull << 20)
#define JB_CHILD_MODULE_MAX (64ull << 20)
#define JB_CHILD_TOTAL_MAX (256ull << 20)

/* A module a tracer was allowed to send, and what came. */
typedef struct jb_module {
    char name[96];      /* "<shape>/<platform>" */
    char sha256[65];
    uint8_t *bytes;     /* NULL: not sent */
    size_t len;
} jb_module;

typedef struct jb_child {
    uint64_t id;
    uint32_t kind;
    int ctl, log, status, notes;   /* -1 when closed */
    int ended, timed_out, cancelled, refused, have_walls, have_wait;
    int wait_status;               /* of the leaf, as waitpid gives it */
    int64_t started_ns, limit_ns, deadline_ns; /* deadline: later by what checkers took */
    jb_isolation walls;
    jb_capture log_text;
    jb_frame_reader reader;
    uint64_t received;             /* bytes of frames */
    int broken;                    /* JB_EPROTO: err says how */
    jb_error err;                  /* of broken, or of the set-up */
    cJSON *result;                 /* the RESULT */
    cJSON *progress;               /* latest PROGRESS of the child */
    int64_t checker_ns;            /* when it announced the checker it is in; 0: in none */
    jb_module *modules;            /* what may come; owned by the job */
    size_t module_count;
    void *owner;                   /* the job or table that waits */
    int64_t reserved_bytes;        /* of the admission by memory */
} jb_child;

int64_t jb_clock_ns(void); /* CLOCK_MONOTONIC */

/* Ask the zygote on `sock` for a child.  `request` is a descriptor of
 * jb_kid_pack and is closed in every case.  NULL on failure. */
jb_child *jb_child_spawn(int zygote, uint64_t id, uint32_t kind, const jb_limits *limits, int required, int64_t limit_ns,
                         int request, jb_error *err);
/* Take what its descriptors have.  Call when poll says so, and once after the end. */
void jb_child_pump(jb_child *c);
/* After JB_ZOP_ENDED: take what is left and close. */
void jb_child_finish(jb_child *c);
void jb_child_free(jb_child *c);

/* How it ended in words: "killed by SIGSEGV", "exited with 3", ... ; the memory
 * killer's SIGKILL is told from ours.  Returns buf. */
const char *jb_child_end(const jb_child *c, char *buf, size_t n);
/* True when the leaf was ended by a signal that we did not send. */
int jb_child_crashed(const jb_child *c);
/* True when it was struck down from outside: a SIGKILL that we did not send (the
 * kernel's memory killer, a person), or a keeper that vanished without a status. */
int jb_child_struck(const jb_child *c);
/* When its time is up.  A call into a checker has a limit of its own, as long as
 * the child's, and the time it took is not the candidate's. */
int64_t jb_child_due_ns(const jb_child *c);
/* The checker it announced last and did not come back from: "checker <name> of
 * gate set <set> (plugin <id>)", and the call; 0 when there is none. */
int jb_child_in_checker(const jb_child *c, char *buf, size_t n, const char **call);
/* The accesses it was seen to be denied, as flags; appends strings to the array. */
void jb_child_flags(const jb_child *c, cJSON *array);

#endif
