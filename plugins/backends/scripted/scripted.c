/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/scripted.c - backend `scripted`, the embedded default:
 * no network, no model.  It reads the prompt that a model would read, finds the
 * workload in it, and writes a reply around a kernel of its own bank, with a
 * seeded share of the faults that models make.
 *
 * The share is dealt, not drawn: of every 12 lanes of a cell, `fault_rate` x 12 get
 * the next faults of the workload's deck, at places that the cell's seed
 * permutes.  So a run of any size shows the faults in proportion, and one of
 * four workloads with 12 samples each shows every one of them.  Told by the
 * feedback in a prompt what is wrong, it mends a seeded share of what it
 * recognises (mend.h).  What a reply says is a function of (cell seed, lane, turn,
 * call seed) and the prompt alone. */
#include "bank.h"
#include "compose.h"
#include "mend.h"

#include <jaxbench/backend.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEAL 12u      /* lanes a deal */
#define MAX_BANKS 64

struct config {
    double fault_rate, mend_rate;
    const char *bank;
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, fault_rate), .name = "fault_rate",
      .def = "0.5", .min = 0, .max = 1, .help = "Share of the replies that carry a fault." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_FLOAT, .offset = offsetof(struct config, mend_rate), .name = "mend_rate",
      .def = "0.7", .min = 0, .max = 1, .help = "Share of the faults it recognises in the feedback that it mends; the rest it replies to as if it had not been told." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_PATH, .offset = offsetof(struct config, bank), .name = "bank",
      .help = "Folder of kernels; default: the one that comes with this plugin." },
};

struct backend {
    const jb_host *host;
    const struct config *config;
    const jb_arena_service *arena;
    char dir[4096];
    struct bank *banks[MAX_BANKS];
    size_t bank_count;
};

static int fail(jb_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "scripted: %s", text);
    return code;
}

/* "<folder of this .so>/scripted" */
static int find_bank(struct backend *b)
{
    static const char here = 0; /* an object of this file, for dladdr */
    Dl_info info;
    if (b->config->bank) return (size_t)snprintf(b->dir, sizeof b->dir, "%s", b->config->bank) < sizeof b->dir;
    if (!dladdr(&here, &info) || !info.dli_fname) return 0;
    const char *slash = strrchr(info.dli_fname, '/');
    int n = slash ? (int)(slash - info.dli_fname) : 1;
    return (size_t)snprintf(b->dir, sizeof b->dir, "%.*s/scripted", n, slash ? info.dli_fname : ".") < sizeof b->dir;
}

static void destroy(void *self)
{
    struct backend *b = self;
    if (!b) return;
    for (size_t i = 0; i < b->bank_count; i++) bank_close(b->banks[i]);
    free(b);
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    struct backend *b = calloc(1, sizeof *b);
    if (!b) return fail(err, JB_ENOMEM, "out of memory");
    b->host = host;
    b->config = config;
    b->arena = host->service(host, JB_SERVICE_ARENA);
    if (!b->arena || !find_bank(b)) {
        int missing = !b->arena;
        destroy(b);
        return fail(err, missing ? JB_EABI : JB_ENOTFOUND, missing ? "needs the service arena/1" : "can't find its bank of kernels");
    }
    *out = b;
    return 0;
}

/* ---- the deal ------------------------------------------------------------------ */

/* Place of `lane` in its deal: a permutation of 0..DEAL-1 from the cell's seed. */
static unsigned place_in_deal(uint64_t cell_seed, uint64_t lane)
{
    unsigned order[DEAL];
    uint64_t state = cell_seed ^ (lane / DEAL) * 0xD1B54A32D192ED03u;
    for (unsigned i = 0; i < DEAL; i++) order[i] = i;
    for (unsigned i = DEAL - 1; i > 0; i--) {
        size_t j = pick(&state, i + 1);
        unsigned x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    return order[lane % DEAL];
}

/* ---- the reply ------------------------------------------------------------------- */

/* "Workload 8p `gemm`" in the prompt -> "8p". */
static int workload_in(const jb_request *req, char out[32])
{
    static const char mark[] = "Workload ";
    for (uint32_t m = 0; m < req->message_count; m++) {
        jb_view v = req->messages[m].text;
        for (uint64_t i = 0; i + sizeof mark + 4 < v.len; i++) {
            if (memcmp(v.ptr + i, mark, sizeof mark - 1)) continue;
            const char *id = v.ptr + i + sizeof mark - 1;
            size_t n = 0, left = (size_t)(v.len - i - (sizeof mark - 1));
            while (n < left && n < 31 && ((id[n] >= '0' && id[n] <= '9') || (id[n] >= 'a' && id[n] <= 'z'))) n++;
            if (n == 0 || n + 2 > left || id[n] != ' ' || id[n + 1] != '`') continue;
            memcpy(out, id, n);
            out[n] = '\0';
            return 1;
        }
    }
    return 0;
}

static const struct bank *bank_of(struct backend *b, const char *workload, jb_error *err)
{
    for (size_t i = 0; i < b->bank_count; i++)
        if (!strcmp(b->banks[i]->workload, workload)) return b->banks[i];
    if (b->bank_count == MAX_BANKS || bank_open(b->dir, workload, &b->banks[b->bank_count], err)) return NULL;
    return b->banks[b->bank_count++];
}

/* Which entry of the bank a call gets that is told nothing.  Every turn is a deal of its own. */
static const struct bank_entry *deal(const struct backend *b, const struct bank *bank, const jb_request *req, uint64_t *state)
{
    int keyed = JB_HAS(req, jb_request, cell_seed);
    uint64_t lane = keyed ? req->lane : mix(state), turn = keyed ? req->turn : 0, cell = keyed ? req->cell_seed : 0;
    unsigned faults = (unsigned)lround(b->config->fault_rate * DEAL), place = place_in_deal(cell ^ turn * 0xBF58476D1CE4E5B9u, lane);
    if (place < faults && bank->fault_count) return &bank->faults[((lane / DEAL + turn) * faults + place) % bank->fault_count];
    return &bank->right[pick(state, bank->right_count)];
}

/* The kernel that the fault is a slip of; any right one for a reply that had none. */
static const struct bank_entry *mended(const struct bank *bank, const struct bank_entry *fault, uint64_t *state)
{
    for (size_t i = 0; i < bank->right_count; i++)
        if (strcmp(bank->right[i].name, fault->from) == 0) return &bank->right[i];
    return &bank->right[pick(state, bank->right_count)];
}

/* Which entry answers the prompt: right ones stay right, of the faults that are recognised a share is mended. */
static const struct bank_entry *choose(const struct backend *b, const struct bank *bank, const jb_request *req, uint64_t *state)
{
    struct told told;
    if (!mend_read(req, &told)) return deal(b, bank, req, state);
    if (told.correct) return &bank->right[pick(state, bank->right_count)];
    const struct bank_entry *fault = mend_recognise(&told, bank);
    int lucky = (double)(mix(state) >> 11) * 0x1p-53 < b->config->mend_rate;
    return fault != NULL && lucky ? mended(bank, fault, state) : deal(b, bank, req, state);
}

static int complete(void *self, const jb_request *req, jb_reply *out, jb_error *err)
{
    struct backend *b = self;
    struct text t = { 0 };
    uint64_t state = req->seed;
    char workload[32];
    const struct bank_entry *entry = NULL;
    jb_error why = { .struct_size = sizeof why };
    if (workload_in(req, workload)) {
        const struct bank *bank = bank_of(b, workload, &why);
        if (!bank && why.code != JB_ENOTFOUND) {
            *err = why;
            return why.code ? why.code : JB_EINTERNAL;
        }
        if (bank) entry = choose(b, bank, req, &state);
    }
    if (entry) compose(b->dir, entry, &state, &t);
    else puts_text(&t, "I have no kernel for this workload: the scripted backend knows only what is in its bank.\n");
    char *copy = t.failed ? NULL : b->arena->alloc(b->host, t.len + 1);
    if (!copy) {
        free(t.ptr);
        return fail(err, JB_ENOMEM, "out of memory");
    }
    memcpy(copy, t.ptr, t.len);
    out->text.ptr = copy;
    out->text.len = t.len;
    out->finish = entry && entry->made_by == BANK_CUT_OFF ? JB_FINISH_LENGTH : JB_FINISH_STOP;
    out->usage = (jb_usage){ 0, 0, 0, 0, 0 }; /* no model, no tokens */
    free(t.ptr);
    return 0;
}

static const jb_backend_ops ops = { .struct_size = sizeof ops, .create = create, .destroy = destroy, .complete = complete };

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC | JB_COMP_NO_MODEL, .kind = JB_KIND_BACKEND, .name = "scripted",
    .summary = "no model: kernels from a bank, with a seeded share of the faults that models make",
    .help = "Reads the same prompt as a model and replies from its own bank of right and faulty Pallas kernels. For trying the system, its "
            "gates and its methods without a key; every report of such a run says that no model wrote the candidates.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.scripted",
    .version = "1.0.0", .summary = "Backend scripted", .license = "Apache-2.0", .components = components,
};
