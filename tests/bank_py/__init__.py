# SPDX-License-Identifier: Apache-2.0
"""Tests of the backend `scripted`'s bank of kernels."""
import tests.suite_py  # noqa: F401 - sets JAX_PLATFORMS, before anything here imports jax
