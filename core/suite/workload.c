/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/workload.c - one workload: its folder read and hashed, its shapes
 * resolved to numbers.  Runs no Python; workload.py is bytes here. */
#include "core/suite/internal.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_YAML (256u << 10)
#define MAX_SOURCE (1u << 20)

const char *const jb_variants[JB_VARIANT_COUNT] = { "published", "repaired" };

/* ---- loading ---------------------------------------------------------------- */

static int read_text(const char *dir, const char *file, size_t max, jb_buf *out, jb_error *err)
{
    char *path = jb_fs_join(dir, file);
    int status = path ? jb_fs_read(path, max, out, err) : jb_err(err, JB_ENOMEM, "out of memory reading %s", dir);
    if (status == JB_ENOTFOUND) jb_err_hint(err, "a workload's folder holds workload.yaml and workload.py (docs/formats.md)");
    jb_free(path);
    return status;
}

/* The folder is <id>_<name>, so that a listing of the suite says what is in it. */
static int check_folder(const jb_workload *w, jb_error *err)
{
    const char *slash = strrchr(w->dir, '/'), *base = slash ? slash + 1 : w->dir;
    size_t n = strlen(w->id);
    if (!strncmp(base, w->id, n) && base[n] == '_' && !strcmp(base + n + 1, w->name)) return 0;
    jb_err(err, JB_EINVAL, "%s holds the workload %s_%s", w->dir, w->id, w->name);
    jb_err_hint(err, "rename the folder to %s_%s", w->id, w->name);
    return JB_EINVAL;
}

static int parse_spec(jb_workload *w, const jb_buf *yaml, jb_error *err)
{
    char *path = jb_fs_join(w->dir, "workload.yaml");
    jb_yaml_doc *doc = path ? jb_yaml_parse(yaml->ptr, yaml->len, path, err) : NULL;
    int status = !path ? jb_err(err, JB_ENOMEM, "out of memory reading %s", w->dir) : !doc ? (err && err->code ? err->code : JB_EPARSE) : 0;
    if (!status) status = jb_workload_yaml_check(doc, err);
    if (!status) {
        const jb_yaml *root = jb_yaml_root(doc);
        /* From the tree, not from JSON: an id may look like a number. */
        w->id = jb_strdup(jb_yaml_get(root, "id")->text);
        w->name = jb_strdup(jb_yaml_get(root, "name")->text);
        w->spec = jb_yaml_to_json(root);
        if (!w->id || !w->name || !w->spec) status = jb_err(err, JB_ENOMEM, "out of memory reading %s", path);
    }
    jb_yaml_free(doc);
    jb_free(path);
    return status;
}

static int hash_versions(jb_workload *w, const jb_buf *yaml, jb_error *err)
{
    for (size_t i = 0; i < JB_VARIANT_COUNT; i++) {
        jb_hasher *h = jb_hasher_new();
        if (!h) return jb_err(err, JB_ENOMEM, "out of memory hashing %s", w->dir);
        jb_hasher_field(h, "workload.yaml", yaml->ptr, yaml->len);
        jb_hasher_field(h, "workload.py", w->source, w->source_len);
        jb_hasher_field(h, "variant", jb_variants[i], strlen(jb_variants[i]));
        jb_hasher_done(h, w->versions[i]);
    }
    return 0;
}

int jb_workload_load(const char *dir, jb_workload *out, jb_error *err)
{
    jb_buf yaml = JB_BUF_INIT(MAX_YAML), source = JB_BUF_INIT(MAX_SOURCE);
    jb_workload w = { 0 };
    int status = (w.dir = jb_strdup(dir)) ? 0 : jb_err(err, JB_ENOMEM, "out of memory reading %s", dir);
    if (!status) status = read_text(dir, "workload.yaml", MAX_YAML, &yaml, err);
    if (!status) status = parse_spec(&w, &yaml, err);
    if (!status) status = check_folder(&w, err);
    if (!status) status = read_text(dir, "workload.py", MAX_SOURCE, &source, err);
    if (!status) {
        w.source_len = source.len;
        w.source = jb_buf_detach(&source);
        status = w.source ? hash_versions(&w, &yaml, err) : jb_err(err, JB_ENOMEM, "out of memory reading %s", dir);
    }
    jb_buf_free(&yaml);
    jb_buf_free(&source);
    if (status) jb_workload_clear(&w);
    else *out = w;
    return status;
}

void jb_workload_clear(jb_workload *w)
{
    jb_free(w->dir);
    jb_free(w->id);
    jb_free(w->name);
    jb_free(w->source);
    cJSON_Delete(w->spec);
}

/* ---- plain facts -------------------------------------------------------------- */

const char *jb_workload_id(const jb_workload *w) { return w->id; }
const char *jb_workload_name(const jb_workload *w) { return w->name; }
const char *jb_workload_dir(const jb_workload *w) { return w->dir; }
const cJSON *jb_workload_spec(const jb_workload *w) { return w->spec; }

const char *jb_workload_version(const jb_workload *w, const char *variant)
{
    for (size_t i = 0; i < JB_VARIANT_COUNT; i++)
        if (!strcmp(jb_variants[i], variant)) return w->versions[i];
    return "";
}

static const cJSON *shape_symbols(const jb_workload *w, const char *shape)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(w->spec, "shapes"), shape);
}

int jb_workload_has_shape(const jb_workload *w, const char *shape) { return shape_symbols(w, shape) != NULL; }

/* ---- resolving ------------------------------------------------------------------ */

int jb_suite_number(const cJSON *value, const cJSON *symbols, double *out, jb_error *err)
{
    if (cJSON_IsNumber(value)) {
        *out = value->valuedouble;
        return 0;
    }
    if (cJSON_IsString(value)) return jb_expr_eval(value->valuestring, symbols, out, err);
    return jb_err(err, JB_EINVAL, "expected a number or an expression");
}

/* `out` gets {key: number} of a mapping of expressions. */
static int resolve_map(const cJSON *map, const cJSON *symbols, cJSON *out, jb_error *err)
{
    const cJSON *i;
    int status = 0;
    cJSON_ArrayForEach(i, map)
    {
        double v;
        status = jb_suite_number(i, symbols, &v, err);
        if (!status && jb_json_set_num(out, i->string, v)) status = jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
        if (status) return status;
    }
    return status;
}

static int resolve_dims(const cJSON *shape, const cJSON *symbols, cJSON *dims, jb_error *err)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, shape)
    {
        double v;
        int status = jb_suite_number(i, symbols, &v, err);
        if (status) return status;
        cJSON *n = cJSON_CreateNumber(v);
        if (!n || !cJSON_AddItemToArray(dims, n)) {
            cJSON_Delete(n);
            return jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
        }
    }
    return 0;
}

/* {normal: {std, mean}} with both numbers, {uniform: {low, high}} or {integers: {low, high}}. */
static int resolve_draw(const cJSON *draw, const cJSON *symbols, cJSON *row, jb_error *err)
{
    const cJSON *of = draw ? draw->child : NULL;
    cJSON *out = jb_json_add_obj(row, "repaired"), *numbers = out && of ? jb_json_add_obj(out, of->string) : NULL;
    if (!numbers) return jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
    int status = resolve_map(of, symbols, numbers, err);
    if (!status && !strcmp(of->string, "normal") && !cJSON_GetObjectItemCaseSensitive(numbers, "mean") && jb_json_set_num(numbers, "mean", 0))
        status = jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
    return status;
}

static int resolve_rows(const cJSON *rows, const cJSON *symbols, int inputs, cJSON *out, jb_error *err)
{
    const cJSON *i;
    int status = 0;
    cJSON_ArrayForEach(i, rows)
    {
        cJSON *row = cJSON_CreateObject();
        if (!row || !cJSON_AddItemToArray(out, row)) {
            cJSON_Delete(row);
            return jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
        }
        if (inputs && jb_json_set_str(row, "name", jb_json_str(i, "name", ""))) status = JB_ENOMEM;
        if (!status) status = jb_json_set_str(row, "dtype", jb_json_str(i, "dtype", ""));
        cJSON *dims = status ? NULL : jb_json_add_arr(row, "dims");
        if (!dims) return jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
        status = resolve_dims(cJSON_GetObjectItemCaseSensitive(i, "shape"), symbols, dims, err);
        if (!status && inputs && jb_json_set_str(row, "role", jb_json_str(i, "role", ""))) status = jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
        if (!status && inputs) status = resolve_draw(cJSON_GetObjectItemCaseSensitive(i, "repaired"), symbols, row, err);
        if (status) return status;
    }
    return 0;
}

static int no_shape(const jb_workload *w, const char *shape, jb_error *err)
{
    const char *names[64];
    size_t n = 0;
    const cJSON *i;
    jb_buf list = JB_BUF_INIT(256);
    cJSON_ArrayForEach(i, cJSON_GetObjectItemCaseSensitive(w->spec, "shapes"))
    {
        if (n < 64) names[n++] = i->string;
        jb_buf_printf(&list, "%s%s", n > 1 ? ", " : "", i->string);
    }
    const char *near = jb_text_nearest(shape, names, n);
    jb_err(err, JB_ENOTFOUND, "workload %s has no shape \"%.60s\"", w->id, shape);
    if (err) err->flags |= JB_ERR_USER;
    if (near) jb_err_hint(err, "did you mean \"%s\"?", near);
    else jb_err_hint(err, "its shapes: %s", list.ptr ? list.ptr : "");
    jb_buf_free(&list);
    return JB_ENOTFOUND;
}

cJSON *jb_workload_resolve(const jb_workload *w, const char *shape, jb_error *err)
{
    static const struct { const char *key; int needed; } scalars[] = { { "flops", 1 }, { "min_bytes", 1 }, { "min_flops", 0 } };
    const cJSON *symbols = shape_symbols(w, shape);
    if (!symbols) return no_shape(w, shape, err), NULL;
    cJSON *o = cJSON_CreateObject(), *config = o ? jb_json_add_obj(o, "config") : NULL;
    cJSON *inputs = config ? jb_json_add_arr(o, "inputs") : NULL, *outputs = inputs ? jb_json_add_arr(o, "outputs") : NULL;
    int status = outputs ? 0 : jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
    if (!status) status = resolve_map(cJSON_GetObjectItemCaseSensitive(w->spec, "config"), symbols, config, err);
    if (!status) status = resolve_rows(cJSON_GetObjectItemCaseSensitive(w->spec, "inputs"), symbols, 1, inputs, err);
    if (!status) status = resolve_rows(cJSON_GetObjectItemCaseSensitive(w->spec, "outputs"), symbols, 0, outputs, err);
    for (size_t i = 0; i < sizeof scalars / sizeof *scalars && !status; i++) {
        const cJSON *value = cJSON_GetObjectItemCaseSensitive(w->spec, scalars[i].key);
        double v;
        if (!value && !scalars[i].needed) continue;
        status = jb_suite_number(value, symbols, &v, err);
        if (!status && jb_json_set_num(o, scalars[i].key, v)) status = jb_err(err, JB_ENOMEM, "out of memory resolving a shape");
    }
    if (!status) return o;
    jb_err_context(err, "workload %s, shape %s", w->id, shape);
    cJSON_Delete(o);
    return NULL;
}
