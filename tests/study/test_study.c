/* SPDX-License-Identifier: Apache-2.0 */
/* Study files: what a good one expands to, --set, filters, and every way to be
 * wrong, with place, words and hint.  One plugin, compiled once, serves all. */
#include "core/study/study.h"
#include "tests/study/fixture.h"

static const char STUDY[] =
    "schema: 1\n"
    "name: t\n"
    "seed: 7\n"
    "suites:\n"
    "  - {use: s}\n"
    "methods:\n"
    "  - {name: iid, use: bon, samples: 4}\n"
    "  - {use: solo}\n"
    "backends:\n"
    "  - {name: a, use: fake, note: x}\n"
    "  - {name: b, use: plain}\n"
    "gates: [lax, robust]\n";

static jb_registry *registry;
static char suite_root[128];

static void make(void)
{
    jb_error e = JB_ERROR_INIT;
    fixture_make();
    snprintf(suite_root, sizeof suite_root, "%s", fixture_suite());
    fixture_compile("p/all.so", FIXTURE_PLUGIN);
    ck_assert_int_eq(jb_registry_open(fixture_path("p"), &registry, &e), 0);
}

static void unmake(void)
{
    jb_registry_free(registry);
    fixture_remove();
}

static int parse(const char *text, const jb_study_options *extra, jb_study **out, jb_error *e)
{
    jb_study_options o = extra ? *extra : (jb_study_options){ 0 };
    o.registry = registry;
    o.suite_root = suite_root;
    *out = NULL;
    return jb_study_parse(text, strlen(text), fixture_path("study.yaml"), &o, out, e);
}

static jb_study *good(const char *text, const jb_study_options *extra)
{
    jb_error e = JB_ERROR_INIT;
    jb_study *s = NULL;
    int status = parse(text, extra, &s, &e);
    ck_assert_msg(status == 0, "%s: %s (%s)", e.where, e.message, e.hint);
    return s;
}

START_TEST(cells_are_crossed)
{
    static const char *const names[] = { "8p+iid+a+s0", "8p+iid+b+s0", "8p+solo+none+s0", "12k+iid+a+s0", "12k+iid+b+s0", "12k+solo+none+s0" };
    jb_study *s = good(STUDY, NULL);
    ck_assert_uint_eq(s->cell_count, 6);
    for (size_t i = 0; i < 6; i++) {
        ck_assert_str_eq(s->cells[i].name, names[i]);
        ck_assert_uint_eq(s->cells[i].index, i);
        ck_assert_uint_eq(strlen(s->cells[i].key), 64);
        for (size_t k = 0; k < i; k++) ck_assert_str_ne(s->cells[i].key, s->cells[k].key);
    }
    ck_assert_str_eq(s->cells[0].label, "8p/iid/a s0");
    ck_assert_ptr_null(s->cells[2].backend);
    ck_assert_int_eq(s->cells[0].expected, 4);
    ck_assert_int_eq(s->cells[2].expected, -1);
    ck_assert_int_eq(s->cells[0].samples, -1);
    ck_assert_str_eq(s->seed, "7");
    ck_assert_str_eq(jb_gateset_name(s->headline), "robust");
    ck_assert_str_eq(s->variant, "repaired");
    ck_assert_str_eq(s->isolation, "required");
    ck_assert_str_eq(s->executor.component->name, "local");
    ck_assert_int_ge(s->slots, 1);
    ck_assert_int_eq(cJSON_GetArraySize(s->timers), 0);
    ck_assert_str_eq(s->methods[0].data_dir, fixture_path("p/bon"));
    ck_assert_int_eq((int)jb_json_i64(s->methods[0].resolved, "samples", 0), 4);
    ck_assert_str_eq(jb_json_str(s->methods[0].resolved, "mode", ""), "fast");
    jb_study_free(s);
}
END_TEST

START_TEST(every_supported_key)
{
    char *text = jb_asprintf("%s%s", STUDY,
                             "variant: published\nisolation: best-effort\ntimers: [tick, {use: tick}]\n"
                             "matrix: {seeds: 3, exclude: [{method: iid, backend: b}, {workload: \"*k\", seed: 2}]}\n"
                             "executor: {use: local, slots: 3}\nshapes: {check: gate, timed: full}\nskip: [compile]\n"
                             "limits: {trace_s: 15, memory_mb: 2048}\nbudget: {samples_per_cell: 2, wall: 90m}\n"
                             "on_error: {infra_retries: 5, stop_after_infra_share: 0.5}\n");
    jb_study *s = good(text, NULL);
    ck_assert_str_eq(s->variant, "published");
    ck_assert_str_eq(s->isolation, "best-effort");
    ck_assert_int_eq(cJSON_GetArraySize(s->timers), 2);
    ck_assert_str_eq(jb_json_str(cJSON_GetArrayItem(s->timers, 1), "use", ""), "tick");
    ck_assert_int_eq(s->slots, 3);
    ck_assert_int_eq((int)jb_json_i64(s->executor.options, "slots", 0), 3); /* the plugin has such an option */
    ck_assert_str_eq(s->check_shape, "gate");
    ck_assert_str_eq(s->timed_shape, "full");
    ck_assert_uint_eq(s->skip_count, 1);
    ck_assert_str_eq(s->skip[0], "compile");
    ck_assert_double_eq(jb_json_num(s->limits, "trace_s", 0), 15);
    ck_assert_int_eq(cJSON_GetArraySize(s->limits), 2);
    ck_assert_int_eq(s->samples_per_cell, 2);
    ck_assert_int_eq(s->cells[0].expected, 2);
    ck_assert_int_eq(s->budget.of[JB_UNIT_WALL], 5400000);
    ck_assert_int_eq(s->infra_retries, 5);
    ck_assert_double_eq(s->stop_after_infra_share, 0.5);
    /* 2 workloads x (iid+a, solo) x 3 seeds, less seed 2 of 12k */
    ck_assert_uint_eq(s->cell_count, 10);
    jb_study_free(s);
    jb_free(text);
}
END_TEST

/* How backends are asked: per backend, and for all of them; no part of what the study is. */
START_TEST(limits_timeouts_and_patience)
{
    char *limited = fixture_edit(STUDY, "{name: b, use: plain}", "{name: b, use: plain, limits: {rpm: 200, tpm: 90000, in_flight: 3}, timeouts: {first_byte: 2m, idle: 500ms}}");
    char *text = jb_asprintf("%son_error: {infra_retries: 1, call_retries: 7, backoff: 250ms, retry_after_max: 5m}\n", limited);
    jb_study *plain = good(STUDY, NULL), *s = good(text, NULL);
    const jb_call_limits *a = &s->backends[0].calls, *b = &s->backends[1].calls, defaults = JB_CALL_LIMITS_DEFAULT;
    ck_assert_int_eq(a->rate.in_flight, defaults.rate.in_flight);
    ck_assert_int_eq(a->rate.rpm, 0);
    ck_assert_int_eq(b->rate.rpm, 200);
    ck_assert_int_eq(b->rate.tpm, 90000);
    ck_assert_int_eq(b->rate.in_flight, 3);
    ck_assert_int_eq(b->timeouts.first_byte_ms, 120000);
    ck_assert_int_eq(b->timeouts.idle_ms, 500);
    ck_assert_int_eq(b->timeouts.connect_ms, defaults.timeouts.connect_ms);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(s->backends[i].calls.retry.retries, 7);
        ck_assert_int_eq(s->backends[i].calls.retry.backoff_ms, 250);
        ck_assert_int_eq(s->backends[i].calls.retry.retry_after_max_ms, 300000);
        ck_assert_int_eq(plain->backends[i].calls.retry.retries, defaults.retry.retries);
    }
    ck_assert_int_eq(s->infra_retries, 1);
    ck_assert_str_eq(s->cells[0].key, plain->cells[0].key);
    jb_study_free(s);
    jb_free(text);
    text = jb_asprintf("%son_error: {infra_retries: 0}\n", STUDY); /* one number for both, unless calls have their own */
    s = good(text, NULL);
    ck_assert_int_eq(s->backends[0].calls.retry.retries, 0);
    jb_study_free(s);
    jb_study_free(plain);
    jb_free(text);
    free(limited);
}
END_TEST

START_TEST(the_canonical_form_is_stable_and_blind_to_slots)
{
    static const char *const one[] = { "executor.slots=1" }, *const four[] = { "executor.slots=4" }, *const seed[] = { "seed=8" };
    jb_study *a = good(STUDY, &(jb_study_options){ .set = one, .set_count = 1 });
    jb_study *b = good(STUDY, &(jb_study_options){ .set = four, .set_count = 1 });
    jb_study *c = good(STUDY, &(jb_study_options){ .set = seed, .set_count = 1 });
    ck_assert_str_eq(a->canonical, b->canonical);
    ck_assert_str_eq(a->hash, b->hash);
    ck_assert_str_eq(a->cells[0].key, b->cells[0].key);
    ck_assert_str_ne(a->hash, c->hash);
    ck_assert_str_ne(a->cells[0].key, c->cells[0].key);
    ck_assert_ptr_null(strstr(a->canonical, fixture_dir)); /* no path of this machine */
    ck_assert_ptr_nonnull(strstr(a->canonical, "\"version\":\"1.2.3\""));
    jb_study_free(a);
    jb_study_free(b);
    jb_study_free(c);
}
END_TEST

START_TEST(a_changed_workload_changes_keys_of_its_cells_only)
{
    jb_study *a = good(STUDY, NULL);
    fixture_write("suite/s/12k_scale/workload.py", "CONFIG = {1: 2}\n");
    jb_study *b = good(STUDY, NULL);
    ck_assert_str_eq(a->cells[0].key, b->cells[0].key);
    ck_assert_str_ne(a->cells[3].key, b->cells[3].key);
    ck_assert_str_ne(a->hash, b->hash);
    jb_study_free(a);
    jb_study_free(b);
}
END_TEST

static const struct { const char *set; const char *path, *value; } sets[] = {
    { "seed=99", "seed", "99" },
    { "methods.iid.samples=6", "methods", "6" },
    { "methods.0.samples=6", "methods", "6" },
    { "suites.s.only=[8p]", "suites", "8p" },
    { "gates=[robust]", "gates", "robust" },
    { "limits.trace_s=13", "limits", "13" },
    { "budget={samples_per_cell: 1}", "budget", "1" },
    { "name='quoted'", "name", "quoted" },
    { "backends.a.note=", "backends", "" },
};

START_TEST(set_reaches_every_kind_of_key)
{
    jb_study *s = good(STUDY, &(jb_study_options){ .set = &sets[_i].set, .set_count = 1 });
    jb_buf text = JB_BUF_INIT(1 << 20);
    ck_assert_int_eq(jb_json_print(cJSON_GetObjectItem(s->json, sets[_i].path), &text), 0);
    ck_assert_msg(strstr(text.ptr, sets[_i].value) != NULL, "%s: %s", sets[_i].set, text.ptr);
    jb_buf_free(&text);
    jb_study_free(s);
}
END_TEST

START_TEST(later_sets_win)
{
    static const char *const both[] = { "seed=1", "seed=2", "executor.slots=5" };
    jb_study *s = good(STUDY, &(jb_study_options){ .set = both, .set_count = 3 });
    ck_assert_str_eq(s->seed, "2");
    ck_assert_int_eq(s->slots, 5);
    jb_study_free(s);
}
END_TEST

static const struct { const char *set, *where, *message; } bad_sets[] = {
    { "seed", "", "expected KEY=VALUE" },
    { "=1", "", "expected KEY=VALUE" },
    { "a..b=1", "", "malformed key" },
    { "a.=1", "", "malformed key" },
    { "sed=1", "--set sed=1", "unknown key \"sed\"" },
    { "seed=many", "--set seed=many", "whole number" },
    { "seed.x=1", "--set seed.x=1", "mapping" },
    { "methods.idd.samples=1", "", "no item \"idd\"" },
    { "methods.9.samples=1", "", "no item \"9\"" },
    { "methods.iid.samples=0", "--set methods.iid.samples=0", "[1, 1000]" },
    { "methods.iid.sampels=1", "--set methods.iid.sampels=1", "no option \"sampels\"" },
    { "gates=[robust", "--set gates=[robust:2", "malformed YAML" },
    { "gates=[*a]", "--set gates=[*a]:1", "anchors and aliases" },
};

START_TEST(wrong_sets_are_named)
{
    jb_error e = JB_ERROR_INIT;
    jb_study *s = NULL;
    int status = parse(STUDY, &(jb_study_options){ .set = &bad_sets[_i].set, .set_count = 1 }, &s, &e);
    ck_assert_int_ne(status, 0);
    ck_assert_msg(strstr(e.message, bad_sets[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad_sets[_i].message);
    if (bad_sets[_i].where[0]) ck_assert_str_eq(e.where, bad_sets[_i].where);
}
END_TEST

static const struct { const char *only[2]; int64_t limit; size_t cells; const char *message; } filters[] = {
    { { "8p" }, 0, 3, NULL },
    { { "gemm" }, 0, 3, NULL },
    { { "8p_*" }, 0, 3, NULL },
    { { "*+b+s0" }, 0, 2, NULL },
    { { "12k", "8p+solo+*" }, 0, 4, NULL },
    { { NULL }, 2, 2, NULL },
    { { "12k" }, 1, 1, NULL },
    { { NULL }, 100, 6, NULL },
    { { "zz*" }, 0, 0, "--only zz*" },
    { { "8p", "9p" }, 0, 0, "--only 9p" },
};

START_TEST(only_and_limit)
{
    jb_error e = JB_ERROR_INIT;
    jb_study *s = NULL;
    size_t count = filters[_i].only[0] ? filters[_i].only[1] ? 2 : 1 : 0;
    int status = parse(STUDY, &(jb_study_options){ .only = filters[_i].only, .only_count = count, .limit = filters[_i].limit }, &s, &e);
    if (filters[_i].message) {
        ck_assert_int_eq(status, JB_EINVAL);
        ck_assert_ptr_nonnull(strstr(e.message, filters[_i].message));
        ck_assert_uint_eq(e.flags & JB_ERR_USER, JB_ERR_USER);
    } else {
        ck_assert_msg(status == 0, "%s", e.message);
        ck_assert_uint_eq(s->cell_count, filters[_i].cells);
    }
    jb_study_free(s);
}
END_TEST

/* What is replaced by what; status, line (0: none), words and hint of the error. */
static const struct { const char *from, *to; int status, line; const char *message, *hint; } bad[] = {
    { "seed: 7", "sed: 7", JB_EINVAL, 3, "unknown key \"sed\"", "\"seed\"" },
    { "schema: 1\n", "\n", JB_EINVAL, 2, "lacks the key \"schema\"", "" },
    { "schema: 1", "schema: 2", JB_EINVAL, 1, "schema must be 1", "" },
    { "schema: 1", "schema: one", JB_EINVAL, 1, "whole number", "" },
    { "name: t", "name: a/b", JB_EINVAL, 2, "letters, digits", "" },
    { "name: t", "name: [t]", JB_EINVAL, 2, "expected a string", "" },
    { "seed: 7", "seed: -1", JB_EINVAL, 3, "seed must be 0", "" },
    { "seed: 7", "seed: 1e3", JB_EINVAL, 3, "whole number", "" },
    { "seed: 7", "seed: 99999999999999999999", JB_EINVAL, 3, "whole number", "" },
    { "{use: s}", "{use: ss}", JB_EINVAL, 5, "unknown suite \"ss\"", "known: s" },
    { "{use: s}", "{use: s, onyl: [8p]}", JB_EINVAL, 5, "unknown key \"onyl\"", "\"only\"" },
    { "{use: s}", "{use: s, only: [8p, 99z]}", JB_EINVAL, 5, "\"99z\" matches no workload", "8p, 12k" },
    { "{use: s}", "{use: s, only: []}", JB_EINVAL, 5, "only must be a list", "" },
    { "{use: s}", "{use: ../s}", JB_EINVAL, 5, "no name of a suite", "" },
    { "{use: s}", "{only: [8p]}", JB_EINVAL, 5, "needs `use`", "" },
    { "  - {use: s}", "  - s\n  - s", JB_EINVAL, 6, "named twice", "" },
    { "use: bon", "use: bno", JB_ENOTFOUND, 7, "no method named \"bno\"", "\"bon\"" },
    { "use: bon", "use: fake", JB_ENOTFOUND, 7, "no method named \"fake\"", "" },
    { "samples: 4", "sampels: 4", JB_EINVAL, 7, "no option \"sampels\"", "\"samples\"" },
    { "samples: 4", "samples: many", JB_EINVAL, 7, "samples of bon must be a whole number", "" },
    { "samples: 4", "samples: -3", JB_EINVAL, 7, "[1, 1000], not -3", "" },
    { "samples: 4", "samples: \"4\"", JB_EINVAL, 7, "quoted", "" },
    { "name: iid", "name: solo", JB_EINVAL, 8, "the name \"solo\" is taken", "" },
    { "name: iid", "name: \"a b\"", JB_EINVAL, 7, "letters, digits", "" },
    { "methods:\n", "methods: {}\nx:\n", JB_EINVAL, 7, "unknown key \"x\"", "" },
    { ", note: x", "", JB_EINVAL, 10, "fake needs the option note", "" },
    { "[lax, robust]", "[lax, rubust]", JB_ENOTFOUND, 12, "no gate set \"rubust\"", "\"robust\"" },
    { "[lax, robust]", "[lax, lax]", JB_EINVAL, 12, "two gate sets are named \"lax\"", "" },
    { "[lax, robust]", "robust", JB_EINVAL, 12, "gates must be a list", "" },
    { "[lax, robust]", "[./mine.yaml]", JB_ENOTFOUND, 12, "mine.yaml", "" },
    { "[lax, robust]", "[{name: x, rows: [{use: chkk}]}]", JB_ENOTFOUND, 12, "gate set x, row 1: no checker named \"chkk\"", "\"chk\"" },
    { "[lax, robust]", "[{name: x, rows: [{use: chk, temprature: 1}]}]", JB_EINVAL, 12, "no option \"temprature\"", "\"temperature\"" },
    { "seed: 7", "variant: repared", JB_EINVAL, 3, "unknown variant \"repared\"", "\"repaired\"" },
    { "seed: 7", "isolation: none", JB_EINVAL, 3, "unknown isolation", "required, best-effort" },
    { "seed: 7", "timers: [tock]", JB_ENOTFOUND, 3, "no timer named \"tock\"", "\"tick\"" },
    { "seed: 7", "timers: tick", JB_EINVAL, 3, "timers must be a list", "" },
    { "seed: 7", "matrix: {seeds: 0}", JB_EINVAL, 3, "seeds must be 1", "" },
    { "seed: 7", "matrix: {exclude: [{method: nothing}]}", JB_EINVAL, 3, "excludes no cell", "" },
    { "seed: 7", "matrix: {exclude: [{methd: iid}]}", JB_EINVAL, 3, "unknown key \"methd\"", "\"method\"" },
    { "seed: 7", "matrix: {exclude: [{method: \"*\"}]}", JB_EINVAL, 1, "no cells", "" },
    { "seed: 7", "matrix: {exclude: [{}]}", JB_EINVAL, 3, "empty row", "" },
    { "seed: 7", "executor: {use: locla}", JB_ENOTFOUND, 3, "no executor named \"locla\"", "\"local\"" },
    { "seed: 7", "executor: {slots: {llm: 8}}", JB_EUNSUPPORTED, 3, "slots per stage", "one number" },
    { "seed: 7", "executor: {slots: 0}", JB_EINVAL, 3, "slots must be 1", "" },
    { "seed: 7", "shapes: {check: tiny}", JB_EINVAL, 3, "shapes.check: workload 12k has no shape \"tiny\"", "full, gate" },
    { "seed: 7", "shapes: {chekc: gate}", JB_EINVAL, 3, "unknown key \"chekc\"", "\"check\"" },
    { "seed: 7", "skip: [trace]", JB_EINVAL, 3, "unknown stage to skip \"trace\"", "compile, check, time" },
    { "seed: 7", "limits: {trace: 1}", JB_EINVAL, 3, "unknown key \"trace\"", "" },
    { "seed: 7", "limits: {trace_s: 0}", JB_EINVAL, 3, "limit trace_s must be 5 to 999999, not 0", "default is 60" },
    { "seed: 7", "limits: {trace_s: soon}", JB_EINVAL, 3, "limit trace_s", "" },
    { "seed: 7", "budget: {usd: 20}", JB_EINVAL, 3, "backend a (fake) has no price", "price file" },
    { "seed: 7", "budget: {usd: -1}", JB_EINVAL, 3, "usd must be dollars above 0", "" },
    { "seed: 7", "budget: {tokens: 1.5}", JB_EINVAL, 3, "tokens must be a whole number", "" },
    { "seed: 7", "budget: {compile_s: 20}", JB_EINVAL, 3, "can't cover one compile", "limits.compile_s" },
    { "seed: 7", "budget: {token: 5}", JB_EINVAL, 3, "token", "tokens" },
    { "seed: 7", "budget: 5", JB_EINVAL, 3, "budget must be a mapping", "" },
    { "seed: 7", "budget: {wall: soon}", JB_EINVAL, 3, "wall must be a duration", "" },
    { "seed: 7", "budget: {samples_per_cell: 0}", JB_EINVAL, 3, "samples_per_cell must be 1", "" },
    { "seed: 7", "prices: p.yaml", JB_ENOTFOUND, 3, "p.yaml", "docs/budget.md" },
    { "seed: 7", "on_error: {infra_retries: -1}", JB_EINVAL, 3, "infra_retries must be 0", "" },
    { "seed: 7", "on_error: {stop_after_infra_share: 2}", JB_EINVAL, 3, "0 (never) to 1", "" },
    { "seed: 7", "on_error: {call_retries: -1}", JB_EINVAL, 3, "on_error.call_retries must be 0 to 100", "" },
    { "seed: 7", "on_error: {backoff: 3}", JB_EINVAL, 3, "on_error.backoff must be a duration such as", "" },
    { "seed: 7", "on_error: {backof: 3s}", JB_EINVAL, 3, "unknown key \"backof\"", "\"backoff\"" },
    { "use: plain}", "use: plain, limits: {rpms: 3}}", JB_EINVAL, 11, "unknown key \"rpms\"", "\"rpm\"" },
    { "use: plain}", "use: plain, limits: {in_flight: 0}}", JB_EINVAL, 11, "limits.in_flight must be 1 to 1000, not 0", "" },
    { "use: plain}", "use: plain, timeouts: {idle: 0ms}}", JB_EINVAL, 11, "timeouts.idle must be 1 to", "" },
    { "use: plain}", "use: plain, timeouts: 3}", JB_EINVAL, 11, "timeouts must be a mapping", "" },
    { "samples: 4}", "samples: 4, limits: {rpm: 3}}", JB_EINVAL, 7, "limits", "" }, /* of backends, not of methods */
    { "seed: 7", "on_error: [1]", JB_EINVAL, 3, "on_error must be a mapping", "" },
    { "seed: 7", "seed: &a 1\nname2: *a", JB_EPARSE, 3, "anchors and aliases", "" },
    { "seed: 7", "seed: !!int 1", JB_EPARSE, 3, "tags", "" },
    { "seed: 7", "name: u", JB_EPARSE, 3, "occurs twice", "" },
};

START_TEST(mistakes_are_named_with_their_line)
{
    jb_error e = JB_ERROR_INIT;
    jb_study *s = NULL;
    char *text = fixture_edit(STUDY, bad[_i].from, bad[_i].to), where[200];
    int status = parse(text, NULL, &s, &e);
    ck_assert_msg(status == bad[_i].status, "%d, not %d: %s", status, bad[_i].status, e.message);
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_msg(strstr(e.hint, bad[_i].hint) != NULL, "\"%s\" lacks \"%s\"", e.hint, bad[_i].hint);
    snprintf(where, sizeof where, "%s:%d", fixture_path("study.yaml"), bad[_i].line);
    ck_assert_str_eq(e.where, where);
    ck_assert_uint_eq(e.flags & JB_ERR_USER, JB_ERR_USER);
    free(text);
}
END_TEST

START_TEST(methods_that_ask_need_a_backend)
{
    jb_error e = JB_ERROR_INIT;
    jb_study *s = NULL;
    char *text = fixture_edit(STUDY, "backends:\n  - {name: a, use: fake, note: x}\n  - {name: b, use: plain}\n", "");
    ck_assert_int_eq(parse(text, NULL, &s, &e), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(e.message, "iid asks a backend"));
    char *alone = fixture_edit(text, "  - {name: iid, use: bon, samples: 4}\n", "");
    s = good(alone, NULL);
    ck_assert_uint_eq(s->cell_count, 2);
    jb_study_free(s);
    free(text);
    free(alone);
}
END_TEST

START_TEST(gates_in_place_by_file_and_by_default)
{
    char *inline_set = fixture_edit(STUDY, "[lax, robust]", "[robust, {name: mine, variant: published, rows: [{use: chk, temperature: 2}]}, ./own.yaml]");
    char *none = fixture_edit(STUDY, "gates: [lax, robust]\n", "");
    char *own = fixture_edit(FIXTURE_LAX, "name: lax", "name: own");
    fixture_write("own.yaml", own);
    jb_study *s = good(inline_set, NULL);
    ck_assert_uint_eq(s->gate_count, 3);
    ck_assert_str_eq(jb_gateset_name(s->gates[1]), "mine");
    ck_assert_str_eq(jb_gateset_name(s->gates[2]), "own");
    ck_assert_str_eq(jb_gateset_name(s->headline), "robust");
    jb_study_free(s);
    s = good(none, NULL);
    ck_assert_uint_eq(s->gate_count, 2); /* all there are */
    jb_study_free(s);
    char *last = fixture_edit(STUDY, "[lax, robust]", "[./own.yaml, lax]");
    s = good(last, NULL);
    ck_assert_str_eq(jb_gateset_name(s->headline), "lax"); /* no robust: the last */
    jb_study_free(s);
    free(inline_set);
    free(none);
    free(own);
    free(last);
}
END_TEST

START_TEST(facts_follow_the_study)
{
    jb_error e = JB_ERROR_INIT;
    char *one = fixture_edit(STUDY, "{use: s}", "{use: s, only: [8p]}"), *tiny = jb_asprintf("%s%s", one, "shapes: {check: tiny}\nvariant: published\nskip: [compile]\ntimers: [tick]\n");
    jb_study *s = good(STUDY, NULL), *t = good(tiny, NULL);
    cJSON *f = jb_study_facts(s, s->cells[0].workload, &e), *g = jb_study_facts(t, t->cells[0].workload, &e);
    ck_assert(f && g);
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "judged", ""), "`lax`"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "judged", ""), "`robust`"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "shapes_table", ""), "- gate"));
    ck_assert_ptr_null(strstr(jb_json_str(f, "shapes_table", ""), "- tiny"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(g, "shapes_table", ""), "- tiny"));
    ck_assert_ptr_null(strstr(jb_json_str(g, "shapes_table", ""), "- gate"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(g, "judged", ""), "at the shape tiny"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(g, "inputs_table", ""), "N(0, 1)"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(f, "judged", ""), "The gate set `robust` decides"));
    ck_assert_str_eq(jb_json_str(f, "speed", ""), "The TPU compiler must accept it at the shape full. Speed is not measured here.");
    ck_assert_ptr_nonnull(strstr(jb_json_str(g, "speed", ""), "It is not compiled for the TPU here. Right kernels are timed at the shape full"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(g, "speed", ""), "by `tick`; only times of a real device"));
    ck_assert_ptr_nonnull(strstr(jb_json_str(g, "variant", ""), "This is the variant `published`"));
    cJSON_Delete(f);
    cJSON_Delete(g);
    jb_study_free(s);
    jb_study_free(t);
    jb_free(tiny);
    free(one);
}
END_TEST

START_TEST(hostile_files_are_refused_fast)
{
    jb_error e = JB_ERROR_INIT;
    jb_study *s = NULL;
    jb_study_options o = { .registry = registry, .suite_root = suite_root };
    size_t size = 10 << 20;
    char *big = malloc(size + 1);
    memset(big, 'x', size);
    memcpy(big, "schema: 1\n# ", 12);
    big[size] = '\0';
    fixture_write("big.yaml", big);
    ck_assert_int_eq(jb_study_load(fixture_path("big.yaml"), &o, &s, &e), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(e.message, "big.yaml"));
    ck_assert_ptr_nonnull(strstr(e.hint, "1048576"));
    ck_assert_int_eq(jb_study_load(fixture_path("nowhere.yaml"), &o, &s, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.message, "nowhere.yaml"));
    static const char *const hostile[] = {
        "", "- 1\n", "a: &a [x,x]\nb: &b [*a,*a]\n", "a: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]\n",
        "schema: 1\n---\nschema: 1\n", "schema: \"1\n", "? {a: 1}\n: 2\n", "\xff\xfe\n", "a: \"\\0\"\n", "schema:\n\t1\n",
    };
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++) {
        ck_assert_msg(parse(hostile[i], NULL, &s, &e) != 0, "\"%s\" was taken", hostile[i]);
        ck_assert_ptr_nonnull(strstr(e.where, "study.yaml"));
    }
    free(big);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    static const char *const set[] = { "executor.slots=1" };
    for (long n = 1;; n++) {
        jb_error e = JB_ERROR_INIT;
        jb_study *s = NULL;
        jb_mem_fail_after(n, 1);
        int status = parse(STUDY, &(jb_study_options){ .set = set, .set_count = 1 }, &s, &e);
        cJSON *facts = status ? NULL : jb_study_facts(s, s->cells[0].workload, &e);
        jb_mem_fail_after(0, 0);
        int done = facts != NULL;
        cJSON_Delete(facts);
        jb_study_free(s);
        if (done) break;
        ck_assert_int_lt(n, 200000);
    }
}
END_TEST

START_TEST(bytes_that_are_cut_anywhere_do_no_harm)
{
    jb_error e = JB_ERROR_INIT;
    for (size_t n = 0; n < sizeof STUDY - 1; n++) {
        char cut[sizeof STUDY];
        jb_study *s = NULL;
        memcpy(cut, STUDY, n);
        cut[n] = '\0';
        parse(cut, NULL, &s, &e);
        jb_study_free(s);
        memcpy(cut, STUDY, sizeof STUDY);
        cut[n] = '\x01';
        ck_assert_int_ne(parse(cut, NULL, &s, &e), 0);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("study");
    TCase *t = tcase_create("all");
    jb_json_setup();
    /* One folder and one compiled plugin; every test runs in a fork of it. */
    tcase_add_unchecked_fixture(t, make, unmake);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, cells_are_crossed);
    tcase_add_test(t, every_supported_key);
    tcase_add_test(t, limits_timeouts_and_patience);
    tcase_add_test(t, the_canonical_form_is_stable_and_blind_to_slots);
    tcase_add_loop_test(t, set_reaches_every_kind_of_key, 0, sizeof sets / sizeof *sets);
    tcase_add_test(t, later_sets_win);
    tcase_add_loop_test(t, wrong_sets_are_named, 0, sizeof bad_sets / sizeof *bad_sets);
    tcase_add_loop_test(t, only_and_limit, 0, sizeof filters / sizeof *filters);
    tcase_add_loop_test(t, mistakes_are_named_with_their_line, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, methods_that_ask_need_a_backend);
    tcase_add_test(t, gates_in_place_by_file_and_by_default);
    tcase_add_test(t, facts_follow_the_study);
    tcase_add_test(t, hostile_files_are_refused_fast);
    tcase_add_test(t, every_allocation_may_fail);
    tcase_add_test(t, bytes_that_are_cut_anywhere_do_no_harm);
    tcase_add_test(t, a_changed_workload_changes_keys_of_its_cells_only); /* last: it edits the suite */
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
