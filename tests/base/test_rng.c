/* SPDX-License-Identifier: Apache-2.0 */
/* Philox4x32-10 against the known-answer vectors of the authors' Random123
 * distribution (kat_vectors), and coarse statistics of the uniforms. */
#include "core/base/rng.h"
#include "tests/base/harness.h"

START_TEST(known_answers)
{
    static const struct { uint32_t counter[4], key[2], out[4]; } cases[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 }, { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        uint32_t out[4];
        jb_rng_key key = { { cases[i].key[0], cases[i].key[1] } };
        jb_philox4x32(key, cases[i].counter, out);
        for (int k = 0; k < 4; k++) ck_assert_uint_eq(out[k], cases[i].out[k]);
    }
}
END_TEST

START_TEST(a_key_is_the_head_of_the_hash)
{
    jb_rng_key key = jb_rng_key_of("abc"); /* SHA-256 ba7816bf 8f01cfea ... */
    ck_assert_uint_eq(key.k[0], 0xba7816bfu);
    ck_assert_uint_eq(key.k[1], 0x8f01cfeau);
}
END_TEST

START_TEST(draws_depend_on_key_stream_and_counter_only)
{
    jb_rng_key a = jb_rng_key_of("a"), b = jb_rng_key_of("b");
    uint64_t x = jb_rng_u64(a, 1, 2);
    ck_assert_uint_ne(x, jb_rng_u64(b, 1, 2));
    ck_assert_uint_ne(x, jb_rng_u64(a, 2, 1));
    ck_assert_uint_ne(x, jb_rng_u64(a, 1, 3));
    ck_assert_uint_ne(x, jb_rng_u64(a, 1, 2 + (UINT64_C(1) << 32)));
    ck_assert_uint_ne(x, jb_rng_u64(a, 1 + (UINT64_C(1) << 32), 2));
    ck_assert_uint_eq(x, jb_rng_u64(a, 1, 2));
}
END_TEST

START_TEST(uniforms_are_in_range_and_even)
{
    enum { N = 100000, BINS = 10 };
    jb_rng_key key = jb_rng_key_of("uniform");
    int bins[BINS] = { 0 };
    double sum = 0, low = 1, high = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = jb_rng_uniform(key, 0, i);
        low = u < low ? u : low;
        high = u > high ? u : high;
        if (!(u >= 0 && u < 1)) break; /* no bin for it */
        sum += u;
        bins[(int)(u * BINS)]++;
    }
    ck_assert_double_ge(low, 0);
    ck_assert_double_lt(high, 1);
    /* five standard errors: of the mean sqrt(1/12/N), of a bin sqrt(N*0.1*0.9) */
    ck_assert_double_eq_tol(sum / N, 0.5, 5 * 0.2887 / 316.2);
    for (int i = 0; i < BINS; i++) ck_assert_int_lt(abs(bins[i] - N / BINS), 5 * 95);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { known_answers, a_key_is_the_head_of_the_hash, draws_depend_on_key_stream_and_counter_only,
                                   uniforms_are_in_range_and_even };
    return RUN_SUITE("rng", tests);
}
