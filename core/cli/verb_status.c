/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_status.c - jaxbench status RUN: where a run stands, from the tally
 * that the engine keeps beside the journal (status.json) and the lines written
 * since; a whole journal is read only where there is no such file.  Reads, and
 * never waits for or disturbs the process that writes. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/cli/runs.h"
#include "core/engine/records.h"
#include "core/engine/rundir.h"
#include "core/engine/tally.h"
#include "core/evaluate/outcome.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define STATUS_MAX (1u << 20)

static const char *const AMOUNTS[JB_UNITS] = { "pico_usd", "tokens", "calls", "compile_ms", "wall_ms" };

typedef struct state {
    cJSON *manifest, *saved; /* saved: status.json, nullable */
    jb_tally_cell *cells;
    jb_price *prices;
    jb_tally tally;
    jb_lock_holder holder;
    double now;
    const char *word, *by;   /* "running", "finished", "stopped"; what stopped it */
} state;

static void state_free(state *s)
{
    cJSON_Delete(s->manifest);
    cJSON_Delete(s->saved);
    jb_free(s->cells);
    jb_free(s->prices);
}

/* ---- reading ---------------------------------------------------------------------------- */

static int read_cells(state *s, jb_error *err)
{
    const cJSON *cells = jb_json_obj(s->manifest, "cells"), *i;
    size_t n = 0, count = (size_t)cJSON_GetArraySize(cells);
    s->cells = jb_alloc_array(count + 1, sizeof *s->cells);
    s->prices = jb_alloc_array(count + 1, sizeof *s->prices);
    if (!s->cells || !s->prices) return jb_err(err, JB_ENOMEM, "status: out of memory");
    cJSON_ArrayForEach(i, cells)
    {
        int priced = jb_manifest_price(s->manifest, jb_json_str(i, "backend", ""), &s->prices[n]);
        s->cells[n] = (jb_tally_cell){ jb_json_str(i, "key", ""), priced ? &s->prices[n] : NULL };
        n++;
    }
    jb_tally_init(&s->tally, s->cells, n);
    return 0;
}

/* The saved tally and the lines after it, or all of the journal. */
static int read_tally(state *s, const char *dir, jb_error *err)
{
    char *journal = jb_fs_join(dir, "journal.jsonl"), *status = jb_fs_join(dir, "status.json");
    int rc = journal && status ? 0 : jb_err(err, JB_ENOMEM, "status: out of memory");
    if (rc == 0 && !jb_fs_exists(journal)) goto out; /* killed before its first line */
    if (rc == 0 && jb_fs_exists(status)) s->saved = jb_json_read_file(status, STATUS_MAX, NULL);
    int known = rc == 0 && s->saved && jb_tally_read(jb_json_obj(s->saved, "tally"), &s->tally) == 0;
    if (known) {
        rc = jb_journal_read_from(journal, (uint64_t)jb_json_i64(s->saved, "offset", 0), s->tally.seq, jb_tally_visit, &s->tally, NULL, NULL);
        known = rc == 0;
    }
    if (!known) { /* no such file, or it is not of this journal */
        jb_tally_init(&s->tally, s->cells, s->tally.cell_count);
        rc = jb_journal_read(journal, jb_tally_visit, &s->tally, NULL, err);
    }
out:
    jb_free(journal);
    jb_free(status);
    return rc;
}

static void name_state(state *s)
{
    const char *end = jb_json_str(s->saved, "end", "");
    s->by = "";
    s->word = s->holder.held ? "running" : s->tally.complete ? "finished" : "stopped";
    if (!s->holder.held && !s->tally.complete) s->by = end[0] ? end : "killed";
}

static int load(state *s, const char *dir, jb_error *err)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    s->now = (double)t.tv_sec + (double)t.tv_nsec / 1e9;
    s->manifest = jb_rundir_read_manifest(dir, err);
    int rc = s->manifest ? read_cells(s, err) : err->code;
    char *lock = jb_fs_join(dir, "lock");
    /* The lock first: a run that ends in between is then shown as running, never as killed. */
    if (rc == 0 && lock) jb_lock_look(lock, &s->holder, NULL);
    if (rc == 0) rc = read_tally(s, dir, err);
    if (rc == 0) name_state(s);
    jb_free(lock);
    return rc;
}

/* ---- what follows from it ------------------------------------------------------------------ */

static int64_t expected_of(const state *s)
{
    const cJSON *i;
    int64_t sum = 0;
    if (s->saved) return jb_json_i64(s->saved, "expected", -1);
    cJSON_ArrayForEach(i, jb_json_obj(s->manifest, "cells"))
    {
        int64_t n = jb_json_i64(i, "expected", -1);
        if (n < 0) return -1;
        sum += n;
    }
    return sum;
}

/* Seconds to go at the pace of this session; -1: nobody can say. */
static double eta_of(const state *s)
{
    int64_t expected = expected_of(s);
    double elapsed = s->now - s->tally.session_t;
    if (!s->holder.held || expected < 0 || s->tally.session_candidates < 1 || elapsed <= 0) return -1;
    int64_t left = expected - s->tally.candidates;
    return left > 0 ? elapsed / (double)s->tally.session_candidates * (double)left : 0;
}

static double age_of(const state *s)
{
    double age = s->tally.seq ? s->now - s->tally.t : -1;
    return s->tally.seq && age < 0 ? 0 : age;
}

/* Money is null when not one call was priced. */
static int money_known(const jb_tally *t)
{
    return t->unpriced == 0 || t->unpriced < t->spent.of[JB_UNIT_CALLS] - t->calls_failed || t->spent.of[JB_UNIT_USD] > 0;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static int put_amounts(cJSON *o, const int64_t amounts[JB_UNITS], int with_usd)
{
    static const struct { const char *key; double scale; } KEYS[JB_UNITS] = { { "usd", 1e12 }, { "tokens", 1 }, { "calls", 1 }, { "compile_s", 1e3 }, { "wall_s", 1e3 } };
    int rc = o ? 0 : JB_ENOMEM;
    for (size_t u = 0; rc == 0 && u < JB_UNITS; u++) {
        if (amounts[u] < 0 || (u == JB_UNIT_USD && !with_usd)) rc = cJSON_AddNullToObject(o, KEYS[u].key) ? 0 : JB_ENOMEM;
        else rc = jb_json_set_num(o, KEYS[u].key, (double)amounts[u] / KEYS[u].scale);
    }
    return rc;
}

static int set_or_null(cJSON *o, const char *key, double v, int known)
{
    if (known) return jb_json_set_num(o, key, v);
    return cJSON_AddNullToObject(o, key) ? 0 : JB_ENOMEM;
}

static void budget_of(const state *s, int64_t out[JB_UNITS])
{
    for (size_t u = 0; u < JB_UNITS; u++) out[u] = jb_json_i64(jb_json_obj(s->saved, "budget"), AMOUNTS[u], -1);
}

static cJSON *document(const state *s, const char *dir)
{
    const jb_tally *t = &s->tally;
    int64_t budget[JB_UNITS], expected = expected_of(s);
    double eta = eta_of(s);
    cJSON *o = cJSON_CreateObject();
    budget_of(s, budget);
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(o, "run", dir);
    if (rc == 0) rc = jb_json_set_str(o, "study", jb_json_str(s->manifest, "name", "?"));
    if (rc == 0) rc = jb_json_set_str(o, "state", s->word);
    if (rc == 0) rc = jb_json_set_str(o, "stopped_by", s->by);
    if (rc == 0) rc = jb_json_set_str(o, "budget_reached", strcmp(s->by, "budget") ? "" : jb_json_str(s->saved, "unit", ""));
    if (rc == 0) rc = set_or_null(o, "pid", (double)s->holder.pid, s->holder.held && s->holder.pid);
    if (rc == 0) rc = jb_json_set_i64(o, "sessions", t->sessions);
    cJSON *cells = jb_json_add_obj(o, "cells");
    if (rc == 0) rc = jb_json_set_i64(cells, "total", cJSON_GetArraySize(jb_json_obj(s->manifest, "cells")));
    if (rc == 0) rc = jb_json_set_i64(cells, "begun", t->cells_begun);
    if (rc == 0) rc = jb_json_set_i64(cells, "ended", t->cells_ended);
    if (rc == 0) rc = jb_json_set_i64(cells, "failed", t->cells_failed);
    if (rc == 0) rc = jb_json_set_i64(o, "candidates", t->candidates);
    if (rc == 0) rc = set_or_null(o, "expected", (double)expected, expected >= 0);
    cJSON *outcomes = jb_json_add_obj(o, "outcomes");
    for (uint32_t i = 1; rc == 0 && i < JB_TALLY_OUTCOMES; i++)
        if (t->outcomes[i]) rc = jb_json_set_i64(outcomes, jb_outcome_name(i), t->outcomes[i]);
    if (rc == 0) rc = jb_json_set_i64(o, "failed_calls", t->calls_failed);
    if (rc == 0) rc = jb_json_set_i64(o, "unpriced_calls", t->unpriced);
    if (rc == 0) rc = put_amounts(jb_json_add_obj(o, "spent"), t->spent.of, money_known(t));
    if (rc == 0) rc = put_amounts(jb_json_add_obj(o, "budget"), budget, 1);
    if (rc == 0) rc = set_or_null(o, "eta_s", eta, eta >= 0);
    if (rc == 0) rc = jb_json_set_i64(o, "last_event", (int64_t)t->seq);
    if (rc == 0) rc = set_or_null(o, "last_event_age_s", age_of(s), t->seq > 0);
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- text -------------------------------------------------------------------------------------- */

static void print_state(const jb_cli *c, const state *s, const char *dir)
{
    jb_buf safe = JB_BUF_INIT(8192);
    const char *unit = jb_json_str(s->saved, "unit", "");
    char colour = s->holder.held ? 'g' : s->tally.complete ? 'b' : 'y';
    jb_text_escape(&safe, dir, strlen(dir), 0);
    fprintf(c->out, "%s  %s%s%s", safe.ptr ? safe.ptr : "?", jb_cli_style(c, colour), s->word, jb_cli_style(c, '0'));
    if (s->holder.held && s->holder.pid) fprintf(c->out, " (pid %" PRId64 " on %s)", s->holder.pid, s->holder.host);
    if (!strcmp(s->by, "signal")) fprintf(c->out, " by a signal");
    else if (!strcmp(s->by, "budget")) fprintf(c->out, " by its budget %s", unit);
    else if (!strcmp(s->by, "provider")) fprintf(c->out, " because of a backend's provider");
    else if (!strcmp(s->by, "infra")) fprintf(c->out, " by failures of the infrastructure");
    else if (!strcmp(s->by, "killed")) fprintf(c->out, ": its process is gone; the lock is stale, nothing holds it");
    fprintf(c->out, "\n");
    if (s->by[0]) fprintf(c->out, "  go on with: jaxbench resume %s\n", safe.ptr ? safe.ptr : "RUN");
    jb_buf_free(&safe);
}

static void print_spent(const jb_cli *c, const state *s)
{
    int64_t budget[JB_UNITS];
    char a[48], b[48];
    budget_of(s, budget);
    fprintf(c->out, "  spent      ");
    for (unsigned u = 0; u < JB_UNITS; u++) {
        if (u == JB_UNIT_USD && !money_known(&s->tally)) fprintf(c->out, "money unpriced");
        else fprintf(c->out, "%s%s", u ? ", " : "", jb_unit_text(a, sizeof a, u, s->tally.spent.of[u]));
        if (u == JB_UNIT_COMPILE) fprintf(c->out, " compiling");
        if (u == JB_UNIT_WALL) fprintf(c->out, " of time");
        if (budget[u] >= 0) fprintf(c->out, " of %s", jb_unit_text(b, sizeof b, u, budget[u]));
    }
    fprintf(c->out, "\n");
    if (s->tally.unpriced) fprintf(c->out, "  unpriced   %" PRId64 " calls: their price is not known and not in the sum\n", s->tally.unpriced);
}

static void print_text(const jb_cli *c, const state *s, const char *dir)
{
    const jb_tally *t = &s->tally;
    int64_t expected = expected_of(s);
    double eta = eta_of(s);
    char text[32];
    print_state(c, s, dir);
    fprintf(c->out, "  cells      %" PRId64 " of %d ended", t->cells_ended, cJSON_GetArraySize(jb_json_obj(s->manifest, "cells")));
    if (t->cells_failed) fprintf(c->out, ", %" PRId64 " failed", t->cells_failed);
    fprintf(c->out, "\n  candidates %" PRId64, t->candidates);
    if (expected >= 0) fprintf(c->out, " of %" PRId64, expected);
    const char *before = ": ";
    for (uint32_t i = 1; i < JB_TALLY_OUTCOMES; i++) {
        if (!t->outcomes[i]) continue;
        fprintf(c->out, "%s%" PRId64 " %s", before, t->outcomes[i], jb_outcome_name(i));
        before = ", ";
    }
    fprintf(c->out, "\n");
    print_spent(c, s);
    if (t->calls_failed) fprintf(c->out, "  failed     %" PRId64 " calls of the provider\n", t->calls_failed);
    if (eta >= 0) fprintf(c->out, "  eta        %s\n", jb_text_seconds(text, sizeof text, eta));
    if (t->seq) fprintf(c->out, "  last event %s ago\n", jb_text_seconds(text, sizeof text, age_of(s)));
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    state s = { 0 };
    char *dir = NULL;
    int code = JB_EXIT_OK, rc = jb_rundir_find(c->argv[0], &dir, &err);
    if (rc == 0) rc = load(&s, dir, &err);
    if (rc != 0) {
        code = jb_cli_fail(c, &err);
    } else if (c->json) {
        cJSON *o = document(&s, dir);
        code = jb_cli_print_json(c, o);
        cJSON_Delete(o);
    } else {
        print_text(c, &s, dir);
    }
    state_free(&s);
    jb_free(dir);
    return code;
}

const jb_cli_verb jb_verb_status = {
    .name = "status", .summary = "where a run stands", .usage = "RUN",
    .help = "Running, finished, or stopped and by what; cells, outcomes, what was spent of which budget, when it\n"
            "will be done at this pace. Reads only; RUN is a folder, or a name below runs/.\n\n"
            "  jaxbench status 20261130-2244-quickstart-7f3a --json",
    .min_args = 1, .max_args = 1, .run = run,
};
