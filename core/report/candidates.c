/* SPDX-License-Identifier: Apache-2.0 */
/* core/report/candidates.c - the rows of report.json that name every candidate:
 * what became of it, what each gate set said, and the hashes of its bodies.  A
 * field that says nothing (no fault, no duplicate) is left out. */
#include "core/evaluate/merge.h"
#include "core/report/internal.h"

static int put_verdicts(cJSON *row, const jb_records *r, const jb_rec_candidate *k)
{
    cJSON *list = jb_json_add_arr(row, "verdicts");
    int rc = list ? 0 : JB_ENOMEM;
    for (size_t g = 0; rc == 0 && g < r->gate_count; g++) {
        cJSON *word = cJSON_CreateString(jb_verdict_name(k->verdicts[g]));
        if (!word || !cJSON_AddItemToArray(list, word)) {
            cJSON_Delete(word);
            rc = JB_ENOMEM;
        }
    }
    return rc;
}

static int put_text(cJSON *row, const char *key, const char *text) { return text[0] ? jb_json_set_str(row, key, text) : 0; }

/* Where it came from: the call, its place in the method, its prompt. */
static int put_origin(cJSON *row, const jb_rec_cell *c, const jb_rec_candidate *k)
{
    const jb_rec_op *call = k->llm_op >= 1 && k->llm_op <= c->op_count ? &c->ops[k->llm_op - 1] : NULL;
    int rc = k->llm_op ? jb_json_set_i64(row, "llm_op", (int64_t)k->llm_op) : 0;
    if (rc == 0 && call) rc = jb_json_set_i64(row, "lane", call->lane);
    if (rc == 0 && call) rc = jb_json_set_i64(row, "turn", call->turn);
    if (rc == 0 && call) rc = put_text(row, "prompt", call->prompt);
    return rc ? rc : put_text(row, "source", k->source);
}

static int put_row(cJSON *list, const jb_records *r, const jb_rec_cell *c, const jb_rec_candidate *k)
{
    cJSON *row = cJSON_CreateObject();
    if (!row || !cJSON_AddItemToArray(list, row)) {
        cJSON_Delete(row);
        return JB_ENOMEM;
    }
    int rc = jb_json_set_i64(row, "id", (int64_t)k->id);
    if (rc == 0) rc = jb_json_set_str(row, "outcome", k->outcome ? jb_outcome_name(k->outcome) : "running");
    if (rc == 0 && k->stage) rc = jb_json_set_str(row, "stage", jb_stage_name(k->stage));
    if (rc == 0) rc = put_text(row, "fault", k->fault);
    if (rc == 0) rc = put_text(row, "reason", k->reason);
    if (rc == 0) rc = put_verdicts(row, r, k);
    if (rc == 0 && k->final) rc = jb_json_set_str(row, "final", jb_verdict_name(k->final));
    if (rc == 0 && k->duplicate) rc = jb_json_set_bool(row, "duplicate", 1);
    if (rc == 0 && k->baseline_us > 0 && k->candidate_us > 0) {
        rc = jb_json_set_num(row, "baseline_median_us", k->baseline_us);
        if (rc == 0) rc = jb_json_set_num(row, "candidate_median_us", k->candidate_us);
    }
    return rc ? rc : put_origin(row, c, k);
}

int jb_report_put_candidates(cJSON *cell, const jb_records *r, const jb_rec_cell *c)
{
    cJSON *list = jb_json_add_arr(cell, "candidates");
    int rc = list ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < c->candidate_count; i++)
        if (c->candidates[i].id) rc = put_row(list, r, c, &c->candidates[i]);
    return rc;
}
