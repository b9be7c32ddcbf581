/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: code and text, cutting at character boundaries, use of an error's own
 * text in the next one. */
#include "tests/base/harness.h"

START_TEST(sets_code_and_message_and_clears_the_rest)
{
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_err(&err, JB_EINVAL, "first"), JB_EINVAL);
    jb_err_hint(&err, "try %d", 7);
    jb_err_where(&err, "a.yaml", 12);
    ck_assert_str_eq(err.hint, "try 7");
    ck_assert_str_eq(err.where, "a.yaml:12");
    ck_assert_int_eq(jb_err(&err, JB_EIO, "second %s", "thing"), JB_EIO);
    ck_assert_int_eq(err.code, JB_EIO);
    ck_assert_str_eq(err.message, "second thing");
    ck_assert_str_eq(err.hint, "");
    ck_assert_str_eq(err.where, "");
    ck_assert_uint_eq(err.struct_size, sizeof err);
    jb_err(&err, JB_EINTERNAL, "bug");
    ck_assert_uint_eq(err.flags, JB_ERR_BUG);
    jb_err_clear(&err);
    ck_assert_int_eq(err.code, JB_OK);
    ck_assert_str_eq(err.message, "");
}
END_TEST

START_TEST(where_without_a_line_is_the_file)
{
    jb_error err = JB_ERROR_INIT;
    jb_err_where(&err, "a.json", 0);
    ck_assert_str_eq(err.where, "a.json");
    jb_err_where(&err, NULL, 0);
    ck_assert_str_eq(err.where, "");
}
END_TEST

START_TEST(context_goes_before_and_an_error_can_quote_itself)
{
    jb_error err = JB_ERROR_INIT;
    jb_err(&err, JB_EPARSE, "no colon");
    jb_err_hint(&err, "add one");
    ck_assert_int_eq(jb_err_context(&err, "reading %s", "x"), JB_EPARSE);
    ck_assert_str_eq(err.message, "reading x: no colon");
    ck_assert_str_eq(err.hint, "add one");
    jb_err(&err, JB_EIO, "outer (%s)", err.message);
    ck_assert_str_eq(err.message, "outer (reading x: no colon)");
    jb_err_hint(&err, "again: %s", "a");
    jb_err_hint(&err, "[%s]", err.hint);
    ck_assert_str_eq(err.hint, "[again: a]");
}
END_TEST

START_TEST(a_null_error_is_allowed_everywhere)
{
    ck_assert_int_eq(jb_err(NULL, JB_EIO, "x"), JB_EIO);
    ck_assert_int_eq(jb_err_hint(NULL, "x"), JB_EINTERNAL);
    ck_assert_int_eq(jb_err_where(NULL, "f", 1), JB_EINTERNAL);
    ck_assert_int_eq(jb_err_context(NULL, "x"), JB_EINTERNAL);
    jb_err_clear(NULL);
}
END_TEST

START_TEST(long_text_is_cut_at_a_character)
{
    /* Euro signs of three bytes, shifted by 0..2: no cut may leave half of one. */
    for (size_t shift = 0; shift < 3; shift++) {
        char text[1200] = "";
        jb_error err = JB_ERROR_INIT;
        memset(text, 'a', shift);
        for (size_t i = shift; i + 3 < sizeof text; i += 3) memcpy(text + i, "\xE2\x82\xAC", 3);
        jb_err(&err, JB_EINVAL, "%s", text);
        size_t n = strlen(err.message);
        ck_assert_uint_lt(n, sizeof err.message);
        ck_assert_uint_gt(n, sizeof err.message - 8);
        ck_assert_uint_eq((n - shift) % 3, 0);
        jb_err_context(&err, "prefix");
        n = strlen(err.message);
        ck_assert_uint_eq((n - shift - strlen("prefix: ")) % 3, 0);
        jb_err_where(&err, text, 3);
        ck_assert_uint_lt(strlen(err.where), sizeof err.where);
    }
}
END_TEST

START_TEST(every_status_has_its_own_word)
{
    for (int a = JB_OK; a >= JB_EINTERNAL; a--)
        for (int b = JB_OK; b > a; b--) ck_assert_str_ne(jb_err_name(a), jb_err_name(b));
    ck_assert_str_eq(jb_err_name(JB_ENOTFOUND), "not-found");
    ck_assert_str_eq(jb_err_name(-999), "internal");
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { sets_code_and_message_and_clears_the_rest, where_without_a_line_is_the_file,
                                   context_goes_before_and_an_error_can_quote_itself, a_null_error_is_allowed_everywhere,
                                   long_text_is_cut_at_a_character, every_status_has_its_own_word };
    return RUN_SUITE("error", tests);
}
