/* SPDX-License-Identifier: GPL-2.0 */
/* The initiator of a remote log that has copies at several targets, see remote-log-replicate.c. */
#ifndef REPLICAS_INITIATOR_H
#define REPLICAS_INITIATOR_H

#include <linux/types.h>

struct replicas_job {
	const char *text;		/* file: record n is line n + 1 */
	__u32 records;			/* to append to those that the log holds */
	const char *acknowledged;	/* file that gets what is acknowledged, at once */
	__u32 step;			/* a line is printed when so many more are acknowledged */
	char **addresses;		/* of the targets: ADDRESS or ADDRESS:PORT */
	unsigned int targets;		/* REPLICAS_MAX at most */
	long patience_ms;		/* without a majority */
};

/* Append what @job says.  Ends the program if no majority of the targets is present in time. */
void replicas_append(const struct replicas_job *job);

#endif /* REPLICAS_INITIATOR_H */
