# SPDX-License-Identifier: Apache-2.0
"""The two other evaluations of a traced graph.

h is held against an independent float64 answer: NumPy where that is short, else
the same function traced at float64 (its graph needs no widening).  r_op is held
against doing by hand what the graph says, one rounding a step."""
import unittest

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

from jaxbench_harness import widen

BF16 = ml_dtypes.bfloat16
RANDOM = np.random.default_rng(7)


def bf16(*dims, scale=1.0):
    return (RANDOM.standard_normal(dims) * scale).astype(BF16)


def graph(function, *inputs):
    return jax.make_jaxpr(function)(*[jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs])


def high(function, *inputs):
    return widen.high(graph(function, *inputs))(*inputs)


def native(function, *inputs):
    """The function itself at float64: no constant in it may be inexact in bf16."""
    with jax.enable_x64(True):
        wide = [np.asarray(x, np.float64) if np.issubdtype(np.asarray(x).dtype, np.inexact) or x.dtype == BF16 else x for x in inputs]
        return [np.asarray(x) for x in jax.tree.leaves(jax.jit(function)(*wide))]


def attention(q, k, v):
    a = jnp.einsum("bhqd,bhkd->bhqk", q, k) * 0.125
    n = q.shape[2]
    a = jnp.where(jnp.tril(jnp.ones((n, n), bool)), a, -jnp.inf)
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(a, axis=-1), v)


def rope(x):
    angle = jnp.arange(x.shape[0], dtype=x.dtype)[:, None] * jnp.asarray([1.0, 0.5, 0.25, 0.125], x.dtype)
    a, b = x[:, 0::2], x[:, 1::2]
    return jnp.stack([a * jnp.cos(angle) - b * jnp.sin(angle), a * jnp.sin(angle) + b * jnp.cos(angle)], -1).reshape(x.shape)


def linear_recurrence(x):
    def step(state, row):
        state = state * 0.5 + row
        return state, (state * 2, row)
    return lax.scan(step, jnp.zeros(x.shape[1:], x.dtype), x, reverse=True)


def newton(x):
    def better(state):
        i, y = state
        return i + 1, 0.5 * (y + x / y)
    return lax.while_loop(lambda s: s[0] < 6, better, (0, jnp.ones_like(x)))[1]


def branch(x):
    return lax.cond(x[0, 0] > 0, lambda y: jnp.exp(y), lambda y: y * 2, x)


@jax.custom_vjp
def with_vjp(x):
    return x * 2 + 1


with_vjp.defvjp(lambda x: (with_vjp(x), None), lambda r, g: (g,))


def cross_entropy(x, labels):
    chosen = jnp.take_along_axis(jax.nn.log_softmax(x, axis=-1), labels[:, None], axis=-1)
    return -jnp.mean(chosen)


def convolution(x, w):
    return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))


LABELS = np.array([0, 3, 5, 1], np.int32)
# name -> (function, inputs): against the same function at float64
SAME = {
    "attention": (attention, (bf16(1, 2, 16, 8), bf16(1, 2, 16, 8), bf16(1, 2, 16, 8))),
    "matmul": (jnp.dot, (bf16(8, 32), bf16(32, 8))),
    "softmax": (jax.nn.softmax, (bf16(4, 64),)),
    "normalisation": (lambda x: (x - jnp.mean(x, -1, keepdims=True)) * lax.rsqrt(jnp.var(x, -1, keepdims=True) + 0.125), (bf16(4, 64),)),
    "relu (custom_jvp)": (jax.nn.relu, (bf16(4, 8),)),
    "silu": (jax.nn.silu, (bf16(4, 8),)),
    "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=1), (bf16(4, 64),)),
    "erf": (lambda x: lax.erf(x), (bf16(4, 8),)),
    "custom_vjp": (with_vjp, (bf16(4, 8),)),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(x) * 2), (bf16(4, 8),)),
    "jit within": (lambda x: jax.jit(lambda y: jax.jit(jnp.cos)(y) + 1)(x), (bf16(4, 8),)),
    "scan": (linear_recurrence, (bf16(16, 4),)),
    "map": (lambda x: lax.map(lambda r: r * 2 + 1, x), (bf16(4, 8),)),
    "while": (newton, (np.abs(bf16(4, 8)) + BF16(1),)),
    "fori_loop": (lambda x: lax.fori_loop(0, 5, lambda i, y: y * 0.5 + i, x), (bf16(4, 8),)),
    "cond": (branch, (bf16(4, 8),)),
    "switch": (lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.tanh], x), (bf16(4, 8),)),
    "scan of a cond": (lambda x: lax.scan(lambda c, r: (c, lax.cond(r[0] > 0, jnp.sin, jnp.cos, r)), 0, x)[1], (bf16(8, 4),)),
    "convolution": (convolution, (bf16(1, 8, 8, 4), bf16(3, 3, 4, 8))),
    "max pooling": (lambda x: lax.reduce_window(x, jnp.array(-jnp.inf, x.dtype), lax.max, (2, 2), (2, 2), "VALID"), (bf16(8, 8),)),
    "sum pooling": (lambda x: lax.reduce_window(x, jnp.array(0, x.dtype), lax.add, (2, 2), (1, 1), "SAME"), (bf16(8, 8),)),
    "reduction of one's own": (lambda x: lax.reduce(x, jnp.array(0, x.dtype), lambda a, b: a + b * 2 - b, (1,)), (bf16(4, 8),)),
    "window of one's own": (lambda x: lax.reduce_window(x, jnp.array(0, x.dtype), lambda a, b: a + b * 1.0, (2, 2), (1, 1), "VALID"), (bf16(4, 8),)),
    "cumsum": (lambda x: jnp.cumsum(x, axis=1), (bf16(4, 64),)),
    "associative scan": (lambda x: lax.associative_scan(jnp.multiply, x, axis=1), (bf16(4, 8),)),
    "sort": (lambda x: jnp.sort(x, axis=1), (bf16(4, 64),)),
    "sort of pairs": (lambda x: lax.sort((x, x * 2), num_keys=1), (bf16(4, 64),)),
    "scatter add": (lambda x: x.at[jnp.array([0, 2, 0])].add(x[:3]), (bf16(4, 8),)),
    "scatter set": (lambda x: x.at[1].set(x[0] * 2), (bf16(4, 8),)),
    "scatter max": (lambda x: x.at[jnp.array([0, 1])].max(x[2:]), (bf16(4, 8),)),
    "segment sum": (lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 1, 0]), 2), (bf16(4, 8),)),
    "gather": (lambda x, i: x[i], (bf16(8, 4), LABELS)),
    "cross entropy": (cross_entropy, (bf16(4, 8), LABELS)),
    "ragged dot": (lambda x, w: lax.ragged_dot(x, w, jnp.array([1, 3], jnp.int32)), (bf16(4, 8), bf16(2, 8, 4))),
    "rotary embedding": (rope, (bf16(4, 8),)),
    "several outputs": (lambda x: {"a": x * 2, "b": [x + 1, jnp.sum(x)]}, (bf16(4, 8),)),
    "power, root, log": (lambda x: jnp.sqrt(jnp.abs(x)) + jnp.log1p(jnp.abs(x)) + x ** 3 + jnp.exp2(x), (bf16(4, 8),)),
    "vmap": (jax.vmap(lambda x, y: jnp.dot(x, y)), (bf16(4, 8), bf16(4, 8))),
}


class High(unittest.TestCase):
    def test_against_the_same_function_at_float64(self):
        for name, (function, inputs) in SAME.items():
            with self.subTest(graph=name):
                got, want = high(function, *inputs), native(function, *inputs)
                self.assertEqual([x.dtype for x in got], [x.dtype for x in want])
                for g, w in zip(got, want, strict=True):
                    np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-13)

    def test_narrower_types_named_in_the_graph_widen_too(self):
        a, b = bf16(8, 32), bf16(32, 8)
        exact = a.astype(np.float64) @ b.astype(np.float64)
        cases = {
            "preferred type": lambda a, b: jnp.dot(a, b, preferred_element_type=jnp.float32),
            "cast": lambda a, b: (a.astype(jnp.float32) @ b.astype(jnp.float32)).astype(a.dtype),
            "algorithm": lambda a, b: lax.dot_general(a, b, (((1,), (0,)), ((), ())), precision=lax.DotAlgorithmPreset.BF16_BF16_F32,
                                                      preferred_element_type=jnp.float32),
        }
        for name, function in cases.items():
            with self.subTest(named=name):
                got, = high(function, a, b)
                self.assertEqual(got.dtype, np.float64)
                np.testing.assert_allclose(got, exact, rtol=1e-12, atol=1e-13)

    def test_more_than_float32(self):
        x = np.array([1.0, 2.0 ** -7], BF16)
        got, = high(lambda x: (x[0] + x[1] ** 5) - x[0], x)
        self.assertEqual(got, 2.0 ** -35)  # lost in bf16 and in fp32

    def test_a_bf16_sum_is_not_rounded(self):
        x = np.ones(4096, BF16)
        got, = high(lambda x: lax.scan(lambda c, r: (c + r, None), jnp.zeros((), x.dtype), x)[0], x)
        self.assertEqual(got, 4096)  # 256 when each step rounds to bf16

    def test_round_trips_and_reduce_precision_vanish(self):
        x = np.array([1 + 2.0 ** -7], BF16)
        got, = high(lambda x: lax.reduce_precision((x * x).astype(jnp.float16).astype(jnp.float32), 8, 7), x)
        self.assertEqual(got[0], (1 + 2.0 ** -7) ** 2)

    def test_constants_keep_the_value_of_the_graph(self):
        got, = high(lambda x: x * 0.1, np.ones(1, BF16))
        self.assertEqual(got[0], float(BF16(0.1)))
        table = jnp.asarray([0.1, 0.2], jnp.float32)
        got, = high(lambda x: x * table, np.ones(2, np.float32))
        self.assertEqual(got.tolist(), np.array([0.1, 0.2], np.float32).astype(np.float64).tolist())

    def test_other_dtypes_are_kept(self):
        def function(x):
            values, places = lax.top_k(x, 3)
            return values, places, jnp.argmax(x, axis=1), x > 0, jax.nn.one_hot(places, 8, dtype=x.dtype), x.astype(jnp.int8)
        x = bf16(4, 8, scale=3)
        got = high(function, x)
        self.assertEqual([str(g.dtype) for g in got], ["float64", "int32", "int32", "bool", "float64", "int8"])
        np.testing.assert_array_equal(got[1], np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :3])
        np.testing.assert_array_equal(got[3], x.astype(np.float64) > 0)
        np.testing.assert_array_equal(got[5], np.trunc(x.astype(np.float64)).astype(np.int8))

    def test_integer_bits_may_be_cast(self):
        got, = high(lambda x: lax.bitcast_convert_type(x, jnp.uint32), np.array([-1], np.int32))
        self.assertEqual((got.dtype, int(got[0])), (np.uint32, 2 ** 32 - 1))

    def test_x64_does_not_leak(self):
        high(lambda x: x * 2, bf16(2))
        self.assertEqual(jnp.asarray(1.0).dtype, jnp.float32)

    def test_refusals(self):
        from jax.experimental import pallas as pl
        x = bf16(8, 128)
        kernel = lambda x: pl.pallas_call(lambda a, o: o.__setitem__(..., a[...]), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=True)(x)
        bits = lambda x: lax.bitcast_convert_type(x, jnp.uint16)
        cases = [
            ("bits of a float", bits, "bitcast_convert_type.*no wider form"),
            ("bits to a float", lambda x: lax.bitcast_convert_type(jnp.zeros((2,), jnp.uint16), x.dtype), "bitcast_convert_type"),
            ("in a jit", lambda x: jax.jit(bits)(x), "bitcast_convert_type"),
            ("in a scan", lambda x: lax.scan(lambda c, r: (c, bits(r)), 0, x)[1], "bitcast_convert_type"),
            ("kernel", kernel, "pallas_call"),
            ("callback", lambda x: jax.pure_callback(lambda y: y, jax.ShapeDtypeStruct(x.shape, x.dtype), x), "pure_callback"),
            ("random", lambda x: x + jax.random.normal(jax.random.key(0), x.shape, x.dtype), "random_bits|bitcast"),
            ("neighbour", lambda x: jnp.nextafter(x.astype(jnp.float32), 0.0), "nextafter"),
            ("platform", lambda x: lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos), "platform_index|cond"),
            ("a graph within", lambda x: lax.custom_linear_solve(lambda v: v * 2, x, lambda m, b: b / 2), "custom_linear_solve.*no rule"),
        ]
        for what, function, words in cases:
            with self.subTest(what=what), self.assertRaisesRegex(widen.WidenError, words):
                high(function, x)


class ByOperator(unittest.TestCase):
    def run_both(self, function, *inputs):
        return widen.by_operator(graph(function, *inputs))(*inputs)

    def test_every_boundary_rounds(self):
        x = bf16(64, 64)
        got, = self.run_both(lambda x: jax.jit(lambda y: (y * 1.5 + 0.25) * y - y)(x), x)
        step = lambda a: a.astype(np.float32).astype(BF16).astype(np.float32)
        y = x.astype(np.float32)
        want = step(step(step(step(y * 1.5) + 0.25) * y) - y)
        np.testing.assert_array_equal(got.astype(np.float32), want)

    def test_rounding_in_loops(self):
        x = np.ones(600, BF16)
        for name, function in {
                "scan": lambda x: lax.scan(lambda c, r: (c + r, None), jnp.zeros((), x.dtype), x)[0],
                "while": lambda x: lax.fori_loop(0, 600, lambda i, c: c + x[i], jnp.zeros((), x.dtype))}.items():
            with self.subTest(loop=name):
                got, = self.run_both(function, x)
                self.assertEqual(float(got), 256)  # 256 + 1 rounds to 256

    def test_rounding_between_operators_of_a_loop(self):
        y = np.float32(BF16(1.0078125))
        got, = self.run_both(lambda x: lax.scan(lambda c, _: ((c * x) * x, None), x, None, length=1)[0], BF16(y)[None])
        want = BF16(np.float32(BF16(y * y)) * y)
        self.assertEqual(got[0], want)

    def test_all_graphs_run_and_keep_their_types(self):
        for name, (function, inputs) in SAME.items():
            with self.subTest(graph=name):
                got = self.run_both(function, *inputs)
                want = jax.tree.leaves(jax.eval_shape(function, *inputs))
                self.assertEqual([(g.dtype, g.shape) for g in got], [(w.dtype, w.shape) for w in want])
                for g, h in zip(got, high(function, *inputs), strict=True):
                    g = g.astype(np.float64)
                    self.assertLess(np.max(np.abs(g - h)), 0.2 * np.max(np.abs(h)) + 1e-6)

    def test_the_branch_taken(self):
        for first in (1.0, -1.0):
            x = bf16(4, 8)
            x[0, 0] = first
            got, = self.run_both(branch, x)
            want = np.exp(x.astype(np.float32)).astype(BF16) if first > 0 else (x.astype(np.float32) * 2).astype(BF16)
            np.testing.assert_allclose(got.astype(np.float32), want.astype(np.float32), rtol=2.0 ** -7)


if __name__ == "__main__":
    unittest.main()
