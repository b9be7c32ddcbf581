/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/spend.c - the study's `budget` and `prices`: read, matched with the
 * backends, and refused where they could not hold.  Spending itself is the
 * engine's (core/engine/budget.c). */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/text.h"

#include <string.h>

#define COMPILE_S 300 /* limits.compile_s when the study sets none (core/evaluate/job.c) */

static const char SAMPLES[] = "samples_per_cell";

static int read_samples(jb_reading *r, const jb_yaml *n)
{
    int status = jb_yaml_i64(r->doc, n, &r->s->samples_per_cell, r->err);
    if (status) return jb_err_context(r->err, "%s", SAMPLES), status;
    if (r->s->samples_per_cell >= 1 && r->s->samples_per_cell <= 1000000) return 0;
    return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "%s must be 1 to 1000000, not %.40s", SAMPLES, n->text);
}

int jb_study_read_budget(jb_reading *r, const jb_yaml *n)
{
    const char *keys[JB_UNITS + 1] = { SAMPLES }, *text;
    for (unsigned u = 0; u < JB_UNITS; u++) keys[u + 1] = jb_unit_key(u);
    if (n->kind != JB_YAML_MAPPING) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "budget must be a mapping such as {samples_per_cell: 12, usd: 5}");
    int status = jb_yaml_only_keys(r->doc, n, keys, JB_UNITS + 1, r->err);
    const jb_yaml *v = jb_yaml_get(n, SAMPLES);
    if (!status && v) status = read_samples(r, v);
    for (unsigned u = 0; u < JB_UNITS && !status; u++) {
        v = jb_yaml_get(n, jb_unit_key(u));
        if (!v) continue;
        status = jb_yaml_str(r->doc, v, &text, r->err);
        if (status) jb_err_context(r->err, "%s", jb_unit_key(u));
        else if (jb_unit_read(u, text, &r->s->budget.of[u]))
            status = jb_yaml_error(r->doc, v, r->err, JB_EINVAL, "%s must be %s, not \"%.60s\"", jb_unit_key(u), jb_unit_form(u), text);
    }
    return status;
}

int jb_study_read_prices(jb_reading *r, const jb_yaml *n)
{
    const char *text;
    int status = jb_yaml_str(r->doc, n, &text, r->err);
    if (status) return jb_err_context(r->err, "prices"), status;
    if (r->o->prices_text) return jb_prices_parse(r->o->prices_text, strlen(r->o->prices_text), text, &r->s->prices, r->err);
    char *path = text[0] == '/' ? jb_strdup(text) : jb_fs_join(r->base_dir, text);
    status = path ? jb_prices_load(path, &r->s->prices, r->err) : jb_err(r->err, JB_ENOMEM, "out of memory reading prices");
    if (status && status != JB_ENOMEM && !r->err->where[0]) jb_err_where(r->err, jb_yaml_file(r->doc), n->line);
    jb_free(path);
    return status;
}

/* ---- what can't hold ------------------------------------------------------------------ */

static const jb_yaml *budget_node(const jb_reading *r, unsigned unit)
{
    return jb_yaml_get(jb_yaml_get(r->root, "budget"), jb_unit_key(unit));
}

static int unpriced(const jb_reading *r, const jb_study_part *b)
{
    const jb_study *s = r->s;
    const char *model = jb_json_str(b->resolved, "model", "");
    jb_yaml_error(r->doc, budget_node(r, JB_UNIT_USD), r->err, JB_EINVAL, "budget.usd can't be kept: backend %s (%s%s%s) has no price%s%s", b->name,
                  b->component->name, model[0] ? ", model " : "", model, s->prices ? " in " : "", s->prices ? s->prices->name : "");
    if (s->prices) jb_err_hint(r->err, "add a row {backend: %s, model: ...} to the price file, or bound tokens or calls instead", b->component->name);
    else jb_err_hint(r->err, "name a price file (prices: prices-YYYY-MM.yaml, see docs/budget.md), or bound tokens or calls instead");
    return JB_EINVAL;
}

static int compiles(const jb_study *s)
{
    for (size_t i = 0; i < s->skip_count; i++)
        if (!strcmp(s->skip[i], "compile")) return 0;
    return 1;
}

int jb_study_check_spend(jb_reading *r)
{
    jb_study *s = r->s;
    for (size_t i = 0; i < s->backend_count; i++)
        s->backends[i].price = jb_prices_find(s->prices, s->backends[i].component->name, jb_json_str(s->backends[i].resolved, "model", ""));
    for (size_t i = 0; i < s->cell_count && s->budget.of[JB_UNIT_USD] >= 0; i++)
        if (s->cells[i].backend && !s->cells[i].backend->price) return unpriced(r, s->cells[i].backend);
    double limit = jb_json_num(s->limits, "compile_s", COMPILE_S);
    if (s->budget.of[JB_UNIT_COMPILE] < 0 || !compiles(s) || (double)s->budget.of[JB_UNIT_COMPILE] >= 1e3 * limit) return 0;
    jb_yaml_error(r->doc, budget_node(r, JB_UNIT_COMPILE), r->err, JB_EINVAL, "budget.compile_s can't cover one compile: a single one may take %g s", limit);
    jb_err_hint(r->err, "raise it, or lower limits.compile_s");
    return JB_EINVAL;
}
