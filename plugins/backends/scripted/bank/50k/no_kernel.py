import jax
import jax.numpy as jnp


def workload(x, weight, bias):
    y = jnp.dot(x, weight, preferred_element_type=jnp.float32) + bias.astype(jnp.float32)
    return jax.nn.softmax(jax.nn.gelu(y), axis=1).astype(x.dtype)
