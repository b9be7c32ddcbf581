/* SPDX-License-Identifier: Apache-2.0 */
/* Where the parts lie.  The test copies its own program into made-up build trees
 * and prefixes and runs it there (`test_layout --print`), because the layout is
 * decided by where the running program is. */
#include "tests/base/harness.h"

#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int print_layout(void)
{
    jb_layout l;
    jb_error err = JB_ERROR_INIT;
    if (jb_layout_find(&l, &err)) {
        printf("error %s", err.message);
        return 1;
    }
    printf("root=%s\nworker=%s\nsuite=%s\nplugins=%s\ncache=%s\n", l.root, l.worker, l.suite, l.plugins, l.cache);
    jb_layout_free(&l);
    return 0;
}

static char *base; /* a fresh folder, without links in its name */

static void open_base(void)
{
    char *made = new_folder();
    base = realpath(made, NULL);
    jb_free(made);
    static const char *const variables[] = { "JAXBENCH_SUITE", "JAXBENCH_PLUGIN_PATH", "JAXBENCH_WORKER", "JAXBENCH_CACHE", "XDG_CACHE_HOME", "XDG_DATA_HOME" };
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) unsetenv(variables[i]);
    setenv("HOME", base, 1);
}

static void close_base(void) { drop_folder(base); }

static void put(const char *name, const void *data, size_t len)
{
    jb_error err = JB_ERROR_INIT;
    char *path = jb_fs_join(base, name), *dir = jb_fs_dirname(path);
    ck_assert_int_eq(jb_fs_mkdirs(dir, &err), 0);
    ck_assert_msg(jb_fs_write_atomic(path, data, len, &err) == 0, "%s", err.message);
    jb_free(dir);
    jb_free(path);
}

/* Copy this program to base/name, run it there, and return what it prints with
 * every `base` in it written as "@". */
static char *run_at(const char *name)
{
    jb_error err = JB_ERROR_INIT;
    jb_buf program = JB_BUF_INIT(256u << 20), said = JB_BUF_INIT(65536), out = JB_BUF_INIT(65536);
    ck_assert_int_eq(jb_fs_read("/proc/self/exe", 256u << 20, &program, &err), 0);
    put(name, program.ptr, program.len);
    char *path = jb_fs_join(base, name), *command = jb_asprintf("%s --print", path), block[4096];
    ck_assert_int_eq(chmod(path, 0700), 0);
    FILE *f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    for (size_t n; (n = fread(block, 1, sizeof block, f)) > 0;) jb_buf_append(&said, block, n);
    pclose(f);
    ck_assert_ptr_nonnull(said.ptr);
    for (const char *p = said.ptr, *hit; *p; p = hit ? hit + strlen(base) : p + strlen(p)) {
        hit = strstr(p, base);
        jb_buf_append(&out, p, hit ? (size_t)(hit - p) : strlen(p));
        if (hit) jb_buf_puts(&out, "@");
    }
    jb_buf_free(&program);
    jb_buf_free(&said);
    jb_free(command);
    jb_free(path);
    return jb_buf_detach(&out);
}

static void expect(const char *name, const char *want)
{
    char *got = run_at(name);
    ck_assert_str_eq(got, want);
    jb_free(got);
}

static void put_cache(const char *name, const char *source)
{
    char *text = jb_asprintf("# This is the CMakeCache file.\nA:STRING=1\nCMAKE_HOME_DIRECTORY:INTERNAL=%s/%s\nB:STRING=2\n", base, source);
    put(name, text, strlen(text));
    jb_free(text);
}

#define BUILD_TREE "root=@/src\nworker=@/b/jaxbench-worker\nsuite=@/src/suite\nplugins=@/b/plugins\ncache=@/.cache/jaxbench\n"

START_TEST(a_build_tree_is_found_from_every_program_in_it)
{
    open_base();
    put_cache("b/CMakeCache.txt", "src");
    expect("b/jaxbench", BUILD_TREE);
    expect("b/tests/test_x", BUILD_TREE);
    expect("b/bin/jaxbench", BUILD_TREE); /* "bin" alone makes no installation */
    close_base();
}
END_TEST

START_TEST(an_installation_is_found_even_inside_a_build_tree)
{
    static const char want[] = "root=@/b/stage\nworker=@/b/stage/libexec/jaxbench/jaxbench-worker\nsuite=@/b/stage/share/jaxbench/suite\n"
                               "plugins=@/b/stage/lib/jaxbench/plugins/v1\ncache=@/.cache/jaxbench\n";
    open_base();
    put_cache("b/CMakeCache.txt", "src");
    put("b/stage/share/jaxbench/suite/x", "", 0);
    expect("b/stage/bin/jaxbench", want);
    expect("b/stage/libexec/jaxbench/jaxbench-worker", want);
    close_base();
}
END_TEST

START_TEST(the_environment_overrides)
{
    open_base();
    put_cache("b/CMakeCache.txt", "src");
    setenv("JAXBENCH_SUITE", "/s", 1);
    setenv("JAXBENCH_PLUGIN_PATH", "/p:/q", 1);
    setenv("JAXBENCH_WORKER", "/w", 1);
    setenv("JAXBENCH_CACHE", "/c", 1);
    expect("b/jaxbench", "root=@/src\nworker=/w\nsuite=/s\nplugins=/p:/q:@/b/plugins\ncache=/c\n");
    unsetenv("JAXBENCH_CACHE");
    setenv("XDG_CACHE_HOME", "/x", 1);
    setenv("JAXBENCH_SUITE", "", 1); /* empty is unset */
    setenv("JAXBENCH_PLUGIN_PATH", "", 1);
    expect("b/jaxbench", "root=@/src\nworker=/w\nsuite=@/src/suite\nplugins=@/b/plugins\ncache=/x/jaxbench\n");
    setenv("XDG_CACHE_HOME", "relative", 1); /* the XDG standard: to be ignored */
    expect("b/jaxbench", "root=@/src\nworker=/w\nsuite=@/src/suite\nplugins=@/b/plugins\ncache=@/.cache/jaxbench\n");
    close_base();
}
END_TEST

START_TEST(the_users_plugins_count_in_an_installation)
{
    open_base();
    put("i/share/jaxbench/suite/x", "", 0);
    put(".local/share/jaxbench/plugins/v1/x.so", "", 0);
    expect("i/bin/jaxbench", "root=@/i\nworker=@/i/libexec/jaxbench/jaxbench-worker\nsuite=@/i/share/jaxbench/suite\n"
                             "plugins=@/.local/share/jaxbench/plugins/v1:@/i/lib/jaxbench/plugins/v1\ncache=@/.cache/jaxbench\n");
    close_base();
}
END_TEST

START_TEST(a_stray_program_and_a_broken_cache_are_errors)
{
    open_base();
    char *said = run_at("x/y/z/u/v/w/stray/jaxbench");
    ck_assert_ptr_nonnull(strstr(said, "error @/x/y/z/u/v/w/stray/jaxbench lies neither in"));
    jb_free(said);
    put("b/CMakeCache.txt", "nothing here\n", 13);
    said = run_at("b/jaxbench");
    ck_assert_str_eq(said, "error @/b/CMakeCache.txt names no CMAKE_HOME_DIRECTORY");
    jb_free(said);
    close_base();
}
END_TEST

START_TEST(this_very_test_resolves)
{
    jb_layout l;
    jb_error err = JB_ERROR_INIT;
    char *cache = jb_fs_join(JB_BUILD_DIR, "CMakeCache.txt");
    if (jb_fs_exists(cache)) {
        ck_assert_msg(jb_layout_find(&l, &err) == 0, "%s", err.message);
        ck_assert_str_eq(l.root, JB_SOURCE_DIR);
        ck_assert_msg(strstr(l.plugins, JB_BUILD_DIR "/plugins") != NULL, "%s", l.plugins);
        jb_layout_free(&l);
    }
    jb_free(cache);
}
END_TEST

static int find_once(void)
{
    jb_layout l;
    jb_error err = JB_ERROR_INIT;
    if (jb_layout_find(&l, &err)) return err.code == JB_EIO ? JB_ENOMEM : err.code; /* /proc/self/exe has no code of its own for it */
    jb_layout_free(&l);
    return 0;
}

static void python_is(const char *expected)
{
    char *want = expected[0] == '/' ? jb_strdup(expected) : jb_fs_join(base, expected), *got = jb_layout_python(base);
    ck_assert_str_eq(got, want);
    jb_free(got);
    jb_free(want);
}

/* Each that is set or there comes before those that were tried so far. */
START_TEST(the_interpreter_is_looked_for_in_order)
{
    open_base();
    unsetenv("JAXBENCH_PYTHON");
    unsetenv("JAXBENCH_VENV");
    char *configured = jb_layout_python("/nowhere");
    ck_assert_ptr_nonnull(strstr(configured, "/bin/python"));
    jb_free(configured);
    put("share/jaxbench/venv.path", "opt/my venv\n", 12);
    python_is("opt/my venv/bin/python"); /* relative to the root */
    put("share/jaxbench/venv.path", "/opt/venv\r\n", 11);
    python_is("/opt/venv/bin/python");
    put("share/jaxbench/venv/pyvenv.cfg", "x", 1);
    python_is("share/jaxbench/venv/bin/python");
    setenv("JAXBENCH_VENV", "/v", 1);
    python_is("/v/bin/python");
    setenv("JAXBENCH_PYTHON", "/p/python3", 1);
    python_is("/p/python3");
    unsetenv("JAXBENCH_PYTHON");
    unsetenv("JAXBENCH_VENV");
    close_base();
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    /* On a failed allocation a folder may look absent: no crash, no leak, no success. */
    for (long n = 1; n < 200; n++) {
        jb_mem_fail_after(n, 1);
        int status = find_once();
        long made = jb_mem_count();
        jb_mem_fail_after(0, 0);
        if (made < n) {
            ck_assert_int_eq(status, 0);
            return;
        }
        ck_assert_int_lt(status, 0);
    }
    ck_abort_msg("the sweep never came to its end");
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "--print")) return print_layout();
    const TTest *const tests[] = { a_build_tree_is_found_from_every_program_in_it, an_installation_is_found_even_inside_a_build_tree,
                                   the_environment_overrides, the_users_plugins_count_in_an_installation,
                                   a_stray_program_and_a_broken_cache_are_errors, this_very_test_resolves, the_interpreter_is_looked_for_in_order, every_allocation_may_fail };
    return RUN_SUITE("layout", tests);
}
