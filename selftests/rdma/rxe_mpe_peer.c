// SPDX-License-Identifier: GPL-2.0
/* The raw end of the link, see rxe_mpe_peer.h. */
#include <arpa/inet.h>
#include <endian.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "rxe_mpe_peer.h"

#define RXE_NETDEV	"rxe_end"
#define PEER_NETDEV	"raw_end"

static const __u8 rxe_mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 1 };
static const __u8 peer_mac[ETH_ALEN] = { 2, 0, 0, 0, 0, 2 };

/*
 * Receive packet steering towards one CPU keeps the frames of each direction in the order in which
 * they were sent, whichever CPUs sent them; only so "the next answer" means something.
 */
static const char link_up[] =
	"ip link add " RXE_NETDEV " address 02:00:00:00:00:01 type veth peer"
	" name " PEER_NETDEV " address 02:00:00:00:00:02 &&"
	" for dev in " RXE_NETDEV " " PEER_NETDEV "; do"
	" echo 1 >/sys/class/net/$dev/queues/rx-0/rps_cpus || exit; done &&"
	" ip link set " PEER_NETDEV " netns /proc/%d/fd/%d &&"
	" ip addr add 198.18.0.1/30 dev " RXE_NETDEV " &&"
	" ip neigh add 198.18.0.2 lladdr 02:00:00:00:00:02 dev " RXE_NETDEV " nud permanent &&"
	" ip link set " RXE_NETDEV " up";

static const char peer_up[] = "ip link set " PEER_NETDEV " up";

static const char rxe_up[] = "rdma link add " RXE_DEVICE " type rxe netdev " RXE_NETDEV;

/* So slow that nothing passes within a case but what the burst allows. */
static const char stall[] = "tc qdisc replace dev " RXE_NETDEV " root tbf rate 80bit limit 64mb burst %u";
static const char choke[] = "tc qdisc replace dev " RXE_NETDEV " root pfifo limit 0";
static const char end_stall[] = "tc qdisc replace dev " RXE_NETDEV " root noqueue";

/* What the kernel sends at once, 129 packets of a QP for example, waits here: more than its backlog may hold. */
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

static void run(const char *commands, const char *what)
{
	if (system(commands))
		errx(1, "cannot %s; the commands were: %s", what, commands);
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

static int open_raw_socket(void)
{
	struct sockaddr_ll here = {
		.sll_family = AF_PACKET,
		.sll_protocol = htons(ETH_P_IP),
		.sll_ifindex = if_nametoindex(PEER_NETDEV),
	};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));
	int burst = PEER_BURST;

	if (fd < 0 || bind(fd, (struct sockaddr *)&here, sizeof(here)))
		err(1, "a packet socket on " PEER_NETDEV " (CONFIG_PACKET is needed)");
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &burst, sizeof(burst)))
		err(1, "a receive buffer of %d bytes", burst);
	rxe_lladdr = here;
	return fd;
}

void peer_open(void)
{
	char commands[sizeof(link_up) + 32];
	int home = open_netns(), away;

	if (unshare(CLONE_NEWNET))
		err(1, "making a network namespace (run this as root)");
	away = open_netns();

	enter_netns(home);
	snprintf(commands, sizeof(commands), link_up, getpid(), away);
	run(commands, "make the veth pair of the test");

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
	first_qpn = next_qpn = (getpid() & 0xffff) << 8;
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

static size_t ip_len(const struct frame *frame)
{
	return sizeof(frame->wire.ip) + sizeof(frame->wire.udp) + frame->len;
}

enum icrc peer_icrc(__u8 opcode)
{
	return peer_legacy_icrc && opcode == ROCE_RC_FLUSH ? ICRC_LEGACY : ICRC_CONFORMING;
}

static __u32 icrc_to_send(const struct frame *frame)
{
	enum icrc icrc = frame->icrc;

	if (icrc == ICRC_OF_RUN)
		icrc = peer_icrc(frame->wire.bth.opcode);
	if (icrc == ICRC_LEGACY)
		return roce_icrc_legacy(&frame->wire.ip, ip_len(frame));
	return roce_icrc(&frame->wire.ip, ip_len(frame)) ^ (icrc == ICRC_WRONG);
}

static __u16 ip_checksum(const struct frame *frame)
{
	__u16 words[sizeof(struct iphdr) / sizeof(__u16)];
	__u32 sum = 0;
	size_t i;

	memcpy(words, &frame->wire.ip, sizeof(words));
	for (i = 0; i < sizeof(words) / sizeof(*words); i++)
		sum += words[i];
	sum = (sum & 0xffff) + (sum >> 16);
	return ~(sum + (sum >> 16));
}

/* A case may have set the source address. */
static void fill_outer_headers(struct frame *frame)
{
	size_t len = ip_len(frame) + ROCE_ICRC_BYTES;
	__u32 from = frame->wire.ip.saddr;

	memcpy(frame->wire.eth.h_dest, rxe_mac, ETH_ALEN);
	memcpy(frame->wire.eth.h_source, peer_mac, ETH_ALEN);
	frame->wire.eth.h_proto = htons(ETH_P_IP);
	frame->wire.ip = (struct iphdr) {
		.version = 4,
		.ihl = sizeof(struct iphdr) / 4,
		.tot_len = htons(len),
		.frag_off = htons(0x4000),
		.ttl = 64,
		.protocol = IPPROTO_UDP,
		.saddr = from ? from : htonl(PEER_ADDR),
		.daddr = htonl(RXE_ADDR),
	};
	frame->wire.ip.check = ip_checksum(frame);
	frame->wire.udp = (struct udphdr) {
		.source = htons(0xc123),
		.dest = htons(ROCE_UDP_PORT),
		.len = htons(len - sizeof(struct iphdr)),
	};
}

void peer_send_frame(struct frame *frame)
{
	size_t len = ETH_HLEN + ip_len(frame) + ROCE_ICRC_BYTES;

	fill_outer_headers(frame);
	roce_icrc_put(&frame->wire.ip, ip_len(frame), icrc_to_send(frame));
	if (sendto(peer_socket, &frame->wire, len, 0, (struct sockaddr *)&rxe_lladdr,
		   sizeof(rxe_lladdr)) != (ssize_t)len)
		err(1, "sending on " PEER_NETDEV);
}

void peer_send(const struct packet *packet)
{
	struct frame frame;

	packet_to_frame(packet, &frame);
	peer_send_frame(&frame);
}

void peer_stall_link(void)
{
	char commands[sizeof(stall) + 16];

	snprintf(commands, sizeof(commands), stall, STALLED_BYTES);
	run(commands, "stall the veth pair (CONFIG_NET_SCH_TBF is needed)");
}

void peer_choke_link(void)
{
	run(choke, "choke the veth pair");
}

void peer_end_stall(void)
{
	run(end_stall, "end the stall of the veth pair");
}

unsigned int wait_scale(void)
{
	const char *scale = getenv("KSFT_TIMEOUT_SCALE");

	return scale && atoi(scale) > 0 ? atoi(scale) : 1;
}

static long long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

static enum icrc icrc_received(const struct frame *frame)
{
	__u32 icrc = roce_icrc_get(&frame->wire.ip, ip_len(frame));

	if (icrc == roce_icrc(&frame->wire.ip, ip_len(frame)))
		return ICRC_CONFORMING;
	if (icrc == roce_icrc_legacy(&frame->wire.ip, ip_len(frame)))
		return ICRC_LEGACY;
	return ICRC_WRONG;
}

/* Is what the socket gave a frame for this test? */
static bool accept_frame(struct frame *frame, ssize_t len)
{
	const size_t outer = offsetof(struct frame, wire.roce) - offsetof(struct frame, wire);
	size_t udp_len;

	if (len < (ssize_t)(outer + sizeof(struct roce_bth) + ROCE_ICRC_BYTES) ||
	    frame->wire.ip.ihl != sizeof(struct iphdr) / 4 ||
	    frame->wire.ip.protocol != IPPROTO_UDP ||
	    frame->wire.udp.dest != htons(ROCE_UDP_PORT))
		return false;
	udp_len = ntohs(frame->wire.udp.len);
	if (udp_len + ETH_HLEN + sizeof(struct iphdr) != (size_t)len)
		return false;
	frame->len = udp_len - sizeof(struct udphdr) - ROCE_ICRC_BYTES;
	frame->icrc = icrc_received(frame);
	return is_known_qpn(be32toh(frame->wire.bth.qpn) & ROCE_24BITS);
}

bool peer_recv_frame(struct frame *frame, unsigned int ms)
{
	long long deadline = now_ms() + (long long)ms * wait_scale(), left;
	struct pollfd poll_socket = { .fd = peer_socket, .events = POLLIN };
	ssize_t len;

	do {
		len = recv(peer_socket, &frame->wire, sizeof(frame->wire), MSG_DONTWAIT);
		if (len >= 0 && accept_frame(frame, len))
			return true;
		if (len < 0 && errno != EAGAIN)
			err(1, "receiving on " PEER_NETDEV);
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
