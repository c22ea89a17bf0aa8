/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the two ends of the benchmark share: bench-client, which appends to logs in the persistent
 * memory of bench-target.  They talk over TCP, between the batches that are measured.
 *
 * Each client has a log of its own in the memory: a pointer, the number of the last record that
 * counts, and from BENCH_RECORDS on the records of a batch, one after the other.
 */
#ifndef BENCH_H
#define BENCH_H

#include <sys/param.h>

#include "verbs-end.h"

/* As in struct ibv_qp_attr, 4 s: a target that is slow shall not be asked again. */
#define BENCH_TIMEOUT	20

#define BENCH_POINTER	0
#define BENCH_RECORDS	4096

struct bench_ask {
	enum bench_what {
		BENCH_CONNECT,	/* a new QP, and a region of @size bytes */
		BENCH_CONDITION,	/* from now on: @delay, and @busy programs for each CPU */
		BENCH_BEGIN,	/* a batch: of each of @clients @count records of @size bytes */
		BENCH_END,	/* of the batch: how was it? */
	} what;
	__u32 clients, count;
	__u64 size;
	struct end_address address;
	__u32 first;		/* number of the first record; the clients take turns */
	/* A SEND tells of each record, and a daemon makes it durable.  How does it wait for one? */
	enum bench_daemon { BENCH_NO_DAEMON, BENCH_SLEEPS, BENCH_POLLS } daemon;
	bool records, pointer;	/* are written, and so to be checked */
	__u64 message;		/* bytes of the record that a SEND brings with it */
	__u32 delay;		/* us, of what each end sends */
	__u32 busy;
};

struct bench_told {
	int error;		/* errno of the registration */
	struct end_address address;
	__u64 addr;
	__u32 rkey;
	bool wrong;		/* what is in the memory is not what was written */
	__u64 busy;		/* ns of CPU that the batch took */
};

/* What a SEND of either end carries, maybe with a record.  Places are from the start of the memory. */
struct bench_message {
	__u64 record, size;	/* place and size */
	__u64 pointer, number;	/* place and value */
};

/* Where the log of a client begins. */
static inline __u64 bench_log(__u32 client, __u32 count, __u64 size)
{
	return client * roundup(BENCH_RECORDS + count * size, 4096);
}

static inline __u64 bench_record(__u32 client, __u32 count, __u64 size, __u32 nth)
{
	return bench_log(client, count, size) + BENCH_RECORDS + (__u64)nth * size;
}

/* No two records have a word in common. */
static inline __u64 bench_word(__u32 number, size_t i)
{
	return (__u64)(number + 1) << 32 | i;
}

/* The next completion, for which the CPU looks all the time; ends the program after a minute. */
struct ibv_wc bench_poll(struct end *end);

/* What this machine sends is late by @us. */
void bench_delay(unsigned int us);

/*
 * From now on bench_busy() tells how long the CPU of this machine has been busy, in ns, whoever
 * kept it so.  In an emulator that takes 1 ns for each instruction, that counts instructions.
 * Only for a machine with one CPU, and not while times are taken.
 */
void bench_count_cpu(void);
__u64 bench_busy(void);

__u64 bench_now(void);

#endif /* BENCH_H */
