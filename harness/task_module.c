/* SPDX-License-Identifier: Apache-2.0 */
/* harness/task_module.c - the steps of a job that make and look at modules: trace,
 * inspect, compile.  See task.h. */
#include "harness/task.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

/* ---- TRACE ------------------------------------------------------------- */

/* What the tracer may know: shapes and limits. */
static cJSON *tracer_job(const jb_task *t)
{
    static const char *const hidden[] = { "gates", "keys", "store", "timers", "modules", "phase", "isolation" };
    static const char *const secrets[] = { "versions", "scales" };
    cJSON *o = jb_task_job_without(t, hidden, sizeof hidden / sizeof hidden[0], 0);
    for (size_t i = 0; i < 2; i++) cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(o, "workload"), secrets[i]);
    return o;
}

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
int jb_task_expect_modules(jb_task *t)
{
    const cJSON *shape;
    int rc = 0;
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes")) {
        if (!cJSON_IsString(shape)) return JB_EINVAL;
        if (rc == 0) rc = allow_module(t, shape->valuestring, "cpu");
        if (rc == 0) rc = allow_module(t, shape->valuestring, "tpu");
    }
    return rc != 0 ? rc : allow_module(t, jb_task_timed_shape(t), "tpu");
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
            jb_task_infra(t, JB_ST_INSPECT, err.message, NULL);
            return;
        }
    }
    jb_rec_set(t->record, JB_ST_TRACE, "skipped", NULL, "modules of an earlier trace are judged", NULL);
    jb_rec_set(t->record, JB_ST_EXPORT, "skipped", NULL, "modules of an earlier trace are judged", NULL);
    t->step = S_INSPECT;
}

int jb_task_start_trace(jb_worker *w, jb_task *t)
{
    if (jb_task_beyond(t, JB_ST_TRACE)) return 1;
    if (cJSON_GetArraySize(jb_json_obj(t->spec, "modules")) > 0) {
        load_modules(t);
        return 1;
    }
    const char *missing = jb_worker_module_missing(w, "tracer");
    if (missing != NULL) {
        jb_task_infra(t, JB_ST_TRACE, missing, NULL);
        return 1;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", tracer_job(t));
    jb_blob source = { .name = { "source", 6 }, .bytes = { t->source, t->source_len } };
    int rc = jb_task_ask(w, t, JB_ST_TRACE, JB_KID_TRACER, jb_task_limit_s(t, "trace_s", 60), JB_GIB, meta, &source, 1);
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
void jb_task_note_tracer(jb_task *t, const jb_child *c)
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
    char *words = jb_task_last_words(c);
    jb_child_end(c, end, sizeof end);
    if (c->timed_out)
        jb_task_stop(t, JB_ST_TRACE, "timeout", "timeout", (snprintf(reason, sizeof reason, "tracing %s", end), reason), words);
    else if (c->broken)
        jb_task_stop(t, JB_ST_TRACE, "fail", "trace-error", (snprintf(reason, sizeof reason, "the candidate's process broke the protocol: %s", c->err.message), reason), words);
    else if (jb_child_crashed(c))
        jb_task_stop(t, JB_ST_TRACE, "crash", "trace-error", (snprintf(reason, sizeof reason, "the candidate's process %s", end), reason), words);
    else
        jb_task_stop(t, JB_ST_TRACE, "fail", "trace-error",
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
        jb_task_end(t);
        return;
    }
    jb_rec_from_tracer(t->record, JB_ST_EXPORT, export);
    store_modules(t);
    if (strcmp(jb_rec_status(t->record, JB_ST_EXPORT), "ok") != 0) {
        jb_rec_skip_after(t->record, JB_ST_EXPORT, "the export stage did not succeed");
        jb_task_end(t);
        return;
    }
    cJSON_ArrayForEach(shape, jb_json_obj(t->spec, "check_shapes"))
        if (jb_task_module(t, shape->valuestring, "cpu") == NULL || jb_task_module(t, shape->valuestring, "tpu") == NULL) t->specialised = 1;
    if (jb_task_module(t, jb_task_timed_shape(t), "tpu") == NULL)
        jb_task_stop(t, JB_ST_EXPORT, "fail", "trace-error", "the tracer ended well and sent no module for the timed shape", NULL);
    else
        t->step = S_INSPECT;
}

void jb_task_end_trace(jb_task *t, const jb_child *c)
{
    int clean = c->result != NULL && !c->broken && !c->timed_out && c->have_wait && WIFEXITED(c->wait_status) && WEXITSTATUS(c->wait_status) == 0;
    t->step = S_END;
    if (jb_task_is_infra(c))
        jb_task_read_infra(t, JB_ST_TRACE, c);
    else if (!clean && jb_task_failure(c) == NULL)
        tracer_died(t, c);
    else if (jb_task_failure(c) != NULL)
        jb_task_stop(t, JB_ST_TRACE, "fail", "trace-error", jb_json_str(jb_task_failure(c), "reason", "the tracer raised an exception"),
             jb_json_str(jb_task_failure(c), "error", NULL));
    else
        tracer_answered(t, c);
    jb_task_note_tracer(t, c);
    jb_free(t->source); /* judged from here on is what came out */
    t->source = NULL;
}

/* ---- INSPECT ----------------------------------------------------------- */

int jb_task_start_inspect(jb_worker *w, jb_task *t)
{
    if (jb_task_beyond(t, JB_ST_INSPECT)) return 1;
    if (jb_task_skipped(t, JB_ST_INSPECT)) {
        jb_rec_set(t->record, JB_ST_INSPECT, "skipped", NULL, "skipped on request", NULL);
        t->step = S_COMPILE;
        return 1;
    }
    const char *missing = jb_worker_module_missing(w, "inspector");
    if (missing != NULL) {
        jb_task_infra(t, JB_ST_INSPECT, missing, NULL);
        return 1;
    }
    jb_blob *blobs = jb_alloc_array(t->module_count + 1, sizeof *blobs);
    if (blobs == NULL) {
        jb_task_infra(t, JB_ST_INSPECT, "out of memory", NULL);
        return 1;
    }
    size_t n = 0;
    for (size_t i = 0; i < t->module_count; i++)
        if (t->modules[i].bytes != NULL) blobs[n++] = jb_task_blob(&t->modules[i]);
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", jb_task_judge_job(t));
    int rc = jb_task_ask(w, t, JB_ST_INSPECT, JB_KID_INSPECTOR, jb_task_limit_s(t, "inspect_s", 60), JB_GIB, meta, blobs, n);
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

void jb_task_end_inspect(jb_task *t, const jb_child *c)
{
    char end[300], reason[600];
    const cJSON *said = jb_json_obj(c->result, "inspect");
    char *words = jb_task_last_words(c);
    jb_child_end(c, end, sizeof end);
    t->step = S_END;
    if (jb_task_is_infra(c))
        jb_task_read_infra(t, JB_ST_INSPECT, c);
    else if (c->timed_out)
        jb_task_stop(t, JB_ST_INSPECT, "timeout", "suspicious", (snprintf(reason, sizeof reason, "a module kept the inspector busy: it %s", end), reason), words);
    else if (jb_child_crashed(c) || c->broken || (said == NULL && jb_task_failure(c) == NULL))
        jb_task_stop(t, JB_ST_INSPECT, "crash", "suspicious", (snprintf(reason, sizeof reason, "a module crashed the inspector: it %s", c->broken ? c->err.message : end), reason), words);
    else if (jb_task_failure(c) != NULL)
        jb_task_stop(t, JB_ST_INSPECT, "crash", "suspicious", (snprintf(reason, sizeof reason, "the inspector could not read a module: %s", jb_json_str(jb_task_failure(c), "reason", "")), reason),
             jb_json_str(jb_task_failure(c), "error", NULL));
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

/* Plain jnp is `not-pallas` whatever the compiler says, which it would take a minute
 * to say: at full shapes XLA compiles plain code far longer than a kernel. */
static int is_not_pallas(const jb_task *t)
{
    const cJSON *f;
    cJSON_ArrayForEach(f, jb_json_path(t->record, "stages.inspect.findings"))
    {
        if (strcmp(jb_json_str(f, "outcome", ""), "not-pallas") == 0) return 1;
    }
    return 0;
}

int jb_task_start_compile(jb_worker *w, jb_task *t)
{
    const jb_module *m = jb_task_module(t, jb_task_timed_shape(t), "tpu");
    const char *missing = jb_worker_module_missing(w, "compiler");
    if (jb_task_beyond(t, JB_ST_COMPILE)) return 1;
    const char *why = jb_task_skipped(t, JB_ST_COMPILE) ? "skipped on request" : m == NULL ? "no TPU module at the timed shape"
                      : is_not_pallas(t) ? "the candidate is not-pallas: no kernel is left to compile" : missing;
    if (why != NULL) {
        jb_rec_set(t->record, JB_ST_COMPILE, "skipped", NULL, why, NULL);
        t->step = S_PLAN;
        return 1;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", jb_task_judge_job(t));
    jb_blob blob = jb_task_blob(m);
    int rc = jb_task_ask(w, t, JB_ST_COMPILE, JB_KID_COMPILER, jb_task_limit_s(t, "compile_s", 300), 2 * JB_GIB, meta, &blob, 1);
    cJSON_Delete(meta);
    return rc != 0;
}

void jb_task_end_compile(jb_task *t, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "compile");
    t->step = S_END;
    if (jb_task_is_infra(c)) {
        jb_task_read_infra(t, JB_ST_COMPILE, c);
    } else if (c->timed_out) {
        char end[300], reason[400];
        snprintf(reason, sizeof reason, "the TPU compiler %s", jb_child_end(c, end, sizeof end));
        jb_task_stop(t, JB_ST_COMPILE, "timeout", "compile-timeout", reason, NULL);
    } else if (said == NULL && jb_task_failure(c) == NULL) {
        jb_task_verify_later(t, c, S_VERIFY_COMPILE, "the TPU compiler");
    } else if (jb_task_failure(c) != NULL) {
        snprintf(t->crash_reason, sizeof t->crash_reason, "the TPU compiler raised: %s", jb_json_str(jb_task_failure(c), "reason", ""));
        t->crash_error = jb_strdup(jb_json_str(jb_task_failure(c), "error", ""));
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

int jb_task_start_verify_compile(jb_worker *w, jb_task *t)
{
    jb_error err = JB_ERROR_INIT;
    char name[96];
    jb_blob blob;
    jb_buf bytes = JB_BUF_INIT(JB_CHILD_MODULE_MAX);
    int rc = jb_task_want_base(w, t, jb_task_timed_shape(t), "tpu", &err);
    if (rc == 1) return 0;
    if (rc < 0 || jb_task_load_base(t, jb_task_timed_shape(t), "tpu", &bytes, &blob, name) != 0) {
        jb_task_crash_stands(t, JB_ST_COMPILE, "compile-error", " (the reference's own module could not be made to compare)");
        jb_buf_free(&bytes);
        return 1;
    }
    cJSON *meta = cJSON_CreateObject();
    cJSON_AddItemToObject(meta, "job", jb_task_judge_job(t));
    rc = jb_task_ask(w, t, JB_ST_COMPILE, JB_KID_COMPILER, jb_task_limit_s(t, "compile_s", 300), 2 * JB_GIB, meta, &blob, 1);
    cJSON_Delete(meta);
    jb_buf_free(&bytes);
    return rc != 0;
}

void jb_task_end_verify_compile(jb_task *t, const jb_child *c)
{
    /* A verdict on the reference's module, even a refusal, is a working compiler. */
    if (jb_json_obj(c->result, "compile") != NULL && !c->broken)
        jb_task_crash_stands(t, JB_ST_COMPILE, "compile-error", "; it compiles the reference's own module");
    else
        jb_task_infra(t, JB_ST_COMPILE, "the TPU compiler fails on the reference's own module too", t->crash_error);
}
