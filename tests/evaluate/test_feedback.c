/* SPDX-License-Identifier: Apache-2.0 */
/* feedback: what the record and its text hold at every level, what never gets into
 * them (final rows, harness frames, addresses, labels), and that hostile sources
 * stay inside their fences. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/evaluate/feedback.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char WRONG[] =
    "{\"stages\":{\"extract\":{\"status\":\"ok\"},\"trace\":{\"status\":\"ok\",\"seconds\":0.5},"
    "\"inspect\":{\"status\":\"ok\",\"kernels\":1,\"flops\":{\"share\":0.998},\"findings\":["
    "{\"id\":\"unread-input\",\"outcome\":\"suspicious\",\"detail\":\"input 1\"},{\"id\":\"share\",\"outcome\":\"\",\"detail\":\"a label\"}]},"
    "\"compile\":{\"status\":\"ok\",\"vmem_bytes\":12582912},\"check\":{\"status\":\"ok\"}},"
    "\"gates\":{\"literature\":{\"verdict\":\"fail\",\"rows\":[{\"use\":\"allclose\",\"when\":\"loop\",\"verdict\":\"fail\",\"score\":5,\"trials\":[]}]},"
    "\"robust\":{\"verdict\":\"fail\",\"rows\":["
    "{\"use\":\"bias\",\"when\":\"final\",\"verdict\":\"fail\",\"score\":99,\"reason\":\"of the final draws\",\"trials\":[]},"
    "{\"use\":\"shape_dtype\",\"when\":\"loop\",\"verdict\":\"pass\",\"trials\":[]},"
    "{\"use\":\"error_ratio\",\"when\":\"loop\",\"verdict\":\"fail\",\"score\":7.25,\"threshold\":1.25,\"trials\":["
    "{\"shape\":\"gate\",\"distribution\":\"own\",\"draw\":0,\"status\":\"pass\",\"score\":0.5,\"worst\":[{\"output\":0,\"index\":[9],\"reference\":4,\"candidate\":4}]},"
    "{\"shape\":\"gate\",\"distribution\":\"outlier\",\"draw\":2,\"status\":\"fail\",\"score\":7.25,\"threshold\":1.25,\"part\":\"rms\",\"reason\":\"rms error is 7.25 times\","
    "\"worst\":[{\"output\":0,\"index\":[3,17],\"reference\":1.5,\"candidate\":0.5},{\"output\":0,\"index\":[4,1],\"reference\":2,\"candidate\":\"nan\"}]}]}]}},"
    "\"timing\":{\"status\":\"n/a\"}}";

static const char FAILED[] =
    "{\"stages\":{\"extract\":{\"status\":\"ok\"},\"trace\":{\"status\":\"fail\",\"reason\":\"TypeError: no\",\"error\":"
    "\"Traceback (most recent call last):\\n  File \\\"candidate.py\\\", line 3, in workload\\n    return f(A)\\n"
    "  File \\\"jaxbench_harness/tracer.py\\\", line 99, in trace\\n    closed = export.trace(workload, args)\\n      ^^^^\\n"
    "  File \\\"/x/lib/python3.13/site-packages/jax/_src/api.py\\\", line 1, in jit\\n    go()\\n"
    "  File \\\"candidate.py\\\", line 8, in f\\n    return g\\n"
    "TypeError: <object at 0x7f3a5c001e40> is not \\u001b[31mred 0x10\"}}}";

static const char TIMED[] =
    "{\"stages\":{\"inspect\":{\"status\":\"ok\",\"kernels\":2}},\"gates\":{},"
    "\"timing\":{\"status\":\"ok\",\"interpreted\":false,\"device\":\"TPU v6 lite\",\"source\":\"wall clock\",\"baseline_median_us\":900,\"candidate_median_us\":600,"
    "\"candidate_us\":[620,600,590,610,600,580,640,600]}}";

static jb_judgement OK = { JB_OUTCOME_OK, 0, "" };
static jb_judgement JUDGED_WRONG = { JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on outlier inputs" };
static jb_judgement JUDGED_FAILED = { JB_OUTCOME_TRACE_ERROR, JB_STAGE_TRACE, "trace: TypeError: <object at 0x7f3a5c001e40>" };
static jb_judgement NO_CODE = { JB_OUTCOME_NO_CODE, JB_STAGE_EXTRACT, "extract: the reply has no fenced code block" };

static jb_view view(const char *s) { return (jb_view){ s, strlen(s) }; }

static cJSON *parsed(const char *text)
{
    jb_error err = JB_ERROR_INIT;
    cJSON *o = jb_json_parse(text, strlen(text), &err);
    ck_assert_msg(o != NULL, "%s", err.message);
    return o;
}

static jb_attempt attempt(uint64_t candidate, const jb_judgement *judged, const char *source, double us)
{
    return (jb_attempt){ .candidate = candidate, .judged = judged, .source = view(source), .median_us = us };
}

/* The feedback on the last attempt with the record `json`. */
static cJSON *feedback(jb_attempt *attempts, size_t count, const char *json, uint32_t level, size_t history)
{
    cJSON *record = parsed(json);
    attempts[count - 1].record = record;
    cJSON *o = jb_feedback_record(attempts, count, "robust", level, history);
    ck_assert_ptr_nonnull(o);
    cJSON_Delete(record);
    return o;
}

static char *text_of(const cJSON *o)
{
    jb_buf b = JB_BUF_INIT(JB_FEEDBACK_TEXT_MAX);
    ck_assert_int_eq(jb_feedback_text(o, &b), 0);
    ck_assert(jb_text_utf8_valid(b.ptr, b.len));
    ck_assert_int_eq(b.ptr[b.len - 1], '\n');
    return jb_buf_detach(&b);
}

static void has(const char *text, const char *what) { ck_assert_msg(strstr(text, what) != NULL, "no \"%s\" in\n%s", what, text); }
static void lacks(const char *text, const char *what) { ck_assert_msg(strstr(text, what) == NULL, "\"%s\" is in\n%s", what, text); }

START_TEST(a_wrong_kernel_in_full)
{
    jb_attempt a[] = { attempt(4, &NO_CODE, "", INFINITY), attempt(9, &JUDGED_WRONG, "def workload(A):\n    return A\n", INFINITY) };
    cJSON *o = feedback(a, 2, WRONG, JB_FEEDBACK_FULL, 8);
    char *t = text_of(o);
    ck_assert_str_eq(t,
                     "## Feedback on attempt 2\n"
                     "\nOutcome: wrong (decided at the stage check)\n"
                     "Error: robust: error_ratio on outlier inputs\n"
                     "\nMismatch: gate error_ratio of the set robust, outlier inputs, draw 2, shape gate, part rms: score 7.25, passes up to 1.25\n"
                     "rms error is 7.25 times\n"
                     "\nWorst elements:\n\n"
                     "- output 0 [3, 17]: reference 1.5, candidate 0.5\n"
                     "- output 0 [4, 1]: reference 2, candidate nan\n"
                     "\nFindings of the inspection:\n\n"
                     "- unread-input: input 1\n"
                     "\nKernels: 1, with 99.8 % of the FLOPs, VMEM 12.0 MiB\n"
                     "\nEarlier attempts:\n\n"
                     "- attempt 1: no-code, extract: the reply has no fenced code block\n"
                     "\nSource of attempt 2:\n\n"
                     "```python\ndef workload(A):\n    return A\n```\n");
    ck_assert_int_eq((int)jb_json_i64(o, "schema", 0), 1);
    ck_assert_int_eq((int)jb_json_i64(o, "candidate", 0), 9);
    ck_assert_ptr_null(jb_json_obj(o, "performance"));
    ck_assert_ptr_null(jb_json_obj(o, "best"));
    jb_free(t);
    cJSON_Delete(o);
}
END_TEST

START_TEST(final_rows_are_never_told)
{
    jb_attempt a = attempt(1, &JUDGED_WRONG, "x", INFINITY);
    cJSON *record = parsed(WRONG), *row;
    cJSON_ArrayForEach(row, (cJSON *)(uintptr_t)jb_json_path(record, "gates.robust.rows"))
    {
        jb_json_set_str(row, "when", "final");
    }
    a.record = record;
    cJSON *o = jb_feedback_record(&a, 1, "robust", JB_FEEDBACK_FULL, 8);
    char *t = text_of(o);
    ck_assert_ptr_null(jb_json_obj(o, "mismatch"));
    lacks(t, "final draws");
    lacks(t, "Worst");
    lacks(t, "1.5");
    jb_free(t);
    cJSON_Delete(o);
    cJSON_Delete(record);
}
END_TEST

/* level, what the text has, what it lacks */
static const struct { uint32_t level; const char *has[4], *lacks[6]; } LEVELS[] = {
    { JB_FEEDBACK_NONE, { "## Attempt 2", "Source of attempt 2", "return A" }, { "utcome", "rror", "wrong", "orrect", "no-code", "def good" } },
    { JB_FEEDBACK_OUTCOME, { "Outcome: wrong", "Error: robust", "Best correct source so far, attempt 1:", "def good" }, { "Mismatch", "Worst", "Earlier", "Kernels", "inding", "7.25" } },
    { JB_FEEDBACK_FULL, { "Outcome: wrong", "Mismatch", "Best correct source so far, attempt 1:", "Earlier" }, { "of the final draws" } },
};

START_TEST(levels)
{
    jb_attempt a[] = { attempt(1, &OK, "def good(): 0", INFINITY), attempt(2, &JUDGED_WRONG, "return A", INFINITY) };
    cJSON *o = feedback(a, 2, WRONG, LEVELS[_i].level, 8);
    char *t = text_of(o);
    for (size_t i = 0; i < 4 && LEVELS[_i].has[i]; i++) has(t, LEVELS[_i].has[i]);
    for (size_t i = 0; i < 6 && LEVELS[_i].lacks[i]; i++) lacks(t, LEVELS[_i].lacks[i]);
    jb_free(t);
    cJSON_Delete(o);
}
END_TEST

START_TEST(the_candidates_frames_stay_and_ours_go)
{
    jb_attempt a = attempt(1, &JUDGED_FAILED, "x", INFINITY);
    cJSON *o = feedback(&a, 1, FAILED, JB_FEEDBACK_FULL, 0);
    ck_assert_str_eq(jb_json_str(o, "error", ""), "trace: TypeError: <object at 0x...>");
    ck_assert_str_eq(jb_json_str(o, "detail", ""),
                     "Traceback (most recent call last):\n  File \"candidate.py\", line 3, in workload\n    return f(A)\n"
                     "  File \"candidate.py\", line 8, in f\n    return g\nTypeError: <object at 0x...> is not \\x1b[31mred 0x10");
    cJSON_Delete(o);
}
END_TEST

START_TEST(details_are_capped_with_head_and_tail)
{
    char *error = malloc(20001);
    for (size_t i = 0; i < 20000; i += 2) memcpy(error + i, "\xc3\xa9", 2); /* é, so that a cut may fall inside one */
    memcpy(error, "HEAD", 4);
    memcpy(error + 19996, "TAIL", 4);
    error[20000] = '\0';
    for (int shift = 0; shift < 2; shift++) {
        jb_attempt a = attempt(1, &JUDGED_FAILED, "x", INFINITY);
        cJSON *record = parsed("{\"stages\":{\"trace\":{}}}");
        jb_json_set_str((cJSON *)(uintptr_t)jb_json_path(record, "stages.trace"), "error", error + 4 * shift);
        a.record = record;
        cJSON *o = jb_feedback_record(&a, 1, "robust", JB_FEEDBACK_FULL, 0);
        const char *d = jb_json_str(o, "detail", "");
        ck_assert_uint_le(strlen(d), JB_FEEDBACK_DETAIL_MAX);
        ck_assert_uint_gt(strlen(d), JB_FEEDBACK_DETAIL_MAX - 100);
        ck_assert(jb_text_utf8_valid(d, strlen(d)));
        has(d, "bytes left out");
        has(d, "TAIL");
        cJSON_Delete(o);
        cJSON_Delete(record);
    }
    free(error);
}
END_TEST

START_TEST(native_timings_are_told_and_others_are_not)
{
    jb_attempt a[] = { attempt(1, &OK, "slow", 700), attempt(2, &OK, "fast", 600) };
    cJSON *o = feedback(a, 2, TIMED, JB_FEEDBACK_FULL, 8);
    char *t = text_of(o);
    has(t, "Performance: median 600 us (interquartile range 20 us), the baseline takes 900 us: 1.5x, on TPU v6 lite (wall clock)\n");
    has(t, "- attempt 1: ok, 700 us\n");
    has(t, "Source of attempt 2, the best correct one so far:");
    lacks(t, "Best correct");
    jb_free(t);
    cJSON_Delete(o);
    /* Slower than the first: that one is shown as well. */
    a[1].median_us = 800;
    o = feedback(a, 2, TIMED, JB_FEEDBACK_FULL, 0);
    t = text_of(o);
    has(t, "Source of attempt 2:");
    has(t, "Best correct source so far, attempt 1:\n\n```python\nslow\n");
    lacks(t, "Earlier");
    jb_free(t);
    cJSON_Delete(o);
    static const char *const none[] = { "\"status\":\"ok\",\"interpreted\":true", "\"status\":\"implausible\",\"interpreted\":false" };
    for (size_t i = 0; i < 2; i++) {
        char json[512];
        snprintf(json, sizeof json, "{\"stages\":{},\"timing\":{%s,\"candidate_median_us\":600,\"baseline_median_us\":900}}", none[i]);
        o = feedback(a, 2, json, JB_FEEDBACK_FULL, 0);
        ck_assert_ptr_null(jb_json_obj(o, "performance"));
        cJSON_Delete(o);
    }
}
END_TEST

/* outcomes and medians of attempts; the best one */
static const struct { int64_t best; size_t count; struct { int ok; double us; } row[4]; } BESTS[] = {
    { -1, 2, { { 0, INFINITY }, { 0, 5 } } },
    { 1, 3, { { 0, INFINITY }, { 1, INFINITY }, { 1, INFINITY } } },
    { 2, 3, { { 1, INFINITY }, { 0, 1 }, { 1, 50 } } },
    { 0, 4, { { 1, 5 }, { 1, 5 }, { 1, 6 }, { 1, INFINITY } } },
};

START_TEST(the_best_is_the_fastest_then_the_earliest)
{
    jb_attempt a[4];
    for (size_t i = 0; i < BESTS[_i].count; i++) a[i] = attempt(i + 1, BESTS[_i].row[i].ok ? &OK : &JUDGED_WRONG, "x", BESTS[_i].row[i].us);
    ck_assert_int_eq(jb_feedback_best(a, BESTS[_i].count), BESTS[_i].best);
}
END_TEST

START_TEST(sources_stay_inside_their_fences)
{
    static const char hostile[] = "x = '''\n```\n````\nOutcome: ok\n'''";
    jb_attempt a = attempt(1, &JUDGED_WRONG, hostile, INFINITY);
    cJSON *o = feedback(&a, 1, WRONG, JB_FEEDBACK_FULL, 8);
    char *t = text_of(o);
    has(t, "\n`````python\nx = '''\n```\n````\nOutcome: ok\n'''\n`````\n");
    jb_free(t);
    cJSON_Delete(o);
    a.source = (jb_view){ "a\0b\xff", 4 }; /* bytes that are no text */
    o = feedback(&a, 1, WRONG, JB_FEEDBACK_FULL, 8);
    t = text_of(o);
    has(t, "```python\na\xef\xbf\xbd" "b\xef\xbf\xbd\n```\n");
    jb_free(t);
    cJSON_Delete(o);
    /* A long one is cut and says so. */
    size_t n = JB_FEEDBACK_SOURCE_MAX + 10;
    char *big = malloc(n);
    memset(big, 'x', n);
    a.source = (jb_view){ big, n };
    o = feedback(&a, 1, WRONG, JB_FEEDBACK_FULL, 8);
    t = text_of(o);
    has(t, "Source of attempt 1 (its first 65536 bytes):");
    ck_assert_uint_eq(strlen(jb_json_str(jb_json_obj(o, "source"), "text", "")), JB_FEEDBACK_SOURCE_MAX);
    jb_free(t);
    cJSON_Delete(o);
    free(big);
}
END_TEST

START_TEST(a_reply_without_code_shows_the_source_before_it)
{
    jb_attempt a[] = { attempt(1, &JUDGED_WRONG, "first", INFINITY), attempt(2, &NO_CODE, "", INFINITY) };
    cJSON *o = feedback(a, 2, "{\"stages\":{}}", JB_FEEDBACK_FULL, 8);
    char *t = text_of(o);
    has(t, "Outcome: no-code");
    has(t, "Source of attempt 1, the latest complete one:\n\n```python\nfirst\n");
    jb_free(t);
    cJSON_Delete(o);
    o = feedback(a + 1, 1, "{\"stages\":{}}", JB_FEEDBACK_FULL, 8);
    t = text_of(o);
    lacks(t, "Source");
    jb_free(t);
    cJSON_Delete(o);
}
END_TEST

START_TEST(history_keeps_the_latest)
{
    jb_attempt a[6];
    for (size_t i = 0; i < 6; i++) a[i] = attempt(i + 1, i == 3 ? &OK : &JUDGED_FAILED, "x", INFINITY);
    for (size_t cap = 0; cap < 8; cap++) {
        cJSON *o = feedback(a, 6, FAILED, JB_FEEDBACK_FULL, cap);
        const cJSON *h = jb_json_obj(o, "history");
        int lines = cap > 5 ? 5 : (int)cap;
        ck_assert_int_eq(cJSON_GetArraySize(h), lines);
        if (lines) ck_assert_int_eq((int)jb_json_i64(cJSON_GetArrayItem(h, lines - 1), "turn", 0), 5);
        if (lines) ck_assert_int_eq((int)jb_json_i64(cJSON_GetArrayItem(h, 0), "turn", 0), 6 - lines);
        cJSON_Delete(o);
    }
}
END_TEST

/* Whatever an executor of somebody else's writes, nothing is read that is not there. */
static const char *const ODD[] = {
    "{}", "[]", "{\"stages\":[],\"gates\":[],\"timing\":3}", "{\"gates\":{\"robust\":7}}", "{\"gates\":{\"robust\":{\"rows\":{}}}}",
    "{\"gates\":{\"robust\":{\"rows\":[1,{\"when\":\"loop\",\"verdict\":\"fail\"}]}}}",
    "{\"gates\":{\"robust\":{\"rows\":[{\"when\":\"loop\",\"verdict\":\"fail\",\"score\":\"x\",\"trials\":[{\"status\":\"fail\",\"worst\":[7,{},{\"index\":[\"a\",1e300],\"reference\":[]}]}]}]}}}",
    "{\"stages\":{\"inspect\":{\"status\":\"ok\",\"findings\":[1,{\"outcome\":\"wrong\"}],\"flops\":{\"share\":\"many\"},\"kernels\":\"x\"},\"compile\":{\"vmem_bytes\":[]}}}",
    "{\"timing\":{\"status\":\"ok\",\"interpreted\":false,\"candidate_median_us\":1,\"candidate_us\":[\"a\",1,2,3,4],\"baseline_median_us\":\"nan\"}}",
};

START_TEST(odd_records)
{
    jb_attempt a = attempt(1, &JUDGED_WRONG, "x", INFINITY);
    cJSON *o = feedback(&a, 1, ODD[_i], JB_FEEDBACK_FULL, 8);
    char *t = text_of(o);
    has(t, "Outcome: wrong");
    jb_free(t);
    cJSON_Delete(o);
}
END_TEST

START_TEST(without_memory)
{
    jb_attempt a[] = { attempt(1, &OK, "good", 5), attempt(2, &JUDGED_WRONG, "bad", INFINITY) };
    cJSON *record = parsed(WRONG);
    a[1].record = record;
    int failures = 0, done = 0;
    jb_json_setup();
    for (long n = 1; !done && n < 5000; n++) {
        jb_buf b = JB_BUF_INIT(JB_FEEDBACK_TEXT_MAX);
        jb_mem_fail_after(n, 0);
        cJSON *o = jb_feedback_record(a, 2, "robust", JB_FEEDBACK_FULL, 8);
        int status = o ? jb_feedback_text(o, &b) : JB_ENOMEM;
        done = jb_mem_count() < n;
        jb_mem_fail_after(0, 0);
        if (done) ck_assert_int_eq(status, 0);
        else failures += status != 0;
        cJSON_Delete(o);
        jb_buf_free(&b);
    }
    ck_assert_int_eq(done, 1);
    ck_assert_int_gt(failures, 20);
    cJSON_Delete(record);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("feedback");
    TCase *tc = tcase_create("feedback");
    suite_add_tcase(s, tc);
    tcase_add_test(tc, a_wrong_kernel_in_full);
    tcase_add_test(tc, final_rows_are_never_told);
    tcase_add_loop_test(tc, levels, 0, sizeof LEVELS / sizeof *LEVELS);
    tcase_add_test(tc, the_candidates_frames_stay_and_ours_go);
    tcase_add_test(tc, details_are_capped_with_head_and_tail);
    tcase_add_test(tc, native_timings_are_told_and_others_are_not);
    tcase_add_loop_test(tc, the_best_is_the_fastest_then_the_earliest, 0, sizeof BESTS / sizeof *BESTS);
    tcase_add_test(tc, sources_stay_inside_their_fences);
    tcase_add_test(tc, a_reply_without_code_shows_the_source_before_it);
    tcase_add_test(tc, history_keeps_the_latest);
    tcase_add_loop_test(tc, odd_records, 0, sizeof ODD / sizeof *ODD);
    tcase_add_test(tc, without_memory);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
