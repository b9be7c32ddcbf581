/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/mem.c - one allocator, so that a test can make the n-th allocation
 * fail, and an arena of 64-byte aligned chunks.  The allocator may be called
 * from any thread; which thread's allocation is the n-th is then chance, so
 * failure sweeps are for single-threaded tests.  An arena has one owner. */
#include "core/base/mem.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long fail_at, made;
static atomic_int fail_sticky;

void jb_mem_fail_after(long n, int sticky)
{
    fail_at = n;
    fail_sticky = sticky;
    made = 0;
}

long jb_mem_count(void) { return made; }

static int must_fail(void)
{
    long n = atomic_fetch_add_explicit(&made, 1, memory_order_relaxed) + 1;
    long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    if (at <= 0) return 0;
    return atomic_load_explicit(&fail_sticky, memory_order_relaxed) ? n >= at : n == at;
}

void *jb_alloc(size_t bytes)
{
    if (must_fail()) return NULL;
    return calloc(1, bytes ? bytes : 1);
}

void *jb_alloc_array(size_t count, size_t size)
{
    if (size && count > SIZE_MAX / size) return NULL;
    return jb_alloc(count * size);
}

void *jb_realloc(void *p, size_t bytes)
{
    if (must_fail()) return NULL;
    return realloc(p, bytes ? bytes : 1);
}

void jb_free(void *p) { free(p); }

char *jb_strndup(const char *s, size_t n)
{
    if (!s) return NULL;
    n = strnlen(s, n);
    char *copy = jb_alloc(n + 1);
    if (copy) memcpy(copy, s, n);
    return copy;
}

char *jb_strdup(const char *s) { return s ? jb_strndup(s, strlen(s)) : NULL; }

char *jb_asprintf(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) return NULL;
    char *s = jb_alloc((size_t)n + 1);
    if (!s) return NULL;
    va_start(ap, fmt);
    vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

/* ---- arena ------------------------------------------------------------ */

#define ALIGN 64u
#define CHUNK 65536u

/* A chunk's memory follows its header; `used` counts from the first aligned byte. */
struct chunk {
    struct chunk *next;
    size_t size, used;
    unsigned char *base;
};

struct jb_arena {
    struct chunk *chunks; /* the one in use first */
    size_t max, total;
};

jb_arena *jb_arena_new(size_t max_bytes)
{
    jb_arena *a = jb_alloc(sizeof *a);
    if (a) a->max = max_bytes;
    return a;
}

void *jb_arena_alloc(jb_arena *a, size_t bytes)
{
    if (bytes > a->max || bytes > SIZE_MAX - 2 * ALIGN - sizeof(struct chunk)) return NULL;
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    if (need == 0) need = ALIGN;
    struct chunk *c = a->chunks;
    if (!c || c->size - c->used < need) {
        size_t size = need > CHUNK ? need : CHUNK;
        if (need > a->max - a->total) return NULL;
        if (size > a->max - a->total) size = need;
        c = jb_alloc(sizeof *c + size + ALIGN);
        if (!c) return NULL;
        c->base = (unsigned char *)(((uintptr_t)(c + 1) + ALIGN - 1) / ALIGN * ALIGN);
        c->size = size;
        c->next = a->chunks;
        a->chunks = c;
        a->total += size;
    }
    void *p = c->base + c->used;
    c->used += need;
    return memset(p, 0, need);
}

char *jb_arena_strdup(jb_arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = jb_arena_alloc(a, n);
    return copy ? memcpy(copy, s, n) : NULL;
}

void jb_arena_reset(jb_arena *a)
{
    if (!a) return;
    /* Keep one ordinary chunk: the next call will want it. */
    struct chunk *keep = NULL;
    for (struct chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        if (!keep && c->size == CHUNK) {
            keep = c;
            continue;
        }
        jb_free(c);
    }
    if (keep) {
        keep->next = NULL;
        keep->used = 0;
    }
    a->chunks = keep;
    a->total = keep ? keep->size : 0;
}

void jb_arena_free(jb_arena *a)
{
    if (!a) return;
    for (struct chunk *c = a->chunks, *next; c; c = next) {
        next = c->next;
        jb_free(c);
    }
    jb_free(a);
}
