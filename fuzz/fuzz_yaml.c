/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz/fuzz_yaml.c - any bytes as YAML: no crash, an error with a place, and of
 * what was accepted every typed read, the path in its error, and the JSON form. */
#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/yaml.h"
#include "fuzz/fuzz.h"

#include <string.h>

static void walk(const jb_yaml_doc *d, const jb_yaml *n, int depth)
{
    jb_error err = JB_ERROR_INIT;
    int64_t i;
    double f;
    int b;
    const char *s = NULL;
    MUST(depth <= 33 && n->line >= 1 && n->column >= 1);
    MUST((n->kind == JB_YAML_SCALAR) == (n->text != NULL));
    MUST(jb_yaml_i64(d, n, &i, &err) == 0 || err.message[0]);
    MUST(jb_yaml_f64(d, n, &f, &err) == 0 || err.where[0]);
    MUST(jb_yaml_bool(d, n, &b, &err) == 0 || err.where[0]);
    if (jb_yaml_str(d, n, &s, &err) == 0) MUST(s == n->text);
    if (n->kind == JB_YAML_MAPPING) {
        static const char *const allowed[] = { "name", "rows" };
        jb_yaml_only_keys(d, n, allowed, 2, &err);
        for (size_t k = 0; k < n->count; k++) MUST(jb_yaml_get(n, n->keys[k]->text) == n->items[k]); /* no duplicates */
    }
    for (size_t k = 0; k < n->count; k++) walk(d, n->items[k], depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 65536) return 0; /* `walk` looks every node's path up: quadratic */
    jb_error err = JB_ERROR_INIT;
    jb_yaml_doc *d = jb_yaml_parse((const char *)data, size, "fuzz.yaml", &err);
    if (!d) {
        MUST(err.code == JB_EPARSE && err.message[0] && !strncmp(err.where, "fuzz.yaml:", 10));
        return 0;
    }
    walk(d, jb_yaml_root(d), 0);
    cJSON *o = jb_yaml_to_json(jb_yaml_root(d));
    jb_buf text = JB_BUF_INIT(16 * size + 4096);
    MUST(o != NULL && jb_json_print(o, &text) == 0);
    cJSON *again = jb_json_parse(text.ptr, text.len, &err);
    MUST(again != NULL);
    cJSON_Delete(again);
    cJSON_Delete(o);
    jb_buf_free(&text);
    jb_yaml_free(d);
    return 0;
}
