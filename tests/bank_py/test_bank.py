# SPDX-License-Identifier: Apache-2.0
"""The bank of the backend `scripted`: right kernels are right at the gate and ragged
shapes, and faults of numerics are what their names say, all in interpret mode.

The edits of faults.txt are applied here by another reader than the plugin's.  What a
fault does to the TPU compiler, and coverage, are for the end-to-end tests.
"""
import functools
import pathlib
import re
import unittest
import unittest.mock

import jax
import numpy as np
from jax.experimental import pallas as pl

from tests.suite_py import kernels, score

BANK = pathlib.Path(__file__).resolve().parents[2] / "plugins" / "backends" / "scripted" / "bank"
WORKLOADS = ("1p", "8p", "9p", "12p", "13p", "35k", "40k", "50k")
CHOICE = re.compile(r"<<(.*?)>>")

# (workload, fault): distributions of the loop under which the error ratio is above a limit, and under which it is not.
FAULTS = {
    ("1p", "wrong-mask"): (("own",), ()),
    ("1p", "no-max"): (("outlier",), ("own",)),
    ("1p", "bf16-accumulator"): (("outlier",), ()),
    ("1p", "zeros"): (("own",), ()),
    ("8p", "bf16-accumulator"): (("own",), ()),
    ("8p", "zeros"): (("own",), ()),
    ("9p", "overflow"): (("outlier",), ("own",)),
    ("9p", "clamp"): (("outlier",), ("own",)),
    ("9p", "wrong-branch"): (("own",), ()),
    ("9p", "bf16-accumulator"): (("own",), ()),
    ("9p", "zeros"): (("own",), ()),
    ("12p", "wrong-eps"): (("tiny",), ("own",)),
    ("12p", "bf16-accumulator"): (("own",), ()),
    ("12p", "zeros"): (("own",), ()),
    ("13p", "wrong-label"): (("own",), ("tiny",)),
    ("13p", "wrong-mask"): (("own",), ()),
    ("13p", "no-max"): (("outlier",), ("own",)),
    ("13p", "bf16-accumulator"): (("own",), ()),
    ("13p", "zeros"): (("own",), ()),
    ("35k", "wrong-constant"): (("own",), ()),
    ("35k", "no-bias"): (("own",), ()),
    ("35k", "bf16-accumulator"): (("own",), ("tiny",)),
    ("35k", "zeros"): (("own",), ()),
    ("40k", "wrong-eps"): (("tiny",), ("own",)),
    ("40k", "wrong-axis"): (("own",), ()),
    ("40k", "no-bias"): (("own", "tiny"), ()),
    ("40k", "bf16-accumulator"): (("own",), ("tiny",)),
    ("40k", "zeros"): (("own",), ()),
    ("50k", "no-max"): (("outlier",), ("own",)),
    ("50k", "bf16-accumulator"): (("own",), ()),
    ("50k", "zeros"): (("own",), ()),
}

# Faults of FAULTS that `literature` takes for right.
TAKEN = (("9p", "clamp"), ("13p", "wrong-label"), ("13p", "no-max"), ("13p", "bf16-accumulator"))


def decided(source, last):
    """The source with the first (or the last) of every choice."""
    return CHOICE.sub(lambda m: m.group(1).split("|")[-1 if last else 0], source)


def rights(ident):
    return {path.name: path.read_text() for path in sorted((BANK / ident).glob("right_*.py"))}


def deck(ident):
    """{fault: source} of the faults that are edits of a kernel."""
    out = {}
    for part in re.split(r"^== ", (BANK / ident / "faults.txt").read_text(), flags=re.M)[1:]:
        head, *lines = part.splitlines()
        name, *file = head.split()
        if not file or name in ("cut-off", "syntax"):
            continue
        text = (BANK / ident / file[0]).read_text().splitlines()
        for old, new in _edits(lines):
            text = _applied(text, old, new, "%s %s" % (ident, name))
        out[name] = "\n".join(text) + "\n"
    return out


def _edits(lines):
    """(old lines, new lines) of each edit."""
    edits = []
    for line in filter(None, lines):
        mark, rest = line[:2], line[2:]
        assert mark in ("- ", "+ "), line
        if mark == "- " and (not edits or edits[-1][1]):  # the first, or one after a replacement
            edits.append(([], []))
        edits[-1][mark == "+ "].append(rest)
    return edits


def _applied(text, old, new, what):
    places = [i for i in range(len(text)) if [line.strip() for line in text[i:i + len(old)]] == old]
    assert len(places) == 1, "%s: %r matches %d times" % (what, old, len(places))
    at = places[0]
    indent = " " * (len(text[at]) - len(text[at].lstrip()))
    return text[:at] + [indent + line for line in new] + text[at + len(old):]


def outputs(source, inputs):
    scope = {}
    exec(compile(source, "bank", "exec"), scope)
    with unittest.mock.patch.object(pl, "pallas_call", functools.partial(pl.pallas_call, interpret=True)):
        return np.asarray(jax.jit(scope["workload"])(*inputs))


def judged(ident, source, shape, distribution):
    return kernels.yardstick(ident, shape, distribution).score(outputs(source, kernels.trial(ident, shape, distribution)["input"]))


class Bank(unittest.TestCase):
    def test_right_kernels_are_right(self):
        for ident in WORKLOADS:
            for name, source in rights(ident).items():
                # The gate with one end of the choices; sizes that are no multiples of a block with the other.
                for shape, last in (("gate", True), ("ragged", False)):
                    with self.subTest(workload=ident, kernel=name, shape=shape):
                        got = judged(ident, decided(source, last), shape, "own")
                        self.assertTrue(score.passes(got), got)

    def test_right_kernels_keep_big_inputs(self):
        for ident in ("1p", "9p", "13p", "50k"):  # exponentials: where big logits are what goes wrong
            for name, source in rights(ident).items():
                with self.subTest(workload=ident, kernel=name):
                    got = judged(ident, decided(source, False), "gate", "outlier")
                    self.assertTrue(score.passes(got), got)

    def test_faults_that_the_published_tolerance_takes(self):
        for ident, fault in TAKEN:
            with self.subTest(workload=ident, fault=fault):
                trial = kernels.trial(ident, "gate", "published")
                got = outputs(decided(deck(ident)[fault], True), trial["input"]).astype(np.float32)
                far = np.abs(got - trial["r_jit"][0].astype(np.float32)) - 1e-2 * np.abs(got)
                self.assertLessEqual(far.max(), 1e-2)

    def test_plain_jax_is_right_too(self):
        for ident in WORKLOADS:
            with self.subTest(workload=ident):
                source = (BANK / ident / "no_kernel.py").read_text()
                self.assertNotIn("pallas", source)
                got = judged(ident, source, "tiny", "own")
                self.assertTrue(score.passes(got), got)

    def test_faults_of_numerics_show_where_they_should(self):
        for (ident, fault), (seen, hidden) in FAULTS.items():
            source = decided(deck(ident)[fault], True)
            for distribution in seen:
                with self.subTest(workload=ident, fault=fault, distribution=distribution):
                    self.assertFalse(score.passes(judged(ident, source, "gate", distribution)))
            for distribution in hidden:
                with self.subTest(workload=ident, fault=fault, distribution=distribution, hidden=True):
                    self.assertTrue(score.passes(judged(ident, source, "gate", distribution)))

    def test_a_lost_tail_is_lost_at_the_gate(self):
        for ident in WORKLOADS:
            with self.subTest(workload=ident):
                trial = kernels.trial(ident, "gate", "own")
                got = outputs(decided(deck(ident)["lost-tail"], False), trial["input"]).astype(np.float64)
                if got.ndim == 0:  # a mean over what was written and what was not
                    self.assertTrue(np.isnan(got), got)
                    continue
                rows = np.isnan(got).all(axis=-1)  # interpret mode fills what is not written with NaN
                self.assertTrue(rows.any() and not rows.all())
                self.assertTrue(np.isfinite(got[~rows]).all())

    def test_the_decks_hold_what_the_backend_promises(self):
        everywhere = {"prose", "cut-off", "syntax", "no-kernel", "bad-block", "vmem-overflow", "lost-tail", "bf16-accumulator", "zeros"}
        where_it_applies = {"wrong-mask", "wrong-eps", "no-max", "overflow", "clamp", "wrong-branch", "wrong-label", "wrong-constant", "wrong-axis", "no-bias"}
        names = {ident: re.findall(r"^== (\S+)", (BANK / ident / "faults.txt").read_text(), re.M) for ident in WORKLOADS}
        self.assertEqual(set().union(*names.values()), everywhere | where_it_applies)
        for ident, faults in names.items():
            self.assertEqual(len(faults), len(set(faults)), ident)
            self.assertLessEqual(everywhere, set(faults), ident)


if __name__ == "__main__":
    unittest.main()
