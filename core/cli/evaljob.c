/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/evaljob.c - see evaljob.h. */
#include "core/cli/evaljob.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/cli/internal.h"
#include "core/evaluate/job.h"
#include "core/evaluate/outcome.h"
#include "core/study/study.h"

#include <stdlib.h>
#include <string.h>

static int add_set(jb_eval_job *e, const jb_registry *r, const jb_layout *l, const char *name, jb_error *err)
{
    if (e->set_count == JB_EVAL_SETS_MAX) return jb_err(err, JB_EINVAL, "more than %d gate sets", JB_EVAL_SETS_MAX);
    for (size_t i = 0; i < e->set_count; i++)
        if (strcmp(jb_gateset_name(e->sets[i]), name) == 0) return 0;
    int rc = jb_study_open_gates(r, l->suite, NULL, name, &e->sets[e->set_count], err);
    if (rc == 0) e->set_count++;
    return rc;
}

/* Every set of the suite, `robust` last. */
static int add_all_sets(jb_eval_job *e, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    char **names = NULL, *dir = jb_fs_join(l->suite, "gates");
    int64_t n = dir ? jb_fs_list(dir, &names) : -1;
    int rc = n > 0 ? 0 : jb_err(err, JB_ENOTFOUND, "there are no gate sets in %s", dir ? dir : "the suite");
    for (int pass = 0; rc == 0 && pass < 2; pass++) {
        for (int64_t i = 0; rc == 0 && i < n; i++) {
            char *dot = strrchr(names[i], '.');
            if (pass == 0 && dot && strcmp(dot, ".yaml") == 0) *dot = 0;
            else if (pass == 0) names[i][0] = 0;
            if (!names[i][0] || (strcmp(names[i], "robust") == 0) != (pass == 1)) continue;
            rc = add_set(e, r, l, names[i], err);
        }
    }
    if (n >= 0) jb_fs_list_free(names, n);
    jb_free(dir);
    return rc;
}

static int add_named_sets(jb_eval_job *e, const jb_registry *r, const jb_layout *l, const char *list, jb_error *err)
{
    int rc = 0;
    while (rc == 0 && *list) {
        size_t n = strcspn(list, ",");
        char *name = jb_strndup(list, n);
        if (n) rc = name ? add_set(e, r, l, name, err) : jb_err(err, JB_ENOMEM, "eval: out of memory");
        jb_free(name);
        list += n + (list[n] == ',');
    }
    return rc;
}

int jb_eval_read_gates(jb_eval_job *e, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    size_t n = 0;
    const char *const *given = jb_cli_list(e->cli, "gates", &n);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++) rc = add_named_sets(e, r, l, given[i], err);
    if (rc == 0 && n && e->set_count == 0) {
        rc = jb_err(err, JB_EINVAL, "--gates names no set");
        jb_err_hint(err, "`jaxbench list gates` shows them; leave the option out for all");
    }
    if (rc == 0 && n) e->headline = jb_gateset_name(jb_study_headline(e->sets, e->set_count));
    return rc;
}

static int read_limits(jb_eval_job *e, jb_error *err)
{
    size_t n = 0;
    const char *const *given = jb_cli_list(e->cli, "limit", &n);
    e->limits = cJSON_CreateObject();
    int rc = e->limits ? 0 : jb_err(err, JB_ENOMEM, "eval: out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const char *eq = strchr(given[i], '=');
        double value = 0;
        if (!eq || jb_text_f64(eq + 1, &value) != 0) return jb_err(err, JB_EINVAL, "--limit %s: expected NAME=NUMBER, e.g. trace_s=15", given[i]);
        char *name = jb_strndup(given[i], (size_t)(eq - given[i]));
        if (name) cJSON_DeleteItemFromObjectCaseSensitive(e->limits, name); /* the last one counts */
        rc = name ? jb_json_set_num(e->limits, name, value) : JB_ENOMEM;
        jb_free(name);
    }
    return rc;
}

static int read_timers(jb_eval_job *e, const jb_registry *r, jb_error *err)
{
    size_t n = 0;
    const char *const *given = jb_cli_list(e->cli, "timer", &n);
    e->timers = cJSON_CreateArray();
    int rc = e->timers ? 0 : jb_err(err, JB_ENOMEM, "eval: out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const jb_component *c;
        size_t first = 0;
        while (strcmp(given[first], given[i]) != 0) first++;
        if (first < i) continue; /* named twice: once */
        rc = jb_registry_find(r, JB_KIND_TIMER, given[i], &c, err);
        cJSON *o = rc == 0 ? cJSON_CreateObject() : NULL;
        if (rc == 0 && (!o || jb_json_set_str(o, "use", given[i]) || !jb_json_add_obj(o, "options") || !cJSON_AddItemToArray(e->timers, o))) {
            cJSON_Delete(o);
            rc = jb_err(err, JB_ENOMEM, "eval: out of memory");
        }
    }
    return rc;
}

/* A 64-bit number, so that equal seeds have equal texts. */
static int read_seed(jb_eval_job *e, jb_error *err)
{
    const char *given = jb_cli_text(e->cli, "seed", "0");
    uint64_t seed;
    if (jb_text_u64(given, &seed) != 0)
        return jb_err(err, JB_EINVAL, "--seed must be a whole number from 0 to 18446744073709551615 (64 bits), not \"%.80s\"", given);
    snprintf(e->seed, sizeof e->seed, "%llu", (unsigned long long)seed);
    return 0;
}

static int check_skips(const char *const *skips, size_t count, jb_error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t k = 0;
        jb_buf all = JB_BUF_INIT(200);
        for (size_t n = 0; jb_study_skippable[n]; n++) jb_buf_printf(&all, "%s%s", n ? ", " : "", jb_study_skippable[n]);
        while (jb_study_skippable[k] && strcmp(jb_study_skippable[k], skips[i]) != 0) k++;
        if (!jb_study_skippable[k]) {
            if (jb_stage_from_name(skips[i])) jb_err(err, JB_EINVAL, "--skip %s: that stage can't be left out", skips[i]);
            else jb_err(err, JB_EINVAL, "--skip: there is no stage \"%.80s\"", skips[i]);
            jb_err_hint(err, "stages that may be skipped: %s%s", all.ptr ? all.ptr : "",
                        jb_stage_from_name(skips[i]) ? "; --stage ends after one" : "");
        }
        jb_buf_free(&all);
        if (!jb_study_skippable[k]) return JB_EINVAL;
    }
    return 0;
}

static int build_job(jb_eval_job *e, jb_error *err)
{
    jb_cli *c = e->cli;
    jb_job_settings s = {
        .check_shape = jb_cli_text(c, "shape", NULL), .variant = jb_cli_text(c, "variant", NULL),
        .last_stage = jb_cli_text(c, "stage", NULL), .phase = "all", .timers = e->timers, .limits = e->limits,
        .isolation = jb_cli_text(c, "isolation", NULL), .store = e->keep, .seed = e->seed,
    };
    s.skip = jb_cli_list(c, "skip", &s.skip_count);
    int rc = check_skips(s.skip, s.skip_count, err);
    if (rc == 0) rc = read_seed(e, err);
    if (rc == 0) rc = jb_job_build(e->workload, (const jb_gateset *const *)e->sets, e->set_count, &s, &e->job, err);
    if (rc == 0) e->judges = jb_stage_from_name(jb_json_str(e->job, "last_stage", "check")); /* a skipped check is no verdict */
    return rc;
}

/* A name of a suite, never a path that happens to hold something. */
static int check_suite(jb_cli *c, const char *name, jb_error *err)
{
    char **names = NULL;
    int64_t count = jb_cli_suites(c, &names, err);
    int known = 0;
    jb_buf all = JB_BUF_INIT(200);
    if (count < 0) return err->code ? err->code : JB_EIO;
    for (int64_t i = 0; i < count; i++) {
        known |= strcmp(names[i], name) == 0;
        jb_buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
    }
    if (!known) {
        jb_err(err, JB_ENOTFOUND, "--suite: there is no suite \"%.80s\"", name);
        jb_err_hint(err, "known: %s; JAXBENCH_SUITE names the folder that holds them", all.ptr ? all.ptr : "none");
    }
    jb_buf_free(&all);
    jb_fs_list_free(names, count);
    return known ? 0 : JB_ENOTFOUND;
}

static int open_workload(jb_eval_job *e, jb_error *err)
{
    const char *suite = jb_cli_text(e->cli, "suite", "jaxbench");
    int rc = check_suite(e->cli, suite, err);
    if (rc == 0) rc = jb_cli_open_suite(e->cli, suite, &e->suite, err);
    if (rc == 0) rc = jb_suite_find(e->suite, jb_cli_text(e->cli, "workload", ""), &e->workload, err);
    return rc;
}

static int open_keep(jb_eval_job *e, jb_error *err)
{
    const char *dir = jb_cli_text(e->cli, "keep", NULL);
    if (!dir) return 0;
    int rc = jb_fs_mkdirs(dir, err);
    if (rc != 0) return rc;
    char *whole = realpath(dir, NULL);
    e->keep = whole ? jb_strdup(whole) : NULL;
    free(whole);
    return e->keep ? 0 : jb_err(err, JB_EIO, "--keep %s can't be resolved", dir);
}

int jb_eval_job_read(jb_cli *c, const jb_registry *r, const jb_layout *l, jb_eval_job *out, jb_error *err)
{
    *out = (jb_eval_job){ .cli = c };
    int rc = open_workload(out, err);
    if (rc == 0) rc = jb_eval_read_gates(out, r, l, err);
    if (rc == 0 && out->set_count == 0) {
        rc = add_all_sets(out, r, l, err);
        if (rc == 0) out->headline = jb_gateset_name(jb_study_headline(out->sets, out->set_count));
    }
    if (rc == 0) rc = read_limits(out, err);
    if (rc == 0) rc = read_timers(out, r, err);
    if (rc == 0) rc = open_keep(out, err);
    return rc ? rc : build_job(out, err);
}

void jb_eval_job_free(jb_eval_job *e)
{
    for (size_t i = 0; i < e->set_count; i++) jb_gateset_free(e->sets[i]);
    cJSON_Delete(e->job);
    cJSON_Delete(e->timers);
    cJSON_Delete(e->limits);
    jb_suite_free(e->suite);
    jb_free(e->keep);
}
