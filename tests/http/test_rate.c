/* SPDX-License-Identifier: Apache-2.0 */
/* rate: minutes of calls on a simulated clock. */
#include "core/http/rate.h"
#include "tests/base/harness.h"

#define CALLS 2000

typedef struct simulation {
    int64_t started[CALLS], tokens[CALLS];
    size_t count;
    int64_t most_flying;
} simulation;

/* Calls of `took` ms that want `estimate` and use `used` tokens, as fast as the limits let them, for `minutes`. */
static void simulate(simulation *s, const jb_rate_limits *limits, int64_t took, int64_t estimate, int64_t used, int64_t minutes)
{
    jb_rate r;
    int64_t ends[64];
    size_t flying = 0;
    memset(s, 0, sizeof *s);
    jb_rate_init(&r, limits, 0);
    for (int64_t now = 0; now < minutes * 60000;) {
        for (size_t i = 0; i < flying; i++)
            if (ends[i] <= now) {
                jb_rate_end(&r, now, estimate, used);
                ends[i--] = ends[--flying];
            }
        int64_t wait = jb_rate_start(&r, now, estimate);
        if (wait == 0) {
            ck_assert_uint_lt(s->count, CALLS);
            s->started[s->count] = now;
            s->tokens[s->count++] = used;
            ends[flying++] = now + took;
            if ((int64_t)flying > s->most_flying) s->most_flying = (int64_t)flying;
            continue;
        }
        int64_t next = wait > 0 ? now + wait : INT64_MAX;
        for (size_t i = 0; i < flying; i++)
            if (ends[i] < next) next = ends[i];
        ck_assert_msg(next > now && next < INT64_MAX, "nothing will ever happen again at %lld", (long long)now);
        now = next;
    }
}

/* The most of any 60 s. */
static int64_t densest_minute(const simulation *s, int by_tokens)
{
    int64_t most = 0;
    for (size_t i = 0; i < s->count; i++) {
        int64_t sum = 0;
        for (size_t k = i; k < s->count && s->started[k] < s->started[i] + 60000; k++) sum += by_tokens ? s->tokens[k] : 1;
        if (sum > most) most = sum;
    }
    return most;
}

START_TEST(requests_a_minute)
{
    static simulation s;
    jb_rate_limits limits = { 60, 0, 50 };
    simulate(&s, &limits, 200, 1, 1, 5);
    ck_assert_int_ge((int64_t)s.count, 300); /* the limit is used... */
    ck_assert_int_le((int64_t)s.count, 306);
    ck_assert_int_le(densest_minute(&s, 0), 65); /* ...and no minute has more than a burst above it */
}
END_TEST

START_TEST(one_request_a_minute)
{
    static simulation s;
    jb_rate_limits limits = { 1, 0, 8 };
    simulate(&s, &limits, 200, 1, 1, 5);
    ck_assert_uint_eq(s.count, 5);
}
END_TEST

START_TEST(tokens_a_minute_are_those_really_used)
{
    static const struct { int64_t estimate, used; } cases[] = { { 1000, 1000 }, { 100, 1000 }, { 5000, 1000 } };
    for (size_t i = 0; i < 3; i++) {
        static simulation s;
        jb_rate_limits limits = { 0, 60000, 4 };
        simulate(&s, &limits, 500, cases[i].estimate, cases[i].used, 5);
        int64_t all = (int64_t)s.count * cases[i].used;
        ck_assert_msg(all >= 280000 && all <= 310000, "estimate %lld: %lld tokens in 5 minutes of 60000", (long long)cases[i].estimate, (long long)all);
        ck_assert_int_le(densest_minute(&s, 1), 70000);
    }
}
END_TEST

START_TEST(a_call_larger_than_the_bucket_starts_when_it_is_full_and_is_paid_off)
{
    jb_rate r;
    jb_rate_limits limits = { 0, 6000, 4 };
    jb_rate_init(&r, &limits, 0);
    ck_assert_int_eq(jb_rate_start(&r, 0, 3000), 0); /* the bucket holds 500 */
    jb_rate_end(&r, 100, 3000, 3000);
    int64_t wait = jb_rate_start(&r, 100, 100);
    ck_assert_msg(wait > 25000 && wait < 27000, "2500 of debt at 100 a second and 100 more: %lld ms", (long long)wait);
    ck_assert_int_eq(jb_rate_start(&r, 100 + wait, 100), 0);
}
END_TEST

START_TEST(in_flight_and_blocks)
{
    jb_rate r;
    jb_rate_limits limits = { 0, 0, 2 };
    jb_rate_init(&r, &limits, 0);
    ck_assert_int_eq(jb_rate_start(&r, 0, 1), 0);
    ck_assert_int_eq(jb_rate_start(&r, 0, 1), 0);
    ck_assert_int_eq(jb_rate_start(&r, 0, 1), -1);
    jb_rate_end(&r, 5, 1, -1);
    jb_rate_block(&r, 1005);
    jb_rate_block(&r, 900); /* an earlier one takes nothing back */
    ck_assert_int_eq(jb_rate_start(&r, 5, 1), 1000);
    ck_assert_int_eq(jb_rate_start(&r, 1005, 1), 0);
    static simulation s;
    limits.in_flight = 3;
    limits.rpm = 600;
    simulate(&s, &limits, 700, 1, 1, 1);
    ck_assert_int_eq(s.most_flying, 3);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { requests_a_minute, one_request_a_minute, tokens_a_minute_are_those_really_used,
                                   a_call_larger_than_the_bucket_starts_when_it_is_full_and_is_paid_off, in_flight_and_blocks };
    return RUN_SUITE("rate", tests);
}
