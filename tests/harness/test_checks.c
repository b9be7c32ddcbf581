/* SPDX-License-Identifier: Apache-2.0 */
/* The gates loop on arrays of our own: shared executions, the stop at the first
 * fail, verdicts, checkers that break, and candidates that can't be executed. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "harness/checks.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a checker whose answers the test writes down ------------------------ */

typedef struct script {
    uint32_t needs;
    uint32_t status[8]; /* by call */
    double score[8];
    int rc;             /* of trial */
    uint32_t verdict;   /* 0: none of its own */
    int calls, verdicts, arena_ok, saw_h, saw_inputs;
    uint32_t coverage;
    double threshold, verdict_score; /* 0: 1; 0: by the verdict */
} script;

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)err;
    out->flags = ((script *)self)->needs;
    return 0;
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    script *s = self;
    int i = s->calls++;
    if (s->rc != 0) return jb_err(err, s->rc, "the script says so");
    s->saw_h = t->h != NULL;
    s->saw_inputs = t->input_count > 0 && t->inputs != NULL;
    out->status = s->status[i];
    out->score = s->score[i];
    out->threshold = isnan(s->threshold) || s->threshold > 0 ? s->threshold : 1;
    snprintf(out->reason, sizeof out->reason, "call %d", i);
    out->worst_count = 1;
    out->worst[0].rank = 1;
    out->worst[0].index[0] = 3;
    out->worst[0].reference = 1.5;
    out->worst[0].candidate = (double)NAN;
    return 0;
}

static int verdict(void *self, const jb_inspection *inspection, jb_verdict *out, jb_error *err)
{
    script *s = self;
    (void)err;
    s->verdicts++;
    s->coverage = inspection != NULL ? inspection->coverage : 99;
    out->verdict = s->verdict;
    out->score = isnan(s->verdict_score) ? s->verdict_score : s->verdict == JB_VERDICT_FAIL ? 2 : 0;
    out->threshold = 1;
    snprintf(out->reason, sizeof out->reason, "its own words");
    return 0;
}

static const jb_checker_ops plain_ops = { .struct_size = sizeof plain_ops, .needs = needs, .trial = trial };
static const jb_checker_ops verdict_ops = { .struct_size = sizeof verdict_ops, .needs = needs, .trial = trial, .verdict = verdict };
/* A checker compiled before `verdict` was appended. */
static const jb_checker_ops short_ops = { .struct_size = offsetof(jb_checker_ops, verdict), .needs = needs, .trial = trial, .verdict = verdict };
static const jb_component component = { .struct_size = sizeof component, .kind = JB_KIND_CHECKER, .name = "scripted" };

/* ---- a plan and its arrays ------------------------------------------------ */

static const char JOB[] =
    "{\"workload\":{\"versions\":{}},\"check_shapes\":[\"tiny\"],\"phase\":\"loop\",\"gates\":["
    "{\"name\":\"a\",\"variant\":\"repaired\",\"rows\":[{\"use\":\"one\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"own\":2}}},"
    "{\"use\":\"two\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"own\":1,\"outlier\":1}}}]},"
    "{\"name\":\"b\",\"variant\":\"repaired\",\"rows\":[{\"use\":\"three\",\"over\":{\"shapes\":[\"tiny\"],\"draws\":{\"own\":2}}}]}]}";

static cJSON *job;
static jb_plan plan;
static jb_gate gate[3];
static script scripts[3];
static jb_gates gates;
static double array[4] = { 1, 2, 3, 4 };
static jb_tensor tensor;
static jb_ref_file ref;
static int executions, fail_at;
static jb_check_source source;

static int execute(void *ctx, uint32_t i, const jb_ref_file *r, const jb_tensor **outputs, uint32_t *count, jb_check_fault *fault)
{
    (void)ctx;
    (void)r;
    if ((int)i == fail_at) {
        snprintf(fault->reason, sizeof fault->reason, "trial %u can't run", i);
        fault->error = jb_strdup("words of the runtime");
        return -1;
    }
    executions++;
    *outputs = &tensor;
    *count = 1;
    return 0;
}

static const jb_ref_file *reference(void *ctx, uint32_t i)
{
    (void)ctx;
    (void)i;
    return &ref;
}

static void set_up(void)
{
    job = jb_json_parse(JOB, strlen(JOB), NULL);
    ck_assert_int_eq(jb_plan_build(job, &plan, NULL), 0);
    ck_assert_uint_eq(plan.trial_count, 3); /* own 0, own 1, outlier 0 */
    tensor = (jb_tensor){ .struct_size = sizeof tensor, .dtype = JB_DT_F64, .rank = 1, .dims = { 4 }, .count = 4, .data = array };
    memset(&ref, 0, sizeof ref);
    for (uint32_t g = 0; g < JB_REF_GROUPS; g++) {
        ref.tensors[g] = &tensor;
        ref.count[g] = 1;
    }
    memset(scripts, 0, sizeof scripts);
    memset(gate, 0, sizeof gate);
    for (int i = 0; i < 3; i++) {
        scripts[i].needs = JB_NEED_R_JIT;
        for (int k = 0; k < 8; k++) {
            scripts[i].status[k] = JB_TRIAL_PASS;
            scripts[i].score[k] = 0.5;
        }
        gate[i] = (jb_gate){ .component = &component, .ops = &plain_ops, .self = &scripts[i], .needs = JB_NEED_R_JIT };
        ck_assert_int_eq(jb_harness_host_init(&gate[i].host, "scripted", "seed"), 0);
    }
    gates = (jb_gates){ .plan = &plan, .gate = gate };
    executions = 0;
    fail_at = -1;
    source = (jb_check_source){ .execute = execute, .reference = reference, .slice_axes = 1 };
}

static void tear_down(void)
{
    for (int i = 0; i < 3; i++) jb_harness_host_free(&gate[i].host);
    jb_plan_free(&plan);
    cJSON_Delete(job);
}

static const char *verdict_of(const cJSON *r, const char *set) { return jb_json_str(jb_json_obj(jb_json_obj(r, "gates"), set), "verdict", "?"); }
static const cJSON *row_of(const cJSON *r, const char *set, int i) { return cJSON_GetArrayItem(jb_json_obj(jb_json_obj(jb_json_obj(r, "gates"), set), "rows"), i); }
static const char *check_status(const cJSON *r) { return jb_json_str(jb_json_obj(r, "check"), "status", "?"); }

START_TEST(a_trial_is_executed_once_for_all_gates)
{
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_str_eq(check_status(r), "ok");
    ck_assert_int_eq(executions, 3);
    ck_assert_int_eq(scripts[0].calls, 2);
    ck_assert_int_eq(scripts[1].calls, 2);
    ck_assert_int_eq(scripts[2].calls, 2);
    ck_assert_str_eq(verdict_of(r, "a"), "pass");
    ck_assert_str_eq(verdict_of(r, "b"), "pass");
    ck_assert_int_eq((int)jb_json_i64(jb_json_obj(r, "check"), "trials", 0), 3);
    const cJSON *t = cJSON_GetArrayItem(jb_json_obj(row_of(r, "a", 0), "trials"), 0), *w = cJSON_GetArrayItem(jb_json_obj(t, "worst"), 0);
    ck_assert_str_eq(jb_json_str(t, "status", ""), "pass");
    ck_assert_str_eq(jb_json_str(w, "candidate", ""), "nan");
    ck_assert_double_eq(jb_json_num(w, "reference", 0), 1.5);
    cJSON_Delete(r);
}
END_TEST

START_TEST(a_set_stops_at_its_first_fail_and_the_other_goes_on)
{
    scripts[0].status[0] = JB_TRIAL_FAIL;
    scripts[0].score[0] = 7.25;
    cJSON *r = jb_checks_run(&gates, &source);
    const cJSON *killer = jb_json_path(r, "gates.a.killer");
    ck_assert_str_eq(verdict_of(r, "a"), "fail");
    ck_assert_str_eq(verdict_of(r, "b"), "pass");
    ck_assert_str_eq(jb_json_str(killer, "gate", ""), "one");
    ck_assert_str_eq(jb_json_str(killer, "distribution", ""), "own");
    ck_assert_double_eq(jb_json_num(killer, "score", 0), 7.25);
    ck_assert_int_eq(scripts[0].calls, 1);
    ck_assert_int_eq(scripts[1].calls, 0); /* two comes after one on the same trial */
    ck_assert_int_eq(executions, 2);       /* own 0, own 1; outlier was a's alone */
    ck_assert_str_eq(jb_json_str(row_of(r, "a", 1), "verdict", ""), "skipped");
    cJSON_Delete(r);
}
END_TEST

/* statuses of gate one's two trials, verdict of its row, of its set */
static const struct { uint32_t status[2]; const char *row, *set; } COMBINED[] = {
    { { JB_TRIAL_PASS, JB_TRIAL_PASS }, "pass", "pass" },
    { { JB_TRIAL_PASS, JB_TRIAL_FAIL }, "fail", "fail" },
    { { JB_TRIAL_UNINFORMATIVE, JB_TRIAL_PASS }, "pass", "pass" },
    { { JB_TRIAL_UNINFORMATIVE, JB_TRIAL_UNINFORMATIVE }, "inconclusive", "inconclusive" },
    { { JB_TRIAL_UNSUPPORTED, JB_TRIAL_UNSUPPORTED }, "inconclusive", "inconclusive" },
    { { JB_TRIAL_UNINFORMATIVE, JB_TRIAL_FAIL }, "fail", "fail" },
    { { 77, 77 }, "inconclusive", "inconclusive" }, /* a status we don't know */
};

START_TEST(verdicts_combine)
{
    memcpy(scripts[0].status, COMBINED[_i].status, sizeof COMBINED[_i].status);
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_str_eq(jb_json_str(row_of(r, "a", 0), "verdict", ""), COMBINED[_i].row);
    ck_assert_str_eq(verdict_of(r, "a"), COMBINED[_i].set);
    if (strcmp(COMBINED[_i].set, "inconclusive") == 0) ck_assert_ptr_nonnull(strstr(jb_json_str(jb_json_path(r, "gates.a"), "reason", ""), "one"));
    cJSON_Delete(r);
}
END_TEST

/* status, score, threshold of a trial; words of the reason, "" when it is none */
static const struct { uint32_t status; double score, threshold; const char *words; } SCORES[] = {
    { JB_TRIAL_FAIL, (double)NAN, 1, "score of nan" },
    { JB_TRIAL_PASS, (double)NAN, 1, "score of nan" },
    { JB_TRIAL_PASS, -0.5, 1, "score of -0.5" },
    { JB_TRIAL_FAIL, -1, 1, "score of -1" },
    { JB_TRIAL_PASS, 0, (double)NAN, "threshold of nan" },
    { JB_TRIAL_FAIL, (double)INFINITY, 1, "" },
    { JB_TRIAL_UNINFORMATIVE, (double)NAN, 1, "" },
};

/* A checker that can't count is no judge of a candidate, whatever it says. */
START_TEST(a_score_that_is_no_score_is_infra_by_name)
{
    scripts[0].score[0] = SCORES[_i].score;
    scripts[0].status[0] = SCORES[_i].status;
    scripts[0].threshold = SCORES[_i].threshold;
    cJSON *r = jb_checks_run(&gates, &source);
    const char *why = jb_json_str(jb_json_obj(r, "check"), "reason", "");
    if (SCORES[_i].words[0] == '\0') {
        ck_assert_str_eq(check_status(r), "ok");
    } else {
        ck_assert_str_eq(check_status(r), "infra");
        ck_assert_msg(strstr(why, "checker one of gate set a broke in trial") != NULL && strstr(why, SCORES[_i].words) != NULL, "%s", why);
        ck_assert_str_eq(verdict_of(r, "a"), "inconclusive");
        ck_assert_ptr_null(jb_json_path(r, "gates.a.killer"));
    }
    cJSON_Delete(r);
}
END_TEST

START_TEST(a_verdict_without_a_score_is_infra_by_name)
{
    gate[2].ops = &verdict_ops;
    scripts[2].verdict = JB_VERDICT_FAIL;
    scripts[2].verdict_score = (double)NAN;
    cJSON *r = jb_checks_run(&gates, &source);
    const char *why = jb_json_str(jb_json_obj(r, "check"), "reason", "");
    ck_assert_str_eq(check_status(r), "infra");
    ck_assert_msg(strstr(why, "checker three of gate set b broke in verdict: it gave a score of nan") != NULL, "%s", why);
    ck_assert_str_eq(verdict_of(r, "b"), "inconclusive");
    cJSON_Delete(r);
}
END_TEST

/* What was announced, as "use.call " and "- " for the way back. */
static char announced[400];

static void entering(void *ctx, const char *checker, const char *plugin, const char *set, const char *call)
{
    char *out = ctx;
    size_t n = strlen(out);
    if (checker == NULL) snprintf(out + n, sizeof announced - n, "- ");
    else snprintf(out + n, sizeof announced - n, "%s/%s.%s%s ", set, checker, call, plugin);
}

START_TEST(every_call_is_announced_and_taken_back)
{
    gate[2].ops = &verdict_ops;
    gate[2].plugin = "(p)";
    scripts[2].verdict = JB_VERDICT_PASS;
    announced[0] = '\0';
    gates.watch = (jb_checker_watch){ .entering = entering, .ctx = announced };
    cJSON_Delete(jb_checks_run(&gates, &source));
    ck_assert_str_eq(announced, "a/one.trial - a/two.trial - b/three.trial(p) - a/one.trial - b/three.trial(p) - a/two.trial - b/three.verdict(p) - ");
}
END_TEST

START_TEST(a_checker_that_breaks_is_infra_by_name)
{
    scripts[1].rc = JB_EINTERNAL;
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_str_eq(check_status(r), "infra");
    const char *why = jb_json_str(jb_json_obj(r, "check"), "reason", "");
    ck_assert_msg(strstr(why, "two") != NULL && strstr(why, "gate set a") != NULL && strstr(why, "the script says so") != NULL, "%s", why);
    ck_assert_str_eq(verdict_of(r, "a"), "inconclusive");
    ck_assert_str_eq(verdict_of(r, "b"), "inconclusive"); /* one trial passed; the rest was not seen */
    cJSON_Delete(r);
}
END_TEST

START_TEST(a_candidate_that_cannot_run_is_its_own_fault)
{
    fail_at = 1;
    cJSON *r = jb_checks_run(&gates, &source);
    const cJSON *check = jb_json_obj(r, "check");
    ck_assert_str_eq(check_status(r), "fail");
    ck_assert_str_eq(jb_json_str(check, "outcome", ""), "runtime-error");
    ck_assert_str_eq(jb_json_str(check, "reason", ""), "trial 1 can't run");
    ck_assert_str_eq(jb_json_str(check, "error", ""), "words of the runtime");
    ck_assert_str_eq(verdict_of(r, "a"), "inconclusive");
    cJSON_Delete(r);
}
END_TEST

START_TEST(a_reference_without_a_needed_group_is_infra)
{
    gate[1].needs = JB_NEED_H;
    ref.count[JB_REF_H] = 0;
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_str_eq(check_status(r), "infra");
    cJSON_Delete(r);
    ck_assert_uint_eq(jb_gates_groups(&gates, 0), 1u << JB_REF_INPUT | 1u << JB_REF_R_JIT | 1u << JB_REF_H);
    ck_assert_uint_eq(jb_gates_groups(&gates, 1), 1u << JB_REF_INPUT | 1u << JB_REF_R_JIT);
}
END_TEST

START_TEST(only_what_was_asked_for_is_handed_out)
{
    gate[0].needs = JB_NEED_R_JIT | JB_NEED_INPUTS;
    gate[2].needs = JB_NEED_R_JIT | JB_NEED_H;
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_int_eq(scripts[0].saw_h, 0);
    ck_assert_int_eq(scripts[0].saw_inputs, 1);
    ck_assert_int_eq(scripts[2].saw_h, 1);
    ck_assert_int_eq(scripts[2].saw_inputs, 0);
    cJSON_Delete(r);
}
END_TEST

START_TEST(a_gate_on_the_inspection_needs_no_trial)
{
    jb_inspection i = { .struct_size = sizeof i, .coverage = JB_COVERAGE_INCOMPLETE, .detail = "block (3,)" };
    gate[0].ops = &verdict_ops;
    gate[0].needs = JB_NEED_INSPECTION;
    scripts[0].verdict = JB_VERDICT_FAIL;
    source.inspection = &i;
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_int_eq(scripts[0].calls, 0);
    ck_assert_uint_eq(scripts[0].coverage, JB_COVERAGE_INCOMPLETE);
    ck_assert_str_eq(verdict_of(r, "a"), "fail");
    ck_assert_str_eq(jb_json_str(jb_json_path(r, "gates.a.killer"), "reason", ""), "its own words");
    ck_assert_int_eq(executions, 2); /* for set b alone */
    cJSON_Delete(r);
    scripts[0].verdict = JB_VERDICT_PASS;
    source.inspection = NULL; /* not inspected: coverage unknown, not a crash */
    r = jb_checks_run(&gates, &source);
    ck_assert_uint_eq(scripts[0].coverage, JB_COVERAGE_UNKNOWN);
    ck_assert_str_eq(verdict_of(r, "a"), "pass");
    cJSON_Delete(r);
}
END_TEST

START_TEST(a_checkers_own_verdict_counts_when_it_has_one)
{
    gate[2].ops = &verdict_ops;
    scripts[2].verdict = JB_VERDICT_INCONCLUSIVE;
    cJSON *r = jb_checks_run(&gates, &source);
    ck_assert_str_eq(verdict_of(r, "b"), "inconclusive");
    ck_assert_int_eq(scripts[2].verdicts, 1);
    cJSON_Delete(r);
    gate[2].ops = &short_ops;
    r = jb_checks_run(&gates, &source);
    ck_assert_int_eq(scripts[2].verdicts, 1); /* not called: its struct ends before */
    ck_assert_str_eq(verdict_of(r, "b"), "pass");
    cJSON_Delete(r);
}
END_TEST

START_TEST(services_of_a_checker)
{
    const jb_host *h = &gate[0].host.host;
    const jb_arena_service *arena = h->service(h, JB_SERVICE_ARENA);
    const jb_rng_service *rng = h->service(h, JB_SERVICE_RNG);
    ck_assert_ptr_null(h->service(h, "http/1"));
    ck_assert_ptr_null(h->service(h, JB_SERVICE_DEVICE));
    unsigned char *p = arena->alloc(h, 1000);
    ck_assert_ptr_nonnull(p);
    ck_assert_uint_eq((uintptr_t)p % 64, 0);
    for (int i = 0; i < 1000; i++) ck_assert_uint_eq(p[i], 0);
    ck_assert_ptr_null(arena->alloc(h, (uint64_t)1 << 40));
    ck_assert_uint_eq(rng->u64(h, 1, 2), rng->u64(h, 1, 2));
    ck_assert_uint_ne(rng->u64(h, 1, 2), rng->u64(h, 1, 3));
}
END_TEST

int main(void)
{
    Suite *s = suite_create("checks");
    TCase *t = tcase_create("checks");
    tcase_add_checked_fixture(t, set_up, tear_down);
    tcase_add_test(t, a_trial_is_executed_once_for_all_gates);
    tcase_add_test(t, a_set_stops_at_its_first_fail_and_the_other_goes_on);
    tcase_add_loop_test(t, verdicts_combine, 0, sizeof COMBINED / sizeof COMBINED[0]);
    tcase_add_loop_test(t, a_score_that_is_no_score_is_infra_by_name, 0, sizeof SCORES / sizeof SCORES[0]);
    tcase_add_test(t, a_verdict_without_a_score_is_infra_by_name);
    tcase_add_test(t, every_call_is_announced_and_taken_back);
    tcase_add_test(t, a_checker_that_breaks_is_infra_by_name);
    tcase_add_test(t, a_candidate_that_cannot_run_is_its_own_fault);
    tcase_add_test(t, a_reference_without_a_needed_group_is_infra);
    tcase_add_test(t, only_what_was_asked_for_is_handed_out);
    tcase_add_test(t, a_gate_on_the_inspection_needs_no_trial);
    tcase_add_test(t, a_checkers_own_verdict_counts_when_it_has_one);
    tcase_add_test(t, services_of_a_checker);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
