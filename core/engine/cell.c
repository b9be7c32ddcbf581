/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/cell.c - the life of a cell: start its method, execute its calls,
 * deliver ends in the order of submission, run the final rows, end.
 *
 *     idle -> running -> finals -> ended        (a failing plugin: -> ended, failed) */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/text.h"
#include "core/engine/blobs.h"
#include "core/engine/calls.h"
#include "core/engine/state.h"
#include "core/evaluate/job.h"

#include <jaxbench/checker.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define ARENA_BYTES ((size_t)256 << 20)
#define INLINE_TEXT ((size_t)64 << 10) /* longer replies are blobs */
#define CALL_TRIES 3u     /* of a local backend that says: transient */
#define FINAL_TRIES 3u    /* how many of a cell's best may be tried on the final rows */
#define HANDLER_WARN_NS 100000000LL
#define HANDLER_ABORT_NS 10000000000LL
#define CALL_WARN_NS 10000000000LL

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

jb_op *jb_cell_op(jb_cell *c, uint64_t id) { return id >= 1 && id <= c->op_count ? c->ops[id - 1] : NULL; }

jb_candidate *jb_cell_candidate(jb_cell *c, uint64_t id)
{
    return id >= 1 && id <= c->candidate_count ? c->candidates[id - 1] : NULL;
}

/* ---- set-up -------------------------------------------------------------------------- */

static int check_backend(const jb_cell_plan *p, jb_error *err)
{
    if (!p->backend) return 0;
    const jb_backend_ops *ops = p->backend->ops;
    if ((JB_HAS(ops, jb_backend_ops, complete) && ops->complete) || jb_backend_is_remote(p->backend)) return 0;
    return jb_err(err, JB_EABI, "backend %s has neither `complete` nor `encode` and `decode`", p->backend->name);
}

int jb_cell_init(jb_cell *c, jb_engine *e, const jb_cell_plan *plan, jb_error *err)
{
    c->e = e;
    c->plan = plan;
    jb_host_bind(c);
    jb_ledger_init(&c->ledger, plan->samples);
    int rc = check_backend(plan, err);
    if (rc != 0) return jb_err_context(err, "cell %s", plan->label), rc;
    char *name = jb_asprintf("%s/%s", e->o->study_seed, plan->identity);
    char *calls = jb_asprintf("%s/%s/calls", e->o->study_seed, plan->identity);
    c->dir = jb_fs_join(e->cells_dir, plan->key);
    if (name && calls && c->dir) {
        c->rng = jb_rng_key_of(name);
        c->call_seeds = jb_rng_key_of(calls);
    } else {
        rc = jb_err(err, JB_ENOMEM, "cell %s: out of memory", plan->label);
    }
    jb_free(name);
    jb_free(calls);
    return rc;
}

static void release_instances(jb_cell *c)
{
    const jb_method_ops *m = c->plan->method->ops;
    const jb_backend_ops *b = c->plan->backend ? c->plan->backend->ops : NULL;
    if (c->method && m->destroy) m->destroy(c->method);
    if (c->backend && b && b->destroy) b->destroy(c->backend);
    c->method = c->backend = NULL;
    jb_config_free(c->config);
    jb_config_free(c->backend_config);
    c->config = c->backend_config = NULL;
    jb_arena_free(c->arena);
    jb_arena_free(c->backend_arena);
    c->arena = c->backend_arena = NULL;
}

/* What only a running cell needs: texts of operations and candidates. */
static void release_texts(jb_cell *c)
{
    for (size_t i = 0; i < c->op_count; i++) {
        jb_free(c->ops[i]->prompt);
        jb_free(c->ops[i]->messages);
        jb_free(c->ops[i]->reply);
        c->ops[i]->prompt = c->ops[i]->reply = NULL;
        c->ops[i]->messages = NULL;
    }
    for (size_t i = 0; i < c->candidate_count; i++) {
        jb_free(c->candidates[i]->source);
        c->candidates[i]->source = NULL;
    }
}

void jb_cell_free(jb_cell *c)
{
    if (!c->plan) return;
    release_instances(c);
    release_texts(c);
    for (size_t i = 0; i < c->op_count; i++) jb_free(c->ops[i]);
    for (size_t i = 0; i < c->candidate_count; i++) {
        jb_free(c->candidates[i]->parents);
        jb_free(c->candidates[i]);
    }
    jb_free(c->ops);
    jb_free(c->candidates);
    jb_replay_free(&c->replay);
    jb_free(c->dir);
    c->dir = NULL;
}

static int create_instances(jb_cell *c, jb_error *err)
{
    const jb_cell_plan *p = c->plan;
    const jb_method_ops *m = p->method->ops;
    c->arena = jb_arena_new(ARENA_BYTES);
    c->backend_arena = jb_arena_new(ARENA_BYTES);
    if (!c->arena || !c->backend_arena) return jb_err(err, JB_ENOMEM, "out of memory");
    int rc = 0;
    if (p->backend) {
        const jb_backend_ops *b = p->backend->ops;
        rc = jb_config_new(p->backend, p->backend_options, &c->backend_config, err);
        if (rc == 0) rc = b->create(&c->backend_host, jb_config_data(c->backend_config), &c->backend, err);
        if (rc != 0) return jb_err_context(err, "backend %s", p->backend->name), rc;
    }
    rc = jb_config_new(p->method, p->method_options, &c->config, err);
    if (rc == 0) rc = m->create(&c->host, jb_config_data(c->config), &c->method, err);
    if (rc != 0) jb_err_context(err, "method %s", p->method->name);
    return rc;
}

/* ---- journal lines of the cell itself ---------------------------------------------------- */

static int journal_cell(jb_cell *c, const char *kind, cJSON *body)
{
    jb_error err = JB_ERROR_INIT;
    int rc = body && jb_json_set_str(body, "cell", c->plan->key) == 0 ? 0 : jb_err(&err, JB_ENOMEM, "journal: out of memory");
    if (rc == 0) rc = jb_journal_append(c->e->journal, kind, body, NULL, &err);
    cJSON_Delete(body);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

static int journal_end(jb_cell *c)
{
    if (c->replay.ended) return 0;
    cJSON *b = cJSON_CreateObject(), *ledger = jb_ledger_json(&c->ledger);
    int rc = b && ledger ? jb_json_set_str(b, "status", c->failed ? "failed" : "done") : JB_ENOMEM;
    if (rc == 0 && c->failed) rc = jb_json_set_str(b, "message", c->error.message);
    if (rc == 0 && !cJSON_AddItemToObject(b, "ledger", ledger)) rc = JB_ENOMEM;
    if (rc == 0) return journal_cell(c, "cell_end", b);
    cJSON_Delete(ledger);
    cJSON_Delete(b);
    return jb_engine_fatal(c->e, JB_ENOMEM, NULL);
}

/* ---- handlers ------------------------------------------------------------------------------ */

/* What must hold when a handler of the plugin has returned. */
static int after_handler(jb_cell *c, const char *which, int rc, int64_t began, jb_error *err)
{
    int64_t took = now_ns() - began;
    c->in_handler = 0;
    jb_arena_reset(c->arena);
    if (c->e->fatal) return c->e->fatal;
    if (took > HANDLER_WARN_NS) {
        char text[160];
        int n = snprintf(text, sizeof text, "%s of method %s took %.1f s; a handler submits and returns", which,
                         c->plan->method->name, (double)took / 1e9);
        jb_engine_log(c->e, c->plan->key, JB_LOG_WARN, (jb_view){ text, (uint64_t)n });
    }
    if (rc == 0 && took > HANDLER_ABORT_NS)
        rc = jb_err(err, JB_ETIMEOUT, "%s took %.1f s, the limit is 10 s", which, (double)took / 1e9);
    if (rc == 0) return 0;
    if (!err->code) jb_err(err, rc, "%s returned %d without saying why", which, rc);
    jb_err_context(err, "method %s", c->plan->method->name);
    jb_cell_fail(c, err);
    return c->e->fatal;
}

int jb_cell_start(jb_cell *c)
{
    jb_error err = JB_ERROR_INIT;
    c->state = JB_CELL_RUNNING;
    if (!c->replay.begun && journal_cell(c, "cell_begin", cJSON_CreateObject()) != 0) return c->e->fatal;
    int rc = create_instances(c, &err);
    if (rc != 0) {
        jb_cell_fail(c, &err);
        return c->e->fatal;
    }
    const jb_method_ops *m = c->plan->method->ops;
    int64_t began = now_ns();
    c->in_handler = 1;
    rc = m->start(c->method, &err);
    return after_handler(c, "start", rc, began, &err);
}

/* ---- calls ------------------------------------------------------------------------------------ */

static int journal_reply(jb_cell *c, const jb_op *op, const jb_reply *r, int64_t attempts, jb_error *err)
{
    char blob[JB_HASH_HEX];
    int failed = op->status == JB_OP_FAILED, rc = 0;
    cJSON *b = cJSON_CreateObject(), *usage = jb_usage_json(&op->usage);
    rc = b && usage ? jb_json_set_str(b, "cell", c->plan->key) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(b, "op", (int64_t)op->id);
    if (rc == 0) rc = jb_json_set_str(b, "status", failed ? "failed" : "done");
    if (rc == 0 && failed) rc = jb_json_set_str(b, "error_class", jb_llm_class_name(r->error_class));
    if (rc == 0 && failed) rc = jb_json_set_view(b, "message", (jb_view){ r->message, strnlen(r->message, sizeof r->message) });
    if (rc == 0) rc = jb_json_set_i64(b, "finish", op->finish);
    if (rc == 0 && attempts > 0) rc = jb_json_set_i64(b, "attempts", attempts);
    if (rc == 0 && r->model.len) rc = jb_json_set_view(b, "model", r->model);
    if (rc == 0 && (r->flags & JB_REPLY_REPLAYED)) rc = jb_json_set_bool(b, "replayed", 1);
    if (rc == 0 && cJSON_AddItemToObject(b, "usage", usage)) usage = NULL;
    if (rc == 0 && usage) rc = JB_ENOMEM;
    if (rc == 0 && !failed && (op->usage.input_uncached < 0 || op->usage.output < 0)) rc = jb_tally_put_bound(b, &op->bound);
    int plain = op->reply_len <= INLINE_TEXT && !memchr(op->reply, 0, op->reply_len) && jb_text_utf8_valid(op->reply, op->reply_len);
    if (rc == 0 && plain) rc = jb_json_set_str(b, "text", op->reply);
    if (rc != 0) jb_err(err, rc, "journal: out of memory");
    if (rc == 0 && !plain) rc = jb_blob_put(c->e->blobs, (jb_view){ op->reply, op->reply_len }, blob, err);
    if (rc == 0 && !plain) rc = jb_json_set_str(b, "text_blob", blob);
    if (rc == 0) rc = jb_journal_append(c->e->journal, "op_done", b, NULL, err);
    cJSON_Delete(usage);
    cJSON_Delete(b);
    return rc;
}

void jb_cell_request(const jb_cell *c, const jb_op *op, jb_request *out)
{
    *out = (jb_request){ .struct_size = sizeof *out, .message_count = op->message_count, .messages = op->messages, .seed = op->seed,
                         .temperature = op->temperature, .lane = op->lane, .turn = op->turn,
                         .cell_seed = jb_rng_u64(c->call_seeds, UINT64_MAX, UINT64_MAX), /* no lane is that long */
                         .hash = op->hash, .cell = c->plan->key, .workload = jb_json_str(c->plan->facts, "id", ""), .purpose = op->purpose };
}

/* Ask the backend until it answers; a failure is the provider's, in r. */
static void ask(jb_cell *c, const jb_op *op, jb_reply *r)
{
    const jb_backend_ops *b = c->plan->backend->ops;
    jb_request q;
    jb_cell_request(c, op, &q);
    for (uint32_t attempt = 1; attempt <= CALL_TRIES; attempt++) {
        jb_error err = JB_ERROR_INIT;
        *r = (jb_reply){ .struct_size = sizeof *r, .finish = JB_FINISH_STOP, .usage = { -1, -1, -1, -1, -1 } };
        jb_arena_reset(c->backend_arena);
        int rc = b->complete(c->backend, &q, r, &err);
        if (rc != 0) {
            r->error_class = JB_LLM_PERMANENT;
            snprintf(r->message, sizeof r->message, "%.150s%s%.90s", err.message[0] ? err.message : "the backend failed and gave no reason",
                     err.where[0] ? ", at " : "", err.where);
        }
        if (r->error_class == 0 && r->text.len > JB_REPLY_MAX) {
            r->error_class = JB_LLM_PERMANENT;
            snprintf(r->message, sizeof r->message, "a reply of %llu bytes; the limit is 64 MiB", (unsigned long long)r->text.len);
        }
        if (r->error_class != JB_LLM_RATE_LIMIT && r->error_class != JB_LLM_TRANSIENT && r->error_class != JB_LLM_EMPTY) return;
    }
}

void jb_cell_note_failure(jb_cell *c, const char *class, const char *message)
{
    jb_engine_result *out = c->e->result;
    if (out->failed_calls++ == 0)
        snprintf(out->first_failed_call, sizeof out->first_failed_call, "%.80s: %.20s: %.250s", c->plan->label, class, message);
}

int jb_cell_take_reply(jb_cell *c, jb_op *op, const jb_reply *r, int64_t attempts, jb_error *err)
{
    int failed = r->error_class != 0;
    size_t len = failed ? 0 : (size_t)r->text.len;
    op->reply = jb_alloc(len + 1);
    if (!op->reply) return jb_err(err, JB_ENOMEM, "cell %s: out of memory", c->plan->label);
    if (len) memcpy(op->reply, r->text.ptr, len);
    op->reply_len = len;
    op->status = failed ? JB_OP_FAILED : JB_OP_DONE;
    op->finish = r->finish ? r->finish : JB_FINISH_STOP;
    op->usage = r->usage;
    op->replayed = (r->flags & JB_REPLY_REPLAYED) != 0;
    op->executed = 1;
    if (failed) {
        jb_engine_log(c->e, c->plan->key, JB_LOG_WARN, (jb_view){ r->message, strnlen(r->message, sizeof r->message) });
        jb_cell_note_failure(c, jb_llm_class_name(r->error_class), r->message);
        c->e->live_failed_calls++;
    }
    int rc = journal_reply(c, op, r, attempts, err);
    op->state = JB_OP_ENDED;
    return rc;
}

static int call_op(jb_cell *c, jb_op *op)
{
    jb_error err = JB_ERROR_INIT;
    jb_reply r;
    int64_t began = now_ns();
    ask(c, op, &r);
    if (now_ns() - began > CALL_WARN_NS) {
        static const char text[] = "a local backend must answer within 10 s; everything waited for this call";
        jb_engine_log(c->e, c->plan->key, JB_LOG_WARN, (jb_view){ text, sizeof text - 1 });
    }
    int rc = jb_cell_take_reply(c, op, &r, 0, &err);
    jb_arena_reset(c->backend_arena);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

int jb_cell_call(jb_cell *c)
{
    if (c->state != JB_CELL_RUNNING || c->gate) return 0;
    for (size_t i = c->delivered; i < c->op_count; i++) {
        if (c->ops[i]->kind != JB_OP_LLM || c->ops[i]->state != JB_OP_QUEUED) continue;
        if (!jb_budget_admit_call(c->e, c->plan, c->ops[i])) return 0;
        int rc = call_op(c, c->ops[i]);
        jb_budget_release_call(c->e, c->ops[i]);
        return rc ? rc : 1;
    }
    return 0;
}

/* ---- delivery --------------------------------------------------------------------------------------- */

/* The ledger moves here and nowhere else: at a point that the study fixes. */
static void charge(jb_cell *c, jb_op *op, const cJSON *event)
{
    int done = op->status == JB_OP_DONE;
    if (op->holds_sample) jb_ledger_settle(&c->ledger, done);
    op->holds_sample = 0;
    if (op->kind == JB_OP_LLM) {
        if (op->status == JB_OP_CANCELLED) c->ledger.discarded_calls += op->executed;
        else if (done) jb_ledger_call(&c->ledger, op->purpose, &op->usage, op->replayed ? &jb_price_free : c->plan->price);
        else c->ledger.failures++;
        return;
    }
    const jb_candidate *k = jb_cell_candidate(c, op->candidate);
    const cJSON *cost = event && !jb_json_bool(event, "shared", 0) ? jb_json_path(event, "record.cost") : NULL;
    jb_ledger_eval(&c->ledger, cost, k->duplicate);
}

static int hand_over(jb_cell *c, jb_op *op, const cJSON *journaled)
{
    jb_error err = JB_ERROR_INIT;
    jb_buf record = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    jb_event ev = { .struct_size = sizeof ev, .kind = op->kind, .status = op->status, .op = op->id, .lane = op->lane };
    if (op->kind == JB_OP_LLM && op->status == JB_OP_DONE) {
        ev.text = (jb_view){ op->reply, op->reply_len };
        ev.finish = op->finish;
    } else if (op->kind == JB_OP_EVAL) {
        const jb_candidate *k = jb_cell_candidate(c, op->candidate);
        ev.candidate = k->id;
        ev.outcome = k->judged.outcome;
        ev.duplicate = (uint32_t)k->duplicate;
        if (k->source) ev.source = (jb_view){ k->source, k->source_len };
        if (journaled && jb_json_print(jb_json_obj(journaled, "record"), &record) == 0) ev.record = jb_buf_view(&record);
    }
    const jb_method_ops *m = c->plan->method->ops;
    int64_t began = now_ns();
    int ending = c->finished;
    c->in_handler = !ending; /* after finish nothing can be submitted */
    int rc = m->on_event(c->method, &ev, &err);
    jb_buf_free(&record);
    if (ending) { /* what it says about a cancelled operation changes nothing */
        jb_arena_reset(c->arena);
        return c->e->fatal;
    }
    return after_handler(c, "on_event", rc, began, &err);
}

static int deliver(jb_cell *c)
{
    jb_op *op = c->ops[c->delivered++];
    jb_error err = JB_ERROR_INIT;
    cJSON *event = NULL;
    op->state = JB_OP_DELIVERED;
    if (op->kind == JB_OP_EVAL && op->status != JB_OP_CANCELLED) {
        event = jb_journal_get(c->e->journal, jb_cell_candidate(c, op->candidate)->done, &err);
        if (!event) return jb_engine_fatal(c->e, err.code, &err);
    }
    charge(c, op, event);
    int rc = c->failed ? 0 : hand_over(c, op, event);
    cJSON_Delete(event);
    return rc;
}

/* ---- the end of a cell --------------------------------------------------------------------------------- */

static int cancel_op(jb_cell *c, jb_op *op)
{
    const char *was = ""; /* the outcome that this overrides */
    int cut = op->kind == JB_OP_LLM && op->state != JB_OP_ENDED; /* a call in flight, that may be billed all the same */
    if (op->kind == JB_OP_EVAL) {
        jb_candidate *k = jb_cell_candidate(c, op->candidate);
        if (k->judged_yet) was = jb_outcome_name(k->judged.outcome);
        jb_evals_cancel(c, k);
        if (jb_settle_cancelled(c, k) != 0) return c->e->fatal;
    } else {
        jb_calls_cancel(c, op);
        cut &= op->executed;
    }
    op->status = JB_OP_CANCELLED;
    op->state = JB_OP_ENDED;
    jb_replay_op *known = jb_replay_find(c, op->id);
    if (known && known->cancelled) return 0;
    cJSON *b = cJSON_CreateObject();
    if (b && (jb_json_set_i64(b, "op", (int64_t)op->id) != 0 || (was[0] && jb_json_set_str(b, "was", was) != 0) ||
              (cut && jb_tally_put_bound(b, &op->bound) != 0))) {
        cJSON_Delete(b);
        b = NULL;
    }
    return journal_cell(c, "op_cancel", b);
}

/* Everything undelivered is cancelled, also what had ended in time by luck. */
int jb_cell_finish(jb_cell *c)
{
    for (size_t i = c->delivered; i < c->op_count; i++)
        if (cancel_op(c, c->ops[i]) != 0) return c->e->fatal;
    while (c->delivered < c->op_count)
        if (deliver(c) != 0) return c->e->fatal;
    c->state = JB_CELL_FINALS;
    return 0;
}

static int end_cell(jb_cell *c)
{
    for (size_t i = c->op_count; i < c->replay.op_count; i++) {
        const jb_replay_op *r = &c->replay.ops[i];
        jb_error err = JB_ERROR_INIT;
        if (!r->hash[0]) continue;
        return jb_engine_fatal(c->e, jb_replay_mismatch(c, i + 1, r, "-", "nothing more", (jb_view){ NULL, 0 }, &err), &err);
    }
    c->state = JB_CELL_ENDED;
    c->e->result->cells_done++;
    if (journal_end(c) != 0) return c->e->fatal;
    release_instances(c);
    release_texts(c);
    return 0;
}

void jb_cell_fail(jb_cell *c, const jb_error *why)
{
    char text[700];
    c->failed = c->finished = 1;
    c->error = *why;
    int n = snprintf(text, sizeof text, "cell %s failed: %s", c->plan->label, why->message);
    jb_engine_log(c->e, c->plan->key, JB_LOG_WARN, (jb_view){ text, (uint64_t)n < sizeof text ? (uint64_t)n : sizeof text - 1 });
    jb_progress_note(c->e->o->progress, text);
    if (c->e->result->cells_failed++ == 0) c->e->result->first_failure = *why;
    if (jb_cell_finish(c) == 0) end_cell(c);
}

/* ---- final rows --------------------------------------------------------------------------------------------- */

/* The best candidate whose final rows have not been run: right, natively timed
 * before untimed, faster before slower, earlier before later. */
static jb_candidate *next_best(jb_cell *c)
{
    jb_candidate *best = NULL;
    for (size_t i = 0; i < c->candidate_count; i++) {
        jb_candidate *k = c->candidates[i];
        if (k->judged.outcome != JB_OUTCOME_OK || k->final_state || k->last_stage < JB_STAGE_CHECK) continue;
        if (!best || k->median_us < best->median_us) best = k;
    }
    return best;
}

static int confirmed(const jb_cell *c)
{
    for (size_t i = 0; i < c->candidate_count; i++)
        if (c->candidates[i]->final_state == JB_VERDICT_PASS || c->candidates[i]->final_state == JB_VERDICT_INCONCLUSIVE) return 1;
    return 0;
}

/* 1: something runs or was settled, look again; 0: no more finals. */
static int advance_finals(jb_cell *c)
{
    if (c->failed || c->final_tries == FINAL_TRIES || !jb_job_has_final(c->plan->job) || confirmed(c)) return 0;
    jb_candidate *k = next_best(c);
    if (!k) return 0;
    c->final_tries++;
    jb_span known = k->id <= c->replay.final_count ? c->replay.finals[k->id - 1] : (jb_span){ 0, 0, 0 };
    if (known.seq) {
        jb_settle_final_replayed(c, k, known);
        return 1;
    }
    c->final_candidate = k->id; /* cleared when it is settled */
    jb_evals_request_final(c, k);
    return 1;
}

void jb_cell_pause(jb_cell *c)
{
    if (c->state != JB_CELL_RUNNING) return;
    c->provisional = 1;
    c->state = JB_CELL_FINALS;
}

/* ---- advance --------------------------------------------------------------------------------------------------- */

/* Evaluations that handlers asked for, now that they have returned. */
static int request_evals(jb_cell *c)
{
    for (size_t i = c->delivered; i < c->op_count; i++) {
        jb_op *op = c->ops[i];
        if (op->kind != JB_OP_EVAL || op->state != JB_OP_QUEUED) continue;
        jb_candidate *k = jb_cell_candidate(c, op->candidate);
        if (!k->done.seq && k->key[0] && jb_evals_held(c, k)) continue;
        op->state = JB_OP_WAITING;
        int rc = k->done.seq ? jb_settle_replayed(c, k, k->done)
                 : k->key[0] ? jb_evals_request(c, k)
                             : jb_settle(c, k, NULL, 0, 0, NULL);
        if (rc != 0) return rc;
    }
    return 0;
}

int jb_cell_advance(jb_cell *c)
{
    while (c->state == JB_CELL_RUNNING) {
        if (c->finished || c->delivered == c->op_count) {
            /* Finished, or nothing will ever happen to it again. */
            c->finished = 1;
            if (jb_cell_finish(c) != 0) return c->e->fatal;
            break;
        }
        if (request_evals(c) != 0) return c->e->fatal;
        if (c->ops[c->delivered]->state != JB_OP_ENDED) return 0;
        if (deliver(c) != 0) return c->e->fatal;
    }
    while (c->state == JB_CELL_FINALS) {
        if (c->final_candidate) return 0;
        int more = advance_finals(c);
        if (c->e->fatal) return c->e->fatal;
        if (!more && c->provisional) {
            c->state = JB_CELL_PAUSED;
            return 0;
        }
        if (!more) return end_cell(c);
    }
    return 0;
}
