/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_learning.c - methods that learn from feedback: the service
 * feedback/1, and the real plugin `iterative` on a backend whose replies depend on
 * every byte of the prompt, so that one feedback that differs would change the
 * rest of its chain.  Slots, kills at every line of the journal and lost work must
 * not show. */
#include "tests/engine/fake.h"

#include "core/registry/registry.h"

static jb_registry *registry;
static const jb_component *iterative;
static cJSON *options;

/* ---- a backend that reads its prompt ------------------------------------------------ */

static int fb_read_prompt(void *self, const jb_request *req, jb_reply *out, jb_error *err)
{
    jb_request q = *req;
    for (uint64_t i = 0; i < req->messages[0].text.len; i++) q.seed = (q.seed ^ (unsigned char)req->messages[0].text.ptr[i]) * 1099511628211u;
    q.seed >>= 7;
    return fb_complete(self, &q, out, err);
}

static const jb_backend_ops READER_OPS = { .struct_size = sizeof READER_OPS, .create = fb_create, .complete = fb_read_prompt };
static const jb_component READER = { .struct_size = sizeof READER, .flags = JB_COMP_NO_MODEL, .kind = JB_KIND_BACKEND, .name = "reader", .summary = "fake", .ops = &READER_OPS };

/* ---- runs ---------------------------------------------------------------------------- */

static void open_learning(fake_run *r, const char *name, int64_t slots)
{
    fake_open(r, fake_root, name, slots);
    r->cell_count = 2;
    for (size_t i = 0; i < 2; i++) {
        static const char *const keys[] = { "8p+it+reader+s0", "8p+it+reader+s1" };
        r->cells[i] = (jb_cell_plan){ .key = keys[i], .label = keys[i], .identity = keys[i], .method = iterative, .method_options = options,
                                      .method_data = JB_BUILD_DIR "/plugins/methods/iterative", .backend = &READER, .facts = r->facts[0],
                                      .job = r->jobs[0], .samples = -1, .expected = -1 };
    }
    /* All that the real template asks for. */
    static const char *const FACTS[] = { "name", "summary", "formula", "signature", "inputs_table", "shapes_table", "config_table",
                                         "full_shape", "policies", "judged", "reference_source" };
    for (size_t i = 0; i < sizeof FACTS / sizeof *FACTS; i++) jb_json_set_str(r->facts[0], FACTS[i], FACTS[i]);
}

static char *view_after(fake_run *r)
{
    ck_assert_msg(fake_go(r) == 0, "%s", r->err.message);
    ck_assert_uint_eq(r->result.end, JB_END_DONE);
    ck_assert_msg(r->result.cells_failed == 0, "%s", r->result.first_failure.message);
    return fake_view(r->dir);
}

static char *whole, *journal, whole_dir[256];
static size_t journal_len;

static void setup(void)
{
    jb_error err = JB_ERROR_INIT;
    fake_run r;
    fake_setup();
    ck_assert_msg(jb_registry_open(JB_BUILD_DIR "/plugins/methods", &registry, &err) == 0, "%s", err.message);
    ck_assert_msg(jb_registry_find(registry, JB_KIND_METHOD, "iterative", &iterative, &err) == 0, "%s", err.message);
    options = jb_json_parse("{\"chains\":4,\"turns\":4,\"stop_on\":\"budget\"}", strlen("{\"chains\":4,\"turns\":4,\"stop_on\":\"budget\"}"), &err);
    ck_assert_ptr_nonnull(options);
    open_learning(&r, "whole", 3);
    whole = view_after(&r);
    journal = fake_slurp(r.dir, "journal.jsonl", &journal_len);
    snprintf(whole_dir, sizeof whole_dir, "%s", r.dir);
    fake_close(&r);
}

static void teardown(void)
{
    jb_free(whole);
    jb_free(journal);
    cJSON_Delete(options);
    jb_registry_free(registry);
    fake_teardown();
}

START_TEST(a_run_that_learns)
{
    /* Later prompts hold feedback, and all kinds of outcomes came into it. */
    static const char *const words[] = { "## Feedback on attempt 3", "Outcome: wrong", "Outcome: ok", "Outcome: no-code", "Outcome: truncated",
                                         "Outcome: trace-error", "Outcome: suspicious", "Best correct source so far", "\"samples\": 32" };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) ck_assert_msg(strstr(whole, words[i]) != NULL, "no \"%s\" in the run", words[i]);
    /* Final draws reach no prompt, although final rows failed in this run. */
    ck_assert_ptr_nonnull(strstr(whole, "\"final\""));
    ck_assert_ptr_null(strstr(whole, "Error: final rows"));
}
END_TEST

START_TEST(slots_do_not_show)
{
    static const int64_t SLOTS[] = { 1, 2, 8, 32 };
    for (size_t i = 0; i < sizeof SLOTS / sizeof SLOTS[0]; i++) {
        fake_run r;
        char name[32];
        fake_reset();
        snprintf(name, sizeof name, "slots%lld", (long long)SLOTS[i]);
        open_learning(&r, name, SLOTS[i]);
        char *view = view_after(&r);
        if (SLOTS[i] == 1) ck_assert_int_eq(fake_most_in_flight, 1);
        if (SLOTS[i] == 8) ck_assert_int_gt(fake_most_in_flight, 1);
        same_view(name, whole, view);
        jb_free(view);
        fake_close(&r);
    }
}
END_TEST

START_TEST(killed_at_every_line)
{
    int n = 0;
    for (size_t at = 0; at <= journal_len; at++) {
        if (at != 0 && journal[at - 1] != '\n') continue;
        fake_run r;
        char command[1000], what[64];
        jb_error err = JB_ERROR_INIT;
        fake_reset();
        open_learning(&r, "cut", n++ % 2 ? 1 : 8);
        snprintf(command, sizeof command, "cp -r '%s/blobs' '%s/blobs'", whole_dir, r.dir);
        ck_assert_int_eq(system(command), 0);
        fake_spit(r.dir, "journal.jsonl", journal, at);
        snprintf(what, sizeof what, "cut at byte %zu of %zu", at, journal_len);
        char *view = view_after(&r);
        same_view(what, whole, view);
        jb_free(view);
        fake_close(&r);
        jb_fs_remove_tree(r.dir, &err);
    }
    ck_assert_int_gt(n, 100);
}
END_TEST

START_TEST(a_finished_run_is_replayed_for_nothing)
{
    fake_run r;
    char command[1000];
    fake_reset();
    open_learning(&r, "again", 2);
    snprintf(command, sizeof command, "cp -r '%s/blobs' '%s/journal.jsonl' '%s/'", whole_dir, whole_dir, r.dir);
    ck_assert_int_eq(system(command), 0);
    char *view = view_after(&r);
    same_view("again", whole, view);
    ck_assert_int_eq(fake_calls, 0);
    ck_assert_int_eq(fake_submits, 0);
    jb_free(view);
    fake_close(&r);
}
END_TEST

START_TEST(infrastructure_that_is_away_ends_chains_without_a_turn)
{
    fake_run r;
    jb_records *rec = NULL;
    fake_reset();
    open_learning(&r, "lost", 4);
    fake_lose_all = 1;
    char *view = view_after(&r);
    ck_assert_int_eq(jb_records_load(r.dir, &rec, &r.err), 0);
    /* Each chain paid for one reply and tried to have it judged three times; prose and cut replies need no executor. */
    ck_assert_int_ge(rec->cells[0].ledger.samples, 4);
    for (size_t i = 0; i < rec->cells[0].candidate_count; i++) {
        uint32_t o = rec->cells[0].candidates[i].outcome;
        ck_assert_msg(o == JB_OUTCOME_INFRA || o == JB_OUTCOME_NO_CODE || o == JB_OUTCOME_TRUNCATED, "outcome %u", o);
    }
    jb_records_free(rec);
    jb_free(view);
    fake_close(&r);
}
END_TEST

/* ---- the service ------------------------------------------------------------------------ */

static int probe_checks, probe_lost;

static int make(fake_method *m, const uint64_t *turns, uint32_t count, uint32_t level, jb_feedback *out)
{
    const jb_feedback_service *f = m->host->service(m->host, JB_SERVICE_FEEDBACK);
    jb_feedback_request req = { .struct_size = sizeof req, .level = level, .turns = turns, .turn_count = count, .history = 8 };
    jb_error err = JB_ERROR_INIT;
    *out = (jb_feedback){ .struct_size = sizeof *out };
    int rc = f->make(m->host, &req, out, &err);
    ck_assert_int_eq(rc, err.code);
    return rc;
}

static int probe_start(void *self, jb_error *err)
{
    fake_method *m = self;
    uint64_t none = 1;
    jb_feedback out;
    ck_assert_int_eq(make(m, &none, 1, JB_FEEDBACK_FULL, &out), JB_ENOTFOUND);
    return m->eval->source(m->host, (jb_view){ "# wrong\ndef workload(A): return 1\n", 35 }, NULL, NULL, NULL, err);
}

static int probe_event(void *self, const jb_event *e, jb_error *err)
{
    fake_method *m = self;
    uint64_t ids[2] = { 1, 2 };
    jb_feedback out, again;
    if (e->candidate == 1 && probe_lost) {
        ck_assert_uint_eq(e->status, JB_OP_FAILED);
        ck_assert_int_eq(make(m, ids, 1, JB_FEEDBACK_FULL, &out), JB_EINVAL); /* it has no result */
        probe_checks++;
        return 0;
    }
    if (e->candidate == 1) {
        ck_assert_int_eq(m->eval->source(m->host, (jb_view){ "# ok\ndef workload(A): return 2\n", 31 }, NULL, NULL, NULL, err), 0);
        ck_assert_int_eq(make(m, ids, 2, JB_FEEDBACK_FULL, &out), JB_ESTATE); /* 2 was not delivered */
        ck_assert_int_eq(make(m, ids, 0, JB_FEEDBACK_FULL, &out), JB_EINVAL);
        ck_assert_int_eq(make(m, ids, 1, 0, &out), JB_EINVAL);
        ck_assert_int_eq(make(m, ids, 1, 4, &out), JB_EINVAL);
        ck_assert_int_eq(make(m, ids, 1, JB_FEEDBACK_FULL, &out), 0);
        ck_assert_int_eq(make(m, ids, 1, JB_FEEDBACK_FULL, &again), 0);
        ck_assert_uint_eq(out.text.len, again.text.len);
        ck_assert_mem_eq(out.text.ptr, again.text.ptr, out.text.len);
        ck_assert_uint_eq(out.best, 0);
        ck_assert_uint_eq(out.timed, 0);
        probe_checks++;
        return 0;
    }
    ck_assert_int_eq(make(m, ids, 2, JB_FEEDBACK_NONE, &out), 0);
    ck_assert_uint_eq(out.best, 2);
    ck_assert_ptr_nonnull(memmem(out.record.ptr, out.record.len, "\"level\":\"none\"", 14));
    ck_assert_ptr_null(memmem(out.text.ptr, out.text.len, "Outcome", 7));
    probe_checks++;
    return 0;
}

FAKE_METHOD(PROBE, probe_start, probe_event, JB_COMP_NO_BACKEND);

START_TEST(the_service_tells_only_what_was_delivered)
{
    for (probe_lost = 0; probe_lost < 2; probe_lost++) {
        fake_run r;
        fake_reset();
        probe_checks = 0;
        fake_lose_all = probe_lost;
        fake_open(&r, fake_root, probe_lost ? "probe-lost" : "probe", 2);
        r.cell_count = 1;
        r.cells[0] = r.cells[3];
        r.cells[0].method = &PROBE;
        ck_assert_msg(fake_go(&r) == 0, "%s", r.err.message);
        ck_assert_uint_eq(r.result.cells_failed, 0);
        ck_assert_int_eq(probe_checks, probe_lost ? 1 : 2);
        fake_close(&r);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("learning");
    TCase *tc = tcase_create("learning");
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 120);
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_add_test(tc, a_run_that_learns);
    tcase_add_test(tc, slots_do_not_show);
    tcase_add_test(tc, killed_at_every_line);
    tcase_add_test(tc, a_finished_run_is_replayed_for_nothing);
    tcase_add_test(tc, infrastructure_that_is_away_ends_chains_without_a_turn);
    tcase_add_test(tc, the_service_tells_only_what_was_delivered);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
