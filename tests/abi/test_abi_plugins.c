/* SPDX-License-Identifier: Apache-2.0 */
/* tests/abi/test_abi_plugins.c - plugins built against other minors: an older
 * one with shorter structs and a later one with longer structs are loaded from
 * their files and used; tables shorter than minor 0 are refused unread.  The
 * latter lie at the end of an allocation, so that ASan sees a read behind them. */
#include "core/base/json.h"
#include "core/base/mem.h"
#include "core/options/options.h"
#include "core/registry/registry.h"

#include <check.h>
#include <jaxbench/timer.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static jb_registry *open_folder(const char *name)
{
    jb_registry *r = NULL;
    jb_error err = { .struct_size = sizeof err };
    char *path = jb_asprintf("%s/%s", JB_ABI_PLUGINS, name);
    ck_assert_msg(jb_registry_open(path, &r, &err) == 0, "%s", err.message);
    jb_free(path);
    ck_assert_uint_eq(jb_registry_file_count(r), 1);
    const jb_plugin_file *f = jb_registry_file(r, 0);
    ck_assert_msg(f->manifest != NULL, "%s: %s", f->path, f->error.message);
    return r;
}

static const jb_component *find(const jb_registry *r, const char *name)
{
    const jb_component *c = NULL;
    jb_error err = { .struct_size = sizeof err };
    ck_assert_msg(jb_registry_find(r, JB_KIND_TIMER, name, &c, &err) == 0, "%s", err.message);
    return c;
}

static jb_config *configure(const jb_component *c, const char *values)
{
    jb_config *cfg = NULL;
    jb_error err = { .struct_size = sizeof err };
    cJSON *v = jb_json_parse(values, strlen(values), &err);
    ck_assert_msg(jb_config_new(c, v, &cfg, &err) == 0, "%s", err.message);
    cJSON_Delete(v);
    return cfg;
}

/* Run the component's timer once with a host of today. */
static void measure(const jb_component *c, const jb_config *cfg, jb_timing *out)
{
    static double a[8], b[8];
    const jb_timer_ops *ops = c->ops;
    jb_host host = { .struct_size = sizeof host, .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR };
    jb_error err = { .struct_size = sizeof err };
    void *self = NULL;
    *out = (jb_timing){ .struct_size = sizeof *out, .capacity = 8, .baseline_s = a, .candidate_s = b };
    ck_assert_int_eq(ops->create(&host, jb_config_data(cfg), &self, &err), 0);
    ck_assert_msg(ops->measure(self, out, &err) == 0, "%s", err.message);
    if (ops->destroy) ops->destroy(self);
}

START_TEST(a_plugin_of_an_older_minor_works)
{
    jb_registry *r = open_folder("old");
    const jb_plugin *p = jb_registry_file(r, 0)->manifest;
    ck_assert_str_eq(p->id, "test.abi.old");
    ck_assert(!JB_HAS(p, jb_plugin, open)); /* and calling the poison there would have crashed */
    const jb_component *c = find(r, "abi_old");
    ck_assert_uint_eq(jb_options_count(c), 3);
    ck_assert_str_eq(jb_options_at(c, 2)->name, "mode");

    jb_config *cfg = configure(c, "{\"samples\":5,\"mode\":\"fast\"}");
    jb_timing t;
    measure(c, cfg, &t);
    ck_assert_uint_eq(t.sample_count, 5);
    ck_assert_double_eq(t.baseline_s[4], 1.0);
    ck_assert_double_eq(t.candidate_median_s, 0.5);
    ck_assert_str_eq(t.source, "fast");
    jb_config_free(cfg);

    jb_buf help = JB_BUF_INIT(10000);
    ck_assert_int_eq(jb_options_help(c, &help), 0);
    ck_assert_ptr_nonnull(strstr(help.ptr, "samples"));
    jb_buf_free(&help);
    jb_registry_free(r);
}
END_TEST

START_TEST(a_plugin_of_a_later_minor_works)
{
    jb_registry *r = open_folder("new");
    const jb_component *c = find(r, "abi_new");
    ck_assert_uint_gt(c->option_size, sizeof(jb_option));
    ck_assert_uint_eq(jb_options_count(c), 2);
    ck_assert_str_eq(jb_options_at(c, 1)->name, "count"); /* by its stride, not by ours */
    jb_config *cfg = configure(c, "{\"count\":7}");
    jb_timing t;
    measure(c, cfg, &t);
    ck_assert_double_eq(t.baseline_s[0], 7);
    ck_assert_double_eq(t.candidate_s[0], 1.25);
    jb_config_free(cfg);
    jb_registry_free(r);
}
END_TEST

START_TEST(both_ages_live_in_one_registry)
{
    jb_registry *r = NULL;
    jb_error err = { .struct_size = sizeof err };
    ck_assert_int_eq(jb_registry_open(JB_ABI_PLUGINS, &r, &err), 0);
    ck_assert_uint_eq(jb_registry_count(r, JB_KIND_TIMER), 2);
    ck_assert_str_eq(jb_registry_at(r, JB_KIND_TIMER, 0)->name, "abi_new");
    ck_assert_str_eq(jb_registry_at(r, JB_KIND_TIMER, 1)->name, "abi_old");
    jb_registry_free(r);
}
END_TEST

/* ---- tables shorter than minor 0 ---------------------------------------- */

static int never(const jb_host *host, const void *config, void **out, jb_error *err)
{
    (void)host, (void)config, (void)out, (void)err;
    return JB_EINTERNAL;
}
static int never_measure(void *self, jb_timing *out, jb_error *err)
{
    (void)self, (void)out, (void)err;
    return JB_EINTERNAL;
}

/* The first `bytes` of a struct in an allocation of just that size, announcing it. */
static void *cut(const void *whole, size_t bytes)
{
    void *p = jb_alloc(bytes);
    uint32_t size = (uint32_t)bytes;
    ck_assert_ptr_nonnull(p);
    memcpy(p, whole, bytes);
    if (bytes >= sizeof size) memcpy(p, &size, sizeof size);
    return p;
}

/* jb_manifest_check on a manifest whose parts are cut to these sizes. */
static int check_cut(size_t plugin, size_t component, size_t option, size_t ops, jb_error *err)
{
    jb_option whole_option = { .type = JB_OPT_INT, .name = "n", .def = "1", .help = "h" };
    jb_timer_ops whole_ops = { .create = never, .measure = never_measure };
    void *cut_option = cut(&whole_option, option), *cut_ops = cut(&whole_ops, ops);
    jb_component whole_component = { .kind = JB_KIND_TIMER, .name = "t", .summary = "s", .options = cut_option, .option_count = 1,
                                     .option_size = (uint32_t)option, .config_size = 8, .ops = cut_ops };
    void *cut_component = cut(&whole_component, component);
    const jb_component *list[] = { cut_component, NULL };
    jb_plugin whole_plugin = { .abi_major = JB_ABI_MAJOR, .id = "i", .version = "1.0.0", .summary = "s", .license = "MIT", .components = list };
    void *cut_plugin = cut(&whole_plugin, plugin);
    int status = jb_manifest_check(cut_plugin, err);
    jb_free(cut_plugin);
    jb_free(cut_component);
    jb_free(cut_option);
    jb_free(cut_ops);
    return status;
}

START_TEST(structs_shorter_than_minor_0_are_refused_unread)
{
    const size_t P = sizeof(jb_plugin), C = sizeof(jb_component), O = sizeof(jb_option), T = sizeof(jb_timer_ops), optional = offsetof(jb_plugin, open);
    jb_error err = { .struct_size = sizeof err };
    ck_assert_msg(check_cut(P, C, O, T, &err) == 0, "%s", err.message);
    ck_assert_msg(check_cut(optional, C, O, T, &err) == 0, "%s", err.message); /* open and close are optional */
    for (size_t n = 8; n < optional; n += 4) ck_assert_int_eq(check_cut(n, C, O, T, &err), JB_EABI);
    for (size_t n = 4; n < C; n += 4) ck_assert_int_eq(check_cut(P, n, O, T, &err), JB_EABI);
    for (size_t n = 4; n < O; n += 4) ck_assert_int_eq(check_cut(P, C, n, T, &err), JB_EABI);
    for (size_t n = 4; n < T; n += 4) ck_assert_int_eq(check_cut(P, C, O, n, &err), JB_EABI);
    ck_assert_int_gt(strlen(err.message), 0);
}
END_TEST

START_TEST(another_major_is_refused_by_its_head_alone)
{
    /* Eight bytes are all that is promised of a foreign manifest. */
    unsigned char *head = jb_alloc(8);
    const uint16_t major = JB_ABI_MAJOR + 1;
    const uint32_t size = 8;
    jb_error err = { .struct_size = sizeof err };
    memcpy(head, &size, sizeof size);
    memcpy(head + 4, &major, sizeof major);
    ck_assert_int_eq(jb_manifest_check((const jb_plugin *)(const void *)head, &err), JB_EABI);
    ck_assert_ptr_nonnull(strstr(err.message, "ABI 2"));
    jb_free(head);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("abi plugins");
    TCase *t = tcase_create("abi plugins");
    tcase_add_test(t, a_plugin_of_an_older_minor_works);
    tcase_add_test(t, a_plugin_of_a_later_minor_works);
    tcase_add_test(t, both_ages_live_in_one_registry);
    tcase_add_test(t, structs_shorter_than_minor_0_are_refused_unread);
    tcase_add_test(t, another_major_is_refused_by_its_head_alone);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
