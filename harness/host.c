/* SPDX-License-Identifier: Apache-2.0 */
/* harness/host.c - see host.h. */
#include "harness/host.h"

#include "core/base/text.h"

#include <stdio.h>
#include <string.h>

static jb_harness_host *mine(const jb_host *host) { return host->ctx; }

static void log_line(const jb_host *host, uint32_t level, jb_view text)
{
    static const char *const names[] = { "?", "debug", "info", "warn" };
    jb_buf shown = JB_BUF_INIT(8192);
    jb_text_escape(&shown, text.ptr, text.len < 4096 ? (size_t)text.len : 4096, 0);
    fprintf(stderr, "%s: %s: %s\n", mine(host)->name, names[level < 4 ? level : 0], shown.ptr != NULL ? shown.ptr : "");
    jb_buf_free(&shown);
}

static void *arena_alloc(const jb_host *host, uint64_t bytes)
{
    if (bytes > JB_HOST_ARENA_BYTES) return NULL;
    return jb_arena_alloc(mine(host)->arena, (size_t)bytes);
}

static uint64_t rng_u64(const jb_host *host, uint64_t stream, uint64_t counter) { return jb_rng_u64(mine(host)->key, stream, counter); }

static double rng_uniform(const jb_host *host, uint64_t stream, uint64_t counter)
{
    return jb_rng_uniform(mine(host)->key, stream, counter);
}

static const jb_log_service LOG = { .struct_size = sizeof LOG, .log = log_line };
static const jb_arena_service ARENA = { .struct_size = sizeof ARENA, .alloc = arena_alloc };
static const jb_rng_service RNG = { .struct_size = sizeof RNG, .u64 = rng_u64, .uniform = rng_uniform };

static const void *service(const jb_host *host, const char *id)
{
    if (strcmp(id, JB_SERVICE_LOG) == 0) return &LOG;
    if (strcmp(id, JB_SERVICE_ARENA) == 0) return &ARENA;
    if (strcmp(id, JB_SERVICE_RNG) == 0) return &RNG;
    if (strcmp(id, JB_SERVICE_DEVICE) == 0) return mine(host)->device;
    return NULL;
}

int jb_harness_host_init(jb_harness_host *h, const char *name, const char *seed)
{
    memset(h, 0, sizeof *h);
    h->host = (jb_host){ .struct_size = sizeof h->host, .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .ctx = h, .service = service };
    h->name = name;
    h->key = jb_rng_key_of(seed);
    h->arena = jb_arena_new(JB_HOST_ARENA_BYTES);
    return h->arena != NULL ? 0 : JB_ENOMEM;
}

void jb_harness_host_free(jb_harness_host *h)
{
    jb_arena_free(h->arena);
    h->arena = NULL;
}
