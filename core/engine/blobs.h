/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/blobs.h - big bodies of a run by their SHA-256: blobs/<hash>.
 * Written under a temporary name, synced and renamed, so a blob that exists is
 * whole; equal bodies are stored once. */
#ifndef JB_ENGINE_BLOBS_H
#define JB_ENGINE_BLOBS_H

#include "core/base/buf.h"
#include "core/base/hash.h"

/* `dir` is the blobs folder (exists). Returns the hash in `out`. */
int jb_blob_put(const char *dir, jb_view body, char out[JB_HASH_HEX], jb_error *err);
/* Read and verify; JB_ENOTFOUND, or JB_EPARSE when the content is not what its name says. */
int jb_blob_get(const char *dir, const char *hash, size_t max_bytes, jb_buf *out, jb_error *err);
int jb_blob_exists(const char *dir, const char *hash);

#endif
