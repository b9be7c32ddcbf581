/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/budget.c - see budget.h. */
#include "core/study/budget.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_USD 1e6 /* a million dollars is 1e18 pico-dollars */

static const struct { const char *key, *form; } UNITS[JB_UNITS] = {
    { "usd", "dollars above 0 such as 5 or 0.25" },
    { "tokens", "a whole number above 0 such as 500000, 500k or 2M" },
    { "calls", "a whole number above 0 such as 300 or 10k" },
    { "compile_s", "seconds or a duration such as 600 or 10m" },
    { "wall", "a duration of at least 1s such as 30m or 6h" },
};

const char *jb_unit_key(unsigned unit) { return UNITS[unit < JB_UNITS ? unit : 0].key; }
const char *jb_unit_form(unsigned unit) { return UNITS[unit < JB_UNITS ? unit : 0].form; }

/* "300", "500k", "2M". */
static int read_count(const char *text, int64_t *out)
{
    char digits[24];
    size_t n = strlen(text);
    int64_t factor = 1;
    if (n < 1 || n >= sizeof digits) return JB_EINVAL;
    memcpy(digits, text, n + 1);
    if (digits[n - 1] == 'k') factor = 1000;
    else if (digits[n - 1] == 'M') factor = 1000000;
    if (factor > 1) digits[n - 1] = 0;
    if (jb_text_i64(digits, out) || *out < 1 || *out > INT64_MAX / factor) return JB_EINVAL;
    *out *= factor;
    return 0;
}

static int read_usd(const char *text, int64_t *out)
{
    double v;
    if (jb_text_f64(text, &v) || !(v > 0) || v > MAX_USD) return JB_EINVAL;
    *out = llround(v * 1e12);
    return *out > 0 ? 0 : JB_EINVAL;
}

static int read_duration(const char *text, int64_t *out)
{
    if (jb_text_duration(text, out)) return JB_EINVAL;
    *out /= 1000000;
    return *out >= 1000 ? 0 : JB_EINVAL;
}

int jb_unit_read(unsigned unit, const char *text, int64_t *out)
{
    switch (unit) {
    case JB_UNIT_USD: return read_usd(text, out);
    case JB_UNIT_TOKENS:
    case JB_UNIT_CALLS: return read_count(text, out);
    case JB_UNIT_COMPILE:
        if (jb_text_i64(text, out)) return read_duration(text, out);
        if (*out < 1 || *out > 1000000000) return JB_EINVAL;
        *out *= 1000;
        return 0;
    default: return read_duration(text, out);
    }
}

char *jb_unit_text(char *buf, size_t n, unsigned unit, int64_t amount)
{
    double usd = (double)amount / 1e12;
    switch (unit) {
    case JB_UNIT_USD: snprintf(buf, n, usd != 0 && usd < 0.1 ? "$%.6f" : "$%.2f", usd); break;
    case JB_UNIT_TOKENS: snprintf(buf, n, "%" PRId64 " tokens", amount); break;
    case JB_UNIT_CALLS: snprintf(buf, n, "%" PRId64 " call%s", amount, amount == 1 ? "" : "s"); break;
    default: return jb_text_seconds(buf, n, (double)amount / 1e3);
    }
    return buf;
}

int jb_budget_flag(const char *flag, char **set_out, jb_error *err)
{
    static const struct { const char *suffix, *key; } words[] = {
        { "usd", "usd" }, { "tokens", "tokens" }, { "calls", "calls" }, { "samples", "samples_per_cell" },
    };
    size_t n = strlen(flag);
    int64_t ignored;
    *set_out = NULL;
    if (strchr(flag, '=') && flag[0] != '=') {
        *set_out = jb_asprintf("budget.%s", flag);
    } else if (jb_unit_read(JB_UNIT_WALL, flag, &ignored) == 0) {
        *set_out = jb_asprintf("budget.wall=%s", flag);
    } else {
        for (size_t i = 0; i < sizeof words / sizeof *words && !*set_out; i++) {
            size_t m = strlen(words[i].suffix);
            if (n > m && !strcmp(flag + n - m, words[i].suffix)) *set_out = jb_asprintf("budget.%s=%.*s", words[i].key, (int)(n - m), flag);
        }
        if (!*set_out) {
            jb_err(err, JB_EINVAL, "--budget %.80s: not an amount of a known unit", flag);
            jb_err_hint(err, "for example 5usd, 2Mtokens, 300calls, 12samples (a cell), 30m, or compile_s=600");
            if (err) err->flags |= JB_ERR_USER;
            return JB_EINVAL;
        }
    }
    return *set_out ? 0 : jb_err(err, JB_ENOMEM, "out of memory reading --budget");
}
