# SPDX-License-Identifier: Apache-2.0
"""Does a kernel write every block of its outputs, once, and read every block of its inputs?

Nothing is executed: the index maps say which block each grid step works on, and
`stores` at which steps something is stored.  How much of its block a store fills is
not seen here.
"""

import numpy as np

from .indexmap import unique

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


def _first_missing(distinct, total):
    gap = np.flatnonzero(distinct != np.arange(distinct.size))
    return int(gap[0]) if gap.size else int(distinct.size)


def outputs(coverage, kernel, all_visits, stored):
    """Adds what is known about the outputs of one kernel; `stored` is what stores.steps gives."""
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
        distinct = seen.distinct()
        missed = seen.total - distinct.size
        outside = int(np.count_nonzero(seen.runs < 0)) if seen.outside else 0
        revisited = len(seen.runs) - outside - distinct.size
        if result in kernel.aliases and (missed or revisited):
            coverage.unknown("%s shares memory with an input and is written in part" % what)
            continue
        if missed:
            coverage.missed += int(missed)
            coverage.fault("%s: block %s of %s is never written" % (what, seen.name(_first_missing(distinct, seen.total)), seen.shape()))
        elif stored is not None and not seen.outside and result not in kernel.aliases:
            empty = np.setdiff1d(distinct, seen.distinct(stored[result]), assume_unique=True)
            if empty.size:
                coverage.missed += int(empty.size)
                coverage.fault("%s: nothing is stored to block %s of %s" % (what, seen.name(empty[0]), seen.shape()))
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
        self.views = {}  # module input -> {(array, bounds): View}, or None where some of it is read in a way that is not followed

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
            origin, seen = self.source(array), all_visits[number]
            if kernel.first + number not in needed or origin is None or self.views.get(origin, ()) is None:
                continue
            if seen is None or seen.ids is None or kernel.first + number in kernel.aliases.values():
                self.views[origin] = None  # what is shared with an output is passed on unread
                continue
            views = self.views.setdefault(origin, {})
            view = views.setdefault((array, seen.bounds), View(seen, kernel, number))
            view.blocks = unique(np.concatenate([view.blocks, seen.distinct()]))

    def finish(self, coverage, users):
        """Adds blocks of module inputs that nothing reads.  `users` maps a value to the operations that need it.
        Where several views of one input, with blocks of several shapes, are read, all of them together must hold as many
        elements as the input has."""
        for origin, views in self.views.items():
            if not views or not self._only_kernels(origin, users):
                continue
            read = sum(min(1.0, view.blocks.size / view.seen.total) for view in views.values() if view.seen.total)
            view = max(views.values(), key=lambda v: v.blocks.size / max(1, v.seen.total))
            unread = view.seen.total - view.blocks.size
            if not unread or not view.kernel.steps or len(views) > 1 and read >= 1:
                continue
            coverage.unread += int(unread)
            coverage.fault("input %d of kernel '%s' (module input %d): block %s of %s is never read"
                           % (view.number, view.kernel.name, origin.index, view.seen.name(_first_missing(view.blocks, view.seen.total)),
                              view.seen.shape()))

    def _only_kernels(self, value, users, depth=64):
        """Is a value, and what it is a reshape of, used by kernels alone?"""
        return depth > 0 and all(op in self.module.by_op or op is not None and op.name in SAME and
                                 all(self._only_kernels(result, users, depth - 1) for result in op.results)
                                 for op in users.get(value, ()))


class View:
    """Blocks of one shape that kernels read of an array: `blocks` are their numbers; the first reader names them."""

    def __init__(self, seen, kernel, number):
        self.seen, self.kernel, self.number = seen, kernel, number
        self.blocks = np.zeros(0, np.int64)
