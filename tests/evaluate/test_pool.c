/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs through an executor that is a table in this program: what is lost is tried
 * again, and an executor that says nothing, or talks and never ends, is given up. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/evaluate/pool.h"

#include <check.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- the executor --------------------------------------------------------- */

typedef enum { ANSWER, MUTE, READY_ONLY, CHATTY, LOSE } temper;

static temper mood;
static uint64_t given[16];   /* in flight */
static size_t given_count;
static int ready_told, submits, cancels;

static int open_(const jb_host *host, const void *config, void **out, jb_error *e)
{
    (void)config;
    (void)e;
    memcpy(out, &host, sizeof host);
    return 0;
}

static int submit(void *self, uint64_t job, jb_view spec, jb_view body, jb_error *e)
{
    (void)self;
    (void)spec;
    (void)body;
    (void)e;
    given[given_count++] = job;
    submits++;
    return 0;
}

static int event_fd(void *self)
{
    (void)self;
    return 0;
}

static int next(void *self, jb_job_event *out, jb_error *e)
{
    static const char record[] = "{\"schema\":1,\"stages\":{\"trace\":{\"status\":\"ok\"}}}";
    static int turn;
    (void)self;
    (void)e;
    if (mood == MUTE) return 0;
    if (!ready_told) {
        ready_told = 1;
        out->kind = JB_EXECUTOR_READY;
        out->record = (jb_view){ "{}", 2 };
        return 1;
    }
    if (mood == READY_ONLY || given_count == 0) return 0;
    if (mood == CHATTY && ++turn % 2) return 0; /* else the pool would ask for ever */
    out->job = given[0];
    out->kind = mood == CHATTY ? JB_JOB_PROGRESS : mood == LOSE ? JB_JOB_LOST : JB_JOB_DONE;
    out->record = (jb_view){ record, sizeof record - 1 };
    if (mood == LOSE) jb_err(&out->error, JB_EIO, "it was struck by lightning");
    if (mood != CHATTY) memmove(given, given + 1, --given_count * sizeof *given);
    return 1;
}

static int cancel(void *self, uint64_t job, jb_error *e)
{
    (void)self;
    (void)job;
    (void)e;
    cancels++;
    return 0;
}

static void close_(void *self) { (void)self; }

static const jb_executor_ops ops = { .struct_size = sizeof ops, .open = open_, .submit = submit, .event_fd = event_fd, .next = next, .cancel = cancel, .close = close_ };
static const jb_component component = { .struct_size = sizeof component, .kind = JB_KIND_EXECUTOR, .name = "scripted", .ops = &ops };

/* ---- the pool -------------------------------------------------------------- */

static jb_pool *pool;
static jb_error err;

static void open_pool(temper t, double ready_s, double margin_s)
{
    jb_pool_options o = { .executor = &component, .slots = 2, .infra_retries = 1, .ready_s = ready_s, .margin_s = margin_s };
    jb_json_setup();
    mood = t;
    given_count = 0;
    ready_told = submits = cancels = 0;
    err = (jb_error)JB_ERROR_INIT;
    ck_assert_msg(jb_pool_open(&o, &pool, &err) == 0, "%s", err.message);
}

static void submit_job(uint64_t tag, const char *spec)
{
    ck_assert_int_eq(jb_pool_submit(pool, tag, jb_json_parse(spec, strlen(spec), NULL), (jb_view){ "x", 1 }, &err), 0);
    ck_assert_int_eq(jb_pool_pump(pool, &err), 0);
}

/* The next end of a job; the test's own time-out is the limit. */
static jb_pool_event an_end(void)
{
    for (;;) {
        jb_pool_event ev;
        int rc = jb_pool_next(pool, &ev, &err);
        ck_assert_msg(rc >= 0, "%s", err.message);
        if (rc == 1 && ev.kind == JB_POOL_DONE) return ev;
        if (rc == 1) cJSON_Delete(ev.record);
        ck_assert_int_eq(jb_pool_pump(pool, &err), 0);
        usleep(2000);
    }
}

static const char *reason_of(const jb_pool_event *ev)
{
    const cJSON *trace = jb_json_path(ev->record, "stages.trace");
    ck_assert_str_eq(jb_json_str(trace, "status", ""), "infra");
    return jb_json_str(trace, "reason", "");
}

START_TEST(an_answer_is_handed_on)
{
    open_pool(ANSWER, 0, 0);
    submit_job(4, "{}");
    jb_pool_event ev = an_end();
    ck_assert_uint_eq(ev.tag, 4);
    ck_assert_str_eq(jb_json_str(jb_json_path(ev.record, "stages.trace"), "status", ""), "ok");
    cJSON_Delete(ev.record);
    jb_pool_close(pool);
}
END_TEST

START_TEST(a_lost_job_is_tried_again_and_then_infra)
{
    open_pool(LOSE, 0, 0);
    submit_job(4, "{}");
    jb_pool_event ev = an_end();
    ck_assert_uint_eq(ev.attempts, 2);
    ck_assert_int_eq(submits, 2);
    ck_assert_ptr_nonnull(strstr(reason_of(&ev), "lightning"));
    cJSON_Delete(ev.record);
    jb_pool_close(pool);
}
END_TEST

/* temper, limits of the pool, words of the reason */
static const struct { temper t; double ready_s, margin_s; uint64_t jobs; const char *words; } SILENT[] = {
    { MUTE, 0.05, 1000, 3, "not ready within 0.05 s" },
    { READY_ONLY, 1000, 0.02, 3, "no news of it for 0.05 s" }, /* limits of 0.01 s, check_s twice, and the margin */
    { CHATTY, 1000, 0.47, 1, "within 5 s" },
};

START_TEST(silence_is_infra_and_not_tried_again)
{
    open_pool(SILENT[_i].t, SILENT[_i].ready_s, SILENT[_i].margin_s);
    for (uint64_t tag = 1; tag <= SILENT[_i].jobs; tag++) submit_job(tag, "{\"limits\":{\"trace_s\":0.01,\"check_s\":0.01,\"memory_mb\":4096}}");
    for (uint64_t tag = 1; tag <= SILENT[_i].jobs; tag++) {
        jb_pool_event ev = an_end();
        const char *why = reason_of(&ev);
        ck_assert_msg(strstr(why, SILENT[_i].words) != NULL, "\"%s\" should hold \"%s\"", why, SILENT[_i].words);
        ck_assert_msg(strstr(why, "executor scripted") != NULL, "%s", why);
        ck_assert_uint_eq(ev.attempts, 1);
        cJSON_Delete(ev.record);
    }
    ck_assert_int_eq(submits, (int)SILENT[_i].jobs);
    ck_assert_int_eq(cancels, (int)SILENT[_i].jobs);
    ck_assert_uint_eq(jb_pool_busy(pool), 0);
    jb_pool_close(pool);
}
END_TEST

/* A job that waits behind a long one is not given up while others end. */
START_TEST(the_end_of_another_job_is_news)
{
    open_pool(READY_ONLY, 1000, 3);
    submit_job(1, "{}");
    submit_job(2, "{}");
    usleep(1700000);
    mood = ANSWER;
    jb_pool_event ev = an_end();
    ck_assert_uint_eq(ev.tag, 1);
    cJSON_Delete(ev.record);
    mood = READY_ONLY;
    usleep(1700000); /* past its patience since it began, not since the other ended */
    jb_pool_event none;
    ck_assert_int_eq(jb_pool_next(pool, &none, &err), 0);
    ck_assert_uint_eq(jb_pool_busy(pool), 1);
    jb_pool_close(pool);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("pool");
    TCase *t = tcase_create("pool");
    tcase_add_test(t, an_answer_is_handed_on);
    tcase_add_test(t, a_lost_job_is_tried_again_and_then_infra);
    tcase_add_loop_test(t, silence_is_infra_and_not_tried_again, 0, sizeof SILENT / sizeof SILENT[0]);
    tcase_add_test(t, the_end_of_another_job_is_news);
    tcase_set_timeout(t, 30);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
