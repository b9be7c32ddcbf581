/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/checkers/error_ratio/error_ratio.c - checker `error_ratio`: the
 * candidate's error against a high-precision answer h, in units of the error that
 * the reference itself makes.
 *
 * With e_c = c - h, e_r = r - h, u the unit roundoff of the reference's dtype:
 *
 *     max   max|e_c| / (max|e_r| + u/2 max|h|)                                <= 1.25
 *     rms   rms(e_c) / (rms(e_r) + u/4 rms(h))                                <= 1.10
 *     row   max over slices i of
 *           rms_i(e_c) / (max(rms_i(e_r), median_j rms_j(e_r))
 *                         + u/4 max(rms_i(h), 1e-3 rms(h)))                   <= 1.75
 *
 * (row: at least 2 where a slice has fewer than 64 elements.)  r is the worse of
 * r_jit and r_op, each denominator taking the larger: neither the reference nor a
 * fused kernel can fail, and the verdict does not move with compiler flags.  Scaling
 * everything by 2^k leaves the scores unchanged.  The floors keep a right kernel
 * from failing where the reference happens to be exact (the known trap of the
 * FlashAttention tests, from which the idea comes).  The result names the partial
 * score that is the largest share of its threshold.
 *
 * A slice on which h is identically 0 passes iff the candidate is 0 there (or at
 * most 2^-126).  Integer and bool outputs are exact: an element must equal a
 * reference.  Inputs under which the reference errs by more than a tenth of the
 * answer, or is not finite where h is, can't judge any kernel: UNINFORMATIVE.  Where
 * NaN and Inf stand is the business of `nonfinite`; here elements whose h is not
 * finite in the dtype are left out, and a candidate that is not finite where h is
 * scores +inf.
 *
 * One pass over the data in blocks, sums in fp64: eight independent partial sums a
 * block, block sums added with Neumaier's compensation. */
#include "../common/elements.h"

#include <stdlib.h>

struct config {
    double max, rms, row;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, max), .name = "max", .def = "1.25",
      .min = 1e-6, .max = 1e6, .help = "Threshold of the largest error." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, rms), .name = "rms", .def = "1.10",
      .min = 1e-6, .max = 1e6, .help = "Threshold of the root mean square error." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, row), .name = "row", .def = "1.75",
      .min = 1e-6, .max = 1e6, .help = "Threshold of the worst slice; at least 2 where a slice has fewer than 64 elements." },
};

#define SHORT_SLICE 64        /* elements; below, the rms of a slice scatters more */
#define SHORT_SLICE_ROW 2.0
#define ZERO 0x1p-126         /* what counts as 0 where h is identically 0 */
#define ILL_CONDITIONED 0.1   /* rms(e_r) / rms(h) from which no kernel can be judged */

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host;
    struct config *c = malloc(sizeof *c);
    if (c == NULL) return el_error(err, JB_ENOMEM, "error_ratio: out of memory");
    memcpy(c, config, sizeof *c);
    *out = c;
    return 0;
}

static void destroy(void *self) { free(self); }

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)self, (void)err;
    out->flags = JB_NEED_R_JIT | JB_NEED_R_OP | JB_NEED_H;
    return 0;
}

/* ---- sums ------------------------------------------------------------------ */

/* Neumaier's compensated sum. */
struct sum {
    double s, c;
};

static void sum_add(struct sum *a, double x)
{
    double t = a->s + x;
    a->c += fabs(a->s) >= fabs(x) ? (a->s - t) + x : (x - t) + a->s;
    a->s = t;
}

static double sum_value(const struct sum *a) { return a->s + a->c; }

enum { EC, EJ, EO, H, SERIES }; /* c - h, r_jit - h, r_op - h, h */

/* What the pass collects of a slice, or of a whole output. */
struct stats {
    struct sum square[SERIES];
    double peak[SERIES]; /* largest magnitudes */
    int64_t n;
    int c_bad, r_bad;    /* not finite where h is */
};

static void stats_merge(struct stats *into, const struct stats *x)
{
    for (int q = 0; q < SERIES; q++) {
        sum_add(&into->square[q], sum_value(&x->square[q]));
        into->peak[q] = fmax(into->peak[q], x->peak[q]);
    }
    into->n += x->n;
    into->c_bad |= x->c_bad;
    into->r_bad |= x->r_bad;
}

static double rms(const struct stats *s, int q) { return s->n > 0 ? sqrt(sum_value(&s->square[q]) / (double)s->n) : 0; }

#define LANES 8 /* independent accumulators: the loop vectorises without a sum being reordered */
#define ROOM (EL_BLOCK + LANES)

struct block {
    double c[ROOM], j[ROOM], o[ROOM], h[ROOM];
    int n;
};

static void block_read(const jb_trial *t, uint32_t k, int64_t at, int n, struct block *b)
{
    el_read(&t->outputs[k], at, n, b->c);
    el_read(&t->r_jit[k], at, n, b->j);
    el_read(&t->r_op[k], at, n, b->o);
    el_read(&t->h[k], at, n, b->h);
    b->n = n;
}

/* Leave out elements whose h is not finite in the dtype (they become 0 everywhere),
 * and note where c or r is not finite though h is.  `top` is the dtype's largest. */
static void block_clean(struct block *b, double top, struct stats *s)
{
    const double any = el_largest(JB_DT_F64);
    uint64_t odd = 0;
    for (int i = 0; i < b->n; i++)
        odd += !(fabs(b->c[i]) <= any) | !(fabs(b->j[i]) <= any) | !(fabs(b->o[i]) <= any) | !(fabs(b->h[i]) <= top);
    s->n += b->n;
    if (odd == 0) return;
    for (int i = 0; i < b->n; i++) {
        double h = b->h[i];
        if (!(fabs(h) <= top)) {
            b->c[i] = b->j[i] = b->o[i] = b->h[i] = 0;
            s->n--;
            continue;
        }
        s->r_bad |= !isfinite(b->j[i]) || !isfinite(b->o[i]);
        s->c_bad |= !isfinite(b->c[i]);
        if (!isfinite(b->c[i])) b->c[i] = h;
        if (!isfinite(b->j[i])) b->j[i] = h;
        if (!isfinite(b->o[i])) b->o[i] = h;
    }
}

/* Squares and largest magnitude of n values, n a multiple of LANES. */
static double add_series(const double *x, int n, struct sum *square, double *peak)
{
    double sq[LANES] = { 0 }, pk[LANES] = { 0 }, largest = 0;
    for (int i = 0; i < n; i += LANES)
        for (int l = 0; l < LANES; l++) {
            double v = x[i + l];
            sq[l] += v * v;
            pk[l] = fabs(v) > pk[l] ? fabs(v) : pk[l];
        }
    for (int l = 0; l < LANES; l++) {
        sum_add(square, sq[l]);
        largest = fmax(largest, pk[l]);
    }
    *peak = fmax(*peak, largest);
    return largest;
}

/* Adds a clean block and leaves c - h, r_jit - h, r_op - h in it; returns the largest |c - h|. */
static double block_add(struct block *b, struct stats *s)
{
    int n = b->n;
    for (; n % LANES != 0; n++) b->c[n] = b->j[n] = b->o[n] = b->h[n] = 0;
    for (int i = 0; i < n; i++) {
        b->c[i] -= b->h[i];
        b->j[i] -= b->h[i];
        b->o[i] -= b->h[i];
    }
    add_series(b->j, n, &s->square[EJ], &s->peak[EJ]);
    add_series(b->o, n, &s->square[EO], &s->peak[EO]);
    add_series(b->h, n, &s->square[H], &s->peak[H]);
    return add_series(b->c, n, &s->square[EC], &s->peak[EC]);
}

/* ---- one output ---------------------------------------------------------------- */

/* Root mean squares of one slice, and what makes its score infinite. */
struct slice {
    double rms[SERIES];
    uint8_t zero;   /* h is identically 0 here */
    uint8_t broken; /* the candidate is not finite, or not 0 where it must be */
};

struct pass {
    const jb_trial *trial;
    uint32_t k;              /* which output */
    double top;              /* largest finite value of the reference's dtype */
    struct stats whole;
    struct slice *slices;
    int64_t slice_count, slice_len;
    struct el_worst worst;   /* by |c - h|, over the whole output */
};

/* Elements of the last `axes` axes together; all of them when there are fewer. */
static int64_t slice_length(const jb_tensor *t, uint32_t axes)
{
    int64_t n = 1;
    for (uint32_t a = t->rank; a-- > 0 && axes-- > 0;) n *= t->dims[a];
    return n > 0 ? n : 1;
}

/* Offer elements [at, at + n) to a list of the worst, as they are. */
static void note_worst(const struct pass *p, int64_t at, int n, struct el_worst *w)
{
    double c[EL_BLOCK], h[EL_BLOCK];
    el_read(&p->trial->outputs[p->k], at, n, c);
    el_read(&p->trial->h[p->k], at, n, h);
    for (int i = 0; i < n; i++)
        if (fabs(h[i]) <= p->top && !(fabs(c[i] - h[i]) <= w->floor)) el_worst_add(w, fabs(c[i] - h[i]), p->k, at + i, h[i], c[i]);
}

static void pass_slice(struct pass *p, int64_t i)
{
    struct stats s = { .n = 0 };
    struct slice *x = &p->slices[i];
    for (int64_t at = i * p->slice_len, end = at + p->slice_len; at < end; at += EL_BLOCK) {
        struct block b;
        block_read(p->trial, p->k, at, el_block(at, end), &b);
        block_clean(&b, p->top, &s);
        if (block_add(&b, &s) > p->worst.floor || s.c_bad) note_worst(p, at, b.n, &p->worst);
    }
    for (int q = 0; q < SERIES; q++) x->rms[q] = rms(&s, q);
    x->zero = s.peak[H] == 0;
    x->broken = s.c_bad || (x->zero && s.peak[EC] > ZERO);
    stats_merge(&p->whole, &s);
}

static int pass_run(struct pass *p)
{
    const jb_tensor *out = &p->trial->outputs[p->k];
    p->top = el_largest(p->trial->r_jit[p->k].dtype);
    p->slice_len = slice_length(out, p->trial->slice_axes > 0 ? p->trial->slice_axes : 1);
    p->slice_count = out->count / p->slice_len;
    p->slices = calloc((size_t)p->slice_count + 1, sizeof *p->slices);
    if (p->slices == NULL) return JB_ENOMEM;
    for (int64_t i = 0; i < p->slice_count; i++) pass_slice(p, i);
    return 0;
}

/* k-th smallest of n > 0 values (Hoare's selection); afterwards v[i] <= v[k] for i < k. */
static double select_kth(double *v, int64_t n, int64_t k)
{
    for (int64_t lo = 0, hi = n - 1; lo < hi;) {
        double pivot = v[lo + (hi - lo) / 2];
        int64_t i = lo, j = hi;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (v[j] > pivot) j--;
            if (i <= j) {
                double x = v[i];
                v[i++] = v[j];
                v[j--] = x;
            }
        }
        if (k <= j) hi = j;
        else if (k >= i) lo = i;
        else break;
    }
    return v[k];
}

/* Median over the slices of one root mean square; the mean of the two middle ones of
 * an even count.  `v` has room for all slices. */
static double median_of(const struct pass *p, int q, double *v)
{
    int64_t n = p->slice_count;
    if (n == 0) return 0;
    for (int64_t i = 0; i < n; i++) v[i] = p->slices[i].rms[q];
    double upper = select_kth(v, n, n / 2), lower = v[0];
    if (n % 2 != 0) return upper;
    for (int64_t i = 1; i < n / 2; i++) lower = fmax(lower, v[i]);
    return 0.5 * (lower + upper);
}

static double ratio(double error, double yardstick)
{
    return error == 0 ? 0 : yardstick > 0 ? error / yardstick : (double)INFINITY;
}

struct scores {
    double max, rms, row;
    int64_t slice; /* the one of the row score */
};

static double row_score(const struct slice *s, double typical, double floor_h, double u)
{
    double yardstick = fmax(fmax(s->rms[EJ], s->rms[EO]), typical) + 0.25 * u * fmax(s->rms[H], floor_h);
    return s->broken ? (double)INFINITY : s->zero ? 0 : ratio(s->rms[EC], yardstick);
}

/* The three partial scores of a finished pass; negative status when out of memory. */
static int scores_of(const struct pass *p, double u, struct scores *out)
{
    const struct stats *w = &p->whole;
    double *v = malloc(((size_t)p->slice_count + 1) * sizeof *v);
    if (v == NULL) return JB_ENOMEM;
    double typical = fmax(median_of(p, EJ, v), median_of(p, EO, v)), floor_h = 1e-3 * rms(w, H);
    free(v);
    out->max = ratio(w->peak[EC], fmax(w->peak[EJ], w->peak[EO]) + 0.5 * u * w->peak[H]);
    out->rms = ratio(rms(w, EC), fmax(rms(w, EJ), rms(w, EO)) + 0.25 * u * rms(w, H));
    if (w->peak[H] == 0) out->max = out->rms = w->peak[EC] > ZERO ? (double)INFINITY : 0;
    if (w->c_bad) out->max = out->rms = (double)INFINITY;
    out->row = 0;
    out->slice = 0;
    for (int64_t i = 0; i < p->slice_count; i++) {
        double e = row_score(&p->slices[i], typical, floor_h, u);
        if (!(e > out->row)) continue;
        out->row = e;
        out->slice = i;
    }
    return 0;
}

/* ---- trial ------------------------------------------------------------------------ */

/* The partial score that is the largest share of its threshold, over all outputs. */
struct state {
    const struct config *o;
    jb_trial_result *out;
    double share;
    struct el_worst worst;
    const char *why; /* instead of the usual reason; NULL */
};

static void consider(struct state *s, double score, double threshold, const char *part, const struct el_worst *worst, const char *why)
{
    double share = isnan(score) ? (double)INFINITY : score / threshold;
    if (share <= s->share) return;
    s->share = share;
    s->worst = *worst;
    s->why = why;
    el_score(s->out, score, threshold, part);
}

static int uninformative(jb_trial_result *out, const char *why)
{
    out->status = JB_TRIAL_UNINFORMATIVE;
    snprintf(out->reason, sizeof out->reason, "%s", why);
    return 1;
}

/* Integer and bool outputs: each element equals one of the references, which differ
 * among themselves only where a rounding decided. */
static void judge_exact(const jb_trial *t, uint32_t k, struct state *s)
{
    const jb_tensor *c = &t->outputs[k], *refs[] = { &t->r_jit[k], &t->r_op[k], &t->h[k] };
    double cv[EL_BLOCK], rv[3][EL_BLOCK], differ = 0;
    struct el_worst worst = { 0 };
    for (int64_t at = 0; at < c->count; at += EL_BLOCK) {
        int n = el_block(at, c->count);
        el_read(c, at, n, cv);
        for (int r = 0; r < 3; r++) el_read(refs[r], at, n, rv[r]);
        for (int i = 0; i < n; i++) {
            int equal = 0;
            for (int r = 0; r < 3; r++) {
                uint32_t size = jb_dtype_size(c->dtype); /* bytes: doubles do not hold every 64-bit integer */
                size_t off = (size_t)(at + i) * size;
                equal |= refs[r]->dtype == c->dtype && c->dtype != JB_DT_BOOL
                             ? memcmp((const char *)c->data + off, (const char *)refs[r]->data + off, size) == 0
                             : cv[i] == rv[r][i];
            }
            if (equal) continue;
            differ++;
            el_worst_add(&worst, fmax(fabs(cv[i] - rv[0][i]), 1), k, at + i, rv[0][i], cv[i]);
        }
    }
    consider(s, differ > 0 ? (double)INFINITY : 0, 1, "exact", &worst, "an output of integers differs from the reference");
}

/* 1: UNINFORMATIVE, and the result says so; 0: go on. */
static int judge_inputs(const struct pass *p, jb_trial_result *out)
{
    double h = rms(&p->whole, H), r = fmax(rms(&p->whole, EJ), rms(&p->whole, EO));
    char text[96];
    if (p->whole.r_bad) return uninformative(out, "the reference is not finite where h is: these inputs leave the dtype's range");
    if (!isfinite(h) || !isfinite(r)) return uninformative(out, "the answers are too large for sums of squares in fp64");
    if (!(r > ILL_CONDITIONED * h)) return 0;
    if (h > 0) snprintf(text, sizeof text, "the reference itself errs by %.3g %% of the answer", 100 * r / h);
    else snprintf(text, sizeof text, "the answer is 0 everywhere and the reference is not");
    return uninformative(out, text);
}

static int judge_scores(const struct pass *p, double u, struct state *s)
{
    const char *why = p->whole.c_bad ? "it is not finite where the answer is" : NULL;
    double limit = p->slice_len < SHORT_SLICE ? fmax(s->o->row, SHORT_SLICE_ROW) : s->o->row;
    struct el_worst in_slice = { 0 };
    struct scores x;
    int status = scores_of(p, u, &x);
    if (status != 0) return status;
    for (int64_t at = x.slice * p->slice_len, end = at + p->slice_len; p->slice_count > 0 && at < end; at += EL_BLOCK)
        note_worst(p, at, el_block(at, end), &in_slice);
    consider(s, x.max, s->o->max, "max", &p->worst, why);
    consider(s, x.rms, s->o->rms, "rms", &p->worst, why);
    if (why == NULL && isinf(x.row) && p->slices[x.slice].zero) why = "it is not 0 on a slice where the answer is";
    consider(s, x.row, limit, "row", &in_slice, why);
    return 0;
}

/* 0: considered; 1: UNINFORMATIVE; negative: status. */
static int judge(const jb_trial *t, uint32_t k, struct state *s)
{
    struct pass p = { .trial = t, .k = k };
    uint32_t dtype = t->r_jit[k].dtype;
    if (!jb_dtype_is_float(dtype)) {
        judge_exact(t, k, s);
        return 0;
    }
    int status = pass_run(&p);
    if (status == 0) status = judge_inputs(&p, s->out);
    if (status == 0) status = judge_scores(&p, jb_dtype_roundoff(dtype), s);
    free(p.slices);
    return status;
}

static void explain(const struct state *s)
{
    jb_trial_result *out = s->out;
    double got = s->worst.count > 0 ? s->worst.item[0].candidate : 0, want = s->worst.count > 0 ? s->worst.item[0].reference : 0;
    if (out->status != JB_TRIAL_FAIL) return;
    if (s->why != NULL) snprintf(out->reason, sizeof out->reason, "%s; the worst is %g, expected %g", s->why, got, want);
    else
        snprintf(out->reason, sizeof out->reason, "%s error is %.3g times the reference's own (at most %.3g); the worst is %g, expected %g",
                 out->part, out->score, out->threshold, got, want);
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    struct state s = { .o = self, .out = out, .share = -1 };
    const jb_tensor *const refs[] = { t->h, t->r_jit, t->r_op };
    static const char *const names[] = { "h", "r_jit", "r_op" };
    for (int r = 0; r < 3; r++) {
        int go = el_comparable(t, refs[r], names[r], s.o->max, out, err);
        if (go <= 0) return go;
    }
    el_score(out, 0, s.o->max, "max"); /* no output at all */
    for (uint32_t k = 0; k < t->output_count; k++) {
        int status = judge(t, k, &s);
        if (status < 0) return el_error(err, status, "error_ratio: out of memory");
        if (status > 0) return 0; /* uninformative */
    }
    explain(&s);
    el_worst_write(&s.worst, t, out);
    return 0;
}

static const jb_checker_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .needs = needs, .trial = trial,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "error_ratio",
    .summary = "error against a high-precision answer, relative to the reference's own",
    .help = "Three scores, all must pass: the largest error, the root mean square error, and the worst slice, each over that of the "
            "reference (the worse of r_jit and r_op) plus a floor of rounding. Scale-free. The reported score is the partial one that is "
            "the largest share of its threshold.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.error_ratio",
    .version = "1.0.0", .summary = "Checker error_ratio", .license = "Apache-2.0", .components = components,
};
