/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/retry.h - whether a failed call is tried again, and when.
 *
 * Pure: no clock, no state, no I/O.  The caller brings the times, and the jitter
 * is a counter-based draw, so a simulated clock tests all of it and a policy gives
 * the same waits for the same call.
 *
 *     wait(n) = half .. all of min(backoff_max, backoff * 2^(n-1)),
 *               and not before what the server asked for (up to retry_after_max), plus
 *               a part of one backoff, so that calls that failed together spread */
#ifndef JB_HTTP_RETRY_H
#define JB_HTTP_RETRY_H

#include "core/base/rng.h"

typedef struct jb_retry_policy {
    int64_t retries;            /* after the first attempt; 0: off */
    int64_t backoff_ms;         /* of the first retry; doubles */
    int64_t backoff_max_ms;
    int64_t retry_after_max_ms; /* a server that asks for more gets this */
    int64_t give_up_after_ms;   /* since the first attempt of the call; 0: no limit */
} jb_retry_policy;
#define JB_RETRY_DEFAULT { 5, 1000, 60000, 120000, 900000 }

/* Milliseconds until the next attempt, or -1: give up.  `failed` attempts were
 * made, the first one `elapsed_ms` ago; `retry_after_ms` is what the server asked
 * for, -1 when it did not.  `call` numbers the call among those of `key`. */
int64_t jb_retry_wait(const jb_retry_policy *p, jb_rng_key key, uint64_t call, int64_t failed, int64_t elapsed_ms, int64_t retry_after_ms);

/* The value of a Retry-After header in milliseconds from `now_unix_s` on: seconds
 * or an HTTP date; a date in the past is 0.  -1 when it is neither. */
int64_t jb_retry_after(jb_view value, int64_t now_unix_s);

#endif
