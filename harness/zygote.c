/* SPDX-License-Identifier: Apache-2.0 */
/* harness/zygote.c - the fork server; see zygote.h.  Nothing here knows Python:
 * what a child does is behind jb_kid_ops. */
#include "harness/zygote.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CHILDREN 512

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

typedef struct zchild {
    uint64_t id;
    pid_t keeper;
} zchild;

typedef struct zygote {
    const jb_kid_ops *ops;
    int sock, signals;
    zchild child[MAX_CHILDREN];
    size_t count;
} zygote;

/* ---- messages ---------------------------------------------------------- */

static int send_text(int sock, const jb_zmsg *m, const char *text, const int *fds, size_t count)
{
    struct iovec iov[2];
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int) * JB_FD_COUNT)]; } control;
    struct msghdr h;
    memset(&h, 0, sizeof h);
    memset(&control, 0, sizeof control);
    union { const void *c; void *m; } a = { .c = m }, b = { .c = text };
    iov[0] = (struct iovec){ .iov_base = a.m, .iov_len = sizeof *m };
    iov[1] = (struct iovec){ .iov_base = b.m, .iov_len = text != NULL ? strlen(text) : 0 };
    h.msg_iov = iov;
    h.msg_iovlen = 2;
    if (count > 0) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(sizeof(int) * count);
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int) * count);
        memcpy(CMSG_DATA(c), fds, sizeof(int) * count);
    }
    ssize_t n;
    do n = sendmsg(sock, &h, MSG_NOSIGNAL);
    while (n < 0 && errno == EINTR);
    return n < 0 ? JB_EIO : 0;
}

int jb_zygote_send(int sock, const jb_zmsg *m, const int *fds, size_t count) { return send_text(sock, m, NULL, fds, count); }

/* fds_out may be NULL; *fd_count is what came. */
static int receive(int sock, jb_zmsg *m, char *text, size_t cap, int *fds_out, size_t *fd_count)
{
    union { struct cmsghdr align; char bytes[CMSG_SPACE(sizeof(int) * JB_FD_COUNT)]; } control;
    struct iovec iov[2] = { { .iov_base = m, .iov_len = sizeof *m }, { .iov_base = text, .iov_len = text != NULL ? cap - 1 : 0 } };
    struct msghdr h;
    memset(&h, 0, sizeof h);
    h.msg_iov = iov;
    h.msg_iovlen = text != NULL ? 2 : 1;
    h.msg_control = control.bytes;
    h.msg_controllen = sizeof control.bytes;
    ssize_t n;
    do n = recvmsg(sock, &h, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return 0;
    if (n < (ssize_t)sizeof *m) return JB_EIO;
    if (text != NULL) text[(size_t)n - sizeof *m] = '\0';
    if (fd_count != NULL) *fd_count = 0;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&h); c != NULL; c = CMSG_NXTHDR(&h, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;
            memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
            if (fds_out != NULL && fd_count != NULL && *fd_count < JB_FD_COUNT)
                fds_out[(*fd_count)++] = fd;
            else
                close(fd);
        }
    }
    return 1;
}

int jb_zygote_recv(int sock, jb_zmsg *m, char *text, size_t cap) { return receive(sock, m, text, cap, NULL, NULL); }

static void say(int fd, uint32_t tag, const jb_isolation *iso, int wait_status, const char *text)
{
    jb_status_line line;
    memset(&line, 0, sizeof line);
    line.tag = tag;
    line.wait_status = wait_status;
    if (iso != NULL) line.isolation = *iso;
    if (text != NULL) snprintf(line.text, sizeof line.text, "%s", text);
    while (write(fd, &line, sizeof line) < 0 && errno == EINTR) { /* less than PIPE_BUF: whole or not at all */
    }
}

/* ---- keeper, init, leaf ------------------------------------------------ */

#define LOW_CTL 3
#define LOW_STATUS 4
#define LOW_REQUEST 5
#define LOW_NOTES 6

/* stdin from nowhere, stdout and stderr into one pipe, the rest at fixed small
 * numbers, everything else closed: the zygote's socket above all. */
static void arrange_fds(const int *fds)
{
    int high[JB_FD_COUNT];
    for (int i = 0; i < JB_FD_COUNT; i++) high[i] = fcntl(fds[i], F_DUPFD, 64);
    int nothing = open("/dev/null", O_RDONLY);
    if (nothing > 0) dup2(nothing, 0);
    dup2(high[JB_FD_LOG], 1);
    dup2(high[JB_FD_LOG], 2);
    dup2(high[JB_FD_CTL], LOW_CTL);
    dup2(high[JB_FD_STATUS], LOW_STATUS);
    dup2(high[JB_FD_REQUEST], LOW_REQUEST);
    dup2(high[JB_FD_NOTES], LOW_NOTES);
    if (syscall(SYS_close_range, LOW_NOTES + 1, ~0u, 0) != 0)
        for (int fd = LOW_NOTES + 1; fd < 1024; fd++) close(fd);
}

static void default_signals(void)
{
    sigset_t none;
    sigemptyset(&none);
    for (int s = 1; s < NSIG; s++)
        if (s != SIGKILL && s != SIGSTOP) signal(s, SIG_DFL);
    signal(SIGXFSZ, SIG_IGN); /* Python turns EFBIG into an exception */
    signal(SIGPIPE, SIG_IGN); /* a leaf whose worker died gets EPIPE, and ends by its parent's death */
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void leaf(const jb_kid_ops *ops, jb_kid_input *in, const jb_zmsg *m, jb_isolation *iso)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    jb_sandbox_close(&m->limits, in->paths, iso);
    const char *missing = jb_isolation_missing(iso);
    int refuse = m->required && m->limits.profile != JB_PROFILE_TRUSTED && missing != NULL;
    say(LOW_STATUS, refuse ? JB_STATUS_REFUSED : JB_STATUS_WALLS, iso, 0, missing);
    close(LOW_STATUS);
    if (refuse) _exit(125);
    int code = ops->run(ops->self, in);
    _exit(code);
}

/* Wait for `pid`, reaping whatever else this process inherits. */
static int wait_for(pid_t pid)
{
    for (;;) {
        int status = 0;
        pid_t got = waitpid(-1, &status, 0);
        if (got == pid) return status;
        if (got < 0 && errno != EINTR) return 127 << 8;
    }
}

static _Noreturn void init(const jb_kid_ops *ops, jb_kid_input *in, const jb_zmsg *m, jb_isolation *iso)
{
    jb_error err = JB_ERROR_INIT;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (ops->prepare != NULL && ops->prepare(ops->self, in, &err) != 0) {
        say(LOW_STATUS, JB_STATUS_ERROR, iso, 0, err.message[0] != '\0' ? err.message : "preparing the child failed");
        _exit(124);
    }
    jb_sandbox_root(&m->limits, in->paths, iso);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0); /* the change of uid cleared it */
    pid_t pid = fork();
    if (pid == 0) leaf(ops, in, m, iso);
    if (pid < 0) {
        say(LOW_STATUS, JB_STATUS_ERROR, iso, 0, strerror(errno));
        _exit(124);
    }
    close(LOW_CTL);
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    if (m->limits.profile != JB_PROFILE_TRUSTED) (void)jb_filter_caps();
    int status = wait_for(pid);
    say(LOW_STATUS, JB_STATUS_WAIT, NULL, status, NULL);
    _exit(0);
}

static _Noreturn void keeper(const jb_kid_ops *ops, const jb_zmsg *m, const int *fds)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    default_signals();
    arrange_fds(fds);
    jb_isolation iso;
    memset(&iso, 0, sizeof iso);
    jb_kid_input in;
    memset(&in, 0, sizeof in);
    in.kind = m->kind;
    in.ctl = LOW_CTL;
    in.limits = &m->limits;
    in.paths = ops->paths;
    in.notes = mmap(NULL, JB_NOTES_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, LOW_NOTES, 0);
    if (in.notes == MAP_FAILED) in.notes = NULL;
    close(LOW_NOTES);
    jb_error err = JB_ERROR_INIT;
    if (jb_kid_unpack(LOW_REQUEST, &in, &err) != 0) {
        say(LOW_STATUS, JB_STATUS_ERROR, &iso, 0, err.message);
        _exit(124);
    }
    close(LOW_REQUEST);
    jb_sandbox_unshare(&m->limits, &iso);
    pid_t pid = fork();
    if (pid == 0) init(ops, &in, m, &iso);
    if (pid < 0) {
        say(LOW_STATUS, JB_STATUS_ERROR, &iso, 0, strerror(errno));
        _exit(124);
    }
    close(LOW_CTL);
    int status = wait_for(pid);
    /* Init ended before the leaf (prepare crashed, out of memory): say so, as
     * nobody else can. 124 is its own, with a reason. */
    if (WIFSIGNALED(status) || (WEXITSTATUS(status) != 0 && WEXITSTATUS(status) != 124)) say(LOW_STATUS, JB_STATUS_WAIT, NULL, status, NULL);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 126);
}

/* ---- the server -------------------------------------------------------- */

static void spawn(zygote *z, const jb_zmsg *m, const int *fds, size_t count)
{
    jb_zmsg gone = { .op = JB_ZOP_ENDED, .id = m->id, .status = 124 << 8 };
    pid_t pid = -1;
    if (count == JB_FD_COUNT && z->count < MAX_CHILDREN) {
        pid = fork();
        if (pid == 0) keeper(z->ops, m, fds);
        if (pid < 0) say(fds[JB_FD_STATUS], JB_STATUS_ERROR, NULL, 0, strerror(errno));
    }
    for (size_t i = 0; i < count; i++) close(fds[i]);
    if (pid < 0) {
        (void)jb_zygote_send(z->sock, &gone, NULL, 0);
        return;
    }
    (void)setpgid(pid, pid);
    z->child[z->count++] = (zchild){ .id = m->id, .keeper = pid };
}

/* The keeper is not reaped before reap(), so its pid can't be another's. */
static void kill_child(zygote *z, uint64_t id)
{
    for (size_t i = 0; i < z->count; i++)
        if (z->child[i].id == id) {
            kill(-z->child[i].keeper, SIGKILL);
            kill(z->child[i].keeper, SIGKILL);
        }
}

static void reap(zygote *z)
{
    int status;
    pid_t pid;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        for (size_t i = 0; i < z->count; i++) {
            if (z->child[i].keeper != pid) continue;
            kill(-pid, SIGKILL); /* without a pid namespace somebody may be left in the group */
            jb_zmsg m = { .op = JB_ZOP_ENDED, .id = z->child[i].id, .status = status };
            (void)jb_zygote_send(z->sock, &m, NULL, 0);
            z->child[i] = z->child[--z->count];
            break;
        }
    }
}

static int announce(zygote *z)
{
    jb_zmsg m = { .op = JB_ZOP_READY };
    char *text = z->ops->ready != NULL ? z->ops->ready(z->ops->self) : NULL;
    int rc = send_text(z->sock, &m, text != NULL ? text : "{}", NULL, 0);
    jb_free(text);
    return rc;
}

/* 1: go on; 0: the worker is gone. */
static int on_message(zygote *z)
{
    jb_zmsg m;
    int fds[JB_FD_COUNT];
    size_t count = 0;
    int rc = receive(z->sock, &m, NULL, 0, fds, &count);
    if (rc <= 0) return rc == 0;
    if (m.op == JB_ZOP_SPAWN) {
        spawn(z, &m, fds, count);
        return 1;
    }
    for (size_t i = 0; i < count; i++) close(fds[i]);
    if (m.op == JB_ZOP_KILL) kill_child(z, m.id);
    return 1;
}

int jb_zygote_serve(int sock, const jb_kid_ops *ops)
{
    static zygote z; /* 8 KiB, one a process */
    sigset_t set;
    memset(&z, 0, sizeof z);
    z.ops = ops;
    z.sock = sock;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    z.signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (z.signals < 0) return 1;
    int alive = announce(&z) == 0;
    while (alive) {
        struct pollfd p[2] = { { .fd = sock, .events = POLLIN }, { .fd = z.signals, .events = POLLIN } };
        if (poll(p, 2, -1) < 0 && errno != EINTR) break;
        struct signalfd_siginfo info;
        while (read(z.signals, &info, sizeof info) > 0) {
        }
        reap(&z);
        if (p[0].revents != 0) alive = on_message(&z);
    }
    for (size_t i = 0; i < z.count; i++) kill(-z.child[i].keeper, SIGKILL);
    while (z.count > 0 && waitpid(-1, NULL, 0) > 0) z.count--;
    close(z.signals);
    return 0;
}
