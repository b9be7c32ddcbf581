/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/yaml.h - libyaml events into a small tree that keeps lines.
 *
 * One document; anchors, aliases, tags, duplicate keys, non-scalar keys, more
 * than 32 levels, 100,000 nodes or `max_bytes` are refused with file and line.
 * Scalars stay text: the schema that reads a node types it (YAML 1.2 core
 * rules), so `no`, `1e3` and `12:30` never change type by surprise. */
#ifndef JB_BASE_YAML_H
#define JB_BASE_YAML_H

#include <jaxbench/abi.h>
#include <cjson/cJSON.h>

#define JB_YAML_MAX_BYTES (8u << 20) /* whatever the caller's max_bytes */

typedef enum { JB_YAML_SCALAR, JB_YAML_SEQUENCE, JB_YAML_MAPPING } jb_yaml_kind;

typedef struct jb_yaml {
    jb_yaml_kind kind;
    int line, column;     /* 1-based */
    int quoted;           /* scalar was quoted: always a string */
    char *text;           /* scalar */
    size_t count;         /* items of a sequence, pairs of a mapping */
    struct jb_yaml **keys;   /* mapping: scalars */
    struct jb_yaml **items;  /* sequence items or mapping values */
} jb_yaml;

typedef struct jb_yaml_doc jb_yaml_doc;
jb_yaml_doc *jb_yaml_parse(const char *text, size_t len, const char *file, jb_error *err);
jb_yaml_doc *jb_yaml_load(const char *path, size_t max_bytes, jb_error *err);
void jb_yaml_free(jb_yaml_doc *d);
const jb_yaml *jb_yaml_root(const jb_yaml_doc *d);
const char *jb_yaml_file(const jb_yaml_doc *d);

const jb_yaml *jb_yaml_get(const jb_yaml *map, const char *key); /* NULL when absent */
/* Fill `err` with file and the node's line. Returns code. */
int jb_yaml_error(const jb_yaml_doc *d, const jb_yaml *node, jb_error *err, int code, const char *fmt, ...) JB_PRINTF(5, 6);
/* Typed reads of a scalar by the YAML 1.2 core schema; error names key and line.
 * A string is any scalar but null; numbers and booleans must not be quoted;
 * .inf and .nan are no numbers here. */
int jb_yaml_str(const jb_yaml_doc *d, const jb_yaml *node, const char **out, jb_error *err);
int jb_yaml_i64(const jb_yaml_doc *d, const jb_yaml *node, int64_t *out, jb_error *err);
int jb_yaml_f64(const jb_yaml_doc *d, const jb_yaml *node, double *out, jb_error *err);
int jb_yaml_bool(const jb_yaml_doc *d, const jb_yaml *node, int *out, jb_error *err);
/* Refuse keys of `map` not in `allowed` (count), naming the nearest. */
int jb_yaml_only_keys(const jb_yaml_doc *d, const jb_yaml *map, const char *const *allowed, size_t count, jb_error *err);
/* The subtree as JSON: plain scalars typed by the core schema, quoted ones strings. */
cJSON *jb_yaml_to_json(const jb_yaml *node);

#endif
