/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/feedback.h - what a model is told about its attempts: a JSON
 * record made from the records of a chain's candidates, and its rendering to text
 * for a prompt.  Both forms are described in docs/feedback.md.
 *
 * Pure functions of their arguments, without clock and without fields that differ
 * between two equal runs (seconds, addresses), so that equal results give equal
 * prompts.  Rows of a gate set that are not `when: loop` are not read: what final
 * draws showed reaches nobody who writes kernels. */
#ifndef JB_EVALUATE_FEEDBACK_H
#define JB_EVALUATE_FEEDBACK_H

#include "core/evaluate/outcome.h"

#define JB_FEEDBACK_DETAIL_MAX 4096u        /* bytes of a compiler's or Python's own words */
#define JB_FEEDBACK_SOURCE_MAX (64u << 10)  /* bytes of a source that are shown */
#define JB_FEEDBACK_WORST_MAX 5             /* worst elements of the trial that failed */
#define JB_FEEDBACK_TEXT_MAX ((size_t)16 << 20)

/* One attempt, as the loop judged it.  Everything is borrowed. */
typedef struct jb_attempt {
    uint64_t candidate;
    const jb_judgement *judged;
    jb_view source;      /* empty: the reply held none */
    double median_us;    /* native timing; +inf without one */
    const cJSON *record; /* with the stage extract; read of the last attempt only */
} jb_attempt;

/* Index of the best correct attempt: natively timed before untimed, faster
 * before slower, earlier before later; -1 when none is correct. */
int64_t jb_feedback_best(const jb_attempt *attempts, size_t count);

/* The record about the last of `attempts` (oldest first, at least one) at
 * `level` (JB_FEEDBACK_*), with a line for each of the `history` latest earlier
 * ones.  `headline` is the gate set whose failure is told.  NULL without memory. */
cJSON *jb_feedback_record(const jb_attempt *attempts, size_t count, const char *headline, uint32_t level, size_t history);

/* Append the record as Markdown.  Sources and error texts stand in fences that
 * nothing inside them closes.  The buffer's status on failure. */
int jb_feedback_text(const cJSON *record, jb_buf *out);

#endif
