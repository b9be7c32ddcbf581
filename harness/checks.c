/* SPDX-License-Identifier: Apache-2.0 */
/* harness/checks.c - see checks.h. */
#include "harness/checks.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- checkers ---------------------------------------------------------- */

static void enter(const jb_gates *g, uint32_t row, const char *call)
{
    const jb_plan_row *pr = &g->plan->rows[row];
    if (g->watch.entering == NULL) return;
    g->watch.entering(g->watch.ctx, pr->use, g->gate[row].plugin != NULL ? g->gate[row].plugin : "", g->plan->sets[pr->set].name, call);
}

static void leave(const jb_gates *g)
{
    if (g->watch.entering != NULL) g->watch.entering(g->watch.ctx, NULL, NULL, NULL, NULL);
}

static int create_gate(const jb_gates *all, uint32_t at, const jb_registry *registry, jb_error *err)
{
    const jb_plan_row *row = &all->plan->rows[at];
    const char *set = all->plan->sets[row->set].name;
    jb_gate *g = &all->gate[at];
    int rc = jb_registry_find(registry, JB_KIND_CHECKER, row->use, &g->component, err);
    if (rc == 0) rc = jb_config_new(g->component, row->options, &g->config, err);
    if (rc == 0 && jb_harness_host_init(&g->host, g->component->name, set) != 0) rc = jb_err(err, JB_ENOMEM, "no memory");
    if (rc == 0) {
        const jb_plugin_file *file = jb_registry_file_of(registry, g->component);
        g->plugin = file != NULL && file->manifest != NULL ? file->manifest->id : NULL;
        g->ops = g->component->ops;
        enter(all, at, "create");
        rc = g->ops->create(&g->host.host, jb_config_data(g->config), &g->self, err);
        if (rc != 0) g->ops = NULL; /* nothing to destroy */
    }
    jb_checker_needs needs = { .struct_size = sizeof needs };
    if (rc == 0) {
        enter(all, at, "needs");
        rc = g->ops->needs(g->self, &needs, err);
    }
    leave(all);
    g->needs = needs.flags;
    if (rc != 0) jb_err_context(err, "checker %s of gate set %s", row->use, set);
    return rc;
}

int jb_gates_create(const jb_plan *plan, const jb_registry *registry, jb_gates *out, jb_error *err)
{
    int rc = 0;
    out->plan = plan;
    out->gate = jb_alloc_array(plan->row_count + 1, sizeof *out->gate);
    if (out->gate == NULL) return jb_err(err, JB_ENOMEM, "no memory for %u checkers", plan->row_count);
    for (uint32_t i = 0; rc == 0 && i < plan->row_count; i++) rc = create_gate(out, i, registry, err);
    if (rc != 0) jb_gates_free(out);
    return rc;
}

void jb_gates_free(jb_gates *g)
{
    for (uint32_t i = 0; g->gate != NULL && i < g->plan->row_count; i++) {
        jb_gate *one = &g->gate[i];
        if (one->ops != NULL && one->ops->destroy != NULL) one->ops->destroy(one->self);
        jb_config_free(one->config);
        jb_harness_host_free(&one->host);
    }
    jb_free(g->gate);
    g->gate = NULL;
}

static int wants(const jb_plan_row *row, uint32_t trial)
{
    for (uint32_t i = 0; i < row->trial_count; i++)
        if (row->trials[i] == trial) return 1;
    return 0;
}

/* A checker that reads nothing but the inspection has no trials. */
static int has_trials(const jb_gate *g) { return g->needs != JB_NEED_INSPECTION; }

uint32_t jb_gates_groups(const jb_gates *g, uint32_t trial)
{
    static const uint32_t need[JB_REF_GROUPS] = { 0, JB_NEED_R_JIT, JB_NEED_R_OP, JB_NEED_H };
    uint32_t bits = 0;
    for (uint32_t i = 0; i < g->plan->row_count; i++) {
        if (!has_trials(&g->gate[i]) || !wants(&g->plan->rows[i], trial)) continue;
        bits |= 1u << JB_REF_INPUT;
        for (uint32_t r = 1; r < JB_REF_GROUPS; r++)
            if (g->gate[i].needs & need[r]) bits |= 1u << r;
    }
    return bits;
}

void jb_inspection_read(const cJSON *coverage, jb_inspection *out)
{
    const char *status = jb_json_str(coverage, "status", "unknown");
    memset(out, 0, sizeof *out);
    out->struct_size = sizeof *out;
    out->coverage = strcmp(status, "complete") == 0     ? JB_COVERAGE_COMPLETE
                    : strcmp(status, "incomplete") == 0 ? JB_COVERAGE_INCOMPLETE
                                                        : JB_COVERAGE_UNKNOWN;
    out->blocks = (uint64_t)jb_json_i64(coverage, "blocks", 0);
    out->blocks_missed = (uint64_t)jb_json_i64(coverage, "missed", 0);
    out->blocks_revisited = (uint64_t)jb_json_i64(coverage, "revisited", 0);
    out->input_blocks_unread = (uint64_t)jb_json_i64(coverage, "unread", 0);
    out->detail = jb_json_str(coverage, "detail", "");
}

/* ---- the loop ---------------------------------------------------------- */

typedef struct row_state {
    uint32_t pass, fail, uninformative, unsupported;
    double score, threshold; /* of the worst trial so far */
    char reason[192];
    cJSON *trials;           /* array, owned by the record */
    uint32_t verdict;        /* JB_VERDICT_*, 0: not reached */
} row_state;

typedef struct set_state {
    int stopped;             /* a gate has failed */
    cJSON *json, *rows;
} set_state;

typedef struct run {
    const jb_gates *g;
    const jb_check_source *src;
    row_state *row;
    set_state *set;
    cJSON *record, *check, *gates;
    uint32_t executed;
    int broken;              /* the stage ended early */
} run;

static const char *const TRIAL_WORD[] = { "?", "pass", "fail", "uninformative", "unsupported" };
static const char *const VERDICT_WORD[] = { "skipped", "pass", "fail", "inconclusive" };

static void end_stage(run *r, const char *status, const char *outcome, const char *reason, const char *error)
{
    jb_json_set_str(r->check, "status", status);
    if (outcome != NULL) jb_json_set_str(r->check, "outcome", outcome);
    jb_json_set_str(r->check, "reason", reason);
    if (error != NULL) jb_json_set_str(r->check, "error", error);
    r->broken = 1;
}

static void checker_broke(run *r, uint32_t row, const char *where, const jb_error *err)
{
    const jb_plan_row *pr = &r->g->plan->rows[row];
    char reason[768];
    snprintf(reason, sizeof reason, "checker %s of gate set %s broke in %s: %s", pr->use, r->g->plan->sets[pr->set].name, where,
             err->message[0] != '\0' ? err->message : "no message");
    end_stage(r, "infra", "infra", reason, NULL);
}

/* 0, or an error: a score is a number >= 0 (it may be infinite), a threshold a
 * number, wherever they decide. */
static int sane(double score, double threshold, jb_error *err)
{
    if (isnan(score) || score < 0) return jb_err(err, JB_EINVAL, "it gave a score of %g; a score is a number >= 0", score);
    if (isnan(threshold)) return jb_err(err, JB_EINVAL, "it gave a threshold of %g; a threshold is a number", threshold);
    return 0;
}

/* A checker's result is a plugin's: bounded before it is believed. */
static void tidy(jb_trial_result *t)
{
    t->part[sizeof t->part - 1] = t->reason[sizeof t->reason - 1] = '\0';
    if (t->worst_count > JB_WORST_MAX) t->worst_count = JB_WORST_MAX;
    for (uint32_t i = 0; i < t->worst_count; i++)
        if (t->worst[i].rank > JB_MAX_RANK) t->worst[i].rank = JB_MAX_RANK;
    if (t->status < JB_TRIAL_PASS || t->status > JB_TRIAL_UNSUPPORTED) t->status = JB_TRIAL_UNSUPPORTED;
}

static void put_score(cJSON *o, double score, double threshold)
{
    jb_json_set_num(o, "score", score);
    jb_json_set_num(o, "threshold", threshold);
}

static void record_trial(row_state *row, const jb_plan_trial *t, const jb_trial_result *res)
{
    cJSON *o = cJSON_CreateObject(), *worst;
    if (o == NULL) return;
    jb_json_set_str(o, "shape", t->shape);
    jb_json_set_str(o, "distribution", t->distribution);
    jb_json_set_i64(o, "draw", t->draw);
    jb_json_set_str(o, "status", TRIAL_WORD[res->status]);
    put_score(o, res->score, res->threshold);
    jb_json_set_str(o, "part", res->part);
    jb_json_set_view(o, "reason", (jb_view){ res->reason, strlen(res->reason) });
    worst = jb_json_add_arr(o, "worst");
    for (uint32_t i = 0; i < res->worst_count; i++) {
        cJSON *w = cJSON_CreateObject(), *index = NULL;
        jb_json_set_i64(w, "output", res->worst[i].output);
        index = jb_json_add_arr(w, "index");
        for (uint32_t a = 0; a < res->worst[i].rank; a++) cJSON_AddItemToArray(index, cJSON_CreateNumber((double)res->worst[i].index[a]));
        jb_json_set_num(w, "reference", res->worst[i].reference);
        jb_json_set_num(w, "candidate", res->worst[i].candidate);
        cJSON_AddItemToArray(worst, w);
    }
    cJSON_AddItemToArray(row->trials, o);
}

static void kill_set(run *r, uint32_t row, const jb_plan_trial *t, double score, double threshold, const char *reason)
{
    const jb_plan_row *pr = &r->g->plan->rows[row];
    set_state *set = &r->set[pr->set];
    if (set->stopped) return;
    set->stopped = 1;
    cJSON *killer = jb_json_add_obj(set->json, "killer");
    jb_json_set_str(killer, "gate", pr->use);
    if (t != NULL) {
        jb_json_set_str(killer, "shape", t->shape);
        jb_json_set_str(killer, "distribution", t->distribution);
        jb_json_set_i64(killer, "draw", t->draw);
    }
    put_score(killer, score, threshold);
    jb_json_set_view(killer, "reason", (jb_view){ reason, strlen(reason) });
}

static void fold(run *r, uint32_t row, const jb_plan_trial *t, const jb_trial_result *res)
{
    row_state *s = &r->row[row];
    uint32_t *const counts[] = { NULL, &s->pass, &s->fail, &s->uninformative, &s->unsupported };
    (*counts[res->status])++;
    record_trial(s, t, res);
    int judged = res->status == JB_TRIAL_PASS || res->status == JB_TRIAL_FAIL;
    int first = s->pass + s->fail == 1;
    if (judged && (first || res->status == JB_TRIAL_FAIL || (s->fail == 0 && res->score >= s->score))) {
        s->score = res->score;
        s->threshold = res->threshold;
        snprintf(s->reason, sizeof s->reason, "%s", res->reason);
    }
    if (!judged && s->reason[0] == '\0') snprintf(s->reason, sizeof s->reason, "%s", res->reason);
}

static void ask(run *r, uint32_t row, uint32_t i, const jb_ref_file *ref, const jb_tensor *outputs, uint32_t count)
{
    jb_gate *g = &r->g->gate[row];
    const jb_plan_trial *t = &r->g->plan->trials[i];
    jb_error err = JB_ERROR_INIT;
    jb_trial trial = {
        .struct_size = sizeof trial,
        .output_count = count,
        .reference_count = ref->count[JB_REF_R_JIT] > 0 ? ref->count[JB_REF_R_JIT] : ref->count[JB_REF_R_OP] > 0 ? ref->count[JB_REF_R_OP] : ref->count[JB_REF_H],
        .input_count = (g->needs & JB_NEED_INPUTS) ? ref->count[JB_REF_INPUT] : 0,
        .id = { .struct_size = sizeof trial.id, .draw = t->draw, .shape = t->shape, .distribution = t->distribution },
        .outputs = outputs,
        .r_jit = (g->needs & JB_NEED_R_JIT) ? ref->tensors[JB_REF_R_JIT] : NULL,
        .r_op = (g->needs & JB_NEED_R_OP) ? ref->tensors[JB_REF_R_OP] : NULL,
        .h = (g->needs & JB_NEED_H) ? ref->tensors[JB_REF_H] : NULL,
        .inputs = (g->needs & JB_NEED_INPUTS) ? ref->tensors[JB_REF_INPUT] : NULL,
        .slice_axes = r->src->slice_axes,
    };
    jb_trial_result res = { .struct_size = sizeof res, .status = JB_TRIAL_UNSUPPORTED };
    enter(r->g, row, "trial");
    int rc = g->ops->trial(g->self, &trial, &res, &err);
    leave(r->g);
    jb_arena_reset(g->host.arena);
    int judged = res.status == JB_TRIAL_PASS || res.status == JB_TRIAL_FAIL;
    if (rc == 0 && judged) rc = sane(res.score, res.threshold, &err);
    if (rc != 0) {
        checker_broke(r, row, "trial", &err);
        return;
    }
    tidy(&res);
    if (!judged && !(res.score >= 0)) res.score = 0; /* it decides nothing */
    fold(r, row, t, &res);
    if (res.status == JB_TRIAL_FAIL) kill_set(r, row, t, res.score, res.threshold, res.reason);
}

/* Does a row of a set that still runs want this trial? */
static int asked(const run *r, uint32_t row, uint32_t i)
{
    const jb_plan_row *pr = &r->g->plan->rows[row];
    return has_trials(&r->g->gate[row]) && !r->set[pr->set].stopped && wants(pr, i);
}

/* Group counts that a checker would read past are the cache's fault, not the candidate's. */
static int complete(const jb_ref_file *ref, uint32_t need)
{
    for (uint32_t g = 0; g < JB_REF_GROUPS; g++)
        if ((need & 1u << g) && ref->count[g] == 0) return 0;
    uint32_t n = ref->count[JB_REF_R_JIT], m = ref->count[JB_REF_R_OP], k = ref->count[JB_REF_H];
    return !((n && m && n != m) || (n && k && n != k) || (m && k && m != k));
}

static void run_trial(run *r, uint32_t i)
{
    uint32_t need = 1u << JB_REF_INPUT, askers = 0;
    static const uint32_t flag[JB_REF_GROUPS] = { 0, JB_NEED_R_JIT, JB_NEED_R_OP, JB_NEED_H };
    for (uint32_t row = 0; row < r->g->plan->row_count; row++) {
        if (!asked(r, row, i)) continue;
        askers++;
        for (uint32_t g = 1; g < JB_REF_GROUPS; g++)
            if (r->g->gate[row].needs & flag[g]) need |= 1u << g;
    }
    if (askers == 0) return;
    if (r->src->progress != NULL) r->src->progress(r->src->ctx, i, r->executed, r->g->plan->trial_count);
    const jb_ref_file *ref = r->src->reference(r->src->ctx, i);
    if (ref == NULL || !complete(ref, need)) {
        end_stage(r, "infra", "infra", "the reference of a trial is missing or incomplete", NULL);
        return;
    }
    const jb_tensor *outputs = NULL;
    uint32_t count = 0;
    jb_check_fault fault = { .status = "fail", .outcome = "runtime-error" };
    if (r->src->execute(r->src->ctx, i, ref, &outputs, &count, &fault) != 0) {
        end_stage(r, fault.status, fault.outcome, fault.reason, fault.error);
        jb_free(fault.error);
        return;
    }
    r->executed++;
    for (uint32_t row = 0; row < r->g->plan->row_count && !r->broken; row++)
        if (asked(r, row, i)) ask(r, row, i, ref, outputs, count);
}

/* Ask for a verdict; an error when the checker broke or its score can't decide. */
static int ask_verdict(run *r, uint32_t row, const jb_inspection *inspection, jb_verdict *v, jb_error *err)
{
    jb_gate *g = &r->g->gate[row];
    enter(r->g, row, "verdict");
    int rc = g->ops->verdict(g->self, inspection, v, err);
    leave(r->g);
    jb_arena_reset(g->host.arena);
    if (rc == 0 && (v->verdict == JB_VERDICT_PASS || v->verdict == JB_VERDICT_FAIL)) rc = sane(v->score, v->threshold, err);
    return rc;
}

/* Rows judged by the inspection alone come first: they cost nothing, and a set
 * they fail needs no execution. */
static void static_row(run *r, uint32_t row)
{
    jb_gate *g = &r->g->gate[row];
    row_state *s = &r->row[row];
    jb_inspection unknown = { .struct_size = sizeof unknown, .coverage = JB_COVERAGE_UNKNOWN, .detail = "the module was not inspected" };
    jb_verdict v = { .struct_size = sizeof v, .verdict = JB_VERDICT_INCONCLUSIVE };
    jb_error err = JB_ERROR_INIT;
    if (!JB_HAS(g->ops, jb_checker_ops, verdict) || g->ops->verdict == NULL) {
        jb_err(&err, JB_EABI, "it asks for the inspection and has no verdict function");
        checker_broke(r, row, "verdict", &err);
        return;
    }
    int rc = ask_verdict(r, row, r->src->inspection != NULL ? r->src->inspection : &unknown, &v, &err);
    if (rc != 0) {
        checker_broke(r, row, "verdict", &err);
        return;
    }
    v.reason[sizeof v.reason - 1] = '\0';
    s->verdict = v.verdict >= JB_VERDICT_PASS && v.verdict <= JB_VERDICT_INCONCLUSIVE ? v.verdict : JB_VERDICT_INCONCLUSIVE;
    s->score = v.score;
    s->threshold = v.threshold;
    snprintf(s->reason, sizeof s->reason, "%s", v.reason);
    if (s->verdict == JB_VERDICT_FAIL) kill_set(r, row, NULL, v.score, v.threshold, v.reason);
}

static uint32_t combine(const row_state *s)
{
    if (s->fail > 0) return JB_VERDICT_FAIL;
    if (s->pass > 0) return JB_VERDICT_PASS;
    return s->uninformative + s->unsupported > 0 ? JB_VERDICT_INCONCLUSIVE : 0u;
}

/* A checker's own verdict over its trials, where it has one. */
static void trial_row(run *r, uint32_t row)
{
    jb_gate *g = &r->g->gate[row];
    row_state *s = &r->row[row];
    const jb_plan_row *pr = &r->g->plan->rows[row];
    s->verdict = combine(s);
    uint32_t ran = s->pass + s->fail + s->uninformative + s->unsupported;
    if (r->broken || r->set[pr->set].stopped || ran < pr->trial_count || ran == 0) return;
    if (!JB_HAS(g->ops, jb_checker_ops, verdict) || g->ops->verdict == NULL) return;
    jb_verdict v = { .struct_size = sizeof v, .verdict = s->verdict, .score = s->score, .threshold = s->threshold };
    jb_error err = JB_ERROR_INIT;
    const jb_inspection *inspection = (g->needs & JB_NEED_INSPECTION) ? r->src->inspection : NULL;
    int rc = ask_verdict(r, row, inspection, &v, &err);
    if (rc != 0) {
        checker_broke(r, row, "verdict", &err);
        return;
    }
    if (v.verdict < JB_VERDICT_PASS || v.verdict > JB_VERDICT_INCONCLUSIVE) v.verdict = JB_VERDICT_INCONCLUSIVE;
    v.reason[sizeof v.reason - 1] = '\0';
    s->verdict = v.verdict;
    s->score = v.score;
    s->threshold = v.threshold;
    if (v.reason[0] != '\0') snprintf(s->reason, sizeof s->reason, "%s", v.reason);
    if (s->verdict == JB_VERDICT_FAIL) kill_set(r, row, NULL, v.score, v.threshold, s->reason);
}

/* Why a set is inconclusive: the first gate that could not decide. */
static void say_why(run *r, uint32_t set, int rows)
{
    const jb_plan *p = r->g->plan;
    char reason[320];
    snprintf(reason, sizeof reason, "%s", rows == 0 ? "no gate of this set runs in this phase" : "the check stage ended early");
    for (uint32_t row = 0; row < p->row_count && !r->broken; row++) {
        if (p->rows[row].set != set || r->row[row].verdict == JB_VERDICT_PASS) continue;
        const char *why = r->row[row].reason;
        snprintf(reason, sizeof reason, "%s: %s", p->rows[row].use, why[0] != '\0' ? why : "no informative trial is left");
        break;
    }
    jb_json_set_view(r->set[set].json, "reason", (jb_view){ reason, strlen(reason) });
}

static void write_sets(run *r)
{
    const jb_plan *p = r->g->plan;
    for (uint32_t row = 0; row < p->row_count; row++) {
        row_state *s = &r->row[row];
        cJSON *o = cJSON_CreateObject();
        jb_json_set_str(o, "use", p->rows[row].use);
        jb_json_set_str(o, "when", p->rows[row].when);
        jb_json_set_str(o, "verdict", VERDICT_WORD[s->verdict]);
        if (s->verdict != 0) put_score(o, s->score, s->threshold);
        if (s->reason[0] != '\0') jb_json_set_view(o, "reason", (jb_view){ s->reason, strlen(s->reason) });
        cJSON_AddItemToObject(o, "trials", s->trials);
        s->trials = NULL;
        cJSON_AddItemToArray(r->set[p->rows[row].set].rows, o);
    }
    for (uint32_t set = 0; set < p->set_count; set++) {
        int fail = 0, open = 0, rows = 0;
        for (uint32_t row = 0; row < p->row_count; row++) {
            if (p->rows[row].set != set) continue;
            rows++;
            fail |= r->row[row].verdict == JB_VERDICT_FAIL;
            open |= r->row[row].verdict != JB_VERDICT_PASS;
        }
        /* A stage that ended early has not shown anything to pass. */
        uint32_t verdict = fail ? JB_VERDICT_FAIL : open || rows == 0 || r->broken ? JB_VERDICT_INCONCLUSIVE : JB_VERDICT_PASS;
        jb_json_set_str(r->set[set].json, "verdict", VERDICT_WORD[verdict]);
        if (verdict == JB_VERDICT_INCONCLUSIVE) say_why(r, set, rows);
        cJSON_AddItemToObject(r->set[set].json, "rows", r->set[set].rows);
        r->set[set].rows = NULL;
    }
}

static int begin(run *r)
{
    const jb_plan *p = r->g->plan;
    r->row = jb_alloc_array(p->row_count + 1, sizeof *r->row);
    r->set = jb_alloc_array(p->set_count + 1, sizeof *r->set);
    r->record = cJSON_CreateObject();
    r->check = jb_json_add_obj(r->record, "check");
    r->gates = jb_json_add_obj(r->record, "gates");
    if (r->row == NULL || r->set == NULL || r->check == NULL || r->gates == NULL) return JB_ENOMEM;
    for (uint32_t i = 0; i < p->set_count; i++) {
        r->set[i].json = jb_json_add_obj(r->gates, p->sets[i].name);
        r->set[i].rows = cJSON_CreateArray();
        jb_json_set_str(r->set[i].json, "variant", p->sets[i].variant);
    }
    for (uint32_t i = 0; i < p->row_count; i++) r->row[i].trials = cJSON_CreateArray();
    return 0;
}

cJSON *jb_checks_run(const jb_gates *g, const jb_check_source *src)
{
    run r = { .g = g, .src = src };
    if (begin(&r) == 0) {
        const jb_plan *p = g->plan;
        for (uint32_t row = 0; row < p->row_count && !r.broken; row++)
            if (!has_trials(&g->gate[row])) static_row(&r, row);
        for (uint32_t i = 0; i < p->trial_count && !r.broken; i++) run_trial(&r, i);
        for (uint32_t row = 0; row < p->row_count; row++)
            if (has_trials(&g->gate[row])) trial_row(&r, row);
        write_sets(&r);
        if (!r.broken) jb_json_set_str(r.check, "status", "ok");
        jb_json_set_i64(r.check, "trials", r.executed);
    }
    jb_free(r.row);
    jb_free(r.set);
    return r.record;
}
