/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/judge.c - see judge.h.  Candidates with one source and one workload
 * share a case; a case is known from the judgement's journal, or submitted once. */
#include "core/engine/judge.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/engine/journal.h"
#include "core/evaluate/job.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#define SOURCE_MAX ((size_t)16 << 20)
#define KEPT 0u    /* never reached check */
#define KNOWN 1u   /* judged in an earlier call */
#define MODULES 2u /* judged from its modules */
#define TRACED 3u  /* traced again */
#define HOWS 4u

/* One distinct (workload, source). */
typedef struct entry {
    char key[JB_HASH_HEX];
    uint32_t how;
    int ended;
    jb_judgement is;
} entry;

typedef struct member {
    const jb_rec_cell *cell;
    const jb_rec_candidate *candidate;
    size_t entry;
} member;

typedef struct judge {
    const jb_judge_options *o;
    jb_journal *journal;
    jb_pool *pool;
    char *store;
    struct { const jb_workload *workload; cJSON *job; } *jobs;
    size_t job_count;
    entry *entries;
    size_t entry_count;
    member *members;
    size_t member_count;
    char (*known)[JB_HASH_HEX]; /* keys that the journal holds, in its order */
    jb_judgement *known_as;
    size_t known_count, known_cap;
} judge;

/* ---- what is known already ----------------------------------------------------------- */

static int remember(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    judge *j = ctx;
    const char *key = jb_json_str(event, "key", "");
    (void)span;
    if (strcmp(jb_json_str(event, "kind", ""), "judged") != 0 || strlen(key) != JB_HASH_HEX - 1) return 0;
    if (j->known_count == j->known_cap) {
        size_t cap = j->known_cap ? 2 * j->known_cap : 256;
        void *keys = jb_realloc(j->known, cap * sizeof *j->known);
        if (keys) j->known = keys;
        void *as = keys ? jb_realloc(j->known_as, cap * sizeof *j->known_as) : NULL;
        if (!as) return jb_err(err, JB_ENOMEM, "judge: out of memory");
        j->known_as = as;
        j->known_cap = cap;
    }
    jb_judgement *is = &j->known_as[j->known_count];
    memcpy(j->known[j->known_count++], key, JB_HASH_HEX);
    memset(is, 0, sizeof *is);
    is->outcome = jb_outcome_from_name(jb_json_str(event, "outcome", ""));
    is->stage = jb_stage_from_name(jb_json_str(event, "stage", ""));
    snprintf(is->reason, sizeof is->reason, "%s", jb_json_str(event, "reason", ""));
    return 0;
}

/* The journal is named by what it judges with, so that one file never mixes two questions. */
static int open_journal(judge *j, jb_error *err)
{
    char hash[JB_HASH_HEX], *path = NULL, *dir = jb_fs_join(j->o->run_dir, "judgements");
    jb_hasher *h = jb_hasher_new();
    int rc = h && dir ? jb_fs_mkdirs(dir, err) : jb_err(err, JB_ENOMEM, "judge: out of memory");
    for (size_t i = 0; h && i < j->o->set_count; i++)
        jb_hasher_field(h, "gates", jb_gateset_hash(j->o->sets[i]), strlen(jb_gateset_hash(j->o->sets[i])));
    if (h) {
        jb_hasher_field(h, "headline", jb_gateset_name(j->o->headline), strlen(jb_gateset_name(j->o->headline)));
        jb_hasher_field(h, "variant", j->o->variant ? j->o->variant : "", j->o->variant ? strlen(j->o->variant) : 0);
        jb_hasher_field(h, "phase", j->o->phase, strlen(j->o->phase));
        jb_hasher_done(h, hash);
        path = dir ? jb_asprintf("%s/%.16s.jsonl", dir, hash) : NULL;
    }
    if (rc == 0 && !path) rc = jb_err(err, JB_ENOMEM, "judge: out of memory");
    if (rc == 0) rc = jb_journal_open(path, remember, j, NULL, &j->journal, err);
    jb_free(path);
    jb_free(dir);
    return rc;
}

/* ---- jobs ------------------------------------------------------------------------------- */

static const jb_workload *workload_of(const jb_study *s, const char *id)
{
    for (size_t i = 0; i < s->cell_count; i++)
        if (strcmp(jb_workload_id(s->cells[i].workload), id) == 0) return s->cells[i].workload;
    return NULL;
}

static const cJSON *job_of(judge *j, const jb_rec_cell *cell, jb_error *err)
{
    const jb_study *s = j->o->study;
    const jb_workload *w = workload_of(s, cell->workload);
    if (!w) {
        jb_err(err, JB_ESTATE, "judge: the run's study has no workload %s any more", cell->workload);
        return NULL;
    }
    for (size_t i = 0; i < j->job_count; i++)
        if (j->jobs[i].workload == w) return j->jobs[i].job;
    jb_job_settings settings = {
        .check_shape = s->check_shape, .timed_shape = s->timed_shape, .variant = j->o->variant, .last_stage = "check",
        .skip = (const char *const[]){ "compile" }, .skip_count = 1, .phase = j->o->phase, .limits = s->limits,
        .isolation = s->isolation, .store = j->store, .seed = s->seed,
    };
    cJSON *job = NULL;
    if (jb_job_build(w, j->o->sets, j->o->set_count, &settings, &job, err) != 0) return NULL;
    j->jobs[j->job_count].workload = w;
    j->jobs[j->job_count++].job = job;
    return job;
}

/* Is every shape that the job checks among the exported modules of a record, for the CPU? */
static int modules_cover(const cJSON *job, const cJSON *record)
{
    const cJSON *shape, *m;
    cJSON_ArrayForEach(shape, jb_json_obj(job, "check_shapes"))
    {
        int found = 0;
        cJSON_ArrayForEach(m, jb_json_path(record, "stages.export.modules"))
        {
            found |= cJSON_IsString(shape) && strcmp(jb_json_str(m, "shape", ""), shape->valuestring) == 0 &&
                     strcmp(jb_json_str(m, "platform", ""), "cpu") == 0;
        }
        if (!found) return 0;
    }
    return 1;
}

static char *candidate_file(const judge *j, const member *m, const char *name)
{
    return jb_asprintf("%s/cells/%s/%llu/%s", j->o->run_dir, m->cell->key, (unsigned long long)m->candidate->id, name);
}

/* The record that the run keeps of a candidate; NULL with an error. */
static cJSON *read_record(const judge *j, const member *m, jb_error *err)
{
    char *path = candidate_file(j, m, "result.json");
    cJSON *result = path ? jb_json_read_file(path, JB_JSON_MAX_BYTES, err) : NULL;
    cJSON *record = result ? cJSON_DetachItemFromObjectCaseSensitive(result, "record") : NULL;
    if (!path) jb_err(err, JB_ENOMEM, "judge: out of memory");
    else if (result && !record) jb_err(err, JB_EPARSE, "%s holds no record", path);
    if (!record && err && err->code) jb_err_hint(err, "jaxbench resume %s writes the archive of its candidates again", j->o->run_dir);
    cJSON_Delete(result);
    jb_free(path);
    return record;
}

static int submit(judge *j, const member *m, const cJSON *job, jb_error *err)
{
    entry *e = &j->entries[m->entry];
    int needs_source = 1;
    jb_buf source = JB_BUF_INIT(SOURCE_MAX);
    cJSON *record = read_record(j, m, err), *asked = NULL;
    int rc = record ? 0 : err && err->code ? err->code : JB_EPARSE;
    if (rc == 0) {
        asked = jb_job_final(job, modules_cover(job, record) ? record : NULL, &needs_source);
        if (!asked || jb_json_set_str(asked, "phase", j->o->phase) != 0) rc = jb_err(err, JB_ENOMEM, "judge: out of memory");
    }
    if (rc == 0 && needs_source) {
        char *path = candidate_file(j, m, "candidate.py");
        rc = path ? jb_fs_read(path, SOURCE_MAX, &source, err) : jb_err(err, JB_ENOMEM, "judge: out of memory");
        jb_free(path);
    }
    e->how = needs_source ? TRACED : MODULES;
    if (rc == 0) rc = jb_pool_submit(j->pool, m->entry, asked, jb_buf_view(&source), err);
    else cJSON_Delete(asked);
    cJSON_Delete(record);
    jb_buf_free(&source);
    return rc;
}

/* ---- candidates -------------------------------------------------------------------------- */

static int add_entry(judge *j, member *m, const char *key)
{
    for (size_t i = 0; i < j->entry_count; i++) {
        if (strcmp(j->entries[i].key, key) != 0) continue;
        m->entry = i;
        return 0;
    }
    entry *e = &j->entries[j->entry_count];
    *e = (entry){ .how = MODULES };
    memcpy(e->key, key, sizeof e->key);
    m->entry = j->entry_count++;
    for (size_t i = 0; i < j->known_count && !e->ended; i++) {
        if (strcmp(j->known[i], key) != 0) continue;
        e->how = KNOWN;
        e->ended = 1;
        e->is = j->known_as[i];
    }
    return 1;
}

/* What stopped before the gates keeps its outcome, whatever the gates are. */
static int reached_check(const jb_rec_candidate *k) { return k->stages[JB_STAGE_CHECK] == JB_REC_OK || k->stages[JB_STAGE_CHECK] == JB_REC_FAIL; }

static int gather(judge *j, jb_error *err)
{
    size_t all = 0;
    const jb_records *r = j->o->records;
    for (size_t c = 0; c < r->cell_count; c++) all += r->cells[c].candidate_count;
    if (all == 0) {
        jb_err(err, JB_ESTATE, "judge: %s holds no candidates", j->o->run_dir);
        jb_err_hint(err, "jaxbench resume %s goes on with the run", j->o->run_dir);
        return JB_ESTATE;
    }
    j->entries = jb_alloc_array(all, sizeof *j->entries);
    j->members = jb_alloc_array(all, sizeof *j->members);
    j->jobs = jb_alloc_array(r->cell_count ? r->cell_count : 1, sizeof *j->jobs);
    if (!j->entries || !j->members || !j->jobs) return jb_err(err, JB_ENOMEM, "judge: out of memory");
    int rc = 0;
    for (size_t c = 0; rc == 0 && c < r->cell_count; c++) {
        for (size_t i = 0; rc == 0 && i < r->cells[c].candidate_count; i++) {
            const jb_rec_candidate *k = &r->cells[c].candidates[i];
            char key[JB_HASH_HEX];
            if (!k->outcome) continue; /* not ended */
            member *m = &j->members[j->member_count];
            *m = (member){ &r->cells[c], k, SIZE_MAX };
            j->member_count++;
            if (!reached_check(k)) continue;
            const cJSON *job = job_of(j, m->cell, err);
            rc = !job ? (err && err->code ? err->code : JB_ENOMEM) : jb_job_key(job, k->source, key);
            if (rc != 0) break;
            if (add_entry(j, m, key) && !j->entries[m->entry].ended) rc = submit(j, m, job, err);
        }
    }
    return rc;
}

/* ---- the loop ------------------------------------------------------------------------------- */

static int finish(judge *j, size_t number, cJSON *record, jb_error *err)
{
    entry *e = &j->entries[number];
    cJSON *event = cJSON_CreateObject();
    jb_judge_record(record, jb_gateset_name(j->o->headline), JB_STAGE_CHECK, &e->is);
    e->ended = 1;
    int rc = event ? jb_json_set_str(event, "key", e->key) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(event, "outcome", jb_outcome_name(e->is.outcome));
    if (rc == 0) rc = jb_json_set_str(event, "stage", e->is.stage ? jb_stage_name(e->is.stage) : "");
    if (rc == 0) rc = jb_json_set_str(event, "reason", e->is.reason);
    if (rc == 0) rc = cJSON_AddItemToObject(event, "record", record) ? 0 : JB_ENOMEM;
    if (rc == 0) record = NULL;
    if (rc != 0) jb_err(err, rc, "judge: out of memory");
    /* What the infrastructure lost is asked again next time. */
    else if (e->is.outcome != JB_OUTCOME_INFRA) rc = jb_journal_append(j->journal, "judged", event, NULL, err);
    if (rc == 0) rc = jb_journal_sync(j->journal, err);
    for (size_t i = 0; rc == 0 && j->o->progress && i < j->member_count; i++) {
        const member *m = &j->members[i];
        if (m->entry == number)
            jb_progress_candidate(j->o->progress, m->cell->label, m->candidate->id, jb_outcome_name(e->is.outcome), e->is.reason, 0);
    }
    cJSON_Delete(record);
    cJSON_Delete(event);
    return rc;
}

static int drain(judge *j, jb_error *err)
{
    jb_pool_event event;
    int got;
    while ((got = jb_pool_next(j->pool, &event, err)) > 0) {
        if (event.kind != JB_POOL_DONE) continue;
        int rc = finish(j, (size_t)event.tag, event.record, err);
        if (rc != 0) return rc;
    }
    return got;
}

static int stopped(const judge *j) { return j->o->stop && *j->o->stop; }

static int loop(judge *j, jb_error *err)
{
    int rc = jb_pool_pump(j->pool, err);
    while (rc == 0 && !stopped(j) && jb_pool_busy(j->pool) + jb_pool_queued(j->pool) > 0) {
        struct pollfd fds[] = { { jb_pool_fd(j->pool), POLLIN, 0 }, { j->o->stop_fd, POLLIN, 0 } };
        if (poll(fds, 2, 1000) < 0 && errno != EINTR) return jb_err(err, JB_EIO, "poll: %s", strerror(errno));
        rc = drain(j, err);
        if (rc == 0) rc = jb_pool_pump(j->pool, err);
        if (j->o->progress) jb_progress_tick(j->o->progress, jb_pool_busy(j->pool), jb_pool_queued(j->pool));
    }
    return rc < 0 ? rc : 0;
}

/* ---- the result --------------------------------------------------------------------------------- */

/* What a member is now; 0 while it is not judged. */
static uint32_t outcome_now(const judge *j, const member *m)
{
    if (m->entry == SIZE_MAX) return m->candidate->outcome;
    return j->entries[m->entry].ended ? j->entries[m->entry].is.outcome : 0;
}

static int count_word(cJSON *o, uint32_t outcome)
{
    const char *word = jb_outcome_name(outcome);
    return jb_json_set_i64(o, word, jb_json_i64(o, word, 0) + 1);
}

static int bump(cJSON *o, const char *key) { return jb_json_set_i64(o, key, jb_json_i64(o, key, 0) + 1); }

static cJSON *row_of(cJSON *methods, const jb_rec_cell *c)
{
    cJSON *row;
    cJSON_ArrayForEach(row, methods)
    {
        if (strcmp(jb_json_str(row, "method", ""), c->method) == 0 && strcmp(jb_json_str(row, "backend", ""), c->backend) == 0) return row;
    }
    row = cJSON_CreateObject();
    if (!row || !cJSON_AddItemToArray(methods, row)) {
        cJSON_Delete(row);
        return NULL;
    }
    static const char *const numbers[] = { "counted_was", "correct_was", "counted_is", "correct_is", "pending" };
    int rc = jb_json_set_str(row, "method", c->method);
    if (rc == 0) rc = jb_json_set_str(row, "backend", c->backend);
    for (size_t i = 0; rc == 0 && i < sizeof numbers / sizeof numbers[0]; i++) rc = jb_json_set_i64(row, numbers[i], 0);
    return rc == 0 && jb_json_add_obj(row, "was") && jb_json_add_obj(row, "is") ? row : NULL;
}

static int add_member(const judge *j, const member *m, cJSON *methods, cJSON *changes)
{
    uint32_t was = m->candidate->outcome, is = outcome_now(j, m);
    cJSON *row = row_of(methods, m->cell), *change;
    if (!row) return JB_ENOMEM;
    int rc = count_word(cJSON_GetObjectItemCaseSensitive(row, "was"), was);
    if (rc == 0 && !jb_outcome_leaves(was)) rc = bump(row, "counted_was");
    if (rc == 0 && was == JB_OUTCOME_OK) rc = bump(row, "correct_was");
    if (rc != 0 || !is) return rc ? rc : bump(row, "pending");
    rc = count_word(cJSON_GetObjectItemCaseSensitive(row, "is"), is);
    if (rc == 0 && !jb_outcome_leaves(is)) rc = bump(row, "counted_is");
    if (rc == 0 && is == JB_OUTCOME_OK) rc = bump(row, "correct_is");
    if (rc != 0 || is == was) return rc;
    change = cJSON_CreateObject();
    if (!change || !cJSON_AddItemToArray(changes, change)) {
        cJSON_Delete(change);
        return JB_ENOMEM;
    }
    rc = jb_json_set_str(change, "cell", m->cell->label);
    if (rc == 0) rc = jb_json_set_i64(change, "candidate", (int64_t)m->candidate->id);
    if (rc == 0) rc = jb_json_set_str(change, "was", jb_outcome_name(was));
    if (rc == 0) rc = jb_json_set_str(change, "is", jb_outcome_name(is));
    return rc ? rc : jb_json_set_str(change, "reason", j->entries[m->entry].is.reason);
}

static int add_gates(const judge *j, cJSON *o)
{
    cJSON *gates = jb_json_add_arr(o, "gates");
    int rc = gates ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < j->o->set_count; i++) {
        cJSON *g = cJSON_CreateObject();
        if (!g || !cJSON_AddItemToArray(gates, g)) {
            cJSON_Delete(g);
            return JB_ENOMEM;
        }
        rc = jb_json_set_str(g, "name", jb_gateset_name(j->o->sets[i]));
        if (rc == 0) rc = jb_json_set_str(g, "variant", j->o->variant ? j->o->variant : jb_gateset_variant(j->o->sets[i]));
        if (rc == 0) rc = jb_json_set_str(g, "sha256", jb_gateset_hash(j->o->sets[i]));
    }
    return rc;
}

static cJSON *document(judge *j)
{
    static const char *const words[HOWS] = { "kept", "known", "from_modules", "traced_again" };
    int64_t hows[HOWS] = { 0 }, pending = 0;
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(o, "kind", "judgement");
    if (rc == 0) rc = jb_json_set_str(o, "run", j->o->run_dir);
    if (rc == 0) rc = add_gates(j, o);
    if (rc == 0) rc = jb_json_set_str(o, "headline", jb_gateset_name(j->o->headline));
    if (rc == 0) rc = jb_json_set_str(o, "phase", j->o->phase);
    for (size_t i = 0; i < j->member_count; i++) {
        size_t e = j->members[i].entry;
        if (e != SIZE_MAX && !j->entries[e].ended) pending++;
        else hows[e == SIZE_MAX ? KEPT : j->entries[e].how]++;
    }
    if (rc == 0) rc = jb_json_set_bool(o, "complete", pending == 0);
    cJSON *counts = rc == 0 ? jb_json_add_obj(o, "counts") : NULL;
    if (rc == 0) rc = counts ? jb_json_set_i64(counts, "candidates", (int64_t)j->member_count) : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < HOWS; i++) rc = jb_json_set_i64(counts, words[i], hows[i]);
    if (rc == 0) rc = jb_json_set_i64(counts, "pending", pending);
    cJSON *methods = rc == 0 ? jb_json_add_arr(o, "methods") : NULL, *changes = methods ? jb_json_add_arr(o, "changes") : NULL;
    if (rc == 0 && !changes) rc = JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < j->member_count; i++) rc = add_member(j, &j->members[i], methods, changes);
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}

int jb_judge_run(const jb_judge_options *o, cJSON **out, jb_error *err)
{
    judge j = { .o = o };
    char *root = realpath(o->run_dir, NULL); /* the worker has another working directory */
    j.store = root ? jb_fs_join(root, "blobs") : NULL;
    free(root);
    int rc = j.store ? open_journal(&j, err) : jb_err(err, JB_ENOMEM, "judge: out of memory");
    if (rc == 0) rc = jb_pool_open(&o->pool, &j.pool, err);
    if (rc == 0) rc = gather(&j, err);
    if (rc == 0) rc = loop(&j, err);
    if (rc == 0) {
        *out = document(&j);
        if (!*out) rc = jb_err(err, JB_ENOMEM, "judge: out of memory");
    }
    jb_pool_close(j.pool);
    jb_journal_close(j.journal);
    for (size_t i = 0; i < j.job_count; i++) cJSON_Delete(j.jobs[i].job);
    jb_free(j.jobs);
    jb_free(j.entries);
    jb_free(j.members);
    jb_free(j.known);
    jb_free(j.known_as);
    jb_free(j.store);
    return rc;
}
