// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <endian.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../selftests/rdma/rxe_crc32.h"
#include "../selftests/rdma/rxe_roce.h"
#include "made.h"
#include "told.h"
#include "util.h"

static const uint8_t initiator_mac[6] = { 0x52, 0x54, 0, 0, 0, 2 };

struct net net;

char *in_folder(const char *name)
{
	return xasprintf("%s/%s", net.folder, name);
}

static FILE *create(const char *name)
{
	FILE *file = fopen(in_folder(name), "w");

	if (!file)
		fail_errno("%s", in_folder(name));
	return file;
}

void end(void)
{
	if ((net.pcap && fclose(net.pcap)) || (net.cpu && fclose(net.cpu)))
		fail_errno("%s", net.folder);
	net.pcap = net.cpu = NULL;
}

void put32(FILE *file, uint32_t v) { fwrite(&v, 4, 1, file); }

void begin(const char *folder)
{
	begin_with(folder, DEVICE);
}

static void write_target(const char *name, unsigned int target, uint64_t device)
{
	FILE *file = create(xasprintf("%s.memory", name));

	fprintf(file, "link 52:54:00:00:%02x:01\ndevice dax0.0 0 %" PRIu64 "\n", target, device);
	fprintf(file, "region 0x%x 0x%x 0x%llx %" PRIu64 "\npiece 0 %" PRIu64 " dax0.0 0\n", KEY, KEY, VA,
		device, device);
	fprintf(file, "region 0x%x 0x%x 0x%llx 32\npiece 0 32 dax0.0 0\n", OTHER, OTHER, VA);
	fprintf(file, "region 0x303 0x303 0x1000 4096\n");	/* ordinary memory */
	fprintf(file, "window 0x404 0x%llx 16 0x%x 0x2\n", VA + 8, KEY);
	fclose(file);
	file = create(xasprintf("%s.pmem0.start", name));
	if (ftruncate(fileno(file), device))
		exit(1);
	fclose(file);
}

static void begin_capture(const char *folder, const char *name)
{
	memset(&net, 0, sizeof(net));
	net.folder = folder;
	unlink(in_folder("server.cpu"));	/* of what was made before */
	net.qp = QP;
	net.peer = 33;
	net.port = 50000;
	net.pcap = create(name);
	put32(net.pcap, 0xa1b2c3d4);
	put32(net.pcap, 4 << 16 | 2);
	put32(net.pcap, 0);
	put32(net.pcap, 0);
	put32(net.pcap, 65536);
	put32(net.pcap, 1);	/* Ethernet */
}

void begin_with(const char *folder, uint64_t device)
{
	begin_capture(folder, "server.pcap");
	write_target("server", 0, device);
}

void begin_group(const char *folder, unsigned int targets)
{
	begin_capture(folder, "client1.pcap");
	net.targets = targets;
	for (unsigned int i = 0; i < targets; i++) {
		write_target(xasprintf("server%u", i + 1), i, DEVICE);
		/* It is not looked at. */
		fclose(create(xasprintf("server%u.pcap", i + 1)));
	}
}

static uint32_t icrc_of(const uint8_t *ip, size_t length)
{
	static const uint8_t ones[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	uint8_t copy[9000];

	if (!net.ipv6)
		return net.legacy ? roce_icrc_legacy(ip, length) : roce_icrc(ip, length);
	memcpy(copy, ip, length);
	copy[0] = 0x6f;
	copy[1] = copy[2] = copy[3] = copy[7] = copy[46] = copy[47] = copy[52] = 0xff;
	return crc32(crc32(0, ones, 8), copy, length);
}

static void put_frame(const uint8_t *frame, size_t length)
{
	uint64_t us = net.ms * 1000ULL + ++net.frames;	/* each frame leaves after the one before it */

	put32(net.pcap, us / 1000000);
	put32(net.pcap, us % 1000000);
	put32(net.pcap, length);
	put32(net.pcap, length);
	fwrite(frame, 1, length, net.pcap);
}

/* One packet: BTH, what follows it, ICRC. */
void packet(bool to_target, uint8_t opcode, uint32_t psn, const void *rest, size_t length)
{
	uint8_t buffer[9000] __attribute__((aligned(4))) = { }, *frame = buffer + 2;
	uint8_t *at = frame, *ip, pad = -length & 3;	/* so that all after Ethernet is aligned */
	const uint8_t target_mac[6] = { 0x52, 0x54, 0, 0, net.target, 1 };
	struct roce_bth *bth;
	size_t udp_length;

	memcpy(at, to_target ? target_mac : initiator_mac, 6);
	memcpy(at + 6, to_target ? initiator_mac : target_mac, 6);
	at += 12;
	for (int i = 0; i < net.vlans; i++) {
		*(uint16_t *)at = htons(i + 1 < net.vlans ? 0x88a8 : 0x8100);
		*(uint16_t *)(at + 2) = htons(42);
		at += 4;
	}
	*(uint16_t *)at = htons(net.ipv6 ? 0x86dd : 0x0800);
	ip = at += 2;
	udp_length = 8 + sizeof(*bth) + length + pad + 4;
	if (net.ipv6) {
		ip[0] = 0x60;
		ip[3] = 7;	/* flow label */
		*(uint16_t *)(ip + 4) = htons(udp_length);
		ip[6] = 17;
		ip[7] = 64;
		ip[8] = ip[24] = 0xfe;
		ip[22] = to_target ? 0 : net.target;
		ip[23] = to_target ? 2 : 1;
		ip[38] = to_target ? net.target : 0;
		ip[39] = to_target ? 1 : 2;
		at += 40;
	} else {
		ip[0] = 0x45;
		*(uint16_t *)(ip + 2) = htons(udp_length + 20);
		ip[8] = 64;
		ip[9] = 17;
		ip[12] = ip[16] = 10;
		ip[14] = to_target ? 0 : net.target;
		ip[15] = to_target ? 2 : 1;
		ip[18] = to_target ? net.target : 0;
		ip[19] = to_target ? 1 : 2;
		at += 20;
	}
	*(uint16_t *)at = htons(net.port);
	*(uint16_t *)(at + 2) = htons(4791);
	*(uint16_t *)(at + 4) = htons(udp_length);
	bth = (struct roce_bth *)(at + 8);
	bth->opcode = opcode;
	bth->flags = pad << ROCE_BTH_PAD_SHIFT;
	bth->qpn = htobe32(to_target ? net.qp : net.peer);
	bth->apsn = htobe32(psn & ROCE_24BITS);
	at += 8 + sizeof(*bth);
	memcpy(at, rest, length);
	at += length + pad;
	*(uint32_t *)at = htole32(icrc_of(ip, at - ip)) ^ net.broken;
	at += 4;
	put_frame(frame, at - frame);
}

void cpu(unsigned int thread, const char *format, ...)
{
	va_list args;

	if (!net.cpu) {
		net.cpu = create("server.cpu");
		fputs("cpu 1\n", net.cpu);
	}
	fprintf(net.cpu, "%ld %u ", ftell(net.pcap), thread);
	va_start(args, format);
	vfprintf(net.cpu, format, args);
	va_end(args);
	fputc('\n', net.cpu);
}

void cpu_store(unsigned int word, uint8_t value)
{
	cpu(1, "store %u %016" PRIx64, word * 8, value * UINT64_C(0x0101010101010101));
}

void cpu_write_back(const char *by, unsigned int word)
{
	cpu(1, "%s %u", by, word * 8);
}

void cpu_sfence(void)
{
	cpu(1, "sfence");
}

void told(const char *line)
{
	struct told_head head = { .ethertype = htons(TOLD_ETHERTYPE), .length = htons(strlen(line) | TOLD_IN_TIME) };
	uint8_t frame[1500];

	memset(head.to, 0xff, 6);
	memcpy(head.from, initiator_mac, 6);
	memcpy(head.magic, TOLD_MAGIC, sizeof(head.magic));
	memcpy(frame, &head, sizeof(head));
	memcpy(frame + sizeof(head), line, strlen(line));
	put_frame(frame, sizeof(head) + strlen(line));
}

void request(uint8_t opcode, uint32_t psn, uint32_t key, uint64_t place, uint32_t length,
		    const void *payload, size_t payload_length)
{
	uint8_t rest[8192];
	struct roce_reth reth = { htobe64(VA + place), htobe32(key), htobe32(length) };

	memcpy(rest, &reth, sizeof(reth));
	memcpy(rest + sizeof(reth), payload, payload_length);
	packet(true, opcode, psn, rest, sizeof(reth) + payload_length);
}

/* All bytes are @value. */
void write_bytes(uint32_t psn, uint32_t key, uint64_t place, uint32_t length, uint8_t value)
{
	uint8_t bytes[4096];

	memset(bytes, value, sizeof(bytes));
	request(ROCE_RC_WRITE_ONLY, psn, key, place, length, bytes, length);
}

void write_word(uint32_t psn, unsigned int word, uint8_t value)
{
	write_bytes(psn, KEY, word * 8, 8, value);
}

void atomic_write(uint32_t psn, unsigned int word, uint8_t value)
{
	uint8_t bytes[8];

	memset(bytes, value, 8);
	request(ROCE_RC_ATOMIC_WRITE, psn, KEY, word * 8, 8, bytes, 8);
}

void flush_as(uint32_t psn, uint32_t key, uint64_t place, uint32_t length, uint32_t feth)
{
	struct {
		uint32_t feth;
		struct roce_reth reth;
	} __attribute__((packed)) rest = {
		htobe32(feth), { htobe64(VA + place), htobe32(key), htobe32(length) },
	};

	packet(true, ROCE_RC_FLUSH, psn, &rest, sizeof(rest));
}

void flush(uint32_t psn, unsigned int word, unsigned int words)
{
	flush_as(psn, KEY, word * 8, words * 8, DURABLE);
}

void answer(uint8_t opcode, uint32_t psn, uint8_t syndrome)
{
	uint32_t aeth = htobe32((uint32_t)syndrome << 24 | 1);

	packet(false, opcode, psn, &aeth, 4);
}

void ack(uint32_t psn) { answer(ROCE_RC_ACK, psn, 0x1f); }
void response(uint32_t psn) { answer(ROCE_RC_READ_RESPONSE_ONLY, psn, 0x1f); }
void nak(uint32_t psn, uint8_t syndrome) { answer(ROCE_RC_ACK, psn, syndrome); }
