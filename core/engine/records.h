/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/records.h - a run as its manifest and journal tell it: cells,
 * candidates, ledger.  What reports and the SQLite index are computed from; reads
 * only, also while the run goes on. */
#ifndef JB_ENGINE_RECORDS_H
#define JB_ENGINE_RECORDS_H

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/engine/ledger.h"
#include "core/evaluate/outcome.h"

#define JB_RECORDS_MAX_GATES 16

typedef struct jb_rec_candidate {
    uint64_t id, op, llm_op;
    uint32_t outcome;     /* JB_OUTCOME_*, with the final rows' word; 0: not ended yet */
    uint32_t loop_outcome;/* before the final rows */
    uint32_t stage;
    uint32_t final;       /* JB_VERDICT_*; 0: not run */
    int duplicate, shared;
    int64_t attempts;
    char reason[320];
    char fault[96];       /* "error_ratio/outlier", "unread-input", "trace"; empty for ok */
    char link[24], numerics[32], coverage[24];
    char source[JB_HASH_HEX];
    uint8_t verdicts[JB_RECORDS_MAX_GATES]; /* JB_VERDICT_* per gate set of the manifest; 0: not judged */
    uint8_t stages[JB_STAGE_COUNT + 1];     /* JB_REC_* */
    double baseline_us, candidate_us;       /* medians; 0 when not natively timed */
    int interpreted;                        /* was timed in an interpreter */
} jb_rec_candidate;

#define JB_REC_NONE 0u
#define JB_REC_OK 1u
#define JB_REC_FAIL 2u /* fail, timeout, crash */
#define JB_REC_SKIPPED 3u
#define JB_REC_INFRA 4u

typedef struct jb_rec_op {
    uint32_t kind, purpose; /* JB_OP_*; JB_PURPOSE_* */
    int done, failed, cancelled, replayed; /* replayed: the reply is one that an earlier run paid for */
    jb_usage usage;
    uint64_t candidate;
    int64_t lane, turn;   /* of a call: where in the method it stands */
    char prompt[JB_HASH_HEX]; /* its blob */
    double trace_s, compile_s, check_s, accelerator_s, wall_s;
} jb_rec_op;

typedef struct jb_rec_cell {
    const char *key, *label, *workload, *workload_name, *method, *backend; /* of the manifest */
    int64_t seed;
    int begun, ended, failed;
    char message[256];
    jb_rec_op *ops;
    size_t op_count;
    jb_rec_candidate *candidates;
    size_t candidate_count;
    int priced;
    jb_price price; /* of its backend's tokens, when priced */
    jb_rec_candidate *provisional; /* as they were before rows that a budget's end ran; gone when the cell ends */
    size_t provisional_count;
    jb_ledger ledger;
} jb_rec_cell;

typedef struct jb_records {
    cJSON *manifest;
    jb_rec_cell *cells;
    size_t cell_count;
    const char *gates[JB_RECORDS_MAX_GATES];
    size_t gate_count, headline; /* index of the headline set */
    cJSON *executor;   /* what it said when it was ready; nullable */
    int complete;      /* run_end was reached */
    int64_t sessions;
    uint64_t events, torn_bytes;
} jb_records;

/* JB_ENOTFOUND when `run_dir` is no run, JB_EPARSE for a damaged one. */
int jb_records_load(const char *run_dir, jb_records **out, jb_error *err);
void jb_records_free(jb_records *r);

/* What a run's manifest says the tokens of a backend cost; 0: unpriced. */
int jb_manifest_price(const cJSON *manifest, const char *backend, jb_price *out);

#endif
