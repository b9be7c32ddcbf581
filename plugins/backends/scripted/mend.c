/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/mend.c - see mend.h. */
#include "mend.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- views ------------------------------------------------------------------------ */

/* Where `what` begins in v, NULL: nowhere.  `last`: its last place. */
static const char *find(jb_view v, const char *what, int last)
{
    size_t n = strlen(what);
    const char *found = NULL;
    for (const char *s = v.ptr; s != NULL && v.len >= n && s <= v.ptr + v.len - n; s++) {
        if (memcmp(s, what, n) != 0) continue;
        found = s;
        if (!last) break;
    }
    return found;
}

static int holds(jb_view v, const char *what)
{
    size_t n = strlen(what);
    for (uint64_t i = 0; i + n <= v.len; i++)
        if (strncasecmp(v.ptr + i, what, n) == 0) return 1;
    return 0;
}

static jb_view from(jb_view v, const char *at) { return (jb_view){ at, (uint64_t)(v.ptr + v.len - at) }; }

static jb_view line_at(jb_view v)
{
    const char *end = v.len > 0 ? memchr(v.ptr, '\n', (size_t)v.len) : NULL;
    return (jb_view){ v.ptr, end != NULL ? (uint64_t)(end - v.ptr) : v.len };
}

/* The line behind the one that v begins with; empty at the end. */
static jb_view next_line(jb_view v)
{
    jb_view line = line_at(v);
    uint64_t skip = line.len + (line.len < v.len);
    return (jb_view){ v.ptr + skip, v.len - skip };
}

/* ---- reading ------------------------------------------------------------------------- */

/* The content of the first fenced block of v. */
static jb_view fenced(jb_view v)
{
    const char *open = find(v, "\n```", 0);
    if (open == NULL) return (jb_view){ NULL, 0 };
    char fence[64] = "\n";
    size_t ticks = 0;
    v = from(v, open + 1);
    while (ticks < v.len && v.ptr[ticks] == '`' && ticks + 3 < sizeof fence) fence[++ticks] = '`';
    fence[ticks + 1] = '\n';
    v = next_line(v);
    const char *close = find(v, fence, 0);
    return close != NULL ? (jb_view){ v.ptr, (uint64_t)(close + 1 - v.ptr) } : (jb_view){ NULL, 0 };
}

/* The number behind `key` in the line. */
static double number_in(jb_view line, const char *key)
{
    char text[48];
    const char *at = find(line, key, 0);
    if (at == NULL) return (double)NAN;
    jb_view v = from(line, at + strlen(key));
    snprintf(text, sizeof text, "%.*s", (int)(v.len < sizeof text ? v.len : sizeof text - 1), v.ptr);
    return strtod(text, NULL); /* also "nan", "inf" */
}

static int worst_of(jb_view words)
{
    int lines = 0, zero = 1, near = 1;
    for (jb_view v = words; v.len > 0; v = next_line(v)) {
        jb_view line = line_at(v);
        if (line.len < 9 || memcmp(line.ptr, "- output ", 9) != 0) continue;
        double reference = number_in(line, ": reference "), candidate = number_in(line, ", candidate ");
        lines++;
        zero &= candidate == 0 && reference != 0; /* NaN is neither */
        near &= fabs(candidate - reference) <= 0.1 * fabs(reference);
    }
    return lines == 0 ? TOLD_NOTHING : zero ? TOLD_ZERO : near ? TOLD_NEAR : TOLD_FAR;
}

static int read_message(jb_view v, struct told *t)
{
    static const char outcome[] = "\nOutcome: ", source[] = "\nSource of attempt ", best[] = "\nBest correct source so far, attempt ";
    const char *at = find(v, "## Feedback on attempt ", 1), *word, *shown, *other;
    if (at == NULL) return 0;
    v = from(v, at);
    if ((word = find(v, outcome, 0)) == NULL) return 0;
    jb_view rest = from(v, word + strlen(outcome));
    size_t n = 0;
    while (n < rest.len && n + 1 < sizeof t->outcome && ((rest.ptr[n] >= 'a' && rest.ptr[n] <= 'z') || rest.ptr[n] == '-')) n++;
    snprintf(t->outcome, sizeof t->outcome, "%.*s", (int)n, rest.ptr);
    shown = find(v, source, 0);
    other = find(v, best, 0);
    t->words = shown != NULL ? (jb_view){ v.ptr, (uint64_t)(shown - v.ptr) } : v;
    if (shown != NULL) t->source = fenced(from(v, shown + 1));
    t->correct = other != NULL || strcmp(t->outcome, "ok") == 0;
    t->worst = worst_of(t->words);
    return 1;
}

int mend_read(const jb_request *req, struct told *out)
{
    *out = (struct told){ .worst = TOLD_NOTHING };
    for (uint32_t m = req->message_count; m-- > 0;)
        if (read_message(req->messages[m].text, out)) return 1;
    return 0;
}

/* ---- recognising -------------------------------------------------------------------------- */

/* What a fault looks like from outside: an outcome, a word of the feedback (NULL:
 * any), how far the worst elements are off (TOLD_NOTHING: however).  Several rows
 * of a fault are alternatives; a fault without a row may look like anything, and is
 * known by its lines alone. */
static const struct symptom {
    const char *fault, *outcome, *word;
    int worst;
} SYMPTOMS[] = {
    { "prose", "no-code", NULL, TOLD_NOTHING },
    { "cut-off", "truncated", NULL, TOLD_NOTHING },
    { "syntax", "syntax", NULL, TOLD_NOTHING },
    { "no-kernel", "not-pallas", NULL, TOLD_NOTHING },
    { "bad-block", "compile-error", "block shape", TOLD_NOTHING },
    { "vmem-overflow", "compile-error", "vmem", TOLD_NOTHING },
    { "lost-tail", "wrong", "never written", TOLD_NOTHING },
    { "lost-tail", "wrong", "nonfinite", TOLD_NOTHING },
    { "zeros", "wrong", NULL, TOLD_ZERO },
    { "wrong-mask", "wrong", "error_ratio", TOLD_FAR },
    { "bf16-accumulator", "wrong", "error_ratio", TOLD_NEAR },
    { "wrong-eps", "wrong", "tiny", TOLD_FAR },
    { "no-max", "wrong", "nonfinite", TOLD_FAR },
    { "no-max", "wrong", "outlier", TOLD_FAR },
};

static int looks_like(const struct bank_entry *fault, const struct told *t)
{
    int rows = 0;
    for (size_t i = 0; i < sizeof SYMPTOMS / sizeof *SYMPTOMS; i++) {
        const struct symptom *s = &SYMPTOMS[i];
        if (strcmp(s->fault, fault->name) != 0) continue;
        rows++;
        if (strcmp(s->outcome, t->outcome) != 0 || (s->word != NULL && !holds(t->words, s->word))) continue;
        if (s->worst == TOLD_NOTHING || t->worst == TOLD_NOTHING || s->worst == t->worst) return 1;
    }
    return rows == 0 && fault->marks != NULL;
}

/* Is `s` (n bytes) the line of the bank, whatever its <<a|b>> were decided to? */
static int is_line(const char *pattern, const char *s, size_t n)
{
    while (*pattern != '\0' && *pattern != '\n') {
        if (strncmp(pattern, "<<", 2) == 0) {
            const char *close = strstr(pattern, ">>");
            for (const char *choice = pattern + 2; close != NULL && choice <= close;) {
                size_t len = strcspn(choice, "|>");
                if (len <= n && memcmp(choice, s, len) == 0 && is_line(close + 2, s + len, n - len)) return 1;
                choice += len + 1;
            }
            return 0;
        }
        if (n == 0 || *s != *pattern) return 0;
        pattern++, s++, n--;
    }
    return n == 0;
}

static int has_line(jb_view source, const char *pattern)
{
    for (jb_view v = source; v.len > 0; v = next_line(v)) {
        jb_view line = line_at(v);
        while (line.len > 0 && *line.ptr == ' ') line.ptr++, line.len--;
        if (is_line(pattern, line.ptr, (size_t)line.len)) return 1;
    }
    return 0;
}

/* Every line that the fault put in. */
static int has_marks(jb_view source, const char *marks)
{
    for (const char *s = marks; s != NULL && *s != '\0'; s += strcspn(s, "\n") + (s[strcspn(s, "\n")] == '\n'))
        if (!has_line(source, s)) return 0;
    return 1;
}

const struct bank_entry *mend_recognise(const struct told *t, const struct bank *b)
{
    for (size_t i = 0; i < b->fault_count; i++) {
        const struct bank_entry *f = &b->faults[i];
        if (looks_like(f, t) && (f->made_by != BANK_EDIT || has_marks(t->source, f->marks))) return f;
    }
    return NULL;
}
