/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_answer.c - any bytes as a provider's answer to the backend `openai`,
 * document or stream: no crash, and either a reply or a class with words. */
#include "plugins/backends/openai/answer.c"
#include "plugins/backends/openai/fault.c"
#include "plugins/backends/openai/stream.c"

#include "fuzz/fuzz.h"

static char memory[1 << 22];
static size_t used;

static void *arena_alloc(const jb_host *host, uint64_t bytes)
{
    (void)host;
    if (bytes > sizeof memory - used) return NULL;
    used += bytes;
    return memory + used - bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const jb_arena_service arena = { .struct_size = sizeof arena, .alloc = arena_alloc };
    static const jb_host host = { .struct_size = sizeof host };
    const keeper k = { &host, &arena };
    jb_reply r = { .struct_size = sizeof r, .finish = JB_FINISH_STOP, .usage = { -1, -1, -1, -1, -1 } };
    used = 0;
    int rc = read_answer(&k, (const char *)data, size, &r);
    MUST(rc == 0 || rc == JB_ENOMEM);
    if (rc == 0 && r.error_class) MUST(r.error_class <= JB_LLM_PERMANENT && r.message[0] && r.text.len == 0);
    else if (rc == 0) MUST(r.text.ptr && r.text.ptr[r.text.len] == '\0' && r.finish >= JB_FINISH_STOP && r.finish <= JB_FINISH_REFUSED);
    MUST(r.usage.output >= -1 && r.usage.cache_read >= -1);
    cJSON *doc = cJSON_ParseWithLength((const char *)data, size);
    r = (jb_reply){ .struct_size = sizeof r };
    classify(&r, 429, doc, (const char *)data, size);
    MUST(r.error_class && r.message[0]);
    cJSON_Delete(doc);
    return 0;
}
