/* SPDX-License-Identifier: Apache-2.0 */
/* scripted: every fault occurs in a run of four workloads with twelve samples, the
 * same request gives the same reply, replies have the form of their fault, unknown
 * workloads get prose; and the bank's reader refuses banks that have drifted. */
#include "scripted.c"
#include "bank.c"
#include "compose.c"
#include "mend.c"

#include "core/base/error.h"
#include "core/evaluate/extract.h"
#include "core/options/options.h"

#include <check.h>
#include <sys/stat.h>
#include <unistd.h>

#define BANK JB_SOURCE_DIR "/plugins/backends/scripted/bank"

static const char *const WORKLOADS[] = { "1p", "8p", "12p", "50k" };

/* What the backend promises to show. */
static const char *const FAULTS[] = { "prose", "cut-off", "syntax", "no-kernel", "bad-block", "vmem-overflow", "lost-tail", "wrong-mask",
                                      "bf16-accumulator", "wrong-eps", "no-max", "zeros" };
#define FAULT_COUNT (sizeof FAULTS / sizeof *FAULTS)

/* ---- a host and a backend ------------------------------------------------------ */

static char memory[1 << 16];
static int arena_empty;

static void *arena_alloc(const jb_host *host, uint64_t bytes)
{
    (void)host;
    if (arena_empty || bytes > sizeof memory) return NULL;
    memset(memory, 0, sizeof memory);
    return memory;
}

static const jb_arena_service arena = { .struct_size = sizeof arena, .alloc = arena_alloc };
static const void *service(const jb_host *host, const char *id) { return host->ctx == NULL && strcmp(id, JB_SERVICE_ARENA) == 0 ? &arena : NULL; }
static const jb_host host = { .struct_size = sizeof host, .abi_major = 1, .service = service };

struct subject {
    jb_config *config;
    void *self;
};

static struct subject open_backend(double fault_rate, const char *bank)
{
    struct subject s = { 0 };
    jb_error err = JB_ERROR_INIT;
    cJSON *values = cJSON_CreateObject();
    cJSON_AddNumberToObject(values, "fault_rate", fault_rate);
    cJSON_AddStringToObject(values, "bank", bank);
    ck_assert_msg(jb_config_new(&component, values, &s.config, &err) == 0, "%s", err.message);
    ck_assert_msg(ops.create(&host, jb_config_data(s.config), &s.self, &err) == 0, "%s", err.message);
    cJSON_Delete(values);
    return s;
}

static void close_backend(struct subject *s)
{
    ops.destroy(s->self);
    jb_config_free(s->config);
}

static jb_request request(const jb_message *message, uint64_t cell, uint64_t lane)
{
    return (jb_request){ .struct_size = sizeof(jb_request), .message_count = 1, .messages = message, .seed = cell * 1000003 + lane * 7919 + 1,
                         .temperature = 1, .lane = lane, .cell_seed = cell };
}

static jb_message message_of(const char *text) { return (jb_message){ .role = JB_ROLE_USER, .text = { text, strlen(text) } }; }

static void prompt_for(const char *workload, char out[128]) { snprintf(out, 128, "# Task\n\nWorkload %s `a_name`: a summary\n", workload); }

/* One reply; its text lies in `memory` until the next. */
static jb_reply ask(struct subject *s, const char *prompt, uint64_t cell, uint64_t lane)
{
    jb_message m = message_of(prompt);
    jb_request r = request(&m, cell, lane);
    jb_reply out = { .struct_size = sizeof out };
    jb_error err = JB_ERROR_INIT;
    ck_assert_msg(ops.complete(s->self, &r, &out, &err) == 0, "%s %s", err.message, err.where);
    ck_assert_uint_eq(out.error_class, 0);
    return out;
}

/* The entry behind a reply: the deal is a function of the request, so it can be asked again. */
static const struct bank_entry *entry_of(struct subject *s, const char *workload, uint64_t cell, uint64_t lane)
{
    jb_error err = JB_ERROR_INIT;
    jb_message m = message_of("");
    jb_request r = request(&m, cell, lane);
    uint64_t state = r.seed;
    const struct bank *b = bank_of(s->self, workload, &err);
    ck_assert_msg(b != NULL, "%s %s", err.message, err.where);
    return deal(s->self, b, &r, &state);
}

static int is_fault(const struct bank *b, const struct bank_entry *e) { return e >= b->faults && e < b->faults + b->fault_count; }

/* ---- the deal ---------------------------------------------------------------------- */

START_TEST(every_fault_occurs_in_four_workloads_of_twelve)
{
    struct subject s = open_backend(0.5, BANK);
    for (uint64_t study = 0; study < 200; study++) {
        int seen[FAULT_COUNT] = { 0 };
        for (uint64_t w = 0; w < 4; w++) {
            uint64_t cell = study * 0x9E3779B97F4A7C15u + w;
            unsigned faulty = 0;
            for (uint64_t lane = 0; lane < 12; lane++) {
                const struct bank_entry *e = entry_of(&s, WORKLOADS[w], cell, lane);
                jb_error err = JB_ERROR_INIT;
                if (!is_fault(bank_of(s.self, WORKLOADS[w], &err), e)) continue;
                faulty++;
                size_t f = 0;
                while (f < FAULT_COUNT && strcmp(FAULTS[f], e->name) != 0) f++;
                ck_assert_msg(f < FAULT_COUNT, "%s has a fault of another name: %s", WORKLOADS[w], e->name);
                seen[f]++;
            }
            ck_assert_uint_eq(faulty, 6); /* half of twelve, in every cell */
        }
        for (size_t f = 0; f < FAULT_COUNT; f++) ck_assert_msg(seen[f] > 0, "study %llu never shows %s", (unsigned long long)study, FAULTS[f]);
    }
    close_backend(&s);
}
END_TEST

START_TEST(the_whole_deck_is_dealt_in_turn)
{
    struct subject s = open_backend(0.5, BANK);
    for (size_t w = 0; w < 4; w++) {
        jb_error err = JB_ERROR_INIT;
        const struct bank *b = bank_of(s.self, WORKLOADS[w], &err);
        unsigned dealt[64] = { 0 }, rounds = (unsigned)b->fault_count; /* after so many deals each fault came 6 times */
        ck_assert_uint_lt(b->fault_count, 64);
        for (uint64_t lane = 0; lane < 12u * rounds; lane++) {
            const struct bank_entry *e = entry_of(&s, WORKLOADS[w], 77, lane);
            if (is_fault(b, e)) dealt[e - b->faults]++;
        }
        for (size_t f = 0; f < b->fault_count; f++) ck_assert_msg(dealt[f] == 6, "%s: %s came %u times", WORKLOADS[w], b->faults[f].name, dealt[f]);
    }
    close_backend(&s);
}
END_TEST

static const struct { double rate; unsigned faulty; } RATES[] = { { 0, 0 }, { 0.25, 3 }, { 0.5, 6 }, { 0.9, 11 }, { 1, 12 } };

START_TEST(the_rate_is_exact_in_every_deal)
{
    struct subject s = open_backend(RATES[_i].rate, BANK);
    jb_error err = JB_ERROR_INIT;
    const struct bank *b = bank_of(s.self, "8p", &err);
    for (uint64_t cell = 0; cell < 50; cell++)
        for (uint64_t first = 0; first < 36; first += 12) {
            unsigned faulty = 0;
            for (uint64_t lane = first; lane < first + 12; lane++) faulty += is_fault(b, entry_of(&s, "8p", cell, lane)) != 0;
            ck_assert_uint_eq(faulty, RATES[_i].faulty);
        }
    close_backend(&s);
}
END_TEST

START_TEST(places_are_a_permutation_that_depends_on_the_cell)
{
    unsigned same = 0;
    for (uint64_t cell = 0; cell < 500; cell++) {
        unsigned seen = 0;
        for (uint64_t lane = 0; lane < DEAL; lane++) seen |= 1u << place_in_deal(cell, lane);
        ck_assert_uint_eq(seen, (1u << DEAL) - 1);
        same += place_in_deal(cell, 0) == 0;
    }
    ck_assert_uint_ge(same, 15); /* 1 in 12 of 500 is 42, give or take 6 */
    ck_assert_uint_le(same, 80);
}
END_TEST

START_TEST(right_kernels_vary)
{
    struct subject s = open_backend(0, BANK);
    char prompt[128];
    for (size_t w = 0; w < 4; w++) {
        uint64_t hashes[24], distinct = 0;
        prompt_for(WORKLOADS[w], prompt);
        for (uint64_t lane = 0; lane < 24; lane++) {
            jb_reply r = ask(&s, prompt, 5, lane);
            const char *code = strstr(r.text.ptr, "```python\n"), *stop = code != NULL ? strstr(code + 3, "```") : NULL;
            ck_assert_ptr_nonnull(stop);
            uint64_t h = 14695981039346656037u;
            for (const char *p = code; p < stop; p++) h = (h ^ (unsigned char)*p) * 1099511628211u;
            hashes[lane] = h;
            int is_new = 1;
            for (uint64_t i = 0; i < lane; i++) is_new &= hashes[i] != h;
            distinct += (uint64_t)is_new;
        }
        ck_assert_msg(distinct >= 6, "%s: only %llu different right kernels in 24", WORKLOADS[w], (unsigned long long)distinct);
    }
    close_backend(&s);
}
END_TEST

/* ---- replies ----------------------------------------------------------------------------- */

START_TEST(equal_requests_get_equal_replies)
{
    /* Two instances, one asked backwards and with other calls between. */
    static char first[24][16384];
    struct subject a = open_backend(0.5, BANK), b = open_backend(0.5, BANK);
    char prompt[128], other[128];
    prompt_for("1p", prompt);
    prompt_for("12p", other);
    for (uint64_t lane = 0; lane < 24; lane++) {
        jb_reply r = ask(&a, prompt, 42, lane);
        ck_assert_uint_lt(r.text.len, sizeof first[0]);
        memcpy(first[lane], r.text.ptr, r.text.len + 1);
    }
    for (uint64_t lane = 24; lane-- > 0;) {
        ask(&b, other, lane, 3);
        ck_assert_str_eq(ask(&b, prompt, 42, lane).text.ptr, first[lane]);
    }
    close_backend(&a);
    close_backend(&b);
}
END_TEST

/* What the core's extractor must make of a reply. */
static uint32_t extracted(const jb_reply *r)
{
    jb_extract x;
    jb_error err = JB_ERROR_INIT;
    ck_assert_int_eq(jb_extract_reply(r->text, r->finish, "workload", &x, &err), 0);
    uint32_t outcome = x.outcome;
    if (outcome == JB_OUTCOME_OK) {
        ck_assert_ptr_nonnull(strstr(x.source, "workload("));
        ck_assert_ptr_null(strstr(x.source, "<<"));
        ck_assert_ptr_null(strstr(x.source, ">>"));
    }
    jb_extract_free(&x);
    return outcome;
}

START_TEST(replies_have_the_form_of_their_entry)
{
    struct subject s = open_backend(0.5, BANK);
    char prompt[128];
    for (size_t w = 0; w < 4; w++)
        for (uint64_t lane = 0; lane < 48; lane++) {
            prompt_for(WORKLOADS[w], prompt);
            const struct bank_entry *e = entry_of(&s, WORKLOADS[w], 9, lane);
            jb_reply r = ask(&s, prompt, 9, lane);
            uint32_t want = e->made_by == BANK_PROSE ? JB_OUTCOME_NO_CODE : e->made_by == BANK_CUT_OFF ? JB_OUTCOME_TRUNCATED : JB_OUTCOME_OK;
            ck_assert_msg(extracted(&r) == want, "%s %s: outcome %u, expected %u\n%s", WORKLOADS[w], e->name, extracted(&r), want, r.text.ptr);
            ck_assert_uint_eq(r.finish, e->made_by == BANK_CUT_OFF ? JB_FINISH_LENGTH : JB_FINISH_STOP);
            ck_assert_int_eq(strstr(r.text.ptr, "def workload(") != NULL && strstr(strstr(r.text.ptr, "def workload("), "):\n") == NULL,
                             e->made_by == BANK_SYNTAX);
            ck_assert_int_eq(r.usage.output, 0);
            for (uint64_t i = 0; i < r.text.len; i++) ck_assert_msg((unsigned char)r.text.ptr[i] < 128, "%s: byte %llu is not ASCII", e->name, (unsigned long long)i);
        }
    close_backend(&s);
}
END_TEST

START_TEST(faults_differ_from_the_kernel_they_are_made_from)
{
    struct subject s = open_backend(0.5, BANK);
    for (size_t w = 0; w < 4; w++) {
        jb_error err = JB_ERROR_INIT;
        const struct bank *b = bank_of(s.self, WORKLOADS[w], &err);
        ck_assert_msg(b != NULL, "%s %s", err.message, err.where);
        for (size_t i = 0; i < b->fault_count; i++)
            for (size_t k = 0; k < b->right_count; k++)
                if (b->faults[i].made_by == BANK_EDIT) ck_assert_msg(strcmp(b->faults[i].source, b->right[k].source) != 0, "%s is a right kernel", b->faults[i].name);
    }
    close_backend(&s);
}
END_TEST

/* ---- reading the prompt --------------------------------------------------------------------- */

static const struct { const char *prompt, *id; } PROMPTS[] = {
    { "Workload 8p `gemm`: x", "8p" },
    { "# Task\nDo it well. Workload 50k `mm`: y\nWorkload 8p `gemm`", "50k" },
    { "the Workload of a day; Workload 1p `flash_attention`: z", "1p" },
    { "Workload 8p: gemm", NULL },
    { "Workload `8p`", NULL },
    { "Workload  8p `gemm`", NULL },
    { "workload 8p `gemm`", NULL },
    { "Workload ../etc `x` here", NULL },
    { "Workload 8p", NULL },
    { "Workload ", NULL },
    { "", NULL },
};

START_TEST(finds_the_workload)
{
    char id[32] = "";
    jb_message m = message_of(PROMPTS[_i].prompt);
    jb_request r = request(&m, 1, 1);
    ck_assert_int_eq(workload_in(&r, id), PROMPTS[_i].id != NULL);
    if (PROMPTS[_i].id != NULL) ck_assert_str_eq(id, PROMPTS[_i].id);
    /* Every prefix, in a buffer of just its size: nothing is read beyond the view. */
    for (size_t n = 0; n < strlen(PROMPTS[_i].prompt); n++) {
        char *exact = malloc(n + 1);
        memcpy(exact, PROMPTS[_i].prompt, n);
        exact = realloc(exact, n > 0 ? n : 1);
        m.text = (jb_view){ exact, n };
        (void)workload_in(&r, id);
        free(exact);
    }
}
END_TEST

START_TEST(looks_in_every_message)
{
    char id[32];
    jb_message m[] = { message_of("You write kernels."), message_of("Workload 12p `rms_norm`: norm") };
    jb_request r = request(m, 1, 1);
    r.message_count = 2;
    ck_assert_int_eq(workload_in(&r, id), 1);
    ck_assert_str_eq(id, "12p");
    r.message_count = 0;
    ck_assert_int_eq(workload_in(&r, id), 0);
}
END_TEST

START_TEST(an_unknown_workload_gets_prose)
{
    struct subject s = open_backend(0.5, BANK);
    static const char *const prompts[] = { "Workload 99z `unknown`: what", "Hello", "" };
    for (size_t i = 0; i < 3; i++) {
        jb_reply r = ask(&s, prompts[i], 1, 1);
        ck_assert_uint_eq(extracted(&r), JB_OUTCOME_NO_CODE);
        ck_assert_uint_eq(r.finish, JB_FINISH_STOP);
    }
    close_backend(&s);
}
END_TEST

START_TEST(an_older_host_without_lanes_is_served)
{
    struct subject s = open_backend(0.5, BANK);
    jb_message m = message_of("Workload 8p `gemm`: x");
    jb_request r = request(&m, 3, 4);
    r.struct_size = offsetof(jb_request, lane);
    unsigned code = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        jb_reply out = { .struct_size = sizeof out };
        jb_error err = JB_ERROR_INIT;
        r.seed = seed;
        ck_assert_int_eq(ops.complete(s.self, &r, &out, &err), 0);
        code += extracted(&out) == JB_OUTCOME_OK;
    }
    ck_assert_uint_gt(code, 20);
    close_backend(&s);
}
END_TEST

START_TEST(an_arena_without_room_is_an_error)
{
    struct subject s = open_backend(0.5, BANK);
    jb_message m = message_of("Workload 8p `gemm`: x");
    jb_request r = request(&m, 3, 4);
    jb_reply out = { .struct_size = sizeof out };
    jb_error err = JB_ERROR_INIT;
    arena_empty = 1;
    ck_assert_int_eq(ops.complete(s.self, &r, &out, &err), JB_ENOMEM);
    arena_empty = 0;
    close_backend(&s);
    const jb_host bare = { .struct_size = sizeof bare, .ctx = memory, .service = service };
    struct config c = { .fault_rate = 0.5, .bank = BANK };
    void *self = &c;
    ck_assert_int_eq(ops.create(&bare, &c, &self, &err), JB_EABI);
    ck_assert_ptr_eq(self, &c);
}
END_TEST

/* ---- banks that are wrong ----------------------------------------------------------------------- */

static const char RIGHT[] = "import jax\n\n\ndef workload(A):\n    x = A\n    y = x\n    return y\n";

/* faults.txt, status, line the error names (0: not asked), what the source of the first fault becomes (NULL: not asked) */
static const struct { const char *deck; int status, line; const char *source; } DECKS[] = {
    { "== f right_a.py\n- x = A\n+ x = A * 2\n", 0, 0, "import jax\n\n\ndef workload(A):\n    x = A * 2\n    y = x\n    return y\n" },
    { "== f right_a.py\n- x = A\n- y = x\n+ y = A\n", 0, 0, "import jax\n\n\ndef workload(A):\n    y = A\n    return y\n" },
    { "== f right_a.py\n- x = A\n+ x = A\n+ x = 2 * x\n- return y\n+ return 3\n", 0, 0, "import jax\n\n\ndef workload(A):\n    x = A\n    x = 2 * x\n    y = x\n    return 3\n" },
    { "== f right_a.py\n- return y\n+ return 1", 0, 0, "import jax\n\n\ndef workload(A):\n    x = A\n    y = x\n    return 1\n" }, /* no last newline */
    { "== prose\n\n== cut-off right_a.py\n", 0, 0, NULL },
    { "", 0, 0, NULL },
    { "== f right_a.py\n- z = A\n+ z = 1\n", JB_EPARSE, 3, NULL },                 /* matches nowhere */
    { "== f right_a.py\n- x = A\n- return y\n+ z\n", JB_EPARSE, 4, NULL },          /* not next to each other */
    { "== f right_a.py\n- x = A\n+ y = x\n- y = x\n+ z\n", JB_EPARSE, 5, NULL },    /* matches twice by then */
    { "== f right_a.py\n- x = A\n+ q\n- z\n+ z\n== g right_a.py\n", JB_EPARSE, 6, NULL },
    { "== f missing.py\n- x = A\n+ q\n", JB_EPARSE, 1, NULL },
    { "== f\n- x = A\n+ q\n", JB_EPARSE, 1, NULL },
    { "==\n", JB_EPARSE, 1, NULL },
    { "- x = A\n+ q\n", JB_EPARSE, 2, NULL },                                       /* before any fault */
    { "== prose\n- x = A\n+ q\n", JB_EPARSE, 3, NULL },                             /* nothing to edit */
    { "== f right_a.py\n+ q\n", JB_EPARSE, 2, NULL },                               /* nothing to replace */
    { "== f right_a.py\nx = A\n", JB_EPARSE, 2, NULL },                             /* no mark */
};

static void write_file(const char *dir, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

static void drop(const char *dir, const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

START_TEST(decks)
{
    char root[] = "/tmp/jaxbench-bank-XXXXXX", dir[64];
    struct bank *b = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/w", root);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    write_file(dir, "right_a.py", RIGHT);
    write_file(dir, "faults.txt", DECKS[_i].deck);
    ck_assert_int_eq(bank_open(root, "w", &b, &err), DECKS[_i].status);
    if (DECKS[_i].status == 0) {
        ck_assert_uint_eq(b->right_count, 1);
        ck_assert_str_eq(b->right[0].source, RIGHT);
        if (DECKS[_i].source != NULL) ck_assert_str_eq(b->faults[0].source, DECKS[_i].source);
        bank_close(b);
    } else {
        char line[16];
        snprintf(line, sizeof line, ":%d", DECKS[_i].line);
        ck_assert_ptr_null(b);
        ck_assert_msg(strstr(err.where, line) != NULL, "'%s' does not end with line %s", err.where, line);
        ck_assert_ptr_nonnull(strstr(err.message, "faults.txt"));
    }
    drop(dir, "right_a.py");
    drop(dir, "faults.txt");
    rmdir(dir);
    rmdir(root);
}
END_TEST

START_TEST(missing_parts_of_a_bank)
{
    char root[] = "/tmp/jaxbench-bank-XXXXXX", dir[64], prompt[128];
    struct bank *b = NULL;
    jb_error err = JB_ERROR_INIT;
    ck_assert_ptr_nonnull(mkdtemp(root));
    snprintf(dir, sizeof dir, "%s/w", root);
    ck_assert_int_eq(bank_open(root, "w", &b, &err), JB_ENOTFOUND);
    ck_assert_int_eq(mkdir(dir, 0700), 0);
    ck_assert_int_eq(bank_open(root, "w", &b, &err), JB_EIO); /* no right kernel */
    write_file(dir, "right_a.py", RIGHT);
    ck_assert_int_eq(bank_open(root, "w", &b, &err), JB_EIO); /* no deck */
    ck_assert_ptr_nonnull(strstr(err.message, "faults.txt"));
    ck_assert_ptr_null(b);
    /* A broken bank is an error of the backend, not a reply. */
    struct subject s = open_backend(0.5, root);
    prompt_for("w", prompt);
    jb_message m = message_of(prompt);
    jb_request r = request(&m, 1, 1);
    jb_reply out = { .struct_size = sizeof out };
    ck_assert_int_eq(ops.complete(s.self, &r, &out, &err), JB_EIO);
    close_backend(&s);
    drop(dir, "right_a.py");
    rmdir(dir);
    rmdir(root);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("scripted");
    TCase *tc = tcase_create("scripted");
    suite_add_tcase(s, tc);
    tcase_set_timeout(tc, 30);
    tcase_add_test(tc, every_fault_occurs_in_four_workloads_of_twelve);
    tcase_add_test(tc, the_whole_deck_is_dealt_in_turn);
    tcase_add_loop_test(tc, the_rate_is_exact_in_every_deal, 0, sizeof RATES / sizeof *RATES);
    tcase_add_test(tc, places_are_a_permutation_that_depends_on_the_cell);
    tcase_add_test(tc, right_kernels_vary);
    tcase_add_test(tc, equal_requests_get_equal_replies);
    tcase_add_test(tc, replies_have_the_form_of_their_entry);
    tcase_add_test(tc, faults_differ_from_the_kernel_they_are_made_from);
    tcase_add_loop_test(tc, finds_the_workload, 0, sizeof PROMPTS / sizeof *PROMPTS);
    tcase_add_test(tc, looks_in_every_message);
    tcase_add_test(tc, an_unknown_workload_gets_prose);
    tcase_add_test(tc, an_older_host_without_lanes_is_served);
    tcase_add_test(tc, an_arena_without_room_is_an_error);
    tcase_add_loop_test(tc, decks, 0, sizeof DECKS / sizeof *DECKS);
    tcase_add_test(tc, missing_parts_of_a_bank);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
