# SPDX-License-Identifier: Apache-2.0
"""Invisible characters are spelled out; numbers have one form."""

import unittest

from jaxbench_report import text


class Visible(unittest.TestCase):
    def test_what_moves_or_hides_is_spelled_out(self):
        cases = {"\x1b[2J": "\\x1b[2J", "a\nb": "a\\x0ab", "\x7f": "\\x7f", "\x9b31m": "\\x9b31m", "\u202eevil": "\\u202eevil",
                 "\u2066x\u2069": "\\u2066x\\u2069", "\u2028": "\\u2028", "\ufeff": "\\ufeff", "\udc80": "\\udc80", "\u200f": "\\u200f"}
        for given, shown in cases.items():
            with self.subTest(given=given.encode("unicode_escape")):
                self.assertEqual(text.line(given), shown)

    def test_letters_of_all_scripts_stay(self):
        for given in ("größer", "日本語", "עברית", "🙂", "a b", "μs"):
            self.assertEqual(text.line(given), given)

    def test_a_block_keeps_its_layout(self):
        self.assertEqual(text.block("a\n\tb\r\x0b\x1b"), "a\n\tb\\x0d\\x0b\\x1b")


class Forms(unittest.TestCase):
    def test_numbers(self):
        cases = [(None, "n/a"), (3, "3"), (7.25, "7.25"), (0.000123456, "0.000123"), (1234567.0, "1.23e+06"), (float("inf"), "inf"),
                 (float("nan"), "nan"), ("NaN", "NaN"), ([1], "[1]"), (True, "True"), (-2.0, "-2")]
        for given, shown in cases:
            with self.subTest(given=given):
                self.assertEqual(text.number(given), shown)

    def test_seconds(self):
        cases = [(None, "n/a"), (0.05, "50 ms"), (9.96, "10.0 s"), (426.1, "7 min 06 s"), (3600, "1 h 00 min"), (7325, "2 h 02 min")]
        for given, shown in cases:
            with self.subTest(given=given):
                self.assertEqual(text.seconds(given), shown)

    def test_shares_and_times(self):
        self.assertEqual(text.percent(None), "n/a")
        self.assertEqual(text.percent(0.5), "50 %")
        self.assertEqual(text.span([0.364, 0.636]), "36–64 %")
        self.assertEqual(text.span([]), "")
        self.assertEqual(text.times(None), "n/a")
        self.assertEqual(text.times(1.384), "1.38×")
        self.assertEqual(text.count(1234567), "1\u202f234\u202f567")

    def test_cut_says_that_it_cut(self):
        self.assertEqual(text.cut("abcdef", 6), "abcdef")
        self.assertEqual(text.cut("abcdefg", 6), "abcde…")
