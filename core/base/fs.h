/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/fs.h - files: whole reads with a cap, atomic writes, folders, and
 * where this installation's parts lie. */
#ifndef JB_BASE_FS_H
#define JB_BASE_FS_H

#include "core/base/buf.h"

/* Append the file to `out`.  JB_ENOTFOUND, JB_EIO, JB_ENOMEM; JB_EINVAL when it
 * is larger than max_bytes (a regular file is then not read) or a folder. */
int jb_fs_read(const char *path, size_t max_bytes, jb_buf *out, jb_error *err);
/* Write to a temporary name in the same folder, fsync, rename, fsync the folder;
 * mode 0666 & ~umask.  A link at `path` is replaced, not followed. */
int jb_fs_write_atomic(const char *path, const void *data, size_t len, jb_error *err);
int jb_fs_mkdirs(const char *path, jb_error *err); /* mode 0777 & ~umask; existing is fine */
int jb_fs_exists(const char *path);
int jb_fs_is_dir(const char *path);
int jb_fs_remove_tree(const char *path, jb_error *err); /* does not follow links; absent is fine */
int64_t jb_fs_tree_bytes(const char *path); /* of regular files, links not followed; 0 when absent */
/* Sorted names in a folder (no dot files); free each and the array. -1 if it can't be read. */
int64_t jb_fs_list(const char *path, char ***names_out);
void jb_fs_list_free(char **names, int64_t count);
char *jb_fs_join(const char *a, const char *b); /* malloc'ed */
char *jb_fs_dirname(const char *path);

/* The layout of the running program: build tree (program in build/) or install
 * prefix (program in bin/), decided by what lies beside it.  JAXBENCH_SUITE,
 * JAXBENCH_WORKER and JAXBENCH_CACHE override; the folders of JAXBENCH_PLUGIN_PATH
 * come before our own, so that theirs shadow ours (first id wins), and in an
 * installation the user's <data>/jaxbench/plugins/v1 lies between.  Any program
 * below a build folder counts as of that build (tests).  core/base/layout.c */
typedef struct jb_layout {
    char *exe;     /* the program itself */
    char *root;    /* source tree or install prefix */
    char *worker;  /* jaxbench-worker */
    char *suite;   /* folder of suites: holds jaxbench/, gates/, distributions/ */
    char *plugins; /* ':'-separated */
    char *examples;/* example studies, and templates/ of `init` */
    char *cache;   /* $JAXBENCH_CACHE, $XDG_CACHE_HOME/jaxbench or ~/.cache/jaxbench */
} jb_layout;
int jb_layout_find(jb_layout *out, jb_error *err);
/* The interpreter of the project's venv, malloc'ed: $JAXBENCH_PYTHON, $JAXBENCH_VENV's,
 * that of an installation below `root` (docs/install.md), else the one the build was
 * configured with.  It need not be there.  NULL without memory. */
char *jb_layout_python(const char *root);
void jb_layout_free(jb_layout *l);

#endif
