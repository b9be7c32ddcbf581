/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/fs.c - files and folders.  Where the parts of this installation lie
 * is core/base/layout.c.
 *
 * A write is atomic: a reader of the name sees the old content or the whole new
 * one, also after a power cut (fsync of the file, rename, fsync of the folder). */
#include "core/base/fs.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE_DEPTH 200 /* one descriptor a level; deeper trees are refused */

static int io_error(jb_error *err, const char *what, const char *path, int number)
{
    int code = number == ENOENT ? JB_ENOTFOUND : number == ENOMEM ? JB_ENOMEM : JB_EIO;
    return jb_err(err, code, "can't %s %s: %s", what, path, strerror(number));
}

/* ---- names ------------------------------------------------------------ */

char *jb_fs_join(const char *a, const char *b)
{
    if (!a || !b) return NULL;
    if (!*a || *b == '/') return jb_strdup(b);
    size_t n = strlen(a);
    return jb_asprintf("%s%s%s", a, a[n - 1] == '/' ? "" : "/", b);
}

char *jb_fs_dirname(const char *path)
{
    if (!path) return NULL;
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n > 0 && path[n - 1] != '/') n--;
    if (n == 0) return jb_strdup(".");
    while (n > 1 && path[n - 1] == '/') n--;
    return jb_strndup(path, n);
}

int jb_fs_exists(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0;
}

int jb_fs_is_dir(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- whole files ------------------------------------------------------ */

/* What a name stands for that is no regular file. */
static const char *kind_of(mode_t mode)
{
    static const struct { mode_t type; const char *words; } KINDS[] = {
        { S_IFDIR, "a folder" }, { S_IFIFO, "a pipe" }, { S_IFCHR, "a device" }, { S_IFBLK, "a device" }, { S_IFSOCK, "a socket" },
    };
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++)
        if ((mode & S_IFMT) == KINDS[i].type) return KINDS[i].words;
    return "of an unknown kind";
}

int jb_fs_open(const char *path, int flags, jb_error *err)
{
    struct stat st;
    const char *verb = (flags & O_ACCMODE) == O_RDONLY ? "read" : "write";
    /* Without O_NONBLOCK a pipe that nobody writes to would be waited for here. */
    int fd = open(path, flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY, 0666), number = errno;
    int looked = fd >= 0 ? fstat(fd, &st) == 0 : stat(path, &st) == 0;
    if (fd >= 0 && !looked) number = errno;
    if (fd >= 0 && looked && S_ISREG(st.st_mode)) return fd;
    if (fd >= 0) close(fd);
    /* A folder and a pipe can't be opened for writing: say what it is, not ENXIO. */
    if (!looked || S_ISREG(st.st_mode)) {
        int rc = io_error(err, verb, path, number);
        errno = number;
        return rc;
    }
    jb_err(err, JB_EINVAL, "can't %s %s: it is %s, a regular file was expected", verb, path, kind_of(st.st_mode));
    if (!S_ISDIR(st.st_mode)) jb_err_hint(err, "write what it gives to a file first, and name that");
    errno = EINVAL;
    return JB_EINVAL;
}

static int too_big(jb_error *err, const char *path, size_t max)
{
    return jb_err(err, JB_EINVAL, "%s is larger than %zu bytes, the most that is read here", path, max);
}

int jb_fs_read(const char *path, size_t max_bytes, jb_buf *out, jb_error *err)
{
    struct stat st;
    int rc = 0;
    size_t total = 0;
    int fd = jb_fs_open(path, O_RDONLY, err);
    if (fd < 0) return fd;
    if (fstat(fd, &st)) {
        rc = io_error(err, "read", path, errno);
        goto done;
    }
    if ((uint64_t)st.st_size > max_bytes) {
        rc = too_big(err, path, max_bytes);
        goto done;
    }
    for (;;) {
        /* The size is a hint only: files in /proc say 0. */
        size_t want = (size_t)st.st_size > total ? (size_t)st.st_size - total : 4096;
        if (want > (1u << 20)) want = 1u << 20;
        if (want > max_bytes - total) want = max_bytes - total;
        char probe, *at = want ? jb_buf_reserve(out, want) : &probe;
        if (!at) {
            rc = out->status == JB_ENOMEM ? jb_err(err, JB_ENOMEM, "out of memory reading %s", path) : too_big(err, path, out->max);
            break;
        }
        ssize_t n = read(fd, at, want ? want : 1);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) {
            rc = io_error(err, "read", path, errno);
            break;
        }
        if (n == 0) break;
        if (!want) {
            rc = too_big(err, path, max_bytes);
            break;
        }
        jb_buf_commit(out, (size_t)n);
        total += (size_t)n;
    }
done:
    close(fd);
    return rc;
}

static int write_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = write(fd, data, len);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return errno;
        data += n;
        len -= (size_t)n;
    }
    return 0;
}

static void sync_folder(const char *path)
{
    /* Best effort: some file systems refuse fsync of a folder. */
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    close(fd);
}

void jb_fs_sync_parent(const char *path)
{
    char *folder = jb_fs_dirname(path);
    if (folder) sync_folder(folder);
    jb_free(folder);
}

int jb_fs_write_atomic(const char *path, const void *data, size_t len, jb_error *err)
{
    static atomic_uint serial;
    int rc = 0, fd = -1, number = 0;
    char *folder = jb_fs_dirname(path), *tmp = NULL;
    if (!folder) return jb_err(err, JB_ENOMEM, "out of memory writing %s", path);
    /* A name left by a process that died may exist: take the next one. */
    for (int tries = 0; tries < 100; tries++) {
        jb_free(tmp);
        tmp = jb_asprintf("%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1u));
        if (!tmp) {
            rc = jb_err(err, JB_ENOMEM, "out of memory writing %s", path);
            goto out;
        }
        fd = open(tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
        if (fd >= 0 || errno != EEXIST) break;
    }
    if (fd < 0) {
        rc = io_error(err, "write", path, errno);
        goto out;
    }
    number = write_all(fd, data, len);
    if (!number && fsync(fd)) number = errno;
    if (close(fd) && !number) number = errno;
    if (!number && rename(tmp, path)) number = errno;
    if (number) {
        unlink(tmp);
        rc = io_error(err, "write", path, number);
        goto out;
    }
    sync_folder(folder);
out:
    jb_free(tmp);
    jb_free(folder);
    return rc;
}

/* ---- folders ---------------------------------------------------------- */

int jb_fs_mkdirs(const char *path, jb_error *err)
{
    int rc = 0;
    if (!path || !*path) return jb_err(err, JB_EINVAL, "can't make a folder without a name");
    char *part = jb_strdup(path);
    if (!part) return jb_err(err, JB_ENOMEM, "out of memory making %s", path);
    for (char *p = part + 1;; p++) {
        if (*p && *p != '/') continue;
        char kept = *p;
        *p = '\0';
        if (mkdir(part, 0777) && errno != EEXIST) {
            int number = errno;
            /* A parent that exists may refuse mkdir otherwise (read-only file system). */
            if (!jb_fs_is_dir(part)) {
                rc = io_error(err, "make folder", part, number);
                break;
            }
        } else if (!jb_fs_is_dir(part)) {
            rc = jb_err(err, JB_EEXIST, "can't make folder %s: %s exists and is no folder", path, part);
            break;
        }
        *p = kept;
        if (!kept) break;
    }
    jb_free(part);
    return rc;
}

int jb_fs_private_dir(const char *path, jb_error *err)
{
    struct stat st;
    const char *fault = NULL;
    /* In a folder that everybody may write to, the name may be anybody's: look at it after, not before. */
    if (mkdir(path, 0700) && errno != EEXIST) return io_error(err, "make folder", path, errno);
    if (lstat(path, &st)) return io_error(err, "make folder", path, errno);
    if (S_ISLNK(st.st_mode)) fault = "is a link";
    else if (!S_ISDIR(st.st_mode)) fault = "is no folder";
    else if (st.st_uid != geteuid()) fault = "belongs to another user";
    else if (st.st_mode & 077) fault = "is open to other users (expected mode 0700)";
    return fault ? jb_err(err, JB_EPERM, "%s is not used: it %s", path, fault) : 0;
}

/* Descriptor of folder `name` in `at`, never through a link: callers have looked
 * at it before, and someone may have put a link there since. */
static int open_folder(int at, const char *name)
{
    return openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* Remove what folder fd (owned) holds.  0 or errno. */
static int empty_folder(int fd, int depth)
{
    int number = 0;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        number = errno;
        close(fd);
        return number;
    }
    for (const struct dirent *e; (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (unlinkat(dirfd(dir), e->d_name, 0) == 0 || errno == ENOENT) continue;
        int why = errno;
        if (why == EISDIR || why == EPERM) { /* Linux says EISDIR, POSIX EPERM */
            int child = depth > 0 ? open_folder(dirfd(dir), e->d_name) : -1;
            why = child >= 0 ? empty_folder(child, depth - 1) : depth > 0 ? errno : ELOOP;
            if (!why && unlinkat(dirfd(dir), e->d_name, AT_REMOVEDIR)) why = errno;
        }
        if (why && !number) number = why;
    }
    closedir(dir);
    return number;
}

int jb_fs_remove_tree(const char *path, jb_error *err)
{
    int number = 0;
    if (unlink(path) == 0 || errno == ENOENT) return 0;
    if (errno != EISDIR && errno != EPERM) return io_error(err, "remove", path, errno);
    int fd = open_folder(AT_FDCWD, path);
    if (fd < 0) return io_error(err, "remove", path, errno);
    number = empty_folder(fd, TREE_DEPTH);
    if (!number && rmdir(path)) number = errno;
    if (number == ELOOP)
        return jb_err(err, JB_EIO, "can't remove %s: its folders are nested more than %d deep", path, TREE_DEPTH);
    return number ? io_error(err, "remove", path, number) : 0;
}

static int64_t tree_bytes(int fd, int depth)
{
    int64_t sum = 0;
    DIR *dir = fdopendir(fd);
    if (!dir) {
        close(fd);
        return 0;
    }
    for (const struct dirent *e; (e = readdir(dir));) {
        struct stat st;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW)) continue;
        if (S_ISREG(st.st_mode)) sum += st.st_size;
        else if (S_ISDIR(st.st_mode) && depth > 0) {
            int child = open_folder(dirfd(dir), e->d_name);
            if (child >= 0) sum += tree_bytes(child, depth - 1);
        }
    }
    closedir(dir);
    return sum;
}

int64_t jb_fs_tree_bytes(const char *path)
{
    struct stat st;
    if (lstat(path, &st)) return 0;
    if (!S_ISDIR(st.st_mode)) return S_ISREG(st.st_mode) ? st.st_size : 0;
    int fd = open_folder(AT_FDCWD, path);
    return fd < 0 ? 0 : tree_bytes(fd, TREE_DEPTH);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

int64_t jb_fs_list(const char *path, char ***names_out)
{
    char **names = NULL;
    size_t count = 0, room = 0;
    DIR *dir = opendir(path);
    *names_out = NULL;
    if (!dir) return -1;
    for (const struct dirent *e; (e = readdir(dir));) {
        if (e->d_name[0] == '.') continue;
        if (count == room) {
            size_t more = room ? 2 * room : 16;
            char **grown = jb_realloc(names, more * sizeof *names);
            if (!grown) goto fail;
            names = grown;
            room = more;
        }
        if (!(names[count] = jb_strdup(e->d_name))) goto fail;
        count++;
    }
    closedir(dir);
    if (count) qsort(names, count, sizeof *names, by_name);
    *names_out = names;
    return (int64_t)count;
fail:
    closedir(dir);
    jb_fs_list_free(names, (int64_t)count);
    return -1;
}

void jb_fs_list_free(char **names, int64_t count)
{
    if (!names) return;
    for (int64_t i = 0; i < count; i++) jb_free(names[i]);
    jb_free(names);
}
