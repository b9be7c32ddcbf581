/* SPDX-License-Identifier: Apache-2.0 */
/* Templates: values, precedence, no second reading, and what is refused. */
#include "core/suite/template.h"

#include "core/base/error.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#define V(s) { (s), sizeof(s) - 1 }
static const jb_view pairs[] = { V("name"), V("pair"), V("turn"), V("3"), V("name"), V("second") };

static const struct { const char *text, *out; } good[] = {
    { "", "" },
    { "plain { } {x} }}", "plain { } {x} }}" },
    { "{{name}}", "pair" },               /* a pair beats a fact, the first pair beats the second */
    { "a {{ id }} b\n{{turn}}", "a 8p b\n3" },
    { "{{{{id}}", "{{id}}" },
    { "{{tricky}}", "{{name}} {{" },      /* a value is never read again */
    { "{{empty}}|", "|" },
    { "a\n\n{{empty}}\n\nb", "a\n\nb" }, /* no hole where a line was */
    { "a\n{{ empty }}\nb", "a\nb" },
    { "{{empty}}\n", "" },
    { "a\n\n{{empty}}", "a\n\n" },
    { "a\n\n{{id}}\n\nb", "a\n\n8p\n\nb" },
    { "a {{empty}}\n\n{{empty}} b", "a \n\n b" },
};

START_TEST(renders)
{
    cJSON *facts = cJSON_Parse("{\"id\":\"8p\",\"name\":\"fact\",\"tricky\":\"{{name}} {{\",\"empty\":\"\",\"number\":3}");
    jb_error e = JB_ERROR_INIT;
    jb_buf out = JB_BUF_INIT(1000);
    jb_view text = { good[_i].text, strlen(good[_i].text) };
    ck_assert_msg(jb_template_render("t.md", text, pairs, 6, facts, &out, &e) == 0, "%s", e.message);
    ck_assert_str_eq(out.ptr, good[_i].out);
    jb_buf_free(&out);
    cJSON_Delete(facts);
}
END_TEST

static const struct { const char *text, *message, *hint, *where; } bad[] = {
    { "a\nb {{fromula}}", "unknown key {{fromula}}", "{{formula}}", "t.md:2" },
    { "{{trun}}", "unknown key {{trun}}", "{{turn}}", "t.md:1" },
    { "{{number}}", "unknown key", "", "t.md:1" }, /* a fact is text */
    { "{{formula", "doesn't end in }}", "", "t.md:1" },
    { "{{formula}", "doesn't end in }}", "", "t.md:1" },
    { "\n\n{{}}", "no key", "", "t.md:3" },
    { "{{Formula}}", "no key", "", "t.md:1" },
    { "{{", "no key", "", "t.md:1" },
    { "{{{", "no key", "", "t.md:1" },
};

START_TEST(refusals)
{
    cJSON *facts = cJSON_Parse("{\"formula\":\"x\",\"number\":3}");
    jb_error e = JB_ERROR_INIT;
    jb_buf out = JB_BUF_INIT(1000);
    jb_view text = { bad[_i].text, strlen(bad[_i].text) };
    ck_assert_int_eq(jb_template_render("t.md", text, pairs, 6, facts, &out, &e), JB_EINVAL);
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_msg(strstr(e.hint, bad[_i].hint) != NULL, "\"%s\" lacks \"%s\"", e.hint, bad[_i].hint);
    ck_assert_str_eq(e.where, bad[_i].where);
    jb_buf_free(&out);
    cJSON_Delete(facts);
}
END_TEST

START_TEST(a_full_buffer_is_an_error)
{
    jb_error e = JB_ERROR_INIT;
    jb_buf out = JB_BUF_INIT(8);
    jb_view text = V("longer than eight bytes");
    ck_assert_int_ne(jb_template_render("t.md", text, NULL, 0, NULL, &out, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.message, "too long"));
    jb_buf_free(&out);
}
END_TEST

START_TEST(a_missing_file_is_named)
{
    jb_error e = JB_ERROR_INIT;
    jb_buf out = JB_BUF_INIT(1000);
    ck_assert_int_eq(jb_template_render_file("/nowhere/prompt.md", NULL, 0, NULL, &out, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.message, "/nowhere/prompt.md"));
    jb_buf_free(&out);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("template");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, renders, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(t, refusals, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, a_full_buffer_is_an_error);
    tcase_add_test(t, a_missing_file_is_named);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
