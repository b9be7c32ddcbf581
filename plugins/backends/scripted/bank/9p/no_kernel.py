import jax
import jax.numpy as jnp


def workload(x, gate_kernel, up_kernel, down_kernel):
    hidden = jax.nn.silu(x @ gate_kernel) * (x @ up_kernel)
    return jnp.einsum("bsm,me->bse", hidden, down_kernel)
