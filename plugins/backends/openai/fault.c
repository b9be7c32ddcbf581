/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/openai/fault.c - what a provider's failure is.  Servers that
 * speak this protocol agree on the status codes more than on the documents, so
 * a code in the document refines the status, and words only where providers give
 * nothing else. */
#include "parts.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

void fail_with(jb_reply *out, uint32_t class, const char *format, ...)
{
    va_list ap;
    va_start(ap, format);
    out->error_class = class;
    out->text = (jb_view){ NULL, 0 };
    vsnprintf(out->message, sizeof out->message, format, ap);
    va_end(ap);
}

/* `code` or `type` of an error document -> class. */
static const struct { const char *code; uint32_t class; } CODES[] = {
    { "insufficient_quota", JB_LLM_QUOTA },
    { "billing_hard_limit_reached", JB_LLM_QUOTA },
    { "billing_not_active", JB_LLM_QUOTA },
    { "rate_limit_exceeded", JB_LLM_RATE_LIMIT },
    { "rate_limit_error", JB_LLM_RATE_LIMIT },
    { "invalid_api_key", JB_LLM_AUTH },
    { "authentication_error", JB_LLM_AUTH },
    { "permission_error", JB_LLM_AUTH },
    { "context_length_exceeded", JB_LLM_TOO_LONG },
    { "string_above_max_length", JB_LLM_TOO_LONG },
    { "request_too_large", JB_LLM_TOO_LONG },
    { "content_policy_violation", JB_LLM_REFUSED },
    { "content_filter", JB_LLM_REFUSED },
    { "model_not_found", JB_LLM_PERMANENT },
    { "overloaded_error", JB_LLM_TRANSIENT },
    { "server_error", JB_LLM_TRANSIENT },
    { "api_error", JB_LLM_TRANSIENT },
};

/* Words in the message of a 400 or 429 whose code says nothing. */
static const struct { uint32_t status; const char *words; uint32_t class; } WORDS[] = {
    { 400, "context length", JB_LLM_TOO_LONG },
    { 400, "context window", JB_LLM_TOO_LONG },
    { 400, "maximum context", JB_LLM_TOO_LONG },
    { 400, "too many tokens", JB_LLM_TOO_LONG },
    { 400, "prompt is too long", JB_LLM_TOO_LONG },
    { 400, "exceed_context_size", JB_LLM_TOO_LONG },
    { 429, "check your plan and billing", JB_LLM_QUOTA },
    { 429, "credit balance", JB_LLM_QUOTA },
};

static uint32_t by_status(uint32_t status)
{
    switch (status) {
    case 401: case 403: return JB_LLM_AUTH;
    case 402: return JB_LLM_QUOTA;
    case 408: case 409: case 425: return JB_LLM_TRANSIENT;
    case 413: return JB_LLM_TOO_LONG;
    case 429: return JB_LLM_RATE_LIMIT;
    case 501: case 505: return JB_LLM_PERMANENT;
    default: return status >= 500 || status == 200 ? JB_LLM_TRANSIENT : JB_LLM_PERMANENT;
    }
}

static uint32_t by_code(const char *code)
{
    for (size_t i = 0; code && i < sizeof CODES / sizeof CODES[0]; i++)
        if (strcmp(CODES[i].code, code) == 0) return CODES[i].class;
    return 0;
}

static const char *string_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    return cJSON_IsString(v) && v->valuestring[0] ? v->valuestring : NULL;
}

static uint32_t by_words(uint32_t status, const char *message)
{
    for (size_t i = 0; message && i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (WORDS[i].status == status && strcasestr(message, WORDS[i].words)) return WORDS[i].class;
    return 0;
}

/* The start of a body that is no JSON, one line. */
static void excerpt(char *to, size_t size, const char *body, size_t len)
{
    size_t n = 0;
    for (size_t i = 0; i < len && n + 1 < size; i++) to[n++] = (unsigned char)body[i] < ' ' || body[i] == 127 ? ' ' : body[i];
    to[n] = '\0';
}

void classify(jb_reply *out, uint32_t status, const cJSON *document, const char *body, size_t len)
{
    const cJSON *error = cJSON_GetObjectItemCaseSensitive(document, "error");
    const cJSON *from = cJSON_IsObject(error) ? error : document;
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(from, "code");
    const char *message = cJSON_IsString(error) ? error->valuestring : string_of(from, "message"), *code = string_of(from, "code");
    char start[121] = "", prefix[32] = "";
    if (!message) message = string_of(from, "detail");
    if (!message) excerpt(start, sizeof start, body, len);
    if (status == 200 && cJSON_IsNumber(number) && number->valuedouble >= 400 && number->valuedouble < 600) status = (uint32_t)number->valuedouble;
    uint32_t class = by_code(code);
    if (!class) class = by_code(string_of(from, "type"));
    if (!class) class = by_words(status, message);
    if (!class) class = by_status(status);
    if (status != 200) snprintf(prefix, sizeof prefix, "HTTP %u: ", status);
    if (!message) message = start[0] ? start : "no explanation";
    fail_with(out, class, "%s%.40s%s%s", prefix, code ? code : "", code ? ": " : "", message);
}
