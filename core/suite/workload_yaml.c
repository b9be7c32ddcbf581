/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/workload_yaml.c - the schema of workload.yaml (docs/formats.md).
 *
 * Two passes over the tree.  The first is a table: which keys there are, which
 * must be there, what their values look like.  The second evaluates every
 * expression under every named shape, so that a symbol that is missing in one
 * shape is an error with a line when the suite is opened and not in a run.  */
#include "core/suite/internal.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <jaxbench/tensor.h>
#include <math.h>
#include <string.h>

#define MAX_DIM 0x1p40
#define COUNT(a) (sizeof(a) / sizeof *(a))

/* What a value may be. */
typedef enum { TEXT, NUMBER_1, EXPR, BOOL, TEXTS, EXPRS, EXPR_MAP, SHAPE_MAP, INPUTS, OUTPUTS, COUNT_, ANY_MAP, DRAW } kind;

struct key {
    const char *name;
    kind kind;
    int required;
    const char *const *choices; /* TEXT */
};

static const char *const TIERS[] = { "production", "translated", NULL };
static const char *const ROLES[] = { "activation", "weight", "bias", "scale", "index", NULL };

static const struct key TOP[] = {
    { "schema", NUMBER_1, 1, NULL },     { "id", TEXT, 1, NULL },
    { "name", TEXT, 1, NULL },           { "tier", TEXT, 1, TIERS },
    { "summary", TEXT, 1, NULL },        { "source", TEXT, 0, NULL },
    { "formula", TEXT, 1, NULL },        { "config", EXPR_MAP, 1, NULL },
    { "shapes", SHAPE_MAP, 1, NULL },    { "inputs", INPUTS, 1, NULL },
    { "outputs", OUTPUTS, 1, NULL },     { "slice_axes", COUNT_, 0, NULL },
    { "flops", EXPR, 1, NULL },          { "min_bytes", EXPR, 1, NULL },
    { "min_flops", EXPR, 0, NULL },      { "same_formula", BOOL, 0, NULL },
    { "figures", ANY_MAP, 0, NULL },     { "policies", TEXTS, 0, NULL },
    { "degeneracies", TEXTS, 0, NULL },  { "tags", TEXTS, 0, NULL },
    { "scales", EXPR_MAP, 0, NULL },
};
static const struct key INPUT[] = {
    { "name", TEXT, 1, NULL },  { "shape", EXPRS, 1, NULL },     { "dtype", TEXT, 1, NULL },
    { "role", TEXT, 1, ROLES }, { "published", TEXT, 0, NULL },  { "repaired", DRAW, 1, NULL },
};
static const struct key OUTPUT[] = { { "name", TEXT, 0, NULL }, { "shape", EXPRS, 1, NULL }, { "dtype", TEXT, 1, NULL } };
static const struct key DRAWS[] = { { "normal", EXPR_MAP, 0, NULL }, { "uniform", EXPR_MAP, 0, NULL }, { "integers", EXPR_MAP, 0, NULL } };
static const char *const NORMAL[] = { "std", "mean" };
static const char *const RANGE[] = { "low", "high" }; /* uniform, integers */
static const char *const SHAPES_NEEDED[] = { "full", "gate" };

struct check {
    const jb_yaml_doc *doc;
    jb_error *err;
};

static int check_map(const struct check *c, const jb_yaml *map, const struct key *keys, size_t count, const char *what);

static int bad(const struct check *c, const jb_yaml *n, const char *key, const char *expected)
{
    return jb_yaml_error(c->doc, n, c->err, JB_EINVAL, "%s must be %s", key, expected);
}

/* One of a NULL-terminated list. */
static int check_choice(const struct check *c, const jb_yaml *n, const char *key, const char *const *choices)
{
    size_t count = 0;
    for (; choices[count]; count++)
        if (!strcmp(choices[count], n->text)) return 0;
    const char *near = jb_text_nearest(n->text, choices, count);
    jb_yaml_error(c->doc, n, c->err, JB_EINVAL, "%s can't be \"%.60s\"", key, n->text);
    jb_buf list = JB_BUF_INIT(256);
    for (size_t i = 0; i < count; i++) jb_buf_printf(&list, "%s%s", i ? ", " : "", choices[i]);
    if (near) jb_err_hint(c->err, "did you mean \"%s\"?", near);
    else jb_err_hint(c->err, "one of: %s", list.ptr ? list.ptr : "");
    jb_buf_free(&list);
    return JB_EINVAL;
}

static int check_dtype(const struct check *c, const jb_yaml *n)
{
    const char *names[JB_DT_F64 + 1];
    for (uint32_t i = JB_DT_BOOL; i <= JB_DT_F64; i++) names[i - 1] = jb_dtype_name(i);
    names[JB_DT_F64] = NULL;
    return check_choice(c, n, "dtype", names);
}

static int check_list(const struct check *c, const jb_yaml *n, const char *key)
{
    if (n->kind != JB_YAML_SEQUENCE) return bad(c, n, key, "a list");
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i]->kind != JB_YAML_SCALAR) return bad(c, n->items[i], key, "a list of plain values");
    return 0;
}

static int check_flat_map(const struct check *c, const jb_yaml *n, const char *key)
{
    if (n->kind != JB_YAML_MAPPING) return bad(c, n, key, "a mapping");
    for (size_t i = 0; i < n->count; i++)
        if (n->items[i]->kind != JB_YAML_SCALAR) return bad(c, n->items[i], key, "a mapping to plain values");
    return 0;
}

static int check_shapes(const struct check *c, const jb_yaml *n)
{
    if (n->kind != JB_YAML_MAPPING) return bad(c, n, "shapes", "a mapping of named shapes");
    for (size_t i = 0; i < COUNT(SHAPES_NEEDED); i++)
        if (!jb_yaml_get(n, SHAPES_NEEDED[i])) return jb_yaml_error(c->doc, n, c->err, JB_EINVAL, "there is no shape \"%s\"", SHAPES_NEEDED[i]);
    const jb_yaml *full = jb_yaml_get(n, "full");
    for (size_t i = 0; i < n->count; i++) {
        const jb_yaml *shape = n->items[i];
        int status = check_flat_map(c, shape, "a shape");
        for (size_t k = 0; k < shape->count && !status; k++) {
            int64_t v;
            status = jb_yaml_i64(c->doc, shape->items[k], &v, c->err);
            if (!status && (v < 1 || (double)v > MAX_DIM)) status = bad(c, shape->items[k], shape->keys[k]->text, "a size of at least 1");
            if (!status && !jb_yaml_get(full, shape->keys[k]->text))
                status = jb_yaml_error(c->doc, shape->keys[k], c->err, JB_EINVAL, "shape %s has the symbol %.40s, which full lacks", n->keys[i]->text, shape->keys[k]->text);
        }
        if (status) return status;
        if (shape->count != full->count)
            return jb_yaml_error(c->doc, shape, c->err, JB_EINVAL, "shape %s has %zu symbols, full has %zu", n->keys[i]->text, shape->count, full->count);
    }
    return 0;
}

/* Indices are whole numbers, and nothing else is: the role, the dtype and the draw say so together. */
static int check_whole(const struct check *c, const jb_yaml *row)
{
    const char *dtype = jb_yaml_get(row, "dtype")->text;
    int index = !strcmp(jb_yaml_get(row, "role")->text, "index"), whole = !strncmp(dtype, "int", 3) || !strncmp(dtype, "uint", 4);
    int drawn = jb_yaml_get(jb_yaml_get(row, "repaired"), "integers") != NULL;
    if (index == whole && whole == drawn) return 0;
    return jb_yaml_error(c->doc, row, c->err, JB_EINVAL, "role index, an integer dtype and the draw integers go together: input %.40s has only some of them",
                         jb_yaml_get(row, "name")->text);
}

static int check_rows(const struct check *c, const jb_yaml *n, const char *key, const struct key *keys, size_t count)
{
    if (n->kind != JB_YAML_SEQUENCE || !n->count) return bad(c, n, key, "a list with at least one row");
    int status = 0;
    for (size_t i = 0; i < n->count && !status; i++) {
        status = check_map(c, n->items[i], keys, count, key);
        if (!status && keys == INPUT) status = check_whole(c, n->items[i]);
    }
    return status;
}

/* `{normal: {std, mean}}`, `{uniform: {low, high}}` or `{integers: {low, high}}`. */
static int check_draw(const struct check *c, const jb_yaml *n)
{
    int status = check_map(c, n, DRAWS, COUNT(DRAWS), "repaired");
    if (status) return status;
    if (n->count != 1) return bad(c, n, "repaired", "one of normal, uniform and integers");
    int normal = !strcmp(n->keys[0]->text, "normal");
    status = jb_yaml_only_keys(c->doc, n->items[0], normal ? NORMAL : RANGE, 2, c->err);
    const char *needed = normal ? "std" : NULL;
    for (size_t i = 0; i < 2 && !status; i++) {
        const char *key = normal ? needed : RANGE[i];
        if (key && !jb_yaml_get(n->items[0], key)) status = jb_yaml_error(c->doc, n->items[0], c->err, JB_EINVAL, "%s needs %s", n->keys[0]->text, key);
    }
    return status;
}

static int check_value(const struct check *c, const struct key *k, const jb_yaml *n)
{
    const char *text;
    int64_t i;
    int b, status;
    switch (k->kind) {
    case TEXT:
        status = jb_yaml_str(c->doc, n, &text, c->err);
        if (!status && k->choices) status = check_choice(c, n, k->name, k->choices);
        if (!status && !strcmp(k->name, "dtype")) status = check_dtype(c, n);
        return status;
    case NUMBER_1:
        status = jb_yaml_i64(c->doc, n, &i, c->err);
        return !status && i != 1 ? bad(c, n, k->name, "1") : status;
    case COUNT_:
        status = jb_yaml_i64(c->doc, n, &i, c->err);
        return !status && (i < 0 || i > JB_MAX_RANK) ? bad(c, n, k->name, "a count of axes") : status;
    case EXPR: return n->kind == JB_YAML_SCALAR ? 0 : bad(c, n, k->name, "a number or an expression");
    case BOOL: return jb_yaml_bool(c->doc, n, &b, c->err);
    case TEXTS: return check_list(c, n, k->name);
    case EXPRS:
        status = check_list(c, n, k->name);
        return !status && n->count > JB_MAX_RANK ? bad(c, n, k->name, "at most 8 axes") : status;
    case EXPR_MAP: return check_flat_map(c, n, k->name);
    case SHAPE_MAP: return check_shapes(c, n);
    case INPUTS: return check_rows(c, n, k->name, INPUT, COUNT(INPUT));
    case OUTPUTS: return check_rows(c, n, k->name, OUTPUT, COUNT(OUTPUT));
    case ANY_MAP: return n->kind == JB_YAML_MAPPING ? 0 : bad(c, n, k->name, "a mapping");
    case DRAW: return check_draw(c, n);
    }
    return 0;
}

static int check_map(const struct check *c, const jb_yaml *map, const struct key *keys, size_t count, const char *what)
{
    const char *names[COUNT(TOP)] = { NULL };
    for (size_t i = 0; i < count; i++) names[i] = keys[i].name;
    int status = jb_yaml_only_keys(c->doc, map, names, count, c->err);
    for (size_t i = 0; i < count && !status; i++) {
        const jb_yaml *n = jb_yaml_get(map, keys[i].name);
        if (n) status = check_value(c, &keys[i], n);
        else if (keys[i].required) status = jb_yaml_error(c->doc, map, c->err, JB_EINVAL, "%s lacks the key \"%s\"", what, keys[i].name);
    }
    return status;
}

/* ---- expressions ------------------------------------------------------------ */

struct under {
    const struct check *c;
    const char *shape;
    const cJSON *symbols;
};

static int evaluate(const struct under *u, const jb_yaml *n, int size)
{
    double v;
    int status = jb_expr_eval(n->text, u->symbols, &v, u->c->err);
    if (!status && size && (v < 1 || v > MAX_DIM || floor(v) < v))
        status = jb_err(u->c->err, JB_EINVAL, "\"%.80s\" is %.17g, not a whole size of at least 1", n->text, v);
    if (!status) return 0;
    jb_err_context(u->c->err, "under shape %s", u->shape);
    jb_err_where(u->c->err, jb_yaml_file(u->c->doc), n->line);
    if (u->c->err) u->c->err->flags |= JB_ERR_USER;
    return status;
}

static int evaluate_all(const struct under *u, const jb_yaml *n, int size)
{
    int status = 0;
    if (!n) return 0;
    if (n->kind == JB_YAML_SCALAR) return evaluate(u, n, size);
    for (size_t i = 0; i < n->count && !status; i++) status = evaluate_all(u, n->items[i], size);
    return status;
}

static int evaluate_shape(const struct under *u, const jb_yaml *root)
{
    static const char *const plain[] = { "config", "flops", "min_bytes", "min_flops", "scales" };
    static const char *const tables[] = { "inputs", "outputs" };
    int status = 0;
    for (size_t i = 0; i < COUNT(plain) && !status; i++) status = evaluate_all(u, jb_yaml_get(root, plain[i]), 0);
    for (size_t t = 0; t < COUNT(tables); t++) {
        const jb_yaml *rows = jb_yaml_get(root, tables[t]);
        for (size_t i = 0; i < rows->count && !status; i++) {
            status = evaluate_all(u, jb_yaml_get(rows->items[i], "shape"), 1);
            if (!status) status = evaluate_all(u, jb_yaml_get(rows->items[i], "repaired"), 0);
        }
    }
    return status;
}

int jb_workload_yaml_check(const jb_yaml_doc *doc, jb_error *err)
{
    jb_error local = JB_ERROR_INIT;
    const struct check c = { doc, err ? err : &local };
    const jb_yaml *root = jb_yaml_root(doc);
    int status = check_map(&c, root, TOP, COUNT(TOP), "workload.yaml");
    const jb_yaml *shapes = status ? NULL : jb_yaml_get(root, "shapes");
    for (size_t i = 0; shapes && i < shapes->count && !status; i++) {
        cJSON *symbols = jb_yaml_to_json(shapes->items[i]);
        const struct under u = { &c, shapes->keys[i]->text, symbols };
        status = symbols ? evaluate_shape(&u, root) : jb_err(c.err, JB_ENOMEM, "out of memory reading %s", jb_yaml_file(doc));
        cJSON_Delete(symbols);
    }
    return status;
}
