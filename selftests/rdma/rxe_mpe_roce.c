// SPDX-License-Identifier: GPL-2.0
/* The ICRC of RoCEv2, see rxe_mpe_roce.h. */
#include <endian.h>
#include <linux/ip.h>
#include <linux/udp.h>
#include <string.h>

#include "rxe_mpe_crc32.h"
#include "rxe_mpe_roce.h"

struct headers {
	struct iphdr ip;
	struct udphdr udp;
	struct roce_bth bth;
} __attribute__((packed));

__u32 roce_icrc(const void *ip, size_t len)
{
	/* In the place of InfiniBand's local routing header, which RoCE does not have. */
	static const __u8 lrh[8] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	size_t head_len = len < sizeof(struct headers) ? len : sizeof(struct headers);
	struct headers head = { };
	__u32 crc;

	/* What routers may change counts as all ones. */
	memcpy(&head, ip, head_len);
	head.ip.tos = 0xff;
	head.ip.ttl = 0xff;
	head.ip.check = 0xffff;
	head.udp.check = 0xffff;
	head.bth.qpn |= htobe32(~ROCE_24BITS);

	crc = crc32(0, lrh, sizeof(lrh));
	crc = crc32(crc, &head, head_len);
	return crc32(crc, (const char *)ip + head_len, len - head_len);
}

__u32 roce_icrc_legacy(const void *ip, size_t len)
{
	const size_t flush_headers = sizeof(struct headers) + sizeof(struct roce_feth) +
				     sizeof(struct roce_reth);
	const struct headers *head = ip;
	size_t first_run = len;

	/* A FLUSH has no payload, but a test may give it one: only the second run covers that. */
	if (len > flush_headers && head->bth.opcode == ROCE_RC_FLUSH)
		first_run = flush_headers;
	return crc32(roce_icrc(ip, first_run), &head->bth, len - offsetof(struct headers, bth));
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
