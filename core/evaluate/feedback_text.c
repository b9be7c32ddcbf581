/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/feedback_text.c - the record of feedback.h as Markdown: a table of
 * sections in the order of docs/feedback.md, each of which writes nothing when the
 * record has nothing for it.  Judges and shortens nothing; that is the record's. */
#include "core/evaluate/feedback.h"

#include "core/base/text.h"

#include <math.h>
#include <string.h>

/* ---- fences ------------------------------------------------------------------------ */

/* `text` in a fence longer than any run of backticks in it. */
static void fenced(jb_buf *out, const char *info, const char *text)
{
    size_t longest = 0, run = 0, n = strlen(text);
    for (const char *s = text; *s; s++) {
        run = *s == '`' ? run + 1 : 0;
        if (run > longest) longest = run;
    }
    longest = longest < 3 ? 3 : longest + 1;
    for (size_t i = 0; i < longest; i++) jb_buf_puts(out, "`");
    jb_buf_printf(out, "%s\n", info);
    jb_buf_append(out, text, n);
    if (n == 0 || text[n - 1] != '\n') jb_buf_puts(out, "\n");
    for (size_t i = 0; i < longest; i++) jb_buf_puts(out, "`");
    jb_buf_puts(out, "\n");
}

static int64_t turn_of(const cJSON *o) { return jb_json_i64(o, "turn", 0); }

/* ---- sections ------------------------------------------------------------------------ */

static void heading(const cJSON *r, jb_buf *out)
{
    int told = jb_json_str(r, "outcome", NULL) != NULL;
    jb_buf_printf(out, told ? "## Feedback on attempt %lld\n" : "## Attempt %lld\n", (long long)turn_of(r));
}

static void verdict(const cJSON *r, jb_buf *out)
{
    if (!jb_json_str(r, "outcome", NULL)) return;
    jb_buf_printf(out, "\nOutcome: %s", jb_json_str(r, "outcome", ""));
    if (jb_json_str(r, "stage", NULL)) jb_buf_printf(out, " (decided at the stage %s)", jb_json_str(r, "stage", ""));
    jb_buf_puts(out, "\n");
    if (jb_json_str(r, "error", NULL)) jb_buf_printf(out, "Error: %s\n", jb_json_str(r, "error", ""));
}

static void detail(const cJSON *r, jb_buf *out)
{
    if (!jb_json_str(r, "detail", NULL)) return;
    jb_buf_puts(out, "\nIn its own words:\n\n");
    fenced(out, "text", jb_json_str(r, "detail", ""));
}

/* A number or the word that stands for one ("nan", "inf"). */
static void number(jb_buf *out, const cJSON *o, const char *key)
{
    const char *word = jb_json_str(o, key, NULL);
    if (word) jb_buf_puts(out, word);
    else jb_buf_printf(out, "%.6g", jb_json_num(o, key, (double)NAN));
}

static void one_worst(const cJSON *w, jb_buf *out)
{
    const cJSON *index = jb_json_obj(w, "index"), *n;
    jb_buf_printf(out, "- output %lld [", (long long)jb_json_i64(w, "output", 0));
    cJSON_ArrayForEach(n, index)
    {
        jb_buf_printf(out, "%s%.0f", n == index->child ? "" : ", ", n->valuedouble);
    }
    jb_buf_puts(out, "]: reference ");
    number(out, w, "reference");
    jb_buf_puts(out, ", candidate ");
    number(out, w, "candidate");
    jb_buf_puts(out, "\n");
}

static void mismatch(const cJSON *r, jb_buf *out)
{
    const cJSON *m = jb_json_obj(r, "mismatch"), *worst = jb_json_obj(m, "worst"), *w;
    if (!m) return;
    jb_buf_printf(out, "\nMismatch: gate %s of the set %s", jb_json_str(m, "gate", "?"), jb_json_str(m, "set", "?"));
    if (jb_json_str(m, "distribution", NULL))
        jb_buf_printf(out, ", %s inputs, draw %lld, shape %s", jb_json_str(m, "distribution", "?"), (long long)jb_json_i64(m, "draw", 0),
                      jb_json_str(m, "shape", "?"));
    if (jb_json_str(m, "part", NULL)) jb_buf_printf(out, ", part %s", jb_json_str(m, "part", ""));
    if (cJSON_GetObjectItemCaseSensitive(m, "score")) {
        jb_buf_puts(out, ": score ");
        number(out, m, "score");
        jb_buf_puts(out, ", passes up to ");
        number(out, m, "threshold");
    }
    jb_buf_puts(out, "\n");
    if (jb_json_str(m, "reason", NULL)) jb_buf_printf(out, "%s\n", jb_json_str(m, "reason", ""));
    if (cJSON_GetArraySize(worst) > 0) jb_buf_puts(out, "\nWorst elements:\n\n");
    cJSON_ArrayForEach(w, worst) one_worst(w, out);
}

static void findings(const cJSON *r, jb_buf *out)
{
    const cJSON *list = jb_json_obj(r, "findings"), *f;
    if (cJSON_GetArraySize(list) > 0) jb_buf_puts(out, "\nFindings of the inspection:\n\n");
    cJSON_ArrayForEach(f, list)
    {
        jb_buf_printf(out, "- %s: %s\n", jb_json_str(f, "id", "?"), jb_json_str(f, "detail", ""));
    }
}

static void kernels(const cJSON *r, jb_buf *out)
{
    const cJSON *k = jb_json_obj(r, "kernels");
    char size[32];
    if (!k) return;
    jb_buf_printf(out, "\nKernels: %lld", (long long)jb_json_i64(k, "count", 0));
    if (cJSON_GetObjectItemCaseSensitive(k, "flops_share")) jb_buf_printf(out, ", with %.3g %% of the FLOPs", 100 * jb_json_num(k, "flops_share", 0));
    if (cJSON_GetObjectItemCaseSensitive(k, "vmem_bytes"))
        jb_buf_printf(out, ", VMEM %s", jb_text_bytes(size, sizeof size, jb_json_i64(k, "vmem_bytes", 0)));
    jb_buf_puts(out, "\n");
}

static void performance(const cJSON *r, jb_buf *out)
{
    const cJSON *p = jb_json_obj(r, "performance");
    if (!p) return;
    jb_buf_printf(out, "\nPerformance: median %.4g us", jb_json_num(p, "candidate_us", 0));
    if (cJSON_GetObjectItemCaseSensitive(p, "candidate_iqr_us"))
        jb_buf_printf(out, " (interquartile range %.3g us)", jb_json_num(p, "candidate_iqr_us", 0));
    if (cJSON_GetObjectItemCaseSensitive(p, "baseline_us"))
        jb_buf_printf(out, ", the baseline takes %.4g us: %.3gx", jb_json_num(p, "baseline_us", 0), jb_json_num(p, "speedup", 0));
    if (jb_json_str(p, "device", NULL)) jb_buf_printf(out, ", on %s", jb_json_str(p, "device", ""));
    if (jb_json_str(p, "source", NULL)) jb_buf_printf(out, " (%s)", jb_json_str(p, "source", ""));
    jb_buf_puts(out, "\n");
}

static void history(const cJSON *r, jb_buf *out)
{
    const cJSON *list = jb_json_obj(r, "history"), *h;
    if (cJSON_GetArraySize(list) > 0) jb_buf_puts(out, "\nEarlier attempts:\n\n");
    cJSON_ArrayForEach(h, list)
    {
        jb_buf_printf(out, "- attempt %lld: %s", (long long)turn_of(h), jb_json_str(h, "outcome", "?"));
        if (jb_json_str(h, "error", NULL)) jb_buf_printf(out, ", %s", jb_json_str(h, "error", ""));
        if (cJSON_GetObjectItemCaseSensitive(h, "candidate_us")) jb_buf_printf(out, ", %.4g us", jb_json_num(h, "candidate_us", 0));
        jb_buf_puts(out, "\n");
    }
}

static void one_source(const cJSON *s, const char *what, const char *after, jb_buf *out)
{
    jb_buf_printf(out, "\n%s attempt %lld%s", what, (long long)turn_of(s), after);
    if (jb_json_bool(s, "cut", 0)) jb_buf_printf(out, " (its first %u bytes)", JB_FEEDBACK_SOURCE_MAX);
    jb_buf_puts(out, ":\n\n");
    fenced(out, "python", jb_json_str(s, "text", ""));
}

static void sources(const cJSON *r, jb_buf *out)
{
    const cJSON *source = jb_json_obj(r, "source"), *best = jb_json_obj(r, "best");
    int is_best = strcmp(jb_json_str(r, "outcome", ""), "ok") == 0 && !best;
    if (source) one_source(source, "Source of", turn_of(source) != turn_of(r) ? ", the latest complete one" : is_best ? ", the best correct one so far" : "", out);
    if (best) one_source(best, "Best correct source so far,", "", out);
}

/* ---- all of them ------------------------------------------------------------------------ */

static void (*const SECTIONS[])(const cJSON *, jb_buf *) = { heading, verdict, detail, mismatch, findings, kernels, performance, history, sources };

int jb_feedback_text(const cJSON *record, jb_buf *out)
{
    for (size_t i = 0; i < sizeof SECTIONS / sizeof SECTIONS[0]; i++) SECTIONS[i](record, out);
    return out->status;
}
