/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/buf.c - the growable buffer: doubles, never beyond its cap. */
#include "core/base/buf.h"

#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

char *jb_buf_reserve(jb_buf *b, size_t len)
{
    if (b->status) return NULL;
    size_t max = b->max < SIZE_MAX - 1 ? b->max : SIZE_MAX - 2; /* leaves room for the NUL */
    if (len > max || b->len > max - len) {
        b->status = JB_EINVAL;
        return NULL;
    }
    size_t need = b->len + len + 1;
    if (need > b->cap) {
        size_t cap = b->cap ? b->cap : 64;
        while (cap < need) cap = cap > SIZE_MAX / 2 ? need : cap * 2;
        if (cap > max + 1) cap = max + 1;
        char *p = jb_realloc(b->ptr, cap);
        if (!p) {
            b->status = JB_ENOMEM;
            return NULL;
        }
        b->ptr = p;
        b->cap = cap;
    }
    return b->ptr + b->len;
}

void jb_buf_commit(jb_buf *b, size_t len)
{
    b->len += len;
    b->ptr[b->len] = '\0';
}

int jb_buf_append(jb_buf *b, const void *data, size_t len)
{
    char *at = jb_buf_reserve(b, len);
    if (!at) return b->status;
    if (len) memcpy(at, data, len);
    jb_buf_commit(b, len);
    return 0;
}

int jb_buf_puts(jb_buf *b, const char *s) { return jb_buf_append(b, s, strlen(s)); }

int jb_buf_vprintf(jb_buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    if (n < 0) return b->status = JB_EINVAL;
    char *at = jb_buf_reserve(b, (size_t)n);
    if (!at) return b->status;
    vsnprintf(at, (size_t)n + 1, fmt, ap);
    jb_buf_commit(b, (size_t)n);
    return 0;
}

int jb_buf_printf(jb_buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int status = jb_buf_vprintf(b, fmt, ap);
    va_end(ap);
    return status;
}

void jb_buf_consume(jb_buf *b, size_t n)
{
    if (n >= b->len) n = b->len;
    if (!n) return;
    memmove(b->ptr, b->ptr + n, b->len - n);
    b->len -= n;
    b->ptr[b->len] = '\0';
}

void jb_buf_reset(jb_buf *b)
{
    b->len = 0;
    b->status = 0;
    if (b->ptr) b->ptr[0] = '\0';
}

void jb_buf_free(jb_buf *b)
{
    jb_free(b->ptr);
    b->ptr = NULL;
    b->len = b->cap = 0;
    b->status = 0;
}

char *jb_buf_detach(jb_buf *b)
{
    if (!b->status && !b->ptr) jb_buf_append(b, "", 0);
    char *s = b->status ? NULL : b->ptr;
    if (!s) jb_free(b->ptr);
    b->ptr = NULL;
    b->len = b->cap = 0;
    b->status = 0;
    return s;
}
