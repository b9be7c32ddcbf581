/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/feedback.c - the service feedback/1: from the candidates that a
 * method names to core/evaluate/feedback.h.  The record is read from the journal,
 * so a resumed run makes the same bytes; nothing here is kept or written. */
#include "core/base/error.h"
#include "core/engine/state.h"
#include "core/evaluate/feedback.h"

#include <math.h>
#include <string.h>

#define TURNS_MAX 100000u

/* Candidate `id`, when its result may be known to the method. */
static jb_candidate *delivered(jb_cell *c, uint64_t id, jb_error *err)
{
    jb_candidate *k = jb_cell_candidate(c, id);
    const jb_op *op = k ? jb_cell_op(c, k->op) : NULL;
    if (!op) {
        jb_err(err, JB_ENOTFOUND, "feedback: %llu is no candidate of this cell", (unsigned long long)id);
    } else if (op->state != JB_OP_DELIVERED) { /* ended is not enough, or slots would matter */
        jb_err(err, JB_ESTATE, "feedback: the evaluation of candidate %llu has not ended yet", (unsigned long long)id);
    } else if (jb_outcome_leaves(k->judged.outcome)) {
        jb_err(err, JB_EINVAL, "feedback: candidate %llu has no result (%s)", (unsigned long long)id, jb_outcome_name(k->judged.outcome));
    } else {
        return k;
    }
    return NULL;
}

static int check_request(const jb_feedback_request *req, const jb_feedback *out, jb_error *err)
{
    if (!req || !JB_HAS(req, jb_feedback_request, history) || !out || !JB_HAS(out, jb_feedback, best))
        return jb_err(err, JB_EINVAL, "feedback: a struct is too short");
    if (req->level < JB_FEEDBACK_NONE || req->level > JB_FEEDBACK_FULL) return jb_err(err, JB_EINVAL, "feedback: unknown level %u", req->level);
    if (req->turn_count < 1 || req->turn_count > TURNS_MAX || !req->turns)
        return jb_err(err, JB_EINVAL, "feedback: it is about 1 to %u candidates, not %u", TURNS_MAX, req->turn_count);
    return 0;
}

/* A copy of the text that lives until the handler returns. */
static int keep(jb_cell *c, const jb_buf *text, jb_view *out, jb_error *err)
{
    char *kept = text->status ? NULL : jb_arena_alloc(c->arena, text->len + 1);
    if (!kept) return jb_err(err, JB_ENOMEM, "feedback: out of memory");
    if (text->len) memcpy(kept, text->ptr, text->len);
    *out = (jb_view){ kept, text->len };
    return 0;
}

static int write_out(jb_cell *c, const jb_feedback_request *req, const jb_attempt *attempts, jb_feedback *out, jb_error *err)
{
    cJSON *record = jb_feedback_record(attempts, req->turn_count, c->e->o->headline, req->level, req->history);
    jb_buf json = JB_BUF_INIT(JB_JSON_MAX_BYTES), text = JB_BUF_INIT(JB_FEEDBACK_TEXT_MAX);
    int rc = record && jb_json_print(record, &json) == 0 && jb_feedback_text(record, &text) == 0 ? 0
                                                                                               : jb_err(err, JB_ENOMEM, "feedback: out of memory");
    if (rc == 0) rc = keep(c, &json, &out->record, err);
    if (rc == 0) rc = keep(c, &text, &out->text, err);
    int64_t best = jb_feedback_best(attempts, req->turn_count);
    out->best = best >= 0 ? attempts[best].candidate : 0;
    out->timed = isfinite(attempts[req->turn_count - 1].median_us) ? 1 : 0;
    jb_buf_free(&json);
    jb_buf_free(&text);
    cJSON_Delete(record);
    return rc;
}

int jb_feedback_make(jb_cell *c, const jb_feedback_request *req, jb_feedback *out, jb_error *err)
{
    int rc = check_request(req, out, err);
    if (rc != 0) return rc;
    jb_attempt *attempts = jb_alloc_array(req->turn_count, sizeof *attempts);
    if (!attempts) return jb_err(err, JB_ENOMEM, "feedback: out of memory");
    cJSON *record = NULL;
    const jb_candidate *k = NULL;
    for (uint32_t i = 0; rc == 0 && i < req->turn_count; i++) {
        k = delivered(c, req->turns[i], err);
        if (!k) rc = err && err->code ? err->code : JB_EINVAL;
        else attempts[i] = (jb_attempt){ .candidate = k->id, .judged = &k->judged, .source = { k->source, k->source_len }, .median_us = k->median_us };
    }
    if (rc == 0) {
        record = jb_settle_record(c, k, err);
        if (!record) rc = jb_engine_fatal(c->e, err && err->code ? err->code : JB_ENOMEM, err); /* the journal can't be read */
    }
    if (rc == 0) {
        attempts[req->turn_count - 1].record = record;
        rc = write_out(c, req, attempts, out, err);
    }
    cJSON_Delete(record);
    jb_free(attempts);
    return rc;
}
