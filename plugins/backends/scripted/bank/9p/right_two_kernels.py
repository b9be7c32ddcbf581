import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def gate_up_kernel(x_ref, wg_ref, wu_ref, out_ref, gate_ref, up_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        gate_ref[...] = jnp.zeros_like(gate_ref)
        up_ref[...] = jnp.zeros_like(up_ref)

    gate_ref[...] += jnp.dot(x_ref[...], wg_ref[...], preferred_element_type=jnp.float32)
    up_ref[...] += jnp.dot(x_ref[...], wu_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = (jax.nn.silu(gate_ref[...]) * up_ref[...]).astype(out_ref.dtype)


def down_kernel_body(h_ref, w_ref, out_ref, acc_ref):
    step = pl.program_id(2)

    @pl.when(step == 0)
    def _():
        acc_ref[...] = jnp.zeros_like(acc_ref)

    acc_ref[...] += jnp.dot(h_ref[...], w_ref[...], preferred_element_type=jnp.float32)

    @pl.when(step == pl.num_programs(2) - 1)
    def _():
        out_ref[...] = acc_ref[...].astype(out_ref.dtype)


def divisor(n, limit):
    """A block along a summed axis: it must divide n."""
    return max([b for b in range(128, limit + 1, 128) if n % b == 0], default=n)


def product(body, inputs, k, n, block_n, block_k, scratches):
    """Rows of inputs[0] times every other input, summed over k."""
    rows = inputs[0].shape[0]
    block_t = min(<<128|256>>, rows)
    weight = pl.BlockSpec((block_k, block_n), lambda i, j, s: (s, j))
    return pl.pallas_call(
        body,
        grid=(pl.cdiv(rows, block_t), pl.cdiv(n, block_n), k // block_k),
        in_specs=[pl.BlockSpec((block_t, block_k), lambda i, j, s: (i, s))] + [weight] * (len(inputs) - 1),
        out_specs=pl.BlockSpec((block_t, block_n), lambda i, j, s: (i, j)),
        out_shape=jax.ShapeDtypeStruct((rows, n), inputs[0].dtype),
        scratch_shapes=[pltpu.VMEM((block_t, block_n), jnp.float32)] * scratches,
    )(*inputs)


def workload(x, gate_kernel, up_kernel, down_kernel):
    b, s, e = x.shape
    m = gate_kernel.shape[1]
    flat = x.reshape(b * s, e)
    hidden = product(gate_up_kernel, (flat, gate_kernel, up_kernel), e, m, 512, divisor(e, <<512|1024>>), 2)
    out = product(down_kernel_body, (hidden, down_kernel), m, e, 512, divisor(m, 1024), 1)
    return out.reshape(b, s, e)
