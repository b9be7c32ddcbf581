# SPDX-License-Identifier: Apache-2.0
"""Modules that must not go on, and modules that try to hang or break the inspector."""

import base64
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
import unittest

from tests.inspect_py import build
from tests.inspect_py.build import artifact, gemm, gemm_shapes, run

from jax._src.interpreters import mlir
from jax._src.lib import tpu
from jaxlib.mlir import ir

FUZZ = """
import collections, json, os, pickle, random, signal, sys
import jax
from jaxbench_harness import inspector
good, job = pickle.load(open(sys.argv[1], "rb"))
rng, ends = random.Random(7), collections.Counter()
for _ in range(80):
    data = bytearray(good)
    for _ in range(rng.randrange(1, 4)):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        signal.alarm(20)
        try:
            inspector.main(job, {"full/tpu": bytes(data)}, lambda kind, name, body: os.write(write, body))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(write)
    body = os.fdopen(read, "rb").read()
    status = os.waitpid(child, 0)[1]
    if status == 0:
        result = json.loads(body)["inspect"]
        ends["ok" if result["status"] == "ok" else "fail " + result["outcome"]] += 1
    else:
        ends["signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "exit %d" % os.WEXITSTATUS(status)] += 1
print(json.dumps(ends))
"""

TYPE = "tensor<16x128xbf16>"
SHAPE = {"inputs": [{"name": "x", "dtype": "bfloat16", "dims": [16, 128]}], "outputs": [{"dtype": "bfloat16", "dims": [16, 128]}]}


def wrap(body, more="", arg="", result=TYPE):
    return """module @m { func.func public @main(%%x: %s %s) -> %s { %s } %s }""" % (TYPE, arg, result, body, more)


PLAIN = artifact(wrap("return %x : " + TYPE))  # a good module to stand beside

KERNEL = """module attributes {stable_mosaic.version = 11 : i64} {
  func.func @k(%%i: i32, %%x: memref<%(block)sxbf16, #tpu.memory_space<vmem>>, %%o: memref<%(block)sxbf16, #tpu.memory_space<vmem>>)
      attributes {dimension_semantics = [#tpu.dimension_semantics<arbitrary>], iteration_bounds = array<i64: %(grid)d>, scalar_prefetch = 0 : i64,
                  scratch_operands = %(scratch)d : i64, window_params = [
        {transform_indices = @%(map)s, window_bounds = array<i64: 8, 128>}, {transform_indices = @t, window_bounds = array<i64: 8, 128>}]} {
    %%c = arith.constant 0 : index
    %%v = vector.load %%x[%%c, %%c] : memref<%(block)sxbf16, #tpu.memory_space<vmem>>, vector<8x128xbf16>
    %(extra)s
    vector.store %%v, %%o[%%c, %%c] : memref<%(block)sxbf16, #tpu.memory_space<vmem>>, vector<8x128xbf16>
    return
  }
  func.func @t(%%i: i32) -> (i32, i32) {
    %%c = arith.constant 0 : i32
    return %%i, %%c : i32, i32
  }
  %(more)s
}"""


def kernel_body(grid=2, extra="", more="", scratch=0, block="8x128", map_="t"):
    """The bytecode of a copy kernel with parts replaced."""
    context = mlir.make_ir_context()
    tpu.register_dialect(context)
    context.allow_unregistered_dialects = True
    with context:
        text = KERNEL % dict(grid=grid, extra=extra, more=more, scratch=scratch, block=block, map=map_)
        parsed = ir.Module.parse(text.replace("attributes {stable_mosaic.version = 11 : i64} ", ""))
        from jaxlib.mlir.passmanager import PassManager
        PassManager.parse("builtin.module(mosaic-serde{serialize=true})").run(parsed.operation)
        return mlir.module_to_bytecode(parsed)


def call(body=None, config=None, target="tpu_custom_call", attributes=""):
    """A module with one custom call."""
    text = config if config is not None else json.dumps({"custom_call_config": {"body": base64.b64encode(body).decode(), "serialization_format": 1}})
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return wrap('%%0 = stablehlo.custom_call @%s(%%x) {backend_config = "%s", kernel_name = "k"%s} : (%s) -> %s return %%0 : %s'
                % (target, quoted, attributes, TYPE, TYPE, TYPE))


def inspect(text, platform="tpu", shape=SHAPE):
    modules = {"full/" + platform: text if isinstance(text, bytes) else artifact(text)}
    if platform == "cpu":
        modules["full/tpu"] = PLAIN
    return run(build.job({"full": shape}, "full", []), modules)


class Refusals(unittest.TestCase):
    """Rows: MLIR text, platform, what the reason must name, the outcome."""

    CHAIN = "%0 = stablehlo.add %x, %x : " + TYPE + " "
    CASES = {
        "cpu callback": (call(config="", target="xla_ffi_python_cpu_callback"), "cpu", "@xla_ffi_python_cpu_callback is not allowed on cpu: it is a host callback", "trace-error"),
        "tpu callback": (call(config="", target="xla_python_callback"), "tpu", "callback", "trace-error"),
        "ffi target": (call(config="", target="lapack_sgesdd_ffi"), "cpu", "@lapack_sgesdd_ffi", "suspicious"),
        "kernel on the cpu": (call(config="{}"), "cpu", "@tpu_custom_call is not allowed on cpu", "suspicious"),
        "callback in an unused function": (
            wrap("return %x : " + TYPE, "func.func private @f(%y: tensor<f32>) -> tensor<f32> { %0 = stablehlo.custom_call @hidden(%y) : (tensor<f32>) -> tensor<f32> return %0 : tensor<f32> }"),
            "cpu", "@hidden", "suspicious"),
        "callback in a branch": (
            wrap("%c = stablehlo.constant dense<0> : tensor<i32> %0 = \"stablehlo.case\"(%c) ({ %1 = stablehlo.custom_call @hidden(%x) : (" + TYPE + ") -> " + TYPE
                 + " stablehlo.return %1 : " + TYPE + " }) : (tensor<i32>) -> " + TYPE + " return %0 : " + TYPE), "cpu", "@hidden", "suspicious"),
        "placement": (call(config="", target="annotate_device_placement"), "tpu", "annotate_device_placement", "suspicious"),
        "infeed": (wrap('%t = stablehlo.create_token : !stablehlo.token %0:2 = "stablehlo.infeed"(%t) {infeed_config = ""} : (!stablehlo.token) -> (' + TYPE + ', !stablehlo.token) return %0#0 : '
                        + TYPE), "cpu", "not allowed: it ", "suspicious"),
        "outfeed": (wrap('%t = stablehlo.create_token : !stablehlo.token %0 = "stablehlo.outfeed"(%x, %t) {outfeed_config = ""} : (' + TYPE + ', !stablehlo.token) -> !stablehlo.token return %x : '
                         + TYPE), "cpu", "not allowed: it ", "suspicious"),
        "collective": (wrap('%0 = "stablehlo.all_gather"(%x) {all_gather_dim = 0 : i64, replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (' + TYPE + ') -> ' + TYPE
                            + ' return %0 : ' + TYPE), "tpu", "all_gather is not allowed: it is a collective", "suspicious"),
        "device": (wrap('%0 = stablehlo.partition_id : tensor<ui32> %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<ui32>) -> tensor<16x128xui32> '
                        '%2 = stablehlo.convert %1 : (tensor<16x128xui32>) -> ' + TYPE + ' return %2 : ' + TYPE), "tpu", "partition_id", "suspicious"),
        "rng": (wrap('%a = stablehlo.constant dense<0.0> : tensor<f32> %b = stablehlo.constant dense<1.0> : tensor<f32> %s = stablehlo.constant dense<[16]> : tensor<1xi64> '
                     '%0 = stablehlo.rng %a, %b, %s, distribution = UNIFORM : (tensor<f32>, tensor<f32>, tensor<1xi64>) -> tensor<16xf32> return %x : ' + TYPE),
                "cpu", "stablehlo.rng", "suspicious"),
        "donation": (wrap("return %x : " + TYPE, arg="{tf.aliasing_output = 0 : i32}"), "tpu", "tf.aliasing_output", "suspicious"),
        "computed on the host": (wrap('%0 = stablehlo.add %x, %x {mhlo.frontend_attributes = {_xla_compute_type = "host"}} : ' + TYPE + " return %0 : " + TYPE),
                                 "tpu", "_xla_compute_type", "suspicious"),
        "two entries": (wrap("return %x : " + TYPE, "func.func public @other(%y: tensor<f32>) -> tensor<f32> { return %y : tensor<f32> }"), "tpu", "2 public functions", "suspicious"),
        "recursion": (wrap("%0 = func.call @f(%x) : (" + TYPE + ") -> " + TYPE + " return %0 : " + TYPE,
                           "func.func private @f(%y: " + TYPE + ") -> " + TYPE + " { %0 = func.call @f(%y) : (" + TYPE + ") -> " + TYPE + " return %0 : " + TYPE + " }"),
                      "tpu", "calls itself", "suspicious"),
        "composite": (wrap('%0 = stablehlo.composite "evil.op" %x {decomposition = @f} : (' + TYPE + ") -> " + TYPE + " return %0 : " + TYPE,
                           "func.func private @f(%y: " + TYPE + ") -> " + TYPE + " { return %y : " + TYPE + " }"), "tpu", "evil.op", "suspicious"),
        "wrong result": (wrap("%0 = stablehlo.convert %x : (" + TYPE + ") -> tensor<16x128xf32> return %0 : tensor<16x128xf32>", result="tensor<16x128xf32>"),
                         "tpu", "result 0 is tensor<16x128xf32>, the contract says 16x128xbf16", "suspicious"),
        "platform index": ("module @m { func.func public @main(%p: tensor<i32>, %x: " + TYPE + ") -> " + TYPE + " { return %x : " + TYPE + " } }", "tpu",
                           "2 arguments, the contract has 1", "suspicious"),
    }

    def refused(self, result, words, outcome="suspicious"):
        self.assertEqual((result["status"], result["outcome"]), ("fail", outcome), result)
        self.assertIn(words, result["reason"])
        self.assertNotIn("\n", result["reason"])

    def test_modules(self):
        for name, (text, platform, words, outcome) in self.CASES.items():
            with self.subTest(case=name):
                self.refused(inspect(text, platform), words, outcome)

    def test_bytes_that_do_not_parse(self):
        good = artifact(wrap("return %x : " + TYPE))
        self.assertEqual(inspect(good)["status"], "ok")
        for data in (b"", b"ML\xefR", b"\0" * 1000, good[:len(good) // 2], good[:-1], b"module {}", good[:40] + b"\xff" * 60 + good[100:]):
            with self.subTest(size=len(data)):
                self.refused(inspect(data), "module full/tpu does not parse")

    def test_bit_flips_end_one_way_or_the_other(self):
        """Each flipped module is inspected in a process of its own: jaxlib's bindings end the process for some names that
        are no UTF-8, which the worker sees as a crash.  Nothing may hang, and what is said must be whole."""
        with tempfile.NamedTemporaryFile() as file:
            pickle.dump((build.module(gemm, gemm_shapes()["gate"], "tpu"),
                         json.dumps(build.job({"full": build.resolved(gemm, gemm_shapes()["gate"])}, "full", []))), file)
            file.flush()
            done = subprocess.run([sys.executable, "-c", FUZZ, file.name], capture_output=True, text=True, timeout=300,
                                  env=dict(os.environ, PYTHONPATH=os.pathsep.join(sys.path)))
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        ends = json.loads(done.stdout)
        self.assertEqual(sum(ends.values()), 80, ends)
        self.assertEqual(set(ends) - {"ok", "fail suspicious", "fail trace-error", "fail inconclusive", "signal 6", "signal 11"}, set(), ends)
        self.assertGreater(ends.get("fail suspicious", 0), 20, ends)

    def test_names_of_modules(self):
        good = artifact(wrap("return %x : " + TYPE))
        for name in ("full/gpu", "other/tpu", "full", "../full/tpu"):
            with self.subTest(name=name):
                result = run(build.job({"full": SHAPE}, "full", []), {"full/tpu": good, name: good})
                self.assertEqual((result["status"], result["outcome"]), ("fail", "suspicious"))


class Kernels(unittest.TestCase):
    def refused(self, text, words):
        result = inspect(text)
        self.assertEqual((result["status"], result["outcome"]), ("fail", "suspicious"), result)
        self.assertIn(words, result["reason"])

    def test_the_good_one(self):
        result = inspect(call(kernel_body()))
        self.assertEqual((result["status"], result["kernels"], result["coverage"]["blocks"]), ("ok", 1, 2), result)

    def test_configurations(self):
        good = base64.b64encode(kernel_body()).decode()
        for config, words in (
            ("", "no configuration"), ("[]", "can't be read"), ('{"custom_call_config": 1}', "can't be read"), ("[" * 5000, "can't be read"),
            ('{"custom_call_config": {"body": "@@@@"}}', "can't be read"),
            ('{"custom_call_config": {"body": "%s", "body": "%s"}}' % (good, good), "twice"),
            ('{"custom_call_config": {"body": "%s", "secret": 1}}' % good, "unknown key 'secret'"),
            ('{"custom_call_config": {"body": "%s", "has_communication": true}}' % good, "other devices"),
            ('{"custom_call_config": {"body": "%s", "collective_id": 3}}' % good, "collective_id"),
            ('{"custom_call_config": {"body": "%s", "output_memory_space_colors": [{"color": 5}]}}' % good, "host's memory"),
            ('{"custom_call_config": {"body": "%s"}, "device_type": "DEVICE_TYPE_SPARSECORE"}' % good, "device type"),
            ('{"custom_call_config": {"body": "%s"}}' % base64.b64encode(b"junk").decode(), "does not parse"),
            ('{"custom_call_config": {"body": "%s"}}' % base64.b64encode(kernel_body()[:200]).decode(), "does not parse"),
        ):
            with self.subTest(words=words, config=config[:40]):
                self.refused(call(config=config), words)

    def test_bodies(self):
        for changes, words in (
            ({"extra": '"tpu.log"() {tag = "x", formatted = false} : () -> ()'}, "tpu.log is not allowed in a kernel"),
            ({"extra": '"llvm.intr.trap"() : () -> ()'}, "llvm.intr.trap is not allowed"),
            ({"extra": '%d = tpu.device_id : i32'}, "tpu.device_id is not allowed"),
            ({"extra": '"evil.op"() : () -> ()'}, "evil.op is not allowed"),
            ({"more": "func.func @hidden(%i: i32) -> i32 { return %i : i32 }"}, "@hidden, which nothing uses"),
            ({"scratch": 1}, "do not fit"),
            ({"map": "missing"}, "@missing"),
        ):
            changes = {k + "_" if k == "map" else k: v for k, v in changes.items()}
            with self.subTest(words=words):
                self.refused(call(kernel_body(**changes)), words)

    def test_remote_copies_and_host_memory(self):
        sem = "memref<!tpu.%ssemaphore, #tpu.memory_space<semaphore_mem>>"
        signal = ('%one = arith.constant 1 : i32 %m = "tpu.sem_alloc"() : () -> ' + sem % "" + ' "tpu.sem_signal"(%m, %one{0}) '
                  '{{operandSegmentSizes = array<i32: 1, 1, {1}, 0, 0>}} : (' + sem % "" + ", i32{2}) -> ()")
        dma = ('%one = arith.constant 1 : i32 %m = "tpu.sem_alloc"() : () -> ' + sem % "dma_" + ' "tpu.enqueue_dma"(%x, {0}%o, %m{1}) '
               "{{operandSegmentSizes = array<i32: 1, {2}, 1, 1, {3}, 0, 0>}} : (memref<8x128xbf16, #tpu.memory_space<vmem>>, {4}memref<8x128xbf16, #tpu.memory_space<vmem>>, "
               + sem % "dma_" + "{5}) -> ()")
        for good, bad in ((signal.format("", 0, ""), signal.format(", %one", 1, ", i32")),
                          (dma.format("", "", 0, 0, "", ""), dma.format("%m, ", ", %one", 1, 1, sem % "dma_" + ", ", ", i32"))):
            self.assertEqual(inspect(call(kernel_body(extra=good)))["status"], "ok")
            self.refused(call(kernel_body(extra=bad)), "addresses another device")
        self.refused(call(kernel_body(extra="%h = memref.alloca() : memref<8x128xbf16, #tpu.memory_space<host>>")), "host's memory")

    def test_huge_grids_are_bounded_work(self):
        for grid in (2 ** 31, 2 ** 62, 5_000_000):
            with self.subTest(grid=grid):
                start = time.monotonic()
                result = inspect(call(kernel_body(grid=grid)))
                self.assertLess(time.monotonic() - start, 3)
                self.assertEqual(result["coverage"]["status"], "unknown", result)
        result = inspect(call(kernel_body(grid=-5)))
        self.assertEqual(result["coverage"]["status"], "unknown")

    def test_huge_loops_are_bounded_work(self):
        loop = """%z = arith.constant 0 : i32 %n = arith.constant 2000000000 : i32 %s = arith.constant 1 : i32
          scf.for %a = %z to %n step %s : i32 { scf.for %b = %z to %n step %s : i32 { %e = arith.cmpi slt, %b, %a : i32 scf.if %e {
            %q = arith.addf %v, %v : vector<8x128xbf16> vector.store %q, %o[%c, %c] : memref<8x128xbf16, #tpu.memory_space<vmem>>, vector<8x128xbf16> } } }"""
        start = time.monotonic()
        result = inspect(call(kernel_body(extra=loop)))
        self.assertLess(time.monotonic() - start, 3)
        self.assertEqual(result["status"], "ok")
        self.assertGreater(result["flops"]["total"], 1e18)

    def test_nothing_in_a_kernel_can_divide_by_zero(self):
        extra = "%z = arith.constant 0 : i32 %d = arith.divsi %i, %z : i32 %r = arith.remsi %i, %d : i32 %e = arith.cmpi eq, %r, %z : i32 scf.if %e { }"
        self.assertEqual(inspect(call(kernel_body(extra=extra)))["status"], "ok")


class Sizes(unittest.TestCase):
    def test_deep_nesting(self):
        body = "%s = stablehlo.slice %x [0:1, 0:1] : (" + TYPE + ") -> tensor<1x1xbf16> %r = stablehlo.reshape %s : (tensor<1x1xbf16>) -> tensor<bf16> %c = stablehlo.convert %r : (tensor<bf16>) -> tensor<i32> "
        depth = 100
        for level in range(depth):
            body += '%%v%d = "stablehlo.case"(%%c) ({ stablehlo.return %%x : %s }, { ' % (level, TYPE)
        body += "stablehlo.return %x : " + TYPE
        for level in reversed(range(depth)):
            body += " }) : (tensor<i32>) -> " + TYPE + (" stablehlo.return %%v%d : %s" % (level, TYPE) if level else " return %v0 : " + TYPE)
        result = inspect(wrap(body))
        self.assertEqual(result["status"], "fail")
        self.assertIn("nested deeper", result["reason"])

    def test_calls_that_double(self):
        t = TYPE
        more = "".join("func.func private @f%d(%%y: %s) -> %s { %%0 = func.call @f%d(%%y) : (%s) -> %s %%1 = func.call @f%d(%%0) : (%s) -> %s return %%1 : %s } "
                       % (n, t, t, n + 1, t, t, n + 1, t, t, t) for n in range(40))
        more += "func.func private @f40(%y: " + t + ") -> " + t + " { %0 = stablehlo.add %y, %y : " + t + " return %0 : " + t + " }"
        start = time.monotonic()
        result = inspect(wrap("%0 = func.call @f0(%x) : (" + t + ") -> " + t + " return %0 : " + t, more))
        self.assertLess(time.monotonic() - start, 20)
        self.assertEqual(result["status"], "fail")
        self.assertIn("operations once its calls are inlined", result["reason"])

    def test_long_chains_do_not_recurse(self):
        lines = "".join("%%%d = stablehlo.add %%%s, %%x : %s " % (n, n - 1 if n else "x", TYPE) for n in range(20_000))
        result = inspect(wrap(lines + "return %19999 : " + TYPE))
        self.assertEqual(result["status"], "ok")
        scalars = "%s = stablehlo.slice %x [0:1, 0:1] : (" + TYPE + ") -> tensor<1x1xbf16> %r = stablehlo.reshape %s : (tensor<1x1xbf16>) -> tensor<bf16> %i = stablehlo.convert %r : (tensor<bf16>) -> tensor<i32> "
        scalars += "".join("%%%d = stablehlo.add %%%s, %%i : tensor<i32> " % (n, n - 1 if n else "i") for n in range(20_000))
        scalars += '%k = "stablehlo.case"(%19999) ({ stablehlo.return %x : ' + TYPE + ' }, { stablehlo.return %x : ' + TYPE + ' }) : (tensor<i32>) -> ' + TYPE
        self.assertEqual(inspect(wrap(scalars + " return %k : " + TYPE))["status"], "ok")

    def test_while_that_squares_its_carry(self):
        """The loop is followed step by step; its numbers must not grow without bound."""
        body = """%c0 = stablehlo.constant dense<0> : tensor<i32> %c1 = stablehlo.constant dense<1> : tensor<i32> %c3 = stablehlo.constant dense<3> : tensor<i32>
          %n = stablehlo.constant dense<50000> : tensor<i32>
          %r:3 = stablehlo.while(%i = %c0, %s = %c3, %y = %x) : tensor<i32>, tensor<i32>, """ + TYPE + """
          cond { %t = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1> stablehlo.return %t : tensor<i1> }
          do { %j = stablehlo.add %i, %c1 : tensor<i32> %q = stablehlo.multiply %s, %s : tensor<i32> %z = stablehlo.add %y, %y : """ + TYPE + """
               stablehlo.return %j, %q, %z : tensor<i32>, tensor<i32>, """ + TYPE + " } return %r#2 : " + TYPE
        start = time.monotonic()
        result = inspect(wrap(body))
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(result["flops"]["total"], 50000 * (16 * 128 + 1))

    def test_constant_of_every_type(self):
        body = "".join("%%%d = stablehlo.constant dense<%s> : tensor<2x%s> " % (n, v, t) for n, (t, v) in enumerate(
            [("i1", "true"), ("i8", "-1"), ("ui8", "255"), ("i4", "1"), ("i64", "[1, 2]"), ("f16", "[1.0, 2.0]"), ("bf16", "[1.0, 2.0]"), ("f8E4M3FN", "[1.0, 2.0]"),
             ("f64", "[1.0, 2.0]"), ("complex<f32>", "(1.0, 2.0)"), ("f32", "0x7FC00000")]))
        self.assertEqual(inspect(wrap(body + "return %x : " + TYPE))["status"], "ok")


if __name__ == "__main__":
    unittest.main()
