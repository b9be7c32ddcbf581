/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/lock.c - the lock of a run (journal.h): an flock that the kernel
 * releases with its process, and a line of text that says who took it. */
#include "core/engine/journal.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

static int io_error(jb_error *err, const char *what, const char *path)
{
    int e = errno;
    jb_err(err, JB_EIO, "%s %s: %s", what, path, strerror(e));
    if (e == EROFS || e == EACCES || e == EPERM) jb_err_hint(err, "the run folder must be writable");
    return JB_EIO;
}

struct jb_lock { int fd; };

int jb_lock_take(const char *path, jb_lock **out, jb_error *err)
{
    char who[160] = "", host[64] = "?";
    int fd = jb_fs_open(path, O_RDWR | O_CREAT, err);
    if (fd < 0) return fd == JB_EINVAL ? fd : io_error(err, "opening the lock", path);
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int e = errno;
        if (e == EWOULDBLOCK) {
            ssize_t n = pread(fd, who, sizeof who - 1, 0);
            for (ssize_t i = 0; i < n; i++)
                if (who[i] == '\n' || who[i] < 0x20) who[i] = 0;
            jb_err(err, JB_EPERM, "%s is held by another process (%s)", path, who[0] ? who : "unknown");
            jb_err_hint(err, "wait for it to end, or stop it, then try again");
            close(fd);
            return JB_EPERM;
        }
        close(fd);
        errno = e;
        return io_error(err, "locking", path);
    }
    jb_lock *l = jb_alloc(sizeof *l);
    if (!l) {
        close(fd);
        return jb_err(err, JB_ENOMEM, "lock %s: out of memory", path);
    }
    l->fd = fd;
    gethostname(host, sizeof host - 1);
    jb_buf b = JB_BUF_INIT(256);
    jb_buf_printf(&b, "pid %ld on %s\nstarted %llu\n", (long)getpid(), host, (unsigned long long)jb_lock_process_start(getpid()));
    /* For messages and for `stop`, which refuses without it: failing to write it harms nothing. */
    if (ftruncate(fd, 0) != 0 || (b.ptr && pwrite(fd, b.ptr, b.len, 0) < 0)) errno = 0;
    jb_buf_free(&b);
    *out = l;
    return 0;
}

void jb_lock_release(jb_lock *l)
{
    if (!l) return;
    close(l->fd);
    jb_free(l);
}

/* ---- looking ------------------------------------------------------------------------ */

uint64_t jb_lock_process_start(int64_t pid)
{
    char path[64];
    uint64_t started = 0;
    jb_buf text = JB_BUF_INIT(4096);
    snprintf(path, sizeof path, "/proc/%" PRId64 "/stat", pid);
    if (jb_fs_read(path, 4000, &text, NULL) == 0 && text.ptr) {
        const char *s = strrchr(text.ptr, ')'); /* the name in brackets may hold anything */
        for (int field = 2; s && field < 22; field++) s = strchr(s + 1, ' ');
        if (s) started = strtoull(s + 1, NULL, 10);
    }
    jb_buf_free(&text);
    return started;
}

int jb_lock_look(const char *path, jb_lock_holder *out, jb_error *err)
{
    char text[200] = "";
    *out = (jb_lock_holder){ 0 };
    int fd = jb_fs_open(path, O_RDONLY, err);
    if (fd == JB_ENOTFOUND) return jb_err(err, JB_ENOTFOUND, "no lock %s: nothing ever ran here", path);
    if (fd < 0) return fd == JB_EINVAL ? fd : io_error(err, "opening the lock", path);
    out->held = flock(fd, LOCK_SH | LOCK_NB) != 0;
    ssize_t n = pread(fd, text, sizeof text - 1, 0);
    close(fd);
    if (n > 0) text[n] = 0;
    if (sscanf(text, "pid %" SCNd64 " on %63s started %" SCNu64, &out->pid, out->host, &out->started) < 1) out->pid = 0;
    return 0;
}
