/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_plugin.c - `jaxbench plugin list`: every plugin file that was
 * looked at, also those that were refused, and why. */
#include "core/cli/internal.h"
#include "core/cli/plugins.h"

#include "core/base/error.h"

#include <string.h>

static const jb_cli_option OPTIONS[] = {
    { "hash", 0, JB_CLI_FLAG, NULL, "add the SHA-256 of every file", NULL },
};

/* "jb.checker/1" and "allclose" -> "checker/allclose". */
static int add_component(cJSON *list, const jb_component *comp)
{
    char text[160];
    const char *kind = strchr(comp->kind, '.');
    kind = kind ? kind + 1 : comp->kind;
    snprintf(text, sizeof text, "%.*s/%s", (int)strcspn(kind, "/"), kind, comp->name);
    cJSON *s = cJSON_CreateString(text);
    if (s && cJSON_AddItemToArray(list, s)) return 0;
    cJSON_Delete(s);
    return JB_ENOMEM;
}

static int manifest_fields(const jb_plugin_file *f, cJSON *o)
{
    const jb_plugin *p = f->manifest;
    char abi[16];
    snprintf(abi, sizeof abi, "%u.%u", p->abi_major, p->abi_minor);
    int status = jb_json_set_str(o, "name", p->id);
    if (!status) status = jb_json_set_str(o, "id", p->id);
    if (!status) status = jb_json_set_str(o, "version", p->version);
    if (!status) status = jb_json_set_str(o, "status", f->shadowed ? "hidden" : "ok");
    if (!status) status = jb_json_set_str(o, "summary", p->summary);
    if (!status) status = jb_json_set_str(o, "license", p->license);
    if (!status) status = jb_json_set_str(o, "abi", abi);
    cJSON *list = status ? NULL : jb_json_add_arr(o, "components");
    if (!list) return JB_ENOMEM;
    for (size_t i = 0; p->components[i] && !status; i++) status = add_component(list, p->components[i]);
    return status;
}

static int refused_fields(const jb_plugin_file *f, cJSON *o)
{
    const char *slash = strrchr(f->path, '/');
    int status = jb_json_set_str(o, "name", slash ? slash + 1 : f->path);
    if (!status) status = jb_json_set_str(o, "status", "refused");
    if (!status) status = jb_json_set_view(o, "error", (jb_view){ f->error.message, strlen(f->error.message) });
    if (!status) status = jb_json_set_view(o, "hint", (jb_view){ f->error.hint, strlen(f->error.hint) });
    return status;
}

int jb_cli_plugin_rows(jb_cli *c, int hashes, cJSON *out, jb_error *err)
{
    const jb_registry *r = jb_cli_registry(c, err);
    if (!r) return err->code;
    for (size_t i = 0; i < jb_registry_file_count(r); i++) {
        const jb_plugin_file *f = jb_registry_file(r, i);
        cJSON *o = cJSON_CreateObject();
        if (!o || !cJSON_AddItemToArray(out, o)) {
            cJSON_Delete(o);
            return jb_err(err, JB_ENOMEM, "out of memory listing plugins");
        }
        int status = f->manifest ? manifest_fields(f, o) : refused_fields(f, o);
        if (!status) status = jb_json_set_str(o, "path", f->path);
        if (!status && hashes) status = jb_json_set_str(o, "sha256", jb_registry_hash(r, f));
        if (status) return jb_err(err, JB_ENOMEM, "out of memory listing plugins");
    }
    return 0;
}

static int print_text(jb_cli *c, const cJSON *rows)
{
    static const char *const heads[] = { "name", "version", "status", "components", "path", "sha256" };
    const cJSON *o, *k;
    size_t columns = jb_cli_flag(c, "hash") ? 6 : 5;
    jb_cli_table *t = jb_cli_table_new(columns, heads);
    if (!t) return JB_ENOMEM;
    cJSON_ArrayForEach(o, rows)
    {
        jb_buf list = JB_BUF_INIT(1u << 16);
        cJSON_ArrayForEach(k, jb_json_obj(o, "components"))
        {
            jb_buf_printf(&list, "%s%s", list.len ? " " : "", k->valuestring);
        }
        const char *cells[] = { jb_json_str(o, "name", ""), jb_json_str(o, "version", "-"), jb_json_str(o, "status", ""), list.ptr, jb_json_str(o, "path", ""), jb_json_str(o, "sha256", "") };
        jb_cli_table_row(t, cells);
        jb_buf_free(&list);
    }
    int status = jb_cli_table_print(t, c);
    cJSON_ArrayForEach(o, rows)
    {
        if (strcmp(jb_json_str(o, "status", ""), "refused")) continue;
        jb_cli_warn(c, "%s was refused: %s%s%s", jb_json_str(o, "path", ""), jb_json_str(o, "error", ""), jb_json_str(o, "hint", "")[0] ? "; " : "", jb_json_str(o, "hint", ""));
    }
    return status;
}

static int run(jb_cli *c)
{
    static const char *const actions[] = { "list" };
    jb_error e = JB_ERROR_INIT;
    if (strcmp(c->argv[0], "list")) return jb_cli_unknown(c, "action", c->argv[0], actions, 1);
    cJSON *rows = cJSON_CreateArray();
    int code = 0, status = rows ? jb_cli_plugin_rows(c, jb_cli_flag(c, "hash"), rows, &e) : jb_err(&e, JB_ENOMEM, "out of memory listing plugins");
    if (status) code = jb_cli_fail(c, &e);
    else if (c->json) code = jb_cli_print_json(c, rows);
    else if (print_text(c, rows)) jb_err(&e, JB_ENOMEM, "out of memory listing plugins"), code = jb_cli_fail(c, &e);
    cJSON_Delete(rows);
    return code;
}

const jb_cli_verb jb_verb_plugin = {
    "plugin", "list plugin files, also those that were refused", "list",
    "Plugins are looked for in JAXBENCH_PLUGIN_PATH, a ':'-separated list of folders, else in those of the installation.\n",
    OPTIONS, sizeof OPTIONS / sizeof *OPTIONS, 1, 1, run,
};
