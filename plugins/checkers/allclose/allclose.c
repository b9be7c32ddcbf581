/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/checkers/allclose/allclose.c - checker `allclose`: |c - r| <= atol +
 * rtol |side| for every element, the gate of the literature.
 *
 * The published harnesses call allclose(reference, test), so that the *relative*
 * term carries the candidate, not the reference; `relative_to` says which.  An
 * infinity equals itself; NaN equals nothing, unless `equal_nan`.  The score is the
 * largest |c - r| / (atol + rtol |side|) and the threshold 1; where the tolerance is
 * 0 a difference scores +inf.  Blind to outputs much smaller than atol, and stricter
 * than one rounding for large bf16 ones: for comparison with published results, not
 * for trust.  64-bit integers beyond 2^53 are compared after rounding to double. */
#include "../common/elements.h"

#include <stdlib.h>

struct config {
    double atol, rtol;
    const char *against, *relative_to;
    int64_t equal_nan;
};

static const char *const against_choices[] = { "r_jit", "r_op", "h", NULL };
static const char *const side_choices[] = { "reference", "candidate", NULL };

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, atol), .name = "atol",
      .def = "1e-2", .min = 0, .max = 1e30, .help = "Absolute tolerance." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, rtol), .name = "rtol",
      .def = "1e-2", .min = 0, .max = 1e30, .help = "Relative tolerance." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_ENUM, .offset = offsetof(struct config, against), .name = "against",
      .def = "r_jit", .choices = against_choices, .help = "The reference: compiled, operator by operator, or high precision." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_ENUM, .offset = offsetof(struct config, relative_to),
      .name = "relative_to", .def = "candidate", .choices = side_choices,
      .help = "Which side carries rtol; in the published harnesses the candidate." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_BOOL, .offset = offsetof(struct config, equal_nan), .name = "equal_nan",
      .def = "false", .help = "Count NaN as equal to NaN." },
};

struct gate {
    double atol, rtol;
    uint32_t need; /* JB_NEED_* of the reference */
    const char *against;
    int candidate_side, equal_nan;
};

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host;
    const struct config *c = config;
    struct gate *g = malloc(sizeof *g);
    if (g == NULL) return el_error(err, JB_ENOMEM, "allclose: out of memory");
    g->atol = c->atol;
    g->rtol = c->rtol;
    g->against = c->against;
    g->need = strcmp(c->against, "h") == 0 ? JB_NEED_H : strcmp(c->against, "r_op") == 0 ? JB_NEED_R_OP : JB_NEED_R_JIT;
    g->candidate_side = strcmp(c->relative_to, "candidate") == 0;
    g->equal_nan = c->equal_nan != 0;
    *out = g;
    return 0;
}

static void destroy(void *self) { free(self); }

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)err;
    out->flags = ((const struct gate *)self)->need;
    return 0;
}

/* One element's share of its tolerance: 0 when equal, more than 1 when outside. */
static double share(const struct gate *g, double c, double r)
{
    if (c == r || (g->equal_nan && isnan(c) && isnan(r))) return 0;
    if (!isfinite(c) || !isfinite(r)) return (double)INFINITY;
    double tolerance = g->atol + g->rtol * fabs(g->candidate_side ? c : r);
    return tolerance > 0 ? fabs(c - r) / tolerance : (double)INFINITY;
}

/* Elements of the block whose share exceeds `limit`, all that are not finite among
 * them: a filter without branches, for the loop to vectorise. */
static uint64_t suspects(const struct gate *g, const double *c, const double *r, int n, double limit)
{
    const double *side = g->candidate_side ? c : r;
    double atol = limit * g->atol, rtol = limit * g->rtol;
    uint64_t count = 0;
    for (int i = 0; i < n; i++) count += !(fabs(c[i] - r[i]) <= atol + rtol * fabs(side[i]));
    return count;
}

struct tally {
    double largest, outside; /* the score, and how many elements exceed their tolerance */
    struct el_worst worst;
};

static void compare(const struct gate *g, const jb_tensor *output, const jb_tensor *reference, uint32_t k, struct tally *t)
{
    double c[EL_BLOCK], r[EL_BLOCK];
    for (int64_t at = 0; at < output->count; at += EL_BLOCK) {
        int n = el_block(at, output->count);
        el_read(output, at, n, c);
        el_read(reference, at, n, r);
        /* An element counts when it is outside, or when it is among the worst so far. */
        if (suspects(g, c, r, n, t->worst.floor < 1 ? t->worst.floor : 1) == 0) continue;
        for (int i = 0; i < n; i++) {
            double s = share(g, c[i], r[i]);
            t->largest = s > t->largest ? s : t->largest;
            t->outside += s > 1;
            if (s > t->worst.floor) el_worst_add(&t->worst, s, k, at + i, r[i], c[i]);
        }
    }
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    const struct gate *g = self;
    const jb_tensor *reference = g->need == JB_NEED_H ? t->h : g->need == JB_NEED_R_OP ? t->r_op : t->r_jit;
    struct tally tally = { 0 };
    int go = el_comparable(t, reference, g->against, 1, out, err);
    if (go <= 0) return go;
    for (uint32_t k = 0; k < t->output_count; k++) compare(g, &t->outputs[k], &reference[k], k, &tally);
    el_score(out, tally.largest, 1, "max");
    if (out->status == JB_TRIAL_FAIL)
        snprintf(out->reason, sizeof out->reason, "%.0f elements are outside atol %g + rtol %g; the worst is %g, expected %g",
                 tally.outside, g->atol, g->rtol, tally.worst.item[0].candidate, tally.worst.item[0].reference);
    el_worst_write(&tally.worst, t, out);
    return 0;
}

static const jb_checker_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .needs = needs, .trial = trial,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "allclose",
    .summary = "every element within atol + rtol |side|",
    .help = "Score: the largest |c - r| / (atol + rtol |side|); threshold 1. The defaults are the published gate: 1e-2 for both, "
            "against the compiled reference, rtol on the candidate's side.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.allclose",
    .version = "1.0.0", .summary = "Checker allclose", .license = "Apache-2.0", .components = components,
};
