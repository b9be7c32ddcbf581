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
#include "core/cli/evalprint.h"
#include "core/cli/runs.h"
#include "core/evaluate/extract.h"
#include "core/evaluate/job.h"
#include "core/evaluate/merge.h"
#include "core/evaluate/pool.h"
#include "core/engine/progress.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_MAX ((size_t)64 << 20)
#define SETS_MAX 16
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
    jb_suite *suite;
    const jb_workload *workload;
    jb_gateset *sets[SETS_MAX];
    size_t set_count;
    const char *headline;
    cJSON *timers, *limits, *job;
    char *keep;
    candidate *candidates;
    size_t count;
    uint32_t judges; /* the last stage the outcome may follow */
    int interrupted;
} evaluation;

/* ---- settings ---------------------------------------------------------------------------------- */

static int add_set(evaluation *e, const jb_registry *r, const jb_layout *l, const char *name, jb_error *err)
{
    if (e->set_count == SETS_MAX) return jb_err(err, JB_EINVAL, "more than %d gate sets", SETS_MAX);
    for (size_t i = 0; i < e->set_count; i++)
        if (strcmp(jb_gateset_name(e->sets[i]), name) == 0) return 0;
    int rc = jb_study_open_gates(r, l->suite, NULL, name, &e->sets[e->set_count], err);
    if (rc == 0) e->set_count++;
    return rc;
}

/* Every set of the suite, `robust` last: the outcome follows the last one. */
static int add_all_sets(evaluation *e, const jb_registry *r, const jb_layout *l, jb_error *err)
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

static int add_named_sets(evaluation *e, const jb_registry *r, const jb_layout *l, const char *list, jb_error *err)
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

static int read_gates(evaluation *e, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    size_t n = 0;
    const char *const *given = jb_cli_list(e->cli, "gates", &n);
    int rc = n ? 0 : add_all_sets(e, r, l, err);
    for (size_t i = 0; rc == 0 && i < n; i++) rc = add_named_sets(e, r, l, given[i], err);
    if (rc == 0 && e->set_count == 0) rc = jb_err(err, JB_EINVAL, "--gates names no set");
    if (rc == 0) e->headline = jb_gateset_name(e->sets[e->set_count - 1]);
    return rc;
}

static int read_limits(evaluation *e, jb_error *err)
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

static int read_timers(evaluation *e, const jb_registry *r, jb_error *err)
{
    size_t n = 0;
    const char *const *given = jb_cli_list(e->cli, "timer", &n);
    e->timers = cJSON_CreateArray();
    int rc = e->timers ? 0 : jb_err(err, JB_ENOMEM, "eval: out of memory");
    for (size_t i = 0; rc == 0 && i < n; i++) {
        const jb_component *c;
        rc = jb_registry_find(r, JB_KIND_TIMER, given[i], &c, err);
        cJSON *o = rc == 0 ? cJSON_CreateObject() : NULL;
        if (rc == 0 && (!o || jb_json_set_str(o, "use", given[i]) || !jb_json_add_obj(o, "options") || !cJSON_AddItemToArray(e->timers, o))) {
            cJSON_Delete(o);
            rc = jb_err(err, JB_ENOMEM, "eval: out of memory");
        }
    }
    return rc;
}

static int build_job(evaluation *e, jb_error *err)
{
    jb_cli *c = e->cli;
    jb_job_settings s = {
        .check_shape = jb_cli_text(c, "shape", NULL), .variant = jb_cli_text(c, "variant", NULL),
        .last_stage = jb_cli_text(c, "stage", NULL), .phase = "all", .timers = e->timers, .limits = e->limits,
        .isolation = jb_cli_text(c, "isolation", NULL), .store = e->keep, .seed = jb_cli_text(c, "seed", "0"),
    };
    s.skip = jb_cli_list(c, "skip", &s.skip_count);
    int rc = jb_job_build(e->workload, (const jb_gateset *const *)e->sets, e->set_count, &s, &e->job, err);
    if (rc == 0) e->judges = jb_stage_from_name(jb_json_str(e->job, "last_stage", "check")); /* a skipped check is no verdict */
    return rc;
}

static int open_workload(evaluation *e, const jb_layout *l, jb_error *err)
{
    char *dir = jb_fs_join(l->suite, jb_cli_text(e->cli, "suite", "jaxbench"));
    int rc = dir ? jb_suite_open(dir, &e->suite, err) : jb_err(err, JB_ENOMEM, "eval: out of memory");
    if (rc == 0) rc = jb_suite_find(e->suite, jb_cli_text(e->cli, "workload", ""), &e->workload, err);
    jb_free(dir);
    return rc;
}

static int open_keep(evaluation *e, jb_error *err)
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
    jb_judge_record(k->record, e->headline, e->judges, &k->judged);
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
        cJSON *spec = cJSON_Duplicate(e->job, 1);
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
    jb_pool_close(pool);
    jb_progress_free(progress);
    return rc;
}

/* ---- output -------------------------------------------------------------------------------------------- */

static int keep_files(const evaluation *e, const candidate *k, const cJSON *shown, jb_error *err)
{
    const char *base = strrchr(k->path, '/');
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    char *stem = jb_asprintf("%s/%s", e->keep, base ? base + 1 : k->path);
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
        cJSON *shown = jb_eval_json(k->path, jb_workload_id(e->workload), e->headline, &k->judged, k->record);
        if (!shown || !cJSON_AddItemToArray(all, shown)) {
            cJSON_Delete(shown);
            rc = jb_err(err, JB_ENOMEM, "eval: out of memory");
        }
        if (rc == 0 && e->keep) rc = keep_files(e, k, shown, err);
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
    for (size_t i = 0; i < e->set_count; i++) jb_gateset_free(e->sets[i]);
    cJSON_Delete(e->job);
    cJSON_Delete(e->timers);
    cJSON_Delete(e->limits);
    jb_suite_free(e->suite);
    jb_free(e->candidates);
    jb_free(e->keep);
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    evaluation e = { .cli = c };
    if (!jb_cli_text(c, "workload", NULL)) return jb_cli_usage(c, "--workload ID is required, e.g. --workload 8p");
    const jb_registry *registry = jb_cli_registry(c, &err);
    const jb_layout *layout = registry ? jb_cli_layout(c, &err) : NULL;
    int rc = layout ? open_workload(&e, layout, &err) : err.code;
    e.candidates = jb_alloc_array((size_t)c->argc, sizeof *e.candidates);
    if (rc == 0 && !e.candidates) rc = jb_err(&err, JB_ENOMEM, "eval: out of memory");
    if (rc == 0) e.count = (size_t)c->argc;
    for (size_t i = 0; rc == 0 && i < e.count; i++) rc = read_candidate(&e.candidates[i], c->argv[i], &err);
    if (rc == 0) rc = read_gates(&e, registry, layout, &err);
    if (rc == 0) rc = read_limits(&e, &err);
    if (rc == 0) rc = read_timers(&e, registry, &err);
    if (rc == 0) rc = open_keep(&e, &err);
    if (rc == 0) rc = build_job(&e, &err);
    if (rc == 0) rc = evaluate(&e, registry, layout, &err);
    if (rc == 0) rc = print_all(&e, &err);
    int code = rc == 0 ? exit_code(&e) : e.interrupted ? jb_cli_fail_as(c, 128 + e.interrupted, &err) : jb_cli_fail(c, &err);
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
