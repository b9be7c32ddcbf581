# SPDX-License-Identifier: Apache-2.0
"""Constants and dead factors: which values of a module do not depend on its data.

One pass in program order gives `Fold.value[v]`, an array for each value that is the
same whatever the inputs are: constants, what is computed from them, and what algebra
makes so (0*x, x-x, x&False, select on a constant).  Floats follow algebra, not
NaN rules: 0*x is 0 here, because a kernel whose result is multiplied by 0 does no work.
"""

import numpy as np

from . import semantics
from .ir import integers
from .semantics import KIND, splat

LIMIT = 1 << 20  # elements of an array that is computed; splats have no limit


class Fold:
    """`value` maps an ir.Value to a NumPy array of its dims."""

    def __init__(self, block):
        self.value = {}
        with np.errstate(all="ignore"):
            self._block(block)

    def get(self, value):
        """The array, or None for a value that depends on data."""
        return self.value.get(value)

    def splat(self, value):
        """The one number that fills a value, or None."""
        return splat(self.value.get(value))

    def _block(self, block):
        stack = [iter(block.ops)]
        while stack:
            for op in stack[-1]:
                if op.blocks:
                    self._carries(op)
                    stack.append(iter([o for b in op.blocks for o in b.ops]))
                    break
                array = self._op(op)
                if array is not None:
                    self.value[op.results[0]] = array
            else:
                stack.pop()

    def _carries(self, op):
        """Loop carries that every iteration passes on unchanged."""
        if op.name in ("stablehlo.reduce", "stablehlo.reduce_window"):
            half = len(op.operands) // 2
            for result, operand, init in zip(op.results, op.operands[:half], op.operands[half:]):
                body = op.blocks[0].ops
                if self.splat(operand) == 0 and self.splat(init) == 0 and len(body) == 2 and KIND.get(body[0].name) in ("add", "max", "min"):
                    self.value[result] = np.broadcast_to(np.asarray(0, semantics.dtype(result.type.dtype)), result.type.dims)
            return
        for blocks, first, inits in _loops(op):
            body = blocks[-1]
            for number, init in enumerate(inits):
                array = self.value.get(init)
                if array is None or number >= len(body.results) or body.results[number] is not body.args[first + number]:
                    continue
                for block in blocks:
                    self.value[block.args[(first if block is body else 0) + number]] = array
                if number < len(op.results):
                    self.value[op.results[number]] = array

    def _op(self, op):
        kind = KIND.get(op.name)
        if len(op.results) != 1:
            return None
        if kind == "constant":
            return semantics.constant(op, LIMIT)
        result = op.results[0].type
        if semantics.dtype(result.dtype) is None or result.kind not in ("tensor", "vector", "scalar"):
            return None
        arrays = [self.value.get(v) for v in op.operands]
        number = _algebra(op, kind, arrays)
        if number is not None:
            return np.broadcast_to(np.asarray(number, semantics.dtype(result.dtype)), result.dims)
        if kind == "select" and splat(arrays[0]) is not None:
            return arrays[1] if splat(arrays[0]) else arrays[2]
        if not arrays and op.name != "stablehlo.iota" or any(a is None for a in arrays):
            return None
        if kind in semantics.ELEMENTWISE:
            return _elementwise(op, kind, arrays, result)
        mover = _MOVES.get(op.name)
        if mover is None:
            return None
        numbers = [splat(a) for a in arrays]
        if op.name not in ("stablehlo.iota", "stablehlo.concatenate") and numbers and numbers[0] is not None:
            return np.broadcast_to(np.asarray(numbers[0]), result.dims)
        if result.size > LIMIT:
            return None
        try:
            array = mover(op, arrays, result)
        except (TypeError, ValueError, IndexError):
            return None
        return array if array is not None and array.shape == result.dims else None


def _loops(op):
    """(blocks that carry, index of the first carry in the last block, initial values) of a loop."""
    if op.name == "stablehlo.while":
        return [(op.blocks, 0, op.operands)]
    if op.name == "scf.for":
        return [(op.blocks, 1, op.operands[3:])]
    return []


def _algebra(op, kind, arrays):
    """The number that fills the result whatever the unknown operands are, or None."""
    a = splat(arrays[0]) if arrays else None
    b = splat(arrays[1]) if len(arrays) > 1 else None
    boolean = bool(op.operands) and op.operands[0].type.dtype == "i1"
    if kind in ("mul", "and") and (a is not None and a == 0 or b is not None and b == 0):
        return 0
    if kind in ("dot", "convolution") and (a is not None and a == 0 or b is not None and b == 0):
        return 0 if len(arrays) < 3 or splat(arrays[2]) == 0 else None
    if kind == "or" and boolean and (a is not None and a or b is not None and b):
        return True
    if kind in ("div", "rem") and a is not None and a == 0 and b is None:
        return 0
    if kind == "pow" and b is not None and b == 0:
        return 1
    if kind == "min" and (a == -np.inf or b == -np.inf):
        return -np.inf
    if kind == "max" and (a == np.inf or b == np.inf):
        return np.inf
    if len(op.operands) == 2 and op.operands[0] is op.operands[1]:
        if kind in ("sub", "xor"):
            return 0
        if kind == "compare":
            name = semantics.direction(op)
            return None if name is None else name.lstrip("u") in ("eq", "le", "ge")
    if kind == "clamp" and len(arrays) == 3 and a is not None and splat(arrays[2]) is not None and a == splat(arrays[2]):
        return a
    if kind == "add" and len(op.operands) == 2:
        for x, y in (op.operands, op.operands[::-1]):
            if x.op is not None and KIND.get(x.op.name) == "neg" and x.op.operands[0] is y:
                return 0
    return None


def _elementwise(op, kind, arrays, result):
    numbers = [splat(a) for a in arrays]
    if all(n is not None for n in numbers):
        value = semantics.apply(op, kind, [np.asarray(n) for n in numbers], result)
        return None if value is None else np.broadcast_to(np.asarray(value), result.dims)
    if result.size > LIMIT:
        return None
    value = semantics.apply(op, kind, arrays, result)
    if value is not None and value.size and (value == value.flat[0]).all():
        value = value.flat[0]
    return None if value is None else np.broadcast_to(np.asarray(value), result.dims)


def _slice(op, arrays, result):
    start, limit, stride = (integers(op.attr(n)) for n in ("start_indices", "limit_indices", "strides"))
    return arrays[0][tuple(slice(*x) for x in zip(start, limit, stride))]


def _dynamic_slice(op, arrays, result):
    index = []
    for start, size, dim in zip(arrays[1:], result.dims, arrays[0].shape):
        at = min(max(int(splat(start)), 0), dim - size)
        index.append(slice(at, at + size))
    return arrays[0][tuple(index)]


def _broadcast(op, arrays, result):
    dims = integers(op.attr("broadcast_dimensions"))
    shape = [1] * len(result.dims)
    for at, size in zip(dims, arrays[0].shape):
        shape[at] = size
    return np.broadcast_to(arrays[0].reshape(shape), result.dims)


def _iota(op, arrays, result):
    at = int(op.attr("iota_dimension").value)
    shape = [1] * len(result.dims)
    shape[at] = result.dims[at]
    return np.broadcast_to(np.arange(result.dims[at], dtype=semantics.dtype(result.dtype)).reshape(shape), result.dims)


_MOVES = {
    "stablehlo.slice": _slice, "stablehlo.dynamic_slice": _dynamic_slice, "stablehlo.broadcast_in_dim": _broadcast,
    "stablehlo.iota": _iota,
    "stablehlo.reshape": lambda op, a, r: a[0].reshape(r.dims), "vector.shape_cast": lambda op, a, r: a[0].reshape(r.dims),
    "stablehlo.reverse": lambda op, a, r: np.flip(a[0], integers(op.attr("dimensions"))),
    "stablehlo.transpose": lambda op, a, r: a[0].transpose(integers(op.attr("permutation"))),
    "stablehlo.concatenate": lambda op, a, r: np.concatenate(a, int(op.attr("dimension").value)),
    "vector.broadcast": lambda op, a, r: np.broadcast_to(a[0], r.dims), "vector.extract": lambda op, a, r: None,
}
