/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/probe.c - what the worker says about this machine: run it with
 * --probe in a process group of its own, read one JSON object from its stdout,
 * keep the end of its stderr for the message, kill the group at the limit. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OUT_MAX (1u << 20)
#define ERR_MAX (64u << 10)
#define EXPLAIN_MS 120000 /* a worker that starts after all compiles a kernel first */

struct probe {
    pid_t pid;
    int fds[2]; /* its stdout and stderr; -1 once closed */
    jb_buf texts[2];
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void child(const char *worker, const int out[2], const int err[2])
{
    char program[] = "jaxbench-worker", flag[] = "--probe";
    char *argv[] = { program, flag, NULL };
    setpgid(0, 0);
    int null = open("/dev/null", O_RDONLY);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out[1], 1) < 0 || dup2(err[1], 2) < 0) _exit(126);
    execv(worker, argv);
    _exit(127);
}

static int start(struct probe *p, const char *worker, jb_error *e)
{
    int out[2] = { -1, -1 }, err[2] = { -1, -1 };
    if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (p->pid = fork()) < 0) {
        jb_err(e, JB_EIO, "can't start %s: %s", worker, strerror(errno));
        for (int i = 0; i < 2; i++) {
            if (out[i] >= 0) close(out[i]);
            if (err[i] >= 0) close(err[i]);
        }
        return JB_EIO;
    }
    if (p->pid == 0) child(worker, out, err);
    setpgid(p->pid, p->pid);
    close(out[1]);
    close(err[1]);
    p->fds[0] = out[0];
    p->fds[1] = err[0];
    return 0;
}

/* Read what is there.  What exceeds the cap is read and dropped, so that the worker never blocks. */
static void drain(struct probe *p, int i)
{
    char block[4096];
    ssize_t n = read(p->fds[i], block, sizeof block);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
        close(p->fds[i]);
        p->fds[i] = -1;
    } else if (!p->texts[i].status) {
        jb_buf_append(&p->texts[i], block, (size_t)n);
    }
}

/* 0 when both streams ended, JB_ETIMEOUT at the limit. */
static int read_all(struct probe *p, int64_t deadline_ms)
{
    while (p->fds[0] >= 0 || p->fds[1] >= 0) {
        int64_t left = deadline_ms - now_ms();
        struct pollfd fds[2] = { { p->fds[0], POLLIN, 0 }, { p->fds[1], POLLIN, 0 } };
        if (left <= 0) return JB_ETIMEOUT;
        if (poll(fds, 2, (int)(left > 1000 ? 1000 : left)) < 0 && errno != EINTR) return JB_EIO;
        for (int i = 0; i < 2; i++)
            if (fds[i].revents) drain(p, i);
    }
    return 0;
}

static int reap(struct probe *p)
{
    int status = 0;
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) continue;
    return status;
}

/* Its first own complaint ("jaxbench-worker: ..."): the cause, where later lines
 * are consequences and hints.  0 when there is none. */
static int first_complaint(const jb_buf *text, size_t *begin, size_t *end)
{
    static const char MARK[] = "jaxbench-worker: ";
    for (size_t at = 0; at < text->len;) {
        const char *lf = memchr(text->ptr + at, '\n', text->len - at);
        size_t stop = lf ? (size_t)(lf - text->ptr) : text->len;
        if (stop - at > sizeof MARK - 1 && !memcmp(text->ptr + at, MARK, sizeof MARK - 1)) {
            *begin = at + sizeof MARK - 1;
            *end = stop;
            return 1;
        }
        at = stop + 1;
    }
    return 0;
}

/* Why it ended: its first complaint, else the last line that isn't empty. */
static void reason(const jb_buf *text, char *out, size_t size)
{
    jb_buf safe = JB_BUF_INIT(4096);
    size_t end = text->len, begin;
    if (!first_complaint(text, &begin, &end)) {
        while (end && strchr("\r\n \t", text->ptr[end - 1])) end--;
        for (begin = end; begin && text->ptr[begin - 1] != '\n';) begin--;
    }
    if (end - begin > 300) end = begin + 300;
    if (end > begin) jb_text_escape(&safe, text->ptr + begin, end - begin, 0);
    snprintf(out, size, "%s", safe.ptr ? safe.ptr : "");
    jb_buf_free(&safe);
}

static int judge(const char *worker, int reading, int status, int timeout_ms, const struct probe *p, jb_error *err)
{
    char words[400];
    reason(&p->texts[1], words, sizeof words);
    const char *gap = words[0] ? ": " : "";
    if (reading == JB_ETIMEOUT) {
        jb_err(err, JB_ETIMEOUT, "%s --probe said nothing for %d s%s%s", worker, timeout_ms / 1000, gap, words);
    } else if (WIFSIGNALED(status)) {
        jb_err(err, JB_EIO, "%s --probe was killed by signal %d%s%s", worker, WTERMSIG(status), gap, words);
    } else if (WEXITSTATUS(status) == 127 && !p->texts[0].len && !words[0]) {
        jb_err(err, JB_EIO, "%s can't be executed", worker);
    } else if (WEXITSTATUS(status) != 0) {
        jb_err(err, JB_EIO, "%s --probe exited with %d%s%s", worker, WEXITSTATUS(status), gap, words);
    } else {
        return 0;
    }
    return jb_err_hint(err, "run ./quickstart again: it rebuilds the venv and the worker; if that doesn't help, run the worker with --probe yourself");
}

cJSON *jb_cli_probe(const char *worker, int timeout_ms, jb_error *err)
{
    struct probe p = { .fds = { -1, -1 }, .texts = { JB_BUF_INIT(OUT_MAX), JB_BUF_INIT(ERR_MAX) } };
    cJSON *o = NULL;
    if (!jb_fs_exists(worker)) {
        jb_err(err, JB_ENOTFOUND, "there is no worker at %s", worker);
        jb_err_hint(err, "build it (cmake --build build), run ./quickstart, or set JAXBENCH_WORKER");
        return NULL;
    }
    if (start(&p, worker, err)) return NULL;
    int reading = read_all(&p, now_ms() + timeout_ms);
    if (reading) kill(-p.pid, SIGKILL);
    int status = reap(&p);
    kill(-p.pid, SIGKILL); /* what it left behind in its group, if anything */
    for (int i = 0; i < 2; i++)
        if (p.fds[i] >= 0) close(p.fds[i]);
    if (judge(worker, reading, status, timeout_ms, &p, err) == 0) {
        o = jb_json_parse(p.texts[0].ptr ? p.texts[0].ptr : "", p.texts[0].len, err);
        if (!o) jb_err_context(err, "%s --probe printed no JSON", worker);
    }
    jb_buf_free(&p.texts[0]);
    jb_buf_free(&p.texts[1]);
    return o;
}

void jb_cli_explain_worker(const char *worker, jb_error *err)
{
    jb_error why = JB_ERROR_INIT;
    if (err->code != JB_EIO) return; /* it never came to run, and the message says so */
    cJSON *o = jb_cli_probe(worker, EXPLAIN_MS, &why);
    if (!o && why.message[0]) {
        jb_error was = *err;
        jb_err(err, was.code, "%.120s: %s", was.message, why.message);
        jb_err_hint(err, "%s", why.hint);
        err->flags = was.flags;
    }
    cJSON_Delete(o);
}
