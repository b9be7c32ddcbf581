/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/checkers/coverage/coverage.c - checker `coverage`: every block of every
 * output is written, in one run of grid steps, and every input block that must be
 * read is read.  Decided without executing anything, from the inspection of the
 * module that is timed; values at other shapes can't show a lost tail.  Coverage
 * that can't be known (index maps that depend on run-time data, outputs in ANY
 * memory) is a label, not a fault. */
#include <jaxbench/checker.h>

#include <stdio.h>

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host, (void)config, (void)err;
    static char nothing;
    *out = &nothing;
    return 0;
}

static void destroy(void *self) { (void)self; }

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)self, (void)err;
    out->flags = JB_NEED_INSPECTION;
    return 0;
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    (void)self, (void)t, (void)err;
    out->status = JB_TRIAL_UNSUPPORTED;
    snprintf(out->reason, sizeof out->reason, "coverage is judged without trials");
    return 0;
}

static int verdict(void *self, const jb_inspection *x, jb_verdict *out, jb_error *err)
{
    (void)self, (void)err;
    out->threshold = 0;
    out->score = 0;
    if (!x) {
        out->verdict = JB_VERDICT_INCONCLUSIVE;
        snprintf(out->reason, sizeof out->reason, "the module was not inspected");
        return 0;
    }
    out->score = (double)(x->blocks_missed + x->blocks_revisited + x->input_blocks_unread);
    if (x->coverage == JB_COVERAGE_INCOMPLETE && out->score == 0) out->score = 1; /* an empty grid has no blocks to count */
    out->verdict = x->coverage == JB_COVERAGE_INCOMPLETE ? JB_VERDICT_FAIL : JB_VERDICT_PASS;
    if (x->coverage == JB_COVERAGE_INCOMPLETE) snprintf(out->reason, sizeof out->reason, "%s", x->detail ? x->detail : "");
    if (x->coverage == JB_COVERAGE_UNKNOWN) snprintf(out->reason, sizeof out->reason, "coverage: unknown (%.150s)", x->detail ? x->detail : "");
    return 0;
}

static const jb_checker_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .needs = needs, .trial = trial, .verdict = verdict,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "coverage",
    .summary = "every output block is written once, every input block read",
    .help = "Score: blocks missed, revisited or unread in the module that is timed; threshold 0.",
    .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.coverage",
    .version = "1.0.0", .summary = "Checker coverage", .license = "Apache-2.0", .components = components,
};
