# SPDX-License-Identifier: Apache-2.0
"""python -I jaxbench_report/__main__.py html|md [--base DIR] < report.json > page"""

import argparse
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))  # -I leaves it out

from jaxbench_report import page  # noqa: E402


def main(argv=None, stdin=None, stdout=None):
    """Exit code: 0, or 2 when the document is none of ours."""
    parser = argparse.ArgumentParser(prog="jaxbench_report", description=__doc__)
    parser.add_argument("form", choices=("html", "md"))
    parser.add_argument("--base", default=".", help="folder the page will lie in; links are relative to it")
    options = parser.parse_args(argv)
    try:
        document = json.loads((stdin or sys.stdin.buffer).read())
        text = page.render(document, options.form, pathlib.Path(options.base))
    except page.NotAReport as error:
        print("jaxbench_report: %s" % error, file=sys.stderr)
        return 2
    (stdout or sys.stdout.buffer).write(text.encode("utf-8"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
