/* SPDX-License-Identifier: Apache-2.0 */
/* core/forecast/history.c - see history.h. */
#include "core/forecast/history.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/engine/index.h"

#include <sqlite3.h>
#include <string.h>

struct jb_history {
    sqlite3 **dbs;
    size_t count;
};

static const char RATES[] =
    "SELECT c.samples, c.calls, c.unreported, c.input_tokens, c.output_tokens, c.evaluated, c.compile_s, c.wall_s FROM cell c, run r"
    " WHERE c.ended = 1 AND c.failed = 0 AND c.method_use = ?1 AND c.backend_use = ?2 AND c.model = ?3 AND (?4 = '' OR c.workload = ?4)"
    " AND r.check_shape = ?5 AND r.timed_shape = ?6 AND r.skip = ?7";

static int64_t version_of(sqlite3 *db)
{
    sqlite3_stmt *s = NULL;
    int64_t v = -1;
    if (sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL) == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) v = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return v;
}

/* NULL when it is no index of ours. */
static sqlite3 *open_index(const char *runs, const char *name)
{
    sqlite3 *db = NULL;
    char *dir = jb_fs_join(runs, name), *path = dir ? jb_fs_join(dir, "index.sqlite") : NULL;
    int ok = path && jb_fs_exists(path) && sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK && version_of(db) == JB_INDEX_VERSION;
    if (!ok) {
        sqlite3_close(db);
        db = NULL;
    }
    jb_free(path);
    jb_free(dir);
    return db;
}

int jb_history_open(const char *runs, jb_history **out, jb_error *err)
{
    char **names = NULL;
    int64_t n = jb_fs_list(runs, &names);
    jb_history *h = jb_alloc(sizeof *h);
    int rc = h && (h->dbs = jb_alloc_array(n > 0 ? (size_t)n : 1, sizeof *h->dbs)) ? 0 : jb_err(err, JB_ENOMEM, "history: out of memory");
    for (int64_t i = 0; rc == 0 && i < n; i++)
        if ((h->dbs[h->count] = open_index(runs, names[i])) != NULL) h->count++;
    if (n >= 0) jb_fs_list_free(names, n);
    if (rc == 0) *out = h;
    else jb_history_close(h);
    return rc;
}

void jb_history_close(jb_history *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->count; i++) sqlite3_close(h->dbs[i]);
    jb_free(h->dbs);
    jb_free(h);
}

static void widen(jb_history_rate *r, double what, double per)
{
    if (per <= 0) return;
    double rate = what / per;
    if (r->low < 0 || rate < r->low) r->low = rate;
    if (rate > r->high) r->high = rate;
}

static int64_t take_rows(sqlite3_stmt *s, jb_history_found *out)
{
    int64_t cells = 0;
    while (sqlite3_step(s) == SQLITE_ROW) {
        double n[8];
        for (int i = 0; i < 8; i++) n[i] = sqlite3_column_double(s, i);
        widen(&out->calls, n[1], n[0]);
        if (n[2] == 0) {
            widen(&out->input, n[3], n[1]);
            widen(&out->output, n[4], n[1]);
        }
        widen(&out->compile_s, n[6], n[5]);
        widen(&out->wall_s, n[7], n[5]);
        cells++;
    }
    return cells;
}

static int find(const jb_history *h, const jb_history_query *q, const char *workload, jb_history_found *out, jb_error *err)
{
    const char *texts[] = { q->method, q->backend, q->model, workload, q->check_shape, q->timed_shape, q->skip };
    static const jb_history_rate none = { -1, -1 };
    *out = (jb_history_found){ .calls = none, .input = none, .output = none, .compile_s = none, .wall_s = none };
    for (size_t i = 0; i < h->count; i++) {
        sqlite3_stmt *s = NULL;
        int rc = sqlite3_prepare_v2(h->dbs[i], RATES, -1, &s, NULL);
        for (int k = 0; rc == SQLITE_OK && k < 7; k++) rc = sqlite3_bind_text(s, k + 1, texts[k], -1, SQLITE_STATIC);
        int64_t cells = rc == SQLITE_OK ? take_rows(s, out) : 0;
        sqlite3_finalize(s);
        if (rc == SQLITE_NOMEM) return jb_err(err, JB_ENOMEM, "history: out of memory");
        out->cells += cells;
        out->runs += cells > 0;
    }
    return 0;
}

int jb_history_find(const jb_history *h, const jb_history_query *q, jb_history_found *out, jb_error *err)
{
    int rc = find(h, q, q->workload, out, err);
    if (rc == 0 && out->cells) out->same_workload = 1;
    else if (rc == 0) rc = find(h, q, "", out, err);
    return rc;
}
