# SPDX-License-Identifier: Apache-2.0
"""Is the module that is timed the one that was checked?

Without a TPU nobody executes the timed module.  What ties it to the checked one is
structure: at each gate shape the TPU and the CPU module do the same work and move
the same blocks, and the kernels at the gate shape and at the timed shape are the same
operations and constants with other sizes.  What is not followed is `unproven`; what
differs, and so was not executed, `doubtful`; only a difference that no lowering and no
size makes is a mismatch.  docs/protocol.md has the rules in words.
"""

import math

from . import interpreted, program
from .flops import FLOAT, LOOSE, MATMUL, TRANS, total
from .verdict import DOUBTFUL, MISMATCH, STRUCTURAL, UNPROVEN, Verdict  # noqa: F401

TOLERANCE = 0.05
CHEAP = 0.5       # less than this part of the work that was expected is another computation
LITTLE = 0.45     # of the formula's FLOPs: less than a causal mask leaves
NEAR = 0.85       # of elementwise FLOPs, which a lowering writes one way or another
EXACT = 0.97      # of matrix-product FLOPs, and of what one kernel does at two shapes
SLACK = 1024      # elementwise FLOPs that don't matter: scalars, index arithmetic
WRITTEN_OUT = 40  # elementwise FLOPs by which a platform writes out an erf or a power


def _close(a, b, slack=0.0):
    return abs(a - b) <= TOLERANCE * max(a, b) + slack


def _depends(analysis):
    """Words for work that only data decide about, or ""."""
    for what, column in (("matrix-product", MATMUL), ("elementwise", FLOAT)):
        all_, sure = analysis.taken[column], analysis.sure[column]
        if sure < NEAR * min(all_, analysis.run[column]) - SLACK:
            return "%.0f %% of the %s FLOPs of %s" % (100 * (1 - sure / all_), what, analysis.module.name)
    return ""


def platforms(verdict, shape, tpu, cpu):
    """Compares the two Analysis objects of one gate shape."""
    where = "at shape %s" % shape
    undecided = tpu.loops_undecided or cpu.loops_undecided
    worse = UNPROVEN if undecided else MISMATCH

    def differ(what, a, b, status):
        verdict.say(status, "%s the TPU module does %.6g %s, the CPU module %.6g" % (where, a, what, b))

    for analysis in (tpu, cpu):
        if program.platform_branch(analysis.module):
            verdict.say(MISMATCH, "module %s chooses by platform what it computes" % analysis.module.name)
    narrow = program.narrow_types(tpu.module) - program.narrow_types(cpu.module)
    if narrow:
        verdict.say(MISMATCH, "%s the TPU module computes with %s, the CPU module does not" % (where, sorted(narrow)[0]))
    _data(verdict, where, tpu, cpu)
    if undecided:
        verdict.say(UNPROVEN, "%s %s" % (where, undecided[0]))
    a, b = tpu.taken, cpu.taken
    loose = max(a[LOOSE], b[LOOSE])
    if not _close(a[MATMUL], b[MATMUL]):
        as_sums = _close(a[MATMUL] + a[FLOAT], b[MATMUL] + b[FLOAT])
        differ("matrix-product FLOPs", a[MATMUL], b[MATMUL], UNPROVEN if as_sums or a[MATMUL] > b[MATMUL] else worse)
    if not _close(a[TRANS], b[TRANS], 8 + 2 * loose):  # an erf or a power is none to two of them on the other side
        differ("transcendentals", a[TRANS], b[TRANS], UNPROVEN if a[TRANS] > b[TRANS] else worse)
    written_out = WRITTEN_OUT * loose
    if a[FLOAT] < CHEAP * (b[FLOAT] - written_out) - SLACK:
        differ("elementwise FLOPs", a[FLOAT], b[FLOAT], UNPROVEN if loose else worse)
    elif not NEAR * (b[FLOAT] - written_out) - SLACK <= a[FLOAT] <= b[FLOAT] / NEAR + written_out + SLACK:
        differ("elementwise FLOPs", a[FLOAT], b[FLOAT], UNPROVEN)
    if not tpu.undecided and not cpu.undecided and not _close(tpu.run[MATMUL], cpu.run[MATMUL]):
        cheaper = tpu.run[MATMUL] < cpu.run[MATMUL]
        differ("executed matrix-product FLOPs", tpu.run[MATMUL], cpu.run[MATMUL], MISMATCH if cheaper else UNPROVEN)
    foreign = program.float_constants(tpu.module, tpu.live_kernels) - program.float_constants(cpu.module)
    if foreign:
        verdict.say(DOUBTFUL, "%s the number %.9g is in a kernel of the TPU module and not in the CPU module" % (where, sorted(foreign)[0]))
    _blocks(verdict, where, tpu, cpu)


def _data(verdict, where, tpu, cpu):
    """Predicates that depend on data must be the same on both sides."""
    depends = _depends(tpu)
    if depends and not _depends(cpu):
        verdict.say(MISMATCH, "%s %s depend on data, none of the CPU module's" % (where, depends))
    elif tpu.undecided and not cpu.undecided:
        # The TPU's pipeline inside a kernel (emit_pipeline) keeps its state in memory; data, that is floats, it does not ask.
        floats = any(program.float_control(kernel.body) for kernel in tpu.live_kernels)
        verdict.say(DOUBTFUL if floats else UNPROVEN, "%s in the TPU module %s, in the CPU module nothing does" % (where, tpu.undecided[0]))
    if not tpu.undecided or not cpu.undecided:
        return
    numbers = set(_floats(program.control_constants(cpu.module.entry)))
    for kernel in tpu.live_kernels:
        for number in _floats(program.control_constants(kernel.body)):
            if number not in numbers:
                verdict.say(MISMATCH, "%s a predicate of kernel '%s' compares with %.9g, none of the CPU module does" % (where, kernel.name, number))


def _floats(constants):
    """The floats among constants, without the neutral elements that reductions start from."""
    found = [float(c) for c in constants if c is not None and c.dtype.kind not in "iub"]
    return [c for c in found if math.isfinite(c) and c != 0]


def _blocks(verdict, where, tpu, cpu):
    """Compares what the index maps of the kernels move with what the interpreter's loops slice."""
    loops, kernels = interpreted.loops(cpu), tpu.live_kernels
    if len(loops) != len(kernels):
        verdict.say(UNPROVEN, "%s %d kernels and %d interpreted grids can't be matched" % (where, len(kernels), len(loops)))
        return
    for kernel, op in zip(kernels, loops):
        found = interpreted.difference(kernel, tpu.visits[kernel], op, *cpu.loops[op], _close)
        if found is not None:
            verdict.say(found[0], "%s %s" % (where, found[1]))


def shapes(verdict, gate_name, gate, gate_flops, timed_name, timed, timed_flops):
    """Compares the TPU modules of a gate shape and of the timed shape; `*_flops` are what the workload's formula says, or None."""
    between = "from shape %s to %s" % (gate_name, timed_name)
    same = _program(verdict, between, gate, timed)
    alike = same and all(map(program.same_control, gate.live_kernels, timed.live_kernels))
    depends = _depends(timed)
    if depends and not (alike and _depends(gate)):
        verdict.say(MISMATCH, "%s depend on data under other predicates than at shape %s" % (depends, gate_name))
    _fetched(verdict, between, gate, timed)
    _work(verdict, between, gate, gate_flops, timed, timed_flops, alike)


def _program(verdict, between, gate, timed):
    """Is it the same program?"""
    if not gate.live_kernels or not timed.live_kernels:
        verdict.say(DOUBTFUL, "%s the number of kernels changes from %d to %d" % (between, len(gate.live_kernels), len(timed.live_kernels)))
        return False
    narrow = program.narrow_types(timed.module) - program.narrow_types(gate.module)
    if narrow:
        verdict.say(MISMATCH, "%s values of type %s appear" % (between, sorted(narrow)[0]))
    products = program.product_types(timed.module) - program.product_types(gate.module)
    if products:
        verdict.say(DOUBTFUL, "%s a product of %s and %s that gives %s appears" % (between, *sorted(products)[0]))
    a, b = program.signature(gate.module), program.signature(timed.module)
    if a != b:
        verdict.say(DOUBTFUL, "%s the kernels are other operations (%s), which nothing executed" % (between, program.first_difference(a, b)))
        return False
    other = program.other_constant(gate.module, timed.module)
    if other:
        verdict.say(DOUBTFUL, "%s %s, and no size explains it" % (between, other))
        return False
    return True


def _fetched(verdict, between, gate, timed):
    """Is as large a part of each operand read?"""
    for a, b in zip(gate.live_kernels, timed.live_kernels):
        for number, (x, y) in enumerate(zip(gate.visits[a][:a.inputs], timed.visits[b][:b.inputs])):
            if x is None or y is None or x.ids is None or y.ids is None:
                continue
            before, after = x.part(), y.part()
            if after < EXACT * before:
                verdict.say(DOUBTFUL, "%s the part of input %d that kernel '%s' reads falls from %.3g to %.3g"
                            % (between, number, b.name, before, after))


def _work(verdict, between, gate, gate_flops, timed, timed_flops, alike):
    """Is as much done of what the formula asks for?"""
    decided = not gate.undecided and not timed.undecided
    work_gate, work_timed = (gate.run, timed.run) if decided else (gate.taken, timed.taken)
    products = work_gate[MATMUL] > 0
    if products and not work_timed[MATMUL]:
        verdict.say(MISMATCH, "%s the matrix products are gone" % between)
        return
    if work_gate[TRANS] > 0 and not work_timed[TRANS]:
        verdict.say(MISMATCH, "%s the transcendentals are gone" % between)
        return
    if not gate_flops or not timed_flops:
        verdict.say(UNPROVEN, "%s the formula's FLOPs are not known" % between)
        return
    done_gate = (work_gate[MATMUL] if products else total(work_gate)) / gate_flops
    done_timed = (work_timed[MATMUL] if products else total(work_timed)) / timed_flops
    if done_gate <= 0:
        if done_timed > 0:
            verdict.say(UNPROVEN, "%s work appears that was not checked" % between)
        return
    falls = "%s the work falls from %.3g to %.3g of the formula's FLOPs" % (between, done_gate, done_timed)
    expected = min(done_gate, 1.0) if products else done_gate  # blocks beyond the edge of a small array are more work than the formula's
    if done_timed < CHEAP * done_gate:
        little = done_timed < LITTLE if products else not _padded(gate)
        verdict.say(MISMATCH if little and decided and not alike else DOUBTFUL if done_timed < EXACT * expected and not alike else UNPROVEN, falls)
    elif done_timed < EXACT * expected and not alike:
        verdict.say(DOUBTFUL if products or not _padded(gate) else UNPROVEN, falls)


def _padded(analysis):
    """Does a kernel work on blocks that reach beyond their array, or on a padded array?"""
    for kernel in analysis.live_kernels:
        for number, seen in enumerate(analysis.visits[kernel]):
            if seen is not None and any(d % b for d, b in zip(kernel.array(number).type.dims, seen.bounds)):
                return True
    return any(op.name == "stablehlo.pad" for op in analysis.module.entry.ops)
