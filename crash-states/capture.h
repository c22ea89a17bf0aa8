/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The RoCEv2 packets of a capture, each by itself.
 *
 * Understood: Ethernet, VLAN tags, IPv4, IPv6, UDP to port 4791, and of InfiniBand's services the
 * reliable connection; and lines that initiators printed, see told.h.
 */
#ifndef CAPTURE_H
#define CAPTURE_H

#include "cpu.h"
#include "memory.h"

/* An IPv4 address stands as ::ffff:a.b.c.d, as in the kernel's GIDs. */
struct address {
	uint8_t byte[16];
};

struct packet {
	unsigned int frame;	/* number in the capture, from 1, as Wireshark counts */
	unsigned int moment;	/* its number among the frames and the lines of server.cpu, see cpu.h */
	uint64_t end;		/* of its frame, in bytes of the capture */
	double time;		/* in seconds, since the first frame */
	struct address from, to;
	uint8_t mac[6];		/* of its sender */
	uint16_t port;		/* UDP source port */
	bool to_target;		/* by its MAC address */
	uint8_t target;		/* in a group: which one it is to, or from; from 0 on */

	uint8_t opcode;		/* BTH: service (3 bits), operation (5 bits) */
	uint32_t qpn;		/* destination */
	uint32_t psn;

	bool has_reth;
	uint64_t va;		/* RETH; of Atomics, AtomicETH */
	uint32_t rkey;
	uint32_t length;
	uint64_t swap_or_add, compare;	/* AtomicETH, as numbers */
	uint32_t feth;
	uint8_t syndrome;	/* AETH */
	uint64_t original;	/* AtomicAckETH */
	const uint8_t *payload;
	uint32_t payload_length;
};

/* A line of an initiator's standard output, which it had printed when the frame came. */
struct told {
	unsigned int frame, moment;
	const char *text;	/* without its end */
	unsigned int length;
	double time;		/* in seconds, as that of a packet */
	uint8_t mac[6];		/* of the initiator */
};

struct capture {
	const char *path;
	LIST(struct told) told;
	bool told_in_time;	/* each write() of a line returned after its frame: see told.h */
	LIST(struct packet) packets;
	unsigned int frames;
	time_t began;		/* the first one */
	uint64_t bytes;		/* all of them */
	LIST(uint64_t) ends;	/* of each frame, in bytes of the capture */
	struct cpu cpu;		/* what the target's CPU did between the frames */
	unsigned int broken;	/* packets with a wrong ICRC, or too short: a target drops them */
	bool half_frame;	/* left out at the end */
};

/*
 * Read what is said in @path to @targets targets, and by them, each with its @memory.  Ends the program, with the
 * number of the frame, if a RoCE packet cannot be read.  What has another protocol is passed over.
 *
 * QEMU records a frame before it passes it on.  If it is killed then, the last frame may be half
 * written, and no guest has got it, so it is left out.
 */
void capture_read(struct capture *capture, const char *path, const struct memory *memory, unsigned int targets);

/* Read what the target's CPU did between the frames, and give all moments their numbers. */
void capture_read_cpu(struct capture *capture, const char *path, const struct memory *memory);

/* How many lines had been told at @moment: the first ones of capture->told. */
size_t capture_told(const struct capture *capture, unsigned int moment);

/*
 * Moments count the frames of the capture and the lines of server.cpu, in the order in which they came.  Without
 * server.cpu a moment is the number of a frame.
 */
unsigned int capture_last_moment(const struct capture *capture);

/* The last frame that had passed at @moment. */
unsigned int capture_frame(const struct capture *capture, unsigned int moment);

/* The number in the ladder of the last packet up to @moment: it counts those of reliable connections. */
unsigned int capture_ladder(const struct capture *capture, unsigned int moment);

#define ALL_LINES	UINT32_MAX
#define NO_MOMENT	UINT32_MAX

/* After @frame, and so many lines of server.cpu that follow it; NO_MOMENT if there are not so many. */
unsigned int capture_moment(const struct capture *capture, unsigned int frame, unsigned int lines);

/*
 * "12", just before the next frame; or "12+3", after frame 12 and three lines of server.cpu.  It stays until the fourth
 * call after this one.
 */
const char *moment_text(const struct capture *capture, unsigned int moment);

/* For messages; the text stays until the fourth call after this one. */
const char *address_text(const struct address *address);
const char *opcode_name(uint8_t opcode);

#endif /* CAPTURE_H */
