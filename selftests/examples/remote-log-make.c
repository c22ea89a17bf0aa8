// SPDX-License-Identifier: GPL-2.0
/*
 * Make a log in a file of 1 MiB, as the initiator makes it in persistent memory, so that a test of
 * the checker has something to break:
 *
 *	remote-log-make LOG TEXT RECORDS
 */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "remote-log.h"

#define LOG_SIZE	0x100000

int main(int argc, char **argv)
{
	struct log_header *header;
	char *line = NULL;
	size_t size, line_size = 0;
	ssize_t length;
	__u32 records;
	FILE *text;
	int fd;

	if (argc != 4)
		errx(1, "usage: remote-log-make LOG TEXT RECORDS");
	records = log_number(argv[3]);
	fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || ftruncate(fd, LOG_SIZE))
		err(1, "%s", argv[1]);
	text = fopen(argv[2], "r");
	if (!text)
		err(1, "%s", argv[2]);

	header = log_map(argv[1], O_RDWR, &size);
	header->magic = LOG_MAGIC;
	while (header->tail.records < records) {
		void *end = (char *)header + LOG_RECORDS + header->tail.bytes;

		length = getline(&line, &line_size, text);
		if (length < 0)
			errx(1, "%s has fewer lines", argv[2]);
		if (LOG_RECORDS + header->tail.bytes + log_record_size(length) > size)
			errx(1, "%s is full", argv[1]);
		header->tail.bytes += log_record_make(end, header->tail.records, line, length);
		header->tail.records++;
	}
	return 0;
}
