/* SPDX-License-Identifier: GPL-2.0 */
/* How a remote log is read after a crash, and compared with the text that was appended. */
#ifndef REMOTE_LOG_RECORDS_H
#define REMOTE_LOG_RECORDS_H

#include <stdio.h>

#include "remote-log.h"

/*
 * Ends the program if @record, which is at @offset of the records, before @end, is not line @seq of the text.
 * @text is the file from there on.
 */
void log_check_record(const struct log_record *record, __u32 seq, unsigned long long offset,
		      unsigned long long end, FILE *text);

/*
 * Say what the log in @path, a device or file, holds.  Ends the program unless its records are the first
 * lines of the file @text, whole, and @acknowledged at least.
 */
void log_check(const char *path, const char *text, __u32 acknowledged);

#endif /* REMOTE_LOG_RECORDS_H */
