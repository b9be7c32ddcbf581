/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/progress.h - what a person sees of a run: one line a candidate
 * and, on a terminal, one live line below with an ETA.  Every text that may come
 * from a candidate is escaped. */
#ifndef JB_ENGINE_PROGRESS_H
#define JB_ENGINE_PROGRESS_H

#include <jaxbench/abi.h>
#include <stdio.h>

typedef struct jb_progress jb_progress;

/* `total`: candidates to expect, -1 unknown.  `live`: the stream is a terminal.
 * NULL when memory is out; every function accepts NULL and does nothing. */
jb_progress *jb_progress_new(FILE *stream, int live, int64_t total);
void jb_progress_free(jb_progress *p); /* clears the live line */
/* One candidate ended: "[ 3/48] 8p/iid/scripted s0 #2 wrong (reason)". */
void jb_progress_candidate(jb_progress *p, const char *label, uint64_t ordinal, const char *outcome, const char *reason, int duplicate);
/* Candidates that the journal already knew: counted, not printed. */
void jb_progress_replayed(jb_progress *p, int64_t count);
/* A line of its own: warnings, the end of a cell. */
void jb_progress_note(jb_progress *p, const char *text);
/* What the live line says was spent, "$3.12 of $20.00"; copied; "" for nothing. */
void jb_progress_spent(jb_progress *p, const char *text);
/* Redraw the live line; `active` jobs run, `waiting` are queued. */
void jb_progress_tick(jb_progress *p, size_t active, size_t waiting);

#endif
