# SPDX-License-Identifier: Apache-2.0
"""Budgets of calls that are really sent: what comes in at the server is what was
admitted, money follows the price file, and a run that paused ends like one that did not."""

import json
import pathlib
import unittest

from tests.e2e.fault_server import KEY, MODEL, FaultServer
from tests.e2e.program import environment, jaxbench, scratch

SAMPLES = 10
STUDY = """schema: 1
name: paid
seed: 7
suites:
  - {use: jaxbench, only: [8p]}
methods:
  - {name: bon, use: best_of_n, samples: %(samples)d}
backends:
  - {name: srv, use: openai, model: %(model)s, base_url: "%(url)s", key_env: JB_E2E_KEY, seed: true, max_tokens: 100, limits: {in_flight: 4}}
gates: [literature, robust]
shapes: {check: tiny}
skip: [compile]
prices: prices.yaml
on_error: {call_retries: 1, backoff: 20ms}
"""
PRICES = """schema: 1
kind: prices
date: 2026-12-01
currency: USD
source: made up for this test
prices:
  - {backend: openai, model: "fault-*", input: 10, cache_read: 1, output: 40}
"""
# The server reports 100 tokens in, 60 of them cached, and 40 out, 10 of them reasoning.
CALL_USD = (40 * 10 + 60 * 1 + 40 * 40) / 1e6
CALL_TOKENS = 140


class PaidRuns(unittest.TestCase):
    def setUp(self):
        folder = scratch()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "prices.yaml").write_text(PRICES)

    def go(self, *args, code=0):
        done = jaxbench(*args, cwd=self.root, env=environment(JB_E2E_KEY=KEY, no_proxy="*"))
        self.assertEqual(done.code, code, done)
        return done

    def study(self, server):
        path = self.root / "study.yaml"
        path.write_text(STUDY % {"url": server.url, "samples": SAMPLES, "model": MODEL})
        return path

    def check(self, run, server, budget):
        status = self.go("status", run, "--json").json()
        calls = status["spent"]["calls"]
        self.assertEqual(calls, len(server.requests))
        self.assertEqual(sum(status["outcomes"].values()), calls)  # every reply that was paid for was judged
        self.assertAlmostEqual(status["spent"]["usd"], calls * CALL_USD, places=9)
        self.assertEqual(status["spent"]["tokens"], calls * CALL_TOKENS)
        for unit, amount in budget.items():
            self.assertLessEqual(status["spent"][unit], amount)
        return calls

    def test_each_budget_stops_in_time_and_resume_equals_a_whole_run(self):
        with FaultServer(prose=True) as server:
            study = self.study(server)
            self.go("run", study, "--run-dir", "whole")
            self.assertEqual(self.check("whole", server, {}), SAMPLES)
            whole = self.go("report", "whole", "--json", "--stable").json()
            self.assertAlmostEqual(whole["ledger"]["money"]["usd"], SAMPLES * CALL_USD, places=9)
            self.assertEqual(whole["ledger"]["money"]["unpriced_calls"], 0)
            prompt = len((self.root / "whole/cells/8p+bon+srv+s0/1/prompt.txt").read_bytes())
            # What a call reserves, and three calls more: at least one, and not all of them.
            bound = {"usd": (1.1 * prompt * 10 + 100 * 40) / 1e6, "tokens": int(1.1 * prompt) + 100, "calls": 1}
            for unit, used in (("usd", CALL_USD), ("tokens", CALL_TOKENS), ("calls", 1)):
                with self.subTest(unit=unit):
                    server.requests.clear()
                    amount = bound[unit] + 3 * used
                    done = self.go("run", study, "--run-dir", unit, "--budget", "%s=%s" % (unit, amount), code=5)
                    self.assertIn("budget %s" % unit, done.err)
                    calls = self.check(unit, server, {unit: amount})
                    self.assertGreater(calls, 0)
                    self.assertLess(calls, SAMPLES)
                    self.go("resume", unit, code=5)  # no more of it: not one request
                    self.assertEqual(len(server.requests), calls)
                    self.go("resume", unit, "--budget", "%s=%s" % (unit, 1000000 if unit != "usd" else 1000))
                    self.assertEqual(self.check(unit, server, {}), SAMPLES)  # none paid twice
                    self.assertEqual(self.go("report", unit, "--json", "--stable").json(), whole)

    def test_failed_calls_count_as_calls(self):
        with FaultServer(fault="server_error") as server:
            self.go("run", self.study(server), "--run-dir", "run", "--budget", "2calls", code=5)
            status = self.go("status", "run", "--json").json()
            self.assertEqual((status["spent"]["calls"], status["failed_calls"]), (2, 2))
            self.assertEqual(status["spent"]["usd"], 0)
            self.assertEqual(len(server.requests), 4)  # each tried twice

    def test_a_plan_of_a_paid_run(self):
        with FaultServer() as server:
            plan = self.go("plan", self.study(server), "--json", "--budget", "5usd").json()
            self.assertEqual(server.requests, [])
        usd = plan["total"]["usd"]
        self.assertIn("prices.yaml of 2026-12-01", usd["basis"])
        self.assertGreater(usd["low"], 0)
        self.assertLess(usd["high"], 1)
        self.assertEqual(plan["total"]["output_tokens"]["high"], SAMPLES * 100)
        self.assertEqual(plan["budget"]["usd"]["verdict"], "fits")
        manifest = json.dumps(plan)
        self.assertNotIn(KEY, manifest)


if __name__ == "__main__":
    unittest.main()
