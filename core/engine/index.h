/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/index.h - index.sqlite: the run's candidates for SQL, and what its
 * cells cost, which `plan` takes rates from (core/forecast).  Never the truth: it is made
 * anew from the journal. */
#ifndef JB_ENGINE_INDEX_H
#define JB_ENGINE_INDEX_H

#include "core/engine/records.h"

#define JB_INDEX_VERSION 2 /* PRAGMA user_version */

/* Write <run_dir>/index.sqlite under a temporary name and rename it. */
int jb_index_rebuild(const char *run_dir, const jb_records *r, jb_error *err);

#endif
