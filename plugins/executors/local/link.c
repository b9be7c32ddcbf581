/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/executors/local/link.c - see link.h. */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int fail(jb_error *err, int code, const char *what)
{
    if (err == NULL) return code;
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s: %s", what, strerror(errno));
    return code;
}

/* What the worker may know of the host's environment; everything else, keys above
 * all, stays here. */
static const char *const PASSED[] = { "JAXBENCH_", "PATH=", "HOME=", "LANG=", "LC_", "TMPDIR=", "XDG_CACHE_HOME=", "LD_LIBRARY_PATH=", "ASAN_OPTIONS=", "UBSAN_OPTIONS=", "JB_FAKE_" };

extern char **environ;

static void filter_environment(void)
{
    char **to = environ;
    for (char **from = environ; from != NULL && *from != NULL; from++)
        for (size_t i = 0; i < sizeof PASSED / sizeof PASSED[0]; i++)
            if (strncmp(*from, PASSED[i], strlen(PASSED[i])) == 0) {
                *to++ = *from;
                break;
            }
    if (to != NULL) *to = NULL;
}

/* In the child: our end of the socket at 3, nothing else above 2, then exec. */
static _Noreturn void become_worker(int fd, const char *const *argv)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    (void)setpgid(0, 0);
    int high = fcntl(fd, F_DUPFD, 16);
    if (high < 0 || dup2(high, 3) < 0) _exit(127);
    for (int i = 4; i < 1024; i++) close(i);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing >= 0 && nothing != 0) {
        dup2(nothing, 0);
        close(nothing);
    }
    dup2(2, 1); /* the host's stdout is the host's */
    filter_environment();
    union { const char *const *c; char *const *m; } args = { .c = argv };
    execv(argv[0], args.m);
    fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

int link_start(worker_link *l, const char *const *argv, jb_error *err)
{
    int pair[2];
    memset(l, 0, sizeof *l);
    l->fd = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) return fail(err, JB_EIO, "a socket for the worker");
    pid_t pid = fork();
    if (pid == 0) become_worker(pair[1], argv);
    close(pair[1]);
    if (pid < 0) {
        close(pair[0]);
        return fail(err, JB_EIO, "starting the worker");
    }
    (void)fcntl(pair[0], F_SETFL, fcntl(pair[0], F_GETFL) | O_NONBLOCK);
    l->fd = pair[0];
    l->pid = pid;
    return 0;
}

int link_stop(worker_link *l, int grace_ms)
{
    int status = -1;
    if (l->fd >= 0) close(l->fd);
    l->fd = -1;
    if (l->pid > 0) {
        pid_t got = 0;
        for (int waited = 0; waited < grace_ms; waited += 10) {
            struct timespec ms10 = { 0, 10000000 };
            got = waitpid(l->pid, &status, WNOHANG);
            if (got != 0) break;
            nanosleep(&ms10, NULL);
        }
        /* Its zygote and every child die of their parent's death. */
        if (got == 0) kill(l->pid, SIGKILL);
        while (got == 0 && waitpid(l->pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    free(l->body);
    free(l->out);
    memset(l, 0, sizeof *l);
    l->fd = -1;
    return status;
}

int link_flush(worker_link *l)
{
    size_t done = 0;
    int rc = 0;
    while (done < l->out_len) {
        ssize_t n = send(l->fd, l->out + done, l->out_len - done, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
        if (n <= 0) {
            rc = JB_EIO;
            break;
        }
        done += (size_t)n;
    }
    if (done > 0) memmove(l->out, l->out + done, l->out_len - done);
    l->out_len -= done;
    return rc;
}

int link_send(worker_link *l, uint32_t type, const jb_view *parts, size_t count, jb_error *err)
{
    uint64_t length = 0;
    for (size_t i = 0; i < count; i++) length += parts[i].len;
    if (length > JB_FRAME_MAX) {
        err->code = JB_EINVAL;
        snprintf(err->message, sizeof err->message, "a job of %llu bytes; a frame holds at most %u", (unsigned long long)length, JB_FRAME_MAX);
        return JB_EINVAL;
    }
    size_t need = l->out_len + JB_FRAME_HEADER + (size_t)length;
    if (need > l->out_cap) {
        uint8_t *grown = realloc(l->out, need);
        if (grown == NULL) return fail(err, JB_ENOMEM, "a frame for the worker");
        l->out = grown;
        l->out_cap = need;
    }
    jb_frame_encode(l->out + l->out_len, type, length);
    l->out_len += JB_FRAME_HEADER;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].len > 0) memcpy(l->out + l->out_len, parts[i].ptr, (size_t)parts[i].len);
        l->out_len += (size_t)parts[i].len;
    }
    (void)link_flush(l); /* a dead worker shows when it is read */
    return 0;
}

static uint64_t le64(const uint8_t *p)
{
    uint64_t v = 0;
    for (int i = 7; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

static int hand_out(worker_link *l, link_frame *out)
{
    size_t skip = l->type == JB_FRAME_READY ? 0 : 8;
    if (l->length < skip) return JB_EPROTO;
    out->type = l->type;
    out->job = skip != 0 ? le64(l->body) : 0;
    out->json = (const char *)l->body + skip;
    out->json_len = (size_t)l->length - skip;
    l->complete = 1;
    return 1;
}

int link_read(worker_link *l, link_frame *out)
{
    if (l->fd < 0) return JB_EIO;
    if (l->complete) { /* the last one has been used */
        free(l->body);
        l->body = NULL;
        l->complete = 0;
        l->head_len = l->got = 0;
    }
    for (;;) {
        int in_head = l->head_len < JB_FRAME_HEADER;
        if (!in_head && l->got == l->length) return hand_out(l, out);
        uint8_t *to = in_head ? l->head + l->head_len : l->body + l->got;
        size_t want = in_head ? JB_FRAME_HEADER - l->head_len : (size_t)l->length - l->got;
        ssize_t n = recv(l->fd, to, want, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
        if (n <= 0) return JB_EIO;
        if (!in_head) {
            l->got += (size_t)n;
            continue;
        }
        l->head_len += (size_t)n;
        if (l->head_len < JB_FRAME_HEADER) continue;
        if (jb_frame_decode(l->head, JB_FRAME_MAX, &l->type, &l->length) != 0) return JB_EPROTO;
        if (l->type != JB_FRAME_READY && l->type != JB_FRAME_PROGRESS && l->type != JB_FRAME_DONE) return JB_EPROTO;
        l->got = 0;
        l->body = malloc((size_t)l->length + 1); /* our own worker: trusted to mean it */
        if (l->body == NULL) return JB_ENOMEM;
    }
}
