# SPDX-License-Identifier: Apache-2.0
"""Loading a workload's Python from its folder at a chosen shape.

Runs the file it is given (suite sources and kernels of the suite's own, never a
candidate) and touches no backend.
"""
import itertools
import pathlib
import types

_count = itertools.count()


class WorkloadError(Exception):
    """A workload that is not what its contract says; the text names what was expected and seen."""


def set_config(module, config):
    """Set the sizes of `module.CONFIG` (a dict, changed in place) to those of `config`.

    Every key must be there already, so that a misspelt dimension can't pass
    unseen; keys that `config` leaves out keep their values.
    """
    own = getattr(module, "CONFIG", None)
    if not isinstance(own, dict):
        raise WorkloadError(f"{module.__name__}: CONFIG should be a dict, it is {type(own).__name__}")
    missing = sorted(set(config) - set(own))
    if missing:
        raise WorkloadError(f"{module.__name__}: CONFIG has no {', '.join(missing)}; it has {', '.join(sorted(own))}")
    own.update(config)


def load(folder, config=None, file="workload.py"):
    """The module of `folder`/`file`, freshly executed, with CONFIG set to `config`.

    folder: path of a workload's folder.  config: {CONFIG key: number}; None
    leaves the published sizes, and is how a file without a CONFIG is loaded.
    Raises WorkloadError when the file is missing or defines no `workload`.
    """
    path = pathlib.Path(folder) / file
    if not path.is_file():
        raise WorkloadError(f"{path}: no such file; a workload's folder holds workload.py, workload.yaml and plain.py")
    name = f"jaxbench_{path.parent.name}_{path.stem}_{next(_count)}"
    # Not through importlib, which would leave compiled files in the suite and read stale ones.
    module = types.ModuleType(name)
    module.__file__ = str(path)
    exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
    if not callable(getattr(module, "workload", None)):
        raise WorkloadError(f"{path}: defines no function `workload`")
    if config is not None:
        set_config(module, config)
    return module
