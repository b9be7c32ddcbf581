# SPDX-License-Identifier: Apache-2.0
"""What every end-to-end test shares: the built program, a private cache and run
folder, and `eval` of many kernels in one call.  Nothing here knows the inside of
the program; it types what a person would type."""

import json
import os
import pathlib
import signal
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("JAXBENCH_TEST_BUILD", ROOT / "build"))
KERNELS = pathlib.Path(__file__).resolve().parent / "kernels"
SECRET = "sk-jaxbench-e2e-secret-4711"


class Done:
    """Exit code, stdout and stderr of one call."""

    def __init__(self, process):
        self.code, self.out, self.err = process.returncode, process.stdout, process.stderr

    def json(self):
        try:
            return json.loads(self.out)
        except ValueError as error:
            raise AssertionError("stdout is not JSON (%s)\nexit %d\nstdout: %s\nstderr: %s"
                                 % (error, self.code, self.out[:2000], self.err[:4000])) from None

    def __repr__(self):
        return "exit %d\nstdout: %s\nstderr: %s" % (self.code, self.out[-3000:], self.err[-3000:])


def environment(**extra):
    env = {k: v for k, v in os.environ.items() if not k.startswith("JAXBENCH_")}
    env.update(NO_COLOR="1", OPENAI_API_KEY=SECRET, **extra)
    return env


def jaxbench(*args, cwd=None, timeout=600, env=None, stdin=subprocess.DEVNULL):
    """Run `jaxbench ARGS`, never through a shell; text in and out."""
    process = subprocess.run([str(BUILD / "jaxbench"), *map(str, args)], cwd=cwd, env=env or environment(),
                             stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=timeout,
                             encoding="utf-8", errors="replace")
    return Done(process)


def start(folder, study, run_dir):
    """`jaxbench run` in the background, in a session of its own."""
    return background(folder, "run", study, "--run-dir", run_dir, "--no-page")


def background(folder, *args):
    """`jaxbench ARGS` in the background, in a session of its own."""
    return subprocess.Popen([str(BUILD / "jaxbench"), *map(str, args)], cwd=folder,
                            env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, start_new_session=True)


def archive(run_dir):
    """{relative path: bytes} of what the candidates left behind, and the stable report."""
    files = {}
    for path in sorted(pathlib.Path(run_dir, "cells").rglob("*")):
        if path.is_file() and path.name in ("prompt.txt", "reply.txt", "candidate.py"):
            files[str(path.relative_to(run_dir))] = path.read_bytes()
    report = jaxbench("report", run_dir, "--json", "--stable")
    if report.code != 0:
        raise AssertionError("report failed: %r" % report)
    return files, report.json()


def kill_and_resume(folder, study, run_dir, seconds):
    """Begin a run, kill -9 its coordinator after `seconds`, go on with it: (end of that, archive or None)."""
    process = start(folder, study, run_dir)
    time.sleep(seconds)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    verb = ("resume", run_dir) if (run_dir / "journal.jsonl").exists() else ("run", study, "--run-dir", run_dir)
    done = jaxbench(*verb, "--no-page", cwd=folder)
    return done, archive(run_dir) if done.code == 0 else None


def evaluate(kernels, workload, *args, timeout=600):
    """`jaxbench eval` of several files at once: {file name: record}."""
    paths = [KERNELS / k if isinstance(k, str) else k for k in kernels]
    done = jaxbench("eval", *paths, "--workload", workload, "--json", *args, timeout=timeout)
    if done.code not in (0, 3):
        raise AssertionError("eval failed: %r" % done)
    records = done.json()
    if isinstance(records, dict):
        records = [records]
    if len(records) != len(paths):
        raise AssertionError("%d records for %d files" % (len(records), len(paths)))
    return {p.name: r for p, r in zip(paths, records)}


def scratch():
    """A temporary folder outside the tree, removed with the object."""
    return tempfile.TemporaryDirectory(prefix="jaxbench-e2e-")
