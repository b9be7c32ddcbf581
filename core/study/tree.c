/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/tree.c - the study's YAML with the --set overrides worked in.
 *
 * The document stays as it was read; a copy of its nodes in an arena takes the
 * changes.  A path's steps are keys of mappings, and for lists an index or the
 * `name` (or `use`) of an item: methods.iid.samples=4.  A value is a plain
 * scalar, or YAML in flow form when it begins with [ { " or '. */
#include "core/study/internal.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <stdio.h>
#include <string.h>

#define ARENA_BYTES (64u << 20)

static int no_memory(jb_error *err) { return jb_err(err, JB_ENOMEM, "out of memory reading the study"); }

static void *room(jb_tree *t, size_t count, size_t size) { return jb_arena_alloc(t->arena, (count ? count : 1) * size); }

/* Copy a node; `line` 0 keeps its own.  Texts are shared unless own_text. */
static jb_yaml *clone(jb_tree *t, const jb_yaml *n, int line, int own_text)
{
    jb_yaml *out = room(t, 1, sizeof *out);
    if (!out) return NULL;
    *out = *n;
    if (line) out->line = line;
    if (n->text && own_text && !(out->text = jb_arena_strdup(t->arena, n->text))) return NULL;
    out->items = n->count ? room(t, n->count, sizeof *out->items) : NULL;
    out->keys = n->count && n->keys ? room(t, n->count, sizeof *out->keys) : NULL;
    if (n->count && (!out->items || (n->keys && !out->keys))) return NULL;
    for (size_t i = 0; i < n->count; i++) {
        if (!(out->items[i] = clone(t, n->items[i], line, own_text))) return NULL;
        if (n->keys && !(out->keys[i] = clone(t, n->keys[i], line, own_text))) return NULL;
    }
    return out;
}

static jb_yaml *scalar(jb_tree *t, const char *text, int quoted, int line)
{
    jb_yaml *n = room(t, 1, sizeof *n);
    if (!n || !(n->text = jb_arena_strdup(t->arena, text))) return NULL;
    n->kind = JB_YAML_SCALAR;
    n->line = line;
    n->quoted = quoted;
    return n;
}

/* Append a pair to a mapping of the arena. */
static int add_pair(jb_tree *t, jb_yaml *map, jb_yaml *key, jb_yaml *value)
{
    jb_yaml **keys = room(t, map->count + 1, sizeof *keys), **items = room(t, map->count + 1, sizeof *items);
    if (!keys || !items || !key || !value) return JB_ENOMEM;
    if (map->count) memcpy(keys, map->keys, map->count * sizeof *keys);
    if (map->count) memcpy(items, map->items, map->count * sizeof *items);
    keys[map->count] = key;
    items[map->count++] = value;
    map->keys = keys;
    map->items = items;
    return 0;
}

/* Where step `name` of a path leads from `n`; NULL with an error. */
static jb_yaml **step(jb_tree *t, jb_yaml *n, const char *name, int line, const char *set, jb_error *err)
{
    if (n->kind == JB_YAML_SCALAR) { /* `executor: local` is short for {use: local} */
        jb_yaml *copy = clone(t, n, 0, 0), *key = scalar(t, "use", 0, n->line);
        *n = (jb_yaml){ .kind = JB_YAML_MAPPING, .line = line }; /* what goes wrong now is the override's doing */
        if (!copy || (copy->text[0] && add_pair(t, n, key, copy))) return no_memory(err), NULL;
    }
    if (n->kind == JB_YAML_MAPPING) {
        for (size_t i = 0; i < n->count; i++)
            if (!strcmp(n->keys[i]->text, name)) return &n->items[i];
        jb_yaml *value = room(t, 1, sizeof *value);
        if (value) *value = (jb_yaml){ .kind = JB_YAML_MAPPING, .line = line };
        if (add_pair(t, n, scalar(t, name, 0, line), value)) return no_memory(err), NULL;
        return &n->items[n->count - 1];
    }
    int64_t index;
    if (!jb_text_i64(name, &index) && index >= 0 && (uint64_t)index < n->count) return &n->items[index];
    const char *names[64];
    size_t count = 0;
    for (size_t i = 0; i < n->count; i++) {
        const jb_yaml *label = jb_yaml_get(n->items[i], "name");
        if (!label) label = jb_yaml_get(n->items[i], "use");
        if (!label) label = n->items[i];
        if (label->kind != JB_YAML_SCALAR) continue;
        if (!strcmp(label->text, name)) return &n->items[i];
        if (count < 64) names[count++] = label->text;
    }
    const char *near = jb_text_nearest(name, names, count);
    jb_err(err, JB_EINVAL, "--set %.200s: the list has no item \"%.60s\"", set, name);
    if (near) jb_err_hint(err, "did you mean \"%s\"?", near);
    else jb_err_hint(err, "items are chosen by name or by index, 0 to %zu", n->count ? n->count - 1 : 0);
    return NULL;
}

static jb_yaml *value_of(jb_tree *t, const char *text, int line, const char *set, jb_error *err)
{
    jb_yaml *n;
    if (!text[0] || !strchr("[{\"'", text[0])) {
        n = scalar(t, text, 0, line);
    } else {
        char name[JB_HASH_HEX];
        snprintf(name, sizeof name, "--set %.40s", set);
        jb_yaml_doc *doc = jb_yaml_parse(text, strlen(text), name, err);
        if (!doc) return NULL;
        n = clone(t, jb_yaml_root(doc), line, 1);
        jb_yaml_free(doc);
    }
    if (!n) no_memory(err);
    return n;
}

static int apply(jb_tree *t, size_t k, jb_error *err)
{
    const char *set = t->set[k], *equals = strchr(set, '=');
    if (!equals || equals == set) {
        jb_err(err, JB_EINVAL, "--set %.200s: expected KEY=VALUE", set);
        return jb_err_hint(err, "for example --set executor.slots=1 or --set methods.iid.samples=4"), JB_EINVAL;
    }
    int line = JB_SET_LINE + (int)k;
    jb_yaml **at = &t->root;
    for (const char *s = set; s < equals;) {
        char name[128];
        size_t n = strcspn(s, ".=");
        if (!n || n >= sizeof name || s + n > equals || (s[n] == '.' && s + n + 1 >= equals))
            return jb_err(err, JB_EINVAL, "--set %.200s: malformed key", set);
        memcpy(name, s, n);
        name[n] = '\0';
        at = step(t, *at, name, line, set, err);
        if (!at) return err->code;
        s += n + 1;
    }
    jb_yaml *value = value_of(t, equals + 1, line, set, err);
    if (!value) return err->code;
    *at = value;
    return 0;
}

int jb_tree_open(jb_tree *t, const char *text, size_t len, const char *path, const char *const *set, size_t set_count, jb_error *err)
{
    int status = 0;
    *t = (jb_tree){ .set = set, .set_count = set_count };
    t->doc = jb_yaml_parse(text, len, path, err);
    if (!t->doc) return err->code;
    if (jb_yaml_root(t->doc)->kind != JB_YAML_MAPPING)
        status = jb_yaml_error(t->doc, jb_yaml_root(t->doc), err, JB_EINVAL, "a study is a mapping of keys to values (schema: 1, name: ...)");
    if (!status && (!(t->arena = jb_arena_new(ARENA_BYTES)) || !(t->root = clone(t, jb_yaml_root(t->doc), 0, 0)))) status = no_memory(err);
    for (size_t k = 0; k < set_count && !status; k++) status = apply(t, k, err);
    if (status) jb_tree_close(t);
    return status;
}

void jb_tree_close(jb_tree *t)
{
    jb_arena_free(t->arena);
    jb_yaml_free(t->doc);
    *t = (jb_tree){ 0 };
}

void jb_tree_relabel(const jb_tree *t, jb_error *err)
{
    const char *colon = strrchr(err->where, ':');
    int64_t line;
    if (!colon || jb_text_i64(colon + 1, &line) || line < JB_SET_LINE || (uint64_t)(line - JB_SET_LINE) >= t->set_count) return;
    char where[sizeof err->where];
    snprintf(where, sizeof where, "--set %.100s", t->set[line - JB_SET_LINE]);
    jb_err_where(err, where, 0);
}
