# SPDX-License-Identifier: Apache-2.0
"""How a module is written: its operations in order, their constants and their types.

Two modules of one candidate, traced at two shapes, are the same program when the
operations and the way they are wired are equal and every constant is, too, or follows from the
sizes.  Nothing here says how often an operation is executed.
"""

import itertools
import math
from fractions import Fraction

from .flops import masked
from .ir import BITS, is_float, walk
from .semantics import KIND, constant, splat

NARROW = 16       # bits; a float that is narrower is a lossy copy of what the contract asks for
ROUNDING = 0.008  # relative: a constant may be rounded to bfloat16


def signature(module):
    """The operations of a module and of its kernels in order, with how they are wired, without sizes and constants."""
    tokens = []
    _tokens(module.entry, tokens, module.by_op)
    return tokens


def _tokens(block, tokens, by_op, numbers=None):
    numbers = {} if numbers is None else numbers
    for arg in block.args:
        numbers[arg] = len(numbers)
    for op in block.ops:
        if op.name.endswith(".constant"):
            continue
        tokens.append((masked(op), tuple(numbers.get(v, -1) for v in op.operands)))
        for result in op.results:
            numbers[result] = len(numbers)
        if op in by_op:
            kernel = by_op[op]
            tokens.append(("kernel", len(kernel.grid_args), kernel.prefetch, kernel.inputs, kernel.outputs, len(kernel.scratch_args)))
            tokens.append(("types",) + tuple(a.type.dtype for a in kernel.body.args))
            _tokens(kernel.body, tokens, by_op)
            for window in kernel.windows:
                tokens.append(("window", window is not None))
                if window is not None:
                    _tokens(window.index, tokens, by_op)
        for inner in op.blocks:
            tokens.append(("block",))
            _tokens(inner, tokens, by_op, numbers)
            tokens.append(("end",))


def first_difference(a, b):
    """Words for the first place where two signatures differ."""
    for x, y in zip(a, b):
        if x != y:
            return "%s against %s" % (_word(x), _word(y))
    return "%d against %d operations" % (len(a), len(b))


def _word(token):
    if token[0] == "kernel":
        return "a kernel with %d grid axes, %d inputs, %d outputs and %d scratch buffers" % (token[1], token[3], token[4], token[5])
    return token[0][0] if isinstance(token[0], tuple) else str(token[0])


def _blocks(module):
    """The bodies of a module: its function, then of each kernel the body and the index maps."""
    yield "the function", module.entry
    for kernel in module.kernels:
        yield "kernel '%s'" % kernel.name, kernel.body
        for number, window in enumerate(kernel.windows):
            if window is not None:
                yield "index map %d of kernel '%s'" % (number, kernel.name), window.index


def constants(module):
    """(where, ir.Type, array or None) of every constant, in order."""
    return [(where, op.results[0].type, constant(op)) for where, block in _blocks(module) for op in walk(block)
            if op.name.endswith(".constant") and op.results]


def other_constant(gate, timed):
    """Words for the first constant that differs between two stablehlo.Modules of equal signatures and does not follow from the
    sizes, or ""."""
    left, right = constants(gate), constants(timed)
    if len(left) != len(right):
        return "there are %d constants against %d" % (len(left), len(right))
    sizes = _sizes(gate, timed)
    growths = _growths(sizes)
    for (where, type_, x), (_, other, y) in zip(left, right):
        if type_.dtype != other.dtype:
            return "a constant of %s is of type %s against %s" % (where, type_.dtype, other.dtype)
        a, b = splat(x), splat(y)
        if a is None or b is None:
            if type_.dims == other.dims and (x is None or y is None or x.tobytes() != y.tobytes()):
                return "a constant %s of %s has other elements" % (type_, where)
            continue
        if a == b or a != a and b != b:
            continue
        if not (_same_float(float(a), float(b), sizes) if is_float(type_.dtype) else _same_integer(int(a), int(b), growths)):
            return "a constant of %s is %s against %s" % (where, a, b)
    return ""


def _sizes(gate, timed):
    """Pairs of sizes, at the gate shape and at the timed one: of the axes of inputs and outputs, products of neighbouring
    axes, bounds of the grids, and the axes of blocks and scratch buffers, which a small gate axis may clamp."""
    pairs = set()
    for a, b in zip(gate.inputs + list(gate.outputs), timed.inputs + list(timed.outputs)):
        for first, last in itertools.combinations(range(min(len(a.type.dims), len(b.type.dims)) + 1), 2):
            pairs.add((math.prod(a.type.dims[first:last]), math.prod(b.type.dims[first:last])))
    for a, b in zip(gate.kernels, timed.kernels):
        pairs.update(zip(a.grid or (), b.grid or ()))
        for x, y in zip(a.body.args, b.body.args):
            pairs.update(zip(x.type.dims, y.type.dims))
    return pairs


def _growths(sizes):
    """By what integers may grow from the gate shape to the timed one: as an axis does, or as up to three of them together
    (the number of steps of a pipeline is the product of its axes).  Lenient, because what integers control is counted."""
    single = {Fraction(x, y) for x, y in sizes if x > 0 and y > 0} | {Fraction(1)}
    return {x * y * z for x, y, z in itertools.combinations_with_replacement(sorted(single)[:64], 3)}  # capped: modules are hostile


def _same_integer(a, b, growths):
    """Does an integer, or the next one, grow as axes do?"""
    return any(b + near != 0 and Fraction(a + near, b + near) in growths for near in (0, 1, -1))


def _same_float(a, b, sizes):
    """Are two floats the same function of an axis: its length, the root of it, or what divides by them?"""
    for x, y in sizes:
        for power in (1, -1, 0.5, -0.5):
            if x > 0 and y > 0 and math.isclose(abs(a), x ** power, rel_tol=ROUNDING) and math.isclose(abs(b), y ** power, rel_tol=ROUNDING):
                return (a > 0) == (b > 0)
    return False


_CONTROL = {"scf.if": slice(0, 1), "scf.index_switch": slice(0, 1), "scf.for": slice(0, 3), "stablehlo.case": slice(0, 1),
            "stablehlo.if": slice(0, 1)}


def _control_values(block):
    """The values that predicates, trip counts and loop conditions of a block are made of, each once, back to loads and arguments."""
    seen = set()
    for op in walk(block):
        todo = list(op.operands[_CONTROL[op.name]]) if op.name in _CONTROL else []
        if op.name in ("scf.while", "stablehlo.while") and op.blocks:
            todo = list(op.blocks[0].results[:1])
        todo.reverse()
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            yield value
            if value.op is not None and not value.op.blocks:
                todo += reversed(value.op.operands)


def control_constants(block):
    """The scalar constants among what controls a block, in order."""
    return [splat(constant(v.op)) for v in _control_values(block) if v.op is not None and v.op.name.endswith(".constant")]


def float_control(block):
    """Do floats, which only data are, decide what a block executes?"""
    return any(is_float(v.type.dtype) and v.type.kind != "memref" for v in _control_values(block))


def same_control(a, b):
    """Do two Kernels of equal operations also have the same control: equal constants, or both the length of one grid axis or its
    last index?  Then what one executes less than the other follows from the sizes alone."""
    left, right = control_constants(a.body), control_constants(b.body)
    if len(left) != len(right) or a.grid is None or b.grid is None or len(a.grid) != len(b.grid):
        return False
    for x, y in zip(left, right):
        if x is None or y is None:
            return False
        if x != y and not any(x == m - less and y == n - less for m, n in zip(a.grid, b.grid) for less in (0, 1)):
            return False
    return True


def float_constants(module, live=None):
    """The floats that fill constants in the kernels of a module (of the whole module when it has none), without 0 and the infinities."""
    blocks = [k.body for k in module.kernels if live is None or k in live] if module.kernels else [module.entry]
    found = set()
    for block in blocks:
        for op in walk(block):
            if op.name.endswith(".constant") and op.results and is_float(op.results[0].type.dtype):
                number = splat(constant(op))
                if number is not None and math.isfinite(number) and number != 0:
                    found.add(float(number))
    return found


def narrow_types(module):
    """Types below 16 bits that some value of a module has, booleans aside."""
    found = set()
    for _, block in _blocks(module):
        for op in walk(block):
            found.update(v.type.dtype for v in op.results if _bits(v.type.dtype) < NARROW)
    return found


def _bits(dtype):
    if dtype == "i1":
        return NARROW
    if dtype[:1] == "f" and dtype[1:2].isdigit() and dtype not in BITS:
        return int(dtype[1:2])
    return BITS.get(dtype[1:] if dtype[:2] in ("ui", "si") else dtype, NARROW)


def product_types(module):
    """The types of matrix products and convolutions: (left, right, result)."""
    return {(op.operands[0].type.dtype, op.operands[1].type.dtype, op.results[0].type.dtype)
            for _, block in _blocks(module) for op in walk(block) if KIND.get(op.name) in ("dot", "convolution") and op.results}


def platform_branch(module):
    """Does a module choose by platform: a case on what a case on a constant gives, as `lax.platform_dependent` lowers?"""
    for op in walk(module.entry):
        inner = op.operands[0].op if op.name == "stablehlo.case" else None
        if inner is not None and inner.name == "stablehlo.case" and inner.operands[0].op is not None \
                and inner.operands[0].op.name.endswith(".constant"):
            return True
    return False
