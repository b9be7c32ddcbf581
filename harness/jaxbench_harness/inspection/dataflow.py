# SPDX-License-Identifier: Apache-2.0
"""What an output can depend on, once dead factors are taken out.

A backward slice over values and, in kernels, over references: a load makes the
reference live, a store to a live reference makes what is stored live, and so do the
predicates and loop bounds around it.  It is generous where it does not know an
operation: a dependence it claims may not be there, one it denies is not.
"""

from .fold import Fold
from .ir import walk

_ALLOC = {"memref.alloc", "memref.alloca", "tpu.sem_alloc"}
_LOADS = {"memref.load", "vector.load", "tpu.load", "tpu.vector_load", "tpu.strided_load", "tpu.shuffled_load",
          "tpu.vector_load_idx", "vector.transfer_read", "tpu.sem_read"}
_STORES = {"memref.store", "vector.store", "tpu.store", "tpu.vector_store", "tpu.strided_store", "tpu.shuffled_store",
           "tpu.vector_store_idx", "vector.transfer_write"}
_COPIES = {"tpu.enqueue_dma", "tpu.enqueue_indirect_dma", "memref.copy"}
_WAITS = {"tpu.wait_dma", "tpu.wait_dma2", "tpu.wait_indirect_dma", "tpu.sem_wait", "tpu.sem_signal", "memref.dealloc",
          "memref.dim", "memref.assume_alignment"}


class Flow:
    """The dependences in `block` and the blocks in it.  `influence` maps the op of a kernel to a list with, for
    each result, the numbers of the operands it may depend on; blocks in `dead` are never executed."""

    def __init__(self, block, fold=None, influence=None, dead=()):
        self.block = block
        self.fold = fold or Fold(block)
        self.influence = influence or {}
        self.dead = dead
        self.writes = {}
        self.everything = [a for a in block.args if a.type.kind == "memref"]
        for op in walk(block):
            if not self._is_dead(op.block):
                self._memory(op)

    def _is_dead(self, block):
        while self.dead and block is not None:
            if block in self.dead:
                return True
            block = block.parent.block if block.parent is not None else None
        return False

    def bases(self, value):
        """The references whose memory a memref value may point into, and the indices used on the way."""
        indices = []
        for _ in range(10_000):
            op = value.op
            if op is None:
                return ([value], indices) if value.block is self.block else (self.everything, indices)
            if op.name in _ALLOC:
                return [value], indices
            if op.blocks or not op.operands or op.operands[0].type.kind != "memref":
                return self.everything, indices
            indices += op.operands[1:]
            value = op.operands[0]
        return self.everything, indices

    def targets(self, op):
        """The references that an operation writes to."""
        refs = [v for v in op.operands if v.type.kind == "memref"]
        if not refs or op.name in _LOADS or op.name in _WAITS or op.blocks:
            return []
        if op.results and op.results[0].type.kind == "memref":
            return []  # a view
        return _places(refs)[-1:] if op.name in _COPIES else refs

    def _memory(self, op):
        """Records what an operation writes."""
        targets = self.targets(op)
        if not targets:
            return
        sources = list(op.operands)
        if op.name in _STORES:
            sources = [v for v in op.operands if v.type.kind != "memref"]
        elif op.name in _COPIES:
            sources = _places([v for v in op.operands if v.type.kind == "memref"])[:-1] + [v for v in op.operands if v.type.kind != "memref"]
        control = _control(op, self.block)
        for target in targets:
            bases, indices = self.bases(target)
            for base in bases:
                self.writes.setdefault(base, []).append(sources + indices + control)

    def needs(self, value):
        """The values that `value` is made of."""
        if self.fold.get(value) is not None:
            return ()
        if value.type.kind == "memref":
            bases, indices = self.bases(value)
            out = list(indices)
            for base in bases:
                if base is not value:
                    out.append(base)
                for sources in self.writes.get(base, ()):
                    out += sources
            return out
        if value.op is None:
            return self._argument(value)
        return self._result(value.op, value.index)

    def _argument(self, value):
        op = value.block.parent
        if op is None:
            return ()
        if op.name == "stablehlo.while":
            return (op.operands[value.index], op.blocks[-1].results[value.index])
        if op.name == "scf.for":
            if value.index == 0:
                return op.operands[:3]
            return (op.operands[2 + value.index], op.blocks[0].results[value.index - 1])
        if op.name == "scf.while":
            if value.block is op.blocks[0]:
                return [op.operands[value.index]] + op.blocks[1].results[value.index:value.index + 1]
            return op.blocks[0].results[1 + value.index:2 + value.index]
        return op.operands

    def _result(self, op, number):
        name = op.name
        if name in ("stablehlo.case", "stablehlo.if", "scf.if", "scf.index_switch"):
            known = self.fold.splat(op.operands[0])
            blocks = op.blocks if known is None else [_chosen(op, int(known))]
            picked = [b.results[number] for b in blocks if not self._is_dead(b) and number < len(b.results)]
            return picked + op.operands[:1]
        if name == "stablehlo.while":
            return [op.operands[number], op.blocks[1].results[number], *op.blocks[0].results]
        if name == "scf.for":
            return [op.operands[3 + number], op.blocks[0].results[number], *op.operands[:3]]
        if name == "scf.while":
            return [*op.blocks[0].results[:1], *op.blocks[0].results[1 + number:2 + number]]
        if name in ("stablehlo.reduce", "stablehlo.reduce_window") and len(op.results) > 1:
            return op.operands
        if op in self.influence:
            return [op.operands[i] for i in self.influence[op][number]]
        if name == "stablehlo.optimization_barrier":
            return (op.operands[number],)
        if name in ("stablehlo.select", "arith.select"):
            known = self.fold.splat(op.operands[0])
            if known is not None:
                return (op.operands[1 if known else 2],)
        if name in ("stablehlo.slice", "stablehlo.dynamic_slice"):
            return _sliced(op, self.fold)
        if name == "stablehlo.dynamic_update_slice" and op.operands[0].type.dims == op.operands[1].type.dims:
            return op.operands[1:2]
        if name == "stablehlo.concatenate":
            return [v for v in op.operands if v.type.size]
        if op.blocks and name not in ("stablehlo.reduce", "stablehlo.reduce_window", "stablehlo.scatter", "stablehlo.sort",
                                      "stablehlo.map", "stablehlo.select_and_scatter"):
            return list(op.operands) + [v for b in op.blocks for v in b.results]
        return op.operands

    def reach(self, values):
        """Every value that `values` depend on, themselves included."""
        seen, todo = set(), [v for v in values if self.fold.get(v) is None]
        while todo:
            value = todo.pop()
            if value in seen:
                continue
            seen.add(value)
            for other in self.needs(value):
                if other not in seen and self.fold.get(other) is None:
                    todo.append(other)
        return seen


def _places(refs):
    """The memory that a copy moves, without its semaphores."""
    return [v for v in refs if "semaphore" not in v.type.dtype]


def _chosen(op, index):
    if op.name == "scf.if" or op.name == "stablehlo.if":
        return op.blocks[0] if index else op.blocks[-1]
    if op.name == "stablehlo.case":
        return op.blocks[index if 0 <= index < len(op.blocks) else -1]
    return op.blocks[0]


def _control(op, stop):
    """The predicates and bounds around an operation."""
    out, block = [], op.block
    while block is not stop and block is not None and block.parent is not None:
        parent = block.parent
        if parent.name in ("scf.if", "scf.index_switch"):
            out += parent.operands[:1]
        elif parent.name == "scf.for":
            out += parent.operands[:3]
        elif parent.name == "scf.while":
            out += parent.blocks[0].results[:1]
        block = parent.block
    return out


def _sliced(op, fold):
    """A slice of a concatenation needs only the pieces that it meets."""
    from .ir import integers
    source = op.operands[0]
    while source.op is not None and source.op.name == "stablehlo.convert":
        source = source.op.operands[0]
    if source.op is None or source.op.name != "stablehlo.concatenate":
        return op.operands
    axis = int(source.op.attr("dimension").value)
    if op.name == "stablehlo.slice":
        start, stop = integers(op.attr("start_indices"))[axis], integers(op.attr("limit_indices"))[axis]
    else:
        at = fold.splat(op.operands[1 + axis])
        if at is None:
            return op.operands
        size = op.results[0].type.dims[axis]
        start = min(max(int(at), 0), source.type.dims[axis] - size)
        stop = start + size
    out, at = [], 0
    for piece in source.op.operands:
        if at < stop and at + piece.type.dims[axis] > start:
            out.append(piece)
        at += piece.type.dims[axis]
    return out + list(op.operands[1:])


class KernelFlow:
    """What each output of a kernel depends on.  `live` holds the values of the body that any output needs;
    `influence[r]` the numbers of the call's operands that result r may depend on; `flow` is the Flow of the body."""

    def __init__(self, kernel, dead=()):
        self.kernel = kernel
        self.fold = Fold(kernel.body)
        flow = self.flow = Flow(kernel.body, self.fold, dead=dead)
        self.live, self.influence = set(), []
        operand_of = {ref: kernel.dynamic + number for number, ref in enumerate(kernel.prefetch_args)}
        operand_of.update({ref: kernel.first + number for number, ref in enumerate(kernel.refs[:kernel.inputs])})
        indexed = kernel_index_operands(kernel) | set(range(kernel.dynamic))
        for number in range(kernel.outputs):
            ref = kernel.refs[kernel.inputs + number]
            seen = flow.reach([ref])
            self.live |= seen
            operands = {operand_of[v] for v in seen if v in operand_of}
            if operands:
                operands |= indexed
            if number in kernel.aliases:
                operands.add(kernel.aliases[number])
            self.influence.append(sorted(i for i in operands if i < len(kernel.op.operands)))


def kernel_index_operands(kernel):
    """Numbers of the call's operands that an index map reads: scalar-prefetch ones."""
    found, first = set(), len(kernel.grid_args)
    for window in kernel.windows:
        if window is None:
            continue
        flow = Flow(window.index)
        for value in flow.reach(window.index.results):
            if value.op is None and value.block is window.index and value.index >= first:
                found.add(value.index - first)
    return {kernel.dynamic + i for i in found if i < kernel.prefetch}
