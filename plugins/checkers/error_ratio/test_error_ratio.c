/* SPDX-License-Identifier: Apache-2.0 */
/* error_ratio: worked numbers, the three partial scores, zero slices, special values,
 * uninformative inputs, exact outputs; and properties: scale, order, and one bad
 * element among ten million. */
#include "error_ratio.c"

#include "tests/checkers/testing.h"

#define INF ((double)INFINITY)
#define QNAN ((double)NAN)
#define U 0x1p-8 /* bf16 */

enum { PASS = JB_TRIAL_PASS, FAIL = JB_TRIAL_FAIL, VOID = JB_TRIAL_UNINFORMATIVE };

/* Candidate, references and h of one output. */
struct quad {
    jb_tensor c, j, o, h;
};

/* From doubles; c and the references in `dtype`, h in fp64. */
static struct quad quad_new(uint32_t dtype, uint32_t rank, const int64_t *dims, const double *c, const double *j, const double *o, const double *h)
{
    return (struct quad){ tensor_new(dtype, rank, dims, c), tensor_new(dtype, rank, dims, j), tensor_new(dtype, rank, dims, o),
                          tensor_new(JB_DT_F64, rank, dims, h) };
}

static void quad_free(struct quad *q)
{
    tensor_free(&q->c), tensor_free(&q->j), tensor_free(&q->o), tensor_free(&q->h);
}

static jb_trial_result quad_trial(struct gate_under_test *g, const struct quad *q, uint32_t slice_axes)
{
    return gate_trial_n(g, 1, &q->c, &q->j, &q->o, &q->h, slice_axes);
}

/* The three scores, as the checker computes them. */
static struct scores scores_with(const struct quad *q, double u, uint32_t slice_axes)
{
    jb_trial t = { .struct_size = sizeof t, .output_count = 1, .reference_count = 1, .outputs = &q->c, .r_jit = &q->j, .r_op = &q->o,
                   .h = &q->h, .slice_axes = slice_axes };
    struct pass p = { .trial = &t };
    struct scores s;
    ck_assert_int_eq(pass_run(&p), 0);
    ck_assert_int_eq(scores_of(&p, u, &s), 0);
    free(p.slices);
    return s;
}

/* The definition once more, plainly: two-dimensional, slices along the last axis. */
static struct scores by_definition(const double *c, const double *j, const double *o, const double *h, int rows, int cols, double u)
{
    struct scores s = { 0, 0, 0, 0 };
    double peak[4] = { 0 }, all[4] = { 0 }, *row = calloc((size_t)rows * 4, sizeof *row), *sorted = calloc((size_t)rows, sizeof *sorted), median[2];
    for (int i = 0; i < rows * cols; i++) {
        double e[4] = { c[i] - h[i], j[i] - h[i], o[i] - h[i], h[i] };
        for (int q = 0; q < 4; q++) {
            peak[q] = fmax(peak[q], fabs(e[q]));
            all[q] += e[q] * e[q];
            row[i / cols * 4 + q] += e[q] * e[q];
        }
    }
    for (int q = 0; q < 4; q++) all[q] = sqrt(all[q] / (rows * cols));
    for (int i = 0; i < rows * 4; i++) row[i] = sqrt(row[i] / cols);
    for (int q = 0; q < 2; q++) {
        for (int i = 0; i < rows; i++) sorted[i] = row[i * 4 + 1 + q];
        for (int i = 0; i < rows; i++)
            for (int k = i + 1; k < rows; k++)
                if (sorted[k] < sorted[i]) {
                    double x = sorted[i];
                    sorted[i] = sorted[k], sorted[k] = x;
                }
        median[q] = 0.5 * (sorted[(rows - 1) / 2] + sorted[rows / 2]);
    }
    s.max = peak[0] / (fmax(peak[1], peak[2]) + u / 2 * peak[3]);
    s.rms = all[0] / (fmax(all[1], all[2]) + u / 4 * all[3]);
    for (int i = 0; i < rows; i++) {
        const double *r = row + i * 4;
        double e = r[0] / (fmax(fmax(r[1], median[0]), fmax(r[2], median[1])) + u / 4 * fmax(r[3], 1e-3 * all[3]));
        if (e > s.row) s.row = e, s.slice = i;
    }
    free(row), free(sorted);
    return s;
}

/* ---- worked numbers ---------------------------------------------------------- */

/* gate_scores_small; r is one reference there, so r_jit and r_op are the same. */
static const double HP[] = { 1, 2, 3, 4, 0.0001, 0.0002, -0.0001, 0 };
static const double REF[] = { 1, 2, 3.01, 4, 0.0001, 0.000201, -0.0001, 0 };
static const double CAND[] = { 1, 2, 3, 4.02, 0.0001, 0.00019, -0.0001, 1e-6 };

START_TEST(small_vector)
{
    const int64_t dims[] = { 2, 4 };
    struct quad q = quad_new(JB_DT_F64, 2, dims, CAND, REF, REF, HP);
    struct scores s = scores_with(&q, U, 1), d = by_definition(CAND, REF, REF, HP, 2, 4, U);
    ck_near(s.max, 1.1228070175438492, 1e-9);
    ck_near(s.rms, 1.3030291137550396, 1e-9);
    ck_near(s.row, d.row, 1e-12);
    quad_free(&q);
}
END_TEST

START_TEST(by_hand)
{
    /* h = 4 in a single slice; r errs by 1/64, c by 1/32: exact in bf16 around 4. */
    const double h = 4, r = 4 + 1.0 / 32, c = 4 - 1.0 / 16;
    const int64_t one = 1;
    struct gate_under_test g = gate_open(&component, NULL);
    struct quad q = quad_new(JB_DT_BF16, 1, &one, &c, &r, &h, &h);
    struct scores s = scores_with(&q, U, 1);
    ck_near(s.max, 0.0625 / (0.03125 + 4 * U / 2), 1e-14); /* 1.6 */
    ck_near(s.rms, 0.0625 / (0.03125 + 4 * U / 4), 1e-14); /* 1.777... */
    ck_near(s.row, s.rms, 1e-14);
    jb_trial_result x = quad_trial(&g, &q, 1);
    ck_assert_uint_eq(x.status, FAIL);
    ck_assert_str_eq(x.part, "rms"); /* 1.777/1.10 is a larger share than 1.6/1.25 */
    ck_near(x.score, 16.0 / 9, 1e-14);
    ck_assert_double_eq(x.threshold, 1.10);
    ck_assert_uint_eq(x.worst_count, 1);
    ck_assert_double_eq(x.worst[0].candidate, c);
    ck_assert_double_eq(x.worst[0].reference, h);
    ck_assert_ptr_nonnull(strstr(x.reason, "rms error is 1.78 times the reference's own (at most 1.1)"));
    quad_free(&q);
    gate_close(&g);
}
END_TEST

START_TEST(needs_three_references)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const double one = 1;
    jb_tensor a = tensor_1d(JB_DT_BF16, 1, &one), h = tensor_1d(JB_DT_F64, 1, &one);
    jb_trial t = { .struct_size = sizeof t, .output_count = 1, .reference_count = 1, .outputs = &a, .r_jit = &a, .h = &h };
    jb_trial_result r = { .struct_size = sizeof r };
    jb_error err = JB_ERROR_INIT;
    ck_assert_uint_eq(gate_needs(&g), JB_NEED_R_JIT | JB_NEED_R_OP | JB_NEED_H);
    ck_assert_int_eq(g.ops->trial(g.self, &t, &r, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "r_op"));
    tensor_free(&a), tensor_free(&h);
    gate_close(&g);
}
END_TEST

/* ---- random problems ------------------------------------------------------------ */

/* h ~ N(0, 1) with rows of different size; r rounds twice, c once or as `err` says. */
struct problem {
    int rows, cols;
    double *c, *j, *o, *h;
};

static struct problem problem_new(int rows, int cols, uint64_t seed, double err)
{
    size_t n = (size_t)rows * (size_t)cols;
    struct problem p = { rows, cols, calloc(n + 1, 8), calloc(n + 1, 8), calloc(n + 1, 8), calloc(n + 1, 8) };
    uint64_t s = seed;
    for (size_t i = 0; i < n; i++) {
        double h = test_normal(&s) * ldexp(1, (int)(i / (size_t)cols) % 5 - 2);
        p.h[i] = h;
        p.j[i] = bf16_round(bf16_round(h * (1 + 0.3 * U * test_normal(&s))));
        p.o[i] = bf16_round(h * (1 + U * test_normal(&s)));
        p.c[i] = bf16_round(h * (1 + err * U * test_normal(&s)));
    }
    return p;
}

static void problem_free(struct problem *p) { free(p->c), free(p->j), free(p->o), free(p->h); }

static struct quad problem_quad(const struct problem *p, double scale)
{
    const int64_t dims[] = { p->rows, p->cols };
    const double *from[] = { p->c, p->j, p->o, p->h };
    double *v[4];
    size_t n = (size_t)p->rows * (size_t)p->cols;
    for (int q = 0; q < 4; q++) {
        v[q] = calloc(n + 1, 8);
        for (size_t i = 0; i < n; i++) v[q][i] = from[q][i] * scale;
    }
    struct quad q = quad_new(JB_DT_BF16, 2, dims, v[0], v[1], v[2], v[3]);
    for (int i = 0; i < 4; i++) free(v[i]);
    return q;
}

static const struct { int rows, cols; } SIZES[] = { { 1, 1 }, { 1, 1025 }, { 3, 1 }, { 5, 7 }, { 8, 64 }, { 6, 63 }, { 17, 1023 }, { 4, 3001 } };

START_TEST(equals_the_definition)
{
    struct problem p = problem_new(SIZES[_i].rows, SIZES[_i].cols, 11 + (uint64_t)_i, 1.5);
    struct quad q = problem_quad(&p, 1);
    struct scores got = scores_with(&q, U, 1), want = by_definition(p.c, p.j, p.o, p.h, p.rows, p.cols, U);
    ck_near(got.max, want.max, 1e-12);
    ck_near(got.rms, want.rms, 1e-12);
    ck_near(got.row, want.row, 1e-12);
    ck_assert_int_eq(got.slice, want.slice);
    quad_free(&q);
    problem_free(&p);
}
END_TEST

START_TEST(scaling_by_a_power_of_two_changes_nothing)
{
    static const int powers[] = { -100, -60, -7, 1, 40, 110 };
    struct gate_under_test g = gate_open(&component, NULL);
    struct problem p = problem_new(9, 130, 5, 2);
    struct quad q = problem_quad(&p, 1);
    jb_trial_result first = quad_trial(&g, &q, 1);
    struct scores s = scores_with(&q, U, 1);
    ck_assert_double_gt(first.score, 0);
    for (int i = 0; i < 6; i++) {
        struct quad scaled = problem_quad(&p, ldexp(1, powers[i]));
        struct scores t = scores_with(&scaled, U, 1);
        jb_trial_result x = quad_trial(&g, &scaled, 1);
        ck_near(t.max, s.max, 1e-13);
        ck_near(t.rms, s.rms, 1e-13);
        ck_near(t.row, s.row, 1e-13);
        ck_assert_uint_eq(x.status, first.status);
        ck_assert_str_eq(x.part, first.part);
        ck_assert_uint_eq(x.worst_count, first.worst_count);
        for (uint32_t w = 0; w < x.worst_count; w++) ck_assert_int_eq(x.worst[w].index[1], first.worst[w].index[1]);
        quad_free(&scaled);
    }
    quad_free(&q);
    problem_free(&p);
    gate_close(&g);
}
END_TEST

/* Swapping columns within rows, and whole rows, leaves all three scores. */
START_TEST(order_of_elements_and_slices_changes_nothing)
{
    struct problem p = problem_new(31, 210, 77, 1.2);
    struct quad q = problem_quad(&p, 1);
    struct scores s = scores_with(&q, U, 1);
    uint64_t state = 3;
    for (int k = 0; k < 4000; k++) {
        int r1 = (int)(test_uniform(&state) * p.rows), r2 = k % 50 == 0 ? (int)(test_uniform(&state) * p.rows) : r1;
        double *const arrays[] = { p.c, p.j, p.o, p.h };
        int c1 = (int)(test_uniform(&state) * p.cols), c2 = (int)(test_uniform(&state) * p.cols), whole = k % 50 == 0;
        for (int a = 0; a < 4; a++)
            for (int col = whole ? 0 : c1; col <= (whole ? p.cols - 1 : c1); col++) {
                double *x = arrays[a] + r1 * p.cols + col, *y = arrays[a] + r2 * p.cols + (whole ? col : c2), t = *x;
                *x = *y, *y = t;
            }
    }
    struct quad moved = problem_quad(&p, 1);
    struct scores t = scores_with(&moved, U, 1);
    ck_near(t.max, s.max, 1e-14);
    ck_near(t.rms, s.rms, 1e-13);
    ck_near(t.row, s.row, 1e-13);
    quad_free(&q), quad_free(&moved);
    problem_free(&p);
}
END_TEST

/* Neither reference can fail as a candidate, and swapping them changes nothing. */
START_TEST(the_references_pass_and_the_worse_one_counts)
{
    struct gate_under_test g = gate_open(&component, NULL);
    struct problem p = problem_new(12, 300, 9, 3);
    struct quad q = problem_quad(&p, 1), swapped = { q.c, q.o, q.j, q.h }, as_j = { q.j, q.j, q.o, q.h }, as_o = { q.o, q.j, q.o, q.h },
                alone = { q.c, q.j, q.j, q.h };
    struct scores s = scores_with(&q, U, 1), t = scores_with(&swapped, U, 1), one = scores_with(&alone, U, 1);
    ck_assert_double_eq(s.max, t.max);
    ck_assert_double_eq(s.rms, t.rms);
    ck_assert_double_eq(s.row, t.row);
    ck_assert_uint_eq(quad_trial(&g, &as_j, 1).status, PASS);
    ck_assert_uint_eq(quad_trial(&g, &as_o, 1).status, PASS);
    ck_assert_double_lt(quad_trial(&g, &as_o, 1).score, 1);
    ck_assert_double_gt(one.rms, s.rms); /* r_op is the worse one here: without it the yardstick is shorter */
    quad_free(&q);
    problem_free(&p);
    gate_close(&g);
}
END_TEST

START_TEST(zeros_constants_and_scaled_answers_fail)
{
    struct gate_under_test g = gate_open(&component, NULL);
    struct problem p = problem_new(16, 256, 21, 0);
    for (int way = 0; way < 4; way++) {
        for (int i = 0; i < 16 * 256; i++) p.c[i] = way == 0 ? 0 : way == 1 ? 0.01 : way == 2 ? p.h[i] * 1.01 : -p.h[i];
        struct quad q = problem_quad(&p, 1);
        ck_assert_msg(quad_trial(&g, &q, 1).status == FAIL, "way %d passed", way);
        quad_free(&q);
    }
    problem_free(&p);
    gate_close(&g);
}
END_TEST

/* ---- parts, slices, options ------------------------------------------------------- */

START_TEST(one_bad_row_fails_on_the_row_score_alone)
{
    /* h = 1.  The references err by 2u, and by 32u in one element, which excuses the largest error; the
     * candidate does the same, but errs by 8u in row 3 of 64: a row score of 8 / 2.25. */
    struct gate_under_test g = gate_open(&component, NULL);
    struct problem p = problem_new(64, 128, 1, 0);
    for (int i = 0; i < 64 * 128; i++) {
        p.h[i] = 1;
        p.j[i] = p.o[i] = 1 + (i == 40 * 128 + 5 ? 32 : 2) * U;
        p.c[i] = i / 128 == 3 ? 1 + 8 * U : p.j[i];
    }
    struct quad q = problem_quad(&p, 1);
    jb_trial_result x = quad_trial(&g, &q, 1);
    ck_assert_str_eq(x.part, "row");
    ck_near(x.score, 8 / 2.25, 1e-12);
    ck_assert_double_eq(x.threshold, 1.75);
    ck_assert_uint_eq(x.status, FAIL);
    ck_assert_uint_eq(x.worst_count, 5);
    for (uint32_t w = 0; w < 5; w++) ck_assert_int_eq(x.worst[w].index[0], 3); /* the worst are those of the slice */
    /* With two trailing axes a slice is everything, and the row is lost in it. */
    ck_assert_uint_eq(quad_trial(&g, &q, 2).status, PASS);
    quad_free(&q);
    problem_free(&p);
    gate_close(&g);
}
END_TEST

START_TEST(slices_are_trailing_axes)
{
    jb_tensor t = { .struct_size = sizeof t, .dtype = JB_DT_F32, .rank = 3, .dims = { 2, 3, 4 }, .count = 24 };
    const jb_tensor scalar = { .struct_size = sizeof t, .dtype = JB_DT_F32, .rank = 0, .count = 1 };
    ck_assert_int_eq(slice_length(&t, 1), 4);
    ck_assert_int_eq(slice_length(&t, 2), 12);
    ck_assert_int_eq(slice_length(&t, 3), 24);
    ck_assert_int_eq(slice_length(&t, 9), 24);
    ck_assert_int_eq(slice_length(&scalar, 1), 1);
    t.dims[2] = 0, t.count = 0;
    ck_assert_int_eq(slice_length(&t, 1), 1);
}
END_TEST

/* One row of eight is off by 6u, the references by 2u everywhere: a row score of 6/2.25. */
static const struct { int cols; const char *options; double limit; uint32_t status; } LIMITS[] = {
    { 64, "{\"max\":100,\"rms\":100}", 1.75, FAIL },
    { 63, "{\"max\":100,\"rms\":100}", 2, FAIL },
    { 63, "{\"max\":100,\"rms\":100,\"row\":1.5}", 2, FAIL }, /* at least 2 */
    { 63, "{\"max\":100,\"rms\":100,\"row\":3}", 3, PASS },
    { 64, "{\"max\":100,\"rms\":100,\"row\":2.7}", 2.7, PASS },
    { 64, "{\"max\":100,\"rms\":100,\"row\":1.5}", 1.5, FAIL },
};

START_TEST(short_slices_have_a_wider_row_limit)
{
    struct gate_under_test g = gate_open(&component, LIMITS[_i].options);
    struct problem p = problem_new(8, LIMITS[_i].cols, 2, 0);
    for (int i = 0; i < 8 * LIMITS[_i].cols; i++) {
        p.h[i] = 1;
        p.j[i] = p.o[i] = 1 + 2 * U;
        p.c[i] = i < LIMITS[_i].cols ? 1 + 6 * U : 1;
    }
    struct quad q = problem_quad(&p, 1);
    jb_trial_result x = quad_trial(&g, &q, 1);
    ck_assert_str_eq(x.part, "row");
    ck_near(x.score, 6 / 2.25, 1e-12);
    ck_assert_double_eq(x.threshold, LIMITS[_i].limit);
    ck_assert_uint_eq(x.status, LIMITS[_i].status);
    quad_free(&q);
    problem_free(&p);
    gate_close(&g);
}
END_TEST

START_TEST(median_and_selection)
{
    enum { N = 501 };
    uint64_t state = 99;
    for (int n = 1; n < N; n += n < 20 ? 1 : 37) {
        double v[N], sorted[N];
        struct slice slices[N];
        memset(slices, 0, sizeof slices);
        for (int i = 0; i < n; i++) slices[i].rms[EJ] = sorted[i] = floor(test_uniform(&state) * (n % 3 == 0 ? 4 : 1000)); /* ties too */
        for (int i = 0; i < n; i++)
            for (int k = i + 1; k < n; k++)
                if (sorted[k] < sorted[i]) {
                    double t = sorted[i];
                    sorted[i] = sorted[k], sorted[k] = t;
                }
        struct pass p = { .slices = slices, .slice_count = n };
        ck_assert_double_eq(median_of(&p, EJ, v), 0.5 * (sorted[(n - 1) / 2] + sorted[n / 2]));
        for (int k = 0; k < n; k += 1 + n / 7) {
            for (int i = 0; i < n; i++) v[i] = slices[i].rms[EJ];
            ck_assert_double_eq(select_kth(v, n, k), sorted[k]);
        }
    }
}
END_TEST

/* ---- zeros ----------------------------------------------------------------------------- */

static const struct {
    double c0, c1; /* the candidate on the zero slice */
    uint32_t status;
} ZEROS[] = {
    { 0, 0, PASS }, { -0.0, 0, PASS }, { 0x1p-126, 0, PASS }, { -0x1p-130, 0x1p-133, PASS }, { 0x1.02p-126, 0, FAIL }, { 0, 1e-30, FAIL }, { 0, QNAN, FAIL },
};

START_TEST(a_slice_of_zeros_asks_for_zeros)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const int64_t dims[] = { 2, 2 };
    const double h[] = { 3, 4, 0, 0 }, r[] = { 3, 4.03125, 0, 0 }, c[] = { 3, 4, ZEROS[_i].c0, ZEROS[_i].c1 };
    struct quad q = quad_new(JB_DT_BF16, 2, dims, c, r, r, h);
    jb_trial_result x = quad_trial(&g, &q, 1);
    ck_assert_uint_eq(x.status, ZEROS[_i].status);
    if (x.status == FAIL) {
        ck_assert_double_infinite(x.score);
        ck_assert_uint_ge(x.worst_count, 1);
        ck_assert_int_eq(x.worst[0].index[0], 1);
    }
    quad_free(&q);
    /* The same where the whole answer is 0. */
    const double zero[] = { 0, 0 }, only[] = { ZEROS[_i].c0, ZEROS[_i].c1 };
    const int64_t two = 2;
    q = quad_new(JB_DT_BF16, 1, &two, only, zero, zero, zero);
    ck_assert_uint_eq(quad_trial(&g, &q, 1).status, ZEROS[_i].status);
    quad_free(&q);
    gate_close(&g);
}
END_TEST

START_TEST(an_exact_reference_does_not_fail_a_rounded_candidate)
{
    /* e_r = 0 everywhere: the floors admit a correctly rounded result, the trap of a pure ratio. */
    enum { N = 4096 };
    struct gate_under_test g = gate_open(&component, NULL);
    struct problem p = problem_new(4, N / 4, 33, 0);
    jb_tensor c = tensor_1d(JB_DT_BF16, N, p.c), r = tensor_1d(JB_DT_BF16, N, p.h), h = tensor_1d(JB_DT_F64, N, p.h);
    for (int i = 0; i < N; i++) ((double *)(uintptr_t)h.data)[i] = bf16_round(p.h[i]); /* h is a bf16 value, r equals it */
    ck_assert_uint_eq(gate_trial(&g, &r, &r, &r, &h).status, PASS);
    ck_assert_double_eq(gate_trial(&g, &r, &r, &r, &h).score, 0);
    for (int i = 0; i < N; i += 2) ((uint16_t *)(uintptr_t)c.data)[i] ^= 1; /* half of them one ulp off: too much */
    ck_assert_uint_eq(gate_trial(&g, &c, &r, &r, &h).status, FAIL);
    tensor_free(&c), tensor_free(&r), tensor_free(&h);
    problem_free(&p);
    gate_close(&g);
}
END_TEST

/* ---- not finite, and not informative ------------------------------------------------------ */

static const struct {
    double c, r, h; /* the last of three elements */
    uint32_t status;
} ODD[] = {
    { 1, 1, 1, PASS },
    { QNAN, 1, 1, FAIL },
    { INF, 1, 1, FAIL },
    { -INF, 1, 1, FAIL },
    { QNAN, QNAN, QNAN, PASS }, /* left to nonfinite */
    { 7, QNAN, QNAN, PASS },
    { INF, INF, 1e39, PASS },   /* beyond bf16: left out */
    { QNAN, QNAN, 1, VOID },
    { 1, INF, 1, VOID },
    { 1, 2, 1, VOID },          /* the reference errs by more than a tenth */
    { -0.0, 0, 0, PASS },
    { 0x1p-133, 0x1p-133, 0x1p-133, PASS },
};

START_TEST(special_values)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const double h[] = { 1, -2, ODD[_i].h }, r[] = { 1, -2, ODD[_i].r }, c[] = { 1, -2, ODD[_i].c };
    const int64_t three = 3;
    struct quad q = quad_new(JB_DT_BF16, 1, &three, c, r, r, h);
    jb_trial_result x = quad_trial(&g, &q, 1);
    ck_assert_uint_eq(x.status, ODD[_i].status);
    if (x.status != PASS) ck_assert_uint_gt(strlen(x.reason), 0);
    if (x.status == FAIL) {
        ck_assert_double_infinite(x.score);
        ck_assert_int_eq(x.worst[0].index[0], 2);
        ck_assert_ptr_nonnull(strstr(x.reason, "not finite"));
    }
    quad_free(&q);
    gate_close(&g);
}
END_TEST

START_TEST(uninformative_at_a_tenth_of_either_reference)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const double h[] = { 1, 1 }, good[] = { 1, 1 }, off[] = { 1.125, 1.125 }, near[] = { 1.09375, 1.09375 };
    const int64_t two = 2;
    for (int way = 0; way < 2; way++) {
        struct quad q = quad_new(JB_DT_BF16, 1, &two, good, way ? good : off, way ? off : good, h);
        jb_trial_result x = quad_trial(&g, &q, 1);
        ck_assert_uint_eq(x.status, VOID);
        ck_assert_str_eq(x.reason, "the reference itself errs by 12.5 % of the answer");
        quad_free(&q);
        q = quad_new(JB_DT_BF16, 1, &two, good, way ? good : near, way ? near : good, h);
        ck_assert_uint_eq(quad_trial(&g, &q, 1).status, PASS);
        quad_free(&q);
    }
    const double zero[] = { 0, 0 };
    struct quad q = quad_new(JB_DT_BF16, 1, &two, zero, good, zero, zero);
    ck_assert_str_eq(quad_trial(&g, &q, 1).reason, "the answer is 0 everywhere and the reference is not");
    quad_free(&q);
    const double huge[] = { 1e300, 1e300 };
    q = quad_new(JB_DT_F64, 1, &two, zero, huge, huge, huge); /* squares overflow: nothing may pass on Inf/Inf */
    ck_assert_uint_eq(quad_trial(&g, &q, 1).status, VOID);
    quad_free(&q);
    gate_close(&g);
}
END_TEST

/* ---- several outputs, exact ones, empties ------------------------------------------------- */

START_TEST(the_worst_output_decides)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const double h[] = { 1, 2 }, bad[] = { 1, 2.5 }, worse[] = { 1, 4 };
    jb_tensor c[] = { tensor_1d(JB_DT_BF16, 2, h), tensor_1d(JB_DT_BF16, 2, worse), tensor_1d(JB_DT_BF16, 2, bad) }, r[3], hh[3];
    for (int i = 0; i < 3; i++) r[i] = tensor_1d(JB_DT_BF16, 2, h), hh[i] = tensor_1d(JB_DT_F64, 2, h);
    jb_trial_result x = gate_trial_n(&g, 3, c, r, r, hh, 1);
    ck_assert_uint_eq(x.status, FAIL);
    ck_assert_uint_eq(x.worst[0].output, 1);
    ck_assert_double_eq(x.worst[0].candidate, 4);
    for (int i = 0; i < 3; i++) tensor_free(&c[i]), tensor_free(&r[i]), tensor_free(&hh[i]);
    gate_close(&g);
}
END_TEST

START_TEST(integers_are_exact)
{
    struct gate_under_test g = gate_open(&component, NULL);
    /* 2^53 and 2^53 + 1 are one double: the bytes must be compared. */
    const int64_t big[] = { 9007199254740993, 5, -1 }, near[] = { 9007199254740992, 5, -1 }, other[] = { 9007199254740993, 6, -1 };
    jb_tensor a = { .struct_size = sizeof a, .dtype = JB_DT_I64, .rank = 1, .dims = { 3 }, .count = 3, .data = big }, b = a, c = a;
    b.data = near, c.data = other;
    ck_assert_uint_eq(gate_trial(&g, &a, &a, &a, &a).status, PASS);
    jb_trial_result x = gate_trial(&g, &b, &a, &a, &a);
    ck_assert_uint_eq(x.status, FAIL);
    ck_assert_str_eq(x.part, "exact");
    ck_assert_int_eq(x.worst[0].index[0], 0);
    ck_assert_uint_eq(gate_trial(&g, &c, &a, &c, &a).status, PASS); /* the references disagree at 1: either will do */
    ck_assert_uint_eq(gate_trial(&g, &b, &a, &c, &a).status, FAIL);
    const double yes[] = { 1, 0, 1 }, no[] = { 1, 1, 1 };
    jb_tensor t = tensor_1d(JB_DT_BOOL, 3, yes), f = tensor_1d(JB_DT_BOOL, 3, no);
    ck_assert_uint_eq(gate_trial(&g, &t, &t, &t, &t).status, PASS);
    ck_assert_uint_eq(gate_trial(&g, &f, &t, &t, &t).status, FAIL);
    tensor_free(&t), tensor_free(&f);
    gate_close(&g);
}
END_TEST

START_TEST(empties_scalars_and_shapes)
{
    struct gate_under_test g = gate_open(&component, NULL);
    const int64_t none[] = { 0, 5 }, nothing[] = { 5, 0 }, two[] = { 2, 5 };
    jb_tensor e = tensor_new(JB_DT_BF16, 2, none, NULL), f = tensor_new(JB_DT_BF16, 2, nothing, NULL), s = tensor_new(JB_DT_BF16, 0, NULL, NULL),
              w = tensor_new(JB_DT_BF16, 2, two, NULL);
    ck_assert_uint_eq(gate_trial(&g, &e, &e, &e, &e).status, PASS);
    ck_assert_uint_eq(gate_trial(&g, &f, &f, &f, &f).status, PASS);
    ck_assert_uint_eq(gate_trial(&g, &s, &s, &s, &s).status, PASS);
    ck_assert_uint_eq(gate_trial_n(&g, 0, NULL, NULL, NULL, NULL, 1).status, PASS);
    jb_trial_result x = gate_trial(&g, &w, &e, &e, &e);
    ck_assert_uint_eq(x.status, FAIL);
    ck_assert_str_eq(x.part, "shape");
    ck_assert_double_infinite(x.score);
    tensor_free(&e), tensor_free(&f), tensor_free(&s), tensor_free(&w);
    gate_close(&g);
}
END_TEST

/* ---- ten million --------------------------------------------------------------------------- */

START_TEST(one_bad_element_in_ten_million_is_found)
{
    enum { ROWS = 10000, COLS = 1000, BAD = 7654321 };
    struct gate_under_test g = gate_open(&component, NULL);
    const int64_t dims[] = { ROWS, COLS };
    jb_tensor c = tensor_new(JB_DT_BF16, 2, dims, NULL), r = tensor_new(JB_DT_BF16, 2, dims, NULL), h = tensor_new(JB_DT_F64, 2, dims, NULL);
    uint16_t *cv = (uint16_t *)(uintptr_t)c.data, *rv = (uint16_t *)(uintptr_t)r.data;
    double *hv = (double *)(uintptr_t)h.data;
    uint64_t state = 4;
    for (int64_t i = 0; i < h.count; i++) {
        hv[i] = 2 * test_uniform(&state) - 1;
        rv[i] = cv[i] = bf16_bits(hv[i]);
    }
    jb_trial_result x = gate_trial(&g, &c, &r, &r, &h);
    ck_assert_uint_eq(x.status, PASS);
    ck_assert_double_lt(x.score, 1);
    cv[BAD] ^= 0x8000; /* one sign */
    x = gate_trial(&g, &c, &r, &r, &h);
    ck_assert_uint_eq(x.status, FAIL);
    ck_assert_int_eq(x.worst[0].index[0], BAD / COLS);
    ck_assert_int_eq(x.worst[0].index[1], BAD % COLS);
    /* and a sum of ten million squares keeps its digits: rms of 0.1 in fp64 is 0.1 */
    for (int64_t i = 0; i < h.count; i++) hv[i] = 0.1;
    jb_trial t = { .struct_size = sizeof t, .output_count = 1, .reference_count = 1, .outputs = &h, .r_jit = &h, .r_op = &h, .h = &h, .slice_axes = 1 };
    struct pass p = { .trial = &t };
    ck_assert_int_eq(pass_run(&p), 0);
    ck_assert_double_eq_tol(rms(&p.whole, H), 0.1, 3e-17);
    free(p.slices);
    tensor_free(&c), tensor_free(&r), tensor_free(&h);
    gate_close(&g);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("error_ratio");
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, small_vector);
    tcase_add_test(tc, by_hand);
    tcase_add_test(tc, needs_three_references);
    tcase_add_loop_test(tc, equals_the_definition, 0, sizeof SIZES / sizeof *SIZES);
    tcase_add_test(tc, scaling_by_a_power_of_two_changes_nothing);
    tcase_add_test(tc, order_of_elements_and_slices_changes_nothing);
    tcase_add_test(tc, the_references_pass_and_the_worse_one_counts);
    tcase_add_test(tc, zeros_constants_and_scaled_answers_fail);
    tcase_add_test(tc, one_bad_row_fails_on_the_row_score_alone);
    tcase_add_test(tc, slices_are_trailing_axes);
    tcase_add_loop_test(tc, short_slices_have_a_wider_row_limit, 0, sizeof LIMITS / sizeof *LIMITS);
    tcase_add_test(tc, median_and_selection);
    tcase_add_loop_test(tc, a_slice_of_zeros_asks_for_zeros, 0, sizeof ZEROS / sizeof *ZEROS);
    tcase_add_test(tc, an_exact_reference_does_not_fail_a_rounded_candidate);
    tcase_add_loop_test(tc, special_values, 0, sizeof ODD / sizeof *ODD);
    tcase_add_test(tc, uninformative_at_a_tenth_of_either_reference);
    tcase_add_test(tc, the_worst_output_decides);
    tcase_add_test(tc, integers_are_exact);
    tcase_add_test(tc, empties_scalars_and_shapes);
    tcase_add_test(tc, one_bad_element_in_ten_million_is_found);
    return run_case("error_ratio", tc);
}
