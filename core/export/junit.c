/* SPDX-License-Identifier: Apache-2.0 */
/* core/export/junit.c - a run as JUnit XML, for CI: a suite a cell, a case a
 * candidate.  Not ok is a failure, infra an error, and what never ended is skipped. */
#include "core/export/export.h"

#include "core/base/text.h"

#include <string.h>

#define LINE_MAX_BYTES (1u << 20)

int jb_export_xml_text(jb_buf *out, const char *text)
{
    static const struct { char c; const char *entity; } ENTITIES[] = {
        { '&', "&amp;" }, { '<', "&lt;" }, { '>', "&gt;" }, { '"', "&quot;" }, { '\'', "&apos;" },
    };
    jb_buf safe = JB_BUF_INIT(LINE_MAX_BYTES);
    int rc = jb_text_escape(&safe, text, strlen(text), 0);
    for (const char *s = safe.ptr ? safe.ptr : ""; *s; s++) {
        const char *entity = NULL;
        for (size_t i = 0; i < sizeof ENTITIES / sizeof *ENTITIES; i++)
            if (*s == ENTITIES[i].c) entity = ENTITIES[i].entity;
        /* U+FFFE and U+FFFF: characters of UTF-8, none of XML. */
        if ((unsigned char)s[0] == 0xef && (unsigned char)s[1] == 0xbf && ((unsigned char)s[2] & 0xfe) == 0xbe) {
            jb_buf_puts(out, (unsigned char)s[2] == 0xbe ? "\\ufffe" : "\\uffff");
            s += 2;
        } else if (entity) {
            jb_buf_puts(out, entity);
        } else {
            jb_buf_append(out, s, 1);
        }
    }
    jb_buf_free(&safe);
    return rc ? rc : out->status;
}

typedef struct counts { size_t tests, failures, errors, skipped; double seconds; } counts;

static const char *element(const jb_rec_candidate *k)
{
    if (k->outcome == JB_OUTCOME_OK) return NULL;
    if (k->outcome == JB_OUTCOME_INFRA) return "error";
    return !k->outcome || jb_outcome_leaves(k->outcome) ? "skipped" : "failure";
}

static double seconds_of(const jb_rec_cell *c, const jb_rec_candidate *k)
{
    return k->op >= 1 && k->op <= c->op_count ? c->ops[k->op - 1].wall_s : 0;
}

static void count(counts *n, const jb_rec_cell *c)
{
    for (size_t i = 0; i < c->candidate_count; i++) {
        const jb_rec_candidate *k = &c->candidates[i];
        if (!k->id) continue;
        const char *what = element(k);
        n->tests++;
        n->seconds += seconds_of(c, k);
        if (!what) continue;
        n->failures += what[0] == 'f';
        n->errors += what[0] == 'e';
        n->skipped += what[0] == 's';
    }
}

static void attribute(jb_buf *b, const char *name, const char *text)
{
    jb_buf_printf(b, " %s=\"", name);
    jb_export_xml_text(b, text);
    jb_buf_puts(b, "\"");
}

static void totals(jb_buf *b, const counts *n)
{
    jb_buf_printf(b, " tests=\"%zu\" failures=\"%zu\" errors=\"%zu\" skipped=\"%zu\" time=\"%.3f\">\n", n->tests, n->failures, n->errors, n->skipped, n->seconds);
}

static void test_case(jb_buf *b, const jb_rec_cell *c, const jb_rec_candidate *k)
{
    const char *what = element(k), *outcome = k->outcome ? jb_outcome_name(k->outcome) : "not ended";
    jb_buf_puts(b, "    <testcase");
    attribute(b, "classname", c->key);
    jb_buf_printf(b, " name=\"candidate %llu\" time=\"%.3f\"", (unsigned long long)k->id, seconds_of(c, k));
    if (!what) {
        jb_buf_puts(b, "/>\n");
        return;
    }
    jb_buf_printf(b, ">\n      <%s", what);
    if (what[0] != 's') attribute(b, "type", outcome);
    attribute(b, "message", k->reason[0] ? k->reason : outcome);
    if (k->fault[0] && what[0] != 's') {
        jb_buf_puts(b, ">");
        jb_export_xml_text(b, k->fault);
        jb_buf_printf(b, "</%s>\n    </testcase>\n", what);
    } else {
        jb_buf_puts(b, "/>\n    </testcase>\n");
    }
}

static int flush(jb_buf *b, FILE *out)
{
    int rc = b->status;
    if (rc == 0 && b->len && fwrite(b->ptr, 1, b->len, out) != b->len) rc = JB_EIO;
    jb_buf_reset(b);
    return rc;
}

int jb_export_junit(const jb_records *r, FILE *out)
{
    jb_buf b = JB_BUF_INIT(LINE_MAX_BYTES);
    counts all = { 0 };
    for (size_t i = 0; i < r->cell_count; i++) count(&all, &r->cells[i]);
    jb_buf_puts(&b, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites");
    attribute(&b, "name", jb_json_str(r->manifest, "name", "jaxbench"));
    totals(&b, &all);
    int rc = flush(&b, out);
    for (size_t i = 0; rc == 0 && i < r->cell_count; i++) {
        const jb_rec_cell *c = &r->cells[i];
        counts n = { 0 };
        count(&n, c);
        jb_buf_puts(&b, "  <testsuite");
        attribute(&b, "name", c->label);
        totals(&b, &n);
        for (size_t k = 0; rc == 0 && k < c->candidate_count; k++) {
            if (c->candidates[k].id) test_case(&b, c, &c->candidates[k]);
            rc = flush(&b, out);
        }
        if (rc == 0) jb_buf_puts(&b, "  </testsuite>\n");
        if (rc == 0) rc = flush(&b, out);
    }
    if (rc == 0) jb_buf_puts(&b, "</testsuites>\n");
    if (rc == 0) rc = flush(&b, out);
    jb_buf_free(&b);
    return rc;
}
