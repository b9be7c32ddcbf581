# SPDX-License-Identifier: Apache-2.0
"""Counts the work of a module: matrix-product FLOPs, elementwise FLOPs, transcendentals, bytes.

Static counts per operation times how often its block runs: grid points, loop trips,
branches.  Nothing is taken from the candidate's own cost estimate.  Conventions: a
product of M x K and K x N is 2MKN; arithmetic, comparisons and selects are 1 an element
of the result; a reduction is 1 an element of its input; conversions, constants and
data movement are 0; a transcendental is 1 and also counted apart.  Only operations
that an output needs are counted.  Three counts are made: TAKEN, every branch taken (of
alternatives the dearer); RUN, as executed where predicates are known and taken where
they depend on data; SURE, what is executed whatever the data are.
"""

import re

import numpy as np

from . import points
from .ir import integers, is_float, itemsize, walk
from .semantics import KIND, direction

MATMUL, FLOAT, OTHER, TRANS, LOOSE, BYTES = range(6)  # columns of a count
WIDTH = 6
TAKEN, RUN, SURE = "taken", "run", "sure"  # the counts

_TRANS = {"exp", "exp2", "expm1", "log", "log1p", "tanh", "logistic", "sqrt", "rsqrt", "sin", "cos", "erf", "pow", "tan", "atan2", "cbrt"}
# Operations that one platform writes as one and the other as many.
_LOOSE = {"erf", "pow", "tan", "atan2", "cbrt", "sign", "round", "roundaway", "rem", "ceildiv", "floordiv"}
_ONE = {"add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "not", "neg", "abs", "sign", "compare", "select", "clamp",
        "floor", "ceil", "round", "roundaway", "reciprocal", "shl", "shr", "ushr"} | _TRANS
_FREE_BYTES = {"stablehlo.constant", "stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.iota", "stablehlo.optimization_barrier",
               "stablehlo.return", "func.return", "stablehlo.bitcast_convert", "stablehlo.slice", "stablehlo.custom_call"}
BRANCHES = {"scf.if", "stablehlo.if", "stablehlo.case", "scf.index_switch"}
_INNER = {"stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.sort", "stablehlo.map",
          "stablehlo.select_and_scatter", "tpu.scan"}


def total(count):
    """All FLOPs of a count."""
    return float(count[MATMUL] + count[FLOAT] + count[OTHER])


def product_flops(op):
    """FLOPs of a matrix product or a convolution."""
    out, left, right = op.results[0].type, op.operands[0].type, op.operands[1].type
    if op.name == "stablehlo.convolution":
        text = str(op.attr("dimension_numbers"))
        kernel = re.search(r"x\[([^\]]*)\]->", text)
        axes = [a.strip() for a in kernel[1].split(",")] if kernel else ["o"]
        features = right.dims[axes.index("o")] if "o" in axes else 1
        return 2.0 * out.size * right.size / max(1, features)
    if op.name == "stablehlo.dot":
        return 2.0 * out.size * (left.dims[-1] if left.dims else 1)
    text = str(op.attr("dot_dimension_numbers" if op.name == "stablehlo.dot_general" else "dimension_numbers"))
    found = re.search(r"lhs_contracting_dimensions = \[([\d, ]*)\]" if op.name == "stablehlo.dot_general" else r"<\[([\d, ]*)\]", text)
    depth = 1
    for axis in found[1].split(",") if found else ():
        if axis.strip():
            depth *= left.dims[int(axis)]
    return 2.0 * out.size * depth


def cost(op):
    """The static count of one operation, executed once."""
    count = np.zeros(WIDTH)
    kind = KIND.get(op.name)
    if not op.results:
        return count
    out = op.results[0].type
    floats = FLOAT if is_float(op.operands[0].type.dtype if op.operands and kind == "compare" else out.dtype) else OTHER
    if kind in ("dot", "convolution"):
        count[MATMUL] = product_flops(op)
    elif op.name in ("tpu.matmul_acc_lhs", "tpu.matmul_push_rhs"):
        count[MATMUL] = 2.0 * op.operands[0].type.size * 256
        count[LOOSE] = op.operands[0].type.size
    elif kind in _ONE:
        count[FLOAT if kind == "select" and is_float(out.dtype) else floats] = out.size
        if kind in _TRANS and is_float(out.dtype):
            count[TRANS] = out.size
        if kind in _LOOSE and is_float(out.dtype):
            count[LOOSE] = out.size
    elif op.name == "stablehlo.reduce" or op.name == "vector.multi_reduction" or op.name == "vector.reduction":
        source = op.operands[0].type
        count[FLOAT if is_float(source.dtype) else OTHER] = source.size
        if len(op.results) > 1:
            count[LOOSE] = source.size
    elif op.name in ("stablehlo.reduce_window", "stablehlo.select_and_scatter"):
        window = integers(op.attr("window_dimensions")) or (1,)
        count[floats] = out.size * float(np.prod(window, dtype=np.float64))
        count[LOOSE] = out.size
    elif op.name in ("tpu.reduce_index", "tpu.scan", "stablehlo.sort", "stablehlo.scatter", "stablehlo.map", "tpu.sort"):
        source = op.operands[0].type
        steps = np.log2(max(2, source.size)) if "sort" in op.name else 1.0
        count[FLOAT if is_float(source.dtype) else OTHER] = source.size * steps
        count[LOOSE] = source.size
    if op.name.startswith("stablehlo.") and op.name not in _FREE_BYTES:
        count[BYTES] = sum(v.type.size * itemsize(v.type.dtype) for v in list(op.operands) + op.results)
    return count


class Counter:
    """Counts blocks.  `live` is the set of values that matter; `fold` their Fold; `kernels` maps the op of a kernel
    to its count for one call.  After a count, `undecided` names what depends on data, `seen` holds the blocks that
    were executed, and `loops` maps a `while` that is entered once to (trips, Frame of its body)."""

    def __init__(self, live, fold, kernels=None):
        self.live, self.fold, self.kernels = live, fold, kernels or {}
        self.undecided, self.loops, self.seen = [], {}, set()
        self._static = {}

    def _split(self, block):
        """(count of the plain operations of a block, its operations with blocks, and kernels)."""
        found = self._static.get(block)
        if found is None:
            count, inner = np.zeros(WIDTH), []
            for op in block.ops:
                if op in self.kernels:
                    if any(r in self.live for r in op.results):
                        count = count + self.kernels[op]
                elif op.blocks and op.name not in _INNER:
                    inner.append(op)
                elif any(r in self.live for r in op.results):
                    count = count + cost(op)
            found = self._static[block] = (count, inner)
        return found

    def _plain(self, block):
        return not self._split(block)[1]

    def count(self, block, frame, mode):
        """The count of all executions of `block` that `frame` stands for."""
        if not frame.n:
            return np.zeros(WIDTH)
        static, inner = self._split(block)
        self.seen.add(block)
        result = static * frame.n
        for op in inner:
            if op.name in BRANCHES:
                result = result + self._branch(op, frame, mode)
            elif op.name == "scf.for":
                result = result + self._for(op, frame, mode)
            elif op.name in ("stablehlo.while", "scf.while"):
                result = result + self._while(op, frame, mode)
            else:
                for block_ in op.blocks:
                    result = result + self.count(block_, frame, mode)
        return result

    def _branch(self, op, frame, mode):
        index = None if mode == TAKEN else frame.get(op.operands[0])
        if index is None:
            if mode != TAKEN:
                self.undecided.append("a branch depends on data")
            counts = [self.count(block, frame, mode) for block in op.blocks]
            if mode == SURE:
                return np.min(counts, axis=0) if len(counts) > 1 else np.zeros(WIDTH)
            return np.max(counts, axis=0)
        index = index.astype(np.int64)
        result = np.zeros(WIDTH)
        for number, block in enumerate(op.blocks):
            keep = takes(op, number, index)
            if keep.size == 1:
                if keep[0]:
                    result = result + self.count(block, frame, mode)
            else:
                result = result + self.count(block, frame.sub(keep), mode)
        return result

    def _for(self, op, frame, mode):
        body = op.blocks[0]
        found = points.trips_of_for(frame, op)
        if found is None:
            self.undecided.append("the trip count of a loop depends on data")
            return self._unknown(body, frame, mode)
        low, step, trips = found
        return self._repeat(body, frame, trips, mode, lambda f, k: f.set(body.args[0], _pick(f, low) + _pick(f, step) * k))

    def _unknown(self, body, frame, mode):
        """The body of a loop whose trip count depends on data: once, but surely not at all."""
        once = self.count(body, frame.opaque(frame.n), mode)
        return np.zeros(WIDTH) if mode == SURE else once

    def _repeat(self, body, frame, trips, mode, enter):
        times = float(trips.sum()) if trips.size > 1 else float(trips[0]) * frame.n
        if self._plain(body):
            if times:
                self.seen.add(body)
            return self._split(body)[0] * times
        many = frame.repeat(trips)
        if many is None:
            if mode != TAKEN:
                self.undecided.append("a loop has too many iterations to follow")
            unit = self.count(body, frame.opaque(1), mode)
            return unit * times
        inner, number = many
        enter(inner, number)
        return self.count(body, inner, mode)

    def _while(self, op, frame, mode):
        body = op.blocks[1]
        found = points.counter_of_while(frame, op) if len(op.blocks) == 2 else None
        if found is None:
            self.undecided.append("the trip count of a loop depends on data")
            return self._unknown(body, frame, mode)
        slot, start, step, trips = found
        if frame.n == 1 and trips.size == 1:
            once = int(trips[0])
            if once > points.MAX_POINTS:
                self.undecided.append("a loop has too many iterations to follow")
                return self.count(body, frame.opaque(1), mode) * float(once)
            inner = points.Frame(once, self.fold, frame, np.zeros(once, np.int64))
            for number, array in points.follow(frame, op, once).items():
                inner.set(body.args[number], array)
            inner.set(body.args[slot], start + step * np.arange(once))
            self.loops[op] = (once, inner)
            return self.count(body, inner, mode)
        return self._repeat(body, frame, trips, mode, lambda f, k: f.set(body.args[slot], _pick(f, start) + step * k))


def _pick(frame, array):
    return array if array.size == 1 or frame.pick is None else array[frame.pick]


def takes(op, number, index):
    """Which of the executions of a branch take its block `number`; `index` is its selector at each."""
    last = len(op.blocks) - 1
    if op.name in ("scf.if", "stablehlo.if"):
        return index != 0 if number == 0 else index == 0
    if op.name == "stablehlo.case":  # out of range means the last
        return index == number if number < last else (index == number) | (index < 0) | (index > last)
    cases = integers(op.attr("cases")) or ()
    if number == 0:
        return ~np.isin(index, cases)
    return index == cases[number - 1] if number <= len(cases) else np.zeros(index.shape, bool)


class KernelWork:
    """Counts of one call of a kernel: `count` maps TAKEN, RUN and SURE to arrays; `dead` blocks that are never executed;
    `undecided`.  `bytes_` is what the windows move (see indexmap)."""

    def __init__(self, kernel, flow, bytes_=0.0, tables=None):
        frame = grid_frame(kernel, flow.fold, tables)
        self.count = {}
        for mode in (TAKEN, SURE, RUN):
            counter = Counter(flow.live, flow.fold)
            self.count[mode] = counter.count(kernel.body, frame, mode)
            self.count[mode][BYTES] = bytes_
            if mode == TAKEN:
                self.loops_undecided = sorted(set(counter.undecided))
        self.undecided = sorted(set(counter.undecided))
        if kernel.grid is None or frame.n > points.MAX_POINTS:
            why = "the grid is not static" if kernel.grid is None else "the grid has %d steps, too many to follow" % frame.n
            self.undecided.append(why)
            self.loops_undecided.append(why)
        self.dead = set()
        if not self.undecided:
            every = {kernel.body} | {b for op in walk(kernel.body) if op.name not in _INNER for b in op.blocks}
            self.dead = every - counter.seen - {b for op in walk(kernel.body) if op.name == "scf.while" for b in op.blocks[:1]}


def grid_frame(kernel, fold, tables=None):
    """A Frame with one execution per grid point, in the order of the grid."""
    steps = kernel.about()
    frame = points.Frame(steps, fold)
    for axis, bound in enumerate(kernel.grid or ()):
        frame.set_table(("bound", axis), bound)
    for ref, table in (tables or {}).items():
        frame.set_table(ref, table)
    if kernel.grid is not None and steps <= points.MAX_POINTS:
        step = np.arange(steps, dtype=np.int64)
        inner = steps
        for arg, bound in zip(kernel.grid_args, kernel.grid):
            inner //= max(bound, 1)
            frame.set(arg, ((step // max(inner, 1)) % max(bound, 1)).astype(np.int32))
    return frame


def masked(op):
    """What tells two operations apart when sizes and constants don't count."""
    words = [op.name]
    kind = KIND.get(op.name)
    if kind == "compare":
        words.append(direction(op))
    for name in ("kind", "reduction_dims", "dimension_numbers", "dot_dimension_numbers", "reduction_kind", "dimensions", "dimension",
                 "permutation"):
        attr = op.attr(name)
        if attr is not None:
            words.append(str(attr))
    words += [r.type.dtype for r in op.results]
    return tuple(words)
