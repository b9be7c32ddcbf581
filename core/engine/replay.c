/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/replay.c - the journal, indexed for resume: which operations of
 * which cell were submitted with what hash, and where their ends lie.  It keeps
 * spans, not events: a long run's records stay on disk until they are asked for. */
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/engine/blobs.h"
#include "core/engine/state.h"

#include <string.h>

static jb_cell *cell_named(jb_engine *e, const char *key)
{
    for (size_t i = 0; key && i < e->o->cell_count; i++)
        if (strcmp(e->cells[i].plan->key, key) == 0) return &e->cells[i];
    return NULL;
}

/* Entry `index` of a growing array of `size`-byte zeroed elements. */
static void *grow(void **array, size_t *count, size_t index, size_t size)
{
    if (index < *count) return (char *)*array + index * size;
    size_t want = index + 1 > 2 * *count ? index + 1 : 2 * *count;
    char *grown = jb_realloc(*array, want * size);
    if (!grown) return NULL;
    memset(grown + *count * size, 0, (want - *count) * size);
    *array = grown;
    *count = want;
    return grown + index * size;
}

#define MAX_ORDINAL 10000000 /* a damaged number must not allocate the machine away */

static int bad_event(jb_error *err, jb_span span, const char *what)
{
    return jb_err(err, JB_EPARSE, "journal, line %u: %s", span.seq, what);
}

static int visit_op(jb_cell *c, const char *kind, const cJSON *event, jb_span span, jb_error *err)
{
    int64_t id = jb_json_i64(event, "op", 0);
    if (id < 1 || id > MAX_ORDINAL) return bad_event(err, span, "the event names no operation");
    jb_replay_op *op = grow((void **)&c->replay.ops, &c->replay.op_count, (size_t)id - 1, sizeof *op);
    if (!op) return jb_err(err, JB_ENOMEM, "journal: out of memory");
    if (strcmp(kind, "op_submit") == 0) {
        const char *hash = jb_json_str(event, "hash", "");
        if (strlen(hash) != JB_HASH_HEX - 1) return bad_event(err, span, "the operation has no hash");
        memcpy(op->hash, hash, JB_HASH_HEX);
        op->submit = span;
    } else if (!op->hash[0]) {
        return bad_event(err, span, "the operation ends before it begins");
    } else if (strcmp(kind, "op_done") == 0) {
        op->done = span;
        if (jb_evals_known(c->e, event, span) != 0) return jb_err(err, JB_ENOMEM, "journal: out of memory");
    } else {
        op->cancelled = 1;
    }
    return 0;
}

/* A call went out; whether it came back tells its op_done. */
static int visit_send(jb_cell *c, const cJSON *event, jb_span span, jb_error *err)
{
    int64_t id = jb_json_i64(event, "op", 0);
    if (id < 1 || (size_t)id > c->replay.op_count || !c->replay.ops[id - 1].hash[0])
        return bad_event(err, span, "a call was sent for an operation that does not exist");
    c->replay.ops[id - 1].sends++;
    return 0;
}

int jb_replay_visit(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    jb_engine *e = ctx;
    const char *kind = jb_json_str(event, "kind", ""), *key = jb_json_str(event, "cell", NULL);
    jb_tally_visit(&e->tally, event, span, err);
    if (!key) return 0; /* of the run: session, executor, run_end */
    jb_cell *c = cell_named(e, key);
    if (!c) {
        jb_err(err, JB_ESTATE, "journal, line %u: the study has no cell %s", span.seq, key);
        jb_err_hint(err, "the study is not the one this run was begun with");
        return JB_ESTATE;
    }
    if (strncmp(kind, "op_", 3) == 0) return visit_op(c, kind, event, span, err);
    if (strcmp(kind, "call_send") == 0) return visit_send(c, event, span, err);
    if (strcmp(kind, "cell_begin") == 0) c->replay.begun = 1;
    if (strcmp(kind, "cell_end") == 0) c->replay.ended = 1;
    if (strcmp(kind, "final_done") == 0) {
        int64_t id = jb_json_i64(event, "candidate", 0);
        if (id < 1 || id > MAX_ORDINAL) return bad_event(err, span, "final rows of no candidate");
        /* Provisional rows are known to evals.c and journaled again when the cell really ends. */
        if (jb_json_bool(event, "provisional", 0)) return jb_evals_known(e, event, span) ? jb_err(err, JB_ENOMEM, "journal: out of memory") : 0;
        jb_span *at = grow((void **)&c->replay.finals, &c->replay.final_count, (size_t)id - 1, sizeof *at);
        if (!at) return jb_err(err, JB_ENOMEM, "journal: out of memory");
        *at = span;
        if (jb_evals_known(e, event, span) != 0) return jb_err(err, JB_ENOMEM, "journal: out of memory");
    }
    return 0;
}

jb_replay_op *jb_replay_find(jb_cell *c, uint64_t op)
{
    jb_replay_op *r = op >= 1 && op <= c->replay.op_count ? &c->replay.ops[op - 1] : NULL;
    return r && r->hash[0] ? r : NULL;
}

void jb_replay_free(jb_replay_cell *r)
{
    jb_free(r->ops);
    jb_free(r->finals);
    memset(r, 0, sizeof *r);
}

/* ---- mismatch ------------------------------------------------------------------ */

/* "line 3: was [...], is [...]" of two texts; empty when they are equal. */
static void first_difference(jb_view was, jb_view is, jb_buf *out)
{
    uint64_t line = 1, a = 0, n = was.len < is.len ? was.len : is.len, start = 0;
    while (a < n && was.ptr[a] == is.ptr[a]) {
        if (was.ptr[a] == '\n') { line++; start = a + 1; }
        a++;
    }
    if (a == was.len && a == is.len) return;
    jb_buf_printf(out, "line %llu was [", (unsigned long long)line);
    jb_text_first_line(out, was.ptr + start, (size_t)(was.len - start), 60);
    jb_buf_puts(out, "], is [");
    jb_text_first_line(out, is.ptr + start, (size_t)(is.len - start), 60);
    jb_buf_puts(out, "]");
}

int jb_replay_mismatch(jb_cell *c, uint64_t op, const jb_replay_op *known, const char *hash, const char *what, jb_view text, jb_error *err)
{
    jb_error ignored = JB_ERROR_INIT;
    jb_buf old = JB_BUF_INIT((size_t)64 << 20), difference = JB_BUF_INIT(512);
    cJSON *event = jb_journal_get(c->e->journal, known->submit, &ignored);
    const char *before = jb_json_str(event, "op_kind", "?");
    const char *blob = jb_json_str(event, "prompt", NULL);
    if (blob && jb_blob_get(c->e->blobs, blob, (size_t)64 << 20, &old, &ignored) == 0)
        first_difference(jb_buf_view(&old), text, &difference);
    jb_err(err, JB_ESTATE,
           "resume: cell %s, operation %llu: the method now asks for something else than the journal holds "
           "(journal: %s %.16s, now: %s %.16s)%s%s",
           c->plan->label, (unsigned long long)op, before, known->hash, what, hash, difference.len ? ": " : "",
           difference.len ? difference.ptr : "");
    jb_err_hint(err, "the plugin, its template or the suite changed, or the method is not deterministic; start a new run");
    jb_buf_free(&old);
    jb_buf_free(&difference);
    cJSON_Delete(event);
    return JB_ESTATE;
}
