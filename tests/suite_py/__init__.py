# SPDX-License-Identifier: Apache-2.0
"""Tests of the suite's Python: workloads, draws, references, plain kernels."""
import os
import pathlib
import sys

os.environ["JAX_PLATFORMS"] = "cpu"  # with libtpu installed an unset one can hang at start
HARNESS = str(pathlib.Path(__file__).resolve().parents[2] / "harness")
if HARNESS not in sys.path:
    sys.path.insert(0, HARNESS)
