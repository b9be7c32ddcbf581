# SPDX-License-Identifier: Apache-2.0
"""Exceptions as a person or a model should read them.

The words of Python and of the compiler are kept; what is left out are frames of
libraries and of the harness, paths of this machine and the wrappers that jax puts
around the cause.  Nothing is judged here.
"""

import linecache
import re

REASON_MAX = 300   # characters of a one-line reason
DETAIL_MAX = 4096  # bytes of an error text (docs/protocol.md)
FRAMES_MAX = 8     # of the candidate, the innermost ones

# Exceptions that only say where another one happened.
WRAPPERS = ("LoweringException", "JaxStackTraceBeforeTransformation", "SimplifiedTraceback", "UnfilteredStackTrace")

# Paths of this machine -> what is worth reading of them.
_PATHS = ((re.compile(r"/[^\s\"'(),:;<>]*/(?:site|dist)-packages/"), ""),
          (re.compile(r"/[^\s\"'(),:;<>]*/jaxbench_harness/"), "jaxbench_harness/"),
          (re.compile(r"/[^\s\"'(),:;<>]*/lib/python3\.\d+/"), ""))

# What the compilers append for their own tools.
_TAILS = (re.compile(r"\s*\[type\.googleapis\.com/.*\Z", re.S),
          re.compile(r"\n-+\nFor simplicity, JAX has removed its internal frames.*?(?=\n\n|\Z)", re.S))


def clean(text):
    """`text` without machine paths and compilers' private tails, as valid UTF-8."""
    for pattern, new in _PATHS:
        text = pattern.sub(new, text)
    for pattern in _TAILS:
        text = pattern.sub("", text)
    return text.encode("utf-8", "replace").decode("utf-8").replace("\0", "\\0").strip()


def cap(text, limit=DETAIL_MAX):
    """At most `limit` bytes of `text`: its head, and its end when something in between had to go."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode("utf-8")
    tail = limit // 5
    head = limit - tail - 48
    return "%s\n... %d bytes left out ...\n%s" % (raw[:head].decode("utf-8", "ignore"), len(raw) - head - tail,
                                                  raw[-tail:].decode("utf-8", "ignore"))


def one_line(text, limit=REASON_MAX):
    """The first line of `text` that is not empty, capped."""
    for line in text.splitlines():
        line = " ".join(line.split())
        if line:
            return line if len(line) <= limit else line[:limit - 3] + "..."
    return ""


def chain(exc):
    """`exc` and what caused it, the outermost first; ends at a loop."""
    seen = []
    while exc is not None and all(exc is not other for other in seen):
        seen.append(exc)
        exc = exc.__cause__ if exc.__cause__ is not None or exc.__suppress_context__ else exc.__context__
    return seen


def root(exc):
    """The exception that says what went wrong: `exc`, or the cause of a wrapper."""
    for one in chain(exc):
        if type(one).__name__ not in WRAPPERS:
            return one
    return exc


def message(exc):
    """"Type: text" of one exception, whatever its class does when it is asked."""
    name = type(exc).__name__
    try:
        text = str(exc)
    except BaseException:  # the candidate's own class
        text = "<its text can't be shown>"
    if isinstance(exc, MemoryError) and not text:
        text = "out of memory"
    return "%s: %s" % (name, clean(text)) if text else name


def frames(exc, filename):
    """Lines 'File "...", line N, in f' with their source for the frames of `filename`, from the exception of the
    chain that has most of them (a lowering error carries them in its cause)."""
    best = []
    for one in chain(exc):
        found, tb = [], one.__traceback__
        while tb is not None:
            code = tb.tb_frame.f_code
            if code.co_filename == filename:
                found.append((tb.tb_lineno, code.co_name))
            tb = tb.tb_next
        if len(found) > len(best):
            best = found
    lines = []
    for number, name in best[-FRAMES_MAX:]:
        lines.append('  File "%s", line %d, in %s' % (filename, number, name))
        source = linecache.getline(filename, number).strip()
        if source:
            lines.append("    " + source)
    return lines


def describe(exc, filename=None):
    """(reason, error) of an exception: one line, and at most DETAIL_MAX bytes with the frames of `filename`."""
    cause = root(exc)
    said = message(cause)
    lines = []
    if filename is not None:
        lines = frames(exc, filename)
        if lines:
            lines.insert(0, "Traceback (most recent call last):")
    lines.append(said)
    for one in chain(exc):
        if one is cause:
            break
        if type(one).__name__ == "LoweringException":  # which operation, and with which types
            lines.append("\n" + message(one).split("\nIn jaxpr:")[0])
            break
    return one_line(said), cap("\n".join(lines))
