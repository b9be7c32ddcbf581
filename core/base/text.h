/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/text.h - small text tools: nearest name, globs, durations and
 * sizes, and the escape that makes a candidate's bytes safe on a terminal. */
#ifndef JB_BASE_TEXT_H
#define JB_BASE_TEXT_H

#include "core/base/buf.h"

/* The name in `names` (count) nearest to `word` by edit distance with
 * transpositions, or NULL when none is within a third of its length. */
const char *jb_text_nearest(const char *word, const char *const *names, size_t count);
/* Shell-like match: * ? and [a-z].  Whole string. */
int jb_text_glob(const char *pattern, const char *s);
/* "250ms" "30s" "5m" "2h" -> ns; "4096" "64KiB" "2GiB" -> bytes.  Nonzero on a malformed text. */
int jb_text_duration(const char *s, int64_t *ns_out);
int jb_text_size(const char *s, int64_t *bytes_out);
int jb_text_i64(const char *s, int64_t *out); /* whole string, decimal */
int jb_text_u64(const char *s, uint64_t *out); /* digits alone, at most 2^64 - 1 */
int jb_text_f64(const char *s, double *out);  /* whole string, finite, C locale */
/* Append `s` with control characters, ESC, DEL, C1 and invalid UTF-8 shown as
 * \xNN (newline and tab kept when keep_layout). */
int jb_text_escape(jb_buf *out, const char *s, size_t len, int keep_layout);
/* First line of s, trimmed, at most max bytes, cut at a UTF-8 boundary. */
int jb_text_first_line(jb_buf *out, const char *s, size_t len, size_t max);
int jb_text_utf8_valid(const char *s, size_t len);
/* Human forms into a caller's buffer: "1.3 GiB", "12.4 s", "8m 03s". Return buf. */
char *jb_text_bytes(char *buf, size_t n, int64_t bytes);
char *jb_text_seconds(char *buf, size_t n, double seconds);

#endif
