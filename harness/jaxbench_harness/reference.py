# SPDX-License-Identifier: Apache-2.0
"""The reference child: what a workload itself makes of one trial's inputs.

Writes one file (docs/protocol.md, "Reference files" and "What a reference child
is asked"): the inputs and, as asked, r_jit (the workload compiled as a whole),
r_op (operator by operator) and h (every float widened to fp64); or the workload
exported as a module, the baseline.  Executes suite sources only, never a
candidate.  Importing it starts no backend.
"""
import json
import os
import resource
import struct
import time
import traceback

import jax
import numpy as np

from jaxbench_harness import draws, widen, workloads

RESULT = 32  # JB_FRAME_RESULT
MAGIC = b"JBREF1\0\0"
ALIGN = 4096
GROUPS = ("r_jit", "r_op", "h")
ERROR_BYTES = 4096


class RequestError(Exception):
    """A request that can't be met as it stands."""


def _peak_mb():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _specs(resolved):
    return [jax.ShapeDtypeStruct(tuple(i["dims"]), np.dtype(jax.numpy.dtype(i["dtype"]))) for i in resolved["inputs"]]


def _expect(what, arrays, rows):
    """Refuse arrays that are not what workload.yaml says (`rows`: dtype and dims)."""
    seen = [(str(a.dtype), list(a.shape)) for a in arrays]
    said = [(r["dtype"], list(r["dims"])) for r in rows]
    if seen != said:
        raise workloads.WorkloadError(f"{what} should be {said} by workload.yaml; they are {seen}")


def inputs_of(module, request):
    """The inputs of the trial that `request` names: numpy arrays, checked against the resolved shape."""
    resolved, scale = request["resolved"], float(request.get("scale", 1.0))
    ident, name = request["workload"]["id"], request["distribution"]
    number, key = int(request.get("draw", 0)), request.get("key", "")
    if name == "published":
        arrays = draws.published(module, ident, number, key)
    else:
        arrays = draws.draw(resolved["inputs"], ident, name, number, key, scale)
    _expect("the inputs", arrays, resolved["inputs"])
    return arrays


def _compiled(module, inputs):
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(module.workload)(*inputs))]


def compute(module, request):
    """[(group, index, array)] of one trial: the inputs, then the groups asked for."""
    inputs = inputs_of(module, request)
    wanted = request.get("groups", list(GROUPS))
    unknown = sorted(set(wanted) - set(GROUPS))
    if unknown:
        raise RequestError(f"unknown group {', '.join(unknown)}; known are {', '.join(GROUPS)}")
    graph = jax.make_jaxpr(module.workload)(*_specs(request["resolved"]))
    make = {"r_jit": lambda: _compiled(module, inputs),
            "r_op": lambda: widen.by_operator(graph)(*inputs),
            "h": lambda: widen.high(graph)(*inputs)}
    rows = [("input", i, a) for i, a in enumerate(inputs)]
    for group in GROUPS:
        if group not in wanted:
            continue
        arrays = make[group]()
        if group != "h":
            _expect(f"the outputs of {group}", arrays, request["resolved"]["outputs"])
        rows += [(group, i, a) for i, a in enumerate(arrays)]
    return rows


def _layout(rows, seconds):
    """(header bytes, offsets): the offsets depend on the header's length and the other way round."""
    start, text = ALIGN, b""
    while True:
        offsets, at = [], start
        for _, _, array in rows:
            offsets.append(at)
            at += -(-array.nbytes // ALIGN) * ALIGN
        text = json.dumps({
            "schema": 1,
            "arrays": [{"group": g, "index": i, "dtype": str(a.dtype), "dims": list(a.shape), "offset": o, "bytes": a.nbytes}
                       for (g, i, a), o in zip(rows, offsets)],
            "seconds": round(seconds, 3), "peak_mb": round(_peak_mb(), 1)}).encode()
        need = -(-(len(MAGIC) + 8 + len(text)) // ALIGN) * ALIGN
        if need <= start:
            return text, offsets
        start = need


def write(path, rows, seconds):
    """Write a reference file: `rows` is [(group, index, array)]."""
    text, offsets = _layout(rows, seconds)
    with open(path, "wb") as out:
        out.write(MAGIC + struct.pack("<Q", len(text)) + text)
        for (_, _, array), offset in zip(rows, offsets):
            out.seek(offset)
            out.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        out.truncate(max([o + -(-a.nbytes // ALIGN) * ALIGN for (_, _, a), o in zip(rows, offsets)], default=ALIGN))


def baseline(module, request):
    """The jitted workload at the shape of `request`, exported: bytes of a portable StableHLO module."""
    from jax import export

    platform = request.get("platform", "cpu")
    if platform not in ("cpu", "tpu"):
        raise RequestError(f"unknown platform {platform!r}; known are cpu, tpu")
    # Without source locations: equal workloads give equal bytes, wherever they lie on the machine.
    kept = jax.config.jax_traceback_in_locations_limit
    jax.config.update("jax_traceback_in_locations_limit", 0)
    try:
        exported = export.export(jax.jit(module.workload), platforms=[platform])(*_specs(request["resolved"]))
    finally:
        jax.config.update("jax_traceback_in_locations_limit", kept)
    return exported.mlir_module_serialized


def _serve(request, out_path):
    module = workloads.load(request["workload"]["dir"], request["resolved"]["config"])
    kind = request.get("kind", "trial")
    begun = time.monotonic()
    if kind == "trial":
        rows = compute(module, request)
        write(out_path, rows, time.monotonic() - begun)
    elif kind == "base":
        data = baseline(module, request)
        with open(out_path, "wb") as out:
            out.write(data)
    else:
        raise RequestError(f"unknown kind {kind!r}; known are trial, base")
    return {"status": "ok", "seconds": round(time.monotonic() - begun, 3), "peak_mb": round(_peak_mb(), 1)}


def main(request, out_path, emit):
    """Serve one request (JSON text), writing to `out_path`, which the caller
    renames; emit(RESULT, "", {"reference": {...}}) says how it went.  Any error
    is a result with `status` fail; a part-written file is removed."""
    try:
        result = _serve(json.loads(request), out_path)
    except Exception as error:
        try:
            os.unlink(out_path)
        except OSError:
            pass
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        result = {"status": "fail", "reason": reason, "error": traceback.format_exc()[-ERROR_BYTES:]}
    emit(RESULT, "", json.dumps({"reference": result}).encode())
