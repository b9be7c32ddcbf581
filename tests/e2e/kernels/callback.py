# SPDX-License-Identifier: Apache-2.0
# Computes on the host through a callback.
import jax
import jax.numpy as jnp
import numpy as np


def workload(A, B):
    out = jax.ShapeDtypeStruct((A.shape[0], B.shape[1]), A.dtype)
    return jax.pure_callback(lambda a, b: np.dot(np.asarray(a, np.float32), np.asarray(b, np.float32)).astype(a.dtype), out, A, B)
