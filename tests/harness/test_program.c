/* SPDX-License-Identifier: Apache-2.0 */
/* The built jaxbench-worker itself: its arguments, its interpreter, its probe, and
 * that nothing of the caller's environment is left in a candidate's memory. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "harness/frameio.h"
#include "core/base/json.h"

#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORKER JB_BUILD_DIR "/jaxbench-worker"
#define SECRET "sk-jaxbench-program-secret"

static char dir[64];

static void set_up(void)
{
    strcpy(dir, "/tmp/jb-program-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(chmod(dir, 0755), 0);
}

static void tear_down(void) { jb_fs_remove_tree(dir, NULL); }

/* Run a shell line; its stdout and stderr together, and the exit code. */
static char *run(const char *line, int *code)
{
    static char text[65536];
    char full[2048];
    snprintf(full, sizeof full, "%s 2>&1 </dev/null", line);
    FILE *f = popen(full, "r");
    ck_assert_ptr_nonnull(f);
    size_t n = fread(text, 1, sizeof text - 1, f);
    text[n] = '\0';
    int status = pclose(f);
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
}

/* arguments, exit code, words */
static const struct { const char *line; int code; const char *words; } CALLS[] = {
    { WORKER " --version", 0, "jaxbench-worker " },
    { WORKER " --help", 0, "usage:" },
    { WORKER, 2, "--fd" },
    { WORKER " --fd", 2, "needs a value" },
    { WORKER " --fd many", 2, "small number" },
    { WORKER " --fd 3 --slots -1", 2, "small number" },
    { WORKER " --fd 3 --memory lots", 2, "16GiB" },
    { WORKER " --fd 3 --frobnicate 1", 2, "unknown option" },
    { WORKER " --probe --python /nonexistent/bin/python", 1, "/nonexistent/bin/python does not exist" },
    { WORKER " --probe --python /nonexistent/bin/python", 1, "the zygote ended before it was ready" }, /* noticed, not waited for */
};

START_TEST(arguments)
{
    int code;
    const char *text = run(CALLS[_i].line, &code);
    ck_assert_msg(code == CALLS[_i].code, "%s: exit %d, expected %d\n%s", CALLS[_i].line, code, CALLS[_i].code, text);
    ck_assert_msg(strstr(text, CALLS[_i].words) != NULL, "%s: \"%s\" is not in:\n%s", CALLS[_i].line, CALLS[_i].words, text);
}
END_TEST

START_TEST(a_venv_of_another_python_is_refused_by_name)
{
    char line[512], path[200];
    int code;
    snprintf(path, sizeof path, "%s/bin", dir);
    ck_assert_int_eq(mkdir(path, 0755), 0);
    snprintf(path, sizeof path, "%s/bin/python", dir);
    ck_assert_int_eq(symlink("/bin/true", path), 0);
    snprintf(path, sizeof path, "%s/pyvenv.cfg", dir);
    ck_assert_int_eq(jb_fs_write_atomic(path, "home = /usr/bin\nversion = 3.1.4\n", 32, NULL), 0);
    snprintf(line, sizeof line, WORKER " --probe --python %s/bin/python", dir);
    const char *text = run(line, &code);
    ck_assert_int_eq(code, 1);
    ck_assert_msg(strstr(text, "3.1.4") != NULL && strstr(text, "hint:") != NULL, "%s", text);
}
END_TEST

START_TEST(the_probe_is_one_json_object)
{
    int code;
    char *text = run(WORKER " --probe", &code), *start = strchr(text, '{');
    ck_assert_msg(code == 0 && start != NULL, "exit %d\n%s", code, text);
    cJSON *o = jb_json_parse(start, strcspn(start, "\n"), NULL);
    ck_assert_msg(o != NULL, "%s", text);
    static const char *const keys[] = { "python", "jax", "jaxlib", "isolation", "selftest", "modules", "harness" };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) ck_assert_msg(cJSON_GetObjectItemCaseSensitive(o, keys[i]) != NULL, "%s is missing", keys[i]);
    ck_assert_str_eq(jb_json_str(jb_json_obj(o, "selftest"), "interpret", "?"), "ok");
    const cJSON *m;
    cJSON_ArrayForEach(m, jb_json_obj(o, "modules")) ck_assert_str_eq(m->valuestring, "ok");
    cJSON_Delete(o);
}
END_TEST

/* A tracer that looks for the environment where the kernel put it: behind the
 * program's arguments, at the top of the stack. */
static const char SPY[] =
    "import ctypes, json\n"
    "def main(job, source, emit):\n"
    "    libc = ctypes.CDLL(None)\n"
    "    at = ctypes.cast(ctypes.c_void_p.in_dll(libc, 'program_invocation_name'), ctypes.c_void_p).value\n"
    "    end = (at + 4096 + 4095) // 4096 * 4096\n"
    "    while end > at:\n"
    "        try:\n"
    "            seen = ctypes.string_at(at, min(end - at, 3000)); break\n"
    "        except Exception: end -= 4096\n"
    "    print(len(seen), b'jaxbench-worker' in seen, b'program-' + b'secret' in seen, flush=True)\n"
    "    emit(32, '', json.dumps({'trace': {'status': 'fail', 'outcome': 'contract', 'reason': 'done'}}).encode())\n";

static const char JOB[] =
    "{\"schema\":1,\"workload\":{\"shapes\":{\"full\":{},\"tiny\":{}}},\"check_shapes\":[\"tiny\"],\"timed_shape\":\"full\",\"last_stage\":\"export\","
    "\"limits\":{\"trace_s\":30},\"isolation\":\"best-effort\"}";

/* Start the worker on a folder of ours, with a secret and padding around it. */
static pid_t start_worker(int *sock_out)
{
    static const char *const modules[] = { "inspector", "compiler", "reference", "runtime", "__init__" };
    int pair[2];
    char path[300], fd[16], harness[200];
    snprintf(harness, sizeof harness, "%s/harness", dir);
    snprintf(path, sizeof path, "%s/jaxbench_harness", harness);
    ck_assert_int_eq(jb_fs_mkdirs(path, NULL), 0);
    for (size_t i = 0; i < 5; i++) {
        snprintf(path, sizeof path, "%s/jaxbench_harness/%s.py", harness, modules[i]);
        ck_assert_int_eq(jb_fs_write_atomic(path, "\n", 1, NULL), 0);
    }
    snprintf(path, sizeof path, "%s/jaxbench_harness/tracer.py", harness);
    ck_assert_int_eq(jb_fs_write_atomic(path, SPY, sizeof SPY - 1, NULL), 0);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    pid_t pid = fork();
    if (pid == 0) {
        char pad[4096];
        memset(pad, 'p', sizeof pad);
        memcpy(pad, "PAD=", 4);
        pad[sizeof pad - 1] = '\0';
        char *env[] = { (char[]){ "OPENAI_API_KEY=" SECRET }, pad, NULL };
        close(pair[0]);
        snprintf(fd, sizeof fd, "%d", pair[1]);
        execle(WORKER, "jaxbench-worker", "--fd", fd, "--cache", dir, "--harness", harness, "--plugins", "", (char *)NULL, env);
        _exit(127);
    }
    close(pair[1]);
    *sock_out = pair[0];
    return pid;
}

START_TEST(no_key_is_left_in_a_candidates_memory)
{
    int sock, status;
    uint8_t head[12] = { 1 };
    pid_t pid = start_worker(&sock);
    jb_put_le32(head + 8, sizeof JOB - 1);
    jb_view parts[3] = { { (const char *)head, 12 }, { JOB, sizeof JOB - 1 }, { "x", 1 } };
    ck_assert_int_eq(jb_frame_send(sock, JB_FRAME_JOB, parts, 3), 0);
    jb_frame_reader r;
    jb_frame f = { 0, 0, NULL };
    jb_frame_reader_init(&r, JB_FRAME_MAX);
    do {
        jb_frame_free(&f);
        ck_assert_int_eq(jb_frame_read(&r, sock, &f, NULL), JB_FRAME_GOT);
    } while (f.type != JB_FRAME_DONE);
    cJSON *record = jb_json_parse((const char *)f.body + 8, f.len - 8, NULL);
    const char *log = jb_json_str(record, "log", "");
    /* It read the stack (its own arguments are there) and found no key. */
    ck_assert_msg(strstr(log, "True False") != NULL, "%.*s", (int)f.len - 8, (const char *)f.body + 8);
    cJSON_Delete(record);
    jb_frame_free(&f);
    jb_frame_reader_free(&r);
    close(sock);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("program");
    TCase *t = tcase_create("program");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_loop_test(t, arguments, 0, sizeof CALLS / sizeof CALLS[0]);
    tcase_add_test(t, a_venv_of_another_python_is_refused_by_name);
    tcase_add_test(t, the_probe_is_one_json_object);
    tcase_add_test(t, no_key_is_left_in_a_candidates_memory);
    tcase_set_timeout(t, 90);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
