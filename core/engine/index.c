/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/index.c - see index.h. */
#include "core/engine/index.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/evaluate/merge.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(x) TEXT_OF(x)

static const char SCHEMA[] =
    "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA user_version=" VERSION_TEXT(JB_INDEX_VERSION) ";"
    "CREATE TABLE run(name TEXT NOT NULL, check_shape TEXT NOT NULL, timed_shape TEXT NOT NULL, skip TEXT NOT NULL) STRICT;"
    "CREATE TABLE cell(key TEXT PRIMARY KEY, label TEXT NOT NULL, workload TEXT NOT NULL, method TEXT NOT NULL,"
    "  backend TEXT NOT NULL, seed INTEGER NOT NULL, ended INTEGER NOT NULL, failed INTEGER NOT NULL,"
    "  samples INTEGER NOT NULL, calls_failed INTEGER NOT NULL, method_use TEXT NOT NULL, backend_use TEXT NOT NULL,"
    "  model TEXT NOT NULL, calls INTEGER NOT NULL, unreported INTEGER NOT NULL, input_tokens INTEGER NOT NULL,"
    "  output_tokens INTEGER NOT NULL, pico_usd INTEGER, evaluated INTEGER NOT NULL, compile_s REAL NOT NULL, wall_s REAL NOT NULL) STRICT;"
    "CREATE TABLE candidate(cell TEXT NOT NULL REFERENCES cell(key), id INTEGER NOT NULL, outcome TEXT NOT NULL,"
    "  loop_outcome TEXT NOT NULL, stage TEXT NOT NULL, fault TEXT NOT NULL, reason TEXT NOT NULL, final TEXT NOT NULL,"
    "  duplicate INTEGER NOT NULL, source_sha256 TEXT NOT NULL, link TEXT NOT NULL, numerics TEXT NOT NULL,"
    "  PRIMARY KEY(cell, id)) STRICT;"
    "CREATE TABLE gate(cell TEXT NOT NULL, candidate INTEGER NOT NULL, gateset TEXT NOT NULL, verdict TEXT NOT NULL,"
    "  PRIMARY KEY(cell, candidate, gateset)) STRICT;"
    "CREATE INDEX candidate_outcome ON candidate(outcome);";

static int sql_error(sqlite3 *db, jb_error *err, const char *what)
{
    return jb_err(err, JB_EIO, "index.sqlite: %s: %s", what, db ? sqlite3_errmsg(db) : "out of memory");
}

/* Bind by the letters of `types` (t: const char*, i: int64_t, r: double; a NULL
 * value is NULL) and step. */
static int insert(sqlite3 *db, sqlite3_stmt *s, const char *types, const void *const *values, jb_error *err)
{
    int rc = SQLITE_OK;
    for (int i = 0; types[i] && rc == SQLITE_OK; i++) {
        if (!values[i]) rc = sqlite3_bind_null(s, i + 1);
        else if (types[i] == 'r') rc = sqlite3_bind_double(s, i + 1, *(const double *)values[i]);
        else if (types[i] == 't') rc = sqlite3_bind_text(s, i + 1, values[i], -1, SQLITE_STATIC);
        else rc = sqlite3_bind_int64(s, i + 1, *(const int64_t *)values[i]);
    }
    if (rc == SQLITE_OK) rc = sqlite3_step(s);
    sqlite3_reset(s);
    return rc == SQLITE_DONE ? 0 : sql_error(db, err, "inserting");
}

typedef struct statements { sqlite3_stmt *run, *cell, *candidate, *gate; } statements;

/* ---- rows ------------------------------------------------------------------------------- */

/* The entry of manifest array `key` with this name. */
static const cJSON *part(const jb_records *r, const char *key, const char *name)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, jb_json_obj(r->manifest, key))
    {
        if (strcmp(jb_json_str(i, "name", ""), name) == 0) return i;
    }
    return NULL;
}

static int add_run(sqlite3 *db, const statements *s, const jb_records *r, jb_error *err)
{
    char skip[64] = "";
    size_t n = 0;
    const cJSON *i;
    cJSON_ArrayForEach(i, jb_json_path(r->manifest, "study.expanded.skip"))
    {
        if (cJSON_IsString(i) && n < sizeof skip) n += (size_t)snprintf(skip + n, sizeof skip - n, "%s%s", n ? "," : "", i->valuestring);
    }
    const cJSON *shapes = jb_json_obj(r->manifest, "shapes");
    const void *row[] = { jb_json_str(r->manifest, "name", ""), jb_json_str(shapes, "check", ""), jb_json_str(shapes, "timed", "full"), skip };
    return insert(db, s->run, "tttt", row, err);
}

static int add_cell(sqlite3 *db, const statements *s, const jb_records *r, const jb_rec_cell *c, jb_error *err)
{
    const jb_ledger *l = &c->ledger;
    const cJSON *backend = part(r, "backends", c->backend);
    const char *method = jb_json_str(part(r, "methods", c->method), "use", c->method), *use = jb_json_str(backend, "use", c->backend);
    const char *model = jb_json_str(jb_json_obj(backend, "options"), "model", "");
    int64_t ended = c->ended, failed = c->failed, calls = 0, input = 0, output = 0, pico = 0, unpriced = 0, evaluated = 0;
    for (size_t p = 0; p < JB_PURPOSES; p++) {
        calls += l->calls[p];
        input += l->tokens[p][0] + l->tokens[p][1] + l->tokens[p][2];
        output += l->tokens[p][3] + l->tokens[p][4];
        pico += l->pico_usd[p];
        unpriced += l->unpriced[p];
    }
    for (size_t i = 0; i < c->op_count; i++) evaluated += c->ops[i].kind == JB_OP_EVAL && c->ops[i].wall_s > 0;
    const void *row[] = { c->key, c->label, c->workload, c->method, c->backend, &c->seed, &ended, &failed, &l->samples, &l->failures, method, use, model,
                          &calls, &l->unreported, &input, &output, unpriced ? NULL : &pico, &evaluated, &l->compile_s, &l->wall_s };
    return insert(db, s->cell, "tttttiiiii" "ttt" "iiiiii" "rr", row, err);
}

static int add_candidate(sqlite3 *db, const statements *s, const jb_records *r, const jb_rec_cell *c, const jb_rec_candidate *k, jb_error *err)
{
    int64_t id = (int64_t)k->id, duplicate = k->duplicate;
    const void *row[] = { c->key, &id, jb_outcome_name(k->outcome), jb_outcome_name(k->loop_outcome),
                          k->stage ? jb_stage_name(k->stage) : "", k->fault, k->reason, jb_verdict_name(k->final),
                          &duplicate, k->source, k->link, k->numerics };
    int rc = insert(db, s->candidate, "titttttti" "ttt", row, err);
    for (size_t g = 0; rc == 0 && g < r->gate_count; g++) {
        if (!k->verdicts[g]) continue;
        const void *gate[] = { c->key, &id, r->gates[g], jb_verdict_name(k->verdicts[g]) };
        rc = insert(db, s->gate, "titt", gate, err);
    }
    return rc;
}

static int fill(sqlite3 *db, const jb_records *r, jb_error *err)
{
    statements s = { NULL, NULL, NULL, NULL };
    int rc = 0;
    if (sqlite3_prepare_v2(db, "INSERT INTO run VALUES(?,?,?,?)", -1, &s.run, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO cell VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", -1, &s.cell, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO candidate VALUES(?,?,?,?,?,?,?,?,?,?,?,?)", -1, &s.candidate, NULL) != SQLITE_OK ||
        sqlite3_prepare_v2(db, "INSERT INTO gate VALUES(?,?,?,?)", -1, &s.gate, NULL) != SQLITE_OK)
        rc = sql_error(db, err, "preparing");
    if (rc == 0) rc = add_run(db, &s, r, err);
    for (size_t i = 0; rc == 0 && i < r->cell_count; i++) {
        const jb_rec_cell *c = &r->cells[i];
        rc = add_cell(db, &s, r, c, err);
        for (size_t k = 0; rc == 0 && k < c->candidate_count; k++)
            if (c->candidates[k].id) rc = add_candidate(db, &s, r, c, &c->candidates[k], err);
    }
    sqlite3_finalize(s.run);
    sqlite3_finalize(s.cell);
    sqlite3_finalize(s.candidate);
    sqlite3_finalize(s.gate);
    return rc;
}

int jb_index_rebuild(const char *run_dir, const jb_records *r, jb_error *err)
{
    sqlite3 *db = NULL;
    char *path = jb_fs_join(run_dir, "index.sqlite"), *temporary = jb_fs_join(run_dir, "index.sqlite.tmp");
    int rc = path && temporary ? 0 : jb_err(err, JB_ENOMEM, "index.sqlite: out of memory");
    if (rc != 0) goto out;
    unlink(temporary); /* of a process that was killed */
    if (sqlite3_open_v2(temporary, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, NULL) != SQLITE_OK) {
        rc = sql_error(db, err, "opening");
        goto out;
    }
    if (sqlite3_exec(db, SCHEMA, NULL, NULL, NULL) != SQLITE_OK) rc = sql_error(db, err, "making tables");
    if (rc == 0 && sqlite3_exec(db, "BEGIN", NULL, NULL, NULL) != SQLITE_OK) rc = sql_error(db, err, "writing");
    if (rc == 0) rc = fill(db, r, err);
    if (rc == 0 && sqlite3_exec(db, "COMMIT", NULL, NULL, NULL) != SQLITE_OK) rc = sql_error(db, err, "writing");
    if (sqlite3_close(db) != SQLITE_OK && rc == 0) rc = sql_error(db, err, "closing");
    db = NULL;
    if (rc == 0 && rename(temporary, path) != 0) rc = jb_err(err, JB_EIO, "index.sqlite: %s", strerror(errno));
    if (rc != 0) unlink(temporary);
out:
    if (db) sqlite3_close(db);
    jb_free(path);
    jb_free(temporary);
    return rc;
}
