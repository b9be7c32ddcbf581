/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_journal.c - journal, lock, blobs and volatile fields: what is
 * written comes back, what is torn is cut, what is damaged is named. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/engine/blobs.h"
#include "core/engine/journal.h"
#include "core/engine/volatile.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char root[64], path[100];
static jb_error err;

static void setup(void)
{
    jb_json_setup();
    err = (jb_error)JB_ERROR_INIT;
    snprintf(root, sizeof root, "/tmp/jb-journal-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(path, sizeof path, "%s/journal.jsonl", root);
}

static void teardown(void) { jb_fs_remove_tree(root, NULL); }

typedef struct seen { int count; jb_span spans[64]; char kinds[64][24]; } seen;

static int collect(void *ctx, const cJSON *event, jb_span span, jb_error *e)
{
    seen *s = ctx;
    (void)e;
    s->spans[s->count] = span;
    snprintf(s->kinds[s->count++], 24, "%s", jb_json_str(event, "kind", ""));
    return 0;
}

static void spit(const char *text, size_t len)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(text, 1, len, f), len);
    fclose(f);
}

START_TEST(what_is_written_comes_back)
{
    jb_journal *j;
    jb_span spans[3];
    seen s = { 0 };
    ck_assert_msg(jb_journal_open(path, NULL, NULL, NULL, &j, &err) == 0, "%s", err.message);
    for (int i = 0; i < 3; i++) {
        cJSON *b = cJSON_CreateObject();
        jb_json_set_i64(b, "n", i);
        jb_json_set_str(b, "text", "line\nbreak \xc3\xa9 \"quote\"");
        ck_assert_int_eq(jb_journal_append(j, "event", i == 1 ? NULL : b, &spans[i], &err), 0);
        cJSON_Delete(b);
    }
    ck_assert_int_eq(jb_journal_sync(j, &err), 0);
    ck_assert_uint_eq(jb_journal_count(j), 3);
    cJSON *back = jb_journal_get(j, spans[2], &err);
    ck_assert_int_eq(jb_json_i64(back, "n", -1), 2);
    ck_assert_str_eq(jb_json_str(back, "text", ""), "line\nbreak \xc3\xa9 \"quote\"");
    cJSON_Delete(back);
    jb_journal_close(j);
    uint64_t torn = 9;
    ck_assert_int_eq(jb_journal_read(path, collect, &s, &torn, &err), 0);
    ck_assert_uint_eq(torn, 0);
    ck_assert_int_eq(s.count, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(s.spans[i].offset, spans[i].offset);
        ck_assert_uint_eq(s.spans[i].length, spans[i].length);
        ck_assert_uint_eq(s.spans[i].seq, (uint32_t)i + 1);
    }
}
END_TEST

#define L1 "{\"seq\":1,\"t\":0,\"kind\":\"a\"}\n"
#define L2 "{\"seq\":2,\"t\":0,\"kind\":\"b\"}\n"

static const struct { const char *name, *text; int rc, events; uint64_t torn; const char *words; } FILES[] = {
    { "empty", "", 0, 0, 0, "" },
    { "two", L1 L2, 0, 2, 0, "" },
    { "torn", L1 L2 "{\"seq\":3,\"ki", 0, 2, 12, "" },
    { "torn at once", "{\"se", 0, 0, 4, "" },
    { "no last newline", L1 "{\"seq\":2,\"t\":0,\"kind\":\"b\"}", 0, 1, 26, "" },
    { "malformed middle", L1 "{]\n" L2, JB_EPARSE, 0, 0, "line 2" },
    { "malformed last line with its newline", L1 "{\"seq\":2,\n", JB_EPARSE, 0, 0, "line 2" },
    { "blank line", L1 "\n" L2, JB_EPARSE, 0, 0, "line 2" },
    { "gap", L1 "{\"seq\":3,\"t\":0,\"kind\":\"b\"}\n", JB_EPARSE, 0, 0, "seq is 3, expected 2" },
    { "no seq", "{\"kind\":\"a\"}\n", JB_EPARSE, 0, 0, "seq is -1" },
    { "no kind", "{\"seq\":1}\n", JB_EPARSE, 0, 0, "no kind" },
    { "two documents", "{\"seq\":1,\"kind\":\"a\"} {}\n", JB_EPARSE, 0, 0, "line 1" },
    { "not an object", "[1]\n", JB_EPARSE, 0, 0, "line 1" },
};

START_TEST(files)
{
    seen s = { 0 };
    uint64_t torn = 0;
    jb_journal *j = NULL;
    spit(FILES[_i].text, strlen(FILES[_i].text));
    int rc = jb_journal_open(path, collect, &s, &torn, &j, &err);
    ck_assert_msg(rc == FILES[_i].rc, "%s: %d %s", FILES[_i].name, rc, err.message);
    if (rc != 0) {
        ck_assert_msg(strstr(err.message, FILES[_i].words) != NULL, "%s: [%s] lacks [%s]", FILES[_i].name, err.message, FILES[_i].words);
        ck_assert_ptr_nonnull(strstr(err.message, path));
        return;
    }
    ck_assert_int_eq(s.count, FILES[_i].events);
    ck_assert_uint_eq(torn, FILES[_i].torn);
    ck_assert_int_eq(jb_journal_append(j, "c", NULL, NULL, &err), 0); /* goes on where the whole lines end */
    jb_journal_close(j);
    s.count = 0;
    ck_assert_int_eq(jb_journal_read(path, collect, &s, &torn, &err), 0);
    ck_assert_int_eq(s.count, FILES[_i].events + 1);
    ck_assert_uint_eq(torn, 0);
}
END_TEST

START_TEST(reading_changes_nothing)
{
    static const char text[] = L1 "{\"seq\":2";
    struct stat st;
    uint64_t torn = 0;
    spit(text, sizeof text - 1);
    ck_assert_int_eq(jb_journal_read(path, NULL, NULL, &torn, &err), 0);
    ck_assert_uint_eq(torn, 8);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, (long)sizeof text - 1);
}
END_TEST

START_TEST(a_nul_byte_is_an_error_and_a_zero_tail_is_torn)
{
    static const char middle[] = "{\"seq\":1,\"kind\":\"a\"\0}\n";
    static const char tail[] = L1 "\0\0\0\0\0\0\0\0";
    jb_journal *j = NULL;
    uint64_t torn = 0;
    spit(middle, sizeof middle - 1);
    ck_assert_int_eq(jb_journal_open(path, NULL, NULL, NULL, &j, &err), JB_EPARSE);
    spit(tail, sizeof tail - 1); /* blocks that never reached the disk */
    ck_assert_int_eq(jb_journal_open(path, NULL, NULL, &torn, &j, &err), 0);
    ck_assert_uint_eq(torn, 8);
    jb_journal_close(j);
}
END_TEST

/* A kill before the first line leaves no journal, never an empty one. */
START_TEST(a_journal_gets_its_name_with_its_first_line)
{
    jb_journal *j = NULL;
    char *unborn = jb_asprintf("%s.new", path);
    ck_assert_int_eq(jb_journal_open(path, NULL, NULL, NULL, &j, &err), 0);
    ck_assert(!jb_fs_exists(path) && jb_fs_exists(unborn));
    jb_journal_close(j);
    ck_assert(!jb_fs_exists(path) && !jb_fs_exists(unborn));
    FILE *f = fopen(unborn, "w"); /* of a process that was killed */
    fputs("half a li", f);
    fclose(f);
    ck_assert_int_eq(jb_journal_open(path, NULL, NULL, NULL, &j, &err), 0);
    ck_assert_int_eq(jb_journal_append(j, "a", NULL, NULL, &err), 0);
    ck_assert(jb_fs_exists(path) && !jb_fs_exists(unborn));
    ck_assert_int_eq(jb_journal_append(j, "b", NULL, NULL, &err), 0);
    jb_journal_close(j);
    seen s = { 0 };
    uint64_t torn = 1;
    ck_assert_msg(jb_journal_read(path, collect, &s, &torn, &err) == 0, "%s", err.message);
    ck_assert_int_eq(s.count, 2);
    ck_assert_uint_eq(torn, 0);
    jb_free(unborn);
}
END_TEST

START_TEST(a_pipe_in_place_of_a_file_is_refused)
{
    jb_journal *j = NULL;
    jb_lock *l = NULL;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    ck_assert_int_eq(jb_journal_read(path, NULL, NULL, NULL, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "it is a pipe"));
    ck_assert_int_eq(jb_journal_open(path, NULL, NULL, NULL, &j, &err), JB_EINVAL);
    ck_assert_int_eq(jb_lock_take(path, &l, &err), JB_EINVAL);
}
END_TEST

START_TEST(a_missing_journal_and_a_missing_folder)
{
    jb_journal *j = NULL;
    ck_assert_int_eq(jb_journal_read(path, NULL, NULL, NULL, &err), JB_ENOTFOUND);
    snprintf(path, sizeof path, "%s/none/journal.jsonl", root);
    ck_assert_int_eq(jb_journal_open(path, NULL, NULL, NULL, &j, &err), JB_EIO);
    ck_assert_ptr_nonnull(strstr(err.message, "none"));
}
END_TEST

START_TEST(allocation_failures)
{
    static const char text[] = L1 L2;
    spit(text, sizeof text - 1);
    for (long n = 1; n < 60; n++) {
        jb_journal *j = NULL;
        jb_error e = JB_ERROR_INIT;
        jb_mem_fail_after(n, 0);
        int rc = jb_journal_open(path, NULL, NULL, NULL, &j, &e);
        if (rc == 0) rc = jb_journal_append(j, "c", NULL, NULL, &e) == 0 ? 0 : JB_ENOMEM;
        jb_mem_fail_after(0, 0);
        ck_assert_msg(rc == 0 || rc == JB_ENOMEM, "allocation %ld: %d %s", n, rc, e.message);
        jb_journal_close(j);
        spit(text, sizeof text - 1);
    }
}
END_TEST

START_TEST(the_lock_is_exclusive_and_dies_with_its_holder)
{
    jb_lock *lock = NULL, *second = NULL;
    int ready[2], end[2];
    char c;
    snprintf(path, sizeof path, "%s/lock", root);
    ck_assert_int_eq(pipe(ready), 0);
    ck_assert_int_eq(pipe(end), 0);
    pid_t child = fork();
    if (child == 0) {
        int rc = jb_lock_take(path, &lock, NULL);
        if (write(ready[1], rc ? "n" : "y", 1) != 1) _exit(2);
        pause();
        _exit(0);
    }
    ck_assert_int_eq(read(ready[0], &c, 1), 1);
    ck_assert_int_eq(c, 'y');
    ck_assert_int_eq(jb_lock_take(path, &second, &err), JB_EPERM);
    char pid[32];
    snprintf(pid, sizeof pid, "pid %d", (int)child);
    ck_assert_msg(strstr(err.message, pid) != NULL, "%s", err.message);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    ck_assert_int_eq(jb_lock_take(path, &second, &err), 0);
    jb_lock_release(second);
    ck_assert_int_eq(jb_lock_take(path, &second, &err), 0);
    jb_lock_release(second);
}
END_TEST

START_TEST(blobs_are_stored_once_and_verified)
{
    char hash[JB_HASH_HEX], again[JB_HASH_HEX];
    jb_buf b = JB_BUF_INIT(1000);
    static const char body[] = "a\0b";
    ck_assert_int_eq(jb_blob_put(root, (jb_view){ body, 3 }, hash, &err), 0);
    ck_assert_int_eq(jb_blob_put(root, (jb_view){ body, 3 }, again, &err), 0);
    ck_assert_str_eq(hash, again);
    ck_assert_int_eq(jb_blob_exists(root, hash), 1);
    ck_assert_int_eq(jb_blob_get(root, hash, 1000, &b, &err), 0);
    ck_assert_uint_eq(b.len, 3);
    ck_assert_int_eq(memcmp(b.ptr, body, 3), 0);
    jb_buf_free(&b);
    char **names;
    int64_t n = jb_fs_list(root, &names);
    ck_assert_int_eq(n, 1);
    jb_fs_list_free(names, n);
    snprintf(path, sizeof path, "%s/%.20s", root, "x");
    ck_assert_int_eq(jb_blob_get(root, "../../etc/passwd", 1000, &b, &err), JB_EPARSE);
    ck_assert_int_eq(jb_blob_exists(root, "../x"), 0);
    hash[0] = hash[0] == 'a' ? 'b' : 'a';
    ck_assert_int_eq(jb_blob_get(root, hash, 1000, &b, &err), JB_ENOTFOUND);
    char file[200];
    snprintf(file, sizeof file, "%s/%s", root, again);
    FILE *f = fopen(file, "wb");
    fputs("damaged", f);
    fclose(f);
    ck_assert_int_eq(jb_blob_get(root, again, 1000, &b, &err), JB_EPARSE);
    ck_assert_ptr_nonnull(strstr(err.message, "other bytes"));
    jb_buf_free(&b);
}
END_TEST

START_TEST(the_list_of_volatile_fields_is_short)
{
    size_t n = 0;
    while (jb_volatile_fields[n]) n++;
    ck_assert_uint_le(n, JB_VOLATILE_MAX);
    /* None of these may ever be excused. */
    static const char *const NEVER[] = { "outcome", "reason", "samples", "calls", "tokens", "score", "verdict", "candidate", "rate", "strip" };
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < sizeof NEVER / sizeof NEVER[0]; k++) ck_assert_str_ne(jb_volatile_fields[i], NEVER[k]);
}
END_TEST

START_TEST(volatile_fields_are_stripped_at_any_depth)
{
    static const char text[] = "{\"t\":1,\"a\":[{\"seconds\":2,\"b\":3},{\"cost\":{\"x\":1}}],\"started\":\"now\",\"pid\":4,\"keep\":{\"t\":5}}";
    cJSON *o = jb_json_parse(text, sizeof text - 1, &err);
    jb_buf b = JB_BUF_INIT(1000);
    jb_volatile_strip(o);
    ck_assert_int_eq(jb_json_print(o, &b), 0);
    ck_assert_str_eq(b.ptr, "{\"a\":[{\"b\":3},{}],\"keep\":{}}");
    jb_volatile_strip(NULL);
    jb_buf_free(&b);
    cJSON_Delete(o);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("journal");
    TCase *c = tcase_create("journal");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, what_is_written_comes_back);
    tcase_add_loop_test(c, files, 0, (int)(sizeof FILES / sizeof FILES[0]));
    tcase_add_test(c, reading_changes_nothing);
    tcase_add_test(c, a_journal_gets_its_name_with_its_first_line);
    tcase_add_test(c, a_pipe_in_place_of_a_file_is_refused);
    tcase_add_test(c, a_nul_byte_is_an_error_and_a_zero_tail_is_torn);
    tcase_add_test(c, a_missing_journal_and_a_missing_folder);
    tcase_add_test(c, allocation_failures);
    tcase_add_test(c, the_lock_is_exclusive_and_dies_with_its_holder);
    tcase_add_test(c, blobs_are_stored_once_and_verified);
    tcase_add_test(c, the_list_of_volatile_fields_is_short);
    tcase_add_test(c, volatile_fields_are_stripped_at_any_depth);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
