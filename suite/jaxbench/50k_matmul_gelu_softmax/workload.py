# SPDX-License-Identifier: Apache-2.0
"""50k: softmax over the features of a GELU of a dense layer.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.  The published weight and bias are zeros, as in the public
suite: every output is 1/out_features (see `degeneracies` in workload.yaml).
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "99_Matmul_GELU_Softmax",
    "batch_size": 4096,
    "in_features": 8192,
    "out_features": 8192,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: x (M, K) ~ U[0, 1) drawn in `dtype`, weight (K, N) = 0, bias (N,) = 0."""
    m, k, n = CONFIG["batch_size"], CONFIG["in_features"], CONFIG["out_features"]
    x = jax.random.uniform(jax.random.key(0), (m, k), dtype)
    return x, jnp.zeros((k, n), dtype), jnp.zeros((n,), dtype)


def workload(x, weight, bias):
    """(M, K), (K, N), (N,) -> (M, N); GELU is the tanh form, softmax runs over the last axis."""
    y = jnp.matmul(x, weight) + bias
    return jax.nn.softmax(jax.nn.gelu(y, approximate=True), axis=1)
