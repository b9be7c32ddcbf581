/* SPDX-License-Identifier: Apache-2.0 */
/* harness/checks.h - the gates loop of an executor: create the checkers, run
 * the plan trial by trial, ask every gate that wants a trial, combine verdicts.
 *
 * It knows neither Python nor processes: `execute` and `reference` are
 * callbacks, so tests drive it with arrays of their own.  A checker that returns
 * an error, or a score that is no number >= 0, ends the stage as `infra`, naming
 * it; one that dies is named by what was announced last (jb_checker_watch).  A
 * candidate that can't be executed ends it as the fault the callback reports. */
#ifndef JB_HARNESS_CHECKS_H
#define JB_HARNESS_CHECKS_H

#include "core/options/options.h"
#include "core/registry/registry.h"
#include "harness/host.h"
#include "harness/plan.h"
#include "harness/refs.h"
#include <jaxbench/checker.h>

typedef struct jb_gate {
    const jb_component *component;
    const jb_checker_ops *ops;
    jb_config *config;
    void *self;
    jb_harness_host host;
    const char *plugin; /* id of its plugin, for messages; NULL: unknown */
    uint32_t needs; /* JB_NEED_* */
} jb_gate;

/* Told before each call into a checker, and with NULLs once the call is back: what
 * dies or hangs in between is a checker, not the candidate.  `plugin` is the id
 * of the file it came from, "" when unknown. */
typedef struct jb_checker_watch {
    void (*entering)(void *ctx, const char *checker, const char *plugin, const char *set, const char *call);
    void *ctx;
} jb_checker_watch;

typedef struct jb_gates {
    const jb_plan *plan;
    jb_gate *gate;      /* one a row of the plan */
    jb_checker_watch watch; /* may be empty */
} jb_gates;

/* Create every row's checker and ask what it needs; out->watch is set by the
 * caller.  The error names the checker and its gate set. */
int jb_gates_create(const jb_plan *plan, const jb_registry *registry, jb_gates *out, jb_error *err);
void jb_gates_free(jb_gates *g);
/* Groups (bits of JB_REF_*) that trial `i` must have; inputs always. */
uint32_t jb_gates_groups(const jb_gates *g, uint32_t i);

/* What executing a candidate can end in, beside outputs. */
typedef struct jb_check_fault {
    const char *status;  /* "fail", "infra" */
    const char *outcome; /* "runtime-error", ... */
    char reason[256];
    char *error;         /* jb_alloc'ed, or NULL */
} jb_check_fault;

typedef struct jb_check_source {
    void *ctx;
    /* Outputs of trial `i`; valid until the next call.  0, or nonzero with the fault filled. */
    int (*execute)(void *ctx, uint32_t i, const jb_ref_file *ref, const jb_tensor **outputs, uint32_t *count, jb_check_fault *fault);
    /* The mapped reference file of trial `i`, or NULL (that is `infra`). */
    const jb_ref_file *(*reference)(void *ctx, uint32_t i);
    /* Before each trial; may be NULL. */
    void (*progress)(void *ctx, uint32_t i, uint32_t done, uint32_t total);
    const jb_inspection *inspection; /* NULL: was not made */
    uint32_t slice_axes;
} jb_check_source;

/* {"check":{...},"gates":{...}} (docs/protocol.md).  NULL when memory is out. */
cJSON *jb_checks_run(const jb_gates *g, const jb_check_source *src);

/* Read {"status":"complete",...} of an inspect stage; `detail` points into it. */
void jb_inspection_read(const cJSON *coverage, jb_inspection *out);

#endif
