/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/replay/recording.c - see recording.h.
 *
 * Of a run only its journal and blobs are read: `op_submit` says who asked (cell,
 * lane, turn, hash), `op_done` what came.  Calls that failed have no reply and are
 * left out.  Lines of other workloads are skipped unparsed: a journal holds every
 * record of every candidate. */
#include "recording.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define TEXT_MAX ((long)64 << 20)

static int fail(jb_error *err, int code, const char *where, size_t line, const char *text)
{
    err->code = code;
    err->flags = code == JB_ENOTFOUND || code == JB_EPARSE ? JB_ERR_USER : 0;
    snprintf(err->message, sizeof err->message, "replay: %s", text);
    if (line) snprintf(err->where, sizeof err->where, "%.100s:%zu", where, line);
    else snprintf(err->where, sizeof err->where, "%.120s", where);
    return code;
}

void recording_free(struct recording *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->replies[i].text);
        free(r->replies[i].model);
    }
    free(r->replies);
    memset(r, 0, sizeof *r);
}

/* A fresh entry at the end; NULL without memory. */
static struct reply *add(struct recording *r)
{
    if (r->count == r->cap) {
        size_t cap = r->cap ? 2 * r->cap : 64;
        struct reply *grown = realloc(r->replies, cap * sizeof *grown);
        if (!grown) return NULL;
        r->replies = grown;
        r->cap = cap;
    }
    struct reply *one = &r->replies[r->count++];
    *one = (struct reply){ .seed = -1, .finish = JB_FINISH_STOP, .usage = { -1, -1, -1, -1, -1 } };
    return one;
}

/* ---- fields ------------------------------------------------------------------------- */

static const char *string_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) ? v->valuestring : NULL;
}

static int64_t number_of(const cJSON *o, const char *key, int64_t otherwise)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsNumber(v) && v->valuedouble >= 0 && v->valuedouble < 9e15 ? (int64_t)v->valuedouble : otherwise;
}

static void copy_word(char *to, size_t size, const char *from) { snprintf(to, size, "%s", from ? from : ""); }

static void read_usage(const cJSON *u, jb_usage *out)
{
    out->input_uncached = number_of(u, "input_uncached", -1);
    out->cache_read = number_of(u, "cache_read", -1);
    out->cache_write = number_of(u, "cache_write", -1);
    out->output = number_of(u, "output", -1);
    out->reasoning = number_of(u, "reasoning", -1);
}

/* A transcript says "stop", "length" or "refused", a journal the number. */
static uint32_t finish_of(const cJSON *o)
{
    const char *word = string_of(o, "finish");
    int64_t n = number_of(o, "finish", JB_FINISH_STOP);
    if (word) n = strcmp(word, "length") == 0 ? JB_FINISH_LENGTH : strcmp(word, "refused") == 0 ? JB_FINISH_REFUSED : JB_FINISH_STOP;
    return n >= JB_FINISH_STOP && n <= JB_FINISH_REFUSED ? (uint32_t)n : JB_FINISH_STOP;
}

static char *copy(const char *s) { return s ? strdup(s) : NULL; }

static int read_file(const char *path, char **out)
{
    FILE *f = fopen(path, "rbe");
    struct stat st;
    *out = NULL;
    if (!f) return 0;
    if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= TEXT_MAX && (*out = calloc(1, (size_t)st.st_size + 1)) &&
        fread(*out, 1, (size_t)st.st_size, f) != (size_t)st.st_size) {
        free(*out);
        *out = NULL;
    }
    fclose(f);
    return *out != NULL;
}

/* What op_done and a line of a transcript have in common. */
static int fill(struct reply *one, const cJSON *o, char *text)
{
    const char *model = string_of(o, "model");
    one->text = text;
    one->finish = finish_of(o);
    one->model = copy(model);
    read_usage(cJSON_GetObjectItemCaseSensitive(o, "usage"), &one->usage);
    return text && (!model || one->model) ? 0 : JB_ENOMEM;
}

/* ---- a run ------------------------------------------------------------------------------ */

/* A call whose end has not been read yet. */
struct pending { char cell[300]; int64_t op; struct reply head; };
struct pendings { struct pending *list; size_t count, cap; };

static int remember(struct pendings *p, const cJSON *o)
{
    const char *cell = string_of(o, "cell");
    char name[300], *part[4] = { NULL };
    if (!cell || strlen(cell) >= sizeof name || strcmp(string_of(o, "op_kind") ? string_of(o, "op_kind") : "", "llm") != 0) return 0;
    if (p->count == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 64;
        struct pending *grown = realloc(p->list, cap * sizeof *grown);
        if (!grown) return JB_ENOMEM;
        p->list = grown;
        p->cap = cap;
    }
    struct pending *one = &p->list[p->count++];
    *one = (struct pending){ .op = number_of(o, "op", 0), .head = { .seed = -1 } };
    copy_word(one->cell, sizeof one->cell, cell);
    copy_word(name, sizeof name, cell); /* workload+method+backend+sN */
    char *rest = name;
    for (int i = 0; i < 4; i++) part[i] = strsep(&rest, "+");
    copy_word(one->head.hash, sizeof one->head.hash, string_of(o, "hash"));
    copy_word(one->head.method, sizeof one->head.method, part[1]);
    if (part[3] && part[3][0] == 's') one->head.seed = strtoll(part[3] + 1, NULL, 10);
    one->head.lane = (uint64_t)number_of(o, "lane", 0);
    one->head.turn = (uint64_t)number_of(o, "turn", 0);
    return 0;
}

static const struct pending *recall(const struct pendings *p, const cJSON *o)
{
    const char *cell = string_of(o, "cell");
    int64_t op = number_of(o, "op", 0);
    for (size_t i = p->count; cell && i-- > 0;)
        if (p->list[i].op == op && strcmp(p->list[i].cell, cell) == 0) return &p->list[i];
    return NULL;
}

static int take_done(struct recording *r, const struct pendings *p, const cJSON *o, const char *dir, const char *file, size_t line, jb_error *err)
{
    const struct pending *from = recall(p, o);
    const char *status = string_of(o, "status"), *blob = string_of(o, "text_blob"), *inline_text = string_of(o, "text");
    char path[4600], *text = NULL;
    if (!from || !status || strcmp(status, "done") != 0) return 0; /* an evaluation, or a call that failed */
    if (blob) {
        if (strspn(blob, "0123456789abcdef") != strlen(blob)) return fail(err, JB_EPARSE, file, line, "text_blob is no hash");
        snprintf(path, sizeof path, "%s/blobs/%s", dir, blob);
        if (!read_file(path, &text)) return fail(err, JB_ENOTFOUND, path, 0, "a reply's blob is missing or unreadable");
    } else {
        text = copy(inline_text ? inline_text : "");
    }
    struct reply *one = add(r);
    if (!one) {
        free(text);
        return fail(err, JB_ENOMEM, file, line, "out of memory");
    }
    *one = from->head;
    one->text = one->model = NULL;
    return fill(one, o, text) == 0 ? 0 : fail(err, JB_ENOMEM, file, line, "out of memory");
}

static int take_event(struct recording *r, struct pendings *p, const char *text, size_t len, const char *dir, const char *file, size_t line, jb_error *err)
{
    int submit = memmem(text, len, "\"kind\":\"op_submit\"", 18) != NULL, done = memmem(text, len, "\"kind\":\"op_done\"", 16) != NULL;
    if (!submit && !done) return 0;
    if (done && memmem(text, len, "\"candidate\":", 12) && memmem(text, len, "\"record\":", 9)) return 0; /* of an evaluation, long */
    cJSON *o = cJSON_ParseWithLength(text, len);
    int rc = !o ? fail(err, JB_EPARSE, file, line, "the line is no JSON document") : submit ? remember(p, o) : take_done(r, p, o, dir, file, line, err);
    if (rc == JB_ENOMEM && !err->code) fail(err, rc, file, line, "out of memory");
    cJSON_Delete(o);
    return rc;
}

/* ---- a transcript ------------------------------------------------------------------------- */

/* Rows without a lane are numbered, row i is lane i; rows with a lane and without
 * a turn are numbered within it. */
static void place(const struct recording *r, struct reply *one, const cJSON *o)
{
    int64_t lane = number_of(o, "lane", -1), turn = number_of(o, "turn", -1), before = 0;
    size_t others = r->count - 1;
    one->lane = lane >= 0 ? (uint64_t)lane : others;
    for (size_t i = 0; i < others; i++) before += r->replies[i].lane == one->lane;
    one->turn = (uint64_t)(turn >= 0 ? turn : lane >= 0 ? before : 0);
}

static int take_row(struct recording *r, const char *text, size_t len, const char *workload, const char *file, size_t line, jb_error *err)
{
    if (strspn(text, " \t\r\n") >= len) return 0;
    cJSON *o = cJSON_ParseWithLength(text, len);
    const char *reply = string_of(o, "text"), *id = string_of(o, "workload");
    int rc = 0;
    if (!cJSON_IsObject(o) || !reply || !id) {
        rc = fail(err, JB_EPARSE, file, line, "a line of a transcript is an object with at least \"workload\" and \"text\"");
    } else if (strcmp(id, workload) == 0) {
        struct reply *one = add(r);
        if (!one || fill(one, o, copy(reply)) != 0) rc = fail(err, JB_ENOMEM, file, line, "out of memory");
        if (rc == 0) {
            copy_word(one->hash, sizeof one->hash, string_of(o, "hash"));
            copy_word(one->method, sizeof one->method, string_of(o, "method"));
            one->seed = number_of(o, "seed", -1);
            place(r, one, o);
        }
    }
    cJSON_Delete(o);
    return rc;
}

/* ---- loading -------------------------------------------------------------------------------- */

int recording_load(struct recording *r, const char *path, const char *workload, jb_error *err)
{
    struct stat st;
    struct pendings p = { 0 };
    char file[4400], mark[80], *line = NULL;
    size_t room = 0, number = 0;
    int run = stat(path, &st) == 0 && S_ISDIR(st.st_mode), rc = 0;
    if (snprintf(file, sizeof file, "%s%s", path, run ? "/journal.jsonl" : "") >= (int)sizeof file) return fail(err, JB_EINVAL, "", 0, "the path is too long");
    snprintf(mark, sizeof mark, "\"cell\":\"%.60s+", workload);
    FILE *f = fopen(file, "re");
    if (!f) {
        char text[128];
        snprintf(text, sizeof text, "`from` must be the folder of a run or a transcript: %.60s", strerror(errno));
        return fail(err, JB_ENOTFOUND, file, 0, text);
    }
    for (ssize_t n; rc == 0 && (n = getline(&line, &room, f)) > 0;) {
        number++;
        if (!run) rc = take_row(r, line, (size_t)n, workload, file, number, err);
        else if (line[n - 1] == '\n' && memmem(line, (size_t)n, mark, strlen(mark))) rc = take_event(r, &p, line, (size_t)n, path, file, number, err);
    }
    if (rc == 0 && ferror(f)) rc = fail(err, JB_EIO, file, number, "can't be read to its end");
    fclose(f);
    free(line);
    free(p.list);
    return rc;
}

/* ---- looking up -------------------------------------------------------------------------------- */

static const struct reply *best(const struct recording *r, const struct wanted *w, int by_hash)
{
    const struct reply *found = NULL;
    int rank = -1;
    for (size_t i = 0; i < r->count; i++) {
        const struct reply *one = &r->replies[i];
        int matches = by_hash ? one->hash[0] && strcmp(one->hash, w->hash) == 0 : one->lane == w->lane && one->turn == w->turn;
        int of = 2 * (strcmp(one->method, w->method) == 0) + (one->seed == w->seed);
        if (!matches || of <= rank) continue;
        found = one;
        rank = of;
    }
    return found;
}

const struct reply *recording_by_hash(const struct recording *r, const struct wanted *w) { return w->hash[0] ? best(r, w, 1) : NULL; }
const struct reply *recording_by_place(const struct recording *r, const struct wanted *w) { return best(r, w, 0); }
