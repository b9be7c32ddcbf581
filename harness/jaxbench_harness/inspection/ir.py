# SPDX-License-Identifier: Apache-2.0
"""A plain copy of an MLIR module that the analyses can walk.

StableHLO and Mosaic are copied into the same three classes, with calls inlined,
so that one set of analyses serves both.  Sizes and depths are bounded: an input
that asks for more is refused.  It knows no meaning of any operation.
"""

import math

MAX_OPS = 300_000
MAX_DEPTH = 64
MAX_RANK = 32
MAX_DIM = 1 << 40


class Refused(Exception):
    """The module must not go on.  `str()` is the reason, on one line; `outcome` a word of `jb_outcome_name`."""

    def __init__(self, reason, outcome="suspicious"):
        super().__init__(" ".join(str(reason).split()))
        self.outcome = outcome


class Type:
    """`kind` is tensor, vector, memref, scalar or other; `dims` a tuple of ints; `dtype` MLIR's name of the element."""

    __slots__ = ("kind", "dtype", "dims", "space", "size")

    def __init__(self, kind, dtype, dims, space=""):
        self.kind, self.dtype, self.dims, self.space = kind, dtype, dims, space
        self.size = math.prod(dims)

    def __repr__(self):
        return "%s<%s%s>" % (self.kind, "x".join(map(str, self.dims + (self.dtype,))), ", " + self.space if self.space else "")


BITS = {"i1": 8, "i2": 2, "i4": 4, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "index": 64, "bf16": 16, "f16": 16, "f32": 32, "f64": 64}


def itemsize(dtype):
    """Bytes of one element, as a float (half for four-bit types)."""
    if dtype.startswith("complex<"):
        return 2 * itemsize(dtype[8:-1])
    if dtype[:1] == "f" and dtype[1:2].isdigit() and dtype not in BITS:
        return int(dtype[1:2]) / 8
    return BITS.get(dtype[1:] if dtype[:2] in ("ui", "si") else dtype, 32) / 8


def is_float(dtype):
    return dtype[:1] == "f" or dtype == "bf16" or dtype.startswith("complex")


class Value:
    """A result of `op` (number `index`), or an argument of `block` when `op` is None."""

    __slots__ = ("type", "op", "index", "block")

    def __init__(self, type_, op, index, block):
        self.type, self.op, self.index, self.block = type_, op, index, block


class Block:
    """Arguments, operations in order, and the op that holds it (None for a function's body)."""

    __slots__ = ("args", "ops", "parent", "number")

    def __init__(self, parent, number):
        self.args, self.ops, self.parent, self.number = [], [], parent, number

    @property
    def results(self):
        """What the terminator passes on."""
        return self.ops[-1].operands if self.ops else []


class Op:
    """One operation; `attr(name)` reads an MLIR attribute or gives None."""

    __slots__ = ("name", "operands", "results", "blocks", "block", "mlir")

    def __init__(self, name, operands, block, mlir):
        self.name, self.operands, self.block, self.mlir = name, operands, block, mlir
        self.results, self.blocks = [], []

    def attr(self, name):
        attributes = self.mlir.attributes
        return attributes[name] if name in attributes else None


class Reader:
    """Copies functions.  `check(op)` is called for every operation before it is copied and may raise
    Refused; `call(op)` names the function that an operation stands for, or gives None."""

    def __init__(self, ir, functions, check, call):
        self.ir, self.functions, self.check, self.call = ir, functions, check, call
        self.types, self.ops = {}, 0

    def type(self, mlir):
        found = self.types.get(mlir)
        if found is None:
            found = self.types[mlir] = self._type(mlir)
        return found

    def _type(self, mlir):
        ir = self.ir
        for kind, cls in (("tensor", ir.RankedTensorType), ("vector", ir.VectorType), ("memref", ir.MemRefType)):
            if isinstance(mlir, cls):
                break
        else:
            text = str(mlir)
            plain = isinstance(mlir, (ir.IntegerType, ir.IndexType)) or is_float(text)
            return Type("scalar" if plain else "other", text, ())
        if mlir.rank > MAX_RANK or not mlir.has_static_shape:
            raise Refused("a value of type %s has dynamic or too many dimensions" % mlir)
        dims = tuple(mlir.shape)
        if math.prod(dims) > MAX_DIM:
            raise Refused("a value of type %s is larger than any device" % mlir)
        space = str(mlir.memory_space) if kind == "memref" and mlir.memory_space is not None else ""
        if "host" in space:
            raise Refused("a reference of type %s lies in the host's memory" % mlir)
        return Type(kind, str(mlir.element_type), dims, space)

    def function(self, func):
        """Copies the body of `func`, a func.func op with one block, with every call in it inlined."""
        name = text_of(func.attributes["sym_name"])
        return self._block(self._only_block(func.regions[0], func), Block(None, 0), {}, (name,), 0)

    def _only_block(self, region, op):
        blocks = list(region.blocks)
        if len(blocks) != 1:
            raise Refused("%s has %d blocks: unstructured control flow" % (op.name, len(blocks)))
        return blocks[0]

    def _block(self, mlir, block, env, stack, depth):
        if depth > MAX_DEPTH:
            raise Refused("operations are nested deeper than %d" % MAX_DEPTH)
        for number, arg in enumerate(mlir.arguments):
            value = Value(self.type(arg.type), None, number, block)
            block.args.append(value)
            env[arg] = value
        self._ops(mlir, block, env, stack, depth)
        return block

    def _ops(self, mlir, block, env, stack, depth):
        """Copies the operations of `mlir` to `block`; gives the operands of the terminator."""
        values = []
        for view in mlir.operations:
            op = view.operation
            self.ops += 1
            if self.ops > MAX_OPS:
                raise Refused("the module has more than %d operations once its calls are inlined" % MAX_OPS)
            self.check(op)
            values = [env[v] for v in op.operands]
            callee = self.call(op)
            if callee is not None:
                self._inline(callee, op, values, block, env, stack, depth)
                continue
            mine = Op(op.name, values, block, op)
            for number, result in enumerate(op.results):
                value = Value(self.type(result.type), mine, number, block)
                mine.results.append(value)
                env[result] = value
            for number, region in enumerate(op.regions):
                if not len(region.blocks):
                    continue
                mine.blocks.append(self._block(self._only_block(region, op), Block(mine, number), env, stack, depth + 1))
            block.ops.append(mine)
        return values

    def _inline(self, name, op, values, block, env, stack, depth):
        func = self.functions.get(name)
        if func is None:
            raise Refused("%s calls @%s, which is not in the module" % (op.name, name))
        if name in stack or len(stack) > MAX_DEPTH:
            raise Refused("@%s calls itself" % name)
        body = self._only_block(func.regions[0], func)
        if len(body.arguments) != len(values):
            raise Refused("%s passes %d values to @%s, which takes %d" % (op.name, len(values), name, len(body.arguments)))
        inner = dict(zip(body.arguments, values))
        results = self._ops(body, block, inner, stack + (name,), depth + 1)
        if len(results) != len(op.results):
            raise Refused("@%s gives %d values, its caller expects %d" % (name, len(results), len(op.results)))
        if block.ops and block.ops[-1].name in ("func.return", "stablehlo.return"):
            block.ops.pop()
        for result, value in zip(op.results, results):
            env[result] = value


def walk(block):
    """Every operation of a block and of the blocks in it, outer ones first, in order."""
    stack = [iter(block.ops)]
    while stack:
        for op in stack[-1]:
            yield op
            if op.blocks:
                stack.append(iter([o for b in op.blocks for o in b.ops]))
                break
        else:
            stack.pop()


def integers(attr):
    """The integers of a DenseI64ArrayAttr, DenseI32ArrayAttr, integer ArrayAttr or DenseIntElementsAttr; None for another."""
    if attr is None:
        return None
    try:
        return tuple(int(getattr(x, "value", x)) for x in attr)
    except (TypeError, ValueError):
        return None


def text_of(attr):
    """The text of a StringAttr or of a symbol reference, else None."""
    value = getattr(attr, "value", None)
    return value if isinstance(value, str) else None
