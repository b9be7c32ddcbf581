/* SPDX-License-Identifier: Apache-2.0 */
/* nonfinite: the three masks, rounding at the edge of the dtype, the options, and
 * inputs beyond the range. */
#include "nonfinite.c"

#include "tests/checkers/testing.h"

#define INF ((double)INFINITY)
#define QNAN ((double)NAN)

#define TOP 3.3895313892515355e+38  /* bf16's largest: 2^127 (2 - 2^-7) */
#define EDGE 0x1.FFp127             /* half an ulp above: rounds to Inf */

enum { PASS = JB_TRIAL_PASS, FAIL = JB_TRIAL_FAIL, UNSAFE = JB_TRIAL_UNINFORMATIVE };

/* One bf16 element; r is what the compiled reference gives. */
static const struct {
    const char *options;
    double c, r, h;
    uint32_t status;
    const char *part;
} ONE[] = {
    { NULL, 1, 1, 1, PASS, "mask" },
    { NULL, 0, 5, 1e9, PASS, "mask" }, /* values are not this checker's business */
    { NULL, QNAN, QNAN, QNAN, PASS, "mask" },
    { NULL, INF, INF, INF, PASS, "mask" },
    { NULL, -INF, -INF, -INF, PASS, "mask" },
    { NULL, -INF, INF, INF, FAIL, "inf" },
    { NULL, QNAN, INF, INF, FAIL, "nan" },
    { NULL, QNAN, 1, 1, FAIL, "nan" },
    { NULL, INF, 1, 1, FAIL, "inf" },
    { NULL, 0, QNAN, QNAN, FAIL, "nan" }, /* hides a NaN that belongs there */
    { NULL, 0, 0, QNAN, FAIL, "nan" },
    /* rounding of h */
    { NULL, INF, INF, 1e39, PASS, "mask" },
    { NULL, TOP, INF, 1e39, FAIL, "inf" },
    { NULL, TOP, TOP, TOP, PASS, "mask" },
    { NULL, INF, INF, EDGE, PASS, "mask" },
    { NULL, TOP, TOP, 0x1.FEFFFFFFFFFFFp127, PASS, "mask" }, /* just below the edge rounds down */
    { NULL, -INF, -INF, -EDGE, PASS, "mask" },
    /* the options */
    { "{\"relaxed_nans\":true}", 3, QNAN, QNAN, PASS, "mask" },
    { "{\"relaxed_nans\":true}", INF, QNAN, QNAN, PASS, "mask" },
    { "{\"relaxed_nans\":true}", QNAN, 3, 3, FAIL, "nan" },
    { "{\"fewer_infs\":true}", TOP, INF, 1e39, PASS, "mask" },
    { "{\"fewer_infs\":true}", 0.98 * TOP, INF, 1e39, FAIL, "inf" },
    { "{\"fewer_infs\":true}", -TOP, INF, 1e39, FAIL, "inf" },
    { "{\"fewer_infs\":true}", -TOP, -INF, -1e39, PASS, "mask" },
    { "{\"fewer_infs\":true}", INF, TOP, TOP, FAIL, "inf" },
    { "{\"fewer_infs\":true}", QNAN, INF, 1e39, FAIL, "nan" },
    /* the reference is not finite where h is: nothing can be said about c */
    { NULL, QNAN, QNAN, 1, UNSAFE, "" },
    { NULL, 1, INF, 1, UNSAFE, "" },
    { NULL, 1, -INF, TOP, UNSAFE, "" },
    { NULL, INF, QNAN, 1e39, PASS, "mask" }, /* h is not finite either */
    /* subnormals and zeros are finite */
    { NULL, -0.0, 0, 9.183549615799121e-41, PASS, "mask" },
};

START_TEST(one_element)
{
    struct gate_under_test g = gate_open(&component, ONE[_i].options);
    jb_tensor c = tensor_1d(JB_DT_BF16, 1, &ONE[_i].c), r = tensor_1d(JB_DT_BF16, 1, &ONE[_i].r), h = tensor_1d(JB_DT_F64, 1, &ONE[_i].h);
    jb_trial_result x = gate_trial(&g, &c, &r, NULL, &h);
    ck_assert_uint_eq(gate_needs(&g), JB_NEED_R_JIT | JB_NEED_H);
    ck_assert_uint_eq(x.status, ONE[_i].status);
    ck_assert_str_eq(x.part, ONE[_i].part);
    if (x.status == FAIL) {
        ck_assert_double_eq(x.score, 1);
        ck_assert_uint_eq(x.worst_count, 1);
        ck_assert_uint_gt(strlen(x.reason), 0);
    }
    tensor_free(&c), tensor_free(&r), tensor_free(&h);
    gate_close(&g);
}
END_TEST

/* dtype, the smallest magnitude that rounds to Inf, one below it */
static const struct { uint32_t dtype; double edge, below; } EDGES[] = {
    { JB_DT_BF16, 0x1.FFp127, 0x1.FEFFFFFFFFFFFp127 },
    { JB_DT_F16, 65520, 65519.999 },
    { JB_DT_F32, 0x1.FFFFFFp127, 0x1.FFFFFEFFFFFFFp127 },
    { JB_DT_F64, INF, 0x1.FFFFFFFFFFFFFp1023 },
};

START_TEST(edges_of_the_dtypes)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const uint32_t dtype = EDGES[_i].dtype;
    uint64_t inf[1] = { dtype == JB_DT_BF16 ? 0x7f80u : dtype == JB_DT_F16 ? 0x7c00u : dtype == JB_DT_F32 ? 0x7f800000u : 0x7ff0000000000000u };
    const int64_t one = 1;
    jb_tensor c = { .struct_size = sizeof c, .dtype = dtype, .rank = 1, .dims = { one }, .count = 1, .data = inf };
    jb_tensor at = tensor_1d(JB_DT_F64, 1, &EDGES[_i].edge), below = tensor_1d(JB_DT_F64, 1, &EDGES[_i].below);
    ck_assert_uint_eq(gate_trial(&g, &c, &c, NULL, &at).status, PASS);
    ck_assert_uint_eq(gate_trial(&g, &c, &c, NULL, &below).status, UNSAFE);
    tensor_free(&at), tensor_free(&below);
    gate_close(&g);
}
END_TEST

START_TEST(one_nan_among_many_and_masks_in_place)
{
    enum { ROWS = 37, COLS = 61 }; /* 2257: two blocks and an odd tail */
    const int64_t dims[] = { ROWS, COLS };
    struct gate_under_test g = gate_open(&component, NULL);
    for (int at = 0; at < ROWS * COLS; at += 97) {
        jb_tensor c = tensor_new(JB_DT_BF16, 2, dims, NULL), r = tensor_new(JB_DT_BF16, 2, dims, NULL), h = tensor_new(JB_DT_F64, 2, dims, NULL);
        ((uint16_t *)(uintptr_t)c.data)[at] = 0x7fc0;
        jb_trial_result x = gate_trial(&g, &c, &r, NULL, &h);
        ck_assert_uint_eq(x.status, FAIL);
        ck_assert_int_eq(x.worst[0].index[0], at / COLS);
        ck_assert_int_eq(x.worst[0].index[1], at % COLS);
        ck_assert_str_eq(x.reason, "1 elements are of the wrong class; the first is NaN, expected finite");
        ((uint16_t *)(uintptr_t)r.data)[at] = 0x7fc0;
        ((double *)(uintptr_t)h.data)[at] = QNAN;
        ck_assert_uint_eq(gate_trial(&g, &c, &r, NULL, &h).status, PASS);
        tensor_free(&c), tensor_free(&r), tensor_free(&h);
    }
    gate_close(&g);
}
END_TEST

START_TEST(counts_all_and_lists_nans_first)
{
    const double c[] = { INF, 0, QNAN, 0, INF, -INF, INF, INF, QNAN, INF, 1, 2 };
    struct gate_under_test g = gate_open(&component, NULL);
    jb_tensor tc = tensor_1d(JB_DT_F32, 12, c), z = tensor_1d(JB_DT_F32, 12, NULL), h = tensor_1d(JB_DT_F64, 12, NULL);
    jb_trial_result x = gate_trial(&g, &tc, &z, NULL, &h);
    ck_assert_double_eq(x.score, 8);
    ck_assert_str_eq(x.part, "nan");
    ck_assert_uint_eq(x.worst_count, 5);
    ck_assert_double_nan(x.worst[0].candidate);
    ck_assert_double_nan(x.worst[1].candidate);
    ck_assert_double_eq(x.worst[2].candidate, INF);
    tensor_free(&tc), tensor_free(&z), tensor_free(&h);
    gate_close(&g);
}
END_TEST

START_TEST(an_unsafe_input_anywhere_voids_the_trial)
{
    /* The candidate is wrong in the first output; the reference overflows in the second. */
    const double nan_first[] = { QNAN, 1 }, ones[] = { 1, 1 }, inf_last[] = { 1, INF };
    struct gate_under_test g = gate_open(&component, NULL);
    jb_tensor c[] = { tensor_1d(JB_DT_F32, 2, nan_first), tensor_1d(JB_DT_F32, 2, ones) };
    jb_tensor r[] = { tensor_1d(JB_DT_F32, 2, ones), tensor_1d(JB_DT_F32, 2, inf_last) };
    jb_tensor h[] = { tensor_1d(JB_DT_F64, 2, ones), tensor_1d(JB_DT_F64, 2, ones) };
    ck_assert_uint_eq(gate_trial_n(&g, 2, c, r, NULL, h, 1).status, UNSAFE);
    ck_assert_uint_eq(gate_trial_n(&g, 1, c, r, NULL, h, 1).status, FAIL);
    for (int i = 0; i < 2; i++) tensor_free(&c[i]), tensor_free(&r[i]), tensor_free(&h[i]);
    gate_close(&g);
}
END_TEST

START_TEST(integers_empties_and_scalars)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const double values[] = { 1, -2, 3 };
    const int64_t none[] = { 4, 0 };
    jb_tensor i = tensor_1d(JB_DT_I32, 3, values), e = tensor_new(JB_DT_F32, 2, none, NULL), s = tensor_new(JB_DT_F32, 0, NULL, NULL);
    ck_assert_uint_eq(gate_trial(&g, &i, &i, NULL, &i).status, PASS);
    ck_assert_uint_eq(gate_trial(&g, &e, &e, NULL, &e).status, PASS);
    ck_assert_uint_eq(gate_trial(&g, &s, &s, NULL, &s).status, PASS);
    ck_assert_str_eq(gate_trial(&g, &i, &e, NULL, &e).part, "shape");
    tensor_free(&i), tensor_free(&e), tensor_free(&s);
    gate_close(&g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("nonfinite");
    tcase_add_loop_test(tc, one_element, 0, sizeof ONE / sizeof *ONE);
    tcase_add_loop_test(tc, edges_of_the_dtypes, 0, sizeof EDGES / sizeof *EDGES);
    tcase_add_test(tc, one_nan_among_many_and_masks_in_place);
    tcase_add_test(tc, counts_all_and_lists_nans_first);
    tcase_add_test(tc, an_unsafe_input_anywhere_voids_the_trial);
    tcase_add_test(tc, integers_empties_and_scalars);
    return run_case("nonfinite", tc);
}
