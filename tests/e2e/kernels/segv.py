# SPDX-License-Identifier: Apache-2.0
# Dereferences NULL.
import ctypes

ctypes.string_at(0)


def workload(A, B):
    return A @ B
