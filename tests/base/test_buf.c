/* SPDX-License-Identifier: Apache-2.0 */
/* The buffer against a plain array (random operations), its cap, its stickiness
 * and its behaviour without memory. */
#include "core/base/buf.h"
#include "tests/base/harness.h"

START_TEST(grows_and_stays_terminated)
{
    jb_buf b = JB_BUF_INIT(1 << 20);
    ck_assert_ptr_null(b.ptr);
    jb_buf_puts(&b, "ab");
    jb_buf_append(&b, "c\0d", 3);
    jb_buf_printf(&b, "%d-%s", 42, "x");
    ck_assert_uint_eq(b.len, 9);
    ck_assert_mem_eq(b.ptr, "abc\0d42-x", 10);
    jb_view v = jb_buf_view(&b);
    ck_assert_ptr_eq(v.ptr, b.ptr);
    ck_assert_uint_eq(v.len, 9);
    jb_buf_free(&b);
    ck_assert_ptr_null(b.ptr);
    ck_assert_uint_eq(b.max, 1 << 20);
}
END_TEST

START_TEST(equals_a_plain_array_under_random_operations)
{
    enum { MAX = 3000 };
    char model[MAX + 1];
    size_t len = 0;
    unsigned seed = 1;
    jb_buf b = JB_BUF_INIT(MAX);
    for (int step = 0; step < 20000; step++) {
        seed = seed * 1103515245u + 12345u;
        unsigned op = seed >> 16 & 7, n = seed >> 20 & 255;
        char chunk[256];
        memset(chunk, 'a' + (int)(seed >> 28), sizeof chunk);
        if (op < 4) {
            int status = jb_buf_append(&b, chunk, n);
            if (len + n > MAX) {
                ck_assert_int_eq(status, JB_EINVAL);
                ck_assert_int_eq(jb_buf_puts(&b, "x"), JB_EINVAL); /* sticky */
                jb_buf_reset(&b);
                len = 0;
            } else {
                ck_assert_int_eq(status, 0);
                memcpy(model + len, chunk, n);
                len += n;
            }
        } else if (op < 6) {
            jb_buf_consume(&b, n);
            n = n < len ? n : (unsigned)len;
            memmove(model, model + n, len - n);
            len -= n;
        } else if (len + n <= MAX) {
            char *at = jb_buf_reserve(&b, n);
            ck_assert_ptr_nonnull(at);
            memcpy(at, chunk, n / 2);
            jb_buf_commit(&b, n / 2);
            memcpy(model + len, chunk, n / 2);
            len += n / 2;
        }
        ck_assert_uint_eq(b.len, len);
        if (len) ck_assert_mem_eq(b.ptr, model, len);
        if (b.ptr) ck_assert_int_eq(b.ptr[len], '\0');
    }
    jb_buf_free(&b);
}
END_TEST

START_TEST(the_cap_is_exact)
{
    jb_buf b = JB_BUF_INIT(5);
    ck_assert_int_eq(jb_buf_puts(&b, "12345"), 0);
    ck_assert_int_eq(jb_buf_append(&b, "", 0), 0);
    ck_assert_int_eq(jb_buf_puts(&b, "6"), JB_EINVAL);
    ck_assert_str_eq(b.ptr, "12345");
    ck_assert_int_eq(jb_buf_printf(&b, "%d", 1), JB_EINVAL);
    ck_assert_ptr_null(jb_buf_reserve(&b, 0));
    jb_buf_free(&b);
    ck_assert_int_eq(b.status, 0);
    ck_assert_int_eq(jb_buf_printf(&b, "%d", 123456), JB_EINVAL);
    jb_buf_free(&b);
    jb_buf none = JB_BUF_INIT(0);
    ck_assert_int_eq(jb_buf_puts(&none, "x"), JB_EINVAL);
    jb_buf_free(&none);
}
END_TEST

START_TEST(sizes_near_the_top_do_not_wrap)
{
    jb_buf b = JB_BUF_INIT(SIZE_MAX);
    ck_assert_int_eq(jb_buf_puts(&b, "x"), 0);
    ck_assert_ptr_null(jb_buf_reserve(&b, SIZE_MAX));
    ck_assert_int_eq(b.status, JB_EINVAL);
    jb_buf_reset(&b);
    ck_assert_int_eq(jb_buf_puts(&b, "y"), 0);
    ck_assert_ptr_null(jb_buf_reserve(&b, SIZE_MAX - 1));
    jb_buf_free(&b);
}
END_TEST

START_TEST(detach_gives_a_string_also_of_nothing)
{
    jb_buf b = JB_BUF_INIT(10);
    char *s = jb_buf_detach(&b);
    ck_assert_str_eq(s, "");
    jb_free(s);
    jb_buf_puts(&b, "hi");
    s = jb_buf_detach(&b);
    ck_assert_str_eq(s, "hi");
    ck_assert_ptr_null(b.ptr);
    jb_free(s);
    jb_buf_puts(&b, "far too long for it");
    ck_assert_ptr_null(jb_buf_detach(&b));
}
END_TEST

static int write_much(void)
{
    jb_buf b = JB_BUF_INIT(1 << 16);
    for (int i = 0; i < 1000; i++) jb_buf_printf(&b, "line %d\n", i);
    int status = b.status;
    jb_buf_free(&b);
    return status;
}

START_TEST(failure_of_memory_is_sticky_and_harmless)
{
    SWEEP(write_much());
    jb_buf b = JB_BUF_INIT(100);
    jb_mem_fail_after(1, 0);
    ck_assert_int_eq(jb_buf_puts(&b, "x"), JB_ENOMEM);
    ck_assert_int_eq(jb_buf_puts(&b, "y"), JB_ENOMEM);
    jb_mem_fail_after(0, 0);
    jb_buf_free(&b);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { grows_and_stays_terminated, equals_a_plain_array_under_random_operations, the_cap_is_exact,
                                   sizes_near_the_top_do_not_wrap, detach_gives_a_string_also_of_nothing,
                                   failure_of_memory_is_sticky_and_harmless };
    return RUN_SUITE("buf", tests);
}
