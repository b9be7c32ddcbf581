/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_export.c - jaxbench export RUN: its candidates as rows on stdout
 * (core/export).  Reads the journal, so it also works while the run goes on. */
#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/cli.h"
#include "core/engine/rundir.h"
#include "core/export/export.h"

#include <errno.h>
#include <string.h>

static const char *const FORMATS[] = { "jsonl", "csv", "junit", NULL };
static int (*const WRITERS[])(const jb_records *, FILE *) = { jb_export_jsonl, jb_export_csv, jb_export_junit };

static const jb_cli_option OPTIONS[] = {
    { "format", 'f', JB_CLI_ENUM, "FORMAT", "jsonl (default), csv or junit", FORMATS },
};

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    jb_records *r = NULL;
    char *dir = NULL;
    const char *format = jb_cli_text(c, "format", FORMATS[0]);
    size_t which = 0;
    while (strcmp(FORMATS[which], format)) which++;
    int rc = jb_rundir_find(c->argv[0], &dir, &err);
    if (rc == 0) rc = jb_records_load(dir, &r, &err);
    if (rc == 0) {
        rc = WRITERS[which](r, c->out);
        if (rc == JB_EIO) jb_err(&err, rc, "export: writing the output: %s", strerror(errno));
        else if (rc != 0) jb_err(&err, rc, "export: out of memory");
    }
    jb_records_free(r);
    jb_free(dir);
    return rc ? jb_cli_fail(c, &err) : JB_EXIT_OK;
}

const jb_cli_verb jb_verb_export = {
    .name = "export", .summary = "the candidates of a run as JSON Lines, CSV or JUnit", .usage = "RUN",
    .help = "One row a candidate on stdout; columns are in docs/cli.md.\n\n"
            "  jaxbench export RUN --format csv > run.csv\n",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 1, .max_args = 1, .run = run,
};
