# SPDX-License-Identifier: Apache-2.0
"""8p: a dense product at the size of the feed-forward layer of Llama 3.1 70B.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "gemm_llama70b",
    "model": "Llama-3.1-70B",
    "operator": "dense_matmul",
    "M": 8192,
    "K": 8192,
    "N": 28672,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: A (M, K) ~ N(0, 1), B (K, N) ~ N(0, 1) * 0.02, drawn in `dtype`."""
    keys = jax.random.split(jax.random.key(42), 2)
    m, k, n = CONFIG["M"], CONFIG["K"], CONFIG["N"]
    a = jax.random.normal(keys[0], (m, k), dtype)
    b = jax.random.normal(keys[1], (k, n), dtype) * 0.02
    return a, b


def workload(A, B):
    """(M, K), (K, N) -> (M, N), all of one dtype."""
    return jnp.dot(A, B)
