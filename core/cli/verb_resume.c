/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_resume.c - jaxbench resume RUN: go on where a run stopped, by
 * replaying its journal; refuses when plugins, templates, workloads, gates or the
 * worker are not those it was begun with. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/runs.h"
#include "core/engine/missing.h"
#include "core/engine/rundir.h"
#include "core/report/report.h"

#include <string.h>

static const jb_cli_option OPTIONS[] = {
    { "budget", 0, JB_CLI_LIST, "AMOUNT", "another budget of the run: 5usd, 2Mtokens, 300calls, 30m, or KEY=VALUE", NULL },
    { "no-page", 0, JB_CLI_FLAG, NULL, "do not render report.html at the end", NULL },
};

static int check_identity(const cJSON *manifest, const jb_study *s, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    const char *version = jb_json_str(manifest, "version", "?");
    if (strcmp(version, JB_VERSION) != 0) {
        jb_err(err, JB_ESTATE, "resume refused: the run was begun with jaxbench %s, this is %s", version, JB_VERSION);
        jb_err_hint(err, "use that version, or start a new run");
        return JB_ESTATE;
    }
    cJSON *is = jb_rundir_identity(s, r, l, err);
    if (!is) return err->code ? err->code : JB_ENOMEM;
    int rc = jb_rundir_same_identity(jb_json_obj(manifest, "identity"), is, err);
    cJSON_Delete(is);
    return rc;
}

/* Refuse before anything is asked for when a reply that was paid for is lost;
 * what can be made again is only told. */
static int check_bodies(jb_cli *c, const char *run_dir, jb_error *err)
{
    cJSON *missing = NULL;
    int rc = jb_missing_bodies(run_dir, &missing, err);
    const cJSON *replies = jb_json_obj(missing, "replies"), *first = cJSON_GetArrayItem(jb_json_obj(replies, "first"), 0);
    if (rc == 0 && replies) {
        rc = jb_err(err, JB_ESTATE, "resume refused: %lld of %lld long replies are missing in %s/blobs, the first is %s",
                    (long long)jb_json_i64(replies, "missing", 0), (long long)jb_json_i64(replies, "named", 0), run_dir,
                    cJSON_IsString(first) ? first->valuestring : "?");
        jb_err_hint(err, "they were paid for and are not asked for again: restore them from a copy (a reply also lies in "
                         "cells/<cell>/<candidate>/reply.txt: name it by its SHA-256); `jaxbench report` works without them");
        err->flags |= JB_ERR_USER;
    } else if (rc == 0 && missing && !c->quiet) {
        jb_report_print_missing(missing, c->err, NULL);
    }
    cJSON_Delete(missing);
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
    int rc = manifest ? jb_missing_journal(run_dir, &err) : err.code;
    if (rc == 0) rc = jb_runs_read_study(c, manifest, registry, layout, &study, &err);
    if (rc == 0) rc = check_identity(manifest, study, registry, layout, &err);
    if (rc == 0) rc = check_bodies(c, run_dir, &err);
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
            "name below runs/. Refused, with the difference, when a plugin, template, workload, gate set or\n"
            "the worker changed, and when the journal is lost.\n"
            "A run that a budget stopped goes on with a larger one: jaxbench resume RUN --budget 10usd",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = 1, .run = run,
};
