# SPDX-License-Identifier: Apache-2.0
"""Draws: what each distribution does, that a draw depends on its identity alone,
and that it is refused when it can't be made."""
import unittest

import numpy as np

from jaxbench_harness import draws

NORMAL = {"normal": {"std": 1.0}}
KNOWN = [[-0.00994873046875, 0.9453125, 0.431640625, 0.6484375], [0.8203125, 0.640625, 0.95703125]]


def specs(*rows):
    """Rows of (dims, role, repaired)."""
    return [{"name": f"x{i}", "dtype": "bfloat16", "dims": list(dims), "role": role, "repaired": rule}
            for i, (dims, role, rule) in enumerate(rows)]


TWO = specs(((64, 512), "activation", NORMAL), ((512, 32), "weight", {"normal": {"std": 0.5, "mean": 2.0}}))


def draw(rows=TWO, workload="w", distribution="own", number=0, key="k", scale=1.0):
    return draws.draw(rows, workload, distribution, number, key, scale)


class Identity(unittest.TestCase):
    def test_the_same_again(self):
        for distribution in draws.DISTRIBUTIONS[1:]:
            with self.subTest(distribution=distribution):
                for a, b in zip(draw(distribution=distribution), draw(distribution=distribution)):
                    self.assertEqual(a.tobytes(), b.tobytes())

    def test_known_values(self):
        """A change here changes every cached reference: it needs another tag in draws._digest."""
        a = draw(specs(((4,), "activation", NORMAL), ((3,), "weight", {"uniform": {"low": 0, "high": 1}})))
        self.assertEqual([x.astype(np.float64).tolist() for x in a], KNOWN)

    def test_every_part_of_the_identity_counts(self):
        changes = [{}, {"workload": "v"}, {"number": 1}, {"key": "l"}, {"distribution": "tiny"}, {"distribution": "outlier"}]
        weights = {draw(**c)[1].tobytes() for c in changes}
        self.assertEqual(len(weights), len(changes))

    def test_parts_do_not_run_together(self):
        self.assertNotEqual(draw(workload="a", key="bc")[0].tobytes(), draw(workload="ab", key="c")[0].tobytes())

    def test_inputs_are_independent_of_each_other(self):
        same = specs(((64, 512), "activation", NORMAL), ((64, 512), "activation", NORMAL))
        a, b = (x.astype(np.float64).ravel() for x in draw(same))
        self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 0.03)
        alone = draw(TWO[:1])[0]
        self.assertEqual(alone.tobytes(), draw()[0].tobytes())

    def test_numbers_are_independent_of_each_other(self):
        a, b = (draw(number=n)[0].astype(np.float64).ravel() for n in (0, 1))
        self.assertLess(abs(np.corrcoef(a, b)[0, 1]), 0.03)


class Distributions(unittest.TestCase):
    def test_own(self):
        x, w = (a.astype(np.float64) for a in draw())
        self.assertAlmostEqual(x.mean(), 0, delta=0.03)
        self.assertAlmostEqual(x.std(), 1, delta=0.03)
        self.assertAlmostEqual(w.mean(), 2, delta=0.03)
        self.assertAlmostEqual(w.std(), 0.5, delta=0.03)

    def test_uniform(self):
        x, = draw(specs(((256, 256), "activation", {"uniform": {"low": -1, "high": 3}})))
        x = x.astype(np.float64)
        self.assertTrue((x >= -1).all() and (x <= 3).all())
        self.assertAlmostEqual(x.mean(), 1, delta=0.05)

    def test_integers(self):
        rows = specs(((4096,), "index", {"integers": {"low": 3, "high": 11}}), ((64, 512), "activation", NORMAL))
        rows[0]["dtype"] = "int32"
        for distribution in ("own", "outlier", "tiny"):
            with self.subTest(distribution=distribution):
                labels, x = draw(rows, distribution=distribution, scale=4.0)
                self.assertEqual((str(labels.dtype), sorted(set(labels.tolist()))), ("int32", list(range(3, 11))))
                self.assertAlmostEqual(labels.mean(), 6.5, delta=0.15)
                self.assertEqual(str(x.dtype), "bfloat16")

    def test_rounded_to_nearest_from_float32(self):
        wide = specs(((64, 64), "activation", NORMAL))
        wide[0]["dtype"] = "float32"
        narrow = specs(((64, 64), "activation", NORMAL))
        a, b = draw(wide)[0], draw(narrow)[0]
        self.assertEqual((str(a.dtype), str(b.dtype)), ("float32", "bfloat16"))
        self.assertLessEqual(np.max(np.abs(b.astype(np.float64) - a) / np.abs(a)), 2.0 ** -9 * 1.0001 + 2.0 ** -9)
        np.testing.assert_array_equal(a.astype(b.dtype).view(np.uint16), b.view(np.uint16))

    def test_tiny(self):
        x, w = (a.astype(np.float64) for a in draw(distribution="tiny"))
        self.assertAlmostEqual(x.std() * 512, 1, delta=0.03)
        self.assertAlmostEqual(w.mean(), 2, delta=0.03)

    def test_outlier_channels(self):
        x = draw(distribution="outlier")[0].astype(np.float64)
        per_channel = np.median(np.abs(x), axis=0)
        loud = np.flatnonzero(per_channel > 5 * np.median(per_channel))
        self.assertEqual(len(loud), 2)  # ceil(512 / 256), the same in every row
        self.assertAlmostEqual(per_channel[loud].mean() / np.median(per_channel), 20, delta=6)

    def test_outlier_entries(self):
        for number in range(4):
            with self.subTest(number=number):
                x = np.abs(draw(distribution="outlier", number=number)[0].astype(np.float64)) / 0.6745
                rows = np.flatnonzero((x > 100).any(axis=1))
                self.assertEqual((len(rows), rows[0]), (2, 0))
                self.assertAlmostEqual(np.log2(x[0].max()), 10, delta=0.1)
                self.assertTrue(6.9 <= np.log2(x[rows[1]].max()) <= 10.1)

    def test_outlier_in_every_leading_slice(self):
        x, = draw(specs(((2, 3, 16, 64), "activation", NORMAL)), distribution="outlier")
        x = np.abs(x.astype(np.float64)).reshape(6, 16, 64)
        places = {tuple(map(tuple, np.argwhere(s > 60))) for s in x}
        self.assertEqual(len(places), 1)

    def test_outlier_small_shapes(self):
        for dims in ((5,), (1,), (1, 1), (1, 8), (8, 1)):
            with self.subTest(dims=dims):
                x, = draw(specs((dims, "activation", NORMAL)), distribution="outlier")
                self.assertEqual(x.shape, dims)
                self.assertTrue(np.isfinite(x.astype(np.float64)).all())

    def test_scale_is_of_activations(self):
        for distribution in ("own", "outlier", "tiny"):
            with self.subTest(distribution=distribution):
                (x, w), (y, v) = draw(distribution=distribution), draw(distribution=distribution, scale=4.0)
                np.testing.assert_array_equal(4 * x.astype(np.float64), y.astype(np.float64))
                self.assertEqual(w.tobytes(), v.tobytes())

    def test_other_roles_are_left_alone(self):
        for role in ("weight", "bias", "scale"):
            with self.subTest(role=role):
                x = draw(specs(((64, 512), role, NORMAL)), distribution="outlier")[0].astype(np.float64)
                self.assertLess(np.abs(x).max(), 6)


class Refusals(unittest.TestCase):
    def test_refusals(self):
        unknown_role = specs(((2,), "banana", NORMAL))
        cases = [
            ({"distribution": "published"}, "made by the workload"),
            ({"distribution": "owl"}, "'owl'; known are published, own, outlier, tiny"),
            ({"rows": unknown_role}, "x0: unknown role 'banana'"),
            ({"rows": specs(((2,), "weight", {"cauchy": {}}))}, "x0: unknown draw 'cauchy'"),
            ({"rows": specs(((2,), "weight", None))}, "x0: `repaired` should be"),
            ({"rows": [dict(TWO[0], dtype="int64")]}, "x0: dtype int64"),
            ({"rows": [dict(TWO[0], dtype="int32")]}, "x0: role index, an integer dtype"),
            ({"rows": [dict(TWO[0], role="index")]}, "x0: role index, an integer dtype"),
            ({"rows": specs(((2,), "weight", {"integers": {"low": 0, "high": 2}}))}, "x0: role index, an integer dtype"),
        ]
        for change, words in cases:
            with self.subTest(words=words), self.assertRaisesRegex(draws.DrawError, words):
                draw(**change)


if __name__ == "__main__":
    unittest.main()
