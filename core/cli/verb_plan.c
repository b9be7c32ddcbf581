/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_plan.c - jaxbench plan STUDY: the expanded matrix and what it will
 * take (core/forecast), as a table or a document. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/cli/runs.h"
#include "core/forecast/forecast.h"

#include <math.h>
#include <string.h>

static const jb_cli_option OPTIONS[] = {
    { "only", 0, JB_CLI_LIST, "GLOB", "only cells or workloads that match", NULL },
    { "set", 0, JB_CLI_LIST, "K=V", "override a key of the study, e.g. executor.slots=1", NULL },
    { "budget", 0, JB_CLI_LIST, "AMOUNT", "5usd, 2Mtokens, 300calls, 12samples (a cell), 30m, or KEY=VALUE", NULL },
    { "limit", 0, JB_CLI_INT, "N", "only the first N cells", NULL },
    { "cells", 0, JB_CLI_FLAG, NULL, "list every cell", NULL },
};

/* ---- JSON --------------------------------------------------------------------------------- */

static int put_number(cJSON *o, const char *key, double v)
{
    if (v >= 0) return jb_json_set_num(o, key, v);
    return o && cJSON_AddNullToObject(o, key) ? 0 : JB_ENOMEM;
}

static int put_estimates(cJSON *o, const jb_cell_estimate *e)
{
    int rc = o ? 0 : JB_ENOMEM;
    for (unsigned k = 0; rc == 0 && k < JB_ESTIMATES; k++) {
        cJSON *one = jb_json_add_obj(o, jb_estimate_key(k));
        rc = one ? put_number(one, "low", e->of[k].low) : JB_ENOMEM;
        if (rc == 0) rc = put_number(one, "high", e->of[k].high);
        if (rc == 0) rc = jb_json_set_str(one, "basis", e->of[k].basis);
    }
    return rc;
}

static int put_budget(cJSON *o, const jb_study *s, const jb_forecast *p)
{
    static const double SCALE[JB_UNITS] = { 1e12, 1, 1, 1e3, 1e3 };
    int rc = o ? 0 : JB_ENOMEM;
    for (unsigned u = 0; rc == 0 && u < JB_UNITS; u++) {
        const char *verdict = jb_forecast_verdict(p, s, u);
        if (!verdict) continue;
        cJSON *one = jb_json_add_obj(o, u == JB_UNIT_WALL ? "wall_s" : jb_unit_key(u));
        rc = one ? jb_json_set_num(one, "amount", (double)s->budget.of[u] / SCALE[u]) : JB_ENOMEM;
        if (rc == 0) rc = jb_json_set_str(one, "verdict", verdict);
    }
    return rc;
}

static cJSON *document(const jb_study *s, const jb_forecast *p)
{
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(o, "study", s->name);
    if (rc == 0) rc = jb_json_set_str(o, "hash", s->hash);
    if (rc == 0) rc = jb_json_set_i64(o, "slots", s->slots);
    if (rc == 0) rc = put_estimates(jb_json_add_obj(o, "total"), &p->total);
    if (rc == 0) rc = put_budget(jb_json_add_obj(o, "budget"), s, p);
    cJSON *cells = jb_json_add_arr(o, "cells");
    if (!cells) rc = JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < p->cell_count; i++) {
        const jb_study_cell *c = &s->cells[i];
        cJSON *one = cJSON_CreateObject();
        if (!one || !cJSON_AddItemToArray(cells, one)) {
            cJSON_Delete(one);
            rc = JB_ENOMEM;
            break;
        }
        rc = jb_json_set_str(one, "cell", c->name);
        if (rc == 0) rc = jb_json_set_str(one, "workload", jb_workload_id(c->workload));
        if (rc == 0) rc = jb_json_set_str(one, "method", c->method->name);
        if (rc == 0) rc = jb_json_set_str(one, "backend", c->backend ? c->backend->name : "");
        if (rc == 0) rc = jb_json_set_i64(one, "seed", c->seed);
        if (rc == 0) rc = put_estimates(one, &p->cells[i]);
    }
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- text --------------------------------------------------------------------------------- */

static void one_side(char *buf, size_t n, unsigned what, double v)
{
    if (v < 0) snprintf(buf, n, "?");
    else if (what == JB_EST_USD) snprintf(buf, n, v != 0 && v < 0.1 ? "$%.6f" : "$%.2f", v);
    else if (what >= JB_EST_COMPILE_S) jb_text_seconds(buf, n, v);
    else snprintf(buf, n, "%.0f", ceil(v));
}

/* "12", "40 to 96", "1 to ?", "unpriced". */
static char *interval(char *buf, size_t n, unsigned what, const jb_estimate *e)
{
    char low[40], high[40];
    one_side(low, sizeof low, what, e->low);
    one_side(high, sizeof high, what, e->high);
    if (e->low < 0 && e->high < 0) snprintf(buf, n, what == JB_EST_USD && !strncmp(e->basis, "unpriced", 8) ? "unpriced" : "not known");
    else if (!strcmp(low, high)) snprintf(buf, n, "%s", low);
    else snprintf(buf, n, "%s to %s", low, high);
    return buf;
}

static int print_cells(jb_cli *c, const jb_study *s, const jb_forecast *p)
{
    static const char *const HEADS[] = { "cell", "samples", "calls", "in", "out", "money", "compile", "wall" };
    jb_cli_table *t = jb_cli_table_new(JB_ESTIMATES + 1, HEADS);
    if (!t) return JB_ENOMEM;
    for (size_t i = 0; i < p->cell_count; i++) {
        char texts[JB_ESTIMATES][96];
        const char *cells[JB_ESTIMATES + 1] = { s->cells[i].label };
        for (unsigned k = 0; k < JB_ESTIMATES; k++) cells[k + 1] = interval(texts[k], sizeof texts[k], k, &p->cells[i].of[k]);
        jb_cli_table_row(t, cells);
    }
    return jb_cli_table_print(t, c);
}

static int print_text(jb_cli *c, const jb_study *s, const jb_forecast *p)
{
    static const char *const WORDS[JB_ESTIMATES] = { "samples", "calls", "tokens in", "tokens out", "money", "compile", "wall" };
    static const char *const HEADS[] = { "", "estimate", "basis" };
    char text[96];
    int rc = 0;
    fprintf(c->out, "%s: %zu cell%s, plan %.12s; %lld slot%s\n", s->name, s->cell_count, s->cell_count == 1 ? "" : "s", s->hash, (long long)s->slots, s->slots == 1 ? "" : "s");
    if (jb_cli_flag(c, "cells")) rc = print_cells(c, s, p);
    jb_cli_table *t = jb_cli_table_new(3, HEADS);
    if (!t) rc = JB_ENOMEM;
    for (unsigned k = 0; t && k < JB_ESTIMATES; k++) {
        const char *cells[] = { WORDS[k], interval(text, sizeof text, k, &p->total.of[k]), p->total.of[k].basis };
        jb_cli_table_row(t, cells);
    }
    if (t && jb_cli_table_print(t, c) != 0) rc = JB_ENOMEM;
    for (unsigned u = 0; u < JB_UNITS; u++) {
        const char *verdict = jb_forecast_verdict(p, s, u);
        if (verdict) fprintf(c->out, "budget %s of %s: %s\n", jb_unit_key(u), jb_unit_text(text, sizeof text, u, s->budget.of[u]), verdict);
    }
    fprintf(c->out, "Wall is that of evaluations; the time of a provider's answers is not in it.\n");
    return rc;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    jb_study *study = NULL;
    jb_forecast *plan = NULL;
    jb_runs_sets sets = { 0 };
    int code = JB_EXIT_OK;
    const jb_registry *registry = jb_cli_registry(c, &err);
    const jb_layout *layout = registry ? jb_cli_layout(c, &err) : NULL;
    if (!layout) return jb_cli_fail(c, &err);
    jb_study_options o = { .registry = registry, .suite_root = layout->suite, .limit = jb_cli_i64(c, "limit", 0) };
    int rc = jb_runs_sets_read(c, NULL, 0, &sets, &err);
    o.set = (const char *const *)sets.all;
    o.set_count = sets.count;
    o.only = jb_cli_list(c, "only", &o.only_count);
    if (rc == 0) rc = jb_study_load(c->argv[0], &o, &study, &err);
    if (rc == 0) rc = jb_forecast_make(study, "runs", &plan, &err);
    if (rc == 0 && !c->json) rc = print_text(c, study, plan) ? jb_err(&err, JB_ENOMEM, "forecast: out of memory") : 0;
    if (rc != 0) {
        code = jb_cli_fail(c, &err);
    } else if (c->json) {
        cJSON *doc = document(study, plan);
        code = jb_cli_print_json(c, doc);
        cJSON_Delete(doc);
    }
    jb_forecast_free(plan);
    jb_study_free(study);
    jb_runs_sets_free(&sets);
    return code;
}

const jb_cli_verb jb_verb_plan = {
    .name = "plan", .summary = "what a study will take, before it is run", .usage = "STUDY",
    .help = "Cells, samples, calls, tokens, money, compile and wall time, each as an interval with what it rests on:\n"
            "earlier runs below ./runs, options, prompts, limits. Uses no network and starts no worker.\n\n"
            "  jaxbench plan examples/quickstart.yaml --budget 5usd --json",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = 1, .run = run,
};
