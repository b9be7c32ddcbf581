/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/compose.h - the words of a reply around an entry of the
 * bank, and the numbers that decide its choices.  Which entry is not its concern. */
#ifndef JB_SCRIPTED_COMPOSE_H
#define JB_SCRIPTED_COMPOSE_H

#include "bank.h"

#include <stddef.h>
#include <stdint.h>

/* The next number of a seeded stream, and one below `count` (0 for 0). */
uint64_t mix(uint64_t *state);
size_t pick(uint64_t *state, size_t count);

/* A string that grows; once an allocation failed it takes no more. */
struct text {
    char *ptr;
    size_t len, cap;
    int failed;
};

/* Append a NUL-terminated string. */
void puts_text(struct text *t, const char *s);
/* Append the reply that the entry makes, with sentences from files of `dir`; the caller frees t->ptr. */
void compose(const char *dir, const struct bank_entry *e, uint64_t *state, struct text *t);

#endif
