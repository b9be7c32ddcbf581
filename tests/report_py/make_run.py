# SPDX-License-Identifier: Apache-2.0
"""A run folder made up by a seed: manifest, journal, and, when asked for, the
archive of bodies.  It has the shape of a real one and any size, so that reports of
10,000 candidates and of hostile ones can be made without judging anything.

    python -m tests.report_py.make_run FOLDER --candidates 10000"""

import argparse
import hashlib
import json
import pathlib
import random

WORKLOADS = (("1p", "flash_attention"), ("8p", "gemm"), ("9p", "swiglu_mlp"), ("12p", "rms_norm"), ("13p", "cumsum"),
             ("35k", "gemm_scaling"), ("40k", "gemm_group_norm"), ("50k", "matmul_gelu_softmax"))
# outcome, the stage that decides, share, what decides in it
KINDS = (("ok", "", 45, ""), ("no-code", "extract", 4, ""), ("truncated", "extract", 3, ""), ("syntax", "trace", 4, ""),
         ("not-pallas", "inspect", 4, ""), ("compile-error", "compile", 10, ""), ("suspicious", "inspect", 2, "unread-input"),
         ("wrong", "check", 16, "error_ratio/own"), ("wrong", "check", 8, "error_ratio/outlier"), ("wrong", "check", 3, "coverage"),
         ("infra", "check", 1, ""))
STAGES = ("extract", "trace", "export", "inspect", "compile", "check", "time")
PYTHON = '''import jax
from jax.experimental import pallas as pl


def kernel(x_ref, o_ref):
    o_ref[...] = x_ref[...] * %d


def workload(x):
    return pl.pallas_call(kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
'''


def sha(text):
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class Maker:
    """Writes one run.  `texts` replaces words of candidates: {"reason","reply","source",
    "prompt","error","log","detail"}; `labels` those of the study: {"method","gate"}."""

    def __init__(self, folder, candidates, methods=2, seed=1, bodies=False, timed=False, texts=None, labels=None, workloads=WORKLOADS):
        self.folder, self.total, self.bodies, self.timed = pathlib.Path(folder), candidates, bodies, timed
        self.rng, self.texts = random.Random(seed), texts or {}
        labels = labels or {}
        self.methods = [labels.get("method", "best-of-n"), "iterative", "beam", "evolve"][:methods]
        self.gates = [labels.get("gate", "literature"), "robust"]
        self.workloads, self.seq, self.lines = workloads, 0, []
        self.cells = [{"key": "%s+m%d+scripted+s0" % (w, i), "label": "%s/%s/scripted s0" % (w, m), "workload": w, "workload_name": name,
                       "method": m, "backend": "scripted", "seed": 0} for w, name in workloads for i, m in enumerate(self.methods)]

    def event(self, kind, **fields):
        self.seq += 1
        self.lines.append(json.dumps({"seq": self.seq, "t": 1.0 * self.seq, "kind": kind, **fields}))

    def write(self):
        self.folder.mkdir(parents=True)
        (self.folder / "blobs").mkdir()
        self.event("session", pid=1, host="h", version="0.1.0")
        walls = ("user_ns", "net_ns", "pid_ns", "mount_ns", "ipc_ns", "uts_ns", "private_root", "unprivileged_uid", "no_capabilities",
                 "no_new_privs", "landlock", "seccomp", "rlimits", "oom_score")
        self.event("executor", ready={"device": "cpu", "jax": "0.10.2", "libtpu": "0.0.52", "isolation": dict.fromkeys(walls, True)})
        for i, cell in enumerate(self.cells):
            n = self.total // len(self.cells) + (i < self.total % len(self.cells))
            self.cell(cell, n)
        self.event("run_end")
        manifest = {"schema": 1, "kind": "manifest", "name": "made up", "seed": "1", "run": "made-up", "version": "0.1.0",
                    "started": "2026-12-01T02:34:33Z", "headline": "robust", "gates": [{"name": g} for g in self.gates], "final_rows": False,
                    "variant": "repaired", "shapes": {"check": "", "timed": "full"}, "isolation": "required", "plan": "ab" * 32,
                    "backends": [{"name": "scripted", "no_model": True}], "cells": self.cells}
        (self.folder / "manifest.json").write_text(json.dumps(manifest))
        (self.folder / "journal.jsonl").write_text("\n".join(self.lines) + "\n")
        return self.folder

    def cell(self, cell, n):
        key = cell["key"]
        self.event("cell_begin", cell=key)
        for i in range(1, n + 1):
            self.candidate(cell, i)
        self.event("cell_end", cell=key, status="done")

    def candidate(self, cell, i):
        outcome, stage, _, fault = self.rng.choices(KINDS, weights=[k[2] for k in KINDS])[0]
        key, op = cell["key"], 2 * i - 1
        source = self.texts.get("source") or PYTHON % self.rng.randrange(200)
        reply = self.texts.get("reply") or "Here is a kernel.\n\n```python\n%s```\n" % source
        prompt = self.texts.get("prompt") or "Write a Pallas kernel for %s.\n" % cell["workload"]
        reason = "" if outcome == "ok" else self.texts.get("reason") or "robust: %s, score %.3g above 1.1 on one of the draws" % (fault or stage, self.rng.uniform(1, 90))
        record = self.record(outcome, stage, fault)
        self.event("op_submit", cell=key, op=op, op_kind="llm", hash="x", purpose="sample", lane=i % 3, turn=i // 3, prompt=sha(prompt))
        usage = {"input_uncached": 1200, "cache_read": 0, "cache_write": 0, "output": 700, "reasoning": 0}
        self.event("op_done", cell=key, op=op, status="done", usage=usage, text=reply if len(reply) < 3000 else "")
        self.event("op_submit", cell=key, op=op + 1, op_kind="eval", candidate=i, llm_op=op, source_sha256=sha(source.rstrip(" \t\n")))
        self.event("op_done", cell=key, op=op + 1, outcome=outcome, stage=stage, reason=reason, attempts=1, record=record)
        if not self.bodies:
            return
        (self.folder / "blobs" / sha(prompt)).write_bytes(prompt.encode("utf-8", "surrogatepass"))
        place = self.folder / "cells" / key / str(i)
        place.mkdir(parents=True)
        (place / "reply.txt").write_bytes(reply.encode("utf-8", "surrogatepass"))
        (place / "candidate.py").write_bytes(source.encode("utf-8", "surrogatepass"))
        (place / "result.json").write_text(json.dumps({"schema": 1, "outcome": outcome, "parents": [i - 1] if i > 1 else [], "record": record}))

    def record(self, outcome, stage, fault):
        stages, failed = {}, False
        for s in STAGES:
            if failed or s == "time":
                stages[s] = {"status": "skipped", "reason": "not reached" if failed else "not asked for"}
            elif s == stage and stage != "check":
                stages[s] = {"status": "fail", "outcome": outcome, "reason": "it failed", "error": self.texts.get("error", "ValueError: block shape")}
                failed = True
            else:
                stages[s] = {"status": "infra" if outcome == "infra" and s == stage else "ok", "seconds": round(self.rng.uniform(0.1, 9), 3)}
        if stages["inspect"]["status"] == "ok":
            stages["inspect"].update(link={"status": "structural"}, coverage={"status": "complete"}, flops={"share": 1.0},
                                     findings=[{"id": "share", "outcome": "", "detail": self.texts["detail"]}] if "detail" in self.texts else [])
        record = {"schema": 1, "stages": stages, "gates": {}, "numerics": "interpret", "log": self.texts.get("log", ""), "log_bytes": 10,
                  "cost": {"trace_s": 1.2, "compile_s": 3.4, "check_s": 2.2, "wall_s": 7.0}}
        if outcome in ("ok", "wrong"):
            lenient = "pass" if outcome == "ok" or self.rng.random() < 0.4 else "fail"
            record["gates"] = {self.gates[0]: self.gate_set("allclose", lenient, "published"),
                               "robust": self.gate_set("error_ratio", "pass" if outcome == "ok" else "fail", "own")}
            if fault:
                gate, _, draw = fault.partition("/")
                record["gates"]["robust"]["killer"] = {"gate": gate, "shape": "gate", "distribution": draw, "draw": 0, "score": 7.25, "threshold": 1.1}
        if self.timed and outcome == "ok":
            record["timing"] = {"status": "ok", "interpreted": False, "baseline_median_us": 100.0, "candidate_median_us": round(self.rng.uniform(60, 130), 1)}
        return record

    def gate_set(self, use, verdict, draw):
        score = round(self.rng.uniform(0.2, 1.0) if verdict == "pass" else self.rng.uniform(1.2, 90), 3)
        worst = [{"output": 0, "index": [n, 17 * n], "reference": 1.0 + n, "candidate": 1.5 + n} for n in range(5)]
        trial = {"shape": "gate", "distribution": draw, "draw": 0, "status": verdict, "score": score, "threshold": 1.1, "part": "rms", "reason": "", "worst": worst}
        return {"variant": "repaired", "verdict": verdict,
                "rows": [{"use": use, "when": "loop", "verdict": verdict, "score": score, "threshold": 1.1, "trials": [trial]}]}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--candidates", type=int, default=10000)
    parser.add_argument("--methods", type=int, default=2)
    parser.add_argument("--bodies", action="store_true")
    parser.add_argument("--timed", action="store_true")
    o = parser.parse_args()
    Maker(o.folder, o.candidates, o.methods, bodies=o.bodies, timed=o.timed).write()
