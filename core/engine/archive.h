/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/archive.h - cells/<key>/<ordinal>/: what one candidate left
 * behind, for people and programs to read.  Derived from the journal: a file
 * that is missing or differs is written again. */
#ifndef JB_ENGINE_ARCHIVE_H
#define JB_ENGINE_ARCHIVE_H

#include "core/base/json.h"

/* An empty view writes no file (a method's own source has no reply). */
typedef struct jb_archive_entry {
    const char *cell_dir; /* made when absent */
    uint64_t candidate;
    jb_view prompt, reply, source;
    const cJSON *result;
} jb_archive_entry;

int jb_archive_write(const jb_archive_entry *a, jb_error *err);

#endif
