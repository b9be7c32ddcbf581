/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/evalprint.h - one evaluated kernel as `eval` shows it. */
#ifndef JB_CLI_EVALPRINT_H
#define JB_CLI_EVALPRINT_H

#include "core/cli/cli.h"
#include "core/evaluate/outcome.h"

/* {"schema":1,"file","workload","headline","outcome","reason","stages","gates",
 * "link","timing","numerics","isolation","cost","log","log_bytes"}; "speedup" in
 * timing only when both sides were timed natively.  NULL without memory. */
cJSON *jb_eval_json(const char *file, const char *workload, const char *headline, const jb_judgement *j, const cJSON *record);

/* The same for a person: outcome, reason, stages, gates, killer, worst elements. */
void jb_eval_print(jb_cli *c, const cJSON *shown, int separator);

#endif
