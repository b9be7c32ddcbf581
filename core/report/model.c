/* SPDX-License-Identifier: Apache-2.0 */
/* core/report/model.c - report.json from the records of a run. */
#include "core/base/mem.h"
#include "core/engine/volatile.h"
#include "core/report/internal.h"
#include "core/stats/stats.h"

#include <jaxbench/checker.h>
#include <stdlib.h>
#include <string.h>

#define LIST_MAX 200 /* disagreements listed; all are counted */

char jb_report_letter(uint32_t outcome)
{
    static const char letters[] = "?+nustkpqcCrTx~!-/";
    return outcome < sizeof letters - 1 ? letters[outcome] : '?';
}

/* ---- counting ------------------------------------------------------------------------ */

typedef struct counts {
    int64_t outcome[JB_OUTCOME_COUNT + 1];
    int64_t all, correct; /* `all` without those that leave the denominator */
} counts;

static void count_cell(const jb_rec_cell *c, counts *n)
{
    for (size_t i = 0; i < c->candidate_count; i++) {
        uint32_t o = c->candidates[i].outcome;
        if (!o || o > JB_OUTCOME_COUNT) continue; /* not ended yet */
        n->outcome[o]++;
        if (jb_outcome_leaves(o)) continue;
        n->all++;
        n->correct += o == JB_OUTCOME_OK;
    }
}

static int put_outcomes(cJSON *o, const counts *n)
{
    cJSON *out = jb_json_add_obj(o, "outcomes");
    int rc = out ? 0 : JB_ENOMEM;
    for (uint32_t i = 1; rc == 0 && i <= JB_OUTCOME_COUNT; i++)
        if (n->outcome[i]) rc = jb_json_set_i64(out, jb_outcome_name(i), n->outcome[i]);
    return rc;
}

/* Wilson's 95 % interval of a share, as [low, high]. */
static int put_interval(cJSON *o, const char *key, int64_t successes, int64_t trials)
{
    double low, high;
    jb_stats_wilson(successes, trials, JB_Z95, &low, &high);
    cJSON *interval = jb_json_add_arr(o, key);
    if (!interval || !cJSON_AddItemToArray(interval, cJSON_CreateNumber(low)) || !cJSON_AddItemToArray(interval, cJSON_CreateNumber(high)))
        return JB_ENOMEM;
    return 0;
}

/* "denominator":{"counted","left_out":{...}}, "correct", "rate", "interval". */
static int put_rate(cJSON *o, const counts *n)
{
    cJSON *d = jb_json_add_obj(o, "denominator"), *left = d ? jb_json_add_obj(d, "left_out") : NULL;
    int rc = left ? jb_json_set_i64(d, "counted", n->all) : JB_ENOMEM;
    for (uint32_t i = 1; rc == 0 && i <= JB_OUTCOME_COUNT; i++)
        if (jb_outcome_leaves(i)) rc = jb_json_set_i64(left, jb_outcome_name(i), n->outcome[i]);
    if (rc == 0) rc = jb_json_set_i64(o, "correct", n->correct);
    if (rc == 0 && n->all) rc = jb_json_set_num(o, "rate", (double)n->correct / (double)n->all);
    if (rc == 0) rc = put_interval(o, "interval", n->correct, n->all);
    return rc ? rc : jb_json_set_str(o, "interval_kind", "Wilson 95 %");
}

/* ---- cells ------------------------------------------------------------------------------ */

static int run_has_final(const jb_records *r) { return jb_json_bool(r->manifest, "final_rows", 0); }

const jb_rec_candidate *jb_report_best(const jb_rec_cell *c)
{
    const jb_rec_candidate *first = NULL;
    for (size_t i = 0; i < c->candidate_count; i++) {
        const jb_rec_candidate *k = &c->candidates[i];
        if (k->outcome != JB_OUTCOME_OK) continue;
        if (k->final) return k; /* pass or inconclusive: a failed one is not ok any more */
        if (!first) first = k;
    }
    return first;
}

int jb_report_solved(const jb_records *r, const jb_rec_cell *c)
{
    const jb_rec_candidate *k = jb_report_best(c);
    return k && (!run_has_final(r) || k->final == JB_VERDICT_PASS);
}

static int put_best(cJSON *o, const jb_records *r, const jb_rec_cell *c)
{
    const jb_rec_candidate *k = jb_report_best(c);
    if (!k) return cJSON_AddNullToObject(o, "best") ? 0 : JB_ENOMEM;
    cJSON *b = jb_json_add_obj(o, "best");
    int rc = b ? jb_json_set_i64(b, "candidate", (int64_t)k->id) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(b, "final_rows", k->final == JB_VERDICT_PASS ? "pass" : k->final ? "inconclusive" : run_has_final(r) ? "not run" : "none asked for");
    if (rc == 0) rc = jb_json_set_str(b, "link", k->link[0] ? k->link : "none");
    if (rc == 0) rc = jb_json_set_str(b, "numerics", k->numerics[0] ? k->numerics : "none");
    if (rc == 0 && k->baseline_us > 0 && k->candidate_us > 0) {
        rc = jb_json_set_num(b, "baseline_median_us", k->baseline_us);
        if (rc == 0) rc = jb_json_set_num(b, "candidate_median_us", k->candidate_us);
    }
    return rc;
}

static int put_strip(cJSON *o, const jb_rec_cell *c)
{
    char *strip = jb_alloc(c->candidate_count + 1);
    if (!strip) return JB_ENOMEM;
    for (size_t i = 0; i < c->candidate_count; i++) {
        uint32_t outcome = c->candidates[i].outcome;
        strip[i] = outcome ? jb_report_letter(outcome) : '.';
    }
    int rc = jb_json_set_str(o, "strip", strip);
    jb_free(strip);
    return rc;
}

static int put_cell(cJSON *list, const jb_records *r, const jb_rec_cell *c)
{
    counts n = { 0 };
    cJSON *o = cJSON_CreateObject();
    count_cell(c, &n);
    if (!o || !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return JB_ENOMEM;
    }
    int rc = jb_json_set_str(o, "cell", c->label);
    if (rc == 0) rc = jb_json_set_str(o, "folder", c->key);
    if (rc == 0) rc = jb_json_set_str(o, "workload", c->workload);
    if (rc == 0) rc = jb_json_set_str(o, "name", c->workload_name);
    if (rc == 0) rc = jb_json_set_str(o, "method", c->method);
    if (rc == 0) rc = jb_json_set_str(o, "backend", c->backend);
    if (rc == 0) rc = jb_json_set_i64(o, "seed", c->seed);
    if (rc == 0) rc = jb_json_set_str(o, "state", c->failed ? "failed" : c->ended ? "done" : c->begun ? "running" : "waiting");
    if (rc == 0 && c->failed) rc = jb_json_set_str(o, "message", c->message);
    if (rc == 0) rc = put_strip(o, c);
    if (rc == 0) rc = put_outcomes(o, &n);
    if (rc == 0) rc = put_rate(o, &n);
    if (rc == 0) rc = jb_json_set_bool(o, "solved", jb_report_solved(r, c));
    if (rc == 0) rc = put_best(o, r, c);
    return rc ? rc : jb_report_put_candidates(o, r, c);
}

/* ---- methods x backends -------------------------------------------------------------------- */

int jb_report_same_pair(const jb_rec_cell *a, const jb_rec_cell *b)
{
    return strcmp(a->method, b->method) == 0 && strcmp(a->backend, b->backend) == 0;
}

static int backend_flag(const jb_records *r, const char *backend, const char *flag)
{
    const cJSON *b;
    cJSON_ArrayForEach(b, jb_json_obj(r->manifest, "backends"))
    {
        if (strcmp(jb_json_str(b, "name", ""), backend) == 0) return jb_json_bool(b, flag, 0);
    }
    return 0;
}

/* Workloads of the pair, and how many of them some cell solved. */
static void count_workloads(const jb_records *r, const jb_rec_cell *pair, int64_t *all, int64_t *solved)
{
    *all = *solved = 0;
    for (size_t i = 0; i < r->cell_count; i++) {
        if (!jb_report_same_pair(&r->cells[i], pair)) continue;
        int first = 1, any = 0;
        for (size_t k = 0; k < r->cell_count; k++) {
            if (!jb_report_same_pair(&r->cells[k], pair) || strcmp(r->cells[k].workload, r->cells[i].workload) != 0) continue;
            if (k < i) first = 0;
            any |= jb_report_solved(r, &r->cells[k]);
        }
        *all += first;
        *solved += first && any;
    }
}

static int put_method(cJSON *list, const jb_records *r, size_t at)
{
    const jb_rec_cell *pair = &r->cells[at];
    counts n = { 0 };
    jb_ledger sum;
    int64_t workloads, solved, cells = 0, cells_solved = 0;
    cJSON *o = cJSON_CreateObject(), *ledger;
    jb_ledger_init(&sum, -1);
    if (!o || !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return JB_ENOMEM;
    }
    for (size_t i = 0; i < r->cell_count; i++) {
        if (!jb_report_same_pair(&r->cells[i], pair)) continue;
        count_cell(&r->cells[i], &n);
        jb_ledger_add(&sum, &r->cells[i].ledger);
        cells++;
        cells_solved += jb_report_solved(r, &r->cells[i]);
    }
    count_workloads(r, pair, &workloads, &solved);
    int rc = jb_json_set_str(o, "method", pair->method);
    if (rc == 0) rc = jb_json_set_str(o, "backend", pair->backend);
    if (rc == 0) rc = jb_json_set_bool(o, "no_model", backend_flag(r, pair->backend, "no_model"));
    if (rc == 0) rc = jb_json_set_i64(o, "workloads", workloads);
    if (rc == 0) rc = jb_json_set_i64(o, "solved", solved);
    if (rc == 0) rc = put_interval(o, "solved_interval", solved, workloads);
    if (rc == 0) rc = jb_json_set_i64(o, "cells", cells);
    if (rc == 0) rc = jb_json_set_i64(o, "cells_solved", cells_solved);
    if (rc == 0) rc = put_outcomes(o, &n);
    if (rc == 0) rc = put_rate(o, &n);
    if (rc == 0) rc = jb_report_put_reach(o, r, at);
    ledger = rc == 0 ? jb_ledger_json(&sum) : NULL;
    if (rc == 0 && (!ledger || !cJSON_AddItemToObject(o, "ledger", ledger))) rc = JB_ENOMEM;
    return rc;
}

static int put_methods(cJSON *doc, const jb_records *r)
{
    cJSON *list = jb_json_add_arr(doc, "methods");
    int rc = list ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < r->cell_count; i++) {
        size_t first = 0;
        while (!jb_report_same_pair(&r->cells[first], &r->cells[i])) first++;
        if (first == i) rc = put_method(list, r, i);
    }
    return rc;
}

/* ---- stages, labels, faults ------------------------------------------------------------------ */

static int put_stages(cJSON *doc, const jb_records *r)
{
    static const char *const words[] = { NULL, "ok", "fail", "skipped", "infra" };
    int64_t n[JB_STAGE_COUNT + 1][5] = { { 0 } }, decided[JB_STAGE_COUNT + 1][JB_OUTCOME_COUNT + 1] = { { 0 } };
    for (size_t i = 0; i < r->cell_count; i++) {
        for (size_t k = 0; k < r->cells[i].candidate_count; k++) {
            const jb_rec_candidate *c = &r->cells[i].candidates[k];
            for (uint32_t s = 1; s <= JB_STAGE_COUNT; s++) n[s][c->stages[s]]++;
            if (c->outcome != JB_OUTCOME_OK && c->outcome <= JB_OUTCOME_COUNT && c->stage <= JB_STAGE_COUNT) decided[c->stage][c->outcome]++;
        }
    }
    cJSON *o = jb_json_add_obj(doc, "stages");
    int rc = o ? 0 : JB_ENOMEM;
    for (uint32_t s = 1; rc == 0 && s <= JB_STAGE_COUNT; s++) {
        int64_t known = n[s][1] + n[s][2] + n[s][3] + n[s][4];
        cJSON *row = known ? jb_json_add_obj(o, jb_stage_name(s)) : NULL;
        if (known && !row) rc = JB_ENOMEM;
        for (size_t w = 1; rc == 0 && row && w < 5; w++)
            if (n[s][w]) rc = jb_json_set_i64(row, words[w], n[s][w]);
        cJSON *outcomes = rc == 0 && row ? jb_json_add_obj(row, "decided") : NULL;
        if (rc == 0 && row && !outcomes) rc = JB_ENOMEM;
        for (uint32_t w = 1; rc == 0 && outcomes && w <= JB_OUTCOME_COUNT; w++)
            if (decided[s][w]) rc = jb_json_set_i64(outcomes, jb_outcome_name(w), decided[s][w]);
    }
    return rc;
}

/* Count a word of every candidate that has one: {"structural":12,...}. */
static int put_labels(cJSON *doc, const char *key, const jb_records *r, size_t offset)
{
    cJSON *o = jb_json_add_obj(doc, key);
    int rc = o ? 0 : JB_ENOMEM;
    for (size_t i = 0; i < r->cell_count; i++) {
        for (size_t k = 0; rc == 0 && k < r->cells[i].candidate_count; k++) {
            const char *word = (const char *)&r->cells[i].candidates[k] + offset;
            if (!word[0]) continue;
            cJSON *n = cJSON_GetObjectItemCaseSensitive(o, word);
            if (n) cJSON_SetNumberValue(n, n->valuedouble + 1);
            else rc = jb_json_set_i64(o, word, 1);
        }
    }
    return rc;
}

typedef struct fault { uint32_t outcome; const char *name; int64_t count; } fault;

static int by_count(const void *a, const void *b)
{
    const fault *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    if (x->outcome != y->outcome) return x->outcome < y->outcome ? -1 : 1;
    return strcmp(x->name, y->name);
}

static size_t collect_faults(const jb_records *r, fault *faults)
{
    size_t n = 0;
    for (size_t i = 0; i < r->cell_count; i++) {
        for (size_t k = 0; k < r->cells[i].candidate_count; k++) {
            const jb_rec_candidate *c = &r->cells[i].candidates[k];
            if (!c->fault[0]) continue;
            size_t f = 0;
            while (f < n && (faults[f].outcome != c->outcome || strcmp(faults[f].name, c->fault) != 0)) f++;
            if (f == n) faults[n++] = (fault){ c->outcome, c->fault, 0 };
            faults[f].count++;
        }
    }
    qsort(faults, n, sizeof *faults, by_count);
    return n;
}

static int put_faults(cJSON *doc, const jb_records *r)
{
    size_t total = 0;
    for (size_t i = 0; i < r->cell_count; i++) total += r->cells[i].candidate_count;
    fault *faults = jb_alloc_array(total ? total : 1, sizeof *faults);
    cJSON *list = jb_json_add_arr(doc, "faults");
    int rc = faults && list ? 0 : JB_ENOMEM;
    size_t n = rc == 0 ? collect_faults(r, faults) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++) {
        cJSON *o = cJSON_CreateObject();
        if (!o || !cJSON_AddItemToArray(list, o)) {
            cJSON_Delete(o);
            rc = JB_ENOMEM;
        }
        if (rc == 0) rc = jb_json_set_str(o, "outcome", jb_outcome_name(faults[i].outcome));
        if (rc == 0) rc = jb_json_set_str(o, "fault", faults[i].name);
        if (rc == 0) rc = jb_json_set_i64(o, "count", faults[i].count);
    }
    jb_free(faults);
    return rc;
}

/* ---- gate sets that disagree --------------------------------------------------------------------- */

static int list_candidate(cJSON *list, const jb_rec_cell *c, const jb_rec_candidate *k)
{
    cJSON *o = cJSON_CreateObject();
    if (!o || !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return JB_ENOMEM;
    }
    int rc = jb_json_set_str(o, "cell", c->label);
    if (rc == 0) rc = jb_json_set_i64(o, "candidate", (int64_t)k->id);
    if (rc == 0) rc = jb_json_set_str(o, "outcome", jb_outcome_name(k->outcome));
    return rc ? rc : jb_json_set_str(o, "reason", k->reason);
}

/* Candidates that set g accepts and the headline rejects, and the reverse. */
static int put_pair(cJSON *list, const jb_records *r, size_t g)
{
    cJSON *o = cJSON_CreateObject(), *which;
    int64_t judged = 0, only_g = 0, only_headline = 0;
    if (!o || !cJSON_AddItemToArray(list, o)) {
        cJSON_Delete(o);
        return JB_ENOMEM;
    }
    int rc = jb_json_set_str(o, "accepts", r->gates[g]);
    if (rc == 0) rc = jb_json_set_str(o, "rejects", r->gates[r->headline]);
    which = rc == 0 ? jb_json_add_arr(o, "list") : NULL;
    if (!which) return JB_ENOMEM;
    for (size_t i = 0; i < r->cell_count; i++) {
        for (size_t k = 0; rc == 0 && k < r->cells[i].candidate_count; k++) {
            const jb_rec_candidate *c = &r->cells[i].candidates[k];
            uint8_t a = c->verdicts[g], b = c->verdicts[r->headline];
            judged += a && b;
            only_headline += a == JB_VERDICT_FAIL && b == JB_VERDICT_PASS;
            if (a != JB_VERDICT_PASS || b != JB_VERDICT_FAIL) continue;
            if (only_g++ < LIST_MAX) rc = list_candidate(which, &r->cells[i], c);
        }
    }
    if (rc == 0) rc = jb_json_set_i64(o, "count", only_g);
    if (rc == 0) rc = jb_json_set_i64(o, "reverse", only_headline);
    return rc ? rc : jb_json_set_i64(o, "judged_by_both", judged);
}

static int put_disagreement(cJSON *doc, const jb_records *r)
{
    cJSON *list = jb_json_add_arr(doc, "disagreement");
    int rc = list ? 0 : JB_ENOMEM;
    for (size_t g = 0; rc == 0 && g < r->gate_count; g++)
        if (g != r->headline) rc = put_pair(list, r, g);
    return rc;
}

/* ---- the document ---------------------------------------------------------------------------------- */

static int by_text(const void *a, const void *b) { return strcmp(*(const char *const *)a, *(const char *const *)b); }

/* How many different sources were judged: what the run evaluated, whoever asked first. */
static int put_sources(cJSON *doc, const jb_records *r)
{
    size_t total = 0, n = 0;
    for (size_t i = 0; i < r->cell_count; i++) total += r->cells[i].candidate_count;
    const char **keys = jb_alloc_array(total ? total : 1, sizeof *keys);
    int64_t distinct = 0;
    if (!keys) return JB_ENOMEM;
    for (size_t i = 0; i < r->cell_count; i++)
        for (size_t k = 0; k < r->cells[i].candidate_count; k++)
            if (r->cells[i].candidates[k].source[0]) keys[n++] = r->cells[i].candidates[k].source;
    qsort(keys, n, sizeof *keys, by_text);
    for (size_t i = 0; i < n; i++) distinct += i == 0 || strcmp(keys[i], keys[i - 1]) != 0;
    jb_free(keys);
    return jb_json_set_i64(doc, "distinct_sources", distinct);
}

static int copy_key(cJSON *doc, const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);
    cJSON *copy = v ? cJSON_Duplicate(v, 1) : cJSON_CreateNull();
    if (copy && cJSON_AddItemToObject(doc, key, copy)) return 0;
    cJSON_Delete(copy);
    return JB_ENOMEM;
}

static int put_head(cJSON *doc, const jb_records *r, const char *run_dir)
{
    static const char *const COPIED[] = { "name", "seed", "version", "plan", "started", "run", "gates", "headline", "variant", "shapes", "final_rows", "isolation" };
    int rc = jb_json_set_i64(doc, "schema", 1);
    if (rc == 0) rc = jb_json_set_str(doc, "kind", "report");
    for (size_t i = 0; rc == 0 && i < sizeof COPIED / sizeof COPIED[0]; i++) rc = copy_key(doc, r->manifest, COPIED[i]);
    if (rc == 0) rc = jb_json_set_str(doc, "run_dir", run_dir);
    if (rc == 0) rc = jb_json_set_bool(doc, "complete", r->complete);
    size_t without = 0;
    for (size_t i = 0; i < r->cell_count; i++) without += (size_t)backend_flag(r, r->cells[i].backend, "no_model");
    if (rc == 0) rc = jb_json_set_bool(doc, "no_model", r->cell_count && without == r->cell_count);
    const char *note = without == 0 ? "" : without == r->cell_count ? "no model wrote these candidates"
                                                                      : "no model wrote the candidates of the backends marked so";
    if (rc == 0) rc = jb_json_set_str(doc, "note", note);
    int tiny = strcmp(jb_json_str(jb_json_obj(r->manifest, "shapes"), "check", ""), "tiny") == 0;
    if (rc == 0) rc = jb_json_set_bool(doc, "ranked", !tiny);
    return rc;
}

/* The letters of the strips: {"ok":"+",...}. */
static int put_letters(cJSON *doc)
{
    cJSON *o = jb_json_add_obj(doc, "letters");
    int rc = o ? 0 : JB_ENOMEM;
    for (uint32_t i = 1; rc == 0 && i <= JB_OUTCOME_COUNT; i++) {
        char letter[2] = { jb_report_letter(i), '\0' };
        rc = jb_json_set_str(o, jb_outcome_name(i), letter);
    }
    return rc;
}

/* What judged: device, versions and the walls, as the executor said; null before it was ready. */
static int put_executor(cJSON *doc, const jb_records *r)
{
    static const char *const COPIED[] = { "device", "worker", "python", "jax", "jaxlib", "libtpu", "isolation" };
    if (!r->executor) return cJSON_AddNullToObject(doc, "executor") ? 0 : JB_ENOMEM;
    cJSON *o = jb_json_add_obj(doc, "executor");
    int rc = o ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < sizeof COPIED / sizeof COPIED[0]; i++) rc = copy_key(o, r->executor, COPIED[i]);
    return rc;
}

static int put_ledger(cJSON *doc, const jb_records *r)
{
    jb_ledger sum;
    jb_ledger_init(&sum, -1);
    for (size_t i = 0; i < r->cell_count; i++) jb_ledger_add(&sum, &r->cells[i].ledger);
    cJSON *o = jb_ledger_json(&sum);
    if (o && cJSON_AddItemToObject(doc, "ledger", o)) return 0;
    cJSON_Delete(o);
    return JB_ENOMEM;
}

static int put_timing(cJSON *doc, const jb_records *r)
{
    int64_t native = 0, interpreted = 0;
    for (size_t i = 0; i < r->cell_count; i++) {
        for (size_t k = 0; k < r->cells[i].candidate_count; k++) {
            native += r->cells[i].candidates[k].baseline_us > 0;
            interpreted += r->cells[i].candidates[k].interpreted;
        }
    }
    cJSON *o = jb_json_add_obj(doc, "timing");
    int rc = o ? jb_json_set_i64(o, "native", native) : JB_ENOMEM;
    return rc ? rc : jb_json_set_i64(o, "interpreted", interpreted);
}

cJSON *jb_report_json(const jb_records *r, const char *run_dir, int stable)
{
    counts n = { 0 };
    cJSON *doc = cJSON_CreateObject();
    int rc = doc ? put_head(doc, r, run_dir) : JB_ENOMEM;
    for (size_t i = 0; i < r->cell_count; i++) count_cell(&r->cells[i], &n);
    if (rc == 0) rc = put_executor(doc, r);
    if (rc == 0) rc = put_letters(doc);
    if (rc == 0) rc = put_outcomes(doc, &n);
    if (rc == 0) rc = put_rate(doc, &n);
    if (rc == 0) rc = put_sources(doc, r);
    if (rc == 0) rc = put_methods(doc, r);
    cJSON *cells = rc == 0 ? jb_json_add_arr(doc, "cells") : NULL;
    if (rc == 0 && !cells) rc = JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < r->cell_count; i++) rc = put_cell(cells, r, &r->cells[i]);
    if (rc == 0) rc = put_stages(doc, r);
    if (rc == 0) rc = put_faults(doc, r);
    if (rc == 0) rc = put_disagreement(doc, r);
    if (rc == 0) rc = put_labels(doc, "link", r, offsetof(jb_rec_candidate, link));
    if (rc == 0) rc = put_labels(doc, "coverage", r, offsetof(jb_rec_candidate, coverage));
    if (rc == 0) rc = put_labels(doc, "numerics", r, offsetof(jb_rec_candidate, numerics));
    if (rc == 0) rc = put_timing(doc, r);
    if (rc == 0) rc = put_ledger(doc, r);
    if (rc != 0) {
        cJSON_Delete(doc);
        return NULL;
    }
    if (stable) jb_volatile_strip(doc);
    return doc;
}
