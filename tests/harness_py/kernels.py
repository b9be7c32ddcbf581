# SPDX-License-Identifier: Apache-2.0
"""Right candidates, one for each feature of Pallas that must survive the trace, and
what they compute in numpy.  All take fp32 and have shapes `small` and `large`.
"""

import numpy as np

HEAD = """
import functools
import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
"""

MATMUL = """
def _kernel(a, b, o, acc):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o[...] = acc[...].astype(o.dtype)


def matmul(A, B, **kwargs):
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(
        _kernel, grid=(M // 8, N // 128, K // 128),
        in_specs=[pl.BlockSpec((8, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (i, j)),
        out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), scratch_shapes=[pltpu.VMEM((8, 128), jnp.float32)], **kwargs)(A, B)
"""

DOUBLE = """
def _twice(x, o):
    o[...] = 2 * x[...]


def twice(x):
    return pl.pallas_call(_twice, grid=(x.shape[0] // 8,), in_specs=[pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))],
                          out_specs=pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0)),
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""


def dot(a, b):
    return a.astype(np.float64) @ b


# name -> (source, what it computes of inputs A [M, K] and B [K, N])
PAIRS = {
    "scratch": (MATMUL + "def workload(A, B): return matmul(A, B)", dot),
    "own interpret": (MATMUL + "def workload(A, B): return matmul(A, B, interpret=jax.default_backend() != 'tpu')", dot),
    "interpret params": (MATMUL + "def workload(A, B): return matmul(A, B, interpret=pltpu.InterpretParams())", dot),
    "jitted": (MATMUL + "workload = jax.jit(lambda A, B: matmul(A, B))", dot),
    "scalar prefetch": ("""
def _kernel(order, a, b, o):
    o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    order = jnp.arange(M // 8, dtype=jnp.int32)[::-1]
    spec = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(M // 8, N // 128),
        in_specs=[pl.BlockSpec((8, K), lambda i, j, order: (order[i], 0)), pl.BlockSpec((K, 128), lambda i, j, order: (0, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j, order: (order[i], j)))
    return pl.pallas_call(_kernel, grid_spec=spec, out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(order, A, B)
""", dot),
    "manual dma": ("""
def _kernel(a_hbm, b, o, buffer, sem):
    rows = buffer.shape[0]
    copy = pltpu.make_async_copy(a_hbm.at[pl.ds(pl.program_id(0) * rows, rows), :], buffer, sem)
    copy.start()
    copy.wait()
    o[...] = jnp.dot(buffer[...], b[...], preferred_element_type=jnp.float32)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(
        _kernel, grid=(M // 8, N // 128),
        in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec((K, 128), lambda i, j: (0, j))],
        out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
        scratch_shapes=[pltpu.VMEM((8, K), A.dtype), pltpu.SemaphoreType.DMA])(A, B)
""", dot),
    "emit_pipeline": ("""
def workload(A, B):
    (M, K), N = A.shape, B.shape[1]

    def inner(a, b, o):
        @pl.when(pl.program_id(2) == 0)
        def _():
            o[...] = jnp.zeros_like(o)
        o[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    def outer(a, b, o):
        pltpu.emit_pipeline(
            inner, grid=(M // 8, N // 128, K // 128),
            in_specs=[pl.BlockSpec((8, 128), lambda i, j, k: (i, k)), pl.BlockSpec((128, 128), lambda i, j, k: (k, j))],
            out_specs=[pl.BlockSpec((8, 128), lambda i, j, k: (i, j))])(a, b, o)

    anywhere = pl.BlockSpec(memory_space=pl.ANY)
    return pl.pallas_call(outer, in_specs=[anywhere, anywhere], out_specs=anywhere,
                          out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(A, B)
""", dot),
    "fori_loop": ("""
def _kernel(a, b, o):
    def step(k, acc):
        at = pl.multiple_of(k * 128, 128)
        return acc + jnp.dot(a[:, pl.ds(at, 128)], b[pl.ds(at, 128), :], preferred_element_type=jnp.float32)
    o[...] = lax.fori_loop(0, a.shape[1] // 128, step, jnp.zeros(o.shape, jnp.float32))


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(_kernel, grid=(M // 8,),
                          in_specs=[pl.BlockSpec((8, K), lambda i: (i, 0)), pl.BlockSpec((K, N), lambda i: (0, 0))],
                          out_specs=pl.BlockSpec((8, N), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(A, B)
""", dot),
    "run_scoped": ("""
def _kernel(a, b, o):
    def body(acc):
        acc[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
        o[...] = acc[...]
    pl.run_scoped(body, pltpu.VMEM(o.shape, jnp.float32))


def workload(A, B):
    return pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct((A.shape[0], B.shape[1]), A.dtype))(A, B)
""", dot),
    "reads under when": ("""
def _kernel(a, b, o):
    k = pl.program_id(1)

    @pl.when(k == 0)
    def _():
        o[...] = jnp.zeros_like(o)

    @pl.when(k >= 0)
    def _():
        o[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)


def workload(A, B):
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(_kernel, grid=(M // 8, K // 128),
                          in_specs=[pl.BlockSpec((8, 128), lambda i, k: (i, k)), pl.BlockSpec((128, N), lambda i, k: (k, 0))],
                          out_specs=pl.BlockSpec((8, N), lambda i, k: (i, 0)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype))(A, B)
""", dot),
    "config": ("CONFIG = {'M': 0, 'N': 0}" + MATMUL + """
def workload(A, B):
    out = matmul(A, B)
    assert out.shape == (CONFIG['M'], CONFIG['N']), CONFIG
    return out
""", dot),
    "sizes from a cached jit": ("CONFIG = {'M': 0}\n@jax.jit\ndef rows(x): return x * CONFIG['M']" + MATMUL + """
def workload(A, B):
    return matmul(A, B) + rows(jnp.zeros((), jnp.float32)) * 0 + rows(jnp.ones((), jnp.float32)) - A.shape[0]
""", dot),
}

# The same of one input x [M, N] -> [M, N].
SINGLES = {
    "jit, scan and cond": (DOUBLE + """
@jax.jit
def more(x):
    return lax.cond(x[0, 0] > 1e30, lambda v: v, twice, x)


def workload(x):
    return lax.scan(lambda c, _: (more(c), None), x, None, length=2)[0]
""", lambda x: 4 * x),
    "while": (DOUBLE + """
def workload(x):
    return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, twice(s[1])), (0, x))[1]
""", lambda x: 8 * x),
    "vmap": (DOUBLE + """
def workload(x):
    return jax.vmap(twice)(x.reshape(2, -1, x.shape[1])).reshape(x.shape)
""", lambda x: 2 * x),
    "custom_vjp, custom_jvp, remat": (DOUBLE + """
one = jax.custom_vjp(twice)
one.defvjp(lambda x: (twice(x), None), lambda r, g: (2 * g,))
two = jax.custom_jvp(twice)
two.defjvp(lambda p, t: (twice(*p), twice(*t)))


def workload(x):
    return jax.checkpoint(twice)(two(one(x)))
""", lambda x: 8 * x),
    "alias": ("""
def _kernel(x, o):
    o[...] = x[...] + 1


def workload(x):
    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(_kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block, input_output_aliases={0: 0},
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
""", lambda x: x + 1),
    "squeezed block": ("""
def _kernel(x, o):
    o[...] = -x[...]


def workload(x):
    y = x.reshape(2, -1, x.shape[1])
    block = pl.BlockSpec((pl.squeezed, 8, y.shape[2]), lambda b, i: (b, i, 0))
    return pl.pallas_call(_kernel, grid=(2, y.shape[1] // 8), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype))(y).reshape(x.shape)
""", lambda x: -x),
    "sign and a rank-1 block": ("""
def _kernel(x, o):
    o[...] = jnp.sign(x[...]) * 3


def workload(x):
    y = x.reshape(-1)
    block = pl.BlockSpec((1024,), lambda i: (i,))
    return pl.pallas_call(_kernel, grid=(y.size // 1024,), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(y.shape, y.dtype))(y).reshape(x.shape)
""", lambda x: 3 * np.sign(x)),
    "asks for the chip": ("""
def _kernel(x, o):
    o[...] = x[...] * 2


def workload(x):
    assert pltpu.get_tpu_info().chip_version is not None
    return pl.pallas_call(_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
""", lambda x: 2 * x),
    "blocks that do not divide": ("""
def _kernel(x, o):
    o[...] = x[...] - 1


def workload(x):
    block = pl.BlockSpec((24, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(_kernel, grid=(pl.cdiv(x.shape[0], 24),), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
""", lambda x: x - 1),
    "a kernel that writes its input": ("""
def _kernel(x, o):
    x[...] = x[...] * 2
    o[...] = x[...] + 1


def workload(x):
    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(_kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
""", lambda x: 2 * x + 1),
}
