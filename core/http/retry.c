/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/retry.c - see retry.h. */
#include "core/http/retry.h"

#include "core/base/text.h"

#include <curl/curl.h>
#include <string.h>

#define VALUE_MAX 64u              /* an HTTP date has 29 characters */
#define SECONDS_MAX INT64_C(31536000) /* a year; longer means never */

int64_t jb_retry_wait(const jb_retry_policy *p, jb_rng_key key, uint64_t call, int64_t failed, int64_t elapsed_ms, int64_t retry_after_ms)
{
    if (failed > p->retries) return -1;
    int64_t wait = p->backoff_ms;
    for (int64_t i = 1; i < failed && wait < p->backoff_max_ms; i++) wait *= 2;
    if (wait > p->backoff_max_ms) wait = p->backoff_max_ms;
    double jitter = jb_rng_uniform(key, call, (uint64_t)failed);
    wait = wait / 2 + (int64_t)((double)(wait - wait / 2) * jitter);
    if (retry_after_ms > p->retry_after_max_ms) retry_after_ms = p->retry_after_max_ms;
    if (wait < retry_after_ms) wait = retry_after_ms + (int64_t)((double)p->backoff_ms * jitter); /* not all at once */
    return p->give_up_after_ms > 0 && elapsed_ms + wait > p->give_up_after_ms ? -1 : wait;
}

int64_t jb_retry_after(jb_view value, int64_t now_unix_s)
{
    char text[VALUE_MAX + 1];
    int64_t seconds;
    while (value.len && (*value.ptr == ' ' || *value.ptr == '\t')) { value.ptr++; value.len--; }
    while (value.len && (value.ptr[value.len - 1] == ' ' || value.ptr[value.len - 1] == '\t' || value.ptr[value.len - 1] == '\r')) value.len--;
    if (value.len == 0 || value.len > VALUE_MAX || memchr(value.ptr, 0, (size_t)value.len)) return -1;
    memcpy(text, value.ptr, (size_t)value.len);
    text[value.len] = '\0';
    if (jb_text_i64(text, &seconds) == 0) {
        if (seconds < 0) return -1;
    } else {
        if (!strchr("MTWFS", text[0])) return -1; /* every form of the date begins with a weekday; curl takes far more */
        time_t at = curl_getdate(text, NULL);
        if (at < 0) return -1;
        seconds = at > now_unix_s ? (int64_t)at - now_unix_s : 0;
    }
    return (seconds < SECONDS_MAX ? seconds : SECONDS_MAX) * 1000;
}
