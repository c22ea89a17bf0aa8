// SPDX-License-Identifier: GPL-2.0
/*
 * Makes recordings that are large in one way, to see what crash-states costs:
 *
 *	crash-load FOLDER packets N	N packets of 64 bytes, each of its own WRITE; a FLUSH follows each
 *	crash-load FOLDER message N	one WRITE of N packets, then 1000 small ones
 *	crash-load FOLDER payload N	N WRITEs of 1 MiB, a FLUSH after each
 *	crash-load FOLDER qps N		N connections, all with the same PSNs
 *	crash-load FOLDER shapes N	N WRITEs, no two alike, and FLUSHes whose answers come later and later
 *	crash-load FOLDER nvdimm N	N MiB of memory that is full, of which 16 words are stored to
 *
 * Time it:  time crash-states FOLDER -- true
 */
#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "made.h"

#define MTU		1024
#define MIB		(1u << 20)
#define SMALL		64

static const uint8_t bytes[4 * MTU] = { [0 ... 4 * MTU - 1] = 0x5a };

static void store_and_flush(uint32_t psn, uint64_t place, uint32_t length)
{
	request(ROCE_RC_WRITE_ONLY, psn, KEY, place, length, bytes, length);
	flush_as(psn + 1, KEY, place, length, DURABLE);
	response(psn + 1);
}

/* A WRITE of so many packets.  The PSN after it. */
static uint32_t store_long(uint32_t psn, uint64_t place, unsigned int packets)
{
	request(ROCE_RC_WRITE_FIRST, psn++, KEY, place, packets * MTU, bytes, MTU);
	for (unsigned int i = 2; i < packets; i++)
		packet(true, ROCE_RC_WRITE_MIDDLE, psn++, bytes, MTU);
	packet(true, ROCE_RC_WRITE_LAST, psn++, bytes, MTU);
	return psn;
}

static void make_packets(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		store_and_flush(1 + 2 * i, i % 1024 * SMALL, SMALL);
}

static void make_message(unsigned int n)
{
	uint32_t psn = store_long(1, 0, n);

	for (unsigned int i = 0; i < 1000; i++, psn += 2)
		store_and_flush(psn, (uint64_t)n * MTU, 8);
}

static void make_payload(unsigned int n)
{
	uint32_t psn = 1;

	for (unsigned int i = 0; i < n; i++) {
		psn = store_long(psn, (uint64_t)i * MIB, MIB / MTU);
		flush_as(psn, KEY, (uint64_t)i * MIB, MIB, DURABLE);
		response(psn++);
	}
}

/* Linux chooses the port by the numbers of both QPs. */
static uint16_t port_of(uint64_t a, uint64_t b)
{
	uint64_t v = a * b;

	v ^= v >> 20;
	v ^= v >> 40;
	return 0xc000 | ((v & 0x3fff) ^ (v & 0xfc000) >> 14);
}

static void make_qps(unsigned int n)
{
	for (unsigned int record = 0; record < 4; record++)
		for (unsigned int i = 0; i < n; i++) {
			net.qp = 17 + i;
			net.peer = 100017 + i;
			net.port = port_of(net.qp, net.peer);
			store_and_flush(1 + 2 * record, (uint64_t)i * SMALL, SMALL);
		}
}

static void make_shapes(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++) {
		unsigned int length = (8 << i / 4 % 9) + i % 2;

		request(ROCE_RC_WRITE_ONLY, 1 + 2 * i, KEY, i / 2 % 2 * 4092, length, bytes, length);
		flush_as(2 + 2 * i, KEY, 8192, 8, DURABLE);
		if (i % 2)
			response(2 + 2 * (i / 2));
	}
}

static void make_nvdimm(unsigned int n)
{
	static uint8_t full[MIB];
	FILE *file = fopen(in_folder("server.pmem0.start"), "r+");

	memset(full, 0x5a, sizeof(full));
	for (unsigned int i = 0; i < n; i++)
		if (fwrite(full, sizeof(full), 1, file) != 1)
			err(1, "server.pmem0.start");
	fclose(file);
	for (unsigned int i = 0; i < 16; i++)
		write_word(1 + i, i, 1);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *kind;
		void (*make)(unsigned int n);
		unsigned int unit;	/* bytes of the device for each of n */
	} kinds[] = {
		{ "packets", make_packets, 0 },
		{ "message", make_message, MTU },
		{ "payload", make_payload, MIB },
		{ "qps", make_qps, SMALL },
		{ "shapes", make_shapes, 0 },
		{ "nvdimm", make_nvdimm, MIB },
	};
	unsigned int n = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;

	for (size_t i = 0; n && i < sizeof(kinds) / sizeof(*kinds); i++) {
		if (strcmp(argv[2], kinds[i].kind))
			continue;
		begin_with(argv[1], DEVICE + (uint64_t)n * kinds[i].unit);
		kinds[i].make(n);
		end();
		return 0;
	}
	errx(1, "usage: crash-load FOLDER packets|message|payload|qps|shapes|nvdimm N");
}
