/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/checkers/nonfinite/nonfinite.c - checker `nonfinite`: NaN, +Inf and
 * -Inf stand where h, rounded to the reference's dtype, has them, and nowhere else.
 *
 * The pattern is compared, not "any NaN fails": a kernel that carries a NaN of its
 * inputs on is right.  Where the compiled reference is not finite though h is, the
 * inputs are beyond the dtype's range and the trial says nothing about the
 * candidate.  The two options are those of XLA's ErrorSpec.  Looks at no finite
 * value; outputs of other than float dtypes have nothing to look at. */
#include "../common/elements.h"

#include <stdlib.h>

struct config {
    int64_t relaxed_nans, fewer_infs;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_BOOL, .offset = offsetof(struct config, relaxed_nans),
      .name = "relaxed_nans", .def = "false", .help = "Accept any value where h is NaN." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_BOOL, .offset = offsetof(struct config, fewer_infs),
      .name = "fewer_infs", .def = "false",
      .help = "Where h overflows the dtype, accept a finite value of at least 0.99 of the largest one, of the same sign." },
};

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host;
    struct config *c = malloc(sizeof *c);
    if (c == NULL) return el_error(err, JB_ENOMEM, "nonfinite: out of memory");
    memcpy(c, config, sizeof *c);
    *out = c;
    return 0;
}

static void destroy(void *self) { free(self); }

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)self, (void)err;
    out->flags = JB_NEED_R_JIT | JB_NEED_H;
    return 0;
}

/* The magnitude from which rounding to nearest gives Inf: half an ulp above the
 * largest finite value, a tie that goes to the even neighbour, Inf. */
static double overflows_from(uint32_t dtype)
{
    switch (dtype) {
    case JB_DT_BF16: return 0x1.FFp127;
    case JB_DT_F16: return 65520.0;
    case JB_DT_F32: return 0x1.FFFFFFp127;
    default: return (double)INFINITY;
    }
}

enum { FINITE, IS_NAN, PLUS_INF, MINUS_INF };
static const char *const class_word[] = { "finite", "NaN", "+Inf", "-Inf" };

static int class_of(double v) { return isnan(v) ? IS_NAN : isinf(v) ? (v > 0 ? PLUS_INF : MINUS_INF) : FINITE; }

/* The class h has once it is rounded. */
static int class_rounded(double h, double edge)
{
    return isfinite(h) && fabs(h) >= edge ? (h > 0 ? PLUS_INF : MINUS_INF) : class_of(h);
}

static int accepted(const struct config *o, int want, int got, double c, double top)
{
    if (want == got) return 1;
    if (want == IS_NAN) return o->relaxed_nans != 0;
    return o->fewer_infs && want != FINITE && got == FINITE && (want == PLUS_INF ? c : -c) >= 0.99 * top;
}

/* Elements of a block with something that is not finite, or an h that overflows. */
static uint64_t suspects(const double *c, const double *r, const double *h, int n, double edge)
{
    const double top = el_largest(JB_DT_F64);
    uint64_t count = 0;
    for (int i = 0; i < n; i++) count += !(fabs(c[i]) <= top) | !(fabs(r[i]) <= top) | !(fabs(h[i]) < edge);
    return count;
}

struct tally {
    double nan, inf;         /* elements that differ: NaN on either side; Inf */
    int unsafe;              /* the reference is not finite where h is */
    int want, got;           /* classes of the first that differs */
    struct el_worst worst;
};

static void compare(const struct config *o, const jb_trial *t, uint32_t k, struct tally *s)
{
    const uint32_t dtype = t->r_jit[k].dtype;
    const double edge = overflows_from(dtype), top = el_largest(dtype);
    double c[EL_BLOCK], r[EL_BLOCK], h[EL_BLOCK];
    for (int64_t at = 0; at < t->outputs[k].count && !s->unsafe; at += EL_BLOCK) {
        int n = el_block(at, t->outputs[k].count);
        el_read(&t->outputs[k], at, n, c);
        el_read(&t->r_jit[k], at, n, r);
        el_read(&t->h[k], at, n, h);
        if (suspects(c, r, h, n, edge) == 0) continue;
        for (int i = 0; i < n; i++) {
            int want = class_rounded(h[i], edge), got = class_of(c[i]);
            s->unsafe |= want == FINITE && class_of(r[i]) != FINITE;
            if (accepted(o, want, got, c[i], top)) continue;
            if (s->nan + s->inf == 0) s->want = want, s->got = got;
            *(want == IS_NAN || got == IS_NAN ? &s->nan : &s->inf) += 1;
            el_worst_add(&s->worst, want == IS_NAN || got == IS_NAN ? 2 : 1, k, at + i, h[i], c[i]);
        }
    }
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    struct tally s = { 0 };
    int go = el_comparable(t, t->h, "h", 0, out, err);
    if (go > 0) go = el_comparable(t, t->r_jit, "r_jit", 0, out, err);
    if (go <= 0) return go;
    for (uint32_t k = 0; k < t->output_count && !s.unsafe; k++)
        if (jb_dtype_is_float(t->r_jit[k].dtype)) compare(self, t, k, &s);
    if (s.unsafe) {
        out->status = JB_TRIAL_UNINFORMATIVE;
        snprintf(out->reason, sizeof out->reason, "the reference is not finite where h is: these inputs leave the dtype's range");
        return 0;
    }
    double bad = s.nan + s.inf;
    el_score(out, bad, 0, s.nan > 0 ? "nan" : s.inf > 0 ? "inf" : "mask");
    if (bad > 0)
        snprintf(out->reason, sizeof out->reason, "%.0f elements are of the wrong class; the first is %s, expected %s", bad,
                 class_word[s.got], class_word[s.want]);
    el_worst_write(&s.worst, t, out);
    return 0;
}

static const jb_checker_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .needs = needs, .trial = trial,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "nonfinite",
    .summary = "NaN and Inf stand where they must, and nowhere else",
    .help = "Score: elements whose class (finite, NaN, +Inf, -Inf) differs from that of h rounded to the reference's dtype; threshold 0.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.nonfinite",
    .version = "1.0.0", .summary = "Checker nonfinite", .license = "Apache-2.0", .components = components,
};
