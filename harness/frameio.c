/* SPDX-License-Identifier: Apache-2.0 */
/* harness/frameio.c - see frameio.h. */
#include "harness/frameio.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define STEP ((size_t)1 << 20) /* memory follows the bytes in steps of this */

uint32_t jb_le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t jb_le64(const uint8_t *p) { return jb_le32(p) | (uint64_t)jb_le32(p + 4) << 32; }

void jb_put_le32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++) p[i] = (uint8_t)(v >> (8 * i));
}

void jb_put_le64(uint8_t *p, uint64_t v)
{
    for (int i = 0; i < 8; i++) p[i] = (uint8_t)(v >> (8 * i));
}

void jb_frame_reader_init(jb_frame_reader *r, uint64_t cap)
{
    memset(r, 0, sizeof *r);
    r->cap = cap;
}

void jb_frame_reader_free(jb_frame_reader *r)
{
    jb_free(r->body);
    r->body = NULL;
}

void jb_frame_free(jb_frame *f)
{
    jb_free(f->body);
    memset(f, 0, sizeof *f);
}

static int broken(jb_frame_reader *r, int code)
{
    r->broken = code;
    jb_free(r->body);
    r->body = NULL;
    return code;
}

/* Room for the next read of the body; grows by steps, never ahead of the bytes. */
static int make_room(jb_frame_reader *r)
{
    if (r->got < r->room) return 0;
    size_t left = (size_t)r->length - r->got;
    size_t room = r->room + (left < STEP ? left : STEP);
    if (r->room >= 8 * STEP && left > r->room) room = 2 * r->room; /* amortise long bodies */
    if (room > r->length) room = (size_t)r->length;
    uint8_t *p = jb_realloc(r->body, room);
    if (p == NULL) return JB_ENOMEM;
    r->body = p;
    r->room = room;
    return 0;
}

static int take(jb_frame_reader *r, jb_frame *out)
{
    out->type = r->type;
    out->len = (size_t)r->length;
    out->body = r->body;
    uint64_t cap = r->cap;
    jb_frame_reader_init(r, cap);
    return JB_FRAME_GOT;
}

static int on_eof(jb_frame_reader *r, jb_error *err)
{
    if (r->head_len == 0) return JB_FRAME_EOF;
    if (r->head_len < JB_FRAME_HEADER)
        jb_err(err, JB_EPROTO, "a frame was cut off inside its header, after %zu of %u bytes", r->head_len, JB_FRAME_HEADER);
    else
        jb_err(err, JB_EPROTO, "a frame of %llu bytes was cut off after %zu", (unsigned long long)r->length, r->got);
    return broken(r, JB_EPROTO);
}

static int on_header(jb_frame_reader *r, jb_error *err)
{
    int rc = jb_frame_decode(r->head, r->cap, &r->type, &r->length);
    if (rc == 0) return 0;
    if (jb_le32(r->head) != JB_FRAME_MAGIC)
        jb_err(err, JB_EPROTO, "bytes that are no frame: expected the magic JBF1, saw %02x %02x %02x %02x", r->head[0], r->head[1],
               r->head[2], r->head[3]);
    else
        jb_err(err, JB_EPROTO, "a frame announces %llu bytes; at most %llu are accepted", (unsigned long long)jb_le64(r->head + 8),
               (unsigned long long)r->cap);
    return broken(r, JB_EPROTO);
}

int jb_frame_read(jb_frame_reader *r, int fd, jb_frame *out, jb_error *err)
{
    memset(out, 0, sizeof *out);
    if (r->broken) return jb_err(err, r->broken, "the conversation has ended already");
    for (;;) {
        int in_head = r->head_len < JB_FRAME_HEADER;
        if (!in_head && r->got == r->length) return take(r, out);
        if (!in_head && make_room(r) != 0) return broken(r, jb_err(err, JB_ENOMEM, "no memory for a frame of %llu bytes", (unsigned long long)r->length));
        uint8_t *to = in_head ? r->head + r->head_len : r->body + r->got;
        size_t want = in_head ? JB_FRAME_HEADER - r->head_len : r->room - r->got;
        ssize_t n = read(fd, to, want);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return JB_FRAME_AGAIN;
        /* A peer that dies with unread bytes of ours resets the socket: that is its end. */
        if (n < 0 && errno == ECONNRESET) n = 0;
        if (n < 0) return broken(r, jb_err(err, JB_EIO, "reading a frame: %s", strerror(errno)));
        if (n == 0) return on_eof(r, err);
        if (!in_head) {
            r->got += (size_t)n;
            continue;
        }
        r->head_len += (size_t)n;
        if (r->head_len == JB_FRAME_HEADER) {
            int rc = on_header(r, err);
            if (rc != 0) return rc;
        }
    }
}

static uint64_t total(const jb_view *parts, size_t count)
{
    uint64_t n = 0;
    for (size_t i = 0; i < count; i++) n += parts[i].len;
    return n;
}

static int write_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            struct pollfd pfd = { .fd = fd, .events = POLLOUT };
            (void)poll(&pfd, 1, -1);
            continue;
        }
        if (w <= 0) return JB_EIO;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

int jb_frame_send(int fd, uint32_t type, const jb_view *parts, size_t count)
{
    uint8_t head[JB_FRAME_HEADER];
    uint64_t length = total(parts, count);
    if (length > JB_FRAME_MAX) return JB_EINVAL;
    jb_frame_encode(head, type, length);
    int rc = write_all(fd, head, sizeof head);
    for (size_t i = 0; rc == 0 && i < count; i++) rc = write_all(fd, (const uint8_t *)parts[i].ptr, (size_t)parts[i].len);
    return rc;
}

int jb_frame_queue(jb_buf *queue, uint32_t type, const jb_view *parts, size_t count)
{
    uint8_t head[JB_FRAME_HEADER];
    uint64_t length = total(parts, count);
    if (length > JB_FRAME_MAX) return JB_EINVAL;
    /* All or nothing: half a frame in the queue would poison what follows. */
    if (jb_buf_reserve(queue, (size_t)length + sizeof head) == NULL) return queue->status != 0 ? queue->status : JB_ENOMEM;
    jb_frame_encode(head, type, length);
    jb_buf_append(queue, head, sizeof head);
    for (size_t i = 0; i < count; i++)
        if (parts[i].len > 0) jb_buf_append(queue, parts[i].ptr, (size_t)parts[i].len);
    return queue->status;
}

int jb_frame_flush(jb_buf *queue, int fd)
{
    while (queue->len > 0) {
        ssize_t w = send(fd, queue->ptr, queue->len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (w < 0 && errno == ENOTSOCK) w = write(fd, queue->ptr, queue->len);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        if (w <= 0) return JB_EIO;
        jb_buf_consume(queue, (size_t)w);
    }
    return 0;
}

int jb_frame_job(const jb_frame *f, uint64_t *job, jb_view *spec, jb_view *body)
{
    if (f->len < 12) return JB_EPROTO;
    uint64_t n = jb_le32(f->body + 8);
    if (n > f->len - 12) return JB_EPROTO;
    *job = jb_le64(f->body);
    spec->ptr = (const char *)f->body + 12;
    spec->len = n;
    body->ptr = spec->ptr + n;
    body->len = f->len - 12 - n;
    return 0;
}

int jb_frame_module(const jb_frame *f, jb_view *name, jb_view *bytes)
{
    if (f->len < 4) return JB_EPROTO;
    uint64_t n = jb_le32(f->body);
    if (n > f->len - 4) return JB_EPROTO;
    name->ptr = (const char *)f->body + 4;
    name->len = n;
    bytes->ptr = name->ptr + n;
    bytes->len = f->len - 4 - n;
    return 0;
}
