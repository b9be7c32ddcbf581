/* SPDX-License-Identifier: Apache-2.0 */
/* harness/host.h - the jb_host that checkers and timers meet in an executor:
 * log/1 (to the child's stderr), arena/1, rng/1, and device/1 for timers. */
#ifndef JB_HARNESS_HOST_H
#define JB_HARNESS_HOST_H

#include "core/base/mem.h"
#include "core/base/rng.h"
#include <jaxbench/timer.h>

#define JB_HOST_ARENA_BYTES ((size_t)256 << 20)

typedef struct jb_harness_host {
    jb_host host;
    const char *name;  /* of the component, for log lines */
    jb_arena *arena;
    jb_rng_key key;
    const jb_device_service *device; /* NULL: not a timer */
    void *device_ctx;
} jb_harness_host;

/* `name` outlives it; `seed` is any text.  0 or JB_ENOMEM. */
int jb_harness_host_init(jb_harness_host *h, const char *name, const char *seed);
void jb_harness_host_free(jb_harness_host *h);

#endif
