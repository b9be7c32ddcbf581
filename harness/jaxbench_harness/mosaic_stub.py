# SPDX-License-Identifier: Apache-2.0
"""A module's kernels without their work: blocks, index maps and scratch memory stay,
the bodies go.

The compiler notices that blocks do not fit in VMEM only after it has compiled the
body; for blocks of 4096x8192 that took 276 s.  Of the stub it says the same about
the same blocks in 0.1 s.  A stub is only ever compiled, and only its overflow counts.
"""

import base64
import io
import json

from . import artifact

ENTRY = "window_params"  # the attribute that a kernel's entry function has and its index maps have not


def windows_only(data):
    """The MLIR module of the artifact `data` with empty kernels; None when it has no kernel that could be emptied.  Raises on
    bytes that can't be read."""
    from jaxlib.mlir import ir
    module = artifact.load(data)
    emptied = 0
    with module.context, ir.Location.unknown():
        for op in _operations(module.body):
            if op.name == "stablehlo.custom_call" and ir.StringAttr(op.attributes["call_target_name"]).value == "tpu_custom_call":
                config = json.loads(ir.StringAttr(op.attributes["backend_config"]).value)
                kernel = config["custom_call_config"]
                body = _without_work(base64.b64decode(kernel["body"]))
                if body is not None:
                    kernel["body"] = base64.b64encode(body).decode()
                    op.attributes["backend_config"] = ir.StringAttr.get(json.dumps(config))
                    emptied += 1
    return module if emptied else None


def _operations(block):
    for op in block.operations:
        yield op.operation
        for region in op.operation.regions:
            for nested in region.blocks:
                yield from _operations(nested)


def _without_work(body):
    """The serialised kernel `body` with nothing left in its entry but the return, which has no operands; None when it has no
    windowed entry of one block."""
    from jax._src.interpreters import mlir
    from jax._src.lib import tpu
    from jaxlib.mlir import ir
    context = mlir.make_ir_context()
    context.allow_unregistered_dialects = True  # serialised kernels are in a versioned form of their dialects
    tpu.register_dialect(context)
    with context, ir.Location.unknown():
        kernel = ir.Module.parse(body)
        entries = [op.operation for op in kernel.body.operations if ENTRY in op.operation.attributes]
        if len(entries) != 1 or len(entries[0].regions[0].blocks) != 1:
            return None
        work = [op.operation for op in entries[0].regions[0].blocks[0].operations]
        if len(work[-1].operands) > 0:
            return None
        for op in reversed(work[:-1]):
            op.erase()
        out = io.BytesIO()
        kernel.operation.write_bytecode(out, desired_version=0)
        return out.getvalue()
