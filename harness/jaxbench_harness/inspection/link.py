# SPDX-License-Identifier: Apache-2.0
"""Is the module that is timed the one that was checked?

Without a TPU nobody executes the timed module.  What ties it to the checked one is
structure: at each gate shape the TPU and the CPU module do the same work and move
the same blocks, and the kernels at the gate shape and at the timed shape are the same
operations with other sizes.  What the comparison can't decide is `unproven`; only a
difference that no lowering makes is a mismatch.
"""

import math

import numpy as np

from .flops import FLOAT, LOOSE, MATMUL, TRANS, masked, total
from .ir import itemsize, walk
from .semantics import constant, splat

TOLERANCE = 0.05
CHEAP = 0.5       # less than this part of the work that was expected is another computation
LITTLE = 0.45     # of the formula's FLOPs: less than a causal mask leaves
NEAR = 0.85
SLACK = 1024      # elementwise FLOPs that don't matter: scalars, index arithmetic
WRITTEN_OUT = 40  # elementwise FLOPs by which a platform writes out an erf or a power

STRUCTURAL, UNPROVEN, MISMATCH = "structural", "unproven", "mismatch"
_RANK = {STRUCTURAL: 0, UNPROVEN: 1, MISMATCH: 2}


class Verdict:
    """The worst of what was said, and why."""

    def __init__(self):
        self.status, self.detail = STRUCTURAL, ""

    def say(self, status, detail):
        if _RANK[status] > _RANK[self.status]:
            self.status, self.detail = status, detail


def _close(a, b, slack=0.0):
    return abs(a - b) <= TOLERANCE * max(a, b) + slack


def platforms(verdict, shape, tpu, cpu):
    """Compares the two Analysis objects of one gate shape."""
    where = "at shape %s" % shape
    undecided = tpu.loops_undecided or cpu.loops_undecided
    worse = UNPROVEN if undecided else MISMATCH

    def differ(what, a, b, status):
        verdict.say(status, "%s the TPU module does %.6g %s, the CPU module %.6g" % (where, a, what, b))

    if undecided:
        verdict.say(UNPROVEN, "%s %s" % (where, undecided[0]))
    a, b = tpu.taken, cpu.taken
    loose = max(a[LOOSE], b[LOOSE])
    if not _close(a[MATMUL], b[MATMUL]):
        as_sums = _close(a[MATMUL] + a[FLOAT], b[MATMUL] + b[FLOAT])
        differ("matrix-product FLOPs", a[MATMUL], b[MATMUL], UNPROVEN if as_sums or a[MATMUL] > b[MATMUL] else worse)
    if not _close(a[TRANS], b[TRANS], 8 + 2 * loose):  # an erf or a power is none to two of them on the other side
        differ("transcendentals", a[TRANS], b[TRANS], UNPROVEN if a[TRANS] > b[TRANS] else worse)
    written_out = WRITTEN_OUT * loose
    if a[FLOAT] < CHEAP * (b[FLOAT] - written_out) - SLACK:
        differ("elementwise FLOPs", a[FLOAT], b[FLOAT], UNPROVEN if loose else worse)
    elif not NEAR * (b[FLOAT] - written_out) - SLACK <= a[FLOAT] <= b[FLOAT] / NEAR + written_out + SLACK:
        differ("elementwise FLOPs", a[FLOAT], b[FLOAT], UNPROVEN)
    if not tpu.undecided and not cpu.undecided and not _close(tpu.run[MATMUL], cpu.run[MATMUL]):
        cheaper = tpu.run[MATMUL] < cpu.run[MATMUL]
        differ("executed matrix-product FLOPs", tpu.run[MATMUL], cpu.run[MATMUL], MISMATCH if cheaper else UNPROVEN)
    _blocks(verdict, where, tpu, cpu)


def _blocks(verdict, where, tpu, cpu):
    """Compares what the index maps of the kernels move with what the interpreter's loops slice."""
    loops = [(op, *cpu.loops[op]) for op in _grid_loops(cpu)]
    kernels = tpu.live_kernels
    if len(loops) != len(kernels):
        verdict.say(UNPROVEN, "%s %d kernels and %d interpreted grids can't be matched" % (where, len(kernels), len(loops)))
        return
    for kernel, (op, trips, frame) in zip(kernels, loops):
        if kernel.grid is None:
            verdict.say(UNPROVEN, "%s the grid of kernel '%s' is not static" % (where, kernel.name))
            continue
        if kernel.steps != trips:
            verdict.say(UNPROVEN, "%s kernel '%s' has %d grid steps, the interpreter %d" % (where, kernel.name, kernel.steps, trips))
            continue
        _windows(verdict, where, kernel, tpu.visits[kernel], op, frame)


def _grid_loops(cpu):
    """The interpreter's loop over a grid, for each kernel: a counted while, not nested, that updates one of its carries
    by blocks.  Other loops of the module do not look so."""
    found = []
    for op in cpu.loops:
        body = op.blocks[1]
        if not any(v in cpu.live for v in op.results):
            continue
        if any(_update(out, arg) is not None for out, arg in zip(body.results, body.args)):
            found.append(op)
    order = {op: n for n, op in enumerate(o for o in cpu.module.entry.ops if o.blocks)}
    return sorted((op for op in found if op in order), key=order.get)


def _update(out, arg):
    """The dynamic_update_slice by which a loop writes a block back to its carry `arg`, or None."""
    if out.op is not None and out.op.name == "stablehlo.dynamic_update_slice" and out.op.operands[0] is arg:
        return out.op
    return None


def _windows(verdict, where, kernel, visits, op, frame):
    body = op.blocks[1]
    last = len(body.args) - len(kernel.scratch_args)
    first = last - len(kernel.refs)
    if first < 0:
        verdict.say(UNPROVEN, "%s the blocks of kernel '%s' can't be matched" % (where, kernel.name))
        return
    moved_tpu = moved_cpu = 0.0
    same = True
    for seen, arg, out, ref in zip(visits, body.args[first:last], body.results[first:last], kernel.refs):
        update = _update(out, arg)
        if update is None or seen is None:
            continue  # memory that the kernel moves itself, or a whole array
        size = itemsize(arg.type.dtype)
        block = update.operands[1].type.size
        starts = [frame.get(v) for v in update.operands[2:]]
        if block != math.prod(seen.bounds):
            verdict.say(UNPROVEN, "%s the blocks of kernel '%s' differ in size" % (where, kernel.name))
            return
        if seen.ids is None or any(s is None for s in starts):
            verdict.say(UNPROVEN, "%s an index map of kernel '%s' depends on data" % (where, kernel.name))
            return
        ids = np.zeros(1, np.int64)
        for start, dim, bound in zip(starts, arg.type.dims, update.operands[1].type.dims):
            ids = ids * max(1, -(-dim // bound)) + start.astype(np.int64) // bound
        ids = np.broadcast_to(ids, (frame.n,))
        fetched = 1 + int(np.count_nonzero(ids[1:] != ids[:-1])) if ids.size else 0
        moved_cpu += fetched * block * size
        moved_tpu += len(seen.runs) * block * size
        same = same and np.array_equal(ids, seen.ids)
    if not _close(moved_tpu, moved_cpu):
        verdict.say(MISMATCH, "%s the index maps of kernel '%s' move %.6g bytes, the interpreter's %.6g"
                    % (where, kernel.name, moved_tpu, moved_cpu))
    elif not same:
        verdict.say(UNPROVEN, "%s the index maps of kernel '%s' visit other blocks than the interpreter's" % (where, kernel.name))


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
            _tokens(kernel.body, tokens, by_op)
            for window in kernel.windows:
                tokens.append(("window", window is not None))
                if window is not None:
                    _tokens(window.index, tokens, by_op)
        for inner in op.blocks:
            tokens.append(("block",))
            _tokens(inner, tokens, by_op, numbers)
            tokens.append(("end",))


def _control_constants(kernel):
    """The integer constants that predicates, trip counts and loop conditions of a kernel are made of, in order."""
    found, seen = [], set()
    for op in walk(kernel.body):
        todo = {"scf.if": op.operands[:1], "scf.index_switch": op.operands[:1], "scf.for": op.operands[:3]}.get(op.name, ())
        if op.name == "scf.while" and op.blocks:
            todo = op.blocks[0].results[:1]
        todo = list(reversed(todo))
        while todo:
            value = todo.pop()
            if value in seen or value.op is None or value.op.blocks:
                continue
            seen.add(value)
            if value.op.name.endswith(".constant"):
                found.append(splat(constant(value.op)))
            todo += reversed(value.op.operands)
    return found


def _same_control(a, b):
    """Do two kernels of equal operations also have the same control: equal constants, or both the length of one grid axis or its
    last index?  Then what one executes less than the other follows from the sizes alone."""
    left, right = _control_constants(a), _control_constants(b)
    if len(left) != len(right) or a.grid is None or b.grid is None or len(a.grid) != len(b.grid):
        return False
    for x, y in zip(left, right):
        if x is None or y is None:
            return False
        if x != y and not any(x == m - less and y == n - less for m, n in zip(a.grid, b.grid) for less in (0, 1)):
            return False
    return True


def shapes(verdict, gate_name, gate, gate_flops, timed_name, timed, timed_flops):
    """Compares the TPU modules of a gate shape and of the timed shape; `*_flops` are what the workload's formula says, or None."""
    a, b = signature(gate.module), signature(timed.module)
    same = a == b
    between = "from shape %s to %s" % (gate_name, timed_name)
    if not gate.live_kernels or not timed.live_kernels:
        verdict.say(UNPROVEN, "%s the number of kernels changes from %d to %d" % (between, len(gate.live_kernels), len(timed.live_kernels)))
    elif not same:
        verdict.say(UNPROVEN, "%s the kernels are other operations (%s)" % (between, _first_difference(a, b)))
    alike = same and all(map(_same_control, gate.live_kernels, timed.live_kernels))
    decided = not gate.undecided and not timed.undecided
    work_gate, work_timed = (gate.run, timed.run) if decided else (gate.taken, timed.taken)
    products = work_gate[MATMUL] > 0
    if products and not work_timed[MATMUL]:
        verdict.say(MISMATCH, "%s the matrix products are gone" % between)
        return
    if work_gate[TRANS] > 0 and not work_timed[TRANS]:
        verdict.say(MISMATCH, "%s the transcendentals are gone" % between)
        return
    if not gate_flops or not timed_flops:
        verdict.say(UNPROVEN, "the formula's FLOPs at shapes %s and %s are not known" % (gate_name, timed_name))
        return
    done_gate = (work_gate[MATMUL] if products else total(work_gate)) / gate_flops
    done_timed = (work_timed[MATMUL] if products else total(work_timed)) / timed_flops
    if done_gate <= 0:
        if done_timed <= 0:
            return
        verdict.say(UNPROVEN, "%s work appears that was not checked" % between)
        return
    falls = "%s the work falls from %.3g to %.3g of the formula's FLOPs" % (between, done_gate, done_timed)
    if done_timed < CHEAP * done_gate:
        little = done_timed < LITTLE if products else not _padded(gate)
        verdict.say(MISMATCH if little and decided and not alike else UNPROVEN, falls)
    elif done_timed < NEAR * done_gate and not alike:
        verdict.say(UNPROVEN, falls)


def _padded(analysis):
    """Does a kernel work on blocks that reach beyond their array, or on a padded array?"""
    for kernel in analysis.live_kernels:
        for number, seen in enumerate(analysis.visits[kernel]):
            if seen is not None and any(d % b for d, b in zip(kernel.array(number).type.dims, seen.bounds)):
                return True
    return any(op.name == "stablehlo.pad" for op in analysis.module.entry.ops)


def _first_difference(a, b):
    for x, y in zip(a, b):
        if x != y:
            return "%s against %s" % (_word(x), _word(y))
    return "%d against %d operations" % (len(a), len(b))


def _word(token):
    if token[0] == "kernel":
        return "a kernel with %d grid axes, %d inputs, %d outputs and %d scratch buffers" % (token[1], token[3], token[4], token[5])
    return token[0][0] if isinstance(token[0], tuple) else str(token[0])
