/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/openai/openai.c - backend `openai`: Chat Completions, as OpenAI
 * and most servers of models speak it.
 *
 * It translates and does nothing else: no socket, no clock, no key.  The body is
 * built from the options and the messages in a fixed order, so that equal requests
 * are equal bytes.  `extra_body` is merged in last and may replace any field. */
#include "parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS_MAX 16u
#define DEFAULT_URL "https://api.openai.com/v1"

struct config {
    const char *base_url, *model, *key_env, *max_tokens_field, *reasoning_effort, *headers, *extra_body, *omit;
    double temperature, top_p;
    int64_t max_tokens, stream, seed;
};

static const char *const FIELDS[] = { "auto", "max_tokens", "max_completion_tokens", NULL };

#define OPTION(field, kind, ...) { .struct_size = sizeof(jb_option), .type = kind, .offset = offsetof(struct config, field), .name = #field, __VA_ARGS__ }
static const jb_option options[] = {
    OPTION(base_url, JB_OPT_STRING, .def = DEFAULT_URL, .help = "Where the server is; /chat/completions is added."),
    OPTION(model, JB_OPT_STRING, .flags = JB_OPTF_REQUIRED, .help = "Name of the model, as the server knows it."),
    OPTION(key_env, JB_OPT_STRING, .flags = JB_OPTF_SECRET, .help = "Name of the environment variable that holds the key; unset: no key is sent."),
    OPTION(max_tokens, JB_OPT_INT, .def = "0", .min = 0, .max = 10000000, .unit = "tokens", .help = "Limit of a reply, reasoning included; 0: the server's own."),
    OPTION(max_tokens_field, JB_OPT_ENUM, .flags = JB_OPTF_ADVANCED, .def = "auto", .choices = FIELDS,
           .help = "How the limit is called; auto: max_completion_tokens at api.openai.com, else max_tokens."),
    OPTION(temperature, JB_OPT_FLOAT, .def = "-1", .min = -1, .max = 2, .help = "Sampling temperature; -1: what the method asks for."),
    OPTION(top_p, JB_OPT_FLOAT, .def = "1", .min = 0, .max = 1, .help = "Nucleus sampling; 1: not sent."),
    OPTION(stream, JB_OPT_BOOL, .def = "false", .help = "Ask for the reply in pieces: a server that stalls is noticed sooner."),
    OPTION(seed, JB_OPT_BOOL, .def = "false", .help = "Send the call's seed, where the server knows the field."),
    OPTION(reasoning_effort, JB_OPT_STRING, .help = "Sent as it is, e.g. low, medium or high; unset: not sent."),
    OPTION(headers, JB_OPT_STRING, .flags = JB_OPTF_ADVANCED, .help = "Further headers, \"Name: value\", one a line; no keys."),
    OPTION(extra_body, JB_OPT_STRING, .flags = JB_OPTF_ADVANCED, .help = "A JSON object whose fields are put into the request's body."),
    OPTION(omit, JB_OPT_STRING, .flags = JB_OPTF_ADVANCED, .help = "Names of body fields not to send, comma-separated, e.g. temperature."),
};

struct backend {
    const struct config *config;
    keeper keeper;
    cJSON *extra; /* NULL: none */
    char *url;
    jb_view headers[HEADERS_MAX];
    uint32_t header_count;
};

static int fail(jb_error *err, int code, const char *text)
{
    err->code = code;
    err->flags = code == JB_EINVAL ? JB_ERR_USER : 0;
    snprintf(err->message, sizeof err->message, "openai: %s", text);
    return code;
}

static void destroy(void *self)
{
    struct backend *b = self;
    if (!b) return;
    cJSON_Delete(b->extra);
    free(b->url);
    free(b);
}

/* ---- creation ----------------------------------------------------------------------------- */

/* "<base_url without its last slashes>/chat/completions" */
static int make_url(struct backend *b, jb_error *err)
{
    const char *base = b->config->base_url;
    size_t n = strlen(base);
    if (strncmp(base, "http://", 7) != 0 && strncmp(base, "https://", 8) != 0) return fail(err, JB_EINVAL, "base_url must begin with http:// or https://");
    while (n && base[n - 1] == '/') n--;
    b->url = malloc(n + sizeof "/chat/completions");
    if (!b->url) return fail(err, JB_ENOMEM, "out of memory");
    memcpy(b->url, base, n);
    memcpy(b->url + n, "/chat/completions", sizeof "/chat/completions");
    return 0;
}

static int add_header(struct backend *b, const char *line, size_t n)
{
    while (n && (line[n - 1] == '\r' || line[n - 1] == ' ')) n--;
    if (n == 0) return 1;
    if (b->header_count == HEADERS_MAX || !memchr(line, ':', n)) return 0;
    b->headers[b->header_count++] = (jb_view){ line, n };
    return 1;
}

static int split_headers(struct backend *b, jb_error *err)
{
    static const char JSON[] = "Content-Type: application/json", ACCEPT[] = "Accept: application/json, text/event-stream";
    add_header(b, JSON, sizeof JSON - 1);
    add_header(b, ACCEPT, sizeof ACCEPT - 1);
    for (const char *at = b->config->headers; at && *at;) {
        size_t n = strcspn(at, "\n");
        if (!add_header(b, at, n)) return fail(err, JB_EINVAL, "headers must be at most 14 lines of the form \"Name: value\"");
        at += n + (at[n] == '\n');
    }
    return 0;
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    struct backend *b = calloc(1, sizeof *b);
    if (!b) return fail(err, JB_ENOMEM, "out of memory");
    b->config = config;
    b->keeper = (keeper){ host, host->service(host, JB_SERVICE_ARENA) };
    int rc = b->keeper.arena ? make_url(b, err) : fail(err, JB_EABI, "needs the service arena/1");
    if (rc == 0) rc = split_headers(b, err);
    if (rc == 0 && b->config->extra_body) {
        b->extra = cJSON_Parse(b->config->extra_body);
        if (!cJSON_IsObject(b->extra)) rc = fail(err, JB_EINVAL, "extra_body must be a JSON object such as {\"top_k\": 40}");
    }
    if (rc == 0 && strcmp(b->config->base_url, DEFAULT_URL) == 0 && !b->config->key_env)
        rc = fail(err, JB_EINVAL, "api.openai.com wants a key: set key_env to the name of the variable that holds it");
    if (rc != 0) {
        destroy(b);
        return rc;
    }
    *out = b;
    return 0;
}

/* ---- the request ------------------------------------------------------------------------------ */

/* Is `name` one of the comma-separated words? */
static int listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *at = list; at && *at;) {
        at += strspn(at, ", ");
        size_t word = strcspn(at, ", ");
        if (word == n && strncmp(at, name, n) == 0) return 1;
        at += word;
    }
    return 0;
}

static int add_messages(cJSON *body, const jb_request *q)
{
    static const char *const ROLES[] = { "user", "system", "user", "assistant" };
    cJSON *list = cJSON_AddArrayToObject(body, "messages");
    for (uint32_t i = 0; list && i < q->message_count; i++) {
        const jb_message *m = &q->messages[i];
        struct text t = { 0 };
        text_put(&t, m->text.ptr ? m->text.ptr : "", (size_t)m->text.len);
        for (size_t at = 0; !t.failed && at < t.len; at++)
            if (t.ptr[at] == '\0') t.ptr[at] = ' '; /* cJSON's strings end there */
        cJSON *o = cJSON_CreateObject();
        int ok = !t.failed && o && cJSON_AddItemToArray(list, o);
        if (!ok) cJSON_Delete(o);
        ok = ok && cJSON_AddStringToObject(o, "role", ROLES[m->role <= JB_ROLE_ASSISTANT ? m->role : 0]) && cJSON_AddStringToObject(o, "content", t.ptr);
        free(t.ptr);
        if (!ok) return 0;
    }
    return list != NULL;
}

static const char *limit_name(const struct config *c)
{
    if (strcmp(c->max_tokens_field, "auto") != 0) return c->max_tokens_field;
    return strcmp(c->base_url, DEFAULT_URL) == 0 ? "max_completion_tokens" : "max_tokens";
}

static int add_numbers(cJSON *body, const struct config *c, const jb_request *q)
{
    double temperature = c->temperature >= 0 ? c->temperature : q->temperature;
    int64_t limit = q->max_tokens > 0 ? q->max_tokens : c->max_tokens;
    int ok = 1;
    if (!isnan(temperature)) ok = ok && cJSON_AddNumberToObject(body, "temperature", temperature);
    if (c->top_p < 1) ok = ok && cJSON_AddNumberToObject(body, "top_p", c->top_p);
    if (limit > 0) ok = ok && cJSON_AddNumberToObject(body, limit_name(c), (double)limit);
    if (c->seed) ok = ok && cJSON_AddNumberToObject(body, "seed", (double)(q->seed & 0x7fffffff)); /* some servers keep 32 bits */
    if (c->reasoning_effort) ok = ok && cJSON_AddStringToObject(body, "reasoning_effort", c->reasoning_effort);
    if (!c->stream) return ok;
    cJSON *with = ok && cJSON_AddTrueToObject(body, "stream") ? cJSON_AddObjectToObject(body, "stream_options") : NULL;
    return with && cJSON_AddTrueToObject(with, "include_usage");
}

static int merge(cJSON *body, const cJSON *extra)
{
    const cJSON *i;
    cJSON_ArrayForEach(i, extra)
    {
        cJSON *copy = cJSON_Duplicate(i, 1);
        cJSON_DeleteItemFromObjectCaseSensitive(body, i->string);
        if (!copy || !cJSON_AddItemToObject(body, i->string, copy)) return 0;
    }
    return 1;
}

static cJSON *make_body(const struct backend *b, const jb_request *q)
{
    cJSON *body = cJSON_CreateObject();
    int ok = body && cJSON_AddStringToObject(body, "model", b->config->model) && add_messages(body, q) && add_numbers(body, b->config, q) &&
             merge(body, b->extra);
    for (cJSON *i = ok ? body->child : NULL, *next; i; i = next) {
        next = i->next;
        if (listed(b->config->omit, i->string)) cJSON_Delete(cJSON_DetachItemViaPointer(body, i));
    }
    if (ok) return body;
    cJSON_Delete(body);
    return NULL;
}

static int encode(void *self, const jb_request *req, jb_http_request *out, jb_error *err)
{
    struct backend *b = self;
    cJSON *body = make_body(b, req);
    char *text = body ? cJSON_PrintUnformatted(body) : NULL;
    size_t n = text ? strlen(text) : 0;
    char *kept = text ? keep(&b->keeper, text, n) : NULL;
    cJSON_Delete(body);
    cJSON_free(text);
    if (!kept) return fail(err, JB_ENOMEM, "out of memory, or the messages are above the arena's limit");
    out->method = (jb_view){ "POST", 4 };
    out->url = (jb_view){ b->url, strlen(b->url) };
    out->headers = b->headers;
    out->header_count = b->header_count;
    out->body = (jb_view){ kept, n };
    out->auth_scheme = "Bearer";
    if (JB_HAS(out, jb_http_request, tokens)) out->tokens = (int64_t)n / 4 + (b->config->max_tokens > 0 ? b->config->max_tokens / 2 : 1000);
    return 0;
}

static int decode(void *self, const jb_http_response *resp, jb_reply *out, jb_error *err)
{
    struct backend *b = self;
    size_t len = (size_t)resp->body.len;
    int rc = 0;
    if (resp->status == 200) {
        rc = read_answer(&b->keeper, resp->body.ptr, len, out);
    } else {
        cJSON *doc = cJSON_ParseWithLength(resp->body.ptr, len);
        classify(out, resp->status, doc, resp->body.ptr, len);
        cJSON_Delete(doc);
    }
    return rc ? fail(err, rc, "out of memory reading the answer") : 0;
}

static const jb_backend_ops ops = { .struct_size = sizeof ops, .create = create, .destroy = destroy, .encode = encode, .decode = decode };

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_NEEDS_NET, .kind = JB_KIND_BACKEND, .name = "openai",
    .summary = "a model behind a Chat Completions endpoint, of OpenAI or any server that speaks its protocol",
    .help = "Needs a model and, for most servers, key_env: the name of the environment variable that holds the key. The core reads it, "
            "sends it as Authorization: Bearer, and stores it nowhere. Rate limits, timeouts and retries are keys of the study (docs/backends.md).",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.openai",
    .version = "1.0.0", .summary = "Backend openai", .license = "Apache-2.0", .components = components,
};
