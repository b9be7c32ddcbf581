/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/merge.h - puts records together: the extraction that the core
 * did in front of the executor's stages, and the final rows' verdicts behind the
 * loop's. */
#ifndef JB_EVALUATE_MERGE_H
#define JB_EVALUATE_MERGE_H

#include "core/base/json.h"
#include "core/evaluate/extract.h"
#include "core/evaluate/outcome.h"

/* What extraction left to say; `blocks` and `chosen` count fenced blocks, and a
 * plain file has none. */
typedef struct jb_extract_facts {
    uint32_t outcome;
    const char *reason;
    size_t blocks;
    int64_t chosen;
} jb_extract_facts;

/* A copy of `record` whose stages begin with extract.  With NULL (nothing was
 * evaluated) the stages behind it are skipped with the reason.  NULL without
 * memory. */
cJSON *jb_record_with_extract(const cJSON *record, const jb_extract_facts *x);

/* Verdict of final rows on a candidate: JB_VERDICT_* of checker.h, decided by
 * the headline set when it has final rows, else by the stages alone. */
uint32_t jb_record_final_verdict(const cJSON *final_record, const cJSON *job, const char *headline, jb_judgement *judged);
const char *jb_verdict_name(uint32_t verdict); /* "pass" "fail" "inconclusive"; "none" for 0 */

/* Append the final rows to the record's gate sets, lower their verdicts, and
 * add "final":{"verdict","reason"}. */
int jb_record_merge_final(cJSON *record, const cJSON *final_record, uint32_t verdict, const char *reason);

#endif
