/* SPDX-License-Identifier: Apache-2.0 */
/* core/report/reach.c - what a method reaches: the share of its cells with a right
 * (and with a faster) kernel among the first N candidates, and the means of the
 * speedup.  Speed is a fact only where candidate and baseline were timed natively
 * by one timer; without it the numbers are left out and the reason stands there.
 *
 * Let s be baseline / candidate of a cell's best kernel.  A workload's value is the
 * mean of ln s over its cells (seeds), a method's the mean over its workloads:
 *     geomean_floor1         max(1, s); an unsolved cell counts as 1
 *     geomean_fail1          s; an unsolved cell counts as 1
 *     geomean_solved_only    s of solved cells alone; says nothing about the others */
#include "core/base/mem.h"
#include "core/report/internal.h"

#include <math.h>
#include <string.h>

#define CURVE_MAX 1024 /* points of a curve; longer cells are counted in its last one */

/* ---- the first N candidates ------------------------------------------------------ */

typedef struct reach {
    int64_t cells, longest;
    int64_t correct[CURVE_MAX], fast[CURVE_MAX]; /* cells whose first such candidate is number i + 1 */
    int64_t ok, timed; /* right candidates; those with a native time */
} reach;

static int is_faster(const jb_rec_candidate *k) { return k->baseline_us > 0 && k->candidate_us > 0 && k->candidate_us < k->baseline_us; }

/* Candidates that leave the denominator, or have not ended, are no samples. */
static void reach_cell(reach *n, const jb_rec_cell *c)
{
    int64_t at = 0;
    int correct = 0, fast = 0;
    for (size_t i = 0; i < c->candidate_count; i++) {
        const jb_rec_candidate *k = &c->candidates[i];
        if (!k->outcome || jb_outcome_leaves(k->outcome)) continue;
        int64_t slot = at < CURVE_MAX ? at : CURVE_MAX - 1;
        at++;
        if (k->outcome != JB_OUTCOME_OK) continue;
        n->ok++;
        n->timed += k->baseline_us > 0 && k->candidate_us > 0;
        if (!correct) n->correct[slot]++;
        correct = 1;
        if (!fast && is_faster(k)) {
            n->fast[slot]++;
            fast = 1;
        }
    }
    n->cells++;
    if (at > n->longest) n->longest = at;
}

static int put_curve(cJSON *o, const char *key, const int64_t *firsts, const reach *n)
{
    cJSON *list = jb_json_add_arr(o, key);
    int64_t sum = 0, points = n->longest < CURVE_MAX ? n->longest : CURVE_MAX;
    int rc = list ? 0 : JB_ENOMEM;
    for (int64_t i = 0; rc == 0 && i < points; i++) {
        sum += firsts[i];
        cJSON *v = cJSON_CreateNumber((double)sum / (double)n->cells);
        if (!v || !cJSON_AddItemToArray(list, v)) {
            cJSON_Delete(v);
            rc = JB_ENOMEM;
        }
    }
    return rc;
}

static int put_at_samples(cJSON *method, const reach *n)
{
    cJSON *o = jb_json_add_obj(method, "at_samples");
    int rc = o ? jb_json_set_i64(o, "cells", n->cells) : JB_ENOMEM;
    if (rc == 0) rc = put_curve(o, "correct", n->correct, n);
    if (rc == 0 && n->ok && n->timed == n->ok) rc = put_curve(o, "fast1", n->fast, n);
    return rc;
}

/* ---- means of the speedup --------------------------------------------------------- */

typedef struct speed {
    int64_t solved, timed, workloads, solved_workloads, faster;
    double floor1, fail1, solved_only; /* sums of ln over workloads */
} speed;

/* Add the workload of cells[first], whose other cells come later. */
static void add_workload(speed *s, const jb_records *r, size_t pair, size_t first)
{
    double floor1 = 0, fail1 = 0;
    int64_t cells = 0, solved = 0;
    int faster = 0;
    for (size_t i = first; i < r->cell_count; i++) {
        const jb_rec_cell *c = &r->cells[i];
        if (!jb_report_same_pair(c, &r->cells[pair]) || strcmp(c->workload, r->cells[first].workload) != 0) continue;
        cells++;
        if (!jb_report_solved(r, c)) continue;
        const jb_rec_candidate *k = jb_report_best(c);
        s->solved++;
        if (!(k->baseline_us > 0 && k->candidate_us > 0)) continue;
        double ln = log(k->baseline_us / k->candidate_us);
        s->timed++;
        solved++;
        fail1 += ln;
        floor1 += ln > 0 ? ln : 0;
        faster |= ln > 0;
    }
    s->workloads++;
    s->faster += faster;
    s->floor1 += floor1 / (double)cells;
    s->fail1 += fail1 / (double)cells;
    if (!solved) return;
    s->solved_workloads++;
    s->solved_only += fail1 / (double)solved;
}

static int is_first(const jb_records *r, size_t pair, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (jb_report_same_pair(&r->cells[i], &r->cells[pair]) && strcmp(r->cells[i].workload, r->cells[at].workload) == 0) return 0;
    return 1;
}

static int put_speed(cJSON *method, const jb_records *r, size_t pair)
{
    speed s = { 0 };
    cJSON *o = jb_json_add_obj(method, "speed");
    for (size_t i = 0; i < r->cell_count; i++)
        if (jb_report_same_pair(&r->cells[i], &r->cells[pair]) && is_first(r, pair, i)) add_workload(&s, r, pair, i);
    int known = s.solved && s.timed == s.solved;
    int rc = o ? jb_json_set_str(o, "status", known ? "ok" : "n/a") : JB_ENOMEM;
    if (rc == 0 && !known)
        rc = jb_json_set_str(o, "reason", !s.solved ? "no cell is solved" : s.timed ? "not every solved cell was timed natively"
                                                                                : "no kernel was timed natively beside its baseline");
    if (rc == 0) rc = jb_json_set_i64(o, "solved_cells", s.solved);
    if (rc == 0) rc = jb_json_set_i64(o, "timed_cells", s.timed);
    if (rc == 0) rc = jb_json_set_i64(o, "workloads", s.workloads);
    if (rc != 0 || !known) return rc;
    rc = jb_json_set_i64(o, "faster_workloads", s.faster);
    if (rc == 0) rc = jb_json_set_i64(o, "solved_workloads", s.solved_workloads);
    if (rc == 0) rc = jb_json_set_num(o, "geomean_floor1", exp(s.floor1 / (double)s.workloads));
    if (rc == 0) rc = jb_json_set_num(o, "geomean_fail1", exp(s.fail1 / (double)s.workloads));
    return rc ? rc : jb_json_set_num(o, "geomean_solved_only", exp(s.solved_only / (double)s.solved_workloads));
}

int jb_report_put_reach(cJSON *method, const jb_records *r, size_t pair)
{
    reach *n = jb_alloc(sizeof *n);
    if (!n) return JB_ENOMEM;
    for (size_t i = 0; i < r->cell_count; i++)
        if (jb_report_same_pair(&r->cells[i], &r->cells[pair])) reach_cell(n, &r->cells[i]);
    int rc = put_at_samples(method, n);
    jb_free(n);
    return rc ? rc : put_speed(method, r, pair);
}
