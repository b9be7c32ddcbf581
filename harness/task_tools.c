/* SPDX-License-Identifier: Apache-2.0 */
/* harness/task_tools.c - what every step of a job uses: reading the job, ending it, asking
 * for a child, and reading how a child died.  See task.h. */
#include "harness/task.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

#define MIB ((int64_t)1 << 20)

/* ---- small tools ------------------------------------------------------- */

const cJSON *jb_task_workload(const jb_task *t) { return jb_json_obj(t->spec, "workload"); }
const char *jb_task_timed_shape(const jb_task *t) { return jb_json_str(t->spec, "timed_shape", "full"); }

double jb_task_limit_s(const jb_task *t, const char *key, double def)
{
    double v = jb_json_num(jb_json_obj(t->spec, "limits"), key, def);
    return v > 0 && v < 1e6 ? v : def;
}

static int has_word(const cJSON *array, const char *word)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, array)
        if (cJSON_IsString(i) && strcmp(i->valuestring, word) == 0) return 1;
    return 0;
}

int jb_task_skipped(const jb_task *t, jb_step_id stage) { return has_word(jb_json_obj(t->spec, "skip"), jb_rec_stages[stage]); }

jb_module *jb_task_module(const jb_task *t, const char *shape, const char *platform)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%s", shape, platform);
    for (size_t i = 0; i < t->module_count; i++)
        if (strcmp(t->modules[i].name, name) == 0 && t->modules[i].bytes != NULL) return &t->modules[i];
    return NULL;
}

jb_blob jb_task_blob(const jb_module *m)
{
    return (jb_blob){ .name = { m->name, strlen(m->name) }, .bytes = { (const char *)m->bytes, m->len } };
}

void jb_task_end(jb_task *t) { t->step = S_END; }

/* The stage failed, for whatever reason: the rest is skipped. */
void jb_task_stop(jb_task *t, jb_step_id stage, const char *status, const char *outcome, const char *reason, const char *error)
{
    char why[96];
    jb_rec_set(t->record, stage, status, outcome, reason, error);
    snprintf(why, sizeof why, "the %s stage did not succeed", jb_rec_stages[stage]);
    jb_rec_skip_after(t->record, stage, why);
    jb_task_end(t);
}

void jb_task_infra(jb_task *t, jb_step_id stage, const char *reason, const char *error) { jb_task_stop(t, stage, "infra", "infra", reason, error); }

/* Past the last stage that was asked for? */
int jb_task_beyond(jb_task *t, jb_step_id stage)
{
    if ((int)stage <= t->last_stage) return 0;
    jb_rec_skip_after(t->record, (jb_step_id)((int)stage - 1), "not asked for");
    jb_task_end(t);
    return 1;
}

/* A copy of the job without what a child must not see. */
cJSON *jb_task_job_without(const jb_task *t, const char *const *keys, size_t count, int with_dir)
{
    cJSON *o = cJSON_Duplicate(t->spec, 1);
    if (o == NULL) return NULL;
    for (size_t i = 0; i < count; i++) cJSON_DeleteItemFromObjectCaseSensitive(o, keys[i]);
    if (!with_dir) cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "workload"), "dir");
    return o;
}

cJSON *jb_task_judge_job(const jb_task *t)
{
    static const char *const hidden[] = { "keys", "store" };
    return jb_task_job_without(t, hidden, 2, 0);
}

/* ---- limits ------------------------------------------------------------ */

static jb_limits limits_for(const jb_worker *w, const jb_task *t, uint32_t kind, double seconds)
{
    int64_t cpus = w->cpus > 0 ? w->cpus : 1;
    jb_limits l = { .profile = JB_PROFILE_JUDGE, .uid = (uint32_t)(200000000u + w->next_child % 100000u) };
    l.cpu_s = (int64_t)(seconds * (double)cpus) + 10;
    l.processes = 64 + 8 * cpus;
    l.files = 512;
    l.file_bytes = 64 * MIB;
    l.tmp_bytes = 64 * MIB;
    l.data_bytes = 16 * JB_GIB;
    if (kind == JB_KID_TRACER) {
        l.profile = JB_PROFILE_TRACER;
        /* Three quarters of it may be written: the rest is code and reserved space. */
        l.data_bytes = (int64_t)(jb_task_limit_s(t, "memory_mb", 4096) * (double)MIB * 0.75) + 32 * MIB * cpus;
        /* Thread stacks are address space, and XLA starts a few threads a core. */
        l.as_bytes = (int64_t)(jb_task_limit_s(t, "memory_mb", 4096) * (double)MIB) + 32 * MIB * cpus;
    } else if (kind == JB_KID_COMPILER) {
        l.file_bytes = JB_GIB;
        l.tmp_bytes = JB_GIB;
        l.files = 2048;
    } else if (kind == JB_KID_REFERENCE || kind == JB_KID_PLAN) {
        l = (jb_limits){ .profile = JB_PROFILE_TRUSTED };
    }
    return l;
}

static int required(const jb_task *t) { return strcmp(jb_json_str(t->spec, "isolation", "required"), "best-effort") != 0; }

/* Ask for a child of this step.  1: it runs; 0: not now; -1: the task has ended. */
int jb_task_ask(jb_worker *w, jb_task *t, jb_step_id stage, uint32_t kind, double seconds, int64_t memory, const cJSON *meta,
               const jb_blob *blobs, size_t count)
{
    jb_error err = JB_ERROR_INIT;
    jb_limits l = limits_for(w, t, kind, seconds);
    t->child = jb_worker_spawn(w, t, kind, &l, required(t), seconds, memory, meta, blobs, count, &err);
    if (t->child != NULL) {
        jb_worker_progress(w, t->job, jb_rec_stages[stage], "running");
        return 1;
    }
    if (err.code == 0) return 0;
    jb_task_infra(t, stage, err.message, NULL);
    return -1;
}

/* ---- how a child without a good result is read -------------------------- */

/* The child's own words: what it printed last. */
char *jb_task_last_words(const jb_child *c)
{
    jb_buf b = JB_BUF_INIT(JB_REC_ERROR_MAX + 1);
    jb_capture_tail(&c->log_text, JB_REC_ERROR_MAX, &b);
    return jb_buf_detach(&b);
}

/* A tracer's word alone is none: without the status of its process it counts for nothing. */
int jb_task_is_infra(const jb_child *c)
{
    if (c->refused) return 1;
    if (c->timed_out || c->cancelled) return 0;
    return !c->have_walls || (!c->have_wait && (c->result == NULL || c->kind == JB_KID_TRACER));
}

int jb_task_checker_died(jb_task *t, jb_step_id stage, const jb_child *c)
{
    char who[400], end[300], reason[1024];
    const char *call = "";
    if (c->result != NULL || c->cancelled || !jb_child_in_checker(c, who, sizeof who, &call)) return 0;
    if (c->timed_out)
        snprintf(reason, sizeof reason, "%s hung in %s: stopped after %.6g s", who, call, (double)(jb_clock_ns() - c->checker_ns) / 1e9);
    else
        snprintf(reason, sizeof reason, "%s broke in %s: the process %s", who, call, c->broken ? c->err.message : jb_child_end(c, end, sizeof end));
    char *words = jb_task_last_words(c);
    jb_task_infra(t, stage, reason, words);
    jb_free(words);
    return 1;
}

void jb_task_read_infra(jb_task *t, jb_step_id stage, const jb_child *c)
{
    char end[300], reason[600];
    if (c->have_walls && !c->refused)
        snprintf(reason, sizeof reason, "the %s child vanished: nobody is left who saw how it ended", jb_kid_name(c->kind));
    else
        snprintf(reason, sizeof reason, "the %s child could not be set up: %s", jb_kid_name(c->kind),
                 c->err.message[0] != '\0' ? c->err.message : jb_child_end(c, end, sizeof end));
    char *words = jb_task_last_words(c);
    jb_task_infra(t, stage, reason, words);
    jb_free(words);
}

const cJSON *jb_task_failure(const jb_child *c) { return jb_json_obj(c->result, "child"); }

/* ---- a crash, and the reference's own module ---------------------------- */

/* Keep how it died and try the reference's own module. */
void jb_task_verify_later(jb_task *t, const jb_child *c, int next, const char *what)
{
    char end[300];
    jb_child_end(c, end, sizeof end);
    snprintf(t->crash_reason, sizeof t->crash_reason, "%s %.380s", what, c->broken ? c->err.message : end);
    jb_free(t->crash_error);
    t->crash_error = jb_task_last_words(c);
    t->crashed_timeout = c->timed_out;
    t->crash_trial = (int)jb_json_i64(c->progress, "trial", -1);
    t->step = next;
}

static const char *headline_variant(const jb_task *t)
{
    const cJSON *set, *last = NULL;
    cJSON_ArrayForEach(set, jb_json_obj(t->spec, "gates")) last = set;
    return jb_json_str(last, "variant", "repaired");
}

/* 0: t->base_path is there; 1: waiting; -1: the error is in err. */
int jb_task_want_base(jb_worker *w, jb_task *t, const char *shape, const char *platform, jb_error *err)
{
    cJSON *request = jb_plan_base_request(t->spec, headline_variant(t), shape, platform);
    jb_free(t->base_path);
    t->base_path = NULL;
    int rc = request == NULL ? jb_err(err, JB_ENOMEM, "out of memory")
                             : jb_worker_reference(w, request, 0, jb_task_limit_s(t, "reference_s", 300), JB_GIB, &t->base_path, &t->waits_for, err);
    cJSON_Delete(request);
    return rc < 0 ? -1 : rc;
}

/* A crash that can't be verified counts against the candidate: a crash must not
 * be a way out of the denominator. */
void jb_task_crash_stands(jb_task *t, jb_step_id stage, const char *outcome, const char *note)
{
    char reason[600];
    snprintf(reason, sizeof reason, "%s%s", t->crash_reason, note);
    jb_task_stop(t, stage, t->crashed_timeout ? "timeout" : "crash", outcome, reason, t->crash_error);
}

int jb_task_load_base(jb_task *t, const char *shape, const char *platform, jb_buf *bytes, jb_blob *blob, char name[96])
{
    if (jb_fs_read(t->base_path, JB_CHILD_MODULE_MAX, bytes, NULL) != 0) return JB_EIO;
    snprintf(name, 96, "%s/%s", shape, platform);
    *blob = (jb_blob){ .name = { name, strlen(name) }, .bytes = jb_buf_view(bytes) };
    return 0;
}
