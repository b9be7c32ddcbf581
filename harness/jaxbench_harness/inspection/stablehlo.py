# SPDX-License-Identifier: Apache-2.0
"""Reads a StableHLO portable artifact and says whether it may go on at all.

Allow-listed operations and custom-call targets, one public entry, arguments and
results as the contract says.  It judges nothing about what the module computes.
"""

from . import ir as plain
from . import mosaic
from .ir import Refused

MAX_BYTES = 256 << 20
MAGIC = b"ML\xefR"

# Everything that jnp and lax lower to without a host, another device, a token or a dynamic shape.
ALLOWED = {"stablehlo." + name for name in """
    abs add and atan2 batch_norm_grad batch_norm_inference batch_norm_training bitcast_convert broadcast broadcast_in_dim
    case cbrt ceil cholesky clamp compare complex concatenate constant convert convolution cosine count_leading_zeros
    divide dot dot_general dynamic_slice dynamic_update_slice exponential exponential_minus_one fft floor gather if imag
    iota is_finite log log_plus_one logistic map maximum minimum multiply negate not optimization_barrier or pad popcnt
    power real reduce reduce_precision reduce_window remainder reshape return reverse rng_bit_generator round_nearest_afz
    round_nearest_even rsqrt scatter select select_and_scatter shift_left shift_right_arithmetic shift_right_logical sign
    sine slice sort sqrt subtract tan tanh transpose triangular_solve uniform_dequantize uniform_quantize while xor
    composite custom_call""".split()} | {"func.func", "func.call", "func.return"}

WHY = {
    "send": "it speaks to the host", "recv": "it speaks to the host", "infeed": "it speaks to the host", "outfeed": "it speaks to the host",
    "create_token": "it orders side effects", "after_all": "it orders side effects", "rng": "its values are not reproducible",
    "partition_id": "it asks for the device", "replica_id": "it asks for the device",
    "all_gather": "it is a collective", "all_reduce": "it is a collective", "all_to_all": "it is a collective",
    "collective_broadcast": "it is a collective", "collective_permute": "it is a collective", "reduce_scatter": "it is a collective",
}

# Targets of custom calls by platform.  Plain jnp without linear algebra needs none on the CPU.
TARGETS = {"tpu": {"tpu_custom_call"}, "cpu": set()}
CALLBACK = ("callback", "ffi_call", "py_func", "host_")

FRONTEND = ("kernel_metadata", "xla_allow_dce_side_effecting_op")
REFUSED_ARG_ATTRS = ("tf.aliasing_output", "jax.buffer_donor", "mhlo.memory_kind", "jax.memory_kind")

DTYPES = {"bfloat16": "bf16", "float16": "f16", "float32": "f32", "float64": "f64", "bool": "i1", "int4": "i4", "int8": "i8",
          "int16": "i16", "int32": "i32", "int64": "i64", "uint4": "ui4", "uint8": "ui8", "uint16": "ui16", "uint32": "ui32",
          "uint64": "ui64", "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2", "float8_e4m3b11fnuz": "f8E4M3B11FNUZ",
          "float8_e4m3fnuz": "f8E4M3FNUZ", "float8_e5m2fnuz": "f8E5M2FNUZ", "float4_e2m1fn": "f4E2M1FN",
          "complex64": "complex<f32>", "complex128": "complex<f64>"}


class Toolkit:
    """jaxlib's MLIR bindings and one context per dialect family; built once, starts no backend."""

    def __init__(self):
        from jax._src.interpreters import mlir as jax_mlir
        from jax._src.lib import _jax, tpu
        from jaxlib.mlir import ir, passmanager
        self.ir = ir
        self._passes = passmanager.PassManager
        self._load = _jax.mlir.deserialize_portable_artifact
        self.context = jax_mlir.make_ir_context()
        self.kernel_context = jax_mlir.make_ir_context()
        self.kernel_context.allow_unregistered_dialects = True
        tpu.register_dialect(self.kernel_context)
        for context in (self.context, self.kernel_context):
            context.enable_multithreading(False)

    def deserialize(self, data):
        """The module in a portable artifact; raises what the bindings raise."""
        with self.context:
            return self._load(data)

    def deserialize_kernel(self, module):
        """Turns the versioned form of a kernel into the dialects of this jaxlib, in place."""
        self._passes.parse("builtin.module(mosaic-serde{serialize=false})").run(module.operation)


class Module:
    """A module that may go on: `entry` is the Block of its public function, `kernels` are its Kernels in program
    order and `by_op` finds one by its call; `mlir` keeps the attributes alive."""

    def __init__(self, name, platform, entry, kernels, mlir):
        self.name, self.platform, self.entry, self.kernels, self.mlir = name, platform, entry, kernels, mlir
        self.by_op = {k.op: k for k in kernels}

    @property
    def inputs(self):
        return self.entry.args

    @property
    def outputs(self):
        return self.entry.results


def _check(platform):
    targets = TARGETS[platform]

    def check(op):
        name = op.name
        if name not in ALLOWED:
            short = name.rpartition(".")[2]
            raise Refused("operation %s is not allowed%s" % (name, ": " + WHY[short] if short in WHY else ""))
        if "mhlo.frontend_attributes" in op.attributes:
            _frontend(op)
        if name == "stablehlo.custom_call":
            _custom_call(op, platform, targets)
        elif name == "stablehlo.composite":
            composite = plain.text_of(op.attributes["name"]) or ""
            if not composite.startswith("chlo."):
                raise Refused("operation stablehlo.composite %r is not allowed" % composite)
    return check


def _custom_call(op, platform, targets):
    target = plain.text_of(op.attributes["call_target_name"]) or ""
    if target not in targets:
        callback = any(word in target.lower() for word in CALLBACK)
        raise Refused("operation stablehlo.custom_call @%s is not allowed on %s%s"
                      % (target[:100], platform, ": it is a host callback" if callback else ""))
    if "called_computations" in op.attributes and len(op.attributes["called_computations"]):
        raise Refused("operation stablehlo.custom_call @%s calls functions of the module" % target)


def _frontend(op):
    """Hints to XLA that are more than hints: computing on the host, scheduling, other backends."""
    for entry in op.attributes["mhlo.frontend_attributes"]:
        key = getattr(entry, "name", entry)
        if key not in FRONTEND and "xla" in key:
            raise Refused("operation %s carries the attribute %s" % (op.name, key))


def _callee(op):
    if op.name == "func.call":
        return plain.text_of(op.attributes["callee"])
    if op.name == "stablehlo.composite":
        return plain.text_of(op.attributes["decomposition"])
    return None


def load(name, data, toolkit):
    """The Module named `<shape>/<platform>` in the bytes of a portable artifact.  Raises Refused."""
    platform = name.rpartition("/")[2]
    if platform not in TARGETS:
        raise Refused("module %s is for a platform that is not known" % name)
    if len(data) > MAX_BYTES:
        raise Refused("module %s has %d bytes, at most %d are read" % (name, len(data), MAX_BYTES))
    if data[:4] != MAGIC:  # the bindings would take MLIR text, too
        raise Refused("module %s does not parse: it is no portable artifact" % name)
    try:
        mlir = toolkit.deserialize(data)
        functions = {}
        for view in mlir.body.operations:
            func = view.operation
            if func.name != "func.func":
                raise Refused("module %s: operation %s stands beside the functions" % (name, func.name))
            functions[plain.text_of(func.attributes["sym_name"])] = func
    except Refused:
        raise
    except Exception as error:
        raise Refused("module %s does not parse: %s" % (name, str(error)[:300] or type(error).__name__)) from None
    public = [f for f in functions.values()
              if "sym_visibility" not in f.attributes or plain.text_of(f.attributes["sym_visibility"]) != "private"]
    if len(public) != 1 or plain.text_of(public[0].attributes["sym_name"]) != "main":
        raise Refused("module %s has %d public functions, one called main is expected" % (name, len(public)))
    try:
        check = _check(platform)
        for func in functions.values():  # also what no call reaches: the executor compiles the whole module
            _walk_mlir(func, check, 0)
        _arguments(name, public[0])
        entry = plain.Reader(toolkit.ir, functions, check, _callee).function(public[0])
        kernels = [mosaic.read(op, toolkit) for op in plain.walk(entry) if op.name == "stablehlo.custom_call"]
    except Refused as refused:
        raise Refused("module %s: %s" % (name, refused) if not str(refused).startswith("module ") else str(refused),
                      refused.outcome) from None
    except Exception as error:  # whatever the bindings raise on what they did not expect (names that are no UTF-8, ...)
        raise Refused("module %s can't be read: %s: %s" % (name, type(error).__name__, str(error)[:300])) from None
    return Module(name, platform, entry, kernels, mlir)


def _walk_mlir(op, check, depth):
    if depth > plain.MAX_DEPTH:
        raise Refused("operations are nested deeper than %d" % plain.MAX_DEPTH)
    check(op)
    for region in op.regions:
        for block in region.blocks:
            for view in block.operations:
                _walk_mlir(view.operation, check, depth + 1)


def _arguments(name, func):
    for holder in ("arg_attrs", "res_attrs"):
        for number, attrs in enumerate(func.attributes[holder] if holder in func.attributes else ()):
            for key in REFUSED_ARG_ATTRS:
                if key in attrs:
                    raise Refused("module %s: %s %d carries %s" % (name, "argument" if holder[0] == "a" else "result", number, key))


def contract(module, shape):
    """Raises Refused unless arguments and results are the inputs and outputs of `shape`, a resolved shape of the job."""
    for what, values, wanted in (("argument", module.inputs, shape.get("inputs", [])),
                                 ("result", module.outputs, shape.get("outputs", []))):
        if len(values) != len(wanted):
            raise Refused("module %s has %d %ss, the contract has %d" % (module.name, len(values), what, len(wanted)))
        for number, (value, spec) in enumerate(zip(values, wanted)):
            expected = (DTYPES.get(spec["dtype"], spec["dtype"]), tuple(spec["dims"]))
            if (value.type.dtype, value.type.dims) != expected:
                raise Refused("module %s: %s %d is %s, the contract says %sx%s"
                              % (module.name, what, number, value.type, "x".join(map(str, expected[1])), expected[0]))
