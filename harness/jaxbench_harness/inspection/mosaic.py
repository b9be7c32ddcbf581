# SPDX-License-Identifier: Apache-2.0
"""Reads the body of a `tpu_custom_call`: a Pallas kernel as the TPU compiler gets it.

The candidate's own words about the kernel (cost estimate, name, dimension
semantics) are read for display at most.  What is inside is counted elsewhere.
"""

import base64
import binascii
import json
import math
import re

from . import ir as plain
from .ir import Refused

MAX_BODY = 64 << 20

# What Pallas (jax 0.10.2) writes into the configuration of a call; anything else is refused.  Not listed, so refused:
# collective_id, sparse_core_config, megachip_parallelism_config.
CONFIG_KEYS = {"body", "cost_estimate", "serialization_format", "needs_layout_passes", "needs_hlo_passes", "has_communication",
               "shape_invariant_numerics", "allow_input_fusion", "internal_scratch_in_bytes", "output_memory_space_colors",
               "input_memory_space_colors", "disable_bounds_checks", "disable_semaphore_checks", "skip_device_barrier"}
OUTER_KEYS = {"custom_call_config", "device_type", "scoped_memory_configs", "flag_configs"}
HOST_COLOR = 5

DIALECTS = ("tpu", "arith", "math", "vector", "scf", "func", "memref", "cf", "builtin")
# Operations of those dialects that reach another core, another device or the host.
DENIED = {
    "tpu.log": "prints on the host", "tpu.log_buffer": "prints on the host", "vector.print": "prints on the host",
    "tpu.device_id": "asks for the device", "tpu.sem_barrier": "waits for other devices", "tpu.barrier": "waits for other cores",
    "tpu.fetch_and_add_sync": "speaks to another core", "tpu.all_reduce": "speaks to other cores",
    "memref.global": "holds a hidden constant", "memref.get_global": "reads a hidden constant",
    "func.call_indirect": "calls an unknown function", "func.constant": "names a function as a value",
    "cf.br": "is unstructured control flow", "cf.cond_br": "is unstructured control flow", "cf.switch": "is unstructured control flow",
}
# From which group of operands on an operation names a device, a core, a subcore.
ADDRESS = {"tpu.enqueue_dma": 4, "tpu.wait_dma2": 3, "tpu.sem_signal": 2}


class Window:
    """How an operand is cut into blocks: `bounds` per axis, `index` the Block that gives a block index per grid point.
    With `element`, the index counts elements, and `low` pads each axis in front.  `revisit_any`: the pipeline reads an
    output block back, so that it may be visited again later."""

    __slots__ = ("bounds", "index", "element", "low", "revisit_any")

    def __init__(self, bounds, index, element, low, revisit_any):
        self.bounds, self.index, self.element, self.low, self.revisit_any = bounds, index, element, low, revisit_any


class Kernel:
    """One call.  Operands of the call are, in order: a number for each bound of the grid that is not static (`dynamic` of
    them), `prefetch` scalar operands, the inputs.  Arguments of the body: the grid's indices, the scalar operands, the
    inputs, the outputs, the scratch buffers.  `windows` has one Window, or None (the whole array, or memory the kernel
    moves itself), for each input and output; `grid` is None where a bound is not static; `aliases` maps an output to an
    operand of the call."""

    def __init__(self, name, op, body, bounds, prefetch, windows, scratch, aliases, mlir):
        self.name, self.op, self.body = name, op, body
        self.prefetch, self.windows, self.aliases, self.mlir = prefetch, windows, aliases, mlir
        self.dynamic = dynamic_bounds(bounds)
        self.grid = None if any(b < 0 for b in bounds) else bounds
        first = len(bounds)
        self.grid_args = body.args[:first]
        self.prefetch_args = body.args[first:first + prefetch]
        self.refs = body.args[first + prefetch:len(body.args) - scratch]
        self.scratch_args = body.args[len(body.args) - scratch:]
        self.first = self.dynamic + prefetch  # number of the operand that is input 0
        self.inputs = len(op.operands) - self.first
        self.outputs = len(op.results)

    @property
    def steps(self):
        """Number of grid points."""
        n = 1
        for bound in self.grid:
            n *= bound
        return n

    def about(self):
        """`steps`, or where the grid is not static a guess that errs to the low side: the most blocks of any operand."""
        if self.grid is not None:
            return self.steps
        return max([math.prod(-(-d // b) for d, b in zip(self.array(n).type.dims, w.bounds))
                    for n, w in enumerate(self.windows) if w is not None], default=1)

    def array(self, number):
        """The StableHLO value that input or output `number` of `refs` stands for."""
        return self.op.operands[self.first + number] if number < self.inputs else self.op.results[number - self.inputs]


def dynamic_bounds(bounds):
    """How many bounds are the marker for "not static" (the least 64-bit integer)."""
    return sum(b == -(1 << 63) for b in bounds)


def _no_duplicates(pairs):
    seen = {}
    for key, value in pairs:
        if key in seen:
            raise Refused("the configuration of a tpu_custom_call has the key %r twice" % key)
        seen[key] = value
    return seen


def configuration(text):
    """The configuration of a call as a dict, with `body` decoded to bytes."""
    if len(text) > MAX_BODY:
        raise Refused("the configuration of a tpu_custom_call has %d bytes, at most %d are read" % (len(text), MAX_BODY))
    try:
        outer = json.loads(text, object_pairs_hook=_no_duplicates)
        config = outer["custom_call_config"]
        body = base64.b64decode(config["body"], validate=True)
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
        raise Refused("the configuration of a tpu_custom_call can't be read: %s: %s" % (type(error).__name__, error)) from None
    unknown = sorted(set(outer) - OUTER_KEYS) + sorted(set(config) - CONFIG_KEYS)
    if unknown:
        raise Refused("the configuration of a tpu_custom_call has the unknown key %r" % unknown[0])
    if config.get("has_communication"):
        raise Refused("a tpu_custom_call speaks to other devices (has_communication)")
    for holder in (outer, config):
        for key, value in holder.items():
            if "memory" in key and HOST_COLOR in _numbers(value):
                raise Refused("a tpu_custom_call has an operand in the host's memory (%s)" % key)
    if outer.get("device_type"):
        raise Refused("a tpu_custom_call asks for the device type %r" % outer["device_type"])
    return dict(config, body=body)


def _numbers(value):
    if isinstance(value, list):
        return {x.get("color") if isinstance(x, dict) else x for x in value if isinstance(x, (int, dict))}
    return set()


def _check(context):
    def check(op):
        name = op.name
        dialect = name.partition(".")[0]
        if dialect not in DIALECTS or not context.is_registered_operation(name):
            raise Refused("operation %s is not allowed in a kernel" % name)
        if name in DENIED:
            raise Refused("operation %s is not allowed in a kernel: it %s" % (name, DENIED[name]))
        if name in ADDRESS:
            sizes = plain.integers(op.attributes["operandSegmentSizes"]) if "operandSegmentSizes" in op.attributes else None
            if sizes is None or any(sizes[ADDRESS[name]:]):
                raise Refused("operation %s addresses another device or core" % name)
    return check


def _call(op):
    return plain.text_of(op.attributes["callee"]) if op.name == "func.call" else None


def parse(body, toolkit):
    """The MLIR module in `body`; Refused where it does not parse."""
    ir = toolkit.ir
    context = toolkit.kernel_context
    try:
        with context:
            module = ir.Module.parse(body)
            if any(str(k) == "stable_mosaic.version" for k in module.operation.attributes):
                toolkit.deserialize_kernel(module)
    except Exception as error:
        raise Refused("the body of a tpu_custom_call does not parse: %s" % str(error)[:300]) from None
    return module


def read(op, toolkit):
    """The Kernel of a `stablehlo.custom_call @tpu_custom_call`."""
    ir = toolkit.ir
    text = op.attr("backend_config")
    if not isinstance(text, ir.StringAttr):
        raise Refused("a tpu_custom_call has no configuration")
    module = parse(configuration(text.value)["body"], toolkit)
    functions, main = {}, None
    for view in module.body.operations:
        func = view.operation
        if func.name != "func.func":
            raise Refused("operation %s stands beside the functions of a kernel" % func.name)
        functions[plain.text_of(func.attributes["sym_name"])] = func
    windowed, transforms = [], {}
    for name, func in functions.items():
        attributes = func.attributes
        if "window_params" in attributes or "iteration_bounds" in attributes or "scratch_operands" in attributes:
            windowed.append((name, func))
    if len(windowed) != 1 and len(functions) != 1:
        raise Refused("a tpu_custom_call has %d entry functions, one is expected" % len(windowed))
    name, main = windowed[0] if windowed else next(iter(functions.items()))
    reader = plain.Reader(ir, functions, _check(toolkit.kernel_context), _call)
    body = reader.function(main)
    attributes = main.attributes
    grid = plain.integers(attributes["iteration_bounds"]) if "iteration_bounds" in attributes else ()
    prefetch = _count(attributes, "scalar_prefetch")
    scratch = _count(attributes, "scratch_operands")
    calls_for = len(op.operands) - dynamic_bounds(grid or ()) - prefetch + len(op.results)
    if grid is None or calls_for < len(op.results) or len(body.args) - prefetch - scratch - calls_for != len(grid):
        raise Refused("kernel %r has %d arguments, which do not fit a grid of rank %d, %d operands, %d results and %d scratch buffers"
                      % (name, len(body.args), len(grid or ()), len(op.operands), len(op.results), scratch))
    windows = _windows(attributes, functions, reader, calls_for, len(grid), transforms)
    unused = set(functions) - set(transforms) - {name}
    if unused:
        raise Refused("a tpu_custom_call has the function @%s, which nothing uses" % sorted(unused)[0])
    kernel = Kernel(plain.text_of(op.attr("kernel_name")) or name, op, body, grid, prefetch, windows, scratch,
                    _aliases(op), module)
    _fits(kernel)
    return kernel


def _count(attributes, name):
    try:
        value = int(attributes[name].value) if name in attributes else 0
    except (AttributeError, TypeError, ValueError):
        value = -1
    if value < 0 or value > 4096:
        raise Refused("a kernel's %s is no count" % name)
    return value


def _windows(attributes, functions, reader, count, rank, transforms):
    ir = reader.ir
    if "window_params" not in attributes:
        return [None] * count
    params = list(attributes["window_params"])
    if len(params) != count:
        raise Refused("a kernel describes %d windows for %d operands" % (len(params), count))
    windows = []
    for param in params:
        if not isinstance(param, ir.DictAttr):
            raise Refused("a kernel's window is not described by a dictionary")
        if "transform_indices" not in param:
            windows.append(None)
            continue
        symbol = param["transform_indices"]
        if isinstance(symbol, ir.AffineMapAttr):  # core_map: always the whole array
            windows.append(None)
            continue
        target = plain.text_of(symbol)
        if target not in functions:
            raise Refused("a kernel's window names @%s, which is not in the module" % target)
        if target not in transforms:
            transforms[target] = reader.function(functions[target])
        bounds = plain.integers(param["window_bounds"]) if "window_bounds" in param else None
        if bounds is None or any(b < 1 for b in bounds):
            raise Refused("a kernel's window has no bounds")
        low = (0,) * len(bounds)
        element = "window_kind" in param
        if element:
            try:
                low, _ = json.loads("[" + str(param["window_kind"]).partition("<")[2].rpartition(">")[0] + "]")
                low = tuple(map(int, low))
            except (ValueError, TypeError):
                raise Refused("a kernel's window is of an unknown kind: %s" % param["window_kind"]) from None
        revisit = "revisit_mode" in param and "any" in str(param["revisit_mode"])
        windows.append(Window(bounds, transforms[target], element, low, revisit))
    return windows


def _aliases(op):
    """output number -> operand number, from the attribute's text (its Python class differs between releases)."""
    found = {}
    for alias in op.attr("output_operand_aliases") or ():
        match = re.search(r"output_tuple_indices = \[(\d*)\], operand_index = (\d+)", str(alias))
        if not match:
            raise Refused("an alias of a tpu_custom_call can't be read: %s" % str(alias)[:100])
        found[int(match[1] or 0)] = int(match[2])
    return found


def _fits(kernel):
    """The refs of the body must be the operands and results of the call."""
    for number, (ref, window) in enumerate(zip(kernel.refs, kernel.windows)):
        array = kernel.array(number)
        if ref.type.kind not in ("memref", "scalar", "other"):
            raise Refused("kernel %r takes a %s where a reference is expected" % (kernel.name, ref.type))
        if ref.type.kind != "memref":
            continue
        rank = len(array.type.dims)
        if window is None:
            if ref.type.dims[:rank] != array.type.dims:
                raise Refused("kernel %r sees operand %d as %s, the call passes %s" % (kernel.name, number, ref.type, array.type))
            continue
        if len(window.bounds) < rank or len(window.index.results) < rank:
            raise Refused("kernel %r: the window of operand %d has rank %d, the array rank %d"
                          % (kernel.name, number, len(window.bounds), rank))
