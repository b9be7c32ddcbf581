# SPDX-License-Identifier: Apache-2.0
# Wrong: zeros of the right shape, written by a kernel that touches no input.
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl


def _kernel(x, o):
    o[...] = jnp.zeros_like(o)


def workload(x, weight, bias):
    rows, n = x.shape[0], weight.shape[1]
    block = min(128, rows)
    return pl.pallas_call(
        _kernel, grid=(rows // block,),
        in_specs=[pl.BlockSpec((block, 128), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((block, n), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((rows, n), x.dtype))(x)
