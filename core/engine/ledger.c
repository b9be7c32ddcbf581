/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/ledger.c - see ledger.h. */
#include "core/engine/ledger.h"

#include "core/base/error.h"

#include <string.h>

static const char *const PURPOSES[JB_PURPOSES] = { "?", "sample", "plan", "menu", "repair", "judge", "reflect", "context", "other" };

const char *jb_purpose_name(uint32_t purpose) { return PURPOSES[purpose < JB_PURPOSES ? purpose : 0]; }

static void usage_array(const jb_usage *u, int64_t out[JB_TOKEN_KINDS])
{
    out[0] = u->input_uncached;
    out[1] = u->cache_read;
    out[2] = u->cache_write;
    out[3] = u->output;
    out[4] = u->reasoning;
}

void jb_ledger_init(jb_ledger *l, int64_t sample_limit)
{
    memset(l, 0, sizeof *l);
    l->sample_limit = sample_limit < 0 ? -1 : sample_limit;
}

int64_t jb_ledger_left(const jb_ledger *l)
{
    return l->sample_limit < 0 ? -1 : l->sample_limit - l->samples - l->reserved;
}

int jb_ledger_reserve(jb_ledger *l, jb_error *err)
{
    if (jb_ledger_left(l) == 0)
        return jb_err(err, JB_EBUDGET, "the cell's budget of %lld samples is spent or reserved", (long long)l->sample_limit);
    l->reserved++;
    return 0;
}

void jb_ledger_settle(jb_ledger *l, int charge)
{
    l->reserved--;
    if (charge) l->samples++;
}

void jb_ledger_call(jb_ledger *l, uint32_t purpose, const jb_usage *usage, const jb_price *price)
{
    int64_t n[JB_TOKEN_KINDS];
    uint32_t p = purpose < JB_PURPOSES ? purpose : JB_PURPOSE_OTHER;
    int whole = 1;
    usage_array(usage, n);
    l->calls[p]++;
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) {
        if (n[k] < 0) whole = 0;
        else l->tokens[p][k] += n[k];
    }
    if (!whole) l->unreported++;
    int64_t cost = jb_price_cost(price, usage);
    if (cost < 0) l->unpriced[p]++;
    else if (__builtin_add_overflow(l->pico_usd[p], cost, &l->pico_usd[p])) l->pico_usd[p] = INT64_MAX;
}

void jb_ledger_eval(jb_ledger *l, const cJSON *cost, int duplicate)
{
    l->candidates++;
    if (duplicate) l->duplicates++;
    l->trace_s += jb_json_num(cost, "trace_s", 0);
    l->compile_s += jb_json_num(cost, "compile_s", 0);
    l->check_s += jb_json_num(cost, "check_s", 0);
    l->accelerator_s += jb_json_num(cost, "accelerator_s", 0);
    l->wall_s += jb_json_num(cost, "wall_s", 0);
}

void jb_ledger_add(jb_ledger *sum, const jb_ledger *l)
{
    sum->samples += l->samples;
    sum->reserved += l->reserved;
    for (size_t p = 0; p < JB_PURPOSES; p++) {
        sum->calls[p] += l->calls[p];
        sum->pico_usd[p] += l->pico_usd[p];
        sum->unpriced[p] += l->unpriced[p];
        for (size_t k = 0; k < JB_TOKEN_KINDS; k++) sum->tokens[p][k] += l->tokens[p][k];
    }
    sum->unreported += l->unreported;
    sum->failures += l->failures;
    sum->candidates += l->candidates;
    sum->duplicates += l->duplicates;
    sum->trace_s += l->trace_s;
    sum->compile_s += l->compile_s;
    sum->check_s += l->check_s;
    sum->accelerator_s += l->accelerator_s;
    sum->wall_s += l->wall_s;
    sum->discarded_calls += l->discarded_calls;
}

/* "usd" is null when not one of the calls was priced; else the sum stands beside
 * how many calls are not in it. */
static int money_json(cJSON *m, int64_t calls, int64_t pico_usd, int64_t unpriced)
{
    int rc = m ? 0 : JB_ENOMEM;
    if (rc == 0) rc = calls > 0 && calls == unpriced ? (cJSON_AddNullToObject(m, "usd") ? 0 : JB_ENOMEM) : jb_json_set_num(m, "usd", (double)pico_usd / 1e12);
    return rc ? rc : jb_json_set_i64(m, "unpriced_calls", unpriced);
}

static int purpose_json(cJSON *purposes, const jb_ledger *l, size_t p)
{
    cJSON *o = jb_json_add_obj(purposes, PURPOSES[p]);
    int rc = o ? jb_json_set_i64(o, "calls", l->calls[p]) : JB_ENOMEM;
    for (size_t k = 0; rc == 0 && k < JB_TOKEN_KINDS; k++) rc = jb_json_set_i64(o, jb_token_kind(k), l->tokens[p][k]);
    return rc ? rc : money_json(o, l->calls[p], l->pico_usd[p], l->unpriced[p]);
}

cJSON *jb_ledger_json(const jb_ledger *l)
{
    cJSON *o = cJSON_CreateObject();
    if (!o) return NULL;
    int64_t calls = 0, pico_usd = 0, unpriced = 0, sums[JB_TOKEN_KINDS] = { 0 };
    for (size_t p = 0; p < JB_PURPOSES; p++) {
        calls += l->calls[p];
        pico_usd += l->pico_usd[p];
        unpriced += l->unpriced[p];
        for (size_t k = 0; k < JB_TOKEN_KINDS; k++) sums[k] += l->tokens[p][k];
    }
    int rc = jb_json_set_i64(o, "samples", l->samples);
    if (rc == 0) rc = jb_json_set_i64(o, "calls", calls);
    if (rc == 0) rc = jb_json_set_i64(o, "failed_calls", l->failures);
    cJSON *tokens = jb_json_add_obj(o, "tokens");
    for (size_t k = 0; tokens && rc == 0 && k < JB_TOKEN_KINDS; k++) rc = jb_json_set_i64(tokens, jb_token_kind(k), sums[k]);
    if (rc == 0) rc = jb_json_set_i64(o, "calls_without_token_counts", l->unreported);
    if (rc == 0) rc = money_json(jb_json_add_obj(o, "money"), calls, pico_usd, unpriced);
    cJSON *purposes = jb_json_add_obj(o, "purposes");
    for (size_t p = 1; purposes && rc == 0 && p < JB_PURPOSES; p++)
        if (l->calls[p]) rc = purpose_json(purposes, l, p);
    if (rc == 0) rc = jb_json_set_i64(o, "candidates", l->candidates);
    if (rc == 0) rc = jb_json_set_i64(o, "duplicates", l->duplicates);
    cJSON *cost = jb_json_add_obj(o, "cost");
    if (!tokens || !purposes || !cost) rc = JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_num(cost, "trace_s", l->trace_s);
    if (rc == 0) rc = jb_json_set_num(cost, "compile_s", l->compile_s);
    if (rc == 0) rc = jb_json_set_num(cost, "check_s", l->check_s);
    if (rc == 0) rc = jb_json_set_num(cost, "accelerator_s", l->accelerator_s);
    if (rc == 0) rc = jb_json_set_num(cost, "wall_s", l->wall_s);
    if (rc == 0) rc = jb_json_set_i64(o, "discarded", l->discarded_calls);
    if (rc != 0) {
        cJSON_Delete(o);
        return NULL;
    }
    return o;
}

cJSON *jb_usage_json(const jb_usage *u)
{
    int64_t n[JB_TOKEN_KINDS];
    cJSON *o = cJSON_CreateObject();
    usage_array(u, n);
    for (size_t k = 0; o && k < JB_TOKEN_KINDS; k++) {
        if (n[k] >= 0 && jb_json_set_i64(o, jb_token_kind(k), n[k]) != 0) {
            cJSON_Delete(o);
            return NULL;
        }
    }
    return o;
}

void jb_usage_read(const cJSON *o, jb_usage *u)
{
    u->input_uncached = jb_json_i64(o, jb_token_kind(0), -1);
    u->cache_read = jb_json_i64(o, jb_token_kind(1), -1);
    u->cache_write = jb_json_i64(o, jb_token_kind(2), -1);
    u->output = jb_json_i64(o, jb_token_kind(3), -1);
    u->reasoning = jb_json_i64(o, jb_token_kind(4), -1);
}
