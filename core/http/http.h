/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/http.h - HTTP requests inside somebody else's poll loop.
 *
 *     send --> [ libcurl multi, one epoll descriptor, deadlines ] --> next
 *                        ^ poll(fd, timeout), then step
 *
 * One thread; nothing blocks but the resolver, which libcurl runs aside.  TLS is
 * verified, redirects are not followed (a key must not travel to another host),
 * proxies are those of the environment.  Every buffer has a cap and every wait an
 * end.  Retries, rate limits and meaning are the caller's: core/engine/calls.h. */
#ifndef JB_HTTP_HTTP_H
#define JB_HTTP_HTTP_H

#include <jaxbench/abi.h>

/* Milliseconds; 0: no limit. */
typedef struct jb_http_timeouts {
    int64_t connect_ms;    /* until name, TCP and TLS are done */
    int64_t first_byte_ms; /* until the server says anything */
    int64_t idle_ms;       /* between two pieces of the answer */
    int64_t total_ms;
} jb_http_timeouts;
#define JB_HTTP_TIMEOUTS_DEFAULT { 15000, 600000, 120000, 1200000 }

#define JB_HTTP_BODY_MAX ((size_t)64 << 20)
#define JB_HTTP_HEADERS_MAX ((size_t)256 << 10)
#define JB_HTTP_HEADER_COUNT 256u

/* One request.  All of it is copied. */
typedef struct jb_http_call {
    jb_view method, url;        /* http:// or https:// */
    const jb_view *headers;     /* "Name: value" */
    size_t header_count;
    const char *auth_name;      /* header that gets the key, e.g. "Authorization"; NULL: none */
    const char *auth_prefix;    /* before the key, e.g. "Bearer "; NULL: nothing */
    const char *key;            /* NULL: the header is not sent */
    jb_view body;
    jb_http_timeouts timeouts;
    size_t body_max;            /* of the answer; 0: JB_HTTP_BODY_MAX */
} jb_http_call;

/* How a request ended. */
#define JB_HTTP_ANSWERED 0u  /* status, headers and the whole body are there */
#define JB_HTTP_CONNECT 1u   /* no connection: refused, unreachable, name unknown */
#define JB_HTTP_CUT 2u       /* the connection broke before the answer was whole */
#define JB_HTTP_TIMEOUT 3u   /* one of the timeouts; `message` says which */
#define JB_HTTP_TLS 4u       /* certificate or handshake */
#define JB_HTTP_TOO_LARGE 5u /* the answer is above a cap */
#define JB_HTTP_BAD 6u       /* can't be sent: URL, protocol, memory */

typedef struct jb_http_result {
    uint64_t tag;
    uint32_t end;            /* JB_HTTP_* */
    uint32_t status;         /* HTTP status; 0 before one was seen */
    jb_view *headers;        /* "Name: value", of the last response (no 1xx) */
    size_t header_count;
    char *body;              /* writable, so that it can be scrubbed; NUL behind it; NULL when empty */
    size_t body_len;
    double seconds;
    char message[256];       /* of a failure, in words */
} jb_http_result;

typedef struct jb_http jb_http;

int jb_http_new(jb_http **out, jb_error *err);
void jb_http_free(jb_http *h); /* cancels what is under way; NULL allowed */

/* Start a request; `tag` (not 0, not in use) comes back with its end.  JB_EINVAL
 * when it can't be a request (line breaks in a header, another protocol). */
int jb_http_send(jb_http *h, const jb_http_call *call, uint64_t tag, jb_error *err);
/* Drop it; no end will be told.  Unknown tags are ignored. */
void jb_http_cancel(jb_http *h, uint64_t tag);

/* Poll this for POLLIN, at most so long (-1: any time), then call step. */
int jb_http_fd(const jb_http *h);
int64_t jb_http_timeout_ms(const jb_http *h);
/* Do what can be done without waiting.  JB_EIO when the machinery itself failed. */
int jb_http_step(jb_http *h, jb_error *err);
/* The next ended request, or NULL.  Valid until the next call of `next` or free. */
jb_http_result *jb_http_next(jb_http *h);
size_t jb_http_count(const jb_http *h); /* sent and not yet told */

/* The value of a header of a result, blanks trimmed; {NULL,0} when absent. */
jb_view jb_http_header(const jb_http_result *r, const char *name);

#endif
