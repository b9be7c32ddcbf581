# SPDX-License-Identifier: Apache-2.0
"""What the inspector decides about an exported module, one concern a file.

The modules read hostile bytes with jaxlib's MLIR bindings and never execute,
compile or start anything.  `ir` and `stablehlo` and `mosaic` read; `fold`,
`dataflow`, `points`, `flops`, `indexmap` and `coverage` compute; `link` and
`findings` conclude.
"""
