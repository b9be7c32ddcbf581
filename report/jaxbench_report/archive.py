# SPDX-License-Identifier: Apache-2.0
"""Bodies of a run, read from its folder: cells/<key>/<n>/ and blobs/<sha256>.  A
folder that came from elsewhere is hostile: only plain files below it are opened,
no link is followed, no more than a cap is kept, and what has a hash is checked."""

import hashlib
import json
import os
import pathlib
import re
import stat

BODY_BYTES = 12_000        # kept of a prompt, reply or source
RECORD_BYTES = 4_000_000   # of a result.json; a longer one is not read
BLOB_BYTES = 8_000_000     # of a blob; a longer one is cut and so not verified

_HASH = re.compile("[0-9a-f]{64}")


class Body:
    """Text of one file: `text` (cut at BODY_BYTES), `bytes` it has, `note` when it is
    not what the journal says."""

    def __init__(self, data, total, note=""):
        kept = data[:BODY_BYTES]
        self.text = kept.decode("utf-8", "replace")
        self.bytes, self.cut, self.note = total, total > len(kept), note


def _read(root, parts, limit):
    """(bytes, size) of the file at root/parts, or None."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        for part in parts[:-1]:
            below = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = below
        file = os.open(parts[-1], flags | os.O_NONBLOCK, dir_fd=folder)
        with open(file, "rb") as stream:
            facts = os.fstat(stream.fileno())
            return (stream.read(limit), facts.st_size) if stat.S_ISREG(facts.st_mode) else None
    except OSError:
        return None
    finally:
        os.close(folder)


def _plain(name):
    return bool(name) and "/" not in name and "\0" not in name and name not in (".", "..")


class Archive:
    """The folder of one run; `root` may be missing, then nothing is found."""

    def __init__(self, root):
        self.root = pathlib.Path(root) if root else None

    def _cell(self, folder, candidate, name, limit):
        if self.root is None or not _plain(folder):
            return None
        return _read(self.root, ("cells", folder, str(int(candidate)), name), limit)

    def record(self, folder, candidate):
        """result.json as an object, or None."""
        found = self._cell(folder, candidate, "result.json", RECORD_BYTES)
        if found is None or found[1] > RECORD_BYTES:
            return None
        try:
            record = json.loads(found[0])
        except (ValueError, RecursionError):
            return None
        return record if isinstance(record, dict) else None

    def reply(self, folder, candidate):
        found = self._cell(folder, candidate, "reply.txt", BODY_BYTES + 4)
        return Body(*found) if found else None

    def source(self, folder, candidate, sha256):
        """candidate.py; its hash is taken as core/evaluate/extract.c does, without a
        byte order mark, carriage returns and the blanks at the end."""
        found = self._cell(folder, candidate, "candidate.py", BLOB_BYTES)
        if not found:
            return None
        whole = found[1] == len(found[0])
        plain = found[0].removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n").rstrip(b" \t\n")
        right = hashlib.sha256(plain).hexdigest() == sha256
        return Body(*found, "" if right or not whole or not sha256 else "differs from the source that was judged")

    def prompt(self, folder, candidate, sha256):
        """The blob that the journal names, else the candidate's own copy."""
        if self.root is not None and sha256 and _HASH.fullmatch(sha256):
            found = _read(self.root, ("blobs", sha256), BLOB_BYTES)
            if found:
                whole = found[1] == len(found[0])
                right = hashlib.sha256(found[0]).hexdigest() == sha256
                return Body(*found, "" if right or not whole else "differs from its hash: the blob is damaged")
        found = self._cell(folder, candidate, "prompt.txt", BODY_BYTES + 4)
        return Body(*found) if found else None
