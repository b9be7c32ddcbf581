# SPDX-License-Identifier: Apache-2.0
"""Does a kernel write every block of its outputs, once, and read every block of its inputs?

Nothing is executed: the index maps say which block each grid step works on.  What
a step does with its block (a store under a predicate) is not seen here.
"""

import numpy as np

SAME = {"stablehlo.reshape", "stablehlo.convert", "stablehlo.transpose", "stablehlo.bitcast_convert", "stablehlo.optimization_barrier"}


class Coverage:
    """`status` is complete, incomplete or unknown; counts over all outputs; `detail` names the first fault or what is unknown."""

    def __init__(self):
        self.status, self.detail = "complete", ""
        self.blocks = self.missed = self.revisited = self.unread = 0

    def fault(self, detail):
        if self.status != "incomplete":
            self.status, self.detail = "incomplete", detail

    def unknown(self, detail):
        if self.status == "complete":
            self.status, self.detail = "unknown", detail

    def json(self):
        return {"status": self.status, "blocks": self.blocks, "missed": self.missed, "revisited": self.revisited, "unread": self.unread,
                "detail": self.detail}


def _distinct(seen):
    """Sorted numbers of the blocks that are visited, without those outside."""
    inside = seen.runs[seen.runs >= 0] if seen.outside else seen.runs
    if seen.total <= 8 * inside.size + 1024:
        hit = np.zeros(seen.total, bool)  # faster than sorting
        hit[inside] = True
        return np.flatnonzero(hit)
    return _unique(inside)


def _unique(numbers):
    ordered = np.sort(numbers)
    return ordered[np.concatenate(([True], ordered[1:] != ordered[:-1]))] if ordered.size else ordered


def _first_missing(distinct, total):
    gap = np.flatnonzero(distinct != np.arange(distinct.size))
    return int(gap[0]) if gap.size else int(distinct.size)


def outputs(coverage, kernel, all_visits):
    """Adds what is known about the outputs of one kernel."""
    for result in range(kernel.outputs):
        number = kernel.inputs + result
        seen, window = all_visits[number], kernel.windows[number]
        what = "output %d of kernel '%s'" % (result, kernel.name)
        if kernel.grid is not None and not kernel.steps:
            coverage.missed += seen.total if seen else 1
            coverage.blocks += seen.total if seen else 1
            coverage.fault("%s: the grid %s is empty, nothing is written" % (what, tuple(kernel.grid)))
            continue
        if seen is None:
            ref = kernel.refs[number].type
            if "any" in ref.space or "hbm" in ref.space:
                coverage.unknown("%s lies in memory that the kernel writes itself" % what)
            else:
                coverage.blocks += 1
            continue
        coverage.blocks += seen.total
        if seen.ids is None:
            coverage.unknown("%s: %s" % (what, seen.reason))
            continue
        if seen.outside:
            coverage.fault("%s: the index map reaches block %s of %s" % (what, seen.outside, seen.shape()))
        distinct = _distinct(seen)
        missed = seen.total - distinct.size
        outside = int(np.count_nonzero(seen.runs < 0)) if seen.outside else 0
        revisited = len(seen.runs) - outside - distinct.size
        if result in kernel.aliases and (missed or revisited):
            coverage.unknown("%s shares memory with an input and is written in part" % what)
            continue
        if missed:
            coverage.missed += int(missed)
            coverage.fault("%s: block %s of %s is never written" % (what, seen.name(_first_missing(distinct, seen.total)), seen.shape()))
        if revisited and not window.revisit_any:
            coverage.revisited += revisited
            ordered = np.sort(seen.runs)
            twice = ordered[1:][ordered[1:] == ordered[:-1]]
            if twice.size and twice[0] >= 0:
                coverage.fault("%s: block %s of %s is revisited after other blocks, what it held is lost"
                               % (what, seen.name(twice[0]), seen.shape()))


class Reads:
    """Collects which blocks of each array the kernels of a module read."""

    def __init__(self, module, flow):
        self.module, self.flow = module, flow
        self.seen = {}  # array -> (visits, set of blocks) or None when it is read in another way too

    def source(self, value):
        """The module input behind a value, through operations that keep every element; else None."""
        while value.op is not None and value.op.name in SAME:
            value = value.op.operands[value.index if value.op.name.endswith("barrier") else 0]
        return value if value.op is None and value.block is self.module.entry else None

    def add(self, kernel, all_visits, influence):
        """Notes the inputs of one kernel; those that no output depends on are not asked for."""
        needed = {i for numbers in influence for i in numbers}
        for number in range(kernel.inputs):
            array = kernel.array(number)
            seen = all_visits[number]
            if kernel.first + number not in needed:
                continue
            if seen is None or seen.ids is None or kernel.first + number in kernel.aliases.values():
                self.seen[array] = None  # what is shared with an output is passed on unread
                continue
            known = self.seen.get(array, ())
            if known is None:
                continue
            if known and known[0].bounds != seen.bounds:
                self.seen[array] = None
                continue
            distinct = _distinct(seen)
            if known:
                distinct = _unique(np.concatenate([known[1], distinct]))
            self.seen[array] = (seen, distinct, kernel, number)

    def finish(self, coverage, users):
        """Adds blocks of module inputs that nothing reads.  `users` maps a value to the operations that need it."""
        by_source = {}
        for array in self.seen:
            by_source.setdefault(self.source(array), []).append(array)
        for array, entry in self.seen.items():
            origin = self.source(array)
            if entry is None or origin is None or len(by_source[origin]) > 1 or self._elsewhere(array, users):
                continue
            seen, blocks, kernel, number = entry
            unread = seen.total - blocks.size
            if unread and kernel.steps:
                coverage.unread += int(unread)
                coverage.fault("input %d of kernel '%s' (module input %d): block %s of %s is never read"
                               % (number, kernel.name, origin.index, seen.name(_first_missing(blocks, seen.total)), seen.shape()))

    def _elsewhere(self, array, users):
        """Is the array, or what it is a reshape of, used by an operation that is no kernel?"""
        value, came_from = array, None
        while True:
            if any(op not in self.module.by_op and op is not came_from for op in users.get(value, ())):
                return True
            if value.op is None:
                return False
            came_from, value = value.op, value.op.operands[0]
