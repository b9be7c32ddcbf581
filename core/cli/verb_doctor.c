/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_doctor.c - `jaxbench doctor`: what is installed, which isolation
 * layers this machine has, TPU compiler or not, and what to do about each fault.
 *
 * A row of the report is a check: ok, warn (works, but less), fail (blocks a
 * run; exit code 7).  Checks fill rows; printing is apart, so text and JSON can't
 * disagree. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define PROBE_MS 240000 /* a cold start imports jax and compiles one kernel */
#define MAX_CHECKS 128

static const jb_cli_option OPTIONS[] = {
    { "no-worker", 0, JB_CLI_FLAG, NULL, "don't start the worker (no isolation, no TPU compile check)", NULL },
};

enum { OK, WARN, FAIL };
static const char *const STATES[] = { "ok", "warn", "fail" };

struct check {
    int state;
    char name[32], text[300], hint[256];
};

struct doctor {
    jb_cli *c;
    struct check checks[MAX_CHECKS];
    size_t count;
    cJSON *probe; /* what the worker said; NULL when it didn't */
};

static void note(struct doctor *d, int state, const char *name, const char *hint, const char *fmt, ...) JB_PRINTF(5, 6);
static void note(struct doctor *d, int state, const char *name, const char *hint, const char *fmt, ...)
{
    va_list ap;
    if (d->count == MAX_CHECKS) return;
    struct check *k = &d->checks[d->count++];
    k->state = state;
    snprintf(k->name, sizeof k->name, "%s", name);
    snprintf(k->hint, sizeof k->hint, "%s", hint ? hint : "");
    va_start(ap, fmt);
    vsnprintf(k->text, sizeof k->text, fmt, ap);
    va_end(ap);
}

/* ---- what the core can see itself ------------------------------------------------ */

static void check_paths(struct doctor *d, const jb_layout *l)
{
    note(d, OK, "program", NULL, "jaxbench %s, %s", JB_VERSION, l->exe);
    note(d, OK, "root", NULL, "%s", l->root);
    if (jb_fs_is_dir(l->suite)) note(d, OK, "suites", NULL, "%s", l->suite);
    else note(d, FAIL, "suites", "set JAXBENCH_SUITE to the folder that holds jaxbench/ and gates/", "no folder %s", l->suite);
    jb_error e = JB_ERROR_INIT;
    if (jb_fs_mkdirs(l->cache, &e)) note(d, FAIL, "cache", "set JAXBENCH_CACHE to a folder you may write to", "%s", e.message);
    else if (access(l->cache, W_OK)) note(d, FAIL, "cache", "set JAXBENCH_CACHE to a folder you may write to", "%s can't be written", l->cache);
    else note(d, OK, "cache", NULL, "%s", l->cache);
}

static void check_suites(struct doctor *d)
{
    char **names = NULL;
    jb_error e = JB_ERROR_INIT;
    int64_t count = jb_cli_suites(d->c, &names, &e);
    if (!count) note(d, FAIL, "suites", "set JAXBENCH_SUITE to the folder that holds jaxbench/ and gates/", "no suite with a workload was found");
    for (int64_t i = 0; i < count; i++) {
        jb_suite *s = NULL;
        jb_error why = JB_ERROR_INIT;
        if (jb_cli_open_suite(d->c, names[i], &s, &why)) note(d, FAIL, "suite", why.hint, "%s: %s%s%s", names[i], why.where, why.where[0] ? ": " : "", why.message);
        else note(d, OK, "suite", NULL, "%s, %zu workloads", names[i], jb_suite_count(s));
        jb_suite_free(s);
    }
    if (count >= 0) jb_fs_list_free(names, count);
}

static void check_plugins(struct doctor *d, const jb_registry *r)
{
    size_t good = 0;
    for (size_t i = 0; i < jb_registry_file_count(r); i++) {
        const jb_plugin_file *f = jb_registry_file(r, i);
        good += f->manifest && !f->shadowed;
        if (!f->manifest) note(d, WARN, "plugin", f->error.hint, "refused: %s: %s", f->path, f->error.message);
        else if (f->shadowed) note(d, WARN, "plugin", "remove one of the two files", "%s is hidden: an earlier file has the id %s", f->path, f->manifest->id);
    }
    note(d, OK, "plugins", NULL, "%zu loaded, %zu components", good, jb_registry_count(r, NULL));
    for (size_t i = 0; i < jb_cli_kind_count; i++)
        if (!jb_registry_count(r, jb_cli_kinds[i].kind))
            note(d, FAIL, jb_cli_kinds[i].many, "build the plugins, or set JAXBENCH_PLUGIN_PATH", "no %s is installed", jb_cli_kinds[i].one);
}

/* ---- what the worker says ------------------------------------------------------------ */

static void check_versions(struct doctor *d)
{
    static const char *const names[] = { "python", "jax", "jaxlib", "libtpu", "numpy" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *v = jb_json_str(d->probe, names[i], NULL);
        int needed = strcmp(names[i], "libtpu") != 0;
        if (v) note(d, OK, names[i], NULL, "%s", v);
        else if (needed) note(d, FAIL, names[i], "run ./quickstart: it installs the pinned versions into .venv", "not installed in the venv of the worker");
        else note(d, WARN, names[i], "run ./quickstart to install it; until then the compile stage is skipped with a reason", "not installed: no TPU compiler");
    }
    const cJSON *module;
    cJSON_ArrayForEach(module, jb_json_obj(d->probe, "modules"))
    {
        if (cJSON_IsString(module) && strcmp(module->valuestring, "ok"))
            note(d, FAIL, "harness", "the Python package of the harness doesn't load; rebuild or reinstall", "%s: %.200s", module->string, module->valuestring);
    }
}

static void check_isolation(struct doctor *d)
{
    const cJSON *layers = jb_json_obj(d->probe, "isolation"), *layer;
    const char *missing = jb_json_str(d->probe, "isolation_missing", NULL);
    jb_buf on = JB_BUF_INIT(300);
    if (!layers) {
        note(d, WARN, "isolation", "update the worker", "the worker reports no isolation layers");
        return;
    }
    cJSON_ArrayForEach(layer, layers)
    {
        if (cJSON_IsTrue(layer)) jb_buf_printf(&on, "%s%s", on.len ? ", " : "", layer->string);
        if (!cJSON_IsFalse(layer)) continue;
        const char *why = jb_json_str(jb_json_obj(layers, "errors"), layer->string, NULL);
        if (!why) why = jb_json_str(jb_json_obj(d->probe, "isolation_errors"), layer->string, "not available here");
        note(d, WARN, "isolation", "studies with `isolation: required` need every required layer; `best-effort` runs with a label", "%s is off: %s", layer->string, why);
    }
    if (missing) note(d, FAIL, "isolation", "allow it on this machine (user namespaces, seccomp, landlock), or run with isolation: best-effort", "the required layer %s is missing", missing);
    else note(d, OK, "isolation", NULL, "%s", on.ptr ? on.ptr : "none");
    jb_buf_free(&on);
}

static void check_selftest(struct doctor *d)
{
    const cJSON *t = jb_json_obj(d->probe, "selftest");
    int tpu = jb_json_bool(t ? t : d->probe, "tpu_compile", 0);
    const char *interpret = jb_json_str(t, "interpret", "ok"), *error = jb_json_str(t, "error", "");
    jb_buf line = JB_BUF_INIT(300);
    jb_text_first_line(&line, error, strlen(error), 200);
    if (strcmp(interpret, "ok") && strcmp(interpret, "true"))
        note(d, FAIL, "interpret", "run the worker with --probe to see its own words", "a Pallas kernel does not run in interpret mode: %s%s%s", interpret, line.len ? ": " : "", line.ptr ? line.ptr : "");
    else note(d, OK, "interpret", NULL, "a Pallas kernel runs on the CPU in interpret mode");
    if (tpu) note(d, OK, "tpu compile", NULL, "the TPU compiler works without a TPU (target %s)", jb_json_str(t, "target", "TPU v6 lite"));
    else note(d, WARN, "tpu compile", "the compile stage is skipped with a reason; install libtpu with ./quickstart", "the TPU compiler does not work here%s%s", line.len ? ": " : "", line.ptr ? line.ptr : "");
    jb_buf_free(&line);
}

static void check_worker(struct doctor *d, const jb_layout *l)
{
    jb_error e = JB_ERROR_INIT;
    if (jb_cli_flag(d->c, "no-worker")) {
        note(d, WARN, "worker", "leave out --no-worker to check it", "%s was not started", l->worker);
        return;
    }
    if (!d->c->quiet && !d->c->json && isatty(fileno(d->c->err))) fprintf(d->c->err, "starting the worker: it imports jax and compiles one kernel ...\n");
    d->probe = jb_cli_probe(l->worker, PROBE_MS, &e);
    if (!d->probe) {
        note(d, FAIL, "worker", e.hint, "%s", e.message);
        return;
    }
    note(d, OK, "worker", NULL, "%s", l->worker);
    check_versions(d);
    check_isolation(d);
    check_selftest(d);
}

/* ---- printing --------------------------------------------------------------------------- */

static int worst(const struct doctor *d)
{
    int state = OK;
    for (size_t i = 0; i < d->count; i++)
        if (d->checks[i].state > state) state = d->checks[i].state;
    return state;
}

/* Long texts may hold bytes of a worker's stderr: escaped. */
static void print_text(const struct doctor *d)
{
    static const char colors[] = { 'g', 'y', 'r' };
    for (size_t i = 0; i < d->count; i++) {
        const struct check *k = &d->checks[i];
        jb_buf text = JB_BUF_INIT(8192);
        jb_text_escape(&text, k->text, strlen(k->text), 0);
        fprintf(d->c->out, "%s%-4s%s  %-12s %s\n", jb_cli_style(d->c, colors[k->state]), STATES[k->state], jb_cli_style(d->c, '0'), k->name, text.ptr ? text.ptr : "");
        if (k->hint[0]) fprintf(d->c->out, "                    -> %s\n", k->hint);
        jb_buf_free(&text);
    }
    fprintf(d->c->out, "\n%s\n", worst(d) == FAIL ? "A fault blocks runs: see the rows marked fail." : worst(d) == WARN ? "Runs work; see the rows marked warn for what is missing." : "Everything is in place.");
}

static int print_json(const struct doctor *d, const jb_layout *l)
{
    cJSON *o = cJSON_CreateObject(), *layout = NULL, *checks = NULL;
    const struct { const char *key, *value; } paths[] = { { "program", l->exe }, { "root", l->root }, { "worker", l->worker },
                                                          { "suite", l->suite }, { "plugins", l->plugins }, { "cache", l->cache } };
    int status = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (!status) status = jb_json_set_str(o, "version", JB_VERSION);
    if (!status) status = jb_json_set_str(o, "status", STATES[worst(d)]);
    if (!status && !((layout = jb_json_add_obj(o, "layout")) && (checks = jb_json_add_arr(o, "checks")))) status = JB_ENOMEM;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++) status = jb_json_set_str(layout, paths[i].key, paths[i].value);
    for (size_t i = 0; i < d->count && !status; i++) {
        const struct check *k = &d->checks[i];
        cJSON *row = cJSON_CreateObject();
        if (!row || !cJSON_AddItemToArray(checks, row)) {
            cJSON_Delete(row);
            status = JB_ENOMEM;
            break;
        }
        status = jb_json_set_str(row, "name", k->name);
        if (!status) status = jb_json_set_str(row, "status", STATES[k->state]);
        if (!status) status = jb_json_set_view(row, "text", (jb_view){ k->text, strlen(k->text) });
        if (!status) status = jb_json_set_view(row, "hint", (jb_view){ k->hint, strlen(k->hint) });
    }
    cJSON *probe = d->probe ? cJSON_Duplicate(d->probe, 1) : cJSON_CreateNull();
    if (status || !probe || !cJSON_AddItemToObject(o, "worker", probe)) {
        cJSON_Delete(probe);
        cJSON_Delete(o);
        o = NULL;
    }
    int code = jb_cli_print_json(d->c, o);
    cJSON_Delete(o);
    return code;
}

static int run(jb_cli *c)
{
    jb_error e = JB_ERROR_INIT;
    const jb_layout *l = jb_cli_layout(c, &e);
    const jb_registry *r = l ? jb_cli_registry(c, &e) : NULL;
    struct doctor *d = jb_alloc(sizeof *d);
    if (!l || !r || !d) {
        if (!d && !e.code) jb_err(&e, JB_ENOMEM, "out of memory");
        jb_free(d);
        return jb_cli_fail(c, &e);
    }
    d->c = c;
    check_paths(d, l);
    if (jb_fs_is_dir(l->suite)) check_suites(d);
    check_plugins(d, r);
    check_worker(d, l);
    int code = 0;
    if (c->json) code = print_json(d, l);
    else print_text(d);
    if (!code && worst(d) == FAIL) code = JB_EXIT_DOCTOR;
    cJSON_Delete(d->probe);
    jb_free(d);
    return code;
}

const jb_cli_verb jb_verb_doctor = {
    "doctor", "what is installed, which isolation this machine has, what to do", "",
    "Looks at the installation, the plugins, the suites, and starts the worker, which imports jax, probes every\n"
    "isolation layer and compiles one kernel.  Exit code 7 when something would block a run.\n",
    OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 0, 0, run,
};
