/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/evals.c - one evaluation per (source, job) of the whole run, and
 * the candidates that wait for it.
 *
 * Who is first to ask depends on slots and speed, so it must not show: the record
 * is the same for all, `shared` (a volatile field) says who did not pay the
 * seconds, and `duplicate`, which methods see, counts the candidate's own cell
 * only.  An evaluation that ended as infra is not remembered. */
#include "core/base/error.h"
#include "core/engine/state.h"
#include "core/evaluate/job.h"

#include <string.h>

/* ---- the table: sorted by key -------------------------------------------------------- */

static size_t position(const jb_engine *e, const char *key)
{
    size_t low = 0, high = e->eval_count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (strcmp(e->evals[mid]->key, key) < 0) low = mid + 1;
        else high = mid;
    }
    return low;
}

/* The entry of a key, made when absent; NULL without memory. */
static jb_eval *entry(jb_engine *e, const char *key)
{
    size_t at = position(e, key);
    if (at < e->eval_count && strcmp(e->evals[at]->key, key) == 0) return e->evals[at];
    if (e->eval_count == e->eval_cap) {
        size_t cap = e->eval_cap ? 2 * e->eval_cap : 64;
        jb_eval **grown = jb_realloc(e->evals, cap * sizeof *grown);
        if (!grown) return NULL;
        e->evals = grown;
        e->eval_cap = cap;
    }
    jb_eval *v = jb_alloc(sizeof *v);
    if (!v) return NULL;
    memcpy(v->key, key, sizeof v->key);
    v->tag = (uint64_t)(uintptr_t)v; /* entries never move */
    memmove(e->evals + at + 1, e->evals + at, (e->eval_count - at) * sizeof *e->evals);
    e->evals[at] = v;
    e->eval_count++;
    return v;
}

void jb_evals_free(jb_engine *e)
{
    for (size_t i = 0; i < e->eval_count; i++) {
        jb_free(e->evals[i]->waiters);
        jb_free(e->evals[i]);
    }
    jb_free(e->evals);
    e->evals = NULL;
    e->eval_count = e->eval_cap = 0;
}

int jb_evals_known(jb_engine *e, const cJSON *event, jb_span done)
{
    const char *key = jb_json_str(event, "key", "");
    if (strlen(key) != JB_HASH_HEX - 1 || strcmp(jb_json_str(event, "outcome", ""), "infra") == 0) return 0;
    jb_eval *v = entry(e, key);
    if (!v) return JB_ENOMEM;
    if (!v->done.seq) v->done = done;
    return 0;
}

/* ---- jobs -------------------------------------------------------------------------------- */

static void pool_log(void *ctx, uint32_t level, jb_view text) { jb_engine_log(ctx, "executor", level, text); }

static int need_pool(jb_engine *e, jb_error *err)
{
    if (e->pool) return 0;
    jb_pool_options o = e->o->pool;
    o.log = pool_log;
    o.log_ctx = e;
    return jb_pool_open(&o, &e->pool, err);
}

static int start(jb_eval *v, const jb_waiter *w, jb_error *err)
{
    jb_cell *c = w->cell;
    jb_candidate *k = jb_cell_candidate(c, w->candidate);
    int rc = need_pool(c->e, err), needs_source = 1;
    if (rc != 0) return rc;
    cJSON *job = NULL, *record = NULL;
    if (w->final) {
        record = jb_settle_record(c, k, err);
        if (!record) return err->code;
        job = jb_job_final(c->plan->job, record, &needs_source);
        cJSON_Delete(record);
    } else {
        job = jb_job_until(c->plan->job, jb_stage_name(k->last_stage));
    }
    if (!job) return jb_err(err, JB_ENOMEM, "cell %s: out of memory", c->plan->label);
    jb_view body = { needs_source ? k->source : NULL, needs_source ? k->source_len : 0 };
    jb_budget_reserve_job(c->e, v, job);
    rc = jb_pool_submit(c->e->pool, v->tag, job, body, err); /* takes the job */
    v->running = rc == 0;
    return rc;
}

static int add_waiter(jb_eval *v, jb_waiter w)
{
    if (v->waiter_count == v->waiter_cap) {
        size_t cap = v->waiter_cap ? 2 * v->waiter_cap : 4;
        jb_waiter *grown = jb_realloc(v->waiters, cap * sizeof *grown);
        if (!grown) return JB_ENOMEM;
        v->waiters = grown;
        v->waiter_cap = cap;
    }
    v->waiters[v->waiter_count++] = w;
    return 0;
}

static int settle(const jb_eval *v, jb_waiter w, const cJSON *record, uint32_t attempts, int shared, jb_span *span)
{
    jb_candidate *k = jb_cell_candidate(w.cell, w.candidate);
    if (!w.final) return jb_settle(w.cell, k, record, attempts, shared, span);
    w.cell->final_candidate = 0;
    return jb_settle_final(w.cell, k, v->key, record, attempts, shared, span);
}

/* From a record that the journal holds. */
static int settle_known(const jb_eval *v, jb_waiter w, jb_error *err)
{
    cJSON *event = jb_journal_get(w.cell->e->journal, v->done, err);
    cJSON *record = event ? cJSON_DetachItemFromObjectCaseSensitive(event, "record") : NULL;
    int rc = record ? settle(v, w, record, 0, 1, NULL) : err->code ? err->code : JB_EPARSE;
    cJSON_Delete(record);
    cJSON_Delete(event);
    return rc;
}

static int request(jb_cell *c, jb_candidate *k, const char *key, int final)
{
    jb_error err = JB_ERROR_INIT;
    jb_waiter w = { c, k->id, final };
    jb_eval *v = entry(c->e, key);
    int rc = v ? 0 : jb_err(&err, JB_ENOMEM, "cell %s: out of memory", c->plan->label);
    if (rc == 0 && v->done.seq) {
        rc = settle_known(v, w, &err);
    } else if (rc == 0) {
        rc = add_waiter(v, w);
        if (rc != 0) jb_err(&err, rc, "cell %s: out of memory", c->plan->label);
        else if (!v->running) rc = start(v, &w, &err);
    }
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

int jb_evals_request(jb_cell *c, jb_candidate *k) { return request(c, k, k->key, 0); }

int jb_evals_held(jb_cell *c, const jb_candidate *k)
{
    jb_engine *e = c->e;
    size_t at = position(e, k->key);
    const jb_eval *v = at < e->eval_count && strcmp(e->evals[at]->key, k->key) == 0 ? e->evals[at] : NULL;
    return !(v && (v->done.seq || v->running)) && !jb_budget_admits_job(e, c->plan->job);
}

static int final_key(const jb_cell *c, const jb_candidate *k, char out[JB_HASH_HEX])
{
    int ignored;
    cJSON *job = jb_job_final(c->plan->job, NULL, &ignored);
    int rc = job ? jb_job_key(job, k->source_hash, out) : JB_ENOMEM;
    cJSON_Delete(job);
    return rc;
}

int jb_evals_request_final(jb_cell *c, jb_candidate *k)
{
    char key[JB_HASH_HEX];
    jb_error err = JB_ERROR_INIT;
    int rc = final_key(c, k, key);
    if (rc != 0) return jb_engine_fatal(c->e, jb_err(&err, rc, "cell %s: out of memory", c->plan->label), &err);
    return request(c, k, key, 1);
}

void jb_evals_cancel(jb_cell *c, jb_candidate *k)
{
    if (!k->key[0]) return;
    jb_eval *v = entry(c->e, k->key);
    for (size_t i = 0; v && i < v->waiter_count; i++) {
        if (v->waiters[i].cell != c || v->waiters[i].candidate != k->id || v->waiters[i].final) continue;
        memmove(v->waiters + i, v->waiters + i + 1, (v->waiter_count - i - 1) * sizeof *v->waiters);
        v->waiter_count--;
        if (v->running && v->waiter_count == 0) jb_pool_cancel(c->e->pool, v->tag);
        return;
    }
}

int jb_evals_done(jb_engine *e, uint64_t tag, cJSON *record, uint32_t attempts)
{
    jb_eval *v = (jb_eval *)(uintptr_t)tag;
    jb_error err = JB_ERROR_INIT;
    int rc = 0;
    v->running = 0;
    jb_budget_release_job(e, v);
    if (!record) { /* cancelled; somebody may have come to want it meanwhile */
        if (v->waiter_count) rc = start(v, &v->waiters[0], &err);
        return rc ? jb_engine_fatal(e, rc, &err) : 0;
    }
    jb_judgement j;
    jb_judge_record(record, e->o->headline, JB_STAGE_EXTRACT, &j);
    size_t count = v->waiter_count;
    v->waiter_count = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        jb_span span = { 0, 0, 0 };
        rc = settle(v, v->waiters[i], record, attempts, i > 0, &span);
        if (rc == 0 && i == 0 && j.outcome != JB_OUTCOME_INFRA) v->done = span;
    }
    cJSON_Delete(record);
    return rc;
}
