/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/rate.h - how many calls one backend may get: requests a minute,
 * tokens a minute, calls in flight.
 *
 * Two token buckets that hold five seconds' worth and a counter.  Pure: the caller
 * brings the clock (milliseconds, any origin, never back).  Tokens are not known
 * before a call ends, so an estimate is taken at the start and corrected at the
 * end; the bucket may go into debt, and then nothing starts until it is repaid. */
#ifndef JB_HTTP_RATE_H
#define JB_HTTP_RATE_H

#include <stdint.h>

typedef struct jb_rate_limits {
    int64_t rpm, tpm;  /* 0: no limit */
    int64_t in_flight; /* >= 1 */
} jb_rate_limits;
#define JB_RATE_DEFAULT { 0, 0, 8 }

typedef struct jb_rate {
    jb_rate_limits limits;
    double requests, tokens; /* in the buckets at `at_ms` */
    int64_t at_ms, blocked_until_ms;
    int64_t flying;
} jb_rate;

void jb_rate_init(jb_rate *r, const jb_rate_limits *limits, int64_t now_ms);
/* 0: the call may start, and counts; > 0: not for so many milliseconds; -1: not
 * before another one has ended. */
int64_t jb_rate_start(jb_rate *r, int64_t now_ms, int64_t tokens);
/* A call that was started with `estimate` tokens has ended; `tokens` were really
 * used, -1 when nobody knows. */
void jb_rate_end(jb_rate *r, int64_t now_ms, int64_t estimate, int64_t tokens);
/* Nothing starts before `until_ms`: the server said so. */
void jb_rate_block(jb_rate *r, int64_t until_ms);

#endif
