/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_budget.c - a budget stops new work, never discards what was
 * paid for, is not overshot, and a resume with more equals never having stopped;
 * and the tally: a snapshot and the lines after it say what the whole journal says. */
#include "tests/engine/fake.h"

#include "core/engine/tally.h"

#include <sys/stat.h>

static fake_run run;
static jb_amounts budget;

static void open_run(const char *name, int64_t slots)
{
    fake_reset();
    fake_open(&run, fake_root, name, slots);
    budget = (jb_amounts)JB_NO_BUDGET;
    run.o.budget = &budget;
}

static void go(uint32_t end)
{
    ck_assert_msg(fake_go(&run) == 0, "%s", run.err.message);
    ck_assert_msg(run.result.end == end, "ended with %u, expected %u", run.result.end, end);
}

/* A whole run that nothing stopped, as text. */
static char *undisturbed(void)
{
    open_run("whole", 3);
    go(JB_END_DONE);
    char *view = fake_view(run.dir);
    fake_close(&run);
    return view;
}

static jb_records *records(void)
{
    jb_records *r = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_records_load(run.dir, &r, &err) == 0, "%s", err.message);
    return r;
}

/* Every reply that is there was judged. */
static void nothing_is_discarded(void)
{
    jb_records *r = records();
    for (size_t i = 0; i < r->cell_count; i++) {
        const jb_rec_cell *c = &r->cells[i];
        for (size_t k = 0; k < c->candidate_count; k++) ck_assert_msg(c->candidates[k].outcome != 0, "%s #%zu was not judged", c->key, k + 1);
        for (size_t o = 0, replies = 0; o < c->op_count; o++) {
            replies += c->ops[o].kind == JB_OP_LLM && c->ops[o].done && !c->ops[o].failed && !c->ops[o].cancelled;
            if (o + 1 == c->op_count && c->method && strcmp(c->method, "TUNE") != 0) ck_assert_uint_eq(replies, c->candidate_count);
        }
    }
    jb_records_free(r);
}

START_TEST(calls_are_exact_and_resume_equals_a_whole_run)
{
    char *whole = undisturbed();
    int in_all = fake_calls;
    ck_assert_int_gt(in_all, 12);
    for (int64_t n = 1; n < in_all; n += 2) {
        char name[24];
        snprintf(name, sizeof name, "calls-%d", (int)n);
        open_run(name, 1 + n % 4);
        budget.of[JB_UNIT_CALLS] = n;
        go(JB_END_BUDGET);
        ck_assert_uint_eq(run.result.unit, JB_UNIT_CALLS);
        ck_assert_int_eq(fake_calls, n);
        ck_assert_int_eq(run.result.spent.of[JB_UNIT_CALLS], n);
        nothing_is_discarded();
        go(JB_END_BUDGET); /* the same budget again: nothing is asked, nothing changes */
        ck_assert_int_eq(fake_calls, n);
        nothing_is_discarded();
        budget.of[JB_UNIT_CALLS] = n + 3 < in_all ? n + 3 : in_all;
        go(n + 3 < in_all ? JB_END_BUDGET : JB_END_DONE);
        ck_assert_int_eq(fake_calls, budget.of[JB_UNIT_CALLS]);
        budget.of[JB_UNIT_CALLS] = -1;
        go(JB_END_DONE);
        ck_assert_int_eq(fake_calls, in_all); /* nothing was paid twice */
        char *view = fake_view(run.dir);
        same_view(name, whole, view);
        jb_free(view);
        fake_close(&run);
    }
    jb_free(whole);
}
END_TEST

static const struct { unsigned unit; int64_t amount; int64_t max_output; } BOUNDED[] = {
    { JB_UNIT_TOKENS, 1200, 200 }, { JB_UNIT_TOKENS, 700, 200 }, { JB_UNIT_TOKENS, 100, 200 }, { JB_UNIT_USD, 3000000000, 200 },
    { JB_UNIT_USD, 1500000000, 300 }, { JB_UNIT_TOKENS, 33000, 0 },
};

START_TEST(tokens_and_money_are_not_overshot)
{
    static const jb_price price = { { 1000000, 1000000, 1000000, 4000000, 4000000 } };
    unsigned u = BOUNDED[_i].unit;
    open_run("bounded", 4);
    for (size_t i = 0; i < run.cell_count; i++) {
        run.cells[i].price = &price;
        run.cells[i].max_output = BOUNDED[_i].max_output;
    }
    budget.of[u] = BOUNDED[_i].amount;
    go(JB_END_BUDGET);
    ck_assert_uint_eq(run.result.unit, u);
    ck_assert_msg(run.result.spent.of[u] <= BOUNDED[_i].amount, "spent %lld of %lld", (long long)run.result.spent.of[u], (long long)BOUNDED[_i].amount);
    if (BOUNDED[_i].amount == 100) ck_assert_int_eq(fake_calls, 0); /* not even one fits */
    else ck_assert_int_gt(fake_calls, 0);
    nothing_is_discarded();
    budget = (jb_amounts)JB_NO_BUDGET;
    go(JB_END_DONE);
    fake_close(&run);
}
END_TEST

START_TEST(a_call_without_counts_is_charged_at_its_bound)
{
    static const jb_price price = { { 1000000, 1000000, 1000000, 4000000, 4000000 } };
    jb_tally t;
    jb_tally_cell cell = { "a", &price };
    const jb_amounts bound = { { 777, 55, 1, 0, 0 } };
    cJSON *e = cJSON_CreateObject();
    jb_json_set_str(e, "cell", "a");
    jb_json_set_str(e, "status", "done");
    ck_assert_int_eq(jb_tally_put_bound(e, &bound), 0);
    jb_tally_init(&t, &cell, 1);
    jb_tally_take(&t, "op_done", e, 1, 1.0);
    ck_assert_int_eq(t.spent.of[JB_UNIT_TOKENS], 55);
    ck_assert_int_eq(t.spent.of[JB_UNIT_USD], 777);
    ck_assert_int_eq(t.unpriced, 1);
    jb_json_set_str(e, "status", "failed"); /* a provider's failure costs a call */
    cJSON_DeleteItemFromObject(e, "bound");
    jb_tally_take(&t, "op_done", e, 2, 1.0);
    ck_assert_int_eq(t.spent.of[JB_UNIT_TOKENS], 55);
    ck_assert_int_eq(t.spent.of[JB_UNIT_CALLS], 2);
    ck_assert_int_eq(t.calls_failed, 1);
    cJSON_Delete(e);
}
END_TEST

START_TEST(compiling_is_admitted_by_its_limit)
{
    open_run("compile", 2);
    for (size_t i = 0; i < 2; i++) cJSON_DeleteItemFromObject(run.jobs[i], "skip");
    budget.of[JB_UNIT_COMPILE] = 200000; /* a job may compile for 300 s */
    go(JB_END_BUDGET);
    ck_assert_uint_eq(run.result.unit, JB_UNIT_COMPILE);
    ck_assert_int_eq(fake_submits, 0);
    budget.of[JB_UNIT_COMPILE] = 300000; /* one at a time */
    go(JB_END_DONE);
    ck_assert_int_eq(fake_most_in_flight, 1);
    fake_close(&run);
}
END_TEST

/* A cell that is stopped after its right candidate still has it, verified. */
START_TEST(a_verified_best_survives)
{
    int verified = 0;
    for (int64_t n = 1; n <= 6; n++) {
        char name[24];
        snprintf(name, sizeof name, "best-%d", (int)n);
        open_run(name, 2);
        run.cell_count = 1;
        fake_samples = 20;
        budget.of[JB_UNIT_CALLS] = 3 * n;
        go(JB_END_BUDGET);
        jb_records *r = records();
        int right = 0, final = 0;
        for (size_t k = 0; k < r->cells[0].candidate_count; k++) {
            right += r->cells[0].candidates[k].loop_outcome == JB_OUTCOME_OK;
            final += r->cells[0].candidates[k].final != 0;
        }
        ck_assert_msg((right > 0) == (final > 0), "%d right, %d went through the final rows", right, final);
        verified += final > 0;
        ck_assert_int_eq(r->complete, 0);
        jb_records_free(r);
        fake_close(&run);
    }
    ck_assert_int_gt(verified, 0);
}
END_TEST

/* ---- the tally ------------------------------------------------------------------------------ */

static char *as_text(const jb_tally *t)
{
    jb_buf b = JB_BUF_INIT(1u << 16);
    cJSON *o = jb_tally_json(t);
    ck_assert_int_eq(jb_json_print(o, &b), 0);
    cJSON_Delete(o);
    return jb_buf_detach(&b);
}

static int cut_at;
static uint64_t cut_offset;

static int visit_until(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    if (span.seq > (uint32_t)cut_at) return 0;
    cut_offset = span.offset + span.length + 1;
    return jb_tally_visit(ctx, event, span, err);
}

START_TEST(a_snapshot_and_the_rest_are_the_whole)
{
    jb_error err = JB_ERROR_INIT;
    jb_tally whole, part;
    open_run("tally", 3);
    budget.of[JB_UNIT_CALLS] = 7;
    go(JB_END_BUDGET); /* two sessions, provisional rows, cancellations */
    budget.of[JB_UNIT_CALLS] = -1;
    go(JB_END_DONE);
    char path[300], *want;
    snprintf(path, sizeof path, "%s/journal.jsonl", run.dir);
    jb_tally_init(&whole, NULL, 0);
    ck_assert_int_eq(jb_journal_read(path, jb_tally_visit, &whole, NULL, &err), 0);
    want = as_text(&whole);
    for (cut_at = 0; (uint64_t)cut_at <= whole.seq; cut_at += 3) {
        cut_offset = 0;
        jb_tally_init(&part, NULL, 0);
        ck_assert_int_eq(jb_journal_read(path, visit_until, &part, NULL, &err), 0);
        cJSON *kept = jb_tally_json(&part);
        jb_tally_init(&part, NULL, 0);
        ck_assert_int_eq(jb_tally_read(kept, &part), 0);
        cJSON_Delete(kept);
        ck_assert_msg(jb_journal_read_from(path, cut_offset, part.seq, jb_tally_visit, &part, NULL, &err) == 0, "%s", err.message);
        char *got = as_text(&part);
        ck_assert_str_eq(got, want);
        jb_free(got);
    }
    ck_assert_int_eq(jb_journal_read_from(path, cut_offset - 2, 1, jb_tally_visit, &part, NULL, &err), JB_ESTATE);
    jb_free(want);
    /* It counts what the records count. */
    jb_records *r = records();
    int64_t outcomes[JB_TALLY_OUTCOMES] = { 0 };
    for (size_t i = 0; i < r->cell_count; i++)
        for (size_t k = 0; k < r->cells[i].candidate_count; k++) outcomes[r->cells[i].candidates[k].outcome]++;
    for (uint32_t o = 1; o < JB_TALLY_OUTCOMES; o++)
        if (o != JB_OUTCOME_CANCELLED) ck_assert_msg(whole.outcomes[o] == outcomes[o], "%s: %lld, expected %lld", jb_outcome_name(o), (long long)whole.outcomes[o], (long long)outcomes[o]);
    ck_assert_int_eq(whole.cells_ended, (int64_t)r->cell_count);
    ck_assert_int_eq(whole.complete, 1);
    jb_records_free(r);
    fake_close(&run);
}
END_TEST

START_TEST(status_json_is_the_engine_s_tally)
{
    jb_error err = JB_ERROR_INIT;
    jb_tally whole, kept;
    char path[300];
    open_run("status", 2);
    go(JB_END_DONE);
    snprintf(path, sizeof path, "%s/journal.jsonl", run.dir);
    jb_tally_init(&whole, NULL, 0);
    ck_assert_int_eq(jb_journal_read(path, jb_tally_visit, &whole, NULL, &err), 0);
    snprintf(path, sizeof path, "%s/status.json", run.dir);
    cJSON *o = jb_json_read_file(path, 1u << 20, &err);
    ck_assert_msg(o != NULL, "%s", err.message);
    jb_tally_init(&kept, NULL, 0);
    ck_assert_int_eq(jb_tally_read(jb_json_obj(o, "tally"), &kept), 0);
    char *a = as_text(&whole), *b = as_text(&kept);
    ck_assert_str_eq(a, b);
    ck_assert_int_eq(jb_json_i64(o, "cells", 0), (int64_t)run.cell_count);
    ck_assert_str_eq(jb_json_str(o, "end", "?"), "");
    jb_free(a);
    jb_free(b);
    cJSON_Delete(o);
    fake_close(&run);
}
END_TEST

/* ---- the lock ------------------------------------------------------------------------------- */

START_TEST(a_lock_says_who_holds_it)
{
    jb_error err = JB_ERROR_INIT;
    jb_lock_holder who;
    jb_lock *lock = NULL;
    char path[300];
    snprintf(path, sizeof path, "%s/lock", fake_root);
    ck_assert_int_eq(jb_lock_look(path, &who, &err), JB_ENOTFOUND);
    ck_assert_int_eq(jb_lock_take(path, &lock, &err), 0);
    ck_assert_int_eq(jb_lock_look(path, &who, &err), 0);
    ck_assert_int_eq(who.held, 1);
    ck_assert_int_eq(who.pid, getpid());
    ck_assert_uint_eq(who.started, jb_lock_process_start(getpid()));
    ck_assert_uint_gt(who.started, 0);
    ck_assert_uint_eq(jb_lock_process_start(999999999), 0);
    jb_lock_release(lock);
    ck_assert_int_eq(jb_lock_look(path, &who, &err), 0);
    ck_assert_int_eq(who.held, 0);
    char fifo[300]; /* opening it for reading would wait for ever */
    snprintf(fifo, sizeof fifo, "%s/fifo", fake_root);
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(jb_lock_look(fifo, &who, &err), JB_EINVAL);
    fake_spit(fake_root, "lock", "\xff\x01 nonsense", 11);
    ck_assert_int_eq(jb_lock_look(path, &who, &err), 0);
    ck_assert_int_eq(who.pid, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("budget");
    TCase *c = tcase_create("budget");
    tcase_add_checked_fixture(c, fake_setup, fake_teardown);
    tcase_set_timeout(c, 100);
    tcase_add_test(c, calls_are_exact_and_resume_equals_a_whole_run);
    tcase_add_loop_test(c, tokens_and_money_are_not_overshot, 0, sizeof BOUNDED / sizeof *BOUNDED);
    tcase_add_test(c, a_call_without_counts_is_charged_at_its_bound);
    tcase_add_test(c, compiling_is_admitted_by_its_limit);
    tcase_add_test(c, a_verified_best_survives);
    tcase_add_test(c, a_snapshot_and_the_rest_are_the_whole);
    tcase_add_test(c, status_json_is_the_engine_s_tally);
    tcase_add_test(c, a_lock_says_who_holds_it);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
