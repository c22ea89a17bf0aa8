/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the two ends of the benchmark share: bench-client, which appends to a log in the persistent
 * memory of bench-target.  They talk over TCP, between the batches that are measured.
 *
 * The memory holds a pointer, the number of the last record that counts, and from BENCH_RECORDS on
 * the records of a batch, one after the other.
 */
#ifndef BENCH_H
#define BENCH_H

#include "verbs-end.h"

/* As in struct ibv_qp_attr, 4 s: a target that is slow shall not be asked again. */
#define BENCH_TIMEOUT	20

#define BENCH_POINTER	0
#define BENCH_RECORDS	4096

struct bench_ask {
	enum bench_what {
		BENCH_CONNECT,	/* a new QP, and a region of @size bytes */
		BENCH_BEGIN,	/* a batch of @count records of @size bytes */
		BENCH_END,	/* of the batch: how was it? */
	} what;
	__u32 count;
	__u64 size;
	struct end_address address;
	__u32 qp;		/* in the order of BENCH_CONNECT */
	__u32 first;		/* number of the first record */
	bool serve;		/* a SEND tells of each record, and the target makes it durable */
	bool records, pointer;	/* are written, and so to be checked */
};

struct bench_told {
	int error;		/* errno of the registration */
	struct end_address address;
	__u64 addr;
	__u32 rkey;
	bool wrong;		/* what is in the memory is not what was written */
	__u64 busy;		/* ns of CPU that the batch took */
};

/* What a SEND of either end carries. */
struct bench_message {
	__u64 record;		/* where it is, from the start of the memory */
	__u64 size;
	__u64 pointer;
};

/* No two records have a word in common. */
static inline __u64 bench_word(__u32 number, size_t i)
{
	return (__u64)(number + 1) << 32 | i;
}

/*
 * From now on bench_busy() tells how long the CPU of this machine has been busy, in ns, whoever
 * kept it so.  In an emulator that takes 1 ns for each instruction, that counts instructions.
 * False if there is more than one CPU, whose time is not counted.
 */
bool bench_count_cpu(void);
__u64 bench_busy(void);

__u64 bench_now(void);

#endif /* BENCH_H */
