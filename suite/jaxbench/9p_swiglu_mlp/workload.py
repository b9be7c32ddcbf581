# SPDX-License-Identifier: Apache-2.0
"""9p: gated feed-forward layer (SwiGLU) at the size of Llama 3.1 70B.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "llama3_70b_swiglu",
    "model": "Llama-3.1-70B",
    "operator": "swiglu_mlp",
    "batch": 2,
    "seq_len": 4096,
    "emb_dim": 8192,
    "mlp_dim": 28672,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: x (B, S, E) ~ N(0, 1), the three kernels ~ 0.02 N(0, 1), drawn in `dtype`."""
    keys = jax.random.split(jax.random.key(42), 4)
    b, s, e, m = (CONFIG[k] for k in ("batch", "seq_len", "emb_dim", "mlp_dim"))
    x = jax.random.normal(keys[0], (b, s, e), dtype)
    return x, *(jax.random.normal(k, shape, dtype) * 0.02 for k, shape in zip(keys[1:], ((e, m), (e, m), (m, e))))


def workload(x, gate_kernel, up_kernel, down_kernel):
    """(B, S, E), (E, M), (E, M), (M, E) -> (B, S, E); every step in the inputs' dtype."""
    gate = jax.nn.silu(jnp.dot(x, gate_kernel))
    return jnp.dot(gate * jnp.dot(x, up_kernel), down_kernel)
