/* SPDX-License-Identifier: Apache-2.0 */
/* core/forecast/forecast.h - what a study will take, before it is run: every number an
 * interval with the words of what it rests on.  Opens no network, starts no worker,
 * runs no plugin; what nobody can know stays unknown. */
#ifndef JB_FORECAST_H
#define JB_FORECAST_H

#include "core/forecast/history.h"
#include "core/study/study.h"

#define JB_EST_SAMPLES 0u
#define JB_EST_CALLS 1u
#define JB_EST_INPUT 2u      /* tokens, cached ones included */
#define JB_EST_OUTPUT 3u     /* tokens, reasoning included */
#define JB_EST_USD 4u
#define JB_EST_COMPILE_S 5u
#define JB_EST_WALL_S 6u     /* evaluations only, with the study's slots */
#define JB_ESTIMATES 7u

typedef struct jb_estimate {
    double low, high; /* -1: not known */
    char basis[112];
} jb_estimate;

typedef struct jb_cell_estimate { jb_estimate of[JB_ESTIMATES]; } jb_cell_estimate;

typedef struct jb_forecast {
    jb_cell_estimate *cells; /* one a cell of the study */
    size_t cell_count;
    jb_cell_estimate total;
} jb_forecast;

const char *jb_estimate_key(unsigned what); /* "samples", "calls", "input_tokens", ... */
/* `history` is the folder of earlier runs. */
int jb_forecast_make(const jb_study *s, const char *history, jb_forecast **out, jb_error *err);
void jb_forecast_free(jb_forecast *p); /* NULL allowed */
/* A budget beside the total: "fits", "may be reached", "is reached" or "unknown"; NULL: there is none. */
const char *jb_forecast_verdict(const jb_forecast *p, const jb_study *s, unsigned unit);

#endif
