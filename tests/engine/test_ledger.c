/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_ledger.c - samples are exact, tokens add up, what was not
 * reported is said to be so; and what progress lines look like. */
#include "core/base/error.h"
#include "core/engine/ledger.h"
#include "core/engine/progress.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(reserve_and_settle)
{
    jb_ledger l;
    jb_error err = JB_ERROR_INIT;
    jb_ledger_init(&l, 2);
    ck_assert_int_eq(jb_ledger_left(&l), 2);
    ck_assert_int_eq(jb_ledger_reserve(&l, &err), 0);
    ck_assert_int_eq(jb_ledger_reserve(&l, &err), 0);
    ck_assert_int_eq(jb_ledger_left(&l), 0);
    ck_assert_int_eq(jb_ledger_reserve(&l, &err), JB_EBUDGET);
    ck_assert_ptr_nonnull(strstr(err.message, "2 samples"));
    jb_ledger_settle(&l, 0); /* the provider failed: free again */
    ck_assert_int_eq(jb_ledger_left(&l), 1);
    jb_ledger_settle(&l, 1);
    ck_assert_int_eq(jb_ledger_left(&l), 1);
    ck_assert_int_eq(l.samples, 1);
    ck_assert_int_eq(l.reserved, 0);
    jb_ledger_init(&l, -1);
    ck_assert_int_eq(jb_ledger_left(&l), -1);
    for (int i = 0; i < 1000; i++) ck_assert_int_eq(jb_ledger_reserve(&l, &err), 0);
}
END_TEST

START_TEST(tokens_by_kind_and_purpose)
{
    jb_ledger l, sum;
    jb_usage whole = { 10, 1, 2, 30, 4 }, partial = { 5, -1, -1, 6, -1 };
    jb_ledger_init(&l, -1);
    jb_ledger_init(&sum, -1);
    jb_ledger_call(&l, JB_PURPOSE_SAMPLE, &whole, NULL);
    jb_ledger_call(&l, JB_PURPOSE_PLAN, &partial, NULL);
    jb_ledger_call(&l, 77, &partial, NULL); /* unknown: other */
    jb_ledger_add(&sum, &l);
    jb_ledger_add(&sum, &l);
    cJSON *o = jb_ledger_json(&sum);
    ck_assert_int_eq(jb_json_i64(o, "calls", 0), 6);
    ck_assert_int_eq(jb_json_i64(o, "calls_without_token_counts", 0), 4);
    const cJSON *t = jb_json_obj(o, "tokens");
    ck_assert_int_eq(jb_json_i64(t, "input_uncached", 0), 40);
    ck_assert_int_eq(jb_json_i64(t, "cache_read", 0), 2);
    ck_assert_int_eq(jb_json_i64(t, "output", 0), 84);
    ck_assert_int_eq(jb_json_i64(jb_json_path(o, "purposes.plan"), "calls", 0), 2);
    ck_assert_int_eq(jb_json_i64(jb_json_path(o, "purposes.other"), "input_uncached", 0), 10);
    ck_assert_ptr_null(jb_json_path(o, "purposes.judge"));
    cJSON_Delete(o);
}
END_TEST

START_TEST(money_is_exact_and_the_unknown_is_never_free)
{
    static const jb_price price = { { 75000, 18750, 75000, 300000, 300000 } }; /* $0.075 and $0.30 a million */
    jb_ledger l;
    jb_usage whole = { 1000, 400, 0, 100, 11 }, silent = { -1, -1, -1, -1, -1 }, none = { 0, 0, 0, 0, 0 };
    jb_ledger_init(&l, -1);
    cJSON *o = jb_ledger_json(&l);
    ck_assert_double_eq(jb_json_num(jb_json_obj(o, "money"), "usd", -1), 0); /* no call, no cost */
    cJSON_Delete(o);
    jb_ledger_call(&l, JB_PURPOSE_SAMPLE, &whole, NULL);
    o = jb_ledger_json(&l);
    ck_assert_int_eq(cJSON_IsNull(cJSON_GetObjectItem(jb_json_obj(o, "money"), "usd")), 1);
    ck_assert_int_eq(jb_json_i64(jb_json_obj(o, "money"), "unpriced_calls", 0), 1);
    cJSON_Delete(o);
    for (int i = 0; i < 1000; i++) jb_ledger_call(&l, JB_PURPOSE_PLAN, &whole, &price);
    jb_ledger_call(&l, JB_PURPOSE_PLAN, &silent, &price); /* the provider did not say */
    jb_ledger_call(&l, JB_PURPOSE_JUDGE, &none, &price);
    ck_assert_int_eq(l.pico_usd[JB_PURPOSE_PLAN], 1000 * (1000 * INT64_C(75000) + 400 * 18750 + 111 * INT64_C(300000)));
    ck_assert_int_eq(l.unpriced[JB_PURPOSE_SAMPLE] + l.unpriced[JB_PURPOSE_PLAN], 2);
    o = jb_ledger_json(&l);
    ck_assert_double_eq_tol(jb_json_num(jb_json_obj(o, "money"), "usd", -1), 0.1158, 1e-12);
    ck_assert_double_eq_tol(jb_json_num(jb_json_path(o, "purposes.plan"), "usd", -1), 0.1158, 1e-12);
    ck_assert_int_eq(cJSON_IsNull(cJSON_GetObjectItem(jb_json_path(o, "purposes.sample"), "usd")), 1);
    ck_assert_int_eq(jb_json_i64(jb_json_path(o, "purposes.plan"), "unpriced_calls", 0), 1);
    cJSON_Delete(o);
}
END_TEST

START_TEST(usage_goes_both_ways)
{
    jb_usage u = { 10, -1, 0, 3, -1 }, back;
    cJSON *o = jb_usage_json(&u);
    jb_usage_read(o, &back);
    ck_assert_int_eq(memcmp(&u, &back, sizeof u), 0);
    cJSON_Delete(o);
    jb_usage_read(NULL, &back);
    ck_assert_int_eq(back.output, -1);
}
END_TEST

/* What a stream got. */
static char *capture(void (*f)(jb_progress *), int64_t total, int live)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = open_memstream(&text, &n);
    jb_progress *p = jb_progress_new(stream, live, total);
    f(p);
    jb_progress_free(p);
    fclose(stream);
    return text;
}

static void two_lines(jb_progress *p)
{
    jb_progress_replayed(p, 1);
    jb_progress_candidate(p, "8p/iid/scripted s0", 2, "wrong", "coverage: output 0\x1b[2J\nforged line", 0);
    jb_progress_candidate(p, "8p/iid/scripted s0", 3, "ok", "", 1);
    jb_progress_tick(p, 1, 2); /* not on a terminal: nothing */
}

START_TEST(progress_lines)
{
    char *text = capture(two_lines, 48, 0);
    ck_assert_str_eq(text, "[ 2/48] 8p/iid/scripted s0 #2 wrong (coverage: output 0\\x1b[2J\\x0aforged line)\n"
                           "[ 3/48] 8p/iid/scripted s0 #3 ok, duplicate\n");
    free(text);
    text = capture(two_lines, -1, 0);
    ck_assert_int_eq(strncmp(text, "[2] 8p", 6), 0);
    free(text);
}
END_TEST

static void live_line(jb_progress *p)
{
    jb_progress_candidate(p, "a", 1, "ok", "", 0);
    jb_progress_spent(p, "$3.12 of $20.00");
    jb_progress_tick(p, 2, 5);
}

START_TEST(the_live_line_has_an_eta_and_goes_away)
{
    char *text = capture(live_line, 8, 1);
    ck_assert_ptr_nonnull(strstr(text, "2 running, 5 waiting, $3.12 of $20.00, eta "));
    ck_assert_str_eq(text + strlen(text) - 4, "\r\x1b[K");
    free(text);
}
END_TEST

START_TEST(progress_accepts_null)
{
    jb_progress_candidate(NULL, "a", 1, "ok", "", 0);
    jb_progress_replayed(NULL, 1);
    jb_progress_spent(NULL, "x");
    jb_progress_note(NULL, "x");
    jb_progress_tick(NULL, 1, 1);
    jb_progress_free(NULL);
}
END_TEST

int main(void)
{
    jb_json_setup();
    Suite *s = suite_create("ledger");
    TCase *c = tcase_create("ledger");
    tcase_add_test(c, reserve_and_settle);
    tcase_add_test(c, tokens_by_kind_and_purpose);
    tcase_add_test(c, money_is_exact_and_the_unknown_is_never_free);
    tcase_add_test(c, usage_goes_both_ways);
    tcase_add_test(c, progress_lines);
    tcase_add_test(c, the_live_line_has_an_eta_and_goes_away);
    tcase_add_test(c, progress_accepts_null);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
