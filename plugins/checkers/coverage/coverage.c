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

/* Blocks that are counted as missed are missed, whatever the summary word says. */
static int verdict(void *self, const jb_inspection *x, jb_verdict *out, jb_error *err)
{
    (void)self, (void)err;
    out->threshold = 0;
    out->score = 0;
    out->verdict = JB_VERDICT_INCONCLUSIVE;
    if (x == NULL) {
        snprintf(out->reason, sizeof out->reason, "the module was not inspected");
        return 0;
    }
    const char *detail = x->detail != NULL ? x->detail : "";
    out->score = (double)x->blocks_missed + (double)x->blocks_revisited + (double)x->input_blocks_unread;
    if (x->coverage == JB_COVERAGE_INCOMPLETE && out->score == 0) out->score = 1; /* an empty grid has no blocks to count */
    if (out->score > 0) {
        out->verdict = JB_VERDICT_FAIL;
        if (detail[0] != '\0') snprintf(out->reason, sizeof out->reason, "%s", detail);
        else
            snprintf(out->reason, sizeof out->reason,
                     "of %llu output blocks %llu are never written and %llu revisited; %llu input blocks are never read",
                     (unsigned long long)x->blocks, (unsigned long long)x->blocks_missed,
                     (unsigned long long)x->blocks_revisited, (unsigned long long)x->input_blocks_unread);
    } else if (x->coverage == JB_COVERAGE_COMPLETE) {
        out->verdict = JB_VERDICT_PASS;
        out->reason[0] = '\0';
    } else if (x->coverage == JB_COVERAGE_UNKNOWN) {
        out->verdict = JB_VERDICT_PASS;
        snprintf(out->reason, sizeof out->reason, "coverage: unknown (%.150s)", detail);
    } else {
        snprintf(out->reason, sizeof out->reason, "the inspection has the unknown status %u", x->coverage);
    }
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
