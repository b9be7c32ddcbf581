/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/secret.c - see secret.h. */
#include "core/http/secret.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#endif

#define FORMS 3u /* as it is, JSON with \/, percent-encoded */

typedef struct secret {
    char *variable;
    char *forms[FORMS]; /* NULL: equal to an earlier form */
} secret;

struct jb_secrets {
    secret *list;
    size_t count;
};

jb_secrets *jb_secrets_new(void) { return jb_alloc(sizeof(jb_secrets)); }

static void wipe(char *text)
{
    if (text) explicit_bzero(text, strlen(text));
    jb_free(text);
}

void jb_secrets_free(jb_secrets *s)
{
    if (!s) return;
    for (size_t i = 0; i < s->count; i++) {
        jb_free(s->list[i].variable);
        for (size_t f = 0; f < FORMS; f++) wipe(s->list[i].forms[f]);
    }
    jb_free(s->list);
    jb_free(s);
}

static int plain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || strchr("-._~", c); }

/* Form `f` of a key; at most three bytes for each of its own. */
static char *escaped(const char *key, size_t f)
{
    char *out = jb_alloc(3 * strlen(key) + 1), *to = out;
    for (const char *c = key; out && *c; c++) {
        if (f == 1 && *c == '/') { *to++ = '\\'; *to++ = '/'; }
        else if (f == 1 && (*c == '"' || *c == '\\')) { *to++ = '\\'; *to++ = *c; }
        else if (f == 2 && !plain(*c)) to += snprintf(to, 4, "%%%02X", (unsigned)(unsigned char)*c);
        else *to++ = *c;
    }
    return out;
}

static int check(const char *variable, const char *value, jb_error *err)
{
    size_t n = value ? strlen(value) : 0;
    if (n == 0) {
        jb_err(err, JB_ENOTFOUND, "the environment variable %.100s is %s; it should hold the provider's key", variable, value ? "empty" : "not set");
        jb_err_hint(err, "export %.100s=..., or name another variable as key_env in the study", variable);
    } else if (n < JB_SECRET_MIN || n > JB_SECRET_MAX) {
        jb_err(err, JB_EINVAL, "the key in %.100s has %zu characters; keys of %u to %u are accepted", variable, n, JB_SECRET_MIN, JB_SECRET_MAX);
    } else {
        const char *c = value;
        while (*c > ' ' && *c <= '~') c++;
        if (!*c) return 0;
        jb_err(err, JB_EINVAL, "the key in %.100s holds a blank, a line break or a character that is not ASCII", variable);
    }
    if (err) err->flags |= JB_ERR_USER;
    return err ? err->code : JB_EINVAL;
}

int jb_secrets_check(const char *variable, jb_error *err) { return check(variable, getenv(variable), err); }

int jb_secrets_take(jb_secrets *s, const char *variable, const char **out, jb_error *err)
{
    for (size_t i = 0; i < s->count; i++) {
        if (strcmp(s->list[i].variable, variable) != 0) continue;
        *out = s->list[i].forms[0];
        return 0;
    }
    char *value = getenv(variable);
    int rc = check(variable, value, err);
    if (rc != 0) return rc;
    secret *grown = jb_realloc(s->list, (s->count + 1) * sizeof *grown);
    if (!grown) return jb_err(err, JB_ENOMEM, "out of memory");
    s->list = grown;
    secret *one = &grown[s->count];
    memset(one, 0, sizeof *one);
    one->variable = jb_strdup(variable);
    rc = one->variable ? 0 : JB_ENOMEM;
    for (size_t f = 0; rc == 0 && f < FORMS; f++) {
        one->forms[f] = escaped(value, f);
        if (!one->forms[f]) rc = JB_ENOMEM;
        else if (f > 0 && strcmp(one->forms[f], value) == 0) {
            wipe(one->forms[f]);
            one->forms[f] = NULL;
        }
    }
    if (rc != 0) {
        jb_free(one->variable);
        for (size_t f = 0; f < FORMS; f++) wipe(one->forms[f]);
        return jb_err(err, rc, "out of memory");
    }
    s->count++;
    explicit_bzero(value, strlen(value)); /* also out of /proc/self/environ */
    unsetenv(variable);
    *out = one->forms[0];
    return 0;
}

static void scrub_one(char *text, size_t len, const char *form)
{
    size_t n = strlen(form);
    for (char *at = text; len >= n && (at = memmem(at, len - (size_t)(at - text), form, n)); at += n) memset(at, '*', n);
}

void jb_secrets_scrub(const jb_secrets *s, char *text, size_t len)
{
    if (!s || !text) return;
    for (size_t i = 0; i < s->count; i++)
        for (size_t f = 0; f < FORMS; f++)
            if (s->list[i].forms[f]) scrub_one(text, len, s->list[i].forms[f]);
}

void jb_secrets_guard_process(void)
{
    struct rlimit none = { 0, 0 };
    (void)setrlimit(RLIMIT_CORE, &none);
#if !defined(SANITIZED) /* its leak check has to look at the process */
    (void)prctl(PR_SET_DUMPABLE, 0); /* a core_pattern that is a pipe does not ask for the limit */
#endif
}
