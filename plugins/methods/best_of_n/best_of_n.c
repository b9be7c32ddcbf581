/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/methods/best_of_n/best_of_n.c - method `best_of_n`: ask N times, keep
 * what is right.
 *
 * Every sample is a lane of its own: one prompt, one reply, one evaluation, no
 * feedback.  All calls are submitted at start, so the core may run as many at
 * once as its slots allow; the result does not depend on that.  Which candidate is
 * the best is the core's to say.
 *
 *     start: llm x N  --reply-->  evaluate  --record-->  count; after the last: finish
 *
 * The budget ends a cell early: what was admitted is delivered and evaluated.  A
 * provider that fails, after the host's retries, costs no sample and brings no
 * candidate; its lane ends. */
#include <jaxbench/method.h>

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

struct config {
    int64_t samples;
    double temperature;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_INT, .offset = offsetof(struct config, samples), .name = "samples",
      .def = "12", .min = 1, .max = 100000, .unit = "samples", .help = "How many independent replies to ask for in each cell." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, temperature),
      .name = "temperature", .def = "1.0", .min = 0, .max = 2, .help = "Sampling temperature; a backend without one ignores it." },
};

struct method {
    const jb_host *host;
    const struct config *config;
    const jb_llm_service *llm;
    const jb_eval_service *eval;
    const jb_cell_service *cell;
    const jb_template_service *templates;
    int64_t open; /* operations that will still bring an event */
};

static int fail(jb_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "best_of_n: %s", text);
    return code;
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    struct method *m = calloc(1, sizeof *m);
    if (m == NULL) return fail(err, JB_ENOMEM, "out of memory");
    m->host = host;
    m->config = config;
    m->llm = host->service(host, JB_SERVICE_LLM);
    m->eval = host->service(host, JB_SERVICE_EVAL);
    m->cell = host->service(host, JB_SERVICE_CELL);
    m->templates = host->service(host, JB_SERVICE_TEMPLATE);
    if (m->llm == NULL || m->eval == NULL || m->cell == NULL || m->templates == NULL) {
        free(m);
        return fail(err, JB_EABI, "needs the services llm/1, eval/1, cell/1 and template/1; this host lacks one");
    }
    *out = m;
    return 0;
}

static void destroy(void *self) { free(self); }

static int finish_when_idle(struct method *m, jb_error *err) { return m->open > 0 ? 0 : m->cell->finish(m->host, err); }

static int start(void *self, jb_error *err)
{
    struct method *m = self;
    jb_view prompt;
    int status = m->templates->render(m->host, "prompt.md", NULL, 0, &prompt, err);
    if (status != 0) return status;
    jb_message message = { .role = JB_ROLE_USER, .text = prompt };
    for (int64_t lane = 0; lane < m->config->samples; lane++) {
        jb_llm_call call = { .struct_size = sizeof call, .purpose = JB_PURPOSE_SAMPLE, .message_count = 1, .messages = &message,
                             .lane = (uint64_t)lane, .turn = 0, .temperature = m->config->temperature };
        uint64_t op;
        status = m->llm->complete(m->host, &call, &op, err);
        if (status == JB_EBUDGET) break; /* the lanes so far are the whole cell */
        if (status != 0) return status;
        m->open++;
    }
    return finish_when_idle(m, err);
}

/* A reply becomes a candidate; every other event only ends its lane. */
static int on_event(void *self, const jb_event *event, jb_error *err)
{
    struct method *m = self;
    m->open--;
    if (event->kind == JB_OP_LLM && event->status == JB_OP_DONE) {
        jb_eval_request request = { .struct_size = sizeof request, .lane = event->lane };
        uint64_t candidate, op;
        int status = m->eval->reply(m->host, event->op, &request, &candidate, &op, err);
        if (status == 0) m->open++;
        else if (status != JB_EBUDGET) return status;
    }
    return finish_when_idle(m, err);
}

static int64_t samples(const void *config) { return ((const struct config *)config)->samples; }

static const jb_method_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .start = start, .on_event = on_event, .samples = samples,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_METHOD, .name = "best_of_n",
    .summary = "N independent samples, no feedback",
    .help = "Asks the backend N times with the same prompt and evaluates every reply. The baseline that every other method must beat at "
            "equal cost.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.best_of_n",
    .version = "1.0.0", .summary = "Method best_of_n", .license = "Apache-2.0", .components = components,
};
