# SPDX-License-Identifier: Apache-2.0
"""One page, or a Markdown summary, from the report.json of jaxbench runs.

    stdin: report.json --> view (numbers and words) --> templates --> stdout
                             |      |
                        run folder  charts (Altair, vl-convert: SVG)

It computes no result: counts, rates and intervals are those of the document.  It
reads a run's folder for bodies (prompts, replies, sources, records) and writes
nothing.  Whatever a candidate wrote is text here, never markup."""
