# SPDX-License-Identifier: Apache-2.0
"""13p: cross-entropy of a language model's head, from hidden states to one loss.

The public interface of the workload; judges nothing and knows no other shape
than CONFIG says.
"""
import jax
import jax.numpy as jnp

CONFIG = {
    "name": "llama3_8b_cross_entropy",
    "model": "Llama-3.1-8B",
    "operator": "fused_cross_entropy",
    "batch_tokens": 8192,
    "hidden_dim": 4096,
    "vocab_size": 128256,
}


def create_inputs(dtype=jnp.bfloat16):
    """The published draw: hidden (B, H) ~ N(0, 1) and weight (H, V) ~ 0.02 N(0, 1), drawn in `dtype`;
    labels (B,) int32, each one of V at random."""
    keys = jax.random.split(jax.random.key(42), 3)
    b, h, v = CONFIG["batch_tokens"], CONFIG["hidden_dim"], CONFIG["vocab_size"]
    hidden = jax.random.normal(keys[0], (b, h), dtype)
    weight = jax.random.normal(keys[1], (h, v), dtype) * 0.02
    return hidden, weight, jax.random.randint(keys[2], (b,), 0, v)


def workload(hidden, weight, labels):
    """(B, H), (H, V), (B,) -> () float32; logits and log-softmax in the inputs' dtype, the rest in fp32."""
    log_probs = jax.nn.log_softmax(jnp.dot(hidden, weight), axis=-1)
    picked = jax.nn.one_hot(labels, weight.shape[1], dtype=jnp.float32)
    return jnp.mean(-jnp.sum(picked * log_probs, axis=-1))
