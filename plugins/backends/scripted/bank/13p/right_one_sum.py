import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def mean_loss_kernel(h_ref, w_ref, label_ref, out_ref, m_ref, l_ref, target_ref, total_ref, *, tokens, vocab):
    i, j = pl.program_id(0), pl.program_id(1)
    rows, cols = h_ref.shape[0], w_ref.shape[1]

    @pl.when((i == 0) & (j == 0))
    def _():
        total_ref[...] = jnp.zeros_like(total_ref)

    @pl.when(j == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, -1e30)
        l_ref[...] = jnp.zeros_like(l_ref)
        target_ref[...] = jnp.zeros_like(target_ref)

    z = jnp.dot(h_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    word = j * cols + jax.lax.broadcasted_iota(jnp.int32, (rows, cols), 1)
    z = jnp.where(word < vocab, z, -1e30)
    target_ref[...] += jnp.sum(jnp.where(word == label_ref[...], z, 0.0), axis=1, keepdims=True)
    m_old = m_ref[...]
    m_ref[...] = jnp.maximum(m_old, jnp.max(z, axis=1, keepdims=True))
    l_ref[...] = jnp.exp(m_old - m_ref[...]) * l_ref[...] + jnp.sum(jnp.exp(z - m_ref[...]), axis=1, keepdims=True)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        loss = m_ref[...] + jnp.log(l_ref[...]) - target_ref[...]
        token = i * rows + jax.lax.broadcasted_iota(jnp.int32, (rows, 1), 0)
        loss = jnp.where(token < tokens, loss, 0.0)
        total_ref[...] += jnp.sum(loss, axis=0, keepdims=True)
        out_ref[...] = total_ref[...] / tokens


def workload(hidden, weight, labels):
    t, h = hidden.shape
    v = weight.shape[1]
    block_t, block_v = min(<<128|256>>, t), min(<<512|768>>, v)
    mean = pl.pallas_call(
        functools.partial(mean_loss_kernel, tokens=t, vocab=v),
        grid=(pl.cdiv(t, block_t), pl.cdiv(v, block_v)),
        in_specs=[
            pl.BlockSpec((block_t, h), lambda i, j: (i, 0)),
            pl.BlockSpec((h, block_v), lambda i, j: (0, j)),
            pl.BlockSpec((block_t, 1), lambda i, j: (i, 0)),
        ],
        out_specs=pl.BlockSpec((1, 1), lambda i, j: (0, 0)),
        out_shape=jax.ShapeDtypeStruct((1, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((block_t, 1), jnp.float32)] * 3 + [pltpu.VMEM((1, 1), jnp.float32)],
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 * 1024 * 1024),
    )(hidden, weight, labels.reshape(t, 1))
    return mean[0, 0]
