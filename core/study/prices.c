/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/prices.c - see prices.h. */
#include "core/study/prices.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"
#include "core/base/yaml.h"

#include <math.h>
#include <string.h>

#define MAX_ROWS 2000
#define MAX_USD_PER_MILLION 1e5
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const KINDS[JB_TOKEN_KINDS] = { "input_uncached", "cache_read", "cache_write", "output", "reasoning" };
/* The file's keys of the five, and which other one stands in for a missing one. */
static const struct { const char *key; int from; } PRICE_KEYS[JB_TOKEN_KINDS] = {
    { "input", -1 }, { "cache_read", 0 }, { "cache_write", 0 }, { "output", -1 }, { "reasoning", 3 },
};
static const char *const FILE_KEYS[] = { "schema", "kind", "date", "currency", "source", "prices" };
static const char *const ROW_KEYS[] = { "backend", "model", "valid_from", "source", "input", "cache_read", "cache_write", "output", "reasoning" };

const jb_price jb_price_free = { { 0 } };

const char *jb_token_kind(size_t kind) { return KINDS[kind < JB_TOKEN_KINDS ? kind : 0]; }

/* ---- reading ------------------------------------------------------------------------ */

typedef struct reading {
    const jb_yaml_doc *doc;
    jb_prices *p;
    jb_error *err;
} reading;

static int is_date(const char *s)
{
    static const char form[] = "dddd-dd-dd";
    if (strlen(s) != sizeof form - 1) return 0;
    for (size_t i = 0; form[i]; i++)
        if (form[i] == 'd' ? s[i] < '0' || s[i] > '9' : s[i] != form[i]) return 0;
    return 1;
}

/* A scalar of `map`; `def` when absent (NULL: required). */
static int text_of(const reading *r, const jb_yaml *map, const char *key, const char *def, char **out)
{
    const jb_yaml *n = jb_yaml_get(map, key);
    const char *text = def;
    if (!n && !def) return jb_yaml_error(r->doc, map, r->err, JB_EINVAL, "lacks the key \"%s\"", key);
    int status = n ? jb_yaml_str(r->doc, n, &text, r->err) : 0;
    if (status) return jb_err_context(r->err, "%s", key), status;
    *out = jb_strdup(text);
    return *out ? 0 : jb_err(r->err, JB_ENOMEM, "out of memory reading prices");
}

static int date_of(const reading *r, const jb_yaml *map, const char *key, const char *def, char **out)
{
    int status = text_of(r, map, key, def, out);
    if (status || is_date(*out)) return status;
    return jb_yaml_error(r->doc, jb_yaml_get(map, key), r->err, JB_EINVAL, "%s must be a date such as 2026-11-30, not \"%.40s\"", key, *out);
}

static int read_prices_of_row(const reading *r, const jb_yaml *n, jb_price *out)
{
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) {
        const jb_yaml *v = jb_yaml_get(n, PRICE_KEYS[k].key);
        double usd;
        if (!v && PRICE_KEYS[k].from < 0) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a price needs `input` and `output`, in dollars a million tokens");
        if (!v) {
            out->pico[k] = out->pico[PRICE_KEYS[k].from];
            continue;
        }
        int status = jb_yaml_f64(r->doc, v, &usd, r->err);
        if (status) return jb_err_context(r->err, "%s", PRICE_KEYS[k].key), status;
        if (!(usd >= 0) || usd > MAX_USD_PER_MILLION)
            return jb_yaml_error(r->doc, v, r->err, JB_EINVAL, "%s must be 0 to %g dollars a million tokens, not %.40s", PRICE_KEYS[k].key, MAX_USD_PER_MILLION, v->text);
        out->pico[k] = llround(usd * 1e6);
    }
    return 0;
}

static int read_row(const reading *r, const jb_yaml *n)
{
    if (n->kind != JB_YAML_MAPPING) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a price is a mapping such as {backend: openai, model: \"m-*\", input: 1, output: 4}");
    jb_price_row *row = &r->p->rows[r->p->count++];
    int status = jb_yaml_only_keys(r->doc, n, ROW_KEYS, COUNT(ROW_KEYS), r->err);
    if (!status && !jb_yaml_get(n, "backend") && !jb_yaml_get(n, "model"))
        status = jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "a price needs `backend` or `model`: a row that matches everything hides a missing price");
    if (!status) status = text_of(r, n, "backend", "*", &row->backend);
    if (!status) status = text_of(r, n, "model", "*", &row->model);
    if (!status) status = date_of(r, n, "valid_from", r->p->date, &row->valid_from);
    if (!status) status = text_of(r, n, "source", jb_yaml_get(jb_yaml_root(r->doc), "source") ? "" : NULL, &row->source);
    return status ? status : read_prices_of_row(r, n, &row->price);
}

static int read_file(const reading *r)
{
    const jb_yaml *root = jb_yaml_root(r->doc), *rows = jb_yaml_get(root, "prices");
    char *word = NULL;
    int64_t schema = 0;
    if (root->kind != JB_YAML_MAPPING) return jb_yaml_error(r->doc, root, r->err, JB_EINVAL, "a price file is a mapping (schema: 1, kind: prices, ...)");
    int status = jb_yaml_only_keys(r->doc, root, FILE_KEYS, COUNT(FILE_KEYS), r->err);
    if (!status && !jb_yaml_get(root, "schema")) status = jb_yaml_error(r->doc, root, r->err, JB_EINVAL, "lacks the key \"schema\"");
    if (!status) status = jb_yaml_i64(r->doc, jb_yaml_get(root, "schema"), &schema, r->err);
    if (!status && schema != 1) status = jb_yaml_error(r->doc, root, r->err, JB_EINVAL, "schema must be 1, not %lld", (long long)schema);
    if (!status) status = text_of(r, root, "kind", NULL, &word);
    if (!status && strcmp(word, "prices")) status = jb_yaml_error(r->doc, jb_yaml_get(root, "kind"), r->err, JB_EINVAL, "kind must be \"prices\", not \"%.40s\"", word);
    jb_free(word);
    word = NULL;
    if (!status) status = text_of(r, root, "currency", NULL, &word);
    if (!status && strcmp(word, "USD")) status = jb_yaml_error(r->doc, jb_yaml_get(root, "currency"), r->err, JB_EINVAL, "currency must be USD, not \"%.40s\": nothing is converted", word);
    jb_free(word);
    if (!status) status = date_of(r, root, "date", NULL, &r->p->date);
    if (!status && (!rows || rows->kind != JB_YAML_SEQUENCE || rows->count > MAX_ROWS))
        status = jb_yaml_error(r->doc, rows ? rows : root, r->err, JB_EINVAL, "prices must be a list of at most %d rows", MAX_ROWS);
    if (!status && !(r->p->rows = jb_alloc_array(rows->count + 1, sizeof *r->p->rows))) status = jb_err(r->err, JB_ENOMEM, "out of memory reading prices");
    for (size_t i = 0; !status && i < rows->count; i++) status = read_row(r, rows->items[i]);
    return status;
}

int jb_prices_parse(const char *text, size_t len, const char *path, jb_prices **out, jb_error *err)
{
    jb_error local = JB_ERROR_INIT;
    if (!err) err = &local;
    const char *slash = strrchr(path, '/');
    jb_prices *p = jb_alloc(sizeof *p);
    int status = p && (p->name = jb_strdup(slash ? slash + 1 : path)) && (p->text = jb_strndup(text, len)) ? jb_hash_bytes(text, len, p->sha256) : JB_ENOMEM;
    if (status) jb_err(err, status, "out of memory reading prices");
    jb_yaml_doc *doc = status ? NULL : jb_yaml_parse(text, len, path, err);
    if (!status && !doc) status = err->code;
    if (!status) {
        reading r = { doc, p, err };
        status = read_file(&r);
    }
    jb_yaml_free(doc);
    if (status) {
        if (status != JB_ENOMEM) err->flags |= JB_ERR_USER;
        jb_prices_free(p);
        return status;
    }
    *out = p;
    return 0;
}

int jb_prices_load(const char *path, jb_prices **out, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(JB_PRICES_MAX_BYTES);
    int status = jb_fs_read(path, JB_PRICES_MAX_BYTES, &text, err);
    if (status == JB_ENOTFOUND) jb_err_hint(err, "a price file is looked up beside the study; its format is in docs/budget.md");
    if (status && status != JB_ENOMEM && err) err->flags |= JB_ERR_USER;
    if (!status) status = jb_prices_parse(text.ptr ? text.ptr : "", text.len, path, out, err);
    jb_buf_free(&text);
    return status;
}

void jb_prices_free(jb_prices *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) {
        jb_free(p->rows[i].backend);
        jb_free(p->rows[i].model);
        jb_free(p->rows[i].valid_from);
        jb_free(p->rows[i].source);
    }
    jb_free(p->rows);
    jb_free(p->name);
    jb_free(p->text);
    jb_free(p->date);
    jb_free(p);
}

/* ---- using ---------------------------------------------------------------------------- */

const jb_price_row *jb_prices_find(const jb_prices *p, const char *backend, const char *model)
{
    for (size_t i = 0; p && i < p->count; i++)
        if (jb_text_glob(p->rows[i].backend, backend) && jb_text_glob(p->rows[i].model, model ? model : "")) return &p->rows[i];
    return NULL;
}

int64_t jb_price_cost(const jb_price *price, const jb_usage *u)
{
    const int64_t n[JB_TOKEN_KINDS] = { u->input_uncached, u->cache_read, u->cache_write, u->output, u->reasoning };
    int64_t sum = 0, one;
    if (!price || n[0] < 0 || n[3] < 0) return -1;
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) {
        if (n[k] <= 0) continue;
        if (__builtin_mul_overflow(n[k], price->pico[k], &one) || __builtin_add_overflow(sum, one, &sum)) return INT64_MAX;
    }
    return sum;
}

cJSON *jb_price_json(const jb_price *price)
{
    cJSON *o = cJSON_CreateObject();
    for (size_t k = 0; o && k < JB_TOKEN_KINDS; k++) {
        if (jb_json_set_num(o, KINDS[k], (double)price->pico[k] / 1e6) == 0) continue;
        cJSON_Delete(o);
        return NULL;
    }
    return o;
}

int jb_price_read(const cJSON *o, jb_price *out)
{
    for (size_t k = 0; k < JB_TOKEN_KINDS; k++) {
        double usd = jb_json_num(o, KINDS[k], -1);
        if (!(usd >= 0) || usd > MAX_USD_PER_MILLION) return JB_EPARSE;
        out->pico[k] = llround(usd * 1e6);
    }
    return 0;
}
