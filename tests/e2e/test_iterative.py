# SPDX-License-Identifier: Apache-2.0
"""The method `iterative`, on the tiny shape and without the TPU compiler: later
turns are told what became of the earlier ones and get better by it, the control
without feedback does not; slots and kills do not show."""

import collections
import concurrent.futures
import json
import pathlib
import random
import tempfile
import time
import unittest

from tests.e2e.program import archive, jaxbench, kill_and_resume

STUDY = """schema: 1
name: iterative
seed: 11
suites:
  - {use: jaxbench, only: [8p]}
methods:
%s
backends:
  - {name: scripted, use: scripted}
gates: [literature, robust]
shapes: {check: tiny}
skip: [compile]
"""

BOTH = """  - {name: bon, use: best_of_n, samples: 2}
  - {name: it, use: iterative, chains: 4, turns: 3}
"""

# Twelve chains are a whole deal of `scripted`: half of the replies of every turn are faulty when it is told nothing.
RATES = """  - {name: told, use: iterative, chains: 12, turns: 3, stop_on: budget}
  - {name: blind, use: iterative, chains: 12, turns: 3, stop_on: budget, feedback: none}
"""

MOMENTS = 8


def events(run_dir):
    return [json.loads(line) for line in (run_dir / "journal.jsonl").read_text().splitlines()]


def outcomes(run_dir):
    """{method: {turn: [outcome, ...]}} of a run's journal."""
    submitted, found = {}, collections.defaultdict(lambda: collections.defaultdict(list))
    for event in events(run_dir):
        if event["kind"] == "op_submit":
            submitted[event["cell"], event["op"]] = event
        elif event["kind"] == "op_done" and "candidate" in event:
            call = submitted[event["cell"], submitted[event["cell"], event["op"]]["llm_op"]]
            found[event["cell"].split("+")[1]][call["turn"]].append(event["outcome"])
    return found


class Iterative(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
        cls.root = pathlib.Path(cls.folder.name)
        cls.study = cls.root / "study.yaml"
        cls.study.write_text(STUDY % BOTH)
        begin = time.monotonic()
        cls.done = jaxbench("run", cls.study, "--run-dir", cls.root / "whole", "--set", "executor.slots=8", cwd=cls.root)
        cls.seconds = time.monotonic() - begin
        cls.files, cls.report = archive(cls.root / "whole")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def prompts(self):
        """{(candidate, method): prompt}"""
        return {(int(name.split("/")[2]), name.split("/")[1].split("+")[1]): text.decode()
                for name, text in self.files.items() if name.endswith("prompt.txt")}

    def test_it_runs(self):
        self.assertEqual(self.done.code, 0, self.done)
        self.assertIn("it", {m["method"] for m in self.report["methods"]})

    def test_first_turns_ask_what_best_of_n_asks(self):
        prompts = self.prompts()
        firsts = [prompts[n, "it"] for n in range(1, 5)]
        self.assertEqual(set(firsts), {prompts[1, "bon"]})
        later = [text for (n, method), text in prompts.items() if method == "it" and n > 4]
        self.assertTrue(later)
        for text in later:
            self.assertTrue(text.startswith(firsts[0].rstrip("\n")), text[:200])
            self.assertIn("## Feedback on attempt", text)

    def test_unused_turns_are_no_samples(self):
        cell = next(m for m in self.report["methods"] if m["method"] == "it")
        judged = outcomes(self.root / "whole")["it"]
        self.assertEqual(cell["ledger"]["samples"], sum(map(len, judged.values())))
        for turn in (1, 2):  # only what was not right yet went on
            self.assertEqual(len(judged.get(turn, [])), sum(o != "ok" for o in judged[turn - 1]))

    def test_one_and_eight_slots_agree(self):
        done = jaxbench("run", self.study, "--run-dir", self.root / "one", "--set", "executor.slots=1", cwd=self.root)
        self.assertEqual(done.code, 0, done)
        files, report = archive(self.root / "one")
        self.assertEqual(files, self.files)
        self.assertEqual(report, self.report)

    def test_kill_at_seeded_moments_then_resume(self):
        rng = random.Random(20261202)
        delays = [rng.uniform(0.02, 1.0) * self.seconds for _ in range(MOMENTS)]

        def killed_and_resumed(moment):
            return kill_and_resume(self.root, self.study, self.root / ("killed-%d" % moment), delays[moment])

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for moment, (done, found) in enumerate(pool.map(killed_and_resumed, range(MOMENTS))):
                with self.subTest(moment=moment, delay=delays[moment]):
                    self.assertEqual(done.code, 0, done)
                    self.assertEqual(found[0], self.files)
                    self.assertEqual(found[1], self.report)

    def test_templates_are_in_the_manifest(self):
        manifest = json.loads((self.root / "whole/manifest.json").read_text())
        self.assertLessEqual({"iterative/" + name for name in ("prompt.md", "repair.md", "improve.md", "again.md")},
                             set(manifest["identity"]["templates"]))

    def test_what_is_told_helps_and_silence_does_not(self):
        study, run_dir = self.root / "rates.yaml", self.root / "rates"
        study.write_text(STUDY % RATES)
        done = jaxbench("run", study, "--run-dir", run_dir, "--set", "matrix.seeds=2", cwd=self.root)
        self.assertEqual(done.code, 0, done)
        right = {method: [sum(o == "ok" for o in turns[t]) / len(turns[t]) for t in range(3)]
                 for method, turns in outcomes(run_dir).items()}
        told, blind = right["told"], right["blind"]
        self.assertEqual({len(o) for turns in outcomes(run_dir).values() for o in turns.values()}, {24})
        self.assertGreaterEqual(told[2], 0.85, right)
        self.assertGreaterEqual(told[2], told[0] + 0.1, right)
        self.assertLessEqual(max(blind), 0.75, right)
        self.assertLessEqual(blind[2], blind[0] + 0.2, right)  # which faults are dealt differs from turn to turn


if __name__ == "__main__":
    unittest.main()
