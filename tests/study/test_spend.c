/* SPDX-License-Identifier: Apache-2.0 */
/* tests/study/test_spend.c - amounts and --budget flags, price files and their
 * mistakes, and arithmetic that never takes the unknown for free. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/study/budget.h"
#include "core/study/prices.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- amounts ----------------------------------------------------------------------------- */

static const struct { unsigned unit; const char *text; int64_t amount; } AMOUNTS[] = { /* -1: refused */
    { JB_UNIT_USD, "5", 5 * JB_PICO }, { JB_UNIT_USD, "0.000001", 1000000 }, { JB_UNIT_USD, "1e6", 1000000 * JB_PICO },
    { JB_UNIT_USD, "0", -1 }, { JB_UNIT_USD, "-3", -1 }, { JB_UNIT_USD, "nan", -1 }, { JB_UNIT_USD, "inf", -1 }, { JB_UNIT_USD, "2e6", -1 },
    { JB_UNIT_USD, "", -1 }, { JB_UNIT_USD, "five", -1 }, { JB_UNIT_TOKENS, "500k", 500000 }, { JB_UNIT_TOKENS, "2M", 2000000 },
    { JB_UNIT_TOKENS, "1", 1 }, { JB_UNIT_TOKENS, "0", -1 }, { JB_UNIT_TOKENS, "k", -1 }, { JB_UNIT_TOKENS, "1.5M", -1 },
    { JB_UNIT_TOKENS, "9223372036854775807", INT64_MAX }, { JB_UNIT_TOKENS, "9223372036854775807k", -1 },
    { JB_UNIT_TOKENS, "99999999999999999999", -1 }, { JB_UNIT_CALLS, "300", 300 }, { JB_UNIT_COMPILE, "600", 600000 },
    { JB_UNIT_COMPILE, "10m", 600000 }, { JB_UNIT_COMPILE, "0", -1 }, { JB_UNIT_WALL, "6h", 21600000 }, { JB_UNIT_WALL, "600", -1 },
    { JB_UNIT_WALL, "250ms", -1 },
};

START_TEST(amounts_are_read)
{
    int64_t got = -2;
    int rc = jb_unit_read(AMOUNTS[_i].unit, AMOUNTS[_i].text, &got);
    if (AMOUNTS[_i].amount < 0) ck_assert_msg(rc != 0, "%s was read as %lld", AMOUNTS[_i].text, (long long)got);
    else ck_assert_msg(rc == 0 && got == AMOUNTS[_i].amount, "%s: %lld, expected %lld", AMOUNTS[_i].text, (long long)got, (long long)AMOUNTS[_i].amount);
}
END_TEST

START_TEST(amounts_are_written)
{
    static const struct { unsigned unit; int64_t amount; const char *text; } rows[] = {
        { JB_UNIT_USD, 3120000000000, "$3.12" }, { JB_UNIT_USD, 0, "$0.00" }, { JB_UNIT_USD, 75000000, "$0.000075" },
        { JB_UNIT_TOKENS, 12, "12 tokens" }, { JB_UNIT_CALLS, 1, "1 call" }, { JB_UNIT_CALLS, 2, "2 calls" },
    };
    char text[48];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) ck_assert_str_eq(jb_unit_text(text, sizeof text, rows[i].unit, rows[i].amount), rows[i].text);
}
END_TEST

static const struct { const char *flag, *set; } FLAGS[] = { /* NULL: refused */
    { "5usd", "budget.usd=5" }, { "2Mtokens", "budget.tokens=2M" }, { "300calls", "budget.calls=300" },
    { "12samples", "budget.samples_per_cell=12" }, { "30m", "budget.wall=30m" }, { "compile_s=600", "budget.compile_s=600" },
    { "5", NULL }, { "usd", NULL }, { "", NULL }, { "=5", NULL }, { "5eur", NULL },
};

START_TEST(flags_become_overrides)
{
    jb_error err = JB_ERROR_INIT;
    char *set;
    int rc = jb_budget_flag(FLAGS[_i].flag, &set, &err);
    if (FLAGS[_i].set) {
        ck_assert_msg(rc == 0, "%s: %s", FLAGS[_i].flag, err.message);
        ck_assert_str_eq(set, FLAGS[_i].set);
    } else {
        ck_assert_msg(rc == JB_EINVAL, "%s became %s", FLAGS[_i].flag, set ? set : "?");
        ck_assert_ptr_nonnull(strstr(err.hint, "5usd"));
    }
    jb_free(set);
}
END_TEST

/* ---- price files ---------------------------------------------------------------------------- */

static const char FILE_TEXT[] =
    "schema: 1\n"
    "kind: prices\n"
    "date: 2026-11-30\n"
    "currency: USD\n"
    "prices:\n"
    "  - {backend: openai, model: \"m-mini*\", input: 0.075, cache_read: 0.01875, output: 0.3, source: a test, valid_from: 2026-11-01}\n"
    "  - {backend: openai, model: \"m-*\", input: 2, output: 8, reasoning: 9, source: a test}\n"
    "  - {backend: scripted, input: 0, output: 0, source: nobody bills a bank of kernels}\n";

static jb_prices *parse(const char *text)
{
    jb_prices *p = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_prices_parse(text, strlen(text), "x/prices-2026-11.yaml", &p, &err) == 0, "%s %s", err.where, err.message);
    return p;
}

START_TEST(the_first_row_that_matches)
{
    jb_prices *p = parse(FILE_TEXT);
    ck_assert_str_eq(p->name, "prices-2026-11.yaml");
    ck_assert_str_eq(p->date, "2026-11-30");
    ck_assert_uint_eq(strlen(p->sha256), 64);
    const jb_price_row *mini = jb_prices_find(p, "openai", "m-mini-2"), *big = jb_prices_find(p, "openai", "m-big");
    ck_assert_ptr_eq(mini, &p->rows[0]);
    ck_assert_ptr_eq(big, &p->rows[1]);
    ck_assert_ptr_eq(jb_prices_find(p, "scripted", NULL), &p->rows[2]);
    ck_assert_ptr_null(jb_prices_find(p, "openai", "other")); /* unpriced, not 0 */
    ck_assert_ptr_null(jb_prices_find(p, "replay", "m-mini"));
    ck_assert_ptr_null(jb_prices_find(NULL, "openai", "m-big"));
    static const int64_t small[] = { 75000, 18750, 75000, 300000, 300000 }, large[] = { 2000000, 2000000, 2000000, 8000000, 9000000 };
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) {
        ck_assert_int_eq(mini->price.pico[k], small[k]);
        ck_assert_int_eq(big->price.pico[k], large[k]);
    }
    ck_assert_str_eq(mini->valid_from, "2026-11-01");
    ck_assert_str_eq(big->valid_from, "2026-11-30"); /* the file's */
    jb_prices_free(p);
}
END_TEST

static const struct { const char *was, *is, *message; int line; } MISTAKES[] = {
    { "schema: 1", "schema: 2", "schema must be 1", 1 }, { "kind: prices", "kind: price", "kind must be \"prices\"", 2 },
    { "date: 2026-11-30", "date: today", "date must be a date", 3 }, { "date: 2026-11-30", "dat: 2026-11-30", "dat", 3 },
    { "currency: USD", "currency: EUR", "nothing is converted", 4 }, { "input: 0.075", "input: -1", "input must be 0 to", 6 },
    { "input: 0.075", "input: 1e9", "input must be 0 to", 6 }, { "input: 0.075", "input: cheap", "input", 6 },
    { "input: 0.075", "inptu: 0.075", "inptu", 6 }, { "input: 0.075, ", "", "needs `input` and `output`", 6 },
    { "source: a test, valid_from", "valid_from", "source", 6 }, { "valid_from: 2026-11-01", "valid_from: soon", "valid_from must be a date", 6 },
    { "backend: openai, model: \"m-mini*\", ", "", "hides a missing price", 6 },
};

START_TEST(mistakes_are_named_with_their_line)
{
    char text[1024], where[64];
    const char *at = strstr(FILE_TEXT, MISTAKES[_i].was);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - FILE_TEXT), FILE_TEXT, MISTAKES[_i].is, at + strlen(MISTAKES[_i].was));
    jb_prices *p = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_prices_parse(text, strlen(text), "p.yaml", &p, &err) != 0, "%s was accepted", MISTAKES[_i].is);
    ck_assert_ptr_null(p);
    ck_assert_msg(strstr(err.message, MISTAKES[_i].message) != NULL, "%s", err.message);
    snprintf(where, sizeof where, "p.yaml:%d", MISTAKES[_i].line);
    ck_assert_str_eq(err.where, where);
    ck_assert_uint_ne(err.flags & JB_ERR_USER, 0);
}
END_TEST

START_TEST(no_memory_is_an_error_of_its_own)
{
    for (long n = 1; n < 200; n++) {
        jb_prices *p = NULL;
        jb_error err = JB_ERROR_INIT;
        jb_mem_fail_after(n, 1);
        int rc = jb_prices_parse(FILE_TEXT, strlen(FILE_TEXT), "p.yaml", &p, &err);
        jb_mem_fail_after(0, 0);
        jb_prices_free(p);
        if (rc == 0) return;
        ck_assert_msg(rc == JB_ENOMEM, "allocation %ld: %s", n, err.message);
    }
    ck_abort_msg("it never succeeded");
}
END_TEST

/* ---- arithmetic -------------------------------------------------------------------------------- */

START_TEST(costs)
{
    const jb_price price = { { 1000000, 100000, 2000000, 4000000, 5000000 } };
    static const struct { jb_usage usage; int64_t cost; } rows[] = {
        { { 1000, 0, 0, 500, 0 }, 3000000000 }, { { 1, 1, 1, 1, 1 }, 12100000 }, { { 0, 0, 0, 0, 0 }, 0 },
        { { 1000, -1, -1, 500, -1 }, 3000000000 }, /* not reported: there were none */
        { { -1, 0, 0, 500, 0 }, -1 }, { { 1000, 0, 0, -1, 0 }, -1 }, /* nobody knows */
        { { INT64_MAX, 0, 0, 1, 0 }, INT64_MAX },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t cost = jb_price_cost(&price, &rows[i].usage);
        ck_assert_msg(cost == rows[i].cost, "row %zu: %lld, expected %lld", i, (long long)cost, (long long)rows[i].cost);
        ck_assert_int_eq(jb_price_cost(NULL, &rows[i].usage), -1);
    }
}
END_TEST

START_TEST(prices_go_through_a_manifest)
{
    jb_prices *p = parse(FILE_TEXT);
    jb_price back;
    cJSON *o = jb_price_json(&p->rows[0].price);
    ck_assert_double_eq(jb_json_num(o, "cache_read", 0), 0.01875);
    ck_assert_int_eq(jb_price_read(o, &back), 0);
    ck_assert_int_eq(memcmp(&back, &p->rows[0].price, sizeof back), 0);
    ck_assert_int_ne(jb_price_read(NULL, &back), 0);
    cJSON_Delete(o);
    jb_prices_free(p);
}
END_TEST

int main(void)
{
    jb_json_setup();
    Suite *s = suite_create("spend");
    TCase *c = tcase_create("spend");
    tcase_add_loop_test(c, amounts_are_read, 0, sizeof AMOUNTS / sizeof *AMOUNTS);
    tcase_add_test(c, amounts_are_written);
    tcase_add_loop_test(c, flags_become_overrides, 0, sizeof FLAGS / sizeof *FLAGS);
    tcase_add_test(c, the_first_row_that_matches);
    tcase_add_loop_test(c, mistakes_are_named_with_their_line, 0, sizeof MISTAKES / sizeof *MISTAKES);
    tcase_add_test(c, no_memory_is_an_error_of_its_own);
    tcase_add_test(c, costs);
    tcase_add_test(c, prices_go_through_a_manifest);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
