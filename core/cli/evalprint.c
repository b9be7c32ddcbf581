/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/evalprint.c - see evalprint.h.  All texts of a record may come from a
 * candidate: on the terminal they are escaped. */
#include "core/cli/evalprint.h"

#include "core/base/text.h"

#include <string.h>

#define ERROR_LINES 12
#define LOG_LINES 5
#define WORST_SHOWN 3

/* ---- JSON ---------------------------------------------------------------------------------- */

static int copy(cJSON *o, const cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);
    cJSON *c = v ? cJSON_Duplicate(v, 1) : NULL;
    if (!v || (c && cJSON_AddItemToObject(o, key, c))) return 0;
    cJSON_Delete(c);
    return JB_ENOMEM;
}

static int add_timing(cJSON *o, const cJSON *record)
{
    int rc = copy(o, record, "timing");
    cJSON *t = cJSON_GetObjectItemCaseSensitive(o, "timing");
    if (rc != 0 || !t) return rc;
    double base = jb_json_num(t, "baseline_median_us", 0), mine = jb_json_num(t, "candidate_median_us", 0);
    int native = strcmp(jb_json_str(t, "status", ""), "ok") == 0 && !jb_json_bool(t, "interpreted", 1);
    return native && base > 0 && mine > 0 ? jb_json_set_num(t, "speedup", base / mine) : 0;
}

cJSON *jb_eval_json(const char *file, const char *workload, const char *headline, const jb_judgement *j, const cJSON *record)
{
    static const char *const COPIED[] = { "stages", "gates" };
    static const char *const TAIL[] = { "numerics", "isolation", "cost", "log", "log_bytes" };
    cJSON *o = cJSON_CreateObject();
    int rc = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_view(o, "file", (jb_view){ file, strlen(file) });
    if (rc == 0) rc = jb_json_set_str(o, "workload", workload);
    if (rc == 0) rc = jb_json_set_str(o, "headline", headline);
    if (rc == 0) rc = jb_json_set_str(o, "outcome", jb_outcome_name(j->outcome));
    if (rc == 0) rc = jb_json_set_str(o, "reason", j->reason);
    for (size_t i = 0; rc == 0 && i < sizeof COPIED / sizeof COPIED[0]; i++) rc = copy(o, record, COPIED[i]);
    const cJSON *link = jb_json_path(record, "stages.inspect.link");
    if (rc == 0) rc = jb_json_set_str(o, "link", jb_json_str(link, "status", "none"));
    if (rc == 0) rc = add_timing(o, record);
    for (size_t i = 0; rc == 0 && i < sizeof TAIL / sizeof TAIL[0]; i++) rc = copy(o, record, TAIL[i]);
    if (rc == 0) return o;
    cJSON_Delete(o);
    return NULL;
}

/* ---- text ------------------------------------------------------------------------------------- */

static void escaped(jb_cli *c, const char *s)
{
    jb_buf b = JB_BUF_INIT(1u << 20);
    jb_text_escape(&b, s, strlen(s), 0);
    if (b.ptr) fputs(b.ptr, c->out);
    jb_buf_free(&b);
}

/* At most `max` lines, each escaped and indented. */
static void block(jb_cli *c, const char *s, int max)
{
    for (int n = 0; *s; n++) {
        size_t len = strcspn(s, "\n");
        jb_buf b = JB_BUF_INIT(1u << 16);
        if (n == max) {
            fprintf(c->out, "      ...\n");
            return;
        }
        jb_text_escape(&b, s, len < 4000 ? len : 4000, 0);
        fprintf(c->out, "      %s\n", b.ptr ? b.ptr : "");
        jb_buf_free(&b);
        s += len + (s[len] == '\n');
    }
}

static char colour(const char *word)
{
    if (strcmp(word, "ok") == 0 || strcmp(word, "pass") == 0) return 'g';
    if (strcmp(word, "skipped") == 0 || strcmp(word, "inconclusive") == 0 || strcmp(word, "n/a") == 0) return 'y';
    return 'r';
}

static void word(jb_cli *c, const char *w, int width)
{
    fprintf(c->out, "%s", jb_cli_style(c, colour(w)));
    fprintf(c->out, "%-*s%s", width, w, jb_cli_style(c, '0'));
}

static void stage_facts(jb_cli *c, const cJSON *s)
{
    const cJSON *f;
    char size[32];
    const char *coverage = jb_json_str(jb_json_obj(s, "coverage"), "status", ""), *link = jb_json_str(jb_json_obj(s, "link"), "status", "");
    if (jb_json_str(s, "reason", "")[0]) {
        escaped(c, jb_json_str(s, "reason", ""));
        fputs("  ", c->out);
    }
    if (jb_json_str(s, "target", "")[0]) {
        escaped(c, jb_json_str(s, "target", ""));
        fprintf(c->out, ", VMEM %s", jb_text_bytes(size, sizeof size, jb_json_i64(s, "vmem_bytes", 0)));
    }
    if (coverage[0]) fprintf(c->out, "coverage %s, link %s", coverage, link[0] ? link : "none");
    double share = jb_json_num(jb_json_obj(s, "flops"), "share", -1);
    if (share >= 0) fprintf(c->out, ", %.1f %% of the FLOPs in kernels", 100.0 * share);
    const long long trials = (long long)jb_json_i64(s, "trials", 0);
    if (trials) fprintf(c->out, "%lld trial%s", trials, trials == 1 ? "" : "s");
    fputs("\n", c->out);
    cJSON_ArrayForEach(f, jb_json_obj(s, "flags"))
    {
        fputs("      flag: ", c->out);
        escaped(c, cJSON_IsString(f) ? f->valuestring : "?");
        fputs("\n", c->out);
    }
    cJSON_ArrayForEach(f, jb_json_obj(s, "findings"))
    {
        fprintf(c->out, "      %s: ", jb_json_str(f, "outcome", "")[0] ? "finding" : "label");
        escaped(c, jb_json_str(f, "id", "?"));
        fputs(" ", c->out);
        escaped(c, jb_json_str(f, "detail", ""));
        fputs("\n", c->out);
    }
    block(c, jb_json_str(s, "error", ""), ERROR_LINES);
}

static void print_stages(jb_cli *c, const cJSON *stages)
{
    for (uint32_t i = 1; i <= JB_STAGE_COUNT; i++) {
        const cJSON *s = jb_json_obj(stages, jb_stage_name(i));
        if (!s) continue;
        fprintf(c->out, "  %-8s ", jb_stage_name(i));
        word(c, jb_json_str(s, "status", "?"), 9);
        if (jb_json_num(s, "seconds", -1) >= 0) fprintf(c->out, "%7.2f s  ", jb_json_num(s, "seconds", 0));
        else fputs("           ", c->out);
        stage_facts(c, s);
    }
}

static void print_number(jb_cli *c, const cJSON *o, const char *key)
{
    const char *text = jb_json_str(o, key, NULL); /* "inf", "nan" */
    if (text) escaped(c, text);
    else fprintf(c->out, "%.4g", jb_json_num(o, key, 0));
}

/* The worst elements of the first failing trial of a set. */
static void print_worst(jb_cli *c, const cJSON *set)
{
    const cJSON *row, *trial, *w, *i;
    cJSON_ArrayForEach(row, jb_json_obj(set, "rows"))
    {
        cJSON_ArrayForEach(trial, jb_json_obj(row, "trials"))
        {
            int shown = 0;
            if (strcmp(jb_json_str(trial, "status", ""), "fail") != 0) continue;
            cJSON_ArrayForEach(w, jb_json_obj(trial, "worst"))
            {
                if (shown++ == WORST_SHOWN) break;
                fprintf(c->out, "      output %lld [", (long long)jb_json_i64(w, "output", 0));
                cJSON_ArrayForEach(i, jb_json_obj(w, "index")) fprintf(c->out, "%s%lld", i->prev && i != jb_json_obj(w, "index")->child ? ", " : "", (long long)i->valuedouble);
                fputs("]: expected ", c->out);
                print_number(c, w, "reference");
                fputs(", is ", c->out);
                print_number(c, w, "candidate");
                fputs("\n", c->out);
            }
            if (shown) return;
        }
    }
}

static void print_gates(jb_cli *c, const cJSON *gates)
{
    const cJSON *set;
    cJSON_ArrayForEach(set, gates)
    {
        const cJSON *k = jb_json_obj(set, "killer");
        fprintf(c->out, "  gates %-12s ", set->string);
        word(c, jb_json_str(set, "verdict", "?"), 13);
        if (k) {
            escaped(c, jb_json_str(k, "gate", "?"));
            if (jb_json_str(k, "distribution", "")[0]) {
                fputs(" on ", c->out);
                escaped(c, jb_json_str(k, "distribution", ""));
                fprintf(c->out, " draw %lld, shape ", (long long)jb_json_i64(k, "draw", 0));
                escaped(c, jb_json_str(k, "shape", "?"));
            }
            fputs(": score ", c->out);
            print_number(c, k, "score");
            fputs(", threshold ", c->out);
            print_number(c, k, "threshold");
            fputs("; ", c->out);
            escaped(c, jb_json_str(k, "reason", ""));
        }
        fputs("\n", c->out);
        print_worst(c, set);
    }
}

static void print_timing(jb_cli *c, const cJSON *t)
{
    if (jb_json_num(t, "candidate_median_us", 0) <= 0) return;
    fprintf(c->out, "  timing   %s  kernel %.1f us, XLA %.1f us  (", jb_json_str(t, "status", "?"),
            jb_json_num(t, "candidate_median_us", 0), jb_json_num(t, "baseline_median_us", 0));
    escaped(c, jb_json_str(t, "source", "?"));
    fputs(")", c->out);
    if (cJSON_GetObjectItemCaseSensitive(t, "speedup")) fprintf(c->out, "  %.2fx", jb_json_num(t, "speedup", 0));
    else fputs("  no speedup: not timed natively", c->out);
    fputs("\n", c->out);
}

void jb_eval_print(jb_cli *c, const cJSON *shown, int separator)
{
    const char *outcome = jb_json_str(shown, "outcome", "?"), *log = jb_json_str(shown, "log", "");
    if (separator) fputs("\n", c->out);
    escaped(c, jb_json_str(shown, "file", "?"));
    fprintf(c->out, "  on %s: ", jb_json_str(shown, "workload", "?"));
    word(c, outcome, 0);
    if (jb_json_str(shown, "reason", "")[0]) {
        fputs(": ", c->out);
        escaped(c, jb_json_str(shown, "reason", ""));
    }
    fputs("\n", c->out);
    print_stages(c, jb_json_obj(shown, "stages"));
    print_gates(c, jb_json_obj(shown, "gates"));
    print_timing(c, jb_json_obj(shown, "timing"));
    if (jb_json_str(shown, "numerics", "")[0]) {
        fputs("  numerics ", c->out);
        escaped(c, jb_json_str(shown, "numerics", ""));
        fprintf(c->out, "   headline gates: %s\n", jb_json_str(shown, "headline", "?"));
    }
    if (log[0]) {
        char size[32];
        fprintf(c->out, "  the candidate's own output (%s):\n", jb_text_bytes(size, sizeof size, jb_json_i64(shown, "log_bytes", (int64_t)strlen(log))));
        block(c, log, LOG_LINES);
    }
}
