/* SPDX-License-Identifier: Apache-2.0 */
/* harness/capture.c - see capture.h. */
#include "harness/capture.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void jb_capture_add(jb_capture *c, const void *data, size_t len)
{
    const char *p = data;
    c->total += len;
    size_t n = JB_CAPTURE_HALF - c->head_len;
    if (n > len) n = len;
    memcpy(c->head + c->head_len, p, n);
    c->head_len += (uint32_t)n;
    p += n;
    len -= n;
    if (len > JB_CAPTURE_HALF) { /* only its own end can survive in the ring */
        p += len - JB_CAPTURE_HALF;
        len = JB_CAPTURE_HALF;
    }
    while (len > 0) {
        size_t room = JB_CAPTURE_HALF - c->tail_at;
        n = len < room ? len : room;
        memcpy(c->tail + c->tail_at, p, n);
        c->tail_at = (uint32_t)((c->tail_at + n) % JB_CAPTURE_HALF);
        c->tail_len = (uint32_t)(c->tail_len + n > JB_CAPTURE_HALF ? JB_CAPTURE_HALF : c->tail_len + n);
        p += n;
        len -= n;
    }
}

int jb_capture_drain(jb_capture *c, int fd)
{
    char chunk[65536];
    /* Bounded, so that one chatty child can't keep the loop from the others. */
    for (int i = 0; i < 64; i++) {
        ssize_t n = read(fd, chunk, sizeof chunk);
        if (n > 0) {
            jb_capture_add(c, chunk, (size_t)n);
            continue;
        }
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        return 1;
    }
    return 0;
}

static void ring(const jb_capture *c, jb_buf *out, size_t skip)
{
    uint32_t start = (c->tail_at + JB_CAPTURE_HALF - c->tail_len) % JB_CAPTURE_HALF;
    for (size_t i = skip; i < c->tail_len;) {
        size_t at = (start + i) % JB_CAPTURE_HALF, n = JB_CAPTURE_HALF - at;
        if (n > c->tail_len - i) n = c->tail_len - i;
        jb_buf_append(out, c->tail + at, n);
        i += n;
    }
}

int jb_capture_text(const jb_capture *c, jb_buf *out)
{
    jb_buf_append(out, c->head, c->head_len);
    uint64_t kept = (uint64_t)c->head_len + c->tail_len;
    if (c->total > kept) jb_buf_printf(out, "\n[... %llu bytes left out ...]\n", (unsigned long long)(c->total - kept));
    ring(c, out, 0);
    return out->status;
}

int jb_capture_tail(const jb_capture *c, size_t max, jb_buf *out)
{
    size_t begin = out->len;
    size_t from_tail = c->tail_len < max ? c->tail_len : max;
    size_t from_head = c->total == (uint64_t)c->head_len + c->tail_len ? max - from_tail : 0;
    if (from_head > c->head_len) from_head = c->head_len;
    jb_buf_append(out, c->head + c->head_len - from_head, from_head);
    ring(c, out, c->tail_len - from_tail);
    if (out->status == 0 && c->total > out->len - begin) {
        const char *nl = memchr(out->ptr + begin, '\n', out->len - begin);
        if (nl != NULL && nl + 1 < out->ptr + out->len) {
            size_t drop = (size_t)(nl + 1 - (out->ptr + begin));
            memmove(out->ptr + begin, nl + 1, out->len - begin - drop + 1);
            out->len -= drop;
        }
    }
    return out->status;
}
