/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/facts.c - the prompt facts of a workload (docs/formats.md): what a
 * model or a person is told, as plain text.  A table of names and functions;
 * nothing here is told that a candidate must not know. */
#include "core/suite/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <string.h>

#define MAX_FACT (2u << 20)
#define MAX_SHAPES 16
#define COUNT(a) (sizeof(a) / sizeof *(a))

struct ask {
    const jb_workload *w;
    const char *variant, *judged, *speed;
    const char *shapes[MAX_SHAPES];
    cJSON *resolved[MAX_SHAPES];
    size_t shape_count;
};

static void text_of(const cJSON *v, jb_buf *out)
{
    if (cJSON_IsString(v)) jb_buf_puts(out, v->valuestring);
    else if (cJSON_IsNumber(v)) jb_buf_printf(out, "%.15g", v->valuedouble);
}

static void bracketed(const cJSON *list, jb_buf *out)
{
    const cJSON *i;
    jb_buf_puts(out, "[");
    cJSON_ArrayForEach(i, list)
    {
        if (i != list->child) jb_buf_puts(out, ", ");
        text_of(i, out);
    }
    jb_buf_puts(out, "]");
}

static void key_values(const cJSON *map, const char *between, jb_buf *out)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, map)
    {
        if (i != map->child) jb_buf_puts(out, between);
        jb_buf_printf(out, "%s=", i->string);
        text_of(i, out);
    }
}

/* "normal, std 0.02" of {normal: {std: 0.02}}. */
static void draw_words(const cJSON *draw, jb_buf *out)
{
    const cJSON *of = draw ? draw->child : NULL, *i;
    if (!of) return;
    jb_buf_puts(out, of->string);
    cJSON_ArrayForEach(i, of)
    {
        jb_buf_printf(out, ", %s ", i->string);
        text_of(i, out);
    }
}

/* ---- one function a fact ---------------------------------------------------- */

static void fact_id(const struct ask *a, jb_buf *out) { jb_buf_puts(out, a->w->id); }
static void fact_name(const struct ask *a, jb_buf *out) { jb_buf_puts(out, a->w->name); }
static void fact_summary(const struct ask *a, jb_buf *out) { jb_buf_puts(out, jb_json_str(a->w->spec, "summary", "")); }
static void fact_formula(const struct ask *a, jb_buf *out) { jb_buf_puts(out, jb_json_str(a->w->spec, "formula", "")); }
static void fact_judged(const struct ask *a, jb_buf *out) { jb_buf_puts(out, a->judged ? a->judged : ""); }
static void fact_speed(const struct ask *a, jb_buf *out) { jb_buf_puts(out, a->speed ? a->speed : "Speed is not measured."); }

/* Which variant the text is of, and who draws the inputs. */
static void fact_variant(const struct ask *a, jb_buf *out)
{
    static const char *const SAME = "the two variants compute the same and differ in their inputs",
                             *const OTHER = "the other variant computes something else";
    jb_buf_printf(out, "This is the variant `%s`; %s. The harness draws all inputs (one set of them is a draw): `published` ones as `create_inputs` does, `repaired` ones %s. "
                  "Your file needs no `create_inputs`.", a->variant, jb_json_bool(a->w->spec, "same_formula", 1) ? SAME : OTHER,
                  strcmp(a->variant, "repaired") ? "otherwise" : "as the table of inputs says");
}


/* Without the comment and docstring at its head, which speak to people who have the suite at hand. */
static void fact_source(const struct ask *a, jb_buf *out)
{
    const char *s = a->w->source, *end = s + a->w->source_len;
    while (s < end && (*s == '#' || *s == '\n')) {
        const char *lf = memchr(s, '\n', (size_t)(end - s));
        s = lf ? lf + 1 : end;
    }
    if (end - s > 3 && !memcmp(s, "\"\"\"", 3)) {
        const char *close = memmem(s + 3, (size_t)(end - s - 3), "\"\"\"", 3);
        if (close) s = close + 3;
    }
    while (s < end && *s == '\n') s++;
    jb_buf_append(out, s, (size_t)(end - s));
}

static void fact_signature(const struct ask *a, jb_buf *out)
{
    const cJSON *inputs = jb_json_obj(a->w->spec, "inputs"), *i;
    jb_buf_puts(out, "workload(");
    cJSON_ArrayForEach(i, inputs)
    {
        jb_buf_printf(out, "%s%s", i == inputs->child ? "" : ", ", jb_json_str(i, "name", ""));
    }
    jb_buf_puts(out, ")");
}

static void fact_inputs(const struct ask *a, jb_buf *out)
{
    const cJSON *i;
    int number = 0, repaired = !strcmp(a->variant, "repaired");
    cJSON_ArrayForEach(i, jb_json_obj(a->w->spec, "inputs"))
    {
        jb_buf_printf(out, "- %s ", jb_json_str(i, "name", ""));
        bracketed(jb_json_obj(i, "shape"), out);
        jb_buf_printf(out, " %s, %s, drawn: ", jb_json_str(i, "dtype", ""), jb_json_str(i, "role", ""));
        if (repaired || !jb_json_str(i, "published", NULL)) draw_words(jb_json_obj(i, "repaired"), out);
        else jb_buf_puts(out, jb_json_str(i, "published", ""));
        jb_buf_puts(out, "\n");
    }
    const cJSON *outputs = jb_json_obj(a->w->spec, "outputs");
    cJSON_ArrayForEach(i, outputs)
    {
        jb_buf_puts(out, "- returns ");
        if (cJSON_GetArraySize(outputs) > 1) jb_buf_printf(out, "(output %d) ", number++);
        bracketed(jb_json_obj(i, "shape"), out);
        jb_buf_printf(out, " %s\n", jb_json_str(i, "dtype", ""));
    }
}

static void shape_line(const struct ask *a, size_t k, jb_buf *out)
{
    const cJSON *i, *inputs = jb_json_obj(a->resolved[k], "inputs"), *outputs = jb_json_obj(a->resolved[k], "outputs");
    jb_buf_printf(out, "- %s (", a->shapes[k]);
    key_values(cJSON_GetObjectItemCaseSensitive(jb_json_obj(a->w->spec, "shapes"), a->shapes[k]), ", ", out);
    jb_buf_puts(out, "): ");
    cJSON_ArrayForEach(i, inputs)
    {
        jb_buf_printf(out, "%s%s ", i == inputs->child ? "" : ", ", jb_json_str(i, "name", ""));
        bracketed(jb_json_obj(i, "dims"), out);
    }
    jb_buf_puts(out, " -> ");
    cJSON_ArrayForEach(i, outputs)
    {
        if (i != outputs->child) jb_buf_puts(out, ", ");
        bracketed(jb_json_obj(i, "dims"), out);
    }
    jb_buf_puts(out, "\n");
}

static void fact_shapes(const struct ask *a, jb_buf *out)
{
    for (size_t k = 0; k < a->shape_count; k++) shape_line(a, k, out);
}

static void fact_config(const struct ask *a, jb_buf *out)
{
    for (size_t k = 0; k < a->shape_count; k++) {
        jb_buf_printf(out, "- CONFIG at %s: ", a->shapes[k]);
        key_values(jb_json_obj(a->resolved[k], "config"), ", ", out);
        jb_buf_puts(out, "\n");
    }
}

static void fact_full_shape(const struct ask *a, jb_buf *out)
{
    key_values(jb_json_path(a->w->spec, "shapes.full"), ", ", out);
}

static void fact_policies(const struct ask *a, jb_buf *out)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, jb_json_obj(a->w->spec, "policies"))
    {
        jb_buf_puts(out, "- ");
        text_of(i, out);
        jb_buf_puts(out, "\n");
    }
}

static const struct { const char *key; void (*write)(const struct ask *a, jb_buf *out); } FACTS[] = {
    { "id", fact_id },                 { "name", fact_name },         { "summary", fact_summary },
    { "formula", fact_formula },       { "signature", fact_signature }, { "inputs_table", fact_inputs },
    { "shapes_table", fact_shapes },   { "config_table", fact_config }, { "full_shape", fact_full_shape },
    { "policies", fact_policies },     { "judged", fact_judged },     { "reference_source", fact_source },
    { "variant", fact_variant },       { "speed", fact_speed },
};

/* ---- all of them -------------------------------------------------------------- */

/* Trailing newlines are the template's to write. */
static int add_fact(cJSON *o, const char *key, const jb_buf *text)
{
    size_t n = text->len;
    while (n && text->ptr[n - 1] == '\n') n--;
    jb_view v = { n ? text->ptr : "", n };
    return text->status ? text->status : jb_json_set_view(o, key, v);
}

cJSON *jb_workload_facts_for(const jb_workload *w, const char *variant, const char *const *shapes, size_t shape_count,
                             const char *judged, const char *speed, jb_error *err)
{
    static const char *const usual[] = { "full", "gate", "ragged" };
    struct ask a = { .w = w, .variant = variant, .judged = judged, .speed = speed };
    jb_buf text = JB_BUF_INIT(MAX_FACT);
    cJSON *o = NULL;
    int status = 0, given = shapes != NULL;
    if (!jb_workload_version(w, variant)[0]) status = jb_err(err, JB_EINVAL, "there is no variant \"%.40s\"; it is published or repaired", variant);
    if (!given) shapes = usual, shape_count = COUNT(usual);
    for (size_t i = 0; i < shape_count && a.shape_count < MAX_SHAPES && !status; i++) {
        if (!given && !jb_workload_has_shape(w, shapes[i])) continue;
        a.shapes[a.shape_count] = shapes[i];
        a.resolved[a.shape_count] = jb_workload_resolve(w, shapes[i], err);
        if (!a.resolved[a.shape_count++]) status = err && err->code ? err->code : JB_EINVAL;
    }
    if (!status && !(o = cJSON_CreateObject())) status = JB_ENOMEM;
    for (size_t i = 0; i < COUNT(FACTS) && !status; i++) {
        jb_buf_reset(&text);
        FACTS[i].write(&a, &text);
        status = add_fact(o, FACTS[i].key, &text);
    }
    if (status == JB_ENOMEM) jb_err(err, status, "out of memory describing workload %s", w->id);
    if (status) cJSON_Delete(o), o = NULL;
    for (size_t i = 0; i < a.shape_count; i++) cJSON_Delete(a.resolved[i]);
    jb_buf_free(&text);
    return o;
}

cJSON *jb_workload_facts(const jb_workload *w, const char *variant, jb_error *err)
{
    return jb_workload_facts_for(w, variant, NULL, 0, NULL, NULL, err);
}
