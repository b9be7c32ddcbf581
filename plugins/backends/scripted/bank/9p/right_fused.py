import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def mlp_kernel(x_ref, wg_ref, wu_ref, wd_ref, out_ref, acc_ref):
    step = pl.program_id(1)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    x = x_ref[...]
    gate = jnp.dot(x, wg_ref[...], preferred_element_type=jnp.float32).astype(x.dtype)
    up = jnp.dot(x, wu_ref[...], preferred_element_type=jnp.float32).astype(x.dtype)
    hidden = gate * jax.nn.sigmoid(gate) * up
    acc_ref[...] += jnp.dot(hidden, wd_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(1) - 1)
    def _():
        out_ref[...] = acc_ref[...].astype(out_ref.dtype)


def largest_divisor(n, limit):
    return max(b for b in range(128, limit + 1, 128) if n % b == 0)


def workload(x, gate_kernel, up_kernel, down_kernel):
    b, s, e = x.shape
    m = gate_kernel.shape[1]
    tokens = b * s
    block_t = min(<<128|256>>, tokens)
    block_m = largest_divisor(m, <<128|256>>)
    out = pl.pallas_call(
        mlp_kernel,
        grid=(pl.cdiv(tokens, block_t), m // block_m),
        in_specs=[
            pl.BlockSpec((block_t, e), lambda i, j: (i, 0)),
            pl.BlockSpec((e, block_m), lambda i, j: (0, j)),
            pl.BlockSpec((e, block_m), lambda i, j: (0, j)),
            pl.BlockSpec((block_m, e), lambda i, j: (j, 0)),
        ],
        out_specs=pl.BlockSpec((block_t, e), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((tokens, e), x.dtype),
        scratch_shapes=[pltpu.VMEM((block_t, e), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 * 1024 * 1024),
    )(x.reshape(tokens, e), gate_kernel, up_kernel, down_kernel)
    return out.reshape(b, s, e)
