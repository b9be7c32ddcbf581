/* SPDX-License-Identifier: Apache-2.0 */
/* What a tracer may say about itself, what a judge may, and what the record
 * makes of the rest. */
#include "core/base/error.h"
#include "harness/record.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static cJSON *parse(const char *text)
{
    cJSON *o = jb_json_parse(text, strlen(text), NULL);
    ck_assert_msg(o != NULL, "%s", text);
    return o;
}

/* said, status, outcome ("": none) */
static const struct { const char *said, *status, *outcome; } TRACER[] = {
    { "{\"status\":\"ok\"}", "ok", "" },
    { "{\"status\":\"fail\",\"outcome\":\"contract\",\"reason\":\"r\"}", "fail", "contract" },
    { "{\"status\":\"fail\",\"outcome\":\"syntax\"}", "fail", "syntax" },
    /* words that would leave a denominator, or crown it */
    { "{\"status\":\"infra\",\"outcome\":\"infra\"}", "fail", "trace-error" },
    { "{\"status\":\"fail\",\"outcome\":\"infra\"}", "fail", "trace-error" },
    { "{\"status\":\"fail\",\"outcome\":\"skipped\"}", "fail", "trace-error" },
    { "{\"status\":\"fail\",\"outcome\":\"cancelled\"}", "fail", "trace-error" },
    { "{\"status\":\"fail\",\"outcome\":\"ok\"}", "fail", "trace-error" },
    { "{\"status\":\"timeout\",\"outcome\":\"timeout\"}", "fail", "trace-error" },
    { "{\"status\":17,\"outcome\":[]}", "fail", "trace-error" },
    { "{}", "fail", "trace-error" },
};

START_TEST(a_tracer_can_only_speak_of_its_candidate)
{
    cJSON *record = jb_rec_new(), *said = parse(TRACER[_i].said);
    jb_rec_from_tracer(record, JB_ST_TRACE, said);
    const cJSON *stage = jb_rec_stage(record, JB_ST_TRACE);
    ck_assert_str_eq(jb_json_str(stage, "status", ""), TRACER[_i].status);
    ck_assert_str_eq(jb_json_str(stage, "outcome", ""), TRACER[_i].outcome);
    if (strcmp(TRACER[_i].status, "ok") != 0) ck_assert_str_ne(jb_json_str(stage, "reason", ""), "");
    cJSON_Delete(said);
    cJSON_Delete(record);
}
END_TEST

START_TEST(texts_and_flags_are_capped)
{
    cJSON *record = jb_rec_new(), *said = cJSON_CreateObject(), *flags = NULL;
    char *big = malloc(1 << 20);
    ck_assert_ptr_nonnull(big);
    memset(big, 'e', (1 << 20) - 1);
    big[(1 << 20) - 1] = '\0';
    memcpy(big + (1 << 20) - 11, "the cause.", 10);
    cJSON_AddStringToObject(said, "status", "fail");
    cJSON_AddStringToObject(said, "error", big);
    cJSON_AddStringToObject(said, "reason", "first line\nsecond line");
    flags = cJSON_AddArrayToObject(said, "flags");
    for (int i = 0; i < 100; i++) cJSON_AddItemToArray(flags, cJSON_CreateString(big));
    cJSON_AddItemToArray(flags, cJSON_CreateNumber(1));
    jb_rec_from_tracer(record, JB_ST_TRACE, said);
    const cJSON *stage = jb_rec_stage(record, JB_ST_TRACE);
    const char *error = jb_json_str(stage, "error", "");
    ck_assert_uint_le(strlen(error), JB_REC_ERROR_MAX);
    ck_assert_str_eq(error + strlen(error) - 10, "the cause.");
    ck_assert_str_eq(jb_json_str(stage, "reason", ""), "first line");
    ck_assert_int_le(cJSON_GetArraySize(jb_json_obj(stage, "flags")), 32);
    ck_assert_uint_le(strlen(cJSON_GetArrayItem(jb_json_obj(stage, "flags"), 0)->valuestring), 200);
    free(big);
    cJSON_Delete(said);
    cJSON_Delete(record);
}
END_TEST

static const struct { const char *said, *status, *outcome; jb_step_id stage; } JUDGE[] = {
    { "{\"status\":\"ok\",\"kernels\":1}", "ok", "", JB_ST_INSPECT },
    { "{\"status\":\"fail\",\"outcome\":\"suspicious\",\"reason\":\"x\"}", "fail", "suspicious", JB_ST_INSPECT },
    { "{\"status\":\"fail\"}", "fail", "compile-error", JB_ST_COMPILE },
    { "{\"status\":\"fail\"}", "fail", "runtime-error", JB_ST_CHECK },
    { "{\"status\":\"skipped\",\"reason\":\"no libtpu\"}", "skipped", "", JB_ST_COMPILE },
    { "{\"status\":\"fine\"}", "infra", "infra", JB_ST_COMPILE },
    { "{\"status\":\"fail\",\"outcome\":\"nonsense\"}", "infra", "infra", JB_ST_INSPECT },
    { "{}", "infra", "infra", JB_ST_CHECK },
};

START_TEST(a_judge_is_copied_when_it_makes_sense)
{
    cJSON *record = jb_rec_new(), *said = parse(JUDGE[_i].said);
    jb_rec_from_judge(record, JUDGE[_i].stage, said);
    const cJSON *stage = jb_rec_stage(record, JUDGE[_i].stage);
    ck_assert_str_eq(jb_json_str(stage, "status", ""), JUDGE[_i].status);
    ck_assert_str_eq(jb_json_str(stage, "outcome", ""), JUDGE[_i].outcome);
    if (_i == 0) ck_assert_int_eq((int)jb_json_i64(stage, "kernels", 0), 1);
    cJSON_Delete(said);
    cJSON_Delete(record);
}
END_TEST

START_TEST(what_follows_a_failure_is_skipped_with_the_reason)
{
    cJSON *record = jb_rec_new();
    jb_rec_set(record, JB_ST_TRACE, "ok", NULL, NULL, NULL);
    jb_rec_set(record, JB_ST_COMPILE, "fail", "compile-error", "boom", NULL);
    jb_rec_skip_after(record, JB_ST_TRACE, "because");
    ck_assert_str_eq(jb_rec_status(record, JB_ST_COMPILE), "fail");
    ck_assert_str_eq(jb_rec_status(record, JB_ST_INSPECT), "skipped");
    ck_assert_str_eq(jb_rec_status(record, JB_ST_PROFILE), "skipped");
    ck_assert_str_eq(jb_json_str(jb_rec_stage(record, JB_ST_CHECK), "reason", ""), "because");
    ck_assert_str_eq(jb_rec_status(record, JB_ST_EXTRACT), "");
    cJSON_Delete(record);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("record");
    TCase *t = tcase_create("record");
    tcase_add_loop_test(t, a_tracer_can_only_speak_of_its_candidate, 0, sizeof TRACER / sizeof TRACER[0]);
    tcase_add_test(t, texts_and_flags_are_capped);
    tcase_add_loop_test(t, a_judge_is_copied_when_it_makes_sense, 0, sizeof JUDGE / sizeof JUDGE[0]);
    tcase_add_test(t, what_follows_a_failure_is_skipped_with_the_reason);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed == 0 ? 0 : 1;
}
