// SPDX-License-Identifier: GPL-2.0
/*
 * Check what is left of a remote log that has copies at several targets:
 *
 *	remote-log-check-replicas TARGETS ACKNOWLEDGED LOG...
 *
 * TARGETS is how many there are; the LOGs, devices or files, are the copies of a majority of them, or of
 * more.  ACKNOWLEDGED is the file that remote-log-replicate wrote.  Whichever majority of the LOGs a new
 * initiator looked at, the log that it would go on with (remote-log-replicas.h) must begin with all that
 * was acknowledged: byte for byte, in order, whole.  Half a line at the end of ACKNOWLEDGED is what a
 * killed remote-log-replicate was about to hand out, and does not count.  Says what each LOG holds;
 * exit status 0 if all is well, 1 if not.
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "remote-log-records.h"
#include "remote-log-replicas.h"

static __u32 count_lines(FILE *text)
{
	char *line = NULL;
	ssize_t length;
	size_t size = 0;
	__u32 n = 0;

	while ((length = getline(&line, &size, text)) >= 0)
		n += line[length - 1] == '\n';
	free(line);
	return n;
}

/* Ends the program if the log that would be chosen of these copies (NULL: not among them) lacks a line. */
static void check_majority(const struct log_header *const copies[], const char *const names[], unsigned int n,
			   FILE *text, __u32 acknowledged)
{
	const struct log_header *log = replicas_choose(copies, n);
	unsigned long long offset = 0;

	fprintf(stderr, "a majority:");
	for (unsigned int i = 0; i < n; i++)
		if (copies[i])
			fprintf(stderr, " %s", names[i]);
	fputc('\n', stderr);
	if (log->tail.records < acknowledged)
		errx(1, "%u records were acknowledged, only %u are there", acknowledged, log->tail.records);
	rewind(text);
	for (__u32 seq = 0; seq < acknowledged; seq++) {
		const struct log_record *record = replicas_record(log, offset);

		log_check_record(record, seq, offset, log->tail.bytes, text);
		offset += log_record_size(record->length);
	}
}

/* The copy, if it counts.  Says what it holds. */
static const struct log_header *look_at(const char *name)
{
	const struct log_header *header;
	const char *unfit;
	size_t size;

	header = log_map(name, O_RDONLY, &size);
	unfit = replicas_unfit(header, size);
	if (unfit) {
		printf("%s: does not count: %s\n", name, unfit);
		return NULL;
	}
	printf("%s: %u records, %u bytes, epoch %llu\n", name, header->tail.records, header->tail.bytes,
	       (unsigned long long)header->epoch);
	return header;
}

int main(int argc, char **argv)
{
	const struct log_header *copies[REPLICAS_MAX], *some[REPLICAS_MAX];
	unsigned int targets, n, fit = 0, counting = 0, majorities = 0;
	__u32 acknowledged;
	FILE *text;

	targets = argc > 1 ? log_number(argv[1]) : 0;
	n = argc - 3;
	if (argc < 4 || targets > REPLICAS_MAX || n > targets || n < replicas_majority(targets))
		errx(1, "usage: remote-log-check-replicas TARGETS ACKNOWLEDGED LOG... (of a majority of up to %d)",
		     REPLICAS_MAX);
	text = fopen(argv[2], "r");
	if (!text)
		err(1, "%s", argv[2]);
	acknowledged = count_lines(text);
	for (unsigned int i = 0; i < n; i++) {
		copies[i] = look_at(argv[3 + i]);
		fit += !!copies[i];
		counting |= copies[i] ? 1u << i : 0;
	}
	if (fit < replicas_majority(targets))
		errx(1, "only %u of %u copies count: no majority", fit, targets);

	for (unsigned int set = 0; (set = replicas_next_majority(set, counting, targets));) {
		for (unsigned int i = 0; i < n; i++)
			some[i] = set & (1u << i) ? copies[i] : NULL;
		check_majority(some, (const char *const *)argv + 3, n, text, acknowledged);
		majorities++;
	}
	printf("%u acknowledged records: whole, in order, equal to the text, in each of %u majorities\n",
	       acknowledged, majorities);
	return 0;
}
