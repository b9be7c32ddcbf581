# SPDX-License-Identifier: Apache-2.0
"""Link: a kernel that is right where it is checked and cheap where it is timed."""

import functools
import unittest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl

from tests.inspect_py import build
from tests.inspect_py.build import gemm, gemm_flops, gemm_shapes, ids, inspect, spec


def cheap(A, B, interpret=False):
    def kernel(a, b, o):
        o[...] = a[...] + b[0, 0]
    M, N = A.shape[0], B.shape[1]
    return pl.pallas_call(kernel, grid=(M // 128, N // 128), in_specs=[pl.BlockSpec((128, 128), lambda i, j: (i, 0)), pl.BlockSpec((128, 128), lambda i, j: (0, j))],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(A, B)


def platform_outside(A, B, interpret=False):
    return jax.lax.platform_dependent(A, B, tpu=functools.partial(cheap, interpret=False), default=functools.partial(gemm, interpret=True))


def platform_inside(A, B, interpret=False):
    def kernel(a, b, o):
        out = jax.lax.platform_dependent(a[...], b[...], mosaic=lambda x, y: (x[:, :y.shape[1]] + y[:1]).astype(jnp.float32),
                                         default=lambda x, y: jnp.dot(x, y, preferred_element_type=jnp.float32))
        o[...] = out.astype(o.dtype)
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(kernel, grid=(M // 128, N // 128), in_specs=[pl.BlockSpec((128, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 128), lambda i, j: (0, j))],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(A, B)


def by_interpret(A, B, interpret=False):
    return gemm(A, B, interpret=True) if interpret else cheap(A, B)


def map_by_interpret(A, B, interpret=False):
    """The same body, but on the TPU no new block of A is ever fetched."""
    return gemm(A, B, interpret=interpret, a_map=(lambda i, j, k: (i, k)) if interpret else (lambda i, j, k: (0, 0)))


def loop_by_interpret(A, B, interpret=False):
    def kernel(a, b, o):
        steps = a.shape[1] // 128

        def body(k, acc):
            return acc + jnp.dot(a[:, pl.ds(k * 128, 128)], b[pl.ds(k * 128, 128), :], preferred_element_type=jnp.float32)
        o[...] = jax.lax.fori_loop(0, steps if interpret else 1, body, jnp.zeros(o.shape, jnp.float32)).astype(o.dtype)
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(kernel, grid=(M // 128, N // 128), in_specs=[pl.BlockSpec((128, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 128), lambda i, j: (0, j))],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(A, B)


def predicate_by_interpret(A, B, interpret=False):
    """The product is there on both sides, but on the TPU its predicate never holds."""
    def kernel(a, b, o, acc):
        k = pl.program_id(2)

        @pl.when(k == 0)
        def _():
            acc[...] = jnp.zeros_like(acc)

        @pl.when(k >= (0 if interpret else 1000))
        def _():
            acc[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

        @pl.when(k == pl.num_programs(2) - 1)
        def _():
            o[...] = acc[...].astype(o.dtype)
    return gemm(A, B, interpret=interpret, kernel=kernel)


def exp_by_interpret(x, y, interpret=False):
    def kernel(x_, y_, o):
        v = x_[...].astype(jnp.float32)
        o[...] = (jnp.exp(v) if interpret else v + y_[...].astype(jnp.float32)).astype(o.dtype)
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=(x.shape[0] // 8,), in_specs=[block, block], out_specs=block, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x, y)


def arithmetic_by_interpret(x, y, interpret=False):
    def kernel(x_, y_, o):
        v = x_[...].astype(jnp.float32)
        o[...] = (((v * 2 + y_[...]) * v + 3) * v if interpret else v + y_[...]).astype(o.dtype)
    block = pl.BlockSpec((8, 128), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=(x.shape[0] // 8,), in_specs=[block, block], out_specs=block, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x, y)


PAIR = {"gate": [spec((64, 128))] * 2, "full": [spec((256, 128))] * 2}


class ByPlatform(unittest.TestCase):
    CASES = (platform_outside, platform_inside, by_interpret, map_by_interpret, loop_by_interpret, predicate_by_interpret)

    def test_cheap_on_the_tpu(self):
        for kernel in self.CASES:
            with self.subTest(kernel=kernel.__name__):
                self.mismatch(inspect(kernel, gemm_shapes(), gemm_flops))
        for kernel in (exp_by_interpret, arithmetic_by_interpret):
            with self.subTest(kernel=kernel.__name__):
                self.mismatch(inspect(kernel, PAIR))

    def mismatch(self, result):
        note = [f for f in result["findings"] if f["id"] == "link-mismatch"]
        self.assertEqual([f["outcome"] for f in note], ["suspicious"], result)
        self.assertEqual(result["link"]["status"], "mismatch")
        self.assertTrue(result["link"]["detail"])


class ByShape(unittest.TestCase):
    def test_cheap_at_the_timed_shape(self):
        def branch(A, B, interpret=False):
            return cheap(A, B, interpret=interpret) if A.shape[0] >= 512 else gemm(A, B, interpret=interpret)
        result = inspect(branch, gemm_shapes(), gemm_flops)
        self.assertIn("link-mismatch", ids(result), result)

    def test_fewer_steps_at_the_timed_shape(self):
        """The same operations, but only a quarter of K is multiplied when it is timed."""
        def branch(A, B, interpret=False):
            parts = 4 if A.shape[0] >= 512 else 1
            (M, K), N = A.shape, B.shape[1]

            def kernel(a, b, o):
                def body(k, acc):
                    return acc + jnp.dot(a[:, pl.ds(k * 128, 128)], b[pl.ds(k * 128, 128), :], preferred_element_type=jnp.float32)
                o[...] = jax.lax.fori_loop(0, K // 128 // parts, body, jnp.zeros(o.shape, jnp.float32)).astype(o.dtype)
            return pl.pallas_call(kernel, grid=(M // 128, N // 128), in_specs=[pl.BlockSpec((128, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 128), lambda i, j: (0, j))],
                                  out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(A, B)
        result = inspect(branch, gemm_shapes((256, 1024, 256), (1024, 2048, 1024)), gemm_flops)
        self.assertIn("link-mismatch", ids(result), result)
        self.assertIn("falls from 1 to 0.25", result["link"]["detail"])

    def test_predicated_off_at_the_timed_shape(self):
        def branch(A, B, interpret=False):
            first = 10 ** 6 if A.shape[0] >= 512 else 0

            def kernel(a, b, o, acc):
                k, last = pl.program_id(2), pl.num_programs(2) - 1

                @pl.when(k == 0)
                def _():
                    acc[...] = jnp.zeros_like(acc)

                @pl.when(k >= first)
                def _():
                    acc[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)

                @pl.when(k == last)
                def _():
                    o[...] = acc[...].astype(o.dtype)
            return gemm(A, B, interpret=interpret, kernel=kernel)
        result = inspect(branch, gemm_shapes(), gemm_flops)
        self.assertTrue({"link-mismatch", "not-pallas"} & set(ids(result)), result)
        self.assertTrue(any(f["outcome"] in ("suspicious", "not-pallas") for f in result["findings"]))

    def test_other_operations_but_the_same_work_is_doubtful(self):
        def branch(A, B, interpret=False):
            if A.shape[0] >= 512:
                return gemm(A, B, interpret=interpret)
            (M, K), N = A.shape, B.shape[1]

            def kernel(a, b, o):
                o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)
            return pl.pallas_call(kernel, grid=(M // 128, N // 128), in_specs=[pl.BlockSpec((128, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 128), lambda i, j: (0, j))],
                                  out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(A, B)
        result = inspect(branch, gemm_shapes(), gemm_flops)
        self.assertEqual(result["link"]["status"], "unproven", result)
        self.assertEqual([(f["id"], f["outcome"]) for f in result["findings"]], [("link-doubtful", "inconclusive")])
        self.assertIn("other operations", result["link"]["detail"])


class Undecided(unittest.TestCase):
    def test_trip_count_from_data(self):
        def kernel(n, x, o):
            def body(_, v):
                return v * 2 + 1
            o[...] = jax.lax.fori_loop(0, n[0], body, x[...].astype(jnp.float32)).astype(o.dtype)

        def call(n, x, interpret=False):
            from jax.experimental.pallas import tpu as pltpu
            grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(x.shape[0] // 8,), in_specs=[pl.BlockSpec((8, 128), lambda i, n_: (i, 0))],
                                                out_specs=pl.BlockSpec((8, 128), lambda i, n_: (i, 0)))
            return pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(n, x)
        result = inspect(call, {k: [spec((1,), "int32"), spec((m, 128))] for k, m in (("gate", 32), ("full", 64))})
        self.assertEqual(result["link"]["status"], "unproven")
        self.assertIn("depends on data", result["link"]["detail"])

    def test_missing_module(self):
        """Leaving out a module must not be a way around the link."""
        shapes = gemm_shapes()
        table = {n: build.resolved(gemm, s, gemm_flops(s)) for n, s in shapes.items()}
        modules = {"full/tpu": build.module(gemm, shapes["full"], "tpu"), "gate/tpu": build.module(gemm, shapes["gate"], "tpu"),
                   "gate/cpu": build.module(gemm, shapes["gate"], "cpu")}
        self.assertEqual(build.run(build.job(table), modules)["status"], "ok")
        result = build.run(build.job(table), {n: m for n, m in modules.items() if n != "full/tpu"})
        self.assertEqual((result["status"], result["outcome"]), ("fail", "suspicious"))
        self.assertIn("module full/tpu, which is timed, is missing", result["reason"])
        for name in ("gate/tpu", "gate/cpu"):
            result = build.run(build.job(table), {n: m for n, m in modules.items() if n != name})
            self.assertEqual((result["status"], result["link"]["status"]), ("ok", "unproven"))
            note = result["findings"][0]
            self.assertEqual((note["id"], note["outcome"]), ("shape-specialised", "inconclusive"))
            self.assertIn("module %s is missing" % name, note["detail"])

    def test_nothing_checked(self):
        shapes = {"full": gemm_shapes()["full"]}
        table = {"full": build.resolved(gemm, shapes["full"], gemm_flops(shapes["full"]))}
        result = build.run(build.job(table, check=()), {"full/tpu": build.module(gemm, shapes["full"], "tpu")})
        self.assertEqual((result["status"], result["link"]["status"]), ("ok", "unproven"))


if __name__ == "__main__":
    unittest.main()
