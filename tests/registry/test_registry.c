/* SPDX-License-Identifier: Apache-2.0 */
/* Finding and loading plugin files: good, foreign, hidden, writable by all; and
 * lookups with their refusals.  Plugins are compiled on the spot. */
#include "core/registry/registry.h"
#include "tests/study/fixture.h"

static const char FOREIGN[] = "int nothing_of_ours = 1;\n";
static const char OLD_MAJOR[] = FIXTURE_HEAD
    "JB_PLUGIN = { .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR + 1, .id = \"test.old\" };\n";

static jb_registry *open_all(const char *path_list)
{
    jb_registry *r = NULL;
    jb_error e = JB_ERROR_INIT;
    ck_assert_msg(jb_registry_open(path_list, &r, &e) == 0, "%s", e.message);
    return r;
}

static const jb_plugin_file *file_named(const jb_registry *r, const char *tail)
{
    for (size_t i = 0; i < jb_registry_file_count(r); i++)
        if (strstr(jb_registry_file(r, i)->path, tail)) return jb_registry_file(r, i);
    ck_abort_msg("no file %s", tail);
}

START_TEST(folders_and_their_subfolders_are_read)
{
    fixture_compile("p/sub/all.so", FIXTURE_PLUGIN);
    jb_registry *r = open_all(fixture_path("p"));
    ck_assert_uint_eq(jb_registry_file_count(r), 1);
    ck_assert_uint_eq(jb_registry_count(r, NULL), 7);
    ck_assert_uint_eq(jb_registry_count(r, JB_KIND_METHOD), 2);
    ck_assert_str_eq(jb_registry_at(r, JB_KIND_METHOD, 0)->name, "bon"); /* sorted */
    ck_assert_str_eq(jb_registry_at(r, JB_KIND_METHOD, 1)->name, "solo");
    ck_assert_ptr_null(jb_registry_at(r, JB_KIND_METHOD, 2));
    const jb_plugin_file *f = jb_registry_file(r, 0);
    ck_assert_str_eq(f->sha256, ""); /* not hashed until asked */
    ck_assert_uint_eq(strlen(jb_registry_hash(r, f)), 64);
    char *dir = jb_registry_data_dir(r, jb_registry_at(r, JB_KIND_METHOD, 0));
    ck_assert_str_eq(dir, fixture_path("p/sub/bon"));
    jb_free(dir);
    jb_registry_free(r);
}
END_TEST

START_TEST(refused_files_are_kept_with_the_reason)
{
    fixture_write("p/text.so", "not an object\n");
    fixture_write("p/readme.txt", "ignored\n");
    fixture_compile("p/foreign.so", FOREIGN);
    fixture_compile("p/major.so", OLD_MAJOR);
    ck_assert_int_eq(chmod(fixture_compile("p/open.so", FIXTURE_PLUGIN), 0666), 0);
    jb_registry *r = open_all(fixture_path("p"));
    ck_assert_uint_eq(jb_registry_file_count(r), 4);
    ck_assert_uint_eq(jb_registry_count(r, NULL), 0);
    ck_assert_ptr_nonnull(strstr(file_named(r, "text.so")->error.message, "can't load"));
    ck_assert_ptr_nonnull(strstr(file_named(r, "foreign.so")->error.message, "exports no jb_plugin_v1"));
    char want[64];
    snprintf(want, sizeof want, "ABI 2.0; this jaxbench has 1.%u", JB_ABI_MINOR);
    ck_assert_ptr_nonnull(strstr(file_named(r, "major.so")->error.message, want));
    ck_assert_ptr_nonnull(strstr(file_named(r, "open.so")->error.message, "writable by everyone"));
    ck_assert_ptr_nonnull(strstr(file_named(r, "open.so")->error.hint, "chmod o-w"));
    jb_registry_free(r);
}
END_TEST

START_TEST(the_first_file_of_an_id_wins)
{
    char paths[256];
    fixture_compile("a/all.so", FIXTURE_PLUGIN);
    fixture_compile("b/again.so", FIXTURE_PLUGIN);
    snprintf(paths, sizeof paths, "%s:/nowhere/at/all::%s", fixture_path("a"), fixture_path("b"));
    jb_registry *r = open_all(paths);
    ck_assert_uint_eq(jb_registry_file_count(r), 2);
    ck_assert_int_eq(file_named(r, "a/all.so")->shadowed, 0);
    ck_assert_int_eq(file_named(r, "b/again.so")->shadowed, 1);
    ck_assert_uint_eq(jb_registry_count(r, NULL), 7);
    jb_registry_free(r);
}
END_TEST

START_TEST(lookups)
{
    fixture_compile("p/all.so", FIXTURE_PLUGIN);
    jb_registry *r = open_all(fixture_path("p"));
    const jb_component *c = NULL;
    jb_error e = JB_ERROR_INIT;
    ck_assert_int_eq(jb_registry_find(r, JB_KIND_CHECKER, "chk", &c, &e), 0);
    ck_assert_str_eq(c->name, "chk");
    ck_assert_str_eq(jb_registry_file_of(r, c)->manifest->id, "test.all");
    ck_assert_int_eq(jb_registry_find(r, JB_KIND_METHOD, "sloo", &c, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.message, "no method named \"sloo\""));
    ck_assert_ptr_nonnull(strstr(e.message, fixture_path("p")));
    ck_assert_ptr_nonnull(strstr(e.hint, "did you mean \"solo\""));
    /* Right name, wrong kind. */
    ck_assert_int_eq(jb_registry_find(r, JB_KIND_METHOD, "chk", &c, &e), JB_ENOTFOUND);
    jb_registry_free(r);
}
END_TEST

START_TEST(no_folder_is_no_error)
{
    jb_registry *r = open_all("");
    const jb_component *c = NULL;
    jb_error e = JB_ERROR_INIT;
    ck_assert_int_eq(jb_registry_find(r, JB_KIND_METHOD, "bon", &c, &e), JB_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(e.hint, "JAXBENCH_PLUGIN_PATH"));
    jb_registry_free(r);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    char paths[128];
    fixture_compile("p/all.so", FIXTURE_PLUGIN);
    snprintf(paths, sizeof paths, "%s", fixture_path("p"));
    for (long n = 1;; n++) {
        jb_registry *r = NULL;
        jb_error e = JB_ERROR_INIT;
        jb_mem_fail_after(n, 1);
        int status = jb_registry_open(paths, &r, &e);
        jb_mem_fail_after(0, 0);
        size_t found = status ? 0 : jb_registry_count(r, NULL);
        jb_registry_free(r);
        if (found == 7) break;
        if (status) ck_assert_int_eq(status, JB_ENOMEM);
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("registry");
    TCase *t = tcase_create("all");
    tcase_add_checked_fixture(t, fixture_make, fixture_remove);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, folders_and_their_subfolders_are_read);
    tcase_add_test(t, refused_files_are_kept_with_the_reason);
    tcase_add_test(t, the_first_file_of_an_id_wins);
    tcase_add_test(t, lookups);
    tcase_add_test(t, no_folder_is_no_error);
    tcase_add_test(t, every_allocation_may_fail);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
