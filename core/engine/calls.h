/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/calls.h - the calls of remote backends, from a queued operation to
 * its end in the journal.
 *
 *     op queued --admitted by the gate--> call_send journaled, synced --> HTTP
 *        ^                                                                |
 *        +---- back-off <---- call_fail journaled <---- failed -----------+
 *                                                       decoded --> op_done journaled
 *
 * A gate is one backend of the study: its limits, its key, what it has answered.
 * What was paid is in the journal before anybody uses it: a process that dies
 * between call_send and op_done sends that call again on resume, as a retry,
 * because providers have no way to ask for an answer that was lost.
 *
 * A failure that concerns the backend as a whole (quota, key, a request that it
 * never accepts) ends the run and leaves the operation open, so that `resume` can
 * go on when it is mended.  Local backends do not come here. */
#ifndef JB_ENGINE_CALLS_H
#define JB_ENGINE_CALLS_H

#include "core/engine/state.h"
#include "core/http/limits.h"

/* Does the component answer over HTTP? */
int jb_backend_is_remote(const jb_component *backend);
/* The environment variable that holds its key by these options, malloc'ed in
 * *out; NULL when it asks for none. */
int jb_backend_key_variable(const jb_component *backend, const cJSON *options, char **out, jb_error *err);

/* Gates of all cells, keys of those that still have work.  Does nothing when no
 * cell has a remote backend. */
int jb_calls_open(jb_engine *e, jb_error *err);
void jb_calls_close(jb_engine *e);

/* Take what has ended, send what may be sent.  1: something happened, 0: nothing;
 * failures of the machinery are jb_engine_fatal's. */
int jb_calls_turn(jb_engine *e);
/* The run ends: nothing new is sent, what is under way and paid for is awaited and
 * journaled, after a signal for some seconds only. */
void jb_calls_drain(jb_engine *e);
/* The operation is not wanted any more. */
void jb_calls_cancel(jb_cell *c, jb_op *op);

/* May a cell of this backend start, because its gate has room and no queue? */
int jb_calls_room(const jb_engine *e, const jb_cell *c);
int jb_calls_fd(const jb_engine *e); /* -1: none */
int64_t jb_calls_timeout_ms(const jb_engine *e); /* -1: any */
/* The journal says that the cell's backend has answered a call before. */
void jb_calls_worked(jb_cell *c);

#endif
