/* SPDX-License-Identifier: Apache-2.0 */
/* tests/forecast/test_forecast.c - intervals and what they rest on: options and
 * limits first, earlier runs once there are some, prices, budgets; and that what is
 * not known is not 0. */
#include "core/engine/index.h"
#include "core/forecast/forecast.h"
#include "tests/study/fixture.h"

static jb_registry *registry;
static jb_study *study;

static void make(void)
{
    jb_json_setup();
    fixture_make();
    fixture_suite();
    fixture_compile("p/all.so", FIXTURE_PLUGIN);
    fixture_write("p/bon/prompt.md", "Task {{id}}: {{signature}} at {{shapes_table}}. {{judged}}\n");
    jb_error e = JB_ERROR_INIT;
    ck_assert_msg(jb_registry_open(fixture_path("p"), &registry, &e) == 0, "%s", e.message);
}

static void unmake(void)
{
    jb_study_free(study);
    jb_registry_free(registry);
    study = NULL;
    registry = NULL;
    fixture_remove();
}

/* A study of `bon` with 8 samples on one workload and what `more` adds. */
static jb_forecast *forecast(const char *backend, const char *more)
{
    char text[1024];
    jb_error e = JB_ERROR_INIT;
    jb_forecast *f = NULL;
    snprintf(text, sizeof text, "schema: 1\nname: t\nsuites: [{use: s, only: [8p]}]\nmethods: [{name: iid, use: bon}]\nbackends: [{name: b, use: %s}]\n"
                                "gates: [robust]\nexecutor: {use: local, slots: 2}\n%s", backend, more);
    jb_study_options o = { .registry = registry, .suite_root = fixture_path("suite") };
    jb_study_free(study);
    study = NULL;
    ck_assert_msg(jb_study_load(fixture_write("study.yaml", text), &o, &study, &e) == 0, "%s %s", e.where, e.message);
    ck_assert_msg(jb_forecast_make(study, fixture_path("runs"), &f, &e) == 0, "%s", e.message);
    return f;
}

static void is(const jb_forecast *f, unsigned what, double low, double high, const char *basis)
{
    const jb_estimate *e = &f->total.of[what];
    ck_assert_msg(e->low == low && e->high == high, "%s: %g to %g, expected %g to %g (%s)", jb_estimate_key(what), e->low, e->high, low, high, e->basis);
    ck_assert_msg(strstr(e->basis, basis) != NULL, "%s: %s, expected %s", jb_estimate_key(what), e->basis, basis);
}

START_TEST(options_and_limits)
{
    jb_forecast *f = forecast("plain", "");
    is(f, JB_EST_SAMPLES, 8, 8, "option samples");
    is(f, JB_EST_CALLS, 8, 8, "one call a sample");
    ck_assert_double_gt(f->total.of[JB_EST_INPUT].low, 0);
    ck_assert_double_gt(f->total.of[JB_EST_INPUT].high, f->total.of[JB_EST_INPUT].low);
    ck_assert_ptr_nonnull(strstr(f->total.of[JB_EST_INPUT].basis, "4 chars a token"));
    is(f, JB_EST_OUTPUT, 8, -1, "no option max_tokens"); /* not known */
    is(f, JB_EST_USD, -1, -1, "unpriced");
    is(f, JB_EST_COMPILE_S, 0, 8 * 300, "limit compile_s");
    is(f, JB_EST_WALL_S, 0, 8 * 1020 / 2, "limits of all stages");
    jb_forecast_free(f);
    f = forecast("plain", "budget: {samples_per_cell: 3}\nskip: [compile]\nmatrix: {seeds: 2}\n");
    ck_assert_uint_eq(f->cell_count, 2);
    is(f, JB_EST_SAMPLES, 6, 6, "samples_per_cell");
    is(f, JB_EST_COMPILE_S, 0, 0, "left out");
    jb_forecast_free(f);
}
END_TEST

START_TEST(budgets_beside_it)
{
    jb_forecast *f = forecast("plain", "budget: {calls: 8, tokens: 1, wall: 1s}\n");
    ck_assert_str_eq(jb_forecast_verdict(f, study, JB_UNIT_CALLS), "fits");
    ck_assert_str_eq(jb_forecast_verdict(f, study, JB_UNIT_TOKENS), "is reached");
    ck_assert_str_eq(jb_forecast_verdict(f, study, JB_UNIT_WALL), "may be reached");
    ck_assert_ptr_null(jb_forecast_verdict(f, study, JB_UNIT_USD));
    jb_forecast_free(f);
    f = forecast("plain", "budget: {calls: 7}\n");
    ck_assert_str_eq(jb_forecast_verdict(f, study, JB_UNIT_CALLS), "is reached");
    jb_forecast_free(f);
}
END_TEST

/* A run of the past, written as the engine writes one. */
static void past(const char *name, const char *workload, int64_t samples, int64_t calls, double wall, int ended, const char *check)
{
    char manifest[1024], dir[200];
    jb_error e = JB_ERROR_INIT;
    snprintf(manifest, sizeof manifest, "{\"name\":\"t\",\"methods\":[{\"name\":\"iid\",\"use\":\"bon\"}],\"backends\":[{\"name\":\"b\",\"use\":\"plain\"}],"
                                        "\"shapes\":{\"check\":\"%s\",\"timed\":\"full\"}}", check);
    snprintf(dir, sizeof dir, "runs/%s/manifest.json", name);
    fixture_write(dir, manifest);
    jb_rec_op op = { .kind = JB_OP_EVAL, .done = 1, .candidate = 1, .wall_s = wall, .compile_s = wall / 2 };
    jb_rec_cell cell = { .key = "c", .label = "c", .workload = workload, .method = "iid", .backend = "b", .ended = ended, .ops = &op, .op_count = 1 };
    cell.ledger.samples = samples;
    cell.ledger.calls[JB_PURPOSE_SAMPLE] = calls;
    cell.ledger.tokens[JB_PURPOSE_SAMPLE][0] = 100 * calls;
    cell.ledger.tokens[JB_PURPOSE_SAMPLE][3] = 10 * calls;
    cell.ledger.wall_s = wall;
    cell.ledger.compile_s = wall / 2;
    jb_records r = { .manifest = jb_json_parse(manifest, strlen(manifest), &e), .cells = &cell, .cell_count = 1 };
    snprintf(dir, sizeof dir, "%s/%s", fixture_path("runs"), name);
    ck_assert_msg(jb_index_rebuild(dir, &r, &e) == 0, "%s", e.message);
    cJSON_Delete(r.manifest);
}

START_TEST(earlier_runs_come_first)
{
    past("a", "12k", 4, 8, 3, 1, "");
    jb_forecast *f = forecast("plain", "");
    is(f, JB_EST_CALLS, 16, 16, "1 cell of 1 earlier run in runs/, other workloads");
    jb_forecast_free(f);
    past("b", "8p", 4, 4, 2, 1, "");
    past("c", "8p", 2, 3, 5, 1, "");
    past("d", "8p", 2, 20, 50, 0, "");     /* not ended */
    past("e", "8p", 2, 20, 50, 1, "tiny"); /* another shape */
    fixture_write("runs/f/index.sqlite", "no database");
    f = forecast("plain", "");
    is(f, JB_EST_CALLS, 8, 12, "2 cells of 2 earlier runs in runs/, this workload");
    is(f, JB_EST_INPUT, 800, 1200, "this workload");
    is(f, JB_EST_OUTPUT, 80, 120, "this workload");
    is(f, JB_EST_WALL_S, 8 * 2.0 / 2, 8 * 5.0 / 2, "this workload");
    is(f, JB_EST_COMPILE_S, 8, 20, "this workload");
    is(f, JB_EST_USD, -1, -1, "unpriced");
    jb_forecast_free(f);
    fixture_write("prices.yaml", "schema: 1\nkind: prices\ndate: 2026-12-01\ncurrency: USD\nprices:\n"
                                 "  - {backend: plain, input: 1, cache_read: 0.5, output: 4, reasoning: 8, source: a test}\n");
    f = forecast("plain", "prices: prices.yaml\nbudget: {usd: 1}\n");
    is(f, JB_EST_USD, (800 * 0.5 + 80 * 4) / 1e6, (1200 * 1.0 + 120 * 8) / 1e6, "prices.yaml of 2026-12-01");
    ck_assert_str_eq(jb_forecast_verdict(f, study, JB_UNIT_USD), "fits");
    jb_forecast_free(f);
}
END_TEST

START_TEST(a_method_without_a_backend_calls_nobody)
{
    char text[400];
    jb_error e = JB_ERROR_INIT;
    jb_forecast *f = NULL;
    snprintf(text, sizeof text, "schema: 1\nname: t\nsuites: [{use: s, only: [8p]}]\nmethods: [{use: solo}]\ngates: [robust]\n");
    jb_study_options o = { .registry = registry, .suite_root = fixture_path("suite") };
    ck_assert_int_eq(jb_study_load(fixture_write("study.yaml", text), &o, &study, &e), 0);
    ck_assert_int_eq(jb_forecast_make(study, fixture_path("runs"), &f, &e), 0);
    is(f, JB_EST_SAMPLES, 0, -1, "not known");
    is(f, JB_EST_CALLS, 0, 0, "asks no backend");
    is(f, JB_EST_USD, 0, 0, "asks no backend");
    is(f, JB_EST_COMPILE_S, 0, -1, "limit compile_s");
    jb_forecast_free(f);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("forecast");
    TCase *c = tcase_create("forecast");
    tcase_add_checked_fixture(c, make, unmake);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, options_and_limits);
    tcase_add_test(c, budgets_beside_it);
    tcase_add_test(c, earlier_runs_come_first);
    tcase_add_test(c, a_method_without_a_backend_calls_nobody);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
