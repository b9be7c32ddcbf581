/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/bank.c - reads the bank and applies the edits that
 * turn a right kernel into a faulty one.
 *
 * faults.txt, in the order in which the deck deals them:
 *     == <fault> [<file it is made from>]
 *     - a line to be found (the next "- " lines follow it directly)
 *     + what stands there instead, at the same indentation
 * An edit must match exactly once: a bank that has drifted is an error, not a
 * right kernel under the name of a fault. */
#include "bank.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX (1u << 20)

static int bank_fail(jb_error *err, int code, const char *where, int line, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "%s", text);
    snprintf(err->where, sizeof err->where, "%.100s:%d", where, line);
    return code;
}

char *bank_read(const char *dir, const char *file)
{
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) >= sizeof path) return NULL;
    FILE *f = fopen(path, "rbe");
    char *text = f ? malloc(FILE_MAX + 1) : NULL;
    if (text) {
        size_t n = fread(text, 1, FILE_MAX, f);
        text[n] = '\0';
    }
    if (f) fclose(f);
    return text;
}

/* ---- edits ------------------------------------------------------------------ */

/* Lines of an edit block, joined by newlines, without their marks. */
struct lines { char text[4096]; size_t len; };

static void lines_add(struct lines *l, const char *s, size_t n)
{
    if (l->len + n + 2 > sizeof l->text) return; /* then it will not match, and that is an error */
    if (l->len) l->text[l->len++] = '\n';
    memcpy(l->text + l->len, s, n);
    l->len += n;
    l->text[l->len] = '\0';
}

/* Does `want` (trimmed lines) start at line `at` of the source?  Returns the end or NULL. */
static const char *match_at(const char *at, const char *want)
{
    while (*want) {
        size_t n = strcspn(want, "\n");
        while (*at == ' ') at++;
        if (strncmp(at, want, n) || (at[n] != '\n' && at[n] != '\0')) return NULL;
        at += n;
        want += n + (want[n] == '\n');
        if (*want && *at++ != '\n') return NULL;
    }
    return at;
}

/* Replace the one place where `old` stands; *source is replaced.  0, or -1. */
static int apply(char **source, const struct lines *old, const struct lines *new)
{
    const char *begin = NULL, *end = NULL;
    for (const char *line = *source; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        const char *stop = match_at(line, old->text);
        if (!stop) continue;
        if (begin) return -1; /* ambiguous */
        begin = line;
        end = stop;
    }
    if (!begin) return -1;
    size_t indent = strspn(begin, " "), lines = 1;
    for (size_t i = 0; i < new->len; i++) lines += new->text[i] == '\n';
    char *out = malloc(strlen(*source) + new->len + lines * indent + 1), *o = out;
    if (!out) return -1;
    memcpy(o, *source, (size_t)(begin - *source));
    o += begin - *source;
    for (const char *s = new->text; *s;) {
        size_t n = strcspn(s, "\n");
        memset(o, ' ', indent);
        memcpy(o + indent, s, n);
        o += indent + n;
        s += n;
        if (*s) *o++ = *s++;
    }
    strcpy(o, end);
    free(*source);
    *source = out;
    return 0;
}

/* ---- the deck -------------------------------------------------------------------- */

static struct bank_entry *add(struct bank_entry **list, size_t *count)
{
    struct bank_entry *more = realloc(*list, (*count + 1) * sizeof *more);
    if (!more) return NULL;
    *list = more;
    memset(&more[*count], 0, sizeof *more);
    return &more[(*count)++];
}

/* A "== fault file" line. */
static struct bank_entry *begin_fault(struct bank *b, const char *dir, const char *line, size_t n)
{
    char name[64] = "", file[128] = "";
    char copy[256];
    snprintf(copy, sizeof copy, "%.*s", (int)(n < 250 ? n : 250), line);
    if (sscanf(copy, "== %63s %127s", name, file) < 1) return NULL;
    struct bank_entry *f = add(&b->faults, &b->fault_count);
    if (!f) return NULL;
    f->name = strdup(name);
    f->made_by = !strcmp(name, "prose") ? BANK_PROSE : !strcmp(name, "cut-off") ? BANK_CUT_OFF : !strcmp(name, "syntax") ? BANK_SYNTAX : BANK_EDIT;
    f->source = *file ? bank_read(dir, file) : NULL;
    return f->name && (f->source || f->made_by == BANK_PROSE) ? f : NULL;
}

static int read_deck(struct bank *b, const char *dir, jb_error *err)
{
    char *text = bank_read(dir, "faults.txt");
    if (!text) return bank_fail(err, JB_ENOTFOUND, dir, 0, "the bank has no faults.txt");
    struct bank_entry *fault = NULL;
    struct lines old = { "", 0 }, new = { "", 0 };
    int number = 0, status = 0;
    for (const char *s = text; !status; number++) {
        size_t n = strcspn(s, "\n");
        int more = *s != '\0', edit = old.len > 0 && (!more || !strncmp(s, "==", 2) || (*s == '-' && new.len > 0));
        if (edit) {
            if (!fault || !fault->source || apply(&fault->source, &old, &new)) status = bank_fail(err, JB_EPARSE, dir, number, "faults.txt: the edit above does not apply exactly once");
            old.len = new.len = 0;
            old.text[0] = new.text[0] = '\0';
        }
        if (!more || status) break;
        if (!strncmp(s, "== ", 3) && !(fault = begin_fault(b, dir, s, n))) status = bank_fail(err, JB_EPARSE, dir, number + 1, "faults.txt: a fault without a file that can be read");
        else if (!strncmp(s, "- ", 2)) lines_add(&old, s + 2, n - 2);
        else if (!strncmp(s, "+ ", 2)) lines_add(&new, s + 2, n - 2);
        s += n + (s[n] == '\n');
    }
    free(text);
    return status;
}

static int by_name(const void *a, const void *b) { return strcmp(((const struct bank_entry *)a)->name, ((const struct bank_entry *)b)->name); }

static int read_right(struct bank *b, const char *dir, jb_error *err)
{
    DIR *d = opendir(dir);
    if (!d) return bank_fail(err, errno == ENOENT ? JB_ENOTFOUND : JB_EIO, dir, 0, "the bank has no folder for this workload");
    int status = 0;
    for (struct dirent *e; !status && (e = readdir(d));) {
        if (strncmp(e->d_name, "right_", 6)) continue;
        struct bank_entry *r = add(&b->right, &b->right_count);
        if (r) {
            r->name = strdup(e->d_name);
            r->source = bank_read(dir, e->d_name);
        }
        if (!r || !r->name || !r->source) status = bank_fail(err, JB_EIO, dir, 0, "a kernel of the bank can't be read");
    }
    closedir(d);
    if (!status && !b->right_count) status = bank_fail(err, JB_ENOTFOUND, dir, 0, "the bank has no right kernel for this workload");
    if (!status) qsort(b->right, b->right_count, sizeof *b->right, by_name); /* readdir's order is nobody's */
    return status;
}

int bank_open(const char *dir, const char *workload, struct bank **out, jb_error *err)
{
    char path[4096];
    struct bank *b = calloc(1, sizeof *b);
    if (!b || !(b->workload = strdup(workload))) {
        free(b);
        return bank_fail(err, JB_ENOMEM, dir, 0, "out of memory");
    }
    int status = (size_t)snprintf(path, sizeof path, "%s/%s", dir, workload) < sizeof path ? read_right(b, path, err) : JB_EINVAL;
    if (!status) status = read_deck(b, path, err);
    if (status) {
        bank_close(b);
        return status;
    }
    *out = b;
    return 0;
}

void bank_close(struct bank *b)
{
    if (!b) return;
    for (size_t i = 0; i < b->right_count; i++) free(b->right[i].name), free(b->right[i].source);
    for (size_t i = 0; i < b->fault_count; i++) free(b->faults[i].name), free(b->faults[i].source);
    free(b->right);
    free(b->faults);
    free(b->workload);
    free(b);
}
