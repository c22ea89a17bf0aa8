/* SPDX-License-Identifier: GPL-2.0 */
/*
 * RoCEv2 on the wire, as far as the tests need it: the transport headers and the ICRC.  Nothing
 * here is taken from the kernel, so that a mistake there is not repeated here.
 *
 *	Ethernet | IPv4 or IPv6 | UDP to port 4791 | BTH | extended headers | payload | pad | ICRC
 *
 * All numbers are big-endian but the ICRC, whose bytes go out lowest first.
 */
#ifndef RXE_ROCE_H
#define RXE_ROCE_H

#include <linux/types.h>
#ifndef __KERNEL__
#include <stdbool.h>
#include <stddef.h>
#endif

#define ROCE_UDP_PORT	4791
#define ROCE_ICRC_BYTES	4

/* BTH opcodes of the reliable connection service. */
enum {
	ROCE_RC_SEND_FIRST		= 0x00,
	ROCE_RC_SEND_MIDDLE		= 0x01,
	ROCE_RC_SEND_LAST		= 0x02,
	ROCE_RC_SEND_LAST_IMM		= 0x03,
	ROCE_RC_SEND_ONLY		= 0x04,
	ROCE_RC_SEND_ONLY_IMM		= 0x05,
	ROCE_RC_WRITE_FIRST		= 0x06,
	ROCE_RC_WRITE_MIDDLE		= 0x07,
	ROCE_RC_WRITE_LAST		= 0x08,
	ROCE_RC_WRITE_LAST_IMM		= 0x09,
	ROCE_RC_WRITE_ONLY		= 0x0a,
	ROCE_RC_WRITE_ONLY_IMM		= 0x0b,
	ROCE_RC_READ_REQUEST		= 0x0c,
	ROCE_RC_READ_RESPONSE_FIRST	= 0x0d,
	ROCE_RC_READ_RESPONSE_MIDDLE	= 0x0e,
	ROCE_RC_READ_RESPONSE_LAST	= 0x0f,
	ROCE_RC_READ_RESPONSE_ONLY	= 0x10,
	ROCE_RC_ACK			= 0x11,
	ROCE_RC_ATOMIC_ACK		= 0x12,
	ROCE_RC_CMP_SWAP		= 0x13,
	ROCE_RC_FETCH_ADD		= 0x14,
	ROCE_RC_SEND_LAST_INV		= 0x16,
	ROCE_RC_SEND_ONLY_INV		= 0x17,
	ROCE_RC_FLUSH			= 0x1c,
	ROCE_RC_ATOMIC_WRITE		= 0x1d,
};

/* The service: bits that each opcode has besides. */
#define ROCE_SERVICE_MASK	0xe0
#define ROCE_SERVICE_RC		0x00
#define ROCE_SERVICE_UC		0x20
#define ROCE_SERVICE_RD		0x40
#define ROCE_SERVICE_UD		0x60
#define ROCE_SERVICE_XRC	0xa0

/* Base transport header: every packet. */
struct roce_bth {
	__u8	opcode;
	__u8	flags;		/* ROCE_BTH_* */
	__be16	pkey;
	__be32	qpn;		/* reserved (8 bits, for routers), destination QP (24 bits) */
	__be32	apsn;		/* ROCE_BTH_ACK_REQ, reserved (7 bits), PSN (24 bits) */
} __attribute__((packed));

#define ROCE_BTH_SE		0x80	/* solicited event */
#define ROCE_BTH_MIG		0x40	/* path migration state */
#define ROCE_BTH_PAD_SHIFT	4	/* bytes of pad after the payload, 0 to 3 */
#define ROCE_BTH_PAD_MASK	0x30
#define ROCE_BTH_TVER_MASK	0x0f	/* header version, 0 */
#define ROCE_BTH_ACK_REQ	0x80000000u
#define ROCE_24BITS		0x00ffffffu	/* QP numbers, PSNs and MSNs */

/* RDMA extended transport header: WRITE, READ, FLUSH, ATOMIC WRITE. */
struct roce_reth {
	__be64	va;
	__be32	rkey;
	__be32	len;
} __attribute__((packed));

/* FLUSH extended transport header: stands between BTH and RETH. */
struct roce_feth {
	__be32	sel_plt;	/* reserved (26 bits), selectivity (2 bits), placement (4 bits) */
} __attribute__((packed));

#define ROCE_FETH_PLT_GLOBAL		0x1u
#define ROCE_FETH_PLT_PERSISTENT	0x2u
#define ROCE_FETH_SEL_MASK		0x30u
#define ROCE_FETH_SEL_RANGE		0x00u
#define ROCE_FETH_SEL_MR		0x10u

/* Atomic extended transport header: CMP SWAP, FETCH ADD. */
struct roce_atomic_eth {
	__be64	va;
	__be32	rkey;
	__be64	swap_or_add;
	__be64	compare;
} __attribute__((packed));

/* ACK extended transport header: every answer but READ RESPONSE MIDDLE. */
struct roce_aeth {
	__be32	smsn;		/* syndrome (8 bits), MSN (24 bits) */
} __attribute__((packed));

/* After the AETH of an ATOMIC ACKNOWLEDGE: the old value. */
struct roce_atomic_ack_eth {
	__be64	orig;
} __attribute__((packed));

/* AETH syndromes. */
#define ROCE_AETH_KIND_MASK		0xe0
#define ROCE_AETH_ACK			0x00	/* low bits: credits, all ones: not counted */
#define ROCE_AETH_RNR_NAK		0x20	/* low bits: the timer */
#define ROCE_AETH_NAK_PSN		0x60
#define ROCE_AETH_NAK_INVALID		0x61
#define ROCE_AETH_NAK_ACCESS		0x62
#define ROCE_AETH_NAK_OPERATION		0x63

/*
 * The ICRC of the packet whose IPv4 or IPv6 header (no options) is at @ip and which has @len bytes
 * from there to the ICRC, which is not counted.
 */
__u32 roce_icrc(const void *ip, size_t len);

/*
 * What Linux 6.2 to 7.3 puts there instead if the packet is a FLUSH: its CRC runs over the BTH and
 * all that follows a second time.
 */
__u32 roce_icrc_legacy(const void *ip, size_t len);

/* The ICRC as it is on the wire, after @len bytes from the IP header on. */
__u32 roce_icrc_get(const void *ip, size_t len);
void roce_icrc_put(void *ip, size_t len, __u32 icrc);

#endif /* RXE_ROCE_H */
