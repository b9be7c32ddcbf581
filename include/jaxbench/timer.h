/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/timer.h - kind jb.timer/1: what counts as fast.
 *
 * A timer runs in the executor process and drives a pair of compiled programs,
 * the baseline (the workload through XLA) and the candidate, through the
 * device/1 service.  It says what its numbers are; nothing it returns is
 * called a speedup unless both sides come from one call of one timer on a
 * device that runs the kernel natively (JB_TIMING_INTERPRETED not set). */
#ifndef JAXBENCH_TIMER_H
#define JAXBENCH_TIMER_H

#include <jaxbench/plugin.h>

#define JB_SIDE_BASELINE 0u
#define JB_SIDE_CANDIDATE 1u

/* device/1, offered to timers.  [instance] */
#define JB_SERVICE_DEVICE "device/1"
typedef struct jb_device_service {
    uint32_t struct_size;
    uint32_t interpreted; /* 1: Pallas kernels run in interpret mode here */
    /* Name of the device that runs the programs, e.g. "cpu" or "TPU v6 lite". */
    const char *(*name)(const jb_host *host);
    /* Execute one side once and wait until every output is ready.
     * `elapsed_ns` (nullable) is monotonic time of the call.  Inputs rotate
     * over the buffers the host prepared. */
    int (*run)(const jb_host *host, uint32_t side, int64_t *elapsed_ns, jb_error *err);
    /* A monotonic clock in nanoseconds. */
    int64_t (*now)(const jb_host *host);
} jb_device_service;

#define JB_TIMING_MEASURED 1u    /* else an estimate */
#define JB_TIMING_INTERPRETED 2u /* the candidate ran in an interpreter: no speedup */
#define JB_TIMING_IMPLAUSIBLE 4u /* zero, negative, NaN, or below the clock's resolution */

/* Result, in the host's struct.  Sample arrays are the host's, `capacity` long
 * each; the timer fills and counts.  Seconds. */
typedef struct jb_timing {
    uint32_t struct_size;
    uint32_t flags;      /* JB_TIMING_* */
    uint32_t capacity;
    uint32_t sample_count;
    double *baseline_s, *candidate_s;
    double baseline_median_s, candidate_median_s;
    char source[96]; /* "host clock around a blocked call, cpu (interpret)" */
} jb_timing;

typedef struct jb_timer_ops {
    uint32_t struct_size;
    uint32_t reserved;
    int (*create)(const jb_host *host, const void *config, void **out, jb_error *err); /* [main] */
    void (*destroy)(void *self);
    int (*measure)(void *self, jb_timing *out, jb_error *err); /* [instance] */
} jb_timer_ops;

#endif
