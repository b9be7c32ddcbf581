/* SPDX-License-Identifier: Apache-2.0 */
/* core/forecast/history.h - what cells cost in earlier runs: rates read from the
 * index.sqlite of every run folder below ./runs (core/engine/index.h).  Reads only;
 * a folder without an index, or with one of another version, is passed over. */
#ifndef JB_FORECAST_HISTORY_H
#define JB_FORECAST_HISTORY_H

#include "core/base/json.h"

typedef struct jb_history jb_history;

/* Open all indexes below `runs` ("runs").  An absent folder is an empty history. */
int jb_history_open(const char *runs, jb_history **out, jb_error *err);
void jb_history_close(jb_history *h); /* NULL allowed */

/* What to look for: cells that ended well, of this method and backend with this
 * model, checked at this shape with the same stages left out. */
typedef struct jb_history_query {
    const char *method, *backend, *model; /* plugins' names; "" for none */
    const char *workload;                 /* its cells if there are some, else all workloads' */
    const char *check_shape, *timed_shape, *skip;
} jb_history_query;

/* The least and the most of a rate among the cells found; -1: no cell has it. */
typedef struct jb_history_rate { double low, high; } jb_history_rate;

typedef struct jb_history_found {
    int64_t runs, cells;
    int same_workload;
    jb_history_rate calls;   /* a sample */
    jb_history_rate input, output; /* tokens a call; of calls whose counts were all reported */
    jb_history_rate compile_s, wall_s; /* a candidate that was evaluated */
} jb_history_found;

int jb_history_find(const jb_history *h, const jb_history_query *q, jb_history_found *out, jb_error *err);

#endif
