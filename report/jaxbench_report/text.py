# SPDX-License-Identifier: Apache-2.0
"""Text for a reader: what can't be seen is made visible, numbers get a form.  HTML
escaping is not done here; the templates do it, always."""

import math
import re

# As core/base/text.c: controls, line separators, marks that reorder what is read.
# Lone surrogates besides: JSON can hold them, UTF-8 can not.
_CLASS = "\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff"
_LINE = re.compile("[%s]" % _CLASS)
_BLOCK = re.compile("[%s]" % _CLASS.replace("\x00-\x1f", "\x00-\x08\x0b-\x1f"))


def _escape(match):
    code = ord(match.group())
    return "\\x%02x" % code if code < 0x100 else "\\u%04x" % code


def line(value):
    """One line: every control or direction mark as an escape, `\\x1b`, `\\u202e`."""
    return _LINE.sub(_escape, str(value))


def block(value):
    """The same with newlines and tabs kept, for preformatted text."""
    return _BLOCK.sub(_escape, str(value))


def cut(value, limit):
    """At most `limit` characters, with an ellipsis where something is missing."""
    return value if len(value) <= limit else value[: limit - 1].rstrip() + "…"


def percent(value):
    return "n/a" if value is None else "%.0f %%" % (100 * value)


def span(interval):
    """A 95 % interval of a share: "36–64 %"."""
    if not interval or len(interval) != 2:
        return ""
    return "%.0f–%.0f %%" % (100 * interval[0], 100 * interval[1])


def number(value, digits=3):
    """A short decimal form; powers of ten beyond 10^5 and below 10^-3."""
    if value is None or isinstance(value, bool) or not isinstance(value, (int, float)):
        return "n/a" if value is None else cut(str(value), 40)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < 1e6:
        return "%d" % value
    return "%.*g" % (digits, value)


def count(value):
    """A whole number with thin spaces between thousands."""
    return "n/a" if value is None else "{:,}".format(int(value)).replace(",", "\u202f")


def seconds(value):
    if value is None:
        return "n/a"
    if value < 0.1:
        return "%.0f ms" % (1000 * value)
    if value < 100:
        return "%.1f s" % value
    minutes, rest = divmod(round(value), 60)
    return "%d min %02d s" % (minutes, rest) if minutes < 60 else "%d h %02d min" % divmod(minutes, 60)


def size(value):
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if value >= scale:
            return "%.1f %s" % (value / scale, unit)
    return "%d B" % value


def times(value):
    """A speedup: "1.38×"."""
    return "n/a" if value is None else "%.2f×" % value
