/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/host.c - the services of methods and backends: thin doors to the
 * cell behind host->ctx.  Whatever changes something is refused outside of a
 * handler. */
#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/engine/state.h"
#include "core/suite/template.h"

#include <string.h>

#define RENDERED_MAX ((size_t)64 << 20)

static jb_cell *cell_of(const jb_host *host) { return host->ctx; }

static int outside(const jb_cell *c, jb_error *err)
{
    if (c->in_handler && !c->e->fatal) return 0;
    return jb_err(err, JB_ESTATE, "a service of cell %s was called outside of a handler", c->plan->label);
}

/* ---- llm/1, eval/1, feedback/1, budget/1, cell/1 ----------------------------------------------- */

static int llm_complete(const jb_host *host, const jb_llm_call *call, uint64_t *op_out, jb_error *err)
{
    int rc = outside(cell_of(host), err);
    return rc ? rc : jb_submit_llm(cell_of(host), call, op_out, err);
}

static int eval_reply(const jb_host *host, uint64_t llm_op, const jb_eval_request *req, uint64_t *candidate_out,
                      uint64_t *op_out, jb_error *err)
{
    int rc = outside(cell_of(host), err);
    return rc ? rc : jb_submit_reply(cell_of(host), llm_op, req, candidate_out, op_out, err);
}

static int eval_source(const jb_host *host, jb_view source, const jb_eval_request *req, uint64_t *candidate_out,
                       uint64_t *op_out, jb_error *err)
{
    int rc = outside(cell_of(host), err);
    return rc ? rc : jb_submit_source(cell_of(host), source, req, candidate_out, op_out, err);
}

static int feedback_make(const jb_host *host, const jb_feedback_request *req, jb_feedback *out, jb_error *err)
{
    int rc = outside(cell_of(host), err);
    return rc ? rc : jb_feedback_make(cell_of(host), req, out, err);
}

static int64_t budget_samples_left(const jb_host *host) { return jb_ledger_left(&cell_of(host)->ledger); }

static jb_view cell_fact(const jb_host *host, const char *key)
{
    const char *text = jb_json_str(cell_of(host)->plan->facts, key, NULL);
    return text ? (jb_view){ text, strlen(text) } : (jb_view){ NULL, 0 };
}

static int cell_finish(const jb_host *host, jb_error *err)
{
    int rc = outside(cell_of(host), err);
    if (rc == 0) cell_of(host)->finished = 1; /* carried out when the handler has returned */
    return rc;
}

/* ---- template/1 ------------------------------------------------------------------------ */

static int template_render(const jb_host *host, const char *file, const jb_view *pairs, uint32_t pair_count, jb_view *out, jb_error *err)
{
    jb_cell *c = cell_of(host);
    int rc = outside(c, err);
    if (rc != 0) return rc;
    if (!c->plan->method_data) return jb_err(err, JB_ENOTFOUND, "the method %s has no folder of templates", c->plan->method->name);
    if (!file || !file[0] || file[0] == '.' || strchr(file, '/')) return jb_err(err, JB_EINVAL, "a template is a file name without a folder");
    jb_buf done = JB_BUF_INIT(RENDERED_MAX);
    char *path = jb_fs_join(c->plan->method_data, file);
    rc = path ? jb_template_render_file(path, pairs, pair_count, c->plan->facts, &done, err)
              : jb_err(err, JB_ENOMEM, "template %s: out of memory", file);
    if (rc == 0) {
        char *kept = jb_arena_alloc(c->arena, done.len + 1);
        if (!kept) rc = jb_err(err, JB_ENOMEM, "template %s: out of memory", file);
        else if (done.len) memcpy(kept, done.ptr, done.len);
        *out = (jb_view){ kept, done.len };
    }
    jb_free(path);
    jb_buf_free(&done);
    return rc;
}

/* ---- log/1, arena/1, rng/1 ---------------------------------------------------------------- */

static void log_line(const jb_host *host, uint32_t level, jb_view text)
{
    jb_cell *c = cell_of(host);
    jb_engine_log(c->e, c->plan->key, level, text);
}

static void *arena_method(const jb_host *host, uint64_t bytes) { return jb_arena_alloc(cell_of(host)->arena, (size_t)bytes); }
static void *arena_backend(const jb_host *host, uint64_t bytes) { return jb_arena_alloc(cell_of(host)->backend_arena, (size_t)bytes); }

static uint64_t rng_u64(const jb_host *host, uint64_t stream, uint64_t counter)
{
    return jb_rng_u64(cell_of(host)->rng, stream, counter);
}

static double rng_uniform(const jb_host *host, uint64_t stream, uint64_t counter)
{
    return jb_rng_uniform(cell_of(host)->rng, stream, counter);
}

/* ---- tables --------------------------------------------------------------------------------- */

static const jb_llm_service LLM = { sizeof LLM, 0, llm_complete };
static const jb_eval_service EVAL = { sizeof EVAL, 0, eval_reply, eval_source };
static const jb_feedback_service FEEDBACK = { sizeof FEEDBACK, 0, feedback_make };
static const jb_cell_service CELL = { sizeof CELL, 0, cell_fact, cell_finish };
static const jb_budget_service BUDGET = { sizeof BUDGET, 0, budget_samples_left };
static const jb_template_service TEMPLATE = { sizeof TEMPLATE, 0, template_render };
static const jb_log_service LOG = { sizeof LOG, 0, log_line };
static const jb_rng_service RNG = { sizeof RNG, 0, rng_u64, rng_uniform };
static const jb_arena_service ARENA_METHOD = { sizeof ARENA_METHOD, 0, arena_method };
static const jb_arena_service ARENA_BACKEND = { sizeof ARENA_BACKEND, 0, arena_backend };

typedef struct row { const char *id; const void *table; } row;

static const row METHOD_SERVICES[] = {
    { JB_SERVICE_LLM, &LLM },       { JB_SERVICE_EVAL, &EVAL }, { JB_SERVICE_CELL, &CELL },
    { JB_SERVICE_FEEDBACK, &FEEDBACK },
    { JB_SERVICE_BUDGET, &BUDGET }, { JB_SERVICE_TEMPLATE, &TEMPLATE },
    { JB_SERVICE_LOG, &LOG },       { JB_SERVICE_RNG, &RNG },   { JB_SERVICE_ARENA, &ARENA_METHOD },
};
static const row BACKEND_SERVICES[] = { { JB_SERVICE_LOG, &LOG }, { JB_SERVICE_RNG, &RNG }, { JB_SERVICE_ARENA, &ARENA_BACKEND } };

static const void *find(const row *rows, size_t count, const char *id)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(rows[i].id, id) == 0) return rows[i].table;
    return NULL;
}

static const void *method_service(const jb_host *host, const char *id)
{
    if (strcmp(id, JB_SERVICE_LLM) == 0 && !cell_of(host)->plan->backend) return NULL;
    return find(METHOD_SERVICES, sizeof METHOD_SERVICES / sizeof METHOD_SERVICES[0], id);
}

static const void *backend_service(const jb_host *host, const char *id)
{
    (void)host;
    return find(BACKEND_SERVICES, sizeof BACKEND_SERVICES / sizeof BACKEND_SERVICES[0], id);
}

void jb_host_bind(jb_cell *c)
{
    c->host = (jb_host){ sizeof c->host, JB_ABI_MAJOR, JB_ABI_MINOR, c, method_service };
    c->backend_host = (jb_host){ sizeof c->backend_host, JB_ABI_MAJOR, JB_ABI_MINOR, c, backend_service };
}
