# SPDX-License-Identifier: Apache-2.0
"""35k: a dense layer, scaled, clipped, and put through a GELU.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.  The published weight and bias are zeros, as in the public
suite: every output is 0 (see `degeneracies` in workload.yaml).
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "53_Gemm_Scaling_Hardtanh_GELU",
    "batch_size": 4096,
    "in_features": 8192,
    "out_features": 8192,
    "scaling_factor": 0.5,
    "hardtanh_min": -2,
    "hardtanh_max": 2,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: x (M, K) ~ U[0, 1) drawn in `dtype`, weight (K, N) = 0, bias (N,) = 0."""
    m, k, n = CONFIG["batch_size"], CONFIG["in_features"], CONFIG["out_features"]
    x = jax.random.uniform(jax.random.key(0), (m, k), dtype)
    return x, jnp.zeros((k, n), dtype), jnp.zeros((n,), dtype)


def workload(x, weight, bias):
    """(M, K), (K, N), (N,) -> (M, N); GELU is the tanh form, every step in x's dtype."""
    h = (jnp.matmul(x, weight) + bias) * CONFIG["scaling_factor"]
    h = jnp.clip(h, CONFIG["hardtanh_min"], CONFIG["hardtanh_max"])
    inner = (2 / jnp.pi) ** 0.5 * (h + 0.044715 * h ** 3)
    return (h * 0.5) * (1 + jnp.tanh(inner))
