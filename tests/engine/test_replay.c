/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_replay.c - resume equals never having stopped.  A whole run is
 * made once; then its journal is cut at every line, at many bytes within lines, and
 * with and without the files of the archive, and each cut is resumed. */
#include "tests/engine/fake.h"

static char *whole, *journal;
static size_t journal_len;
static char whole_dir[256];

static void make_whole(void)
{
    fake_run r;
    fake_setup();
    fake_open(&r, fake_root, "whole", 3);
    ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
    ck_assert_uint_eq(r.result.end, JB_END_DONE);
    snprintf(whole_dir, sizeof whole_dir, "%s", r.dir);
    whole = fake_view(r.dir);
    journal = fake_slurp(r.dir, "journal.jsonl", &journal_len);
    fake_close(&r);
}

static void drop_whole(void)
{
    jb_free(whole);
    jb_free(journal);
    fake_teardown();
}

static void copy_tree(const char *from, const char *to)
{
    char command[700];
    snprintf(command, sizeof command, "rm -rf '%s' && cp -r '%s' '%s'", to, from, to);
    ck_assert_int_eq(system(command), 0);
}

/* Resume a copy whose journal ends after `bytes`. */
static void resume_at(size_t bytes, int keep_cells, int64_t slots)
{
    fake_run r;
    char what[64], *view;
    fake_reset();
    fake_open(&r, fake_root, "cut", slots);
    if (keep_cells) copy_tree(whole_dir, r.dir);
    fake_spit(r.dir, "journal.jsonl", journal, bytes);
    snprintf(what, sizeof what, "cut at byte %zu of %zu", bytes, journal_len);
    if (!keep_cells) { /* blobs are written before the lines that name them, so a kill leaves them */
        char blobs[300], to[300];
        snprintf(blobs, sizeof blobs, "%s/blobs", whole_dir);
        snprintf(to, sizeof to, "%s/blobs", r.dir);
        copy_tree(blobs, to);
    }
    ck_assert_msg(fake_go(&r) == 0, "%s: %s", what, r.err.message);
    ck_assert_uint_eq(r.result.end, JB_END_DONE);
    ck_assert_msg((r.result.torn_bytes > 0) == (bytes > 0 && journal[bytes - 1] != '\n'), "%s: torn %llu", what, (unsigned long long)r.result.torn_bytes);
    view = fake_view(r.dir);
    same_view(what, whole, view);
    jb_free(view);
    fake_close(&r);
    jb_error err = JB_ERROR_INIT;
    jb_fs_remove_tree(r.dir, &err);
}

START_TEST(every_line)
{
    int n = 0;
    for (size_t at = 0; at <= journal_len; at++) {
        if (at != 0 && journal[at - 1] != '\n') continue;
        resume_at(at, n % 4 == 0, n % 3 == 0 ? 1 : 4);
        n++;
    }
    ck_assert_int_gt(n, 60);
}
END_TEST

START_TEST(within_lines)
{
    /* An odd stride meets the beginning, the middle and the end of lines. */
    for (size_t at = 1; at < journal_len; at += 1999) resume_at(at, 0, 2);
    resume_at(journal_len - 1, 1, 2); /* the last newline alone is lost */
}
END_TEST

START_TEST(killed_twice)
{
    fake_run r;
    char *view;
    size_t at = journal_len / 3;
    fake_open(&r, fake_root, "twice", 2);
    copy_tree(whole_dir, r.dir);
    fake_spit(r.dir, "journal.jsonl", journal, at);
    fake_stop_after = 3;
    ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
    ck_assert_uint_eq(r.result.end, JB_END_SIGNAL);
    fake_reset();
    r.err = (jb_error)JB_ERROR_INIT;
    ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
    ck_assert_uint_eq(r.result.end, JB_END_DONE);
    view = fake_view(r.dir);
    same_view("killed twice", whole, view);
    jb_free(view);
    fake_close(&r);
}
END_TEST

START_TEST(a_finished_run_costs_nothing_again)
{
    fake_run r;
    size_t len;
    char *view, *after;
    fake_open(&r, fake_root, "again", 2);
    copy_tree(whole_dir, r.dir);
    fake_reset();
    ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
    ck_assert_int_eq(fake_calls, 0);
    ck_assert_int_eq(fake_submits, 0);
    ck_assert_int_eq(r.result.replayed, r.result.candidates);
    view = fake_view(r.dir);
    same_view("again", whole, view);
    after = fake_slurp(r.dir, "journal.jsonl", &len);
    ck_assert_uint_ge(len, journal_len);
    ck_assert_int_eq(memcmp(after, journal, journal_len), 0);
    jb_free(view);
    jb_free(after);
    fake_close(&r);
}
END_TEST

START_TEST(slots_do_not_show)
{
    static const int64_t SLOTS[] = { 1, 2, 8, 32 };
    for (size_t i = 0; i < sizeof SLOTS / sizeof SLOTS[0]; i++) {
        fake_run r;
        char name[32], *view;
        fake_reset();
        snprintf(name, sizeof name, "slots%lld", (long long)SLOTS[i]);
        fake_open(&r, fake_root, name, SLOTS[i]);
        ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
        ck_assert_int_le(fake_most_in_flight, (int)SLOTS[i]);
        if (SLOTS[i] == 8) ck_assert_int_gt(fake_most_in_flight, 1);
        view = fake_view(r.dir);
        same_view(name, whole, view);
        jb_free(view);
        fake_close(&r);
    }
}
END_TEST

START_TEST(a_damaged_archive_is_written_again)
{
    fake_run r;
    char *view;
    fake_open(&r, fake_root, "damaged", 2);
    copy_tree(whole_dir, r.dir);
    fake_spit(r.dir, "cells/8p+bon+fake+s0/1/reply.txt", "x", 1);
    char path[400];
    snprintf(path, sizeof path, "%s/cells/8p+tune/2/result.json", r.dir);
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
    view = fake_view(r.dir);
    same_view("damaged", whole, view);
    jb_free(view);
    fake_close(&r);
}
END_TEST

START_TEST(a_changed_method_is_stopped_with_both_hashes)
{
    fake_run r;
    fake_open(&r, fake_root, "salted", 2);
    copy_tree(whole_dir, r.dir);
    fake_salt = " quickly";
    ck_assert_int_eq(fake_go(&r), JB_ESTATE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "operation 1"));
    ck_assert_ptr_nonnull(strstr(r.err.message, "journal: llm"));
    ck_assert_ptr_nonnull(strstr(r.err.message, "quickly")); /* the difference itself */
    fake_close(&r);
}
END_TEST

START_TEST(fewer_operations_than_before_are_noticed)
{
    fake_run r;
    fake_open(&r, fake_root, "fewer", 2);
    copy_tree(whole_dir, r.dir);
    fake_samples = 5; /* the sixth call was an operation that is now an evaluation */
    ck_assert_int_eq(fake_go(&r), JB_ESTATE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "operation 6"));
    fake_close(&r);
}
END_TEST

START_TEST(a_malformed_middle_line_is_named)
{
    fake_run r;
    fake_open(&r, fake_root, "malformed", 2);
    copy_tree(whole_dir, r.dir);
    char *copy = malloc(journal_len);
    memcpy(copy, journal, journal_len);
    char *second = memchr(copy, '\n', journal_len) + 1;
    second[3] = '\x01';
    fake_spit(r.dir, "journal.jsonl", copy, journal_len);
    ck_assert_int_eq(fake_go(&r), JB_EPARSE);
    ck_assert_ptr_nonnull(strstr(r.err.message, "line 2"));
    free(copy);
    fake_close(&r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("replay");
    TCase *c = tcase_create("replay");
    tcase_set_timeout(c, 110);
    tcase_add_checked_fixture(c, make_whole, drop_whole);
    tcase_add_test(c, every_line);
    tcase_add_test(c, within_lines);
    tcase_add_test(c, killed_twice);
    tcase_add_test(c, a_finished_run_costs_nothing_again);
    tcase_add_test(c, slots_do_not_show);
    tcase_add_test(c, a_damaged_archive_is_written_again);
    tcase_add_test(c, a_changed_method_is_stopped_with_both_hashes);
    tcase_add_test(c, fewer_operations_than_before_are_noticed);
    tcase_add_test(c, a_malformed_middle_line_is_named);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
