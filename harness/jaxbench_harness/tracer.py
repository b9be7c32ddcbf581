# SPDX-License-Identifier: Apache-2.0
"""The trace and export stages: the only code that runs a candidate's Python.

`main` is called once in a fresh, sandboxed child that holds no data.  The candidate
is imported, `workload` is traced on abstract arrays at every shape and held against
the contract, and the modules are emitted.  From the candidate's first line on, this
process is the candidate's: what it says beside the modules is display text.
"""

import ast
import functools
import json
import linecache
import os
import sys
import time
import types

import jax
import numpy as np

from . import errors, export, interpret

RESULT = 32  # JB_FRAME_RESULT
MODULE = 33  # JB_FRAME_MODULE
MODULE_MAX = 64 << 20  # bytes of one module that the worker takes (harness/child.h)
FLAGS_MAX = 16

NAME = "candidate"
FILE = "candidate.py"


class Failure(Exception):
    """A candidate failed a stage.  outcome: a word of jb_outcome_name; reason: one line; error: Python's own words."""

    def __init__(self, outcome, reason, error=""):
        super().__init__(reason)
        self.outcome, self.reason, self.error = outcome, reason, error


class Environment(type(os.environ)):
    """os.environ that notes which variables the candidate itself asks for; jax reads many.  A signal, no barrier: the
    environment holds nothing worth reading."""

    _THROUGH = (os.__file__, "<frozen os>", "<frozen _collections_abc>")

    def __init__(self, old):
        super().__init__(old._data, old.encodekey, old.decodekey, old.encodevalue, old.decodevalue)
        self.asked = {}  # name -> was it there?

    def _note(self, key):
        frame = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename in self._THROUGH:
            frame = frame.f_back
        if frame is not None and frame.f_code.co_filename == FILE and len(self.asked) < FLAGS_MAX:
            name = str(key)[:64]
            self.asked.setdefault(name, super().__contains__(key) if isinstance(key, str) else False)

    def __getitem__(self, key):
        self._note(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        self._note(key)
        return super().__contains__(key)

    def __iter__(self):
        self._note("(all)")
        return super().__iter__()

    def flags(self):
        return ["%s: environment variable %s" % ("read" if there else "denied", name) for name, there in sorted(self.asked.items())]


def parse(source):
    """(text, code object) of the candidate's bytes; Failure `syntax` with the line."""
    try:
        text = source.decode("utf-8-sig")
    except UnicodeDecodeError as bad:
        line = source[:bad.start].count(b"\n") + 1
        raise Failure("syntax", "line %d: the source is not UTF-8 (byte 0x%02x)" % (line, source[bad.start])) from None
    if "\0" in text:
        raise Failure("syntax", "line %d: the source holds a NUL byte" % (text[:text.index("\0")].count("\n") + 1))
    try:
        return text, compile(ast.parse(text, FILE), FILE, "exec", dont_inherit=True)
    except SyntaxError as bad:
        where = "line %s: " % bad.lineno if bad.lineno else ""
        shown = (bad.text or "").rstrip("\n")
        caret = "\n    " + " " * max(0, (bad.offset or 1) - 1) + "^" if shown and bad.offset and bad.offset <= len(shown) + 1 else ""
        said = errors.clean("%s: %s" % (type(bad).__name__, bad.msg))
        raise Failure("syntax", errors.one_line(where + said),
                      errors.cap('  File "%s", line %s\n    %s%s\n%s' % (FILE, bad.lineno, shown, caret, said))) from None
    except (ValueError, RecursionError, MemoryError) as bad:
        raise Failure("syntax", "the source can't be parsed: %s" % errors.one_line(errors.message(bad))) from None


def load(source):
    """Imports the candidate and returns its module, under the name `candidate`."""
    text, code = parse(source)
    linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
    module = types.ModuleType(NAME)
    module.__file__ = FILE
    sys.modules[NAME] = module
    try:
        exec(code, module.__dict__)
    except BaseException as bad:  # also SystemExit
        reason, error = errors.describe(bad, FILE)
        raise Failure("trace-error", errors.one_line("on import: " + reason), error) from None
    entry = module.__dict__.get("workload")
    if entry is None:
        raise Failure("contract", "the module defines no function `workload`")
    if not callable(entry):
        raise Failure("contract", "`workload` is a %s, expected a function" % type(entry).__name__)
    return module


def flat_outputs(out, count):
    """The arrays of a flat result as a list; Failure `contract` when `out` is not what a workload with `count` outputs returns."""
    expected = "one array" if count == 1 else "a tuple of %d arrays" % count
    if out is None:
        raise Failure("contract", "workload returned None, expected %s" % expected)
    arrays = list(out) if isinstance(out, (tuple, list)) else [out]
    if isinstance(out, (tuple, list)) == (count == 1) or len(arrays) != count:
        seen = "a %s of %d" % (type(out).__name__, len(arrays)) if isinstance(out, (tuple, list)) else "one %s" % type(out).__name__
        raise Failure("contract", "workload returned %s, expected %s" % (seen, expected))
    for index, array in enumerate(arrays):
        if not isinstance(array, (jax.Array, np.ndarray, np.generic, bool, int, float, complex)):
            raise Failure("contract", "output %d is a %s, expected an array" % (index, type(array).__name__))
    return arrays


def typed(dtype, dims):
    return "%s[%s]" % (dtype, ",".join(str(d) for d in dims))


def trace(module, resolved):
    """(ClosedJaxpr, specs) of the candidate at one resolved shape; Failure, or whatever the candidate raises."""
    if isinstance(getattr(module, "CONFIG", None), dict):
        module.CONFIG.update(resolved["config"])
        jax.clear_caches()  # a jitted part of the candidate may have read the sizes of the last shape
    args, wanted = export.specs(resolved["inputs"]), resolved["outputs"]
    entry = module.workload

    @functools.wraps(entry, assigned=("__name__",), updated=())  # messages then name the candidate's lines and arguments
    def workload(*values):  # fresh for every shape, see export.trace
        return flat_outputs(entry(*values), len(wanted))

    closed = export.trace(workload, args)
    for index, (aval, want) in enumerate(zip(closed.out_avals, wanted)):
        seen, right = typed(aval.dtype, aval.shape), typed(want["dtype"], want["dims"])
        if seen != right:
            raise Failure("contract", "output %d is %s, expected %s" % (index, seen, right))
    calls = interpret.host_calls(closed)
    if calls:
        raise Failure("trace-error", "the candidate calls back to the host (%s); everything must be computed on the device" % ", ".join(calls))
    return closed, args


def as_failure(exc):
    """Any exception out of a candidate as a Failure."""
    if isinstance(exc, Failure):
        return exc
    return Failure("trace-error", *errors.describe(exc, FILE))


def trace_all(module, shapes, names, timed):
    """Name -> (ClosedJaxpr, specs) for every shape of `names`.  A candidate that fails at a check shape only knows the
    others' sizes: `inconclusive`, never `wrong`."""
    done, failed = {}, {}
    for name in names:
        try:
            done[name] = trace(module, shapes[name])
        except BaseException as bad:  # also SystemExit
            failed[name] = as_failure(bad)
    if failed:
        raise verdict(done, failed, timed, "traces")
    return done


def verdict(done, failed, timed, verb):
    """The Failure of a stage that succeeded at the shapes `done` and not at those of `failed` (name -> Failure)."""
    name = timed if timed in failed else next(iter(failed))
    bad = failed[name]
    at = "at shape %s: %s" % (name, bad.reason)
    if done and timed not in failed:
        good = timed if timed in done else next(iter(done))
        return Failure("inconclusive", errors.one_line("shape-specialised: %s at shape %s but not %s" % (verb, good, at)), bad.error)
    return Failure(bad.outcome, errors.one_line(at), bad.error)


def export_all(traced, timed, checks):
    """([(name, bytes)] of all modules, None or a Failure to be told).

    TPU first: its errors are the ones that an author needs.  Where the kernel lowers at the timed shape and not at a check
    shape, the latter's module is left out and the worker, which can inspect the rest, decides what that means."""
    modules, failed = [], {}
    for shape, (closed, args) in traced.items():
        try:
            modules.append(("%s/tpu" % shape, export.lower(closed, args, "tpu")))
        except BaseException as bad:
            failed[shape] = Failure("compile-error", *errors.describe(bad, FILE))
    note = verdict({s: t for s, t in traced.items() if s not in failed}, failed, timed, "lowers for the TPU") if failed else None
    if note is not None and note.outcome != "inconclusive":
        raise note
    for shape in checks:
        closed, args = traced[shape]
        try:
            modules.append(("%s/cpu" % shape, export.lower(closed, args, "cpu")))
        except BaseException as bad:
            reason, error = errors.describe(bad, FILE)
            raise Failure("trace-error", errors.one_line("at shape %s: interpret mode can't run it: %s" % (shape, reason)), error) from None
    for name, body in modules:
        if len(body) > MODULE_MAX:
            raise Failure("trace-error", "module %s has %.0f MiB, at most %d are taken: it holds large constants"
                          % (name, len(body) / 2**20, MODULE_MAX >> 20))
    return modules, note


def shapes_of(job):
    """(names of the check shapes, the timed one or "", all of them once, check shapes first)."""
    checks = list(dict.fromkeys(job.get("check_shapes") or []))
    timed = job.get("timed_shape") or ""
    return checks, timed, checks + ([timed] if timed and timed not in checks else [])


def run(job, source, stages):
    """Fills `stages` with the parts `trace` and `export` of the record; returns the modules."""
    checks, timed, names = shapes_of(job)
    stages["export"] = {"status": "skipped", "reason": "the trace did not succeed"}
    with timing(stages, "trace"):
        traced = trace_all(load(source), job["workload"]["shapes"], names, timed)
    if job.get("last_stage") == "trace":
        stages["export"] = {"status": "skipped", "reason": "not asked for"}
        return []
    with timing(stages, "export"):
        modules, note = export_all(traced, timed, checks)
    if note is not None:
        stages["export"].update(reason=note.reason, error=note.error)
    return modules


class timing:
    """Writes status and seconds of a stage; a Failure becomes a failed stage and is passed on."""

    def __init__(self, stages, name):
        self.stages, self.name = stages, name

    def __enter__(self):
        self.start = time.monotonic()

    def __exit__(self, kind, bad, tb):
        stage = self.stages[self.name] = {"status": "ok", "seconds": round(time.monotonic() - self.start, 4)}
        if isinstance(bad, Failure):
            stage.update(status="fail", outcome=bad.outcome, reason=bad.reason)
            if bad.error:
                stage["error"] = bad.error


def main(job, source, emit):
    """Traces and exports one candidate.

    job: JSON text (docs/protocol.md; no gates, keys or folders).  source: bytes.  emit(kind, name, data) sends a frame.
    Emits a MODULE frame `<shape>/<platform>` each, TPU for every shape and CPU for the check shapes, and then one RESULT
    {"trace":{...},"export":{...}}.  Never raises for what a candidate did."""
    job = json.loads(job)
    environment = os.environ = Environment(os.environ)
    stages, modules = {}, []
    try:
        modules = run(job, source, stages)
    except Failure:
        pass
    stages["trace"]["flags"] = environment.flags()
    for name, body in modules:
        emit(MODULE, name, body)
    emit(RESULT, "", json.dumps(stages).encode())
