/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_stop.c - jaxbench stop RUN: ask the process that runs it to stop in
 * order, and wait until it has.  The signal goes through a pidfd, opened before the
 * process's start is compared with the lock's, so that a number which was given to
 * another process in the meantime is never hit. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/cli/runs.h"
#include "core/engine/rundir.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WAIT_S 60
#define LOOK_MS 50

static const jb_cli_option OPTIONS[] = {
    { "wait", 0, JB_CLI_INT, "SECONDS", "how long to wait for its end (default 60; 0: don't)", NULL },
};

/* What holds the lock, as a pidfd that is surely it; negative: the error says why not. */
static int open_holder(const jb_lock_holder *who, const char *dir, jb_error *err)
{
    char host[64] = "?";
    gethostname(host, sizeof host - 1);
    if (!who->pid || !who->started) {
        jb_err(err, JB_ESTATE, "%s is held by a process that its lock does not name", dir);
        return jb_err_hint(err, "find it with `fuser %.150s/lock` and send it SIGTERM", dir);
    }
    if (strcmp(host, who->host)) {
        jb_err(err, JB_ESTATE, "%s is run by process %" PRId64 " of host %s, this is %s", dir, who->pid, who->host, host);
        return jb_err_hint(err, "stop it there");
    }
    int fd = (int)syscall(SYS_pidfd_open, (pid_t)who->pid, 0);
    if (fd >= 0 && jb_lock_process_start(who->pid) == who->started) return fd;
    if (fd >= 0) close(fd);
    jb_err(err, JB_ESTATE, "the lock of %s names process %" PRId64 ", which is not the one that took it", dir, who->pid);
    return jb_err_hint(err, "it may live in another container; stop it there");
}

/* 1 once nobody holds the lock any more, 0 after the time. */
static int wait_for_end(const char *lock, int pidfd, int64_t seconds)
{
    jb_lock_holder who;
    for (int64_t left = seconds * 1000; left > 0; left -= LOOK_MS) {
        struct pollfd p = { .fd = pidfd, .events = POLLIN };
        if (poll(&p, 1, LOOK_MS) == 1) poll(NULL, 0, LOOK_MS); /* it ended; a child may hold the lock a moment longer */
        if (jb_lock_look(lock, &who, NULL) != 0 || !who.held) return 1;
    }
    return 0;
}

static int report(jb_cli *c, const char *dir, const char *what, int64_t pid, int64_t waited)
{
    if (c->json) {
        cJSON *o = cJSON_CreateObject();
        int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
        if (rc == 0) rc = jb_json_set_str(o, "run", dir);
        if (rc == 0) rc = jb_json_set_str(o, "result", what);
        if (rc == 0 && pid) rc = jb_json_set_i64(o, "pid", pid);
        if (rc != 0) {
            cJSON_Delete(o);
            o = NULL;
        }
        int code = jb_cli_print_json(c, o);
        cJSON_Delete(o);
        return code;
    }
    jb_buf safe = JB_BUF_INIT(8192);
    jb_text_escape(&safe, dir, strlen(dir), 0);
    const char *name = safe.ptr ? safe.ptr : "?";
    if (!strcmp(what, "stopped")) fprintf(c->out, "%s: process %" PRId64 " has stopped; go on with: jaxbench resume %s\n", name, pid, name);
    else if (!strcmp(what, "asked")) fprintf(c->out, "%s: process %" PRId64 " was asked to stop; it may need until its running jobs are put down (waited %" PRId64 " s)\n", name, pid, waited);
    else fprintf(c->out, "%s is not running: there is nothing to stop\n", name);
    jb_buf_free(&safe);
    return JB_EXIT_OK;
}

static int stop(jb_cli *c, const char *dir, const char *lock, jb_error *err)
{
    jb_lock_holder who;
    int64_t seconds = jb_cli_i64(c, "wait", WAIT_S);
    int rc = jb_lock_look(lock, &who, err);
    if (rc == JB_ENOTFOUND || (rc == 0 && !who.held)) return report(c, dir, "not-running", 0, 0);
    int fd = rc == 0 ? open_holder(&who, dir, err) : rc;
    if (fd < 0) return jb_cli_fail(c, err);
    if (syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) != 0) {
        int gone = errno == ESRCH;
        jb_err(err, JB_EPERM, "process %" PRId64 " can't be told to stop: %s", who.pid, strerror(errno));
        jb_err_hint(err, "it belongs to another user");
        close(fd);
        return gone ? report(c, dir, "stopped", who.pid, 0) : jb_cli_fail(c, err);
    }
    int ended = wait_for_end(lock, fd, seconds);
    close(fd);
    return report(c, dir, ended ? "stopped" : "asked", who.pid, seconds);
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    char *dir = NULL, *lock = NULL;
    cJSON *manifest = NULL;
    int code, rc = jb_rundir_find(c->argv[0], &dir, &err);
    if (rc == 0 && !(manifest = jb_rundir_read_manifest(dir, &err))) rc = err.code; /* only a run has a lock of ours */
    if (rc == 0 && !(lock = jb_fs_join(dir, "lock"))) rc = jb_err(&err, JB_ENOMEM, "stop: out of memory");
    code = rc == 0 ? stop(c, dir, lock, &err) : jb_cli_fail(c, &err);
    cJSON_Delete(manifest);
    jb_free(lock);
    jb_free(dir);
    return code;
}

const jb_cli_verb jb_verb_stop = {
    .name = "stop", .summary = "stop a run in order", .usage = "RUN",
    .help = "The process that runs it ends as if interrupted once: the journal is whole, and `jaxbench resume` goes\n"
            "on from there. Jobs that were running are put down and done again then. A run that is not running is\n"
            "no error. Asking twice ends the process at once; even so the journal is whole.",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = 1, .run = run,
};
