/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/missing.c - see missing.h. */
#include "core/engine/missing.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/engine/blobs.h"
#include "core/engine/journal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_MAX 3 /* names told of each kind */

enum { PROMPTS, REPLIES, MODULES, KINDS };
static const char *const NAMES[KINDS] = { "prompts", "replies", "modules" };

typedef struct body { char hash[JB_HASH_HEX]; int kind; } body;
typedef struct bodies { body *list; size_t count, cap; } bodies;

/* ---- what is named ---------------------------------------------------------------- */

static int add(bodies *b, int kind, const char *hash)
{
    if (strlen(hash) != JB_HASH_HEX - 1) return 0; /* none, or one that no file can have */
    if (b->count == b->cap) {
        size_t cap = b->cap ? 2 * b->cap : 64;
        body *grown = jb_realloc(b->list, cap * sizeof *grown);
        if (!grown) return JB_ENOMEM;
        b->list = grown;
        b->cap = cap;
    }
    memcpy(b->list[b->count].hash, hash, JB_HASH_HEX);
    b->list[b->count++].kind = kind;
    return 0;
}

static int visit(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    const cJSON *m;
    int rc = add(ctx, PROMPTS, jb_json_str(event, "prompt", ""));
    if (rc == 0) rc = add(ctx, REPLIES, jb_json_str(event, "text_blob", ""));
    cJSON_ArrayForEach(m, jb_json_path(event, "record.stages.export.modules"))
    {
        if (rc == 0) rc = add(ctx, MODULES, jb_json_str(m, "sha256", ""));
    }
    return rc ? jb_err(err, rc, "journal, line %u: out of memory", span.seq) : 0;
}

static int by_kind_and_hash(const void *a, const void *b)
{
    const body *x = a, *y = b;
    return x->kind != y->kind ? x->kind - y->kind : strcmp(x->hash, y->hash);
}

/* ---- what is missing ----------------------------------------------------------------- */

static int tell(cJSON **out, int kind, int64_t named, int64_t missing, const char *const *first)
{
    if (!missing) return 0;
    if (!*out && !(*out = cJSON_CreateObject())) return JB_ENOMEM;
    cJSON *o = jb_json_add_obj(*out, NAMES[kind]), *names = o ? jb_json_add_arr(o, "first") : NULL;
    int rc = names ? jb_json_set_i64(o, "named", named) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(o, "missing", missing);
    for (int64_t i = 0; rc == 0 && i < missing && i < FIRST_MAX; i++) {
        cJSON *name = cJSON_CreateString(first[i]);
        if (name && cJSON_AddItemToArray(names, name)) continue;
        cJSON_Delete(name);
        rc = JB_ENOMEM;
    }
    return rc;
}

int jb_missing_bodies(const char *run_dir, cJSON **out, jb_error *err)
{
    bodies b = { NULL, 0, 0 };
    char *journal = jb_fs_join(run_dir, "journal.jsonl"), *blobs = jb_fs_join(run_dir, "blobs");
    *out = NULL;
    int rc = journal && blobs ? jb_journal_read(journal, visit, &b, NULL, err) : jb_err(err, JB_ENOMEM, "run: out of memory");
    if (rc == 0 && b.count) qsort(b.list, b.count, sizeof *b.list, by_kind_and_hash);
    size_t at = 0;
    for (int kind = 0; rc == 0 && kind < KINDS; kind++) {
        const char *first[FIRST_MAX];
        int64_t named = 0, missing = 0;
        for (; at < b.count && b.list[at].kind == kind; at++) {
            if (named && strcmp(b.list[at].hash, b.list[at - 1].hash) == 0) continue;
            named++;
            if (jb_blob_exists(blobs, b.list[at].hash)) continue;
            if (missing < FIRST_MAX) first[missing] = b.list[at].hash;
            missing++;
        }
        rc = tell(out, kind, named, missing, first);
        if (rc != 0) jb_err(err, rc, "run: out of memory");
    }
    if (rc != 0) {
        cJSON_Delete(*out);
        *out = NULL;
    }
    jb_free(b.list);
    jb_free(journal);
    jb_free(blobs);
    return rc;
}

/* ---- the journal itself ------------------------------------------------------------------- */

/* One line is enough to know. */
static int stop_at_first(void *ctx, const cJSON *event, jb_span span, jb_error *err)
{
    (void)event, (void)span, (void)err;
    *(int *)ctx = 1;
    return JB_ECANCELLED;
}

int jb_missing_journal(const char *run_dir, jb_error *err)
{
    char *path = jb_fs_join(run_dir, "journal.jsonl");
    int any = 0, there = path && jb_fs_exists(path);
    if (!path) return jb_err(err, JB_ENOMEM, "run: out of memory");
    int rc = there ? jb_journal_read(path, stop_at_first, &any, NULL, err) : 0;
    if (any) {
        rc = 0;
        jb_err_clear(err);
    } else if (rc == 0) {
        rc = jb_err(err, JB_ESTATE, "%s %s although the run has a manifest: what it asked, paid and judged is not known", path,
                    there ? "holds no line" : "is missing");
        jb_err_hint(err, "restore the journal from a copy; or begin anew in another folder (jaxbench run), which asks and pays for every reply again");
        if (err) err->flags |= JB_ERR_USER;
    }
    jb_free(path);
    return rc;
}
