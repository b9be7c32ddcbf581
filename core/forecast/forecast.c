/* SPDX-License-Identifier: Apache-2.0 */
/* core/forecast/forecast.c - see plan.h.  Earlier runs come first, then options, prompts
 * and limits; a product of a known and an unknown is unknown. */
#include "core/forecast/forecast.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/suite/template.h"

#include <stdio.h>
#include <string.h>

#define PROMPT_MAX ((size_t)16 << 20)
#define LONG_TOKEN 5.0  /* characters a token at most, of prose and code in English */
#define SHORT_TOKEN 3.0 /* at least; 4 in the middle */
#define COMPILE_S 300   /* limits of core/evaluate/job.c where the study sets none */
#define ALL_STAGES_S (60 + 60 + COMPILE_S + 300 + 300)

static const char *const KEYS[JB_ESTIMATES] = { "samples", "calls", "input_tokens", "output_tokens", "usd", "compile_s", "wall_s" };

const char *jb_estimate_key(unsigned what) { return KEYS[what < JB_ESTIMATES ? what : 0]; }

static jb_estimate between(double low, double high, const char *basis)
{
    jb_estimate e = { low, high, "" };
    snprintf(e.basis, sizeof e.basis, "%s", basis);
    return e;
}

static double product(double a, double b) { return a == 0 || b == 0 ? 0 : a < 0 || b < 0 ? -1 : a * b; }

static jb_estimate scaled(jb_estimate n, double low, double high, const char *basis)
{
    return between(product(n.low, low), product(n.high, high), basis);
}

/* ---- one cell ------------------------------------------------------------------------- */

typedef struct making {
    const jb_study *s;
    const jb_study_cell *c;
    jb_cell_estimate *e;
    jb_history_found found;
    char past[112];        /* "3 cells of 2 earlier runs" */
    int no_model;
    int64_t max_output;    /* 0: not known */
} making;

static int skips_compile(const jb_study *s)
{
    for (size_t i = 0; i < s->skip_count; i++)
        if (!strcmp(s->skip[i], "compile")) return 1;
    return 0;
}

static void samples(making *m)
{
    const jb_study_cell *c = m->c;
    int64_t asked = jb_json_i64(c->method->resolved, "samples", -1);
    jb_estimate *out = &m->e->of[JB_EST_SAMPLES];
    if (c->expected < 0) *out = between(0, c->samples < 0 ? -1 : (double)c->samples, c->samples < 0 ? "not known: the method has no option `samples`" : "budget samples_per_cell");
    else if (c->expected == asked) *out = between((double)asked, (double)asked, "option samples of the method");
    else if (c->expected == c->samples) *out = between(asked < 0 ? 0 : (double)c->samples, (double)c->samples, "budget samples_per_cell");
    else *out = between(1, (double)c->expected, "the most that the method's options allow");
}

static void calls(making *m)
{
    jb_estimate n = m->e->of[JB_EST_SAMPLES], *out = &m->e->of[JB_EST_CALLS];
    if (!m->c->backend) *out = between(0, 0, "the method asks no backend");
    else if (m->found.calls.low >= 0) *out = scaled(n, m->found.calls.low, m->found.calls.high, m->past);
    else *out = between(n.low, n.high, "one call a sample");
}

/* Characters of the longest template of the method, with the workload's facts in it;
 * where it needs more than facts, those of the template and all facts. */
static double prompt_chars(const making *m, jb_error *err)
{
    char **names = NULL;
    const cJSON *fact;
    double most = 0, facts_chars = 0;
    cJSON *facts = jb_study_facts(m->s, m->c->workload, err);
    int64_t n = facts && m->c->method->data_dir ? jb_fs_list(m->c->method->data_dir, &names) : -1;
    cJSON_ArrayForEach(fact, facts)
    {
        if (cJSON_IsString(fact)) facts_chars += (double)strlen(fact->valuestring);
    }
    for (int64_t i = 0; i < n; i++) {
        size_t len = strlen(names[i]);
        char *path = len > 3 && !strcmp(names[i] + len - 3, ".md") ? jb_fs_join(m->c->method->data_dir, names[i]) : NULL;
        jb_buf whole = JB_BUF_INIT(PROMPT_MAX), raw = JB_BUF_INIT(PROMPT_MAX);
        double chars = 0;
        if (path && jb_template_render_file(path, NULL, 0, facts, &whole, NULL) == 0) chars = (double)whole.len;
        else if (path && jb_fs_read(path, PROMPT_MAX, &raw, NULL) == 0) chars = (double)raw.len + facts_chars;
        if (chars > most) most = chars;
        jb_buf_free(&whole);
        jb_buf_free(&raw);
        jb_free(path);
    }
    if (n >= 0) jb_fs_list_free(names, n);
    cJSON_Delete(facts);
    return most;
}

static int tokens(making *m, jb_error *err)
{
    jb_estimate n = m->e->of[JB_EST_CALLS], *in = &m->e->of[JB_EST_INPUT], *out = &m->e->of[JB_EST_OUTPUT];
    if (!m->c->backend || m->no_model) {
        *in = *out = between(0, 0, m->c->backend ? "no model writes the replies" : "the method asks no backend");
        return 0;
    }
    if (m->found.input.low >= 0) {
        *in = scaled(n, m->found.input.low, m->found.input.high, m->past);
        *out = scaled(n, m->found.output.low, m->found.output.high, m->past);
        return 0;
    }
    double chars = prompt_chars(m, err), more = jb_json_i64(m->c->method->resolved, "turns", 1) > 1 ? (double)m->max_output : 0;
    if (err->code) return err->code;
    if (chars <= 0) *in = scaled(n, -1, -1, "not known: the method has no template to measure");
    else *in = scaled(n, chars / LONG_TOKEN, chars / SHORT_TOKEN + more, more > 0 ? "template / 4 chars a token, and the last reply in later turns" : "prompt length / 4 chars a token");
    if (m->max_output > 0) *out = scaled(n, 1, (double)m->max_output, "option max_tokens of the backend");
    else *out = scaled(n, 1, -1, "not known: the backend has no option max_tokens");
    return 0;
}

static void money(making *m)
{
    jb_estimate in = m->e->of[JB_EST_INPUT], out = m->e->of[JB_EST_OUTPUT], *usd = &m->e->of[JB_EST_USD];
    const jb_price_row *row = m->c->backend ? m->c->backend->price : NULL;
    char basis[112];
    if (!m->c->backend) { *usd = between(0, 0, "the method asks no backend"); return; }
    if (!row) { *usd = between(-1, -1, "unpriced: no row of a price file matches the backend"); return; }
    const int64_t *p = row->price.pico;
    double cheap = (double)p[0], dear = (double)p[0];
    for (size_t k = 1; k < 3; k++) {
        if ((double)p[k] < cheap) cheap = (double)p[k];
        if ((double)p[k] > dear) dear = (double)p[k];
    }
    double least = (double)(p[3] < p[4] ? p[3] : p[4]), most = (double)(p[3] > p[4] ? p[3] : p[4]);
    double a = product(in.low, cheap), b = product(out.low, least), c = product(in.high, dear), d = product(out.high, most);
    snprintf(basis, sizeof basis, "%.60s of %.10s on the tokens above", m->s->prices->name, row->valid_from);
    *usd = between(a < 0 || b < 0 ? -1 : (a + b) / 1e12, c < 0 || d < 0 ? -1 : (c + d) / 1e12, basis);
}

static void seconds(making *m)
{
    jb_estimate n = m->e->of[JB_EST_SAMPLES];
    double slots = (double)m->s->slots, limit = jb_json_num(m->s->limits, "compile_s", COMPILE_S);
    jb_estimate *compile = &m->e->of[JB_EST_COMPILE_S], *wall = &m->e->of[JB_EST_WALL_S];
    if (skips_compile(m->s)) *compile = between(0, 0, "compiling is left out");
    else if (m->found.compile_s.low >= 0) *compile = scaled(n, m->found.compile_s.low, m->found.compile_s.high, m->past);
    else *compile = scaled(n, 0, limit, "limit compile_s");
    if (m->found.wall_s.low >= 0) *wall = scaled(n, m->found.wall_s.low / slots, m->found.wall_s.high / slots, m->past);
    else *wall = scaled(n, 0, ALL_STAGES_S / slots, "limits of all stages");
}

static const char *skip_key(const jb_study *s, char *buf, size_t size)
{
    size_t n = 0;
    buf[0] = 0;
    for (size_t i = 0; i < s->skip_count && n < size; i++) n += (size_t)snprintf(buf + n, size - n, "%s%s", i ? "," : "", s->skip[i]);
    return buf;
}

static int cell(const jb_study *s, const jb_study_cell *c, const jb_history *h, jb_cell_estimate *e, jb_error *err)
{
    char skip[64];
    making m = { .s = s, .c = c, .e = e };
    jb_history_query q = { .method = c->method->component->name, .backend = c->backend ? c->backend->component->name : "",
                           .model = c->backend ? jb_json_str(c->backend->resolved, "model", "") : "", .workload = jb_workload_id(c->workload),
                           .check_shape = s->check_shape ? s->check_shape : "", .timed_shape = s->timed_shape ? s->timed_shape : "full",
                           .skip = skip_key(s, skip, sizeof skip) };
    int rc = jb_history_find(h, &q, &m.found, err);
    if (rc != 0) return rc;
    snprintf(m.past, sizeof m.past, "%lld cell%s of %lld earlier run%s in runs/%s", (long long)m.found.cells, m.found.cells == 1 ? "" : "s",
             (long long)m.found.runs, m.found.runs == 1 ? "" : "s", m.found.same_workload ? ", this workload" : ", other workloads");
    m.no_model = c->backend && (c->backend->component->flags & JB_COMP_NO_MODEL);
    m.max_output = c->backend ? jb_json_i64(c->backend->resolved, "max_tokens", 0) : 0;
    samples(&m);
    calls(&m);
    rc = tokens(&m, err);
    money(&m);
    seconds(&m);
    return rc;
}

/* ---- all of them ------------------------------------------------------------------------- */

/* A total is known only when every part is; its basis is the parts' when they agree. */
static void add_up(jb_forecast *p)
{
    for (unsigned k = 0; k < JB_ESTIMATES; k++) {
        jb_estimate *t = &p->total.of[k];
        for (size_t i = 0; i < p->cell_count; i++) {
            const jb_estimate *e = &p->cells[i].of[k];
            t->low = t->low < 0 || e->low < 0 ? -1 : t->low + e->low;
            t->high = t->high < 0 || e->high < 0 ? -1 : t->high + e->high;
            if (i == 0) snprintf(t->basis, sizeof t->basis, "%s", e->basis);
            else if (strcmp(t->basis, e->basis)) snprintf(t->basis, sizeof t->basis, "differs by cell: see --cells");
        }
    }
}

int jb_forecast_make(const jb_study *s, const char *history, jb_forecast **out, jb_error *err)
{
    jb_history *h = NULL;
    jb_forecast *p = jb_alloc(sizeof *p);
    jb_err_clear(err);
    int rc = p && (p->cells = jb_alloc_array(s->cell_count ? s->cell_count : 1, sizeof *p->cells)) ? 0 : jb_err(err, JB_ENOMEM, "forecast: out of memory");
    if (rc == 0) rc = jb_history_open(history, &h, err);
    for (; rc == 0 && p->cell_count < s->cell_count; p->cell_count++) rc = cell(s, &s->cells[p->cell_count], h, &p->cells[p->cell_count], err);
    if (rc == 0) add_up(p);
    jb_history_close(h);
    if (rc == 0) *out = p;
    else jb_forecast_free(p);
    return rc;
}

void jb_forecast_free(jb_forecast *p)
{
    if (!p) return;
    jb_free(p->cells);
    jb_free(p);
}

const char *jb_forecast_verdict(const jb_forecast *p, const jb_study *s, unsigned unit)
{
    const jb_estimate *t = p->total.of;
    double low, high, budget = (double)s->budget.of[unit];
    if (budget < 0) return NULL;
    switch (unit) {
    case JB_UNIT_USD: low = product(t[JB_EST_USD].low, 1e12); high = product(t[JB_EST_USD].high, 1e12); break;
    case JB_UNIT_TOKENS:
        low = t[JB_EST_INPUT].low < 0 || t[JB_EST_OUTPUT].low < 0 ? -1 : t[JB_EST_INPUT].low + t[JB_EST_OUTPUT].low;
        high = t[JB_EST_INPUT].high < 0 || t[JB_EST_OUTPUT].high < 0 ? -1 : t[JB_EST_INPUT].high + t[JB_EST_OUTPUT].high;
        break;
    case JB_UNIT_CALLS: low = t[JB_EST_CALLS].low; high = t[JB_EST_CALLS].high; break;
    case JB_UNIT_COMPILE: low = product(t[JB_EST_COMPILE_S].low, 1e3); high = product(t[JB_EST_COMPILE_S].high, 1e3); break;
    default: low = product(t[JB_EST_WALL_S].low, 1e3); high = product(t[JB_EST_WALL_S].high, 1e3);
    }
    if (high >= 0 && high <= budget) return "fits";
    if (low > budget) return "is reached";
    return high < 0 && low < 0 ? "unknown" : "may be reached";
}
