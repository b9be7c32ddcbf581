/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/compose.c - see compose.h. */
#include "compose.h"

#include <stdlib.h>
#include <string.h>

/* SplitMix64 (Steele, Lea, Flood 2014): a bijective mixer, so equal seeds give equal replies. */
uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

size_t pick(uint64_t *state, size_t count) { return count ? (size_t)(mix(state) % count) : 0; }

/* ---- text ---------------------------------------------------------------------- */

static void put(struct text *t, const char *s, size_t n)
{
    if (t->failed) return;
    if (t->len + n + 1 > t->cap) {
        size_t cap = 2 * (t->len + n + 1) + 1024;
        char *p = realloc(t->ptr, cap);
        if (p == NULL) {
            t->failed = 1;
            return;
        }
        t->ptr = p;
        t->cap = cap;
    }
    memcpy(t->ptr + t->len, s, n);
    t->len += n;
    t->ptr[t->len] = '\0';
}

void puts_text(struct text *t, const char *s) { put(t, s, strlen(s)); }

/* The source with every <<a|b|c>> decided. */
static void put_source(struct text *t, const char *s, uint64_t *state)
{
    for (const char *open; (open = strstr(s, "<<"));) {
        const char *close = strstr(open, ">>");
        if (!close) break;
        size_t choices = 1, at;
        for (const char *p = open; p < close; p++) choices += *p == '|';
        put(t, s, (size_t)(open - s));
        at = pick(state, choices);
        const char *p = open + 2;
        while (at--) p += strcspn(p, "|") + 1;
        put(t, p, strcspn(p, "|>"));
        s = close + 2;
    }
    puts_text(t, s);
}

/* One line of a text file of the bank, by seed. */
static void put_line(const char *dir, struct text *t, const char *file, uint64_t *state)
{
    char *all = bank_read(dir, file);
    size_t lines = 0;
    if (!all) return;
    for (const char *s = all; *s; s++) lines += *s == '\n';
    size_t at = pick(state, lines);
    const char *s = all;
    while (at-- && strchr(s, '\n')) s = strchr(s, '\n') + 1;
    put(t, s, strcspn(s, "\n"));
    free(all);
}

/* Lose the closing parenthesis of the def line: what a model's slip looks like. */
static void break_syntax(struct text *t)
{
    char *def = t->ptr != NULL ? strstr(t->ptr, "def workload(") : NULL, *close = def != NULL ? strstr(def, "):\n") : NULL;
    if (close == NULL) return;
    memmove(close, close + 1, strlen(close));
    t->len--;
}

/* ---- the reply ------------------------------------------------------------------- */

void compose(const char *dir, const struct bank_entry *e, uint64_t *state, struct text *t)
{
    if (e->made_by == BANK_PROSE) {
        put_line(dir, t, "prose.txt", state);
        puts_text(t, "\n");
        return;
    }
    put_line(dir, t, "intro.txt", state);
    puts_text(t, "\n\n```python\n");
    size_t code = t->len;
    put_source(t, e->source, state);
    if (e->made_by == BANK_SYNTAX) break_syntax(t);
    if (e->made_by == BANK_CUT_OFF) { /* the output limit was reached inside the code */
        if (t->failed) return;
        t->len = code + (t->len - code) * 3 / 5;
        t->ptr[t->len] = '\0';
        return;
    }
    puts_text(t, "```\n\n");
    put_line(dir, t, "outro.txt", state);
    puts_text(t, "\n");
}
