/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/template.h - prompt templates: text with {{key}} in it.
 *
 * Spaces inside the braces are allowed; "{{{{" stands for two braces.  Values
 * are put in as they are and never read again, so a value can't inject a key.
 * A line that is one key alone goes away when its value is empty, and a blank
 * line behind it too.
 * No conditions, no loops: a template stays readable as the text it makes. */
#ifndef JB_SUITE_TEMPLATE_H
#define JB_SUITE_TEMPLATE_H

#include "core/base/json.h"

/* Replace {{key}} by a value of `pairs` (key, value, key, value, ...; the first
 * match) or else by the string `facts` has under it.  JB_EINVAL with `name`
 * (the file, for messages) and line for an unknown key, naming the nearest, or
 * for braces that don't close.  `out` is appended to. */
int jb_template_render(const char *name, jb_view text, const jb_view *pairs, uint32_t pair_count,
                       const cJSON *facts, jb_buf *out, jb_error *err);
/* The same of a file, at most 1 MiB. */
int jb_template_render_file(const char *path, const jb_view *pairs, uint32_t pair_count, const cJSON *facts,
                            jb_buf *out, jb_error *err);

#endif
