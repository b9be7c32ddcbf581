/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/rundir.c - see rundir.h. */
#include "core/engine/rundir.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MANIFEST_MAX ((size_t)64 << 20)
#define DIFFERENCES_NAMED 6
#define TREE_DEPTH 16 /* of a Python package */

/* ---- names ----------------------------------------------------------------------------- */

char *jb_rundir_new_name(const char *study_name)
{
    char date[32], hash[JB_HASH_HEX], name[64];
    struct timespec t;
    struct tm tm;
    size_t n = 0;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    strftime(date, sizeof date, "%Y%m%d-%H%M", &tm);
    for (const char *s = study_name; *s && n + 1 < sizeof name; s++) {
        int plain = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z') || (*s >= '0' && *s <= '9') || *s == '_';
        name[n++] = plain ? *s : '-';
    }
    name[n] = 0;
    for (long try = 0; try < 1000; try++) {
        char salt[96];
        int k = snprintf(salt, sizeof salt, "%lld.%09ld %ld %ld", (long long)t.tv_sec, t.tv_nsec, (long)getpid(), try);
        if (jb_hash_bytes(salt, (size_t)k, hash) != 0) return NULL;
        char *dir = jb_asprintf("runs/%s-%s-%.4s", date, name, hash);
        if (!dir || !jb_fs_exists(dir)) return dir;
        jb_free(dir);
    }
    return NULL;
}

int jb_rundir_find(const char *run, char **out, jb_error *err)
{
    char *below = jb_fs_join("runs", run);
    if (!below) return jb_err(err, JB_ENOMEM, "run: out of memory");
    if (jb_fs_is_dir(run) || !jb_fs_is_dir(below)) {
        jb_free(below);
        if (jb_fs_is_dir(run)) return (*out = jb_strdup(run)) ? 0 : jb_err(err, JB_ENOMEM, "run: out of memory");
        char **names = NULL;
        int64_t n = jb_fs_list("runs", &names);
        const char *nearest = n > 0 ? jb_text_nearest(run, (const char *const *)names, (size_t)n) : NULL;
        jb_err(err, JB_ENOTFOUND, "there is no run '%s', neither as a folder nor below runs/", run);
        if (nearest) jb_err_hint(err, "did you mean '%s'?", nearest);
        else jb_err_hint(err, "give the folder of a run, e.g. runs/<date>-<name>-<hash>; `jaxbench list runs` names them");
        if (err) err->flags |= JB_ERR_USER;
        if (n >= 0) jb_fs_list_free(names, n);
        return JB_ENOTFOUND;
    }
    *out = below;
    return 0;
}

/* ---- identity ------------------------------------------------------------------------------ */

static const char *kind_word(const char *kind)
{
    static const struct { const char *kind, *word; } rows[] = {
        { JB_KIND_METHOD, "method" }, { JB_KIND_BACKEND, "backend" }, { JB_KIND_CHECKER, "checker" },
        { JB_KIND_TIMER, "timer" },   { JB_KIND_EXECUTOR, "executor" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(kind, rows[i].kind) == 0) return rows[i].word;
    return kind;
}

static int add_plugin(cJSON *plugins, const jb_registry *r, const jb_component *c)
{
    const jb_plugin_file *f = jb_registry_file_of(r, c);
    char key[160];
    snprintf(key, sizeof key, "%s/%s", kind_word(c->kind), c->name);
    if (cJSON_GetObjectItemCaseSensitive(plugins, key)) return 0;
    return jb_json_set_str(plugins, key, f ? jb_registry_hash(r, f) : "");
}

static int add_named(cJSON *plugins, const jb_registry *r, const char *kind, const char *name, jb_error *err)
{
    const jb_component *c;
    int rc = jb_registry_find(r, kind, name, &c, err);
    return rc ? rc : add_plugin(plugins, r, c);
}

/* A template is text; what CMake leaves beside it in a build tree is none. */
static int is_template(const char *name)
{
    static const char *const suffixes[] = { ".md", ".txt", ".yaml", ".json" };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++)
        if (n > strlen(suffixes[i]) && strcmp(name + n - strlen(suffixes[i]), suffixes[i]) == 0) return 1;
    return 0;
}

static int add_templates(cJSON *templates, const jb_study_part *m, jb_error *err)
{
    char **names = NULL;
    int64_t n = m->data_dir && jb_fs_is_dir(m->data_dir) ? jb_fs_list(m->data_dir, &names) : -1;
    int rc = 0;
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        char hash[JB_HASH_HEX], key[320];
        char *path = jb_fs_join(m->data_dir, names[i]);
        snprintf(key, sizeof key, "%.100s/%.200s", m->component->name, names[i]);
        if (!path) rc = JB_ENOMEM;
        else if (is_template(names[i]) && !jb_fs_is_dir(path) && !cJSON_GetObjectItemCaseSensitive(templates, key)) {
            rc = jb_hash_file(path, hash, err);
            if (rc == 0) rc = jb_json_set_str(templates, key, hash);
        }
        jb_free(path);
    }
    if (n >= 0) jb_fs_list_free(names, n);
    return rc;
}

static int add_suite(cJSON *workloads, const jb_study *s)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < s->cell_count; i++) {
        const jb_workload *w = s->cells[i].workload;
        if (cJSON_GetObjectItemCaseSensitive(workloads, jb_workload_id(w))) continue;
        cJSON *o = jb_json_add_obj(workloads, jb_workload_id(w));
        rc = o ? jb_json_set_str(o, "published", jb_workload_version(w, "published")) : JB_ENOMEM;
        if (rc == 0) rc = jb_json_set_str(o, "repaired", jb_workload_version(w, "repaired"));
    }
    return rc;
}

static int add_gates(cJSON *gates, cJSON *plugins, const jb_study *s, const jb_registry *r, jb_error *err)
{
    int rc = 0;
    const cJSON *row;
    for (size_t i = 0; rc == 0 && i < s->gate_count; i++) {
        rc = jb_json_set_str(gates, jb_gateset_name(s->gates[i]), jb_gateset_hash(s->gates[i]));
        cJSON_ArrayForEach(row, jb_json_obj(jb_gateset_json(s->gates[i]), "rows"))
        {
            if (rc == 0) rc = add_named(plugins, r, JB_KIND_CHECKER, jb_json_str(row, "use", ""), err);
        }
    }
    return rc;
}

/* Names and hashes of all files below a folder but compiled Python. */
static int hash_tree(jb_hasher *h, const char *dir, int depth, jb_error *err)
{
    char **names = NULL, hash[JB_HASH_HEX];
    int64_t n = depth < TREE_DEPTH ? jb_fs_list(dir, &names) : -1;
    int rc = n < 0 ? jb_err(err, JB_EIO, "can't read the folder %s", dir) : 0;
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        if (strcmp(names[i], "__pycache__") == 0) continue;
        char *path = jb_fs_join(dir, names[i]);
        jb_hasher_field(h, "name", names[i], strlen(names[i]));
        if (!path) rc = jb_err(err, JB_ENOMEM, "manifest: out of memory");
        else if (jb_fs_is_dir(path)) rc = hash_tree(h, path, depth + 1, err);
        else if ((rc = jb_hash_file(path, hash, err)) == 0) jb_hasher_field(h, "file", hash, strlen(hash));
        jb_hasher_field(h, "end", "", 0); /* of the folder, or of the entry */
        jb_free(path);
    }
    if (n >= 0) jb_fs_list_free(names, n);
    return rc;
}

/* The program that judges and its Python package. */
static int add_worker(cJSON *worker, const jb_layout *l, jb_error *err)
{
    char hash[JB_HASH_HEX];
    char *package = jb_fs_join(l->harness, "jaxbench_harness");
    jb_hasher *h = jb_hasher_new();
    int rc = package && h ? 0 : JB_ENOMEM;
    if (rc == 0 && jb_fs_exists(l->worker)) {
        rc = jb_hash_file(l->worker, hash, err);
        if (rc == 0) rc = jb_json_set_str(worker, "jaxbench-worker", hash);
    }
    int there = rc == 0 && jb_fs_is_dir(package);
    if (there) rc = hash_tree(h, package, 0, err);
    if (h) jb_hasher_done(h, hash);
    if (there && rc == 0) rc = jb_json_set_str(worker, "jaxbench_harness", hash);
    jb_free(package);
    return rc;
}

cJSON *jb_rundir_identity(const jb_study *s, const jb_registry *r, const jb_layout *l, jb_error *err)
{
    cJSON *o = cJSON_CreateObject();
    cJSON *plugins = jb_json_add_obj(o, "plugins"), *templates = jb_json_add_obj(o, "templates");
    cJSON *workloads = jb_json_add_obj(o, "workloads"), *gates = jb_json_add_obj(o, "gates");
    cJSON *worker = jb_json_add_obj(o, "worker");
    const cJSON *timer;
    int rc = o && plugins && templates && workloads && gates && worker ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < s->method_count; i++) {
        rc = add_plugin(plugins, r, s->methods[i].component);
        if (rc == 0) rc = add_templates(templates, &s->methods[i], err);
    }
    for (size_t i = 0; rc == 0 && i < s->backend_count; i++) rc = add_plugin(plugins, r, s->backends[i].component);
    if (rc == 0) rc = add_plugin(plugins, r, s->executor.component);
    cJSON_ArrayForEach(timer, s->timers)
    {
        if (rc == 0) rc = add_named(plugins, r, JB_KIND_TIMER, jb_json_str(timer, "use", ""), err);
    }
    if (rc == 0) rc = add_gates(gates, plugins, s, r, err);
    if (rc == 0) rc = add_suite(workloads, s);
    if (rc == 0) rc = add_worker(worker, l, err);
    if (rc == 0) return o;
    if (rc == JB_ENOMEM) jb_err(err, rc, "manifest: out of memory");
    cJSON_Delete(o);
    return NULL;
}

typedef struct differences { jb_buf text; size_t count; } differences;

static void differ(differences *d, const char *path, const char *was, const char *is)
{
    if (++d->count > DIFFERENCES_NAMED) return;
    jb_buf_printf(&d->text, "%s%s (was %.12s, is %.12s)", d->count > 1 ? ", " : "", path, was, is);
}

static const char *hash_of(const cJSON *v) { return cJSON_IsString(v) ? v->valuestring : v ? "?" : "absent"; }

static void compare(differences *d, const char *path, const cJSON *was, const cJSON *is)
{
    const cJSON *i;
    char below[256];
    cJSON_ArrayForEach(i, was)
    {
        const cJSON *other = cJSON_GetObjectItemCaseSensitive(is, i->string);
        snprintf(below, sizeof below, "%s%s%s", path, path[0] ? " " : "", i->string);
        if (cJSON_IsObject(i) && (cJSON_IsObject(other) || !other)) compare(d, below, i, other);
        else if (!cJSON_IsString(i) || !cJSON_IsString(other) || strcmp(i->valuestring, other->valuestring) != 0)
            differ(d, below, hash_of(i), hash_of(other));
    }
    cJSON_ArrayForEach(i, is)
    {
        snprintf(below, sizeof below, "%s%s%s", path, path[0] ? " " : "", i->string);
        if (!cJSON_GetObjectItemCaseSensitive(was, i->string)) differ(d, below, "absent", hash_of(i));
    }
}

int jb_rundir_same_identity(const cJSON *was, const cJSON *is, jb_error *err)
{
    differences d = { JB_BUF_INIT(4096), 0 };
    compare(&d, "", was, is);
    if (d.count == 0) return 0;
    jb_err(err, JB_ESTATE, "refused: what the run was begun with has changed: %s%s", d.text.ptr ? d.text.ptr : "?",
           d.count > DIFFERENCES_NAMED ? ", ..." : "");
    jb_err_hint(err, "bring back the old version, or start a new run: results of two versions are never merged");
    if (err) err->flags |= JB_ERR_USER;
    jb_buf_free(&d.text);
    return JB_ESTATE;
}

/* ---- the manifest -------------------------------------------------------------------------------- */

static int put(cJSON *o, const char *key, cJSON *value)
{
    if (value && cJSON_AddItemToObject(o, key, value)) return 0;
    cJSON_Delete(value);
    return JB_ENOMEM;
}

static int put_texts(cJSON *o, const char *key, const char *const *texts, size_t count)
{
    cJSON *a = jb_json_add_arr(o, key);
    for (size_t i = 0; a && i < count; i++) {
        cJSON *t = cJSON_CreateString(texts[i]);
        if (!t || !cJSON_AddItemToArray(a, t)) {
            cJSON_Delete(t);
            return JB_ENOMEM;
        }
    }
    return a ? 0 : JB_ENOMEM;
}

static int put_study(cJSON *doc, const jb_manifest_facts *f)
{
    cJSON *o = jb_json_add_obj(doc, "study");
    int rc = o ? jb_json_set_str(o, "path", f->study->path) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_view(o, "text", (jb_view){ f->study->text, f->study->text_len });
    if (rc == 0) rc = put_texts(o, "set", f->set, f->set_count);
    if (rc == 0) rc = put_texts(o, "only", f->only, f->only_count);
    if (rc == 0) rc = jb_json_set_i64(o, "limit", f->limit);
    return rc ? rc : put(o, "expanded", cJSON_Duplicate(f->study->json, 1));
}

/* The whole text: a resume must not depend on the file. */
static int put_prices(cJSON *doc, const jb_study *s)
{
    if (!s->prices) return 0;
    cJSON *o = jb_json_add_obj(doc, "prices");
    int rc = o ? jb_json_set_str(o, "file", s->prices->name) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(o, "date", s->prices->date);
    if (rc == 0) rc = jb_json_set_str(o, "sha256", s->prices->sha256);
    return rc ? rc : jb_json_set_str(o, "text", s->prices->text);
}

static int put_gates(cJSON *doc, const jb_study *s, int *final_rows)
{
    cJSON *a = jb_json_add_arr(doc, "gates");
    const cJSON *row;
    int rc = a ? 0 : JB_ENOMEM;
    *final_rows = 0;
    for (size_t i = 0; rc == 0 && i < s->gate_count; i++) {
        cJSON *o = cJSON_CreateObject();
        if (!o || !cJSON_AddItemToArray(a, o)) {
            cJSON_Delete(o);
            return JB_ENOMEM;
        }
        rc = jb_json_set_str(o, "name", jb_gateset_name(s->gates[i]));
        if (rc == 0) rc = jb_json_set_str(o, "variant", jb_gateset_variant(s->gates[i]));
        if (rc == 0) rc = jb_json_set_str(o, "hash", jb_gateset_hash(s->gates[i]));
        cJSON_ArrayForEach(row, jb_json_obj(jb_gateset_json(s->gates[i]), "rows"))
        {
            *final_rows |= strcmp(jb_json_str(row, "when", "loop"), "final") == 0;
        }
    }
    return rc;
}

static int put_parts(cJSON *doc, const char *key, const jb_study_part *parts, size_t count)
{
    cJSON *a = jb_json_add_arr(doc, key);
    int rc = a ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        cJSON *o = cJSON_CreateObject();
        if (!o || !cJSON_AddItemToArray(a, o)) {
            cJSON_Delete(o);
            return JB_ENOMEM;
        }
        rc = jb_json_set_str(o, "name", parts[i].name);
        if (rc == 0) rc = jb_json_set_str(o, "use", parts[i].component->name);
        if (rc == 0) rc = jb_json_set_bool(o, "no_model", (parts[i].component->flags & JB_COMP_NO_MODEL) != 0);
        if (rc == 0 && parts[i].resolved) rc = put(o, "options", cJSON_Duplicate(parts[i].resolved, 1));
        if (rc == 0 && parts[i].price) rc = put(o, "price", jb_price_json(&parts[i].price->price)); /* none: unpriced */
        if (rc == 0 && parts[i].price) rc = jb_json_set_str(o, "price_source", parts[i].price->source);
        if (rc == 0 && parts[i].price) rc = jb_json_set_str(o, "price_valid_from", parts[i].price->valid_from);
    }
    return rc;
}

static int put_cells(cJSON *doc, const jb_study *s)
{
    cJSON *a = jb_json_add_arr(doc, "cells");
    jb_hasher *h = jb_hasher_new();
    char plan[JB_HASH_HEX];
    int rc = a && h ? 0 : JB_ENOMEM;
    for (size_t i = 0; rc == 0 && i < s->cell_count; i++) {
        const jb_study_cell *c = &s->cells[i];
        cJSON *o = cJSON_CreateObject();
        if (!o || !cJSON_AddItemToArray(a, o)) {
            cJSON_Delete(o);
            rc = JB_ENOMEM;
            break;
        }
        jb_hasher_field(h, c->name, c->key, strlen(c->key));
        rc = jb_json_set_str(o, "key", c->name);
        if (rc == 0) rc = jb_json_set_str(o, "hash", c->key);
        if (rc == 0) rc = jb_json_set_str(o, "label", c->label);
        if (rc == 0) rc = jb_json_set_str(o, "workload", jb_workload_id(c->workload));
        if (rc == 0) rc = jb_json_set_str(o, "workload_name", jb_workload_name(c->workload));
        if (rc == 0) rc = jb_json_set_str(o, "method", c->method->name);
        if (rc == 0) rc = jb_json_set_str(o, "backend", c->backend ? c->backend->name : "");
        if (rc == 0) rc = jb_json_set_i64(o, "seed", c->seed);
        if (rc == 0) rc = jb_json_set_i64(o, "samples", c->samples);
        if (rc == 0) rc = jb_json_set_i64(o, "expected", c->expected);
    }
    if (h) jb_hasher_done(h, plan);
    return rc ? rc : jb_json_set_str(doc, "plan", plan);
}

static int fill(cJSON *doc, const jb_manifest_facts *f, jb_error *err)
{
    const jb_study *s = f->study;
    char started[40];
    int final_rows = 0;
    time_t now = time(NULL);
    struct tm tm;
    gmtime_r(&now, &tm);
    strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &tm);
    const char *base = strrchr(f->run_dir, '/');
    int rc = jb_json_set_i64(doc, "schema", 1);
    if (rc == 0) rc = jb_json_set_str(doc, "kind", "manifest");
    if (rc == 0) rc = jb_json_set_str(doc, "name", s->name);
    if (rc == 0) rc = jb_json_set_str(doc, "seed", s->seed);
    if (rc == 0) rc = jb_json_set_str(doc, "run", base && base[1] ? base + 1 : f->run_dir);
    if (rc == 0) rc = jb_json_set_str(doc, "version", JB_VERSION);
    if (rc == 0) rc = jb_json_set_str(doc, "started", started);
    if (rc == 0) rc = put_texts(doc, "argv", (const char *const *)f->argv, (size_t)f->argc);
    if (rc == 0) rc = jb_json_set_str(doc, "headline", jb_gateset_name(s->headline));
    if (rc == 0) rc = put_gates(doc, s, &final_rows);
    if (rc == 0) rc = jb_json_set_bool(doc, "final_rows", final_rows);
    if (rc == 0) rc = jb_json_set_str(doc, "variant", s->variant);
    cJSON *shapes = jb_json_add_obj(doc, "shapes");
    if (!shapes) rc = JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(shapes, "check", s->check_shape ? s->check_shape : "");
    if (rc == 0) rc = jb_json_set_str(shapes, "timed", s->timed_shape ? s->timed_shape : "full");
    if (rc == 0) rc = jb_json_set_str(doc, "isolation", s->isolation);
    if (rc == 0) rc = put_parts(doc, "methods", s->methods, s->method_count);
    if (rc == 0) rc = put_parts(doc, "backends", s->backends, s->backend_count);
    if (rc == 0) rc = put_prices(doc, s);
    if (rc == 0) rc = put_cells(doc, s);
    if (rc == 0) rc = put(doc, "identity", jb_rundir_identity(s, f->registry, f->layout, err));
    return rc ? rc : put_study(doc, f);
}

int jb_rundir_write_manifest(const jb_manifest_facts *f, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(MANIFEST_MAX);
    cJSON *doc = cJSON_CreateObject();
    char *path = jb_fs_join(f->run_dir, "manifest.json");
    int rc = doc && path ? fill(doc, f, err) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_print_pretty(doc, &text);
    if (rc == 0) rc = jb_buf_puts(&text, "\n");
    if (rc == JB_ENOMEM && !(err && err->code)) jb_err(err, rc, "manifest: out of memory");
    if (rc == 0) rc = jb_fs_write_atomic(path, text.ptr, text.len, err);
    jb_buf_free(&text);
    jb_free(path);
    cJSON_Delete(doc);
    return rc;
}

cJSON *jb_rundir_read_manifest(const char *run_dir, jb_error *err)
{
    char *path = jb_fs_join(run_dir, "manifest.json");
    cJSON *doc = NULL;
    if (!path) {
        jb_err(err, JB_ENOMEM, "manifest: out of memory");
    } else if (!jb_fs_exists(path)) {
        jb_err(err, JB_ENOTFOUND, "%s is no run: it has no manifest.json", run_dir);
        jb_err_hint(err, "give the folder of a run, e.g. runs/<date>-<name>-<hash>");
        if (err) err->flags |= JB_ERR_USER;
    } else {
        doc = jb_json_read_file(path, MANIFEST_MAX, err);
    }
    jb_free(path);
    return doc;
}
