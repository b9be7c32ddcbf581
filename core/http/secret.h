/* SPDX-License-Identifier: Apache-2.0 */
/* core/http/secret.h - keys of providers: read from the environment once, kept
 * here, put into one header of a request and nowhere else.
 *
 * Taking a key removes it from the environment, so that no child and no plugin
 * finds it there, and whatever comes back from a server goes through
 * jb_secrets_scrub, because servers do echo keys.  No file, log or error of this
 * program holds a key; it holds the *name* of the variable. */
#ifndef JB_HTTP_SECRET_H
#define JB_HTTP_SECRET_H

#include <jaxbench/abi.h>

#define JB_SECRET_MIN 8u /* shorter ones would be scrubbed out of innocent text */
#define JB_SECRET_MAX 4096u

typedef struct jb_secrets jb_secrets;

jb_secrets *jb_secrets_new(void); /* NULL without memory */
void jb_secrets_free(jb_secrets *s); /* wipes; NULL allowed */

/* The value of the variable, owned by `s`; a second call for the same name gives
 * the same.  JB_ENOTFOUND when it is unset or empty, JB_EINVAL when it is no
 * possible key (length, blanks, control characters); the message names the
 * variable, never its value. */
int jb_secrets_take(jb_secrets *s, const char *variable, const char **out, jb_error *err);

/* Would taking succeed?  Changes nothing. */
int jb_secrets_check(const char *variable, jb_error *err);

/* Overwrite every occurrence of every key by '*', length unchanged, also in the
 * forms in which JSON and URLs escape it. */
void jb_secrets_scrub(const jb_secrets *s, char *text, size_t len);

/* This process leaves no core file and lets nobody of the same user read its
 * memory.  Limits of children are lowered too. */
void jb_secrets_guard_process(void);

#endif
