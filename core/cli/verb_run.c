/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_run.c - jaxbench run STUDY: begin a run in a new folder. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/runs.h"
#include "core/engine/rundir.h"

static const jb_cli_option OPTIONS[] = {
    { "only", 0, JB_CLI_LIST, "GLOB", "only cells or workloads that match", NULL },
    { "set", 0, JB_CLI_LIST, "K=V", "override a key of the study, e.g. executor.slots=1", NULL },
    { "budget", 0, JB_CLI_LIST, "AMOUNT", "5usd, 2Mtokens, 300calls, 12samples (a cell), 30m, or KEY=VALUE", NULL },
    { "limit", 0, JB_CLI_INT, "N", "only the first N cells", NULL },
    { "run-dir", 0, JB_CLI_TEXT, "DIR", "folder of the run (default: runs/<date>-<name>-<hash>)", NULL },
    { "no-page", 0, JB_CLI_FLAG, NULL, "do not render report.html at the end", NULL },
    { "yes", 'y', JB_CLI_FLAG, NULL, "do not ask before a run that costs money", NULL },
};

static int has_journal(const char *run_dir)
{
    char *path = jb_fs_join(run_dir, "journal.jsonl");
    int there = path && jb_fs_exists(path);
    jb_free(path);
    return there;
}

static int refuse_existing(jb_cli *c, const char *run_dir)
{
    jb_error err = JB_ERROR_INIT;
    jb_err(&err, JB_EEXIST, "%s holds a run already", run_dir);
    jb_err_hint(&err, "go on with it: jaxbench resume %.200s", run_dir);
    return jb_cli_fail_as(c, JB_EXIT_USAGE, &err);
}

/* Lock first, then look again: two starts at once must not share a folder. */
static int begin(jb_cli *c, const jb_study *s, const jb_registry *registry, const jb_runs_sets *sets, const char *run_dir)
{
    jb_error err = JB_ERROR_INIT;
    jb_lock *lock = NULL;
    int code;
    if (jb_fs_mkdirs(run_dir, &err) != 0) return jb_cli_fail(c, &err);
    code = jb_runs_lock(c, run_dir, &lock);
    if (code != 0) return code;
    if (has_journal(run_dir)) {
        code = refuse_existing(c, run_dir);
        goto out;
    }
    jb_manifest_facts facts = { .study = s, .registry = registry, .run_dir = run_dir, .argc = c->command_argc,
                                .argv = c->command_argv, .limit = jb_cli_i64(c, "limit", 0) };
    facts.set = (const char *const *)sets->all;
    facts.set_count = sets->count;
    facts.only = jb_cli_list(c, "only", &facts.only_count);
    if (jb_rundir_write_manifest(&facts, &err) != 0) code = jb_cli_fail(c, &err);
    else code = jb_runs_conduct(c, s, run_dir);
out:
    jb_lock_release(lock);
    return code;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    jb_study *study = NULL;
    jb_runs_sets sets;
    char *fresh = NULL;
    int code;
    const jb_registry *registry = jb_cli_registry(c, &err);
    const jb_layout *layout = registry ? jb_cli_layout(c, &err) : NULL;
    if (!layout) return jb_cli_fail(c, &err);
    const char *run_dir = jb_cli_text(c, "run-dir", NULL);
    if (run_dir && has_journal(run_dir)) return refuse_existing(c, run_dir);
    jb_study_options o = { .registry = registry, .suite_root = layout->suite, .limit = jb_cli_i64(c, "limit", 0) };
    if (jb_runs_sets_read(c, NULL, 0, &sets, &err) != 0) return jb_cli_fail(c, &err);
    o.set = (const char *const *)sets.all;
    o.set_count = sets.count;
    o.only = jb_cli_list(c, "only", &o.only_count);
    if (jb_study_load(c->argv[0], &o, &study, &err) != 0) {
        code = jb_cli_fail(c, &err);
        goto out;
    }
    code = jb_runs_check_keys(c, study);
    if (code != 0) goto out;
    if (!run_dir) run_dir = fresh = jb_rundir_new_name(study->name);
    if (!run_dir) {
        jb_err(&err, JB_ENOMEM, "run: no name for the folder is left, or memory is out");
        code = jb_cli_fail(c, &err);
    } else {
        code = begin(c, study, registry, &sets, run_dir);
    }
out:
    jb_free(fresh);
    jb_study_free(study);
    jb_runs_sets_free(&sets);
    return code;
}

const jb_cli_verb jb_verb_run = {
    .name = "run", .summary = "run a study", .usage = "STUDY",
    .help = "Crosses the study's workloads, methods, backends and seeds, lets every method search,\n"
            "judges each candidate by all gate sets, and ends with a leaderboard. Everything is kept\n"
            "in the run's folder; a run that was stopped goes on with `jaxbench resume`. A --budget stops\n"
            "new work when it is reached (exit code 5); what had begun ends and is kept.\n\n"
            "  jaxbench run examples/quickstart.yaml\n"
            "  jaxbench run study.yaml --only '8p' --set executor.slots=1\n"
            "  jaxbench run study.yaml --budget 5usd --budget 2h",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = 1, .run = run,
};
