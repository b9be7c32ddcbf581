/* SPDX-License-Identifier: Apache-2.0 */
/* core/registry/manifest.c - is this manifest one that we can work with?
 *
 * A manifest is data of a stranger's file: every field is checked before it is
 * used, and a field beyond the writer's struct_size is not touched.  What can't
 * be checked is that its pointers point to memory; a file that lies there
 * crashes, as any shared object can. */
#include "core/registry/registry.h"

#include "core/base/error.h"
#include "core/options/options.h"

#include <jaxbench/checker.h>
#include <jaxbench/executor.h>
#include <jaxbench/method.h>
#include <jaxbench/timer.h>
#include <string.h>

#define MAX_COMPONENTS 64
#define MAX_OPTIONS 256
#define MAX_CONFIG_BYTES (1u << 20)

/* Bytes up to the end of a field: what ABI 1.0 had stays enough for ever. */
#define REACH(type, field) (offsetof(type, field) + sizeof(((type *)0)->field))
#define OPTION_MIN REACH(jb_option, help)

static const struct { const char *kind; size_t ops_min; } KINDS[] = {
    { JB_KIND_METHOD, REACH(jb_method_ops, on_event) },   { JB_KIND_BACKEND, REACH(jb_backend_ops, decode) },
    { JB_KIND_CHECKER, REACH(jb_checker_ops, verdict) },  { JB_KIND_TIMER, REACH(jb_timer_ops, measure) },
    { JB_KIND_EXECUTOR, REACH(jb_executor_ops, close) },
};

/* Bytes of the value an option of this type writes; 0: no such type. */
static size_t value_size(uint32_t type)
{
    switch (type) {
    case JB_OPT_BOOL: case JB_OPT_INT: case JB_OPT_DURATION: case JB_OPT_SIZE: return sizeof(int64_t);
    case JB_OPT_FLOAT: return sizeof(double);
    case JB_OPT_STRING: case JB_OPT_ENUM: case JB_OPT_PATH: return sizeof(const char *);
    default: return 0;
    }
}

/* [a-z0-9_]+, at most 64 long; a leading letter or digit. */
static int good_name(const char *s)
{
    size_t n = s ? strnlen(s, 65) : 0;
    return n >= 1 && n <= 64 && s[0] != '_' && strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789_") == n;
}

static int check_option(const jb_component *c, uint32_t i, jb_error *err)
{
    const jb_option *o = jb_options_at(c, i);
    if (!JB_HAS(o, jb_option, help)) return jb_err(err, JB_EABI, "component %s: option %u is %u bytes, expected %zu", c->name, i, o->struct_size, OPTION_MIN);
    if (!good_name(o->name)) return jb_err(err, JB_EABI, "component %s: option %u has no name of [a-z0-9_]+", c->name, i);
    size_t size = value_size(o->type);
    if (!size) return jb_err(err, JB_EABI, "component %s: option %s has the unknown type %u", c->name, o->name, o->type);
    if (o->offset % size || c->config_size < size || o->offset > c->config_size - size)
        return jb_err(err, JB_EABI, "component %s: option %s writes %zu bytes at %u of a config of %u", c->name, o->name, size, o->offset, c->config_size);
    if (o->type == JB_OPT_ENUM && (!o->choices || !o->choices[0]))
        return jb_err(err, JB_EABI, "component %s: option %s has no choices", c->name, o->name);
    if (!(o->min <= o->max)) return jb_err(err, JB_EABI, "component %s: option %s has an empty range", c->name, o->name);
    for (uint32_t k = 0; k < i; k++)
        if (!strcmp(jb_options_at(c, k)->name, o->name)) return jb_err(err, JB_EABI, "component %s: option %s occurs twice", c->name, o->name);
    return 0;
}

static int check_component(const jb_component *c, jb_error *err)
{
    size_t k = 0;
    if (!JB_HAS(c, jb_component, ops)) return jb_err(err, JB_EABI, "a component is %u bytes, expected at least %zu", c->struct_size, REACH(jb_component, ops));
    if (!good_name(c->name)) return jb_err(err, JB_EABI, "a component has no name of [a-z0-9_]+");
    if (!c->kind) return jb_err(err, JB_EABI, "component %s has no kind", c->name);
    while (k < sizeof KINDS / sizeof *KINDS && strcmp(KINDS[k].kind, c->kind)) k++;
    if (k == sizeof KINDS / sizeof *KINDS) {
        jb_err(err, JB_EABI, "component %s is of kind %.60s, which this jaxbench doesn't know", c->name, c->kind);
        return jb_err_hint(err, "known kinds: %s, %s, %s, %s, %s", KINDS[0].kind, KINDS[1].kind, KINDS[2].kind, KINDS[3].kind, KINDS[4].kind), JB_EABI;
    }
    if (!c->summary) return jb_err(err, JB_EABI, "component %s has no summary", c->name);
    uint32_t ops_size = 0;
    if (c->ops) memcpy(&ops_size, c->ops, sizeof ops_size);
    if (ops_size < KINDS[k].ops_min)
        return jb_err(err, JB_EABI, "component %s: its table of functions is %u bytes, %s needs %zu", c->name, ops_size, c->kind, KINDS[k].ops_min);
    if (c->option_count > MAX_OPTIONS || c->config_size > MAX_CONFIG_BYTES)
        return jb_err(err, JB_EABI, "component %s: %u options in %u bytes of config; at most %d in %u", c->name, c->option_count, c->config_size, MAX_OPTIONS, MAX_CONFIG_BYTES);
    if (c->option_count && (!c->options || c->option_size < OPTION_MIN || c->option_size % _Alignof(jb_option)))
        return jb_err(err, JB_EABI, "component %s: its option rows are %u bytes, expected at least %zu", c->name, c->option_size, OPTION_MIN);
    int status = 0;
    for (uint32_t i = 0; i < c->option_count && !status; i++) status = check_option(c, i, err);
    return status;
}

int jb_manifest_check(const jb_plugin *p, jb_error *err)
{
    if (!p) return jb_err(err, JB_EABI, "no manifest");
    /* The frozen head comes first: it decides whether the rest means anything. */
    if (p->abi_major != JB_ABI_MAJOR) {
        jb_err(err, JB_EABI, "built for plugin ABI %u.%u; this jaxbench has %u.%u", p->abi_major, p->abi_minor, JB_ABI_MAJOR, JB_ABI_MINOR);
        return jb_err_hint(err, "rebuild the plugin against this version's include/jaxbench"), JB_EABI;
    }
    if (!JB_HAS(p, jb_plugin, components)) return jb_err(err, JB_EABI, "the manifest is %u bytes, expected at least %zu", p->struct_size, offsetof(jb_plugin, open));
    const struct { const char *what, *text; } texts[] = {
        { "id", p->id }, { "version", p->version }, { "summary", p->summary }, { "license", p->license },
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!texts[i].text || !texts[i].text[0]) return jb_err(err, JB_EABI, "the manifest has no %s", texts[i].what);
    if (!p->components || !p->components[0]) return jb_err(err, JB_EABI, "plugin %s has no components", p->id);
    for (size_t i = 0; p->components[i]; i++) {
        if (i == MAX_COMPONENTS) return jb_err(err, JB_EABI, "plugin %s has more than %d components", p->id, MAX_COMPONENTS);
        int status = check_component(p->components[i], err);
        if (status) return status;
        for (size_t k = 0; k < i; k++)
            if (!strcmp(p->components[k]->name, p->components[i]->name) && !strcmp(p->components[k]->kind, p->components[i]->kind))
                return jb_err(err, JB_EABI, "plugin %s has two components %s of kind %s", p->id, p->components[i]->name, p->components[i]->kind);
    }
    return 0;
}
