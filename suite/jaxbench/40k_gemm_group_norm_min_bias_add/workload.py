# SPDX-License-Identifier: Apache-2.0
"""40k: a dense layer, group norm over its features, the least feature of each
row, and a bias that spreads that one number over the features again.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.  The published weight and biases are zeros, as in the public
suite: every output is 0 (see `degeneracies` in workload.yaml).
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "75_Gemm_GroupNorm_Min_BiasAdd",
    "batch_size": 4096,
    "in_features": 8192,
    "out_features": 8192,
    "num_groups": 512,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: x (M, K) ~ U[0, 1) drawn in `dtype`; gn_weight (N,) = 1; weight (N, K), linear_bias (N,),
    gn_bias (N,) and bias (1, N, 1, 1) = 0."""
    m, k, n = CONFIG["batch_size"], CONFIG["in_features"], CONFIG["out_features"]
    x = jax.random.uniform(jax.random.key(0), (m, k), dtype)
    zeros = jnp.zeros((n,), dtype)
    return x, jnp.zeros((n, k), dtype), zeros, jnp.ones((n,), dtype), zeros, jnp.zeros((1, n, 1, 1), dtype)


def workload(x, weight, linear_bias, gn_weight, gn_bias, bias):
    """(M, K), (N, K), (N,), (N,), (N,), (1, N, 1, 1) -> (1, N, M, 1)."""
    rows, groups = x.shape[0], CONFIG["num_groups"]
    h = jnp.matmul(x, weight.T) + linear_bias
    grouped = h.reshape(rows, groups, -1)
    mean = jnp.mean(grouped, axis=-1, keepdims=True)
    variance = jnp.var(grouped, axis=-1, keepdims=True)
    normed = ((grouped - mean) / jnp.sqrt(variance + 1e-5)).reshape(h.shape)
    least = jnp.min(normed * gn_weight + gn_bias, axis=1)
    return least.reshape(1, 1, rows, 1) + bias
