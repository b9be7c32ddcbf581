/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/tally.h - a run in totals: a fold over its journal, one event at a
 * time, without memory of single operations.  What budgets are held against and
 * what `status` shows.  The engine keeps one as it writes and saves it beside the
 * journal (status.json); a reader takes that and the few lines after it. */
#ifndef JB_ENGINE_TALLY_H
#define JB_ENGINE_TALLY_H

#include "core/base/json.h"
#include "core/engine/journal.h"
#include "core/study/budget.h"
#include "core/study/prices.h"

#define JB_TALLY_OUTCOMES 18u /* JB_OUTCOME_*; 0 unused */

/* A cell and what its backend's tokens cost. */
typedef struct jb_tally_cell {
    const char *key;
    const jb_price *price; /* NULL: unpriced */
} jb_tally_cell;

typedef struct jb_tally {
    const jb_tally_cell *cells; /* sorted by key; borrowed */
    size_t cell_count;
    uint64_t seq;               /* of the last event taken */
    double t, session_t;        /* of it and of the last session, seconds since the epoch */
    int complete;               /* the last event of the run was its end */
    int64_t sessions, cells_begun, cells_ended, cells_failed;
    int64_t candidates, session_candidates; /* judged; of those in the last session */
    int64_t outcomes[JB_TALLY_OUTCOMES];
    int64_t calls_failed, unpriced, unreported;
    int64_t tokens[JB_TOKEN_KINDS];
    jb_amounts spent;           /* calls without counts or price at the bound that was reserved for them */
    int64_t wall_before_ms;     /* of earlier sessions; spent.of[JB_UNIT_WALL] includes it */
} jb_tally;

/* `cells` is sorted in place. */
void jb_tally_init(jb_tally *t, jb_tally_cell *cells, size_t count);
/* `event` holds the line's fields, or what follows seq, t and kind; NULL: nothing. */
void jb_tally_take(jb_tally *t, const char *kind, const cJSON *event, uint64_t seq, double at);
/* Visitor of a journal; ctx is the tally. */
int jb_tally_visit(void *ctx, const cJSON *event, jb_span span, jb_error *err);

cJSON *jb_tally_json(const jb_tally *t);             /* NULL without memory */
int jb_tally_read(const cJSON *o, jb_tally *t);      /* into an initialised one; JB_EPARSE */

/* What an ended call without counts is charged: written by the engine, read here. */
int jb_tally_put_bound(cJSON *event, const jb_amounts *bound);

#endif
