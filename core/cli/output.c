/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/output.c - the forms of what the program says: errors for people and
 * for programs, JSON documents, tables.  Text that came from elsewhere (a file's
 * name, a plugin's words) is escaped before it reaches a terminal. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <stdarg.h>
#include <string.h>

/* ---- errors ------------------------------------------------------------------- */

static const struct { int code, exit; } EXITS[] = {
    { JB_EINVAL, JB_EXIT_USAGE },     { JB_ENOTFOUND, JB_EXIT_USAGE },    { JB_EPARSE, JB_EXIT_USAGE },
    { JB_EEXIST, JB_EXIT_USAGE },     { JB_EUNSUPPORTED, JB_EXIT_USAGE }, { JB_EPERM, JB_EXIT_USAGE },
    { JB_EABI, JB_EXIT_USAGE },       { JB_EBUDGET, JB_EXIT_BUDGET },     { JB_ECANCELLED, 130 },
};

int jb_cli_exit_of(const jb_error *err)
{
    if (err->flags & JB_ERR_USER) return JB_EXIT_USAGE;
    if (err->flags & JB_ERR_BUG) return JB_EXIT_INTERNAL;
    for (size_t i = 0; i < sizeof EXITS / sizeof *EXITS; i++)
        if (EXITS[i].code == err->code) return EXITS[i].exit;
    return JB_EXIT_INTERNAL;
}

static int error_json(jb_cli *c, const jb_error *err)
{
    jb_buf text = JB_BUF_INIT(8192);
    cJSON *o = cJSON_CreateObject();
    int status = o ? jb_json_set_str(o, "code", jb_err_name(err->code)) : JB_ENOMEM;
    if (!status) status = jb_json_set_view(o, "message", (jb_view){ err->message, strlen(err->message) });
    if (!status) status = jb_json_set_view(o, "hint", (jb_view){ err->hint, strlen(err->hint) });
    if (!status && err->where[0]) status = jb_json_set_view(o, "where", (jb_view){ err->where, strlen(err->where) });
    if (!status) status = jb_json_set_bool(o, "retryable", (err->flags & JB_ERR_RETRYABLE) != 0);
    if (!status) status = jb_json_print(o, &text);
    if (!status) fprintf(c->err, "%s\n", text.ptr);
    cJSON_Delete(o);
    jb_buf_free(&text);
    return status;
}

int jb_cli_fail_as(jb_cli *c, int exit_code, const jb_error *err)
{
    jb_buf text = JB_BUF_INIT(16384);
    fflush(c->out);
    if (c->json && error_json(c, err) == 0) return exit_code;
    jb_buf_printf(&text, JB_PROGRAM ": error: ");
    if (err->where[0]) {
        jb_text_escape(&text, err->where, strlen(err->where), 0);
        jb_buf_puts(&text, ": ");
    }
    jb_text_escape(&text, err->message, strlen(err->message), 1);
    jb_buf_printf(&text, " [%s]\n", jb_err_name(err->code));
    if (err->hint[0]) {
        jb_buf_puts(&text, "  hint: ");
        jb_text_escape(&text, err->hint, strlen(err->hint), 1);
        jb_buf_puts(&text, "\n");
    }
    fputs(text.status || !text.ptr ? JB_PROGRAM ": error: out of memory [no-memory]\n" : text.ptr, c->err);
    jb_buf_free(&text);
    return exit_code;
}

int jb_cli_fail(jb_cli *c, const jb_error *err) { return jb_cli_fail_as(c, jb_cli_exit_of(err), err); }

int jb_cli_usage(jb_cli *c, const char *fmt, ...)
{
    jb_error e = JB_ERROR_INIT;
    char message[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    jb_err(&e, JB_EINVAL, "%s", message);
    jb_err_hint(&e, "see " JB_PROGRAM "%s%s --help", c->verb ? " " : "", c->verb ? c->verb->name : "");
    return jb_cli_fail_as(c, JB_EXIT_USAGE, &e);
}

void jb_cli_warn(jb_cli *c, const char *fmt, ...)
{
    char message[600];
    jb_buf text = JB_BUF_INIT(4096);
    va_list ap;
    if (c->quiet) return;
    va_start(ap, fmt);
    vsnprintf(message, sizeof message, fmt, ap);
    va_end(ap);
    jb_text_escape(&text, message, strlen(message), 0);
    fprintf(c->err, JB_PROGRAM ": warning: %s\n", text.ptr ? text.ptr : "");
    jb_buf_free(&text);
}

/* ---- JSON ---------------------------------------------------------------------- */

int jb_cli_print_json(jb_cli *c, const cJSON *o)
{
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    jb_error e = JB_ERROR_INIT;
    int status = o ? jb_json_print_pretty(o, &text) : JB_ENOMEM, code = 0;
    if (status) {
        jb_err(&e, JB_ENOMEM, "out of memory printing JSON");
        code = jb_cli_fail(c, &e);
    } else {
        fputs(text.ptr, c->out);
        if (text.len && text.ptr[text.len - 1] != '\n') fputc('\n', c->out);
    }
    jb_buf_free(&text);
    return code;
}

/* ---- styles and tables ------------------------------------------------------------ */

const char *jb_cli_style(const jb_cli *c, char style)
{
    static const struct { char style; const char *code; } CODES[] = {
        { '0', "\033[0m" }, { 'b', "\033[1m" }, { 'd', "\033[2m" }, { 'r', "\033[31m" }, { 'g', "\033[32m" }, { 'y', "\033[33m" },
    };
    for (size_t i = 0; c->color && i < sizeof CODES / sizeof *CODES; i++)
        if (CODES[i].style == style) return CODES[i].code;
    return "";
}

struct jb_cli_table {
    size_t columns, count, cap;
    char **cells; /* row by row, the heads first */
    size_t *widths;
    int failed;
};

/* Characters, not bytes: continuation bytes don't move the cursor. */
static size_t width_of(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0u) != 0x80u;
    return n;
}

static char *escaped(const char *s)
{
    jb_buf b = JB_BUF_INIT(1u << 16);
    jb_text_escape(&b, s, strlen(s), 0);
    char *out = jb_buf_detach(&b);
    jb_buf_free(&b);
    return out;
}

jb_cli_table *jb_cli_table_new(size_t columns, const char *const *heads)
{
    jb_cli_table *t = jb_alloc(sizeof *t);
    if (!t) return NULL;
    t->columns = columns;
    t->widths = jb_alloc_array(columns, sizeof *t->widths);
    if (!t->widths) {
        jb_free(t);
        return NULL;
    }
    jb_cli_table_row(t, heads);
    return t;
}

void jb_cli_table_row(jb_cli_table *t, const char *const *cells)
{
    if (t->failed) return;
    if (t->count + t->columns > t->cap) {
        size_t cap = t->cap ? 2 * t->cap : 16 * t->columns;
        char **more = jb_realloc(t->cells, cap * sizeof *more);
        if (!more) {
            t->failed = 1;
            return;
        }
        t->cells = more;
        t->cap = cap;
    }
    for (size_t i = 0; i < t->columns && !t->failed; i++) {
        char *text = escaped(cells[i] ? cells[i] : "");
        if (!text) {
            t->failed = 1;
            return;
        }
        t->cells[t->count++] = text;
        if (width_of(text) > t->widths[i]) t->widths[i] = width_of(text);
    }
}

void jb_cli_table_free(jb_cli_table *t)
{
    if (!t) return;
    for (size_t i = 0; i < t->count; i++) jb_free(t->cells[i]);
    jb_free(t->cells);
    jb_free(t->widths);
    jb_free(t);
}

int jb_cli_table_print(jb_cli_table *t, jb_cli *c)
{
    if (!t) return JB_ENOMEM;
    int failed = t->failed;
    for (size_t i = 0; i < t->count && !failed; i++) {
        size_t column = i % t->columns, pad = t->widths[column] - width_of(t->cells[i]);
        int last = column + 1 == t->columns, head = i < t->columns;
        fprintf(c->out, "%s%s%s%*s%s", head ? jb_cli_style(c, 'b') : "", t->cells[i], head ? jb_cli_style(c, '0') : "",
                last ? 0 : (int)pad, "", last ? "\n" : "  ");
    }
    jb_cli_table_free(t);
    return failed ? JB_ENOMEM : 0;
}
