# SPDX-License-Identifier: Apache-2.0
# Never returns from the trace.
def workload(A, B):
    while True:
        pass
