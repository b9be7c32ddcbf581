/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/tally.c - see tally.h. */
#include "core/engine/tally.h"

#include "core/base/error.h"
#include "core/engine/ledger.h"
#include "core/evaluate/outcome.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int by_key(const void *a, const void *b)
{
    return strcmp(((const jb_tally_cell *)a)->key, ((const jb_tally_cell *)b)->key);
}

void jb_tally_init(jb_tally *t, jb_tally_cell *cells, size_t count)
{
    *t = (jb_tally){ .cells = cells, .cell_count = count };
    if (count) qsort(cells, count, sizeof *cells, by_key);
}

static const jb_price *price_of(const jb_tally *t, const char *key)
{
    jb_tally_cell want = { key, NULL };
    const jb_tally_cell *c = t->cell_count ? bsearch(&want, t->cells, t->cell_count, sizeof want, by_key) : NULL;
    return c ? c->price : NULL;
}

static void add(int64_t *sum, int64_t n)
{
    if (n > 0 && __builtin_add_overflow(*sum, n, sum)) *sum = INT64_MAX;
}

/* ---- one event ------------------------------------------------------------------------ */

int jb_tally_put_bound(cJSON *event, const jb_amounts *bound)
{
    cJSON *o = jb_json_add_obj(event, "bound");
    int rc = o ? jb_json_set_i64(o, "tokens", bound->of[JB_UNIT_TOKENS]) : JB_ENOMEM;
    return rc ? rc : jb_json_set_i64(o, "pico_usd", bound->of[JB_UNIT_USD]);
}

/* What an answer was charged; `whole_out` tells whether all five counts were there. */
static int64_t take_usage(jb_tally *t, const cJSON *event, const jb_usage *u, int *whole_out)
{
    const int64_t n[JB_TOKEN_KINDS] = { u->input_uncached, u->cache_read, u->cache_write, u->output, u->reasoning };
    int64_t sum = 0, cost = jb_price_cost(price_of(t, jb_json_str(event, "cell", "")), u);
    *whole_out = 1;
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) {
        if (n[k] < 0) *whole_out = 0;
        add(&t->tokens[k], n[k]);
        add(&sum, n[k]);
    }
    const cJSON *bound = jb_json_obj(event, "bound");
    add(&t->spent.of[JB_UNIT_TOKENS], n[0] < 0 || n[3] < 0 ? jb_json_i64(bound, "tokens", sum) : sum);
    add(&t->spent.of[JB_UNIT_USD], cost < 0 ? jb_json_i64(bound, "pico_usd", 0) : cost);
    return cost;
}

static void call_done(jb_tally *t, const cJSON *event)
{
    jb_usage u;
    int failed = strcmp(jb_json_str(event, "status", ""), "failed") == 0, whole;
    t->spent.of[JB_UNIT_CALLS]++;
    t->calls_failed += failed;
    if (jb_json_bool(event, "replayed", 0)) return; /* an earlier run has paid */
    if (failed && jb_json_i64(event, "attempts", 0) > 0) return; /* its call_fail lines were taken */
    jb_usage_read(jb_json_obj(event, "usage"), &u);
    int64_t cost = take_usage(t, event, &u, &whole);
    if (failed) return;
    t->unreported += !whole;
    t->unpriced += cost < 0;
}

/* An attempt that failed may have been paid for. */
static void call_fail(jb_tally *t, const cJSON *event)
{
    jb_usage u;
    int whole;
    jb_usage_read(jb_json_obj(event, "usage"), &u);
    take_usage(t, event, &u, &whole);
}

static void candidate_done(jb_tally *t, const cJSON *event)
{
    uint32_t outcome = jb_outcome_from_name(jb_json_str(event, "outcome", ""));
    t->outcomes[outcome < JB_TALLY_OUTCOMES ? outcome : 0]++;
    t->candidates++;
    t->session_candidates++;
}

/* The same candidate under another word. */
static void recount(jb_tally *t, uint32_t from, uint32_t to)
{
    if (from >= JB_TALLY_OUTCOMES || to >= JB_TALLY_OUTCOMES || t->outcomes[from] == 0) return;
    t->outcomes[from]--;
    t->outcomes[to]++;
}

static void charge_seconds(jb_tally *t, const cJSON *event)
{
    double compile = jb_json_num(jb_json_path(event, "record.cost"), "compile_s", 0);
    if (compile > 0 && !jb_json_bool(event, "shared", 0)) add(&t->spent.of[JB_UNIT_COMPILE], (int64_t)(compile * 1e3 + 0.5));
}

void jb_tally_take(jb_tally *t, const char *kind, const cJSON *event, uint64_t seq, double at)
{
    t->seq = seq;
    if (strcmp(kind, "session") == 0) {
        t->sessions++;
        t->session_t = at;
        t->session_candidates = 0;
        t->wall_before_ms = t->spent.of[JB_UNIT_WALL];
        t->complete = 0;
    }
    t->t = at;
    if (at > t->session_t && t->sessions) t->spent.of[JB_UNIT_WALL] = t->wall_before_ms + llround((at - t->session_t) * 1e3);
    if (strcmp(kind, "cell_begin") == 0) t->cells_begun++;
    if (strcmp(kind, "cell_end") == 0) {
        t->cells_ended++;
        t->cells_failed += strcmp(jb_json_str(event, "status", ""), "failed") == 0;
    }
    if (strcmp(kind, "run_end") == 0) t->complete = 1;
    if (strcmp(kind, "op_done") == 0) {
        if (cJSON_GetObjectItemCaseSensitive(event, "candidate")) candidate_done(t, event);
        else call_done(t, event);
        charge_seconds(t, event);
    }
    if (strcmp(kind, "call_fail") == 0) call_fail(t, event);
    if (strcmp(kind, "op_cancel") == 0) {
        const cJSON *bound = jb_json_obj(event, "bound"); /* it was in flight */
        t->spent.of[JB_UNIT_CALLS] += bound != NULL;
        add(&t->spent.of[JB_UNIT_TOKENS], jb_json_i64(bound, "tokens", 0));
        add(&t->spent.of[JB_UNIT_USD], jb_json_i64(bound, "pico_usd", 0));
        recount(t, jb_outcome_from_name(jb_json_str(event, "was", "")), JB_OUTCOME_CANCELLED);
    }
    if (strcmp(kind, "final_done") == 0) {
        charge_seconds(t, event);
        if (!jb_json_bool(event, "provisional", 0) && strcmp(jb_json_str(event, "verdict", ""), "fail") == 0)
            recount(t, JB_OUTCOME_OK, jb_outcome_from_name(jb_json_str(event, "outcome", "")));
    }
}

int jb_tally_visit(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    (void)err;
    jb_tally_take(ctx, jb_json_str(event, "kind", ""), event, span.seq, jb_json_num(event, "t", 0));
    return 0;
}

/* ---- as JSON ---------------------------------------------------------------------------- */

/* Every whole number of a tally that is no array, by the name it is kept under. */
static const struct { const char *key; size_t at; } FIELDS[] = {
#define FIELD(name) { #name, offsetof(jb_tally, name) }
    FIELD(sessions), FIELD(cells_begun), FIELD(cells_ended), FIELD(cells_failed), FIELD(candidates), FIELD(session_candidates),
    FIELD(calls_failed), FIELD(unpriced), FIELD(unreported), FIELD(wall_before_ms),
#undef FIELD
};
static const char *const SPENT[JB_UNITS] = { "pico_usd", "tokens", "calls", "compile_ms", "wall_ms" };

static int64_t *field(jb_tally *t, size_t i) { return (int64_t *)(void *)((char *)t + FIELDS[i].at); }

cJSON *jb_tally_json(const jb_tally *t)
{
    jb_tally copy = *t;
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "seq", (int64_t)t->seq) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_num(o, "t", t->t);
    if (rc == 0) rc = jb_json_set_num(o, "session_t", t->session_t);
    if (rc == 0) rc = jb_json_set_bool(o, "complete", t->complete);
    for (size_t i = 0; rc == 0 && i < sizeof FIELDS / sizeof *FIELDS; i++) rc = jb_json_set_i64(o, FIELDS[i].key, *field(&copy, i));
    cJSON *outcomes = jb_json_add_obj(o, "outcomes"), *tokens = jb_json_add_obj(o, "token_kinds"), *spent = jb_json_add_obj(o, "spent");
    if (!outcomes || !tokens || !spent) rc = JB_ENOMEM;
    for (uint32_t i = 1; rc == 0 && i < JB_TALLY_OUTCOMES; i++)
        if (t->outcomes[i]) rc = jb_json_set_i64(outcomes, jb_outcome_name(i), t->outcomes[i]);
    for (size_t k = 0; rc == 0 && k < JB_TOKEN_KINDS; k++) rc = jb_json_set_i64(tokens, jb_token_kind(k), t->tokens[k]);
    for (size_t u = 0; rc == 0 && u < JB_UNITS; u++) rc = jb_json_set_i64(spent, SPENT[u], t->spent.of[u]);
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}

int jb_tally_read(const cJSON *o, jb_tally *t)
{
    const cJSON *outcomes = jb_json_obj(o, "outcomes"), *tokens = jb_json_obj(o, "token_kinds"), *spent = jb_json_obj(o, "spent"), *i;
    jb_tally r = { .cells = t->cells, .cell_count = t->cell_count };
    int64_t seq = jb_json_i64(o, "seq", -1);
    if (seq < 0 || !outcomes || !tokens || !spent) return JB_EPARSE;
    r.seq = (uint64_t)seq;
    r.t = jb_json_num(o, "t", 0);
    r.session_t = jb_json_num(o, "session_t", 0);
    r.complete = jb_json_bool(o, "complete", 0);
    for (size_t k = 0; k < sizeof FIELDS / sizeof *FIELDS; k++) *field(&r, k) = jb_json_i64(o, FIELDS[k].key, 0);
    cJSON_ArrayForEach(i, outcomes)
    {
        uint32_t outcome = jb_outcome_from_name(i->string);
        if (outcome && outcome < JB_TALLY_OUTCOMES) r.outcomes[outcome] = jb_json_i64(outcomes, i->string, 0);
    }
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) r.tokens[k] = jb_json_i64(tokens, jb_token_kind(k), 0);
    for (size_t u = 0; u < JB_UNITS; u++) r.spent.of[u] = jb_json_i64(spent, SPENT[u], 0);
    *t = r;
    return 0;
}
