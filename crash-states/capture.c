// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <netinet/ip.h>
#include <pcap/pcap.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../selftests/rdma/rxe_crc32.h"
#include "../selftests/rdma/rxe_roce.h"
#include "capture.h"
#include "told.h"

#define PCAP_HEAD		24
#define PCAP_RECORD_HEAD	16
#define ETHERNET_HEAD		14
#define MAX_FRAME		65550	/* an IP packet, and Ethernet */
#define SOON			86400	/* seconds: no run of the lab takes a day */
#define ETHERTYPE_IPV4	0x0800
#define ETHERTYPE_IPV6	0x86dd
#define ETHERTYPE_VLAN	0x8100
#define ETHERTYPE_QINQ	0x88a8
#define PROTOCOL_UDP	17
#define IPV6_HEAD	40
#define IPV6_FRAGMENT	44	/* these headers may come before UDP */
#define IPV6_HOPS	0
#define IPV6_ROUTING	43
#define IPV6_OPTIONS	60
#define UDP_HEADER	8
#define BTH_BYTES	sizeof(struct roce_bth)

/* What is left of a frame. */
struct bytes {
	const uint8_t *p;
	size_t n;
};

/* The next @n bytes, or NULL if there are not so many. */
static const uint8_t *take(struct bytes *bytes, size_t n)
{
	const uint8_t *p = bytes->p;

	if (bytes->n < n)
		return NULL;
	bytes->p += n;
	bytes->n -= n;
	return p;
}

static void set_ipv4(struct address *address, const uint8_t *p)
{
	memset(address->byte, 0, 10);
	memset(address->byte + 10, 0xff, 2);
	memcpy(address->byte + 12, p, 4);
}

/*
 * The ICRC covers what no router changes; the rest counts as all ones.  @head and @head_length are
 * the IP header, @udp and @length all from there to the ICRC.
 *
 * This is not roce_icrc() of the selftests.  That one makes the packets of crash-test: a mistake in code that both shared
 * would be in what is written and in what is read, and no test would see it.  Nor does it know IPv4's options.
 */
static uint32_t icrc(const uint8_t *head, size_t head_length, const uint8_t *udp, size_t length)
{
	uint8_t masked[60 + UDP_HEADER + BTH_BYTES];
	static const uint8_t ones[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	size_t fixed = head_length + UDP_HEADER + BTH_BYTES;
	uint8_t *bth = masked + head_length + UDP_HEADER;
	uint32_t crc;

	memcpy(masked, head, head_length);
	memcpy(masked + head_length, udp, UDP_HEADER + BTH_BYTES);
	if (head[0] >> 4 == 4) {
		masked[1] = 0xff;			/* type of service */
		masked[8] = 0xff;			/* time to live */
		masked[10] = masked[11] = 0xff;		/* checksum */
	} else {
		masked[0] |= 0x0f;			/* traffic class, flow label */
		masked[1] = masked[2] = masked[3] = 0xff;
		masked[7] = 0xff;			/* hop limit */
	}
	masked[head_length + 6] = masked[head_length + 7] = 0xff;	/* UDP checksum */
	bth[4] = 0xff;
	crc = crc32(0, ones, sizeof(ones));
	crc = crc32(crc, masked, fixed);
	return crc32(crc, udp + UDP_HEADER + BTH_BYTES, length - UDP_HEADER - BTH_BYTES);
}

/* True if a target takes the packet; a FLUSH of Linux 6.2 to 7.3 has a second run in its ICRC. */
static bool icrc_is_good(const uint8_t *head, size_t head_length, const uint8_t *udp, size_t length)
{
	const uint8_t *at = udp + length, *bth = udp + UDP_HEADER;
	uint32_t wanted = icrc(head, head_length, udp, length);
	uint32_t found = (uint32_t)at[3] << 24 | at[2] << 16 | at[1] << 8 | at[0];

	if (found == wanted)
		return true;
	return bth[0] == ROCE_RC_FLUSH && found == crc32(wanted, bth, length - UDP_HEADER);
}

/* From the BTH to the ICRC, of which there is a BTH.  False if it has no room for its headers. */
static bool read_transport(struct packet *packet, struct bytes rest)
{
	const uint8_t *bth = take(&rest, BTH_BYTES), *p = NULL;
	uint8_t pad = (bth[1] & ROCE_BTH_PAD_MASK) >> ROCE_BTH_PAD_SHIFT;
	bool missing = false;

	packet->opcode = bth[0];
	packet->qpn = get32(bth + 4) & ROCE_24BITS;
	packet->psn = get32(bth + 8) & ROCE_24BITS;

	switch (packet->opcode) {
	case ROCE_RC_FLUSH:
		p = take(&rest, sizeof(struct roce_feth));
		if (p)
			packet->feth = get32(p);
		else
			missing = true;
		/* fall through */
	case ROCE_RC_WRITE_FIRST:
	case ROCE_RC_WRITE_ONLY:
	case ROCE_RC_WRITE_ONLY_IMM:
	case ROCE_RC_READ_REQUEST:
	case ROCE_RC_ATOMIC_WRITE:
	/* Unreliable connection: not followed, but its key tells whether that matters. */
	case ROCE_SERVICE_UC | ROCE_RC_WRITE_FIRST:
	case ROCE_SERVICE_UC | ROCE_RC_WRITE_ONLY:
	case ROCE_SERVICE_UC | ROCE_RC_WRITE_ONLY_IMM:
		p = take(&rest, sizeof(struct roce_reth));
		if (!p) {
			missing = true;
			break;
		}
		packet->has_reth = true;
		packet->va = get64(p);
		packet->rkey = get32(p + 8);
		packet->length = get32(p + 12);
		/* After it, as after nothing at all in the other form. */
		if ((packet->opcode & ~ROCE_SERVICE_MASK) == ROCE_RC_WRITE_ONLY_IMM && !take(&rest, 4))
			missing = true;
		break;
	case ROCE_RC_SEND_LAST_IMM:
	case ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
	case ROCE_RC_WRITE_LAST_IMM:
		if (!take(&rest, 4))
			missing = true;
		break;
	case ROCE_RC_CMP_SWAP:
	case ROCE_RC_FETCH_ADD:
		p = take(&rest, sizeof(struct roce_atomic_eth));
		if (!p) {
			missing = true;
			break;
		}
		packet->has_reth = true;
		packet->va = get64(p);
		packet->rkey = get32(p + 8);
		packet->swap_or_add = get64(p + 12);
		packet->compare = get64(p + 20);
		packet->length = 8;
		break;
	case ROCE_RC_READ_RESPONSE_FIRST:
	case ROCE_RC_READ_RESPONSE_LAST:
	case ROCE_RC_READ_RESPONSE_ONLY:
	case ROCE_RC_ACK:
	case ROCE_RC_ATOMIC_ACK:
		p = take(&rest, sizeof(struct roce_aeth));
		if (!p) {
			missing = true;
			break;
		}
		packet->syndrome = p[0];
		if (packet->opcode == ROCE_RC_ATOMIC_ACK) {
			p = take(&rest, sizeof(struct roce_atomic_ack_eth));
			if (p)
				packet->original = get64(p);
			else
				missing = true;
		}
		break;
	}
	/* Shorter than its headers: a target drops it. */
	if (missing || rest.n < pad)
		return false;
	packet->payload = rest.p;
	packet->payload_length = rest.n - pad;
	return true;
}

/* To which target, or from which one?  False if it is none of them: a hub brings what others say, too. */
static bool find_target(struct packet *packet, const uint8_t *ethernet, const struct memory *memory,
			unsigned int targets)
{
	for (int from = 0; from < 2; from++)
		for (unsigned int i = 0; i < targets; i++)
			if (!memcmp(ethernet + 6 * from, memory[i].mac, 6)) {
				packet->to_target = !from;
				packet->target = i;
				return true;
			}
	return false;
}

/* True if the frame is of that kind. */
static bool read_told(struct capture *capture, const uint8_t *data, size_t length, double time)
{
	const struct told_head *head = (const void *)data;
	unsigned int told;

	if (length < sizeof(*head) || get16(data + offsetof(struct told_head, ethertype)) != TOLD_ETHERTYPE ||
	    memcmp(head->magic, TOLD_MAGIC, sizeof(head->magic)))
		return false;
	told = get16(data + offsetof(struct told_head, length));
	capture->told_in_time = (!capture->told.n || capture->told_in_time) && told & TOLD_IN_TIME;
	told &= ~TOLD_IN_TIME;
	if (told > length - sizeof(*head))
		fail("%s, frame %u: a printed line of %u bytes, of which only %zu were captured", capture->path,
		     capture->frames, told, length - sizeof(*head));
	*list_add(&capture->told) = (struct told){
		.frame = capture->frames, .moment = capture->frames, .text = (const char *)(head + 1), .length = told, .time = time,
	};
	memcpy(capture->told.v[capture->told.n - 1].mac, head->from, sizeof(head->from));
	return true;
}

/* No RoCE packet needs headers between those of IPv6 and UDP.  One that has some must not be taken for something else. */
static void refuse_extended(const struct capture *capture, struct bytes ip)
{
	uint8_t next = ip.p[6];
	size_t at = IPV6_HEAD;

	while ((next == IPV6_FRAGMENT || next == IPV6_HOPS || next == IPV6_ROUTING || next == IPV6_OPTIONS) && ip.n >= at + 8) {
		const uint8_t *head = ip.p + at;

		if (next == IPV6_FRAGMENT && get16(head + 2) >> 3)
			return;		/* only the first one has the port */
		at += next == IPV6_FRAGMENT ? 8 : (head[1] + 1) * 8;
		next = head[0];
	}
	if (next == PROTOCOL_UDP && ip.n >= at + 4 && get16(ip.p + at + 2) == ROCE_UDP_PORT)
		fail("%s, frame %u: a RoCE packet with an extension header of IPv6, which crash-states does not read",
		     capture->path, capture->frames);
}

static void read_frame(struct capture *capture, const uint8_t *data, size_t length, double time,
		       const struct memory *memory, unsigned int targets)
{
	struct packet packet = {
		.frame = capture->frames, .moment = capture->frames, .end = capture->bytes, .time = time,
	};
	struct bytes rest = { data, length };
	const uint8_t *ethernet = take(&rest, ETHERNET_HEAD), *tag, *head, *udp;
	size_t head_length, datagram;
	uint16_t type;

	if (!ethernet || read_told(capture, data, length, time) || !find_target(&packet, ethernet, memory, targets))
		return;
	memcpy(packet.mac, ethernet + 6, sizeof(packet.mac));
	type = get16(ethernet + 12);
	while (type == ETHERTYPE_VLAN || type == ETHERTYPE_QINQ) {
		tag = take(&rest, 4);
		if (!tag)
			return;
		type = get16(tag + 2);
	}

	head = rest.p;
	if (type == ETHERTYPE_IPV4) {
		if (rest.n < 20 || head[0] >> 4 != 4)
			return;
		head_length = (head[0] & 15) * 4;
		if (head[9] != PROTOCOL_UDP || head_length < 20)
			return;
		if (get16(head + 6) & (IP_MF | IP_OFFMASK)) {
			/* Only the first fragment has the port. */
			if (!(get16(head + 6) & IP_OFFMASK) && rest.n >= head_length + 4 &&
			    get16(head + head_length + 2) == ROCE_UDP_PORT)
				fail("%s, frame %u: a fragment of a RoCE packet, and crash-states puts none together",
				     capture->path, capture->frames);
			return;
		}
		datagram = get16(head + 2);
		set_ipv4(&packet.from, head + 12);
		set_ipv4(&packet.to, head + 16);
	} else if (type == ETHERTYPE_IPV6) {
		if (rest.n < IPV6_HEAD || head[0] >> 4 != 6)
			return;
		if (head[6] != PROTOCOL_UDP) {
			refuse_extended(capture, rest);
			return;
		}
		head_length = IPV6_HEAD;
		datagram = get16(head + 4) + head_length;
		memcpy(packet.from.byte, head + 8, 16);
		memcpy(packet.to.byte, head + 24, 16);
	} else {
		return;
	}
	if (datagram < head_length + UDP_HEADER || rest.n < head_length + UDP_HEADER)
		return;
	udp = head + head_length;
	if (get16(udp + 2) != ROCE_UDP_PORT)
		return;
	if (datagram > rest.n)
		fail("%s, frame %u: the packet has %zu bytes, only %zu were captured",
		     capture->path, capture->frames, datagram, rest.n);
	if (datagram < head_length + UDP_HEADER + BTH_BYTES + ROCE_ICRC_BYTES)
		return;
	datagram -= ROCE_ICRC_BYTES;
	if (!icrc_is_good(head, head_length, udp, datagram - head_length)) {
		capture->broken++;
		return;
	}
	packet.port = get16(udp);
	rest = (struct bytes){ udp + UDP_HEADER, datagram - head_length - UDP_HEADER };
	if (read_transport(&packet, rest))
		*list_add(&capture->packets) = packet;
	else
		capture->broken++;
}

/* The capture, mapped to the end of the program. */
struct file {
	const uint8_t *bytes;
	size_t size;
};

static void map_file(struct file *file, pcap_t *pcap)
{
	struct stat st;
	void *map;

	*file = (struct file){ };
	if (fstat(fileno(pcap_file(pcap)), &st) || !S_ISREG(st.st_mode) || !st.st_size)
		return;
	map = mmap(NULL, st.st_size, PROT_READ, MAP_PRIVATE, fileno(pcap_file(pcap)), 0);
	if (map != MAP_FAILED)
		*file = (struct file){ map, st.st_size };
}

/*
 * libpcap's buffer is for one frame only.  The frame is in the file, too, at the end of what was read
 * in the usual format; of others, a copy is kept.
 */
static const uint8_t *keep_frame(const struct file *file, pcap_t *pcap, const uint8_t *data, size_t length)
{
	off_t end = ftello(pcap_file(pcap));
	uint8_t *copy;

	if (end >= (off_t)length && (size_t)end <= file->size &&
	    !memcmp(file->bytes + end - length, data, length))
		return file->bytes + end - length;
	copy = xrealloc(NULL, length);
	memcpy(copy, data, length);
	return copy;
}

static uint32_t get_field(const struct file *file, size_t at, bool swapped)
{
	uint32_t v;

	memcpy(&v, file->bytes + at, sizeof(v));
	return swapped ? __builtin_bswap32(v) : v;
}

/* Does a whole record begin at @at?  It has one length twice, and was captured @soon after @seconds. */
static bool is_record(const struct file *file, size_t at, bool swapped, uint32_t seconds, uint32_t soon)
{
	uint32_t length = get_field(file, at + 8, swapped);

	return length >= ETHERNET_HEAD && length == get_field(file, at + 12, swapped) &&
	       length <= file->size - at - PCAP_RECORD_HEAD &&
	       get_field(file, at, swapped) - seconds < soon &&
	       get_field(file, at + 4, swapped) < 1000000000;
}

/* After half a frame, nothing was written.  If whole frames follow, the length of the last one is damaged. */
static void refuse_damage(const struct capture *capture, const struct file *file, bool swapped,
			  uint32_t seconds)
{
	uint32_t soon = capture->frames ? SOON : UINT32_MAX;
	size_t at = capture->bytes;

	if (at + PCAP_RECORD_HEAD > file->size)
		return;
	if (get_field(file, at + 8, swapped) > MAX_FRAME)
		fail("%s: the capture is damaged: frame %u says that it has %u bytes",
		     capture->path, capture->frames + 1, get_field(file, at + 8, swapped));
	for (at++; at + PCAP_RECORD_HEAD <= file->size; at++)
		if (is_record(file, at, swapped, seconds, soon))
			fail("%s: the capture is damaged: frame %u goes beyond the end of the file, and yet other frames follow it",
			     capture->path, capture->frames + 1);
}

static bool is_pcap(const struct file *file)
{
	static const uint32_t magics[] = { 0xa1b2c3d4, 0xd4c3b2a1, 0xa1b23c4d, 0x4d3cb2a1 };

	for (size_t i = 0; i < sizeof(magics) / sizeof(*magics); i++)
		if (file->size >= sizeof(*magics) && !memcmp(file->bytes, &magics[i], sizeof(*magics)))
			return true;
	return false;
}

void capture_read(struct capture *capture, const char *path, const struct memory *memory, unsigned int targets)
{
	char why[PCAP_ERRBUF_SIZE];
	struct pcap_pkthdr *header;
	uint32_t seconds = 0;
	double first = 0, time;
	const uint8_t *data;
	struct file file;
	pcap_t *pcap;
	int got;

	*capture = (struct capture){ .path = path, .bytes = PCAP_HEAD };
	pcap = pcap_open_offline(path, why);
	if (!pcap)
		fail("%s is no capture: %s", path, why);
	if (pcap_datalink(pcap) != DLT_EN10MB)
		fail("%s: a capture of %s, not of Ethernet", path,
		     pcap_datalink_val_to_name(pcap_datalink(pcap)));
	map_file(&file, pcap);
	while ((got = pcap_next_ex(pcap, &header, &data)) == 1) {
		capture->frames++;
		capture->bytes += PCAP_RECORD_HEAD + header->caplen;
		*list_add(&capture->ends) = capture->bytes;
		seconds = header->ts.tv_sec;
		time = seconds + header->ts.tv_usec / 1e6;
		if (capture->frames == 1) {
			first = time;
			capture->began = seconds;
		}
		read_frame(capture, keep_frame(&file, pcap, data, header->caplen), header->caplen,
			   time - first, memory, targets);
	}
	capture->half_frame = got != PCAP_ERROR_BREAK && feof(pcap_file(pcap));
	if (got != PCAP_ERROR_BREAK && !capture->half_frame)
		fail("%s: the capture is damaged: it ends in frame %u: %s", path, capture->frames + 1,
		     pcap_geterr(pcap));
	/* Of other formats libpcap tells no place. */
	if (capture->half_frame && is_pcap(&file))
		refuse_damage(capture, &file, pcap_is_swapped(pcap), seconds);
	pcap_close(pcap);
}

/* For packets one after the other, in the order of their frames. */
static void move_moment(const struct cpu *cpu, unsigned int frame, unsigned int *moment, size_t *before)
{
	while (*before < cpu->events.n && cpu->events.v[*before].frame < frame)
		++*before;
	*moment = frame + *before;
}

static void number_moments(struct capture *capture)
{
	struct cpu *cpu = &capture->cpu;
	unsigned int frame = 0;
	size_t before;

	for (size_t i = 0; i < cpu->events.n; i++) {
		struct cpu_event *event = &cpu->events.v[i];

		while (frame < capture->frames && capture->ends.v[frame] <= event->position)
			frame++;
		event->frame = frame;
		event->moment = frame + i + 1;
	}
	before = 0;
	for (size_t i = 0; i < capture->packets.n; i++)
		move_moment(cpu, capture->packets.v[i].frame, &capture->packets.v[i].moment, &before);
	before = 0;
	for (size_t i = 0; i < capture->told.n; i++)
		move_moment(cpu, capture->told.v[i].frame, &capture->told.v[i].moment, &before);
}

void capture_read_cpu(struct capture *capture, const char *path, const struct memory *memory)
{
	cpu_read(&capture->cpu, path, memory, capture->bytes + (capture->half_frame ? UINT32_MAX : 0));
	number_moments(capture);
}

size_t capture_told(const struct capture *capture, unsigned int moment)
{
	return COUNT_UP_TO(&capture->told, moment, moment);
}

unsigned int capture_last_moment(const struct capture *capture)
{
	return capture->frames + capture->cpu.events.n;
}

unsigned int capture_frame(const struct capture *capture, unsigned int moment)
{
	return moment - COUNT_UP_TO(&capture->cpu.events, moment, moment);
}

unsigned int capture_ladder(const struct capture *capture, unsigned int moment)
{
	unsigned int n = 0;

	for (size_t i = 0; i < capture->packets.n && capture->packets.v[i].moment <= moment; i++)
		n += (capture->packets.v[i].opcode & ROCE_SERVICE_MASK) == ROCE_SERVICE_RC;
	return n;
}

/* How many lines of server.cpu come up to @frame, those after it included. */
static unsigned int lines_up_to(const struct capture *capture, unsigned int frame)
{
	return COUNT_UP_TO(&capture->cpu.events, frame, frame);
}

unsigned int capture_moment(const struct capture *capture, unsigned int frame, unsigned int lines)
{
	unsigned int before = frame ? lines_up_to(capture, frame - 1) : 0, all = lines_up_to(capture, frame);

	if (frame > capture->frames || (lines != ALL_LINES && lines > all - before))
		return NO_MOMENT;
	return frame + (lines == ALL_LINES ? all : before + lines);
}

const char *moment_text(const struct capture *capture, unsigned int moment)
{
	static char text[4][32];
	static int next;
	char *t = text[next++ % 4];
	unsigned int frame = capture_frame(capture, moment);

	if (moment == capture_moment(capture, frame, ALL_LINES))
		snprintf(t, sizeof(*text), "%u", frame);
	else
		snprintf(t, sizeof(*text), "%u+%u", frame, moment - capture_moment(capture, frame, 0));
	return t;
}

const char *address_text(const struct address *address)
{
	static char text[4][INET6_ADDRSTRLEN];
	static int next;
	char *t = text[next++ % 4];
	static const uint8_t ipv4[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	if (!memcmp(address->byte, ipv4, sizeof(ipv4)))
		inet_ntop(AF_INET, address->byte + 12, t, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, address->byte, t, INET6_ADDRSTRLEN);
	return t;
}

const char *opcode_name(uint8_t opcode)
{
	static char unknown[32];

	if (cpu_is_operation(opcode))
		return cpu_name(opcode);
	switch (opcode) {
	case ROCE_RC_SEND_FIRST ... ROCE_RC_SEND_ONLY_IMM:
	case ROCE_RC_SEND_LAST_INV:
	case ROCE_RC_SEND_ONLY_INV:
		return "SEND";
	case ROCE_RC_WRITE_FIRST ... ROCE_RC_WRITE_ONLY_IMM:
		return "WRITE";
	case ROCE_RC_READ_REQUEST:
		return "READ";
	case ROCE_RC_READ_RESPONSE_FIRST ... ROCE_RC_READ_RESPONSE_ONLY:
		return "READ RESPONSE";
	case ROCE_RC_ACK:
		return "ACKNOWLEDGE";
	case ROCE_RC_ATOMIC_ACK:
		return "ATOMIC ACKNOWLEDGE";
	case ROCE_RC_CMP_SWAP:
		return "COMPARE SWAP";
	case ROCE_RC_FETCH_ADD:
		return "FETCH ADD";
	case ROCE_RC_FLUSH:
		return "FLUSH";
	case ROCE_RC_ATOMIC_WRITE:
		return "ATOMIC WRITE";
	}
	snprintf(unknown, sizeof(unknown), "opcode 0x%02x", opcode);
	return unknown;
}
