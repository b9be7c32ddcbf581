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
#include "harness/worker.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "harness/refs.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

typedef enum { S_TRACE, S_INSPECT, S_COMPILE, S_VERIFY_COMPILE, S_PLAN, S_REFS, S_CHECK, S_VERIFY_CHECK, S_BASE, S_TIME, S_END } step;

#define MIB ((int64_t)1 << 20)

/* ---- small tools ------------------------------------------------------- */

static const cJSON *workload(const jb_task *t) { return jb_json_obj(t->spec, "workload"); }
static const char *timed_shape(const jb_task *t) { return jb_json_str(t->spec, "timed_shape", "full"); }

static double limit_s(const jb_task *t, const char *key, double def)
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

static int skipped(const jb_task *t, jb_step_id stage) { return has_word(jb_json_obj(t->spec, "skip"), jb_rec_stages[stage]); }

static jb_module *find_module(const jb_task *t, const char *shape, const char *platform)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%s", shape, platform);
    for (size_t i = 0; i < t->module_count; i++)
        if (strcmp(t->modules[i].name, name) == 0 && t->modules[i].bytes != NULL) return &t->modules[i];
    return NULL;
}

static jb_blob blob_of(const jb_module *m)
{
    return (jb_blob){ .name = { m->name, strlen(m->name) }, .bytes = { (const char *)m->bytes, m->len } };
}

static void end_task(jb_task *t) { t->step = S_END; }

/* The stage failed, for whatever reason: the rest is skipped. */
static void stop(jb_task *t, jb_step_id stage, const char *status, const char *outcome, const char *reason, const char *error)
{
    char why[96];
    jb_rec_set(t->record, stage, status, outcome, reason, error);
    snprintf(why, sizeof why, "the %s stage did not succeed", jb_rec_stages[stage]);
    jb_rec_skip_after(t->record, stage, why);
    end_task(t);
}

static void infra(jb_task *t, jb_step_id stage, const char *reason, const char *error) { stop(t, stage, "infra", "infra", reason, error); }

/* Past the last stage that was asked for? */
static int beyond(jb_task *t, jb_step_id stage)
{
    if ((int)stage <= t->last_stage) return 0;
    jb_rec_skip_after(t->record, (jb_step_id)((int)stage - 1), "not asked for");
    end_task(t);
    return 1;
}

/* A copy of the job without what a child must not see. */
static cJSON *job_without(const jb_task *t, const char *const *keys, size_t count, int with_dir)
{
    cJSON *o = cJSON_Duplicate(t->spec, 1);
    if (o == NULL) return NULL;
    for (size_t i = 0; i < count; i++) cJSON_DeleteItemFromObjectCaseSensitive(o, keys[i]);
    if (!with_dir) cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "workload"), "dir");
    return o;
}

/* What the tracer may know: shapes and limits. */
static cJSON *tracer_job(const jb_task *t)
{
    static const char *const hidden[] = { "gates", "keys", "store", "timers", "modules", "phase", "isolation" };
    static const char *const secrets[] = { "versions", "scales" };
    cJSON *o = job_without(t, hidden, sizeof hidden / sizeof hidden[0], 0);
    for (size_t i = 0; i < 2; i++) cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "workload"), secrets[i]);
    return o;
}

static cJSON *judge_job(const jb_task *t)
{
    static const char *const hidden[] = { "keys", "store" };
    return job_without(t, hidden, 2, 0);
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
        l.data_bytes = 0;
        /* Thread stacks are address space, and XLA starts a few threads a core. */
        l.as_bytes = (int64_t)(limit_s(t, "memory_mb", 4096) * (double)MIB) + 32 * MIB * cpus;
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
static int ask(jb_worker *w, jb_task *t, jb_step_id stage, uint32_t kind, double seconds, int64_t memory, const cJSON *meta,
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
    infra(t, stage, err.message, NULL);
    return -1;
}

/* ---- how a child without a good result is read -------------------------- */

/* The child's own words: what it printed last. */
static char *last_words(const jb_child *c)
{
    jb_buf b = JB_BUF_INIT(JB_REC_ERROR_MAX + 1);
    jb_capture_tail(&c->log_text, JB_REC_ERROR_MAX, &b);
    return jb_buf_detach(&b);
}

/* Set-up faults that are ours whoever the child was: no walls, refused walls. */
static int is_infra(const jb_child *c) { return c->refused || (!c->timed_out && !c->cancelled && !c->have_walls); }

static void read_infra(jb_task *t, jb_step_id stage, const jb_child *c)
{
    char end[300], reason[600];
    snprintf(reason, sizeof reason, "the %s child could not be set up: %s", jb_kid_name(c->kind),
             c->err.message[0] != '\0' ? c->err.message : jb_child_end(c, end, sizeof end));
    char *words = last_words(c);
    infra(t, stage, reason, words);
    jb_free(words);
}

static const cJSON *failure(const jb_child *c) { return jb_json_obj(c->result, "child"); }

/* ---- TRACE ------------------------------------------------------------- */

static int allow_module(jb_task *t, const char *shape, const char *platform)
{
    char name[96];
    int n = snprintf(name, sizeof name, "%s/%s", shape, platform);
    if (n < 0 || (size_t)n >= sizeof name) return JB_EINVAL;
    for (size_t i = 0; i < t->module_count; i++)
        if (strcmp(t->modules[i].name, name) == 0) return 0;
    jb_module *grown = jb_realloc(t->modules, (t->module_count + 1) * sizeof *grown);
    if (grown == NULL) return JB_ENOMEM;
    t->modules = grown;
    memset(&t->modules[t->module_count], 0, sizeof *grown);
    snprintf(t->modules[t->module_count++].name, sizeof name, "%s", name);
    return 0;
}

/* The names that may come out of a tracer; nothing else is let through. */
static int expect_modules(jb_task *t)
{
    const cJSON *shape;
    int rc = 0;
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes")) {
        if (!cJSON_IsString(shape)) return JB_EINVAL;
        if (rc == 0) rc = allow_module(t, shape->valuestring, "cpu");
        if (rc == 0) rc = allow_module(t, shape->valuestring, "tpu");
    }
    return rc != 0 ? rc : allow_module(t, timed_shape(t), "tpu");
}

/* Modules by hash from the store: the job starts at inspect. */
static void load_modules(jb_task *t)
{
    const cJSON *row;
    const char *store = jb_json_str(t->spec, "store", "");
    jb_error err = JB_ERROR_INIT;
    cJSON_ArrayForEach(row, jb_json_obj(t->spec, "modules")) {
        char name[96], sum[65];
        snprintf(name, sizeof name, "%s/%s", jb_json_str(row, "shape", ""), jb_json_str(row, "platform", ""));
        const char *want = jb_json_str(row, "sha256", "");
        char *path = strspn(want, "0123456789abcdef") == 64 && want[64] == '\0' ? jb_fs_join(store, want) : NULL;
        jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
        jb_module *m = NULL;
        for (size_t i = 0; i < t->module_count; i++)
            if (strcmp(t->modules[i].name, name) == 0) m = &t->modules[i];
        int rc = m == NULL || path == NULL ? jb_err(&err, JB_EINVAL, "module %s of the job is not one it can have", name)
                                           : jb_fs_read(path, JB_CHILD_MODULE_MAX, &bytes, &err);
        if (rc == 0 && (jb_hash_bytes(bytes.ptr, bytes.len, sum) != 0 || strcmp(sum, want) != 0))
            rc = jb_err(&err, JB_EPARSE, "module %s in the store %s does not have the hash it is named by", name, store);
        if (rc == 0) {
            m->len = bytes.len;
            snprintf(m->sha256, sizeof m->sha256, "%s", sum);
            jb_free(m->bytes);
            m->bytes = (uint8_t *)jb_buf_detach(&bytes);
        }
        jb_buf_free(&bytes);
        jb_free(path);
        if (rc != 0) {
            infra(t, JB_ST_INSPECT, err.message, NULL);
            return;
        }
    }
    jb_rec_set(t->record, JB_ST_TRACE, "skipped", NULL, "modules of an earlier trace are judged", NULL);
    jb_rec_set(t->record, JB_ST_EXPORT, "skipped", NULL, "modules of an earlier trace are judged", NULL);
    t->step = S_INSPECT;
}

static int start_trace(jb_worker *w, jb_task *t)
{
    if (beyond(t, JB_ST_TRACE)) return 1;
    if (cJSON_GetArraySize(jb_json_obj(t->spec, "modules")) > 0) {
        load_modules(t);
        return 1;
    }
    const char *missing = jb_worker_module_missing(w, "tracer");
    if (missing != NULL) {
        infra(t, JB_ST_TRACE, missing, NULL);
        return 1;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", tracer_job(t));
    jb_blob source = { .name = { "source", 6 }, .bytes = { t->source, t->source_len } };
    int rc = ask(w, t, JB_ST_TRACE, JB_KID_TRACER, limit_s(t, "trace_s", 60), JB_GIB, meta, &source, 1);
    cJSON_Delete(meta);
    if (rc == 1) {
        t->child->modules = t->modules;
        t->child->module_count = t->module_count;
    }
    return rc != 0;
}

static void store_modules(jb_task *t)
{
    const char *store = jb_json_str(t->spec, "store", "");
    cJSON *list = jb_json_add_arr(jb_rec_stage(t->record, JB_ST_EXPORT), "modules");
    jb_error err = JB_ERROR_INIT;
    if (store[0] != '\0' && jb_fs_mkdirs(store, &err) != 0) store = "";
    for (size_t i = 0; i < t->module_count; i++) {
        const jb_module *m = &t->modules[i];
        if (m->bytes == NULL) continue;
        const char *slash = strchr(m->name, '/');
        char shape[96];
        snprintf(shape, sizeof shape, "%.*s", (int)(slash - m->name), m->name);
        cJSON *o = cJSON_CreateObject();
        jb_json_set_str(o, "shape", shape);
        jb_json_set_str(o, "platform", slash + 1);
        jb_json_set_str(o, "sha256", m->sha256);
        jb_json_set_i64(o, "bytes", (int64_t)m->len);
        cJSON_AddItemToArray(list, o);
        char *path = store[0] != '\0' ? jb_fs_join(store, m->sha256) : NULL;
        if (path != NULL && !jb_fs_exists(path)) (void)jb_fs_write_atomic(path, m->bytes, m->len, &err);
        jb_free(path);
    }
    if (err.code != 0) jb_json_set_str(jb_rec_stage(t->record, JB_ST_EXPORT), "store_error", err.message);
}

/* What the tracer's process looked like from outside: log, flags, walls. */
static void note_tracer(jb_task *t, const jb_child *c)
{
    jb_buf log = JB_BUF_INIT(65536);
    cJSON *stage = jb_rec_stage(t->record, JB_ST_TRACE), *flags = cJSON_GetObjectItemCaseSensitive(stage, "flags");
    if (flags == NULL) flags = jb_json_add_arr(stage, "flags");
    jb_child_flags(c, flags);
    if (cJSON_GetArraySize(flags) == 0) cJSON_DeleteItemFromObjectCaseSensitive(stage, "flags");
    if (cJSON_GetObjectItemCaseSensitive(stage, "seconds") == NULL) jb_json_set_num(stage, "seconds", t->cost[JB_ST_TRACE]);
    jb_capture_text(&c->log_text, &log);
    jb_json_set_view(t->record, "log", jb_buf_view(&log));
    jb_json_set_i64(t->record, "log_bytes", (int64_t)c->log_text.total);
    jb_buf_free(&log);
    if (c->have_walls) cJSON_AddItemToObject(t->record, "isolation", jb_isolation_json(&c->walls));
}

static void tracer_died(jb_task *t, const jb_child *c)
{
    char end[300], reason[700];
    char *words = last_words(c);
    jb_child_end(c, end, sizeof end);
    if (c->timed_out)
        stop(t, JB_ST_TRACE, "timeout", "timeout", (snprintf(reason, sizeof reason, "tracing %s", end), reason), words);
    else if (c->broken)
        stop(t, JB_ST_TRACE, "fail", "trace-error", (snprintf(reason, sizeof reason, "the candidate's process broke the protocol: %s", c->err.message), reason), words);
    else if (jb_child_crashed(c))
        stop(t, JB_ST_TRACE, "crash", "trace-error", (snprintf(reason, sizeof reason, "the candidate's process %s", end), reason), words);
    else
        stop(t, JB_ST_TRACE, "fail", "trace-error",
             (snprintf(reason, sizeof reason, "the candidate's process %s before the trace was complete", end), reason), words);
    jb_free(words);
}

/* Everything the tracer says is text; what counts is which modules came. */
static void tracer_answered(jb_task *t, const jb_child *c)
{
    const cJSON *trace = jb_json_obj(c->result, "trace"), *export = jb_json_obj(c->result, "export"), *shape;
    jb_rec_from_tracer(t->record, JB_ST_TRACE, trace);
    if (strcmp(jb_rec_status(t->record, JB_ST_TRACE), "ok") != 0) {
        jb_rec_skip_after(t->record, JB_ST_TRACE, "the trace stage did not succeed");
        end_task(t);
        return;
    }
    jb_rec_from_tracer(t->record, JB_ST_EXPORT, export);
    store_modules(t);
    if (strcmp(jb_rec_status(t->record, JB_ST_EXPORT), "ok") != 0) {
        jb_rec_skip_after(t->record, JB_ST_EXPORT, "the export stage did not succeed");
        end_task(t);
        return;
    }
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes"))
        if (find_module(t, shape->valuestring, "cpu") == NULL || find_module(t, shape->valuestring, "tpu") == NULL) t->specialised = 1;
    if (find_module(t, timed_shape(t), "tpu") == NULL)
        stop(t, JB_ST_EXPORT, "fail", "trace-error", "the tracer ended well and sent no module for the timed shape", NULL);
    else
        t->step = S_INSPECT;
}

static void end_trace(jb_task *t, const jb_child *c)
{
    int clean = c->result != NULL && !c->broken && !c->timed_out && c->have_wait && WIFEXITED(c->wait_status) && WEXITSTATUS(c->wait_status) == 0;
    t->step = S_END;
    if (is_infra(c))
        read_infra(t, JB_ST_TRACE, c);
    else if (!clean && failure(c) == NULL)
        tracer_died(t, c);
    else if (failure(c) != NULL)
        stop(t, JB_ST_TRACE, "fail", "trace-error", jb_json_str(failure(c), "reason", "the tracer raised an exception"),
             jb_json_str(failure(c), "error", NULL));
    else
        tracer_answered(t, c);
    note_tracer(t, c);
    jb_free(t->source); /* judged from here on is what came out */
    t->source = NULL;
}

/* ---- INSPECT ----------------------------------------------------------- */

static int start_inspect(jb_worker *w, jb_task *t)
{
    if (beyond(t, JB_ST_INSPECT)) return 1;
    if (skipped(t, JB_ST_INSPECT)) {
        jb_rec_set(t->record, JB_ST_INSPECT, "skipped", NULL, "skipped on request", NULL);
        t->step = S_COMPILE;
        return 1;
    }
    const char *missing = jb_worker_module_missing(w, "inspector");
    if (missing != NULL) {
        infra(t, JB_ST_INSPECT, missing, NULL);
        return 1;
    }
    jb_blob *blobs = jb_alloc_array(t->module_count + 1, sizeof *blobs);
    if (blobs == NULL) {
        infra(t, JB_ST_INSPECT, "out of memory", NULL);
        return 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < t->module_count; i++)
        if (t->modules[i].bytes != NULL) blobs[n++] = blob_of(&t->modules[i]);
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", judge_job(t));
    int rc = ask(w, t, JB_ST_INSPECT, JB_KID_INSPECTOR, limit_s(t, "inspect_s", 60), JB_GIB, meta, blobs, n);
    cJSON_Delete(meta);
    jb_free(blobs);
    return rc != 0;
}

/* Judged at the full shape only: a label the inspector may have set already. */
static void note_specialised(jb_task *t)
{
    cJSON *stage = jb_rec_stage(t->record, JB_ST_INSPECT), *findings = cJSON_GetObjectItemCaseSensitive(stage, "findings"), *f;
    if (!t->specialised) return;
    if (!cJSON_IsArray(findings)) {
        cJSON_DeleteItemFromObjectCaseSensitive(stage, "findings");
        findings = jb_json_add_arr(stage, "findings");
    }
    cJSON_ArrayForEach(f, findings)
        if (strcmp(jb_json_str(f, "id", ""), "shape-specialised") == 0) return;
    f = cJSON_CreateObject();
    jb_json_set_str(f, "id", "shape-specialised");
    jb_json_set_str(f, "outcome", "inconclusive");
    jb_json_set_str(f, "detail", "it traces at the timed shape and not at every shape it would be checked at");
    cJSON_AddItemToArray(findings, f);
}

static void end_inspect(jb_task *t, const jb_child *c)
{
    char end[300], reason[600];
    const cJSON *said = jb_json_obj(c->result, "inspect");
    char *words = last_words(c);
    jb_child_end(c, end, sizeof end);
    t->step = S_END;
    if (is_infra(c))
        read_infra(t, JB_ST_INSPECT, c);
    else if (c->timed_out)
        stop(t, JB_ST_INSPECT, "timeout", "suspicious", (snprintf(reason, sizeof reason, "a module kept the inspector busy: it %s", end), reason), words);
    else if (jb_child_crashed(c) || c->broken || (said == NULL && failure(c) == NULL))
        stop(t, JB_ST_INSPECT, "crash", "suspicious", (snprintf(reason, sizeof reason, "a module crashed the inspector: it %s", c->broken ? c->err.message : end), reason), words);
    else if (failure(c) != NULL)
        stop(t, JB_ST_INSPECT, "crash", "suspicious", (snprintf(reason, sizeof reason, "the inspector could not read a module: %s", jb_json_str(failure(c), "reason", "")), reason),
             jb_json_str(failure(c), "error", NULL));
    else {
        jb_rec_from_judge(t->record, JB_ST_INSPECT, said);
        if (strcmp(jb_rec_status(t->record, JB_ST_INSPECT), "ok") == 0) {
            note_specialised(t);
            t->step = S_COMPILE;
        } else {
            jb_rec_skip_after(t->record, JB_ST_INSPECT, "the inspect stage did not succeed");
        }
    }
    jb_free(words);
}

/* ---- COMPILE ----------------------------------------------------------- */

static int start_compile(jb_worker *w, jb_task *t)
{
    const jb_module *m = find_module(t, timed_shape(t), "tpu");
    const char *missing = jb_worker_module_missing(w, "compiler");
    if (beyond(t, JB_ST_COMPILE)) return 1;
    if (skipped(t, JB_ST_COMPILE) || m == NULL || missing != NULL) {
        const char *why = skipped(t, JB_ST_COMPILE) ? "skipped on request" : m == NULL ? "no TPU module at the timed shape" : missing;
        jb_rec_set(t->record, JB_ST_COMPILE, "skipped", NULL, why, NULL);
        t->step = S_PLAN;
        return 1;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", judge_job(t));
    jb_blob blob = blob_of(m);
    int rc = ask(w, t, JB_ST_COMPILE, JB_KID_COMPILER, limit_s(t, "compile_s", 300), 2 * JB_GIB, meta, &blob, 1);
    cJSON_Delete(meta);
    return rc != 0;
}

/* Keep how it died and try the reference's own module. */
static void verify_later(jb_task *t, const jb_child *c, int next, const char *what)
{
    char end[300];
    jb_child_end(c, end, sizeof end);
    snprintf(t->crash_reason, sizeof t->crash_reason, "%s %.380s", what, c->broken ? c->err.message : end);
    jb_free(t->crash_error);
    t->crash_error = last_words(c);
    t->crashed_timeout = c->timed_out;
    t->crash_trial = (int)jb_json_i64(c->progress, "trial", -1);
    t->step = next;
}

static void end_compile(jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "compile");
    t->step = S_END;
    if (is_infra(c)) {
        read_infra(t, JB_ST_COMPILE, c);
    } else if (c->timed_out) {
        char end[300], reason[400];
        snprintf(reason, sizeof reason, "the TPU compiler %s", jb_child_end(c, end, sizeof end));
        stop(t, JB_ST_COMPILE, "timeout", "compile-timeout", reason, NULL);
    } else if (said == NULL && failure(c) == NULL) {
        verify_later(t, c, S_VERIFY_COMPILE, "the TPU compiler");
    } else if (failure(c) != NULL) {
        snprintf(t->crash_reason, sizeof t->crash_reason, "the TPU compiler raised: %s", jb_json_str(failure(c), "reason", ""));
        t->crash_error = jb_strdup(jb_json_str(failure(c), "error", ""));
        t->step = S_VERIFY_COMPILE;
    } else {
        jb_rec_from_judge(t->record, JB_ST_COMPILE, said);
        const char *status = jb_rec_status(t->record, JB_ST_COMPILE);
        if (strcmp(status, "ok") == 0 || strcmp(status, "skipped") == 0)
            t->step = S_PLAN;
        else
            jb_rec_skip_after(t->record, JB_ST_COMPILE, "the compile stage did not succeed");
    }
}

/* ---- references and baselines ------------------------------------------ */

static const char *headline_variant(const jb_task *t)
{
    const cJSON *set, *last = NULL;
    cJSON_ArrayForEach(set, jb_json_obj(t->spec, "gates")) last = set;
    return jb_json_str(last, "variant", "repaired");
}

/* 0: t->base_path is there; 1: waiting; -1: the error is in err. */
static int want_base(jb_worker *w, jb_task *t, const char *shape, const char *platform, jb_error *err)
{
    cJSON *request = jb_plan_base_request(t->spec, headline_variant(t), shape, platform);
    jb_free(t->base_path);
    t->base_path = NULL;
    int rc = request == NULL ? jb_err(err, JB_ENOMEM, "out of memory")
                             : jb_worker_reference(w, request, 0, limit_s(t, "reference_s", 300), JB_GIB, &t->base_path, &t->waits_for, err);
    cJSON_Delete(request);
    return rc < 0 ? -1 : rc;
}

/* Where a check would have run: the first shape that has a CPU module. */
static const char *first_shape(const jb_task *t)
{
    const cJSON *shape;
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes"))
        if (find_module(t, shape->valuestring, "cpu") != NULL) return shape->valuestring;
    return NULL;
}

/* A crash that can't be verified counts against the candidate: a crash must not
 * be a way out of the denominator. */
static void crash_stands(jb_task *t, jb_step_id stage, const char *outcome, const char *note)
{
    char reason[600];
    snprintf(reason, sizeof reason, "%s%s", t->crash_reason, note);
    stop(t, stage, t->crashed_timeout ? "timeout" : "crash", outcome, reason, t->crash_error);
}

static int load_base(jb_task *t, const char *shape, const char *platform, jb_buf *bytes, jb_blob *blob, char name[96])
{
    if (jb_fs_read(t->base_path, JB_CHILD_MODULE_MAX, bytes, NULL) != 0) return JB_EIO;
    snprintf(name, 96, "%s/%s", shape, platform);
    *blob = (jb_blob){ .name = { name, strlen(name) }, .bytes = jb_buf_view(bytes) };
    return 0;
}

static int start_verify_compile(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    char name[96];
    jb_blob blob;
    jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
    int rc = want_base(w, t, timed_shape(t), "tpu", &err);
    if (rc == 1) return 0;
    if (rc < 0 || load_base(t, timed_shape(t), "tpu", &bytes, &blob, name) != 0) {
        crash_stands(t, JB_ST_COMPILE, "compile-error", " (the reference's own module could not be made to compare)");
        return 1;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", judge_job(t));
    rc = ask(w, t, JB_ST_COMPILE, JB_KID_COMPILER, limit_s(t, "compile_s", 300), 2 * JB_GIB, meta, &blob, 1);
    cJSON_Delete(meta);
    jb_buf_free(&bytes);
    return rc != 0;
}

static void end_verify_compile(jb_task *t, const jb_child *c)
{
    /* A verdict on the reference's module, even a refusal, is a working compiler. */
    if (jb_json_obj(c->result, "compile") != NULL && !c->broken)
        crash_stands(t, JB_ST_COMPILE, "compile-error", "; it compiles the reference's own module");
    else
        infra(t, JB_ST_COMPILE, "the TPU compiler fails on the reference's own module too", t->crash_error);
}

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
    if (skipped(t, JB_ST_CHECK)) return "skipped on request";
    if (strcmp(jb_rec_status(t->record, JB_ST_INSPECT), "ok") != 0) return "a module that was not inspected is not executed";
    if (t->specialised) return "it does not trace at every shape it would be checked at";
    if (cJSON_GetArraySize(jb_json_obj(t->spec, "gates")) == 0) return "no gate set was asked for";
    return NULL;
}

static int start_plan(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    char hash[65];
    if (beyond(t, JB_ST_CHECK)) return 1;
    const char *why = no_check(t);
    const char *missing = jb_worker_module_missing(w, "runtime");
    if (why == NULL && missing != NULL) {
        infra(t, JB_ST_CHECK, missing, NULL);
        return 1;
    }
    if (why != NULL) {
        jb_rec_set(t->record, JB_ST_CHECK, "skipped", NULL, why, NULL);
        jb_rec_skip_after(t->record, JB_ST_CHECK, "the check stage did not run");
        end_task(t);
        return 1;
    }
    if (t->plan.sets == NULL && (jb_plan_build(t->spec, &t->plan, &err) != 0 || plan_hash(t, hash) != 0)) {
        infra(t, JB_ST_CHECK, err.message, NULL);
        return 1;
    }
    if (plan_hash(t, hash) != 0) {
        infra(t, JB_ST_CHECK, "out of memory", NULL);
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
    int rc = ask(w, t, JB_ST_CHECK, JB_KID_PLAN, 60, 64 * MIB, meta, NULL, 0);
    cJSON_Delete(meta);
    return rc != 0;
}

static void end_plan(jb_worker *w, jb_task *t, const jb_child *c)
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
    const char *said = jb_json_str(failure(c), "reason", NULL);
    if (said == NULL && c->err.message[0] != '\0') said = c->err.message;
    snprintf(reason, sizeof reason, "the gates could not be set up: %s", said != NULL ? said : jb_child_end(c, end, sizeof end));
    char *words = last_words(c);
    infra(t, JB_ST_CHECK, reason, words);
    jb_free(words);
}

/* ---- REFS -------------------------------------------------------------- */

static int64_t trial_bytes(const jb_task *t, const char *shape)
{
    static const char *const kinds[] = { "inputs", "outputs" };
    const cJSON *resolved = jb_json_obj(jb_json_obj(workload(t), "shapes"), shape), *row, *dim;
    double total = 0;
    for (size_t k = 0; k < 2; k++)
        cJSON_ArrayForEach(row, jb_json_obj(resolved, kinds[k])) {
            double n = 8; /* fp64 of h */
            cJSON_ArrayForEach(dim, jb_json_obj(row, "dims")) n *= cJSON_IsNumber(dim) ? dim->valuedouble : 1;
            total += n;
        }
    return total < 1e13 ? (int64_t)total : (int64_t)1e13;
}

static int start_refs(jb_worker *w, jb_task *t)
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
                                 : jb_worker_reference(w, request, t->groups[i] | 1u << JB_REF_INPUT, limit_s(t, "reference_s", 300),
                                                       memory, &t->refs[i], &t->waits_for, &err);
        cJSON_Delete(request);
        if (rc == 1) {
            jb_worker_progress(w, t->job, "check", "waiting for references");
            return 1;
        }
        if (rc < 0) {
            infra(t, JB_ST_CHECK, err.message, NULL);
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
    cJSON_AddItemToObject(wl, "shapes", cJSON_Duplicate(jb_json_obj(workload(t), "shapes"), 1));
    cJSON_AddItemToObject(wl, "scales", jb_json_obj(workload(t), "scales") != NULL ? cJSON_Duplicate(jb_json_obj(workload(t), "scales"), 1) : cJSON_CreateObject());
    jb_json_set_i64(wl, "slice_axes", jb_json_i64(workload(t), "slice_axes", 1));
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

static int start_check(jb_worker *w, jb_task *t)
{
    if (w->selftest == 0) return 0; /* until it is known whether interpret mode can be trusted here */
    jb_blob blobs[32];
    size_t n = 0;
    for (size_t i = 0; i < t->module_count && n < 32; i++) {
        const char *slash = strchr(t->modules[i].name, '/');
        if (t->modules[i].bytes != NULL && slash != NULL && strcmp(slash, "/cpu") == 0) blobs[n++] = blob_of(&t->modules[i]);
    }
    cJSON *meta = executor_meta(w, t, "check");
    int rc = ask(w, t, JB_ST_CHECK, JB_KID_EXECUTOR, limit_s(t, "check_s", 300), executor_memory(t), meta, blobs, n);
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

static void end_check(jb_worker *w, jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "check"), *gates = jb_json_obj(c->result, "gates");
    t->step = S_END;
    if (is_infra(c)) {
        read_infra(t, JB_ST_CHECK, c);
    } else if (said == NULL || c->broken) {
        const cJSON *f = failure(c);
        if (f != NULL && strcmp(jb_json_str(f, "status", ""), "infra") == 0)
            infra(t, JB_ST_CHECK, jb_json_str(f, "reason", ""), jb_json_str(f, "error", NULL));
        else
            verify_later(t, c, S_VERIFY_CHECK, c->timed_out ? "the check" : "the executor");
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
        if (t->refs[i] != NULL && find_module(t, t->plan.trials[i].shape, "cpu") != NULL) return i;
    return t->plan.trial_count;
}

static int start_verify_check(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    char name[96];
    jb_blob blob;
    jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
    const char *outcome = t->crashed_timeout ? "timeout" : "runtime-error";
    uint32_t i = probe_trial(t);
    const char *shape = i < t->plan.trial_count ? t->plan.trials[i].shape : NULL;
    int rc = shape != NULL ? want_base(w, t, shape, "cpu", &err) : -1;
    if (rc == 1) return 0;
    if (rc < 0 || load_base(t, shape, "cpu", &bytes, &blob, name) != 0) {
        crash_stands(t, JB_ST_CHECK, outcome, " (the reference's own module could not be made to compare)");
        jb_buf_free(&bytes);
        return 1;
    }
    cJSON *meta = executor_meta(w, t, "verify");
    jb_json_set_i64(meta, "trial", i);
    rc = ask(w, t, JB_ST_CHECK, JB_KID_EXECUTOR, limit_s(t, "check_s", 300), executor_memory(t), meta, &blob, 1);
    cJSON_Delete(meta);
    jb_buf_free(&bytes);
    return rc != 0;
}

static void end_verify_check(jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "verify");
    if (strcmp(jb_json_str(said, "status", ""), "ok") == 0)
        crash_stands(t, JB_ST_CHECK, t->crashed_timeout ? "timeout" : "runtime-error", "; the reference's own module runs here");
    else
        infra(t, JB_ST_CHECK, "the executor fails on the reference's own module too", t->crash_error);
}

/* ---- TIME -------------------------------------------------------------- */

/* Timing a wrong kernel would only tempt: the headline set must have passed. */
static const char *no_timing(const jb_task *t)
{
    const cJSON *set, *gates = jb_json_obj(t->record, "gates"), *last = NULL;
    if (skipped(t, JB_ST_TIME)) return "skipped on request";
    if (cJSON_GetArraySize(jb_json_obj(t->spec, "timers")) == 0) return "no timer was asked for";
    cJSON_ArrayForEach(set, jb_json_obj(t->spec, "gates")) last = set;
    set = jb_json_obj(gates, jb_json_str(t->spec, "headline", jb_json_str(last, "name", "")));
    if (strcmp(jb_json_str(set, "verdict", ""), "pass") != 0) return "the candidate was not shown to be correct";
    return NULL;
}

static int start_base(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    if (beyond(t, JB_ST_TIME)) return 1;
    const char *why = no_timing(t), *shape = first_shape(t);
    if (why == NULL && (shape == NULL || probe_trial(t) == t->plan.trial_count)) why = "nothing was executed that could be timed";
    if (why != NULL) {
        jb_rec_set(t->record, JB_ST_TIME, "skipped", NULL, why, NULL);
        end_task(t);
        return 1;
    }
    int rc = want_base(w, t, t->plan.trials[probe_trial(t)].shape, "cpu", &err);
    if (rc == 1) return 0;
    if (rc < 0) {
        infra(t, JB_ST_TIME, err.message, NULL);
        return 1;
    }
    t->step = S_TIME;
    return 1;
}

static int start_time(jb_worker *w, jb_task *t)
{
    uint32_t i = probe_trial(t);
    const char *shape = t->plan.trials[i].shape;
    char name[96];
    jb_blob blobs[2];
    jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
    if (load_base(t, shape, "cpu", &bytes, &blobs[1], name) != 0) {
        infra(t, JB_ST_TIME, "the baseline module can't be read", NULL);
        return 1;
    }
    blobs[0] = blob_of(find_module(t, shape, "cpu"));
    blobs[0].name = (jb_view){ "candidate", 9 };
    blobs[1].name = (jb_view){ "baseline", 8 };
    cJSON *meta = executor_meta(w, t, "time");
    jb_json_set_i64(meta, "trial", i);
    cJSON_AddItemToObject(meta, "timers", cJSON_Duplicate(jb_json_obj(t->spec, "timers"), 1));
    /* All of the memory, so that nothing else runs beside a clock. */
    int rc = ask(w, t, JB_ST_TIME, JB_KID_TIMER, limit_s(t, "check_s", 300), w->o.memory_bytes, meta, blobs, 2);
    cJSON_Delete(meta);
    jb_buf_free(&bytes);
    return rc != 0;
}

static void end_time(jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "time"), *timing = jb_json_obj(c->result, "timing");
    char end[300], reason[500];
    t->step = S_END;
    if (is_infra(c)) {
        read_infra(t, JB_ST_TIME, c);
    } else if (said != NULL && !c->broken) {
        jb_rec_from_judge(t->record, JB_ST_TIME, said);
        if (timing != NULL) cJSON_AddItemToObject(t->record, "timing", cJSON_Duplicate(timing, 1));
    } else {
        const char *own = jb_json_str(failure(c), "reason", NULL);
        snprintf(reason, sizeof reason, "timing failed: %s", own != NULL ? own : jb_child_end(c, end, sizeof end));
        /* It ran once to be checked, so what went wrong is not the candidate's result. */
        jb_rec_set(t->record, JB_ST_TIME, c->timed_out ? "timeout" : "fail", NULL, reason, NULL);
    }
}

/* ---- the machine ------------------------------------------------------- */

static const struct {
    int (*start)(jb_worker *, jb_task *);
    jb_step_id stage;
} STEPS[] = {
    [S_TRACE] = { start_trace, JB_ST_TRACE },       [S_INSPECT] = { start_inspect, JB_ST_INSPECT },
    [S_COMPILE] = { start_compile, JB_ST_COMPILE }, [S_VERIFY_COMPILE] = { start_verify_compile, JB_ST_COMPILE },
    [S_PLAN] = { start_plan, JB_ST_CHECK },         [S_REFS] = { start_refs, JB_ST_CHECK },
    [S_CHECK] = { start_check, JB_ST_CHECK },       [S_VERIFY_CHECK] = { start_verify_check, JB_ST_CHECK },
    [S_BASE] = { start_base, JB_ST_TIME },          [S_TIME] = { start_time, JB_ST_TIME },
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
    jb_json_set_str(t->record, "numerics", "interpret");
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
        rc = expect_modules(t);
        if (rc != 0) jb_err(&err, rc, "the names of the job's shapes are too long");
    }
    if (rc != 0) {
        jb_err_context(&err, "job");
        infra(t, JB_ST_TRACE, err.message, NULL);
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

void jb_task_on_child(jb_worker *w, jb_task *t, jb_child *c)
{
    jb_step_id stage = STEPS[t->step].stage;
    t->child = NULL;
    t->cost[stage] += (double)(jb_clock_ns() - c->started_ns) / 1e9;
    if (t->cancelled) {
        if (t->step == S_TRACE) note_tracer(t, c);
        stop(t, stage, "fail", "cancelled", "cancelled", NULL);
        return;
    }
    switch ((step)t->step) {
    case S_TRACE: end_trace(t, c); break;
    case S_INSPECT: end_inspect(t, c); break;
    case S_COMPILE: end_compile(t, c); break;
    case S_VERIFY_COMPILE: end_verify_compile(t, c); break;
    case S_PLAN: end_plan(w, t, c); break;
    case S_CHECK: end_check(w, t, c); break;
    case S_VERIFY_CHECK: end_verify_check(t, c); break;
    case S_TIME: end_time(t, c); break;
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
        crash_stands(t, JB_ST_COMPILE, "compile-error", " (the reference's own module could not be made to compare)");
    else if (t->step == S_VERIFY_CHECK)
        crash_stands(t, JB_ST_CHECK, t->crashed_timeout ? "timeout" : "runtime-error", " (the reference's own module could not be made to compare)");
    else if (t->step == S_BASE)
        infra(t, JB_ST_TIME, reason, NULL);
    else
        infra(t, JB_ST_CHECK, reason, NULL);
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
    stop(t, STEPS[t->step == S_END ? S_TRACE : t->step].stage, "fail", "cancelled", "cancelled", NULL);
}
