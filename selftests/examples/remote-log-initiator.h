/* SPDX-License-Identifier: GPL-2.0 */
/* The initiator of the remote log, see remote-log-append.c. */
#ifndef REMOTE_LOG_INITIATOR_H
#define REMOTE_LOG_INITIATOR_H

#include "remote-log-connection.h"
#include "remote-log.h"

/* Connect to the target at @address.  Ends the program if that fails. */
void log_connect(struct log_connection *connection, const char *address);

/*
 * Append @records lines of the file @text to the log of the target at @address; a line is printed when
 * @step more (0: a tenth of @records) are acknowledged.  The number of records that the log holds for sure
 * goes to the file @acknowledged.  Ends the program if not all are acknowledged.
 */
void log_append_text(const char *address, const char *text, __u32 records, const char *acknowledged,
		     __u32 step);

#endif /* REMOTE_LOG_INITIATOR_H */
