/* SPDX-License-Identifier: Apache-2.0 */
/* tests/harness/fake.h - a zygote whose children are C functions, for the tests
 * of sandbox, children and jobs: everything but Python is the real thing. */
#ifndef JB_TEST_FAKE_H
#define JB_TEST_FAKE_H

#include "core/base/error.h"
#include "core/base/mem.h"
#include "harness/child.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct fake_zygote {
    int sock;
    pid_t pid;
    uint64_t next;
} fake_zygote;

/* Fork a zygote that serves `ops`; as `uid` when it is not 0 and we are root. */
static inline fake_zygote fake_start(const jb_kid_ops *ops, uid_t uid)
{
    int pair[2];
    fake_zygote z = { -1, -1, 0 };
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
    z.pid = fork();
    if (z.pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        close(pair[0]);
        if (uid != 0 && geteuid() == 0 && (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0)) _exit(99);
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0); /* the change of uid cleared it, and uid_map needs it */
        _exit(jb_zygote_serve(pair[1], ops));
    }
    close(pair[1]);
    z.sock = pair[0];
    return z;
}

/* Close its socket; its exit status. */
static inline int fake_stop(fake_zygote *z)
{
    int status = -1;
    close(z->sock);
    ck_assert_int_eq(waitpid(z->pid, &status, 0), z->pid);
    return status;
}

/* Wait for a message, draining `c`; 0, or JB_ETIMEOUT / JB_EIO. */
static inline int fake_await(fake_zygote *z, jb_child *c, uint32_t op, double seconds)
{
    static char text[JB_ZYGOTE_TEXT];
    int64_t end = jb_clock_ns() + (int64_t)(seconds * 1e9);
    for (;;) {
        jb_zmsg m;
        int rc = jb_zygote_recv(z->sock, &m, text, sizeof text);
        if (rc < 0) return JB_EIO;
        if (rc == 1 && m.op == op) return 0;
        if (rc == 1) continue;
        if (jb_clock_ns() > end) return JB_ETIMEOUT;
        struct pollfd p[4] = { { z->sock, POLLIN, 0 }, { c ? c->ctl : -1, POLLIN, 0 }, { c ? c->log : -1, POLLIN, 0 }, { c ? c->status : -1, POLLIN, 0 } };
        (void)poll(p, 4, 50);
        if (c != NULL) jb_child_pump(c);
    }
}

/* Run one child whose meta is {"scenario": name} to its end or its limit. */
static inline jb_child *fake_run(fake_zygote *z, uint32_t kind, const char *scenario, const jb_limits *l, int required, double limit_s,
                                 jb_module *modules, size_t module_count)
{
    jb_error err = JB_ERROR_INIT;
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddStringToObject(meta, "scenario", scenario);
    int request = jb_kid_pack(meta, NULL, 0, &err);
    cJSON_Delete(meta);
    jb_child *c = jb_child_spawn(z->sock, ++z->next, kind, l, required, (int64_t)(limit_s * 1e9), request, &err);
    ck_assert_msg(c != NULL, "%s", err.message);
    c->modules = modules;
    c->module_count = module_count;
    if (fake_await(z, c, JB_ZOP_ENDED, limit_s) == JB_ETIMEOUT) {
        jb_zmsg m = { .op = JB_ZOP_KILL, .id = c->id };
        c->timed_out = 1;
        ck_assert_int_eq(jb_zygote_send(z->sock, &m, NULL, 0), 0);
        ck_assert_int_eq(fake_await(z, c, JB_ZOP_ENDED, 10), 0);
    }
    jb_child_finish(c);
    return c;
}

#endif
