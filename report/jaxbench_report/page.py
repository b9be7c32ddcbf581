# SPDX-License-Identifier: Apache-2.0
"""The templates, and the order in which a page is made: rows first, then what is
shown in full as far as there is room, then everything around it."""

import pathlib

import jinja2
import markupsafe

from jaxbench_report import embed, text, view
from jaxbench_report.detail import Detail, difference

NotAReport = view.NotAReport
FOLDER = pathlib.Path(__file__).resolve().parent / "templates"
ROW_REASON = 110     # characters of a reason in a row
PROMPTS_NAMED = 12   # characters of a prompt's hash in its anchor


def _visible(value):
    """What every expression of a template goes through before it is escaped."""
    if isinstance(value, str) and not isinstance(value, markupsafe.Markup):
        return text.line(value)
    return value


def _pre(value):
    """Preformatted text: newlines stay, the rest is made visible, then escaped."""
    return markupsafe.escape(text.block(value))


def _markdown(value):
    """Plain text inside Markdown, table cells included."""
    out = text.line(value)
    for mark in "\\`*_[]<>|#~":
        out = out.replace(mark, "\\" + mark)
    return out.replace("&", "&amp;")


def environment(form):
    """Jinja2 with the filters of the page; `html` escapes everything it prints."""
    html = form == "html"
    env = jinja2.Environment(loader=jinja2.FileSystemLoader(FOLDER), autoescape=html, undefined=jinja2.StrictUndefined,
                             finalize=_visible if html else None, trim_blocks=True, lstrip_blocks=True)
    env.filters.update(percent=text.percent, span=text.span, number=text.number, count=text.count, seconds=text.seconds,
                       size=text.size, times=text.times, cut=text.cut, pre=_pre, md=_markdown, difference=difference)
    env.globals.update(row_reason=ROW_REASON)
    return env


class Prompts:
    """Prompts shown on the page, each once, in the order of first use."""

    def __init__(self, run):
        self.run, self.shown = run, {}

    def anchor(self, digest):
        return "%sp%s" % (self.run.anchor, digest[:PROMPTS_NAMED])

    def want(self, k):
        """(body, is new) of a candidate's prompt; (None, False) without one."""
        key = k.prompt_hash or "%s/%d" % (k.cell.folder, k.id)
        if key in self.shown:
            return self.shown[key], False
        body = self.run.archive.prompt(k.cell.folder, k.id, k.prompt_hash)
        if body is None:
            return None, False
        body.anchor, body.first, body.hash = self.anchor(key) if k.prompt_hash else "%sp-%s" % (self.run.anchor, k.anchor), k, k.prompt_hash
        self.shown[key] = body
        return body, True

    def drop(self, body):
        self.shown = {key: b for key, b in self.shown.items() if b is not body}


def _fill(env, run, rows_room, bodies_room):
    """Markup of the rows and details of one run, as the templates want it."""
    macros = env.get_template("candidate.html.j2").module
    run.prompts = Prompts(run)

    def detail(k):
        prompt, new = run.prompts.want(k)
        markup = macros.detail(k, Detail(k), prompt, len(k.why) > ROW_REASON)
        # A prompt is paid for by the candidate that brings it.
        cost = embed.utf8(markup) + (embed.utf8(macros.prompt(run, prompt)) if new else 0)
        return markup, cost, (lambda: run.prompts.drop(prompt)) if new else (lambda: None)

    run.rows = embed.rows(run, macros.flat, rows_room)
    run.details = embed.details(run, run.rows, detail, bodies_room)
    run.unlisted = len(run.candidates) - len(run.rows)


def render(document, form, base):
    """The page ("html") or the summary ("md") as text.  NotAReport for another document."""
    runs = view.runs_of(document, base)
    env = environment(form)
    if form == "md":
        return env.get_template("summary.md.j2").render(runs=runs)
    from jaxbench_report import charts

    rows_room, bodies_room = embed.Room(embed.ROWS_BYTES), embed.Room(embed.BODIES_BYTES)
    for run in runs:
        _fill(env, run, rows_room, bodies_room)
        run.charts = charts.of(run)
    style = (FOLDER / "style.css").read_text(encoding="utf-8")
    return env.get_template("page.html.j2").render(
        runs=runs, style=markupsafe.Markup(style), strip_links=sum(len(r.candidates) for r in runs) <= embed.STRIP_LINKS)
