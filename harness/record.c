/* SPDX-License-Identifier: Apache-2.0 */
/* harness/record.c - see record.h. */
#include "harness/record.h"

#include "core/base/text.h"

#include <stdio.h>
#include <string.h>

const char *const jb_rec_stages[JB_ST_COUNT] = { "extract", "trace", "export", "inspect", "compile", "check", "time", "profile" };

static const char *const STATUSES[] = { "ok", "fail", "timeout", "crash", "skipped", "infra" };
/* What a tracer may say of its candidate. */
static const char *const TRACER_STATUSES[] = { "ok", "fail", "skipped" };
static const char *const TRACER_OUTCOMES[] = { "no-code", "syntax", "trace-error", "contract", "not-pallas", "suspicious", "compile-error", "inconclusive" };
static const char *const OUTCOMES[] = { "ok",         "no-code",       "truncated",       "syntax",        "trace-error", "contract",
                                        "not-pallas", "suspicious",    "compile-error",   "compile-timeout", "runtime-error",
                                        "timeout",    "wrong",         "inconclusive",    "infra",         "skipped",     "cancelled" };
#define COUNT(a) (sizeof(a) / sizeof(a)[0])

static int one_of(const char *word, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0) return 1;
    return 0;
}

int jb_rec_stage_id(const char *name)
{
    for (int i = 0; i < JB_ST_COUNT; i++)
        if (strcmp(name, jb_rec_stages[i]) == 0) return i;
    return -1;
}

cJSON *jb_rec_new(void)
{
    cJSON *o = cJSON_CreateObject();
    jb_json_set_i64(o, "schema", 1);
    jb_json_add_obj(o, "stages");
    return o;
}

cJSON *jb_rec_stage(cJSON *record, jb_step_id stage)
{
    cJSON *stages = cJSON_GetObjectItemCaseSensitive(record, "stages");
    cJSON *o = cJSON_GetObjectItemCaseSensitive(stages, jb_rec_stages[stage]);
    return o != NULL ? o : jb_json_add_obj(stages, jb_rec_stages[stage]);
}

/* Set a string, replacing what is there. */
static void put(cJSON *o, const char *key, const char *text, size_t len)
{
    cJSON_DeleteItemFromObjectCaseSensitive(o, key);
    jb_json_set_view(o, key, (jb_view){ text, len });
}

static void put_reason(cJSON *o, const char *reason)
{
    jb_buf line = JB_BUF_INIT(1024);
    jb_text_first_line(&line, reason, strlen(reason), 500);
    put(o, "reason", line.ptr != NULL ? line.ptr : "", line.len);
    jb_buf_free(&line);
}

/* At most JB_REC_ERROR_MAX bytes, the end kept: that is where the cause of a
 * traceback or a compiler's message stands; a short head says what it was. */
static void put_error(cJSON *o, const char *error)
{
    size_t n = strlen(error), head = 1024, tail = JB_REC_ERROR_MAX - head - 16;
    if (n <= JB_REC_ERROR_MAX) {
        put(o, "error", error, n);
        return;
    }
    jb_buf cut = JB_BUF_INIT(JB_REC_ERROR_MAX + 1);
    jb_buf_append(&cut, error, head);
    jb_buf_puts(&cut, "\n[...]\n");
    jb_buf_append(&cut, error + n - tail, tail);
    if (cut.status == 0) put(o, "error", cut.ptr, cut.len);
    jb_buf_free(&cut);
}

void jb_rec_set(cJSON *record, jb_step_id stage, const char *status, const char *outcome, const char *reason, const char *error)
{
    cJSON *o = jb_rec_stage(record, stage);
    put(o, "status", status, strlen(status));
    if (outcome != NULL) put(o, "outcome", outcome, strlen(outcome));
    if (reason != NULL) put_reason(o, reason);
    if (error != NULL && error[0] != '\0') put_error(o, error);
}

const char *jb_rec_status(const cJSON *record, jb_step_id stage)
{
    return jb_json_str(jb_json_obj(jb_json_obj(record, "stages"), jb_rec_stages[stage]), "status", "");
}

void jb_rec_skip_after(cJSON *record, jb_step_id stage, const char *reason)
{
    for (int i = (int)stage + 1; i < JB_ST_COUNT; i++)
        if (jb_rec_status(record, (jb_step_id)i)[0] == '\0') jb_rec_set(record, (jb_step_id)i, "skipped", NULL, reason, NULL);
}

static void copy_flags(cJSON *o, const cJSON *said)
{
    const cJSON *flag, *flags = jb_json_obj(said, "flags");
    int n = 0;
    if (!cJSON_IsArray(flags)) return;
    cJSON *mine = jb_json_add_arr(o, "flags");
    cJSON_ArrayForEach(flag, flags) {
        if (!cJSON_IsString(flag) || n >= 32) continue;
        n++;
        jb_buf line = JB_BUF_INIT(512);
        jb_text_first_line(&line, flag->valuestring, strlen(flag->valuestring), 200);
        cJSON_AddItemToArray(mine, cJSON_CreateString(line.ptr != NULL ? line.ptr : ""));
        jb_buf_free(&line);
    }
}

void jb_rec_from_tracer(cJSON *record, jb_step_id stage, const cJSON *said)
{
    const char *status = jb_json_str(said, "status", ""), *outcome = jb_json_str(said, "outcome", ""), *reason = jb_json_str(said, "reason", NULL);
    cJSON *o = jb_rec_stage(record, stage);
    if (!one_of(status, TRACER_STATUSES, COUNT(TRACER_STATUSES))) status = "fail";
    int fail = strcmp(status, "fail") == 0;
    if (!one_of(outcome, TRACER_OUTCOMES, COUNT(TRACER_OUTCOMES))) outcome = "trace-error";
    if (fail && reason == NULL) reason = "the tracer gave no reason";
    jb_rec_set(record, stage, status, fail ? outcome : NULL, reason, jb_json_str(said, "error", NULL));
    double seconds = jb_json_num(said, "seconds", -1);
    if (seconds >= 0) jb_json_set_num(o, "seconds", seconds);
    copy_flags(o, said);
}

void jb_rec_from_judge(cJSON *record, jb_step_id stage, const cJSON *said)
{
    const char *status = jb_json_str(said, "status", "");
    cJSON *stages = cJSON_GetObjectItemCaseSensitive(record, "stages"), *copy;
    const char *error = jb_json_str(said, "error", NULL), *reason = jb_json_str(said, "reason", NULL), *outcome = jb_json_str(said, "outcome", NULL);
    if (!one_of(status, STATUSES, COUNT(STATUSES)) || (outcome != NULL && outcome[0] != '\0' && !one_of(outcome, OUTCOMES, COUNT(OUTCOMES)))) {
        char text[160];
        snprintf(text, sizeof text, "the %s child gave a record without a valid status or outcome", jb_rec_stages[stage]);
        jb_rec_set(record, stage, "infra", "infra", text, NULL);
        return;
    }
    copy = cJSON_Duplicate(said, 1);
    if (copy == NULL) return;
    cJSON_DeleteItemFromObjectCaseSensitive(stages, jb_rec_stages[stage]);
    cJSON_AddItemToObject(stages, jb_rec_stages[stage], copy);
    if (strcmp(status, "fail") == 0 && (outcome == NULL || outcome[0] == '\0')) {
        const char *word = stage == JB_ST_COMPILE ? "compile-error" : stage == JB_ST_CHECK ? "runtime-error" : "suspicious";
        put(copy, "outcome", word, strlen(word));
    }
    if (error != NULL) put_error(copy, jb_json_str(said, "error", ""));
    if (reason != NULL) put_reason(copy, jb_json_str(said, "reason", ""));
}
