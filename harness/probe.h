/* SPDX-License-Identifier: Apache-2.0 */
/* harness/probe.h - `jaxbench-worker --probe`: what this machine can do, as one
 * JSON object for `jaxbench doctor`. */
#ifndef JB_HARNESS_PROBE_H
#define JB_HARNESS_PROBE_H

#include "core/base/json.h"

/* Ask the zygote on `sock` for its versions, the isolation layers and the
 * self-test.  READY's fields, plus "isolation", "isolation_missing" (null or a
 * layer), "selftest".  NULL with err set when the zygote does not come up. */
cJSON *jb_probe(int sock, jb_error *err);

#endif
