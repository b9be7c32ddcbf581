# SPDX-License-Identifier: Apache-2.0
"""The reference child: its file is what docs/protocol.md says, it answers every
request with a result, and importing it starts nothing."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ml_dtypes
import numpy as np

from jaxbench_harness import artifact, draws, reference, runtime
from tests.suite_py import HARNESS, spec


def parse(path):
    """{(group, index): array} of a reference file, checking its form; and its header."""
    data = path.read_bytes()
    assert data[:8] == b"JBREF1\0\0", data[:8]
    length = int.from_bytes(data[8:16], "little")
    head = json.loads(data[16:16 + length])
    first = min(row["offset"] for row in head["arrays"])
    assert first >= 16 + length and not any(data[16 + length:first]), "padding"
    out, end = {}, 0
    for row in head["arrays"]:
        assert row["offset"] % 4096 == 0 and row["offset"] >= end, row
        end = row["offset"] + row["bytes"]
        assert end <= len(data), row
        dtype = np.dtype(ml_dtypes.bfloat16 if row["dtype"] == "bfloat16" else row["dtype"])
        out[row["group"], row["index"]] = np.frombuffer(data[row["offset"]:end], dtype).reshape(row["dims"])
    return out, head


class Files(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="jaxbench-ref-")
        self.addCleanup(folder.cleanup)
        self.path = pathlib.Path(folder.name) / "t.ref"

    def serve(self, request):
        """The `reference` result of a request, and the frames' kinds."""
        frames = []
        reference.main(request if isinstance(request, str) else json.dumps(request), str(self.path),
                       lambda kind, name, data: frames.append((kind, name, json.loads(data))))
        self.assertEqual([(k, n) for k, n, _ in frames], [(32, "")])
        return frames[0][2]["reference"]

    def test_every_workload_and_distribution(self):
        for ident in spec.FOLDERS:
            for distribution in draws.DISTRIBUTIONS:
                with self.subTest(workload=ident, distribution=distribution):
                    request = spec.request(ident, "tiny", distribution)
                    result = self.serve(request)
                    self.assertEqual(result["status"], "ok", result)
                    self.assertGreater(result["peak_mb"], 0)
                    arrays, head = parse(self.path)
                    self.assertEqual(head["schema"], 1)
                    groups = [g for g, _ in arrays]
                    self.assertEqual(groups, ["input"] * len(request["resolved"]["inputs"]) + ["r_jit", "r_op", "h"])
                    h = arrays["h", 0]
                    self.assertEqual(h.dtype, np.float64)
                    self.assertTrue(np.isfinite(h).all())
                    for group in ("r_jit", "r_op"):
                        self.assertEqual({"dtype": str(arrays[group, 0].dtype), "dims": list(arrays[group, 0].shape)}, request["resolved"]["outputs"][0])
                        error = arrays[group, 0].astype(np.float64) - h
                        self.assertLessEqual(np.sqrt(np.mean(error ** 2)), 0.05 * np.sqrt(np.mean(h ** 2)))  # both 0 where the published weights are

    def test_h_against_numpy(self):
        self.serve(spec.request("8p"))
        a, _ = parse(self.path)
        np.testing.assert_allclose(a["h", 0], a["input", 0].astype(np.float64) @ a["input", 1].astype(np.float64), rtol=1e-12, atol=1e-12)
        self.serve(spec.request("12p", distribution="tiny"))
        a, _ = parse(self.path)
        x, scale = (a["input", i].astype(np.float64) for i in (0, 1))
        eps = float(np.float32(1e-5))
        np.testing.assert_allclose(a["h", 0], x / np.sqrt(np.mean(x * x, -1, keepdims=True) + eps) * scale, rtol=1e-12)
        self.serve(spec.request("35k"))
        a, _ = parse(self.path)
        x, weight, bias = (a["input", i].astype(np.float64) for i in range(3))
        c = np.clip((x @ weight + bias) / 2, -2, 2)
        self.assertGreater(np.mean(np.abs(c) == 2), 0.05)  # clipping does something
        root, cube = (float(ml_dtypes.bfloat16(number)) for number in ((2 / np.pi) ** 0.5, 0.044715))  # the graph's constants
        np.testing.assert_allclose(a["h", 0], c / 2 * (1 + np.tanh(root * (c + cube * c ** 3))), rtol=1e-11, atol=1e-13)
        self.serve(spec.request("40k", distribution="tiny"))
        a, _ = parse(self.path)
        x, weight, linear_bias, gn_weight, gn_bias, bias = (a["input", i].astype(np.float64) for i in range(6))
        groups = (x @ weight.T + linear_bias).reshape(len(x), -1, 16)
        off = groups - groups.mean(-1, keepdims=True)
        z = (off / np.sqrt(np.mean(off ** 2, -1, keepdims=True) + float(ml_dtypes.bfloat16(1e-5)))).reshape(len(x), -1)
        least = (z * gn_weight + gn_bias).min(1)
        np.testing.assert_allclose(a["h", 0], least.reshape(1, 1, -1, 1) + bias, rtol=1e-11, atol=1e-13)
        self.serve(spec.request("1p"))
        a, _ = parse(self.path)
        q, k, v = (a["input", i].astype(np.float64) for i in range(3))
        logits = np.einsum("bhqd,bhkd->bhqk", q, k) * float(ml_dtypes.bfloat16(128 ** -0.5))  # the graph's constant
        logits[..., np.triu_indices(q.shape[2], 1)[0], np.triu_indices(q.shape[2], 1)[1]] = -np.inf
        p = np.exp(logits - logits.max(-1, keepdims=True))
        np.testing.assert_allclose(a["h", 0], np.einsum("bhqk,bhkd->bhqd", p / p.sum(-1, keepdims=True), v), rtol=1e-11, atol=1e-13)

    def test_h_of_the_feed_forward_layer(self):
        self.serve(spec.request("9p", distribution="outlier"))  # where exp of a gate leaves fp32's range
        a, _ = parse(self.path)
        x, gate, up, down = (a["input", i].astype(np.float64) for i in range(4))
        g = x @ gate
        self.assertGreater(g.max(), 88.7)
        np.testing.assert_allclose(a["h", 0], (g / (1 + np.exp(-g)) * (x @ up)) @ down, rtol=1e-10, atol=1e-8)

    def test_h_of_the_cross_entropy(self):
        for distribution in ("own", "outlier"):
            with self.subTest(distribution=distribution):
                self.serve(spec.request("13p", distribution=distribution))
                a, _ = parse(self.path)
                hidden, weight = (a["input", i].astype(np.float64) for i in (0, 1))
                labels = a["input", 2]
                self.assertEqual((str(labels.dtype), a["h", 0].shape), ("int32", ()))
                z = hidden @ weight
                top = z.max(axis=1)
                losses = top + np.log(np.exp(z - top[:, None]).sum(axis=1)) - z[np.arange(len(labels)), labels]
                np.testing.assert_allclose(a["h", 0], losses.mean(), rtol=1e-12)

    def test_inputs_are_the_draw(self):
        request = spec.request("50k", distribution="outlier", draw=2, key="secret")
        self.serve(request)
        arrays, _ = parse(self.path)
        want = draws.draw(request["resolved"]["inputs"], "50k", "outlier", 2, "secret", request["scale"])
        self.assertEqual(request["scale"], 4)
        for i, x in enumerate(want):
            self.assertEqual(arrays["input", i].tobytes(), x.tobytes())

    def test_groups_asked_for(self):
        for groups in ([], ["h"], ["r_op", "r_jit"]):
            with self.subTest(groups=groups):
                self.assertEqual(self.serve(spec.request("8p", groups=groups))["status"], "ok")
                self.assertEqual({g for g, _ in parse(self.path)[0]}, {"input", *groups})

    def test_the_same_request_gives_the_same_arrays(self):
        seen = []
        for _ in range(2):
            self.serve(spec.request("1p"))
            seen.append({k: v.tobytes() for k, v in parse(self.path)[0].items()})
        self.assertEqual(seen[0], seen[1])

    def test_long_header_moves_the_arrays(self):
        rows = [("input", i, np.full((3,), i, np.int32)) for i in range(200)] + [("h", 0, np.zeros((0, 4)))]
        reference.write(self.path, rows, 0.5)
        arrays, head = parse(self.path)
        self.assertGreater(min(r["offset"] for r in head["arrays"]), 4096)
        self.assertEqual(arrays["input", 199].tolist(), [199] * 3)
        self.assertEqual(arrays["h", 0].shape, (0, 4))

    def test_baselines(self):
        for platform in ("cpu", "tpu"):
            for ident, folder in spec.FOLDERS.items():
                with self.subTest(platform=platform, workload=ident):
                    request = spec.request(ident, "full", kind="base", platform=platform)
                    result = self.serve(request)
                    self.assertEqual(result["status"], "ok", result)
                    data = self.path.read_bytes()
                    self.assertNotIn(str(folder).encode(), data)
                    tell = lambda rows: [(r["dtype"], tuple(r["dims"])) for r in rows]
                    parsed = artifact.load(data)
                    with parsed.context:
                        self.assertEqual(runtime.signature(parsed), (tell(request["resolved"]["inputs"]), tell(request["resolved"]["outputs"])))
                    again = self.path.read_bytes() if self.serve(request)["status"] == "ok" else b""
                    self.assertEqual(data, again)

    def test_baseline_runs_as_r_jit(self):
        for ident in spec.FOLDERS:
            with self.subTest(workload=ident):
                request = spec.request(ident, "tiny")
                self.serve(request)
                arrays, _ = parse(self.path)
                self.serve(dict(request, kind="base", platform="cpu"))
                program = runtime.Program(self.path.read_bytes(), request["resolved"]["inputs"], request["resolved"]["outputs"])
                got, = program.run([arrays["input", i] for i in range(len(request["resolved"]["inputs"]))])
                want, h = (arrays[g, 0].astype(np.float64) for g in ("r_jit", "h"))
                got = np.asarray(got)
                got = (got.view(ml_dtypes.bfloat16) if got.dtype.kind == "u" else got).astype(np.float64)
                # One program compiled twice, with other options: equal up to roundings.
                self.assertLess(np.sqrt(np.mean((got - want) ** 2)), 0.02 * np.sqrt(np.mean(h ** 2)))

    def test_failures_are_results(self):
        good = spec.request("8p")
        wrong_rows = json.loads(json.dumps(good))
        wrong_rows["resolved"]["outputs"][0]["dims"] = [1, 1]
        wrong_inputs = json.loads(json.dumps(dict(good, distribution="published")))
        wrong_inputs["resolved"]["inputs"][0]["dims"] = [1, 1]
        cases = [
            ("{", "JSONDecodeError"),
            (dict(good, distribution="banana"), "unknown distribution 'banana'"),
            (dict(good, kind="banana"), "unknown kind 'banana'"),
            (dict(good, groups=["banana"]), "unknown group banana"),
            (dict(good, kind="base", platform="gpu"), "unknown platform 'gpu'"),
            (dict(good, workload=dict(good["workload"], dir="/nowhere")), "no such file"),
            (dict(good, resolved=dict(good["resolved"], config={"Q": 1})), "CONFIG has no Q"),
            (wrong_rows, "the outputs of r_jit should be"),
            (wrong_inputs, "the inputs should be"),
        ]
        for request, words in cases:
            with self.subTest(words=words):
                result = self.serve(request)
                self.assertEqual(result["status"], "fail")
                self.assertIn(words, result["reason"])
                self.assertLessEqual(len(result["error"]), 4096)
                self.assertFalse(self.path.exists(), "a part-written file was left")


class Import(unittest.TestCase):
    def test_importing_starts_no_backend_and_no_thread(self):
        code = ("import os, jaxbench_harness.reference, jaxbench_harness.draws, jaxbench_harness.widen\n"
                "from jax._src import xla_bridge\n"
                "print(len(xla_bridge._backends), len(os.listdir('/proc/self/task')))")
        env = dict(os.environ, PYTHONPATH=HARNESS, OPENBLAS_NUM_THREADS="1", JAX_PLATFORMS="cpu")
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=120, check=True)
        self.assertEqual(done.stdout.split(), ["0", "1"], done.stderr)


if __name__ == "__main__":
    unittest.main()
