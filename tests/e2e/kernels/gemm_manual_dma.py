# SPDX-License-Identifier: Apache-2.0
# Right: A stays in HBM and each row block is fetched by an explicit DMA.
import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def _kernel(a_hbm, b, o, a_vmem, sem):
    i = pl.program_id(0)
    bm = a_vmem.shape[0]
    copy = pltpu.make_async_copy(a_hbm.at[pl.ds(i * bm, bm), :], a_vmem, sem)
    copy.start()
    copy.wait()
    o[...] = jnp.dot(a_vmem[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    bm, bn = min(128, M), min(256, N)
    return pl.pallas_call(
        _kernel,
        grid=(M // bm, N // bn),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY),
                  pl.BlockSpec((K, bn), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
        scratch_shapes=[pltpu.VMEM((bm, K), A.dtype), pltpu.SemaphoreType.DMA])(A, B)
