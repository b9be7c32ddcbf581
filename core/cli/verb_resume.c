/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_resume.c - jaxbench resume RUN: go on where a run stopped, by
 * replaying its journal; refuses when plugins, templates, workloads or gates are
 * not those it was begun with. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/runs.h"
#include "core/engine/rundir.h"

#include <string.h>

static const jb_cli_option OPTIONS[] = {
    { "budget", 0, JB_CLI_LIST, "AMOUNT", "another budget of the run: 5usd, 2Mtokens, 300calls, 30m, or KEY=VALUE", NULL },
    { "no-page", 0, JB_CLI_FLAG, NULL, "do not render report.html at the end", NULL },
};

/* The texts of a JSON array, as pointers into it. */
static const char *const *texts_of(const cJSON *array, size_t *count)
{
    int n = cJSON_GetArraySize(array);
    const char **texts = jb_alloc_array(n > 0 ? (size_t)n : 1, sizeof *texts);
    const cJSON *i;
    *count = 0;
    cJSON_ArrayForEach(i, array)
    {
        if (texts && cJSON_IsString(i)) texts[(*count)++] = i->valuestring;
    }
    return texts;
}

/* What a cell may spend is part of what it is: a method may have seen it. */
static int refuse_samples(const jb_runs_sets *sets, jb_error *err)
{
    for (size_t i = 0; i < sets->made_count; i++) {
        if (strncmp(sets->made[i], "budget.samples_per_cell=", 24) != 0) continue;
        jb_err(err, JB_EINVAL, "samples_per_cell can't be changed on resume: it is part of the cells");
        jb_err_hint(err, "start a new run with it; usd, tokens, calls, compile_s and wall can be changed");
        err->flags |= JB_ERR_USER;
        return JB_EINVAL;
    }
    return 0;
}

/* The study as the run keeps it, read the way `run` read it, with --budget over it. */
static int read_study(const jb_cli *c, const cJSON *manifest, const jb_registry *registry, const jb_layout *layout, jb_study **out, jb_error *err)
{
    const cJSON *kept = jb_json_obj(manifest, "study");
    const char *text = jb_json_str(kept, "text", NULL), *path = jb_json_str(kept, "path", "study.yaml");
    if (!text) return jb_err(err, JB_EPARSE, "manifest.json keeps no study");
    jb_study_options o = { .registry = registry, .suite_root = layout->suite, .limit = jb_json_i64(kept, "limit", 0) };
    const char *const *set = texts_of(jb_json_obj(kept, "set"), &o.set_count);
    const char *const *only = texts_of(jb_json_obj(kept, "only"), &o.only_count);
    jb_runs_sets sets = { 0 };
    o.only = only;
    o.prices_text = jb_json_str(jb_json_obj(manifest, "prices"), "text", NULL);
    int rc = set && only ? jb_runs_sets_read(c, set, o.set_count, &sets, err) : jb_err(err, JB_ENOMEM, "resume: out of memory");
    o.set = (const char *const *)sets.all;
    o.set_count = sets.count;
    if (rc == 0) rc = refuse_samples(&sets, err);
    if (rc == 0) rc = jb_study_parse(text, strlen(text), path, &o, out, err);
    jb_runs_sets_free(&sets);
    jb_free((void *)set);
    jb_free((void *)only);
    return rc;
}

static int check_identity(const cJSON *manifest, const jb_study *s, const jb_registry *r, jb_error *err)
{
    const char *version = jb_json_str(manifest, "version", "?");
    if (strcmp(version, JB_VERSION) != 0) {
        jb_err(err, JB_ESTATE, "resume refused: the run was begun with jaxbench %s, this is %s", version, JB_VERSION);
        jb_err_hint(err, "use that version, or start a new run");
        return JB_ESTATE;
    }
    cJSON *is = jb_rundir_identity(s, r, err);
    if (!is) return err->code ? err->code : JB_ENOMEM;
    int rc = jb_rundir_same_identity(jb_json_obj(manifest, "identity"), is, err);
    cJSON_Delete(is);
    return rc;
}

static int resume_in(jb_cli *c, const char *run_dir)
{
    jb_error err = JB_ERROR_INIT;
    jb_study *study = NULL;
    int code;
    const jb_registry *registry = jb_cli_registry(c, &err);
    const jb_layout *layout = registry ? jb_cli_layout(c, &err) : NULL;
    cJSON *manifest = layout ? jb_rundir_read_manifest(run_dir, &err) : NULL;
    int rc = manifest ? read_study(c, manifest, registry, layout, &study, &err) : err.code;
    if (rc == 0) rc = check_identity(manifest, study, registry, &err);
    code = rc == 0 ? jb_runs_conduct(c, study, run_dir) : jb_cli_fail(c, &err);
    jb_study_free(study);
    cJSON_Delete(manifest);
    return code;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    char *run_dir = NULL;
    jb_lock *lock = NULL;
    if (jb_rundir_find(c->argv[0], &run_dir, &err) != 0) return jb_cli_fail(c, &err);
    int code = jb_runs_lock(c, run_dir, &lock);
    if (code == 0) code = resume_in(c, run_dir);
    jb_lock_release(lock);
    jb_free(run_dir);
    return code;
}

const jb_cli_verb jb_verb_resume = {
    .name = "resume", .summary = "go on with a run that stopped", .usage = "RUN",
    .help = "Runs the same methods against the run's journal: what is there costs nothing again, what is\n"
            "missing is done. The end equals that of a run which was never stopped. RUN is a folder, or a\n"
            "name below runs/. Refused, with the difference, when a plugin, template, workload or gate set changed.\n"
            "A run that a budget stopped goes on with a larger one: jaxbench resume RUN --budget 10usd",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0],
    .min_args = 1, .max_args = 1, .run = run,
};
