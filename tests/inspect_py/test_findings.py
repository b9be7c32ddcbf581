# SPDX-License-Identifier: Apache-2.0
"""Each finding on a kernel that earns it, and on one that only looks so."""

import unittest

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import pallas as pl

from tests.inspect_py import build
from tests.inspect_py.build import copy, gemm, gemm_flops, gemm_shapes, ids, inspect, spec

SMALL = gemm_shapes((128, 256, 128), (256, 512, 256))
SQUARE = {"gate": [spec((64, 128))], "full": [spec((256, 128))]}


def product(A, B):
    return jnp.dot(A, B, preferred_element_type=jnp.float32).astype(A.dtype)


def corner(A, interpret):
    return copy(A[:8, :128], interpret=interpret)


# Decoys: the work is done by jnp, the kernel's result is thrown away in a way that looks like use.
def times_zero(A, B, interpret=False):
    return product(A, B) + 0 * corner(A, interpret)[0, 0]


def times_zero_array(A, B, interpret=False):
    zeros = jnp.zeros((8, 128), A.dtype)
    return product(A, B) + jnp.sum(corner(A, interpret) * zeros)


def dropped(A, B, interpret=False):
    corner(A, interpret)
    return product(A, B)


def where_false(A, B, interpret=False):
    return jnp.where(jnp.zeros((), bool), gemm(A, B, interpret=interpret), product(A, B))


def where_never(A, B, interpret=False):
    rows = jnp.arange(A.shape[0])[:, None] < 0
    return jnp.where(rows, gemm(A, B, interpret=interpret), product(A, B))


def minus_itself(A, B, interpret=False):
    decoy = gemm(A, B, interpret=interpret)
    return product(A, B) + (decoy - decoy)


def sliced_off(A, B, interpret=False):
    both = jnp.concatenate([product(A, B), gemm(A, B, interpret=interpret)], axis=0)
    return both[:A.shape[0]]


def overwritten(A, B, interpret=False):
    return jax.lax.dynamic_update_slice(gemm(A, B, interpret=interpret), product(A, B), (0, 0))


def masked_bits(A, B, interpret=False):
    decoy = gemm(A, B, interpret=interpret) > 0
    return jnp.where(decoy & False, 2 * product(A, B), product(A, B))


def through_loop(A, B, interpret=False):
    _, out = jax.lax.fori_loop(0, 3, lambda i, c: (c[0], c[1]), (0 * gemm(A, B, interpret=interpret), product(A, B)))
    return out


def zero_power(A, B, interpret=False):
    return product(A, B) * (gemm(A, B, interpret=interpret) ** jnp.bfloat16(0))


def constant_cond(A, B, interpret=False):
    return jax.lax.cond(jnp.zeros((), jnp.int32) > 0, lambda: gemm(A, B, interpret=interpret), lambda: product(A, B))


def no_kernel(A, B, interpret=False):
    return product(A, B)


def kernel_without_input(A, B, interpret=False):
    def kernel(o):
        o[...] = jnp.full(o.shape, 2.0, o.dtype)
    two = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), A.dtype), interpret=interpret)()
    return product(A, B) * two[0, 0]


def tiny_share(A, B, interpret=False):
    """The kernel matters, but does next to nothing."""
    return product(A, B) + corner(A, interpret)[0, 0]


def predicated_off(A, B, interpret=False):
    """Heavy work in a kernel that never runs: the share must count what is executed."""
    def kernel(a, b, o):
        @pl.when(pl.program_id(0) < 0)
        def _():
            o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)

        @pl.when(pl.program_id(0) >= 0)
        def _():
            o[...] = a[...][:, :o.shape[1]]
    (M, K), N = A.shape, B.shape[1]
    out = pl.pallas_call(kernel, grid=(1,), in_specs=[pl.BlockSpec((M, K), lambda i: (0, 0)), pl.BlockSpec((K, N), lambda i: (0, 0))],
                         out_specs=pl.BlockSpec((M, N), lambda i: (0, 0)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(A, B)
    return product(A, B) + out[0, 0]


def dead_code(A, B, interpret=False):
    """Heavy work in a kernel whose result is not stored."""
    def kernel(a, b, o, acc):
        acc[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
        o[...] = a[...][:, :o.shape[1]]
    (M, K), N = A.shape, B.shape[1]
    from jax.experimental.pallas import tpu as pltpu
    out = pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), scratch_shapes=[pltpu.VMEM((M, N), jnp.float32)], interpret=interpret)(A, B)
    return product(A, B) + out[0, 0]


class NotPallas(unittest.TestCase):
    DECOYS = (times_zero, times_zero_array, dropped, where_false, where_never, minus_itself, sliced_off, overwritten, masked_bits,
              through_loop, zero_power, constant_cond, no_kernel, kernel_without_input, tiny_share, predicated_off, dead_code)

    def test_decoys(self):
        for kernel in self.DECOYS:
            with self.subTest(kernel=kernel.__name__):
                result = inspect(kernel, SMALL, gemm_flops)
                self.assertEqual(result["status"], "ok", result)
                self.assertIn("not-pallas", ids(result), result)
                outcome, = {f["outcome"] for f in result["findings"] if f["id"] == "not-pallas"}
                self.assertEqual(outcome, "not-pallas")

    def test_look_alikes(self):
        def residual(A, B, interpret=False):
            out = gemm(A, B, interpret=interpret)
            return out + (out - 2 * out)

        def one_times(A, B, interpret=False):
            return 1 * gemm(A, B, interpret=interpret) + 0 * A[0, 0]

        def where_some(A, B, interpret=False):
            rows = jnp.arange(A.shape[0])[:, None] < 8
            return jnp.where(rows, gemm(A, B, interpret=interpret), -gemm(A, B, interpret=interpret))

        def half_kept(A, B, interpret=False):
            both = jnp.concatenate([gemm(A, B, interpret=interpret), gemm(A, B, interpret=interpret)], axis=1)
            return both[:, B.shape[1] // 2:B.shape[1] // 2 + B.shape[1]]

        def updated(A, B, interpret=False):
            return jax.lax.dynamic_update_slice(gemm(A, B, interpret=interpret), A[:8, :128], (0, 0))
        for kernel in (residual, one_times, where_some, half_kept, updated):
            with self.subTest(kernel=kernel.__name__):
                result = inspect(kernel, SMALL, gemm_flops)
                self.assertEqual([f for f in result["findings"] if f["outcome"]], [], result)
                self.assertGreater(result["flops"]["share"], 0.9)

    def test_share_is_a_label(self):
        def quarter(A, B, interpret=False):
            n = B.shape[1] // 4
            wide = jnp.pad(B[:, :n], ((0, 0), (0, max(0, 128 - n))))
            return jnp.concatenate([gemm(A, wide, interpret=interpret)[:, :n], product(A, B[:, n:])], axis=1)
        shapes = gemm_shapes((128, 256, 512), (256, 512, 1024))
        result = inspect(quarter, shapes, gemm_flops)
        note, = [f for f in result["findings"] if f["id"] == "share"]
        self.assertEqual(note["outcome"], "")
        self.assertAlmostEqual(result["flops"]["share"], 0.25, delta=0.02)

    def test_data_movement_only_has_share_1(self):
        result = inspect(lambda x, interpret: copy(x, interpret=interpret, rows=8), SQUARE)
        self.assertEqual((result["flops"]["total"], result["flops"]["share"]), (0, 1.0))
        self.assertNotIn("not-pallas", ids(result))

    def test_the_cost_estimate_is_not_believed(self):
        def boast(A, B, interpret=False):
            out = pl.pallas_call(build.copy_kernel, out_shape=jax.ShapeDtypeStruct((8, 128), A.dtype), interpret=interpret,
                                 cost_estimate=pl.CostEstimate(flops=10 ** 15, transcendentals=0, bytes_accessed=1))(A[:8, :128])
            return product(A, B) + out[0, 0]
        result = inspect(boast, SMALL, gemm_flops)
        self.assertIn("not-pallas", ids(result))
        self.assertLess(result["flops"]["total"], 10 ** 12)


class Inputs(unittest.TestCase):
    def check(self, kernel, shapes, number):
        result = inspect(kernel, shapes)
        details = [f["detail"] for f in result["findings"] if f["id"] == "unread-input"]
        self.assertEqual(len(details), 1, result)
        self.assertIn("input %d (%s)" % (number, "ABC"[number]), details[0])

    def test_input_that_is_not_passed(self):
        self.check(lambda A, B, interpret: copy(A, interpret=interpret), {n: [s[0], s[1]] for n, s in SMALL.items()}, 1)

    def test_ref_that_is_never_loaded(self):
        def kernel(a, b, o):
            o[...] = a[...]

        def call(A, B, interpret=False):
            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(A.shape, A.dtype), interpret=interpret)(A, B)
        self.check(call, SMALL, 1)

    def test_ref_that_is_loaded_and_multiplied_by_zero(self):
        def kernel(a, b, o):
            o[...] = a[...] + (b[...] * 0)[:1, :1]

        def call(A, B, interpret=False):
            return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(A.shape, A.dtype), interpret=interpret)(A, B)
        self.check(call, {"gate": [spec((16, 128))] * 2, "full": [spec((64, 128))] * 2}, 1)

    def test_ref_that_is_loaded_where_nothing_runs(self):
        def kernel(a, b, o):
            o[...] = a[...]

            @pl.when(pl.program_id(0) > 7)
            def _():
                o[...] = b[...]

        def call(A, B, interpret=False):
            block = pl.BlockSpec((8, 128), lambda i: (i, 0))
            return pl.pallas_call(kernel, grid=(A.shape[0] // 8,), in_specs=[block, block], out_specs=block,
                                  out_shape=jax.ShapeDtypeStruct(A.shape, A.dtype), interpret=interpret)(A, B)
        self.check(call, {"gate": [spec((16, 128))] * 2, "full": [spec((64, 128))] * 2}, 1)

    def test_read_through_scratch_and_dma_counts(self):
        from tests.inspect_py.test_right import manual_dma
        self.assertNotIn("unread-input", ids(inspect(manual_dma, gemm_shapes(), gemm_flops)))

    def test_read_by_an_index_map_or_a_predicate_counts(self):
        from jax.experimental.pallas import tpu as pltpu

        def kernel(order, flag, x, o):
            @pl.when(flag[0] > 0)
            def _():
                o[...] = x[...]

            @pl.when(flag[0] <= 0)
            def _():
                o[...] = -x[...]

        def call(order, flag, x, interpret=False):
            grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=2, grid=(x.shape[0] // 8,),
                                                in_specs=[pl.BlockSpec((8, 128), lambda i, o, f: (o[i], 0))],
                                                out_specs=pl.BlockSpec((8, 128), lambda i, o, f: (i, 0)))
            return pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(order, flag, x)
        shapes = {n: [spec((m // 8,), "int32"), spec((1,), "int32"), spec((m, 128))] for n, m in (("gate", 32), ("full", 64))}
        result = inspect(call, shapes)
        self.assertEqual([f for f in result["findings"] if f["outcome"]], [], result)

    def test_constant_output(self):
        def zeros(x, interpret=False):
            def kernel(x_, o):
                o[...] = jnp.zeros_like(o)
            block = pl.BlockSpec((8, 128), lambda i: (i, 0))
            return pl.pallas_call(kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block,
                                  out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)
        result = inspect(zeros, SQUARE)
        self.assertIn("constant-output", ids(result))
        self.assertNotIn("not-pallas", ids(result), "a constant written by a kernel is judged by the gates")

    def test_one_of_two_outputs_is_constant(self):
        def two(x, interpret=False):
            def kernel(x_, o, p):
                o[...] = x_[...]
                p[...] = jnp.ones_like(p)
            shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
            return pl.pallas_call(kernel, out_shape=[shape, shape], interpret=interpret)(x)
        details = [f["detail"] for f in inspect(two, SQUARE)["findings"] if f["id"] == "constant-output"]
        self.assertEqual(len(details), 1)
        self.assertIn("output 1", details[0])


class Constants(unittest.TestCase):
    SHAPES = {"gate": [spec((256, 256))], "full": [spec((512, 256))]}

    def embedded(self, table):
        def call(x, interpret=False):
            return copy(x, interpret=interpret) + jnp.asarray(table(x.shape), x.dtype)
        return "embedded-constant" in ids(inspect(call, self.SHAPES))

    def test_an_answer(self):
        def call(x, interpret=False):
            return copy(jnp.asarray(np.random.default_rng(0).normal(size=x.shape), x.dtype), interpret=interpret)
        result = inspect(call, self.SHAPES)
        self.assertLessEqual({"embedded-constant", "constant-output"}, set(ids(result)))

    def test_an_answer_that_is_added_to(self):
        self.assertTrue(self.embedded(lambda s: np.random.default_rng(0).normal(size=s)))

    def test_an_answer_in_pieces(self):
        rng = np.random.default_rng(0)

        def call(x, interpret=False):
            rows = [jnp.asarray(rng.normal(size=(16, x.shape[1])), x.dtype) for _ in range(x.shape[0] // 16)]
            return copy(x, interpret=interpret) + jnp.concatenate(rows)
        self.assertIn("embedded-constant", ids(inspect(call, self.SHAPES)))

    def test_look_alikes(self):
        self.assertFalse(self.embedded(lambda s: np.full(s, 3.0)), "a splat")
        self.assertFalse(self.embedded(lambda s: np.tril(np.ones(s))), "a causal mask")
        self.assertFalse(self.embedded(lambda s: np.random.default_rng(0).normal(size=(1, s[1]))), "a small table")
        self.assertFalse(self.embedded(lambda s: np.eye(*s)), "a unit matrix")


if __name__ == "__main__":
    unittest.main()
