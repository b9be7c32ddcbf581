/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/study.h - a study file, read, checked and expanded into cells.
 *
 *     study.yaml + --set --> tree --> suites x methods x backends x seeds --> cells
 *                                 \-> gates, timers, executor, limits (never crossed)
 *
 * Everything that a study can get wrong is found here, before anything runs: an
 * unknown key, a wrong type, a plugin that is not there, a filter that matches
 * nothing.  Errors carry file and line, or the --set that caused them.  A key
 * that nothing in this version honours is refused rather than ignored.  Opens
 * no network, runs no plugin code, writes nothing. */
#ifndef JB_STUDY_H
#define JB_STUDY_H

#include "core/base/hash.h"
#include "core/base/json.h"
#include "core/http/limits.h"
#include "core/registry/registry.h"
#include "core/study/budget.h"
#include "core/study/prices.h"
#include "core/suite/suite.h"

#define JB_STUDY_MAX_BYTES (1u << 20) /* of a study file */
#define JB_STUDY_MAX_CELLS 100000u

/* A suite named in `suites:` and the workloads its `only:` globs select. */
typedef struct jb_study_suite {
    char *name;
    char *dir;
    jb_suite *suite;
    const jb_workload **workloads; /* in the order of the suite */
    size_t workload_count;
} jb_study_suite;

/* A method, backend, timer or the executor: a component with its options. */
typedef struct jb_study_part {
    char *name;                     /* the study's name for it; `use` when it gave none */
    const jb_component *component;  /* the registry's */
    cJSON *options;                 /* as given, typed by the option table: what jb_config_new takes */
    cJSON *resolved;                /* every option with its default; secrets left out */
    char *data_dir;                 /* methods: folder of templates */
    const jb_price_row *price;      /* backends: what a token costs; NULL: unpriced */
    jb_call_limits calls;           /* backends: rate, timeouts, retries of calls over HTTP */
} jb_study_part;

/* One cell of the matrix.  Pointers go into the study. */
typedef struct jb_study_cell {
    size_t index;
    char key[JB_HASH_HEX];          /* content hash: workload version, method, backend, options, seeds */
    char *name;                     /* "8p+iid+scripted+s0": unique, a safe folder name; keys the cell's draws */
    char *label;                    /* "8p/iid/scripted s0", for people */
    const jb_study_suite *suite;
    const jb_workload *workload;
    const jb_study_part *method;
    const jb_study_part *backend;   /* NULL for a method that asks none */
    int64_t seed;                   /* ordinal, from 0 */
    int64_t samples;                /* budget of the cell; -1 unlimited */
    int64_t expected;               /* candidates to expect, for progress; -1 unknown */
} jb_study_cell;

typedef struct jb_study {
    char *path;                     /* as given */
    char *text;                     /* the file's bytes, for the manifest */
    size_t text_len;
    char *name;
    char *seed;                     /* as text: keys all random numbers */
    jb_study_suite *suites;
    size_t suite_count;
    jb_study_part *methods, *backends;
    size_t method_count, backend_count;
    jb_gateset **gates;             /* in the order given */
    size_t gate_count;
    const jb_gateset *headline;     /* `robust` if among them, else the last */
    const char *variant;            /* what the prompt shows: "published" | "repaired" */
    const char *isolation;          /* "required" | "best-effort" */
    cJSON *timers;                  /* [{"use","options"}], as a job has them */
    jb_study_part executor;
    int64_t slots;                  /* jobs in the executor at a time */
    char *check_shape;              /* `shapes: {check: tiny}`; NULL: the gate rows' own */
    char *timed_shape;              /* `shapes: {timed: tiny}`; NULL: full */
    char **skip;                    /* stages left out */
    size_t skip_count;
    cJSON *limits;                  /* {"trace_s":15,...}: only what the study set */
    int64_t samples_per_cell;       /* -1: no budget */
    jb_amounts budget;              /* of the run; -1: no limit */
    jb_prices *prices;              /* NULL: the study names none */
    int64_t infra_retries;
    double stop_after_infra_share;  /* 0: never */
    jb_study_cell *cells;
    size_t cell_count;
    /* The study as expanded: resolved options, versions of workloads, gates and
     * plugins, keys of cells; no path of this machine.  Same study, same bytes. */
    cJSON *json;
    char *canonical;
    char hash[JB_HASH_HEX];         /* of `canonical` */
    void *impl;                     /* this module's own */
} jb_study;

typedef struct jb_study_options {
    const jb_registry *registry;    /* must outlive the study */
    const char *suite_root;         /* holds the suites and gates/ (jb_layout.suite) */
    const char *base_dir;           /* relative gate files are looked up here; NULL: the study's folder */
    const char *const *set;         /* "K=V": K a dotted path, list items by name or index; V YAML */
    size_t set_count;
    const char *const *only;        /* globs over workloads (id, name, id_name) and cell names */
    size_t only_count;
    int64_t limit;                  /* keep the first `limit` cells; 0: all */
    const char *prices_text;        /* what `prices:` names, as a run kept it; NULL: read the file */
} jb_study_options;

/* Read and expand.  JB_EPARSE, JB_EINVAL, JB_ENOTFOUND or JB_EUNSUPPORTED for
 * what the user can mend (flag JB_ERR_USER), JB_EIO, JB_ENOMEM. */
int jb_study_load(const char *path, const jb_study_options *o, jb_study **out, jb_error *err);
/* The same of a text, e.g. the one kept by a run; `path` names it in errors. */
int jb_study_parse(const char *text, size_t len, const char *path, const jb_study_options *o, jb_study **out, jb_error *err);
void jb_study_free(jb_study *s);

/* Prompt facts of a workload in this study (variant, shapes asked for, what
 * its gates judge): name -> text.  Caller frees; NULL on error. */
cJSON *jb_study_facts(const jb_study *s, const jb_workload *w, jb_error *err);

/* Check every row of a set against the option tables of its checkers. */
int jb_study_check_gates(const jb_registry *r, const jb_gateset *g, jb_error *err);
/* A gate set by name (<suite_root>/gates/<name>.yaml, nearest name on error) or
 * by file (a name with '/' or ending in .yaml, relative to base_dir), checked. */
int jb_study_open_gates(const jb_registry *r, const char *suite_root, const char *base_dir, const char *name,
                        jb_gateset **out, jb_error *err);
/* Names of the sets in <suite_root>/gates, sorted; -1 when the folder can't be
 * read.  Free with jb_fs_list_free. */
int64_t jb_study_list_gates(const char *suite_root, char ***names_out);

#endif
