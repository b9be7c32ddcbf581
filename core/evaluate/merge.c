/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/merge.c - see merge.h. */
#include "core/evaluate/merge.h"

#include <jaxbench/checker.h>
#include <string.h>

static int put(cJSON *o, const char *key, cJSON *value)
{
    if (!value) return JB_ENOMEM;
    if (cJSON_GetObjectItemCaseSensitive(o, key) ? cJSON_ReplaceItemInObjectCaseSensitive(o, key, value)
                                                 : cJSON_AddItemToObject(o, key, value))
        return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

static cJSON *extract_stage(const jb_extract_facts *x)
{
    cJSON *s = cJSON_CreateObject();
    int ok = x->outcome == JB_OUTCOME_OK;
    int rc = s ? jb_json_set_str(s, "status", ok ? "ok" : "fail") : JB_ENOMEM;
    if (rc == 0 && !ok) rc = jb_json_set_str(s, "outcome", jb_outcome_name(x->outcome));
    if (rc == 0 && !ok) rc = jb_json_set_str(s, "reason", x->reason);
    if (rc == 0) rc = jb_json_set_i64(s, "blocks", (int64_t)x->blocks);
    if (rc == 0 && x->chosen >= 0) rc = jb_json_set_i64(s, "chosen", x->chosen);
    if (rc == 0) return s;
    cJSON_Delete(s);
    return NULL;
}

static int skipped_stages(cJSON *stages)
{
    for (uint32_t i = JB_STAGE_TRACE; i <= JB_STAGE_TIME; i++) {
        cJSON *s = jb_json_add_obj(stages, jb_stage_name(i));
        if (!s || jb_json_set_str(s, "status", "skipped") || jb_json_set_str(s, "reason", "there is no source")) return JB_ENOMEM;
    }
    return 0;
}

cJSON *jb_record_with_extract(const cJSON *record, const jb_extract_facts *x)
{
    cJSON *out = cJSON_CreateObject(), *stages = cJSON_CreateObject();
    int rc = out && stages ? put(stages, "extract", extract_stage(x)) : JB_ENOMEM;
    const cJSON *i;
    if (rc == 0 && !record) {
        rc = jb_json_set_i64(out, "schema", 1);
        if (rc == 0) rc = skipped_stages(stages);
    }
    cJSON_ArrayForEach(i, jb_json_obj(record, "stages"))
    {
        if (rc == 0 && i->string && strcmp(i->string, "extract") != 0) rc = put(stages, i->string, cJSON_Duplicate(i, 1));
    }
    cJSON_ArrayForEach(i, record)
    {
        if (rc == 0 && i->string && strcmp(i->string, "stages") != 0) rc = put(out, i->string, cJSON_Duplicate(i, 1));
    }
    /* A record that tells of no stages stays without: that is how it is known to be malformed. */
    if (rc == 0 && record && cJSON_GetArraySize(jb_json_obj(record, "stages")) == 0) {
        cJSON_Delete(stages);
        return out;
    }
    if (rc == 0) rc = put(out, "stages", stages);
    else cJSON_Delete(stages);
    if (rc == 0) return out;
    cJSON_Delete(out);
    return NULL;
}

/* ---- final rows -------------------------------------------------------------------- */

const char *jb_verdict_name(uint32_t verdict)
{
    static const char *const names[] = { "none", "pass", "fail", "inconclusive" };
    return names[verdict < sizeof names / sizeof names[0] ? verdict : 0];
}

static int headline_has_final(const cJSON *job, const char *headline)
{
    const cJSON *set, *row;
    cJSON_ArrayForEach(set, jb_json_obj(job, "gates"))
    {
        if (strcmp(jb_json_str(set, "name", ""), headline) != 0) continue;
        cJSON_ArrayForEach(row, jb_json_obj(set, "rows"))
        {
            if (strcmp(jb_json_str(row, "when", "loop"), "final") == 0) return 1;
        }
    }
    return 0;
}

uint32_t jb_record_final_verdict(const cJSON *final_record, const cJSON *job, const char *headline, jb_judgement *judged)
{
    /* Before check no gate decides: a set without final rows must not make it inconclusive. */
    jb_judge_record(final_record, headline, headline_has_final(job, headline) ? JB_STAGE_CHECK : JB_STAGE_COMPILE, judged);
    if (judged->outcome == JB_OUTCOME_OK) return JB_VERDICT_PASS;
    if (judged->outcome == JB_OUTCOME_INCONCLUSIVE || jb_outcome_leaves(judged->outcome)) return JB_VERDICT_INCONCLUSIVE;
    return JB_VERDICT_FAIL;
}

static int lower_verdict(cJSON *set, const cJSON *final_set)
{
    const char *was = jb_json_str(set, "verdict", "inconclusive"), *is = jb_json_str(final_set, "verdict", "inconclusive");
    const cJSON *killer = jb_json_obj(final_set, "killer");
    if (strcmp(was, "fail") == 0 || strcmp(is, "pass") == 0) return 0;
    int rc = put(set, "verdict", cJSON_CreateString(is));
    if (rc == 0 && killer) rc = put(set, "killer", cJSON_Duplicate(killer, 1));
    return rc;
}

static int merge_set(cJSON *gates, const cJSON *final_set)
{
    cJSON *set = cJSON_GetObjectItemCaseSensitive(gates, final_set->string);
    if (!cJSON_IsObject(set)) return put(gates, final_set->string, cJSON_Duplicate(final_set, 1));
    const cJSON *row, *final_rows = jb_json_obj(final_set, "rows");
    if (cJSON_GetArraySize(final_rows) == 0) return 0; /* nothing of it was run */
    cJSON *rows = cJSON_GetObjectItemCaseSensitive(set, "rows");
    if (!rows) rows = jb_json_add_arr(set, "rows");
    int rc = rows ? 0 : JB_ENOMEM;
    cJSON_ArrayForEach(row, final_rows)
    {
        cJSON *copy = rc == 0 ? cJSON_Duplicate(row, 1) : NULL;
        if (rc == 0 && (!copy || !cJSON_AddItemToArray(rows, copy))) {
            cJSON_Delete(copy);
            rc = JB_ENOMEM;
        }
    }
    return rc ? rc : lower_verdict(set, final_set);
}

int jb_record_merge_final(cJSON *record, const cJSON *final_record, uint32_t verdict, const char *reason)
{
    cJSON *gates = cJSON_GetObjectItemCaseSensitive(record, "gates");
    if (!gates) gates = jb_json_add_obj(record, "gates");
    int rc = gates ? 0 : JB_ENOMEM;
    const cJSON *set;
    cJSON_ArrayForEach(set, jb_json_obj(final_record, "gates"))
    {
        if (rc == 0 && set->string) rc = merge_set(gates, set);
    }
    cJSON *final = rc == 0 ? cJSON_CreateObject() : NULL;
    if (rc == 0) rc = final ? jb_json_set_str(final, "verdict", jb_verdict_name(verdict)) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(final, "reason", reason ? reason : "");
    if (rc == 0) return put(record, "final", final);
    cJSON_Delete(final);
    return rc;
}
