/* SPDX-License-Identifier: Apache-2.0 */
/* core/suite/describe.c - what a gate set asks, in words that a model and a
 * person read alike.  Words of our own checkers and distributions come from
 * tables; one that is in no table is named as the file names it, with its
 * options.  Keys of draws are never mentioned: nobody who writes kernels may
 * know them. */
#include "core/suite/internal.h"

#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

static const struct { const char *use, *words; } CHECKERS[] = {
    { "shape_dtype", "the outputs have exactly the stated structure, shapes and dtypes" },
    { "nonfinite", "infinities and NaN appear in the output exactly where the reference has them" },
    { "allclose", "every element differs by at most absolute tolerance + relative tolerance * magnitude" },
    { "error_ratio", "your errors against a float64 evaluation are at most so many times those of the compiled reference itself" },
    { "coverage", "every block of every output is written in one consecutive run of grid steps, and every input block that is needed is read" },
};
/* Options whose own names say little; `value` NULL: any, and it follows the words. */
static const struct { const char *use, *option, *value, *words; } OPTIONS[] = {
    { "allclose", "atol", NULL, "absolute tolerance" },
    { "allclose", "rtol", NULL, "relative tolerance" },
    { "allclose", "against", "r_jit", "against the compiled reference" },
    { "allclose", "against", "r_op", "against the reference run operation by operation" },
    { "allclose", "against", "h", "against a float64 evaluation" },
    { "allclose", "relative_to", "candidate", "magnitude of your value" },
    { "allclose", "relative_to", "reference", "magnitude of the reference's value" },
    { "error_ratio", "max", NULL, "largest error of an element" },
    { "error_ratio", "rms", NULL, "root mean square error" },
    { "error_ratio", "row", NULL, "root mean square error of the worst row" },
};
static const struct { const char *name, *words; } DISTRIBUTIONS[] = {
    { "published", "as `create_inputs` of the reference draws them" },
    { "own", "as the table of inputs says" },
    { "outlier", "inputs of the role activation have a few values far larger than the rest" },
    { "tiny", "inputs of the role activation are very small" },
};

static const char *words_of_checker(const char *use)
{
    for (size_t i = 0; i < COUNT(CHECKERS); i++)
        if (!strcmp(CHECKERS[i].use, use)) return CHECKERS[i].words;
    return NULL;
}

static const char *words_of_distribution(const char *name)
{
    for (size_t i = 0; i < COUNT(DISTRIBUTIONS); i++)
        if (!strcmp(DISTRIBUTIONS[i].name, name)) return DISTRIBUTIONS[i].words;
    return NULL;
}

/* Words of an option, or its name; *whole when they say the value too. */
static const char *words_of_option(const char *use, const cJSON *i, int *whole)
{
    *whole = 0;
    for (size_t k = 0; k < COUNT(OPTIONS); k++) {
        if (strcmp(OPTIONS[k].use, use) || strcmp(OPTIONS[k].option, i->string)) continue;
        *whole = OPTIONS[k].value != NULL;
        if (!*whole || (cJSON_IsString(i) && !strcmp(OPTIONS[k].value, i->valuestring))) return OPTIONS[k].words;
    }
    *whole = 0;
    return i->string;
}

static void options(const char *use, const cJSON *o, jb_buf *out)
{
    const cJSON *i;
    int first = 1;
    cJSON_ArrayForEach(i, o)
    {
        int whole;
        jb_buf_printf(out, "%s%s", first ? " (" : ", ", words_of_option(use, i, &whole));
        if (!whole) jb_buf_puts(out, " ");
        if (whole) { /* said */
        } else if (cJSON_IsNumber(i)) jb_buf_printf(out, "%.10g", i->valuedouble);
        else if (cJSON_IsString(i)) jb_buf_puts(out, i->valuestring);
        else if (cJSON_IsBool(i)) jb_buf_puts(out, cJSON_IsTrue(i) ? "true" : "false");
        first = 0;
    }
    if (!first) jb_buf_puts(out, ")");
}

static void over(const cJSON *o, const char *check_shape, jb_buf *out)
{
    const cJSON *i, *shapes = check_shape ? NULL : jb_json_obj(o, "shapes");
    if (!o) return;
    jb_buf_puts(out, cJSON_GetArraySize(shapes) > 1 ? "; at the shapes" : "; at the shape");
    if (check_shape) jb_buf_printf(out, " %s", check_shape);
    cJSON_ArrayForEach(i, shapes)
    {
        jb_buf_printf(out, "%s %s", i == shapes->child ? "" : ",", cJSON_IsString(i) ? i->valuestring : "?");
    }
    const cJSON *draws = jb_json_obj(o, "draws");
    jb_buf_puts(out, "; on");
    cJSON_ArrayForEach(i, draws)
    {
        int n = (int)i->valuedouble;
        jb_buf_printf(out, "%s %s (%d draw%s)", i == draws->child ? "" : ",", i->string, n, n == 1 ? "" : "s");
    }
}

/* The distributions that occur, each explained once, at the end. */
static void legend(const cJSON *rows, jb_buf *out)
{
    for (size_t k = 0; k < COUNT(DISTRIBUTIONS); k++) {
        const cJSON *row;
        int used = 0;
        cJSON_ArrayForEach(row, rows)
        {
            used |= cJSON_GetObjectItemCaseSensitive(jb_json_path(row, "over.draws"), DISTRIBUTIONS[k].name) != NULL;
        }
        if (used) jb_buf_printf(out, "- Inputs `%s`: %s.\n", DISTRIBUTIONS[k].name, words_of_distribution(DISTRIBUTIONS[k].name));
    }
}

/* An earlier row asked the same of other inputs. */
static int is_repeated(const cJSON *rows, const cJSON *row)
{
    const cJSON *i;
    for (i = rows->child; i != row; i = i->next)
        if (!strcmp(jb_json_str(i, "use", ""), jb_json_str(row, "use", "?")) &&
            cJSON_Compare(jb_json_obj(i, "options"), jb_json_obj(row, "options"), 1))
            return 1;
    return 0;
}

int jb_gateset_describe(const jb_gateset *g, const char *check_shape, jb_buf *out)
{
    const cJSON *rows = jb_json_obj(jb_gateset_json(g), "rows"), *row;
    jb_buf_printf(out, "Gates `%s` (inputs of the variant %s):\n", jb_gateset_name(g), jb_gateset_variant(g));
    cJSON_ArrayForEach(row, rows)
    {
        const char *use = jb_json_str(row, "use", "?"), *words = words_of_checker(use);
        int repeated = is_repeated(rows, row);
        jb_buf_printf(out, "- `%s`%s", use, repeated ? " again" : "");
        if (!repeated) options(use, jb_json_obj(row, "options"), out);
        if (words && !repeated) jb_buf_printf(out, ": %s", words);
        over(jb_json_obj(row, "over"), check_shape, out);
        jb_buf_puts(out, strcmp(jb_json_str(row, "when", "loop"), "final") ? ".\n" : "; asked of the best kernel at the end, with fresh draws.\n");
    }
    legend(rows, out);
    return out->status;
}
