/* SPDX-License-Identifier: Apache-2.0 */
/* jaxbench/backend.h - kind jb.backend/1: who writes the code.
 *
 * A remote backend translates: `encode` turns a request into one HTTP request,
 * `decode` turns the response into a reply.  The core owns connections,
 * retries, rate limits and recording, and adds the key: a plugin never sees
 * it.  A local backend implements `complete` instead.
 *
 * The key: an option of type JB_OPT_STRING with JB_OPTF_SECRET holds the name of
 * the environment variable that has it.  A study that leaves it out sends none. */
#ifndef JAXBENCH_BACKEND_H
#define JAXBENCH_BACKEND_H

#include <jaxbench/plugin.h>

#define JB_ROLE_SYSTEM 1u
#define JB_ROLE_USER 2u
#define JB_ROLE_ASSISTANT 3u

typedef struct jb_message {
    uint32_t role; /* JB_ROLE_* */
    uint32_t reserved;
    jb_view text;
} jb_message;

/* One call.  Views live until the function returns. */
typedef struct jb_request {
    uint32_t struct_size;
    uint32_t message_count;
    const jb_message *messages;
    uint64_t seed;       /* of this call: a function of study seed, cell, lane and turn */
    double temperature;  /* NaN: the backend's default */
    int64_t max_tokens;  /* 0: the backend's default */
    uint64_t lane, turn; /* which chain of the cell this call belongs to, and its ordinal there */
    uint64_t cell_seed;  /* the same for every call of a cell: a function of study seed and cell */
    /* Since ABI 1.1. */
    const char *hash;     /* of the call: purpose, lane, turn, temperature, role, messages; hex SHA-256 */
    const char *cell;     /* "<workload>+<method>+<backend>+s<seed>" */
    const char *workload; /* its id, e.g. "8p"; "" when unknown */
    uint32_t purpose;     /* JB_PURPOSE_* of method.h */
    uint32_t reserved;
} jb_request;

#define JB_FINISH_STOP 1u
#define JB_FINISH_LENGTH 2u  /* cut off: the sample is `truncated` */
#define JB_FINISH_REFUSED 3u /* the model said no, in words: a sample without code */

/* Tokens in one normal form: the five never overlap.  -1: not reported. */
typedef struct jb_usage {
    int64_t input_uncached, cache_read, cache_write, output, reasoning;
} jb_usage;

/* Error classes of a provider (jb_reply.error_class); 0 is none. */
#define JB_LLM_RATE_LIMIT 1u
#define JB_LLM_QUOTA 2u
#define JB_LLM_AUTH 3u
#define JB_LLM_TOO_LONG 4u
#define JB_LLM_REFUSED 5u
#define JB_LLM_EMPTY 6u
#define JB_LLM_TRANSIENT 7u
#define JB_LLM_PERMANENT 8u

/* A reply, in the host's struct.  `text` points into arena/1 memory. */
typedef struct jb_reply {
    uint32_t struct_size;
    uint32_t finish;      /* JB_FINISH_* */
    uint32_t error_class; /* JB_LLM_*; 0: text is a reply */
    uint32_t retry_after_s;
    jb_view text;
    jb_usage usage;
    char message[256];    /* the provider's words, when error_class is set */
    /* Since ABI 1.1. */
    uint32_t flags;       /* JB_REPLY_* */
    uint32_t reserved;
    jb_view model;        /* what the provider says answered; arena/1 memory; empty when it does not */
} jb_reply;

#define JB_REPLY_REPLAYED 1u /* of an earlier run: usage tells what it cost then, nothing is paid now */

typedef struct jb_http_request {
    uint32_t struct_size;
    uint32_t header_count;
    jb_view method, url;
    const jb_view *headers; /* "Name: value"; none may hold a key */
    jb_view body;
    const char *auth_scheme; /* "Bearer": the core sends `Authorization: Bearer KEY`; NULL: see auth_header */
    const char *auth_header; /* e.g. "x-api-key": the core sends it with the key; NULL: none */
    /* Since ABI 1.1. */
    int64_t tokens; /* estimate of what the call will use, for limits in tokens; 0: the core's own */
} jb_http_request;

typedef struct jb_http_response {
    uint32_t struct_size;
    uint32_t status; /* HTTP status code */
    uint32_t header_count, reserved;
    const jb_view *headers; /* "Name: value" */
    jb_view body;
} jb_http_response;

typedef struct jb_backend_ops {
    uint32_t struct_size;
    uint32_t reserved;
    int (*create)(const jb_host *host, const void *config, void **out, jb_error *err); /* [main] */
    void (*destroy)(void *self);
    /* Local backends: answer now; must return within 10 s.  NULL for remote. [instance] */
    int (*complete)(void *self, const jb_request *req, jb_reply *out, jb_error *err);
    /* Remote backends.  NULL for local. [instance] */
    int (*encode)(void *self, const jb_request *req, jb_http_request *out, jb_error *err);
    int (*decode)(void *self, const jb_http_response *resp, jb_reply *out, jb_error *err);
} jb_backend_ops;

#endif
