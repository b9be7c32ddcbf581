/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/error.h - fill a jb_error once where the cause is known. */
#ifndef JB_BASE_ERROR_H
#define JB_BASE_ERROR_H

#include <jaxbench/abi.h>

/* An empty error, ready to be passed. */
#define JB_ERROR_INIT { .struct_size = sizeof(jb_error) }

/* Set code and message (printf style; cut to fit) and return `code`, so that
 * `return jb_err(err, JB_EINVAL, "...")` reads well.  Clears hint and where.
 * `err` may be NULL. */
int jb_err(jb_error *err, int code, const char *fmt, ...) JB_PRINTF(3, 4);
/* Add what to do next.  Returns err->code (JB_EINTERNAL when err is NULL). */
int jb_err_hint(jb_error *err, const char *fmt, ...) JB_PRINTF(2, 3);
int jb_err_where(jb_error *err, const char *file, int line);
/* Put "context: " before the message on the way up. */
int jb_err_context(jb_error *err, const char *fmt, ...) JB_PRINTF(2, 3);
void jb_err_clear(jb_error *err);
/* Stable word of a status for machine-read errors: "invalid", "not-found", ... */
const char *jb_err_name(int code);

#endif
