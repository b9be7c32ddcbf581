/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_report.c - jaxbench report RUN...: compute the report anew from
 * the journal and give it as text, JSON, Markdown or one page.  Reads runs only;
 * also works while one goes on. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/render.h"
#include "core/cli/runs.h"
#include "core/engine/rundir.h"
#include "core/report/report.h"

#include <string.h>

static const jb_cli_option OPTIONS[] = {
    { "html", 0, JB_CLI_TEXT, "FILE", "write one self-contained page; - for stdout", NULL },
    { "md", 0, JB_CLI_FLAG, NULL, "print a summary in Markdown", NULL },
    { "stable", 0, JB_CLI_FLAG, NULL, "leave out times, places and costs in seconds, to compare runs", NULL },
};

static int load(const char *run, int stable, cJSON **out, jb_error *err)
{
    jb_records *r = NULL;
    char *dir = NULL;
    int rc = jb_rundir_find(run, &dir, err);
    if (rc == 0) rc = jb_records_load(dir, &r, err);
    if (rc == 0) {
        *out = jb_report_json(r, dir, stable);
        if (!*out) rc = jb_err(err, JB_ENOMEM, "report: out of memory");
    }
    jb_records_free(r);
    jb_free(dir);
    return rc;
}

/* --md, or --html with `path`. */
static int render(jb_cli *c, const cJSON *document, const char *path)
{
    jb_error err = JB_ERROR_INIT;
    const jb_layout *layout = jb_cli_layout(c, &err);
    int to_stdout = !path || strcmp(path, "-") == 0, rc = layout ? 0 : err.code;
    jb_buf text = JB_BUF_INIT(JB_RENDER_MAX);
    if (rc == 0 && !to_stdout) rc = jb_render_page(layout, document, path, &err);
    if (rc == 0 && to_stdout) {
        rc = jb_render(layout, document, path ? "html" : "md", ".", &text, &err);
        if (rc == 0) fwrite(text.ptr, 1, text.len, c->out);
    }
    if (rc == 0 && !to_stdout && !c->quiet) fprintf(c->err, "report: wrote %s\n", path);
    jb_buf_free(&text);
    return rc == 0 ? JB_EXIT_OK : jb_cli_fail(c, &err);
}

static int print_texts(jb_cli *c, const cJSON *runs)
{
    const cJSON *report;
    int code = JB_EXIT_OK;
    cJSON_ArrayForEach(report, runs)
    {
        if (report != runs->child) fputs("\n----\n\n", c->out);
        if (code == JB_EXIT_OK) code = jb_runs_print_report(c, report);
    }
    return code;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    const char *page = jb_cli_text(c, "html", NULL);
    int code, stable = jb_cli_flag(c, "stable"), md = jb_cli_flag(c, "md");
    if ((page != NULL) + md + (c->json != 0) > 1) return jb_cli_usage(c, "--html, --md and --json are three forms of one report: give one of them");
    cJSON *all = cJSON_CreateObject(), *runs = all && jb_json_set_i64(all, "schema", 1) == 0 ? jb_json_add_arr(all, "runs") : NULL;
    int rc = runs ? 0 : jb_err(&err, JB_ENOMEM, "report: out of memory");
    for (int i = 0; rc == 0 && i < c->argc; i++) {
        cJSON *report = NULL;
        rc = load(c->argv[i], stable, &report, &err);
        if (rc == 0 && !cJSON_AddItemToArray(runs, report)) rc = jb_err(&err, JB_ENOMEM, "report: out of memory");
    }
    if (rc != 0) code = jb_cli_fail(c, &err);
    else if (page || md) code = render(c, all, page);
    else if (c->json) code = jb_cli_print_json(c, c->argc == 1 ? cJSON_GetArrayItem(runs, 0) : all);
    else code = print_texts(c, runs);
    cJSON_Delete(all);
    return code;
}

const jb_cli_verb jb_verb_report = {
    .name = "report", .summary = "the leaderboard and findings of a run", .usage = "RUN...",
    .help = "Computed from the journal, so it also works on a run that is still going or was killed.\n"
            "--json gives one document (several RUNs: {\"schema\":1,\"runs\":[...]}), --md a summary in Markdown,\n"
            "--html one page that needs no network and no script.\n\n"
            "  jaxbench report runs/<the folder> --html report.html",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = -1, .run = run,
};
