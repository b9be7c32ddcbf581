# SPDX-License-Identifier: Apache-2.0
"""The page and the summary: what they say, that hostile text stays text, and that
their size has an end."""

import contextlib
import copy
import io
import json
import pathlib
import re
import unittest

from tests.report_py.support import HOSTILE, MARK, Made, Parsed

from jaxbench_report import __main__ as program, charts, embed, page, view

TEXTS = dict.fromkeys(("reason", "reply", "source", "prompt", "error", "log", "detail"), HOSTILE)
QUIET_TAGS = {"html", "head", "meta", "link", "title", "style", "body", "a", "main", "article", "header", "footer", "section", "nav", "h1", "h2", "h3",
              "h4", "p", "ul", "ol", "li", "dl", "div", "dt", "dd", "span", "b", "i", "small", "strong", "code", "pre", "details", "summary", "table",
              "caption", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "input", "label", "svg", "g", "path", "rect", "line", "text",
              "defs", "clippath", "circle"}


class Plain(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = Made(96, methods=3, bodies=True, timed=True).__enter__()
        cls.markup = cls.made.page()
        cls.page = Parsed(cls.markup)

    @classmethod
    def tearDownClass(cls):
        cls.made.__exit__()

    def test_every_section_is_there(self):
        for name in ("board", "outcomes", "gates", "cost", "workloads", "candidates", "prompts"):
            self.assertIn("r1-" + name, self.page.ids)
        for words in ("No model wrote these candidates", "Wilson", "unpriced", "required, all 14 walls up", "literature accepts, robust rejects"):
            self.assertIn(words, self.page.text)

    def test_numbers_are_those_of_the_document(self):
        flat = re.sub(r"\s+", " ", self.page.text)
        for m in self.made.document["methods"]:
            self.assertIn("%d/%d" % (m["correct"], m["denominator"]["counted"]), flat)
            self.assertIn("%.2f×" % m["speed"]["geomean_floor1"], flat)
            self.assertIn("%.2f×" % m["speed"]["geomean_fail1"], flat)
        self.assertEqual(self.markup.count('class="body" id='), 96)

    def test_links_inside_the_page_lead_somewhere(self):
        self.assertEqual(len(self.page.ids), len(set(self.page.ids)))
        inside = {link[1:] for link in self.page.links if link.startswith("#")}
        self.assertEqual(inside - set(self.page.ids), set())

    def test_links_to_files_exist(self):
        files = [link for link in self.page.links if not link.startswith(("#", "data:"))]
        self.assertGreater(len(files), 96)
        for link in files:
            self.assertTrue((self.made.folder / link.replace("%2B", "+")).exists(), link)

    def test_nothing_is_fetched_and_nothing_runs(self):
        self.assertEqual(set(self.page.tags) - QUIET_TAGS, set())
        self.assertIn("default-src 'none'", self.markup)
        self.assertNotRegex(self.markup, r"(?i)url\((?!#)|@import|https?://(?!www\.w3\.org/)")

    def test_worst_elements_and_killers(self):
        self.assertRegex(self.page.text, r"Killed by error_ratio on draw \w+ #0, shape gate: score 7.25, threshold 1.1")
        self.assertRegex(self.page.text, r"Worst elements, error_ratio on own #0 \(rms\)")

    def test_without_timing_speed_is_not_available(self):
        document = copy.deepcopy(self.made.document)
        for m in document["methods"]:
            m["speed"] = {"status": "n/a", "reason": "no kernel was timed natively beside its baseline"}
            m["at_samples"].pop("fast1", None)
        for cell in document["cells"]:
            for row in [*cell["candidates"], cell["best"] or {}]:
                row.pop("baseline_median_us", None)
        text = Parsed(page.render(document, "html", self.made.folder)).text
        self.assertIn("Speed is n/a: no kernel was timed natively beside its baseline", text)
        self.assertNotIn("×", text)

    def test_money(self):
        document = copy.deepcopy(self.made.document)
        document["methods"][0]["ledger"]["money"] = {"usd": 0.125, "unpriced_calls": 0}
        document["methods"][1]["ledger"]["money"] = {"usd": 0.5, "unpriced_calls": 3}
        text = Parsed(page.render(document, "html", self.made.folder)).text
        self.assertIn("$0.125", text)
        self.assertIn("$0.5, 3 calls unpriced", text)

    def test_several_runs(self):
        both = {"schema": 1, "runs": [self.made.document, self.made.document]}
        parsed = Parsed(page.render(both, "html", self.made.folder))
        self.assertIn("2 runs", parsed.text)
        self.assertEqual(len(parsed.ids), len(set(parsed.ids)))

    def test_markdown(self):
        summary = self.made.page("md")
        m = self.made.document["methods"][0]
        self.assertIn("| best-of-n | scripted (no model) | %d/%d [" % (m["solved"], m["workloads"]), summary)
        rows = [line for line in summary.splitlines() if line.startswith("|")]
        self.assertTrue(all(line.endswith("|") for line in rows), rows)

    def test_the_run_is_gone(self):
        document = copy.deepcopy(self.made.document)
        document["run_dir"] = str(self.made.folder / "moved")
        self.assertIn("folder holds no record of it", Parsed(page.render(document, "html", self.made.folder)).text)


class Hostile(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = Made(48, methods=1, bodies=True, texts=TEXTS, labels={"method": HOSTILE, "gate": "lit<script>|"}).__enter__()
        cls.markup = cls.made.page()
        cls.page = Parsed(cls.markup)

    @classmethod
    def tearDownClass(cls):
        cls.made.__exit__()

    def test_it_is_shown(self):
        self.assertIn("<script>window.%s=1</script>" % MARK, self.page.text)
        self.assertIn("{{ 7*7 }}", self.page.text)
        self.assertIn("\\x1b[31mred", self.page.text)
        self.assertIn("\\u202egnp.exe", self.page.text)

    def test_it_is_nothing_else(self):
        self.assertEqual(set(self.page.tags) - QUIET_TAGS, set())
        self.assertEqual([a for a in self.page.attributes if a[1].startswith("on")], [])
        self.assertEqual([link for link in self.page.links if not link.startswith(("#", "./", "data:,"))], [])
        self.assertEqual(self.page.tags["style"], 1)

    def test_no_control_or_direction_mark_is_left(self):
        found = re.findall("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]", self.markup)
        self.assertEqual(found, [])

    def test_in_markdown(self):
        summary = self.made.page("md")
        self.assertNotRegex(summary, r"(?<!\\)<script")
        self.assertNotIn("\x1b", summary)
        for line in summary.splitlines():
            if line.startswith("| ") and "PWNED" in line and "no model" in line:
                self.assertEqual(len(re.findall(r"(?<!\\)\|", line.replace("\\\\", ""))), 9, line)

    def test_a_record_of_other_types(self):
        """Every value of a record replaced by every other type: a page all the same."""
        for other in (None, 3, "x", [], [3], {}, {"x": 1}, True):
            for path in self.made.folder.glob("cells/*/1/result.json"):
                record = json.loads(path.read_text())
                for key in list(record["record"]):
                    record["record"][key] = other
                path.write_text(json.dumps(record))
            with self.subTest(other=other):
                self.assertIn("</html>", self.made.page())


class Size(unittest.TestCase):
    def test_ten_thousand_candidates_stay_below_the_promise(self):
        reply = "x = 1  # <&>\n" * 2000  # long, and longer once escaped
        with Made(10000, texts={"reason": HOSTILE + "y" * 300}) as made:
            for cell in made.document["cells"]:
                for row in cell["candidates"][:300]:
                    place = made.folder / "cells" / cell["folder"] / str(row["id"])
                    place.mkdir(parents=True)
                    (place / "reply.txt").write_text(reply)
                    (place / "candidate.py").write_text(reply)
            markup = made.page()
        size = len(markup.encode())
        self.assertLess(size, embed.PAGE_BYTES)
        self.assertIn("10\u202f000 candidates", markup)
        full = markup.count('class="body" id=')
        self.assertGreater(full, 20)
        self.assertEqual(full + markup.count(" flat\" id="), 10000)

    def test_more_rows_than_a_page_has_room_for(self):
        with Made(600, methods=1) as made:
            rows, embed.ROWS_BYTES = embed.ROWS_BYTES, 20_000
            try:
                text = Parsed(made.page()).text
            finally:
                embed.ROWS_BYTES = rows
        self.assertRegex(text, r"\d+ have no row here either; jaxbench report RUN --json lists all")


class Order(unittest.TestCase):
    def test_what_matters_most_comes_first(self):
        with Made(96, methods=2) as made:
            run = view.runs_of(made.document, made.folder)[0]
        order = embed.by_interest(run)
        self.assertEqual(len(order), 96)
        self.assertEqual(len({k.anchor for k in order}), 96)
        best = sum(k.is_best for k in order)
        self.assertTrue(all(k.is_best for k in order[:best]))
        split = [k for k in order if not k.is_best and {"pass", "fail"} <= set(k.verdicts.values())]
        self.assertGreater(len(split), 0)
        self.assertEqual(order[best:best + len(split)], split)


class Drawing(unittest.TestCase):
    def test_only_what_draws_is_kept(self):
        svg = ('<svg xmlns="http://www.w3.org/2000/svg" width="9" onload="x()"><script>x()</script><g id="a" clip-path="url(#a)" style="x">'
               '<foreignObject/><image href="http://x/"/><text fill="url(http://x)">&lt;script&gt;</text></g></svg>')
        clean = charts._clean(svg, "r1-")
        self.assertEqual(clean, '<svg xmlns="http://www.w3.org/2000/svg" width="9"><g id="r1-a" clip-path="url(#r1-a)"><text>&lt;script&gt;</text></g></svg>')

    def test_labels_are_unique_and_short(self):
        class Method:
            label = "m" * 100
        names = charts._labels([Method, Method])
        self.assertEqual(len(set(names)), 2)
        self.assertTrue(all(len(n) <= charts.LABEL_CHARS + 5 for n in names))


class Program(unittest.TestCase):
    def test_documents_that_are_none(self):
        for text in ("{}", '{"schema":2,"kind":"report"}', '{"runs":[]}', "[]", "3", '{"runs":[3]}'):
            said = io.StringIO()
            with self.subTest(text=text), contextlib.redirect_stderr(said):
                self.assertEqual(program.main(["html"], io.BytesIO(text.encode()), io.BytesIO()), 2)
                self.assertIn("expected report", said.getvalue())

    def test_a_report_of_nothing(self):
        empty = {"schema": 1, "kind": "report", "name": "nothing"}
        for form in ("html", "md"):
            self.assertIn("nothing", page.render(empty, form, pathlib.Path(".")))
