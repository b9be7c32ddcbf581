/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/settle.c - a candidate gets its record: judged, written to the
 * journal, archived, shown.  The same path serves a fresh record and one that the
 * journal holds, so a file lost by a kill is written again on resume. */
#include "core/base/error.h"
#include "core/engine/archive.h"
#include "core/engine/state.h"
#include "core/evaluate/job.h"
#include "core/evaluate/merge.h"

#include <jaxbench/checker.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- reading what is journaled ------------------------------------------------------ */

static cJSON *event_record(jb_cell *c, jb_span span, jb_error *err)
{
    cJSON *event = jb_journal_get(c->e->journal, span, err);
    cJSON *record = event ? cJSON_DetachItemFromObjectCaseSensitive(event, "record") : NULL;
    if (event && !record) jb_err(err, JB_EPARSE, "journal, line %u: the event has no record", span.seq);
    cJSON_Delete(event);
    return record;
}

static jb_span final_span(const jb_cell *c, const jb_candidate *k)
{
    return k->id <= c->replay.final_count ? c->replay.finals[k->id - 1] : (jb_span){ 0, 0, 0 };
}

cJSON *jb_settle_record(jb_cell *c, const jb_candidate *k, jb_error *err)
{
    return event_record(c, k->done, err);
}

/* Median of the candidate's native timing in microseconds, +inf without one. */
static double native_median(const cJSON *record)
{
    const cJSON *t = jb_json_obj(record, "timing");
    if (strcmp(jb_json_str(t, "status", ""), "ok") != 0 || jb_json_bool(t, "interpreted", 1)) return (double)INFINITY;
    double us = jb_json_num(t, "candidate_median_us", (double)INFINITY);
    return us > 0 ? us : (double)INFINITY;
}

/* ---- the archive --------------------------------------------------------------------- */

static int set_parents(cJSON *o, const jb_candidate *k)
{
    cJSON *a = jb_json_add_arr(o, "parents");
    for (uint32_t i = 0; a && i < k->parent_count; i++) {
        cJSON *n = cJSON_CreateNumber((double)k->parents[i]);
        if (!n || !cJSON_AddItemToArray(a, n)) {
            cJSON_Delete(n);
            return JB_ENOMEM;
        }
    }
    return a ? 0 : JB_ENOMEM;
}

/* What result.json says; takes `record` (nullable). */
static cJSON *result_json(const jb_cell *c, const jb_candidate *k, cJSON *record)
{
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(o, "cell", c->plan->label);
    if (rc == 0) rc = jb_json_set_i64(o, "candidate", (int64_t)k->id);
    if (rc == 0) rc = jb_json_set_str(o, "outcome", jb_outcome_name(k->judged.outcome));
    if (rc == 0) rc = jb_json_set_str(o, "stage", k->judged.stage ? jb_stage_name(k->judged.stage) : "");
    if (rc == 0) rc = jb_json_set_str(o, "reason", k->judged.reason);
    if (rc == 0) rc = jb_json_set_i64(o, "llm_op", (int64_t)k->llm_op);
    if (rc == 0) rc = jb_json_set_i64(o, "op", (int64_t)k->op);
    if (rc == 0) rc = jb_json_set_i64(o, "lane", (int64_t)k->lane);
    if (rc == 0) rc = set_parents(o, k);
    if (rc == 0) rc = jb_json_set_str(o, "source_sha256", k->source_hash);
    if (rc == 0) rc = jb_json_set_bool(o, "duplicate", k->duplicate);
    if (rc == 0 && record) {
        rc = cJSON_AddItemToObject(o, "record", record) ? 0 : JB_ENOMEM;
        if (rc == 0) record = NULL;
    }
    cJSON_Delete(record);
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}

static int archive(jb_cell *c, const jb_candidate *k, cJSON *record, jb_error *err)
{
    cJSON *result = result_json(c, k, record);
    if (!result) return jb_err(err, JB_ENOMEM, "archive: out of memory");
    const jb_op *from = k->llm_op ? jb_cell_op(c, k->llm_op) : NULL;
    jb_archive_entry a = { .cell_dir = c->dir, .candidate = k->id, .result = result };
    if (from) {
        a.prompt = (jb_view){ from->prompt, from->prompt_len };
        a.reply = (jb_view){ from->reply, from->reply_len };
    }
    if (k->source) a.source = (jb_view){ k->source, k->source_len };
    int rc = jb_archive_write(&a, err);
    cJSON_Delete(result);
    return rc;
}

/* ---- applying a record ------------------------------------------------------------------ */

static jb_op *op_of(jb_cell *c, const jb_candidate *k) { return jb_cell_op(c, k->op); }

static void show(jb_cell *c, const jb_candidate *k, int replayed)
{
    c->e->result->candidates++;
    if (jb_outcome_leaves(k->judged.outcome)) c->e->result->infra += k->judged.outcome == JB_OUTCOME_INFRA;
    if (replayed) {
        c->e->result->replayed++;
        jb_progress_replayed(c->e->o->progress, 1);
    } else {
        jb_progress_candidate(c->e->o->progress, c->plan->label, k->id, jb_outcome_name(k->judged.outcome), k->judged.reason, k->duplicate);
    }
}

static void apply(jb_cell *c, jb_candidate *k, const cJSON *record)
{
    jb_op *op = op_of(c, k);
    k->judged_yet = 1;
    k->median_us = native_median(record);
    op->status = k->judged.outcome == JB_OUTCOME_INFRA ? JB_OP_FAILED : JB_OP_DONE;
    op->state = JB_OP_ENDED;
}

static cJSON *done_body(const jb_cell *c, const jb_candidate *k, const char *key, const jb_judgement *j, uint32_t attempts, int shared)
{
    cJSON *b = cJSON_CreateObject();
    int rc = b ? jb_json_set_str(b, "cell", c->plan->key) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(b, "candidate", (int64_t)k->id);
    if (rc == 0) rc = jb_json_set_str(b, "outcome", jb_outcome_name(j->outcome));
    if (rc == 0) rc = jb_json_set_str(b, "stage", j->stage ? jb_stage_name(j->stage) : "");
    if (rc == 0) rc = jb_json_set_str(b, "reason", j->reason);
    if (rc == 0) rc = jb_json_set_i64(b, "attempts", (int64_t)attempts);
    if (rc == 0) rc = jb_json_set_bool(b, "shared", shared);
    if (rc == 0 && key[0]) rc = jb_json_set_str(b, "key", key); /* finds the evaluation again on resume */
    if (rc == 0) return b;
    cJSON_Delete(b);
    return NULL;
}

/* Append an event that ends with `record` (borrowed). */
static int append_with_record(jb_cell *c, const char *kind, cJSON *body, cJSON *record, jb_span *span, jb_error *err)
{
    int rc = body && cJSON_AddItemReferenceToObject(body, "record", record) ? 0 : jb_err(err, JB_ENOMEM, "journal: out of memory");
    if (rc == 0) rc = jb_journal_append(c->e->journal, kind, body, span, err);
    return rc;
}

int jb_settle(jb_cell *c, jb_candidate *k, const cJSON *record, uint32_t attempts, int shared, jb_span *done_out)
{
    jb_error err = JB_ERROR_INIT;
    jb_extract_facts x = { k->extract, k->reason_extract, k->blocks, k->chosen };
    cJSON *whole = jb_record_with_extract(record, &x), *body = NULL;
    int rc = whole ? 0 : jb_err(&err, JB_ENOMEM, "cell %s: out of memory", c->plan->label);
    if (rc == 0) {
        jb_judge_record(whole, c->e->o->headline, k->last_stage, &k->judged);
        body = done_body(c, k, k->key, &k->judged, attempts, shared);
        if (!body || jb_json_set_i64(body, "op", (int64_t)k->op) || jb_json_set_str(body, "status", "done"))
            rc = jb_err(&err, JB_ENOMEM, "cell %s: out of memory", c->plan->label);
    }
    if (rc == 0) rc = append_with_record(c, "op_done", body, whole, &k->done, &err);
    if (rc == 0) {
        if (done_out) *done_out = k->done;
        apply(c, k, whole);
        rc = archive(c, k, whole, &err);
        whole = NULL;
        show(c, k, 0);
    }
    cJSON_Delete(body);
    cJSON_Delete(whole);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

/* Outcome and reason as they were journaled: a newer program judges an old run no differently. */
static void read_judgement(const cJSON *event, jb_judgement *j)
{
    j->outcome = jb_outcome_from_name(jb_json_str(event, "outcome", ""));
    j->stage = jb_stage_from_name(jb_json_str(event, "stage", ""));
    snprintf(j->reason, sizeof j->reason, "%s", jb_json_str(event, "reason", ""));
}

int jb_settle_replayed(jb_cell *c, jb_candidate *k, jb_span done)
{
    jb_error err = JB_ERROR_INIT;
    int rc = 0;
    cJSON *event = jb_journal_get(c->e->journal, done, &err);
    cJSON *record = event ? cJSON_DetachItemFromObjectCaseSensitive(event, "record") : NULL;
    if (event) read_judgement(event, &k->judged);
    if (!record || !k->judged.outcome) {
        rc = err.code ? err.code : jb_err(&err, JB_EPARSE, "journal, line %u: an evaluation ended without outcome and record", done.seq);
        goto out;
    }
    k->done = done;
    apply(c, k, record);
    if (!final_span(c, k).seq) { /* else the final rows write the last word */
        rc = archive(c, k, record, &err);
        record = NULL;
    }
    show(c, k, 1);
out:
    cJSON_Delete(event);
    cJSON_Delete(record);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

int jb_settle_cancelled(jb_cell *c, jb_candidate *k)
{
    jb_error err = JB_ERROR_INIT;
    k->judged = (jb_judgement){ .outcome = JB_OUTCOME_CANCELLED };
    snprintf(k->judged.reason, sizeof k->judged.reason, "the method ended before it");
    int seen = k->judged_yet;
    k->judged_yet = 1;
    int rc = archive(c, k, NULL, &err);
    if (!seen) show(c, k, jb_replay_find(c, k->op) != NULL);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

/* ---- final rows -------------------------------------------------------------------------------- */

/* Merge into the candidate and its archive. */
static int apply_final(jb_cell *c, jb_candidate *k, const cJSON *final_record, uint32_t verdict, const jb_judgement *j, jb_error *err)
{
    cJSON *record = jb_settle_record(c, k, err);
    if (!record) return err->code ? err->code : JB_EPARSE;
    k->final_state = verdict;
    int rc = jb_record_merge_final(record, final_record, verdict, j->reason);
    if (rc != 0) {
        cJSON_Delete(record);
        return jb_err(err, rc, "cell %s: out of memory", c->plan->label);
    }
    if (verdict == JB_VERDICT_FAIL) {
        k->judged.outcome = j->outcome;
        k->judged.stage = j->stage;
        snprintf(k->judged.reason, sizeof k->judged.reason, "final rows: %.300s", j->reason);
    }
    return archive(c, k, record, err);
}

int jb_settle_final(jb_cell *c, jb_candidate *k, const char *key, const cJSON *record, uint32_t attempts, int shared,
                    jb_span *done_out)
{
    jb_error err = JB_ERROR_INIT;
    jb_judgement j;
    uint32_t verdict = jb_record_final_verdict(record, c->plan->job, c->e->o->headline, &j);
    cJSON *copy = cJSON_Duplicate(record, 1), *body = done_body(c, k, key, &j, attempts, shared);
    jb_span span = { 0, 0, 0 };
    int rc = copy && body ? jb_json_set_str(body, "verdict", jb_verdict_name(verdict)) : JB_ENOMEM;
    if (rc == 0 && c->provisional) rc = jb_json_set_bool(body, "provisional", 1);
    if (rc != 0) jb_err(&err, rc, "cell %s: out of memory", c->plan->label);
    if (rc == 0) rc = append_with_record(c, "final_done", body, copy, &span, &err);
    if (rc == 0 && done_out) *done_out = span;
    if (rc == 0) rc = apply_final(c, k, record, verdict, &j, &err);
    if (rc == 0 && c->e->o->progress) {
        jb_buf b = JB_BUF_INIT(1024);
        jb_buf_printf(&b, "%s #%llu final rows: %s%s%s", c->plan->label, (unsigned long long)k->id, jb_verdict_name(verdict),
                      j.reason[0] ? " " : "", j.reason);
        if (b.ptr) jb_progress_note(c->e->o->progress, b.ptr);
        jb_buf_free(&b);
    }
    cJSON_Delete(body);
    cJSON_Delete(copy);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}

int jb_settle_final_replayed(jb_cell *c, jb_candidate *k, jb_span done)
{
    static const uint32_t VERDICTS[] = { JB_VERDICT_PASS, JB_VERDICT_FAIL, JB_VERDICT_INCONCLUSIVE };
    jb_error err = JB_ERROR_INIT;
    jb_judgement j = { 0 };
    uint32_t verdict = 0;
    cJSON *event = jb_journal_get(c->e->journal, done, &err);
    const char *word = jb_json_str(event, "verdict", "");
    for (size_t i = 0; i < sizeof VERDICTS / sizeof VERDICTS[0]; i++)
        if (strcmp(word, jb_verdict_name(VERDICTS[i])) == 0) verdict = VERDICTS[i];
    int rc = 0;
    if (!event) rc = err.code;
    else if (!verdict) rc = jb_err(&err, JB_EPARSE, "journal, line %u: final rows without a verdict", done.seq);
    if (rc == 0) {
        read_judgement(event, &j);
        rc = apply_final(c, k, jb_json_obj(event, "record"), verdict, &j, &err);
    }
    cJSON_Delete(event);
    return rc ? jb_engine_fatal(c->e, rc, &err) : 0;
}
