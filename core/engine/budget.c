/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/budget.c - the budget of a run: what may begin, and where the run
 * stands.
 *
 *     admit: spent + reserved + bound <= budget --> runs --> journaled (the tally is
 *     charged) --> released
 *
 * A call is bounded by its prompt's bytes (no tokenizer makes more tokens than
 * there are bytes, MESSAGE_TOKENS a message aside) and its `max_output`; a job by
 * its compile limit.  So a budget is overshot by no more than a provider bills
 * beyond that.  Methods see nothing of it: what is not admitted waits, and when
 * nothing runs any more the run pauses. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/engine/state.h"

#include <string.h>
#include <time.h>

#define MESSAGE_TOKENS 16      /* of roles and separators */
#define UNKNOWN_OUTPUT 32768   /* tokens, of a backend without a limit */
#define COMPILE_S 300.0        /* of a job without a limit; core/evaluate/job.c sets one */
#define SAVE_NS INT64_C(1000000000)
#define GRACE_MAX_MS INT64_C(600000)
#define STATUS_MAX (1u << 20)

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t budget_of(const jb_engine *e, unsigned unit) { return e->o->budget ? e->o->budget->of[unit] : -1; }

static int64_t plus(int64_t a, int64_t b)
{
    int64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

static int64_t times(int64_t a, int64_t b)
{
    int64_t product;
    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* ---- opening ---------------------------------------------------------------------------- */

static void witness(void *ctx, const char *kind, const cJSON *body, uint64_t seq, double t)
{
    jb_tally_take(ctx, kind, body, seq, t);
}

int jb_budget_open(jb_engine *e, jb_error *err)
{
    size_t n = e->o->cell_count;
    e->tally_cells = jb_alloc_array(n ? n : 1, sizeof *e->tally_cells);
    if (!e->tally_cells) return jb_err(err, JB_ENOMEM, "run: out of memory");
    for (size_t i = 0; i < n; i++) e->tally_cells[i] = (jb_tally_cell){ e->o->cells[i].key, e->o->cells[i].price };
    jb_tally_init(&e->tally, e->tally_cells, n);
    return 0;
}

void jb_budget_watch(jb_engine *e) { jb_journal_observe(e->journal, witness, &e->tally); }

void jb_budget_close(jb_engine *e)
{
    jb_free(e->tally_cells);
    e->tally_cells = NULL;
}

/* ---- admission ---------------------------------------------------------------------------- */

static int64_t wall_ms(const jb_engine *e) { return plus(e->tally.wall_before_ms, (now_ns() - e->begin_ns) / 1000000); }

/* 1 when `ask` more of every unit from `first` on fits; else notes which does not. */
static int fits(jb_engine *e, const jb_amounts *ask, unsigned first)
{
    int ok = 1;
    for (unsigned u = first; u < JB_UNITS; u++) {
        int64_t budget = budget_of(e, u), used = u == JB_UNIT_WALL ? wall_ms(e) : plus(e->tally.spent.of[u], e->reserved.of[u]);
        if (budget < 0 || plus(used, ask->of[u]) <= budget) continue;
        e->held |= 1u << u;
        ok = 0;
    }
    return ok;
}

static int64_t dearest(const jb_price *p, const size_t *kinds, size_t count)
{
    int64_t most = 0;
    for (size_t i = 0; p && i < count; i++)
        if (p->pico[kinds[i]] > most) most = p->pico[kinds[i]];
    return most;
}

static void bound_call(const jb_cell_plan *p, jb_op *op)
{
    static const size_t in[] = { 0, 1, 2 }, out[] = { 3, 4 };
    int64_t input = (int64_t)op->prompt_len + MESSAGE_TOKENS * (int64_t)op->message_count;
    int64_t output = p->max_output > 0 ? p->max_output : UNKNOWN_OUTPUT;
    op->bound = (jb_amounts){ { 0, plus(input, output), 1, 0, 0 } };
    op->bound.of[JB_UNIT_USD] = plus(times(input, dearest(p->price, in, 3)), times(output, dearest(p->price, out, 2)));
}

static void reserve(jb_engine *e, const jb_amounts *a, int sign)
{
    for (unsigned u = 0; u < JB_UNITS; u++) e->reserved.of[u] = sign > 0 ? plus(e->reserved.of[u], a->of[u]) : e->reserved.of[u] - a->of[u];
}

int jb_budget_admit_call(jb_engine *e, const jb_cell_plan *p, jb_op *op)
{
    bound_call(p, op);
    if (!fits(e, &op->bound, 0)) return 0;
    reserve(e, &op->bound, 1);
    return 1;
}

void jb_budget_release_call(jb_engine *e, jb_op *op) { reserve(e, &op->bound, -1); }

/* Milliseconds that the job may compile. */
static int64_t job_bound(const cJSON *job)
{
    const cJSON *skip;
    cJSON_ArrayForEach(skip, jb_json_obj(job, "skip"))
    {
        if (cJSON_IsString(skip) && strcmp(skip->valuestring, "compile") == 0) return 0;
    }
    return (int64_t)(1e3 * jb_json_num(jb_json_obj(job, "limits"), "compile_s", COMPILE_S));
}

int jb_budget_admits_job(jb_engine *e, const cJSON *job)
{
    jb_amounts ask = { { 0 } };
    ask.of[JB_UNIT_COMPILE] = job_bound(job);
    return fits(e, &ask, JB_UNIT_COMPILE); /* replies are paid for: only the units after keep them from being judged */
}

void jb_budget_reserve_job(jb_engine *e, jb_eval *v, const cJSON *job)
{
    v->bound_ms = job_bound(job);
    e->reserved.of[JB_UNIT_COMPILE] = plus(e->reserved.of[JB_UNIT_COMPILE], v->bound_ms);
}

void jb_budget_release_job(jb_engine *e, jb_eval *v)
{
    e->reserved.of[JB_UNIT_COMPILE] -= v->bound_ms;
    v->bound_ms = 0;
}

/* ---- the end -------------------------------------------------------------------------------- */

int jb_budget_reached(jb_engine *e)
{
    if (!e->held || e->reserved.of[JB_UNIT_CALLS]) return 0;
    if (e->pool && (jb_pool_busy(e->pool) || jb_pool_queued(e->pool))) return 0;
    e->result->unit = 0;
    while (!(e->held >> e->result->unit & 1u)) e->result->unit++;
    return 1;
}

/* What had begun may end after the wall budget, but only for a while: a tenth of it. */
int jb_budget_out_of_time(jb_engine *e)
{
    int64_t budget = budget_of(e, JB_UNIT_WALL), grace = budget / 10 < GRACE_MAX_MS ? budget / 10 : GRACE_MAX_MS;
    if (budget < 0 || wall_ms(e) <= plus(budget, grace)) return 0;
    e->result->unit = JB_UNIT_WALL;
    return 1;
}

/* ---- showing --------------------------------------------------------------------------------- */

/* Every unit that has a budget, and money whenever some was spent. */
void jb_budget_show(jb_engine *e)
{
    jb_buf b = JB_BUF_INIT(512);
    char spent[48], limit[48];
    for (unsigned u = 0; u < JB_UNITS; u++) {
        int64_t budget = budget_of(e, u), used = u == JB_UNIT_WALL ? wall_ms(e) : e->tally.spent.of[u];
        if (budget < 0 && (u != JB_UNIT_USD || used == 0)) continue;
        jb_buf_printf(&b, "%s%s", b.len ? ", " : "", jb_unit_text(spent, sizeof spent, u, used));
        if (budget >= 0) jb_buf_printf(&b, " of %s", jb_unit_text(limit, sizeof limit, u, budget));
    }
    jb_progress_spent(e->o->progress, b.ptr ? b.ptr : "");
    jb_buf_free(&b);
}

/* ---- status.json ---------------------------------------------------------------------------- */

int jb_budget_json(const jb_engine *e, cJSON *doc)
{
    static const char *const KEYS[JB_UNITS] = { "pico_usd", "tokens", "calls", "compile_ms", "wall_ms" };
    cJSON *o = jb_json_add_obj(doc, "budget");
    int rc = o ? 0 : JB_ENOMEM;
    for (unsigned u = 0; rc == 0 && u < JB_UNITS; u++)
        if (budget_of(e, u) >= 0) rc = jb_json_set_i64(o, KEYS[u], budget_of(e, u));
    return rc;
}

static cJSON *status_doc(const jb_engine *e)
{
    static const char *const ENDS[] = { [JB_END_SIGNAL] = "signal", [JB_END_INFRA] = "infra", [JB_END_BUDGET] = "budget", [JB_END_PROVIDER] = "provider" };
    const char *end = e->result->end < sizeof ENDS / sizeof *ENDS ? ENDS[e->result->end] : NULL;
    int64_t expected = 0;
    for (size_t i = 0; i < e->o->cell_count && expected >= 0; i++)
        expected = e->o->cells[i].expected < 0 ? -1 : expected + e->o->cells[i].expected;
    cJSON *o = cJSON_CreateObject(), *tally = jb_tally_json(&e->tally);
    int rc = o && tally ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(o, "offset", (int64_t)jb_journal_size(e->journal));
    if (rc == 0) rc = jb_json_set_i64(o, "cells", (int64_t)e->o->cell_count);
    if (rc == 0) rc = jb_json_set_i64(o, "expected", expected);
    if (rc == 0) rc = jb_json_set_str(o, "end", end ? end : "");
    if (rc == 0) rc = jb_json_set_str(o, "unit", e->result->end == JB_END_BUDGET ? jb_unit_key(e->result->unit) : "");
    if (rc == 0) rc = jb_budget_json(e, o);
    if (rc == 0 && cJSON_AddItemToObject(o, "tally", tally)) return o;
    cJSON_Delete(tally);
    cJSON_Delete(o);
    return NULL;
}

/* A help for readers and nothing more: a failure to write it harms no one. */
void jb_budget_save(jb_engine *e, int now)
{
    int64_t at = now_ns();
    if (!e->journal || (!now && (at - e->saved_ns < SAVE_NS || e->saved_seq == e->tally.seq))) return;
    jb_buf text = JB_BUF_INIT(STATUS_MAX);
    char *path = jb_fs_join(e->o->run_dir, "status.json");
    cJSON *o = status_doc(e);
    if (path && o && jb_json_print(o, &text) == 0 && jb_buf_puts(&text, "\n") == 0) jb_fs_write_atomic(path, text.ptr, text.len, NULL);
    e->saved_ns = at;
    e->saved_seq = e->tally.seq;
    cJSON_Delete(o);
    jb_free(path);
    jb_buf_free(&text);
}
