# SPDX-License-Identifier: Apache-2.0
"""What a person types first, and what she types wrong."""

import json
import pathlib
import tempfile
import unittest

from tests.e2e.program import KERNELS, ROOT, environment, jaxbench

STUDY = """schema: 1
name: t
seed: 1
suites:
  - {use: jaxbench, only: [8p]}
methods:
  - {name: m, use: best_of_n, samples: 2}
backends:
  - {name: b, use: scripted}
gates: [literature, robust]
"""

# (what is wrong, the study, words of the message)
BAD = [
    ("unknown key", STUDY.replace("seed: 1", "sed: 1"), ":3.*sed.*seed"),
    ("unknown option", STUDY.replace("samples: 2", "sampels: 2"), "sampels.*samples"),
    ("wrong type", STUDY.replace("samples: 2", "samples: many"), "samples"),
    ("out of range", STUDY.replace("samples: 2", "samples: -3"), "samples"),
    ("missing plugin", STUDY.replace("use: best_of_n", "use: best_of_m"), "best_of_m.*best_of_n"),
    ("empty match", STUDY.replace("only: [8p]", "only: [99z]"), "99z"),
    ("unknown gate set", STUDY.replace("gates: [literature, robust]", "gates: [rubust]"), "rubust"),
    ("alias", STUDY.replace("seed: 1", "seed: &a 1\nname2: *a"), "anchor|alias"),
    ("tag", STUDY.replace("seed: 1", "seed: !!int 1"), "tag"),
    ("duplicate key", STUDY + "seed: 2\n", "seed"),
    ("not a mapping", "- 1\n- 2\n", "mapping"),
    ("empty file", "", ""),
    ("10 MB", STUDY + "# " + "x" * (10 << 20) + "\n", "large|bytes|MiB|MB"),
    ("alias bomb", "a: &a [x,x]\n" + "".join("%s: &%s [*%s,*%s]\n" % (c, c, p, p) for p, c in zip("abcdefgh", "bcdefghi")), "anchor|alias"),
    ("deep nesting", "a: " + "[" * 5000 + "]" * 5000 + "\n", "nest|deep|level"),
]


class Studies(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
        self.study = pathlib.Path(self.folder.name) / "study.yaml"

    def tearDown(self):
        self.folder.cleanup()

    def test_good_study(self):
        self.study.write_text(STUDY)
        done = jaxbench("validate", self.study)
        self.assertEqual(done.code, 0, done)

    def test_example_studies_are_valid(self):
        for path in sorted(set((ROOT / "examples").glob("*.yaml")) - set((ROOT / "examples").glob("prices-*.yaml"))):
            with self.subTest(path=path.name):
                self.assertEqual(jaxbench("validate", path).code, 0)

    def test_bad_studies_are_refused_with_a_line_and_a_hint(self):
        for what, text, pattern in BAD:
            for verb in ("validate", "run"):
                with self.subTest(what=what, verb=verb):
                    self.study.write_text(text)
                    done = jaxbench(verb, self.study, cwd=self.folder.name, timeout=30)
                    self.assertEqual(done.code, 2, done)
                    self.assertRegex(done.err, "(?is)" + pattern)
                    self.assertIn("study.yaml", done.err)
                    self.assertFalse((pathlib.Path(self.folder.name) / "runs").exists(), "a run was begun")

    def test_errors_as_json(self):
        self.study.write_text(STUDY.replace("seed: 1", "sed: 1"))
        done = jaxbench("validate", self.study, "--json")
        error = json.loads(done.err)
        self.assertEqual(done.code, 2)
        self.assertLessEqual({"code", "message", "hint", "retryable"}, set(error))

    def test_filter_that_matches_nothing(self):
        self.study.write_text(STUDY)
        done = jaxbench("run", self.study, "--only", "zz*", cwd=self.folder.name)
        self.assertEqual(done.code, 2, done)
        self.assertIn("zz*", done.err)

    def test_missing_file(self):
        done = jaxbench("run", "no-such-study.yaml", cwd=self.folder.name)
        self.assertEqual(done.code, 2, done)
        self.assertIn("no-such-study.yaml", done.err)


class Verbs(unittest.TestCase):
    def test_help_of_every_verb(self):
        listing = jaxbench("--help")
        self.assertEqual(listing.code, 0)
        for verb in ("doctor", "list", "show", "clean", "validate", "run", "resume", "eval", "report", "plugin"):
            with self.subTest(verb=verb):
                self.assertRegex(listing.out, r"(?m)^\s+%s\s" % verb)
                done = jaxbench(verb, "--help")
                self.assertEqual(done.code, 0, done)
                self.assertIn(verb, done.out)

    def test_misspelt(self):
        done = jaxbench("evla", KERNELS / "loop.py")
        self.assertEqual(done.code, 2)
        self.assertIn("eval", done.err)
        done = jaxbench("eval", KERNELS / "loop.py", "--worklaod", "8p")
        self.assertEqual(done.code, 2)
        self.assertIn("--workload", done.err)
        done = jaxbench("eval", KERNELS / "loop.py", "--workload", "8q")
        self.assertEqual(done.code, 2)
        self.assertIn("8p", done.err)
        done = jaxbench("eval", "nowhere.py", "--workload", "8p")
        self.assertEqual(done.code, 2)
        self.assertIn("nowhere.py", done.err)

    def test_list_workloads(self):
        rows = jaxbench("list", "workloads", "--json").json()
        self.assertLessEqual({"1p", "8p", "12p", "50k"}, {r["id"] for r in rows})
        row = next(r for r in rows if r["id"] == "8p")
        self.assertEqual(row["name"], "gemm")
        self.assertEqual(row["tier"], "production")
        self.assertEqual(set(row["versions"]), {"published", "repaired"})
        self.assertNotEqual(row["versions"]["published"], row["versions"]["repaired"])
        self.assertLessEqual({"full", "gate", "tiny"}, set(row["shapes"]))

    def test_list_kinds(self):
        for kind, name in (("methods", "best_of_n"), ("backends", "scripted"), ("checkers", "error_ratio"),
                           ("timers", "wall"), ("executors", "local"), ("gates", "robust"), ("suites", "jaxbench")):
            with self.subTest(kind=kind):
                self.assertIn(name, [r["name"] for r in jaxbench("list", kind, "--json").json()])
                self.assertIn(name, jaxbench("list", kind).out)

    def test_show(self):
        self.assertIn("8192", jaxbench("show", "workload", "8p").out)
        self.assertIn("rtol", jaxbench("show", "checker", "allclose").out)
        prompt = jaxbench("show", "workload", "8p", "--prompt")
        self.assertEqual(prompt.code, 0, prompt)
        for word in ("workload(A, B)", "28672", "512"):
            self.assertIn(word, prompt.out)
        self.assertNotIn("{{", prompt.out)
        self.assertEqual(jaxbench("show", "workload", "nope").code, 2)

    def test_a_cache_that_cant_be_made_is_an_error_not_a_hang(self):
        with tempfile.NamedTemporaryFile() as file:  # a file where the folder should be
            done = jaxbench("eval", KERNELS / "gemm_scratch.py", "--workload", "8p", "--shape", "tiny", "--skip", "compile",
                            env=environment(JAXBENCH_CACHE=file.name), timeout=60)
        self.assertIn(done.code, (1, 4), done)
        self.assertIn("cache", done.out + done.err)

    def test_doctor(self):
        done = jaxbench("doctor", "--json")
        facts = done.json()
        self.assertEqual(done.code, 0, done)
        self.assertIn("isolation", json.dumps(facts))
        self.assertIn("0.10.2", json.dumps(facts))

    def test_plugin_list(self):
        rows = jaxbench("plugin", "list", "--json").json()
        self.assertTrue(any("error_ratio" in json.dumps(r) for r in rows))


if __name__ == "__main__":
    unittest.main()
