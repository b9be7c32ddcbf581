/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/http.c - see http.h.  libcurl tells which sockets it watches (socket
 * function) and when it wants to be called (timer function); the first go into
 * one epoll set, the second becomes a number.  The two waits that libcurl has no
 * option for, first byte and idle, are deadlines of ours. */
#include "core/http/http.h"

#include "core/base/buf.h"
#include "core/base/error.h"
#include "core/base/mem.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define EVENTS 64

typedef struct transfer {
    struct transfer *next;
    jb_http *h;
    CURL *easy;
    struct curl_slist *headers;
    jb_http_timeouts timeouts;
    int64_t begin_ms, heard_ms; /* heard_ms 0: nothing yet */
    jb_buf head, body;
    int too_large;
    jb_http_result result;
} transfer;

struct jb_http {
    CURLM *multi;
    int epoll;
    int64_t timer_ms;      /* when libcurl wants to be called; -1: not */
    transfer *flying, *ended, *told;
    transfer **ended_last;
    size_t count;
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- libcurl's side ---------------------------------------------------------------- */

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *known)
{
    jb_http *h = ctx;
    (void)easy;
    struct epoll_event ev = { .data.fd = fd };
    if (what == CURL_POLL_REMOVE) {
        (void)epoll_ctl(h->epoll, EPOLL_CTL_DEL, fd, NULL);
        return 0;
    }
    if (what & CURL_POLL_IN) ev.events |= EPOLLIN;
    if (what & CURL_POLL_OUT) ev.events |= EPOLLOUT;
    if (epoll_ctl(h->epoll, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &ev) == 0 ||
        epoll_ctl(h->epoll, known ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &ev) == 0)
        return curl_multi_assign(h->multi, fd, h) == CURLM_OK ? 0 : -1;
    return -1;
}

static int on_timer(CURLM *multi, long ms, void *ctx)
{
    jb_http *h = ctx;
    (void)multi;
    h->timer_ms = ms < 0 ? -1 : now_ms() + ms;
    return 0;
}

static size_t on_header(char *data, size_t size, size_t n, void *ctx)
{
    transfer *t = ctx;
    size_t len = size * n;
    t->heard_ms = now_ms();
    if (len >= 5 && strncmp(data, "HTTP/", 5) == 0) jb_buf_reset(&t->head); /* of a 1xx or of the proxy's CONNECT */
    if (jb_buf_append(&t->head, data, len) != 0) {
        t->too_large = 1;
        return 0;
    }
    return len;
}

static size_t on_body(char *data, size_t size, size_t n, void *ctx)
{
    transfer *t = ctx;
    size_t len = size * n;
    t->heard_ms = now_ms();
    if (jb_buf_append(&t->body, data, len) != 0) {
        t->too_large = 1;
        return 0;
    }
    return len;
}

/* Sockets that no child inherits. */
static curl_socket_t open_socket(void *ctx, curlsocktype purpose, struct curl_sockaddr *at)
{
    (void)ctx; (void)purpose;
    return socket(at->family, at->socktype | SOCK_CLOEXEC, at->protocol);
}

/* ---- set-up ---------------------------------------------------------------------------- */

/* Once in a process. */
static int set_up_curl(jb_error *err)
{
    static int done;
    if (done) return 0;
    CURLcode rc = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (rc != CURLE_OK) return jb_err(err, JB_EIO, "libcurl can't be set up: %s", curl_easy_strerror(rc));
    done = 1;
    return 0;
}

int jb_http_new(jb_http **out, jb_error *err)
{
    int rc = set_up_curl(err);
    if (rc != 0) return rc;
    jb_http *h = jb_alloc(sizeof *h);
    if (!h) return jb_err(err, JB_ENOMEM, "http: out of memory");
    h->timer_ms = -1;
    h->ended_last = &h->ended;
    h->epoll = epoll_create1(EPOLL_CLOEXEC);
    h->multi = h->epoll < 0 ? NULL : curl_multi_init();
    if (!h->multi) {
        rc = h->epoll < 0 ? jb_err(err, JB_EIO, "epoll: %s", strerror(errno)) : jb_err(err, JB_ENOMEM, "http: out of memory");
        if (h->epoll >= 0) close(h->epoll);
        jb_free(h);
        return rc;
    }
    curl_multi_setopt(h->multi, CURLMOPT_SOCKETFUNCTION, on_socket);
    curl_multi_setopt(h->multi, CURLMOPT_SOCKETDATA, h);
    curl_multi_setopt(h->multi, CURLMOPT_TIMERFUNCTION, on_timer);
    curl_multi_setopt(h->multi, CURLMOPT_TIMERDATA, h);
    *out = h;
    return 0;
}

static void transfer_free(transfer *t)
{
    if (!t) return;
    if (t->easy) {
        if (t->h) curl_multi_remove_handle(t->h->multi, t->easy);
        curl_easy_cleanup(t->easy);
    }
    for (struct curl_slist *s = t->headers; s; s = s->next) explicit_bzero(s->data, strlen(s->data)); /* one has the key */
    curl_slist_free_all(t->headers);
    jb_free(t->result.headers);
    jb_buf_free(&t->head);
    jb_buf_free(&t->body);
    jb_free(t);
}

static void list_free(transfer *t)
{
    for (transfer *next; t; t = next) {
        next = t->next;
        transfer_free(t);
    }
}

void jb_http_free(jb_http *h)
{
    if (!h) return;
    list_free(h->flying);
    list_free(h->ended);
    list_free(h->told);
    curl_multi_cleanup(h->multi);
    close(h->epoll);
    jb_free(h);
}

/* ---- sending ------------------------------------------------------------------------------ */

static int one_line(jb_view v) { return v.len > 0 && !memchr(v.ptr, '\n', (size_t)v.len) && !memchr(v.ptr, '\r', (size_t)v.len) && !memchr(v.ptr, 0, (size_t)v.len); }

static int begins(jb_view v, const char *with) { return v.len > strlen(with) && strncasecmp(v.ptr, with, strlen(with)) == 0; }

static int check(const jb_http_call *c, jb_error *err)
{
    if (!one_line(c->url) || !(begins(c->url, "http://") || begins(c->url, "https://")))
        return jb_err(err, JB_EINVAL, "the URL must begin with http:// or https:// and be one line, not \"%.*s\"", (int)(c->url.len < 100 ? c->url.len : 100), c->url.ptr ? c->url.ptr : "");
    const char *end = memchr(c->url.ptr + 8, '/', (size_t)c->url.len - 8);
    if (memchr(c->url.ptr, '@', end ? (size_t)(end - c->url.ptr) : (size_t)c->url.len))
        return jb_err(err, JB_EINVAL, "the URL holds a user name or password; name the key's variable as key_env instead");
    if (!one_line(c->method) || c->method.len > 16) return jb_err(err, JB_EINVAL, "the HTTP method is empty or too long");
    if (c->header_count > JB_HTTP_HEADER_COUNT) return jb_err(err, JB_EINVAL, "a request with more than %u headers", JB_HTTP_HEADER_COUNT);
    for (size_t i = 0; i < c->header_count; i++)
        if (!one_line(c->headers[i]) || !memchr(c->headers[i].ptr, ':', (size_t)c->headers[i].len))
            return jb_err(err, JB_EINVAL, "header %zu is not \"Name: value\" on one line", i);
    return 0;
}

static int add_header(transfer *t, const char *line)
{
    struct curl_slist *longer = line ? curl_slist_append(t->headers, line) : NULL;
    if (!longer) return JB_ENOMEM;
    t->headers = longer;
    return 0;
}

static int add_headers(transfer *t, const jb_http_call *c)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < c->header_count; i++) {
        char *line = jb_strndup(c->headers[i].ptr, (size_t)c->headers[i].len);
        rc = add_header(t, line);
        jb_free(line);
    }
    if (rc == 0 && c->key && c->auth_name) {
        char *line = jb_asprintf("%s: %s%s", c->auth_name, c->auth_prefix ? c->auth_prefix : "", c->key);
        rc = add_header(t, line);
        if (line) explicit_bzero(line, strlen(line));
        jb_free(line);
    }
    return rc == 0 ? add_header(t, "Expect:") : rc; /* no 100-continue: one round trip less, and some servers stall on it */
}

/* A file of certificate authorities instead of the system's, as the curl program takes it. */
static const char *authorities(void)
{
    const char *file = getenv("CURL_CA_BUNDLE");
    if (!file || !*file) file = getenv("SSL_CERT_FILE");
    return file && *file ? file : NULL;
}

/* Most options can only fail for want of memory, which the next step reports. */
static int set_options(transfer *t, const jb_http_call *c)
{
    char *url = jb_strndup(c->url.ptr, (size_t)c->url.len), *method = jb_strndup(c->method.ptr, (size_t)c->method.len);
    CURL *e = t->easy;
    int rc = url && method && curl_easy_setopt(e, CURLOPT_URL, url) == CURLE_OK ? 0 : JB_ENOMEM;
    if (rc == 0 && c->body.len) {
        curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body.len);
        if (curl_easy_setopt(e, CURLOPT_COPYPOSTFIELDS, c->body.ptr) != CURLE_OK) rc = JB_ENOMEM;
    }
    if (rc == 0 && curl_easy_setopt(e, CURLOPT_CUSTOMREQUEST, method) != CURLE_OK) rc = JB_ENOMEM;
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(e, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(e, CURLOPT_FOLLOWLOCATION, 0L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYPEER, 1L);
    curl_easy_setopt(e, CURLOPT_SSL_VERIFYHOST, 2L);
    if (authorities()) curl_easy_setopt(e, CURLOPT_CAINFO, authorities());
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(e, CURLOPT_NOPROGRESS, 1L);
    curl_easy_setopt(e, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    curl_easy_setopt(e, CURLOPT_ACCEPT_ENCODING, "");
    curl_easy_setopt(e, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(e, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "jaxbench/" JB_VERSION);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT_MS, (long)t->timeouts.connect_ms);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)t->timeouts.total_ms);
    curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(e, CURLOPT_HEADERDATA, t);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(e, CURLOPT_PRIVATE, t);
    jb_free(url);
    jb_free(method);
    return rc;
}

int jb_http_send(jb_http *h, const jb_http_call *c, uint64_t tag, jb_error *err)
{
    int rc = check(c, err);
    if (rc != 0) return rc;
    transfer *t = jb_alloc(sizeof *t);
    if (!t) return jb_err(err, JB_ENOMEM, "http: out of memory");
    t->timeouts = c->timeouts;
    t->result.tag = tag;
    t->head = (jb_buf)JB_BUF_INIT(JB_HTTP_HEADERS_MAX);
    t->body = (jb_buf)JB_BUF_INIT(c->body_max ? c->body_max : JB_HTTP_BODY_MAX);
    t->begin_ms = now_ms();
    t->easy = curl_easy_init();
    rc = t->easy ? add_headers(t, c) : JB_ENOMEM;
    if (rc == 0) rc = set_options(t, c);
    if (rc == 0 && curl_multi_add_handle(h->multi, t->easy) != CURLM_OK) rc = JB_ENOMEM;
    if (rc != 0) {
        transfer_free(t);
        return jb_err(err, rc, "http: out of memory");
    }
    t->h = h;
    t->next = h->flying;
    h->flying = t;
    h->count++;
    return 0;
}

static transfer *unlink_transfer(transfer **list, const transfer *which)
{
    for (transfer **at = list; *at; at = &(*at)->next) {
        transfer *t = *at;
        if (t != which) continue;
        *at = t->next;
        t->next = NULL;
        return t;
    }
    return NULL;
}

void jb_http_cancel(jb_http *h, uint64_t tag)
{
    for (transfer *t = h->flying; t; t = t->next) {
        if (t->result.tag != tag) continue;
        transfer_free(unlink_transfer(&h->flying, t));
        h->count--;
        return;
    }
    for (transfer *t = h->ended; t; t = t->next) {
        if (t->result.tag != tag) continue;
        transfer_free(unlink_transfer(&h->ended, t));
        h->ended_last = &h->ended;
        while (*h->ended_last) h->ended_last = &(*h->ended_last)->next;
        h->count--;
        return;
    }
}

/* ---- ends ------------------------------------------------------------------------------------ */

static uint32_t end_of(CURLcode rc)
{
    switch (rc) {
    case CURLE_OK: return JB_HTTP_ANSWERED;
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PROXY: return JB_HTTP_CONNECT;
    case CURLE_OPERATION_TIMEDOUT: return JB_HTTP_TIMEOUT;
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
    case CURLE_SSL_CIPHER:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS: return JB_HTTP_TLS;
    case CURLE_URL_MALFORMAT:
    case CURLE_FAILED_INIT:
    case CURLE_NOT_BUILT_IN:
    case CURLE_OUT_OF_MEMORY:
    case CURLE_INTERFACE_FAILED: return JB_HTTP_BAD;
    default: return JB_HTTP_CUT; /* received too little, or nonsense where the protocol stood */
    }
}

/* The lines of the last header block. */
static int split_headers(transfer *t)
{
    jb_http_result *r = &t->result;
    r->headers = jb_alloc_array(JB_HTTP_HEADER_COUNT, sizeof *r->headers);
    if (!r->headers) return JB_ENOMEM;
    const char *end = t->head.ptr ? t->head.ptr + t->head.len : NULL;
    for (const char *at = t->head.ptr; at && at < end;) {
        const char *nl = memchr(at, '\n', (size_t)(end - at));
        size_t n = nl ? (size_t)(nl - at) : (size_t)(end - at);
        if (n && at[n - 1] == '\r') n--;
        if (n && memchr(at, ':', n) && r->header_count < JB_HTTP_HEADER_COUNT) r->headers[r->header_count++] = (jb_view){ at, n };
        at = nl ? nl + 1 : end;
    }
    return 0;
}

static void finish(jb_http *h, transfer *t, uint32_t end, const char *message)
{
    jb_http_result *r = &t->result;
    long status = 0;
    curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
    curl_multi_remove_handle(h->multi, t->easy);
    r->status = status > 0 ? (uint32_t)status : 0;
    r->end = end;
    r->seconds = (double)(now_ms() - t->begin_ms) / 1e3;
    snprintf(r->message, sizeof r->message, "%s", message);
    if (end == JB_HTTP_ANSWERED && split_headers(t) != 0) {
        r->end = JB_HTTP_BAD;
        snprintf(r->message, sizeof r->message, "out of memory");
    }
    r->body = t->body.ptr;
    r->body_len = t->body.len;
    *h->ended_last = unlink_transfer(&h->flying, t);
    h->ended_last = &t->next;
}

static void collect(jb_http *h)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));) {
        char text[256] = "";
        transfer *t = NULL;
        CURLcode rc = m->data.result;
        if (m->msg != CURLMSG_DONE) continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &t);
        if (t->too_large) {
            snprintf(text, sizeof text, "the answer is larger than %zu bytes", t->head.status ? t->head.max : t->body.max);
            finish(h, t, JB_HTTP_TOO_LARGE, text);
            continue;
        }
        if (rc == CURLE_OPERATION_TIMEDOUT) {
            int64_t took = now_ms() - t->begin_ms;
            int total = t->timeouts.total_ms > 0 && took >= t->timeouts.total_ms;
            snprintf(text, sizeof text, "%s after %.1f s", total ? "not done" : "no connection", (double)took / 1e3);
        } else if (rc != CURLE_OK) {
            static const char *const WORDS[] = { [JB_HTTP_CONNECT] = "no connection", [JB_HTTP_CUT] = "the connection broke before the answer was whole",
                                                 [JB_HTTP_TLS] = "TLS failed", [JB_HTTP_BAD] = "the request can't be sent" };
            snprintf(text, sizeof text, "%s: %s", WORDS[end_of(rc)], curl_easy_strerror(rc));
        }
        finish(h, t, end_of(rc), text);
    }
}

/* ---- deadlines ------------------------------------------------------------------------------- */

static int64_t deadline(const transfer *t)
{
    if (!t->heard_ms) return t->timeouts.first_byte_ms > 0 ? t->begin_ms + t->timeouts.first_byte_ms : INT64_MAX;
    return t->timeouts.idle_ms > 0 ? t->heard_ms + t->timeouts.idle_ms : INT64_MAX;
}

static void expire(jb_http *h)
{
    int64_t now = now_ms();
    for (transfer *t = h->flying, *next; t; t = next) {
        char text[96];
        next = t->next;
        if (deadline(t) > now) continue;
        if (t->heard_ms) snprintf(text, sizeof text, "the answer stalled for %.1f s", (double)t->timeouts.idle_ms / 1e3);
        else snprintf(text, sizeof text, "no answer within %.1f s", (double)t->timeouts.first_byte_ms / 1e3);
        finish(h, t, JB_HTTP_TIMEOUT, text);
    }
}

/* ---- the loop's side ---------------------------------------------------------------------------- */

int jb_http_fd(const jb_http *h) { return h->epoll; }

int64_t jb_http_timeout_ms(const jb_http *h)
{
    int64_t now = now_ms(), first = h->timer_ms < 0 ? INT64_MAX : h->timer_ms;
    if (h->ended) return 0;
    for (const transfer *t = h->flying; t; t = t->next)
        if (deadline(t) < first) first = deadline(t);
    return first == INT64_MAX ? -1 : first > now ? first - now : 0;
}

int jb_http_step(jb_http *h, jb_error *err)
{
    struct epoll_event events[EVENTS];
    CURLMcode rc = CURLM_OK;
    int running;
    int n = epoll_wait(h->epoll, events, EVENTS, 0);
    if (n < 0 && errno != EINTR) return jb_err(err, JB_EIO, "epoll: %s", strerror(errno));
    for (int i = 0; i < n && rc == CURLM_OK; i++) {
        int what = 0;
        if (events[i].events & EPOLLIN) what |= CURL_CSELECT_IN;
        if (events[i].events & EPOLLOUT) what |= CURL_CSELECT_OUT;
        if (events[i].events & (EPOLLERR | EPOLLHUP)) what |= CURL_CSELECT_ERR;
        rc = curl_multi_socket_action(h->multi, events[i].data.fd, what, &running);
    }
    if (rc == CURLM_OK && h->timer_ms >= 0 && h->timer_ms <= now_ms()) {
        h->timer_ms = -1;
        rc = curl_multi_socket_action(h->multi, CURL_SOCKET_TIMEOUT, 0, &running);
    }
    if (rc != CURLM_OK) return jb_err(err, JB_EIO, "libcurl: %s", curl_multi_strerror(rc));
    collect(h);
    expire(h);
    return 0;
}

jb_http_result *jb_http_next(jb_http *h)
{
    list_free(h->told);
    h->told = h->ended;
    if (!h->told) return NULL;
    h->ended = h->told->next;
    h->told->next = NULL;
    if (!h->ended) h->ended_last = &h->ended;
    h->told->h = NULL; /* left the multi handle when it ended */
    h->count--;
    return &h->told->result;
}

size_t jb_http_count(const jb_http *h) { return h->count; }

jb_view jb_http_header(const jb_http_result *r, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < r->header_count; i++) {
        jb_view v = r->headers[i];
        if (v.len <= n || v.ptr[n] != ':' || strncasecmp(v.ptr, name, n) != 0) continue;
        v.ptr += n + 1;
        v.len -= n + 1;
        while (v.len && (*v.ptr == ' ' || *v.ptr == '\t')) { v.ptr++; v.len--; }
        while (v.len && (v.ptr[v.len - 1] == ' ' || v.ptr[v.len - 1] == '\t')) v.len--;
        return v;
    }
    return (jb_view){ NULL, 0 };
}
