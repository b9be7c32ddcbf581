/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/ledger.h - what a cell or a run may spend and has spent.
 *
 * A sample is reserved when the operation that wants a kernel is submitted and
 * settled when its end is delivered to the method: charged once, whether the
 * reply parses or not, released when the provider failed.  Both happen at points
 * that the study alone fixes, so samples are exact and equal after any resume.
 * Calls, tokens, money and seconds are charged as they were spent.  A call whose
 * price or token counts are not known is counted as unpriced, never as free.
 *
 * What costs a sample: a call with purpose sample; a candidate that does not
 * come from such a call (source a method composed, or a reply to another
 * purpose), so that no method gets kernels judged for nothing. */
#ifndef JB_ENGINE_LEDGER_H
#define JB_ENGINE_LEDGER_H

#include "core/base/json.h"
#include "core/study/prices.h"
#include <jaxbench/method.h>

#define JB_PURPOSES 9u /* 0 unused, JB_PURPOSE_SAMPLE..JB_PURPOSE_OTHER */

typedef struct jb_ledger {
    int64_t sample_limit; /* -1: unlimited */
    int64_t reserved, samples;
    int64_t calls[JB_PURPOSES];
    int64_t tokens[JB_PURPOSES][JB_TOKEN_KINDS]; /* in the order of jb_usage */
    int64_t pico_usd[JB_PURPOSES]; /* of priced calls */
    int64_t unpriced[JB_PURPOSES]; /* calls without a price, or without the counts to apply it to */
    int64_t unreported;   /* calls whose provider did not report all five counts */
    int64_t failures;     /* calls that failed after the host's retries */
    int64_t candidates, duplicates;
    double trace_s, compile_s, check_s, accelerator_s, wall_s; /* of evaluations really done */
    int64_t discarded_calls; /* paid for, then cancelled by the method */
} jb_ledger;

void jb_ledger_init(jb_ledger *l, int64_t sample_limit);
/* JB_EBUDGET when no sample is left. */
int jb_ledger_reserve(jb_ledger *l, jb_error *err);
void jb_ledger_settle(jb_ledger *l, int charge); /* of one reserved sample */
int64_t jb_ledger_left(const jb_ledger *l);      /* -1: unlimited */
/* `price`: NULL when there is none. */
void jb_ledger_call(jb_ledger *l, uint32_t purpose, const jb_usage *usage, const jb_price *price);
/* `cost` is a record's, NULL for a candidate that was not evaluated. */
void jb_ledger_eval(jb_ledger *l, const cJSON *cost, int duplicate);
void jb_ledger_add(jb_ledger *sum, const jb_ledger *l);
/* {"samples","calls","tokens":{kind:n},"money":{"usd","unpriced_calls"},"purposes":{...},...};
 * "usd" is null when not one call was priced.  NULL without memory. */
cJSON *jb_ledger_json(const jb_ledger *l);

const char *jb_purpose_name(uint32_t purpose);
cJSON *jb_usage_json(const jb_usage *u);
void jb_usage_read(const cJSON *o, jb_usage *u); /* missing: -1 */

#endif
