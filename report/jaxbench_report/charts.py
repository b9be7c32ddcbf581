# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG: Altair describes them, vl-convert draws them here, so the
page needs no script.  Colours are CSS variables of the page, so that a chart
follows light and dark; dashes, positions and letters say the same without colour.
Every number of a chart stands in a table beside it."""

import re
import xml.etree.ElementTree as ET

from jaxbench_report import outcomes, text

WIDTH = 330          # fits a phone; the page puts charts side by side where there is room
LABEL_CHARS = 24
METHODS_SHOWN = 12   # a chart of more methods is no chart
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [1, 4])
INKS = ("var(--c-build)", "var(--c-wrong)", "var(--c-ok)", "var(--c-odd)", "var(--c-none)")

_SVG = "{http://www.w3.org/2000/svg}"
_ELEMENTS = {_SVG + n for n in ("svg", "g", "path", "rect", "line", "text", "tspan", "defs", "clipPath", "circle", "title")}
_ATTRIBUTES = {"width", "height", "viewBox", "transform", "d", "x", "y", "x1", "x2", "y1", "y2", "cx", "cy", "r", "fill", "stroke",
               "stroke-width", "stroke-dasharray", "stroke-opacity", "fill-opacity", "stroke-miterlimit", "stroke-linecap", "opacity",
               "text-anchor", "font-size", "font-weight", "id", "clip-path"}
_OWN_ID = re.compile(r"^url\(#([A-Za-z0-9_-]+)\)$")


class Chart:
    """`svg` for the page, `title`, `words` that say what it shows; `short`: a few rows
    high, so that two fit beside a tall one."""

    def __init__(self, svg, title, words, short):
        self.svg, self.title, self.words, self.short = svg, title, words, short


def _clean(svg, prefix):
    """The drawing alone: known elements and attributes, ids of its own, no fixed
    background.  Labels hold names from the run; nothing of them may become markup."""
    ET.register_namespace("", _SVG[1:-1])
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag not in _ELEMENTS or (child.tag == _SVG + "path" and not child.get("d")) or child.get("display") == "none":
                parent.remove(child)
        for name in list(parent.attrib):
            value = parent.get(name)
            own = _OWN_ID.match(value)
            if name not in _ATTRIBUTES or ("url(" in value and not own):
                del parent.attrib[name]
            elif own:
                parent.set(name, "url(#%s%s)" % (prefix, own.group(1)))
            elif name == "id":
                parent.set("id", prefix + value)
    return ET.tostring(root, encoding="unicode")


def _draw(alt, chart, prefix):
    import vl_convert

    axis = {"labelColor": "var(--muted)", "titleColor": "var(--muted)", "titleFontWeight": "normal", "gridColor": "var(--line)",
            "domainColor": "var(--line)", "tickColor": "var(--line)", "labelFontSize": 12, "titleFontSize": 12, "labelLimit": 150}
    chart = chart.configure(background="transparent").configure_view(stroke=None).configure_axis(**axis)
    version = ".".join(alt.SCHEMA_VERSION.lstrip("v").split(".")[:2])
    svg = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=version, allowed_base_urls=[])
    return _clean(svg, prefix)


def _labels(methods):
    """A short visible name for each method, unique."""
    names = []
    for i, m in enumerate(methods):
        name = text.cut(text.line(m.label), LABEL_CHARS)
        names.append(name if name not in names else "%s (%d)" % (name, i + 1))
    return names


def _correct(alt, methods, names):
    rows = [{"method": n, "rate": m.rate, "low": m.interval[0], "high": m.interval[1]}
            for n, m in zip(names, methods) if m.rate is not None and m.interval]
    if not rows:
        return None
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("method:N", title=None, sort=names, axis=alt.Axis(ticks=False, domain=False, labelPadding=8, labelColor="var(--fg)")))
    scale = alt.X("low:Q", title=None, scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1]))
    bars = base.mark_rule(stroke="var(--accent)", strokeWidth=3, strokeCap="round").encode(x=scale, x2="high:Q")
    points = base.mark_point(filled=True, size=90, fill="var(--accent)", fillOpacity=1, stroke="var(--card)", strokeWidth=2).encode(x="rate:Q")
    words = base.mark_text(dy=-13, fontSize=12, fill="var(--fg)").encode(x="rate:Q", text=alt.Text("rate:Q", format=".0%"))
    return (bars + points + words).properties(width=WIDTH - 130, height=alt.Step(40))


def _reach(alt, series, names, title):
    """Steps of a share of cells over the number of candidates."""
    rows = []
    for name, (_, values) in zip(names, series):
        points = list(enumerate(values, 1))
        rows += [{"method": name, "n": n, "share": v} for i, (n, v) in enumerate(points)
                 if i in (0, len(points) - 1) or v != points[i - 1][1]]
    used = [n for n in names if any(r["method"] == n for r in rows)]
    if not rows:
        return None
    legend = alt.Legend(title=None, orient="bottom", columns=1, symbolType="stroke", symbolStrokeWidth=2, symbolSize=500, labelColor="var(--fg)",
                        labelFontSize=12, labelLimit=280) if len(used) > 1 else None

    def one_each(values):
        return alt.Scale(domain=used, range=[values[i % len(values)] for i in range(len(used))])

    return alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after", strokeWidth=2).encode(
        x=alt.X("n:Q", title=title, axis=alt.Axis(tickMinStep=1, format="d", grid=False), scale=alt.Scale(domainMin=1, nice=False)),
        y=alt.Y("share:Q", title=None, scale=alt.Scale(domain=[0, 1]),
                axis=alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1], domain=False, ticks=False)),
        strokeDash=alt.StrokeDash("method:N", sort=used, legend=legend, scale=one_each(DASHES)),
        stroke=alt.Stroke("method:N", sort=used, legend=legend, scale=one_each(INKS)),
    ).properties(width=WIDTH - 50, height=190)


def _outcomes(alt, run, methods, names):
    rows = []
    for name, m in zip(names, methods):
        at, total = 0, sum(m.outcomes.values())
        for outcome in outcomes.ordered(m.outcomes):
            n = m.outcomes[outcome]
            wide = total and n / total >= 0.05
            rows.append({"method": name, "from": at, "to": at + n, "family": outcomes.FAMILY.get(outcome, "out"), "mid": at + n / 2,
                         "letter": run.letters.get(outcome, "?") if wide else ""})
            at += n
    if not rows:
        return None
    base = alt.Chart(alt.Data(values=rows)).encode(
        y=alt.Y("method:N", title=None, sort=names, axis=alt.Axis(ticks=False, domain=False, labelPadding=8, labelColor="var(--fg)")))
    families = ["ok", "none", "odd", "build", "wrong", "out"]
    color = alt.Color("family:N", legend=None, scale=alt.Scale(domain=families, range=["var(--c-%s)" % f for f in families]))
    bars = base.mark_bar(height=24, stroke="var(--card)", strokeWidth=1.5).encode(
        x=alt.X("from:Q", title=None, axis=alt.Axis(tickMinStep=1, format="d", grid=False, tickCount=5)), x2="to:Q", color=color)
    letters = base.mark_text(fontSize=13, fontWeight="bold", fill="var(--on-c)").encode(x="mid:Q", text="letter:N")
    return (bars + letters).properties(width=WIDTH - 130, height=alt.Step(36))


def of(run):
    """The charts of a run that have data, at most four."""
    import altair as alt

    methods = run.methods[:METHODS_SHOWN]
    names = _labels(methods)
    wanted = [
        ("Correct per sample", "Share of counted candidates that are right, with its Wilson 95 % interval.", _correct(alt, methods, names), True),
        ("Outcomes", "Candidates by outcome; the letters are those of the strips.", _outcomes(alt, run, methods, names), True),
        ("Cells with a right kernel among the first N candidates", "Rises by one step when a cell gets its first right kernel.",
         _reach(alt, [(m, m.correct_at) for m in methods], names, "N, candidates of a cell in order"), False),
        ("fast₁@N", "Share of cells with a right kernel faster than the baseline among the first N candidates.",
         _reach(alt, [(m, m.fast_at) for m in methods], names, "N, candidates of a cell in order"), False),
    ]
    made = [w for w in wanted if w[2] is not None]
    return [Chart(_draw(alt, chart, "%sk%d-" % (run.anchor, i)), title, words, short) for i, (title, words, chart, short) in enumerate(made)]
