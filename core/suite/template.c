/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/template.c - see template.h. */
#include "core/suite/template.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/text.h"

#include <string.h>

#define MAX_TEMPLATE (1u << 20)
#define MAX_KEY 64
#define MAX_KEYS 256

struct render {
    const char *name;
    const jb_view *pairs;
    uint32_t pair_count;
    const cJSON *facts;
    jb_error *err;
};

static int view_is(jb_view v, const char *s) { return v.len == strlen(s) && !memcmp(v.ptr, s, (size_t)v.len); }

static int unknown_key(const struct render *r, const char *key, int line)
{
    char room[MAX_KEYS][MAX_KEY];
    const char *names[MAX_KEYS];
    size_t n = 0;
    const cJSON *i;
    for (uint32_t k = 0; k + 1 < r->pair_count && n < MAX_KEYS; k += 2) {
        if (r->pairs[k].len >= MAX_KEY) continue;
        memcpy(room[n], r->pairs[k].ptr, (size_t)r->pairs[k].len);
        room[n][r->pairs[k].len] = '\0';
        names[n] = room[n];
        n++;
    }
    cJSON_ArrayForEach(i, r->facts)
    {
        if (n < MAX_KEYS) names[n++] = i->string;
    }
    const char *near = jb_text_nearest(key, names, n);
    jb_err(r->err, JB_EINVAL, "the template uses the unknown key {{%s}}", key);
    jb_err_where(r->err, r->name, line);
    if (near) jb_err_hint(r->err, "did you mean {{%s}}?", near);
    else jb_err_hint(r->err, "known keys are the facts of docs/formats.md and what the method gives");
    return JB_EINVAL;
}

/* At `at`, behind a key: the end of its line when the key stood alone on it. */
static int alone(jb_view text, const char *key, const char *at)
{
    return (key == text.ptr || key[-1] == '\n') && at < text.ptr + text.len && *at == '\n';
}

static int put_value(const struct render *r, const char *key, int line, jb_buf *out)
{
    for (uint32_t k = 0; k + 1 < r->pair_count; k += 2)
        if (view_is(r->pairs[k], key)) return jb_buf_append(out, r->pairs[k + 1].ptr, (size_t)r->pairs[k + 1].len);
    const char *fact = jb_json_str(r->facts, key, NULL);
    return fact ? jb_buf_puts(out, fact) : unknown_key(r, key, line);
}

static int broken(const struct render *r, int line, const char *what)
{
    jb_err(r->err, JB_EINVAL, "%s", what);
    jb_err_where(r->err, r->name, line);
    jb_err_hint(r->err, "a key is written {{key}}; two literal braces are written {{{{");
    return JB_EINVAL;
}

/* `at` is behind "{{"; moves past "}}". */
static int read_key(const struct render *r, const char **at, const char *end, int line, char key[MAX_KEY])
{
    const char *s = *at, *stop;
    size_t n = 0;
    while (s < end && *s == ' ') s++;
    stop = s;
    while (stop < end && (strchr("abcdefghijklmnopqrstuvwxyz0123456789_", *stop) && *stop)) stop++;
    n = (size_t)(stop - s);
    if (!n || n >= MAX_KEY) return broken(r, line, "after {{ there is no key of [a-z0-9_]+");
    memcpy(key, s, n);
    key[n] = '\0';
    while (stop < end && *stop == ' ') stop++;
    if (end - stop < 2 || stop[0] != '}' || stop[1] != '}') return broken(r, line, "a {{key doesn't end in }}");
    *at = stop + 2;
    return 0;
}

int jb_template_render(const char *name, jb_view text, const jb_view *pairs, uint32_t pair_count,
                       const cJSON *facts, jb_buf *out, jb_error *err)
{
    const struct render r = { name, pairs, pair_count, facts, err };
    const char *at = text.ptr, *end = text.ptr + text.len;
    int line = 1, status = jb_buf_puts(out, "");
    while (at < end && !status) {
        const char *brace = at;
        while (brace < end && !(brace[0] == '{' && end - brace > 1 && brace[1] == '{')) line += *brace++ == '\n';
        status = jb_buf_append(out, at, (size_t)(brace - at));
        at = brace;
        if (at >= end || status) break;
        if (end - at >= 4 && !memcmp(at, "{{{{", 4)) {
            status = jb_buf_puts(out, "{{");
            at += 4;
            continue;
        }
        char key[MAX_KEY];
        const char *open = at;
        uint64_t before = out->len;
        at += 2;
        status = read_key(&r, &at, end, line, key);
        if (!status) status = put_value(&r, key, line, out);
        if (status || out->len != before || !alone(text, open, at)) continue;
        at++, line++;
        if (at < end && *at == '\n') at++, line++; /* and one blank line of the two around it */
    }
    if (status && out->status == status) jb_err(err, status, "%s: the rendered text is too long or memory is out", name);
    return status;
}

int jb_template_render_file(const char *path, const jb_view *pairs, uint32_t pair_count, const cJSON *facts,
                            jb_buf *out, jb_error *err)
{
    jb_buf text = JB_BUF_INIT(MAX_TEMPLATE);
    int status = jb_fs_read(path, MAX_TEMPLATE, &text, err);
    if (!status) status = jb_template_render(path, jb_buf_view(&text), pairs, pair_count, facts, out, err);
    jb_buf_free(&text);
    return status;
}
