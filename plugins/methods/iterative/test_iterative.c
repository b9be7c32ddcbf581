/* SPDX-License-Identifier: Apache-2.0 */
/* iterative: what it submits, on a fake host that records every call, ends
 * operations in any order and with any status, and makes feedback that names its
 * turns; when chains end; that a turn which is not used costs nothing; and that its
 * templates render. */
#include "iterative.c"

#include "core/base/error.h"
#include "core/options/options.h"
#include "core/suite/template.h"

#include <check.h>
#include <stdarg.h>

#define MOST 256

/* ---- a host ------------------------------------------------------------------ */

struct op { uint32_t kind; uint64_t lane, llm_op, candidate; int open; };

static struct {
    char log[65536];                /* one line a call, in order */
    char text[4096];                /* what render and make gave out last */
    struct op op[MOST];             /* by id - 1 */
    uint64_t ops, candidates;
    uint32_t outcome[MOST];         /* of a candidate, by id - 1; 0: not delivered */
    int samples_left;               /* -1: unlimited */
    int samples;                    /* charged */
    int timed;                      /* every candidate is */
    int make_status, render_status, eval_status, finished;
    const char *absent;             /* a service this host does not have */
} fake;

static void note(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void note(const char *format, ...)
{
    size_t n = strlen(fake.log);
    va_list args;
    va_start(args, format);
    vsnprintf(fake.log + n, sizeof fake.log - n, format, args);
    va_end(args);
    ck_assert_uint_lt(strlen(fake.log), sizeof fake.log - 1);
}

static uint64_t submit(struct op op)
{
    ck_assert_uint_lt(fake.ops, MOST);
    ck_assert_int_eq(fake.finished, 0); /* nothing is submitted after finish */
    fake.op[fake.ops] = op;
    fake.op[fake.ops].open = 1;
    return ++fake.ops;
}

static int fake_complete(const jb_host *host, const jb_llm_call *call, uint64_t *op_out, jb_error *err)
{
    (void)host;
    ck_assert_uint_eq(call->struct_size, sizeof *call);
    ck_assert_uint_eq(call->purpose, JB_PURPOSE_SAMPLE);
    ck_assert_uint_eq(call->message_count, 1);
    ck_assert_uint_eq(call->messages[0].role, JB_ROLE_USER);
    if (fake.samples_left == 0) return jb_err(err, JB_EBUDGET, "the budget of samples is used up");
    if (fake.samples_left > 0) fake.samples_left--;
    note("llm %llu.%llu %.*s\n", (unsigned long long)call->lane, (unsigned long long)call->turn, (int)call->messages[0].text.len,
         call->messages[0].text.ptr);
    *op_out = submit((struct op){ .kind = JB_OP_LLM, .lane = call->lane });
    return 0;
}

static int fake_reply(const jb_host *host, uint64_t llm_op, const jb_eval_request *req, uint64_t *candidate_out, uint64_t *op_out, jb_error *err)
{
    (void)host;
    ck_assert_uint_eq(req->last_stage, 0); /* what the study asks for */
    ck_assert_uint_eq(fake.op[llm_op - 1].kind, JB_OP_LLM);
    ck_assert_uint_eq(fake.op[llm_op - 1].lane, req->lane);
    ck_assert_int_eq(fake.op[llm_op - 1].open, 0);
    if (fake.eval_status != 0) return jb_err(err, fake.eval_status, "refused");
    ck_assert_uint_lt(fake.candidates, MOST);
    note("eval %llu of op %llu, parents", (unsigned long long)req->lane, (unsigned long long)llm_op);
    for (uint32_t i = 0; i < req->parent_count; i++) note(" %llu", (unsigned long long)req->parents[i]);
    note("\n");
    *candidate_out = ++fake.candidates;
    *op_out = submit((struct op){ .kind = JB_OP_EVAL, .lane = req->lane, .llm_op = llm_op, .candidate = *candidate_out });
    return 0;
}

static int fake_make(const jb_host *host, const jb_feedback_request *req, jb_feedback *out, jb_error *err)
{
    (void)host;
    ck_assert_uint_eq(req->struct_size, sizeof *req);
    ck_assert_uint_eq(out->struct_size, sizeof *out);
    if (fake.make_status != 0) return jb_err(err, fake.make_status, "no feedback");
    int n = snprintf(fake.text, sizeof fake.text, "level %u history %u on", req->level, req->history);
    out->best = 0;
    for (uint32_t i = 0; i < req->turn_count; i++) {
        uint32_t outcome = fake.outcome[req->turns[i] - 1];
        ck_assert_uint_ne(outcome, 0); /* only what was delivered */
        ck_assert_uint_ne(outcome, JB_OUTCOME_INFRA);
        n += snprintf(fake.text + n, sizeof fake.text - (size_t)n, " %llu", (unsigned long long)req->turns[i]);
        if (outcome == JB_OUTCOME_OK && out->best == 0) out->best = req->turns[i];
    }
    out->timed = (uint32_t)fake.timed;
    out->text = (jb_view){ fake.text, (uint64_t)n };
    return 0;
}

static int fake_finish(const jb_host *host, jb_error *err)
{
    (void)host, (void)err;
    note("finish\n");
    fake.finished++;
    return 0;
}

static int fake_render(const jb_host *host, const char *file, const jb_view *pairs, uint32_t pair_count, jb_view *out, jb_error *err)
{
    static char rendered[8192];
    (void)host;
    if (fake.render_status != 0) return jb_err(err, fake.render_status, "no template");
    if (strcmp(file, "prompt.md") == 0) {
        ck_assert_uint_eq(pair_count, 0);
        *out = (jb_view){ "TASK", 4 };
        return 0;
    }
    ck_assert_uint_eq(pair_count, 4);
    ck_assert_int_eq(memcmp(pairs[0].ptr, "task", 4), 0);
    ck_assert_int_eq(memcmp(pairs[1].ptr, "TASK", 4), 0);
    ck_assert_int_eq(memcmp(pairs[2].ptr, "feedback", 8), 0);
    int n = snprintf(rendered, sizeof rendered, "%s: %.*s", file, (int)pairs[3].len, pairs[3].ptr);
    *out = (jb_view){ rendered, (uint64_t)n };
    return 0;
}

static const jb_llm_service llm_service = { .struct_size = sizeof llm_service, .complete = fake_complete };
static const jb_eval_service eval_service = { .struct_size = sizeof eval_service, .reply = fake_reply };
static const jb_feedback_service feedback_service = { .struct_size = sizeof feedback_service, .make = fake_make };
static const jb_cell_service cell_service = { .struct_size = sizeof cell_service, .finish = fake_finish };
static const jb_template_service template_service = { .struct_size = sizeof template_service, .render = fake_render };

static const void *service(const jb_host *host, const char *id)
{
    static const struct { const char *id; const void *table; } rows[] = {
        { JB_SERVICE_LLM, &llm_service }, { JB_SERVICE_EVAL, &eval_service }, { JB_SERVICE_FEEDBACK, &feedback_service },
        { JB_SERVICE_CELL, &cell_service }, { JB_SERVICE_TEMPLATE, &template_service },
    };
    (void)host;
    if (fake.absent != NULL && strcmp(id, fake.absent) == 0) return NULL;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(id, rows[i].id) == 0) return rows[i].table;
    return NULL;
}

static const jb_host host = { .struct_size = sizeof host, .abi_major = 1, .service = service };

/* ---- driving it ---------------------------------------------------------------- */

static void *self;
static jb_config *config;
static jb_error err;

static void begin(const char *json)
{
    cJSON *values = json != NULL ? cJSON_Parse(json) : NULL;
    memset(&fake, 0, sizeof fake);
    fake.samples_left = -1;
    err = (jb_error)JB_ERROR_INIT;
    ck_assert_msg(jb_config_new(&component, values, &config, &err) == 0, "%s", err.message);
    ck_assert_int_eq(ops.create(&host, jb_config_data(config), &self, &err), 0);
    cJSON_Delete(values);
}

static void end(void)
{
    ops.destroy(self);
    jb_config_free(config);
}

/* End operation `op`; `outcome` is an evaluation's. */
static int deliver(uint64_t op, uint32_t status, uint32_t outcome)
{
    struct op *o = &fake.op[op - 1];
    jb_event e = { .struct_size = sizeof e, .kind = o->kind, .status = status, .op = op, .lane = o->lane };
    ck_assert_int_eq(o->open, 1);
    o->open = 0;
    if (o->kind == JB_OP_LLM) fake.samples += status == JB_OP_DONE;
    if (o->kind == JB_OP_EVAL) {
        e.candidate = o->candidate;
        e.outcome = status == JB_OP_FAILED ? JB_OUTCOME_INFRA : outcome;
        fake.outcome[o->candidate - 1] = e.outcome;
    }
    return ops.on_event(self, &e, &err);
}

/* Ends every open operation, in an order that `seed` picks (0: the oldest first);
 * the k-th candidate of the cell is `ok` when `oks` has bit k. */
static void drain(unsigned seed, uint64_t oks)
{
    for (;;) {
        uint64_t open[MOST], n = 0;
        for (uint64_t i = 1; i <= fake.ops; i++)
            if (fake.op[i - 1].open) open[n++] = i;
        if (n == 0) return;
        seed = seed ? seed * 1103515245u + 12345u : 0;
        uint64_t op = open[seed ? (seed >> 16) % n : 0];
        uint64_t k = fake.op[op - 1].candidate;
        ck_assert_int_eq(deliver(op, JB_OP_DONE, k > 0 && (oks >> (k - 1)) & 1 ? JB_OUTCOME_OK : JB_OUTCOME_WRONG), 0);
    }
}

static int count(const char *word)
{
    int n = 0;
    for (const char *s = fake.log; (s = strstr(s, word)) != NULL; s++) n++;
    return n;
}

/* ---- tests ------------------------------------------------------------------------ */

START_TEST(a_chain_is_told_of_its_turns)
{
    begin("{\"chains\":1,\"turns\":3,\"history\":5}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(0, 0);
    ck_assert_str_eq(fake.log,
                     "llm 0.0 TASK\neval 0 of op 1, parents\n"
                     "llm 0.1 repair.md: level 3 history 5 on 1\neval 0 of op 3, parents 1\n"
                     "llm 0.2 repair.md: level 3 history 5 on 1 2\neval 0 of op 5, parents 2\nfinish\n");
    ck_assert_int_eq(fake.samples, 3);
    end();
}
END_TEST

START_TEST(chains_are_independent_lanes)
{
    begin(NULL); /* 2 x 3 */
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_str_eq(fake.log, "llm 0.0 TASK\nllm 1.0 TASK\n");
    drain(0, 0);
    ck_assert_int_eq(count("llm "), 6);
    ck_assert_int_eq(count("history 8 on 1 3\n"), 1);
    ck_assert_int_eq(count("history 8 on 2 4\n"), 1);
    ck_assert_int_eq(fake.finished, 1);
    end();
}
END_TEST

/* Whatever the order in which chains end, each of them asks for the same. */
START_TEST(orders_do_not_matter)
{
    for (unsigned seed = 0; seed < 30; seed++) {
        begin("{\"chains\":4,\"turns\":3,\"stop_on\":\"budget\"}");
        ck_assert_int_eq(ops.start(self, &err), 0);
        drain(seed, 0);
        for (int lane = 0; lane < 4; lane++)
            for (int turn = 0; turn < 3; turn++) {
                char line[32];
                snprintf(line, sizeof line, "llm %d.%d ", lane, turn);
                ck_assert_int_eq(count(line), 1);
            }
        ck_assert_int_eq(count("eval "), 12);
        ck_assert_int_eq(fake.samples, 12);
        ck_assert_int_eq(fake.finished, 1);
        end();
    }
}
END_TEST

START_TEST(equal_events_give_equal_submissions)
{
    static char first[sizeof fake.log];
    for (unsigned seed = 1; seed < 10; seed++)
        for (int round = 0; round < 2; round++) {
            begin("{\"chains\":3,\"turns\":4}");
            ck_assert_int_eq(ops.start(self, &err), 0);
            drain(seed, 0x5a);
            if (round == 0) memcpy(first, fake.log, sizeof first);
            else ck_assert_str_eq(fake.log, first);
            end();
        }
}
END_TEST

/* stop_on, timed; which candidates are ok; turns used of 4, the last prompt's template */
static const struct { const char *stop_on; int timed; uint64_t oks; int turns; const char *file; } STOPS[] = {
    { "auto", 0, 0x0, 4, "repair.md" },   { "auto", 0, 0x1, 1, "TASK" },         { "auto", 0, 0x2, 2, "repair.md" },
    { "auto", 1, 0x1, 4, "repair.md" },   { "auto", 1, 0x4, 4, "improve.md" },   { "auto", 1, 0x8, 4, "repair.md" },
    { "correct", 1, 0x1, 1, "TASK" },     { "correct", 0, 0x4, 3, "repair.md" }, { "correct", 0, 0x0, 4, "repair.md" },
    { "budget", 0, 0x7, 4, "improve.md" }, { "budget", 1, 0x1, 4, "repair.md" }, { "budget", 0, 0x0, 4, "repair.md" },
};

START_TEST(chains_end_by_their_rule_and_unused_turns_cost_nothing)
{
    char json[128];
    snprintf(json, sizeof json, "{\"chains\":1,\"turns\":4,\"stop_on\":\"%s\"}", STOPS[_i].stop_on);
    begin(json);
    fake.timed = STOPS[_i].timed;
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(0, STOPS[_i].oks);
    ck_assert_int_eq(count("llm "), STOPS[_i].turns);
    ck_assert_int_eq(fake.samples, STOPS[_i].turns);
    ck_assert_int_eq(fake.finished, 1);
    char *last = NULL;
    for (char *s = fake.log; (s = strstr(s, "llm ")) != NULL; s++) last = s;
    ck_assert_msg(strncmp(last + strlen("llm 0.0 "), STOPS[_i].file, strlen(STOPS[_i].file)) == 0, "%s", last);
    end();
}
END_TEST

START_TEST(the_best_is_a_parent_of_what_follows_it)
{
    begin("{\"chains\":1,\"turns\":4,\"stop_on\":\"budget\"}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(0, 0x1); /* the first is right, what follows is wrong */
    ck_assert_int_eq(count("parents 1\n"), 1);
    ck_assert_int_eq(count("parents 2 1\n"), 1);
    ck_assert_int_eq(count("parents 3 1\n"), 1);
    end();
}
END_TEST

/* word, level, template of later turns, and whether the best becomes a parent */
static const struct { const char *word; int level; const char *file; int parent; } FEEDBACKS[] = {
    { "none", 1, "again.md", 0 }, { "outcome", 2, "repair.md", 1 }, { "full", 3, "repair.md", 1 },
};

START_TEST(levels_of_feedback)
{
    char json[128], line[64];
    snprintf(json, sizeof json, "{\"chains\":1,\"turns\":3,\"stop_on\":\"budget\",\"feedback\":\"%s\"}", FEEDBACKS[_i].word);
    begin(json);
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(0, 0x1);
    snprintf(line, sizeof line, "llm 0.2 %s: level %d history 8 on 1 2\n", FEEDBACKS[_i].file, FEEDBACKS[_i].level);
    ck_assert_msg(strstr(fake.log, line) != NULL, "no %s in\n%s", line, fake.log);
    ck_assert_int_eq(count("parents 2 1\n"), FEEDBACKS[_i].parent);
    end();
}
END_TEST

START_TEST(truncated_and_empty_replies_are_turns)
{
    begin("{\"chains\":1,\"turns\":3}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_int_eq(deliver(1, JB_OP_DONE, 0), 0);
    ck_assert_int_eq(deliver(2, JB_OP_DONE, JB_OUTCOME_TRUNCATED), 0);
    ck_assert_int_eq(deliver(3, JB_OP_DONE, 0), 0);
    ck_assert_int_eq(deliver(4, JB_OP_DONE, JB_OUTCOME_NO_CODE), 0);
    drain(0, 0);
    ck_assert_int_eq(count("llm "), 3);
    ck_assert_int_eq(fake.samples, 3);
    ck_assert_int_eq(count("on 1 2\n"), 1);
    end();
}
END_TEST

START_TEST(a_lost_step_is_repeated_and_is_no_turn)
{
    begin("{\"chains\":1,\"turns\":2}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_int_eq(deliver(1, JB_OP_FAILED, 0), 0);               /* the provider */
    ck_assert_int_eq(deliver(2, JB_OP_DONE, 0), 0);
    ck_assert_int_eq(deliver(3, JB_OP_FAILED, 0), 0);               /* the infrastructure */
    ck_assert_int_eq(deliver(4, JB_OP_DONE, JB_OUTCOME_WRONG), 0);
    ck_assert_int_eq(deliver(5, JB_OP_FAILED, 0), 0);
    ck_assert_int_eq(deliver(6, JB_OP_FAILED, 0), 0);
    drain(0, 0);
    ck_assert_str_eq(fake.log,
                     "llm 0.0 TASK\nllm 0.0 TASK\neval 0 of op 2, parents\neval 0 of op 2, parents\n"
                     "llm 0.1 repair.md: level 3 history 8 on 2\nllm 0.1 repair.md: level 3 history 8 on 2\nllm 0.1 repair.md: level 3 history 8 on 2\n"
                     "eval 0 of op 7, parents 2\nfinish\n");
    ck_assert_int_eq(fake.samples, 2); /* two replies were paid for, two turns were judged */
    end();
}
END_TEST

START_TEST(what_is_always_lost_ends_the_chain)
{
    for (int kind = 0; kind < 2; kind++)
        for (int retries = 0; retries < 4; retries++) {
            char json[64];
            snprintf(json, sizeof json, "{\"chains\":2,\"turns\":3,\"infra_retries\":%d}", retries);
            begin(json);
            ck_assert_int_eq(ops.start(self, &err), 0);
            for (uint64_t op = 1; op <= fake.ops; op++)
                ck_assert_int_eq(deliver(op, fake.op[op - 1].kind == JB_OP_LLM && kind == 1 ? JB_OP_DONE : JB_OP_FAILED, 0), 0);
            ck_assert_int_eq(count("llm "), kind == 0 ? 2 * (retries + 1) : 2);
            ck_assert_int_eq(count("eval "), kind == 0 ? 0 : 2 * (retries + 1));
            ck_assert_int_eq(fake.finished, 1);
            end();
        }
}
END_TEST

START_TEST(cancelled_operations_end_their_chain)
{
    begin("{\"chains\":3,\"turns\":3}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_int_eq(deliver(1, JB_OP_CANCELLED, 0), 0);
    ck_assert_int_eq(deliver(2, JB_OP_DONE, 0), 0);
    ck_assert_int_eq(deliver(4, JB_OP_CANCELLED, JB_OUTCOME_CANCELLED), 0);
    ck_assert_int_eq(fake.finished, 0);
    drain(0, 0);
    ck_assert_int_eq(count("llm 2."), 3);
    ck_assert_int_eq(count("llm 0."), 1);
    ck_assert_int_eq(count("llm 1."), 1);
    ck_assert_int_eq(fake.finished, 1);
    end();
}
END_TEST

/* chains, turns, samples the budget admits -> calls */
static const struct { int chains, turns, admits, calls; } BUDGETS[] = {
    { 2, 3, 6, 6 }, { 2, 3, 5, 5 }, { 2, 3, 1, 1 }, { 2, 3, 0, 0 }, { 3, 1, 9, 3 }, { 1, 9, 4, 4 },
};

START_TEST(a_budget_ends_the_cell_early)
{
    char json[64];
    snprintf(json, sizeof json, "{\"chains\":%d,\"turns\":%d}", BUDGETS[_i].chains, BUDGETS[_i].turns);
    begin(json);
    fake.samples_left = BUDGETS[_i].admits;
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(3, 0);
    ck_assert_int_eq(count("llm "), BUDGETS[_i].calls);
    ck_assert_int_eq(count("eval "), BUDGETS[_i].calls); /* what was paid for is evaluated */
    ck_assert_int_eq(fake.finished, 1);
    end();
}
END_TEST

START_TEST(errors_of_the_host_are_passed_on)
{
    begin(NULL);
    fake.render_status = JB_EPARSE;
    ck_assert_int_eq(ops.start(self, &err), JB_EPARSE);
    end();
    begin(NULL);
    ck_assert_int_eq(ops.start(self, &err), 0);
    fake.eval_status = JB_EIO;
    ck_assert_int_eq(deliver(1, JB_OP_DONE, 0), JB_EIO);
    end();
    begin(NULL);
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_int_eq(deliver(1, JB_OP_DONE, 0), 0);
    fake.make_status = JB_ENOMEM;
    ck_assert_int_eq(deliver(3, JB_OP_DONE, JB_OUTCOME_WRONG), JB_ENOMEM);
    end();
    begin(NULL);
    jb_event stray = { .struct_size = sizeof stray, .kind = JB_OP_LLM, .status = JB_OP_DONE, .lane = 7 };
    ck_assert_int_eq(ops.on_event(self, &stray, &err), JB_EINTERNAL);
    end();
}
END_TEST

START_TEST(refuses_a_host_without_its_services)
{
    static const char *const needed[] = { JB_SERVICE_LLM, JB_SERVICE_EVAL, JB_SERVICE_FEEDBACK, JB_SERVICE_CELL, JB_SERVICE_TEMPLATE };
    const struct config c = { .chains = 1, .turns = 1, .feedback = "full", .stop_on = "auto" };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        void *out = &fake;
        memset(&fake, 0, sizeof fake);
        fake.absent = needed[i];
        err = (jb_error)JB_ERROR_INIT;
        ck_assert_int_eq(ops.create(&host, &c, &out, &err), JB_EABI);
        ck_assert_ptr_eq(out, &fake);
        ck_assert_ptr_nonnull(strstr(err.message, needed[i]));
    }
}
END_TEST

START_TEST(options_have_bounds)
{
    static const char *const bad[] = { "{\"chains\":0}", "{\"turns\":0}", "{\"turns\":1001}", "{\"feedback\":\"some\"}", "{\"stop_on\":\"never\"}",
                                       "{\"history\":101}", "{\"infra_retries\":-1}", "{\"temperature\":3}" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cJSON *values = cJSON_Parse(bad[i]);
        jb_config *c = NULL;
        err = (jb_error)JB_ERROR_INIT;
        ck_assert_msg(jb_config_new(&component, values, &c, &err) != 0, "%s was accepted", bad[i]);
        cJSON_Delete(values);
    }
    const struct config huge = { .chains = 10000, .turns = 1000, .feedback = "full", .stop_on = "auto" };
    void *out = NULL;
    ck_assert_int_eq(ops.create(&host, &huge, &out, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "100000"));
    begin("{\"chains\":5,\"turns\":7}");
    ck_assert_int_eq(ops.samples(jb_config_data(config)), 35);
    end();
}
END_TEST

/* ---- the templates ------------------------------------------------------------------- */

START_TEST(templates_hold_task_and_feedback)
{
    static const char *const files[] = { "repair.md", "improve.md", "again.md" };
    const jb_view pairs[] = { text("task"), text("THE TASK"), text("feedback"), text("THE FEEDBACK\n") };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[512];
        jb_buf out = JB_BUF_INIT(1 << 20);
        err = (jb_error)JB_ERROR_INIT;
        snprintf(path, sizeof path, "%s/plugins/methods/iterative/%s", JB_SOURCE_DIR, files[i]);
        int status = jb_template_render_file(path, pairs, 4, NULL, &out, &err);
        ck_assert_msg(status == 0, "%s %s", err.message, err.where);
        ck_assert_int_eq(strncmp(out.ptr, "THE TASK\n", 9), 0); /* a prefix that providers can cache */
        ck_assert_ptr_nonnull(strstr(out.ptr, "\n\nTHE FEEDBACK\n"));
        if (i == 2) { /* told nothing: not by the template either */
            ck_assert_ptr_null(strstr(out.ptr, "right"));
            ck_assert_ptr_null(strstr(out.ptr, "correct"));
            ck_assert_ptr_null(strstr(out.ptr, "wrong"));
        }
        jb_buf_free(&out);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("iterative");
    TCase *tc = tcase_create("iterative");
    suite_add_tcase(s, tc);
    tcase_add_test(tc, a_chain_is_told_of_its_turns);
    tcase_add_test(tc, chains_are_independent_lanes);
    tcase_add_test(tc, orders_do_not_matter);
    tcase_add_test(tc, equal_events_give_equal_submissions);
    tcase_add_loop_test(tc, chains_end_by_their_rule_and_unused_turns_cost_nothing, 0, sizeof STOPS / sizeof *STOPS);
    tcase_add_test(tc, the_best_is_a_parent_of_what_follows_it);
    tcase_add_loop_test(tc, levels_of_feedback, 0, sizeof FEEDBACKS / sizeof *FEEDBACKS);
    tcase_add_test(tc, truncated_and_empty_replies_are_turns);
    tcase_add_test(tc, a_lost_step_is_repeated_and_is_no_turn);
    tcase_add_test(tc, what_is_always_lost_ends_the_chain);
    tcase_add_test(tc, cancelled_operations_end_their_chain);
    tcase_add_loop_test(tc, a_budget_ends_the_cell_early, 0, sizeof BUDGETS / sizeof *BUDGETS);
    tcase_add_test(tc, errors_of_the_host_are_passed_on);
    tcase_add_test(tc, refuses_a_host_without_its_services);
    tcase_add_test(tc, options_have_bounds);
    tcase_add_test(tc, templates_hold_task_and_feedback);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
