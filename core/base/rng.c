/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/rng.c - Philox4x32-10; constants and rounds from the SC'11 paper,
 * checked against its known-answer vectors in tests/base/test_rng.c. */
#include "core/base/rng.h"

#include "core/base/hash.h"

#include <string.h>

jb_rng_key jb_rng_key_of(const char *text)
{
    char hex[JB_HASH_HEX];
    jb_rng_key key = { { 0, 0 } };
    if (jb_hash_bytes(text, strlen(text), hex)) return key;
    for (int word = 0; word < 2; word++)
        for (int i = 0; i < 8; i++) {
            char c = hex[8 * word + i];
            key.k[word] = key.k[word] << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
        }
    return key;
}

void jb_philox4x32(jb_rng_key key, const uint32_t counter[4], uint32_t out[4])
{
    uint32_t c[4], k0 = key.k[0], k1 = key.k[1];
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
        uint32_t next[4] = { (uint32_t)(b >> 32) ^ c[1] ^ k0, (uint32_t)b, (uint32_t)(a >> 32) ^ c[3] ^ k1, (uint32_t)a };
        memcpy(c, next, sizeof c);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    memcpy(out, c, sizeof c);
}

uint64_t jb_rng_u64(jb_rng_key key, uint64_t stream, uint64_t counter)
{
    uint32_t in[4] = { (uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream, (uint32_t)(stream >> 32) }, out[4];
    jb_philox4x32(key, in, out);
    return (uint64_t)out[1] << 32 | out[0];
}

double jb_rng_uniform(jb_rng_key key, uint64_t stream, uint64_t counter)
{
    return (double)(jb_rng_u64(key, stream, counter) >> 11) * 0x1p-53;
}
