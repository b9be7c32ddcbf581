/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/gates.c - gate sets of a study: by name, by file or written in
 * place, each row checked against the option table of its checker. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/options/options.h"

#include <jaxbench/checker.h>
#include <string.h>

#define MAX_SETS 64

int jb_study_check_gates(const jb_registry *r, const jb_gateset *g, jb_error *err)
{
    const cJSON *row;
    int number = 0;
    cJSON_ArrayForEach(row, jb_json_obj(jb_gateset_json(g), "rows"))
    {
        const jb_component *c = NULL;
        jb_config *cfg = NULL;
        number++;
        int status = jb_registry_find(r, JB_KIND_CHECKER, jb_json_str(row, "use", ""), &c, err);
        if (!status) status = jb_config_new(c, jb_json_obj(row, "options"), &cfg, err);
        jb_config_free(cfg);
        if (status) return jb_err_context(err, "gate set %s, row %d", jb_gateset_name(g), number), status;
    }
    return 0;
}

static int is_file(const char *name)
{
    size_t n = strlen(name);
    return strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".yaml"));
}

/* The folder's listing, cut down in place to sets, without ".yaml". */
int64_t jb_study_list_gates(const char *suite_root, char ***names_out)
{
    char *dir = jb_fs_join(suite_root, "gates"), **names = NULL;
    int64_t count = dir ? jb_fs_list(dir, &names) : -1, kept = 0;
    for (int64_t i = 0; i < count; i++) {
        size_t n = strlen(names[i]);
        if (n > 5 && !strcmp(names[i] + n - 5, ".yaml")) {
            char *name = names[i];
            name[n - 5] = '\0';
            names[i] = names[kept];
            names[kept++] = name;
        }
    }
    for (int64_t i = kept; i < count; i++) jb_free(names[i]);
    jb_free(dir);
    *names_out = names;
    return count < 0 ? -1 : kept;
}

static int no_such_set(const char *suite_root, const char *name, jb_error *err)
{
    char **names = NULL;
    jb_buf list = JB_BUF_INIT(200);
    int64_t count = jb_study_list_gates(suite_root, &names);
    const char *near = count > 0 ? jb_text_nearest(name, (const char *const *)names, (size_t)count) : NULL;
    for (int64_t i = 0; i < count; i++) jb_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    jb_err(err, JB_ENOTFOUND, "no gate set \"%.60s\" in %.200s/gates", name, suite_root);
    if (err) err->flags |= JB_ERR_USER;
    if (near) jb_err_hint(err, "did you mean \"%s\"? known: %s", near, list.ptr ? list.ptr : "");
    else jb_err_hint(err, "known: %s; a file of your own is named with its path", list.ptr ? list.ptr : "none");
    if (count >= 0) jb_fs_list_free(names, count);
    jb_buf_free(&list);
    return JB_ENOTFOUND;
}

int jb_study_open_gates(const jb_registry *r, const char *suite_root, const char *base_dir, const char *name,
                        jb_gateset **out, jb_error *err)
{
    jb_gateset *g = NULL;
    int file = is_file(name);
    char *path = !file ? jb_asprintf("%s/gates/%s.yaml", suite_root, name)
               : name[0] == '/' || !base_dir ? jb_strdup(name) : jb_fs_join(base_dir, name);
    int status = path ? 0 : jb_err(err, JB_ENOMEM, "out of memory reading gate set %s", name);
    if (!status && !file && !jb_fs_exists(path)) status = no_such_set(suite_root, name, err);
    if (!status) status = jb_gateset_open(path, &g, err);
    if (!status && !file && strcmp(jb_gateset_name(g), name))
        status = jb_err(err, JB_EINVAL, "%s calls itself \"%s\"; the file's name and the set's must agree", path, jb_gateset_name(g));
    if (!status && (status = jb_study_check_gates(r, g, err)) && err && !err->where[0]) jb_err_where(err, path, 0);
    jb_free(path);
    if (status) jb_gateset_free(g);
    else *out = g;
    return status;
}

/* ---- of a study ------------------------------------------------------------------ */

static int add(jb_reading *r, const jb_yaml *node, jb_gateset *g)
{
    jb_study *s = r->s;
    for (size_t i = 0; i < s->gate_count; i++)
        if (!strcmp(jb_gateset_name(s->gates[i]), jb_gateset_name(g))) {
            jb_yaml_error(r->doc, node, r->err, JB_EINVAL, "two gate sets are named \"%s\"", jb_gateset_name(g));
            jb_gateset_free(g);
            return JB_EINVAL;
        }
    s->gates[s->gate_count++] = g;
    return 0;
}

jb_gateset *jb_study_headline(jb_gateset *const *sets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!strcmp(jb_gateset_name(sets[i]), "robust")) return sets[i];
    return count ? sets[count - 1] : NULL;
}

static int read_one(jb_reading *r, const jb_yaml *n)
{
    jb_gateset *g = NULL;
    int status;
    if (n->kind == JB_YAML_SCALAR) {
        status = jb_study_open_gates(r->o->registry, r->o->suite_root, r->base_dir, n->text, &g, r->err);
        /* A fault inside the set's file keeps its own place. */
        if (status && !r->err->where[0]) jb_err_where(r->err, jb_yaml_file(r->doc), n->line);
    } else if (n->kind == JB_YAML_MAPPING) {
        status = jb_gateset_from_yaml(r->doc, n, &g, r->err);
        if (!status && (status = jb_study_check_gates(r->o->registry, g, r->err))) {
            jb_err_where(r->err, jb_yaml_file(r->doc), n->line);
            jb_gateset_free(g);
        }
    } else {
        status = jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a gate set is a name, a file or a mapping with name and rows");
    }
    return status ? status : add(r, n, g);
}

static int read_all(jb_reading *r)
{
    char **names = NULL;
    int64_t n = jb_study_list_gates(r->o->suite_root, &names);
    int status = n > 0 ? 0 : jb_err(r->err, JB_ENOTFOUND, "the study names no gates and %s/gates holds none", r->o->suite_root);
    if (!status && !(r->s->gates = jb_alloc_array((size_t)n, sizeof *r->s->gates))) status = jb_err(r->err, JB_ENOMEM, "out of memory reading gates");
    for (int64_t i = 0; i < n && !status; i++) {
        jb_gateset *g = NULL;
        status = jb_study_open_gates(r->o->registry, r->o->suite_root, r->base_dir, names[i], &g, r->err);
        if (!status) status = add(r, r->root, g);
    }
    if (n >= 0) jb_fs_list_free(names, n);
    return status;
}

int jb_study_read_gates(jb_reading *r, const jb_yaml *n)
{
    jb_study *s = r->s;
    int status = 0;
    if (!n) {
        status = read_all(r);
    } else if (n->kind != JB_YAML_SEQUENCE || !n->count || n->count > MAX_SETS) {
        return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "gates must be a list of 1 to %d gate sets, e.g. [literature, robust]", MAX_SETS);
    } else {
        s->gates = jb_alloc_array(n->count, sizeof *s->gates);
        if (!s->gates) return jb_err(r->err, JB_ENOMEM, "out of memory reading gates");
        for (size_t i = 0; i < n->count && !status; i++) status = read_one(r, n->items[i]);
    }
    if (status) return status;
    s->headline = jb_study_headline(s->gates, s->gate_count);
    return 0;
}
