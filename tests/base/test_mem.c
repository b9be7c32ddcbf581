/* SPDX-License-Identifier: Apache-2.0 */
/* The allocator's failure switch and overflow checks; the arena's alignment,
 * zeroing, cap and reuse. */
#include "tests/base/harness.h"

#include <stdint.h>

START_TEST(the_nth_allocation_fails)
{
    static const struct { long n; int sticky; int ok[4]; } cases[] = {
        { 1, 0, { 0, 1, 1, 1 } }, { 2, 0, { 1, 0, 1, 1 } }, { 2, 1, { 1, 0, 0, 0 } }, { 0, 0, { 1, 1, 1, 1 } }, { 9, 1, { 1, 1, 1, 1 } },
    };
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        jb_mem_fail_after(cases[c].n, cases[c].sticky);
        for (int i = 0; i < 4; i++) {
            void *p = jb_alloc(8);
            ck_assert_msg((p != NULL) == cases[c].ok[i], "case %zu, allocation %d", c, i);
            jb_free(p);
        }
        ck_assert_int_eq(jb_mem_count(), 4);
    }
    jb_mem_fail_after(0, 0);
    ck_assert_int_eq(jb_mem_count(), 0);
}
END_TEST

START_TEST(products_are_checked_and_memory_is_zero)
{
    ck_assert_ptr_null(jb_alloc_array(SIZE_MAX / 2, 3));
    ck_assert_ptr_null(jb_alloc_array(3, SIZE_MAX / 2));
    unsigned char *p = jb_alloc_array(100, 7);
    for (int i = 0; i < 700; i++) ck_assert_int_eq(p[i], 0);
    p = jb_realloc(p, 1000);
    ck_assert_ptr_nonnull(p);
    jb_free(p);
    void *none = jb_alloc_array(0, 8);
    ck_assert_ptr_nonnull(none);
    jb_free(none);
    jb_free(NULL);
}
END_TEST

START_TEST(strings)
{
    char *s = jb_strndup("abcdef", 3);
    ck_assert_str_eq(s, "abc");
    jb_free(s);
    s = jb_strndup("ab", 100);
    ck_assert_str_eq(s, "ab");
    jb_free(s);
    s = jb_asprintf("%s/%d", "x", 12);
    ck_assert_str_eq(s, "x/12");
    jb_free(s);
    ck_assert_ptr_null(jb_strdup(NULL));
    jb_mem_fail_after(1, 1);
    ck_assert_ptr_null(jb_strdup("x"));
    ck_assert_ptr_null(jb_asprintf("x"));
    jb_mem_fail_after(0, 0);
}
END_TEST

/* How many of n bytes differ from `want`; one assertion a byte would take seconds. */
static size_t others(const unsigned char *p, size_t n, unsigned char want)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++) count += p[i] != want;
    return count;
}

START_TEST(an_arena_aligns_zeroes_and_separates)
{
    jb_arena *a = jb_arena_new(1 << 20);
    unsigned char *kept[200];
    size_t sizes[200];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < 200; i++) {
            sizes[i] = (i * 37) % 3000;
            kept[i] = jb_arena_alloc(a, sizes[i]);
            ck_assert_ptr_nonnull(kept[i]);
            ck_assert_uint_eq((uintptr_t)kept[i] % 64, 0);
            ck_assert_uint_eq(others(kept[i], sizes[i], 0), 0);
            memset(kept[i], (int)i, sizes[i]);
        }
        for (size_t i = 0; i < 200; i++) ck_assert_uint_eq(others(kept[i], sizes[i], (unsigned char)i), 0);
        jb_arena_reset(a);
    }
    ck_assert_str_eq(jb_arena_strdup(a, "hello"), "hello");
    jb_arena_free(a);
    jb_arena_free(NULL);
}
END_TEST

START_TEST(an_arena_has_a_cap)
{
    jb_arena *a = jb_arena_new(4096);
    ck_assert_ptr_null(jb_arena_alloc(a, 4097));
    for (int i = 0; i < 64; i++) ck_assert_ptr_nonnull(jb_arena_alloc(a, 64));
    ck_assert_ptr_null(jb_arena_alloc(a, 1));
    jb_arena_reset(a);
    ck_assert_ptr_nonnull(jb_arena_alloc(a, 4096));
    ck_assert_ptr_null(jb_arena_alloc(a, 1));
    jb_arena_free(a);
    a = jb_arena_new(SIZE_MAX);
    ck_assert_ptr_null(jb_arena_alloc(a, SIZE_MAX));
    ck_assert_ptr_null(jb_arena_alloc(a, SIZE_MAX - 63));
    jb_arena_free(a);
}
END_TEST

START_TEST(an_arena_survives_failing_memory)
{
    jb_mem_fail_after(1, 0);
    ck_assert_ptr_null(jb_arena_new(100));
    jb_mem_fail_after(0, 0);
    jb_arena *a = jb_arena_new(1 << 20);
    jb_mem_fail_after(1, 0);
    ck_assert_ptr_null(jb_arena_alloc(a, 10));
    jb_mem_fail_after(0, 0);
    ck_assert_ptr_nonnull(jb_arena_alloc(a, 10));
    jb_arena_free(a);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { the_nth_allocation_fails, products_are_checked_and_memory_is_zero, strings,
                                   an_arena_aligns_zeroes_and_separates, an_arena_has_a_cap, an_arena_survives_failing_memory };
    return RUN_SUITE("mem", tests);
}
