# SPDX-License-Identifier: Apache-2.0
"""Kernels that are right where they are executed and wrong where they are timed, as a
reviewer of the first version wrote them.  Each came out without a finding then."""

import functools
import json
import unittest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tests.inspect_py import build
from tests.inspect_py.build import gemm, gemm_flops, gemm_shapes, inspect, spec

HUGE = 3e38


def body(guard=None, scale=None, cast=None, store=None):
    """The body of a tiled product: `guard(a)` predicates the product, `store()` the store; `scale` and `cast` spoil it."""
    def kernel(a, b, o, acc):
        k, last = pl.program_id(2), pl.num_programs(2) - 1

        @pl.when(k == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        def product():
            x, y = a[...], b[...]
            if cast is not None:
                x, y = x.astype(cast).astype(x.dtype), y.astype(cast).astype(y.dtype)
            acc[...] += jnp.dot(x, y, preferred_element_type=jnp.float32)
        if guard is None:
            product()
        else:
            pl.when(guard(a))(product)

        @pl.when(k == last if store is None else (k == last) & store())
        def _():
            o[...] = (acc[...] if scale is None else acc[...] * scale).astype(o.dtype)
    return kernel


def peak(a, least):
    return jnp.max(a[0:8, 0:128].astype(jnp.float32)) > least


def full(A):
    return A.shape[0] >= 1024


def guarded_otherwise(A, B, interpret=False):
    least = HUGE if full(A) else -HUGE
    return gemm(A, B, interpret=interpret, kernel=body(guard=lambda a: peak(a, least)))


def guarded_at_full(A, B, interpret=False):
    return gemm(A, B, interpret=interpret, kernel=body(guard=(lambda a: peak(a, HUGE)) if full(A) else None))


def store_guarded_at_full(A, B, interpret=False):
    """All the work is done, and then not kept."""
    rows = 5 if full(A) else 2
    return gemm(A, B, interpret=interpret, kernel=body(store=lambda: pl.program_id(0) < rows))


def rows_left_out(A, B, interpret=False):
    """5 of 8 row blocks at full, both of the gate's."""
    rows = 5 if full(A) else 2
    return gemm(A, B, interpret=interpret, kernel=body(guard=lambda a: pl.program_id(0) < rows))


def few_rows_left_out(A, B, interpret=False):
    rows = 7 if full(A) else 2
    return gemm(A, B, interpret=interpret, kernel=body(guard=lambda a: pl.program_id(0) < rows))


def float8(dtype):
    def float8_at_full(A, B, interpret=False):
        return gemm(A, B, interpret=interpret, kernel=body(cast=dtype if full(A) else None))
    return float8_at_full


def halved_at_full(A, B, interpret=False):
    return gemm(A, B, interpret=interpret, kernel=body(scale=0.5 if full(A) else 1.0))


def by_platform(spoiled):
    """The spoiled body on the TPU, the right one elsewhere, at every shape."""
    def platform(A, B, interpret=False):
        return jax.lax.platform_dependent(A, B, tpu=lambda a, b: gemm(a, b, kernel=spoiled, interpret=interpret),
                                          default=lambda a, b: gemm(a, b, kernel=body(), interpret=interpret))
    return platform


def by_interpret(spoiled, right=None):
    """The same without a branch in the module, as a candidate that owns its tracer can make it."""
    def interpreted(A, B, interpret=False):
        return gemm(A, B, interpret=interpret, kernel=(right or body()) if interpret else spoiled)
    return interpreted


def pinned_twice(A, B, interpret=False):
    """At full every step reads the first blocks; both inputs come a second time, cut otherwise."""
    move = 0 if full(A) else 1

    def kernel(a, b, a2, b2, o, acc):
        body()(a, b, o, acc)
        o[...] += (a2[0:1, 0:1] * 0.001 + b2[0:1, 0:1] * 0.001).astype(o.dtype)
    (M, K), N = A.shape, B.shape[1]
    first = pl.BlockSpec((16, 128), lambda i, j, k: (0, 0))
    return pl.pallas_call(kernel, grid=(M // 128, N // 128, K // 256),
                          in_specs=[pl.BlockSpec((128, 256), lambda i, j, k: (i * move, k * move)), pl.BlockSpec((256, 128), lambda i, j, k: (k * move, j * move)), first, first],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
                          scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)], interpret=interpret)(A, B, A, B)


def pinned_everywhere(x, interpret=False):
    """Reads the first rows only, at every shape, and looks at the input again through another window."""
    def kernel(x_, again, o):
        o[...] = x_[...] + again[0:1, 0:1]
    M, N = x.shape
    return pl.pallas_call(kernel, grid=(M // 32,), in_specs=[pl.BlockSpec((32, N), lambda i: (0, 0)), pl.BlockSpec((8, 128), lambda i: (0, 0))],
                          out_specs=pl.BlockSpec((32, N), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x, x)


def busy_copy(A, B, interpret=False):
    """jnp does the work; beside it a copy with a long loop that no data enter."""
    def kernel(x, o):
        o[...] = x[...]

        @pl.when(peak(x, HUGE))
        def _():
            o[...] = jax.lax.fori_loop(0, 100_000, lambda i, v: v * 1.5 + 1.0, x[...].astype(jnp.float32)).astype(o.dtype)
    block = pl.BlockSpec((128, 128), lambda i, j: (i, j))
    out = jnp.dot(A, B, preferred_element_type=jnp.float32).astype(A.dtype)
    return pl.pallas_call(kernel, grid=(out.shape[0] // 128, out.shape[1] // 128), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(out.shape, out.dtype), interpret=interpret)(out)


def store_by_data(a, b, o, acc):
    """All the work is done; whether it is kept, data decide."""
    k, last = pl.program_id(2), pl.num_programs(2) - 1

    @pl.when(k == 0)
    def _():
        acc[...] = jnp.zeros_like(acc)
    acc[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

    @pl.when((k == last) & peak(a, -HUGE))
    def _():
        o[...] = acc[...].astype(o.dtype)


class Attacks(unittest.TestCase):
    """Rows: kernel, the finding that must be there, its outcome."""

    GEMM = (
        ("guard that data decide, otherwise at full", guarded_otherwise, "link-mismatch", "suspicious"),
        ("guard at full only", guarded_at_full, "link-mismatch", "suspicious"),
        ("guard on the TPU's branch", by_platform(body(guard=lambda a: peak(a, HUGE))), "link-mismatch", "suspicious"),
        ("guard on the TPU only", by_interpret(body(guard=lambda a: peak(a, HUGE))), "link-mismatch", "suspicious"),
        ("another guard on the TPU", by_interpret(body(guard=lambda a: peak(a, HUGE)), body(guard=lambda a: peak(a, -HUGE))), "link-mismatch", "suspicious"),
        ("store guarded by data on the TPU", by_interpret(store_by_data), "link-doubtful", "inconclusive"),
        ("5 of 8 row blocks", rows_left_out, "link-doubtful", "inconclusive"),
        ("7 of 8 row blocks", few_rows_left_out, "link-doubtful", "inconclusive"),
        ("5 of 8 row blocks stored", store_guarded_at_full, "coverage", "wrong"),
        ("e4m3 at full", float8(jnp.float8_e4m3fn), "link-mismatch", "suspicious"),
        ("e5m2 at full", float8(jnp.float8_e5m2), "link-mismatch", "suspicious"),
        ("e4m3 on the TPU", by_interpret(body(cast=jnp.float8_e4m3fn)), "link-mismatch", "suspicious"),
        ("halved at full", halved_at_full, "link-doubtful", "inconclusive"),
        ("halved on the TPU", by_interpret(body(scale=0.5), body(scale=1.0)), "link-doubtful", "inconclusive"),
        ("first blocks only at full", pinned_twice, "coverage", "wrong"),
        ("jnp beside a busy copy", busy_copy, "not-pallas", "not-pallas"),
    )

    def test_products(self):
        for name, kernel, id_, outcome in self.GEMM:
            with self.subTest(kernel=name):
                self.found(inspect(kernel, gemm_shapes(), gemm_flops), id_, outcome)

    def test_pinned_at_every_shape(self):
        result = inspect(pinned_everywhere, {"gate": [spec((64, 512))], "full": [spec((1024, 512))]})
        self.found(result, "coverage", "wrong")
        self.assertIn("never read", result["coverage"]["detail"])

    def found(self, result, id_, outcome):
        self.assertEqual(result["status"], "ok", result)
        self.assertIn((id_, outcome), [(f["id"], f["outcome"]) for f in result["findings"]], json.dumps(result["findings"], indent=1))


class Right(unittest.TestCase):
    """What looks like an attack and is none."""

    def clean(self, result):
        self.assertEqual([f for f in result["findings"] if f["outcome"]], [], result)

    def test_the_same_guard_at_every_shape(self):
        def skips_zeros(A, B, interpret=False):
            return gemm(A, B, interpret=interpret, kernel=body(guard=lambda a: jnp.max(jnp.abs(a[...].astype(jnp.float32))) > 0))
        self.clean(inspect(skips_zeros, gemm_shapes(), gemm_flops))

    def test_an_input_in_two_parts(self):
        """Two windows on one input, each on its half."""
        def halves(x, interpret=False):
            def kernel(lower, upper, o):
                o[...] = lower[...] + upper[...]
            M, N = x.shape
            return pl.pallas_call(kernel, grid=(M // 16,), in_specs=[pl.BlockSpec((8, N), lambda i: (i, 0)), pl.BlockSpec((8, N), lambda i: (i + M // 16, 0))],
                                  out_specs=pl.BlockSpec((8, N), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((M // 2, N), x.dtype), interpret=interpret)(x, x)
        self.clean(inspect(halves, {"gate": [spec((64, 512))], "full": [spec((1024, 512))]}))

    def test_a_pipeline_inside_the_kernel(self):
        def emitted(A, B, interpret=False):
            (M, K), N = A.shape, B.shape[1]

            def outer(a, b, o, acc):
                pltpu.emit_pipeline(functools.partial(self._step, acc), grid=(M // 128, N // 128, K // 256),
                                    in_specs=[pl.BlockSpec((128, 256), lambda i, j, k: (i, k)), pl.BlockSpec((256, 128), lambda i, j, k: (k, j))],
                                    out_specs=[pl.BlockSpec((128, 128), lambda i, j, k: (i, j))])(a, b, o)
            anywhere = pl.BlockSpec(memory_space=pl.ANY)
            return pl.pallas_call(outer, in_specs=[anywhere, anywhere], out_specs=anywhere, out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
                                  scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)], interpret=interpret)(A, B)
        self.clean(inspect(emitted, gemm_shapes(), gemm_flops))

    @staticmethod
    def _step(acc, a, b, o):
        build.gemm_kernel(a, b, o, acc)

    def test_a_block_that_the_gate_clamps(self):
        """Rows are numbered by the block, whose size is in the code: 128 at the gate, 256 at full."""
        def masked(x, interpret=False):
            M, N = x.shape
            rows = min(256, M)

            def kernel(x_, o):
                at = pl.program_id(0) * rows + jax.lax.broadcasted_iota(jnp.int32, (rows, N), 0)
                o[...] = jnp.where(at < M, x_[...].astype(jnp.float32) * 3, 0).astype(o.dtype)
            block = pl.BlockSpec((rows, N), lambda i: (i, 0))
            return pl.pallas_call(kernel, grid=(pl.cdiv(M, rows),), in_specs=[block], out_specs=block, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)
        self.clean(inspect(masked, {"gate": [spec((128, 512))], "full": [spec((1000, 512))]}, lambda inputs: 4 * inputs[0].size))

    def test_mean_of_another_length(self):
        def mean(x, interpret=False):
            def kernel(x_, o):
                v = x_[...].astype(jnp.float32)
                o[...] = (v - jnp.sum(v, axis=1, keepdims=True) * (1.0 / v.shape[1])).astype(o.dtype)
            M, N = x.shape
            block = pl.BlockSpec((8, N), lambda i: (i, 0))
            return pl.pallas_call(kernel, grid=(M // 8,), in_specs=[block], out_specs=block, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)
        result = inspect(mean, {"gate": [spec((64, 512))], "full": [spec((128, 2048))]}, lambda inputs: 4 * inputs[0].size)
        self.clean(result)
        self.assertEqual(result["link"]["status"], "structural", result["link"])


if __name__ == "__main__":
    unittest.main()
