// SPDX-License-Identifier: GPL-2.0
/*
 * The initiator of a remote log that has copies at several targets: appends lines of a text to it.
 *
 *	remote-log-replicate TEXT RECORDS ACKNOWLEDGED STEP ADDRESS[:PORT]...
 *
 * Each target is a remote-log-target.  Record n is line n + 1 of the file TEXT, and RECORDS more are
 * appended to those that the log holds.  An append goes to all targets at once, in one round trip to each,
 * and is acknowledged when a majority has it.  What is acknowledged goes to the file ACKNOWLEDGED, as
 * it was in TEXT, at once.  A line is printed for each STEP records, and when a target comes or goes.
 *
 * A target that is lost is tried again and again; one that is back gets what it lacks, while appends go
 * on with the others.  If no majority is left, nothing is acknowledged; the program says so, and ends
 * with status 1 if none comes back in time.
 *
 * One initiator writes at a time: see remote-log-replicas.h, which has the rules of recovery, too.
 */
#include <err.h>

#include "remote-log-replicas.h"
#include "replicas-initiator.h"

int main(int argc, char **argv)
{
	if (argc < 6 || argc > 5 + REPLICAS_MAX)
		errx(1, "usage: remote-log-replicate TEXT RECORDS ACKNOWLEDGED STEP ADDRESS[:PORT]... (up to %d)",
		     REPLICAS_MAX);
	replicas_append(&(struct replicas_job){
		.text = argv[1],
		.records = log_number(argv[2]),
		.acknowledged = argv[3],
		.step = log_number(argv[4]),
		.addresses = argv + 5,
		.targets = argc - 5,
		.patience_ms = 60000,
	});
	return 0;
}
