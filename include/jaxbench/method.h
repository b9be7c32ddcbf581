/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/method.h - kind jb.method/1: how an agent searches.
 *
 * A method is a reactor: a single-threaded state machine without I/O, clock,
 * threads or random numbers of its own.  The host calls `start`, then
 * `on_event` once for every operation that ended; inside a handler the method
 * submits further operations and returns.  Resume is replay: the host runs the
 * same method against its journal, so equal events must lead to equal
 * submissions (a mismatch stops the run and shows both).
 *
 *     start --complete()--> llm op --on_event--> submit_reply()+evaluate()
 *                                                 --> eval op --on_event--> ... finish()
 *
 * Services: llm/1, eval/1, feedback/1, cell/1, budget/1, template/1, rng/1, log/1,
 * arena/1; reserved for agents and outer methods: session/1, nested/1.
 */
#ifndef JAXBENCH_METHOD_H
#define JAXBENCH_METHOD_H

#include <jaxbench/backend.h>
#include <jaxbench/plugin.h>

/* Purposes under which the ledger charges an LLM call. */
#define JB_PURPOSE_SAMPLE 1u /* a kernel is wanted: costs one sample, parsed or not */
#define JB_PURPOSE_PLAN 2u
#define JB_PURPOSE_MENU 3u
#define JB_PURPOSE_REPAIR 4u
#define JB_PURPOSE_JUDGE 5u
#define JB_PURPOSE_REFLECT 6u
#define JB_PURPOSE_CONTEXT 7u
#define JB_PURPOSE_OTHER 8u

/* llm/1 */
#define JB_SERVICE_LLM "llm/1"
typedef struct jb_llm_call {
    uint32_t struct_size;
    uint32_t purpose;       /* JB_PURPOSE_* */
    uint32_t message_count;
    uint32_t reserved;
    const jb_message *messages; /* copied by the host */
    uint64_t lane;          /* independent chain this call belongs to */
    uint64_t turn;          /* ordinal in the lane; (lane, turn) keys the call's seed */
    double temperature;     /* NaN: the study's */
    const char *role;       /* "coder", "planner", ... maps to a backend; NULL: coder */
} jb_llm_call;
typedef struct jb_llm_service {
    uint32_t struct_size;
    uint32_t reserved;
    /* *op_out gets exactly one event.  JB_EBUDGET: not admitted, nothing happened. */
    int (*complete)(const jb_host *host, const jb_llm_call *call, uint64_t *op_out, jb_error *err);
} jb_llm_service;

/* Outcomes of a candidate, one vocabulary everywhere.  Stable numbers. */
#define JB_OUTCOME_OK 1u
#define JB_OUTCOME_NO_CODE 2u
#define JB_OUTCOME_TRUNCATED 3u
#define JB_OUTCOME_SYNTAX 4u
#define JB_OUTCOME_TRACE_ERROR 5u
#define JB_OUTCOME_CONTRACT 6u
#define JB_OUTCOME_NOT_PALLAS 7u
#define JB_OUTCOME_SUSPICIOUS 8u
#define JB_OUTCOME_COMPILE_ERROR 9u
#define JB_OUTCOME_COMPILE_TIMEOUT 10u
#define JB_OUTCOME_RUNTIME_ERROR 11u
#define JB_OUTCOME_TIMEOUT 12u
#define JB_OUTCOME_WRONG 13u
#define JB_OUTCOME_INCONCLUSIVE 14u
#define JB_OUTCOME_INFRA 15u     /* leaves every denominator */
#define JB_OUTCOME_SKIPPED 16u   /* leaves every denominator */
#define JB_OUTCOME_CANCELLED 17u /* leaves every denominator */

/* Stages, in order; a request names the last one it wants. */
#define JB_STAGE_EXTRACT 1u
#define JB_STAGE_TRACE 2u
#define JB_STAGE_EXPORT 3u
#define JB_STAGE_INSPECT 4u
#define JB_STAGE_COMPILE 5u
#define JB_STAGE_CHECK 6u
#define JB_STAGE_TIME 7u
#define JB_STAGE_PROFILE 8u

/* eval/1: the only way to a score, so no method can skip a gate. */
#define JB_SERVICE_EVAL "eval/1"
typedef struct jb_eval_request {
    uint32_t struct_size;
    uint32_t last_stage;   /* JB_STAGE_*; 0: what the study asks for */
    uint64_t lane;
    const uint64_t *parents; /* candidate ids this one was made from; copied */
    uint32_t parent_count;
    uint32_t reserved;
} jb_eval_request;
typedef struct jb_eval_service {
    uint32_t struct_size;
    uint32_t reserved;
    /* Extract the code from the reply of LLM operation `llm_op` (of this cell,
     * ended) and evaluate it.  A reply without code, or cut off, also becomes
     * a candidate, whose operation ends at once with that outcome. */
    int (*reply)(const jb_host *host, uint64_t llm_op, const jb_eval_request *req,
                 uint64_t *candidate_out, uint64_t *op_out, jb_error *err);
    /* Evaluate source that the method composed itself. */
    int (*source)(const jb_host *host, jb_view source, const jb_eval_request *req,
                  uint64_t *candidate_out, uint64_t *op_out, jb_error *err);
} jb_eval_service;

/* feedback/1, since ABI 1.1: what a model is told about its attempts.  The host
 * makes it, so every method shows the same bytes; docs/feedback.md describes both
 * forms.  It holds facts of the loop's draws only, never of the final ones. */
#define JB_SERVICE_FEEDBACK "feedback/1"
#define JB_FEEDBACK_NONE 1u    /* the source alone: no verdict, for ablations */
#define JB_FEEDBACK_OUTCOME 2u /* and outcome, stage, first line of the error, best correct source */
#define JB_FEEDBACK_FULL 3u    /* and the error's text, mismatch, worst elements, performance, history */
typedef struct jb_feedback_request {
    uint32_t struct_size;
    uint32_t level;        /* JB_FEEDBACK_* */
    const uint64_t *turns; /* candidates of this cell with a delivered result, oldest first; the last is what it is about */
    uint32_t turn_count;   /* at least 1 */
    uint32_t history;      /* how many of the latest earlier turns get a line */
} jb_feedback_request;
/* In the caller's struct.  Views live until the handler returns. */
typedef struct jb_feedback {
    uint32_t struct_size;
    uint32_t timed;   /* 1: the candidate has a native timing */
    jb_view record;   /* JSON */
    jb_view text;     /* the same for a prompt: Markdown, valid UTF-8, ends in a newline */
    uint64_t best;    /* the best correct candidate among `turns`, the last one included; 0: none.  Told at every level */
} jb_feedback;
typedef struct jb_feedback_service {
    uint32_t struct_size;
    uint32_t reserved;
    /* JB_ENOTFOUND for a candidate this cell has not, JB_ESTATE for one whose
     * result was not delivered, JB_EINVAL for one that has none (infra, cancelled). */
    int (*make)(const jb_host *host, const jb_feedback_request *req, jb_feedback *out, jb_error *err);
} jb_feedback_service;

/* cell/1: what this cell is about, and how it ends. */
#define JB_SERVICE_CELL "cell/1"
typedef struct jb_cell_service {
    uint32_t struct_size;
    uint32_t reserved;
    /* A fact of the workload as text ("id", "name", "formula", ... the keys of
     * docs/formats.md, "prompt facts"); an unknown key gives the empty view.
     * Lives as long as the instance. */
    jb_view (*fact)(const jb_host *host, const char *key);
    /* No further operation will be submitted; those in flight are cancelled. */
    int (*finish)(const jb_host *host, jb_error *err);
} jb_cell_service;

/* budget/1: what is left in this cell; -1 is unlimited. */
#define JB_SERVICE_BUDGET "budget/1"
typedef struct jb_budget_service {
    uint32_t struct_size;
    uint32_t reserved;
    int64_t (*samples_left)(const jb_host *host);
} jb_budget_service;

/* template/1: prompt templates are files beside the plugin, hashed into the
 * run's manifest.  `render` replaces {{key}} by a value of `pairs` (key, value,
 * key, value, ...) or else by the workload's fact of that name; an unknown key
 * is an error that names it.  The text lives until the handler returns. */
#define JB_SERVICE_TEMPLATE "template/1"
typedef struct jb_template_service {
    uint32_t struct_size;
    uint32_t reserved;
    int (*render)(const jb_host *host, const char *file, const jb_view *pairs, uint32_t pair_count,
                  jb_view *out, jb_error *err);
} jb_template_service;

/* session/1: lets an agent program submit several times within one request;
 * each submission is a sample and gets the feedback record a model would get.
 * Hosts of ABI 1.0 return NULL for it; the table is fixed now so that agents
 * can be compiled against it. */
#define JB_SERVICE_SESSION "session/1"
typedef struct jb_session_service {
    uint32_t struct_size;
    uint32_t reserved;
    int (*open)(const jb_host *host, uint64_t lane, uint64_t *session_out, jb_error *err);
    int (*submit)(const jb_host *host, uint64_t session, jb_view source, uint64_t *op_out, jb_error *err);
    int (*close)(const jb_host *host, uint64_t session, jb_error *err);
} jb_session_service;

/* nested/1: run another method as an operation of this one (routers, prompt
 * optimisers); `options_json` are its options.  NULL in hosts of ABI 1.0. */
#define JB_SERVICE_NESTED "nested/1"
typedef struct jb_nested_service {
    uint32_t struct_size;
    uint32_t reserved;
    int (*run)(const jb_host *host, const char *method, jb_view options_json, int64_t sample_budget,
               uint64_t *op_out, jb_error *err);
} jb_nested_service;

/* How an operation ended. */
#define JB_OP_LLM 1u
#define JB_OP_EVAL 2u
#define JB_OP_NESTED 3u
#define JB_OP_DONE 1u
#define JB_OP_FAILED 2u    /* provider or infrastructure, after the host's retries: no sample charged */
#define JB_OP_CANCELLED 3u

/* An ended operation.  Views live until the handler returns. */
typedef struct jb_event {
    uint32_t struct_size;
    uint32_t kind;     /* JB_OP_LLM, JB_OP_EVAL, ... */
    uint32_t status;   /* JB_OP_DONE, ... */
    uint32_t outcome;  /* JB_OP_EVAL: JB_OUTCOME_* */
    uint64_t op;       /* as submitted */
    uint64_t lane;
    uint64_t candidate;/* JB_OP_EVAL */
    jb_view text;      /* JB_OP_LLM: the reply */
    uint32_t finish;   /* JB_OP_LLM: JB_FINISH_* */
    uint32_t duplicate;/* JB_OP_EVAL: 1 if an earlier candidate of the run has this source */
    jb_view record;    /* JB_OP_EVAL: the result record, JSON (docs/protocol.md) */
    jb_view source;    /* JB_OP_EVAL: what was evaluated; empty for no-code */
} jb_event;

typedef struct jb_method_ops {
    uint32_t struct_size;
    uint32_t reserved;
    int (*create)(const jb_host *host, const void *config, void **out, jb_error *err); /* [main] */
    void (*destroy)(void *self);
    int (*start)(void *self, jb_error *err);                          /* [instance] */
    int (*on_event)(void *self, const jb_event *event, jb_error *err); /* [instance] */
    /* Since ABI 1.1, optional: how many samples a cell asks for at most with this
     * config, -1 when that can't be known.  No instance is needed.  [any] */
    int64_t (*samples)(const void *config);
} jb_method_ops;

#endif
