/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/child.h - run one program to its end, for a verb that wants what it
 * prints: own process group, output capped, killed at a limit. */
#ifndef JB_CLI_CHILD_H
#define JB_CLI_CHILD_H

#include "core/base/buf.h"

#include <stddef.h>

typedef struct jb_child {
    const char *program;     /* path, not searched for */
    const char *const *argv; /* NULL-terminated, argv[0] first */
    const char *const *env;  /* NULL-terminated; NULL: ours */
    jb_view input;           /* its standard input; ptr NULL: /dev/null */
    int timeout_ms;
    jb_buf out, err;         /* in: caps (JB_BUF_INIT); out: what it printed, cut at the cap.  Caller frees. */
    int status;              /* out: of waitpid */
    int timed_out;           /* out: it was killed at the limit */
} jb_child;

/* JB_EIO when it could not be started, or what it was to read not be kept; how it
 * ended is in `c`.  Exit 127 without a word on stderr: it could not be executed. */
int jb_child_run(jb_child *c, jb_error *err);

/* One line for a person on how it failed: "was killed by signal 9: <last words>".
 * NULL when it exited with 0 in time.  Its words are escaped.  Returns `buf`. */
const char *jb_child_failure(const jb_child *c, char *buf, size_t size);

#endif
