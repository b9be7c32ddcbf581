# SPDX-License-Identifier: Apache-2.0
"""interpret and export: which equations are set, and which custom calls plain jnp
lowers to (the list that export.py gives)."""

import re
import subprocess
import sys
import unittest

import jax
import jax.numpy as jnp
from jax._src import core
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from jaxbench_harness import artifact, export, interpret

SPEC = jax.ShapeDtypeStruct((16, 16), jnp.float32)


def twice(x, interpret=False):
    def kernel(a, o):
        o[...] = a[...] * 2
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), interpret=interpret)(x)


def settings(jaxpr):
    """`interpret` of every pallas_call in a jaxpr."""
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == "pallas_call":
            yield eqn.params["interpret"]
        else:
            for inner in core.jaxprs_in_params(eqn.params):
                yield from settings(inner)


class Interpret(unittest.TestCase):
    WITH = {
        "plain": lambda x: twice(x),
        "jit": jax.jit(lambda x: twice(x)),
        "scan": lambda x: jax.lax.scan(lambda c, _: (twice(c), None), x, None, length=3)[0],
        "while": lambda x: jax.lax.while_loop(lambda v: v[0, 0] < 9, lambda v: twice(v), x),
        "cond": lambda x: jax.lax.cond(x[0, 0] > 0, twice, lambda v: v, x),
        "vmap": lambda x: jax.vmap(twice)(x[None])[0],
        "remat": jax.checkpoint(lambda x: twice(x)),
        "params": lambda x: twice(x, interpret=pltpu.InterpretParams()),
        "params in a scan": lambda x: jax.lax.scan(lambda c, _: (twice(c, interpret=pltpu.InterpretParams()), None), x, None, length=3)[0],
        "true": lambda x: twice(x, interpret=True),
    }

    def test_set_everywhere_and_the_original_left_alone(self):
        for name, fn in self.WITH.items():
            with self.subTest(fn=name):
                closed = export.trace(lambda x: fn(x), [SPEC])
                before = list(settings(closed.jaxpr))
                self.assertEqual(len(before), 1)
                for value in (True, False):
                    new = interpret.set_interpret(closed, value)
                    self.assertEqual(list(settings(new.jaxpr)), [value])
                    self.assertEqual(new.jaxpr.effects, set())
                self.assertEqual(list(settings(closed.jaxpr)), before)

    def test_a_graph_without_kernels_is_unchanged(self):
        closed = export.trace(lambda x: jax.lax.scan(lambda c, _: (c + 1, None), x, None, length=3)[0], [SPEC])
        self.assertIs(interpret.set_interpret(closed, True).jaxpr, closed.jaxpr)
        self.assertEqual(interpret.host_calls(closed), [])

    def test_host_calls_are_found_where_they_are(self):
        def call(x):
            return jax.pure_callback(lambda v: v, SPEC, x)

        def kernel(a, o):
            jax.debug.print("x")
            o[...] = a[...]

        for fn, wanted in ((call, "pure_callback"), (jax.jit(call), "pure_callback"),
                           (lambda x: jax.lax.cond(x[0, 0] > 0, call, lambda v: v, x), "pure_callback"),
                           (lambda x: (jax.debug.callback(lambda v: None, x), x)[1], "debug callback"),
                           (lambda x: pl.pallas_call(kernel, out_shape=SPEC)(x), "debug.print callback")):
            self.assertEqual(interpret.host_calls(export.trace(lambda x, fn=fn: fn(x), [SPEC])), [wanted])


# operation -> (custom calls and composites on the CPU, on the TPU); what is not named here has none.
CALLS = {
    "lax.top_k(x, 4)": ("composite", "composite"),
    "lax.approx_max_k(x, 4)": ("ApproxTopK", "ApproxTopK"),
    "jnp.arcsin(x)": ("composite", "composite"),
    "jnp.linalg.cholesky(x)": ("lapack_spotrf_ffi", ""),
    "jnp.linalg.qr(x)": ("lapack_sgeqrf_ffi lapack_sorgqr_ffi", "ProductOfElementaryHouseholderReflectors Qr"),
    "jnp.linalg.eigh(x)": ("lapack_ssyevd_ffi", "Eigh"),
    "jnp.linalg.solve(x, x)": ("lapack_sgetrf_ffi lapack_strsm_ffi", "LuDecomposition"),
    "lax.ragged_dot(x, jnp.stack([x, x]), jnp.array([4, 12], jnp.int32))": ("", "composite"),
}
NONE = ["jnp.sort(x)", "jnp.argsort(x)", "jnp.cumsum(x, 0)", "jax.nn.softmax(x)", "jax.nn.gelu(x, approximate=False)", "lax.erf_inv(x)",
        "lax.lgamma(x)", "jnp.einsum('ij,kj->ik', x, x)", "lax.conv(x[None, None], x[None, None, :3, :3], (1, 1), 'SAME')",
        "lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), 'VALID')", "x[jnp.argmax(x, 0)]", "x.at[jnp.argmax(x, 0)].add(1.0)",
        "x + jax.random.normal(jax.random.key(0), x.shape)", "jnp.abs(jnp.fft.fft(x))", "lax.associative_scan(jnp.add, x)",
        "lax.scan(lambda c, a: (c + a, c), x[0], x)[1]", "x.astype(jnp.float8_e4m3fn).astype(jnp.float32)", "lax.optimization_barrier(x)",
        "jax.nn.dot_product_attention(x[None, :, None], x[None, :, None], x[None, :, None])", "jnp.dot(x, x, precision='highest')"]


class CustomCalls(unittest.TestCase):
    def test_list_is_true(self):
        rows = dict(CALLS, **{expression: ("", "") for expression in NONE})
        for expression, wanted in rows.items():
            fn = eval("lambda x: " + expression, {"jax": jax, "jnp": jnp, "lax": jax.lax})
            for platform, names in zip(("cpu", "tpu"), wanted):
                text = str(artifact.load(export.export_function(fn, [SPEC], platform)))
                seen = sorted(set(re.findall(r"custom_call @([\w$.]+)", text) + re.findall(r"stablehlo\.(composite)", text)))
                self.assertEqual(" ".join(seen), names, (expression, platform))


class Import(unittest.TestCase):
    def test_importing_the_package_starts_no_backend_and_no_thread(self):
        code = ("import os\n"
                "for m in ('tracer', 'compiler', 'runtime'): __import__('jaxbench_harness.' + m)\n"
                "from jax._src import xla_bridge\n"
                "print(xla_bridge.backends_are_initialized(), len(os.listdir('/proc/self/task')))")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.stdout.split(), ["False", "1"], done.stderr)


if __name__ == "__main__":
    unittest.main()
