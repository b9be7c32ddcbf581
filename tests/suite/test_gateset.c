/* SPDX-License-Identifier: Apache-2.0 */
/* Gate sets: the normal form, its hash, its words, and every mistake. */
#include "core/suite/suite.h"
#include "tests/study/fixture.h"

static jb_gateset *open_text(const char *text, jb_error *e)
{
    jb_gateset *g = NULL;
    int status = jb_gateset_open(fixture_write("g.yaml", text), &g, e);
    return status ? NULL : g;
}

START_TEST(normal_form)
{
    jb_error e = JB_ERROR_INIT;
    jb_gateset *g = open_text(FIXTURE_ROBUST, &e);
    jb_buf text = JB_BUF_INIT(1 << 16);
    ck_assert_msg(g != NULL, "%s", e.message);
    ck_assert_str_eq(jb_gateset_name(g), "robust");
    ck_assert_str_eq(jb_gateset_variant(g), "repaired");
    jb_json_print(jb_json_obj(jb_gateset_json(g), "rows"), &text);
    ck_assert_str_eq(text.ptr, "[{\"use\":\"chk\",\"options\":{\"temperature\":1.5},\"when\":\"loop\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"own\":1,\"outlier\":2}}},"
                               "{\"use\":\"chk\",\"options\":{},\"when\":\"final\",\"over\":{\"shapes\":[\"gate\"],\"draws\":{\"own\":3}}}]");
    jb_buf_free(&text);
    jb_gateset_free(g);
}
END_TEST

START_TEST(the_hash_is_of_the_meaning)
{
    jb_error e = JB_ERROR_INIT;
    char *spaced = fixture_edit(FIXTURE_ROBUST, "rows:\n", "# a comment\nrows:\n\n"), *other = fixture_edit(FIXTURE_ROBUST, "1.5", "1.6");
    jb_gateset *a = open_text(FIXTURE_ROBUST, &e), *b = open_text(spaced, &e), *c = open_text(other, &e);
    ck_assert(a && b && c);
    ck_assert_str_eq(jb_gateset_hash(a), jb_gateset_hash(b));
    ck_assert_str_ne(jb_gateset_hash(a), jb_gateset_hash(c));
    jb_gateset_free(a);
    jb_gateset_free(b);
    jb_gateset_free(c);
    free(spaced);
    free(other);
}
END_TEST

START_TEST(words)
{
    jb_error e = JB_ERROR_INIT;
    jb_gateset *g = open_text(FIXTURE_ROBUST, &e);
    jb_buf text = JB_BUF_INIT(1 << 16);
    ck_assert_int_eq(jb_gateset_describe(g, NULL, &text), 0);
    static const char *const expected[] = { "`robust`", "`chk` (temperature 1.5)", "at the shape gate", "own (1 draw), outlier (2 draws)", "fresh draws", "far larger than the rest" };
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) ck_assert_msg(strstr(text.ptr, expected[i]) != NULL, "no \"%s\" in:\n%s", expected[i], text.ptr);
    ck_assert_ptr_null(strstr(text.ptr, "`tiny`"));
    jb_buf_reset(&text);
    ck_assert_int_eq(jb_gateset_describe(g, "tiny", &text), 0);
    ck_assert_ptr_nonnull(strstr(text.ptr, "at the shape tiny"));
    ck_assert_ptr_null(strstr(text.ptr, "shape gate"));
    jb_gateset_free(g);
    char *twice = fixture_edit(FIXTURE_ROBUST, "{use: chk, over: {shapes: [gate], draws: {own: 3}}", "{use: chk, temperature: 1.5, over: {shapes: [gate], draws: {own: 3}}");
    g = open_text(twice, &e);
    jb_buf_reset(&text);
    ck_assert_int_eq(jb_gateset_describe(g, NULL, &text), 0);
    ck_assert_msg(strstr(text.ptr, "- `chk` again; at the shape gate; on own (3 draws)") != NULL, "%s", text.ptr);
    free(twice);
    jb_buf_free(&text);
    jb_gateset_free(g);
}
END_TEST

static const struct { const char *from, *to, *where, *message, *hint; } bad[] = {
    { "schema: 1", "schema: 2", ":1", "schema must be 1", "" },
    { "name: robust", "name: a/b", ":2", "letters, digits", "" },
    { "name: robust\n", "", ":1", "needs a name", "" },
    { "variant: repaired", "variant: repared", ":3", "unknown variant", "\"repaired\"" },
    { "summary: strict", "sumary: strict", ":4", "unknown key \"sumary\"", "\"summary\"" },
    { "when: loop", "when: lop", ":6", "unknown `when`", "\"loop\"" },
    { "use: chk, temp", "temp", ":6", "needs `use`", "" },
    { "draws: {own: 1, outlier: 2}", "draws: {own: 1, outleir: 2}", ":6", "unknown distribution", "\"outlier\"" },
    { "draws: {own: 1, outlier: 2}", "draws: {own: 0}", ":6", "1 to 1000", "" },
    { "draws: {own: 1, outlier: 2}", "draws: [own]", ":6", "over needs draws", "" },
    { "shapes: [gate], draws: {own: 1, outlier: 2}", "shapes: [gate]", ":6", "over needs draws", "" },
    { "shapes: [gate], draws: {own: 1", "draws: {own: 1", ":6", "over needs shapes", "" },
    { "shapes: [gate], draws: {own: 1", "shapes: gate, draws: {own: 1", ":6", "over needs shapes", "" },
    { "temperature: 1.5", "temperature: [1]", ":6", "plain value", "" },
    { "over: {shapes: [gate], draws: {own: 3}}", "over: {shape: [gate]}", ":7", "unknown key \"shape\"", "\"shapes\"" },
};

START_TEST(mistakes_are_named_with_their_line)
{
    jb_error e = JB_ERROR_INIT;
    char *text = fixture_edit(FIXTURE_ROBUST, bad[_i].from, bad[_i].to);
    ck_assert_ptr_null(open_text(text, &e));
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_msg(strstr(e.hint, bad[_i].hint) != NULL, "\"%s\" lacks \"%s\"", e.hint, bad[_i].hint);
    const char *colon = strrchr(e.where, ':');
    ck_assert_str_eq(colon ? colon : "", bad[_i].where);
    free(text);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char path[128];
    snprintf(path, sizeof path, "%s", fixture_write("g.yaml", FIXTURE_ROBUST));
    for (long n = 1;; n++) {
        jb_gateset *g = NULL;
        jb_error e = JB_ERROR_INIT;
        jb_mem_fail_after(n, 1);
        int status = jb_gateset_open(path, &g, &e);
        jb_mem_fail_after(0, 0);
        if (!status) {
            jb_gateset_free(g);
            break;
        }
        ck_assert_int_lt(n, 10000);
    }
}
END_TEST

/* What the options of the real sets are called in a prompt: no word of the implementation. */
START_TEST(the_real_sets_speak_plainly)
{
    static const char *const SETS[] = { "literature", "robust" };
    static const char *const JARGON[] = { "r_jit", "r_op", "relative_to", "rtol", "rms" };
    for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
        jb_error e = JB_ERROR_INIT;
        jb_gateset *g = NULL;
        jb_buf text = JB_BUF_INIT(1 << 16);
        char path[400];
        snprintf(path, sizeof path, "%s/suite/gates/%s.yaml", JB_SOURCE_DIR, SETS[i]);
        ck_assert_msg(jb_gateset_open(path, &g, &e) == 0, "%s", e.message);
        ck_assert_int_eq(jb_gateset_describe(g, NULL, &text), 0);
        for (size_t k = 0; k < sizeof JARGON / sizeof *JARGON; k++)
            ck_assert_msg(strstr(text.ptr, JARGON[k]) == NULL, "\"%s\" in\n%s", JARGON[k], text.ptr);
        jb_buf_free(&text);
        jb_gateset_free(g);
    }
}
END_TEST

START_TEST(the_real_sets_open)
{
    static const char *const names[] = { "literature", "robust" };
    for (size_t i = 0; i < 2; i++) {
        char *path = jb_asprintf("%s/suite/gates/%s.yaml", JB_SOURCE_DIR, names[i]);
        jb_gateset *g = NULL;
        jb_error e = JB_ERROR_INIT;
        ck_assert_msg(jb_gateset_open(path, &g, &e) == 0, "%s: %s", e.where, e.message);
        ck_assert_str_eq(jb_gateset_name(g), names[i]);
        jb_gateset_free(g);
        jb_free(path);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("gateset");
    TCase *t = tcase_create("all");
    jb_json_setup();
    tcase_add_checked_fixture(t, fixture_make, fixture_remove);
    tcase_add_test(t, normal_form);
    tcase_add_test(t, the_hash_is_of_the_meaning);
    tcase_add_test(t, words);
    tcase_add_loop_test(t, mistakes_are_named_with_their_line, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, every_allocation_may_fail);
    tcase_add_test(t, the_real_sets_open);
    tcase_add_test(t, the_real_sets_speak_plainly);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
