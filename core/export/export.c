/* SPDX-License-Identifier: Apache-2.0 */
/* core/export/export.c - see export.h.  A column is a row of COLUMNS; all three
 * forms are made from the same row. */
#include "core/export/export.h"

#include "core/base/text.h"
#include "core/evaluate/merge.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define LINE_MAX_BYTES (1u << 20)

/* ---- a row -------------------------------------------------------------------------------- */

typedef struct at {
    const jb_records *r;
    const jb_rec_cell *c;
    const jb_rec_candidate *k;
    const jb_rec_op *eval, *call; /* nullable: its operations */
} at;

typedef struct value {
    const char *text; /* NULL: a number */
    double number;    /* NaN: not known */
    int whole;
} value;

static value text_of(const char *s) { return (value){ s ? s : "", 0, 0 }; }
static value whole(int64_t n) { return (value){ NULL, (double)n, 1 }; }
static value real(double v) { return (value){ NULL, v, 0 }; }
static value unknown(void) { return (value){ NULL, (double)NAN, 0 }; }

#define TEXT(name, expr) static value name(const at *a) { return text_of(expr); }
#define WHOLE(name, expr) static value name(const at *a) { return whole((int64_t)(expr)); }
TEXT(col_cell, a->c->key)
TEXT(col_workload, a->c->workload)
TEXT(col_workload_name, a->c->workload_name)
TEXT(col_method, a->c->method)
TEXT(col_backend, a->c->backend)
WHOLE(col_seed, a->c->seed)
WHOLE(col_candidate, a->k->id)
WHOLE(col_llm_op, a->k->llm_op)
TEXT(col_outcome, a->k->outcome ? jb_outcome_name(a->k->outcome) : "")
TEXT(col_loop_outcome, a->k->loop_outcome ? jb_outcome_name(a->k->loop_outcome) : "")
TEXT(col_stage, a->k->stage ? jb_stage_name(a->k->stage) : "")
TEXT(col_fault, a->k->fault)
TEXT(col_reason, a->k->reason)
TEXT(col_final, a->k->final ? jb_verdict_name(a->k->final) : "")
WHOLE(col_duplicate, a->k->duplicate)
WHOLE(col_attempts, a->k->attempts)
TEXT(col_link, a->k->link)
TEXT(col_numerics, a->k->numerics)
TEXT(col_coverage, a->k->coverage)
TEXT(col_source, a->k->source)
static value col_baseline(const at *a) { return a->k->baseline_us > 0 ? real(a->k->baseline_us) : unknown(); }
static value col_time(const at *a) { return a->k->candidate_us > 0 ? real(a->k->candidate_us) : unknown(); }
static value col_trace_s(const at *a) { return a->eval ? real(a->eval->trace_s) : unknown(); }
static value col_compile_s(const at *a) { return a->eval ? real(a->eval->compile_s) : unknown(); }
static value col_check_s(const at *a) { return a->eval ? real(a->eval->check_s) : unknown(); }
static value col_wall_s(const at *a) { return a->eval ? real(a->eval->wall_s) : unknown(); }

static value sum(const int64_t *n, size_t count)
{
    int64_t s = 0;
    for (size_t i = 0; i < count; i++) s += n[i] > 0 ? n[i] : 0;
    return whole(s);
}

static value col_input(const at *a)
{
    if (!a->call || !a->call->done || a->call->usage.input_uncached < 0) return unknown();
    return sum((const int64_t[]){ a->call->usage.input_uncached, a->call->usage.cache_read, a->call->usage.cache_write }, 3);
}

static value col_output(const at *a)
{
    if (!a->call || !a->call->done || a->call->usage.output < 0) return unknown();
    return sum((const int64_t[]){ a->call->usage.output, a->call->usage.reasoning }, 2);
}

static value col_usd(const at *a)
{
    const jb_price *price = !a->call ? NULL : a->call->replayed ? &jb_price_free : a->c->priced ? &a->c->price : NULL;
    int64_t cost = a->call && a->call->done ? jb_price_cost(price, &a->call->usage) : -1;
    return cost < 0 ? unknown() : real((double)cost / 1e12);
}

static const struct { const char *name; value (*get)(const at *a); } COLUMNS[] = {
    { "cell", col_cell }, { "workload", col_workload }, { "workload_name", col_workload_name }, { "method", col_method },
    { "backend", col_backend }, { "seed", col_seed }, { "candidate", col_candidate }, { "llm_op", col_llm_op },
    { "outcome", col_outcome }, { "loop_outcome", col_loop_outcome }, { "stage", col_stage }, { "fault", col_fault },
    { "reason", col_reason }, { "final", col_final }, { "duplicate", col_duplicate }, { "attempts", col_attempts },
    { "link", col_link }, { "numerics", col_numerics }, { "coverage", col_coverage }, { "source_sha256", col_source },
    { "baseline_us", col_baseline }, { "candidate_us", col_time }, { "trace_s", col_trace_s }, { "compile_s", col_compile_s },
    { "check_s", col_check_s }, { "wall_s", col_wall_s }, { "input_tokens", col_input }, { "output_tokens", col_output },
    { "usd", col_usd },
};
#define COLUMN_COUNT (sizeof COLUMNS / sizeof *COLUMNS)

static at row_of(const jb_records *r, const jb_rec_cell *c, const jb_rec_candidate *k)
{
    at a = { r, c, k, NULL, NULL };
    if (k->op >= 1 && k->op <= c->op_count) a.eval = &c->ops[k->op - 1];
    if (k->llm_op >= 1 && k->llm_op <= c->op_count) a.call = &c->ops[k->llm_op - 1];
    return a;
}

static const char *verdict(const at *a, size_t gate) { return a->k->verdicts[gate] ? jb_verdict_name(a->k->verdicts[gate]) : ""; }

/* Print `line` and empty it. */
static int put_line(FILE *out, jb_buf *line)
{
    int rc = line->status;
    if (rc == 0 && line->len && fwrite(line->ptr, 1, line->len, out) != line->len) rc = JB_EIO;
    jb_buf_reset(line);
    return rc;
}

/* ---- JSON Lines ----------------------------------------------------------------------------- */

static int put_value(cJSON *o, const char *name, value v)
{
    if (v.text) return jb_json_set_view(o, name, (jb_view){ v.text, strlen(v.text) });
    if (isnan(v.number)) return cJSON_AddNullToObject(o, name) ? 0 : JB_ENOMEM;
    return jb_json_set_num(o, name, v.number);
}

static int jsonl_row(const at *a, jb_buf *line)
{
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < COLUMN_COUNT; i++) rc = put_value(o, COLUMNS[i].name, COLUMNS[i].get(a));
    cJSON *gates = rc == 0 ? jb_json_add_obj(o, "gates") : NULL;
    if (rc == 0 && !gates) rc = JB_ENOMEM;
    for (size_t g = 0; rc == 0 && g < a->r->gate_count; g++)
        if (a->k->verdicts[g]) rc = jb_json_set_str(gates, a->r->gates[g], verdict(a, g));
    if (rc == 0) rc = jb_json_print(o, line);
    if (rc == 0) rc = jb_buf_puts(line, "\n");
    cJSON_Delete(o);
    return rc;
}

/* ---- CSV ------------------------------------------------------------------------------------- */

int jb_export_csv_text(jb_buf *out, const char *text)
{
    jb_buf safe = JB_BUF_INIT(LINE_MAX_BYTES);
    int guard = text[0] && strchr("=+-@\t\r", text[0]) != NULL, rc = jb_text_escape(&safe, text, strlen(text), 0);
    const char *s = safe.ptr ? safe.ptr : "";
    int quote = strpbrk(s, ",\"\r\n") != NULL || s[0] == ' ' || (safe.len && s[safe.len - 1] == ' ');
    if (quote) jb_buf_puts(out, "\"");
    if (guard) jb_buf_puts(out, "'");
    for (; *s; s++) {
        if (*s == '"') jb_buf_puts(out, "\"");
        jb_buf_append(out, s, 1);
    }
    if (quote) jb_buf_puts(out, "\"");
    jb_buf_free(&safe);
    return rc ? rc : out->status;
}

static void csv_value(jb_buf *line, value v)
{
    if (v.text) jb_export_csv_text(line, v.text);
    else if (isnan(v.number)) return;
    else if (v.whole) jb_buf_printf(line, "%.0f", v.number);
    else jb_buf_printf(line, "%.12g", v.number);
}

static int csv_row(const at *a, jb_buf *line)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (i) jb_buf_puts(line, ",");
        csv_value(line, COLUMNS[i].get(a));
    }
    for (size_t g = 0; g < a->r->gate_count; g++) {
        jb_buf_puts(line, ",");
        jb_export_csv_text(line, verdict(a, g));
    }
    return jb_buf_puts(line, "\r\n");
}

static int csv_head(const jb_records *r, jb_buf *line)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++) jb_buf_printf(line, "%s%s", i ? "," : "", COLUMNS[i].name);
    for (size_t g = 0; g < r->gate_count; g++) {
        char name[160];
        snprintf(name, sizeof name, "gate_%.150s", r->gates[g]);
        jb_buf_puts(line, ",");
        jb_export_csv_text(line, name);
    }
    return jb_buf_puts(line, "\r\n");
}

/* ---- rows in turn ------------------------------------------------------------------------------ */

static int each(const jb_records *r, FILE *out, int (*row)(const at *a, jb_buf *line), jb_buf *line)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < r->cell_count; i++) {
        const jb_rec_cell *c = &r->cells[i];
        for (size_t k = 0; rc == 0 && k < c->candidate_count; k++) {
            if (!c->candidates[k].id) continue;
            at a = row_of(r, c, &c->candidates[k]);
            rc = row(&a, line);
            if (rc == 0) rc = put_line(out, line);
        }
    }
    return rc;
}

int jb_export_jsonl(const jb_records *r, FILE *out)
{
    jb_buf line = JB_BUF_INIT(LINE_MAX_BYTES);
    int rc = each(r, out, jsonl_row, &line);
    jb_buf_free(&line);
    return rc;
}

int jb_export_csv(const jb_records *r, FILE *out)
{
    jb_buf line = JB_BUF_INIT(LINE_MAX_BYTES);
    int rc = csv_head(r, &line);
    if (rc == 0) rc = put_line(out, &line);
    if (rc == 0) rc = each(r, out, csv_row, &line);
    jb_buf_free(&line);
    return rc;
}
