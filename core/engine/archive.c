/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/archive.c - see archive.h. */
#include "core/engine/archive.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <string.h>

static int same_on_disk(const char *path, jb_view want)
{
    jb_buf have = JB_BUF_INIT((size_t)want.len + 1);
    int same = jb_fs_exists(path) && jb_fs_read(path, (size_t)want.len + 1, &have, NULL) == 0 && have.len == want.len &&
               (want.len == 0 || memcmp(have.ptr, want.ptr, (size_t)want.len) == 0);
    jb_buf_free(&have);
    return same;
}

static int put_file(const char *dir, const char *name, jb_view body, jb_error *err)
{
    char *path = jb_fs_join(dir, name);
    if (!path) return jb_err(err, JB_ENOMEM, "archive: out of memory");
    int rc = same_on_disk(path, body) ? 0 : jb_fs_write_atomic(path, body.ptr ? body.ptr : "", (size_t)body.len, err);
    jb_free(path);
    return rc;
}

int jb_archive_write(const jb_archive_entry *a, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    char *dir = jb_asprintf("%s/%llu", a->cell_dir, (unsigned long long)a->candidate);
    int rc = dir ? jb_fs_mkdirs(dir, err) : jb_err(err, JB_ENOMEM, "archive: out of memory");
    if (rc == 0 && a->prompt.ptr) rc = put_file(dir, "prompt.txt", a->prompt, err);
    if (rc == 0 && a->reply.ptr) rc = put_file(dir, "reply.txt", a->reply, err);
    if (rc == 0 && a->source.ptr) rc = put_file(dir, "candidate.py", a->source, err);
    if (rc == 0) {
        rc = jb_json_print_pretty(a->result, &text);
        if (rc == 0) rc = jb_buf_puts(&text, "\n");
        if (rc != 0) jb_err(err, rc, "archive: the record is too long or memory is out");
    }
    if (rc == 0) rc = put_file(dir, "result.json", jb_buf_view(&text), err);
    jb_buf_free(&text);
    jb_free(dir);
    return rc;
}
