/* SPDX-License-Identifier: Apache-2.0 */
/* Suites and workloads: order, lookup, hashes, shapes resolved to numbers,
 * facts for prompts, every kind of mistake in workload.yaml with its line; and
 * the real suite, where it is there. */
#include "core/suite/suite.h"
#include "tests/study/fixture.h"

static jb_suite *open_suite(void)
{
    jb_suite *s = NULL;
    jb_error e = JB_ERROR_INIT;
    fixture_suite();
    ck_assert_msg(jb_suite_open(fixture_path("suite/s"), &s, &e) == 0, "%s: %s", e.where, e.message);
    return s;
}

START_TEST(workloads_come_in_order_and_by_any_name)
{
    static const char *const names[] = { "8p", "gemm", "8p_gemm" };
    jb_suite *s = open_suite();
    const jb_workload *w = NULL;
    jb_error e = JB_ERROR_INIT;
    ck_assert_uint_eq(jb_suite_count(s), 2);
    ck_assert_str_eq(jb_workload_id(jb_suite_at(s, 0)), "8p"); /* p before k, though 12k < 8p as text */
    ck_assert_str_eq(jb_workload_id(jb_suite_at(s, 1)), "12k");
    ck_assert_ptr_null(jb_suite_at(s, 2));
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(jb_suite_find(s, names[i], &w, &e), 0);
        ck_assert_str_eq(jb_workload_name(w), "gemm");
    }
    ck_assert_int_eq(jb_suite_find(s, "gmem", &w, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.hint, "\"gemm\""));
    ck_assert_int_eq(jb_suite_find(s, "12p", &w, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.hint, "\"12k\""));
    ck_assert_int_eq(jb_suite_find(s, "8p_gem", &w, &e), JB_ENOTFOUND);
    jb_suite_free(s);
}
END_TEST

START_TEST(versions_follow_content_and_variant)
{
    char before[2][65];
    jb_suite *s = open_suite();
    const jb_workload *w = jb_suite_at(s, 0);
    strcpy(before[0], jb_workload_version(w, "published"));
    strcpy(before[1], jb_workload_version(w, "repaired"));
    ck_assert_uint_eq(strlen(before[0]), 64);
    ck_assert_str_ne(before[0], before[1]);
    ck_assert_str_eq(jb_workload_version(w, "other"), "");
    jb_suite_free(s);
    s = open_suite();
    ck_assert_str_eq(jb_workload_version(jb_suite_at(s, 0), "published"), before[0]);
    jb_suite_free(s);
    fixture_write("suite/s/8p_gemm/workload.py", "CONFIG = {}  # changed\n");
    jb_error e = JB_ERROR_INIT;
    ck_assert_int_eq(jb_suite_open(fixture_path("suite/s"), &s, &e), 0);
    ck_assert_str_ne(jb_workload_version(jb_suite_at(s, 0), "published"), before[0]);
    ck_assert_str_ne(jb_workload_version(jb_suite_at(s, 0), "repaired"), before[1]);
    jb_suite_free(s);
}
END_TEST

START_TEST(shapes_are_resolved)
{
    jb_suite *s = open_suite();
    jb_error e = JB_ERROR_INIT;
    cJSON *o = jb_workload_resolve(jb_suite_at(s, 0), "gate", &e);
    jb_buf text = JB_BUF_INIT(1 << 16);
    ck_assert_msg(o != NULL, "%s", e.message);
    jb_json_print(o, &text);
    ck_assert_str_eq(text.ptr,
                     "{\"config\":{\"M\":128,\"K\":256,\"half\":128},\"inputs\":[{\"name\":\"A\",\"dtype\":\"bfloat16\",\"dims\":[128,256],\"role\":\"activation\","
                     "\"repaired\":{\"normal\":{\"std\":0.0625,\"mean\":0}}},{\"name\":\"B\",\"dtype\":\"float32\",\"dims\":[256,256],\"role\":\"weight\","
                     "\"repaired\":{\"uniform\":{\"low\":-1,\"high\":1}}}],\"outputs\":[{\"dtype\":\"bfloat16\",\"dims\":[128,256]}],\"flops\":16777216,\"min_bytes\":262144}");
    cJSON_Delete(o);
    ck_assert_ptr_null(jb_workload_resolve(jb_suite_at(s, 0), "gat", &e));
    ck_assert_ptr_nonnull(strstr(e.hint, "\"gate\""));
    ck_assert(jb_workload_has_shape(jb_suite_at(s, 0), "tiny"));
    ck_assert(!jb_workload_has_shape(jb_suite_at(s, 1), "tiny"));
    jb_buf_free(&text);
    jb_suite_free(s);
}
END_TEST

START_TEST(facts_name_every_key_of_the_documentation)
{
    static const char *const keys[] = { "id", "name", "summary", "formula", "signature", "inputs_table", "shapes_table", "config_table",
                                        "full_shape", "policies", "judged", "reference_source", "variant", "speed" };
    static const char *const shapes[] = { "full", "tiny" };
    jb_suite *s = open_suite();
    const jb_workload *w = jb_suite_at(s, 0);
    jb_error e = JB_ERROR_INIT;
    cJSON *f = jb_workload_facts(w, "repaired", &e), *p = jb_workload_facts_for(w, "published", shapes, 2, "JUDGED", "FAST", &e);
    ck_assert(f && p);
    ck_assert_int_eq(cJSON_GetArraySize(f), (int)(sizeof keys / sizeof *keys));
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) ck_assert_msg(jb_json_str(f, keys[i], NULL) != NULL, "no fact %s", keys[i]);
    ck_assert_str_eq(jb_json_str(f, "signature", ""), "workload(A, B)");
    ck_assert_str_eq(jb_json_str(f, "full_shape", ""), "M=1024, K=512");
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "inputs_table", ""), "A [M, K] bfloat16, activation, drawn: normal, std K^-0.5"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(p, "inputs_table", ""), "drawn: N(0, 1)"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "shapes_table", ""), "- gate (M=128, K=256): A [128, 256], B [256, 256] -> [128, 256]"));
    ck_assert_ptr_null(strstr(jb_json_str(f, "shapes_table", ""), "tiny"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(p, "shapes_table", ""), "tiny"));
    ck_assert_ptr_null(strstr(jb_json_str(p, "shapes_table", ""), "gate"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "config_table", ""), "CONFIG at gate: M=128, K=256, half=128"));
    ck_assert_str_eq(jb_json_str(p, "judged", ""), "JUDGED");
    ck_assert_str_eq(jb_json_str(p, "speed", ""), "FAST");
    ck_assert_str_eq(jb_json_str(f, "speed", ""), "Speed is not measured.");
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "variant", ""), "This is the variant `repaired`; the two variants compute the same"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(p, "variant", ""), "This is the variant `published`"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "reference_source", ""), "def workload"));
    ck_assert_int_ne(jb_json_str(f, "reference_source", "#")[0], '#');
    ck_assert_ptr_null(jb_workload_facts(w, "broken", &e));
    cJSON_Delete(f);
    cJSON_Delete(p);
    jb_suite_free(s);
}
END_TEST

/* What is replaced by what in the good file, the line and words of the error. */
static const struct { const char *from, *to; int line; const char *message, *hint; } bad[] = {
    { "schema: 1\n", "schema: 2\n", 1, "schema must be 1", "" },
    { "schema: 1\n", "\n", 2, "lacks the key \"schema\"", "" },
    { "tier: production\n", "teir: production\n", 4, "unknown key \"teir\"", "\"tier\"" },
    { "tier: production\n", "tier: productoin\n", 4, "tier can't be", "\"production\"" },
    { "role: activation", "role: input", 14, "role can't be", "activation, weight" },
    { "dtype: float32", "dtype: float23", 15, "dtype can't be", "\"float32\"" },
    { "shape: [M, K]", "shape: [M, L]", 14, "no dimension symbol \"L\"", "" },
    { "shape: [M, K]", "shape: [M, K-256]", 14, "under shape gate: \"K-256\" is 0", "" },
    { "shape: [M, K]", "shape: [M, K/3]", 14, "not a whole size", "" },
    { "shape: [M, K]", "shape: M", 14, "shape must be a list", "" },
    { "half: K/2", "half: K/(M-M)", 8, "division by zero", "" },
    { "  gate: {M: 128, K: 256}\n", "", 10, "no shape \"gate\"", "" },
    { "gate: {M: 128, K: 256}", "gate: {M: 128}", 11, "has 1 symbols, full has 2", "" },
    { "gate: {M: 128, K: 256}", "gate: {M: 128, Q: 256}", 11, "Q, which full lacks", "" },
    { "gate: {M: 128, K: 256}", "gate: {M: 128, K: 0}", 11, "at least 1", "" },
    { "gate: {M: 128, K: 256}", "gate: {M: 128, K: big}", 11, "whole number", "" },
    { "{normal: {std: K^-0.5}}", "{normal: {mean: 1}}", 14, "normal needs std", "" },
    { "{normal: {std: K^-0.5}}", "{gauss: {std: 1}}", 14, "unknown key \"gauss\"", "" },
    { "{normal: {std: K^-0.5}}", "{}", 14, "one of normal and uniform", "" },
    { "{uniform: {low: -1, high: 1}}", "{uniform: {low: -1}}", 15, "uniform needs high", "" },
    { "flops: 2*M*K*2*M", "flops: 2*M*", 19, "something is missing", "" },
    { "flops: 2*M*K*2*M", "flops: [1]", 19, "flops must be a number or an expression", "" },
    { "same_formula: true", "same_formula: yes", 21, "true or false", "" },
    { "slice_axes: 1", "slice_axes: 99", 18, "slice_axes must be a count", "" },
    { "policies:\n  - Rows are independent.", "policies: Rows are independent.", 22, "policies must be a list", "" },
    { "outputs:\n  - {shape: [M, 2*M], dtype: bfloat16}", "outputs: []", 16, "at least one row", "" },
    { "id: 8p", "id: 9p", 0, "holds the workload 9p_gemm", "rename the folder" },
    { "id: 8p", "id: [8p]", 2, "expected a string", "" },
};

START_TEST(mistakes_are_named_with_their_line)
{
    jb_suite *s = NULL;
    jb_error e = JB_ERROR_INIT;
    char where[16];
    fixture_suite();
    char *text = fixture_edit(FIXTURE_WORKLOAD, bad[_i].from, bad[_i].to);
    fixture_write("suite/s/8p_gemm/workload.yaml", text);
    int status = jb_suite_open(fixture_path("suite/s"), &s, &e);
    ck_assert_msg(status == JB_EINVAL || status == JB_EPARSE, "%d", status);
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_msg(strstr(e.hint, bad[_i].hint) != NULL, "\"%s\" lacks \"%s\"", e.hint, bad[_i].hint);
    snprintf(where, sizeof where, "yaml:%d", bad[_i].line);
    if (bad[_i].line) ck_assert_msg(strstr(e.where, where) && e.where[strlen(e.where) - strlen(where)] == 'y', "\"%s\" is not line %d", e.where, bad[_i].line);
    free(text);
}
END_TEST

START_TEST(missing_files_and_folders)
{
    jb_suite *s = NULL;
    jb_error e = JB_ERROR_INIT;
    ck_assert_int_eq(jb_suite_open(fixture_path("none"), &s, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.message, "none"));
    fixture_suite();
    unlink(fixture_path("suite/s/8p_gemm/workload.py"));
    ck_assert_int_eq(jb_suite_open(fixture_path("suite/s"), &s, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.message, "workload.py"));
}
END_TEST

START_TEST(two_of_an_id_are_refused)
{
    jb_suite *s = NULL;
    jb_error e = JB_ERROR_INIT;
    fixture_suite();
    char *text = fixture_edit(FIXTURE_WORKLOAD, "name: gemm", "name: again");
    fixture_write("suite/s/8p_again/workload.yaml", text);
    fixture_write("suite/s/8p_again/workload.py", FIXTURE_PY);
    ck_assert_int_eq(jb_suite_open(fixture_path("suite/s"), &s, &e), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(e.message, "two workloads have the id 8p"));
    free(text);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char dir[128];
    fixture_suite();
    snprintf(dir, sizeof dir, "%s", fixture_path("suite/s"));
    for (long n = 1;; n++) {
        jb_suite *s = NULL;
        jb_error e = JB_ERROR_INIT;
        cJSON *resolved = NULL, *facts = NULL;
        jb_mem_fail_after(n, 1);
        int status = jb_suite_open(dir, &s, &e);
        if (!status) resolved = jb_workload_resolve(jb_suite_at(s, 0), "gate", &e);
        if (resolved) facts = jb_workload_facts(jb_suite_at(s, 0), "repaired", &e);
        jb_mem_fail_after(0, 0);
        int done = facts != NULL;
        cJSON_Delete(resolved);
        cJSON_Delete(facts);
        jb_suite_free(status ? NULL : s);
        if (done) break;
        ck_assert_int_lt(n, 100000);
    }
}
END_TEST

START_TEST(the_real_suite_resolves_at_every_shape)
{
    char *dir = jb_asprintf("%s/suite/jaxbench", JB_SOURCE_DIR);
    jb_suite *s = NULL;
    jb_error e = JB_ERROR_INIT;
    ck_assert_msg(jb_suite_open(dir, &s, &e) == 0, "%s: %s", e.where, e.message);
    ck_assert_uint_gt(jb_suite_count(s), 0);
    for (size_t i = 0; i < jb_suite_count(s); i++) {
        const jb_workload *w = jb_suite_at(s, i);
        const cJSON *shape;
        cJSON_ArrayForEach(shape, jb_json_obj(jb_workload_spec(w), "shapes"))
        {
            cJSON *o = jb_workload_resolve(w, shape->string, &e);
            ck_assert_msg(o != NULL, "%s: %s", jb_workload_id(w), e.message);
            ck_assert_double_gt(jb_json_num(o, "flops", 0), 0);
            ck_assert_double_gt(jb_json_num(o, "min_bytes", 0), 0);
            cJSON_Delete(o);
        }
        cJSON *facts = jb_workload_facts(w, "repaired", &e);
        ck_assert_msg(facts != NULL, "%s", e.message);
        cJSON_Delete(facts);
    }
    jb_suite_free(s);
    jb_free(dir);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("workload");
    TCase *t = tcase_create("all");
    jb_json_setup();
    tcase_add_checked_fixture(t, fixture_make, fixture_remove);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, workloads_come_in_order_and_by_any_name);
    tcase_add_test(t, versions_follow_content_and_variant);
    tcase_add_test(t, shapes_are_resolved);
    tcase_add_test(t, facts_name_every_key_of_the_documentation);
    tcase_add_loop_test(t, mistakes_are_named_with_their_line, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, missing_files_and_folders);
    tcase_add_test(t, two_of_an_id_are_refused);
    tcase_add_test(t, every_allocation_may_fail);
    tcase_add_test(t, the_real_suite_resolves_at_every_shape);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
