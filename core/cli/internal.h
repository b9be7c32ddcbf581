/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/internal.h - what the files of core/cli share and nobody else. */
#ifndef JB_CLI_INTERNAL_H
#define JB_CLI_INTERNAL_H

#include "core/cli/cli.h"
#include "core/suite/suite.h"

#define JB_PROGRAM "jaxbench"

/* A value given to an option of the verb. */
struct jb_cli_value {
    const jb_cli_option *option;
    const char *text; /* NULL for flags */
};

extern const jb_cli_option jb_cli_globals[];
extern const size_t jb_cli_global_count;

void jb_cli_help(const jb_cli *c, const jb_cli_verb *const *verbs, size_t count); /* of the program */
void jb_cli_help_verb(const jb_cli *c, const jb_cli_verb *v);

/* ---- kinds: what list and show know ------------------------------------------ */

/* The five kinds of components: {"method", "methods", JB_KIND_METHOD}, ... */
typedef struct jb_cli_kind {
    const char *one, *many, *kind;
} jb_cli_kind;
extern const jb_cli_kind jb_cli_kinds[];
extern const size_t jb_cli_kind_count;

/* Folders below the suite root that hold workloads; free with jb_fs_list_free. -1: none can be read. */
int64_t jb_cli_suites(jb_cli *c, char ***names_out, jb_error *err);
int jb_cli_open_suite(jb_cli *c, const char *name, jb_suite **out, jb_error *err);
/* Find a workload in any suite ("8p", "gemm", "8p_gemm"); `*suite_out` owns it. */
int jb_cli_find_workload(jb_cli *c, const char *name, jb_suite **suite_out, const jb_workload **out, jb_error *err);
/* An unknown KIND with the nearest of `names`.  Returns 2. */
int jb_cli_unknown(jb_cli *c, const char *what, const char *word, const char *const *names, size_t count);

/* ---- runs ---------------------------------------------------------------------- */

/* One run folder below ./runs. */
typedef struct jb_cli_run {
    char *path, *study;
    int64_t bytes;
    int64_t changed; /* seconds since the epoch */
    int locked;      /* by a living process */
} jb_cli_run;
int jb_cli_runs(jb_cli_run **out, size_t *count_out, jb_error *err);
void jb_cli_runs_free(jb_cli_run *runs, size_t count);

/* ---- the worker's probe -------------------------------------------------------- */

/* Run `worker --probe` for at most timeout_ms and parse the object it prints.
 * On failure `err` says what is wrong and what to do. Caller frees. */
cJSON *jb_cli_probe(const char *worker, int timeout_ms, jb_error *err);
/* The executor failed with `err`: when the worker can't even answer a probe, put
 * its own reason behind the message. */
void jb_cli_explain_worker(const char *worker, jb_error *err);

#endif
