/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/suite.c - a folder of workloads, in order.  All of it is read and
 * checked when it is opened: fifty small files take a few milliseconds, and a
 * mistake in one is found before anything depends on it. */
#include "core/suite/internal.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_WORKLOADS 4096

struct jb_suite {
    jb_workload *workloads;
    size_t count, cap;
    char *dir;
};

/* "12k" -> 12 and "k". */
static long number_of(const char *id, const char **rest)
{
    char *end;
    long n = strtol(id, &end, 10);
    *rest = end;
    return n;
}

/* The two tiers of the public suite first (p, then k), then any other. */
static int tier_rank(const char *rest) { return !strcmp(rest, "p") ? 0 : !strcmp(rest, "k") ? 1 : 2; }

static int by_id(const void *a, const void *b)
{
    const jb_workload *x = a, *y = b;
    const char *rx, *ry;
    long nx = number_of(x->id, &rx), ny = number_of(y->id, &ry);
    int d = tier_rank(rx) - tier_rank(ry);
    if (!d && tier_rank(rx) == 2) d = strcmp(rx, ry);
    if (!d) d = (nx > ny) - (nx < ny);
    return d ? d : strcmp(x->name, y->name);
}

static int add(jb_suite *s, const char *dir, jb_error *err)
{
    if (s->count == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 16;
        jb_workload *more = cap <= MAX_WORKLOADS ? jb_realloc(s->workloads, cap * sizeof *more) : NULL;
        if (!more) return jb_err(err, JB_ENOMEM, "out of memory reading the suite %s", s->dir);
        s->workloads = more;
        s->cap = cap;
    }
    int status = jb_workload_load(dir, &s->workloads[s->count], err);
    if (!status) s->count++;
    return status;
}

static int scan(jb_suite *s, jb_error *err)
{
    char **names = NULL;
    int64_t n = jb_fs_list(s->dir, &names);
    if (n < 0) {
        jb_err(err, JB_ENOTFOUND, "no suite in %s", s->dir);
        return jb_err_hint(err, "a suite is a folder with one folder a workload; JAXBENCH_SUITE names the folder that holds suites"), JB_ENOTFOUND;
    }
    int status = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        char *dir = jb_fs_join(s->dir, names[i]), *yaml = dir ? jb_fs_join(dir, "workload.yaml") : NULL;
        if (!yaml) status = jb_err(err, JB_ENOMEM, "out of memory reading the suite %s", s->dir);
        else if (jb_fs_exists(yaml)) status = add(s, dir, err); /* other folders may hold what the suite likes */
        jb_free(yaml);
        jb_free(dir);
    }
    jb_fs_list_free(names, n);
    return status;
}

static int check_unique(const jb_suite *s, jb_error *err)
{
    for (size_t i = 0; i < s->count; i++)
        for (size_t k = 0; k < i; k++)
            if (!strcmp(s->workloads[i].id, s->workloads[k].id))
                return jb_err(err, JB_EINVAL, "two workloads have the id %s: %s and %s", s->workloads[i].id, s->workloads[k].dir, s->workloads[i].dir);
    return 0;
}

int jb_suite_open(const char *dir, jb_suite **out, jb_error *err)
{
    jb_suite *s = jb_alloc(sizeof *s);
    int status = s && (s->dir = jb_strdup(dir)) ? 0 : jb_err(err, JB_ENOMEM, "out of memory reading the suite %s", dir);
    if (!status) status = scan(s, err);
    if (!status) status = check_unique(s, err);
    if (status) {
        jb_suite_free(s);
        return status;
    }
    if (s->count) qsort(s->workloads, s->count, sizeof *s->workloads, by_id);
    *out = s;
    return 0;
}

void jb_suite_free(jb_suite *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) jb_workload_clear(&s->workloads[i]);
    jb_free(s->workloads);
    jb_free(s->dir);
    jb_free(s);
}

size_t jb_suite_count(const jb_suite *s) { return s->count; }
const jb_workload *jb_suite_at(const jb_suite *s, size_t i) { return i < s->count ? &s->workloads[i] : NULL; }

static int is_called(const jb_workload *w, const char *name)
{
    size_t n = strlen(w->id);
    return !strcmp(w->id, name) || !strcmp(w->name, name) || (!strncmp(name, w->id, n) && name[n] == '_' && !strcmp(name + n + 1, w->name));
}

/* Ids are two or three characters, where the edit distance is lenient to a
 * fault and a neighbour on the keyboard is the usual slip: names first, then
 * ids that share the number. */
static const char *nearest(const jb_suite *s, const char *name)
{
    const char *names[MAX_WORKLOADS];
    for (size_t i = 0; i < s->count; i++) names[i] = s->workloads[i].name;
    const char *near = jb_text_nearest(name, names, s->count), *rest, *own;
    if (near) return near;
    long number = number_of(name, &rest);
    for (size_t i = 0; i < s->count && rest != name; i++)
        if (number_of(s->workloads[i].id, &own) == number) return s->workloads[i].id;
    return NULL;
}

int jb_suite_find(const jb_suite *s, const char *name, const jb_workload **out, jb_error *err)
{
    for (size_t i = 0; i < s->count; i++)
        if (is_called(&s->workloads[i], name)) {
            *out = &s->workloads[i];
            return 0;
        }
    char list[160] = "";
    for (size_t i = 0; i < s->count; i++) {
        size_t used = strlen(list);
        if (used + strlen(s->workloads[i].id) + 3 < sizeof list) snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", s->workloads[i].id);
    }
    const char *near = nearest(s, name);
    jb_err(err, JB_ENOTFOUND, "no workload \"%.60s\" in the suite %s", name, s->dir);
    if (err) err->flags |= JB_ERR_USER;
    if (near) jb_err_hint(err, "did you mean \"%s\"? known: %s", near, list);
    else jb_err_hint(err, "known: %s", list);
    return JB_ENOTFOUND;
}
