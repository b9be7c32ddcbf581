/* SPDX-License-Identifier: Apache-2.0 */
/* tests/stats/test_stats.c - the Wilson interval against literals that scipy
 * 1.17.1 computed, and its edges. */
#include "core/stats/stats.h"

#include <check.h>
#include <math.h>
#include <stdlib.h>

static const struct { int64_t x, n; double low, high; } WILSON[] = {
    { 7, 10, 0.39677814746114537, 0.8922087325936989 },
    { 0, 20, 0.0, 0.16112515805281938 },
    { 19, 19, 0.8318207759473837, 1.0 },
    { 64, 71, 0.8101927775940715, 0.9514171762760307 },
};

START_TEST(wilson_agrees_with_scipy)
{
    double low, high;
    jb_stats_wilson(WILSON[_i].x, WILSON[_i].n, JB_Z95, &low, &high);
    ck_assert_double_eq_tol(low, WILSON[_i].low, 1e-9);
    ck_assert_double_eq_tol(high, WILSON[_i].high, 1e-9);
}
END_TEST

START_TEST(wilson_edges)
{
    double low, high;
    jb_stats_wilson(0, 0, JB_Z95, &low, &high);
    ck_assert_double_eq(low, 0.0);
    ck_assert_double_eq(high, 1.0);
    jb_stats_wilson(9, 4, JB_Z95, &low, &high); /* clamped to 4 of 4 */
    ck_assert_double_eq(high, 1.0);
    ck_assert_double_lt(low, 1.0);
    jb_stats_wilson(-3, 4, JB_Z95, &low, &high);
    ck_assert_double_eq(low, 0.0);
    ck_assert_double_gt(high, 0.0);
    for (int64_t x = 0; x <= 50; x++) { /* holds the share, ends in [0,1] */
        jb_stats_wilson(x, 50, JB_Z95, &low, &high);
        ck_assert_double_le(low, (double)x / 50.0);
        ck_assert_double_ge(high, (double)x / 50.0);
        ck_assert(low >= 0.0 && high <= 1.0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("stats");
    TCase *c = tcase_create("wilson");
    tcase_add_loop_test(c, wilson_agrees_with_scipy, 0, (int)(sizeof WILSON / sizeof WILSON[0]));
    tcase_add_test(c, wilson_edges);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
