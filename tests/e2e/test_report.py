# SPDX-License-Identifier: Apache-2.0
"""`report` as a page: written by the program, and looked at in headless Chromium at
three widths, light and dark.  The run is made up (tests/report_py/make_run.py) and
everything a candidate wrote in it is hostile.  Set JAXBENCH_TEST_PICTURES to a
folder to keep the pictures."""

import os
import pathlib
import shutil
import unittest

from tests.e2e import browser
from tests.e2e.program import environment, jaxbench, scratch
from tests.report_py.make_run import Maker
from tests.report_py.support import HOSTILE, MARK

WIDTHS = (360, 768, 1280)
SECTIONS = ("board", "outcomes", "gates", "cost", "workloads", "candidates", "prompts")
TEXTS = dict.fromkeys(("reason", "reply", "source", "prompt", "error", "log", "detail"), HOSTILE + " " + "w" * 300)
OPEN_ALL = "document.querySelectorAll('details').forEach(d => d.open = true)"
# Elements that stick out of the window and do not lie in a box that scrolls.
STICKING_OUT = """[...document.querySelectorAll('main *')].filter(e => !e.parentElement.closest('.scroll, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5).map(e => e.tagName + '.' + e.className)"""
# Relative luminance contrast of text and background (WCAG 2), the lowest over the samples.
CONTRAST = """(() => {
  const lum = c => { const [r, g, b] = c.map(v => (v /= 255) <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b; };
  const rgb = s => s.match(/[\\d.]+/g).map(Number);
  const back = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const rows = [...document.querySelectorAll('p, td, th, small, .badge, .badge b, .s, dt, dd, a, summary, pre, .why, i')].filter(e => e.textContent.trim() && e.checkVisibility())
    .map(e => { const a = lum(rgb(getComputedStyle(e).color).slice(0, 3)), b = lum(back(e).slice(0, 3)); return [(Math.max(a, b) + .05) / (Math.min(a, b) + .05), e.tagName + '.' + e.className]; });
  return rows.sort((x, y) => x[0] - y[0])[0];
})()"""


class Program(unittest.TestCase):
    """What needs no browser."""

    @classmethod
    def setUpClass(cls):
        cls.scratch = scratch()
        cls.root = pathlib.Path(cls.scratch.name)
        cls.run_dir = Maker(cls.root / "run", 24, methods=2, bodies=True).write()

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_a_page_in_a_file_and_on_stdout(self):
        done = jaxbench("report", self.run_dir, "--html", self.root / "page.html")
        self.assertEqual(done.code, 0, done)
        self.assertIn("page.html", done.err)
        self.assertIn("</html>", (self.root / "page.html").read_text())
        done = jaxbench("report", self.run_dir, self.run_dir, "--html", "-", cwd=self.root)
        self.assertEqual(done.code, 0, done)
        self.assertTrue(done.out.startswith("<!doctype html>"), done.out[:100])
        self.assertIn('href="./run/cells/', done.out.replace('href="run/', 'href="./run/'))

    def test_markdown(self):
        done = jaxbench("report", self.run_dir, "--md")
        self.assertEqual(done.code, 0, done)
        self.assertIn("## Leaderboard", done.out)

    def test_one_form_at_a_time(self):
        for forms in (("--md", "--json"), ("--md", "--html", "x"), ("--json", "--html", "x")):
            self.assertEqual(jaxbench("report", self.run_dir, *forms).code, 2, forms)

    def test_no_venv(self):
        done = jaxbench("report", self.run_dir, "--md", env=environment(JAXBENCH_PYTHON="/nowhere/python"))
        self.assertEqual(done.code, 2, done)
        self.assertIn("/nowhere/python", done.err)
        self.assertIn("./quickstart", done.err)

    def test_a_venv_without_the_packages(self):
        done = jaxbench("report", self.run_dir, "--md", env=environment(JAXBENCH_PYTHON=shutil.which("python3", path="/usr/bin:/bin") or "/usr/bin/python3"))
        if done.code == 0:
            self.skipTest("the system's Python has Jinja2")
        self.assertEqual(done.code, 1 if "exited" in done.err else 2, done)
        self.assertIn("quickstart", done.err)

    def test_a_place_that_can_not_be_written(self):
        done = jaxbench("report", self.run_dir, "--html", self.root / "none/page.html")
        self.assertNotEqual(done.code, 0)
        self.assertIn("none/page.html", done.err)


@unittest.skipUnless(browser.find(), "no chromium on the PATH: the page was not looked at (apt-get install chromium)")
class Looked(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = scratch()
        root = pathlib.Path(cls.scratch.name)
        run_dir = Maker(root / "run", 72, methods=3, bodies=True, timed=True, texts=TEXTS, labels={"method": HOSTILE}).write()
        cls.file = root / "page.html"
        done = jaxbench("report", run_dir, "--html", cls.file)
        if done.code != 0:
            raise AssertionError("report --html failed: %r" % done)
        cls.browser = browser.Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.__exit__()
        cls.scratch.cleanup()

    def test_at_three_widths_light_and_dark(self):
        for width in WIDTHS:
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.look(width, dark)

    def look(self, width, dark):
        page = self.browser.open(self.file, width, dark=dark)
        for name in SECTIONS:
            self.assertTrue(page.ask("document.getElementById('r1-%s').checkVisibility()" % name), name)
        self.assertEqual(page.ask("getComputedStyle(document.body).backgroundColor") == "rgb(19, 21, 25)", dark)
        self.picture(page, width, dark, "closed")
        page.ask(OPEN_ALL)
        self.assertEqual(page.ask(STICKING_OUT), [])
        self.assertEqual(page.ask("document.documentElement.scrollWidth"), width)
        self.assertEqual(page.ask("document.querySelectorAll('figure svg').length"), 4)
        ratio, where = page.ask(CONTRAST)
        self.assertGreaterEqual(ratio, 4.5, where)
        self.picture(page, width, dark, "open")
        page.close()

    def picture(self, page, width, dark, state):
        folder = os.environ.get("JAXBENCH_TEST_PICTURES")
        if folder:
            page.picture(pathlib.Path(folder) / ("report-%d-%s-%s.png" % (width, "dark" if dark else "light", state)), whole=state == "closed")

    def test_nothing_ran_and_nothing_was_asked_for(self):
        page = self.browser.open(self.file, 1280)
        page.ask(OPEN_ALL)
        self.assertEqual(page.ask("typeof window.%s" % MARK), "undefined")
        self.assertEqual(page.ask("document.querySelectorAll('script, img, iframe, object, embed, form, [onload], [onerror], [onmouseover]').length"), 0)
        self.assertEqual(page.ask("document.querySelectorAll('link').length"), 1)
        self.assertEqual([u for u in page.requests() if not u.startswith("data:")], [self.file.as_uri()])
        self.assertIn("<script>window.%s=1</script>" % MARK, page.ask("document.querySelector('pre').textContent"))
        page.close()

    def test_a_link_opens_what_it_leads_to(self):
        page = self.browser.open(self.file, 1280)
        target = page.ask("document.querySelector('.disputes a').hash.slice(1)")
        self.assertFalse(page.ask("document.getElementById('%s').checkVisibility()" % target))
        page.ask("document.querySelector('.disputes a').click()")
        self.assertTrue(page.ask("document.getElementById('%s').checkVisibility()" % target))
        page.close()

    def test_boxes_hide_rows_without_a_script(self):
        page = self.browser.open(self.file, 1280)
        page.ask(OPEN_ALL)
        seen = "[...document.querySelectorAll('.ks > li.o0')].filter(e => e.checkVisibility()).length"
        rows = page.ask(seen)
        self.assertGreater(rows, 0)
        page.ask("document.getElementById('r1f0').click()")
        self.assertEqual(page.ask(seen), 0)
        page.ask("document.getElementById('r1f0').click()")
        self.assertEqual(page.ask(seen), rows)
        page.close()

    def test_by_keyboard(self):
        page = self.browser.open(self.file, 1280)
        page.press("Tab", 9)
        self.assertEqual(page.ask("document.activeElement.className"), "skip")
        page.ask("document.querySelector('details.cell > summary').focus()")
        was = page.ask("document.querySelector('details.cell').open")
        page.press("Enter", 13, "\r")
        self.assertNotEqual(page.ask("document.querySelector('details.cell').open"), was)
        outside = """[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth && e.tabIndex !== 0).length"""
        self.assertEqual(page.ask(outside), 0)
        page.close()
