import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

CHUNKS = <<2|4>>


def matmul_kernel(a_ref, b_ref, out_ref):
    depth = a_ref.shape[1] // CHUNKS
    acc = jnp.zeros(out_ref.shape, jnp.float32)
    for i in range(CHUNKS):
        part = slice(i * depth, (i + 1) * depth)
        acc += jnp.dot(a_ref[:, part], b_ref[part, :], preferred_element_type=jnp.float32)
    out_ref[...] = acc.astype(out_ref.dtype)


def workload(A, B):
    m, k = A.shape
    n = B.shape[1]
    block_m, block_n = min(256, m), min(<<128|256>>, n)
    return pl.pallas_call(
        matmul_kernel,
        grid=(pl.cdiv(n, block_n), pl.cdiv(m, block_m)),  # columns outermost: a strip of B stays in VMEM
        in_specs=[
            pl.BlockSpec((block_m, k), lambda j, i: (i, 0)),
            pl.BlockSpec((k, block_n), lambda j, i: (0, j)),
        ],
        out_specs=pl.BlockSpec((block_m, block_n), lambda j, i: (i, j)),
        out_shape=jax.ShapeDtypeStruct((m, n), A.dtype),
    )(A, B)
