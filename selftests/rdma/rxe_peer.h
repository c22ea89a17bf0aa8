/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The raw end of the link: a peer that puts any bytes into RoCEv2 frames, and so sends what no
 * kernel would send and answers what no kernel would answer.
 *
 *	rxe under test --- rxe_end ===veth=== raw_end --- AF_PACKET, this file
 *	 (init_net)       198.18.0.1         198.18.0.2   (a network namespace of its own)
 *	                2001:2::c612:1     2001:2::c612:2
 *
 * A packet is written as a struct packet (fields, sound unless a case spoils them), turned into a
 * struct frame (bytes, which a case may spoil further) and sent; what comes in goes the other way.
 */
#ifndef RXE_PEER_H
#define RXE_PEER_H

#include "rxe_roce.h"

#define RXE_DEVICE	"mpe_rxe"
/* 198.18.0.1, or the last bytes of 2001:2::c612:1: of the ranges for benchmarks. */
#define RXE_ADDR	0xc6120001u
#define PEER_ADDR	0xc6120002u

/* What the link is, and the path MTU of its QPs.  Changed before peer_open() only. */
extern struct peer_link {
	bool		ipv6;
	unsigned int	vlan;	/* 0: no tag */
	unsigned int	mtu;	/* 256, 512, 1024, 2048 or 4096 bytes of payload */
} peer_link;

#define MTU	((int)peer_link.mtu)
#define MAX_MTU	4096

/*
 * A length in a row of cases: so many MTUs, 1 to 15, and so many bytes more; all other lengths are
 * bytes.
 */
#define MTUS(n, bytes)	((n) << 16 | (bytes))
static inline __u32 row_len(__u32 len)
{
	return len < MTUS(16, 0) ? (len >> 16) * peer_link.mtu + (len & 0xffff) : len;
}

#define PACKET_MAX_PAYLOAD	(MAX_MTU + 1024)

struct packet {
	/* BTH */
	__u8		opcode;
	__u8		pad;		/* bytes of it are sent, too */
	bool		ack_req;
	__u32		qpn;
	__u32		psn;
	/* FETH */
	__u32		placement;	/* ROCE_FETH_*: PLT and SEL in one */
	/* RETH, AtomicETH */
	__u64		va;
	__u32		rkey;
	__u32		dmalen;
	__u64		swap_or_add;
	__u64		compare;
	/* AETH, AtomicAckETH */
	__u8		syndrome;
	__u32		msn;
	__u64		orig;

	size_t		payload_len;	/* without pad */
	__u8		payload[PACKET_MAX_PAYLOAD];
};

enum icrc {
	ICRC_OF_RUN,	/* what peer_icrc() says */
	ICRC_CONFORMING,
	ICRC_LEGACY,
	ICRC_WRONG,
};

struct frame {
	size_t		len;		/* from the BTH to the ICRC, which is not counted */
	enum icrc	icrc;		/* what to send; as received: never ICRC_OF_RUN */
	__u32		source;		/* last bytes of the address; to send, 0: PEER_ADDR */
	bool		options;	/* IPv4: four bytes of options, which ask for nothing */
	bool		no_udp_len;	/* 0, which UDP takes for all of a packet of IPv6 */
	union {
		struct roce_bth	bth;
		__u8		roce[PACKET_MAX_PAYLOAD + 128];
	} wire;
};

/*
 * The peer is as Linux 6.2 to 7.3 (--legacy-icrc). It sends FLUSH with the legacy ICRC, and takes
 * no other.  The kernel has to find that out.
 */
extern bool peer_legacy_icrc;

/* What a packet with @opcode has to have, in both directions, for the peer of this run. */
enum icrc peer_icrc(__u8 opcode);

/* The GID of RXE_ADDR or PEER_ADDR on this link. */
void peer_gid(__u32 addr, __u8 gid[16]);

/* Make the link and the device RXE_DEVICE.  They go when the process and its children are gone. */
void peer_open(void);

/*
 * QP numbers of the peer, new ones for each test: what an earlier test left after is never heard.
 */
__u32 peer_new_qpn(void);
void peer_forget_qpns(void);

void packet_to_frame(const struct packet *packet, struct frame *frame);
/* False if @frame is shorter than its headers. */
bool frame_to_packet(const struct frame *frame, struct packet *packet);
/* The bytes of the headers of RC @opcode, BTH included; 0: no such opcode. */
size_t headers_len(__u8 opcode);

void peer_send_frame(struct frame *frame);
void peer_send(const struct packet *packet);

/*
 * The next frame for a QP number of this test.  False: none came within @ms milliseconds (scaled by
 * wait_scale()).
 */
bool peer_recv_frame(struct frame *frame, unsigned int ms);

/*
 * From now on what the kernel sends waits in its network device, but for one long packet.  The end
 * of the stall drops what waits; it does no harm where there is none.
 */
#define STALLED_BYTES	(MTU + MTU / 2 + 64)
void peer_stall_link(void);
/* From now on the kernel's network device refuses what it is given to send, and says so. */
void peer_choke_link(void);
/* From now on what the kernel sends is lost; its network device takes as much as there is. */
void peer_lose_all(void);
/* The end of all three. */
void peer_end_stall(void);

/*
 * A router claims that the MTU on the way from the kernel to the peer is LEAST_MTU, the least that
 * the kernel takes.
 */
#define LEAST_MTU	(peer_link.ipv6 ? 1280 : 552)
void peer_claim_least_mtu(void);
/* The end of that. */
void peer_forget_mtu(void);

/* From now on the kernel has no route to the peer, if that is reached by IPv6. */
void peer_cut_route(void);
/* The end of that; it does no harm where there is a route. */
void peer_restore_route(void);

/* The peer is also the router to FAR_ADDR, until peer_end_far_route(). */
#define FAR_ADDR	0xc6120101u
void peer_add_far_route(void);
void peer_end_far_route(void);

/* Of a clock that only goes on. */
long long now_ms(void);

/* Deadlines are this many times longer: KSFT_TIMEOUT_SCALE, for emulated and debug kernels. */
unsigned int wait_scale(void);
#define ANSWER_MS	3000

/* What a case expects and what it got are compared, and shown, in words. */
#define WORDS_LEN	160
const char *packet_in_words(const struct packet *packet, char words[WORDS_LEN]);

/* PSNs and MSNs count in 24 bits. */
static inline __u32 psn_add(__u32 psn, int n)
{
	return (psn + n) & ROCE_24BITS;
}

#endif /* RXE_PEER_H */
