/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/checkers/common/elements.h - what several checkers share: reading
 * elements of any dtype as doubles a block at a time, the list of the worst
 * elements, and writing results.  Judges nothing.  Header-only; includes only
 * the public ABI, so that a checker stays one shared object. */
#ifndef JB_CHECKER_ELEMENTS_H
#define JB_CHECKER_ELEMENTS_H

#include <jaxbench/checker.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#define EL_BLOCK 1024 /* elements converted at a time: four blocks of doubles stay in L2 */

/* ---- reading ------------------------------------------------------------ */

/* fp16 to fp32, exactly and without a branch.  Exponent and fraction move into
 * place and are scaled by 2^112, which also normalises subnormals; Inf and NaN
 * then get the exponent that fp32 has for them. */
static inline float el_f16_to_f32(uint16_t bits)
{
    uint32_t w = (uint32_t)(bits & 0x7fffu) << 13;
    uint32_t special = (bits & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
    float f;
    memcpy(&f, &w, sizeof f);
    f *= 0x1p112f;
    memcpy(&w, &f, sizeof w);
    w |= special | (uint32_t)(bits & 0x8000u) << 16;
    memcpy(&f, &w, sizeof f);
    return f;
}

/* Elements [at, at + n) of `t` as doubles.  One loop a dtype, so that the
 * compiler can vectorise it.  64-bit integers beyond 2^53 round; NaN for a dtype
 * that is not known. */
static inline void el_read(const jb_tensor *t, int64_t at, int n, double *out)
{
#define EL_LOOP(type, expr)                                  \
    do {                                                     \
        const type *p = (const type *)t->data + at;          \
        for (int i = 0; i < n; i++) out[i] = (double)(expr); \
    } while (0)
    switch (t->dtype) {
    case JB_DT_BF16: EL_LOOP(uint16_t, jb_bf16_to_f32(p[i])); break;
    case JB_DT_F16: EL_LOOP(uint16_t, el_f16_to_f32(p[i])); break;
    case JB_DT_F32: EL_LOOP(float, p[i]); break;
    case JB_DT_F64: EL_LOOP(double, p[i]); break;
    case JB_DT_BOOL: EL_LOOP(uint8_t, p[i] != 0); break;
    case JB_DT_U8: EL_LOOP(uint8_t, p[i]); break;
    case JB_DT_I8: EL_LOOP(int8_t, p[i]); break;
    case JB_DT_I16: EL_LOOP(int16_t, p[i]); break;
    case JB_DT_U16: EL_LOOP(uint16_t, p[i]); break;
    case JB_DT_I32: EL_LOOP(int32_t, p[i]); break;
    case JB_DT_U32: EL_LOOP(uint32_t, p[i]); break;
    case JB_DT_I64: EL_LOOP(int64_t, p[i]); break;
    case JB_DT_U64: EL_LOOP(uint64_t, p[i]); break;
    default:
        for (int i = 0; i < n; i++) out[i] = (double)NAN;
    }
#undef EL_LOOP
}

/* How many elements the block that starts at `at` has. */
static inline int el_block(int64_t at, int64_t end) { return end - at < EL_BLOCK ? (int)(end - at) : EL_BLOCK; }

/* Largest finite value of a float dtype. */
static inline double el_largest(uint32_t dtype)
{
    switch (dtype) {
    case JB_DT_BF16: return 0x1.FEp127;
    case JB_DT_F16: return 65504.0;
    case JB_DT_F32: return 0x1.FFFFFEp127;
    default: return 0x1.FFFFFFFFFFFFFp1023;
    }
}

/* ---- the worst elements --------------------------------------------------- */

/* The JB_WORST_MAX elements of the largest badness, worst first; of equals the
 * earlier stays.  An element enters iff its badness exceeds `floor`: callers test
 * that first, so that the common element costs one comparison.  A badness of 0
 * never enters. */
struct el_worst {
    int count;
    double floor, bad[JB_WORST_MAX];
    struct {
        uint32_t output;
        int64_t at; /* flat position in that output */
        double reference, candidate;
    } item[JB_WORST_MAX];
};

static inline void el_worst_add(struct el_worst *w, double bad, uint32_t output, int64_t at, double reference, double candidate)
{
    if (isnan(bad)) bad = (double)INFINITY;
    if (!(bad > w->floor)) return;
    int i = w->count < JB_WORST_MAX ? w->count++ : JB_WORST_MAX - 1;
    for (; i > 0 && w->bad[i - 1] < bad; i--) {
        w->bad[i] = w->bad[i - 1];
        w->item[i] = w->item[i - 1];
    }
    w->bad[i] = bad;
    w->item[i].output = output;
    w->item[i].at = at;
    w->item[i].reference = reference;
    w->item[i].candidate = candidate;
    w->floor = w->count == JB_WORST_MAX ? w->bad[JB_WORST_MAX - 1] : 0.0;
}

/* Into the result; flat positions become indices of the outputs' shapes. */
static inline void el_worst_write(const struct el_worst *w, const jb_trial *trial, jb_trial_result *out)
{
    out->worst_count = (uint32_t)w->count;
    for (int i = 0; i < w->count; i++) {
        const jb_tensor *t = &trial->outputs[w->item[i].output];
        jb_worst *x = &out->worst[i];
        int64_t rest = w->item[i].at;
        memset(x, 0, sizeof *x);
        x->output = w->item[i].output;
        x->rank = t->rank;
        x->reference = w->item[i].reference;
        x->candidate = w->item[i].candidate;
        for (uint32_t a = t->rank; a-- > 0 && t->dims[a] > 0;) {
            x->index[a] = rest % t->dims[a];
            rest /= t->dims[a];
        }
    }
}

/* ---- results ---------------------------------------------------------------- */

/* Score against threshold decides; a NaN score fails as +inf. */
static inline void el_score(jb_trial_result *out, double score, double threshold, const char *part)
{
    out->score = isnan(score) ? (double)INFINITY : score;
    out->threshold = threshold;
    out->status = out->score <= threshold ? JB_TRIAL_PASS : JB_TRIAL_FAIL;
    snprintf(out->part, sizeof out->part, "%s", part);
}

static inline int el_same_shape(const jb_tensor *a, const jb_tensor *b)
{
    int same = a->rank == b->rank && a->count == b->count;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

/* An error of the checker itself, never of the candidate. */
static inline int el_error(jb_error *err, int code, const char *text)
{
    if (err != NULL) {
        err->code = code;
        snprintf(err->message, sizeof err->message, "%s", text);
    }
    return code;
}

/* Can outputs and this reference be compared element by element?  1: yes.  0: no,
 * because of the candidate, and `out` says why (a failed trial for a wrong count or
 * shape).  Negative: the reference is missing or is not one, which is the host's fault. */
static inline int el_comparable(const jb_trial *t, const jb_tensor *reference, const char *name, double threshold,
                                jb_trial_result *out, jb_error *err)
{
    char text[128];
    if (reference == NULL && t->reference_count > 0) {
        snprintf(text, sizeof text, "the host was asked for the reference %s and gave none", name);
        return el_error(err, JB_EINVAL, text);
    }
    if (t->output_count != t->reference_count) {
        el_score(out, (double)INFINITY, threshold, "tree");
        snprintf(out->reason, sizeof out->reason, "%u outputs, expected %u", t->output_count, t->reference_count);
        return 0;
    }
    for (uint32_t i = 0; i < t->output_count; i++) {
        if (jb_dtype_size(reference[i].dtype) == 0) {
            snprintf(text, sizeof text, "reference %s of output %u has the unknown dtype %u", name, i, reference[i].dtype);
            return el_error(err, JB_EINVAL, text);
        }
        if (!el_same_shape(&t->outputs[i], &reference[i])) {
            el_score(out, (double)INFINITY, threshold, "shape");
            snprintf(out->reason, sizeof out->reason, "output %u has another shape than the reference", i);
            return 0;
        }
        if (jb_dtype_size(t->outputs[i].dtype) == 0) {
            out->status = JB_TRIAL_UNSUPPORTED;
            snprintf(out->reason, sizeof out->reason, "output %u has a dtype this checker can't read", i);
            return 0;
        }
    }
    return 1;
}

#endif
