/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/methods/iterative/iterative.c - method `iterative`: a few chains, each
 * of a few turns; every turn after the first is told what became of the ones
 * before it.
 *
 * A chain is a lane and knows nothing of the others:
 *
 *     turn 1: the task --llm--> reply --eval--> record
 *     turn t: the task + feedback on turns 1..t-1 --llm--> ... until a rule ends it
 *
 * The first prompt is the one of best_of_n; the feedback is made by the host
 * (feedback/1), so that methods differ in what they do with it, not in what they
 * are told.  The source last tried and the best correct one both stand in it: a
 * chain can't lose its only working kernel.
 *
 * A call that fails is asked again, an evaluation that infrastructure lost is done
 * again on the reply that was paid for; neither is a turn.  After `infra_retries`
 * such losses in a row the chain ends.  Nothing is ever submitted for a turn that
 * a rule leaves out, so it costs no sample. */
#include <jaxbench/method.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAMPLES_MAX 100000 /* chains x turns */

struct config {
    int64_t chains, turns, history, infra_retries;
    double temperature;
    const char *feedback, *stop_on;
};

static const char *const FEEDBACK[] = { "none", "outcome", "full", NULL }; /* in the order of JB_FEEDBACK_*, from 1 */
static const char *const STOP_ON[] = { "auto", "correct", "budget", NULL };

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, chains), .name = "chains", .def = "2",
      .min = 1, .max = 10000, .unit = "chains", .help = "How many independent chains each cell has." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, turns), .name = "turns", .def = "3",
      .min = 1, .max = 1000, .unit = "turns", .help = "How many turns a chain has at most; each that is used is one sample." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_ENUM, .offset = offsetof(struct config, feedback), .name = "feedback", .def = "full",
      .choices = FEEDBACK, .help = "What a turn is told of the one before: nothing but its source, its outcome, or all of docs/feedback.md." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_ENUM, .offset = offsetof(struct config, stop_on), .name = "stop_on", .def = "auto",
      .choices = STOP_ON, .help = "correct: a chain ends at its first correct kernel; budget: it uses all its turns; auto: it goes on after "
                                  "a correct kernel only when that was natively timed, so that there is something to improve." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, history), .name = "history", .def = "8",
      .min = 0, .max = 100, .unit = "lines", .help = "How many of the latest earlier turns the feedback lists with a line each." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, temperature), .name = "temperature",
      .def = "1.0", .min = 0, .max = 2, .help = "Sampling temperature; a backend without one ignores it." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, infra_retries), .name = "infra_retries",
      .def = "2", .min = 0, .max = 100, .unit = "times", .flags = JB_OPTF_ADVANCED,
      .help = "How often in a row a chain repeats a step that the provider or the infrastructure lost, beyond the host's own retries." },
};

struct chain {
    uint64_t lane;
    uint64_t *candidates;     /* one a finished turn, in the method's block */
    uint32_t turn;            /* finished turns; the ordinal of the one in progress */
    uint32_t losses;          /* in a row */
    int correct;              /* the last candidate is */
    uint64_t parents[2];      /* what the turn in progress was shown: the last candidate, the best correct one */
    uint32_t parent_count;
    uint64_t llm_op;          /* of the turn in progress */
};

struct method {
    const jb_host *host;
    const struct config *config;
    const jb_llm_service *llm;
    const jb_eval_service *eval;
    const jb_feedback_service *feedback;
    const jb_cell_service *cell;
    const jb_template_service *templates;
    struct chain *chains;
    uint64_t *candidates;
    uint32_t level; /* JB_FEEDBACK_* */
    int64_t open;   /* operations that will still bring an event */
};

static int fail(jb_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "iterative: %s", text);
    return code;
}

/* ---- life ------------------------------------------------------------------------- */

static int64_t samples(const void *config)
{
    const struct config *c = config;
    return c->chains * c->turns;
}

static void destroy(void *self)
{
    struct method *m = self;
    if (m == NULL) return;
    free(m->candidates);
    free(m->chains);
    free(m);
}

static int find_services(struct method *m, const jb_host *host)
{
    m->llm = host->service(host, JB_SERVICE_LLM);
    m->eval = host->service(host, JB_SERVICE_EVAL);
    m->feedback = host->service(host, JB_SERVICE_FEEDBACK);
    m->cell = host->service(host, JB_SERVICE_CELL);
    m->templates = host->service(host, JB_SERVICE_TEMPLATE);
    return m->llm != NULL && m->eval != NULL && m->feedback != NULL && m->cell != NULL && m->templates != NULL;
}

static uint32_t level_of(const char *word)
{
    uint32_t level = JB_FEEDBACK_NONE;
    while (FEEDBACK[level] != NULL && strcmp(FEEDBACK[level - 1], word) != 0) level++;
    return level;
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    const struct config *c = config;
    if (samples(c) > SAMPLES_MAX) return fail(err, JB_EINVAL, "chains x turns is above 100000");
    struct method *m = calloc(1, sizeof *m);
    if (m == NULL) return fail(err, JB_ENOMEM, "out of memory");
    m->host = host;
    m->config = c;
    m->level = level_of(c->feedback);
    m->chains = calloc((size_t)c->chains, sizeof *m->chains);
    m->candidates = calloc((size_t)samples(c), sizeof *m->candidates);
    int served = find_services(m, host);
    if (m->chains == NULL || m->candidates == NULL || !served) {
        destroy(m);
        return served ? fail(err, JB_ENOMEM, "out of memory")
                      : fail(err, JB_EABI, "needs the services llm/1, eval/1, feedback/1, cell/1 and template/1; this host lacks one");
    }
    for (int64_t i = 0; i < c->chains; i++) {
        m->chains[i].lane = (uint64_t)i;
        m->chains[i].candidates = m->candidates + i * c->turns;
    }
    *out = m;
    return 0;
}

/* ---- a turn -------------------------------------------------------------------------- */

static jb_view text(const char *s) { return (jb_view){ s, strlen(s) }; }

static uint64_t last_candidate(const struct chain *c) { return c->candidates[c->turn - 1]; }

static int make_feedback(struct method *m, const struct chain *c, jb_feedback *out, jb_error *err)
{
    jb_feedback_request req = { .struct_size = sizeof req, .level = m->level, .turns = c->candidates, .turn_count = c->turn,
                                .history = (uint32_t)m->config->history };
    *out = (jb_feedback){ .struct_size = sizeof *out };
    return m->feedback->make(m->host, &req, out, err);
}

/* The prompt of a turn after the first, and who its parents are. */
static int render_later(struct method *m, struct chain *c, jb_view task, jb_view *prompt, jb_error *err)
{
    jb_feedback told;
    int status = make_feedback(m, c, &told, err);
    if (status != 0) return status;
    c->parents[0] = last_candidate(c);
    c->parent_count = 1;
    if (m->level > JB_FEEDBACK_NONE && told.best != 0 && told.best != c->parents[0]) c->parents[c->parent_count++] = told.best;
    const jb_view pairs[] = { text("task"), task, text("feedback"), told.text };
    const char *file = m->level == JB_FEEDBACK_NONE ? "again.md" : c->correct ? "improve.md" : "repair.md";
    return m->templates->render(m->host, file, pairs, sizeof pairs / sizeof *pairs, prompt, err);
}

/* Ask for the chain's next turn.  A budget that is spent ends the chain. */
static int ask(struct method *m, struct chain *c, jb_error *err)
{
    jb_view prompt;
    int status = m->templates->render(m->host, "prompt.md", NULL, 0, &prompt, err);
    if (status == 0 && c->turn > 0) status = render_later(m, c, prompt, &prompt, err);
    if (status != 0) return status;
    jb_message message = { .role = JB_ROLE_USER, .text = prompt };
    jb_llm_call call = { .struct_size = sizeof call, .purpose = JB_PURPOSE_SAMPLE, .message_count = 1, .messages = &message,
                         .lane = c->lane, .turn = c->turn, .temperature = m->config->temperature };
    status = m->llm->complete(m->host, &call, &c->llm_op, err);
    if (status == JB_EBUDGET) return 0;
    if (status == 0) m->open++;
    return status;
}

static int evaluate(struct method *m, struct chain *c, jb_error *err)
{
    jb_eval_request request = { .struct_size = sizeof request, .lane = c->lane, .parents = c->parents, .parent_count = c->parent_count };
    uint64_t candidate, op;
    int status = m->eval->reply(m->host, c->llm_op, &request, &candidate, &op, err);
    if (status == JB_EBUDGET) return 0;
    if (status == 0) m->open++;
    return status;
}

/* Does the chain go on behind its last candidate? */
static int goes_on(struct method *m, const struct chain *c, int *yes, jb_error *err)
{
    jb_feedback told;
    *yes = c->turn < m->config->turns && (!c->correct || strcmp(m->config->stop_on, "correct") != 0);
    if (!*yes || !c->correct || strcmp(m->config->stop_on, "budget") == 0) return 0;
    int status = make_feedback(m, c, &told, err);
    if (status == 0) *yes = told.timed != 0;
    return status;
}

/* ---- events ------------------------------------------------------------------------------ */

/* A step that was lost through no fault of the model's: once more, with the same bytes, or the chain ends. */
static int lost(struct method *m, struct chain *c, const jb_event *event, jb_error *err)
{
    if (c->losses++ >= m->config->infra_retries) return 0;
    return event->kind == JB_OP_EVAL ? evaluate(m, c, err) : ask(m, c, err);
}

static int judged(struct method *m, struct chain *c, const jb_event *event, jb_error *err)
{
    int yes;
    c->correct = event->outcome == JB_OUTCOME_OK;
    c->candidates[c->turn++] = event->candidate;
    int status = goes_on(m, c, &yes, err);
    return status == 0 && yes ? ask(m, c, err) : status;
}

static int on_event(void *self, const jb_event *event, jb_error *err)
{
    struct method *m = self;
    int status = 0;
    m->open--;
    if (event->lane >= (uint64_t)m->config->chains) return fail(err, JB_EINTERNAL, "an event of a lane that is no chain");
    struct chain *c = &m->chains[event->lane];
    if (event->status == JB_OP_DONE) c->losses = 0;
    if (event->status == JB_OP_FAILED) status = lost(m, c, event, err);
    else if (event->status == JB_OP_DONE && event->kind == JB_OP_LLM) status = evaluate(m, c, err);
    else if (event->status == JB_OP_DONE && event->kind == JB_OP_EVAL) status = judged(m, c, event, err);
    if (status != 0) return status;
    return m->open > 0 ? 0 : m->cell->finish(m->host, err);
}

static int start(void *self, jb_error *err)
{
    struct method *m = self;
    for (int64_t i = 0; i < m->config->chains; i++) {
        int status = ask(m, &m->chains[i], err);
        if (status != 0) return status;
    }
    return m->open > 0 ? 0 : m->cell->finish(m->host, err);
}

static const jb_method_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .start = start, .on_event = on_event, .samples = samples,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_METHOD, .name = "iterative",
    .summary = "chains of turns, each told what became of the one before",
    .help = "Asks the backend for a kernel, evaluates it, and asks again with the feedback of the evaluation: outcome, error, mismatch with its "
            "worst elements, performance when timed, the source last tried and the best correct one. Chains are independent of each other. Compare "
            "with best_of_n at chains x turns samples, and with feedback: none to see what the feedback itself is worth.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.iterative",
    .version = "1.0.0", .summary = "Method iterative", .license = "Apache-2.0", .components = components,
};
