# SPDX-License-Identifier: Apache-2.0
"""Links from the page to files of the run, relative to the folder of the page, so
that a run folder can be moved with its page in it."""

import os
import urllib.parse


class Links:
    def __init__(self, run_dir, base):
        self.root = None
        if run_dir:
            relative = os.path.relpath(os.path.abspath(run_dir), os.path.abspath(base))
            self.root = "" if relative == "." else relative + "/"

    def to(self, *parts):
        """href of a file or folder of the run; "" when the run's folder isn't known."""
        if self.root is None:
            return ""
        path = urllib.parse.quote(self.root + "/".join(str(p) for p in parts), safe="/+=,@~._-")
        return path if path.startswith((".", "/")) else "./" + path
