/* SPDX-License-Identifier: Apache-2.0 */
/* harness/zygote.h - the fork server: one thread, no backend, no job data.
 *
 *   worker ==SEQPACKET==> zygote --fork--> keeper --fork--> init --fork--> leaf
 *            spawn+5 fds           (group)         (pid 1)         (behind the walls)
 *
 * The keeper stays outside the namespaces as the handle the zygote can kill; init
 * sets up the root, reaps, and reports how the leaf ended through a pipe the leaf
 * does not have.  If the worker dies, each dies of its parent's death. */
#ifndef JB_HARNESS_ZYGOTE_H
#define JB_HARNESS_ZYGOTE_H

#include "harness/kid.h"

/* Descriptors passed with a spawn, in this order. */
#define JB_FD_CTL 0
#define JB_FD_LOG 1
#define JB_FD_STATUS 2
#define JB_FD_REQUEST 3
#define JB_FD_NOTES 4
#define JB_FD_COUNT 5

#define JB_ZOP_SPAWN 1u
#define JB_ZOP_KILL 2u
#define JB_ZOP_READY 3u  /* zygote -> worker; text: JSON */
#define JB_ZOP_ENDED 4u  /* zygote -> worker; status: of the keeper */

typedef struct jb_zmsg {
    uint32_t op;
    uint32_t kind;     /* spawn: jb_kid_kind */
    uint64_t id;       /* of the child, never used twice */
    int32_t status;    /* ended */
    uint32_t required; /* spawn: refuse to run with a layer missing */
    jb_limits limits;  /* spawn */
} jb_zmsg;

/* Lines of the status pipe. */
#define JB_STATUS_WALLS 1u  /* isolation, from the leaf before it runs */
#define JB_STATUS_WAIT 2u   /* wait status of the leaf, from init */
#define JB_STATUS_ERROR 3u  /* text: the child could not be set up */
#define JB_STATUS_REFUSED 4u/* isolation is required and a layer is missing */
typedef struct jb_status_line {
    uint32_t tag;
    int32_t wait_status;
    jb_isolation isolation;
    char text[256];
} jb_status_line;

#define JB_ZYGOTE_TEXT 131072u

/* Serve until the socket closes; kills what is left.  Does not return an error:
 * 0 is an orderly end, else an exit code. */
int jb_zygote_serve(int sock, const jb_kid_ops *ops);

/* Worker's side: send with descriptors (count 0 or JB_FD_COUNT). 0 or JB_EIO. */
int jb_zygote_send(int sock, const jb_zmsg *m, const int *fds, size_t count);
/* 1: got one (text, NUL-terminated, of at most `cap` bytes); 0: none now; JB_EIO: zygote is gone. */
int jb_zygote_recv(int sock, jb_zmsg *m, char *text, size_t cap);

#endif
