/* SPDX-License-Identifier: Apache-2.0 */
/* tests/base/harness.h - what the suites of core/base share: one main for a
 * table of tests, a temporary folder, and the allocation-failure sweep. */
#ifndef JB_TESTS_BASE_HARNESS_H
#define JB_TESTS_BASE_HARNESS_H

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static inline int run_suite(const char *name, const TTest *const *tests, size_t count)
{
    Suite *s = suite_create(name);
    TCase *t = tcase_create(name);
    for (size_t i = 0; i < count; i++) tcase_add_test(t, tests[i]);
    tcase_set_timeout(t, 60);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
#define RUN_SUITE(name, tests) run_suite(name, tests, sizeof tests / sizeof tests[0])

/* A fresh folder, malloc'ed name; the test removes it with drop_folder. */
static inline char *new_folder(void)
{
    const char *base = getenv("TMPDIR");
    char *path = jb_asprintf("%s/jaxbench-test-XXXXXX", base && *base ? base : "/tmp");
    ck_assert_ptr_nonnull(path);
    ck_assert_ptr_nonnull(mkdtemp(path));
    return path;
}

static inline void drop_folder(char *path)
{
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_fs_remove_tree(path, &err) == 0, "%s", err.message);
    jb_free(path);
}

/* Run `body` (an expression that is 0 on success) with the n-th allocation
 * failing, n = 1, 2, ... until it succeeds; it must fail with JB_ENOMEM before.
 * Leaks and wild frees are the sanitizer's to find. */
#define SWEEP(body)                                                              \
    do {                                                                         \
        long sweep_n = 1;                                                        \
        for (;; sweep_n++) {                                                     \
            jb_mem_fail_after(sweep_n, 0);                                       \
            int sweep_status = (body);                                           \
            long sweep_made = jb_mem_count();                                    \
            jb_mem_fail_after(0, 0);                                             \
            if (sweep_made < sweep_n) {                                          \
                ck_assert_int_eq(sweep_status, 0);                               \
                break;                                                           \
            }                                                                    \
            ck_assert_msg(sweep_status == JB_ENOMEM, "allocation %ld failed, status is %d", sweep_n, sweep_status); \
            ck_assert_int_lt(sweep_n, 20000);                                    \
        }                                                                        \
        ck_assert_int_gt(sweep_n, 1);                                            \
    } while (0)

#endif
