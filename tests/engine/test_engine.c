/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_engine.c - what a run does: delivery in order, ledger,
 * duplicates, retries, final rows, cancellation, refusals, and what is left when
 * something fails. */
#include "tests/engine/fake.h"

#include "core/engine/index.h"

#include <signal.h>
#include <sqlite3.h>
#include <sys/resource.h>

static fake_run run;

static void open_run(int64_t slots) { fake_open(&run, fake_root, "run", slots); }

static void only_cell(size_t i)
{
    run.cells[0] = run.cells[i];
    run.cell_count = 1;
}

static jb_records *records(void)
{
    jb_records *r = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_records_load(run.dir, &r, &err) == 0, "%s", err.message);
    return r;
}

static cJSON *result_of(const char *cell, int candidate)
{
    char name[700];
    jb_error err = JB_ERROR_INIT;
    snprintf(name, sizeof name, "%s/cells/%s/%d/result.json", run.dir, cell, candidate);
    cJSON *o = jb_json_read_file(name, 1u << 22, &err);
    ck_assert_msg(o != NULL, "%s", err.message);
    return o;
}

START_TEST(a_whole_run)
{
    open_run(4);
    ck_assert_msg(fake_go(&run) == 0, "%s", run.err.message);
    ck_assert_uint_eq(run.result.end, JB_END_DONE);
    ck_assert_uint_eq(run.result.cells_done, FAKE_CELL_COUNT);
    ck_assert_uint_eq(run.result.cells_failed, 0);
    jb_records *r = records();
    ck_assert_int_eq(r->complete, 1);
    ck_assert_ptr_nonnull(r->executor); /* what it said when it was ready */
    ck_assert_uint_eq(r->cells[0].candidate_count, 6);
    ck_assert_int_eq(r->cells[0].ledger.samples, 6);
    ck_assert_int_eq(r->cells[3].ledger.samples, 4); /* composed sources cost samples, too */
    for (size_t i = 0; i < r->cell_count; i++)
        for (size_t k = 0; k < r->cells[i].candidate_count; k++) ck_assert_uint_ne(r->cells[i].candidates[k].outcome, 0);
    jb_records_free(r);
}
END_TEST

START_TEST(events_come_in_the_order_of_submission)
{
    open_run(8);
    only_cell(0); /* the fake executor answers newest first */
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(fake_delivered_count, 12);
    for (size_t i = 0; i < fake_delivered_count; i++) ck_assert_uint_eq(fake_delivered[i], i + 1);
}
END_TEST

START_TEST(the_budget_is_exact)
{
    static const struct { int64_t budget; int64_t samples; int refusals; } rows[] = { { 6, 6, 0 }, { 4, 4, 2 }, { 0, 0, 6 }, { -1, 6, 0 } };
    open_run(2);
    only_cell(0);
    run.cells[0].samples = rows[_i].budget;
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    ck_assert_int_eq(r->cells[0].ledger.samples, rows[_i].samples);
    ck_assert_int_eq(fake_budget_refusals, rows[_i].refusals);
    ck_assert_uint_eq(r->cells[0].candidate_count, (size_t)rows[_i].samples);
    jb_records_free(r);
}
END_TEST

START_TEST(a_composed_source_beyond_the_budget_fails_the_cell)
{
    open_run(2);
    only_cell(3);
    run.cells[0].samples = 3;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(run.result.cells_failed, 1);
    ck_assert_int_eq(run.result.first_failure.code, JB_EBUDGET);
    ck_assert_ptr_nonnull(strstr(run.result.first_failure.message, "3 samples"));
}
END_TEST

START_TEST(provider_failures_are_no_candidates_and_cost_nothing)
{
    open_run(2);
    only_cell(0);
    fake_backend_fails = 1; /* always */
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    ck_assert_uint_eq(r->cells[0].candidate_count, 0);
    ck_assert_int_eq(r->cells[0].ledger.samples, 0);
    ck_assert_int_eq(r->cells[0].ledger.failures, 6);
    ck_assert_int_eq(fake_failed_events, 6);
    ck_assert_int_eq(fake_calls, 18); /* each tried three times */
    jb_records_free(r);
}
END_TEST

START_TEST(a_duplicate_costs_its_sample_and_no_evaluation)
{
    open_run(4);
    only_cell(3); /* tune: make two of its four sources equal by judging it twice */
    run.cells[1] = run.cells[0];
    run.cells[1].key = "again";
    run.cells[1].label = "again";
    run.cell_count = 2;
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    ck_assert_int_eq(r->cells[0].ledger.samples + r->cells[1].ledger.samples, 8);
    /* 4 sources and the finals of the three that were ok, each evaluated once. */
    ck_assert_int_eq(fake_submits, 7);
    for (size_t k = 0; k < 4; k++) ck_assert_uint_eq(r->cells[0].candidates[k].outcome, r->cells[1].candidates[k].outcome);
    jb_records_free(r);
}
END_TEST

START_TEST(duplicates_within_a_cell_are_told)
{
    open_run(8);
    only_cell(0);
    fake_samples = 40; /* four of forty seeds give the same text */
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    int64_t duplicates = 0, same = 0;
    for (size_t k = 0; k < r->cells[0].candidate_count; k++) duplicates += r->cells[0].candidates[k].duplicate;
    ck_assert_int_gt(duplicates, 0);
    for (size_t k = 1; k < r->cells[0].candidate_count; k++)
        for (size_t j = 0; j < k; j++)
            if (r->cells[0].candidates[k].source[0] && strcmp(r->cells[0].candidates[k].source, r->cells[0].candidates[j].source) == 0) { same++; break; }
    ck_assert_int_eq(duplicates, same);
    ck_assert_int_eq(r->cells[0].ledger.duplicates, duplicates);
    ck_assert_int_eq(r->cells[0].ledger.samples, 40);
    jb_records_free(r);
}
END_TEST

START_TEST(final_rows_try_the_next_best_and_merge)
{
    open_run(1);
    only_cell(3);
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    const jb_rec_candidate *k = r->cells[0].candidates;
    static const struct { uint32_t loop, outcome, final; } expected[] = {
        { JB_OUTCOME_WRONG, JB_OUTCOME_WRONG, 0 }, { JB_OUTCOME_OK, JB_OUTCOME_WRONG, 2 },
        { JB_OUTCOME_OK, JB_OUTCOME_WRONG, 2 },    { JB_OUTCOME_OK, JB_OUTCOME_OK, 1 },
    };
    for (size_t i = 0; i < 4; i++) {
        ck_assert_uint_eq(k[i].loop_outcome, expected[i].loop);
        ck_assert_uint_eq(k[i].outcome, expected[i].outcome);
        ck_assert_uint_eq(k[i].final, expected[i].final);
    }
    ck_assert_ptr_nonnull(strstr(k[1].reason, "final rows"));
    cJSON *result = result_of("8p+tune", 2);
    ck_assert_str_eq(jb_json_str(result, "outcome", ""), "wrong");
    ck_assert_str_eq(jb_json_str(jb_json_path(result, "record.final"), "verdict", ""), "fail");
    ck_assert_str_eq(jb_json_str(jb_json_path(result, "record.gates.robust"), "verdict", ""), "fail");
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_path(result, "record.gates.robust.rows")), 2); /* loop and final */
    ck_assert_str_eq(jb_json_str(jb_json_path(result, "record.gates.literature"), "verdict", ""), "pass");
    cJSON_Delete(result);
    jb_records_free(r);
}
END_TEST

START_TEST(finish_cancels_what_is_not_delivered)
{
    open_run(8);
    only_cell(2);
    for (int tries = 0; tries < 20; tries++) { /* some seed ends with work in flight */
        char seed[8];
        jb_error err = JB_ERROR_INIT;
        snprintf(seed, sizeof seed, "%d", tries);
        run.o.study_seed = seed;
        fake_reset();
        jb_fs_remove_tree(run.dir, &err);
        jb_fs_mkdirs(run.dir, &err);
        ck_assert_int_eq(fake_go(&run), 0);
        ck_assert_uint_eq(run.result.cells_failed, 0);
        if (!fake_cancelled_events) continue;
        jb_records *r = records();
        int64_t cancelled = 0;
        for (size_t k = 0; k < r->cells[0].candidate_count; k++) cancelled += r->cells[0].candidates[k].outcome == JB_OUTCOME_CANCELLED;
        ck_assert_int_le(cancelled, fake_cancelled_events);
        /* Every operation got its one event. */
        ck_assert_uint_eq(fake_delivered_count, r->cells[0].op_count);
        jb_records_free(r);
        return;
    }
    ck_abort_msg("no seed cancelled anything");
}
END_TEST

START_TEST(lost_jobs_are_tried_again_then_infra)
{
    open_run(2);
    only_cell(3);
    fake_lose_all = 1;
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    ck_assert_int_eq(run.result.infra, 4);
    for (size_t k = 0; k < 4; k++) {
        ck_assert_uint_eq(r->cells[0].candidates[k].outcome, JB_OUTCOME_INFRA);
        ck_assert_int_eq(r->cells[0].candidates[k].attempts, 3);
        ck_assert_ptr_nonnull(strstr(r->cells[0].candidates[k].reason, "the worker died"));
    }
    ck_assert_int_eq(fake_submits, 12);
    ck_assert_int_eq(fake_failed_events, 4);
    ck_assert_int_eq(r->cells[0].ledger.samples, 0); /* infrastructure costs no sample */
    jb_records_free(r);
}
END_TEST

START_TEST(a_record_that_is_no_json_is_infra)
{
    open_run(2);
    only_cell(3);
    fake_bad_json = 1;
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    ck_assert_uint_eq(r->cells[0].candidates[0].outcome, JB_OUTCOME_INFRA);
    ck_assert_ptr_nonnull(strstr(r->cells[0].candidates[0].reason, "no JSON"));
    jb_records_free(r);
}
END_TEST

START_TEST(too_much_infra_stops_the_run)
{
    open_run(2);
    only_cell(0);
    fake_samples = 60;
    fake_lose_all = 1;
    run.o.stop_after_infra_share = 0.2;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(run.result.end, JB_END_INFRA);
    ck_assert_int_ge(run.result.candidates, 10);
    ck_assert_int_lt(run.result.candidates, 60);
}
END_TEST

START_TEST(candidates_leave_their_files)
{
    size_t n;
    open_run(2);
    ck_assert_int_eq(fake_go(&run), 0);
    char *prompt = fake_slurp(run.dir, "cells/8p+bon+fake+s0/1/prompt.txt", &n);
    ck_assert_str_eq(prompt, "### user\n\nWrite 8p. \n");
    jb_free(prompt);
    jb_records *r = records();
    for (size_t k = 0; k < r->cells[0].candidate_count; k++) {
        char name[400];
        const jb_rec_candidate *c = &r->cells[0].candidates[k];
        snprintf(name, sizeof name, "%s/cells/8p+bon+fake+s0/%zu/candidate.py", run.dir, k + 1);
        ck_assert_int_eq(jb_fs_exists(name), c->outcome != JB_OUTCOME_NO_CODE && c->outcome != JB_OUTCOME_TRUNCATED);
        cJSON *result = result_of("8p+bon+fake+s0", (int)k + 1);
        ck_assert_str_eq(jb_json_str(result, "outcome", ""), jb_outcome_name(c->outcome));
        ck_assert_ptr_nonnull(jb_json_path(result, "record.stages.extract"));
        cJSON_Delete(result);
    }
    jb_records_free(r);
}
END_TEST

START_TEST(the_index_is_made_anew)
{
    sqlite3 *db;
    sqlite3_stmt *s;
    jb_error err = JB_ERROR_INIT;
    char path[300];
    open_run(2);
    ck_assert_int_eq(fake_go(&run), 0);
    jb_records *r = records();
    fake_spit(run.dir, "index.sqlite.tmp", "rubbish of a killed process", 27);
    for (int twice = 0; twice < 2; twice++) ck_assert_msg(jb_index_rebuild(run.dir, r, &err) == 0, "%s", err.message);
    size_t candidates = 0;
    for (size_t i = 0; i < r->cell_count; i++) candidates += r->cells[i].candidate_count;
    snprintf(path, sizeof path, "%s/index.sqlite", run.dir);
    ck_assert_int_eq(sqlite3_open(path, &db), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(db, "SELECT count(*), sum(outcome='ok') FROM candidate", -1, &s, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(s), SQLITE_ROW);
    ck_assert_int_eq(sqlite3_column_int(s, 0), (int)candidates);
    ck_assert_int_gt(sqlite3_column_int(s, 1), 0);
    sqlite3_finalize(s);
    sqlite3_close(db);
    jb_records_free(r);
}
END_TEST

/* ---- methods and backends that misbehave ------------------------------------------------ */

static const jb_host *kept_host;

static int bad_start(void *self, jb_error *err)
{
    kept_host = ((fake_method *)self)->host;
    return jb_err(err, JB_EINVAL, "I never start");
}
FAKE_METHOD(BAD, bad_start, tune_event, JB_COMP_NO_BACKEND);

START_TEST(a_failing_method_fails_its_cell_only)
{
    open_run(2);
    run.cells[1].method = &BAD;
    run.cells[1].backend = NULL;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(run.result.cells_failed, 1);
    ck_assert_uint_eq(run.result.cells_done, FAKE_CELL_COUNT);
    ck_assert_ptr_nonnull(strstr(run.result.first_failure.message, "I never start"));
    jb_records *r = records();
    ck_assert_int_eq(r->cells[1].failed, 1);
    ck_assert_uint_eq(r->cells[0].candidate_count, 6);
    jb_records_free(r);
}
END_TEST

static int greedy_event(void *self, const jb_event *e, jb_error *err)
{
    fake_method *m = self;
    uint64_t op = 0;
    jb_error ignored = JB_ERROR_INIT;
    if (e->status == JB_OP_CANCELLED) return 0;
    /* An operation that has not ended, an unknown one, an evaluation: each refused by name. */
    ck_assert_int_eq(m->eval->reply(m->host, 2, NULL, NULL, &op, &ignored), JB_ESTATE);
    ck_assert_int_eq(m->eval->reply(m->host, 99, NULL, NULL, &op, &ignored), JB_ENOTFOUND);
    ck_assert_uint_eq(op, 0);
    uint64_t parent = 7;
    jb_eval_request req = { .struct_size = sizeof req, .parents = &parent, .parent_count = 1 };
    ck_assert_int_eq(m->eval->source(m->host, (jb_view){ "x", 1 }, &req, NULL, NULL, &ignored), JB_ENOTFOUND);
    req = (jb_eval_request){ .struct_size = sizeof req, .last_stage = 99 };
    ck_assert_int_eq(m->eval->source(m->host, (jb_view){ "x", 1 }, &req, NULL, NULL, &ignored), JB_EINVAL);
    jb_llm_call call = { .struct_size = sizeof call, .purpose = 99 };
    ck_assert_int_eq(m->llm->complete(m->host, &call, NULL, &ignored), JB_EINVAL);
    call.purpose = JB_PURPOSE_PLAN;
    ck_assert_int_eq(m->llm->complete(m->host, &call, NULL, &ignored), JB_EINVAL); /* no messages */
    call.struct_size = 8;
    ck_assert_int_eq(m->llm->complete(m->host, &call, NULL, &ignored), JB_EINVAL);
    ck_assert_ptr_null(m->host->service(m->host, "no-such-service/1"));
    ck_assert_ptr_null(m->host->service(m->host, JB_SERVICE_SESSION));
    ck_assert_ptr_null(m->host->service(m->host, JB_SERVICE_NESTED));
    kept_host = m->host;
    return m->cell->finish(m->host, err);
}
FAKE_METHOD(GREEDY, bon_start, greedy_event, 0);

START_TEST(services_refuse_nonsense)
{
    open_run(2);
    only_cell(0);
    run.cells[0].method = &GREEDY;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(run.result.cells_failed, 0);
}
END_TEST

static int late_destroy_result;
static void late_destroy(void *self)
{
    fake_method *m = self;
    jb_error err = JB_ERROR_INIT;
    late_destroy_result = m->eval->source(m->host, (jb_view){ "x", 1 }, NULL, NULL, NULL, &err);
    free(m);
}
static const jb_method_ops LATE_OPS = { .struct_size = sizeof LATE_OPS, .create = fm_create, .destroy = late_destroy, .start = tune_start, .on_event = tune_event };
static const jb_component LATE = { .struct_size = sizeof LATE, .kind = JB_KIND_METHOD, .name = "late", .summary = "x", .ops = &LATE_OPS };

START_TEST(outside_of_a_handler_nothing_can_be_submitted)
{
    open_run(2);
    only_cell(3);
    run.cells[0].method = &LATE;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_int_eq(late_destroy_result, JB_ESTATE);
}
END_TEST

static int remote_encode(void *self, const jb_request *req, jb_http_request *out, jb_error *err)
{
    (void)self; (void)req; (void)out;
    return jb_err(err, JB_EINTERNAL, "must not be called");
}
static const jb_backend_ops REMOTE_OPS = { .struct_size = sizeof REMOTE_OPS, .create = fb_create, .encode = remote_encode };
static const jb_component REMOTE = { .struct_size = sizeof REMOTE, .kind = JB_KIND_BACKEND, .name = "remote", .summary = "x", .ops = &REMOTE_OPS };

START_TEST(half_a_backend_is_refused_before_anything_is_paid)
{
    open_run(2);
    run.cells[1].backend = &REMOTE; /* encodes, but can't decode */
    ck_assert_int_eq(fake_go(&run), JB_EABI);
    ck_assert_ptr_nonnull(strstr(run.err.message, "remote"));
    ck_assert_ptr_nonnull(strstr(run.err.message, "decode"));
    ck_assert_int_eq(fake_calls, 0);
}
END_TEST

START_TEST(the_wall_budget_ends_a_run_that_hangs)
{
    open_run(2);
    only_cell(3);
    fake_hang = 1;
    jb_amounts second = JB_NO_BUDGET;
    second.of[JB_UNIT_WALL] = 1000;
    run.o.budget = &second;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(run.result.end, JB_END_BUDGET);
    fake_hang = 0;
    run.o.budget = NULL;
    ck_assert_int_eq(fake_go(&run), 0); /* nothing finished was lost, and it goes on */
    ck_assert_uint_eq(run.result.end, JB_END_DONE);
}
END_TEST

static int alive, most_alive;
static int serial_create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    if (++alive > most_alive) most_alive = alive;
    return fm_create(host, config, out, err);
}
static void serial_destroy(void *self)
{
    alive--;
    free(self);
}
static const jb_method_ops SERIAL_OPS = { .struct_size = sizeof SERIAL_OPS, .create = serial_create, .destroy = serial_destroy, .start = iter_start, .on_event = iter_event };

START_TEST(a_serial_component_has_one_instance_at_a_time)
{
    const jb_component serial = { .struct_size = sizeof serial, .flags = _i ? JB_COMP_SERIAL : 0, .kind = JB_KIND_METHOD, .name = "serial", .summary = "x", .ops = &SERIAL_OPS };
    open_run(16);
    alive = most_alive = 0;
    fake_delay = 50; /* long enough for idle slots to ask for the next cell */
    for (size_t i = 0; i < 3; i++) run.cells[i].method = &serial;
    run.cell_count = 3;
    ck_assert_int_eq(fake_go(&run), 0);
    ck_assert_uint_eq(run.result.cells_done, 3);
    ck_assert_int_eq(alive, 0);
    if (_i) ck_assert_int_eq(most_alive, 1);
    else ck_assert_int_gt(most_alive, 1);
}
END_TEST

/* ---- the worst of disks -------------------------------------------------------------------- */

START_TEST(a_full_disk_leaves_a_whole_journal)
{
    size_t len;
    struct rlimit was, small;
    open_run(2);
    only_cell(0);
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    small = was;
    small.rlim_cur = 5000; /* the journal meets it in the middle of a line */
    fake_manifest(&run);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    run.o.cell_count = run.cell_count;
    int rc = jb_engine_run(&run.o, &run.result, &run.err);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &was), 0);
    ck_assert_int_eq(rc, JB_EIO);
    ck_assert_ptr_nonnull(strstr(run.err.message, "journal.jsonl"));
    char *journal = fake_slurp(run.dir, "journal.jsonl", &len);
    ck_assert_uint_gt(len, 1000);
    ck_assert_int_eq(journal[len - 1], '\n');
    jb_free(journal);
    run.err = (jb_error)JB_ERROR_INIT;
    ck_assert_msg(fake_go(&run) == 0, "%s", run.err.message); /* and goes on once there is room */
    ck_assert_uint_eq(run.result.torn_bytes, 0);
    jb_records *r = records();
    ck_assert_uint_eq(r->cells[0].candidate_count, 6);
    jb_records_free(r);
}
END_TEST

START_TEST(a_folder_that_is_a_file_is_an_error)
{
    open_run(2);
    fake_manifest(&run);
    fake_spit(run.dir, "blobs", "x", 1);
    ck_assert_int_ne(fake_go(&run), 0);
    ck_assert_ptr_nonnull(strstr(run.err.message, "blobs"));
}
END_TEST

static void setup(void) { fake_setup(); }
static void teardown(void)
{
    fake_close(&run);
    fake_teardown();
}

int main(void)
{
    Suite *s = suite_create("engine");
    TCase *c = tcase_create("engine");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_whole_run);
    tcase_add_test(c, events_come_in_the_order_of_submission);
    tcase_add_loop_test(c, the_budget_is_exact, 0, 4);
    tcase_add_test(c, a_composed_source_beyond_the_budget_fails_the_cell);
    tcase_add_test(c, provider_failures_are_no_candidates_and_cost_nothing);
    tcase_add_test(c, a_duplicate_costs_its_sample_and_no_evaluation);
    tcase_add_test(c, duplicates_within_a_cell_are_told);
    tcase_add_test(c, final_rows_try_the_next_best_and_merge);
    tcase_add_test(c, finish_cancels_what_is_not_delivered);
    tcase_add_test(c, lost_jobs_are_tried_again_then_infra);
    tcase_add_test(c, a_record_that_is_no_json_is_infra);
    tcase_add_test(c, too_much_infra_stops_the_run);
    tcase_add_test(c, candidates_leave_their_files);
    tcase_add_test(c, the_index_is_made_anew);
    tcase_add_test(c, a_failing_method_fails_its_cell_only);
    tcase_add_test(c, services_refuse_nonsense);
    tcase_add_test(c, outside_of_a_handler_nothing_can_be_submitted);
    tcase_add_test(c, half_a_backend_is_refused_before_anything_is_paid);
    tcase_add_test(c, the_wall_budget_ends_a_run_that_hangs);
    tcase_add_loop_test(c, a_serial_component_has_one_instance_at_a_time, 0, 2);
    tcase_add_test(c, a_full_disk_leaves_a_whole_journal);
    tcase_add_test(c, a_folder_that_is_a_file_is_an_error);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
