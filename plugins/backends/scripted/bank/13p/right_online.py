import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

NEG_INF = -1e30


def loss_kernel(h_ref, w_ref, label_ref, loss_ref, m_ref, l_ref, target_ref, *, vocab):
    step = pl.program_id(1)

    @pl.when(step == 0)
    def _():
        m_ref[...] = jnp.full_like(m_ref, NEG_INF)
        l_ref[...] = jnp.zeros_like(l_ref)
        target_ref[...] = jnp.zeros_like(target_ref)

    logits = jnp.dot(h_ref[...], w_ref[...], preferred_element_type=jnp.float32)
    word = step * w_ref.shape[1] + jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1)
    logits = jnp.where(word < vocab, logits, NEG_INF)
    m_new = jnp.maximum(m_ref[...], jnp.max(logits, axis=1, keepdims=True))
    p = jnp.exp(logits - m_new)
    l_ref[...] = l_ref[...] * jnp.exp(m_ref[...] - m_new) + jnp.sum(p, axis=1, keepdims=True)
    m_ref[...] = m_new
    hit = word == label_ref[...]
    target_ref[...] += jnp.sum(jnp.where(hit, logits, 0.0), axis=1, keepdims=True)

    @pl.when(step == pl.num_programs(1) - 1)
    def _():
        loss_ref[...] = m_ref[...] + jnp.log(l_ref[...]) - target_ref[...]


def workload(hidden, weight, labels):
    t, h = hidden.shape
    v = weight.shape[1]
    block_t, block_v = min(<<256|512>>, t), min(<<512|1024>>, v)
    loss = pl.pallas_call(
        functools.partial(loss_kernel, vocab=v),
        grid=(pl.cdiv(t, block_t), pl.cdiv(v, block_v)),
        in_specs=[
            pl.BlockSpec((block_t, h), lambda i, j: (i, 0)),
            pl.BlockSpec((h, block_v), lambda i, j: (0, j)),
            pl.BlockSpec((block_t, 1), lambda i, j: (i, 0)),
        ],
        out_specs=pl.BlockSpec((block_t, 1), lambda i, j: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((t, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((block_t, 1), jnp.float32)] * 3,
        compiler_params=pltpu.CompilerParams(vmem_limit_bytes=64 * 1024 * 1024),
    )(hidden, weight, labels.reshape(t, 1))
    return jnp.mean(loss)
