/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/mem.h - the one allocator of the core, which tests can make fail,
 * and the arena that per-call services hand to plugins. */
#ifndef JB_BASE_MEM_H
#define JB_BASE_MEM_H

#include <jaxbench/abi.h>

void *jb_alloc(size_t bytes);                   /* zeroed; NULL when out of memory */
void *jb_alloc_array(size_t count, size_t size);/* checked product; zeroed */
void *jb_realloc(void *p, size_t bytes);
void jb_free(void *p);
char *jb_strdup(const char *s);
char *jb_strndup(const char *s, size_t n);
char *jb_asprintf(const char *fmt, ...) JB_PRINTF(1, 2);

/* Make the n-th allocation from now on fail (1 = the next), and all later ones
 * too when `sticky`; 0 switches off.  Counts only this module's allocations. */
void jb_mem_fail_after(long n, int sticky);
/* Allocations since the last call of jb_mem_fail_after. */
long jb_mem_count(void);

typedef struct jb_arena jb_arena;
jb_arena *jb_arena_new(size_t max_bytes);
void *jb_arena_alloc(jb_arena *a, size_t bytes); /* 64-byte aligned, zeroed; NULL at the cap */
char *jb_arena_strdup(jb_arena *a, const char *s);
void jb_arena_reset(jb_arena *a);
void jb_arena_free(jb_arena *a);

#endif
