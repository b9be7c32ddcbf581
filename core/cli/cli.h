/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/cli.h - the command line as tables: a verb is a row of data with an
 * option table and a function; parsing, --help, did-you-mean and the form of
 * errors follow from the tables.
 *
 *     argv --> jb_cli_main --> verb->run(cli) --> exit code
 *
 * GNU conventions: --key=value, --key value, -k value, -kvalue, `--` ends
 * options, options and arguments mix.  Global flags stand before or after the
 * verb.  Results go to cli->out, everything else to cli->err. */
#ifndef JB_CLI_H
#define JB_CLI_H

#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/registry/registry.h"
#include <stdio.h>

/* Exit codes; docs: README, "Exit codes". */
#define JB_EXIT_OK 0
#define JB_EXIT_INTERNAL 1
#define JB_EXIT_USAGE 2     /* usage or validation */
#define JB_EXIT_CRITERION 3 /* finished, but a criterion asked for was hit */
#define JB_EXIT_INFRA 4     /* infrastructure failures above the threshold */
#define JB_EXIT_BUDGET 5
#define JB_EXIT_QUOTA 6
#define JB_EXIT_DOCTOR 7
#define JB_EXIT_LOCKED 8

/* Types of options. */
#define JB_CLI_FLAG 1u /* no value */
#define JB_CLI_TEXT 2u
#define JB_CLI_INT 3u  /* whole number >= 0 */
#define JB_CLI_LIST 4u /* may be given several times */
#define JB_CLI_ENUM 5u /* one of `choices` */

typedef struct jb_cli_option {
    const char *name;       /* without "--" */
    char letter;            /* 0: none */
    uint32_t type;          /* JB_CLI_* */
    const char *arg;        /* "FILE", "K=V"; NULL for flags */
    const char *help;       /* a few words to a line */
    const char *const *choices; /* NULL-terminated, JB_CLI_ENUM */
} jb_cli_option;

typedef struct jb_cli jb_cli;

typedef struct jb_cli_verb {
    const char *name;
    const char *summary;    /* one line */
    const char *usage;      /* arguments: "STUDY", "RUN...", "KIND NAME" */
    const char *help;       /* paragraphs and examples, may be NULL */
    const jb_cli_option *options;
    size_t option_count;
    int min_args, max_args; /* max -1: any number */
    int (*run)(jb_cli *c);  /* returns the exit code */
} jb_cli_verb;

struct jb_cli {
    FILE *out, *err;
    const jb_cli_verb *verb;
    const jb_cli_verb *const *verbs; /* all of them */
    size_t verb_count;
    int argc;               /* arguments that are no options, without the verb */
    const char **argv;
    int command_argc;       /* the whole command, for manifests */
    char **command_argv;
    int json;               /* --json: one JSON document on out, errors as an object on err */
    int quiet, verbose;     /* -q; -v counted */
    int color;              /* decided: terminal, --color, NO_COLOR */
    int no_input;           /* never ask */
    uint32_t log_level;     /* JB_LOG_*; 4: errors only */
    /* Private below. */
    struct jb_cli_value *values;
    size_t value_count;
    const char **texts; /* of values, in the same order */
    jb_layout layout;
    int have_layout;
    jb_registry *registry;
};

/* Parse and run.  `verbs` has `count` rows. */
int jb_cli_main(int argc, char **argv, const jb_cli_verb *const *verbs, size_t count, FILE *out, FILE *err);

/* Values of the verb's options. */
int jb_cli_flag(const jb_cli *c, const char *name);
const char *jb_cli_text(const jb_cli *c, const char *name, const char *def); /* the last one given */
int64_t jb_cli_i64(const jb_cli *c, const char *name, int64_t def);
/* All values of a JB_CLI_LIST in order; the array lives as long as `c`; NULL when none. */
const char *const *jb_cli_list(const jb_cli *c, const char *name, size_t *count_out);

/* Found or opened on first use, kept in `c`. */
const jb_layout *jb_cli_layout(jb_cli *c, jb_error *err);     /* NULL on error */
const jb_registry *jb_cli_registry(jb_cli *c, jb_error *err); /* NULL on error */

/* Print `err` in the form asked for and return the exit code that fits it:
 * 2 for what the user can mend, 5 budget, 130 cancelled, else 1. */
int jb_cli_fail(jb_cli *c, const jb_error *err);
/* The same with an exit code of the caller's choice. */
int jb_cli_fail_as(jb_cli *c, int exit_code, const jb_error *err);
/* Usage error of this verb: message and where help is.  Returns 2. */
int jb_cli_usage(jb_cli *c, const char *fmt, ...) JB_PRINTF(2, 3);
int jb_cli_exit_of(const jb_error *err);
/* "warning: ..." on err, unless quiet. */
void jb_cli_warn(jb_cli *c, const char *fmt, ...) JB_PRINTF(2, 3);
/* One document and a newline on out.  Returns 0 or the exit code of a failure, reported. */
int jb_cli_print_json(jb_cli *c, const cJSON *o);

/* "\033[..m" when c->color, else "".  Styles: 'b' bold, 'd' dim, 'g' green,
 * 'y' yellow, 'r' red, '0' reset. */
const char *jb_cli_style(const jb_cli *c, char style);

/* A table of text: columns padded to their widest cell (UTF-8 aware), control
 * characters escaped.  Cells are copied. */
typedef struct jb_cli_table jb_cli_table;
jb_cli_table *jb_cli_table_new(size_t columns, const char *const *heads); /* NULL: out of memory */
void jb_cli_table_row(jb_cli_table *t, const char *const *cells);        /* NULL cell: "" */
int jb_cli_table_print(jb_cli_table *t, jb_cli *c);                      /* frees t; JB_ENOMEM if a row was lost */
void jb_cli_table_free(jb_cli_table *t);                                 /* without printing; NULL allowed */

/* The verbs, each in its own file. */
extern const jb_cli_verb jb_verb_doctor, jb_verb_list, jb_verb_show, jb_verb_clean, jb_verb_validate, jb_verb_plugin;
extern const jb_cli_verb jb_verb_run, jb_verb_resume, jb_verb_eval, jb_verb_report;
extern const jb_cli_verb jb_verb_plan, jb_verb_status, jb_verb_stop, jb_verb_init, jb_verb_export, jb_verb_completion, jb_verb_judge;

#endif
