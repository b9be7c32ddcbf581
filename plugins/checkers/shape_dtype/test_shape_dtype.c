/* SPDX-License-Identifier: Apache-2.0 */
/* shape_dtype: what counts as the same metadata, and what does not. */
#include "shape_dtype.c"

#include <math.h>
#include <string.h>

#include "tests/checkers/testing.h"

static jb_tensor meta(uint32_t dtype, uint32_t rank, int64_t a, int64_t b)
{
    jb_tensor t = { .struct_size = sizeof t, .dtype = dtype, .rank = rank, .dims = { a, b }, .count = 1 };
    for (uint32_t i = 0; i < rank; i++) t.count *= t.dims[i];
    return t;
}

static const struct {
    uint32_t dtype, rank;
    int64_t a, b;
    uint32_t status;
    const char *reason; /* part of it */
} CASES[] = {
    { JB_DT_BF16, 2, 4, 8, JB_TRIAL_PASS, "" },
    { JB_DT_F32, 2, 4, 8, JB_TRIAL_FAIL, "float32[4,8], expected bfloat16[4,8]" },
    { JB_DT_F16, 2, 4, 8, JB_TRIAL_FAIL, "float16[4,8]" },
    { JB_DT_U16, 2, 4, 8, JB_TRIAL_FAIL, "uint16[4,8]" }, /* the bits of bf16 are not bf16 */
    { JB_DT_BF16, 2, 8, 4, JB_TRIAL_FAIL, "bfloat16[8,4]" },
    { JB_DT_BF16, 1, 8, 0, JB_TRIAL_FAIL, "bfloat16[8]" },
    { JB_DT_BF16, 2, 1, 8, JB_TRIAL_FAIL, "bfloat16[1,8]" }, /* would broadcast */
    { JB_DT_BF16, 0, 0, 0, JB_TRIAL_FAIL, "bfloat16[]" },
    { JB_DT_BF16, 2, 0, 8, JB_TRIAL_FAIL, "bfloat16[0,8]" },
    { 99, 2, 4, 8, JB_TRIAL_FAIL, "?[4,8]" },
};

START_TEST(metadata_is_compared)
{
    struct gate_under_test g = gate_open(&component, NULL);
    jb_tensor want = meta(JB_DT_BF16, 2, 4, 8), got = meta(CASES[_i].dtype, CASES[_i].rank, CASES[_i].a, CASES[_i].b);
    ck_assert_uint_eq(gate_needs(&g), JB_NEED_R_JIT);
    jb_trial_result r = gate_trial(&g, &got, &want, NULL, NULL);
    ck_assert_uint_eq(r.status, CASES[_i].status);
    ck_assert_msg(strstr(r.reason, CASES[_i].reason) != NULL, "'%s' does not hold '%s'", r.reason, CASES[_i].reason);
    ck_assert_double_eq(r.score, r.status == JB_TRIAL_PASS ? 0 : 1);
    ck_assert_double_eq(r.threshold, 0);
    gate_close(&g);
}
END_TEST

START_TEST(the_number_of_outputs_counts)
{
    struct gate_under_test g = gate_open(&component, NULL);
    jb_tensor two[2] = { meta(JB_DT_F32, 1, 4, 0), meta(JB_DT_F32, 1, 4, 0) };
    jb_trial t = { .struct_size = sizeof t, .output_count = 2, .reference_count = 1, .outputs = two, .r_jit = two };
    for (int way = 0; way < 2; way++) {
        jb_trial_result r = { .struct_size = sizeof r };
        jb_error err = JB_ERROR_INIT;
        ck_assert_int_eq(g.ops->trial(g.self, &t, &r, &err), 0);
        ck_assert_uint_eq(r.status, JB_TRIAL_FAIL);
        ck_assert_str_eq(r.reason, way == 0 ? "2 outputs, expected 1" : "1 outputs, expected 2");
        t.output_count = 1;
        t.reference_count = 2;
    }
    gate_close(&g);
}
END_TEST

START_TEST(each_output_is_looked_at)
{
    struct gate_under_test g = gate_open(&component, NULL);
    jb_tensor want[3] = { meta(JB_DT_F32, 1, 4, 0), meta(JB_DT_I32, 1, 4, 0), meta(JB_DT_F32, 0, 0, 0) }, got[3];
    memcpy(got, want, sizeof got);
    ck_assert_uint_eq(gate_trial_n(&g, 3, got, want, NULL, NULL, 1).status, JB_TRIAL_PASS);
    got[1].dtype = JB_DT_I64;
    got[2].rank = 1, got[2].dims[0] = 1;
    jb_trial_result r = gate_trial_n(&g, 3, got, want, NULL, NULL, 1);
    ck_assert_double_eq(r.score, 2);
    ck_assert_msg(strstr(r.reason, "output 1 is int64[4], expected int32[4]") != NULL, "%s", r.reason);
    gate_close(&g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("shape_dtype");
    tcase_add_loop_test(tc, metadata_is_compared, 0, sizeof CASES / sizeof *CASES);
    tcase_add_test(tc, the_number_of_outputs_counts);
    tcase_add_test(tc, each_output_is_looked_at);
    return run_case("shape_dtype", tc);
}
