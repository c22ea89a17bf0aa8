// SPDX-License-Identifier: GPL-2.0
/*
 * Check what a crash left of a remote log:
 *
 *	remote-log-check LOG TEXT ACKNOWLEDGED
 *
 * LOG is the device or file that holds it.  Its records must be the first lines of the file TEXT,
 * byte for byte and in order, whole, and at least as many as the initiator saw ACKNOWLEDGED.  Says
 * what it found, also after the tail, where anything may be; exit status 0 if all is well, 1 if not.
 */
#include <err.h>

#include "remote-log-records.h"

int main(int argc, char **argv)
{
	if (argc != 4)
		errx(1, "usage: remote-log-check LOG TEXT ACKNOWLEDGED");
	log_check(argv[1], argv[2], log_number(argv[3]));
	return 0;
}
