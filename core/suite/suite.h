/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/suite.h - workloads and gate sets as data: reads
 * suite/<suite>/<id>_<name>/workload.yaml and suite/gates/<set>.yaml
 * (docs/formats.md), resolves symbolic shapes, hashes content.  Runs nothing. */
#ifndef JB_SUITE_H
#define JB_SUITE_H

#include "core/base/json.h"
#include "core/base/yaml.h"

typedef struct jb_suite jb_suite;
typedef struct jb_workload jb_workload;
typedef struct jb_gateset jb_gateset;

/* `dir` holds one folder per workload. */
int jb_suite_open(const char *dir, jb_suite **out, jb_error *err);
void jb_suite_free(jb_suite *s);
size_t jb_suite_count(const jb_suite *s);             /* ordered by id: p before k, numerically */
const jb_workload *jb_suite_at(const jb_suite *s, size_t i);
/* By id ("8p"), name ("gemm") or "8p_gemm"; error names the nearest. */
int jb_suite_find(const jb_suite *s, const char *name, const jb_workload **out, jb_error *err);

const char *jb_workload_id(const jb_workload *w);
const char *jb_workload_name(const jb_workload *w);
const char *jb_workload_dir(const jb_workload *w);
const cJSON *jb_workload_spec(const jb_workload *w);  /* workload.yaml as JSON */
/* Hash of workload.yaml + workload.py as seen by `variant`. */
const char *jb_workload_version(const jb_workload *w, const char *variant);
int jb_workload_has_shape(const jb_workload *w, const char *shape);
/* The shape resolved: {"config":{CONFIG key: value}, "inputs":[{"name","dtype","dims":[..],"role",...}],
 * "outputs":[{"dtype","dims"}], "flops":n, "min_bytes":n}.  Caller frees. */
cJSON *jb_workload_resolve(const jb_workload *w, const char *shape, jb_error *err);
/* Facts for prompts (docs/formats.md): name -> text.  Caller frees. */
cJSON *jb_workload_facts(const jb_workload *w, const char *variant, jb_error *err);

/* The same for the shapes that will be asked for (NULL: full, gate and ragged where there is one) and with what
 * the gate sets judge in words (jb_gateset_describe; NULL: "") and whether the TPU
 * compiler and a timer are asked (NULL: speed is not measured). */
cJSON *jb_workload_facts_for(const jb_workload *w, const char *variant, const char *const *shapes, size_t shape_count,
                             const char *judged, const char *speed, jb_error *err);

/* Integer expression over symbols: + - * / // ^ ( ) and numbers, double arithmetic. */
int jb_expr_eval(const char *text, const cJSON *symbols, double *out, jb_error *err);

int jb_gateset_open(const char *path, jb_gateset **out, jb_error *err);
void jb_gateset_free(jb_gateset *g);
const char *jb_gateset_name(const jb_gateset *g);
const char *jb_gateset_variant(const jb_gateset *g);
const char *jb_gateset_hash(const jb_gateset *g);
/* {"name","variant","summary","rows":[{"use","options":{},"when":"loop"|"final","over":{"shapes":[],"draws":{dist:n}}}]} */
const cJSON *jb_gateset_json(const jb_gateset *g);
/* A set written inside another file (a study): `map` holds name, variant, rows. */
int jb_gateset_from_yaml(const jb_yaml_doc *doc, const jb_yaml *map, jb_gateset **out, jb_error *err);
/* What the set asks, in plain words for a prompt: shapes (all at `check_shape` when it isn't NULL),
 * distributions, draws, thresholds.  Returns out->status. */
int jb_gateset_describe(const jb_gateset *g, const char *check_shape, jb_buf *out);

#endif
