/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/expr.c - the arithmetic of workload.yaml: sizes, FLOPs, bytes and
 * scale factors as expressions over the dimension symbols of a shape.
 *
 *     sum     := product (('+' | '-') product)*
 *     product := unary (('*' | '/' | '//') unary)*
 *     unary   := '-' unary | power
 *     power   := atom ('^' unary)?            right to left, binds tighter than '-'
 *     atom    := number | symbol | '(' sum ')'
 *
 * Double arithmetic: exact for integers up to 2^53, which the sizes of all
 * workloads stay below.  No functions, no comparison, no assignment. */
#include "core/suite/suite.h"

#include "core/base/error.h"
#include "core/base/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MAX_DEPTH 64
#define MAX_SYMBOLS 64

struct parser {
    const char *text, *at;
    const cJSON *symbols;
    jb_error *err;
    int depth;
};

static int sum(struct parser *p, double *out);

static int fail(const struct parser *p, const char *what)
{
    return jb_err(p->err, JB_EPARSE, "expression \"%.100s\": %s at character %d", p->text, what, (int)(p->at - p->text) + 1);
}

static void skip_space(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

static int digit(char c) { return c >= '0' && c <= '9'; }
static int letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

static int number(struct parser *p, double *out)
{
    char room[40];
    size_t n = 0;
    const char *s = p->at;
    while (digit(s[n]) || s[n] == '.') n++;
    if (s[n] == 'e' || s[n] == 'E') {
        size_t k = n + 1;
        if (s[k] == '+' || s[k] == '-') k++;
        if (digit(s[k])) {
            while (digit(s[k])) k++;
            n = k;
        }
    }
    if (n >= sizeof room) return fail(p, "a number that long can't be read");
    memcpy(room, s, n);
    room[n] = '\0';
    if (jb_text_f64(room, out)) return fail(p, "malformed number");
    p->at += n;
    return 0;
}

static int symbol(struct parser *p, double *out)
{
    char name[64];
    size_t n = 0;
    while (letter(p->at[n]) || digit(p->at[n])) n++;
    if (n >= sizeof name) return fail(p, "a name that long can't be a symbol");
    memcpy(name, p->at, n);
    name[n] = '\0';
    const cJSON *v = cJSON_GetObjectItemCaseSensitive(p->symbols, name);
    if (!cJSON_IsNumber(v)) {
        const char *names[MAX_SYMBOLS], *near;
        size_t count = 0;
        cJSON_ArrayForEach(v, p->symbols)
        {
            if (count < MAX_SYMBOLS) names[count++] = v->string;
        }
        near = jb_text_nearest(name, names, count);
        jb_err(p->err, JB_EPARSE, "expression \"%.100s\": no dimension symbol \"%s\"", p->text, name);
        if (near) jb_err_hint(p->err, "did you mean \"%s\"?", near);
        return JB_EPARSE;
    }
    *out = v->valuedouble;
    p->at += n;
    return 0;
}

static int atom(struct parser *p, double *out)
{
    skip_space(p);
    if (digit(*p->at) || *p->at == '.') return number(p, out);
    if (letter(*p->at)) return symbol(p, out);
    if (*p->at != '(') return fail(p, *p->at ? "expected a number, a symbol or '('" : "something is missing");
    p->at++;
    int status = sum(p, out);
    if (status) return status;
    skip_space(p);
    if (*p->at != ')') return fail(p, "expected ')'");
    p->at++;
    return 0;
}

static int unary(struct parser *p, double *out)
{
    if (++p->depth > MAX_DEPTH) return fail(p, "nested too deeply");
    skip_space(p);
    int minus = *p->at == '-';
    p->at += minus;
    int status = minus ? unary(p, out) : atom(p, out);
    if (!status && minus) *out = -*out;
    skip_space(p);
    if (!status && !minus && *p->at == '^') {
        double exponent = 0;
        p->at++;
        status = unary(p, &exponent);
        if (!status) *out = pow(*out, exponent);
    }
    p->depth--;
    return status;
}

static int product(struct parser *p, double *out)
{
    int status = unary(p, out);
    while (!status) {
        skip_space(p);
        char op = *p->at;
        if (op != '*' && op != '/') break;
        int floored = op == '/' && p->at[1] == '/';
        double right = 0;
        p->at += 1 + floored;
        status = unary(p, &right);
        if (status) break;
        if (op == '/' && !(right < 0 || right > 0)) return fail(p, "division by zero");
        *out = op == '*' ? *out * right : floored ? floor(*out / right) : *out / right;
    }
    return status;
}

static int sum(struct parser *p, double *out)
{
    int status = product(p, out);
    while (!status) {
        skip_space(p);
        char op = *p->at;
        double right = 0;
        if (op != '+' && op != '-') break;
        p->at++;
        status = product(p, &right);
        if (!status) *out = op == '+' ? *out + right : *out - right;
    }
    return status;
}

int jb_expr_eval(const char *text, const cJSON *symbols, double *out, jb_error *err)
{
    struct parser p = { text, text, symbols, err, 0 };
    double value = 0;
    int status = sum(&p, &value);
    if (status) return status;
    skip_space(&p);
    if (*p.at) return fail(&p, "unexpected text");
    if (!isfinite(value)) return jb_err(err, JB_EPARSE, "expression \"%.100s\" is not a finite number", text);
    *out = value;
    return 0;
}
