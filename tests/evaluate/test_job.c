/* SPDX-License-Identifier: Apache-2.0 */
/* tests/evaluate/test_job.c - the job of a real workload under the real gate
 * sets, what overrides do to it, what its key depends on; and records put together. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/evaluate/job.h"
#include "core/evaluate/merge.h"

#include <check.h>
#include <jaxbench/checker.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jb_suite *suite;
static const jb_workload *gemm;
static jb_gateset *sets[2];
static jb_error err;

static void setup(void)
{
    jb_json_setup();
    err = (jb_error)JB_ERROR_INIT;
    ck_assert_msg(jb_suite_open(JB_SOURCE_DIR "/suite/jaxbench", &suite, &err) == 0, "%s", err.message);
    ck_assert_msg(jb_suite_find(suite, "8p", &gemm, &err) == 0, "%s", err.message);
    ck_assert_msg(jb_gateset_open(JB_SOURCE_DIR "/suite/gates/literature.yaml", &sets[0], &err) == 0, "%s", err.message);
    ck_assert_msg(jb_gateset_open(JB_SOURCE_DIR "/suite/gates/robust.yaml", &sets[1], &err) == 0, "%s", err.message);
}

static void teardown(void)
{
    jb_gateset_free(sets[0]);
    jb_gateset_free(sets[1]);
    jb_suite_free(suite);
}

static cJSON *build(const jb_job_settings *s)
{
    cJSON *job = NULL;
    int rc = jb_job_build(gemm, (const jb_gateset *const *)sets, 2, s, &job, &err);
    ck_assert_msg(rc == 0, "%d %s", rc, err.message);
    return job;
}

static const char *nth(const cJSON *array, int i)
{
    const cJSON *v = cJSON_GetArrayItem(array, i);
    return cJSON_IsString(v) ? v->valuestring : "(none)";
}

START_TEST(defaults)
{
    jb_job_settings s = { .seed = "7" };
    cJSON *job = build(&s);
    ck_assert_str_eq(jb_json_str(job, "last_stage", ""), "check");
    ck_assert_str_eq(jb_json_str(job, "phase", ""), "loop");
    ck_assert_str_eq(jb_json_str(job, "timed_shape", ""), "full");
    ck_assert_str_eq(jb_json_str(job, "isolation", ""), "required");
    ck_assert_str_eq(nth(jb_json_obj(job, "check_shapes"), 0), "gate");
    ck_assert_ptr_nonnull(jb_json_path(job, "workload.shapes.full.inputs"));
    ck_assert_ptr_nonnull(jb_json_path(job, "workload.shapes.gate.outputs"));
    ck_assert_str_eq(jb_json_str(jb_json_path(job, "workload.versions"), "repaired", ""), jb_workload_version(gemm, "repaired"));
    ck_assert_double_eq(jb_json_num(jb_json_obj(job, "limits"), "trace_s", 0), 60);
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(job, "gates")), 2);
    ck_assert_int_eq(jb_job_has_final(job), 1);
    cJSON_Delete(job);
}
END_TEST

START_TEST(overrides)
{
    static const char *const skip[] = { "compile", "compile" };
    cJSON *limits = jb_json_parse("{\"trace_s\":15}", 14, &err);
    jb_job_settings s = { .check_shape = "tiny", .variant = "published", .last_stage = "inspect", .skip = skip, .skip_count = 2,
                          .phase = "all", .limits = limits, .isolation = "best-effort", .store = "/store", .seed = "7" };
    cJSON *job = build(&s);
    const cJSON *set, *row;
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(job, "check_shapes")), 1);
    ck_assert_str_eq(nth(jb_json_obj(job, "check_shapes"), 0), "tiny");
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(job, "skip")), 1);
    ck_assert_double_eq(jb_json_num(jb_json_obj(job, "limits"), "trace_s", 0), 15);
    ck_assert_double_eq(jb_json_num(jb_json_obj(job, "limits"), "compile_s", 0), 300);
    cJSON_ArrayForEach(set, jb_json_obj(job, "gates"))
    {
        ck_assert_str_eq(jb_json_str(set, "variant", ""), "published");
        cJSON_ArrayForEach(row, jb_json_obj(set, "rows"))
        {
            if (!jb_json_obj(row, "over")) continue;
            ck_assert_int_eq(cJSON_GetArraySize(jb_json_path(row, "over.shapes")), 1);
            ck_assert_str_eq(nth(jb_json_path(row, "over.shapes"), 0), "tiny");
        }
    }
    cJSON_Delete(job);
    cJSON_Delete(limits);
}
END_TEST

static const struct { const char *name; jb_job_settings s; const char *limits, *words, *hint; } BAD[] = {
    { "shape", { .check_shape = "tinny" }, NULL, "tinny", "tiny" },
    { "timed shape", { .timed_shape = "huge" }, NULL, "huge", "full" },
    { "stage", { .last_stage = "compil" }, NULL, "compil", "compile" },
    { "limit", { .phase = "loop" }, "{\"trace\":1}", "trace", "trace_s" },
    { "limit of zero", { .phase = "loop" }, "{\"trace_s\":0}", "limit trace_s must be 5 to 999999, not 0", "default is 60" },
    { "limit as text", { .phase = "loop" }, "{\"trace_s\":\"x\"}", "must be 5 to", "" },
    { "limit below its least", { .phase = "loop" }, "{\"memory_mb\":1}", "limit memory_mb must be 512 to", "a right kernel would fail too" },
    { "limit beyond its most", { .phase = "loop" }, "{\"memory_mb\":1e6}", "must be 512 to 999999", "" },
};

START_TEST(bad_settings_are_named)
{
    jb_job_settings s = BAD[_i].s;
    cJSON *job = NULL, *limits = BAD[_i].limits ? jb_json_parse(BAD[_i].limits, strlen(BAD[_i].limits), &err) : NULL;
    s.limits = limits;
    ck_assert_int_eq(jb_job_build(gemm, (const jb_gateset *const *)sets, 2, &s, &job, &err), JB_EINVAL);
    ck_assert_msg(strstr(err.message, BAD[_i].words) != NULL, "%s: %s", BAD[_i].name, err.message);
    ck_assert_msg(strstr(err.hint, BAD[_i].hint) != NULL, "%s: hint %s", BAD[_i].name, err.hint);
    ck_assert_ptr_null(job);
    cJSON_Delete(limits);
}
END_TEST

START_TEST(keys_of_draws)
{
    jb_job_settings a = { .seed = "7" }, b = { .seed = "8" };
    cJSON *x = build(&a), *y = build(&b);
    const cJSON *kx = jb_json_obj(x, "keys"), *ky = jb_json_obj(y, "keys");
    ck_assert_str_eq(jb_json_str(kx, "loop", ""), JB_LOOP_DRAWS);
    ck_assert_str_eq(jb_json_str(ky, "loop", ""), JB_LOOP_DRAWS); /* the same for every study: references are shared */
    ck_assert_uint_eq(strlen(jb_json_str(kx, "final", "")), 64);
    ck_assert_str_ne(jb_json_str(kx, "final", ""), jb_json_str(ky, "final", ""));
    ck_assert_ptr_null(strstr(jb_json_str(kx, "final", ""), "loop"));
    cJSON_Delete(x);
    cJSON_Delete(y);
}
END_TEST

START_TEST(what_the_key_depends_on)
{
    char a[JB_HASH_HEX], b[JB_HASH_HEX];
    jb_job_settings s = { .seed = "7", .store = "/one" }, moved = { .seed = "7", .store = "/two" }, other = { .seed = "8" };
    cJSON *one = build(&s), *two = build(&moved), *three = build(&other), *until = jb_job_until(one, "inspect");
    ck_assert_int_eq(jb_job_key(one, "src", a), 0);
    ck_assert_int_eq(jb_job_key(two, "src", b), 0);
    ck_assert_str_eq(a, b); /* where modules are kept changes no verdict */
    ck_assert_int_eq(jb_job_key(one, "other", b), 0);
    ck_assert_str_ne(a, b);
    ck_assert_int_eq(jb_job_key(three, "src", b), 0);
    ck_assert_str_ne(a, b);
    ck_assert_int_eq(jb_job_key(until, "src", b), 0);
    ck_assert_str_ne(a, b);
    cJSON_Delete(one);
    cJSON_Delete(two);
    cJSON_Delete(three);
    cJSON_Delete(until);
}
END_TEST

START_TEST(final_jobs_take_modules_from_the_store)
{
    char dir[] = "/tmp/jb-store-XXXXXX", hash[65], record[300], path[200];
    int needs_source = 0;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    jb_job_settings s = { .seed = "7", .store = dir, .phase = "loop" };
    cJSON *job = build(&s);
    memset(hash, 'a', 64);
    hash[64] = 0;
    int n = snprintf(record, sizeof record, "{\"stages\":{\"export\":{\"modules\":[{\"shape\":\"gate\",\"platform\":\"cpu\",\"sha256\":\"%s\"}]}}}", hash);
    cJSON *r = jb_json_parse(record, (size_t)n, &err);
    cJSON *final = jb_job_final(job, r, &needs_source);
    ck_assert_int_eq(needs_source, 1); /* the store does not hold it */
    ck_assert_ptr_null(jb_json_obj(final, "modules"));
    ck_assert_str_eq(jb_json_str(final, "phase", ""), "final");
    cJSON_Delete(final);
    snprintf(path, sizeof path, "%s/%s", dir, hash);
    ck_assert_int_eq(jb_fs_write_atomic(path, "x", 1, &err), 0);
    final = jb_job_final(job, r, &needs_source);
    ck_assert_int_eq(needs_source, 0);
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(final, "modules")), 1);
    cJSON_Delete(final);
    cJSON_Delete(r);
    final = jb_job_final(job, NULL, &needs_source);
    ck_assert_int_eq(needs_source, 1);
    cJSON_Delete(final);
    cJSON_Delete(job);
    jb_fs_remove_tree(dir, &err);
}
END_TEST

START_TEST(allocation_failures)
{
    jb_job_settings s = { .seed = "7" };
    for (long n = 1; n < 3000; n += n < 100 ? 1 : 37) {
        cJSON *job = NULL;
        jb_error e = JB_ERROR_INIT;
        jb_mem_fail_after(n, 0);
        int rc = jb_job_build(gemm, (const jb_gateset *const *)sets, 2, &s, &job, &e);
        jb_mem_fail_after(0, 0);
        ck_assert_msg(rc != 0 || job != NULL, "allocation %ld: no error and no job", n);
        cJSON_Delete(job);
    }
}
END_TEST

/* ---- records --------------------------------------------------------------------------- */

static cJSON *parse(const char *text)
{
    cJSON *o = jb_json_parse(text, strlen(text), &err);
    ck_assert_msg(o != NULL, "%s", err.message);
    return o;
}

static void same_json(const cJSON *o, const char *expected)
{
    jb_buf b = JB_BUF_INIT(1u << 20);
    ck_assert_int_eq(jb_json_print(o, &b), 0);
    ck_assert_str_eq(b.ptr, expected);
    jb_buf_free(&b);
}

START_TEST(extract_goes_in_front)
{
    jb_extract_facts x = { JB_OUTCOME_OK, "", 3, 2 };
    cJSON *record = parse("{\"schema\":1,\"stages\":{\"extract\":{\"forged\":1},\"trace\":{\"status\":\"ok\"}},\"cost\":{}}");
    cJSON *whole = jb_record_with_extract(record, &x);
    same_json(whole, "{\"schema\":1,\"cost\":{},\"stages\":{\"extract\":{\"status\":\"ok\",\"blocks\":3,\"chosen\":2},\"trace\":{\"status\":\"ok\"}}}");
    cJSON_Delete(whole);
    cJSON_Delete(record);
    x = (jb_extract_facts){ JB_OUTCOME_NO_CODE, "prose", 0, -1 };
    whole = jb_record_with_extract(NULL, &x);
    jb_judgement j;
    jb_judge_record(whole, "robust", JB_STAGE_CHECK, &j);
    ck_assert_uint_eq(j.outcome, JB_OUTCOME_NO_CODE);
    ck_assert_str_eq(j.reason, "extract: prose");
    ck_assert_str_eq(jb_json_str(jb_json_path(whole, "stages.check"), "status", ""), "skipped");
    cJSON_Delete(whole);
}
END_TEST

START_TEST(a_record_without_stages_stays_malformed)
{
    jb_extract_facts x = { JB_OUTCOME_OK, "", 1, 0 };
    cJSON *record = parse("{\"schema\":1,\"stages\":{}}"), *whole = jb_record_with_extract(record, &x);
    jb_judgement j;
    jb_judge_record(whole, "robust", JB_STAGE_CHECK, &j);
    ck_assert_uint_eq(j.outcome, JB_OUTCOME_INFRA);
    cJSON_Delete(whole);
    cJSON_Delete(record);
}
END_TEST

#define FINAL_OF(v, rest) "{\"schema\":1,\"stages\":{\"inspect\":{\"status\":\"ok\"},\"check\":{\"status\":\"ok\"}},\"gates\":{\"robust\":{\"verdict\":\"" v "\"" rest "}}}"
static const struct { const char *final; uint32_t verdict; const char *set; } FINALS[] = {
    { FINAL_OF("pass", ",\"rows\":[{\"use\":\"e\"}]"), JB_VERDICT_PASS, "pass" },
    { FINAL_OF("fail", ",\"rows\":[{\"use\":\"e\"}],\"killer\":{\"gate\":\"e\"}"), JB_VERDICT_FAIL, "fail" },
    { FINAL_OF("inconclusive", ",\"rows\":[{\"use\":\"e\"}]"), JB_VERDICT_INCONCLUSIVE, "inconclusive" },
    { "{\"schema\":1,\"stages\":{\"check\":{\"status\":\"timeout\"}}}", JB_VERDICT_FAIL, "pass" },
    { "{\"schema\":1,\"stages\":{\"check\":{\"status\":\"infra\"}}}", JB_VERDICT_INCONCLUSIVE, "pass" },
};

START_TEST(final_rows_merge)
{
    jb_job_settings s = { .seed = "7" };
    cJSON *job = build(&s), *final = parse(FINALS[_i].final);
    cJSON *record = parse("{\"gates\":{\"robust\":{\"verdict\":\"pass\",\"rows\":[{\"use\":\"a\"}]}}}");
    jb_judgement j;
    ck_assert_uint_eq(jb_record_final_verdict(final, job, "robust", &j), FINALS[_i].verdict);
    ck_assert_int_eq(jb_record_merge_final(record, final, FINALS[_i].verdict, j.reason), 0);
    const cJSON *set = jb_json_path(record, "gates.robust");
    ck_assert_str_eq(jb_json_str(set, "verdict", ""), FINALS[_i].set);
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(set, "rows")), jb_json_path(final, "gates.robust") ? 2 : 1);
    ck_assert_str_eq(jb_json_str(jb_json_obj(record, "final"), "verdict", ""), jb_verdict_name(FINALS[_i].verdict));
    cJSON_Delete(job);
    cJSON_Delete(final);
    cJSON_Delete(record);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("job");
    TCase *c = tcase_create("job");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, defaults);
    tcase_add_test(c, overrides);
    tcase_add_loop_test(c, bad_settings_are_named, 0, (int)(sizeof BAD / sizeof BAD[0]));
    tcase_add_test(c, keys_of_draws);
    tcase_add_test(c, what_the_key_depends_on);
    tcase_add_test(c, final_jobs_take_modules_from_the_store);
    tcase_add_test(c, allocation_failures);
    tcase_add_test(c, extract_goes_in_front);
    tcase_add_test(c, a_record_without_stages_stays_malformed);
    tcase_add_loop_test(c, final_rows_merge, 0, (int)(sizeof FINALS / sizeof FINALS[0]));
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
