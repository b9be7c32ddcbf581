/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_calls.c - calls of a remote backend against a loopback server:
 * what is paid, what is charged, what ends the run, and that a run cut off anywhere
 * goes on without asking twice for what it has. */
#include "tests/engine/fake.h"
#include "tests/http/loopback.h"

#include <jaxbench/backend.h>

#define KEY "sk-calls-key-0815"

/* ---- a remote backend: the seed travels in the body and picks the reply -------------- */

struct remote_config { const char *key_env; };
static const jb_option REMOTE_OPTIONS[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_STRING, .flags = JB_OPTF_SECRET, .offset = offsetof(struct remote_config, key_env),
      .name = "key_env", .def = "JB_CALLS_KEY", .help = "Key." },
};

static char remote_url[64];

static int remote_encode(void *self, const jb_request *req, jb_http_request *out, jb_error *err)
{
    const jb_host *host = self;
    const jb_arena_service *arena = host->service(host, JB_SERVICE_ARENA);
    char *body = arena->alloc(host, 64);
    if (!body || !req->hash || strlen(req->hash) != 64) return jb_err(err, JB_EINTERNAL, "no arena or no hash");
    out->method = (jb_view){ "POST", 4 };
    out->url = (jb_view){ remote_url, strlen(remote_url) };
    out->body = (jb_view){ body, (uint64_t)snprintf(body, 64, "seed=%llu", (unsigned long long)req->seed) };
    out->auth_scheme = "Bearer";
    return 0;
}

/* 200: "text:..." is the reply, "seed:N" one of the fake backend's. */
static int remote_decode(void *self, const jb_http_response *resp, jb_reply *out, jb_error *err)
{
    const jb_host *host = self;
    const jb_arena_service *arena = host->service(host, JB_SERVICE_ARENA);
    static const struct { uint32_t status, class; } CLASSES[] = { { 401, JB_LLM_AUTH }, { 402, JB_LLM_QUOTA }, { 429, JB_LLM_RATE_LIMIT }, { 404, JB_LLM_PERMANENT },
                                                                  { 413, JB_LLM_TOO_LONG }, { 204, JB_LLM_EMPTY }, { 500, JB_LLM_TRANSIENT } };
    for (size_t i = 0; i < sizeof CLASSES / sizeof CLASSES[0]; i++)
        if (resp->status == CLASSES[i].status) out->error_class = CLASSES[i].class;
    if (out->error_class) {
        snprintf(out->message, sizeof out->message, "HTTP %u: %.*s", resp->status, (int)resp->body.len, resp->body.ptr);
        return 0;
    }
    if (strncmp(resp->body.ptr, "text:", 5) == 0) {
        char *text = arena->alloc(host, resp->body.len);
        if (!text) return jb_err(err, JB_ENOMEM, "no arena");
        memcpy(text, resp->body.ptr + 5, (size_t)resp->body.len - 5);
        out->text = (jb_view){ text, resp->body.len - 5 };
        return 0;
    }
    jb_message message = { JB_ROLE_USER, 0, { "x", 1 } };
    jb_request again = { .struct_size = sizeof again, .seed = strtoull(resp->body.ptr + 5, NULL, 10), .messages = &message, .message_count = 1 };
    return fb_complete(self, &again, out, err);
}

static const jb_backend_ops REMOTE_OPS = { .struct_size = sizeof REMOTE_OPS, .create = fb_create, .encode = remote_encode, .decode = remote_decode };
static const jb_component REMOTE = { .struct_size = sizeof REMOTE, .kind = JB_KIND_BACKEND, .name = "remote", .summary = "x", .options = REMOTE_OPTIONS,
                                     .option_count = 1, .option_size = sizeof(jb_option), .config_size = sizeof(struct remote_config), .ops = &REMOTE_OPS };

/* ---- servers ----------------------------------------------------------------------------- */

static void say(int client, int status, const char *header, const char *body)
{
    char text[2048];
    snprintf(text, sizeof text, "HTTP/1.1 %d X\r\n%sContent-Length: %zu\r\n\r\n%s", status, header, strlen(body), body);
    loopback_say(client, text);
}

static int answer_well(loopback *l, int client, const char *request, int n)
{
    char body[64];
    (void)l; (void)n;
    snprintf(body, sizeof body, "seed:%s", strstr(request, "seed=") + 5);
    say(client, 200, "", body);
    return 0;
}

static int failing_status = 500, failing_first = 1 << 20;
static int answer_badly(loopback *l, int client, const char *request, int n)
{
    if (n >= failing_first) return answer_well(l, client, request, n);
    say(client, failing_status, failing_status == 429 ? "Retry-After: 0\r\n" : "", "so it is, " KEY);
    return 0;
}

static int answer_well_once(loopback *l, int client, const char *request, int n)
{
    if (n == 0) return answer_well(l, client, request, n);
    say(client, failing_status, "", "no more");
    return 0;
}

static int answer_with_the_key(loopback *l, int client, const char *request, int n)
{
    char body[1500];
    (void)l; (void)n;
    snprintf(body, sizeof body, "text:You said: %.1200s", strstr(request, "Authorization:"));
    say(client, 200, "", body);
    return 0;
}

/* Answers the first, then asks the run to stop and is late with the rest. */
static int answer_late(loopback *l, int client, const char *request, int n)
{
    if (n == 1) {
        fake_stop = 15;
        usleep(300000);
    }
    return answer_well(l, client, request, n);
}

/* ---- runs ------------------------------------------------------------------------------------ */

static loopback server;
static jb_call_limits limits;

static void open_remote(fake_run *r, const char *name)
{
    setenv("JB_CALLS_KEY", KEY, 1);
    fake_open(r, fake_root, name, 3);
    r->cell_count = 2;
    for (size_t i = 0; i < 2; i++) {
        r->cells[i].backend = &REMOTE;
        r->cells[i].limits = &limits;
    }
    snprintf(remote_url, sizeof remote_url, "http://127.0.0.1:%d/", server.port);
}

static void go(fake_run *r, uint32_t end)
{
    ck_assert_msg(fake_go(r) == 0, "%s", r->err.message);
    ck_assert_msg(r->result.end == end, "end %u, expected %u: %s", r->result.end, end, r->result.provider.message);
}

static int count_of(const char *text, const char *what)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, what)); at += strlen(what)) n++;
    return n;
}

static int journal_count(const fake_run *r, const char *what)
{
    size_t len;
    char *text = fake_slurp(r->dir, "journal.jsonl", &len);
    int n = count_of(text, what);
    jb_free(text);
    return n;
}

static jb_ledger ledger_of(const fake_run *r)
{
    jb_records *rec = NULL;
    jb_error err = JB_ERROR_INIT;
    jb_ledger sum;
    ck_assert_msg(jb_records_load(r->dir, &rec, &err) == 0, "%s", err.message);
    jb_ledger_init(&sum, -1);
    for (size_t i = 0; i < rec->cell_count; i++) jb_ledger_add(&sum, &rec->cells[i].ledger);
    jb_records_free(rec);
    return sum;
}

static int64_t calls_in(const jb_ledger *l)
{
    int64_t n = 0;
    for (size_t p = 0; p < JB_PURPOSES; p++) n += l->calls[p];
    return n;
}

static void setup(void)
{
    static const char *const PROXIES[] = { "http_proxy", "https_proxy", "all_proxy", "HTTPS_PROXY", "ALL_PROXY" };
    for (size_t i = 0; i < sizeof PROXIES / sizeof PROXIES[0]; i++) unsetenv(PROXIES[i]);
    fake_setup();
    limits = (jb_call_limits)JB_CALL_LIMITS_DEFAULT;
    limits.retry = (jb_retry_policy){ 2, 2, 10, 50, 0 };
    limits.timeouts.first_byte_ms = 3000;
    failing_status = 500;
    failing_first = 1 << 20;
}

/* ---- the good path ------------------------------------------------------------------------------ */

START_TEST(a_run_over_http_asks_once_for_each_call)
{
    fake_run r;
    loopback_start(&server, answer_well);
    open_remote(&r, "good");
    go(&r, JB_END_DONE);
    jb_ledger l = ledger_of(&r);
    ck_assert_int_eq(atomic_load(&server.requests), 12);
    ck_assert_int_eq(l.samples, 12);
    ck_assert_int_eq(l.failures, 0);
    ck_assert_int_eq(journal_count(&r, "\"call_send\""), 12);
    ck_assert_int_eq(journal_count(&r, "\"call_fail\""), 0);
    ck_assert_ptr_null(getenv("JB_CALLS_KEY"));
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

/* Every line is a place where the process may die. */
START_TEST(cut_at_every_line_nothing_paid_is_asked_again)
{
    fake_run r;
    size_t len, lines = 0;
    loopback_start(&server, answer_well);
    open_remote(&r, "whole");
    go(&r, JB_END_DONE);
    char *view = fake_view(r.dir), *journal = fake_slurp(r.dir, "journal.jsonl", &len), blobs[300];
    snprintf(blobs, sizeof blobs, "%s/blobs", r.dir);
    fake_close(&r);
    for (size_t at = 0; at <= len; at++) {
        if (at && journal[at - 1] != '\n') continue;
        char what[64], command[800];
        lines++;
        snprintf(what, sizeof what, "cut after line %zu", lines - 1);
        char *head = jb_strndup(journal, at);
        int done = count_of(head, "\"finish\":"), sent = count_of(head, "\"call_send\"");
        jb_free(head);
        fake_reset();
        atomic_store(&server.requests, 0);
        open_remote(&r, "cut");
        snprintf(command, sizeof command, "cp -r '%s' '%s/blobs'", blobs, r.dir);
        ck_assert_int_eq(system(command), 0);
        fake_spit(r.dir, "journal.jsonl", journal, at);
        go(&r, JB_END_DONE);
        ck_assert_msg(atomic_load(&server.requests) == 12 - done, "%s: %d requests, %d of 12 had ended", what, atomic_load(&server.requests), done);
        ck_assert_int_eq(journal_count(&r, "\"attempt\":2"), sent - done);
        char *again = fake_view(r.dir);
        same_view(what, view, again);
        jb_free(again);
        fake_close(&r);
        jb_error err = JB_ERROR_INIT;
        jb_fs_remove_tree(r.dir, &err);
    }
    ck_assert_uint_gt(lines, 60);
    jb_free(view);
    jb_free(journal);
    loopback_stop(&server);
}
END_TEST

/* A method that ends with calls in flight: they are dropped, the run ends. */
START_TEST(a_method_may_finish_with_calls_in_flight)
{
    fake_run r;
    loopback_start(&server, answer_well);
    open_remote(&r, "iter");
    r.cells[0] = r.cells[2];
    r.cells[0].backend = &REMOTE;
    r.cells[0].limits = &limits;
    r.cell_count = 1;
    go(&r, JB_END_DONE);
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

START_TEST(one_at_a_time_is_as_good)
{
    fake_run a, b;
    loopback_start(&server, answer_well);
    open_remote(&a, "wide");
    go(&a, JB_END_DONE);
    limits.rate.in_flight = 1;
    fake_reset();
    open_remote(&b, "narrow");
    go(&b, JB_END_DONE);
    char *x = fake_view(a.dir), *y = fake_view(b.dir);
    same_view("in_flight 8 and 1", x, y);
    jb_free(x);
    jb_free(y);
    fake_close(&a);
    fake_close(&b);
    loopback_stop(&server);
}
END_TEST

/* ---- failures --------------------------------------------------------------------------------------- */

START_TEST(what_heals_is_tried_again)
{
    static const int STATUSES[] = { 500, 429, 204 };
    for (size_t i = 0; i < 3; i++) {
        fake_run r;
        char name[32];
        snprintf(name, sizeof name, "heals-%zu", i);
        failing_status = STATUSES[i];
        failing_first = 2;
        loopback_start(&server, answer_badly);
        limits.rate.in_flight = 1;
        open_remote(&r, name);
        go(&r, JB_END_DONE);
        jb_ledger l = ledger_of(&r);
        ck_assert_int_eq(l.samples, 12);
        ck_assert_int_eq(l.failures, 0);
        ck_assert_int_eq(journal_count(&r, "\"call_fail\""), 2);
        ck_assert_int_eq(journal_count(&r, KEY), 0);
        ck_assert_int_eq(atomic_load(&server.requests), 14);
        fake_close(&r);
        loopback_stop(&server);
    }
}
END_TEST

START_TEST(what_does_not_heal_fails_and_costs_no_sample)
{
    static const struct { int status, requests; const char *class; } cases[] = {
        { 500, 36, "transient" }, { 429, 36, "rate-limit" }, { 204, 36, "empty" }, { 413, 12, "too-long" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake_run r;
        char name[32], class[64];
        snprintf(name, sizeof name, "fails-%zu", i);
        snprintf(class, sizeof class, "\"error_class\":\"%s\"", cases[i].class);
        failing_status = cases[i].status;
        loopback_start(&server, answer_badly);
        open_remote(&r, name);
        go(&r, JB_END_DONE); /* no share was set */
        jb_ledger l = ledger_of(&r);
        ck_assert_int_eq(l.samples, 0);
        ck_assert_int_eq(calls_in(&l), 0);
        ck_assert_int_eq(l.failures, 12);
        ck_assert_int_eq(l.candidates, 0);
        ck_assert_int_eq(r.result.failed_calls, 12);
        ck_assert_ptr_nonnull(strstr(r.result.first_failed_call, cases[i].class));
        ck_assert_int_eq(journal_count(&r, class), 12);
        ck_assert_int_eq(journal_count(&r, KEY), 0);
        ck_assert_int_eq(atomic_load(&server.requests), cases[i].requests);
        fake_close(&r);
        loopback_stop(&server);
    }
}
END_TEST

START_TEST(too_many_failed_calls_stop_the_run)
{
    fake_run r;
    loopback_start(&server, answer_badly);
    limits.rate.in_flight = 1;
    open_remote(&r, "share");
    r.o.stop_after_infra_share = 0.2;
    go(&r, JB_END_INFRA);
    ck_assert_int_eq(r.result.failed_calls, 10); /* the least that means anything */
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

START_TEST(a_dead_host_is_transient)
{
    fake_run r;
    open_remote(&r, "dead");
    snprintf(remote_url, sizeof remote_url, "http://127.0.0.1:%d/", loopback_dead_port());
    r.o.stop_after_infra_share = 0.2;
    go(&r, JB_END_INFRA);
    ck_assert_ptr_nonnull(strstr(r.result.first_failed_call, "transient: no connection"));
    fake_close(&r);
}
END_TEST

/* What concerns the backend as a whole ends the run; mended, it goes on as if nothing had been. */
START_TEST(what_no_call_can_survive_ends_the_run_and_resume_goes_on)
{
    static const struct { int status; uint32_t class; const char *says; } cases[] = {
        { 401, JB_LLM_AUTH, "does not accept the key" }, { 402, JB_LLM_QUOTA, "no quota left" }, { 404, JB_LLM_PERMANENT, "refuses what it is asked" },
        { 429, JB_LLM_RATE_LIMIT, "retries are off" },
    };
    fake_run whole;
    loopback_start(&server, answer_well);
    open_remote(&whole, "whole");
    go(&whole, JB_END_DONE);
    char *view = fake_view(whole.dir);
    loopback_stop(&server);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fake_run r;
        char name[32];
        snprintf(name, sizeof name, "ends-%zu", i);
        failing_status = cases[i].status;
        limits.retry.retries = cases[i].status == 429 ? 0 : 2;
        loopback_start(&server, answer_badly);
        fake_reset();
        open_remote(&r, name);
        go(&r, JB_END_PROVIDER);
        ck_assert_uint_eq(r.result.provider_class, cases[i].class);
        ck_assert_msg(strstr(r.result.provider.message, cases[i].says), "%s", r.result.provider.message);
        ck_assert_msg(!strstr(r.result.provider.message, KEY), "%s", r.result.provider.message);
        ck_assert_int_eq(journal_count(&r, "\"op_done\""), 0);
        ck_assert_int_eq(ledger_of(&r).samples, 0);
        ck_assert_int_le(atomic_load(&server.requests), 12);
        fake_close(&r);
        loopback_stop(&server);
        loopback_start(&server, answer_well);
        fake_reset();
        open_remote(&r, name);
        go(&r, JB_END_DONE);
        char *again = fake_view(r.dir);
        same_view(cases[i].says, view, again);
        jb_free(again);
        fake_close(&r);
        loopback_stop(&server);
    }
    jb_free(view);
    fake_close(&whole);
}
END_TEST

START_TEST(a_refused_call_of_a_backend_that_works_fails_alone)
{
    fake_run r;
    failing_status = 404;
    loopback_start(&server, answer_well_once);
    limits.rate.in_flight = 1;
    open_remote(&r, "alone");
    go(&r, JB_END_DONE);
    ck_assert_int_eq(r.result.failed_calls, 11);
    ck_assert_int_eq(ledger_of(&r).samples, 1);
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

/* ---- stops, keys ---------------------------------------------------------------------------------------- */

START_TEST(a_stop_waits_for_what_is_paid)
{
    fake_run r;
    loopback_start(&server, answer_late);
    open_remote(&r, "stop");
    go(&r, JB_END_SIGNAL);
    int sent = journal_count(&r, "\"call_send\""), done = journal_count(&r, "\"finish\":");
    ck_assert_int_ge(sent, 2);
    ck_assert_msg(sent == done, "%d were sent, %d are in the journal", sent, done);
    fake_close(&r);
    fake_reset();
    server.answer = answer_well;
    open_remote(&r, "stop");
    go(&r, JB_END_DONE);
    ck_assert_int_eq(atomic_load(&server.requests), 12);
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

START_TEST(a_key_that_comes_back_is_scrubbed)
{
    fake_run r;
    char command[400];
    loopback_start(&server, answer_with_the_key);
    open_remote(&r, "echo");
    go(&r, JB_END_DONE);
    ck_assert_ptr_nonnull(strstr(server.last, "Authorization: Bearer " KEY));
    ck_assert_int_ge(journal_count(&r, "Authorization: Bearer *****************"), 12);
    snprintf(command, sizeof command, "! grep -rq '%s' '%s'", KEY, r.dir);
    ck_assert_int_eq(system(command), 0);
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

START_TEST(without_its_key_a_run_does_not_begin_and_a_finished_one_needs_none)
{
    fake_run r;
    loopback_start(&server, answer_well);
    open_remote(&r, "nokey");
    unsetenv("JB_CALLS_KEY");
    ck_assert_int_eq(fake_go(&r), JB_ENOTFOUND);
    ck_assert_msg(strstr(r.err.message, "JB_CALLS_KEY") && strstr(r.err.message, "backend"), "%s", r.err.message);
    ck_assert(r.err.flags & JB_ERR_USER);
    char *journal = jb_fs_join(r.dir, "journal.jsonl");
    ck_assert_int_eq(jb_fs_exists(journal), 0); /* not one line */
    jb_free(journal);
    r.err = (jb_error)JB_ERROR_INIT;
    setenv("JB_CALLS_KEY", KEY, 1);
    go(&r, JB_END_DONE);
    ck_assert_ptr_null(getenv("JB_CALLS_KEY"));
    go(&r, JB_END_DONE);
    ck_assert_int_eq(atomic_load(&server.requests), 12);
    fake_close(&r);
    loopback_stop(&server);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("calls");
    TCase *c = tcase_create("calls");
    tcase_add_checked_fixture(c, setup, fake_teardown);
    tcase_set_timeout(c, 100);
    tcase_add_test(c, a_run_over_http_asks_once_for_each_call);
    tcase_add_test(c, cut_at_every_line_nothing_paid_is_asked_again);
    tcase_add_test(c, a_method_may_finish_with_calls_in_flight);
    tcase_add_test(c, one_at_a_time_is_as_good);
    tcase_add_test(c, what_heals_is_tried_again);
    tcase_add_test(c, what_does_not_heal_fails_and_costs_no_sample);
    tcase_add_test(c, too_many_failed_calls_stop_the_run);
    tcase_add_test(c, a_dead_host_is_transient);
    tcase_add_test(c, what_no_call_can_survive_ends_the_run_and_resume_goes_on);
    tcase_add_test(c, a_refused_call_of_a_backend_that_works_fails_alone);
    tcase_add_test(c, a_stop_waits_for_what_is_paid);
    tcase_add_test(c, a_key_that_comes_back_is_scrubbed);
    tcase_add_test(c, without_its_key_a_run_does_not_begin_and_a_finished_one_needs_none);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
