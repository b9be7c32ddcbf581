/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/child.c - see child.h.  The input is a memory file, so that nobody has
 * to write and read in turns. */
#include "core/cli/child.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

struct streams {
    pid_t pid;
    int input;  /* the child's stdin */
    int fds[2]; /* its stdout and stderr; -1 once closed */
};

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void close_all(int *fds, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (fds[i] >= 0) close(fds[i]);
}

static int open_input(jb_view text)
{
    if (!text.ptr) return open("/dev/null", O_RDONLY | O_CLOEXEC);
    int fd = memfd_create("jaxbench-input", MFD_CLOEXEC);
    for (size_t at = 0; fd >= 0 && at < text.len;) {
        ssize_t n = write(fd, text.ptr + at, (size_t)text.len - at);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            close(fd);
            return -1;
        }
        at += (size_t)n;
    }
    if (fd >= 0) lseek(fd, 0, SEEK_SET);
    return fd;
}

static void become(const jb_child *c, int input, int out, int err)
{
    setpgid(0, 0);
    signal(SIGPIPE, SIG_DFL);
    if (dup2(input, 0) < 0 || dup2(out, 1) < 0 || dup2(err, 2) < 0) _exit(126);
    execve(c->program, (char *const *)c->argv, c->env ? (char *const *)c->env : environ);
    _exit(127);
}

static int start(struct streams *s, const jb_child *c, jb_error *e)
{
    int ends[5] = { open_input(c->input), -1, -1, -1, -1 }, *out = ends + 1, *err = ends + 3;
    if (ends[0] < 0 || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC) || (s->pid = fork()) < 0) {
        jb_err(e, JB_EIO, "can't start %s: %s", c->program, strerror(errno));
        close_all(ends, 5);
        return JB_EIO;
    }
    if (s->pid == 0) become(c, ends[0], out[1], err[1]);
    setpgid(s->pid, s->pid);
    close(ends[0]);
    close(out[1]);
    close(err[1]);
    s->fds[0] = out[0];
    s->fds[1] = err[0];
    return 0;
}

/* Read what is there.  What exceeds the cap is read and dropped, so that the child never blocks. */
static void drain(int *fd, jb_buf *text)
{
    char block[16384];
    ssize_t n = read(*fd, block, sizeof block);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) {
        close(*fd);
        *fd = -1;
    } else if (!text->status) {
        jb_buf_append(text, block, (size_t)n);
    }
}

/* Until both streams ended or the limit came: then the group is killed. */
static int read_all(struct streams *s, jb_child *c)
{
    int64_t deadline = now_ms() + c->timeout_ms;
    while (s->fds[0] >= 0 || s->fds[1] >= 0) {
        int64_t left = deadline - now_ms();
        struct pollfd fds[2] = { { s->fds[0], POLLIN, 0 }, { s->fds[1], POLLIN, 0 } };
        if (left <= 0) return 1;
        if (poll(fds, 2, (int)(left > 1000 ? 1000 : left)) < 0 && errno != EINTR) return 1;
        if (fds[0].revents) drain(&s->fds[0], &c->out);
        if (fds[1].revents) drain(&s->fds[1], &c->err);
    }
    return 0;
}

int jb_child_run(jb_child *c, jb_error *err)
{
    struct streams s = { .fds = { -1, -1 } };
    int rc = start(&s, c, err);
    if (rc != 0) return rc;
    c->timed_out = read_all(&s, c);
    if (c->timed_out) kill(-s.pid, SIGKILL);
    while (waitpid(s.pid, &c->status, 0) < 0 && errno == EINTR) continue;
    kill(-s.pid, SIGKILL); /* what it left behind in its group, if anything */
    close_all(s.fds, 2);
    return 0;
}

/* The last line of its stderr that isn't empty: usually the reason. */
static void last_words(const jb_buf *text, char *out, size_t size)
{
    jb_buf safe = JB_BUF_INIT(4096);
    size_t end = text->len, begin;
    while (end && strchr("\r\n \t", text->ptr[end - 1])) end--;
    for (begin = end; begin && text->ptr[begin - 1] != '\n';) begin--;
    if (end - begin > 300) end = begin + 300;
    if (end > begin) jb_text_escape(&safe, text->ptr + begin, end - begin, 0);
    snprintf(out, size, "%s", safe.ptr ? safe.ptr : "");
    jb_buf_free(&safe);
}

const char *jb_child_failure(const jb_child *c, char *buf, size_t size)
{
    char words[400];
    last_words(&c->err, words, sizeof words);
    const char *gap = words[0] ? ": " : "";
    if (c->timed_out) snprintf(buf, size, "said nothing for %d s%s%s", c->timeout_ms / 1000, gap, words);
    else if (WIFSIGNALED(c->status)) snprintf(buf, size, "was killed by signal %d%s%s", WTERMSIG(c->status), gap, words);
    else if (WEXITSTATUS(c->status) == 127 && !c->out.len && !words[0]) snprintf(buf, size, "can't be executed");
    else if (WEXITSTATUS(c->status) != 0) snprintf(buf, size, "exited with %d%s%s", WEXITSTATUS(c->status), gap, words);
    else return NULL;
    return buf;
}
