/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi/new_plugin.c - a plugin of a minor that does not exist yet: every
 * struct it hands over has grown at its end, so rows of options are further
 * apart than ours and sizes are larger.  A host of today must load it, step
 * through its options by `option_size`, and give it a struct_size by which it
 * sees that the fields it would like are absent.
 * Built as a MODULE; tests/abi/test_abi_plugins.c loads it. */
#include <jaxbench/timer.h>
#include <stddef.h>

struct new_option { jb_option base; const char *since; uint64_t more[3]; };
struct new_component { jb_component base; const char *const *tags; uint64_t more[2]; };
struct new_ops { jb_timer_ops base; int (*cancel)(void *self); };
struct new_plugin { jb_plugin base; const char *signature; };
struct new_timing { jb_timing base; double *energy_j; };

struct config {
    double value;
    int64_t count;
};

static struct config kept;

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host;
    (void)err;
    kept = *(const struct config *)config;
    *out = &kept;
    return 0;
}

static int measure(void *self, jb_timing *out, jb_error *err)
{
    const struct config *c = self;
    (void)err;
    struct new_timing *grown = (struct new_timing *)(void *)out;
    if (JB_HAS(&grown->base, struct new_timing, energy_j)) return JB_EINTERNAL; /* this host can't have it */
    out->sample_count = 1;
    out->baseline_s[0] = (double)c->count;
    out->candidate_s[0] = c->value;
    return 0;
}

static int cancel(void *self)
{
    (void)self;
    return JB_EINTERNAL; /* nobody of today calls it */
}

static const struct new_ops ops = { { .struct_size = sizeof ops, .create = create, .measure = measure }, cancel };

static const struct new_option options[] = {
    { { .struct_size = sizeof options[0], .type = JB_OPT_FLOAT, .offset = offsetof(struct config, value), .name = "value", .def = "1.25", .help = "a value" },
      "1.9", { 1, 2, 3 } },
    { { .struct_size = sizeof options[0], .type = JB_OPT_INT, .offset = offsetof(struct config, count), .name = "count", .def = "4", .min = 1, .max = 9, .help = "a count" },
      "1.9", { 4, 5, 6 } },
};

static const struct new_component component = {
    { .struct_size = sizeof component, .kind = JB_KIND_TIMER, .name = "abi_new", .summary = "a timer of a later minor", .options = &options[0].base, .option_count = 2,
      .option_size = sizeof options[0], .config_size = sizeof(struct config), .ops = &ops.base },
    NULL, { 7, 8 },
};
static const jb_component *const components[] = { &component.base, NULL };

extern JB_EXPORT const struct new_plugin jb_plugin_v1;
const struct new_plugin jb_plugin_v1 = {
    { .struct_size = sizeof(struct new_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = 999, .id = "test.abi.new", .version = "9.0.0", .summary = "as built against ABI 1.999",
      .license = "Apache-2.0", .components = components },
    "signature",
};
