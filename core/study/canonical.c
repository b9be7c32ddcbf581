/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/canonical.c - the study as expanded, as JSON with sorted keys: what
 * a run records and what two runs are compared by.  No path of this machine and
 * nothing that can't change a result: `executor.slots` is left out on purpose, a
 * run is the same with one slot and with sixteen. */
#include "core/study/internal.h"

#include "core/base/error.h"

#include <string.h>

/* Attach a value that was just made; -> 0 or JB_ENOMEM. */
static int put(cJSON *o, const char *key, cJSON *value)
{
    if (o && value && cJSON_AddItemToObject(o, key, value)) return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

static cJSON *row(cJSON *array)
{
    cJSON *o = array ? cJSON_CreateObject() : NULL;
    if (o && cJSON_AddItemToArray(array, o)) return o;
    cJSON_Delete(o);
    return NULL;
}

static int add_suites(const jb_study *s, cJSON *o)
{
    cJSON *suites = jb_json_add_arr(o, "suites");
    int status = suites ? 0 : JB_ENOMEM;
    for (size_t i = 0; i < s->suite_count && !status; i++) {
        cJSON *suite = row(suites), *list = NULL;
        status = suite ? jb_json_set_str(suite, "use", s->suites[i].name) : JB_ENOMEM;
        if (!status && !(list = jb_json_add_arr(suite, "workloads"))) status = JB_ENOMEM;
        for (size_t k = 0; k < s->suites[i].workload_count && !status; k++) {
            const jb_workload *w = s->suites[i].workloads[k];
            cJSON *one = row(list), *versions = one ? jb_json_add_obj(one, "versions") : NULL;
            status = versions ? jb_json_set_str(one, "id", jb_workload_id(w)) : JB_ENOMEM;
            if (!status) status = jb_json_set_str(one, "name", jb_workload_name(w));
            if (!status) status = jb_json_set_str(versions, "published", jb_workload_version(w, "published"));
            if (!status) status = jb_json_set_str(versions, "repaired", jb_workload_version(w, "repaired"));
        }
    }
    return status;
}

static int describe_part(const jb_reading *r, const jb_study_part *p, cJSON *o)
{
    const jb_plugin_file *f = jb_registry_file_of(r->o->registry, p->component);
    int status = o ? jb_json_set_str(o, "use", p->component->name) : JB_ENOMEM;
    if (!status && p->name) status = jb_json_set_str(o, "name", p->name);
    if (!status && f) status = jb_json_set_str(o, "plugin", f->manifest->id);
    if (!status && f) status = jb_json_set_str(o, "version", f->manifest->version);
    return status ? status : put(o, "options", cJSON_Duplicate(p->resolved, 1));
}

static int add_parts(const jb_reading *r, const char *key, const jb_study_part *parts, size_t count, cJSON *o)
{
    cJSON *list = jb_json_add_arr(o, key);
    int status = list ? 0 : JB_ENOMEM;
    for (size_t i = 0; i < count && !status; i++) status = describe_part(r, &parts[i], row(list));
    return status;
}

static int add_gates(const jb_study *s, cJSON *o)
{
    cJSON *list = jb_json_add_arr(o, "gates");
    int status = list ? jb_json_set_str(o, "headline", jb_gateset_name(s->headline)) : JB_ENOMEM;
    for (size_t i = 0; i < s->gate_count && !status; i++) {
        cJSON *one = cJSON_Duplicate(jb_gateset_json(s->gates[i]), 1);
        if (!one || !cJSON_AddItemToArray(list, one)) {
            cJSON_Delete(one);
            return JB_ENOMEM;
        }
        status = jb_json_set_str(one, "hash", jb_gateset_hash(s->gates[i]));
    }
    return status;
}

static int add_settings(const jb_study *s, cJSON *o)
{
    cJSON *shapes = jb_json_add_obj(o, "shapes"), *skip = jb_json_add_arr(o, "skip");
    cJSON *budget = jb_json_add_obj(o, "budget"), *on_error = jb_json_add_obj(o, "on_error");
    if (!shapes || !skip || !budget || !on_error) return JB_ENOMEM;
    int status = s->check_shape ? jb_json_set_str(shapes, "check", s->check_shape) : 0;
    if (!status && s->timed_shape) status = jb_json_set_str(shapes, "timed", s->timed_shape);
    for (size_t i = 0; i < s->skip_count && !status; i++) {
        cJSON *stage = cJSON_CreateString(s->skip[i]);
        if (!stage || !cJSON_AddItemToArray(skip, stage)) cJSON_Delete(stage), status = JB_ENOMEM;
    }
    if (!status) status = jb_json_set_i64(budget, "samples_per_cell", s->samples_per_cell);
    for (unsigned u = 0; u < JB_UNITS && !status; u++)
        if (s->budget.of[u] >= 0) status = jb_json_set_i64(budget, u == JB_UNIT_USD ? "pico_usd" : u == JB_UNIT_COMPILE ? "compile_ms" : u == JB_UNIT_WALL ? "wall_ms" : jb_unit_key(u), s->budget.of[u]);
    cJSON *prices = !status && s->prices ? jb_json_add_obj(o, "prices") : NULL;
    if (!status && s->prices) status = prices ? jb_json_set_str(prices, "file", s->prices->name) : JB_ENOMEM;
    if (!status && s->prices) status = jb_json_set_str(prices, "sha256", s->prices->sha256);
    if (!status) status = jb_json_set_i64(on_error, "infra_retries", s->infra_retries);
    if (!status) status = jb_json_set_num(on_error, "stop_after_infra_share", s->stop_after_infra_share);
    if (!status) status = put(o, "limits", cJSON_Duplicate(s->limits, 1));
    return status ? status : put(o, "timers", cJSON_Duplicate(s->timers, 1));
}

static int add_cells(const jb_study *s, cJSON *o)
{
    cJSON *list = jb_json_add_arr(o, "cells");
    int status = list ? 0 : JB_ENOMEM;
    for (size_t i = 0; i < s->cell_count && !status; i++) {
        cJSON *one = row(list);
        status = one ? jb_json_set_str(one, "name", s->cells[i].name) : JB_ENOMEM;
        if (!status) status = jb_json_set_str(one, "key", s->cells[i].key);
    }
    return status;
}

int jb_study_canonical(jb_reading *r)
{
    jb_study *s = r->s;
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    cJSON *o = s->json = cJSON_CreateObject();
    const struct { const char *key, *text; } words[] = { { "name", s->name }, { "seed", s->seed }, { "variant", s->variant }, { "isolation", s->isolation } };
    int status = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    for (size_t i = 0; i < sizeof words / sizeof *words && !status; i++) status = jb_json_set_str(o, words[i].key, words[i].text);
    if (!status) status = jb_json_set_i64(o, "seeds", r->seeds);
    if (!status) status = add_suites(s, o);
    if (!status) status = add_parts(r, "methods", s->methods, s->method_count, o);
    if (!status) status = add_parts(r, "backends", s->backends, s->backend_count, o);
    cJSON *executor = status ? NULL : jb_json_add_obj(o, "executor");
    if (!status) status = describe_part(r, &s->executor, executor);
    if (!status) cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(executor, "options"), "slots");
    if (!status) status = add_gates(s, o);
    if (!status) status = add_settings(s, o);
    if (!status) status = add_cells(s, o);
    if (!status) status = jb_json_print_canonical(o, &text);
    if (!status) status = jb_hash_bytes(text.ptr, text.len, s->hash);
    if (!status && !(s->canonical = jb_buf_detach(&text))) status = JB_ENOMEM;
    jb_buf_free(&text);
    return status ? jb_err(r->err, JB_ENOMEM, "out of memory describing the study") : 0;
}
