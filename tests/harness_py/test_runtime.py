# SPDX-License-Identifier: Apache-2.0
"""runtime.Program: bytes in, arrays out; no copy where none is needed."""

import mmap
import tempfile
import unittest

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from jaxbench_harness import export, runtime
from tests.harness_py.support import array


def program(fn, *inputs):
    return runtime.Program(export.export_function(fn, export.specs(inputs), "cpu"), list(inputs), None)


class Run(unittest.TestCase):
    def test_dtypes(self):
        rng = np.random.default_rng(0)
        for name, seen in (("float32", "float32"), ("bfloat16", "uint16"), ("float16", "float16"), ("int32", "int32"), ("int8", "int8"),
                           ("uint8", "uint8"), ("bool", "bool"), ("float8_e4m3fn", "uint8"), ("complex64", "complex64")):
            with self.subTest(dtype=name):
                one = program(lambda x: x[::-1], array(4, 8, dtype=name))
                x = (rng.standard_normal((4, 8)) * 3).astype(np.float32).astype(runtime.dtype_of(name))
                out, = one.run([x])
                self.assertEqual((one.dtypes, one.dims, out.dtype.name, out.shape), ([name], [(4, 8)], seen, (4, 8)))
                self.assertEqual(out.tobytes(), np.ascontiguousarray(x[::-1]).tobytes())
                self.assertTrue(out.flags.c_contiguous)
                memoryview(out)  # the C side reads it through the buffer protocol

    def test_scalars_empty_arrays_and_no_inputs(self):
        one = program(lambda x: (jnp.sum(x), x[:0], jnp.arange(3, dtype=jnp.int32)), array(4, 8))
        total, nothing, numbers = one.run([np.ones((4, 8), np.float32)])
        self.assertEqual((total.shape, float(total), nothing.shape, list(numbers)), ((), 32.0, (0, 8), [0, 1, 2]))
        self.assertEqual(float(program(lambda: jnp.float32(7)).run([])[0]), 7.0)

    def test_mapped_read_only_inputs_are_used_in_place(self):
        one = program(lambda a, b: a + b, array(64, 64, dtype="bfloat16"), array(64, 64, dtype="bfloat16"))
        x = np.random.default_rng(0).standard_normal((2, 64, 64)).astype(ml_dtypes.bfloat16)
        with tempfile.TemporaryFile() as file:
            file.write(x.tobytes())
            file.flush()
            mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
        typed = np.frombuffer(mapped, ml_dtypes.bfloat16, 4096).reshape(64, 64)
        raw = np.frombuffer(mapped, np.uint16, 4096, 8192).reshape(64, 64)
        out, = one.run([typed, raw])
        self.assertEqual(out.tobytes(), (x[0] + x[1]).tobytes())
        for buffer, given in zip(one._keep[1], (typed, raw)):
            self.assertEqual(buffer.unsafe_buffer_pointer(), given.ctypes.data)
        self.assertEqual(one._keep[2][0].unsafe_buffer_pointer(), out.ctypes.data)

    def test_unaligned_inputs_are_copied(self):
        one = program(lambda x: x + 1, array(5, 7))
        x = np.frombuffer(np.arange(40, dtype=np.float32).tobytes(), np.float32, 35, 4).reshape(5, 7)
        np.testing.assert_array_equal(one.run([x])[0], x + 1)

    def test_inputs_survive_many_runs(self):
        one = program(lambda x: x * 2, array(128, 128))
        x = np.random.default_rng(0).standard_normal((128, 128)).astype(np.float32)
        before = x.copy()
        for _ in range(3):
            np.testing.assert_array_equal(one.run([x])[0], before * 2)
        np.testing.assert_array_equal(x, before)

    def test_outputs_other_than_asked_for_are_shown_as_they_are(self):
        one = runtime.Program(export.export_function(lambda x: (x, x.astype(jnp.bfloat16)), export.specs([array(8, 8)]), "cpu"), [array(8, 8)],
                              [array(4, 4)])
        self.assertEqual((one.dtypes, one.dims), (["float32", "bfloat16"], [(8, 8), (8, 8)]))

    def test_intermediate_rounding_is_done(self):
        one = program(lambda x: (x * 1.1).astype(jnp.bfloat16).astype(jnp.float32) * 3.3, array(64, 64))
        x = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
        rounded = (x * np.float32(1.1)).astype(ml_dtypes.bfloat16).astype(np.float32) * np.float32(3.3)
        np.testing.assert_array_equal(one.run([x])[0], rounded)

    def test_memory_analysis(self):
        one = program(lambda x: jnp.sort(x @ x.T)[:2], array(512, 512))
        self.assertEqual((one.argument_bytes, one.output_bytes), (1 << 20, 4096))
        self.assertGreaterEqual(one.temp_bytes, 1 << 20)
        self.assertEqual(one.peak_bytes, one.argument_bytes + one.output_bytes + one.temp_bytes)


class Misuse(unittest.TestCase):
    def test_arrays_that_do_not_fit(self):
        one = program(lambda x: x, array(4, 8, dtype="bfloat16"))
        for arrays, words in (([], "0 arrays given, expected 1"), ([np.ones((4, 8), np.float32)], r"input 0 is float32\[4,8\], expected bfloat16\[4,8\]"),
                              ([np.ones((8, 4), ml_dtypes.bfloat16)], r"bfloat16\[8,4\], expected"), ([np.ones(32, np.uint16)], r"bfloat16\[32\], expected")):
            with self.assertRaisesRegex(ValueError, words):
                one.run(arrays)

    def test_a_module_with_other_arguments(self):
        body = export.export_function(lambda x: x, export.specs([array(4, 8)]), "cpu")
        with self.assertRaisesRegex(ValueError, r"arguments are float32\[4,8\], expected float32\[8,8\]"):
            runtime.Program(body, [array(8, 8)], None)
        with self.assertRaisesRegex(ValueError, "expected float32.4,8., float32.4,8."):
            runtime.Program(body, [array(4, 8)] * 2, None)

    def test_bytes_that_are_no_module(self):
        body = export.export_function(lambda x: x, export.specs([array(4, 8)]), "cpu")
        for data in (b"", b"JBF1", body[:100], body[:-20], b"\0" * 4096, b"module { func.func @main() { return } }"):
            with self.assertRaisesRegex(ValueError, "not a StableHLO portable artifact"):
                runtime.Program(data, [array(4, 8)], None)

    def test_a_kernel_for_the_tpu_does_not_compile_here(self):
        from jax.experimental import pallas as pl

        def kernel(x, o):
            o[...] = x[...]

        body = export.export_function(pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct((8, 128), "float32")), export.specs([array(8, 128)]), "tpu")
        with self.assertRaisesRegex(Exception, "tpu_custom_call"):
            runtime.Program(body, [array(8, 128)], None).run([np.ones((8, 128), np.float32)])


class Selftest(unittest.TestCase):
    def test_three_blocks(self):
        self.assertIsNone(runtime.selftest_three_blocks())


if __name__ == "__main__":
    unittest.main()
