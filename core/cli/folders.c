/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/folders.c - the run folders below ./runs: how big, how old, and whether
 * a living process holds one.  Reads the manifest for the study's name and
 * nothing else; a folder without a manifest is no run. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MANIFEST_MAX (64u << 20)

/* A living process holds the lock by flock (core/engine/journal.h). */
static int is_locked(const char *run)
{
    char *path = jb_fs_join(run, "lock");
    int fd = path ? jb_fs_open(path, O_RDONLY, NULL) : -1, locked = 0;
    if (fd >= 0) {
        locked = flock(fd, LOCK_SH | LOCK_NB) != 0;
        close(fd);
    }
    jb_free(path);
    return locked;
}

static int read_run(const char *path, jb_cli_run *out)
{
    struct stat st;
    char *manifest = jb_fs_join(path, "manifest.json");
    cJSON *o = NULL;
    if (!manifest || stat(manifest, &st)) {
        jb_free(manifest);
        return JB_ENOTFOUND;
    }
    o = jb_json_read_file(manifest, MANIFEST_MAX, NULL);
    const cJSON *name = jb_json_path(o, "study.expanded.name");
    if (!cJSON_IsString(name)) name = jb_json_path(o, "study.name");
    if (!cJSON_IsString(name)) name = cJSON_GetObjectItemCaseSensitive(o, "name");
    *out = (jb_cli_run){ .path = jb_strdup(path), .study = jb_strdup(cJSON_IsString(name) ? name->valuestring : "?"),
                         .bytes = jb_fs_tree_bytes(path), .changed = (int64_t)st.st_mtime, .locked = is_locked(path) };
    cJSON_Delete(o);
    jb_free(manifest);
    if (out->path && out->study) return 0;
    jb_free(out->path);
    jb_free(out->study);
    return JB_ENOMEM;
}

int jb_cli_runs(jb_cli_run **out, size_t *count_out, jb_error *err)
{
    char **names = NULL;
    int64_t count = jb_fs_list("runs", &names);
    size_t n = 0;
    int status = 0;
    jb_cli_run *runs = jb_alloc_array(count > 0 ? (size_t)count : 1, sizeof *runs);
    if (!runs) status = jb_err(err, JB_ENOMEM, "out of memory listing runs");
    for (int64_t i = 0; i < count && !status; i++) {
        char *path = jb_fs_join("runs", names[i]);
        status = path ? read_run(path, &runs[n]) : JB_ENOMEM;
        if (!status) n++;
        if (status == JB_ENOTFOUND) status = 0;
        if (status) jb_err(err, JB_ENOMEM, "out of memory listing runs");
        jb_free(path);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    if (status) jb_cli_runs_free(runs, n);
    else *out = runs, *count_out = n;
    return status;
}

void jb_cli_runs_free(jb_cli_run *runs, size_t count)
{
    for (size_t i = 0; runs && i < count; i++) {
        jb_free(runs[i].path);
        jb_free(runs[i].study);
    }
    jb_free(runs);
}
