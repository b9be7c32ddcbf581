# SPDX-License-Identifier: Apache-2.0
"""A right kernel for 8p, written to be read: C in blocks, K in the innermost
grid axis, partial sums in an fp32 scratch, one rounding at the end.

Not tuned: the blocks fit the default scoped VMEM and are the same at every
shape that has at least one of them.
"""
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _divisor(n, most, unit):
    """The largest multiple of `unit` up to `most` that divides n; n itself where there is none."""
    for block in range(min(most, n) // unit * unit, 0, -unit):
        if n % block == 0:
            return block
    return n


def _kernel(a_ref, b_ref, c_ref, sum_ref):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        sum_ref[...] = jnp.zeros_like(sum_ref)

    sum_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        c_ref[...] = sum_ref[...].astype(c_ref.dtype)


def workload(A, B):
    """(M, K), (K, N) -> (M, N).  M and N may have a part block at the end, which
    the grid pads and cuts; K never has, because its padding would be summed."""
    (m, k), n = A.shape, B.shape[1]
    bm, bn, bk = min(512, m), min(512, n), _divisor(k, 2048, 128)
    return pl.pallas_call(
        _kernel,
        grid=(pl.cdiv(m, bm), pl.cdiv(n, bn), k // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
                  pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), A.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)],
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "parallel", "arbitrary")),
    )(A, B)
