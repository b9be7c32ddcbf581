/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/probe.c - what the worker says about this machine: run it with
 * --probe and read the one JSON object that it prints. */
#include "core/cli/internal.h"

#include "core/base/error.h"
#include "core/cli/child.h"

#define OUT_MAX (1u << 20)
#define ERR_MAX (64u << 10)

cJSON *jb_cli_probe(const char *worker, int timeout_ms, jb_error *err)
{
    static const char *const argv[] = { "jaxbench-worker", "--probe", NULL };
    jb_child c = { .program = worker, .argv = argv, .timeout_ms = timeout_ms, .out = JB_BUF_INIT(OUT_MAX), .err = JB_BUF_INIT(ERR_MAX) };
    cJSON *o = NULL;
    char words[500];
    if (!jb_fs_exists(worker)) {
        jb_err(err, JB_ENOTFOUND, "there is no worker at %s", worker);
        jb_err_hint(err, "build it (cmake --build build), run ./quickstart, or set JAXBENCH_WORKER");
        return NULL;
    }
    if (jb_child_run(&c, err) != 0) return NULL;
    if (jb_child_failure(&c, words, sizeof words)) {
        jb_err(err, c.timed_out ? JB_ETIMEOUT : JB_EIO, "%s --probe %s", worker, words);
        jb_err_hint(err, "run ./quickstart again: it rebuilds the venv and the worker; if that doesn't help, run the worker with --probe yourself");
    } else {
        o = jb_json_parse(c.out.ptr ? c.out.ptr : "", c.out.len, err);
        if (!o) jb_err_context(err, "%s --probe printed no JSON", worker);
    }
    jb_buf_free(&c.out);
    jb_buf_free(&c.err);
    return o;
}
