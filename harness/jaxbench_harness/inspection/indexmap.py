# SPDX-License-Identifier: Apache-2.0
"""Evaluates the index maps of a kernel over its whole grid.

`visits` gives, for one windowed operand, the number of the block that every grid
step works on.  A map that reads data (scalar prefetch of something unknown) or a
grid that is too large is unknown, with the reason.
"""

import math

import numpy as np

from . import points
from .flops import grid_frame
from .fold import Fold
from .ir import itemsize


class Visits:
    """`counts` blocks per axis and `total` of them; `ids` the linear number of the block of every step (row-major), -1 for a
    block outside the array; `runs` the numbers of blocks in order, consecutive equal ones once.  `reason` says why `ids` is None."""

    def __init__(self, counts, bounds, ids, outside=None, reason=""):
        self.counts, self.bounds, self.ids, self.outside, self.reason = counts, bounds, ids, outside, reason
        self.total = math.prod(counts)
        self.runs = None
        if ids is not None:
            first = np.ones(ids.size, bool)
            np.not_equal(ids[1:], ids[:-1], out=first[1:])
            self.runs = ids[first]

    def distinct(self, steps=None):
        """Sorted numbers of the blocks that are visited, without those outside; `steps`, booleans, leaves steps out."""
        inside = self.runs if steps is None or steps.all() else self.ids[steps]
        inside = inside[inside >= 0] if self.outside else inside
        if self.total <= 8 * inside.size + 1024:
            hit = np.zeros(self.total, bool)  # faster than sorting
            hit[inside] = True
            return np.flatnonzero(hit)
        return unique(inside)

    def part(self):
        """The part of all blocks that is visited, 0 to 1; `ids` must be known."""
        return self.distinct().size / self.total if self.total else 1.0

    def name(self, number):
        """The block as a person writes it: (3, 0)."""
        out = []
        for count in reversed(self.counts):
            number, at = divmod(int(number), count)
            out.append(at)
        return _tuple(reversed(out))

    def shape(self):
        """The number of blocks as a person writes it: (4, 1)."""
        return _tuple(self.counts)


def unique(numbers):
    """The numbers, sorted, each once."""
    ordered = np.sort(numbers)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if ordered.size else ordered


def _tuple(numbers):
    numbers = [int(n) for n in numbers]
    return "(%s)" % (", ".join(map(str, numbers)) + ("," if len(numbers) == 1 else ""))


def visits(kernel, number, tables):
    """The Visits of operand or result `number`; None when it has no window.  `tables` maps the number of a scalar-prefetch
    operand to its value where that does not depend on data."""
    window = kernel.windows[number]
    if window is None:
        return None
    dims = kernel.array(number).type.dims
    bounds = window.bounds[:len(dims)]
    counts = tuple(-(-d // b) for d, b in zip(dims, bounds))
    if kernel.grid is None:
        return Visits(counts, bounds, None, reason="the grid is not static")
    if kernel.steps > points.MAX_POINTS:
        return Visits(counts, bounds, None, reason="the grid has %d steps, at most %d are followed" % (kernel.steps, points.MAX_POINTS))
    frame = grid_frame(kernel, Fold(window.index))
    rank = len(kernel.grid)
    for arg, mine in zip(window.index.args[:rank], kernel.grid_args):
        frame.known[arg] = frame.known[mine]
    for at, table in tables.items():
        if rank + at < len(window.index.args):
            frame.set_table(window.index.args[rank + at], table)
    with np.errstate(all="ignore"):
        axes = [frame.get(v) for v in window.index.results[:len(dims)]]
    if any(a is None for a in axes):
        return Visits(counts, bounds, None, reason="its index map depends on data")
    steps = kernel.steps
    ids, bad = np.zeros(1, np.int64), np.zeros(1, bool)
    for axis, count, bound, low in zip(axes, counts, bounds, window.low):
        at = axis.astype(np.int64)
        if window.element:
            at = at - low
            if (at % bound).any():
                return Visits(counts, bounds, None, reason="its window is placed by elements")
            at = at // bound
        bad = bad | (at < 0) | (at >= count)
        ids = ids * count + at
    outside = None
    if bad.any() and steps:
        where = int(np.argmax(np.broadcast_to(bad, (steps,))))
        outside = _tuple(int(a[0] if a.size == 1 else a[where]) for a in axes)
        ids = np.where(bad, -1, ids)
    return Visits(counts, bounds, np.broadcast_to(ids, (steps,)), outside)


def moved_bytes(kernel, all_visits):
    """Bytes that a call moves between memories: one block per change of a window's index; arrays without a window once."""
    total = 0.0
    for number, seen in enumerate(all_visits):
        array = kernel.array(number).type
        size = itemsize(array.dtype)
        if seen is None:
            total += array.size * size
        elif seen.ids is None:
            total += kernel.about() * math.prod(seen.bounds) * size
        else:
            total += len(seen.runs) * math.prod(seen.bounds) * size
    return total
