/* SPDX-License-Identifier: Apache-2.0 */
/* harness/capture.h - what a child printed: every byte is taken off the pipe
 * and counted, the first and the last few KiB are kept.
 *
 *     [ head: first 8 KiB ][ ... left out ... ][ tail: last 8 KiB, a ring ] */
#ifndef JB_HARNESS_CAPTURE_H
#define JB_HARNESS_CAPTURE_H

#include "core/base/buf.h"

#define JB_CAPTURE_HALF 8192u

typedef struct jb_capture {
    uint64_t total; /* bytes seen */
    uint32_t head_len, tail_len, tail_at; /* tail_at: next place in the ring */
    char head[JB_CAPTURE_HALF], tail[JB_CAPTURE_HALF];
} jb_capture;

void jb_capture_add(jb_capture *c, const void *data, size_t len);
/* Take what is there now.  1: end of file; 0: more may come. */
int jb_capture_drain(jb_capture *c, int fd);
/* Head, a line that counts what was left out, tail. */
int jb_capture_text(const jb_capture *c, jb_buf *out);
/* The last `max` bytes, from the start of a line where there is one. */
int jb_capture_tail(const jb_capture *c, size_t max, jb_buf *out);

#endif
