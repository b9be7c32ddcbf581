# SPDX-License-Identifier: Apache-2.0
"""The Python side of jaxbench-worker: what its children do with jax.

One module a child (`tracer`, `inspector`, `compiler`, `reference`, `runtime`); see
docs/protocol.md.  The zygote imports them all and forks, so no module may start a
backend or a thread when it is imported.
"""

__version__ = "0.1.0"
