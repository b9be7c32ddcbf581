/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/volatile.h - the one list of fields in which two equal runs may
 * differ: when, where and how long.  Everything else of an archive, a ledger or
 * a report is a function of the study and must be equal byte for byte, whatever
 * was killed and resumed and with however many slots. */
#ifndef JB_ENGINE_VOLATILE_H
#define JB_ENGINE_VOLATILE_H

#include "core/base/json.h"

#define JB_VOLATILE_MAX 24 /* a test holds the list to this */

/* JSON keys, at any depth; NULL-terminated. */
extern const char *const jb_volatile_fields[];

/* Remove them from a document, in place. */
void jb_volatile_strip(cJSON *doc);

#endif
