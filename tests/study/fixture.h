/* SPDX-License-Identifier: Apache-2.0 */
/* tests/study/fixture.h - a temporary installation for tests: a folder that goes
 * away, files in it, a suite of two workloads, and a plugin compiled on the spot
 * that has one component of each kind.  Included by the tests of registry,
 * suite, study and cli. */
#ifndef JB_TESTS_FIXTURE_H
#define JB_TESTS_FIXTURE_H

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char fixture_dir[64];

static void fixture_make(void)
{
    strcpy(fixture_dir, "/tmp/jaxbench-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(fixture_dir));
}

static void fixture_remove(void)
{
    jb_error e = JB_ERROR_INIT;
    ck_assert_msg(jb_fs_remove_tree(fixture_dir, &e) == 0, "%s", e.message);
}

/* The path of a file in the folder; good until the next call but three. */
static const char *fixture_path(const char *name)
{
    static char rooms[4][256];
    static unsigned next;
    char *room = rooms[next++ % 4];
    snprintf(room, sizeof rooms[0], "%s/%s", fixture_dir, name);
    return room;
}

static const char *fixture_write(const char *name, const char *text)
{
    const char *path = fixture_path(name);
    jb_error e = JB_ERROR_INIT;
    char *dir = jb_fs_dirname(path);
    ck_assert_msg(jb_fs_mkdirs(dir, &e) == 0, "%s", e.message);
    jb_free(dir);
    ck_assert_msg(jb_fs_write_atomic(path, text, strlen(text), &e) == 0, "%s", e.message);
    return path;
}

/* Compile C text into a shared object in the folder. */
static inline const char *fixture_compile(const char *so, const char *source)
{
    char name[128], command[1024];
    snprintf(name, sizeof name, "%s.c", so);
    const char *c = fixture_write(name, source), *out = fixture_path(so);
    snprintf(command, sizeof command, "%s -std=c11 -shared -fPIC -I%s/include -o %s %s", getenv("CC") && *getenv("CC") ? getenv("CC") : "cc", JB_SOURCE_DIR, out, c);
    ck_assert_msg(system(command) == 0, "%s", command);
    unlink(c);
    return out;
}

#define FIXTURE_HEAD \
    "#include <jaxbench/checker.h>\n#include <jaxbench/executor.h>\n#include <jaxbench/method.h>\n#include <jaxbench/timer.h>\n" \
    "#include <stddef.h>\n"

/* One component a kind, plus a method that asks no backend; functions that fail. */
static const char FIXTURE_PLUGIN[] = FIXTURE_HEAD
    "struct cfg { int64_t samples; double temperature; const char *mode, *note; int64_t wait, slots; };\n"
    "static const char *const modes[] = { \"fast\", \"careful\", 0 };\n"
    "#define ROW(T, N, D) .struct_size = sizeof(jb_option), .type = T, .name = #N, .offset = offsetof(struct cfg, N), .def = D, .help = \"about \" #N\n"
    "static const jb_option bon_options[] = {\n"
    "  { ROW(JB_OPT_INT, samples, \"8\"), .min = 1, .max = 1000 }, { ROW(JB_OPT_FLOAT, temperature, \"0.5\"), .min = 0, .max = 2 },\n"
    "  { ROW(JB_OPT_ENUM, mode, \"fast\"), .choices = modes }, { ROW(JB_OPT_STRING, note, 0) }, { ROW(JB_OPT_DURATION, wait, \"30s\") } };\n"
    "static const jb_option fake_options[] = { { ROW(JB_OPT_STRING, note, 0), .flags = JB_OPTF_REQUIRED } };\n"
    "static const jb_option chk_options[] = { { ROW(JB_OPT_FLOAT, temperature, \"1\") } };\n"
    "static const jb_option exec_options[] = { { ROW(JB_OPT_INT, slots, \"0\") } };\n"
    "static int64_t ask(const void *c) { return ((const struct cfg *)c)->samples; }\n"
    "static const jb_method_ops m = { .struct_size = sizeof m, .samples = ask };\n"
    "static const jb_method_ops m0 = { .struct_size = offsetof(jb_method_ops, samples) }; static const jb_backend_ops b = { .struct_size = sizeof b };\n"
    "static const jb_checker_ops k = { .struct_size = sizeof k }; static const jb_timer_ops t = { .struct_size = sizeof t };\n"
    "static const jb_executor_ops x = { .struct_size = sizeof x };\n"
    "#define COMP(V, K, N, F, O, C, P) static const jb_component V = { sizeof(jb_component), F, K, N, \"a \" N, 0, O, C, sizeof(jb_option), sizeof(struct cfg), 0, P };\n"
    "COMP(c1, JB_KIND_METHOD, \"bon\", 0, bon_options, 5, &m) COMP(c2, JB_KIND_METHOD, \"solo\", JB_COMP_NO_BACKEND, 0, 0, &m0)\n"
    "COMP(c3, JB_KIND_BACKEND, \"fake\", 0, fake_options, 1, &b) COMP(c4, JB_KIND_CHECKER, \"chk\", 0, chk_options, 1, &k)\n"
    "COMP(c5, JB_KIND_TIMER, \"tick\", 0, 0, 0, &t) COMP(c6, JB_KIND_EXECUTOR, \"local\", 0, exec_options, 1, &x)\n"
    "COMP(c7, JB_KIND_BACKEND, \"plain\", 0, 0, 0, &b)\n"
    "static const jb_component *const all[] = { &c1, &c2, &c3, &c4, &c5, &c6, &c7, 0 };\n"
    "JB_PLUGIN = { .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = \"test.all\",\n"
    "  .version = \"1.2.3\", .summary = \"for tests\", .license = \"Apache-2.0\", .components = all };\n";

static const char FIXTURE_WORKLOAD[] =
    "schema: 1\n"
    "id: 8p\n"
    "name: gemm\n"
    "tier: production\n"
    "summary: a product\n"
    "formula: |\n"
    "  C = A @ B\n"
    "config: {M: M, K: K, half: K/2}\n"
    "shapes:\n"
    "  full: {M: 1024, K: 512}\n"
    "  gate: {M: 128, K: 256}\n"
    "  tiny: {M: 8, K: 16}\n"
    "inputs:\n"
    "  - {name: A, shape: [M, K], dtype: bfloat16, role: activation, published: \"N(0, 1)\", repaired: {normal: {std: K^-0.5}}}\n"
    "  - {name: B, shape: [K, 2*M], dtype: float32, role: weight, published: \"U\", repaired: {uniform: {low: -1, high: 1}}}\n"
    "outputs:\n"
    "  - {shape: [M, 2*M], dtype: bfloat16}\n"
    "slice_axes: 1\n"
    "flops: 2*M*K*2*M\n"
    "min_bytes: 2*(M*K + K*2*M + M*2*M)\n"
    "same_formula: true\n"
    "policies:\n"
    "  - Rows are independent.\n"
    "tags: [matmul]\n"
    "scales: {outlier: 1}\n";

static const char FIXTURE_OTHER[] =
    "schema: 1\n"
    "id: 12k\n"
    "name: scale\n"
    "tier: translated\n"
    "summary: a scale\n"
    "formula: y = 2 x\n"
    "config: {N: N}\n"
    "shapes: {full: {N: 4096}, gate: {N: 512}}\n"
    "inputs: [{name: x, shape: [N], dtype: float32, role: activation, repaired: {normal: {std: 1}}}]\n"
    "outputs: [{shape: [N], dtype: float32}]\n"
    "flops: N\n"
    "min_bytes: 8*N\n";

static const char FIXTURE_PY[] = "CONFIG = {}\ndef workload(*inputs):\n    return inputs[0]\n";

static const char FIXTURE_ROBUST[] =
    "schema: 1\n"
    "name: robust\n"
    "variant: repaired\n"
    "summary: strict\n"
    "rows:\n"
    "  - {use: chk, temperature: 1.5, over: {shapes: [gate], draws: {own: 1, outlier: 2}}, when: loop}\n"
    "  - {use: chk, over: {shapes: [gate], draws: {own: 3}}, when: final}\n";
static const char FIXTURE_LAX[] =
    "schema: 1\nname: lax\nvariant: published\nrows: [{use: chk, over: {shapes: [gate], draws: {published: 1}}}]\n";

/* <dir>/suite/{s/8p_gemm,s/12k_scale,gates} */
static inline const char *fixture_suite(void)
{
    fixture_write("suite/s/8p_gemm/workload.yaml", FIXTURE_WORKLOAD);
    fixture_write("suite/s/8p_gemm/workload.py", FIXTURE_PY);
    fixture_write("suite/s/12k_scale/workload.yaml", FIXTURE_OTHER);
    fixture_write("suite/s/12k_scale/workload.py", FIXTURE_PY);
    fixture_write("suite/gates/robust.yaml", FIXTURE_ROBUST);
    fixture_write("suite/gates/lax.yaml", FIXTURE_LAX);
    return fixture_path("suite");
}

/* A text with its first `from` replaced; malloc'ed. */
static inline char *fixture_edit(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "\"%s\" is not in the text", from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *out = malloc(size);
    snprintf(out, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return out;
}

#endif
