# SPDX-License-Identifier: Apache-2.0
# Right in interpret mode; the block is not divisible by (8, 128).
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(a, b, o):
    o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(
        _kernel, grid=(M // 4, N // 64),
        in_specs=[pl.BlockSpec((4, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 64), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((4, 64), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(A, B)
