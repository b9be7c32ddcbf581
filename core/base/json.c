/* SPDX-License-Identifier: Apache-2.0 */
/* core/base/json.c - a strict reader and a stable printer around cJSON's tree.
 *
 * cJSON's own parser takes duplicate keys, bad UTF-8, "01" and control
 * characters, and its printer loses digits; only its tree is used here.
 * The reader is RFC 8259 to the letter, with two mercies, because texts of a
 * candidate reach us through Python's json.dumps and must not be able to make
 * a record unreadable: the escapes \u0000 and of lone surrogates become U+FFFD.
 * Recursion is bounded by JB_JSON_MAX_DEPTH, memory by JB_JSON_MAX_NODES. */
#include "core/base/json.h"

#include "core/base/error.h"
#include "core/base/fs.h"
#include "core/base/mem.h"
#include "core/base/text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAFE_INT 9007199254740992.0 /* 2^53: up to here doubles are exact */
_Static_assert(JB_JSON_MAX_DEPTH == 64 && JB_JSON_MAX_NODES == 2000000u, "the messages below say these numbers");
#define REPLACEMENT "\xEF\xBF\xBD"  /* U+FFFD */

static void *hook_malloc(size_t n) { return jb_alloc(n); }

void jb_json_setup(void)
{
    cJSON_Hooks hooks = { hook_malloc, jb_free };
    cJSON_InitHooks(&hooks);
}

/* ---- reading ---------------------------------------------------------- */

struct reader {
    const char *start, *at, *end;
    size_t nodes;
    jb_error *err;
    int code; /* first failure; nothing is read after it */
};

/* Record the failure at byte `where` with line and column. */
static void fail(struct reader *r, const char *where, int code, const char *expected)
{
    if (r->code) return;
    r->code = code;
    if (code == JB_ENOMEM) {
        jb_err(r->err, code, "out of memory reading JSON of %zu bytes", (size_t)(r->end - r->start));
        return;
    }
    size_t line = 1, column = 1;
    for (const char *p = r->start; p < where; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    char seen[24];
    if (where >= r->end) snprintf(seen, sizeof seen, "the end");
    else if (*where > 0x20 && *where < 0x7F) snprintf(seen, sizeof seen, "'%c'", *where);
    else snprintf(seen, sizeof seen, "byte 0x%02x", (unsigned char)*where);
    jb_err(r->err, code, "malformed JSON at line %zu, column %zu: %s, saw %s", line, column, expected, seen);
}

static void skip_blanks(struct reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r')) r->at++;
}

static int take(struct reader *r, char c)
{
    if (r->at >= r->end || *r->at != c) return 0;
    r->at++;
    return 1;
}

static cJSON *node(struct reader *r, int type)
{
    if (++r->nodes > JB_JSON_MAX_NODES) {
        fail(r, r->at, JB_EPARSE, "expected at most 2000000 values");
        return NULL;
    }
    cJSON *n = cJSON_CreateNull();
    if (n) n->type = type;
    else fail(r, r->at, JB_ENOMEM, "");
    return n;
}

/* Four hex digits at p, or -1. */
static int hex4(const char *p, const char *end)
{
    int v = 0;
    if (end - p < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0) return -1;
        v = v * 16 + digit;
    }
    return v;
}

static char *put_utf8(char *out, uint32_t c)
{
    if (c < 0x80) *out++ = (char)c;
    else if (c < 0x800) {
        *out++ = (char)(0xC0 | c >> 6);
        *out++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *out++ = (char)(0xE0 | c >> 12);
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    } else {
        *out++ = (char)(0xF0 | c >> 18);
        *out++ = (char)(0x80 | (c >> 12 & 0x3F));
        *out++ = (char)(0x80 | (c >> 6 & 0x3F));
        *out++ = (char)(0x80 | (c & 0x3F));
    }
    return out;
}

/* The escape after the backslash at r->at; six source bytes are at least as
 * long as what they become, so `out` never overtakes the input. */
static char *read_escape(struct reader *r, char *out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *slash = r->at++;
    const char *known = r->at < r->end && *r->at ? strchr(from, *r->at) : NULL;
    if (known) {
        r->at++;
        *out++ = to[known - from];
        return out;
    }
    int high = take(r, 'u') ? hex4(r->at, r->end) : -1;
    if (high < 0) {
        fail(r, slash, JB_EPARSE, "expected an escape like \\n or \\u00e9");
        return out;
    }
    r->at += 4;
    uint32_t code = (uint32_t)high;
    if (high >= 0xD800 && high < 0xDC00 && r->end - r->at >= 6 && r->at[0] == '\\' && r->at[1] == 'u') {
        int low = hex4(r->at + 2, r->end);
        if (low >= 0xDC00 && low < 0xE000) {
            code = 0x10000 + (((uint32_t)high - 0xD800) << 10) + ((uint32_t)low - 0xDC00);
            r->at += 6;
        }
    }
    return put_utf8(out, code == 0 || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code);
}

/* A string at the opening quote, as a fresh C string. */
static char *read_string(struct reader *r)
{
    if (!take(r, '"')) {
        fail(r, r->at, JB_EPARSE, "expected a string");
        return NULL;
    }
    /* Find the end first, so that one allocation is enough. */
    const char *close = r->at;
    while (close < r->end && *close != '"') close += *close == '\\' && r->end - close > 1 ? 2 : 1;
    if (close >= r->end) {
        fail(r, r->end, JB_EPARSE, "expected the closing quote of a string");
        return NULL;
    }
    char *text = jb_alloc((size_t)(close - r->at) + 1), *out = text;
    if (!text) {
        fail(r, r->at, JB_ENOMEM, "");
        return NULL;
    }
    while (r->at < close && !r->code) {
        if (*r->at == '\\') out = read_escape(r, out);
        else if ((unsigned char)*r->at < 0x20) fail(r, r->at, JB_EPARSE, "expected control characters to be escaped");
        else *out++ = *r->at++;
    }
    if (r->code) {
        jb_free(text);
        return NULL;
    }
    r->at = close + 1;
    return text;
}

static size_t digits(struct reader *r)
{
    const char *from = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9') r->at++;
    return (size_t)(r->at - from);
}

static cJSON *read_number(struct reader *r)
{
    const char *from = r->at;
    char small[64], *big = NULL;
    double v = 0;
    take(r, '-');
    if (!take(r, '0') && !digits(r)) {
        fail(r, r->at, JB_EPARSE, "expected a value");
        return NULL;
    }
    if (take(r, '.') && !digits(r)) fail(r, r->at, JB_EPARSE, "expected a digit after the point");
    if (take(r, 'e') || take(r, 'E')) {
        if (!take(r, '-')) take(r, '+');
        if (!digits(r)) fail(r, r->at, JB_EPARSE, "expected a digit in the exponent");
    }
    if (r->code) return NULL;
    size_t n = (size_t)(r->at - from);
    char *text = n < sizeof small ? small : (big = jb_alloc(n + 1));
    if (!text) {
        fail(r, from, JB_ENOMEM, "");
        return NULL;
    }
    memcpy(text, from, n);
    text[n] = '\0';
    if (jb_text_f64(text, &v)) fail(r, from, JB_EPARSE, "expected a number within the range of a double");
    jb_free(big);
    cJSON *item = r->code ? NULL : node(r, cJSON_Number);
    if (item) cJSON_SetNumberHelper(item, v);
    return item;
}

static cJSON *read_word(struct reader *r)
{
    static const struct { const char *word; int type; } words[] = {
        { "true", cJSON_True }, { "false", cJSON_False }, { "null", cJSON_NULL },
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        size_t n = strlen(words[i].word);
        if ((size_t)(r->end - r->at) < n || memcmp(r->at, words[i].word, n)) continue;
        r->at += n;
        return node(r, words[i].type);
    }
    fail(r, r->at, JB_EPARSE, "expected a value");
    return NULL;
}

static int by_name(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* The members of an object sorted by name, in a fresh array; NULL without memory. */
static const cJSON **sorted_members(const cJSON *o, size_t *count)
{
    size_t n = 0;
    for (const cJSON *m = o->child; m; m = m->next) n++;
    const cJSON **list = jb_alloc_array(n + 1, sizeof *list);
    if (!list) return NULL;
    *count = n;
    n = 0;
    for (const cJSON *m = o->child; m; m = m->next) list[n++] = m;
    qsort(list, n, sizeof *list, by_name);
    return list;
}

static void refuse_duplicates(struct reader *r, const cJSON *o)
{
    const char *twice = NULL;
    size_t n = 0;
    if (r->code || !o->child || !o->child->next) return;
    const cJSON **list = sorted_members(o, &n);
    if (!list) {
        fail(r, r->at, JB_ENOMEM, "");
        return;
    }
    for (size_t i = 1; i < n && !twice; i++)
        if (!strcmp(list[i - 1]->string, list[i]->string)) twice = list[i]->string;
    if (twice) {
        char text[128];
        snprintf(text, sizeof text, "expected no key twice, but \"%.60s\" is, in the object before here", twice);
        fail(r, r->at, JB_EPARSE, text);
    }
    jb_free(list);
}

static cJSON *read_value(struct reader *r, int depth);

/* One element or member, appended to the collection. */
static void read_member(struct reader *r, cJSON *into, int depth)
{
    char *key = NULL;
    if (into->type == cJSON_Object) {
        skip_blanks(r);
        if (!(key = read_string(r))) return;
        skip_blanks(r);
        if (!take(r, ':')) fail(r, r->at, JB_EPARSE, "expected ':'");
    }
    cJSON *item = r->code ? NULL : read_value(r, depth + 1);
    if (!item) {
        jb_free(key);
        return;
    }
    item->string = key;
    cJSON_AddItemToArray(into, item); /* appends; for an object too, as the name is set */
}

static cJSON *read_collection(struct reader *r, int depth)
{
    int object = *r->at == '{';
    const char close = object ? '}' : ']';
    if (depth >= JB_JSON_MAX_DEPTH) {
        fail(r, r->at, JB_EPARSE, "expected at most 64 levels of nesting");
        return NULL;
    }
    cJSON *o = node(r, object ? cJSON_Object : cJSON_Array);
    if (!o) return NULL;
    r->at++;
    skip_blanks(r);
    if (!take(r, close)) {
        do {
            read_member(r, o, depth);
            skip_blanks(r);
        } while (!r->code && take(r, ','));
        if (!r->code && !take(r, close)) fail(r, r->at, JB_EPARSE, object ? "expected ',' or '}'" : "expected ',' or ']'");
        if (object) refuse_duplicates(r, o);
    }
    if (!r->code) return o;
    cJSON_Delete(o);
    return NULL;
}

static cJSON *read_value(struct reader *r, int depth)
{
    skip_blanks(r);
    char c = r->at < r->end ? *r->at : '\0';
    if (c == '{' || c == '[') return read_collection(r, depth);
    if (c == '-' || (c >= '0' && c <= '9')) return read_number(r);
    if (c != '"') return read_word(r);
    char *text = read_string(r);
    cJSON *s = text ? node(r, cJSON_String) : NULL;
    if (s) s->valuestring = text;
    else jb_free(text);
    return s;
}

cJSON *jb_json_parse(const char *text, size_t len, jb_error *err)
{
    struct reader r = { .start = text ? text : "", .err = err };
    r.at = r.start;
    r.end = r.start + (text ? len : 0);
    if (len > JB_JSON_MAX_BYTES) {
        jb_err(err, JB_EPARSE, "JSON of %zu bytes; at most %u are read", len, JB_JSON_MAX_BYTES);
        return NULL;
    }
    if (text && !jb_text_utf8_valid(text, len)) {
        jb_err(err, JB_EPARSE, "malformed JSON: expected UTF-8, saw other bytes");
        return NULL;
    }
    cJSON *o = read_value(&r, 0);
    skip_blanks(&r);
    if (o && r.at < r.end) fail(&r, r.at, JB_EPARSE, "expected the end");
    if (!r.code) return o;
    cJSON_Delete(o);
    return NULL;
}

cJSON *jb_json_read_file(const char *path, size_t max_bytes, jb_error *err)
{
    jb_buf b = JB_BUF_INIT(max_bytes);
    cJSON *o = NULL;
    if (!jb_fs_read(path, max_bytes, &b, err)) {
        o = jb_json_parse(b.ptr ? b.ptr : "", b.len, err);
        if (!o) jb_err_where(err, path, 0);
    }
    jb_buf_free(&b);
    return o;
}

/* ---- getters ---------------------------------------------------------- */

static const cJSON *member(const cJSON *o, const char *key)
{
    return cJSON_IsObject(o) && key ? cJSON_GetObjectItemCaseSensitive(o, key) : NULL;
}

const char *jb_json_str(const cJSON *o, const char *key, const char *def)
{
    const cJSON *m = member(o, key);
    return cJSON_IsString(m) && m->valuestring ? m->valuestring : def;
}

/* Also reads back what the setters write as strings. */
double jb_json_num(const cJSON *o, const char *key, double def)
{
    const cJSON *m = member(o, key);
    int64_t big;
    if (cJSON_IsNumber(m)) return m->valuedouble;
    if (!cJSON_IsString(m) || !m->valuestring) return def;
    if (!strcmp(m->valuestring, "inf")) return INFINITY;
    if (!strcmp(m->valuestring, "-inf")) return -INFINITY;
    if (!strcmp(m->valuestring, "nan")) return NAN;
    if (!jb_text_i64(m->valuestring, &big) && fabs((double)big) >= SAFE_INT) return (double)big;
    return def;
}

int64_t jb_json_i64(const cJSON *o, const char *key, int64_t def)
{
    const cJSON *m = member(o, key);
    int64_t v;
    if (cJSON_IsString(m)) return m->valuestring && !jb_text_i64(m->valuestring, &v) ? v : def;
    if (!cJSON_IsNumber(m)) return def;
    double d = m->valuedouble;
    return d >= -0x1p63 && d < 0x1p63 && d == floor(d) ? (int64_t)d : def;
}

int jb_json_bool(const cJSON *o, const char *key, int def)
{
    const cJSON *m = member(o, key);
    return cJSON_IsBool(m) ? cJSON_IsTrue(m) : def;
}

const cJSON *jb_json_obj(const cJSON *o, const char *key)
{
    const cJSON *m = member(o, key);
    return cJSON_IsObject(m) || cJSON_IsArray(m) ? m : NULL;
}

const cJSON *jb_json_path(const cJSON *o, const char *dotted)
{
    char key[128];
    while (o && *dotted) {
        size_t n = strcspn(dotted, ".");
        if (n >= sizeof key) return NULL;
        memcpy(key, dotted, n);
        key[n] = '\0';
        o = member(o, key);
        dotted += n + (dotted[n] == '.');
    }
    return o;
}

/* ---- setters ---------------------------------------------------------- */

/* Put `item` under `key`, in the place of what was there, or at the end of an
 * array; frees item on failure. */
static int put(cJSON *o, const char *key, cJSON *item)
{
    cJSON *old;
    if (!o || !item) goto fail;
    if (cJSON_IsArray(o)) {
        if (cJSON_AddItemToArray(o, item)) return 0;
    } else if (!key) {
        goto fail;
    } else if ((old = cJSON_GetObjectItemCaseSensitive(o, key))) {
        if ((item->string = jb_strdup(key)) && cJSON_ReplaceItemViaPointer(o, old, item)) return 0;
    } else if (cJSON_AddItemToObject(o, key, item)) {
        return 0;
    }
fail:
    cJSON_Delete(item);
    return JB_ENOMEM;
}

int jb_json_set_str(cJSON *o, const char *key, const char *value)
{
    jb_view v = { value, value ? strlen(value) : 0 };
    return value ? jb_json_set_view(o, key, v) : put(o, key, cJSON_CreateNull());
}

/* Bytes of the valid UTF-8 character at s, 0 when invalid. */
static size_t character(const char *s, size_t left)
{
    unsigned char c = (unsigned char)*s;
    size_t n = c < 0x80 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    return n == 1 || (n <= left && jb_text_utf8_valid(s, n)) ? n : 0;
}

int jb_json_set_view(cJSON *o, const char *key, jb_view value)
{
    jb_buf b = JB_BUF_INIT(SIZE_MAX);
    size_t len = (size_t)value.len, from = 0;
    jb_buf_append(&b, "", 0);
    for (size_t i = 0; i < len;) {
        size_t n = value.ptr[i] ? character(value.ptr + i, len - i) : 0;
        if (!n) {
            jb_buf_append(&b, value.ptr + from, i - from);
            jb_buf_puts(&b, REPLACEMENT);
            from = i + 1;
        }
        i += n ? n : 1;
    }
    if (len > from) jb_buf_append(&b, value.ptr + from, len - from);
    cJSON *s = b.status ? NULL : cJSON_CreateNull();
    if (s) {
        s->type = cJSON_String;
        s->valuestring = jb_buf_detach(&b);
    }
    jb_buf_free(&b);
    return put(o, key, s);
}

int jb_json_set_num(cJSON *o, const char *key, double v)
{
    if (isnan(v)) return put(o, key, cJSON_CreateString("nan"));
    if (isinf(v)) return put(o, key, cJSON_CreateString(v > 0 ? "inf" : "-inf"));
    return put(o, key, cJSON_CreateNumber(v));
}

int jb_json_set_i64(cJSON *o, const char *key, int64_t v)
{
    if (v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53) return put(o, key, cJSON_CreateNumber((double)v));
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, v);
    return put(o, key, cJSON_CreateString(text));
}

int jb_json_set_bool(cJSON *o, const char *key, int value) { return put(o, key, cJSON_CreateBool(value != 0)); }

static cJSON *add(cJSON *o, const char *key, cJSON *item) { return put(o, key, item) ? NULL : item; }
cJSON *jb_json_add_obj(cJSON *o, const char *key) { return add(o, key, cJSON_CreateObject()); }
cJSON *jb_json_add_arr(cJSON *o, const char *key) { return add(o, key, cJSON_CreateArray()); }

/* ---- printing --------------------------------------------------------- */

enum style { LINE, CANONICAL, PRETTY };

static void print_number(jb_buf *out, double d)
{
    char text[40];
    double back = 0;
    if (!isfinite(d)) {
        jb_buf_puts(out, isnan(d) ? "\"nan\"" : d > 0 ? "\"inf\"" : "\"-inf\"");
        return;
    }
    if (d == floor(d) && fabs(d) <= SAFE_INT) {
        if (d == 0 && signbit(d)) jb_buf_puts(out, "-0.0");
        else jb_buf_printf(out, "%" PRId64, (int64_t)d);
        return;
    }
    /* 15 digits always survive, 17 always suffice; %g trims the zeros. */
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, d);
        char *comma = strchr(text, ','); /* an embedding program's locale */
        if (comma) *comma = '.';
        if (!jb_text_f64(text, &back) && back == d) break;
    }
    jb_buf_puts(out, text);
}

static void print_string(jb_buf *out, const char *s)
{
    static const char special[] = "\"\\\n\t\r\b\f", letter[] = "\"\\ntrbf";
    const char *from = s;
    size_t left = strlen(s);
    jb_buf_puts(out, "\"");
    while (left) {
        unsigned char c = (unsigned char)*s;
        const char *known = strchr(special, *s);
        size_t n = character(s, left);
        if (n && c >= 0x20 && c != 0x7F && !known) {
            s += n;
            left -= n;
            continue;
        }
        if (s > from) jb_buf_append(out, from, (size_t)(s - from));
        if (!n) jb_buf_puts(out, REPLACEMENT);
        else if (known) jb_buf_printf(out, "\\%c", letter[known - special]);
        else jb_buf_printf(out, "\\u%04x", c);
        from = ++s;
        left--;
    }
    if (s > from) jb_buf_append(out, from, (size_t)(s - from));
    jb_buf_puts(out, "\"");
}

static void newline(jb_buf *out, enum style style, int depth)
{
    if (style == PRETTY) jb_buf_printf(out, "\n%*s", 2 * depth, "");
}

static void print(jb_buf *out, const cJSON *o, enum style style, int depth);

static void print_collection(jb_buf *out, const cJSON *o, enum style style, int depth)
{
    int object = cJSON_IsObject(o);
    const cJSON **list = NULL;
    size_t n = 0;
    if (object && style == CANONICAL && !(list = sorted_members(o, &n))) {
        if (!out->status) out->status = JB_ENOMEM;
        return;
    }
    const cJSON *m = list ? list[0] : o->child;
    jb_buf_puts(out, object ? "{" : "[");
    for (size_t i = 0; m && !out->status; m = list ? list[++i] : m->next) { /* the list ends in NULL */
        if (m != (list ? list[0] : o->child)) jb_buf_puts(out, ",");
        newline(out, style, depth + 1);
        if (object) {
            print_string(out, m->string ? m->string : "");
            jb_buf_puts(out, style == PRETTY ? ": " : ":");
        }
        print(out, m, style, depth + 1);
    }
    if (o->child) newline(out, style, depth);
    jb_buf_puts(out, object ? "}" : "]");
    jb_free(list);
}

static void print(jb_buf *out, const cJSON *o, enum style style, int depth)
{
    switch (o ? o->type & 0xFF : cJSON_NULL) {
    case cJSON_False: jb_buf_puts(out, "false"); break;
    case cJSON_True: jb_buf_puts(out, "true"); break;
    case cJSON_Number: print_number(out, o->valuedouble); break;
    case cJSON_String: print_string(out, o->valuestring ? o->valuestring : ""); break;
    case cJSON_Raw: jb_buf_puts(out, o->valuestring ? o->valuestring : "null"); break;
    case cJSON_Array:
    case cJSON_Object: print_collection(out, o, style, depth); break;
    default: jb_buf_puts(out, "null"); break;
    }
}

static int printed(const cJSON *o, jb_buf *out, enum style style)
{
    print(out, o, style, 0);
    return out->status;
}

int jb_json_print(const cJSON *o, jb_buf *out) { return printed(o, out, LINE); }
int jb_json_print_canonical(const cJSON *o, jb_buf *out) { return printed(o, out, CANONICAL); }
int jb_json_print_pretty(const cJSON *o, jb_buf *out) { return printed(o, out, PRETTY); }
