# SPDX-License-Identifier: Apache-2.0
"""simplify: write-backs go, everything that could change a number stays."""

import unittest

import jax
import numpy as np

from jaxbench_harness import artifact, runtime, simplify
from tests.harness_py import kernels, support
from tests.harness_py.kernels import HEAD


def parse(text):
    from jax._src.interpreters import mlir
    from jaxlib.mlir import ir
    with mlir.make_ir_context():
        return ir.Module.parse(text)


LOOP = """
func.func public @main(%%x: tensor<8x16xbf16>, %%n: tensor<i32>) -> (tensor<8x16xbf16>, tensor<8x16xbf16>) {
  %%zero = stablehlo.constant dense<0> : tensor<i32>
  %%one = stablehlo.constant dense<1> : tensor<i32>
  %%p = stablehlo.compare LT, %%n, %%one : (tensor<i32>, tensor<i32>) -> tensor<i1>
  %%r:3 = stablehlo.while(%%i = %%zero, %%a = %%x, %%b = %%x) : tensor<i32>, tensor<8x16xbf16>, tensor<8x16xbf16>
  cond {
    %%c = stablehlo.compare LT, %%i, %%n : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %%c : tensor<i1>
  } do {
    %%next = stablehlo.add %%i, %%one : tensor<i32>
    %%s = stablehlo.dynamic_slice %%a, %%i, %%zero, sizes = [2, 16] : (tensor<8x16xbf16>, tensor<i32>, tensor<i32>) -> tensor<2x16xbf16>
    %s
    stablehlo.return %%next, %%u, %%b : tensor<i32>, tensor<8x16xbf16>, tensor<8x16xbf16>
  }
  return %%r#1, %%r#2 : tensor<8x16xbf16>, tensor<8x16xbf16>
}
"""

UPDATE = " : (tensor<8x16xbf16>, tensor<2x16xbf16>, tensor<i32>, tensor<i32>) -> tensor<8x16xbf16>"

# (what is between slice and update, removed?)
BODIES = [
    ("%u = stablehlo.dynamic_update_slice %a, %s, %i, %zero" + UPDATE, True),
    ("%t = stablehlo.reshape %s : (tensor<2x16xbf16>) -> tensor<32xbf16>\n%v = stablehlo.reshape %t : (tensor<32xbf16>) -> tensor<2x16xbf16>\n"
     "%u = stablehlo.dynamic_update_slice %a, %v, %i, %zero" + UPDATE, True),
    ("%v = \"stablehlo.case\"(%zero) ({ stablehlo.return %s : tensor<2x16xbf16> }, { stablehlo.return %s : tensor<2x16xbf16> })"
     " : (tensor<i32>) -> tensor<2x16xbf16>\n%u = stablehlo.dynamic_update_slice %a, %v, %i, %zero" + UPDATE, True),
    # another place, another array, another value, another order of the numbers
    ("%u = stablehlo.dynamic_update_slice %a, %s, %next, %zero" + UPDATE, False),
    ("%u = stablehlo.dynamic_update_slice %a, %s, %zero, %i" + UPDATE, False),
    ("%u = stablehlo.dynamic_update_slice %b, %s, %i, %zero" + UPDATE, False),
    ("%v = stablehlo.negate %s : tensor<2x16xbf16>\n%u = stablehlo.dynamic_update_slice %a, %v, %i, %zero" + UPDATE, False),
    ("%t = stablehlo.transpose %s, dims = [1, 0] : (tensor<2x16xbf16>) -> tensor<16x2xbf16>\n"
     "%v = stablehlo.reshape %t : (tensor<16x2xbf16>) -> tensor<2x16xbf16>\n%u = stablehlo.dynamic_update_slice %a, %v, %i, %zero" + UPDATE, False),
    ("%m = stablehlo.negate %s : tensor<2x16xbf16>\n%v = \"stablehlo.case\"(%zero) ({ stablehlo.return %s : tensor<2x16xbf16> }, "
     "{ stablehlo.return %m : tensor<2x16xbf16> }) : (tensor<i32>) -> tensor<2x16xbf16>\n"
     "%u = stablehlo.dynamic_update_slice %a, %v, %i, %zero" + UPDATE, False),
    ("%v = \"stablehlo.case\"(%zero) ({ %m = stablehlo.negate %s : tensor<2x16xbf16> stablehlo.return %m : tensor<2x16xbf16> }) "
     ": (tensor<i32>) -> tensor<2x16xbf16>\n%u = stablehlo.dynamic_update_slice %a, %v, %i, %zero" + UPDATE, False),
    ("%w:2 = stablehlo.while(%j = %zero, %q = %s) : tensor<i32>, tensor<2x16xbf16> cond { %d = stablehlo.compare LT, %j, %one : (tensor<i32>, "
     "tensor<i32>) -> tensor<i1> stablehlo.return %d : tensor<i1> } do { %k = stablehlo.add %j, %one : tensor<i32> stablehlo.return %k, %q "
     ": tensor<i32>, tensor<2x16xbf16> }\n%u = stablehlo.dynamic_update_slice %a, %w#1, %i, %zero" + UPDATE, True),
    ("%w:2 = stablehlo.while(%j = %zero, %q = %s) : tensor<i32>, tensor<2x16xbf16> cond { %d = stablehlo.compare LT, %j, %one : (tensor<i32>, "
     "tensor<i32>) -> tensor<i1> stablehlo.return %d : tensor<i1> } do { %k = stablehlo.add %j, %one : tensor<i32> %z = stablehlo.negate %q : "
     "tensor<2x16xbf16> stablehlo.return %k, %z : tensor<i32>, tensor<2x16xbf16> }\n%u = stablehlo.dynamic_update_slice %a, %w#1, %i, %zero" + UPDATE, False),
]


class Rules(unittest.TestCase):
    def test_bodies(self):
        for number, (body, removed) in enumerate(BODIES):
            with self.subTest(body=number):
                module = parse(LOOP % body)
                self.assertEqual(simplify.write_backs(module), int(removed))
                self.assertTrue(module.operation.verify())
                self.assertEqual("dynamic_update_slice" in str(module), not removed)

    def test_long_chains_end(self):
        chain, last = [], "%s"
        for n in range(400):
            chain.append("%%t%d = stablehlo.reshape %s : (tensor<2x16xbf16>) -> tensor<2x16xbf16>" % (n, last))
            last = "%%t%d" % n
        chain.append("%%u = stablehlo.dynamic_update_slice %%a, %s, %%i, %%zero" % last + UPDATE)
        self.assertEqual(simplify.write_backs(parse(LOOP % "\n".join(chain))), 0)


class Kernels(unittest.TestCase):
    """Interpreted kernels give the same bits, and inputs are no longer written back."""

    # kernel -> write-backs that go: one for each input that is blocked and only read
    EXPECTED = {"scratch": 2, "scalar prefetch": 2, "manual dma": None, "fori_loop": 2, "reads under when": 2,
                "squeezed block": 1, "alias": None, "a kernel that writes its input": 0, "blocks that do not divide": 1}

    def test_same_bits(self):
        for table, shapes in ((kernels.PAIRS, support.PAIR), (kernels.SINGLES, support.SINGLE)):
            for name in self.EXPECTED.keys() & table.keys():
                with self.subTest(kernel=name):
                    _, modules = support.trace(HEAD + table[name][0], shapes, check=("large",))
                    module, inputs = modules["large/cpu"], shapes["large"]["inputs"]
                    removed = simplify.write_backs(artifact.load(module))
                    if self.EXPECTED[name] is not None:
                        self.assertEqual(removed, self.EXPECTED[name])
                    arrays = [np.random.default_rng(1).standard_normal(i["dims"], np.float32) for i in inputs]
                    ours = runtime.Program(module, inputs, None).run(arrays)
                    original, simplify.write_backs = simplify.write_backs, lambda parsed: 0
                    try:
                        plain = runtime.Program(module, inputs, None).run(arrays)
                    finally:
                        simplify.write_backs = original
                    for a, b in zip(ours, plain):
                        self.assertEqual(a.tobytes(), b.tobytes())


if __name__ == "__main__":
    unittest.main()
