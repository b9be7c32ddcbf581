/* SPDX-License-Identifier: Apache-2.0 */
/* harness/plan.c - see plan.h. */
#include "harness/plan.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdlib.h>
#include <string.h>

#define MAX_DRAWS 64
#define MAX_TRIALS 4096

static const char *const DISTRIBUTION_ORDER[] = { "published", "own", "outlier", "tiny" };
#define KNOWN (sizeof DISTRIBUTION_ORDER / sizeof DISTRIBUTION_ORDER[0])

static size_t rank_of(const char *distribution)
{
    for (size_t i = 0; i < KNOWN; i++)
        if (strcmp(distribution, DISTRIBUTION_ORDER[i]) == 0) return i;
    return KNOWN;
}

static int same_trial(const jb_plan_trial *a, const jb_plan_trial *b)
{
    /* The published draw 0 has no key, so loop and final share it. */
    int keyed = strcmp(a->distribution, "published") != 0 || a->draw != 0;
    return a->draw == b->draw && strcmp(a->variant, b->variant) == 0 && strcmp(a->shape, b->shape) == 0 &&
           strcmp(a->distribution, b->distribution) == 0 && (!keyed || strcmp(a->when, b->when) == 0);
}

static int trial_order(const jb_plan_trial *a, const jb_plan_trial *b)
{
    int fa = strcmp(a->when, "final") == 0, fb = strcmp(b->when, "final") == 0;
    if (fa != fb) return fa - fb;
    size_t ra = rank_of(a->distribution), rb = rank_of(b->distribution);
    if (ra != rb) return ra < rb ? -1 : 1;
    int d = strcmp(a->distribution, b->distribution);
    if (d != 0) return d;
    if (a->draw != b->draw) return a->draw < b->draw ? -1 : 1;
    d = strcmp(a->shape, b->shape);
    return d != 0 ? d : strcmp(a->variant, b->variant);
}

static int by_order(const void *a, const void *b) { return trial_order(a, b); }

static int add_trial(jb_plan *p, const jb_plan_trial *t)
{
    for (uint32_t i = 0; i < p->trial_count; i++)
        if (same_trial(&p->trials[i], t)) {
            if (strcmp(t->when, "loop") == 0) p->trials[i].when = t->when; /* wanted early by one row: early for all */
            return 0;
        }
    if (p->trial_count == MAX_TRIALS) return JB_EINVAL;
    if (p->trial_count % 32 == 0) {
        jb_plan_trial *grown = jb_realloc(p->trials, (p->trial_count + 32) * sizeof *grown);
        if (grown == NULL) return JB_ENOMEM;
        p->trials = grown;
    }
    p->trials[p->trial_count++] = *t;
    return 0;
}

static int contains(const cJSON *array, const char *word)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, array)
        if (cJSON_IsString(item) && strcmp(item->valuestring, word) == 0) return 1;
    return 0;
}

/* The shapes a row is judged at: its own that the job traces, else the job's. */
static const cJSON *shapes_of(const cJSON *job, const cJSON *row)
{
    const cJSON *mine = jb_json_path(row, "over.shapes"), *traced = jb_json_obj(job, "check_shapes"), *item;
    cJSON_ArrayForEach(item, mine)
        if (cJSON_IsString(item) && contains(traced, item->valuestring)) return mine;
    return traced;
}

/* Calls `each` for every trial of a row. */
static int visit_row(const cJSON *job, const cJSON *row, const char *variant, const char *when,
                     int (*each)(void *ctx, const jb_plan_trial *t), void *ctx)
{
    const cJSON *shapes = shapes_of(job, row), *traced = jb_json_obj(job, "check_shapes"), *shape, *draws;
    const cJSON *scales = jb_json_path(job, "workload.scales");
    cJSON_ArrayForEach(shape, shapes) {
        if (!cJSON_IsString(shape) || !contains(traced, shape->valuestring)) continue;
        cJSON_ArrayForEach(draws, jb_json_path(row, "over.draws")) {
            if (!cJSON_IsNumber(draws) || draws->valuedouble < 0 || draws->valuedouble > MAX_DRAWS) return JB_EINVAL;
            for (uint32_t d = 0; d < (uint32_t)draws->valuedouble; d++) {
                jb_plan_trial t = { .variant = variant, .shape = shape->valuestring, .distribution = draws->string, .when = when,
                                    .draw = d, .scale = jb_json_num(scales, draws->string, 1.0) };
                int rc = each(ctx, &t);
                if (rc != 0) return rc;
            }
        }
    }
    return 0;
}

static int collect(void *ctx, const jb_plan_trial *t) { return add_trial(ctx, t); }

typedef struct numbering {
    const jb_plan *plan;
    jb_plan_row *row;
} numbering;

static int number(void *ctx, const jb_plan_trial *t)
{
    numbering *n = ctx;
    for (uint32_t i = 0; i < n->plan->trial_count; i++) {
        if (!same_trial(&n->plan->trials[i], t)) continue;
        if (n->row->trial_count % 16 == 0) {
            uint32_t *grown = jb_realloc(n->row->trials, (n->row->trial_count + 16) * sizeof *grown);
            if (grown == NULL) return JB_ENOMEM;
            n->row->trials = grown;
        }
        n->row->trials[n->row->trial_count++] = i;
        return 0;
    }
    return JB_EINTERNAL;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Does `phase` (loop, final, all) run rows of `when`? */
static int runs(const char *phase, const char *when) { return strcmp(phase, "all") == 0 || strcmp(phase, when) == 0; }

static int add_rows(const cJSON *job, jb_plan *p, jb_error *err)
{
    const char *phase = jb_json_str(job, "phase", "loop");
    const cJSON *set, *row;
    uint32_t s = 0;
    cJSON_ArrayForEach(set, jb_json_obj(job, "gates")) {
        const char *name = jb_json_str(set, "name", NULL), *variant = jb_json_str(set, "variant", "repaired");
        if (name == NULL) return jb_err(err, JB_EINVAL, "gate set %u of the job has no name", s);
        p->sets[s] = (jb_plan_set){ .name = name, .variant = variant };
        cJSON_ArrayForEach(row, jb_json_obj(set, "rows")) {
            const char *use = jb_json_str(row, "use", NULL), *when = jb_json_str(row, "when", "loop");
            if (use == NULL) return jb_err(err, JB_EINVAL, "a row of gate set %s names no checker (`use:`)", name);
            if (strcmp(when, "loop") != 0 && strcmp(when, "final") != 0)
                return jb_err(err, JB_EINVAL, "gate set %s, checker %s: `when:` is \"%s\"; expected loop or final", name, use, when);
            if (!runs(phase, when)) continue;
            p->rows[p->row_count++] = (jb_plan_row){ .set = s, .use = use, .when = when, .options = jb_json_obj(row, "options") };
            int rc = visit_row(job, row, variant, when, collect, p);
            if (rc != 0) return jb_err(err, rc, "gate set %s, checker %s: `over:` is malformed or too long", name, use);
        }
        s++;
    }
    p->set_count = s;
    return 0;
}

static int number_rows(const cJSON *job, jb_plan *p)
{
    const char *phase = jb_json_str(job, "phase", "loop");
    const cJSON *set, *row;
    uint32_t s = 0, r = 0;
    cJSON_ArrayForEach(set, jb_json_obj(job, "gates")) {
        cJSON_ArrayForEach(row, jb_json_obj(set, "rows")) {
            const char *when = jb_json_str(row, "when", "loop");
            if (!runs(phase, when)) continue;
            numbering n = { .plan = p, .row = &p->rows[r++] };
            int rc = visit_row(job, row, p->sets[s].variant, when, number, &n);
            if (rc != 0) return rc;
            if (n.row->trial_count > 1) qsort(n.row->trials, n.row->trial_count, sizeof *n.row->trials, ascending);
        }
        s++;
    }
    return 0;
}

int jb_plan_build(const cJSON *job, jb_plan *out, jb_error *err)
{
    const cJSON *set;
    size_t sets = 0, rows = 0;
    memset(out, 0, sizeof *out);
    cJSON_ArrayForEach(set, jb_json_obj(job, "gates")) {
        sets++;
        rows += (size_t)cJSON_GetArraySize(jb_json_obj(set, "rows"));
    }
    out->sets = jb_alloc_array(sets + 1, sizeof *out->sets);
    out->rows = jb_alloc_array(rows + 1, sizeof *out->rows);
    int rc = out->sets == NULL || out->rows == NULL ? jb_err(err, JB_ENOMEM, "no memory for the plan of a job") : add_rows(job, out, err);
    if (rc == 0) {
        if (out->trial_count > 1) qsort(out->trials, out->trial_count, sizeof *out->trials, by_order);
        rc = number_rows(job, out);
        if (rc != 0) jb_err(err, rc, "numbering the trials of a job failed");
    }
    if (rc != 0) jb_plan_free(out);
    return rc;
}

void jb_plan_free(jb_plan *p)
{
    for (uint32_t i = 0; p->rows != NULL && i < p->row_count; i++) jb_free(p->rows[i].trials);
    jb_free(p->rows);
    jb_free(p->sets);
    jb_free(p->trials);
    memset(p, 0, sizeof *p);
}

/* ---- requests ---------------------------------------------------------- */

static cJSON *request(const cJSON *job, const char *kind, const char *variant, const char *shape)
{
    static const char *const keep[] = { "id", "name", "dir" };
    const cJSON *w = jb_json_obj(job, "workload"), *resolved = jb_json_obj(jb_json_obj(w, "shapes"), shape);
    cJSON *o = cJSON_CreateObject(), *mine = jb_json_add_obj(o, "workload");
    if (mine == NULL) {
        cJSON_Delete(o);
        return NULL;
    }
    jb_json_set_i64(o, "schema", 1);
    jb_json_set_str(o, "kind", kind);
    for (size_t i = 0; i < sizeof keep / sizeof keep[0]; i++) jb_json_set_str(mine, keep[i], jb_json_str(w, keep[i], ""));
    jb_json_set_str(mine, "variant", variant);
    jb_json_set_str(mine, "version", jb_json_str(jb_json_obj(w, "versions"), variant, ""));
    jb_json_set_str(o, "shape", shape);
    cJSON_AddItemToObject(o, "resolved", resolved != NULL ? cJSON_Duplicate(resolved, 1) : cJSON_CreateObject());
    return o;
}

cJSON *jb_plan_request(const cJSON *job, const jb_plan *p, uint32_t i)
{
    const jb_plan_trial *t = &p->trials[i];
    cJSON *o = request(job, "trial", t->variant, t->shape);
    if (o == NULL) return NULL;
    int keyless = strcmp(t->distribution, "published") == 0 && t->draw == 0;
    jb_json_set_str(o, "distribution", t->distribution);
    jb_json_set_i64(o, "draw", t->draw);
    jb_json_set_str(o, "key", keyless ? "" : jb_json_str(jb_json_obj(job, "keys"), t->when, ""));
    jb_json_set_num(o, "scale", t->scale);
    return o;
}

cJSON *jb_plan_base_request(const cJSON *job, const char *variant, const char *shape, const char *platform)
{
    cJSON *o = request(job, "base", variant, shape);
    if (o != NULL) jb_json_set_str(o, "platform", platform);
    return o;
}
