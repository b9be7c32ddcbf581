import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu


def logits_kernel(h_ref, w_ref, out_ref):
    out_ref[...] = jnp.dot(h_ref[...], w_ref[...], preferred_element_type=jnp.float32)


def loss_kernel(logits_ref, label_ref, out_ref):
    logits = logits_ref[...]
    m = jnp.max(logits, axis=1, keepdims=True)
    lse = m + jnp.log(jnp.sum(jnp.exp(logits - m), axis=1, keepdims=True))
    word = jax.lax.broadcasted_iota(jnp.int32, logits.shape, 1)
    hit = word == label_ref[...]
    out_ref[...] = lse - jnp.sum(jnp.where(hit, logits, 0.0), axis=1, keepdims=True)


def workload(hidden, weight, labels):
    t, h = hidden.shape
    v = weight.shape[1]
    block_t, block_v = min(<<128|256>>, t), min(<<256|512>>, v)
    params = pltpu.CompilerParams(vmem_limit_bytes=64 * 1024 * 1024)
    logits = pl.pallas_call(
        logits_kernel,
        grid=(pl.cdiv(t, block_t), pl.cdiv(v, block_v)),
        in_specs=[
            pl.BlockSpec((block_t, h), lambda i, j: (i, 0)),
            pl.BlockSpec((h, block_v), lambda i, j: (0, j)),
        ],
        out_specs=pl.BlockSpec((block_t, block_v), lambda i, j: (i, j)),
        out_shape=jax.ShapeDtypeStruct((t, v), jnp.float32),
        compiler_params=params,
    )(hidden, weight)
    rows = min(8, t)
    loss = pl.pallas_call(
        loss_kernel,
        grid=(pl.cdiv(t, rows),),
        in_specs=[pl.BlockSpec((rows, v), lambda i: (i, 0)), pl.BlockSpec((rows, 1), lambda i: (i, 0))],
        out_specs=pl.BlockSpec((rows, 1), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct((t, 1), jnp.float32),
        compiler_params=params,
    )(logits, labels.reshape(t, 1))
    return jnp.mean(loss)
