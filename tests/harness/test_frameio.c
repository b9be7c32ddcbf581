/* SPDX-License-Identifier: Apache-2.0 */
/* Frames from an honest peer, a slow one, and one that lies about everything. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "harness/capture.h"
#include "harness/frameio.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static int pair[2];

static void set_up(void)
{
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ck_assert_int_eq(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
}

static void tear_down(void)
{
    close(pair[0]);
    if (pair[1] >= 0) close(pair[1]);
}

static void hang_up(void)
{
    close(pair[1]);
    pair[1] = -1;
}

START_TEST(a_frame_arrives_byte_by_byte)
{
    uint8_t bytes[JB_FRAME_HEADER + 5];
    jb_frame_reader r;
    jb_frame f;
    jb_frame_encode(bytes, JB_FRAME_RESULT, 5);
    memcpy(bytes + JB_FRAME_HEADER, "hello", 5);
    jb_frame_reader_init(&r, 100);
    for (size_t i = 0; i < sizeof bytes; i++) {
        ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, NULL), JB_FRAME_AGAIN);
        ck_assert_int_eq(write(pair[1], bytes + i, 1), 1);
    }
    ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, NULL), JB_FRAME_GOT);
    ck_assert_uint_eq(f.type, JB_FRAME_RESULT);
    ck_assert_uint_eq(f.len, 5);
    ck_assert_int_eq(memcmp(f.body, "hello", 5), 0);
    jb_frame_free(&f);
    hang_up();
    ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, NULL), JB_FRAME_EOF);
    jb_frame_reader_free(&r);
}
END_TEST

START_TEST(many_frames_in_one_write_and_empty_ones)
{
    jb_buf out = JB_BUF_INIT(1 << 20);
    jb_frame_reader r;
    jb_frame f;
    for (uint32_t i = 0; i < 50; i++) {
        jb_view part = { "0123456789", i % 11 };
        ck_assert_int_eq(jb_frame_queue(&out, i, &part, 1), 0);
    }
    ck_assert_int_eq(jb_frame_flush(&out, pair[1]), 0);
    ck_assert_uint_eq(out.len, 0);
    jb_frame_reader_init(&r, 100);
    for (uint32_t i = 0; i < 50; i++) {
        ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, NULL), JB_FRAME_GOT);
        ck_assert_uint_eq(f.type, i);
        ck_assert_uint_eq(f.len, i % 11);
        jb_frame_free(&f);
    }
    ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, NULL), JB_FRAME_AGAIN);
    jb_buf_free(&out);
    jb_frame_reader_free(&r);
}
END_TEST

/* Bytes, whether the peer hangs up after them, and what the error must say. */
static const struct { const char *bytes; size_t len; int hang_up, rc; const char *words; } BAD[] = {
    { "{\"ok\":true}.....", 16, 0, JB_EPROTO, "no frame" },
    { "JBF1\x20\0\0\0\0\0\0\0\0\1\0\0", 16, 0, JB_EPROTO, "1099511627776" },
    { "JBF1\x20\0\0\0\x65\0\0\0\0\0\0\0", 16, 0, JB_EPROTO, "101" },
    { "JBF1\x20\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff", 16, 0, JB_EPROTO, "at most 100" },
    { "JBF", 3, 1, JB_EPROTO, "inside its header, after 3" },
    { "JBF1\x20\0\0\0\x0a\0\0\0\0\0\0\0half", 20, 1, JB_EPROTO, "cut off after 4" },
};

START_TEST(lies_end_the_conversation)
{
    jb_error err = JB_ERROR_INIT;
    jb_frame_reader r;
    jb_frame f;
    ck_assert_int_eq(write(pair[1], BAD[_i].bytes, BAD[_i].len), (ssize_t)BAD[_i].len);
    if (BAD[_i].hang_up) hang_up();
    jb_frame_reader_init(&r, 100);
    ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, &err), BAD[_i].rc);
    ck_assert_msg(strstr(err.message, BAD[_i].words) != NULL, "\"%s\" should hold \"%s\"", err.message, BAD[_i].words);
    ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, &err), BAD[_i].rc); /* for ever */
    jb_frame_reader_free(&r);
}
END_TEST

START_TEST(an_announced_length_costs_no_memory)
{
    uint8_t head[JB_FRAME_HEADER];
    jb_frame_reader r;
    jb_frame f;
    jb_frame_encode(head, JB_FRAME_MODULE, JB_FRAME_MAX);
    ck_assert_int_eq(write(pair[1], head, sizeof head), (ssize_t)sizeof head);
    jb_frame_reader_init(&r, JB_FRAME_MAX);
    ck_assert_int_eq(jb_frame_read(&r, pair[0], &f, NULL), JB_FRAME_AGAIN);
    ck_assert_uint_le(r.room, 1u << 20);
    jb_frame_reader_free(&r);
}
END_TEST

START_TEST(a_long_frame_survives_a_full_pipe)
{
    size_t n = (size_t)24 << 20, seen = 0;
    jb_buf out = JB_BUF_INIT((size_t)64 << 20);
    char *body = malloc(n);
    jb_frame_reader r;
    jb_frame f;
    ck_assert_ptr_nonnull(body);
    for (size_t i = 0; i < n; i++) body[i] = (char)(i * 7 % 251);
    jb_view part = { body, n };
    ck_assert_int_eq(jb_frame_queue(&out, JB_FRAME_JOB, &part, 1), 0);
    jb_frame_reader_init(&r, JB_FRAME_MAX);
    int rc = JB_FRAME_AGAIN;
    while (rc == JB_FRAME_AGAIN) {
        ck_assert_int_eq(jb_frame_flush(&out, pair[1]), 0);
        rc = jb_frame_read(&r, pair[0], &f, NULL);
        ck_assert_uint_lt(seen++, 1000000);
    }
    ck_assert_int_eq(rc, JB_FRAME_GOT);
    ck_assert_uint_eq(f.len, n);
    ck_assert_int_eq(memcmp(f.body, body, n), 0);
    jb_frame_free(&f);
    jb_buf_free(&out);
    jb_frame_reader_free(&r);
    free(body);
}
END_TEST

START_TEST(every_failed_allocation_is_an_error)
{
    for (long n = 1; n < 4; n++) {
        jb_frame_reader r;
        jb_frame f;
        jb_error err = JB_ERROR_INIT;
        jb_view part = { "some bytes", 10 };
        ck_assert_int_eq(jb_frame_send(pair[1], 1, &part, 1), 0);
        jb_frame_reader_init(&r, 100);
        jb_mem_fail_after(n, 1);
        int rc = jb_frame_read(&r, pair[0], &f, &err);
        jb_mem_fail_after(0, 0);
        ck_assert_int_eq(rc, n == 1 ? JB_ENOMEM : JB_FRAME_GOT);
        if (rc == JB_FRAME_GOT) jb_frame_free(&f);
        char rest[64];
        while (read(pair[0], rest, sizeof rest) > 0) {
        }
        jb_frame_reader_free(&r);
    }
}
END_TEST

/* Bodies of JOB and MODULE frames whose inner lengths lie. */
START_TEST(inner_lengths_are_checked)
{
    uint8_t body[20] = { 7, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, '{', '}', ' ', 'x' };
    jb_frame f = { .type = JB_FRAME_JOB, .len = 16, .body = body };
    uint64_t job = 0;
    jb_view a, b;
    ck_assert_int_eq(jb_frame_job(&f, &job, &a, &b), 0);
    ck_assert_uint_eq(job, 7);
    ck_assert_uint_eq(a.len, 3);
    ck_assert_uint_eq(b.len, 1);
    body[8] = 5;
    ck_assert_int_eq(jb_frame_job(&f, &job, &a, &b), JB_EPROTO);
    body[11] = 0xff;
    ck_assert_int_eq(jb_frame_job(&f, &job, &a, &b), JB_EPROTO);
    f.len = 11;
    ck_assert_int_eq(jb_frame_job(&f, &job, &a, &b), JB_EPROTO);
    uint8_t module[9] = { 2, 0, 0, 0, 'a', '/', 1, 2, 3 };
    jb_frame m = { .type = JB_FRAME_MODULE, .len = 9, .body = module };
    ck_assert_int_eq(jb_frame_module(&m, &a, &b), 0);
    ck_assert_uint_eq(b.len, 3);
    module[0] = 6;
    ck_assert_int_eq(jb_frame_module(&m, &a, &b), JB_EPROTO);
    m.len = 3;
    ck_assert_int_eq(jb_frame_module(&m, &a, &b), JB_EPROTO);
}
END_TEST

START_TEST(random_bytes_never_give_a_frame_past_the_cap)
{
    srand(20261130);
    for (int round = 0; round < 300; round++) {
        uint8_t bytes[64];
        jb_frame_reader r;
        jb_frame f;
        jb_error err = JB_ERROR_INIT;
        for (size_t i = 0; i < sizeof bytes; i++) bytes[i] = (uint8_t)rand();
        if (round % 2) memcpy(bytes, "JBF1", 4);
        if (round % 4 == 1) memset(bytes + 9, 0, 7);
        ck_assert_int_eq(write(pair[1], bytes, sizeof bytes), (ssize_t)sizeof bytes);
        jb_frame_reader_init(&r, 40);
        for (int i = 0; i < 10; i++) {
            int rc = jb_frame_read(&r, pair[0], &f, &err);
            if (rc == JB_FRAME_GOT) ck_assert_uint_le(f.len, 40);
            if (rc == JB_FRAME_GOT) jb_frame_free(&f);
            if (rc != JB_FRAME_GOT) break;
        }
        jb_frame_reader_free(&r);
        tear_down();
        set_up();
    }
}
END_TEST

/* ---- capture ----------------------------------------------------------- */

START_TEST(a_capture_keeps_head_and_tail)
{
    static jb_capture c;
    jb_buf text = JB_BUF_INIT(1 << 20);
    char line[32];
    memset(&c, 0, sizeof c);
    uint64_t total = 0;
    for (int i = 0; i < 10000; i++) {
        int n = snprintf(line, sizeof line, "line %d\n", i);
        jb_capture_add(&c, line, (size_t)n);
        total += (uint64_t)n;
    }
    ck_assert_uint_eq(c.total, total);
    ck_assert_int_eq(jb_capture_text(&c, &text), 0);
    ck_assert_int_eq(strncmp(text.ptr, "line 0\nline 1\n", 14), 0);
    ck_assert_str_eq(text.ptr + text.len - 10, "line 9999\n");
    snprintf(line, sizeof line, "[... %llu bytes", (unsigned long long)(total - 2 * JB_CAPTURE_HALF));
    ck_assert_msg(strstr(text.ptr, line) != NULL, "%s is not in the text", line);
    jb_buf_reset(&text);
    ck_assert_int_eq(jb_capture_tail(&c, 25, &text), 0);
    ck_assert_str_eq(text.ptr, "line 9998\nline 9999\n"); /* whole lines only */
    jb_buf_free(&text);
}
END_TEST

START_TEST(a_short_capture_is_whole)
{
    static jb_capture c;
    jb_buf text = JB_BUF_INIT(1 << 20);
    memset(&c, 0, sizeof c);
    jb_capture_add(&c, "ab", 2);
    jb_capture_add(&c, "c\n", 2);
    ck_assert_int_eq(jb_capture_text(&c, &text), 0);
    ck_assert_str_eq(text.ptr, "abc\n");
    jb_buf_reset(&text);
    ck_assert_int_eq(jb_capture_tail(&c, 4096, &text), 0);
    ck_assert_str_eq(text.ptr, "abc\n");
    jb_buf_free(&text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("frameio");
    TCase *t = tcase_create("frames"), *c = tcase_create("capture");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_frame_arrives_byte_by_byte);
    tcase_add_test(t, many_frames_in_one_write_and_empty_ones);
    tcase_add_loop_test(t, lies_end_the_conversation, 0, sizeof BAD / sizeof BAD[0]);
    tcase_add_test(t, an_announced_length_costs_no_memory);
    tcase_add_test(t, a_long_frame_survives_a_full_pipe);
    tcase_add_test(t, every_failed_allocation_is_an_error);
    tcase_add_test(t, inner_lengths_are_checked);
    tcase_add_test(t, random_bytes_never_give_a_frame_past_the_cap);
    tcase_set_timeout(t, 30);
    suite_add_tcase(s, t);
    tcase_add_test(c, a_capture_keeps_head_and_tail);
    tcase_add_test(c, a_short_capture_is_whole);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
