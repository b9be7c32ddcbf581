/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/help.c - --help, generated from the same tables that parse. */
#include "core/cli/internal.h"

#include <string.h>

#define COLUMN 26 /* where explanations begin */

/* "  -q, --quiet" or "      --set K=V", then the explanation. */
static void option_line(const jb_cli *c, const jb_cli_option *o)
{
    char left[96];
    int n = o->letter ? snprintf(left, sizeof left, "  -%c, --%s", o->letter, o->name) : snprintf(left, sizeof left, "      --%s", o->name);
    if (o->arg && n > 0 && (size_t)n < sizeof left) snprintf(left + n, sizeof left - (size_t)n, " %s", o->arg);
    if (strlen(left) >= COLUMN - 1) fprintf(c->out, "%s\n%*s%s\n", left, COLUMN, "", o->help);
    else fprintf(c->out, "%-*s%s\n", COLUMN, left, o->help);
}

static void global_options(const jb_cli *c)
{
    fprintf(c->out, "\nGlobal options:\n");
    for (size_t i = 0; i < jb_cli_global_count; i++) option_line(c, &jb_cli_globals[i]);
}

void jb_cli_help(const jb_cli *c, const jb_cli_verb *const *verbs, size_t count)
{
    fprintf(c->out, "%sjaxbench%s measures agents that write TPU kernels.\n\nUsage: jaxbench COMMAND [OPTION...] [ARGUMENT...]\n\nCommands:\n",
            jb_cli_style(c, 'b'), jb_cli_style(c, '0'));
    for (size_t i = 0; i < count; i++) fprintf(c->out, "  %-12s%s\n", verbs[i]->name, verbs[i]->summary);
    global_options(c);
    fprintf(c->out, "\nExit codes: 0 done, 1 internal error, 2 usage or validation, 3 a criterion was hit, 4 infrastructure,\n"
                    "5 budget, 6 quota, 7 doctor found a fault, 8 locked, 130 and 143 by signal.\n\n"
                    "jaxbench COMMAND --help explains a command.\n");
}

void jb_cli_help_verb(const jb_cli *c, const jb_cli_verb *v)
{
    fprintf(c->out, "Usage: jaxbench %s%s%s%s\n\n%s\n", v->name, v->option_count ? " [OPTION...]" : "", v->usage[0] ? " " : "", v->usage, v->summary);
    size_t n = v->help ? strlen(v->help) : 0;
    if (n) fprintf(c->out, "\n%s%s", v->help, v->help[n - 1] == '\n' ? "" : "\n");
    if (v->option_count) fprintf(c->out, "\nOptions:\n");
    for (size_t i = 0; i < v->option_count; i++) option_line(c, &v->options[i]);
    global_options(c);
}
