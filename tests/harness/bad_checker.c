/* SPDX-License-Identifier: Apache-2.0 */
/* The checker `bad`: its option `how` says in which call it misbehaves and how.
 * Without it, it passes everything.  A fixture, not an example. */
#include <jaxbench/checker.h>

#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct config {
    const char *how; /* "<call>-<misdeed>", e.g. "trial-crash" */
};

static const jb_option options[] = {
    { .struct_size = sizeof(jb_option), .type = JB_OPT_STRING, .offset = offsetof(struct config, how), .name = "how", .def = "not",
      .help = "CALL-MISDEED; calls: create, needs, trial, verdict; misdeeds: crash, exit, loop, nan, negative." },
};

/* Does `how` name this call?  Then do it, unless it is a matter of scores. */
static const char *misbehave(const char *how, const char *call)
{
    size_t n = strlen(call);
    if (strncmp(how, call, n) != 0 || how[n] != '-') return "";
    const char *deed = how + n + 1;
    if (strcmp(deed, "crash") == 0) {
        signal(SIGSEGV, SIG_DFL);
        raise(SIGSEGV);
    }
    if (strcmp(deed, "exit") == 0) _Exit(0);
    volatile int forever = strcmp(deed, "loop") == 0;
    while (forever) {
    }
    return deed;
}

static double score_of(const char *deed)
{
    return strcmp(deed, "nan") == 0 ? strtod("nan", NULL) : strcmp(deed, "negative") == 0 ? -1 : 0;
}

static int create(const jb_host *host, const void *config, void **out, jb_error *err)
{
    const struct config *c = config;
    (void)host, (void)err;
    misbehave(c->how, "create");
    memcpy(out, &config, sizeof config);
    return 0;
}

static void destroy(void *self) { (void)self; }

static int needs(void *self, jb_checker_needs *out, jb_error *err)
{
    (void)err;
    misbehave(((const struct config *)self)->how, "needs");
    out->flags = JB_NEED_R_JIT;
    return 0;
}

static int trial(void *self, const jb_trial *t, jb_trial_result *out, jb_error *err)
{
    (void)t, (void)err;
    out->score = score_of(misbehave(((const struct config *)self)->how, "trial"));
    out->threshold = 1;
    out->status = JB_TRIAL_PASS;
    return 0;
}

static int verdict(void *self, const jb_inspection *x, jb_verdict *out, jb_error *err)
{
    (void)x, (void)err;
    out->score = score_of(misbehave(((const struct config *)self)->how, "verdict"));
    out->threshold = 1;
    out->verdict = JB_VERDICT_PASS;
    return 0;
}

static const jb_checker_ops ops = {
    .struct_size = sizeof ops, .create = create, .destroy = destroy, .needs = needs, .trial = trial, .verdict = verdict,
};

static const jb_component component = {
    .struct_size = sizeof component, .flags = JB_COMP_DETERMINISTIC, .kind = JB_KIND_CHECKER, .name = "bad",
    .summary = "a checker that misbehaves on request", .options = options, .option_count = 1, .option_size = sizeof options[0],
    .config_size = sizeof(struct config), .ops = &ops,
};

static const jb_component *const components[] = { &component, NULL };

JB_PLUGIN = {
    .struct_size = sizeof(jb_plugin), .abi_major = JB_ABI_MAJOR, .abi_minor = JB_ABI_MINOR, .id = "test.bad-checker",
    .version = "1.0.0", .summary = "A fixture", .license = "Apache-2.0", .components = components,
};
