/* SPDX-License-Identifier: Apache-2.0 */
/* Option tables: defaults, types, ranges, refusals with a nearest name, YAML
 * with lines, and what happens when memory ends at every single allocation. */
#include "core/options/options.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct config {
    int64_t flag, count, wait, size;
    double rate;
    const char *mode, *note, *file, *key;
};

static const char *const modes[] = { "fast", "careful", NULL };
#define ROW(t, n, d) .struct_size = sizeof(jb_option), .type = (t), .name = #n, .offset = offsetof(struct config, n), .def = (d), .help = "about " #n
static const jb_option rows[] = {
    { ROW(JB_OPT_BOOL, flag, "true") },
    { ROW(JB_OPT_INT, count, "3"), .min = 1, .max = 10, .unit = "samples" },
    { ROW(JB_OPT_FLOAT, rate, "0.5"), .min = 0, .max = 1 },
    { ROW(JB_OPT_ENUM, mode, "fast"), .choices = modes },
    { ROW(JB_OPT_STRING, note, NULL) },
    { ROW(JB_OPT_DURATION, wait, "1500ms") },
    { ROW(JB_OPT_SIZE, size, "64KiB") },
    { ROW(JB_OPT_PATH, file, "a/b") },
    { ROW(JB_OPT_STRING, key, "HOME"), .flags = JB_OPTF_SECRET },
};
static const jb_component component = { .struct_size = sizeof component, .kind = JB_KIND_METHOD, .name = "m", .summary = "s", .options = rows,
                                        .option_count = sizeof rows / sizeof *rows, .option_size = sizeof *rows, .config_size = sizeof(struct config) };
static const jb_option required[] = { { ROW(JB_OPT_STRING, note, NULL), .flags = JB_OPTF_REQUIRED } };
static const jb_component strict = { .struct_size = sizeof strict, .kind = JB_KIND_METHOD, .name = "strict", .summary = "s", .options = required,
                                     .option_count = 1, .option_size = sizeof *required, .config_size = sizeof(struct config) };

START_TEST(defaults_fill_every_field)
{
    jb_error e = JB_ERROR_INIT;
    jb_config *cfg = NULL;
    ck_assert_msg(jb_config_new(&component, NULL, &cfg, &e) == 0, "%s", e.message);
    const struct config *c = jb_config_data(cfg);
    ck_assert_int_eq(c->flag, 1);
    ck_assert_int_eq(c->count, 3);
    ck_assert_int_eq(c->wait, 1500000000);
    ck_assert_int_eq(c->size, 65536);
    ck_assert_double_eq(c->rate, 0.5);
    ck_assert_str_eq(c->mode, "fast");
    ck_assert_ptr_null(c->note);
    ck_assert_str_eq(c->file, "a/b");
    jb_config_free(cfg);
}
END_TEST

static const struct { const char *json, *message, *hint; } bad[] = {
    { "{\"cuont\":1}", "no option \"cuont\"", "\"count\"" },
    { "{\"zzzzzz\":1}", "no option \"zzzzzz\"", "its options: flag, count" },
    { "{\"count\":0}", "[1, 10], not 0", "about count" },
    { "{\"count\":11}", "[1, 10], not 11", "" },
    { "{\"count\":1.5}", "count of m must be a whole number, not \"1.5\"", "" },
    { "{\"count\":\"many\"}", "whole number, not \"many\"", "" },
    { "{\"count\":[1]}", "not \"a list\"", "" },
    { "{\"count\":{}}", "not \"a mapping\"", "" },
    { "{\"rate\":1.01}", "[0, 1]", "" },
    { "{\"rate\":\"nan\"}", "must be a number", "" },
    { "{\"flag\":\"yes\"}", "true or false, not \"yes\"", "" },
    { "{\"mode\":\"fats\"}", "one of: fast, careful", "\"fast\"" },
    { "{\"wait\":\"5 parsecs\"}", "a duration such as", "" },
    { "{\"size\":\"-1\"}", "a size such as", "" },
};

START_TEST(bad_values_are_refused)
{
    jb_error e = JB_ERROR_INIT;
    jb_config *cfg = NULL;
    cJSON *values = cJSON_Parse(bad[_i].json);
    ck_assert_int_eq(jb_config_new(&component, values, &cfg, &e), JB_EINVAL);
    ck_assert_ptr_null(cfg);
    ck_assert_msg(strstr(e.message, bad[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, bad[_i].message);
    ck_assert_msg(strstr(e.hint, bad[_i].hint) != NULL, "\"%s\" lacks \"%s\"", e.hint, bad[_i].hint);
    ck_assert_uint_eq(e.flags & JB_ERR_USER, JB_ERR_USER);
    cJSON_Delete(values);
}
END_TEST

START_TEST(required_option_is_asked_for)
{
    jb_error e = JB_ERROR_INIT;
    jb_config *cfg = NULL;
    ck_assert_int_eq(jb_config_new(&strict, NULL, &cfg, &e), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(e.message, "strict needs the option note"));
}
END_TEST

START_TEST(resolved_json_reads_back_as_itself)
{
    jb_error e = JB_ERROR_INIT;
    jb_config *first = NULL, *second = NULL;
    cJSON *values = cJSON_Parse("{\"count\":7,\"wait\":\"2m\",\"note\":\"no\",\"size\":\"2GiB\"}");
    ck_assert_int_eq(jb_config_new(&component, values, &first, &e), 0);
    cJSON *one = jb_config_json(&component, first);
    ck_assert_msg(jb_config_new(&component, one, &second, &e) == 0, "%s", e.message);
    cJSON *two = jb_config_json(&component, second);
    ck_assert(cJSON_Compare(one, two, 1));
    ck_assert_ptr_null(cJSON_GetObjectItem(one, "key")); /* a secret is left out */
    ck_assert_str_eq(jb_json_str(one, "wait", ""), "120000000000ns");
    ck_assert_int_eq(((const struct config *)jb_config_data(second))->size, INT64_C(2) << 30);
    cJSON_Delete(values);
    cJSON_Delete(one);
    cJSON_Delete(two);
    jb_config_free(first);
    jb_config_free(second);
}
END_TEST

static const struct { const char *yaml; int status; const char *message, *where; } yamls[] = {
    { "use: m\ncount: 4\nnote: no\nrate: 1e-2\nflag: false\nwait: 5s\n", 0, "", "" },
    { "use: m\n\ncount: many\n", JB_EINVAL, "whole number", "f.yaml:3" },
    { "use: m\ncount: \"4\"\n", JB_EINVAL, "quoted", "f.yaml:2" },
    { "use: m\nsampels: 4\n", JB_EINVAL, "no option \"sampels\"", "f.yaml:2" },
    { "use: m\ncount: [4]\n", JB_EINVAL, "a list", "f.yaml:2" },
    { "use: m\nmode: slow\n", JB_EINVAL, "one of: fast, careful", "f.yaml:2" },
    { "- 1\n", JB_EINVAL, "mapping", "f.yaml:1" },
};

START_TEST(yaml_is_typed_by_the_table)
{
    static const char *const reserved[] = { "use", "name" };
    jb_error e = JB_ERROR_INIT;
    cJSON *values = NULL;
    jb_yaml_doc *doc = jb_yaml_parse(yamls[_i].yaml, strlen(yamls[_i].yaml), "f.yaml", &e);
    ck_assert_ptr_nonnull(doc);
    int status = jb_options_from_yaml(&component, doc, jb_yaml_root(doc), reserved, 2, &values, &e);
    ck_assert_int_eq(status, yamls[_i].status);
    if (status == 0) {
        ck_assert_str_eq(jb_json_str(values, "note", ""), "no");
        ck_assert_double_eq(jb_json_num(values, "rate", 0), 0.01);
        ck_assert(cJSON_IsFalse(cJSON_GetObjectItem(values, "flag")));
        ck_assert_ptr_null(cJSON_GetObjectItem(values, "use"));
    } else {
        ck_assert_msg(strstr(e.message, yamls[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, yamls[_i].message);
        ck_assert_str_eq(e.where, yamls[_i].where);
    }
    cJSON_Delete(values);
    jb_yaml_free(doc);
}
END_TEST

START_TEST(longer_rows_are_walked_by_their_own_stride)
{
    /* A newer plugin has longer rows: the stride is its own. */
    struct longer { jb_option row; uint64_t extra; } table[2] = { { rows[0], 1 }, { rows[1], 2 } };
    jb_component c = component;
    c.options = &table[0].row;
    c.option_count = 2;
    c.option_size = sizeof table[0];
    ck_assert_uint_eq(jb_options_count(&c), 2);
    ck_assert_str_eq(jb_options_at(&c, 1)->name, "count");
}
END_TEST

START_TEST(help_and_json_name_every_option)
{
    jb_buf help = JB_BUF_INIT(1 << 16);
    cJSON *json = jb_options_json(&component);
    ck_assert_int_eq(jb_options_help(&component, &help), 0);
    ck_assert_int_eq(cJSON_GetArraySize(json), (int)component.option_count);
    for (uint32_t i = 0; i < component.option_count; i++) ck_assert_ptr_nonnull(strstr(help.ptr, rows[i].name));
    ck_assert_ptr_nonnull(strstr(help.ptr, "one of fast | careful"));
    ck_assert_ptr_nonnull(strstr(help.ptr, "(default 3 samples)"));
    ck_assert_str_eq(jb_json_str(cJSON_GetArrayItem(json, 1), "unit", ""), "samples");
    cJSON_Delete(json);
    jb_buf_free(&help);
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    cJSON *values = cJSON_Parse("{\"note\":\"text\",\"file\":\"x\"}");
    for (long n = 1;; n++) {
        jb_error e = JB_ERROR_INIT;
        jb_config *cfg = NULL;
        jb_mem_fail_after(n, 1);
        int status = jb_config_new(&component, values, &cfg, &e);
        cJSON *json = status ? NULL : jb_config_json(&component, cfg), *table = status ? NULL : jb_options_json(&component);
        jb_mem_fail_after(0, 0);
        int done = !status && json && table;
        if (status) ck_assert_int_eq(status, JB_ENOMEM);
        cJSON_Delete(json);
        cJSON_Delete(table);
        jb_config_free(cfg);
        if (done) break;
        ck_assert_int_lt(n, 10000);
    }
    cJSON_Delete(values);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("options");
    TCase *t = tcase_create("all");
    jb_json_setup();
    tcase_add_test(t, defaults_fill_every_field);
    tcase_add_loop_test(t, bad_values_are_refused, 0, sizeof bad / sizeof *bad);
    tcase_add_test(t, required_option_is_asked_for);
    tcase_add_test(t, resolved_json_reads_back_as_itself);
    tcase_add_loop_test(t, yaml_is_typed_by_the_table, 0, sizeof yamls / sizeof *yamls);
    tcase_add_test(t, longer_rows_are_walked_by_their_own_stride);
    tcase_add_test(t, help_and_json_name_every_option);
    tcase_add_test(t, every_allocation_may_fail);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
