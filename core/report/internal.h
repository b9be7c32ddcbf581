/* SPDX-License-Identifier: Apache-2.0 */
/* core/report/internal.h - the parts of report.json that have a file of their own.
 * Each adds to an object that model.c has made; 0 or JB_ENOMEM. */
#ifndef JB_REPORT_INTERNAL_H
#define JB_REPORT_INTERNAL_H

#include "core/report/report.h"

/* One row a candidate, in order: "candidates":[{"id","outcome",...}].  Bodies are
 * not in it, only their hashes. */
int jb_report_put_candidates(cJSON *cell, const jb_records *r, const jb_rec_cell *c);

/* What a method and backend (those of cells[pair]) reach with how many samples, and
 * how fast: "at_samples" and "speed".  The kernel that counts as fast is the cell's
 * best; see jb_report_best. */
int jb_report_put_reach(cJSON *method, const jb_records *r, size_t pair);

/* The candidate that stands for the cell: ok, and through the final rows when the
 * study has any (then the one they were run on), else the first.  NULL: none. */
const jb_rec_candidate *jb_report_best(const jb_rec_cell *c);
/* It exists and, where the study has final rows, passed them. */
int jb_report_solved(const jb_records *r, const jb_rec_cell *c);
int jb_report_same_pair(const jb_rec_cell *a, const jb_rec_cell *b);

#endif
