/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/outcome.h - the words for stages and outcomes, and the rules
 * (docs/protocol.md) that turn a record into one outcome with a one-line reason.
 * Pure functions of their arguments. */
#ifndef JB_EVALUATE_OUTCOME_H
#define JB_EVALUATE_OUTCOME_H

#include "core/base/json.h"
#include <jaxbench/method.h>

/* "ok", "no-code", ...; "?" for an unknown number. */
const char *jb_outcome_name(uint32_t outcome);
uint32_t jb_outcome_from_name(const char *name); /* 0 when unknown or NULL */
#define JB_OUTCOME_COUNT 17u                     /* numbers are 1..JB_OUTCOME_COUNT */
/* Left out of every denominator: infra, skipped, cancelled. */
int jb_outcome_leaves(uint32_t outcome);

const char *jb_stage_name(uint32_t stage);     /* "extract", ... "profile" */
uint32_t jb_stage_from_name(const char *name); /* 0 when unknown or NULL */
#define JB_STAGE_COUNT 8u

typedef struct jb_judgement {
    uint32_t outcome;   /* JB_OUTCOME_* */
    uint32_t stage;     /* where it was decided; 0: ok */
    char reason[320];   /* one line, escaped; empty for ok unless something is left to say */
} jb_judgement;

/* `headline`: the gate set the outcome follows; `last_stage`: JB_STAGE_*, the
 * last one asked for (before check no gate decides).  A record that is malformed
 * is infra: the worker wrote it, not the candidate. */
void jb_judge_record(const cJSON *record, const char *headline, uint32_t last_stage, jb_judgement *out);

#endif
