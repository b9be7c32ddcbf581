/* SPDX-License-Identifier: Apache-2.0 */
/* http: requests against a loopback server: what arrives there, what comes back,
 * and every way to fail ends with its kind. */
#include "core/http/http.h"
#include "tests/base/harness.h"
#include "tests/http/loopback.h"

#include <poll.h>

#define KEY "sk-test-key-0815"

/* ---- driving ------------------------------------------------------------------------- */

static const jb_http_timeouts QUICK = { 5000, 5000, 5000, 20000 };

static jb_http_call post(const char *url, const char *body)
{
    return (jb_http_call){ .method = { "POST", 4 }, .url = { url, strlen(url) }, .body = { body, strlen(body) }, .timeouts = QUICK };
}

static jb_http_result *wait_for_one(jb_http *h)
{
    for (int turns = 0; turns < 2000; turns++) {
        jb_error err = JB_ERROR_INIT;
        jb_http_result *r = jb_http_next(h);
        if (r) return r;
        struct pollfd fd = { .fd = jb_http_fd(h), .events = POLLIN };
        int64_t wait = jb_http_timeout_ms(h);
        poll(&fd, 1, wait < 0 || wait > 1000 ? 1000 : (int)wait);
        ck_assert_msg(jb_http_step(h, &err) == 0, "%s", err.message);
    }
    ck_abort_msg("nothing ended");
    return NULL;
}

static const char *url_of(const loopback *l)
{
    static char url[64];
    snprintf(url, sizeof url, "http://127.0.0.1:%d/v1/x", l->port);
    return url;
}

static jb_http *new_http(void)
{
    jb_http *h = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_http_new(&h, &err) == 0, "%s", err.message);
    return h;
}

/* One request against a server that answers by `answer`. */
static void against_in(jb_http_timeouts timeouts, int (*answer)(loopback *, int, const char *, int), uint32_t end, uint32_t status, const char *says)
{
    loopback l;
    jb_error err = JB_ERROR_INIT;
    loopback_start(&l, answer);
    jb_http *h = new_http();
    jb_http_call c = post(url_of(&l), "{}");
    c.body_max = 4096;
    c.timeouts = timeouts;
    ck_assert_int_eq(jb_http_send(h, &c, 7, &err), 0);
    jb_http_result *r = wait_for_one(h);
    ck_assert_uint_eq(r->tag, 7);
    ck_assert_msg(r->end == end && r->status == status, "end %u status %u, expected %u and %u: %s", r->end, r->status, end, status, r->message);
    ck_assert_msg(strstr(r->message, says), "\"%s\" does not say \"%s\"", r->message, says);
    ck_assert_uint_eq(jb_http_count(h), 0);
    jb_http_free(h);
    loopback_stop(&l);
}

#define against(...) against_in(QUICK, __VA_ARGS__)

/* ---- a good one ---------------------------------------------------------------------------- */

static int good(loopback *l, int client, const char *request, int n)
{
    (void)l; (void)request; (void)n;
    loopback_say(client, "HTTP/1.1 100 Continue\r\nX-Early: no\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-Thing:  a b \r\nretry-after: 3\r\n\r\nhello");
    return 0;
}

START_TEST(request_and_answer_are_whole)
{
    loopback l;
    jb_error err = JB_ERROR_INIT;
    jb_view headers[] = { { "Content-Type: application/json", 30 }, { "X-A: 1", 6 } };
    loopback_start(&l, good);
    jb_http *h = new_http();
    jb_http_call c = post(url_of(&l), "{\"a\":1}");
    c.headers = headers;
    c.header_count = 2;
    c.auth_name = "Authorization";
    c.auth_prefix = "Bearer ";
    c.key = KEY;
    ck_assert_int_eq(jb_http_send(h, &c, 1, &err), 0);
    jb_http_result *r = wait_for_one(h);
    ck_assert_msg(r->end == JB_HTTP_ANSWERED && r->status == 200, "%u %u %s", r->end, r->status, r->message);
    ck_assert_uint_eq(r->body_len, 5);
    ck_assert_str_eq(r->body, "hello");
    jb_view v = jb_http_header(r, "Retry-After");
    ck_assert(v.len == 1 && *v.ptr == '3');
    v = jb_http_header(r, "x-thing");
    ck_assert(v.len == 3 && memcmp(v.ptr, "a b", 3) == 0);
    ck_assert_ptr_null(jb_http_header(r, "X-Early").ptr);
    ck_assert_ptr_null(jb_http_header(r, "X-Thin").ptr);
    ck_assert_msg(strncmp(l.last, "POST /v1/x HTTP/1.1\r\n", 21) == 0, "%s", l.last);
    static const char *const SENT[] = { "\r\nContent-Type: application/json\r\n", "\r\nX-A: 1\r\n", "\r\nAuthorization: Bearer " KEY "\r\n", "\r\nUser-Agent: jaxbench/", "\r\n\r\n{\"a\":1}" };
    for (size_t i = 0; i < sizeof SENT / sizeof SENT[0]; i++) ck_assert_msg(strstr(l.last, SENT[i]), "no %s in\n%s", SENT[i], l.last);
    jb_http_free(h);
    loopback_stop(&l);
}
END_TEST

START_TEST(no_key_no_header)
{
    loopback l;
    jb_error err = JB_ERROR_INIT;
    loopback_start(&l, good);
    jb_http *h = new_http();
    jb_http_call c = post(url_of(&l), "{}");
    c.auth_name = "Authorization";
    ck_assert_int_eq(jb_http_send(h, &c, 1, &err), 0);
    ck_assert_uint_eq(wait_for_one(h)->end, JB_HTTP_ANSWERED);
    ck_assert_ptr_null(strcasestr(l.last, "authorization"));
    jb_http_free(h);
    loopback_stop(&l);
}
END_TEST

/* ---- faults -------------------------------------------------------------------------------- */

static int redirecting(loopback *l, int client, const char *request, int n)
{
    char text[160];
    (void)request; (void)n;
    snprintf(text, sizeof text, "HTTP/1.1 307 Elsewhere\r\nLocation: http://localhost:%d/steal\r\nContent-Length: 0\r\n\r\n", l->port);
    loopback_say(client, text);
    return 0;
}

START_TEST(a_redirect_is_an_answer_and_is_not_followed)
{
    loopback l;
    jb_error err = JB_ERROR_INIT;
    loopback_start(&l, redirecting);
    jb_http *h = new_http();
    jb_http_call c = post(url_of(&l), "{}");
    c.auth_name = "Authorization";
    c.key = KEY;
    ck_assert_int_eq(jb_http_send(h, &c, 1, &err), 0);
    jb_http_result *r = wait_for_one(h);
    ck_assert_uint_eq(r->end, JB_HTTP_ANSWERED);
    ck_assert_uint_eq(r->status, 307);
    ck_assert_ptr_nonnull(jb_http_header(r, "Location").ptr);
    ck_assert_int_eq(atomic_load(&l.requests), 1);
    jb_http_free(h);
    loopback_stop(&l);
}
END_TEST

static int short_body(loopback *l, int client, const char *request, int n) { (void)l; (void)request; (void)n; loopback_say(client, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"); return 0; }
static int no_answer(loopback *l, int client, const char *request, int n) { (void)l; (void)client; (void)request; (void)n; return 0; }
static int silence(loopback *l, int client, const char *request, int n) { (void)l; (void)client; (void)request; (void)n; return 1; }
static int stall(loopback *l, int client, const char *request, int n) { (void)l; (void)request; (void)n; loopback_say(client, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"); return 1; }
static int nonsense(loopback *l, int client, const char *request, int n) { (void)l; (void)request; (void)n; loopback_say(client, "SSH-2.0-OpenSSH\r\n\r\n"); return 0; }

static int endless(loopback *l, int client, const char *request, int n)
{
    (void)l; (void)request; (void)n;
    loopback_say(client, "HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n");
    for (int i = 0; i < 500; i++) loopback_say(client, "a hundred bytes or so, again and again and again, which is more than anybody would ever want to have..");
    return 0;
}

static int many_headers(loopback *l, int client, const char *request, int n)
{
    (void)l; (void)request; (void)n;
    loopback_say(client, "HTTP/1.1 200 OK\r\n");
    for (int i = 0; i < 6000; i++) loopback_say(client, "X-More: and more and more and more and more and more and more\r\n");
    loopback_say(client, "\r\n");
    return 0;
}

START_TEST(a_cut_connection) { against(short_body, JB_HTTP_CUT, 200, "broke before the answer was whole"); }
END_TEST
START_TEST(a_connection_closed_without_a_word) { against(no_answer, JB_HTTP_CUT, 0, "broke"); }
END_TEST
START_TEST(another_protocol) { against(nonsense, JB_HTTP_CUT, 0, ""); }
END_TEST
START_TEST(a_body_above_the_cap) { against(endless, JB_HTTP_TOO_LARGE, 200, "larger than 4096 bytes"); }
END_TEST
START_TEST(headers_above_the_cap)
{
    /* libcurl has a cap of its own in some versions, then it is a broken answer. */
    loopback l;
    jb_error err = JB_ERROR_INIT;
    loopback_start(&l, many_headers);
    jb_http *h = new_http();
    jb_http_call c = post(url_of(&l), "{}");
    ck_assert_int_eq(jb_http_send(h, &c, 7, &err), 0);
    jb_http_result *r = wait_for_one(h);
    ck_assert_msg(r->end == JB_HTTP_TOO_LARGE || r->end == JB_HTTP_CUT, "end %u: %s", r->end, r->message);
    jb_http_free(h);
    loopback_stop(&l);
}
END_TEST

START_TEST(no_first_byte)
{
    against_in((jb_http_timeouts){ 5000, 120, 0, 0 }, silence, JB_HTTP_TIMEOUT, 0, "no answer within 0.1 s");
}
END_TEST

START_TEST(no_further_byte)
{
    against_in((jb_http_timeouts){ 5000, 5000, 120, 0 }, stall, JB_HTTP_TIMEOUT, 200, "stalled for 0.1 s");
}
END_TEST

START_TEST(not_done_in_time)
{
    against_in((jb_http_timeouts){ 5000, 5000, 5000, 150 }, silence, JB_HTTP_TIMEOUT, 0, "not done after");
}
END_TEST

START_TEST(a_dead_host)
{
    char url[64];
    jb_error err = JB_ERROR_INIT;
    jb_http *h = new_http();
    snprintf(url, sizeof url, "http://127.0.0.1:%d/", loopback_dead_port());
    jb_http_call c = post(url, "{}");
    ck_assert_int_eq(jb_http_send(h, &c, 1, &err), 0);
    jb_http_result *r = wait_for_one(h);
    ck_assert_msg(r->end == JB_HTTP_CONNECT, "end %u: %s", r->end, r->message);
    ck_assert_msg(strstr(r->message, "no connection"), "%s", r->message);
    jb_http_free(h);
}
END_TEST

/* The loopback server speaks no TLS, so a handshake fails; the point is the kind. */
START_TEST(tls_is_spoken_to_https)
{
    loopback l;
    char url[64];
    jb_error err = JB_ERROR_INIT;
    loopback_start(&l, good);
    jb_http *h = new_http();
    snprintf(url, sizeof url, "https://127.0.0.1:%d/", l.port);
    jb_http_call c = post(url, "{}");
    c.timeouts.total_ms = 500;
    ck_assert_int_eq(jb_http_send(h, &c, 1, &err), 0);
    jb_http_result *r = wait_for_one(h);
    ck_assert_msg(r->end == JB_HTTP_TLS || r->end == JB_HTTP_TIMEOUT, "end %u: %s", r->end, r->message); /* the server waits for a whole request */
    ck_assert_int_eq(atomic_load(&l.requests), 0);
    jb_http_free(h);
    loopback_stop(&l);
}
END_TEST

START_TEST(what_can_not_be_a_request)
{
    static const struct { const char *url, *header, *says; } cases[] = {
        { "ftp://127.0.0.1/", NULL, "http:// or https://" },      { "file:///etc/passwd", NULL, "http:// or https://" },
        { "http://a\r\nHost: b/", NULL, "one line" },             { "", NULL, "http:// or https://" },
        { "https://me:pw@host/v1", NULL, "user name or password" }, { "http://127.0.0.1/", "X: a\r\nEvil: b", "one line" },
        { "http://127.0.0.1/", "no colon", "Name: value" },
    };
    jb_http *h = new_http();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        jb_http_call c = post(cases[i].url, "{}");
        jb_view header = { cases[i].header, cases[i].header ? strlen(cases[i].header) : 0 };
        c.headers = &header;
        c.header_count = cases[i].header != NULL;
        ck_assert_int_eq(jb_http_send(h, &c, 1, &err), JB_EINVAL);
        ck_assert_msg(strstr(err.message, cases[i].says), "%s", err.message);
    }
    ck_assert_uint_eq(jb_http_count(h), 0);
    jb_http_free(h);
}
END_TEST

/* ---- many, cancelled, freed ----------------------------------------------------------------- */

static int numbered(loopback *l, int client, const char *request, int n)
{
    char text[128];
    (void)l; (void)n;
    const char *body = strstr(request, "\r\n\r\n") + 4;
    snprintf(text, sizeof text, "HTTP/1.1 200 OK\r\nContent-Length: %zu\r\n\r\n%s", strlen(body), body);
    loopback_say(client, text);
    return 0;
}

START_TEST(many_at_once_keep_their_tags)
{
    loopback l;
    jb_error err = JB_ERROR_INIT;
    int seen[41] = { 0 };
    loopback_start(&l, numbered);
    jb_http *h = new_http();
    for (uint64_t tag = 1; tag <= 40; tag++) {
        char body[16];
        snprintf(body, sizeof body, "%llu", (unsigned long long)tag);
        jb_http_call c = post(url_of(&l), body);
        ck_assert_int_eq(jb_http_send(h, &c, tag, &err), 0);
    }
    ck_assert_uint_eq(jb_http_count(h), 40);
    for (int i = 0; i < 40; i++) {
        jb_http_result *r = wait_for_one(h);
        ck_assert_msg(r->end == JB_HTTP_ANSWERED, "%s", r->message);
        ck_assert_uint_eq(strtoull(r->body, NULL, 10), r->tag);
        seen[r->tag]++;
    }
    for (int i = 1; i <= 40; i++) ck_assert_int_eq(seen[i], 1);
    ck_assert_ptr_null(jb_http_next(h));
    jb_http_free(h);
    loopback_stop(&l);
}
END_TEST

START_TEST(cancelled_ones_are_never_told_and_free_drops_the_rest)
{
    loopback l;
    jb_error err = JB_ERROR_INIT;
    loopback_start(&l, silence);
    jb_http *h = new_http();
    for (uint64_t tag = 1; tag <= 3; tag++) {
        jb_http_call c = post(url_of(&l), "{}");
        ck_assert_int_eq(jb_http_send(h, &c, tag, &err), 0);
        ck_assert_int_eq(jb_http_step(h, &err), 0);
    }
    jb_http_cancel(h, 2);
    jb_http_cancel(h, 99);
    ck_assert_uint_eq(jb_http_count(h), 2);
    jb_http_cancel(h, 1);
    jb_http_cancel(h, 1);
    ck_assert_uint_eq(jb_http_count(h), 1);
    jb_http_free(h);
    jb_http_free(NULL);
    loopback_stop(&l);
}
END_TEST

int main(void)
{
    static const char *const PROXIES[] = { "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY" };
    for (size_t i = 0; i < sizeof PROXIES / sizeof PROXIES[0]; i++) unsetenv(PROXIES[i]);
    const TTest *const tests[] = { request_and_answer_are_whole, no_key_no_header, a_redirect_is_an_answer_and_is_not_followed, a_cut_connection,
                                   a_connection_closed_without_a_word, another_protocol, a_body_above_the_cap, headers_above_the_cap, no_first_byte,
                                   no_further_byte, not_done_in_time, a_dead_host, tls_is_spoken_to_https, what_can_not_be_a_request,
                                   many_at_once_keep_their_tags, cancelled_ones_are_never_told_and_free_drops_the_rest };
    return RUN_SUITE("http", tests);
}
