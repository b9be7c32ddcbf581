/* SPDX-License-Identifier: Apache-2.0 */
/* harness/filter.c - capabilities, landlock, rlimits and the seccomp filter of
 * a leaf (sandbox.h, step three).  Landlock is called directly: Debian 12's
 * headers predate most of its rights, so the constants stand here and are gated
 * on the ABI the running kernel reports. */
#include "harness/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <seccomp.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- capabilities ------------------------------------------------------ */

int jb_filter_caps(void)
{
    for (int cap = 0; cap < 64; cap++) (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    (void)prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
    struct __user_cap_data_struct none[2], seen[2];
    memset(none, 0, sizeof none);
    memset(seen, 0xff, sizeof seen);
    if (syscall(SYS_capset, &head, none) != 0) return errno;
    if (syscall(SYS_capget, &head, seen) != 0) return errno;
    for (int i = 0; i < 2; i++)
        if ((seen[i].effective | seen[i].permitted | seen[i].inheritable) != 0) return EPERM;
    return 0;
}

/* ---- landlock ---------------------------------------------------------- */

#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif
#define LL_VERSION 1u
#define LL_RULE_PATH 1u
#define LL_READ_FILE (1ull << 2)
#define LL_WRITE_FILE (1ull << 1)
#define LL_READ_DIR (1ull << 3)
#define LL_EXECUTE (1ull << 0)
#define LL_FS_1 ((1ull << 13) - 1) /* ABI 1: execute ... make_sym */
#define LL_FS_2 (1ull << 13)       /* refer */
#define LL_FS_3 (1ull << 14)       /* truncate */
#define LL_FS_5 (1ull << 15)       /* ioctl on devices */
#define LL_NET_4 3ull              /* bind and connect TCP */
#define LL_SCOPE_6 3ull            /* abstract unix sockets, signals */

typedef struct ll_ruleset { uint64_t fs, net, scoped; } ll_ruleset;
typedef struct __attribute__((packed)) ll_path { uint64_t allowed; int32_t fd; } ll_path;

static void allow(int ruleset, const char *path, uint64_t rights)
{
    ll_path rule = { .fd = open(path, O_PATH | O_CLOEXEC) };
    struct stat st;
    if (rule.fd < 0) return; /* absent here: nothing to allow */
    if (fstat(rule.fd, &st) == 0 && !S_ISDIR(st.st_mode)) rights &= LL_READ_FILE | LL_WRITE_FILE | LL_FS_3;
    rule.allowed = rights;
    (void)syscall(SYS_landlock_add_rule, ruleset, LL_RULE_PATH, &rule, 0);
    close(rule.fd);
}

int jb_filter_landlock(const jb_sandbox_paths *p, int32_t *abi_out)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, LL_VERSION);
    if (abi < 1) return abi < 0 ? errno : ENOSYS;
    *abi_out = (int32_t)abi;
    ll_ruleset rules = { .fs = LL_FS_1 };
    size_t size = sizeof rules.fs;
    if (abi >= 2) rules.fs |= LL_FS_2;
    if (abi >= 3) rules.fs |= LL_FS_3;
    if (abi >= 4) rules.net = LL_NET_4, size = 2 * sizeof rules.fs;
    if (abi >= 5) rules.fs |= LL_FS_5;
    if (abi >= 6) rules.scoped = LL_SCOPE_6, size = sizeof rules;
    int fd = (int)syscall(SYS_landlock_create_ruleset, &rules, size, 0);
    if (fd < 0) return errno;
    for (size_t i = 0; i < p->count; i++) allow(fd, p->paths[i], LL_READ_FILE | LL_READ_DIR);
    allow(fd, "/dev/null", LL_READ_FILE | LL_WRITE_FILE);
    allow(fd, "/dev/zero", LL_READ_FILE);
    allow(fd, "/dev/urandom", LL_READ_FILE);
    allow(fd, "/tmp", rules.fs & ~LL_EXECUTE & ~LL_FS_5);
    int error = syscall(SYS_landlock_restrict_self, fd, 0) == 0 ? 0 : errno;
    close(fd);
    return error;
}

/* ---- rlimits ----------------------------------------------------------- */

static int limit(int which, int64_t value)
{
    if (value <= 0) return 0;
    struct rlimit now, want = { .rlim_cur = (rlim_t)value, .rlim_max = (rlim_t)value };
    if (getrlimit((__rlimit_resource_t)which, &now) == 0 && now.rlim_max != RLIM_INFINITY && want.rlim_max > now.rlim_max)
        want.rlim_cur = want.rlim_max = now.rlim_max; /* tighter already */
    return setrlimit((__rlimit_resource_t)which, &want) == 0 ? 0 : errno;
}

#if defined(__SANITIZE_ADDRESS__)
#define JB_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define JB_ASAN 1
#endif
#endif
#ifndef JB_ASAN
#define JB_ASAN 0
#endif

int jb_filter_rlimits(const jb_limits *l)
{
    const struct { int which; int64_t value; } rows[] = {
        /* AddressSanitizer maps terabytes of shadow: no address-space limit there. */
        { RLIMIT_AS, JB_ASAN ? 0 : l->as_bytes },
        { RLIMIT_DATA, JB_ASAN ? 0 : l->data_bytes },
        { RLIMIT_CPU, l->cpu_s },
        { RLIMIT_NPROC, l->processes },
        { RLIMIT_NOFILE, l->files },
        { RLIMIT_FSIZE, l->file_bytes },
    };
    struct rlimit no_core = { 0, 0 };
    int error = setrlimit(RLIMIT_CORE, &no_core) == 0 ? 0 : errno;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int rc = limit(rows[i].which, rows[i].value);
        if (error == 0) error = rc;
    }
    return error;
}

/* ---- seccomp ----------------------------------------------------------- */

/* Refused with EPERM wherever a module of Python, numpy or XLA might try it. */
static const char *const DENIED[] = {
    /* other processes */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "kcmp", "pidfd_getfd", "pidfd_open", "pidfd_send_signal",
    /* the network; descriptor 3 exists already and needs only read and write */
    "socket", "socketpair", "connect", "bind", "listen", "accept", "accept4", "sendmsg", "sendmmsg", "recvmsg", "recvmmsg",
    /* memory outside the address space, which no rlimit counts */
    "memfd_create", "memfd_secret", "shmget", "msgget", "semget",
    /* programs */
    "execve", "execveat", "fork", "vfork", "setsid", "setpgid",
    /* mounts and namespaces */
    "mount", "umount", "umount2", "pivot_root", "chroot", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick",
    "mount_setattr", "unshare", "setns", "name_to_handle_at", "open_by_handle_at", "mknod", "mknodat",
    /* the kernel's large attack surfaces */
    "bpf", "keyctl", "add_key", "request_key", "io_uring_setup", "io_uring_enter", "io_uring_register", "userfaultfd",
    "perf_event_open", "fanotify_init", "seccomp", "personality", "modify_ldt", "lookup_dcookie", "vmsplice", "quotactl",
    /* the machine */
    "kexec_load", "kexec_file_load", "init_module", "finit_module", "delete_module", "reboot", "swapon", "swapoff", "acct", "syslog",
    "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "sethostname", "setdomainname", "iopl", "ioperm", "vhangup",
};

static int deny(scmp_filter_ctx ctx, const char *name, int error)
{
    int nr = seccomp_syscall_resolve_name(name);
    if (nr == __NR_SCMP_ERROR) return 0; /* unknown to this libseccomp */
    int rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO((uint32_t)error), nr, 0);
    return rc == -EDOM || rc == -EINVAL ? 0 : -rc; /* not on this architecture */
}

static int deny_arguments(scmp_filter_ctx ctx)
{
    static const uint64_t spaces[] = { CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWNET, CLONE_NEWIPC, CLONE_NEWUTS, CLONE_NEWCGROUP };
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < sizeof spaces / sizeof spaces[0]; i++)
        rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, spaces[i], spaces[i]));
    /* Threads may be made, processes not: a fork bomb is one failed call. */
    if (rc == 0) rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    /* What kills us when our keeper dies stays set. */
    if (rc == 0) rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_PDEATHSIG, 0));
    if (rc == 0) rc = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(prctl), 1, SCMP_A0(SCMP_CMP_EQ, PR_SET_DUMPABLE, 0));
    return -rc;
}

int jb_filter_seccomp(const jb_limits *l)
{
    (void)l; /* one filter for tracer and judge: neither needs any of it */
    scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (ctx == NULL) return ENOMEM;
    int error = 0;
    for (size_t i = 0; error == 0 && i < sizeof DENIED / sizeof DENIED[0]; i++) error = deny(ctx, DENIED[i], EPERM);
    /* ENOSYS makes glibc fall back to clone, whose flags a filter can read. */
    if (error == 0) error = deny(ctx, "clone3", ENOSYS);
    if (error == 0) error = deny_arguments(ctx);
    if (error == 0) error = -seccomp_load(ctx);
    seccomp_release(ctx);
    return error;
}
