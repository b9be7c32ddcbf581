# SPDX-License-Identifier: Apache-2.0
"""What single operations compute, on NumPy arrays: the little that index maps, trip
counts, predicates and dead factors are made of.

`KIND` maps operations of StableHLO and of Mosaic's dialects to one name; `apply`
computes it.  Integers wrap as on the device; bf16 and smaller floats are held
in float32, which is exact enough to see a zero.
"""

import math

import numpy as np

KIND = {}
for _kind, _names in {
    "add": "stablehlo.add arith.addi arith.addf", "sub": "stablehlo.subtract arith.subi arith.subf",
    "mul": "stablehlo.multiply arith.muli arith.mulf", "div": "stablehlo.divide arith.divsi arith.divf arith.divui",
    "rem": "stablehlo.remainder arith.remsi arith.remf arith.remui", "floordiv": "arith.floordivsi", "ceildiv": "arith.ceildivsi arith.ceildivui",
    "min": "stablehlo.minimum arith.minsi arith.minui arith.minimumf arith.minnumf",
    "max": "stablehlo.maximum arith.maxsi arith.maxui arith.maximumf arith.maxnumf",
    "and": "stablehlo.and arith.andi", "or": "stablehlo.or arith.ori", "xor": "stablehlo.xor arith.xori", "not": "stablehlo.not",
    "shl": "stablehlo.shift_left arith.shli", "shr": "stablehlo.shift_right_arithmetic arith.shrsi",
    "ushr": "stablehlo.shift_right_logical arith.shrui", "pow": "stablehlo.power math.powf math.ipowi math.fpowi",
    "neg": "stablehlo.negate arith.negf", "abs": "stablehlo.abs math.absf math.absi", "sign": "stablehlo.sign",
    "compare": "stablehlo.compare arith.cmpi arith.cmpf", "select": "stablehlo.select arith.select", "clamp": "stablehlo.clamp",
    "convert": "stablehlo.convert arith.extsi arith.extui arith.trunci arith.index_cast arith.index_castui arith.extf arith.truncf "
               "arith.sitofp arith.uitofp arith.fptosi arith.fptoui tpu.extf tpu.truncf tpu.sitofp tpu.uitofp tpu.fptosi tpu.fptoui",
    "same": "tpu.assume_multiple tpu.assume_layout stablehlo.reduce_precision",
    "exp": "stablehlo.exponential math.exp", "exp2": "math.exp2", "expm1": "stablehlo.exponential_minus_one math.expm1",
    "log": "stablehlo.log math.log math.log2", "log1p": "stablehlo.log_plus_one math.log1p", "tanh": "stablehlo.tanh math.tanh",
    "logistic": "stablehlo.logistic", "sqrt": "stablehlo.sqrt math.sqrt", "rsqrt": "stablehlo.rsqrt math.rsqrt",
    "cbrt": "stablehlo.cbrt math.cbrt", "sin": "stablehlo.sine math.sin", "cos": "stablehlo.cosine math.cos", "tan": "stablehlo.tan math.tan",
    "atan2": "stablehlo.atan2 math.atan2", "erf": "math.erf math.erfc", "reciprocal": "tpu.reciprocal",
    "floor": "stablehlo.floor math.floor", "ceil": "stablehlo.ceil math.ceil", "round": "stablehlo.round_nearest_even math.roundeven",
    "roundaway": "stablehlo.round_nearest_afz math.round",
    "reshape": "stablehlo.reshape vector.shape_cast tpu.reshape",
    "dot": "stablehlo.dot_general stablehlo.dot tpu.matmul", "convolution": "stablehlo.convolution",
    "constant": "stablehlo.constant arith.constant",
}.items():
    for _name in _names.split():
        KIND[_name] = _kind

_DTYPES = {"i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64, "index": np.int64, "ui8": np.uint8,
           "ui16": np.uint16, "ui32": np.uint32, "ui64": np.uint64, "i4": np.int8, "i2": np.int8, "f64": np.float64,
           "f32": np.float32, "f16": np.float32, "bf16": np.float32}


def dtype(name):
    """NumPy's dtype for an MLIR element type, or None."""
    return _DTYPES.get(name, np.float32 if name.startswith("f8") or name.startswith("f4") else None)


_CMPI = ("eq", "ne", "lt", "le", "gt", "ge", "ult", "ule", "ugt", "uge")
_CMPF = ("false", "eq", "gt", "ge", "lt", "le", "ne", "ord", "eq", "gt", "ge", "lt", "le", "ne", "uno", "true")
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def direction(op):
    """eq, ne, lt, le, gt or ge (u before it: unsigned; ord, uno, true, false: of floats), or None."""
    if op.name == "stablehlo.compare":
        words = str(op.attr("comparison_direction")).replace(">", " ").split()
        return words[-1].lower() if words else None
    try:
        number = int(op.attr("predicate").value)
        return (_CMPI if op.name == "arith.cmpi" else _CMPF)[number]
    except (AttributeError, TypeError, ValueError, IndexError):
        return None


def _compare(op, a, b):
    name = direction(op)
    if name in ("true", "false"):
        return np.broadcast_to(np.bool_(name == "true"), np.broadcast_shapes(a.shape, b.shape))
    if name and name[0] == "u" and name[1:] in _COMPARE:
        a, b, name = _unsigned(a), _unsigned(b), name[1:]
    function = _COMPARE.get(name)
    return function(a, b) if function else None


def _unsigned(a):
    return a.view(np.dtype("u%d" % a.dtype.itemsize)) if a.dtype.kind == "i" else a


def _divide(op, a, b):
    if a.dtype.kind == "f":
        return a / b
    if op.name.endswith("ui"):
        a, b = _unsigned(a), _unsigned(b)
    if a.dtype.kind == "b" or np.any(b == 0):
        return None
    q = a // b
    return q + ((a % b != 0) & ((a < 0) != (b < 0))).astype(q.dtype) if a.dtype.kind == "i" else q


def _remainder(op, a, b):
    if a.dtype.kind == "b" or np.any(b == 0):
        return None
    if op.name.endswith("ui"):
        a, b = _unsigned(a), _unsigned(b)
    return np.fmod(a, b)


def _shift(function):
    def shift(op, a, b):
        width = a.dtype.itemsize * 8
        if a.dtype.kind == "b" or np.any((b < 0) | (b >= width)):
            return None
        return function(_unsigned(a), _unsigned(b)) if op.name.endswith(("logical", "ui")) else function(a, b)
    return shift


def _integer_only(function):
    return lambda op, a, b: function(a, b) if a.dtype.kind in "iu" and not np.any(b == 0) else None


def _arithmetic(function, boolean):
    return lambda op, a, b: (boolean if a.dtype.kind == "b" else function)(a, b)


_BINARY = {
    "add": _arithmetic(np.add, np.logical_or), "sub": _arithmetic(np.subtract, np.logical_xor),
    "mul": _arithmetic(np.multiply, np.logical_and), "div": _divide, "rem": _remainder,
    "floordiv": _integer_only(np.floor_divide), "ceildiv": _integer_only(lambda a, b: -((-a) // b)),
    "min": lambda op, a, b: np.minimum(*((_unsigned(a), _unsigned(b)) if op.name.endswith("ui") else (a, b))),
    "max": lambda op, a, b: np.maximum(*((_unsigned(a), _unsigned(b)) if op.name.endswith("ui") else (a, b))),
    "and": lambda op, a, b: a & b, "or": lambda op, a, b: a | b, "xor": lambda op, a, b: a ^ b,
    "shl": _shift(np.left_shift), "shr": _shift(np.right_shift), "ushr": _shift(np.right_shift),
    "pow": lambda op, a, b: np.power(a, b) if a.dtype.kind == "f" and b.dtype.kind == "f" else None,
    "compare": _compare, "atan2": lambda op, a, b: np.arctan2(a, b) if a.dtype.kind == "f" else None,
}
_UNARY = {
    "neg": lambda a: np.negative(a) if a.dtype.kind != "b" else None, "abs": np.abs, "sign": np.sign, "not": np.invert, "same": lambda a: a,
}
_FLOAT = {
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log1p": np.log1p, "tanh": np.tanh, "logistic": lambda a: 1 / (1 + np.exp(-a)),
    "sqrt": np.sqrt, "rsqrt": lambda a: 1 / np.sqrt(a), "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos, "tan": np.tan,
    "floor": np.floor, "ceil": np.ceil, "round": np.rint, "reciprocal": lambda a: 1 / a,
    "erf": lambda a: np.vectorize(math.erf)(a) if a.size == 1 else None,
}
ELEMENTWISE = set(_BINARY) | set(_UNARY) | set(_FLOAT) | {"select", "clamp", "convert", "log", "roundaway"}


def convert(op, a, wanted):
    """`a` as NumPy dtype `wanted`, with the rounding and sign rules of `op`; None where undefined."""
    wanted = np.dtype(wanted)
    if op.name in ("arith.extui", "arith.uitofp", "arith.index_castui", "tpu.uitofp"):
        a = _unsigned(a)
    elif a.dtype.kind == "b" and op.name in ("arith.extsi", "arith.sitofp"):
        a = -a.astype(np.int32)
    if wanted.kind == "b":
        return (a & 1).astype(np.bool_) if op.name == "arith.trunci" else a != 0
    if a.dtype.kind == "f" and wanted.kind in "iu" and not np.all(np.abs(a) < 2.0 ** 31):
        return None
    return a.astype(wanted)


def apply(op, kind, arrays, result):
    """The elementwise `kind` of `op` on arrays that broadcast; `result` is the ir.Type.  None where it can't be told."""
    wanted = dtype(result.dtype)
    if wanted is None:
        return None
    if kind in _BINARY:
        value = _BINARY[kind](op, *arrays)
    elif kind in _UNARY:
        value = _UNARY[kind](arrays[0])
    elif kind in _FLOAT:
        value = _FLOAT[kind](arrays[0]) if arrays[0].dtype.kind == "f" else None
    elif kind == "select":
        value = np.where(*arrays) if arrays[0].dtype.kind == "b" else None
    elif kind == "clamp":
        value = np.minimum(np.maximum(arrays[1], arrays[0]), arrays[2])
    elif kind == "convert":
        return convert(op, arrays[0], wanted)
    else:
        return None
    if value is None or value.dtype == wanted:
        return value
    bits = value.dtype.kind in "iu" and value.dtype.itemsize == np.dtype(wanted).itemsize
    return value.view(wanted) if bits else value.astype(wanted)


def constant(op, limit=1 << 20):
    """The value of a constant: an array with its dims (all strides 0 for a splat), or None when it is too large or of an odd type."""
    attr, type_ = op.attr("value"), op.results[0].type
    wanted = dtype(type_.dtype)
    if attr is None or wanted is None:
        return None
    try:
        if getattr(attr, "is_splat", False):
            attr = attr.get_splat_value()
        elif hasattr(attr, "is_splat"):
            if type_.size > limit:
                return None
            array = np.asarray(attr)
            return array.astype(wanted).reshape(type_.dims)
        value = attr.value
        if np.dtype(wanted).kind in "iu" and isinstance(value, int):
            bits = np.dtype(wanted).itemsize * 8
            value &= (1 << bits) - 1
            if np.dtype(wanted).kind == "i" and value >> (bits - 1):
                value -= 1 << bits
        return np.broadcast_to(np.asarray(value, wanted), type_.dims)
    except (TypeError, ValueError, AttributeError, OverflowError):
        return None


def splat(array):
    """The one value that fills `array`, when that is seen at once; else None."""
    if array is None or array.size == 0:
        return None
    if array.size == 1 or not any(array.strides):
        return array[(0,) * array.ndim]
    return None
