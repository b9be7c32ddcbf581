/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/render.h - a report as a page or as Markdown, by the Python package
 * jaxbench_report of this installation, run with the project's venv. */
#ifndef JB_CLI_RENDER_H
#define JB_CLI_RENDER_H

#include "core/base/fs.h"
#include "core/base/json.h"

#define JB_RENDER_MAX (16u << 20) /* bytes of a page; the package itself stays below 5 MB */

/* Append the page ("html") or the summary ("md") of `document` to `out`: a report, or
 * {"schema":1,"runs":[...]}.  `base` is the folder the page will lie in: links to the
 * run's files are relative to it.  JB_ENOTFOUND when interpreter or package is
 * missing, JB_EIO when it failed, with its last words and what to do. */
int jb_render(const jb_layout *layout, const cJSON *document, const char *form, const char *base, jb_buf *out, jb_error *err);

/* The same as a page in `path`, replaced whole. */
int jb_render_page(const jb_layout *layout, const cJSON *document, const char *path, jb_error *err);

#endif
