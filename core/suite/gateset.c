/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/gateset.c - a named set of gates: YAML in, one normal form out
 * (docs/formats.md), hashed over that form so that spaces and comments change
 * nothing.  Whether a checker exists and takes these options is the study's
 * business: this file knows no plugins. */
#include "core/suite/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <string.h>

#define MAX_YAML (256u << 10)
#define MAX_ROWS 256
#define MAX_DRAWS 1000
#define COUNT(a) (sizeof(a) / sizeof *(a))

struct jb_gateset {
    cJSON *json;
    char hash[JB_HASH_HEX];
};

/* The words a row knows for itself; every other key is an option of its checker. */
static const char *const SET_KEYS[] = { "schema", "name", "variant", "summary", "rows" };
static const char *const OVER_KEYS[] = { "shapes", "draws" };
static const char *const WHENS[] = { "loop", "final" };
static const char *const DISTRIBUTIONS[] = { "published", "own", "outlier", "tiny" };

struct reader {
    const jb_yaml_doc *doc;
    jb_error *err;
};

static int no_memory(const struct reader *r) { return jb_err(r->err, JB_ENOMEM, "out of memory reading %s", jb_yaml_file(r->doc)); }

static int put(const struct reader *r, cJSON *o, const char *key, cJSON *value)
{
    if (value && cJSON_AddItemToObject(o, key, value)) return 0;
    cJSON_Delete(value);
    return no_memory(r);
}

/* `node` must be one of `words`. */
static int check_word(const struct reader *r, const jb_yaml *node, const char *what, const char *const *words, size_t count)
{
    const char *text;
    int status = jb_yaml_str(r->doc, node, &text, r->err);
    if (status) return status;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(text, words[i])) return 0;
    const char *near = jb_text_nearest(text, words, count);
    jb_yaml_error(r->doc, node, r->err, JB_EINVAL, "unknown %s \"%.60s\"", what, text);
    jb_buf list = JB_BUF_INIT(200);
    for (size_t i = 0; i < count; i++) jb_buf_printf(&list, "%s%s", i ? ", " : "", words[i]);
    if (near) jb_err_hint(r->err, "did you mean \"%s\"?", near);
    else jb_err_hint(r->err, "known: %s", list.ptr ? list.ptr : "");
    jb_buf_free(&list);
    return JB_EINVAL;
}

/* ---- over: {shapes: [...], draws: {...}} ----------------------------------------- */

static int read_shapes(const struct reader *r, const jb_yaml *n, const jb_yaml *parent, cJSON *over)
{
    if (!n || n->kind != JB_YAML_SEQUENCE || !n->count)
        return jb_yaml_error(r->doc, n ? n : parent, r->err, JB_EINVAL, "over needs shapes, a list such as [gate]");
    cJSON *out = jb_json_add_arr(over, "shapes");
    for (size_t i = 0; out && i < n->count; i++) {
        const char *text;
        int status = jb_yaml_str(r->doc, n->items[i], &text, r->err);
        if (status) return status;
        cJSON *s = cJSON_CreateString(text);
        if (!s || !cJSON_AddItemToArray(out, s)) {
            cJSON_Delete(s);
            return no_memory(r);
        }
    }
    return out ? 0 : no_memory(r);
}

static int read_draws(const struct reader *r, const jb_yaml *n, const jb_yaml *parent, cJSON *over)
{
    if (!n || n->kind != JB_YAML_MAPPING || !n->count)
        return jb_yaml_error(r->doc, n ? n : parent, r->err, JB_EINVAL, "over needs draws, a mapping such as {own: 1}");
    cJSON *out = jb_json_add_obj(over, "draws");
    int status = out ? 0 : no_memory(r);
    for (size_t i = 0; i < n->count && !status; i++) {
        int64_t count = 0;
        status = check_word(r, n->keys[i], "distribution", DISTRIBUTIONS, COUNT(DISTRIBUTIONS));
        if (!status) status = jb_yaml_i64(r->doc, n->items[i], &count, r->err);
        if (!status && (count < 1 || count > MAX_DRAWS))
            status = jb_yaml_error(r->doc, n->items[i], r->err, JB_EINVAL, "draws of %s must be 1 to %d", n->keys[i]->text, MAX_DRAWS);
        if (!status) status = put(r, out, n->keys[i]->text, cJSON_CreateNumber((double)count));
    }
    return status;
}

static int read_over(const struct reader *r, const jb_yaml *n, cJSON *row)
{
    int status = jb_yaml_only_keys(r->doc, n, OVER_KEYS, COUNT(OVER_KEYS), r->err);
    if (status) return status;
    cJSON *over = jb_json_add_obj(row, "over");
    status = over ? 0 : no_memory(r);
    if (!status) status = read_shapes(r, jb_yaml_get(n, "shapes"), n, over);
    if (!status) status = read_draws(r, jb_yaml_get(n, "draws"), n, over);
    return status;
}

/* ---- rows -------------------------------------------------------------------------- */

static int read_option(const struct reader *r, const jb_yaml *key, const jb_yaml *value, cJSON *options)
{
    if (value->kind != JB_YAML_SCALAR) return jb_yaml_error(r->doc, value, r->err, JB_EINVAL, "option %.60s must be a plain value", key->text);
    return put(r, options, key->text, jb_yaml_to_json(value));
}

static int read_row(const struct reader *r, const jb_yaml *n, cJSON *rows)
{
    if (n->kind != JB_YAML_MAPPING) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a row is a mapping such as {use: allclose, rtol: 1e-2}");
    const jb_yaml *use = jb_yaml_get(n, "use"), *when = jb_yaml_get(n, "when"), *over = jb_yaml_get(n, "over");
    const char *name;
    if (!use) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a row needs `use`, the name of a checker");
    int status = jb_yaml_str(r->doc, use, &name, r->err);
    if (!status && when) status = check_word(r, when, "`when`", WHENS, COUNT(WHENS));
    if (status) return status;
    cJSON *row = cJSON_CreateObject();
    if (!row || !cJSON_AddItemToArray(rows, row)) {
        cJSON_Delete(row);
        return no_memory(r);
    }
    cJSON *options = NULL;
    status = put(r, row, "use", cJSON_CreateString(name));
    if (!status && !(options = jb_json_add_obj(row, "options"))) status = no_memory(r);
    for (size_t i = 0; i < n->count && !status; i++)
        if (n->items[i] != use && n->items[i] != when && n->items[i] != over) status = read_option(r, n->keys[i], n->items[i], options);
    if (!status) status = put(r, row, "when", cJSON_CreateString(when ? when->text : "loop"));
    if (!status && over) status = read_over(r, over, row);
    return status;
}

static int good_name(const char *s) { return *s && *s != '-' && strlen(s) <= 64 && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == strlen(s); }

static int read_set(const struct reader *r, const jb_yaml *map, cJSON *o)
{
    const jb_yaml *schema = jb_yaml_get(map, "schema"), *name = jb_yaml_get(map, "name"), *variant = jb_yaml_get(map, "variant");
    const jb_yaml *summary = jb_yaml_get(map, "summary"), *rows = jb_yaml_get(map, "rows");
    const char *text = "";
    int64_t version = 1;
    int status = jb_yaml_only_keys(r->doc, map, SET_KEYS, COUNT(SET_KEYS), r->err);
    if (!status && schema) status = jb_yaml_i64(r->doc, schema, &version, r->err);
    if (!status && version != 1) status = jb_yaml_error(r->doc, schema, r->err, JB_EINVAL, "schema must be 1, not %.20s", schema->text);
    if (!status && !name) status = jb_yaml_error(r->doc, map, r->err, JB_EINVAL, "a gate set needs a name");
    if (!status) status = jb_yaml_str(r->doc, name, &text, r->err);
    if (!status && !good_name(text)) status = jb_yaml_error(r->doc, name, r->err, JB_EINVAL, "a gate set's name is letters, digits, - and _, not \"%.60s\"", text);
    if (!status) status = put(r, o, "name", cJSON_CreateString(text));
    if (!status && variant) status = check_word(r, variant, "variant", jb_variants, JB_VARIANT_COUNT);
    if (!status) status = put(r, o, "variant", cJSON_CreateString(variant ? variant->text : "repaired"));
    text = "";
    if (!status && summary) status = jb_yaml_str(r->doc, summary, &text, r->err);
    if (!status) status = put(r, o, "summary", cJSON_CreateString(text));
    if (!status && (!rows || rows->kind != JB_YAML_SEQUENCE || !rows->count || rows->count > MAX_ROWS))
        status = jb_yaml_error(r->doc, rows ? rows : map, r->err, JB_EINVAL, "a gate set needs rows, a list of 1 to %d", MAX_ROWS);
    cJSON *out = status ? NULL : jb_json_add_arr(o, "rows");
    if (!status && !out) status = no_memory(r);
    for (size_t i = 0; !status && i < rows->count; i++) status = read_row(r, rows->items[i], out);
    return status;
}

int jb_gateset_from_yaml(const jb_yaml_doc *doc, const jb_yaml *map, jb_gateset **out, jb_error *err)
{
    const struct reader r = { doc, err };
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    jb_gateset *g = jb_alloc(sizeof *g);
    int status = g && (g->json = cJSON_CreateObject()) ? 0 : no_memory(&r);
    if (!status) status = read_set(&r, map, g->json);
    if (!status && jb_json_print_canonical(g->json, &text)) status = no_memory(&r);
    if (!status && jb_hash_bytes(text.ptr, text.len, g->hash)) status = no_memory(&r);
    jb_buf_free(&text);
    if (status) jb_gateset_free(g);
    else *out = g;
    return status;
}

int jb_gateset_open(const char *path, jb_gateset **out, jb_error *err)
{
    jb_error local = JB_ERROR_INIT;
    if (!err) err = &local;
    jb_yaml_doc *doc = jb_yaml_load(path, MAX_YAML, err);
    int status = doc ? jb_gateset_from_yaml(doc, jb_yaml_root(doc), out, err) : err->code;
    jb_yaml_free(doc);
    return status;
}

void jb_gateset_free(jb_gateset *g)
{
    if (!g) return;
    cJSON_Delete(g->json);
    jb_free(g);
}

const char *jb_gateset_name(const jb_gateset *g) { return jb_json_str(g->json, "name", ""); }
const char *jb_gateset_variant(const jb_gateset *g) { return jb_json_str(g->json, "variant", "repaired"); }
const char *jb_gateset_hash(const jb_gateset *g) { return g->hash; }
const cJSON *jb_gateset_json(const jb_gateset *g) { return g->json; }
