/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the programs of the target did to its persistent memory by their own instructions, as record-cpu.c writes it down in
 * server.cpu: stores, write-backs of cache lines, and fences.  Its first line is "cpu 1", the others are
 *
 *	POSITION THREAD OPERATION [PLACE [BYTES]]
 *
 * POSITION	the size of server.pcap then: what this has is in the order of causes.  QEMU writes a frame into the
 *		capture before it passes it on.  So a store that a frame has brought about comes after that frame, and
 *		a frame that tells of a store comes after the store.
 * THREAD	a number that the thread has, from 1 to 65535
 * OPERATION	store, vector-store, nt-store, clwb, clflushopt, clflush, sfence, mfence, lock
 * PLACE	of the first byte, in the NVDIMM; of a write-back, of any byte of the line
 * BYTES	of a store, in hex
 *
 * A last line without its end is left out: QEMU was killed then.
 */
#ifndef CPU_H
#define CPU_H

#include "memory.h"

#define CPU_LINE	64	/* bytes of a cache line */
#define CPU_THREADS	65535	/* the highest number of a thread */

/* They stand where a packet has its opcode, and are none of those of InfiniBand. */
enum cpu_operation {
	CPU_STORE = 0xf0,
	CPU_VECTOR_STORE,	/* a part of what an instruction stored, if that is more than QEMU stores at once */
	CPU_NT_STORE,
	CPU_CLWB,
	CPU_CLFLUSHOPT,
	CPU_CLFLUSH,
	CPU_SFENCE,
	CPU_MFENCE,
	CPU_LOCK,		/* an instruction that locks the bus, as XCHG does */
	CPU_OPERATIONS
};

/* A line of server.cpu. */
struct cpu_event {
	uint64_t position;
	unsigned int frame;	/* the last one before it */
	unsigned int moment;
	uint32_t thread;
	uint8_t operation;
	uint8_t length;		/* of what is stored */
	uint64_t place;		/* in the device */
	const uint8_t *bytes;
};

struct cpu {
	const char *path;	/* NULL: it was not recorded */
	LIST(struct cpu_event) events;
	bool half_line;		/* left out at the end */
};

static inline bool cpu_is_operation(uint8_t opcode) { return opcode >= CPU_STORE && opcode < CPU_OPERATIONS; }
static inline bool cpu_is_store(uint8_t opcode) { return opcode >= CPU_STORE && opcode <= CPU_NT_STORE; }
static inline bool cpu_is_write_back(uint8_t opcode) { return opcode >= CPU_CLWB && opcode <= CPU_CLFLUSH; }
static inline bool cpu_is_fence(uint8_t opcode) { return opcode >= CPU_SFENCE && opcode < CPU_OPERATIONS; }

/* For messages: "STORE", "CLWB", ... */
const char *cpu_name(uint8_t operation);

/*
 * Read what @path has of the device of @memory, beside a capture of @capture_bytes at most.  Ends the program, with the number
 * of the line, if that is not understood.  The events have no frame and no moment yet: see capture_read_cpu().
 */
void cpu_read(struct cpu *cpu, const char *path, const struct memory *memory, uint64_t capture_bytes);

#endif /* CPU_H */
