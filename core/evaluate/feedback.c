/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/feedback.c - the record of feedback.h: one function a field of
 * docs/feedback.md.  The text of it is feedback_text.c's. */
#include "core/evaluate/feedback.h"

#include "core/base/text.h"

#include <math.h>
#include <string.h>

#define FINDINGS_MAX 8

static const char *const LEVELS[] = { "?", "none", "outcome", "full" };

int64_t jb_feedback_best(const jb_attempt *attempts, size_t count)
{
    int64_t best = -1;
    for (size_t i = 0; i < count; i++) {
        if (attempts[i].judged->outcome != JB_OUTCOME_OK) continue;
        if (best < 0 || attempts[i].median_us < attempts[best].median_us) best = (int64_t)i;
    }
    return best;
}

/* ---- texts of a record --------------------------------------------------------- */

static int is_hex(char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

/* Append `s` with addresses ("0x7f3a5c001e40") written as 0x...: they differ from run to run. */
static void without_addresses(jb_buf *out, const char *s, size_t n)
{
    size_t from = 0;
    for (size_t i = 0; i + 2 < n; i++) {
        if (s[i] != '0' || s[i + 1] != 'x') continue;
        size_t end = i + 2;
        while (end < n && is_hex(s[end])) end++;
        if (end - i < 10) continue; /* a constant, not an address */
        jb_buf_append(out, s + from, i + 2 - from);
        jb_buf_puts(out, "...");
        from = end;
        i = end - 1;
    }
    jb_buf_append(out, s + from, n - from);
}

/* Is this the line of a traceback that names a frame which is not the candidate's? */
static int harness_frame(const char *line, size_t n)
{
    while (n && *line == ' ') line++, n--;
    if (n < 6 || memcmp(line, "File \"", 6) != 0) return 0;
    return memmem(line, n, "jaxbench_harness/", 17) || memmem(line, n, "site-packages/", 14);
}

static size_t indent_of(const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && line[i] == ' ') i++;
    return i;
}

/* Append the lines of `s` that are not the harness's; the source line under a dropped frame goes with it. */
static void without_frames(jb_buf *out, const char *s)
{
    int dropping = 0;
    size_t frame_indent = 0;
    while (*s) {
        size_t n = strcspn(s, "\n"), whole = n + (s[n] == '\n');
        if (harness_frame(s, n)) {
            dropping = 1;
            frame_indent = indent_of(s, n);
        } else if (!dropping || indent_of(s, n) <= frame_indent) {
            dropping = 0;
            without_addresses(out, s, whole);
        }
        s += whole;
    }
}

/* Whole characters of s up to n bytes. */
static size_t cut_at(const char *s, size_t n)
{
    while (n > 0 && ((unsigned char)s[n] & 0xC0u) == 0x80) n--;
    return n;
}

/* Head and tail of `s` when it is longer than max; the end of a compiler's words is where the cause stands. */
static void capped(jb_buf *out, const char *s, size_t n, size_t max)
{
    if (n <= max) {
        jb_buf_append(out, s, n);
        return;
    }
    size_t head = cut_at(s, max / 2), tail = n - (max - max / 2 - 64);
    while (tail < n && ((unsigned char)s[tail] & 0xC0u) == 0x80) tail++;
    jb_buf_append(out, s, head);
    jb_buf_printf(out, "\n[%zu bytes left out]\n", tail - head);
    jb_buf_append(out, s + tail, n - tail);
}

/* What the failing stage said, in its own words; absent when it said no more than its reason. */
static int put_detail(cJSON *o, const jb_attempt *a)
{
    const cJSON *stage = jb_json_path(jb_json_obj(a->record, "stages"), jb_stage_name(a->judged->stage));
    const char *error = jb_json_str(stage, "error", "");
    if (!error[0] || a->judged->outcome == JB_OUTCOME_OK) return 0;
    jb_buf own = JB_BUF_INIT(JB_FEEDBACK_TEXT_MAX), safe = JB_BUF_INIT(4 * JB_FEEDBACK_TEXT_MAX), cut = JB_BUF_INIT(2 * JB_FEEDBACK_DETAIL_MAX);
    without_frames(&own, error);
    if (own.len) jb_text_escape(&safe, own.ptr, own.len, 1);
    if (safe.len) capped(&cut, safe.ptr, safe.len, JB_FEEDBACK_DETAIL_MAX);
    int rc = own.status ? own.status : safe.status ? safe.status : cut.status;
    if (rc == 0 && cut.len) rc = jb_json_set_view(o, "detail", jb_buf_view(&cut));
    jb_buf_free(&own);
    jb_buf_free(&safe);
    jb_buf_free(&cut);
    return rc;
}

static int put_error(cJSON *o, const jb_judgement *j)
{
    if (!j->reason[0]) return 0;
    jb_buf line = JB_BUF_INIT(2048);
    without_addresses(&line, j->reason, strlen(j->reason));
    int rc = line.status ? line.status : jb_json_set_view(o, "error", jb_buf_view(&line));
    jb_buf_free(&line);
    return rc;
}

/* ---- mismatch --------------------------------------------------------------------- */

/* The gate that failed first in the loop, and its trial (NULL for one that decides without). */
static const cJSON *failed_row(const cJSON *set, const cJSON **trial)
{
    const cJSON *row, *t;
    cJSON_ArrayForEach(row, jb_json_obj(set, "rows"))
    {
        if (strcmp(jb_json_str(row, "when", ""), "loop") != 0 || strcmp(jb_json_str(row, "verdict", ""), "fail") != 0) continue;
        *trial = NULL;
        cJSON_ArrayForEach(t, jb_json_obj(row, "trials"))
        {
            if (!*trial && strcmp(jb_json_str(t, "status", ""), "fail") == 0) *trial = t;
        }
        return row;
    }
    return NULL;
}

static int put_line(cJSON *o, const char *key, const char *text)
{
    jb_buf line = JB_BUF_INIT(2048), safe = JB_BUF_INIT(8192);
    jb_text_first_line(&line, text, strlen(text), 300);
    if (line.len) jb_text_escape(&safe, line.ptr, line.len, 0);
    int rc = line.status ? line.status : safe.status;
    if (rc == 0 && safe.len) rc = jb_json_set_view(o, key, jb_buf_view(&safe));
    jb_buf_free(&line);
    jb_buf_free(&safe);
    return rc;
}

/* A copy of numbers only, whatever a record of another executor holds. */
static int put_number(cJSON *o, const char *key, const cJSON *from)
{
    double v = jb_json_num(from, key, (double)NAN);
    return cJSON_GetObjectItemCaseSensitive(from, key) ? jb_json_set_num(o, key, v) : 0;
}

static int put_worst(cJSON *m, const cJSON *trial)
{
    const cJSON *w, *n;
    cJSON *list = jb_json_add_arr(m, "worst");
    int rc = list ? 0 : JB_ENOMEM;
    cJSON_ArrayForEach(w, jb_json_obj(trial, "worst"))
    {
        if (rc != 0 || cJSON_GetArraySize(list) == JB_FEEDBACK_WORST_MAX) break;
        cJSON *e = cJSON_CreateObject(), *index = jb_json_add_arr(e, "index");
        rc = e && index ? jb_json_set_i64(e, "output", jb_json_i64(w, "output", 0)) : JB_ENOMEM;
        cJSON_ArrayForEach(n, jb_json_obj(w, "index"))
        {
            if (rc == 0 && cJSON_IsNumber(n)) rc = jb_json_set_i64(index, "", (int64_t)n->valuedouble);
        }
        if (rc == 0) rc = put_number(e, "reference", w);
        if (rc == 0) rc = put_number(e, "candidate", w);
        if (rc == 0 && cJSON_AddItemToArray(list, e)) continue;
        cJSON_Delete(e);
        rc = rc ? rc : JB_ENOMEM;
    }
    return rc;
}

static int put_mismatch(cJSON *o, const jb_attempt *a, const char *headline)
{
    const cJSON *trial, *row = failed_row(jb_json_obj(jb_json_obj(a->record, "gates"), headline), &trial);
    if (a->judged->outcome != JB_OUTCOME_WRONG || !row) return 0;
    const cJSON *from = trial ? trial : row;
    cJSON *m = jb_json_add_obj(o, "mismatch");
    int rc = m ? put_line(m, "set", headline) : JB_ENOMEM;
    if (rc == 0) rc = put_line(m, "gate", jb_json_str(row, "use", "?"));
    if (rc == 0) rc = put_line(m, "part", jb_json_str(trial, "part", ""));
    if (rc == 0) rc = put_line(m, "shape", jb_json_str(trial, "shape", ""));
    if (rc == 0) rc = put_line(m, "distribution", jb_json_str(trial, "distribution", ""));
    if (rc == 0 && trial) rc = jb_json_set_i64(m, "draw", jb_json_i64(trial, "draw", 0));
    if (rc == 0) rc = put_number(m, "score", from);
    if (rc == 0) rc = put_number(m, "threshold", from);
    if (rc == 0) rc = put_line(m, "reason", jb_json_str(from, "reason", ""));
    return rc ? rc : put_worst(m, trial);
}

/* ---- findings, kernels, performance -------------------------------------------------- */

static int put_findings(cJSON *o, const cJSON *record)
{
    const cJSON *f;
    cJSON *list = jb_json_add_arr(o, "findings");
    int rc = list ? 0 : JB_ENOMEM;
    cJSON_ArrayForEach(f, jb_json_path(record, "stages.inspect.findings"))
    {
        if (rc != 0 || cJSON_GetArraySize(list) == FINDINGS_MAX) break;
        if (!jb_json_str(f, "outcome", "")[0]) continue; /* a label judges nothing */
        cJSON *e = cJSON_CreateObject();
        rc = e ? put_line(e, "id", jb_json_str(f, "id", "?")) : JB_ENOMEM;
        if (rc == 0) rc = put_line(e, "detail", jb_json_str(f, "detail", ""));
        if (rc == 0 && cJSON_AddItemToArray(list, e)) continue;
        cJSON_Delete(e);
        rc = rc ? rc : JB_ENOMEM;
    }
    return rc;
}

static int put_kernels(cJSON *o, const cJSON *record)
{
    const cJSON *inspect = jb_json_path(record, "stages.inspect"), *flops = jb_json_obj(inspect, "flops");
    if (strcmp(jb_json_str(inspect, "status", ""), "ok") != 0) return 0;
    cJSON *k = jb_json_add_obj(o, "kernels");
    int rc = k ? jb_json_set_i64(k, "count", jb_json_i64(inspect, "kernels", 0)) : JB_ENOMEM;
    if (rc == 0 && flops) rc = jb_json_set_num(k, "flops_share", jb_json_num(flops, "share", (double)NAN));
    if (rc == 0 && jb_json_path(record, "stages.compile.vmem_bytes"))
        rc = jb_json_set_i64(k, "vmem_bytes", jb_json_i64(jb_json_path(record, "stages.compile"), "vmem_bytes", 0));
    return rc;
}

static int natively_timed(const cJSON *timing)
{
    return strcmp(jb_json_str(timing, "status", ""), "ok") == 0 && !jb_json_bool(timing, "interpreted", 1) &&
           jb_json_num(timing, "candidate_median_us", 0) > 0;
}

/* Interquartile range of at least 4 samples (nearest ranks), NAN of fewer. */
static double spread(const cJSON *samples)
{
    double v[256];
    size_t n = 0;
    const cJSON *i;
    cJSON_ArrayForEach(i, samples)
    {
        if (!cJSON_IsNumber(i) || n == sizeof v / sizeof v[0]) continue;
        size_t at = n++;
        for (; at > 0 && v[at - 1] > i->valuedouble; at--) v[at] = v[at - 1];
        v[at] = i->valuedouble;
    }
    return n < 4 ? (double)NAN : v[(3 * n - 1) / 4] - v[(n - 1) / 4];
}

static int put_performance(cJSON *o, const cJSON *record)
{
    const cJSON *t = jb_json_obj(record, "timing");
    if (!natively_timed(t)) return 0;
    double us = jb_json_num(t, "candidate_median_us", 0), base = jb_json_num(t, "baseline_median_us", 0);
    double iqr = spread(jb_json_obj(t, "candidate_us"));
    cJSON *p = jb_json_add_obj(o, "performance");
    int rc = p ? jb_json_set_num(p, "candidate_us", us) : JB_ENOMEM;
    if (rc == 0 && !isnan(iqr)) rc = jb_json_set_num(p, "candidate_iqr_us", iqr);
    if (rc == 0 && base > 0) rc = jb_json_set_num(p, "baseline_us", base);
    if (rc == 0 && base > 0) rc = jb_json_set_num(p, "speedup", base / us);
    if (rc == 0) rc = put_line(p, "device", jb_json_str(t, "device", ""));
    return rc ? rc : put_line(p, "source", jb_json_str(t, "source", ""));
}

/* ---- history and sources --------------------------------------------------------------- */

static int put_attempt(cJSON *o, const jb_attempt *attempts, size_t at)
{
    int rc = jb_json_set_i64(o, "turn", (int64_t)at + 1);
    return rc ? rc : jb_json_set_i64(o, "candidate", (int64_t)attempts[at].candidate);
}

static int put_verdict(cJSON *o, const jb_judgement *j)
{
    int rc = jb_json_set_str(o, "outcome", jb_outcome_name(j->outcome));
    if (rc == 0 && j->stage) rc = jb_json_set_str(o, "stage", jb_stage_name(j->stage));
    return rc ? rc : put_error(o, j);
}

static int put_history(cJSON *o, const jb_attempt *attempts, size_t count, size_t history)
{
    cJSON *list = jb_json_add_arr(o, "history");
    int rc = list ? 0 : JB_ENOMEM;
    for (size_t i = count - 1 > history ? count - 1 - history : 0; rc == 0 && i + 1 < count; i++) {
        cJSON *e = cJSON_CreateObject();
        rc = e ? put_attempt(e, attempts, i) : JB_ENOMEM;
        if (rc == 0) rc = put_verdict(e, attempts[i].judged);
        if (rc == 0 && isfinite(attempts[i].median_us)) rc = jb_json_set_num(e, "candidate_us", attempts[i].median_us);
        if (rc == 0 && cJSON_AddItemToArray(list, e)) continue;
        cJSON_Delete(e);
        rc = rc ? rc : JB_ENOMEM;
    }
    return rc;
}

static int put_source(cJSON *o, const char *key, const jb_attempt *attempts, size_t at)
{
    jb_view s = attempts[at].source;
    int cut = s.len > JB_FEEDBACK_SOURCE_MAX;
    if (cut) s.len = cut_at(s.ptr, JB_FEEDBACK_SOURCE_MAX);
    cJSON *e = jb_json_add_obj(o, key);
    int rc = e ? put_attempt(e, attempts, at) : JB_ENOMEM;
    if (rc == 0 && isfinite(attempts[at].median_us)) rc = jb_json_set_num(e, "candidate_us", attempts[at].median_us);
    if (rc == 0 && cut) rc = jb_json_set_bool(e, "cut", 1);
    return rc ? rc : jb_json_set_view(e, "text", s);
}

/* The latest attempt that has a source; -1: none has. */
static int64_t latest_source(const jb_attempt *attempts, size_t count)
{
    while (count-- > 0)
        if (attempts[count].source.len) return (int64_t)count;
    return -1;
}

cJSON *jb_feedback_record(const jb_attempt *attempts, size_t count, const char *headline, uint32_t level, size_t history)
{
    const jb_attempt *last = &attempts[count - 1];
    int64_t best = jb_feedback_best(attempts, count), source = latest_source(attempts, count);
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_str(o, "level", LEVELS[level <= JB_FEEDBACK_FULL ? level : 0]);
    if (rc == 0) rc = put_attempt(o, attempts, count - 1);
    if (rc == 0 && level >= JB_FEEDBACK_OUTCOME) rc = put_verdict(o, last->judged);
    if (level >= JB_FEEDBACK_FULL) {
        if (rc == 0) rc = put_detail(o, last);
        if (rc == 0) rc = put_mismatch(o, last, headline ? headline : "");
        if (rc == 0) rc = put_findings(o, last->record);
        if (rc == 0) rc = put_kernels(o, last->record);
        if (rc == 0) rc = put_performance(o, last->record);
        if (rc == 0) rc = put_history(o, attempts, count, history);
    }
    if (rc == 0 && source >= 0) rc = put_source(o, "source", attempts, (size_t)source);
    if (rc == 0 && level >= JB_FEEDBACK_OUTCOME && best >= 0 && best != source) rc = put_source(o, "best", attempts, (size_t)best);
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}
