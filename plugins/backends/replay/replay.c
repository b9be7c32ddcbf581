/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/replay/replay.c - backend `replay`: the replies of an earlier
 * run, or of a transcript, once more.
 *
 * A call is matched by its hash, which covers purpose, lane, turn, temperature and
 * messages; where that finds nothing and `match` allows it, by workload, lane and
 * turn.  A call that matches nothing fails: this backend never makes up a reply.
 * Usage is what the reply cost then, marked as replayed.  Stateless but for the
 * recording, so a resumed run gets the same replies. */
#include "recording.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config {
    const char *from, *match;
};

static const char *const MATCHES[] = { "any", "hash", "place", NULL };

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_PATH, .flags = JB_OPTF_REQUIRED, .offset = offsetof(struct config, from), .name = "from",
      .help = "Folder of a run, or a transcript (JSON Lines)." },
    { .struct_size = sizeof(jb_option), .type = JB_OPT_ENUM, .offset = offsetof(struct config, match), .name = "match", .def = "any", .choices = MATCHES,
      .help = "hash: only a reply to the very same call; place: by workload, lane and turn; any: hash, else place." },
};

struct backend {
    const jb_host *host;
    const struct config *config;
    const jb_arena_service *arena;
    struct recording recording;
    char workload[64]; /* whose replies are loaded; "" none */
};

static int fail(jb_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "replay: %s", text);
    return code;
}

static void destroy(void *self)
{
    struct backend *b = self;
    if (!b) return;
    recording_free(&b->recording);
    free(b);
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    struct backend *b = calloc(1, sizeof *b);
    if (!b) return fail(err, JB_ENOMEM, "out of memory");
    b->host = host;
    b->config = config;
    b->arena = host->service(host, JB_SERVICE_ARENA);
    FILE *f = b->arena ? fopen(b->config->from, "re") : NULL; /* a folder opens too */
    if (!f) {
        int rc = b->arena ? JB_ENOTFOUND : JB_EABI;
        char text[300];
        snprintf(text, sizeof text, b->arena ? "there is no run or transcript at %.200s" : "needs the service arena/1", b->config->from);
        err->flags = JB_ERR_USER;
        free(b);
        return fail(err, rc, text);
    }
    fclose(f);
    *out = b;
    return 0;
}

static char *keep(struct backend *b, const char *s, size_t n)
{
    char *to = b->arena->alloc(b->host, n + 1);
    if (to) memcpy(to, s, n);
    return to;
}

/* "<workload>+<method>+<backend>+s<seed>" -> method and seed. */
static void read_cell(const char *cell, char method[65], int64_t *seed)
{
    const char *a = strchr(cell, '+'), *b = a ? strchr(a + 1, '+') : NULL, *c = b ? strchr(b + 1, '+') : NULL;
    method[0] = '\0';
    *seed = -1;
    if (b) snprintf(method, 65, "%.*s", (int)(b - a - 1), a + 1);
    if (c && c[1] == 's') *seed = strtoll(c + 2, NULL, 10);
}

static void miss(const struct backend *b, const jb_request *q, jb_reply *out)
{
    out->error_class = JB_LLM_PERMANENT;
    snprintf(out->message, sizeof out->message, "replay: no reply for workload %.40s, lane %llu, turn %llu among the %zu recorded for it in %.100s",
             q->workload, (unsigned long long)q->lane, (unsigned long long)q->turn, b->recording.count, b->config->from);
}

static int complete(void *self, const jb_request *q, jb_reply *out, jb_error *err)
{
    struct backend *b = self;
    char method[65];
    struct wanted w = { .lane = q->lane, .turn = q->turn, .method = method };
    if (!JB_HAS(q, jb_request, workload) || !JB_HAS(out, jb_reply, model)) return fail(err, JB_EABI, "needs a host of ABI 1.1 or later");
    w.hash = q->hash ? q->hash : "";
    read_cell(q->cell ? q->cell : "", method, &w.seed);
    if (!b->workload[0] || strcmp(b->workload, q->workload) != 0) {
        recording_free(&b->recording);
        int rc = recording_load(&b->recording, b->config->from, q->workload, err);
        if (rc != 0) return rc;
        snprintf(b->workload, sizeof b->workload, "%s", q->workload);
    }
    const struct reply *found = strcmp(b->config->match, "place") != 0 ? recording_by_hash(&b->recording, &w) : NULL;
    if (!found && strcmp(b->config->match, "hash") != 0) found = recording_by_place(&b->recording, &w);
    if (!found) {
        miss(b, q, out);
        return 0;
    }
    size_t n = strlen(found->text), m = found->model ? strlen(found->model) : 0;
    char *text = keep(b, found->text, n), *model = m ? keep(b, found->model, m) : NULL;
    if (!text || (m && !model)) return fail(err, JB_ENOMEM, "out of memory");
    out->text = (jb_view){ text, n };
    out->model = (jb_view){ model, m };
    out->finish = found->finish;
    out->usage = found->usage;
    out->flags |= JB_REPLY_REPLAYED;
    return 0;
}

static const jb_backend_ops ops = { .struct_size = sizeof ops, .create = create, .destroy = destroy, .complete = complete };

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_BACKEND, .name = "replay",
    .summary = "the replies of an earlier run or of a transcript, for no tokens",
    .help = "Give it the folder of a run, or a file with one reply a line (docs/backends.md). A call is matched by its hash, else by workload, lane and "
            "turn; one that matches nothing fails, with what was looked for.",
    .options = options, .option_count = sizeof options / sizeof *options, .option_size = sizeof(jb_option),
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "jaxbench.replay",
    .version = "1.0.0", .summary = "Backend replay", .license = "Apache-2.0", .components = components,
};
