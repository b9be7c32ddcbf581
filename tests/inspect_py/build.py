# SPDX-License-Identifier: Apache-2.0
"""Makes modules for the inspector's tests: the same function exported for the TPU and,
with `interpret=True`, for the CPU, and MLIR text as a portable artifact.  Executes nothing."""

import json
import os

os.environ.setdefault("JAX_PLATFORMS", "cpu")

import jax
import jax.numpy as jnp
from jax import export
from jax._src.interpreters import mlir
from jax._src.lib import _jax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh
from jaxlib.mlir import ir

from jaxbench_harness import inspector

MESH = AbstractMesh((1,), ("d",), abstract_device=AbstractDevice(device_kind="TPU v6 lite", num_cores=1, platform="tpu"))


def spec(dims, dtype="bfloat16"):
    return jax.ShapeDtypeStruct(tuple(dims), jnp.dtype(dtype))


def module(function, inputs, platform):
    """The bytes of `function(*inputs, interpret=...)` for a platform."""
    def call(*args):
        return function(*args, interpret=platform == "cpu")
    with use_abstract_mesh(MESH):
        exported = export.export(jax.jit(call, keep_unused=True), platforms=[platform])(*inputs)
    return exported.mlir_module_serialized


def resolved(function, inputs, flops=None):
    """A shape as a job resolves it."""
    with use_abstract_mesh(MESH):
        out = jax.tree.leaves(jax.eval_shape(lambda *a: function(*a, interpret=True), *inputs))
    entry = {"inputs": [{"name": "ABCDEFGH"[n], "dtype": str(s.dtype), "dims": list(s.shape)} for n, s in enumerate(inputs)],
             "outputs": [{"dtype": str(s.dtype), "dims": list(s.shape)} for s in out]}
    if flops is not None:
        entry["flops"] = flops
    return entry


def job(shapes, timed="full", check=("gate",)):
    return {"schema": 1, "workload": {"id": "t", "name": "t", "shapes": shapes}, "check_shapes": list(check), "timed_shape": timed}


def inspect(function, shapes, flops=None, changes=None, platforms=None):
    """Inspects `function` at `shapes`, a dict of lists of specs: TPU everywhere, CPU at every shape but `full`.
    `changes` replaces modules by name; `flops` maps a list of specs to a number."""
    modules, table = {}, {}
    for name, inputs in shapes.items():
        table[name] = resolved(function, inputs, flops(inputs) if flops else None)
        modules[name + "/tpu"] = module(function, inputs, "tpu")
        if name != "full":
            modules[name + "/cpu"] = module(function, inputs, "cpu")
    modules.update(changes or {})
    return run(job(table, "full", [n for n in shapes if n != "full"]), modules)


def run(job_, modules):
    """What the inspector emits."""
    frames = []
    inspector.main(json.dumps(job_), modules, lambda kind, name, data: frames.append((kind, name, data)))
    (kind, _, data), = frames
    assert kind == 32
    return json.loads(data)["inspect"]


def ids(result):
    return [f["id"] for f in result["findings"]]


def artifact(text):
    """MLIR text as the bytes of a portable artifact."""
    with mlir.make_ir_context():
        parsed = ir.Module.parse(text)
        return _jax.mlir.serialize_portable_artifact(mlir.module_to_bytecode(parsed), "1.0.0", False)


def gemm_shapes(gate=(256, 512, 256), full=(1024, 2048, 1024)):
    return {name: [spec((m, k)), spec((k, n))] for name, (m, k, n) in (("gate", gate), ("full", full))}


def gemm_flops(inputs):
    return 2 * inputs[0].shape[0] * inputs[0].shape[1] * inputs[1].shape[1]


# The kernels that more than one test uses.

def gemm_kernel(a, b, o, acc):
    k = pl.program_id(2)

    @pl.when(k == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)

    acc[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    @pl.when(k == pl.num_programs(2) - 1)
    def _():
        o[...] = acc[...].astype(o.dtype)


def gemm(A, B, bm=128, bn=128, bk=256, interpret=False, kernel=gemm_kernel, a_map=lambda i, j, k: (i, k), **kw):
    """A right tiled product with a scratch accumulator."""
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(
        kernel, grid=(M // bm, N // bn, K // bk),
        in_specs=[pl.BlockSpec((bm, bk), a_map), pl.BlockSpec((bk, bn), lambda i, j, k: (k, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, k: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
        scratch_shapes=[pltpu.VMEM((bm, bn), jnp.float32)], interpret=interpret, **kw)(A, B)


def copy_kernel(x, o):
    o[...] = x[...]


def copy(x, interpret=False, rows=None):
    """A kernel that copies a matrix, by row blocks."""
    rows = rows or x.shape[0]
    block = pl.BlockSpec((rows, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(copy_kernel, grid=(x.shape[0] // rows,), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


def softmax(x, interpret=False, rows=8, block=256):
    """Two passes: the running maximum and sum, then the quotient."""
    M, N = x.shape

    def sums(x_, m, s):
        j = pl.program_id(1)

        @pl.when(j == 0)
        def _():
            m[...] = jnp.full_like(m, -jnp.inf)
            s[...] = jnp.zeros_like(s)
        v = x_[...].astype(jnp.float32)
        new = jnp.maximum(m[...], jnp.max(v, axis=1, keepdims=True))
        s[...] = s[...] * jnp.exp(m[...] - new) + jnp.sum(jnp.exp(v - new[:, :1]), axis=1, keepdims=True)
        m[...] = new

    def quotient(x_, m, s, o):
        o[...] = (jnp.exp(x_[...].astype(jnp.float32) - m[...][:, :1]) / s[...][:, :1]).astype(o.dtype)

    grid = (M // rows, N // block)
    wide = pl.BlockSpec((rows, block), lambda i, j: (i, j))
    stat = pl.BlockSpec((rows, 128), lambda i, j: (i, 0))
    shape = jax.ShapeDtypeStruct((M, 128), jnp.float32)
    m, s = pl.pallas_call(sums, grid=grid, in_specs=[wide], out_specs=[stat, stat], out_shape=[shape, shape], interpret=interpret)(x)
    return pl.pallas_call(quotient, grid=grid, in_specs=[wide, stat, stat], out_specs=wide,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x, m, s)


def rmsnorm(x, w, interpret=False, rows=8):
    M, N = x.shape

    def kernel(x_, w_, o):
        v = x_[...].astype(jnp.float32)
        o[...] = (v * jax.lax.rsqrt(jnp.mean(v * v, axis=1, keepdims=True) + 1e-5) * w_[...].astype(jnp.float32)).astype(o.dtype)
    return pl.pallas_call(kernel, grid=(pl.cdiv(M, rows),), in_specs=[pl.BlockSpec((rows, N), lambda i: (i, 0)), pl.BlockSpec((1, N), lambda i: (0, 0))],
                          out_specs=pl.BlockSpec((rows, N), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          interpret=interpret)(x, w.reshape(1, N))


def _online(s, v, m, l, acc):
    new = jnp.maximum(m, jnp.max(s, axis=1, keepdims=True))
    p, a = jnp.exp(s - new), jnp.exp(m - new)
    return new, l * a + jnp.sum(p, axis=1, keepdims=True), acc * a + jnp.dot(p.astype(v.dtype), v, preferred_element_type=jnp.float32)


def _scores(q, k, i, j):
    s = jax.lax.dot_general(q, k, (((1,), (1,)), ((), ())), preferred_element_type=jnp.float32)
    row = jax.lax.broadcasted_iota(jnp.int32, s.shape, 0) + i * s.shape[0]
    return jnp.where(jax.lax.broadcasted_iota(jnp.int32, s.shape, 1) + j * s.shape[1] <= row, s, -1e30)


def flash(Q, K, V, interpret=False, b=128):
    """Causal attention; blocks above the diagonal are skipped by pl.when and not fetched."""
    B, H, S, D = Q.shape

    def kernel(q, k, v, o, m, l, acc):
        i, j = pl.program_id(2), pl.program_id(3)

        @pl.when(j == 0)
        def _():
            m[...], l[...], acc[...] = jnp.full_like(m, -1e30), jnp.zeros_like(l), jnp.zeros_like(acc)

        @pl.when(j <= i)
        def _():
            m[...], l[...], acc[...] = _online(_scores(q[0, 0], k[0, 0], i, j), v[0, 0], m[...], l[...], acc[...])

        @pl.when(j == pl.num_programs(3) - 1)
        def _():
            o[0, 0] = (acc[...] / l[...]).astype(o.dtype)
    row = pl.BlockSpec((1, 1, b, D), lambda h0, h1, i, j: (h0, h1, i, 0))
    column = pl.BlockSpec((1, 1, b, D), lambda h0, h1, i, j: (h0, h1, jnp.minimum(i, j), 0))
    return pl.pallas_call(kernel, grid=(B, H, S // b, S // b), in_specs=[row, column, column], out_specs=row,
                          out_shape=jax.ShapeDtypeStruct(Q.shape, Q.dtype), interpret=interpret,
                          scratch_shapes=[pltpu.VMEM((b, 1), jnp.float32), pltpu.VMEM((b, 1), jnp.float32), pltpu.VMEM((b, D), jnp.float32)])(Q, K, V)


def flash_loop(Q, K, V, interpret=False, b=128):
    """Causal attention with a loop whose trip count depends on the grid."""
    B, H, S, D = Q.shape

    def kernel(q, k, v, o):
        i = pl.program_id(2)

        def body(j, carry):
            kj, vj = k[0, 0, pl.ds(j * b, b), :], v[0, 0, pl.ds(j * b, b), :]
            return _online(_scores(q[0, 0], kj, i, j), vj, *carry)
        start = (jnp.full((b, 1), -1e30, jnp.float32), jnp.zeros((b, 1), jnp.float32), jnp.zeros((b, D), jnp.float32))
        _, l, acc = jax.lax.fori_loop(0, i + 1, body, start)
        o[0, 0] = (acc / l).astype(o.dtype)
    row = pl.BlockSpec((1, 1, b, D), lambda h0, h1, i: (h0, h1, i, 0))
    whole = pl.BlockSpec((1, 1, S, D), lambda h0, h1, i: (h0, h1, 0, 0))
    return pl.pallas_call(kernel, grid=(B, H, S // b), in_specs=[row, whole, whole], out_specs=row,
                          out_shape=jax.ShapeDtypeStruct(Q.shape, Q.dtype), interpret=interpret)(Q, K, V)
