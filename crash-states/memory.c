// SPDX-License-Identifier: GPL-2.0
#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../selftests/rdma/rxe_roce.h"
#include "memory.h"

/* "link MAC" */
static bool read_link(struct memory *memory, const char *text)
{
	uint8_t *m = memory->mac;
	char rest;

	return sscanf(text, "%2hhx:%2hhx:%2hhx:%2hhx:%2hhx:%2hhx %c", &m[0], &m[1], &m[2], &m[3],
		      &m[4], &m[5], &rest) == 6;
}

static bool memory_has_link(const struct memory *memory)
{
	static const uint8_t none[sizeof(memory->mac)];

	return memcmp(memory->mac, none, sizeof(none));
}

/* "device NAME PLACE SIZE": where it lies in the NVDIMM */
static bool read_device(struct memory *memory, const char *text)
{
	char rest;

	if (memory->size)
		fail("%s: the target has more than one device of persistent memory; one is all that can be followed",
		     memory->path);
	return sscanf(text, "%31s %" SCNu64 " %" SCNu64 " %c", memory->device, &memory->start,
		      &memory->size, &rest) == 3 &&
	       memory->size && !(memory->size % 8) && memory->size <= INT64_MAX &&
	       memory->start <= INT64_MAX - memory->size;
}

/* "region RKEY LKEY VA LENGTH", then its pieces */
static bool read_region(struct memory *memory, const char *text)
{
	struct region region = { };
	char rest;

	if (sscanf(text, "%" SCNx32 " %" SCNx32 " %" SCNx64 " %" SCNu64 " %c", &region.rkey,
		   &region.lkey, &region.va, &region.length, &rest) != 4 || region.va + region.length < region.va)
		return false;
	*list_add(&memory->regions) = region;
	return true;
}

/* "piece OFFSET LENGTH DEVICE PLACE": a part of the region above that lies on DEVICE, at PLACE */
static bool read_piece(struct memory *memory, const char *text)
{
	struct piece piece = { };
	struct region *region;
	char device[32], rest;
	uint64_t offset;

	if (!memory->regions.n)
		return false;
	region = &memory->regions.v[memory->regions.n - 1];
	if (sscanf(text, "%" SCNu64 " %" SCNu64 " %31s %" SCNu64 " %c", &offset, &piece.length,
		   device, &piece.place, &rest) != 4 ||
	    offset > region->length || piece.length > region->length - offset)
		return false;
	piece.va = region->va + offset;
	if (strcmp(device, memory->device) || piece.place > memory->size ||
	    piece.length > memory->size - piece.place)
		return false;
	*list_add(&region->pieces) = piece;
	return true;
}

/* "window RKEY VA LENGTH LKEY ACCESS": of the region of which LKEY is the local key */
static bool read_window(struct memory *memory, const char *text)
{
	const int zero_based = 1 << 5;	/* enum ib_access_flags */
	struct region window = { .window = true };
	uint64_t va, length, place, from, run;
	const struct region *parent = NULL;
	uint32_t lkey, access;
	char rest;

	if (sscanf(text, "%" SCNx32 " %" SCNx64 " %" SCNu64 " %" SCNx32 " %" SCNx32 " %c",
		   &window.rkey, &va, &length, &lkey, &access, &rest) != 5)
		return false;
	for (size_t i = memory->regions.n; i--;) {	/* the newest that has the key */
		parent = &memory->regions.v[i];
		if (!parent->window && parent->lkey == lkey)
			break;
		parent = NULL;
	}
	/* The kernel refuses such a bind, and each request that uses its key. */
	if (!parent || va < parent->va || length > parent->length ||
	    va - parent->va > parent->length - length)
		return true;
	window.va = access & zero_based ? 0 : va;
	window.length = length;
	for (size_t i = 0; region_run(parent, va, length, i, &from, &run, &place); i++)
		*list_add(&window.pieces) = (struct piece) {
			.va = window.va + (from - va), .length = run,
			.place = place,
		};
	*list_add(&memory->regions) = window;
	return true;
}

/*
 * The BTH is the last three of the four words before the payload, or the first three if an immediate or a key
 * follows it.  In the former case the first word is the length of a datagram, which may look like an opcode.  In the
 * latter the second word is the QP, whose first byte is 0.  So is the opcode of SEND FIRST, but the length of that
 * is one of an MTU, and looks like no opcode.
 */
static const uint32_t *find_bth(const uint32_t word[4])
{
	switch (word[0] & 0xff) {
	case ROCE_RC_SEND_LAST_IMM:
	case ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
		return word[1] & 0xff ? word + 1 : word;
	}
	return word + 1;
}

/* "sent VA LENGTH W W W W": a store that may be of a SEND, and the four words of 4 bytes before the payload */
static bool read_sent(struct memory *memory, const char *text)
{
	struct sent sent;
	const uint32_t *bth;
	uint32_t word[4];
	char rest;

	if (sscanf(text, "%" SCNx64 " %" SCNu32 " %" SCNx32 " %" SCNx32 " %" SCNx32 " %" SCNx32 " %c", &sent.va,
		   &sent.length, &word[0], &word[1], &word[2], &word[3], &rest) != 6)
		return false;
	bth = find_bth(word);
	sent.qpn = be32toh(bth[1]) & ROCE_24BITS;
	sent.psn = be32toh(bth[2]) & ROCE_24BITS;
	*list_add(&memory->sent) = sent;
	return true;
}

static int by_packet(const void *a, const void *b)
{
	const struct sent *x = a, *y = b;

	if (x->qpn != y->qpn)
		return x->qpn < y->qpn ? -1 : 1;
	return x->psn < y->psn ? -1 : x->psn > y->psn;
}

const struct sent *memory_sent(const struct memory *memory, uint32_t qpn, uint32_t psn)
{
	const struct sent wanted = { .qpn = qpn, .psn = psn }, *end = memory->sent.v + memory->sent.n, *sent;

	if (!memory->sent.n)
		return NULL;
	sent = bsearch(&wanted, memory->sent.v, memory->sent.n, sizeof(wanted), by_packet);
	if (sent && ((sent > memory->sent.v && !by_packet(sent - 1, sent)) ||
		     (sent + 1 < end && !by_packet(sent + 1, sent))))
		return NULL;
	return sent;
}

static bool has_bytes(const struct region *region, uint64_t va, uint64_t length)
{
	return !region->window && va >= region->va && length <= region->length &&
	       va - region->va <= region->length - length;
}

/* Do the bytes lie in the same places? */
static bool is_same_place(const struct region *a, const struct region *b, uint64_t va, uint64_t length)
{
	uint64_t from[2], run[2], place[2];
	bool more = true;

	for (size_t i = 0; more; i++) {
		more = region_run(a, va, length, i, &from[0], &run[0], &place[0]);
		if (more != region_run(b, va, length, i, &from[1], &run[1], &place[1]) ||
		    (more && (from[0] != from[1] || run[0] != run[1] || place[0] != place[1])))
			return false;
	}
	return true;
}

const struct region *memory_at(const struct memory *memory, uint64_t va, uint64_t length)
{
	const struct region *found = NULL;

	for (size_t i = 0; i < memory->regions.n; i++) {
		const struct region *region = &memory->regions.v[i];

		if (!has_bytes(region, va, length))
			continue;
		if (found && !is_same_place(found, region, va, length))
			return NULL;
		found = region;
	}
	return found;
}

static int by_rkey(const void *a, const void *b, void *memory)
{
	const struct region *regions = ((const struct memory *)memory)->regions.v;
	uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b, x = regions[i].rkey, y = regions[j].rkey;

	return x != y ? (x < y ? -1 : 1) : i < j ? -1 : i > j;
}

/* Do requests that name them mean the same bytes? */
static bool is_same_region(const struct region *a, const struct region *b)
{
	return a->va == b->va && a->length == b->length && is_same_place(a, b, a->va, a->length);
}

/* A key that comes again means what it meant, as a window does that was bound anew to the same memory; or nothing tells what. */
static void merge_keys(struct memory *memory)
{
	size_t n = 0;

	for (size_t i = 0; i < memory->keys; i++) {
		struct region *last = n ? &memory->regions.v[memory->by_key[n - 1]] : NULL;
		const struct region *next = &memory->regions.v[memory->by_key[i]];

		if (!last || last->rkey != next->rkey)
			memory->by_key[n++] = memory->by_key[i];
		else
			last->ambiguous |= !is_same_region(last, next);
	}
	memory->keys = n;
}

static void sort_keys(struct memory *memory)
{
	memory->by_key = xcalloc(memory->regions.n, sizeof(*memory->by_key));
	for (size_t i = 0; i < memory->regions.n; i++)
		if (memory->regions.v[i].rkey)
			memory->by_key[memory->keys++] = i;
	qsort_r(memory->by_key, memory->keys, sizeof(*memory->by_key), by_rkey, memory);
	merge_keys(memory);
}

void memory_read(struct memory *memory, const char *path)
{
	static const struct {
		const char *word;
		bool (*read)(struct memory *memory, const char *text);
	} kinds[] = {
		{ "link ", read_link },
		{ "device ", read_device },
		{ "region ", read_region },
		{ "piece ", read_piece },
		{ "window ", read_window },
		{ "sent ", read_sent },
	};
	FILE *file = fopen(path, "r");
	unsigned int number = 0;
	size_t room = 0, kind;
	char *line = NULL;

	*memory = (struct memory){ .path = path };
	if (!file)
		fail_errno("%s", path);
	while (getline(&line, &room, file) > 0) {
		number++;
		if (!strncmp(line, "unknown ", 8))
			fail("%s: the lab could not learn what was registered: %s", path, line + 8);
		for (kind = 0; kind < sizeof(kinds) / sizeof(*kinds); kind++)
			if (!strncmp(line, kinds[kind].word, strlen(kinds[kind].word)))
				break;
		if (kind == sizeof(kinds) / sizeof(*kinds) ||
		    !kinds[kind].read(memory, line + strlen(kinds[kind].word)))
			fail("%s, line %u: not understood: %s", path, number, line);
	}
	free(line);
	fclose(file);
	sort_keys(memory);
	if (memory->sent.n)
		qsort(memory->sent.v, memory->sent.n, sizeof(*memory->sent.v), by_packet);
	if (!memory_has_link(memory))
		fail("%s: it has no line \"link MAC\" with the target's address, so that no request can be told from an answer: run `rxe-vm pair` again, or add the line",
		     path);
	if (!memory->size)
		fail("%s: the target has no persistent memory (rxe-vm pair --server-pmem gives it some)",
		     path);
}

void memory_move(struct memory *memory, unsigned int target, uint64_t base)
{
	memory->base = base;
	for (size_t i = 0; i < memory->regions.n; i++) {
		struct region *region = &memory->regions.v[i];

		region->target = target;
		region->base = base;
		for (size_t p = 0; p < region->pieces.n; p++)
			region->pieces.v[p].place += base;
	}
}

const struct region *memory_region(const struct memory *memory, uint32_t rkey)
{
	size_t low = 0, high = memory->keys;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct region *region = &memory->regions.v[memory->by_key[middle]];

		if (region->rkey == rkey)
			return region;
		if (region->rkey < rkey)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool region_run(const struct region *region, uint64_t va, uint64_t length, size_t n,
		uint64_t *run_va, uint64_t *run_length, uint64_t *place)
{
	uint64_t end = va + length < va ? UINT64_MAX : va + length, from, to;
	const struct piece *piece;

	for (size_t i = 0; i < region->pieces.n; i++) {
		piece = &region->pieces.v[i];
		from = piece->va > va ? piece->va : va;
		to = piece->va + piece->length < end ? piece->va + piece->length : end;
		if (from >= to || n--)
			continue;
		*run_va = from;
		*run_length = to - from;
		*place = piece->place + (from - piece->va);
		return true;
	}
	return false;
}
