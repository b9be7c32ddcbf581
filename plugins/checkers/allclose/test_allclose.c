/* SPDX-License-Identifier: Apache-2.0 */
/* allclose: worked numbers, which side carries rtol, zero tolerances, special values,
 * dtypes, the worst elements, and one bad element among many. */
#include "allclose.c"

#include "tests/checkers/testing.h"

#define INF ((double)INFINITY)
#define QNAN ((double)NAN)

/* ---- one element --------------------------------------------------------- */

static const struct {
    const char *options;
    double c, r, score;
} ONE[] = {
    { NULL, 1, 1, 0 },
    /* at c = 1, r = 1.02 the candidate's side allows 0.02, the reference's 0.0202 */
    { NULL, 1, 1.02, 0.02 / 0.02 },
    { "{\"relative_to\":\"reference\"}", 1, 1.02, 0.02 / 0.0202 },
    { NULL, 0, 0.01, 1 },
    { NULL, 0, 0.02, 2 },
    { "{\"relative_to\":\"reference\"}", 0, 0.02, 0.02 / 0.0102 },
    { "{\"atol\":0,\"rtol\":0}", 5, 5, 0 },
    { "{\"atol\":0,\"rtol\":0}", 5, 5.5, INF },
    { "{\"atol\":0,\"rtol\":0}", -0.0, 0.0, 0 },
    { "{\"atol\":0,\"rtol\":0.5}", 0, 1, INF }, /* the candidate is 0, and so is its tolerance */
    { "{\"atol\":0,\"rtol\":0.5,\"relative_to\":\"reference\"}", 0, 1, 2 },
    { "{\"atol\":0.5,\"rtol\":0}", 1, 2, 2 },
    { NULL, INF, INF, 0 },
    { NULL, -INF, -INF, 0 },
    { NULL, INF, -INF, INF },
    { NULL, INF, 1, INF },
    { NULL, 1, INF, INF },
    { NULL, QNAN, 1, INF },
    { NULL, 1, QNAN, INF },
    { NULL, QNAN, QNAN, INF },
    { "{\"equal_nan\":true}", QNAN, QNAN, 0 },
    { "{\"equal_nan\":true}", QNAN, 1, INF },
    { "{\"equal_nan\":true}", 1, QNAN, INF },
    { "{\"atol\":0,\"rtol\":0}", 4.9406564584124654e-324, 4.9406564584124654e-324, 0 }, /* subnormals are numbers */
    { NULL, 1e308, -1e308, INF },                                                      /* the difference overflows */
};

START_TEST(one_element)
{
    struct gate_under_test g = gate_open(&component, ONE[_i].options);
    jb_tensor c = tensor_1d(JB_DT_F64, 1, &ONE[_i].c), r = tensor_1d(JB_DT_F64, 1, &ONE[_i].r);
    jb_trial_result x = gate_trial(&g, &c, &r, NULL, NULL);
    if (isinf(ONE[_i].score)) ck_assert_double_infinite(x.score);
    else ck_near(x.score, ONE[_i].score, 1e-12);
    ck_assert_double_eq(x.threshold, 1);
    ck_assert_uint_eq(x.status, x.score <= 1 ? JB_TRIAL_PASS : JB_TRIAL_FAIL);
    ck_assert_uint_eq(x.worst_count, x.score > 0);
    tensor_free(&c);
    tensor_free(&r);
    gate_close(&g);
}
END_TEST

/* ---- published vectors ----------------------------------------------------- */

START_TEST(strictness_in_ulps_of_bf16)
{
    /* allclose_strictness_in_ulp: atol + rtol |y| over the spacing of bf16 at y. */
    static const double y[] = { 0.001, 0.01, 0.1, 1, 10, 100 };
    static const double ulps[] = { 1312.03072, 165.4784, 22.528, 2.56, 1.76, 2.02 };
    static const double halves_1e3[] = { 262.406144, 33.09568, 4.5056, 0.512, 0.352, 0.404 };
    struct gate_under_test g = gate_open(&component, "{\"relative_to\":\"reference\"}"),
                           fine = gate_open(&component, "{\"atol\":1e-3,\"rtol\":1e-3,\"relative_to\":\"reference\"}");
    for (int i = 0; i < 6; i++) {
        double ulp = ldexp(1, (int)floor(log2(y[i])) - 7), off = y[i] + ulp, half = y[i] + ulp / 2;
        jb_tensor r = tensor_1d(JB_DT_F64, 1, &y[i]), c = tensor_1d(JB_DT_F64, 1, &off), d = tensor_1d(JB_DT_F64, 1, &half);
        ck_near(1 / gate_trial(&g, &c, &r, NULL, NULL).score, ulps[i], 1e-9);
        jb_trial_result x = gate_trial(&fine, &d, &r, NULL, NULL);
        ck_near(1 / x.score, halves_1e3[i], 1e-9);
        ck_assert_uint_eq(x.status, halves_1e3[i] < 1 ? JB_TRIAL_FAIL : JB_TRIAL_PASS); /* correct rounding can fail 1e-3 */
        tensor_free(&r), tensor_free(&c), tensor_free(&d);
    }
    gate_close(&g);
    gate_close(&fine);
}
END_TEST

/* gate_scores_small */
static const double HP[] = { 1, 2, 3, 4, 0.0001, 0.0002, -0.0001, 0 };
static const double REF[] = { 1, 2, 3.01, 4, 0.0001, 0.000201, -0.0001, 0 };
static const double CAND[] = { 1, 2, 3, 4.02, 0.0001, 0.00019, -0.0001, 1e-6 };

START_TEST(small_vector)
{
    struct gate_under_test g = gate_open(&component, "{\"relative_to\":\"reference\"}"),
                           hp = gate_open(&component, "{\"against\":\"h\",\"atol\":1e-3,\"rtol\":1e-3,\"relative_to\":\"reference\"}");
    const int64_t dims[] = { 2, 4 };
    jb_tensor c = tensor_new(JB_DT_F64, 2, dims, CAND), r = tensor_new(JB_DT_F64, 2, dims, REF), h = tensor_new(JB_DT_F64, 2, dims, HP),
              zero = tensor_1d(JB_DT_F64, 4, NULL), row = tensor_1d(JB_DT_F64, 4, REF + 4);
    ck_near(gate_trial(&g, &c, &r, NULL, NULL).score, 0.3999999999999915, 1e-9);
    ck_near(gate_trial(&g, &zero, &row, NULL, NULL).score, 0.02009596071189691, 1e-9); /* zeros pass on a small row */
    ck_assert_uint_eq(gate_needs(&hp), JB_NEED_H);
    jb_trial_result x = gate_trial(&hp, &c, NULL, NULL, &h);
    ck_near(x.score, 3.9999999999999147, 1e-9);
    ck_assert_uint_eq(x.worst_count, 3);
    ck_assert_uint_eq(x.worst[0].rank, 2);
    ck_assert_int_eq(x.worst[0].index[0], 0);
    ck_assert_int_eq(x.worst[0].index[1], 3);
    ck_assert_double_eq(x.worst[0].candidate, 4.02);
    ck_assert_double_eq(x.worst[0].reference, 4);
    ck_assert_ptr_nonnull(strstr(x.reason, "1 elements are outside atol 0.001"));
    tensor_free(&c), tensor_free(&r), tensor_free(&h), tensor_free(&zero), tensor_free(&row);
    gate_close(&g);
    gate_close(&hp);
}
END_TEST

/* ---- many elements ----------------------------------------------------------- */

START_TEST(against_picks_the_reference)
{
    static const struct { const char *options; uint32_t need; } WAY[] = {
        { "{\"against\":\"r_jit\"}", JB_NEED_R_JIT }, { "{\"against\":\"r_op\"}", JB_NEED_R_OP }, { "{\"against\":\"h\"}", JB_NEED_H } };
    const double one = 1, far = 100;
    jb_tensor c = tensor_1d(JB_DT_F32, 1, &one), near = tensor_1d(JB_DT_F32, 1, &one), off = tensor_1d(JB_DT_F32, 1, &far);
    for (int i = 0; i < 3; i++) {
        struct gate_under_test g = gate_open(&component, WAY[i].options);
        ck_assert_uint_eq(gate_needs(&g), WAY[i].need);
        ck_assert_uint_eq(gate_trial(&g, &c, i == 0 ? &near : &off, i == 1 ? &near : &off, i == 2 ? &near : &off).status, JB_TRIAL_PASS);
        ck_assert_uint_eq(gate_trial(&g, &c, i == 0 ? &off : &near, i == 1 ? &off : &near, i == 2 ? &off : &near).status, JB_TRIAL_FAIL);
        gate_close(&g);
    }
    tensor_free(&c), tensor_free(&near), tensor_free(&off);
}
END_TEST

/* Odd tails around the size of a block; the bad element first, last, and between. */
START_TEST(one_bad_element_is_found_at_every_size)
{
    static const int64_t sizes[] = { 1, 2, 7, 1023, 1024, 1025, 2047, 4099 };
    struct gate_under_test g = gate_open(&component, NULL);
    int64_t n = sizes[_i], places[] = { 0, n / 2, n - 1 };
    for (int p = 0; p < 3; p++) {
        jb_tensor c = tensor_1d(JB_DT_BF16, n, NULL), r = tensor_1d(JB_DT_BF16, n, NULL);
        ((uint16_t *)(uintptr_t)c.data)[places[p]] = bf16_bits(0.5);
        jb_trial_result x = gate_trial(&g, &c, &r, NULL, NULL);
        ck_near(x.score, 0.5 / 0.015, 1e-12);
        ck_assert_uint_eq(x.worst_count, 1);
        ck_assert_int_eq(x.worst[0].index[0], places[p]);
        tensor_free(&c), tensor_free(&r);
    }
    gate_close(&g);
}
END_TEST

START_TEST(the_five_worst_in_order_and_all_outside_counted)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const int64_t dims[] = { 100, 50 };
    jb_tensor c = tensor_new(JB_DT_F32, 2, dims, NULL), r = tensor_new(JB_DT_F32, 2, dims, NULL);
    float *v = (float *)(uintptr_t)c.data;
    for (int i = 0; i < 5000; i++) v[i] = 0.001f * (float)(i % 9); /* inside: most blocks need a second look only once */
    for (int i = 0; i < 40; i++) v[i * 125] = 0.5f + 0.01f * (float)((i * 7) % 40);
    v[1] = NAN;
    jb_trial_result x = gate_trial(&g, &c, &r, NULL, NULL);
    ck_assert_double_infinite(x.score);
    ck_assert_msg(strstr(x.reason, "41 elements are outside") != NULL, "%s", x.reason);
    ck_assert_uint_eq(x.worst_count, 5);
    ck_assert_double_nan(x.worst[0].candidate);
    for (int i = 1; i < 5; i++) {
        ck_near(x.worst[i].candidate, 0.90 - 0.01 * i, 1e-6);
        ck_assert_double_eq(x.worst[i].reference, 0);
        ck_near((double)v[x.worst[i].index[0] * 50 + x.worst[i].index[1]], x.worst[i].candidate, 1e-12);
    }
    tensor_free(&c), tensor_free(&r);
    gate_close(&g);
}
END_TEST

/* Every order of the elements has one score: the filter before the exact formula must not lose any. */
START_TEST(permutation_leaves_the_score)
{
    enum { N = 5000 };
    double *c = malloc(N * sizeof *c), *r = malloc(N * sizeof *r), first = -1;
    uint64_t state = 7;
    struct gate_under_test g = gate_open(&component, NULL);
    for (int i = 0; i < N; i++) {
        r[i] = bf16_round(test_normal(&state));
        c[i] = bf16_round(r[i] * (1 + 0.01 * test_normal(&state)));
    }
    for (int round = 0; round < 8; round++) {
        double most = 0, outside = 0, counted = 0;
        for (int i = 0; i < N; i++) {
            double s = fabs(c[i] - r[i]) / (0.01 + 0.01 * fabs(c[i]));
            most = s > most ? s : most;
            outside += s > 1;
        }
        jb_tensor tc = tensor_1d(JB_DT_BF16, N, c), tr = tensor_1d(JB_DT_BF16, N, r);
        jb_trial_result x = gate_trial(&g, &tc, &tr, NULL, NULL);
        ck_near(x.score, most, 1e-14);
        if (first < 0) first = x.score;
        ck_assert_double_eq(x.score, first);
        ck_assert_int_eq(sscanf(x.reason, "%lf elements", &counted), 1);
        ck_assert_double_eq(counted, outside);
        tensor_free(&tc), tensor_free(&tr);
        for (int i = N - 1; i > 0; i--) {
            int j = (int)(test_uniform(&state) * (i + 1));
            double a = c[i], b = r[i];
            c[i] = c[j], r[i] = r[j], c[j] = a, r[j] = b;
        }
    }
    free(c), free(r);
    gate_close(&g);
}
END_TEST

START_TEST(dtypes_are_read)
{
    static const struct { uint32_t dtype; double tiny; } WAY[] = {
        { JB_DT_BF16, 9.183549615799121e-41 }, { JB_DT_F32, 1.401298464324817e-45 }, { JB_DT_F64, 4.9406564584124654e-324 } };
    struct gate_under_test g = gate_open(&component, "{\"atol\":0,\"rtol\":0}");
    for (int i = 0; i < 3; i++) {
        const double values[] = { 1.5, -0.0, WAY[i].tiny, -2, INF, -INF, 0 }; /* exact in all of them, subnormals too */
        jb_tensor c = tensor_1d(WAY[i].dtype, 7, values), h = tensor_1d(JB_DT_F64, 7, values), zero = tensor_1d(JB_DT_F64, 7, NULL);
        jb_trial_result x = gate_trial(&g, &c, &h, NULL, NULL);
        ck_assert_msg(x.status == JB_TRIAL_PASS, "dtype %u: %s", WAY[i].dtype, x.reason);
        ck_assert_msg(strstr(gate_trial(&g, &c, &zero, NULL, NULL).reason, "5 elements") != NULL, "dtype %u", WAY[i].dtype);
        tensor_free(&c), tensor_free(&h), tensor_free(&zero);
    }
    gate_close(&g);
}
END_TEST

START_TEST(fp16_is_read_exactly)
{
    /* Every one of the 65536 bit patterns against the definition of binary16. */
    uint16_t *bits = malloc(65536 * sizeof *bits);
    double *got = malloc(65536 * sizeof *got);
    for (uint32_t i = 0; i < 65536; i++) bits[i] = (uint16_t)i;
    jb_tensor t = { .struct_size = sizeof t, .dtype = JB_DT_F16, .rank = 1, .dims = { 65536 }, .count = 65536, .data = bits };
    for (int64_t at = 0; at < t.count; at += EL_BLOCK) el_read(&t, at, EL_BLOCK, got + at);
    for (int i = 0; i < 65536; i++) {
        int e = i >> 10 & 31, f = i & 1023;
        double want = e == 31 ? (f ? QNAN : INF) : e ? ldexp(1024 + f, e - 25) : ldexp(f, -24);
        if (i & 0x8000) want = -want;
        if (isnan(want)) ck_assert_double_nan(got[i]);
        else ck_assert_msg(got[i] == want && signbit(got[i]) == signbit(want), "bits %04x: %g, expected %g", i, got[i], want);
    }
    free(bits), free(got);
}
END_TEST

START_TEST(integers_and_bools)
{
    struct gate_under_test g = gate_open(&component, "{\"atol\":0,\"rtol\":0}");
    const double a[] = { -3, 0, 7, 1 }, b[] = { -3, 0, 8, 1 };
    static const uint32_t types[] = { JB_DT_I32, JB_DT_I64, JB_DT_BOOL };
    for (int i = 0; i < 3; i++) {
        jb_tensor x = tensor_1d(types[i], 4, a), y = tensor_1d(types[i], 4, b);
        ck_assert_uint_eq(gate_trial(&g, &x, &x, NULL, NULL).status, JB_TRIAL_PASS);
        ck_assert_uint_eq(gate_trial(&g, &x, &y, NULL, NULL).status, types[i] == JB_DT_BOOL ? JB_TRIAL_PASS : JB_TRIAL_FAIL);
        tensor_free(&x), tensor_free(&y);
    }
    gate_close(&g);
}
END_TEST

/* ---- what can't be compared ------------------------------------------------------- */

START_TEST(shapes_counts_and_empties)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const int64_t wide[] = { 2, 3 }, tall[] = { 3, 2 }, none[] = { 0, 3 };
    jb_tensor a = tensor_new(JB_DT_F32, 2, wide, NULL), b = tensor_new(JB_DT_F32, 2, tall, NULL), e = tensor_new(JB_DT_F32, 2, none, NULL),
              scalar = tensor_new(JB_DT_F32, 0, NULL, NULL), odd = a;
    ck_assert_uint_eq(gate_trial(&g, &a, &b, NULL, NULL).status, JB_TRIAL_FAIL);
    ck_assert_str_eq(gate_trial(&g, &a, &b, NULL, NULL).part, "shape");
    ck_assert_uint_eq(gate_trial(&g, &e, &e, NULL, NULL).status, JB_TRIAL_PASS);
    ck_assert_uint_eq(gate_trial(&g, &scalar, &scalar, NULL, NULL).status, JB_TRIAL_PASS);
    odd.dtype = 77;
    ck_assert_uint_eq(gate_trial(&g, &odd, &a, NULL, NULL).status, JB_TRIAL_UNSUPPORTED);
    jb_trial t = { .struct_size = sizeof t, .output_count = 1, .reference_count = 2, .outputs = &a, .r_jit = &a };
    jb_trial_result r = { .struct_size = sizeof r };
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(g.ops->trial(g.self, &t, &r, &err), 0);
    ck_assert_str_eq(r.part, "tree");
    ck_assert_uint_eq(r.status, JB_TRIAL_FAIL);
    t.reference_count = 1;
    t.r_jit = NULL; /* the host broke its word: an error, never a verdict */
    ck_assert_int_eq(g.ops->trial(g.self, &t, &r, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "r_jit"));
    tensor_free(&a), tensor_free(&b), tensor_free(&e), tensor_free(&scalar);
    gate_close(&g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("allclose");
    tcase_add_loop_test(tc, one_element, 0, sizeof ONE / sizeof *ONE);
    tcase_add_test(tc, strictness_in_ulps_of_bf16);
    tcase_add_test(tc, small_vector);
    tcase_add_test(tc, against_picks_the_reference);
    tcase_add_loop_test(tc, one_bad_element_is_found_at_every_size, 0, 8);
    tcase_add_test(tc, the_five_worst_in_order_and_all_outside_counted);
    tcase_add_test(tc, permutation_leaves_the_score);
    tcase_add_test(tc, dtypes_are_read);
    tcase_add_test(tc, fp16_is_read_exactly);
    tcase_add_test(tc, integers_and_bools);
    tcase_add_test(tc, shapes_counts_and_empties);
    return run_case("allclose", tc);
}
