# SPDX-License-Identifier: Apache-2.0
"""The verbs around a run: plan it, bound it, look at it, stop it, take it
elsewhere.  On the tiny shape, without the TPU compiler."""

import csv
import io
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import xml.etree.ElementTree

from tests.e2e.program import BUILD, ROOT, environment, jaxbench

STUDY = """schema: 1
name: managed
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

ONE = ("--set", "methods.bon.samples=1")  # where what is found does not matter
PRICES = (ROOT / "examples/prices-example.yaml").read_text()


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
        self.root = pathlib.Path(self.folder.name)
        self.study = self.root / "study.yaml"
        self.study.write_text(STUDY)

    def tearDown(self):
        self.folder.cleanup()

    def go(self, *args, code=0, **kw):
        done = jaxbench(*args, cwd=self.root, **kw)
        self.assertEqual(done.code, code, done)
        return done


class Budget(Folder):
    def test_a_budget_stops_and_a_larger_one_goes_on(self):
        done = self.go("run", self.study, "--run-dir", "runs/a", "--budget", "3calls", code=5)
        self.assertIn("[budget]", done.err)
        self.assertIn("resume", done.err)
        status = self.go("status", "runs/a", "--json").json()
        self.assertEqual((status["state"], status["stopped_by"], status["budget_reached"]), ("stopped", "budget", "calls"))
        self.assertEqual(status["spent"]["calls"], 3)
        self.assertEqual(sum(status["outcomes"].values()), 3)  # what was paid for was judged
        self.assertIsNone(status["spent"]["usd"])  # unpriced, not 0
        report = self.go("report", "runs/a", "--json").json()
        self.assertFalse(report["complete"])
        best = report["cells"][0]["best"]
        self.assertEqual(best["final_rows"], "pass", best)  # a verified best survives

        self.go("resume", "runs/a", code=5)  # the study's budget, as given to `run`, still holds
        done = self.go("resume", "runs/a", "--budget", "samples_per_cell=9", code=2)
        self.assertIn("samples_per_cell", done.err)
        self.go("resume", "runs/a", "--budget", "calls=5", "--budget", "1000h")
        status = self.go("status", "a", "--json").json()
        self.assertEqual((status["state"], status["candidates"], status["spent"]["calls"]), ("finished", 5, 5))

        self.go("run", self.study, "--run-dir", "runs/whole")
        whole, resumed = (self.go("report", r, "--json", "--stable").json() for r in ("runs/whole", "runs/a"))
        self.assertEqual(resumed, whole)

    def test_money(self):
        done = self.go("run", self.study, "--budget", "5usd", code=2)
        self.assertIn("has no price", done.err)
        self.assertFalse((self.root / "runs").exists())
        (self.root / "prices.yaml").write_text(PRICES)
        self.study.write_text(STUDY + "prices: prices.yaml\n")
        self.go("run", self.study, "--run-dir", "runs/a", "--budget", "5usd", "--budget", "2calls", code=5)
        manifest = json.loads((self.root / "runs/a/manifest.json").read_text())
        self.assertEqual(manifest["prices"]["text"], PRICES)
        self.assertEqual(manifest["backends"][0]["price"]["output"], 0)
        (self.root / "prices.yaml").unlink()  # the run keeps what it was begun with
        self.go("resume", "runs/a", "--budget", "calls=100")
        report = self.go("report", "runs/a", "--json").json()
        self.assertEqual(report["ledger"]["money"], {"usd": 0, "unpriced_calls": 0})
        self.assertEqual(self.go("status", "runs/a", "--json").json()["spent"]["usd"], 0)

    def test_malformed(self):
        for flag in ("5", "five usd", "usd", "5eur", "nothing=5"):
            with self.subTest(flag=flag):
                done = self.go("run", self.study, "--budget", flag, code=2)
                self.assertIn("budget", done.err)


class Plan(Folder):
    def test_intervals_with_their_basis(self):
        plan = self.go("plan", self.study, "--json", "--budget", "3calls").json()
        self.assertEqual(plan["schema"], 1)
        self.assertEqual(len(plan["cells"]), 1)
        for part in (plan["total"], plan["cells"][0]):
            for key in ("samples", "calls", "input_tokens", "output_tokens", "usd", "compile_s", "wall_s"):
                self.assertEqual({"low", "high", "basis"}, set(part[key]), key)
                self.assertTrue(part[key]["basis"], key)
                if None not in (part[key]["low"], part[key]["high"]):
                    self.assertLessEqual(part[key]["low"], part[key]["high"], key)
        self.assertEqual((plan["total"]["samples"]["low"], plan["total"]["samples"]["high"]), (5, 5))
        self.assertIsNone(plan["total"]["usd"]["high"])
        self.assertIn("unpriced", plan["total"]["usd"]["basis"])
        self.assertEqual(plan["budget"]["calls"], {"amount": 3, "verdict": "is reached"})
        self.assertFalse((self.root / "runs").exists(), "plan wrote something")
        text = self.go("plan", self.study, "--cells").out
        self.assertIn("8p/bon/scripted s0", text)
        self.assertIn("unpriced", text)

    def test_earlier_runs_are_a_basis(self):
        self.go("run", self.study, "--run-dir", "runs/a", *ONE)
        plan = self.go("plan", self.study, "--json").json()
        self.assertIn("1 cell of 1 earlier run", plan["total"]["wall_s"]["basis"])
        self.assertGreater(plan["total"]["wall_s"]["low"], 0)
        other = self.go("plan", self.study, "--json", "--set", "shapes.check=gate").json()
        self.assertNotIn("earlier", other["total"]["wall_s"]["basis"])  # tiny says nothing about gate

    def test_it_starts_no_worker(self):
        trap, trace = self.root / "worker", self.root / "started"
        trap.write_text("#!/bin/sh\ntouch '%s'\n" % trace)
        trap.chmod(0o755)
        self.go("plan", self.study, env=environment(JAXBENCH_WORKER=str(trap)))
        self.assertFalse(trace.exists())

    def test_it_starts_no_process_and_opens_no_socket(self):
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        trace = self.root / "trace"
        process = subprocess.run(["strace", "-f", "-e", "trace=execve,socket,connect", "-o", str(trace), str(BUILD / "jaxbench"), "plan", str(self.study)],
                                 cwd=self.root, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        if process.returncode != 0:
            self.skipTest("strace is not allowed here: %r" % process.stderr[-200:])
        calls = [line for line in trace.read_text().splitlines() if "execve" in line or "socket(" in line or "connect(" in line]
        self.assertEqual(len(calls), 1, calls)  # the program itself


class StatusAndStop(Folder):
    def start(self, *args):
        process = subprocess.Popen([str(BUILD / "jaxbench"), "run", str(self.study), "--run-dir", "runs/a", *args], cwd=self.root, env=environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            done = jaxbench("status", "runs/a", "--json", cwd=self.root)
            if done.code == 0 and done.json()["state"] == "running" and done.json()["last_event"] > 2:
                return process
            time.sleep(0.05)
        self.fail("the run did not begin: %r" % done)

    def test_stop_in_order(self):
        process = self.start()
        status = self.go("status", "runs/a", "--json").json()
        self.assertEqual((status["state"], status["pid"]), ("running", process.pid))
        done = self.go("stop", "runs/a", "--json")
        self.assertEqual((done.json()["result"], done.json()["pid"]), ("stopped", process.pid))
        self.assertEqual(process.wait(30), 128 + signal.SIGTERM)
        status = self.go("status", "runs/a", "--json").json()
        self.assertEqual((status["state"], status["stopped_by"]), ("stopped", "signal"))
        again = self.go("stop", "runs/a")
        self.assertIn("not running", again.out)
        self.go("resume", "runs/a")
        self.assertEqual(self.go("status", "runs/a", "--json").json()["state"], "finished")

    def test_killed(self):
        process = self.start()
        process.kill()
        process.wait()
        status = self.go("status", "runs/a", "--json").json()
        self.assertEqual((status["state"], status["stopped_by"], status["pid"]), ("stopped", "killed", None))
        self.assertIn("stale", self.go("status", "runs/a").out)

    def test_a_lock_that_names_another_process_is_not_signalled(self):
        process = self.start()
        victim = subprocess.Popen(["sleep", "60"])
        self.addCleanup(victim.wait)
        self.addCleanup(victim.kill)
        lock = self.root / "runs/a/lock"
        text = lock.read_text()
        self.assertIn("pid %d " % process.pid, text)
        with open(lock, "r+") as file:  # the same inode: the lock is held on it
            file.write(text.replace("pid %d " % process.pid, "pid %d " % victim.pid))
            file.truncate()
        done = jaxbench("stop", "runs/a", cwd=self.root)
        self.assertNotEqual(done.code, 0, done)
        self.assertIn("not the one", done.err)
        self.assertIsNone(victim.poll())
        self.assertIsNone(process.poll())

    def test_no_such_run(self):
        for verb in ("status", "stop", "export"):
            done = self.go(verb, "nowhere", code=2)
            self.assertIn("nowhere", done.err)

    def test_a_status_file_of_another_journal_is_not_believed(self):
        self.go("run", self.study, "--run-dir", "runs/a", *ONE)
        want = self.go("status", "runs/a", "--json").json()
        path = self.root / "runs/a/status.json"
        saved = json.loads(path.read_text())
        for offset in (saved["offset"] - 3, saved["offset"] + 10 ** 6):
            path.write_text(json.dumps({**saved, "offset": offset}))
            self.assertEqual(self.go("status", "runs/a", "--json").json()["candidates"], want["candidates"])
        path.write_text("{")
        self.assertEqual(self.go("status", "runs/a", "--json").json()["outcomes"], want["outcomes"])
        path.unlink()
        self.assertEqual(self.go("status", "runs/a", "--json").json()["spent"]["calls"], want["spent"]["calls"])


class Elsewhere(Folder):
    def test_export(self):
        self.go("run", self.study, "--run-dir", "runs/a")
        rows = [json.loads(line) for line in self.go("export", "runs/a").out.splitlines()]
        self.assertEqual([r["candidate"] for r in rows], [1, 2, 3, 4, 5])
        self.assertEqual({r["cell"] for r in rows}, {"8p+bon+scripted+s0"})
        table = list(csv.DictReader(io.StringIO(self.go("export", "runs/a", "--format", "csv").out)))
        self.assertEqual([r["outcome"] for r in table], [r["outcome"] for r in rows])
        self.assertEqual([r["gate_robust"] for r in table], [r["gates"].get("robust", "") for r in rows])
        tree = xml.etree.ElementTree.fromstring(self.go("export", "runs/a", "--format", "junit").out)
        self.assertEqual(int(tree.get("tests")), 5)
        self.assertEqual(int(tree.get("failures")), sum(r["outcome"] != "ok" for r in rows))
        self.assertEqual(len(tree.findall(".//testcase")), 5)
        self.go("export", "runs/a", "--format", "xml", code=2)

    def test_a_full_disk_is_an_error(self):
        self.go("run", self.study, "--run-dir", "runs/a", *ONE)
        with open("/dev/full", "w") as full:
            process = subprocess.run([str(BUILD / "jaxbench"), "export", "runs/a"], cwd=self.root, env=environment(), stdout=full, stderr=subprocess.PIPE)
        self.assertNotEqual(process.returncode, 0)

    def test_every_template_is_a_valid_study(self):
        plugins = {kind: [r["name"] for r in jaxbench("list", kind, "--json").json()] for kind in ("methods", "backends")}
        names = self.go("init", "--list").out.split()
        self.assertIn("best_of_n", names)
        self.assertEqual(self.go("init").out, self.go("init", "--template", "best_of_n").out)
        for name in names:
            with self.subTest(template=name):
                text = self.go("init", "--template", name).out
                self.assertGreaterEqual(text.count("#"), 4, "a template explains itself")
                wanted = {"iterative": ("methods", "iterative"), "openai": ("backends", "openai")}.get(name)
                if wanted and wanted[1] not in plugins[wanted[0]]:
                    self.skipTest("this build has no plugin %s" % wanted[1])
                self.study.write_text(text)
                self.go("validate", self.study)
                self.go("plan", self.study)
        done = self.go("init", "--template", "best_of_m", code=2)
        self.assertIn("best_of_n", done.err)


# words typed, what must be among the completions, what must not
COMPLETIONS = [
    (["ev"], {"eval"}, {"run"}),
    ([""], {"run", "resume", "status", "stop", "plan", "export", "init", "completion"}, {"--json"}),
    (["eval", "--wo"], {"--workload"}, {"--seed"}),
    (["eval", "k.py", "--workload", ""], {"8p", "1p", "12p", "50k"}, set()),
    (["eval", "k.py", "--workload", "=", "8"], {"8p"}, {"1p"}),
    (["eval", "k.py", "-w", "8"], {"8p"}, {"1p"}),
    (["run", "s.yaml", "--"], {"--budget", "--only", "--json"}, {"--workload"}),
    (["--color", ""], {"auto", "always", "never"}, {"run"}),
    (["export", "x", "--format", ""], {"jsonl", "csv", "junit"}, set()),
    (["show", "wo"], {"workload"}, {"method"}),
    (["show", "workload", "5"], {"50k"}, {"8p"}),
    (["show", "method", ""], {"best_of_n"}, {"8p"}),
    (["list", "me"], {"methods"}, {"gates"}),
    (["completion", ""], {"bash", "zsh", "fish"}, set()),
    (["init", "--template", ""], {"best_of_n", "gate-study"}, set()),
    (["status", ""], {"one", "two"}, {"no-run"}),
    (["validate", "stu"], {"study.yaml"}, set()),
]


class Completion(Folder):
    def test_bash(self):
        for name in ("one", "two"):
            (self.root / "runs" / name).mkdir(parents=True)
            (self.root / "runs" / name / "manifest.json").write_text("{}")
        (self.root / "runs/no-run").mkdir()
        script = self.root / "completion.bash"
        script.write_text(self.go("completion", "bash").out)
        ask = 'source "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _jaxbench; printf "%s\\n" "${COMPREPLY[@]}"'
        for words, some, none in COMPLETIONS:
            with self.subTest(words=words):
                process = subprocess.run(["bash", "--norc", "-c", ask, str(script), str(BUILD / "jaxbench"), *words], cwd=self.root, env=environment(),
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", timeout=60)
                found = set(process.stdout.split())
                self.assertEqual(process.stderr, "")
                self.assertLessEqual(some, found)
                self.assertFalse(none & found, found)

    def test_every_verb_and_flag_is_there(self):
        script = self.go("completion", "bash").out
        verbs = [line.split()[0] for line in jaxbench("--help").out.split("Commands:\n")[1].split("\n\n")[0].splitlines()]
        self.assertGreater(len(verbs), 12)
        for verb in verbs:
            self.assertIn(verb, script)
            for word in jaxbench(verb, "--help").out.split():
                if word.startswith("--") and word.strip("-,.:").isalpha():
                    self.assertIn(word.strip(",.:"), script, verb)

    def test_zsh_and_fish(self):
        for shell, check in (("zsh", ["-n"]), ("fish", ["--no-execute"])):
            with self.subTest(shell=shell):
                script = self.root / ("completion." + shell)
                script.write_text(self.go("completion", shell).out)
                self.assertIn("workload", script.read_text())
                if not shutil.which(shell):
                    self.skipTest("%s is not installed" % shell)
                process = subprocess.run([shell, *check, str(script)], stderr=subprocess.PIPE, encoding="utf-8", timeout=60)
                self.assertEqual((process.returncode, process.stderr), (0, ""))
        if shutil.which("fish"):
            ask = 'source %s; complete -C"jaxbench eval k.py --workload "' % (self.root / "completion.fish")
            path = {"PATH": "%s:%s" % (BUILD, os.environ["PATH"])}
            process = subprocess.run(["fish", "--no-config", "-c", ask], env=environment(HOME=str(self.root)) | path, stdout=subprocess.PIPE, encoding="utf-8", timeout=60)
            self.assertIn("8p", process.stdout)
        self.go("completion", "tcsh", code=2)


class Install(Folder):
    def test_an_installed_tree_works_where_it_is_moved_to(self):
        prefix, moved = self.root / "first place", self.root / "second place" / "of it"
        process = subprocess.run(["cmake", "--install", str(BUILD), "--prefix", str(prefix)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        self.assertEqual(process.returncode, 0, process.stdout)
        moved.parent.mkdir()
        prefix.rename(moved)
        program, env = str(moved / "bin/jaxbench"), environment()

        def go(*args):
            process = subprocess.run([program, *map(str, args)], cwd=self.root, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                     encoding="utf-8", timeout=600)
            self.assertEqual(process.returncode, 0, process.stdout + process.stderr)
            return process.stdout

        self.assertIn("8p", [r["id"] for r in json.loads(go("list", "workloads", "--json"))])
        facts = json.loads(go("doctor", "--json"))
        for key in ("program", "root", "worker", "suite", "plugins"):
            self.assertTrue(facts["layout"][key].startswith(str(moved)), facts["layout"])
        record = json.loads(go("eval", ROOT / "tests/e2e/kernels/gemm_scratch.py", "--workload", "8p", "--shape", "tiny", "--skip", "compile", "--json"))
        self.assertEqual(record["outcome"], "ok", record)
        self.assertIn("schema: 1", go("init"))
        for name in ("share/jaxbench/examples/quickstart.yaml", "include/jaxbench/plugin.h", "share/doc/jaxbench/README.md"):
            self.assertTrue((moved / name).exists(), name)

        # Another venv: by variable, by the recorded place, by what lies beside it.
        venv = (moved / "share/jaxbench/venv.path").read_text().strip()
        (moved / "share/jaxbench/venv.path").write_text("nowhere/venv\n")
        broken = subprocess.run([str(moved / "libexec/jaxbench/jaxbench-worker"), "--probe"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8")
        self.assertIn("%s/nowhere/venv" % moved, broken.stdout)
        env["JAXBENCH_VENV"] = venv
        go("doctor")
        del env["JAXBENCH_VENV"]
        (moved / "share/jaxbench/venv").symlink_to(venv)
        go("doctor")


if __name__ == "__main__":
    unittest.main()
