# SPDX-License-Identifier: Apache-2.0
"""The inspect stage: what may be said about a candidate's exported modules without
executing them.

`main` is called once in a fresh, sandboxed child.  The modules are hostile bytes.  A
module that would endanger the executor, or that does not fit the contract, ends
the job here; everything else is a finding and checking goes on.  It compiles nothing
and runs nothing.
"""

import json
import time
import traceback

import numpy as np

from .inspection import findings as f
from .inspection import flops, link, stablehlo
from .inspection.analysis import Analysis
from .inspection.ir import Refused

RESULT = 32  # JB_FRAME_RESULT
WORDS = {link.DOUBTFUL: link.UNPROVEN}  # a link is structural, unproven or a mismatch; that a doubt costs the outcome is a finding
ORDER = ("not-pallas", "wrong", "suspicious", "inconclusive", "")  # of findings: the first one's outcome counts, labels are last


def main(job, modules, emit):
    """Inspects `modules`, a dict from `<shape>/<platform>` to the bytes of a portable artifact, for the job `job` (JSON text).
    Emits one RESULT frame, {"inspect": {...}} (docs/protocol.md)."""
    start = time.monotonic()
    try:
        result = inspect(json.loads(job), modules)
    except MemoryError:
        result = failed("inspecting the modules takes more memory than is allowed", "inconclusive")
    result["seconds"] = round(time.monotonic() - start, 4)
    emit(RESULT, "", json.dumps({"inspect": result}).encode())


def failed(reason, outcome):
    """The result of a stage that ends the job."""
    return {"status": "fail", "outcome": outcome, "reason": reason, "findings": []}


def inspect(job, modules):
    """The `inspect` part of the record, without `seconds`."""
    shapes = job["workload"]["shapes"]
    try:
        toolkit = stablehlo.Toolkit()
        loaded = {}
        if timed_shape(job) + "/tpu" not in modules:
            raise Refused("module %s/tpu, which is timed, is missing" % timed_shape(job))
        for name in sorted(modules):
            module = loaded[name] = stablehlo.load(name, modules[name], toolkit)
            shape = name.partition("/")[0]
            if shape not in shapes:
                raise Refused("module %s is for a shape that the job does not have" % name)
            stablehlo.contract(module, shapes[shape])
    except Refused as refused:
        return failed(str(refused), "trace-error" if "callback" in str(refused) else refused.outcome)
    analyses, name = {}, ""
    try:
        with np.errstate(all="ignore"):
            for name, module in loaded.items():
                analyses[name] = Analysis(module)
            return conclude(job, shapes, analyses)
    except Exception as error:  # a module that the analyses do not cope with is neither right nor an attack
        result = failed("the inspector does not understand module %s (%s)" % (name, type(error).__name__), "inconclusive")
        result["error"] = traceback.format_exc(limit=-3)[:4096]
        return result


def timed_shape(job):
    """The shape that is timed."""
    return job.get("timed_shape") or "full"


def conclude(job, shapes, analyses):
    """Findings, counts, coverage and link from the Analysis of every module."""
    tpu = {name.partition("/")[0]: a for name, a in analyses.items() if name.endswith("/tpu")}
    cpu = {name.partition("/")[0]: a for name, a in analyses.items() if name.endswith("/cpu")}
    main_shape, checked, found = timed_shape(job), list(dict.fromkeys(job.get("check_shapes") or [])), []
    main_ = tpu[main_shape]
    note = f.not_pallas(main_, shapes[main_shape].get("flops"))
    if note:
        found.append(note)
    if not note or note["id"] != "not-pallas":
        _other_shapes(found, main_shape, main_, tpu)
    for name in ("%s/%s" % (shape, platform) for shape in checked for platform in ("tpu", "cpu")):
        if name not in analyses:  # the tracer leaves out what does not lower at a check shape
            found.append(f.finding("shape-specialised", "inconclusive", "module %s is missing, so nothing ties %s to what was checked"
                                   % (name, main_.module.name)))
    _data(found, main_shape, tpu, shapes)
    if note and note["id"] == "not-pallas" and not main_.live_kernels:  # nothing is there to tie
        tied = link.Verdict()
        tied.say(link.UNPROVEN, "%s has no kernel" % main_.module.name)
    else:
        tied = _link(shapes, checked, main_shape, tpu, cpu)
    if tied.status == link.MISMATCH:
        found.append(f.finding("link-mismatch", "suspicious", tied.detail))
    elif tied.status == link.DOUBTFUL:
        found.append(f.finding("link-doubtful", "inconclusive", tied.detail))
    elif tied.status == link.UNPROVEN and main_.live_kernels:
        found.append(f.finding("link-unproven", "", tied.detail))
    found.sort(key=lambda note: ORDER.index(note["outcome"]))
    return {"status": "ok", "findings": found, "kernels": len(main_.live_kernels),
            "flops": {"kernels": flops.total(main_.kernel_run), "total": flops.total(main_.run), "share": round(f.share(main_), 4)},
            "bytes": {"kernels": float(main_.kernel_run[flops.BYTES]), "total": float(main_.run[flops.BYTES])},
            "coverage": main_.coverage.json(), "link": {"status": WORDS.get(tied.status, tied.status), "detail": tied.detail}}


def _other_shapes(found, main_shape, main_, tpu):
    """Coverage at the timed shape, and what differs from it at the others."""
    cover = main_.coverage
    if cover.status == "incomplete":
        found.append(f.finding("coverage", "wrong", "%s: %s" % (main_.module.name, cover.detail)))
    elif cover.status == "unknown":
        found.append(f.finding("coverage-unknown", "", "%s: %s" % (main_.module.name, cover.detail)))
    for shape, other in tpu.items():
        if shape == main_shape:
            continue
        if cover.status != "incomplete" and other.coverage.status == "incomplete":
            found.append(f.finding("shape-specialised", "inconclusive", "%s: %s" % (other.module.name, other.coverage.detail)))
        elif main_.live_kernels and not other.live_kernels:
            found.append(f.finding("shape-specialised", "inconclusive", "%s has no kernel on the path to its outputs, %s has %d"
                                   % (other.module.name, main_.module.name, len(main_.live_kernels))))


def _data(found, main_shape, tpu, shapes):
    """Unread inputs, constant outputs and embedded answers: of the timed shape first, then what only another shape shows."""
    said = set()
    for shape in sorted(tpu, key=lambda s: (s != main_shape, s)):
        names = [i.get("name", "?") for i in shapes[shape].get("inputs", [])]
        notes = f.inputs(tpu[shape], names)
        constant = f.constants(tpu[shape])
        if constant:
            notes.append(constant)
        for note in notes:
            key = (note["id"], note["detail"].partition(":")[2] if note["id"] != "embedded-constant" else "")
            if key not in said:
                said.add(key)
                found.append(note)


def _link(shapes, checked, main_shape, tpu, cpu):
    """What the platforms of every checked shape differ in, and the timed shape from the checked ones.  The first checked shape is
    the one whose gates decide; a doubt that only another raises is a label."""
    verdict = link.Verdict()
    if not checked:
        verdict.say(link.UNPROVEN, "nothing is executed: no shape is checked")
    for shape in checked:
        if shape not in tpu or shape not in cpu:
            verdict.say(link.UNPROVEN, "module %s/%s is missing" % (shape, "cpu" if shape in tpu else "tpu"))
            continue
        link.platforms(verdict, shape, tpu[shape], cpu[shape])
        if shape == main_shape:
            continue
        this = link.Verdict()
        link.shapes(this, shape, tpu[shape], shapes[shape].get("flops"), main_shape, tpu[main_shape], shapes[main_shape].get("flops"))
        verdict.say(link.UNPROVEN if this.status == link.DOUBTFUL and shape != checked[0] else this.status, this.detail)
    return verdict
