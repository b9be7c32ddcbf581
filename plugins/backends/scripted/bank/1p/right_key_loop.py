import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

NEG_INF = -1e30


def attention_kernel(q_ref, k_ref, v_ref, out_ref, *, scale, panel):
    q = q_ref[0, 0]
    rows, width = q.shape
    row = pl.program_id(2) * rows + jax.lax.broadcasted_iota(jnp.int32, (rows, panel), 0)

    def step(j, carry):
        m, l, acc = carry
        k = k_ref[0, 0, pl.ds(j * panel, panel), :]
        v = v_ref[0, 0, pl.ds(j * panel, panel), :]
        s = jax.lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32) * scale
        col = j * panel + jax.lax.broadcasted_iota(jnp.int32, (rows, panel), 1)
        s = jnp.where(col <= row, s, NEG_INF)
        m_new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))
        p = jnp.exp(s - m_new)
        alpha = jnp.exp(m - m_new)
        l = l * alpha + jnp.sum(p, axis=1, keepdims=True)
        acc = acc * alpha + jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)
        return m_new, l, acc

    start = (jnp.full((rows, 1), NEG_INF, jnp.float32), jnp.zeros((rows, 1), jnp.float32),
             jnp.zeros((rows, width), jnp.float32))
    _, l, acc = jax.lax.fori_loop(0, k_ref.shape[2] // panel, step, start)
    out_ref[0, 0] = (acc / l).astype(out_ref.dtype)


def largest_divisor(n, limit):
    return max(b for b in range(8, limit + 1, 8) if n % b == 0)


def workload(query, key, value):
    b, h, s, d = query.shape
    block, panel = largest_divisor(s, <<256|512>>), largest_divisor(s, <<512|1024>>)
    rows = pl.BlockSpec((1, 1, block, d), lambda n, g, i: (n, g, i, 0))
    whole = pl.BlockSpec((1, 1, s, d), lambda n, g, i: (n, g, 0, 0))
    return pl.pallas_call(
        functools.partial(attention_kernel, scale=d ** -0.5, panel=panel),
        grid=(b, h, s // block),
        in_specs=[rows, whole, whole],
        out_specs=rows,
        out_shape=jax.ShapeDtypeStruct(query.shape, query.dtype),
    )(query, key, value)
