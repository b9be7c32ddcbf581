/* SPDX-License-Identifier: Apache-2.0 */
/* core/evaluate/extract.h - from a model's reply to the source of a candidate.
 *
 * The source is the last closed fenced block that defines the entry at top
 * level (`def workload` or `workload =`).  Fences are those of CommonMark: three
 * or more backticks or tildes, any info string, closed by at least as many of
 * the same sign alone on a line; an opener may be indented (a list item), and
 * then its block is dedented by as much.  A closing fence inside a
 * triple-quoted string of the block does not close it.
 *
 * Bytes in, bytes out: no Python is parsed here, and syntax is the tracer's to
 * judge.  Linear in the length of the reply. */
#ifndef JB_EVALUATE_EXTRACT_H
#define JB_EVALUATE_EXTRACT_H

#include <jaxbench/method.h>

#define JB_EXTRACT_MAX_BLOCKS 256 /* blocks remembered; more are counted only */

/* One fenced block of the reply.  Offsets are into the text with CRLF and CR
 * turned into LF, which jb_extract.text holds. */
typedef struct jb_block {
    size_t begin, end;  /* its content */
    size_t indent;      /* of the opener, in bytes */
    char info[32];      /* info string, cut; printable ASCII only */
    int closed;
    int defines;        /* defines the entry at top level */
} jb_block;

typedef struct jb_extract {
    uint32_t outcome;   /* JB_OUTCOME_OK, JB_OUTCOME_NO_CODE or JB_OUTCOME_TRUNCATED */
    char reason[160];   /* one line; empty when ok */
    char *source;       /* what is evaluated, NUL-terminated; NULL unless ok */
    size_t source_len;  /* may hold NUL bytes: they are the candidate's own */
    char *text;         /* the reply, line ends normalised */
    size_t text_len;
    jb_block *blocks;   /* in order; those not chosen are the rejected ones */
    size_t block_count; /* entries of `blocks` */
    size_t blocks_seen; /* all, may exceed block_count */
    int64_t chosen;     /* index into blocks, -1: none */
} jb_extract;

/* Extract from a reply.  `finish` is JB_FINISH_*: a reply cut off at its length
 * is JB_OUTCOME_TRUNCATED whatever it holds.  JB_ENOMEM, or JB_EINVAL for an
 * empty `entry`; a reply without code is a result. */
int jb_extract_reply(jb_view reply, uint32_t finish, const char *entry, jb_extract *out, jb_error *err);
/* The whole text is the source (a .py file): never no-code, never truncated. */
int jb_extract_plain(jb_view source, jb_extract *out, jb_error *err);
void jb_extract_free(jb_extract *x); /* zeroed afterwards; NULL and zeroed are fine */

/* SHA-256 of the source with line ends, byte-order mark and trailing blank
 * lines normalised: what can't change a program's meaning does not make it a
 * new candidate.  JB_ENOMEM. */
int jb_source_hash(jb_view source, char out[65]);

#endif
