/* SPDX-License-Identifier: Apache-2.0 */
/* harness/worker.c - the poll loop, admission, references; see worker.h. */
#include "harness/worker.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "harness/refs.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_CHILDREN (sizeof((jb_worker *)0)->child / sizeof((jb_worker *)0)->child[0])
#define OUT_MAX ((size_t)512 << 20)

/* ---- what the machine has ---------------------------------------------- */

static int count_cpus(void)
{
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int64_t available_memory(void)
{
    char line[128];
    long long kib = 0;
    FILE *f = fopen("/proc/meminfo", "re");
    if (f == NULL) return 4 * JB_GIB;
    while (fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "MemAvailable:", 13) == 0) kib = strtoll(line + 13, NULL, 10);
    fclose(f);
    return kib > 0 ? (int64_t)kib * 1024 : 4 * JB_GIB;
}

const char *jb_worker_module_missing(const jb_worker *w, const char *name)
{
    const char *state = jb_json_str(jb_json_obj(w->versions, "modules"), name, "ok");
    return strcmp(state, "ok") == 0 ? NULL : state;
}

/* ---- frames to the executor -------------------------------------------- */

static void send_json(jb_worker *w, uint32_t type, const uint64_t *job, const cJSON *o)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    uint8_t id[8];
    if (jb_json_print(o, &text) == 0) {
        jb_view parts[2] = { { (const char *)id, 8 }, jb_buf_view(&text) };
        if (job != NULL) jb_put_le64(id, *job);
        if (jb_frame_queue(&w->out, type, job != NULL ? parts : parts + 1, job != NULL ? 2 : 1) != 0) w->quit = 1;
    }
    jb_buf_free(&text);
}

void jb_worker_progress(jb_worker *w, uint64_t job, const char *stage, const char *status)
{
    cJSON *o = cJSON_CreateObject();
    jb_json_set_str(o, "stage", stage);
    jb_json_set_str(o, "status", status);
    send_json(w, JB_FRAME_PROGRESS, &job, o);
    cJSON_Delete(o);
}

void jb_worker_done(jb_worker *w, uint64_t job, const cJSON *record) { send_json(w, JB_FRAME_DONE, &job, record); }

static void announce(jb_worker *w)
{
    cJSON *o = cJSON_Duplicate(w->versions, 1);
    if (o == NULL) return;
    cJSON_AddItemToObject(o, "isolation", jb_isolation_json(&w->walls));
    jb_json_set_i64(o, "slots", w->o.slots);
    jb_json_set_i64(o, "memory_bytes", w->o.memory_bytes);
    send_json(w, JB_FRAME_READY, NULL, o);
    cJSON_Delete(o);
    w->ready = 1;
}

/* ---- children ---------------------------------------------------------- */

/* A child may start when its estimate fits, or when nothing else runs: an
 * estimate that fits nowhere must not wait for ever. */
static int admitted(const jb_worker *w, int64_t memory)
{
    return w->child_count < MAX_CHILDREN && (w->child_count == 0 || w->reserved + memory <= w->o.memory_bytes);
}

jb_child *jb_worker_spawn(jb_worker *w, void *owner, uint32_t kind, const jb_limits *limits, int required, double limit_s,
                          int64_t memory, const cJSON *meta, const jb_blob *blobs, size_t blob_count, jb_error *err)
{
    if (w->held || !admitted(w, memory)) {
        w->held = 1;
        return NULL;
    }
    int request = jb_kid_pack(meta, blobs, blob_count, err);
    if (request < 0) return NULL;
    jb_child *c = jb_child_spawn(w->o.zygote, ++w->next_child, kind, limits, required, (int64_t)(limit_s * 1e9), request, err);
    if (c == NULL) return NULL;
    c->owner = owner;
    c->reserved_bytes = memory;
    w->reserved += memory;
    w->child[w->child_count++] = c;
    return c;
}

static void send_kill(jb_worker *w, const jb_child *c)
{
    jb_zmsg m = { .op = JB_ZOP_KILL, .id = c->id };
    if (jb_zygote_send(w->o.zygote, &m, NULL, 0) != 0) w->quit = 1;
}

void jb_worker_kill(jb_worker *w, jb_child *c)
{
    c->cancelled = 1;
    send_kill(w, c);
}

/* ---- references -------------------------------------------------------- */

static void ref_job_free(jb_ref_job *r)
{
    jb_free(r->path);
    jb_free(r->temp);
    cJSON_Delete(r->request);
    jb_free(r);
}

int jb_worker_reference(jb_worker *w, const cJSON *request, uint32_t groups, double limit_s, int64_t memory, char **path_out,
                        jb_ref_job **wait_out, jb_error *err)
{
    char key[65];
    int base = strcmp(jb_json_str(request, "kind", ""), "base") == 0;
    const char *missing = jb_worker_module_missing(w, "reference");
    if (jb_ref_key(request, w->harness, w->jax, key) != 0) return jb_err(err, JB_ENOMEM, "out of memory");
    char *path = jb_asprintf("%s/refs/%s.%s", w->o.cache, key, base ? "base" : "ref");
    if (path == NULL) return jb_err(err, JB_ENOMEM, "out of memory");
    uint32_t have = base ? (uint32_t)jb_ref_is_file(path) : jb_ref_groups(path);
    if (base ? have != 0 : (have & groups) == groups) {
        jb_ref_touch(path);
        *path_out = path;
        return 0;
    }
    for (jb_ref_job *r = w->refs; r != NULL; r = r->next)
        if (strcmp(r->key, key) == 0) { /* being made already; if it lacks a group, the asker asks again */
            jb_free(path);
            r->waiting++;
            *wait_out = r;
            return 1;
        }
    for (const jb_ref_failure *f = w->failures; f != NULL; f = f->next)
        if (strcmp(f->key, key) == 0) {
            jb_free(path);
            return jb_err(err, JB_EIO, "%s", f->reason);
        }
    jb_ref_job *r = missing == NULL ? jb_alloc(sizeof *r) : NULL;
    if (r == NULL) {
        jb_free(path);
        return missing != NULL ? jb_err(err, JB_EUNSUPPORTED, "%s", missing) : jb_err(err, JB_ENOMEM, "out of memory");
    }
    snprintf(r->key, sizeof r->key, "%s", key);
    r->path = path;
    r->temp = jb_asprintf("%s/refs/.%s.%ld.tmp", w->o.cache, key, (long)getpid());
    r->request = cJSON_Duplicate(request, 1);
    r->limit_ns = (int64_t)(limit_s * 1e9);
    r->memory = memory;
    r->base = base;
    r->waiting = 1;
    if (r->temp == NULL || r->request == NULL) {
        ref_job_free(r);
        return jb_err(err, JB_ENOMEM, "out of memory");
    }
    /* What the file had stays in it: two gate sets may ask for different groups. */
    for (uint32_t g = 0; !base && g < JB_REF_GROUPS; g++) {
        if (g == 0) jb_json_add_arr(r->request, "groups");
        else if ((have | groups) & 1u << g)
            cJSON_AddItemToArray(cJSON_GetObjectItemCaseSensitive(r->request, "groups"), cJSON_CreateString(jb_ref_group_names[g]));
    }
    jb_ref_job **tail = &w->refs;
    while (*tail != NULL) tail = &(*tail)->next;
    *tail = r;
    *wait_out = r;
    return 1;
}

/* Start what waits; failing to start is the waiters' news as any failure is. */
static void start_refs(jb_worker *w);

static void ref_done(jb_worker *w, jb_ref_job *r, const char *reason, double seconds)
{
    for (jb_ref_job **p = &w->refs; *p != NULL; p = &(*p)->next)
        if (*p == r) {
            *p = r->next;
            break;
        }
    for (jb_task *t = w->tasks; t != NULL; t = t->next)
        if (t->waits_for == r) jb_task_on_reference(w, t, reason, seconds);
    ref_job_free(r);
}

static void start_refs(jb_worker *w)
{
    for (jb_ref_job *r = w->refs, *next; r != NULL; r = next) {
        jb_error err = JB_ERROR_INIT;
        jb_limits l = { .profile = JB_PROFILE_TRUSTED };
        next = r->next;
        if (r->child != NULL) continue;
        if (r->waiting <= 0) { /* all its askers were cancelled */
            ref_done(w, r, NULL, 0);
            continue;
        }
        cJSON *meta = cJSON_CreateObject();
        cJSON_AddItemToObject(meta, "request", cJSON_Duplicate(r->request, 1));
        jb_json_set_str(meta, "out", r->temp);
        r->child = jb_worker_spawn(w, r, JB_KID_REFERENCE, &l, 0, (double)r->limit_ns / 1e9, r->memory, meta, NULL, 0, &err);
        cJSON_Delete(meta);
        if (r->child == NULL && err.code == 0) return; /* no memory now: keep the order */
        if (r->child == NULL) ref_done(w, r, err.message, 0);
    }
}

/* So that the next candidate of the workload does not pay for it again.  Without
 * memory for it, it does. */
static void remember_failure(jb_worker *w, const jb_ref_job *r, const char *reason)
{
    jb_ref_failure *f = jb_alloc(sizeof *f);
    if (f == NULL) return;
    snprintf(f->key, sizeof f->key, "%s", r->key);
    f->reason = jb_strdup(reason);
    if (f->reason == NULL) {
        jb_free(f);
        return;
    }
    f->next = w->failures;
    w->failures = f;
}

/* errno of a Python OSError in `text` that is the disk's, or 0. */
static int disk_errno(const char *text)
{
    static const int disk[] = { ENOSPC, EDQUOT, EROFS, EIO, EFBIG };
    const char *at = strstr(text, "[Errno ");
    long n = at != NULL ? strtol(at + 7, NULL, 10) : 0;
    for (size_t i = 0; i < sizeof disk / sizeof disk[0]; i++)
        if (n == disk[i]) return disk[i];
    return 0;
}

/* Why a reference child left no file, on one line. */
static void read_failure(const jb_worker *w, const jb_ref_job *r, const jb_child *c, char *reason, size_t n)
{
    const cJSON *said = jb_json_obj(c->result, "reference"), *failed = jb_json_obj(c->result, "child");
    const char *shape = jb_json_str(r->request, "shape", "?"), *draw = r->base ? "base" : jb_json_str(r->request, "distribution", "?");
    const char *own = jb_json_str(said, "reason", jb_json_str(failed, "reason", NULL));
    const char *detail = jb_json_str(said, "error", jb_json_str(failed, "error", ""));
    char end[300];
    if (own != NULL && disk_errno(own) != 0) {
        snprintf(reason, n, "the reference of %s/%s can't be written to the cache %s/refs: %s", shape, draw, w->o.cache, strerror(disk_errno(own)));
        return;
    }
    /* The exception's own line, which a long reason may not have held. */
    size_t len = strlen(detail);
    while (len > 0 && detail[len - 1] == '\n') len--;
    const char *last = detail + len;
    while (last > detail && last[-1] != '\n') last--;
    int more = len > 0 && (own == NULL || strstr(last, own) == NULL);
    snprintf(reason, n, "the reference of %s/%s failed: %s%s%.*s", shape, draw, own != NULL ? own : jb_child_end(c, end, sizeof end), more ? ": " : "",
             more ? (int)(detail + len - last) : 0, last);
}

static void on_ref_child(jb_worker *w, jb_ref_job *r, jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "reference");
    double seconds = (double)(jb_clock_ns() - c->started_ns) / 1e9;
    char reason[480];
    jb_buf words = JB_BUF_INIT(2048);
    reason[0] = '\0';
    r->child = NULL;
    if (strcmp(jb_json_str(said, "status", ""), "ok") == 0 && !c->broken) {
        if (!r->base && jb_ref_groups(r->temp) == 0)
            snprintf(reason, sizeof reason, "the reference child wrote a damaged file");
        else if (rename(r->temp, r->path) != 0)
            snprintf(reason, sizeof reason, "the reference file %s could not be put in place: %s", r->path, strerror(errno));
    } else if (!r->struck && said == NULL && jb_child_struck(c)) {
        r->struck = 1; /* by the memory killer, most likely: once more */
        fprintf(stderr, "jaxbench-worker: a reference child was struck down from outside; it is tried once more\n");
        (void)unlink(r->temp);
        return;
    } else {
        read_failure(w, r, c, reason, sizeof reason);
    }
    if (reason[0] != '\0') {
        (void)unlink(r->temp);
        jb_capture_tail(&c->log_text, 2000, &words);
        fprintf(stderr, "jaxbench-worker: %s\n%s\n", reason, words.ptr != NULL ? words.ptr : "");
        jb_buf_free(&words);
        remember_failure(w, r, reason);
    } else {
        char *dir = jb_asprintf("%s/refs", w->o.cache);
        if (dir != NULL) jb_ref_evict(dir, w->o.cache_bytes);
        jb_free(dir);
    }
    ref_done(w, r, reason[0] != '\0' ? reason : NULL, seconds);
}

/* ---- the self-test and the probe --------------------------------------- */

static char PROBE_OWNER, SELFTEST_OWNER; /* addresses that mark a child's owner */

static char *selftest_path(const jb_worker *w)
{
    char sum[65], text[160];
    snprintf(text, sizeof text, "%s %s", w->harness, w->jax);
    if (jb_hash_bytes(text, strlen(text), sum) != 0) return NULL;
    sum[16] = '\0';
    return jb_asprintf("%s/selftest-%s.json", w->o.cache, sum);
}

static void start_probe(jb_worker *w)
{
    jb_error err = JB_ERROR_INIT;
    jb_limits l = { .profile = JB_PROFILE_TRACER, .uid = 200000000u, .as_bytes = 8 * JB_GIB, .cpu_s = 60, .processes = 256, .files = 256, .file_bytes = 1 << 20 };
    cJSON *meta = cJSON_CreateObject();
    if (jb_worker_spawn(w, &PROBE_OWNER, JB_KID_PROBE, &l, 0, 60, 0, meta, NULL, 0, &err) == NULL) {
        fprintf(stderr, "jaxbench-worker: the isolation layers could not be probed: %s\n", err.message);
        announce(w);
    }
    cJSON_Delete(meta);
}

static void start_selftest(jb_worker *w)
{
    jb_error err = JB_ERROR_INIT;
    char *path = selftest_path(w);
    cJSON *known = path != NULL ? jb_json_read_file(path, 65536, NULL) : NULL;
    const char *state = jb_json_str(known, "interpret", "");
    w->selftest = strcmp(state, "ok") == 0 ? 1 : strcmp(state, "defect") == 0 ? -1 : 0;
    cJSON_Delete(known);
    jb_free(path);
    if (w->selftest != 0) return;
    jb_limits l = { .profile = JB_PROFILE_JUDGE, .uid = 200000000u, .files = 512, .tmp_bytes = JB_GIB };
    cJSON *meta = cJSON_CreateObject();
    if (jb_worker_spawn(w, &SELFTEST_OWNER, JB_KID_SELFTEST, &l, 0, 120, 0, meta, NULL, 0, &err) == NULL) w->selftest = 1;
    cJSON_Delete(meta);
}

static void on_selftest(jb_worker *w, const jb_child *c)
{
    const cJSON *said = jb_json_obj(c->result, "selftest");
    const char *state = jb_json_str(said, "interpret", "");
    w->selftest = strcmp(state, "defect") == 0 ? -1 : 1;
    if (said == NULL || strcmp(state, "unknown") == 0) return; /* not known: nothing to keep */
    char *path = selftest_path(w);
    jb_buf text = JB_BUF_INIT(65536);
    if (path != NULL && jb_json_print(said, &text) == 0) (void)jb_fs_write_atomic(path, text.ptr, text.len, NULL);
    jb_buf_free(&text);
    jb_free(path);
}

/* ---- events ------------------------------------------------------------ */

static void on_child_end(jb_worker *w, uint64_t id)
{
    for (size_t i = 0; i < w->child_count; i++) {
        jb_child *c = w->child[i];
        if (c->id != id) continue;
        w->child[i] = w->child[--w->child_count];
        w->reserved -= c->reserved_bytes;
        jb_child_finish(c);
        if (c->owner == &PROBE_OWNER) {
            w->walls = c->walls;
            announce(w);
        } else if (c->owner == &SELFTEST_OWNER) {
            on_selftest(w, c);
        } else if (c->kind == JB_KID_REFERENCE) {
            on_ref_child(w, c->owner, c);
        } else {
            jb_task_on_child(w, c->owner, c);
        }
        jb_child_free(c);
        return;
    }
}

static void on_zygote(jb_worker *w)
{
    static char text[JB_ZYGOTE_TEXT];
    for (;;) {
        jb_zmsg m;
        int rc = jb_zygote_recv(w->o.zygote, &m, text, sizeof text);
        if (rc == 0) return;
        if (rc < 0) {
            fprintf(stderr, "jaxbench-worker: the zygote is gone\n");
            w->quit = 2;
            return;
        }
        if (m.op == JB_ZOP_ENDED) on_child_end(w, m.id);
        if (m.op != JB_ZOP_READY) continue;
        cJSON_Delete(w->versions);
        w->versions = jb_json_parse(text, strlen(text), NULL);
        if (w->versions == NULL) w->versions = cJSON_CreateObject();
        snprintf(w->harness, sizeof w->harness, "%s", jb_json_str(w->versions, "harness", ""));
        snprintf(w->jax, sizeof w->jax, "%s", jb_json_str(w->versions, "jax", ""));
        start_probe(w);
        start_selftest(w);
    }
}

static void on_job(jb_worker *w, const jb_frame *f)
{
    uint64_t job;
    jb_view spec, body;
    if (jb_frame_job(f, &job, &spec, &body) != 0) {
        fprintf(stderr, "jaxbench-worker: a malformed JOB frame\n");
        w->quit = 1;
        return;
    }
    jb_task *t = jb_task_new(w, job, spec, body), **tail = &w->tasks;
    if (t == NULL) {
        w->quit = 1;
        return;
    }
    while (*tail != NULL) tail = &(*tail)->next;
    *tail = t;
}

static void on_frame(jb_worker *w, const jb_frame *f)
{
    switch (f->type) {
    case JB_FRAME_JOB: on_job(w, f); break;
    case JB_FRAME_QUIT: w->quit = 3; break;
    case JB_FRAME_CANCEL:
        if (f->len != 8) break;
        for (jb_task *t = w->tasks; t != NULL; t = t->next)
            if (t->job == jb_le64(f->body)) jb_task_cancel(w, t);
        break;
    default:
        fprintf(stderr, "jaxbench-worker: a frame of type %u, which an executor does not send\n", f->type);
        w->quit = 1;
    }
}

static void on_executor(jb_worker *w)
{
    for (int i = 0; i < 64 && !w->quit; i++) {
        jb_frame f;
        jb_error err = JB_ERROR_INIT;
        int rc = jb_frame_read(&w->reader, w->o.fd, &f, &err);
        if (rc == JB_FRAME_AGAIN) return;
        if (rc == JB_FRAME_EOF) w->quit = 3;
        if (rc < 0) {
            fprintf(stderr, "jaxbench-worker: %s\n", err.message);
            w->quit = 1;
        }
        if (rc != JB_FRAME_GOT) return;
        on_frame(w, &f);
        jb_frame_free(&f);
    }
}

static void on_deadlines(jb_worker *w)
{
    int64_t now = jb_clock_ns();
    for (size_t i = 0; i < w->child_count; i++) {
        jb_child *c = w->child[i];
        if (c->timed_out || c->cancelled || now < jb_child_due_ns(c)) continue;
        c->timed_out = 1;
        send_kill(w, c);
    }
}

/* Give every task its turn, the oldest first, as long as slots last; drop the
 * finished ones.  A task that waits for memory holds back younger ones' starts,
 * or a small one could starve a big one for ever. */
static void advance(jb_worker *w)
{
    if (!w->ready) return;
    int busy = 0;
    w->held = 0;
    for (jb_task **p = &w->tasks; *p != NULL;) {
        jb_task *t = *p;
        if (busy < w->o.slots || t->cancelled) jb_task_advance(w, t);
        if (t->done) {
            *p = t->next;
            jb_task_free(t);
            continue;
        }
        busy++;
        p = &t->next;
    }
    start_refs(w);
}

/* ---- the loop ---------------------------------------------------------- */

static int timeout_ms(const jb_worker *w)
{
    int64_t now = jb_clock_ns(), next = INT64_MAX;
    for (size_t i = 0; i < w->child_count; i++)
        if (!w->child[i]->timed_out && !w->child[i]->cancelled && jb_child_due_ns(w->child[i]) < next) next = jb_child_due_ns(w->child[i]);
    if (next == INT64_MAX) return -1;
    int64_t ms = (next - now) / 1000000 + 1;
    return ms < 0 ? 0 : ms > 3600000 ? 3600000 : (int)ms;
}

/* One round: wait for anything, take it in, let tasks go on. */
static int turn(jb_worker *w)
{
    static struct pollfd p[2 + 3 * MAX_CHILDREN];
    nfds_t n = 0;
    p[n++] = (struct pollfd){ .fd = w->o.fd, .events = (short)(POLLIN | (w->out.len > 0 ? POLLOUT : 0)) };
    p[n++] = (struct pollfd){ .fd = w->o.zygote, .events = POLLIN };
    for (size_t i = 0; i < w->child_count; i++) { /* a negative fd is ignored by poll */
        p[n++] = (struct pollfd){ .fd = w->child[i]->ctl, .events = POLLIN };
        p[n++] = (struct pollfd){ .fd = w->child[i]->log, .events = POLLIN };
        p[n++] = (struct pollfd){ .fd = w->child[i]->status, .events = POLLIN };
    }
    size_t children = w->child_count;
    if (poll(p, n, timeout_ms(w)) < 0) return errno == EINTR ? 0 : JB_EIO;
    for (size_t i = 0; i < children; i++)
        if (p[2 + 3 * i].revents || p[3 + 3 * i].revents || p[4 + 3 * i].revents) jb_child_pump(w->child[i]);
    if (p[1].revents) on_zygote(w);
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR)) on_executor(w);
    on_deadlines(w);
    advance(w);
    if (w->out.len > 0 && jb_frame_flush(&w->out, w->o.fd) != 0) w->quit = 3;
    return 0;
}

static int set_up(jb_worker *w, const jb_worker_options *o)
{
    jb_error err = JB_ERROR_INIT;
    w->o = *o;
    w->cpus = count_cpus();
    if (w->o.slots <= 0) w->o.slots = w->cpus;
    if (w->o.memory_bytes <= 0) w->o.memory_bytes = available_memory() / 100 * 85;
    if (w->o.cache_bytes <= 0) w->o.cache_bytes = 20 * JB_GIB;
    w->out = (jb_buf)JB_BUF_INIT(OUT_MAX);
    jb_frame_reader_init(&w->reader, JB_FRAME_MAX);
    (void)fcntl(o->fd, F_SETFL, fcntl(o->fd, F_GETFL) | O_NONBLOCK);
    (void)fcntl(o->fd, F_SETFD, FD_CLOEXEC);
    signal(SIGPIPE, SIG_IGN);
    char *refs = jb_asprintf("%s/refs", o->cache);
    int rc = refs == NULL ? JB_ENOMEM : jb_fs_mkdirs(refs, &err);
    jb_free(refs);
    if (rc != 0) fprintf(stderr, "jaxbench-worker: the cache folder %s can't be made: %s\n", o->cache, err.message);
    return rc;
}

int jb_worker_run(const jb_worker_options *o)
{
    jb_worker *w = jb_alloc(sizeof *w);
    if (w == NULL || set_up(w, o) != 0) {
        jb_free(w);
        close(o->zygote); /* as below: else the caller would wait for the zygote, and our peer for us */
        return 1;
    }
    while (!w->quit && turn(w) == 0) {
    }
    int code = w->quit == 3 ? 0 : 1;
    (void)jb_frame_flush(&w->out, w->o.fd);
    /* Closing the zygote's socket ends it, and it kills and reaps what is left. */
    close(w->o.zygote);
    for (size_t i = 0; i < w->child_count; i++) {
        if (w->child[i]->kind == JB_KID_REFERENCE) (void)unlink(((jb_ref_job *)w->child[i]->owner)->temp);
        jb_child_free(w->child[i]);
    }
    while (w->refs != NULL) {
        jb_ref_job *next = w->refs->next;
        ref_job_free(w->refs);
        w->refs = next;
    }
    while (w->failures != NULL) {
        jb_ref_failure *next = w->failures->next;
        jb_free(w->failures->reason);
        jb_free(w->failures);
        w->failures = next;
    }
    while (w->tasks != NULL) {
        jb_task *next = w->tasks->next;
        jb_task_free(w->tasks);
        w->tasks = next;
    }
    for (size_t i = 0; i < sizeof w->plans / sizeof w->plans[0]; i++) cJSON_Delete(w->plans[i].groups);
    jb_frame_reader_free(&w->reader);
    jb_buf_free(&w->out);
    cJSON_Delete(w->versions);
    jb_free(w);
    return code;
}
