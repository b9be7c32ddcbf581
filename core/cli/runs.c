/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/runs.c - see runs.h. */
#include "core/cli/runs.h"
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/render.h"
#include "core/engine/calls.h"
#include "core/engine/engine.h"
#include "core/engine/index.h"
#include "core/engine/missing.h"
#include "core/engine/rundir.h"
#include "core/evaluate/job.h"
#include "core/http/secret.h"
#include "core/report/report.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- signals ---------------------------------------------------------------------------- */

/* A handler can reach only globals.  A handler and a pipe rather than signalfd: a
 * blocked mask would be inherited by every process that plugins spawn. */
static volatile int stop_signal;
static int stop_pipe[2] = { -1, -1 };

static void on_signal(int number)
{
    int saved = errno;
    if (stop_signal) _exit(128 + number);
    stop_signal = number;
    if (write(stop_pipe[1], "", 1) < 0) errno = 0; /* the flag is looked at anyway */
    errno = saved;
}

int jb_runs_catch_signals(const volatile int **stop, int *stop_fd, jb_error *err)
{
    static const int SIGNALS[] = { SIGINT, SIGTERM, SIGHUP };
    struct sigaction a = { .sa_handler = on_signal }, was;
    if (stop_pipe[0] < 0 && pipe2(stop_pipe, O_CLOEXEC | O_NONBLOCK) != 0) return jb_err(err, JB_EIO, "pipe: %s", strerror(errno));
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof SIGNALS / sizeof SIGNALS[0]; i++) {
        /* Under nohup a hang-up is ignored already, and stays so. */
        if (SIGNALS[i] == SIGHUP && sigaction(SIGHUP, NULL, &was) == 0 && was.sa_handler == SIG_IGN) continue;
        if (sigaction(SIGNALS[i], &a, NULL) != 0) return jb_err(err, JB_EIO, "sigaction: %s", strerror(errno));
    }
    *stop = &stop_signal;
    *stop_fd = stop_pipe[0];
    return 0;
}

/* ---- overrides ------------------------------------------------------------------------------- */

void jb_runs_sets_free(jb_runs_sets *sets)
{
    for (size_t i = 0; i < sets->made_count; i++) jb_free(sets->made[i]);
    jb_free(sets->made);
    jb_free((void *)sets->all);
    *sets = (jb_runs_sets){ 0 };
}

int jb_runs_sets_read(const jb_cli *c, const char *const *before, size_t before_count, jb_runs_sets *out, jb_error *err)
{
    size_t budgets, own;
    const char *const *set = jb_cli_list(c, "set", &own), *const *budget = jb_cli_list(c, "budget", &budgets);
    *out = (jb_runs_sets){ .all = jb_alloc_array(before_count + own + budgets + 1, sizeof *out->all),
                           .made = jb_alloc_array(budgets + 1, sizeof *out->made) };
    int rc = out->all && out->made ? 0 : jb_err(err, JB_ENOMEM, "out of memory");
    for (size_t i = 0; rc == 0 && i < before_count; i++) out->all[out->count++] = before[i];
    for (size_t i = 0; rc == 0 && i < own; i++) out->all[out->count++] = set[i];
    for (size_t i = 0; rc == 0 && i < budgets; i++) {
        rc = jb_budget_flag(budget[i], &out->made[out->made_count], err);
        if (rc == 0) out->all[out->count++] = out->made[out->made_count++];
    }
    if (rc != 0) jb_runs_sets_free(out);
    return rc;
}

/* ---- the lock ------------------------------------------------------------------------------ */

int jb_runs_lock(jb_cli *c, const char *run_dir, jb_lock **out)
{
    jb_error err = JB_ERROR_INIT;
    char *path = jb_fs_join(run_dir, "lock");
    int rc = path ? jb_lock_take(path, out, &err) : jb_err(&err, JB_ENOMEM, "lock: out of memory");
    jb_free(path);
    if (rc == 0) return 0;
    return rc == JB_EPERM ? jb_cli_fail_as(c, JB_EXIT_LOCKED, &err) : jb_cli_fail(c, &err);
}

/* ---- the study of a run ----------------------------------------------------------------------- */

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

int jb_runs_read_study(const jb_cli *c, const cJSON *manifest, const jb_registry *registry, const jb_layout *layout, jb_study **out, jb_error *err)
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
    int rc = set && only ? jb_runs_sets_read(c, set, o.set_count, &sets, err) : jb_err(err, JB_ENOMEM, "run: out of memory");
    o.set = (const char *const *)sets.all;
    o.set_count = sets.count;
    if (rc == 0) rc = refuse_samples(&sets, err);
    if (rc == 0) rc = jb_study_parse(text, strlen(text), path, &o, out, err);
    jb_runs_sets_free(&sets);
    jb_free((void *)set);
    jb_free((void *)only);
    return rc;
}

/* ---- from the study to the plan --------------------------------------------------------------- */

/* What all cells of one workload share. */
typedef struct prepared {
    const jb_workload *workload;
    cJSON *facts, *job;
} prepared;

typedef struct plan {
    jb_cell_plan *cells;
    prepared *workloads;
    size_t workload_count;
    char *store;
    int64_t expected;
} plan;

static void plan_free(plan *p)
{
    for (size_t i = 0; i < p->workload_count; i++) {
        cJSON_Delete(p->workloads[i].facts);
        cJSON_Delete(p->workloads[i].job);
    }
    jb_free(p->workloads);
    jb_free(p->cells);
    jb_free(p->store);
}

static int prepare(plan *p, const jb_study *s, const jb_workload *w, prepared **out, jb_error *err)
{
    for (size_t i = 0; i < p->workload_count; i++) {
        if (p->workloads[i].workload == w) {
            *out = &p->workloads[i];
            return 0;
        }
    }
    jb_job_settings settings = {
        .check_shape = s->check_shape, .timed_shape = s->timed_shape, .skip = (const char *const *)s->skip,
        .skip_count = s->skip_count, .timers = s->timers, .limits = s->limits, .isolation = s->isolation,
        .store = p->store, .seed = s->seed,
    };
    prepared *one = &p->workloads[p->workload_count++]; /* counted before it is filled: plan_free frees what there is */
    one->workload = w;
    one->facts = jb_study_facts(s, w, err);
    int rc = one->facts ? 0 : err->code ? err->code : JB_ENOMEM;
    if (rc == 0) rc = jb_job_build(w, (const jb_gateset *const *)s->gates, s->gate_count, &settings, &one->job, err);
    *out = one;
    return rc;
}

static int plan_build(plan *p, const jb_study *s, const char *run_dir, jb_error *err)
{
    char *root = realpath(run_dir, NULL); /* the worker has another working directory */
    p->store = root ? jb_fs_join(root, "blobs") : NULL;
    free(root);
    p->cells = jb_alloc_array(s->cell_count ? s->cell_count : 1, sizeof *p->cells);
    p->workloads = jb_alloc_array(s->cell_count ? s->cell_count : 1, sizeof *p->workloads);
    int rc = p->store && p->cells && p->workloads ? 0 : jb_err(err, JB_ENOMEM, "run: out of memory");
    for (size_t i = 0; rc == 0 && i < s->cell_count; i++) {
        const jb_study_cell *c = &s->cells[i];
        prepared *w;
        rc = prepare(p, s, c->workload, &w, err);
        if (rc != 0) break;
        p->cells[i] = (jb_cell_plan){
            .key = c->name, .label = c->label, .identity = c->name,
            .method = c->method->component, .method_options = c->method->options, .method_data = c->method->data_dir,
            .backend = c->backend ? c->backend->component : NULL, .backend_options = c->backend ? c->backend->options : NULL,
            .price = c->backend && c->backend->price ? &c->backend->price->price : NULL,
            .max_output = c->backend ? jb_json_i64(c->backend->resolved, "max_tokens", 0) : 0,
            .backend_name = c->backend ? c->backend->name : NULL, .limits = c->backend ? &c->backend->calls : NULL,
            .facts = w->facts, .job = w->job, .samples = c->samples, .expected = c->expected,
        };
        p->expected = p->expected < 0 || c->expected < 0 ? -1 : p->expected + c->expected;
    }
    return rc;
}

int jb_runs_check_keys(jb_cli *c, const jb_study *s)
{
    const jb_study_part *last = NULL;
    for (size_t i = 0; i < s->cell_count; i++) {
        const jb_study_part *p = s->cells[i].backend;
        jb_error err = JB_ERROR_INIT;
        char *variable = NULL;
        if (!p || p == last || !jb_backend_is_remote(p->component)) continue;
        last = p;
        int rc = jb_backend_key_variable(p->component, p->options, &variable, &err);
        if (rc == 0 && variable) rc = jb_secrets_check(variable, &err);
        jb_free(variable);
        if (rc == 0) continue;
        jb_err_context(&err, "backend %s", p->name);
        return jb_cli_fail(c, &err);
    }
    return 0;
}

/* ---- after the engine ----------------------------------------------------------------------------- */

static const char *report_style(const void *ctx, char style) { return jb_cli_style(ctx, style); }

int jb_runs_print_report(jb_cli *c, const cJSON *report)
{
    if (c->json) return jb_cli_print_json(c, report);
    jb_report_style style = { report_style, c };
    jb_error err = JB_ERROR_INIT;
    if (jb_report_print(report, c->out, &style) == 0) return JB_EXIT_OK;
    jb_err(&err, JB_EIO, "writing the report: %s", strerror(errno));
    return jb_cli_fail(c, &err);
}

int jb_runs_make_report(const jb_records *r, const char *run_dir, int stable, cJSON **out, jb_error *err)
{
    cJSON *missing = NULL;
    *out = jb_report_json(r, run_dir, stable);
    int rc = *out ? jb_missing_bodies(run_dir, &missing, err) : jb_err(err, JB_ENOMEM, "report: out of memory");
    if (rc == 0 && missing && !cJSON_AddItemToObject(*out, "missing", missing)) rc = jb_err(err, JB_ENOMEM, "report: out of memory");
    if (rc == 0) return 0;
    cJSON_Delete(*out);
    *out = NULL;
    return rc;
}

static int write_report(const char *run_dir, const cJSON *report, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    char *path = jb_fs_join(run_dir, "report.json");
    int rc = path ? jb_json_print_pretty(report, &text) : JB_ENOMEM;
    if (rc == 0) rc = jb_buf_puts(&text, "\n");
    if (rc != 0) jb_err(err, rc, "report: too long, or out of memory");
    else rc = jb_fs_write_atomic(path, text.ptr, text.len, err);
    jb_buf_free(&text);
    jb_free(path);
    return rc;
}

/* report.html, as far as it can be rendered: a run never fails by it. */
static void write_page(jb_cli *c, const char *run_dir, const cJSON *report)
{
    jb_error err = JB_ERROR_INIT;
    const jb_layout *layout = jb_cli_layout(c, &err);
    char *path = jb_fs_join(run_dir, "report.html");
    int rc = layout && path ? jb_render_page(layout, report, path, &err) : JB_ENOMEM;
    if (rc != 0) jb_cli_warn(c, "no report.html was written: %s", err.message);
    else if (!c->quiet) fprintf(c->err, "the report as a page: %s\n", path);
    jb_free(path);
}

/* index.sqlite and report.json; report.html and the report itself when `show`. */
static int wrap_up(jb_cli *c, const char *run_dir, int show)
{
    jb_error err = JB_ERROR_INIT;
    jb_records *r = NULL;
    cJSON *report = NULL;
    int code = JB_EXIT_OK, rc = jb_records_load(run_dir, &r, &err);
    if (rc == 0) rc = jb_index_rebuild(run_dir, r, &err);
    if (rc == 0) {
        rc = jb_runs_make_report(r, run_dir, 0, &report, &err);
        if (rc == 0) rc = write_report(run_dir, report, &err);
    }
    if (rc != 0) code = jb_cli_fail(c, &err);
    else if (show) {
        if (!jb_cli_flag(c, "no-page")) write_page(c, run_dir, report);
        code = jb_runs_print_report(c, report);
    }
    cJSON_Delete(report);
    jb_records_free(r);
    return code;
}

static int budget_reached(jb_cli *c, const jb_study *s, const jb_engine_result *r, const char *run_dir)
{
    jb_error err = JB_ERROR_INIT;
    char budget[48], spent[48];
    jb_unit_text(budget, sizeof budget, r->unit, s->budget.of[r->unit]);
    jb_unit_text(spent, sizeof spent, r->unit, r->spent.of[r->unit]);
    jb_err(&err, JB_EBUDGET, "the budget %s of the run is reached: %s of %s are spent and no further step fits in; %lld candidates were judged",
           jb_unit_key(r->unit), spent, budget, (long long)r->candidates);
    jb_err_hint(&err, "nothing is lost; go on with more: jaxbench resume %.150s --budget %s=...", run_dir, jb_unit_key(r->unit));
    return jb_cli_fail_as(c, JB_EXIT_BUDGET, &err);
}

static int exit_of(jb_cli *c, const jb_study *s, const jb_engine_result *r, const char *worker, const char *run_dir)
{
    jb_error err = JB_ERROR_INIT;
    switch (r->end) {
    case JB_END_SIGNAL:
        fprintf(c->err, "interrupted by signal %d; the journal is intact: jaxbench resume %s\n", stop_signal, run_dir);
        return 128 + stop_signal;
    case JB_END_BUDGET: return budget_reached(c, s, r, run_dir);
    case JB_END_INFRA:
        jb_err(&err, JB_EIO, "%lld of %lld candidates failed by infrastructure: above the study's stop_after_infra_share%s%s",
               (long long)(r->infra + r->failed_calls), (long long)(r->candidates + r->failed_calls),
               r->failed_calls ? "; the first call that failed: " : "", r->first_failed_call);
        jb_err_hint(&err, "see log.jsonl in the run's folder and `jaxbench doctor`");
        return jb_cli_fail_as(c, JB_EXIT_INFRA, &err);
    case JB_END_PROVIDER:
        err = r->provider;
        return jb_cli_fail_as(c, r->provider_class == JB_LLM_QUOTA || r->provider_class == JB_LLM_RATE_LIMIT ? JB_EXIT_QUOTA : JB_EXIT_INFRA, &err);
    default:
        break;
    }
    if (r->candidates > 0 && r->infra == r->candidates) {
        jb_err(&err, JB_EIO, "all %lld candidates failed by infrastructure", (long long)r->candidates);
        jb_err_hint(&err, "see log.jsonl in the run's folder and `jaxbench doctor`");
        if (!r->executor_ready) jb_cli_explain_worker(worker, &err);
        return jb_cli_fail_as(c, JB_EXIT_INFRA, &err);
    }
    if (r->cells_failed == 0) return JB_EXIT_OK;
    err = r->first_failure;
    jb_err_context(&err, "%zu of %zu cells failed, the first", r->cells_failed, r->cells_done);
    return jb_cli_fail(c, &err);
}

/* ---- conduct ------------------------------------------------------------------------------------------- */

static void engine_options(jb_cli *c, const jb_study *s, const jb_layout *layout, const plan *p, const char *run_dir, jb_engine_options *o)
{
    int live = !c->quiet && isatty(fileno(c->err));
    *o = (jb_engine_options){
        .cells = p->cells, .cell_count = s->cell_count, .run_dir = run_dir, .study_seed = s->seed,
        .headline = jb_gateset_name(s->headline),
        .last_stage = cJSON_GetArraySize(s->timers) > 0 ? JB_STAGE_TIME : JB_STAGE_CHECK,
        .pool = { .executor = s->executor.component, .config = s->executor.options,
                  .paths = { .worker = layout->worker, .cache = layout->cache, .suite = layout->suite, .plugins = layout->plugins },
                  .slots = s->slots, .infra_retries = s->infra_retries },
        .stop_after_infra_share = s->stop_after_infra_share, .budget = &s->budget,
        .progress = c->quiet ? NULL : jb_progress_new(c->err, live, p->expected), .stop_fd = -1,
    };
}

int jb_runs_conduct(jb_cli *c, const jb_study *s, const char *run_dir)
{
    jb_error err = JB_ERROR_INIT;
    plan p = { 0 };
    jb_engine_options o = { 0 };
    jb_engine_result result = { 0 };
    int code;
    const jb_layout *layout = jb_cli_layout(c, &err);
    int rc = layout ? plan_build(&p, s, run_dir, &err) : err.code;
    if (rc == 0) {
        engine_options(c, s, layout, &p, run_dir, &o);
        rc = jb_runs_catch_signals(&o.stop, &o.stop_fd, &err);
    }
    if (rc == 0 && !c->quiet) {
        char expected[48] = "";
        if (p.expected > 0) snprintf(expected, sizeof expected, ", %lld candidates", (long long)p.expected);
        fprintf(c->err, "%s: %zu cells%s; the record: %s\n", s->name, s->cell_count, expected, run_dir);
    }
    if (rc == 0) rc = jb_engine_run(&o, &result, &err);
    jb_progress_free(o.progress);
    if (result.torn_bytes)
        jb_cli_warn(c, "the journal ended in a torn line of %llu bytes (an incomplete write); it was removed", (unsigned long long)result.torn_bytes);
    if (rc == 0 && result.replayed && !c->quiet)
        fprintf(c->err, "%lld of %lld candidates came from the journal\n", (long long)result.replayed, (long long)result.candidates);
    if (rc != 0) {
        if (result.executor_failed && !result.executor_ready) jb_cli_explain_worker(layout->worker, &err);
        code = result.executor_failed ? jb_cli_fail_as(c, JB_EXIT_INFRA, &err) : jb_cli_fail(c, &err);
    } else {
        int shown = wrap_up(c, run_dir, result.end != JB_END_SIGNAL);
        code = exit_of(c, s, &result, layout->worker, run_dir);
        if (code == JB_EXIT_OK) code = shown;
    }
    plan_free(&p);
    return code;
}
