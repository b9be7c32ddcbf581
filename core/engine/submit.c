/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/submit.c - what a method asks for becomes an operation: reserved
 * in the ledger, hashed, matched with the journal, written to it, queued.
 * Nothing is executed here; handlers return at once. */
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/blobs.h"
#include "core/engine/calls.h"
#include "core/engine/state.h"
#include "core/evaluate/job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define PROMPT_MAX ((size_t)64 << 20)
#define MESSAGES_MAX 4096u

static const char *const ROLES[] = { "?", "system", "user", "assistant" };

/* ---- common ------------------------------------------------------------------------ */

static jb_op *op_new(jb_cell *c, uint32_t kind)
{
    if (c->op_count == c->op_cap) {
        size_t cap = c->op_cap ? 2 * c->op_cap : 16;
        jb_op **grown = jb_realloc(c->ops, cap * sizeof *grown);
        if (!grown) return NULL;
        c->ops = grown;
        c->op_cap = cap;
    }
    jb_op *op = jb_alloc(sizeof *op);
    if (!op) return NULL;
    op->id = c->op_count + 1;
    op->kind = kind;
    op->state = JB_OP_QUEUED;
    op->status = JB_OP_DONE;
    return op; /* joins c->ops once nothing can fail any more */
}

static void op_free(jb_op *op)
{
    if (!op) return;
    jb_free(op->prompt);
    jb_free(op->messages);
    jb_free(op->reply);
    jb_free(op);
}

/* Compare with the journal or write to it. *known tells whether it was there. */
static int op_journal(jb_cell *c, const jb_op *op, const char *hash, const char *what, jb_view text, cJSON *body,
                      jb_replay_op **known, jb_error *err)
{
    *known = jb_replay_find(c, op->id);
    if (*known) {
        if (strcmp((*known)->hash, hash) == 0) return 0;
        int rc = jb_replay_mismatch(c, op->id, *known, hash, what, text, err);
        return jb_engine_fatal(c->e, rc, err);
    }
    int rc = jb_json_set_str(body, "hash", hash);
    if (rc != 0) return jb_err(err, rc, "cell %s: out of memory", c->plan->label);
    rc = jb_journal_append(c->e->journal, "op_submit", body, NULL, err);
    return rc ? jb_engine_fatal(c->e, rc, err) : 0;
}

static cJSON *submit_body(const jb_cell *c, const jb_op *op, const char *kind)
{
    cJSON *b = cJSON_CreateObject();
    if (b && jb_json_set_str(b, "cell", c->plan->key) == 0 && jb_json_set_i64(b, "op", (int64_t)op->id) == 0 &&
        jb_json_set_str(b, "op_kind", kind) == 0 && jb_json_set_i64(b, "lane", (int64_t)op->lane) == 0)
        return b;
    cJSON_Delete(b);
    return NULL;
}

static void hash_u64(jb_hasher *h, const char *name, uint64_t v)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    jb_hasher_field(h, name, text, (size_t)n);
}

/* ---- llm ----------------------------------------------------------------------------- */

static int check_call(const jb_cell *c, const jb_llm_call *call, jb_error *err)
{
    if (!call || !JB_HAS(call, jb_llm_call, turn)) return jb_err(err, JB_EINVAL, "llm: the call's struct is too short");
    if (call->purpose < 1 || call->purpose >= JB_PURPOSES) return jb_err(err, JB_EINVAL, "llm: unknown purpose %u", call->purpose);
    if (call->message_count < 1 || call->message_count > MESSAGES_MAX || !call->messages)
        return jb_err(err, JB_EINVAL, "llm: a call has 1 to %u messages, not %u", MESSAGES_MAX, call->message_count);
    for (uint32_t i = 0; i < call->message_count; i++) {
        if (call->messages[i].role < 1 || call->messages[i].role > JB_ROLE_ASSISTANT)
            return jb_err(err, JB_EINVAL, "llm: message %u has the unknown role %u", i, call->messages[i].role);
    }
    if (!c->backend) return jb_err(err, JB_EUNSUPPORTED, "llm: cell %s has no backend", c->plan->label);
    return 0;
}

/* One text that holds all messages, and views into it. */
static int copy_messages(jb_op *op, const jb_llm_call *call, jb_error *err)
{
    jb_buf b = JB_BUF_INIT(PROMPT_MAX);
    uint64_t *starts = jb_alloc_array(call->message_count, sizeof *starts);
    op->messages = jb_alloc_array(call->message_count, sizeof *op->messages);
    int rc = starts && op->messages ? 0 : JB_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < call->message_count; i++) {
        const jb_message *m = &call->messages[i];
        jb_buf_printf(&b, "%s### %s\n\n", i ? "\n\n" : "", ROLES[m->role]);
        starts[i] = b.len;
        rc = m->text.len ? jb_buf_append(&b, m->text.ptr, (size_t)m->text.len) : b.status;
    }
    if (rc == 0) rc = jb_buf_puts(&b, "\n");
    op->prompt_len = b.len;
    if (rc == 0) {
        op->prompt = jb_buf_detach(&b);
        op->message_count = call->message_count;
        for (uint32_t i = 0; i < call->message_count; i++)
            op->messages[i] = (jb_message){ call->messages[i].role, 0, { op->prompt + starts[i], call->messages[i].text.len } };
    }
    jb_free(starts);
    jb_buf_free(&b);
    return rc ? jb_err(err, rc, "llm: the messages are longer than %zu bytes or memory is out", PROMPT_MAX) : 0;
}

static int hash_call(const jb_op *op, const char *role, char out[JB_HASH_HEX])
{
    jb_hasher *h = jb_hasher_new();
    char temperature[32];
    if (!h) return JB_ENOMEM;
    int n = isnan(op->temperature) ? snprintf(temperature, sizeof temperature, "default")
                                   : snprintf(temperature, sizeof temperature, "%.17g", op->temperature);
    jb_hasher_field(h, "kind", "llm", 3);
    hash_u64(h, "purpose", op->purpose);
    hash_u64(h, "lane", op->lane);
    hash_u64(h, "turn", op->turn);
    jb_hasher_field(h, "temperature", temperature, (size_t)n);
    jb_hasher_field(h, "role", role, strlen(role));
    for (uint32_t i = 0; i < op->message_count; i++)
        jb_hasher_field(h, ROLES[op->messages[i].role], op->messages[i].text.ptr, (size_t)op->messages[i].text.len);
    jb_hasher_done(h, out);
    return 0;
}

/* The stored end of a call, from the journal. */
static int replay_call(jb_cell *c, jb_op *op, jb_span done, jb_error *err)
{
    cJSON *event = jb_journal_get(c->e->journal, done, err);
    if (!event) return err && err->code ? err->code : JB_EPARSE;
    const char *text = jb_json_str(event, "text", NULL), *blob = jb_json_str(event, "text_blob", NULL);
    jb_buf body = JB_BUF_INIT(PROMPT_MAX);
    int rc = 0;
    if (blob) { /* never asked for again: it was paid for */
        rc = jb_blob_get(c->e->blobs, blob, PROMPT_MAX, &body, err);
        if (rc != 0) jb_err_context(err, "cell %s, operation %llu: its reply can't be read", c->plan->label, (unsigned long long)op->id);
    } else rc = jb_buf_puts(&body, text ? text : "");
    if (rc == 0) {
        op->reply_len = body.len;
        op->reply = body.ptr ? jb_buf_detach(&body) : jb_strdup("");
        if (!op->reply) rc = jb_err(err, JB_ENOMEM, "resume: out of memory");
    }
    op->status = strcmp(jb_json_str(event, "status", ""), "failed") == 0 ? JB_OP_FAILED : JB_OP_DONE;
    op->finish = (uint32_t)jb_json_i64(event, "finish", JB_FINISH_STOP);
    op->replayed = jb_json_bool(event, "replayed", 0);
    if (op->status == JB_OP_DONE) jb_calls_worked(c);
    else jb_cell_note_failure(c, jb_json_str(event, "error_class", "?"), jb_json_str(event, "message", ""));
    jb_usage_read(jb_json_obj(event, "usage"), &op->usage);
    op->state = JB_OP_ENDED;
    op->executed = 1;
    jb_buf_free(&body);
    cJSON_Delete(event);
    return rc;
}

static int journal_call(jb_cell *c, jb_op *op, const char *role, jb_error *err)
{
    char *hash = op->hash, blob[JB_HASH_HEX];
    jb_view prompt = { op->prompt, op->prompt_len };
    jb_replay_op *known;
    cJSON *body = submit_body(c, op, "llm");
    int rc = body ? hash_call(op, role, hash) : JB_ENOMEM;
    if (rc == 0 && !jb_replay_find(c, op->id)) { /* the blob must be there before the line that names it */
        rc = jb_blob_put(c->e->blobs, prompt, blob, err);
        if (rc != 0) { jb_engine_fatal(c->e, rc, err); goto out; }
        rc = jb_json_set_str(body, "prompt", blob);
    }
    if (rc == 0) rc = jb_json_set_str(body, "purpose", jb_purpose_name(op->purpose));
    if (rc == 0) rc = jb_json_set_i64(body, "turn", (int64_t)op->turn);
    if (rc != 0) { jb_err(err, rc, "llm: out of memory"); goto out; }
    rc = op_journal(c, op, hash, "llm", prompt, body, &known, err);
    if (rc == 0 && known) { /* a prompt that was lost since is here again, for nothing */
        rc = jb_blob_put(c->e->blobs, prompt, blob, err);
        if (rc == 0 && known->done.seq) rc = replay_call(c, op, known->done, err);
        if (rc != 0) jb_engine_fatal(c->e, rc, err);
    }
out:
    cJSON_Delete(body);
    return rc;
}

int jb_submit_llm(jb_cell *c, const jb_llm_call *call, uint64_t *op_out, jb_error *err)
{
    int rc = check_call(c, call, err);
    if (rc != 0) return rc;
    jb_op *op = op_new(c, JB_OP_LLM);
    if (!op) return jb_err(err, JB_ENOMEM, "llm: out of memory");
    op->purpose = call->purpose;
    op->lane = call->lane;
    op->turn = call->turn;
    op->temperature = JB_HAS(call, jb_llm_call, temperature) ? call->temperature : (double)NAN;
    op->seed = jb_rng_u64(c->call_seeds, op->lane, op->turn);
    op->usage = (jb_usage){ -1, -1, -1, -1, -1 };
    const char *role = JB_HAS(call, jb_llm_call, role) && call->role ? call->role : "coder";
    rc = copy_messages(op, call, err);
    if (rc == 0 && op->purpose == JB_PURPOSE_SAMPLE) {
        rc = jb_ledger_reserve(&c->ledger, err);
        op->holds_sample = rc == 0;
    }
    if (rc == 0) rc = journal_call(c, op, role, err);
    if (rc != 0) {
        if (op->holds_sample) jb_ledger_settle(&c->ledger, 0);
        op_free(op);
        return rc;
    }
    c->ops[c->op_count++] = op;
    if (op_out) *op_out = op->id;
    return 0;
}

/* ---- eval ------------------------------------------------------------------------------- */

static void candidate_free(jb_candidate *k)
{
    if (!k) return;
    jb_free(k->parents);
    jb_free(k->source);
    jb_free(k);
}

static jb_candidate *candidate_new(jb_cell *c)
{
    if (c->candidate_count == c->candidate_cap) {
        size_t cap = c->candidate_cap ? 2 * c->candidate_cap : 16;
        jb_candidate **grown = jb_realloc(c->candidates, cap * sizeof *grown);
        if (!grown) return NULL;
        c->candidates = grown;
        c->candidate_cap = cap;
    }
    jb_candidate *k = jb_alloc(sizeof *k);
    if (!k) return NULL;
    k->id = c->candidate_count + 1;
    k->median_us = (double)INFINITY;
    return k;
}

static int copy_request(jb_cell *c, jb_candidate *k, const jb_eval_request *req, jb_error *err)
{
    k->last_stage = c->e->o->last_stage;
    if (!req) return 0;
    if (JB_HAS(req, jb_eval_request, last_stage) && req->last_stage) {
        if (req->last_stage > JB_STAGE_COUNT) return jb_err(err, JB_EINVAL, "eval: unknown stage %u", req->last_stage);
        k->last_stage = req->last_stage;
    }
    if (JB_HAS(req, jb_eval_request, lane)) k->lane = req->lane;
    if (!JB_HAS(req, jb_eval_request, parent_count) || req->parent_count == 0) return 0;
    for (uint32_t i = 0; i < req->parent_count; i++) {
        if (!jb_cell_candidate(c, req->parents[i]))
            return jb_err(err, JB_ENOTFOUND, "eval: parent %llu is no candidate of this cell", (unsigned long long)req->parents[i]);
    }
    k->parents = jb_alloc_array(req->parent_count, sizeof *k->parents);
    if (!k->parents) return jb_err(err, JB_ENOMEM, "eval: out of memory");
    memcpy(k->parents, req->parents, req->parent_count * sizeof *k->parents);
    k->parent_count = req->parent_count;
    return 0;
}

/* Source, its hash, the key of its evaluation, and whether the cell had it before. */
static int take_source(jb_cell *c, jb_candidate *k, jb_extract *x, jb_error *err)
{
    k->extract = x->outcome;
    k->blocks = x->blocks_seen;
    k->chosen = x->chosen;
    snprintf(k->reason_extract, sizeof k->reason_extract, "%s", x->reason);
    if (x->outcome != JB_OUTCOME_OK) return 0;
    k->source = x->source;
    k->source_len = x->source_len;
    x->source = NULL;
    cJSON *job = jb_job_until(c->plan->job, jb_stage_name(k->last_stage));
    int rc = job ? jb_source_hash((jb_view){ k->source, k->source_len }, k->source_hash) : JB_ENOMEM;
    if (rc == 0) rc = jb_job_key(job, k->source_hash, k->key);
    cJSON_Delete(job);
    for (size_t i = 0; rc == 0 && i < c->candidate_count; i++)
        if (strcmp(c->candidates[i]->key, k->key) == 0) k->duplicate = 1;
    return rc ? jb_err(err, rc, "eval: out of memory") : 0;
}

static int hash_eval(const jb_candidate *k, char out[JB_HASH_HEX])
{
    jb_hasher *h = jb_hasher_new();
    if (!h) return JB_ENOMEM;
    jb_hasher_field(h, "kind", "eval", 4);
    hash_u64(h, "llm_op", k->llm_op);
    hash_u64(h, "lane", k->lane);
    hash_u64(h, "last_stage", k->last_stage);
    hash_u64(h, "extract", k->extract);
    jb_hasher_field(h, "source", k->source, k->source_len);
    jb_hasher_field(h, "key", k->key, strlen(k->key));
    for (uint32_t i = 0; i < k->parent_count; i++) hash_u64(h, "parent", k->parents[i]);
    jb_hasher_done(h, out);
    return 0;
}

static int journal_eval(jb_cell *c, jb_op *op, jb_candidate *k, jb_replay_op **known, jb_error *err)
{
    char hash[JB_HASH_HEX];
    cJSON *body = submit_body(c, op, "eval");
    int rc = body ? hash_eval(k, hash) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(body, "candidate", (int64_t)k->id);
    if (rc == 0) rc = jb_json_set_i64(body, "llm_op", (int64_t)k->llm_op);
    if (rc == 0) rc = jb_json_set_str(body, "last_stage", jb_stage_name(k->last_stage));
    if (rc == 0) rc = jb_json_set_str(body, "source_sha256", k->source_hash);
    if (rc == 0) rc = jb_json_set_str(body, "key", k->key);
    if (rc == 0) rc = jb_json_set_bool(body, "duplicate", k->duplicate);
    cJSON *parents = rc == 0 ? jb_json_add_arr(body, "parents") : NULL;
    if (rc == 0 && !parents) rc = JB_ENOMEM;
    for (uint32_t i = 0; rc == 0 && i < k->parent_count; i++)
        if (!cJSON_AddItemToArray(parents, cJSON_CreateNumber((double)k->parents[i]))) rc = JB_ENOMEM;
    if (rc != 0) jb_err(err, rc, "eval: out of memory");
    else rc = op_journal(c, op, hash, "eval", (jb_view){ NULL, 0 }, body, known, err);
    cJSON_Delete(body);
    return rc;
}

/* `x` is emptied of its source.  `paid`: a sample was charged for it before. */
static int submit_candidate(jb_cell *c, jb_extract *x, uint64_t llm_op, int paid, const jb_eval_request *req,
                            uint64_t *candidate_out, uint64_t *op_out, jb_error *err)
{
    jb_replay_op *known = NULL;
    jb_op *op = op_new(c, JB_OP_EVAL);
    jb_candidate *k = candidate_new(c);
    int rc = op && k ? 0 : jb_err(err, JB_ENOMEM, "eval: out of memory");
    if (rc == 0) {
        k->llm_op = llm_op;
        k->op = op->id;
        rc = copy_request(c, k, req, err);
    }
    if (rc == 0) rc = take_source(c, k, x, err);
    if (rc == 0 && !paid) {
        rc = jb_ledger_reserve(&c->ledger, err);
        op->holds_sample = rc == 0;
    }
    if (rc == 0) {
        op->lane = k->lane;
        op->candidate = k->id;
        rc = journal_eval(c, op, k, &known, err);
    }
    if (rc != 0) {
        if (op && op->holds_sample) jb_ledger_settle(&c->ledger, 0);
        op_free(op);
        candidate_free(k);
        return rc;
    }
    if (known) k->done = known->done; /* settled from there once the handler has returned */
    c->ops[c->op_count++] = op;
    c->candidates[c->candidate_count++] = k;
    if (candidate_out) *candidate_out = k->id;
    if (op_out) *op_out = op->id;
    return 0;
}

int jb_submit_reply(jb_cell *c, uint64_t llm_op, const jb_eval_request *req, uint64_t *candidate_out, uint64_t *op_out, jb_error *err)
{
    jb_op *from = jb_cell_op(c, llm_op);
    if (!from || from->kind != JB_OP_LLM)
        return jb_err(err, JB_ENOTFOUND, "eval: operation %llu is no call of this cell", (unsigned long long)llm_op);
    /* Ended is not enough: only what was delivered may be known, or order would matter. */
    if (from->state != JB_OP_DELIVERED) return jb_err(err, JB_ESTATE, "eval: call %llu has not ended yet", (unsigned long long)llm_op);
    if (from->status != JB_OP_DONE) return jb_err(err, JB_EINVAL, "eval: call %llu failed and has no reply", (unsigned long long)llm_op);
    jb_extract x;
    int rc = jb_extract_reply((jb_view){ from->reply, from->reply_len }, from->finish, "workload", &x, err);
    if (rc != 0) return rc;
    rc = submit_candidate(c, &x, llm_op, from->purpose == JB_PURPOSE_SAMPLE, req, candidate_out, op_out, err);
    jb_extract_free(&x);
    return rc;
}

int jb_submit_source(jb_cell *c, jb_view source, const jb_eval_request *req, uint64_t *candidate_out, uint64_t *op_out, jb_error *err)
{
    jb_extract x;
    int rc = jb_extract_plain(source, &x, err);
    if (rc != 0) return rc;
    rc = submit_candidate(c, &x, 0, 0, req, candidate_out, op_out, err);
    jb_extract_free(&x);
    return rc;
}
