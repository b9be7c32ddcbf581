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

static int fail(jb_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "wall: %s", text);
    return code;
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    const jb_device_service *device = host->service(host, JB_SERVICE_DEVICE);
    if (device == NULL) return fail(err, JB_EABI, "needs the service device/1, which this host does not offer");
    struct timer *t = calloc(1, sizeof *t);
    if (t == NULL) return fail(err, JB_ENOMEM, "out of memory");
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

/* Median of n values, which stay as they are; `room` has space for n.  NaN for none. */
static double median(const double *v, uint32_t n, double *room)
{
    if (n == 0) return (double)NAN;
    memcpy(room, v, n * sizeof *room);
    qsort(room, n, sizeof *room, ascending);
    return n % 2 != 0 ? room[n / 2] : 0.5 * (room[n / 2 - 1] + room[n / 2]);
}

/* The smallest step that the device's clock shows, in seconds; 0 when it stands still. */
static double resolution(const struct timer *t)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < 16; i++) {
        int64_t a = t->device->now(t->host), b = a;
        for (int spins = 0; b == a && spins < 100000; spins++) b = t->device->now(t->host);
        if (b > a && b - a < least) least = b - a;
    }
    return least == INT64_MAX ? 0.0 : (double)least * 1e-9;
}

/* Every sample is a positive time, and the median is more than one step of the clock. */
static int plausible(const double *v, uint32_t n, double median_s, double step)
{
    int good = n > 0 && isfinite(median_s) && median_s > step;
    for (uint32_t i = 0; i < n; i++) good = good && isfinite(v[i]) && v[i] > 0;
    return good;
}

/* Rounds below 0 are warm-ups: run, not kept. */
static int run_rounds(struct timer *t, int64_t rounds, jb_timing *out, jb_error *err)
{
    double *slots[2];
    slots[JB_SIDE_BASELINE] = out->baseline_s;
    slots[JB_SIDE_CANDIDATE] = out->candidate_s;
    for (int64_t i = -t->config->warmup; i < rounds; i++)
        for (int k = 0; k < 2; k++) {
            uint32_t side = (uint32_t)(i + k) & 1u; /* the other side first in the next round */
            int64_t ns = 0;
            int status = t->device->run(t->host, side, &ns, err);
            if (status != 0) return status;
            if (i >= 0) slots[side][i] = (double)ns * 1e-9;
        }
    return 0;
}

static int measure(void *self, jb_timing *out, jb_error *err)
{
    struct timer *t = self;
    const jb_device_service *d = t->device;
    int64_t rounds = t->config->samples < out->capacity ? t->config->samples : out->capacity;
    double *room = malloc((size_t)(rounds + 1) * sizeof *room);
    if (room == NULL) return fail(err, JB_ENOMEM, "out of memory");
    int status = run_rounds(t, rounds, out, err);
    if (status == 0) {
        uint32_t n = (uint32_t)rounds;
        double step = resolution(t);
        out->sample_count = n;
        out->baseline_median_s = median(out->baseline_s, n, room);
        out->candidate_median_s = median(out->candidate_s, n, room);
        out->flags = JB_TIMING_MEASURED | (d->interpreted ? JB_TIMING_INTERPRETED : 0u);
        if (!plausible(out->baseline_s, n, out->baseline_median_s, step) || !plausible(out->candidate_s, n, out->candidate_median_s, step))
            out->flags |= JB_TIMING_IMPLAUSIBLE;
        snprintf(out->source, sizeof out->source, "host clock around a blocked call on %s%s", d->name(t->host),
                 d->interpreted ? "; candidate in interpret mode: no speedup" : "");
    }
    free(room);
    return status;
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
