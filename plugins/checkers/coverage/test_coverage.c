/* SPDX-License-Identifier: Apache-2.0 */
/* coverage: from inspections to verdicts. */
#include "coverage.c"

#include <math.h>
#include <string.h>

#include "tests/checkers/testing.h"

static const struct {
    uint32_t coverage;
    uint64_t missed, revisited, unread;
    uint32_t verdict;
    double score;
    const char *reason;
} CASES[] = {
    { JB_COVERAGE_COMPLETE, 0, 0, 0, JB_VERDICT_PASS, 0, "" },
    { JB_COVERAGE_INCOMPLETE, 3, 0, 0, JB_VERDICT_FAIL, 3, "the detail" },
    { JB_COVERAGE_INCOMPLETE, 0, 5, 0, JB_VERDICT_FAIL, 5, "the detail" },
    { JB_COVERAGE_INCOMPLETE, 0, 0, 7, JB_VERDICT_FAIL, 7, "the detail" },
    { JB_COVERAGE_INCOMPLETE, 1, 2, 4, JB_VERDICT_FAIL, 7, "the detail" },
    { JB_COVERAGE_INCOMPLETE, 0, 0, 0, JB_VERDICT_FAIL, 1, "the detail" },    /* an empty grid */
    { JB_COVERAGE_UNKNOWN, 0, 0, 0, JB_VERDICT_PASS, 0, "coverage: unknown" }, /* a label, not a fault */
    { JB_COVERAGE_UNKNOWN, 2, 0, 0, JB_VERDICT_FAIL, 2, "the detail" },        /* what is known to be missed is missed */
    { JB_COVERAGE_COMPLETE, 1, 0, 0, JB_VERDICT_FAIL, 1, "the detail" },       /* counts are believed before the word */
    { 0, 0, 0, 0, JB_VERDICT_INCONCLUSIVE, 0, "unknown status 0" },
};

START_TEST(verdicts)
{
    struct gate_under_test g = gate_open(&component, NULL);
    jb_inspection x = { .struct_size = sizeof x, .coverage = CASES[_i].coverage, .blocks = 100, .blocks_missed = CASES[_i].missed,
                        .blocks_revisited = CASES[_i].revisited, .input_blocks_unread = CASES[_i].unread, .detail = "the detail" };
    jb_verdict v = { .struct_size = sizeof v };
    jb_error err = JB_ERROR_INIT;
    ck_assert_uint_eq(gate_needs(&g), JB_NEED_INSPECTION);
    ck_assert_int_eq(g.ops->verdict(g.self, &x, &v, &err), 0);
    ck_assert_uint_eq(v.verdict, CASES[_i].verdict);
    ck_assert_double_eq(v.score, CASES[_i].score);
    ck_assert_double_eq(v.threshold, 0);
    ck_assert_msg(strstr(v.reason, CASES[_i].reason) != NULL, "'%s' does not hold '%s'", v.reason, CASES[_i].reason);
    if (v.verdict != JB_VERDICT_INCONCLUSIVE) ck_assert_int_eq(v.verdict == JB_VERDICT_PASS, v.score <= v.threshold);
    gate_close(&g);
}
END_TEST

START_TEST(a_fault_without_a_detail_has_a_reason)
{
    struct gate_under_test g = gate_open(&component, NULL);
    jb_inspection x = { .struct_size = sizeof x, .coverage = JB_COVERAGE_INCOMPLETE, .blocks = 9, .blocks_missed = 2 };
    jb_verdict v = { .struct_size = sizeof v };
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(g.ops->verdict(g.self, &x, &v, &err), 0);
    ck_assert_str_eq(v.reason, "of 9 output blocks 2 are never written and 0 revisited; 0 input blocks are never read");
    char longest[400];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    x.detail = longest;
    ck_assert_int_eq(g.ops->verdict(g.self, &x, &v, &err), 0);
    ck_assert_uint_eq(strlen(v.reason), sizeof v.reason - 1);
    gate_close(&g);
}
END_TEST

START_TEST(without_an_inspection_nothing_is_decided)
{
    struct gate_under_test g = gate_open(&component, NULL);
    jb_verdict v = { .struct_size = sizeof v };
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(g.ops->verdict(g.self, NULL, &v, &err), 0);
    ck_assert_uint_eq(v.verdict, JB_VERDICT_INCONCLUSIVE);
    ck_assert_uint_eq(gate_trial_n(&g, 0, NULL, NULL, NULL, NULL, 1).status, JB_TRIAL_UNSUPPORTED);
    gate_close(&g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("coverage");
    tcase_add_loop_test(tc, verdicts, 0, sizeof CASES / sizeof *CASES);
    tcase_add_test(tc, a_fault_without_a_detail_has_a_reason);
    tcase_add_test(tc, without_an_inspection_nothing_is_decided);
    return run_case("coverage", tc);
}
