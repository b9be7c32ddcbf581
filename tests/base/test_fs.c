/* SPDX-License-Identifier: Apache-2.0 */
/* Files and folders: caps, atomic replacement, links that must not be followed,
 * and what happens on a full disk (/dev/full) or without memory. */
#include "tests/base/harness.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void put(const char *dir, const char *name, const char *text)
{
    jb_error err = JB_ERROR_INIT;
    char *path = jb_fs_join(dir, name);
    ck_assert_msg(jb_fs_write_atomic(path, text, strlen(text), &err) == 0, "%s", err.message);
    jb_free(path);
}

START_TEST(joining_and_parents)
{
    static const struct { const char *a, *b, *want; } joins[] = {
        { "a", "b", "a/b" }, { "a/", "b", "a/b" }, { "/", "b", "/b" }, { "", "b", "b" }, { "a", "/b", "/b" }, { "a/b", "c/d", "a/b/c/d" }, { "a", "", "a/" },
    };
    for (size_t i = 0; i < sizeof joins / sizeof joins[0]; i++) {
        char *got = jb_fs_join(joins[i].a, joins[i].b);
        ck_assert_str_eq(got, joins[i].want);
        jb_free(got);
    }
    static const struct { const char *path, *want; } dirs[] = {
        { "a/b", "a" }, { "a", "." }, { "/a", "/" }, { "/", "/" }, { "a/b/", "a" }, { "//a", "/" }, { "a//b", "a" }, { "", "." }, { "/a/b/c", "/a/b" },
    };
    for (size_t i = 0; i < sizeof dirs / sizeof dirs[0]; i++) {
        char *got = jb_fs_dirname(dirs[i].path);
        ck_assert_msg(!strcmp(got, dirs[i].want), "dirname(%s) is %s, expected %s", dirs[i].path, got, dirs[i].want);
        jb_free(got);
    }
    ck_assert_ptr_null(jb_fs_join(NULL, "a"));
    ck_assert_ptr_null(jb_fs_dirname(NULL));
    ck_assert_int_eq(jb_fs_exists(NULL), 0);
}
END_TEST

START_TEST(reads_whole_files_up_to_the_cap)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "f");
    jb_error err = JB_ERROR_INIT;
    static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 100000 };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t n = sizes[i];
        char *data = jb_alloc(n + 1);
        for (size_t k = 0; k < n; k++) data[k] = (char)(k * 7);
        ck_assert_int_eq(jb_fs_write_atomic(path, data, n, &err), 0);
        jb_buf b = JB_BUF_INIT(n);
        ck_assert_int_eq(jb_fs_read(path, n, &b, &err), 0);
        ck_assert_uint_eq(b.len, n);
        if (n) ck_assert_mem_eq(b.ptr, data, n);
        jb_buf_free(&b);
        if (n) {
            ck_assert_int_eq(jb_fs_read(path, n - 1, &b, &err), JB_EINVAL);
            ck_assert_uint_eq(b.len, 0);
            ck_assert_ptr_nonnull(strstr(err.message, "larger than"));
            jb_buf small = JB_BUF_INIT(n - 1);
            ck_assert_int_eq(jb_fs_read(path, n, &small, &err), JB_EINVAL);
            jb_buf_free(&small);
        }
        jb_buf_free(&b);
        jb_free(data);
    }
    jb_buf b = JB_BUF_INIT(1000);
    ck_assert_int_eq(jb_fs_read(dir, 1000, &b, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "folder"));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(jb_fs_read(path, 1000, &b, &err), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(err.message, path));
    /* files whose size is unknown: a cap still holds */
    ck_assert_int_eq(jb_fs_read("/proc/self/status", 1000000, &(jb_buf)JB_BUF_INIT(10), &err), JB_EINVAL);
    ck_assert_int_eq(jb_fs_read("/dev/zero", 500, &b, &err), JB_EINVAL);
    jb_buf_free(&b);
    ck_assert_int_eq(jb_fs_read("/proc/self/stat", 1000, &b, &err), 0);
    ck_assert_uint_gt(b.len, 10);
    jb_buf_free(&b);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

/* Nothing here may wait: not for a writer, a reader or a device. */
START_TEST(what_is_no_regular_file_is_refused_at_once)
{
    char *dir = new_folder(), *fifo = jb_fs_join(dir, "fifo"), *link = jb_fs_join(dir, "link");
    ck_assert_int_eq(mkfifo(fifo, 0600), 0);
    ck_assert_int_eq(symlink(fifo, link), 0);
    const struct { const char *path, *words; } KINDS[] = { { fifo, "it is a pipe" }, { link, "it is a pipe" }, { dir, "it is a folder" }, { "/dev/zero", "it is a device" } };
    static const int FLAGS[] = { O_RDONLY, O_WRONLY | O_APPEND, O_RDWR | O_CREAT };
    for (size_t i = 0; i < sizeof KINDS / sizeof KINDS[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        jb_buf b = JB_BUF_INIT(100);
        ck_assert_int_eq(jb_fs_read(KINDS[i].path, 100, &b, &err), JB_EINVAL);
        ck_assert_msg(strstr(err.message, KINDS[i].words) && strstr(err.message, KINDS[i].path), "%s: %s", KINDS[i].path, err.message);
        jb_buf_free(&b);
        for (size_t k = 0; k < sizeof FLAGS / sizeof FLAGS[0]; k++) {
            int fd = jb_fs_open(KINDS[i].path, FLAGS[k], &err);
            ck_assert_msg(fd == JB_EINVAL, "%s, flags %d: %d %s", KINDS[i].path, FLAGS[k], fd, err.message);
        }
    }
    jb_error err = JB_ERROR_INIT;
    char *fresh = jb_fs_join(dir, "fresh");
    ck_assert_int_eq(jb_fs_open(fresh, O_RDONLY, &err), JB_ENOTFOUND);
    int fd = jb_fs_open(fresh, O_WRONLY | O_CREAT, &err);
    ck_assert_msg(fd >= 0, "%s", err.message);
    ck_assert_int_eq(write(fd, "x", 1), 1);
    close(fd);
    jb_free(fresh);
    jb_free(fifo);
    jb_free(link);
    drop_folder(dir);
}
END_TEST

START_TEST(a_private_folder_is_ours_alone)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "own"), *link = jb_fs_join(dir, "link"), *file = jb_fs_join(dir, "file");
    jb_error err = JB_ERROR_INIT;
    struct stat st;
    mode_t was = umask(0);
    ck_assert_msg(jb_fs_private_dir(path, &err) == 0, "%s", err.message);
    umask(was);
    ck_assert_int_eq(lstat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0700);
    ck_assert_int_eq(jb_fs_private_dir(path, &err), 0); /* there already */
    ck_assert_int_eq(chmod(path, 0750), 0);
    ck_assert_int_eq(jb_fs_private_dir(path, &err), JB_EPERM);
    ck_assert_ptr_nonnull(strstr(err.message, "open to other users"));
    ck_assert_int_eq(chmod(path, 0700), 0);
    ck_assert_int_eq(symlink(path, link), 0);
    ck_assert_int_eq(jb_fs_private_dir(link, &err), JB_EPERM);
    ck_assert_ptr_nonnull(strstr(err.message, "is a link"));
    put(dir, "file", "x");
    ck_assert_int_eq(jb_fs_private_dir(file, &err), JB_EPERM);
    ck_assert_ptr_nonnull(strstr(err.message, "is no folder"));
    if (geteuid() == 0) { /* only root can make somebody else's */
        ck_assert_int_eq(chown(path, 12345, 12345), 0);
        ck_assert_int_eq(jb_fs_private_dir(path, &err), JB_EPERM);
        ck_assert_ptr_nonnull(strstr(err.message, "belongs to another user"));
    }
    jb_free(path);
    jb_free(link);
    jb_free(file);
    drop_folder(dir);
}
END_TEST

START_TEST(reading_appends)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "f");
    jb_error err = JB_ERROR_INIT;
    put(dir, "f", "world");
    jb_buf b = JB_BUF_INIT(100);
    jb_buf_puts(&b, "hello ");
    ck_assert_int_eq(jb_fs_read(path, 5, &b, &err), 0);
    ck_assert_str_eq(b.ptr, "hello world");
    jb_buf_free(&b);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

START_TEST(writes_replace_and_leave_nothing_behind)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "f"), **names = NULL;
    jb_error err = JB_ERROR_INIT;
    put(dir, "f", "old");
    ck_assert_int_eq(chmod(path, 0600), 0);
    put(dir, "f", "new");
    jb_buf b = JB_BUF_INIT(100);
    jb_fs_read(path, 100, &b, &err);
    ck_assert_str_eq(b.ptr, "new");
    jb_buf_free(&b);
    struct stat st;
    mode_t mask = umask(0);
    umask(mask);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0666 & ~mask);
    /* a target that can't be replaced */
    char *folder = jb_fs_join(dir, "d");
    ck_assert_int_eq(jb_fs_mkdirs(folder, &err), 0);
    ck_assert_int_eq(jb_fs_write_atomic(folder, "x", 1, &err), JB_EIO);
    ck_assert_int_eq(jb_fs_write_atomic("/proc/no/such/file", "x", 1, &err), JB_ENOTFOUND);
    ck_assert_int_eq(jb_fs_list(dir, &names), 2); /* no temporary file is left */
    jb_fs_list_free(names, 2);
    /* a link is replaced, not written through */
    char *link = jb_fs_join(dir, "link");
    ck_assert_int_eq(symlink(path, link), 0);
    put(dir, "link", "other");
    ck_assert_int_eq(lstat(link, &st), 0);
    ck_assert(S_ISREG(st.st_mode));
    jb_fs_read(path, 100, &b, &err);
    ck_assert_str_eq(b.ptr, "new");
    jb_buf_free(&b);
    jb_free(link);
    jb_free(folder);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

START_TEST(concurrent_writers_leave_one_whole_content)
{
    enum { WRITERS = 4, SIZE = 50000 };
    char *dir = new_folder(), *path = jb_fs_join(dir, "f"), *data = jb_alloc(SIZE);
    for (int w = 0; w < WRITERS; w++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            memset(data, 'a' + w, SIZE);
            int bad = 0;
            for (int i = 0; i < 10; i++) bad |= jb_fs_write_atomic(path, data, SIZE, NULL);
            _exit(bad != 0);
        }
    }
    for (int w = 0; w < WRITERS; w++) {
        int status = -1;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    jb_buf b = JB_BUF_INIT(SIZE + 1);
    ck_assert_int_eq(jb_fs_read(path, SIZE + 1, &b, NULL), 0);
    ck_assert_uint_eq(b.len, SIZE);
    ck_assert_mem_eq(b.ptr, b.ptr + 1, SIZE - 1); /* all of one writer */
    jb_buf_free(&b);
    jb_free(data);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

START_TEST(folders_are_made_with_parents)
{
    char *dir = new_folder(), *deep = jb_fs_join(dir, "a/b//c/"), *file = jb_fs_join(dir, "f"), *below = jb_fs_join(dir, "f/g");
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_fs_mkdirs(deep, &err), 0);
    ck_assert_int_eq(jb_fs_mkdirs(deep, &err), 0);
    ck_assert_int_eq(jb_fs_is_dir(deep), 1);
    put(dir, "f", "");
    ck_assert_int_eq(jb_fs_is_dir(file), 0);
    ck_assert_int_eq(jb_fs_exists(file), 1);
    ck_assert_int_eq(jb_fs_mkdirs(below, &err), JB_EEXIST);
    ck_assert_int_eq(jb_fs_mkdirs(file, &err), JB_EEXIST);
    ck_assert_int_eq(jb_fs_mkdirs("", &err), JB_EINVAL);
    ck_assert_int_eq(jb_fs_mkdirs("/", &err), 0);
    ck_assert_int_lt(jb_fs_mkdirs("/proc/jaxbench/x", &err), 0);
    jb_free(deep);
    jb_free(file);
    jb_free(below);
    drop_folder(dir);
}
END_TEST

START_TEST(listing_is_sorted_and_skips_dot_files)
{
    char *dir = new_folder(), **names = NULL;
    static const char *const made[] = { "b", "a10", ".hidden", "a2", "B" }, *const want[] = { "B", "a10", "a2", "b" };
    for (size_t i = 0; i < 5; i++) put(dir, made[i], "");
    ck_assert_int_eq(jb_fs_list(dir, &names), 4);
    for (size_t i = 0; i < 4; i++) ck_assert_str_eq(names[i], want[i]);
    jb_fs_list_free(names, 4);
    ck_assert_int_eq(jb_fs_list("/no/such/folder", &names), -1);
    ck_assert_ptr_null(names);
    drop_folder(dir);
}
END_TEST

START_TEST(removal_and_size_do_not_follow_links)
{
    char *outside = new_folder(), *dir = new_folder(), *sub = jb_fs_join(dir, "a/b"), *link = jb_fs_join(dir, "a/link"), *flink = jb_fs_join(dir, "a/flink");
    char *precious = jb_fs_join(outside, "precious");
    jb_error err = JB_ERROR_INIT;
    put(outside, "precious", "0123456789");
    ck_assert_int_eq(jb_fs_mkdirs(sub, &err), 0);
    put(sub, "f", "12345");
    put(dir, ".dot", "123");
    ck_assert_int_eq(symlink(outside, link), 0);
    ck_assert_int_eq(symlink(precious, flink), 0);
    ck_assert_int_eq(jb_fs_tree_bytes(dir), 8);
    ck_assert_int_eq(jb_fs_tree_bytes(precious), 10);
    ck_assert_int_eq(jb_fs_tree_bytes("/no/such"), 0);
    ck_assert_int_eq(jb_fs_remove_tree(link, &err), 0); /* the link itself */
    ck_assert_int_eq(symlink(outside, link), 0);
    ck_assert_int_eq(jb_fs_remove_tree(dir, &err), 0);
    ck_assert_int_eq(jb_fs_exists(dir), 0);
    ck_assert_int_eq(jb_fs_exists(precious), 1);
    ck_assert_int_eq(jb_fs_remove_tree(dir, &err), 0); /* nothing there is fine */
    jb_free(sub);
    jb_free(link);
    jb_free(flink);
    jb_free(precious);
    jb_free(dir);
    drop_folder(outside);
}
END_TEST

START_TEST(trees_too_deep_are_refused_not_overflowed)
{
    char *dir = new_folder();
    jb_error err = JB_ERROR_INIT;
    int at = open(dir, O_RDONLY | O_DIRECTORY);
    for (int i = 0; i < 300; i++) {
        ck_assert_int_eq(mkdirat(at, "d", 0700), 0);
        int next = openat(at, "d", O_RDONLY | O_DIRECTORY);
        ck_assert_int_ge(next, 0);
        close(at);
        at = next;
    }
    close(at);
    ck_assert_int_eq(jb_fs_remove_tree(dir, &err), JB_EIO);
    ck_assert_ptr_nonnull(strstr(err.message, "nested"));
    ck_assert_int_eq(jb_fs_tree_bytes(dir), 0);
    /* take the upper half away, then the rest is shallow enough */
    char *path = jb_strdup(dir);
    for (int i = 0; i < 150; i++) {
        char *longer = jb_asprintf("%s/d", path);
        jb_free(path);
        path = longer;
    }
    ck_assert_int_eq(jb_fs_remove_tree(path, &err), 0);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

static int use_everything(const char *dir)
{
    jb_error err = JB_ERROR_INIT;
    jb_buf b = JB_BUF_INIT(1000);
    char *path = jb_fs_join(dir, "x"), *sub = jb_fs_join(dir, "s/t"), **names = NULL;
    int status = path && sub ? 0 : JB_ENOMEM;
    if (!status) status = jb_fs_write_atomic(path, "hello", 5, &err);
    if (!status) status = jb_fs_mkdirs(sub, &err);
    if (!status) status = jb_fs_read(path, 100, &b, &err);
    int64_t n = status ? 0 : jb_fs_list(dir, &names);
    if (n < 0) status = JB_ENOMEM;
    else jb_fs_list_free(names, n);
    jb_buf_free(&b);
    jb_free(path);
    jb_free(sub);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    char *dir = new_folder();
    SWEEP(use_everything(dir));
    drop_folder(dir);
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { joining_and_parents, reads_whole_files_up_to_the_cap, what_is_no_regular_file_is_refused_at_once, a_private_folder_is_ours_alone, reading_appends, writes_replace_and_leave_nothing_behind,
                                   concurrent_writers_leave_one_whole_content, folders_are_made_with_parents, listing_is_sorted_and_skips_dot_files,
                                   removal_and_size_do_not_follow_links, trees_too_deep_are_refused_not_overflowed, every_allocation_may_fail };
    return RUN_SUITE("fs", tests);
}
