# SPDX-License-Identifier: Apache-2.0
"""compiler.main: the real v6e compiler, on small kernels and on ones that it refuses."""

import importlib.util
import time
import unittest
from unittest import mock

from jaxbench_harness import compiler, mosaic_stub
from tests.harness_py import support
from tests.harness_py.kernels import HEAD, MATMUL
from tests.harness_py.support import PAIR

HAVE_LIBTPU = importlib.util.find_spec("libtpu") is not None

COPY = HEAD + """
def _k(x, o):
    o[...] = x[...] + 1


def workload(x):
    block = pl.BlockSpec((ROWS, x.shape[1]), lambda i: (i, 0))
    return pl.pallas_call(_k, grid=(x.shape[0] // ROWS,), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""


def tpu_module(source, shapes, shape="large"):
    stages, modules = support.trace(source, shapes)
    assert stages["export"]["status"] == "ok", stages
    return modules[shape + "/tpu"]


class Words(unittest.TestCase):
    ROWS = [
        ("Ran out of memory in memory space vmem. Used 387.84M of 127.94M vmem. Exceeded", int(387.84 * 2**20)),
        ("Scoped allocation with size 96.50M and limit 32.00M exceeded scoped vmem limit by 64.50M.", int(96.5 * 2**20)),
        ("Allocation (size=268435456) would exceed memory (size=134217728) :: #allocation3 [shape = 'u8[268435456]{0}', space=vmem, size = 1]", 1 << 28),
        ("Allocation (size=268435456) would exceed memory (size=134217728) :: #allocation3 [shape = 'u8[268435456]{0}', space=smem, size = 1]", None),
        ("Used 1.5G of 31.25G hbm.", None),
        ("Mosaic failed to compile TPU kernel: Not implemented", None),
    ]

    def test_vmem_used(self):
        for text, wanted in self.ROWS:
            self.assertEqual(compiler.vmem_used(text), wanted, text)

    def test_reasons_without_status_words(self):
        for text, wanted in (("JaxRuntimeError: INTERNAL: Mosaic failed to compile", "Mosaic failed to compile"),
                             ("XlaRuntimeError: RESOURCE_EXHAUSTED: too much", "too much"), ("ValueError: x", "ValueError: x")):
            self.assertEqual(compiler._status_off(text), wanted)

    def test_without_libtpu(self):
        with mock.patch("importlib.util.find_spec", return_value=None):
            stage = support.compiled(b"")
        self.assertEqual((stage["status"], stage["reason"]), ("skipped", "libtpu is not installed"))

    def test_with_a_libtpu_that_does_not_answer(self):
        with mock.patch("importlib.util.find_spec", return_value=object()), \
                mock.patch("jax.experimental.topologies.get_topology_desc", side_effect=RuntimeError("lock file")):
            stage = support.compiled(b"")
        self.assertEqual((stage["status"], stage["outcome"]), ("infra", "infra"))
        self.assertIn("lock file", stage["reason"])


@unittest.skipUnless(HAVE_LIBTPU, "libtpu is not installed")
class Compile(unittest.TestCase):
    def test_a_right_kernel(self):
        stage = support.compiled(tpu_module(HEAD + MATMUL + "workload = matmul", PAIR))
        self.assertEqual((stage["status"], stage["target"]), ("ok", "TPU v6 lite"), stage)
        arrays = 4 * (64 * 512 + 512 * 256 + 64 * 256)
        self.assertGreaterEqual(stage["hbm_bytes"], arrays)
        self.assertGreater(stage["code_bytes"], 0)
        self.assertGreaterEqual(stage["vmem_bytes"], 4 * 8 * 128)  # the accumulator at least
        self.assertGreater(stage["seconds"], 0)

    def test_blocks_that_do_not_fit_are_refused_soon_and_in_the_compilers_words(self):
        shapes = {"small": support.single(4096, 128), "large": support.single(8192, 8192)}
        module = tpu_module(COPY.replace("ROWS", "4096"), shapes)
        start = time.monotonic()
        stage = support.compiled(module)
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual((stage["status"], stage["outcome"]), ("fail", "compile-error"), stage)
        self.assertRegex(stage["reason"], "^Allocation .* would exceed memory .*space=vmem|^XLA:TPU .* Used .* of .* vmem")
        self.assertIn("window allocation", stage["error"])
        self.assertIn("the kernel's own work was not compiled", stage["error"])
        self.assertLessEqual(len(stage["error"].encode()), 4096)
        self.assertGreaterEqual(stage["vmem_bytes"], 256 << 20)

    def test_what_mosaic_refuses(self):
        source = HEAD + "def _k(x, o):\n    o[...] = x[...].reshape(o.shape)\ndef workload(x):\n" \
                        "    return pl.pallas_call(_k, out_shape=jax.ShapeDtypeStruct((x.shape[0] * 3, x.shape[1] // 3), x.dtype))(x)"
        one = {"config": {}, "inputs": [support.array(7, 129)], "outputs": [support.array(21, 43)]}
        stage = support.compiled(tpu_module(source, {"small": one, "large": one}))
        self.assertEqual((stage["status"], stage["outcome"]), ("fail", "compile-error"), stage)
        self.assertRegex(stage["error"], "(?i)mosaic")
        self.assertRegex(stage["error"], "candidate.py")
        self.assertNotIn("googleapis", stage["error"])

    def test_garbage(self):
        for data in (b"", b"module {}", b"ML\xefR nothing"):
            stage = support.compiled(data)
            self.assertEqual((stage["status"], stage["outcome"]), ("fail", "compile-error"))
            self.assertIn("portable artifact", stage["reason"])


class Stub(unittest.TestCase):
    def test_keeps_the_interface_and_drops_the_work(self):
        module = tpu_module(HEAD + MATMUL + "workload = matmul", PAIR)
        stub = str(mosaic_stub.windows_only(module))
        self.assertEqual(stub.count("@tpu_custom_call"), 1)
        self.assertIn("tensor<64x512xf32>", stub)
        self.assertLess(len(stub), len(str(compiler.artifact.load(module))))

    def test_nothing_to_empty(self):
        self.assertIsNone(mosaic_stub.windows_only(tpu_module(HEAD + "def workload(A, B): return A @ B", PAIR)))


if __name__ == "__main__":
    unittest.main()
