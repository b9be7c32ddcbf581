/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/verb_init.c - jaxbench init: a commented study to begin with, on stdout.
 * The templates are files (examples/templates), one a study; the name of a template
 * is that of its file. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <string.h>

#define TEMPLATE_MAX (1u << 20)
#define MAX_TEMPLATES 64

static const jb_cli_option OPTIONS[] = {
    { "template", 't', JB_CLI_TEXT, "TEMPLATE", "which one (default best_of_n)", NULL },
    { "list", 0, JB_CLI_FLAG, NULL, "the templates there are, one a line", NULL },
};

/* Names of the files without ".yaml", sorted; their count. */
static size_t names_of(char **files, int64_t count, const char *names[MAX_TEMPLATES])
{
    size_t n = 0;
    for (int64_t i = 0; i < count && n < MAX_TEMPLATES; i++) {
        char *dot = strrchr(files[i], '.');
        if (!dot || strcmp(dot, ".yaml")) continue;
        *dot = 0;
        names[n++] = files[i];
    }
    return n;
}

static int print_list(jb_cli *c, const char *const *names, size_t count)
{
    cJSON *a = c->json ? cJSON_CreateStringArray(names, (int)count) : NULL;
    if (c->json) {
        int code = jb_cli_print_json(c, a);
        cJSON_Delete(a);
        return code;
    }
    for (size_t i = 0; i < count; i++) fprintf(c->out, "%s\n", names[i]);
    return 0;
}

static int print_template(jb_cli *c, const char *dir, const char *name)
{
    jb_error err = JB_ERROR_INIT;
    jb_buf text = JB_BUF_INIT(TEMPLATE_MAX);
    char *path = jb_asprintf("%s/%s.yaml", dir, name);
    int rc = path ? jb_fs_read(path, TEMPLATE_MAX, &text, &err) : jb_err(&err, JB_ENOMEM, "init: out of memory");
    if (rc == 0) fputs(text.ptr ? text.ptr : "", c->out);
    jb_buf_free(&text);
    jb_free(path);
    return rc ? jb_cli_fail(c, &err) : 0;
}

static int run(jb_cli *c)
{
    jb_error err = JB_ERROR_INIT;
    const jb_layout *l = jb_cli_layout(c, &err);
    char *dir = l ? jb_fs_join(l->examples, "templates") : NULL, **files = NULL;
    const char *names[MAX_TEMPLATES], *want = jb_cli_text(c, "template", "best_of_n");
    if (!dir) return jb_cli_fail(c, &err);
    int64_t count = jb_fs_list(dir, &files);
    size_t n = names_of(files, count, names), at = 0;
    int code;
    while (at < n && strcmp(names[at], want)) at++;
    if (jb_cli_flag(c, "list")) code = print_list(c, names, n);
    else if (at == n) code = jb_cli_unknown(c, "template", want, names, n);
    else code = print_template(c, dir, want);
    if (count >= 0) jb_fs_list_free(files, count);
    jb_free(dir);
    return code;
}

const jb_cli_verb jb_verb_init = {
    .name = "init", .summary = "print a commented study to begin with", .usage = "",
    .help = "  jaxbench init > study.yaml\n"
            "  jaxbench init --template iterative > study.yaml\n"
            "  jaxbench init --list\n",
    .options = OPTIONS, .option_count = sizeof OPTIONS / sizeof OPTIONS[0], .min_args = 0, .max_args = 0, .run = run,
};
