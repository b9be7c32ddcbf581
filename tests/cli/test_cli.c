/* SPDX-License-Identifier: Apache-2.0 */
/* The command line as a machine: verbs of the test's own, words in, what the
 * verb saw and what was printed out. */
#include "core/cli/cli.h"

#include "core/base/error.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char seen[4000];

static void say(const char *fmt, ...) JB_PRINTF(1, 2);
static void say(const char *fmt, ...)
{
    size_t n = strlen(seen);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(seen + n, sizeof seen - n, fmt, ap);
    va_end(ap);
}

static int do_work(jb_cli *c)
{
    size_t n;
    const char *const *list = jb_cli_list(c, "set", &n);
    say("flag=%d out=%s n=%d mode=%s set=", jb_cli_flag(c, "fast"), jb_cli_text(c, "out", "-"), (int)jb_cli_i64(c, "count", -1), jb_cli_text(c, "mode", "-"));
    for (size_t i = 0; i < n; i++) say("%s%s", i ? "," : "", list[i]);
    say(" args=");
    for (int i = 0; i < c->argc; i++) say("%s%s", i ? "," : "", c->argv[i]);
    say(" json=%d quiet=%d verbose=%d", c->json, c->quiet, c->verbose);
    return 0;
}

static int do_fail(jb_cli *c)
{
    jb_error e = JB_ERROR_INIT;
    jb_err(&e, JB_EPARSE, "bad \033[31mthing\"");
    jb_err_hint(&e, "do this");
    jb_err_where(&e, "f.yaml", 3);
    return jb_cli_fail(c, &e);
}

static int do_table(jb_cli *c)
{
    static const char *const heads[] = { "a", "long head" }, *const one[] = { "wide cell", NULL }, *const two[] = { "\xc3\xa9t\xc3\xa9", "x\x1b" };
    jb_cli_table *t = jb_cli_table_new(2, heads);
    jb_cli_table_row(t, one);
    jb_cli_table_row(t, two);
    return jb_cli_table_print(t, c);
}

static const char *const modes[] = { "slow", "quick", NULL };
static const jb_cli_option options[] = {
    { "fast", 'f', JB_CLI_FLAG, NULL, "be fast", NULL },      { "out", 'o', JB_CLI_TEXT, "FILE", "write there", NULL },
    { "count", 'n', JB_CLI_INT, "N", "how many", NULL },      { "set", 's', JB_CLI_LIST, "K=V", "set a key", NULL },
    { "mode", 0, JB_CLI_ENUM, "MODE", "slow or quick", modes },
};
static const jb_cli_verb work = { "work", "do it", "FILE...", "Long text.\n", options, sizeof options / sizeof *options, 1, 3, do_work };
static const jb_cli_verb failing = { "fail", "fail", "", NULL, NULL, 0, 0, 0, do_fail };
static const jb_cli_verb table = { "table", "print a table", "", NULL, NULL, 0, 0, 0, do_table };
static const jb_cli_verb *const verbs[] = { &work, &failing, &table };

static char *out_text, *err_text;

/* Split `line` at spaces and run it. */
static int run(const char *line)
{
    char copy[400], program[] = "jaxbench";
    char *argv[32] = { program };
    int argc = 1;
    size_t out_size, err_size;
    free(out_text);
    free(err_text);
    FILE *out = open_memstream(&out_text, &out_size), *err = open_memstream(&err_text, &err_size);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *s = strtok(copy, " "); s && argc < 32; s = strtok(NULL, " ")) argv[argc++] = s;
    seen[0] = '\0';
    int code = jb_cli_main(argc, argv, verbs, 3, out, err);
    fclose(out);
    fclose(err);
    return code;
}

#define NONE " json=0 quiet=0 verbose=0"
static const struct { const char *line, *seen; } good[] = {
    { "work a", "flag=0 out=- n=-1 mode=- set= args=a" NONE },
    { "work a b c", "flag=0 out=- n=-1 mode=- set= args=a,b,c" NONE },
    { "work --fast a --out=x", "flag=1 out=x n=-1 mode=- set= args=a" NONE },
    { "work --out x a", "flag=0 out=x n=-1 mode=- set= args=a" NONE },
    { "work -fo x a", "flag=1 out=x n=-1 mode=- set= args=a" NONE },
    { "work -foy a", "flag=1 out=y n=-1 mode=- set= args=a" NONE },
    { "work -n3 a", "flag=0 out=- n=3 mode=- set= args=a" NONE },
    { "work --out= a", "flag=0 out= n=-1 mode=- set= args=a" NONE },
    { "work --fast -f --fast a", "flag=1 out=- n=-1 mode=- set= args=a" NONE },
    { "work -s a=1 --out z -f --set b=2 x -s c=3", "flag=1 out=z n=-1 mode=- set=a=1,b=2,c=3 args=x" NONE },
    { "work -- --fast -", "flag=0 out=- n=-1 mode=- set= args=--fast,-" NONE },
    { "work - --mode quick", "flag=0 out=- n=-1 mode=quick set= args=-" NONE },
    { "--json -q work a", "flag=0 out=- n=-1 mode=- set= args=a json=1 quiet=1 verbose=0" },
    { "work a --json -vv", "flag=0 out=- n=-1 mode=- set= args=a json=1 quiet=0 verbose=2" },
    { "-C / work a", "flag=0 out=- n=-1 mode=- set= args=a" NONE },
    { "work --out --fast a", "flag=0 out=--fast n=-1 mode=- set= args=a" NONE }, /* GNU: the next word is the value */
};

START_TEST(words_become_values)
{
    ck_assert_int_eq(run(good[_i].line), 0);
    ck_assert_str_eq(seen, good[_i].seen);
    ck_assert_str_eq(err_text, "");
}
END_TEST

static const struct { const char *line, *said; } bad[] = {
    { "wrok a", "unknown command \"wrok\" [invalid]\n  hint: did you mean \"work\"?" },
    { "zzzzzzzz", "known: work, fail, table" },
    { "work --fsat a", "unknown option --fsat [invalid]\n  hint: did you mean --fast?" },
    { "work --jsno a", "did you mean --json?" },
    { "work --zzzzzzz=3 a", "unknown option --zzzzzzz [invalid]\n  hint: see jaxbench work --help" },
    { "work -x a", "unknown option -x" },
    { "work", "work needs FILE..." },
    { "work a b c d", "unexpected argument \"d\"" },
    { "work a --out", "--out needs a value (FILE)" },
    { "work a --count=many", "--count must be a whole number of at least 0, not \"many\"" },
    { "work a --count=-1", "--count must be" },
    { "work a --mode fast", "unknown value of --mode \"fast\"" },
    { "work a --mode qick", "did you mean \"quick\"" },
    { "work a --fast=yes", "--fast takes no value" },
    { "work --out x --out y a", "--out is given twice" },
    { "work --out x -o x a", "--out is given twice" },
    { "work -n1 --mode quick --count 1 a", "--count is given twice" },
    { "-C / work a -C /", "--directory is given twice" },
    { "work --color never a --color=never", "--color is given twice" },
    { "work a --color=purple", "unknown value of --color" },
    { "-C /nowhere/at/all work a", "can't work in /nowhere/at/all" },
};

START_TEST(mistakes_are_usage_errors)
{
    ck_assert_int_eq(run(bad[_i].line), JB_EXIT_USAGE);
    ck_assert_msg(strstr(err_text, bad[_i].said) != NULL, "\"%s\" lacks \"%s\"", err_text, bad[_i].said);
    ck_assert_str_eq(out_text, "");
    ck_assert_str_eq(seen, "");
}
END_TEST

START_TEST(errors_have_two_forms)
{
    ck_assert_int_eq(run("fail"), JB_EXIT_USAGE);
    ck_assert_str_eq(err_text, "jaxbench: error: f.yaml:3: bad \\x1b[31mthing\" [parse]\n  hint: do this\n");
    ck_assert_int_eq(run("fail --json"), JB_EXIT_USAGE);
    cJSON *o = cJSON_Parse(err_text);
    ck_assert_msg(o != NULL, "%s", err_text);
    ck_assert_str_eq(jb_json_str(o, "code", ""), "parse");
    ck_assert_str_eq(jb_json_str(o, "hint", ""), "do this");
    ck_assert_str_eq(jb_json_str(o, "where", ""), "f.yaml:3");
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(o, "retryable")));
    cJSON_Delete(o);
    /* Also an error of the command line itself, wherever --json stands. */
    ck_assert_int_eq(run("wrok --json"), JB_EXIT_USAGE);
    o = cJSON_Parse(err_text);
    ck_assert_msg(o != NULL, "%s", err_text);
    cJSON_Delete(o);
}
END_TEST

START_TEST(exit_codes_follow_the_error)
{
    static const struct { int code; uint32_t flags; int exit; } rows[] = {
        { JB_EINVAL, 0, 2 }, { JB_ENOTFOUND, 0, 2 }, { JB_EPARSE, 0, 2 },   { JB_EUNSUPPORTED, 0, 2 }, { JB_EIO, 0, 1 },
        { JB_ENOMEM, 0, 1 }, { JB_EINTERNAL, 0, 1 }, { JB_EBUDGET, 0, 5 }, { JB_ECANCELLED, 0, 130 }, { JB_EIO, JB_ERR_USER, 2 },
        { JB_EINVAL, JB_ERR_BUG, 1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        jb_error e = JB_ERROR_INIT;
        e.code = rows[i].code;
        e.flags = rows[i].flags;
        ck_assert_int_eq(jb_cli_exit_of(&e), rows[i].exit);
    }
}
END_TEST

START_TEST(help_and_version)
{
    ck_assert_int_eq(run("--help"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "\n  work        do it\n"));
    ck_assert_ptr_nonnull(strstr(out_text, "--no-input"));
    ck_assert_int_eq(run("help work"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "Usage: jaxbench work [OPTION...] FILE..."));
    ck_assert_int_eq(run("work --help"), 0); /* without its argument */
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) ck_assert_ptr_nonnull(strstr(out_text, options[i].name));
    ck_assert_ptr_nonnull(strstr(out_text, "  -o, --out FILE"));
    ck_assert_int_eq(run("--version"), 0);
    ck_assert_str_eq(out_text, "jaxbench " JB_VERSION "\n");
    ck_assert_int_eq(run(""), JB_EXIT_USAGE); /* nothing asked: help, on stderr */
    ck_assert_str_eq(out_text, "");
    ck_assert_ptr_nonnull(strstr(err_text, "Commands:"));
}
END_TEST

START_TEST(tables_align_and_escape)
{
    ck_assert_int_eq(run("table"), 0);
    ck_assert_str_eq(out_text, "a          long head\nwide cell  \n\xc3\xa9t\xc3\xa9        x\\x1b\n");
}
END_TEST

START_TEST(color_is_asked_for)
{
    ck_assert_int_eq(run("table --color always"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "\033[1m"));
    ck_assert_int_eq(run("table"), 0); /* not a terminal */
    ck_assert_ptr_null(strchr(out_text, '\033'));
    setenv("NO_COLOR", "1", 1);
    ck_assert_int_eq(run("table --color=always"), 0); /* a flag beats the environment */
    ck_assert_ptr_nonnull(strchr(out_text, '\033'));
}
END_TEST

START_TEST(lost_output_is_a_failure)
{
    char program[] = "jaxbench", verb[] = "table";
    char *argv[] = { program, verb, NULL };
    FILE *full = fopen("/dev/full", "w");
    size_t n;
    free(err_text);
    err_text = NULL;
    FILE *err = open_memstream(&err_text, &n);
    ck_assert_ptr_nonnull(full);
    ck_assert_int_eq(jb_cli_main(2, argv, verbs, 3, full, err), JB_EXIT_INTERNAL);
    fclose(full);
    fclose(err);
    ck_assert_ptr_nonnull(strstr(err_text, "can't write"));
}
END_TEST

static void clean(void)
{
    free(out_text);
    free(err_text);
    out_text = err_text = NULL;
}

int main(void)
{
    Suite *s = suite_create("cli");
    TCase *t = tcase_create("all");
    jb_json_setup();
    tcase_add_checked_fixture(t, NULL, clean);
    tcase_add_loop_test(t, words_become_values, 0, sizeof good / sizeof *good);
    tcase_add_loop_test(t, mistakes_are_usage_errors, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, errors_have_two_forms);
    tcase_add_test(t, exit_codes_follow_the_error);
    tcase_add_test(t, help_and_version);
    tcase_add_test(t, tables_align_and_escape);
    tcase_add_test(t, color_is_asked_for);
    tcase_add_test(t, lost_output_is_a_failure);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
