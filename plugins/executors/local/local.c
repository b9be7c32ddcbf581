/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/executors/local/local.c - executor `local`: one jaxbench-worker on this
 * machine, several jobs at once inside it.
 *
 *     submit --JOB--> worker --PROGRESS*, DONE--> next
 *
 * A worker that dies takes its jobs with it: each is reported JB_JOB_LOST, and
 * the next submit starts a new worker.  `event_fd` is an epoll descriptor over
 * whatever socket is current and an eventfd that is up while losses wait to be
 * told, so it stays valid across restarts. */
#include "link.h"

#include <jaxbench/executor.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_FALSE_STARTS 2 /* deaths in a row before READY that make us give up */
#define GRACE_MS 1500

struct config {
    int64_t slots, memory, cache_size;
    const char *python;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, slots), .name = "slots", .def = "0",
      .min = 0, .max = 256, .unit = "jobs", .help = "Jobs at once; 0: as many as this machine has cores." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_SIZE, .offset = offsetof(struct config, memory), .name = "memory", .def = "0",
      .unit = "bytes", .help = "Memory of all children together, by estimate; 0: 85 % of what is available at the start." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_SIZE, .offset = offsetof(struct config, cache_size), .name = "cache_size", .def = "20GiB",
      .unit = "bytes", .help = "Cap of the cached references; the least recently used go first." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_PATH, .flags = JB_OPTF_ADVANCED, .offset = offsetof(struct config, python),
      .name = "python", .help = "Interpreter of another venv of the same Python version; unset: the project's." },
};

struct executor {
    const struct config *config;
    const jb_paths_service *paths;
    const jb_host *host;
    const jb_log_service *log;
    worker_link link;
    int epoll, wake;
    int ready, told_ready;    /* this worker said READY; the host has been told once */
    int false_starts;
    uint64_t *jobs, *lost;    /* in flight; to be reported */
    size_t job_count, job_cap, lost_count, lost_cap;
    jb_error why;             /* of the losses */
};

/* ---- small tools ------------------------------------------------------- */

static int set_error(jb_error *err, int code, const char *message, const char *hint)
{
    if (err == NULL) return code;
    err->code = code;
    err->flags = code == JB_EIO ? JB_ERR_RETRYABLE : 0;
    snprintf(err->message, sizeof err->message, "%s", message);
    snprintf(err->hint, sizeof err->hint, "%s", hint != NULL ? hint : "");
    err->where[0] = '\0';
    return code;
}

static void say(const struct executor *x, uint32_t level, const char *text)
{
    if (x->log != NULL) x->log->log(x->host, level, (jb_view){ text, strlen(text) });
}

static int push(uint64_t **array, size_t *count, size_t *cap, uint64_t value)
{
    if (*count == *cap) {
        size_t room = *cap != 0 ? 2 * *cap : 32;
        uint64_t *grown = realloc(*array, room * sizeof *grown);
        if (grown == NULL) return JB_ENOMEM;
        *array = grown;
        *cap = room;
    }
    (*array)[(*count)++] = value;
    return 0;
}

/* 1 when `job` was in flight. */
static int forget(struct executor *x, uint64_t job)
{
    for (size_t i = 0; i < x->job_count; i++) {
        if (x->jobs[i] != job) continue;
        memmove(x->jobs + i, x->jobs + i + 1, (x->job_count - i - 1) * sizeof *x->jobs);
        x->job_count--;
        return 1;
    }
    return 0;
}

/* ---- the worker's life ------------------------------------------------- */

static void watch(struct executor *x)
{
    struct epoll_event e = { .events = EPOLLIN | (x->link.out_len > 0 ? (uint32_t)EPOLLOUT : 0u), .data.fd = x->link.fd };
    if (x->link.fd >= 0 && epoll_ctl(x->epoll, EPOLL_CTL_MOD, x->link.fd, &e) != 0 && errno == ENOENT)
        (void)epoll_ctl(x->epoll, EPOLL_CTL_ADD, x->link.fd, &e);
}

static int start(struct executor *x, jb_error *err)
{
    char slots[32], memory[32], cache[32];
    const char *argv[20];
    size_t n = 0;
    if (access(x->paths->worker, X_OK) != 0) {
        char text[400];
        snprintf(text, sizeof text, "executor local: the worker %s can't be run: %s", x->paths->worker, strerror(errno));
        return set_error(err, JB_ENOTFOUND, text, "build it (cmake --build build), or set JAXBENCH_WORKER");
    }
    snprintf(slots, sizeof slots, "%lld", (long long)x->config->slots);
    snprintf(memory, sizeof memory, "%lld", (long long)x->config->memory);
    snprintf(cache, sizeof cache, "%lld", (long long)x->config->cache_size);
    argv[n++] = x->paths->worker;
    argv[n++] = "--fd";
    argv[n++] = "3";
    argv[n++] = "--slots";
    argv[n++] = slots;
    argv[n++] = "--memory";
    argv[n++] = memory;
    argv[n++] = "--cache";
    argv[n++] = x->paths->cache;
    argv[n++] = "--cache-size";
    argv[n++] = cache;
    argv[n++] = "--plugins";
    argv[n++] = x->paths->plugins;
    if (x->config->python != NULL) {
        argv[n++] = "--python";
        argv[n++] = x->config->python;
    }
    argv[n] = NULL;
    int rc = link_start(&x->link, argv, err);
    x->ready = 0;
    if (rc == 0) watch(x);
    return rc;
}

/* The worker is gone: reap it, and queue the loss of everything it had. */
static void bury(struct executor *x, int code)
{
    char how[96] = "vanished", text[400];
    int broke = code == JB_EPROTO;
    if (x->link.fd >= 0) (void)epoll_ctl(x->epoll, EPOLL_CTL_DEL, x->link.fd, NULL);
    int status = link_stop(&x->link, broke ? 0 : GRACE_MS);
    if (status != -1 && WIFEXITED(status)) snprintf(how, sizeof how, "exited with %d", WEXITSTATUS(status));
    if (status != -1 && WIFSIGNALED(status)) snprintf(how, sizeof how, "was killed by signal %d", WTERMSIG(status));
    if (broke) snprintf(how, sizeof how, "broke the frame protocol");
    x->false_starts = x->ready ? 0 : x->false_starts + 1;
    snprintf(text, sizeof text, "executor local: the worker %s%s, with %zu jobs in flight", how, x->ready ? "" : " before it was ready", x->job_count);
    x->why.struct_size = sizeof x->why;
    set_error(&x->why, JB_EIO, text, x->ready ? "" : "its own words are on stderr; `jaxbench doctor` shows what is missing");
    say(x, JB_LOG_WARN, text);
    for (size_t i = 0; i < x->job_count; i++) (void)push(&x->lost, &x->lost_count, &x->lost_cap, x->jobs[i]);
    x->job_count = 0;
    uint64_t one = 1;
    if (x->lost_count > 0 && write(x->wake, &one, sizeof one) < 0) say(x, JB_LOG_WARN, "executor local: eventfd is full");
}

/* ---- the vtable -------------------------------------------------------- */

static void close_(void *self)
{
    struct executor *x = self;
    if (x == NULL) return;
    (void)link_stop(&x->link, GRACE_MS);
    if (x->epoll >= 0) close(x->epoll);
    if (x->wake >= 0) close(x->wake);
    free(x->jobs);
    free(x->lost);
    free(x);
}

static int open_(const jb_host *host, const void *config, void **out, jb_error *err)
{
    const jb_paths_service *paths = host->service(host, JB_SERVICE_PATHS);
    struct executor *x = calloc(1, sizeof *x);
    if (x == NULL) return set_error(err, JB_ENOMEM, "executor local: out of memory", NULL);
    x->link.fd = x->epoll = x->wake = -1;
    if (paths == NULL) {
        free(x);
        return set_error(err, JB_EABI, "executor local needs the service paths/1", NULL);
    }
    x->host = host;
    x->config = config;
    x->paths = paths;
    x->log = host->service(host, JB_SERVICE_LOG);
    x->epoll = epoll_create1(EPOLL_CLOEXEC);
    x->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    struct epoll_event e = { .events = EPOLLIN, .data.fd = x->wake };
    if (x->epoll < 0 || x->wake < 0 || epoll_ctl(x->epoll, EPOLL_CTL_ADD, x->wake, &e) != 0) {
        close_(x);
        return set_error(err, JB_EIO, "executor local: no descriptors left", NULL);
    }
    int rc = start(x, err);
    if (rc != 0) {
        close_(x);
        return rc;
    }
    *out = x;
    return 0;
}

static int submit(void *self, uint64_t job, jb_view spec, jb_view body, jb_error *err)
{
    struct executor *x = self;
    uint8_t head[12];
    if (spec.len > UINT32_MAX) return set_error(err, JB_EINVAL, "executor local: a job's JSON is too long", NULL);
    for (size_t i = 0; i < x->job_count; i++)
        if (x->jobs[i] == job) return set_error(err, JB_EEXIST, "executor local: a job of this number is in flight", NULL);
    if (x->link.fd < 0) {
        if (x->false_starts >= MAX_FALSE_STARTS)
            return set_error(err, JB_EIO, "executor local: the worker does not start; its own words are on stderr", "run `jaxbench doctor`");
        int rc = start(x, err);
        if (rc != 0) return rc;
    }
    if (push(&x->jobs, &x->job_count, &x->job_cap, job) != 0) return set_error(err, JB_ENOMEM, "executor local: out of memory", NULL);
    for (int i = 0; i < 8; i++) head[i] = (uint8_t)(job >> (8 * i));
    for (int i = 0; i < 4; i++) head[8 + i] = (uint8_t)(spec.len >> (8 * i));
    jb_view parts[3] = { { (const char *)head, sizeof head }, spec, body };
    int rc = link_send(&x->link, JB_FRAME_JOB, parts, 3, err);
    if (rc != 0) forget(x, job);
    watch(x);
    return rc;
}

static int event_fd(void *self) { return ((struct executor *)self)->epoll; }

static int tell_loss(struct executor *x, jb_job_event *out)
{
    out->kind = JB_JOB_LOST;
    out->job = x->lost[0];
    out->error = x->why;
    memmove(x->lost, x->lost + 1, --x->lost_count * sizeof *x->lost);
    uint64_t n;
    if (x->lost_count == 0 && read(x->wake, &n, sizeof n) < 0) errno = 0; /* empty already */
    return 1;
}

static int next(void *self, jb_job_event *out, jb_error *err)
{
    struct executor *x = self;
    link_frame f;
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    for (;;) {
        if (x->lost_count > 0) return tell_loss(x, out);
        if (x->link.fd < 0) return 0;
        int rc = link_flush(&x->link);
        watch(x);
        int got = link_read(&x->link, &f); /* read on after a failed flush: records may lie there */
        if (got == 0 && rc == 0) return 0;
        if (got <= 0) {
            int was_ready = x->ready, had = x->job_count > 0;
            bury(x, got < 0 ? got : rc);
            if (!was_ready && !had) return set_error(err, JB_EIO, x->why.message, x->why.hint);
            continue;
        }
        out->record = (jb_view){ f.json, f.json_len };
        out->job = f.job;
        if (f.type == JB_FRAME_READY) {
            x->ready = 1;
            x->false_starts = 0;
            if (x->told_ready) continue; /* a restarted worker */
            x->told_ready = 1;
            out->kind = JB_EXECUTOR_READY;
            return 1;
        }
        out->kind = f.type == JB_FRAME_DONE ? JB_JOB_DONE : JB_JOB_PROGRESS;
        if (f.type == JB_FRAME_DONE && !forget(x, f.job)) continue;
        return 1;
    }
}

static int cancel(void *self, uint64_t job, jb_error *err)
{
    struct executor *x = self;
    uint8_t id[8];
    int known = 0;
    for (size_t i = 0; i < x->job_count; i++) known |= x->jobs[i] == job;
    for (size_t i = 0; i < x->lost_count; i++) known |= x->lost[i] == job;
    if (!known) return set_error(err, JB_ENOTFOUND, "executor local: no such job is in flight", NULL);
    if (x->link.fd < 0) return 0; /* lost: that is its event */
    for (int i = 0; i < 8; i++) id[i] = (uint8_t)(job >> (8 * i));
    jb_view part = { (const char *)id, sizeof id };
    int rc = link_send(&x->link, JB_FRAME_CANCEL, &part, 1, err);
    watch(x);
    return rc;
}

static const jb_executor_ops ops = {
    .struct_size = sizeof ops, .open = open_, .submit = submit, .event_fd = event_fd, .next = next, .cancel = cancel, .close = close_,
};

static const jb_component component = {
    .struct_size = sizeof component,
    .kind = JB_KIND_EXECUTOR,
    .name = "local",
    .summary = "Sandboxed processes on this machine, forked from one warm interpreter.",
    .help = "Starts jaxbench-worker, which traces candidates in a sandbox and inspects, compiles, executes and judges what they export.\n"
            "A worker that dies is started again; the jobs it had are reported lost and submitted again by the host.",
    .options = options,
    .option_count = sizeof options / sizeof options[0],
    .option_size = sizeof options[0],
    .config_size = sizeof(struct config),
    .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin),
    .abi_major = JB_ABI_MAJOR,
    .abi_minor = JB_ABI_MINOR,
    .id = "jaxbench.executor.local",
    .version = JB_VERSION,
    .summary = "Jobs on this machine.",
    .license = "Apache-2.0",
    .components = components,
};
