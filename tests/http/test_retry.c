/* SPDX-License-Identifier: Apache-2.0 */
/* retry: on a simulated clock. */
#include "core/http/retry.h"
#include "tests/base/harness.h"

static const jb_retry_policy POLICY = { 6, 1000, 16000, 30000, 0 };

START_TEST(waits_double_up_to_the_cap_and_jitter_stays_in_the_upper_half)
{
    jb_rng_key key = jb_rng_key_of("b");
    static const int64_t FULL[] = { 1000, 2000, 4000, 8000, 16000, 16000 };
    for (uint64_t call = 0; call < 200; call++)
        for (int64_t n = 1; n <= 6; n++) {
            int64_t w = jb_retry_wait(&POLICY, key, call, n, 0, -1), full = FULL[n - 1];
            ck_assert_msg(w >= full / 2 && w <= full, "attempt %lld of call %llu waits %lld, expected %lld to %lld", (long long)n,
                          (unsigned long long)call, (long long)w, (long long)full / 2, (long long)full);
        }
    ck_assert_int_eq(jb_retry_wait(&POLICY, key, 0, 7, 0, -1), -1);
}
END_TEST

START_TEST(jitter_differs_between_calls_and_is_the_same_for_the_same_call)
{
    jb_rng_key key = jb_rng_key_of("b"), other = jb_rng_key_of("c");
    int same = 0;
    for (uint64_t call = 0; call < 100; call++) {
        int64_t w = jb_retry_wait(&POLICY, key, call, 3, 0, -1);
        ck_assert_int_eq(w, jb_retry_wait(&POLICY, key, call, 3, 0, -1));
        same += w == jb_retry_wait(&POLICY, other, call, 3, 0, -1);
    }
    ck_assert_int_lt(same, 5);
}
END_TEST

START_TEST(the_servers_wish_is_a_lower_bound_with_a_cap)
{
    jb_rng_key key = jb_rng_key_of("b");
    int64_t w = jb_retry_wait(&POLICY, key, 0, 1, 0, 20000);
    ck_assert_int_ge(w, 20000);
    ck_assert_int_le(w, 21000);
    w = jb_retry_wait(&POLICY, key, 0, 1, 0, 3600000);
    ck_assert_int_ge(w, 30000);
    ck_assert_int_le(w, 31000);
    w = jb_retry_wait(&POLICY, key, 0, 5, 0, 1); /* less than the back-off changes nothing */
    ck_assert_int_eq(w, jb_retry_wait(&POLICY, key, 0, 5, 0, -1));
}
END_TEST

/* A call that always fails, each attempt taking 400 ms. */
START_TEST(a_call_gives_up_by_attempts_or_by_time)
{
    static const struct { jb_retry_policy p; int64_t attempts_min, attempts_max, time_max; } cases[] = {
        { { 6, 1000, 16000, 30000, 0 }, 7, 7, 60000 },
        { { 100, 1000, 4000, 30000, 20000 }, 5, 12, 20400 },
        { { 0, 1000, 4000, 30000, 20000 }, 1, 1, 400 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (uint64_t call = 0; call < 50; call++) {
            int64_t clock = 0, attempts = 0;
            for (int64_t w = 0; w >= 0;) {
                clock += w + 400;
                w = jb_retry_wait(&cases[i].p, jb_rng_key_of("x"), call, ++attempts, clock, -1);
            }
            ck_assert_msg(attempts >= cases[i].attempts_min && attempts <= cases[i].attempts_max && clock <= cases[i].time_max,
                          "case %zu, call %llu: %lld attempts in %lld ms", i, (unsigned long long)call, (long long)attempts, (long long)clock);
        }
}
END_TEST

START_TEST(retry_after_is_seconds_or_a_date)
{
    static const int64_t NOW = 1796083200; /* Tue, 01 Dec 2026 00:00:00 GMT */
    static const struct { const char *text; int64_t ms; } cases[] = {
        { "0", 0 }, { "7", 7000 }, { " 12 ", 12000 }, { "99999999999", 31536000000 },
        { "Tue, 01 Dec 2026 00:00:30 GMT", 30000 }, { "Tuesday, 01-Dec-26 00:01:00 GMT", 60000 }, { "Tue Dec  1 00:00:05 2026", 5000 },
        { "Mon, 30 Nov 2026 00:00:00 GMT", 0 }, /* past */
        { "", -1 }, { "-3", -1 }, { "soon", -1 }, { "3 days", -1 }, { "1.5", -1 }, { "Mon, 99 Foo 2026 25:61:61 GMT", -1 },
        { "Tue, 01 Dec 2026 00:00:30 GMT and a tail that is far too long to be any date at all, really", -1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t ms = jb_retry_after((jb_view){ cases[i].text, strlen(cases[i].text) }, NOW);
        ck_assert_msg(ms == cases[i].ms, "\"%s\": %lld ms, expected %lld", cases[i].text, (long long)ms, (long long)cases[i].ms);
    }
    ck_assert_int_eq(jb_retry_after((jb_view){ "1\0", 2 }, NOW), -1);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { waits_double_up_to_the_cap_and_jitter_stays_in_the_upper_half, jitter_differs_between_calls_and_is_the_same_for_the_same_call,
                                   the_servers_wish_is_a_lower_bound_with_a_cap, a_call_gives_up_by_attempts_or_by_time, retry_after_is_seconds_or_a_date };
    return RUN_SUITE("retry", tests);
}
