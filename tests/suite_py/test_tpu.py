# SPDX-License-Identifier: Apache-2.0
"""The plain kernels compile for a real TPU v6e at every named shape: Mosaic's
block rules and the VMEM limit.  Needs libtpu, not a TPU; compiled in a process
of its own, because libtpu takes environment at start and a lock."""
import importlib.util
import json
import os
import subprocess
import sys
import unittest

from tests.suite_py import HARNESS, spec

SECONDS = 480
CODE = """
import json, sys, time
import jax, jax.numpy as jnp
from jax.experimental import topologies
from jax.sharding import SingleDeviceSharding
from jaxbench_harness import workloads
device = topologies.get_topology_desc(platform="tpu", topology_name="v6e:1x1x1").devices[0]
for name, folder, inputs in json.load(sys.stdin):
    module = workloads.load(folder, file="plain.py")
    args = [jax.ShapeDtypeStruct(tuple(i["dims"]), jnp.dtype(i["dtype"]), sharding=SingleDeviceSharding(device)) for i in inputs]
    begun = time.monotonic()
    try:
        jax.jit(module.workload).lower(*args).compile()
        error = ""
    except Exception as e:
        error = str(e)[:800]
    print(json.dumps([name, device.device_kind, error, time.monotonic() - begun]), flush=True)
"""


@unittest.skipUnless(importlib.util.find_spec("libtpu"), "libtpu is not installed")
class Compile(unittest.TestCase):
    def test_every_shape(self):
        asked = []
        for ident, folder in spec.FOLDERS.items():
            yaml = spec.read(folder / "workload.yaml")
            asked += [[f"{ident} {shape}", str(folder), spec.resolve(yaml, shape)["inputs"]] for shape in yaml["shapes"]]
        env = dict(os.environ, PYTHONPATH=HARNESS, JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", TPU_ACCELERATOR_TYPE="v6e-1",
                   TPU_WORKER_HOSTNAMES="localhost", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
        done = subprocess.run([sys.executable, "-c", CODE], input=json.dumps(asked), env=env, capture_output=True, text=True, timeout=SECONDS)
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
        self.assertEqual([r[0] for r in rows], [a[0] for a in asked], done.stderr[-2000:])
        for name, kind, error, seconds in rows:
            with self.subTest(kernel=name):
                self.assertEqual((kind, error), ("TPU v6 lite", ""))
                self.assertLess(seconds, 300)  # the compile stage's limit


if __name__ == "__main__":
    unittest.main()
