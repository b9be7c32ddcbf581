/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/hash.c - SHA-256 through OpenSSL's EVP interface. */
#include "core/base/hash.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define DIGEST 32 /* bytes of a SHA-256 */

struct jb_hasher {
    EVP_MD_CTX *ctx;
    int failed;
};

/* All zeros when there is no digest: a hash that matches nothing. */
static void to_hex(const unsigned char *digest, int ok, char out[JB_HASH_HEX])
{
    memset(out, '0', JB_HASH_HEX - 1);
    out[JB_HASH_HEX - 1] = '\0';
    for (size_t i = 0; ok && i < DIGEST; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
}

jb_hasher *jb_hasher_new(void)
{
    jb_hasher *h = jb_alloc(sizeof *h);
    if (!h) return NULL;
    h->ctx = EVP_MD_CTX_new();
    if (!h->ctx || EVP_DigestInit_ex(h->ctx, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(h->ctx);
        jb_free(h);
        return NULL;
    }
    return h;
}

void jb_hasher_add(jb_hasher *h, const void *data, size_t len)
{
    if (h && len && EVP_DigestUpdate(h->ctx, data, len) != 1) h->failed = 1;
}

void jb_hasher_field(jb_hasher *h, const char *name, const void *data, size_t len)
{
    char head[48];
    size_t name_len = strlen(name);
    int n = snprintf(head, sizeof head, "%zu,%zu:", name_len, len);
    jb_hasher_add(h, head, (size_t)n);
    jb_hasher_add(h, name, name_len);
    jb_hasher_add(h, data, len);
}

void jb_hasher_done(jb_hasher *h, char out[JB_HASH_HEX])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };
    unsigned int n = 0;
    int ok = h && !h->failed && EVP_DigestFinal_ex(h->ctx, digest, &n) == 1 && n == DIGEST;
    to_hex(digest, ok, out);
    if (!h) return;
    EVP_MD_CTX_free(h->ctx);
    jb_free(h);
}

int jb_hash_bytes(const void *data, size_t len, char out[JB_HASH_HEX])
{
    unsigned char digest[EVP_MAX_MD_SIZE] = { 0 };
    unsigned int n = 0;
    int ok = EVP_Digest(len ? data : "", len, digest, &n, EVP_sha256(), NULL) == 1 && n == DIGEST;
    to_hex(digest, ok, out);
    return ok ? 0 : JB_EINTERNAL;
}

int jb_hash_file(const char *path, char out[JB_HASH_HEX], jb_error *err)
{
    int fd = jb_fs_open(path, O_RDONLY, err);
    if (fd < 0) return fd;
    jb_hasher *h = jb_hasher_new();
    if (!h) {
        close(fd);
        return jb_err(err, JB_ENOMEM, "out of memory hashing %s", path);
    }
    char block[65536];
    ssize_t n;
    while ((n = read(fd, block, sizeof block)) > 0 || (n < 0 && errno == EINTR))
        if (n > 0) jb_hasher_add(h, block, (size_t)n);
    int number = n < 0 ? errno : 0;
    close(fd);
    jb_hasher_done(h, out);
    return number ? jb_err(err, JB_EIO, "can't read %s: %s", path, strerror(number)) : 0;
}
