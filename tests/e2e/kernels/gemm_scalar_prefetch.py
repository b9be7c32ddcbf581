# SPDX-License-Identifier: Apache-2.0
# Right: the row-block order comes from a scalar-prefetched table.
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(order, a, b, o):
    o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    bm, bn = min(128, M), min(256, N)
    order = jnp.arange(M // bm, dtype=jnp.int32)[::-1]
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1,
        grid=(M // bm, N // bn),
        in_specs=[pl.BlockSpec((bm, K), lambda i, j, order: (order[i], 0)),
                  pl.BlockSpec((K, bn), lambda i, j, order: (0, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, order: (order[i], j)))
    return pl.pallas_call(_kernel, grid_spec=spec,
                          out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(order, A, B)
