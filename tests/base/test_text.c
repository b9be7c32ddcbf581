/* SPDX-License-Identifier: Apache-2.0 */
/* Nearest names, globs, quantities, escapes, cutting and human forms, by table. */
#include "core/base/text.h"
#include "tests/base/harness.h"

START_TEST(nearest_name)
{
    static const char *const names[] = { "error_ratio", "allclose", "coverage", "seed", "samples", "shape_dtype" };
    static const struct { const char *word, *want; } cases[] = {
        { "error_ration", "error_ratio" }, { "allcloes", "allclose" }, { "sede", "seed" }, { "sampels", "samples" }, { "coverage", "coverage" },
        { "timer", NULL }, { "", NULL }, { "x", NULL }, { "shape_type", "shape_dtype" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const char *got = jb_text_nearest(cases[i].word, names, sizeof names / sizeof names[0]);
        ck_assert_pstr_eq(got, cases[i].want);
    }
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[199] = '\0';
    const char *const same[] = { word };
    ck_assert_ptr_null(jb_text_nearest(word, same, 1)); /* too long to be a name */
    ck_assert_ptr_null(jb_text_nearest("seed", NULL, 0));
}
END_TEST

START_TEST(globs)
{
    static const struct { const char *pattern, *s; int want; } cases[] = {
        { "*", "", 1 }, { "*", "abc", 1 }, { "", "", 1 }, { "", "a", 0 }, { "a?c", "abc", 1 }, { "a?c", "ac", 0 }, { "8*", "8p", 1 },
        { "*p", "8p", 1 }, { "*p", "8pt", 0 }, { "a*b*c", "a--b--b-c", 1 }, { "a*b*c", "a--c--b", 0 }, { "[0-9]p", "8p", 1 },
        { "[0-9]p", "xp", 0 }, { "[!0-9]p", "xp", 1 }, { "[^0-9]p", "8p", 0 }, { "[]]", "]", 1 }, { "[a-", "[a-", 1 }, { "[a-]", "-", 1 },
        { "a[bc]*[de]", "ab..e", 1 }, { "**a", "ba", 1 }, { "a*", "b", 0 }, { "?", "", 0 },
        { "*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(jb_text_glob(cases[i].pattern, cases[i].s) == cases[i].want, "%s on %s", cases[i].pattern, cases[i].s);
}
END_TEST

START_TEST(durations_and_sizes)
{
    static const struct { const char *s; int64_t want; } good[] = {
        { "250ms", 250000000 }, { "30s", 30000000000 }, { "5m", 300000000000 }, { "2h", 7200000000000 }, { "0", 0 }, { "0s", 0 }, { "1.5s", 1500000000 },
        { "10us", 10000 }, { "7ns", 7 }, { "1d", 86400000000000 }, { "0.000000001s", 1 }, { "0.999999999h", 3599999996400 },
    };
    static const char *const bad[] = { "", "s", "5", "-5s", "+5s", " 5s", "5 s", "5s ", "5x", "1e3s", "1.s", ".5s", "9223372036855s", "99999999999999999999s", "0x5s",
                                       "1.0000000001s", "300000000h" };
    int64_t v = -1;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        ck_assert_msg(jb_text_duration(good[i].s, &v) == 0, "%s", good[i].s);
        ck_assert_msg(v == good[i].want, "%s: %lld, expected %lld", good[i].s, (long long)v, (long long)good[i].want);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) ck_assert_msg(jb_text_duration(bad[i], &v) != 0, "\"%s\" was taken as %lld", bad[i], (long long)v);
    ck_assert_int_ne(jb_text_duration(NULL, &v), 0);

    static const struct { const char *s; int64_t want; } sizes[] = {
        { "4096", 4096 }, { "64KiB", 65536 }, { "2GiB", INT64_C(2) << 30 }, { "1TiB", INT64_C(1) << 40 }, { "12B", 12 }, { "1.5MiB", 1572864 },
        { "9223372036854775807", INT64_MAX }, { "0", 0 }, { "0.999999999TiB", 1099511626676 },
    };
    static const char *const bad_sizes[] = { "", "KiB", "-1", "1kb", "1K", "1 KiB", "9223372036854775808", "8388608TiB", "1e3", "12.KiB" };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ck_assert_msg(jb_text_size(sizes[i].s, &v) == 0, "%s", sizes[i].s);
        ck_assert_msg(v == sizes[i].want, "%s: %lld, expected %lld", sizes[i].s, (long long)v, (long long)sizes[i].want);
    }
    for (size_t i = 0; i < sizeof bad_sizes / sizeof bad_sizes[0]; i++) ck_assert_msg(jb_text_size(bad_sizes[i], &v) != 0, "\"%s\"", bad_sizes[i]);
}
END_TEST

START_TEST(numbers)
{
    int64_t i = 0;
    double d = 0;
    static const struct { const char *s; int64_t want; } ints[] = { { "0", 0 }, { "-12", -12 }, { "+7", 7 }, { "007", 7 },
        { "9223372036854775807", INT64_MAX }, { "-9223372036854775808", INT64_MIN } };
    static const char *const bad_ints[] = { "", "-", "+", "1.0", "1e3", " 1", "1 ", "0x10", "9223372036854775808", "--1", "1_000" };
    for (size_t k = 0; k < sizeof ints / sizeof ints[0]; k++) {
        ck_assert_int_eq(jb_text_i64(ints[k].s, &i), 0);
        ck_assert_int_eq(i, ints[k].want);
    }
    for (size_t k = 0; k < sizeof bad_ints / sizeof bad_ints[0]; k++) ck_assert_msg(jb_text_i64(bad_ints[k], &i) != 0, "\"%s\"", bad_ints[k]);
    uint64_t u = 0;
    static const struct { const char *s; uint64_t want; } naturals[] = { { "0", 0 }, { "007", 7 }, { "18446744073709551615", UINT64_MAX } };
    static const char *const bad_naturals[] = { "", "-1", "+1", " 1", "1 ", "0x1", "1.0", "18446744073709551616", "abc" };
    for (size_t k = 0; k < sizeof naturals / sizeof naturals[0]; k++) {
        ck_assert_int_eq(jb_text_u64(naturals[k].s, &u), 0);
        ck_assert_uint_eq(u, naturals[k].want);
    }
    for (size_t k = 0; k < sizeof bad_naturals / sizeof bad_naturals[0]; k++) ck_assert_msg(jb_text_u64(bad_naturals[k], &u) != 0, "\"%s\"", bad_naturals[k]);
    static const struct { const char *s; double want; } floats[] = { { "1", 1 }, { "-1.5", -1.5 }, { "1e-2", 0.01 }, { ".5", 0.5 }, { "2.", 2 }, { "1E+3", 1000 } };
    static const char *const bad_floats[] = { "", ".", "e", "inf", "nan", "0x1p3", " 1", "1 ", "1,5", "1e999", "1e", "1.2.3", "--1" };
    for (size_t k = 0; k < sizeof floats / sizeof floats[0]; k++) {
        ck_assert_int_eq(jb_text_f64(floats[k].s, &d), 0);
        ck_assert_double_eq(d, floats[k].want);
    }
    for (size_t k = 0; k < sizeof bad_floats / sizeof bad_floats[0]; k++) ck_assert_msg(jb_text_f64(bad_floats[k], &d) != 0, "\"%s\"", bad_floats[k]);
}
END_TEST

START_TEST(utf8)
{
    static const struct { const char *s; int want; } cases[] = {
        { "", 1 }, { "abc", 1 }, { "\xC3\xA9", 1 }, { "\xE2\x82\xAC", 1 }, { "\xF0\x9F\x98\x80", 1 }, { "\xF4\x8F\xBF\xBF", 1 }, { "\x7F", 1 },
        { "\x80", 0 }, { "\xC3", 0 }, { "\xC0\x80", 0 }, { "\xC1\xBF", 0 }, { "\xE0\x80\x80", 0 }, { "\xED\xA0\x80", 0 }, { "\xED\x9F\xBF", 1 },
        { "\xF0\x80\x80\x80", 0 }, { "\xF4\x90\x80\x80", 0 }, { "\xF5\x80\x80\x80", 0 }, { "\xFF", 0 }, { "a\xE2\x82", 0 }, { "\xE2\x28\xA1", 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        ck_assert_msg(jb_text_utf8_valid(cases[i].s, strlen(cases[i].s)) == cases[i].want, "case %zu", i);
}
END_TEST

START_TEST(escapes)
{
    static const struct { const char *s; int keep; const char *want; } cases[] = {
        { "plain \xC3\xA9", 0, "plain \xC3\xA9" }, { "a\nb\tc", 1, "a\nb\tc" }, { "a\nb\tc", 0, "a\\x0ab\\x09c" }, { "\x1b[31mred", 1, "\\x1b[31mred" },
        { "\r", 1, "\\x0d" }, { "\x7f", 1, "\\x7f" }, { "\xC2\x9B" "2J", 1, "\\xc2\\x9b2J" }, { "\xFF\xC3", 1, "\\xff\\xc3" },
        { "\xE2\x80\xAE" "evil", 1, "\\xe2\\x80\\xaeevil" }, { "\xE2\x80\xA8", 0, "\\xe2\\x80\\xa8" }, { "\xC2\xA0", 0, "\xC2\xA0" }, { "", 0, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_buf b = JB_BUF_INIT(1000);
        ck_assert_int_eq(jb_text_escape(&b, cases[i].s, strlen(cases[i].s), cases[i].keep), 0);
        ck_assert_str_eq(b.ptr ? b.ptr : "", cases[i].want);
        jb_buf_free(&b);
    }
    jb_buf b = JB_BUF_INIT(1000);
    jb_text_escape(&b, "a\0b", 3, 1);
    ck_assert_str_eq(b.ptr, "a\\x00b");
    jb_buf_free(&b);
    jb_buf small = JB_BUF_INIT(3);
    ck_assert_int_eq(jb_text_escape(&small, "\x1b", 1, 1), JB_EINVAL);
    jb_buf_free(&small);
}
END_TEST

START_TEST(every_byte_escapes_to_something_safe)
{
    /* Whatever two bytes come, what is printed is valid UTF-8 without controls. */
    for (int a = 0; a < 256; a++)
        for (int c = 0; c < 256; c++) {
            char in[2] = { (char)a, (char)c };
            jb_buf b = JB_BUF_INIT(100);
            jb_text_escape(&b, in, 2, 0);
            int safe = jb_text_utf8_valid(b.ptr, b.len);
            for (size_t i = 0; i < b.len; i++) {
                unsigned char u = (unsigned char)b.ptr[i];
                safe = safe && u >= 0x20 && u != 0x7f && !(u == 0xC2 && (unsigned char)b.ptr[i + 1] < 0xA0);
            }
            if (!safe) ck_abort_msg("bytes %02x %02x became %s", a, c, b.ptr);
            jb_buf_free(&b);
        }
}
END_TEST

START_TEST(first_lines)
{
    static const struct { const char *s; size_t max; const char *want; } cases[] = {
        { "one\ntwo", 80, "one" }, { "  one  \ntwo", 80, "one" }, { "\n\n  two\n", 80, "two" }, { "", 80, "" }, { "\n", 80, "" }, { "abcdef", 3, "abc" },
        { "ab \xE2\x82\xAC", 5, "ab" }, { "ab\xE2\x82\xAC", 4, "ab" }, { "ab\xE2\x82\xAC", 5, "ab\xE2\x82\xAC" }, { "\xE2\x82\xAC", 2, "" }, { "a\r\nb", 80, "a" },
        { "abc", 0, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_buf b = JB_BUF_INIT(1000);
        ck_assert_int_eq(jb_text_first_line(&b, cases[i].s, strlen(cases[i].s), cases[i].max), 0);
        ck_assert_str_eq(b.ptr, cases[i].want);
        jb_buf_free(&b);
    }
    jb_buf b = JB_BUF_INIT(10);
    ck_assert_int_eq(jb_text_first_line(&b, NULL, 0, 5), 0);
    ck_assert_uint_eq(b.len, 0);
    jb_buf_free(&b);
}
END_TEST

START_TEST(human_forms)
{
    char buf[40];
    static const struct { int64_t bytes; const char *want; } sizes[] = {
        { 0, "0 B" }, { 1023, "1023 B" }, { 1024, "1.0 KiB" }, { 1400000000, "1.3 GiB" }, { 1048575, "1.0 MiB" }, { -2048, "-2.0 KiB" }, { INT64_MAX, "8.0 EiB" },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) ck_assert_str_eq(jb_text_bytes(buf, sizeof buf, sizes[i].bytes), sizes[i].want);
    static const struct { double s; const char *want; } times[] = {
        { 0, "0 s" }, { 5e-9, "5 ns" }, { 1.25e-5, "12.5 us" }, { 0.0124, "12.4 ms" }, { 12.4, "12.4 s" }, { 99.96, "1m 40s" }, { 483, "8m 03s" },
        { 3599.9, "1h 00m" }, { 7380, "2h 03m" }, { 0.99996, "1.0 s" }, { -3, "-3.0 s" }, { 1e300, "1e+300 s" },
    };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++) ck_assert_str_eq(jb_text_seconds(buf, sizeof buf, times[i].s), times[i].want);
    ck_assert_str_eq(jb_text_seconds(buf, sizeof buf, 1.0 / 0.0), "?");
    ck_assert_str_eq(jb_text_seconds(buf, 4, 483), "8m ");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { nearest_name, globs, durations_and_sizes, numbers, utf8, escapes, every_byte_escapes_to_something_safe,
                                   first_lines, human_forms };
    return RUN_SUITE("text", tests);
}
