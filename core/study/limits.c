/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/limits.c - the keys that say how backends are asked: `limits` and
 * `timeouts` of a backend, the patience of `on_error`.  All of them are rows of a
 * table; none changes what a run finds, so none is in the study's hash. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <stddef.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define DAY_MS INT64_C(86400000)

typedef struct row {
    const char *key;
    size_t offset; /* of an int64_t in jb_call_limits */
    int duration;  /* milliseconds; else a whole number */
    int64_t low, high;
} row;

static const row LIMITS[] = {
    { "rpm", offsetof(jb_call_limits, rate.rpm), 0, 1, 10000000 },
    { "tpm", offsetof(jb_call_limits, rate.tpm), 0, 1, INT64_C(10000000000) },
    { "in_flight", offsetof(jb_call_limits, rate.in_flight), 0, 1, 1000 },
};
static const row TIMEOUTS[] = {
    { "connect", offsetof(jb_call_limits, timeouts.connect_ms), 1, 1, DAY_MS },
    { "first_byte", offsetof(jb_call_limits, timeouts.first_byte_ms), 1, 1, DAY_MS },
    { "idle", offsetof(jb_call_limits, timeouts.idle_ms), 1, 1, DAY_MS },
    { "total", offsetof(jb_call_limits, timeouts.total_ms), 1, 1, DAY_MS },
};
static const row PATIENCE[] = {
    { "call_retries", offsetof(jb_call_limits, retry.retries), 0, 0, 100 },
    { "backoff", offsetof(jb_call_limits, retry.backoff_ms), 1, 1, DAY_MS },
    { "backoff_max", offsetof(jb_call_limits, retry.backoff_max_ms), 1, 1, DAY_MS },
    { "retry_after_max", offsetof(jb_call_limits, retry.retry_after_max_ms), 1, 0, DAY_MS },
    { "give_up_after", offsetof(jb_call_limits, retry.give_up_after_ms), 1, 1, 30 * DAY_MS },
};

static int read_row(jb_reading *r, const jb_yaml *n, const char *what, const row *at, jb_call_limits *out)
{
    int64_t v, ns;
    const char *text;
    int status = at->duration ? jb_yaml_str(r->doc, n, &text, r->err) : jb_yaml_i64(r->doc, n, &v, r->err);
    if (status) return jb_err_context(r->err, "%s.%s", what, at->key), status;
    if (at->duration) {
        if (jb_text_duration(text, &ns))
            return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "%s.%s must be a duration such as 500ms, 30s or 10m, not \"%.60s\"", what, at->key, text);
        v = ns / 1000000;
    }
    if (v < at->low || v > at->high)
        return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "%s.%s must be %lld to %lld%s, not %lld", what, at->key, (long long)at->low,
                             (long long)at->high, at->duration ? " ms" : "", (long long)v);
    *(int64_t *)(void *)((char *)out + at->offset) = v;
    return 0;
}

static int read_rows(jb_reading *r, const jb_yaml *map, const char *what, const row *rows, size_t count, jb_call_limits *out)
{
    const char *names[8];
    if (map->kind != JB_YAML_MAPPING) return jb_yaml_error(r->doc, map, r->err, JB_EINVAL, "%s must be a mapping", what);
    for (size_t i = 0; i < count; i++) names[i] = rows[i].key;
    int status = jb_yaml_only_keys(r->doc, map, names, count, r->err);
    for (size_t i = 0; i < count && !status; i++) {
        const jb_yaml *n = jb_yaml_get(map, rows[i].key);
        if (n) status = read_row(r, n, what, &rows[i], out);
    }
    return status;
}

int jb_study_read_call_limits(jb_reading *r, const jb_yaml *backend, jb_study_part *p)
{
    static const jb_call_limits DEFAULTS = JB_CALL_LIMITS_DEFAULT;
    const jb_yaml *limits = jb_yaml_get(backend, "limits"), *timeouts = jb_yaml_get(backend, "timeouts");
    p->calls = DEFAULTS;
    int status = limits ? read_rows(r, limits, "limits", LIMITS, COUNT(LIMITS), &p->calls) : 0;
    if (!status && timeouts) status = read_rows(r, timeouts, "timeouts", TIMEOUTS, COUNT(TIMEOUTS), &p->calls);
    return status;
}

/* What is left of `on_error`: who reads the other keys has refused unknown ones. */
int jb_study_read_patience(jb_reading *r, const jb_yaml *on_error)
{
    static const jb_call_limits DEFAULTS = JB_CALL_LIMITS_DEFAULT;
    const jb_yaml *infra = on_error ? jb_yaml_get(on_error, "infra_retries") : NULL;
    jb_call_limits all = DEFAULTS;
    int status = 0;
    if (infra) all.retry.retries = r->s->infra_retries; /* one number for both, unless calls have their own */
    for (size_t i = 0; on_error && i < COUNT(PATIENCE) && !status; i++) {
        const jb_yaml *n = jb_yaml_get(on_error, PATIENCE[i].key);
        if (n) status = read_row(r, n, "on_error", &PATIENCE[i], &all);
    }
    for (size_t i = 0; i < r->s->backend_count; i++) r->s->backends[i].calls.retry = all.retry;
    return status;
}
