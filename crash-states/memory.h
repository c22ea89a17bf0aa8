/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the lab wrote down of the target (server.memory, see qemu-scripts/guest/registrations): its MAC
 * address, the device of its persistent memory, what was registered of it, and where SENDs stored.
 */
#ifndef MEMORY_H
#define MEMORY_H

#include "util.h"

/* A part of a region that lies in persistent memory, in one mapping. */
struct piece {
	uint64_t va;		/* as remote requests name it */
	uint64_t length;
	uint64_t place;		/* in the device; in a group, in those of all targets, one after the other */
};

struct region {
	uint32_t rkey, lkey;	/* 0: has none */
	bool window;
	bool ambiguous;		/* its key was given again, for other bytes */
	unsigned int target;	/* in a group: its number, from 1 on; otherwise 0 */
	uint64_t base;		/* of its device */
	uint64_t va, length;
	LIST(struct piece) pieces;
};

/* Where the kernel stored the payload of a SEND. */
struct sent {
	uint32_t qpn, psn;
	uint64_t va;
	uint32_t length;	/* less than all of it, if that went to several places */
};

struct memory {
	const char *path;
	uint8_t mac[6];
	char device[32];	/* such as dax0.0 */
	uint64_t start, size;	/* of the device, in the NVDIMM */
	uint64_t base;		/* where the device begins among those of a group */
	LIST(struct region) regions;
	uint32_t *by_key;		/* places in it of those that have an rkey, in its order */
	size_t keys;
	LIST(struct sent) sent;		/* by QP and PSN */
};

/* Read @path; ends the program, with the number of the line, if that is not understood. */
void memory_read(struct memory *memory, const char *path);

/* In a group, this is target @target, and the devices of those before it have @base bytes. */
void memory_move(struct memory *memory, unsigned int target, uint64_t base);

/* The region or window that @rkey names, or NULL. */
const struct region *memory_region(const struct memory *memory, uint32_t rkey);

/* Where a packet of a SEND stored, or NULL if that was not seen, or more than once. */
const struct sent *memory_sent(const struct memory *memory, uint32_t qpn, uint32_t psn);

/* The region that has the bytes, or NULL: none, or several that lie in different places. */
const struct region *memory_at(const struct memory *memory, uint64_t va, uint64_t length);

/*
 * The @n-th run of persistent bytes, from 0 on, of the @length bytes at @va.  False if there is none
 * left.  What lies beyond the region is left out.
 */
bool region_run(const struct region *region, uint64_t va, uint64_t length, size_t n,
		uint64_t *run_va, uint64_t *run_length, uint64_t *place);

static inline bool region_is_persistent(const struct region *region)
{
	return region->pieces.n;
}

#endif /* MEMORY_H */
