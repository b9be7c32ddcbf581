/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests that must be refused: each test breaks one field of a good one. */
#include "core/registry/registry.h"

#include "core/base/error.h"

#include <check.h>
#include <jaxbench/checker.h>
#include <stdlib.h>
#include <string.h>

struct config { int64_t a; double b; };

static const char *const choices[] = { "x", NULL };
static jb_option options[3];
static jb_checker_ops ops;
static jb_component one, two;
static const jb_component *list[3];
static jb_plugin plugin;

static void good(void)
{
    memset(options, 0, sizeof options);
    options[0] = (jb_option){ .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .name = "a", .offset = offsetof(struct config, a), .help = "h" };
    options[1] = (jb_option){ .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .name = "b", .offset = offsetof(struct config, b), .help = "h" };
    ops = (jb_checker_ops){ .struct_size = sizeof ops };
    one = (jb_component){ .struct_size = sizeof one, .kind = JB_KIND_CHECKER, .name = "one", .summary = "s", .options = options, .option_count = 2,
                          .option_size = sizeof options[0], .config_size = sizeof(struct config), .ops = &ops };
    two = one;
    two.name = "two";
    list[0] = &one;
    list[1] = &two;
    list[2] = NULL;
    plugin = (jb_plugin){ .struct_size = sizeof plugin, .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "t", .version = "1.0.0",
                          .summary = "s", .license = "MIT", .components = list };
}

static void abi(void) { plugin.abi_major = 9; }
static void short_manifest(void) { plugin.struct_size = 16; }
static void no_id(void) { plugin.id = NULL; }
static void empty_license(void) { plugin.license = ""; }
static void no_components(void) { list[0] = NULL; }
static void short_component(void) { one.struct_size = 24; }
static void bad_name(void) { one.name = "One two"; }
static void long_name(void) { one.name = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"; }
static void no_kind(void) { one.kind = NULL; }
static void future_kind(void) { one.kind = "jb.method/2"; }
static void no_ops(void) { one.ops = NULL; }
static void short_ops(void) { ops.struct_size = 16; }
static void short_rows(void) { one.option_size = 8; }
static void no_rows(void) { one.options = NULL; }
static void many_rows(void) { one.option_count = 100000; }
static void twins(void) { two.name = "one"; }
static void option_twins(void) { options[1].name = "a"; }
static void option_type(void) { options[0].type = 99; }
static void option_outside(void) { options[0].offset = sizeof(struct config); }
static void option_huge_offset(void) { options[0].offset = 0xfffffff8u; }
static void option_misaligned(void) { options[0].offset = 4; }
static void option_no_choices(void) { options[0].type = JB_OPT_ENUM; }
static void option_range(void) { options[0].min = 2, options[0].max = 1; }
static void option_short(void) { options[0].struct_size = 8; }
static void tiny_config(void) { one.config_size = 4; }

static const struct { void (*break_it)(void); const char *message; } broken[] = {
    { abi, "built for plugin ABI 9." },
    { short_manifest, "manifest is 16 bytes" },
    { no_id, "no id" },
    { empty_license, "no license" },
    { no_components, "no components" },
    { short_component, "24 bytes" },
    { bad_name, "[a-z0-9_]+" },
    { long_name, "[a-z0-9_]+" },
    { no_kind, "no kind" },
    { future_kind, "jb.method/2" },
    { no_ops, "table of functions is 0 bytes" },
    { short_ops, "table of functions is 16 bytes" },
    { short_rows, "option rows are 8 bytes" },
    { no_rows, "option rows" },
    { many_rows, "100000 options" },
    { twins, "two components one" },
    { option_twins, "option a occurs twice" },
    { option_type, "unknown type 99" },
    { option_outside, "option a writes" },
    { option_huge_offset, "option a writes" },
    { option_misaligned, "option a writes" },
    { option_no_choices, "no choices" },
    { option_range, "empty range" },
    { option_short, "option 0 is 8 bytes" },
    { tiny_config, "of a config of 4" },
};

START_TEST(broken_manifests_are_refused)
{
    jb_error e = JB_ERROR_INIT;
    good();
    broken[_i].break_it();
    ck_assert_int_eq(jb_manifest_check(&plugin, &e), JB_EABI);
    ck_assert_msg(strstr(e.message, broken[_i].message) != NULL, "\"%s\" lacks \"%s\"", e.message, broken[_i].message);
}
END_TEST

START_TEST(good_ones_pass)
{
    jb_error e = JB_ERROR_INIT;
    good();
    ck_assert_msg(jb_manifest_check(&plugin, &e) == 0, "%s", e.message);
    options[0].type = JB_OPT_ENUM;
    options[0].choices = choices;
    plugin.abi_minor = 7; /* within a major any minor loads */
    two.kind = JB_KIND_CHECKER;
    ck_assert_msg(jb_manifest_check(&plugin, &e) == 0, "%s", e.message);
    /* An older writer's manifest ends before open and close. */
    plugin.struct_size = offsetof(jb_plugin, open);
    ck_assert_msg(jb_manifest_check(&plugin, &e) == 0, "%s", e.message);
    ck_assert_int_eq(jb_manifest_check(NULL, &e), JB_EABI);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("manifest");
    TCase *t = tcase_create("all");
    tcase_add_loop_test(t, broken_manifests_are_refused, 0, sizeof broken / sizeof *broken);
    tcase_add_test(t, good_ones_pass);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
