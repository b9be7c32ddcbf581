/* SPDX-License-Identifier: Apache-2.0 */
/* core/engine/journal.h - the truth of a run: append-only JSON Lines.
 *
 *     {"seq":1,"t":1796083200.123,"kind":"run_begin",...}\n
 *     {"seq":2,"t":...,"kind":"op_submit","cell":"8p+m+b+s0","op":1,...}\n
 *
 * Invariants: one writer (a lock file beside it, taken by flock, so that a dead
 * process never leaves it locked); seq counts from 1 without gaps; every line is
 * one write(2), and a write that failed part-way is cut off again, so a full disk
 * leaves a whole journal.  What follows the last newline is a torn line: opening
 * for writing removes and reports it, reading ignores and reports it.  Any other
 * malformed line is an error that names it.
 *
 * Lines reach the disk by jb_journal_sync, which the engine calls once a turn of
 * its loop (group fsync). */
#ifndef JB_ENGINE_JOURNAL_H
#define JB_ENGINE_JOURNAL_H

#include "core/base/json.h"

typedef struct jb_journal jb_journal;

/* Where a line lies in the file. */
typedef struct jb_span {
    uint64_t offset;
    uint32_t length; /* without the newline */
    uint32_t seq;
} jb_span;

/* Called for every line of the journal in order while opening.  A non-zero
 * return stops the opening and is returned. */
typedef int (*jb_journal_visit)(void *ctx, const cJSON *event, jb_span span, jb_error *err);

/* `path` is the journal file, made if absent.  `torn_out` (nullable) gets the
 * bytes of a torn last line that were removed.  JB_EPARSE for a malformed line,
 * JB_EIO when it can't be read or written. */
int jb_journal_open(const char *path, jb_journal_visit visit, void *ctx, uint64_t *torn_out, jb_journal **out, jb_error *err);
/* The same without writing: a torn line is left where it is. */
int jb_journal_read(const char *path, jb_journal_visit visit, void *ctx, uint64_t *torn_out, jb_error *err);
/* Lines from byte `offset` on, where line `seq` ends and the next begins; both 0:
 * from the start.  JB_ESTATE when no line ends there. */
int jb_journal_read_from(const char *path, uint64_t offset, uint64_t seq, jb_journal_visit visit, void *ctx, uint64_t *torn_out, jb_error *err);
void jb_journal_close(jb_journal *j); /* syncs; NULL allowed */

/* Called after every event that was appended, with what its line holds but for
 * seq, t and kind in `body` (NULL when there is no more). */
typedef void (*jb_journal_witness)(void *ctx, const char *kind, const cJSON *body, uint64_t seq, double t);
void jb_journal_observe(jb_journal *j, jb_journal_witness witness, void *ctx);

/* Append one event: `body` (an object, borrowed) with seq, t and kind put in
 * front.  On failure nothing of it is in the file. */
int jb_journal_append(jb_journal *j, const char *kind, const cJSON *body, jb_span *span_out, jb_error *err);
int jb_journal_sync(jb_journal *j, jb_error *err); /* does nothing when nothing is new */
uint64_t jb_journal_count(const jb_journal *j);    /* events */
uint64_t jb_journal_size(const jb_journal *j);     /* bytes of whole lines */
/* The event at a span, parsed anew.  Free with cJSON_Delete; NULL on error. */
cJSON *jb_journal_get(const jb_journal *j, jb_span span, jb_error *err);

/* Take `path` exclusively until the process ends or jb_lock_release.  The file
 * then holds pid, host and when the process started.  JB_EPERM when another process
 * holds it (the error names it). */
typedef struct jb_lock jb_lock;
int jb_lock_take(const char *path, jb_lock **out, jb_error *err);
void jb_lock_release(jb_lock *l); /* NULL allowed */

/* Who holds a lock file, or held it last. */
typedef struct jb_lock_holder {
    int held;          /* by a living process, wherever it runs */
    int64_t pid;       /* 0: the file does not say */
    uint64_t started;  /* clock ticks after boot (field 22 of /proc/PID/stat); 0: not said */
    char host[64];
} jb_lock_holder;
/* JB_ENOTFOUND when there is no such file, JB_EIO. */
int jb_lock_look(const char *path, jb_lock_holder *out, jb_error *err);
/* When a process of this machine started, as above; 0: there is none. */
uint64_t jb_lock_process_start(int64_t pid);

#endif
