# SPDX-License-Identifier: Apache-2.0
"""The error ratio of a candidate in NumPy, written from its definition and apart
from the checker plugin: what these tests judge kernels and draws with.

With e = x - h for h in fp64, u the unit roundoff of the output's dtype, slices along the last axes (`slice_axes` of
them; a scalar is one), and for the reference the worse of r_jit and r_op in each denominator:
  max  max|e_c| / (max|e_r| + u/2 max|h|)
  rms  rms(e_c) / (rms(e_r) + u/4 rms(h))
  row  max_i rms_i(e_c) / (max(rms_i(e_r), median_j rms_j(e_r)) + u/4 max(rms_i(h), 1e-3 rms(h)))
"""
import numpy as np

U = {"bfloat16": 2.0 ** -8, "float32": 2.0 ** -24}
LIMITS = {"max": 1.25, "rms": 1.10, "row": 1.75}


def _rms(x, axis=None):
    return np.sqrt(np.mean(np.square(x), axis=axis))


class Yardstick:
    """What the references leave of each score: its denominator.  Arrays of one output, whose last `slice_axes` axes are a slice."""

    def __init__(self, r_jit, r_op, h, slice_axes=1):
        self.h = h.reshape(-1, int(np.prod(h.shape[-slice_axes:])))
        u = U[str(r_jit.dtype)]
        wrong = [r.astype(np.float64).reshape(self.h.shape) - self.h for r in (r_jit, r_op)]
        rows = np.max([np.maximum(_rms(w, 1), np.median(_rms(w, 1))) for w in wrong], axis=0)
        noise, size = max(_rms(w) for w in wrong), _rms(self.h)
        self.max = max(np.max(np.abs(w)) for w in wrong) + u / 2 * np.max(np.abs(self.h))
        self.rms = noise + u / 4 * size
        self.row = rows + u / 4 * np.maximum(_rms(self.h, 1), 1e-3 * size)
        self.noise = noise / size
        self.finite = bool(np.isfinite(self.h).all())

    def score(self, candidate):
        """{"max", "rms", "row"}, and "yardstick": the reference's error over h; inf where finiteness differs."""
        c = candidate.astype(np.float64).reshape(self.h.shape)
        if not self.finite or not np.isfinite(c).all():
            return {"max": np.inf, "rms": np.inf, "row": np.inf, "yardstick": self.noise}
        error = c - self.h
        rows = _rms(error, 1)
        return {"max": np.max(np.abs(error)) / self.max, "rms": _rms(rows) / self.rms, "row": np.max(rows / self.row),
                "yardstick": self.noise}


def passes(score):
    return all(score[part] <= limit for part, limit in LIMITS.items())
