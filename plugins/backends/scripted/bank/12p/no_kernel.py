import jax.numpy as jnp


def workload(x, scale):
    x32 = x.astype(jnp.float32)
    inverse = 1.0 / jnp.sqrt(jnp.mean(x32 * x32, axis=-1, keepdims=True) + 1e-5)
    return (x32 * inverse).astype(x.dtype) * scale
