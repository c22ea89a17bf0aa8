// SPDX-License-Identifier: GPL-2.0
/* How a remote log is read after a crash, see remote-log-records.h. */
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "remote-log-records.h"

void log_check_record(const struct log_record *record, __u32 seq, unsigned long long offset,
		      unsigned long long end, FILE *text)
{
	static char *line;
	static size_t size;
	ssize_t length;

	if (end - offset < sizeof(*record) || end - offset < log_record_size(record->length))
		errx(1, "record %u, at %llu, goes beyond the tail", seq, offset);
	if (record->crc != log_record_crc(record))
		errx(1, "record %u, at %llu, is broken: CRC %08x, should be %08x", seq,
		     offset, record->crc, log_record_crc(record));
	if (record->seq != seq)
		errx(1, "record %u, at %llu, has number %llu", seq, offset, record->seq);
	length = getline(&line, &size, text);
	if (length < 0)
		errx(1, "record %u: the text has fewer lines", seq);
	if (record->length != length || memcmp(record->data, line, length))
		errx(1, "record %u is not line %u of the text: \"%.*s\"", seq, seq + 1,
		     (int)record->length, record->data);
}

/* What a crash has left of an append whose tail it did not let come. */
static const char *name_leftover(const struct log_record *record, size_t room)
{
	static const char nothing[sizeof(*record) + LOG_MAX_DATA];

	if (!memcmp(record, nothing, MIN(room, sizeof(nothing))))
		return "nothing";
	if (room < sizeof(*record) || record->length > MIN(room - sizeof(*record), LOG_MAX_DATA) ||
	    record->crc != log_record_crc(record))
		return "a torn record";
	return "a whole record";
}

void log_check(const char *path, const char *text, __u32 acknowledged)
{
	const struct log_header *header;
	unsigned long long offset = 0;
	struct log_tail tail;
	const char *records;
	FILE *lines;
	size_t size;

	header = log_map(path, O_RDONLY, &size);
	records = (const char *)header + LOG_RECORDS;
	lines = fopen(text, "r");
	if (!lines)
		err(1, "%s", text);

	if (header->magic != LOG_MAGIC)
		errx(1, "%s holds no log (magic %016llx)", path, header->magic);
	tail = header->tail;
	if (tail.bytes > size - LOG_RECORDS)
		errx(1, "the tail, at %u, is beyond the end of %s", tail.bytes, path);
	for (__u32 seq = 0; seq < tail.records; seq++) {
		const struct log_record *record = (const void *)(records + offset);

		log_check_record(record, seq, offset, tail.bytes, lines);
		offset += log_record_size(record->length);
	}
	if (offset != tail.bytes)
		errx(1, "the tail is torn: %u records end at %llu, it says at %u",
		     tail.records, offset, tail.bytes);
	if (tail.records < acknowledged)
		errx(1, "%u records were acknowledged, only %u are there", acknowledged,
		     tail.records);
	printf("%u records, %u bytes: whole, in order, equal to the text; %u acknowledged; after them: %s\n",
	       tail.records, tail.bytes, acknowledged,
	       name_leftover((const void *)(records + offset), size - LOG_RECORDS - offset));
	fclose(lines);
}
