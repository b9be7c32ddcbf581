/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/layout.c - where the parts of this installation lie (fs.h).
 *
 *     build tree   <build>/jaxbench, <build>/tests/test_x   (a CMakeCache.txt in <build>)
 *                  <build>/jaxbench-worker  <build>/plugins  <source>/suite
 *     installed    <prefix>/bin/jaxbench, <prefix>/libexec/jaxbench/jaxbench-worker
 *                  <prefix>/lib/jaxbench/plugins/v1  <prefix>/share/jaxbench/suite
 *
 * An installation is asked for first, so that one staged inside a build tree is
 * taken for what it is.  It looks at names only: that the worker runs or the
 * suite is whole is for those who use them. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CACHE_MAX (8u << 20) /* of CMakeCache.txt */
#define PATH_BYTES 4096
#define CLIMB 6              /* levels between a test program and its build folder */

static const char *environment(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

static char *own_path(void)
{
    size_t room = 256;
    for (;;) {
        char *path = jb_alloc(room);
        if (!path) return NULL;
        ssize_t n = readlink("/proc/self/exe", path, room);
        if (n > 0 && (size_t)n < room) return path;
        jb_free(path);
        if (n <= 0 || room > (1u << 16)) return NULL;
        room *= 2;
    }
}

/* <prefix> when `dir` is <prefix>/bin or <prefix>/libexec/jaxbench and the
 * prefix holds our shared files; else NULL. */
static char *find_prefix(const char *dir)
{
    static const char *const places[] = { "/bin", "/libexec/jaxbench" };
    size_t n = strlen(dir);
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        size_t m = strlen(places[i]);
        if (n < m || strcmp(dir + n - m, places[i])) continue;
        char *prefix = n == m ? jb_strdup("/") : jb_strndup(dir, n - m);
        char *share = prefix ? jb_fs_join(prefix, "share/jaxbench") : NULL;
        char *lib = prefix ? jb_fs_join(prefix, "lib/jaxbench") : NULL;
        int ours = jb_fs_is_dir(share) || jb_fs_is_dir(lib);
        jb_free(share);
        jb_free(lib);
        if (ours) return prefix;
        jb_free(prefix);
    }
    return NULL;
}

/* The nearest folder at or above `dir` that holds a CMakeCache.txt, or NULL. */
static char *find_build(const char *dir)
{
    char *at = jb_strdup(dir);
    for (int level = 0; at && level <= CLIMB; level++) {
        char *cache = jb_fs_join(at, "CMakeCache.txt");
        int found = jb_fs_exists(cache);
        jb_free(cache);
        if (found) return at;
        char *up = jb_fs_dirname(at);
        int top = !up || !strcmp(up, at);
        jb_free(at);
        at = up;
        if (top) break;
    }
    jb_free(at);
    return NULL;
}

/* The value of CMAKE_HOME_DIRECTORY in the build folder's cache. */
static char *source_of(const char *build, jb_error *err)
{
    static const char key[] = "\nCMAKE_HOME_DIRECTORY:INTERNAL=";
    jb_buf text = JB_BUF_INIT(CACHE_MAX);
    char *root = NULL, *cache = jb_fs_join(build, "CMakeCache.txt");
    if (!cache || jb_buf_puts(&text, "\n")) {
        jb_err(err, JB_ENOMEM, "out of memory reading the build folder's CMakeCache.txt");
        goto out;
    }
    if (jb_fs_read(cache, CACHE_MAX - 1, &text, err)) goto out;
    const char *at = strstr(text.ptr, key);
    if (!at) {
        jb_err(err, JB_EPARSE, "%s names no CMAKE_HOME_DIRECTORY", cache);
        jb_err_hint(err, "configure again: cmake -S <source> -B %s", build);
        goto out;
    }
    at += sizeof key - 1;
    root = jb_strndup(at, strcspn(at, "\r\n"));
    if (!root) jb_err(err, JB_ENOMEM, "out of memory reading %s", cache);
out:
    jb_buf_free(&text);
    jb_free(cache);
    return root;
}

/* $variable, or else folder/name.  NULL when out of memory. */
static char *part(const char *variable, const char *folder, const char *name)
{
    const char *set = environment(variable);
    return set ? jb_strdup(set) : jb_fs_join(folder, name);
}

static char *cache_folder(void)
{
    const char *v;
    if ((v = environment("JAXBENCH_CACHE"))) return jb_strdup(v);
    if ((v = environment("XDG_CACHE_HOME")) && *v == '/') return jb_fs_join(v, "jaxbench");
    if ((v = environment("HOME"))) return jb_fs_join(v, ".cache/jaxbench");
    return jb_asprintf("/tmp/jaxbench-%ld", (long)getuid());
}

/* $JAXBENCH_PLUGIN_PATH comes first, so its plugins shadow ours; those of the
 * user's data folder count in an installation only: a build tree stays apart. */
static char *plugin_folders(const char *own, int installed)
{
    const char *set = environment("JAXBENCH_PLUGIN_PATH"), *data = environment("XDG_DATA_HOME"), *home = environment("HOME");
    char *user = NULL, *all = NULL;
    if (installed && data && *data == '/') user = jb_fs_join(data, "jaxbench/plugins/v1");
    else if (installed && home) user = jb_fs_join(home, ".local/share/jaxbench/plugins/v1");
    if (user && !jb_fs_is_dir(user)) {
        jb_free(user);
        user = NULL;
    }
    all = jb_asprintf("%s%s%s%s%s", set ? set : "", set ? ":" : "", user ? user : "", user ? ":" : "", own);
    jb_free(user);
    return all;
}

int jb_layout_find(jb_layout *out, jb_error *err)
{
    int rc = 0;
    jb_layout l = { 0 };
    char *dir = NULL, *build = NULL, *prefix = NULL, *own = NULL;
    memset(out, 0, sizeof *out);
    l.exe = own_path();
    dir = l.exe ? jb_fs_dirname(l.exe) : NULL;
    if (!dir) {
        rc = jb_err(err, JB_EIO, "can't find the path of this program in /proc/self/exe");
        goto out;
    }
    prefix = find_prefix(dir);
    build = prefix ? NULL : find_build(dir);
    if (prefix) {
        l.root = jb_strdup(prefix);
        l.worker = part("JAXBENCH_WORKER", prefix, "libexec/jaxbench/jaxbench-worker");
        l.suite = part("JAXBENCH_SUITE", prefix, "share/jaxbench/suite");
        l.examples = jb_fs_join(prefix, "share/jaxbench/examples");
        own = jb_fs_join(prefix, "lib/jaxbench/plugins/v1");
    } else if (build) {
        l.root = source_of(build, err);
        if (!l.root) {
            rc = err ? err->code : JB_EIO;
            goto out;
        }
        l.worker = part("JAXBENCH_WORKER", build, "jaxbench-worker");
        l.suite = part("JAXBENCH_SUITE", l.root, "suite");
        l.examples = jb_fs_join(l.root, "examples");
        own = jb_fs_join(build, "plugins");
    } else {
        rc = jb_err(err, JB_ENOTFOUND, "%s lies neither in a build folder (no CMakeCache.txt up to %d levels above) nor in <prefix>/bin of an "
                    "installation (no share/jaxbench in the prefix)", l.exe, CLIMB);
        jb_err_hint(err, "run the program where it was built or installed; a link to it is fine, a copy is not");
        goto out;
    }
    if (own) l.plugins = plugin_folders(own, prefix != NULL);
    l.cache = cache_folder();
    if (!l.root || !l.worker || !l.suite || !l.examples || !l.plugins || !l.cache) {
        rc = jb_err(err, JB_ENOMEM, "out of memory finding the parts of jaxbench");
        goto out;
    }
    *out = l;
    memset(&l, 0, sizeof l);
out:
    jb_layout_free(&l);
    jb_free(dir);
    jb_free(build);
    jb_free(prefix);
    jb_free(own);
    return rc;
}

void jb_layout_free(jb_layout *l)
{
    if (!l) return;
    jb_free(l->exe);
    jb_free(l->root);
    jb_free(l->worker);
    jb_free(l->suite);
    jb_free(l->examples);
    jb_free(l->plugins);
    jb_free(l->cache);
    memset(l, 0, sizeof *l);
}

/* ---- the interpreter --------------------------------------------------------------- */

/* The venv of an installation: <root>/share/jaxbench/venv, or the folder that
 * venv.path beside it names (relative to the root, or absolute).  NULL when there is
 * neither, as in a build tree. */
static char *installed_venv(const char *root)
{
    char *share = jb_fs_join(root, "share/jaxbench"), *venv = share ? jb_fs_join(share, "venv") : NULL;
    char *note = share ? jb_fs_join(share, "venv.path") : NULL, *found = NULL;
    jb_buf text = JB_BUF_INIT(PATH_BYTES);
    if (venv && jb_fs_is_dir(venv)) {
        found = jb_strdup(venv);
    } else if (note && jb_fs_exists(note) && jb_fs_read(note, PATH_BYTES - 1, &text, NULL) == 0 && text.ptr) {
        text.ptr[strcspn(text.ptr, "\r\n")] = 0;
        if (text.ptr[0] != 0) found = text.ptr[0] == '/' ? jb_strdup(text.ptr) : jb_fs_join(root, text.ptr);
    }
    jb_buf_free(&text);
    jb_free(note);
    jb_free(venv);
    jb_free(share);
    return found;
}

char *jb_layout_python(const char *root)
{
    const char *python = environment("JAXBENCH_PYTHON"), *venv = environment("JAXBENCH_VENV");
    if (python) return jb_strdup(python);
    if (venv) return jb_fs_join(venv, "bin/python");
    char *installed = installed_venv(root), *found = NULL;
    if (installed) found = jb_fs_join(installed, "bin/python");
    else found = JB_PYTHON[0] == '/' ? jb_strdup(JB_PYTHON) : jb_fs_join(root, JB_PYTHON);
    jb_free(installed);
    return found;
}
