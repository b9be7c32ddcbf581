/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/frame.h - the frames on the socket between an executor plugin and
 * jaxbench-worker, and between the worker and its children.
 *
 *     0      4      8          16
 *     +------+------+----------+=========================+
 *     | JBF1 | type |  length  |  `length` bytes of body |
 *     +------+------+----------+=========================+
 *
 * All little-endian.  The peer may be hostile: a reader gives the cap that fits
 * the frame it expects, checks magic, type and length *before* it allocates,
 * and treats anything else as the end of the conversation.  Header-only, so
 * that plugins need no library; it parses, it does no I/O. */
#ifndef JAXBENCH_FRAME_H
#define JAXBENCH_FRAME_H

#include <jaxbench/abi.h>
#include <string.h>

#define JB_FRAME_HEADER 16u
#define JB_FRAME_MAGIC 0x3146424au /* "JBF1" */

/* Types of frame.  Executor -> worker: */
#define JB_FRAME_JOB 1u    /* u64 job id, u32 spec length, spec JSON, body */
#define JB_FRAME_CANCEL 2u /* u64 job id */
#define JB_FRAME_QUIT 3u
/* Worker -> executor: */
#define JB_FRAME_READY 16u    /* JSON: versions, isolation layers, device */
#define JB_FRAME_PROGRESS 17u /* u64 job id, JSON */
#define JB_FRAME_DONE 18u     /* u64 job id, JSON record */
/* Child of the worker -> worker: */
#define JB_FRAME_RESULT 32u /* JSON */
#define JB_FRAME_MODULE 33u /* u32 name length, name, module bytes */

#define JB_FRAME_MAX (256u << 20) /* no frame is longer: 256 MiB */

static inline void jb_frame_encode(uint8_t out[JB_FRAME_HEADER], uint32_t type, uint64_t length)
{
    uint32_t magic = JB_FRAME_MAGIC;
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(magic >> (8 * i));
    for (int i = 0; i < 4; i++) out[4 + i] = (uint8_t)(type >> (8 * i));
    for (int i = 0; i < 8; i++) out[8 + i] = (uint8_t)(length >> (8 * i));
}

/* 0 and the fields, or JB_EPROTO when the magic is wrong or length > cap. */
static inline int jb_frame_decode(const uint8_t in[JB_FRAME_HEADER], uint64_t cap, uint32_t *type, uint64_t *length)
{
    uint32_t magic = 0, t = 0;
    uint64_t n = 0;
    for (int i = 3; i >= 0; i--) magic = magic << 8 | in[i];
    for (int i = 3; i >= 0; i--) t = t << 8 | in[4 + i];
    for (int i = 7; i >= 0; i--) n = n << 8 | in[8 + i];
    if (magic != JB_FRAME_MAGIC || n > cap || n > JB_FRAME_MAX) return JB_EPROTO;
    *type = t;
    *length = n;
    return 0;
}

#endif
