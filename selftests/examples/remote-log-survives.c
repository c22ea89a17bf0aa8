// SPDX-License-Identifier: GPL-2.0
/*
 * The checker of the remote log for crash-states:
 *
 *	qemu-scripts/crash-states RUN -- remote-log-survives TEXT [RULE]
 *
 * $IMAGE holds what a power failure left, $TOLD what the initiator had printed: how many records are
 * acknowledged.  Between two such lines, $ANSWERED says more: the persistent FLUSHes that were answered before
 * tell what the initiator may have acknowledged.  RULE is for broken-log:
 *
 *	tail		a record is acknowledged when its tail is durable (default)
 *	record		when the record is
 *	checksum	as tail; recovery first cuts off what has a wrong checksum
 *	no-checksum	the same, of a log whose records have none
 *
 * Exit status 0 if the log is consistent, 1 if not.
 */
#include <err.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote-log-records.h"

/* How many FLUSHes were answered of the log's magic, of its tail, of records. */
struct answers {
	unsigned int magic, tail, record;
};

static struct answers read_answers(const char *path)
{
	unsigned long long offset, length;
	struct answers answers = { };
	FILE *file = fopen(path, "r");

	if (!file)
		err(2, "%s", path);
	while (fscanf(file, "%*u %*u %llu %llu", &offset, &length) == 2) {
		answers.magic += offset == 0 && length == sizeof(uint64_t);
		/* Or the whole region. */
		answers.tail += offset == offsetof(struct log_header, tail) ||
				(offset == 0 && length > LOG_RECORDS);
		answers.record += offset >= LOG_RECORDS;
	}
	fclose(file);
	return answers;
}

/* How many records the initiator has said to be acknowledged. */
static unsigned int read_told(const char *path)
{
	FILE *file = path ? fopen(path, "r") : NULL;
	unsigned int told = 0, records;
	char line[256];

	if (path && !file)
		err(2, "%s", path);
	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "%u of %*u records ack", &records) == 1 && strstr(line, "records acknowledged"))
			told = records;
	if (file)
		fclose(file);
	return told;
}

/* Cut the tail back to where the records are whole. */
static void recover(const char *image, bool checksums)
{
	size_t size;
	struct log_header *header = log_map(image, O_RDWR, &size);
	struct log_tail tail = { };

	while (tail.records < header->tail.records) {
		struct log_record *record = (void *)((char *)header + LOG_RECORDS + tail.bytes);
		size_t length = log_record_size(record->length);

		if (record->length > LOG_MAX_DATA || tail.bytes + length > header->tail.bytes)
			break;
		/* Without one, everything looks good. */
		if (!checksums)
			record->crc = log_record_crc(record);
		if (record->crc != log_record_crc(record))
			break;
		tail.bytes += length;
		tail.records++;
	}
	header->tail = tail;
}

int main(int argc, char **argv)
{
	const char *image = getenv("IMAGE"), *answered = getenv("ANSWERED");
	const char *rule = argc > 2 ? argv[2] : "tail";
	const struct log_header *header;
	struct answers answers;
	unsigned int sure, told;
	size_t size;

	if (argc < 2 || argc > 3 || !image || !answered)
		errx(2, "usage: crash-states RUN -- remote-log-survives TEXT [RULE]");
	answers = read_answers(answered);
	header = log_map(image, O_RDONLY, &size);
	told = read_told(getenv("TOLD"));
	/* It may not have been made yet. */
	if (!answers.magic && !told && header->magic != LOG_MAGIC)
		return 0;
	if (strstr(rule, "checksum"))
		recover(image, !strcmp(rule, "checksum"));
	/* The first tail was that of the empty log. */
	sure = !strcmp(rule, "record") ? answers.record : answers.tail ? answers.tail - 1 : 0;
	log_check(image, argv[1], sure > told ? sure : told);
	return 0;
}
