/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/missing.h - what a run's folder lacks of that which its journal
 * names: bodies in blobs/, or the journal itself.  It looks and tells; it mends
 * nothing and never judges whether a body holds the right bytes (jb_blob_get does). */
#ifndef JB_ENGINE_MISSING_H
#define JB_ENGINE_MISSING_H

#include "core/base/json.h"

/* Bodies that are named and not there, by kind:
 *     {"prompts":{"named":5,"missing":5,"first":["ab01...", ...]},"replies":{...},"modules":{...}}
 * A kind that is whole is left out; *out is NULL when all are.  Each body counts
 * once, however often it is named; `first` holds at most three.  JB_EPARSE,
 * JB_EIO, JB_ENOMEM.  Caller frees. */
int jb_missing_bodies(const char *run_dir, cJSON **out, jb_error *err);

/* A run's folder must have a journal with a line in it before it is gone on with:
 * JB_ESTATE when it was emptied or removed. */
int jb_missing_journal(const char *run_dir, jb_error *err);

#endif
