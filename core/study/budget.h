/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/budget.h - the units in which a run may be bounded, and how people
 * write and read amounts of them.
 *
 * A budget of these units bounds the *run*: reaching one stops new work and pauses
 * every cell where it stands, and no method ever sees it, so that `resume` with
 * more goes on as if nothing had been.  `samples_per_cell` is no such unit: it is
 * part of what a cell is (study.h).  Accounting is core/engine/tally.h's. */
#ifndef JB_STUDY_BUDGET_H
#define JB_STUDY_BUDGET_H

#include <jaxbench/abi.h>

#define JB_UNIT_USD 0u     /* pico-dollars: whole numbers, so that sums are exact in any order */
#define JB_UNIT_TOKENS 1u  /* of all five kinds */
#define JB_UNIT_CALLS 2u   /* of backends, failed ones included */
#define JB_UNIT_COMPILE 3u /* milliseconds of compiling */
#define JB_UNIT_WALL 4u    /* milliseconds of the run, all its sessions together */
#define JB_UNITS 5u

#define JB_PICO INT64_C(1000000000000) /* of a dollar */

/* An amount of each unit. */
typedef struct jb_amounts { int64_t of[JB_UNITS]; } jb_amounts;
#define JB_NO_BUDGET { { -1, -1, -1, -1, -1 } } /* -1: no limit */

const char *jb_unit_key(unsigned unit); /* the study's key: "usd", "tokens", "calls", "compile_s", "wall" */
/* What a budget of the unit must look like, for messages: "dollars above 0 such as 5 or 0.25". */
const char *jb_unit_form(unsigned unit);
/* "5", "2M", "300", "90" or "10m", "6h".  Nonzero when malformed, not above 0 or too large. */
int jb_unit_read(unsigned unit, const char *text, int64_t *out);
/* For people: "$3.12", "2000000 tokens", "12.4 s".  Returns buf. */
char *jb_unit_text(char *buf, size_t n, unsigned unit, int64_t amount);

/* A --budget flag ("5usd", "2Mtokens", "300calls", "12samples", "30m", or KEY=VALUE
 * with a key of the study's `budget`) as the --set that means the same
 * ("budget.usd=5"), malloc'ed.  JB_EINVAL. */
int jb_budget_flag(const char *flag, char **set_out, jb_error *err);

#endif
