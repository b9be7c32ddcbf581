/* SPDX-License-Identifier: Apache-2.0 */
/* harness/frameio.h - frames (include/jaxbench/frame.h) over descriptors.
 *
 * The reader is incremental and distrusts its peer: magic, type and length are
 * checked before anything is allocated, memory grows with the bytes that have
 * arrived and never with the length that was announced, and an end in the
 * middle of a frame is an error of its own.  The writer queues for a
 * non-blocking descriptor; jb_frame_send is for children, who may block.  No
 * body is interpreted here. */
#ifndef JB_HARNESS_FRAMEIO_H
#define JB_HARNESS_FRAMEIO_H

#include "core/base/buf.h"
#include <jaxbench/frame.h>

typedef struct jb_frame {
    uint32_t type;
    size_t len;
    uint8_t *body; /* jb_free; NULL when len is 0 */
} jb_frame;

typedef struct jb_frame_reader {
    uint64_t cap;  /* longest body accepted */
    uint8_t head[JB_FRAME_HEADER];
    size_t head_len, got, room;
    uint32_t type;
    uint64_t length;
    uint8_t *body;
    int broken;    /* JB_E* once the conversation has ended badly */
} jb_frame_reader;

#define JB_FRAME_GOT 1
#define JB_FRAME_AGAIN 0
#define JB_FRAME_EOF 2

void jb_frame_reader_init(jb_frame_reader *r, uint64_t cap);
void jb_frame_reader_free(jb_frame_reader *r);
/* Read at most one frame from `fd`.  JB_FRAME_GOT: *out is the caller's (free
 * with jb_frame_free); JB_FRAME_AGAIN: nothing complete yet; JB_FRAME_EOF: the
 * peer closed between two frames.  Negative, for ever after: JB_EPROTO (not
 * our protocol, too long, or cut off - err says which), JB_ENOMEM, JB_EIO. */
int jb_frame_read(jb_frame_reader *r, int fd, jb_frame *out, jb_error *err);
void jb_frame_free(jb_frame *f);

/* Send one frame made of `count` parts, blocking, restarting after signals.
 * 0 or JB_EIO (errno kept). */
int jb_frame_send(int fd, uint32_t type, const jb_view *parts, size_t count);
/* Queue a frame for a non-blocking descriptor. */
int jb_frame_queue(jb_buf *queue, uint32_t type, const jb_view *parts, size_t count);
/* Write what the descriptor takes now; 0, or JB_EIO when the peer is gone. */
int jb_frame_flush(jb_buf *queue, int fd);

/* Little-endian integers of frame bodies. */
uint32_t jb_le32(const uint8_t *p);
uint64_t jb_le64(const uint8_t *p);
void jb_put_le32(uint8_t *p, uint32_t v);
void jb_put_le64(uint8_t *p, uint64_t v);

/* Body of JB_FRAME_JOB and of JB_FRAME_MODULE; views into `f`.  0 or JB_EPROTO. */
int jb_frame_job(const jb_frame *f, uint64_t *job, jb_view *spec, jb_view *body);
int jb_frame_module(const jb_frame *f, jb_view *name, jb_view *bytes);

#endif
