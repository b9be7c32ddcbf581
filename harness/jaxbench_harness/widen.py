# SPDX-License-Identifier: Apache-2.0
"""A traced graph evaluated again in two other ways:

  high(closed)        h: every float widened to float64 (complex to complex128),
                      control flow rebuilt, parameters that name a dtype
                      rewritten, explicit roundings left out
  by_operator(closed) r_op: each primitive compiled and run by itself, so that
                      every boundary between two rounds to the graph's dtype

Constants keep the value they have in the graph (a bfloat16 0.1 is 0.10009765625
in h too): h answers "this graph without rounding", not "another formula".  What
can't be widened is refused by name: a float seen as bits has no wider form, and a
call out of the graph or a kernel is no graph.  Nothing here starts a backend
before one of the returned functions is called.
"""
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core


class WidenError(Exception):
    """A graph that has no fp64 form; the text names the primitive."""


# Call-like primitives that are their body: name -> parameter with the body.
_CALLS = {
    "jit": "jaxpr", "pjit": "jaxpr", "closed_call": "call_jaxpr", "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr", "custom_vjp_call_jaxpr": "fun_jaxpr",
    "remat": "jaxpr", "remat2": "jaxpr", "checkpoint": "jaxpr", "composite": "jaxpr",
}

# Primitives whose value lies outside the graph, or in the bits of a float.
_REFUSED = {
    "pallas_call": "a kernel is no graph of operators",
    "platform_index": "the graph would depend on the platform",
    "pure_callback": "a call out of the graph", "io_callback": "a call out of the graph",
    "ffi_call": "a call out of the graph", "custom_call": "a call out of the graph",
    "random_bits": "stochastic parts have no one value",
    "random_gamma": "stochastic parts have no one value",
    "rng_uniform": "stochastic parts have no one value",
    "nextafter": "the neighbour of a float depends on its width",
}

_SCATTERS = {
    "scatter": lax.scatter, "scatter-add": lax.scatter_add, "scatter_add": lax.scatter_add,
    "scatter-sub": lax.scatter_sub, "scatter_sub": lax.scatter_sub,
    "scatter-mul": lax.scatter_mul, "scatter_mul": lax.scatter_mul,
    "scatter-min": lax.scatter_min, "scatter_min": lax.scatter_min,
    "scatter-max": lax.scatter_max, "scatter_max": lax.scatter_max,
}


def _closed(body):
    """(jaxpr, consts) of a closed or an open jaxpr."""
    return (body.jaxpr, body.consts) if isinstance(body, core.ClosedJaxpr) else (body, ())


def _is_body(value):
    if isinstance(value, (tuple, list)):
        return any(_is_body(v) for v in value)
    return isinstance(value, (core.Jaxpr, core.ClosedJaxpr))


def _run(jaxpr, consts, args, literal, equation):
    """The walk both evaluations share: environment, literals, one `equation` at a time."""
    env = dict(zip(jaxpr.constvars, consts))
    env.update(zip(jaxpr.invars, args))
    last = {}
    for at, eqn in enumerate(jaxpr.eqns):
        last.update((v, at) for v in eqn.invars if not isinstance(v, core.Literal))
    keep = {v for v in jaxpr.outvars if not isinstance(v, core.Literal)}
    read = lambda v: literal(v) if isinstance(v, core.Literal) else env[v]
    for at, eqn in enumerate(jaxpr.eqns):
        outs = equation(eqn, [read(v) for v in eqn.invars])
        env.update((v, x) for v, x in zip(eqn.outvars, outs) if v in last or v in keep)
        for v in eqn.invars:  # eager evaluation would otherwise hold every intermediate
            if not isinstance(v, core.Literal) and last[v] == at and v not in keep:
                env.pop(v, None)
    return [read(v) for v in jaxpr.outvars]


def _bind(eqn, args, params):
    out = eqn.primitive.bind(*args, **eqn.primitive.get_bind_params(params))
    return list(out) if eqn.primitive.multiple_results else [out]


# ---- float64 ---------------------------------------------------------------

def wide(dtype):
    """float64 for any float, complex128 for any complex, else `dtype` itself."""
    if not isinstance(dtype, np.dtype):
        return dtype  # keys of random streams
    if jnp.issubdtype(dtype, jnp.floating):
        return np.dtype(np.float64)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        return np.dtype(np.complex128)
    return dtype


def _is_float(dtype):
    return isinstance(dtype, np.dtype) and jnp.issubdtype(dtype, jnp.inexact)


def _as_wide(value, aval):
    if not isinstance(aval.dtype, np.dtype):
        return value
    return lax.convert_element_type(value, wide(aval.dtype))


def _literal(v):
    return np.asarray(v.val, v.aval.dtype).astype(wide(v.aval.dtype))


def _eval(body, args, consts=()):
    jaxpr, own = _closed(body)
    consts = [_as_wide(c, v.aval) for c, v in zip([*own, *consts], jaxpr.constvars)]
    return _run(jaxpr, consts, args, _literal, _equation)


def _typed(body, args, consts=()):
    """_eval, with results of exactly the widened types of the body: loops insist."""
    jaxpr, _ = _closed(body)
    return [_as_wide(x, v.aval) for x, v in zip(_eval(body, args, consts), jaxpr.outvars)]


def _scan(eqn, args):
    p = eqn.params
    consts, carry = p["num_consts"], p["num_carry"]
    fixed, start, rows = args[:consts], args[consts:consts + carry], args[consts + carry:]

    def step(state, row):
        outs = _typed(p["jaxpr"], [*fixed, *state, *row])
        return outs[:carry], outs[carry:]

    end, stacked = lax.scan(step, start, rows, length=p["length"], reverse=p["reverse"], unroll=p["unroll"])
    return [*end, *stacked]


def _while(eqn, args):
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    test, body, start = args[:n], args[n:n + m], args[n + m:]
    return lax.while_loop(lambda s: _typed(p["cond_jaxpr"], [*test, *s])[0],
                          lambda s: _typed(p["body_jaxpr"], [*body, *s]), start)


def _cond(eqn, args):
    if eqn.params.get("branches_platforms") is not None:
        raise WidenError("cond: the graph would depend on the platform")
    index, *rest = args
    branches = [lambda *xs, b=b: _typed(b, xs) for b in eqn.params["branches"]]
    return lax.switch(index, branches, *rest)


def _reduce(eqn, args):
    half = len(args) // 2
    step = lambda a, b: tuple(_typed(eqn.params["jaxpr"], [*a, *b]))
    return list(lax.reduce(tuple(args[:half]), tuple(args[half:]), step, eqn.params["dimensions"]))


def _reduce_window(eqn, args):
    p, half = eqn.params, len(args) // 2
    step = lambda a, b: tuple(_typed(p["jaxpr"], [*a, *b], p.get("consts", ())))
    return list(lax.reduce_window(tuple(args[:half]), tuple(args[half:]), step, p["window_dimensions"],
                                  p["window_strides"], p["padding"], p["base_dilation"], p["window_dilation"]))


def _scatter(eqn, args):
    p = eqn.params
    return [_SCATTERS[eqn.primitive.name](*args, p["dimension_numbers"], indices_are_sorted=p["indices_are_sorted"],
                                          unique_indices=p["unique_indices"], mode=p["mode"])]


def _bitcast(eqn, args):
    if _is_float(eqn.invars[0].aval.dtype) or _is_float(eqn.outvars[0].aval.dtype):
        raise WidenError("bitcast_convert_type: the bits of a float have no wider form; "
                         "write the operation on values, or give the workload another reference")
    return _bind(eqn, args, eqn.params)


def _same(eqn, args):
    return list(args)


_REBUILT = {
    "scan": _scan, "while": _while, "cond": _cond, "reduce": _reduce, "reduce_window": _reduce_window,
    "bitcast_convert_type": _bitcast, "reduce_precision": _same,
    **{name: _scatter for name in _SCATTERS},
}


def _wide_param(value):
    if isinstance(value, np.dtype):
        return wide(value)
    if isinstance(value, type) and issubclass(value, np.generic):
        return wide(np.dtype(value))
    if isinstance(value, (lax.DotAlgorithm, lax.DotAlgorithmPreset)):
        return None  # an algorithm of lower precision; float64 has one only
    return value


def _equation(eqn, args):
    name = eqn.primitive.name
    if name in _REFUSED:
        raise WidenError(f"{name}: {_REFUSED[name]}")
    if name in _CALLS:
        return _eval(eqn.params[_CALLS[name]], args)
    if name in _REBUILT:
        return _REBUILT[name](eqn, args)
    params = {k: _wide_param(v) for k, v in eqn.params.items()}
    if any(_is_body(v) for v in params.values()):
        raise WidenError(f"{name}: holds a graph of its own, and no rule says how to widen that one")
    return _bind(eqn, args, params)


def high(closed):
    """The graph in float64: a function of the graph's inputs (numpy arrays of the
    graph's dtypes), giving a list of numpy arrays, float64 where the graph has
    floats and unchanged dtypes elsewhere.  Raises WidenError, when called, for
    what has no such form."""

    def run(*inputs):
        widened = [np.asarray(x).astype(wide(np.dtype(x.dtype))) for x in inputs]
        with jax.enable_x64(True):
            # A fresh function each time: jit's trace cache must not meet one traced without x64.
            outs = jax.jit(lambda *xs: _typed(closed, xs))(*widened)
            return [np.asarray(x) for x in outs]

    return run


# ---- operator by operator --------------------------------------------------

# Whole loops are one dispatch: their bodies are compiled with every rounding kept.
_LOOPS = {"scan", "while"}
_KEEP_ROUNDING = {"xla_allow_excess_precision": False}


def _op_equation(eqn, args):
    name = eqn.primitive.name
    if name in _CALLS:
        jaxpr, consts = _closed(eqn.params[_CALLS[name]])
        return _run(jaxpr, consts, args, _op_literal, _op_equation)
    if name == "cond":
        branches = eqn.params["branches"]
        jaxpr, consts = _closed(branches[int(np.clip(int(args[0]), 0, len(branches) - 1))])
        return _run(jaxpr, consts, args[1:], _op_literal, _op_equation)
    if name in _LOOPS:
        return list(jax.jit(lambda *xs: _bind(eqn, xs, eqn.params), compiler_options=_KEEP_ROUNDING)(*args))
    return _bind(eqn, args, eqn.params)


def _op_literal(v):
    return np.asarray(v.val, v.aval.dtype)


def by_operator(closed):
    """The graph one primitive at a time: a function of the graph's inputs giving
    a list of numpy arrays of the graph's own dtypes."""

    def run(*inputs):
        jaxpr, consts = _closed(closed)
        outs = _run(jaxpr, consts, [jnp.asarray(x) for x in inputs], _op_literal, _op_equation)
        return [np.asarray(x) for x in outs]

    return run
