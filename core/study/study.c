/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/study.c - a study from its bytes to its cells, its end, and the
 * prompt facts that depend on it. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/fs.h"

#include <string.h>

int jb_study_parse(const char *text, size_t len, const char *path, const jb_study_options *o, jb_study **out, jb_error *err)
{
    jb_error local = JB_ERROR_INIT;
    jb_tree *tree = NULL;
    char *dir = NULL;
    if (!err) err = &local;
    jb_err_clear(err);
    jb_study *s = jb_alloc(sizeof *s);
    int status = s && (tree = s->impl = jb_alloc(sizeof *tree)) && (s->path = jb_strdup(path)) && (s->text = jb_strndup(text, len)) &&
                         (dir = jb_fs_dirname(path)) ? 0 : jb_err(err, JB_ENOMEM, "out of memory reading %s", path);
    if (!status) {
        s->text_len = len;
        status = jb_tree_open(tree, text, len, path, o->set, o->set_count, err);
    }
    if (!status) {
        jb_reading r = { .s = s, .o = o, .doc = tree->doc, .root = tree->root, .base_dir = o->base_dir ? o->base_dir : dir, .err = err };
        status = jb_study_read(&r);
        if (!status) status = jb_study_expand(&r);
        if (!status) status = jb_study_check_spend(&r);
        if (!status) status = jb_study_canonical(&r);
        if (status) jb_tree_relabel(tree, err);
    }
    jb_free(dir);
    if (status) {
        if (status != JB_ENOMEM && status != JB_EIO && status != JB_EINTERNAL) err->flags |= JB_ERR_USER;
        jb_study_free(s);
        return status;
    }
    *out = s;
    return 0;
}

int jb_study_load(const char *path, const jb_study_options *o, jb_study **out, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(JB_STUDY_MAX_BYTES);
    int status = jb_fs_read(path, JB_STUDY_MAX_BYTES, &text, err);
    if (status == JB_EINVAL) jb_err_hint(err, "a study file is a page of YAML, at most %u bytes", JB_STUDY_MAX_BYTES);
    if (status == JB_ENOTFOUND) jb_err_hint(err, "name a study file; examples/ holds some");
    if (status && err && status != JB_ENOMEM) err->flags |= JB_ERR_USER;
    if (!status) status = jb_study_parse(text.ptr, text.len, path, o, out, err);
    jb_buf_free(&text);
    return status;
}

static void free_part(jb_study_part *p)
{
    jb_free(p->name);
    jb_free(p->data_dir);
    cJSON_Delete(p->options);
    cJSON_Delete(p->resolved);
}

void jb_study_free(jb_study *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->cell_count; i++) {
        jb_free(s->cells[i].name);
        jb_free(s->cells[i].label);
    }
    for (size_t i = 0; i < s->suite_count; i++) {
        jb_free(s->suites[i].name);
        jb_free(s->suites[i].dir);
        jb_free(s->suites[i].workloads);
        jb_suite_free(s->suites[i].suite);
    }
    for (size_t i = 0; i < s->method_count; i++) free_part(&s->methods[i]);
    for (size_t i = 0; i < s->backend_count; i++) free_part(&s->backends[i]);
    for (size_t i = 0; i < s->gate_count; i++) jb_gateset_free(s->gates[i]);
    for (size_t i = 0; i < s->skip_count; i++) jb_free(s->skip[i]);
    free_part(&s->executor);
    cJSON_Delete(s->timers);
    cJSON_Delete(s->limits);
    cJSON_Delete(s->json);
    jb_prices_free(s->prices);
    if (s->impl) jb_tree_close(s->impl);
    void *blocks[] = { s->path, s->text, s->name, s->seed, s->suites, s->methods, s->backends, s->gates, s->check_shape,
                       s->timed_shape, s->skip, s->cells, s->canonical, s->impl };
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) jb_free(blocks[i]);
    jb_free(s);
}

/* ---- prompt facts --------------------------------------------------------------- */

#define MAX_SHAPES 16

static size_t add_once(const char *shapes[MAX_SHAPES], size_t n, const jb_workload *w, const char *shape)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(shapes[i], shape)) return n;
    if (n == MAX_SHAPES || !jb_workload_has_shape(w, shape)) return n;
    shapes[n] = shape;
    return n + 1;
}

/* Every shape that a candidate will be asked for: the timed one and those of the gates. */
static size_t asked_shapes(const jb_study *s, const jb_workload *w, const char *shapes[MAX_SHAPES])
{
    size_t n = add_once(shapes, 0, w, s->timed_shape ? s->timed_shape : "full");
    if (s->check_shape) return add_once(shapes, n, w, s->check_shape);
    size_t before = n;
    for (size_t g = 0; g < s->gate_count; g++) {
        const cJSON *row, *shape;
        cJSON_ArrayForEach(row, jb_json_obj(jb_gateset_json(s->gates[g]), "rows"))
        {
            cJSON_ArrayForEach(shape, jb_json_path(row, "over.shapes"))
            {
                n = add_once(shapes, n, w, shape->valuestring);
            }
        }
    }
    return n > before ? n : add_once(shapes, n, w, "gate");
}

cJSON *jb_study_facts(const jb_study *s, const jb_workload *w, jb_error *err)
{
    const char *shapes[MAX_SHAPES];
    size_t n = asked_shapes(s, w, shapes);
    jb_buf judged = JB_BUF_INIT(1u << 20);
    for (size_t i = 0; i < s->gate_count; i++) {
        if (i) jb_buf_puts(&judged, "\n");
        jb_gateset_describe(s->gates[i], s->check_shape, &judged);
    }
    cJSON *facts = judged.status ? NULL : jb_workload_facts_for(w, s->variant, shapes, n, judged.ptr, err);
    if (judged.status) jb_err(err, JB_ENOMEM, "out of memory describing the gates");
    jb_buf_free(&judged);
    return facts;
}
