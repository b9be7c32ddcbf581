/* SPDX-License-Identifier: Apache-2.0 */
/* core/export/export.h - the candidates of a run as rows for other programs: JSON
 * Lines, CSV (RFC 4180), JUnit XML.  Written row by row; computes nothing that the
 * records do not hold.  Columns: docs/cli.md, "export". */
#ifndef JB_EXPORT_H
#define JB_EXPORT_H

#include "core/engine/records.h"

#include <stdio.h>

/* Each returns 0, JB_ENOMEM, or JB_EIO when the stream failed. */
int jb_export_jsonl(const jb_records *r, FILE *out);
int jb_export_csv(const jb_records *r, FILE *out);
int jb_export_junit(const jb_records *r, FILE *out);

/* A CSV field, quoted when it must be; control characters are shown as \xNN, and a
 * text that a spreadsheet would take for a formula (= + - @ in front) gets a '. */
int jb_export_csv_text(jb_buf *out, const char *text);
/* Character data or an attribute's value of XML 1.0, whatever the bytes. */
int jb_export_xml_text(jb_buf *out, const char *text);

#endif
