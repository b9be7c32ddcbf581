/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the worker: scripts stand in for it, one for each way to be no use. */
#include "core/cli/internal.h"
#include "tests/study/fixture.h"

#include <time.h>

static const char *script(const char *body)
{
    char text[1000];
    snprintf(text, sizeof text, "#!/bin/sh\n%s\n", body);
    const char *path = fixture_write("worker", text);
    ck_assert_int_eq(chmod(path, 0755), 0);
    return path;
}

static const struct { const char *body, *message; } bad[] = {
    { "echo not json", "printed no JSON" },
    { "exit 3", "exited with 3" },
    { "echo 'first' >&2; echo 'jax is missing' >&2; exit 1", "exited with 1: jax is missing" },
    /* The worker's first complaint is the cause; what follows are consequences and hints. */
    { "echo 'jaxbench-worker: venv is of Python 3.12' >&2; echo '  hint: rebuild' >&2; echo 'jaxbench-worker: the zygote went away' >&2; exit 1",
      "exited with 1: venv is of Python 3.12" },
    { "kill -SEGV $$", "killed by signal 11" },
    { "printf '\\033[31mred\\n' >&2; exit 1", "\\x1b[31mred" },
    { "sleep 30 & sleep 30", "said nothing for" },
    { "echo '{\"a\":1} trailing'", "printed no JSON" },
    { "", "printed no JSON" },
};

START_TEST(a_worker_that_is_no_use)
{
    jb_error e = JB_ERROR_INIT;
    const char *path = script(bad[_i].body);
    time_t begin = time(NULL);
    ck_assert_ptr_null(jb_cli_probe(path, 1000, &e));
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_int_lt(time(NULL) - begin, 10); /* what it left in the background is not waited for */
}
END_TEST

START_TEST(a_worker_that_answers)
{
    jb_error e = JB_ERROR_INIT;
    /* Much on stderr must not block it. */
    cJSON *o = jb_cli_probe(script("[ \"$1\" = --probe ] || exit 9\nhead -c 300000 /dev/zero >&2\necho '{\"jax\":\"0.10.2\"}'"), 20000, &e);
    ck_assert_msg(o != NULL, "%s", e.message);
    ck_assert_str_eq(jb_json_str(o, "jax", ""), "0.10.2");
    cJSON_Delete(o);
}
END_TEST

START_TEST(a_failed_executor_is_explained)
{
    jb_error e = JB_ERROR_INIT;
    jb_err(&e, JB_EIO, "executor local: the worker does not start");
    jb_err_hint(&e, "run doctor");
    jb_cli_explain_worker(script("echo 'jaxbench-worker: libpython is 3.12, was 3.11' >&2; exit 1"), &e);
    ck_assert_int_eq(e.code, JB_EIO);
    ck_assert_msg(strstr(e.message, "executor local: the worker does not start: ") && strstr(e.message, "libpython is 3.12, was 3.11"), "%s", e.message);
    jb_err(&e, JB_EIO, "executor local: lost");
    jb_cli_explain_worker(script("echo '{}'"), &e); /* it answers: nothing to add */
    ck_assert_str_eq(e.message, "executor local: lost");
}
END_TEST

START_TEST(no_worker)
{
    jb_error e = JB_ERROR_INIT;
    ck_assert_ptr_null(jb_cli_probe("/nowhere/worker", 1000, &e));
    ck_assert_int_eq(e.code, JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.hint, "JAXBENCH_WORKER"));
    ck_assert_ptr_null(jb_cli_probe(fixture_write("plain", "text"), 1000, &e));
    ck_assert_ptr_nonnull(strstr(e.message, "can't be executed"));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("probe");
    TCase *t = tcase_create("all");
    jb_json_setup();
    tcase_add_checked_fixture(t, fixture_make, fixture_remove);
    tcase_set_timeout(t, 40);
    tcase_add_loop_test(t, a_worker_that_is_no_use, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, a_worker_that_answers);
    tcase_add_test(t, a_failed_executor_is_explained);
    tcase_add_test(t, no_worker);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
