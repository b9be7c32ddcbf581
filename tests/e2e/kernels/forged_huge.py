# SPDX-License-Identifier: Apache-2.0
# Announces a frame of a terabyte.

import os
import struct


def frame(kind, body, length=None):
    data = struct.pack("<4sIQ", b"JBF1", kind, len(body) if length is None else length) + body
    while data:
        data = data[os.write(3, data):]


def module(name, body):
    frame(33, struct.pack("<I", len(name)) + name.encode() + body)


module("tiny/cpu", b"\x00" * 64)
frame(33, b"", 1 << 40)
os._exit(0)
