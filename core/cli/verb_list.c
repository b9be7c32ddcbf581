/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_list.c - `jaxbench list KIND`: one row a thing.  A kind is a row
 * of KINDS; its function makes the JSON rows, and the text table is made from
 * those, so the two can't disagree. */
#include "core/cli/internal.h"
#include "core/cli/plugins.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MAX_COLUMNS 8

struct kind {
    const char *name;
    int (*rows)(jb_cli *c, const char *name, cJSON *out, jb_error *err);
    const char *columns[MAX_COLUMNS]; /* keys of the rows, NULL-terminated */
};

static cJSON *row(cJSON *array)
{
    cJSON *o = cJSON_CreateObject();
    if (o && cJSON_AddItemToArray(array, o)) return o;
    cJSON_Delete(o);
    return NULL;
}

static int no_memory(jb_error *err) { return jb_err(err, JB_ENOMEM, "out of memory listing"); }

/* ---- components --------------------------------------------------------------- */

static int component_rows(jb_cli *c, const char *name, cJSON *out, jb_error *err)
{
    const jb_registry *r = jb_cli_registry(c, err);
    size_t k = 0;
    if (!r) return err->code;
    while (strcmp(jb_cli_kinds[k].many, name)) k++;
    for (size_t i = 0; i < jb_registry_count(r, jb_cli_kinds[k].kind); i++) {
        const jb_component *comp = jb_registry_at(r, jb_cli_kinds[k].kind, i);
        const jb_plugin_file *f = jb_registry_file_of(r, comp);
        cJSON *o = row(out);
        int status = o ? jb_json_set_str(o, "name", comp->name) : JB_ENOMEM;
        if (!status) status = jb_json_set_str(o, "kind", comp->kind);
        if (!status) status = jb_json_set_str(o, "summary", comp->summary);
        if (!status) status = jb_json_set_str(o, "plugin", f->manifest->id);
        if (!status) status = jb_json_set_str(o, "version", f->manifest->version);
        if (status) return no_memory(err);
    }
    return 0;
}

/* ---- suites and what is in them --------------------------------------------------- */

static int suite_rows(jb_cli *c, const char *name, cJSON *out, jb_error *err)
{
    const jb_layout *l = jb_cli_layout(c, err);
    char **names = NULL;
    int64_t count = l ? jb_cli_suites(c, &names, err) : -1;
    int status = count < 0 ? err->code : 0;
    (void)name;
    for (int64_t i = 0; i < count && !status; i++) {
        jb_suite *s = NULL;
        char *dir = jb_fs_join(l->suite, names[i]);
        status = dir ? jb_cli_open_suite(c, names[i], &s, err) : no_memory(err);
        cJSON *o = status ? NULL : row(out);
        if (!status && (!o || jb_json_set_str(o, "name", names[i]) || jb_json_set_i64(o, "workloads", (int64_t)jb_suite_count(s)) || jb_json_set_str(o, "dir", dir)))
            status = no_memory(err);
        jb_suite_free(s);
        jb_free(dir);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    return status;
}

static int has_file(const jb_workload *w, const char *file)
{
    char *path = jb_fs_join(jb_workload_dir(w), file);
    int there = path && jb_fs_exists(path);
    jb_free(path);
    return there;
}

static int workload_row(const jb_workload *w, const char *suite, cJSON *o)
{
    static const char *const variants[] = { "published", "repaired" };
    const cJSON *spec = jb_workload_spec(w), *i, *tags = jb_json_obj(spec, "tags");
    int status = jb_json_set_str(o, "id", jb_workload_id(w));
    if (!status) status = jb_json_set_str(o, "name", jb_workload_name(w));
    if (!status) status = jb_json_set_str(o, "suite", suite);
    if (!status) status = jb_json_set_str(o, "tier", jb_json_str(spec, "tier", ""));
    if (!status) status = jb_json_set_str(o, "summary", jb_json_str(spec, "summary", ""));
    cJSON *versions = jb_json_add_obj(o, "versions"), *shapes = jb_json_add_arr(o, "shapes");
    if (!versions || !shapes) return JB_ENOMEM;
    for (size_t k = 0; k < COUNT(variants) && !status; k++) status = jb_json_set_str(versions, variants[k], jb_workload_version(w, variants[k]));
    cJSON_ArrayForEach(i, jb_json_obj(spec, "shapes"))
    {
        cJSON *s = cJSON_CreateString(i->string);
        if (s && cJSON_AddItemToArray(shapes, s)) continue;
        cJSON_Delete(s);
        return JB_ENOMEM;
    }
    if (!status) status = jb_json_set_bool(o, "plain", has_file(w, "plain.py"));
    if (!status) status = jb_json_set_bool(o, "expert", has_file(w, "expert.py"));
    cJSON *copy = status || !tags ? NULL : cJSON_Duplicate(tags, 1);
    if (copy && !cJSON_AddItemToObject(o, "tags", copy)) {
        cJSON_Delete(copy);
        status = JB_ENOMEM;
    }
    return status;
}

static int workload_rows(jb_cli *c, const char *name, cJSON *out, jb_error *err)
{
    char **names = NULL;
    int64_t count = jb_cli_suites(c, &names, err);
    int status = count < 0 ? err->code : 0;
    (void)name;
    for (int64_t i = 0; i < count && !status; i++) {
        jb_suite *s = NULL;
        status = jb_cli_open_suite(c, names[i], &s, err);
        for (size_t k = 0; !status && k < jb_suite_count(s); k++) {
            cJSON *o = row(out);
            if (!o || workload_row(jb_suite_at(s, k), names[i], o)) status = no_memory(err);
        }
        jb_suite_free(s);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    return status;
}

static int gate_row(const char *path, cJSON *out, jb_error *err)
{
    jb_gateset *g = NULL;
    int status = jb_gateset_open(path, &g, err);
    cJSON *o = status ? NULL : row(out);
    if (!status && (!o || jb_json_set_str(o, "name", jb_gateset_name(g)) || jb_json_set_str(o, "variant", jb_gateset_variant(g)) ||
                    jb_json_set_i64(o, "rows", cJSON_GetArraySize(jb_json_obj(jb_gateset_json(g), "rows"))) ||
                    jb_json_set_str(o, "summary", jb_json_str(jb_gateset_json(g), "summary", "")) || jb_json_set_str(o, "hash", jb_gateset_hash(g))))
        status = no_memory(err);
    jb_gateset_free(g);
    return status;
}

static int gate_rows(jb_cli *c, const char *name, cJSON *out, jb_error *err)
{
    const jb_layout *l = jb_cli_layout(c, err);
    char *dir = l ? jb_fs_join(l->suite, "gates") : NULL, **names = NULL;
    int64_t count = dir ? jb_fs_list(dir, &names) : -1;
    int status = !l ? err->code : !dir ? no_memory(err) : 0;
    (void)name;
    for (int64_t i = 0; i < count && !status; i++) {
        char *path = jb_text_glob("*.yaml", names[i]) ? jb_fs_join(dir, names[i]) : NULL;
        if (path) status = gate_row(path, out, err);
        jb_free(path);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    jb_free(dir);
    return status;
}

/* ---- plugins and runs ------------------------------------------------------------------ */

static int plugin_rows(jb_cli *c, const char *name, cJSON *out, jb_error *err)
{
    (void)name;
    return jb_cli_plugin_rows(c, 0, out, err);
}

static int run_rows(jb_cli *c, const char *name, cJSON *out, jb_error *err)
{
    jb_cli_run *runs = NULL;
    size_t count = 0;
    int status = jb_cli_runs(&runs, &count, err);
    (void)c;
    (void)name;
    for (size_t i = 0; i < count && !status; i++) {
        char when[32] = "", size[32];
        time_t t = (time_t)runs[i].changed;
        struct tm tm;
        if (gmtime_r(&t, &tm)) strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%SZ", &tm);
        cJSON *o = row(out);
        if (!o || jb_json_set_str(o, "name", runs[i].path) || jb_json_set_str(o, "study", runs[i].study) || jb_json_set_str(o, "begun", when) ||
            jb_json_set_i64(o, "bytes", runs[i].bytes) || jb_json_set_str(o, "size", jb_text_bytes(size, sizeof size, runs[i].bytes)) ||
            jb_json_set_bool(o, "in_use", runs[i].locked))
            status = no_memory(err);
    }
    jb_cli_runs_free(runs, count);
    return status;
}

/* ---- the table ---------------------------------------------------------------------------- */

static const struct kind KINDS[] = {
    { "workloads", workload_rows, { "id", "name", "suite", "tier", "shapes", "summary", NULL } },
    { "suites", suite_rows, { "name", "workloads", "dir", NULL } },
    { "methods", component_rows, { "name", "version", "summary", NULL } },
    { "backends", component_rows, { "name", "version", "summary", NULL } },
    { "checkers", component_rows, { "name", "version", "summary", NULL } },
    { "timers", component_rows, { "name", "version", "summary", NULL } },
    { "executors", component_rows, { "name", "version", "summary", NULL } },
    { "gates", gate_rows, { "name", "variant", "rows", "summary", NULL } },
    { "plugins", plugin_rows, { "name", "version", "status", "components", "path", NULL } },
    { "runs", run_rows, { "name", "study", "begun", "size", "in_use", NULL } },
};

/* A JSON value as a cell. */
static void cell_text(const cJSON *v, jb_buf *out)
{
    const cJSON *i;
    if (cJSON_IsString(v)) jb_buf_puts(out, v->valuestring);
    else if (cJSON_IsNumber(v)) jb_buf_printf(out, "%.15g", v->valuedouble);
    else if (cJSON_IsBool(v)) jb_buf_puts(out, cJSON_IsTrue(v) ? "yes" : "no");
    else if (cJSON_IsArray(v))
        cJSON_ArrayForEach(i, v)
        {
            if (i != v->child) jb_buf_puts(out, " ");
            cell_text(i, out);
        }
}

static int print_table(jb_cli *c, const struct kind *k, const cJSON *rows)
{
    size_t columns = 0;
    const cJSON *o;
    while (k->columns[columns]) columns++;
    jb_cli_table *t = jb_cli_table_new(columns, k->columns);
    cJSON_ArrayForEach(o, rows)
    {
        jb_buf cells[MAX_COLUMNS];
        const char *texts[MAX_COLUMNS];
        for (size_t i = 0; i < columns; i++) {
            cells[i] = (jb_buf)JB_BUF_INIT(1u << 16);
            cell_text(cJSON_GetObjectItemCaseSensitive(o, k->columns[i]), &cells[i]);
            texts[i] = cells[i].ptr;
        }
        if (t) jb_cli_table_row(t, texts);
        for (size_t i = 0; i < columns; i++) jb_buf_free(&cells[i]);
    }
    if (cJSON_GetArraySize(rows)) return jb_cli_table_print(t, c);
    jb_cli_table_free(t);
    fprintf(c->out, "no %s\n", k->name);
    return 0;
}

static const char *name_key(const struct kind *k) { return k->rows == workload_rows ? "id" : "name"; }

/* Run folders by name alone: their rows take a walk through all of their files. */
static int list_run_names(jb_cli *c)
{
    char **names = NULL;
    int64_t n = jb_fs_list("runs", &names);
    for (int64_t i = 0; i < n; i++) {
        char *manifest = jb_asprintf("runs/%s/manifest.json", names[i]);
        if (manifest && jb_fs_exists(manifest)) fprintf(c->out, "%s\n", names[i]);
        jb_free(manifest);
    }
    if (n >= 0) jb_fs_list_free(names, n);
    return 0;
}

static void print_names(jb_cli *c, const struct kind *k, const cJSON *rows)
{
    const cJSON *o;
    cJSON_ArrayForEach(o, rows)
    {
        jb_buf safe = JB_BUF_INIT(8192);
        const char *name = jb_json_str(o, name_key(k), "?");
        jb_text_escape(&safe, name, strlen(name), 0);
        fprintf(c->out, "%s\n", safe.ptr ? safe.ptr : "?");
        jb_buf_free(&safe);
    }
}

static int list_one(jb_cli *c, const struct kind *k)
{
    jb_error e = JB_ERROR_INIT;
    int names = jb_cli_flag(c, "names") && !c->json;
    if (names && k->rows == run_rows) return list_run_names(c);
    cJSON *rows = cJSON_CreateArray();
    int code = 0, status = rows ? k->rows(c, k->name, rows, &e) : no_memory(&e);
    if (status) code = jb_cli_fail(c, &e);
    else if (c->json) code = jb_cli_print_json(c, rows);
    else if (names) print_names(c, k, rows);
    else if (print_table(c, k, rows)) no_memory(&e), code = jb_cli_fail(c, &e);
    cJSON_Delete(rows);
    return code;
}

/* `jaxbench list` alone: every kind and the names in it.  Runs are left out:
 * their sizes take a walk through all of their files. */
static int list_all(jb_cli *c)
{
    jb_error e = JB_ERROR_INIT;
    cJSON *all = cJSON_CreateObject();
    int code = 0, status = all ? 0 : no_memory(&e);
    for (size_t k = 0; k < COUNT(KINDS) && !status; k++) {
        if (KINDS[k].rows == run_rows) continue;
        cJSON *rows = jb_json_add_arr(all, KINDS[k].name), *o;
        status = rows ? KINDS[k].rows(c, KINDS[k].name, rows, &e) : no_memory(&e);
        if (status || c->json) continue;
        fprintf(c->out, "%s%-10s%s", jb_cli_style(c, 'b'), KINDS[k].name, jb_cli_style(c, '0'));
        cJSON_ArrayForEach(o, rows)
        {
            fprintf(c->out, " %s", jb_json_str(o, name_key(&KINDS[k]), "?"));
        }
        fprintf(c->out, "\n");
    }
    if (status) code = jb_cli_fail(c, &e);
    else if (c->json) code = jb_cli_print_json(c, all);
    cJSON_Delete(all);
    return code;
}

static int run(jb_cli *c)
{
    const char *names[COUNT(KINDS)];
    if (!c->argc && !jb_cli_flag(c, "names")) return list_all(c);
    for (size_t k = 0; !c->argc && k < COUNT(KINDS); k++) fprintf(c->out, "%s\n", KINDS[k].name);
    if (!c->argc) return 0;
    for (size_t k = 0; k < COUNT(KINDS); k++) {
        names[k] = KINDS[k].name;
        if (!strcmp(KINDS[k].name, c->argv[0])) return list_one(c, &KINDS[k]);
    }
    return jb_cli_unknown(c, "kind", c->argv[0], names, COUNT(KINDS));
}

static const jb_cli_option OPTIONS[] = {
    { "names", 0, JB_CLI_FLAG, NULL, "only the names, one a line", NULL },
};

const jb_cli_verb jb_verb_list = {
    "list", "list workloads, methods, backends, checkers, gates, ...", "[KIND]",
    "KIND is one of workloads, suites, methods, backends, checkers, timers, executors, gates, plugins, runs.\n"
    "Without one: the names of every kind.\n\n"
    "  jaxbench list workloads\n"
    "  jaxbench list checkers --json\n",
    OPTIONS, COUNT(OPTIONS), 0, 1, run,
};
