/* SPDX-License-Identifier: Apache-2.0 */
/* max_abs.c - a first plugin: the checker `max_abs`, the largest |candidate - h| is
 * at most `limit`.  docs/plugin_guide.md walks through it.  Reads bf16 and fp32 only. */
#include <jaxbench/checker.h>

#include <math.h>
#include <stdio.h>

struct config {
    double limit;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, limit), .name = "limit",
      .def = "0.01", .min = 0, .max = 1e30, .help = "Largest absolute error that passes." },
};

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host, (void)err;
    *out = (void *)config; /* outlives the instance; there is no other state */
    return 0;
}

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)self, (void)err;
    out->flags = JB_NEED_H;
    return 0;
}

static double element(const jb_tensor *t, int64_t i)
{
    if (t->dtype == JB_DT_BF16) return (double)jb_bf16_to_f32(((const uint16_t *)t->data)[i]);
    return (double)((const float *)t->data)[i];
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    (void)err;
    const struct config *c = self;
    double worst = t->output_count == t->reference_count ? 0 : (double)INFINITY;
    for (uint32_t k = 0; k < t->output_count && worst <= c->limit; k++) {
        const jb_tensor *o = &t->outputs[k], *h = &t->h[k];
        if ((o->dtype != JB_DT_BF16 && o->dtype != JB_DT_F32) || h->dtype != JB_DT_F64) {
            out->status = JB_TRIAL_UNSUPPORTED;
            snprintf(out->reason, sizeof out->reason, "max_abs can't read %s", jb_dtype_name(o->dtype));
            return 0;
        }
        if (o->count != h->count) worst = (double)INFINITY;
        for (int64_t i = 0; i < o->count && o->count == h->count; i++) {
            double e = fabs(element(o, i) - ((const double *)h->data)[i]);
            if (!(e <= worst)) worst = isnan(e) ? (double)INFINITY : e; /* a NaN is not a small error */
        }
    }
    out->score = worst;
    out->threshold = c->limit;
    out->status = worst <= c->limit ? JB_TRIAL_PASS : JB_TRIAL_FAIL;
    snprintf(out->part, sizeof out->part, "max");
    if (worst > c->limit) snprintf(out->reason, sizeof out->reason, "an element is %g off, at most %g is allowed", worst, c->limit);
    return 0;
}

static const jb_checker_ops ops = { .struct_size = sizeof ops, .create = create, .needs = needs, .trial = trial };

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "max_abs",
    .summary = "largest absolute error against h", .options = options, .option_count = sizeof options / sizeof *options,
    .option_size = sizeof(jb_option), .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "example.max_abs",
    .version = "1.0.0", .summary = "An example", .license = "Apache-2.0", .components = components,
};
