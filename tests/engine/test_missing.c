/* SPDX-License-Identifier: Apache-2.0 */
/* tests/engine/test_missing.c - bodies that a journal names and the folder lacks,
 * journals that were emptied, and what a resume makes of both. */
#include "core/engine/missing.h"
#include "tests/engine/fake.h"

static fake_run run;

static void setup(void)
{
    fake_setup();
    fake_open(&run, fake_root, "run", 2);
    ck_assert_msg(fake_go(&run) == 0, "%s", run.err.message);
}

static void teardown(void)
{
    fake_close(&run);
    fake_teardown();
}

static char *blob_path(const char *hash)
{
    char *path = jb_asprintf("%s/blobs/%s", run.dir, hash);
    ck_assert_ptr_nonnull(path);
    return path;
}

/* The first value of `key` in the journal, or "". */
static void named(const char *key, char out[JB_HASH_HEX])
{
    size_t len;
    char *journal = fake_slurp(run.dir, "journal.jsonl", &len), *mark = jb_asprintf("\"%s\":\"", key);
    const char *at = strstr(journal, mark);
    out[0] = 0;
    if (at) snprintf(out, JB_HASH_HEX, "%s", at + strlen(mark));
    jb_free(journal);
    jb_free(mark);
}

static cJSON *missing(void)
{
    cJSON *o = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_missing_bodies(run.dir, &o, &err) == 0, "%s", err.message);
    return o;
}

START_TEST(a_whole_run_misses_nothing)
{
    cJSON *o = missing();
    ck_assert_ptr_null(o);
}
END_TEST

START_TEST(a_lost_prompt_is_told_and_comes_back)
{
    char hash[JB_HASH_HEX];
    named("prompt", hash);
    ck_assert_uint_eq(strlen(hash), JB_HASH_HEX - 1);
    char *path = blob_path(hash);
    ck_assert_int_eq(unlink(path), 0);
    cJSON *o = missing();
    const cJSON *p = jb_json_obj(o, "prompts");
    ck_assert_int_eq(jb_json_i64(p, "missing", 0), 1);
    ck_assert_int_ge(jb_json_i64(p, "named", 0), 1);
    ck_assert_str_eq(cJSON_GetArrayItem(jb_json_obj(p, "first"), 0)->valuestring, hash);
    ck_assert_ptr_null(jb_json_obj(o, "replies"));
    cJSON_Delete(o);
    fake_reset();
    run.err = (jb_error)JB_ERROR_INIT;
    ck_assert_msg(fake_go(&run) == 0, "%s", run.err.message);
    ck_assert_int_eq(fake_calls, 0); /* for nothing */
    ck_assert(jb_fs_exists(path));
    o = missing();
    ck_assert_ptr_null(o);
    jb_free(path);
}
END_TEST

/* Names of a kind count once; at most three are told. */
START_TEST(many_are_counted_and_a_few_named)
{
    jb_buf journal = JB_BUF_INIT(1u << 16);
    for (int i = 0; i < 10; i++)
        jb_buf_printf(&journal, "{\"seq\":%d,\"kind\":\"op_done\",\"text_blob\":\"%063d%d\",\"record\":{\"stages\":{\"export\":{\"modules\":"
                                "[{\"sha256\":\"%064d\"},{\"sha256\":\"short\"},{}]}}}}\n", i + 1, 0, i / 2, i % 2 + 70);
    fake_spit(run.dir, "journal.jsonl", journal.ptr, journal.len);
    cJSON *o = missing();
    const cJSON *replies = jb_json_obj(o, "replies"), *modules = jb_json_obj(o, "modules");
    ck_assert_int_eq(jb_json_i64(replies, "named", 0), 5);
    ck_assert_int_eq(jb_json_i64(replies, "missing", 0), 5);
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(replies, "first")), 3);
    ck_assert_int_eq(jb_json_i64(modules, "named", 0), 2);
    ck_assert_int_eq(cJSON_GetArraySize(jb_json_obj(modules, "first")), 2);
    cJSON_Delete(o);
    jb_buf_free(&journal);
}
END_TEST

/* What was paid for is never asked for again: the run stops and says what is lost. */
START_TEST(a_lost_reply_stops_a_resume)
{
    static const char HASH[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    size_t len;
    char *journal = fake_slurp(run.dir, "journal.jsonl", &len), *at = strstr(journal, "\"text\":\"");
    jb_buf changed = JB_BUF_INIT(len + 1000);
    ck_assert_ptr_nonnull(at);
    char *end = at + 8;
    while (*end != '"') end += 1 + (*end == '\\'); /* behind the string */
    jb_buf_append(&changed, journal, (size_t)(at - journal));
    jb_buf_printf(&changed, "\"text_blob\":\"%s\"", HASH);
    jb_buf_puts(&changed, end + 1);
    fake_spit(run.dir, "journal.jsonl", changed.ptr, changed.len);
    fake_reset();
    run.err = (jb_error)JB_ERROR_INIT;
    ck_assert_int_eq(fake_go(&run), JB_ENOTFOUND);
    ck_assert_msg(strstr(run.err.message, HASH) && strstr(run.err.message, "its reply can't be read"), "%s", run.err.message);
    ck_assert_int_eq(fake_calls, 0);
    jb_free(journal);
    jb_buf_free(&changed);
}
END_TEST

static const struct { const char *text; int rc; const char *words; } JOURNALS[] = {
    { "", JB_ESTATE, "holds no line" },
    { "{\"seq\":1", JB_ESTATE, "holds no line" },
    { NULL, JB_ESTATE, "is missing" },
    { "{\"seq\":1,\"kind\":\"session\"}\n", 0, "" },
    { "{\"seq\":1,\"kind\":\"session\"}\n{\"se", 0, "" },
    { "nonsense\n", JB_EPARSE, "line 1" },
};

START_TEST(a_journal_that_was_emptied)
{
    jb_error err = JB_ERROR_INIT;
    char *path = jb_fs_join(run.dir, "journal.jsonl");
    if (JOURNALS[_i].text) fake_spit(run.dir, "journal.jsonl", JOURNALS[_i].text, strlen(JOURNALS[_i].text));
    else ck_assert_int_eq(unlink(path), 0);
    int rc = jb_missing_journal(run.dir, &err);
    ck_assert_msg(rc == JOURNALS[_i].rc && strstr(err.message, JOURNALS[_i].words), "%d %s", rc, err.message);
    if (rc == JB_ESTATE) ck_assert_ptr_nonnull(strstr(err.hint, "restore"));
    jb_free(path);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("missing");
    TCase *c = tcase_create("all");
    jb_json_setup();
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, a_whole_run_misses_nothing);
    tcase_add_test(c, a_lost_prompt_is_told_and_comes_back);
    tcase_add_test(c, many_are_counted_and_a_few_named);
    tcase_add_test(c, a_lost_reply_stops_a_resume);
    tcase_add_loop_test(c, a_journal_that_was_emptied, 0, sizeof JOURNALS / sizeof JOURNALS[0]);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
