// SPDX-License-Identifier: GPL-2.0
/*
 * The initiator of the remote log: appends lines of a text to it.
 *
 *	remote-log-append ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]
 *
 * ADDRESS, or ADDRESS:PORT, is the target's.  The log continues where it ended, or is made if there is
 * none.  Record n is line n + 1 of the file TEXT.  RECORDS more are appended; a line is printed when STEP
 * more (default: a tenth of RECORDS) are acknowledged.  The number of records that the log holds for sure,
 * whatever happens to the target, goes to the file ACKNOWLEDGED, even if the target is lost on the way.
 *
 * See log_publish() in remote-log-connection.c for the heart of it.
 */
#include <err.h>
#include <stdlib.h>

#include "remote-log-initiator.h"

int main(int argc, char **argv)
{
	if (argc < 5 || argc > 6)
		errx(1, "usage: remote-log-append ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]");
	log_append_text(argv[1], argv[2], log_number(argv[3]), argv[4], argc == 6 ? log_number(argv[5]) : 0);
	return 0;
}
