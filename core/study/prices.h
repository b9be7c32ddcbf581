/* SPDX-License-Identifier: Apache-2.0 */
/* core/study/prices.h - what tokens cost: a dated file of a person's own
 * (docs/budget.md), and the arithmetic on it.  There are no built-in prices: what
 * no row matches is unpriced, which is never the same as free. */
#ifndef JB_STUDY_PRICES_H
#define JB_STUDY_PRICES_H

#include "core/base/hash.h"
#include "core/base/json.h"
#include <jaxbench/backend.h>

#define JB_PRICES_MAX_BYTES (1u << 20)
#define JB_TOKEN_KINDS 5u /* in the order of jb_usage */

/* Pico-dollars a token: a dollar for a million tokens is a million of them. */
typedef struct jb_price { int64_t pico[JB_TOKEN_KINDS]; } jb_price;
extern const jb_price jb_price_free; /* of a reply that an earlier run has paid for */

typedef struct jb_price_row {
    char *backend, *model; /* globs over the plugin's name and its option `model` */
    char *valid_from, *source;
    jb_price price;
} jb_price_row;

typedef struct jb_prices {
    char *name;            /* of the file, without its folder */
    char *text;            /* its bytes, for the manifest */
    char *date;            /* when the prices were looked up */
    char sha256[JB_HASH_HEX];
    jb_price_row *rows;
    size_t count;
} jb_prices;

/* JB_EPARSE, JB_EINVAL, JB_ENOTFOUND (flag JB_ERR_USER) with file and line. */
int jb_prices_parse(const char *text, size_t len, const char *path, jb_prices **out, jb_error *err);
int jb_prices_load(const char *path, jb_prices **out, jb_error *err);
void jb_prices_free(jb_prices *p); /* NULL allowed */

/* The first row that matches; NULL: unpriced.  `p` NULL allowed; model NULL is "". */
const jb_price_row *jb_prices_find(const jb_prices *p, const char *backend, const char *model);

const char *jb_token_kind(size_t kind); /* "input_uncached", "cache_read", ... */
/* Pico-dollars, saturating.  -1 when `price` is NULL or the provider reported no
 * input or no output tokens: what is missing is not known to be free.  The other
 * three kinds count as none when they are missing. */
int64_t jb_price_cost(const jb_price *price, const jb_usage *u);
/* {"input_uncached":..,...} in dollars a million tokens, and back; NULL without memory. */
cJSON *jb_price_json(const jb_price *price);
int jb_price_read(const cJSON *o, jb_price *out); /* 0, or JB_EPARSE when it is none */

#endif
