/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/checkers/shape_dtype/shape_dtype.c - checker `shape_dtype`: number,
 * rank, sizes and dtype of the outputs equal those of the compiled reference.
 * No broadcasting, no casts: a harness that casts before it compares lets an fp8
 * or a bool answer pass.  Looks at no value. */
#include <jaxbench/checker.h>

#include <stdio.h>

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host, (void)config, (void)err;
    static char nothing; /* no state, no options */
    *out = &nothing;
    return 0;
}

static void destroy(void *self) { (void)self; }

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)self, (void)err;
    out->flags = JB_NEED_R_JIT;
    return 0;
}

/* "bfloat16[512,8192]" */
static void describe(const jb_tensor *t, char *out, size_t size)
{
    int n = snprintf(out, size, "%s[", jb_dtype_name(t->dtype));
    for (uint32_t i = 0; i < t->rank && n > 0 && (size_t)n < size; i++)
        n += snprintf(out + n, size - (size_t)n, "%s%lld", i ? "," : "", (long long)t->dims[i]);
    if (n > 0 && (size_t)n < size) snprintf(out + n, size - (size_t)n, "]");
}

static int equal(const jb_tensor *a, const jb_tensor *b)
{
    int same = a->dtype == b->dtype && a->rank == b->rank;
    for (uint32_t i = 0; same && i < a->rank; i++) same = a->dims[i] == b->dims[i];
    return same;
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    (void)self, (void)err;
    uint32_t bad = 0;
    if (t->output_count != t->reference_count) {
        bad = 1;
        snprintf(out->reason, sizeof out->reason, "%u outputs, expected %u", t->output_count, t->reference_count);
    }
    for (uint32_t i = 0; i < t->output_count && i < t->reference_count; i++)
        if (!equal(&t->outputs[i], &t->r_jit[i])) {
            char got[72], want[72];
            describe(&t->outputs[i], got, sizeof got);
            describe(&t->r_jit[i], want, sizeof want);
            if (!bad++) snprintf(out->reason, sizeof out->reason, "output %u is %s, expected %s", i, got, want);
        }
    out->score = (double)bad;
    out->threshold = 0;
    out->status = bad ? JB_TRIAL_FAIL : JB_TRIAL_PASS;
    snprintf(out->part, sizeof out->part, "metadata");
    return 0;
}

static const jb_checker_ops ops = { .struct_size = sizeof ops, .create = create, .destroy = destroy, .needs = needs, .trial = trial };

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "shape_dtype",
    .summary = "outputs have the reference's number, shapes and dtypes",
    .help = "Score: outputs that differ; threshold 0.",
    .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.shape_dtype",
    .version = "1.0.0", .summary = "Checker shape_dtype", .license = "Apache-2.0", .components = components,
};
