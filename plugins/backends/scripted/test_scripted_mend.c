/* SPDX-License-Identifier: Apache-2.0 */
/* scripted, told what is wrong: it mends every fault of its decks that the feedback
 * points at, with the share that mend_rate says, keeps right kernels right, and
 * learns nothing where nothing is told.  The feedback is made by the core from
 * records as the harness writes them. */
#include "scripted.c"
#include "bank.c"
#include "compose.c"
#include "mend.c"

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/evaluate/extract.h"
#include "core/evaluate/feedback.h"
#include "core/options/options.h"

#include <check.h>

#define BANK JB_SOURCE_DIR "/plugins/backends/scripted/bank"
#define COUNT(a) (sizeof(a) / sizeof *(a))

static const char *const WORKLOADS[] = { "1p", "8p", "12p", "50k" };

/* ---- a backend ------------------------------------------------------------------- */

static char memory[1 << 17];

static void *arena_alloc(const jb_host *host, uint64_t bytes)
{
    (void)host;
    memset(memory, 0, sizeof memory);
    return bytes <= sizeof memory ? memory : NULL;
}

static const jb_arena_service arena = { .struct_size = sizeof arena, .alloc = arena_alloc };
static const void *service(const jb_host *host, const char *id)
{
    (void)host;
    return strcmp(id, JB_SERVICE_ARENA) == 0 ? &arena : NULL;
}
static const jb_host host = { .struct_size = sizeof host, .abi_major = 1, .service = service };

static jb_config *config;
static struct backend *self;

static void begin(double mend_rate)
{
    jb_error err = JB_ERROR_INIT;
    void *out;
    cJSON *values = cJSON_CreateObject();
    cJSON_AddNumberToObject(values, "mend_rate", mend_rate);
    cJSON_AddStringToObject(values, "bank", BANK);
    ck_assert_msg(jb_config_new(&component, values, &config, &err) == 0, "%s", err.message);
    ck_assert_int_eq(ops.create(&host, jb_config_data(config), &out, &err), 0);
    self = out;
    cJSON_Delete(values);
}

static void end(void)
{
    ops.destroy(self);
    jb_config_free(config);
}

static const struct bank *bank(const char *workload)
{
    jb_error err = JB_ERROR_INIT;
    const struct bank *b = bank_of(self, workload, &err);
    ck_assert_msg(b != NULL, "%s %s", err.message, err.where);
    return b;
}

static int is_right(const struct bank *b, const struct bank_entry *e) { return e >= b->right && e < b->right + b->right_count; }

/* ---- one turn ---------------------------------------------------------------------- */

struct turn {
    const struct bank_entry *entry; /* what the reply was made of */
    jb_extract x;
    jb_judgement judged;
};

static jb_request request(const jb_message *message, uint64_t cell, uint64_t lane, uint64_t turn)
{
    return (jb_request){ .struct_size = sizeof(jb_request), .message_count = 1, .messages = message, .temperature = 1, .lane = lane, .turn = turn,
                         .seed = (cell * 64 + lane) * 64 + turn + 1, .cell_seed = cell * 0x9E3779B97F4A7C15u };
}

/* What the harness says of a fault: taken from a run at the gate shapes.  The last
 * row is for faults of formulas that have no row of their own. */
static const struct says {
    const char *fault;
    uint32_t outcome, stage;
    const char *reason, *record;
} SAYS[] = {
    { "prose", JB_OUTCOME_NO_CODE, JB_STAGE_EXTRACT, "extract: the reply has no fenced code block", "{}" },
    { "cut-off", JB_OUTCOME_TRUNCATED, JB_STAGE_EXTRACT, "extract: the reply was cut off at its length limit", "{}" },
    { "syntax", JB_OUTCOME_SYNTAX, JB_STAGE_TRACE, "trace: line 13: SyntaxError: '(' was never closed", "{}" },
    { "no-kernel", JB_OUTCOME_NOT_PALLAS, JB_STAGE_INSPECT, "inspect: full/tpu: the module has no kernel", "{}" },
    { "bad-block", JB_OUTCOME_COMPILE_ERROR, JB_STAGE_EXPORT,
      "export: at shape full: ValueError: The Pallas TPU lowering currently requires that the last two dimensions of your block shape are divisible by 8 and 128", "{}" },
    { "vmem-overflow", JB_OUTCOME_COMPILE_ERROR, JB_STAGE_COMPILE, "compile: E1001: CompileTimeScopedVmemOom:",
      "{\"stages\":{\"compile\":{\"status\":\"fail\",\"error\":\"RESOURCE_EXHAUSTED: Ran out of memory in memory space vmem\"}}}" },
    { "lost-tail", JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: coverage: output 0 of kernel 'k': block (21, 0) of (22, 224) is never written",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"coverage\",\"when\":\"loop\",\"verdict\":\"fail\",\"score\":225,\"threshold\":0,\"reason\":\"block (21, 0) of (22, 224) is never written\",\"trials\":[]}]}}}" },
    { "zeros", JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on own inputs (shape gate, draw 0): rms error is 379 times the reference's own",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"error_ratio\",\"when\":\"loop\",\"verdict\":\"fail\",\"trials\":[{\"shape\":\"gate\",\"distribution\":\"own\",\"draw\":0,\"status\":\"fail\",\"score\":379.1,\"threshold\":1.1,"
      "\"worst\":[{\"output\":0,\"index\":[507,283],\"reference\":-8.57612,\"candidate\":0},{\"output\":0,\"index\":[1,2],\"reference\":8.27,\"candidate\":0}]}]}]}}}" },
    { "wrong-mask", JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on own inputs (shape gate, draw 0): row error is 779 times the reference's own",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"error_ratio\",\"when\":\"loop\",\"verdict\":\"fail\",\"trials\":[{\"shape\":\"gate\",\"distribution\":\"own\",\"draw\":0,\"status\":\"fail\",\"score\":779,\"threshold\":1.75,"
      "\"worst\":[{\"output\":0,\"index\":[0,1,0,31],\"reference\":-2.90625,\"candidate\":-0.0019989}]}]}]}}}" },
    { "bf16-accumulator", JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on own inputs (shape gate, draw 0): rms error is 2.01 times the reference's own",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"error_ratio\",\"when\":\"loop\",\"verdict\":\"fail\",\"trials\":[{\"shape\":\"gate\",\"distribution\":\"own\",\"draw\":0,\"status\":\"fail\",\"score\":2.01,\"threshold\":1.1,"
      "\"worst\":[{\"output\":0,\"index\":[423,352],\"reference\":2.38005,\"candidate\":2.29688}]}]}]}}}" },
    { "wrong-eps", JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on tiny inputs (shape gate, draw 0): rms error is 266 times the reference's own",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"error_ratio\",\"when\":\"loop\",\"verdict\":\"fail\",\"trials\":[{\"shape\":\"gate\",\"distribution\":\"tiny\",\"draw\":0,\"status\":\"fail\",\"score\":266,\"threshold\":1.1,"
      "\"worst\":[{\"output\":0,\"index\":[0,1,2],\"reference\":3.01534,\"candidate\":0.353516}]}]}]}}}" },
    { "no-max", JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: nonfinite on outlier inputs (shape gate, draw 0): 39889 elements are finite where they should not be",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"nonfinite\",\"when\":\"loop\",\"verdict\":\"fail\",\"trials\":[{\"shape\":\"gate\",\"distribution\":\"outlier\",\"draw\":0,\"status\":\"fail\",\"score\":39889,\"threshold\":0,"
      "\"worst\":[{\"output\":0,\"index\":[0,0,6,0],\"reference\":0.0471191,\"candidate\":\"nan\"}]}]}]}}}" },
    { NULL, JB_OUTCOME_WRONG, JB_STAGE_CHECK, "robust: error_ratio on own inputs (shape gate, draw 0): rms error is 40 times the reference's own",
      "{\"gates\":{\"robust\":{\"rows\":[{\"use\":\"error_ratio\",\"when\":\"loop\",\"verdict\":\"fail\",\"trials\":[{\"shape\":\"gate\",\"distribution\":\"own\",\"draw\":0,\"status\":\"fail\",\"score\":40,\"threshold\":1.1,"
      "\"worst\":[{\"output\":0,\"index\":[1,2],\"reference\":3.5,\"candidate\":1.25}]}]}]}}}" },
};

static const struct says *says(const struct bank_entry *e)
{
    size_t i = 0;
    while (SAYS[i].fault != NULL && strcmp(SAYS[i].fault, e->name) != 0) i++;
    return &SAYS[i];
}

/* The prompt of the turn behind `turns`: task and feedback.  Caller frees. */
static char *prompt_after(const char *workload, const struct bank *b, struct turn *turns, size_t count, uint32_t level)
{
    jb_buf p = JB_BUF_INIT(JB_FEEDBACK_TEXT_MAX);
    jb_attempt a[8];
    jb_error err = JB_ERROR_INIT;
    jb_buf_printf(&p, "# Task\n\nWorkload %s `a_name`: a summary\n\n```\ndef workload(A): ...\n```\n\n", workload);
    if (count > 0) {
        const struct bank_entry *e = turns[count - 1].entry;
        cJSON *record = jb_json_parse(is_right(b, e) ? "{}" : says(e)->record, strlen(is_right(b, e) ? "{}" : says(e)->record), &err);
        ck_assert_msg(record != NULL, "%s: %s", e->name, err.message);
        for (size_t i = 0; i < count; i++)
            a[i] = (jb_attempt){ .candidate = i + 1, .judged = &turns[i].judged, .median_us = (double)INFINITY, .source = { turns[i].x.source, turns[i].x.source_len } };
        a[count - 1].record = record;
        cJSON *f = jb_feedback_record(a, count, "robust", level, 8);
        ck_assert_int_eq(jb_feedback_text(f, &p), 0);
        cJSON_Delete(f);
        cJSON_Delete(record);
    }
    jb_buf_puts(&p, "## Next\n\nWrite the kernel again.\n");
    return jb_buf_detach(&p);
}

static void judge(struct turn *t, const struct bank *b)
{
    t->judged = (jb_judgement){ .outcome = JB_OUTCOME_OK };
    if (is_right(b, t->entry)) return;
    t->judged.outcome = says(t->entry)->outcome;
    t->judged.stage = says(t->entry)->stage;
    snprintf(t->judged.reason, sizeof t->judged.reason, "%s", says(t->entry)->reason);
}

/* Ask, and find out what the reply was made of. */
static void ask(struct turn *t, const char *workload, const char *prompt, uint64_t cell, uint64_t lane, uint64_t turn)
{
    const struct bank *b = bank(workload);
    jb_message m = { .role = JB_ROLE_USER, .text = { prompt, strlen(prompt) } };
    jb_request r = request(&m, cell, lane, turn);
    jb_reply out = { .struct_size = sizeof out };
    jb_error err = JB_ERROR_INIT;
    uint64_t state = r.seed;
    ck_assert_msg(ops.complete(self, &r, &out, &err) == 0, "%s %s", err.message, err.where);
    ck_assert_int_eq(jb_extract_reply(out.text, out.finish, "workload", &t->x, &err), 0);
    t->entry = choose(self, b, &r, &state);
    judge(t, b);
}

/* The reply that the fault makes, without the deal. */
static void commit(struct turn *t, const struct bank *b, const struct bank_entry *fault)
{
    struct text reply = { 0 };
    uint64_t state = 99;
    jb_error err = JB_ERROR_INIT;
    compose(self->dir, fault, &state, &reply);
    uint32_t finish = fault->made_by == BANK_CUT_OFF ? JB_FINISH_LENGTH : JB_FINISH_STOP;
    ck_assert_int_eq(jb_extract_reply((jb_view){ reply.ptr, reply.len }, finish, "workload", &t->x, &err), 0);
    t->entry = fault;
    judge(t, b);
    free(reply.ptr);
}

/* ---- tests ----------------------------------------------------------------------------- */

START_TEST(every_fault_is_mended_when_it_is_told)
{
    begin(1);
    for (size_t w = 0; w < COUNT(WORKLOADS); w++) {
        const struct bank *b = bank(WORKLOADS[w]);
        for (size_t f = 0; f < b->fault_count; f++)
            for (uint32_t level = JB_FEEDBACK_OUTCOME; level <= JB_FEEDBACK_FULL; level++) {
                struct turn t[2];
                commit(&t[0], b, &b->faults[f]);
                char *prompt = prompt_after(WORKLOADS[w], b, t, 1, level);
                ask(&t[1], WORKLOADS[w], prompt, 5, 1, 1);
                ck_assert_msg(is_right(b, t[1].entry), "%s %s, level %u: answered with %s to\n%s", WORKLOADS[w], b->faults[f].name, level, t[1].entry->name, prompt);
                if (b->faults[f].made_by == BANK_EDIT && strncmp(b->faults[f].from, "right_", 6) == 0) ck_assert_str_eq(t[1].entry->name, b->faults[f].from);
                jb_free(prompt);
                jb_extract_free(&t[0].x);
                jb_extract_free(&t[1].x);
            }
    }
    end();
}
END_TEST

/* The words of one fault beside the source of another point at nothing. */
START_TEST(words_and_source_must_agree)
{
    begin(1);
    for (size_t w = 0; w < COUNT(WORKLOADS); w++) {
        const struct bank *b = bank(WORKLOADS[w]);
        for (size_t f = 0; f < b->fault_count; f++)
            for (size_t g = 0; g < b->fault_count; g++) {
                struct turn t;
                struct told told;
                if (f == g || b->faults[f].made_by != BANK_EDIT || b->faults[g].made_by != BANK_EDIT || b->faults[f].marks == NULL || b->faults[g].marks == NULL) continue;
                commit(&t, b, &b->faults[f]);
                t.entry = &b->faults[g];
                judge(&t, b);
                char *prompt = prompt_after(WORKLOADS[w], b, &t, 1, JB_FEEDBACK_FULL);
                jb_message m = { .role = JB_ROLE_USER, .text = { prompt, strlen(prompt) } };
                jb_request r = request(&m, 1, 1, 1);
                ck_assert_int_eq(mend_read(&r, &told), 1);
                const struct bank_entry *seen = mend_recognise(&told, b);
                /* The fault whose source it is, when the words fit it too; never the one that is not there. */
                ck_assert_msg(seen == NULL || seen == &b->faults[f], "%s: the source of %s with the words of %s was taken for %s", WORKLOADS[w], b->faults[f].name,
                              b->faults[g].name, seen->name);
                jb_free(prompt);
                jb_extract_free(&t.x);
            }
    }
    end();
}
END_TEST

/* Chains of three turns over many seeds: the share that is right at each turn. */
struct rates { unsigned asked[3], right[3], after_wrong[3], mended[3]; };

static struct rates play(uint32_t level, unsigned seeds)
{
    struct rates r = { { 0 }, { 0 }, { 0 }, { 0 } };
    for (size_t w = 0; w < COUNT(WORKLOADS); w++) {
        const struct bank *b = bank(WORKLOADS[w]);
        for (uint64_t cell = 0; cell < seeds; cell++)
            for (uint64_t lane = 0; lane < 12; lane++) {
                struct turn t[3];
                for (size_t turn = 0; turn < 3; turn++) {
                    char *prompt = prompt_after(WORKLOADS[w], b, t, turn, level);
                    ask(&t[turn], WORKLOADS[w], prompt, cell * 8 + w, lane, turn);
                    int right = is_right(b, t[turn].entry), wrong_before = turn > 0 && !is_right(b, t[turn - 1].entry);
                    r.asked[turn]++;
                    r.right[turn] += (unsigned)right;
                    r.after_wrong[turn] += (unsigned)wrong_before;
                    r.mended[turn] += (unsigned)(wrong_before && right);
                    jb_free(prompt);
                }
                for (size_t turn = 0; turn < 3; turn++) jb_extract_free(&t[turn].x);
            }
    }
    return r;
}

static double share(unsigned part, unsigned of) { return of ? (double)part / of : 0; }

START_TEST(without_feedback_turns_teach_nothing)
{
    begin(0.7);
    struct rates r = play(JB_FEEDBACK_NONE, 40);
    for (size_t turn = 0; turn < 3; turn++) /* dealt, so exact: half of every twelve lanes */
        ck_assert_msg(2 * r.right[turn] == r.asked[turn], "turn %zu: %u of %u", turn, r.right[turn], r.asked[turn]);
    for (size_t turn = 1; turn < 3; turn++) { /* 960 chains: a standard error of 0.016 */
        double s = share(r.mended[turn], r.after_wrong[turn]);
        ck_assert_msg(s > 0.43 && s < 0.57, "turn %zu: %g of the wrong ones were right next", turn, s);
    }
    end();
}
END_TEST

START_TEST(with_feedback_turns_teach)
{
    for (uint32_t level = JB_FEEDBACK_OUTCOME; level <= JB_FEEDBACK_FULL; level++) {
        begin(0.7);
        struct rates r = play(level, 40);
        ck_assert_int_eq(2 * r.right[0] == r.asked[0], 1);
        /* mended with 0.7; of the rest half are right by luck: 0.85.  Once right, a chain stays right. */
        double s = share(r.mended[1], r.after_wrong[1]);
        ck_assert_msg(s > 0.79 && s < 0.91, "level %u: %g of the wrong ones were mended", level, s);
        for (size_t turn = 1; turn < 3; turn++) {
            ck_assert_msg(r.right[turn] == r.right[turn - 1] + r.mended[turn], "level %u, turn %zu: %u of %u, after %u", level, turn, r.right[turn], r.asked[turn], r.right[turn - 1]);
            ck_assert_uint_lt(r.right[turn], r.asked[turn]); /* not perfect either */
        }
        end();
    }
}
END_TEST

START_TEST(without_mending_feedback_is_ignored)
{
    begin(0);
    for (uint64_t lane = 0; lane < 12; lane++) {
        const struct bank *b = bank("8p");
        struct turn t[2], blind;
        commit(&t[0], b, &b->faults[0]);
        char *told = prompt_after("8p", b, t, 1, JB_FEEDBACK_FULL), *none = prompt_after("8p", b, t, 1, JB_FEEDBACK_NONE);
        ask(&t[1], "8p", told, 3, lane, 1);
        ask(&blind, "8p", none, 3, lane, 1);
        ck_assert_int_eq(is_right(b, t[1].entry), is_right(b, blind.entry));
        if (!is_right(b, blind.entry)) ck_assert_str_eq(t[1].entry->name, blind.entry->name);
        jb_free(told);
        jb_free(none);
        jb_extract_free(&t[0].x);
        jb_extract_free(&t[1].x);
        jb_extract_free(&blind.x);
    }
    end();
}
END_TEST

/* line of the bank, line of a source, do they match */
static const struct { const char *pattern, *line; int match; } LINES[] = {
    { "x = 1", "x = 1", 1 }, { "x = 1", "x = 12", 0 }, { "x = 12", "x = 1", 0 }, { "x = <<128|256>>", "x = 128", 1 }, { "x = <<128|256>>", "x = 256", 1 },
    { "x = <<128|256>>", "x = 512", 0 }, { "a<<1|2>>b<<3|4>>c", "a2b3c", 1 }, { "a<<1|2>>b<<3|4>>c", "a2b5c", 0 }, { "a<<1|12>>2", "a122", 1 },
    { "", "", 1 }, { "<<|x>>y", "y", 1 }, { "<<open", "<<open", 0 },
};

START_TEST(lines_with_choices)
{
    ck_assert_int_eq(is_line(LINES[_i].pattern, LINES[_i].line, strlen(LINES[_i].line)), LINES[_i].match);
}
END_TEST

START_TEST(prompts_cut_anywhere_are_read_safely)
{
    begin(1);
    const struct bank *b = bank("12p");
    struct turn t[2];
    commit(&t[0], b, &b->faults[0]);
    commit(&t[1], b, &b->faults[b->fault_count - 1]);
    char *prompt = prompt_after("12p", b, t, 2, JB_FEEDBACK_FULL);
    for (size_t n = 0; n <= strlen(prompt); n += 3) {
        char *exact = malloc(n > 0 ? n : 1); /* nothing is read beyond the view */
        memcpy(exact, prompt, n);
        jb_message m = { .role = JB_ROLE_USER, .text = { exact, n } };
        jb_request r = request(&m, 1, 1, 1);
        struct told told;
        if (mend_read(&r, &told)) (void)mend_recognise(&told, b);
        free(exact);
    }
    jb_free(prompt);
    jb_extract_free(&t[0].x);
    jb_extract_free(&t[1].x);
    end();
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scripted, told");
    TCase *tc = tcase_create("mend");
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 60);
    tcase_add_test(tc, every_fault_is_mended_when_it_is_told);
    tcase_add_test(tc, words_and_source_must_agree);
    tcase_add_test(tc, without_feedback_turns_teach_nothing);
    tcase_add_test(tc, with_feedback_turns_teach);
    tcase_add_test(tc, without_mending_feedback_is_ignored);
    tcase_add_loop_test(tc, lines_with_choices, 0, COUNT(LINES));
    tcase_add_test(tc, prompts_cut_anywhere_are_read_safely);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
