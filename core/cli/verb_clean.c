/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_clean.c - `jaxbench clean`: what runs and the cache hold, and
 * freeing it.  Removes nothing without being told what, and no run that a living
 * process holds.  Only folders with a manifest.json below ./runs are runs. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const jb_cli_option OPTIONS[] = {
    { "runs", 0, JB_CLI_FLAG, NULL, "remove the runs below ./runs", NULL },
    { "cache", 0, JB_CLI_FLAG, NULL, "remove cached references and modules", NULL },
    { "dry-run", 'n', JB_CLI_FLAG, NULL, "only say what would be removed", NULL },
    { "yes", 'y', JB_CLI_FLAG, NULL, "don't ask", NULL },
};

/* What the worker puts into the cache folder; nothing else there is touched,
 * since JAXBENCH_CACHE may name a folder that holds other things too. */
static const char *const CACHE_PARTS[] = { "refs", "selftest-*.json" };

struct clean {
    jb_cli *c;
    const char *cache;
    jb_cli_run *runs;
    size_t run_count;
    int64_t cache_bytes, run_bytes, freed;
};

static int is_cached(const char *name)
{
    for (size_t i = 0; i < sizeof CACHE_PARTS / sizeof *CACHE_PARTS; i++)
        if (jb_text_glob(CACHE_PARTS[i], name)) return 1;
    return 0;
}

static int confirm(const struct clean *k, const char *what)
{
    char answer[16];
    jb_error e = JB_ERROR_INIT;
    if (jb_cli_flag(k->c, "yes") || jb_cli_flag(k->c, "dry-run")) return 0;
    if (k->c->no_input || !isatty(0) || k->c->json) {
        jb_err(&e, JB_EPERM, "not removing %s without being told twice", what);
        jb_err_hint(&e, "add --yes, or --dry-run to see what would go");
        return jb_cli_fail_as(k->c, JB_EXIT_USAGE, &e);
    }
    fprintf(k->c->err, "Remove %s? [y/N] ", what);
    fflush(k->c->err);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y')) return 0;
    fprintf(k->c->err, "Nothing was removed.\n");
    return JB_EXIT_USAGE;
}

static int remove_path(struct clean *k, const char *path, int64_t bytes)
{
    jb_error e = JB_ERROR_INIT;
    char size[32];
    int dry = jb_cli_flag(k->c, "dry-run");
    if (!dry && jb_fs_remove_tree(path, &e)) return jb_cli_fail(k->c, &e);
    k->freed += bytes;
    if (!k->c->json && !k->c->quiet) fprintf(k->c->out, "%s %s (%s)\n", dry ? "would remove" : "removed", path, jb_text_bytes(size, sizeof size, bytes));
    return 0;
}

/* Measure our entries of the cache folder, and remove them when asked. */
static int visit_cache(struct clean *k, int removing)
{
    char **names = NULL;
    int64_t count = jb_fs_list(k->cache, &names);
    int code = 0;
    for (int64_t i = 0; i < count && !code; i++) {
        char *path = is_cached(names[i]) ? jb_fs_join(k->cache, names[i]) : NULL;
        int64_t bytes = path ? jb_fs_tree_bytes(path) : 0;
        if (path && removing) code = remove_path(k, path, bytes);
        else k->cache_bytes += bytes;
        jb_free(path);
    }
    if (count >= 0) jb_fs_list_free(names, count);
    return code;
}

static int clean_cache(struct clean *k)
{
    int code = k->cache_bytes ? confirm(k, k->cache) : 0;
    return code ? code : visit_cache(k, 1);
}

static int clean_runs(struct clean *k)
{
    int code = k->run_count ? confirm(k, "all runs below ./runs") : 0;
    for (size_t i = 0; i < k->run_count && !code; i++) {
        if (k->runs[i].locked) jb_cli_warn(k->c, "%s is in use and stays", k->runs[i].path);
        else code = remove_path(k, k->runs[i].path, k->runs[i].bytes);
    }
    return code;
}

static void print_holdings(const struct clean *k)
{
    char size[32], when[32];
    fprintf(k->c->out, "cache  %s  %s\n", jb_text_bytes(size, sizeof size, k->cache_bytes), k->cache);
    fprintf(k->c->out, "runs   %s  %zu below ./runs\n", jb_text_bytes(size, sizeof size, k->run_bytes), k->run_count);
    for (size_t i = 0; i < k->run_count; i++) {
        time_t t = (time_t)k->runs[i].changed;
        struct tm tm;
        when[0] = '\0';
        if (gmtime_r(&t, &tm)) strftime(when, sizeof when, "%Y-%m-%d", &tm);
        fprintf(k->c->out, "       %s  %s  %s%s\n", jb_text_bytes(size, sizeof size, k->runs[i].bytes), when, k->runs[i].path, k->runs[i].locked ? "  (in use)" : "");
    }
    if (k->run_count || k->cache_bytes) fprintf(k->c->out, "free them with --runs and --cache\n");
}

static int print_json(const struct clean *k)
{
    cJSON *o = cJSON_CreateObject(), *runs = NULL;
    int status = o ? jb_json_set_i64(o, "schema", 1) : JB_ENOMEM;
    if (!status) status = jb_json_set_str(o, "cache", k->cache);
    if (!status) status = jb_json_set_i64(o, "cache_bytes", k->cache_bytes);
    if (!status) status = jb_json_set_i64(o, "runs_bytes", k->run_bytes);
    if (!status) status = jb_json_set_i64(o, "freed_bytes", k->freed);
    if (!status) status = jb_json_set_bool(o, "dry_run", jb_cli_flag(k->c, "dry-run"));
    if (!status && !(runs = jb_json_add_arr(o, "runs"))) status = JB_ENOMEM;
    for (size_t i = 0; i < k->run_count && !status; i++) {
        cJSON *row = cJSON_CreateObject();
        if (!row || !cJSON_AddItemToArray(runs, row)) {
            cJSON_Delete(row);
            status = JB_ENOMEM;
            break;
        }
        status = jb_json_set_str(row, "path", k->runs[i].path);
        if (!status) status = jb_json_set_i64(row, "bytes", k->runs[i].bytes);
        if (!status) status = jb_json_set_bool(row, "in_use", k->runs[i].locked);
    }
    if (status) cJSON_Delete(o), o = NULL;
    int code = jb_cli_print_json(k->c, o);
    cJSON_Delete(o);
    return code;
}

static int run(jb_cli *c)
{
    jb_error e = JB_ERROR_INIT;
    struct clean k = { .c = c };
    const jb_layout *l = jb_cli_layout(c, &e);
    int code = 0, runs = jb_cli_flag(c, "runs"), cache = jb_cli_flag(c, "cache");
    if (!l || jb_cli_runs(&k.runs, &k.run_count, &e)) return jb_cli_fail(c, &e);
    k.cache = l->cache;
    visit_cache(&k, 0);
    for (size_t i = 0; i < k.run_count; i++) k.run_bytes += k.runs[i].bytes;
    if (cache) code = clean_cache(&k);
    if (runs && !code) code = clean_runs(&k);
    if (!code && c->json) code = print_json(&k);
    else if (!code && !runs && !cache) print_holdings(&k);
    jb_cli_runs_free(k.runs, k.run_count);
    return code;
}

const jb_cli_verb jb_verb_clean = {
    "clean", "show and free what runs and the cache hold", "",
    "Without options: shows sizes and removes nothing.  A run that a living process holds is never removed.\n",
    OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 0, 0, run,
};
