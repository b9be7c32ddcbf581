/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/checker.h - kind jb.checker/1: what counts as correct.
 *
 * A gate is one checker with options.  It runs inside the executor process, on
 * the runtime's own buffers.  Every gate yields a *score* >= 0 that passes iff
 * score <= threshold, so that one calibration serves all gates.
 *
 *     create -> needs -> trial* -> verdict -> destroy
 *
 * Life of a gate on one candidate: the host asks `needs`, draws the inputs and
 * references, executes the candidate, and calls `trial` once for every
 * (shape, distribution, draw) of the gate's `over:` map; `verdict` sums up.
 * A checker that only needs the static inspection gets no trials.
 */
#ifndef JAXBENCH_CHECKER_H
#define JAXBENCH_CHECKER_H

#include <jaxbench/plugin.h>
#include <jaxbench/tensor.h>

/* What a checker asks for (jb_checker_needs.flags). */
#define JB_NEED_R_JIT 1u      /* the workload, compiled */
#define JB_NEED_R_OP 2u       /* the workload, operator by operator: every boundary rounded */
#define JB_NEED_H 4u          /* the traced graph with every float widened to fp64 */
#define JB_NEED_INPUTS 8u     /* the input arrays */
#define JB_NEED_INSPECTION 16u/* jb_inspection in verdict; no trials when alone */

typedef struct jb_checker_needs {
    uint32_t struct_size;
    uint32_t flags; /* JB_NEED_* */
} jb_checker_needs;

/* Which trial this is.  Views live until the call returns. */
typedef struct jb_trial_id {
    uint32_t struct_size;
    uint32_t draw;        /* ordinal, from 0 */
    const char *shape;        /* "gate", "ragged", "tiny", ... */
    const char *distribution; /* "own", "outlier", "tiny", ... or "published" */
} jb_trial_id;

/* The arrays of one trial.  `outputs` are the candidate's flattened results;
 * r_jit, r_op and h have `reference_count` entries each, or are NULL when not
 * asked for.  The counts may differ: shape_dtype judges that, others must not
 * read past either.  h is float64 for float outputs and has the reference's
 * own dtype otherwise.  `slice` is the number of trailing axes that form one
 * slice (gates.md: usually 1, the last axis).  Lives until the call returns. */
typedef struct jb_trial {
    uint32_t struct_size;
    uint32_t output_count, reference_count, input_count;
    jb_trial_id id;
    const jb_tensor *outputs;
    const jb_tensor *r_jit, *r_op, *h;
    const jb_tensor *inputs;
    uint32_t slice_axes;
    uint32_t reserved;
} jb_trial;

#define JB_WORST_MAX 5

/* One of the worst elements: where, and both values. */
typedef struct jb_worst {
    uint32_t output;  /* which output */
    uint32_t rank;    /* entries of index in use */
    int64_t index[JB_MAX_RANK];
    double reference; /* h, or r for checkers that compare with r */
    double candidate;
} jb_worst;

#define JB_TRIAL_PASS 1u
#define JB_TRIAL_FAIL 2u
#define JB_TRIAL_UNINFORMATIVE 3u /* these inputs can't judge any kernel; the trial is dropped */
#define JB_TRIAL_UNSUPPORTED 4u   /* the checker can't judge this candidate or dtype */

/* Result of one trial, written by the checker into the host's struct. */
typedef struct jb_trial_result {
    uint32_t struct_size;
    uint32_t status;    /* JB_TRIAL_* */
    double score;       /* >= 0, may be +inf; pass iff score <= threshold */
    double threshold;
    char part[32];      /* which partial score decided: "max", "rms", "row", "nan", ... */
    char reason[192];   /* one line for a person; may be empty on pass */
    uint32_t worst_count;
    uint32_t reserved;
    jb_worst worst[JB_WORST_MAX];
} jb_trial_result;

/* What the static inspection of the timed module found (see docs/protocol.md,
 * "inspection").  Counts are over all kernels of the module. */
#define JB_COVERAGE_COMPLETE 1u
#define JB_COVERAGE_INCOMPLETE 2u
#define JB_COVERAGE_UNKNOWN 3u
typedef struct jb_inspection {
    uint32_t struct_size;
    uint32_t coverage;       /* JB_COVERAGE_* */
    uint64_t blocks;         /* output blocks that must be written */
    uint64_t blocks_missed;  /* never reached by the output's index map */
    uint64_t blocks_revisited; /* visited in more than one run of grid steps */
    uint64_t input_blocks_unread; /* input blocks that must be read and are not */
    const char *detail;      /* one line, e.g. "output 0: block (3,) of (4,) never written" */
} jb_inspection;

#define JB_VERDICT_PASS 1u
#define JB_VERDICT_FAIL 2u
#define JB_VERDICT_INCONCLUSIVE 3u

typedef struct jb_verdict {
    uint32_t struct_size;
    uint32_t verdict;  /* JB_VERDICT_* */
    double score, threshold;
    char reason[192];
} jb_verdict;

typedef struct jb_checker_ops {
    uint32_t struct_size;
    uint32_t reserved;
    /* `config` is filled from the option table and outlives the instance.
     * On failure *out is untouched.  [main] */
    int (*create)(const jb_host *host, const void *config, void **out, jb_error *err);
    void (*destroy)(void *self); /* NULL is allowed */
    int (*needs)(void *self, jb_checker_needs *out, jb_error *err);
    /* Judge one trial.  An error return, a score that is NaN or below 0, a crash
     * or a hang means the checker broke (outcome infra, by name), never that the
     * candidate is wrong.  [instance] */
    int (*trial)(void *self, const jb_trial *trial, jb_trial_result *out, jb_error *err);
    /* Optional.  NULL: the host combines the trials (fail if one fails,
     * inconclusive if none informative is left, else pass).  `inspection` is
     * NULL unless asked for.  [instance] */
    int (*verdict)(void *self, const jb_inspection *inspection, jb_verdict *out, jb_error *err);
} jb_checker_ops;

#endif
