# SPDX-License-Identifier: Apache-2.0
"""The plain kernels are right: under `robust` at every named shape a CPU holds,
and under `literature` at the gate shape."""
import unittest

import numpy as np

from tests.suite_py import kernels, score, spec

ROBUST = ("own", "outlier", "tiny")


class Plain(unittest.TestCase):
    def check(self, ident, shape, distribution, draw=0):
        with self.subTest(workload=ident, shape=shape, distribution=distribution, draw=draw):
            t = kernels.trial(ident, shape, distribution, draw)
            got = kernels.outputs(ident, shape, distribution, draw)
            self.assertEqual((got.dtype, got.shape), (t["r_jit"][0].dtype, t["r_jit"][0].shape))
            ratio = kernels.ratio(ident, shape, distribution, draw)
            self.assertTrue(score.passes(ratio), ratio)
            # A reference this far from h could not tell a wrong kernel from a right one.
            self.assertLessEqual(ratio["yardstick"], 0.1, ratio)

    def test_robust_at_tiny(self):
        for ident in spec.FOLDERS:
            for distribution in ROBUST:
                for draw in range(2):
                    self.check(ident, "tiny", distribution, draw)

    def test_robust_at_ragged(self):
        for ident in spec.FOLDERS:
            for distribution in ("own", "outlier"):
                self.check(ident, "ragged", distribution)

    def test_robust_at_gate(self):
        for ident in spec.FOLDERS:
            for distribution in ROBUST:
                self.check(ident, "gate", distribution)

    def test_literature_at_gate(self):
        for ident in spec.FOLDERS:
            with self.subTest(workload=ident):
                r = kernels.trial(ident, "gate", "published")["r_jit"][0].astype(np.float32)
                c = kernels.outputs(ident, "gate", "published").astype(np.float32)
                worst = np.max(np.abs(c - r) - 1e-2 * np.abs(c))
                self.assertLessEqual(worst, 1e-2)

    def test_literature_takes_a_constant_for_the_cross_entropy(self):
        """ln V and half the variance of a logit: what the loss of unrelated labels is, near enough."""
        sizes = spec.resolve(spec.read(spec.FOLDERS["13p"] / "workload.yaml"), "gate")["config"]
        constant = np.log(sizes["vocab_size"]) + sizes["hidden_dim"] * 0.02 ** 2 / 2
        r = kernels.trial("13p", "gate", "published")["r_jit"][0]
        self.assertTrue(np.allclose(r, constant, atol=1e-2, rtol=1e-2), (float(r), constant))

    def test_literature_takes_zeros_where_the_published_weights_are(self):
        for ident in ("35k", "40k", "50k"):
            with self.subTest(workload=ident):
                r = kernels.trial(ident, "gate", "published")["r_jit"][0].astype(np.float32)
                self.assertTrue(np.allclose(r, np.zeros_like(r), atol=1e-2, rtol=1e-2))


if __name__ == "__main__":
    unittest.main()
