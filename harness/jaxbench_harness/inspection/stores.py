# SPDX-License-Identifier: Apache-2.0
"""At which grid steps does a kernel store to each of its outputs?

A store under a predicate that the grid decides is executed at some steps only; one
whose predicate depends on data may be executed at all of them.  How much of a block a
store fills is not seen here.
"""

import numpy as np

from . import flops, points


def steps(kernel, flow, tables=None):
    """For each output number, a boolean per grid step: may something be stored to it?  None where the grid is not followed.
    `flow` is the kernel's KernelFlow, `tables` what its scalar-prefetch references hold."""
    if kernel.grid is None or kernel.steps > points.MAX_POINTS:
        return None
    walker = _Walker(kernel, flow)
    walker.block(kernel.body, flops.grid_frame(kernel, flow.fold, tables), np.arange(kernel.steps))
    return walker.stored


class _Walker:
    def __init__(self, kernel, flow):
        self.flow = flow.flow
        self.number = {ref: n for n, ref in enumerate(kernel.refs[kernel.inputs:])}
        self.stored = {n: np.zeros(kernel.steps, bool) for n in range(kernel.outputs)}

    def block(self, block, frame, at):
        """`at` has the grid step of each execution that `frame` stands for."""
        for op in block.ops:
            for target in self.flow.targets(op):
                for base in self.flow.bases(target)[0]:
                    if base in self.number:
                        self.stored[self.number[base]][at] = True
            if not op.blocks:
                continue
            index = frame.get(op.operands[0]) if op.name in flops.BRANCHES else None
            if index is not None:
                for number, inner in enumerate(op.blocks):
                    keep = np.broadcast_to(flops.takes(op, number, index.astype(np.int64)), (frame.n,))
                    if keep.any():
                        self.block(inner, frame.sub(keep), at[keep])
            elif op.name == "scf.for":
                found = points.trips_of_for(frame, op)
                keep = np.broadcast_to(found[2] > 0, (frame.n,)) if found is not None else np.ones(frame.n, bool)
                if keep.any():
                    self.block(op.blocks[0], frame.sub(keep).opaque(int(keep.sum())), at[keep])
            else:
                for inner in op.blocks:
                    self.block(inner, frame.opaque(frame.n) if op.name == "scf.while" else frame, at)
