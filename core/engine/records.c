/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/records.c - see records.h. */
#include "core/engine/records.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/engine/journal.h"
#include "core/evaluate/merge.h"

#include <jaxbench/checker.h>
#include <stdio.h>
#include <string.h>

#define MANIFEST_MAX ((size_t)64 << 20)
#define MAX_ORDINAL 10000000

static void copy_text(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from ? from : ""); }

/* Entry number `ordinal` (from 1) of a growing array, zeroed. */
static void *slot(void **array, size_t *count, int64_t ordinal, size_t size)
{
    if (ordinal < 1 || ordinal > MAX_ORDINAL) return NULL;
    size_t n = (size_t)ordinal;
    if (n > *count) {
        char *grown = jb_realloc(*array, n * size);
        if (!grown) return NULL;
        memset(grown + *count * size, 0, (n - *count) * size);
        *array = grown;
        *count = n;
    }
    return (char *)*array + (n - 1) * size;
}

/* ---- pieces of a record ------------------------------------------------------------- */

static uint8_t verdict_of(const char *word)
{
    for (uint8_t v = JB_VERDICT_PASS; v <= JB_VERDICT_INCONCLUSIVE; v++)
        if (strcmp(word, jb_verdict_name(v)) == 0) return v;
    return 0;
}

static uint8_t stage_status(const char *word)
{
    static const struct { const char *word; uint8_t status; } rows[] = {
        { "ok", JB_REC_OK }, { "skipped", JB_REC_SKIPPED }, { "infra", JB_REC_INFRA },
        { "fail", JB_REC_FAIL }, { "timeout", JB_REC_FAIL }, { "crash", JB_REC_FAIL },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(word, rows[i].word) == 0) return rows[i].status;
    return JB_REC_NONE;
}

/* What a fault is counted as: the gate and distribution that killed it, the
 * first finding, or the stage. */
static void name_fault(jb_rec_candidate *k, const cJSON *record, const char *headline)
{
    const cJSON *killer = jb_json_obj(jb_json_obj(jb_json_obj(record, "gates"), headline), "killer"), *f;
    jb_buf b = JB_BUF_INIT(1024);
    char text[200] = "";
    if (k->outcome == JB_OUTCOME_OK || !k->outcome) return;
    if (k->outcome == JB_OUTCOME_WRONG && killer) {
        const char *distribution = jb_json_str(killer, "distribution", "");
        snprintf(text, sizeof text, "%.90s%s%.90s", jb_json_str(killer, "gate", "gate"), distribution[0] ? "/" : "", distribution);
    }
    cJSON_ArrayForEach(f, jb_json_path(record, "stages.inspect.findings"))
    {
        if (!text[0] && k->stage == JB_STAGE_INSPECT && jb_json_str(f, "outcome", "")[0]) copy_text(text, sizeof text, jb_json_str(f, "id", ""));
    }
    if (!text[0]) copy_text(text, sizeof text, k->stage ? jb_stage_name(k->stage) : jb_outcome_name(k->outcome));
    jb_text_escape(&b, text, strlen(text), 0);
    copy_text(k->fault, sizeof k->fault, b.ptr);
    jb_buf_free(&b);
}

static void read_timing(jb_rec_candidate *k, const cJSON *record)
{
    const cJSON *t = jb_json_obj(record, "timing");
    k->interpreted = jb_json_num(t, "candidate_median_us", 0) > 0 && jb_json_bool(t, "interpreted", 1);
    /* An interpreter's time is nobody's speed, whatever its status says. */
    if (k->interpreted || strcmp(jb_json_str(t, "status", ""), "ok") != 0) return;
    k->baseline_us = jb_json_num(t, "baseline_median_us", 0);
    k->candidate_us = jb_json_num(t, "candidate_median_us", 0);
}

static void read_record(const jb_records *r, jb_rec_candidate *k, const cJSON *record)
{
    const cJSON *stages = jb_json_obj(record, "stages"), *inspect = jb_json_obj(stages, "inspect");
    for (uint32_t s = 1; s <= JB_STAGE_COUNT; s++)
        k->stages[s] = stage_status(jb_json_str(jb_json_obj(stages, jb_stage_name(s)), "status", ""));
    for (size_t g = 0; g < r->gate_count; g++)
        k->verdicts[g] = verdict_of(jb_json_str(jb_json_obj(jb_json_obj(record, "gates"), r->gates[g]), "verdict", ""));
    copy_text(k->link, sizeof k->link, jb_json_str(jb_json_obj(inspect, "link"), "status", ""));
    copy_text(k->coverage, sizeof k->coverage, jb_json_str(jb_json_obj(inspect, "coverage"), "status", ""));
    copy_text(k->numerics, sizeof k->numerics, jb_json_str(record, "numerics", ""));
    read_timing(k, record);
    name_fault(k, record, r->gate_count ? r->gates[r->headline] : "");
}

/* ---- events ---------------------------------------------------------------------------- */

static int malformed(jb_error *err, jb_span span, const char *kind)
{
    return jb_err(err, JB_EPARSE, "journal, line %u: malformed %s, or memory is out", span.seq, kind);
}

static int on_submit(jb_rec_cell *c, jb_rec_op *op, const cJSON *event)
{
    if (strcmp(jb_json_str(event, "op_kind", ""), "llm") == 0) {
        const char *purpose = jb_json_str(event, "purpose", "");
        op->kind = JB_OP_LLM;
        op->purpose = JB_PURPOSE_OTHER;
        for (uint32_t p = 1; p < JB_PURPOSES; p++)
            if (strcmp(purpose, jb_purpose_name(p)) == 0) op->purpose = p;
        op->lane = jb_json_i64(event, "lane", 0);
        op->turn = jb_json_i64(event, "turn", 0);
        copy_text(op->prompt, sizeof op->prompt, jb_json_str(event, "prompt", ""));
        return 0;
    }
    op->kind = JB_OP_EVAL;
    int64_t id = jb_json_i64(event, "candidate", 0);
    jb_rec_candidate *k = slot((void **)&c->candidates, &c->candidate_count, id, sizeof *k);
    if (!k) return JB_EPARSE;
    op->candidate = k->id = (uint64_t)id;
    k->op = (uint64_t)jb_json_i64(event, "op", 0);
    k->llm_op = (uint64_t)jb_json_i64(event, "llm_op", 0);
    k->duplicate = jb_json_bool(event, "duplicate", 0);
    copy_text(k->source, sizeof k->source, jb_json_str(event, "source_sha256", ""));
    return 0;
}

static void judge_of(jb_rec_candidate *k, const cJSON *event)
{
    k->outcome = jb_outcome_from_name(jb_json_str(event, "outcome", ""));
    k->stage = jb_stage_from_name(jb_json_str(event, "stage", ""));
    copy_text(k->reason, sizeof k->reason, jb_json_str(event, "reason", ""));
}

static int on_done(const jb_records *r, jb_rec_cell *c, jb_rec_op *op, const cJSON *event)
{
    op->done = 1;
    if (op->kind == JB_OP_LLM) {
        op->failed = strcmp(jb_json_str(event, "status", ""), "failed") == 0;
        op->replayed = jb_json_bool(event, "replayed", 0);
        jb_usage_read(jb_json_obj(event, "usage"), &op->usage);
        return 0;
    }
    if (op->candidate < 1 || op->candidate > c->candidate_count) return JB_EPARSE;
    jb_rec_candidate *k = &c->candidates[op->candidate - 1];
    const cJSON *cost = jb_json_path(event, "record.cost");
    judge_of(k, event);
    k->loop_outcome = k->outcome;
    k->attempts = jb_json_i64(event, "attempts", 0);
    k->shared = jb_json_bool(event, "shared", 0);
    op->failed = k->outcome == JB_OUTCOME_INFRA;
    read_record(r, k, jb_json_obj(event, "record"));
    if (k->shared) return 0;
    op->trace_s = jb_json_num(cost, "trace_s", 0);
    op->compile_s = jb_json_num(cost, "compile_s", 0);
    op->check_s = jb_json_num(cost, "check_s", 0);
    op->accelerator_s = jb_json_num(cost, "accelerator_s", 0);
    op->wall_s = jb_json_num(cost, "wall_s", 0);
    return 0;
}

static void on_cancel(jb_rec_cell *c, jb_rec_op *op)
{
    op->cancelled = 1;
    if (op->kind != JB_OP_EVAL || op->candidate < 1 || op->candidate > c->candidate_count) return;
    jb_rec_candidate *k = &c->candidates[op->candidate - 1];
    uint64_t id = k->id, at = k->op, llm = k->llm_op;
    int duplicate = k->duplicate;
    char source[JB_HASH_HEX];
    memcpy(source, k->source, sizeof source);
    *k = (jb_rec_candidate){ .id = id, .op = at, .llm_op = llm, .duplicate = duplicate, .outcome = JB_OUTCOME_CANCELLED,
                             .loop_outcome = JB_OUTCOME_CANCELLED, .fault = "cancelled" };
    memcpy(k->source, source, sizeof source);
    copy_text(k->reason, sizeof k->reason, "the method ended before it");
}

/* Keep the candidate as the loop left it. */
static int remember(jb_rec_cell *c, const jb_rec_candidate *k)
{
    jb_rec_candidate *grown = jb_realloc(c->provisional, (c->provisional_count + 1) * sizeof *grown);
    if (!grown) return JB_ENOMEM;
    c->provisional = grown;
    c->provisional[c->provisional_count++] = *k;
    return 0;
}

/* What a paused cell was shown with is void once the cell goes on to its end. */
static void forget_provisional(jb_rec_cell *c)
{
    for (size_t i = c->provisional_count; i-- > 0;) c->candidates[c->provisional[i].id - 1] = c->provisional[i];
    jb_free(c->provisional);
    c->provisional = NULL;
    c->provisional_count = 0;
}

static int on_final(const jb_records *r, jb_rec_cell *c, const cJSON *event)
{
    int64_t id = jb_json_i64(event, "candidate", 0);
    if (id < 1 || (size_t)id > c->candidate_count) return JB_EPARSE;
    jb_rec_candidate *k = &c->candidates[id - 1];
    if (!jb_json_bool(event, "provisional", 0)) forget_provisional(c);
    else if (!k->id || remember(c, k) != 0) return JB_EPARSE;
    const cJSON *record = jb_json_obj(event, "record");
    k->final = verdict_of(jb_json_str(event, "verdict", ""));
    for (size_t g = 0; g < r->gate_count; g++) {
        const cJSON *set = jb_json_obj(jb_json_obj(record, "gates"), r->gates[g]);
        uint8_t v = cJSON_GetArraySize(jb_json_obj(set, "rows")) ? verdict_of(jb_json_str(set, "verdict", "")) : 0;
        if (v == JB_VERDICT_FAIL || (v == JB_VERDICT_INCONCLUSIVE && k->verdicts[g] == JB_VERDICT_PASS)) k->verdicts[g] = v;
    }
    if (k->final != JB_VERDICT_FAIL) return 0;
    jb_rec_candidate whole = *k;
    judge_of(&whole, event);
    k->outcome = whole.outcome;
    k->stage = whole.stage;
    snprintf(k->reason, sizeof k->reason, "final rows: %.300s", whole.reason);
    name_fault(k, record, r->gate_count ? r->gates[r->headline] : "");
    return 0;
}

static int visit(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    jb_records *r = ctx;
    const char *kind = jb_json_str(event, "kind", ""), *key = jb_json_str(event, "cell", NULL);
    jb_rec_cell *c = NULL;
    r->events++;
    r->complete = strcmp(kind, "run_end") == 0 || (r->complete && (!key || strcmp(kind, "session") == 0));
    r->sessions += strcmp(kind, "session") == 0;
    if (strcmp(kind, "executor") == 0) {
        cJSON_Delete(r->executor);
        r->executor = cJSON_Duplicate(jb_json_obj(event, "ready"), 1);
    }
    if (!key) return 0;
    for (size_t i = 0; i < r->cell_count && !c; i++)
        if (strcmp(r->cells[i].key, key) == 0) c = &r->cells[i];
    if (!c) return jb_err(err, JB_EPARSE, "journal, line %u: cell %s is not in the manifest", span.seq, key);
    int rc = 0;
    if (strcmp(kind, "cell_begin") == 0) c->begun = 1;
    if (strcmp(kind, "cell_end") == 0) {
        forget_provisional(c);
        c->ended = 1;
        c->failed = strcmp(jb_json_str(event, "status", ""), "failed") == 0;
        copy_text(c->message, sizeof c->message, jb_json_str(event, "message", ""));
    }
    if (strcmp(kind, "final_done") == 0) rc = on_final(r, c, event);
    if (strncmp(kind, "op_", 3) == 0) {
        jb_rec_op *op = slot((void **)&c->ops, &c->op_count, jb_json_i64(event, "op", 0), sizeof *op);
        if (!op) rc = JB_EPARSE;
        else if (strcmp(kind, "op_submit") == 0) rc = on_submit(c, op, event);
        else if (strcmp(kind, "op_done") == 0) rc = on_done(r, c, op, event);
        else on_cancel(c, op);
    }
    return rc ? malformed(err, span, kind) : 0;
}

/* ---- the ledger, by the same rules as the engine's ------------------------------------------ */

static void add_up(jb_rec_cell *c)
{
    jb_ledger *l = &c->ledger;
    jb_ledger_init(l, -1);
    for (size_t i = 0; i < c->op_count; i++) {
        const jb_rec_op *op = &c->ops[i];
        int good = op->done && !op->failed && !op->cancelled;
        if (op->kind == JB_OP_LLM) {
            if (op->cancelled) l->discarded_calls += op->done;
            else if (good) jb_ledger_call(l, op->purpose, &op->usage, op->replayed ? &jb_price_free : c->priced ? &c->price : NULL);
            else if (op->done) l->failures++;
            l->samples += good && op->purpose == JB_PURPOSE_SAMPLE;
        } else if (op->kind == JB_OP_EVAL && (op->done || op->cancelled)) {
            const jb_rec_candidate *k = &c->candidates[op->candidate - 1];
            const jb_rec_op *from = k->llm_op >= 1 && k->llm_op <= c->op_count ? &c->ops[k->llm_op - 1] : NULL;
            jb_ledger_eval(l, NULL, k->duplicate);
            l->samples += good && !(from && from->purpose == JB_PURPOSE_SAMPLE);
            if (op->cancelled) continue;
            l->trace_s += op->trace_s;
            l->compile_s += op->compile_s;
            l->check_s += op->check_s;
            l->accelerator_s += op->accelerator_s;
            l->wall_s += op->wall_s;
        }
    }
}

/* ---- loading ----------------------------------------------------------------------------------- */

int jb_manifest_price(const cJSON *manifest, const char *backend, jb_price *out)
{
    const cJSON *b;
    cJSON_ArrayForEach(b, jb_json_obj(manifest, "backends"))
    {
        if (strcmp(jb_json_str(b, "name", ""), backend) == 0) return jb_price_read(jb_json_obj(b, "price"), out) == 0;
    }
    return 0;
}

static int read_manifest(jb_records *r, const char *run_dir, jb_error *err)
{
    char *path = jb_fs_join(run_dir, "manifest.json");
    int rc = 0;
    if (!path) return jb_err(err, JB_ENOMEM, "run: out of memory");
    if (!jb_fs_exists(path)) {
        rc = jb_err(err, JB_ENOTFOUND, "%s is no run: it has no manifest.json", run_dir);
        jb_err_hint(err, "give the folder of a run, e.g. runs/<date>-<name>-<hash>");
        if (err) err->flags |= JB_ERR_USER;
        goto out;
    }
    r->manifest = jb_json_read_file(path, MANIFEST_MAX, err);
    if (!r->manifest) { rc = err && err->code ? err->code : JB_EPARSE; goto out; }
    const cJSON *cells = jb_json_obj(r->manifest, "cells"), *gates = jb_json_obj(r->manifest, "gates"), *i;
    const char *headline = jb_json_str(r->manifest, "headline", "");
    cJSON_ArrayForEach(i, gates)
    {
        if (r->gate_count == JB_RECORDS_MAX_GATES) break;
        if (strcmp(jb_json_str(i, "name", ""), headline) == 0) r->headline = r->gate_count;
        r->gates[r->gate_count++] = jb_json_str(i, "name", "?");
    }
    int n = cJSON_GetArraySize(cells);
    r->cells = jb_alloc_array(n > 0 ? (size_t)n : 1, sizeof *r->cells);
    if (!r->cells) { rc = jb_err(err, JB_ENOMEM, "run: out of memory"); goto out; }
    cJSON_ArrayForEach(i, cells)
    {
        jb_rec_cell *c = &r->cells[r->cell_count++];
        c->key = jb_json_str(i, "key", "?");
        c->label = jb_json_str(i, "label", c->key);
        c->workload = jb_json_str(i, "workload", "?");
        c->workload_name = jb_json_str(i, "workload_name", "");
        c->method = jb_json_str(i, "method", "?");
        c->backend = jb_json_str(i, "backend", "");
        c->seed = jb_json_i64(i, "seed", 0);
        c->priced = jb_manifest_price(r->manifest, c->backend, &c->price);
    }
out:
    jb_free(path);
    return rc;
}

int jb_records_load(const char *run_dir, jb_records **out, jb_error *err)
{
    jb_records *r = jb_alloc(sizeof *r);
    char *journal = jb_fs_join(run_dir, "journal.jsonl");
    int rc = r && journal ? read_manifest(r, run_dir, err) : jb_err(err, JB_ENOMEM, "run: out of memory");
    if (rc == 0) rc = jb_journal_read(journal, visit, r, &r->torn_bytes, err);
    jb_free(journal);
    if (rc != 0) {
        jb_records_free(r);
        return rc;
    }
    for (size_t i = 0; i < r->cell_count; i++) add_up(&r->cells[i]);
    *out = r;
    return 0;
}

void jb_records_free(jb_records *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->cell_count; i++) {
        jb_free(r->cells[i].ops);
        jb_free(r->cells[i].candidates);
        jb_free(r->cells[i].provisional);
    }
    jb_free(r->cells);
    cJSON_Delete(r->executor);
    cJSON_Delete(r->manifest);
    jb_free(r);
}
