# SPDX-License-Identifier: Apache-2.0
"""The numbers a workload is judged on: one list of arrays per (workload,
distribution, draw, key).

Everything but `published` is drawn by NumPy's Philox generator, keyed by the
SHA-256 of what the draw is, so an array depends on nothing else: not on other
inputs, on order, on threads or on a backend.  Values are drawn in float32 and
rounded once to the input's dtype, to nearest even; whoever computes a reference
starts from the rounded values.  Whole numbers are drawn as such.

Distributions (docs/formats.md; formulas of D6 and D9 as in the design notes):

  own        every input as `repaired` in workload.yaml says
  outlier    like own; then activations get ceil(d/256) fixed channels times 20,
             where d is the length of the last axis, and two fixed (token,
             channel) entries in every leading slice: +-2^10 medians of |x| at
             token 0, +-2^U(7,10) medians at one other token
  tiny       like own; then activations times 2^-9: a variance near the eps of
             normalisations
  published  the workload's own create_inputs(bfloat16); draw 0 is the public
             one, draw d > 0 folds 32 bits of the SHA-256 into every key it makes

Roles: distributions act on `activation`; `weight`, `bias`, `scale` and `index`
(whole numbers that name rows, tokens or classes) keep their own draw.  `scale` (range safety, `scales` in workload.yaml) multiplies
activations under every distribution but `published`.
"""
import contextlib
import hashlib
import json
import math

import ml_dtypes
import numpy as np

ROLES = {"activation": True, "weight": False, "bias": False, "scale": False, "index": False}  # does a distribution act on it?
DISTRIBUTIONS = ("published", "own", "outlier", "tiny")

CHANNEL_FACTOR = 20.0
CHANNELS_PER = 256
FIRST_TOKEN_LOG2 = 10.0
OTHER_TOKEN_LOG2 = (7.0, 10.0)
TINY_FACTOR = 2.0 ** -9

_FLOATS = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
_INTEGERS = {"int32": np.int32}
_DTYPES = {**_FLOATS, **_INTEGERS}


class DrawError(Exception):
    """A draw that can't be made; the text names the input or the distribution."""


def _digest(*identity):
    text = json.dumps(["jaxbench-draw-1", *identity], ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()


def _generator(*identity):
    """A generator that only `identity` (texts and integers) decides."""
    return np.random.Generator(np.random.Philox(key=int.from_bytes(_digest(*identity)[:16], "little")))


def _own(spec, generator):
    """One input as `repaired` says: float32 of the input's dims; int64 where it is `integers`."""
    dims, rule = spec["dims"], spec.get("repaired")
    if not isinstance(rule, dict) or len(rule) != 1:
        raise DrawError(f"input {spec['name']}: `repaired` should be one of normal, uniform, integers; it is {rule!r}")
    (kind, numbers), = rule.items()
    if kind == "normal":
        values = generator.standard_normal(dims, np.float32)
        values *= np.float32(numbers.get("std", 1.0))
        values += np.float32(numbers.get("mean", 0.0))
        return values
    if kind == "uniform":
        low, high = np.float32(numbers.get("low", 0.0)), np.float32(numbers.get("high", 1.0))
        values = generator.random(dims, np.float32)
        values *= high - low
        values += low
        return values
    if kind == "integers":
        return generator.integers(int(numbers["low"]), int(numbers["high"]), dims)
    raise DrawError(f"input {spec['name']}: unknown draw {kind!r}; known are normal, uniform, integers")


def _outliers(values, places):
    """D6 in place; `places` decides channels, tokens and signs."""
    width = values.shape[-1]
    median = float(np.median(np.abs(values)))
    channels = places.choice(width, math.ceil(width / CHANNELS_PER), replace=False)
    signs = places.choice([-1.0, 1.0], 2)
    massive = places.choice(width, 2, replace=width < 2)
    strength = 2.0 ** np.array([FIRST_TOKEN_LOG2, places.uniform(*OTHER_TOKEN_LOG2)])
    values[..., channels] *= np.float32(CHANNEL_FACTOR)
    if values.ndim < 2:
        values[massive[0]] = signs[0] * strength[0] * median
        return
    values[..., 0, massive[0]] = signs[0] * strength[0] * median
    if values.shape[-2] > 1:
        token = int(places.integers(1, values.shape[-2]))
        values[..., token, massive[1]] = signs[1] * strength[1] * median


def _check(specs, distribution):
    if distribution == "published":
        raise DrawError("the published inputs are not drawn but made by the workload: ask published()")
    if distribution not in DISTRIBUTIONS:
        raise DrawError(f"unknown distribution {distribution!r}; known are {', '.join(DISTRIBUTIONS)}")
    for spec in specs:
        if spec.get("role") not in ROLES:
            raise DrawError(f"input {spec['name']}: unknown role {spec.get('role')!r}; known are {', '.join(ROLES)}")
        if spec["dtype"] not in _DTYPES:
            raise DrawError(f"input {spec['name']}: dtype {spec['dtype']} can't be drawn; known are {', '.join(_DTYPES)}")
        whole = {spec["role"] == "index", spec["dtype"] in _INTEGERS, "integers" in (spec.get("repaired") or {})}
        if len(whole) > 1:
            raise DrawError(f"input {spec['name']}: role index, an integer dtype and the draw integers go together; "
                            f"it has {spec['role']}, {spec['dtype']}, {spec.get('repaired')!r}")


def draw(specs, workload, distribution, number, key, scale=1.0):
    """The inputs of one trial, in call order: a list of numpy arrays.

    specs: `inputs` of a resolved shape (docs/formats.md), each with name, dtype,
    dims, role and repaired.  workload: its id.  distribution: own, outlier or
    tiny.  number: of the draw, from 0.  key: text; unknown to whoever must not
    know the draw.  scale: factor of activations.  Raises DrawError.
    """
    _check(specs, distribution)
    arrays = []
    for index, spec in enumerate(specs):
        identity = (key, workload, distribution, number, index)
        values = _own(spec, _generator("values", *identity))
        if ROLES[spec["role"]]:
            if distribution == "outlier":
                _outliers(values, _generator("places", *identity))
            factor = scale * (TINY_FACTOR if distribution == "tiny" else 1.0)
            if factor != 1.0:
                values *= np.float32(factor)
        arrays.append(values.astype(_DTYPES[spec["dtype"]]))
    return arrays


@contextlib.contextmanager
def _rekeyed(bits):
    """While it lasts, every key made from a seed has `bits` folded in."""
    import jax

    names = ("key", "PRNGKey")
    plain = {name: getattr(jax.random, name) for name in names}

    def folded(make):
        return lambda *args, **kwargs: jax.random.fold_in(make(*args, **kwargs), bits)

    try:
        for name in names:
            setattr(jax.random, name, folded(plain[name]))
        yield
    finally:
        for name in names:
            setattr(jax.random, name, plain[name])


def published(module, workload, number, key):
    """What `module.create_inputs(bfloat16)` gives: a list of numpy arrays.

    Draw 0 is the public one whatever `key` says; another draw depends on key,
    workload and number.  Starts a backend.
    """
    import jax
    import jax.numpy as jnp

    again = contextlib.nullcontext()
    if number > 0:
        again = _rekeyed(int.from_bytes(_digest("published", key, workload, number)[:4], "little"))
    with again:
        return [np.asarray(x) for x in jax.tree.leaves(module.create_inputs(jnp.bfloat16))]
