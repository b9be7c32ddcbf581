/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_validate.c - `jaxbench validate STUDY`: everything that `run`
 * checks before it begins, and what the study expands to. */
#include "core/cli/internal.h"
#include "core/study/study.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <inttypes.h>

static const jb_cli_option OPTIONS[] = {
    { "set", 0, JB_CLI_LIST, "K=V", "override a key of the study, e.g. executor.slots=1", NULL },
    { "only", 0, JB_CLI_LIST, "GLOB", "only cells or workloads that match", NULL },
    { "limit", 0, JB_CLI_INT, "N", "only the first N cells", NULL },
    { "cells", 0, JB_CLI_FLAG, NULL, "list every cell", NULL },
};

static int print_json(jb_cli *c, const jb_study *s)
{
    cJSON *o = cJSON_CreateObject(), *expanded = cJSON_Duplicate(s->json, 1);
    int status = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (!status) status = jb_json_set_bool(o, "valid", 1);
    if (!status) status = jb_json_set_str(o, "hash", s->hash);
    if (!status) status = jb_json_set_i64(o, "cells", (int64_t)s->cell_count);
    if (status || !expanded || !cJSON_AddItemToObject(o, "study", expanded)) {
        cJSON_Delete(expanded);
        cJSON_Delete(o);
        o = NULL;
    }
    int code = jb_cli_print_json(c, o);
    cJSON_Delete(o);
    return code;
}

static void print_names(jb_cli *c, const char *what, const jb_study_part *parts, size_t count)
{
    fprintf(c->out, "  %-10s", what);
    for (size_t i = 0; i < count; i++) fprintf(c->out, "%s%s (%s)", i ? ", " : "", parts[i].name, parts[i].component->name);
    fprintf(c->out, "%s\n", count ? "" : "none");
}

static void print_text(jb_cli *c, const jb_study *s)
{
    size_t workloads = 0;
    for (size_t i = 0; i < s->suite_count; i++) workloads += s->suites[i].workload_count;
    fprintf(c->out, "%s is valid: %zu cell%s\n", s->path, s->cell_count, s->cell_count == 1 ? "" : "s");
    if (c->quiet) return;
    fprintf(c->out, "  %-10s%zu:", "workloads", workloads);
    for (size_t i = 0; i < s->suite_count; i++)
        for (size_t k = 0; k < s->suites[i].workload_count; k++) fprintf(c->out, " %s", jb_workload_id(s->suites[i].workloads[k]));
    fprintf(c->out, "\n");
    print_names(c, "methods", s->methods, s->method_count);
    print_names(c, "backends", s->backends, s->backend_count);
    fprintf(c->out, "  %-10s", "gates");
    for (size_t i = 0; i < s->gate_count; i++) fprintf(c->out, "%s%s", i ? ", " : "", jb_gateset_name(s->gates[i]));
    fprintf(c->out, " (headline: %s)\n  %-10s%s\n  %-10s%s\n", jb_gateset_name(s->headline), "variant", s->variant, "hash", s->hash);
    for (size_t i = 0; jb_cli_flag(c, "cells") && i < s->cell_count; i++) {
        fprintf(c->out, "  %s  %.12s", s->cells[i].name, s->cells[i].key);
        if (s->cells[i].expected >= 0) fprintf(c->out, "  %" PRId64 " samples", s->cells[i].expected);
        fprintf(c->out, "\n");
    }
}

static int run(jb_cli *c)
{
    jb_error e = JB_ERROR_INIT;
    const jb_layout *l = jb_cli_layout(c, &e);
    const jb_registry *r = l ? jb_cli_registry(c, &e) : NULL;
    jb_study *s = NULL;
    if (!r) return jb_cli_fail(c, &e);
    jb_study_options o = { .registry = r, .suite_root = l->suite, .limit = jb_cli_i64(c, "limit", 0) };
    o.set = jb_cli_list(c, "set", &o.set_count);
    o.only = jb_cli_list(c, "only", &o.only_count);
    if (jb_study_load(c->argv[0], &o, &s, &e)) return jb_cli_fail(c, &e);
    int code = 0;
    if (c->json) code = print_json(c, s);
    else print_text(c, s);
    jb_study_free(s);
    return code;
}

const jb_cli_verb jb_verb_validate = {
    "validate", "check a study file and show what it expands to", "STUDY",
    "Checks what `run` checks before it begins: keys, types, plugins and their options, gates, filters.\n"
    "Runs nothing.  Exit code 2 with file, line and hint for a study that is wrong.\n\n"
    "  jaxbench validate examples/quickstart.yaml --cells\n",
    OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 1, 1, run,
};
