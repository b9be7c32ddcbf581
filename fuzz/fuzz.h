/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz.h - the entry point that libFuzzer and fuzz/standalone.c call, and a
 * check that works in every build type. */
#ifndef JB_FUZZ_H
#define JB_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* assert() is off under NDEBUG; a fuzzer's invariants never are. */
#define MUST(condition)                                                                \
    do {                                                                               \
        if (!(condition)) {                                                            \
            fprintf(stderr, "%s:%d: must hold: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                   \
        }                                                                              \
    } while (0)

#endif
