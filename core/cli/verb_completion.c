/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_completion.c - jaxbench completion SHELL: a completion script for
 * bash, zsh or fish, generated from the tables that parse.  What a value can be
 * follows from how the tables name it; names of workloads, runs and plugins are
 * asked of `jaxbench list --names` when they are wanted. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <ctype.h>
#include <string.h>

/* ---- what a value can be ----------------------------------------------------------------- */

#define WORDS_NONE 0u /* anything */
#define WORDS_FILE 1u
#define WORDS_DIR 2u
#define WORDS_LIST 3u /* `jaxbench list <what> --names` */
#define WORDS_CALL 4u /* `jaxbench <what>` */
#define WORDS_THESE 5u /* <what>, with spaces in between */

typedef struct words {
    unsigned kind;
    char what[160];
} words;

static words words_of(unsigned kind, const char *what)
{
    words w = { kind, "" };
    snprintf(w.what, sizeof w.what, "%s", what);
    return w;
}

/* An option whose name, or name and "s", is a kind that `list` knows. */
static words words_of_name(const char *name)
{
    static const char *const kinds[] = { "workloads", "suites", "methods", "backends", "checkers", "timers", "executors", "gates" };
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strncmp(kinds[i], name, n) && (!kinds[i][n] || !strcmp(kinds[i] + n, "s"))) return words_of(WORDS_LIST, kinds[i]);
    return words_of(WORDS_NONE, "");
}

static words words_of_option(const jb_cli_option *o)
{
    static const struct { const char *arg; unsigned kind; const char *what; } rows[] = {
        { "DIR", WORDS_DIR, "" }, { "FILE", WORDS_FILE, "" }, { "GLOB", WORDS_LIST, "workloads" }, { "TEMPLATE", WORDS_CALL, "init --list" },
        { "STAGE", WORDS_THESE, "compile check time" },
    };
    words w = words_of(WORDS_THESE, "");
    for (size_t i = 0; o->choices && o->choices[i]; i++) {
        size_t n = strlen(w.what);
        snprintf(w.what + n, sizeof w.what - n, "%s%s", i ? " " : "", o->choices[i]);
    }
    if (o->choices) return w;
    for (size_t i = 0; o->arg && i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].arg, o->arg)) return words_of(rows[i].kind, rows[i].what);
    return words_of_name(o->name);
}

/* Of the first argument, by the usage line. */
static words words_of_argument(const jb_cli_verb *v)
{
    const char *u = v->usage;
    words w = words_of(WORDS_THESE, "");
    if (!strncmp(u, "RUN", 3)) return words_of(WORDS_LIST, "runs");
    if (!strcmp(u, "[KIND]")) return words_of(WORDS_CALL, "list --names");
    if (!strcmp(u, "STUDY") || !strncmp(u, "KERNEL", 6)) return words_of(WORDS_FILE, "");
    if (!strncmp(u, "KIND", 4)) {
        for (size_t i = 0; i < jb_cli_kind_count; i++) snprintf(w.what + strlen(w.what), sizeof w.what - strlen(w.what), "%s ", jb_cli_kinds[i].one);
        snprintf(w.what + strlen(w.what), sizeof w.what - strlen(w.what), "workload gates suite plugin run");
        return w;
    }
    for (size_t i = 0; u[i] && i + 1 < sizeof w.what && (islower((unsigned char)u[i]) || u[i] == '|'); i++) {
        w.what[i] = u[i] == '|' ? ' ' : u[i];
        w.what[i + 1] = 0;
    }
    return w.what[0] ? w : words_of(WORDS_NONE, "");
}

/* The text within single quotes: no quote, no bracket, no colon of zsh's. */
static void quoted(const jb_cli *c, const char *s, const char *forbidden)
{
    for (; *s; s++)
        if (!strchr(forbidden, *s)) fputc(*s, c->out);
}

static const jb_cli_option *option_at(const jb_cli_verb *v, size_t i)
{
    return i < v->option_count ? &v->options[i] : i - v->option_count < jb_cli_global_count ? &jb_cli_globals[i - v->option_count] : NULL;
}

/* ---- bash ----------------------------------------------------------------------------------- */

static const char BASH_HEAD[] =
    "# bash completion of jaxbench; made by `jaxbench completion bash`.  To use it:\n"
    "#   source <(jaxbench completion bash)\n"
    "_jaxbench_words() { COMPREPLY+=($(compgen -W \"$1\" -- \"$cur\")); }\n"
    "_jaxbench_call() { local IFS=$'\\n'; COMPREPLY+=($(compgen -W \"$(\"${COMP_WORDS[0]}\" \"$@\" 2>/dev/null)\" -- \"$cur\")); }\n"
    "_jaxbench_files() { local IFS=$'\\n'; compopt -o filenames 2>/dev/null; COMPREPLY+=($(compgen \"$1\" -- \"$cur\")); }\n"
    "_jaxbench() {\n"
    "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb='' at=0 i args=()\n"
    "  COMPREPLY=()\n"
    "  # bash makes three words of --option=value\n"
    "  if [[ $cur == '=' ]]; then cur=''\n"
    "  elif [[ $prev == '=' ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
    "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
    "    [[ ${COMP_WORDS[i]} == -* ]] && continue\n"
    "    if [[ -z $verb ]]; then\n"
    "      case ${COMP_WORDS[i-1]} in -C|--directory|--color|--log-level) continue ;; esac\n"
    "      verb=${COMP_WORDS[i]} at=$i\n"
    "    else args+=(\"${COMP_WORDS[i]}\"); fi\n"
    "  done\n";

static void bash_action(const jb_cli *c, const words *w)
{
    switch (w->kind) {
    case WORDS_FILE: fprintf(c->out, "_jaxbench_files -f"); break;
    case WORDS_DIR: fprintf(c->out, "_jaxbench_files -d"); break;
    case WORDS_LIST: fprintf(c->out, "_jaxbench_call list %s --names", w->what); break;
    case WORDS_CALL: fprintf(c->out, "_jaxbench_call %s", w->what); break;
    case WORDS_THESE: fprintf(c->out, "_jaxbench_words '%s'", w->what); break;
    default: fprintf(c->out, ":");
    }
}

static void bash_option_case(const jb_cli *c, const char *verb, const jb_cli_option *o)
{
    if (o->type == JB_CLI_FLAG) return;
    words w = words_of_option(o);
    fprintf(c->out, "    %s:--%s", verb, o->name);
    if (o->letter) fprintf(c->out, "|%s:-%c", verb, o->letter);
    fprintf(c->out, ") ");
    bash_action(c, &w);
    fprintf(c->out, "; return ;;\n");
}

static void bash_flags(const jb_cli *c, const jb_cli_verb *v)
{
    for (size_t i = 0; i < v->option_count; i++) fprintf(c->out, "--%s ", v->options[i].name);
}

static void bash(const jb_cli *c)
{
    fputs(BASH_HEAD, c->out);
    fprintf(c->out, "  case $verb:$prev in\n");
    for (size_t i = 0; i < c->verb_count; i++)
        for (size_t k = 0; k < c->verbs[i]->option_count; k++) bash_option_case(c, c->verbs[i]->name, &c->verbs[i]->options[k]);
    for (size_t k = 0; k < jb_cli_global_count; k++) bash_option_case(c, "*", &jb_cli_globals[k]);
    fprintf(c->out, "  esac\n  if [[ $cur == -* ]]; then\n    case $verb in\n");
    for (size_t i = 0; i < c->verb_count; i++) {
        if (!c->verbs[i]->option_count) continue;
        fprintf(c->out, "      %s) _jaxbench_words '", c->verbs[i]->name);
        bash_flags(c, c->verbs[i]);
        fprintf(c->out, "' ;;\n");
    }
    fprintf(c->out, "    esac\n    _jaxbench_words '");
    for (size_t k = 0; k < jb_cli_global_count; k++) fprintf(c->out, "--%s ", jb_cli_globals[k].name);
    fprintf(c->out, "'\n    return\n  fi\n  case $verb in\n    '') _jaxbench_words '");
    for (size_t i = 0; i < c->verb_count; i++) fprintf(c->out, "%s ", c->verbs[i]->name);
    fprintf(c->out, "' ;;\n");
    for (size_t i = 0; i < c->verb_count; i++) {
        words w = words_of_argument(c->verbs[i]);
        if (w.kind == WORDS_NONE) continue;
        fprintf(c->out, "    %s) ", c->verbs[i]->name);
        if (!strncmp(c->verbs[i]->usage, "KIND", 4))
            fprintf(c->out, "if ((${#args[@]})); then _jaxbench_call list \"${args[0]%%s}s\" --names; else ");
        bash_action(c, &w);
        fprintf(c->out, "%s ;;\n", !strncmp(c->verbs[i]->usage, "KIND", 4) ? "; fi" : "");
    }
    fprintf(c->out, "  esac\n}\ncomplete -F _jaxbench jaxbench\n");
}

/* ---- zsh -------------------------------------------------------------------------------------- */

static void zsh_action(const jb_cli *c, const words *w)
{
    switch (w->kind) {
    case WORDS_FILE: fprintf(c->out, "_files"); break;
    case WORDS_DIR: fprintf(c->out, "_files -/"); break;
    case WORDS_LIST: fprintf(c->out, " _jaxbench_call list %s --names", w->what); break;
    case WORDS_CALL: fprintf(c->out, " _jaxbench_call %s", w->what); break;
    case WORDS_THESE: fprintf(c->out, "(%s)", w->what); break;
    default: fprintf(c->out, " ");
    }
}

static void zsh_spec(const jb_cli *c, const jb_cli_option *o, const char *form, const char *equals)
{
    fprintf(c->out, "      '%s%s%s[", o->type == JB_CLI_LIST ? "*" : "", form, equals);
    quoted(c, o->help, "'[]\\");
    fprintf(c->out, "]");
    if (o->type != JB_CLI_FLAG) {
        words w = words_of_option(o);
        fprintf(c->out, ":%s:", o->arg ? o->arg : "value");
        zsh_action(c, &w);
    }
    fprintf(c->out, "' \\\n");
}

static void zsh_verb(const jb_cli *c, const jb_cli_verb *v)
{
    fprintf(c->out, "    %s) _arguments -S \\\n", v->name);
    const jb_cli_option *o;
    for (size_t i = 0; (o = option_at(v, i)) != NULL; i++) {
        char form[96];
        snprintf(form, sizeof form, "--%s", o->name);
        zsh_spec(c, o, form, o->type == JB_CLI_FLAG ? "" : "=");
        if (!o->letter) continue;
        snprintf(form, sizeof form, "-%c", o->letter);
        zsh_spec(c, o, form, o->type == JB_CLI_FLAG ? "" : "+");
    }
    words w = words_of_argument(v);
    fprintf(c->out, "      '%s:argument:", v->max_args == 1 ? "1" : "*");
    if (!strncmp(v->usage, "KIND", 4)) fprintf(c->out, " _jaxbench_kind");
    else zsh_action(c, &w);
    fprintf(c->out, "' ;;\n");
}

static void zsh(const jb_cli *c)
{
    words kinds = words_of(WORDS_NONE, "");
    fprintf(c->out, "#compdef jaxbench\n# made by `jaxbench completion zsh`; put it as _jaxbench into a folder of $fpath\n"
                    "_jaxbench_call() { compadd -- ${(f)\"$($_jaxbench_program \"$@\" 2>/dev/null)\"} }\n");
    for (size_t i = 0; i < c->verb_count; i++)
        if (!strncmp(c->verbs[i]->usage, "KIND", 4)) kinds = words_of_argument(c->verbs[i]);
    fprintf(c->out, "_jaxbench_kind() { if (( CURRENT > 2 )); then _jaxbench_call list \"${words[2]%%s}s\" --names; else compadd -- %s; fi }\n", kinds.what);
    fprintf(c->out, "_jaxbench() {\n  local _jaxbench_program=$words[1]\n  if (( CURRENT == 2 )); then\n    local -a verbs=(\n");
    for (size_t i = 0; i < c->verb_count; i++) {
        fprintf(c->out, "      '%s:", c->verbs[i]->name);
        quoted(c, c->verbs[i]->summary, "'\\");
        fprintf(c->out, "'\n");
    }
    fprintf(c->out, "    )\n    _describe command verbs\n    return\n  fi\n  shift words\n  (( CURRENT-- ))\n  case $words[1] in\n");
    for (size_t i = 0; i < c->verb_count; i++) zsh_verb(c, c->verbs[i]);
    fprintf(c->out, "  esac\n}\nif [[ $funcstack[1] = _jaxbench ]]; then _jaxbench \"$@\"; else compdef _jaxbench jaxbench; fi\n");
}

/* ---- fish --------------------------------------------------------------------------------------- */

static void fish_action(const jb_cli *c, const words *w)
{
    switch (w->kind) {
    case WORDS_FILE: fprintf(c->out, " -F"); break;
    case WORDS_DIR: fprintf(c->out, " -a '(__fish_complete_directories)'"); break;
    case WORDS_LIST: fprintf(c->out, " -a '(jaxbench list %s --names 2>/dev/null)'", w->what); break;
    case WORDS_CALL: fprintf(c->out, " -a '(jaxbench %s 2>/dev/null)'", w->what); break;
    case WORDS_THESE: fprintf(c->out, " -a '%s'", w->what); break;
    default: break;
    }
}

static void fish_option(const jb_cli *c, const char *condition, const jb_cli_option *o)
{
    fprintf(c->out, "complete -c jaxbench%s -l %s", condition, o->name);
    if (o->letter) fprintf(c->out, " -s %c", o->letter);
    if (o->type != JB_CLI_FLAG) {
        words w = words_of_option(o);
        fprintf(c->out, " -r");
        if (w.kind != WORDS_FILE) fprintf(c->out, " -f");
        fish_action(c, &w);
    }
    fprintf(c->out, " -d '");
    quoted(c, o->help, "'\\");
    fprintf(c->out, "'\n");
}

static void fish(const jb_cli *c)
{
    fprintf(c->out, "# fish completion of jaxbench; made by `jaxbench completion fish`\ncomplete -c jaxbench -f\n");
    for (size_t i = 0; i < c->verb_count; i++) {
        fprintf(c->out, "complete -c jaxbench -n __fish_use_subcommand -a %s -d '", c->verbs[i]->name);
        quoted(c, c->verbs[i]->summary, "'\\");
        fprintf(c->out, "'\n");
    }
    for (size_t i = 0; i < c->verb_count; i++) {
        char condition[96];
        words w = words_of_argument(c->verbs[i]);
        snprintf(condition, sizeof condition, " -n '__fish_seen_subcommand_from %s'", c->verbs[i]->name);
        for (size_t k = 0; k < c->verbs[i]->option_count; k++) fish_option(c, condition, &c->verbs[i]->options[k]);
        if (w.kind == WORDS_NONE) continue;
        fprintf(c->out, "complete -c jaxbench%s", condition);
        fish_action(c, &w);
        fprintf(c->out, "\n");
    }
    for (size_t k = 0; k < jb_cli_global_count; k++) fish_option(c, "", &jb_cli_globals[k]);
}

/* ---- the verb ------------------------------------------------------------------------------------- */

static const struct { const char *name; void (*print)(const jb_cli *c); } SHELLS[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };
#define SHELL_COUNT (sizeof SHELLS / sizeof *SHELLS)

static int run(jb_cli *c)
{
    const char *names[SHELL_COUNT];
    for (size_t i = 0; i < SHELL_COUNT; i++) {
        names[i] = SHELLS[i].name;
        if (strcmp(c->argv[0], SHELLS[i].name)) continue;
        SHELLS[i].print(c);
        return 0;
    }
    return jb_cli_unknown(c, "shell", c->argv[0], names, SHELL_COUNT);
}

const jb_cli_verb jb_verb_completion = {
    .name = "completion", .summary = "print a completion script for a shell", .usage = "bash|zsh|fish",
    .help = "  source <(jaxbench completion bash)\n"
            "  jaxbench completion zsh > ~/.zfunc/_jaxbench      # a folder of $fpath\n"
            "  jaxbench completion fish > ~/.config/fish/completions/jaxbench.fish\n",
    .min_args = 1, .max_args = 1, .run = run,
};
