// SPDX-License-Identifier: GPL-2.0
/*
 * Random packets and random WQEs for rxe, made of valid ones.
 *
 *	fuzz packets COUNT SEED		what the raw peer (rxe_peer.h) sends: requests and answers
 *	fuzz wqes COUNT SEED		what is in the send ring (rxe_send_ring.h) of a QP
 *	fuzz ... COUNT SEED on-demand	the same, with a region that the driver pages on demand, and whose
 *					pages are taken away from it now and then; status 4 without such
 *
 * FLUSH and ATOMIC WRITE are mixed with all else.  A QP in error is made anew.
 * What must hold whatever comes:
 *  - memory outside the region stays as it is, and never turns up in a packet;
 *  - nor does what is beside a WQE in the ring;
 *  - what the kernel sends is well-formed and has a right ICRC;
 *  - a fresh QP is served.
 * The kernel's console shows whether the kernel is in trouble: rxe-vm looks at it.
 *
 * Which numbers are drawn depends on the seed alone.  What they do may depend on the time that the
 * kernel takes for it.
 */
#include <err.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rxe_peer.h"
#include "prng.h"
#include "rxe_end.h"
#include "rxe_send_ring.h"

/* What is outside the region; nothing else writes so many of it in a row. */
#define CANARY		0xc3
#define INSIDE		0x11	/* what is written and sent otherwise */
#define LEAK		8	/* bytes in a row */

#define REGION_OFFSET	(PAGE + 24)
#define REGION_LEN	(PAGE + 100)
#define INLINE_BYTES	64
#define ALL_ATTRIBUTES	(IBV_QP_DEST_QPN * 2 - 1)

/* Until a QP is made anew in any case; hostile WQEs soon wait for answers that never come. */
#define PACKETS_PER_QP	64
#define WQES_PER_QP	8
#define PER_CHECK	1024

struct fuzz {
	struct rxe_end end;
	struct ibv_mr *mr;
	struct prng prng;
	struct rxe_qp qp;
	struct send_ring ring;
	struct ibv_qp_attr attr;	/* of a QP that is ready */
	struct packet last;		/* the last request from the QP */
	bool on_demand;
	__u64 done, errors, answers, qps;
};

static struct fuzz fuzz;

static __u32 draw(__u32 n)
{
	return prng_below(&fuzz.prng, n);
}

static bool once_in(__u32 n)
{
	return prng_once_in(&fuzz.prng, n);
}

/* Numbers at which programs break. */
static __u32 draw_edge(void)
{
	const __u32 edges[] = {
		0, 1, 2, 3, 4, 7, 8, 9, 12, 15, 16, 17, 31, 32, 63, 64, 65, 255, 256, MTU - 1, MTU,
		MTU + 1, 2 * MTU, PAGE - 1, PAGE, REGION_LEN - 1, REGION_LEN, REGION_LEN + 1,
		0xffff, 0x10000, 0xffffff, 0x1000000, 0x7fffffff, 0x80000000, 0x80000001,
		0xfffffff8, 0xffffffff,
	};

	return once_in(4) ? prng_next(&fuzz.prng) : edges[draw(sizeof(edges) / sizeof(*edges))];
}

/* Mostly in the region or at its edges. */
static __u64 draw_va(void)
{
	__u64 start = (uintptr_t)fuzz.end.memory + REGION_OFFSET;

	switch (draw(8)) {
	case 0:
		return start - 8 + draw(16);
	case 1:
		return start + REGION_LEN - 8 + draw(16);
	case 2:
		return (__u64)draw_edge() << 32 | draw_edge();
	default:
		return start + draw(REGION_LEN / 8 - 8) * 8;
	}
}

/* ---- The QP under test ---- */

static void modify(struct ibv_qp_attr attr, enum ibv_qp_state state, int mask)
{
	attr.qp_state = state;
	errno = ibv_modify_qp(fuzz.qp.qp, &attr, mask | IBV_QP_STATE);
	if (errno)
		err(1, "a queue pair to state %d", state);
}

static void make_qp(void)
{
	struct ibv_qp_init_attr init;

	if (fuzz.qp.qp && ibv_destroy_qp(fuzz.qp.qp))
		err(1, "destroying a queue pair");
	rxe_make_qp(&fuzz.end, &RXE_QP_DEFAULT, &fuzz.qp);
	if (ibv_query_qp(fuzz.qp.qp, &fuzz.attr, ALL_ATTRIBUTES, &init))
		err(1, "querying a queue pair");
	send_ring_open(&fuzz.ring);
}

/* Faster than to make one. */
static void revive_qp(void)
{
	struct ibv_wc wc;

	modify(fuzz.attr, IBV_QPS_RESET, 0);
	modify(fuzz.attr, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS);
	modify(fuzz.attr, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
	       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(fuzz.attr, IBV_QPS_RTS, IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
	       IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	while (ibv_poll_cq(fuzz.end.cq, 1, &wc))
		;
	fuzz.last = (struct packet) { .psn = fuzz.attr.sq_psn };
	fuzz.qps++;
}

/* Have a QP that is fit for more and was used less than @most times: the PSN that it expects. */
static __u32 ready_qp(unsigned int most)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	if (ibv_query_qp(fuzz.qp.qp, &attr, IBV_QP_STATE | IBV_QP_RQ_PSN, &init))
		err(1, "querying a queue pair");
	if (attr.qp_state == IBV_QPS_RTS && fuzz.done % most)
		return attr.rq_psn;
	fuzz.errors += attr.qp_state != IBV_QPS_RTS;
	revive_qp();
	return fuzz.attr.rq_psn;
}

/* ---- What must hold ---- */

static void check_memory(void)
{
	size_t i;

	for (i = 0; i < MEMORY_LEN; i++) {
		if (i == REGION_OFFSET)
			i += REGION_LEN;
		if (fuzz.end.memory[i] != CANARY)
			errx(1, "byte %zu, outside the region from %lu to %lu, was changed", i,
			     REGION_OFFSET, REGION_OFFSET + REGION_LEN - 1);
	}
}

static void check_no_leak(const __u8 *bytes, size_t len, __u8 secret, const char *what)
{
	size_t i, n = 0;

	for (i = 0; i < len; i++) {
		n = bytes[i] == secret ? n + 1 : 0;
		if (n == LEAK)
			errx(1, "a packet holds %s, in its payload of %zu bytes", what, len);
	}
}

static void check_frame(const struct frame *frame, struct packet *packet)
{
	/* The peer may have sent a FLUSH as Linux 6.2 to 7.3 does, or not answered one: so it is answered alike. */
	if (frame->icrc != ICRC_CONFORMING &&
	    !(frame->icrc == ICRC_LEGACY && frame->wire.bth.opcode == ROCE_RC_FLUSH))
		errx(1, "the ICRC of a packet with opcode 0x%02x is wrong", frame->wire.bth.opcode);
	if (!frame_to_packet(frame, packet))
		errx(1, "a packet with opcode 0x%02x has only %zu bytes", frame->wire.bth.opcode,
		     frame->len);
	check_no_leak(packet->payload, packet->payload_len, CANARY, "memory outside the region");
	check_no_leak(packet->payload, packet->payload_len, RING_PATTERN, "the ring beside a WQE");
}

/* Take in what the kernel has sent so far, or sends within @ms milliseconds; its last request is kept. */
static void listen_to_kernel(unsigned int ms)
{
	struct packet packet;
	struct frame frame;

	for (; peer_recv_frame(&frame, ms); ms = 0) {
		check_frame(&frame, &packet);
		fuzz.answers++;
		if (packet.opcode <= ROCE_RC_READ_REQUEST || packet.opcode > ROCE_RC_ATOMIC_ACK)
			fuzz.last = packet;
	}
}

static void expect_answer(const struct packet *rq, __u8 syndrome)
{
	struct packet answer;
	struct frame frame;

	do {
		if (!peer_recv_frame(&frame, ANSWER_MS))
			errx(1, "a fresh QP is not served");
		check_frame(&frame, &answer);
	} while (frame.wire.bth.qpn != htobe32(fuzz.qp.peer_qpn) || answer.psn != rq->psn);
	if (answer.opcode != ROCE_RC_READ_RESPONSE_ONLY || (answer.syndrome & 0xe0) != syndrome)
		errx(1, "a fresh QP answers with opcode 0x%02x, syndrome 0x%02x", answer.opcode,
		     answer.syndrome);
}

/* A sound FLUSH and ATOMIC WRITE for a fresh QP. */
static void check_service(void)
{
	static const __u64 value = 0x1111111111111111;
	struct packet rq = {
		.opcode = ROCE_RC_FLUSH, .ack_req = true, .placement = ROCE_FETH_PLT_GLOBAL,
		.va = (uintptr_t)fuzz.end.memory + REGION_OFFSET, .rkey = fuzz.mr->rkey,
		.dmalen = 8,
	};

	make_qp();
	rq.qpn = fuzz.qp.qp->qp_num;
	rq.psn = fuzz.attr.rq_psn;
	peer_send(&rq);
	expect_answer(&rq, ROCE_AETH_ACK);

	memset(fuzz.end.memory + REGION_OFFSET, 0, sizeof(value));
	rq.opcode = ROCE_RC_ATOMIC_WRITE;
	rq.psn = psn_add(rq.psn, 1);
	rq.payload_len = sizeof(value);
	memcpy(rq.payload, &value, sizeof(value));
	peer_send(&rq);
	expect_answer(&rq, ROCE_AETH_ACK);
	if (memcmp(fuzz.end.memory + REGION_OFFSET, &value, sizeof(value)))
		errx(1, "an ATOMIC WRITE to a fresh QP was answered, but not executed");
}

/* ---- Work requests, as libibverbs builds them ---- */

static void build_wr(void)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(fuzz.qp.qp);
	static const __u64 value = 0x1111111111111111;
	static __u8 data[INLINE_BYTES];
	__u32 kind = draw(8), len = 1 + draw(2 * MTU), rkey = 0x1234;
	__u64 va = draw_va() & ~7ull;

	memset(data, INSIDE, sizeof(data));
	qpx->wr_flags = once_in(16) ? IBV_SEND_SIGNALED | IBV_SEND_FENCE : IBV_SEND_SIGNALED;
	switch (kind) {
	case 0:
		ibv_wr_flush(qpx, rkey, va, len, 1 + draw(3), draw(2));
		return;
	case 1:
		ibv_wr_atomic_write(qpx, rkey, va, &value);
		return;
	case 2:
		ibv_wr_rdma_write(qpx, rkey, va);
		ibv_wr_set_inline_data(qpx, data, 1 + draw(sizeof(data)));
		return;
	case 3:
		ibv_wr_rdma_write(qpx, rkey, va);
		break;
	case 4:
		ibv_wr_rdma_read(qpx, rkey, va);
		break;
	case 5:
		ibv_wr_atomic_fetch_add(qpx, rkey, va, 1);
		len = 8;
		break;
	case 6:
		ibv_wr_atomic_cmp_swp(qpx, rkey, va, 1, 2);
		len = 8;
		break;
	default:
		ibv_wr_send(qpx);
	}
	ibv_wr_set_sge(qpx, fuzz.mr->lkey, (uintptr_t)fuzz.end.memory + REGION_OFFSET, len);
}

static bool post_wr(void (*spoil)(struct rxe_send_wqe *wqe))
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(fuzz.qp.qp);
	struct rxe_send_wqe *wqe;
	struct ibv_wc wc;

	while (ibv_poll_cq(fuzz.end.cq, 1, &wc))
		;
	ibv_wr_start(qpx);
	wqe = send_ring_next(&fuzz.ring);
	memset(wqe, INSIDE, sizeof(*wqe) + INLINE_BYTES);
	build_wr();
	if (spoil)
		spoil(wqe);
	return !ibv_wr_complete(qpx);
}

/* ---- Answers to the kernel's requests ---- */

static struct packet answer_to(const struct packet *rq)
{
	static __u32 msn;
	struct packet answer = {
		.opcode = ROCE_RC_ACK, .qpn = fuzz.qp.qp->qp_num, .psn = rq->psn,
		.syndrome = 0x1f, .msn = ++msn & ROCE_24BITS,
	};

	switch (rq->opcode) {
	case ROCE_RC_FLUSH:
	case ROCE_RC_ATOMIC_WRITE:
		answer.opcode = ROCE_RC_READ_RESPONSE_ONLY;
		break;
	case ROCE_RC_READ_REQUEST:
		answer.opcode = ROCE_RC_READ_RESPONSE_ONLY;
		answer.payload_len = rq->dmalen <= peer_link.mtu ? rq->dmalen & ~3u : peer_link.mtu;
		break;
	case ROCE_RC_FETCH_ADD:
	case ROCE_RC_CMP_SWAP:
		answer.opcode = ROCE_RC_ATOMIC_ACK;
	}
	memset(answer.payload, INSIDE, sizeof(answer.payload));
	return answer;
}

/* ---- Packets ---- */

static struct packet draw_request(__u32 psn)
{
	static const __u8 opcodes[] = {
		ROCE_RC_FLUSH, ROCE_RC_FLUSH, ROCE_RC_FLUSH, ROCE_RC_ATOMIC_WRITE,
		ROCE_RC_ATOMIC_WRITE, ROCE_RC_ATOMIC_WRITE, ROCE_RC_WRITE_ONLY,
		ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_MIDDLE,
		ROCE_RC_WRITE_LAST, ROCE_RC_WRITE_ONLY, ROCE_RC_READ_REQUEST, ROCE_RC_FETCH_ADD,
		ROCE_RC_CMP_SWAP, ROCE_RC_SEND_ONLY, ROCE_RC_SEND_ONLY_INV,
	};
	/* Somewhere in the region, or across one of its ends. */
	__u64 start = (uintptr_t)fuzz.end.memory + REGION_OFFSET;
	__u64 va = once_in(4) ? start + REGION_LEN - draw(32) :
		   once_in(16) ? start - draw(8) : start + draw(64) * 8;
	__u32 len = 1 + draw(once_in(2) ? 16 : 512);
	struct packet rq = {
		.opcode = opcodes[draw(sizeof(opcodes))], .qpn = fuzz.qp.qp->qp_num, .psn = psn,
		.ack_req = true, .placement = ROCE_FETH_PLT_GLOBAL, .rkey = fuzz.mr->rkey,
		.va = va, .dmalen = len, .swap_or_add = 1, .compare = draw(2),
	};

	switch (rq.opcode) {
	case ROCE_RC_FLUSH:
		rq.placement |= once_in(4) ? ROCE_FETH_SEL_MR : 0;
		break;
	case ROCE_RC_ATOMIC_WRITE:
		rq.dmalen = rq.payload_len = 8;
		break;
	case ROCE_RC_WRITE_FIRST:
		rq.dmalen = MTU + 1 + draw(MTU);
		rq.payload_len = MTU;
		break;
	case ROCE_RC_WRITE_MIDDLE:
		rq.payload_len = MTU;
		break;
	case ROCE_RC_WRITE_ONLY:
	case ROCE_RC_WRITE_LAST:
		rq.payload_len = rq.dmalen;
		rq.pad = -rq.dmalen & 3;
	}
	memset(rq.payload, INSIDE, sizeof(rq.payload));
	return rq;
}

/* Change one thing; what follows the fields is changed later, in the frame. */
static void mutate_packet(struct packet *packet)
{
	switch (draw(12)) {
	case 0:
		packet->va = draw_va();
		break;
	case 1:
		packet->dmalen = draw_edge();
		break;
	case 2:
		packet->placement = once_in(2) ? draw(256) : draw_edge();
		break;
	case 3:
		packet->payload_len = draw(once_in(2) ? 32 : MTU + 64);
		break;
	case 4:
		packet->pad = draw(4);
		break;
	case 5:
		packet->psn = psn_add(packet->psn, (int)draw(40) - 20);
		break;
	case 6:
		packet->psn = draw_edge() & ROCE_24BITS;
		break;
	case 7:
		packet->rkey = once_in(2) ? packet->rkey ^ 1u << draw(32) : draw_edge();
		break;
	case 8:
		packet->opcode = draw(0x20);
		break;
	case 9:
		packet->syndrome = draw(256);
		break;
	case 10:
		packet->ack_req = false;
		break;
	default:
		packet->swap_or_add = draw_edge();
		packet->orig = draw_edge();
	}
}

static void mutate_frame(struct frame *frame)
{
	switch (draw(6)) {
	case 0:
		frame->wire.roce[draw(frame->len)] ^= 1 << draw(8);
		break;
	case 1:
		frame->wire.roce[draw(frame->len)] = draw(256);
		break;
	case 2:
		frame->len = draw(frame->len + 1);
		break;
	case 3:
		frame->len += draw(64);
		break;
	case 4:
		frame->wire.bth.opcode = draw(256);
		break;
	default:
		frame->icrc = once_in(2) ? ICRC_WRONG : ICRC_LEGACY;
	}
}

static void send_packet(__u32 psn)
{
	bool answer = once_in(4);
	struct packet packet = draw_request(psn);
	struct frame frame;
	int i;

	if (answer) {
		post_wr(NULL);
		listen_to_kernel(0);
		packet = answer_to(&fuzz.last);
	}
	for (i = draw(2) * (1 + draw(2)); i > 0; i--)
		mutate_packet(&packet);
	packet_to_frame(&packet, &frame);
	if (once_in(4))
		mutate_frame(&frame);
	if (frame.len < sizeof(struct roce_bth))
		frame.len = sizeof(struct roce_bth) - 1;
	peer_send_frame(&frame);
	if (once_in(8))
		peer_send_frame(&frame);
	listen_to_kernel(0);
}

static void fuzz_packets(void)
{
	send_packet(ready_qp(PACKETS_PER_QP));
}

/* ---- WQEs ---- */

static void mutate_wqe(struct rxe_send_wqe *wqe)
{
	__u32 *words = (__u32 *)wqe;

	switch (draw(12)) {
	case 0:
		wqe->wr.opcode = once_in(4) ? draw_edge() : draw(36);
		break;
	case 1:
		wqe->wr.send_flags = draw_edge();
		break;
	case 2:
		wqe->wr.send_flags ^= IBV_SEND_INLINE;
		break;
	case 3:
		wqe->dma.length = draw_edge();
		break;
	case 4:
		wqe->dma.resid = draw_edge();
		break;
	case 5:
		wqe->dma.cur_sge = draw_edge();
		break;
	case 6:
		wqe->dma.num_sge = draw_edge();
		break;
	case 7:
		wqe->dma.sge_offset = draw_edge();
		break;
	case 8:
		wqe->state = draw(8);
		break;
	case 9:
		wqe->wr.wr.flush.type = draw(256);
		wqe->wr.wr.flush.level = draw(4);
		break;
	case 10:
		wqe->dma.sge[draw(4)] = (struct rxe_sge) {
			.addr = draw_va(), .length = draw_edge(), .lkey = fuzz.mr->lkey,
		};
		break;
	default:
		words[draw((sizeof(*wqe) + INLINE_BYTES) / sizeof(*words))] = draw_edge();
	}
}

static void spoil_wqe(struct rxe_send_wqe *wqe)
{
	int i;

	for (i = draw(3); i >= 0; i--)
		mutate_wqe(wqe);
}

/* Also for WQEs that the kernel works on, and with a ring that has nothing new, or all of it. */
static void fuzz_wqes(void)
{
	bool answer = once_in(2), late = once_in(8), wild_index = once_in(256);
	__u32 slot = draw(256);
	struct packet packet;

	ready_qp(WQES_PER_QP);
	/* A wild producer index may have made the ring look full. */
	if (!post_wr(spoil_wqe))
		revive_qp();
	if (late)
		mutate_wqe(send_ring_slot(&fuzz.ring, slot));
	if (wild_index) {
		fuzz.ring.queue->producer_index = draw_edge();
		send_ring_doorbell(&fuzz.qp);
	}
	/* A kernel that does not preempt itself begins with what was posted only when this thread waits. */
	listen_to_kernel(5);
	if (!answer)
		return;
	packet = answer_to(&fuzz.last);
	if (once_in(4))
		mutate_packet(&packet);
	peer_send(&packet);
	listen_to_kernel(0);
}

/* ---- The run ---- */

/* The content stays, but the driver has to ask for the pages again. */
static void take_pages_away(void)
{
	void *pages = fuzz.end.memory + REGION_OFFSET / PAGE * PAGE;
	size_t len = (REGION_OFFSET % PAGE + REGION_LEN + PAGE - 1) / PAGE * PAGE;

	if (mprotect(pages, len, PROT_READ) || mprotect(pages, len, PROT_READ | PROT_WRITE))
		err(1, "mprotect");
}

static void open_end(void)
{
	cpu_set_t cpus;

	/* As in rxe_conformance: in order, and fast. */
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		err(1, "staying on CPU 0");
	peer_open();
	peer_forget_qpns();
	rxe_open(&fuzz.end, false);
	memset(fuzz.end.memory, CANARY, MEMORY_LEN);
	memset(fuzz.end.memory + REGION_OFFSET, INSIDE, REGION_LEN);
	if (fuzz.on_demand && !rxe_has_odp())
		exit(4);	/* suites/fuzz.sh says why */
	fuzz.mr = rxe_reg_mr(&fuzz.end, REGION_OFFSET, REGION_LEN,
			     ACCESS_DRAM | (fuzz.on_demand ? IBV_ACCESS_ON_DEMAND : 0));
	if (!fuzz.mr)
		err(1, "a memory region");
}

static void run(void (*one)(void), __u64 count)
{
	open_end();
	check_service();
	while (fuzz.done < count) {
		if (fuzz.on_demand && once_in(16))
			take_pages_away();
		one();
		fuzz.done++;
		if (fuzz.done % PER_CHECK == 0 || fuzz.done == count) {
			check_memory();
			check_service();
		}
	}
	printf("# %llu done: %llu QPs, %llu of them to error; the kernel sent %llu packets\n",
	       fuzz.done, fuzz.qps, fuzz.errors, fuzz.answers);
	if (!fuzz.errors || fuzz.answers < count / 8)
		errx(1, "that is too little to show anything");
}

int main(int argc, char **argv)
{
	bool enough = argc == 4 || argc == 5;
	__u64 count = enough ? strtoull(argv[2], NULL, 10) : 0;
	__u64 seed = enough ? strtoull(argv[3], NULL, 10) : 0;
	bool wqes = enough && !strcmp(argv[1], "wqes");

	fuzz.on_demand = argc == 5;
	if (!count || (!wqes && strcmp(argv[1], "packets")) || (fuzz.on_demand && strcmp(argv[4], "on-demand")))
		errx(2, "usage: fuzz packets|wqes COUNT SEED [on-demand]");
	setlinebuf(stdout);
	printf("# SEED=%llu\n", seed);
	fuzz.prng = prng_of_seed(seed);
	run(wqes ? fuzz_wqes : fuzz_packets, count);
	return 0;
}
