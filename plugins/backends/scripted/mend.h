/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/mend.h - what the backend reads of the feedback in a
 * prompt (docs/feedback.md), and which fault of its deck that points at.
 *
 * It knows what a model would know: the words of the feedback and the source that
 * is shown with them.  A fault is recognised when its symptoms are in the words
 * and its lines are in the source. */
#ifndef JB_SCRIPTED_MEND_H
#define JB_SCRIPTED_MEND_H

#include "bank.h"

#include <jaxbench/backend.h>

/* How the worst elements stand to the reference. */
#define TOLD_NOTHING 0 /* none are shown */
#define TOLD_ZERO 1    /* all are 0 where the reference is not */
#define TOLD_NEAR 2    /* all within a tenth of the reference: a matter of precision */
#define TOLD_FAR 3

struct told {
    char outcome[24];
    jb_view words;  /* the feedback up to its first source */
    jb_view source; /* what was tried; empty: none is shown */
    int correct;    /* a correct source is shown */
    int worst;      /* TOLD_* */
};

/* 1 and *out when the prompt tells what became of an attempt; views go into the request. */
int mend_read(const jb_request *req, struct told *out);
/* The fault of the deck that it points at; NULL when it recognises none. */
const struct bank_entry *mend_recognise(const struct told *t, const struct bank *b);

#endif
