/* SPDX-License-Identifier: Apache-2.0 */
/* core/cli/main.c - the program `jaxbench`: the table of its verbs.  A verb is
 * a file core/cli/verb_<name>.c and a line here. */
#include "core/cli/cli.h"
#include "core/http/secret.h"

#include <signal.h>

static const jb_cli_verb *const VERBS[] = {
    &jb_verb_run,  &jb_verb_resume,   &jb_verb_eval,  &jb_verb_report, &jb_verb_list,
    &jb_verb_show, &jb_verb_validate, &jb_verb_doctor, &jb_verb_plugin, &jb_verb_clean,
    &jb_verb_plan, &jb_verb_status,   &jb_verb_stop,  &jb_verb_judge,  &jb_verb_init,   &jb_verb_export,
    &jb_verb_completion,
};

int main(int argc, char **argv)
{
    /* A reader that went away (`jaxbench list | head`) is noticed as a failed
     * write, so that what runs can end in order. */
    signal(SIGPIPE, SIG_IGN);
    jb_secrets_guard_process(); /* the environment may hold keys from the first moment on */
    jb_json_setup();
    return jb_cli_main(argc, argv, VERBS, sizeof VERBS / sizeof *VERBS, stdout, stderr);
}
