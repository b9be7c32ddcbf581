# SPDX-License-Identifier: Apache-2.0
"""`judge`: the candidates of a run under other gates, from the modules that the run
keeps, on the tiny shape."""

import json
import pathlib
import signal
import tempfile
import time
import unittest

from tests.e2e.program import archive, background, jaxbench
from tests.e2e.test_run import STUDY

LOOSE = """schema: 1
name: loose
variant: repaired
summary: anything that is finite and of the right shape
rows:
  - {use: shape_dtype, over: {shapes: [gate], draws: {own: 1}}, when: loop}
  - {use: allclose, atol: 1000, rtol: 1, against: h, over: {shapes: [gate], draws: {own: 1}}, when: loop}
"""


class Judge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
        cls.root = pathlib.Path(cls.folder.name)
        (cls.root / "study.yaml").write_text(STUDY.replace("samples: 5", "samples: 12"))
        (cls.root / "loose.yaml").write_text(LOOSE)
        done = jaxbench("run", cls.root / "study.yaml", "--run-dir", cls.root / "run", "--no-page", cwd=cls.root)
        if done.code != 0:
            raise AssertionError(repr(done))
        cls.before = archive(cls.root / "run")
        cls.first = jaxbench("judge", cls.root / "run", "--gates", cls.root / "loose.yaml", "--json")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_other_gates_other_verdicts_and_no_trace(self):
        self.assertEqual(self.first.code, 0, self.first)
        document = self.first.json()
        counts, row = document["counts"], document["methods"][0]
        self.assertTrue(document["complete"])
        self.assertEqual(counts["candidates"], 12)
        self.assertEqual(counts["traced_again"], 0, counts)
        self.assertGreater(counts["from_modules"], 0, counts)
        self.assertEqual(counts["kept"] + counts["from_modules"], 12, counts)
        # Loose gates take what the tight ones rejected, zeros among it; the findings about those stay.
        self.assertGreaterEqual(row["correct_is"], row["correct_was"], document)
        self.assertEqual({c["was"] for c in document["changes"]}, {"wrong"}, document["changes"])
        self.assertLessEqual({c["is"] for c in document["changes"]}, {"ok", "suspicious"}, document["changes"])

    def test_the_run_stays_as_it_was(self):
        self.assertEqual(archive(self.root / "run"), self.before)

    def test_what_is_judged_is_not_judged_again(self):
        again = jaxbench("judge", self.root / "run", "--gates", self.root / "loose.yaml", "--json").json()
        counts, first = again["counts"], self.first.json()
        self.assertEqual((counts["from_modules"], counts["known"]), (0, first["counts"]["from_modules"]))
        self.assertEqual(again["changes"], first["changes"])

    def test_its_own_gates_change_nothing(self):
        done = jaxbench("judge", self.root / "run", "--phase", "loop", "--json")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(done.json()["changes"], [], done)

    def test_lost_modules_are_traced_again(self):
        record = json.loads(next(p for p in sorted((self.root / "run/cells").rglob("result.json"))
                                 if json.loads(p.read_text())["outcome"] == "ok").read_text())["record"]
        module = next(m for m in record["stages"]["export"]["modules"] if m["platform"] == "cpu")
        blob = self.root / "run/blobs" / module["sha256"]
        body = blob.read_bytes()
        blob.unlink()
        try:
            done = jaxbench("judge", self.root / "run", "--gates", "literature", "--json")
            self.assertEqual(done.code, 0, done)
            self.assertGreater(done.json()["counts"]["traced_again"], 0, done)
            self.assertTrue(done.json()["complete"])
        finally:
            blob.write_bytes(body)

    def test_words(self):
        done = jaxbench("judge", self.root / "run", "--gates", self.root / "loose.yaml")
        self.assertEqual(done.code, 0, done)
        self.assertRegex(done.out, r"wrong -> (ok|suspicious)")
        self.assertIn("known already", done.out)
        for args, words in ((("nowhere",), "nowhere"), ((self.root / "run", "--gates", "robst"), "robust"), ((self.root / "run", "--gates", self.root), "folder")):
            with self.subTest(args=args):
                done = jaxbench("judge", *args)
                self.assertEqual(done.code, 2, done)
                self.assertIn(words, done.err)

    def test_killed_and_gone_on(self):
        process = background(self.root, "judge", self.root / "run", "--gates", "literature,robust")
        time.sleep(3)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        done = jaxbench("judge", self.root / "run", "--gates", "literature,robust", "--json")
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.json()["complete"])


if __name__ == "__main__":
    unittest.main()
