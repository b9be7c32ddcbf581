/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs list, show, validate, plugin, clean and doctor on an installation
 * made by the test: their --json forms are contracts. */
#include "core/cli/cli.h"
#include "tests/study/fixture.h"

#include <fcntl.h>
#include <sys/file.h>

static const jb_cli_verb *const verbs[] = { &jb_verb_list, &jb_verb_show, &jb_verb_validate, &jb_verb_plugin, &jb_verb_clean, &jb_verb_doctor };
static char *out_text, *err_text;

static void make(void)
{
    fixture_make();
    fixture_suite();
    fixture_compile("p/all.so", FIXTURE_PLUGIN);
    fixture_write("p/bon/prompt.md", "Task {{id}}: {{signature}} at {{shapes_table}}. {{judged}}\n");
    fixture_write("p/broken.so", "text\n");
    fixture_write("study.yaml", "schema: 1\nname: t\nsuites: [s]\nmethods: [{use: solo}]\ngates: [robust]\n");
    setenv("JAXBENCH_SUITE", fixture_path("suite"), 1);
    setenv("JAXBENCH_PLUGIN_PATH", fixture_path("p"), 1);
    setenv("JAXBENCH_CACHE", fixture_path("cache"), 1);
    setenv("JAXBENCH_WORKER", fixture_path("no-worker"), 1);
    ck_assert_int_eq(chdir(fixture_dir), 0);
}

static void unmake(void)
{
    free(out_text);
    free(err_text);
    out_text = err_text = NULL;
    ck_assert_int_eq(chdir("/"), 0);
    fixture_remove();
}

static int run(const char *line)
{
    char copy[400], program[] = "jaxbench";
    char *argv[32] = { program };
    int argc = 1;
    size_t n;
    free(out_text);
    free(err_text);
    FILE *out = open_memstream(&out_text, &n), *err = open_memstream(&err_text, &n);
    snprintf(copy, sizeof copy, "%s", line);
    for (char *s = strtok(copy, " "); s && argc < 32; s = strtok(NULL, " ")) argv[argc++] = s;
    int code = jb_cli_main(argc, argv, verbs, sizeof verbs / sizeof *verbs, out, err);
    fclose(out);
    fclose(err);
    return code;
}

static cJSON *run_json(const char *line, int expected)
{
    int code = run(line);
    ck_assert_msg(code == expected, "%s: exit %d: %s", line, code, err_text);
    cJSON *o = cJSON_Parse(out_text);
    ck_assert_msg(o != NULL, "%s: %s", line, out_text);
    return o;
}

static const struct { const char *kind, *first, *key; int count; } kinds[] = {
    { "workloads", "gemm", "versions", 2 }, { "suites", "s", "workloads", 1 },       { "methods", "bon", "summary", 2 },
    { "backends", "fake", "plugin", 2 },    { "checkers", "chk", "version", 1 },     { "timers", "tick", "kind", 1 },
    { "executors", "local", "kind", 1 },    { "gates", "lax", "variant", 2 },        { "plugins", "test.all", "components", 2 },
};

START_TEST(list_of_every_kind)
{
    char line[80];
    snprintf(line, sizeof line, "list %s --json", kinds[_i].kind);
    cJSON *o = run_json(line, 0);
    /* The plugins of the build tree may be there too, after those of the test. */
    ck_assert_int_ge(cJSON_GetArraySize(o), kinds[_i].count);
    const cJSON *row, *ours = NULL;
    cJSON_ArrayForEach(row, o)
    {
        ck_assert_ptr_nonnull(jb_json_str(row, "name", NULL));
        if (!strcmp(jb_json_str(row, "name", ""), kinds[_i].first)) ours = row;
    }
    ck_assert_ptr_nonnull(cJSON_GetObjectItem(ours, kinds[_i].key));
    cJSON_Delete(o);
    snprintf(line, sizeof line, "list %s", kinds[_i].kind);
    ck_assert_int_eq(run(line), 0);
    ck_assert_ptr_nonnull(strstr(out_text, kinds[_i].first));
}
END_TEST

START_TEST(list_workloads_is_the_contract)
{
    cJSON *o = run_json("list workloads --json", 0), *row = cJSON_GetArrayItem(o, 0);
    ck_assert_str_eq(jb_json_str(row, "id", ""), "8p");
    ck_assert_str_eq(jb_json_str(row, "tier", ""), "production");
    ck_assert_uint_eq(strlen(jb_json_str(jb_json_obj(row, "versions"), "published", "")), 64);
    ck_assert_str_ne(jb_json_str(jb_json_obj(row, "versions"), "published", ""), jb_json_str(jb_json_obj(row, "versions"), "repaired", ""));
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(row, "shapes")), 3);
    ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(row, "expert")));
    cJSON_Delete(o);
}
END_TEST

START_TEST(list_alone_and_misspelt)
{
    ck_assert_int_eq(run("list"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "8p 12k"));
    ck_assert_int_eq(run("list wrokloads"), 2);
    ck_assert_ptr_nonnull(strstr(err_text, "\"workloads\""));
    cJSON *o = run_json("list --json", 0);
    ck_assert_ptr_nonnull(cJSON_GetObjectItem(o, "checkers"));
    cJSON_Delete(o);
    ck_assert_int_eq(run("list runs"), 0);
    ck_assert_str_eq(out_text, "no runs\n");
}
END_TEST

START_TEST(a_broken_suite_says_where)
{
    fixture_write("suite/s/8p_gemm/workload.yaml", "schema: 1\nid: 8p\nnaem: gemm\n");
    ck_assert_int_eq(run("list workloads"), 2);
    ck_assert_ptr_nonnull(strstr(err_text, "workload.yaml:3: unknown key \"naem\""));
    ck_assert_ptr_nonnull(strstr(err_text, "\"name\""));
}
END_TEST

static const struct { const char *line, *out; } shows[] = {
    { "show workload 8p", "bfloat16[1024, 512]" },
    { "show workload gemm", "Rows are independent." },
    { "show workload 8p_gemm --json", "\"resolved\"" },
    { "show method bon", "samples" },
    { "show method bon --json", "\"choices\"" },
    { "show checker chk", "about temperature" },
    { "show gates robust", "`robust`" },
    { "show gate robust --json", "\"hash\"" },
    { "show suite s", "8p_gemm" },
    { "show plugin test.all", "1.2.3" },
    { "show plugin test.all --json", "\"sha256\"" },
    { "show plugin broken.so", "refused" },
    { "show workload 8p --prompt --method bon", "Task 8p: workload(A, B) at - full (M=1024, K=512)" },
    { "show workload 8p --prompt --method bon --gates lax --json", "\"prompt\"" },
    { "plugin list", "broken.so" },
    { "plugin list --hash --json", "\"sha256\"" },
    { "validate study.yaml", "is valid: 2 cells" },
    { "validate study.yaml --cells", "12k+solo+none+s0" },
    { "validate study.yaml --json", "\"hash\"" },
    { "clean", "below ./runs" },
};

START_TEST(shown)
{
    ck_assert_msg(run(shows[_i].line) == 0, "%s: %s", shows[_i].line, err_text);
    ck_assert_msg(strstr(out_text, shows[_i].out) != NULL, "%s lacks \"%s\":\n%s", shows[_i].line, shows[_i].out, out_text);
}
END_TEST

static const struct { const char *line, *said; } refusals[] = {
    { "show workload 8q", "\"8p\"" },
    { "show method bno", "\"bon\"" },
    { "show gates rubust", "\"robust\"" },
    { "show suite t", "known: s" },
    { "show plugin test.al", "\"test.all\"" },
    { "show wrokload 8p", "\"workload\"" },
    { "show method bon --prompt", "--prompt is for workloads" },
    { "show run nowhere", "list runs" },
    { "show workload 8p --prompt --method solo", "prompt.md" },
    { "plugin lst", "unknown action" },
    { "validate nowhere.yaml", "nowhere.yaml" },
    { "validate study.yaml --only zz*", "zz*" },
    { "validate study.yaml --set gates=[rubust]", "--set gates=[rubust]" },
};

START_TEST(a_gate_set_named_twice_counts_once)
{
    ck_assert_msg(run("show workload 8p --prompt --method bon --gates lax,lax --gates lax") == 0, "%s", err_text);
    const char *first = strstr(out_text, "Gates `lax`");
    ck_assert_ptr_nonnull(first);
    ck_assert_ptr_null(strstr(first + 1, "Gates `lax`"));
}
END_TEST

START_TEST(refused)
{
    ck_assert_msg(run(refusals[_i].line) == 2, "%s", refusals[_i].line);
    ck_assert_msg(strstr(err_text, refusals[_i].said) != NULL, "\"%s\" lacks \"%s\"", err_text, refusals[_i].said);
}
END_TEST

START_TEST(a_prompt_with_an_unknown_key_names_it)
{
    fixture_write("p/bon/prompt.md", "one\ntwo {{singature}}\n");
    ck_assert_int_eq(run("show workload 8p --prompt --method bon"), 2);
    ck_assert_ptr_nonnull(strstr(err_text, "prompt.md:2: the template uses the unknown key {{singature}}"));
    ck_assert_ptr_nonnull(strstr(err_text, "{{signature}}"));
}
END_TEST

START_TEST(clean_removes_what_it_is_told_to)
{
    fixture_write("runs/one/manifest.json", "{\"study\":{\"name\":\"t\"}}");
    fixture_write("runs/held/manifest.json", "{}");
    fixture_write("runs/held/lock", "");
    fixture_write("runs/other/notes.txt", "not a run");
    fixture_write("cache/refs/a.ref", "x");
    fixture_write("cache/selftest-1.json", "x");
    fixture_write("cache/mine.txt", "not ours");
    int fd = open(fixture_path("runs/held/lock"), O_RDWR);
    ck_assert_int_eq(flock(fd, LOCK_EX | LOCK_NB), 0);
    ck_assert_int_eq(run("list runs"), 0);
    ck_assert_ptr_nonnull(strstr(out_text, "runs/one"));
    ck_assert_ptr_null(strstr(out_text, "runs/other"));
    ck_assert_int_eq(run("clean --runs --cache --no-input"), 2); /* not without being told twice */
    ck_assert_ptr_nonnull(strstr(err_text, "--yes"));
    cJSON *o = run_json("clean --runs --cache --dry-run --json", 0);
    ck_assert_double_gt(jb_json_num(o, "freed_bytes", 0), 0);
    cJSON_Delete(o);
    ck_assert(jb_fs_exists(fixture_path("runs/one/manifest.json")));
    ck_assert_int_eq(run("clean --runs --cache --yes"), 0);
    ck_assert_ptr_nonnull(strstr(err_text, "runs/held is in use"));
    static const struct { const char *path; int there; } after[] = {
        { "runs/one", 0 }, { "runs/held/manifest.json", 1 }, { "runs/other/notes.txt", 1 }, { "cache/refs", 0 }, { "cache/selftest-1.json", 0 }, { "cache/mine.txt", 1 },
    };
    for (size_t i = 0; i < sizeof after / sizeof *after; i++) ck_assert_msg(jb_fs_exists(fixture_path(after[i].path)) == after[i].there, "%s", after[i].path);
    close(fd);
}
END_TEST

START_TEST(doctor_names_faults_and_what_to_do)
{
    cJSON *o = run_json("doctor --json", 7);
    int worker = 0, broken = 0;
    const cJSON *row;
    cJSON_ArrayForEach(row, jb_json_obj(o, "checks"))
    {
        worker |= !strcmp(jb_json_str(row, "name", ""), "worker") && !strcmp(jb_json_str(row, "status", ""), "fail") && strstr(jb_json_str(row, "hint", ""), "JAXBENCH_WORKER");
        broken |= !strcmp(jb_json_str(row, "name", ""), "plugin") && strstr(jb_json_str(row, "text", ""), "broken.so");
    }
    ck_assert(worker && broken);
    cJSON_Delete(o);
    ck_assert_int_eq(run("doctor --no-worker"), 0); /* warnings block nothing */
    ck_assert_ptr_nonnull(strstr(out_text, "warn"));
}
END_TEST

START_TEST(doctor_reads_the_workers_answer)
{
    const char *path = fixture_write("worker", "#!/bin/sh\necho '{\"python\":\"3.11.7\",\"jax\":\"0.10.2\",\"jaxlib\":\"0.10.2\",\"libtpu\":null,\"numpy\":\"2\","
                                               "\"isolation\":{\"net_ns\":true,\"landlock\":false,\"errors\":{\"landlock\":\"ENOSYS\"}},\"isolation_missing\":\"landlock\","
                                               "\"selftest\":{\"interpret\":\"ok\",\"tpu_compile\":false,\"error\":\"no libtpu\"}}'\n");
    ck_assert_int_eq(chmod(path, 0755), 0);
    setenv("JAXBENCH_WORKER", path, 1);
    ck_assert_int_eq(run("doctor"), 7);
    static const char *const expected[] = { "jax          0.10.2", "the required layer landlock is missing", "landlock is off: ENOSYS", "no TPU compiler", "best-effort" };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) ck_assert_msg(strstr(out_text, expected[i]) != NULL, "no \"%s\" in\n%s", expected[i], out_text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("verbs");
    /* Tests that only look share one installation; the others get their own. */
    TCase *t = tcase_create("looking"), *u = tcase_create("changing");
    jb_json_setup();
    tcase_add_unchecked_fixture(t, make, unmake);
    tcase_add_checked_fixture(u, make, unmake);
    tcase_set_timeout(t, 60);
    tcase_set_timeout(u, 60);
    tcase_add_loop_test(t, list_of_every_kind, 0, sizeof kinds / sizeof *kinds);
    tcase_add_test(t, list_workloads_is_the_contract);
    tcase_add_test(t, list_alone_and_misspelt);
    tcase_add_test(u, a_broken_suite_says_where);
    tcase_add_test(t, a_gate_set_named_twice_counts_once);
    tcase_add_loop_test(t, shown, 0, sizeof shows / sizeof *shows);
    tcase_add_loop_test(t, refused, 0, sizeof refusals / sizeof *refusals);
    tcase_add_test(u, a_prompt_with_an_unknown_key_names_it);
    tcase_add_test(u, clean_removes_what_it_is_told_to);
    tcase_add_test(u, doctor_names_faults_and_what_to_do);
    tcase_add_test(u, doctor_reads_the_workers_answer);
    suite_add_tcase(s, t);
    suite_add_tcase(s, u);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
