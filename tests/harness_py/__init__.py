# SPDX-License-Identifier: Apache-2.0
"""Tests of harness/jaxbench_harness: tracer, export, runtime, compiler."""
