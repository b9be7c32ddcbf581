/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_json.c - any bytes as JSON: no crash, an error that says something,
 * and what was accepted prints to a text that reads back to the same. */
#include "core/base/error.h"
#include "core/base/json.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void print(const cJSON *o, int canonical, jb_buf *out)
{
    MUST((canonical ? jb_json_print_canonical : jb_json_print)(o, out) == 0);
    MUST(out->len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    jb_error err = JB_ERROR_INIT;
    cJSON *o = jb_json_parse((const char *)data, size, &err);
    if (!o) {
        MUST(err.code == JB_EPARSE && err.message[0]);
        return 0;
    }
    for (int canonical = 0; canonical < 2; canonical++) {
        jb_buf first = JB_BUF_INIT(16 * size + 4096), second = JB_BUF_INIT(16 * size + 4096);
        print(o, canonical, &first);
        cJSON *again = jb_json_parse(first.ptr, first.len, &err);
        MUST(again != NULL);
        print(again, canonical, &second);
        MUST(first.len == second.len && !memcmp(first.ptr, second.ptr, first.len));
        cJSON_Delete(again);
        jb_buf_free(&first);
        jb_buf_free(&second);
    }
    /* getters take whatever lies there */
    (void)jb_json_path(o, "a.b.c");
    (void)jb_json_i64(o, "a", 0);
    (void)jb_json_num(o, "a", 0);
    cJSON_Delete(o);
    return 0;
}
