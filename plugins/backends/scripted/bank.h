/* SPDX-License-Identifier: Apache-2.0 */
/* plugins/backends/scripted/bank.h - the bank of kernels: a folder a workload,
 *
 *     bank/<workload id>/right_*.py    right kernels
 *     bank/<workload id>/no_kernel.py  plain JAX
 *     bank/<workload id>/faults.txt    the deck of faults, as edits of those files
 *
 * and in every source <<a|b|c>> for a choice that the reply's seed makes.  Knows
 * nothing of prompts and replies. */
#ifndef JB_SCRIPTED_BANK_H
#define JB_SCRIPTED_BANK_H

#include <jaxbench/abi.h>

/* Faults that are made from the reply, not from the source. */
#define BANK_EDIT 0    /* the edits are in `source` */
#define BANK_PROSE 1
#define BANK_CUT_OFF 2
#define BANK_SYNTAX 3

struct bank_entry {
    char *name;   /* file name, or the fault's name */
    char *source; /* NULL for BANK_PROSE */
    int made_by;  /* BANK_* */
    char *from;   /* faults: the file it is made from; "" for BANK_PROSE */
    char *marks;  /* faults: the lines its edits put in, by newlines; NULL: none */
};

struct bank {
    char *workload;
    struct bank_entry *right, *faults;
    size_t right_count, fault_count;
};

/* Read the bank of one workload from `dir`/`workload`.  JB_ENOTFOUND when it has
 * none; JB_EPARSE with the line of an edit that does not apply exactly once; JB_EIO
 * for a file that is missing or can't be read.  *out is untouched on failure. */
int bank_open(const char *dir, const char *workload, struct bank **out, jb_error *err);
void bank_close(struct bank *b); /* NULL is allowed */
/* A whole file as a string (malloc); NULL when it can't be read or is above 1 MiB. */
char *bank_read(const char *dir, const char *file);

#endif
