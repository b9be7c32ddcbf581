# SPDX-License-Identifier: Apache-2.0
"""Reads the StableHLO portable artifacts that executors and compilers are given.

The bytes were allow-listed by the inspector; here they become an MLIR module.  No
Python of a candidate and no pickled or flatbuffer wrapper is involved.
"""


MAGIC = b"ML\xefR"  # MLIR bytecode; without it the parser would take the bytes for text


def load(data):
    """The MLIR module of a portable artifact (bytes), in a context of its own.  ValueError when it is none."""
    if not data.startswith(MAGIC):
        raise ValueError("the module is not a StableHLO portable artifact: it does not begin as one")
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    context = mlir.make_ir_context()
    try:
        return _jax.mlir.deserialize_portable_artifact(data, context)
    except Exception as bad:
        raise ValueError("the module is not a StableHLO portable artifact: %s" % bad) from None
