// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel as responder: requests from before the first PSN, answers that cannot be sent, and
 * answers that take long.
 */
#include <sys/mman.h>

#include "rxe_responder.h"

/* ---- Requests before the first PSN ---- */

FIXTURE_VARIANT(fresh_psn) {
	__u32 first;
};

RIG_FIXTURE(fresh_psn)
{
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	flow_from_psn(&self->rig, variant->first);
}

ROW(fresh_psn, 1000, "4 duplicates", "rq_psn 1000") { 1000 };
ROW(fresh_psn, 0, "4 duplicates", "rq_psn 0, and ffffff before it") { 0 };
ROW(fresh_psn, 1, "4 duplicates", "rq_psn 1") { 1 };
/* From there PSN ffffff is ahead, and an ACK with it would acknowledge half of all PSNs. */
ROW(fresh_psn, 800001, "4 duplicates", "rq_psn 800001") { 0x800001 };
ROW(fresh_psn, last, "4 duplicates", "rq_psn ffffff") { 0xffffff };

/* A request @before PSNs before the first one of the flow. */
static void send_stale(struct rig *rig, struct packet rq, __u32 first, int before)
{
	rq.qpn = rig->flow.qp.qp->qp_num;
	rq.psn = psn_add(first, -before);
	peer_send(&rq);
}

/*
 * It is taken for a duplicate, and acknowledges no more than the other connection of before could
 * have: the ACK has the PSN before the first.
 */
static void expect_stale_ack(struct __test_metadata *_metadata, struct rig *rig, __u32 first)
{
	const struct packet ack = {
		.opcode = ROCE_RC_ACK, .qpn = rig->flow.qp.peer_qpn,
		.psn = psn_add(first, -1), .msn = rig->flow.msn,
	};

	expect_packet(_metadata, &ack);
	expect_memory(_metadata, rig);
}

CASE(fresh_psn, stale_write, "4 duplicates",
     "a WRITE before rq_psn: an ACK of the PSN before rq_psn, no store; then the first is served")
{
	struct rig *rig = &self->rig;
	int before;

	for (before = 1; before <= 3; before++) {
		send_stale(rig, write_only(rig), variant->first, before);
		expect_stale_ack(_metadata, rig, variant->first);
	}
	served(_metadata, rig, write_only(rig));
}

CASE(fresh_psn, stale_send, "4 duplicates",
     "a SEND before rq_psn: an ACK of the PSN before rq_psn; the first gets the receive request")
{
	struct rig *rig = &self->rig;
	struct packet stale = write_part(rig, ROCE_RC_SEND_ONLY, 0, 32);
	struct packet send = write_part(rig, ROCE_RC_SEND_ONLY, 0, 32);
	struct ibv_wc wc;

	rxe_post_recv(&rig->flow.qp, rig->mr, send.va, 64);
	send_stale(rig, stale, variant->first, 1);
	expect_stale_ack(_metadata, rig, variant->first);
	ASSERT_EQ(0, ibv_poll_cq(rig->end.cq, 1, &wc));
	served(_metadata, rig, send);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_STREQ("success", ibv_wc_status_str(wc.status));
	EXPECT_EQ(IBV_WC_RECV, wc.opcode);
	EXPECT_EQ(32, wc.byte_len);
}

CASE(fresh_psn, after_reset, "4 duplicates",
     "through RESET to a new connection: an ACK as if there had been none before")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;

	flow_from_psn(rig, psn_add(variant->first, 5000));
	served(_metadata, rig, write_only(rig));
	config.peer_psn = variant->first;
	rxe_reconnect_qp(&rig->end, &config, &rig->flow.qp);
	rig->flow.psn = variant->first;
	rig->flow.msn = 0;
	send_stale(rig, write_only(rig), variant->first, 1);
	expect_stale_ack(_metadata, rig, variant->first);
	served(_metadata, rig, write_only(rig));
}

/* What has a response of its own is completed by that only: no ACK may speak for it. */

static void stale_write_behind(struct __test_metadata *_metadata, struct rig *rig, __u32 first,
			       struct packet (*make)(struct rig *rig))
{
	struct packet write;

	served(_metadata, rig, make(rig));
	send_stale(rig, write_only(rig), first, 1);
	expect_stale_ack(_metadata, rig, first);

	served(_metadata, rig, make(rig));
	send_stale(rig, write_only(rig), first, 1);
	expect_stale_ack(_metadata, rig, first);

	/* The WRITE is acknowledged by the ACK of its own PSN. */
	write = write_only(rig);
	served(_metadata, rig, write);
	send_stale(rig, write, first, 1);
	expect_stale_ack(_metadata, rig, rig->flow.psn);
}

CASE(fresh_psn, behind_a_flush, "3 completion",
     "a stale WRITE after a FLUSH was executed: an ACK that is not of the FLUSH's PSN")
{
	stale_write_behind(_metadata, &self->rig, variant->first, flush_range);
}

CASE(fresh_psn, behind_an_atomic_write, "3 completion",
     "a stale WRITE after an ATOMIC WRITE was executed: an ACK that is not of its PSN")
{
	stale_write_behind(_metadata, &self->rig, variant->first, atomic_write);
}

CASE(fresh_psn, behind_an_atomic, "3 completion",
     "a stale WRITE after a FETCH ADD was executed: an ACK that is not of its PSN")
{
	stale_write_behind(_metadata, &self->rig, variant->first, fetch_add);
}

CASE(fresh_psn, behind_a_read, "3 completion",
     "a stale WRITE after a READ was executed: an ACK that is not of its PSN")
{
	stale_write_behind(_metadata, &self->rig, variant->first, read_only);
}

/* ---- Answers that cannot be sent ---- */

FIXTURE_VARIANT(unsent) {
	struct packet (*make)(struct rig *rig);
	__u32 read_len;		/* of a READ, if not 0 */
};

FIXTURE(unsent) {
	struct rig rig;
};

FIXTURE_SETUP(unsent)
{
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
}

FIXTURE_TEARDOWN(unsent)
{
	peer_end_stall();
	peer_restore_route();
	rig_close(_metadata, &self->rig);
}

ROW(unsent, read, "4 duplicates", "a READ") { read_only, 0 };
ROW(unsent, long_read, "4 duplicates", "a READ of four packets") { read_only, MTUS(3, 20) };
ROW(unsent, fetch_add, "4 duplicates", "a FETCH ADD") { fetch_add, 0 };
ROW(unsent, flush, "4 duplicates", "a FLUSH") { flush_range, 0 };
ROW(unsent, atomic_write, "4 duplicates", "an ATOMIC WRITE") { atomic_write, 0 };
ROW(unsent, write, "4 duplicates", "a WRITE") { write_only, 0 };

/* The answer to @rq, sent for the first time with @psn, in as many packets as a READ needs. */
static void expect_whole_answer(struct __test_metadata *_metadata, struct rig *rig,
				const struct packet *rq, const struct packet *answer)
{
	struct packet part = *answer;
	size_t at = 0, left = rq->dmalen;

	if (rq->opcode != ROCE_RC_READ_REQUEST || left <= MTU) {
		expect_packet(_metadata, answer);
		expect_memory(_metadata, rig);
		return;
	}
	for (; left; left -= part.payload_len, at += part.payload_len) {
		part.opcode = !at ? ROCE_RC_READ_RESPONSE_FIRST :
			      left > MTU ? ROCE_RC_READ_RESPONSE_MIDDLE :
					   ROCE_RC_READ_RESPONSE_LAST;
		part.payload_len = left > MTU ? MTU : left;
		memcpy(part.payload, model_at(rig, rq->va + at), part.payload_len);
		if (part.opcode == ROCE_RC_READ_RESPONSE_MIDDLE)
			part.msn = 0;	/* it has none */
		else
			part.msn = answer->msn;
		expect_packet(_metadata, &part);
		part.psn = psn_add(part.psn, 1);
	}
	expect_memory(_metadata, rig);
}

/* Send @rq.  Its answer, of which no packet is awaited. */
static struct packet ask_unheard(struct rig *rig, struct packet *rq)
{
	__u32 packets = rq->opcode == ROCE_RC_READ_REQUEST ? (rq->dmalen + MTU - 1) / MTU : 1;
	struct packet answer = { .psn = rig->flow.psn, .qpn = rig->flow.qp.peer_qpn };

	if (packets == 1)
		return ask(rig, &rig->flow, rq);
	answer.msn = ++rig->flow.msn;
	send_raw(&rig->flow, rq);
	rig->flow.psn = psn_add(rig->flow.psn, packets);
	return answer;
}

/* @rq comes while the kernel can send nothing.  Its answer, which did not get out. */
static struct packet ask_in_vain(struct __test_metadata *_metadata, struct rig *rig,
				 struct packet *rq)
{
	unsigned long long errors = rxe_counter("send_err");
	struct packet answer;

	peer_choke_link();
	answer = ask_unheard(rig, rq);
	EXPECT_LT(errors, rxe_wait_counter("send_err", errors + 1, ANSWER_MS)) {
		TH_LOG("the answer could be sent, so nothing is shown");
	}
	peer_end_stall();
	return answer;
}

static void cut_route(struct __test_metadata *_metadata)
{
	if (!peer_link.ipv6)
		SKIP_CASE("over IPv4 the kernel takes a peer without a route for a neighbour");
	peer_cut_route();
}

/* The kernel expects the next request of the flow. */
static void expect_psn_moved(struct __test_metadata *_metadata, struct rig *rig)
{
	const long long deadline = now_ms() + ANSWER_MS * wait_scale();
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;

	do {
		ASSERT_EQ(0, ibv_query_qp(rig->flow.qp.qp, &attr, IBV_QP_RQ_PSN, &init_attr));
	} while (attr.rq_psn != rig->flow.psn && now_ms() < deadline);
	EXPECT_EQ(rig->flow.psn, attr.rq_psn);
}

static struct packet make_unsent(struct rig *rig, struct packet (*make)(struct rig *rig),
				 __u32 read_len)
{
	struct packet rq = make(rig);

	if (read_len)
		rq.dmalen = read_len;
	return rq;
}

CASE(unsent, repeated, "4 duplicates",
     "its answer cannot be sent; it gets one when it comes again, executed once, no error")
{
	struct rig *rig = &self->rig;
	struct packet rq = make_unsent(rig, variant->make, row_len(variant->read_len));
	struct packet answer = ask_in_vain(_metadata, rig, &rq);

	send_again(&rq);
	expect_whole_answer(_metadata, rig, &rq, &answer);
	/* and once more, now as any duplicate */
	send_again(&rq);
	expect_whole_answer(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
}

CASE(unsent, without_a_route, "4 duplicates",
     "its answer has no route: it is answered when it comes again, executed once, no error")
{
	struct rig *rig = &self->rig;
	struct packet rq = make_unsent(rig, variant->make, row_len(variant->read_len)), answer;

	cut_route(_metadata);
	answer = ask_unheard(rig, &rq);
	expect_psn_moved(_metadata, rig);
	peer_restore_route();
	send_again(&rq);
	expect_whole_answer(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
}

CASE(unsent, repeated_twice, "4 duplicates", "the answer to the duplicate cannot be sent, either")
{
	struct rig *rig = &self->rig;
	struct packet rq = make_unsent(rig, variant->make, row_len(variant->read_len));
	unsigned long long errors;
	struct packet answer;

	answer = ask_in_vain(_metadata, rig, &rq);
	errors = rxe_counter("send_err");
	peer_choke_link();
	send_again(&rq);
	EXPECT_LT(errors, rxe_wait_counter("send_err", errors + 1, ANSWER_MS));
	peer_end_stall();
	send_again(&rq);
	expect_whole_answer(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_only(rig));
}

/*
 * The requester has sent a WRITE after it.  Whether that is executed before the answer can be sent,
 * or missed then, is not said; it must not be taken for something else.
 */
CASE(unsent, with_a_write_behind, "4 duplicates",
     "a WRITE after it comes before it is repeated, and is acknowledged or gets a NAK PSN sequence")
{
	struct rig *rig = &self->rig;
	struct packet rq = make_unsent(rig, variant->make, row_len(variant->read_len));
	struct packet answer = ask_in_vain(_metadata, rig, &rq), ack, write, first;
	struct frame frame;

	write = write_part(rig, ROCE_RC_WRITE_ONLY, 16, 16);
	write.va = rig->start + 4;
	ack = ask(rig, &rig->flow, &write);
	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	ASSERT_TRUE(frame_to_packet(&frame, &first));
	if (is_nak(&first, ROCE_AETH_NAK_PSN)) {
		EXPECT_EQ(rq.psn, first.psn);
		send_again(&rq);
		/* READ has not seen the WRITE, and does not see it, because they are apart. */
		expect_whole_answer(_metadata, rig, &rq, &answer);
		send_again(&write);
		expect_packet(_metadata, &ack);
	} else {
		EXPECT_EQ(ROCE_RC_ACK, first.opcode);
		EXPECT_EQ(ROCE_AETH_ACK, first.syndrome & ROCE_AETH_KIND_MASK);
		EXPECT_EQ(ack.psn, first.psn);
		expect_memory(_metadata, rig);
		if (rq.opcode == ROCE_RC_WRITE_ONLY)
			return;
		send_again(&rq);
		answer.msn = rig->flow.msn;
		expect_whole_answer(_metadata, rig, &rq, &answer);
	}
	expect_memory(_metadata, rig);
}

/* ---- A smaller MTU, which any host can claim ---- */

FIXTURE(claimed_mtu) {
	struct rig rig;
};

FIXTURE_SETUP(claimed_mtu)
{
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
}

FIXTURE_TEARDOWN(claimed_mtu)
{
	peer_forget_mtu();
	rig_close(_metadata, &self->rig);
}

CASE(claimed_mtu, answered, "5 answers",
     "a whole packet is sent although ICMP has claimed a smaller MTU: that of the QP holds")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig);

	if (MTU <= LEAST_MTU)
		SKIP_CASE("the kernel takes no MTU that is below this one");
	rq.dmalen = MTU;
	served(_metadata, rig, rq);
	peer_claim_least_mtu();
	served(_metadata, rig, rq);
}

/* ---- READs that take long ---- */

struct long_region {
	__u8		*memory;
	size_t		len;
	struct ibv_mr	*mr;
};

static void open_long_region(struct rig *rig, struct long_region *region, size_t len)
{
	size_t at;

	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	region->len = len;
	region->memory = rxe_map_pieces(len);
	for (at = 0; at < RXE_PIECE; at++)
		region->memory[at] = at * 7 + at / MTU + 1;
	region->mr = ibv_reg_mr(rig->end.pd, region->memory, len, IBV_ACCESS_REMOTE_READ);
	if (!region->mr)
		err(1, "a region of %zu bytes", len);
}

static void close_long_region(struct __test_metadata *_metadata, struct rig *rig,
			      struct long_region *region)
{
	peer_end_stall();
	rig_close(_metadata, rig);
	munmap(region->memory, region->len);
}

/* Ask for @len bytes; the first @n packets of the answer, which is longer, are as they must be. */
static void expect_begun(struct __test_metadata *_metadata, struct rig *rig,
			 const struct long_region *region, __u32 len, int n)
{
	struct packet rq = {
		.opcode = ROCE_RC_READ_REQUEST, .ack_req = true,
		.va = (uintptr_t)region->memory, .rkey = region->mr->rkey, .dmalen = len,
	};
	struct packet part = {
		.opcode = ROCE_RC_READ_RESPONSE_FIRST, .qpn = rig->flow.qp.peer_qpn,
		.psn = rig->flow.psn, .msn = ++rig->flow.msn, .payload_len = MTU,
	};
	int i;

	send_raw(&rig->flow, &rq);
	for (i = 0; i < n; i++) {
		memcpy(part.payload, region->memory + i * MTU, MTU);
		expect_packet(_metadata, &part);
		part.opcode = ROCE_RC_READ_RESPONSE_MIDDLE;
		part.msn = 0;	/* it has none */
		part.psn = psn_add(part.psn, 1);
	}
}

/* Through RESET to a new connection. */
static void reset_flow(struct rig *rig)
{
	rxe_reconnect_qp(&rig->end, &RXE_QP_DEFAULT, &rig->flow.qp);
	rig->flow.psn = RXE_QP_DEFAULT.peer_psn;
	rig->flow.msn = 0;
}

/*
 * As many packets as the stalled link takes, so that the answer neither ends nor is given up before
 * RESET.
 */
#define LONG_READ	(64ul << 20)

FIXTURE(long_read) {
	struct rig		rig;
	struct long_region	region;
};

FIXTURE_SETUP(long_read)
{
	open_long_region(&self->rig, &self->region, LONG_READ);
}

FIXTURE_TEARDOWN(long_read)
{
	close_long_region(_metadata, &self->rig, &self->region);
}

CASE(long_read, reset, "4 duplicates",
     "RESET amid the answer to a READ: the requests of the next connection are served")
{
	unsigned long long errors;
	struct rig *rig = &self->rig;
	int tries = 20;

	/* Where RESET is slow the answer may be given up before, and nothing is shown. */
	do {
		ASSERT_NE(0, tries--);
		errors = rxe_counter("send_err");
		peer_stall_link();
		expect_begun(_metadata, rig, &self->region, LONG_READ, 1);
		reset_flow(rig);
		/* What waits there is dropped. */
		peer_end_stall();
	} while (errors != rxe_counter("send_err"));
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
	served(_metadata, rig, fetch_add(rig));
}

/* The most that a READ may ask for, and negative as a signed number. */
#define HUGE_READ	(1ul << 31)

FIXTURE(huge_read) {
	struct rig		rig;
	struct long_region	region;
};

FIXTURE_SETUP(huge_read)
{
	open_long_region(&self->rig, &self->region, HUGE_READ);
}

FIXTURE_TEARDOWN(huge_read)
{
	peer_restore_route();
	close_long_region(_metadata, &self->rig, &self->region);
}

CASE(huge_read, begins, "1 RETH",
     "a READ of 2^31 bytes is answered with what the region holds, from the first packet on")
{
	struct rig *rig = &self->rig;
	struct frame frame;

	expect_begun(_metadata, rig, &self->region, HUGE_READ, 8);
	reset_flow(rig);
	/* The rest that was sent: while the peer waits for more, the kernel hands it over. */
	while (peer_recv_frame(&frame, 20))
		;
	served(_metadata, rig, read_only(rig));
}

static struct packet huge_read(const struct long_region *region, __u32 len)
{
	return (struct packet) {
		.opcode = ROCE_RC_READ_REQUEST, .ack_req = true,
		.va = (uintptr_t)region->memory, .rkey = region->mr->rkey, .dmalen = len,
	};
}

CASE(huge_read, longer_than_a_message, "1 RETH",
     "a READ of 2^31 + 1 bytes: NAK Invalid Request (C9-94)")
{
	struct rig *rig = &self->rig;

	refused(_metadata, rig, huge_read(&self->region, HUGE_READ + 1), ROCE_AETH_NAK_INVALID);
}

/*
 * The PSN after it counts as one before it.  Without a route the answer ends at once, as if all of
 * it was lost.
 */
CASE(huge_read, of_half_the_psns, "4 retransmission",
     "2^31 bytes in packets of 256 bytes: the requests after it are no duplicates")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;
	struct packet rq;

	config.mtu = 256;
	flow_reopen(rig, &config);
	cut_route(_metadata);
	rq = huge_read(&self->region, HUGE_READ);
	send_raw(&rig->flow, &rq);
	rig->flow.msn++;
	rig->flow.psn = psn_add(rig->flow.psn, HUGE_READ / config.mtu);
	expect_psn_moved(_metadata, rig);
	peer_restore_route();
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
}
