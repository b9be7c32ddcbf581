/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/calls.c - see calls.h.  What an end means is in callend.c. */
#include "core/engine/calls.h"

#include "core/base/error.h"
#include "core/engine/callstate.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define SIGNAL_DRAIN_MS 10000 /* a person waits */
#define BYTES_PER_TOKEN 4     /* a rough estimate, corrected when the call has ended */

int64_t jb_calls_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int jb_backend_is_remote(const jb_component *b)
{
    const jb_backend_ops *ops = b ? b->ops : NULL;
    if (!ops || (JB_HAS(ops, jb_backend_ops, complete) && ops->complete)) return 0;
    return JB_HAS(ops, jb_backend_ops, decode) && ops->encode && ops->decode;
}

/* ---- gates ----------------------------------------------------------------------------- */

int jb_backend_key_variable(const jb_component *b, const cJSON *options, char **out, jb_error *err)
{
    jb_config *cfg = NULL;
    *out = NULL;
    int rc = jb_config_new(b, options, &cfg, err);
    for (uint32_t i = 0; rc == 0 && i < jb_options_count(b) && !*out; i++) {
        const jb_option *o = jb_options_at(b, i);
        if (o->type != JB_OPT_STRING || !(o->flags & JB_OPTF_SECRET)) continue;
        const char *name;
        memcpy(&name, (const char *)jb_config_data(cfg) + o->offset, sizeof name);
        if (name && name[0] && !(*out = jb_strdup(name))) rc = jb_err(err, JB_ENOMEM, "out of memory");
    }
    jb_config_free(cfg);
    return rc;
}

static int same_gate(const jb_gate *g, const jb_cell_plan *p)
{
    return g->component == p->backend && g->limits == p->limits && g->options == p->backend_options;
}

static jb_gate *gate_of(const jb_engine *e, const jb_cell_plan *p)
{
    for (size_t i = 0; e->calls && i < e->calls->gate_count; i++)
        if (same_gate(&e->calls->gates[i], p)) return &e->calls->gates[i];
    return NULL;
}

static void add_gate(jb_calls *k, const jb_cell_plan *p)
{
    static const jb_call_limits DEFAULTS = JB_CALL_LIMITS_DEFAULT;
    jb_gate *g = &k->gates[k->gate_count++];
    *g = (jb_gate){ .component = p->backend, .limits = p->limits, .options = p->backend_options,
                    .name = p->backend_name ? p->backend_name : p->backend->name, .rules = p->limits ? *p->limits : DEFAULTS };
    jb_rate_init(&g->rate, &g->rules.rate, jb_calls_now_ms());
    g->jitter = jb_rng_key_of(g->name);
}

static int take_key(jb_calls *k, jb_gate *g, jb_error *err)
{
    char *variable = NULL;
    int rc = jb_backend_key_variable(g->component, g->options, &variable, err);
    if (rc == 0 && variable) rc = jb_secrets_take(k->secrets, variable, &g->key, err);
    jb_free(variable);
    if (rc != 0) jb_err_context(err, "backend %s", g->name);
    return rc;
}

int jb_calls_open(jb_engine *e, jb_error *err)
{
    size_t cells = e->o->cell_count, remote = 0;
    for (size_t i = 0; i < cells; i++) remote += (size_t)jb_backend_is_remote(e->o->cells[i].backend);
    if (!remote) return 0;
    jb_calls *k = e->calls = jb_alloc(sizeof *k);
    if (!k) return jb_err(err, JB_ENOMEM, "run: out of memory");
    k->gates = jb_alloc_array(remote, sizeof *k->gates);
    k->secrets = jb_secrets_new();
    int rc = k->gates && k->secrets ? jb_http_new(&k->http, err) : jb_err(err, JB_ENOMEM, "run: out of memory");
    for (size_t i = 0; rc == 0 && i < cells; i++) {
        const jb_cell_plan *p = &e->o->cells[i];
        if (!jb_backend_is_remote(p->backend)) continue;
        if (!gate_of(e, p)) add_gate(k, p);
        jb_gate *g = gate_of(e, p);
        e->cells[i].gate = g;
        if (e->cells[i].replay.ended || g->key_known) continue; /* a finished run needs no key */
        rc = take_key(k, g, err);
        g->key_known = 1;
    }
    return rc;
}

void jb_calls_close(jb_engine *e)
{
    jb_calls *k = e->calls;
    if (!k) return;
    jb_http_free(k->http);
    for (size_t i = 0; i < k->count; i++) jb_free(k->list[i]);
    jb_free(k->list);
    jb_free(k->gates);
    jb_secrets_free(k->secrets);
    jb_free(k);
    e->calls = NULL;
}

void jb_calls_worked(jb_cell *c)
{
    if (c->gate) c->gate->answered = 1;
}

/* ---- the list ------------------------------------------------------------------------------ */

static jb_call *call_new(jb_calls *k, jb_cell *c, jb_op *op)
{
    if (k->count == k->cap) {
        size_t cap = k->cap ? 2 * k->cap : 16;
        jb_call **grown = jb_realloc(k->list, cap * sizeof *grown);
        if (!grown) return NULL;
        k->list = grown;
        k->cap = cap;
    }
    jb_call *call = jb_alloc(sizeof *call);
    if (!call) return NULL;
    *call = (jb_call){ .cell = c, .op = op, .first_ms = jb_calls_now_ms() };
    jb_replay_op *known = jb_replay_find(c, op->id);
    call->sends = known ? known->sends : 0;
    k->list[k->count++] = call;
    return call;
}

void jb_calls_drop(jb_calls *k, jb_call *call)
{
    for (size_t i = 0; i < k->count; i++) {
        if (k->list[i] != call) continue;
        memmove(k->list + i, k->list + i + 1, (k->count - i - 1) * sizeof *k->list);
        k->count--;
        jb_budget_release_call(call->cell->e, call->op);
        jb_free(call);
        return;
    }
}

void jb_calls_cancel(jb_cell *c, jb_op *op)
{
    jb_calls *k = c->e->calls;
    for (size_t i = 0; k && i < k->count; i++) {
        jb_call *call = k->list[i];
        if (call->op != op) continue;
        if (call->tag) {
            jb_http_cancel(k->http, call->tag);
            jb_rate_end(&c->gate->rate, jb_calls_now_ms(), call->estimate, -1);
            c->gate->next_ms = 0;
            op->executed = 1; /* the provider may charge for it */
        }
        jb_calls_drop(k, call);
        return;
    }
}

/* ---- sending -------------------------------------------------------------------------------- */

static int hash_request(const jb_http_request *q, char out[JB_HASH_HEX])
{
    jb_hasher *h = jb_hasher_new();
    if (!h) return JB_ENOMEM;
    jb_hasher_field(h, "method", q->method.ptr, (size_t)q->method.len);
    jb_hasher_field(h, "url", q->url.ptr, (size_t)q->url.len);
    for (uint32_t i = 0; i < q->header_count; i++) jb_hasher_field(h, "header", q->headers[i].ptr, (size_t)q->headers[i].len);
    jb_hasher_field(h, "body", q->body.ptr, (size_t)q->body.len);
    jb_hasher_done(h, out);
    return 0;
}

/* The intent, on disk before a byte leaves. */
static int journal_send(jb_engine *e, const jb_call *call, const char *hash, jb_error *err)
{
    cJSON *b = cJSON_CreateObject();
    int rc = b ? jb_json_set_str(b, "cell", call->cell->plan->key) : JB_ENOMEM;
    if (rc == 0) rc = jb_json_set_i64(b, "op", (int64_t)call->op->id);
    if (rc == 0) rc = jb_json_set_i64(b, "attempt", call->sends + 1);
    if (rc == 0) rc = jb_json_set_str(b, "request", hash);
    if (rc != 0) jb_err(err, rc, "journal: out of memory");
    if (rc == 0) rc = jb_journal_append(e->journal, "call_send", b, NULL, err);
    if (rc == 0) rc = jb_journal_sync(e->journal, err);
    cJSON_Delete(b);
    return rc;
}

/* A key that others on the way can read is worth a line. */
static void warn_plain(jb_engine *e, jb_gate *g, jb_view url)
{
    static const char *const LOCAL[] = { "127.", "localhost", "[::1]" };
    char text[160];
    if (g->warned || url.len < 8 || strncasecmp(url.ptr, "http://", 7) != 0) return;
    for (size_t i = 0; i < sizeof LOCAL / sizeof LOCAL[0]; i++)
        if (url.len > 7 + strlen(LOCAL[i]) && strncasecmp(url.ptr + 7, LOCAL[i], strlen(LOCAL[i])) == 0) return;
    g->warned = 1;
    int n = snprintf(text, sizeof text, "backend %.60s: base_url is http://, so its key travels unencrypted", g->name);
    jb_engine_log(e, "", JB_LOG_WARN, (jb_view){ text, (uint64_t)n });
    jb_progress_note(e->o->progress, text);
}

static int hand_to_http(jb_engine *e, jb_call *call, const jb_http_request *q, jb_error *err)
{
    jb_calls *k = e->calls;
    const jb_gate *g = call->cell->gate;
    jb_http_call h = { .method = q->method, .url = q->url, .headers = q->headers, .header_count = q->header_count,
                       .key = g->key, .body = q->body, .timeouts = g->rules.timeouts };
    char prefix[32] = "";
    if (q->auth_scheme) {
        snprintf(prefix, sizeof prefix, "%.24s ", q->auth_scheme);
        h.auth_name = "Authorization";
        h.auth_prefix = prefix;
    } else {
        h.auth_name = q->auth_header;
    }
    if (h.key && h.auth_name) warn_plain(e, call->cell->gate, h.url);
    uint64_t tag = ++k->next_tag;
    int rc = jb_http_send(k->http, &h, tag, err);
    if (rc == 0) call->tag = tag;
    return rc;
}

/* Encode; 0: `q` is a request in the arena of the cell. */
static int encode(jb_call *call, jb_http_request *q, jb_error *err)
{
    jb_cell *c = call->cell;
    const jb_backend_ops *b = c->plan->backend->ops;
    jb_request r;
    jb_cell_request(c, call->op, &r);
    *q = (jb_http_request){ .struct_size = sizeof *q };
    jb_arena_reset(c->backend_arena);
    int rc = b->encode(c->backend, &r, q, err);
    if (rc != 0 && !err->code) jb_err(err, rc, "encode returned %d without saying why", rc);
    if (rc == 0 && q->header_count && !q->headers) rc = jb_err(err, JB_EINVAL, "encode gave %u headers and no list", q->header_count);
    return rc;
}

static int64_t estimate_of(const jb_http_request *q) { return q->tokens > 0 ? q->tokens : (int64_t)(q->body.len / BYTES_PER_TOKEN) + 1; }

/* 1: sent or ended, 0: has to wait (gate->next_ms is set). */
static int send_one(jb_engine *e, jb_call *call)
{
    jb_gate *g = call->cell->gate;
    jb_error err = JB_ERROR_INIT;
    jb_http_request q;
    char hash[JB_HASH_HEX];
    int rc = encode(call, &q, &err);
    if (rc == 0) {
        int64_t estimate = estimate_of(&q), now = jb_calls_now_ms(), wait = jb_rate_start(&g->rate, now, estimate);
        if (wait != 0) {
            g->next_ms = wait > 0 ? now + wait : INT64_MAX;
            jb_arena_reset(call->cell->backend_arena);
            return 0;
        }
        call->estimate = estimate;
        rc = hash_request(&q, hash);
        if (rc == 0) rc = journal_send(e, call, hash, &err);
        if (rc != 0) return jb_engine_fatal(e, rc, &err), 1;
        call->sends++;
        rc = hand_to_http(e, call, &q, &err);
        if (rc != 0) jb_rate_end(&g->rate, now, estimate, 0);
    }
    jb_arena_reset(call->cell->backend_arena);
    if (rc != 0) jb_calls_refused_locally(e, call, &err);
    return 1;
}

/* Calls whose back-off is over come before new ones. */
static int send_retries(jb_engine *e)
{
    jb_calls *k = e->calls;
    int64_t now = jb_calls_now_ms();
    int did = 0;
    for (size_t i = 0; i < k->count && !e->fatal && !e->result->end; i++) {
        jb_call *call = k->list[i];
        if (call->tag || call->due_ms > now || call->cell->gate->next_ms > now) continue;
        if (!send_one(e, call)) continue;
        did = 1;
        i = (size_t)-1; /* the list may have changed */
    }
    return did;
}

static jb_op *queued_op(jb_cell *c)
{
    if (c->state != JB_CELL_RUNNING) return NULL;
    for (size_t i = c->delivered; i < c->op_count; i++)
        if (c->ops[i]->kind == JB_OP_LLM && c->ops[i]->state == JB_OP_QUEUED) return c->ops[i];
    return NULL;
}

static int gate_closed(const jb_gate *g, int64_t now) { return g->next_ms > now || g->rate.flying >= g->rate.limits.in_flight; }

static int send_new(jb_engine *e)
{
    size_t cells = e->o->cell_count;
    int did = 0;
    for (size_t n = 0; n < cells && !e->fatal && !e->result->end; n++) {
        jb_cell *c = &e->cells[(e->next_llm_cell + n) % cells];
        jb_op *op;
        while (c->gate && !gate_closed(c->gate, jb_calls_now_ms()) && (op = queued_op(c))) {
            if (!jb_budget_admit_call(e, c->plan, op)) break; /* released when the call leaves the list */
            jb_call *call = call_new(e->calls, c, op);
            if (!call) return jb_engine_fatal(e, JB_ENOMEM, NULL), 1;
            op->state = JB_OP_WAITING;
            if (!send_one(e, call)) { /* stays in the list as one that is due */
                op->state = JB_OP_QUEUED;
                jb_calls_drop(e->calls, call);
                break;
            }
            did = 1;
            if (e->fatal || e->result->end) break;
        }
    }
    e->next_llm_cell = cells ? (e->next_llm_cell + 1) % cells : 0;
    return did;
}

/* ---- taking ------------------------------------------------------------------------------------ */

static jb_call *call_of(jb_calls *k, uint64_t tag)
{
    for (size_t i = 0; i < k->count; i++)
        if (k->list[i]->tag == tag) return k->list[i];
    return NULL;
}

static int take(jb_engine *e)
{
    jb_calls *k = e->calls;
    jb_error err = JB_ERROR_INIT;
    int did = 0, rc = jb_http_step(k->http, &err);
    if (rc != 0) return jb_engine_fatal(e, rc, &err), 1;
    for (jb_http_result *r; !e->fatal && (r = jb_http_next(k->http));) {
        jb_call *call = call_of(k, r->tag);
        if (!call) continue;
        call->tag = 0;
        jb_secrets_scrub(k->secrets, r->body, r->body_len);
        jb_calls_ended(e, call, r);
        did = 1;
    }
    return did;
}

int jb_calls_turn(jb_engine *e)
{
    jb_calls *k = e->calls;
    if (!k) return 0;
    int did = take(e);
    int64_t now = jb_calls_now_ms();
    for (size_t i = 0; i < k->gate_count; i++)
        if (did || k->gates[i].next_ms <= now) k->gates[i].next_ms = 0; /* an end may have made room */
    if (!e->fatal && !e->result->end) did |= send_retries(e);
    if (!e->fatal && !e->result->end) did |= send_new(e);
    return did;
}

void jb_calls_drain(jb_engine *e)
{
    jb_calls *k = e->calls;
    int64_t signalled = 0;
    if (!k || jb_http_count(k->http) == 0) return;
    char text[128];
    snprintf(text, sizeof text, "waiting for %zu replies that are being paid for", jb_http_count(k->http));
    jb_progress_note(e->o->progress, text);
    k->draining = 1;
    while (!e->fatal && jb_http_count(k->http) > 0) {
        int64_t now = jb_calls_now_ms(), wait = jb_http_timeout_ms(k->http);
        if (e->o->stop && *e->o->stop && !signalled) signalled = now;
        if (signalled && now - signalled >= SIGNAL_DRAIN_MS) break;
        if (wait < 0 || wait > 250) wait = 250;
        struct pollfd fd = { .fd = jb_http_fd(k->http), .events = POLLIN };
        (void)poll(&fd, 1, (int)wait);
        take(e);
    }
}

/* ---- for the loop ---------------------------------------------------------------------------------- */

int jb_calls_room(const jb_engine *e, const jb_cell *c)
{
    const jb_gate *g = c->gate;
    if (!g || gate_closed(g, jb_calls_now_ms())) return 0;
    int64_t mine = 0;
    for (size_t i = 0; i < e->calls->count; i++) mine += e->calls->list[i]->cell->gate == g;
    if (mine >= g->rate.limits.in_flight) return 0;
    for (size_t i = 0; i < e->o->cell_count; i++)
        if (e->cells[i].gate == g && queued_op(&e->cells[i])) return 0;
    return 1;
}

int jb_calls_fd(const jb_engine *e) { return e->calls ? jb_http_fd(e->calls->http) : -1; }

int64_t jb_calls_timeout_ms(const jb_engine *e)
{
    const jb_calls *k = e->calls;
    if (!k) return -1;
    int64_t now = jb_calls_now_ms(), first = INT64_MAX, wait = jb_http_timeout_ms(k->http);
    if (wait >= 0) first = now + wait;
    for (size_t i = 0; i < k->count; i++) {
        const jb_call *call = k->list[i];
        int64_t gate = call->cell->gate->next_ms, due = call->due_ms > gate ? call->due_ms : gate; /* a closed gate is no reason to hurry */
        if (!call->tag && due < first) first = due;
    }
    for (size_t i = 0; i < k->gate_count; i++)
        if (k->gates[i].next_ms > now && k->gates[i].next_ms < first) first = k->gates[i].next_ms;
    return first == INT64_MAX ? -1 : first > now ? first - now : 0;
}
