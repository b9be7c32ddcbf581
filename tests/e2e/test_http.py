# SPDX-License-Identifier: Apache-2.0
"""Runs over HTTP against the fault server: every fault has its class, words, exit
code and ledger; a kill at any moment pays nothing twice; a key is found nowhere."""

import collections
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import time
import unittest

from tests.e2e.fault_server import KEY, MODEL, FaultServer
from tests.e2e.program import BUILD, environment, jaxbench, scratch

SAMPLES = 3
STUDY = """schema: 1
name: http
seed: 7
suites:
  - {use: jaxbench, only: [8p]}
methods:
  - {name: bon, use: %(method)s}
backends:
  - {name: srv, use: openai, model: %(model)s, base_url: "%(url)s", key_env: JB_E2E_KEY, seed: true, %(backend)s}
gates: [literature, robust]
shapes: {check: tiny}
skip: [compile]
on_error: {%(on_error)s}
"""
QUICK = "call_retries: 1, backoff: 20ms"


def key_environment():
    proxies = ("http_proxy", "https_proxy", "all_proxy")
    env = {k: v for k, v in environment(JB_E2E_KEY=KEY).items() if k.lower() not in proxies}
    return env


def events(run_dir, kind):
    lines = pathlib.Path(run_dir, "journal.jsonl").read_text().splitlines(keepends=True)
    found = [json.loads(line) for line in lines if line.endswith("\n")]
    return [e for e in found if e["kind"] == kind]


def call_ends(run_dir):
    """`op_done` of calls, not of evaluations."""
    return [e for e in events(run_dir, "op_done") if "candidate" not in e]


def archive(run_dir):
    files = {}
    for path in sorted(pathlib.Path(run_dir, "cells").rglob("*")):
        if path.name in ("prompt.txt", "reply.txt", "candidate.py"):
            files[str(path.relative_to(run_dir))] = path.read_bytes()
    report = jaxbench("report", run_dir, "--json", "--stable")
    if report.code != 0:
        raise AssertionError("report failed: %r" % report)
    return files, report.json()


class Http(unittest.TestCase):
    def setUp(self):
        folder = scratch()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.run_dir = self.root / "run"

    def study(self, url, backend="", on_error=QUICK, samples=SAMPLES, model=MODEL, method=None):
        path = self.root / "study.yaml"
        path.write_text(STUDY % {"url": url, "backend": backend, "on_error": on_error, "model": model,
                                 "method": method or "best_of_n, samples: %d" % samples})
        return path

    def go(self, study, run_dir=None, env=None):
        return jaxbench("run", study, "--run-dir", run_dir or self.run_dir, cwd=self.root, env=env or key_environment())

    def resume(self, run_dir=None):
        return jaxbench("resume", run_dir or self.run_dir, cwd=self.root, env=key_environment())

    def ledger(self, run_dir=None):
        return jaxbench("report", run_dir or self.run_dir, "--json").json()["ledger"]

    def outcomes(self):
        return jaxbench("report", self.run_dir, "--json").json()["outcomes"]

    def assert_no_key(self, *texts):
        for text in texts:
            self.assertNotIn(KEY, text)
        for path in self.root.rglob("*"):
            if path.is_file():
                self.assertNotIn(KEY.encode(), path.read_bytes(), path)


class Faults(Http):
    # fault, options of the server, of the backend; exit code, words, class, requests a call
    ENDING = [
        ("rate_limit", {"retry_after": "0"}, "", 4, "Rate limit reached", "rate-limit", 2),
        ("rate_limit_date", {}, "", 4, "Rate limit reached", "rate-limit", 2),
        ("server_error", {}, "", 4, "HTTP 500: .*server had an error", "transient", 2),
        ("bad_gateway", {}, "", 4, "HTTP 502: <html>", "transient", 2),
        ("cut", {}, "", 4, "connection broke before the answer was whole", "transient", 2),
        ("empty", {}, "", 4, "the answer has no body", "empty", 2),
        ("empty_content", {}, "", 4, "the reply is empty", "empty", 2),
        ("invalid_json", {}, "", 4, "the answer is not JSON", "transient", 2),
        ("stall", {}, "timeouts: {first_byte: 200ms}", 4, "no answer within 0.2 s", "transient", 2),
        ("stall_midway", {}, "stream: true, timeouts: {idle: 200ms}", 4, "the answer stalled for 0.2 s", "transient", 2),
        ("stream_cut", {}, "stream: true", 4, "the stream ended|not a JSON object", "transient", 2),
        ("stream_error", {}, "stream: true", 4, "The engine is overloaded", "transient", 2),
        ("filtered", {}, "", 4, "filter left nothing", "refused", 1),
        ("too_long", {}, "", 4, "maximum context length", "too-long", 1),
    ]

    def test_provider_failures_cost_no_sample(self):
        for fault, options, backend, code, words, error_class, requests in self.ENDING:
            with self.subTest(fault=fault), FaultServer(fault, prose=fault != "stream_cut", **options) as server:
                run_dir = self.root / fault
                done = self.go(self.study(server.url, backend), run_dir)
                self.assertEqual(done.code, code, done)
                self.assertRegex(done.err, words)
                ledger = self.ledger(run_dir)
                self.assertEqual((ledger["samples"], ledger["calls"], ledger["failed_calls"], ledger["candidates"]),
                                 (0, 0, SAMPLES, 0))
                self.assertEqual({e["error_class"] for e in call_ends(run_dir)}, {error_class})
                self.assertEqual([e["attempts"] for e in call_ends(run_dir)], [requests] * SAMPLES)
                self.assertEqual(len(server.requests), SAMPLES * requests)
                self.assert_no_key(done.out, done.err)

    def test_a_dead_host(self):
        with FaultServer() as server:
            url = server.url  # nobody listens there any more
        done = self.go(self.study(url))
        self.assertEqual(done.code, 4, done)
        self.assertIn("no connection", done.err)
        self.assertEqual(self.ledger()["failed_calls"], SAMPLES)
        self.assertEqual({e["error_class"] for e in call_ends(self.run_dir)}, {"transient"})

    # fault, on_error; exit code, words, class
    FATAL = [
        ("wrong_key", QUICK, 4, "srv does not accept the key: HTTP 401", "auth"),
        ("unknown_model", QUICK, 4, "srv refuses what it is asked: HTTP 404: .*does not exist", "permanent"),
        ("redirect", QUICK, 4, "redirects to \"http://localhost:1/steal\", which is not followed", "permanent"),
        ("quota", QUICK, 6, "srv has no quota left: .*exceeded your current quota", "quota"),
        ("rate_limit", "infra_retries: 0", 6, "limits the rate, and retries are off", "rate-limit"),
    ]

    def test_what_no_call_can_survive_ends_the_run(self):
        for fault, on_error, code, words, error_class in self.FATAL:
            with self.subTest(fault=fault), FaultServer(fault, redirect="http://localhost:1/steal", prose=True) as server:
                run_dir = self.root / ("fatal-" + fault)
                done = self.go(self.study(server.url, on_error=on_error), run_dir)
                self.assertEqual(done.code, code, done)
                self.assertRegex(done.err, words)
                self.assertIn("hint", done.err)
                self.assertEqual({e["class"] for e in events(run_dir, "call_fail")}, {error_class})
                self.assertEqual(call_ends(run_dir), [])
                ledger = self.ledger(run_dir)
                self.assertEqual((ledger["samples"], ledger["candidates"]), (0, 0))
                self.assertLessEqual(len(server.requests), SAMPLES)
                self.assertEqual(jaxbench("report", run_dir, "--json").json()["correct"], 0)
                self.assert_no_key(done.out, done.err)
                server.fault = None  # mended: the same run goes on and loses nothing
                resumed = self.resume(run_dir)
                self.assertEqual(resumed.code, 0, resumed)
                self.assertEqual(self.ledger(run_dir)["samples"], SAMPLES)

    def test_a_key_the_server_does_not_know(self):
        with FaultServer(key="another-key-than-ours") as server:
            done = self.go(self.study(server.url))
        self.assertEqual(done.code, 4, done)
        self.assertIn("Incorrect API key provided: Bearer ****", done.err)
        self.assert_no_key(done.out, done.err)

    def test_a_missing_key_is_found_before_anything_is_written(self):
        env = key_environment()
        del env["JB_E2E_KEY"]
        with FaultServer(prose=True) as server:
            done = self.go(self.study(server.url), env=env)
            self.assertEqual(done.code, 2, done)
            self.assertRegex(done.err, "backend srv.*JB_E2E_KEY is not set")
            self.assertFalse(self.run_dir.exists())
            self.assertEqual(server.requests, [])

    @unittest.skipUnless(shutil.which("openssl"), "no openssl to make a certificate with")
    def test_a_certificate_nobody_vouches_for_gets_no_key(self):
        files = (self.root / "cert.pem", self.root / "cert.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                        "subjectAltName=IP:127.0.0.1", "-out", str(files[0]), "-keyout", str(files[1])], check=True, stderr=subprocess.DEVNULL)
        with FaultServer(prose=True, certificate=files) as server:
            study = self.study(server.url)
            done = self.go(study)
            self.assertEqual(done.code, 4, done)
            self.assertRegex(done.err, "TLS failed: .*certificate")
            self.assertEqual(server.requests, [])
            trusting = dict(key_environment(), CURL_CA_BUNDLE=str(files[0]))
            done = jaxbench("resume", self.run_dir, cwd=self.root, env=trusting)  # the control: one that is vouched for
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(server.requests), SAMPLES)

    def test_what_heals_is_only_a_delay(self):
        for fault in ("rate_limit", "rate_limit_date", "server_error", "cut", "empty", "invalid_json"):
            with self.subTest(fault=fault), FaultServer(fault, times=2, prose=True) as server:
                run_dir = self.root / ("heals-" + fault)
                done = self.go(self.study(server.url, on_error="call_retries: 3, backoff: 20ms"), run_dir)
                self.assertEqual(done.code, 0, done)
                ledger = self.ledger(run_dir)
                self.assertEqual((ledger["samples"], ledger["failed_calls"]), (SAMPLES, 0))
                self.assertEqual(len(server.requests), SAMPLES + 2)
                self.assertEqual(len(events(run_dir, "call_fail")), 2)
                if fault == "rate_limit":  # Retry-After: 1 was obeyed by every call
                    at = sorted(r["at"] for r in server.requests)
                    self.assertGreaterEqual(at[-1] - at[0], 1.0)

    def test_a_truncated_reply_costs_its_sample(self):
        with FaultServer("truncated") as server:
            done = self.go(self.study(server.url))
        self.assertEqual(done.code, 0, done)
        ledger = self.ledger()
        self.assertEqual((ledger["samples"], ledger["failed_calls"]), (SAMPLES, 0))
        self.assertEqual(self.outcomes(), {"truncated": SAMPLES})

    def test_a_refusal_is_a_reply_without_code(self):
        with FaultServer("refusal") as server:
            done = self.go(self.study(server.url))
        self.assertEqual(done.code, 0, done)
        self.assertEqual(self.ledger()["samples"], SAMPLES)
        self.assertEqual(self.outcomes(), {"no-code": SAMPLES})

    def test_wrong_and_missing_usage_is_unknown_not_zero(self):
        for fault in ("wrong_usage", "no_usage"):
            with self.subTest(fault=fault), FaultServer(fault, prose=True) as server:
                run_dir = self.root / fault
                done = self.go(self.study(server.url), run_dir)
                self.assertEqual(done.code, 0, done)
                ledger = self.ledger(run_dir)
                self.assertEqual((ledger["samples"], ledger["calls_without_token_counts"]), (SAMPLES, SAMPLES))
                self.assertEqual([e["usage"] for e in call_ends(run_dir)], [{}] * SAMPLES)


class Good(Http):
    def test_right_kernels_over_http(self):
        with FaultServer(delay=0.05) as server:
            done = self.go(self.study(server.url, "limits: {in_flight: 2}", samples=2))
            self.assertEqual(done.code, 0, done)
            self.assertEqual(self.outcomes(), {"ok": 2})
            ledger = self.ledger()
            self.assertEqual(ledger["tokens"], {"input_uncached": 80, "cache_read": 120, "cache_write": 0, "output": 60, "reasoning": 20})
            self.assertEqual([e["model"] for e in call_ends(self.run_dir)], [MODEL] * 2)
            request = server.requests[0]
            self.assertEqual(request["path"], "/v1/chat/completions")
            self.assertEqual(request["headers"]["Authorization"], "Bearer " + KEY)
            self.assertEqual(request["body"]["model"], MODEL)
            self.assertEqual(len({r["body"]["seed"] for r in server.requests}), 2)
            self.assert_no_key(done.out, done.err)

    def test_streams_give_the_same_replies(self):
        found = []
        with FaultServer(prose=True) as server:
            for stream in ("false", "true"):
                run_dir = self.root / ("stream-" + stream)
                done = self.go(self.study(server.url, "stream: " + stream), run_dir)
                self.assertEqual(done.code, 0, done)
                found.append((archive(run_dir)[0], self.ledger(run_dir)["tokens"]))
        self.assertEqual(found[0], found[1])

    def test_limits_hold(self):
        with FaultServer(prose=True, delay=0.05) as server:
            done = self.go(self.study(server.url, "limits: {in_flight: 2, rpm: 240}", samples=24))
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(server.requests), 24)
            self.assertLessEqual(server.most_busy, 2)
            at = sorted(r["at"] for r in server.requests)  # 4 a second, after a burst of 20
            self.assertGreaterEqual(at[-1] - at[0], 0.7)

    def test_an_echoed_key_is_stored_nowhere(self):
        with FaultServer("echo", prose=True) as server:
            done = self.go(self.study(server.url))
        self.assertEqual(done.code, 0, done)
        self.assertIn("Your key is %s." % ("*" * len(KEY)), call_ends(self.run_dir)[0]["text"])
        report = jaxbench("report", self.run_dir, "--json")
        self.assert_no_key(done.out, done.err, report.out)

    def test_replay_of_a_run_asks_nobody(self):
        with FaultServer(prose=True) as server:
            self.assertEqual(self.go(self.study(server.url)).code, 0)
            asked = len(server.requests)
            text = (self.root / "study.yaml").read_text()
            replay = self.root / "replay.yaml"
            replay.write_text(re.sub(r"  - \{name: srv.*\}", '  - {name: again, use: replay, from: "%s"}' % self.run_dir, text))
            done = self.go(replay, self.root / "again")
            self.assertEqual(done.code, 0, done)
            self.assertEqual(len(server.requests), asked)
        replies = [{e["op"]: (e["text"], e["usage"], e["model"]) for e in call_ends(d)} for d in (self.run_dir, self.root / "again")]
        self.assertEqual(replies[0], replies[1])
        self.assertTrue(all(e["replayed"] for e in call_ends(self.root / "again")))
        replay.write_text(replay.read_text().replace("only: [8p]", "only: [12p]"))
        done = self.go(replay, self.root / "miss")
        self.assertEqual(done.code, 4, done)
        self.assertIn("no reply for workload 12p, lane 0, turn 0 among the 0 recorded", done.err)
        self.assertEqual(self.ledger(self.root / "miss")["samples"], 0)


class Kill(Http):
    MOMENTS = 20
    CALLS = 12
    BACKEND = "limits: {in_flight: 3}"

    def start(self, study, run_dir, **more):
        return subprocess.Popen([str(BUILD / "jaxbench"), "run", str(study), "--run-dir", str(run_dir)], cwd=self.root,
                                env=key_environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.PIPE, start_new_session=True, **more)

    def killed_and_resumed(self, server, study, run_dir, delay):
        """Kill after `delay`, resume, and check what was paid."""
        server.requests.clear()
        process = self.start(study, run_dir)
        time.sleep(delay)
        process.kill()
        process.communicate()
        begun = (run_dir / "journal.jsonl").exists()
        sent = {(e["op"], e["attempt"]) for e in events(run_dir, "call_send")} if begun else set()
        ended = {e["op"] for e in call_ends(run_dir)} if begun else set()
        time.sleep(0.05)  # what was on its way arrives
        before = len(server.requests)
        self.assertLessEqual(before, len(sent), "a request left before its intent was on disk")
        done = self.resume(run_dir) if begun else self.go(study, run_dir)
        self.assertEqual(done.code, 0, done)
        self.assertEqual(len(server.requests) - before, self.CALLS - len(ended), "calls that had ended were paid again")
        again = collections.Counter(r["body"]["seed"] for r in server.requests)
        self.assertEqual(len(again), self.CALLS)
        self.assertLessEqual(max(again.values()), 2)
        in_flight = len(sent) - len(ended)
        self.assertLessEqual(in_flight, 3)
        self.assertEqual(sum(e["attempt"] == 2 for e in events(run_dir, "call_send")), in_flight)

    def test_kill_at_seeded_moments_then_resume(self):
        self.kill_at_moments("best_of_n, samples: %d" % self.CALLS, 20261202)

    def test_kill_of_chains_that_are_told_what_came_before(self):
        self.kill_at_moments("iterative, chains: 3, turns: %d" % (self.CALLS // 3), 20261203)

    def kill_at_moments(self, method, seed):
        rng = random.Random(seed)
        with FaultServer(prose=True, delay=0.06) as server:
            study = self.study(server.url, self.BACKEND, method=method)
            begin = time.monotonic()
            self.assertEqual(self.go(study).code, 0)
            seconds = time.monotonic() - begin
            whole = archive(self.run_dir)
            for moment in range(self.MOMENTS):
                delay = rng.uniform(0.02, 1.0) * seconds
                with self.subTest(moment=moment, delay=delay):
                    run_dir = self.root / ("killed-%d" % moment)
                    self.killed_and_resumed(server, study, run_dir, delay)
                    files, report = archive(run_dir)
                    self.assertEqual(files, whole[0])
                    self.assertEqual(report, whole[1])

    def test_an_interrupt_waits_for_paid_replies(self):
        with FaultServer(prose=True, delay=0.3) as server:
            study = self.study(server.url, self.BACKEND, samples=self.CALLS)
            process = self.start(study, self.run_dir)
            deadline = time.monotonic() + 30
            while len(server.requests) < 2 and time.monotonic() < deadline:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 130, err)
            self.assertEqual(len(events(self.run_dir, "call_send")), len(call_ends(self.run_dir)))
            asked = len(server.requests)
            self.assertEqual(self.resume().code, 0)
            self.assertEqual(len(server.requests), self.CALLS)
            self.assertLess(asked, self.CALLS)

    def test_an_abort_leaves_no_core_and_no_key(self):
        def unlimited():
            hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
            resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

        with FaultServer("stall", prose=True) as server:
            process = self.start(self.study(server.url), self.run_dir, preexec_fn=unlimited)
            deadline = time.monotonic() + 30
            while not server.requests and time.monotonic() < deadline:
                time.sleep(0.01)
            try:
                self.assertNotIn(KEY.encode(), pathlib.Path("/proc/%d/environ" % process.pid).read_bytes())
            except PermissionError:
                pass  # not root: nobody may look, which is as good
            os.kill(process.pid, signal.SIGABRT)
            _, status = os.waitpid(process.pid, 0)
            process.stderr.close()
            process.returncode = -signal.SIGABRT
        self.assertEqual(os.WTERMSIG(status), signal.SIGABRT)
        self.assertFalse(os.WCOREDUMP(status))
        self.assertEqual([p for p in self.root.rglob("core*")], [])
        self.assert_no_key()


class LostWorkers(Kill):
    """Kill -9 of the worker, its fork server or one of their children while an `iterative` run over HTTP goes on."""

    ON_ERROR = QUICK + ", infra_retries: 20, stop_after_infra_share: 0"
    RUNS, KILLS = 4, 5

    # Only what this class adds; Kill's own tests run there.
    test_kill_at_seeded_moments_then_resume = test_kill_of_chains_that_are_told_what_came_before = None
    test_an_interrupt_waits_for_paid_replies = test_an_abort_leaves_no_core_and_no_key = None

    @staticmethod
    def descendants(pid):
        """Pids below `pid`, oldest first."""
        parents = {}
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(stat.parent.name))
        found = [pid]
        for one in found:
            found += sorted(parents.get(one, []))
        return found[1:]

    def test_kill_of_workers_and_executors(self):
        rng = random.Random(20261204)
        with FaultServer(delay=0.02) as server:
            study = self.study(server.url, on_error=self.ON_ERROR, method="iterative, chains: 2, turns: 2, stop_on: budget")
            begin = time.monotonic()
            self.assertEqual(self.go(study).code, 0)
            seconds = time.monotonic() - begin
            whole, killed = archive(self.run_dir), 0
            self.assertEqual(whole[1]["outcomes"], {"ok": 4})
            for number in range(self.RUNS):
                run_dir = self.root / ("lost-%d" % number)
                server.requests.clear()
                process = self.start(study, run_dir)
                for _ in range(self.KILLS):
                    time.sleep(rng.uniform(0.05, 0.4) * seconds)
                    below = self.descendants(process.pid)
                    if below:
                        victim = rng.choice(below)
                        try:
                            os.kill(victim, signal.SIGKILL)
                            killed += 1
                        except ProcessLookupError:
                            pass
                _, err = process.communicate(timeout=300)
                with self.subTest(run=number):
                    if process.returncode != 0:  # killed while it started, a worker is a fault of the machine: the run ends, intact
                        self.assertEqual(process.returncode, 4, err)
                        done = self.resume(run_dir)
                        self.assertEqual(done.code, 0, done)
                    self.assertEqual(archive(run_dir), whole)
                    paid = collections.Counter(r["body"]["seed"] for r in server.requests)
                    self.assertEqual(set(paid.values()), {1}, paid)
        self.assertGreaterEqual(killed, self.RUNS)


if __name__ == "__main__":
    unittest.main()
