/* SPDX-License-Identifier: Apache-2.0 */
/* What a child behind the walls can't do, tried from inside, as real root's child
 * and as an ordinary user's.  Where this kernel or container lacks a layer, the
 * tests that stand on it say so and pass: `doctor` is who complains. */
#include "tests/harness/fake.h"

#include <dirent.h>
#include <limits.h>
#include <linux/capability.h>
#include <pthread.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#if defined(__SANITIZE_ADDRESS__)
#define ASAN 1
#else
#define ASAN 0
#endif

static jb_sandbox_paths paths;

/* ---- scenarios, run in the leaf ---------------------------------------- */

static int tries, failures;
static char first[200];

/* Note an act that should have been refused. */
static void refused(int was_refused, const char *what)
{
    tries++;
    if (was_refused) return;
    if (failures++ == 0) snprintf(first, sizeof first, "%s", what);
}

static void cant_open(const char *path, int flags)
{
    int fd = open(path, flags, 0600);
    refused(fd < 0, path);
}

static void files(void)
{
    cant_open(JB_SOURCE_DIR "/CMakeLists.txt", O_RDONLY);
    cant_open(JB_SOURCE_DIR, O_RDONLY | O_DIRECTORY);
    cant_open("/root", O_RDONLY | O_DIRECTORY);
    cant_open("/home", O_RDONLY | O_DIRECTORY);
    cant_open("/etc/passwd", O_RDONLY);
    cant_open("/etc/shadow", O_RDONLY);
    cant_open("/proc/1/environ", O_RDONLY);
    cant_open("/proc/self/mountinfo", O_RDONLY);
    cant_open("/proc/self/mem", O_RDWR);
    cant_open("/dev/sda", O_RDONLY);
    cant_open("/dev/kmsg", O_RDWR);
    cant_open("/dev/shm", O_RDONLY | O_DIRECTORY);
    cant_open("/sys/kernel", O_RDONLY | O_DIRECTORY);
    cant_open("/usr/lib/jaxbench-test", O_WRONLY | O_CREAT);
    cant_open("/jaxbench-test", O_WRONLY | O_CREAT);
    cant_open("/dev/jaxbench-test", O_WRONLY | O_CREAT);
    refused(mkdir("/x", 0700) != 0, "mkdir /x");
    refused(chmod("/usr", 0777) != 0, "chmod /usr");
    refused(mknod("/tmp/disk", S_IFBLK | 0600, 0) != 0, "mknod");
    refused(chroot("/tmp") != 0, "chroot");
}

static void kernel(void)
{
    char *argv[] = { (char[]){ "/bin/sh" }, NULL };
    refused(socket(AF_INET, SOCK_STREAM, 0) < 0, "an internet socket");
    refused(socket(AF_UNIX, SOCK_STREAM, 0) < 0, "a unix socket");
    refused(socket(AF_NETLINK, SOCK_RAW, 0) < 0, "a netlink socket");
#ifdef SYS_fork
    refused(syscall(SYS_fork) < 0, "fork");
#endif
    refused(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) < 0, "clone of a process");
    refused(syscall(SYS_clone3, NULL, 0) < 0 && errno == ENOSYS, "clone3 is not ENOSYS");
    refused(execve("/bin/sh", argv, NULL) != 0, "execve");
    refused(unshare(CLONE_NEWUSER) != 0, "unshare");
    refused(ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0, "ptrace");
    refused(mount("tmpfs", "/tmp", "tmpfs", 0, NULL) != 0, "mount");
    refused(umount2("/tmp", MNT_DETACH) != 0, "umount");
    refused(setuid(0) != 0, "setuid 0");
    refused(setsid() < 0, "setsid");
    refused(setpgid(0, 0) != 0, "setpgid");
    refused(prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0) != 0, "clearing the parent-death signal");
    refused(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0, "becoming dumpable");
    refused(syscall(SYS_bpf, 0, NULL, 0) < 0 && errno == EPERM, "bpf");
    refused(syscall(SYS_io_uring_setup, 1, NULL) < 0 && errno == EPERM, "io_uring_setup");
    refused(syscall(SYS_userfaultfd, 0) < 0 && errno == EPERM, "userfaultfd");
    refused(syscall(SYS_personality, 0xffffffff) < 0, "personality");
}

static void identity(void)
{
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct caps[2];
    memset(caps, 0xff, sizeof caps);
    refused(getuid() != 0 && geteuid() != 0, "uid 0");
    refused(syscall(SYS_capget, &head, caps) == 0 && (caps[0].effective | caps[0].permitted | caps[1].effective | caps[1].permitted) == 0, "capabilities");
    refused(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1, "no_new_privs is off");
    for (int fd = 4; fd < 1024; fd++) refused(fcntl(fd, F_GETFD) < 0, "a descriptor above 3");
    /* The signals below would end init, the keeper or the zygote if they arrived. */
    kill(1, SIGKILL);
    kill(getppid(), SIGKILL);
}

static void *nothing(void *p) { return p; }

/* What must still work, or Python would not. */
static void allowed(void)
{
    pthread_t t;
    int fd = open("/tmp/mine", O_RDWR | O_CREAT, 0600), null = open("/dev/null", O_WRONLY), rnd = open("/dev/urandom", O_RDONLY);
    char byte;
    refused(fd >= 0 && write(fd, "x", 1) == 1, "writing to /tmp fails");
    refused(null >= 0 && write(null, "x", 1) == 1, "writing to /dev/null fails");
    refused(rnd >= 0 && read(rnd, &byte, 1) == 1, "reading /dev/urandom fails");
    refused(pthread_create(&t, NULL, nothing, NULL) == 0 && pthread_join(t, NULL) == 0, "a thread can't start");
    refused(open("/usr/lib", O_RDONLY | O_DIRECTORY) >= 0, "/usr/lib can't be listed");
}

static int report(int ctl)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddNumberToObject(o, "tries", tries);
    cJSON_AddNumberToObject(o, "failures", failures);
    cJSON_AddStringToObject(o, "first", first);
    return jb_kid_result(ctl, o);
}

static int run(void *self, jb_kid_input *in)
{
    (void)self;
    const char *s = jb_json_str(in->meta, "scenario", "");
    volatile int *null = NULL;
    if (strcmp(s, "files") == 0) files();
    if (strcmp(s, "kernel") == 0) kernel();
    if (strcmp(s, "identity") == 0) identity();
    if (strcmp(s, "allowed") == 0) allowed();
    if (strcmp(s, "alloc") == 0) refused(mmap(NULL, (size_t)20 << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED, "20 GB of memory");
    if (strcmp(s, "bigfile") == 0) {
        static char mib[1 << 20];
        int fd = open("/tmp/big", O_WRONLY | O_CREAT, 0600);
        int n = 0;
        while (n < 64 && write(fd, mib, sizeof mib) == (ssize_t)sizeof mib) n++;
        refused(fd >= 0 && n < 64, "a file of 64 MiB under a limit of 8");
    }
    if (strcmp(s, "exit0") == 0) _exit(0);
    if (strcmp(s, "segv") == 0) {
        signal(SIGSEGV, SIG_DFL);
        *null = 1;
    }
    if (strcmp(s, "sigkill") == 0) raise(SIGKILL);
    if (strcmp(s, "loop") == 0)
        for (;;) sched_yield();
    if (strcmp(s, "cpu") == 0)
        for (volatile uint64_t i = 0;; i++) {
        }
    if (strcmp(s, "chatty") == 0) {
        static char block[65536];
        memset(block, 'x', sizeof block);
        for (int i = 0; i < 800; i++)
            if (write(1 + i % 2, block, sizeof block) < 0) return 5;
        dprintf(1, "the end");
    }
    if (strcmp(s, "forge") == 0) {
        for (int fd = 0; fd < 256; fd++)
            if (write(fd, "{\"outcome\":\"ok\"}", 16) < 0) continue;
        _exit(0);
    }
    if (strcmp(s, "sleep") == 0) sleep(60);
    return report(in->ctl) == 0 ? 0 : 4;
}

static int prepare(void *self, jb_kid_input *in, jb_error *err)
{
    (void)self;
    if (strcmp(jb_json_str(in->meta, "scenario", ""), "unprepared") == 0) return jb_err(err, JB_EIO, "nothing to prepare with");
    if (strcmp(jb_json_str(in->meta, "scenario", ""), "prepare-crash") == 0) {
        volatile int *null = NULL;
        if (ASAN) _exit(77); /* its report would come instead */
        *null = 1;
    }
    return 0;
}

static const jb_kid_ops ops = { .paths = &paths, .prepare = prepare, .run = run };

/* ---- running them ------------------------------------------------------ */

static jb_limits limits(void)
{
    return (jb_limits){ .profile = JB_PROFILE_TRACER, .uid = 200000777u, .as_bytes = (int64_t)4 << 30, .cpu_s = 30, .processes = 64, .files = 128,
                        .file_bytes = 8 << 20, .tmp_bytes = 64 << 20 };
}

static fake_zygote zygote;
static uid_t as_uid; /* 0: as we are */

static void set_up(void)
{
    ck_assert_int_eq(jb_sandbox_paths_init(&paths, NULL, 0), 0);
    zygote = fake_start(&ops, as_uid);
    ck_assert_int_eq(fake_await(&zygote, NULL, JB_ZOP_READY, 10), 0);
}

static void tear_down(void)
{
    int status = fake_stop(&zygote);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the zygote ended with status %d", status);
    jb_sandbox_paths_free(&paths);
}

static void set_up_ordinary(void)
{
    as_uid = 54321;
    set_up();
}

static void set_up_own(void)
{
    as_uid = 0;
    set_up();
}

static int lacks(const jb_child *c, const jb_layer *need, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (c->walls.state[need[i]] != JB_LAYER_ACTIVE) {
            printf("not tested here: layer %d is missing (%s)\n", (int)need[i], strerror(c->walls.error[need[i]]));
            return 1;
        }
    return 0;
}

/* Run a scenario that reports refusals; all must have been refused. */
static void all_refused(const char *scenario, const jb_layer *need, size_t count)
{
    jb_limits l = limits();
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, scenario, &l, 0, 20, NULL, 0);
    char end[300];
    ck_assert_msg(c->have_walls, "%s", jb_child_end(c, end, sizeof end));
    if (!lacks(c, need, count)) {
        ck_assert_msg(c->result != NULL, "%s: %s", scenario, jb_child_end(c, end, sizeof end));
        ck_assert_msg(jb_json_i64(c->result, "failures", -1) == 0, "%s: %s was not refused", scenario, jb_json_str(c->result, "first", "?"));
        ck_assert_int_gt(jb_json_i64(c->result, "tries", 0), 0);
    }
    jb_child_free(c);
}

START_TEST(files_are_out_of_reach)
{
    const jb_layer need[] = { JB_LAYER_ROOT, JB_LAYER_LANDLOCK };
    all_refused("files", need, 2);
}
END_TEST

START_TEST(dangerous_calls_are_refused)
{
    const jb_layer need[] = { JB_LAYER_SECCOMP, JB_LAYER_CAPS };
    all_refused("kernel", need, 2);
}
END_TEST

START_TEST(nobody_inside_and_no_descriptor_left)
{
    const jb_layer need[] = { JB_LAYER_UID, JB_LAYER_CAPS, JB_LAYER_NNP, JB_LAYER_PID_NS };
    all_refused("identity", need, 4);
    all_refused("allowed", NULL, 0); /* and the zygote has survived its signals */
}
END_TEST

START_TEST(what_python_needs_works) { all_refused("allowed", NULL, 0); }
END_TEST

START_TEST(memory_and_files_are_limited)
{
    const jb_layer need[] = { JB_LAYER_RLIMITS };
    if (!ASAN) all_refused("alloc", need, 1);
    all_refused("bigfile", need, 1);
}
END_TEST

/* A kernel without landlock, as far as the zygote can see. */
static void set_up_without_landlock(void)
{
    scmp_filter_ctx f = seccomp_init(SCMP_ACT_ALLOW);
    ck_assert_ptr_nonnull(f);
    ck_assert_int_eq(seccomp_rule_add(f, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(landlock_create_ruleset), 0), 0);
    ck_assert_int_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
    ck_assert_int_eq(seccomp_load(f), 0);
    seccomp_release(f);
    set_up_own();
}

START_TEST(a_missing_layer_is_named_and_required_refuses)
{
    jb_limits l = limits();
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, "allowed", &l, 1, 20, NULL, 0);
    ck_assert_int_eq(c->refused, 1);
    ck_assert_ptr_null(c->result);
    ck_assert_msg(strstr(c->err.message, "missing") != NULL, "%s", c->err.message);
    ck_assert_int_eq(c->walls.state[JB_LAYER_LANDLOCK], JB_LAYER_MISSING);
    ck_assert_int_eq(c->walls.error[JB_LAYER_LANDLOCK], ENOSYS);
    cJSON *o = jb_isolation_json(&c->walls);
    ck_assert_int_eq(jb_json_bool(o, "landlock", 1), 0);
    ck_assert_str_eq(jb_json_str(jb_json_obj(o, "errors"), "landlock", ""), strerror(ENOSYS));
    cJSON_Delete(o);
    jb_child_free(c);
    c = fake_run(&zygote, JB_KID_TRACER, "allowed", &l, 0, 20, NULL, 0); /* best-effort goes on */
    ck_assert_int_eq(c->refused, 0);
    ck_assert_ptr_nonnull(c->result);
    jb_child_free(c);
}
END_TEST

/* ---- ends -------------------------------------------------------------- */

static const struct { const char *scenario, *words; double limit_s; int crashed, timed_out; } ENDS[] = {
    { "exit0", "exited with 0", 20, 0, 0 },
    { "segv", "was killed by SIGSEGV", 20, 1, 0 },
    { "sigkill", "out of memory", 20, 1, 0 },
    { "loop", "stopped at its limit of 0.5 s", 0.5, 0, 1 },
    { "unprepared", "nothing to prepare with", 20, 0, 0 },
};

START_TEST(ends_are_told_apart)
{
    jb_limits l = limits();
    /* AddressSanitizer turns the fault into an exit of its own. */
    if (ASAN && strcmp(ENDS[_i].scenario, "segv") == 0) return;
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, ENDS[_i].scenario, &l, 0, ENDS[_i].limit_s, NULL, 0);
    char end[300];
    jb_child_end(c, end, sizeof end);
    ck_assert_msg(strstr(end, ENDS[_i].words) != NULL, "%s: \"%s\" should hold \"%s\"", ENDS[_i].scenario, end, ENDS[_i].words);
    ck_assert_int_eq(jb_child_crashed(c), ENDS[_i].crashed);
    ck_assert_int_eq(c->timed_out, ENDS[_i].timed_out);
    ck_assert_ptr_null(c->result);
    jb_child_free(c);
}
END_TEST

START_TEST(a_crash_while_preparing_is_reported)
{
    jb_limits l = limits();
    char end[300];
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, "prepare-crash", &l, 0, 20, NULL, 0);
    ck_assert_int_eq(c->have_walls, 0);
    ck_assert_msg(strstr(jb_child_end(c, end, sizeof end), ASAN ? "exited with 77" : "SIGSEGV") != NULL, "%s", end);
    jb_child_free(c);
}
END_TEST

START_TEST(cpu_time_is_limited)
{
    jb_limits l = limits();
    char end[300];
    l.cpu_s = 1;
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, "cpu", &l, 0, 20, NULL, 0);
    ck_assert_msg(!c->timed_out && jb_child_crashed(c), "%s", jb_child_end(c, end, sizeof end));
    jb_child_free(c);
}
END_TEST

START_TEST(fifty_megabytes_are_drained_and_capped)
{
    jb_limits l = limits();
    jb_buf text = JB_BUF_INIT(1 << 20);
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, "chatty", &l, 0, 60, NULL, 0);
    ck_assert_ptr_nonnull(c->result);
    ck_assert_uint_eq(c->log_text.total, 800u * 65536u + 7u);
    ck_assert_int_eq(jb_capture_text(&c->log_text, &text), 0);
    ck_assert_uint_lt(text.len, 3 * JB_CAPTURE_HALF);
    ck_assert_str_eq(text.ptr + text.len - 7, "the end");
    jb_buf_free(&text);
    jb_child_free(c);
}
END_TEST

START_TEST(forging_on_every_descriptor_breaks_the_protocol)
{
    jb_limits l = limits();
    jb_child *c = fake_run(&zygote, JB_KID_TRACER, "forge", &l, 0, 20, NULL, 0);
    ck_assert_int_eq(c->broken, JB_EPROTO);
    ck_assert_ptr_null(c->result);
    ck_assert_msg(strstr(c->err.message, "no frame") != NULL, "%s", c->err.message);
    jb_child_free(c);
}
END_TEST

START_TEST(everything_dies_with_the_zygote)
{
    jb_limits l = limits();
    jb_error err = JB_ERROR_INIT;
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddStringToObject(meta, "scenario", "sleep");
    jb_child *c = jb_child_spawn(zygote.sock, 1, JB_KID_TRACER, &l, 0, (int64_t)60 * 1000000000, jb_kid_pack(meta, NULL, 0, &err), &err);
    cJSON_Delete(meta);
    ck_assert_ptr_nonnull(c);
    for (int i = 0; i < 500 && !c->have_walls; i++) { /* until the leaf runs */
        usleep(10000);
        jb_child_pump(c);
    }
    ck_assert_int_eq(c->have_walls, 1);
    kill(zygote.pid, SIGKILL);
    int64_t end = jb_clock_ns() + 5000000000;
    while (c->log >= 0 && jb_clock_ns() < end) {
        usleep(10000);
        jb_child_pump(c);
    }
    ck_assert_msg(c->log == -1, "the leaf still holds its pipe 5 s after the zygote was killed");
    jb_child_free(c);
    close(zygote.sock);
    waitpid(zygote.pid, NULL, 0);
    jb_sandbox_paths_free(&paths);
    set_up(); /* for tear_down */
}
END_TEST

START_TEST(trusted_children_keep_the_file_system)
{
    jb_limits l = { .profile = JB_PROFILE_TRUSTED };
    jb_child *c = fake_run(&zygote, JB_KID_REFERENCE, "files", &l, 1, 20, NULL, 0);
    ck_assert_int_eq(c->refused, 0); /* `required` is about candidates */
    ck_assert_ptr_nonnull(c->result);
    ck_assert_int_gt(jb_json_i64(c->result, "failures", 0), 0);
    jb_child_free(c);
}
END_TEST

START_TEST(paths_leave_out_what_is_nested_or_missing)
{
    jb_sandbox_paths p;
    const char *extra[] = { "/usr/lib/python3", "/nonexistent/x", "/usr/include", NULL, "relative", "/" };
    ck_assert_int_eq(jb_sandbox_paths_init(&p, extra, 6), 0);
    int mine = 0;
    for (size_t i = 0; i < p.count; i++) {
        char real[PATH_MAX];
        ck_assert_ptr_nonnull(realpath(p.paths[i], real));
        ck_assert_str_eq(p.sources[i], real); /* a path through a link is bound from behind it */
        ck_assert_str_ne(p.paths[i], "/usr/lib/python3");
        ck_assert_str_ne(p.paths[i], "/nonexistent/x");
        ck_assert_str_ne(p.paths[i], "/");
        mine |= strcmp(p.paths[i], "/usr/include") == 0;
    }
    ck_assert_int_eq(mine, 1);
    ck_assert_int_eq(jb_sandbox_allows(&p, "/usr/include/x.h"), 1);
    ck_assert_int_eq(jb_sandbox_allows(&p, "/usr/include2"), 0);
    ck_assert_int_eq(jb_sandbox_allows(&p, "/tmp/x"), 1);
    ck_assert_int_eq(jb_sandbox_allows(&p, "/etc/passwd"), 0);
    jb_sandbox_paths_free(&p);
}
END_TEST

static void add_all(TCase *t)
{
    tcase_add_test(t, files_are_out_of_reach);
    tcase_add_test(t, dangerous_calls_are_refused);
    tcase_add_test(t, nobody_inside_and_no_descriptor_left);
    tcase_add_test(t, what_python_needs_works);
    tcase_add_test(t, memory_and_files_are_limited);
    tcase_add_loop_test(t, ends_are_told_apart, 0, sizeof ENDS / sizeof ENDS[0]);
    tcase_add_test(t, a_crash_while_preparing_is_reported);
    tcase_add_test(t, cpu_time_is_limited);
    tcase_add_test(t, fifty_megabytes_are_drained_and_capped);
    tcase_add_test(t, forging_on_every_descriptor_breaks_the_protocol);
    tcase_add_test(t, everything_dies_with_the_zygote);
    tcase_set_timeout(t, 90);
}

/* CK_FORK=no (sanitizers, gdb) runs every test in this process. */
static int fork_allowed(void)
{
    const char *fork_mode = getenv("CK_FORK");
    return fork_mode == NULL || strcmp(fork_mode, "no") != 0;
}

int main(void)
{
    Suite *s = suite_create("sandbox");
    TCase *own = tcase_create("as we are"), *user = tcase_create("as an ordinary user"), *plain = tcase_create("paths"), *old = tcase_create("without landlock");
    tcase_add_checked_fixture(own, set_up_own, tear_down);
    add_all(own);
    tcase_add_test(own, trusted_children_keep_the_file_system);
    suite_add_tcase(s, own);
    if (geteuid() == 0) {
        tcase_add_checked_fixture(user, set_up_ordinary, tear_down);
        add_all(user);
    } else {
        printf("not root: the case \"as we are\" is the ordinary user's\n");
    }
    suite_add_tcase(s, user);
    /* Last, and in a process of its own: the filter stays. */
    if (fork_allowed()) {
        tcase_add_checked_fixture(old, set_up_without_landlock, tear_down);
        tcase_add_test(old, a_missing_layer_is_named_and_required_refuses);
    }
    suite_add_tcase(s, old);
    tcase_add_test(plain, paths_leave_out_what_is_nested_or_missing);
    suite_add_tcase(s, plain);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
