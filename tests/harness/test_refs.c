/* SPDX-License-Identifier: Apache-2.0 */
/* Reference files: read back, refused when damaged in any byte that matters, and
 * kept under their cap. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "harness/refs.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[64];

static void set_up(void)
{
    strcpy(dir, "/tmp/jb-refs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void tear_down(void) { jb_fs_remove_tree(dir, NULL); }

static char *at(const char *name)
{
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static const char GOOD[] =
    "{\"schema\":1,\"arrays\":[{\"group\":\"input\",\"index\":0,\"dtype\":\"bfloat16\",\"dims\":[2,3],\"offset\":4096,\"bytes\":12},"
    "{\"group\": \"h\", \"index\":0,\"dtype\":\"float64\",\"dims\":[],\"offset\":8192,\"bytes\":8}],\"seconds\":0.123456789012345,\"peak_mb\":2}";

static void write_file(const char *path, const char *header, size_t length)
{
    static char bytes[12288];
    uint64_t n = strlen(header);
    memset(bytes, 0, sizeof bytes);
    memcpy(bytes, "JBREF1\0\0", 8);
    memcpy(bytes + 8, &n, 8);
    memcpy(bytes + 16, header, (size_t)n);
    double h = 2.5;
    memcpy(bytes + 8192, &h, 8);
    ck_assert_int_eq(jb_fs_write_atomic(path, bytes, length, NULL), 0);
}

static void write_good(const char *path)
{
    jb_error err = JB_ERROR_INIT;
    write_file(path, GOOD, 12288);
    ck_assert_msg(jb_ref_seal(path, &err) == 0, "%s", err.message);
}

START_TEST(a_file_reads_back)
{
    jb_ref_file f;
    jb_error err = JB_ERROR_INIT;
    write_good(at("a.ref"));
    ck_assert_msg(jb_ref_open(at("a.ref"), &f, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(f.count[JB_REF_INPUT], 1);
    ck_assert_uint_eq(f.tensors[JB_REF_INPUT][0].dtype, JB_DT_BF16);
    ck_assert_int_eq(f.tensors[JB_REF_INPUT][0].count, 6);
    ck_assert_int_eq(f.tensors[JB_REF_INPUT][0].dims[1], 3);
    ck_assert_double_eq(*(const double *)f.tensors[JB_REF_H][0].data, 2.5);
    ck_assert_uint_eq(f.tensors[JB_REF_H][0].rank, 0);
    ck_assert_uint_eq(f.count[JB_REF_R_JIT], 0);
    jb_ref_close(&f);
    ck_assert_uint_eq(jb_ref_groups(at("a.ref")), 1u << JB_REF_INPUT | 1u << JB_REF_H);
    ck_assert_uint_eq(jb_ref_groups(at("none.ref")), 0);
    ck_assert_int_eq(jb_ref_open(at("none.ref"), &f, &err), JB_ENOTFOUND);
}
END_TEST

#define ARRAY(group, index, dtype, dims, offset, bytes)                                                                       \
    "{\"schema\":1,\"arrays\":[{\"group\":\"" group "\",\"index\":" index ",\"dtype\":\"" dtype "\",\"dims\":" dims ",\"offset\":" offset ",\"bytes\":" bytes "}]}"
static const struct { const char *header; size_t length; } DAMAGED[] = {
    { GOOD, 0 },
    { GOOD, 15 },
    { GOOD, 100 },  /* header cut off */
    { GOOD, 4100 }, /* array cut off */
    { GOOD, 8196 },
    { "not json", 12288 },
    { "[]", 12288 },
    { "{\"schema\":2,\"arrays\":[]}", 12288 },
    { "{\"schema\":1}", 12288 },
    { ARRAY("input", "0", "bfloat16", "[2,3]", "4096", "13"), 12288 },
    { ARRAY("input", "0", "float8", "[2,3]", "4096", "6"), 12288 },
    { ARRAY("other", "0", "bfloat16", "[2,3]", "4096", "12"), 12288 },
    { ARRAY("input", "1", "bfloat16", "[2,3]", "4096", "12"), 12288 },
    { ARRAY("input", "-1", "bfloat16", "[2,3]", "4096", "12"), 12288 },
    { ARRAY("input", "0", "bfloat16", "[2,-3]", "4096", "12"), 12288 },
    { ARRAY("input", "0", "bfloat16", "[2,3]", "4097", "12"), 12288 },
    { ARRAY("input", "0", "bfloat16", "[2,3]", "1048576", "12"), 12288 },
    { ARRAY("input", "0", "bfloat16", "[2,3]", "-4096", "12"), 12288 },
    { ARRAY("input", "0", "bfloat16", "[1099511627776,1099511627776]", "4096", "12"), 12288 },
    { ARRAY("input", "0", "bfloat16", "[1,1,1,1,1,1,1,1,1]", "4096", "2"), 12288 },
    { ARRAY("input", "0", "bfloat16", "6", "4096", "12"), 12288 },
};

START_TEST(damage_is_refused)
{
    jb_ref_file f;
    jb_error err = JB_ERROR_INIT;
    write_file(at("d.ref"), DAMAGED[_i].header, DAMAGED[_i].length);
    ck_assert_int_eq(jb_ref_open(at("d.ref"), &f, &err), JB_EPARSE);
    ck_assert_msg(strstr(err.message, "damaged") != NULL, "%s", err.message);
    ck_assert_msg(strstr(err.message, "sealed") == NULL, "refused for want of a seal alone: %s", err.message);
    ck_assert_ptr_null(f.map);
    ck_assert_int_eq(jb_ref_seal(at("d.ref"), &err), JB_EPARSE); /* and no seal makes it good */
}
END_TEST

START_TEST(a_length_beyond_the_file_is_refused)
{
    jb_ref_file f;
    write_file(at("l.ref"), GOOD, 12288);
    int fd = open(at("l.ref"), O_WRONLY);
    uint64_t huge = UINT64_MAX;
    ck_assert_int_eq(pwrite(fd, &huge, 8, 8), 8);
    close(fd);
    ck_assert_int_eq(jb_ref_open(at("l.ref"), &f, NULL), JB_EPARSE);
}
END_TEST

START_TEST(every_failed_allocation_is_an_error)
{
    jb_ref_file f;
    write_file(at("m.ref"), GOOD, 12288);
    for (int opening = 0; opening < 2; opening++) {
        int rc = -1, n = 0;
        while (rc != 0) {
            ck_assert_int_lt(n, 1000);
            jb_mem_fail_after(++n, 1);
            rc = opening ? jb_ref_open(at("m.ref"), &f, NULL) : jb_ref_seal(at("m.ref"), NULL);
            jb_mem_fail_after(0, 0);
        }
    }
    jb_ref_close(&f);
}
END_TEST

/* One byte of a sealed file, by its offset from where `near` is found (or from the start). */
static const struct { const char *near; off_t offset; char to; } FLIPS[] = {
    { NULL, 4096, 1 },                /* the first array */
    { NULL, 8192 + 7, 0x41 },         /* the last byte of h: 2.5 becomes another number */
    { NULL, 12287, 1 },               /* padding: nobody reads it, and the disk is rotten */
    { "\"offset\":4096", 9, '8' },    /* 8096 is no multiple of a page, and refused as such */
    { "[2,3]", 1, '3' },              /* does not fit the array's size */
    { "bfloat16", 0, 'c' },
    { "0.1234567890123", 3, '9' },    /* a number that no reader uses */
    { "\"sha256\"", 10, 'x' },
};

START_TEST(one_wrong_byte_is_damage)
{
    jb_ref_file f;
    jb_error err = JB_ERROR_INIT;
    char head[2048];
    write_good(at("f.ref"));
    int fd = open(at("f.ref"), O_RDWR);
    ck_assert_int_eq(pread(fd, head, sizeof head, 0), sizeof head);
    off_t where = FLIPS[_i].offset;
    if (FLIPS[_i].near != NULL) {
        const char *found = memmem(head, sizeof head, FLIPS[_i].near, strlen(FLIPS[_i].near));
        ck_assert_msg(found != NULL, "no %s in %s", FLIPS[_i].near, head + 16);
        where += found - head;
    }
    ck_assert_int_eq(pwrite(fd, &FLIPS[_i].to, 1, where), 1);
    close(fd);
    ck_assert_int_eq(jb_ref_open(at("f.ref"), &f, &err), JB_EPARSE);
    ck_assert_msg(strstr(err.message, "f.ref is damaged") != NULL, "%s", err.message);
    ck_assert_int_eq(jb_ref_seal(at("f.ref"), NULL) == 0, FLIPS[_i].near == NULL || FLIPS[_i].near[0] == '0' || FLIPS[_i].near[1] == 's');
}
END_TEST

START_TEST(an_unsealed_file_is_none)
{
    jb_ref_file f;
    jb_error err = JB_ERROR_INIT;
    write_file(at("u.ref"), GOOD, 12288);
    ck_assert_int_eq(jb_ref_open(at("u.ref"), &f, &err), JB_EPARSE);
    ck_assert_msg(strstr(err.message, "never sealed") != NULL, "%s", err.message);
    ck_assert_uint_eq(jb_ref_groups(at("u.ref")), 0);
}
END_TEST

/* Whatever lies in the cache under the name of a reference: nobody waits for it. */
START_TEST(what_is_no_file_is_refused_at_once)
{
    jb_ref_file f;
    char target[200];
    write_good(at("good.ref"));
    snprintf(target, sizeof target, "%s", at("good.ref"));
    ck_assert_int_eq(mkfifo(at("pipe.ref"), 0600), 0);
    ck_assert_int_eq(mkdir(at("folder.ref"), 0700), 0);
    ck_assert_int_eq(symlink(target, at("link.ref")), 0);
    static const char *const names[] = { "pipe.ref", "folder.ref", "link.ref", "none.ref" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        ck_assert_msg(jb_ref_open(at(names[i]), &f, &err) != 0, "%s was opened", names[i]);
        ck_assert_msg(strstr(err.message, names[i]) != NULL, "%s", err.message);
        ck_assert_uint_eq(jb_ref_groups(at(names[i])), 0);
        ck_assert_int_eq(jb_ref_is_file(at(names[i])), 0);
        ck_assert_int_ne(jb_ref_seal(at(names[i]), NULL), 0);
        ck_assert_int_ne(jb_ref_sync(at(names[i]), NULL), 0);
    }
    ck_assert_int_eq(jb_ref_is_file(at("good.ref")), 1);
    ck_assert_int_eq(jb_ref_sync(at("good.ref"), NULL), 0);
}
END_TEST

START_TEST(the_oldest_go_first)
{
    static const char *const names[] = { "old.ref", "used.ref", "new.ref", ".x.tmp", ".stale.tmp" };
    static const time_t ages[] = { 5000, 4000, 10, 10, 90000 };
    for (size_t i = 0; i < 5; i++) {
        struct timespec t[2] = { { time(NULL) - ages[i], 0 }, { time(NULL) - ages[i], 0 } };
        write_file(at(names[i]), GOOD, 4096);
        ck_assert_int_eq(utimensat(AT_FDCWD, at(names[i]), t, 0), 0);
    }
    jb_ref_touch(at("old.ref")); /* used just now */
    jb_ref_evict(dir, 2 * 4096 + 100);
    ck_assert_int_eq(jb_fs_exists(at("used.ref")), 0);
    ck_assert_int_eq(jb_fs_exists(at("old.ref")), 1);
    ck_assert_int_eq(jb_fs_exists(at("new.ref")), 1);
    ck_assert_int_eq(jb_fs_exists(at(".x.tmp")), 1);     /* somebody may be writing it */
    ck_assert_int_eq(jb_fs_exists(at(".stale.tmp")), 0); /* nobody is */
    jb_ref_evict("/nonexistent/folder", 1);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("refs");
    TCase *t = tcase_create("refs");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_file_reads_back);
    tcase_add_loop_test(t, damage_is_refused, 0, sizeof DAMAGED / sizeof DAMAGED[0]);
    tcase_add_test(t, a_length_beyond_the_file_is_refused);
    tcase_add_test(t, every_failed_allocation_is_an_error);
    tcase_add_loop_test(t, one_wrong_byte_is_damage, 0, sizeof FLIPS / sizeof FLIPS[0]);
    tcase_add_test(t, an_unsealed_file_is_none);
    tcase_add_test(t, what_is_no_file_is_refused_at_once);
    tcase_add_test(t, the_oldest_go_first);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
