// SPDX-License-Identifier: GPL-2.0
/* The ICRC of RoCEv2, see rxe_roce.h. */
#include <endian.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <string.h>

#include "rxe_crc32.h"
#include "rxe_roce.h"

struct udp_headers {
	struct udphdr udp;
	struct roce_bth bth;
} __attribute__((packed));

static size_t ip_header_len(const void *ip)
{
	const __u8 *version = ip;

	return *version >> 4 == 6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

/* What routers may change counts as all ones. */
static void mask_ip(void *header)
{
	struct ipv6hdr *v6 = header;
	struct iphdr *v4 = header;

	if (ip_header_len(header) == sizeof(*v6)) {
		v6->priority = 0xf;
		memset(v6->flow_lbl, 0xff, sizeof(v6->flow_lbl));
		v6->hop_limit = 0xff;
	} else {
		v4->tos = 0xff;
		v4->ttl = 0xff;
		v4->check = 0xffff;
	}
}

__u32 roce_icrc(const void *ip, size_t len)
{
	/* In the place of InfiniBand's local routing header, which RoCE does not have. */
	static const __u8 lrh[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	__u8 head[sizeof(struct ipv6hdr) + sizeof(struct udp_headers)] = { };
	size_t ip_len = ip_header_len(ip), head_len = ip_len + sizeof(struct udp_headers);
	struct udp_headers *udp = (void *)(head + ip_len);
	__u32 crc;

	if (head_len > len)
		head_len = len;
	memcpy(head, ip, head_len);
	mask_ip(head);
	udp->udp.check = 0xffff;
	udp->bth.qpn |= htobe32(~ROCE_24BITS);

	crc = crc32(0, lrh, sizeof(lrh));
	crc = crc32(crc, head, head_len);
	return crc32(crc, (const char *)ip + head_len, len - head_len);
}

__u32 roce_icrc_legacy(const void *ip, size_t len)
{
	const size_t bth = ip_header_len(ip) + sizeof(struct udphdr);
	const size_t flush_headers = bth + sizeof(struct roce_bth) + sizeof(struct roce_feth) +
				     sizeof(struct roce_reth);
	const __u8 *opcode = (const __u8 *)ip + bth;
	size_t first_run = len;

	/* A FLUSH has no payload, but a test may give it one: only the second run covers that. */
	if (len > flush_headers && *opcode == ROCE_RC_FLUSH)
		first_run = flush_headers;
	return crc32(roce_icrc(ip, first_run), opcode, len - bth);
}

__u32 roce_icrc_get(const void *ip, size_t len)
{
	__u32 icrc;

	memcpy(&icrc, (const char *)ip + len, sizeof(icrc));
	return le32toh(icrc);
}

void roce_icrc_put(void *ip, size_t len, __u32 icrc)
{
	icrc = htole32(icrc);
	memcpy((char *)ip + len, &icrc, sizeof(icrc));
}
