# SPDX-License-Identifier: Apache-2.0
"""Sets `interpret` on the Pallas calls of a traced function, whatever the candidate
passed, and finds calls to the host.

Works on one jaxpr, so the CPU and the TPU module come from a single trace.  It
lowers nothing.
"""

from jax._src import core

from jax._src.pallas.mosaic.interpret import params as tpu_interpret

# Equations that hold a kernel and say how it is run.
KERNELS = ("pallas_call", "core_map", "mpmd_map")

# Equations that need the host while the module runs -> how a person calls them.
HOST = {"pure_callback": "pure_callback", "io_callback": "io_callback", "buffer_callback": "buffer_callback",
        "debug_callback": "debug callback", "debug_print": "debug.print callback", "infeed": "infeed", "outfeed": "outfeed",
        "ffi_call": "foreign function (ffi_call)"}

# What interpret=InterpretParams(...) adds to an equation; gone once it is True or False.
_EFFECTS = frozenset(tpu_interpret.get_interpret_effects())


def _map_jaxprs(value, fn):
    """`value` (a parameter of an equation) with fn applied to every jaxpr in it; `value` itself when none changed."""
    if isinstance(value, core.ClosedJaxpr):
        new = fn(value.jaxpr)
        return value if new is value.jaxpr else value.replace(jaxpr=new)
    if isinstance(value, core.Jaxpr):
        return fn(value)
    if type(value) in (tuple, list):
        new = [_map_jaxprs(v, fn) for v in value]
        return type(value)(new) if any(a is not b for a, b in zip(new, value)) else value
    return value


def _rewrite(jaxpr, interpret):
    eqns = [_equation(e, interpret) for e in jaxpr.eqns]
    if all(a is b for a, b in zip(eqns, jaxpr.eqns)):
        return jaxpr
    return jaxpr.replace(eqns=eqns, effects=jaxpr.effects - _EFFECTS)


def _equation(eqn, interpret):
    if eqn.primitive.name in KERNELS:
        params = dict(eqn.params, interpret=interpret)
        params.pop("kernel_arg_transforms", None)  # of the GPU interpreter only
    else:
        params = {k: _map_jaxprs(v, lambda j: _rewrite(j, interpret)) for k, v in eqn.params.items()}
        if all(params[k] is v for k, v in eqn.params.items()):
            return eqn
    return eqn.replace(params=params, effects=eqn.effects - _EFFECTS)


def set_interpret(closed, interpret):
    """A copy of the ClosedJaxpr `closed` with `interpret` (bool) on every Pallas call, also those inside jit, scan, cond,
    while, vmap, remat and custom_* equations.  Kernel bodies are left alone.  Callbacks of the candidate's own have the same
    effects as an interpreter's, so ask host_calls first."""
    return closed.replace(jaxpr=_rewrite(closed.jaxpr, bool(interpret)))


def host_calls(closed):
    """Sorted names, as a person calls them, of equations of `closed` that need the host; kernel bodies included."""
    found, seen, todo = set(), set(), [closed.jaxpr]
    while todo:
        jaxpr = todo.pop()
        if id(jaxpr) in seen:
            continue
        seen.add(id(jaxpr))
        for eqn in jaxpr.eqns:
            if eqn.primitive.name in HOST:
                found.add(HOST[eqn.primitive.name])
            todo.extend(core.jaxprs_in_params(eqn.params))
    return sorted(found)
