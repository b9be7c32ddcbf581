/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/suites.c - the `suites:` of a study: which folder, and which of its
 * workloads the globs of `only` select. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/text.h"

#include <stdio.h>
#include <string.h>

#define MAX_SUITES 64
static const char *const KEYS[] = { "use", "only" };

static int no_memory(const jb_reading *r) { return jb_err(r->err, JB_ENOMEM, "out of memory reading the study's suites"); }

/* Folders beside the named one, as nearest names. */
static int no_suite(jb_reading *r, const jb_yaml *node, const char *name)
{
    char **names = NULL;
    int64_t count = jb_fs_list(r->o->suite_root, &names);
    const char *suites[MAX_SUITES];
    size_t n = 0;
    for (int64_t i = 0; i < count && n < MAX_SUITES; i++)
        if (strcmp(names[i], "gates") && strcmp(names[i], "distributions")) suites[n++] = names[i];
    int status = jb_study_unknown(r, node, "suite", name, suites, n);
    jb_err_context(r->err, "in %.150s", r->o->suite_root);
    if (count >= 0) jb_fs_list_free(names, count);
    return status;
}

int jb_study_is_workload(const char *glob, const jb_workload *w)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s_%s", jb_workload_id(w), jb_workload_name(w));
    return jb_text_glob(glob, jb_workload_id(w)) || jb_text_glob(glob, jb_workload_name(w)) || jb_text_glob(glob, whole);
}

static int no_match(jb_reading *r, const jb_yaml *glob, const jb_study_suite *s)
{
    char list[200] = "";
    for (size_t i = 0; i < jb_suite_count(s->suite); i++) {
        size_t used = strlen(list);
        const char *id = jb_workload_id(jb_suite_at(s->suite, i));
        if (used + strlen(id) + 3 < sizeof list) snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", id);
    }
    jb_yaml_error(r->doc, glob, r->err, JB_EINVAL, "\"%.80s\" matches no workload of the suite %s", glob->text, s->name);
    return jb_err_hint(r->err, "its workloads: %s", list), JB_EINVAL;
}

/* Mark what each glob selects; a glob that selects nothing is a mistake. */
static int select_only(jb_reading *r, const jb_yaml *only, jb_study_suite *s)
{
    size_t n = jb_suite_count(s->suite);
    if (only && (only->kind != JB_YAML_SEQUENCE || !only->count))
        return jb_yaml_error(r->doc, only, r->err, JB_EINVAL, "only must be a list of ids, names or globs, e.g. [8p, \"*k\"]");
    s->workloads = jb_alloc_array(n ? n : 1, sizeof *s->workloads);
    if (!s->workloads) return no_memory(r);
    for (size_t k = 0; only && k < only->count; k++) {
        size_t hits = 0;
        const char *glob;
        int status = jb_yaml_str(r->doc, only->items[k], &glob, r->err);
        for (size_t i = 0; i < n && !status; i++) hits += (size_t)jb_study_is_workload(glob, jb_suite_at(s->suite, i));
        if (!status && !hits) status = no_match(r, only->items[k], s);
        if (status) return status;
    }
    for (size_t i = 0; i < n; i++) {
        int chosen = !only;
        for (size_t k = 0; only && k < only->count && !chosen; k++) chosen = jb_study_is_workload(only->items[k]->text, jb_suite_at(s->suite, i));
        if (chosen) s->workloads[s->workload_count++] = jb_suite_at(s->suite, i);
    }
    return 0;
}

static int read_one(jb_reading *r, const jb_yaml *n, jb_study_suite *s)
{
    const jb_yaml *use = n->kind == JB_YAML_SCALAR ? n : jb_yaml_get(n, "use");
    const char *name;
    if (n->kind == JB_YAML_SEQUENCE) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a suite is a name or {use: NAME, only: [...]}");
    int status = n->kind == JB_YAML_MAPPING ? jb_yaml_only_keys(r->doc, n, KEYS, 2, r->err) : 0;
    if (!status && !use) status = jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a suite needs `use`, its name");
    if (!status) status = jb_yaml_str(r->doc, use, &name, r->err);
    if (status) return status;
    if (!jb_study_good_name(name)) return jb_yaml_error(r->doc, use, r->err, JB_EINVAL, "\"%.60s\" is no name of a suite", name);
    s->name = jb_strdup(name);
    s->dir = jb_fs_join(r->o->suite_root, name);
    if (!s->name || !s->dir) return no_memory(r);
    if (!jb_fs_is_dir(s->dir)) return no_suite(r, use, name);
    status = jb_suite_open(s->dir, &s->suite, r->err);
    if (status && !r->err->where[0]) jb_err_where(r->err, jb_yaml_file(r->doc), use->line);
    if (!status && !jb_suite_count(s->suite)) status = jb_yaml_error(r->doc, use, r->err, JB_EINVAL, "the suite %s holds no workloads", name);
    return status ? status : select_only(r, jb_yaml_get(n, "only"), s);
}

int jb_study_read_suites(jb_reading *r, const jb_yaml *n)
{
    jb_study *s = r->s;
    if (n->kind != JB_YAML_SEQUENCE || !n->count || n->count > MAX_SUITES)
        return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "suites must be a list of 1 to %d entries such as {use: jaxbench}", MAX_SUITES);
    s->suites = jb_alloc_array(n->count, sizeof *s->suites);
    if (!s->suites) return no_memory(r);
    for (size_t i = 0; i < n->count; i++) {
        int status = read_one(r, n->items[i], &s->suites[s->suite_count++]);
        if (status) return status;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(s->suites[k].name, s->suites[i].name))
                return jb_yaml_error(r->doc, n->items[i], r->err, JB_EINVAL, "the suite %s is named twice", s->suites[i].name);
    }
    return 0;
}
