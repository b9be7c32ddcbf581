# SPDX-License-Identifier: Apache-2.0
"""What a page has room for.  Every candidate has a row until the rows alone are too
much; candidates are shown in full, those that matter most first, until the page is
full.  The rest is named with the folder it lies in.

The caps are of bytes as rendered, so that a page stays below PAGE_BYTES however
many candidates there are and whatever they wrote."""

import collections

PAGE_BYTES = 5_000_000     # the promise
ROWS_BYTES = 2_400_000     # rows of all runs of the page
BODIES_BYTES = 1_600_000   # what is shown in full, prompts included
STRIP_LINKS = 2_000        # above this many candidates strips are plain text


class Room:
    """A number of bytes that is handed out until one request does not fit."""

    def __init__(self, size):
        self.left = size

    def take(self, size):
        if size > self.left:
            return False
        self.left -= size
        return True


def utf8(markup):
    return len(markup.encode("utf-8", "surrogatepass"))


def round_robin(cells):
    """Candidates of all cells: the first of each, then the second of each, ..."""
    longest = max((len(c.candidates) for c in cells), default=0)
    return [c.candidates[i] for i in range(longest) for c in cells if i < len(c.candidates)]


def by_interest(run):
    """All candidates of a run, the most telling first: the best of each cell, those
    that gate sets disagree about, the first of each kind of fault of each method,
    then the others, cell by cell in turns."""
    order, ranks, seen = round_robin(run.cells), collections.defaultdict(list), set()
    for k in order:
        words = set(k.verdicts.values())
        kind = (k.cell.method, k.cell.backend, k.outcome, k.fault)
        rank = 0 if k.is_best else 1 if {"pass", "fail"} <= words else 2 if kind not in seen else 3
        seen.add(kind)
        ranks[rank].append(k)
    return [k for rank in range(4) for k in ranks[rank]]


def rows(run, render, room):
    """{candidate: markup} of the rows there is room for, cells in turns."""
    made = {}
    for k in round_robin(run.cells):
        markup = render(k)
        if not room.take(utf8(markup)):
            break
        made[k] = markup
    return made


def details(run, shown, render, room):
    """{candidate: markup} of those shown in full, among the rows `shown`.  `render`
    gives markup, bytes and how to take back what it noted.  One that is too long is
    passed over; after 20 in a row the page counts as full."""
    made, misses = {}, 0
    for k in by_interest(run):
        if k not in shown:
            continue
        markup, cost, undo = render(k)
        if room.take(cost):
            made[k], misses = markup, 0
        else:
            undo()
            misses += 1
            if misses == 20:
                break
    return made
