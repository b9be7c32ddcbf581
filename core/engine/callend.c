/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/callend.c - what the end of a call means: a reply, another try, a
 * failed operation, or the end of the run.
 *
 *     class        tried again   then
 *     rate limit   yes           operation failed; the run ends when retries are off
 *     transient    yes           operation failed
 *     empty        yes           operation failed
 *     auth         if it worked  the run ends
 *     quota        no            the run ends
 *     permanent    no            operation failed; the run ends if no call ever worked
 *     too long     no            operation failed
 *     refused      no            operation failed
 *
 * A failed operation is the provider's failure: no sample is charged for it. */
#include "core/engine/callstate.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TELL_MS 5000 /* between two lines about retries of one backend */

/* By JB_LLM_*. */
static const struct { const char *word; int retried, if_answered, ends_run; } CLASSES[] = {
    [0] = { "?", 0, 0, 0 },
    [JB_LLM_RATE_LIMIT] = { "rate-limit", 1, 0, 0 },
    [JB_LLM_QUOTA] = { "quota", 0, 0, 1 },
    [JB_LLM_AUTH] = { "auth", 0, 1, 1 },
    [JB_LLM_TOO_LONG] = { "too-long", 0, 0, 0 },
    [JB_LLM_REFUSED] = { "refused", 0, 0, 0 },
    [JB_LLM_EMPTY] = { "empty", 1, 0, 0 },
    [JB_LLM_TRANSIENT] = { "transient", 1, 0, 0 },
    [JB_LLM_PERMANENT] = { "permanent", 0, 0, 0 },
};
#define CLASS_COUNT (sizeof CLASSES / sizeof CLASSES[0])

const char *jb_llm_class_name(uint32_t class) { return CLASSES[class < CLASS_COUNT ? class : 0].word; }

uint32_t jb_llm_class_from_name(const char *name)
{
    for (uint32_t c = 1; c < CLASS_COUNT; c++)
        if (strcmp(CLASSES[c].word, name) == 0) return c;
    return 0;
}

/* ---- from HTTP to a reply ------------------------------------------------------------- */

static void failed(jb_reply *r, uint32_t class, const char *text)
{
    *r = (jb_reply){ .struct_size = sizeof *r, .error_class = class, .usage = { -1, -1, -1, -1, -1 } };
    snprintf(r->message, sizeof r->message, "%.255s", text);
}

/* The plugin reads the answer; what it says is scrubbed again, since it may have
 * unescaped a key that the raw body hid. */
static void decode(jb_engine *e, jb_call *call, const jb_http_result *h, jb_reply *r)
{
    jb_cell *c = call->cell;
    const jb_backend_ops *b = c->plan->backend->ops;
    jb_error err = JB_ERROR_INIT;
    jb_http_response in = { .struct_size = sizeof in, .status = h->status, .header_count = (uint32_t)h->header_count,
                            .headers = h->headers, .body = { h->body ? h->body : "", h->body_len } };
    *r = (jb_reply){ .struct_size = sizeof *r, .finish = JB_FINISH_STOP, .usage = { -1, -1, -1, -1, -1 } };
    jb_arena_reset(c->backend_arena);
    int rc = b->decode(c->backend, &in, r, &err);
    if (rc != 0) failed(r, JB_LLM_PERMANENT, err.message[0] ? err.message : "the backend could not read the answer and gave no reason");
    if (r->error_class >= CLASS_COUNT) r->error_class = JB_LLM_PERMANENT;
    if (r->error_class == 0 && r->text.len > JB_REPLY_MAX) failed(r, JB_LLM_PERMANENT, "the reply is longer than 64 MiB");
    r->message[sizeof r->message - 1] = '\0';
    jb_secrets_scrub(e->calls->secrets, r->message, sizeof r->message);
}

static void read_answer(jb_engine *e, jb_call *call, const jb_http_result *h, jb_reply *r)
{
    static const uint32_t CLASS_OF_END[] = {
        [JB_HTTP_CONNECT] = JB_LLM_TRANSIENT, [JB_HTTP_CUT] = JB_LLM_TRANSIENT, [JB_HTTP_TIMEOUT] = JB_LLM_TRANSIENT,
        [JB_HTTP_TLS] = JB_LLM_PERMANENT, [JB_HTTP_TOO_LARGE] = JB_LLM_PERMANENT, [JB_HTTP_BAD] = JB_LLM_PERMANENT,
    };
    char text[200];
    if (h->end != JB_HTTP_ANSWERED) {
        failed(r, CLASS_OF_END[h->end], h->message);
    } else if (h->status >= 300 && h->status < 400) {
        jb_view to = jb_http_header(h, "Location");
        snprintf(text, sizeof text, "HTTP %u: the server redirects to \"%.*s\", which is not followed; set base_url to it", h->status,
                 (int)(to.len < 100 ? to.len : 100), to.ptr ? to.ptr : "");
        failed(r, JB_LLM_PERMANENT, text);
        jb_secrets_scrub(e->calls->secrets, r->message, sizeof r->message);
    } else {
        decode(e, call, h, r);
    }
}

static int64_t asked_to_wait(const jb_http_result *h, const jb_reply *r)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    jb_view v = jb_http_header(h, "Retry-After");
    int64_t ms = v.ptr ? jb_retry_after(v, (int64_t)t.tv_sec) : -1, plugin = (int64_t)r->retry_after_s * 1000;
    return plugin > 0 && plugin > ms ? plugin : ms;
}

/* ---- what to do about a failure -------------------------------------------------------- */

typedef struct verdict { int64_t wait_ms; int ends_run; } verdict; /* wait_ms -1: no other try */

static verdict judge(const jb_call *call, const jb_reply *r, int64_t retry_after_ms, int draining)
{
    const jb_gate *g = call->cell->gate;
    uint32_t class = r->error_class;
    verdict v = { -1, CLASSES[class].ends_run };
    if (draining) return v;
    if (CLASSES[class].retried || (CLASSES[class].if_answered && g->answered))
        v.wait_ms = jb_retry_wait(&g->rules.retry, g->jitter, call->op->seed, call->failed, jb_calls_now_ms() - call->first_ms, retry_after_ms);
    if (class == JB_LLM_PERMANENT && !g->answered) v.ends_run = 1;
    if (class == JB_LLM_RATE_LIMIT && g->rules.retry.retries == 0) v.ends_run = 1;
    return v;
}

static int journal_fail(jb_engine *e, const jb_call *call, const jb_reply *r, const jb_http_result *h, int64_t wait_ms, jb_error *err)
{
    cJSON *b = cJSON_CreateObject(), *usage = jb_usage_json(&r->usage);
    int rc = b && usage ? jb_json_set_str(b, "cell", call->cell->plan->key) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(b, "op", (int64_t)call->op->id);
    if (rc == 0) rc = jb_json_set_i64(b, "attempt", call->sends);
    if (rc == 0) rc = jb_json_set_str(b, "class", jb_llm_class_name(r->error_class));
    if (rc == 0 && h && h->status) rc = jb_json_set_i64(b, "http_status", h->status);
    if (rc == 0) rc = jb_json_set_view(b, "message", (jb_view){ r->message, strnlen(r->message, sizeof r->message) });
    if (rc == 0 && wait_ms >= 0) rc = jb_json_set_i64(b, "wait_ms", wait_ms);
    if (rc == 0 && usage->child && cJSON_AddItemToObject(b, "usage", usage)) usage = NULL; /* it failed and was paid for */
    if (rc != 0) jb_err(err, rc, "journal: out of memory");
    if (rc == 0) rc = jb_journal_append(e->journal, "call_fail", b, NULL, err);
    cJSON_Delete(usage);
    cJSON_Delete(b);
    return rc;
}

static void tell_retry(jb_engine *e, const jb_call *call, const jb_reply *r, int64_t wait_ms)
{
    jb_gate *g = call->cell->gate;
    char text[420];
    int n = snprintf(text, sizeof text, "%s: %s (%.250s), again in %.1f s", g->name, jb_llm_class_name(r->error_class), r->message, (double)wait_ms / 1e3);
    jb_engine_log(e, call->cell->plan->key, JB_LOG_INFO, (jb_view){ text, n < (int)sizeof text ? (uint64_t)n : sizeof text - 1 });
    int64_t now = jb_calls_now_ms();
    if (g->told_ms && now - g->told_ms < TELL_MS) return;
    g->told_ms = now;
    jb_progress_note(e->o->progress, text);
}

static void end_run(jb_engine *e, const jb_gate *g, const jb_reply *r)
{
    static const struct { uint32_t class; const char *text, *hint; } WORDS[] = {
        { JB_LLM_AUTH, "does not accept the key", "check the variable that key_env names, then jaxbench resume goes on" },
        { JB_LLM_QUOTA, "has no quota left", "top up or wait, then jaxbench resume goes on" },
        { JB_LLM_RATE_LIMIT, "limits the rate, and retries are off", "set on_error.call_retries or limits.rpm, or resume later" },
        { JB_LLM_PERMANENT, "refuses what it is asked", "check base_url, model and the other options of the backend" },
    };
    jb_engine_result *out = e->result;
    if (out->end) return; /* the first reason counts */
    out->end = JB_END_PROVIDER;
    out->provider_class = r->error_class;
    for (size_t i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++) {
        if (WORDS[i].class != r->error_class) continue;
        jb_err(&out->provider, JB_EIO, "backend %s %s: %.250s", g->name, WORDS[i].text, r->message);
        jb_err_hint(&out->provider, "%s", WORDS[i].hint);
        if (r->error_class == JB_LLM_QUOTA || r->error_class == JB_LLM_RATE_LIMIT) out->provider.flags |= JB_ERR_RETRYABLE;
    }
}

static void settle(jb_engine *e, jb_call *call, const jb_reply *r)
{
    jb_error err = JB_ERROR_INIT;
    jb_cell *c = call->cell;
    jb_op *op = call->op;
    int rc = jb_cell_take_reply(c, op, r, call->sends, &err);
    jb_calls_drop(e->calls, call);
    if (rc != 0) jb_engine_fatal(e, rc, &err);
}

static void fail_or_retry(jb_engine *e, jb_call *call, const jb_reply *r, const jb_http_result *h, int64_t retry_after_ms)
{
    jb_error err = JB_ERROR_INIT;
    jb_gate *g = call->cell->gate;
    call->failed++;
    verdict v = judge(call, r, retry_after_ms, e->calls->draining);
    int rc = journal_fail(e, call, r, h, v.wait_ms, &err);
    if (rc != 0) {
        jb_engine_fatal(e, rc, &err);
    } else if (v.wait_ms >= 0) {
        call->due_ms = jb_calls_now_ms() + v.wait_ms;
        if (r->error_class == JB_LLM_RATE_LIMIT) jb_rate_block(&g->rate, call->due_ms);
        tell_retry(e, call, r, v.wait_ms);
    } else if (v.ends_run || e->calls->draining) {
        if (v.ends_run) end_run(e, g, r);
        call->op->state = JB_OP_QUEUED; /* stays open: resume sends it again */
        jb_calls_drop(e->calls, call);
    } else {
        settle(e, call, r);
    }
}

/* ---- entry points ---------------------------------------------------------------------------- */

static int64_t tokens_of(const jb_usage *u)
{
    const int64_t parts[] = { u->input_uncached, u->cache_read, u->cache_write, u->output, u->reasoning };
    int64_t sum = 0, known = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i] >= 0) { sum += parts[i]; known = 1; }
    return known ? sum : -1;
}

void jb_calls_ended(jb_engine *e, jb_call *call, jb_http_result *h)
{
    jb_cell *c = call->cell;
    jb_reply r;
    read_answer(e, call, h, &r);
    jb_rate_end(&c->gate->rate, jb_calls_now_ms(), call->estimate, tokens_of(&r.usage));
    if (r.error_class == 0) {
        c->gate->answered = 1;
        settle(e, call, &r);
    } else {
        fail_or_retry(e, call, &r, h, asked_to_wait(h, &r));
    }
    jb_arena_reset(c->backend_arena);
}

void jb_calls_refused_locally(jb_engine *e, jb_call *call, const jb_error *why)
{
    jb_reply r;
    failed(&r, JB_LLM_PERMANENT, why->message);
    jb_secrets_scrub(e->calls->secrets, r.message, sizeof r.message);
    fail_or_retry(e, call, &r, NULL, -1);
}
