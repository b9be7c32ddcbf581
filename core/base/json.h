/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/json.h - cJSON with the edges filed off: strict bounded parsing
 * with a depth cap, typed getters that never crash on a missing or mistyped
 * field, canonical printing for hashes, and integers beyond 2^53 as decimal
 * strings.  The allocator is core/base/mem.h's. */
#ifndef JB_BASE_JSON_H
#define JB_BASE_JSON_H

#include "core/base/buf.h"
#include <cjson/cJSON.h>

#define JB_JSON_MAX_DEPTH 64
#define JB_JSON_MAX_BYTES (64u << 20)
#define JB_JSON_MAX_NODES 2000000u /* values in one document */

void jb_json_setup(void); /* once, in main: installs the allocator hooks */

/* Parse exactly one document; trailing bytes, NUL bytes, duplicate keys or
 * depth above the cap are errors; the escapes \u0000 and of lone surrogates read
 * as U+FFFD.  NULL on error.  Free with cJSON_Delete. */
cJSON *jb_json_parse(const char *text, size_t len, jb_error *err);
cJSON *jb_json_read_file(const char *path, size_t max_bytes, jb_error *err);

/* Typed getters; NULL object or wrong type gives the default. */
const char *jb_json_str(const cJSON *o, const char *key, const char *def);
double jb_json_num(const cJSON *o, const char *key, double def);
int64_t jb_json_i64(const cJSON *o, const char *key, int64_t def); /* accepts numbers and decimal strings */
int jb_json_bool(const cJSON *o, const char *key, int def);
const cJSON *jb_json_obj(const cJSON *o, const char *key); /* object or array, else NULL */
/* Walk "a.b.c". */
const cJSON *jb_json_path(const cJSON *o, const char *dotted);

/* Setters return 0 or JB_ENOMEM; they replace a key in its place, append when
 * `o` is an array (the key is then ignored), and fail when `o` is NULL, so a
 * writer can check once.  Non-finite numbers are written as the strings "inf",
 * "-inf", "nan", which jb_json_num reads back. */
int jb_json_set_str(cJSON *o, const char *key, const char *value);
int jb_json_set_view(cJSON *o, const char *key, jb_view value); /* invalid UTF-8 becomes U+FFFD */
int jb_json_set_num(cJSON *o, const char *key, double value);
int jb_json_set_i64(cJSON *o, const char *key, int64_t value);
int jb_json_set_bool(cJSON *o, const char *key, int value);
cJSON *jb_json_add_obj(cJSON *o, const char *key);
cJSON *jb_json_add_arr(cJSON *o, const char *key);

/* One line, keys in insertion order; or keys sorted (for hashing). */
int jb_json_print(const cJSON *o, jb_buf *out);
int jb_json_print_canonical(const cJSON *o, jb_buf *out);
int jb_json_print_pretty(const cJSON *o, jb_buf *out);

#endif
