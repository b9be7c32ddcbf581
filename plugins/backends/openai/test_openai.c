/* SPDX-License-Identifier: Apache-2.0 */
/* openai: what a request says, what each answer means, streams cut anywhere, and
 * bytes that are no answer at all. */
#include "openai.c"
#include "answer.c"
#include "stream.c"
#include "fault.c"

#include "core/base/error.h"
#include "core/options/options.h"

#include <check.h>

/* ---- a host and a backend --------------------------------------------------------- */

static char memory[1 << 20];
static size_t memory_used;

static void *arena_alloc(const jb_host *h, uint64_t bytes)
{
    (void)h;
    if (memory_used + bytes > sizeof memory) return NULL;
    void *p = memory + memory_used;
    memory_used += (bytes + 15) & ~(uint64_t)15;
    return p;
}

static const jb_arena_service arena = { .struct_size = sizeof arena, .alloc = arena_alloc };
static const void *service(const jb_host *h, const char *id) { return h->ctx == NULL && strcmp(id, JB_SERVICE_ARENA) == 0 ? &arena : NULL; }
static const jb_host host = { .struct_size = sizeof host, .abi_major = 1, .service = service };

struct subject { jb_config *config; void *self; };

static struct subject opened(const char *json)
{
    struct subject s = { 0 };
    jb_error err = JB_ERROR_INIT;
    cJSON *values = cJSON_Parse(json);
    ck_assert_msg(jb_config_new(&component, values, &s.config, &err) == 0, "%s", err.message);
    ck_assert_msg(ops.create(&host, jb_config_data(s.config), &s.self, &err) == 0, "%s", err.message);
    cJSON_Delete(values);
    return s;
}

static void closed(struct subject *s)
{
    ops.destroy(s->self);
    jb_config_free(s->config);
}

#define LOCAL "{\"model\":\"m\",\"base_url\":\"http://h:1/v1/\"}"

/* ---- requests ------------------------------------------------------------------------- */

static jb_http_request encoded(struct subject *s, const jb_request *q)
{
    jb_http_request out = { .struct_size = sizeof out };
    jb_error err = JB_ERROR_INIT;
    memory_used = 0;
    ck_assert_msg(ops.encode(s->self, q, &out, &err) == 0, "%s", err.message);
    return out;
}

static const jb_message TALK[] = { { JB_ROLE_SYSTEM, 0, { "be \"good\"", 9 } }, { JB_ROLE_USER, 0, { "write\n\xc3\xa9", 8 } }, { JB_ROLE_ASSISTANT, 0, { "no", 2 } } };

START_TEST(the_body_is_built_from_options_and_messages)
{
    static const struct { const char *options, *body; } cases[] = {
        { LOCAL, "{\"model\":\"m\",\"messages\":[{\"role\":\"system\",\"content\":\"be \\\"good\\\"\"},{\"role\":\"user\",\"content\":\"write\\n\xc3\xa9\"},"
                 "{\"role\":\"assistant\",\"content\":\"no\"}],\"temperature\":0.7}" },
        { "{\"model\":\"m\",\"base_url\":\"http://h/v1\",\"temperature\":0.25,\"top_p\":0.9,\"max_tokens\":500,\"stream\":true,\"seed\":true,"
          "\"reasoning_effort\":\"low\",\"omit\":\"messages, top_k\",\"extra_body\":\"{\\\"top_k\\\":4,\\\"model\\\":\\\"n\\\",\\\"x\\\":{\\\"y\\\":[1]}}\"}",
          "{\"temperature\":0.25,\"top_p\":0.9,\"max_tokens\":500,\"seed\":1234,\"reasoning_effort\":\"low\",\"stream\":true,"
          "\"stream_options\":{\"include_usage\":true},\"model\":\"n\",\"x\":{\"y\":[1]}}" },
        { "{\"model\":\"m\",\"key_env\":\"K\",\"max_tokens\":5,\"omit\":\"messages,temperature\"}", "{\"model\":\"m\",\"max_completion_tokens\":5}" },
        { "{\"model\":\"m\",\"key_env\":\"K\",\"max_tokens\":5,\"max_tokens_field\":\"max_tokens\",\"omit\":\"messages\"}",
          "{\"model\":\"m\",\"temperature\":0.7,\"max_tokens\":5}" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct subject s = opened(cases[i].options);
        jb_request q = { .struct_size = sizeof q, .messages = TALK, .message_count = 3, .temperature = 0.7, .seed = 1234 };
        jb_http_request r = encoded(&s, &q);
        ck_assert_msg(r.body.len == strlen(cases[i].body) && memcmp(r.body.ptr, cases[i].body, r.body.len) == 0, "case %zu:\n%.*s\nexpected\n%s", i,
                      (int)r.body.len, r.body.ptr, cases[i].body);
        closed(&s);
    }
}
END_TEST

START_TEST(url_headers_and_key)
{
    struct subject s = opened("{\"model\":\"m\",\"base_url\":\"http://h:1/v1//\",\"headers\":\"X-A: 1\\r\\n\\nX-B: 2\"}");
    jb_request q = { .struct_size = sizeof q, .messages = TALK, .message_count = 1, .temperature = (double)NAN };
    jb_http_request r = encoded(&s, &q);
    ck_assert_msg(strncmp(r.url.ptr, "http://h:1/v1/chat/completions", r.url.len) == 0 && r.url.len == 30, "%.*s", (int)r.url.len, r.url.ptr);
    ck_assert_str_eq(r.auth_scheme, "Bearer");
    ck_assert_ptr_null(r.auth_header);
    ck_assert_uint_eq(r.header_count, 4);
    ck_assert(r.headers[2].len == 6 && memcmp(r.headers[2].ptr, "X-A: 1", 6) == 0);
    ck_assert(r.headers[3].len == 6 && memcmp(r.headers[3].ptr, "X-B: 2", 6) == 0);
    ck_assert_ptr_null(memmem(r.body.ptr, r.body.len, "temperature", 11)); /* NaN: the server's own */
    closed(&s);
}
END_TEST

START_TEST(what_can_not_work_is_refused_at_creation)
{
    static const struct { const char *options, *says; } cases[] = {
        { "{\"model\":\"m\"}", "key_env" },
        { "{\"model\":\"m\",\"base_url\":\"h:1\"}", "http://" },
        { "{\"model\":\"m\",\"base_url\":\"http://h\",\"extra_body\":\"[1]\"}", "JSON object" },
        { "{\"model\":\"m\",\"base_url\":\"http://h\",\"headers\":\"no colon\"}", "Name: value" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_error err = JB_ERROR_INIT;
        jb_config *config;
        void *self = NULL;
        cJSON *values = cJSON_Parse(cases[i].options);
        ck_assert_int_eq(jb_config_new(&component, values, &config, &err), 0);
        ck_assert_int_eq(ops.create(&host, jb_config_data(config), &self, &err), JB_EINVAL);
        ck_assert_msg(strstr(err.message, cases[i].says), "%s", err.message);
        jb_config_free(config);
        cJSON_Delete(values);
    }
}
END_TEST

/* ---- answers ------------------------------------------------------------------------------ */

static jb_reply decoded(uint32_t status, const char *body, size_t len)
{
    struct subject s = opened(LOCAL);
    jb_http_response in = { .struct_size = sizeof in, .status = status, .body = { body, len } };
    jb_reply out = { .struct_size = sizeof out, .finish = JB_FINISH_STOP, .usage = { -1, -1, -1, -1, -1 } };
    jb_error err = JB_ERROR_INIT;
    memory_used = 0;
    ck_assert_msg(ops.decode(s.self, &in, &out, &err) == 0, "%s", err.message);
    closed(&s);
    return out;
}

#define CHOICE(message, finish) "{\"model\":\"m-1\",\"choices\":[{\"index\":0,\"finish_reason\":" finish ",\"message\":{" message "}}]}"

START_TEST(replies)
{
    static const struct { const char *body; uint32_t class, finish; const char *text; } cases[] = {
        { CHOICE("\"content\":\"hi\"", "\"stop\""), 0, JB_FINISH_STOP, "hi" },
        { CHOICE("\"content\":\"hi\"", "null"), 0, JB_FINISH_STOP, "hi" },
        { CHOICE("\"content\":\"h\"", "\"length\""), 0, JB_FINISH_LENGTH, "h" },
        { CHOICE("\"content\":\"\"", "\"length\""), 0, JB_FINISH_LENGTH, "" }, /* reasoning ate the limit: paid, and a sample */
        { CHOICE("\"content\":null,\"refusal\":\"I won't\"", "\"stop\""), 0, JB_FINISH_REFUSED, "I won't" },
        { CHOICE("\"content\":\"part\"", "\"content_filter\""), 0, JB_FINISH_REFUSED, "part" },
        { CHOICE("\"content\":\"\"", "\"content_filter\""), JB_LLM_REFUSED, 0, NULL },
        { CHOICE("\"content\":null", "\"tool_calls\""), JB_LLM_EMPTY, 0, NULL },
        { CHOICE("\"content\":\"\"", "\"stop\""), JB_LLM_EMPTY, 0, NULL },
        { CHOICE("\"content\":\"x\"", "\"error\""), JB_LLM_TRANSIENT, 0, NULL },
        { CHOICE("\"content\":[{\"type\":\"text\",\"text\":\"a\"},{\"type\":\"thinking\",\"text\":\"no\"},{\"text\":\"b\"}]", "\"stop\""), 0, JB_FINISH_STOP, "ab" },
        { "", JB_LLM_EMPTY, 0, NULL },
        { " \n", JB_LLM_EMPTY, 0, NULL },
        { "{\"choices\":[", JB_LLM_TRANSIENT, 0, NULL },
        { "<html>", JB_LLM_TRANSIENT, 0, NULL },
        { "{}", JB_LLM_TRANSIENT, 0, NULL },
        { "[]", JB_LLM_TRANSIENT, 0, NULL },
        { "null", JB_LLM_TRANSIENT, 0, NULL },
        { "{\"choices\":[]}", JB_LLM_TRANSIENT, 0, NULL },
        { "{\"choices\":[7]}", JB_LLM_TRANSIENT, 0, NULL },
        { "{\"choices\":{\"a\":1}}", JB_LLM_TRANSIENT, 0, NULL },
        { "{\"error\":{\"message\":\"no more\",\"code\":\"insufficient_quota\"}}", JB_LLM_QUOTA, 0, NULL },
        { "{\"error\":{\"message\":\"upstream\",\"code\":429}}", JB_LLM_RATE_LIMIT, 0, NULL },
        { "{\"error\":\"busy\"}", JB_LLM_TRANSIENT, 0, NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_reply r = decoded(200, cases[i].body, strlen(cases[i].body));
        ck_assert_msg(r.error_class == cases[i].class, "%s: class %u, expected %u: %s", cases[i].body, r.error_class, cases[i].class, r.message);
        if (cases[i].class) {
            ck_assert_msg(r.message[0], "%s: no message", cases[i].body);
            continue;
        }
        ck_assert_msg(r.finish == cases[i].finish, "%s: finish %u, expected %u", cases[i].body, r.finish, cases[i].finish);
        ck_assert_msg(r.text.len == strlen(cases[i].text) && memcmp(r.text.ptr, cases[i].text, r.text.len) == 0, "%s: \"%.*s\"", cases[i].body, (int)r.text.len, r.text.ptr);
        ck_assert(r.model.len == 3 && memcmp(r.model.ptr, "m-1", 3) == 0);
    }
}
END_TEST

START_TEST(failures)
{
    static const struct { uint32_t status; const char *body; uint32_t class; const char *says; } cases[] = {
        { 401, "{\"error\":{\"message\":\"bad key\",\"type\":\"invalid_request_error\",\"code\":\"invalid_api_key\"}}", JB_LLM_AUTH, "HTTP 401: invalid_api_key: bad key" },
        { 403, "", JB_LLM_AUTH, "HTTP 403: no explanation" },
        { 402, "{\"error\":{\"message\":\"pay\"}}", JB_LLM_QUOTA, "pay" },
        { 429, "{\"error\":{\"message\":\"slow\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}", JB_LLM_RATE_LIMIT, "slow" },
        { 429, "{\"error\":{\"message\":\"x\",\"type\":\"insufficient_quota\"}}", JB_LLM_QUOTA, "x" },
        { 429, "{\"error\":{\"message\":\"please check your plan and billing details\"}}", JB_LLM_QUOTA, "plan" },
        { 429, "", JB_LLM_RATE_LIMIT, "429" },
        { 404, "{\"error\":{\"message\":\"no such model\",\"code\":\"model_not_found\"}}", JB_LLM_PERMANENT, "no such model" },
        { 404, "{\"detail\":\"Not Found\"}", JB_LLM_PERMANENT, "Not Found" },
        { 400, "{\"error\":{\"message\":\"x\",\"code\":\"context_length_exceeded\"}}", JB_LLM_TOO_LONG, "x" },
        { 400, "{\"object\":\"error\",\"message\":\"This model's maximum context length is 8 tokens\",\"type\":\"BadRequestError\",\"code\":400}", JB_LLM_TOO_LONG, "maximum" },
        { 400, "{\"error\":{\"message\":\"x\",\"code\":\"content_policy_violation\"}}", JB_LLM_REFUSED, "x" },
        { 400, "{\"error\":{\"message\":\"Unsupported parameter\"}}", JB_LLM_PERMANENT, "Unsupported" },
        { 413, "<html>\nbig</html>", JB_LLM_TOO_LONG, "<html> big" },
        { 408, "", JB_LLM_TRANSIENT, "408" },
        { 500, "{\"error\":{\"message\":\"oops\"}}", JB_LLM_TRANSIENT, "oops" },
        { 501, "", JB_LLM_PERMANENT, "501" },
        { 503, "upstream", JB_LLM_TRANSIENT, "upstream" },
        { 529, "{\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}", JB_LLM_TRANSIENT, "Overloaded" },
        { 418, "\"teapot\"", JB_LLM_PERMANENT, "teapot" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_reply r = decoded(cases[i].status, cases[i].body, strlen(cases[i].body));
        ck_assert_msg(r.error_class == cases[i].class, "%u %s: class %u, expected %u", cases[i].status, cases[i].body, r.error_class, cases[i].class);
        ck_assert_msg(strstr(r.message, cases[i].says), "%u %s: \"%s\" does not say \"%s\"", cases[i].status, cases[i].body, r.message, cases[i].says);
    }
}
END_TEST

START_TEST(usage_in_the_normal_form)
{
    static const struct { const char *usage; jb_usage out; } cases[] = {
        { "{\"prompt_tokens\":100,\"completion_tokens\":40,\"prompt_tokens_details\":{\"cached_tokens\":60},\"completion_tokens_details\":{\"reasoning_tokens\":10}}",
          { 40, 60, 0, 30, 10 } },
        { "{\"prompt_tokens\":100,\"completion_tokens\":40}", { 100, 0, 0, 40, 0 } },
        { "{\"prompt_tokens\":100,\"completion_tokens\":40,\"prompt_tokens_details\":null,\"completion_tokens_details\":{\"reasoning_tokens\":null}}", { 100, 0, 0, 40, 0 } },
        { "{\"prompt_tokens\":\"many\",\"completion_tokens\":-3}", { -1, -1, -1, -1, -1 } },
        { "{\"prompt_tokens\":1.5,\"completion_tokens\":1e300}", { -1, -1, -1, -1, -1 } },
        { "{\"prompt_tokens\":10,\"prompt_tokens_details\":{\"cached_tokens\":11},\"completion_tokens\":5,\"completion_tokens_details\":{\"reasoning_tokens\":\"x\"}}",
          { -1, -1, -1, -1, -1 } },
        { "{\"completion_tokens\":5}", { -1, -1, -1, 5, 0 } },
        { "{}", { -1, -1, -1, -1, -1 } }, { "[]", { -1, -1, -1, -1, -1 } }, { "7", { -1, -1, -1, -1, -1 } }, { "null", { -1, -1, -1, -1, -1 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char body[500];
        snprintf(body, sizeof body, "{\"choices\":[{\"message\":{\"content\":\"x\"}}],\"usage\":%s}", cases[i].usage);
        jb_reply r = decoded(200, body, strlen(body));
        ck_assert_uint_eq(r.error_class, 0);
        ck_assert_msg(memcmp(&r.usage, &cases[i].out, sizeof r.usage) == 0, "%s: %lld %lld %lld %lld %lld", cases[i].usage, (long long)r.usage.input_uncached,
                      (long long)r.usage.cache_read, (long long)r.usage.cache_write, (long long)r.usage.output, (long long)r.usage.reasoning);
    }
}
END_TEST

/* ---- streams --------------------------------------------------------------------------------- */

#define PIECE(text) "data: {\"model\":\"m-1\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" text "\"},\"finish_reason\":null}]}"
#define LAST "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"length\"}]}"
#define USAGE "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}"

START_TEST(streams)
{
    static const struct { const char *body; uint32_t class; const char *text; } cases[] = {
        { PIECE("he") "\n\n" PIECE("llo") "\n\n" LAST "\n\n" USAGE "\n\ndata: [DONE]\n\n", 0, "hello" },
        { ": ping\r\n\r\n" PIECE("he") "\r\n\r\n" PIECE("llo") "\r\n\r\n" LAST "\r\n\r\n" USAGE "\r\n\r\ndata: [DONE]\r\n\r\n", 0, "hello" },
        { "event: x\rid: 1\r" PIECE("he") "\r\r" PIECE("llo") "\r\r" LAST "\r\r" USAGE "\r\rdata:[DONE]\r\r", 0, "hello" },
        { PIECE("he") "\n\n" PIECE("llo") "\n\n" LAST "\n\n" USAGE, 0, "hello" }, /* no [DONE], no last blank line */
        { "data: {\"choices\":[{\"delta\":\ndata: {\"content\":\"hello\"},\"finish_reason\":\"length\"}],\ndata: \"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2},"
          "\"model\":\"m-1\"}\n\ndata: [DONE]\n\n", 0, "hello" },
        { PIECE("he") "\n\n" PIECE("ll") "\n\n", JB_LLM_TRANSIENT, "without [DONE]" },
        { PIECE("he") "\n\ndata: {\"choi", JB_LLM_TRANSIENT, "not a JSON object" },
        { PIECE("he") "\n\ndata: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\"}}\n\n", JB_LLM_TRANSIENT, "overloaded" },
        { PIECE("he") "\n\ndata: {\"error\":{\"message\":\"gone\",\"code\":\"insufficient_quota\"}}\n\ndata: [DONE]\n\n", JB_LLM_QUOTA, "gone" },
        { "data: [DONE]\n\n", JB_LLM_EMPTY, "empty" },
        { "data: 7\n\n", JB_LLM_TRANSIENT, "not a JSON object" },
        { ":\n\n", JB_LLM_TRANSIENT, "without [DONE]" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        jb_reply r = decoded(200, cases[i].body, strlen(cases[i].body));
        ck_assert_msg(r.error_class == cases[i].class, "case %zu: class %u, expected %u: %s", i, r.error_class, cases[i].class, r.message);
        if (cases[i].class) {
            ck_assert_msg(strstr(r.message, cases[i].text), "case %zu: \"%s\"", i, r.message);
            continue;
        }
        ck_assert_msg(r.text.len == 5 && memcmp(r.text.ptr, cases[i].text, 5) == 0, "case %zu: \"%.*s\"", i, (int)r.text.len, r.text.ptr);
        ck_assert_uint_eq(r.finish, JB_FINISH_LENGTH);
        ck_assert_int_eq(r.usage.input_uncached, 3);
        ck_assert_int_eq(r.usage.output, 2);
        ck_assert_uint_eq(r.model.len, 3);
    }
}
END_TEST

START_TEST(other_choices_of_a_stream_do_not_mix_in)
{
    static const char body[] = PIECE("a") "\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"no\"},\"finish_reason\":\"stop\"}]}\n\n" PIECE("b") "\n\n" LAST "\n\n";
    jb_reply r = decoded(200, body, sizeof body - 1);
    ck_assert_uint_eq(r.error_class, 0);
    ck_assert(r.text.len == 2 && memcmp(r.text.ptr, "ab", 2) == 0);
}
END_TEST

/* Whatever is cut off or flipped: an answer or a failure with a message, never a crash. */
START_TEST(damaged_answers)
{
    static const char *const WHOLE[] = {
        " \n\r\n\t  ",
        PIECE("he") "\n\n" PIECE("llo") "\n\n" LAST "\n\n" USAGE "\n\ndata: [DONE]\n\n",
        "{\"model\":\"m\",\"choices\":[{\"message\":{\"content\":\"x\\u00e9\\ud83d\\ude00\"},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}",
    };
    unsigned seed = 1;
    for (size_t w = 0; w < 3; w++) {
        size_t n = strlen(WHOLE[w]);
        for (size_t cut = 0; cut <= n; cut++) {
            char *copy = malloc(cut ? cut : 1); /* exact, so that a sanitizer sees a read behind it */
            memcpy(copy, WHOLE[w], cut);
            jb_reply r = decoded(200, copy, cut);
            ck_assert_msg(!r.error_class || r.message[0], "cut at %zu: no message", cut);
            free(copy);
        }
        for (int round = 0; round < 4000; round++) {
            char *copy = malloc(n);
            memcpy(copy, WHOLE[w], n);
            for (int k = 0; k < 3; k++) {
                seed = seed * 1103515245u + 12345u;
                copy[(seed >> 8) % n] = (char)(seed >> 20);
            }
            jb_reply r = decoded(round % 2 ? 200 : 400, copy, n);
            ck_assert(!r.error_class || r.message[0]);
            free(copy);
        }
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("openai");
    TCase *c = tcase_create("openai");
    tcase_add_test(c, the_body_is_built_from_options_and_messages);
    tcase_add_test(c, url_headers_and_key);
    tcase_add_test(c, what_can_not_work_is_refused_at_creation);
    tcase_add_test(c, replies);
    tcase_add_test(c, failures);
    tcase_add_test(c, usage_in_the_normal_form);
    tcase_add_test(c, streams);
    tcase_add_test(c, other_choices_of_a_stream_do_not_mix_in);
    tcase_add_test(c, damaged_answers);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
