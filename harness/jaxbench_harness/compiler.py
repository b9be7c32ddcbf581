# SPDX-License-Identifier: Apache-2.0
"""The compile stage: an inspected TPU module through the real v6e compiler, on a
machine without a TPU.

Takes StableHLO bytes and nothing else.  What the compiler says is passed on in its
own words.  Nothing is executed.
"""

import importlib.util
import json
import os
import re
import time

from . import artifact, errors, mosaic_stub

RESULT = 32  # JB_FRAME_RESULT
TOPOLOGY = "v6e:1x1x1"

# Of libtpu: no question to a metadata server, one v6e, no lock against a second process, no log files.
ENVIRONMENT = {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": "v6e-1", "TPU_WORKER_HOSTNAMES": "localhost",
               "ALLOW_MULTIPLE_LIBTPU_LOAD": "1", "TPU_LOG_DIR": "disabled", "TPU_MIN_LOG_LEVEL": "3", "TPU_STDERR_LOG_LEVEL": "3"}

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_NUMBER = r"([\d.]+)([BKMG]?)"
# "Used 387.84M of 127.94M vmem", "Scoped allocation with size 96.50M and limit 32.00M exceeded scoped vmem limit",
# "Allocation (size=268435456) would exceed memory (size=134217728) :: #allocation3 [shape = ..., space=vmem, ..."
_OVERFLOWS = (re.compile(r"Used %s of %s vmem" % (_NUMBER, _NUMBER)),
              re.compile(r"[Ss]coped (?:vmem )?allocation with size %s and limit %s" % (_NUMBER, _NUMBER)),
              re.compile(r"Allocation \(size=(\d+)()\) would exceed memory \(size=\d+\)[^\n]*space=vmem"))
# In the optimised module, once a kernel: memory space 1 is VMEM.
_SCOPED = re.compile(r'"used_scoped_memory_configs":\[\{"memory_space":"1","offset":"\d+","size":"(\d+)"')


class NoTarget(Exception):
    """libtpu is there and can't be asked for a v6e: a fault of this machine."""


def target():
    """The compile-only v6e device; starts libtpu, 0.15 s.  NoTarget when there is none."""
    from jax.experimental import topologies
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        return topologies.get_topology_desc(platform="tpu", topology_name=TOPOLOGY).devices[0]
    except Exception as bad:
        raise NoTarget("libtpu gives no compile-only %s: %s" % (TOPOLOGY, errors.one_line(errors.message(bad)))) from None


def compile_for(device, module):
    """The jax Executable of an MLIR module for a compile-only device.  Raises what the compiler raises."""
    from jax._src import compiler
    from jax._src.lib import xla_client
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1, device_assignment=[[device.id]])
    return device.client.compile(module, xla_client.DeviceList((device,)), options)


def vmem_used(text):
    """Bytes of VMEM that a message of the compiler says were wanted; None when it is about something else."""
    for pattern in _OVERFLOWS:
        found = pattern.search(text)
        if found is not None:
            return int(float(found.group(1)) * _UNITS[found.group(2)])
    return None


def vmem_reserved(executable):
    """Bytes of VMEM of the kernel that takes most, from the optimised module; None where its text can't be had."""
    try:
        text = executable.hlo_modules()[0].to_string()
    except Exception:  # modules with asynchronous operations have no text
        return None
    sizes = [int(size) for size in _SCOPED.findall(text)]
    return max(sizes) if sizes else None


def refused(bad, note=""):
    """The stage of a module that the compiler refused with `bad`."""
    reason, error = errors.describe(bad)
    if reason.endswith(":"):  # "E1001: CompileTimeScopedVmemOom:" names the kind of error; what happened is on the next line
        lines = [line for line in str(bad).splitlines() if line.strip()]
        reason = errors.one_line(" ".join([reason] + lines[1:2]))
    stage = {"status": "fail", "outcome": "compile-error", "reason": _status_off(reason), "error": errors.cap(note + error)}
    wanted = vmem_used(str(bad))
    if wanted is not None:
        stage["vmem_bytes"] = wanted
    return stage


def _status_off(reason):
    """A reason without the class and status words that every error of the compiler begins with."""
    return re.sub(r"^(?:\w*RuntimeError: )?(?:(?:INTERNAL|INVALID_ARGUMENT|RESOURCE_EXHAUSTED|UNIMPLEMENTED): )?", "", reason)


def compile_stage(data):
    """The `compile` part of the record for the bytes of a TPU module, without `seconds`."""
    if importlib.util.find_spec("libtpu") is None:
        return {"status": "skipped", "reason": "libtpu is not installed"}
    try:
        device = target()
    except NoTarget as bad:
        return {"status": "infra", "outcome": "infra", "reason": str(bad)}
    try:
        stub = mosaic_stub.windows_only(data)
        if stub is not None:
            compile_for(device, stub)
    except Exception as bad:
        # Only an overflow of VMEM is conclusive: the real kernel wants at least as much.
        if vmem_used(str(bad)) is not None:
            return refused(bad, "(Of the blocks and scratch memory alone; the kernel's own work was not compiled.)\n")
    try:
        executable = compile_for(device, artifact.load(data))
    except Exception as bad:
        return refused(bad)
    memory = executable.get_compiled_memory_stats()
    stage = {"status": "ok", "target": device.device_kind, "code_bytes": memory.generated_code_size_in_bytes,
             "hbm_bytes": memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes - memory.alias_size_in_bytes}
    reserved = vmem_reserved(executable)
    if reserved is not None:
        stage["vmem_bytes"] = reserved
    return stage


def main(job, module, emit):
    """Compiles `module`, the bytes of the timed shape's TPU module, for a v6e and emits one RESULT,
    {"compile":{status, seconds, target, vmem_bytes, hbm_bytes, code_bytes}} or why not (docs/protocol.md).  `job` (JSON text) asks
    for nothing today."""
    del job
    start = time.monotonic()
    stage = compile_stage(module)
    stage["seconds"] = round(time.monotonic() - start, 4)
    emit(RESULT, "", json.dumps({"compile": stage}).encode())
