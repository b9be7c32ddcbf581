# SPDX-License-Identifier: Apache-2.0
"""A right kernel for 13p, written to be read: the logits never leave VMEM.  The
inner grid axis runs over panels of the vocabulary; a row's maximum, its sum of
exponentials and its label's logit are kept in fp32 scratch.  The kernel gives
one loss a token; their mean is all that is left to XLA.

Not tuned: the weight is read once per block of tokens.
"""
import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

VMEM_LIMIT = 64 << 20  # bytes; two buffers of a panel of the weight, and the logits of a block
NOTHING = -1e30  # below every logit, and its exponential is 0 in fp32


def _kernel(hidden_ref, weight_ref, label_ref, loss_ref, max_ref, norm_ref, picked_ref, *, vocabulary):
    j = pl.program_id(1)

    @pl.when(j == 0)
    def _():
        max_ref[...] = jnp.full_like(max_ref, NOTHING)
        norm_ref[...] = jnp.zeros_like(norm_ref)
        picked_ref[...] = jnp.zeros_like(picked_ref)

    logits = jnp.dot(hidden_ref[...], weight_ref[...], preferred_element_type=jnp.float32)
    word = j * logits.shape[1] + lax.broadcasted_iota(jnp.int32, logits.shape, 1)
    logits = jnp.where(word < vocabulary, logits, NOTHING)  # the last panel's padding
    new_max = jnp.maximum(max_ref[...], jnp.max(logits, axis=-1, keepdims=True))
    norm_ref[...] = norm_ref[...] * jnp.exp(max_ref[...] - new_max) + jnp.sum(jnp.exp(logits - new_max), axis=-1, keepdims=True)
    max_ref[...] = new_max
    picked_ref[...] += jnp.sum(jnp.where(word == label_ref[...], logits, 0), axis=-1, keepdims=True)

    @pl.when(j == pl.num_programs(1) - 1)
    def _():
        loss_ref[...] = max_ref[...] + jnp.log(norm_ref[...]) - picked_ref[...]


def workload(hidden, weight, labels):
    """(B, H), (H, V), (B,) -> ().  Part blocks of tokens and of the vocabulary are padded
    by the grid; tokens do not mix, and padded words are left out of the sums."""
    (tokens, width), vocabulary = hidden.shape, weight.shape[1]
    rows, panel = min(512, tokens), min(1024, vocabulary)
    column = pl.BlockSpec((rows, 1), lambda i, j: (i, 0))
    losses = pl.pallas_call(
        functools.partial(_kernel, vocabulary=vocabulary),
        grid=(pl.cdiv(tokens, rows), pl.cdiv(vocabulary, panel)),
        in_specs=[pl.BlockSpec((rows, width), lambda i, j: (i, 0)),
                  pl.BlockSpec((width, panel), lambda i, j: (0, j)), column],
        out_specs=column,
        out_shape=jax.ShapeDtypeStruct((tokens, 1), jnp.float32),
        scratch_shapes=[pltpu.VMEM((rows, 1), jnp.float32)] * 3,
        compiler_params=pltpu.CompilerParams(
            dimension_semantics=("parallel", "arbitrary"), vmem_limit_bytes=VMEM_LIMIT),
    )(hidden, weight, labels.reshape(tokens, 1))
    return jnp.mean(losses)
