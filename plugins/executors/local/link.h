/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/executors/local/link.h - one running worker: process, socket, frames
 * in and out.  It knows nothing of jobs beyond the number in front of a body. */
#ifndef JB_LOCAL_LINK_H
#define JB_LOCAL_LINK_H

#include <jaxbench/executor.h>
#include <jaxbench/frame.h>
#include <sys/types.h>

typedef struct link_frame {
    uint32_t type;
    uint64_t job;       /* PROGRESS, DONE */
    const char *json;   /* valid until the next link_read */
    size_t json_len;
} link_frame;

typedef struct worker_link {
    pid_t pid;          /* 0: no worker */
    int fd;             /* -1: none */
    /* incoming: the frame being read; kept until the next one begins */
    uint8_t head[JB_FRAME_HEADER];
    size_t head_len, got;
    uint32_t type;
    uint64_t length;
    uint8_t *body;
    int complete;
    /* outgoing */
    uint8_t *out;
    size_t out_len, out_cap;
} worker_link;

/* Start `argv[0]` with its end of a socket at descriptor 3, in a process group
 * of its own, so that Ctrl-C reaches the host first. */
int link_start(worker_link *l, const char *const *argv, jb_error *err);
/* Close the socket, give it `grace_ms` to end, kill it, reap it.  Returns its
 * wait status, or -1 when there was none. */
int link_stop(worker_link *l, int grace_ms);
/* Queue a frame of `count` parts and write what the socket takes now. */
int link_send(worker_link *l, uint32_t type, const jb_view *parts, size_t count, jb_error *err);
int link_flush(worker_link *l); /* 0, or JB_EIO when the worker is gone */
/* 1: *out is a frame; 0: nothing complete; negative: the worker is gone (JB_EIO)
 * or broke the protocol (JB_EPROTO). */
int link_read(worker_link *l, link_frame *out);

#endif
