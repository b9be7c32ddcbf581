# SPDX-License-Identifier: Apache-2.0
"""The public interface of each workload, its published inputs, and that
workload.yaml says the same as workload.py."""
import functools
import inspect
import pathlib
import tempfile
import unittest

import jax
import jax.numpy as jnp
import numpy as np

from jaxbench_harness import draws, workloads
from tests.suite_py import spec

# id -> (published sizes, published FLOPs, published bytes)
FULL = {
    "1p": ({"batch": 4, "seq_len": 4096, "num_heads": 64, "head_dim": 128}, 2199023255552, 1073741824),
    "8p": ({"M": 8192, "K": 8192, "N": 28672}, 3848290697216, 1073741824),
    "9p": ({"batch": 2, "seq_len": 4096, "emb_dim": 8192, "mlp_dim": 28672}, 11544872091648, 1677721600),
    "12p": ({"batch": 8, "seq_len": 4096, "emb_dim": 8192, "epsilon": 1e-5}, 1342177280, 1073758208),
    "13p": ({"batch_tokens": 8192, "hidden_dim": 4096, "vocab_size": 128256}, 8607114461184, 1117814788),
    "35k": ({"batch_size": 4096, "in_features": 8192, "out_features": 8192, "scaling_factor": 0.5, "hardtanh_min": -2, "hardtanh_max": 2},
            549755813888, 268451840),
    "40k": ({"batch_size": 4096, "in_features": 8192, "out_features": 8192, "num_groups": 512}, 549755813888, 268500992),
    "50k": ({"batch_size": 4096, "in_features": 8192, "out_features": 8192}, 549755813888, 268451840),
}
# Upper bounds that design and machine set for a gate shape.
GATE_FLOPS = {"9p": 1.3e10}  # three products with two long axes
GATE_FLOPS_ELSE = 5e9
GATE = {"1p": [(1, 2, 2048, 128)] * 3, "8p": [(512, 8192), (8192, 512)], "12p": [(1, 512, 8192), (8192,)],
        "9p": [(1, 128, 4096), (4096, 4096), (4096, 4096), (4096, 4096)], "13p": [(128, 1024), (1024, 4352), (128,)],
        "35k": [(512, 8192), (8192, 512), (512,)],
        "40k": [(128, 8192), (2048, 8192), (2048,), (2048,), (2048,), (1, 2048, 1, 1)],
        "50k": [(128, 4096), (4096, 4096), (4096,)]}


@functools.cache
def yaml(ident):
    return spec.read(spec.FOLDERS[ident] / "workload.yaml")


def module(ident, shape=None):
    config = spec.resolve(yaml(ident), shape)["config"] if shape else None
    return workloads.load(spec.FOLDERS[ident], config)


class Interface(unittest.TestCase):
    def test_folders(self):
        self.assertEqual(set(spec.FOLDERS), set(FULL))
        for ident, folder in spec.FOLDERS.items():
            with self.subTest(workload=ident):
                self.assertEqual(folder.name, f"{ident}_{yaml(ident)['name']}")
                self.assertEqual(yaml(ident)["id"], ident)

    def test_config_is_the_published_one(self):
        for ident, (sizes, _, _) in FULL.items():
            with self.subTest(workload=ident):
                config = module(ident).CONFIG
                self.assertEqual({k: config[k] for k in sizes}, sizes)
                named = set(yaml(ident)["config"])
                self.assertEqual(spec.resolve(yaml(ident), "full")["config"], {k: config[k] for k in named})

    def test_yaml_agrees_with_the_code_at_every_shape(self):
        for ident in FULL:
            for shape in yaml(ident)["shapes"]:
                with self.subTest(workload=ident, shape=shape):
                    resolved, mod = spec.resolve(yaml(ident), shape), module(ident, shape)
                    inputs = jax.eval_shape(mod.create_inputs)
                    output = jax.eval_shape(mod.workload, *inputs)
                    tell = lambda x: {"dtype": str(x.dtype), "dims": list(x.shape)}
                    self.assertEqual([tell(x) for x in inputs], [{k: i[k] for k in ("dtype", "dims")} for i in resolved["inputs"]])
                    self.assertEqual([tell(output)], resolved["outputs"])
                    self.assertEqual(list(inspect.signature(mod.workload).parameters), [i["name"] for i in resolved["inputs"]])

    def test_flops_and_bytes(self):
        for ident, (_, flops, size) in FULL.items():
            with self.subTest(workload=ident):
                resolved = spec.resolve(yaml(ident), "full")
                self.assertEqual((resolved["flops"], resolved["min_bytes"]), (flops, size))
                gate = spec.resolve(yaml(ident), "gate")
                self.assertEqual([tuple(i["dims"]) for i in gate["inputs"]], GATE[ident])
                self.assertLess(gate["flops"], GATE_FLOPS.get(ident, GATE_FLOPS_ELSE))

    def test_gate_axes_divide_as_the_full_ones(self):
        for ident in FULL:
            full, gate = yaml(ident)["shapes"]["full"], yaml(ident)["shapes"]["gate"]
            for axis in full:
                with self.subTest(workload=ident, axis=axis):
                    # An axis that is shorter than 512 at either shape can only keep its residue modulo 128, or be few.
                    unit = 512 if min(full[axis], gate[axis]) >= 512 else min(128, gate[axis])
                    self.assertEqual(full[axis] % unit, gate[axis] % unit)

    def test_float32_too(self):
        for ident in FULL:
            with self.subTest(workload=ident):
                mod = module(ident, "tiny")
                floats = {str(x.dtype) for x in mod.create_inputs(jnp.float32) if jnp.issubdtype(x.dtype, jnp.floating)}
                self.assertEqual(floats, {"float32"})


class Published(unittest.TestCase):
    """Draw 0 is the public suite's: keys, order, and the factors applied in bf16."""

    def inputs(self, ident, shape="tiny", draw=0, key=""):
        return draws.published(module(ident, shape), ident, draw, key)

    def same(self, a, b):
        np.testing.assert_array_equal(np.asarray(a).view(np.uint16), np.asarray(b).view(np.uint16))

    def test_gemm(self):
        ka, kb = jax.random.split(jax.random.key(42), 2)
        a, b = self.inputs("8p")
        self.same(a, jax.random.normal(ka, (128, 256), jnp.bfloat16))
        self.same(b, jax.random.normal(kb, (256, 128), jnp.bfloat16) * jnp.bfloat16(0.02))

    def test_norm(self):
        kx, ks = jax.random.split(jax.random.key(42), 2)
        x, scale = self.inputs("12p")
        self.same(x, jax.random.normal(kx, (1, 64, 256), jnp.bfloat16))
        self.same(scale, jax.random.normal(ks, (256,), jnp.bfloat16) * jnp.bfloat16(0.1) + jnp.bfloat16(1))

    def test_attention(self):
        for x, key in zip(self.inputs("1p"), jax.random.split(jax.random.key(42), 3), strict=True):
            self.same(x, jax.random.normal(key, (1, 2, 256, 128), jnp.bfloat16))

    def test_feed_forward(self):
        keys = jax.random.split(jax.random.key(42), 4)
        x, *kernels = self.inputs("9p")
        self.same(x, jax.random.normal(keys[0], (1, 32, 256), jnp.bfloat16))
        for kernel, key in zip(kernels, keys[1:], strict=True):
            self.same(kernel, jax.random.normal(key, (256, 256), jnp.bfloat16) * jnp.bfloat16(0.02))

    def test_cross_entropy(self):
        keys = jax.random.split(jax.random.key(42), 3)
        hidden, weight, labels = self.inputs("13p")
        self.same(hidden, jax.random.normal(keys[0], (32, 128), jnp.bfloat16))
        self.same(weight, jax.random.normal(keys[1], (128, 512), jnp.bfloat16) * jnp.bfloat16(0.02))
        np.testing.assert_array_equal(labels, jax.random.randint(keys[2], (32,), 0, 512))

    def test_dense_layers(self):
        # (workload, rows at the shape `tiny`, how many inputs behind x are zeros, how many after them are ones, and zeros)
        for ident, rows, counts in (("35k", 128, (2, 0, 0)), ("40k", 32, (2, 1, 2)), ("50k", 32, (2, 0, 0))):
            with self.subTest(workload=ident):
                x, *others = self.inputs(ident)
                self.same(x, jax.random.uniform(jax.random.key(0), (rows, 256), jnp.bfloat16))
                want = [value for value, count in zip((0, 1, 0), counts) for _ in range(count)]
                self.assertEqual([set(np.unique(other.astype(float))) for other in others], [{value} for value in want])

    def test_statistics_of_bf16_draws(self):
        """jax.random in bf16 has few values: measured facts of jax 0.10.2."""
        a, b = (x.astype(np.float64) for x in self.inputs("8p", "gate"))
        self.assertEqual(len(np.unique(a)), 128)
        self.assertEqual((round(a.min(), 2), round(a.max(), 2)), (-2.89, 2.52))
        self.assertAlmostEqual(a.mean(), -0.013, delta=2e-3)
        self.assertAlmostEqual(a.std(), 0.997, delta=2e-3)
        self.assertAlmostEqual(b.std() / 0.02, 0.997, delta=5e-3)
        self.assertTrue(a.all())
        x = self.inputs("50k", "gate")[0].astype(np.float64)
        self.assertEqual(set(np.unique(x * 128)), set(range(128)))
        self.assertAlmostEqual(x.mean(), 0.497, delta=2e-3)

    def test_key_has_no_say_in_draw_0(self):
        for p, q in zip(self.inputs("8p", key=""), self.inputs("8p", key="another")):
            self.same(p, q)

    def test_later_draws(self):
        seen = set()
        for draw, key in ((0, ""), (1, "a"), (2, "a"), (1, "b")):
            a, b = self.inputs("8p", draw=draw, key=key)
            self.assertEqual((a.shape, b.shape), ((128, 256), (256, 128)))
            seen.add((a.tobytes(), b.tobytes()))
        self.assertEqual(len(seen), 4)
        again = self.inputs("8p", draw=2, key="a")
        self.assertIn(tuple(x.tobytes() for x in again), seen)

    def test_rekeying_is_undone_after_an_error(self):
        class Broken:
            @staticmethod
            def create_inputs(dtype):
                raise RuntimeError(str(jax.random.key_data(jax.random.key(0))))

        before = jax.random.key, jax.random.PRNGKey
        with self.assertRaises(RuntimeError) as caught:
            draws.published(Broken, "x", 1, "")
        self.assertNotEqual(str(caught.exception), str(jax.random.key_data(jax.random.key(0))))
        self.assertEqual((jax.random.key, jax.random.PRNGKey), before)


class Loading(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)
        self.addCleanup(self.folder.cleanup)

    def test_each_load_is_its_own(self):
        a, b = module("8p", "tiny"), module("8p")
        self.assertEqual((a.CONFIG["M"], b.CONFIG["M"]), (128, 8192))
        self.assertNotEqual(a.__name__, b.__name__)

    def test_refusals(self):
        cases = [
            (None, None, "no such file"),
            ("def other(): pass", None, "defines no function `workload`"),
            ("def workload(x): return x", {"M": 1}, "CONFIG should be a dict"),
            ("CONFIG = {'M': 1}\ndef workload(x): return x", {"N": 1}, "CONFIG has no N; it has M"),
        ]
        for text, config, words in cases:
            with self.subTest(words=words):
                if text is not None:
                    (self.path / "workload.py").write_text(text)
                with self.assertRaisesRegex(workloads.WorkloadError, words):
                    workloads.load(self.path, config)

    def test_leaves_nothing_behind(self):
        (self.path / "workload.py").write_text("CONFIG = {'M': 1}\ndef workload(x): return x")
        workloads.load(self.path, {"M": 2})
        self.assertEqual([p.name for p in self.path.iterdir()], ["workload.py"])


if __name__ == "__main__":
    unittest.main()
