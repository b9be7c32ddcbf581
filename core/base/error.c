/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/error.c - filling a jb_error: no allocation, always terminated,
 * cut at a UTF-8 boundary so that a cut message can still be printed. */
#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct { int code; const char *name; } names[] = {
    { JB_OK, "ok" }, { JB_EINVAL, "invalid" }, { JB_ENOMEM, "no-memory" }, { JB_ENOTFOUND, "not-found" },
    { JB_EEXIST, "exists" }, { JB_EIO, "io" }, { JB_EPARSE, "parse" }, { JB_EABI, "abi" }, { JB_ESTATE, "state" },
    { JB_EBUDGET, "budget" }, { JB_ECANCELLED, "cancelled" }, { JB_ETIMEOUT, "timeout" }, { JB_EPROTO, "protocol" },
    { JB_EUNSUPPORTED, "unsupported" }, { JB_EPERM, "refused" }, { JB_EINTERNAL, "internal" },
};

/* Cut a truncated text back to the last whole UTF-8 character. */
static void trim_utf8(char *s, size_t size)
{
    size_t n = strnlen(s, size);
    if (n + 1 < size) return;
    size_t i = n;
    while (i > 0 && ((unsigned char)s[i - 1] & 0xC0u) == 0x80u) i--;
    if (i > 0 && (unsigned char)s[i - 1] >= 0xC0u) s[i - 1] = '\0';
}

static void fill(char *dst, size_t size, const char *fmt, va_list ap) JB_PRINTF(3, 0);
static void fill(char *dst, size_t size, const char *fmt, va_list ap)
{
    memset(dst, 0, size); /* callers copy the whole of it */
    if (vsnprintf(dst, size, fmt, ap) < 0) dst[0] = '\0';
    trim_utf8(dst, size);
}

int jb_err(jb_error *err, int code, const char *fmt, ...)
{
    if (!err) return code;
    char text[sizeof err->message]; /* the arguments may point into *err */
    va_list ap;
    va_start(ap, fmt);
    fill(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(err->message, text, sizeof text);
    err->code = code;
    err->flags = code == JB_EINTERNAL ? JB_ERR_BUG : 0;
    err->hint[0] = err->where[0] = '\0';
    return code;
}

int jb_err_hint(jb_error *err, const char *fmt, ...)
{
    if (!err) return JB_EINTERNAL;
    char text[sizeof err->hint];
    va_list ap;
    va_start(ap, fmt);
    fill(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(err->hint, text, sizeof text);
    return err->code;
}

int jb_err_where(jb_error *err, const char *file, int line)
{
    if (!err) return JB_EINTERNAL;
    if (!file) file = "";
    if (line > 0) snprintf(err->where, sizeof err->where, "%s:%d", file, line);
    else snprintf(err->where, sizeof err->where, "%s", file);
    trim_utf8(err->where, sizeof err->where);
    return err->code;
}

int jb_err_context(jb_error *err, const char *fmt, ...)
{
    if (!err) return JB_EINTERNAL;
    char context[sizeof err->message], whole[2 * sizeof err->message + 4];
    va_list ap;
    va_start(ap, fmt);
    fill(context, sizeof context, fmt, ap);
    va_end(ap);
    snprintf(whole, sizeof whole, "%s: %s", context, err->message);
    memcpy(err->message, whole, sizeof err->message - 1); /* whole is the longer */
    err->message[sizeof err->message - 1] = '\0';
    trim_utf8(err->message, sizeof err->message);
    return err->code;
}

void jb_err_clear(jb_error *err)
{
    if (!err) return;
    memset(err, 0, sizeof *err);
    err->struct_size = sizeof *err;
}

const char *jb_err_name(int code)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].code == code) return names[i].name;
    return "internal";
}
