/* SPDX-License-Identifier: Apache-2.0 */
/* tests/evaluate/test_outcome.c - names, and one row or more for every rule. */
#include "core/evaluate/outcome.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(names_go_both_ways)
{
    for (uint32_t o = 1; o <= JB_OUTCOME_COUNT; o++) ck_assert_uint_eq(jb_outcome_from_name(jb_outcome_name(o)), o);
    for (uint32_t s = 1; s <= JB_STAGE_COUNT; s++) ck_assert_uint_eq(jb_stage_from_name(jb_stage_name(s)), s);
    ck_assert_uint_eq(jb_outcome_from_name("okay"), 0);
    ck_assert_uint_eq(jb_outcome_from_name(NULL), 0);
    ck_assert_str_eq(jb_outcome_name(99), "?");
    ck_assert_str_eq(jb_outcome_name(0), "?");
    ck_assert_str_eq(jb_stage_name(99), "?");
    ck_assert_str_eq(jb_outcome_name(JB_OUTCOME_COMPILE_TIMEOUT), "compile-timeout");
    uint32_t left = 0;
    for (uint32_t o = 1; o <= JB_OUTCOME_COUNT; o++) left += (uint32_t)jb_outcome_leaves(o);
    ck_assert_uint_eq(left, 3);
    ck_assert(jb_outcome_leaves(JB_OUTCOME_INFRA) && jb_outcome_leaves(JB_OUTCOME_SKIPPED) && jb_outcome_leaves(JB_OUTCOME_CANCELLED));
}
END_TEST

#define OKS "\"trace\":{\"status\":\"ok\"},\"export\":{\"status\":\"ok\"}"
#define FIND(f) "\"inspect\":{\"status\":\"ok\",\"findings\":[" f "]}"
#define CHECK "\"check\":{\"status\":\"ok\"}"
#define PASS ",\"gates\":{\"robust\":{\"verdict\":\"pass\"}}"
#define FAIL(k) ",\"gates\":{\"literature\":{\"verdict\":\"pass\"},\"robust\":{\"verdict\":\"fail\"" k "}}"
#define REC(stages, rest) "{\"schema\":1,\"stages\":{" stages "}" rest "}"

static const struct {
    const char *name, *record;
    uint32_t last, outcome, stage;
    const char *words; /* part of the reason; "" when ok */
} ROWS[] = {
    { "ok", REC(OKS "," FIND("") "," CHECK, PASS), JB_STAGE_CHECK, JB_OUTCOME_OK, 0, "" },
    { "labels do not lower ok", REC(OKS "," FIND("{\"id\":\"link-unproven\",\"outcome\":\"\"}") "," CHECK, PASS), JB_STAGE_CHECK, JB_OUTCOME_OK, 0, "" },
    { "infra beats all", REC("\"trace\":{\"status\":\"fail\",\"outcome\":\"syntax\"},\"check\":{\"status\":\"infra\",\"reason\":\"worker died\"}", ""),
      JB_STAGE_CHECK, JB_OUTCOME_INFRA, JB_STAGE_CHECK, "check: worker died" },
    { "infra while timing", REC(OKS "," CHECK ",\"time\":{\"status\":\"infra\"}", PASS), JB_STAGE_TIME, JB_OUTCOME_INFRA, JB_STAGE_TIME, "infrastructure" },
    { "first failing stage", REC("\"trace\":{\"status\":\"fail\",\"outcome\":\"syntax\",\"reason\":\"line 5: '(' was never closed\"},\"check\":{\"status\":\"skipped\"}", ""),
      JB_STAGE_CHECK, JB_OUTCOME_SYNTAX, JB_STAGE_TRACE, "trace: line 5" },
    { "reason from the error", REC("\"trace\":{\"status\":\"ok\"},\"export\":{\"status\":\"fail\",\"outcome\":\"compile-error\",\"error\":\"\\nBlock shape\\nmore\"}", ""),
      JB_STAGE_CHECK, JB_OUTCOME_COMPILE_ERROR, JB_STAGE_EXPORT, "export: Block shape" },
    { "extract", REC("\"extract\":{\"status\":\"fail\",\"outcome\":\"truncated\",\"reason\":\"cut off\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_TRUNCATED, JB_STAGE_EXTRACT, "cut off" },
    { "timeout of trace", REC("\"trace\":{\"status\":\"timeout\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_TIMEOUT, JB_STAGE_TRACE, "trace: timeout" },
    { "timeout of compile", REC(OKS ",\"compile\":{\"status\":\"timeout\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_COMPILE_TIMEOUT, JB_STAGE_COMPILE, "compile" },
    { "crash of trace", REC("\"trace\":{\"status\":\"crash\",\"reason\":\"SIGSEGV\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_TRACE_ERROR, JB_STAGE_TRACE, "SIGSEGV" },
    { "crash of export", REC("\"trace\":{\"status\":\"ok\"},\"export\":{\"status\":\"crash\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_TRACE_ERROR, JB_STAGE_EXPORT, "export" },
    { "inspect without a word", REC(OKS ",\"inspect\":{\"status\":\"fail\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_SUSPICIOUS, JB_STAGE_INSPECT, "inspect" },
    { "compile without a word", REC(OKS ",\"compile\":{\"status\":\"crash\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_COMPILE_ERROR, JB_STAGE_COMPILE, "compile" },
    { "check without a word", REC(OKS ",\"check\":{\"status\":\"crash\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_RUNTIME_ERROR, JB_STAGE_CHECK, "check" },
    { "a failing stage can't be ok", REC("\"trace\":{\"status\":\"fail\",\"outcome\":\"ok\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_TRACE_ERROR, JB_STAGE_TRACE, "trace" },
    { "inconclusive by a stage", REC("\"trace\":{\"status\":\"fail\",\"outcome\":\"inconclusive\",\"reason\":\"shape-specialised: full only\"}", ""),
      JB_STAGE_CHECK, JB_OUTCOME_INCONCLUSIVE, JB_STAGE_TRACE, "shape-specialised" },
    { "timing does not judge", REC(OKS "," CHECK ",\"time\":{\"status\":\"fail\",\"reason\":\"x\"}", PASS), JB_STAGE_TIME, JB_OUTCOME_OK, 0, "" },
    { "compile error beats not-pallas", REC(OKS "," FIND("{\"id\":\"not-pallas\",\"outcome\":\"not-pallas\"}") ",\"compile\":{\"status\":\"fail\",\"outcome\":\"compile-error\"}", ""),
      JB_STAGE_CHECK, JB_OUTCOME_COMPILE_ERROR, JB_STAGE_COMPILE, "compile" },
    { "not-pallas, right", REC(OKS "," FIND("{\"id\":\"not-pallas\",\"outcome\":\"not-pallas\",\"detail\":\"no kernel\"}") "," CHECK, PASS),
      JB_STAGE_CHECK, JB_OUTCOME_NOT_PALLAS, JB_STAGE_INSPECT, "no kernel" },
    { "not-pallas, wrong", REC(OKS "," FIND("{\"id\":\"not-pallas\",\"outcome\":\"not-pallas\"}") "," CHECK, FAIL("")), JB_STAGE_CHECK, JB_OUTCOME_NOT_PALLAS, JB_STAGE_INSPECT, "Pallas" },
    { "wrong", REC(OKS "," FIND("") "," CHECK, FAIL(",\"killer\":{\"gate\":\"error_ratio\",\"shape\":\"gate\",\"distribution\":\"outlier\",\"draw\":1,\"score\":7.2,\"threshold\":1.25,\"reason\":\"rms\"}")),
      JB_STAGE_CHECK, JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on outlier inputs (shape gate, draw 1): rms" },
    { "wrong names findings", REC(OKS "," FIND("{\"id\":\"embedded-constant\",\"outcome\":\"suspicious\",\"detail\":\"64 KiB\"}") "," CHECK, FAIL("")),
      JB_STAGE_CHECK, JB_OUTCOME_WRONG, JB_STAGE_CHECK, "also embedded-constant" },
    { "infinite score", REC(OKS "," CHECK, FAIL(",\"killer\":{\"gate\":\"nonfinite\",\"score\":\"inf\",\"threshold\":0}")), JB_STAGE_CHECK, JB_OUTCOME_WRONG, JB_STAGE_CHECK, "score inf" },
    { "suspicious", REC(OKS "," FIND("{\"id\":\"unread-input\",\"outcome\":\"suspicious\",\"detail\":\"input 1\"}") "," CHECK, PASS),
      JB_STAGE_CHECK, JB_OUTCOME_SUSPICIOUS, JB_STAGE_INSPECT, "unread-input: input 1" },
    { "coverage finding is wrong", REC(OKS "," FIND("{\"id\":\"share\",\"outcome\":\"\"},{\"id\":\"coverage\",\"outcome\":\"wrong\",\"detail\":\"block (3,)\"}") "," CHECK, PASS),
      JB_STAGE_CHECK, JB_OUTCOME_WRONG, JB_STAGE_INSPECT, "coverage: block (3,)" },
    { "finding with an unknown word", REC(OKS "," FIND("{\"id\":\"x\",\"outcome\":\"strange\"}") "," CHECK, PASS), JB_STAGE_CHECK, JB_OUTCOME_SUSPICIOUS, JB_STAGE_INSPECT, "x" },
    { "inconclusive set", REC(OKS "," CHECK, ",\"gates\":{\"robust\":{\"verdict\":\"inconclusive\",\"reason\":\"no draw\"}}"), JB_STAGE_CHECK, JB_OUTCOME_INCONCLUSIVE, JB_STAGE_CHECK, "robust: no draw" },
    { "headline missing", REC(OKS "," CHECK, ",\"gates\":{\"literature\":{\"verdict\":\"pass\"}}"), JB_STAGE_CHECK, JB_OUTCOME_INCONCLUSIVE, JB_STAGE_CHECK, "robust was not run" },
    { "check skipped", REC(OKS ",\"check\":{\"status\":\"skipped\",\"reason\":\"no memory\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_INCONCLUSIVE, JB_STAGE_CHECK, "no memory" },
    { "check skipped, coverage passed", REC(OKS ",\"check\":{\"status\":\"skipped\",\"reason\":\"skipped on request\"}", ",\"gates\":{\"robust\":{\"verdict\":\"pass\"}}"), JB_STAGE_CHECK, JB_OUTCOME_INCONCLUSIVE, JB_STAGE_CHECK, "skipped on request" },
    { "check not asked for", REC(OKS, ""), JB_STAGE_COMPILE, JB_OUTCOME_OK, 0, "" },
    { "escapes", REC("\"trace\":{\"status\":\"fail\",\"reason\":\"\\u001b[31mred\\u0007\"}", ""), JB_STAGE_CHECK, JB_OUTCOME_TRACE_ERROR, JB_STAGE_TRACE, "\\x1b[31mred\\x07" },
    { "no stages", "{\"schema\":1}", JB_STAGE_CHECK, JB_OUTCOME_INFRA, 0, "no stages" },
    { "empty stages", "{\"stages\":{}}", JB_STAGE_CHECK, JB_OUTCOME_INFRA, 0, "no stages" },
    { "mistyped", "{\"stages\":[1,2],\"gates\":3}", JB_STAGE_CHECK, JB_OUTCOME_INFRA, 0, "no stages" },
};

START_TEST(rules)
{
    jb_error err = { .struct_size = sizeof err };
    cJSON *record = jb_json_parse(ROWS[_i].record, strlen(ROWS[_i].record), &err);
    ck_assert_msg(record != NULL, "%s: %s", ROWS[_i].name, err.message);
    jb_judgement j;
    jb_judge_record(record, "robust", ROWS[_i].last, &j);
    ck_assert_msg(j.outcome == ROWS[_i].outcome, "%s: %s (%s), expected %s", ROWS[_i].name, jb_outcome_name(j.outcome),
                  j.reason, jb_outcome_name(ROWS[_i].outcome));
    ck_assert_msg(j.stage == ROWS[_i].stage, "%s: stage %s", ROWS[_i].name, jb_stage_name(j.stage));
    if (ROWS[_i].words[0])
        ck_assert_msg(strstr(j.reason, ROWS[_i].words) != NULL, "%s: [%s] lacks [%s]", ROWS[_i].name, j.reason, ROWS[_i].words);
    else
        ck_assert_str_eq(j.reason, "");
    ck_assert_ptr_null(strchr(j.reason, '\n'));
    cJSON_Delete(record);
}
END_TEST

START_TEST(no_record_at_all)
{
    jb_judgement j;
    jb_judge_record(NULL, "robust", JB_STAGE_CHECK, &j);
    ck_assert_uint_eq(j.outcome, JB_OUTCOME_INFRA);
}
END_TEST

START_TEST(long_texts_are_cut_to_one_line)
{
    cJSON *record = cJSON_CreateObject(), *trace = jb_json_add_obj(jb_json_add_obj(record, "stages"), "trace");
    char *text = malloc(100001);
    for (int i = 0; i < 100000; i += 2) memcpy(text + i, "\xc3\xa9", 2); /* e acute */
    text[100000] = 0;
    jb_json_set_str(trace, "status", "fail");
    jb_json_set_str(trace, "reason", text);
    jb_judgement j;
    jb_judge_record(record, "robust", JB_STAGE_CHECK, &j);
    ck_assert_uint_lt(strlen(j.reason), sizeof j.reason);
    ck_assert_uint_eq((unsigned char)j.reason[strlen(j.reason) - 1] & 0xC0, 0x80);
    free(text);
    cJSON_Delete(record);
}
END_TEST

int main(void)
{
    jb_json_setup();
    Suite *s = suite_create("outcome");
    TCase *c = tcase_create("outcome");
    tcase_add_test(c, names_go_both_ways);
    tcase_add_loop_test(c, rules, 0, (int)(sizeof ROWS / sizeof ROWS[0]));
    tcase_add_test(c, no_record_at_all);
    tcase_add_test(c, long_texts_are_cut_to_one_line);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
