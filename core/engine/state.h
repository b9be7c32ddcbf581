/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/state.h - the engine's own structures, shared by its files and
 * nobody else.
 *
 *     jb_engine
 *      ├─ cells[]      one method instance each
 *      │   ├─ ops[]         op N is entry N-1, delivered strictly in order
 *      │   └─ candidates[]  candidate N is entry N-1
 *      ├─ evals        source+job hash -> one evaluation and who waits for it
 *      └─ replay       what the journal knew when it was opened
 */
#ifndef JB_ENGINE_STATE_H
#define JB_ENGINE_STATE_H

#include "core/base/hash.h"
#include "core/base/mem.h"
#include "core/base/rng.h"
#include "core/engine/engine.h"
#include "core/engine/journal.h"
#include "core/engine/tally.h"
#include "core/evaluate/extract.h"
#include "core/evaluate/outcome.h"
#include "core/options/options.h"

typedef struct jb_engine jb_engine;
typedef struct jb_cell jb_cell;
typedef struct jb_calls jb_calls; /* callstate.h */

#define JB_REPLY_MAX ((size_t)64 << 20)

/* ---- what the journal knew ----------------------------------------------------- */

typedef struct jb_replay_op {
    char hash[JB_HASH_HEX]; /* of the submission; "" when unknown */
    jb_span submit, done;   /* seq 0: not there */
    int cancelled;
    int64_t sends;          /* call_send events: how often it went out */
} jb_replay_op;

typedef struct jb_replay_cell {
    jb_replay_op *ops;
    size_t op_count;
    jb_span *finals; /* entry N-1: final_done of candidate N */
    size_t final_count;
    int begun, ended;
} jb_replay_cell;

/* Visitor of jb_journal_open; ctx is the engine. */
int jb_replay_visit(void *ctx, const cJSON *event, jb_span span, jb_error *err);
jb_replay_op *jb_replay_find(jb_cell *c, uint64_t op); /* NULL: unknown */
void jb_replay_free(jb_replay_cell *r);
/* JB_ESTATE with both hashes and the first difference. */
int jb_replay_mismatch(jb_cell *c, uint64_t op, const jb_replay_op *known, const char *hash, const char *what, jb_view text, jb_error *err);

/* ---- operations and candidates ------------------------------------------------- */

#define JB_OP_QUEUED 1u    /* to be executed */
#define JB_OP_WAITING 2u   /* an evaluation runs */
#define JB_OP_ENDED 3u     /* its event can be delivered */
#define JB_OP_DELIVERED 4u

typedef struct jb_op {
    uint64_t id, lane, turn;
    uint32_t kind, state, status; /* JB_OP_LLM.., above, JB_OP_DONE.. */
    uint32_t purpose;
    int holds_sample;             /* reserved, not yet settled */
    int executed;                 /* llm: the backend was really asked (now or before) */
    jb_amounts bound;             /* llm: what the call may cost at most; reserved while it runs */
    int replayed;                 /* llm: the reply is one of an earlier run; costs nothing */
    /* llm */
    char *prompt;                 /* all messages: "### role\n\ntext\n\n"...; what is hashed and archived */
    jb_message *messages;         /* views into `prompt`; freed once executed */
    uint32_t message_count, finish;
    size_t prompt_len;
    double temperature;
    uint64_t seed;
    char *reply;
    size_t reply_len;
    jb_usage usage;
    char hash[JB_HASH_HEX];       /* of the call; what the journal is matched by */
    /* eval */
    uint64_t candidate;
} jb_op;

typedef struct jb_candidate {
    uint64_t id, op, llm_op, lane;
    uint64_t *parents;
    uint32_t parent_count, last_stage;
    char *source;
    size_t source_len;
    char source_hash[JB_HASH_HEX], key[JB_HASH_HEX]; /* key "": nothing to evaluate */
    char reason_extract[160];
    uint32_t extract; /* outcome of the extraction */
    size_t blocks;
    int64_t chosen;
    int duplicate;    /* an earlier candidate of this cell has this key */
    jb_judgement judged;
    int judged_yet;
    jb_span done;     /* its op_done */
    double median_us; /* natively timed; +inf otherwise */
    uint32_t final_state; /* JB_VERDICT_*; 0: no final rows were run */
} jb_candidate;

/* ---- cells --------------------------------------------------------------------- */

#define JB_CELL_IDLE 0u
#define JB_CELL_RUNNING 1u
#define JB_CELL_FINALS 2u
#define JB_CELL_ENDED 3u
#define JB_CELL_PAUSED 4u /* by a budget; `resume` goes on */

struct jb_cell {
    jb_engine *e;
    const jb_cell_plan *plan;
    uint32_t state;
    int failed, finished, in_handler;
    jb_host host, backend_host;
    jb_config *config, *backend_config;
    void *method, *backend;
    jb_arena *arena, *backend_arena;
    jb_rng_key rng, call_seeds;
    jb_op **ops; /* pointers: handlers hold on to them while the array grows */
    size_t op_count, op_cap, delivered;
    jb_candidate **candidates;
    size_t candidate_count, candidate_cap;
    jb_ledger ledger;
    struct jb_gate *gate; /* remote backends: callstate.h */
    jb_replay_cell replay;
    char *dir; /* <run>/cells/<key> */
    /* finals */
    int provisional;          /* a budget ends the session: the rows are run on what there is */
    size_t final_tries;
    uint64_t final_candidate; /* whose rows run now, 0 none */
    jb_error error;           /* why it failed */
};

/* ---- evaluations ------------------------------------------------------------------ */

typedef struct jb_waiter { jb_cell *cell; uint64_t candidate; int final; } jb_waiter;

typedef struct jb_eval {
    char key[JB_HASH_HEX];
    uint64_t tag;
    int running;       /* in the pool */
    int64_t bound_ms;  /* of compiling, reserved while it runs */
    jb_span done;      /* the line that holds the record; seq 0: none yet */
    jb_waiter *waiters;
    size_t waiter_count, waiter_cap;
} jb_eval;

struct jb_engine {
    const jb_engine_options *o;
    jb_cell *cells;
    jb_journal *journal;
    jb_pool *pool;      /* NULL until the first job */
    jb_calls *calls;    /* NULL without remote backends */
    char *blobs, *cells_dir;
    FILE *log;
    jb_eval **evals;    /* sorted by key */
    size_t eval_count, eval_cap;
    uint64_t next_tag;
    size_t next_llm_cell; /* round robin over cells with queued calls */
    int64_t begin_ns;
    jb_tally tally;             /* the journal in totals */
    jb_tally_cell *tally_cells;
    jb_amounts reserved;        /* by calls and jobs that run now */
    unsigned held;              /* bit JB_UNIT_*: this turn, a budget refused something */
    int closing;                /* a budget is reached: only final rows run */
    int64_t saved_ns;           /* when status.json was written */
    uint64_t saved_seq;
    int64_t live_failed_calls; /* of this session: what the journal remembers must not stop a resume */
    int fatal;          /* a JB_E* status: the run can't go on */
    jb_error error;
    jb_engine_result *result;
};

/* ---- engine.c ------------------------------------------------------------------------ */
/* Note that the run can't go on; returns rc. The first one is kept. */
int jb_engine_fatal(jb_engine *e, int rc, const jb_error *err);
void jb_engine_log(jb_engine *e, const char *cell, uint32_t level, jb_view text);

/* ---- budget.c ------------------------------------------------------------------------- */
int jb_budget_open(jb_engine *e, jb_error *err);  /* before the journal is read */
void jb_budget_watch(jb_engine *e);               /* once it was: take every further event */
void jb_budget_close(jb_engine *e);
/* A call is admitted with op->bound reserved, a job with v->bound_ms; 0: not now. */
int jb_budget_admit_call(jb_engine *e, const jb_cell_plan *p, jb_op *op);
void jb_budget_release_call(jb_engine *e, jb_op *op); /* once its end is journaled */
int jb_budget_admits_job(jb_engine *e, const cJSON *job); /* would it be? */
void jb_budget_reserve_job(jb_engine *e, jb_eval *v, const cJSON *job);
void jb_budget_release_job(jb_engine *e, jb_eval *v);
/* Nothing runs and what waits is refused: a budget is reached; which is in the result. */
int jb_budget_reached(jb_engine *e);
int jb_budget_out_of_time(jb_engine *e); /* also the grace after the wall budget is over */
void jb_budget_show(jb_engine *e); /* on the live line */
int jb_budget_json(const jb_engine *e, cJSON *doc); /* adds "budget": {unit: amount} */
void jb_budget_save(jb_engine *e, int now); /* status.json, at most once a second unless `now` */

/* ---- host.c --------------------------------------------------------------------------- */
void jb_host_bind(jb_cell *c); /* fills host and backend_host */

/* ---- cell.c ---------------------------------------------------------------------------- */
int jb_cell_init(jb_cell *c, jb_engine *e, const jb_cell_plan *plan, jb_error *err);
void jb_cell_free(jb_cell *c);
int jb_cell_start(jb_cell *c);
/* Deliver what can be delivered, go on to finals, end.  Non-zero: fatal. */
int jb_cell_advance(jb_cell *c);
/* Execute one queued call of a local backend; 1: did, 0: none, negative: fatal. */
int jb_cell_call(jb_cell *c);
/* What a backend is asked for this operation; views live as long as `op`'s texts. */
void jb_cell_request(const jb_cell *c, const jb_op *op, jb_request *out);
/* The end of a call, reply or failure: journaled, then ready for delivery.
 * `attempts` is how often a remote backend was asked, 0 for a local one. */
int jb_cell_take_reply(jb_cell *c, jb_op *op, const jb_reply *r, int64_t attempts, jb_error *err);
/* A call has failed for good, now or in the journal. */
void jb_cell_note_failure(jb_cell *c, const char *class, const char *message);
jb_op *jb_cell_op(jb_cell *c, uint64_t id);              /* NULL: unknown */
jb_candidate *jb_cell_candidate(jb_cell *c, uint64_t id); /* NULL: unknown */
/* The method said so, or it has nothing left to wait for: what is not delivered is cancelled. */
int jb_cell_finish(jb_cell *c);
void jb_cell_fail(jb_cell *c, const jb_error *why);
/* A budget is reached: run the final rows of its best so far, then pause. */
void jb_cell_pause(jb_cell *c);

/* ---- callend.c --------------------------------------------------------------------------- */
const char *jb_llm_class_name(uint32_t class);         /* "rate-limit", "auth", ... */
uint32_t jb_llm_class_from_name(const char *name);     /* 0: unknown */

/* ---- submit.c: what a method asks for --------------------------------------------------- */
int jb_submit_llm(jb_cell *c, const jb_llm_call *call, uint64_t *op_out, jb_error *err);
int jb_submit_reply(jb_cell *c, uint64_t llm_op, const jb_eval_request *req, uint64_t *candidate_out, uint64_t *op_out, jb_error *err);
int jb_submit_source(jb_cell *c, jb_view source, const jb_eval_request *req, uint64_t *candidate_out, uint64_t *op_out, jb_error *err);

/* ---- feedback.c: what a model is told ------------------------------------------------------- */
int jb_feedback_make(jb_cell *c, const jb_feedback_request *req, jb_feedback *out, jb_error *err);

/* ---- evals.c ------------------------------------------------------------------------------ */
/* Let the candidate wait for the evaluation of its source, starting it when nobody has. */
int jb_evals_request(jb_cell *c, jb_candidate *k);
int jb_evals_held(jb_cell *c, const jb_candidate *k); /* a budget keeps it from being started */
int jb_evals_request_final(jb_cell *c, jb_candidate *k);
/* While the journal is read: this line holds the record of an evaluation. */
int jb_evals_known(jb_engine *e, const cJSON *event, jb_span done);
void jb_evals_cancel(jb_cell *c, jb_candidate *k);
int jb_evals_done(jb_engine *e, uint64_t tag, cJSON *record, uint32_t attempts); /* takes record */
void jb_evals_free(jb_engine *e);

/* ---- settle.c: a candidate got its record ---------------------------------------------------- */
/* `record`: the executor's, NULL when nothing was evaluated; borrowed. */
int jb_settle(jb_cell *c, jb_candidate *k, const cJSON *record, uint32_t attempts, int shared, jb_span *done_out);
int jb_settle_replayed(jb_cell *c, jb_candidate *k, jb_span done);
int jb_settle_final(jb_cell *c, jb_candidate *k, const char *key, const cJSON *record, uint32_t attempts, int shared, jb_span *done_out);
int jb_settle_final_replayed(jb_cell *c, jb_candidate *k, jb_span done);
int jb_settle_cancelled(jb_cell *c, jb_candidate *k);
cJSON *jb_settle_record(jb_cell *c, const jb_candidate *k, jb_error *err); /* from the journal; caller frees */

#endif
