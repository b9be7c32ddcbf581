/* SPDX-License-Identifier: Apache-2.0 */
/* The example of docs/plugin_guide.md: built with the very line of the guide, loaded
 * by the registry, checked like any plugin, and judging as the guide says. */
#include "tests/checkers/testing.h"

#include "core/base/fs.h"
#include "core/registry/registry.h"

#include <unistd.h>

static char dir[] = "/tmp/jaxbench-example-XXXXXX";
static jb_registry *registry;
static const jb_component *example;

/* The guide's own `cc` line, with its output folder replaced by ours and warnings on. */
static void build(void)
{
    static const char folder[] = "my_plugins/";
    char command[1024];
    jb_buf guide = JB_BUF_INIT(1 << 20);
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(jb_fs_read(JB_SOURCE_DIR "/docs/plugin_guide.md", 1 << 20, &guide, &err) == 0, "%s", err.message);
    char *line = strstr(guide.ptr, "\n    cc "), *stop = line != NULL ? strchr(line + 1, '\n') : NULL;
    ck_assert_msg(stop != NULL, "the guide has no line that begins with cc");
    *stop = '\0';
    char *out = strstr(line, folder);
    ck_assert_msg(out != NULL, "the guide does not build into %s:%s", folder, line);
    snprintf(command, sizeof command, "cd '%s' && %.*s%s/%s -Wall -Wextra -Wpedantic -Werror", JB_SOURCE_DIR, (int)(out - line - 1), line + 1, dir,
             out + strlen(folder));
    ck_assert_msg(system(command) == 0, "%s", command);
    jb_buf_free(&guide);
}

static void setup(void)
{
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(dir));
    build();
    ck_assert_msg(jb_registry_open(dir, &registry, &err) == 0, "%s", err.message);
    ck_assert_uint_eq(jb_registry_file_count(registry), 1);
    ck_assert_msg(jb_registry_file(registry, 0)->manifest != NULL, "%s", jb_registry_file(registry, 0)->error.message);
    ck_assert_msg(jb_registry_find(registry, JB_KIND_CHECKER, "max_abs", &example, &err) == 0, "%s", err.message);
}

static void teardown(void)
{
    char path[128];
    jb_registry_free(registry);
    snprintf(path, sizeof path, "%s/max_abs.so", dir);
    unlink(path);
    rmdir(dir);
}

/* One element in bf16 and h; NULL: the option's default, 0.01. */
static const struct {
    const char *options;
    double c, h;
    uint32_t status;
    double score;
} ONE[] = {
    { NULL, 1, 1, JB_TRIAL_PASS, 0 },
    { NULL, 1, 1.0078125, JB_TRIAL_PASS, 0.0078125 },
    { NULL, 1, 1.015625, JB_TRIAL_FAIL, 0.015625 },
    { "{\"limit\":0.05}", 1, 1.015625, JB_TRIAL_PASS, 0.015625 },
    { "{\"limit\":0.05}", 0, 1.0 / 4096, JB_TRIAL_PASS, 1.0 / 4096 }, /* zeros for 50k pass: the lesson of the guide */
    { "{\"limit\":0}", 1, 1, JB_TRIAL_PASS, 0 },
    { NULL, (double)NAN, 1, JB_TRIAL_FAIL, (double)INFINITY },
    { NULL, 1, (double)NAN, JB_TRIAL_FAIL, (double)INFINITY },
    { NULL, (double)INFINITY, 1, JB_TRIAL_FAIL, (double)INFINITY },
};

START_TEST(judges)
{
    struct gate_under_test g = { .ops = example->ops };
    jb_error err = JB_ERROR_INIT;
    cJSON *values = ONE[_i].options != NULL ? cJSON_Parse(ONE[_i].options) : NULL;
    ck_assert_msg(jb_config_new(example, values, &g.config, &err) == 0, "%s", err.message);
    ck_assert_int_eq(g.ops->create(NULL, jb_config_data(g.config), &g.self, &err), 0);
    ck_assert_uint_eq(gate_needs(&g), JB_NEED_H);
    jb_tensor c = tensor_1d(JB_DT_BF16, 1, &ONE[_i].c), h = tensor_1d(JB_DT_F64, 1, &ONE[_i].h);
    jb_trial_result r = gate_trial(&g, &c, NULL, NULL, &h);
    ck_assert_uint_eq(r.status, ONE[_i].status);
    if (isinf(ONE[_i].score)) ck_assert_double_infinite(r.score);
    else ck_near(r.score, ONE[_i].score, 1e-15);
    ck_assert_int_eq(r.reason[0] != '\0', r.status == JB_TRIAL_FAIL);
    tensor_free(&c);
    tensor_free(&h);
    cJSON_Delete(values);
    jb_config_free(g.config);
}
END_TEST

START_TEST(does_not_read_past_what_differs)
{
    struct gate_under_test g = { .ops = example->ops };
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_config_new(example, NULL, &g.config, &err), 0);
    ck_assert_int_eq(g.ops->create(NULL, jb_config_data(g.config), &g.self, &err), 0);
    jb_tensor c = tensor_1d(JB_DT_F32, 9, NULL), h = tensor_1d(JB_DT_F64, 3, NULL), i = tensor_1d(JB_DT_I32, 3, NULL);
    ck_assert_uint_eq(gate_trial(&g, &c, NULL, NULL, &h).status, JB_TRIAL_FAIL);
    ck_assert_uint_eq(gate_trial(&g, &i, NULL, NULL, &i).status, JB_TRIAL_UNSUPPORTED);
    jb_trial t = { .struct_size = sizeof t, .output_count = 2, .reference_count = 1, .outputs = &c, .h = &h };
    jb_trial_result r = { .struct_size = sizeof r };
    ck_assert_int_eq(g.ops->trial(g.self, &t, &r, &err), 0);
    ck_assert_uint_eq(r.status, JB_TRIAL_FAIL);
    tensor_free(&c);
    tensor_free(&h);
    tensor_free(&i);
    jb_config_free(g.config);
}
END_TEST

int main(void)
{
    TCase *tc = tcase_create("max_abs");
    tcase_add_unchecked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    tcase_add_loop_test(tc, judges, 0, sizeof ONE / sizeof *ONE);
    tcase_add_test(tc, does_not_read_past_what_differs);
    return run_case("max_abs", tc);
}
