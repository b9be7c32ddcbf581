/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/rate.c - see rate.h. */
#include "core/http/rate.h"

#include <math.h>

#define BURST_MS 5000.0
#define MINUTE_MS 60000.0

static double capacity(int64_t per_minute)
{
    double c = (double)per_minute * BURST_MS / MINUTE_MS;
    return c < 1 ? 1 : c;
}

static void refill(double *bucket, int64_t per_minute, int64_t passed_ms)
{
    double full = capacity(per_minute);
    *bucket += (double)per_minute * (double)passed_ms / MINUTE_MS;
    if (*bucket > full) *bucket = full;
}

static void advance(jb_rate *r, int64_t now_ms)
{
    if (now_ms <= r->at_ms) return;
    refill(&r->requests, r->limits.rpm, now_ms - r->at_ms);
    refill(&r->tokens, r->limits.tpm, now_ms - r->at_ms);
    r->at_ms = now_ms;
}

/* Milliseconds until the bucket holds `need`; more than it can hold means full. */
static int64_t until(double bucket, int64_t per_minute, double need)
{
    double full = capacity(per_minute);
    if (need > full) need = full;
    return per_minute <= 0 || bucket + 1e-9 >= need ? 0 : (int64_t)ceil((need - bucket) * MINUTE_MS / (double)per_minute);
}

void jb_rate_init(jb_rate *r, const jb_rate_limits *limits, int64_t now_ms)
{
    *r = (jb_rate){ .limits = *limits, .at_ms = now_ms, .blocked_until_ms = now_ms };
    r->requests = capacity(limits->rpm);
    r->tokens = capacity(limits->tpm);
}

int64_t jb_rate_start(jb_rate *r, int64_t now_ms, int64_t tokens)
{
    advance(r, now_ms);
    if (r->flying >= r->limits.in_flight) return -1;
    int64_t wait = r->blocked_until_ms > now_ms ? r->blocked_until_ms - now_ms : 0;
    int64_t by_requests = until(r->requests, r->limits.rpm, 1), by_tokens = until(r->tokens, r->limits.tpm, (double)tokens);
    if (by_requests > wait) wait = by_requests;
    if (by_tokens > wait) wait = by_tokens;
    if (wait > 0) return wait;
    r->flying++;
    if (r->limits.rpm > 0) r->requests -= 1;
    if (r->limits.tpm > 0) r->tokens -= (double)tokens;
    return 0;
}

void jb_rate_end(jb_rate *r, int64_t now_ms, int64_t estimate, int64_t tokens)
{
    advance(r, now_ms);
    r->flying--;
    if (r->limits.tpm > 0 && tokens >= 0) r->tokens += (double)(estimate - tokens);
    refill(&r->tokens, r->limits.tpm, 0); /* not above full */
}

void jb_rate_block(jb_rate *r, int64_t until_ms)
{
    if (until_ms > r->blocked_until_ms) r->blocked_until_ms = until_ms;
}
