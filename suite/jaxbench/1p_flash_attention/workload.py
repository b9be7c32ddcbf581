# SPDX-License-Identifier: Apache-2.0
"""1p: causal attention with as many key as query heads, layout (B, H, S, D).

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "flash_attention_baseline",
    "model": "Baseline-MHA",
    "operator": "causal_mha",
    "batch": 4,
    "seq_len": 4096,
    "num_heads": 64,
    "head_dim": 128,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: query, key, value (B, H, S, D) ~ N(0, 1), drawn in `dtype`."""
    keys = jax.random.split(jax.random.key(42), 3)
    shape = CONFIG["batch"], CONFIG["num_heads"], CONFIG["seq_len"], CONFIG["head_dim"]
    return tuple(jax.random.normal(k, shape, dtype) for k in keys)


def workload(query, key, value):
    """(B, H, S, D) three times -> (B, H, S, D); every step in the inputs' dtype."""
    seq, width = query.shape[2:]
    logits = jnp.einsum("bhqd,bhkd->bhqk", query, key) * width ** -0.5
    causal = jnp.arange(seq)[:, None] >= jnp.arange(seq)[None, :]
    weights = jax.nn.softmax(jnp.where(causal, logits, -1e9), axis=-1)
    return jnp.einsum("bhqk,bhkd->bhqd", weights, value)
