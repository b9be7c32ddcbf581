# SPDX-License-Identifier: Apache-2.0
"""A made-up run as a document and as a page, and a parser that lists what a page
consists of."""

import collections
import html.parser
import pathlib
import tempfile

from tests.e2e.program import jaxbench
from tests.report_py.make_run import Maker

from jaxbench_report import page

MARK = "PWNED"
# What a candidate might write to become more than text.
HOSTILE = ('</pre></script></style></title>--><script>window.%s=1</script><img src=x onerror="window.%s=1"><svg onload=window.%s=1>'
           '<a href="javascript:window.%s=1">x</a><style>*{display:none}</style><iframe src="http://127.0.0.1:9/"></iframe>'
           '{{ 7*7 }}{%% raw %%}\' onmouseover="window.%s=1" \x1b[31mred\x1b[0m \u202egnp.exe\u202c \x00\x07 ]]> &lt;b&gt; | `x` \\') % ((MARK,) * 5)


class Made:
    """`folder`, `document` and, on demand, the page of a made-up run; use with `with`."""

    def __init__(self, candidates, **options):
        self.candidates, self.options = candidates, options

    def __enter__(self):
        self.temporary = tempfile.TemporaryDirectory(prefix="jaxbench-report-")
        self.folder = Maker(pathlib.Path(self.temporary.name) / "run", self.candidates, **self.options).write()
        done = jaxbench("report", self.folder, "--json")
        if done.code != 0:
            raise AssertionError("report --json of a made-up run failed: %r" % done)
        self.document = done.json()
        return self

    def __exit__(self, *_):
        self.temporary.cleanup()

    def page(self, form="html"):
        return page.render(self.document, form, self.folder)


class Parsed(html.parser.HTMLParser):
    """Elements by name, attributes, ids, links and the visible text of a page."""

    def __init__(self, markup):
        super().__init__(convert_charrefs=True)
        self.tags, self.attributes, self.ids, self.links, self.pieces, self.open = collections.Counter(), [], [], [], [], []
        self.feed(markup)
        self.close()
        self.text = "".join(self.pieces)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        self.open.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value or "" for name, value in attrs if name in ("href", "src", "xlink:href", "action", "data")]

    def handle_endtag(self, tag):
        if tag in self.open:
            while self.open.pop() != tag:
                pass

    def handle_data(self, data):
        if "style" not in self.open:
            self.pieces.append(data)
