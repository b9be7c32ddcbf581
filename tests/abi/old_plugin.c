/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi/old_plugin.c - a plugin as ABI 1.0 saw it, for ever.
 *
 * It includes none of our headers: these are its own copies of the structs of
 * minor 0, so that it stays what it is when the headers grow.  Its manifest is
 * shorter still: it ends before the optional `open` and `close`, and what lies
 * behind it in memory is poison that a host must not read as functions.
 * Built as a MODULE; tests/abi/test_abi_plugins.c loads it. */
#include <stddef.h>
#include <stdint.h>

typedef struct old_error {
    uint32_t struct_size;
    int32_t code;
    uint32_t flags, reserved;
    char message[512], hint[256], where[128];
} old_error;

typedef struct old_option {
    uint32_t struct_size, type, flags, offset;
    const char *name, *def;
    double min, max;
    const char *const *choices;
    const char *unit, *help;
} old_option;

typedef struct old_component {
    uint32_t struct_size, flags;
    const char *kind, *name, *summary, *help;
    const old_option *options;
    uint32_t option_count, option_size, config_size, reserved;
    const void *ops;
} old_component;

typedef struct old_plugin {
    uint32_t struct_size;
    uint16_t abi_major, abi_minor;
    const char *id, *version, *summary, *license, *homepage;
    const old_component *const *components;
} old_plugin;

typedef struct old_timing {
    uint32_t struct_size, flags, capacity, sample_count;
    double *baseline_s, *candidate_s;
    double baseline_median_s, candidate_median_s;
    char source[96];
} old_timing;

typedef struct old_timer_ops {
    uint32_t struct_size, reserved;
    int (*create)(const void *host, const void *config, void **out, old_error *err);
    void (*destroy)(void *self);
    int (*measure)(void *self, old_timing *out, old_error *err);
} old_timer_ops;

struct config {
    int64_t samples;
    double scale;
    const char *mode;
};

static struct config kept;

static int create(const void *host, const void *config, void **out, old_error *err)
{
    (void)host;
    (void)err;
    kept = *(const struct config *)config;
    *out = &kept;
    return 0;
}

static int measure(void *self, old_timing *out, old_error *err)
{
    const struct config *c = self;
    if (c->samples > (int64_t)out->capacity) {
        err->code = -1;
        err->message[0] = 'x';
        err->message[1] = '\0';
        return -1;
    }
    for (int64_t i = 0; i < c->samples; i++) {
        out->baseline_s[i] = 2 * c->scale;
        out->candidate_s[i] = c->scale;
    }
    out->sample_count = (uint32_t)c->samples;
    out->baseline_median_s = 2 * c->scale;
    out->candidate_median_s = c->scale;
    out->flags = 1; /* measured */
    for (int i = 0; c->mode[i] && i < 95; i++) out->source[i] = c->mode[i];
    return 0;
}

static const old_timer_ops ops = { sizeof ops, 0, create, NULL, measure };

static const char *const modes[] = { "slow", "fast", NULL };
static const old_option options[] = {
    { sizeof options[0], 2, 0, offsetof(struct config, samples), "samples", "3", 1, 100, NULL, "samples", "how many" },
    { sizeof options[0], 3, 0, offsetof(struct config, scale), "scale", "0.5", 0, 0, NULL, "s", "seconds of one" },
    { sizeof options[0], 5, 0, offsetof(struct config, mode), "mode", "slow", 0, 0, modes, NULL, "which" },
};

static const old_component component = { sizeof component, 0, "jb.timer/1", "abi_old", "a timer of ABI 1.0", NULL, options, 3, sizeof options[0], sizeof(struct config), 0, &ops };
static const old_component *const components[] = { &component, NULL };

/* The manifest, and poison where a newer one has functions. */
struct exported {
    old_plugin manifest;
    uintptr_t poison[4];
};
extern __attribute__((visibility("default"))) const struct exported jb_plugin_v1;
const struct exported jb_plugin_v1 = {
    { sizeof(old_plugin), 1, 0, "test.abi.old", "1.0.0", "as built against ABI 1.0", "Apache-2.0", NULL, components },
    { 0xdeadbeef, 0xdeadbeef, 0xdeadbeef, 0xdeadbeef },
};
