/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/runs.h - what the verbs run, resume and report share: from a study
 * to the engine's plan, and from a finished engine to files, text and exit code. */
#ifndef JB_CLI_RUNS_H
#define JB_CLI_RUNS_H

#include "core/cli/cli.h"
#include "core/engine/journal.h"
#include "core/engine/records.h"
#include "core/study/study.h"

/* The overrides of a study: what a run kept, then --set, then --budget as the
 * --set that means the same.  Texts are borrowed but for those made here. */
typedef struct jb_runs_sets {
    const char **all;
    size_t count;
    char **made;
    size_t made_count;
} jb_runs_sets;
int jb_runs_sets_read(const jb_cli *c, const char *const *before, size_t before_count, jb_runs_sets *out, jb_error *err);
void jb_runs_sets_free(jb_runs_sets *sets);

/* Take <run_dir>/lock; reports and returns an exit code, 0 when taken. */
int jb_runs_lock(jb_cli *c, const char *run_dir, jb_lock **out);
/* Are the keys of the study's backends there?  Before anything is written. Exit code. */
int jb_runs_check_keys(jb_cli *c, const jb_study *s);
/* The study that a run's manifest keeps, read the way `run` read it, with the verb's --budget (if it has one) over it. */
int jb_runs_read_study(const jb_cli *c, const cJSON *manifest, const jb_registry *registry, const jb_layout *layout, jb_study **out, jb_error *err);
/* Run all cells in the locked folder, whatever the journal knows already, then
 * write index.sqlite, report.json and (without --no-page) report.html and print
 * the report.  Exit code. */
int jb_runs_conduct(jb_cli *c, const jb_study *s, const char *run_dir);
/* SIGINT, SIGTERM and (unless nohup ignores it) SIGHUP: the first asks to stop,
 * the second ends the process.
 * Gives the flag and a descriptor that becomes readable. JB_EIO. */
int jb_runs_catch_signals(const volatile int **stop, int *stop_fd, jb_error *err);
/* report.json of a run, with `missing` when its folder lacks bodies. Caller frees *out. */
int jb_runs_make_report(const jb_records *r, const char *run_dir, int stable, cJSON **out, jb_error *err);
/* The report of a folder, as text or JSON by c->json. Exit code. */
int jb_runs_print_report(jb_cli *c, const cJSON *report);

#endif
