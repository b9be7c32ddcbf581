/* SPDX-License-Identifier: Apache-2.0 */
/* The executor `local` against a worker that is this very program: it answers,
 * hangs, dies or babbles as $JB_FAKE_WORKER says. */
#include <jaxbench/executor.h>
#include <jaxbench/frame.h>

#include <check.h>
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- the worker ---------------------------------------------------------- */

static void put(uint32_t type, const char *id, const char *json)
{
    uint8_t head[JB_FRAME_HEADER];
    size_t n = strlen(json), skip = id != NULL ? 8 : 0;
    jb_frame_encode(head, type, n + skip);
    if (write(3, head, sizeof head) < 0 || (id != NULL && write(3, id, 8) < 0) || write(3, json, n) < 0) _exit(1);
}

static int get(void *to, size_t n)
{
    size_t got = 0;
    while (got < n) {
        ssize_t r = read(3, (char *)to + got, n - got);
        if (r <= 0) return 0;
        got += (size_t)r;
    }
    return 1;
}

/* Echoes every job: PROGRESS, then DONE with the body's length; "die" in a body
 * kills it, "wait" keeps the job until a cancel. */
static int fake_worker(const char *mode)
{
    uint8_t head[JB_FRAME_HEADER];
    uint32_t type;
    uint64_t n;
    if (strcmp(mode, "exit") == 0) return 7;
    if (strcmp(mode, "babble") == 0) return write(3, "this is no frame at all", 23) < 0;
    put(JB_FRAME_READY, NULL, getenv("OPENAI_API_KEY") != NULL ? "{\"schema\":1,\"leak\":true}" : "{\"schema\":1}");
    while (get(head, sizeof head) && jb_frame_decode(head, JB_FRAME_MAX, &type, &n) == 0) {
        char *body = calloc(1, (size_t)n + 1), text[64];
        if (body == NULL || !get(body, (size_t)n)) return 1;
        uint32_t spec = type == JB_FRAME_JOB ? (uint8_t)body[8] | (uint32_t)(uint8_t)body[9] << 8 : 0;
        const char *source = type == JB_FRAME_JOB ? body + 12 + spec : "";
        if (strcmp(source, "die") == 0) raise(SIGKILL);
        snprintf(text, sizeof text, "{\"bytes\":%zu}", strlen(source));
        if (type == JB_FRAME_JOB) put(JB_FRAME_PROGRESS, body, "{\"stage\":\"trace\"}");
        if (type == JB_FRAME_CANCEL || strcmp(source, "wait") != 0) put(JB_FRAME_DONE, body, type == JB_FRAME_CANCEL ? "{\"cancelled\":true}" : text);
        free(body);
    }
    return 0;
}

/* ---- the host ------------------------------------------------------------ */

static char exe[512];
static jb_paths_service paths = { .struct_size = sizeof paths, .worker = exe, .cache = "/tmp", .suite = "", .plugins = "" };
static int with_paths = 1;

static const void *service(const jb_host *host, const char *id)
{
    (void)host;
    return with_paths && strcmp(id, JB_SERVICE_PATHS) == 0 ? &paths : NULL;
}

static const jb_host host = { .struct_size = sizeof host, .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .service = service };
static const jb_executor_ops *ops;
static void *x;
static jb_error err;
/* The config of the option table: slots, memory, cache_size, python. */
static struct { int64_t slots, memory, cache_size; const char *python; } config = { 0, 0, 1 << 30, NULL };

static void load(void)
{
    void *so = dlopen(JB_BUILD_DIR "/plugins/executors/local.so", RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(so != NULL, "%s", dlerror());
    const jb_plugin *p = dlsym(so, JB_PLUGIN_SYMBOL);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq(p->components[0]->config_size, sizeof config);
    ops = p->components[0]->ops;
    ck_assert_int_gt(readlink("/proc/self/exe", exe, sizeof exe - 1), 0);
    err = (jb_error){ .struct_size = sizeof err };
    x = NULL;
}

static void open_as(const char *mode)
{
    setenv("JB_FAKE_WORKER", mode, 1);
    ck_assert_msg(ops->open(&host, &config, &x, &err) == 0, "%s", err.message);
}

static void close_it(void)
{
    ops->close(x);
    x = NULL;
    ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* nothing left to reap */
}

static jb_view view(const char *s) { return (jb_view){ s, strlen(s) }; }

static void submit(uint64_t job, const char *body) { ck_assert_msg(ops->submit(x, job, view("{\"schema\":1}"), view(body), &err) == 0, "%s", err.message); }

/* Poll event_fd and take the next event that is no progress. */
static jb_job_event event(void)
{
    jb_job_event e;
    for (int i = 0; i < 200; i++) {
        struct pollfd p = { ops->event_fd(x), POLLIN, 0 };
        ck_assert_msg(poll(&p, 1, 5000) == 1, "event_fd stayed quiet for 5 s");
        int rc = ops->next(x, &e, &err);
        ck_assert_msg(rc >= 0, "%s", err.message);
        if (rc == 1 && e.kind != JB_JOB_PROGRESS) return e;
    }
    ck_abort_msg("no event in 200 wake-ups: a busy loop");
    return e;
}

static int holds(jb_view v, const char *word) { return memmem(v.ptr, (size_t)v.len, word, strlen(word)) != NULL; }

START_TEST(jobs_come_back)
{
    open_as("good");
    ck_assert_uint_eq(event().kind, JB_EXECUTOR_READY);
    for (uint64_t i = 1; i <= 20; i++) submit(i, "hello");
    for (uint64_t i = 1; i <= 20; i++) {
        jb_job_event e = event();
        ck_assert_uint_eq(e.kind, JB_JOB_DONE);
        ck_assert_uint_eq(e.job, i);
        ck_assert(holds(e.record, "{\"bytes\":5}"));
    }
    jb_job_event e;
    ck_assert_int_eq(ops->next(x, &e, &err), 0);
    close_it();
}
END_TEST

START_TEST(the_worker_is_told_no_key)
{
    setenv("OPENAI_API_KEY", "sk-secret", 1);
    open_as("good");
    jb_job_event e = event();
    ck_assert_uint_eq(e.kind, JB_EXECUTOR_READY);
    ck_assert(!holds(e.record, "leak"));
    close_it();
}
END_TEST

START_TEST(a_big_body_does_not_block)
{
    size_t n = (size_t)32 << 20;
    char *body = malloc(n + 1);
    ck_assert_ptr_nonnull(body);
    memset(body, 'b', n);
    body[n] = '\0';
    open_as("good");
    struct timespec a, b;
    clock_gettime(CLOCK_MONOTONIC, &a);
    submit(1, body);
    clock_gettime(CLOCK_MONOTONIC, &b);
    ck_assert_int_lt(b.tv_sec - a.tv_sec, 2);
    ck_assert_uint_eq(event().kind, JB_EXECUTOR_READY);
    jb_job_event e = event();
    ck_assert_uint_eq(e.kind, JB_JOB_DONE);
    ck_assert(holds(e.record, "{\"bytes\":33554432}"));
    free(body);
    close_it();
}
END_TEST

START_TEST(a_dead_worker_loses_its_jobs_and_is_started_again)
{
    int lost = 0;
    open_as("good");
    ck_assert_uint_eq(event().kind, JB_EXECUTOR_READY);
    int fd = ops->event_fd(x);
    submit(1, "wait");
    submit(2, "wait");
    submit(3, "die");
    for (int i = 0; i < 3; i++) {
        jb_job_event e = event();
        ck_assert_uint_eq(e.kind, JB_JOB_LOST);
        ck_assert_uint_eq(e.job, (uint64_t)i + 1);
        ck_assert_msg(strstr(e.error.message, "signal 9") != NULL, "%s", e.error.message);
        ck_assert_uint_ne(e.error.flags & JB_ERR_RETRYABLE, 0);
        lost++;
    }
    ck_assert_int_eq(lost, 3);
    struct pollfd p = { fd, POLLIN, 0 };
    ck_assert_int_eq(poll(&p, 1, 50), 0); /* nothing more: no busy loop for the host */
    submit(4, "again");
    jb_job_event e = event(); /* the second READY is not told again */
    ck_assert_uint_eq(e.kind, JB_JOB_DONE);
    ck_assert_uint_eq(e.job, 4);
    ck_assert_int_eq(ops->event_fd(x), fd);
    close_it();
}
END_TEST

START_TEST(a_cancelled_job_ends_with_done)
{
    open_as("good");
    ck_assert_uint_eq(event().kind, JB_EXECUTOR_READY);
    submit(5, "wait");
    ck_assert_int_eq(ops->cancel(x, 5, &err), 0);
    jb_job_event e = event();
    ck_assert_uint_eq(e.kind, JB_JOB_DONE);
    ck_assert(holds(e.record, "cancelled"));
    ck_assert_int_eq(ops->cancel(x, 5, &err), JB_ENOTFOUND);
    ck_assert_int_eq(ops->submit(x, 6, view("{}"), view("wait"), &err), 0);
    ck_assert_int_eq(ops->submit(x, 6, view("{}"), view("wait"), &err), JB_EEXIST);
    close_it(); /* with a job in flight */
}
END_TEST

/* worker, words of the error */
static const struct { const char *mode, *words; } BROKEN[] = { { "exit", "exited with 7" }, { "babble", "frame protocol" } };

START_TEST(a_worker_that_never_gets_ready_is_given_up)
{
    jb_job_event e;
    open_as(BROKEN[_i].mode);
    submit(1, "x");
    e = event();
    ck_assert_uint_eq(e.kind, JB_JOB_LOST);
    ck_assert_msg(strstr(e.error.message, BROKEN[_i].words) != NULL, "%s", e.error.message);
    ck_assert_msg(strstr(e.error.message, "before it was ready") != NULL, "%s", e.error.message);
    submit(2, "x"); /* once more */
    e = event();
    ck_assert_uint_eq(e.kind, JB_JOB_LOST);
    ck_assert_int_eq(ops->submit(x, 3, view("{}"), view("x"), &err), JB_EIO);
    ck_assert_msg(strstr(err.hint, "doctor") != NULL, "%s", err.hint);
    close_it();
}
END_TEST

START_TEST(without_jobs_the_death_is_an_error)
{
    jb_job_event e;
    open_as("exit");
    struct pollfd p = { ops->event_fd(x), POLLIN, 0 };
    ck_assert_int_eq(poll(&p, 1, 5000), 1);
    ck_assert_int_eq(ops->next(x, &e, &err), JB_EIO);
    ck_assert_msg(strstr(err.message, "exited with 7") != NULL, "%s", err.message);
    close_it();
}
END_TEST

START_TEST(what_is_missing_is_named)
{
    char keep[sizeof exe];
    memcpy(keep, exe, sizeof exe);
    strcpy(exe, "/nonexistent/jaxbench-worker");
    ck_assert_int_eq(ops->open(&host, &config, &x, &err), JB_ENOTFOUND);
    ck_assert_msg(strstr(err.message, "/nonexistent/jaxbench-worker") != NULL && err.hint[0] != '\0', "%s", err.message);
    memcpy(exe, keep, sizeof exe);
    with_paths = 0;
    ck_assert_int_eq(ops->open(&host, &config, &x, &err), JB_EABI);
    with_paths = 1;
    ops->close(NULL);
}
END_TEST

int main(int argc, char **argv)
{
    const char *mode = getenv("JB_FAKE_WORKER");
    if (argc > 1 && strcmp(argv[1], "--fd") == 0) return fake_worker(mode != NULL ? mode : "good");
    Suite *s = suite_create("local");
    TCase *t = tcase_create("local");
    tcase_add_checked_fixture(t, load, NULL);
    tcase_add_test(t, jobs_come_back);
    tcase_add_test(t, the_worker_is_told_no_key);
    tcase_add_test(t, a_big_body_does_not_block);
    tcase_add_test(t, a_dead_worker_loses_its_jobs_and_is_started_again);
    tcase_add_test(t, a_cancelled_job_ends_with_done);
    tcase_add_loop_test(t, a_worker_that_never_gets_ready_is_given_up, 0, sizeof BROKEN / sizeof BROKEN[0]);
    tcase_add_test(t, without_jobs_the_death_is_an_error);
    tcase_add_test(t, what_is_missing_is_named);
    tcase_set_timeout(t, 30);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
