/* SPDX-License-Identifier: Apache-2.0 */
/* YAML: the tree with its lines, everything that is refused and where, typed
 * reads by the core schema, and the way to JSON. */
#include "core/base/json.h"
#include "core/base/yaml.h"
#include "tests/base/harness.h"

#include <time.h>

static jb_yaml_doc *parse(const char *text)
{
    jb_error err = JB_ERROR_INIT;
    jb_yaml_doc *d = jb_yaml_parse(text, strlen(text), "t.yaml", &err);
    ck_assert_msg(d != NULL, "%s: %s", text, err.message);
    return d;
}

START_TEST(the_tree_keeps_lines_and_quotes)
{
    jb_yaml_doc *d = parse("# comment\nname: gemm\nrows:\n  - {use: a, max: 1.5}\n  - use: 'b'\n    when: \"loop\"\ntext: |\n  one\n  two\nempty:\n");
    const jb_yaml *root = jb_yaml_root(d), *rows = jb_yaml_get(root, "rows");
    ck_assert_str_eq(jb_yaml_file(d), "t.yaml");
    ck_assert_int_eq(root->kind, JB_YAML_MAPPING);
    ck_assert_uint_eq(root->count, 4);
    ck_assert_str_eq(root->keys[0]->text, "name");
    ck_assert_int_eq(root->keys[0]->line, 2);
    ck_assert_int_eq(root->items[0]->line, 2);
    ck_assert_int_eq(root->items[0]->column, 7);
    ck_assert_int_eq(rows->kind, JB_YAML_SEQUENCE);
    ck_assert_uint_eq(rows->count, 2);
    ck_assert_int_eq(rows->items[1]->line, 5);
    ck_assert_int_eq(jb_yaml_get(rows->items[0], "use")->quoted, 0);
    ck_assert_int_eq(jb_yaml_get(rows->items[1], "use")->quoted, 1);
    ck_assert_str_eq(jb_yaml_get(rows->items[1], "when")->text, "loop");
    ck_assert_str_eq(jb_yaml_get(root, "text")->text, "one\ntwo\n");
    ck_assert_int_eq(jb_yaml_get(root, "text")->quoted, 1);
    ck_assert_str_eq(jb_yaml_get(root, "empty")->text, "");
    ck_assert_ptr_null(jb_yaml_get(root, "absent"));
    ck_assert_ptr_null(jb_yaml_get(rows, "use"));
    ck_assert_ptr_null(jb_yaml_get(NULL, "use"));
    jb_yaml_free(d);
    jb_yaml_free(NULL);
}
END_TEST

START_TEST(malformed_and_dangerous_files_are_refused_with_their_line)
{
    static const struct { const char *text, *message, *where; } cases[] = {
        { "", "holds no value", "t.yaml:1" }, { "# only\n", "holds no value", "t.yaml:" }, { "---\n...\n--- a\n", "more than one document", "t.yaml:3" },
        { "a: 1\n---\nb: 2\n", "more than one document", "t.yaml:2" }, { "a: &x 1\nb: *x\n", "anchors", "t.yaml:1" }, { "a: 1\nb: *x\n", "anchors", "t.yaml:2" },
        { "a: &x [1]\n", "&x", "t.yaml:1" }, { "a: &m {b: 1}\n", "&m", "t.yaml:1" }, { "&k a: 1\n", "&k", "t.yaml:1" }, { "*a : 1\n", "*a", "t.yaml:1" },
        { "a: !!python/object:os.system x\n", "tags", "t.yaml:1" }, { "a: ! x\n", "tags", "t.yaml:1" }, { "a: !!map {}\n", "tags", "t.yaml:1" }, { "!x [1]\n", "tags", "t.yaml:1" },
        { "a: 1\nb: 2\na: 3\n", "\"a\" occurs twice: in line 1 and in line 3", "t.yaml:3" }, { "x: {k: 1, \"k\": 2}\n", "\"k\" occurs twice", "t.yaml:1" },
        { "? [a, b]\n: 1\n", "key must be a word", "t.yaml:1" }, { "? {a: b}\n: 1\n", "key must be a word", "t.yaml:1" }, { ": 1\n", "malformed YAML", "t.yaml:1" }, { "a: 1\n'': 2\n", "key is empty", "t.yaml:2" },
        { "a: [1, 2\nb: 3\n", "malformed YAML", "t.yaml:2" }, { "a: b: c\n", "malformed YAML", "t.yaml:1" }, { "a:\n\t- 1\n", "malformed YAML", "t.yaml:2" },
        { "a: 'open\n", "malformed YAML", "t.yaml:" }, { "a: \"\\q\"\n", "malformed YAML", "t.yaml:1" }, { "a: \"x\\0y\"\n", "NUL", "t.yaml:1" }, { "a: @x\n", "malformed YAML", "t.yaml:1" },
        { "ok: 1\nbad: \xFF\xFE\n", "not UTF-8", "t.yaml:2" }, { "a: \x01\n", "malformed YAML", "t.yaml:" }, { "\xFF\xFE\x61", "not UTF-8", "t.yaml:1" }, { "{", "malformed YAML", "t.yaml:" },
        { "- a\nb: 1\n", "malformed YAML", "t.yaml:2" }, { "%TAG ! tag:x,2000:\n---\na: !b 1\n", "tags", "t.yaml:3" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        jb_yaml_doc *d = jb_yaml_parse(cases[i].text, strlen(cases[i].text), "t.yaml", &err);
        ck_assert_msg(d == NULL, "accepted: %s", cases[i].text);
        ck_assert_int_eq(err.code, JB_EPARSE);
        ck_assert_msg(strstr(err.message, cases[i].message) != NULL, "%s: \"%s\" has no \"%s\"", cases[i].text, err.message, cases[i].message);
        ck_assert_msg(strncmp(err.where, cases[i].where, strlen(cases[i].where)) == 0, "%s: at \"%s\", expected %s", cases[i].text, err.where, cases[i].where);
        ck_assert_ptr_null(jb_yaml_parse(cases[i].text, strlen(cases[i].text), "t.yaml", NULL));
    }
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_null(jb_yaml_parse("a: x\0y", 6, "t.yaml", &err));
    ck_assert_ptr_null(jb_yaml_parse(NULL, 0, "t.yaml", &err));
}
END_TEST

START_TEST(depth_count_and_size_are_capped_and_quickly)
{
    jb_error err = JB_ERROR_INIT;
    jb_buf b = JB_BUF_INIT(64 << 20);
    clock_t from = clock();
    for (int i = 0; i < 32; i++) jb_buf_puts(&b, "[");
    for (int i = 0; i < 32; i++) jb_buf_puts(&b, "]");
    jb_yaml_doc *d = jb_yaml_parse(b.ptr, b.len, "deep", &err);
    ck_assert_ptr_nonnull(d);
    jb_yaml_free(d);
    jb_buf_reset(&b);
    for (int i = 0; i < 33; i++) jb_buf_puts(&b, "[");
    for (int i = 0; i < 33; i++) jb_buf_puts(&b, "]");
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "deep", &err));
    jb_buf_reset(&b);
    for (int i = 0; i < 1000000; i++) jb_buf_puts(&b, "[");
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "deep", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "deeper than 32"));
    jb_buf_reset(&b);
    for (int i = 0; i < 1000; i++) jb_buf_printf(&b, "%*sa:\n", i, "");
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "deep", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "deeper than 32"));
    jb_buf_reset(&b);
    for (int i = 0; i < 100001; i++) jb_buf_puts(&b, "- 1\n");
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "many", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "more than 100000"));
    jb_buf_reset(&b);
    for (int i = 0; i < 49000; i++) jb_buf_printf(&b, "k%d: 1\n", i);
    jb_buf_puts(&b, "k5: 1\n");
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "keys", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "in line 6 and in line 49001"));
    jb_buf_reset(&b);
    /* the billion laughs stop at the first anchor */
    jb_buf_puts(&b, "a: &a [lol, lol, lol]\n");
    for (char c = 'b'; c < 'k'; c++) jb_buf_printf(&b, "%c: &%c [*%c, *%c, *%c, *%c]\n", c, c, c - 1, c - 1, c - 1, c - 1);
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "laughs", &err));
    ck_assert_str_eq(err.where, "laughs:1");
    jb_buf_reset(&b);
    for (int i = 0; i < 1000000; i++) jb_buf_puts(&b, "- 1234567\n"); /* 10 MB */
    ck_assert_ptr_null(jb_yaml_parse(b.ptr, b.len, "big", &err));
    ck_assert_ptr_nonnull(strstr(err.message, "at most"));
    char *dir = new_folder(), *path = jb_fs_join(dir, "big.yaml");
    ck_assert_int_eq(jb_fs_write_atomic(path, b.ptr, b.len, &err), 0);
    clock_t load = clock();
    ck_assert_ptr_null(jb_yaml_load(path, 1 << 20, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "larger than 1048576"));
    ck_assert_double_lt((double)(clock() - load) / CLOCKS_PER_SEC, 0.5); /* refused by its size, unread */
    jb_free(path);
    drop_folder(dir);
    jb_buf_free(&b);
    ck_assert_double_lt((double)(clock() - from) / CLOCKS_PER_SEC, 30);
}
END_TEST

START_TEST(typed_reads)
{
    jb_yaml_doc *d = parse("i: 12\nneg: -3\nhex: 0x1F\noct: 0o17\nf: 1.5\ne: 1e3\nb: true\nB: FALSE\nq: '12'\nno: no\ntime: 12:30\nnil: ~\nnone:\nl: [1]\n"
                           "m: {x: {y: [a, 7]}}\ninf: .inf\nnan: .nan\nbig: 9223372036854775808\nlead: 007\nhexbig: 0x8000000000000000\nhexmax: 0x7fffffffffffffff\noctbig: 0o1000000000000000000000\n");
    const jb_yaml *r = jb_yaml_root(d);
    static const struct { const char *key; int has_i; int64_t i; int has_f; double f; int has_b; int b; const char *s; } cases[] = {
        { "i", 1, 12, 1, 12, 0, 0, "12" }, { "neg", 1, -3, 1, -3, 0, 0, "-3" }, { "hex", 1, 31, 1, 31, 0, 0, "0x1F" }, { "oct", 1, 15, 1, 15, 0, 0, "0o17" },
        { "f", 0, 0, 1, 1.5, 0, 0, "1.5" }, { "e", 0, 0, 1, 1000, 0, 0, "1e3" }, { "b", 0, 0, 0, 0, 1, 1, "true" }, { "B", 0, 0, 0, 0, 1, 0, "FALSE" },
        { "q", 0, 0, 0, 0, 0, 0, "12" }, { "no", 0, 0, 0, 0, 0, 0, "no" }, { "time", 0, 0, 0, 0, 0, 0, "12:30" }, { "nil", 0, 0, 0, 0, 0, 0, NULL },
        { "none", 0, 0, 0, 0, 0, 0, NULL }, { "l", 0, 0, 0, 0, 0, 0, NULL }, { "m", 0, 0, 0, 0, 0, 0, NULL }, { "inf", 0, 0, 0, 0, 0, 0, ".inf" },
        { "nan", 0, 0, 0, 0, 0, 0, ".nan" }, { "big", 0, 0, 1, 0x1p63, 0, 0, "9223372036854775808" }, { "lead", 1, 7, 1, 7, 0, 0, "007" },
        { "hexbig", 0, 0, 0, 0, 0, 0, "0x8000000000000000" }, { "hexmax", 1, INT64_MAX, 1, 0x1p63, 0, 0, "0x7fffffffffffffff" },
        { "octbig", 0, 0, 0, 0, 0, 0, "0o1000000000000000000000" }, { "absent", 0, 0, 0, 0, 0, 0, NULL },
    };
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const jb_yaml *n = jb_yaml_get(r, cases[k].key);
        jb_error err = JB_ERROR_INIT;
        int64_t i = 0;
        double f = 0;
        int b = -1;
        const char *s = NULL;
        ck_assert_msg((jb_yaml_i64(d, n, &i, &err) == 0) == cases[k].has_i && i == cases[k].i, "%s as an int", cases[k].key);
        ck_assert_msg((jb_yaml_f64(d, n, &f, &err) == 0) == cases[k].has_f && f == cases[k].f, "%s as a float", cases[k].key);
        ck_assert_msg((jb_yaml_bool(d, n, &b, &err) == 0) == cases[k].has_b && (!cases[k].has_b || b == cases[k].b), "%s as a bool", cases[k].key);
        jb_yaml_str(d, n, &s, &err);
        ck_assert_pstr_eq(s, cases[k].s);
    }
    jb_error err = JB_ERROR_INIT;
    int64_t i;
    const jb_yaml *deep = jb_yaml_get(jb_yaml_get(jb_yaml_get(r, "m"), "x"), "y")->items[0];
    ck_assert_int_eq(jb_yaml_i64(d, deep, &i, &err), JB_EINVAL);
    ck_assert_str_eq(err.message, "m.x.y[0]: expected a whole number, saw \"a\"");
    ck_assert_str_eq(err.where, "t.yaml:15");
    ck_assert_uint_eq(err.flags & JB_ERR_USER, JB_ERR_USER);
    ck_assert_int_eq(jb_yaml_i64(d, jb_yaml_get(r, "q"), &i, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "quoted"));
    ck_assert_int_eq(jb_yaml_i64(d, jb_yaml_get(r, "l"), &i, &err), JB_EINVAL);
    ck_assert_str_eq(err.message, "l: expected a whole number, saw a list");
    ck_assert_int_eq(jb_yaml_i64(d, NULL, &i, NULL), JB_EINVAL);
    jb_yaml_free(d);
}
END_TEST

START_TEST(a_long_path_is_cut_not_overrun)
{
    jb_buf b = JB_BUF_INIT(10000);
    for (int i = 0; i < 31; i++) jb_buf_printf(&b, "%*sa_rather_long_key_name_%d:\n", i, "", i);
    jb_buf_printf(&b, "%*sx: word\n", 31, "");
    jb_yaml_doc *d = parse(b.ptr);
    const jb_yaml *n = jb_yaml_root(d);
    while (n->kind == JB_YAML_MAPPING) n = n->items[0];
    int64_t i;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_yaml_i64(d, n, &i, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "x: expected a whole number, saw \"word\""));
    jb_yaml_free(d);
    jb_buf_free(&b);
}
END_TEST

START_TEST(unknown_keys_name_the_nearest)
{
    static const char *const allowed[] = { "name", "variant", "rows" };
    jb_yaml_doc *d = parse("name: x\nvarient: y\n");
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_yaml_only_keys(d, jb_yaml_root(d), allowed, 3, &err), JB_EINVAL);
    ck_assert_str_eq(err.message, "unknown key \"varient\"");
    ck_assert_str_eq(err.hint, "did you mean \"variant\"?");
    ck_assert_str_eq(err.where, "t.yaml:2");
    jb_yaml_free(d);
    d = parse("zzzzz: x\n");
    ck_assert_int_eq(jb_yaml_only_keys(d, jb_yaml_root(d), allowed, 3, &err), JB_EINVAL);
    ck_assert_str_eq(err.hint, "known keys: name, variant, rows");
    ck_assert_int_eq(jb_yaml_only_keys(d, jb_yaml_root(d)->items[0], allowed, 3, &err), JB_EINVAL);
    ck_assert_ptr_nonnull(strstr(err.message, "expected a mapping"));
    jb_yaml_free(d);
    d = parse("{rows: 1, name: 2}");
    ck_assert_int_eq(jb_yaml_only_keys(d, jb_yaml_root(d), allowed, 3, &err), 0);
    jb_yaml_free(d);
}
END_TEST

START_TEST(own_errors_carry_file_and_line)
{
    jb_yaml_doc *d = parse("a:\n  b: 1\n");
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_yaml_error(d, jb_yaml_get(jb_yaml_get(jb_yaml_root(d), "a"), "b"), &err, JB_ENOTFOUND, "no %s", "thing"), JB_ENOTFOUND);
    ck_assert_str_eq(err.message, "no thing");
    ck_assert_str_eq(err.where, "t.yaml:2");
    ck_assert_int_eq(jb_yaml_error(d, NULL, &err, JB_EINVAL, "x"), JB_EINVAL);
    ck_assert_str_eq(err.where, "t.yaml");
    jb_yaml_free(d);
}
END_TEST

START_TEST(to_json_types_plain_scalars_only)
{
    jb_yaml_doc *d = parse("{a: 1, b: 1.5, c: '1', d: true, e: no, f: ~, g: null, h: [0x10, 0o10, -7, +7, 1e3, .5], i: .inf, j: .nan, k: 12:30, l: 0xZZ, "
                           "m: 9007199254740993, n: 99999999999999999999, o: \"true\", p: 1_000, q: 007, r: 1e999, s: , t: 2*M*K, u: -.inf, v: 0x, w: '', x: Yes}");
    cJSON *o = jb_yaml_to_json(jb_yaml_root(d));
    jb_buf b = JB_BUF_INIT(2000);
    jb_json_print(o, &b);
    ck_assert_str_eq(b.ptr, "{\"a\":1,\"b\":1.5,\"c\":\"1\",\"d\":true,\"e\":\"no\",\"f\":null,\"g\":null,\"h\":[16,8,-7,7,1000,0.5],\"i\":\".inf\",\"j\":\".nan\","
                            "\"k\":\"12:30\",\"l\":\"0xZZ\",\"m\":\"9007199254740993\",\"n\":\"99999999999999999999\",\"o\":\"true\",\"p\":\"1_000\",\"q\":7,\"r\":\"1e999\","
                            "\"s\":null,\"t\":\"2*M*K\",\"u\":\"-.inf\",\"v\":\"0x\",\"w\":\"\",\"x\":\"Yes\"}");
    jb_buf_free(&b);
    cJSON_Delete(o);
    jb_yaml_free(d);
}
END_TEST

START_TEST(loading_files)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "a.yaml");
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_null(jb_yaml_load(path, 1000, &err));
    ck_assert_int_eq(err.code, JB_ENOTFOUND);
    jb_fs_write_atomic(path, "a: [1\n", 6, &err);
    ck_assert_ptr_null(jb_yaml_load(path, 1000, &err));
    ck_assert_ptr_nonnull(strstr(err.where, "a.yaml:"));
    jb_fs_write_atomic(path, "\xEF\xBB\xBF" "a: 1\n", 8, &err);
    jb_yaml_doc *d = jb_yaml_load(path, 1000, &err); /* a byte order mark is fine */
    ck_assert_ptr_nonnull(d);
    ck_assert_ptr_nonnull(jb_yaml_get(jb_yaml_root(d), "a"));
    ck_assert_str_eq(jb_yaml_file(d), path);
    jb_yaml_free(d);
    jb_free(path);
    drop_folder(dir);
}
END_TEST

static int parse_and_convert(void)
{
    static const char text[] = "a: [1, two, {b: 'c', d: 0x10}]\nlong: 9007199254740993\nmap: {x: 1, y: 2, z: 3}\n";
    jb_error err = JB_ERROR_INIT;
    jb_yaml_doc *d = jb_yaml_parse(text, sizeof text - 1, "sweep", &err);
    if (!d) return err.code;
    cJSON *o = jb_yaml_to_json(jb_yaml_root(d));
    jb_yaml_free(d);
    int status = o ? 0 : JB_ENOMEM;
    cJSON_Delete(o);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    jb_json_setup();
    SWEEP(parse_and_convert());
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { the_tree_keeps_lines_and_quotes, malformed_and_dangerous_files_are_refused_with_their_line,
                                   depth_count_and_size_are_capped_and_quickly, typed_reads, a_long_path_is_cut_not_overrun,
                                   unknown_keys_name_the_nearest, own_errors_carry_file_and_line, to_json_types_plain_scalars_only, loading_files,
                                   every_allocation_may_fail };
    return RUN_SUITE("yaml", tests);
}
