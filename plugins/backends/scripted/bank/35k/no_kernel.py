import jax
import jax.numpy as jnp


def workload(x, weight, bias):
    y = jnp.dot(x, weight, preferred_element_type=jnp.float32) + bias.astype(jnp.float32)
    return jax.nn.gelu(jnp.clip(y * 0.5, -2.0, 2.0)).astype(x.dtype)
