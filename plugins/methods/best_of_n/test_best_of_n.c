/* SPDX-License-Identifier: Apache-2.0 */
/* best_of_n: what it submits, on a fake host that records every call and ends
 * operations in any order, with budgets, failures and cancellations; and that the
 * prompt template renders with the facts that docs/formats.md promises. */
#include "best_of_n.c"

#include "core/base/error.h"
#include "core/options/options.h"
#include "core/suite/template.h"

#include <check.h>
#include <stdarg.h>
#include <string.h>

#define MOST 64

/* ---- a host ------------------------------------------------------------------ */

struct op { uint32_t kind; uint64_t lane; int open; };

static struct {
    char log[8192];                 /* one line a call, in order */
    struct op op[MOST];             /* by id - 1 */
    uint64_t ops;
    int samples_left, evals_left;   /* -1: unlimited */
    int llm_fails_at, eval_status;  /* lane whose call is refused with JB_EINTERNAL; what reply returns when not 0 */
    int render_status, finished;
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

static int submit(uint32_t kind, uint64_t lane, uint64_t *op_out)
{
    ck_assert_uint_lt(fake.ops, MOST);
    ck_assert_int_eq(fake.finished, 0); /* nothing is submitted after finish */
    fake.op[fake.ops] = (struct op){ kind, lane, 1 };
    *op_out = ++fake.ops;
    return 0;
}

static int complete(const jb_host *host, const jb_llm_call *call, uint64_t *op_out, jb_error *err)
{
    (void)host;
    ck_assert_uint_eq(call->struct_size, sizeof *call);
    ck_assert_uint_eq(call->purpose, JB_PURPOSE_SAMPLE);
    ck_assert_uint_eq(call->message_count, 1);
    ck_assert_uint_eq(call->messages[0].role, JB_ROLE_USER);
    ck_assert_ptr_null(call->role);
    if (fake.llm_fails_at == (int)call->lane) return jb_err(err, JB_EINTERNAL, "no");
    if (fake.samples_left == 0) return jb_err(err, JB_EBUDGET, "the budget of samples is used up");
    if (fake.samples_left > 0) fake.samples_left--;
    note("llm lane %llu turn %llu t %g \"%.*s\"\n", (unsigned long long)call->lane, (unsigned long long)call->turn, call->temperature,
         (int)call->messages[0].text.len, call->messages[0].text.ptr);
    return submit(JB_OP_LLM, call->lane, op_out);
}

static int reply(const jb_host *host, uint64_t llm_op, const jb_eval_request *req, uint64_t *candidate_out, uint64_t *op_out, jb_error *err)
{
    (void)host;
    ck_assert_uint_eq(req->struct_size, sizeof *req);
    ck_assert_uint_eq(req->last_stage, 0); /* what the study asks for */
    ck_assert_uint_eq(req->parent_count, 0);
    ck_assert_uint_eq(fake.op[llm_op - 1].kind, JB_OP_LLM);
    ck_assert_uint_eq(fake.op[llm_op - 1].lane, req->lane);
    if (fake.eval_status != 0) return jb_err(err, fake.eval_status, "refused");
    if (fake.evals_left == 0) return jb_err(err, JB_EBUDGET, "the budget of evaluations is used up");
    if (fake.evals_left > 0) fake.evals_left--;
    note("eval of op %llu lane %llu\n", (unsigned long long)llm_op, (unsigned long long)req->lane);
    *candidate_out = fake.ops + 100;
    return submit(JB_OP_EVAL, req->lane, op_out);
}

static int finish(const jb_host *host, jb_error *err)
{
    (void)host, (void)err;
    note("finish\n");
    fake.finished++;
    return 0;
}

static int render(const jb_host *host, const char *file, const jb_view *pairs, uint32_t pair_count, jb_view *out, jb_error *err)
{
    (void)host, (void)pairs;
    ck_assert_str_eq(file, "prompt.md");
    ck_assert_uint_eq(pair_count, 0);
    if (fake.render_status != 0) return jb_err(err, fake.render_status, "prompt.md:3: unknown key {{formla}}");
    *out = (jb_view){ "PROMPT", 6 };
    return 0;
}

static const jb_llm_service llm = { .struct_size = sizeof llm, .complete = complete };
static const jb_eval_service eval = { .struct_size = sizeof eval, .reply = reply };
static const jb_cell_service cell = { .struct_size = sizeof cell, .finish = finish };
static const jb_template_service templates = { .struct_size = sizeof templates, .render = render };

static const void *service(const jb_host *host, const char *id)
{
    (void)host;
    if (fake.absent != NULL && strcmp(id, fake.absent) == 0) return NULL;
    if (strcmp(id, JB_SERVICE_LLM) == 0) return &llm;
    if (strcmp(id, JB_SERVICE_EVAL) == 0) return &eval;
    if (strcmp(id, JB_SERVICE_CELL) == 0) return &cell;
    return strcmp(id, JB_SERVICE_TEMPLATE) == 0 ? &templates : NULL;
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
    fake.samples_left = fake.evals_left = fake.llm_fails_at = -1;
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

static int deliver(uint64_t op, uint32_t status)
{
    struct op *o = &fake.op[op - 1];
    jb_event e = { .struct_size = sizeof e, .kind = o->kind, .status = status, .op = op, .lane = o->lane, .outcome = JB_OUTCOME_OK };
    ck_assert_int_eq(o->open, 1);
    o->open = 0;
    return ops.on_event(self, &e, &err);
}

/* Ends every open operation with `status`, always the newest or always the oldest first. */
static void drain(uint32_t status, int newest_first)
{
    for (;;) {
        uint64_t op = 0;
        for (uint64_t i = 1; i <= fake.ops; i++)
            if (fake.op[i - 1].open && (op == 0 || newest_first)) op = i;
        if (op == 0) return;
        ck_assert_int_eq(deliver(op, status), 0);
    }
}

static int count(const char *word)
{
    int n = 0;
    for (const char *s = fake.log; (s = strstr(s, word)) != NULL; s++) n++;
    return n;
}

/* ---- tests ------------------------------------------------------------------------ */

START_TEST(asks_evaluates_and_finishes)
{
    begin("{\"samples\":2,\"temperature\":0.5}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_str_eq(fake.log, "llm lane 0 turn 0 t 0.5 \"PROMPT\"\nllm lane 1 turn 0 t 0.5 \"PROMPT\"\n");
    ck_assert_int_eq(deliver(2, JB_OP_DONE), 0);
    ck_assert_int_eq(deliver(1, JB_OP_DONE), 0);
    ck_assert_int_eq(deliver(3, JB_OP_DONE), 0);
    ck_assert_int_eq(fake.finished, 0); /* one evaluation is still open */
    ck_assert_int_eq(deliver(4, JB_OP_DONE), 0);
    ck_assert_str_eq(fake.log, "llm lane 0 turn 0 t 0.5 \"PROMPT\"\nllm lane 1 turn 0 t 0.5 \"PROMPT\"\neval of op 2 lane 1\neval of op 1 lane 0\nfinish\n");
    end();
}
END_TEST

START_TEST(twelve_by_default_in_any_order)
{
    for (int newest = 0; newest < 2; newest++) {
        begin(NULL);
        ck_assert_int_eq(ops.start(self, &err), 0);
        drain(JB_OP_DONE, newest);
        ck_assert_int_eq(count("llm lane"), 12);
        ck_assert_int_eq(count("eval of"), 12);
        ck_assert_int_eq(fake.finished, 1);
        end();
    }
}
END_TEST

START_TEST(equal_events_give_equal_submissions)
{
    char first[sizeof fake.log];
    for (int round = 0; round < 2; round++) {
        begin("{\"samples\":5}");
        ck_assert_int_eq(ops.start(self, &err), 0);
        ck_assert_int_eq(deliver(3, JB_OP_DONE), 0);
        ck_assert_int_eq(deliver(1, JB_OP_FAILED), 0);
        drain(JB_OP_DONE, 1);
        if (round == 0) memcpy(first, fake.log, sizeof first);
        else ck_assert_str_eq(fake.log, first);
        end();
    }
}
END_TEST

/* samples asked for, samples the budget admits, evaluations it admits */
static const struct { int samples, admits, evals, llm, evaluated; } BUDGETS[] = {
    { 12, 5, -1, 5, 5 }, { 12, 0, -1, 0, 0 }, { 3, 3, -1, 3, 3 }, { 1, 7, -1, 1, 1 }, { 6, -1, 2, 6, 2 }, { 6, 4, 0, 4, 0 },
};

START_TEST(a_budget_ends_the_cell_early)
{
    char json[64];
    snprintf(json, sizeof json, "{\"samples\":%d}", BUDGETS[_i].samples);
    begin(json);
    fake.samples_left = BUDGETS[_i].admits;
    fake.evals_left = BUDGETS[_i].evals;
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(JB_OP_DONE, 0);
    ck_assert_int_eq(count("llm lane"), BUDGETS[_i].llm);
    ck_assert_int_eq(count("eval of"), BUDGETS[_i].evaluated);
    ck_assert_int_eq(fake.finished, 1);
    end();
}
END_TEST

START_TEST(failures_and_cancellations_end_their_lane)
{
    begin("{\"samples\":4}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    ck_assert_int_eq(deliver(1, JB_OP_FAILED), 0);
    ck_assert_int_eq(deliver(2, JB_OP_CANCELLED), 0);
    ck_assert_int_eq(deliver(3, JB_OP_DONE), 0);
    ck_assert_int_eq(deliver(4, JB_OP_DONE), 0);
    ck_assert_int_eq(count("eval of"), 2);
    ck_assert_int_eq(deliver(5, JB_OP_FAILED), 0); /* infrastructure, while evaluating */
    ck_assert_int_eq(fake.finished, 0);
    ck_assert_int_eq(deliver(6, JB_OP_CANCELLED), 0);
    ck_assert_int_eq(fake.finished, 1);
    end();
    begin("{\"samples\":3}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    drain(JB_OP_FAILED, 0);
    ck_assert_int_eq(count("eval of"), 0);
    ck_assert_int_eq(fake.finished, 1);
    end();
}
END_TEST

START_TEST(errors_of_the_host_are_passed_on)
{
    begin("{\"samples\":3}");
    fake.render_status = JB_EPARSE;
    ck_assert_int_eq(ops.start(self, &err), JB_EPARSE);
    ck_assert_str_eq(err.message, "prompt.md:3: unknown key {{formla}}");
    end();
    begin("{\"samples\":3}");
    fake.llm_fails_at = 1;
    ck_assert_int_eq(ops.start(self, &err), JB_EINTERNAL);
    end();
    begin("{\"samples\":3}");
    ck_assert_int_eq(ops.start(self, &err), 0);
    fake.eval_status = JB_EIO;
    ck_assert_int_eq(deliver(1, JB_OP_DONE), JB_EIO);
    end();
}
END_TEST

START_TEST(refuses_a_host_without_its_services)
{
    static const char *const needed[] = { JB_SERVICE_LLM, JB_SERVICE_EVAL, JB_SERVICE_CELL, JB_SERVICE_TEMPLATE };
    struct config c = { 1, 1 };
    for (int i = 0; i < 4; i++) {
        void *out = &c;
        memset(&fake, 0, sizeof fake);
        fake.absent = needed[i];
        err = (jb_error)JB_ERROR_INIT;
        ck_assert_int_eq(ops.create(&host, &c, &out, &err), JB_EABI);
        ck_assert_ptr_eq(out, &c);
        ck_assert_ptr_nonnull(strstr(err.message, needed[i]));
    }
}
END_TEST

START_TEST(options_have_bounds)
{
    static const char *const bad[] = { "{\"samples\":0}", "{\"samples\":-3}", "{\"temperature\":2.5}", "{\"sample\":3}", "{\"samples\":\"many\"}" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cJSON *values = cJSON_Parse(bad[i]);
        jb_config *c = NULL;
        err = (jb_error)JB_ERROR_INIT;
        ck_assert_msg(jb_config_new(&component, values, &c, &err) != 0, "%s was accepted", bad[i]);
        cJSON_Delete(values);
    }
}
END_TEST

/* ---- the template ------------------------------------------------------------------- */

/* docs/formats.md, "Prompt facts" */
static const char *const FACTS[] = { "id", "name", "summary", "formula", "signature", "inputs_table", "shapes_table", "config_table",
                                     "full_shape", "policies", "judged", "reference_source" };

START_TEST(the_prompt_renders_from_the_documented_facts)
{
    cJSON *facts = cJSON_CreateObject();
    jb_buf text = JB_BUF_INIT(1 << 20);
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) {
        char value[64];
        snprintf(value, sizeof value, "<the %s>", FACTS[i]);
        cJSON_AddStringToObject(facts, FACTS[i], value);
    }
    err = (jb_error)JB_ERROR_INIT;
    int status = jb_template_render_file(JB_SOURCE_DIR "/plugins/methods/common/prompt.md", NULL, 0, facts, &text, &err);
    ck_assert_msg(status == 0, "%s %s", err.message, err.where);
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) {
        char value[64];
        snprintf(value, sizeof value, "<the %s>", FACTS[i]);
        ck_assert_msg(strstr(text.ptr, value) != NULL, "the prompt does not hold %s", FACTS[i]);
    }
    /* what the backend `scripted` looks for */
    ck_assert_ptr_nonnull(strstr(text.ptr, "Workload <the id> `<the name>`"));
    ck_assert_ptr_null(strstr(text.ptr, "{{"));
    jb_buf_free(&text);
    cJSON_Delete(facts);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("best_of_n");
    TCase *tc = tcase_create("best_of_n");
    suite_add_tcase(s, tc);
    tcase_add_test(tc, asks_evaluates_and_finishes);
    tcase_add_test(tc, twelve_by_default_in_any_order);
    tcase_add_test(tc, equal_events_give_equal_submissions);
    tcase_add_loop_test(tc, a_budget_ends_the_cell_early, 0, sizeof BUDGETS / sizeof *BUDGETS);
    tcase_add_test(tc, failures_and_cancellations_end_their_lane);
    tcase_add_test(tc, errors_of_the_host_are_passed_on);
    tcase_add_test(tc, refuses_a_host_without_its_services);
    tcase_add_test(tc, options_have_bounds);
    tcase_add_test(tc, the_prompt_renders_from_the_documented_facts);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
