# SPDX-License-Identifier: Apache-2.0
"""What the templates show of one run: the numbers of report.json in the order and
words of the page.  Nothing is estimated; what the document lacks is "n/a"."""

import collections
import functools
import pathlib
import re

from jaxbench_report import outcomes
from jaxbench_report.archive import Archive
from jaxbench_report.links import Links

VERDICT_WORDS = {"pass": "accepts", "fail": "rejects", "inconclusive": "inconclusive", "none": "not asked", "skipped": "skipped"}
WALLS = ("user_ns", "net_ns", "pid_ns", "mount_ns", "ipc_ns", "uts_ns", "private_root", "unprivileged_uid", "no_capabilities",
         "no_new_privs", "landlock", "seccomp", "rlimits", "oom_score")


def _get(value, *path, default=None):
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return default if value is None else value


def _list(value):
    return value if isinstance(value, list) else []


def _moment(stamp):
    """2026-12-01T02:34:33Z as "2026-12-01 02:34 UTC"; anything else as it is."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?Z", str(stamp))
    return "%s %s UTC" % found.group(1, 2) if found else stamp


class Method:
    """A row of the leaderboard: one method with one backend."""

    def __init__(self, entry, alone):
        self.name = entry.get("method") or "?"
        self.backend = entry.get("backend") or "none"
        self.label = self.name if alone else "%s · %s" % (self.name, self.backend)
        self.no_model = bool(entry.get("no_model"))
        self.outcomes = _get(entry, "outcomes", default={})
        self.solved, self.workloads = entry.get("solved", 0), entry.get("workloads", 0)
        self.solved_interval = _list(entry.get("solved_interval"))
        self.correct, self.counted = entry.get("correct", 0), _get(entry, "denominator", "counted", default=0)
        self.left_out = sum(_get(entry, "denominator", "left_out", default={}).values())
        self.rate = entry.get("rate")
        self.interval = _list(entry.get("interval")) if self.counted else []
        reach = _get(entry, "at_samples", default={})
        self.cells = reach.get("cells", 0)
        self.correct_at, self.fast_at = _list(reach.get("correct")), _list(reach.get("fast1"))
        self.speed = _get(entry, "speed", default={})
        self.timed = self.speed.get("status") == "ok"
        self.cost = Cost(_get(entry, "ledger", default={}))


class Cost:
    """What a method spent, as its ledger says; None where nothing was reported."""

    KINDS = (("input_uncached", "input"), ("cache_read", "cache read"), ("cache_write", "cache write"),
             ("output", "output"), ("reasoning", "reasoning"))

    def __init__(self, ledger):
        self.samples, self.calls = ledger.get("samples", 0), ledger.get("calls", 0)
        self.failed, self.discarded = ledger.get("failed_calls", 0), ledger.get("discarded", 0)
        self.unreported = ledger.get("calls_without_token_counts", 0)
        tokens = _get(ledger, "tokens", default={})
        known = self.unreported < self.calls
        self.tokens = [(name, tokens.get(key, 0) if known else None) for key, name in self.KINDS]
        money = _get(ledger, "money", default={})
        self.usd, self.unpriced = money.get("usd"), money.get("unpriced_calls", self.calls)
        spent = _get(ledger, "cost", default={})
        self.trace, self.compile, self.check, self.wall = (spent.get(k) for k in ("trace_s", "compile_s", "check_s", "wall_s"))

    @property
    def money(self):
        if self.usd is None or (self.calls and self.unpriced == self.calls):
            return "unpriced"
        return "$%.4g%s" % (self.usd, ", %d calls unpriced" % self.unpriced if self.unpriced else "")


class Candidate:
    """One row; bodies are read when it is shown in full (detail.py)."""

    def __init__(self, cell, row):
        self.cell, self.id = cell, row.get("id", 0)
        self.anchor = "%s-%d" % (cell.anchor, self.id)
        self.outcome = str(row.get("outcome", "running"))
        self.family = outcomes.FAMILY.get(self.outcome, "out")
        self.letter = cell.run.letters.get(self.outcome, ".")
        self.stage, self.fault, self.reason = row.get("stage", ""), row.get("fault", ""), row.get("reason", "")
        self.verdicts = dict(zip(cell.run.gates, _list(row.get("verdicts"))))
        self.final, self.duplicate = row.get("final", ""), bool(row.get("duplicate"))
        self.lane, self.turn = row.get("lane"), row.get("turn")
        self.source_hash, self.prompt_hash = str(row.get("source", "")), str(row.get("prompt", ""))
        base, mine = row.get("baseline_median_us"), row.get("candidate_median_us")
        self.speedup = base / mine if base and mine else None
        self.is_best = cell.best_id == self.id

    @property
    def filter(self):
        """The number of its outcome among those of the run: a class of its row."""
        names = self.cell.run.outcome_names
        return names.index(self.outcome) if self.outcome in names else "x"

    @property
    def why(self):
        """The shortest thing that says why: nothing for a right one."""
        return self.reason or self.fault


class Cell:
    """Workload, method, backend, seed, and its candidates in order."""

    def __init__(self, run, number, entry):
        self.run, self.anchor = run, "%sc%d" % (run.anchor, number)
        self.label, self.folder = entry.get("cell", "?"), entry.get("folder", "")
        self.workload, self.name = entry.get("workload", "?"), entry.get("name", "")
        self.method, self.backend, self.seed = entry.get("method", "?"), entry.get("backend", ""), entry.get("seed", 0)
        self.state, self.message = entry.get("state", "?"), entry.get("message", "")
        self.correct, self.counted = entry.get("correct", 0), _get(entry, "denominator", "counted", default=0)
        self.solved = bool(entry.get("solved"))
        self.best = entry.get("best") or {}
        self.best_id = self.best.get("candidate")
        self.candidates = [Candidate(self, row) for row in _list(entry.get("candidates"))]
        self.has_turns = any(k.turn for k in self.candidates)
        base, mine = self.best.get("baseline_median_us"), self.best.get("candidate_median_us")
        self.speedup = base / mine if base and mine else None


class Run:
    """One report.json."""

    def __init__(self, report, number, base):
        self.report, self.anchor = report, "r%d" % number
        self.name = report.get("name") or "run"
        self.letters = _get(report, "letters", default={})
        self.gates = [str(g.get("name", "?")) for g in _list(report.get("gates")) if isinstance(g, dict)]
        self.headline, self.seed = report.get("headline", ""), report.get("seed", "?")
        self.final_rows, self.sources = bool(report.get("final_rows")), report.get("distinct_sources")
        self.archive = Archive(report.get("run_dir"))
        self.links = Links(report.get("run_dir"), base)
        entries = _list(report.get("methods"))
        alone = len({e.get("backend") for e in entries}) <= 1
        self.methods = [Method(e, alone) for e in entries]
        self.cells = [Cell(self, i + 1, e) for i, e in enumerate(_list(report.get("cells")))]
        self.candidates = [k for c in self.cells for k in c.candidates]

    # ---- the head

    @property
    def facts(self):
        """(label, value) pairs of the header."""
        r, executor = self.report, _get(self.report, "executor", default={})
        shapes = _get(r, "shapes", default={})
        compiled = _get(r, "stages", "compile", "ok", default=0)
        rows = [
            ("seed", self.seed),
            ("jaxbench", r.get("version", "?")),
            ("started", _moment(r.get("started", "?"))),
            ("device", executor.get("device", "n/a")),
            ("numerics", ", ".join(_get(r, "numerics", default={})) or "n/a"),
            ("isolation", self.isolation),
            ("compiled for TPU", "libtpu %s" % executor.get("libtpu") if compiled else "no"),
            ("jax", executor.get("jax", "n/a")),
            ("headline gates", self.headline),
            ("variant", r.get("variant", "?")),
            ("shapes", "check %s, timed %s" % (shapes.get("check") or "as the gates ask", shapes.get("timed") or "none")),
            ("plan", str(r.get("plan", "?"))[:12]),
        ]
        return [(label, str(value)) for label, value in rows]

    @property
    def isolation(self):
        walls = _get(self.report, "executor", "isolation", default={})
        asked = self.report.get("isolation") or "n/a"
        if not walls:
            return "%s (not known)" % asked
        missing = [w for w in WALLS if not walls.get(w)]
        return "%s, %s" % (asked, "missing: " + ", ".join(missing) if missing else "all %d walls up" % len(WALLS))

    @property
    def banners(self):
        r, said = self.report, []
        if r.get("no_model"):
            said.append("No model wrote these candidates: they come from a script with a seeded share of faults. The numbers test jaxbench, not a model.")
        elif r.get("note"):
            said.append("%s." % r["note"].capitalize())
        if not r.get("ranked", True):
            said.append("Tiny shapes test the program itself: nothing here is a ranking.")
        if not r.get("complete"):
            said.append("This run is not complete; the page shows what its journal held.")
        return said

    @property
    def no_speed(self):
        """Why there is no speedup, or "" when every method has one."""
        reasons = sorted({m.speed.get("reason", "no timing in this report") for m in self.methods if not m.timed})
        return "; ".join(reasons)

    @property
    def curve_points(self):
        """The N at which the curves are told in numbers: powers of two, and the end."""
        longest = max((len(m.correct_at) for m in self.methods), default=0)
        return sorted({n for n in (2**i for i in range(20)) if n < longest} | ({longest} if longest else set()))

    # ---- outcomes

    @functools.cached_property
    def outcome_names(self):
        return outcomes.ordered({name for m in self.methods for name in m.outcomes})

    def family(self, outcome):
        return outcomes.FAMILY.get(outcome, "out")

    def meaning(self, outcome):
        return outcomes.MEANING.get(outcome, "")

    @property
    def stages(self):
        """(name, {status: count}, {outcome: count}) in the order of the pipeline."""
        rows = _get(self.report, "stages", default={})
        return [(name, row, _get(row, "decided", default={})) for name, row in rows.items() if isinstance(row, dict)]

    @property
    def faults(self):
        return [f for f in _list(self.report.get("faults")) if isinstance(f, dict)]

    @property
    def by_workload(self):
        """[(workload, [cells])] in the order of the study."""
        groups = {}
        for cell in self.cells:
            groups.setdefault(cell.workload, []).append(cell)
        return list(groups.items())

    # ---- gate sets

    @functools.cached_property
    def matrix(self):
        """{(a, b): (candidates that a accepts and b rejects, judged by both)}"""
        sums = collections.Counter()
        for k in self.candidates:
            for a in self.gates:
                for b in self.gates:
                    va, vb = k.verdicts.get(a), k.verdicts.get(b)
                    sums[a, b, "both"] += va in ("pass", "fail") and vb in ("pass", "fail")
                    sums[a, b, "split"] += va == "pass" and vb == "fail"
        return {(a, b): (sums[a, b, "split"], sums[a, b, "both"]) for a in self.gates for b in self.gates if a != b}

    @functools.cached_property
    def disputes(self):
        """[(a, b, [(what decided, [candidates])])]: a accepts, b rejects, most first.
        Only the headline's deciding gate is in the rows."""
        found = []
        for (a, b), (split, _) in self.matrix.items():
            if not split:
                continue
            groups = collections.defaultdict(list)
            for k in self.candidates:
                if k.verdicts.get(a) == "pass" and k.verdicts.get(b) == "fail":
                    groups[k.fault if b == self.headline and k.fault else "a gate of %s" % b].append(k)
            found.append((a, b, sorted(groups.items(), key=lambda g: (-len(g[1]), g[0]))))
        return sorted(found, key=lambda d: -sum(len(ks) for _, ks in d[2]))

    def verdict(self, word):
        return VERDICT_WORDS.get(word, word)


class NotAReport(ValueError):
    """The document is none of ours."""


def runs_of(document, base):
    """The runs of a document: one report, or {"schema":1,"runs":[...]}."""
    reports = document.get("runs", [document]) if isinstance(document, dict) else None
    if not isinstance(reports, list) or not reports:
        raise NotAReport("expected report.json, or {\"schema\":1,\"runs\":[...]} with at least one run")
    for report in reports:
        if not isinstance(report, dict) or report.get("schema") != 1 or report.get("kind") != "report":
            raise NotAReport("expected reports of schema 1 (\"kind\":\"report\"); make them with `jaxbench report RUN --json`")
    return [Run(report, i + 1, pathlib.Path(base)) for i, report in enumerate(reports)]
