# SPDX-License-Identifier: Apache-2.0
"""Running the plain kernels, and wrong ones made from them by changing a line,
in interpret mode on the CPU; and the references they are scored against."""
import functools
import unittest.mock

import jax
import numpy as np
from jax.experimental import pallas as pl

from jaxbench_harness import reference, workloads
from tests.suite_py import score, spec


@functools.cache
def trial(ident, shape, distribution, draw=0):
    """{"input", "r_jit", "r_op", "h"} -> list of arrays; kept, because many kernels are scored on one trial."""
    # The key of the loop's own draws (core/evaluate/job.h).
    request = spec.request(ident, shape, distribution, draw, "jaxbench-suite-1/loop")
    module = workloads.load(request["workload"]["dir"], request["resolved"]["config"])
    out = {}
    for group, _, array in reference.compute(module, request):
        out.setdefault(group, []).append(array)
    return out


@functools.cache
def kernel(ident, changes=()):
    """The plain kernel of a workload, jitted for interpret mode, after textual `changes` ((old, new), ...)."""
    text = (spec.FOLDERS[ident] / "plain.py").read_text()
    for old, new in changes:
        if old not in text:
            raise AssertionError(f"{ident}: plain.py no longer holds {old!r}")
        text = text.replace(old, new)
    scope = {}
    exec(compile(text, f"{ident}/plain.py", "exec"), scope)
    interpreted = functools.partial(pl.pallas_call, interpret=True)

    def run(*inputs):
        with unittest.mock.patch.object(pl, "pallas_call", interpreted):
            return scope["workload"](*inputs)

    return jax.jit(run)


def outputs(ident, shape, distribution, draw=0, changes=()):
    """What a kernel makes of a trial's inputs, as a numpy array."""
    return np.asarray(kernel(ident, changes)(*trial(ident, shape, distribution, draw)["input"]))


@functools.cache
def yardstick(ident, shape, distribution, draw=0):
    """What kernels are scored with on one trial."""
    t = trial(ident, shape, distribution, draw)
    return score.Yardstick(t["r_jit"][0], t["r_op"][0], t["h"][0], spec.read(spec.FOLDERS[ident] / "workload.yaml")["slice_axes"])


def ratio(ident, shape, distribution, draw=0, changes=()):
    """The error ratio of a kernel on one trial (tests/suite_py/score.py)."""
    return yardstick(ident, shape, distribution, draw).score(outputs(ident, shape, distribution, draw, changes))
