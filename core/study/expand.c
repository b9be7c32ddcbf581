/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/expand.c - suites x methods x backends x seeds into cells, less
 * what `exclude`, --only and --limit take away.  A filter that matches nothing
 * is an error: it is a typing mistake far more often than a wish. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/options/options.h"

#include <jaxbench/method.h>
#include <stdio.h>
#include <string.h>

static const char *const EXCLUDE_KEYS[] = { "suite", "workload", "method", "backend", "seed" };
#define EXCLUDE_COUNT (sizeof EXCLUDE_KEYS / sizeof *EXCLUDE_KEYS)

struct expand {
    jb_reading *r;
    const jb_yaml *exclude;
    size_t *exclude_hits, *only_hits;
    size_t cap;
};

static int no_memory(const jb_reading *r) { return jb_err(r->err, JB_ENOMEM, "out of memory expanding the study"); }

/* ---- filters ----------------------------------------------------------------- */

/* All keys of an exclude row must match. */
static int row_matches(const jb_yaml *row, const jb_study_cell *c)
{
    char seed[24];
    snprintf(seed, sizeof seed, "%lld", (long long)c->seed);
    for (size_t i = 0; i < row->count; i++) {
        const char *key = row->keys[i]->text, *glob = row->items[i]->text;
        int hit = !strcmp(key, "workload") ? jb_study_is_workload(glob, c->workload)
                : !strcmp(key, "suite")    ? jb_text_glob(glob, c->suite->name)
                : !strcmp(key, "method")   ? jb_text_glob(glob, c->method->name)
                : !strcmp(key, "backend")  ? c->backend && jb_text_glob(glob, c->backend->name)
                                           : jb_text_glob(glob, seed);
        if (!hit) return 0;
    }
    return 1;
}

static int excluded(struct expand *x, const jb_study_cell *c)
{
    int hit = 0;
    for (size_t i = 0; x->exclude && i < x->exclude->count; i++)
        if (row_matches(x->exclude->items[i], c)) {
            x->exclude_hits[i]++;
            hit = 1;
        }
    return hit;
}

static int wanted(struct expand *x, const jb_study_cell *c)
{
    const jb_study_options *o = x->r->o;
    int hit = o->only_count == 0;
    for (size_t i = 0; i < o->only_count; i++)
        if (jb_study_is_workload(o->only[i], c->workload) || jb_text_glob(o->only[i], c->name) || jb_text_glob(o->only[i], c->label)) {
            x->only_hits[i]++;
            hit = 1;
        }
    return hit;
}

static int check_exclude(struct expand *x)
{
    const jb_reading *r = x->r;
    for (size_t i = 0; x->exclude && i < x->exclude->count; i++) {
        const jb_yaml *row = x->exclude->items[i];
        int status = jb_yaml_only_keys(r->doc, row, EXCLUDE_KEYS, EXCLUDE_COUNT, r->err);
        if (status) return status;
        if (!row->count) return jb_yaml_error(r->doc, row, r->err, JB_EINVAL, "an empty row would exclude every cell");
        for (size_t k = 0; k < row->count; k++)
            if (row->items[k]->kind != JB_YAML_SCALAR)
                return jb_yaml_error(r->doc, row->items[k], r->err, JB_EINVAL, "%s must be a name or a glob", row->keys[k]->text);
    }
    return 0;
}

static int check_hits(const struct expand *x)
{
    const jb_reading *r = x->r;
    for (size_t i = 0; x->exclude && i < x->exclude->count; i++)
        if (!x->exclude_hits[i]) return jb_yaml_error(r->doc, x->exclude->items[i], r->err, JB_EINVAL, "this row excludes no cell");
    for (size_t i = 0; i < r->o->only_count; i++)
        if (!x->only_hits[i]) {
            jb_err(r->err, JB_EINVAL, "--only %.80s matches no cell of %.200s", r->o->only[i], r->s->path);
            r->err->flags |= JB_ERR_USER;
            return jb_err_hint(r->err, "globs match workloads (8p, gemm, *_softmax) or whole cells (8p+iid+*); see jaxbench validate %.100s", r->s->path);
        }
    if (r->s->cell_count) return 0;
    return jb_yaml_error(r->doc, r->root, r->err, JB_EINVAL, "the study has no cells: everything is excluded");
}

/* ---- one cell ----------------------------------------------------------------------- */

/* What the method itself says it asks for at most; -1 when it can't know, or was built before ABI 1.1. */
static int64_t asked_samples(const jb_study_part *method)
{
    const jb_method_ops *ops = method->component->ops;
    jb_config *config = NULL;
    jb_error ignored = JB_ERROR_INIT; /* the options were checked when they were read */
    if (!JB_HAS(ops, jb_method_ops, samples) || !ops->samples) return -1;
    int64_t n = jb_config_new(method->component, method->options, &config, &ignored) ? -1 : ops->samples(jb_config_data(config));
    jb_config_free(config);
    return n < 0 ? -1 : n;
}

static int hash_part(const jb_reading *r, jb_hasher *h, const char *role, const jb_study_part *p)
{
    jb_buf options = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    const jb_plugin_file *f = jb_registry_file_of(r->o->registry, p->component);
    const char *version = f ? f->manifest->version : "";
    int status = jb_json_print_canonical(p->resolved, &options);
    if (!status) {
        jb_hasher_field(h, role, p->component->name, strlen(p->component->name));
        jb_hasher_field(h, "version", version, strlen(version));
        jb_hasher_field(h, "options", options.ptr, options.len);
    }
    jb_buf_free(&options);
    return status;
}

static int hash_cell(const jb_reading *r, jb_study_cell *c)
{
    const jb_study *s = r->s;
    const char *version = jb_workload_version(c->workload, s->variant);
    char seed[24];
    jb_hasher *h = jb_hasher_new();
    if (!h) return JB_ENOMEM;
    snprintf(seed, sizeof seed, "%lld", (long long)c->seed);
    jb_hasher_field(h, "jaxbench cell", "1", 1);
    jb_hasher_field(h, "workload", version, strlen(version));
    jb_hasher_field(h, "study seed", s->seed, strlen(s->seed));
    jb_hasher_field(h, "seed", seed, strlen(seed));
    /* Names separate two entries that are equal otherwise. */
    jb_hasher_field(h, "name", c->name, strlen(c->name));
    int status = hash_part(r, h, "method", c->method);
    if (!status && c->backend) status = hash_part(r, h, "backend", c->backend);
    jb_hasher_done(h, c->key);
    return status;
}

/* Fill names and key; frees nothing on failure (the study does). */
static int finish_cell(const jb_reading *r, jb_study_cell *c)
{
    const jb_study *s = r->s;
    const char *id = jb_workload_id(c->workload), *backend = c->backend ? c->backend->name : "none";
    c->name = jb_asprintf("%s%s%s+%s+%s+s%lld", s->suite_count > 1 ? c->suite->name : "", s->suite_count > 1 ? "." : "", id,
                          c->method->name, backend, (long long)c->seed);
    c->label = jb_asprintf("%s/%s/%s s%lld", id, c->method->name, backend, (long long)c->seed);
    int64_t asked = asked_samples(c->method);
    c->samples = s->samples_per_cell;
    c->expected = c->samples < 0 ? asked : asked < 0 || c->samples < asked ? c->samples : asked;
    return c->name && c->label ? 0 : no_memory(r);
}

static void clear_cell(jb_study_cell *c)
{
    jb_free(c->name);
    jb_free(c->label);
}

static int add_cell(struct expand *x, jb_study_cell c)
{
    jb_reading *r = x->r;
    jb_study *s = r->s;
    int status = finish_cell(r, &c), skip = 0;
    if (!status) skip = excluded(x, &c) || !wanted(x, &c) || (r->o->limit > 0 && (int64_t)s->cell_count >= r->o->limit);
    if (status || skip) {
        clear_cell(&c);
        return status;
    }
    if (s->cell_count == JB_STUDY_MAX_CELLS) {
        clear_cell(&c);
        return jb_yaml_error(r->doc, r->root, r->err, JB_EINVAL, "the study has more than %u cells", JB_STUDY_MAX_CELLS);
    }
    if (s->cell_count == x->cap) {
        size_t cap = x->cap ? 2 * x->cap : 64;
        jb_study_cell *more = jb_realloc(s->cells, cap * sizeof *more);
        if (!more) {
            clear_cell(&c);
            return no_memory(r);
        }
        s->cells = more;
        x->cap = cap;
    }
    c.index = s->cell_count;
    s->cells[s->cell_count++] = c;
    return hash_cell(r, &s->cells[s->cell_count - 1]) ? no_memory(r) : 0;
}

/* ---- the matrix ----------------------------------------------------------------------- */

static int expand_method(struct expand *x, const jb_study_suite *suite, const jb_workload *w, const jb_study_part *m)
{
    const jb_study *s = x->r->s;
    int alone = (m->component->flags & JB_COMP_NO_BACKEND) != 0, status = 0;
    for (size_t b = 0; b < (alone ? 1 : s->backend_count) && !status; b++)
        for (int64_t k = 0; k < x->r->seeds && !status; k++) {
            jb_study_cell c = { .suite = suite, .workload = w, .method = m, .backend = alone ? NULL : &s->backends[b], .seed = k };
            status = add_cell(x, c);
        }
    return status;
}

/* The named shapes must be there in every workload that will be asked for them. */
static int check_shape(const jb_reading *r, const char *shape, const char *key)
{
    const jb_study *s = r->s;
    for (size_t i = 0; shape && i < s->cell_count; i++) {
        if (jb_workload_has_shape(s->cells[i].workload, shape)) continue;
        jb_error why = JB_ERROR_INIT;
        cJSON_Delete(jb_workload_resolve(s->cells[i].workload, shape, &why)); /* for its message and hint */
        *r->err = why;
        jb_err_context(r->err, "shapes.%s", key);
        return jb_err_where(r->err, jb_yaml_file(r->doc), jb_yaml_get(jb_yaml_get(r->root, "shapes"), key)->line), JB_EINVAL;
    }
    return 0;
}

int jb_study_expand(jb_reading *r)
{
    jb_study *s = r->s;
    struct expand x = { .r = r, .exclude = jb_yaml_get(jb_yaml_get(r->root, "matrix"), "exclude") };
    size_t rows = x.exclude ? x.exclude->count : 0;
    int status = check_exclude(&x);
    x.exclude_hits = jb_alloc_array(rows + 1, sizeof *x.exclude_hits);
    x.only_hits = jb_alloc_array(r->o->only_count + 1, sizeof *x.only_hits);
    if (!status && (!x.exclude_hits || !x.only_hits)) status = no_memory(r);
    for (size_t i = 0; i < s->suite_count; i++)
        for (size_t w = 0; w < s->suites[i].workload_count; w++)
            for (size_t m = 0; m < s->method_count && !status; m++)
                status = expand_method(&x, &s->suites[i], s->suites[i].workloads[w], &s->methods[m]);
    if (!status) status = check_hits(&x);
    if (!status) status = check_shape(r, s->check_shape, "check");
    if (!status) status = check_shape(r, s->timed_shape, "timed");
    jb_free(x.exclude_hits);
    jb_free(x.only_hits);
    return status;
}
