/* SPDX-License-Identifier: Apache-2.0 */
/* harness/task_check.c - the steps of a job that execute: plan, references, check, time.
 * See task.h. */
#include "harness/task.h"

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "harness/refs.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MIB ((int64_t)1 << 20)
#define DAMAGED_MAX 4 /* more damaged files than this are a fault of the disk */

/* ---- PLAN -------------------------------------------------------------- */

static cJSON *plan_job(const jb_task *t)
{
    static const char *const keep[] = { "gates", "phase", "check_shapes" };
    cJSON *o = cJSON_CreateObject();
    for (size_t i = 0; i < sizeof keep / sizeof keep[0]; i++) {
        const cJSON *v = cJSON_GetObjectItemCaseSensitive(t->spec, keep[i]);
        if (v != NULL) cJSON_AddItemToObject(o, keep[i], cJSON_Duplicate(v, 1));
    }
    return o;
}

static int plan_hash(const jb_task *t, char out[65])
{
    cJSON *o = plan_job(t);
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    int rc = jb_json_print_canonical(o, &text);
    if (rc == 0) rc = jb_hash_bytes(text.ptr, text.len, out);
    jb_buf_free(&text);
    cJSON_Delete(o);
    return rc;
}

static int take_groups(jb_task *t, const cJSON *groups)
{
    if (!cJSON_IsArray(groups) || cJSON_GetArraySize(groups) != (int)t->plan.trial_count) return JB_EPROTO;
    t->groups = jb_alloc_array(t->plan.trial_count + 1, sizeof *t->groups);
    t->refs = jb_alloc_array(t->plan.trial_count + 1, sizeof *t->refs);
    if (t->groups == NULL || t->refs == NULL) return JB_ENOMEM;
    uint32_t i = 0;
    const cJSON *g;
    cJSON_ArrayForEach(g, groups) t->groups[i++] = cJSON_IsNumber(g) ? (uint32_t)g->valuedouble : 0;
    return 0;
}

/* Nothing to execute, or nothing that may be? */
static const char *no_check(const jb_task *t)
{
    if (jb_task_skipped(t, JB_ST_CHECK)) return "skipped on request";
    if (strcmp(jb_rec_status(t->record, JB_ST_INSPECT), "ok") != 0) return "a module that was not inspected is not executed";
    if (t->specialised) return "it does not trace at every shape it would be checked at";
    if (cJSON_GetArraySize(jb_json_obj(t->spec, "gates")) == 0) return "no gate set was asked for";
    return NULL;
}

int jb_task_start_plan(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    char hash[65];
    if (jb_task_beyond(t, JB_ST_CHECK)) return 1;
    const char *why = no_check(t);
    const char *missing = jb_worker_module_missing(w, "runtime");
    if (why == NULL && missing != NULL) {
        jb_task_infra(t, JB_ST_CHECK, missing, NULL);
        return 1;
    }
    if (why != NULL) {
        jb_rec_set(t->record, JB_ST_CHECK, "skipped", NULL, why, NULL);
        jb_rec_skip_after(t->record, JB_ST_CHECK, "the check stage did not run");
        jb_task_end(t);
        return 1;
    }
    if (t->plan.sets == NULL && (jb_plan_build(t->spec, &t->plan, &err) != 0 || plan_hash(t, hash) != 0)) {
        jb_task_infra(t, JB_ST_CHECK, err.message, NULL);
        return 1;
    }
    if (plan_hash(t, hash) != 0) {
        jb_task_infra(t, JB_ST_CHECK, "out of memory", NULL);
        return 1;
    }
    for (size_t i = 0; i < sizeof w->plans / sizeof w->plans[0]; i++)
        if (strcmp(w->plans[i].hash, hash) == 0 && take_groups(t, w->plans[i].groups) == 0) {
            t->step = S_REFS;
            return 1;
        }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", plan_job(t));
    jb_json_set_str(meta, "plugins", w->o.plugins);
    int rc = jb_task_ask(w, t, JB_ST_CHECK, JB_KID_PLAN, 60, 64 * MIB, meta, NULL, 0);
    cJSON_Delete(meta);
    return rc != 0;
}

void jb_task_end_plan(jb_worker *w, jb_task *t, const jb_child *c)
{
    const cJSON *groups = jb_json_obj(jb_json_obj(c->result, "plan"), "groups");
    char reason[700], end[300];
    if (groups != NULL && take_groups(t, groups) == 0) {
        size_t at = w->plan_next++ % (sizeof w->plans / sizeof w->plans[0]);
        cJSON_Delete(w->plans[at].groups);
        w->plans[at].groups = cJSON_Duplicate(groups, 1);
        if (plan_hash(t, w->plans[at].hash) != 0) w->plans[at].hash[0] = '\0';
        t->step = S_REFS;
        return;
    }
    if (jb_task_checker_died(t, JB_ST_CHECK, c)) return;
    const char *said = jb_json_str(jb_task_failure(c), "reason", NULL);
    if (said == NULL && c->err.message[0] != '\0') said = c->err.message;
    snprintf(reason, sizeof reason, "the gates could not be set up: %s", said != NULL ? said : jb_child_end(c, end, sizeof end));
    char *words = jb_task_last_words(c);
    jb_task_infra(t, JB_ST_CHECK, reason, words);
    jb_free(words);
}

/* ---- REFS -------------------------------------------------------------- */

static int64_t trial_bytes(const jb_task *t, const char *shape)
{
    static const char *const kinds[] = { "inputs", "outputs" };
    const cJSON *resolved = jb_json_obj(jb_json_obj(jb_task_workload(t), "shapes"), shape), *row, *dim;
    double total = 0;
    for (size_t k = 0; k < 2; k++)
        cJSON_ArrayForEach(row, jb_json_obj(resolved, kinds[k])) {
            double n = 8; /* fp64 of h */
            cJSON_ArrayForEach(dim, jb_json_obj(row, "dims")) n *= cJSON_IsNumber(dim) ? dim->valuedouble : 1;
            total += n;
        }
    return total < 1e13 ? (int64_t)total : (int64_t)1e13;
}

int jb_task_start_refs(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    while (t->refs_done < t->plan.trial_count) {
        uint32_t i = t->refs_done;
        if (t->groups[i] == 0) { /* a trial nobody executes */
            t->refs_done++;
            continue;
        }
        cJSON *request = jb_plan_request(t->spec, &t->plan, i);
        int64_t memory = JB_GIB + 4 * trial_bytes(t, t->plan.trials[i].shape) + ((t->groups[i] & 1u << JB_REF_H) ? JB_GIB : 0);
        int rc = request == NULL ? jb_err(&err, JB_ENOMEM, "out of memory")
                                 : jb_worker_reference(w, request, t->groups[i] | 1u << JB_REF_INPUT, jb_task_limit_s(t, "reference_s", 300),
                                                       memory, &t->refs[i], &t->waits_for, &err);
        cJSON_Delete(request);
        if (rc == 1) {
            jb_worker_progress(w, t->job, "check", "waiting for references");
            return 1;
        }
        if (rc < 0) {
            jb_task_infra(t, JB_ST_CHECK, err.message, NULL);
            return 1;
        }
        t->refs_done++;
    }
    t->step = S_CHECK;
    return 1;
}

/* ---- CHECK ------------------------------------------------------------- */

static cJSON *executor_meta(const jb_worker *w, const jb_task *t, const char *mode)
{
    cJSON *meta = cJSON_CreateObject(), *job = plan_job(t), *refs = NULL, *wl = NULL;
    cJSON_AddItemToObject(meta, "job", job);
    wl = jb_json_add_obj(job, "workload");
    cJSON_AddItemToObject(wl, "shapes", cJSON_Duplicate(jb_json_obj(jb_task_workload(t), "shapes"), 1));
    cJSON_AddItemToObject(wl, "scales", jb_json_obj(jb_task_workload(t), "scales") != NULL ? cJSON_Duplicate(jb_json_obj(jb_task_workload(t), "scales"), 1) : cJSON_CreateObject());
    jb_json_set_i64(wl, "slice_axes", jb_json_i64(jb_task_workload(t), "slice_axes", 1));
    jb_json_set_str(meta, "mode", mode);
    jb_json_set_str(meta, "plugins", w->o.plugins);
    jb_json_set_num(meta, "memory_bytes", (double)(w->o.memory_bytes));
    refs = jb_json_add_arr(meta, "refs");
    for (uint32_t i = 0; i < t->plan.trial_count; i++) cJSON_AddItemToArray(refs, cJSON_CreateString(t->refs[i] != NULL ? t->refs[i] : ""));
    const cJSON *inspect = jb_json_obj(jb_json_obj(t->record, "stages"), "inspect");
    const cJSON *coverage = jb_json_obj(inspect, "coverage");
    if (coverage != NULL) cJSON_AddItemToObject(meta, "coverage", cJSON_Duplicate(coverage, 1));
    return meta;
}

static int64_t executor_memory(const jb_task *t)
{
    int64_t most = 0;
    const cJSON *shape;
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes")) {
        int64_t n = trial_bytes(t, shape->valuestring);
        if (n > most) most = n;
    }
    return JB_GIB + 3 * most;
}

int jb_task_start_check(jb_worker *w, jb_task *t)
{
    if (w->selftest == 0) return 0; /* until it is known whether interpret mode can be trusted here */
    jb_blob blobs[32];
    size_t n = 0;
    for (size_t i = 0; i < t->module_count && n < 32; i++) {
        const char *slash = strchr(t->modules[i].name, '/');
        if (t->modules[i].bytes != NULL && slash != NULL && strcmp(slash, "/cpu") == 0) blobs[n++] = jb_task_blob(&t->modules[i]);
    }
    cJSON *meta = executor_meta(w, t, "check");
    int rc = jb_task_ask(w, t, JB_ST_CHECK, JB_KID_EXECUTOR, jb_task_limit_s(t, "check_s", 300), executor_memory(t), meta, blobs, n);
    cJSON_Delete(meta);
    return rc != 0;
}

/* A gate that failed under an interpreter known to be defective says nothing. */
static void soften(jb_task *t)
{
    cJSON *set;
    cJSON_ArrayForEach(set, cJSON_GetObjectItemCaseSensitive(t->record, "gates")) {
        if (strcmp(jb_json_str(set, "verdict", ""), "fail") != 0) continue;
        cJSON_DeleteItemFromObjectCaseSensitive(set, "verdict");
        cJSON_DeleteItemFromObjectCaseSensitive(set, "reason");
        jb_json_set_str(set, "verdict", "inconclusive");
        jb_json_set_str(set, "reason", "Pallas interpret mode fails its self-test on this machine: a wrong result proves nothing");
    }
}

/* The executor found a reference damaged or gone: it is removed and made again, a
 * few times.  1: the job is back at its references. */
static int make_again(jb_task *t, const jb_child *c)
{
    const cJSON *f = jb_task_failure(c);
    if (f == NULL || strcmp(jb_json_str(f, "status", ""), "reference") != 0 || t->damaged >= DAMAGED_MAX) return 0;
    uint32_t i = (uint32_t)jb_json_i64(f, "trial", -1);
    if (i >= t->plan.trial_count || t->refs[i] == NULL) return 0;
    t->damaged++;
    fprintf(stderr, "jaxbench-worker: %s: it is removed and made again\n", jb_json_str(f, "reason", "a damaged reference"));
    (void)unlink(t->refs[i]);
    for (uint32_t k = 0; k < t->plan.trial_count; k++) {
        jb_free(t->refs[k]);
        t->refs[k] = NULL;
    }
    t->refs_done = 0;
    t->step = S_REFS;
    return 1;
}

void jb_task_end_check(jb_worker *w, jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "check"), *gates = jb_json_obj(c->result, "gates");
    t->step = S_END;
    if (make_again(t, c) || jb_task_checker_died(t, JB_ST_CHECK, c)) return;
    if (jb_task_is_infra(c)) {
        jb_task_read_infra(t, JB_ST_CHECK, c);
    } else if (said == NULL || c->broken) {
        const cJSON *f = jb_task_failure(c);
        if (f != NULL && strcmp(jb_json_str(f, "status", ""), "infra") == 0)
            jb_task_infra(t, JB_ST_CHECK, jb_json_str(f, "reason", ""), jb_json_str(f, "error", NULL));
        else
            jb_task_verify_later(t, c, S_VERIFY_CHECK, c->timed_out ? "the check" : "the executor");
    } else {
        jb_rec_from_judge(t->record, JB_ST_CHECK, said);
        if (gates != NULL) cJSON_AddItemToObject(t->record, "gates", cJSON_Duplicate(gates, 1));
        if (w->selftest < 0) soften(t);
        if (strcmp(jb_rec_status(t->record, JB_ST_CHECK), "ok") == 0)
            t->step = S_BASE;
        else
            jb_rec_skip_after(t->record, JB_ST_CHECK, "the check stage did not succeed");
    }
}

/* A trial to try the reference's module on, or to time: the one the executor
 * said it was in before it died, else the first with inputs and a module. */
static uint32_t probe_trial(const jb_task *t)
{
    uint32_t said = (uint32_t)t->crash_trial;
    if (t->crash_trial >= 0 && said < t->plan.trial_count && t->refs[said] != NULL) return said;
    for (uint32_t i = 0; i < t->plan.trial_count; i++)
        if (t->refs[i] != NULL && jb_task_module(t, t->plan.trials[i].shape, "cpu") != NULL) return i;
    return t->plan.trial_count;
}

int jb_task_start_verify_check(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    char name[96];
    jb_blob blob;
    jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
    const char *outcome = t->crashed_timeout ? "timeout" : "runtime-error";
    uint32_t i = probe_trial(t);
    const char *shape = i < t->plan.trial_count ? t->plan.trials[i].shape : NULL;
    int rc = shape != NULL ? jb_task_want_base(w, t, shape, "cpu", &err) : -1;
    if (rc == 1) return 0;
    if (rc < 0 || jb_task_load_base(t, shape, "cpu", &bytes, &blob, name) != 0) {
        jb_task_crash_stands(t, JB_ST_CHECK, outcome, " (the reference's own module could not be made to compare)");
        jb_buf_free(&bytes);
        return 1;
    }
    cJSON *meta = executor_meta(w, t, "verify");
    jb_json_set_i64(meta, "trial", i);
    rc = jb_task_ask(w, t, JB_ST_CHECK, JB_KID_EXECUTOR, jb_task_limit_s(t, "check_s", 300), executor_memory(t), meta, &blob, 1);
    cJSON_Delete(meta);
    jb_buf_free(&bytes);
    return rc != 0;
}

void jb_task_end_verify_check(jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "verify");
    if (strcmp(jb_json_str(said, "status", ""), "ok") == 0)
        jb_task_crash_stands(t, JB_ST_CHECK, t->crashed_timeout ? "timeout" : "runtime-error", "; the reference's own module runs here");
    else
        jb_task_infra(t, JB_ST_CHECK, "the executor fails on the reference's own module too", t->crash_error);
}

/* ---- TIME -------------------------------------------------------------- */

/* Where a check would have run: the first shape that has a CPU module. */
static const char *first_shape(const jb_task *t)
{
    const cJSON *shape;
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes"))
        if (jb_task_module(t, shape->valuestring, "cpu") != NULL) return shape->valuestring;
    return NULL;
}

/* Timing a wrong kernel would only tempt: the headline set must have passed. */
static const char *no_timing(const jb_task *t)
{
    const cJSON *set, *gates = jb_json_obj(t->record, "gates"), *last = NULL;
    if (jb_task_skipped(t, JB_ST_TIME)) return "skipped on request";
    if (cJSON_GetArraySize(jb_json_obj(t->spec, "timers")) == 0) return "no timer was asked for";
    cJSON_ArrayForEach(set, jb_json_obj(t->spec, "gates")) last = set;
    set = jb_json_obj(gates, jb_json_str(t->spec, "headline", jb_json_str(last, "name", "")));
    if (strcmp(jb_json_str(set, "verdict", ""), "pass") != 0) return "the candidate was not shown to be correct";
    return NULL;
}

int jb_task_start_base(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    if (jb_task_beyond(t, JB_ST_TIME)) return 1;
    const char *why = no_timing(t), *shape = first_shape(t);
    if (why == NULL && (shape == NULL || probe_trial(t) == t->plan.trial_count)) why = "nothing was executed that could be timed";
    if (why != NULL) {
        jb_rec_set(t->record, JB_ST_TIME, "skipped", NULL, why, NULL);
        jb_task_end(t);
        return 1;
    }
    int rc = jb_task_want_base(w, t, t->plan.trials[probe_trial(t)].shape, "cpu", &err);
    if (rc == 1) return 0;
    if (rc < 0) {
        jb_task_infra(t, JB_ST_TIME, err.message, NULL);
        return 1;
    }
    t->step = S_TIME;
    return 1;
}

int jb_task_start_time(jb_worker *w, jb_task *t)
{
    uint32_t i = probe_trial(t);
    const char *shape = t->plan.trials[i].shape;
    char name[96];
    jb_blob blobs[2];
    jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
    if (jb_task_load_base(t, shape, "cpu", &bytes, &blobs[1], name) != 0) {
        jb_task_infra(t, JB_ST_TIME, "the baseline module can't be read", NULL);
        jb_buf_free(&bytes);
        return 1;
    }
    blobs[0] = jb_task_blob(jb_task_module(t, shape, "cpu"));
    blobs[0].name = (jb_view){ "candidate", 9 };
    blobs[1].name = (jb_view){ "baseline", 8 };
    cJSON *meta = executor_meta(w, t, "time");
    jb_json_set_i64(meta, "trial", i);
    cJSON_AddItemToObject(meta, "timers", cJSON_Duplicate(jb_json_obj(t->spec, "timers"), 1));
    /* All of the memory, so that nothing else runs beside a clock. */
    int rc = jb_task_ask(w, t, JB_ST_TIME, JB_KID_TIMER, jb_task_limit_s(t, "check_s", 300), w->o.memory_bytes, meta, blobs, 2);
    cJSON_Delete(meta);
    jb_buf_free(&bytes);
    return rc != 0;
}

void jb_task_end_time(jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "time"), *timing = jb_json_obj(c->result, "timing");
    char end[300], reason[500];
    t->step = S_END;
    if (jb_task_is_infra(c)) {
        jb_task_read_infra(t, JB_ST_TIME, c);
    } else if (said != NULL && !c->broken) {
        jb_rec_from_judge(t->record, JB_ST_TIME, said);
        if (timing != NULL) cJSON_AddItemToObject(t->record, "timing", cJSON_Duplicate(timing, 1));
    } else {
        const char *own = jb_json_str(jb_task_failure(c), "reason", NULL);
        snprintf(reason, sizeof reason, "timing failed: %s", own != NULL ? own : jb_child_end(c, end, sizeof end));
        /* It ran once to be checked, so what went wrong is not the candidate's result. */
        jb_rec_set(t->record, JB_ST_TIME, c->timed_out ? "timeout" : "fail", NULL, reason, NULL);
    }
}
