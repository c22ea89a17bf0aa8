/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A crash-safe log that one machine, the initiator, keeps in the persistent memory of another, the
 * target.  What lies there:
 *
 *	0		struct log_header: what this is, and the tail
 *	LOG_RECORDS	struct log_record: record 0, its data, up to 7 bytes of pad
 *			struct log_record: record 1, its data, pad
 *			...
 *			the tail points here; what follows does not count
 *
 * Records are written after the tail, where a crash cannot hurt, and made durable; only then does
 * the tail move past them, in one store of 8 bytes that no crash can tear.  So whatever the tail
 * covers is whole.  A record is acknowledged when the tail that covers it is durable too.
 *
 * Numbers are in the initiator's byte order.
 */
#ifndef REMOTE_LOG_H
#define REMOTE_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <linux/types.h>

#define LOG_MAGIC	0x31474f4c45584d52ull
#define LOG_RECORDS	4096
#define LOG_MAX_DATA	4096
#define LOG_PORT	7471

/* How much of the log counts: records, and the bytes that they take from LOG_RECORDS on. */
struct log_tail {
	__u32 records;
	__u32 bytes;
} __attribute__((aligned(8)));

struct log_header {
	__u64 magic;		/* written last when a log is made: what has it is a log */
	__u64 claim;		/* of a replicated log, see remote-log-replicas.h; otherwise 0 */
	__u64 epoch;		/* the same */
	__u8 pad[40];
	struct log_tail tail;	/* on a cache line of its own */
};

struct log_record {
	__u32 crc;		/* CRC-32 of what follows: length, seq, data */
	__u32 length;	/* of data */
	__u64 seq;		/* 0, 1, 2, ... */
	char data[];
};

/* Where the target's log can be reached: what it tells each initiator that connects. */
struct log_region {
	__u64 addr;
	__u64 size;
	__u32 rkey;
};

/* The bytes that a record with @length bytes of data takes, pad included. */
size_t log_record_size(size_t length);

/* Make record @seq of @length bytes of @data; returns log_record_size(@length). */
size_t log_record_make(struct log_record *record, __u64 seq, const void *data, size_t length);

__u32 log_record_crc(const struct log_record *record);

/*
 * Map all of @path, a device DAX (/dev/dax0.0) or a file, as open(2)'s @flags permit; its size goes
 * to @size.  Ends the program if that fails.
 */
void *log_map(const char *path, int flags, size_t *size);

/* The number of records that @text says; ends the program if it says none. */
__u32 log_number(const char *text);

#endif /* REMOTE_LOG_H */
