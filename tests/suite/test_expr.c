/* SPDX-License-Identifier: Apache-2.0 */
/* The arithmetic of workload.yaml: values, precedence, refusals. */
#include "core/suite/suite.h"

#include "core/base/error.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct { const char *text; double value; } good[] = {
    { "2*M*K*N", 2.0 * 4 * 8 * 16 }, { "  M + K*N ", 132 },  { "(M+K)*N", 192 },     { "7//2", 3 },
    { "-7//2", -4 },                 { "7/2", 3.5 },         { "2^3^2", 512 },       { "-2^2", -4 },
    { "K^-0.5", 0x1.6a09e667f3bcdp-2 }, { "2*-3", -6 },      { "1e3", 1000 },        { "1.5e-3", 0.0015 },
    { "10-3-2", 5 },                 { "64/4/2", 8 },        { "--3", 3 },           { "M_2", 5 },
    { "((((1))))", 1 },              { "8192*8192*28672", 1924145348608.0 },         { ".5", 0.5 },
};

START_TEST(values)
{
    cJSON *symbols = cJSON_Parse("{\"M\":4,\"K\":8,\"N\":16,\"M_2\":5}");
    jb_error e = JB_ERROR_INIT;
    double v = 0;
    ck_assert_msg(jb_expr_eval(good[_i].text, symbols, &v, &e) == 0, "%s: %s", good[_i].text, e.message);
    ck_assert_msg(fabs(v - good[_i].value) <= 1e-15 * fabs(good[_i].value), "%s = %.17g, not %.17g", good[_i].text, v, good[_i].value);
    cJSON_Delete(symbols);
}
END_TEST

static const struct { const char *text, *message, *hint; } bad[] = {
    { "", "something is missing", "" },
    { "2*", "something is missing", "" },
    { "2 3", "unexpected text at character 3", "" },
    { "(1", "expected ')'", "" },
    { "1)", "unexpected text", "" },
    { "4/0", "division by zero", "" },
    { "4//(M-M)", "division by zero", "" },
    { "seq_len2", "no dimension symbol \"seq_len2\"", "\"seq_len\"" },
    { "1.2.3", "malformed number", "" },
    { "10^400", "not a finite number", "" },
    { "(-1)^0.5", "not a finite number", "" },
    { "M;K", "unexpected text", "" },
    { "$M", "expected a number", "" },
    { "1111111111111111111111111111111111111111111", "that long", "" },
};

START_TEST(refusals)
{
    cJSON *symbols = cJSON_Parse("{\"M\":4,\"seq_len\":8,\"N\":\"text\"}");
    jb_error e = JB_ERROR_INIT;
    double v = 42;
    ck_assert_int_eq(jb_expr_eval(bad[_i].text, symbols, &v, &e), JB_EPARSE);
    ck_assert_double_eq(v, 42); /* untouched */
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_msg(strstr(e.hint, bad[_i].hint) != NULL, "\"%s\" lacks \"%s\"", e.hint, bad[_i].hint);
    cJSON_Delete(symbols);
}
END_TEST

START_TEST(depth_is_capped)
{
    static const char marks[] = "(-^";
    jb_error e = JB_ERROR_INIT;
    double v;
    for (const char *m = marks; *m; m++) {
        char text[20001];
        memset(text, *m, sizeof text - 1);
        text[sizeof text - 1] = '\0';
        if (*m == '^')
            for (size_t i = 0; i + 1 < sizeof text; i++) text[i] = i % 2 ? '^' : '1';
        ck_assert_int_eq(jb_expr_eval(text, NULL, &v, &e), JB_EPARSE);
        ck_assert_msg(strstr(e.message, "too deeply") != NULL, "%c: %s", *m, e.message);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("expr");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, values, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(t, refusals, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, depth_is_capped);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
