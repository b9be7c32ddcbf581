/* SPDX-License-Identifier: Apache-2.0 */
/* harness/sandbox.c - namespaces, the private root and the change of uid; the
 * filters of the last step are in filter.c.  See sandbox.h. */
#include "harness/sandbox.h"

#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MAX_PATH 4096

/* Debian 12's headers know these, older ones don't. */
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#define JB_ATTR_RDONLY 0x00000001ull
#define JB_ATTR_NOSUID 0x00000002ull
#define JB_ATTR_NODEV 0x00000004ull
#define JB_AT_RECURSIVE 0x8000
typedef struct jb_mount_attr { uint64_t attr_set, attr_clr, propagation, userns_fd; } jb_mount_attr;

static const struct { const char *name; int needed; } LAYER[] = {
#define X(id, text, need) { text, need },
    JB_LAYERS(X)
#undef X
};

/* Namespaces asked for, beside the user namespace. */
static const struct { int flag; jb_layer layer; } SPACES[] = {
    { CLONE_NEWNS, JB_LAYER_MOUNT_NS }, { CLONE_NEWPID, JB_LAYER_PID_NS }, { CLONE_NEWNET, JB_LAYER_NET_NS },
    { CLONE_NEWIPC, JB_LAYER_IPC_NS },  { CLONE_NEWUTS, JB_LAYER_UTS_NS },
};

/* What every process here links against.  libtpu's allocator aborts when it can't
 * count the CPUs, and YNNPACK (XLA CPU's reductions) finds no kernel without
 * cpuinfo.  There is no other /proc: its mount table would name our folders. */
static const char *const SYSTEM_PATHS[] = { "/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache",
                                            "/sys/devices/system/cpu", "/proc/cpuinfo" };
static const char *const DEVICES[] = { "/dev/null", "/dev/zero", "/dev/urandom" };

static void note(jb_isolation *iso, jb_layer layer, int error)
{
    iso->state[layer] = error == 0 ? JB_LAYER_ACTIVE : JB_LAYER_MISSING;
    iso->error[layer] = error;
}

/* ---- paths ------------------------------------------------------------- */

static int lies_in(const char *path, const char *dir)
{
    size_t n = strlen(dir);
    return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

static int add_path(jb_sandbox_paths *p, const char *path)
{
    char real[PATH_MAX];
    if (path == NULL || path[0] != '/' || path[1] == '\0' || strlen(path) >= MAX_PATH || realpath(path, real) == NULL) return 0;
    for (size_t i = 0; i < p->count; i++)
        if (lies_in(path, p->paths[i])) return 0;
    char **paths = jb_realloc(p->paths, (p->count + 1) * sizeof *paths);
    if (paths != NULL) p->paths = paths;
    char **sources = jb_realloc(p->sources, (p->count + 1) * sizeof *sources);
    if (sources != NULL) p->sources = sources;
    if (paths == NULL || sources == NULL) return JB_ENOMEM;
    paths[p->count] = jb_strdup(path);
    sources[p->count] = jb_strdup(real);
    p->count++;
    return paths[p->count - 1] != NULL && sources[p->count - 1] != NULL ? 0 : JB_ENOMEM;
}

static int by_length(const void *a, const void *b)
{
    size_t x = strlen(*(const char *const *)a), y = strlen(*(const char *const *)b);
    return x < y ? -1 : x > y;
}

int jb_sandbox_paths_init(jb_sandbox_paths *out, const char *const *extra, size_t count)
{
    size_t system = sizeof SYSTEM_PATHS / sizeof SYSTEM_PATHS[0];
    memset(out, 0, sizeof *out);
    const char **all = jb_alloc_array(system + count + 1, sizeof *all);
    if (all == NULL) return JB_ENOMEM;
    for (size_t i = 0; i < system; i++) all[i] = SYSTEM_PATHS[i];
    for (size_t i = 0; i < count; i++) all[system + i] = extra[i] != NULL ? extra[i] : "";
    /* Shorter first, so that a folder is there before what lies in it. */
    qsort(all, system + count, sizeof *all, by_length);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < system + count; i++) rc = add_path(out, all[i]);
    jb_free(all);
    if (rc != 0) jb_sandbox_paths_free(out);
    return rc;
}

void jb_sandbox_paths_free(jb_sandbox_paths *p)
{
    for (size_t i = 0; i < p->count; i++) {
        jb_free(p->paths[i]);
        jb_free(p->sources[i]);
    }
    jb_free(p->sources);
    jb_free(p->paths);
    memset(p, 0, sizeof *p);
}

int jb_sandbox_allows(const jb_sandbox_paths *p, const char *path)
{
    if (lies_in(path, "/tmp")) return 1;
    for (size_t i = 0; i < sizeof DEVICES / sizeof DEVICES[0]; i++)
        if (strcmp(path, DEVICES[i]) == 0) return 1;
    for (size_t i = 0; i < p->count; i++)
        if (lies_in(path, p->paths[i])) return 1;
    return 0;
}

/* ---- step 1: namespaces ------------------------------------------------ */

static int write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    ssize_t n = write(fd, text, strlen(text));
    int error = n == (ssize_t)strlen(text) ? 0 : errno;
    close(fd);
    return error;
}

/* As an ordinary user the user namespace comes first: it gives the rights to
 * make the others.  Inside we are uid 1000, outside what we were. */
static int enter_user_ns(void)
{
    char map[64];
    unsigned uid = (unsigned)geteuid(), gid = (unsigned)getegid();
    if (unshare(CLONE_NEWUSER) != 0) return errno;
    (void)write_file("/proc/self/setgroups", "deny");
    snprintf(map, sizeof map, "1000 %u 1", uid);
    int error = write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "1000 %u 1", gid);
    int error2 = write_file("/proc/self/gid_map", map);
    return error != 0 ? error : error2;
}

void jb_sandbox_unshare(const jb_limits *l, jb_isolation *iso)
{
    note(iso, JB_LAYER_OOM, write_file("/proc/self/oom_score_adj", "1000"));
    if (l->profile == JB_PROFILE_TRUSTED) return;
    if (geteuid() != 0) note(iso, JB_LAYER_USER_NS, enter_user_ns());
    for (size_t i = 0; i < sizeof SPACES / sizeof SPACES[0]; i++)
        note(iso, SPACES[i].layer, unshare(SPACES[i].flag) == 0 ? 0 : errno);
}

/* ---- step 2: the root -------------------------------------------------- */

/* mkdir -p of the folders above `path`, mode 0755 until seal(). */
static int make_parents(const char *path)
{
    char buf[2 * MAX_PATH];
    if (snprintf(buf, sizeof buf, "%s", path) >= (int)sizeof buf) return ENAMETOOLONG;
    for (char *s = strchr(buf + 1, '/'); s != NULL; s = strchr(s + 1, '/')) {
        *s = '\0';
        if (mkdir(buf, 0755) != 0 && errno != EEXIST) return errno;
        *s = '/';
    }
    return 0;
}

/* Read-only, nosuid, nodev for a bind mount and all below it.  Without
 * mount_setattr (before Linux 5.12) the top mount only, keeping locked flags. */
static int make_readonly(const char *path)
{
    jb_mount_attr attr = { .attr_set = JB_ATTR_RDONLY | JB_ATTR_NOSUID | JB_ATTR_NODEV };
    if (syscall(SYS_mount_setattr, AT_FDCWD, path, JB_AT_RECURSIVE, &attr, sizeof attr) == 0) return 0;
    if (errno != ENOSYS) return errno;
    struct statvfs vfs;
    unsigned long flags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    if (statvfs(path, &vfs) == 0) {
        if (vfs.f_flag & ST_NOEXEC) flags |= MS_NOEXEC;
        if (vfs.f_flag & ST_NOATIME) flags |= MS_NOATIME;
        if (vfs.f_flag & ST_RELATIME) flags |= MS_RELATIME;
    }
    return mount(NULL, path, NULL, flags, NULL) == 0 ? 0 : errno;
}

static int bind_path(const char *source, const char *path, int readonly)
{
    char from[MAX_PATH + 16], to[MAX_PATH + 16];
    struct stat st;
    snprintf(from, sizeof from, "/old%s", source);
    snprintf(to, sizeof to, "/new%s", path);
    if (lstat(from, &st) != 0) return errno == ENOENT ? 0 : errno;
    int error = make_parents(to);
    if (error != 0) return error;
    if (S_ISDIR(st.st_mode)) {
        if (mkdir(to, 0755) != 0 && errno != EEXIST) return errno;
    } else {
        int fd = open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        if (fd < 0) return errno;
        close(fd);
    }
    if (mount(from, to, NULL, MS_BIND | MS_REC, NULL) != 0) return errno;
    return readonly ? make_readonly(to) : 0;
}

/* Folders that exist only to hold a bind mount can be passed, not listed: what
 * lies beside the venv on this machine is nobody's business. */
static void seal(const char *path)
{
    char buf[MAX_PATH + 16];
    snprintf(buf, sizeof buf, "/new%s", path);
    for (char *s = strrchr(buf + 1, '/'); s != NULL; s = strrchr(buf + 1, '/')) {
        *s = '\0';
        if (strcmp(buf, "/new/tmp") != 0) (void)chmod(buf, 0111);
    }
}

static int pivot(const char *new_root, const char *put_old)
{
    return syscall(SYS_pivot_root, new_root, put_old) == 0 ? 0 : errno;
}

static int make_tmp(const jb_limits *l)
{
    char options[96];
    long long size = l->tmp_bytes > 0 ? (long long)l->tmp_bytes : 64ll << 20;
    snprintf(options, sizeof options, "size=%lld,nr_inodes=4096,mode=1777", size);
    if (mkdir("/new/tmp", 0755) != 0 && errno != EEXIST) return errno;
    return mount("tmpfs", "/new/tmp", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, options) == 0 ? 0 : errno;
}

/* Two pivots: the first puts an empty tmpfs under us with the old tree beside
 * it, so that a path below /tmp can be bound as well as any other; the second
 * leaves nothing but the new tree. */
static int build_root(const jb_limits *l, const jb_sandbox_paths *p)
{
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) return errno;
    if (mount("tmpfs", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755") != 0) return errno;
    if (mkdir("/tmp/new", 0755) != 0 || mkdir("/tmp/old", 0755) != 0) return errno;
    if (mount("/tmp/new", "/tmp/new", NULL, MS_BIND, NULL) != 0) return errno;
    int error = pivot("/tmp", "/tmp/old");
    if (error != 0) return error;
    if (chdir("/") != 0) return errno;
    error = make_tmp(l); /* first: a path to bind may lie below it */
    for (size_t i = 0; error == 0 && i < p->count; i++) error = bind_path(p->sources[i], p->paths[i], 1);
    for (size_t i = 0; error == 0 && i < sizeof DEVICES / sizeof DEVICES[0]; i++) error = bind_path(DEVICES[i], DEVICES[i], 0);
    if (error != 0) return error;
    for (size_t i = 0; i < p->count; i++) seal(p->paths[i]);
    (void)chmod("/new", 0555); /* libtpu refuses to start unless it may read "/" */
    if (umount2("/old", MNT_DETACH) != 0 || chdir("/new") != 0) return errno;
    error = pivot(".", ".");
    if (error != 0) return error;
    if (umount2(".", MNT_DETACH) != 0 || chdir("/tmp") != 0) return errno;
    if (mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV, NULL) != 0) return errno;
    return 0;
}

/* From real root to a uid that owns nothing; its bounding set goes first, which
 * only a privileged process may empty. */
static int become(uid_t uid)
{
    for (int cap = 0; cap < 64; cap++) (void)prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
    if (setgroups(0, NULL) != 0) return errno;
    if (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0) return errno;
    return geteuid() == uid && getuid() == uid ? 0 : EPERM;
}

void jb_sandbox_root(const jb_limits *l, const jb_sandbox_paths *p, jb_isolation *iso)
{
    if (l->profile == JB_PROFILE_TRUSTED) return;
    int mounts = iso->state[JB_LAYER_MOUNT_NS] == JB_LAYER_ACTIVE;
    note(iso, JB_LAYER_ROOT, mounts ? build_root(l, p) : iso->error[JB_LAYER_MOUNT_NS]);
    if (geteuid() == 0)
        note(iso, JB_LAYER_UID, become((uid_t)l->uid));
    else
        note(iso, JB_LAYER_UID, 0); /* an ordinary user already */
}

/* ---- step 3: the last doors -------------------------------------------- */

void jb_sandbox_close(const jb_limits *l, const jb_sandbox_paths *p, jb_isolation *iso)
{
    if (l->profile == JB_PROFILE_TRUSTED) {
        note(iso, JB_LAYER_RLIMITS, jb_filter_rlimits(l));
        return;
    }
    /* After real root: a user namespace as well, with nothing mapped, so that
     * NPROC is counted per sandbox and no file of the host has a known owner. */
    if (iso->state[JB_LAYER_USER_NS] == JB_LAYER_UNTRIED) note(iso, JB_LAYER_USER_NS, unshare(CLONE_NEWUSER) == 0 ? 0 : errno);
    note(iso, JB_LAYER_CAPS, jb_filter_caps());
    note(iso, JB_LAYER_NNP, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ? 0 : errno);
    int error = jb_filter_landlock(p, &iso->landlock_abi);
    note(iso, JB_LAYER_LANDLOCK, error);
    note(iso, JB_LAYER_RLIMITS, jb_filter_rlimits(l));
    /* Changes of credentials clear it, and the filter forbids it: now or never. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    note(iso, JB_LAYER_SECCOMP, jb_filter_seccomp(l));
}

/* ---- the record -------------------------------------------------------- */

const char *jb_isolation_missing(const jb_isolation *iso)
{
    for (int i = 0; i < JB_LAYER_COUNT; i++)
        if (LAYER[i].needed && iso->state[i] != JB_LAYER_ACTIVE) return LAYER[i].name;
    return NULL;
}

cJSON *jb_isolation_json(const jb_isolation *iso)
{
    cJSON *o = cJSON_CreateObject(), *errors = NULL;
    if (o == NULL) return NULL;
    for (int i = 0; i < JB_LAYER_COUNT; i++) {
        jb_json_set_bool(o, LAYER[i].name, iso->state[i] == JB_LAYER_ACTIVE);
        if (iso->state[i] != JB_LAYER_MISSING) continue;
        if (errors == NULL) errors = cJSON_CreateObject();
        jb_json_set_str(errors, LAYER[i].name, strerror(iso->error[i]));
    }
    jb_json_set_i64(o, "landlock_abi", iso->landlock_abi);
    if (errors != NULL) cJSON_AddItemToObject(o, "errors", errors);
    return o;
}
