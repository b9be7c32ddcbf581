# SPDX-License-Identifier: Apache-2.0
"""Everything that is computed about one module, once: what its outputs depend on,
the work it does, and for TPU modules the coverage of its kernels.
"""

import numpy as np

from . import coverage, flops, indexmap, points, stores
from .dataflow import Flow, KernelFlow
from .fold import Fold
from .flops import KernelWork


class Analysis:
    """Of a stablehlo.Module.  `live` are the values that an output needs, `live_kernels` the Kernels among them, in order;
    `taken`, `run` and `sure` are counts (see flops) of the whole module, `kernel_run` and `kernel_sure` of its kernels;
    `loops` are the whiles that are entered once, `seen` the blocks that are executed; `loops_undecided`, `undecided` name
    what depends on data."""

    def __init__(self, module):
        self.module = module
        entry = module.entry
        self.fold = Fold(entry)
        self.flows, self.works, self.visits, self.tables = {}, {}, {}, {}
        for kernel in module.kernels:
            self._kernel(kernel)
        self.flow = Flow(entry, self.fold, {k.op: self.flows[k].influence for k in module.kernels})
        self.live = self.flow.reach(module.outputs)
        self.live_kernels = [k for k in module.kernels if any(r in self.live for r in k.op.results)]
        self.coverage = coverage.Coverage()
        self._count()
        if module.platform == "tpu":
            self._cover()

    def _kernel(self, kernel):
        tables = {}
        for number in range(kernel.prefetch):
            value = self.fold.get(kernel.op.operands[kernel.dynamic + number])
            if value is not None and value.size <= 1 << 20:
                tables[number] = value
        self.visits[kernel] = [indexmap.visits(kernel, n, tables) for n in range(len(kernel.refs))]
        moved = indexmap.moved_bytes(kernel, self.visits[kernel])
        refs = {kernel.prefetch_args[n]: t for n, t in tables.items()}
        flow = KernelFlow(kernel)
        work = KernelWork(kernel, flow, moved, refs)
        if work.dead:
            flow = KernelFlow(kernel, work.dead)
            work = KernelWork(kernel, flow, moved, refs)
        self.flows[kernel], self.works[kernel], self.tables[kernel] = flow, work, refs

    def _count(self):
        frame = points.Frame(1, self.fold)
        entry = self.module.entry
        results = []
        for mode in (flops.TAKEN, flops.RUN, flops.SURE):
            # A kernel may sit in a loop: its share is the difference that its own count makes.
            with_kernels = flops.Counter(self.live, self.fold, {k.op: self.works[k].count[mode] for k in self.live_kernels})
            whole = with_kernels.count(entry, frame, mode)
            without = flops.Counter(self.live, self.fold, {k.op: np.zeros(flops.WIDTH) for k in self.live_kernels})
            rest = without.count(entry, frame, mode)
            results.append((whole, whole - rest, with_kernels))
        (self.taken, _, first), (self.run, self.kernel_run, second), (self.sure, self.kernel_sure, _) = results
        self.loops = second.loops
        self.loops_undecided = sorted(set(first.undecided) | {u for k in self.live_kernels for u in self.works[k].loops_undecided})
        self.undecided = sorted(set(second.undecided) | {u for k in self.live_kernels for u in self.works[k].undecided})
        self.seen = second.seen

    def _cover(self):
        reads = coverage.Reads(self.module, self.flow)
        for kernel in self.live_kernels:
            coverage.outputs(self.coverage, kernel, self.visits[kernel], stores.steps(kernel, self.flows[kernel], self.tables[kernel]))
            reads.add(kernel, self.visits[kernel], self.flows[kernel].influence)
        users = {}
        for value in self.live:
            op = value.op
            if op is not None:
                for operand in op.operands:
                    users.setdefault(operand, set()).add(op)
        for value in self.module.outputs:
            users.setdefault(value, set()).add(None)
        reads.finish(self.coverage, users)

    def reached_inputs(self, values):
        """Numbers of the module's inputs that `values` depend on."""
        return {v.index for v in self.flow.reach(values) if v.op is None and v.block is self.module.entry}
