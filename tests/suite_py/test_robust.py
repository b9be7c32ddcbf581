# SPDX-License-Identifier: Apache-2.0
"""What the distributions of `robust` are for: each wrong kernel, made from the
plain one by changing a line, is above a limit of the error ratio at the gate
shape under the distribution named here, with the loop's own draw.

Where a fault is seen under one distribution only, the test says so too, and
fails when that stops being true: then workload.yaml's reasons are out of date.
"""
import unittest

from tests.suite_py import kernels, score

# A bf16 accumulator, in the kernels that sum in a scratch named sum_ref.
ROUNDED_PRODUCT = ("preferred_element_type=jnp.float32)", "preferred_element_type=jnp.float32).astype(jnp.bfloat16)")
GEMM_BF16 = (("pltpu.VMEM((bm, bn), jnp.float32)", "pltpu.VMEM((bm, bn), jnp.bfloat16)"), ROUNDED_PRODUCT)
SOFTMAX_BF16 = (("pltpu.VMEM((bm, n), jnp.float32)", "pltpu.VMEM((bm, n), jnp.bfloat16)"), ROUNDED_PRODUCT,
                ("sum_ref[...] + bias", "sum_ref[...].astype(jnp.float32) + bias"))
HIDDEN = "jax.nn.silu(gate) * up"
OUT_BF16 = (("pltpu.VMEM((rows, emb), jnp.float32)", "pltpu.VMEM((rows, emb), jnp.bfloat16)"),
            ("down_ref[...], preferred_element_type=jnp.float32)", "down_ref[...], preferred_element_type=jnp.float32).astype(jnp.bfloat16)"))
NO_MAX_13P = (("jnp.maximum(max_ref[...], jnp.max(logits, axis=-1, keepdims=True))", "jnp.zeros_like(max_ref[...])"),
              ("jnp.full_like(max_ref, NOTHING)", "jnp.zeros_like(max_ref)"))
LOSS = "max_ref[...] + jnp.log(norm_ref[...]) - picked_ref[...]"
CLIPPED_BF16 = GEMM_BF16 + (("sum_ref[...] + bias", "sum_ref[...].astype(jnp.float32) + bias"),)
NORMED_BF16 = (("pltpu.VMEM((n, bm), jnp.float32)", "pltpu.VMEM((n, bm), jnp.bfloat16)"), ROUNDED_PRODUCT,
               ("sum_ref[at, :] + wide", "sum_ref[at, :].astype(jnp.float32) + wide"))
EPS = "lax.rsqrt(mean_square + EPSILON)"
EPS_40K = "lax.rsqrt(jnp.mean(off * off, axis=1, keepdims=True) + EPSILON)"
MASK = "jnp.where(col <= row, logits, MASKED)"
GELU = "_gelu(sum_ref"
GELU_35K = "_gelu(jnp.clip"
GROUPS = (("h.reshape(-1, GROUP, h.shape[1])", "jnp.swapaxes(h.reshape(GROUP, -1, h.shape[1]), 0, 1)"),
          ("normed.reshape(h.shape)", "jnp.swapaxes(normed, 0, 1).reshape(h.shape)"))
NO_MAX_1P = (("new_max = jnp.maximum(max_ref[...], jnp.max(logits, axis=-1, keepdims=True))", "new_max = jnp.zeros_like(max_ref[...])"),
             ("jnp.full_like(max_ref, MASKED)", "jnp.zeros_like(max_ref)"))
NO_MAX_50K = (("y - jnp.max(y, axis=-1, keepdims=True)", "y"),)

# (workload, fault, killers, changes)
WRONG = [
    ("8p", "bf16 accumulator, 2048-blocks", ("own", "tiny"), GEMM_BF16),
    ("8p", "bf16 accumulator, 512-blocks", ("own",), GEMM_BF16 + (("2048, 128", "512, 128"),)),
    ("8p", "last block of K left out", ("own",), (("k // bk)", "k // bk - 1)"),)),
    ("8p", "sum begins at 1", ("own",), (("jnp.zeros_like(sum_ref)", "jnp.ones_like(sum_ref)"),)),
    ("8p", "1 % too large", ("own",), (("sum_ref[...].astype(c_ref", "(sum_ref[...] * 1.01).astype(c_ref"),)),
    ("9p", "sigmoid as exp / (1 + exp)", ("outlier",), ((HIDDEN, "gate * (jnp.exp(gate) / (1 + jnp.exp(gate))) * up"),)),
    ("9p", "silu of the other product", ("own",), ((HIDDEN, "gate * jax.nn.silu(up)"),)),
    ("9p", "quick form of GELU", ("own",), ((HIDDEN, "gate * jax.nn.sigmoid(1.702 * gate) * up"),)),
    ("9p", "bf16 accumulator", ("own",), OUT_BF16),
    ("9p", "last panel left out", ("own",), (("hidden // panel)", "hidden // panel - 1)"),)),
    ("12p", "eps 1e-3", ("tiny",), (("1e-5", "1e-3"),)),
    ("12p", "eps 1e-6", ("tiny",), (("1e-5", "1e-6"),)),
    ("12p", "no eps", ("tiny",), (("1e-5", "0.0"),)),
    ("12p", "eps outside the root", ("tiny",), ((EPS, "(1 / (jnp.sqrt(mean_square) + EPSILON))"),)),
    ("12p", "no scale", ("own",), ((" * scale_ref[...].astype(jnp.float32)", ""),)),
    ("12p", "1 + scale", ("own",), (("scale_ref[...].astype", "1 + scale_ref[...].astype"), ("* 1 +", "* (1 +"), ("jnp.float32)\n    y_ref", "jnp.float32))\n    y_ref"))),
    ("12p", "mean removed", ("own",), (("x_ref[...].astype(jnp.float32)", "x_ref[...].astype(jnp.float32); x = x - jnp.mean(x, axis=-1, keepdims=True)"),)),
    ("12p", "not normalised", ("own",), ((" * " + EPS, ""),)),
    ("13p", "maximum not subtracted", ("outlier",), NO_MAX_13P),
    ("13p", "part panel of words left out", ("own", "outlier", "tiny"), (("pl.cdiv(vocabulary, panel)", "vocabulary // panel"),)),
    ("13p", "padding not masked", ("own",), (("logits = jnp.where(word < vocabulary, logits, NOTHING)", "pass"),)),
    ("13p", "labels one up", ("own", "outlier"), (("word == label_ref[...]", "word == label_ref[...] + 1"),)),
    ("13p", "label's logit not subtracted", ("own", "outlier"), ((" - picked_ref[...]", ""),)),
    ("13p", "sum not rescaled", ("own", "outlier"), (("norm_ref[...] * jnp.exp(max_ref[...] - new_max) +", "norm_ref[...] +"),)),
    ("13p", "half of the tokens", ("own", "outlier"), (("jnp.mean(losses)", "jnp.mean(losses[:64])"),)),
    ("13p", "1 % too large", ("own", "outlier", "tiny"), ((LOSS, f"1.01 * ({LOSS})"),)),
    ("13p", "the constant of the published draw", ("own", "outlier", "tiny"), ((LOSS, "jnp.full_like(loss_ref, 8.583)"),)),
    ("35k", "bf16 accumulator", ("own", "outlier"), CLIPPED_BF16 + (("2048, 128", "512, 128"),)),
    ("35k", "last block of K left out", ("own",), (("k // bk)", "k // bk - 1)"),)),
    ("35k", "no bias", ("own", "tiny"), ((" + bias_ref[...].astype(jnp.float32)", ""),)),
    ("35k", "bias after the scale", ("own", "tiny"), (("(sum_ref[...] + bias_ref[...].astype(jnp.float32)) * SCALE", "sum_ref[...] * SCALE + bias_ref[...].astype(jnp.float32)"),)),
    ("35k", "not scaled", ("own",), (("SCALE, LOW, HIGH = 0.5", "SCALE, LOW, HIGH = 1.0"),)),
    ("35k", "clipped before the scale", ("own",), ((" * SCALE", ""), ("_gelu(jnp.clip(y, LOW, HIGH))", "_gelu(jnp.clip(y, LOW, HIGH) * SCALE)"))),
    ("35k", "not clipped", ("own",), (("jnp.clip(y, LOW, HIGH)", "y"),)),
    ("35k", "clipped to [-1, 1]", ("own",), (("-2.0, 2.0", "-1.0, 1.0"),)),
    ("35k", "clipped after GELU", ("own",), (("_gelu(jnp.clip(y, LOW, HIGH))", "jnp.clip(_gelu(y), LOW, HIGH)"),)),
    ("35k", "no GELU", ("own",), ((GELU_35K, "(jnp.clip"),)),
    ("35k", "relu", ("own",), ((GELU_35K, "jax.nn.relu(jnp.clip"),)),
    ("35k", "silu", ("own",), ((GELU_35K, "jax.nn.silu(jnp.clip"),)),
    ("35k", "quick form of GELU", ("own",), ((GELU_35K, "(lambda y: y * jax.nn.sigmoid(1.702 * y))(jnp.clip"),)),
    ("35k", "zeros", ("own", "outlier", "tiny"), ((GELU_35K, "0 * _gelu(jnp.clip"),)),
    ("40k", "bf16 accumulator, 128-blocks", ("own",), NORMED_BF16 + (("k, 256, 128", "k, 128, 128"),)),
    ("40k", "last block of K left out", ("own",), (("k // bk)", "k // bk - 1)"),)),
    ("40k", "last features left out of the minimum", ("own",), (("// chunk, step", "// chunk - 1, step"),)),
    ("40k", "no linear bias", ("own", "tiny"), ((" + wide(linear_bias_ref)", ""),)),
    ("40k", "no weight of the norm", ("own",), ((" * wide(gn_weight_ref)", ""),)),
    ("40k", "no bias of the norm", ("own",), ((" + wide(gn_bias_ref)", ""),)),
    ("40k", "no bias", ("own",), (("least + bias_ref[...].astype(jnp.float32)", "jnp.broadcast_to(least, out_ref.shape)"),)),
    ("40k", "maximum", ("own",), (("jnp.minimum(", "jnp.maximum("), ("jnp.min(", "jnp.max("), ("jnp.inf", "-jnp.inf"))),
    ("40k", "groups of 32", ("own",), (("GROUP = 16", "GROUP = 32"),)),
    ("40k", "groups of neighbours mistaken for strides", ("own",), GROUPS),
    ("40k", "mean not removed", ("own",), (("groups - jnp.mean(groups, axis=1, keepdims=True)", "groups"),)),
    ("40k", "variance divided by 15", ("own",), (("jnp.mean(off * off, axis=1, keepdims=True)", "(jnp.sum(off * off, axis=1, keepdims=True) / 15)"),)),
    ("40k", "eps 1e-3", ("tiny",), (("1e-5", "1e-3"),)),
    ("40k", "eps 1e-4", ("tiny",), (("1e-5", "1e-4"),)),
    ("40k", "no eps", ("tiny",), (("1e-5", "0.0"),)),
    ("40k", "eps outside the root", ("tiny",), ((EPS_40K, "(1 / (jnp.sqrt(jnp.mean(off * off, axis=1, keepdims=True)) + EPSILON))"),)),
    ("40k", "zeros", ("own", "outlier", "tiny"), (("(least + bias_ref[...].astype(jnp.float32))", "(0 * (least + bias_ref[...].astype(jnp.float32)))"),)),
    ("50k", "maximum not subtracted", ("outlier",), NO_MAX_50K),
    ("50k", "no bias", ("own",), ((" + bias_ref[...].astype(jnp.float32)", ""),)),
    ("50k", "no GELU", ("own",), ((GELU, "(sum_ref"),)),
    ("50k", "relu", ("own",), ((GELU, "jax.nn.relu(sum_ref"),)),
    ("50k", "silu", ("own",), ((GELU, "jax.nn.silu(sum_ref"),)),
    ("50k", "quick form of GELU", ("own",), ((GELU, "(lambda y: y * jax.nn.sigmoid(1.702 * y))(sum_ref"),)),
    ("50k", "bf16 accumulator", ("outlier",), SOFTMAX_BF16),
    ("50k", "last block of K left out", ("own",), (("k // bk)", "k // bk - 1)"),)),
    ("50k", "1/N everywhere", ("own",), (("e = jnp.exp(y - jnp.max(y, axis=-1, keepdims=True))", "e = jnp.ones_like(y)"),)),
    ("50k", "zeros", ("own", "outlier", "tiny"), (("(e / jnp.sum(e, axis=-1, keepdims=True))", "(0 * e)"),)),
    ("1p", "maximum not subtracted", ("outlier",), NO_MAX_1P),
    ("1p", "no mask", ("own",), ((MASK, "logits"), ("j * cols < (i + 1) * rows", "j >= 0"))),
    ("1p", "mask of whole blocks", ("own",), ((MASK, "logits"),)),
    ("1p", "mask without the diagonal", ("own",), (("col <= row", "(col < row) | (row + col == 0)"),)),
    ("1p", "mask one position late", ("own",), (("col <= row", "col <= row + 1"),)),
    ("1p", "mask of -30", ("outlier",), (("MASKED = -1e30", "MASKED = -30.0"),)),
    ("1p", "logits not scaled", ("own",), (("scale=width ** -0.5", "scale=1.0"),)),
    ("1p", "scale 1/D", ("own",), (("scale=width ** -0.5", "scale=1.0 / width"),)),
    ("1p", "sum not rescaled", ("own",), (("sum_ref[...] * shrink +", "sum_ref[...] +"),)),
]
# Seen under no other distribution of the loop: what that distribution is in `robust` for.
ONLY = {("9p", "sigmoid as exp / (1 + exp)"), ("13p", "maximum not subtracted"), ("12p", "eps 1e-3"), ("12p", "eps 1e-6"), ("12p", "no eps"), ("12p", "eps outside the root"),
        ("40k", "eps 1e-3"), ("40k", "eps 1e-4"), ("40k", "no eps"), ("40k", "eps outside the root"),
        ("50k", "maximum not subtracted"), ("1p", "maximum not subtracted"), ("1p", "mask of -30")}

# Another way to the same result, within bf16: a fair gate takes them.
RIGHT = [
    ("8p", "K in 512-blocks", (("2048, 128", "512, 128"),)),
    ("8p", "K in one block", (("2048, 128", "8192, 128"),)),
    ("9p", "silu in fp32", ((HIDDEN, "(jax.nn.silu(gate.astype(jnp.float32)) * up.astype(jnp.float32)).astype(up.dtype)"),)),
    ("9p", "128-panels", (("256, 128)", "128, 128)"),)),
    ("12p", "rounded before the scale", ((" * scale_ref[...]", ").astype(jnp.bfloat16).astype(jnp.float32) * scale_ref[...]"), ("y = x * lax", "y = (x * lax"))),
    ("12p", "division by a root", ((EPS, "(1 / jnp.sqrt(mean_square + EPSILON))"),)),
    ("13p", "256-panels", (("min(1024", "min(256"),)),
    ("13p", "weights in bf16", (("jnp.exp(logits - new_max)", "jnp.exp(logits - new_max).astype(jnp.bfloat16).astype(jnp.float32)"),)),
    ("35k", "K in 512-blocks", (("2048, 128", "512, 128"),)),
    ("35k", "erf form of GELU", ((GELU_35K, "(lambda y: jax.nn.gelu(y, approximate=False))(jnp.clip"),)),
    ("35k", "rounded before the bias", (("(sum_ref[...] + bias", "(sum_ref[...].astype(jnp.bfloat16).astype(jnp.float32) + bias"),)),
    ("40k", "K in 1024-blocks", (("k, 256, 128", "k, 1024, 128"),)),
    ("40k", "variance in one pass", ((EPS_40K, "lax.rsqrt(jnp.mean(groups * groups, axis=1, keepdims=True) - jnp.mean(groups, axis=1, keepdims=True) ** 2 + EPSILON)"),)),
    ("40k", "minimum rounded before the bias", (("(least + bias", "(least.astype(jnp.bfloat16).astype(jnp.float32) + bias"),)),
    ("50k", "erf form of GELU", ((GELU, "(lambda y: jax.nn.gelu(y, approximate=False))(sum_ref"),)),
    ("50k", "K in 1024-blocks", (("k, 512, 128", "k, 1024, 128"),)),
    ("50k", "reciprocal", (("e / jnp.sum(e, axis=-1, keepdims=True)", "e * (1 / jnp.sum(e, axis=-1, keepdims=True))"),)),
    ("1p", "256-blocks", (("seq, 512, 8", "seq, 256, 8"),)),
    ("1p", "weights in fp32", (("weights.astype(v.dtype), v,", "weights, v.astype(jnp.float32),"),)),
    ("1p", "mask of -1e9", (("MASKED = -1e30", "MASKED = -1e9"),)),
    ("1p", "exp2", (("scale=width ** -0.5", "scale=width ** -0.5 * 1.4426950408889634"), ("jnp.exp(", "jnp.exp2("))),
]


class Robust(unittest.TestCase):
    def test_wrong_kernels_are_above_a_limit(self):
        for ident, fault, killers, changes in WRONG:
            for distribution in killers:
                with self.subTest(workload=ident, fault=fault, distribution=distribution):
                    ratio = kernels.ratio(ident, "gate", distribution, changes=changes)
                    self.assertFalse(score.passes(ratio), ratio)

    def test_the_only_distribution_that_sees_a_fault(self):
        for ident, fault, killers, changes in WRONG:
            if (ident, fault) not in ONLY:
                continue
            for distribution in sorted({"own", "outlier", "tiny"} - set(killers)):
                with self.subTest(workload=ident, fault=fault, distribution=distribution):
                    ratio = kernels.ratio(ident, "gate", distribution, changes=changes)
                    self.assertTrue(score.passes(ratio), ratio)

    def test_other_right_kernels_are_within_the_limits(self):
        for ident, what, changes in RIGHT:
            for distribution in ("own", "outlier"):
                with self.subTest(workload=ident, what=what, distribution=distribution):
                    ratio = kernels.ratio(ident, "gate", distribution, changes=changes)
                    self.assertTrue(score.passes(ratio), ratio)


if __name__ == "__main__":
    unittest.main()
