/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/kinds.c - the nouns of the command line: kinds of components, suites
 * and their workloads. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <string.h>

const jb_cli_kind jb_cli_kinds[] = {
    { "method", "methods", JB_KIND_METHOD },       { "backend", "backends", JB_KIND_BACKEND },
    { "checker", "checkers", JB_KIND_CHECKER },    { "timer", "timers", JB_KIND_TIMER },
    { "executor", "executors", JB_KIND_EXECUTOR },
};
const size_t jb_cli_kind_count = sizeof jb_cli_kinds / sizeof *jb_cli_kinds;

/* A folder is a suite when a folder in it holds a workload.yaml. */
static int is_suite(const char *dir)
{
    char **names = NULL;
    int64_t count = jb_fs_list(dir, &names);
    int found = 0;
    for (int64_t i = 0; i < count && !found; i++) {
        char *path = jb_asprintf("%s/%s/workload.yaml", dir, names[i]);
        found = path && jb_fs_exists(path);
        jb_free(path);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    return found;
}

int64_t jb_cli_suites(jb_cli *c, char ***names_out, jb_error *err)
{
    const jb_layout *l = jb_cli_layout(c, err);
    char **names = NULL;
    int64_t count = l ? jb_fs_list(l->suite, &names) : -1, kept = 0;
    if (l && count < 0) {
        jb_err(err, JB_ENOTFOUND, "can't read the folder of suites, %s", l->suite);
        jb_err_hint(err, "set JAXBENCH_SUITE to the folder that holds jaxbench/ and gates/");
    }
    for (int64_t i = 0; i < count; i++) {
        char *dir = jb_fs_join(l->suite, names[i]);
        if (dir && is_suite(dir)) {
            char *name = names[i];
            names[i] = names[kept];
            names[kept++] = name;
        }
        jb_free(dir);
    }
    for (int64_t i = kept; i < count; i++) jb_free(names[i]);
    *names_out = names;
    return count < 0 ? -1 : kept;
}

int jb_cli_open_suite(jb_cli *c, const char *name, jb_suite **out, jb_error *err)
{
    const jb_layout *l = jb_cli_layout(c, err);
    char *dir = l ? jb_fs_join(l->suite, name) : NULL;
    int status = !l ? err->code : dir ? jb_suite_open(dir, out, err) : jb_err(err, JB_ENOMEM, "out of memory reading suites");
    jb_free(dir);
    return status;
}

int jb_cli_find_workload(jb_cli *c, const char *name, jb_suite **suite_out, const jb_workload **out, jb_error *err)
{
    char **names = NULL;
    int64_t count = jb_cli_suites(c, &names, err);
    int status = count < 0 ? err->code : jb_err(err, JB_ENOTFOUND, "no suite holds a workload \"%.60s\"", name);
    for (int64_t i = 0; i < count && status; i++) {
        jb_suite *s = NULL;
        status = jb_cli_open_suite(c, names[i], &s, err);
        if (!status) status = jb_suite_find(s, name, out, err);
        if (status) jb_suite_free(s);
        else *suite_out = s;
        if (status && status != JB_ENOTFOUND) break; /* a broken suite is the thing to say */
    }
    if (count >= 0) jb_fs_list_free(names, count);
    if (!status) jb_err_clear(err);
    return status;
}
