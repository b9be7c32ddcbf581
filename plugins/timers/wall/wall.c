/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/timers/wall/wall.c - timer `wall`: the host's clock around a blocked
 * call, baseline and candidate in turn.
 *
 * The two sides alternate, so that a slow spell of the machine falls on both,
 * and swap who goes first in every round.  What it gives is host time: dispatch
 * and copies included.  Where the candidate runs in an interpreter the numbers
 * are the interpreter's; the result says so and nobody may call it a speedup. */
#include <jaxbench/timer.h>

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config {
    int64_t warmup, samples;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, warmup), .name = "warmup",
      .def = "2", .min = 0, .max = 1000, .unit = "calls", .help = "Calls of each side before the first sample." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, samples), .name = "samples",
      .def = "5", .min = 1, .max = 10000, .unit = "calls", .help = "Timed calls of each side; the median is reported." },
};

struct timer {
    const jb_host *host;
    const struct config *config;
    const jb_device_service *device;
};

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    const jb_device_service *device = host->service(host, JB_SERVICE_DEVICE);
    struct timer *t = device ? calloc(1, sizeof *t) : NULL;
    if (!t) {
        err->code = device ? JB_ENOMEM : JB_EABI;
        snprintf(err->message, sizeof err->message, device ? "wall: out of memory" : "wall needs the service device/1");
        return err->code;
    }
    t->host = host;
    t->config = config;
    t->device = device;
    *out = t;
    return 0;
}

static void destroy(void *self) { free(self); }

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Median of n values without moving them; NaN when memory is out or one is NaN. */
static double median(const double *v, uint32_t n)
{
    double *copy = n ? malloc(n * sizeof *copy) : NULL, m = NAN;
    if (!copy) return NAN;
    memcpy(copy, v, n * sizeof *copy);
    qsort(copy, n, sizeof *copy, ascending);
    m = n % 2 ? copy[n / 2] : 0.5 * (copy[n / 2 - 1] + copy[n / 2]);
    for (uint32_t i = 0; i < n; i++)
        if (isnan(v[i])) m = NAN;
    free(copy);
    return m;
}

/* The smallest step that the device's clock shows, in seconds. */
static double resolution(const struct timer *t)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 16; i++) {
        int64_t a = t->device->now(t->host), b;
        int spins = 0;
        do b = t->device->now(t->host);
        while (b == a && ++spins < 1000000);
        if (b > a && b - a < least) least = b - a;
    }
    return least == INT64_MAX ? 0.0 : (double)least * 1e-9;
}

static int measure(void *self, jb_timing *out, jb_error *err)
{
    struct timer *t = self;
    const jb_device_service *d = t->device;
    int64_t warmup = t->config->warmup, rounds = t->config->samples;
    if (rounds > out->capacity) rounds = out->capacity;
    for (int64_t i = -warmup; i < rounds; i++) {
        double *slots[2] = { out->baseline_s, out->candidate_s };
        for (int k = 0; k < 2; k++) {
            uint32_t side = (uint32_t)((i + warmup + k) & 1);
            int64_t ns = 0;
            int status = d->run(t->host, side, &ns, err);
            if (status) return status;
            if (i >= 0) slots[side][i] = (double)ns * 1e-9;
        }
    }
    out->sample_count = (uint32_t)rounds;
    out->baseline_median_s = median(out->baseline_s, out->sample_count);
    out->candidate_median_s = median(out->candidate_s, out->sample_count);
    double least = resolution(t);
    out->flags = JB_TIMING_MEASURED | (d->interpreted ? JB_TIMING_INTERPRETED : 0u);
    if (!(out->baseline_median_s > least) || !(out->candidate_median_s > least) || !isfinite(out->baseline_median_s) ||
        !isfinite(out->candidate_median_s))
        out->flags |= JB_TIMING_IMPLAUSIBLE;
    snprintf(out->source, sizeof out->source, "host clock around a blocked call, %s%s", d->name(t->host),
             d->interpreted ? " (candidate in interpret mode: no speedup)" : "");
    return 0;
}

static const jb_timer_ops ops = { .struct_size = sizeof ops, .create = create, .destroy = destroy, .measure = measure };

static const jb_component component = {
    .struct_size = sizeof component, .kind = JB_KIND_TIMER, .name = "wall", .summary = "host clock around a blocked call",
    .help = "Warm-up calls, then the median of n, baseline and candidate in turn. On a CPU it times the interpreter and gives no speedup.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.wall",
    .version = "1.0.0", .summary = "Timer wall", .license = "Apache-2.0", .components = components,
};
