# SPDX-License-Identifier: Apache-2.0
"""Tests of report/jaxbench_report on runs made up by make_run.py."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "report"))
