# SPDX-License-Identifier: Apache-2.0
"""A right kernel for 1p, written to be read: one query block a row of the grid,
key blocks in the inner axis, the softmax kept online in fp32 scratch.  Key
blocks wholly above the diagonal are skipped.

Not tuned: skipped key blocks are still fetched.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

MASKED = -1e30  # below every logit, and its exponential is 0 in fp32


def _divisor(n, most, unit):
    """The largest multiple of `unit` up to `most` that divides n; n itself where there is none."""
    for block in range(min(most, n) // unit * unit, 0, -unit):
        if n % block == 0:
            return block
    return n


def _kernel(q_ref, k_ref, v_ref, out_ref, max_ref, norm_ref, sum_ref, *, scale):
    i, j = pl.program_id(2), pl.program_id(3)
    rows, cols = q_ref.shape[2], k_ref.shape[2]

    @pl.when(j == 0)
    def _():
        max_ref[...] = jnp.full_like(max_ref, MASKED)
        norm_ref[...] = jnp.zeros_like(norm_ref)
        sum_ref[...] = jnp.zeros_like(sum_ref)

    @pl.when(j * cols < (i + 1) * rows)
    def _():
        v = v_ref[0, 0]
        logits = lax.dot_general(q_ref[0, 0], k_ref[0, 0], (((1,), (1,)), ((), ())),
                                 preferred_element_type=jnp.float32) * scale
        row = i * rows + lax.broadcasted_iota(jnp.int32, (rows, cols), 0)
        col = j * cols + lax.broadcasted_iota(jnp.int32, (rows, cols), 1)
        logits = jnp.where(col <= row, logits, MASKED)
        # Column 0 is in the first block of every row, so the maximum is a real logit from the start.
        new_max = jnp.maximum(max_ref[...], jnp.max(logits, axis=-1, keepdims=True))
        weights = jnp.exp(logits - new_max)
        shrink = jnp.exp(max_ref[...] - new_max)
        max_ref[...] = new_max
        norm_ref[...] = norm_ref[...] * shrink + jnp.sum(weights, axis=-1, keepdims=True)
        sum_ref[...] = sum_ref[...] * shrink + jnp.dot(weights.astype(v.dtype), v,
                                                       preferred_element_type=jnp.float32)

    @pl.when(j == pl.num_programs(3) - 1)
    def _():
        out_ref[0, 0] = (sum_ref[...] / norm_ref[...]).astype(out_ref.dtype)


def workload(query, key, value):
    """(B, H, S, D) three times -> (B, H, S, D).  Blocks divide S, so nothing is padded."""
    batch, heads, seq, width = query.shape
    block = _divisor(seq, 512, 8)
    rows = pl.BlockSpec((1, 1, block, width), lambda b, h, i, j: (b, h, i, 0))
    cols = pl.BlockSpec((1, 1, block, width), lambda b, h, i, j: (b, h, j, 0))
    return pl.pallas_call(
        functools.partial(_kernel, scale=width ** -0.5),
        grid=(batch, heads, seq // block, seq // block),
        in_specs=[rows, cols, cols],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(query.shape, query.dtype),
        scratch_shapes=[pltpu.VMEM((block, 1), jnp.float32), pltpu.VMEM((block, 1), jnp.float32),
                        pltpu.VMEM((block, width), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "parallel", "arbitrary")),
    )(query, key, value)
