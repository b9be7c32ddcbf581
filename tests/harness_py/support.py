# SPDX-License-Identifier: Apache-2.0
"""Jobs as the worker makes them, and the children's entry points called in this process."""

import json
import os
import sys

from jaxbench_harness import compiler, tracer

F32 = "float32"


def array(*dims, dtype=F32):
    return {"dtype": dtype, "dims": list(dims)}


def pair(m, k, n, dtype=F32):
    """A resolved shape with inputs A [m, k], B [k, n] and one output [m, n]."""
    return {"config": {"M": m, "K": k, "N": n}, "inputs": [array(m, k, dtype=dtype), array(k, n, dtype=dtype)],
            "outputs": [array(m, n, dtype=dtype)]}


def single(m, n, outputs=1):
    """A resolved shape with one input [m, n] and `outputs` outputs [m, n]."""
    return {"config": {"M": m, "N": n}, "inputs": [array(m, n)], "outputs": [array(m, n)] * outputs}


PAIR = {"small": pair(16, 256, 128), "large": pair(64, 512, 256)}
SINGLE = {"small": single(64, 128), "large": single(128, 256)}


def job(shapes, check=("small",), timed="large", **more):
    return json.dumps(dict({"schema": 1, "workload": {"id": "t", "name": "t", "shapes": shapes}, "check_shapes": list(check),
                            "timed_shape": timed}, **more))


def trace(source, shapes, **more):
    """(stages, modules) of tracer.main."""
    modules, results = {}, []

    def emit(kind, name, data):
        if kind == tracer.MODULE:
            modules[name] = data
        else:
            results.append(json.loads(data))

    environment = os.environ
    try:
        tracer.main(job(shapes, **more), source if isinstance(source, bytes) else source.encode(), emit)
    finally:
        os.environ = environment
        sys.modules.pop(tracer.NAME, None)
    assert len(results) == 1, results
    return results[0], modules


def compiled(module):
    """The `compile` stage of compiler.main."""
    results = []
    compiler.main(job({}), module, lambda kind, name, data: results.append(json.loads(data)))
    assert len(results) == 1, results
    return results[0]["compile"]
