/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/hash.h - SHA-256 content hashes (OpenSSL EVP), as lowercase hex. */
#ifndef JB_BASE_HASH_H
#define JB_BASE_HASH_H

#include <jaxbench/abi.h>

#define JB_HASH_HEX 65 /* 64 digits and NUL */

typedef struct jb_hasher jb_hasher;
jb_hasher *jb_hasher_new(void);
void jb_hasher_add(jb_hasher *h, const void *data, size_t len);
/* A length-prefixed field, so that ("ab","c") and ("a","bc") differ. */
void jb_hasher_field(jb_hasher *h, const char *name, const void *data, size_t len);
void jb_hasher_done(jb_hasher *h, char out[JB_HASH_HEX]); /* frees h */

int jb_hash_bytes(const void *data, size_t len, char out[JB_HASH_HEX]);
int jb_hash_file(const char *path, char out[JB_HASH_HEX], jb_error *err);

#endif
