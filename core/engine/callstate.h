/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/callstate.h - what calls.c (sending) and callend.c (what an end
 * means) share, and nobody else. */
#ifndef JB_ENGINE_CALLSTATE_H
#define JB_ENGINE_CALLSTATE_H

#include "core/engine/calls.h"
#include "core/http/secret.h"

/* One backend of the study. */
typedef struct jb_gate {
    const jb_component *component;
    const jb_call_limits *limits; /* of the plan, identity only */
    const cJSON *options;
    const char *name;
    jb_call_limits rules;
    jb_rate rate;
    jb_rng_key jitter;
    const char *key;   /* NULL: none is sent */
    int key_known, warned;
    int answered;      /* a call has succeeded, now or in an earlier session */
    int64_t next_ms;   /* nothing may start before; INT64_MAX: before one ends */
    int64_t told_ms;   /* when a person was last told of a retry */
} jb_gate;

/* One operation on its way. */
typedef struct jb_call {
    jb_cell *cell;
    jb_op *op;
    uint64_t tag;      /* of the HTTP request; 0: waits for its time */
    int64_t sends;     /* attempts journaled, earlier sessions included */
    int64_t failed;    /* attempts that failed in this session */
    int64_t first_ms, due_ms, estimate;
} jb_call;

struct jb_calls {
    jb_http *http;
    jb_secrets *secrets;
    jb_gate *gates;
    size_t gate_count;
    jb_call **list;
    size_t count, cap;
    uint64_t next_tag;
    int draining;
};

int64_t jb_calls_now_ms(void);
void jb_calls_drop(jb_calls *k, jb_call *call); /* frees it */
/* An HTTP request has ended; settles, plans a retry or ends the run. */
void jb_calls_ended(jb_engine *e, jb_call *call, jb_http_result *r);
/* The request could not even be made. */
void jb_calls_refused_locally(jb_engine *e, jb_call *call, const jb_error *why);

#endif
