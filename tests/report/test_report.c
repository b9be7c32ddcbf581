/* SPDX-License-Identifier: Apache-2.0 */
/* tests/report/test_report.c - a report computed from a small, hand-written
 * journal: counts, rates, rows, reach, disagreement, ledger, labels, that no speedup
 * is printed which was not timed natively, and no byte as a candidate wrote it. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/engine/index.h"
#include "core/engine/volatile.h"
#include "core/report/report.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char root[64];
static jb_error err;

static void setup(void)
{
    jb_json_setup();
    err = (jb_error)JB_ERROR_INIT;
    snprintf(root, sizeof root, "/tmp/jb-report-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(root));
}

static void teardown(void) { jb_fs_remove_tree(root, NULL); }

static const char MANIFEST[] =
    "{\"schema\":1,\"name\":\"n\",\"seed\":\"7\",\"started\":\"now\",\"run\":\"r\",\"headline\":\"robust\",\"final_rows\":true,"
    "\"shapes\":{\"check\":\"\",\"timed\":\"full\"},\"gates\":[{\"name\":\"literature\"},{\"name\":\"robust\"}],"
    "\"backends\":[{\"name\":\"b\",\"no_model\":true},{\"name\":\"llm\",\"no_model\":false}],"
    "\"cells\":[{\"key\":\"c1\",\"label\":\"8p/m/b s0\",\"workload\":\"8p\",\"workload_name\":\"gemm\",\"method\":\"m\",\"backend\":\"b\"},"
    "{\"key\":\"c2\",\"label\":\"12p/m/b s0\",\"workload\":\"12p\",\"workload_name\":\"rms\",\"method\":\"m\",\"backend\":\"b\"}%s]}";

/* %s in a record: stages and gates. */
#define GATES(l, r) "\"gates\":{\"literature\":{\"verdict\":\"" l "\",\"rows\":[{}]},\"robust\":{\"verdict\":\"" r "\",\"killer\":{\"gate\":\"error_ratio\",\"distribution\":\"outlier\"},\"rows\":[{}]}}"
#define OKSTAGES "\"stages\":{\"extract\":{\"status\":\"ok\"},\"trace\":{\"status\":\"ok\"},\"inspect\":{\"status\":\"ok\",\"link\":{\"status\":\"structural\"},\"coverage\":{\"status\":\"complete\"}},\"check\":{\"status\":\"ok\"}}"
#define COST ",\"cost\":{\"trace_s\":1,\"check_s\":2,\"wall_s\":4}"

static const char *const EVENTS[] = {
    "\"kind\":\"session\"", "\"kind\":\"cell_begin\",\"cell\":\"c1\"",
    /* 1: a sample that becomes a right kernel, through the final rows */
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":1,\"op_kind\":\"llm\",\"hash\":\"x\",\"purpose\":\"sample\",\"lane\":2,\"turn\":1,\"prompt\":\"pp\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":1,\"status\":\"done\",\"usage\":{\"input_uncached\":100,\"cache_read\":0,\"cache_write\":0,\"output\":50,\"reasoning\":0}",
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":2,\"op_kind\":\"eval\",\"candidate\":1,\"llm_op\":1,\"source_sha256\":\"aa\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":2,\"candidate\":1,\"outcome\":\"ok\",\"stage\":\"\",\"reason\":\"\",\"record\":{" OKSTAGES "," GATES("pass", "pass") ",\"numerics\":\"interpret\",\"timing\":%s" COST "}",
    /* 2: literature accepts, robust rejects */
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":3,\"op_kind\":\"llm\",\"hash\":\"x\",\"purpose\":\"sample\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":3,\"status\":\"done\",\"usage\":{\"output\":7}",
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":4,\"op_kind\":\"eval\",\"candidate\":2,\"llm_op\":3,\"source_sha256\":\"bb\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":4,\"candidate\":2,\"outcome\":\"wrong\",\"stage\":\"check\",\"reason\":\"robust: \\u001b[31mbad\",\"record\":{" OKSTAGES "," GATES("pass", "fail") COST "}",
    /* a duplicate, shared: no seconds */
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":5,\"op_kind\":\"eval\",\"candidate\":3,\"llm_op\":3,\"source_sha256\":\"bb\",\"duplicate\":true",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":5,\"candidate\":3,\"outcome\":\"wrong\",\"stage\":\"check\",\"reason\":\"robust\",\"shared\":true,\"record\":{" OKSTAGES "," GATES("pass", "fail") COST "}",
    /* infra, a failed call, a plan, a cancelled evaluation whose end came first */
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":6,\"op_kind\":\"eval\",\"candidate\":4,\"llm_op\":0",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":6,\"candidate\":4,\"outcome\":\"infra\",\"stage\":\"trace\",\"reason\":\"lost\",\"record\":{\"stages\":{\"trace\":{\"status\":\"infra\"}}}",
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":7,\"op_kind\":\"llm\",\"hash\":\"x\",\"purpose\":\"sample\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":7,\"status\":\"failed\"",
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":8,\"op_kind\":\"llm\",\"hash\":\"x\",\"purpose\":\"plan\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":8,\"status\":\"done\",\"usage\":{\"output\":3}",
    "\"kind\":\"op_submit\",\"cell\":\"c1\",\"op\":9,\"op_kind\":\"eval\",\"candidate\":5,\"llm_op\":8,\"source_sha256\":\"cc\"",
    "\"kind\":\"op_done\",\"cell\":\"c1\",\"op\":9,\"candidate\":5,\"outcome\":\"ok\",\"stage\":\"\",\"record\":{" OKSTAGES "," GATES("pass", "pass") COST "}",
    "\"kind\":\"op_cancel\",\"cell\":\"c1\",\"op\":9",
    "\"kind\":\"final_done\",\"cell\":\"c1\",\"candidate\":1,\"verdict\":\"%s\",\"outcome\":\"%s\",\"stage\":\"check\",\"reason\":\"r\",\"record\":{" OKSTAGES ",\"gates\":{\"robust\":{\"verdict\":\"%s\",\"rows\":[{}]}}}",
    "\"kind\":\"cell_end\",\"cell\":\"c1\",\"status\":\"done\"",
    "\"kind\":\"cell_begin\",\"cell\":\"c2\"",
    "\"kind\":\"op_submit\",\"cell\":\"c2\",\"op\":1,\"op_kind\":\"llm\",\"hash\":\"x\",\"purpose\":\"sample\"",
};

typedef struct variation { const char *timing, *verdict, *outcome, *extra_cell; } variation;
static const variation PLAIN = { "{\"status\":\"n/a\"}", "pass", "ok", "" };

static void spit(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* Put values in for each %s in turn. */
static void fill(jb_buf *b, const char *text, const char *const *values)
{
    const char *hole;
    for (; (hole = strstr(text, "%s")) != NULL; text = hole + 2) {
        jb_buf_append(b, text, (size_t)(hole - text));
        jb_buf_puts(b, *values++);
    }
    jb_buf_puts(b, text);
}

static jb_records *load(const variation *v)
{
    const char *final[] = { v->verdict, v->outcome, v->verdict };
    jb_buf journal = JB_BUF_INIT(1u << 20), manifest = JB_BUF_INIT(1u << 16);
    jb_records *r = NULL;
    fill(&manifest, MANIFEST, &v->extra_cell);
    for (size_t i = 0; i < sizeof EVENTS / sizeof EVENTS[0]; i++) {
        jb_buf_printf(&journal, "{\"seq\":%zu,\"t\":%zu,", i + 1, i);
        fill(&journal, EVENTS[i], strstr(EVENTS[i], "final_done") ? final : &v->timing);
        jb_buf_puts(&journal, "}\n");
    }
    spit("manifest.json", manifest.ptr);
    spit("journal.jsonl", journal.ptr);
    jb_buf_free(&manifest);
    jb_buf_free(&journal);
    ck_assert_msg(jb_records_load(root, &r, &err) == 0, "%s", err.message);
    return r;
}

static cJSON *report(const variation *v, int stable)
{
    jb_records *r = load(v);
    cJSON *o = jb_report_json(r, root, stable);
    ck_assert_ptr_nonnull(o);
    jb_records_free(r);
    return o;
}

static char *text_of(const cJSON *o)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    ck_assert_int_eq(jb_report_print(o, f, NULL), 0);
    fclose(f);
    return text;
}

START_TEST(counts_and_rates)
{
    cJSON *o = report(&PLAIN, 0);
    const cJSON *m = cJSON_GetArrayItem(jb_json_obj(o, "methods"), 0), *left = jb_json_path(o, "denominator.left_out");
    ck_assert_int_eq(jb_json_i64(jb_json_obj(o, "outcomes"), "ok", 0), 1);
    ck_assert_int_eq(jb_json_i64(jb_json_obj(o, "outcomes"), "wrong", 0), 2);
    ck_assert_int_eq(jb_json_i64(jb_json_obj(o, "denominator"), "counted", 0), 3);
    ck_assert_int_eq(jb_json_i64(left, "infra", 0), 1);
    ck_assert_int_eq(jb_json_i64(left, "cancelled", 0), 1);
    ck_assert_int_eq(jb_json_i64(left, "skipped", -1), 0);
    ck_assert_double_eq_tol(jb_json_num(o, "rate", 0), 1.0 / 3, 1e-12);
    ck_assert_int_eq(jb_json_i64(m, "workloads", 0), 2);
    ck_assert_int_eq(jb_json_i64(m, "solved", 0), 1);
    ck_assert_int_eq(jb_json_bool(o, "complete", 1), 0);
    const cJSON *c = cJSON_GetArrayItem(jb_json_obj(o, "cells"), 0);
    ck_assert_str_eq(jb_json_str(c, "strip", ""), "+xx!/");
    ck_assert_str_eq(jb_json_str(jb_json_obj(c, "best"), "final_rows", ""), "pass");
    ck_assert_str_eq(jb_json_str(cJSON_GetArrayItem(jb_json_obj(o, "cells"), 1), "state", ""), "running");
    ck_assert_int_eq(jb_json_i64(o, "distinct_sources", 0), 3);
    cJSON_Delete(o);
}
END_TEST

START_TEST(the_ledger)
{
    cJSON *o = report(&PLAIN, 0);
    const cJSON *l = jb_json_obj(o, "ledger"), *cost = jb_json_obj(l, "cost");
    ck_assert_int_eq(jb_json_i64(l, "samples", 0), 2); /* two calls; infra, failed and cancelled cost none */
    ck_assert_int_eq(jb_json_i64(l, "calls", 0), 3);
    ck_assert_int_eq(jb_json_i64(l, "failed_calls", 0), 1);
    ck_assert_int_eq(jb_json_i64(l, "duplicates", 0), 1);
    ck_assert_int_eq(jb_json_i64(jb_json_obj(l, "tokens"), "output", 0), 60);
    ck_assert_int_eq(jb_json_i64(l, "calls_without_token_counts", 0), 2);
    ck_assert_double_eq(jb_json_num(cost, "check_s", 0), 4); /* two evaluations: the shared one was not paid twice */
    ck_assert_double_eq(jb_json_num(cost, "wall_s", 0), 8);
    cJSON_Delete(o);
}
END_TEST

START_TEST(gate_sets_that_disagree)
{
    cJSON *o = report(&PLAIN, 0);
    const cJSON *d = cJSON_GetArrayItem(jb_json_obj(o, "disagreement"), 0);
    ck_assert_str_eq(jb_json_str(d, "accepts", ""), "literature");
    ck_assert_str_eq(jb_json_str(d, "rejects", ""), "robust");
    ck_assert_int_eq(jb_json_i64(d, "count", 0), 2);
    ck_assert_int_eq(jb_json_i64(d, "judged_by_both", 0), 3);
    ck_assert_int_eq(jb_json_i64(cJSON_GetArrayItem(jb_json_obj(d, "list"), 0), "candidate", 0), 2);
    const cJSON *f = cJSON_GetArrayItem(jb_json_obj(o, "faults"), 0);
    ck_assert_str_eq(jb_json_str(f, "fault", ""), "error_ratio/outlier");
    ck_assert_int_eq(jb_json_i64(f, "count", 0), 2);
    cJSON_Delete(o);
}
END_TEST

START_TEST(failed_final_rows_unsolve)
{
    static const variation failed = { "{}", "fail", "wrong", "" };
    cJSON *o = report(&failed, 0);
    ck_assert_int_eq(jb_json_i64(o, "correct", 9), 0);
    ck_assert_int_eq(jb_json_i64(jb_json_obj(o, "outcomes"), "wrong", 0), 3);
    ck_assert_int_eq(jb_json_i64(cJSON_GetArrayItem(jb_json_obj(o, "methods"), 0), "solved", 9), 0);
    ck_assert_int_eq(cJSON_IsNull(cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(jb_json_obj(o, "cells"), 0), "best")), 1);
    /* Literature accepts it still: it joins the disagreement. */
    ck_assert_int_eq(jb_json_i64(cJSON_GetArrayItem(jb_json_obj(o, "disagreement"), 0), "count", 0), 3);
    cJSON_Delete(o);
}
END_TEST

START_TEST(inconclusive_final_rows_do_not_solve)
{
    static const variation unclear = { "{}", "inconclusive", "inconclusive", "" };
    cJSON *o = report(&unclear, 0);
    ck_assert_int_eq(jb_json_i64(cJSON_GetArrayItem(jb_json_obj(o, "methods"), 0), "solved", 9), 0);
    ck_assert_str_eq(jb_json_str(jb_json_obj(cJSON_GetArrayItem(jb_json_obj(o, "cells"), 0), "best"), "final_rows", ""), "inconclusive");
    cJSON_Delete(o);
}
END_TEST

static const struct { const char *timing; int speedup; const char *words; } TIMINGS[] = {
    { "{\"status\":\"ok\",\"interpreted\":true,\"baseline_median_us\":10,\"candidate_median_us\":5}", 0, "no speedup is computed" },
    { "{\"status\":\"ok\",\"baseline_median_us\":10,\"candidate_median_us\":5}", 0, "no speedup is computed" }, /* does not say: not native */
    { "{\"status\":\"implausible\",\"interpreted\":false,\"baseline_median_us\":10,\"candidate_median_us\":5}", 0, "timing     n/a" },
    { "{\"status\":\"ok\",\"interpreted\":false,\"baseline_median_us\":10,\"candidate_median_us\":5}", 1, "2.00x over XLA (measured)" },
    { "{\"status\":\"n/a\"}", 0, "timing     n/a" },
    { "{\"status\":\"n/a\",\"interpreted\":true,\"baseline_median_us\":10,\"candidate_median_us\":5}", 0, "no speedup is computed" },
};

START_TEST(no_speedup_unless_timed_natively)
{
    variation v = PLAIN;
    v.timing = TIMINGS[_i].timing;
    cJSON *o = report(&v, 0);
    char *text = text_of(o);
    ck_assert_msg((strstr(text, "x over XLA") != NULL) == TIMINGS[_i].speedup, "case %d:\n%s", _i, text);
    ck_assert_msg(strstr(text, TIMINGS[_i].words) != NULL, "case %d lacks [%s]:\n%s", _i, TIMINGS[_i].words, text);
    free(text);
    cJSON_Delete(o);
}
END_TEST

START_TEST(a_row_a_candidate)
{
    cJSON *o = report(&PLAIN, 0);
    const cJSON *rows = jb_json_obj(cJSON_GetArrayItem(jb_json_obj(o, "cells"), 0), "candidates");
    const cJSON *one = cJSON_GetArrayItem(rows, 0), *two = cJSON_GetArrayItem(rows, 1), *four = cJSON_GetArrayItem(rows, 3);
    ck_assert_int_eq(cJSON_GetArraySize(rows), 5);
    ck_assert_int_eq(jb_json_i64(one, "id", 0), 1);
    ck_assert_str_eq(jb_json_str(one, "outcome", ""), "ok");
    ck_assert_str_eq(jb_json_str(one, "final", ""), "pass");
    ck_assert_str_eq(jb_json_str(one, "prompt", ""), "pp");
    ck_assert_str_eq(jb_json_str(one, "source", ""), "aa");
    ck_assert_int_eq(jb_json_i64(one, "lane", 0), 2);
    ck_assert_int_eq(jb_json_i64(one, "turn", 0), 1);
    ck_assert_ptr_null(cJSON_GetObjectItemCaseSensitive(one, "fault"));
    ck_assert_str_eq(jb_json_str(two, "fault", ""), "error_ratio/outlier");
    ck_assert_str_eq(jb_json_str(two, "stage", ""), "check");
    ck_assert_str_eq(cJSON_GetArrayItem(jb_json_obj(two, "verdicts"), 0)->valuestring, "pass"); /* in the order of gates[] */
    ck_assert_str_eq(cJSON_GetArrayItem(jb_json_obj(two, "verdicts"), 1)->valuestring, "fail");
    ck_assert_int_eq(jb_json_bool(cJSON_GetArrayItem(rows, 2), "duplicate", 0), 1);
    ck_assert_str_eq(jb_json_str(four, "outcome", ""), "infra");
    ck_assert_ptr_null(cJSON_GetObjectItemCaseSensitive(four, "prompt")); /* it came from no call */
    ck_assert_str_eq(jb_json_str(jb_json_obj(o, "letters"), "wrong", ""), "x");
    cJSON_Delete(o);
}
END_TEST

/* Two workloads of one cell each; the first is solved by its first candidate. */
START_TEST(what_a_method_reaches)
{
    variation v = PLAIN;
    cJSON *o = report(&v, 0);
    const cJSON *m = cJSON_GetArrayItem(jb_json_obj(o, "methods"), 0), *reach = jb_json_obj(m, "at_samples"), *speed = jb_json_obj(m, "speed");
    ck_assert_int_eq(jb_json_i64(reach, "cells", 0), 2);
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(reach, "correct")), 3); /* infra and cancelled are no samples */
    ck_assert_double_eq(cJSON_GetArrayItem(jb_json_obj(reach, "correct"), 0)->valuedouble, 0.5);
    ck_assert_ptr_null(jb_json_obj(reach, "fast1"));
    ck_assert_str_eq(jb_json_str(speed, "status", ""), "n/a");
    ck_assert_str_eq(jb_json_str(speed, "reason", ""), "no kernel was timed natively beside its baseline");
    ck_assert_ptr_null(cJSON_GetObjectItemCaseSensitive(speed, "geomean_floor1"));
    ck_assert_double_eq_tol(cJSON_GetArrayItem(jb_json_obj(m, "solved_interval"), 0)->valuedouble, 0.0945, 5e-4); /* Wilson of 1/2 */
    cJSON_Delete(o);
}
END_TEST

static const struct { const char *candidate_us; double floor1, fail1, solved_only, fast1; int faster; } SPEEDS[] = {
    { "25", 2, 2, 4, 0.5, 1 },                /* 4x on one of two workloads: exp(ln 4 / 2) */
    { "200", 1, 0.70710678118, 0.5, 0, 0 },   /* twice as slow: the floor hides it, the others do not */
    { "100", 1, 1, 1, 0, 0 },                 /* equal is not faster */
};

START_TEST(means_of_the_speedup)
{
    char timing[160];
    variation v = PLAIN;
    snprintf(timing, sizeof timing, "{\"status\":\"ok\",\"interpreted\":false,\"baseline_median_us\":100,\"candidate_median_us\":%s}", SPEEDS[_i].candidate_us);
    v.timing = timing;
    cJSON *o = report(&v, 0);
    const cJSON *m = cJSON_GetArrayItem(jb_json_obj(o, "methods"), 0), *speed = jb_json_obj(m, "speed"), *fast = jb_json_path(m, "at_samples.fast1");
    ck_assert_str_eq(jb_json_str(speed, "status", ""), "ok");
    ck_assert_double_eq_tol(jb_json_num(speed, "geomean_floor1", 0), SPEEDS[_i].floor1, 1e-9);
    ck_assert_double_eq_tol(jb_json_num(speed, "geomean_fail1", 0), SPEEDS[_i].fail1, 1e-9);
    ck_assert_double_eq_tol(jb_json_num(speed, "geomean_solved_only", 0), SPEEDS[_i].solved_only, 1e-9);
    ck_assert_int_eq(jb_json_i64(speed, "faster_workloads", -1), SPEEDS[_i].faster);
    ck_assert_int_eq(jb_json_i64(speed, "workloads", 0), 2);
    ck_assert_double_eq(cJSON_GetArrayItem(fast, 0)->valuedouble, SPEEDS[_i].fast1);
    cJSON_Delete(o);
}
END_TEST

/* Every text of the document, and every key that a record chose, made hostile. */
#define HOSTILE "\x1b[2J\x07\xe2\x80\xae\r\xc2\x9b"

static void poison(cJSON *o, int keys)
{
    static const char *const OPEN[] = { "outcomes", "link", "coverage", "numerics" };
    for (cJSON *c = o->child; c; c = c->next) {
        int open = 0;
        for (size_t i = 0; c->string && i < sizeof OPEN / sizeof OPEN[0]; i++) open |= strcmp(c->string, OPEN[i]) == 0;
        if (cJSON_IsString(c)) {
            char *text = jb_asprintf(HOSTILE "%s", c->valuestring);
            cJSON_SetValuestring(c, text);
            jb_free(text);
        }
        poison(c, open && cJSON_IsObject(c));
        if (!keys) continue;
        char *key = jb_asprintf(HOSTILE "%s", c->string);
        cJSON_free(c->string);
        c->string = key;
    }
}

START_TEST(nothing_of_a_run_reaches_the_terminal_raw)
{
    cJSON *o = report(&PLAIN, 0);
    poison(o, 0);
    char *text = text_of(o);
    for (const char *s = text; *s; s++)
        ck_assert_msg((unsigned char)*s >= 0x20 || *s == '\n', "byte %02x in: %.60s", (unsigned char)*s, s > text + 20 ? s - 20 : text);
    ck_assert_ptr_null(strstr(text, "\xe2\x80\xae"));
    ck_assert_ptr_null(strstr(text, "\xc2\x9b"));
    ck_assert_ptr_nonnull(strstr(text, "\\x1b[2J\\x07\\xe2\\x80\\xae\\x0d\\xc2\\x9b" "literature"));
    free(text);
    cJSON_Delete(o);
}
END_TEST

START_TEST(who_wrote_the_candidates)
{
    static const variation mixed = { "{}", "pass", "ok", ",{\"key\":\"c3\",\"label\":\"8p/m/llm s0\",\"workload\":\"8p\",\"method\":\"m\",\"backend\":\"llm\"}" };
    cJSON *o = report(&PLAIN, 0);
    char *text = text_of(o);
    ck_assert_int_eq(jb_json_bool(o, "no_model", 0), 1);
    ck_assert_ptr_nonnull(strstr(text, "no model wrote these candidates"));
    ck_assert_ptr_nonnull(strstr(text, root)); /* where the record lies */
    ck_assert_ptr_null(strchr(text, 0x1b));    /* what a candidate printed is shown, not obeyed */
    ck_assert_ptr_nonnull(strstr(text, "\\x1b[31mbad"));
    ck_assert_ptr_nonnull(strstr(text, "incomplete"));
    free(text);
    cJSON_Delete(o);
    o = report(&mixed, 0);
    ck_assert_int_eq(jb_json_bool(o, "no_model", 1), 0);
    ck_assert_str_eq(jb_json_str(o, "note", ""), "no model wrote the candidates of the backends marked so");
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(o, "methods")), 2);
    cJSON_Delete(o);
}
END_TEST

START_TEST(stable_leaves_out_the_volatile)
{
    cJSON *o = report(&PLAIN, 1);
    jb_buf b = JB_BUF_INIT(1u << 20);
    ck_assert_int_eq(jb_json_print(o, &b), 0);
    for (size_t i = 0; jb_volatile_fields[i]; i++) {
        char key[64];
        snprintf(key, sizeof key, "\"%s\":", jb_volatile_fields[i]);
        ck_assert_msg(strstr(b.ptr, key) == NULL, "%s is still there", key);
    }
    ck_assert_ptr_null(strstr(b.ptr, root));
    jb_buf_free(&b);
    cJSON_Delete(o);
}
END_TEST

static const struct { const char *name, *manifest, *journal; int rc; const char *words; } DAMAGED[] = {
    { "no manifest", NULL, "", JB_ENOTFOUND, "no run" },
    { "no journal", "{\"cells\":[]}", NULL, JB_ENOTFOUND, "journal" },
    { "manifest cut", "{\"cells\":[", "", JB_EPARSE, "" },
    { "unknown cell", "{\"cells\":[]}", "{\"seq\":1,\"kind\":\"cell_begin\",\"cell\":\"x\"}\n", JB_EPARSE, "cell x" },
    { "an end without a beginning", "{\"cells\":[{\"key\":\"x\"}]}", "{\"seq\":1,\"kind\":\"final_done\",\"cell\":\"x\",\"candidate\":3}\n", JB_EPARSE, "line 1" },
    { "absurd operation", "{\"cells\":[{\"key\":\"x\"}]}", "{\"seq\":1,\"kind\":\"op_done\",\"cell\":\"x\",\"op\":9999999999}\n", JB_EPARSE, "line 1" },
};

START_TEST(damaged_runs_are_named)
{
    jb_records *r = NULL;
    if (DAMAGED[_i].manifest) spit("manifest.json", DAMAGED[_i].manifest);
    if (DAMAGED[_i].journal) spit("journal.jsonl", DAMAGED[_i].journal);
    int rc = jb_records_load(root, &r, &err);
    ck_assert_msg(rc == DAMAGED[_i].rc, "%s: %d %s", DAMAGED[_i].name, rc, err.message);
    ck_assert_msg(strstr(err.message, DAMAGED[_i].words) != NULL, "%s: %s", DAMAGED[_i].name, err.message);
    ck_assert_ptr_null(r);
}
END_TEST

START_TEST(letters_differ)
{
    for (uint32_t a = 1; a <= JB_OUTCOME_COUNT; a++)
        for (uint32_t b = a + 1; b <= JB_OUTCOME_COUNT; b++) ck_assert_int_ne(jb_report_letter(a), jb_report_letter(b));
    ck_assert_int_eq(jb_report_letter(JB_OUTCOME_OK), '+');
    ck_assert_int_eq(jb_report_letter(JB_OUTCOME_WRONG), 'x');
    ck_assert_int_eq(jb_report_letter(JB_OUTCOME_CANCELLED), '/');
    ck_assert_int_eq(jb_report_letter(99), '?');
}
END_TEST

START_TEST(allocation_failures)
{
    jb_records *r = load(&PLAIN);
    for (long n = 1; n < 1500; n += n < 60 ? 1 : 23) {
        jb_mem_fail_after(n, 0);
        cJSON *o = jb_report_json(r, root, 0);
        jb_mem_fail_after(0, 0);
        cJSON_Delete(o);
    }
    jb_records_free(r);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("report");
    TCase *c = tcase_create("report");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, counts_and_rates);
    tcase_add_test(c, the_ledger);
    tcase_add_test(c, gate_sets_that_disagree);
    tcase_add_test(c, failed_final_rows_unsolve);
    tcase_add_test(c, inconclusive_final_rows_do_not_solve);
    tcase_add_loop_test(c, no_speedup_unless_timed_natively, 0, (int)(sizeof TIMINGS / sizeof TIMINGS[0]));
    tcase_add_test(c, a_row_a_candidate);
    tcase_add_test(c, what_a_method_reaches);
    tcase_add_loop_test(c, means_of_the_speedup, 0, (int)(sizeof SPEEDS / sizeof SPEEDS[0]));
    tcase_add_test(c, nothing_of_a_run_reaches_the_terminal_raw);
    tcase_add_test(c, who_wrote_the_candidates);
    tcase_add_test(c, stable_leaves_out_the_volatile);
    tcase_add_loop_test(c, damaged_runs_are_named, 0, (int)(sizeof DAMAGED / sizeof DAMAGED[0]));
    tcase_add_test(c, letters_differ);
    tcase_add_test(c, allocation_failures);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
