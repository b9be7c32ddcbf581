/* SPDX-License-Identifier: Apache-2.0 */
/* tests/evaluate/test_extract.c - odd replies in, source or outcome out. */
#include "core/evaluate/extract.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define OK JB_OUTCOME_OK
#define NONE JB_OUTCOME_NO_CODE
#define CUT JB_OUTCOME_TRUNCATED
#define W "def workload(A, B):\n    return A\n"

static const struct {
    const char *name, *reply;
    uint32_t finish, outcome;
    const char *source; /* expected, when ok */
} CASES[] = {
    { "plain", "Here.\n```python\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "no newline at the end", "```python\n" W "```", JB_FINISH_STOP, OK, W },
    { "tildes", "~~~py\n" W "~~~\n", JB_FINISH_STOP, OK, W },
    { "no info", "```\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "odd info", "```{.python .numberLines startFrom=\"1\"}\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "last wins", "```\ndef workload(A):\n    return 1\n```\nbetter:\n```\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "last that defines wins", "```\n" W "```\nrun it:\n```bash\npython x.py\n```\n", JB_FINISH_STOP, OK, W },
    { "assignment", "```\nworkload = jax.jit(f)\n```", JB_FINISH_STOP, OK, "workload = jax.jit(f)\n" },
    { "annotated", "```\nworkload: Callable = f\n```", JB_FINISH_STOP, OK, "workload: Callable = f\n" },
    { "annotation only", "```\nworkload: Callable\n```", JB_FINISH_STOP, NONE, NULL },
    { "comparison is no definition", "```\nworkload == f\n```", JB_FINISH_STOP, NONE, NULL },
    { "other name", "```\ndef workload2(A):\n    pass\n```", JB_FINISH_STOP, NONE, NULL },
    { "not at top level", "```\nclass K:\n    def workload(A):\n        pass\n```", JB_FINISH_STOP, NONE, NULL },
    { "inside a docstring", "```\n\"\"\"\ndef workload(A): pass\n\"\"\"\nx = 1\n```", JB_FINISH_STOP, NONE, NULL },
    { "spaces before the parenthesis", "```\ndef  workload (A):\n    pass\n```", JB_FINISH_STOP, OK, "def  workload (A):\n    pass\n" },
    { "prose", "I would use a blocked product.", JB_FINISH_STOP, NONE, NULL },
    { "empty", "", JB_FINISH_STOP, NONE, NULL },
    { "code without a fence", W, JB_FINISH_STOP, NONE, NULL },
    { "inline code is no fence", "``` x ``` and\n```python\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "two backticks", "``\n" W "``\n", JB_FINISH_STOP, NONE, NULL },
    { "unclosed", "```python\n" W, JB_FINISH_STOP, CUT, NULL },
    { "unclosed after a good one", "```\n" W "```\nand\n```\ndef workload(", JB_FINISH_STOP, CUT, NULL },
    { "stray fence at the end", "```\n" W "```\n```\n", JB_FINISH_STOP, OK, W },
    { "stray fence and blanks", "```\n" W "```\n```\n  \n\n", JB_FINISH_STOP, OK, W },
    { "finish=length", "```\n" W "```\nThis is", JB_FINISH_LENGTH, CUT, NULL },
    { "finish=length without code", "Let me think", JB_FINISH_LENGTH, CUT, NULL },
    { "crlf", "x\r\n```python\r\ndef workload(A, B):\r\n    return A\r\n```\r\n", JB_FINISH_STOP, OK, W },
    { "lone cr", "```\rdef workload(A, B):\r    return A\r```\r", JB_FINISH_STOP, OK, W },
    { "bom", "\xef\xbb\xbf```\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "list item", "1. Kernel:\n   ```python\n   def workload(A, B):\n       return A\n   ```\n", JB_FINISH_STOP, OK, W },
    { "closer less indented", "   ```\n   def workload(A, B):\n       return A\n```\n", JB_FINISH_STOP, OK, W },
    { "tab list item", "\t```\n\tdef workload(A, B):\n\t    return A\n\t```\n", JB_FINISH_STOP, OK, W },
    { "longer fence holds shorter", "````\n# ```\n" W "```\n````\n", JB_FINISH_STOP, OK, "# ```\n" W "```\n" },
    { "tilde holds backtick", "~~~\n```\n" W "~~~\n", JB_FINISH_STOP, OK, "```\n" W },
    { "markdown around", "````markdown\nText\n```python\n" W "```\nmore\n````\n", JB_FINISH_STOP, OK, W },
    { "markdown with code itself", "```md\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "closer with words is none", "```\n" W "``` python\n```\n", JB_FINISH_STOP, OK, W "``` python\n" },
    { "fence in a docstring", "```python\n\"\"\"Doc.\n```\nexample\n```\n\"\"\"\n" W "```\n", JB_FINISH_STOP, OK,
      "\"\"\"Doc.\n```\nexample\n```\n\"\"\"\n" W },
    { "fence in a single-quoted docstring", "```python\n'''a\n```\n'''\n" W "```\n", JB_FINISH_STOP, OK, "'''a\n```\n'''\n" W },
    { "indented fence in a docstring", "```\n" W "    '''\n    ```\n    '''\n```\n", JB_FINISH_STOP, OK, W "    '''\n    ```\n    '''\n" },
    { "quotes in a comment", "```\n# it's \"\"\" here\n" W "```\n", JB_FINISH_STOP, OK, "# it's \"\"\" here\n" W },
    { "quotes in a string", "```\ns = '\"\"\"'\n" W "```\n", JB_FINISH_STOP, OK, "s = '\"\"\"'\n" W },
    { "escaped quote", "```\ns = 'a\\'\"\"\"'\n" W "```\n", JB_FINISH_STOP, OK, "s = 'a\\'\"\"\"'\n" W },
    { "string never ends", "```\nx = '''\n```\nthen\n```\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "prose block with a stray triple quote", "```text\nuse \"\"\" around\n```\n\n```python\n\"\"\"Doc.\"\"\"\n" W "```\n", JB_FINISH_STOP, OK,
      "\"\"\"Doc.\"\"\"\n" W },
    { "think block", "<think>\n```\ndef workload(A): return 0\n```\n</think>\n```\n" W "```\n", JB_FINISH_STOP, OK, W },
    { "only blank block", "```\n\n```\n", JB_FINISH_STOP, NONE, NULL },
    { "only an opener", "```", JB_FINISH_STOP, NONE, NULL },
};

static jb_view view(const char *s) { return (jb_view){ s, strlen(s) }; }

START_TEST(replies)
{
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    int rc = jb_extract_reply(view(CASES[_i].reply), CASES[_i].finish, "workload", &x, &err);
    ck_assert_msg(rc == 0, "%s: %s", CASES[_i].name, err.message);
    ck_assert_msg(x.outcome == CASES[_i].outcome, "%s: outcome %u, expected %u (%s)", CASES[_i].name, x.outcome,
                  CASES[_i].outcome, x.reason);
    if (CASES[_i].source) {
        ck_assert_ptr_nonnull(x.source);
        ck_assert_msg(strcmp(x.source, CASES[_i].source) == 0, "%s: source\n[%s]\nexpected\n[%s]", CASES[_i].name, x.source,
                      CASES[_i].source);
        ck_assert_str_eq(x.reason, "");
    } else {
        ck_assert_ptr_null(x.source);
        ck_assert_msg(x.reason[0] != 0, "%s: no reason", CASES[_i].name);
        ck_assert_ptr_null(strchr(x.reason, '\n'));
    }
    jb_extract_free(&x);
}
END_TEST

START_TEST(rejected_blocks_are_kept)
{
    static const char reply[] = "```py\na\n```\n~~~\nb\n~~~\n```python\n" W "```\n```c\nint d;\n```\n";
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_extract_reply(view(reply), JB_FINISH_STOP, "workload", &x, &err), 0);
    ck_assert_uint_eq(x.block_count, 4);
    ck_assert_int_eq(x.chosen, 2);
    ck_assert_str_eq(x.blocks[0].info, "py");
    ck_assert_str_eq(x.blocks[1].info, "");
    ck_assert_int_eq(memcmp(x.text + x.blocks[1].begin, "b\n", 2), 0);
    ck_assert_str_eq(x.blocks[3].info, "c");
    jb_extract_free(&x);
}
END_TEST

START_TEST(nul_bytes_pass_through)
{
    static const char reply[] = "```\n" W "x = '\0'\n```\n";
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_extract_reply((jb_view){ reply, sizeof reply - 1 }, JB_FINISH_STOP, "workload", &x, &err), 0);
    ck_assert_uint_eq(x.outcome, OK);
    ck_assert_uint_eq(x.source_len, strlen(W) + strlen("x = '") + 1 + strlen("'\n"));
    ck_assert_int_eq(x.source[strlen(W) + 5], 0);
    jb_extract_free(&x);
}
END_TEST

/* Every prefix of a good reply ends in an outcome, and ok only where the fence closed. */
START_TEST(every_prefix)
{
    static const char reply[] = "Text\n```python\n\"\"\"D\n```\n\"\"\"\n" W "```\nend\n";
    size_t closed = strlen("Text\n```python\n\"\"\"D\n```\n\"\"\"\n" W "```");
    for (size_t n = 0; n < sizeof reply; n++) {
        jb_extract x;
        jb_error err = JB_ERROR_INIT;
        ck_assert_int_eq(jb_extract_reply((jb_view){ reply, n }, JB_FINISH_STOP, "workload", &x, &err), 0);
        ck_assert_msg((x.outcome == OK) == (n >= closed), "prefix of %zu bytes: outcome %u", n, x.outcome);
        jb_extract_free(&x);
    }
}
END_TEST

/* Hostile shapes of 50 MB stay linear. */
static const struct { const char *unit; const char *tail; uint32_t outcome; } HUGE_REPLIES[] = {
    { "x", "", NONE },
    { "```\n", "\n```\n" W "```\n", JB_OUTCOME_OK },
    { "```\n'''\n```\n", "\n", NONE },
    { "```\n\\'''\n```\n", "\n", NONE },
    { "```\n\"\"\"\n", "", NONE },
    { "```md\ndef workload(\n```\n", "", JB_OUTCOME_OK },
    { "\r", "```\n" W "```\n", JB_OUTCOME_OK },
};

START_TEST(fifty_megabytes)
{
    size_t total = 50u << 20, u = strlen(HUGE_REPLIES[_i].unit), t = strlen(HUGE_REPLIES[_i].tail), n = 0;
    char *text = malloc(total + u + t);
    ck_assert_ptr_nonnull(text);
    /* An even number of units, so that pairs of fences close. */
    for (size_t k = 0; n < total || k % 2; k++, n += u) {
        if (n + u > total + u) break;
        memcpy(text + n, HUGE_REPLIES[_i].unit, u);
    }
    memcpy(text + n, HUGE_REPLIES[_i].tail, t);
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    clock_t begin = clock();
    ck_assert_int_eq(jb_extract_reply((jb_view){ text, n + t }, JB_FINISH_STOP, "workload", &x, &err), 0);
    double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    ck_assert_msg(x.outcome == HUGE_REPLIES[_i].outcome, "case %d: outcome %u, %s", _i, x.outcome, x.reason);
    ck_assert_double_lt(seconds, 20.0);
    ck_assert_uint_le(x.block_count, JB_EXTRACT_MAX_BLOCKS);
    jb_extract_free(&x);
    free(text);
}
END_TEST

START_TEST(beyond_the_cap_the_last_definition_wins)
{
    char *text = malloc(2000 * 16 + 200), *p = text;
    for (int i = 0; i < 1000; i++) p += sprintf(p, "```\nx\n```\n");
    p += sprintf(p, "```\n" W "```\n");
    for (int i = 0; i < 1000; i++) p += sprintf(p, "```\ny\n```\n");
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_extract_reply((jb_view){ text, (size_t)(p - text) }, JB_FINISH_STOP, "workload", &x, &err), 0);
    ck_assert_uint_eq(x.outcome, OK);
    ck_assert_str_eq(x.source, W);
    ck_assert_uint_eq(x.blocks_seen, 2001);
    jb_extract_free(&x);
    free(text);
}
END_TEST

START_TEST(a_file_is_its_own_source)
{
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_extract_plain(view("x = (\r\n"), &x, &err), 0);
    ck_assert_uint_eq(x.outcome, OK);
    ck_assert_str_eq(x.source, "x = (\n");
    jb_extract_free(&x);
}
END_TEST

START_TEST(hash_ignores_only_what_cannot_matter)
{
    static const struct { const char *a, *b; int same; } rows[] = {
        { "x\ny\n", "x\r\ny\r\n", 1 },   { "x\n", "x", 1 },       { "x\n", "x\n\n \n", 1 },
        { "\xef\xbb\xbfx", "x", 1 },     { "x = 1", "x  = 1", 0 }, { "x\n\ny", "x\ny", 0 },
        { "'a  \n'", "'a\n'", 0 },       { "", "\n", 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char a[65], b[65];
        ck_assert_int_eq(jb_source_hash(view(rows[i].a), a), 0);
        ck_assert_int_eq(jb_source_hash(view(rows[i].b), b), 0);
        ck_assert_msg((strcmp(a, b) == 0) == rows[i].same, "row %zu", i);
    }
}
END_TEST

START_TEST(allocation_failures)
{
    static const char reply[] = "````md\n```\nx\n```\n```\n" W "```\n````\n";
    for (long n = 1; n < 40; n++) {
        jb_extract x;
        jb_error err = JB_ERROR_INIT;
        jb_mem_fail_after(n, 0);
        int rc = jb_extract_reply(view(reply), JB_FINISH_STOP, "workload", &x, &err);
        jb_mem_fail_after(0, 0);
        if (rc == 0) {
            ck_assert_str_eq(x.source, W);
            jb_extract_free(&x);
            if (n > 8) return;
        } else {
            ck_assert_int_eq(rc, JB_ENOMEM);
            ck_assert_ptr_null(x.source);
            ck_assert_ptr_null(x.text);
        }
    }
}
END_TEST

START_TEST(empty_entry_is_refused)
{
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_extract_reply(view("x"), JB_FINISH_STOP, "", &x, &err), JB_EINVAL);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("extract");
    TCase *c = tcase_create("extract");
    tcase_set_timeout(c, 100);
    tcase_add_loop_test(c, replies, 0, (int)(sizeof CASES / sizeof CASES[0]));
    tcase_add_test(c, rejected_blocks_are_kept);
    tcase_add_test(c, nul_bytes_pass_through);
    tcase_add_test(c, every_prefix);
    tcase_add_loop_test(c, fifty_megabytes, 0, (int)(sizeof HUGE_REPLIES / sizeof HUGE_REPLIES[0]));
    tcase_add_test(c, beyond_the_cap_the_last_definition_wins);
    tcase_add_test(c, a_file_is_its_own_source);
    tcase_add_test(c, hash_ignores_only_what_cannot_matter);
    tcase_add_test(c, allocation_failures);
    tcase_add_test(c, empty_entry_is_refused);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
