/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/job.c - see job.h. */
#include "core/evaluate/job.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/evaluate/outcome.h"

#include <string.h>

/* Name, default, least: below it a right kernel fails for want of room, and the
 * candidate would be blamed.  docs/study.md lists them. */
static const struct { const char *name; double value, least; } LIMITS[] = {
    { "trace_s", 60, 5 },  { "inspect_s", 60, 5 },    { "compile_s", 300, 10 },
    { "check_s", 300, 5 }, { "reference_s", 300, 5 }, { "memory_mb", 4096, 512 },
};
#define LIMIT_MOST 999999.0 /* 11 days, a terabyte; a worker takes no more */
#define LIMIT_COUNT (sizeof LIMITS / sizeof LIMITS[0])

/* ---- pieces -------------------------------------------------------------------- */

static int attach(cJSON *o, const char *key, cJSON *value)
{
    if (!value) return JB_ENOMEM;
    if (cJSON_AddItemToObject(o, key, value)) return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

static int append(cJSON *array, cJSON *value)
{
    if (!value) return JB_ENOMEM;
    if (cJSON_AddItemToArray(array, value)) return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

static int has_text(const cJSON *array, const char *text)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, array)
    {
        if (cJSON_IsString(i) && strcmp(i->valuestring, text) == 0) return 1;
    }
    return 0;
}

static int add_once(cJSON *array, const char *text)
{
    return has_text(array, text) ? 0 : append(array, cJSON_CreateString(text));
}

static int unknown_name(jb_error *err, const char *what, const char *name, const char *const *names, size_t count)
{
    const char *nearest = jb_text_nearest(name, names, count);
    jb_buf all = JB_BUF_INIT(512);
    for (size_t i = 0; i < count; i++) jb_buf_printf(&all, "%s%s", i ? ", " : "", names[i]);
    jb_err(err, JB_EINVAL, "unknown %s '%s'", what, name);
    if (nearest) jb_err_hint(err, "did you mean '%s'? Known: %s", nearest, all.ptr ? all.ptr : "");
    else jb_err_hint(err, "known: %s", all.ptr ? all.ptr : "");
    if (err) err->flags |= JB_ERR_USER;
    jb_buf_free(&all);
    return JB_EINVAL;
}

static int check_stage(const char *name, jb_error *err)
{
    if (jb_stage_from_name(name)) return 0;
    const char *names[JB_STAGE_COUNT];
    for (uint32_t i = 0; i < JB_STAGE_COUNT; i++) names[i] = jb_stage_name(i + 1);
    return unknown_name(err, "stage", name, names, JB_STAGE_COUNT);
}

/* ---- gates ------------------------------------------------------------------------ */

/* The shapes of one row: the study's own, or those of the set that this workload has. */
static int row_shapes(const jb_workload *w, cJSON *over, const jb_job_settings *s, cJSON *all, jb_error *err)
{
    cJSON *shapes = cJSON_GetObjectItemCaseSensitive(over, "shapes"), *kept = cJSON_CreateArray();
    int rc = kept ? 0 : JB_ENOMEM;
    const cJSON *i;
    if (s->check_shape) {
        if (rc == 0) rc = append(kept, cJSON_CreateString(s->check_shape));
    } else if (shapes) {
        cJSON_ArrayForEach(i, shapes)
        {
            /* `ragged` is asked for where the workload has it, e.g. */
            if (rc == 0 && cJSON_IsString(i) && jb_workload_has_shape(w, i->valuestring)) rc = add_once(kept, i->valuestring);
        }
    }
    if (rc == 0 && cJSON_GetArraySize(kept) == 0) {
        if (!jb_workload_has_shape(w, "gate")) {
            cJSON_Delete(kept);
            return jb_err(err, JB_EINVAL, "workload %s has none of the shapes its gates ask for, nor `gate`", jb_workload_id(w));
        }
        rc = append(kept, cJSON_CreateString("gate"));
    }
    cJSON_ArrayForEach(i, kept)
    {
        if (rc == 0) rc = add_once(all, i->valuestring);
    }
    cJSON_DeleteItemFromObjectCaseSensitive(over, "shapes");
    if (rc == 0) return attach(over, "shapes", kept);
    cJSON_Delete(kept);
    return rc;
}

static int add_set(const jb_workload *w, const jb_gateset *g, const jb_job_settings *s, cJSON *gates, cJSON *shapes, jb_error *err)
{
    cJSON *set = cJSON_CreateObject();
    int rc = set ? append(gates, set) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(set, "name", jb_gateset_name(g));
    if (rc == 0) rc = jb_json_set_str(set, "variant", s->variant ? s->variant : jb_gateset_variant(g));
    cJSON *rows = rc == 0 ? cJSON_Duplicate(jb_json_obj(jb_gateset_json(g), "rows"), 1) : NULL;
    if (rc == 0) rc = attach(set, "rows", rows);
    if (rc != 0) return rc;
    cJSON *row;
    cJSON_ArrayForEach(row, rows)
    {
        cJSON *over = cJSON_GetObjectItemCaseSensitive(row, "over");
        if (over) rc = row_shapes(w, over, s, shapes, err); /* none: judged by inspection alone */
        if (rc != 0) return rc;
    }
    return 0;
}

/* ---- the document --------------------------------------------------------------------- */

static int add_shape(const jb_workload *w, cJSON *shapes, const char *name, jb_error *err)
{
    if (cJSON_GetObjectItemCaseSensitive(shapes, name)) return 0;
    cJSON *resolved = jb_workload_resolve(w, name, err);
    if (resolved) return attach(shapes, name, resolved);
    return err && err->code ? err->code : JB_EINVAL;
}

static int add_workload(cJSON *job, const jb_workload *w, const char *timed, const cJSON *check_shapes, jb_error *err)
{
    const cJSON *spec = jb_workload_spec(w), *i;
    cJSON *o = jb_json_add_obj(job, "workload");
    if (!o) return JB_ENOMEM;
    int rc = jb_json_set_str(o, "id", jb_workload_id(w));
    if (rc == 0) rc = jb_json_set_str(o, "name", jb_workload_name(w));
    if (rc == 0) rc = jb_json_set_str(o, "dir", jb_workload_dir(w));
    if (rc == 0) rc = jb_json_set_i64(o, "slice_axes", jb_json_i64(spec, "slice_axes", 1));
    cJSON *versions = jb_json_add_obj(o, "versions");
    if (!versions) rc = JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(versions, "published", jb_workload_version(w, "published"));
    if (rc == 0) rc = jb_json_set_str(versions, "repaired", jb_workload_version(w, "repaired"));
    cJSON *shapes = jb_json_add_obj(o, "shapes");
    if (!shapes) rc = JB_ENOMEM;
    if (rc == 0) rc = add_shape(w, shapes, timed, err);
    cJSON_ArrayForEach(i, check_shapes)
    {
        if (rc == 0) rc = add_shape(w, shapes, i->valuestring, err);
    }
    const cJSON *scales = jb_json_obj(spec, "scales");
    if (rc == 0) rc = attach(o, "scales", scales ? cJSON_Duplicate(scales, 1) : cJSON_CreateObject());
    return rc;
}

int jb_job_check_limit(const char *name, double value, jb_error *err)
{
    const char *names[LIMIT_COUNT];
    size_t k = 0;
    for (size_t i = 0; i < LIMIT_COUNT; i++) names[i] = LIMITS[i].name;
    while (k < LIMIT_COUNT && strcmp(name, names[k]) != 0) k++;
    if (k == LIMIT_COUNT) return unknown_name(err, "limit", name, names, LIMIT_COUNT);
    if (value >= LIMITS[k].least && value <= LIMIT_MOST) return 0;
    jb_err(err, JB_EINVAL, "limit %s must be %g to %g, not %g", name, LIMITS[k].least, LIMIT_MOST, value);
    if (err) err->flags |= JB_ERR_USER;
    return jb_err_hint(err, "with less than %g a right kernel would fail too; the default is %g", LIMITS[k].least, LIMITS[k].value);
}

static int add_limits(cJSON *job, const cJSON *given, jb_error *err)
{
    const cJSON *i;
    int rc = 0;
    cJSON_ArrayForEach(i, given)
    {
        rc = jb_job_check_limit(i->string, cJSON_IsNumber(i) ? i->valuedouble : 0, err);
        if (rc != 0) return rc;
    }
    cJSON *limits = jb_json_add_obj(job, "limits");
    if (!limits) return JB_ENOMEM;
    for (size_t k = 0; rc == 0 && k < LIMIT_COUNT; k++) rc = jb_json_set_num(limits, LIMITS[k].name, jb_json_num(given, LIMITS[k].name, LIMITS[k].value));
    return rc;
}

static int add_texts(cJSON *job, const char *key, const char *const *texts, size_t count)
{
    cJSON *array = jb_json_add_arr(job, key);
    int rc = array ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < count; i++) rc = add_once(array, texts[i]);
    return rc;
}

void jb_job_final_key(const char *seed, char out[JB_HASH_HEX])
{
    jb_hasher *h = jb_hasher_new();
    out[0] = 0;
    if (!h) return;
    jb_hasher_field(h, "jaxbench final draws", seed, strlen(seed));
    jb_hasher_done(h, out);
}

static int add_keys(cJSON *job, const char *seed)
{
    char key[JB_HASH_HEX];
    cJSON *keys = jb_json_add_obj(job, "keys");
    jb_job_final_key(seed ? seed : "0", key);
    if (!keys || !key[0]) return JB_ENOMEM;
    int rc = jb_json_set_str(keys, "loop", JB_LOOP_DRAWS);
    return rc ? rc : jb_json_set_str(keys, "final", key);
}

static int check_settings(const jb_workload *w, const jb_job_settings *s, const char *timed, jb_error *err)
{
    const char *shape = s->check_shape && !jb_workload_has_shape(w, s->check_shape) ? s->check_shape
                        : !jb_workload_has_shape(w, timed)                         ? timed
                                                                                    : NULL;
    if (shape) {
        const cJSON *shapes = jb_json_obj(jb_workload_spec(w), "shapes"), *i;
        const char *names[32];
        size_t n = 0;
        cJSON_ArrayForEach(i, shapes)
        {
            if (n < sizeof names / sizeof names[0]) names[n++] = i->string;
        }
        int rc = unknown_name(err, "shape", shape, names, n);
        jb_err_context(err, "workload %s", jb_workload_id(w));
        return rc;
    }
    int rc = s->last_stage ? check_stage(s->last_stage, err) : 0;
    for (size_t i = 0; rc == 0 && i < s->skip_count; i++) rc = check_stage(s->skip[i], err);
    return rc;
}

int jb_job_build(const jb_workload *w, const jb_gateset *const *sets, size_t set_count, const jb_job_settings *s,
                 cJSON **out, jb_error *err)
{
    const char *timed = s->timed_shape ? s->timed_shape : "full";
    cJSON *job = NULL, *gates = cJSON_CreateArray(), *shapes = cJSON_CreateArray();
    int rc = check_settings(w, s, timed, err);
    if (rc != 0) goto out;
    job = cJSON_CreateObject();
    if (!job || !gates || !shapes) { rc = JB_ENOMEM; goto out; }
    for (size_t i = 0; rc == 0 && i < set_count; i++) rc = add_set(w, sets[i], s, gates, shapes, err);
    if (rc == 0 && cJSON_GetArraySize(shapes) == 0) rc = append(shapes, cJSON_CreateString(s->check_shape ? s->check_shape : "gate"));
    if (rc == 0) rc = jb_json_set_i64(job, "schema", 1);
    if (rc == 0) rc = add_workload(job, w, timed, shapes, err);
    if (rc != 0) goto out;
    cJSON *moved = shapes;
    shapes = NULL;
    rc = attach(job, "check_shapes", moved);
    if (rc == 0) rc = jb_json_set_str(job, "timed_shape", timed);
    int timers = cJSON_GetArraySize(s->timers) > 0;
    if (rc == 0) rc = jb_json_set_str(job, "last_stage", s->last_stage ? s->last_stage : timers ? "time" : "check");
    if (rc == 0) rc = add_texts(job, "skip", s->skip, s->skip_count);
    if (rc == 0) rc = jb_json_set_str(job, "phase", s->phase ? s->phase : "loop");
    if (rc != 0) goto out;
    moved = gates;
    gates = NULL;
    rc = attach(job, "gates", moved);
    if (rc == 0) rc = attach(job, "timers", s->timers ? cJSON_Duplicate(s->timers, 1) : cJSON_CreateArray());
    if (rc == 0) rc = add_keys(job, s->seed);
    if (rc == 0) rc = add_limits(job, s->limits, err);
    if (rc == 0) rc = jb_json_set_str(job, "isolation", s->isolation ? s->isolation : "required");
    if (rc == 0) rc = jb_json_set_str(job, "store", s->store ? s->store : "");
out:
    cJSON_Delete(gates);
    cJSON_Delete(shapes);
    if (rc != 0) {
        cJSON_Delete(job);
        if (rc == JB_ENOMEM) jb_err(err, rc, "job of workload %s: out of memory", jb_workload_id(w));
        return rc;
    }
    *out = job;
    return 0;
}

/* ---- variations ---------------------------------------------------------------------------- */

int jb_job_has_final(const cJSON *job)
{
    const cJSON *set, *row;
    cJSON_ArrayForEach(set, jb_json_obj(job, "gates"))
    {
        cJSON_ArrayForEach(row, jb_json_obj(set, "rows"))
        {
            if (strcmp(jb_json_str(row, "when", "loop"), "final") == 0) return 1;
        }
    }
    return 0;
}

static int set_text(cJSON *o, const char *key, const char *value)
{
    cJSON *text = cJSON_CreateString(value);
    if (text && cJSON_ReplaceItemInObjectCaseSensitive(o, key, text)) return 0;
    cJSON_Delete(text);
    return jb_json_set_str(o, key, value);
}

static int store_holds(const char *store, const cJSON *modules)
{
    const cJSON *m;
    if (!store[0] || cJSON_GetArraySize(modules) == 0) return 0;
    cJSON_ArrayForEach(m, modules)
    {
        const char *hash = jb_json_str(m, "sha256", "");
        if (strlen(hash) != 64 || strspn(hash, "0123456789abcdef") != 64) return 0;
        char *path = jb_fs_join(store, hash);
        int there = path && jb_fs_exists(path);
        jb_free(path);
        if (!there) return 0;
    }
    return 1;
}

cJSON *jb_job_final(const cJSON *job, const cJSON *record, int *needs_source)
{
    const cJSON *modules = jb_json_path(record, "stages.export.modules");
    cJSON *copy = cJSON_Duplicate(job, 1);
    int rc = copy ? set_text(copy, "phase", "final") : JB_ENOMEM;
    if (rc == 0) rc = set_text(copy, "last_stage", "check"); /* it was timed in the loop */
    *needs_source = !store_holds(jb_json_str(job, "store", ""), modules);
    if (rc == 0 && !*needs_source) rc = attach(copy, "modules", cJSON_Duplicate(modules, 1));
    if (rc == 0) return copy;
    cJSON_Delete(copy);
    return NULL;
}

cJSON *jb_job_until(const cJSON *job, const char *last_stage)
{
    cJSON *copy = cJSON_Duplicate(job, 1);
    if (copy && set_text(copy, "last_stage", last_stage) == 0) return copy;
    cJSON_Delete(copy);
    return NULL;
}

int jb_job_key(const cJSON *job, const char *source_hash, char out[JB_HASH_HEX])
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    cJSON *copy = cJSON_Duplicate(job, 1);
    int rc = copy ? 0 : JB_ENOMEM;
    if (rc == 0) {
        /* Where things lie and what was exported before changes no verdict. */
        cJSON_DeleteItemFromObjectCaseSensitive(copy, "store");
        cJSON_DeleteItemFromObjectCaseSensitive(copy, "modules");
        cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(copy, "workload"), "dir");
        rc = jb_json_print_canonical(copy, &text);
    }
    jb_hasher *h = rc == 0 ? jb_hasher_new() : NULL;
    if (rc == 0 && !h) rc = JB_ENOMEM;
    if (rc == 0) {
        jb_hasher_field(h, "job", text.ptr, text.len);
        jb_hasher_field(h, "source", source_hash, strlen(source_hash));
        jb_hasher_done(h, out);
    }
    cJSON_Delete(copy);
    jb_buf_free(&text);
    return rc;
}
