/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/yaml.c - a recursive reader over libyaml's events, and typed reads
 * of the tree it builds.
 *
 * What makes YAML dangerous (anchors, aliases, tags, unbounded nesting, many
 * documents) is refused at the event that carries it, before anything is
 * expanded.  Nothing here knows a schema beyond the YAML 1.2 core words. */
#include "core/base/yaml.h"

#include "core/base/buf.h"
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#define MAX_DEPTH 32
#define MAX_NODES 100000

struct jb_yaml_doc {
    char *file;
    jb_yaml *root;
    size_t nodes;
};

/* ---- reading ------------------------------------------------------------- */

struct reader {
    yaml_parser_t parser;
    jb_yaml_doc *doc;
    jb_error *err; /* may be NULL */
};

static int refuse(struct reader *r, size_t line, const char *fmt, ...) JB_PRINTF(3, 4);
static int refuse(struct reader *r, size_t line, const char *fmt, ...)
{
    char text[480];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jb_err(r->err, JB_EPARSE, "%s", text);
    jb_err_where(r->err, r->doc->file, (int)line);
    if (r->err) r->err->flags |= JB_ERR_USER;
    return JB_EPARSE;
}

static int out_of_memory(struct reader *r) { return jb_err(r->err, JB_ENOMEM, "out of memory reading %s", r->doc->file); }

static size_t line_of(const yaml_event_t *e) { return e->start_mark.line + 1; }

static int next(struct reader *r, yaml_event_t *e)
{
    if (yaml_parser_parse(&r->parser, e)) return 0;
    const yaml_parser_t *p = &r->parser;
    if (p->error == YAML_MEMORY_ERROR) return out_of_memory(r);
    return refuse(r, p->problem_mark.line + 1, "malformed YAML: %s%s%s", p->problem ? p->problem : "not valid",
                  p->context ? " " : "", p->context ? p->context : "");
}

static void node_free(jb_yaml *n)
{
    if (!n) return;
    for (size_t i = 0; i < n->count; i++) {
        if (n->keys) node_free(n->keys[i]);
        node_free(n->items[i]);
    }
    jb_free(n->keys);
    jb_free(n->items);
    jb_free(n->text);
    jb_free(n);
}

static int node_new(struct reader *r, jb_yaml_kind kind, const yaml_event_t *e, jb_yaml **out)
{
    if (r->doc->nodes >= MAX_NODES) return refuse(r, line_of(e), "more than %d values in one file", MAX_NODES);
    jb_yaml *n = jb_alloc(sizeof *n);
    if (!n) return out_of_memory(r);
    r->doc->nodes++;
    n->kind = kind;
    n->line = (int)line_of(e);
    n->column = (int)e->start_mark.column + 1;
    *out = n;
    return 0;
}

/* Append to a sequence (key NULL) or mapping; owns key and item in either case. */
static int push(struct reader *r, jb_yaml *n, jb_yaml *key, jb_yaml *item)
{
    if ((n->count & (n->count - 1)) == 0) { /* 0, 1, 2, 4, ...: full */
        size_t room = n->count ? 2 * n->count : 1;
        jb_yaml **items = jb_realloc(n->items, room * sizeof *items);
        if (items) n->items = items;
        jb_yaml **keys = key && items ? jb_realloc(n->keys, room * sizeof *keys) : NULL;
        if (keys) n->keys = keys;
        if (!items || (key && !keys)) {
            node_free(key);
            node_free(item);
            return out_of_memory(r);
        }
    }
    if (key) n->keys[n->count] = key;
    n->items[n->count++] = item;
    return 0;
}

static int refuse_decoration(struct reader *r, const yaml_event_t *e, const unsigned char *anchor, const unsigned char *tag)
{
    if (anchor) return refuse(r, line_of(e), "anchors and aliases are not allowed (&%.60s): write the value out", (const char *)anchor);
    if (tag) return refuse(r, line_of(e), "tags are not allowed (%.60s)", (const char *)tag);
    return 0;
}

static int read_node(struct reader *r, const yaml_event_t *e, int depth, jb_yaml **out);

static int read_scalar(struct reader *r, const yaml_event_t *e, jb_yaml **out)
{
    jb_yaml *n = NULL;
    int status = refuse_decoration(r, e, e->data.scalar.anchor, e->data.scalar.tag);
    if (status) return status;
    if (memchr(e->data.scalar.value, '\0', e->data.scalar.length))
        return refuse(r, line_of(e), "a value holds a NUL character");
    if ((status = node_new(r, JB_YAML_SCALAR, e, &n))) return status;
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    n->text = jb_strndup((const char *)e->data.scalar.value, e->data.scalar.length);
    if (!n->text) {
        node_free(n);
        return out_of_memory(r);
    }
    *out = n;
    return 0;
}

static int read_key(struct reader *r, const yaml_event_t *e, jb_yaml **out)
{
    if (e->type == YAML_ALIAS_EVENT) return read_node(r, e, 0, out); /* says why not */
    if (e->type != YAML_SCALAR_EVENT) return refuse(r, line_of(e), "a key must be a word, not a list or a mapping");
    if (e->data.scalar.length == 0) return refuse(r, line_of(e), "a key is empty: expected `name: value`");
    return read_scalar(r, e, out);
}

/* One pair or one item; sets *end when the collection closes instead. */
static int read_entry(struct reader *r, jb_yaml *n, int depth, int *end)
{
    yaml_event_t e;
    jb_yaml *key = NULL, *item = NULL;
    int map = n->kind == JB_YAML_MAPPING, status = next(r, &e);
    if (status) return status;
    if (e.type == (map ? YAML_MAPPING_END_EVENT : YAML_SEQUENCE_END_EVENT)) {
        *end = 1;
        goto out;
    }
    if (map) {
        if ((status = read_key(r, &e, &key))) goto out;
        yaml_event_delete(&e); /* also zeroes it, for the delete below */
        if ((status = next(r, &e))) goto out;
    }
    if ((status = read_node(r, &e, depth + 1, &item))) goto out;
    status = push(r, n, key, item);
    key = NULL;
out:
    node_free(key);
    yaml_event_delete(&e);
    return status;
}

static int by_text_then_line(const void *a, const void *b)
{
    const jb_yaml *x = *(jb_yaml *const *)a, *y = *(jb_yaml *const *)b;
    int order = strcmp(x->text, y->text);
    return order ? order : x->line != y->line ? x->line - y->line : x->column - y->column;
}

static int refuse_duplicates(struct reader *r, const jb_yaml *map)
{
    int status = 0;
    if (map->count < 2) return 0;
    jb_yaml **sorted = jb_alloc_array(map->count, sizeof *sorted);
    if (!sorted) return out_of_memory(r);
    memcpy(sorted, map->keys, map->count * sizeof *sorted);
    qsort(sorted, map->count, sizeof *sorted, by_text_then_line);
    for (size_t i = 1; i < map->count && !status; i++)
        if (!strcmp(sorted[i - 1]->text, sorted[i]->text))
            status = refuse(r, (size_t)sorted[i]->line, "key \"%.100s\" occurs twice: in line %d and in line %d", sorted[i]->text,
                            sorted[i - 1]->line, sorted[i]->line);
    jb_free(sorted);
    return status;
}

static int read_collection(struct reader *r, const yaml_event_t *e, int depth, jb_yaml **out)
{
    jb_yaml *n = NULL;
    int map = e->type == YAML_MAPPING_START_EVENT, end = 0;
    int status = map ? refuse_decoration(r, e, e->data.mapping_start.anchor, e->data.mapping_start.tag)
                     : refuse_decoration(r, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
    if (status) return status;
    if (depth >= MAX_DEPTH) return refuse(r, line_of(e), "nested deeper than %d levels", MAX_DEPTH);
    status = node_new(r, map ? JB_YAML_MAPPING : JB_YAML_SEQUENCE, e, &n);
    while (!status && !end) status = read_entry(r, n, depth, &end);
    if (!status && map) status = refuse_duplicates(r, n);
    if (status) node_free(n);
    else *out = n;
    return status;
}

static int read_node(struct reader *r, const yaml_event_t *e, int depth, jb_yaml **out)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT: return read_scalar(r, e, out);
    case YAML_SEQUENCE_START_EVENT:
    case YAML_MAPPING_START_EVENT: return read_collection(r, e, depth, out);
    case YAML_ALIAS_EVENT:
        return refuse(r, line_of(e), "anchors and aliases are not allowed (*%.60s): write the value out", (const char *)e->data.alias.anchor);
    case YAML_NO_EVENT: case YAML_STREAM_START_EVENT: case YAML_STREAM_END_EVENT: case YAML_DOCUMENT_START_EVENT:
    case YAML_DOCUMENT_END_EVENT: case YAML_SEQUENCE_END_EVENT: case YAML_MAPPING_END_EVENT: break;
    }
    return refuse(r, line_of(e), "the document ends where a value was expected");
}

/* The stream: exactly one document. */
static int read_stream(struct reader *r)
{
    int status = 0;
    for (int end = 0; !status && !end;) {
        yaml_event_t e;
        if ((status = next(r, &e))) break;
        size_t line = line_of(&e);
        yaml_event_type_t type = e.type;
        yaml_event_delete(&e);
        if (type == YAML_STREAM_END_EVENT) {
            end = 1;
            if (!r->doc->root) status = refuse(r, line, "the file holds no value");
        } else if (type == YAML_DOCUMENT_START_EVENT) {
            if (r->doc->root) status = refuse(r, line, "more than one document in the file");
            else if (!(status = next(r, &e))) {
                status = read_node(r, &e, 0, &r->doc->root);
                yaml_event_delete(&e);
            }
        }
    }
    return status;
}

/* The line of the first byte that is no UTF-8, or 0. */
static size_t bad_utf8(const char *text, size_t len)
{
    size_t line = 1;
    if (jb_text_utf8_valid(text, len)) return 0;
    for (size_t from = 0; from < len; line++) {
        const char *nl = memchr(text + from, '\n', len - from);
        size_t to = nl ? (size_t)(nl - text) + 1 : len;
        if (!jb_text_utf8_valid(text + from, to - from)) return line;
        from = to;
    }
    return line;
}

jb_yaml_doc *jb_yaml_parse(const char *text, size_t len, const char *file, jb_error *err)
{
    struct reader r = { .err = err };
    int status = 0;
    if (!text) {
        text = "";
        len = 0;
    }
    if (!file) file = "<text>";
    r.doc = jb_alloc(sizeof *r.doc);
    if (!r.doc || !(r.doc->file = jb_strdup(file))) {
        jb_yaml_free(r.doc);
        jb_err(err, JB_ENOMEM, "out of memory reading %s", file);
        return NULL;
    }
    size_t line = len > JB_YAML_MAX_BYTES ? 0 : bad_utf8(text, len);
    if (len > JB_YAML_MAX_BYTES) {
        status = refuse(&r, 0, "YAML of %zu bytes; at most %u are read", len, JB_YAML_MAX_BYTES);
    } else if (line) {
        status = refuse(&r, line, "not UTF-8");
    } else if (!yaml_parser_initialize(&r.parser)) {
        status = out_of_memory(&r);
    } else {
        yaml_parser_set_encoding(&r.parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, len);
        status = read_stream(&r);
        yaml_parser_delete(&r.parser);
    }
    if (!status) return r.doc;
    jb_yaml_free(r.doc);
    return NULL;
}

jb_yaml_doc *jb_yaml_load(const char *path, size_t max_bytes, jb_error *err)
{
    if (max_bytes > JB_YAML_MAX_BYTES) max_bytes = JB_YAML_MAX_BYTES;
    jb_buf b = JB_BUF_INIT(max_bytes);
    jb_yaml_doc *doc = jb_fs_read(path, max_bytes, &b, err) ? NULL : jb_yaml_parse(b.ptr, b.len, path, err);
    jb_buf_free(&b);
    return doc;
}

void jb_yaml_free(jb_yaml_doc *d)
{
    if (!d) return;
    node_free(d->root);
    jb_free(d->file);
    jb_free(d);
}

const jb_yaml *jb_yaml_root(const jb_yaml_doc *d) { return d ? d->root : NULL; }
const char *jb_yaml_file(const jb_yaml_doc *d) { return d ? d->file : ""; }

/* ---- errors about a node -------------------------------------------------- */

/* Write the path of `node` below `at` ("rows[1].max") at out+n.  1 when found. */
static int path_of(const jb_yaml *at, const jb_yaml *node, char *out, size_t room, size_t n)
{
    if (at == node) return 1;
    for (size_t i = 0; at && i < at->count; i++) {
        int m = at->kind == JB_YAML_SEQUENCE ? snprintf(out + n, room - n, "[%zu]", i)
                                             : snprintf(out + n, room - n, "%s%.40s", n ? "." : "", at->keys[i]->text);
        if (m < 0 || (size_t)m >= room - n) m = 0; /* too long: leave this step out */
        if ((at->keys && at->keys[i] == node) || path_of(at->items[i], node, out, room, n + (size_t)m)) return 1;
        out[n] = '\0';
    }
    return 0;
}

int jb_yaml_error(const jb_yaml_doc *d, const jb_yaml *node, jb_error *err, int code, const char *fmt, ...)
{
    char text[480];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    jb_err(err, code, "%s", text);
    if (err) err->flags |= JB_ERR_USER;
    jb_err_where(err, jb_yaml_file(d), node ? node->line : 0);
    return code;
}

/* "gates[0].max: expected a number, saw ..." */
static int mistyped(const jb_yaml_doc *d, const jb_yaml *n, const char *expected, jb_error *err)
{
    char path[160] = "";
    if (n && d) path_of(d->root, n, path, sizeof path, 0);
    const char *colon = *path ? ": " : "";
    if (!n) return jb_yaml_error(d, n, err, JB_EINVAL, "expected %s, saw nothing", expected);
    if (n->kind != JB_YAML_SCALAR)
        return jb_yaml_error(d, n, err, JB_EINVAL, "%s%sexpected %s, saw a %s", path, colon, expected,
                             n->kind == JB_YAML_MAPPING ? "mapping" : "list");
    return jb_yaml_error(d, n, err, JB_EINVAL, "%s%sexpected %s, saw %s\"%.80s\"", path, colon, expected,
                         n->quoted ? "the quoted string " : "", n->text);
}

/* ---- typed reads ---------------------------------------------------------- */

static int one_of(const char *s, const char *a, const char *b, const char *c) { return !strcmp(s, a) || !strcmp(s, b) || !strcmp(s, c); }

static int is_plain(const jb_yaml *n) { return n && n->kind == JB_YAML_SCALAR && !n->quoted; }

static int is_null(const jb_yaml *n)
{
    return is_plain(n) && (!*n->text || !strcmp(n->text, "~") || one_of(n->text, "null", "Null", "NULL"));
}

static int plain_bool(const jb_yaml *n, int *out)
{
    if (!is_plain(n)) return JB_EINVAL;
    int yes = one_of(n->text, "true", "True", "TRUE"), no = one_of(n->text, "false", "False", "FALSE");
    if (!yes && !no) return JB_EINVAL;
    *out = yes;
    return 0;
}

/* [-+]?[0-9]+, 0o[0-7]+, 0x[0-9a-fA-F]+ */
static int plain_int(const jb_yaml *n, int64_t *out)
{
    if (!is_plain(n)) return JB_EINVAL;
    int base = !strncmp(n->text, "0x", 2) ? 16 : !strncmp(n->text, "0o", 2) ? 8 : 10;
    if (base == 10) return jb_text_i64(n->text, out);
    const char *p = n->text + 2;
    uint64_t v = 0;
    if (!*p) return JB_EINVAL;
    for (; *p; p++) {
        int digit = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10 : 99;
        if (digit >= base || v > (uint64_t)INT64_MAX / (uint64_t)base) return JB_EINVAL;
        v = v * (uint64_t)base + (uint64_t)digit;
    }
    *out = (int64_t)v; /* both bases divide 2^63, so the check above is exact */
    return 0;
}

static int plain_float(const jb_yaml *n, double *out)
{
    int64_t i;
    if (!is_plain(n)) return JB_EINVAL;
    if (!jb_text_f64(n->text, out)) return 0;
    if (plain_int(n, &i)) return JB_EINVAL;
    *out = (double)i;
    return 0;
}

const jb_yaml *jb_yaml_get(const jb_yaml *map, const char *key)
{
    if (!map || map->kind != JB_YAML_MAPPING) return NULL;
    for (size_t i = 0; i < map->count; i++)
        if (!strcmp(map->keys[i]->text, key)) return map->items[i];
    return NULL;
}

int jb_yaml_str(const jb_yaml_doc *d, const jb_yaml *node, const char **out, jb_error *err)
{
    if (!node || node->kind != JB_YAML_SCALAR || is_null(node)) return mistyped(d, node, "a string", err);
    *out = node->text;
    return 0;
}

int jb_yaml_i64(const jb_yaml_doc *d, const jb_yaml *node, int64_t *out, jb_error *err)
{
    return plain_int(node, out) ? mistyped(d, node, "a whole number", err) : 0;
}

int jb_yaml_f64(const jb_yaml_doc *d, const jb_yaml *node, double *out, jb_error *err)
{
    return plain_float(node, out) ? mistyped(d, node, "a finite number", err) : 0;
}

int jb_yaml_bool(const jb_yaml_doc *d, const jb_yaml *node, int *out, jb_error *err)
{
    return plain_bool(node, out) ? mistyped(d, node, "true or false", err) : 0;
}

int jb_yaml_only_keys(const jb_yaml_doc *d, const jb_yaml *map, const char *const *allowed, size_t count, jb_error *err)
{
    if (!map || map->kind != JB_YAML_MAPPING) return mistyped(d, map, "a mapping of keys to values", err);
    for (size_t i = 0; i < map->count; i++) {
        const jb_yaml *key = map->keys[i];
        size_t k = 0, n = 0;
        while (k < count && strcmp(key->text, allowed[k])) k++;
        if (k < count) continue;
        jb_yaml_error(d, key, err, JB_EINVAL, "unknown key \"%.80s\"", key->text);
        const char *near = jb_text_nearest(key->text, allowed, count);
        char list[200] = "";
        for (k = 0; k < count && n + strlen(allowed[k]) + 3 < sizeof list; k++)
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s", k ? ", " : "", allowed[k]);
        if (near) jb_err_hint(err, "did you mean \"%s\"?", near);
        else jb_err_hint(err, "known keys: %s%s", list, k < count ? ", ..." : "");
        return JB_EINVAL;
    }
    return 0;
}

/* ---- JSON ----------------------------------------------------------------- */

static cJSON *scalar_json(const jb_yaml *n)
{
    int yes;
    int64_t i;
    double f;
    char text[32];
    if (is_null(n)) return cJSON_CreateNull();
    if (!plain_bool(n, &yes)) return cJSON_CreateBool(yes);
    if (!plain_int(n, &i)) {
        if (i >= -(INT64_C(1) << 53) && i <= INT64_C(1) << 53) return cJSON_CreateNumber((double)i);
        snprintf(text, sizeof text, "%" PRId64, i); /* as jb_json_set_i64 writes it */
        return cJSON_CreateString(text);
    }
    /* Digits alone that are no int64_t would lose some as a double: they stay text. */
    if (is_plain(n) && strpbrk(n->text, ".eE") && !plain_float(n, &f)) return cJSON_CreateNumber(f);
    return cJSON_CreateString(n->text);
}

cJSON *jb_yaml_to_json(const jb_yaml *node)
{
    if (!node) return cJSON_CreateNull();
    if (node->kind == JB_YAML_SCALAR) return scalar_json(node);
    cJSON *o = node->kind == JB_YAML_MAPPING ? cJSON_CreateObject() : cJSON_CreateArray();
    for (size_t i = 0; o && i < node->count; i++) {
        cJSON *item = jb_yaml_to_json(node->items[i]);
        int ok = item && (node->keys ? cJSON_AddItemToObject(o, node->keys[i]->text, item) : cJSON_AddItemToArray(o, item));
        if (!ok) {
            cJSON_Delete(item);
            cJSON_Delete(o);
            return NULL;
        }
    }
    return o;
}
