/* SPDX-License-Identifier: Apache-2.0 */
/* core/registry/registry.c - finds and loads plugin files; see registry.h.
 *
 *     path list --> folders --> *.so --> dlopen --> jb_plugin_v1 --> check --> components[]
 *
 * A handle is never closed: threads, TLS and strings of a plugin may outlive any
 * moment at which closing looked safe.  Files are not hashed here, so that
 * looking at what is installed costs a dlopen each and nothing more. */
#include "core/registry/registry.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_FILES 1024

struct entry {
    const jb_component *component;
    const jb_plugin_file *file;
};

struct jb_registry {
    char *path_list;
    jb_plugin_file **files; /* pointers, so that what callers hold stays put */
    size_t file_count, file_cap;
    struct entry *entries;  /* sorted by kind, name */
    size_t entry_count;
};

/* ---- one file ----------------------------------------------------------- */

/* Anyone may write it: then anyone may run code as us.  A relative mode check,
 * no guard against a race: who can swap the file can also swap the program. */
static int check_mode(const char *path, jb_error *err)
{
    struct stat st;
    if (stat(path, &st)) return jb_err(err, JB_EIO, "can't look at %s: %s", path, strerror(errno));
    if (!S_ISREG(st.st_mode)) return jb_err(err, JB_EINVAL, "%s is not a regular file", path);
    if (st.st_mode & S_IWOTH) {
        jb_err(err, JB_EPERM, "%s is writable by everyone", path);
        return jb_err_hint(err, "chmod o-w %s", path), JB_EPERM;
    }
    return 0;
}

static int load(const char *path, const jb_plugin **out, jb_error *err)
{
    int status = check_mode(path, err);
    if (status) return status;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return jb_err(err, JB_EABI, "can't load: %s", dlerror());
    const jb_plugin *p = dlsym(handle, JB_PLUGIN_SYMBOL);
    if (!p) {
        jb_err(err, JB_EABI, "%s exports no %s: not a jaxbench plugin of ABI %u", path, JB_PLUGIN_SYMBOL, JB_ABI_MAJOR);
        return jb_err_hint(err, "move the file out of the plugin folders, or define it with JB_PLUGIN (jaxbench/plugin.h)"), JB_EABI;
    }
    status = jb_manifest_check(p, err);
    if (!status) *out = p;
    return status;
}

static int add_file(jb_registry *r, const char *path, jb_error *err)
{
    if (r->file_count == MAX_FILES) return 0; /* nobody has a thousand plugins; a folder mistaken for one may */
    if (r->file_count == r->file_cap) {
        size_t cap = r->file_cap ? 2 * r->file_cap : 16;
        jb_plugin_file **more = jb_realloc(r->files, cap * sizeof *more);
        if (!more) return jb_err(err, JB_ENOMEM, "out of memory reading plugins");
        r->files = more;
        r->file_cap = cap;
    }
    jb_plugin_file *f = jb_alloc(sizeof *f);
    if (!f || !(f->path = jb_strdup(path))) {
        jb_free(f);
        return jb_err(err, JB_ENOMEM, "out of memory reading plugins");
    }
    f->error.struct_size = sizeof f->error;
    r->files[r->file_count++] = f;
    if (load(path, &f->manifest, &f->error) == 0)
        for (size_t i = 0; i + 1 < r->file_count; i++)
            if (r->files[i]->manifest && !r->files[i]->shadowed && !strcmp(r->files[i]->manifest->id, f->manifest->id)) f->shadowed = 1;
    return 0;
}

/* ---- folders ------------------------------------------------------------- */

static int ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n > m && !strcmp(s + n - m, tail);
}

/* The .so files of a folder, then those one level below. */
static int scan(jb_registry *r, const char *dir, int depth, jb_error *err)
{
    char **names = NULL;
    int64_t count = jb_fs_list(dir, &names);
    int status = 0;
    for (int64_t i = 0; i < count && !status; i++) {
        if (!ends_with(names[i], ".so")) continue;
        char *path = jb_fs_join(dir, names[i]);
        status = path ? add_file(r, path, err) : jb_err(err, JB_ENOMEM, "out of memory reading plugins");
        jb_free(path);
    }
    for (int64_t i = 0; i < count && !status && depth > 0; i++) {
        if (ends_with(names[i], ".so")) continue;
        char *path = jb_fs_join(dir, names[i]);
        if (!path) status = jb_err(err, JB_ENOMEM, "out of memory reading plugins");
        else if (jb_fs_is_dir(path)) status = scan(r, path, depth - 1, err);
        jb_free(path);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    return status;
}

static int scan_list(jb_registry *r, jb_error *err)
{
    int status = 0;
    for (const char *s = r->path_list; *s && !status;) {
        size_t n = strcspn(s, ":");
        char *dir = n ? jb_strndup(s, n) : NULL;
        if (n && !dir) status = jb_err(err, JB_ENOMEM, "out of memory reading plugins");
        else if (n) status = scan(r, dir, 1, err);
        jb_free(dir);
        s += n + (s[n] == ':');
    }
    return status;
}

/* ---- components ------------------------------------------------------------ */

static int by_kind_and_name(const void *a, const void *b)
{
    const jb_component *x = ((const struct entry *)a)->component, *y = ((const struct entry *)b)->component;
    int d = strcmp(x->kind, y->kind);
    return d ? d : strcmp(x->name, y->name);
}

static int taken(const jb_registry *r, const jb_component *c)
{
    for (size_t i = 0; i < r->entry_count; i++)
        if (!strcmp(r->entries[i].component->name, c->name) && !strcmp(r->entries[i].component->kind, c->kind)) return 1;
    return 0;
}

/* First come, first served, like the files: a later component of a name is not reachable. */
static int index_components(jb_registry *r, jb_error *err)
{
    size_t total = 0;
    for (size_t i = 0; i < r->file_count; i++)
        for (size_t k = 0; r->files[i]->manifest && r->files[i]->manifest->components[k]; k++) total++;
    r->entries = total ? jb_alloc_array(total, sizeof *r->entries) : NULL;
    if (total && !r->entries) return jb_err(err, JB_ENOMEM, "out of memory reading plugins");
    for (size_t i = 0; i < r->file_count; i++) {
        const jb_plugin_file *f = r->files[i];
        if (!f->manifest || f->shadowed) continue;
        for (size_t k = 0; f->manifest->components[k]; k++)
            if (!taken(r, f->manifest->components[k])) r->entries[r->entry_count++] = (struct entry){ f->manifest->components[k], f };
    }
    if (r->entry_count) qsort(r->entries, r->entry_count, sizeof *r->entries, by_kind_and_name);
    return 0;
}

int jb_registry_open(const char *path_list, jb_registry **out, jb_error *err)
{
    jb_registry *r = jb_alloc(sizeof *r);
    if (!r || !(r->path_list = jb_strdup(path_list ? path_list : ""))) {
        jb_free(r);
        return jb_err(err, JB_ENOMEM, "out of memory reading plugins");
    }
    int status = scan_list(r, err);
    if (!status) status = index_components(r, err);
    if (status) jb_registry_free(r);
    else *out = r;
    return status;
}

void jb_registry_free(jb_registry *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->file_count; i++) {
        jb_free(r->files[i]->path);
        jb_free(r->files[i]);
    }
    jb_free(r->files);
    jb_free(r->entries);
    jb_free(r->path_list);
    jb_free(r);
}

size_t jb_registry_file_count(const jb_registry *r) { return r->file_count; }
const jb_plugin_file *jb_registry_file(const jb_registry *r, size_t i) { return i < r->file_count ? r->files[i] : NULL; }

const char *jb_registry_hash(const jb_registry *r, const jb_plugin_file *f)
{
    for (size_t i = 0; i < r->file_count; i++)
        if (r->files[i] == f && !r->files[i]->sha256[0] && jb_hash_file(f->path, r->files[i]->sha256, NULL)) r->files[i]->sha256[0] = '\0';
    return f->sha256;
}

size_t jb_registry_count(const jb_registry *r, const char *kind)
{
    size_t n = 0;
    for (size_t i = 0; i < r->entry_count; i++) n += !kind || !strcmp(r->entries[i].component->kind, kind);
    return n;
}

const jb_component *jb_registry_at(const jb_registry *r, const char *kind, size_t i)
{
    for (size_t k = 0; k < r->entry_count; k++)
        if ((!kind || !strcmp(r->entries[k].component->kind, kind)) && i-- == 0) return r->entries[k].component;
    return NULL;
}

/* ---- lookup and its refusal --------------------------------------------------- */

/* "jb.method/1" -> "method". */
static void kind_word(const char *kind, char out[32])
{
    const char *dot = strchr(kind, '.');
    snprintf(out, 32, "%.31s", dot ? dot + 1 : kind);
    out[strcspn(out, "/")] = '\0';
}

static int not_found(const jb_registry *r, const char *kind, const char *name, jb_error *err)
{
    const char *names[256];
    size_t n = 0, refused = 0;
    char word[32], list[160] = "";
    kind_word(kind, word);
    for (size_t i = 0; i < r->entry_count && n < 256; i++)
        if (!strcmp(r->entries[i].component->kind, kind)) names[n++] = r->entries[i].component->name;
    for (size_t i = 0; i < n; i++) {
        size_t used = strlen(list);
        if (used + strlen(names[i]) + 3 < sizeof list) snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
    }
    const jb_plugin_file *first = NULL;
    for (size_t i = 0; i < r->file_count; i++)
        if (!r->files[i]->manifest && !refused++) first = r->files[i];
    const char *near = jb_text_nearest(name, names, n);
    jb_err(err, JB_ENOTFOUND, "no %s named \"%.64s\"; folders tried: %.200s", word, name, r->path_list[0] ? r->path_list : "none");
    if (err) err->flags |= JB_ERR_USER;
    if (near) jb_err_hint(err, "did you mean \"%s\"? known: %s", near, list);
    else if (refused) jb_err_hint(err, "known: %s; %zu plugin file(s) refused, e.g. %.60s: see jaxbench plugin list", n ? list : "none", refused, first->path);
    else jb_err_hint(err, "known: %s", n ? list : "none; set JAXBENCH_PLUGIN_PATH to a folder that holds some");
    return JB_ENOTFOUND;
}

int jb_registry_find(const jb_registry *r, const char *kind, const char *name, const jb_component **out, jb_error *err)
{
    for (size_t i = 0; i < r->entry_count; i++)
        if (!strcmp(r->entries[i].component->kind, kind) && !strcmp(r->entries[i].component->name, name)) {
            *out = r->entries[i].component;
            return 0;
        }
    return not_found(r, kind, name, err);
}

const jb_plugin_file *jb_registry_file_of(const jb_registry *r, const jb_component *c)
{
    for (size_t i = 0; i < r->entry_count; i++)
        if (r->entries[i].component == c) return r->entries[i].file;
    return NULL;
}

char *jb_registry_data_dir(const jb_registry *r, const jb_component *c)
{
    const jb_plugin_file *f = jb_registry_file_of(r, c);
    char *dir = f ? jb_fs_dirname(f->path) : NULL, *out = dir ? jb_fs_join(dir, c->name) : NULL;
    jb_free(dir);
    return out;
}
