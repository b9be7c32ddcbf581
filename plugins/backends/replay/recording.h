/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/replay/recording.h - the replies that were recorded for one
 * workload, from the folder of a run or from a transcript. */
#ifndef REPLAY_RECORDING_H
#define REPLAY_RECORDING_H

#include <jaxbench/backend.h>

#include <stddef.h>

struct reply {
    char hash[65];   /* of the call that got it; "" when the transcript names none */
    char method[65]; /* the cell's; "" when unknown */
    int64_t seed;    /* ordinal of the cell's seed; -1 when unknown */
    uint64_t lane, turn;
    uint32_t finish;
    jb_usage usage;
    char *text, *model; /* model: nullable */
};

struct recording {
    struct reply *replies; /* in the order of the file */
    size_t count, cap;
};

/* The replies for `workload` in `path`, a folder with journal.jsonl or a JSON
 * Lines file.  JB_ENOTFOUND, JB_EPARSE (with the line in err->where), JB_ENOMEM. */
int recording_load(struct recording *r, const char *path, const char *workload, jb_error *err);
void recording_free(struct recording *r);

/* What a call looks for. */
struct wanted {
    const char *hash, *method;
    int64_t seed;
    uint64_t lane, turn;
};
/* The reply with this hash; NULL: none.  Of several, one of the same method and
 * seed comes first, then of the same method, then of the same seed, then the
 * first of the file. */
const struct reply *recording_by_hash(const struct recording *r, const struct wanted *w);
/* The same by lane and turn. */
const struct reply *recording_by_place(const struct recording *r, const struct wanted *w);

#endif
