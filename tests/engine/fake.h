/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/fake.h - a world without processes for the tests of the engine:
 * a backend that answers by seed, an executor that judges by words in the source
 * and answers in any order, methods of every temper, and a run folder around them.
 * Header-only; each test program has its own copy. */
#ifndef JB_TESTS_ENGINE_FAKE_H
#define JB_TESTS_ENGINE_FAKE_H

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/engine/engine.h"
#include "core/engine/journal.h"
#include "core/engine/records.h"
#include "core/engine/volatile.h"
#include "core/report/report.h"

#include <check.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- backend: the seed picks a reply ------------------------------------------------- */

static int fake_calls;         /* how often a backend was asked */
static int fake_backend_fails; /* every n-th seed is a provider failure */

static int fb_create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)config; (void)err;
    *out = (void *)host;
    return 0;
}

static const char *const WORDS[] = { "ok", "wrong", "finalbad", "ok same", "crash", "lost", "prose", "cut", "suspicious", "slow" };

static int fb_complete(void *self, const jb_request *req, jb_reply *out, jb_error *err)
{
    const jb_host *host = self;
    const jb_arena_service *arena = host->service(host, JB_SERVICE_ARENA);
    const char *word = WORDS[req->seed % (sizeof WORDS / sizeof WORDS[0])];
    char *text = arena->alloc(host, 512);
    fake_calls++;
    if (!text) return jb_err(err, JB_ENOMEM, "no arena");
    if (fake_backend_fails && req->seed % (uint64_t)fake_backend_fails == 0) {
        out->error_class = JB_LLM_TRANSIENT;
        snprintf(out->message, sizeof out->message, "provider away");
        return 0;
    }
    if (strcmp(word, "prose") == 0) snprintf(text, 512, "I would rather talk. \x1b[31m %llu", (unsigned long long)req->seed);
    else if (strcmp(word, "cut") == 0) snprintf(text, 512, "```python\ndef workload(A):\n    return %llu", (unsigned long long)req->seed);
    else if (strcmp(word, "ok same") == 0) snprintf(text, 512, "```python\n# ok\ndef workload(A):\n    return A\n```\n");
    else snprintf(text, 512, "Seed %llu\n```python\n# %s\ndef workload(A):\n    return A * %llu\n```\n", (unsigned long long)req->seed, word, (unsigned long long)req->seed);
    out->text = (jb_view){ text, strlen(text) };
    out->usage = (jb_usage){ (int64_t)req->messages[0].text.len, 0, 0, (int64_t)strlen(text), -1 };
    return 0;
}

static const jb_backend_ops FAKE_BACKEND_OPS = { .struct_size = sizeof FAKE_BACKEND_OPS, .create = fb_create, .complete = fb_complete };
static const jb_component FAKE_BACKEND = { .struct_size = sizeof FAKE_BACKEND, .flags = JB_COMP_NO_MODEL | JB_COMP_DETERMINISTIC,
                                           .kind = JB_KIND_BACKEND, .name = "fake", .summary = "fake", .ops = &FAKE_BACKEND_OPS };

/* ---- executor: judged by words ------------------------------------------------------- */

typedef struct fake_job { uint64_t id; char *source; int final, cancelled, progressed; } fake_job;
typedef struct fake_executor { fake_job jobs[64]; size_t count; int fd, ready; char record[4096]; } fake_executor;

static int fake_submits, fake_most_in_flight, fake_lose_all, fake_bad_json, fake_hang, fake_delay;
static long fake_stop_after = -1; /* raise fake_stop after so many results */
static volatile int fake_stop;

static int fe_open(const jb_host *host, const void *config, void **out, jb_error *err)
{
    const jb_paths_service *paths = host->service(host, JB_SERVICE_PATHS);
    fake_executor *x = calloc(1, sizeof *x);
    (void)config;
    if (!x || !paths || !paths->worker) return jb_err(err, JB_EINTERNAL, "no paths");
    x->fd = eventfd(1, EFD_CLOEXEC | EFD_NONBLOCK);
    *out = x;
    return 0;
}

static int fe_submit(void *self, uint64_t job, jb_view spec, jb_view body, jb_error *err)
{
    fake_executor *x = self;
    if (x->count == 64) return jb_err(err, JB_ESTATE, "too many");
    cJSON *s = jb_json_parse(spec.ptr, (size_t)spec.len, err);
    if (!s) return JB_EPARSE;
    fake_job *j = &x->jobs[x->count++];
    *j = (fake_job){ .id = job, .final = strcmp(jb_json_str(s, "phase", ""), "final") == 0, .source = jb_strndup(body.ptr ? body.ptr : "", (size_t)body.len) };
    cJSON_Delete(s);
    fake_submits++;
    if ((int)x->count > fake_most_in_flight) fake_most_in_flight = (int)x->count;
    return 0;
}

static int fe_fd(void *self) { return ((fake_executor *)self)->fd; }

static const char *gate(const char *verdict, const char *extra, int final)
{
    static char text[400];
    snprintf(text, sizeof text, "{\"verdict\":\"%s\"%s,\"rows\":[{\"use\":\"error_ratio\",\"when\":\"%s\",\"verdict\":\"%s\",\"score\":1.5}]}", verdict, extra,
             final ? "final" : "loop", verdict);
    return text;
}

/* The record of a source; the seconds differ from call to call, as they would. */
static void judge(fake_executor *x, const fake_job *j)
{
    static int clock;
    const char *finding = "", *verdict = "pass", *extra = "";
    double seconds = 0.25 * ++clock;
    if (strstr(j->source, "# crash")) {
        snprintf(x->record, sizeof x->record, "{\"schema\":1,\"stages\":{\"trace\":{\"status\":\"crash\",\"seconds\":%g,\"reason\":\"SIGSEGV\"}},\"cost\":{\"trace_s\":%g}}", seconds, seconds);
        return;
    }
    if (strstr(j->source, "# suspicious")) finding = "{\"id\":\"unread-input\",\"outcome\":\"suspicious\",\"detail\":\"input 1\"}";
    if (strstr(j->source, "# wrong") || (j->final && strstr(j->source, "# finalbad"))) {
        verdict = "fail";
        extra = ",\"killer\":{\"gate\":\"error_ratio\",\"shape\":\"gate\",\"distribution\":\"outlier\",\"draw\":1,\"score\":7.2,\"threshold\":1.25}";
    }
    char literature[400];
    snprintf(literature, sizeof literature, "%s", gate("pass", "", j->final));
    snprintf(x->record, sizeof x->record,
             "{\"schema\":1,\"stages\":{\"trace\":{\"status\":\"ok\",\"seconds\":%g},\"export\":{\"status\":\"ok\",\"modules\":[]},"
             "\"inspect\":{\"status\":\"ok\",\"findings\":[%s],\"link\":{\"status\":\"structural\"},\"coverage\":{\"status\":\"complete\"}},"
             "\"compile\":{\"status\":\"skipped\",\"reason\":\"left out\"},\"check\":{\"status\":\"ok\"}},"
             "\"gates\":{\"literature\":%s,\"robust\":%s},\"numerics\":\"interpret\",\"cost\":{\"trace_s\":%g,\"check_s\":%g,\"wall_s\":%g}}",
             seconds, finding, literature, gate(verdict, extra, j->final), seconds, seconds, 2 * seconds);
}

static void fe_drop(fake_executor *x, size_t at)
{
    jb_free(x->jobs[at].source);
    memmove(x->jobs + at, x->jobs + at + 1, (x->count - at - 1) * sizeof *x->jobs);
    x->count--;
}

/* Ready once, then results: the newest first, so that order is never that of submission. */
static int fe_next(void *self, jb_job_event *out, jb_error *err)
{
    fake_executor *x = self;
    static char lost_once[64][64];
    static size_t lost_count;
    (void)err;
    if (!x->ready) {
        x->ready = 1;
        snprintf(x->record, sizeof x->record, "{\"isolation\":{\"user_ns\":true}}");
        *out = (jb_job_event){ .struct_size = sizeof *out, .kind = JB_EXECUTOR_READY, .record = { x->record, strlen(x->record) } };
        return 1;
    }
    if (x->count == 0 || fake_hang || (fake_delay > 0 && fake_delay--)) return 0;
    fake_job *j = &x->jobs[x->count - 1];
    *out = (jb_job_event){ .struct_size = sizeof *out, .job = j->id };
    if (!j->progressed) {
        j->progressed = 1;
        out->kind = JB_JOB_PROGRESS;
        out->record = (jb_view){ "{}", 2 };
        return 1;
    }
    int lose = fake_lose_all;
    if (strstr(j->source, "# lost") && !j->cancelled) { /* the infrastructure loses it the first time */
        size_t i = 0;
        while (i < lost_count && strncmp(lost_once[i], j->source, 63) != 0) i++;
        if (i == lost_count && lost_count < 64) {
            snprintf(lost_once[lost_count++], 64, "%s", j->source);
            lose = 1;
        }
    }
    if (lose) {
        out->kind = JB_JOB_LOST;
        out->error = (jb_error)JB_ERROR_INIT;
        jb_err(&out->error, JB_EIO, "the worker died");
    } else {
        out->kind = JB_JOB_DONE;
        judge(x, j);
        if (fake_bad_json) snprintf(x->record, sizeof x->record, "{\"stages\":");
        out->record = (jb_view){ x->record, strlen(x->record) };
        if (fake_stop_after >= 0 && fake_stop_after-- == 0) fake_stop = 15;
    }
    fe_drop(x, x->count - 1);
    return 1;
}

static int fe_cancel(void *self, uint64_t job, jb_error *err)
{
    fake_executor *x = self;
    (void)err;
    for (size_t i = 0; i < x->count; i++)
        if (x->jobs[i].id == job) x->jobs[i].cancelled = 1;
    return 0;
}

static void fe_close(void *self)
{
    fake_executor *x = self;
    while (x->count) fe_drop(x, x->count - 1);
    close(x->fd);
    free(x);
}

static const jb_executor_ops FAKE_EXECUTOR_OPS = { .struct_size = sizeof FAKE_EXECUTOR_OPS, .open = fe_open, .submit = fe_submit,
                                                   .event_fd = fe_fd, .next = fe_next, .cancel = fe_cancel, .close = fe_close };
static const jb_component FAKE_EXECUTOR = { .struct_size = sizeof FAKE_EXECUTOR, .kind = JB_KIND_EXECUTOR, .name = "fake", .summary = "fake", .ops = &FAKE_EXECUTOR_OPS };

/* ---- methods -------------------------------------------------------------------------- */

typedef struct fake_method {
    const jb_host *host;
    const jb_llm_service *llm;
    const jb_eval_service *eval;
    const jb_cell_service *cell;
    const jb_budget_service *budget;
    uint64_t last_op;
    int seen, turns[3], done;
    uint64_t events[64];
    size_t event_count;
} fake_method;

static int fake_samples = 6;      /* of bon */
static const char *fake_salt = ""; /* changes every prompt: "the template was changed" */
static uint64_t fake_delivered[256];
static size_t fake_delivered_count;
static int fake_cancelled_events, fake_failed_events, fake_budget_refusals;

static int fm_create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    fake_method *m = calloc(1, sizeof *m);
    (void)config;
    if (!m) return jb_err(err, JB_ENOMEM, "no memory");
    m->host = host;
    m->llm = host->service(host, JB_SERVICE_LLM);
    m->eval = host->service(host, JB_SERVICE_EVAL);
    m->cell = host->service(host, JB_SERVICE_CELL);
    m->budget = host->service(host, JB_SERVICE_BUDGET);
    *out = m;
    return 0;
}

static void fm_destroy(void *self) { free(self); }

static int ask(fake_method *m, uint64_t lane, uint64_t turn, const char *text, jb_error *err)
{
    char prompt[700];
    jb_view id = m->cell->fact(m->host, "id");
    snprintf(prompt, sizeof prompt, "Write %.*s%s. %.500s", (int)id.len, id.ptr, fake_salt, text);
    jb_message msg = { JB_ROLE_USER, 0, { prompt, strlen(prompt) } };
    jb_llm_call call = { .struct_size = sizeof call, .purpose = JB_PURPOSE_SAMPLE, .message_count = 1, .messages = &msg,
                         .lane = lane, .turn = turn, .temperature = (double)NAN };
    int rc = m->llm->complete(m->host, &call, &m->last_op, err);
    if (rc == JB_EBUDGET) { /* not admitted, nothing happened: the method goes on without */
        fake_budget_refusals++;
        jb_err_clear(err);
        return 0;
    }
    return rc;
}

static void note(const jb_event *e)
{
    if (fake_delivered_count < 256) fake_delivered[fake_delivered_count++] = e->op;
    fake_cancelled_events += e->status == JB_OP_CANCELLED;
    fake_failed_events += e->status == JB_OP_FAILED;
}

/* bon: all samples at once, each reply evaluated. */
static int bon_start(void *self, jb_error *err)
{
    int rc = 0;
    for (int i = 0; rc == 0 && i < fake_samples; i++) rc = ask(self, (uint64_t)i, 0, "", err);
    return rc;
}

static int bon_event(void *self, const jb_event *e, jb_error *err)
{
    fake_method *m = self;
    jb_eval_request req = { .struct_size = sizeof req, .lane = e->lane };
    note(e);
    if (e->kind != JB_OP_LLM || e->status != JB_OP_DONE) return 0;
    return m->eval->reply(m->host, e->op, &req, NULL, NULL, err);
}

/* iter: three lanes of four turns; each prompt holds the last record; the whole
 * cell finishes, with work in flight, when two candidates were ok. */
static int iter_start(void *self, jb_error *err)
{
    int rc = 0;
    for (uint64_t lane = 0; rc == 0 && lane < 3; lane++) rc = ask(self, lane, 0, "first", err);
    return rc;
}

static int iter_event(void *self, const jb_event *e, jb_error *err)
{
    fake_method *m = self;
    char text[200];
    note(e);
    if (e->status == JB_OP_CANCELLED) return 0;
    if (e->kind == JB_OP_LLM) {
        jb_eval_request req = { .struct_size = sizeof req, .lane = e->lane };
        return e->status == JB_OP_DONE ? m->eval->reply(m->host, e->op, &req, NULL, NULL, err) : 0;
    }
    if (e->outcome == JB_OUTCOME_OK && ++m->done == 2) return m->cell->finish(m->host, err);
    if (++m->turns[e->lane] == 4) return 0;
    cJSON *record = jb_json_parse(e->record.ptr, (size_t)e->record.len, err);
    if (!record) return JB_EPARSE;
    snprintf(text, sizeof text, "turn %d after outcome %u, extract %s, duplicate %u", m->turns[e->lane], e->outcome,
             jb_json_str(jb_json_path(record, "stages.extract"), "status", "?"), e->duplicate);
    cJSON_Delete(record);
    return ask(m, e->lane, (uint64_t)m->turns[e->lane], text, err);
}

/* tune: no backend; composes sources, with a parent. */
static int tune_start(void *self, jb_error *err)
{
    fake_method *m = self;
    static const char *const SOURCES[] = { "# wrong\ndef workload(A): return 1\n", "# finalbad\ndef workload(A): return 2\n",
                                           "# finalbad 2\ndef workload(A): return 3\n", "# ok\ndef workload(A):\n    return A\n" };
    uint64_t parent = 0, candidate;
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < 4; i++) {
        jb_eval_request req = { .struct_size = sizeof req, .lane = i, .parents = &parent, .parent_count = i ? 1 : 0 };
        rc = m->eval->source(m->host, (jb_view){ SOURCES[i], strlen(SOURCES[i]) }, &req, &candidate, NULL, err);
        parent = candidate;
    }
    return rc;
}

static int tune_event(void *self, const jb_event *e, jb_error *err)
{
    (void)self; (void)err;
    note(e);
    return 0;
}

#define FAKE_METHOD(id, start_, event_, flags_)                                                                                          \
    static const jb_method_ops id##_OPS = { .struct_size = sizeof id##_OPS, .create = fm_create, .destroy = fm_destroy, .start = start_, .on_event = event_ }; \
    static const jb_component id = { .struct_size = sizeof id, .flags = flags_, .kind = JB_KIND_METHOD, .name = #id, .summary = "fake", .ops = &id##_OPS }
FAKE_METHOD(BON, bon_start, bon_event, 0);
FAKE_METHOD(ITER, iter_start, iter_event, 0);
FAKE_METHOD(TUNE, tune_start, tune_event, JB_COMP_NO_BACKEND);

/* ---- a run -------------------------------------------------------------------------------- */

static const char FAKE_JOB[] =
    "{\"schema\":1,\"workload\":{\"id\":\"%s\",\"dir\":\"/nowhere\"},\"last_stage\":\"check\",\"phase\":\"loop\",\"skip\":[\"compile\"],\"store\":\"\","
    "\"gates\":[{\"name\":\"literature\",\"rows\":[{\"use\":\"allclose\",\"when\":\"loop\"}]},"
    "{\"name\":\"robust\",\"rows\":[{\"use\":\"error_ratio\",\"when\":\"loop\"},{\"use\":\"error_ratio\",\"when\":\"final\"}]}]}";

typedef struct fake_run {
    char dir[256];
    jb_cell_plan cells[6];
    size_t cell_count;
    cJSON *jobs[2], *facts[2];
    jb_engine_options o;
    jb_engine_result result;
    jb_error err;
} fake_run;

static const struct { const char *key, *label; const jb_component *method; int workload, backend; } FAKE_CELLS[] = {
    { "8p+bon+fake+s0", "8p/bon/fake s0", &BON, 0, 1 },    { "8p+bon+fake+s1", "8p/bon/fake s1", &BON, 0, 1 },
    { "12p+iter+fake+s0", "12p/iter/fake s0", &ITER, 1, 1 }, { "8p+tune", "8p/tune", &TUNE, 0, 0 },
};
#define FAKE_CELL_COUNT (sizeof FAKE_CELLS / sizeof FAKE_CELLS[0])

static void fake_reset(void)
{
    fake_calls = fake_backend_fails = fake_submits = fake_most_in_flight = fake_lose_all = fake_bad_json = fake_hang = fake_delay = 0;
    fake_stop_after = -1;
    fake_stop = 0;
    fake_samples = 6;
    fake_salt = "";
    fake_delivered_count = 0;
    fake_cancelled_events = fake_failed_events = fake_budget_refusals = 0;
}

static void fake_manifest(const fake_run *r)
{
    cJSON *m = cJSON_CreateObject(), *gates, *cells, *backends, *o;
    jb_json_set_str(m, "name", "fake");
    jb_json_set_str(m, "headline", "robust");
    jb_json_set_bool(m, "final_rows", 1);
    gates = jb_json_add_arr(m, "gates");
    static const char *const SETS[] = { "literature", "robust" };
    for (size_t i = 0; i < 2; i++) {
        cJSON_AddItemToArray(gates, o = cJSON_CreateObject());
        jb_json_set_str(o, "name", SETS[i]);
    }
    backends = jb_json_add_arr(m, "backends");
    cJSON_AddItemToArray(backends, o = cJSON_CreateObject());
    jb_json_set_str(o, "name", "fake");
    jb_json_set_bool(o, "no_model", 1);
    cells = jb_json_add_arr(m, "cells");
    for (size_t i = 0; i < r->cell_count; i++) {
        cJSON_AddItemToArray(cells, o = cJSON_CreateObject());
        jb_json_set_str(o, "key", r->cells[i].key);
        jb_json_set_str(o, "label", r->cells[i].label);
        jb_json_set_str(o, "workload", jb_json_str(r->cells[i].facts, "id", "?"));
        jb_json_set_str(o, "method", r->cells[i].method->name);
        jb_json_set_str(o, "backend", r->cells[i].backend ? "fake" : "");
    }
    jb_buf text = JB_BUF_INIT(1u << 20);
    ck_assert_int_eq(jb_json_print(m, &text), 0);
    char path[300];
    jb_error err = JB_ERROR_INIT;
    snprintf(path, sizeof path, "%s/manifest.json", r->dir);
    ck_assert_int_eq(jb_fs_write_atomic(path, text.ptr, text.len, &err), 0);
    jb_buf_free(&text);
    cJSON_Delete(m);
}

/* A plan of all FAKE_CELLS in a fresh folder below `root`. */
static void fake_open(fake_run *r, const char *root, const char *name, int64_t slots)
{
    static const char *const IDS[] = { "8p", "12p" };
    memset(r, 0, sizeof *r);
    r->err = (jb_error)JB_ERROR_INIT;
    snprintf(r->dir, sizeof r->dir, "%s/%s", root, name);
    ck_assert_int_eq(jb_fs_mkdirs(r->dir, &r->err), 0);
    for (size_t i = 0; i < 2; i++) {
        char text[2000];
        int n = snprintf(text, sizeof text, FAKE_JOB, IDS[i]);
        r->jobs[i] = jb_json_parse(text, (size_t)n, &r->err);
        ck_assert_ptr_nonnull(r->jobs[i]);
        r->facts[i] = cJSON_CreateObject();
        jb_json_set_str(r->facts[i], "id", IDS[i]);
    }
    r->cell_count = FAKE_CELL_COUNT;
    for (size_t i = 0; i < FAKE_CELL_COUNT; i++) {
        r->cells[i] = (jb_cell_plan){ .key = FAKE_CELLS[i].key, .label = FAKE_CELLS[i].label, .identity = FAKE_CELLS[i].key,
                                      .method = FAKE_CELLS[i].method, .backend = FAKE_CELLS[i].backend ? &FAKE_BACKEND : NULL,
                                      .facts = r->facts[FAKE_CELLS[i].workload], .job = r->jobs[FAKE_CELLS[i].workload], .samples = -1, .expected = -1 };
    }
    r->o = (jb_engine_options){ .cells = r->cells, .cell_count = r->cell_count, .run_dir = r->dir, .study_seed = "7", .headline = "robust",
                                .last_stage = JB_STAGE_CHECK, .stop = &fake_stop, .stop_fd = -1,
                                .pool = { .executor = &FAKE_EXECUTOR, .paths = { .worker = "w", .cache = "c", .suite = "s", .plugins = "p" },
                                          .slots = slots, .infra_retries = 2 } };
}

static int fake_go(fake_run *r)
{
    r->o.cell_count = r->cell_count;
    fake_manifest(r);
    return jb_engine_run(&r->o, &r->result, &r->err);
}

static void fake_close(fake_run *r)
{
    for (size_t i = 0; i < 2; i++) {
        cJSON_Delete(r->jobs[i]);
        cJSON_Delete(r->facts[i]);
    }
}

/* ---- looking at a run -------------------------------------------------------------------------- */

static void add_tree(jb_buf *out, const char *dir, const char *rel)
{
    char **names = NULL;
    char *here = rel[0] ? jb_fs_join(dir, rel) : jb_strdup(dir);
    int64_t n = jb_fs_list(here, &names);
    for (int64_t i = 0; i < n; i++) {
        char *below = rel[0] ? jb_fs_join(rel, names[i]) : jb_strdup(names[i]), *path = jb_fs_join(dir, below);
        if (jb_fs_is_dir(path)) {
            add_tree(out, dir, below);
        } else {
            jb_buf body = JB_BUF_INIT(1u << 22);
            jb_error err = JB_ERROR_INIT;
            ck_assert_int_eq(jb_fs_read(path, 1u << 22, &body, &err), 0);
            jb_buf_printf(out, "== %s\n", below);
            if (strcmp(names[i], "result.json") == 0) {
                cJSON *o = jb_json_parse(body.ptr, body.len, &err);
                ck_assert_msg(o != NULL, "%s: %s", below, err.message);
                jb_volatile_strip(o);
                jb_json_print_pretty(o, out);
                cJSON_Delete(o);
            } else {
                jb_buf_append(out, body.ptr, body.len);
            }
            jb_buf_free(&body);
        }
        jb_free(below);
        jb_free(path);
    }
    if (n >= 0) jb_fs_list_free(names, n);
    jb_free(here);
}

/* Archive and stable report of a run as one text. */
__attribute__((unused)) static char *fake_view(const char *run_dir)
{
    jb_buf out = JB_BUF_INIT(1u << 24);
    jb_records *rec = NULL;
    jb_error err = JB_ERROR_INIT;
    char *cells = jb_fs_join(run_dir, "cells");
    add_tree(&out, cells, "");
    jb_free(cells);
    ck_assert_msg(jb_records_load(run_dir, &rec, &err) == 0, "%s", err.message);
    cJSON *report = jb_report_json(rec, run_dir, 1);
    ck_assert_ptr_nonnull(report);
    jb_json_print_pretty(report, &out);
    cJSON_Delete(report);
    jb_records_free(rec);
    ck_assert_int_eq(out.status, 0);
    return jb_buf_detach(&out);
}

__attribute__((unused)) static void same_view(const char *what, const char *a, const char *b)
{
    if (strcmp(a, b) == 0) return;
    size_t i = 0, line = 0;
    while (a[i] && a[i] == b[i]) i++;
    for (line = i; line > 0 && a[line - 1] != '\n'; line--) {}
    ck_abort_msg("%s: differs at byte %zu:\n%.300s\n--- and ---\n%.300s", what, i, a + line, b + line);
}

__attribute__((unused)) static char *fake_slurp(const char *dir, const char *name, size_t *len)
{
    jb_buf b = JB_BUF_INIT(1u << 26);
    jb_error err = JB_ERROR_INIT;
    char *path = jb_fs_join(dir, name);
    ck_assert_msg(jb_fs_read(path, 1u << 26, &b, &err) == 0, "%s", err.message);
    jb_free(path);
    *len = b.len;
    return b.ptr ? jb_buf_detach(&b) : jb_strdup("");
}

static void fake_spit(const char *dir, const char *name, const char *text, size_t len)
{
    char *path = jb_fs_join(dir, name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, len, f), len);
    fclose(f);
    jb_free(path);
}

static char fake_root[64];

static void fake_setup(void)
{
    jb_json_setup();
    fake_reset();
    /* Thousands of synced files: in memory where there is such a place. */
    snprintf(fake_root, sizeof fake_root, "%s/jb-engine-XXXXXX", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(fake_root));
}

static void fake_teardown(void)
{
    jb_error err = JB_ERROR_INIT;
    jb_fs_remove_tree(fake_root, &err);
}

#endif
