# SPDX-License-Identifier: Apache-2.0
"""The small machines inside: integer semantics, index maps against a plain loop, trip counts, folding, counts of single operations."""

import itertools
import types
import unittest

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from jaxbench_harness.inspection import flops, indexmap, semantics, stablehlo
from jaxbench_harness.inspection.analysis import Analysis
from jaxbench_harness.inspection.fold import Fold
from jaxbench_harness.inspection.ir import Refused, Type, itemsize
from tests.inspect_py import build
from tests.inspect_py.build import artifact, spec

TOOLKIT = stablehlo.Toolkit()


def load(text_or_bytes, platform="cpu"):
    data = text_or_bytes if isinstance(text_or_bytes, bytes) else artifact(text_or_bytes)
    return stablehlo.load("t/" + platform, data, TOOLKIT)


def compute(name, arrays, dtype="i32", predicate=None):
    """One elementwise operation on int32 arrays."""
    attributes = {"predicate": types.SimpleNamespace(value=predicate)} if predicate is not None else {}
    op = types.SimpleNamespace(name=name, attr=attributes.get)
    with np.errstate(all="ignore"):
        return semantics.apply(op, semantics.KIND[name], [np.asarray(a) for a in arrays], Type("scalar", dtype, ()))


class Semantics(unittest.TestCase):
    A = np.array([7, -7, 7, -7, 0, -2 ** 31], np.int32)
    B = np.array([2, 2, -2, -2, 5, -1], np.int32)

    def check(self, name, expected, *arrays, **more):
        value = compute(name, arrays or (self.A, self.B), **more)
        self.assertEqual(value.tolist(), expected, name)

    def test_integers(self):
        self.check("arith.divsi", [3, -3, -3, 3, 0, -2 ** 31])
        self.check("stablehlo.divide", [3, -3, -3, 3, 0, -2 ** 31])
        self.check("arith.remsi", [1, -1, 1, -1, 0, 0])
        self.check("arith.floordivsi", [3, -4, -4, 3, 0, -2 ** 31])
        self.check("arith.ceildivsi", [4, -3, -3, 4, 0, -2 ** 31])
        self.check("arith.divui", [3, 2147483644, 0, 0, 0, 0])
        self.check("arith.addi", [9, -5, 5, -9, 5, 2 ** 31 - 1])
        self.check("arith.minsi", [2, -7, -2, -7, 0, -2 ** 31])
        self.check("arith.minui", [2, 2, 7, -7, 0, -2 ** 31])
        self.check("arith.shrsi", [-2], np.array([-7], np.int32), np.array([2], np.int32))
        self.check("arith.shrui", [2 ** 30 - 2], np.array([-7], np.int32), np.array([2], np.int32))
        self.check("arith.cmpi", [False, True, False, True, True, True], dtype="i1", predicate=2)   # slt
        self.check("arith.cmpi", [False, False, True, True, True, True], dtype="i1", predicate=6)  # ult
        self.check("arith.extsi", [-1, 0], np.array([True, False]))
        self.check("arith.extui", [1, 0], np.array([True, False]))
        self.check("arith.trunci", [True, False], np.array([3, 2], np.int32), dtype="i1")

    def test_what_has_no_answer(self):
        zero = np.zeros(6, np.int32)
        for name in ("arith.divsi", "arith.remsi", "arith.floordivsi", "arith.ceildivsi", "stablehlo.divide", "stablehlo.remainder"):
            self.assertIsNone(compute(name, (self.A, zero)), name)
        self.assertIsNone(compute("arith.shli", (self.A, np.full(6, 32, np.int32))))
        self.assertIsNone(compute("arith.fptosi", (np.array([1e30], np.float32),)))

    def test_sizes(self):
        self.assertEqual([itemsize(t) for t in ("bf16", "f32", "i1", "ui8", "i4", "f8E4M3FN", "f4E2M1FN", "complex<f32>", "f64")],
                         [2, 4, 1, 1, 0.5, 1, 0.5, 8, 8])


class IndexMaps(unittest.TestCase):
    """Every map is evaluated at every grid point by jax itself and by the inspector."""

    GRID = (3, 4, 5)
    MAPS = {
        "plain": lambda i, j, k: (i, k), "constant": lambda i, j, k: (0, 2), "sum": lambda i, j, k: (i + j, k),
        "clamp": lambda i, j, k: (jnp.minimum(i, j), jnp.maximum(k - 1, 0)), "div and mod": lambda i, j, k: ((i * 20 + j * 5 + k) // 7, (i * 7 + k) % 5),
        "negative div": lambda i, j, k: ((j - 3) // 2 + 3, (k - 9) % 4), "backwards": lambda i, j, k: (2 - i, 4 - k),
        "where": lambda i, j, k: (jnp.where(j % 2 == 0, i, 2 - i), jnp.where((k > 2) & (i > 0), 1, k)),
        "cond": lambda i, j, k: (jax.lax.cond(i > j, lambda: i, lambda: j), k), "shift": lambda i, j, k: ((i << 1) ^ j, k >> 1),
        "square": lambda i, j, k: (i * i, abs(k - 2)), "zigzag": lambda i, j, k: (i, jax.lax.select(i % 2 == 0, k, 4 - k)),
        "clip": lambda i, j, k: (jnp.clip(i - 1, 0, 1), jnp.sign(k - 2) + 1), "remainder": lambda i, j, k: (jax.lax.rem(j, 3), jax.lax.div(k, 2)),
    }

    def test_against_a_loop(self):
        for name, index in self.MAPS.items():
            with self.subTest(map=name):
                points = np.array(list(itertools.product(*map(range, self.GRID))), np.int32)
                expected = np.stack([np.broadcast_to(np.asarray(a), len(points)) for a in jax.vmap(lambda p: index(*p))(points)], 1)

                def call(x, interpret=False):
                    return pl.pallas_call(build.copy_kernel, grid=self.GRID, in_specs=[pl.BlockSpec((8, 128), index)],
                                          out_specs=pl.BlockSpec((8, 128), lambda i, j, k: (0, 0)),
                                          out_shape=jax.ShapeDtypeStruct((8, 128), x.dtype), interpret=interpret)(x)
                kernel, = load(build.module(call, [spec((8 * 20, 128 * 20))], "tpu"), "tpu").kernels
                seen = indexmap.visits(kernel, 0, {})
                if name == "cond":
                    self.assertTrue(seen.ids is None or seen.ids.tolist() == (expected[:, 0] * 20 + expected[:, 1]).tolist())
                    continue
                self.assertEqual(seen.reason, "")
                self.assertEqual(seen.ids.tolist(), (expected[:, 0] * 20 + expected[:, 1]).tolist())

    def test_tables(self):
        def call(x, interpret=False):
            order = jnp.array([3, 1, 2, 0], jnp.int32)
            grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(4,), in_specs=[pl.BlockSpec((8, 128), lambda i, t: (t[i], 0))],
                                                out_specs=pl.BlockSpec((8, 128), lambda i, t: (i, 0)))
            return pl.pallas_call(lambda t, a, o: build.copy_kernel(a, o), grid_spec=grid, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                                  interpret=interpret)(order, x)
        analysis = Analysis(load(build.module(call, [spec((32, 128))], "tpu"), "tpu"))
        kernel, = analysis.live_kernels
        self.assertEqual(analysis.visits[kernel][0].ids.tolist(), [3, 1, 2, 0])
        self.assertEqual(analysis.coverage.status, "complete")

    def test_element_windows(self):
        def call(x, interpret=False):
            return pl.pallas_call(build.copy_kernel, grid=(4,), in_specs=[pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (i * 8, 0))],
                                  out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((32, 128), x.dtype), interpret=interpret)(x)

        def overlapping(x, interpret=False):
            return pl.pallas_call(build.copy_kernel, grid=(4,), in_specs=[pl.BlockSpec((pl.Element(8), pl.Element(128)), lambda i: (i * 6, 0))],
                                  out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((32, 128), x.dtype), interpret=interpret)(x)
        kernel, = load(build.module(call, [spec((32, 128))], "tpu"), "tpu").kernels
        self.assertEqual(indexmap.visits(kernel, 0, {}).ids.tolist(), [0, 1, 2, 3])
        kernel, = load(build.module(overlapping, [spec((32, 128))], "tpu"), "tpu").kernels
        self.assertIn("placed by elements", indexmap.visits(kernel, 0, {}).reason)

    def test_dynamic_grid(self):
        def call(n, x, interpret=False):
            block = pl.BlockSpec((8, 128), lambda i: (i, 0))
            return pl.pallas_call(build.copy_kernel, grid=(n[0],), in_specs=[block], out_specs=block,
                                  out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)
        analysis = Analysis(load(build.module(call, [spec((1,), "int32"), spec((64, 128))], "tpu"), "tpu"))
        self.assertEqual(analysis.coverage.status, "unknown")
        self.assertIn("not static", analysis.coverage.detail)
        self.assertEqual(analysis.reached_inputs(analysis.module.outputs), {0, 1})
        self.assertEqual(analysis.live_kernels[0].about(), 8)


class Folding(unittest.TestCase):
    def test_numbers_against_jax(self):
        """Constants that jax computes, too."""
        functions = {
            "iota": lambda: jnp.arange(12, dtype=jnp.int32).reshape(3, 4)[1:, ::2], "reverse": lambda: jnp.arange(6, dtype=jnp.int32)[::-1] * 3 - 1,
            "where": lambda: jnp.where(jnp.arange(8) % 3 == 0, jnp.arange(8) // 2, 7).astype(jnp.int32), "transpose": lambda: jnp.arange(6, dtype=jnp.int32).reshape(2, 3).T,
            "concatenate": lambda: jnp.concatenate([jnp.arange(3), jnp.full(2, 9)]).astype(jnp.int32), "clamp": lambda: jnp.clip(jnp.arange(6), 2, 4).astype(jnp.int32),
            "floats": lambda: (jnp.exp(jnp.zeros((2, 2))) * 3).astype(jnp.int32), "mask": lambda: (jnp.arange(4)[:, None] >= jnp.arange(4)[None]).astype(jnp.int32),
        }
        for name, function in functions.items():
            with self.subTest(function=name):
                data = build.module(lambda x, interpret: function() + 0 * x[0, 0].astype(jnp.int32), [spec((4, 4), "float32")], "cpu")
                module = load(data)
                fold = Fold(module.entry)
                found = fold.get(module.outputs[0])
                self.assertIsNotNone(found, "not folded")
                self.assertEqual(found.tolist(), np.asarray(function()).tolist())

    def test_what_depends_on_data_does_not_fold(self):
        for function in (lambda x: x * 1, lambda x: x + 0, lambda x: jnp.where(x > 0, x, 0), lambda x: x - 2 * x, lambda x: jnp.maximum(x, 0.0), lambda x: x / 2,
                         lambda x: x ** 2, lambda x: jax.lax.fori_loop(0, 3, lambda i, c: c + 1, x)):
            data = build.module(lambda x, interpret: function(x), [spec((4, 4), "float32")], "cpu")
            module = load(data)
            self.assertIsNone(Fold(module.entry).get(module.outputs[0]))


class Counts(unittest.TestCase):
    def count(self, function, inputs, taken=False):
        analysis = Analysis(load(build.module(lambda *a, interpret: function(*a), inputs, "cpu")))
        return analysis.taken if taken else analysis.run

    def test_products(self):
        for name, function, inputs, expected in (
            ("dot", lambda a, b: a @ b, [spec((8, 16)), spec((16, 32))], 2 * 8 * 16 * 32),
            ("batched", lambda a, b: jnp.einsum("bhqd,bhkd->bhqk", a, b), [spec((2, 3, 4, 8)), spec((2, 3, 5, 8))], 2 * 2 * 3 * 4 * 5 * 8),
            ("convolution", lambda a, b: jax.lax.conv_general_dilated(a, b, (1, 1), "SAME"), [spec((1, 4, 6, 6)), spec((8, 4, 3, 3))], 2 * 8 * 36 * 4 * 9),
            ("grouped", lambda a, b: jax.lax.conv_general_dilated(a, b, (1, 1), "SAME", feature_group_count=4), [spec((1, 4, 6, 6)), spec((4, 1, 3, 3))], 2 * 4 * 36 * 9),
        ):
            with self.subTest(product=name):
                self.assertEqual(self.count(function, inputs)[flops.MATMUL], expected)

    def test_elementwise(self):
        x = [spec((8, 16), "float32")]
        self.assertEqual(self.count(lambda a: a * 2 + 1, x)[flops.FLOAT], 256)
        self.assertEqual(self.count(lambda a: jnp.exp(a), x)[[flops.FLOAT, flops.TRANS]].tolist(), [128, 128])
        self.assertEqual(self.count(lambda a: jnp.sum(a, axis=0), x)[flops.FLOAT], 128)
        self.assertEqual(self.count(lambda a: a.astype(jnp.bfloat16).reshape(16, 8).T, x)[:flops.BYTES].sum(), 0)
        self.assertEqual(self.count(lambda a: (a, jnp.exp(a))[0] + 1, x)[flops.TRANS], 0, "what no output needs is not counted")

    def test_loops(self):
        x = [spec((8, 16), "float32")]
        loop = lambda n: (lambda a: jax.lax.fori_loop(0, n, lambda i, c: c * 2, a))
        self.assertEqual(self.count(loop(10), x)[flops.FLOAT], 1280)
        self.assertEqual(self.count(loop(0), x)[flops.FLOAT], 0)
        nested = lambda a: jax.lax.fori_loop(0, 10, lambda i, c: jax.lax.fori_loop(0, i, lambda j, d: d * 2, c), a)
        self.assertEqual(self.count(nested, x)[flops.FLOAT], 45 * 128)
        down = lambda a: jax.lax.while_loop(lambda s: s[0] > 3, lambda s: (s[0] - 2, s[1] * 2), (10, a))[1]
        self.assertEqual(self.count(down, x)[flops.FLOAT], 4 * 128)
        branch = lambda a: jax.lax.fori_loop(0, 10, lambda i, c: jax.lax.cond(i % 3 == 0, lambda d: d * 2, lambda d: d, c), a)
        self.assertEqual(self.count(branch, x)[flops.FLOAT], 4 * 128)
        self.assertEqual(self.count(branch, x, taken=True)[flops.FLOAT], 10 * 128)
        switch = lambda a: jax.lax.fori_loop(0, 6, lambda i, c: jax.lax.switch(i % 3, [lambda d: d, lambda d: d * 2, lambda d: d * 2 + 1], c), a)
        self.assertEqual(self.count(switch, x)[flops.FLOAT], 6 * 128)

    def test_data_dependent_loops_are_said(self):
        analysis = Analysis(load(build.module(lambda n, a, interpret: jax.lax.fori_loop(0, n[0], lambda i, c: c * 2, a), [spec((1,), "int32"), spec((8, 16))], "cpu")))
        self.assertEqual(analysis.loops_undecided, ["the trip count of a loop depends on data"])


class Readers(unittest.TestCase):
    def test_contract(self):
        module = load("module @m { func.func public @main(%x: tensor<2x3xf32>, %y: tensor<i1>) -> tensor<2x3xf32> { return %x : tensor<2x3xf32> } }")
        shape = {"inputs": [{"dtype": "float32", "dims": [2, 3]}, {"dtype": "bool", "dims": []}], "outputs": [{"dtype": "float32", "dims": [2, 3]}]}
        stablehlo.contract(module, shape)
        for change, words in (({"inputs": shape["inputs"][:1]}, "2 arguments"), ({"outputs": []}, "1 result"),
                              ({"outputs": [{"dtype": "bfloat16", "dims": [2, 3]}]}, "2x3xbf16"), ({"inputs": [{"dtype": "float32", "dims": [3, 2]}] + shape["inputs"][1:]}, "3x2xf32")):
            with self.assertRaisesRegex(Refused, words):
                stablehlo.contract(module, dict(shape, **change))


if __name__ == "__main__":
    unittest.main()
