/* SPDX-License-Identifier: Apache-2.0 */
/* secret: a key leaves the environment, is found nowhere in messages, and is
 * scrubbed in every form in which a server may echo it. */
#include "core/http/secret.h"
#include "tests/base/harness.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define KEY "sk-a/b+c=\"d_0815"

START_TEST(taking_removes_it_from_the_environment)
{
    jb_error err = JB_ERROR_INIT;
    const char *a, *b;
    jb_secrets *s = jb_secrets_new();
    setenv("JB_T_KEY", KEY, 1);
    ck_assert_int_eq(jb_secrets_check("JB_T_KEY", &err), 0);
    ck_assert_str_eq(getenv("JB_T_KEY"), KEY);
    ck_assert_int_eq(jb_secrets_take(s, "JB_T_KEY", &a, &err), 0);
    ck_assert_str_eq(a, KEY);
    ck_assert_ptr_null(getenv("JB_T_KEY"));
    ck_assert_int_eq(jb_secrets_take(s, "JB_T_KEY", &b, &err), 0);
    ck_assert_ptr_eq(a, b);
    jb_secrets_free(s);
}
END_TEST

START_TEST(what_is_no_key_is_refused_without_showing_it)
{
    static const struct { const char *value; int code; const char *says; } cases[] = {
        { NULL, JB_ENOTFOUND, "not set" },          { "", JB_ENOTFOUND, "empty" },      { "short", JB_EINVAL, "5 characters" },
        { "sk-with a blank", JB_EINVAL, "a blank" }, { "sk-line\nbreak-12", JB_EINVAL, "line break" }, { "sk-\xc3\xa9" "aaaaaaaa", JB_EINVAL, "not ASCII" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        const char *key = NULL;
        jb_secrets *s = jb_secrets_new();
        if (cases[i].value) setenv("JB_T_KEY", cases[i].value, 1);
        else unsetenv("JB_T_KEY");
        ck_assert_int_eq(jb_secrets_take(s, "JB_T_KEY", &key, &err), cases[i].code);
        ck_assert_msg(strstr(err.message, cases[i].says) && strstr(err.message, "JB_T_KEY"), "case %zu: %s", i, err.message);
        if (cases[i].value && *cases[i].value) ck_assert_msg(!strstr(err.message, cases[i].value), "%s", err.message);
        ck_assert(err.flags & JB_ERR_USER);
        jb_secrets_free(s);
    }
}
END_TEST

START_TEST(every_form_is_scrubbed_and_nothing_else)
{
    jb_error err = JB_ERROR_INIT;
    const char *key;
    jb_secrets *s = jb_secrets_new();
    setenv("JB_T_KEY", KEY, 1);
    ck_assert_int_eq(jb_secrets_take(s, "JB_T_KEY", &key, &err), 0);
    char text[] = "<" KEY KEY "> sk-a\\/b+c=\\\"d_0815, ?key=sk-a%2Fb%2Bc%3D%22d_0815& sk-a/b+c=\"d_081";
    jb_secrets_scrub(s, text, sizeof text - 1);
    ck_assert_str_eq(text, "<********************************> ******************, ?key=************************& sk-a/b+c=\"d_081");
    jb_secrets_scrub(s, NULL, 0);
    jb_secrets_scrub(NULL, text, sizeof text);
    jb_secrets_free(s);
}
END_TEST

static int take_once(void)
{
    jb_error err = JB_ERROR_INIT;
    const char *key;
    setenv("JB_T_KEY", KEY, 1);
    jb_secrets *s = jb_secrets_new();
    int rc = s ? jb_secrets_take(s, "JB_T_KEY", &key, &err) : JB_ENOMEM;
    jb_secrets_free(s);
    return rc;
}

START_TEST(memory_may_run_out_anywhere) { SWEEP(take_once()); }
END_TEST

START_TEST(a_guarded_process_leaves_no_core)
{
    pid_t child = fork();
    if (child == 0) {
        struct rlimit r;
        jb_secrets_guard_process();
        _exit(getrlimit(RLIMIT_CORE, &r) == 0 && r.rlim_cur == 0 && r.rlim_max == 0 ? prctl(PR_GET_DUMPABLE) : 100);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status));
    int dumpable = WEXITSTATUS(status);
#if defined(__SANITIZE_ADDRESS__)
    ck_assert_int_le(dumpable, 1);
#elif defined(__has_feature)
    ck_assert_int_le(dumpable, 1); /* clang with the sanitizer keeps it too */
#else
    ck_assert_int_eq(dumpable, 0);
#endif
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { taking_removes_it_from_the_environment, what_is_no_key_is_refused_without_showing_it,
                                   every_form_is_scrubbed_and_nothing_else, memory_may_run_out_anywhere, a_guarded_process_leaves_no_core };
    return RUN_SUITE("secret", tests);
}
