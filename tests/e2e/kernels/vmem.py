# SPDX-License-Identifier: Apache-2.0
# Right in interpret mode; its blocks do not fit in VMEM at the full shape.
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(a, b, o):
    o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    bm, bn = min(1024, M), min(1024, N)
    return pl.pallas_call(
        _kernel, grid=(M // bm, N // bn),
        in_specs=[pl.BlockSpec((bm, K), lambda i, j: (i, 0)), pl.BlockSpec((K, bn), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(A, B)
