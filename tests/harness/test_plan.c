/* SPDX-License-Identifier: Apache-2.0 */
/* From gate sets to trials: what is shared, in which order, under which key. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "harness/plan.h"
#include "harness/refs.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char JOB[] =
    "{\"schema\":1,\"workload\":{\"id\":\"8p\",\"name\":\"gemm\",\"dir\":\"/suite/8p\",\"versions\":{\"published\":\"vp\",\"repaired\":\"vr\"},"
    "\"shapes\":{\"full\":{},\"gate\":{\"config\":{\"M\":1}}},\"scales\":{\"outlier\":0.5}},\"check_shapes\":[\"gate\"],\"phase\":\"all\","
    "\"keys\":{\"loop\":\"KL\",\"final\":\"KF\"},\"gates\":["
    "{\"name\":\"literature\",\"variant\":\"published\",\"rows\":[{\"use\":\"allclose\",\"when\":\"loop\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"published\":1}}}]},"
    "{\"name\":\"robust\",\"variant\":\"repaired\",\"rows\":["
    "{\"use\":\"error_ratio\",\"options\":{\"max\":1.25},\"when\":\"final\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"own\":3}}},"
    "{\"use\":\"shape_dtype\",\"when\":\"loop\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"own\":1}}},"
    "{\"use\":\"error_ratio\",\"when\":\"loop\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"tiny\":1,\"zeros\":1,\"outlier\":1,\"own\":1}}},"
    "{\"use\":\"coverage\",\"when\":\"loop\"}]}]}";

static cJSON *job;

static void set_up(void)
{
    jb_error err = JB_ERROR_INIT;
    job = jb_json_parse(JOB, strlen(JOB), &err);
    ck_assert_msg(job != NULL, "%s", err.message);
}

static void tear_down(void) { cJSON_Delete(job); }

static void set_phase(const char *phase) { cJSON_ReplaceItemInObjectCaseSensitive(job, "phase", cJSON_CreateString(phase)); }

START_TEST(trials_are_shared_and_ordered)
{
    static const struct { const char *when, *distribution, *variant; uint32_t draw; } want[] = {
        { "loop", "published", "published", 0 }, { "loop", "own", "repaired", 0 },  { "loop", "outlier", "repaired", 0 }, { "loop", "tiny", "repaired", 0 },
        { "loop", "zeros", "repaired", 0 },      { "final", "own", "repaired", 0 }, { "final", "own", "repaired", 1 },    { "final", "own", "repaired", 2 },
    };
    jb_plan p;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_plan_build(job, &p, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(p.trial_count, sizeof want / sizeof want[0]);
    for (uint32_t i = 0; i < p.trial_count; i++) {
        ck_assert_str_eq(p.trials[i].when, want[i].when);
        ck_assert_str_eq(p.trials[i].distribution, want[i].distribution);
        ck_assert_str_eq(p.trials[i].variant, want[i].variant);
        ck_assert_uint_eq(p.trials[i].draw, want[i].draw);
    }
    ck_assert_uint_eq(p.set_count, 2);
    ck_assert_uint_eq(p.row_count, 5);
    ck_assert_uint_eq(p.rows[2].trial_count, 1); /* shape_dtype shares own with error_ratio */
    ck_assert_uint_eq(p.rows[2].trials[0], 1);
    ck_assert_uint_eq(p.rows[3].trial_count, 4);
    ck_assert_uint_eq(p.rows[3].trials[0], 1);
    ck_assert_uint_eq(p.rows[4].trial_count, 0); /* coverage: by inspection alone */
    ck_assert_double_eq(p.trials[2].scale, 0.5);
    jb_plan_free(&p);
}
END_TEST

/* phase, rows, trials */
static const struct { const char *phase; uint32_t rows, trials; } PHASES[] = { { "loop", 4, 5 }, { "final", 1, 3 }, { "all", 5, 8 } };

START_TEST(a_phase_runs_its_rows)
{
    jb_plan p;
    set_phase(PHASES[_i].phase);
    ck_assert_int_eq(jb_plan_build(job, &p, NULL), 0);
    ck_assert_uint_eq(p.row_count, PHASES[_i].rows);
    ck_assert_uint_eq(p.trial_count, PHASES[_i].trials);
    jb_plan_free(&p);
}
END_TEST

START_TEST(requests_carry_the_key_of_their_phase)
{
    jb_plan p;
    char keys[8][65];
    ck_assert_int_eq(jb_plan_build(job, &p, NULL), 0);
    for (uint32_t i = 0; i < p.trial_count; i++) {
        cJSON *r = jb_plan_request(job, &p, i);
        const char *want = i == 0 ? "" : strcmp(p.trials[i].when, "loop") == 0 ? "KL" : "KF";
        ck_assert_str_eq(jb_json_str(r, "key", "?"), want);
        ck_assert_str_eq(jb_json_str(jb_json_obj(r, "workload"), "version", ""), i == 0 ? "vp" : "vr");
        ck_assert_str_eq(jb_json_str(jb_json_obj(r, "workload"), "dir", ""), "/suite/8p");
        ck_assert_ptr_nonnull(jb_json_path(r, "resolved.config"));
        ck_assert_int_eq(jb_ref_key(r, "harness", "0.10.2", keys[i]), 0);
        for (uint32_t k = 0; k < i; k++) ck_assert_str_ne(keys[k], keys[i]);
        cJSON_Delete(r);
    }
    cJSON *r = jb_plan_request(job, &p, 1);
    char again[65];
    ck_assert_int_eq(jb_ref_key(r, "harness", "0.10.2", again), 0);
    ck_assert_str_eq(again, keys[1]);
    ck_assert_int_eq(jb_ref_key(r, "harness", "0.10.3", again), 0);
    ck_assert_str_ne(again, keys[1]);
    ck_assert_int_eq(jb_ref_key(r, "other", "0.10.2", again), 0);
    ck_assert_str_ne(again, keys[1]);
    cJSON_Delete(r);
    jb_plan_free(&p);
}
END_TEST

START_TEST(a_row_over_other_shapes_is_judged_at_the_jobs)
{
    jb_plan p;
    cJSON *shapes = cJSON_CreateArray();
    cJSON_AddItemToArray(shapes, cJSON_CreateString("tiny"));
    cJSON_ReplaceItemInObjectCaseSensitive(job, "check_shapes", shapes);
    ck_assert_int_eq(jb_plan_build(job, &p, NULL), 0);
    ck_assert_uint_eq(p.trial_count, 8);
    for (uint32_t i = 0; i < p.trial_count; i++) ck_assert_str_eq(p.trials[i].shape, "tiny");
    jb_plan_free(&p);
}
END_TEST

static const struct { const char *gates, *words; } BAD[] = {
    { "[{\"rows\":[]}]", "no name" },
    { "[{\"name\":\"g\",\"rows\":[{}]}]", "names no checker" },
    { "[{\"name\":\"g\",\"rows\":[{\"use\":\"x\",\"when\":\"later\"}]}]", "\"later\"" },
    { "[{\"name\":\"g\",\"rows\":[{\"use\":\"x\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"own\":1e9}}}]}]", "malformed" },
    { "[{\"name\":\"g\",\"rows\":[{\"use\":\"x\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"own\":\"many\"}}}]}]", "malformed" },
};

START_TEST(malformed_gates_are_refused_by_name)
{
    jb_plan p;
    jb_error err = JB_ERROR_INIT;
    cJSON_ReplaceItemInObjectCaseSensitive(job, "gates", jb_json_parse(BAD[_i].gates, strlen(BAD[_i].gates), NULL));
    ck_assert_int_eq(jb_plan_build(job, &p, &err), JB_EINVAL);
    ck_assert_msg(strstr(err.message, BAD[_i].words) != NULL, "\"%s\" should hold \"%s\"", err.message, BAD[_i].words);
}
END_TEST

START_TEST(every_failed_allocation_is_an_error)
{
    jb_plan p;
    int rc = JB_ENOMEM, n = 0;
    while (rc != 0) {
        ck_assert_int_lt(n, 200);
        jb_mem_fail_after(++n, 1);
        rc = jb_plan_build(job, &p, NULL);
        jb_mem_fail_after(0, 0);
        if (rc != 0) ck_assert_int_eq(rc, JB_ENOMEM);
    }
    ck_assert_int_gt(n, 5);
    jb_plan_free(&p);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("plan");
    TCase *t = tcase_create("plan");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, trials_are_shared_and_ordered);
    tcase_add_loop_test(t, a_phase_runs_its_rows, 0, sizeof PHASES / sizeof PHASES[0]);
    tcase_add_test(t, requests_carry_the_key_of_their_phase);
    tcase_add_test(t, a_row_over_other_shapes_is_judged_at_the_jobs);
    tcase_add_loop_test(t, malformed_gates_are_refused_by_name, 0, sizeof BAD / sizeof BAD[0]);
    tcase_add_test(t, every_failed_allocation_is_an_error);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
