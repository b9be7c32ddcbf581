/* SPDX-License-Identifier: Apache-2.0 */
/* core/options/options.c - one option table in, everything else out; see
 * options.h.  A value passes through one function on its way into a config
 * struct, `store`, whether it comes as YAML, JSON or default text, so that all
 * three mean the same. */
#include "core/options/options.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define ARENA_BYTES (16u << 20) /* strings of one config */
#define MAX_NAMES 256

struct jb_config {
    const jb_component *component;
    jb_arena *strings;
    unsigned char *data;
};

static const struct { uint32_t type; const char *name, *expected; } TYPES[] = {
    { JB_OPT_BOOL, "bool", "true or false" },
    { JB_OPT_INT, "int", "a whole number" },
    { JB_OPT_FLOAT, "float", "a number" },
    { JB_OPT_STRING, "string", "a string" },
    { JB_OPT_ENUM, "enum", "one of its choices" },
    { JB_OPT_DURATION, "duration", "a duration such as 250ms, 30s, 5m or 2h" },
    { JB_OPT_SIZE, "size", "a size such as 4096, 64KiB or 2GiB" },
    { JB_OPT_PATH, "path", "a file name" },
};

static size_t type_row(uint32_t type)
{
    size_t i = 0;
    while (i + 1 < sizeof TYPES / sizeof *TYPES && TYPES[i].type != type) i++;
    return i;
}

/* ---- the table ------------------------------------------------------------ */

uint32_t jb_options_count(const jb_component *c) { return c->options ? c->option_count : 0; }

const jb_option *jb_options_at(const jb_component *c, uint32_t i)
{
    return (const jb_option *)(const void *)((const char *)c->options + (size_t)i * c->option_size);
}

static const jb_option *option_named(const jb_component *c, const char *name)
{
    for (uint32_t i = 0; i < jb_options_count(c); i++)
        if (!strcmp(jb_options_at(c, i)->name, name)) return jb_options_at(c, i);
    return NULL;
}

/* Fill `names` with the table's and return how many. */
static size_t option_names(const jb_component *c, const char *names[MAX_NAMES])
{
    size_t n = 0;
    for (uint32_t i = 0; i < jb_options_count(c) && n < MAX_NAMES; i++) names[n++] = jb_options_at(c, i)->name;
    return n;
}

static void join(char *out, size_t size, const char *const *names, size_t count)
{
    out[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(out);
        if (used + strlen(names[i]) + 3 >= size) return;
        snprintf(out + used, size - used, "%s%s", i ? ", " : "", names[i]);
    }
}

static size_t choice_count(const jb_option *o)
{
    size_t n = 0;
    while (o->choices && o->choices[n]) n++;
    return n;
}

static int unknown_option(const jb_component *c, const char *name, jb_error *err)
{
    const char *names[MAX_NAMES], *near;
    char list[200];
    size_t n = option_names(c, names);
    near = jb_text_nearest(name, names, n);
    join(list, sizeof list, names, n);
    jb_err(err, JB_EINVAL, "%s has no option \"%.80s\"", c->name, name);
    if (err) err->flags |= JB_ERR_USER;
    if (near) jb_err_hint(err, "did you mean \"%s\"? its options: %s", near, list);
    else jb_err_hint(err, "its options: %s", n ? list : "none");
    return JB_EINVAL;
}

/* ---- one value --------------------------------------------------------------- */

/* The typed form of a value, before it is stored. */
struct value {
    int64_t i;
    double f;
    const char *s;
};

static int mistyped(const jb_component *c, const jb_option *o, const char *seen, jb_error *err)
{
    jb_err(err, JB_EINVAL, "option %s of %s must be %s, not \"%.80s\"", o->name, c->name, TYPES[type_row(o->type)].expected, seen);
    if (err) err->flags |= JB_ERR_USER;
    if (o->help) jb_err_hint(err, "%s: %s", o->name, o->help);
    return JB_EINVAL;
}

static int out_of_range(const jb_component *c, const jb_option *o, const char *seen, jb_error *err)
{
    jb_err(err, JB_EINVAL, "option %s of %s must lie in [%.17g, %.17g], not %.80s", o->name, c->name, o->min, o->max, seen);
    if (err) err->flags |= JB_ERR_USER;
    if (o->help) jb_err_hint(err, "%s: %s", o->name, o->help);
    return JB_EINVAL;
}

static int bounded(const jb_option *o) { return o->min < 0 || o->min > 0 || o->max < 0 || o->max > 0; }

static int parse_enum(const jb_component *c, const jb_option *o, const char *text, struct value *v, jb_error *err)
{
    size_t n = choice_count(o);
    char list[200];
    for (size_t i = 0; i < n; i++)
        if (!strcmp(o->choices[i], text)) {
            v->s = o->choices[i];
            return 0;
        }
    join(list, sizeof list, o->choices, n);
    const char *near = jb_text_nearest(text, o->choices, n);
    jb_err(err, JB_EINVAL, "option %s of %s can't be \"%.80s\"; it is one of: %s", o->name, c->name, text, list);
    if (err) err->flags |= JB_ERR_USER;
    if (near) jb_err_hint(err, "did you mean \"%s\"?", near);
    return JB_EINVAL;
}

/* Text as a person writes it, into a typed value. */
static int parse_text(const jb_component *c, const jb_option *o, const char *text, struct value *v, jb_error *err)
{
    int bad = 0;
    switch (o->type) {
    case JB_OPT_BOOL:
        v->i = !strcmp(text, "true");
        bad = !v->i && strcmp(text, "false");
        break;
    case JB_OPT_INT:
        bad = jb_text_i64(text, &v->i);
        if (!bad && bounded(o) && ((double)v->i < o->min || (double)v->i > o->max)) return out_of_range(c, o, text, err);
        break;
    case JB_OPT_FLOAT:
        bad = jb_text_f64(text, &v->f);
        if (!bad && bounded(o) && (v->f < o->min || v->f > o->max)) return out_of_range(c, o, text, err);
        break;
    case JB_OPT_DURATION: bad = jb_text_duration(text, &v->i); break;
    case JB_OPT_SIZE: bad = jb_text_size(text, &v->i); break;
    case JB_OPT_ENUM: return parse_enum(c, o, text, v, err);
    default: v->s = text;
    }
    return bad ? mistyped(c, o, text, err) : 0;
}

/* A JSON value as the text that parse_text reads; `room` holds numbers. */
static const char *text_of(const cJSON *value, char room[40])
{
    if (cJSON_IsString(value)) return value->valuestring;
    if (cJSON_IsBool(value)) return cJSON_IsTrue(value) ? "true" : "false";
    if (!cJSON_IsNumber(value)) return NULL;
    double d = value->valuedouble;
    if (floor(d) >= d && fabs(d) <= 0x1p53) snprintf(room, 40, "%" PRId64, (int64_t)d);
    else snprintf(room, 40, "%.17g", d);
    return room;
}

static int store(jb_config *cfg, const jb_option *o, const char *text, jb_error *err)
{
    const jb_component *c = cfg->component;
    struct value v = { 0, 0, NULL };
    int status = parse_text(c, o, text, &v, err);
    if (status) return status;
    unsigned char *at = cfg->data + o->offset;
    switch (o->type) {
    case JB_OPT_FLOAT: memcpy(at, &v.f, sizeof v.f); break;
    case JB_OPT_ENUM: memcpy(at, &v.s, sizeof v.s); break;
    case JB_OPT_STRING:
    case JB_OPT_PATH: {
        const char *copy = jb_arena_strdup(cfg->strings, v.s);
        if (!copy) return jb_err(err, JB_ENOMEM, "out of memory for option %s of %s", o->name, c->name);
        memcpy(at, &copy, sizeof copy);
        break;
    }
    default: memcpy(at, &v.i, sizeof v.i);
    }
    return 0;
}

/* ---- configs ------------------------------------------------------------------ */

static int fill(jb_config *cfg, const cJSON *values, jb_error *err)
{
    const jb_component *c = cfg->component;
    const cJSON *value;
    int status = 0;
    cJSON_ArrayForEach(value, values)
    {
        if (!option_named(c, value->string)) return unknown_option(c, value->string, err);
    }
    for (uint32_t i = 0; i < jb_options_count(c) && !status; i++) {
        const jb_option *o = jb_options_at(c, i);
        char room[40];
        value = cJSON_GetObjectItemCaseSensitive(values, o->name);
        const char *text = value ? text_of(value, room) : o->def;
        if (text) {
            status = store(cfg, o, text, err);
        } else if (value && !cJSON_IsNull(value)) {
            status = mistyped(c, o, cJSON_IsArray(value) ? "a list" : "a mapping", err);
        } else if (o->flags & JB_OPTF_REQUIRED) {
            status = jb_err(err, JB_EINVAL, "%s needs the option %s (%s)", c->name, o->name, TYPES[type_row(o->type)].expected);
            if (err) err->flags |= JB_ERR_USER;
            if (o->help) jb_err_hint(err, "%s: %s", o->name, o->help);
        }
    }
    return status;
}

int jb_config_new(const jb_component *c, const cJSON *values, jb_config **out, jb_error *err)
{
    jb_config *cfg = jb_alloc(sizeof *cfg);
    int status = 0;
    if (!cfg || !(cfg->strings = jb_arena_new(ARENA_BYTES)) || !(cfg->data = jb_alloc(c->config_size ? c->config_size : 1)))
        status = jb_err(err, JB_ENOMEM, "out of memory for the options of %s", c->name);
    if (!status) {
        cfg->component = c;
        status = fill(cfg, values, err);
    }
    if (status) jb_config_free(cfg);
    else *out = cfg;
    return status;
}

void jb_config_free(jb_config *c)
{
    if (!c) return;
    jb_arena_free(c->strings);
    jb_free(c->data);
    jb_free(c);
}

const void *jb_config_data(const jb_config *c) { return c->data; }

static int put(cJSON *o, const char *key, cJSON *value)
{
    if (value && cJSON_AddItemToObject(o, key, value)) return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

static cJSON *value_json(const jb_option *o, const unsigned char *at)
{
    int64_t i;
    double f;
    const char *s;
    char room[40];
    switch (o->type) {
    case JB_OPT_FLOAT: memcpy(&f, at, sizeof f); return cJSON_CreateNumber(f);
    case JB_OPT_STRING:
    case JB_OPT_ENUM:
    case JB_OPT_PATH:
        memcpy(&s, at, sizeof s);
        return s ? cJSON_CreateString(s) : cJSON_CreateNull();
    default: memcpy(&i, at, sizeof i);
    }
    if (o->type == JB_OPT_BOOL) return cJSON_CreateBool(i != 0);
    if (i <= INT64_C(1) << 53 && i >= -(INT64_C(1) << 53) && o->type == JB_OPT_INT) return cJSON_CreateNumber((double)i);
    /* Text that reads back as the same value. */
    snprintf(room, sizeof room, "%" PRId64 "%s", i, o->type == JB_OPT_DURATION ? "ns" : "");
    return cJSON_CreateString(room);
}

cJSON *jb_config_json(const jb_component *c, const jb_config *cfg)
{
    cJSON *o = cJSON_CreateObject();
    int status = o ? 0 : JB_ENOMEM;
    for (uint32_t i = 0; i < jb_options_count(c) && !status; i++) {
        const jb_option *row = jb_options_at(c, i);
        if (!(row->flags & JB_OPTF_SECRET)) status = put(o, row->name, value_json(row, cfg->data + row->offset));
    }
    if (!status) return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- YAML ----------------------------------------------------------------------- */

/* A scalar as JSON, by the option's type rather than by how it looks: a plain
 * `no` under a string is "no", a quoted "3" under an int is refused. */
static int from_scalar(const jb_component *c, const jb_option *o, const jb_yaml_doc *doc, const jb_yaml *node, cJSON **out, jb_error *err)
{
    struct value v = { 0, 0, NULL };
    jb_error local = JB_ERROR_INIT;
    int text_type = o->type == JB_OPT_STRING || o->type == JB_OPT_PATH || o->type == JB_OPT_ENUM;
    int status;
    if (node->kind != JB_YAML_SCALAR) status = mistyped(c, o, node->kind == JB_YAML_MAPPING ? "a mapping" : "a list", &local);
    else if (node->quoted && (o->type == JB_OPT_BOOL || o->type == JB_OPT_INT || o->type == JB_OPT_FLOAT))
        status = mistyped(c, o, "quoted text", &local);
    else status = parse_text(c, o, node->text, &v, &local);
    if (status) {
        if (err) *err = local;
        jb_err_where(err, jb_yaml_file(doc), node->line);
        return status;
    }
    if (text_type || o->type == JB_OPT_DURATION || o->type == JB_OPT_SIZE) *out = cJSON_CreateString(node->text);
    else if (o->type == JB_OPT_BOOL) *out = cJSON_CreateBool(v.i != 0);
    else if (o->type == JB_OPT_FLOAT) *out = cJSON_CreateNumber(v.f);
    else if (v.i <= INT64_C(1) << 53 && v.i >= -(INT64_C(1) << 53)) *out = cJSON_CreateNumber((double)v.i);
    else *out = cJSON_CreateString(node->text);
    return *out ? 0 : jb_err(err, JB_ENOMEM, "out of memory for option %s", o->name);
}

/* What a key that is neither reserved nor an option could have been. */
static int unknown_key(const jb_component *c, const jb_yaml_doc *doc, const jb_yaml *key, const char *const *reserved,
                       size_t reserved_count, jb_error *err)
{
    const char *names[2 * MAX_NAMES];
    char list[200];
    size_t own = option_names(c, names), n = own;
    for (size_t i = 0; i < reserved_count && n < 2 * MAX_NAMES; i++) names[n++] = reserved[i];
    const char *near = jb_text_nearest(key->text, names, n);
    join(list, sizeof list, names, own);
    jb_yaml_error(doc, key, err, JB_EINVAL, "%s has no option \"%.80s\"", c->name, key->text);
    if (near) jb_err_hint(err, "did you mean \"%s\"?", near);
    else jb_err_hint(err, "options of %s: %s", c->name, own ? list : "none");
    return JB_EINVAL;
}

int jb_options_from_yaml(const jb_component *c, const jb_yaml_doc *doc, const jb_yaml *map,
                         const char *const *reserved, size_t reserved_count, cJSON **values_out, jb_error *err)
{
    if (map->kind != JB_YAML_MAPPING) return jb_yaml_error(doc, map, err, JB_EINVAL, "expected a mapping of options of %s", c->name);
    cJSON *values = cJSON_CreateObject(), *value;
    int status = values ? 0 : jb_err(err, JB_ENOMEM, "out of memory for the options of %s", c->name);
    for (size_t i = 0; i < map->count && !status; i++) {
        const char *key = map->keys[i]->text;
        size_t k = 0;
        while (k < reserved_count && strcmp(reserved[k], key)) k++;
        if (k < reserved_count) continue;
        const jb_option *o = option_named(c, key);
        if (!o) status = unknown_key(c, doc, map->keys[i], reserved, reserved_count, err);
        else status = from_scalar(c, o, doc, map->items[i], &value, err);
        if (!status && put(values, key, value)) status = jb_err(err, JB_ENOMEM, "out of memory for option %s", key);
    }
    if (status) cJSON_Delete(values);
    else *values_out = values;
    return status;
}

/* ---- for people and programs -------------------------------------------------------- */

static cJSON *row_json(const jb_option *o)
{
    cJSON *row = cJSON_CreateObject(), *choices = o->choices ? cJSON_CreateArray() : NULL;
    int status = !row || (o->choices && !choices) ? JB_ENOMEM : 0;
    if (!status) status = jb_json_set_str(row, "name", o->name);
    if (!status) status = jb_json_set_str(row, "type", TYPES[type_row(o->type)].name);
    if (!status) status = put(row, "default", o->def ? cJSON_CreateString(o->def) : cJSON_CreateNull());
    if (!status && bounded(o)) status = jb_json_set_num(row, "min", o->min);
    if (!status && bounded(o)) status = jb_json_set_num(row, "max", o->max);
    for (size_t i = 0; i < choice_count(o) && !status; i++) {
        cJSON *s = cJSON_CreateString(o->choices[i]);
        if (!s || !cJSON_AddItemToArray(choices, s)) cJSON_Delete(s), status = JB_ENOMEM;
    }
    if (!status && choices) {
        cJSON *taken = choices;
        choices = NULL;
        status = put(row, "choices", taken);
    }
    if (!status && o->unit) status = jb_json_set_str(row, "unit", o->unit);
    if (!status) status = jb_json_set_str(row, "help", o->help ? o->help : "");
    if (!status) status = jb_json_set_bool(row, "required", (o->flags & JB_OPTF_REQUIRED) != 0);
    cJSON_Delete(choices);
    if (!status) return row;
    cJSON_Delete(row);
    return NULL;
}

cJSON *jb_options_json(const jb_component *c)
{
    cJSON *rows = cJSON_CreateArray();
    for (uint32_t i = 0; rows && i < jb_options_count(c); i++) {
        cJSON *row = row_json(jb_options_at(c, i));
        if (!row || !cJSON_AddItemToArray(rows, row)) {
            cJSON_Delete(row);
            cJSON_Delete(rows);
            rows = NULL;
        }
    }
    return rows;
}

int jb_options_help(const jb_component *c, jb_buf *out)
{
    size_t width = 0;
    for (uint32_t i = 0; i < jb_options_count(c); i++) {
        size_t n = strlen(jb_options_at(c, i)->name);
        if (n > width) width = n;
    }
    for (uint32_t i = 0; i < jb_options_count(c); i++) {
        const jb_option *o = jb_options_at(c, i);
        jb_buf_printf(out, "  %-*s  %-8s  %s", (int)width, o->name, TYPES[type_row(o->type)].name, o->help ? o->help : "");
        if (o->flags & JB_OPTF_REQUIRED) jb_buf_puts(out, "  (required)");
        else if (o->def) jb_buf_printf(out, "  (default %s%s%s)", o->def[0] ? o->def : "\"\"", o->unit ? " " : "", o->unit ? o->unit : "");
        if (bounded(o)) jb_buf_printf(out, "  [%g to %g]", o->min, o->max);
        for (size_t k = 0; k < choice_count(o); k++) jb_buf_printf(out, "%s%s", k ? " | " : "  one of ", o->choices[k]);
        jb_buf_puts(out, "\n");
    }
    return out->status;
}
