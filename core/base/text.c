/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/text.c - small text tools.  Everything works on bytes and UTF-8;
 * nothing here depends on the process's locale. */
#include "core/base/text.h"

#include "core/base/mem.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- nearest name ----------------------------------------------------- */

#define NEAREST_MAX 64 /* names are short; longer ones get no suggestion */

/* Edit distance where a swap of neighbours costs one (optimal string
 * alignment), over three rolling rows. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
    size_t rows[3][NEAREST_MAX + 1];
    size_t *before = rows[0], *above = rows[1], *row = rows[2];
    for (size_t j = 0; j <= m; j++) above[j] = j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        size_t *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[m];
}

const char *jb_text_nearest(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t n = word ? strlen(word) : 0;
    if (n == 0 || n > NEAREST_MAX) return NULL;
    size_t least = n / 3 + 1; /* must beat this */
    for (size_t i = 0; i < count; i++) {
        if (!names[i]) continue;
        size_t m = strlen(names[i]);
        if (m > NEAREST_MAX || (m > n ? m - n : n - m) >= least) continue;
        size_t d = distance(word, n, names[i], m);
        if (d < least) {
            least = d;
            best = names[i];
            if (d == 0) break;
        }
    }
    return best;
}

/* ---- globs ------------------------------------------------------------ */

/* Match c against the class at p ("[a-z]", "[!a]"); *end is what follows it.
 * -1 when the bracket never closes: it then stands for itself. */
static int class_match(const char *p, unsigned char c, const char **end)
{
    int hit = 0, negate = 0;
    p++;
    if (*p == '!' || *p == '^') {
        negate = 1;
        p++;
    }
    for (int first = 1; *p && (first || *p != ']'); first = 0) {
        unsigned char lo = (unsigned char)*p++, hi = lo;
        if (*p == '-' && p[1] && p[1] != ']') {
            hi = (unsigned char)p[1];
            p += 2;
        }
        if (c >= lo && c <= hi) hit = 1;
    }
    if (*p != ']') return -1;
    *end = p + 1;
    return hit != negate;
}

int jb_text_glob(const char *pattern, const char *s)
{
    /* Only the last star needs to be tried again: O(length * length). */
    const char *star = NULL, *retry = NULL;
    while (*s) {
        const char *next = pattern + 1;
        int ok;
        if (*pattern == '*') {
            star = ++pattern;
            retry = s;
            continue;
        }
        if (*pattern == '?') ok = 1;
        else if (*pattern == '[' && (ok = class_match(pattern, (unsigned char)*s, &next)) >= 0) { /* a class */ }
        else ok = *pattern == *s;
        if (ok) {
            pattern = next;
            s++;
        } else if (star) {
            pattern = star;
            s = ++retry;
        } else {
            return 0;
        }
    }
    while (*pattern == '*') pattern++;
    return *pattern == '\0';
}

/* ---- numbers ---------------------------------------------------------- */

static locale_t c_locale;
static pthread_once_t c_locale_once = PTHREAD_ONCE_INIT;
static void make_c_locale(void) { c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); }

int jb_text_i64(const char *s, int64_t *out)
{
    const char *p = s;
    if (!p) return JB_EINVAL;
    if (*p == '-' || *p == '+') p++;
    if (!*p) return JB_EINVAL;
    for (const char *q = p; *q; q++)
        if (*q < '0' || *q > '9') return JB_EINVAL;
    errno = 0;
    long long v = strtoll(s, NULL, 10);
    if (errno) return JB_EINVAL;
    *out = v;
    return 0;
}

int jb_text_u64(const char *s, uint64_t *out)
{
    if (!s || !*s || s[strspn(s, "0123456789")]) return JB_EINVAL;
    errno = 0;
    unsigned long long v = strtoull(s, NULL, 10);
    if (errno) return JB_EINVAL;
    *out = v;
    return 0;
}

int jb_text_f64(const char *s, double *out)
{
    char *end = NULL;
    /* Decimal only: strtod alone would take blanks, "inf", "nan" and hex. */
    if (!s || !*s || s[strspn(s, "0123456789+-.eE")]) return JB_EINVAL;
    pthread_once(&c_locale_once, make_c_locale);
    double v = c_locale ? strtod_l(s, &end, c_locale) : strtod(s, &end);
    if (end == s || *end || !isfinite(v)) return JB_EINVAL;
    *out = v;
    return 0;
}

struct unit { const char *name; int64_t factor; };

static const struct unit durations[] = {
    { "ns", 1 }, { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 },
    { "m", 60000000000 }, { "h", 3600000000000 }, { "d", 86400000000000 },
};
static const struct unit sizes[] = {
    { "", 1 }, { "B", 1 }, { "KiB", 1ll << 10 }, { "MiB", 1ll << 20 }, { "GiB", 1ll << 30 }, { "TiB", 1ll << 40 },
};

/* "<digits>[.<digits>]<unit>" as a whole number of the smallest unit. */
static int parse_quantity(const char *s, const struct unit *units, size_t count, int64_t *out)
{
    int64_t whole = 0, part = 0, scale = 1;
    const char *p = s;
    if (!p || *p < '0' || *p > '9') return JB_EINVAL;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(whole, 10, &whole) || __builtin_add_overflow(whole, *p - '0', &whole)) return JB_EINVAL;
    if (*p == '.') {
        const char *digits = ++p;
        for (; *p >= '0' && *p <= '9'; p++) {
            if (p - digits >= 9) return JB_EINVAL;
            part = part * 10 + (*p - '0');
            scale *= 10;
        }
        if (p == digits) return JB_EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (strcmp(p, units[i].name)) continue;
        int64_t v, factor = units[i].factor;
        /* part * factor / scale, exact and without overflow: part < scale <= 10^9 */
        int64_t extra = part * (factor / scale) + part * (factor % scale) / scale;
        if (__builtin_mul_overflow(whole, factor, &v) || __builtin_add_overflow(v, extra, &v)) return JB_EINVAL;
        *out = v;
        return 0;
    }
    return JB_EINVAL;
}

int jb_text_duration(const char *s, int64_t *ns_out)
{
    if (s && !strcmp(s, "0")) return *ns_out = 0, 0;
    return parse_quantity(s, durations, sizeof durations / sizeof durations[0], ns_out);
}

int jb_text_size(const char *s, int64_t *bytes_out)
{
    return parse_quantity(s, sizes, sizeof sizes / sizeof sizes[0], bytes_out);
}

/* ---- UTF-8 and terminals ---------------------------------------------- */

/* Bytes of the valid UTF-8 character at s (of len > 0), its code point in
 * *code; 0 when invalid (overlong, surrogate, above U+10FFFF, cut). */
static size_t utf8_next(const char *s, size_t len, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)s;
    static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
    size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xC2 && p[0] < 0xE0 ? 2 : (p[0] & 0xF0u) == 0xE0 ? 3 : p[0] >= 0xF0 && p[0] < 0xF5 ? 4 : 0;
    if (n == 0 || n > len) return 0;
    uint32_t c = n == 1 ? p[0] : p[0] & (0x7Fu >> n);
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xC0u) != 0x80) return 0;
        c = c << 6 | (p[i] & 0x3Fu);
    }
    if (c < least[n] || c > 0x10FFFF || (c >= 0xD800 && c < 0xE000)) return 0;
    *code = c;
    return n;
}

int jb_text_utf8_valid(const char *s, size_t len)
{
    uint32_t code;
    for (size_t i = 0, n; i < len; i += n) {
        if ((unsigned char)s[i] < 0x80) { n = 1; continue; }
        if (!(n = utf8_next(s + i, len - i, &code))) return 0;
    }
    return 1;
}

/* Besides C0, DEL and C1: line separators and the direction overrides, which
 * can make a terminal show another text than the bytes say. */
static int unsafe(uint32_t c)
{
    return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
           (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF;
}

int jb_text_escape(jb_buf *out, const char *s, size_t len, int keep_layout)
{
    size_t from = 0; /* start of the run that can be copied as it is */
    for (size_t i = 0; i < len;) {
        uint32_t code = 0;
        size_t n = utf8_next(s + i, len - i, &code);
        if (n && (!unsafe(code) || (keep_layout && (code == '\n' || code == '\t')))) {
            i += n;
            continue;
        }
        if (i > from) jb_buf_append(out, s + from, i - from);
        for (size_t end = i + (n ? n : 1); i < end; i++) jb_buf_printf(out, "\\x%02x", (unsigned char)s[i]);
        from = i;
    }
    if (len > from) jb_buf_append(out, s + from, len - from);
    return out->status;
}

static int blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

int jb_text_first_line(jb_buf *out, const char *s, size_t len, size_t max)
{
    size_t from = 0;
    while (from < len && blank(s[from])) from++;
    const char *nl = from < len ? memchr(s + from, '\n', len - from) : NULL;
    size_t n = nl ? (size_t)(nl - s) - from : len - from;
    if (n > max) {
        n = max;
        /* not through the middle of a character */
        while (n > 0 && max - n < 4 && ((unsigned char)s[from + n] & 0xC0u) == 0x80) n--;
    }
    while (n > 0 && blank(s[from + n - 1])) n--;
    return jb_buf_append(out, s + from, n);
}

/* ---- human forms ------------------------------------------------------ */

char *jb_text_bytes(char *buf, size_t n, int64_t bytes)
{
    static const char *const units[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    double v = (double)bytes;
    size_t u = 0;
    if (fabs(v) < 1024) {
        snprintf(buf, n, "%lld B", (long long)bytes);
        return buf;
    }
    /* 1023.95 would print as "1024.0" of the smaller unit */
    for (v /= 1024; fabs(v) >= 1023.95 && u + 1 < sizeof units / sizeof units[0]; u++) v /= 1024;
    snprintf(buf, n, "%.1f %s", v, units[u]);
    return buf;
}

char *jb_text_seconds(char *buf, size_t n, double s)
{
    if (!isfinite(s)) snprintf(buf, n, "?");
    else if (s < 0) snprintf(buf, n, "%.1f s", s);
    else if (s == 0) snprintf(buf, n, "0 s");
    else if (s < 999.5e-9) snprintf(buf, n, "%.0f ns", s * 1e9);
    else if (s < 999.95e-6) snprintf(buf, n, "%.1f us", s * 1e6);
    else if (s < 999.95e-3) snprintf(buf, n, "%.1f ms", s * 1e3);
    else if (s < 99.95) snprintf(buf, n, "%.1f s", s);
    else if (s < 3599.5) {
        long t = lround(s);
        snprintf(buf, n, "%ldm %02lds", t / 60, t % 60);
    } else if (s < 1e15) {
        long long t = llround(s / 60);
        snprintf(buf, n, "%lldh %02lldm", t / 60, t % 60);
    } else snprintf(buf, n, "%.3g s", s);
    return buf;
}
