/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/limits.h - how a backend may be asked: how often, how long to wait,
 * how patiently to try again.  A study sets them per backend (`limits`, `timeouts`)
 * and for all of them (`on_error`); none of them changes what a run finds. */
#ifndef JB_HTTP_LIMITS_H
#define JB_HTTP_LIMITS_H

#include "core/http/http.h"
#include "core/http/rate.h"
#include "core/http/retry.h"

typedef struct jb_call_limits {
    jb_rate_limits rate;
    jb_http_timeouts timeouts;
    jb_retry_policy retry;
} jb_call_limits;
#define JB_CALL_LIMITS_DEFAULT { JB_RATE_DEFAULT, JB_HTTP_TIMEOUTS_DEFAULT, JB_RETRY_DEFAULT }

#endif
