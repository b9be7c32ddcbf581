/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/outcome.c - see outcome.h.  The order of the rules is that of
 * docs/protocol.md; each is one function that either decides or passes on. */
#include "core/evaluate/outcome.h"

#include "core/base/text.h"

#include <stdio.h>
#include <string.h>

static const struct { const char *name; int leaves; } OUTCOMES[JB_OUTCOME_COUNT + 1] = {
    [0] = { "?", 0 },
    [JB_OUTCOME_OK] = { "ok", 0 },
    [JB_OUTCOME_NO_CODE] = { "no-code", 0 },
    [JB_OUTCOME_TRUNCATED] = { "truncated", 0 },
    [JB_OUTCOME_SYNTAX] = { "syntax", 0 },
    [JB_OUTCOME_TRACE_ERROR] = { "trace-error", 0 },
    [JB_OUTCOME_CONTRACT] = { "contract", 0 },
    [JB_OUTCOME_NOT_PALLAS] = { "not-pallas", 0 },
    [JB_OUTCOME_SUSPICIOUS] = { "suspicious", 0 },
    [JB_OUTCOME_COMPILE_ERROR] = { "compile-error", 0 },
    [JB_OUTCOME_COMPILE_TIMEOUT] = { "compile-timeout", 0 },
    [JB_OUTCOME_RUNTIME_ERROR] = { "runtime-error", 0 },
    [JB_OUTCOME_TIMEOUT] = { "timeout", 0 },
    [JB_OUTCOME_WRONG] = { "wrong", 0 },
    [JB_OUTCOME_INCONCLUSIVE] = { "inconclusive", 0 },
    [JB_OUTCOME_INFRA] = { "infra", 1 },
    [JB_OUTCOME_SKIPPED] = { "skipped", 1 },
    [JB_OUTCOME_CANCELLED] = { "cancelled", 1 },
};

static const char *const STAGES[JB_STAGE_COUNT + 1] = { "?", "extract", "trace", "export", "inspect",
                                                        "compile", "check", "time", "profile" };

const char *jb_outcome_name(uint32_t outcome) { return OUTCOMES[outcome <= JB_OUTCOME_COUNT ? outcome : 0].name; }

uint32_t jb_outcome_from_name(const char *name)
{
    for (uint32_t i = 1; name && i <= JB_OUTCOME_COUNT; i++)
        if (strcmp(name, OUTCOMES[i].name) == 0) return i;
    return 0;
}

int jb_outcome_leaves(uint32_t outcome) { return outcome <= JB_OUTCOME_COUNT && OUTCOMES[outcome].leaves; }

const char *jb_stage_name(uint32_t stage) { return STAGES[stage <= JB_STAGE_COUNT ? stage : 0]; }

uint32_t jb_stage_from_name(const char *name)
{
    for (uint32_t i = 1; name && i <= JB_STAGE_COUNT; i++)
        if (strcmp(name, STAGES[i]) == 0) return i;
    return 0;
}

/* ---- words ------------------------------------------------------------------ */

/* Append the first line of s, escaped.  Texts of a record come from candidates. */
static void say(jb_buf *b, const char *s)
{
    jb_buf line = JB_BUF_INIT(512);
    size_t n = strlen(s);
    while (n > 0 && (*s == '\n' || *s == '\r' || *s == ' ')) { s++; n--; }
    jb_text_first_line(&line, s, n, 240);
    if (line.len) jb_text_escape(b, line.ptr, line.len, 0);
    jb_buf_free(&line);
}

static void finish_words(jb_judgement *out, jb_buf *b)
{
    if (b->len) {
        size_t n = b->len < sizeof out->reason ? b->len : sizeof out->reason - 1;
        while (n > 0 && n < b->len && ((unsigned char)b->ptr[n] & 0xC0) == 0x80) n--; /* whole UTF-8 */
        memcpy(out->reason, b->ptr, n);
        out->reason[n] = 0;
    }
    jb_buf_free(b);
}

/* "stage: reason" or, when the stage only has an error, its first line. */
static void say_stage(jb_judgement *out, const char *name, const cJSON *stage, const char *fallback)
{
    jb_buf b = JB_BUF_INIT(2048);
    const char *reason = jb_json_str(stage, "reason", "");
    const char *error = jb_json_str(stage, "error", "");
    jb_buf_printf(&b, "%s: ", name);
    say(&b, reason[0] ? reason : error[0] ? error : fallback);
    finish_words(out, &b);
}

/* Every finding that is no label; `except` was said already. */
static void say_findings(jb_buf *b, const cJSON *findings, const char *lead, int with_detail, const char *except)
{
    const cJSON *f;
    const char *sep = lead;
    cJSON_ArrayForEach(f, findings)
    {
        if (!jb_json_str(f, "outcome", "")[0] || strcmp(jb_json_str(f, "id", ""), except) == 0) continue; /* "": a label */
        jb_buf_puts(b, sep);
        say(b, jb_json_str(f, "id", "finding"));
        if (with_detail && jb_json_str(f, "detail", "")[0]) {
            jb_buf_puts(b, ": ");
            say(b, jb_json_str(f, "detail", ""));
        }
        sep = "; ";
    }
}

/* "robust: error_ratio on outlier inputs (shape gate, draw 1): <reason, or the score>; also unread-input" */
static void say_killer(jb_judgement *out, const char *headline, const cJSON *set, const cJSON *findings)
{
    jb_buf b = JB_BUF_INIT(4096);
    const cJSON *k = jb_json_obj(set, "killer");
    jb_buf_printf(&b, "%s: ", headline);
    if (!k) {
        jb_buf_puts(&b, "failed");
    } else {
        say(&b, jb_json_str(k, "gate", "gate"));
        if (jb_json_str(k, "distribution", "")[0]) {
            jb_buf_puts(&b, " on ");
            say(&b, jb_json_str(k, "distribution", ""));
            jb_buf_puts(&b, " inputs (shape ");
            say(&b, jb_json_str(k, "shape", "?"));
            jb_buf_printf(&b, ", draw %lld)", (long long)jb_json_i64(k, "draw", 0));
        }
        jb_buf_puts(&b, ": ");
        const char *text = jb_json_str(k, "score", NULL); /* "inf", "nan" */
        if (jb_json_str(k, "reason", "")[0]) say(&b, jb_json_str(k, "reason", ""));
        else if (text) jb_buf_puts(&b, "score "), say(&b, text);
        else jb_buf_printf(&b, "score %.3g, threshold %.3g", jb_json_num(k, "score", 0), jb_json_num(k, "threshold", 0));
    }
    say_findings(&b, findings, "; also ", 0, jb_json_str(k, "gate", ""));
    finish_words(out, &b);
}

/* ---- the rules ---------------------------------------------------------------- */

typedef struct asked {
    const cJSON *stages, *findings, *set;
    const char *headline;
    uint32_t last_stage;
} asked;

static int decide(jb_judgement *out, uint32_t outcome, uint32_t stage)
{
    out->outcome = outcome;
    out->stage = stage;
    return 1;
}

/* 1. A stage that infrastructure broke. */
static int rule_infra(const asked *a, jb_judgement *out)
{
    for (uint32_t s = 1; s <= JB_STAGE_COUNT; s++) {
        const cJSON *stage = jb_json_obj(a->stages, STAGES[s]);
        if (strcmp(jb_json_str(stage, "status", ""), "infra") != 0) continue;
        say_stage(out, STAGES[s], stage, "the infrastructure failed");
        return decide(out, JB_OUTCOME_INFRA, s);
    }
    return 0;
}

/* What a failing stage means when the worker named no outcome. */
static uint32_t default_outcome(uint32_t stage, const char *status)
{
    if (strcmp(status, "timeout") == 0) return stage == JB_STAGE_COMPILE ? JB_OUTCOME_COMPILE_TIMEOUT : JB_OUTCOME_TIMEOUT;
    switch (stage) {
    case JB_STAGE_EXTRACT: return JB_OUTCOME_NO_CODE;
    case JB_STAGE_TRACE: case JB_STAGE_EXPORT: return JB_OUTCOME_TRACE_ERROR;
    case JB_STAGE_INSPECT: return JB_OUTCOME_SUSPICIOUS;
    case JB_STAGE_COMPILE: return JB_OUTCOME_COMPILE_ERROR;
    default: return JB_OUTCOME_RUNTIME_ERROR;
    }
}

/* 2. The first failing stage up to check; time and profile judge no kernel. */
static int rule_stage(const asked *a, jb_judgement *out)
{
    for (uint32_t s = JB_STAGE_EXTRACT; s <= JB_STAGE_CHECK; s++) {
        const cJSON *stage = jb_json_obj(a->stages, STAGES[s]);
        const char *status = jb_json_str(stage, "status", "skipped");
        if (strcmp(status, "ok") == 0 || strcmp(status, "skipped") == 0) continue;
        uint32_t o = jb_outcome_from_name(jb_json_str(stage, "outcome", NULL));
        say_stage(out, STAGES[s], stage, status);
        return decide(out, o && o != JB_OUTCOME_OK ? o : default_outcome(s, status), s);
    }
    return 0;
}

/* 3. No kernel is never a kernel, right or wrong. */
static int rule_not_pallas(const asked *a, jb_judgement *out)
{
    const cJSON *f;
    cJSON_ArrayForEach(f, a->findings)
    {
        if (strcmp(jb_json_str(f, "id", ""), "not-pallas") != 0) continue;
        jb_buf b = JB_BUF_INIT(1024);
        jb_buf_puts(&b, "inspect: ");
        say(&b, jb_json_str(f, "detail", "")[0] ? jb_json_str(f, "detail", "") : "no Pallas kernel computes the output");
        finish_words(out, &b);
        return decide(out, JB_OUTCOME_NOT_PALLAS, JB_STAGE_INSPECT);
    }
    return 0;
}

/* 4. The headline gate set failed. */
static int rule_gates_failed(const asked *a, jb_judgement *out)
{
    if (strcmp(jb_json_str(a->set, "verdict", ""), "fail") != 0) return 0;
    say_killer(out, a->headline, a->set, a->findings);
    return decide(out, JB_OUTCOME_WRONG, JB_STAGE_CHECK);
}

/* 5. The first finding that is more than a label. */
static int rule_finding(const asked *a, jb_judgement *out)
{
    const cJSON *f;
    cJSON_ArrayForEach(f, a->findings)
    {
        const char *word = jb_json_str(f, "outcome", "");
        if (!word[0]) continue;
        uint32_t o = jb_outcome_from_name(word);
        jb_buf b = JB_BUF_INIT(4096);
        say_findings(&b, a->findings, "", 1, "");
        finish_words(out, &b);
        return decide(out, o && o != JB_OUTCOME_OK ? o : JB_OUTCOME_SUSPICIOUS, JB_STAGE_INSPECT);
    }
    return 0;
}

/* 6. Nobody could judge although somebody was asked to. */
static int rule_inconclusive(const asked *a, jb_judgement *out)
{
    if (a->last_stage < JB_STAGE_CHECK) return 0;
    const char *verdict = jb_json_str(a->set, "verdict", "");
    const cJSON *check = jb_json_obj(a->stages, "check");
    int unchecked = strcmp(jb_json_str(check, "status", ""), "skipped") == 0; /* then a pass is that of static gates alone */
    if (strcmp(verdict, "pass") == 0 && !unchecked) return 0;
    jb_buf b = JB_BUF_INIT(1024);
    if (a->set && !unchecked) {
        jb_buf_printf(&b, "%s: ", a->headline);
        const char *reason = jb_json_str(a->set, "reason", "");
        say(&b, reason[0] ? reason : "no informative trial is left");
    } else if (jb_json_str(check, "reason", "")[0]) {
        jb_buf_puts(&b, "check: ");
        say(&b, jb_json_str(check, "reason", ""));
    } else {
        jb_buf_printf(&b, "the gate set %s was not run", a->headline);
    }
    finish_words(out, &b);
    return decide(out, JB_OUTCOME_INCONCLUSIVE, JB_STAGE_CHECK);
}

static int (*const RULES[])(const asked *, jb_judgement *) = { rule_infra, rule_stage, rule_not_pallas,
                                                               rule_gates_failed, rule_finding, rule_inconclusive };

void jb_judge_record(const cJSON *record, const char *headline, uint32_t last_stage, jb_judgement *out)
{
    memset(out, 0, sizeof *out);
    asked a = { .stages = jb_json_obj(record, "stages"), .headline = headline ? headline : "", .last_stage = last_stage };
    if (!cJSON_IsObject(a.stages) || cJSON_GetArraySize(a.stages) == 0) {
        out->outcome = JB_OUTCOME_INFRA;
        snprintf(out->reason, sizeof out->reason, "the worker's record has no stages");
        return;
    }
    a.findings = jb_json_obj(jb_json_obj(a.stages, "inspect"), "findings");
    a.set = jb_json_obj(jb_json_obj(record, "gates"), a.headline);
    for (size_t i = 0; i < sizeof RULES / sizeof RULES[0]; i++)
        if (RULES[i](&a, out)) return;
    out->outcome = JB_OUTCOME_OK;
}
