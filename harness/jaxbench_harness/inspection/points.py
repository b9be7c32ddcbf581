# SPDX-License-Identifier: Apache-2.0
"""Scalar values at many points of a grid or a loop at once.

A Frame stands for `n` executions of a block.  It gives, for an integer or boolean
scalar, one NumPy number per execution (or one for all), computed on demand from
the values that were set (grid indices, loop counters) and from constants; None
where that depends on data.  Work is bounded: beyond MAX_POINTS nothing is known.
"""

import numpy as np

from . import semantics
from .ir import integers
from .semantics import KIND, splat

MAX_POINTS = 2_000_000
MAX_DEPTH = 200
MAX_STEPS = 2_000_000  # scalar operations of one loop that is followed step by step

_UNKNOWN = object()
_PASS_ON = {"stablehlo.broadcast_in_dim", "vector.extract", "vector.broadcast"}  # of one element


class Frame:
    """`n` executions.  `parent` and `pick` give the outer frame and, per execution, its number there (None: the
    outer frame has one).  `fold` holds what does not depend on data."""

    def __init__(self, n, fold, parent=None, pick=None):
        self.n, self.fold, self.parent, self.pick = n, fold, parent, pick
        self.known = {}

    def set(self, value, array):
        """Fixes a value; `array` has one number, or n."""
        self.known[value] = _UNKNOWN if array is None else np.asarray(array).reshape(-1)

    def get(self, value, depth=0):
        """An array of 1 or n numbers, or None.  A value of more than one element is given, with its dims, by `fold` alone."""
        found = self.known.get(value)
        if found is None:
            found = self._find(value, depth)
            self.known[value] = _UNKNOWN if found is None else found
        return None if found is _UNKNOWN else found

    def _find(self, value, depth):
        if value.type.size != 1:
            return None
        array = self.fold.get(value)
        if array is not None:
            return np.asarray(splat(array)).reshape(1)
        if self.n > MAX_POINTS or depth > MAX_DEPTH:
            return None
        if value.op is None:
            return self._outer(value, depth)
        if self.parent is not None and self.parent.has(value):
            return self._outer(value, depth)
        return self._compute(value.op, depth)

    def has(self, value):
        """Is the value already known here or further out?"""
        frame = self
        while frame is not None:
            found = frame.known.get(value)
            if found is not None:
                return found is not _UNKNOWN
            frame = frame.parent
        return False

    def _outer(self, value, depth):
        if self.parent is None:
            return None
        array = self.parent.get(value, depth + 1)
        if array is None or array.size == 1 or self.pick is None:
            return array
        return array[self.pick]

    def _compute(self, op, depth):
        kind = KIND.get(op.name)
        if op.blocks or len(op.results) != 1:
            return None
        if op.name in ("stablehlo.dynamic_slice", "memref.load", "stablehlo.slice", "tpu.load"):
            return self._element(op, depth)
        if op.name == "tpu.iteration_bound":
            bound = self.table(("bound", int(op.attr("dim").value)))
            return None if bound is None else bound.reshape(1)
        if kind not in semantics.ELEMENTWISE and kind != "reshape" and op.name not in _PASS_ON:
            return None
        arrays = []
        for operand in op.operands:
            array = self.get(operand, depth + 1)
            if array is None:
                return self._partial(op, kind, arrays, depth)
            arrays.append(array)
        if kind not in semantics.ELEMENTWISE:
            return arrays[0] if arrays else None
        value = semantics.apply(op, kind, arrays, op.results[0].type)
        return None if value is None else np.asarray(value).reshape(-1)

    def _partial(self, op, kind, arrays, depth):
        """`select` and `and` may be known although an operand is not."""
        if kind == "select" and arrays:
            if arrays[0].all():
                return self.get(op.operands[1], depth + 1)
            if not arrays[0].any():
                return self.get(op.operands[2], depth + 1)
        if kind == "and":
            for operand in op.operands:
                array = self.get(operand, depth + 1)
                if array is not None and array.size and not array.any():
                    return array[:1]
        return None

    def _element(self, op, depth):
        """One element of an array that does not depend on data, at an index that may vary."""
        table = self.table(op.operands[0])
        if table is None:
            return None
        if op.name == "stablehlo.slice":
            starts = integers(op.attr("start_indices"))
            return np.asarray(table[starts]).reshape(1)
        index = []
        for operand, dim in zip(op.operands[1:], table.shape):
            at = self.get(operand, depth + 1)
            if at is None:
                return None
            index.append(np.clip(at.astype(np.int64), 0, dim - 1))
        if len(index) != table.ndim:
            return None
        return table[tuple(np.broadcast_arrays(*index))] if index else np.asarray(table).reshape(1)

    def table(self, value):
        """The array a value or reference holds, when that does not depend on data; with its dims, else None."""
        frame = self
        while frame is not None:
            found = frame.known.get(("table", value))
            if found is not None:
                return found
            frame = frame.parent
        return self.fold.get(value)

    def set_table(self, value, array):
        """Says what a reference holds throughout."""
        if array is not None:
            self.known[("table", value)] = np.asarray(array)

    def sub(self, keep):
        """The executions where `keep`, n booleans, holds."""
        pick = np.flatnonzero(keep)
        return Frame(int(pick.size), self.fold, self, pick)

    def opaque(self, n):
        """`n` executions of an inner block of which nothing new is known; what is the same for all still is."""
        return Frame(n, self.fold, Uniform(self), None)

    def repeat(self, counts):
        """(frame with counts[i] executions for each of mine, number of the repetition); None when that is too many."""
        counts = np.broadcast_to(counts, (self.n,)) if counts.size == 1 else counts
        total = int(counts.sum())
        if total > MAX_POINTS:
            return None
        pick = np.repeat(np.arange(self.n), counts)
        first = np.cumsum(counts) - counts
        return Frame(total, self.fold, self, pick), np.arange(total) - np.repeat(first, counts)


class Uniform:
    """A frame seen from executions whose number there is not known: only what is equal in all of them shows."""

    def __init__(self, frame):
        self.frame, self.known, self.parent = frame, {}, None

    def has(self, value):
        return self.frame.has(value)

    def get(self, value, depth=0):
        array = self.frame.get(value, depth + 1)
        if array is None or array.size == 0:
            return None
        return array[:1] if array.size == 1 or (array == array[0]).all() else None

    def table(self, value):
        return self.frame.table(value)


def trips_of_for(frame, op):
    """(lower bound, step, trip counts) of an `scf.for`, arrays; None when they depend on data."""
    low, high, step = (frame.get(v) for v in op.operands[:3])
    if low is None or high is None or step is None or (step < 1).any():
        return None
    low, high, step = (a.astype(np.int64) for a in (low, high, step))
    return low, step, np.maximum(0, -((low - high) // step))


def counter_of_while(frame, op):
    """(slot, start, step, trip counts) of a counting `stablehlo.while` or `scf.while`; None when it is no such loop, or depends on data."""
    before, body = op.blocks
    test = _through(before.results[0]) if before.results else None
    if test is None or test.op is None or KIND.get(test.op.name) != "compare":
        return None
    name = semantics.direction(test.op)
    left, right = (_through(v) for v in test.op.operands)
    if right.op is None and right.block is before and _steps(body, right.index) is not None:
        left, right, name = right, left, {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}.get(name, name)
    if left.op is not None or left.block is not before:
        return None
    step = _steps(body, left.index)
    start = frame.get(op.operands[left.index])
    bound = _invariant(frame, op, right, before)
    size = frame.get(step[0]) if step is not None else None
    if start is None or bound is None or size is None or size.size != 1:
        return None
    start, bound, step = start.astype(np.int64), bound.astype(np.int64), int(size[0]) * step[1]
    if name == "le":
        bound, name = bound + 1, "lt"
    if name == "ge":
        bound, name = bound - 1, "gt"
    if name == "ne":
        if step == 0 or ((bound - start) % step).any() or ((bound - start) // step < 0).any():
            return None
        return left.index, start, step, (bound - start) // step
    if name == "lt" and step > 0:
        return left.index, start, step, np.maximum(0, -((start - bound) // step))
    if name == "gt" and step < 0:
        return left.index, start, step, np.maximum(0, -((bound - start) // -step))
    return None


def _through(value):
    while value.op is not None and KIND.get(value.op.name) in ("convert", "reshape", "same"):
        value = value.op.operands[0]
    return value


def _steps(body, slot):
    """(value, sign): what the body adds to a carry or takes from it; None when it does something else."""
    if slot >= len(body.results):
        return None
    out = _through(body.results[slot])
    kind = KIND.get(out.op.name) if out.op is not None else None
    if kind not in ("add", "sub"):
        return None
    a, b = out.op.operands
    if a is body.args[slot]:
        return b, 1 if kind == "add" else -1
    return (a, 1) if kind == "add" and b is body.args[slot] else None


def _invariant(frame, op, value, before):
    if value.op is None and value.block is before:
        slot = value.index
        same = slot < len(op.blocks[1].results) and op.blocks[1].results[slot] is op.blocks[1].args[slot]
        return frame.get(op.operands[slot]) if same else None
    if value.op is not None and value.op.block is before:
        array = frame.fold.splat(value)
        return None if array is None else np.asarray(array).reshape(1)
    return frame.get(value)


def follow(frame, op, trips):
    """Slot -> its value at the start of every iteration, for the scalar integer carries of a while that is
    entered once and runs `trips` times; empty when that takes more than MAX_STEPS."""
    body = op.blocks[1]
    slots = {n for n, arg in enumerate(body.args) if arg.type.size == 1 and arg.type.dtype in ("i32", "i64", "i1", "index")
             and frame.get(op.operands[n]) is not None and body.results[n] is not arg}
    while slots:
        code, lost = _program(frame, body, slots)
        if not lost:
            break
        slots -= lost
    if not slots or trips * max(1, len(code)) > MAX_STEPS:
        return {}
    order = sorted(slots)
    source = ["def run(trips, state, out):", " " + ", ".join("s%d" % n for n in order) + ", = state", " for t in range(trips):",
              "  out.append((" + ", ".join("s%d" % n for n in order) + ",))"]
    source += ["  " + line for line in code]
    source += ["  if not -2147483648 <= n%d < 2147483648: raise OverflowError" % n for n in order]
    source.append("  " + ", ".join("s%d" % n for n in order) + ", = " + ", ".join("n%d" % n for n in order) + ",")
    space = {"__builtins__": {"range": range, "min": min, "max": max, "int": int, "OverflowError": OverflowError}, "div": _div, "rem": _rem,
             "mul": _mul}
    exec("\n".join(source), space)  # every word of it is made here; see _program
    out = []
    try:
        space["run"](trips, [int(frame.get(op.operands[n])[0]) for n in order], out)
        table = np.array(out, np.int64).reshape(trips, len(order))
    except (ZeroDivisionError, OverflowError, ValueError):
        return {}
    return {n: table[:, i] for i, n in enumerate(order)}


def _mul(a, b):
    product = a * b
    if not -(2 ** 62) < product < 2 ** 62:
        raise OverflowError
    return product


def _div(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _rem(a, b):
    return a - b * _div(a, b)


_CODE = {"add": "%s + %s", "sub": "%s - %s", "mul": "mul(%s, %s)", "div": "div(%s, %s)", "rem": "rem(%s, %s)", "min": "min(%s, %s)",
         "max": "max(%s, %s)", "and": "%s & %s", "or": "%s | %s", "xor": "%s ^ %s"}
_TESTS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def _program(frame, body, slots):
    """(lines of Python that compute n<slot> from s<slot>, slots that can't be)."""
    lines, names, lost = [], {}, set()

    def name(value, depth):
        if value in names:
            return names[value]
        found = None
        if value.op is None and value.block is body:
            if value.index in slots:
                found = "s%d" % value.index
        if found is None and depth < MAX_DEPTH and value.type.size == 1:
            known = frame.fold.splat(value)
            if known is None and (value.block is not body if value.op is None else value.op.block is not body):
                outer = frame.get(value)
                known = outer[0] if outer is not None and outer.size == 1 else None
            if known is not None and np.asarray(known).dtype.kind in "iub":
                found = "(%d)" % int(known)
            elif value.op is not None and value.op.block is body:
                found = emit(value.op, depth)
        names[value] = found
        return found

    def emit(op, depth):
        kind = KIND.get(op.name)
        if op.blocks or len(op.results) != 1 or kind not in semantics.ELEMENTWISE and kind != "reshape":
            return None
        args = [name(v, depth + 1) for v in op.operands]
        if not args or any(a is None for a in args):
            return None
        if kind in _CODE:
            text = _CODE[kind] % tuple(args)
        elif kind == "compare" and semantics.direction(op) in _TESTS:
            text = "int(%s %s %s)" % (args[0], _TESTS[semantics.direction(op)], args[1])
        elif kind == "select":
            text = "%s if %s else %s" % (args[1], args[0], args[2])
        elif kind == "clamp":
            text = "min(max(%s, %s), %s)" % (args[1], args[0], args[2])
        elif kind in ("convert", "reshape", "same") and op.results[0].type.dtype in ("i32", "i64", "index"):
            return args[0]
        else:
            return None
        lines.append("v%d = %s" % (len(lines), text))
        return "v%d" % (len(lines) - 1)

    for slot in sorted(slots):
        found = name(body.results[slot], 0)
        if found is None:
            lost.add(slot)
        else:
            lines.append("n%d = %s" % (slot, found))
    return lines, lost
