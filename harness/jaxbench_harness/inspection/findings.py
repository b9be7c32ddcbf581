# SPDX-License-Identifier: Apache-2.0
"""Findings about one module that may go on: no kernel, an input that nothing reads,
an output that is the same whatever the inputs, an answer that was brought along.
"""

import zlib

from . import flops
from .ir import itemsize, walk

NOT_PALLAS = 0.01
LABEL = 0.5
EMBEDDED = 64 << 10
STRUCTURED = 16  # a constant that compresses this well is a mask or a ramp, no answer
SAMPLE = 4 << 20


def finding(id_, outcome, detail):
    """One finding; `outcome` "" is a label."""
    return {"id": id_, "outcome": outcome, "detail": detail}


def share(analysis, sure=False):
    """Share of the FLOPs that is inside kernels, 0 to 1; a module without FLOPs outside has 1.  With `sure`, of those inside only
    the ones are counted that are executed whatever the data are."""
    inside = flops.total(analysis.kernel_sure if sure else analysis.kernel_run)
    total = inside + flops.total(analysis.run) - flops.total(analysis.kernel_run)
    return min(1.0, inside / total) if total > 0 else (1.0 if analysis.live_kernels else 0.0)


def not_pallas(analysis, formula=None):
    """A finding, a label or nothing about kernels on the path from inputs to outputs.  `formula` is the number of FLOPs that
    the workload asks for: who does half of it or more outside of kernels must do the rest inside whatever the data are."""
    module = analysis.module
    if not analysis.live_kernels:
        why = "the module has no kernel" if not module.kernels else \
            "no output depends on what kernel '%s' computes" % module.kernels[0].name
        return finding("not-pallas", "not-pallas", "%s: %s" % (module.name, why))
    moved = [k for k in analysis.live_kernels if analysis.reached_inputs(k.op.results)]
    if not moved and analysis.reached_inputs(module.outputs):
        return finding("not-pallas", "not-pallas", "%s: kernel '%s' does not depend on any input"
                       % (module.name, analysis.live_kernels[0].name))
    outside = flops.total(analysis.run) - flops.total(analysis.kernel_run)
    part = share(analysis, sure=bool(formula) and outside >= LABEL * formula)
    if part < NOT_PALLAS:
        return finding("not-pallas", "not-pallas", "%s: %.2g %% of the FLOPs are inside kernels, at least 1 %% are asked for"
                       % (module.name, 100 * part))
    if part < LABEL:
        return finding("share", "", "%s: %.0f %% of the FLOPs are inside kernels" % (module.name, 100 * part))
    return None


def inputs(analysis, names):
    """unread-input and constant-output findings; `names` are the names of the inputs."""
    module, found = analysis.module, []
    constant = [n for n, value in enumerate(module.outputs) if not analysis.reached_inputs([value])]
    for number in constant:
        found.append(finding("constant-output", "suspicious", "%s: output %d does not depend on any input" % (module.name, number)))
    if len(constant) == len(module.outputs):
        return found
    read = analysis.reached_inputs(module.outputs)
    for number in range(len(module.inputs)):
        if number not in read:
            found.append(finding("unread-input", "suspicious", "%s: input %d (%s) can't change any output"
                                 % (module.name, number, names[number] if number < len(names) else "?")))
    return found


def constants(analysis):
    """embedded-constant: constants of 64 KiB and more that hold as many elements as an output."""
    module = analysis.module
    least = min((v.type.size for v in module.outputs if v.type.size), default=0)
    elements, size, largest = 0, 0.0, None
    for block in [module.entry] + [k.body for k in module.kernels]:
        for op in walk(block):
            if not op.name.endswith(".constant") or not op.results:
                continue
            type_ = op.results[0].type
            bytes_ = type_.size * itemsize(type_.dtype)
            if bytes_ < 1024 or getattr(op.attr("value"), "is_splat", False) or _structured(op, bytes_):
                continue
            elements, size = elements + type_.size, size + bytes_
            if largest is None or type_.size > largest.size:
                largest = type_
    if size >= EMBEDDED and elements >= least:
        return finding("embedded-constant", "suspicious", "%s: constants of %d bytes, the largest %s, are as large as an output"
                       % (module.name, size, largest))
    return None


def _structured(op, size):
    """Does the constant compress so well that it can't be an answer?"""
    text = str(op.attr("value")).encode()[:SAMPLE]
    return len(zlib.compress(text, 1)) * STRUCTURED * 2 < len(text) if size >= 4096 else False
