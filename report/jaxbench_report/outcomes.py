# SPDX-License-Identifier: Apache-2.0
"""The outcomes in the order in which a candidate meets them, the family that gives
each its colour, and one plain sentence.  Colour is never alone: the letter of the
strips (report.json, `letters`) and the word stand beside it."""

TABLE = (
    # name, family, meaning
    ("ok", "ok", "every stage passed and the headline gate set accepts it"),
    ("no-code", "none", "the reply holds no block that defines the function"),
    ("truncated", "none", "the reply ended inside its code block"),
    ("syntax", "none", "the source is not Python"),
    ("trace-error", "none", "tracing it raised an error"),
    ("contract", "none", "shapes or types of its outputs are not those asked for"),
    ("not-pallas", "odd", "no Pallas kernel does the work"),
    ("suspicious", "odd", "the inspection found something that a kernel has no use for"),
    ("compile-error", "build", "the TPU compiler refused it"),
    ("compile-timeout", "build", "the TPU compiler did not end in time"),
    ("runtime-error", "build", "it failed while it ran"),
    ("timeout", "build", "it did not end in time"),
    ("wrong", "wrong", "it ran, and the headline gate set rejects its numbers"),
    ("inconclusive", "odd", "a check that decides could not be made"),
    ("infra", "out", "our own failure; leaves every denominator"),
    ("skipped", "out", "not judged; leaves every denominator"),
    ("cancelled", "out", "the method ended before it; leaves every denominator"),
    ("running", "out", "not ended yet"),
)

ORDER = {name: i for i, (name, _, _) in enumerate(TABLE)}
FAMILY = {name: family for name, family, _ in TABLE}
MEANING = {name: meaning for name, _, meaning in TABLE}


def ordered(names):
    """Names in the table's order; one that it lacks comes last."""
    return sorted(names, key=lambda n: (ORDER.get(n, len(ORDER)), n))
