/* SPDX-License-Identifier: Apache-2.0 */
/* harness/python.h - the embedded interpreter: the project's venv, isolated, one
 * for the process's life, never finalised.  Only main.c, python.c and runtime.c
 * know Python; everything else in harness/ is tested without it. */
#ifndef JB_HARNESS_PYTHON_H
#define JB_HARNESS_PYTHON_H

#include "harness/kid.h"

/* Include order matters to CPython: its header comes before the system's. */
typedef struct jb_python {
    char *executable;      /* of the venv */
    char *harness;         /* folder that holds jaxbench_harness/ */
    char harness_hash[65]; /* of the package's sources and this program's version */
    cJSON *modules;        /* {"tracer":"ok","compiler":"why not",...} */
    jb_sandbox_paths paths;
    char *ready;           /* READY text */
} jb_python;

/* Keep nothing of the caller's environment, and set what JAX needs to start
 * without a network.  Before jb_python_start, in the zygote. */
void jb_python_environment(void);
/* Start the interpreter, import jax, Pallas and the harness, assert that one
 * thread runs and no backend has started, freeze the collector. */
int jb_python_start(jb_python *p, const char *executable, const char *harness, jb_error *err);
/* "3.11.7": what this program was compiled against. */
const char *jb_python_compiled(void);

/* jb_kid_ops functions; self is the jb_python. */
char *jb_python_ready(void *self);
int jb_python_run(void *self, jb_kid_input *in);

/* For runtime.c.  After a fork, once. */
void jb_python_after_fork(void);
/* Report the pending exception as the child's failure; returns an exit code. */
int jb_python_exception(int ctl, const char *status);
/* Its text ("TypeError: ...") and traceback, cleared; both jb_alloc'ed. */
void jb_python_take_error(char **line, char **traceback);
void jb_python_flush(void);

/* runtime.c: the executor and the timer. */
int jb_runtime_prepare(void *self, jb_kid_input *in, jb_error *err);
int jb_runtime_check(jb_kid_input *in);
int jb_runtime_time(jb_kid_input *in);

#endif
