/* SPDX-License-Identifier: Apache-2.0 */
/* core/report/text.c - the report for a person, printed from report.json alone.
 * Every string of it may come from a candidate and is escaped. */
#include "core/base/text.h"
#include "core/report/report.h"

#include <string.h>

#define COLUMNS_MAX 10
#define DISAGREEMENTS_SHOWN 8

typedef struct page {
    FILE *out;
    const jb_report_style *style;
} page;

static const char *mark(const page *p, char c) { return p->style && p->style->style ? p->style->style(p->style->ctx, c) : ""; }

static void heading(const page *p, const char *text) { fprintf(p->out, "\n%s%s%s\n", mark(p, 'b'), text, mark(p, '0')); }

static void put_escaped(const page *p, const char *s)
{
    jb_buf b = JB_BUF_INIT(1u << 16);
    jb_text_escape(&b, s, strlen(s), 0);
    if (b.ptr) fputs(b.ptr, p->out);
    jb_buf_free(&b);
}

/* ---- tables: cells are collected, then padded ------------------------------------------- */

typedef struct table {
    jb_buf cells;             /* NUL-separated */
    size_t columns, rows;
    size_t width[COLUMNS_MAX];
} table;

static size_t columns_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

static void row(table *t, const char *const *cells)
{
    for (size_t i = 0; i < t->columns; i++) {
        size_t begin = t->cells.len;
        jb_text_escape(&t->cells, cells[i], strlen(cells[i]), 0);
        jb_buf_append(&t->cells, "", 1);
        if (!t->cells.ptr || t->cells.status != 0) continue;
        size_t w = columns_of(t->cells.ptr + begin);
        if (w > t->width[i]) t->width[i] = w;
    }
    t->rows++;
}

static void print_table(const page *p, table *t)
{
    const char *cell = t->cells.ptr;
    for (size_t r = 0; cell && t->cells.status == 0 && r < t->rows; r++) {
        fprintf(p->out, "  %s", r == 0 ? mark(p, 'd') : "");
        for (size_t i = 0; i < t->columns; i++) {
            size_t pad = i + 1 < t->columns ? t->width[i] - columns_of(cell) + 2 : 0;
            fprintf(p->out, "%s%*s", cell, (int)pad, "");
            cell += strlen(cell) + 1;
        }
        fprintf(p->out, "%s\n", r == 0 ? mark(p, '0') : "");
    }
    jb_buf_free(&t->cells);
}

/* ---- words ------------------------------------------------------------------------------- */

static const char *rate_text(const cJSON *o, char *buf, size_t n)
{
    const cJSON *d = jb_json_obj(o, "denominator"), *interval = jb_json_obj(o, "interval");
    int64_t counted = jb_json_i64(d, "counted", 0);
    const cJSON *low = cJSON_GetArrayItem(interval, 0), *high = cJSON_GetArrayItem(interval, 1);
    if (counted == 0 || !low || !high) {
        snprintf(buf, n, "0/0");
        return buf;
    }
    snprintf(buf, n, "%lld/%lld = %.0f %% [%.0f, %.0f]", (long long)jb_json_i64(o, "correct", 0), (long long)counted,
             100.0 * jb_json_num(o, "rate", 0), 100.0 * low->valuedouble, 100.0 * high->valuedouble);
    return buf;
}

static int64_t left_out(const cJSON *o)
{
    int64_t n = 0;
    const cJSON *i;
    cJSON_ArrayForEach(i, jb_json_path(o, "denominator.left_out")) n += (int64_t)i->valuedouble;
    return n;
}

/* "ok 5, wrong 2" */
static void list_counts(jb_buf *b, const cJSON *counts)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, counts) jb_buf_printf(b, "%s%s %lld", b->len ? ", " : "", i->string, (long long)i->valuedouble);
}

/* ---- sections -------------------------------------------------------------------------------- */

static void print_head(const page *p, const cJSON *r)
{
    fprintf(p->out, "%s", mark(p, 'b'));
    put_escaped(p, jb_json_str(r, "name", "run"));
    fprintf(p->out, "%s", mark(p, '0'));
    const char *check = jb_json_str(jb_json_obj(r, "shapes"), "check", "");
    fputs("   headline gates: ", p->out);
    put_escaped(p, jb_json_str(r, "headline", "?"));
    if (check[0]) {
        fputs(", shape ", p->out);
        put_escaped(p, check);
    }
    if (!jb_json_bool(r, "complete", 0)) fprintf(p->out, "   %sincomplete%s", mark(p, 'y'), mark(p, '0'));
    fputs("\n", p->out);
    const char *note = jb_json_str(r, "note", "");
    if (note[0]) {
        fprintf(p->out, "%sNote: ", mark(p, 'y'));
        put_escaped(p, note);
        fprintf(p->out, ".%s\n", mark(p, '0'));
    }
    if (!jb_json_bool(r, "ranked", 1)) fprintf(p->out, "%sTiny shapes test the program itself: nothing here is a ranking.%s\n", mark(p, 'y'), mark(p, '0'));
}

/* Cells whose best still waits for its final rows: a run that was interrupted. */
static int64_t waiting_cells(const cJSON *r)
{
    const cJSON *cell;
    int64_t n = 0;
    cJSON_ArrayForEach(cell, jb_json_obj(r, "cells")) n += strcmp(jb_json_str(jb_json_obj(cell, "best"), "final_rows", ""), "not run") == 0;
    return n;
}

static void print_methods(const page *p, const cJSON *r)
{
    static const char *const heads[] = { "method", "backend", "workloads solved", "correct per sample, Wilson 95 %", "left out", "samples" };
    table t = { .cells = JB_BUF_INIT(1u << 22), .columns = 6 };
    const cJSON *m;
    row(&t, heads);
    cJSON_ArrayForEach(m, jb_json_obj(r, "methods"))
    {
        char solved[48], rate[96], left[24], samples[24], backend[160];
        snprintf(solved, sizeof solved, "%lld/%lld", (long long)jb_json_i64(m, "solved", 0), (long long)jb_json_i64(m, "workloads", 0));
        snprintf(left, sizeof left, "%lld", (long long)left_out(m));
        snprintf(samples, sizeof samples, "%lld", (long long)jb_json_i64(jb_json_obj(m, "ledger"), "samples", 0));
        const char *name = jb_json_str(m, "backend", "");
        snprintf(backend, sizeof backend, "%.120s%s", name[0] ? name : "none", jb_json_bool(m, "no_model", 0) ? " (no model)" : "");
        const char *cells[] = { jb_json_str(m, "method", "?"), backend, solved, rate_text(m, rate, sizeof rate), left, samples };
        row(&t, cells);
    }
    heading(p, "Leaderboard");
    print_table(p, &t);
    if (jb_json_bool(r, "final_rows", 0)) fputs("  solved: a candidate is ok and passes the final rows, whose draws the loop never saw\n", p->out);
    int64_t waiting = waiting_cells(r);
    if (waiting) fprintf(p->out, "  %lld cell%s an ok candidate whose final rows are not run yet: not counted as solved\n", (long long)waiting, waiting == 1 ? " has" : "s have");
}

static void best_text(const cJSON *cell, char *buf, size_t n)
{
    const cJSON *best = jb_json_obj(cell, "best");
    if (!best) {
        snprintf(buf, n, "%s", "-");
        return;
    }
    int used = snprintf(buf, n, "#%lld, final rows: %s, link: %s", (long long)jb_json_i64(best, "candidate", 0),
                        jb_json_str(best, "final_rows", "?"), jb_json_str(best, "link", "?"));
    double base = jb_json_num(best, "baseline_median_us", 0), mine = jb_json_num(best, "candidate_median_us", 0);
    if (base > 0 && mine > 0 && used > 0 && (size_t)used < n) /* both timed natively by one timer */
        snprintf(buf + used, n - (size_t)used, ", %.2fx over XLA (measured)", base / mine);
}

static void print_cells(const page *p, const cJSON *r)
{
    static const char *const heads[] = { "cell", "workload", "correct", "candidates in order", "best" };
    table t = { .cells = JB_BUF_INIT(1u << 24), .columns = 5 };
    const cJSON *c;
    int used[256] = { 0 };
    row(&t, heads);
    cJSON_ArrayForEach(c, jb_json_obj(r, "cells"))
    {
        char correct[48], best[200];
        const char *strip = jb_json_str(c, "strip", "");
        snprintf(correct, sizeof correct, "%lld/%lld", (long long)jb_json_i64(c, "correct", 0), (long long)jb_json_i64(jb_json_obj(c, "denominator"), "counted", 0));
        if (strcmp(jb_json_str(c, "state", ""), "failed") == 0) snprintf(best, sizeof best, "failed: %.180s", jb_json_str(c, "message", ""));
        else best_text(c, best, sizeof best);
        for (const char *s = strip; *s; s++) used[(unsigned char)*s] = 1;
        const char *cells[] = { jb_json_str(c, "cell", "?"), jb_json_str(c, "name", ""), correct, strip, best };
        row(&t, cells);
    }
    heading(p, "Workloads");
    print_table(p, &t);
    for (uint32_t o = 1; o <= JB_OUTCOME_COUNT; o++)
        if (used[(unsigned char)jb_report_letter(o)]) fprintf(p->out, "  %c %s", jb_report_letter(o), jb_outcome_name(o));
    fputs("\n", p->out);
}

static void print_stages(const page *p, const cJSON *r)
{
    static const char *const heads[] = { "stage", "ok", "failed", "skipped", "infra", "outcomes decided there" };
    table t = { .cells = JB_BUF_INIT(1u << 16), .columns = 6 };
    const cJSON *s;
    row(&t, heads);
    cJSON_ArrayForEach(s, jb_json_obj(r, "stages"))
    {
        char n[4][24];
        static const char *const keys[] = { "ok", "fail", "skipped", "infra" };
        jb_buf words = JB_BUF_INIT(2048);
        for (size_t i = 0; i < 4; i++) snprintf(n[i], sizeof n[i], "%lld", (long long)jb_json_i64(s, keys[i], 0));
        for (uint32_t o = 1; o <= JB_OUTCOME_COUNT; o++) {
            int64_t count = jb_json_i64(jb_json_obj(s, "decided"), jb_outcome_name(o), 0);
            if (count)
                jb_buf_printf(&words, "%s%s %lld", words.len ? ", " : "", jb_outcome_name(o), (long long)count);
        }
        const char *cells[] = { s->string, n[0], n[1], n[2], n[3], words.ptr ? words.ptr : "" };
        row(&t, cells);
        jb_buf_free(&words);
    }
    heading(p, "Stages");
    print_table(p, &t);
    fputs("  ok: the stage was done; what it found against a candidate is in the last column\n", p->out);
    jb_buf all = JB_BUF_INIT(4096);
    list_counts(&all, jb_json_obj(r, "outcomes"));
    fputs("  outcomes: ", p->out);
    put_escaped(p, all.ptr ? all.ptr : "none");
    fprintf(p->out, "\n  denominator: %lld candidates counted, %lld left out (infra, skipped, cancelled)\n",
            (long long)jb_json_i64(jb_json_obj(r, "denominator"), "counted", 0), (long long)left_out(r));
    jb_buf_free(&all);
}

static void print_faults(const page *p, const cJSON *r)
{
    static const char *const heads[] = { "count", "outcome", "decided by" };
    table t = { .cells = JB_BUF_INIT(1u << 22), .columns = 3 };
    const cJSON *f;
    if (cJSON_GetArraySize(jb_json_obj(r, "faults")) == 0) return;
    row(&t, heads);
    cJSON_ArrayForEach(f, jb_json_obj(r, "faults"))
    {
        char n[24];
        snprintf(n, sizeof n, "%lld", (long long)jb_json_i64(f, "count", 0));
        const char *cells[] = { n, jb_json_str(f, "outcome", "?"), jb_json_str(f, "fault", "?") };
        row(&t, cells);
    }
    heading(p, "Faults");
    print_table(p, &t);
}

static void print_disagreement(const page *p, const cJSON *r)
{
    const cJSON *d, *k;
    if (cJSON_GetArraySize(jb_json_obj(r, "disagreement")) == 0) return;
    heading(p, "Gate sets that disagree");
    cJSON_ArrayForEach(d, jb_json_obj(r, "disagreement"))
    {
        int64_t count = jb_json_i64(d, "count", 0), shown = 0;
        fputs("  ", p->out);
        put_escaped(p, jb_json_str(d, "accepts", "?"));
        fputs(" accepts and ", p->out);
        put_escaped(p, jb_json_str(d, "rejects", "?"));
        fprintf(p->out, " rejects: %s%lld%s of %lld judged by both", mark(p, 'b'), (long long)count, mark(p, '0'),
                (long long)jb_json_i64(d, "judged_by_both", 0));
        if (jb_json_i64(d, "reverse", 0)) fprintf(p->out, " (the reverse: %lld)", (long long)jb_json_i64(d, "reverse", 0));
        fputs("\n", p->out);
        cJSON_ArrayForEach(k, jb_json_obj(d, "list"))
        {
            if (shown++ == DISAGREEMENTS_SHOWN) break;
            fputs("    ", p->out);
            put_escaped(p, jb_json_str(k, "cell", "?"));
            fprintf(p->out, " #%lld: ", (long long)jb_json_i64(k, "candidate", 0));
            put_escaped(p, jb_json_str(k, "reason", ""));
            fputs("\n", p->out);
        }
        if (count > DISAGREEMENTS_SHOWN) fprintf(p->out, "    and %lld more (--json lists them)\n", (long long)(count - DISAGREEMENTS_SHOWN));
    }
}

static void label(const page *p, const cJSON *r, const char *key, const char *text)
{
    jb_buf b = JB_BUF_INIT(1024);
    list_counts(&b, jb_json_obj(r, key));
    fprintf(p->out, "  %-10s ", text);
    put_escaped(p, b.ptr ? b.ptr : "none");
    fputs("\n", p->out);
    jb_buf_free(&b);
}

static void print_labels(const page *p, const cJSON *r)
{
    const cJSON *t = jb_json_obj(r, "timing");
    heading(p, "What the numbers are");
    label(p, r, "numerics", "numerics");
    label(p, r, "link", "link");
    label(p, r, "coverage", "coverage");
    int64_t native = jb_json_i64(t, "native", 0), interpreted = jb_json_i64(t, "interpreted", 0);
    if (native) fprintf(p->out, "  timing     %lld timed natively\n", (long long)native);
    else if (interpreted) fprintf(p->out, "  timing     %lld timed in the interpreter: no speedup is computed from that\n", (long long)interpreted);
    else fputs("  timing     n/a\n", p->out);
}

static void print_money(const page *p, const cJSON *l)
{
    const cJSON *m = jb_json_obj(l, "money"), *usd = cJSON_GetObjectItemCaseSensitive(m, "usd");
    int64_t unpriced = jb_json_i64(m, "unpriced_calls", 0);
    if (!m) return;
    if (cJSON_IsNumber(usd)) fprintf(p->out, "  money: $%.6f", usd->valuedouble);
    else fputs("  money: unpriced", p->out);
    if (cJSON_IsNumber(usd) && unpriced) fprintf(p->out, ", and %lld calls whose price is not known", (long long)unpriced);
    fputs("\n", p->out);
}

static void print_ledger(const page *p, const cJSON *r)
{
    const cJSON *l = jb_json_obj(r, "ledger"), *tokens = jb_json_obj(l, "tokens"), *cost = jb_json_obj(l, "cost");
    int64_t calls = jb_json_i64(l, "calls", 0), unreported = jb_json_i64(l, "calls_without_token_counts", 0);
    heading(p, "Ledger");
    fprintf(p->out, "  %lld samples, %lld calls, %lld failed calls, %lld candidates from %lld sources, %lld duplicates within their cell\n",
            (long long)jb_json_i64(l, "samples", 0), (long long)calls, (long long)jb_json_i64(l, "failed_calls", 0),
            (long long)jb_json_i64(l, "candidates", 0), (long long)jb_json_i64(r, "distinct_sources", 0), (long long)jb_json_i64(l, "duplicates", 0));
    fprintf(p->out, "  tokens: %lld input, %lld cache read, %lld cache write, %lld output, %lld reasoning",
            (long long)jb_json_i64(tokens, "input_uncached", 0), (long long)jb_json_i64(tokens, "cache_read", 0),
            (long long)jb_json_i64(tokens, "cache_write", 0), (long long)jb_json_i64(tokens, "output", 0),
            (long long)jb_json_i64(tokens, "reasoning", 0));
    if (unreported) fprintf(p->out, " (%lld of %lld calls did not report all of them)", (long long)unreported, (long long)calls);
    fputs("\n", p->out);
    print_money(p, l);
    if (cost)
        fprintf(p->out, "  seconds: %.1f trace, %.1f compile, %.1f check; %.1f in all\n", jb_json_num(cost, "trace_s", 0),
                jb_json_num(cost, "compile_s", 0), jb_json_num(cost, "check_s", 0), jb_json_num(cost, "wall_s", 0));
}

/* ---- what the folder lacks ---------------------------------------------------------------- */

static const struct { const char *kind, *then; } BODIES[] = {
    { "prompts", "resume makes them again" },
    { "replies", "resume refuses without them: they were paid for" },
    { "modules", "final rows trace the source again" },
};

void jb_report_print_missing(const cJSON *missing, FILE *out, const jb_report_style *style)
{
    page p = { out, style };
    if (!missing) return;
    fprintf(out, "%sThe folder lacks bodies that its journal names (blobs/):%s\n", mark(&p, 'y'), mark(&p, '0'));
    for (size_t i = 0; i < sizeof BODIES / sizeof BODIES[0]; i++) {
        const cJSON *o = jb_json_obj(missing, BODIES[i].kind), *name;
        int64_t count = jb_json_i64(o, "missing", 0), told = 0;
        if (!o) continue;
        fprintf(out, "  %lld of %lld %s are missing: ", (long long)count, (long long)jb_json_i64(o, "named", 0), BODIES[i].kind);
        cJSON_ArrayForEach(name, jb_json_obj(o, "first"))
        {
            fprintf(out, "%s%.16s", told++ ? ", " : "", cJSON_IsString(name) ? name->valuestring : "?");
        }
        fprintf(out, "%s; %s\n", count > told ? ", ..." : "", BODIES[i].then);
    }
    fputs("  The numbers of the report and the files below cells/ need none of them. Next: restore blobs/ from a copy of the run.\n", out);
}

int jb_report_print(const cJSON *report, FILE *out, const jb_report_style *style)
{
    page p = { out, style };
    print_head(&p, report);
    jb_report_print_missing(jb_json_obj(report, "missing"), out, style);
    print_methods(&p, report);
    print_cells(&p, report);
    print_stages(&p, report);
    print_faults(&p, report);
    print_disagreement(&p, report);
    print_labels(&p, report);
    print_ledger(&p, report);
    const char *dir = jb_json_str(report, "run_dir", "");
    if (dir[0]) {
        fputs("\nThe record lies in ", out);
        put_escaped(&p, dir);
        fputs("\n", out);
    }
    return ferror(out) ? JB_EIO : 0;
}
