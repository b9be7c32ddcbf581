# SPDX-License-Identifier: Apache-2.0
"""errors: what is kept of an exception and what is not."""

import linecache
import unittest

from jaxbench_harness import errors


def caught(fn):
    try:
        fn()
    except BaseException as bad:
        return bad
    raise AssertionError("nothing was raised")


class LoweringException(Exception):
    pass


class JaxStackTraceBeforeTransformation(Exception):
    pass


class Clean(unittest.TestCase):
    ROWS = [
        ("in /home/u/.venv/lib/python3.11/site-packages/jax/_src/core.py:3", "in jax/_src/core.py:3"),
        ('File "/opt/x/jaxbench_harness/export.py", line 3', 'File "jaxbench_harness/export.py", line 3'),
        ("see /usr/lib/python3.11/json/decoder.py", "see json/decoder.py"),
        ("RESOURCE_EXHAUSTED: too much [type.googleapis.com/tensorflow.tpu.X='\\x08\\n more']", "RESOURCE_EXHAUSTED: too much"),
        ("bad\n--------------------\nFor simplicity, JAX has removed its internal frames from the traceback.", "bad"),
        ("a lone surrogate \ud800.", "a lone surrogate ?."),
        ("a/b and 3/4 stay", "a/b and 3/4 stay"),
    ]

    def test_table(self):
        for text, wanted in self.ROWS:
            self.assertEqual(errors.clean(text), wanted)


class Cap(unittest.TestCase):
    def test_short_text_is_untouched(self):
        for text in ("", "x", "é" * 2048):
            self.assertEqual(errors.cap(text), text)

    def test_long_text_keeps_head_and_end_in_bytes(self):
        for text in ("HEAD" + "é" * 50000 + "END", "HEAD" + "x" * 4097 + "END"):
            short = errors.cap(text)
            self.assertLessEqual(len(short.encode()), errors.DETAIL_MAX)
            self.assertGreater(len(short.encode()), errors.DETAIL_MAX - 64)
            self.assertTrue(short.startswith("HEAD") and short.endswith("END"))
            self.assertIn("bytes left out", short)

    def test_one_line(self):
        self.assertEqual(errors.one_line("\n  \n  a   b\nc"), "a b")
        self.assertEqual(errors.one_line(""), "")
        self.assertEqual(len(errors.one_line("x" * 1000)), errors.REASON_MAX)


class Describe(unittest.TestCase):
    def setUp(self):
        self.source = "def outer():\n    inner()\ndef inner():\n    raise ValueError('first\\nsecond')\n"
        linecache.cache["candidate.py"] = (1, None, self.source.splitlines(True), "candidate.py")
        self.space = {}
        exec(compile(self.source, "candidate.py", "exec"), self.space)

    def test_frames_of_the_candidate_only(self):
        reason, error = errors.describe(caught(self.space["outer"]), "candidate.py")
        self.assertEqual(reason, "ValueError: first")
        self.assertEqual(error, 'Traceback (most recent call last):\n  File "candidate.py", line 2, in outer\n    inner()\n'
                                '  File "candidate.py", line 4, in inner\n    raise ValueError(\'first\\nsecond\')\nValueError: first\nsecond')

    def test_wrappers_give_way_to_the_cause(self):
        def wrapped():
            try:
                self.space["outer"]()
            except ValueError as bad:
                raise LoweringException("Exception while lowering eqn:\n  a = b\nIn jaxpr:\n long") from bad

        reason, error = errors.describe(caught(wrapped), "candidate.py")
        self.assertEqual(reason, "ValueError: first")
        self.assertIn("in inner", error)
        self.assertTrue(error.endswith("LoweringException: Exception while lowering eqn:\n  a = b"), error)

    def test_a_stack_trace_of_jax_is_no_cause(self):
        def wrapped():
            raise TypeError("real") from JaxStackTraceBeforeTransformation("ValueError: other")

        self.assertEqual(errors.describe(caught(wrapped))[0], "TypeError: real")

    def test_loops_deep_stacks_and_hostile_classes(self):
        a, b = ValueError("a"), ValueError("b")
        a.__cause__, b.__cause__ = b, a
        self.assertEqual(errors.describe(a), ("ValueError: a", "ValueError: a"))
        space = {}
        exec(compile("def f(n):\n    return f(n - 1) if n else 1 / 0", "candidate.py", "exec"), space)
        error = errors.describe(caught(lambda: space["f"](100)), "candidate.py")[1]
        self.assertEqual(error.count("  File "), errors.FRAMES_MAX)

        class Hostile(Exception):
            def __str__(self):
                raise SystemExit

        self.assertEqual(errors.describe(Hostile())[0], "Hostile: <its text can't be shown>")
        self.assertEqual(errors.describe(MemoryError())[0], "MemoryError: out of memory")
        self.assertEqual(errors.describe(KeyError())[0], "KeyError")


if __name__ == "__main__":
    unittest.main()
