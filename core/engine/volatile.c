/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/volatile.c - see volatile.h. */
#include "core/engine/volatile.h"

#include <string.h>

const char *const jb_volatile_fields[] = {
    /* when and where */
    "t", "started", "pid", "host", "run", "run_dir", "argv",
    /* how long */
    "seconds", "cost", "trace_s", "compile_s", "check_s", "wall_s",
    /* timing samples and what is computed from them */
    "baseline_us", "candidate_us", "baseline_median_us", "candidate_median_us",
    /* who else had evaluated the same source first, and how often the infrastructure had to try */
    "shared", "attempts",
    /* calls paid for and then cancelled by the method */
    "discarded",
    /* bytes of the candidate's own output that were in the pipe when it ended */
    "log_bytes", "isolation",
    NULL
};

static int is_volatile(const char *key)
{
    for (size_t i = 0; key && jb_volatile_fields[i]; i++)
        if (strcmp(key, jb_volatile_fields[i]) == 0) return 1;
    return 0;
}

void jb_volatile_strip(cJSON *doc)
{
    cJSON *child = doc ? doc->child : NULL;
    while (child) {
        cJSON *next = child->next;
        if (is_volatile(child->string)) cJSON_Delete(cJSON_DetachItemViaPointer(doc, child));
        else jb_volatile_strip(child); /* depth is bounded by the parser */
        child = next;
    }
}
