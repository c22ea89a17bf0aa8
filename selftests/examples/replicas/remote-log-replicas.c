// SPDX-License-Identifier: GPL-2.0
/* The rules of a remote log with several copies, see remote-log-replicas.h. */
#include <string.h>
#include <sys/param.h>

#include "remote-log-replicas.h"

unsigned int replicas_majority(unsigned int targets)
{
	return targets / 2 + 1;
}

unsigned int replicas_next_majority(unsigned int set, unsigned int counting, unsigned int targets)
{
	while (++set <= counting)
		if (!(set & ~counting) && (unsigned int)__builtin_popcount(set) == replicas_majority(targets))
			return set;
	return 0;
}

const char *replicas_unfit(const struct log_header *header, size_t size)
{
	struct log_tail tail = header->tail;
	__u32 offset = 0;

	if (header->magic != LOG_MAGIC)
		return "it holds no log";
	if (!header->epoch)
		return "it was never brought into line";
	if (tail.bytes > size - LOG_RECORDS)
		return "its tail is beyond its end";
	for (__u32 seq = 0; seq < tail.records; seq++) {
		const struct log_record *record = replicas_record(header, offset);
		__u32 room = tail.bytes - offset;

		if (room < sizeof(*record) || record->length > LOG_MAX_DATA ||
		    room < log_record_size(record->length))
			return "a record goes beyond its tail";
		if (record->crc != log_record_crc(record) || record->seq != seq)
			return "a record is broken";
		offset += log_record_size(record->length);
	}
	return offset == tail.bytes ? NULL : "its tail is torn";
}

const struct log_header *replicas_choose(const struct log_header *const copies[], unsigned int n)
{
	const struct log_header *best = NULL;

	for (unsigned int i = 0; i < n; i++) {
		const struct log_header *copy = copies[i];

		if (!copy)
			continue;
		if (!best || copy->epoch > best->epoch ||
		    (copy->epoch == best->epoch && copy->tail.records > best->tail.records))
			best = copy;
	}
	return best;
}

struct log_tail replicas_common(const struct log_header *copy, const struct log_header *log)
{
	struct log_tail tail = { };

	while (tail.records < MIN(copy->tail.records, log->tail.records)) {
		const struct log_record *record = replicas_record(log, tail.bytes);
		size_t size = log_record_size(record->length);

		if (tail.bytes + size > copy->tail.bytes ||
		    memcmp(record, replicas_record(copy, tail.bytes), size))
			break;
		tail.bytes += size;
		tail.records++;
	}
	return tail;
}

__u32 replicas_acknowledged(const __u32 durable[], unsigned int targets)
{
	__u32 acknowledged = 0;

	/* The highest number that a majority has reached. */
	for (unsigned int i = 0; i < targets; i++) {
		unsigned int have = 0;

		for (unsigned int j = 0; j < targets; j++)
			have += durable[j] >= durable[i];
		if (have >= replicas_majority(targets))
			acknowledged = MAX(acknowledged, durable[i]);
	}
	return acknowledged;
}
