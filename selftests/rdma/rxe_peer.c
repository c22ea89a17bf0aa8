// SPDX-License-Identifier: GPL-2.0
/* The raw end of the link, see rxe_peer.h. */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/icmpv6.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rxe_peer.h"

static const __u8 rxe_mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 1 };
static const __u8 peer_mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 2 };

struct peer_link peer_link = { .mtu = 1024 };

/*
 * Shell commands, which know: $vlan (0: none), $mtu of the network devices, $rxe and $peer, those
 * of them that have the addresses, and $namespace, that of the peer.
 *
 * Receive packet steering towards one CPU keeps the frames of each direction in the order in which
 * they were sent, whichever CPUs sent them; only so "the next answer" means something.
 */
static const char link_up[] =
	"set -e\n"
	"ip link add rxe_end mtu $mtu address 02:00:00:00:00:01 type veth peer \\\n"
	"	name raw_end mtu $mtu address 02:00:00:00:00:02\n"
	"for dev in rxe_end raw_end; do echo 1 >/sys/class/net/$dev/queues/rx-0/rps_cpus; done\n"
	"ip link set raw_end netns $namespace\n"
	"ip link set rxe_end up\n"
	"[ $vlan = 0 ] || ip link add link rxe_end name $rxe type vlan id $vlan\n"
	"ip link set $rxe up\n"
	"ip addr add 198.18.0.1/30 dev $rxe\n"
	"ip neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev $rxe nud permanent\n"
	"[ $ipv6 = 0 ] || ip addr add 2001:2::c612:1/64 dev $rxe nodad\n"
	"[ $ipv6 = 0 ] ||\n"
	"	ip neigh add 2001:2::c612:2 lladdr 02:00:00:00:00:02 dev $rxe nud permanent";

static const char peer_up[] =
	"set -e\n"
	"ip link set raw_end up\n"
	"[ $vlan = 0 ] || ip link add link raw_end name $peer type vlan id $vlan\n"
	"ip link set $peer up";

static const char rxe_up[] = "rdma link add " RXE_DEVICE " type rxe netdev rxe_end";

/* So slow that nothing passes within a case but what the burst allows. */
static const char stall[] = "tc qdisc replace dev $rxe root tbf rate 80bit limit 64mb burst $burst";
static const char choke[] = "tc qdisc replace dev $rxe root pfifo limit 0";
static const char loss[] = "tc qdisc replace dev $rxe root netem loss 100%";
static const char end_stall[] = "tc qdisc replace dev $rxe root noqueue";
static const char no_route[] = "ip route replace unreachable 2001:2::c612:2";
static const char forget_mtu[] = "ip route flush cache && ip -6 route flush cache";
static const char end_no_route[] = "ip route del unreachable 2001:2::c612:2 2>/dev/null || true";
static const char far_route[] =
	"set -e\n"
	"[ $ipv6 = 1 ] || ip route add 198.18.1.1 via 198.18.0.2 dev $rxe\n"
	"[ $ipv6 = 0 ] || ip route add 2001:2::c612:101 via 2001:2::c612:2 dev $rxe";
static const char end_far_route[] =
	"set -e\n"
	"[ $ipv6 = 1 ] || ip route del 198.18.1.1\n"
	"[ $ipv6 = 0 ] || ip route del 2001:2::c612:101";

/*
 * What the kernel sends at once, 129 packets of a QP for example, waits here: more than its backlog
 * may hold.
 */
#define PEER_BURST	(4 << 20)

#define RC_OPCODES	0x20

bool peer_legacy_icrc;

static int peer_socket = -1;
static struct sockaddr_ll rxe_lladdr;

/* What the headers of each RC opcode are, in the order on the wire, after the BTH. */
enum {
	HAS_FETH = 1, HAS_RETH = 2, HAS_ATOMIC_ETH = 4, HAS_AETH = 8, HAS_ATOMIC_ACK_ETH = 16,
	HAS_4_BYTES = 32,	/* immediate data or an R_Key: zero here */
	NO_OPCODE = 64,
};

static const struct {
	const char *name;
	int headers;
} opcodes[RC_OPCODES] = {
	[ROCE_RC_SEND_FIRST]		= { "SEND FIRST" },
	[ROCE_RC_SEND_MIDDLE]		= { "SEND MIDDLE" },
	[ROCE_RC_SEND_LAST]		= { "SEND LAST" },
	[ROCE_RC_SEND_LAST_IMM]		= { "SEND LAST IMM", HAS_4_BYTES },
	[ROCE_RC_SEND_ONLY]		= { "SEND ONLY" },
	[ROCE_RC_SEND_ONLY_IMM]		= { "SEND ONLY IMM", HAS_4_BYTES },
	[ROCE_RC_WRITE_FIRST]		= { "WRITE FIRST", HAS_RETH },
	[ROCE_RC_WRITE_MIDDLE]		= { "WRITE MIDDLE" },
	[ROCE_RC_WRITE_LAST]		= { "WRITE LAST" },
	[ROCE_RC_WRITE_LAST_IMM]	= { "WRITE LAST IMM", HAS_4_BYTES },
	[ROCE_RC_WRITE_ONLY]		= { "WRITE ONLY", HAS_RETH },
	[ROCE_RC_WRITE_ONLY_IMM]	= { "WRITE ONLY IMM", HAS_RETH | HAS_4_BYTES },
	[ROCE_RC_READ_REQUEST]		= { "READ REQUEST", HAS_RETH },
	[ROCE_RC_READ_RESPONSE_FIRST]	= { "READ RESPONSE FIRST", HAS_AETH },
	[ROCE_RC_READ_RESPONSE_MIDDLE]	= { "READ RESPONSE MIDDLE" },
	[ROCE_RC_READ_RESPONSE_LAST]	= { "READ RESPONSE LAST", HAS_AETH },
	[ROCE_RC_READ_RESPONSE_ONLY]	= { "READ RESPONSE ONLY", HAS_AETH },
	[ROCE_RC_ACK]			= { "ACKNOWLEDGE", HAS_AETH },
	[ROCE_RC_ATOMIC_ACK]		= { "ATOMIC ACKNOWLEDGE", HAS_AETH | HAS_ATOMIC_ACK_ETH },
	[ROCE_RC_CMP_SWAP]		= { "CMP SWAP", HAS_ATOMIC_ETH },
	[ROCE_RC_FETCH_ADD]		= { "FETCH ADD", HAS_ATOMIC_ETH },
	[0x15]				= { "reserved", NO_OPCODE },
	[ROCE_RC_SEND_LAST_INV]		= { "SEND LAST INV", HAS_4_BYTES },
	[ROCE_RC_SEND_ONLY_INV]		= { "SEND ONLY INV", HAS_4_BYTES },
	[0x18 ... 0x1b]			= { "reserved", NO_OPCODE },
	[ROCE_RC_FLUSH]			= { "FLUSH", HAS_FETH | HAS_RETH },
	[ROCE_RC_ATOMIC_WRITE]		= { "ATOMIC WRITE", HAS_RETH },
	[0x1e ... 0x1f]			= { "reserved", NO_OPCODE },
};

static void set_number(const char *name, unsigned int value)
{
	char words[16];

	snprintf(words, sizeof(words), "%u", value);
	setenv(name, words, 1);
}

static const char *peer_netdev(void)
{
	return peer_link.vlan ? "raw_vlan" : "raw_end";
}

static void run(const char *commands, const char *what)
{
	if (system(commands))
		errx(1, "cannot %s; the commands were: %s", what, commands);
}

static void name_link(int netns)
{
	char namespace[64];

	/* Headers take up to 100 bytes. */
	set_number("mtu", peer_link.mtu > 1024 ? peer_link.mtu + 128 : 1500);
	set_number("vlan", peer_link.vlan);
	set_number("ipv6", peer_link.ipv6);
	set_number("burst", STALLED_BYTES);
	setenv("rxe", peer_link.vlan ? "rxe_vlan" : "rxe_end", 1);
	setenv("peer", peer_netdev(), 1);
	snprintf(namespace, sizeof(namespace), "/proc/%d/fd/%d", getpid(), netns);
	setenv("namespace", namespace, 1);
}

static int open_netns(void)
{
	int fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		err(1, "the network namespace (CONFIG_NET_NS is needed)");
	return fd;
}

static void enter_netns(int fd)
{
	if (setns(fd, CLONE_NEWNET))
		err(1, "entering a network namespace (run this as root)");
}

static __u16 ether_type(void)
{
	return peer_link.ipv6 ? ETH_P_IPV6 : ETH_P_IP;
}

static int open_raw_socket(void)
{
	struct sockaddr_ll here = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ether_type()),
		.sll_ifindex = if_nametoindex(peer_netdev()),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ether_type()));
	int burst = PEER_BURST;

	if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)))
		err(1, "a packet socket on the peer's end (CONFIG_PACKET is needed)");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &burst, sizeof(burst)))
		err(1, "a receive buffer of %d bytes", burst);
	rxe_lladdr = here;
	return fd;
}

void peer_open(void)
{
	int home = open_netns(), away;

	if (unshare(CLONE_NEWNET))
		err(1, "making a network namespace (run this as root)");
	away = open_netns();

	enter_netns(home);
	name_link(away);
	run(link_up, "make the veth pair of the test");

	enter_netns(away);
	run(peer_up, "bring up the peer's end of the veth pair");
	peer_socket = open_raw_socket();

	enter_netns(home);
	run(rxe_up, "make an rxe device on the veth pair (is rdma_rxe there?)");
	close(home);
	close(away);
}

static __u32 first_qpn, next_qpn;

void peer_forget_qpns(void)
{
	char byte;

	/* Or what a flood has brought leaves no room for answers. */
	while (recv(peer_socket, &byte, sizeof(byte), MSG_DONTWAIT) >= 0)
		;
	first_qpn = (getpid() & 0xffff) << 8;
	next_qpn = first_qpn;
}

__u32 peer_new_qpn(void)
{
	return next_qpn++;
}

static bool is_known_qpn(__u32 qpn)
{
	return qpn >= first_qpn && qpn < next_qpn;
}

static __u8 *put(__u8 *at, const void *header, size_t len)
{
	memcpy(at, header, len);
	return at + len;
}

static const __u8 *get(const __u8 *at, void *header, size_t len)
{
	memcpy(header, at, len);
	return at + len;
}

size_t headers_len(__u8 opcode)
{
	int headers = opcode < RC_OPCODES ? opcodes[opcode].headers : NO_OPCODE;

	if (headers & NO_OPCODE)
		return 0;
	return sizeof(struct roce_bth) +
	       (headers & HAS_FETH ? sizeof(struct roce_feth) : 0) +
	       (headers & HAS_RETH ? sizeof(struct roce_reth) : 0) +
	       (headers & HAS_ATOMIC_ETH ? sizeof(struct roce_atomic_eth) : 0) +
	       (headers & HAS_AETH ? sizeof(struct roce_aeth) : 0) +
	       (headers & HAS_ATOMIC_ACK_ETH ? sizeof(struct roce_atomic_ack_eth) : 0) +
	       (headers & HAS_4_BYTES ? 4 : 0);
}

void packet_to_frame(const struct packet *packet, struct frame *frame)
{
	int headers = opcodes[packet->opcode].headers;
	__u8 *at = frame->wire.roce;

	memset(frame, 0, sizeof(*frame));
	at = put(at, &(struct roce_bth) {
		.opcode = packet->opcode,
		.flags = packet->pad << ROCE_BTH_PAD_SHIFT,
		.pkey = htobe16(0xffff),
		.qpn = htobe32(packet->qpn),
		.apsn = htobe32(packet->psn | (packet->ack_req ? ROCE_BTH_ACK_REQ : 0)),
	}, sizeof(struct roce_bth));
	if (headers & HAS_FETH)
		at = put(at, &(struct roce_feth) {
			.sel_plt = htobe32(packet->placement),
		}, sizeof(struct roce_feth));
	if (headers & HAS_RETH)
		at = put(at, &(struct roce_reth) {
			.va = htobe64(packet->va),
			.rkey = htobe32(packet->rkey),
			.len = htobe32(packet->dmalen),
		}, sizeof(struct roce_reth));
	if (headers & HAS_ATOMIC_ETH)
		at = put(at, &(struct roce_atomic_eth) {
			.va = htobe64(packet->va),
			.rkey = htobe32(packet->rkey),
			.swap_or_add = htobe64(packet->swap_or_add),
			.compare = htobe64(packet->compare),
		}, sizeof(struct roce_atomic_eth));
	if (headers & HAS_AETH)
		at = put(at, &(struct roce_aeth) {
			.smsn = htobe32((__u32)packet->syndrome << 24 | packet->msn),
		}, sizeof(struct roce_aeth));
	if (headers & HAS_ATOMIC_ACK_ETH)
		at = put(at, &(struct roce_atomic_ack_eth) {
			.orig = htobe64(packet->orig),
		}, sizeof(struct roce_atomic_ack_eth));
	if (headers & HAS_4_BYTES)
		at += 4;
	at = put(at, packet->payload, packet->payload_len) + packet->pad;
	frame->len = at - frame->wire.roce;
}

bool frame_to_packet(const struct frame *frame, struct packet *packet)
{
	const __u8 *at = frame->wire.roce;
	size_t len = headers_len(frame->wire.bth.opcode);
	struct roce_atomic_ack_eth atomic_ack;
	struct roce_atomic_eth atomic;
	struct roce_aeth aeth;
	struct roce_feth feth;
	struct roce_reth reth;
	struct roce_bth bth;
	int headers;

	memset(packet, 0, sizeof(*packet));
	at = get(at, &bth, sizeof(bth));
	packet->opcode = bth.opcode;
	packet->pad = (bth.flags & ROCE_BTH_PAD_MASK) >> ROCE_BTH_PAD_SHIFT;
	packet->ack_req = be32toh(bth.apsn) & ROCE_BTH_ACK_REQ;
	packet->qpn = be32toh(bth.qpn) & ROCE_24BITS;
	packet->psn = be32toh(bth.apsn) & ROCE_24BITS;
	if (!len || frame->len < len + packet->pad)
		return false;

	headers = opcodes[packet->opcode].headers;
	if (headers & HAS_FETH) {
		at = get(at, &feth, sizeof(feth));
		packet->placement = be32toh(feth.sel_plt);
	}
	if (headers & HAS_RETH) {
		at = get(at, &reth, sizeof(reth));
		packet->va = be64toh(reth.va);
		packet->rkey = be32toh(reth.rkey);
		packet->dmalen = be32toh(reth.len);
	}
	if (headers & HAS_ATOMIC_ETH) {
		at = get(at, &atomic, sizeof(atomic));
		packet->va = be64toh(atomic.va);
		packet->rkey = be32toh(atomic.rkey);
		packet->swap_or_add = be64toh(atomic.swap_or_add);
		packet->compare = be64toh(atomic.compare);
	}
	if (headers & HAS_AETH) {
		at = get(at, &aeth, sizeof(aeth));
		packet->syndrome = be32toh(aeth.smsn) >> 24;
		packet->msn = be32toh(aeth.smsn) & ROCE_24BITS;
	}
	if (headers & HAS_ATOMIC_ACK_ETH) {
		at = get(at, &atomic_ack, sizeof(atomic_ack));
		packet->orig = be64toh(atomic_ack.orig);
	}
	packet->payload_len = frame->len - len - packet->pad;
	memcpy(packet->payload, frame->wire.roce + len, packet->payload_len);
	return true;
}

void peer_gid(__u32 addr, __u8 gid[16])
{
	static const __u8 v4_mapped[12] = { [10] = 0xff, 0xff };
	static const __u8 prefix[12] = { 0x20, 0x01, 0, 2 };

	addr = htonl(addr);
	memcpy(gid, peer_link.ipv6 ? prefix : v4_mapped, 12);
	memcpy(gid + 12, &addr, sizeof(addr));
}

/* A frame as it is on the link.  after_ip() says what follows the IP header. */
struct wire {
	struct ethhdr	eth;
	union {
		struct iphdr	v4;
		struct ipv6hdr	v6;
	};
	/* Room for the UDP header, all of struct frame's bytes, the ICRC, and IP options. */
	__u8		rest[sizeof(struct udphdr) + sizeof(((struct frame *)0)->wire) + 64];
} __attribute__((packed));

static size_t ip_header_len(void)
{
	return peer_link.ipv6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
}

static __u8 *after_ip(struct wire *wire)
{
	return (__u8 *)&wire->v4 + ip_header_len();
}

/*
 * From the IP header to the ICRC, which is not counted, if there are @len bytes after the UDP
 * header.
 */
static size_t ip_len(size_t len)
{
	return ip_header_len() + sizeof(struct udphdr) + len;
}

enum icrc peer_icrc(__u8 opcode)
{
	return peer_legacy_icrc && opcode == ROCE_RC_FLUSH ? ICRC_LEGACY : ICRC_CONFORMING;
}

static __u32 icrc_to_send(const struct frame *frame, const struct wire *wire)
{
	enum icrc icrc = frame->icrc;

	if (icrc == ICRC_OF_RUN)
		icrc = peer_icrc(frame->wire.bth.opcode);
	if (icrc == ICRC_LEGACY)
		return roce_icrc_legacy(&wire->v4, ip_len(frame->len));
	return roce_icrc(&wire->v4, ip_len(frame->len)) ^ (icrc == ICRC_WRONG);
}

static __u32 sum_words(const void *bytes, size_t len)
{
	__u32 sum = 0;
	__u16 word;
	size_t i;

	for (i = 0; i < len; i += sizeof(word)) {
		memcpy(&word, (const __u8 *)bytes + i, sizeof(word));
		sum += word;
	}
	return sum;
}

static __u16 checksum(const void *header, size_t header_len, const void *rest, size_t rest_len)
{
	__u32 sum = sum_words(header, header_len) + sum_words(rest, rest_len);

	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

static struct iphdr ipv4_header(size_t len, __u8 protocol, __u32 from, __u32 to)
{
	struct iphdr ip = {
		.version = 4,
		.ihl = sizeof(ip) / 4,
		.tot_len = htons(len),
		.frag_off = htons(0x4000),
		.ttl = 64,
		.protocol = protocol,
		.saddr = htonl(from),
		.daddr = htonl(to),
	};

	ip.check = checksum(&ip, sizeof(ip), NULL, 0);
	return ip;
}

static struct ipv6hdr ipv6_header(size_t len, __u8 protocol, __u32 from, __u32 to)
{
	struct ipv6hdr ip = {
		.version = 6,
		.payload_len = htons(len - sizeof(ip)),
		.nexthdr = protocol,
		.hop_limit = 64,
	};

	peer_gid(from, (__u8 *)&ip.saddr);
	peer_gid(to, (__u8 *)&ip.daddr);
	return ip;
}

/* @len: the bytes of the packet, from this header on. */
static void put_ip_header(void *at, size_t len, __u8 protocol, __u32 from, __u32 to)
{
	if (peer_link.ipv6) {
		const struct ipv6hdr ip = ipv6_header(len, protocol, from, to);

		memcpy(at, &ip, sizeof(ip));
	} else {
		const struct iphdr ip = ipv4_header(len, protocol, from, to);

		memcpy(at, &ip, sizeof(ip));
	}
}

static void fill_ethernet_header(struct wire *wire)
{
	memcpy(wire->eth.h_dest, rxe_mac, ETH_ALEN);
	memcpy(wire->eth.h_source, peer_mac, ETH_ALEN);
	wire->eth.h_proto = htons(ether_type());
}

static void fill_outer_headers(const struct frame *frame, struct wire *wire)
{
	size_t len = ip_len(frame->len) + ROCE_ICRC_BYTES;
	__u32 from = frame->source ? frame->source : PEER_ADDR;
	const struct udphdr udp = {
		.source = htons(0xc123),
		.dest = htons(ROCE_UDP_PORT),
		.len = frame->no_udp_len ? 0 : htons(len - ip_header_len()),
	};

	fill_ethernet_header(wire);
	put_ip_header(&wire->v4, len, IPPROTO_UDP, from, RXE_ADDR);
	memcpy(after_ip(wire), &udp, sizeof(udp));
}

/* Between the IPv4 header and what is after it, to the end of the frame: its new length. */
static size_t insert_options(struct wire *wire, size_t len)
{
	static const __u8 nothing[] = { IPOPT_NOOP, IPOPT_NOOP, IPOPT_NOOP, IPOPT_END };
	__u8 *at = (__u8 *)(&wire->v4 + 1);
	struct iphdr ip = wire->v4;

	memmove(at + sizeof(nothing), at, (__u8 *)wire + len - at);
	memcpy(at, nothing, sizeof(nothing));
	ip.ihl += sizeof(nothing) / 4;
	ip.tot_len = htons(ntohs(ip.tot_len) + sizeof(nothing));
	ip.check = 0;
	ip.check = checksum(&ip, sizeof(ip), nothing, sizeof(nothing));
	wire->v4 = ip;
	return len + sizeof(nothing);
}

long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static void send_wire(const struct wire *wire, size_t len)
{
	const long long deadline = now_ms() + ANSWER_MS * wait_scale();

	/* ENOBUFS: the kernel's end is busy with what came before */
	while (sendto(peer_socket, wire, len, 0, (struct sockaddr *)&rxe_lladdr,
		      sizeof(rxe_lladdr)) != (ssize_t)len)
		if (errno != ENOBUFS || now_ms() > deadline)
			err(1, "sending on the peer's end");
}

void peer_send_frame(struct frame *frame)
{
	size_t len = ETH_HLEN + ip_len(frame->len) + ROCE_ICRC_BYTES;
	struct wire wire;

	fill_outer_headers(frame, &wire);
	memcpy(after_ip(&wire) + sizeof(struct udphdr), frame->wire.roce, frame->len);
	roce_icrc_put(&wire.v4, ip_len(frame->len), icrc_to_send(frame, &wire));
	if (frame->options && !peer_link.ipv6)
		len = insert_options(&wire, len);
	send_wire(&wire, len);
}

void peer_send(const struct packet *packet)
{
	struct frame frame;

	packet_to_frame(packet, &frame);
	peer_send_frame(&frame);
}

/* What the kernel believes. */
static int mtu_to_peer(void)
{
	const struct sockaddr_in v4 = {
		.sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT),
		.sin_addr.s_addr = htonl(PEER_ADDR),
	};
	struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT) };
	int fd = socket(peer_link.ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM, 0), mtu, failed;
	socklen_t len = sizeof(mtu);

	peer_gid(PEER_ADDR, v6.sin6_addr.s6_addr);
	if (peer_link.ipv6)
		failed = connect(fd, (const struct sockaddr *)&v6, sizeof(v6)) ||
			 getsockopt(fd, IPPROTO_IPV6, IPV6_MTU, &mtu, &len);
	else
		failed = connect(fd, (const struct sockaddr *)&v4, sizeof(v4)) ||
			 getsockopt(fd, IPPROTO_IP, IP_MTU, &mtu, &len);
	if (failed)
		err(1, "asking for the MTU");
	close(fd);
	return mtu;
}

void peer_claim_least_mtu(void)
{
	const long long deadline = now_ms() + ANSWER_MS * wait_scale();
	const __u8 protocol = peer_link.ipv6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP;
	struct {
		__u8 type, code;
		__u16 check;
		__be32 mtu;
		__u8 about[sizeof(struct ipv6hdr) + 8];
	} message = { .mtu = htonl(LEAST_MTU) };
	const size_t message_len = offsetof(typeof(message), about) + ip_header_len() + 8;
	const size_t len = ip_header_len() + message_len;
	struct {
		struct in6_addr from, to;
		__be32 len, protocol;
	} pseudo = { .len = htonl(message_len), .protocol = htonl(protocol) };
	struct wire wire;

	/* It quotes the start of an echo reply. */
	put_ip_header(message.about, LEAST_MTU + 8, protocol, RXE_ADDR, PEER_ADDR);
	if (peer_link.ipv6) {
		message.type = ICMPV6_PKT_TOOBIG;
		message.about[ip_header_len()] = ICMPV6_ECHO_REPLY;
		peer_gid(PEER_ADDR, pseudo.from.s6_addr);
		peer_gid(RXE_ADDR, pseudo.to.s6_addr);
	} else {
		/* Fragmentation needed and DF set, RFC 792.  The type of an echo reply is 0. */
		message.type = 3;
		message.code = 4;
	}
	message.check = checksum(&pseudo, peer_link.ipv6 ? sizeof(pseudo) : 0,
				 &message, message_len);
	fill_ethernet_header(&wire);
	put_ip_header(&wire.v4, len, protocol, PEER_ADDR, RXE_ADDR);
	memcpy(after_ip(&wire), &message, message_len);
	send_wire(&wire, ETH_HLEN + len);
	while (mtu_to_peer() != LEAST_MTU)
		if (now_ms() > deadline)
			errx(1, "the kernel has not taken the MTU that ICMP has claimed");
}

void peer_forget_mtu(void)
{
	run(forget_mtu, "have the kernel forget what ICMP told it");
}

void peer_stall_link(void)
{
	run(stall, "stall the veth pair (CONFIG_NET_SCH_TBF is needed)");
}

void peer_choke_link(void)
{
	run(choke, "choke the veth pair");
}

void peer_lose_all(void)
{
	run(loss, "lose all on the veth pair (CONFIG_NET_SCH_NETEM is needed)");
}

void peer_end_stall(void)
{
	run(end_stall, "end the stall of the veth pair");
}

void peer_cut_route(void)
{
	run(no_route, "leave the kernel without a route to the peer");
}

void peer_restore_route(void)
{
	run(end_no_route, "give the kernel its route to the peer again");
}

void peer_add_far_route(void)
{
	run(far_route, "make the peer a router");
}

void peer_end_far_route(void)
{
	run(end_far_route, "end that the peer is a router");
}

unsigned int wait_scale(void)
{
	const char *scale = getenv("KSFT_TIMEOUT_SCALE");

	return scale && atoi(scale) > 0 ? atoi(scale) : 1;
}

static enum icrc icrc_received(const struct frame *frame, const struct wire *wire)
{
	size_t len = ip_len(frame->len);
	__u32 icrc = roce_icrc_get(&wire->v4, len);

	if (icrc == roce_icrc(&wire->v4, len))
		return ICRC_CONFORMING;
	if (icrc == roce_icrc_legacy(&wire->v4, len))
		return ICRC_LEGACY;
	return ICRC_WRONG;
}

static bool is_udp(const struct wire *wire)
{
	if (peer_link.ipv6)
		return wire->v6.nexthdr == IPPROTO_UDP;
	return wire->v4.ihl == sizeof(wire->v4) / 4 && wire->v4.protocol == IPPROTO_UDP;
}

/* The last bytes of the address. */
static __u32 source_received(const struct wire *wire)
{
	return ntohl(peer_link.ipv6 ? wire->v6.saddr.s6_addr32[3] : wire->v4.saddr);
}

/* Is what the socket gave a frame for this test? */
static bool accept_frame(struct wire *wire, ssize_t len, struct frame *frame)
{
	const size_t outer = ETH_HLEN + ip_header_len() + sizeof(struct udphdr);
	struct udphdr udp;

	if (len < (ssize_t)(outer + sizeof(struct roce_bth) + ROCE_ICRC_BYTES) || !is_udp(wire))
		return false;
	memcpy(&udp, after_ip(wire), sizeof(udp));
	if (udp.dest != htons(ROCE_UDP_PORT) ||
	    ntohs(udp.len) + ETH_HLEN + ip_header_len() != (size_t)len)
		return false;
	frame->len = len - outer - ROCE_ICRC_BYTES;
	frame->source = source_received(wire);
	frame->options = false;
	memcpy(frame->wire.roce, after_ip(wire) + sizeof(udp), frame->len);
	frame->icrc = icrc_received(frame, wire);
	return is_known_qpn(be32toh(frame->wire.bth.qpn) & ROCE_24BITS);
}

bool peer_recv_frame(struct frame *frame, unsigned int ms)
{
	long long deadline = now_ms() + (long long)ms * wait_scale(), left;
	struct pollfd poll_socket = { .fd = peer_socket, .events = POLLIN };
	struct wire wire;
	ssize_t len;

	do {
		len = recv(peer_socket, &wire, sizeof(wire), MSG_DONTWAIT);
		if (len >= 0 && accept_frame(&wire, len, frame))
			return true;
		if (len < 0 && errno != EAGAIN)
			err(1, "receiving on the peer's end");
		left = deadline - now_ms();
		if (len < 0 && left > 0)
			poll(&poll_socket, 1, left);
	} while (len >= 0 || left > 0);
	return false;
}

static const char *syndrome_in_words(__u8 syndrome)
{
	static char other[16];

	switch (syndrome) {
	case ROCE_AETH_NAK_PSN:
		return "NAK PSN SEQUENCE";
	case ROCE_AETH_NAK_INVALID:
		return "NAK INVALID REQUEST";
	case ROCE_AETH_NAK_ACCESS:
		return "NAK REMOTE ACCESS";
	case ROCE_AETH_NAK_OPERATION:
		return "NAK REMOTE OPERATION";
	}
	if ((syndrome & ROCE_AETH_KIND_MASK) == ROCE_AETH_ACK)
		return "ACK";
	if ((syndrome & ROCE_AETH_KIND_MASK) == ROCE_AETH_RNR_NAK)
		return "RNR NAK";
	snprintf(other, sizeof(other), "syndrome 0x%02x", syndrome);
	return other;
}

const char *packet_in_words(const struct packet *packet, char words[WORDS_LEN])
{
	int headers = packet->opcode < RC_OPCODES ? opcodes[packet->opcode].headers : NO_OPCODE;
	int n;

	n = snprintf(words, WORDS_LEN, "%s to QP %06x psn %06x",
		     headers == NO_OPCODE ? "reserved opcode" : opcodes[packet->opcode].name,
		     packet->qpn, packet->psn);
	if (headers & HAS_AETH)
		n += snprintf(words + n, WORDS_LEN - n, " %s msn %u",
			      syndrome_in_words(packet->syndrome), packet->msn);
	if (headers & HAS_ATOMIC_ACK_ETH)
		n += snprintf(words + n, WORDS_LEN - n, " old value %016llx",
			      (unsigned long long)packet->orig);
	snprintf(words + n, WORDS_LEN - n, " payload %zu pad %u%s", packet->payload_len,
		 packet->pad, packet->ack_req ? " ack wanted" : "");
	return words;
}
