/* SPDX-License-Identifier: Apache-2.0 */
/* tests/checkers/testing.h - for the tests of the checkers: tensors from
 * literals, one gate with options as a study would write them, one trial.  Each
 * test includes its checker's source, so `component` is that checker. */
#ifndef JB_CHECKER_TESTING_H
#define JB_CHECKER_TESTING_H

#include "core/base/error.h"
#include "core/options/options.h"

#include <check.h>
#include <jaxbench/checker.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* double to bf16 bits, to nearest even.  Goes through fp32, so literals should be
 * fp32 values where the last bit matters. */
static inline uint16_t bf16_bits(double v)
{
    float f = (float)v;
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    if (f != f) return (uint16_t)(w >> 16 | 0x40);
    return (uint16_t)((w + 0x7fffu + (w >> 16 & 1)) >> 16);
}

static inline double bf16_round(double v) { return (double)jb_bf16_to_f32(bf16_bits(v)); }

/* A tensor that owns its data, from doubles (NULL: zeros). */
static inline jb_tensor tensor_new(uint32_t dtype, uint32_t rank, const int64_t *dims, const double *values)
{
    jb_tensor t = { .struct_size = sizeof t, .dtype = dtype, .rank = rank, .count = 1 };
    for (uint32_t i = 0; i < rank; i++) {
        t.dims[i] = dims[i];
        t.count *= dims[i];
    }
    void *data = calloc((size_t)t.count + 1, jb_dtype_size(dtype));
    ck_assert_ptr_nonnull(data);
    for (int64_t i = 0; values != NULL && i < t.count; i++) switch (dtype) {
        case JB_DT_BF16: ((uint16_t *)data)[i] = bf16_bits(values[i]); break;
        case JB_DT_F32: ((float *)data)[i] = (float)values[i]; break;
        case JB_DT_F64: ((double *)data)[i] = values[i]; break;
        case JB_DT_I32: ((int32_t *)data)[i] = (int32_t)values[i]; break;
        case JB_DT_I64: ((int64_t *)data)[i] = (int64_t)values[i]; break;
        case JB_DT_BOOL: ((uint8_t *)data)[i] = values[i] != 0; break;
        default: ck_abort_msg("tensor_new has no dtype %u", dtype);
        }
    t.data = data;
    return t;
}

static inline jb_tensor tensor_1d(uint32_t dtype, int64_t n, const double *values) { return tensor_new(dtype, 1, &n, values); }
static inline void tensor_free(jb_tensor *t) { free((void *)(uintptr_t)t->data); }

struct gate_under_test {
    const jb_checker_ops *ops;
    jb_config *config;
    void *self;
};

/* Options as JSON text; NULL: the defaults of the option table. */
static inline struct gate_under_test gate_open(const jb_component *c, const char *options_json)
{
    struct gate_under_test g = { .ops = c->ops };
    jb_error err = JB_ERROR_INIT;
    cJSON *values = options_json != NULL ? cJSON_Parse(options_json) : NULL;
    ck_assert_msg(jb_config_new(c, values, &g.config, &err) == 0, "%s", err.message);
    ck_assert_msg(g.ops->create(NULL, jb_config_data(g.config), &g.self, &err) == 0, "%s", err.message);
    cJSON_Delete(values);
    return g;
}

static inline void gate_close(struct gate_under_test *g)
{
    g->ops->destroy(g->self);
    jb_config_free(g->config);
}

static inline uint32_t gate_needs(struct gate_under_test *g)
{
    jb_checker_needs needs = { .struct_size = sizeof needs };
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(g->ops->needs(g->self, &needs, &err), 0);
    return needs.flags;
}

/* Judge `count` outputs; fills what the host would fill. */
static inline jb_trial_result gate_trial_n(struct gate_under_test *g, uint32_t count, const jb_tensor *out, const jb_tensor *r_jit,
                                           const jb_tensor *r_op, const jb_tensor *h, uint32_t slice_axes)
{
    jb_trial t = { .struct_size = sizeof t, .output_count = count, .reference_count = count, .outputs = out, .r_jit = r_jit,
                   .r_op = r_op, .h = h, .slice_axes = slice_axes,
                   .id = { .struct_size = sizeof t.id, .shape = "gate", .distribution = "own" } };
    jb_trial_result r = { .struct_size = sizeof r, .status = JB_TRIAL_UNSUPPORTED };
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(g->ops->trial(g->self, &t, &r, &err) == 0, "%s", err.message);
    return r;
}

/* One output, slices along the last axis. */
static inline jb_trial_result gate_trial(struct gate_under_test *g, const jb_tensor *out, const jb_tensor *r_jit,
                                         const jb_tensor *r_op, const jb_tensor *h)
{
    return gate_trial_n(g, 1, out, r_jit, r_op, h, 1);
}

/* A small generator: the draws of a property test must not move with libc. */
static inline double test_uniform(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

/* Near N(0, 1): the sum of twelve uniforms. */
static inline double test_normal(uint64_t *state)
{
    double s = -6;
    for (int i = 0; i < 12; i++) s += test_uniform(state);
    return s;
}

#define ck_near(got, want, rtol) ck_assert_double_eq_tol((got), (want), (rtol) * (fabs(want) > 1 ? fabs(want) : 1))

/* Runs one test case as a program does. */
static inline int run_case(const char *name, TCase *tc)
{
    Suite *s = suite_create(name);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}

#endif
