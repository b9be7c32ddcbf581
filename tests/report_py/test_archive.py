# SPDX-License-Identifier: Apache-2.0
"""Reading a run's folder that somebody prepared: links, pipes, names that climb,
sizes, and bodies that are not those of the journal."""

import hashlib
import json
import os
import pathlib
import tempfile
import unittest

import tests.report_py  # noqa: F401  (the path of the package)
from jaxbench_report import archive

SECRET = "the file that nobody asked for"


class Folder(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="jaxbench-report-")
        self.root = pathlib.Path(self.temporary.name, "run")
        self.place = self.root / "cells/c/1"
        self.place.mkdir(parents=True)
        (self.root / "blobs").mkdir()
        (pathlib.Path(self.temporary.name) / "secret").write_text(SECRET)
        self.archive = archive.Archive(self.root)

    def tearDown(self):
        self.temporary.cleanup()

    def test_bodies(self):
        (self.place / "reply.txt").write_text("a reply")
        (self.place / "result.json").write_text(json.dumps({"outcome": "ok"}))
        reply = self.archive.reply("c", 1)
        self.assertEqual((reply.text, reply.bytes, reply.cut, reply.note), ("a reply", 7, False, ""))
        self.assertEqual(self.archive.record("c", 1), {"outcome": "ok"})
        self.assertIsNone(self.archive.reply("c", 2))
        self.assertIsNone(archive.Archive(None).reply("c", 1))

    def test_long_bodies_are_cut_and_say_so(self):
        (self.place / "reply.txt").write_text("é" * archive.BODY_BYTES)
        reply = self.archive.reply("c", 1)
        self.assertTrue(reply.cut)
        self.assertEqual(reply.bytes, 2 * archive.BODY_BYTES)
        self.assertLessEqual(len(reply.text.encode()), archive.BODY_BYTES + 3)

    def test_no_link_is_followed(self):
        os.symlink(pathlib.Path(self.temporary.name) / "secret", self.place / "reply.txt")
        os.symlink(self.place, self.root / "cells/linked")
        (self.place / "candidate.py").write_text("x")
        os.symlink("c", self.root / "cells/d")
        self.assertIsNone(self.archive.reply("c", 1))
        self.assertIsNone(self.archive.source("linked", 1, ""))
        self.assertIsNone(self.archive.source("d", 1, ""))

    def test_names_that_climb(self):
        (self.root / "reply.txt").write_text(SECRET)
        for folder in ("..", ".", "", "c/../c", "/etc", "c\0"):
            with self.subTest(folder=folder):
                self.assertIsNone(self.archive.reply(folder, 1))
        self.assertIsNone(self.archive.prompt("..", 1, "../../secret"))

    def test_pipes_and_folders_are_no_bodies(self):
        os.mkfifo(self.place / "reply.txt")
        (self.place / "candidate.py").mkdir()
        self.assertIsNone(self.archive.reply("c", 1))
        self.assertIsNone(self.archive.source("c", 1, ""))

    def test_a_source_that_is_not_the_judged_one(self):
        judged = b"def workload(x):\n    return x"
        digest = hashlib.sha256(judged).hexdigest()
        for kept in (judged, judged + b"\n\n", judged.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + judged):
            (self.place / "candidate.py").write_bytes(kept)
            self.assertEqual(self.archive.source("c", 1, digest).note, "", kept)
        (self.place / "candidate.py").write_bytes(judged + b" + 1")
        self.assertIn("differs", self.archive.source("c", 1, digest).note)

    def test_a_prompt_by_its_hash(self):
        digest = hashlib.sha256(b"do it").hexdigest()
        (self.place / "prompt.txt").write_text("own copy")
        self.assertEqual(self.archive.prompt("c", 1, digest).text, "own copy")  # no blob: the candidate's copy
        (self.root / "blobs" / digest).write_text("do it")
        self.assertEqual(self.archive.prompt("c", 1, digest).text, "do it")
        (self.root / "blobs" / digest).write_text("do that")
        self.assertIn("damaged", self.archive.prompt("c", 1, digest).note)

    def test_records_that_are_none(self):
        for content in ("", "[]", "{", "3", "[" * 100000):
            (self.place / "result.json").write_text(content)
            self.assertIsNone(self.archive.record("c", 1), content[:10])
        (self.place / "result.json").write_text('"%s"' % ("x" * archive.RECORD_BYTES))
        self.assertIsNone(self.archive.record("c", 1))
