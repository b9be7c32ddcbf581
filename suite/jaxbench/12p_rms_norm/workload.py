# SPDX-License-Identifier: Apache-2.0
"""12p: root-mean-square normalisation at the width of Llama 3.1 70B.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.
"""
import jax
import jax.numpy as jnp
from jax import lax

CONFIG = {
    "name": "llama3_70b_rmsnorm",
    "model": "Llama-3.1-70B",
    "operator": "rms_norm",
    "batch": 8,
    "seq_len": 4096,
    "emb_dim": 8192,
    "epsilon": 1e-5,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: x (B, S, D) ~ N(0, 1), scale (D,) ~ 1 + 0.1 N(0, 1), drawn in `dtype`."""
    keys = jax.random.split(jax.random.key(42), 2)
    b, s, d = CONFIG["batch"], CONFIG["seq_len"], CONFIG["emb_dim"]
    x = jax.random.normal(keys[0], (b, s, d), dtype)
    scale = jax.random.normal(keys[1], (d,), dtype) * 0.1 + 1
    return x, scale


def workload(x, scale):
    """(B, S, D), (D,) -> (B, S, D): normalised in fp32, rounded, then scaled in x's dtype."""
    wide = x.astype(jnp.float32)
    mean_square = jnp.mean(jnp.square(wide), axis=-1, keepdims=True)
    normed = wide * lax.rsqrt(mean_square + CONFIG["epsilon"])
    return normed.astype(x.dtype) * scale
