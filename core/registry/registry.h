/* SPDX-License-Identifier: Apache-2.0 */
/* core/registry/registry.h - finds plugin files along a path list, loads them
 * (RTLD_NOW | RTLD_LOCAL, never closed), checks their manifest and hands out
 * components by kind and name.  Scanning runs no plugin code. */
#ifndef JB_REGISTRY_H
#define JB_REGISTRY_H

#include "core/base/buf.h"
#include <jaxbench/plugin.h>

typedef struct jb_registry jb_registry;

/* What became of one file. */
typedef struct jb_plugin_file {
    char *path;
    char sha256[65];           /* "" until jb_registry_hash asked for it */
    const jb_plugin *manifest; /* NULL when refused */
    jb_error error;            /* why it was refused */
    int shadowed;              /* an earlier file has the same id */
} jb_plugin_file;

/* `path_list`: ':'-separated folders (recursed one level: plugins/ may hold
 * subfolders per kind).  Files that fail are kept with their error; only
 * out-of-memory fails the call.  World-writable files are refused. */
int jb_registry_open(const char *path_list, jb_registry **out, jb_error *err);
void jb_registry_free(jb_registry *r);
size_t jb_registry_file_count(const jb_registry *r);
const jb_plugin_file *jb_registry_file(const jb_registry *r, size_t i);

/* Content hash of the file, computed once; "" when it can't be read. */
const char *jb_registry_hash(const jb_registry *r, const jb_plugin_file *f);

/* Components of `kind` (NULL: all), sorted by kind, then name. */
size_t jb_registry_count(const jb_registry *r, const char *kind);
const jb_component *jb_registry_at(const jb_registry *r, const char *kind, size_t i);
/* By name; the error names the nearest, the folders tried and files refused. */
int jb_registry_find(const jb_registry *r, const char *kind, const char *name,
                     const jb_component **out, jb_error *err);
const jb_plugin_file *jb_registry_file_of(const jb_registry *r, const jb_component *c);
/* Check a manifest against this host: ABI major, sizes, names, duplicate
 * components.  Used by the loader and by tests. */
int jb_manifest_check(const jb_plugin *p, jb_error *err);

/* Folder of the plugin's data files (templates), as "<dir of .so>/<name>". */
char *jb_registry_data_dir(const jb_registry *r, const jb_component *c);

#endif
