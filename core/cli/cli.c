/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/cli.c - arguments through the tables and into a verb.
 *
 *     argv --> split: global flags | verb | options of the verb | arguments
 *
 * The verb is the first word that is no option.  Options are looked up among
 * the verb's own and then the global ones; a word that begins with "--" and is
 * in neither table is refused with the nearest that is. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const COLORS[] = { "auto", "always", "never", NULL };
static const char *const LEVELS[] = { "debug", "info", "warn", "error", NULL };

const jb_cli_option jb_cli_globals[] = {
    { "help", 'h', JB_CLI_FLAG, NULL, "show this help", NULL },
    { "version", 'V', JB_CLI_FLAG, NULL, "show the version", NULL },
    { "directory", 'C', JB_CLI_TEXT, "DIR", "work in DIR", NULL },
    { "quiet", 'q', JB_CLI_FLAG, NULL, "say only what was asked for", NULL },
    { "verbose", 'v', JB_CLI_FLAG, NULL, "say more; twice: debug", NULL },
    { "color", 0, JB_CLI_ENUM, "WHEN", "auto, always or never", COLORS },
    { "json", 0, JB_CLI_FLAG, NULL, "print JSON; errors as an object on stderr", NULL },
    { "log-level", 0, JB_CLI_ENUM, "LEVEL", "debug, info, warn or error", LEVELS },
    { "no-input", 0, JB_CLI_FLAG, NULL, "never ask", NULL },
};
const size_t jb_cli_global_count = sizeof jb_cli_globals / sizeof *jb_cli_globals;

/* What the global flags said. */
struct globals {
    int help, version;
    const char *directory, *color, *level;
};

struct scan {
    jb_cli *c;
    const jb_cli_verb *const *verbs;
    size_t verb_count;
    struct globals g;
    char **argv;
    int argc, at;
    int options_ended;
};

/* ---- lookup ------------------------------------------------------------------ */

static const jb_cli_option *find(const jb_cli_option *rows, size_t count, const char *name, size_t len, char letter)
{
    for (size_t i = 0; i < count; i++)
        if (letter ? rows[i].letter == letter : strlen(rows[i].name) == len && !memcmp(rows[i].name, name, len)) return &rows[i];
    return NULL;
}

static const jb_cli_option *lookup(const jb_cli *c, const char *name, size_t len, char letter, int *global)
{
    const jb_cli_option *o = c->verb ? find(c->verb->options, c->verb->option_count, name, len, letter) : NULL;
    *global = !o;
    return o ? o : find(jb_cli_globals, jb_cli_global_count, name, len, letter);
}

static int unknown_option(jb_cli *c, const char *word, size_t len)
{
    char name[64];
    const char *names[64];
    size_t n = 0;
    for (size_t i = 0; c->verb && i < c->verb->option_count && n < 64; i++) names[n++] = c->verb->options[i].name;
    for (size_t i = 0; i < jb_cli_global_count && n < 64; i++) names[n++] = jb_cli_globals[i].name;
    snprintf(name, sizeof name, "%.*s", (int)(len < 60 ? len : 60), word);
    const char *near = jb_text_nearest(name, names, n);
    jb_error e = JB_ERROR_INIT;
    jb_err(&e, JB_EINVAL, "unknown option --%s", name);
    if (near) jb_err_hint(&e, "did you mean --%s?", near);
    else jb_err_hint(&e, "see " JB_PROGRAM "%s%s --help", c->verb ? " " : "", c->verb ? c->verb->name : "");
    return jb_cli_fail_as(c, JB_EXIT_USAGE, &e);
}

static int unknown_verb(struct scan *s, const char *word)
{
    const char *names[64];
    size_t n = 0;
    for (size_t i = 0; i < s->verb_count && n < 64; i++) names[n++] = s->verbs[i]->name;
    return jb_cli_unknown(s->c, "command", word, names, n);
}

int jb_cli_unknown(jb_cli *c, const char *what, const char *word, const char *const *names, size_t count)
{
    jb_error e = JB_ERROR_INIT;
    jb_buf list = JB_BUF_INIT(200), safe = JB_BUF_INIT(1024);
    const char *near = jb_text_nearest(word, names, count);
    for (size_t i = 0; i < count; i++) jb_buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
    jb_text_escape(&safe, word, strnlen(word, 80), 0);
    jb_err(&e, JB_EINVAL, "unknown %s \"%s\"", what, safe.ptr ? safe.ptr : "");
    if (near) jb_err_hint(&e, "did you mean \"%s\"?", near);
    else jb_err_hint(&e, "known: %s", list.ptr ? list.ptr : "none");
    jb_buf_free(&list);
    jb_buf_free(&safe);
    return jb_cli_fail_as(c, JB_EXIT_USAGE, &e);
}

/* ---- values --------------------------------------------------------------------- */

static int check_value(jb_cli *c, const jb_cli_option *o, const char *text)
{
    int64_t n;
    if (o->type == JB_CLI_INT && (jb_text_i64(text, &n) || n < 0))
        return jb_cli_usage(c, "--%s must be a whole number of at least 0, not \"%.80s\"", o->name, text);
    if (o->type != JB_CLI_ENUM) return 0;
    size_t count = 0;
    for (; o->choices[count]; count++)
        if (!strcmp(o->choices[count], text)) return 0;
    char what[80];
    snprintf(what, sizeof what, "value of --%s", o->name);
    return jb_cli_unknown(c, what, text, o->choices, count);
}

static void set_global(struct scan *s, const jb_cli_option *o, const char *text)
{
    jb_cli *c = s->c;
    switch (o->name[0]) {
    case 'h': s->g.help = 1; break;
    case 'd': s->g.directory = text; break;
    case 'q': c->quiet = 1; break;
    case 'c': s->g.color = text; break;
    case 'j': c->json = 1; break;
    case 'l': s->g.level = text; break;
    case 'n': c->no_input = 1; break;
    default:
        if (o->letter == 'V') s->g.version = 1;
        else c->verbose++;
    }
}

static int set_value(struct scan *s, const jb_cli_option *o, const char *text, int global)
{
    jb_cli *c = s->c;
    int status = text ? check_value(c, o, text) : 0;
    if (status) return status;
    if (global) {
        set_global(s, o, text);
        return 0;
    }
    c->values[c->value_count++] = (struct jb_cli_value){ o, text };
    return 0;
}

/* The value of an option that needs one: what follows it, or the next word. */
static int take_value(struct scan *s, const jb_cli_option *o, const char *attached, int global)
{
    if (attached) return set_value(s, o, attached, global);
    if (s->at >= s->argc) return jb_cli_usage(s->c, "--%s needs a value (%s)", o->name, o->arg);
    return set_value(s, o, s->argv[s->at++], global);
}

/* ---- words ------------------------------------------------------------------------ */

static int long_option(struct scan *s, const char *word)
{
    const char *equals = strchr(word, '=');
    size_t len = equals ? (size_t)(equals - word) : strlen(word);
    int global;
    const jb_cli_option *o = lookup(s->c, word, len, 0, &global);
    if (!o) return unknown_option(s->c, word, len);
    if (o->type != JB_CLI_FLAG) return take_value(s, o, equals ? equals + 1 : NULL, global);
    if (equals) return jb_cli_usage(s->c, "--%s takes no value", o->name);
    return set_value(s, o, NULL, global);
}

static int short_options(struct scan *s, const char *word)
{
    for (const char *p = word; *p; p++) {
        int global;
        const jb_cli_option *o = lookup(s->c, "", 0, *p, &global);
        if (!o) return jb_cli_usage(s->c, "unknown option -%c", *p >= ' ' && *p < 127 ? *p : '?');
        if (o->type != JB_CLI_FLAG) return take_value(s, o, p[1] ? p + 1 : NULL, global);
        int status = set_value(s, o, NULL, global);
        if (status) return status;
    }
    return 0;
}

static int word(struct scan *s, const char *w)
{
    jb_cli *c = s->c;
    if (!s->options_ended && w[0] == '-' && w[1]) {
        if (w[1] != '-') return short_options(s, w + 1);
        if (w[2]) return long_option(s, w + 2);
        s->options_ended = 1;
        return 0;
    }
    if (c->verb) {
        c->argv[c->argc++] = w;
        return 0;
    }
    for (size_t i = 0; i < s->verb_count; i++)
        if (!strcmp(s->verbs[i]->name, w)) {
            c->verb = s->verbs[i];
            return 0;
        }
    if (!strcmp(w, "help")) { /* `jaxbench help run` */
        s->g.help = 1;
        return 0;
    }
    return unknown_verb(s, w);
}

static int check_count(jb_cli *c)
{
    const jb_cli_verb *v = c->verb;
    if (c->argc < v->min_args) return jb_cli_usage(c, "%s needs %s", v->name, v->usage);
    if (v->max_args >= 0 && c->argc > v->max_args) return jb_cli_usage(c, "unexpected argument \"%.80s\"", c->argv[v->max_args]);
    return 0;
}

/* Values of one option side by side, each option's in the order given, so that
 * a list is a slice. */
static void group_values(jb_cli *c)
{
    for (size_t i = 1; i < c->value_count; i++) {
        struct jb_cli_value v = c->values[i];
        size_t to = i;
        for (size_t k = 0; k < i; k++)
            if (c->values[k].option == v.option) to = k + 1;
        memmove(&c->values[to + 1], &c->values[to], (i - to) * sizeof v);
        c->values[to] = v;
    }
    for (size_t i = 0; i < c->value_count; i++) c->texts[i] = c->values[i].text;
}

/* ---- the whole --------------------------------------------------------------------- */

/* --color beats NO_COLOR (no-color.org: set and not empty), which beats the terminal. */
static void decide_color(jb_cli *c, const struct globals *g)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");
    int fd = fileno(c->out);
    c->color = fd >= 0 && isatty(fd) && !(no && *no) && !(term && !strcmp(term, "dumb"));
    if (g->color && strcmp(g->color, "auto")) c->color = !strcmp(g->color, "always");
    if (c->json) c->color = 0;
}

static void decide_level(jb_cli *c, const struct globals *g)
{
    c->log_level = c->quiet ? 4 : c->verbose ? JB_LOG_DEBUG : JB_LOG_WARN;
    for (uint32_t i = 0; g->level && LEVELS[i]; i++)
        if (!strcmp(LEVELS[i], g->level)) c->log_level = i + 1;
}

static int dispatch(struct scan *s)
{
    jb_cli *c = s->c;
    decide_color(c, &s->g);
    decide_level(c, &s->g);
    if (s->g.version) {
        fprintf(c->out, JB_PROGRAM " " JB_VERSION "\n");
        return 0;
    }
    if (s->g.help) {
        if (c->verb) jb_cli_help_verb(c, c->verb);
        else jb_cli_help(c, s->verbs, s->verb_count);
        return 0;
    }
    if (!c->verb) {
        FILE *out = c->out;
        c->out = c->err;
        jb_cli_help(c, s->verbs, s->verb_count);
        c->out = out;
        return JB_EXIT_USAGE;
    }
    int status = check_count(c);
    if (!status && s->g.directory && chdir(s->g.directory)) {
        jb_error e = JB_ERROR_INIT;
        jb_err(&e, JB_ENOTFOUND, "can't work in %.200s: no such folder, or not allowed", s->g.directory);
        return jb_cli_fail_as(c, JB_EXIT_USAGE, &e);
    }
    return status ? status : c->verb->run(c);
}

/* A result that didn't reach its reader is no success. */
static int flush(jb_cli *c, int status)
{
    int failed = fflush(c->out) != 0 || ferror(c->out);
    if (failed && status == 0) fprintf(c->err, JB_PROGRAM ": error: can't write the output [io]\n");
    return failed && status == 0 ? JB_EXIT_INTERNAL : status;
}

int jb_cli_main(int argc, char **argv, const jb_cli_verb *const *verbs, size_t count, FILE *out, FILE *err)
{
    jb_cli c = { .out = out, .err = err, .verbs = verbs, .verb_count = count, .command_argc = argc, .command_argv = argv };
    struct scan s = { .c = &c, .verbs = verbs, .verb_count = count, .argv = argv, .argc = argc, .at = 1 };
    size_t room = argc > 0 ? (size_t)argc : 1;
    int status = 0;
    for (int i = 1; i < argc && strcmp(argv[i], "--"); i++) c.json |= !strcmp(argv[i], "--json"); /* so that early errors have their form */
    c.argv = jb_alloc_array(room, sizeof *c.argv);
    /* -abc is one word and up to strlen flags; every one may be a value. */
    for (int i = 1; i < argc; i++) room += argv[i][0] == '-' && argv[i][1] != '-' ? strlen(argv[i]) : 0;
    c.values = jb_alloc_array(room, sizeof *c.values);
    c.texts = jb_alloc_array(room, sizeof *c.texts);
    if (!c.argv || !c.values || !c.texts) {
        fprintf(err, JB_PROGRAM ": error: out of memory [no-memory]\n");
        status = JB_EXIT_INTERNAL;
    }
    while (!status && s.at < argc) status = word(&s, argv[s.at++]);
    if (!status) group_values(&c);
    if (!status) status = dispatch(&s);
    status = flush(&c, status);
    jb_registry_free(c.registry);
    if (c.have_layout) jb_layout_free(&c.layout);
    jb_free(c.argv);
    jb_free(c.values);
    jb_free(c.texts);
    return status;
}

/* ---- what verbs ask ------------------------------------------------------------------ */

int jb_cli_flag(const jb_cli *c, const char *name)
{
    for (size_t i = 0; i < c->value_count; i++)
        if (!strcmp(c->values[i].option->name, name)) return 1;
    return 0;
}

const char *jb_cli_text(const jb_cli *c, const char *name, const char *def)
{
    for (size_t i = c->value_count; i-- > 0;)
        if (!strcmp(c->values[i].option->name, name)) return c->values[i].text;
    return def;
}

int64_t jb_cli_i64(const jb_cli *c, const char *name, int64_t def)
{
    const char *text = jb_cli_text(c, name, NULL);
    int64_t n;
    return text && !jb_text_i64(text, &n) ? n : def;
}

const char *const *jb_cli_list(const jb_cli *c, const char *name, size_t *count_out)
{
    size_t first = 0;
    while (first < c->value_count && strcmp(c->values[first].option->name, name)) first++;
    *count_out = 0;
    for (size_t i = first; i < c->value_count && !strcmp(c->values[i].option->name, name); i++) (*count_out)++;
    return *count_out ? c->texts + first : NULL;
}

const jb_layout *jb_cli_layout(jb_cli *c, jb_error *err)
{
    if (!c->have_layout && jb_layout_find(&c->layout, err) == 0) c->have_layout = 1;
    return c->have_layout ? &c->layout : NULL;
}

const jb_registry *jb_cli_registry(jb_cli *c, jb_error *err)
{
    const jb_layout *l = jb_cli_layout(c, err);
    if (l && !c->registry) jb_registry_open(l->plugins, &c->registry, err);
    return c->registry;
}
