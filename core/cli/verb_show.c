/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_show.c - `jaxbench show KIND NAME`: everything about one thing:
 * a component's options, a workload's shapes, inputs and figures, a gate set's
 * rows, a plugin's file, a run's manifest.  `--prompt` shows a workload as a
 * model or a person gets it. */
#include "core/cli/internal.h"
#include "core/cli/plugins.h"
#include "core/engine/missing.h"
#include "core/engine/rundir.h"
#include "core/options/options.h"
#include "core/report/report.h"
#include "core/study/study.h"
#include "core/suite/template.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define PROMPT_MAX (8u << 20)

static const char *const VARIANTS[] = { "published", "repaired", NULL };
static const jb_cli_option OPTIONS[] = {
    { "prompt", 0, JB_CLI_FLAG, NULL, "workload: the task as a model gets it", NULL },
    { "method", 0, JB_CLI_TEXT, "NAME", "--prompt: whose template (default best_of_n)", NULL },
    { "gates", 0, JB_CLI_LIST, "A,B", "--prompt: which gate sets judge (default: all)", NULL },
    { "variant", 0, JB_CLI_ENUM, "V", "--prompt: published or repaired (default)", VARIANTS },
};

static int no_memory(jb_error *err) { return jb_err(err, JB_ENOMEM, "out of memory"); }

static void put_text(jb_cli *c, const char *s)
{
    jb_buf safe = JB_BUF_INIT(PROMPT_MAX);
    jb_text_escape(&safe, s, strlen(s), 1);
    if (safe.ptr) fputs(safe.ptr, c->out);
    jb_buf_free(&safe);
}

/* Attach a value that was just made. */
static int put(cJSON *o, const char *key, cJSON *value)
{
    if (o && value && cJSON_AddItemToObject(o, key, value)) return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

/* ---- components ----------------------------------------------------------------- */

static int component_json(jb_cli *c, const jb_registry *r, const jb_component *comp)
{
    const jb_plugin_file *f = jb_registry_file_of(r, comp);
    cJSON *o = cJSON_CreateObject();
    int status = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (!status) status = jb_json_set_str(o, "name", comp->name);
    if (!status) status = jb_json_set_str(o, "kind", comp->kind);
    if (!status) status = jb_json_set_str(o, "summary", comp->summary);
    if (!status) status = jb_json_set_str(o, "help", comp->help ? comp->help : "");
    if (!status) status = jb_json_set_str(o, "plugin", f->manifest->id);
    if (!status) status = jb_json_set_str(o, "version", f->manifest->version);
    if (!status) status = jb_json_set_str(o, "license", f->manifest->license);
    if (!status) status = jb_json_set_str(o, "path", f->path);
    if (!status) status = jb_json_set_str(o, "sha256", jb_registry_hash(r, f));
    if (!status) status = put(o, "options", jb_options_json(comp));
    if (status) cJSON_Delete(o), o = NULL;
    int code = jb_cli_print_json(c, o);
    cJSON_Delete(o);
    return code;
}

static int show_component(jb_cli *c, const char *kind_word, const char *name)
{
    jb_error e = JB_ERROR_INIT;
    const jb_registry *r = jb_cli_registry(c, &e);
    const jb_component *comp = NULL;
    size_t k = 0;
    while (strcmp(jb_cli_kinds[k].one, kind_word)) k++;
    if (!r || jb_registry_find(r, jb_cli_kinds[k].kind, name, &comp, &e)) return jb_cli_fail(c, &e);
    if (c->json) return component_json(c, r, comp);
    const jb_plugin_file *f = jb_registry_file_of(r, comp);
    jb_buf help = JB_BUF_INIT(1u << 20);
    jb_options_help(comp, &help);
    fprintf(c->out, "%s%s%s, a %s: ", jb_cli_style(c, 'b'), comp->name, jb_cli_style(c, '0'), kind_word);
    put_text(c, comp->summary);
    fprintf(c->out, "\nplugin   %s %s (%s)\nfile     %s\nsha256   %s\n", f->manifest->id, f->manifest->version, f->manifest->license, f->path, jb_registry_hash(r, f));
    if (comp->help) fprintf(c->out, "\n"), put_text(c, comp->help), fprintf(c->out, "\n");
    fprintf(c->out, "\nOptions:\n");
    put_text(c, help.len ? help.ptr : "  none\n");
    jb_buf_free(&help);
    return 0;
}

/* ---- workloads --------------------------------------------------------------------- */

static int workload_json(jb_cli *c, const jb_workload *w)
{
    jb_error e = JB_ERROR_INIT;
    cJSON *o = cJSON_Duplicate(jb_workload_spec(w), 1), *versions = o ? jb_json_add_obj(o, "versions") : NULL;
    cJSON *resolved = versions ? jb_json_add_obj(o, "resolved") : NULL;
    const cJSON *shape;
    int status = resolved ? jb_json_set_str(versions, "published", jb_workload_version(w, "published")) : no_memory(&e);
    if (!status) status = jb_json_set_str(versions, "repaired", jb_workload_version(w, "repaired"));
    if (!status) status = jb_json_set_str(o, "dir", jb_workload_dir(w));
    cJSON_ArrayForEach(shape, jb_json_obj(jb_workload_spec(w), "shapes"))
    {
        if (!status && put(resolved, shape->string, jb_workload_resolve(w, shape->string, &e))) status = e.code ? e.code : no_memory(&e);
    }
    int code = status ? jb_cli_fail(c, &e) : jb_cli_print_json(c, o);
    cJSON_Delete(o);
    return code;
}

static void print_shape(jb_cli *c, const char *name, const cJSON *resolved)
{
    static const char *const lists[] = { "inputs", "outputs" };
    const cJSON *row, *dim;
    fprintf(c->out, "  %s: %.4g GFLOP, %.4g MB at least\n", name, jb_json_num(resolved, "flops", 0) / 1e9, jb_json_num(resolved, "min_bytes", 0) / 1e6);
    for (size_t k = 0; k < COUNT(lists); k++)
        cJSON_ArrayForEach(row, jb_json_obj(resolved, lists[k]))
        {
            fprintf(c->out, "    %-10s %s[", jb_json_str(row, "name", "->"), jb_json_str(row, "dtype", ""));
            cJSON_ArrayForEach(dim, jb_json_obj(row, "dims"))
            {
                fprintf(c->out, "%s%.0f", dim == jb_json_obj(row, "dims")->child ? "" : ", ", dim->valuedouble);
            }
            fprintf(c->out, "]%s%s\n", k == 0 ? "  " : "", jb_json_str(row, "role", ""));
        }
}

static void print_sentences(jb_cli *c, const char *title, const cJSON *list)
{
    const cJSON *i;
    if (!cJSON_GetArraySize(list)) return;
    fprintf(c->out, "\n%s:\n", title);
    cJSON_ArrayForEach(i, list)
    {
        fprintf(c->out, "  - ");
        put_text(c, cJSON_IsString(i) ? i->valuestring : "");
        fprintf(c->out, "\n");
    }
}

static int workload_text(jb_cli *c, const jb_workload *w)
{
    jb_error e = JB_ERROR_INIT;
    const cJSON *spec = jb_workload_spec(w), *i;
    fprintf(c->out, "%s%s %s%s (%s): ", jb_cli_style(c, 'b'), jb_workload_id(w), jb_workload_name(w), jb_cli_style(c, '0'), jb_json_str(spec, "tier", ""));
    put_text(c, jb_json_str(spec, "summary", ""));
    fprintf(c->out, "\n\n");
    put_text(c, jb_json_str(spec, "formula", ""));
    fprintf(c->out, "\nShapes:\n");
    cJSON_ArrayForEach(i, jb_json_obj(spec, "shapes"))
    {
        cJSON *resolved = jb_workload_resolve(w, i->string, &e);
        if (!resolved) return jb_cli_fail(c, &e);
        print_shape(c, i->string, resolved);
        cJSON_Delete(resolved);
    }
    if (jb_json_obj(spec, "figures")) fprintf(c->out, "\nPublished figures:\n");
    cJSON_ArrayForEach(i, jb_json_obj(spec, "figures"))
    {
        fprintf(c->out, "  %-16s ", i->string);
        if (cJSON_IsNumber(i)) fprintf(c->out, "%.10g", i->valuedouble);
        else put_text(c, cJSON_IsString(i) ? i->valuestring : "");
        fprintf(c->out, "\n");
    }
    print_sentences(c, "Policies", jb_json_obj(spec, "policies"));
    print_sentences(c, "Known degeneracies of the published inputs", jb_json_obj(spec, "degeneracies"));
    fprintf(c->out, "\nversions:\n  published %s\n  repaired  %s\nfolder   %s\n", jb_workload_version(w, "published"), jb_workload_version(w, "repaired"), jb_workload_dir(w));
    return 0;
}

/* ---- the prompt ------------------------------------------------------------------------ */

/* What a study with these gates would tell its methods: only the fields of a
 * study that facts depend on. */
struct prompt {
    jb_study study;
    char **all; /* names of all gate sets, when none were named */
    int64_t all_count;
};

static int open_set(struct prompt *p, const jb_registry *r, const jb_layout *l, const char *name, size_t len, jb_error *err)
{
    for (size_t i = 0; i < p->study.gate_count; i++) { /* named twice: once */
        const char *known = jb_gateset_name(p->study.gates[i]);
        if (strlen(known) == len && !memcmp(known, name, len)) return 0;
    }
    char *one = jb_strndup(name, len);
    jb_gateset **more = one ? jb_realloc(p->study.gates, (p->study.gate_count + 1) * sizeof *more) : NULL;
    if (more) p->study.gates = more;
    int status = more ? jb_study_open_gates(r, l->suite, ".", one, &more[p->study.gate_count], err) : no_memory(err);
    if (!status) p->study.gate_count++;
    jb_free(one);
    return status;
}

/* "--gates a,b --gates c", or every set there is. */
static int open_sets(jb_cli *c, struct prompt *p, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    size_t count = 0;
    const char *const *lists = jb_cli_list(c, "gates", &count);
    int status = 0;
    p->all_count = count ? 0 : jb_study_list_gates(l->suite, &p->all);
    for (int64_t i = 0; i < p->all_count && !status; i++) status = open_set(p, r, l, p->all[i], strlen(p->all[i]), err);
    for (size_t i = 0; i < count && !status; i++)
        for (const char *s = lists[i]; *s && !status;) {
            size_t n = strcspn(s, ",");
            if (n) status = open_set(p, r, l, s, n, err);
            s += n + (s[n] == ',');
        }
    return status;
}

static int render(jb_cli *c, struct prompt *p, const jb_workload *w, jb_buf *out, jb_error *err)
{
    const jb_layout *l = jb_cli_layout(c, err);
    const jb_registry *r = l ? jb_cli_registry(c, err) : NULL;
    const jb_component *method = NULL;
    char *dir = NULL, *path = NULL;
    cJSON *facts = NULL;
    int status = r ? jb_registry_find(r, JB_KIND_METHOD, jb_cli_text(c, "method", "best_of_n"), &method, err) : err->code;
    if (!status) status = open_sets(c, p, r, l, err);
    if (!status && !((dir = jb_registry_data_dir(r, method)) && (path = jb_fs_join(dir, "prompt.md")))) status = no_memory(err);
    if (!status && !(facts = jb_study_facts(&p->study, w, err))) status = err->code ? err->code : no_memory(err);
    if (!status) status = jb_template_render_file(path, NULL, 0, facts, out, err);
    cJSON_Delete(facts);
    jb_free(path);
    jb_free(dir);
    return status;
}

static int show_prompt(jb_cli *c, const jb_workload *w)
{
    jb_error e = JB_ERROR_INIT;
    struct prompt p = { .study = { .variant = jb_cli_text(c, "variant", "repaired") } };
    jb_buf text = JB_BUF_INIT(PROMPT_MAX);
    int code = render(c, &p, w, &text, &e) ? jb_cli_fail(c, &e) : 0;
    if (!code && c->json) {
        cJSON *doc = cJSON_CreateObject();
        if (!doc || jb_json_set_i64(doc, "schema", 1) || jb_json_set_str(doc, "workload", jb_workload_id(w)) || jb_json_set_view(doc, "prompt", jb_buf_view(&text)))
            cJSON_Delete(doc), doc = NULL;
        code = jb_cli_print_json(c, doc);
        cJSON_Delete(doc);
    } else if (!code) {
        put_text(c, text.ptr);
    }
    for (size_t i = 0; i < p.study.gate_count; i++) jb_gateset_free(p.study.gates[i]);
    jb_free(p.study.gates);
    if (p.all_count >= 0) jb_fs_list_free(p.all, p.all_count);
    jb_buf_free(&text);
    return code;
}

static int show_workload(jb_cli *c, const char *kind, const char *name)
{
    jb_error e = JB_ERROR_INIT;
    jb_suite *suite = NULL;
    const jb_workload *w = NULL;
    (void)kind;
    if (jb_cli_find_workload(c, name, &suite, &w, &e)) return jb_cli_fail(c, &e);
    int code = jb_cli_flag(c, "prompt") ? show_prompt(c, w) : c->json ? workload_json(c, w) : workload_text(c, w);
    jb_suite_free(suite);
    return code;
}

/* ---- gate sets, plugins, suites, runs ------------------------------------------------------ */

static int show_gates(jb_cli *c, const char *kind, const char *name)
{
    jb_error e = JB_ERROR_INIT;
    const jb_layout *l = jb_cli_layout(c, &e);
    const jb_registry *r = l ? jb_cli_registry(c, &e) : NULL;
    jb_gateset *g = NULL;
    jb_buf text = JB_BUF_INIT(1u << 20);
    int code = 0;
    (void)kind;
    if (!r || jb_study_open_gates(r, l->suite, ".", name, &g, &e)) return jb_cli_fail(c, &e);
    if (c->json) {
        cJSON *o = cJSON_Duplicate(jb_gateset_json(g), 1);
        if (o && (jb_json_set_i64(o, "schema", 1) || jb_json_set_str(o, "hash", jb_gateset_hash(g)))) cJSON_Delete(o), o = NULL;
        code = jb_cli_print_json(c, o);
        cJSON_Delete(o);
    } else if (jb_gateset_describe(g, NULL, &text)) {
        no_memory(&e);
        code = jb_cli_fail(c, &e);
    } else {
        put_text(c, text.ptr);
        fprintf(c->out, "hash %s\n", jb_gateset_hash(g));
    }
    jb_buf_free(&text);
    jb_gateset_free(g);
    return code;
}

/* One JSON value as "key value" lines: small documents, for people. */
static void print_flat(jb_cli *c, const cJSON *o)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, o)
    {
        jb_buf text = JB_BUF_INIT(1u << 20);
        if (cJSON_IsString(i)) jb_buf_puts(&text, i->valuestring);
        else jb_json_print(i, &text);
        fprintf(c->out, "%-12s ", i->string);
        put_text(c, text.ptr ? text.ptr : "");
        fprintf(c->out, "\n");
        jb_buf_free(&text);
    }
}

static int show_plugin(jb_cli *c, const char *kind, const char *name)
{
    jb_error e = JB_ERROR_INIT;
    cJSON *rows = cJSON_CreateArray(), *o;
    const char *names[256];
    size_t n = 0;
    int code = -1;
    (void)kind;
    if (!rows || jb_cli_plugin_rows(c, 1, rows, &e)) {
        if (!rows) no_memory(&e);
        cJSON_Delete(rows);
        return jb_cli_fail(c, &e);
    }
    cJSON_ArrayForEach(o, rows)
    {
        if (n < 256) names[n++] = jb_json_str(o, "name", "");
        if (code >= 0 || strcmp(jb_json_str(o, "name", ""), name)) continue;
        code = 0;
        if (c->json) code = jb_cli_print_json(c, o);
        else print_flat(c, o);
    }
    if (code < 0) code = jb_cli_unknown(c, "plugin", name, names, n);
    cJSON_Delete(rows);
    return code;
}

static int show_suite(jb_cli *c, const char *kind, const char *name)
{
    jb_error e = JB_ERROR_INIT;
    jb_suite *s = NULL;
    char **names = NULL;
    int64_t count = jb_cli_suites(c, &names, &e);
    int known = 0, code = 0;
    (void)kind;
    if (count < 0) return jb_cli_fail(c, &e);
    for (int64_t i = 0; i < count; i++) known |= !strcmp(names[i], name);
    if (!known) code = jb_cli_unknown(c, "suite", name, (const char *const *)names, (size_t)count);
    else if (jb_cli_open_suite(c, name, &s, &e)) code = jb_cli_fail(c, &e);
    jb_fs_list_free(names, count);
    if (code) return code;
    cJSON *o = cJSON_CreateObject(), *list = o ? jb_json_add_arr(o, "workloads") : NULL;
    int status = list ? jb_json_set_str(o, "name", name) : JB_ENOMEM;
    for (size_t i = 0; i < jb_suite_count(s) && !status; i++) {
        char *whole = jb_asprintf("%s_%s", jb_workload_id(jb_suite_at(s, i)), jb_workload_name(jb_suite_at(s, i)));
        cJSON *text = whole ? cJSON_CreateString(whole) : NULL;
        if (!text || !cJSON_AddItemToArray(list, text)) cJSON_Delete(text), status = JB_ENOMEM;
        jb_free(whole);
    }
    if (status) cJSON_Delete(o), o = NULL;
    if (c->json || !o) code = jb_cli_print_json(c, o);
    else print_flat(c, o);
    cJSON_Delete(o);
    jb_suite_free(s);
    return code;
}

static int show_run(jb_cli *c, const char *kind, const char *name)
{
    jb_error e = JB_ERROR_INIT;
    char *dir = NULL;
    cJSON *o = NULL, *missing = NULL;
    int code = 0, rc = jb_rundir_find(name, &dir, &e);
    (void)kind;
    if (rc == 0 && !(o = jb_rundir_read_manifest(dir, &e))) rc = e.code;
    if (rc == 0 && jb_missing_journal(dir, &e) == 0) rc = jb_missing_bodies(dir, &missing, &e);
    if (rc == 0 && c->json && missing) {
        rc = put(o, "missing", missing) ? no_memory(&e) : 0;
        missing = NULL;
    }
    if (rc != 0) {
        code = jb_cli_fail(c, &e);
    } else if (c->json) {
        code = jb_cli_print_json(c, o);
    } else {
        print_flat(c, o);
        jb_report_print_missing(missing, c->out, NULL);
        fprintf(c->out, "its results: jaxbench report %s\n", dir);
    }
    if (rc == 0 && e.code) jb_cli_warn(c, "%s", e.message); /* a journal that is gone takes nothing from the manifest */
    cJSON_Delete(missing);
    cJSON_Delete(o);
    jb_free(dir);
    return code;
}

/* ---- the table -------------------------------------------------------------------------------- */

static const struct { const char *name; int (*show)(jb_cli *c, const char *kind, const char *name); } KINDS[] = {
    { "workload", show_workload }, { "method", show_component },  { "backend", show_component },
    { "checker", show_component }, { "timer", show_component },   { "executor", show_component },
    { "gates", show_gates },       { "gate", show_gates },        { "suite", show_suite },
    { "plugin", show_plugin },     { "run", show_run },
};

static int run(jb_cli *c)
{
    const char *names[COUNT(KINDS)];
    if (strcmp(c->argv[0], "workload") && jb_cli_flag(c, "prompt")) return jb_cli_usage(c, "--prompt is for workloads");
    for (size_t k = 0; k < COUNT(KINDS); k++) {
        names[k] = KINDS[k].name;
        if (!strcmp(KINDS[k].name, c->argv[0])) return KINDS[k].show(c, KINDS[k].name, c->argv[1]);
    }
    return jb_cli_unknown(c, "kind", c->argv[0], names, COUNT(KINDS));
}

const jb_cli_verb jb_verb_show = {
    "show", "everything about one workload, plugin component, gate set or run", "KIND NAME",
    "KIND is one of workload, method, backend, checker, timer, executor, gates, suite, plugin, run.\n\n"
    "  jaxbench show workload 8p\n"
    "  jaxbench show workload 8p --prompt\n"
    "  jaxbench show checker error_ratio\n",
    OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 2, 2, run,
};
