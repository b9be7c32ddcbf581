/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_judge.c - jaxbench judge RUN: what its candidates would be under
 * other gates, for no token.  The run's own verdicts stay as they are. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/evaljob.h"
#include "core/cli/runs.h"
#include "core/engine/judge.h"
#include "core/engine/rundir.h"

#include <string.h>
#include <unistd.h>

#define CHANGES_SHOWN 20

static const char *const PHASES[] = { "all", "loop", NULL };
static const char *const VARIANTS[] = { "published", "repaired", NULL };
static const jb_cli_option OPTIONS[] = {
    { "gates", 'g', JB_CLI_LIST, "SET|FILE", "judge by these sets; the outcome follows robust, else the last\n(default: the run's own sets)", NULL },
    { "variant", 0, JB_CLI_ENUM, "published|repaired", "judge every set on this variant of the inputs", VARIANTS },
    { "phase", 0, JB_CLI_ENUM, "all|loop", "all rows of the sets, or only those that a run asks in its loop (default: all)", PHASES },
};

typedef struct asked {
    char *run_dir;
    cJSON *manifest;
    jb_records *records;
    jb_study *study;
    jb_eval_job gates; /* only the sets of --gates */
    jb_lock *lock;
} asked;

static void asked_free(asked *a)
{
    jb_eval_job_free(&a->gates);
    jb_records_free(a->records);
    jb_study_free(a->study);
    cJSON_Delete(a->manifest);
    jb_lock_release(a->lock);
    jb_free(a->run_dir);
}

/* Modules belong to the workload they were exported for: judged by another version of it they would be somebody else's. */
static int same_workloads(const asked *a, const jb_registry *registry, const jb_layout *layout, jb_error *err)
{
    cJSON *is = jb_rundir_identity(a->study, registry, layout, err), *was = cJSON_CreateObject(), *now = cJSON_CreateObject();
    int rc = is ? (was && now ? 0 : JB_ENOMEM) : err->code ? err->code : JB_ENOMEM;
    if (rc == 0 && (!cJSON_AddItemToObject(was, "workloads", cJSON_Duplicate(jb_json_path(a->manifest, "identity.workloads"), 1)) ||
                    !cJSON_AddItemToObject(now, "workloads", cJSON_DetachItemFromObjectCaseSensitive(is, "workloads"))))
        rc = JB_ENOMEM;
    if (rc == JB_ENOMEM) jb_err(err, rc, "judge: out of memory");
    if (rc == 0) rc = jb_rundir_same_identity(was, now, err);
    cJSON_Delete(is);
    cJSON_Delete(was);
    cJSON_Delete(now);
    return rc;
}

static int read_run(jb_cli *c, const jb_registry *registry, const jb_layout *layout, asked *a, jb_error *err)
{
    int rc = jb_rundir_find(c->argv[0], &a->run_dir, err);
    if (rc == 0) {
        a->manifest = jb_rundir_read_manifest(a->run_dir, err);
        rc = a->manifest ? jb_records_load(a->run_dir, &a->records, err) : err->code;
    }
    if (rc == 0) rc = jb_runs_read_study(c, a->manifest, registry, layout, &a->study, err);
    if (rc == 0) rc = same_workloads(a, registry, layout, err);
    a->gates.cli = c;
    if (rc == 0) rc = jb_eval_read_gates(&a->gates, registry, layout, err);
    return rc;
}

static int print_text(jb_cli *c, const cJSON *o)
{
    static const char *const heads[] = { "METHOD", "BACKEND", "WAS CORRECT", "IS CORRECT" };
    jb_cli_table *t = jb_cli_table_new(4, heads);
    const cJSON *row, *counts = jb_json_obj(o, "counts"), *changes = jb_json_obj(o, "changes");
    if (!t) return JB_ENOMEM;
    fprintf(c->out, "%s under %s (%s rows): %lld candidates, %lld judged from their modules, %lld traced again, %lld known already, %lld stopped before check\n\n",
            jb_json_str(o, "run", "?"), jb_json_str(o, "headline", "?"), jb_json_str(o, "phase", "?"), (long long)jb_json_i64(counts, "candidates", 0),
            (long long)jb_json_i64(counts, "from_modules", 0), (long long)jb_json_i64(counts, "traced_again", 0),
            (long long)jb_json_i64(counts, "known", 0), (long long)jb_json_i64(counts, "kept", 0));
    cJSON_ArrayForEach(row, jb_json_obj(o, "methods"))
    {
        char was[48], is[48];
        snprintf(was, sizeof was, "%lld/%lld", (long long)jb_json_i64(row, "correct_was", 0), (long long)jb_json_i64(row, "counted_was", 0));
        snprintf(is, sizeof is, "%lld/%lld", (long long)jb_json_i64(row, "correct_is", 0), (long long)jb_json_i64(row, "counted_is", 0));
        jb_cli_table_row(t, (const char *const[]){ jb_json_str(row, "method", "?"), jb_json_str(row, "backend", ""), was, is });
    }
    int rc = jb_cli_table_print(t, c), shown = 0, all = cJSON_GetArraySize(changes);
    if (all) fprintf(c->out, "\n%d outcome%s change%s:\n", all, all == 1 ? "" : "s", all == 1 ? "s" : "");
    cJSON_ArrayForEach(row, changes)
    {
        if (shown++ == CHANGES_SHOWN) break;
        fprintf(c->out, "  %s #%lld  %s -> %s  %s\n", jb_json_str(row, "cell", "?"), (long long)jb_json_i64(row, "candidate", 0),
                jb_json_str(row, "was", "?"), jb_json_str(row, "is", "?"), jb_json_str(row, "reason", ""));
    }
    if (all > CHANGES_SHOWN) fprintf(c->out, "  ... %d more; --json lists them all\n", all - CHANGES_SHOWN);
    if (!all) fputs("\nNo outcome changes.\n", c->out);
    return rc;
}

static int judge(jb_cli *c, const jb_layout *layout, const asked *a, cJSON **out, jb_error *err)
{
    const jb_study *s = a->study;
    int live = !c->quiet && isatty(fileno(c->err));
    jb_gateset *const *sets = a->gates.set_count ? a->gates.sets : s->gates;
    size_t count = a->gates.set_count ? a->gates.set_count : s->gate_count;
    jb_judge_options o = {
        .run_dir = a->run_dir, .records = a->records, .study = s, .sets = (const jb_gateset *const *)sets, .set_count = count,
        .headline = jb_study_headline(sets, count), .variant = jb_cli_text(c, "variant", NULL), .phase = jb_cli_text(c, "phase", "all"),
        .pool = { .executor = s->executor.component, .config = s->executor.options,
                  .paths = { .worker = layout->worker, .cache = layout->cache, .suite = layout->suite, .plugins = layout->plugins },
                  .slots = s->slots, .infra_retries = s->infra_retries },
        .progress = c->quiet ? NULL : jb_progress_new(c->err, live, -1), .stop_fd = -1,
    };
    int rc = jb_runs_catch_signals(&o.stop, &o.stop_fd, err);
    if (rc == 0) rc = jb_judge_run(&o, out, err);
    jb_progress_free(o.progress);
    return rc;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    asked a = { 0 };
    cJSON *out = NULL;
    int code = JB_EXIT_OK;
    const jb_registry *registry = jb_cli_registry(c, &err);
    const jb_layout *layout = registry ? jb_cli_layout(c, &err) : NULL;
    int rc = layout ? read_run(c, registry, layout, &a, &err) : err.code;
    if (rc == 0) code = jb_runs_lock(c, a.run_dir, &a.lock);
    if (rc == 0 && code == JB_EXIT_OK) rc = judge(c, layout, &a, &out, &err);
    if (rc != 0) {
        code = jb_cli_fail(c, &err);
    } else if (out) {
        code = c->json ? jb_cli_print_json(c, out) : print_text(c, out) ? JB_EXIT_INTERNAL : JB_EXIT_OK;
        if (!jb_json_bool(out, "complete", 0)) {
            fprintf(c->err, "interrupted; what is judged is kept: the same command goes on\n");
            code = 130;
        }
    }
    cJSON_Delete(out);
    asked_free(&a);
    return code;
}

const jb_cli_verb jb_verb_judge = {
    .name = "judge", .summary = "re-judge the candidates of a run by other gates", .usage = "RUN",
    .help = "Uses the exported modules that the run keeps: no token is spent and no candidate Python runs, unless the\n"
            "gates ask for a shape that was not exported. Verdicts go to judgements/ in the run's folder; the run's own\n"
            "stay. What never reached check keeps its outcome.\n\n"
            "  jaxbench judge runs/... --gates my_gates.yaml\n"
            "  jaxbench judge runs/... -g literature -g robust --json",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = 1, .run = run,
};
