/* SPDX-License-Identifier: Apache-2.0 */
/* harness/refs.h - reference files (docs/protocol.md, "Reference files"): their
 * keys, their seal, their read-only mapping as tensors, and the size cap of their
 * folder. */
#ifndef JB_HARNESS_REFS_H
#define JB_HARNESS_REFS_H

#include "core/base/json.h"
#include <jaxbench/tensor.h>

/* Groups of arrays in a file. */
#define JB_REF_INPUT 0u
#define JB_REF_R_JIT 1u
#define JB_REF_R_OP 2u
#define JB_REF_H 3u
#define JB_REF_GROUPS 4u
extern const char *const jb_ref_group_names[JB_REF_GROUPS]; /* "input", "r_jit", "r_op", "h" */

typedef struct jb_ref_file {
    void *map;
    size_t size;
    jb_tensor *tensors[JB_REF_GROUPS]; /* into the mapping; NULL when count is 0 */
    uint32_t count[JB_REF_GROUPS];
} jb_ref_file;

/* Map and check `path`; every offset, size and dtype is verified against the
 * file, and every byte against the hash in its header.  A link, a pipe or a
 * device is refused without waiting for it.  JB_ENOTFOUND, JB_EPARSE or JB_EINVAL
 * (damaged or no file: the caller removes and recomputes), JB_EIO, JB_ENOMEM. */
int jb_ref_open(const char *path, jb_ref_file *out, jb_error *err);
void jb_ref_close(jb_ref_file *f);
/* Bit per group that the file holds by its header, whose arrays are not read; 0
 * when it can't be opened, is damaged or was never sealed. */
uint32_t jb_ref_groups(const char *path);
/* Complete a file that was just written: put the hash into its header, and bring
 * it to the disk.  JB_EPARSE when it is no reference file; JB_EIO and the like
 * name the file and errno's text. */
int jb_ref_seal(const char *path, jb_error *err);
/* The same for a baseline, which has no header: to the disk, no more. */
int jb_ref_sync(const char *path, jb_error *err);
/* 1 when a regular file lies at `path`, and no link. */
int jb_ref_is_file(const char *path);

/* SHA-256 key of a request of a reference child, over what changes its arrays:
 * version, shape, distribution, draw, key, scale, and for a baseline its
 * platform; plus the versions of harness and jax. */
int jb_ref_key(const cJSON *request, const char *harness, const char *jax, char out[65]);

/* Bring `dir` under `cap_bytes`, least recently used files first (by mtime,
 * which jb_ref_touch renews); leaves temporary names younger than an hour. */
void jb_ref_evict(const char *dir, int64_t cap_bytes);
void jb_ref_touch(const char *path);

#endif
