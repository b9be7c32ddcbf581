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

#define LARGEST_FILE (1l << 20) /* bytes */

static int bank_fail(jb_error *err, int code, const char *where, int line, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "scripted: %s", text);
    snprintf(err->where, sizeof err->where, "%.100s:%d", where, line);
    return code;
}

char *bank_read(const char *dir, const char *file)
{
    char path[4096], *text = NULL;
    long size = -1;
    if ((size_t)snprintf(path, sizeof path, "%s/%s", dir, file) >= sizeof path) return NULL;
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    if (fseek(f, 0, SEEK_END) == 0) size = ftell(f);
    if (size >= 0 && size <= LARGEST_FILE && fseek(f, 0, SEEK_SET) == 0) text = malloc((size_t)size + 1);
    if (text != NULL) text[fread(text, 1, (size_t)size, f)] = '\0';
    fclose(f);
    return text;
}

/* ---- edits ------------------------------------------------------------------ */

/* Lines of one side of an edit, joined by newlines, without their marks. */
struct lines {
    char text[4096];
    size_t len;
    int cut; /* a line did not fit: the edit can't apply */
};

static void lines_add(struct lines *l, const char *s, size_t n)
{
    l->cut |= l->len + n + 2 > sizeof l->text;
    if (l->cut) return;
    if (l->len > 0) l->text[l->len++] = '\n';
    memcpy(l->text + l->len, s, n);
    l->len += n;
    l->text[l->len] = '\0';
}

/* Does `want` (trimmed lines) start at line `at` of the source?  Returns the end or NULL. */
static const char *match_at(const char *at, const char *want)
{
    while (*want != '\0') {
        size_t n = strcspn(want, "\n");
        while (*at == ' ') at++;
        if (strncmp(at, want, n) != 0 || (at[n] != '\n' && at[n] != '\0')) return NULL;
        at += n;
        want += n + (want[n] == '\n');
        if (*want != '\0' && *at++ != '\n') return NULL;
    }
    return at;
}

/* Replace the one place where `old` stands; *source is replaced.  0, or -1. */
static int apply(char **source, const struct lines *old, const struct lines *new)
{
    const char *begin = NULL, *end = NULL;
    for (const char *line = *source; line != NULL; line = strchr(line, '\n') != NULL ? strchr(line, '\n') + 1 : NULL) {
        const char *stop = match_at(line, old->text);
        if (stop == NULL) continue;
        if (begin != NULL) return -1; /* ambiguous */
        begin = line;
        end = stop;
    }
    if (begin == NULL || old->cut || new->cut) return -1;
    size_t indent = strspn(begin, " "), lines = 1, before = (size_t)(begin - *source), after = strlen(end);
    for (size_t i = 0; i < new->len; i++) lines += new->text[i] == '\n';
    char *out = malloc(before + new->len + lines * indent + after + 1), *o = out;
    if (out == NULL) return -1;
    memcpy(o, *source, before);
    o += before;
    for (const char *s = new->text; *s != '\0';) {
        size_t n = strcspn(s, "\n");
        memset(o, ' ', indent);
        memcpy(o + indent, s, n);
        o += indent + n;
        s += n;
        if (*s != '\0') *o++ = *s++;
    }
    memcpy(o, end, after + 1);
    free(*source);
    *source = out;
    return 0;
}

/* ---- the deck -------------------------------------------------------------------- */

static struct bank_entry *add(struct bank_entry **list, size_t *count)
{
    struct bank_entry *more = realloc(*list, (*count + 1) * sizeof *more);
    if (more == NULL) return NULL;
    *list = more;
    memset(&more[*count], 0, sizeof *more);
    return &more[(*count)++];
}

static int made_by(const char *fault)
{
    static const struct {
        const char *name;
        int made_by;
    } from_reply[] = { { "prose", BANK_PROSE }, { "cut-off", BANK_CUT_OFF }, { "syntax", BANK_SYNTAX } };
    for (size_t i = 0; i < sizeof from_reply / sizeof *from_reply; i++)
        if (strcmp(fault, from_reply[i].name) == 0) return from_reply[i].made_by;
    return BANK_EDIT;
}

/* A "== fault file" line of n bytes.  NULL: no name, or a file that can't be read. */
static struct bank_entry *begin_fault(struct bank *b, const char *dir, const char *line, size_t n)
{
    char name[64] = "", file[128] = "", copy[256];
    snprintf(copy, sizeof copy, "%.*s", (int)(n < sizeof copy ? n : sizeof copy - 1), line);
    if (sscanf(copy, "== %63s %127s", name, file) < 1) return NULL;
    struct bank_entry *f = add(&b->faults, &b->fault_count);
    if (f == NULL) return NULL;
    f->name = strdup(name);
    f->made_by = made_by(name);
    f->from = strdup(file);
    f->source = file[0] != '\0' ? bank_read(dir, file) : NULL;
    return f->name != NULL && f->from != NULL && (f->source != NULL || f->made_by == BANK_PROSE) ? f : NULL;
}

/* Where the deck is read: the fault that is open, and its edit so far. */
struct reader {
    struct bank_entry *fault;
    struct lines old, new;
};

/* Remember the lines that an edit put in. */
static int mark(struct bank_entry *f, const struct lines *new)
{
    size_t had = f->marks != NULL ? strlen(f->marks) : 0;
    char *marks = realloc(f->marks, had + new->len + 2);
    if (marks == NULL) return -1;
    snprintf(marks + had, new->len + 2, "%s%s", had > 0 ? "\n" : "", new->text);
    f->marks = marks;
    return 0;
}

static int end_edit(struct reader *r)
{
    int status = 0;
    if (r->old.len > 0 || r->new.len > 0 || r->old.cut || r->new.cut)
        status = r->old.len == 0 || r->fault == NULL || r->fault->source == NULL ? -1 : apply(&r->fault->source, &r->old, &r->new);
    if (status == 0 && r->new.len > 0) status = mark(r->fault, &r->new);
    r->old = r->new = (struct lines){ .len = 0 };
    return status;
}

/* One line of the deck.  NULL, or what is wrong with it. */
static const char *read_line(struct bank *b, struct reader *r, const char *dir, const char *s, size_t n)
{
    static const char not_once[] = "faults.txt: the edit above this line does not apply exactly once";
    int fault = n >= 2 && strncmp(s, "==", 2) == 0, old = n >= 2 && strncmp(s, "- ", 2) == 0, new = n >= 2 && strncmp(s, "+ ", 2) == 0;
    if ((fault || (old && r->new.len > 0)) && end_edit(r) != 0) return not_once;
    if (fault && (r->fault = begin_fault(b, dir, s, n)) == NULL) return "faults.txt: a fault without a name, or of a file that can't be read";
    if (old) lines_add(&r->old, s + 2, n - 2);
    if (new) lines_add(&r->new, s + 2, n - 2);
    if (n > 0 && !fault && !old && !new) return "faults.txt: a line begins with \"== \", \"- \" or \"+ \"";
    return NULL;
}

static int read_deck(struct bank *b, const char *dir, jb_error *err)
{
    char *text = bank_read(dir, "faults.txt");
    const char *wrong = NULL;
    struct reader r = { .fault = NULL };
    int number = 1;
    if (text == NULL) return bank_fail(err, JB_EIO, dir, 0, "the bank's faults.txt can't be read");
    for (const char *s = text; *s != '\0' && wrong == NULL; number++) {
        size_t n = strcspn(s, "\n");
        wrong = read_line(b, &r, dir, s, n);
        s += n + (s[n] == '\n');
    }
    if (wrong == NULL && end_edit(&r) != 0) wrong = "faults.txt: the last edit does not apply exactly once";
    free(text);
    return wrong != NULL ? bank_fail(err, JB_EPARSE, dir, number - 1, wrong) : 0;
}

static int by_name(const void *a, const void *b) { return strcmp(((const struct bank_entry *)a)->name, ((const struct bank_entry *)b)->name); }

static int read_right(struct bank *b, const char *dir, jb_error *err)
{
    DIR *d = opendir(dir);
    if (d == NULL) return bank_fail(err, errno == ENOENT ? JB_ENOTFOUND : JB_EIO, dir, 0, "the bank has no folder for this workload");
    int status = 0;
    for (const struct dirent *e; status == 0 && (e = readdir(d)) != NULL;) {
        if (strncmp(e->d_name, "right_", 6) != 0) continue;
        struct bank_entry *r = add(&b->right, &b->right_count);
        if (r != NULL) {
            r->name = strdup(e->d_name);
            r->source = bank_read(dir, e->d_name);
        }
        if (r == NULL || r->name == NULL || r->source == NULL) status = bank_fail(err, JB_EIO, dir, 0, "a kernel of the bank can't be read");
    }
    closedir(d);
    if (status == 0 && b->right_count == 0) status = bank_fail(err, JB_EIO, dir, 0, "the bank has no right_*.py for this workload");
    if (status == 0) qsort(b->right, b->right_count, sizeof *b->right, by_name); /* readdir's order is nobody's */
    return status;
}

int bank_open(const char *dir, const char *workload, struct bank **out, jb_error *err)
{
    char path[4096];
    struct bank *b = calloc(1, sizeof *b);
    int status = b != NULL && (b->workload = strdup(workload)) != NULL ? 0 : bank_fail(err, JB_ENOMEM, dir, 0, "out of memory");
    if (status == 0 && (size_t)snprintf(path, sizeof path, "%s/%s", dir, workload) >= sizeof path)
        status = bank_fail(err, JB_EINVAL, dir, 0, "the path of the bank is too long");
    if (status == 0) status = read_right(b, path, err);
    if (status == 0) status = read_deck(b, path, err);
    if (status == 0) *out = b;
    else bank_close(b);
    return status;
}

void bank_close(struct bank *b)
{
    if (b == NULL) return;
    for (size_t i = 0; i < b->right_count; i++) free(b->right[i].name), free(b->right[i].source);
    for (size_t i = 0; i < b->fault_count; i++) free(b->faults[i].name), free(b->faults[i].source), free(b->faults[i].from), free(b->faults[i].marks);
    free(b->right);
    free(b->faults);
    free(b->workload);
    free(b);
}
