/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/openai/parts.h - what the files of this plugin share: a growing
 * text, and the three readers of an answer.
 *
 *     openai.c   options, request         answer.c  body -> reply and usage
 *     stream.c   server-sent events -> the same document an unstreamed call gets
 *     fault.c    error documents and status codes -> error class and message */
#ifndef OPENAI_PARTS_H
#define OPENAI_PARTS_H

#include <jaxbench/backend.h>

#include <cjson/cJSON.h>
#include <stddef.h>

/* A string that grows; once an allocation failed it takes no more. */
struct text {
    char *ptr; /* NUL-terminated once anything was put */
    size_t len, cap;
    int failed;
};
void text_put(struct text *t, const char *s, size_t n);

/* A copy of `n` bytes in arena/1 memory, NUL-terminated; NULL without memory. */
typedef struct keeper {
    const jb_host *host;
    const jb_arena_service *arena;
} keeper;
char *keep(const keeper *k, const char *s, size_t n);

/* Fill `out` from the body of a 200.  Never fails but for memory (JB_ENOMEM): what
 * can't be understood is an error class. */
int read_answer(const keeper *k, const char *body, size_t len, jb_reply *out);
/* The normal form of a `usage` object; what is absent or wrong is -1. */
void read_usage(const cJSON *usage, jb_usage *out);

/* Assemble a stream into a chat.completion document; caller frees with
 * cJSON_Delete.  NULL: `out` has the error class, or memory is out (*no_memory). */
cJSON *read_stream(const char *body, size_t len, jb_reply *out, int *no_memory);
int looks_like_stream(const char *body, size_t len);

/* A failure: class and message. */
void fail_with(jb_reply *out, uint32_t class, const char *format, ...) JB_PRINTF(3, 4);
/* Class and message of an answer with this status and (nullable) error document. */
void classify(jb_reply *out, uint32_t status, const cJSON *document, const char *body, size_t len);

#endif
