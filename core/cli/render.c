/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/render.c - see render.h.  The renderer gets the document on its
 * standard input and an environment without any of our variables: it reads what a
 * candidate wrote, and has no use for a key. */
#include "core/cli/render.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/cli/child.h"

#include <string.h>

#define TIMEOUT_MS 300000
#define ERR_MAX (64u << 10)

static char *find_program(const jb_layout *l)
{
    char *path = jb_fs_join(l->root, "report/jaxbench_report/__main__.py");
    if (!path || jb_fs_exists(path)) return path;
    jb_free(path);
    return jb_fs_join(l->root, "share/jaxbench/report/jaxbench_report/__main__.py");
}

static int missing(jb_error *err, const char *what, const char *path)
{
    jb_err(err, JB_ENOTFOUND, "no report is rendered: there is no %s at %s", what, path);
    return jb_err_hint(err, "run ./quickstart once, which makes it; `jaxbench report RUN` and --json need neither");
}

static int failed(jb_error *err, const jb_child *c)
{
    char words[500];
    const char *why = jb_child_failure(c, words, sizeof words);
    if (!why && c->out.status == 0) return 0;
    jb_err(err, JB_EIO, "the renderer (%s) %s", c->program, why ? why : "printed more than a page may have");
    return jb_err_hint(err, "if a module is missing, run ./quickstart: it mends .venv; `jaxbench report RUN` and --json need no renderer");
}

int jb_render(const jb_layout *layout, const cJSON *document, const char *form, const char *base, jb_buf *out, jb_error *err)
{
    static const char *const env[] = { "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", NULL };
    char *python = jb_layout_python(layout->root), *program = find_program(layout);
    const char *argv[] = { python, "-I", "-B", program, form, "--base", base, NULL };
    jb_buf text = JB_BUF_INIT(JB_JSON_MAX_BYTES);
    jb_child c = { .program = python, .argv = argv, .env = env, .timeout_ms = TIMEOUT_MS, .out = JB_BUF_INIT(JB_RENDER_MAX), .err = JB_BUF_INIT(ERR_MAX) };
    int rc = python && program ? jb_json_print(document, &text) : JB_ENOMEM;
    if (rc != 0) jb_err(err, rc, "report: out of memory, or the report is longer than %u MB", JB_JSON_MAX_BYTES >> 20);
    else if (!jb_fs_exists(python)) rc = missing(err, "Python", python);
    else if (!jb_fs_exists(program)) rc = missing(err, "renderer", program);
    c.input = jb_buf_view(&text);
    if (rc == 0) rc = jb_child_run(&c, err);
    if (rc == 0) rc = failed(err, &c);
    if (rc == 0 && jb_buf_append(out, c.out.ptr ? c.out.ptr : "", c.out.len) != 0) rc = jb_err(err, JB_ENOMEM, "report: out of memory");
    jb_buf_free(&text);
    jb_buf_free(&c.out);
    jb_buf_free(&c.err);
    jb_free(python);
    jb_free(program);
    return rc;
}

int jb_render_page(const jb_layout *layout, const cJSON *document, const char *path, jb_error *err)
{
    jb_buf page = JB_BUF_INIT(JB_RENDER_MAX);
    char *base = jb_fs_dirname(path);
    int rc = base ? jb_render(layout, document, "html", base, &page, err) : jb_err(err, JB_ENOMEM, "report: out of memory");
    if (rc == 0) rc = jb_fs_write_atomic(path, page.ptr, page.len, err);
    jb_buf_free(&page);
    jb_free(base);
    return rc;
}
