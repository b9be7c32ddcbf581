# SPDX-License-Identifier: Apache-2.0
"""The suite's own kernels, and those of the end-to-end tests, as the worker will see them."""

import json
import os
import pathlib
import unittest

import jax.numpy as jnp

from jaxbench_harness import tracer

from tests.inspect_py import build
from tests.inspect_py.build import spec

ROOT = pathlib.Path(__file__).resolve().parents[2]


def inspect(path, full, gates, output, flops):
    """Traces and exports a kernel file with the harness's tracer, then inspects what it exports.  `output` maps the inputs
    to the spec of the one output."""
    shapes = {}
    for name, inputs in {"full": full, **gates}.items():
        out = output(inputs)
        shapes[name] = {"config": {}, "flops": flops(inputs), "outputs": [{"dtype": str(out.dtype), "dims": list(out.shape)}],
                        "inputs": [{"name": "ABCD"[n], "dtype": str(s.dtype), "dims": list(s.shape)} for n, s in enumerate(inputs)]}
    job, modules, said = build.job(shapes, "full", list(gates)), {}, []
    environment = os.environ
    try:
        tracer.main(json.dumps(job), path.read_bytes(), lambda kind, name, data: modules.update({name: data}) if kind == 33 else said.append(data))
    finally:
        os.environ = environment  # the tracer watches it, in a process of its own
    assert len(modules) == 1 + 2 * len(gates), said
    return build.run(job, modules)


def gemm(m, k, n):
    return [spec((m, k)), spec((k, n))]


def attention(b, h, s, d):
    return [spec((b, h, s, d))] * 3


def softmax_inputs(m, k, n):
    return [spec((m, k)), spec((k, n)), spec((n,))]


def feed_forward(b, s, e, m):
    return [spec((b, s, e)), spec((e, m)), spec((e, m)), spec((m, e))]


def cross_entropy(b, h, v):
    return [spec((b, h)), spec((h, v)), spec((b,), jnp.int32)]


def norm(b, s, e):
    return [spec((b, s, e)), spec((e,))]


def attention_flops(x):
    b, h, s, d = x[0].shape
    return 4 * b * h * s * s * d


def feed_forward_flops(x):
    return 6 * x[0].size * x[1].shape[1]


def product(x):
    return spec((x[0].shape[0], x[1].shape[1]))


def first(x):
    return x[0]


def one_number(x):
    return spec((), jnp.float32)


# Folder, full shape, gate shapes, output, FLOPs of the formula.
PLAIN = {
    "8p_gemm": (gemm(8192, 8192, 28672), {"gate": gemm(512, 8192, 512), "ragged": gemm(488, 8192, 392), "tiny": gemm(128, 256, 128)},
                product, build.gemm_flops),
    "9p_swiglu_mlp": (feed_forward(2, 4096, 8192, 28672), {"gate": feed_forward(1, 128, 4096, 4096)}, first, feed_forward_flops),
    "13p_cross_entropy": (cross_entropy(8192, 4096, 128256), {"gate": cross_entropy(128, 1024, 4352), "ragged": cross_entropy(116, 1000, 4203)},
                          one_number, build.gemm_flops),
    "12p_rms_norm": (norm(8, 4096, 8192), {"gate": norm(1, 512, 8192)}, first, lambda x: 4 * x[0].size),
    "50k_matmul_gelu_softmax": (softmax_inputs(1024, 8192, 8192), {"gate": softmax_inputs(128, 4096, 4096)}, product, build.gemm_flops),
    "1p_flash_attention": (attention(4, 64, 4096, 128), {"gate": attention(1, 2, 2048, 128)}, first, attention_flops),
}


class Plain(unittest.TestCase):
    def test_the_reference_kernels(self):
        for folder, row in PLAIN.items():
            with self.subTest(workload=folder):
                path = ROOT / "suite/jaxbench" / folder / "plain.py"
                if not path.is_file():
                    self.skipTest("%s is not there" % path)
                result = inspect(path, *row)
                self.assertEqual(result["status"], "ok", result)
                self.assertEqual([f for f in result["findings"] if f["outcome"]], [], result)
                self.assertIn(result["link"]["status"], ("structural", "unproven"), result["link"])
                self.assertEqual(result["coverage"]["status"], "complete", result)
                self.assertGreaterEqual(result["flops"]["share"], 0.9)


class EndToEnd(unittest.TestCase):
    """Rows: kernel of tests/e2e/kernels on 8p, gate shape, the findings it must have (one of them), and may not."""

    TINY, GATE = gemm(128, 256, 128), gemm(512, 8192, 512)
    CASES = (
        ("gemm_scratch.py", TINY, set()), ("gemm_scalar_prefetch.py", TINY, set()), ("gemm_manual_dma.py", TINY, set()), ("gemm_scratch.py", GATE, set()),
        ("decoy.py", TINY, {"not-pallas"}), ("jnp_only.py", TINY, {"not-pallas"}), ("lost_tail.py", TINY, {"coverage"}), ("k_outermost.py", GATE, {"coverage"}),
        ("big_shape_branch.py", GATE, {"link-mismatch", "coverage"}), ("embedded.py", GATE, {"embedded-constant", "constant-output", "unread-input"}),
        ("platform_branch.py", GATE, {"link-mismatch"}),
    )

    def test_kernels(self):
        for name, gate, expected in self.CASES:
            with self.subTest(kernel=name):
                result = inspect(ROOT / "tests/e2e/kernels" / name, gemm(8192, 8192, 28672), {"gate": gate}, product, build.gemm_flops)
                self.assertEqual(result["status"], "ok", result)
                bad = {f["id"] for f in result["findings"] if f["outcome"]}
                self.assertTrue(bad & expected if expected else not bad, result)


if __name__ == "__main__":
    unittest.main()
