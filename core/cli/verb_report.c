/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_report.c - jaxbench report RUN...: compute the report anew from
 * the journal.  Reads only; also works while the run goes on. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/runs.h"
#include "core/engine/missing.h"
#include "core/engine/rundir.h"

#include <string.h>

static const jb_cli_option OPTIONS[] = {
    { "stable", 0, JB_CLI_FLAG, NULL, "leave out times, places and costs in seconds, to compare runs", NULL },
};

static int load(const char *run, int stable, cJSON **out, jb_error *err)
{
    jb_records *r = NULL;
    char *dir = NULL;
    int rc = jb_rundir_find(run, &dir, err);
    if (rc == 0) rc = jb_records_load(dir, &r, err);
    if (rc == 0) rc = jb_missing_journal(dir, err);
    if (rc == 0) rc = jb_runs_make_report(r, dir, stable, out, err);
    jb_records_free(r);
    jb_free(dir);
    return rc;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    int code = JB_EXIT_OK, stable = jb_cli_flag(c, "stable");
    cJSON *all = cJSON_CreateObject(), *runs = all && jb_json_set_i64(all, "schema", 1) == 0 ? jb_json_add_arr(all, "runs") : NULL;
    int rc = runs ? 0 : jb_err(&err, JB_ENOMEM, "report: out of memory");
    for (int i = 0; rc == 0 && i < c->argc; i++) {
        cJSON *report = NULL;
        rc = load(c->argv[i], stable, &report, &err);
        if (rc == 0 && !cJSON_AddItemToArray(runs, report)) rc = jb_err(&err, JB_ENOMEM, "report: out of memory");
    }
    if (rc != 0) {
        code = jb_cli_fail(c, &err);
    } else if (c->json) {
        code = jb_cli_print_json(c, c->argc == 1 ? cJSON_GetArrayItem(runs, 0) : all);
    } else {
        const cJSON *report;
        int first = 1;
        cJSON_ArrayForEach(report, runs)
        {
            if (!first) fputs("\n----\n\n", c->out);
            first = 0;
            if (code == JB_EXIT_OK) code = jb_runs_print_report(c, report);
        }
    }
    cJSON_Delete(all);
    return code;
}

const jb_cli_verb jb_verb_report = {
    .name = "report", .summary = "the leaderboard and findings of a run", .usage = "RUN...",
    .help = "Computed from the journal, so it also works on a run that is still going or was killed.\n"
            "--json gives one document (several RUNs: {\"schema\":1,\"runs\":[...]}).",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = -1, .run = run,
};
