import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def matmul_kernel(a_ref, b_ref, out_ref, acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(a_ref[...], b_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = acc_ref[...].astype(out_ref.dtype)


def largest_divisor(n, limit):
    return max(b for b in range(1, limit + 1) if n % b == 0)


def workload(A, B):
    m, k = A.shape
    n = B.shape[1]
    block_m, block_n = min(<<256|512>>, m), min(<<256|512>>, n)
    block_k = largest_divisor(k, <<1024|2048>>)  # K is summed, so its blocks must fit exactly
    grid = (pl.cdiv(m, block_m), pl.cdiv(n, block_n), k // block_k)
    return pl.pallas_call(
        matmul_kernel,
        grid=grid,
        in_specs=[
            pl.BlockSpec((block_m, block_k), lambda i, j, s: (i, s)),
            pl.BlockSpec((block_k, block_n), lambda i, j, s: (s, j)),
        ],
        out_specs=pl.BlockSpec((block_m, block_n), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), A.dtype),
        scratch_shapes=[pltpu.VMEM((block_m, block_n), jnp.float32)],
    )(A, B)
