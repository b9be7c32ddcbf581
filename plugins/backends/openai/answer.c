/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/openai/answer.c - the body of a 200 into a reply.
 *
 * Usage in the normal form: `prompt_tokens` contains the cached ones and
 * `completion_tokens` the reasoning ones, so both are taken apart.  A provider that
 * reports no details did neither.  A count that is no whole number, negative, or
 * larger than what contains it is unknown (-1), never guessed. */
#include "parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void text_put(struct text *t, const char *s, size_t n)
{
    if (t->failed) return;
    if (t->len + n + 1 > t->cap) {
        size_t cap = 2 * (t->len + n + 1) + 256;
        char *p = realloc(t->ptr, cap);
        if (!p) {
            t->failed = 1;
            return;
        }
        t->ptr = p;
        t->cap = cap;
    }
    memcpy(t->ptr + t->len, s, n);
    t->len += n;
    t->ptr[t->len] = '\0';
}

char *keep(const keeper *k, const char *s, size_t n)
{
    char *copy = k->arena->alloc(k->host, n + 1);
    if (!copy) return NULL;
    memcpy(copy, s, n);
    copy[n] = '\0';
    return copy;
}

/* ---- usage ------------------------------------------------------------------------------ */

#define ABSENT (-2)

static int64_t count_of(const cJSON *o, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(o, key);
    if (!v || cJSON_IsNull(v)) return ABSENT;
    if (!cJSON_IsNumber(v) || !(v->valuedouble >= 0) || v->valuedouble > 1e15 || v->valuedouble != floor(v->valuedouble)) return -1;
    return (int64_t)v->valuedouble;
}

/* Take a part out of a whole: both unknown when they don't fit. */
static void split(int64_t whole, int64_t part, int64_t *rest, int64_t *out)
{
    if (part == ABSENT) part = 0;
    if (whole < 0 || part < 0 || part > whole) {
        *rest = *out = -1;
        return;
    }
    *rest = whole - part;
    *out = part;
}

void read_usage(const cJSON *usage, jb_usage *out)
{
    *out = (jb_usage){ -1, -1, -1, -1, -1 };
    if (!cJSON_IsObject(usage)) return;
    const cJSON *in = cJSON_GetObjectItemCaseSensitive(usage, "prompt_tokens_details");
    const cJSON *made = cJSON_GetObjectItemCaseSensitive(usage, "completion_tokens_details");
    split(count_of(usage, "prompt_tokens"), count_of(in, "cached_tokens"), &out->input_uncached, &out->cache_read);
    split(count_of(usage, "completion_tokens"), count_of(made, "reasoning_tokens"), &out->output, &out->reasoning);
    if (out->input_uncached >= 0) out->cache_write = 0; /* this protocol has no such thing */
}

/* ---- reply -------------------------------------------------------------------------------- */

static const struct { const char *reason; uint32_t finish; } FINISHES[] = {
    { "stop", JB_FINISH_STOP },           { "length", JB_FINISH_LENGTH },     { "max_tokens", JB_FINISH_LENGTH },
    { "model_length", JB_FINISH_LENGTH }, { "content_filter", JB_FINISH_REFUSED }, { "refusal", JB_FINISH_REFUSED },
};

static uint32_t finish_of(const char *reason)
{
    for (size_t i = 0; reason && i < sizeof FINISHES / sizeof FINISHES[0]; i++)
        if (strcmp(FINISHES[i].reason, reason) == 0) return FINISHES[i].finish;
    return JB_FINISH_STOP; /* a word of the provider's own */
}

/* `content` is a string, or a list of parts of which the text ones count. */
static void put_content(struct text *t, const cJSON *content)
{
    const cJSON *part;
    if (cJSON_IsString(content)) text_put(t, content->valuestring, strlen(content->valuestring));
    if (!cJSON_IsArray(content)) return;
    cJSON_ArrayForEach(part, content)
    {
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(part, "type"), *text = cJSON_GetObjectItemCaseSensitive(part, "text");
        if (cJSON_IsString(text) && (!cJSON_IsString(type) || strcmp(type->valuestring, "text") == 0 || strcmp(type->valuestring, "output_text") == 0))
            text_put(t, text->valuestring, strlen(text->valuestring));
    }
}

static int fill(const keeper *k, jb_reply *out, const struct text *t, const cJSON *model)
{
    const char *copy = keep(k, t->ptr ? t->ptr : "", t->len);
    if (!copy) return JB_ENOMEM;
    out->text = (jb_view){ copy, t->len };
    if (!cJSON_IsString(model) || !JB_HAS(out, jb_reply, model)) return 0;
    size_t n = strnlen(model->valuestring, 200);
    copy = keep(k, model->valuestring, n);
    if (!copy) return JB_ENOMEM;
    out->model = (jb_view){ copy, n };
    return 0;
}

static int read_choice(const keeper *k, const cJSON *doc, const cJSON *choice, jb_reply *out)
{
    const cJSON *message = cJSON_GetObjectItemCaseSensitive(choice, "message");
    const cJSON *reason = cJSON_GetObjectItemCaseSensitive(choice, "finish_reason"), *refusal = cJSON_GetObjectItemCaseSensitive(message, "refusal");
    const char *word = cJSON_IsString(reason) ? reason->valuestring : NULL;
    struct text t = { 0 };
    int rc = 0;
    out->finish = finish_of(word);
    put_content(&t, cJSON_GetObjectItemCaseSensitive(message, "content"));
    if (!t.len && !t.failed && cJSON_IsString(refusal) && refusal->valuestring[0]) {
        text_put(&t, refusal->valuestring, strlen(refusal->valuestring));
        out->finish = JB_FINISH_REFUSED;
    }
    if (t.failed) rc = JB_ENOMEM;
    else if (!cJSON_IsObject(message)) fail_with(out, JB_LLM_TRANSIENT, "the answer has no choices[0].message");
    else if (word && strcmp(word, "error") == 0) fail_with(out, JB_LLM_TRANSIENT, "the provider broke off the reply (finish_reason error)");
    else if (t.len || out->finish == JB_FINISH_LENGTH) rc = fill(k, out, &t, cJSON_GetObjectItemCaseSensitive(doc, "model"));
    else if (out->finish == JB_FINISH_REFUSED) fail_with(out, JB_LLM_REFUSED, "the provider's filter left nothing of the reply (finish_reason %.40s)", word);
    else fail_with(out, JB_LLM_EMPTY, "the reply is empty (finish_reason %.40s)", word ? word : "not given");
    free(t.ptr);
    return rc;
}

static int blank(const char *body, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!strchr(" \t\r\n", body[i]) || !body[i]) return 0;
    return 1;
}

int read_answer(const keeper *k, const char *body, size_t len, jb_reply *out)
{
    int no_memory = 0, rc = 0, stream = looks_like_stream(body, len);
    if (blank(body, len)) {
        fail_with(out, JB_LLM_EMPTY, "the answer has no body");
        return 0;
    }
    cJSON *doc = stream ? read_stream(body, len, out, &no_memory) : cJSON_ParseWithLength(body, len);
    const cJSON *choices = cJSON_GetObjectItemCaseSensitive(doc, "choices"), *error = cJSON_GetObjectItemCaseSensitive(doc, "error");
    if (no_memory) {
        rc = JB_ENOMEM;
    } else if (!doc) {
        if (!stream) {
            classify(out, 200, NULL, body, len);
            char words[160];
            memcpy(words, out->message, sizeof words - 1);
            words[sizeof words - 1] = '\0';
            fail_with(out, JB_LLM_TRANSIENT, "the answer is not JSON: %s", words);
        }
    } else if (error && !cJSON_IsNull(error)) {
        classify(out, 200, doc, body, len);
    } else {
        read_usage(cJSON_GetObjectItemCaseSensitive(doc, "usage"), &out->usage);
        if (cJSON_GetArraySize(choices) < 1) fail_with(out, JB_LLM_TRANSIENT, "the answer has no choices");
        else rc = read_choice(k, doc, cJSON_GetArrayItem(choices, 0), out);
    }
    cJSON_Delete(doc);
    return rc;
}
