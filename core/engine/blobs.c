/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/blobs.c - see blobs.h. */
#include "core/engine/blobs.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <string.h>

/* A hash comes from files a person can edit; never let one walk out of the folder. */
static int well_formed(const char *hash)
{
    return hash && strlen(hash) == JB_HASH_HEX - 1 && strspn(hash, "0123456789abcdef") == JB_HASH_HEX - 1;
}

int jb_blob_exists(const char *dir, const char *hash)
{
    if (!well_formed(hash)) return 0;
    char *path = jb_fs_join(dir, hash);
    int exists = path && jb_fs_exists(path);
    jb_free(path);
    return exists;
}

int jb_blob_put(const char *dir, jb_view body, char out[JB_HASH_HEX], jb_error *err)
{
    int rc = jb_hash_bytes(body.ptr, (size_t)body.len, out);
    if (rc != 0) return jb_err(err, rc, "blob: hashing failed");
    char *path = jb_fs_join(dir, out);
    if (!path) return jb_err(err, JB_ENOMEM, "blob: out of memory");
    if (!jb_fs_exists(path)) rc = jb_fs_write_atomic(path, body.ptr, (size_t)body.len, err);
    jb_free(path);
    return rc;
}

int jb_blob_get(const char *dir, const char *hash, size_t max_bytes, jb_buf *out, jb_error *err)
{
    if (!well_formed(hash)) return jb_err(err, JB_EPARSE, "blob: '%.80s' is no SHA-256", hash ? hash : "");
    char *path = jb_fs_join(dir, hash);
    char seen[JB_HASH_HEX];
    if (!path) return jb_err(err, JB_ENOMEM, "blob: out of memory");
    int rc;
    if (!jb_fs_exists(path)) {
        rc = jb_err(err, JB_ENOTFOUND, "blob %s is missing", path);
        jb_err_hint(err, "the journal names it; restore the file, or start a new run");
        goto out;
    }
    rc = jb_fs_read(path, max_bytes, out, err);
    if (rc != 0) goto out;
    rc = jb_hash_bytes(out->ptr, out->len, seen);
    if (rc == 0 && strcmp(seen, hash) != 0) {
        rc = jb_err(err, JB_EPARSE, "blob %s holds other bytes than its name says (SHA-256 %s)", path, seen);
        jb_err_hint(err, "the file was changed or damaged; restore it, or start a new run");
    }
out:
    jb_free(path);
    return rc;
}
