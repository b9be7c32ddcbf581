/* SPDX-License-Identifier: Apache-2.0 */
/* harness/task.c - one job as a state machine; see worker.h.
 *
 *   TRACE -> INSPECT -> COMPILE -> PLAN -> REFS -> CHECK -> BASE -> TIME -> END
 *                          |                         |
 *                          `- VERIFY (on the reference's own module) -'
 *
 * Each step has a `start` that asks for a child (or passes on) and an `end` that
 * reads what the child left.  What a child's death means is decided here and
 * nowhere else. */
#include "harness/task.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

/* ---- the machine ------------------------------------------------------- */

static const struct {
    int (*start)(jb_worker *, jb_task *);
    jb_step_id stage;
} STEPS[] = {
    [S_TRACE] = { jb_task_start_trace, JB_ST_TRACE },       [S_INSPECT] = { jb_task_start_inspect, JB_ST_INSPECT },
    [S_COMPILE] = { jb_task_start_compile, JB_ST_COMPILE }, [S_VERIFY_COMPILE] = { jb_task_start_verify_compile, JB_ST_COMPILE },
    [S_PLAN] = { jb_task_start_plan, JB_ST_CHECK },         [S_REFS] = { jb_task_start_refs, JB_ST_CHECK },
    [S_CHECK] = { jb_task_start_check, JB_ST_CHECK },       [S_VERIFY_CHECK] = { jb_task_start_verify_check, JB_ST_CHECK },
    [S_BASE] = { jb_task_start_base, JB_ST_TIME },          [S_TIME] = { jb_task_start_time, JB_ST_TIME },
};

static void finish(jb_worker *w, jb_task *t)
{
    static const struct { jb_step_id stage; const char *key; } costs[] = {
        { JB_ST_TRACE, "trace_s" }, { JB_ST_INSPECT, "inspect_s" }, { JB_ST_COMPILE, "compile_s" }, { JB_ST_CHECK, "check_s" }, { JB_ST_TIME, "time_s" },
    };
    cJSON *cost;
    jb_rec_skip_after(t->record, JB_ST_EXTRACT, "not reached");
    cost = jb_json_add_obj(t->record, "cost");
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) jb_json_set_num(cost, costs[i].key, t->cost[costs[i].stage]);
    jb_json_set_num(cost, "reference_s", t->reference_s);
    jb_json_set_num(cost, "wall_s", (double)(jb_clock_ns() - t->began_ns) / 1e9);
    if (cJSON_GetObjectItemCaseSensitive(t->record, "timing") == NULL) jb_json_set_str(jb_json_add_obj(t->record, "timing"), "status", "n/a");
    /* Nothing is said of numbers that nobody computed. */
    const char *checked = jb_rec_status(t->record, JB_ST_CHECK);
    if (strcmp(checked, "ok") == 0 || strcmp(checked, "fail") == 0) jb_json_set_str(t->record, "numerics", "interpret");
    jb_worker_done(w, t->job, t->record);
    t->done = 1;
}

static int check_spec(const cJSON *spec, jb_error *err)
{
    const cJSON *shapes = jb_json_obj(spec, "check_shapes"), *shape, *known = jb_json_path(spec, "workload.shapes");
    if (!cJSON_IsObject(spec)) return jb_err(err, JB_EINVAL, "the job is no JSON object");
    if (jb_json_i64(spec, "schema", 0) != 1) return jb_err(err, JB_EINVAL, "the job's schema is %lld; this worker knows 1", (long long)jb_json_i64(spec, "schema", 0));
    if (!cJSON_IsArray(shapes) || cJSON_GetArraySize(shapes) == 0 || cJSON_GetArraySize(shapes) > 16)
        return jb_err(err, JB_EINVAL, "the job's check_shapes must name 1 to 16 shapes");
    cJSON_ArrayForEach(shape, shapes)
        if (!cJSON_IsString(shape) || jb_json_obj(known, shape->valuestring) == NULL)
            return jb_err(err, JB_EINVAL, "the job's check_shapes name a shape that workload.shapes lacks");
    if (jb_json_obj(known, jb_json_str(spec, "timed_shape", "full")) == NULL)
        return jb_err(err, JB_EINVAL, "workload.shapes of the job lacks the timed shape %s", jb_json_str(spec, "timed_shape", "full"));
    if (jb_rec_stage_id(jb_json_str(spec, "last_stage", "check")) < 0)
        return jb_err(err, JB_EINVAL, "the job's last_stage \"%s\" is no stage", jb_json_str(spec, "last_stage", ""));
    return 0;
}

jb_task *jb_task_new(jb_worker *w, uint64_t job, jb_view spec, jb_view body)
{
    jb_error err = JB_ERROR_INIT;
    (void)w;
    jb_task *t = jb_alloc(sizeof *t);
    if (t == NULL) return NULL;
    t->job = job;
    t->record = jb_rec_new();
    t->spec = jb_json_parse(spec.ptr, (size_t)spec.len, &err);
    t->source = jb_strndup(body.ptr != NULL ? body.ptr : "", (size_t)body.len);
    t->source_len = (size_t)body.len;
    t->step = S_TRACE;
    t->crash_trial = -1;
    int rc = t->spec == NULL ? JB_EPARSE : check_spec(t->spec, &err);
    if (rc == 0 && t->source == NULL) rc = jb_err(&err, JB_ENOMEM, "out of memory");
    if (rc == 0) {
        t->last_stage = jb_rec_stage_id(jb_json_str(t->spec, "last_stage", "check"));
        rc = jb_task_expect_modules(t);
        if (rc != 0) jb_err(&err, rc, "the names of the job's shapes are too long");
    }
    if (rc != 0) {
        jb_err_context(&err, "job");
        jb_task_infra(t, JB_ST_TRACE, err.message, NULL);
    }
    return t;
}

void jb_task_free(jb_task *t)
{
    if (t == NULL) return;
    for (size_t i = 0; i < t->module_count; i++) jb_free(t->modules[i].bytes);
    for (uint32_t i = 0; t->refs != NULL && i < t->plan.trial_count; i++) jb_free(t->refs[i]);
    jb_free(t->modules);
    jb_free(t->refs);
    jb_free(t->groups);
    jb_free(t->source);
    jb_free(t->base_path);
    jb_free(t->crash_error);
    jb_plan_free(&t->plan);
    cJSON_Delete(t->spec);
    cJSON_Delete(t->record);
    jb_free(t);
}

int jb_task_advance(jb_worker *w, jb_task *t)
{
    int moved = 0;
    if (t->began_ns == 0) t->began_ns = jb_clock_ns(); /* its turn, not its arrival */
    while (!t->done && t->child == NULL && t->waits_for == NULL) {
        int before = t->step;
        if (t->step == S_END) {
            finish(w, t);
            return 1;
        }
        if (!STEPS[t->step].start(w, t)) break;
        moved = 1;
        if (t->step == before && t->child == NULL && t->waits_for == NULL) break;
    }
    return moved;
}

/* Whoever was struck down from outside is tried again once a job: the memory
 * killer picks by size, not by guilt.  1: the step starts over. */
static int try_again(jb_task *t, const jb_child *c)
{
    char end[300];
    if (t->struck || !jb_child_struck(c) || (c->result != NULL && c->kind != JB_KID_TRACER)) return 0;
    t->struck = 1;
    fprintf(stderr, "jaxbench-worker: job %llu: the %s child %s; it is tried once more\n", (unsigned long long)t->job, jb_kid_name(c->kind),
            jb_child_end(c, end, sizeof end));
    for (size_t i = 0; c->kind == JB_KID_TRACER && i < t->module_count; i++) {
        jb_free(t->modules[i].bytes);
        t->modules[i].bytes = NULL;
        t->modules[i].len = 0;
    }
    return 1;
}

void jb_task_on_child(jb_worker *w, jb_task *t, jb_child *c)
{
    jb_step_id stage = STEPS[t->step].stage;
    t->child = NULL;
    t->cost[stage] += (double)(jb_clock_ns() - c->started_ns) / 1e9;
    if (t->cancelled) {
        if (t->step == S_TRACE) jb_task_note_tracer(t, c);
        jb_task_stop(t, stage, "fail", "cancelled", "cancelled", NULL);
        return;
    }
    if (try_again(t, c)) return;
    switch ((step)t->step) {
    case S_TRACE: jb_task_end_trace(t, c); break;
    case S_INSPECT: jb_task_end_inspect(t, c); break;
    case S_COMPILE: jb_task_end_compile(t, c); break;
    case S_VERIFY_COMPILE: jb_task_end_verify_compile(t, c); break;
    case S_PLAN: jb_task_end_plan(w, t, c); break;
    case S_CHECK: jb_task_end_check(w, t, c); break;
    case S_VERIFY_CHECK: jb_task_end_verify_check(t, c); break;
    case S_TIME: jb_task_end_time(t, c); break;
    case S_REFS: case S_BASE: case S_END: break; /* have no child of their own */
    }
    jb_worker_progress(w, t->job, jb_rec_stages[stage], jb_rec_status(t->record, stage));
}

void jb_task_on_reference(jb_worker *w, jb_task *t, const char *reason, double seconds)
{
    (void)w;
    t->waits_for = NULL;
    t->reference_s += seconds;
    if (reason == NULL) return; /* the step asks again and finds it */
    if (t->step == S_VERIFY_COMPILE)
        jb_task_crash_stands(t, JB_ST_COMPILE, "compile-error", " (the reference's own module could not be made to compare)");
    else if (t->step == S_VERIFY_CHECK)
        jb_task_crash_stands(t, JB_ST_CHECK, t->crashed_timeout ? "timeout" : "runtime-error", " (the reference's own module could not be made to compare)");
    else if (t->step == S_BASE)
        jb_task_infra(t, JB_ST_TIME, reason, NULL);
    else
        jb_task_infra(t, JB_ST_CHECK, reason, NULL);
}

void jb_task_cancel(jb_worker *w, jb_task *t)
{
    if (t->done || t->cancelled) return;
    t->cancelled = 1;
    if (t->child != NULL) {
        jb_worker_kill(w, t->child);
        return;
    }
    if (t->waits_for != NULL) t->waits_for->waiting--;
    t->waits_for = NULL;
    jb_task_stop(t, STEPS[t->step == S_END ? S_TRACE : t->step].stage, "fail", "cancelled", "cancelled", NULL);
}
