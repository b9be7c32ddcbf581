/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/buf.h - a growable byte buffer with a mandatory cap, always
 * NUL-terminated, sticky on failure: after the first failed append every later
 * one fails too, so a writer checks once at the end. */
#ifndef JB_BASE_BUF_H
#define JB_BASE_BUF_H

#include <jaxbench/abi.h>
#include <stdarg.h>

typedef struct jb_buf {
    char *ptr;    /* NUL-terminated once anything was appended; else NULL */
    size_t len, cap, max;
    int status;   /* JB_OK, JB_ENOMEM or JB_EINVAL (cap reached) */
} jb_buf;

#define JB_BUF_INIT(max_bytes) { NULL, 0, 0, (max_bytes), 0 }

int jb_buf_append(jb_buf *b, const void *data, size_t len);
int jb_buf_puts(jb_buf *b, const char *s);
int jb_buf_printf(jb_buf *b, const char *fmt, ...) JB_PRINTF(2, 3);
int jb_buf_vprintf(jb_buf *b, const char *fmt, va_list ap) JB_PRINTF(2, 0);
/* Room for `len` more bytes at ptr+len, or NULL; the caller then adds to len
 * through jb_buf_commit. */
char *jb_buf_reserve(jb_buf *b, size_t len);
void jb_buf_commit(jb_buf *b, size_t len);
/* Drop the first n bytes. */
void jb_buf_consume(jb_buf *b, size_t n);
void jb_buf_reset(jb_buf *b); /* keeps memory, clears status */
void jb_buf_free(jb_buf *b);  /* ready for reuse, same max */
/* The content as a malloc'ed string, leaving b empty; NULL on failed status. */
char *jb_buf_detach(jb_buf *b);
static inline jb_view jb_buf_view(const jb_buf *b) { jb_view v = { b->ptr, b->len }; return v; }

#endif
