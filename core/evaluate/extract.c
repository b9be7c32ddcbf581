/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/extract.c - see extract.h.
 *
 * One pass over lines with a small machine: outside, or in a block that remembers
 * its fence.  Inside a block a lexer of a dozen lines follows triple-quoted
 * strings, so that a docstring with a fence in it does not end the block and a
 * `def workload` inside one does not count.  When such a string never ends the
 * lexer was misled (prose in a text block, broken code): in a second pass every
 * closing fence closes. */
#include "core/evaluate/extract.h"

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <string.h>

#define MAX_NESTING 4 /* ````markdown around ```markdown around ...; deeper is taken as it stands */

/* ---- lines ---------------------------------------------------------------- */

typedef struct line {
    size_t begin, end, next; /* [begin,end) without the LF; next starts the following line */
} line;

static int line_at(const char *text, size_t len, size_t at, line *out)
{
    if (at >= len) return 0;
    const char *lf = memchr(text + at, '\n', len - at);
    out->begin = at;
    out->end = lf ? (size_t)(lf - text) : len;
    out->next = lf ? out->end + 1 : len;
    return 1;
}

static size_t indent_of(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t')) i++;
    return i;
}

static int is_blank(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != ' ' && p[i] != '\t' && p[i] != '\n') return 0;
    return 1;
}

/* ---- fences --------------------------------------------------------------- */

typedef struct fence {
    char sign;       /* '`' or '~' */
    size_t length;   /* how many */
    size_t indent;
    size_t info, info_len; /* offset in the line */
} fence;

/* 1 when the line can open a block. */
static int fence_opens(const char *p, size_t n, fence *f)
{
    size_t i = indent_of(p, n);
    if (i >= n || (p[i] != '`' && p[i] != '~')) return 0;
    f->sign = p[i];
    f->indent = i;
    size_t j = i;
    while (j < n && p[j] == f->sign) j++;
    f->length = j - i;
    if (f->length < 3) return 0;
    /* An info string with a backtick is inline code that starts a line. */
    if (f->sign == '`' && memchr(p + j, '`', n - j)) return 0;
    while (j < n && (p[j] == ' ' || p[j] == '\t')) j++;
    while (n > j && (p[n - 1] == ' ' || p[n - 1] == '\t')) n--;
    f->info = j;
    f->info_len = n - j;
    return 1;
}

static int fence_closes(const char *p, size_t n, const fence *open)
{
    size_t i = indent_of(p, n), j = i;
    if (i > open->indent + 3) return 0;
    while (j < n && p[j] == open->sign) j++;
    return j - i >= open->length && is_blank(p + j, n - j);
}

/* ---- triple-quoted strings -------------------------------------------------- */

/* Advance over one line of Python-like text; returns the quote sign of the
 * triple-quoted string the line ends in, or 0.  Single-quoted strings and
 * comments end with the line. */
static char string_after(const char *p, size_t n, char in)
{
    for (size_t i = 0; i < n;) {
        char c = p[i];
        if (in) {
            if (c == '\\') i += 2;
            else if (c == in && i + 2 < n && p[i + 1] == in && p[i + 2] == in) { in = 0; i += 3; }
            else i++;
        } else if (c == '#') {
            break;
        } else if (c == '"' || c == '\'') {
            if (i + 2 < n && p[i + 1] == c && p[i + 2] == c) {
                in = c;
                i += 3;
            } else {
                for (i++; i < n && p[i] != c; i++)
                    if (p[i] == '\\') i++;
                i++;
            }
        } else {
            i++;
        }
    }
    return in;
}

static int is_name_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80);
}

/* Does this line, at column 0, define `entry`?  `def entry`, `entry =`, `entry: T =`. */
static int line_defines(const char *p, size_t n, const char *entry)
{
    size_t e = strlen(entry), i = 0;
    int def = 0;
    if (n > 4 && memcmp(p, "def", 3) == 0 && (p[3] == ' ' || p[3] == '\t')) {
        def = 1;
        i = 3 + indent_of(p + 3, n - 3);
    }
    if (n - i < e || memcmp(p + i, entry, e) != 0) return 0;
    i += e;
    if (i < n && is_name_byte(p[i])) return 0;
    i += indent_of(p + i, n - i);
    if (def) return i < n && (p[i] == '(' || p[i] == '[' || p[i] == '\\');
    if (i < n && p[i] == ':') { /* annotated: the value follows a lone = */
        const char *eq = memchr(p + i, '=', n - i);
        return eq != NULL;
    }
    return i < n && p[i] == '=' && !(i + 1 < n && p[i + 1] == '=');
}

/* ---- the scan --------------------------------------------------------------- */

typedef struct scan {
    const char *text;
    size_t len;
    const char *entry;
    int follow_strings; /* closing fences inside triple-quoted strings do not close */
    int misled;         /* a string ran to the end of the text */
    int unclosed;       /* the last block has no closing fence and is not blank */
    jb_extract *out;
} scan;

static int block_push(jb_extract *x, const jb_block *b)
{
    int wanted = b->closed && b->defines;
    x->blocks_seen++;
    if (x->block_count == JB_EXTRACT_MAX_BLOCKS) {
        /* Beyond the cap only a block that may be chosen is kept, in the last slot. */
        if (!wanted) return 0;
        x->block_count--;
    }
    if ((x->block_count & (x->block_count - 1)) == 0) {
        size_t cap = x->block_count ? 2 * x->block_count : 1;
        jb_block *grown = jb_realloc(x->blocks, cap * sizeof *grown);
        if (!grown) return JB_ENOMEM;
        x->blocks = grown;
    }
    x->blocks[x->block_count++] = *b;
    if (wanted) x->chosen = (int64_t)x->block_count - 1;
    return 0;
}

static void copy_info(jb_block *b, const char *info, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n && k + 1 < sizeof b->info; i++)
        b->info[k++] = info[i] > 0x20 && info[i] < 0x7f ? info[i] : ' ';
    b->info[k] = 0;
}

/* Scan one block whose opener ended at `at`; *at moves behind its closer. */
static int scan_block(scan *s, const fence *open, const char *info, size_t *at)
{
    jb_block b = { .begin = *at, .end = s->len, .indent = open->indent };
    copy_info(&b, info, open->info_len);
    char in = 0;
    line l;
    size_t pos = *at;
    *at = s->len;
    while (line_at(s->text, s->len, pos, &l)) {
        const char *p = s->text + l.begin;
        size_t n = l.end - l.begin;
        if (!(in && s->follow_strings) && fence_closes(p, n, open)) {
            b.end = l.begin;
            b.closed = 1;
            *at = l.next;
            break;
        }
        size_t cut = indent_of(p, n);
        if (cut > open->indent) cut = open->indent;
        if (!in && line_defines(p + cut, n - cut, s->entry)) b.defines = 1;
        in = string_after(p, n, in);
        pos = l.next;
    }
    if (!b.closed && in) s->misled = 1;
    if (!b.closed && !is_blank(s->text + b.begin, b.end - b.begin)) s->unclosed = 1;
    return block_push(s->out, &b);
}

static int scan_range(scan *s, size_t from)
{
    line l;
    for (size_t at = from; line_at(s->text, s->len, at, &l);) {
        fence f;
        at = l.next;
        if (!fence_opens(s->text + l.begin, l.end - l.begin, &f)) continue;
        int rc = scan_block(s, &f, s->text + l.begin + f.info, &at);
        if (rc != 0) return rc;
    }
    return 0;
}

static int is_markdown(const char *info)
{
    return strncmp(info, "md", 2) == 0 || strncmp(info, "markdown", 8) == 0;
}

static void forget_blocks(jb_extract *x)
{
    x->block_count = x->blocks_seen = 0;
    x->chosen = -1;
}

/* Both passes over [from, s->len); a chosen block of Markdown is entered. */
static int scan_text(scan *s, size_t from, int depth)
{
    for (int follow = 1; follow >= 0; follow--) {
        forget_blocks(s->out);
        s->follow_strings = follow;
        s->misled = s->unclosed = 0;
        int rc = scan_range(s, from);
        if (rc != 0) return rc;
        if (!s->misled && s->out->chosen >= 0) break;
    }
    if (s->out->chosen < 0 || depth == MAX_NESTING) return 0;
    jb_block outer = s->out->blocks[s->out->chosen];
    if (!is_markdown(outer.info)) return 0;
    scan inner = *s;
    inner.len = outer.end;
    int rc = scan_text(&inner, outer.begin, depth + 1);
    if (rc == 0 && s->out->chosen < 0) { /* nothing better inside: the block itself */
        forget_blocks(s->out);
        rc = block_push(s->out, &outer);
    }
    return rc;
}

/* ---- text in, source out ------------------------------------------------------ */

/* A copy with CRLF and CR as LF, as Python's own reader does, and no BOM. */
static int normalise(jb_view in, jb_extract *x)
{
    const char *p = in.ptr;
    size_t n = (size_t)in.len, k = 0;
    if (n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) { p += 3; n -= 3; }
    x->text = jb_alloc(n + 1);
    if (!x->text) return JB_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (p[i] == '\r') {
            x->text[k++] = '\n';
            if (i + 1 < n && p[i + 1] == '\n') i++;
        } else {
            x->text[k++] = p[i];
        }
    }
    x->text_len = k;
    return 0;
}

/* The block's lines without the opener's indentation. */
static int dedent(jb_extract *x, const jb_block *b)
{
    x->source = jb_alloc(b->end - b->begin + 1);
    if (!x->source) return JB_ENOMEM;
    line l;
    size_t k = 0;
    for (size_t at = b->begin; at < b->end && line_at(x->text, b->end, at, &l); at = l.next) {
        size_t cut = indent_of(x->text + l.begin, l.end - l.begin);
        if (cut > b->indent) cut = b->indent;
        memcpy(x->source + k, x->text + l.begin + cut, l.next - l.begin - cut);
        k += l.next - l.begin - cut;
    }
    x->source_len = k;
    return 0;
}

/* Is the entry defined outside of every fence?  Only to word the reason. */
static int defined_in_prose(const jb_extract *x, const char *entry)
{
    line l;
    for (size_t at = 0; line_at(x->text, x->text_len, at, &l); at = l.next)
        if (line_defines(x->text + l.begin, l.end - l.begin, entry)) return 1;
    return 0;
}

static void judge(jb_extract *x, uint32_t finish, const char *entry, int unclosed)
{
    if (finish == JB_FINISH_LENGTH) {
        x->outcome = JB_OUTCOME_TRUNCATED;
        snprintf(x->reason, sizeof x->reason, "the reply was cut off at its length limit");
    } else if (unclosed) {
        x->outcome = JB_OUTCOME_TRUNCATED;
        snprintf(x->reason, sizeof x->reason, "the reply ends inside a code block: its fence is never closed");
    } else if (x->chosen >= 0) {
        x->outcome = JB_OUTCOME_OK;
    } else {
        x->outcome = JB_OUTCOME_NO_CODE;
        if (x->blocks_seen == 0 && x->text_len == 0)
            snprintf(x->reason, sizeof x->reason, "the reply is empty");
        else if (x->blocks_seen == 0)
            snprintf(x->reason, sizeof x->reason, "the reply has no fenced code block%s",
                     defined_in_prose(x, entry) ? " (its code stands outside of a fence)" : "");
        else
            snprintf(x->reason, sizeof x->reason, "%zu code block%s, none defines `%.40s` at top level", x->blocks_seen,
                     x->blocks_seen == 1 ? "" : "s", entry);
    }
    if (x->outcome != JB_OUTCOME_OK) x->chosen = -1;
}

int jb_extract_reply(jb_view reply, uint32_t finish, const char *entry, jb_extract *out, jb_error *err)
{
    memset(out, 0, sizeof *out);
    out->chosen = -1;
    if (!entry || !entry[0]) return jb_err(err, JB_EINVAL, "extract: the name of the entry is empty");
    int rc = normalise(reply, out);
    if (rc != 0) goto out;
    scan s = { .text = out->text, .len = out->text_len, .entry = entry, .out = out };
    rc = scan_text(&s, 0, 0);
    if (rc != 0) goto out;
    judge(out, finish, entry, s.unclosed);
    if (out->outcome == JB_OUTCOME_OK) rc = dedent(out, &out->blocks[out->chosen]);
out:
    if (rc != 0) {
        jb_extract_free(out);
        return jb_err(err, rc, "extract: out of memory on a reply of %llu bytes", (unsigned long long)reply.len);
    }
    return 0;
}

int jb_extract_plain(jb_view source, jb_extract *out, jb_error *err)
{
    memset(out, 0, sizeof *out);
    out->chosen = -1;
    int rc = normalise(source, out);
    if (rc == 0) {
        out->source = jb_alloc(out->text_len + 1);
        if (!out->source) rc = JB_ENOMEM;
    }
    if (rc != 0) {
        jb_extract_free(out);
        return jb_err(err, rc, "extract: out of memory on a source of %llu bytes", (unsigned long long)source.len);
    }
    memcpy(out->source, out->text, out->text_len);
    out->source_len = out->text_len;
    out->outcome = JB_OUTCOME_OK;
    return 0;
}

void jb_extract_free(jb_extract *x)
{
    if (!x) return;
    jb_free(x->source);
    jb_free(x->text);
    jb_free(x->blocks);
    memset(x, 0, sizeof *x);
    x->chosen = -1;
}

int jb_source_hash(jb_view source, char out[65])
{
    jb_extract x = { .chosen = -1 };
    int rc = normalise(source, &x);
    if (rc == 0) {
        while (x.text_len > 0 && is_blank(x.text + x.text_len - 1, 1)) x.text_len--;
        rc = jb_hash_bytes(x.text, x.text_len, out);
    }
    jb_extract_free(&x);
    return rc;
}
