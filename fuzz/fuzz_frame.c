/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_frame.c - any bytes as a stream of frames, read as a peer reads them:
 * what is accepted keeps to both caps and encodes back to the same header; the
 * first refusal ends the conversation and leaves the outputs alone. */
#include "fuzz/fuzz.h"

#include <jaxbench/frame.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1) return 0;
    const uint64_t cap = data[0] < 64 ? (uint64_t)1 << data[0] : UINT64_MAX;
    for (size_t at = 1; size - at >= JB_FRAME_HEADER;) {
        uint8_t head[JB_FRAME_HEADER];
        uint32_t type = 0x5a5a5a5a;
        uint64_t length = 0xa5a5a5a5a5a5a5a5u;
        int status = jb_frame_decode(data + at, cap, &type, &length);
        if (status) {
            MUST(status == JB_EPROTO && type == 0x5a5a5a5a && length == 0xa5a5a5a5a5a5a5a5u);
            return 0;
        }
        MUST(length <= cap && length <= JB_FRAME_MAX);
        jb_frame_encode(head, type, length);
        MUST(!memcmp(head, data + at, sizeof head));
        at += JB_FRAME_HEADER;
        if (length > size - at) return 0; /* the body has not arrived */
        at += (size_t)length;
    }
    return 0;
}
