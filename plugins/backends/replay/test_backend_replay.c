/* SPDX-License-Identifier: Apache-2.0 */
/* replay: a run and a transcript give back what was said, to the call that it was
 * said to; what was never said is a failure. */
#include "replay.c"
#define fail recording_fail
#include "recording.c"
#undef fail

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/options/options.h"

#include <check.h>
#include <unistd.h>

/* ---- a folder, a host, a backend -------------------------------------------------- */

static char dir[64], memory[1 << 16];
static size_t memory_used;

static void *arena_alloc(const jb_host *h, uint64_t bytes)
{
    (void)h;
    if (memory_used + bytes > sizeof memory) return NULL;
    void *p = memory + memory_used;
    memset(p, 0, bytes);
    memory_used += (bytes + 15) & ~(uint64_t)15;
    return p;
}

static const jb_arena_service arena = { .struct_size = sizeof arena, .alloc = arena_alloc };
static const void *service(const jb_host *h, const char *id) { return h->ctx == NULL && strcmp(id, JB_SERVICE_ARENA) == 0 ? &arena : NULL; }
static const jb_host host = { .struct_size = sizeof host, .abi_major = 1, .service = service };

static void setup(void)
{
    strcpy(dir, "/tmp/jaxbench-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void teardown(void)
{
    jb_error e = JB_ERROR_INIT;
    ck_assert_int_eq(jb_fs_remove_tree(dir, &e), 0);
}

static const char *file(const char *name, const char *text)
{
    static char path[200];
    jb_error e = JB_ERROR_INIT;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    char *parent = jb_fs_dirname(path);
    ck_assert_int_eq(jb_fs_mkdirs(parent, &e), 0);
    jb_free(parent);
    ck_assert_int_eq(jb_fs_write_atomic(path, text, strlen(text), &e), 0);
    return path;
}

struct subject { jb_config *config; void *self; };

static struct subject opened(const char *from, const char *match)
{
    struct subject s = { 0 };
    jb_error err = JB_ERROR_INIT;
    cJSON *values = cJSON_CreateObject();
    cJSON_AddStringToObject(values, "from", from);
    if (match) cJSON_AddStringToObject(values, "match", match);
    ck_assert_msg(jb_config_new(&component, values, &s.config, &err) == 0, "%s", err.message);
    ck_assert_msg(ops.create(&host, jb_config_data(s.config), &s.self, &err) == 0, "%s", err.message);
    cJSON_Delete(values);
    return s;
}

static void closed(struct subject *s)
{
    ops.destroy(s->self);
    jb_config_free(s->config);
}

static jb_reply asked(struct subject *s, const char *workload, const char *cell, const char *hash, uint64_t lane, uint64_t turn)
{
    jb_request q = { .struct_size = sizeof q, .workload = workload, .cell = cell, .hash = hash, .lane = lane, .turn = turn };
    jb_reply r = { .struct_size = sizeof r, .finish = JB_FINISH_STOP, .usage = { -1, -1, -1, -1, -1 } };
    jb_error err = JB_ERROR_INIT;
    memory_used = 0;
    ck_assert_msg(ops.complete(s->self, &q, &r, &err) == 0, "%s", err.message);
    return r;
}

static void says(const jb_reply *r, const char *text)
{
    ck_assert_msg(r->error_class == 0, "%s", r->message);
    ck_assert_msg(r->text.len == strlen(text) && memcmp(r->text.ptr, text, r->text.len) == 0, "\"%.*s\", expected \"%s\"", (int)r->text.len, r->text.ptr, text);
    ck_assert_uint_eq(r->flags, JB_REPLY_REPLAYED);
}

/* ---- a run ---------------------------------------------------------------------------- */

#define A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define B "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
#define C "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc"
#define SUBMIT(cell, op, lane, hash) "{\"seq\":1,\"kind\":\"op_submit\",\"cell\":\"" cell "\",\"op\":" op ",\"op_kind\":\"llm\",\"lane\":" lane ",\"turn\":0,\"hash\":\"" hash "\"}\n"
#define DONE(cell, op, rest) "{\"seq\":1,\"kind\":\"op_done\",\"cell\":\"" cell "\",\"op\":" op ",\"status\":\"done\"," rest "}\n"

static const char JOURNAL[] =
    "{\"seq\":1,\"kind\":\"session\"}\n"
    SUBMIT("8p+iid+srv+s0", "1", "0", A) SUBMIT("8p+iid+srv+s0", "2", "1", B) SUBMIT("8p+iid+srv+s1", "1", "0", A) SUBMIT("8p+beam+srv+s0", "1", "0", A)
    SUBMIT("8p+iid+srv+s0", "4", "2", C) SUBMIT("1p+iid+srv+s0", "1", "0", A)
    DONE("8p+iid+srv+s0", "1", "\"finish\":1,\"usage\":{\"input_uncached\":5,\"output\":7},\"model\":\"m-9\",\"text\":\"iid s0\"")
    DONE("8p+iid+srv+s1", "1", "\"finish\":2,\"usage\":{},\"text\":\"iid s1\"")
    DONE("8p+beam+srv+s0", "1", "\"finish\":1,\"usage\":{},\"text\":\"beam s0\"")
    DONE("8p+iid+srv+s0", "2", "\"finish\":1,\"usage\":{},\"text_blob\":\"" B "\"")
    "{\"seq\":1,\"kind\":\"op_done\",\"cell\":\"8p+iid+srv+s0\",\"op\":4,\"status\":\"failed\",\"error_class\":\"transient\",\"text\":\"\"}\n"
    "{\"seq\":1,\"kind\":\"op_done\",\"cell\":\"8p+iid+srv+s0\",\"op\":5,\"candidate\":1,\"status\":\"done\",\"record\":{\"text\":\"no\"}}\n"
    DONE("1p+iid+srv+s0", "1", "\"finish\":1,\"usage\":{},\"text\":\"another workload\"")
    "{\"seq\":9,\"kind\":\"op_done\",\"cell\":\"8p+iid+srv+s0\",\"op\":9,\"status\":\"do"; /* torn */

static struct subject open_run(const char *match)
{
    file("run/journal.jsonl", JOURNAL);
    file("run/blobs/" B, "from a blob");
    char path[100];
    snprintf(path, sizeof path, "%s/run", dir);
    return opened(path, match);
}

START_TEST(a_run_is_matched_by_hash_then_by_method_and_seed)
{
    struct subject s = open_run(NULL);
    jb_reply r = asked(&s, "8p", "8p+iid+replay+s0", A, 0, 0);
    says(&r, "iid s0");
    ck_assert_int_eq(r.usage.input_uncached, 5);
    ck_assert_int_eq(r.usage.output, 7);
    ck_assert_int_eq(r.usage.reasoning, -1);
    ck_assert(r.model.len == 3 && memcmp(r.model.ptr, "m-9", 3) == 0);
    r = asked(&s, "8p", "8p+iid+replay+s1", A, 0, 0);
    says(&r, "iid s1");
    ck_assert_uint_eq(r.finish, JB_FINISH_LENGTH);
    r = asked(&s, "8p", "8p+beam+replay+s0", A, 7, 7); /* the hash decides, not the place */
    says(&r, "beam s0");
    r = asked(&s, "8p", "8p+beam+replay+s5", A, 0, 0); /* of the method before of the seed */
    says(&r, "beam s0");
    r = asked(&s, "8p", "8p+iid+replay+s0", B, 1, 0);
    says(&r, "from a blob");
    r = asked(&s, "1p", "1p+iid+replay+s0", A, 0, 0);
    says(&r, "another workload");
    closed(&s);
}
END_TEST

START_TEST(a_changed_prompt_is_matched_by_place_if_that_is_wanted)
{
    struct subject s = open_run(NULL);
    jb_reply r = asked(&s, "8p", "8p+iid+replay+s0", C, 1, 0);
    says(&r, "from a blob");
    closed(&s);
    s = open_run("hash");
    r = asked(&s, "8p", "8p+iid+replay+s0", C, 1, 0);
    ck_assert_uint_eq(r.error_class, JB_LLM_PERMANENT);
    closed(&s);
    s = open_run("place");
    r = asked(&s, "8p", "8p+iid+replay+s0", A, 1, 0);
    says(&r, "from a blob");
    closed(&s);
}
END_TEST

START_TEST(what_was_never_said_is_a_failure)
{
    struct subject s = open_run(NULL);
    jb_reply r = asked(&s, "8p", "8p+iid+replay+s0", C, 2, 0); /* it failed then */
    ck_assert_uint_eq(r.error_class, JB_LLM_PERMANENT);
    ck_assert_msg(strstr(r.message, "workload 8p, lane 2, turn 0 among the 4"), "%s", r.message);
    r = asked(&s, "12p", "12p+iid+replay+s0", A, 0, 0);
    ck_assert_uint_eq(r.error_class, JB_LLM_PERMANENT);
    ck_assert_uint_eq(r.text.len, 0);
    closed(&s);
}
END_TEST

/* ---- transcripts -------------------------------------------------------------------------- */

START_TEST(rows_of_a_transcript_are_numbered_where_they_name_no_place)
{
    struct subject s = opened(file("t.jsonl", "{\"workload\":\"8p\",\"text\":\"first\"}\n\n{\"workload\":\"1p\",\"text\":\"other\"}\n"
                                              "{\"workload\":\"8p\",\"text\":\"second\",\"finish\":\"length\",\"usage\":{\"output\":3}}\n"
                                              "{\"workload\":\"8p\",\"lane\":5,\"text\":\"five zero\"}\n{\"workload\":\"8p\",\"lane\":5,\"text\":\"five one\"}\n"
                                              "{\"workload\":\"8p\",\"lane\":9,\"turn\":4,\"text\":\"nine four\",\"finish\":\"refused\"}\n"
                                              "{\"workload\":\"8p\",\"hash\":\"" A "\",\"lane\":77,\"text\":\"by hash\"}"), NULL);
    jb_reply r = asked(&s, "8p", "8p+iid+replay+s0", B, 0, 0);
    says(&r, "first");
    r = asked(&s, "8p", "8p+iid+replay+s0", B, 1, 0);
    says(&r, "second");
    ck_assert_uint_eq(r.finish, JB_FINISH_LENGTH);
    ck_assert_int_eq(r.usage.output, 3);
    r = asked(&s, "8p", "8p+iid+replay+s0", B, 5, 0);
    says(&r, "five zero");
    r = asked(&s, "8p", "8p+iid+replay+s0", B, 5, 1);
    says(&r, "five one");
    r = asked(&s, "8p", "8p+iid+replay+s0", B, 9, 4);
    says(&r, "nine four");
    ck_assert_uint_eq(r.finish, JB_FINISH_REFUSED);
    r = asked(&s, "8p", "8p+iid+replay+s0", A, 0, 0);
    says(&r, "by hash");
    closed(&s);
}
END_TEST

START_TEST(bad_files_are_named_with_their_line)
{
    static const struct { const char *text, *says; } cases[] = {
        { "{\"workload\":\"8p\",\"text\":\"x\"}\nnot json\n", "t.jsonl:2" }, { "{\"workload\":\"8p\"}\n", "t.jsonl:1" }, { "{\"text\":\"x\"}\n", "t.jsonl:1" }, { "[]\n", "t.jsonl:1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct subject s = opened(file("t.jsonl", cases[i].text), NULL);
        jb_request q = { .struct_size = sizeof q, .workload = "8p", .cell = "8p+a+b+s0", .hash = A };
        jb_reply r = { .struct_size = sizeof r };
        jb_error err = JB_ERROR_INIT;
        ck_assert_int_eq(ops.complete(s.self, &q, &r, &err), JB_EPARSE);
        ck_assert_msg(strstr(err.where, cases[i].says), "%s, expected %s", err.where, cases[i].says);
        closed(&s);
    }
    jb_error err = JB_ERROR_INIT;
    jb_config *config;
    void *self;
    cJSON *values = cJSON_Parse("{\"from\":\"/nowhere/at/all\"}");
    ck_assert_int_eq(jb_config_new(&component, values, &config, &err), 0);
    ck_assert_int_eq(ops.create(&host, jb_config_data(config), &self, &err), JB_ENOTFOUND);
    ck_assert_msg(strstr(err.message, "/nowhere/at/all"), "%s", err.message);
    jb_config_free(config);
    cJSON_Delete(values);
}
END_TEST

START_TEST(a_missing_blob_is_an_error_not_an_empty_reply)
{
    struct subject s = open_run(NULL);
    char path[160];
    snprintf(path, sizeof path, "%s/run/blobs/" B, dir);
    ck_assert_int_eq(unlink(path), 0);
    jb_request q = { .struct_size = sizeof q, .workload = "8p", .cell = "8p+a+b+s0", .hash = A };
    jb_reply r = { .struct_size = sizeof r };
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(ops.complete(s.self, &q, &r, &err), JB_ENOTFOUND);
    ck_assert_msg(strstr(err.where, B), "%s", err.where);
    closed(&s);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("replay");
    TCase *c = tcase_create("replay");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_run_is_matched_by_hash_then_by_method_and_seed);
    tcase_add_test(c, a_changed_prompt_is_matched_by_place_if_that_is_wanted);
    tcase_add_test(c, what_was_never_said_is_a_failure);
    tcase_add_test(c, rows_of_a_transcript_are_numbered_where_they_name_no_place);
    tcase_add_test(c, bad_files_are_named_with_their_line);
    tcase_add_test(c, a_missing_blob_is_an_error_not_an_empty_reply);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
