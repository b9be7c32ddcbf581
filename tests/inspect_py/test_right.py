# SPDX-License-Identifier: Apache-2.0
"""Right kernels: no finding that costs them, and a link that is structural or says why not."""

import unittest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tests.inspect_py import build
from tests.inspect_py.build import gemm, gemm_flops, gemm_shapes, inspect, spec


def matrix(gate, full, extra=()):
    return {"gate": [spec(gate)] + [spec(e(gate)) for e in extra], "full": [spec(full)] + [spec(e(full)) for e in extra]}


def attention(gate=(1, 2, 512, 128), full=(2, 4, 1024, 128)):
    return {"gate": [spec(gate)] * 3, "full": [spec(full)] * 3}


def attention_flops(inputs):
    b, h, s, d = inputs[0].shape
    return 4 * b * h * s * s * d


def prefetch(A, B, interpret=False):
    (M, K), N = A.shape, B.shape[1]
    bm, bn = 128, 128

    def kernel(order, a, b, o):
        o[...] = jnp.dot(a[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)
    order = jnp.arange(M // bm, dtype=jnp.int32)[::-1]
    grid = pltpu.PrefetchScalarGridSpec(
        num_scalar_prefetch=1, grid=(M // bm, N // bn),
        in_specs=[pl.BlockSpec((bm, K), lambda i, j, order: (order[i], 0)), pl.BlockSpec((K, bn), lambda i, j, order: (0, j))],
        out_specs=pl.BlockSpec((bm, bn), lambda i, j, order: (order[i], j)))
    return pl.pallas_call(kernel, grid_spec=grid, out_shape=jax.ShapeDtypeStruct((M, N), A.dtype), interpret=interpret)(order, A, B)


def manual_dma(A, B, interpret=False):
    (M, K), N = A.shape, B.shape[1]
    bm, bn = 128, 128

    def kernel(a_hbm, b, o, a_vmem, sem):
        copy = pltpu.make_async_copy(a_hbm.at[pl.ds(pl.program_id(0) * bm, bm), :], a_vmem, sem)
        copy.start()
        copy.wait()
        o[...] = jnp.dot(a_vmem[...], b[...], preferred_element_type=jnp.float32).astype(o.dtype)
    return pl.pallas_call(kernel, grid=(M // bm, N // bn),
                          in_specs=[pl.BlockSpec(memory_space=pl.ANY), pl.BlockSpec((K, bn), lambda i, j: (0, j))],
                          out_specs=pl.BlockSpec((bm, bn), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
                          scratch_shapes=[pltpu.VMEM((bm, K), A.dtype), pltpu.SemaphoreType.DMA], interpret=interpret)(A, B)


def gelu_matmul(x, w, bias, interpret=False):
    """The product with bias and both forms of gelu, whose erf one platform writes out."""
    def kernel(x_, w_, b_, o):
        v = jnp.dot(x_[...], w_[...], preferred_element_type=jnp.float32) + b_[...].astype(jnp.float32)
        o[...] = (jax.nn.gelu(v) + v * 0.5 * (1 + jax.lax.erf(v * 0.7071))).astype(o.dtype)
    (M, K), N = x.shape, w.shape[1]
    return pl.pallas_call(kernel, grid=(M // 128, N // 128),
                          in_specs=[pl.BlockSpec((128, K), lambda i, j: (i, 0)), pl.BlockSpec((K, 128), lambda i, j: (0, j)), pl.BlockSpec((1, 128), lambda i, j: (0, j))],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), x.dtype),
                          interpret=interpret)(x, w, bias.reshape(1, N))


def activations(x, interpret=False):
    def kernel(x_, o):
        v = x_[...].astype(jnp.float32)
        o[...] = (jax.nn.sigmoid(v) + jax.nn.softplus(v) + jnp.power(jnp.abs(v), 2.5) + jnp.sign(v) + jnp.round(v) + v ** 3 + jnp.tanh(v)).astype(o.dtype)
    block = pl.BlockSpec((8, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(kernel, grid=(x.shape[0] // 8,), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


def jnp_around(A, B, interpret=False):
    """A kernel with plain jnp before and after it."""
    out = gemm(A.astype(jnp.float32).astype(jnp.bfloat16), B, interpret=interpret)
    return (jax.nn.relu(out) + jnp.mean(out.astype(jnp.float32), axis=1, keepdims=True).astype(out.dtype)).reshape(out.shape)


def scanned(A, B, interpret=False):
    """The kernel inside a scan over row blocks."""
    rows = A.reshape(-1, 128, A.shape[1])
    return jax.lax.scan(lambda c, a: (c, gemm(a, B, interpret=interpret)), 0, rows)[1].reshape(A.shape[0], B.shape[1])


def batched(A, B, interpret=False):
    return jax.vmap(lambda a: gemm(a, B, interpret=interpret))(A.reshape(2, -1, A.shape[1])).reshape(A.shape[0], B.shape[1])


def ragged_rows(x, w, interpret=False):
    return build.rmsnorm(x, w, interpret=interpret, rows=32)


def clamped(A, B, interpret=False):
    """Blocks that the gate axis clamps."""
    return gemm(A, B, bm=min(512, A.shape[0]), bn=min(512, B.shape[1]), bk=min(1024, A.shape[1]), interpret=interpret)


def rms_flops(inputs):
    return 4 * inputs[0].size


def norm_width(s):
    return (s[1],)


class Right(unittest.TestCase):
    """Rows: kernel, shapes, formula's FLOPs, what the link may be."""

    CASES = {
        "gemm": (gemm, gemm_shapes(), gemm_flops, {"structural"}),
        "clamped": (clamped, gemm_shapes(), gemm_flops, {"structural"}),
        "prefetch": (prefetch, gemm_shapes(), gemm_flops, {"structural"}),
        "manual dma": (manual_dma, gemm_shapes(), gemm_flops, {"structural"}),
        "rmsnorm": (build.rmsnorm, matrix((64, 512), (1024, 512), (norm_width,)), rms_flops, {"structural"}),
        "ragged rows": (ragged_rows, matrix((56, 512), (1000, 512), (norm_width,)), rms_flops, {"structural", "unproven"}),
        "softmax": (build.softmax, matrix((16, 1024), (64, 4096)), rms_flops, {"structural"}),
        "flash": (build.flash, attention(), attention_flops, {"structural"}),
        "flash loop": (build.flash_loop, attention(), attention_flops, {"structural"}),
        "gelu": (gelu_matmul, {n: s + [spec((s[1].shape[1],))] for n, s in gemm_shapes().items()}, gemm_flops, {"structural"}),
        "activations": (activations, matrix((16, 256), (64, 512)), rms_flops, {"structural", "unproven"}),
        "jnp around": (jnp_around, gemm_shapes(), gemm_flops, {"structural"}),
        "scan": (scanned, gemm_shapes(), gemm_flops, {"structural", "unproven"}),
        "vmap": (batched, gemm_shapes(), gemm_flops, {"structural"}),
    }

    def test_nothing_is_held_against_them(self):
        for name, (kernel, shapes, flops, links) in self.CASES.items():
            with self.subTest(kernel=name):
                result = inspect(kernel, shapes, flops)
                self.assertEqual(result["status"], "ok", result)
                self.assertEqual([f for f in result["findings"] if f["outcome"]], [], result)
                self.assertIn(result["link"]["status"], links, result["link"])
                self.assertEqual(result["coverage"]["status"], "complete", result)
                self.assertGreaterEqual(result["flops"]["share"], 0.9, result["flops"])

    def test_counts_are_those_of_the_formula(self):
        result = inspect(gemm, gemm_shapes(), gemm_flops)
        flops = gemm_flops(gemm_shapes()["full"])
        self.assertAlmostEqual(result["flops"]["kernels"] / flops, 1.0, delta=0.01)
        self.assertEqual(result["kernels"], 1)
        # A is fetched once per column block, B once per row block, C once: 8x8 blocks of 128, bf16.
        self.assertEqual(result["bytes"]["kernels"], 2 * (8 * 1024 * 2048 + 8 * 2048 * 1024 + 1024 * 1024))

    def test_causal_skip_is_counted(self):
        result = inspect(build.flash, attention(), attention_flops)
        full = attention_flops(attention()["full"])
        self.assertAlmostEqual(result["flops"]["kernels"] / full, 0.5625 * 1.03, delta=0.03)


if __name__ == "__main__":
    unittest.main()
