/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/openai/stream.c - server-sent events into the document that an
 * unstreamed call would have got.
 *
 *     data: {"choices":[{"delta":{"content":"..."}}]}   an event, ends with a blank line
 *     : keep-alive                                      a comment
 *     data: [DONE]                                      the end
 *
 * An event may have several data lines; lines end in LF, CRLF or CR.  What lies
 * behind the last blank line is an event too, since some servers forget it.  A
 * stream without [DONE] and without a finish_reason was cut off: a failure of the
 * provider, whatever it had said until then.  An error event ends it. */
#include "parts.h"

#include <stdlib.h>
#include <string.h>

struct stream {
    struct text event; /* data of the event so far */
    int has_data, done, broken;
    struct text content, refusal;
    cJSON *finish, *usage, *model, *error; /* of the latest event that had one */
};

int looks_like_stream(const char *body, size_t len)
{
    size_t i = 0;
    while (i < len && (body[i] == '\n' || body[i] == '\r' || body[i] == ' ')) i++;
    return (len - i >= 5 && memcmp(body + i, "data:", 5) == 0) || (len - i >= 6 && memcmp(body + i, "event:", 6) == 0) || (i < len && body[i] == ':');
}

static void take(cJSON **to, cJSON *from, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(from, key);
    if (!v || cJSON_IsNull(v)) return;
    cJSON_Delete(*to);
    *to = cJSON_DetachItemFromObjectCaseSensitive(from, key);
}

static void put_string(struct text *t, const cJSON *delta, const char *key)
{
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(delta, key);
    if (cJSON_IsString(v)) text_put(t, v->valuestring, strlen(v->valuestring));
}

static void take_event(struct stream *s)
{
    if (!s->has_data || s->done) return;
    const char *data = s->event.ptr ? s->event.ptr : "";
    size_t len = s->event.len;
    while (len && (data[len - 1] == ' ' || data[len - 1] == '\n')) len--;
    if (len == 6 && memcmp(data, "[DONE]", 6) == 0) {
        s->done = 1;
        return;
    }
    if (len == 0) return;
    cJSON *chunk = cJSON_ParseWithLength(data, len);
    if (!cJSON_IsObject(chunk)) {
        s->broken = 1;
        cJSON_Delete(chunk);
        return;
    }
    take(&s->error, chunk, "error");
    take(&s->usage, chunk, "usage");
    take(&s->model, chunk, "model");
    cJSON *choice = cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(chunk, "choices"), 0);
    const cJSON *index = cJSON_GetObjectItemCaseSensitive(choice, "index");
    if (!cJSON_IsNumber(index) || index->valueint == 0) {
        const cJSON *delta = cJSON_GetObjectItemCaseSensitive(choice, "delta");
        put_string(&s->content, delta, "content");
        put_string(&s->refusal, delta, "refusal");
        take(&s->finish, choice, "finish_reason");
    }
    cJSON_Delete(chunk);
}

static void end_event(struct stream *s)
{
    take_event(s);
    s->event.len = 0;
    s->has_data = 0;
}

static void take_line(struct stream *s, const char *line, size_t len)
{
    if (len == 0) {
        end_event(s);
    } else if (len >= 5 && memcmp(line, "data:", 5) == 0) {
        size_t skip = len > 5 && line[5] == ' ' ? 6 : 5;
        if (s->has_data) text_put(&s->event, "\n", 1);
        text_put(&s->event, line + skip, len - skip);
        s->has_data = 1;
    }
}

static void take_body(struct stream *s, const char *body, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t end = at;
        while (end < len && body[end] != '\n' && body[end] != '\r') end++;
        take_line(s, body + at, end - at);
        at = end + 1;
        if (end + 1 < len && body[end] == '\r' && body[end + 1] == '\n') at++;
    }
    end_event(s);
}

/* {"model","choices":[{"message":{"content","refusal"},"finish_reason"}],"usage"} */
static cJSON *document(struct stream *s)
{
    cJSON *o = cJSON_CreateObject(), *choice = cJSON_CreateObject();
    cJSON *choices = o ? cJSON_AddArrayToObject(o, "choices") : NULL;
    if (!choices || !choice || !cJSON_AddItemToArray(choices, choice)) {
        cJSON_Delete(choice);
        cJSON_Delete(o);
        return NULL;
    }
    cJSON *message = cJSON_AddObjectToObject(choice, "message");
    int ok = message && cJSON_AddStringToObject(message, "content", s->content.ptr ? s->content.ptr : "") &&
             (!s->refusal.len || cJSON_AddStringToObject(message, "refusal", s->refusal.ptr));
    if (ok && s->finish && (ok = cJSON_AddItemToObject(choice, "finish_reason", s->finish))) s->finish = NULL;
    if (ok && s->usage && (ok = cJSON_AddItemToObject(o, "usage", s->usage))) s->usage = NULL;
    if (ok && s->model && (ok = cJSON_AddItemToObject(o, "model", s->model))) s->model = NULL;
    if (ok) return o;
    cJSON_Delete(o);
    return NULL;
}

cJSON *read_stream(const char *body, size_t len, jb_reply *out, int *no_memory)
{
    struct stream s = { 0 };
    cJSON *o = NULL;
    take_body(&s, body, len);
    *no_memory = s.event.failed || s.content.failed || s.refusal.failed;
    if (s.usage) read_usage(s.usage, &out->usage); /* a stream that failed may have cost something */
    if (*no_memory) {
        /* nothing to say */
    } else if (s.error) {
        cJSON *whole = cJSON_CreateObject();
        if (whole && cJSON_AddItemToObject(whole, "error", s.error)) s.error = NULL;
        classify(out, 200, whole, "", 0);
        cJSON_Delete(whole);
    } else if (s.broken) {
        fail_with(out, JB_LLM_TRANSIENT, "an event of the stream is not a JSON object");
    } else if (!s.done && !s.finish) {
        fail_with(out, JB_LLM_TRANSIENT, "the stream ended after %zu characters without [DONE] or finish_reason", s.content.len);
    } else {
        o = document(&s);
        *no_memory = !o;
    }
    free(s.event.ptr);
    free(s.content.ptr);
    free(s.refusal.ptr);
    cJSON_Delete(s.finish);
    cJSON_Delete(s.usage);
    cJSON_Delete(s.model);
    cJSON_Delete(s.error);
    return o;
}
