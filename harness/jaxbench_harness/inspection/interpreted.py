# SPDX-License-Identifier: Apache-2.0
"""Finds in a CPU module the loop by which interpret mode walks the grid of each kernel,
and compares the blocks that its slices take with those of the kernel's index maps.

It judges data movement only; how much is computed is compared by counts (see link).
"""

import math

import numpy as np

from .ir import itemsize, walk
from .points import MAX_POINTS
from .verdict import DOUBTFUL, MISMATCH, UNPROVEN


def loops(cpu):
    """The whiles, in order, that walk a grid: counted, live, and updating one of their carries by blocks, in the function itself
    or in a branch of it that is taken.  Other loops of a module do not look so.  `cpu` is an Analysis."""
    found = []
    for op in walk(cpu.module.entry):
        if op not in cpu.loops or op.block not in cpu.seen or not any(v in cpu.live for v in op.results) or _inside_loop(op):
            continue
        body = op.blocks[1]
        if any(_update(out, arg) is not None for out, arg in zip(body.results, body.args)):
            found.append(op)
    return found


def _inside_loop(op):
    block = op.block
    while block.parent is not None:
        if block.parent.name == "stablehlo.while":
            return True
        block = block.parent.block
    return False


def _update(out, arg):
    """The dynamic_update_slice by which a loop writes a block back to its carry `arg`, or None."""
    if out.op is not None and out.op.name == "stablehlo.dynamic_update_slice" and out.op.operands[0] is arg:
        return out.op
    return None


def difference(kernel, visits, op, trips, frame, close):
    """Compares a Kernel with the loop `op` that interprets it: (a link status, words), or None where the blocks are
    the same.  `trips` and `frame` are the loop's; `close(a, b)` says whether two byte counts agree."""
    if kernel.grid is None or kernel.steps > MAX_POINTS:
        return UNPROVEN, "the grid of kernel '%s' is not followed" % kernel.name
    if kernel.steps != trips:
        return UNPROVEN, "kernel '%s' has %d grid steps, the interpreter %d" % (kernel.name, kernel.steps, trips)
    body = op.blocks[1]
    last = len(body.args) - len(kernel.scratch_args)
    first = last - len(kernel.refs)
    if first < 0:
        return UNPROVEN, "the blocks of kernel '%s' can't be matched" % kernel.name
    moved_tpu = moved_cpu = 0.0
    same = True
    for seen, arg, out in zip(visits, body.args[first:last], body.results[first:last]):
        update = _update(out, arg)
        if update is None or seen is None:
            continue  # memory that the kernel moves itself, or a whole array
        size = itemsize(arg.type.dtype)
        block = update.operands[1].type.size
        starts = [frame.get(v) for v in update.operands[2:]]
        if block != math.prod(seen.bounds):
            return UNPROVEN, "the blocks of kernel '%s' differ in size" % kernel.name
        if seen.ids is None or any(s is None for s in starts):
            return UNPROVEN, "an index map of kernel '%s' depends on data" % kernel.name
        ids = np.zeros(1, np.int64)
        for start, dim, bound in zip(starts, arg.type.dims, update.operands[1].type.dims):
            ids = ids * max(1, -(-dim // bound)) + start.astype(np.int64) // bound
        ids = np.broadcast_to(ids, (frame.n,))
        fetched = 1 + int(np.count_nonzero(ids[1:] != ids[:-1])) if ids.size else 0
        moved_cpu += fetched * block * size
        moved_tpu += len(seen.runs) * block * size
        same = same and np.array_equal(ids, seen.ids)
    if not close(moved_tpu, moved_cpu):
        return MISMATCH, "the index maps of kernel '%s' move %.6g bytes, the interpreter's %.6g" % (kernel.name, moved_tpu, moved_cpu)
    if not same:
        return DOUBTFUL, "the index maps of kernel '%s' visit other blocks than the interpreter's" % kernel.name
    return None
