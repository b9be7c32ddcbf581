/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/tensor.h - a read-only view of a dense array in host memory, and
 * the numeric facts about its element types that every checker needs.
 *
 * A jb_tensor never owns memory.  It is row-major and contiguous; checkers
 * receive them straight from the buffers of the runtime, without a copy. */
#ifndef JAXBENCH_TENSOR_H
#define JAXBENCH_TENSOR_H

#include <jaxbench/abi.h>
#include <string.h>

#define JB_MAX_RANK 8

/* Element types.  Stable numbers. */
#define JB_DT_BOOL 1u
#define JB_DT_I8 2u
#define JB_DT_I16 3u
#define JB_DT_I32 4u
#define JB_DT_I64 5u
#define JB_DT_U8 6u
#define JB_DT_U16 7u
#define JB_DT_U32 8u
#define JB_DT_U64 9u
#define JB_DT_F16 10u
#define JB_DT_BF16 11u
#define JB_DT_F32 12u
#define JB_DT_F64 13u

typedef struct jb_tensor {
    uint32_t struct_size;
    uint32_t dtype; /* JB_DT_* */
    uint32_t rank;  /* 0..JB_MAX_RANK; 0 is a scalar of one element */
    uint32_t reserved;
    int64_t dims[JB_MAX_RANK]; /* elements along each axis, outermost first */
    int64_t count;             /* product of dims */
    const void *data;          /* at least dtype-aligned; NULL only when count is 0 */
} jb_tensor;

/* Bytes of one element, 0 for an unknown dtype. */
static inline uint32_t jb_dtype_size(uint32_t dtype)
{
    switch (dtype) {
    case JB_DT_BOOL: case JB_DT_I8: case JB_DT_U8: return 1;
    case JB_DT_I16: case JB_DT_U16: case JB_DT_F16: case JB_DT_BF16: return 2;
    case JB_DT_I32: case JB_DT_U32: case JB_DT_F32: return 4;
    case JB_DT_I64: case JB_DT_U64: case JB_DT_F64: return 8;
    default: return 0;
    }
}

static inline const char *jb_dtype_name(uint32_t dtype)
{
    static const char *const names[] = { "?", "bool", "int8", "int16", "int32", "int64", "uint8", "uint16",
                                         "uint32", "uint64", "float16", "bfloat16", "float32", "float64" };
    return dtype < sizeof names / sizeof names[0] ? names[dtype] : "?";
}

static inline int jb_dtype_is_float(uint32_t dtype) { return dtype >= JB_DT_F16 && dtype <= JB_DT_F64; }

/* Unit roundoff u of a float type: half the spacing of the numbers just above
 * 1, so that rounding to nearest errs by at most u relative to the result
 * (bf16 2^-8, fp16 2^-11, fp32 2^-24, fp64 2^-53).  0 for other types. */
static inline double jb_dtype_roundoff(uint32_t dtype)
{
    switch (dtype) {
    case JB_DT_BF16: return 0x1p-8;
    case JB_DT_F16: return 0x1p-11;
    case JB_DT_F32: return 0x1p-24;
    case JB_DT_F64: return 0x1p-53;
    default: return 0.0;
    }
}

/* bf16 is the upper half of an fp32, so widening is a shift and exact. */
static inline float jb_bf16_to_f32(uint16_t bits)
{
    uint32_t w = (uint32_t)bits << 16;
    float f;
    memcpy(&f, &w, sizeof f);
    return f;
}

#endif
