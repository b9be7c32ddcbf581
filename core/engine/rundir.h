/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/rundir.h - the folder of a run: its name, its manifest, and the
 * check that what a resume would use is what the run was begun with. */
#ifndef JB_ENGINE_RUNDIR_H
#define JB_ENGINE_RUNDIR_H

#include "core/base/fs.h"
#include "core/base/json.h"
#include "core/study/study.h"

/* "runs/<date>-<name>-<hash4>" (malloc'ed), not there yet.  The date is UTC. */
char *jb_rundir_new_name(const char *study_name);
/* The folder a person means by RUN: a path, or a name below runs/. JB_ENOTFOUND
 * with the nearest name. */
int jb_rundir_find(const char *run, char **out, jb_error *err);

/* Hashes of all that a verdict or a prompt depends on:
 * {"plugins":{"method/best_of_n":sha},"templates":{},"workloads":{"8p":{variant:sha}},"gates":{},
 *  "worker":{"jaxbench-worker":sha,"jaxbench_harness":sha}}; what is not there has no entry.
 * Caller frees; NULL on error. */
cJSON *jb_rundir_identity(const jb_study *s, const jb_registry *r, const jb_layout *l, jb_error *err);
/* JB_ESTATE naming every entry that changed, came or went. */
int jb_rundir_same_identity(const cJSON *was, const cJSON *is, jb_error *err);

typedef struct jb_manifest_facts {
    const jb_study *study;
    const jb_registry *registry;
    const jb_layout *layout;
    const char *run_dir;
    int argc;
    char **argv;
    const char *const *set, *const *only; /* as given, to read the study the same way again */
    size_t set_count, only_count;
    int64_t limit;
} jb_manifest_facts;

/* manifest.json, written atomically. */
int jb_rundir_write_manifest(const jb_manifest_facts *f, jb_error *err);
cJSON *jb_rundir_read_manifest(const char *run_dir, jb_error *err); /* NULL on error */

#endif
