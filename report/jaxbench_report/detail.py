# SPDX-License-Identifier: Apache-2.0
"""One candidate in full: its bodies and its record, in the form of the page.  Records
come from a run's folder and may hold anything; a field of another type than ours
is left out."""

STAGES = ("extract", "trace", "export", "inspect", "compile", "check", "time", "profile")
WORST_SHOWN = 5
ERROR_CHARS = 4000
LOG_CHARS = 2000


def _dict(value):
    return value if isinstance(value, dict) else {}


def _dicts(value):
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


def _number(value):
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


class Stage:
    """One row of the table of stages."""

    def __init__(self, name, record):
        self.name, self.status = name, str(record.get("status", "?"))
        self.seconds = _number(record.get("seconds"))
        self.reason = str(record.get("reason", ""))
        self.error = str(record.get("error", ""))[:ERROR_CHARS]
        self.facts = list(self._facts(record))

    def _facts(self, record):
        inspected = _dict(record.get("link")).get("status")
        if inspected:
            yield "link: %s" % inspected
            yield "coverage: %s" % _dict(record.get("coverage")).get("status", "?")
            share = _number(_dict(record.get("flops")).get("share"))
            if share is not None:
                yield "%.0f %% of the FLOPs in kernels" % (100 * share)
        for finding in _dicts(record.get("findings")):
            yield "finding %s: %s" % (finding.get("id", "?"), finding.get("detail", ""))
        if record.get("target"):
            yield "target %s" % record["target"]
        for key, name in (("vmem_bytes", "VMEM"), ("hbm_bytes", "HBM"), ("code_bytes", "code")):
            size = _number(record.get(key))
            if size is not None:
                yield "%s %.4g MiB" % (name, size / 2**20)
        if _number(record.get("trials")) is not None:
            yield "%d trials" % record["trials"]
        for flag in record.get("flags") or []:
            yield str(flag)


class Trial:
    def __init__(self, record):
        self.status = str(record.get("status", "?"))
        self.where = "%s #%s" % (record.get("distribution", "?"), record.get("draw", "?"))
        self.shape, self.part = str(record.get("shape", "")), str(record.get("part", ""))
        self.score, self.threshold = _number(record.get("score")), _number(record.get("threshold"))
        self.reason = str(record.get("reason", ""))
        self.worst = _dicts(record.get("worst"))[:WORST_SHOWN]


class Gate:
    """One row of a gate set: a checker and its trials."""

    def __init__(self, record):
        self.use, self.when = str(record.get("use", "?")), str(record.get("when", ""))
        self.verdict = str(record.get("verdict", "?"))
        self.score, self.threshold = _number(record.get("score")), _number(record.get("threshold"))
        self.reason = str(record.get("reason", ""))
        self.trials = [Trial(t) for t in _dicts(record.get("trials"))]


class GateSet:
    def __init__(self, name, record):
        self.name, self.variant = name, str(record.get("variant", ""))
        self.verdict, self.reason = str(record.get("verdict", "?")), str(record.get("reason", ""))
        self.gates = [Gate(row) for row in _dicts(record.get("rows"))]
        killer = _dict(record.get("killer"))
        self.killer = killer or None

    @property
    def worst(self):
        """(gate, trial) whose worst elements say most: of the first failing trial,
        else of the trial nearest to its threshold.  None: no trial has any."""
        pairs = [(g, t) for g in self.gates for t in g.trials if t.worst]
        failing = [(g, t) for g, t in pairs if t.status == "fail"]
        if failing or not pairs:
            return failing[0] if failing else None
        return max(pairs, key=lambda p: (p[1].score or 0) / (p[1].threshold or 1))


def difference(element):
    """|candidate - reference| of a worst element, None when one is no number."""
    a, b = _number(element.get("candidate")), _number(element.get("reference"))
    return None if a is None or b is None else abs(a - b)


class Detail:
    """What is shown of candidate `k` (view.Candidate) beyond its row."""

    def __init__(self, k):
        archive, folder = k.cell.run.archive, k.cell.folder
        result = archive.record(folder, k.id) or {}
        record = _dict(result.get("record"))
        stages = _dict(record.get("stages"))
        self.known = bool(result)
        self.parents = [p for p in result.get("parents") or [] if isinstance(p, int)]
        self.stages = [Stage(n, _dict(stages[n])) for n in STAGES if n in stages]
        self.sets = [GateSet(n, _dict(g)) for n, g in _dict(record.get("gates")).items()]
        self.log = str(record.get("log", ""))[:LOG_CHARS]
        self.log_bytes = _number(record.get("log_bytes")) or 0
        self.reply = archive.reply(folder, k.id)
        self.source = archive.source(folder, k.id, k.source_hash)
