/* SPDX-License-Identifier: Apache-2.0 */
/* harness/main.c - jaxbench-worker: reads its arguments, forks the zygote while
 * it knows nothing, and runs the loop.  It is started by an executor plugin, not
 * by a person; --probe and --version are what a person may type. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "harness/probe.h"
#include "harness/python.h"
#include "harness/worker.h"

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

static const char USAGE[] =
    "usage: jaxbench-worker --fd N [options]   serve jobs on descriptor N (frames, include/jaxbench/frame.h)\n"
    "       jaxbench-worker --probe            print one JSON object: versions, isolation, self-test\n"
    "       jaxbench-worker --version\n"
    "  --slots N        jobs at once (0: one a core)\n"
    "  --memory BYTES   of all children together, e.g. 16GiB (0: 85 % of what is available)\n"
    "  --cache DIR      references and the self-test's result\n"
    "  --cache-size B   cap of the references, e.g. 20GiB\n"
    "  --plugins LIST   ':'-separated folders of checkers and timers\n"
    "  --python FILE    interpreter of the venv (default: as configured)\n"
    "  --harness DIR    folder that holds jaxbench_harness/ (default: beside the program; $JAXBENCH_HARNESS)\n";

typedef struct arguments {
    jb_worker_options worker;
    char *python, *harness;
    int probe;
} arguments;

static int bad(const char *problem, const char *what)
{
    fprintf(stderr, "jaxbench-worker: %s: %s\n%s", what, problem, USAGE);
    return 2;
}

/* 0, or the exit code. */
static int read_option(arguments *a, const char *name, const char *value)
{
    int64_t n = 0;
    int size_ok = jb_text_size(value, &n) == 0 && n >= 0;
    if (strcmp(name, "--fd") == 0 || strcmp(name, "--slots") == 0) {
        if (jb_text_i64(value, &n) != 0 || n < 0 || n > 4096) return bad("expected a small number", value);
        *(strcmp(name, "--fd") == 0 ? &a->worker.fd : &a->worker.slots) = (int)n;
    } else if (strcmp(name, "--memory") == 0 || strcmp(name, "--cache-size") == 0) {
        if (!size_ok) return bad("expected a size such as 16GiB", value);
        *(strcmp(name, "--memory") == 0 ? &a->worker.memory_bytes : &a->worker.cache_bytes) = n;
    } else if (strcmp(name, "--cache") == 0) {
        a->worker.cache = value;
    } else if (strcmp(name, "--plugins") == 0) {
        a->worker.plugins = value;
    } else if (strcmp(name, "--python") == 0 || strcmp(name, "--harness") == 0) {
        char **slot = strcmp(name, "--python") == 0 ? &a->python : &a->harness;
        jb_free(*slot);
        *slot = jb_strdup(value);
    } else {
        return bad("unknown option", name);
    }
    return 0;
}

static int read_arguments(arguments *a, int argc, char **argv)
{
    a->worker.fd = -1;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--probe") == 0) {
            a->probe = 1;
            continue;
        }
        if (i + 1 == argc) return bad("it needs a value, or is unknown", argv[i]);
        int rc = read_option(a, argv[i], argv[i + 1]);
        if (rc != 0) return rc;
        i++;
    }
    return a->worker.fd >= 0 || a->probe ? 0 : bad("it is missing, so there is nothing to do", "--fd");
}

/* Where the interpreter and our package lie: argument, environment, or beside
 * the program.  A venv inside the tree was compiled in relative to the tree. */
static int find_parts(arguments *a, jb_layout *l, jb_error *err)
{
    const char *env_harness = getenv("JAXBENCH_HARNESS");
    jb_layout_free(l);
    int rc = jb_layout_find(l, err);
    if (rc != 0 && (a->harness == NULL && env_harness == NULL)) return rc;
    if (a->harness == NULL && env_harness != NULL) a->harness = jb_strdup(env_harness);
    if (a->harness == NULL) {
        a->harness = jb_fs_join(l->root, "harness");
        if (!jb_fs_is_dir(a->harness)) {
            jb_free(a->harness);
            a->harness = jb_fs_join(l->root, "share/jaxbench/harness");
        }
    }
    if (a->python == NULL) a->python = jb_layout_python(l->root != NULL ? l->root : ".");
    if (a->worker.cache == NULL) a->worker.cache = l->cache;
    if (a->worker.plugins == NULL) a->worker.plugins = l->plugins;
    jb_err_clear(err);
    return a->python != NULL && a->harness != NULL ? 0 : jb_err(err, JB_ENOMEM, "out of memory");
}

static int fail(const jb_error *err)
{
    fprintf(stderr, "jaxbench-worker: %s\n", err->message);
    if (err->hint[0] != '\0') fprintf(stderr, "  hint: %s\n", err->hint);
    return 1;
}

/* The child that becomes the fork server.  It keeps stderr and its socket. */
static int zygote_main(int sock, const arguments *a)
{
    static jb_python python;
    jb_error err = JB_ERROR_INIT;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    for (int fd = 3; fd < 1024; fd++)
        if (fd != sock) close(fd);
    int nothing = open("/dev/null", O_RDWR);
    if (nothing >= 0) {
        dup2(nothing, 0);
        dup2(2, 1); /* no library may print into our stdout: --probe writes JSON there */
        if (nothing > 2 && nothing != sock) close(nothing);
    }
    jb_python_environment();
    if (jb_python_start(&python, a->python, a->harness, &err) != 0) return fail(&err);
    jb_kid_ops ops = { .self = &python, .ready = jb_python_ready, .paths = &python.paths, .prepare = jb_runtime_prepare, .run = jb_python_run };
    return jb_zygote_serve(sock, &ops);
}

static int start_zygote(const arguments *a, int *sock_out, pid_t *pid_out)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair) != 0) return -1;
    pid_t pid = fork();
    if (pid == 0) {
        close(pair[0]);
        _exit(zygote_main(pair[1], a));
    }
    close(pair[1]);
    if (pid < 0) close(pair[0]);
    (void)fcntl(pair[0], F_SETFD, FD_CLOEXEC);
    *sock_out = pair[0];
    *pid_out = pid;
    return pid < 0 ? -1 : 0;
}

static int probe(int sock)
{
    jb_error err = JB_ERROR_INIT;
    cJSON *o = jb_probe(sock, &err);
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    if (o == NULL) return fail(&err);
    if (jb_json_print(o, &text) == 0) printf("%s\n", text.ptr);
    jb_buf_free(&text);
    cJSON_Delete(o);
    close(sock);
    return 0;
}

int main(int argc, char **argv)
{
    arguments a;
    jb_layout layout;
    jb_error err = JB_ERROR_INIT;
    int sock = -1, status = 0;
    pid_t pid = -1;
    memset(&a, 0, sizeof a);
    memset(&layout, 0, sizeof layout);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("jaxbench-worker %s (Python %s)\n", JB_VERSION, jb_python_compiled());
        return 0;
    }
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(USAGE, stdout);
        return 0;
    }
    int code = read_arguments(&a, argc, argv);
    if (code != 0) return code;
    jb_json_setup();
    if (find_parts(&a, &layout, &err) != 0) return fail(&err);
    if (start_zygote(&a, &sock, &pid) != 0) {
        jb_err(&err, JB_EIO, "the zygote could not be started: %s", strerror(errno));
        return fail(&err);
    }
    a.worker.zygote = sock;
    code = a.probe ? probe(sock) : jb_worker_run(&a.worker);
    /* Its socket is closed: the zygote kills and reaps its children and goes. */
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    jb_free(a.python);
    jb_free(a.harness);
    jb_layout_free(&layout);
    return code;
}
