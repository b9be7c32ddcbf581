# SPDX-License-Identifier: Apache-2.0
"""Coverage: blocks that are lost, visited twice or never read, at the timed shape and at a gate shape."""

import unittest

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from tests.inspect_py import build
from tests.inspect_py.build import gemm_shapes, ids, inspect, spec


def blocks(x, rows, grid=None, interpret=False, in_map=lambda i: (i, 0), out_map=lambda i: (i, 0), **kw):
    """A copy by row blocks with the parts that can be wrong as parameters."""
    n = pl.cdiv(x.shape[0], rows) if grid is None else grid
    return pl.pallas_call(build.copy_kernel, grid=(n,), in_specs=[pl.BlockSpec((rows, x.shape[1]), in_map)],
                          out_specs=pl.BlockSpec((rows, x.shape[1]), out_map), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
                          interpret=interpret, **kw)(x)


def rows(gate, full):
    return {"gate": [spec((gate, 128))], "full": [spec((full, 128))]}


def lost_tail(x, interpret=False):
    return blocks(x, 24, x.shape[0] // 24, interpret=interpret)


def k_outermost(A, B, interpret=False):
    def kernel(a, b, o):
        @pl.when(pl.program_id(0) == 0)
        def _():
            o[...] = jnp.zeros_like(o)
        o[...] += jnp.dot(a[...], b[...], preferred_element_type=jnp.float32)
    (M, K), N = A.shape, B.shape[1]
    out = pl.pallas_call(kernel, grid=(K // 128, M // 128, N // 128),
                         in_specs=[pl.BlockSpec((128, 128), lambda k, i, j: (i, k)), pl.BlockSpec((128, 128), lambda k, i, j: (k, j))],
                         out_specs=pl.BlockSpec((128, 128), lambda k, i, j: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), jnp.float32),
                         interpret=interpret)(A, B)
    return out.astype(A.dtype)


def lost_k(A, B, interpret=False):
    (M, K), N = A.shape, B.shape[1]
    return pl.pallas_call(build.gemm_kernel, grid=(M // 128, N // 128, K // 384),
                          in_specs=[pl.BlockSpec((128, 384), lambda i, j, k: (i, k)), pl.BlockSpec((384, 128), lambda i, j, k: (k, j))],
                          out_specs=pl.BlockSpec((128, 128), lambda i, j, k: (i, j)), out_shape=jax.ShapeDtypeStruct((M, N), A.dtype),
                          scratch_shapes=[pltpu.VMEM((128, 128), jnp.float32)], interpret=interpret)(A, B)


class Faults(unittest.TestCase):
    """Rows: kernel, shapes, words of the detail."""

    CASES = {
        "tail lost to n // block": (lost_tail, rows(32, 64), r"full/tpu: output 0 of kernel 'copy_kernel': block \(2, 0\) of \(3, 1\) is never written"),
        "empty grid": (lambda x, interpret: blocks(x, 128, x.shape[0] // 128, interpret=interpret), rows(64, 64), "grid .* is empty"),
        "first block only": (lambda x, interpret: blocks(x, 8, 4, interpret=interpret, out_map=lambda i: (0, 0)), rows(32, 32), r"block \(1, 0\) of \(4, 1\) is never written"),
        "every second block": (lambda x, interpret: blocks(x, 8, 2, interpret=interpret, out_map=lambda i: (2 * i, 0)), rows(32, 32), r"block \(1, 0\) of \(4, 1\)"),
        "beyond the end": (lambda x, interpret: blocks(x, 8, 5, interpret=interpret), rows(32, 32), r"reaches block \(4, 0\) of \(4, 1\)"),
        "revisited": (lambda x, interpret: blocks(x, 8, 8, interpret=interpret, in_map=lambda i: (i % 4, 0), out_map=lambda i: (i % 4, 0)), rows(32, 32), r"block \(0, 0\) of \(4, 1\) is revisited"),
        "k outermost": (k_outermost, gemm_shapes((256, 256, 256), (512, 512, 512)), r"block \(0, 0\) of \(4, 4\) is revisited"),
        "tail lost on k": (lost_k, gemm_shapes((128, 768, 128), (256, 2048, 256)), r"module input 0\): block \(0, 5\) of \(2, 6\) is never read"),
        "input block repeated": (lambda x, interpret: blocks(x, 8, interpret=interpret, in_map=lambda i: (jnp.minimum(i, 2), 0)), rows(32, 32), r"block \(3, 0\) of \(4, 1\) is never read"),
    }

    def test_faults(self):
        for name, (kernel, shapes, pattern) in self.CASES.items():
            with self.subTest(fault=name):
                result = inspect(kernel, shapes)
                found = [f for f in result["findings"] if f["id"] == "coverage"]
                self.assertEqual([f["outcome"] for f in found], ["wrong"], result)
                self.assertRegex(found[0]["detail"], pattern)
                self.assertEqual(result["coverage"]["status"], "incomplete")
                self.assertEqual(result["coverage"]["missed"] + result["coverage"]["revisited"] + result["coverage"]["unread"] > 0
                                 or "reaches" in found[0]["detail"], True)

    def test_counts(self):
        cover = inspect(lost_tail, rows(32, 64))["coverage"]
        self.assertEqual((cover["blocks"], cover["missed"], cover["revisited"]), (3, 1, 0))
        cover = inspect(k_outermost, gemm_shapes((256, 256, 256), (512, 512, 512)))["coverage"]
        self.assertEqual((cover["blocks"], cover["missed"], cover["revisited"]), (16, 0, 48))

    def test_second_of_two_kernels(self):
        def two(x, interpret=False):
            return lost_tail(blocks(x, 8, interpret=interpret), interpret=interpret)
        self.assertIn("coverage", ids(inspect(two, rows(32, 64))))


class Complete(unittest.TestCase):
    def complete(self, kernel, shapes, flops=None):
        result = inspect(kernel, shapes, flops)
        self.assertEqual(result["coverage"]["status"], "complete", result)
        self.assertEqual([f for f in result["findings"] if f["outcome"]], [], result)

    def test_partial_last_block(self):
        self.complete(lambda x, interpret: blocks(x, 24, interpret=interpret), rows(32, 64))

    def test_block_larger_than_the_array(self):
        self.complete(lambda x, interpret: blocks(x, 48, interpret=interpret), rows(32, 40))

    def test_backwards_and_swizzled(self):
        def backwards(x, interpret=False):
            n = x.shape[0] // 8
            return blocks(x, 8, interpret=interpret, in_map=lambda i: (n - 1 - i, 0), out_map=lambda i: (n - 1 - i, 0))

        def swizzled(x, interpret=False):
            half = x.shape[0] // 16
            place = lambda i: ((i % 2) * half + i // 2, 0)
            return blocks(x, 8, interpret=interpret, in_map=place, out_map=place)
        self.complete(backwards, rows(32, 64))
        self.complete(swizzled, rows(32, 64))

    def test_three_operands_that_share_an_array(self):
        def packed(x, interpret=False):
            n = x.shape[0] // 24

            def kernel(a, b, c, o):
                o[...] = a[...] + b[...] * c[...]
            specs = [pl.BlockSpec((8, 128), lambda i, part=part: (part * n + i, 0)) for part in range(3)]
            return pl.pallas_call(kernel, grid=(n,), in_specs=specs, out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)),
                                  out_shape=jax.ShapeDtypeStruct((x.shape[0] // 3, 128), x.dtype), interpret=interpret)(x, x, x)
        self.complete(packed, rows(48, 96))

    def test_half_in_a_kernel_half_in_jnp(self):
        def split(x, interpret=False):
            half = x.shape[0] // 2
            top = pl.pallas_call(build.copy_kernel, grid=(half // 8,), in_specs=[pl.BlockSpec((8, 128), lambda i: (i, 0))],
                                 out_specs=pl.BlockSpec((8, 128), lambda i: (i, 0)), out_shape=jax.ShapeDtypeStruct((half, 128), x.dtype),
                                 interpret=interpret)(x)
            return jnp.concatenate([top, x[half:]])
        result = inspect(split, rows(32, 64))
        self.assertEqual(result["coverage"]["status"], "complete", result)

    def test_updated_in_place(self):
        def update(x, interpret=False):
            return blocks(x, 8, 2, interpret=interpret, input_output_aliases={0: 0})
        result = inspect(update, rows(32, 64))
        self.assertNotIn("coverage", ids(result))

    def test_large_grid(self):
        def fine(x, interpret=False):
            return pl.pallas_call(build.copy_kernel, grid=(x.shape[0] // 8, x.shape[1] // 128), in_specs=[pl.BlockSpec((8, 128), lambda i, j: (i, j))],
                                  out_specs=pl.BlockSpec((8, 128), lambda i, j: (i, j)), out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)
        result = inspect(fine, {"gate": [spec((32, 256))], "full": [spec((32768, 32768))]})
        self.assertEqual(result["coverage"]["blocks"], 1 << 20)
        self.assertEqual(result["coverage"]["status"], "complete")


class Unknown(unittest.TestCase):
    def label(self, kernel, shapes):
        result = inspect(kernel, shapes)
        note = [f for f in result["findings"] if f["id"] == "coverage-unknown"]
        self.assertEqual([f["outcome"] for f in note], [""], result)
        self.assertEqual(result["coverage"]["status"], "unknown")
        self.assertNotIn("coverage", ids(result))
        return note[0]["detail"]

    def test_data_dependent_map(self):
        def call(order, x, interpret=False):
            grid = pltpu.PrefetchScalarGridSpec(num_scalar_prefetch=1, grid=(x.shape[0] // 8,), in_specs=[pl.BlockSpec((8, 128), lambda i, o: (i, 0))],
                                                out_specs=pl.BlockSpec((8, 128), lambda i, o: (o[i], 0)))
            return pl.pallas_call(lambda o_, x_, y: build.copy_kernel(x_, y), grid_spec=grid, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(order, x)
        self.assertIn("depends on data", self.label(call, {n: [spec((m // 8,), "int32"), spec((m, 128))] for n, m in (("gate", 32), ("full", 64))}))

    def test_output_in_any_memory(self):
        def call(x, interpret=False):
            def kernel(x_, o, sem):
                done = pltpu.make_async_copy(x_, o, sem)
                done.start()
                done.wait()
            return pl.pallas_call(kernel, in_specs=[pl.BlockSpec(memory_space=pl.ANY)], out_specs=pl.BlockSpec(memory_space=pl.ANY),
                                  out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), scratch_shapes=[pltpu.SemaphoreType.DMA], interpret=interpret)(x)
        self.assertIn("output 0", self.label(call, rows(32, 64)))


class ShapeSpecialised(unittest.TestCase):
    def test_complete_at_the_timed_shape_only(self):
        """A grid of fixed length: right at full, too long or too short at the gate shape."""
        for gate in (32, 96):
            result = inspect(lambda x, interpret: blocks(x, 8, 8, interpret=interpret), rows(gate, 64))
            note, = [f for f in result["findings"] if f["id"] in ("shape-specialised", "coverage")]
            self.assertEqual((note["id"], note["outcome"]), ("shape-specialised", "inconclusive"))
            self.assertIn("gate/tpu", note["detail"])

    def test_no_kernel_at_the_gate_shape(self):
        def call(x, interpret=False):
            return blocks(x, 8, interpret=interpret) if x.shape[0] >= 64 else x + 0
        result = inspect(call, rows(32, 64))
        self.assertIn("shape-specialised", ids(result))
        self.assertNotIn("not-pallas", ids(result))

    def test_both_incomplete_is_wrong(self):
        self.assertNotIn("shape-specialised", ids(inspect(lost_tail, rows(32, 64))))


if __name__ == "__main__":
    unittest.main()
