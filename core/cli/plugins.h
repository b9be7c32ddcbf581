/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/plugins.h - plugin files as JSON rows, for `plugin list`, `list
 * plugins` and `show plugin`. */
#ifndef JB_CLI_PLUGINS_H
#define JB_CLI_PLUGINS_H

#include "core/cli/cli.h"

/* Append {name,id,version,status,path,components:["checker/allclose",...],...} a
 * file to `out`; `hashes` adds "sha256". */
int jb_cli_plugin_rows(jb_cli *c, int hashes, cJSON *out, jb_error *err);

#endif
