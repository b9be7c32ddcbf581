/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/read.c - the keys of a study file, as a table: which there are,
 * what reads each, and which are known but not honoured yet, so that they are
 * refused with that reason instead of "unknown" or, worse, silence. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/options/options.h"

#include <jaxbench/method.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))
#define MAX_PARTS 256
#define MAX_SLOTS 256
#define MAX_SEEDS 10000

static const char *const VARIANTS[] = { "published", "repaired" };
static const char *const ISOLATIONS[] = { "required", "best-effort" };
static const char *const SKIPPABLE[] = { "compile", "check", "time" }; /* the rest is the trust boundary */
static const char *const LIMITS[] = { "trace_s", "inspect_s", "compile_s", "check_s", "reference_s", "memory_mb" };
static const char *const PART_KEYS[] = { "name", "use" };
static const char *const BACKEND_KEYS[] = { "name", "use", "limits", "timeouts" };
static const char *const USE_KEYS[] = { "use" };
static const char *const EXECUTOR_KEYS[] = { "use", "slots" };

/* ---- small helpers --------------------------------------------------------- */

int jb_study_unknown(const jb_reading *r, const jb_yaml *node, const char *what, const char *name, const char *const *names, size_t count)
{
    jb_buf list = JB_BUF_INIT(220);
    const char *near = jb_text_nearest(name, names, count);
    for (size_t i = 0; i < count; i++) jb_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    jb_yaml_error(r->doc, node, r->err, JB_EINVAL, "unknown %s \"%.60s\"", what, name);
    if (near) jb_err_hint(r->err, "did you mean \"%s\"?", near);
    else jb_err_hint(r->err, "known: %s", list.ptr ? list.ptr : "none");
    jb_buf_free(&list);
    return JB_EINVAL;
}

int jb_study_good_name(const char *s)
{
    size_t n = strlen(s);
    return n >= 1 && n <= 64 && s[0] != '.' && s[0] != '-' &&
           strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

static int no_memory(const jb_reading *r) { return jb_err(r->err, JB_ENOMEM, "out of memory reading the study"); }

static int keep(const jb_reading *r, char **at, const char *text)
{
    *at = jb_strdup(text);
    return *at ? 0 : no_memory(r);
}

/* A whole number in [low, high]. */
static int read_int(const jb_reading *r, const jb_yaml *n, const char *key, int64_t low, int64_t high, int64_t *out)
{
    int status = jb_yaml_i64(r->doc, n, out, r->err);
    if (status) return jb_err_context(r->err, "%s", key), status;
    if (*out >= low && *out <= high) return 0;
    return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "%s must be %lld to %lld, not %lld", key, (long long)low, (long long)high, (long long)*out);
}

static int read_word(const jb_reading *r, const jb_yaml *n, const char *what, const char *const *words, size_t count, const char **out)
{
    const char *text;
    int status = jb_yaml_str(r->doc, n, &text, r->err);
    if (status) return jb_err_context(r->err, "%s", what), status;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(words[i], text)) {
            *out = words[i];
            return 0;
        }
    return jb_study_unknown(r, n, what, text, words, count);
}

/* ---- tables of keys ------------------------------------------------------------ */

struct key {
    const char *name;
    int (*read)(jb_reading *r, const jb_yaml *n); /* NULL: known, not supported yet */
    const char *instead;                          /* then: what to do */
};

/* Every key of `map` through its row; `what` names the map in messages. */
static int read_keys(jb_reading *r, const jb_yaml *map, const char *what, const struct key *keys, size_t count)
{
    const char *names[32];
    if (map->kind != JB_YAML_MAPPING) return jb_yaml_error(r->doc, map, r->err, JB_EINVAL, "%s must be a mapping", what);
    for (size_t i = 0; i < count; i++) names[i] = keys[i].name;
    int status = jb_yaml_only_keys(r->doc, map, names, count, r->err);
    for (size_t i = 0; i < count && !status; i++) {
        const jb_yaml *n = jb_yaml_get(map, keys[i].name);
        if (!n) continue;
        if (keys[i].read) {
            status = keys[i].read(r, n);
        } else {
            jb_yaml_error(r->doc, n, r->err, JB_EUNSUPPORTED, "%s is not supported yet by jaxbench %s", keys[i].name, JB_VERSION);
            status = jb_err_hint(r->err, "%s", keys[i].instead);
        }
    }
    return status;
}

/* ---- plain keys ------------------------------------------------------------------- */

static int read_schema(jb_reading *r, const jb_yaml *n)
{
    int64_t v;
    int status = jb_yaml_i64(r->doc, n, &v, r->err);
    if (status) return jb_err_context(r->err, "schema"), status;
    return v == 1 ? 0 : jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "schema must be 1: this jaxbench reads no other, not %lld", (long long)v);
}

static int read_name(jb_reading *r, const jb_yaml *n)
{
    const char *text;
    int status = jb_yaml_str(r->doc, n, &text, r->err);
    if (status) return jb_err_context(r->err, "name"), status;
    if (!jb_study_good_name(text)) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "name must be 1 to 64 letters, digits, '.', '_' or '-', not \"%.80s\"", text);
    return keep(r, &r->s->name, text);
}

static int read_seed(jb_reading *r, const jb_yaml *n)
{
    int64_t v;
    char text[24];
    int status = read_int(r, n, "seed", 0, INT64_MAX, &v);
    if (status) return status;
    snprintf(text, sizeof text, "%lld", (long long)v);
    jb_free(r->s->seed);
    return keep(r, &r->s->seed, text);
}

static int read_variant(jb_reading *r, const jb_yaml *n) { return read_word(r, n, "variant", VARIANTS, COUNT(VARIANTS), &r->s->variant); }
static int read_isolation(jb_reading *r, const jb_yaml *n) { return read_word(r, n, "isolation", ISOLATIONS, COUNT(ISOLATIONS), &r->s->isolation); }

static int read_skip(jb_reading *r, const jb_yaml *n)
{
    jb_study *s = r->s;
    if (n->kind != JB_YAML_SEQUENCE) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "skip must be a list of stages, e.g. [compile]");
    s->skip = jb_alloc_array(n->count ? n->count : 1, sizeof *s->skip);
    int status = s->skip ? 0 : no_memory(r);
    for (size_t i = 0; i < n->count && !status; i++) {
        const char *word = NULL;
        status = read_word(r, n->items[i], "stage to skip", SKIPPABLE, COUNT(SKIPPABLE), &word);
        if (!status) status = keep(r, &s->skip[s->skip_count++], word);
    }
    return status;
}

static int read_limits(jb_reading *r, const jb_yaml *n)
{
    int status = jb_yaml_only_keys(r->doc, n, LIMITS, COUNT(LIMITS), r->err);
    if (!status && !(r->s->limits = cJSON_CreateObject())) status = no_memory(r);
    for (size_t i = 0; i < n->count && !status; i++) {
        double v;
        const char *key = n->keys[i]->text;
        status = jb_yaml_f64(r->doc, n->items[i], &v, r->err);
        if (status) jb_err_context(r->err, "limit %s", key);
        else if (!(v > 0)) status = jb_yaml_error(r->doc, n->items[i], r->err, JB_EINVAL, "limit %s must be above 0", key);
        else if (jb_json_set_num(r->s->limits, key, v)) status = no_memory(r);
    }
    return status;
}

static int read_check_shape(jb_reading *r, const jb_yaml *n)
{
    const char *text;
    int status = jb_yaml_str(r->doc, n, &text, r->err);
    return status ? status : keep(r, &r->s->check_shape, text);
}

static int read_timed_shape(jb_reading *r, const jb_yaml *n)
{
    const char *text;
    int status = jb_yaml_str(r->doc, n, &text, r->err);
    return status ? status : keep(r, &r->s->timed_shape, text);
}

static int read_shapes(jb_reading *r, const jb_yaml *n)
{
    static const struct key keys[] = { { "check", read_check_shape, NULL }, { "timed", read_timed_shape, NULL } };
    return read_keys(r, n, "shapes", keys, COUNT(keys));
}

static int read_retries(jb_reading *r, const jb_yaml *n) { return read_int(r, n, "infra_retries", 0, 100, &r->s->infra_retries); }

static int read_share(jb_reading *r, const jb_yaml *n)
{
    int status = jb_yaml_f64(r->doc, n, &r->s->stop_after_infra_share, r->err);
    if (status) return jb_err_context(r->err, "stop_after_infra_share"), status;
    if (r->s->stop_after_infra_share >= 0 && r->s->stop_after_infra_share <= 1) return 0;
    return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "stop_after_infra_share must be 0 (never) to 1, not %.60s", n->text);
}

/* Read with the backends, by jb_study_read_patience. */
static int read_later(jb_reading *r, const jb_yaml *n) { return (void)r, (void)n, 0; }

static int read_on_error(jb_reading *r, const jb_yaml *n)
{
    static const struct key keys[] = {
        { "infra_retries", read_retries, NULL }, { "stop_after_infra_share", read_share, NULL },
        { "call_retries", read_later, NULL },    { "backoff", read_later, NULL },
        { "backoff_max", read_later, NULL },     { "retry_after_max", read_later, NULL },
        { "give_up_after", read_later, NULL },
    };
    return read_keys(r, n, "on_error", keys, COUNT(keys));
}

static int read_seeds(jb_reading *r, const jb_yaml *n) { return read_int(r, n, "matrix.seeds", 1, MAX_SEEDS, &r->seeds); }
static int read_exclude(jb_reading *r, const jb_yaml *n)
{
    /* Matched against cells by expand.c; here only its form. */
    if (n->kind == JB_YAML_SEQUENCE) return 0;
    return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "exclude must be a list such as [{method: beam, backend: local}]");
}

static int read_matrix(jb_reading *r, const jb_yaml *n)
{
    static const struct key keys[] = { { "seeds", read_seeds, NULL }, { "exclude", read_exclude, NULL } };
    return read_keys(r, n, "matrix", keys, COUNT(keys));
}

/* ---- parts: a component and its options ------------------------------------------- */

static int resolve(jb_reading *r, const jb_yaml *at, jb_study_part *p)
{
    jb_config *cfg = NULL;
    int status = jb_config_new(p->component, p->options, &cfg, r->err);
    if (status) {
        if (!r->err->where[0]) jb_err_where(r->err, jb_yaml_file(r->doc), at->line);
        return status;
    }
    p->resolved = jb_config_json(p->component, cfg);
    jb_config_free(cfg);
    return p->resolved ? 0 : no_memory(r);
}

/* `n` is {use: ..., options} or the bare name; `def` the component when there is no `use`. */
static int read_component(jb_reading *r, const jb_yaml *n, const char *kind, const char *def, const char *const *reserved,
                          size_t reserved_count, jb_study_part *p)
{
    const jb_yaml *use = n->kind == JB_YAML_SCALAR ? n : jb_yaml_get(n, "use");
    const char *text = def;
    int status = 0;
    if (n->kind == JB_YAML_SEQUENCE) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "expected a mapping such as {use: NAME}, found a list");
    if (!use && !def) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "needs `use`, the name of a plugin");
    if (use) status = jb_yaml_str(r->doc, use, &text, r->err);
    if (status) return jb_err_context(r->err, "use"), status;
    status = jb_registry_find(r->o->registry, kind, text, &p->component, r->err);
    if (status) return jb_err_where(r->err, jb_yaml_file(r->doc), (use ? use : n)->line), status;
    if (n->kind == JB_YAML_MAPPING) status = jb_options_from_yaml(p->component, r->doc, n, reserved, reserved_count, &p->options, r->err);
    else if (!(p->options = cJSON_CreateObject())) status = no_memory(r);
    return status ? status : resolve(r, n, p);
}

static int read_part_name(jb_reading *r, const jb_yaml *n, const jb_study_part *parts, size_t count, jb_study_part *p)
{
    const jb_yaml *name = jb_yaml_get(n, "name");
    const char *text = p->component->name;
    int status = name ? jb_yaml_str(r->doc, name, &text, r->err) : 0;
    if (status) return jb_err_context(r->err, "name"), status;
    if (!jb_study_good_name(text)) return jb_yaml_error(r->doc, name, r->err, JB_EINVAL, "name must be 1 to 64 letters, digits, '.', '_' or '-', not \"%.80s\"", text);
    for (size_t i = 0; i < count; i++)
        if (!strcmp(parts[i].name, text)) {
            jb_yaml_error(r->doc, name ? name : n, r->err, JB_EINVAL, "the name \"%.60s\" is taken", text);
            return jb_err_hint(r->err, "give each entry a `name` of its own"), JB_EINVAL;
        }
    return keep(r, &p->name, text);
}

static int read_parts(jb_reading *r, const jb_yaml *n, const char *what, const char *kind, jb_study_part **parts, size_t *count)
{
    if (n->kind != JB_YAML_SEQUENCE || !n->count || n->count > MAX_PARTS)
        return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "%s must be a list of 1 to %d entries such as {name: a, use: NAME}", what, MAX_PARTS);
    *parts = jb_alloc_array(n->count, sizeof **parts);
    if (!*parts) return no_memory(r);
    for (size_t i = 0; i < n->count; i++) {
        jb_study_part *p = &(*parts)[(*count)++];
        int backend = !strcmp(kind, JB_KIND_BACKEND);
        int status = backend ? read_component(r, n->items[i], kind, NULL, BACKEND_KEYS, COUNT(BACKEND_KEYS), p)
                             : read_component(r, n->items[i], kind, NULL, PART_KEYS, COUNT(PART_KEYS), p);
        if (!status && backend) status = jb_study_read_call_limits(r, n->items[i], p);
        if (!status) status = read_part_name(r, n->items[i], *parts, i, p);
        if (status) return status;
    }
    return 0;
}

static int read_methods(jb_reading *r, const jb_yaml *n)
{
    int status = read_parts(r, n, "methods", JB_KIND_METHOD, &r->s->methods, &r->s->method_count);
    for (size_t i = 0; i < r->s->method_count && !status; i++) {
        jb_study_part *p = &r->s->methods[i];
        if (!(p->data_dir = jb_registry_data_dir(r->o->registry, p->component))) status = no_memory(r);
    }
    return status;
}

static int read_backends(jb_reading *r, const jb_yaml *n)
{
    return read_parts(r, n, "backends", JB_KIND_BACKEND, &r->s->backends, &r->s->backend_count);
}

static int add_timer(jb_reading *r, const jb_study_part *p)
{
    cJSON *row = cJSON_CreateObject(), *options = cJSON_Duplicate(p->options, 1);
    int status = row && options && cJSON_AddItemToArray(r->s->timers, row) ? 0 : no_memory(r);
    if (status) cJSON_Delete(row);
    if (!status && jb_json_set_str(row, "use", p->component->name)) status = no_memory(r);
    if (status || !cJSON_AddItemToObject(row, "options", options)) {
        cJSON_Delete(options);
        status = no_memory(r);
    }
    return status;
}

static int read_timers(jb_reading *r, const jb_yaml *n)
{
    if (n->kind != JB_YAML_SEQUENCE) return jb_yaml_error(r->doc, n, r->err, JB_EINVAL, "timers must be a list of timers, e.g. [wall]");
    int status = 0;
    for (size_t i = 0; i < n->count && !status; i++) {
        jb_study_part p = { 0 };
        status = read_component(r, n->items[i], JB_KIND_TIMER, NULL, USE_KEYS, COUNT(USE_KEYS), &p);
        if (!status) status = add_timer(r, &p);
        cJSON_Delete(p.options);
        cJSON_Delete(p.resolved);
    }
    return status;
}

/* As many jobs as there are cores and, at 3 GiB a job, memory. */
static int64_t default_slots(void)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    int64_t by_memory = (int64_t)pages * page / (INT64_C(3) << 30), n = cores < by_memory ? cores : by_memory;
    return n < 1 ? 1 : n > 16 ? 16 : n;
}

static int read_executor(jb_reading *r, const jb_yaml *n)
{
    jb_study *s = r->s;
    const jb_yaml *slots = jb_yaml_get(n, "slots");
    int status = read_component(r, n, JB_KIND_EXECUTOR, "local", EXECUTOR_KEYS, COUNT(EXECUTOR_KEYS), &s->executor);
    if (status || !slots) return status;
    if (slots->kind == JB_YAML_MAPPING) {
        jb_yaml_error(r->doc, slots, r->err, JB_EUNSUPPORTED, "slots per stage are not supported yet by jaxbench %s", JB_VERSION);
        return jb_err_hint(r->err, "give one number: jobs at a time, e.g. slots: 2");
    }
    status = read_int(r, slots, "executor.slots", 1, MAX_SLOTS, &s->slots);
    /* An executor with slots of its own gets the same number. */
    for (uint32_t i = 0; i < jb_options_count(s->executor.component) && !status; i++)
        if (!strcmp(jb_options_at(s->executor.component, i)->name, "slots") && jb_json_set_i64(s->executor.options, "slots", s->slots)) status = no_memory(r);
    return status;
}

/* ---- the study ------------------------------------------------------------------------ */

static const struct key STUDY[] = {
    { "schema", read_schema, NULL },     { "name", read_name, NULL },
    { "seed", read_seed, NULL },         { "suites", jb_study_read_suites, NULL },
    { "methods", read_methods, NULL },   { "backends", read_backends, NULL },
    { "gates", jb_study_read_gates, NULL }, { "variant", read_variant, NULL },
    { "isolation", read_isolation, NULL }, { "timers", read_timers, NULL },
    { "matrix", read_matrix, NULL },     { "executor", read_executor, NULL },
    { "shapes", read_shapes, NULL },     { "skip", read_skip, NULL },
    { "limits", read_limits, NULL },     { "budget", jb_study_read_budget, NULL },
    { "on_error", read_on_error, NULL },  { "prices", jb_study_read_prices, NULL },
    { "contexts", NULL, "leave the key out; prompts come from the method's own template" },
};
static const char *const REQUIRED[] = { "schema", "name", "suites", "methods" };

static int set_defaults(jb_reading *r)
{
    jb_study *s = r->s;
    s->variant = "repaired";
    s->isolation = "required";
    s->samples_per_cell = -1;
    s->budget = (jb_amounts)JB_NO_BUDGET;
    s->infra_retries = 2;
    s->stop_after_infra_share = 0.2;
    s->slots = default_slots();
    r->seeds = 1;
    s->timers = cJSON_CreateArray();
    return s->timers ? keep(r, &s->seed, "0") : no_memory(r);
}

/* Keys that were left out and whose default needs the registry or the suite. */
static int fill_in(jb_reading *r)
{
    static const jb_yaml empty = { .kind = JB_YAML_MAPPING, .line = 1 };
    jb_study *s = r->s;
    int status = s->executor.component ? 0 : read_executor(r, &empty);
    if (!status) status = jb_study_read_patience(r, jb_yaml_get(r->root, "on_error"));
    if (!status && !s->gate_count) status = jb_study_read_gates(r, NULL);
    if (!status && !s->limits && !(s->limits = cJSON_CreateObject())) status = no_memory(r);
    for (size_t i = 0; i < s->method_count && !status; i++)
        if (!s->backend_count && !(s->methods[i].component->flags & JB_COMP_NO_BACKEND)) {
            jb_yaml_error(r->doc, jb_yaml_get(r->root, "methods"), r->err, JB_EINVAL, "method %s asks a backend and the study names none", s->methods[i].name);
            status = jb_err_hint(r->err, "add backends: [{name: scripted, use: scripted}], or see jaxbench list backends");
        }
    return status;
}

int jb_study_read(jb_reading *r)
{
    int status = set_defaults(r);
    if (!status) status = read_keys(r, r->root, "a study", STUDY, COUNT(STUDY));
    for (size_t i = 0; i < COUNT(REQUIRED) && !status; i++)
        if (!jb_yaml_get(r->root, REQUIRED[i])) status = jb_yaml_error(r->doc, r->root, r->err, JB_EINVAL, "the study lacks the key \"%s\"", REQUIRED[i]);
    return status ? status : fill_in(r);
}
