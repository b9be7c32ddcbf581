# SPDX-License-Identifier: Apache-2.0
"""tracer.main: right kernels end as modules for both platforms that compute the right
numbers; wrong candidates end with the right stage, outcome and words."""

import re
import unittest

import numpy as np

from jaxbench_harness import artifact, runtime, tracer
from tests.harness_py import kernels, support
from tests.harness_py.kernels import DOUBLE, HEAD, MATMUL
from tests.harness_py.support import PAIR, SINGLE

ALL = {"small/tpu", "large/tpu", "small/cpu"}


class RightKernels(unittest.TestCase):
    def check(self, name, source, shapes, function):
        stages, modules = support.trace(HEAD + source, shapes)
        self.assertEqual((stages["trace"]["status"], stages["export"]["status"]), ("ok", "ok"), (name, stages))
        self.assertEqual(set(modules), ALL, name)
        for module in modules.values():
            text = str(artifact.load(module))
            self.assertEqual(text.count("@main("), 1, name)
        self.assertNotIn("custom_call", str(artifact.load(modules["small/cpu"])), name)
        for shape in ("small", "large"):
            self.assertIn("@tpu_custom_call", str(artifact.load(modules[shape + "/tpu"])), name)
        small = shapes["small"]
        rng = np.random.default_rng(3)
        arrays = [rng.standard_normal(i["dims"], np.float32) for i in small["inputs"]]
        program = runtime.Program(modules["small/cpu"], small["inputs"], small["outputs"])
        results = program.run(arrays)
        self.assertEqual(len(results), 1, name)
        np.testing.assert_allclose(results[0], function(*arrays), rtol=1e-5, atol=1e-4, err_msg=name)

    def test_two_inputs(self):
        for name, (source, function) in kernels.PAIRS.items():
            with self.subTest(kernel=name):
                self.check(name, source, PAIR, function)

    def test_one_input(self):
        for name, (source, function) in kernels.SINGLES.items():
            with self.subTest(kernel=name):
                self.check(name, source, SINGLE, function)

    def test_several_outputs_in_a_tuple_or_a_list(self):
        shapes = {"small": support.single(16, 128, outputs=2), "large": support.single(32, 128, outputs=2)}
        for expression in ("(y, 2 * y)", "[y, 2 * y]"):
            with self.subTest(returned=expression):
                stages, modules = support.trace(HEAD + DOUBLE + "def workload(x):\n    y = twice(x)\n    return " + expression, shapes)
                self.assertEqual(stages["export"]["status"], "ok", stages)
                x = np.ones((16, 128), np.float32)
                one, two = runtime.Program(modules["small/cpu"], shapes["small"]["inputs"], None).run([x])
                self.assertEqual((one[0, 0], two[0, 0]), (2, 4))

    def test_unused_inputs_stay_arguments(self):
        stages, modules = support.trace(HEAD + "def workload(A, B):\n    return jnp.zeros((A.shape[0], B.shape[1]))", PAIR)
        self.assertEqual(stages["export"]["status"], "ok", stages)
        for name, module in modules.items():
            parsed = artifact.load(module)
            with parsed.context:
                arguments, _ = runtime.signature(parsed)
            wanted = PAIR[name.split("/")[0]]["inputs"]
            self.assertEqual(arguments, [(i["dtype"], tuple(i["dims"])) for i in wanted], name)

    def test_several_check_shapes_and_no_timed_one(self):
        _, modules = support.trace(HEAD + MATMUL + "workload = matmul", PAIR, check=("small", "large"), timed="")
        self.assertEqual(set(modules), ALL | {"large/cpu"})

    def test_a_timed_shape_that_is_checked_too(self):
        _, modules = support.trace(HEAD + MATMUL + "workload = matmul", PAIR, check=("small",), timed="small")
        self.assertEqual(set(modules), {"small/tpu", "small/cpu"})

    def test_last_stage_trace_exports_nothing(self):
        stages, modules = support.trace(HEAD + MATMUL + "workload = matmul", PAIR, last_stage="trace")
        self.assertEqual((stages["trace"]["status"], stages["export"]["status"], modules), ("ok", "skipped", {}))

    def test_same_source_gives_same_bytes(self):
        source = HEAD + MATMUL + "workload = matmul"
        first, second = support.trace(source, PAIR)[1], support.trace(source, PAIR)[1]
        self.assertEqual(set(first), set(second))
        self.assertEqual([n for n in first if first[n] != second[n]], [])

    def test_modules_name_the_candidate_and_no_path_of_the_machine(self):
        for name, module in support.trace(HEAD + MATMUL + "workload = matmul", PAIR)[1].items():
            self.assertIn(b"candidate.py", module, name)
            self.assertNotIn(b"/jaxbench_harness", module, name)
            self.assertNotIn(b"test_tracer.py", module, name)


IMPORT = HEAD + MATMUL

# (name, source, outcome, words of the reason, words of the error)
TRACE_FAILURES = [
    ("not utf-8", b"x = 1\ny = '\xff'\n", "syntax", "line 2.*UTF-8.*0xff", ""),
    ("nul", b"x = 1\n\0\n", "syntax", "line 2.*NUL", ""),
    ("cut off", "import jax\ndef workload(A, B):\n    return jax.jit(\n", "syntax", "line 3.*never closed", "return jax.jit"),
    ("indentation", "def workload(A, B):\nreturn A\n", "syntax", "line 2: IndentationError", "return A"),
    ("too deep", "x = " + "(" * 500 + ")" * 500, "syntax", "nested|parsed", ""),
    ("empty", "", "contract", "no function `workload`", ""),
    ("no entry", "def kernel(A, B): pass", "contract", "no function `workload`", ""),
    ("entry is a number", "workload = 3", "contract", "`workload` is a int, expected a function", ""),
    ("import error", "import torch_that_nobody_has", "trace-error", "on import: ModuleNotFoundError.*torch_that", 'line 1, in <module>'),
    ("exit", "import sys\nsys.exit(0)", "trace-error", "on import: SystemExit: 0", "line 2"),
    ("exit in the trace", "import sys\ndef workload(A, B): sys.exit(3)", "trace-error", "SystemExit: 3", "in workload"),
    ("out of memory", "raise MemoryError", "trace-error", "out of memory", ""),
    ("raises", IMPORT + "def workload(A, B):\n    return undefined_name", "trace-error", "at shape large: NameError: .*undefined_name",
     'File "candidate.py", line .*, in workload\n    return undefined_name'),
    ("raises an exception that can't be shown", "class E(Exception):\n    def __str__(self): 1 / 0\nraise E", "trace-error", "can't be shown", ""),
    ("takes another number of arrays", "def workload(A): return A", "trace-error", "TypeError.*positional argument", ""),
    ("branches on a value", "def workload(A, B):\n    return A if A[0, 0] > 0 else B", "trace-error", "TracerBoolConversionError", "return A if"),
    ("pure_callback", HEAD + "def workload(A, B):\n    return jax.pure_callback(lambda a, b: a @ b, jax.ShapeDtypeStruct((A.shape[0], B.shape[1]), A.dtype), A, B)",
     "trace-error", r"calls back to the host \(pure_callback\)", ""),
    ("io_callback in a scan", HEAD + "from jax.experimental import io_callback\ndef workload(A, B):\n"
     "    f = lambda c, _: (io_callback(lambda x: x, c, c), None)\n    return lax.scan(f, A @ B, None, length=2)[0]", "trace-error", r"io_callback", ""),
    ("debug.print", HEAD + "def workload(A, B):\n    jax.debug.print('{}', A[0, 0])\n    return A @ B", "trace-error", "callback", ""),
    ("debug.print in a kernel", HEAD + "def _k(a, o):\n    pl.debug_print('hello')\n    o[...] = a[...]\ndef workload(A, B):\n"
     "    return pl.pallas_call(_k, out_shape=jax.ShapeDtypeStruct(A.shape, A.dtype))(A) @ B", "trace-error", "callback", ""),
    ("ffi", HEAD + "def workload(A, B):\n    return jax.ffi.ffi_call('x', jax.ShapeDtypeStruct((A.shape[0], B.shape[1]), A.dtype))(A, B)",
     "trace-error", "ffi_call", ""),
    ("wrong dtype", IMPORT + "def workload(A, B): return matmul(A, B).astype(jnp.bfloat16)", "contract",
     r"output 0 is bfloat16\[64,256\], expected float32\[64,256\]", ""),
    ("wrong shape", IMPORT + "def workload(A, B): return matmul(A, B)[:, :-1]", "contract",
     r"output 0 is float32\[64,255\], expected float32\[64,256\]", ""),
    ("wrong rank", IMPORT + "def workload(A, B): return matmul(A, B)[None]", "contract", r"float32\[1,64,256\]", ""),
    ("a dict", IMPORT + "def workload(A, B): return {'out': matmul(A, B)}", "contract", "output 0 is a dict, expected an array", ""),
    ("a tuple of one", IMPORT + "def workload(A, B): return (matmul(A, B),)", "contract", "a tuple of 1, expected one array", ""),
    ("nothing", IMPORT + "def workload(A, B): matmul(A, B)", "contract", "returned None, expected one array", ""),
    ("a string", "def workload(A, B): return 'PASS'", "contract", "output 0 is a str, expected an array", ""),
    ("a lazy object", "class L:\n    shape, dtype = (16, 128), 'float32'\n    def __array__(self, dtype=None): raise SystemExit\ndef workload(A, B): return L()",
     "contract", "output 0 is a L, expected an array", ""),
    ("a description of an array", HEAD + "def workload(A, B): return jax.ShapeDtypeStruct((16, 128), A.dtype)", "contract", "ShapeDtypeStruct", ""),
    ("a full shape that is hard-coded", HEAD + "def workload(A, B): return jnp.zeros((64, 256), A.dtype)", "inconclusive",
     r"shape-specialised: traces at shape large but not at shape small: output 0 is float32\[64,256\]", ""),
    ("raises at the check shape only", IMPORT + "def workload(A, B):\n    assert A.shape[0] == 64, 'only for 64'\n    return matmul(A, B)", "inconclusive",
     "shape-specialised: traces at shape large but not at shape small: AssertionError: only for 64", "assert A.shape"),
    ("raises at the timed shape only", IMPORT + "def workload(A, B):\n    assert A.shape[0] == 16, 'only for 16'\n    return matmul(A, B)", "trace-error",
     "at shape large: AssertionError: only for 16", ""),
]


class TraceFailures(unittest.TestCase):
    def test_table(self):
        for name, source, outcome, reason, error in TRACE_FAILURES:
            with self.subTest(candidate=name):
                stages, modules = support.trace(source, PAIR)
                trace = stages["trace"]
                self.assertEqual((trace["status"], trace.get("outcome")), ("fail", outcome), trace)
                self.assertRegex(trace["reason"], reason)
                self.assertNotIn("\n", trace["reason"])
                self.assertLessEqual(len(trace["reason"]), 300)
                self.assertRegex(trace.get("error", ""), re.compile(error))
                self.assertEqual(stages["export"]["status"], "skipped")
                self.assertTrue(stages["export"]["reason"])
                self.assertEqual(modules, {})

    def test_errors_hold_no_machine_paths(self):
        for name, source, _, _, _ in TRACE_FAILURES:
            with self.subTest(candidate=name):
                text = str(support.trace(source, PAIR)[0])
                self.assertNotIn("site-packages", text)
                self.assertNotIn("tracer.py", text)

    def test_number_of_outputs(self):
        shapes = {"small": support.single(16, 128, outputs=2)}
        for source, words in (("def workload(x): return x", "expected a tuple of 2 arrays"),
                              ("def workload(x): return x, x, x", "a tuple of 3, expected a tuple of 2 arrays"),
                              ("def workload(x): return (x, (x,))", "output 1 is a tuple, expected an array")):
            stage = support.trace(source, shapes, timed="")[0]["trace"]
            self.assertEqual(stage["outcome"], "contract", stage)
            self.assertIn(words, stage["reason"])


BLOCK = HEAD + """
def _k(x, o):
    o[...] = x[...]


def workload(x):
    block = pl.BlockSpec((%s, 128), lambda i: (i, 0))
    return pl.pallas_call(_k, grid=(x.shape[0] // (%s),), in_specs=[block], out_specs=block,
                          out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
"""


class ExportFailures(unittest.TestCase):
    SHAPES = {"small": support.single(32, 128), "large": support.single(256, 128)}

    def test_a_block_that_the_tpu_refuses(self):
        stages, modules = support.trace(BLOCK % ("4", "4"), self.SHAPES)
        export = stages["export"]
        self.assertEqual((stages["trace"]["status"], export["status"], export["outcome"]), ("ok", "fail", "compile-error"), stages)
        self.assertRegex(export["reason"], "at shape large: ValueError: The Pallas TPU lowering currently requires")
        self.assertRegex(export["error"], "(?s)in workload.*divisible by 8 and 128.*block shape")
        self.assertEqual(modules, {})

    def test_an_operation_that_mosaic_has_not(self):
        source = HEAD + "def _k(x, o):\n    o[...] = lax.lgamma(x[...])\ndef workload(x):\n" \
                        "    return pl.pallas_call(_k, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)"
        export = support.trace(source, self.SHAPES)[0]["export"]
        self.assertEqual(export["outcome"], "compile-error", export)
        self.assertRegex(export["reason"], "Unimplemented primitive.*lgamma")
        self.assertRegex(export["error"], "(?s)candidate.py.*in _k\n.*lax.lgamma")

    def test_a_block_refused_at_the_check_shape_only_is_left_to_the_worker(self):
        rows = "x.shape[0] // 8"
        stages, modules = support.trace(BLOCK % (rows, rows), self.SHAPES)
        self.assertEqual(stages["export"]["status"], "ok", stages)
        self.assertRegex(stages["export"]["reason"], "shape-specialised: lowers for the TPU at shape large but not at shape small")
        self.assertEqual(set(modules), {"large/tpu", "small/cpu"})

    def test_a_kernel_that_interpret_mode_refuses(self):
        source = HEAD + "def _k(x, o):\n    pltpu.prng_seed(0)\n    o[...] = x[...] + pltpu.prng_random_bits(x.shape).astype(jnp.float32)\n" \
                        "def workload(x):\n    return pl.pallas_call(_k, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)"
        export = support.trace(source, self.SHAPES)[0]["export"]
        self.assertEqual((export["status"], export["outcome"]), ("fail", "trace-error"), export)
        self.assertRegex(export["reason"], "at shape small: interpret mode can't run it: .*prng")

    def test_a_module_that_is_too_large(self):
        limit, tracer.MODULE_MAX = tracer.MODULE_MAX, 2000
        try:
            export = support.trace(HEAD + MATMUL + "workload = matmul", PAIR)[0]["export"]
        finally:
            tracer.MODULE_MAX = limit
        self.assertEqual(export["outcome"], "trace-error", export)
        self.assertIn("large constants", export["reason"])


class Flags(unittest.TestCase):
    def test_environment_that_the_candidate_asks_for(self):
        source = HEAD + DOUBLE + "import os\nos.environ.get('SOME_API_KEY')\nos.getenv('ANOTHER')\n'THIRD' in os.environ\n" \
                                 "try:\n    os.environ['FOURTH']\nexcept KeyError:\n    pass\nworkload = twice"
        stages, _ = support.trace(source, SINGLE)
        self.assertEqual(stages["trace"]["flags"], ["denied: environment variable %s" % n for n in ("ANOTHER", "FOURTH", "SOME_API_KEY", "THIRD")])

    def test_listing_it_is_noted_and_what_jax_reads_is_not(self):
        self.assertEqual(support.trace(HEAD + DOUBLE + "import os\nALL = dict(os.environ)\nworkload = twice", SINGLE)[0]["trace"]["flags"][0],
                         "denied: environment variable (all)")
        self.assertEqual(support.trace(HEAD + DOUBLE + "workload = twice", SINGLE)[0]["trace"]["flags"], [])

    def test_flags_are_capped(self):
        source = "import os\nfor i in range(100):\n    os.getenv('KEY%d' % i * 50)\n"
        flags = support.trace(source, SINGLE)[0]["trace"]["flags"]
        self.assertEqual(len(flags), tracer.FLAGS_MAX)
        self.assertLess(max(map(len, flags)), 100)


if __name__ == "__main__":
    unittest.main()
