# SPDX-License-Identifier: Apache-2.0
"""`run`, kill -9, `resume`, `report`, on the tiny shape and without the TPU
compiler.  Two runs are equal when their archive, ledger and report are equal
after the fields of the program's own list (`report --json` leaves them out with
--stable) are removed."""

import concurrent.futures
import json
import pathlib
import random
import signal
import subprocess
import tempfile
import time
import unittest

from tests.e2e.program import archive, jaxbench, kill_and_resume, start

STUDY = """schema: 1
name: tiny
seed: 7
suites:
  - {use: jaxbench, only: [8p]}
methods:
  - {name: bon, use: best_of_n, samples: 5}
backends:
  - {name: scripted, use: scripted}
gates: [literature, robust]
shapes: {check: tiny}
skip: [compile]
"""

MOMENTS = 20


class Run(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
        cls.root = pathlib.Path(cls.folder.name)
        cls.study = cls.root / "study.yaml"
        cls.study.write_text(STUDY)
        begin = time.monotonic()
        cls.done = jaxbench("run", cls.study, "--run-dir", cls.root / "whole", cwd=cls.root)
        cls.seconds = time.monotonic() - begin
        cls.files, cls.report = archive(cls.root / "whole")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_it_ends_with_a_leaderboard(self):
        self.assertEqual(self.done.code, 0, self.done)
        self.assertIn("no model", self.done.out.lower())
        self.assertIn(str(self.root / "whole"), self.done.out)
        self.assertEqual(len([f for f in self.files if f.endswith("reply.txt")]), 5)

    def test_numbers_add_up(self):
        outcomes = self.report["outcomes"] if "outcomes" in self.report else self.report["methods"][0]["outcomes"]
        self.assertEqual(sum(outcomes.values()), 5, self.report)

    def test_files_of_the_run(self):
        names = {p.name for p in (self.root / "whole").iterdir()}
        self.assertLessEqual({"manifest.json", "journal.jsonl", "index.sqlite", "cells", "blobs", "report.json", "report.html"}, names)

    def test_resume_of_a_finished_run_changes_nothing(self):
        before = (self.root / "whole/journal.jsonl").read_bytes()
        done = jaxbench("resume", self.root / "whole")
        self.assertEqual(done.code, 0, done)
        self.assertEqual(archive(self.root / "whole"), (self.files, self.report))
        after = (self.root / "whole/journal.jsonl").read_bytes()
        self.assertTrue(after.startswith(before))

    def test_one_and_four_slots_agree(self):
        done = jaxbench("run", self.study, "--run-dir", self.root / "one", "--set", "executor.slots=1", "--no-page", cwd=self.root)
        self.assertEqual(done.code, 0, done)
        files, report = archive(self.root / "one")
        self.assertEqual(files, self.files)
        self.assertEqual(report, self.report)

    def test_kill_at_seeded_moments_then_resume(self):
        rng = random.Random(20261201)
        delays = [rng.uniform(0.02, 1.0) * self.seconds for _ in range(MOMENTS)]

        def killed_and_resumed(moment):
            return kill_and_resume(self.root, self.study, self.root / ("killed-%d" % moment), delays[moment])

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for moment, (done, found) in enumerate(pool.map(killed_and_resumed, range(MOMENTS))):
                with self.subTest(moment=moment, delay=delays[moment]):
                    self.assertEqual(done.code, 0, done)
                    self.assertEqual(found[0], self.files)
                    self.assertEqual(found[1], self.report)

    def test_torn_last_line_is_repaired_and_reported(self):
        run_dir = self.root / "torn"
        subprocess.run(["cp", "-r", str(self.root / "whole"), str(run_dir)], check=True)
        with open(run_dir / "journal.jsonl", "ab") as journal:
            journal.write(b'{"seq":99999,"kind":"op_do')
        done = jaxbench("resume", run_dir, "--no-page")
        self.assertEqual(done.code, 0, done)
        self.assertRegex(done.err, "torn|incomplete")
        self.assertEqual(archive(run_dir), (self.files, self.report))
        for line in (run_dir / "journal.jsonl").read_text().splitlines():
            json.loads(line)

    def test_locked_by_another_process(self):
        run_dir = self.root / "locked"
        process = start(self.root, self.study, run_dir)
        try:
            deadline = time.monotonic() + 30
            while not (run_dir / "journal.jsonl").exists() and time.monotonic() < deadline:
                time.sleep(0.02)
            done = jaxbench("resume", run_dir, "--no-page")
            self.assertEqual(done.code, 8, done)
        finally:
            process.kill()
            process.communicate()

    def test_interrupt_leaves_the_journal_intact(self):
        run_dir = self.root / "interrupted"
        process = start(self.root, self.study, run_dir)
        time.sleep(0.6 * self.seconds)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        if process.returncode != 0:
            self.assertEqual(process.returncode, 130, err)
            self.assertIn(b"resume", err)
        self.assertEqual(jaxbench("resume", run_dir, "--no-page").code, 0)
        self.assertEqual(archive(run_dir), (self.files, self.report))

    def test_a_hang_up_is_an_orderly_stop(self):
        run_dir = self.root / "hung-up"
        process = start(self.root, self.study, run_dir)
        deadline = time.monotonic() + 60
        while not (run_dir / "journal.jsonl").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(signal.SIGHUP)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 129, err)
        self.assertIn(b"resume", err)
        self.assertEqual(jaxbench("resume", run_dir).code, 0)
        self.assertEqual(archive(run_dir), (self.files, self.report))

    def copy(self, name):
        subprocess.run(["cp", "-r", str(self.root / "whole"), str(self.root / name)], check=True)
        return self.root / name

    def test_lost_bodies_are_told(self):
        run_dir = self.copy("lost")
        for path in (run_dir / "blobs").iterdir():
            path.unlink()
        for verb in (("report",), ("show", "run")):
            with self.subTest(verb=verb):
                done = jaxbench(*verb, run_dir)
                self.assertEqual(done.code, 0, done)
                self.assertRegex(done.out, r"1 of 1 prompts are missing: [0-9a-f]{16}")
                self.assertRegex(done.out, r"\d+ of \d+ modules are missing")
                self.assertIn("restore blobs/", done.out)
                self.assertLessEqual({"prompts", "modules"}, set(jaxbench(*verb, run_dir, "--json").json()["missing"]))
        done = jaxbench("resume", run_dir)
        self.assertEqual(done.code, 0, done)
        self.assertIn("prompts are missing", done.err)
        self.assertNotIn("prompts", jaxbench("report", run_dir, "--json").json()["missing"])

    def test_a_lost_reply_is_never_asked_for_again(self):
        run_dir = self.copy("paid")
        journal = (run_dir / "journal.jsonl").read_text().splitlines()
        for i, line in enumerate(journal):
            event = json.loads(line)
            if event["kind"] == "op_done" and "text" in event:
                del event["text"]
                event["text_blob"] = "a" * 64
                journal[i] = json.dumps(event)
                break
        (run_dir / "journal.jsonl").write_text("\n".join(journal) + "\n")
        before = (run_dir / "journal.jsonl").read_bytes()
        done = jaxbench("resume", run_dir)
        self.assertEqual(done.code, 2, done)
        self.assertRegex(done.err, "(?s)1 of 1 long replies are missing.*a{64}.*not asked for again")
        self.assertEqual((run_dir / "journal.jsonl").read_bytes(), before)
        self.assertEqual(jaxbench("report", run_dir).code, 0)

    def test_an_emptied_journal_is_no_new_run(self):
        run_dir = self.copy("emptied")
        (run_dir / "journal.jsonl").write_bytes(b"")
        for verb in ("resume", "report"):
            done = jaxbench(verb, run_dir)
            self.assertEqual(done.code, 2, done)
            self.assertRegex(done.err, "(?s)journal.jsonl holds no line.*restore")
        self.assertEqual((run_dir / "journal.jsonl").read_bytes(), b"")
        (run_dir / "journal.jsonl").unlink()
        for verb in (("resume", run_dir), ("run", self.study, "--run-dir", run_dir)):
            done = jaxbench(*verb, cwd=self.root)
            self.assertEqual(done.code, 2, done)
            self.assertFalse((run_dir / "journal.jsonl").exists(), "a run was begun over another's candidates")

    def test_what_changed_is_refused(self):
        run_dir = self.copy("worker")
        path = run_dir / "manifest.json"
        manifest = json.loads(path.read_text())
        identity = manifest["identity"]
        self.assertEqual({"jaxbench-worker", "jaxbench_harness"}, set(identity["worker"]))
        self.assertEqual(["best_of_n/prompt.md"], list(identity["templates"]))
        self.assertLessEqual({"method/best_of_n", "backend/scripted", "checker/error_ratio", "executor/local"}, set(identity["plugins"]))
        for part in ("worker", "templates", "plugins"):
            for name, was in list(identity[part].items()):
                with self.subTest(part=part, name=name):
                    self.assertRegex(was, "^[0-9a-f]{64}$")
                    identity[part][name] = "0" * 64
                    path.write_text(json.dumps(manifest))
                    done = jaxbench("resume", run_dir)
                    self.assertEqual(done.code, 2, done)
                    self.assertRegex(done.err, r"%s %s \(was 0{12}, is %s\)" % (part, name, was[:12]))
                    identity[part][name] = was

    def test_a_changed_workload_is_refused(self):
        run_dir = self.root / "changed"
        subprocess.run(["cp", "-r", str(self.root / "whole"), str(run_dir)], check=True)
        manifest = json.loads((run_dir / "manifest.json").read_text())
        text = json.dumps(manifest)
        version = jaxbench("list", "workloads", "--json").json()
        hash_ = next(r["versions"]["repaired"] for r in version if r["id"] == "8p")
        self.assertIn(hash_, text)
        (run_dir / "manifest.json").write_text(text.replace(hash_, "0" * len(hash_)))
        done = jaxbench("resume", run_dir, "--no-page")
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("8p", done.err)


if __name__ == "__main__":
    unittest.main()
