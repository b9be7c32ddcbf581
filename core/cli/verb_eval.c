/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_eval.c - jaxbench eval FILE... --workload ID: kernels through
 * every stage, without a model, a study or a run folder.
 *
 * A .py file is the source; any other file is a model's reply, from which the
 * source is extracted.  Several files share the executor's slots; results come
 * in the order of the files. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/cli/evaljob.h"
#include "core/cli/evalprint.h"
#include "core/cli/internal.h"
#include "core/cli/runs.h"
#include "core/evaluate/extract.h"
#include "core/evaluate/merge.h"
#include "core/evaluate/pool.h"
#include "core/engine/progress.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX ((size_t)64 << 20)
#define SLOTS_MAX 4 /* by default; --slots goes further */

static const char *const VARIANTS[] = { "published", "repaired", NULL };
static const char *const ISOLATIONS[] = { "required", "best-effort", NULL };
static const jb_cli_option OPTIONS[] = {
    { "workload", 'w', JB_CLI_TEXT, "ID", "the workload, e.g. 8p or gemm (required)", NULL },
    { "gates", 'g', JB_CLI_LIST, "A,B", "gate sets (default: all; the outcome follows robust, else the last)", NULL },
    { "shape", 0, JB_CLI_TEXT, "NAME", "check at this shape instead of the gates' own", NULL },
    { "stage", 0, JB_CLI_TEXT, "NAME", "the last stage to run (default: check, with a timer: time)", NULL },
    { "skip", 0, JB_CLI_LIST, "STAGE", "leave a stage out, e.g. compile", NULL },
    { "variant", 0, JB_CLI_ENUM, "V", "judge every set on this variant", VARIANTS },
    { "timer", 't', JB_CLI_LIST, "NAME", "time the kernel with this timer", NULL },
    { "seed", 0, JB_CLI_TEXT, "N", "keys the final draws (default 0)", NULL },
    { "limit", 0, JB_CLI_LIST, "K=V", "a limit of a stage, e.g. trace_s=15", NULL },
    { "isolation", 0, JB_CLI_ENUM, "MODE", "required, or best-effort where layers are missing", ISOLATIONS },
    { "keep", 0, JB_CLI_TEXT, "DIR", "keep records and exported modules there", NULL },
    { "slots", 0, JB_CLI_INT, "N", "candidates at a time", NULL },
    { "suite", 0, JB_CLI_TEXT, "NAME", "the suite of the workload (default jaxbench)", NULL },
    { "executor", 0, JB_CLI_TEXT, "NAME", "where it runs (default local)", NULL },
};

typedef struct candidate {
    const char *path;
    jb_extract x;
    cJSON *record;
    jb_judgement judged;
} candidate;

typedef struct evaluation {
    jb_cli *cli;
    jb_eval_job asked;
    candidate *candidates;
    size_t count;
    int ready; /* the executor said so */
    int interrupted, executor_failed;
} evaluation;

/* ---- candidates ---------------------------------------------------------------------------------- */

static int is_python(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".py") == 0;
}

static int read_candidate(candidate *k, const char *path, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(FILE_MAX);
    k->path = path;
    int rc = jb_fs_exists(path) ? jb_fs_read(path, FILE_MAX, &text, err) : jb_err(err, JB_ENOTFOUND, "there is no file %s", path);
    if (rc != 0 && err) err->flags |= JB_ERR_USER;
    if (rc == 0) {
        rc = is_python(path) ? jb_extract_plain(jb_buf_view(&text), &k->x, err)
                             : jb_extract_reply(jb_buf_view(&text), JB_FINISH_STOP, "workload", &k->x, err);
    }
    jb_buf_free(&text);
    return rc;
}

/* `record` is the executor's (taken over), NULL when there was nothing to evaluate. */
static int settle(evaluation *e, candidate *k, cJSON *record, jb_error *err)
{
    jb_extract_facts x = { k->x.outcome, k->x.reason, k->x.blocks_seen, k->x.chosen };
    k->record = jb_record_with_extract(record, &x);
    cJSON_Delete(record);
    if (!k->record) return jb_err(err, JB_ENOMEM, "eval: out of memory");
    jb_judge_record(k->record, e->asked.headline, e->asked.judges, &k->judged);
    return 0;
}

/* ---- the executor ---------------------------------------------------------------------------------- */

static int64_t slots(jb_cli *c)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t usual = cores < 1 ? 1 : cores > SLOTS_MAX ? SLOTS_MAX : cores;
    int64_t asked = jb_cli_i64(c, "slots", 0);
    return asked > 0 ? asked : usual;
}

static void pool_log(void *ctx, uint32_t level, jb_view text)
{
    const evaluation *e = ctx;
    jb_buf b = JB_BUF_INIT(1u << 16);
    if (level < e->cli->log_level && !e->cli->verbose) return;
    jb_text_escape(&b, text.ptr, text.len < 8192 ? (size_t)text.len : 8192, 0);
    if (b.ptr) fprintf(e->cli->err, "executor: %s\n", b.ptr);
    jb_buf_free(&b);
}

static int submit_all(evaluation *e, jb_pool *pool, size_t *pending, jb_error *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < e->count; i++) {
        candidate *k = &e->candidates[i];
        if (k->x.outcome != JB_OUTCOME_OK) continue; /* settled without the executor */
        cJSON *spec = cJSON_Duplicate(e->asked.job, 1);
        if (!spec) return jb_err(err, JB_ENOMEM, "eval: out of memory");
        rc = jb_pool_submit(pool, i, spec, (jb_view){ k->x.source, k->x.source_len }, err);
        if (rc == 0) ++*pending;
    }
    return rc;
}

static int take_events(evaluation *e, jb_pool *pool, jb_progress *progress, size_t *pending, jb_error *err)
{
    jb_pool_event ev;
    int rc;
    while ((rc = jb_pool_next(pool, &ev, err)) > 0) {
        e->ready |= ev.kind == JB_POOL_READY;
        if (ev.kind != JB_POOL_DONE) {
            cJSON_Delete(ev.record);
            continue;
        }
        candidate *k = &e->candidates[ev.tag];
        --*pending;
        rc = settle(e, k, ev.record, err);
        if (rc != 0) return rc;
        jb_progress_candidate(progress, k->path, (uint64_t)ev.tag + 1, jb_outcome_name(k->judged.outcome), k->judged.reason, 0);
    }
    return rc;
}

static int drive(evaluation *e, jb_pool *pool, jb_progress *progress, jb_error *err)
{
    const volatile int *stop;
    int stop_fd, rc = jb_runs_catch_signals(&stop, &stop_fd, err);
    size_t pending = 0;
    if (rc == 0) rc = submit_all(e, pool, &pending, err);
    while (rc == 0 && pending) {
        rc = jb_pool_pump(pool, err);
        if (rc == 0) rc = take_events(e, pool, progress, &pending, err);
        if (rc != 0 || !pending) break;
        struct pollfd fds[2] = { { .fd = jb_pool_fd(pool), .events = POLLIN }, { .fd = stop_fd, .events = POLLIN } };
        jb_progress_tick(progress, jb_pool_busy(pool), jb_pool_queued(pool));
        poll(fds, 2, 250);
        if (*stop) {
            e->interrupted = *stop;
            return jb_err(err, JB_ECANCELLED, "interrupted by signal %d", *stop);
        }
    }
    return rc;
}

/* The executor never came to run: its candidates are infra, and why is for their line to say. */
static void explain_infra(evaluation *e, const char *worker)
{
    jb_error why = JB_ERROR_INIT;
    for (size_t i = 0; i < e->count; i++) {
        jb_judgement *j = &e->candidates[i].judged;
        if (j->outcome != JB_OUTCOME_INFRA) continue;
        if (!why.code) {
            jb_err(&why, JB_EIO, "%s", j->reason);
            jb_cli_explain_worker(worker, &why);
        }
        snprintf(j->reason, sizeof j->reason, "%.*s", (int)sizeof j->reason - 1, why.message);
    }
}

static int evaluate(evaluation *e, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    const jb_component *executor;
    jb_pool *pool = NULL;
    jb_progress *progress = NULL;
    size_t wanted = 0;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < e->count; i++) {
        if (e->candidates[i].x.outcome == JB_OUTCOME_OK) wanted++;
        else rc = settle(e, &e->candidates[i], NULL, err);
    }
    if (rc != 0 || wanted == 0) return rc;
    rc = jb_registry_find(r, JB_KIND_EXECUTOR, jb_cli_text(e->cli, "executor", "local"), &executor, err);
    if (rc != 0) return rc;
    jb_pool_options o = { .executor = executor, .slots = slots(e->cli), .infra_retries = 1, .log = pool_log, .log_ctx = e,
                          .paths = { .worker = l->worker, .cache = l->cache, .suite = l->suite, .plugins = l->plugins } };
    if (!e->cli->quiet && isatty(fileno(e->cli->err))) progress = jb_progress_new(e->cli->err, 1, (int64_t)wanted);
    rc = jb_pool_open(&o, &pool, err);
    if (rc == 0) rc = drive(e, pool, progress, err);
    e->executor_failed = rc != 0 && !e->interrupted;
    jb_pool_close(pool);
    if (e->executor_failed && !e->ready) jb_cli_explain_worker(l->worker, err);
    if (rc == 0 && !e->ready) explain_infra(e, l->worker);
    jb_progress_free(progress);
    return rc;
}

/* ---- output -------------------------------------------------------------------------------------------- */

static int keep_files(const evaluation *e, const candidate *k, const cJSON *shown, jb_error *err)
{
    const char *base = strrchr(k->path, '/');
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    char *stem = jb_asprintf("%s/%s", e->asked.keep, base ? base + 1 : k->path);
    char *record = stem ? jb_asprintf("%s.json", stem) : NULL, *source = stem ? jb_asprintf("%s.candidate.py", stem) : NULL;
    int rc = record && source ? jb_json_print_pretty(shown, &text) : JB_ENOMEM;
    if (rc != 0) jb_err(err, rc, "eval: out of memory");
    if (rc == 0) rc = jb_fs_write_atomic(record, text.ptr, text.len, err);
    if (rc == 0 && k->x.source) rc = jb_fs_write_atomic(source, k->x.source, k->x.source_len, err);
    jb_buf_free(&text);
    jb_free(stem);
    jb_free(record);
    jb_free(source);
    return rc;
}

static int exit_code(const evaluation *e)
{
    int code = JB_EXIT_OK;
    for (size_t i = 0; i < e->count; i++) {
        uint32_t o = e->candidates[i].judged.outcome;
        if (o == JB_OUTCOME_INFRA) return JB_EXIT_INFRA;
        if (o != JB_OUTCOME_OK) code = JB_EXIT_CRITERION;
    }
    return code;
}

static int print_all(evaluation *e, jb_error *err)
{
    cJSON *all = cJSON_CreateArray();
    int rc = all ? 0 : jb_err(err, JB_ENOMEM, "eval: out of memory");
    for (size_t i = 0; rc == 0 && i < e->count; i++) {
        candidate *k = &e->candidates[i];
        cJSON *shown = jb_eval_json(k->path, jb_workload_id(e->asked.workload), e->asked.headline, &k->judged, k->record);
        if (!shown || !cJSON_AddItemToArray(all, shown)) {
            cJSON_Delete(shown);
            rc = jb_err(err, JB_ENOMEM, "eval: out of memory");
        }
        if (rc == 0 && e->asked.keep) rc = keep_files(e, k, shown, err);
        if (rc == 0 && !e->cli->json) jb_eval_print(e->cli, shown, i > 0);
    }
    if (rc == 0 && e->cli->json) rc = jb_cli_print_json(e->cli, e->count == 1 ? cJSON_GetArrayItem(all, 0) : all) ? JB_EIO : 0;
    cJSON_Delete(all);
    return rc;
}

static void evaluation_free(evaluation *e)
{
    for (size_t i = 0; i < e->count; i++) {
        jb_extract_free(&e->candidates[i].x);
        cJSON_Delete(e->candidates[i].record);
    }
    jb_eval_job_free(&e->asked);
    jb_free(e->candidates);
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    evaluation e = { .cli = c };
    if (!jb_cli_text(c, "workload", NULL)) return jb_cli_usage(c, "--workload ID is required, e.g. --workload 8p");
    const jb_registry *registry = jb_cli_registry(c, &err);
    const jb_layout *layout = registry ? jb_cli_layout(c, &err) : NULL;
    int rc = layout ? 0 : err.code;
    e.candidates = jb_alloc_array((size_t)c->argc, sizeof *e.candidates);
    if (rc == 0 && !e.candidates) rc = jb_err(&err, JB_ENOMEM, "eval: out of memory");
    if (rc == 0) e.count = (size_t)c->argc;
    for (size_t i = 0; rc == 0 && i < e.count; i++) rc = read_candidate(&e.candidates[i], c->argv[i], &err);
    if (rc == 0) rc = jb_eval_job_read(c, registry, layout, &e.asked, &err);
    if (rc == 0) rc = evaluate(&e, registry, layout, &err);
    if (rc == 0) rc = print_all(&e, &err);
    int code = rc == 0 ? exit_code(&e) : e.interrupted ? 128 + e.interrupted : e.executor_failed ? JB_EXIT_INFRA : jb_cli_exit_of(&err);
    if (rc != 0) jb_cli_fail_as(c, code, &err);
    evaluation_free(&e);
    return code;
}

const jb_cli_verb jb_verb_eval = {
    .name = "eval", .summary = "judge kernels you have, without a model", .usage = "KERNEL.(py|md|txt)...",
    .help = "Traces, exports, inspects, compiles and checks each file; a .py file is the kernel, any other file\n"
            "a model's reply. Exit code: 0 all ok, 3 another outcome, 4 infrastructure, 2 usage.\n\n"
            "  jaxbench eval my_gemm.py --workload 8p\n"
            "  jaxbench eval a.py b.py -w gemm --gates literature --skip compile --json",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = -1, .run = run,
};
