# SPDX-License-Identifier: Apache-2.0
"""From a function to StableHLO portable artifacts for the CPU and the TPU v6e.

A function is traced once, on abstract arrays, and both modules are made of that
trace.  Importing this module also imports what the first lowering would, 0.4 s
that a forked child need not pay again.  Nothing is compiled or executed.

Custom calls that plain jnp and lax come with (64 operations lowered with jax 0.10.2; tests/harness_py/test_export.py keeps the
list true).  CPU: none, but ApproxTopK for approx_max_k and LAPACK's lapack_*_ffi for cholesky, qr, eigh, svd, solve, inv, det,
triangular_solve, eig, schur, tridiagonal_solve and expm.  TPU: tpu_custom_call for kernels, ApproxTopK, and Qr,
ProductOfElementaryHouseholderReflectors, Eigh and LuDecomposition for linear algebra (cholesky and triangular_solve need none).
top_k, arcsin, arccosh, sinh and, for the TPU, ragged_dot are stablehlo.composite.  An interpreted kernel has none of its own.
"""

import functools
import sys

import jax
import jax.numpy as jnp
from jax import export as jax_export
from jax._src import core
from jax.experimental import pallas, topologies  # noqa: F401
from jax.experimental.pallas import tpu  # noqa: F401
from jax.sharding import AbstractDevice, AbstractMesh, use_abstract_mesh

# Imported lazily by jax while it lowers a kernel; public jax has no name for them.
from jax._src.pallas.mosaic import pallas_call_registration  # noqa: F401
from jax._src.pallas.mosaic.interpret import interpret_pallas_call  # noqa: F401
from jaxlib.mlir.dialects import mhlo  # noqa: F401

from .interpret import set_interpret

# jax also tries to import the interpreter of GPU kernels at every interpreted kernel.  Its imports take 0.3 s and then fail
# for want of a package that nothing here needs; None in sys.modules makes them fail at once.
sys.modules.setdefault("jax._src.pallas.mosaic_gpu.interpret.interpret_pallas_call", None)

# Modules name the innermost line of the candidate for every operation, which is what a compiler's message needs, and no frame of
# the harness and no path of this machine: equal sources give equal bytes.
jax.config.update("jax_traceback_in_locations_limit", 1)
jax.config.update("jax_hlo_source_file_canonicalization_regex", ".*/")

DEVICE_KIND = "TPU v6 lite"


@functools.cache
def tpu_mesh():
    """An abstract mesh of one v6e.  Parts of the Pallas lowering, and libraries while they are traced, ask for the kind
    of the device; without it they fail with "Unsupported TPU device kind: cpu"."""
    return AbstractMesh((1,), ("d",), abstract_device=AbstractDevice(device_kind=DEVICE_KIND, num_cores=1, platform="tpu"))


def specs(inputs):
    """jax.ShapeDtypeStructs of resolved inputs (docs/formats.md), in order."""
    return [jax.ShapeDtypeStruct(tuple(i["dims"]), jnp.dtype(i["dtype"])) for i in inputs]


def trace(fn, args):
    """The ClosedJaxpr of `fn` on the ShapeDtypeStructs `args`.  `fn` must be a fresh function object: jit's cache knows
    functions by identity, and a second trace of the same one returns the first."""
    with use_abstract_mesh(tpu_mesh()):
        return jax.jit(fn, keep_unused=True).trace(*args).jaxpr


def lower(closed, args, platform):
    """The bytes of the StableHLO portable artifact of `closed` for "cpu" (kernels interpreted) or "tpu" (Mosaic).
    Every argument is an argument of @main, also an unused one.  Raises what the lowering raises."""
    closed = set_interpret(closed, platform == "cpu")

    def workload(*values):
        return core.eval_jaxpr(closed.jaxpr, closed.consts, *values)

    with use_abstract_mesh(tpu_mesh()):
        exported = jax_export.export(jax.jit(workload, keep_unused=True), platforms=[platform])(*args)
    return exported.mlir_module_serialized


def export_function(fn, args, platform):
    """`lower` of a function that is trusted, such as the workload itself."""
    return lower(trace(lambda *values: fn(*values), args), args, platform)
