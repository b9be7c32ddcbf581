/* SPDX-License-Identifier: Apache-2.0 */
/* core/options/options.h - option tables of components: from one table come
 * defaults, validation of YAML and JSON values, --help text and JSON. */
#ifndef JB_OPTIONS_H
#define JB_OPTIONS_H

#include "core/base/buf.h"
#include "core/base/json.h"
#include "core/base/yaml.h"
#include <jaxbench/plugin.h>

/* A filled config struct of a component with the strings it points to. */
typedef struct jb_config jb_config;

/* All defaults; fails with JB_EINVAL naming the first required option that is
 * not in `values` (an object of name -> JSON value or text; NULL: none), the
 * first unknown one with the nearest name, or a value out of range. */
int jb_config_new(const jb_component *c, const cJSON *values, jb_config **out, jb_error *err);
void jb_config_free(jb_config *c);
const void *jb_config_data(const jb_config *c);
/* Resolved values, every option present, secrets left out.  Caller frees. */
cJSON *jb_config_json(const jb_component *c, const jb_config *cfg);

/* Validate the keys of a YAML mapping against the table, except those listed
 * in `reserved`; errors carry file and line.  `values_out` gets a JSON object. */
int jb_options_from_yaml(const jb_component *c, const jb_yaml_doc *doc, const jb_yaml *map,
                         const char *const *reserved, size_t reserved_count, cJSON **values_out, jb_error *err);

/* Rows that the component and we both know (older tables have shorter rows). */
uint32_t jb_options_count(const jb_component *c);
const jb_option *jb_options_at(const jb_component *c, uint32_t i);
cJSON *jb_options_json(const jb_component *c); /* [{name,type,default,min,max,choices,unit,help,required}] */
int jb_options_help(const jb_component *c, jb_buf *out);

#endif
