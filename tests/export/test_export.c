/* SPDX-License-Identifier: Apache-2.0 */
/* tests/export/test_export.c - rows of a run with hostile texts: JSON Lines that
 * parse, CSV that RFC 4180 readers and spreadsheets take for text, XML that is XML. */
#include "core/base/error.h"
#include "core/export/export.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct { const char *text, *csv, *xml; } TEXTS[] = {
    { "", "", "" },
    { "plain", "plain", "plain" },
    { "a,b", "\"a,b\"", "a,b" },
    { "say \"hi\"", "\"say \"\"hi\"\"\"", "say &quot;hi&quot;" },
    { "=1+1", "'=1+1", "=1+1" },
    { "@SUM(A1),2", "\"'@SUM(A1),2\"", "@SUM(A1),2" },
    { "-2+3", "'-2+3", "-2+3" },
    { "+cmd", "'+cmd", "+cmd" },
    { "\tx", "'\\x09x", "\\x09x" },
    { " lead", "\" lead\"", " lead" },
    { "two\nlines\r", "two\\x0alines\\x0d", "two\\x0alines\\x0d" },
    { "\x1b[31mred", "\\x1b[31mred", "\\x1b[31mred" },
    { "<a href='x'>&amp;", "<a href='x'>&amp;", "&lt;a href=&apos;x&apos;&gt;&amp;amp;" },
    { "]]>", "]]>", "]]&gt;" },
    { "bad \xff utf", "bad \\xff utf", "bad \\xff utf" },
    { "\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", "\xef\xbf\xbe\xef\xbf\xbf\xef\xbf\xbd", "\\ufffe\\uffff\xef\xbf\xbd" },
    { "caf\xc3\xa9 \xf0\x9f\x9a\x80", "caf\xc3\xa9 \xf0\x9f\x9a\x80", "caf\xc3\xa9 \xf0\x9f\x9a\x80" },
};

START_TEST(texts_are_made_safe)
{
    jb_buf b = JB_BUF_INIT(4096);
    ck_assert_int_eq(jb_export_csv_text(&b, TEXTS[_i].text), 0);
    ck_assert_str_eq(b.ptr ? b.ptr : "", TEXTS[_i].csv);
    jb_buf_free(&b);
    ck_assert_int_eq(jb_export_xml_text(&b, TEXTS[_i].text), 0);
    ck_assert_str_eq(b.ptr ? b.ptr : "", TEXTS[_i].xml);
    jb_buf_free(&b);
}
END_TEST

/* ---- a run -------------------------------------------------------------------------------- */

static jb_rec_op ops[] = {
    { .kind = JB_OP_LLM, .purpose = JB_PURPOSE_SAMPLE, .done = 1, .usage = { 1000, -1, -1, 500, -1 } },
    { .kind = JB_OP_EVAL, .done = 1, .candidate = 1, .trace_s = 0.5, .wall_s = 1.25 },
    { .kind = JB_OP_LLM, .purpose = JB_PURPOSE_SAMPLE, .done = 1, .usage = { -1, -1, -1, -1, -1 } },
    { .kind = JB_OP_EVAL, .done = 1, .candidate = 2 },
};
static jb_rec_candidate candidates[] = {
    { .id = 1, .op = 2, .llm_op = 1, .outcome = JB_OUTCOME_OK, .loop_outcome = JB_OUTCOME_OK, .final = 1, .source = "aa", .verdicts = { 1, 1 }, .attempts = 1 },
    { .id = 2, .op = 4, .llm_op = 3, .outcome = JB_OUTCOME_WRONG, .loop_outcome = JB_OUTCOME_WRONG, .stage = JB_STAGE_CHECK, .reason = "=cmd|'/c calc'!A0 <\x01>",
      .fault = "error_ratio/outlier", .verdicts = { 1, 2 } },
    { .id = 0 }, /* a number that was skipped */
    { .id = 4, .outcome = JB_OUTCOME_INFRA, .reason = "lost" },
    { .id = 5 }, /* still running */
};
static jb_rec_cell cell = { .key = "8p+m+b+s0", .label = "8p/m/b s0", .workload = "8p", .workload_name = "gemm", .method = "m", .backend = "b", .ops = ops, .op_count = 4,
                            .candidates = candidates, .candidate_count = 5, .priced = 1, .price = { { 1000000, 1000000, 1000000, 4000000, 4000000 } } };
static jb_records run = { .cells = &cell, .cell_count = 1, .gates = { "literature", "robust" }, .gate_count = 2, .headline = 1 };

static char *written(int (*write)(const jb_records *, FILE *))
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    ck_assert_int_eq(write(&run, f), 0);
    fclose(f);
    return text;
}

START_TEST(json_lines)
{
    char *text = written(jb_export_jsonl), *rest = text;
    const char *outcomes[] = { "ok", "wrong", "infra", "" };
    for (size_t i = 0; i < 4; i++) {
        jb_error err = JB_ERROR_INIT;
        char *end = strchr(rest, '\n');
        ck_assert_ptr_nonnull(end);
        cJSON *o = jb_json_parse(rest, (size_t)(end - rest), &err);
        ck_assert_msg(o != NULL, "%s", err.message);
        ck_assert_str_eq(jb_json_str(o, "outcome", "?"), outcomes[i]);
        if (i == 0) {
            ck_assert_double_eq_tol(jb_json_num(o, "usd", -1), 0.003, 1e-12); /* 1000 in, 500 out */
            ck_assert_double_eq(jb_json_num(o, "input_tokens", -1), 1000);
            ck_assert_str_eq(jb_json_str(jb_json_obj(o, "gates"), "robust", "?"), "pass");
        }
        if (i == 1) {
            ck_assert_str_eq(jb_json_str(o, "reason", ""), candidates[1].reason);
            ck_assert_int_eq(cJSON_IsNull(cJSON_GetObjectItem(o, "usd")), 1); /* not reported is not free */
        }
        cJSON_Delete(o);
        rest = end + 1;
    }
    ck_assert_str_eq(rest, "");
    free(text);
}
END_TEST

START_TEST(csv)
{
    char *text = written(jb_export_csv), *line = text;
    size_t lines = 0, columns = 0;
    for (char *end; (end = strstr(line, "\r\n")) != NULL; line = end + 2) {
        size_t n = 1;
        for (char *s = line, quoted = 0; s < end; s++) {
            if (*s == '"') quoted = !quoted;
            n += *s == ',' && !quoted;
        }
        if (lines++ == 0) columns = n;
        ck_assert_msg(n == columns, "line %zu has %zu columns, the head %zu", lines, n, columns);
    }
    ck_assert_str_eq(line, "");
    ck_assert_uint_eq(lines, 5);
    ck_assert_int_eq(strncmp(text, "cell,workload,", 14), 0);
    ck_assert_ptr_nonnull(strstr(text, "usd,gate_literature,gate_robust\r\n"));
    ck_assert_ptr_nonnull(strstr(text, ",'=cmd|'/c calc'!A0 <\\x01>,"));
    free(text);
}
END_TEST

START_TEST(junit)
{
    char *text = written(jb_export_junit);
    ck_assert_ptr_nonnull(strstr(text, "tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\""));
    ck_assert_ptr_nonnull(strstr(text, "message=\"=cmd|&apos;/c calc&apos;!A0 &lt;\\x01&gt;\""));
    ck_assert_ptr_nonnull(strstr(text, "<error type=\"infra\" message=\"lost\"/>"));
    ck_assert_ptr_nonnull(strstr(text, "<skipped message=\"not ended\"/>"));
    for (const char *s = text; *s; s++) ck_assert_msg((unsigned char)*s >= 0x20 || *s == '\n', "a control character in XML");
    free(text);
}
END_TEST

START_TEST(a_stream_that_fails_is_an_error)
{
    FILE *full = fopen("/dev/full", "w");
    if (!full) return; /* no such device */
    setvbuf(full, NULL, _IONBF, 0);
    ck_assert_int_eq(jb_export_csv(&run, full), JB_EIO);
    ck_assert_int_eq(jb_export_jsonl(&run, full), JB_EIO);
    ck_assert_int_eq(jb_export_junit(&run, full), JB_EIO);
    fclose(full);
}
END_TEST

int main(void)
{
    jb_json_setup();
    Suite *s = suite_create("export");
    TCase *c = tcase_create("export");
    tcase_add_loop_test(c, texts_are_made_safe, 0, sizeof TEXTS / sizeof *TEXTS);
    tcase_add_test(c, json_lines);
    tcase_add_test(c, csv);
    tcase_add_test(c, junit);
    tcase_add_test(c, a_stream_that_fails_is_an_error);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
