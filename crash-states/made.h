/* SPDX-License-Identifier: GPL-2.0 */
/* Makes the recordings of a run by hand: what the lab would have written of these packets. */
#ifndef MADE_H
#define MADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../selftests/rdma/rxe_roce.h"

#define DEVICE	65536
#define VA	0x7f0000000000ull
#define KEY	0x101
#define OTHER	0x202		/* the same memory, by another key: words 0 to 3 */
#define GLOBAL	ROCE_FETH_PLT_GLOBAL
#define DURABLE	ROCE_FETH_PLT_PERSISTENT
#define QP	17

/* How the next packets look. */
struct net {
	FILE *pcap, *cpu;
	const char *folder;
	unsigned int frames;
	unsigned int ms;	/* the time of the next frame */
	bool ipv6, legacy, broken;
	int vlans;
	uint32_t qp, peer;
	uint16_t port;
	unsigned int targets, target;	/* of a group; the next packets are to, or from, this one, from 0 on */
};

extern struct net net;

/* Write the recordings into @folder, with no packet yet. */
void begin(const char *folder);

/* The same, with a device of another size than DEVICE. */
void begin_with(const char *folder, uint64_t device);

/* The same of a group of so many targets. */
void begin_group(const char *folder, unsigned int targets);

/* All that was made is in the folder. */
void end(void);

char *in_folder(const char *name);

void put32(FILE *file, uint32_t v);

/* One packet: BTH, what comes after it, ICRC. */
void packet(bool to_target, uint8_t opcode, uint32_t psn, const void *rest, size_t length);

void request(uint8_t opcode, uint32_t psn, uint32_t key, uint64_t place, uint32_t length,
	     const void *payload, size_t payload_length);

/* All bytes are @value. */
void write_bytes(uint32_t psn, uint32_t key, uint64_t place, uint32_t length, uint8_t value);
void write_word(uint32_t psn, unsigned int word, uint8_t value);
void atomic_write(uint32_t psn, unsigned int word, uint8_t value);

void flush_as(uint32_t psn, uint32_t key, uint64_t place, uint32_t length, uint32_t feth);
void flush(uint32_t psn, unsigned int word, unsigned int words);

/* The target's CPU does something at this place of the capture: a line of server.cpu, without its position. */
void cpu(unsigned int thread, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cpu_store(unsigned int word, uint8_t value);
void cpu_write_back(const char *by, unsigned int word);
void cpu_sfence(void);

/* The initiator has printed a line. */
void told(const char *line);

void answer(uint8_t opcode, uint32_t psn, uint8_t syndrome);
void ack(uint32_t psn);
void response(uint32_t psn);
void nak(uint32_t psn, uint8_t syndrome);

#endif /* MADE_H */
