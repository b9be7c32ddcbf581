/* SPDX-License-Identifier: Apache-2.0 */
/* JSON: what is accepted and refused, getters on anything, setters, and printing
 * that reads back to the same tree. */
#include "core/base/json.h"
#include "tests/base/harness.h"

#include <locale.h>
#include <math.h>

static cJSON *parse(const char *text)
{
    jb_error err = JB_ERROR_INIT;
    cJSON *o = jb_json_parse(text, strlen(text), &err);
    ck_assert_msg(o != NULL, "%s: %s", text, err.message);
    return o;
}

static char *print(const cJSON *o)
{
    jb_buf b = JB_BUF_INIT(1 << 20);
    ck_assert_int_eq(jb_json_print(o, &b), 0);
    return jb_buf_detach(&b);
}

START_TEST(good_documents_print_back)
{
    static const struct { const char *in, *out; } cases[] = {
        { "null", "null" }, { " true ", "true" }, { "[]", "[]" }, { "{}", "{}" }, { "\t[1 ,2\n,3]\r\n", "[1,2,3]" },
        { "{\"b\":1,\"a\":{\"x\":[]}}", "{\"b\":1,\"a\":{\"x\":[]}}" }, { "\"\"", "\"\"" }, { "-0", "-0.0" }, { "0", "0" }, { "-0.0", "-0.0" },
        { "1.5", "1.5" }, { "1e3", "1000" }, { "1E-2", "0.01" }, { "0.1", "0.1" }, { "9007199254740992", "9007199254740992" }, { "1e22", "1e+22" },
        { "123456789012345678901234567890123456789012345678901234567890123456789012345", "1.2345678901234568e+74" },
        { "5e-324", "4.94065645841247e-324" }, { "\"\\u00e9\\n\\\"\\\\\\/\\b\\f\\r\\t\"", "\"\xC3\xA9\\n\\\"\\\\/\\b\\f\\r\\t\"" },
        { "\"\\ud83d\\ude00\"", "\"\xF0\x9F\x98\x80\"" }, { "\"\x7f\"", "\"\\u007f\"" }, { "\"\\u001b[0m\"", "\"\\u001b[0m\"" },
        { "{\"\":0}", "{\"\":0}" }, { "[[[[1]]]]", "[[[[1]]]]" },
        /* what json.dumps makes of a candidate's odd text must not break a record */
        { "\"a\\u0000b\"", "\"a\xEF\xBF\xBD" "b\"" }, { "\"\\ud800\"", "\"\xEF\xBF\xBD\"" }, { "\"\\udc80x\"", "\"\xEF\xBF\xBDx\"" },
        { "\"\\ud800\\u0041\"", "\"\xEF\xBF\xBD" "A\"" }, { "\"\\ud800\\ud83d\\ude00\"", "\"\xEF\xBF\xBD\xF0\x9F\x98\x80\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cJSON *o = parse(cases[i].in);
        char *text = print(o);
        ck_assert_str_eq(text, cases[i].out);
        cJSON *again = parse(text);
        char *second = print(again);
        ck_assert_str_eq(second, text);
        jb_free(text);
        jb_free(second);
        cJSON_Delete(o);
        cJSON_Delete(again);
    }
}
END_TEST

START_TEST(bad_documents_are_refused_with_a_place)
{
    static const struct { const char *in, *message; } cases[] = {
        { "", "line 1, column 1: expected a value, saw the end" }, { " ", "the end" }, { "{", "expected a string, saw the end" }, { "[", "the end" },
        { "]", "saw ']'" }, { "{]", "expected a string" }, { "[1,]", "expected a value, saw ']'" }, { "{\"a\":1,}", "expected a string, saw '}'" },
        { "{\"a\"}", "expected ':'" }, { "{\"a\":}", "expected a value" }, { "{a:1}", "expected a string, saw 'a'" }, { "{1:2}", "expected a string" },
        { "[1 2]", "expected ',' or ']', saw '2'" }, { "{\"a\":1 \"b\":2}", "expected ',' or '}'" }, { "1 2", "expected the end, saw '2'" }, { "{}x", "expected the end" },
        { "tru", "expected a value" }, { "True", "expected a value" }, { "nul", "expected a value" }, { "NaN", "expected a value" }, { "Infinity", "expected a value" },
        { "01", "expected the end" }, { "+1", "expected a value" }, { "-", "expected a value" }, { "1.", "digit after the point" }, { ".5", "expected a value" },
        { "1e", "digit in the exponent" }, { "1e+", "digit in the exponent" }, { "1e999", "range of a double" }, { "0x10", "expected the end" }, { "'a'", "expected a value" },
        { "\"", "closing quote" }, { "\"\\", "closing quote" }, { "\"\\\"", "closing quote" }, { "\"a\nb\"", "control characters" }, { "\"\\x41\"", "escape" },
        { "\"\\u12\"", "escape" }, { "\"\\u12g4\"", "escape" }, { "\"\x01\"", "control characters" }, { "\"\xFF\"", "UTF-8" }, { "\"\xED\xA0\x80\"", "UTF-8" },
        { "{\"a\":1,\"b\":2,\"a\":3}", "\"a\"" }, { "{\"x\":{\"k\":1,\"\\u006b\":1}}", "\"k\"" }, { "[1,\n 2,\n  x]", "line 3, column 3" },
        { "// c\n1", "expected a value" }, { "\xEF\xBB\xBF{}", "expected a value" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        cJSON *o = jb_json_parse(cases[i].in, strlen(cases[i].in), &err);
        ck_assert_msg(o == NULL, "accepted: %s", cases[i].in);
        ck_assert_int_eq(err.code, JB_EPARSE);
        ck_assert_msg(strstr(err.message, cases[i].message) != NULL, "%s: \"%s\" has no \"%s\"", cases[i].in, err.message, cases[i].message);
        ck_assert_ptr_null(jb_json_parse(cases[i].in, strlen(cases[i].in), NULL));
    }
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_null(jb_json_parse("{}\0", 3, &err));
    ck_assert_ptr_null(jb_json_parse("\"a\0b\"", 5, &err));
    ck_assert_ptr_null(jb_json_parse(NULL, 0, &err));
}
END_TEST

START_TEST(every_prefix_of_a_document_is_refused)
{
    const char *text = "{\"a\":[1,-2.5e3,true,null,{\"b\\u00e9\":\"x\\n\"}],\"c\":{}}";
    for (size_t n = 0; n < strlen(text); n++) {
        char *copy = jb_alloc(n ? n : 1); /* exactly as long, so that ASan sees a read behind it */
        memcpy(copy, text, n);
        jb_error err = JB_ERROR_INIT;
        ck_assert_msg(jb_json_parse(copy, n, &err) == NULL, "prefix of %zu", n);
        jb_free(copy);
    }
}
END_TEST

static char *nested(size_t levels)
{
    char *text = jb_alloc(2 * levels + 1);
    memset(text, '[', levels);
    memset(text + levels, ']', levels);
    return text;
}

START_TEST(depth_size_and_count_are_capped)
{
    jb_error err = JB_ERROR_INIT;
    char *text = nested(JB_JSON_MAX_DEPTH);
    cJSON *o = jb_json_parse(text, strlen(text), &err);
    ck_assert_ptr_nonnull(o);
    cJSON_Delete(o);
    jb_free(text);
    static const size_t deep[] = { JB_JSON_MAX_DEPTH + 1, 1000000 };
    for (size_t i = 0; i < 2; i++) {
        text = nested(deep[i]);
        ck_assert_ptr_null(jb_json_parse(text, strlen(text), &err));
        ck_assert_ptr_nonnull(strstr(err.message, "nesting"));
        jb_free(text);
    }
    ck_assert_ptr_null(jb_json_parse("[]", (size_t)JB_JSON_MAX_BYTES + 1, &err)); /* refused before it is read */
    ck_assert_ptr_nonnull(strstr(err.message, "at most"));
    size_t n = 2 * (size_t)JB_JSON_MAX_NODES + 2;
    text = jb_alloc(n + 1);
    memset(text, '0', n);
    for (size_t i = 2; i < n; i += 2) text[i] = ',';
    text[0] = '[';
    text[n - 1] = ']';
    ck_assert_ptr_null(jb_json_parse(text, n, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "values"));
    jb_free(text);
}
END_TEST

START_TEST(many_keys_are_checked_quickly)
{
    jb_buf b = JB_BUF_INIT(8 << 20);
    jb_buf_puts(&b, "{");
    for (int i = 0; i < 100000; i++) jb_buf_printf(&b, "\"k%d\":0,", i);
    jb_buf_puts(&b, "\"k77\":1}");
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_null(jb_json_parse(b.ptr, b.len, &err)); /* quadratic would time out under ASan */
    ck_assert_ptr_nonnull(strstr(err.message, "\"k77\""));
    jb_buf_free(&b);
}
END_TEST

START_TEST(getters_never_crash_and_give_defaults)
{
    cJSON *o = parse("{\"s\":\"x\",\"n\":2.5,\"i\":7,\"big\":\"9223372036854775807\",\"t\":true,\"o\":{\"p\":{\"q\":3}},\"a\":[1],\"z\":null,\"inf\":\"inf\",\"ninf\":\"-inf\",\"nan\":\"nan\",\"d\":\"12\"}");
    ck_assert_str_eq(jb_json_str(o, "s", "-"), "x");
    static const char *const not_strings[] = { "n", "t", "o", "a", "z", "absent" };
    for (size_t i = 0; i < sizeof not_strings / sizeof not_strings[0]; i++) ck_assert_str_eq(jb_json_str(o, not_strings[i], "-"), "-");
    ck_assert_double_eq(jb_json_num(o, "n", -1), 2.5);
    ck_assert_double_eq(jb_json_num(o, "s", -1), -1);
    ck_assert_double_eq(jb_json_num(o, "d", -1), -1);
    ck_assert_double_eq(jb_json_num(o, "big", -1), 0x1p63);
    ck_assert(isinf(jb_json_num(o, "inf", 0)) && jb_json_num(o, "ninf", 0) < 0 && isnan(jb_json_num(o, "nan", 0)));
    ck_assert_int_eq(jb_json_i64(o, "i", -1), 7);
    ck_assert_int_eq(jb_json_i64(o, "big", -1), INT64_MAX);
    ck_assert_int_eq(jb_json_i64(o, "d", -1), 12);
    ck_assert_int_eq(jb_json_i64(o, "n", -1), -1);
    ck_assert_int_eq(jb_json_i64(o, "s", -1), -1);
    ck_assert_int_eq(jb_json_bool(o, "t", 0), 1);
    ck_assert_int_eq(jb_json_bool(o, "i", 0), 0);
    ck_assert_ptr_nonnull(jb_json_obj(o, "o"));
    ck_assert_ptr_nonnull(jb_json_obj(o, "a"));
    ck_assert_ptr_null(jb_json_obj(o, "s"));
    ck_assert_double_eq(jb_json_path(o, "o.p.q")->valuedouble, 3);
    static const char *const nowhere[] = { "o.p.x", "s.x", "a.0", "x.y.z", "o..p", ".o" };
    for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++) ck_assert_ptr_null(jb_json_path(o, nowhere[i]));
    ck_assert_str_eq(jb_json_str(NULL, "s", "-"), "-");
    ck_assert_ptr_null(jb_json_path(NULL, "a"));
    ck_assert_int_eq(jb_json_i64(jb_json_obj(o, "a"), "x", 5), 5);
    cJSON_Delete(o);
}
END_TEST

START_TEST(setters_replace_in_place_and_append_to_arrays)
{
    cJSON *o = cJSON_CreateObject();
    ck_assert_int_eq(jb_json_set_str(o, "a", "1"), 0);
    ck_assert_int_eq(jb_json_set_i64(o, "b", 2), 0);
    ck_assert_int_eq(jb_json_set_num(o, "a", 0.25), 0);
    ck_assert_int_eq(jb_json_set_i64(o, "big", INT64_MIN), 0);
    ck_assert_int_eq(jb_json_set_i64(o, "edge", INT64_C(1) << 53), 0);
    ck_assert_int_eq(jb_json_set_num(o, "inf", -INFINITY), 0);
    ck_assert_int_eq(jb_json_set_num(o, "nan", NAN), 0);
    ck_assert_int_eq(jb_json_set_bool(o, "t", 5), 0);
    ck_assert_int_eq(jb_json_set_str(o, "none", NULL), 0);
    jb_view bytes = { "a\0\xFF\xE2\x82\xAC\xE2\x82", 8 };
    ck_assert_int_eq(jb_json_set_view(o, "v", bytes), 0);
    ck_assert_int_eq(jb_json_set_view(o, "e", (jb_view){ NULL, 0 }), 0);
    cJSON *list = jb_json_add_arr(o, "l");
    ck_assert_int_eq(jb_json_set_i64(list, NULL, 1), 0);
    ck_assert_int_eq(jb_json_set_str(list, "ignored", "x"), 0);
    ck_assert_ptr_nonnull(jb_json_add_obj(list, NULL));
    char *text = print(o);
    ck_assert_str_eq(text, "{\"a\":0.25,\"b\":2,\"big\":\"-9223372036854775808\",\"edge\":9007199254740992,\"inf\":\"-inf\",\"nan\":\"nan\",\"t\":true,"
                           "\"none\":null,\"v\":\"a\xEF\xBF\xBD\xEF\xBF\xBD\xE2\x82\xAC\xEF\xBF\xBD\xEF\xBF\xBD\",\"e\":\"\",\"l\":[1,\"x\",{}]}");
    ck_assert_int_eq(jb_json_i64(o, "big", 0), INT64_MIN);
    jb_free(text);
    ck_assert_int_eq(jb_json_set_i64(NULL, "a", 1), JB_ENOMEM);
    ck_assert_ptr_null(jb_json_add_obj(NULL, "a"));
    cJSON_Delete(o);
}
END_TEST

START_TEST(canonical_sorts_keys_and_pretty_indents)
{
    cJSON *o = parse("{\"b\":[{\"z\":1,\"y\":{}},[]],\"a\":1,\"B\":2,\"\xC3\xA9\":3}");
    jb_buf b = JB_BUF_INIT(1000);
    ck_assert_int_eq(jb_json_print_canonical(o, &b), 0);
    ck_assert_str_eq(b.ptr, "{\"B\":2,\"a\":1,\"b\":[{\"y\":{},\"z\":1},[]],\"\xC3\xA9\":3}");
    jb_buf_reset(&b);
    ck_assert_int_eq(jb_json_print_pretty(o, &b), 0);
    ck_assert_str_eq(b.ptr, "{\n  \"b\": [\n    {\n      \"z\": 1,\n      \"y\": {}\n    },\n    []\n  ],\n  \"a\": 1,\n  \"B\": 2,\n  \"\xC3\xA9\": 3\n}");
    jb_buf_free(&b);
    jb_buf small = JB_BUF_INIT(10);
    ck_assert_int_eq(jb_json_print(o, &small), JB_EINVAL);
    jb_buf_free(&small);
    cJSON_Delete(o);
}
END_TEST

START_TEST(doubles_read_back_equal)
{
    uint64_t bits = 1;
    cJSON *o = cJSON_CreateNumber(0);
    for (int i = 0; i < 20000; i++) {
        double d;
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d)) continue;
        o->valuedouble = d;
        char *text = print(o);
        ck_assert_msg(strtod(text, NULL) == d, "%s for %a", text, d);
        ck_assert_uint_le(strlen(text), 24);
        jb_free(text);
    }
    cJSON_Delete(o);
}
END_TEST

START_TEST(a_locale_with_commas_changes_nothing)
{
    if (!setlocale(LC_ALL, "de_DE.UTF-8") && !setlocale(LC_ALL, "fr_FR.UTF-8")) return; /* none installed: nothing to see */
    cJSON *o = parse("[1.5,0.1]");
    char *text = print(o);
    setlocale(LC_ALL, "C");
    ck_assert_str_eq(text, "[1.5,0.1]");
    jb_free(text);
    cJSON_Delete(o);
}
END_TEST

START_TEST(files)
{
    char *dir = new_folder(), *path = jb_fs_join(dir, "x.json");
    jb_error err = JB_ERROR_INIT;
    jb_fs_write_atomic(path, "{\"a\":1}\n", 8, &err);
    cJSON *o = jb_json_read_file(path, 100, &err);
    ck_assert_int_eq(jb_json_i64(o, "a", 0), 1);
    cJSON_Delete(o);
    ck_assert_ptr_null(jb_json_read_file(path, 7, &err));
    jb_fs_write_atomic(path, "{\"a\":", 5, &err);
    ck_assert_ptr_null(jb_json_read_file(path, 100, &err));
    ck_assert_str_eq(err.where, path);
    ck_assert_int_eq(err.code, JB_EPARSE);
    jb_fs_write_atomic(path, "", 0, &err);
    ck_assert_ptr_null(jb_json_read_file(path, 100, &err));
    jb_free(path);
    drop_folder(dir);
}
END_TEST

static int round_trip(void)
{
    const char *text = "{\"a\":[1,\"two\",{\"b\":null,\"c\":\"\\u00e9\"}],\"d\":1111111111111111111111111111111111111111111111111111111111111111111111111111111111}";
    jb_error err = JB_ERROR_INIT;
    jb_buf b = JB_BUF_INIT(1000);
    int status = 0;
    cJSON *o = jb_json_parse(text, strlen(text), &err);
    if (!o) status = err.code;
    if (!status) status = jb_json_print_canonical(o, &b);
    if (!status) status = jb_json_set_str(o, "a", "text");
    if (!status) status = jb_json_set_i64(o, "new", INT64_MAX);
    if (!status && !jb_json_add_obj(o, "sub")) status = JB_ENOMEM;
    jb_buf_free(&b);
    cJSON_Delete(o);
    return status;
}

START_TEST(every_allocation_may_fail)
{
    jb_json_setup();
    SWEEP(round_trip());
}
END_TEST

int main(void)
{
    const TTest *const tests[] = { good_documents_print_back, bad_documents_are_refused_with_a_place, every_prefix_of_a_document_is_refused,
                                   depth_size_and_count_are_capped, many_keys_are_checked_quickly, getters_never_crash_and_give_defaults,
                                   setters_replace_in_place_and_append_to_arrays, canonical_sorts_keys_and_pretty_indents, doubles_read_back_equal,
                                   a_locale_with_commas_changes_nothing, files, every_allocation_may_fail };
    return RUN_SUITE("json", tests);
}
