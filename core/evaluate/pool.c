/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/pool.c - see pool.h.  A job is one list node that moves
 * queue -> in the executor -> gone; `id` changes with every attempt, so that a
 * late event of a lost attempt can't be mistaken for the next one's. */
#include "core/evaluate/pool.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/options/options.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define OVERDUE_FACTOR 10 /* who keeps talking and never ends gets this many times its patience */

typedef struct job {
    struct job *next;
    uint64_t tag, id; /* id 0: queued */
    uint32_t attempts;
    int cancelled;
    int64_t patience_ns;           /* pool.h */
    int64_t began_ns, heard_ns;    /* of this attempt: submitted, last event */
    jb_buf spec;
    char *body;
    size_t body_len;
    jb_error lost; /* why the last attempt was lost */
} job;

struct jb_pool {
    const jb_executor_ops *ops;
    void *executor;
    jb_config *config;
    jb_pool_options o;
    jb_host host;
    jb_arena *arena;
    job *jobs; /* in order of submission */
    job **tail;
    size_t busy, queued;
    uint64_t next_id;
    int64_t opened_ns, ended_ns;   /* open; the last end of a job */
    int heard;                     /* the executor has said something */
};

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- services for the executor -------------------------------------------------- */

static void service_log(const jb_host *host, uint32_t level, jb_view text)
{
    const jb_pool *p = host->ctx;
    if (p->o.log) p->o.log(p->o.log_ctx, level, text);
}

static void *service_alloc(const jb_host *host, uint64_t bytes)
{
    const jb_pool *p = host->ctx;
    return jb_arena_alloc(p->arena, (size_t)bytes);
}

static const void *service(const jb_host *host, const char *id)
{
    static const jb_log_service log = { sizeof log, 0, service_log };
    static const jb_arena_service arena = { sizeof arena, 0, service_alloc };
    const jb_pool *p = host->ctx;
    if (strcmp(id, JB_SERVICE_PATHS) == 0) return &p->o.paths;
    if (strcmp(id, JB_SERVICE_LOG) == 0) return &log;
    if (strcmp(id, JB_SERVICE_ARENA) == 0) return &arena;
    return NULL;
}

/* ---- life ------------------------------------------------------------------------ */

int jb_pool_open(const jb_pool_options *o, jb_pool **out, jb_error *err)
{
    jb_pool *p = jb_alloc(sizeof *p);
    if (!p) return jb_err(err, JB_ENOMEM, "executor: out of memory");
    int rc = 0;
    p->o = *o;
    if (p->o.slots < 1) p->o.slots = 1;
    if (!(p->o.ready_s > 0)) p->o.ready_s = JB_POOL_READY_S;
    if (!(p->o.margin_s > 0)) p->o.margin_s = JB_POOL_MARGIN_S;
    p->opened_ns = now_ns();
    p->o.paths.struct_size = sizeof p->o.paths;
    p->tail = &p->jobs;
    p->ops = o->executor->ops;
    p->host = (jb_host){ sizeof p->host, JB_ABI_MAJOR, JB_ABI_MINOR, p, service };
    p->arena = jb_arena_new((size_t)256 << 20);
    if (!p->arena) { rc = jb_err(err, JB_ENOMEM, "executor: out of memory"); goto out; }
    rc = jb_config_new(o->executor, o->config, &p->config, err);
    if (rc != 0) { jb_err_context(err, "executor %s", o->executor->name); goto out; }
    rc = p->ops->open(&p->host, jb_config_data(p->config), &p->executor, err);
    if (rc != 0) jb_err_context(err, "executor %s", o->executor->name);
out:
    if (rc != 0) {
        p->executor = NULL;
        jb_pool_close(p);
        return rc;
    }
    *out = p;
    return 0;
}

static void job_free(job *j)
{
    jb_buf_free(&j->spec);
    jb_free(j->body);
    jb_free(j);
}

void jb_pool_close(jb_pool *p)
{
    if (!p) return;
    if (p->executor && p->ops->close) p->ops->close(p->executor);
    while (p->jobs) {
        job *j = p->jobs;
        p->jobs = j->next;
        job_free(j);
    }
    jb_config_free(p->config);
    jb_arena_free(p->arena);
    jb_free(p);
}

/* How long a job may say nothing new. */
static int64_t patience_of(const jb_pool *p, const cJSON *spec)
{
    const cJSON *limits = jb_json_obj(spec, "limits"), *i;
    double s = p->o.margin_s + jb_json_num(limits, "check_s", 0);
    cJSON_ArrayForEach(i, limits)
    {
        size_t n = strlen(i->string);
        if (cJSON_IsNumber(i) && i->valuedouble > 0 && n > 2 && strcmp(i->string + n - 2, "_s") == 0) s += i->valuedouble;
    }
    return s < 1e8 ? (int64_t)(s * 1e9) : (int64_t)1e17;
}

int jb_pool_submit(jb_pool *p, uint64_t tag, cJSON *spec, jb_view body, jb_error *err)
{
    job *j = jb_alloc(sizeof *j);
    int rc = 0;
    if (!j) { rc = JB_ENOMEM; goto out; }
    j->tag = tag;
    j->spec = (jb_buf)JB_BUF_INIT(JB_JSON_MAX_BYTES);
    j->body = jb_alloc((size_t)body.len + 1);
    j->patience_ns = patience_of(p, spec);
    rc = j->body ? jb_json_print(spec, &j->spec) : JB_ENOMEM;
    if (rc != 0) goto out;
    if (body.len) memcpy(j->body, body.ptr, (size_t)body.len);
    j->body_len = (size_t)body.len;
    *p->tail = j;
    p->tail = &j->next;
    p->queued++;
out:
    cJSON_Delete(spec);
    if (rc == 0) return 0;
    if (j) job_free(j);
    return jb_err(err, rc, "executor: a job does not fit into memory");
}

static void ask_to_cancel(jb_pool *p, const job *j)
{
    jb_error ignored = JB_ERROR_INIT; /* a refusal changes nothing */
    if (p->ops->cancel) p->ops->cancel(p->executor, j->id, &ignored);
}

void jb_pool_cancel(jb_pool *p, uint64_t tag)
{
    for (job *j = p->jobs; j; j = j->next) {
        if (j->tag != tag || j->cancelled) continue;
        j->cancelled = 1;
        if (j->id) ask_to_cancel(p, j);
        return;
    }
}

static void unlink_job(jb_pool *p, job *j)
{
    job **at = &p->jobs;
    while (*at != j) at = &(*at)->next;
    *at = j->next;
    if (!j->next) p->tail = at;
    if (j->id) p->busy--;
    else p->queued--;
}

int jb_pool_pump(jb_pool *p, jb_error *err)
{
    for (job *j = p->jobs; j && p->busy < (size_t)p->o.slots && p->queued; j = j->next) {
        if (j->id || j->cancelled) continue;
        uint64_t id = ++p->next_id;
        jb_arena_reset(p->arena);
        int rc = p->ops->submit(p->executor, id, jb_buf_view(&j->spec), (jb_view){ j->body, j->body_len }, err);
        if (rc != 0) return jb_err_context(err, "executor %s", p->o.executor->name), rc;
        j->id = id;
        j->attempts++;
        j->began_ns = j->heard_ns = now_ns();
        p->queued--;
        p->busy++;
    }
    return 0;
}

int jb_pool_fd(jb_pool *p) { return p->ops->event_fd(p->executor); }
size_t jb_pool_busy(const jb_pool *p) { return p->busy; }
size_t jb_pool_queued(const jb_pool *p) { return p->queued; }
int64_t jb_pool_slots(const jb_pool *p) { return p->o.slots; }

/* ---- events ------------------------------------------------------------------------ */

/* {"schema":1,"stages":{"trace":{"status":"infra","reason":...}}} */
static cJSON *infra_record(const char *reason)
{
    cJSON *r = cJSON_CreateObject(), *stages = r ? jb_json_add_obj(r, "stages") : NULL;
    cJSON *trace = stages ? jb_json_add_obj(stages, "trace") : NULL;
    if (!trace || jb_json_set_i64(r, "schema", 1) || jb_json_set_str(trace, "status", "infra") ||
        jb_json_set_str(trace, "reason", reason)) {
        cJSON_Delete(r);
        return NULL;
    }
    return r;
}

static int end_job(jb_pool *p, job *j, cJSON *record, jb_pool_event *out, jb_error *err)
{
    *out = (jb_pool_event){ JB_POOL_DONE, j->attempts, j->tag, record, j->cancelled };
    if (!out->record) out->record = infra_record(j->cancelled ? "cancelled" : j->lost.message);
    p->ended_ns = now_ns();
    unlink_job(p, j);
    job_free(j);
    return out->record ? 1 : jb_err(err, JB_ENOMEM, "executor: out of memory");
}

static job *job_by_id(jb_pool *p, uint64_t id)
{
    for (job *j = p->jobs; j; j = j->next)
        if (j->id && j->id == id) return j;
    return NULL;
}

/* A lost job goes back to the head of the queue, until its retries are spent. */
static int lost_job(jb_pool *p, job *j, const jb_error *why, jb_pool_event *out, jb_error *err)
{
    j->lost = *why;
    if (!j->lost.message[0]) snprintf(j->lost.message, sizeof j->lost.message, "the executor lost the job and gave no reason");
    if (j->cancelled || j->attempts > p->o.infra_retries) return end_job(p, j, NULL, out, err);
    j->id = 0;
    p->busy--;
    p->queued++;
    int rc = jb_pool_pump(p, err);
    return rc < 0 ? rc : 0;
}

/* One event of the executor: 1 when *out was filled, 0 when it was for nobody. */
static int take(jb_pool *p, const jb_job_event *e, jb_pool_event *out, jb_error *err)
{
    job *j = job_by_id(p, e->job);
    p->heard = 1;
    if (j) j->heard_ns = now_ns();
    if (e->kind != JB_EXECUTOR_READY && !j) return 0; /* late news of an earlier attempt */
    if (e->kind == JB_JOB_LOST) return lost_job(p, j, &e->error, out, err);
    jb_error bad = JB_ERROR_INIT;
    cJSON *record = jb_json_parse(e->record.ptr ? e->record.ptr : "", (size_t)e->record.len, &bad);
    switch (e->kind) {
    case JB_EXECUTOR_READY:
        *out = (jb_pool_event){ JB_POOL_READY, 0, 0, record, 0 };
        return 1;
    case JB_JOB_PROGRESS:
        *out = (jb_pool_event){ JB_POOL_PROGRESS, j->attempts, j->tag, record, 0 };
        return 1;
    case JB_JOB_DONE:
        if (j->cancelled) {
            cJSON_Delete(record);
            return end_job(p, j, NULL, out, err);
        }
        if (record) return end_job(p, j, record, out, err);
        jb_err_context(&bad, "the executor's record is no JSON");
        return lost_job(p, j, &bad, out, err);
    default:
        cJSON_Delete(record);
        return 0;
    }
}

static int64_t latest(int64_t a, int64_t b) { return a > b ? a : b; }

/* The executor has nothing to say: is it overdue?  As jb_pool_next. */
static int look_at_the_clock(jb_pool *p, jb_pool_event *out, jb_error *err)
{
    int64_t now = now_ns();
    const char *name = p->o.executor->name;
    int never_ready = !p->heard && (double)(now - p->opened_ns) > p->o.ready_s * 1e9;
    for (job *j = p->jobs; j; j = j->next) {
        if (!j->id) continue;
        if (never_ready) {
            snprintf(j->lost.message, sizeof j->lost.message,
                     "executor %s: it was not ready within %.6g s of its start and said nothing; `jaxbench doctor` shows what its worker lacks", name, p->o.ready_s);
            ask_to_cancel(p, j);
            return end_job(p, j, NULL, out, err);
        }
        int64_t quiet = now - latest(j->heard_ns, p->ended_ns), whole = now - latest(j->began_ns, p->ended_ns);
        if (quiet <= j->patience_ns && whole <= OVERDUE_FACTOR * j->patience_ns) continue;
        snprintf(j->lost.message, sizeof j->lost.message, "executor %s: no answer about the job %s %.6g s (the sum of its limits and a margin%s); it is given up", name,
                 quiet > j->patience_ns ? "and no news of it for" : "within", (double)(quiet > j->patience_ns ? j->patience_ns : OVERDUE_FACTOR * j->patience_ns) / 1e9,
                 quiet > j->patience_ns ? "" : ", ten times");
        ask_to_cancel(p, j);
        return end_job(p, j, NULL, out, err);
    }
    return 0;
}

int jb_pool_next(jb_pool *p, jb_pool_event *out, jb_error *err)
{
    for (job *j = p->jobs; j; j = j->next) /* cancelled before they began */
        if (j->cancelled && !j->id) return end_job(p, j, NULL, out, err);
    for (;;) {
        jb_job_event e = { .struct_size = sizeof e };
        jb_arena_reset(p->arena);
        int rc = p->ops->next(p->executor, &e, err);
        if (rc < 0) return jb_err_context(err, "executor %s", p->o.executor->name), rc;
        if (rc == 0) return look_at_the_clock(p, out, err);
        rc = take(p, &e, out, err);
        if (rc != 0) return rc;
    }
}
