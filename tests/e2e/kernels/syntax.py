# SPDX-License-Identifier: Apache-2.0
# Not Python.
def workload(A, B:
    return A @ B
