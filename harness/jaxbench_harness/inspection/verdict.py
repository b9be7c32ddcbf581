# SPDX-License-Identifier: Apache-2.0
"""How far the module that is timed is tied to the one that was checked, and why not further."""

STRUCTURAL = "structural"  # the same program at other sizes
UNPROVEN = "unproven"      # something is not followed; a label
DOUBTFUL = "doubtful"      # something differs that was not executed: inconclusive
MISMATCH = "mismatch"      # a difference that no lowering and no size makes: suspicious
_RANK = {STRUCTURAL: 0, UNPROVEN: 1, DOUBTFUL: 2, MISMATCH: 3}


class Verdict:
    """The worst of what was said, and why: the first that was said of it."""

    def __init__(self):
        self.status, self.detail = STRUCTURAL, ""

    def say(self, status, detail):
        if self < status:
            self.status, self.detail = status, detail

    def __lt__(self, status):
        return _RANK[self.status] < _RANK[status]
