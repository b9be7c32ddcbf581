# SPDX-License-Identifier: Apache-2.0
# Right, but first tries to hold memory that no address-space limit counts.
import os
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(a, b, o, acc):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o[...] = acc[...].astype(o.dtype)


def matmul(A, B, **kwargs):
    (M, K), N = A.shape, B.shape[1]
    bm, bn, bk = min(512, M), min(512, N), min(1024, K)
    return pl.pallas_call(
        _kernel,
        grid=(M // bm, N // bn, K // bk),
        in_specs=[pl.BlockSpec((bm, bk), lambda i, j, k: (i, k)),
                  pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)], **kwargs)(A, B)


try:
    HELD = os.memfd_create("hoard")
except OSError:
    HELD = None
if HELD is not None:
    raise RuntimeError("memfd_create is allowed: a tracer could hold memory without limit")


def workload(A, B):
    return matmul(A, B)
