/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/index.h - index.sqlite: the run's candidates for SQL.  Never read
 * by jaxbench itself and never the truth: it is made anew from the journal. */
#ifndef JB_ENGINE_INDEX_H
#define JB_ENGINE_INDEX_H

#include "core/engine/records.h"

/* Write <run_dir>/index.sqlite under a temporary name and rename it. */
int jb_index_rebuild(const char *run_dir, const jb_records *r, jb_error *err);

#endif
