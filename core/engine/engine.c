/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/engine.c - the loop: start cells while slots are idle, let them
 * advance, ask one backend, take what the executor has, sync the journal, sleep
 * in poll until something happens. */
#include "core/engine/engine.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/engine/calls.h"
#include "core/engine/state.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define SLEEP_MS 1000
#define LIVE_MS 250
#define INFRA_MIN 10 /* candidates before the share of infra failures means anything */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int jb_engine_fatal(jb_engine *e, int rc, const jb_error *err)
{
    if (e->fatal) return e->fatal;
    e->fatal = rc;
    if (err && err->code) e->error = *err;
    else jb_err(&e->error, rc, "the run can't go on: out of memory or an unnamed failure (%s)", jb_err_name(rc));
    return rc;
}

/* {"t":..,"cell":..,"level":..,"text":..}: never a result, so failures to write are ignored. */
void jb_engine_log(jb_engine *e, const char *cell, uint32_t level, jb_view text)
{
    static const char *const LEVELS[] = { "?", "debug", "info", "warn" };
    if (!e->log) return;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    cJSON *o = cJSON_CreateObject();
    jb_buf b = JB_BUF_INIT(1u << 20);
    if (text.len > 16384) text.len = 16384;
    if (o && jb_json_set_num(o, "t", (double)t.tv_sec + (double)(t.tv_nsec / 1000000) / 1e3) == 0 &&
        jb_json_set_str(o, "cell", cell) == 0 && jb_json_set_str(o, "level", LEVELS[level <= JB_LOG_WARN ? level : 0]) == 0 &&
        jb_json_set_view(o, "text", text) == 0 && jb_json_print(o, &b) == 0 && b.ptr) {
        fprintf(e->log, "%s\n", b.ptr);
        fflush(e->log);
    }
    jb_buf_free(&b);
    cJSON_Delete(o);
}

/* ---- set-up ---------------------------------------------------------------------------- */

static int journal_session(jb_engine *e, jb_error *err)
{
    char host[128] = "?";
    gethostname(host, sizeof host - 1);
    cJSON *b = cJSON_CreateObject();
    int rc = b ? jb_json_set_i64(b, "pid", getpid()) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(b, "host", host);
    if (rc == 0) rc = jb_json_set_str(b, "version", JB_VERSION);
    if (rc == 0) rc = jb_budget_json(e, b);
    if (rc != 0) jb_err(err, rc, "journal: out of memory");
    if (rc == 0) rc = jb_journal_append(e->journal, "session", b, NULL, err);
    cJSON_Delete(b);
    return rc;
}

static int init(jb_engine *e, jb_error *err)
{
    const jb_engine_options *o = e->o;
    char *journal = jb_fs_join(o->run_dir, "journal.jsonl"), *log = jb_fs_join(o->run_dir, "log.jsonl");
    e->blobs = jb_fs_join(o->run_dir, "blobs");
    e->cells_dir = jb_fs_join(o->run_dir, "cells");
    e->cells = jb_alloc_array(o->cell_count ? o->cell_count : 1, sizeof *e->cells);
    int rc = journal && log && e->blobs && e->cells_dir && e->cells ? 0 : jb_err(err, JB_ENOMEM, "run: out of memory");
    if (rc == 0) rc = jb_fs_mkdirs(e->blobs, err);
    if (rc == 0) rc = jb_fs_mkdirs(e->cells_dir, err);
    if (rc == 0) rc = jb_budget_open(e, err);
    for (size_t i = 0; rc == 0 && i < o->cell_count; i++) rc = jb_cell_init(&e->cells[i], e, &o->cells[i], err);
    if (rc == 0) rc = jb_journal_open(journal, jb_replay_visit, e, &e->result->torn_bytes, &e->journal, err);
    if (rc == 0) e->log = fopen(log, "ae"); /* without it the run goes on */
    if (rc == 0) jb_budget_watch(e);
    if (rc == 0) rc = jb_calls_open(e, err);
    if (rc == 0) rc = journal_session(e, err);
    if (rc == 0) jb_budget_save(e, 1);
    jb_free(journal);
    jb_free(log);
    return rc;
}

static void tear_down(jb_engine *e)
{
    jb_pool_close(e->pool);
    jb_calls_close(e);
    jb_journal_close(e->journal);
    jb_budget_close(e);
    for (size_t i = 0; e->cells && i < e->o->cell_count; i++) jb_cell_free(&e->cells[i]);
    jb_evals_free(e);
    if (e->log) fclose(e->log);
    jb_free(e->cells);
    jb_free(e->blobs);
    jb_free(e->cells_dir);
}

/* ---- one turn -------------------------------------------------------------------------------- */

static size_t running_cells(const jb_engine *e)
{
    size_t n = 0;
    for (size_t i = 0; i < e->o->cell_count; i++)
        n += e->cells[i].state == JB_CELL_RUNNING || e->cells[i].state == JB_CELL_FINALS;
    return n;
}

/* A component that allows one instance at a time holds back the next cell that uses it. */
static int serial_conflict(const jb_engine *e, const jb_cell *next)
{
    for (size_t i = 0; i < e->o->cell_count; i++) {
        const jb_cell *c = &e->cells[i];
        if (c->state != JB_CELL_RUNNING && c->state != JB_CELL_FINALS) continue;
        if (c->plan->method == next->plan->method && (next->plan->method->flags & JB_COMP_SERIAL)) return 1;
        if (next->plan->backend && c->plan->backend == next->plan->backend && (next->plan->backend->flags & JB_COMP_SERIAL)) return 1;
    }
    return 0;
}

static int slots_idle(const jb_engine *e)
{
    if (!e->pool) return running_cells(e) == 0;
    return jb_pool_queued(e->pool) == 0 && jb_pool_busy(e->pool) < (size_t)jb_pool_slots(e->pool);
}

static int local_calls_queued(const jb_engine *e)
{
    for (size_t i = 0; i < e->o->cell_count; i++) {
        const jb_cell *c = &e->cells[i];
        if (c->gate) continue;
        for (size_t k = c->delivered; c->state == JB_CELL_RUNNING && k < c->op_count; k++)
            if (c->ops[k]->kind == JB_OP_LLM && c->ops[k]->state == JB_OP_QUEUED) return 1;
    }
    return 0;
}

/* A cell of a remote backend may wait for its replies while the slots are taken
 * up by nobody, so what counts is room at its gate.  Calls that a budget `held`
 * back keep no one. */
static int may_start(const jb_engine *e, const jb_cell *c, int held)
{
    if (running_cells(e) == 0) return 1;
    if (held) return !e->pool || slots_idle(e);
    if (c->gate) return (!e->pool || slots_idle(e)) && jb_calls_room(e, c);
    return slots_idle(e) && !local_calls_queued(e);
}

/* Start the next cell when the running ones leave slots idle; 1 when one was.
 * Where a budget `held` something back, only cells that had begun before: they
 * may have replies that are paid for and not judged yet. */
static int start_next(jb_engine *e, int held)
{
    for (size_t i = 0; i < e->o->cell_count; i++) {
        jb_cell *c = &e->cells[i];
        if (c->state != JB_CELL_IDLE || serial_conflict(e, c) || !may_start(e, c, held) || (held && !c->replay.begun)) continue;
        if (jb_cell_start(c) == 0) jb_cell_advance(c);
        return 1;
    }
    return 0;
}

static void advance_all(jb_engine *e)
{
    for (size_t i = 0; i < e->o->cell_count && !e->fatal; i++)
        if (e->cells[i].state == JB_CELL_RUNNING || e->cells[i].state == JB_CELL_FINALS) jb_cell_advance(&e->cells[i]);
}

/* One call of one backend, cells in turn, so that the executor is never starved. */
static int call_one(jb_engine *e)
{
    for (size_t n = 0; n < e->o->cell_count; n++) {
        jb_cell *c = &e->cells[(e->next_llm_cell + n) % e->o->cell_count];
        int rc = jb_cell_call(c);
        if (rc == 0) continue;
        e->next_llm_cell = (e->next_llm_cell + n + 1) % e->o->cell_count;
        if (rc > 0) jb_cell_advance(c);
        return 1;
    }
    return 0;
}

static int journal_ready(jb_engine *e, cJSON *record, jb_error *err)
{
    cJSON *b = cJSON_CreateObject();
    int rc = b && record && cJSON_AddItemToObject(b, "ready", record) ? 0 : JB_ENOMEM;
    if (rc == 0) rc = jb_journal_append(e->journal, "executor", b, NULL, err);
    else cJSON_Delete(record);
    cJSON_Delete(b);
    return rc == JB_ENOMEM ? 0 : rc; /* a fact to have, not one to stop for */
}

/* 1 when something had ended. */
static int take_events(jb_engine *e)
{
    jb_error err = JB_ERROR_INIT;
    int rc = 0, ended = 0;
    while (e->pool && !e->fatal) {
        jb_pool_event ev;
        rc = jb_pool_next(e->pool, &ev, &err);
        if (rc <= 0) break;
        rc = 0;
        if (ev.kind == JB_POOL_READY) {
            rc = journal_ready(e, ev.record, &err);
        } else if (ev.kind == JB_POOL_PROGRESS) {
            cJSON_Delete(ev.record);
        } else {
            if (ev.cancelled) {
                cJSON_Delete(ev.record);
                ev.record = NULL;
            }
            jb_evals_done(e, ev.tag, ev.record, ev.attempts);
            ended = 1;
        }
        if (rc != 0) break;
    }
    if (rc == 0 && e->pool && !e->fatal) rc = jb_pool_pump(e->pool, &err);
    if (rc < 0) jb_engine_fatal(e, rc, &err);
    return ended;
}

static int all_ended(const jb_engine *e)
{
    for (size_t i = 0; i < e->o->cell_count; i++)
        if (e->cells[i].state != JB_CELL_ENDED) return 0;
    return 1;
}

/* Failed calls would have been candidates. */
static int too_much_infra(const jb_engine *e, int64_t failed_calls)
{
    const jb_engine_result *r = e->result;
    double share = e->o->stop_after_infra_share;
    return share > 0 && (double)(r->infra + failed_calls) > share * (double)(r->candidates + failed_calls);
}

static int must_stop(jb_engine *e)
{
    const jb_engine_options *o = e->o;
    jb_engine_result *r = e->result;
    if (o->stop && *o->stop) r->end = JB_END_SIGNAL;
    else if (jb_budget_out_of_time(e)) r->end = JB_END_BUDGET;
    else if (r->candidates + e->live_failed_calls >= INFRA_MIN && too_much_infra(e, e->live_failed_calls))
        r->end = JB_END_INFRA;
    return r->end != JB_END_DONE;
}

static void sleep_until_news(jb_engine *e)
{
    struct pollfd fds[3];
    nfds_t n = 0;
    size_t busy = e->pool ? jb_pool_busy(e->pool) : 0, queued = e->pool ? jb_pool_queued(e->pool) : 0;
    if (e->pool) fds[n++] = (struct pollfd){ .fd = jb_pool_fd(e->pool), .events = POLLIN };
    if (e->o->stop_fd >= 0) fds[n++] = (struct pollfd){ .fd = e->o->stop_fd, .events = POLLIN };
    if (e->calls) fds[n++] = (struct pollfd){ .fd = jb_calls_fd(e), .events = POLLIN };
    int64_t wait = e->o->progress ? LIVE_MS : SLEEP_MS, calls = jb_calls_timeout_ms(e);
    if (calls >= 0 && calls < wait) wait = calls;
    jb_budget_show(e);
    jb_progress_tick(e->o->progress, busy, queued);
    if (poll(fds, n, (int)wait) < 0 && errno != EINTR) {
        jb_error err = JB_ERROR_INIT;
        jb_engine_fatal(e, jb_err(&err, JB_EIO, "poll: %s", strerror(errno)), &err);
    }
}

/* A budget is reached: the final rows of what was found, then the end. */
static void pause_all(jb_engine *e)
{
    e->closing = 1;
    for (size_t i = 0; i < e->o->cell_count; i++) jb_cell_pause(&e->cells[i]);
}

static int all_paused(jb_engine *e)
{
    if (!e->closing || running_cells(e)) return 0;
    e->result->end = JB_END_BUDGET;
    return 1;
}

static void loop(jb_engine *e)
{
    jb_error err = JB_ERROR_INIT;
    while (!e->fatal && !all_ended(e) && !must_stop(e) && !all_paused(e)) {
        int held = e->held != 0, busy = 0;
        e->held = 0;
        busy |= !e->closing && start_next(e, held);
        busy |= take_events(e);
        busy |= !e->fatal && jb_calls_turn(e);
        advance_all(e);
        busy |= !e->fatal && !e->closing && call_one(e);
        if (!busy && !e->fatal && !e->closing && jb_budget_reached(e)) {
            pause_all(e);
            busy = 1;
        }
        if (!e->fatal && e->pool && jb_pool_pump(e->pool, &err) != 0) jb_engine_fatal(e, err.code, &err);
        int rc = jb_journal_sync(e->journal, &err);
        if (rc != 0) jb_engine_fatal(e, rc, &err);
        jb_budget_save(e, 0);
        if (!busy && !e->fatal && !all_ended(e) && !(e->closing && !running_cells(e))) sleep_until_news(e);
    }
}

int jb_engine_run(const jb_engine_options *o, jb_engine_result *out, jb_error *err)
{
    jb_engine e = { .o = o, .result = out, .begin_ns = now_ns(), .error = JB_ERROR_INIT };
    *out = (jb_engine_result){ .end = JB_END_DONE, .first_failure = JB_ERROR_INIT, .provider = JB_ERROR_INIT };
    int rc = init(&e, err);
    if (rc == 0) {
        loop(&e);
        jb_calls_drain(&e);
        rc = e.fatal;
        if (rc != 0 && err) *err = e.error;
    }
    if (rc == 0 && out->end == JB_END_DONE) {
        rc = jb_journal_append(e.journal, "run_end", NULL, NULL, err);
        if (rc == 0) rc = jb_journal_sync(e.journal, err);
        if (rc == 0 && out->failed_calls > 0 && too_much_infra(&e, out->failed_calls)) out->end = JB_END_INFRA;
    }
    out->spent = e.tally.spent;
    jb_budget_save(&e, 1);
    tear_down(&e);
    return rc;
}
