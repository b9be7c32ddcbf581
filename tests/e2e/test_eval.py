# SPDX-License-Identifier: Apache-2.0
"""`jaxbench eval` on the list of kernels that must not get through, and on those
that must.  Rows of the tables are (file, allowed outcomes, words that the reason,
a stage's error or a flag must hold)."""

import json
import os
import pathlib
import re
import tempfile
import unittest

from tests.e2e.program import BUILD, KERNELS, ROOT, SECRET, environment, evaluate, jaxbench

TINY = ("--shape", "tiny", "--skip", "compile")

# On the tiny shape of 8p, without the TPU compiler.
HOSTILE = [
    ("gemm_scratch.py", {"ok"}, ""),
    ("gemm_own_interpret.py", {"ok"}, ""),
    ("gemm_scalar_prefetch.py", {"ok"}, ""),
    ("gemm_manual_dma.py", {"ok"}, ""),
    ("reply.md", {"ok"}, ""),
    ("gemm_full_only.py", {"inconclusive"}, "shape-specialised"),
    ("prose.md", {"no-code"}, "code"),
    ("cut_off.md", {"truncated"}, ""),
    ("cut_file.py", {"syntax"}, "line 5|was never closed"),
    ("syntax.py", {"syntax"}, "line 3|was never closed"),
    ("loop.py", {"timeout"}, ""),
    ("exit_forged.py", {"trace-error"}, ""),
    ("segv.py", {"trace-error"}, "SIGSEGV|signal 11|Segmentation"),
    ("alloc.py", {"trace-error"}, "[Mm]emory"),
    ("memfd.py", {"ok"}, ""),
    ("fork_bomb.py", {"trace-error", "timeout"}, ""),
    ("chatty.py", {"ok"}, ""),
    ("spy.py", {"ok"}, "denied"),
    ("jnp_only.py", {"not-pallas"}, ""),
    ("decoy.py", {"not-pallas"}, ""),
    ("callback.py", {"trace-error"}, "callback"),
    ("forged_module.py", {"trace-error", "suspicious"}, "callback"),
    ("forged_huge.py", {"trace-error", "suspicious"}, ""),
    ("forged_truncated.py", {"trace-error", "suspicious"}, ""),
    ("platform_branch.py", {"suspicious", "wrong"}, ""),
    ("lost_tail.py", {"wrong"}, "block"),
    ("k_outermost.py", {"wrong"}, "block|revisit"),
    ("wrong_dtype.py", {"contract"}, "float32.*bfloat16|bfloat16.*float32"),
    ("wrong_shape.py", {"contract"}, ""),
    ("wrong_tree.py", {"contract"}, ""),
    # Last, so that what the others left behind would show.
    ("gemm_scratch.py", {"ok"}, ""),
]

# What may follow a stage that the executor must never have reached.
NOT_REACHED = {"forged_module.py", "forged_huge.py", "forged_truncated.py", "exit_forged.py", "segv.py", "callback.py"}


def words(record):
    """Everything a person could read about why: reason, stage errors, flags, findings."""
    parts = [record.get("reason") or ""]
    for stage in record.get("stages", {}).values():
        parts += [stage.get("reason") or "", stage.get("error") or ""] + list(stage.get("flags", []))
        parts += ["%s %s" % (f.get("id"), f.get("detail")) for f in stage.get("findings", [])]
    return "\n".join(parts)


def prepared(folder, name):
    """A kernel with the machine's own paths filled in."""
    text = (KERNELS / name).read_text()
    if "@SUITE@" not in text:
        return KERNELS / name
    path = pathlib.Path(folder) / name
    path.write_text(text.replace("@SUITE@", str(ROOT / "suite")).replace("@HOME@", str(pathlib.Path.home())))
    return path


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
        paths = [prepared(cls.folder.name, name) for name, _, _ in HOSTILE]
        done = jaxbench("eval", *paths, "--workload", "8p", *TINY, "--limit", "trace_s=30", "--json", timeout=600)
        cls.done = done
        cls.records = done.json()

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_every_candidate_has_a_record(self):
        self.assertEqual(self.done.code, 3, self.done)
        self.assertEqual(len(self.records), len(HOSTILE))

    def test_outcomes(self):
        for (name, allowed, pattern), record in zip(HOSTILE, self.records):
            with self.subTest(kernel=name):
                seen = "%s: %s\n%s" % (record["outcome"], record.get("reason"), words(record))
                self.assertIn(record["outcome"], allowed, seen)
                self.assertRegex(words(record), re.compile(pattern, re.S), seen)
                if record["outcome"] != "ok":
                    self.assertTrue(record.get("reason"), "no reason on one line: %r" % record)
                    self.assertNotIn("\n", record["reason"])

    def test_the_executor_is_never_reached(self):
        for (name, _, _), record in zip(HOSTILE, self.records):
            if name in NOT_REACHED:
                with self.subTest(kernel=name):
                    self.assertEqual(record["stages"].get("check", {}).get("status", "skipped"), "skipped", record)

    def test_access_is_denied_and_flagged(self):
        record = next(r for (n, _, _), r in zip(HOSTILE, self.records) if n == "spy.py")
        flags = " ".join(record["stages"]["trace"].get("flags", []))
        for what in ("environment", "file", "network"):
            self.assertIn(what, flags)

    def test_output_is_capped_and_no_key_leaks(self):
        record = next(r for (n, _, _), r in zip(HOSTILE, self.records) if n == "chatty.py")
        self.assertLess(len(record.get("log", "")), 64 * 1024)
        self.assertGreaterEqual(record.get("log_bytes", 0), 50 << 20)
        self.assertNotIn(SECRET, self.done.out + self.done.err)

    def test_terminal_escapes_are_shown_not_obeyed(self):
        done = jaxbench("eval", KERNELS / "chatty.py", "--workload", "8p", *TINY)
        self.assertEqual(done.code, 0, done)
        self.assertNotIn("\x1b", done.out + done.err)


class FullPath(unittest.TestCase):
    """With the real TPU compiler and the gate shapes."""

    def test_right_kernel_of_each_workload(self):
        for workload, folder in (("1p", "1p_flash_attention"), ("8p", "8p_gemm"), ("12p", "12p_rms_norm"),
                                 ("50k", "50k_matmul_gelu_softmax")):
            with self.subTest(workload=workload):
                record = evaluate([ROOT / "suite/jaxbench" / folder / "plain.py"], workload)["plain.py"]
                self.assertEqual(record["outcome"], "ok", words(record))
                self.assertEqual(record["stages"]["compile"]["status"], "ok")
                self.assertEqual(record["stages"]["compile"]["target"], "TPU v6 lite")
                self.assertEqual(record["gates"]["literature"]["verdict"], "pass")
                self.assertEqual(record["gates"]["robust"]["verdict"], "pass")
                self.assertGreaterEqual(record["stages"]["inspect"]["flops"]["share"], 0.9)
                self.assertEqual(record["numerics"], "interpret")

    def test_right_kernel_after_literature_alone(self):
        record = evaluate([ROOT / "suite/jaxbench/12p_rms_norm/plain.py"], "12p", "--gates", "literature")["plain.py"]
        self.assertEqual(record["outcome"], "ok", words(record))
        self.assertEqual(list(record["gates"]), ["literature"])

    def test_zeros_pass_literature_and_are_wrong(self):
        record = evaluate(["zeros.py"], "50k", "--skip", "compile")["zeros.py"]
        self.assertEqual(record["outcome"], "wrong", words(record))
        self.assertEqual(record["gates"]["literature"]["verdict"], "pass")
        self.assertEqual(record["gates"]["robust"]["verdict"], "fail")

    def test_embedded_answer_is_wrong_and_the_finding_named(self):
        record = evaluate(["embedded.py"], "8p", "--skip", "compile")["embedded.py"]
        self.assertEqual(record["outcome"], "wrong", words(record))
        self.assertRegex(words(record), "embedded-constant|constant-output|unread-input")

    def test_the_compilers_own_words(self):
        records = evaluate(["bad_block.py", "vmem.py"], "8p", "--shape", "tiny")
        self.assertIn(records["bad_block.py"]["outcome"], {"compile-error", "trace-error"})
        self.assertRegex(words(records["bad_block.py"]), "divisible by 8|block shape")
        self.assertEqual(records["vmem.py"]["outcome"], "compile-error", words(records["vmem.py"]))
        self.assertRegex(words(records["vmem.py"]), "(?i)vmem")

    def test_cheap_at_the_timed_shape(self):
        record = evaluate(["big_shape_branch.py"], "8p", "--skip", "compile")["big_shape_branch.py"]
        self.assertIn(record["outcome"], {"suspicious", "wrong"}, words(record))

    def test_hang_in_the_cpu_compiler_ends_and_the_next_is_judged(self):
        done = jaxbench("eval", KERNELS / "xla_hang.py", KERNELS / "gemm_scratch.py", "--workload", "8p", *TINY,
                        "--limit", "check_s=20", "--json", timeout=300)
        records = done.json()
        self.assertIn(records[0]["outcome"], {"timeout", "runtime-error"}, words(records[0]))
        self.assertEqual(records[1]["outcome"], "ok", words(records[1]))

    def test_record_is_one_json_document(self):
        done = jaxbench("eval", KERNELS / "gemm_scratch.py", "--workload", "8p", *TINY, "--json")
        record = json.loads(done.out)
        self.assertEqual((record["schema"], record["workload"], record["outcome"]), (1, "8p", "ok"))
        self.assertEqual(done.code, 0)


# How the checker of tests/harness/bad_checker.c misbehaves; words of the reason.
BROKEN_CHECKERS = [
    ("trial-crash", r"checker bad of gate set bad \(plugin test\.bad-checker\) broke in trial: the process was killed by SIGSEGV"),
    ("trial-loop", r"\(plugin test\.bad-checker\) hung in trial: stopped after"),
    ("verdict-crash", r"\(plugin test\.bad-checker\) broke in verdict"),
    ("create-crash", r"\(plugin test\.bad-checker\) broke in create"),
    ("needs-crash", r"\(plugin test\.bad-checker\) broke in needs"),
    ("trial-nan", "checker bad of gate set bad broke in trial: it gave a score of nan"),
    ("verdict-negative", "checker bad of gate set bad broke in verdict: it gave a score of -1"),
]


class BrokenCheckers(unittest.TestCase):
    """A checker that dies, hangs or can't count is never the candidate's fault."""

    def eval_with(self, how):
        with tempfile.TemporaryDirectory(prefix="jaxbench-e2e-") as folder:
            gates = pathlib.Path(folder) / "bad.yaml"
            gates.write_text("schema: 1\nname: bad\nvariant: repaired\nsummary: a checker that misbehaves\nrows:\n"
                             "  - {use: bad, how: %s, over: {shapes: [gate], draws: {own: 1}}, when: loop}\n" % how)
            env = environment(JAXBENCH_PLUGIN_PATH=str(BUILD / "tests/harness/plugins"))
            return jaxbench("eval", KERNELS / "gemm_scratch.py", "--workload", "8p", *TINY, "--gates", gates,
                            "--limit", "check_s=5", "--json", env=env, timeout=300)

    def test_the_checker_is_named_and_the_outcome_infra(self):
        for how, pattern in BROKEN_CHECKERS:
            with self.subTest(checker=how):
                done = self.eval_with(how)
                record = done.json()
                self.assertEqual(record["outcome"], "infra", words(record))
                self.assertRegex(record["reason"], pattern)
                self.assertEqual(done.code, 4, done)

    def test_the_same_checker_judges_when_it_behaves(self):
        record = self.eval_with("not").json()
        self.assertEqual(record["outcome"], "ok", words(record))


class Limits(unittest.TestCase):
    def test_a_limit_that_no_kernel_can_keep_is_a_usage_error(self):
        for limit, least in (("memory_mb=1", 512), ("trace_s=0.01", 5), ("check_s=-3", 5)):
            with self.subTest(limit=limit):
                done = jaxbench("eval", KERNELS / "gemm_scratch.py", "--workload", "8p", *TINY, "--limit", limit)
                self.assertEqual(done.code, 2, done)
                self.assertRegex(done.err, "limit %s must be %d to" % (limit.split("=")[0], least))


class RottenCache(unittest.TestCase):
    def test_damaged_references_are_made_again(self):
        with tempfile.TemporaryDirectory(prefix="jaxbench-e2e-") as folder:
            env = environment(JAXBENCH_CACHE=folder)
            for turn in range(2):
                done = jaxbench("eval", KERNELS / "gemm_scratch.py", "--workload", "8p", *TINY, "--json", env=env)
                self.assertEqual(done.json()["outcome"], "ok", done)
                if turn == 1:
                    self.assertIn("made again", done.err)
                    break
                files = sorted(pathlib.Path(folder).glob("refs/*.ref"))
                self.assertTrue(files)
                for i, path in enumerate(files):
                    if i % 2:
                        path.unlink()
                        os.mkfifo(path)
                        continue
                    with open(path, "r+b") as f:  # the last array, behind the header
                        f.seek(-4096, 2)
                        f.write(b"\x55" * 64)


if __name__ == "__main__":
    unittest.main()
