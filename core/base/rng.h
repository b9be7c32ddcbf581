/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/rng.h - Philox4x32-10, a counter-based generator (Salmon, Moraes,
 * Dror, Shaw: "Parallel random numbers: as easy as 1, 2, 3", SC'11).  A draw
 * is a pure function of key and counter, so order, threads and resume can't
 * change it. */
#ifndef JB_BASE_RNG_H
#define JB_BASE_RNG_H

#include <jaxbench/abi.h>

typedef struct jb_rng_key { uint32_t k[2]; } jb_rng_key;

/* Key from any text: the first 8 bytes of its SHA-256. */
jb_rng_key jb_rng_key_of(const char *text);
void jb_philox4x32(jb_rng_key key, const uint32_t counter[4], uint32_t out[4]);
uint64_t jb_rng_u64(jb_rng_key key, uint64_t stream, uint64_t counter);
double jb_rng_uniform(jb_rng_key key, uint64_t stream, uint64_t counter); /* [0,1) */

#endif
