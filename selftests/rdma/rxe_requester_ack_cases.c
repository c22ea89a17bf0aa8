// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel as requester: which of its packets ask for an acknowledgment.
 *
 * An unsignalled WRITE that another request follows need not ask: the answer to that request
 * acknowledges the WRITE, too.  Nothing may wait for ever because of it.
 */
#include "rxe_requester.h"

static struct wr unsignaled_write(void)
{
	struct wr wr = wr_write();

	wr.flags = 0;
	return wr;
}

static struct wr fenced(struct wr wr)
{
	wr.flags |= IBV_SEND_FENCE;
	return wr;
}

/* The first @n requests that were posted are acknowledged by the answer to the last of them. */
static void answer_last(struct client *client, const struct packet *rq, int n)
{
	client->line.msn += n - 1;
	respond(client, &rq[n - 1]);
}

/* ---- Another request after it ---- */

FIXTURE_VARIANT(ack_request) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(ack_request)

ROW(ack_request, flush, "3 acknowledge request", "a FLUSH") { wr_flush };
ROW(ack_request, atomic_write, "3 acknowledge request", "an ATOMIC WRITE") { wr_atomic_write };
ROW(ack_request, write, "3 acknowledge request", "a WRITE") { wr_write };
ROW(ack_request, send, "3 acknowledge request", "a SEND") { wr_send };
ROW(ack_request, read, "3 acknowledge request", "a READ") { wr_read };
ROW(ack_request, fetch_add, "3 acknowledge request", "a FETCH ADD") { wr_fetch_add };

CASE(ack_request, not_of_an_unsignaled_write, "3 acknowledge request",
     "an unsignalled WRITE does not ask; it is answered for by what is posted at once after it")
{
	const struct wr wr[] = { unsignaled_write(), variant->make() };
	struct client *client = &self->client;
	struct packet rq[2];

	NEED_SAVED_ACKS();
	post_all(_metadata, client, wr, 2, rq);
	rq[0].ack_req = false;
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	answer_last(client, rq, 2);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(ack_request, of_a_signaled_write, "3 acknowledge request",
     "a signalled WRITE asks, whatever is posted at once after it")
{
	const struct wr wr[] = { wr_write(), variant->make() };
	struct client *client = &self->client;
	struct packet rq[2];

	post_all(_metadata, client, wr, 2, rq);
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
}

CASE(ack_request, where_all_are_signaled, "3 acknowledge request",
     "a WRITE asks on a QP all of whose requests are signalled")
{
	const struct wr wr[] = { unsignaled_write(), variant->make() };
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct client *client = &self->client;
	struct packet rq[2];

	config.all_signaled = true;
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	post_all(_metadata, client, wr, 2, rq);
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
}

/* What waits for all before it to be answered must not wait for what is not asked for. */
CASE(ack_request, before_a_fence, "3 acknowledge request",
     "an unsignalled WRITE asks if the next request has a fence")
{
	const struct wr wr[] = { unsignaled_write(), fenced(variant->make()) };
	struct client *client = &self->client;
	struct packet rq[2];

	post_all(_metadata, client, wr, 2, rq);
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(ack_request, after_nak, "4 retransmission",
     "sent again for a NAK PSN sequence the WRITE asks; the next one does not")
{
	const struct wr wr[] = { unsignaled_write(), variant->make() };
	struct client *client = &self->client;
	struct packet rq[2];

	NEED_SAVED_ACKS();
	post_all(_metadata, client, wr, 2, rq);
	rq[0].ack_req = false;
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	acknowledge(client, &rq[0], ROCE_AETH_NAK_PSN);
	rq[0].ack_req = true;
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);

	post_all(_metadata, client, wr, 2, rq);
	rq[0].ack_req = false;
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	answer_last(client, rq, 2);
	expect_wc(_metadata, client, 4, IBV_WC_SUCCESS);
}

CASE(ack_request, after_time_out, "4 retransmission",
     "sent again after a time-out the WRITE asks, each time")
{
	const struct wr wr[] = { unsignaled_write(), variant->make() };
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq[2];

	NEED_SAVED_ACKS();
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	post_all(_metadata, client, wr, 2, rq);
	rq[0].ack_req = false;
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	rq[0].ack_req = true;
	expect_retransmission(_metadata, rq, 2);
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
}

/* ---- None after it, or one that does not count ---- */

PATIENT_FIXTURE(ack_request_last)

CASE(ack_request_last, write, "3 acknowledge request",
     "of two unsignalled WRITEs only the last one asks; its acknowledgment is for both")
{
	const struct wr wr[] = { unsignaled_write(), unsignaled_write() };
	struct client *client = &self->client;
	struct packet rq[3];

	NEED_SAVED_ACKS();
	post_all(_metadata, client, wr, 2, rq);
	rq[0].ack_req = false;
	expect_packet(_metadata, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	answer_last(client, rq, 2);
	expect_silence(_metadata, client);
	/* Both are done. */
	rq[2] = post_and_expect(_metadata, client, wr_write());
	acknowledge(client, &rq[2], ROCE_AETH_NAK_PSN);
	expect_packet(_metadata, &rq[2]);
	respond(client, &rq[2]);
	expect_wc(_metadata, client, 3, IBV_WC_SUCCESS);
}

CASE(ack_request_last, write_alone, "3 acknowledge request", "an unsignalled WRITE alone asks")
{
	post_and_expect(_metadata, &self->client, unsignaled_write());
}

/* The first packets of a WRITE of three; none of these asks. */
static void expect_write_of_three(struct __test_metadata *_metadata, struct client *client,
				  const struct wr *wr, __u32 psn, bool ask)
{
	static const __u8 opcodes[] = {
		ROCE_RC_WRITE_FIRST, ROCE_RC_WRITE_MIDDLE, ROCE_RC_WRITE_LAST,
	};
	int i;

	for (i = 0; i < 3; i++) {
		struct packet part = {
			.opcode = opcodes[i], .qpn = client->line.qp.peer_qpn,
			.psn = psn_add(psn, i), .ack_req = ask && i == 2, .va = wr->va,
			.rkey = REMOTE_RKEY, .dmalen = wr->len, .payload_len = MTU,
		};

		memcpy(part.payload, client->end.memory + i * MTU, MTU);
		expect_packet(_metadata, &part);
	}
}

CASE(ack_request_last, write_of_three_packets, "3 acknowledge request",
     "of three packets of an unsignalled WRITE none asks with a FLUSH after, the last one without")
{
	struct client *client = &self->client;
	struct wr wr = unsignaled_write(), flush = wr_flush();
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct packet rq, last;
	__u32 psn;
	int i;

	NEED_SAVED_ACKS();
	for (i = 0; i < (int)MEMORY_LEN; i++)
		client->end.memory[i] = i / MTU + i;
	wr.len = 3 * MTU;
	for (i = 1; i >= 0; i--) {
		psn = client->line.psn;
		ibv_wr_start(qpx);
		qpx->wr_id = ++client->line.id;
		qpx->wr_flags = wr.flags;
		build_wr(client, qpx, &wr);
		client->line.psn = psn_add(psn, 3);
		if (i)
			rq = build_on(client, &client->line, &flush);
		ASSERT_EQ(0, ibv_wr_complete(qpx));

		expect_write_of_three(_metadata, client, &wr, psn, !i);
		client->line.msn++;
		if (i) {
			expect_packet(_metadata, &rq);
			respond(client, &rq);
			expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
		} else {
			last = (struct packet) { .psn = psn_add(psn, 2) };
			acknowledge(client, &last, 0x1f);
			expect_silence(_metadata, client);
		}
	}
}

CASE(ack_request_last, before_a_bind, "3 acknowledge request",
     "an unsignalled WRITE asks if there is but a bind after it, which is not sent")
{
	struct client *client = &self->client;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct wr wr = unsignaled_write();
	struct packet rq;

	ibv_wr_start(qpx);
	rq = build_on(client, &client->line, &wr);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	build_bind(_metadata, client, qpx);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
}

CASE(ack_request_last, before_a_local_invalidate, "3 acknowledge request",
     "an unsignalled WRITE asks if a local invalidate after it waits for it")
{
	struct client *client = &self->client;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct wr wr[] = { unsignaled_write(), wr_flush() };
	struct ibv_mw *mw = rxe_bind_mw(&client->end, &client->line.qp, client->mr, 2,
					(uintptr_t)client->end.memory, PAGE,
					IBV_ACCESS_REMOTE_READ);
	struct packet rq[2];

	ibv_wr_start(qpx);
	rq[0] = build_on(client, &client->line, &wr[0]);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(qpx, mw->rkey);
	rq[1] = build_on(client, &client->line, &wr[1]);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	expect_packet(_metadata, &rq[0]);
	expect_silence(_metadata, client);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_packet(_metadata, &rq[1]);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 3, IBV_WC_SUCCESS);
}

/* ---- The requester does not wait for ever ---- */

FIXTURE_VARIANT(ack_request_end) {
	unsigned int timeout;	/* 0: none */
};

CLIENT_FIXTURE(ack_request_end)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
}

ROW(ack_request_end, patient, "4 time-outs", "without a time-out") { 0 };
ROW(ack_request_end, impatient, "4 time-outs", "with a time-out") { LONG_TIMEOUT + 2 };

static void open_end(struct client *client, unsigned int timeout, unsigned int depth,
		     unsigned int queue)
{
	struct rxe_qp_config config = timeout ? with_timeout(timeout, 7) : RXE_QP_DEFAULT;

	config.depth = depth;
	config.queue = queue;
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
}

/* @frame is @rq, the first time or again; does it ask? */
static bool expect_whether_asked(struct __test_metadata *_metadata, const struct frame *frame,
				 const struct packet *rq)
{
	char want_words[WORDS_LEN], got[WORDS_LEN];
	struct packet want = *rq, packet;

	ASSERT_TRUE(frame_to_packet(frame, &packet));
	want.ack_req = packet.ack_req;
	ASSERT_STREQ(wanted_words(&want, want_words), words_or_nothing(frame, true, got));
	ASSERT_EQ(0, memcmp(want.payload, packet.payload, want.payload_len));
	return packet.ack_req;
}

#define SERIES		200
/*
 * At 128 the requester would stop.  So it asks twice before that, and one acknowledgment may be
 * lost.
 */
#define MOST_UNASKED	40

CASE(ack_request_end, long_series, "3 acknowledge request",
     "200 unsignalled WRITEs ask at times; a signalled one completes though half the ACKs are lost")
{
	struct client *client = &self->client;
	struct wr wr[SERIES + 1];
	struct packet rq[SERIES + 1];
	int i, asked = 0, unasked = 0;
	struct frame frame;

	NEED_SAVED_ACKS();
	/* As long as no time-out sends anything again. */
	open_end(client, variant->timeout ? variant->timeout + 2 : 0, 16, SERIES + 1);
	for (i = 0; i < SERIES; i++)
		wr[i] = unsignaled_write();
	wr[SERIES] = wr_write();
	post_all(_metadata, client, wr, SERIES + 1, rq);
	for (i = 0; i <= SERIES; i++) {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
			TH_LOG("%d of %d requests came", i, SERIES + 1);
		}
		client->line.msn++;
		if (expect_whether_asked(_metadata, &frame, &rq[i])) {
			/* The first one of two is lost. */
			if (asked++ % 2 || i == SERIES)
				acknowledge(client, &rq[i], 0x1f);
			unasked = 0;
		} else {
			ASSERT_LE(++unasked, MOST_UNASKED);
		}
	}
	expect_wc(_metadata, client, SERIES + 1, IBV_WC_SUCCESS);
	EXPECT_EQ(0, unasked);
	EXPECT_LT(asked, SERIES / 8) {
		TH_LOG("%d of %d packets asked", asked, SERIES + 1);
	}
}

/*
 * The peer acknowledges the WRITE @rq where it is asked to, until there is a completion: so often.
 */
static int acknowledge_until_completion(struct __test_metadata *_metadata, struct client *client,
					const struct packet *rq, struct ibv_wc *wc)
{
	struct frame frame;
	int asked = 0;

	client->line.msn++;
	while (!next_is_completion(_metadata, client, &frame, wc))
		if (expect_whether_asked(_metadata, &frame, rq)) {
			acknowledge(client, rq, 0x1f);
			asked++;
		}
	return asked;
}

CASE(ack_request_end, unsendable_behind_it, "3 acknowledge request",
     "the next request cannot be sent: the WRITE is asked for, then that fails")
{
	struct client *client = &self->client;
	struct wr wr[] = { unsignaled_write(), wr_write(), wr_write() };
	struct packet rq[3];
	struct ibv_wc wc;

	open_end(client, variant->timeout, 16, 16);
	wr[1].outside = true;
	post_all(_metadata, client, wr, 3, rq);
	EXPECT_GE(acknowledge_until_completion(_metadata, client, &rq[0], &wc), 1) {
		TH_LOG("the requester did not ask for the WRITE, which may be lost");
	}
	ASSERT_EQ(2, wc.wr_id);
	ASSERT_STREQ(ibv_wc_status_str(IBV_WC_LOC_PROT_ERR), ibv_wc_status_str(wc.status));
	expect_wc(_metadata, client, 3, IBV_WC_WR_FLUSH_ERR);
	expect_silence(_metadata, client);
}

CASE(ack_request_end, drained_before_the_next, "3 acknowledge request",
     "SQD before what follows the WRITE has a credit: the WRITE is asked for, RTS sends the rest")
{
	struct client *client = &self->client;
	const struct wr wr[] = { wr_flush(), unsignaled_write(), wr_flush() };
	struct packet rq[3], answer;
	bool drained, asked;
	struct frame frame;
	unsigned int ms;

	open_end(client, variant->timeout, 1, 16);
	post_all(_metadata, client, wr, 3, rq);
	expect_packet(_metadata, &rq[0]);
	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	asked = expect_whether_asked(_metadata, &frame, &rq[1]);
	expect_silence(_metadata, client);
	rxe_drain_qp(&client->line.qp);
	answer = response(client, &rq[0]);
	peer_send(&answer);
	client->line.msn++;
	if (asked)
		acknowledge(client, &rq[1], 0x1f);
	/*
	 * When the kernel asks for the WRITE by sending it again, it may send the FLUSH before it
	 * again.
	 */
	for (ms = 0; ms < ANSWER_MS; ms++) {
		drained = rxe_wait_drained(&client->end, &client->line.qp, 0);
		if (drained)
			break;
		if (!peer_recv_frame(&frame, 1))
			continue;
		if (frame.wire.bth.opcode == ROCE_RC_FLUSH) {
			expect_whether_asked(_metadata, &frame, &rq[0]);
			peer_send(&answer);
		} else if (expect_whether_asked(_metadata, &frame, &rq[1])) {
			asked = true;
			acknowledge(client, &rq[1], 0x1f);
		}
	}
	ASSERT_TRUE(drained);
	EXPECT_TRUE(asked) {
		TH_LOG("drained without asking for the WRITE, which may be lost");
	}
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	expect_packet(_metadata, &rq[2]);
	respond(client, &rq[2]);
	expect_wc(_metadata, client, 3, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

/* ---- Acknowledgments of what was not sent ---- */

FIXTURE_VARIANT(early_ack) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(early_ack)

ROW(early_ack, flush, "3 completion", "a FLUSH") { wr_flush };
ROW(early_ack, atomic_write, "3 completion", "an ATOMIC WRITE") { wr_atomic_write };
ROW(early_ack, write, "3 completion", "a WRITE") { wr_write };
ROW(early_ack, send, "3 completion", "a SEND") { wr_send };
ROW(early_ack, read, "3 completion", "a READ") { wr_read };
ROW(early_ack, fetch_add, "3 completion", "a FETCH ADD") { wr_fetch_add };

/* Such as a late one of what the same QP was connected to before. */
CASE(early_ack, acknowledged, "3 completion",
     "an ACK with a PSN that was not sent completes nothing")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make()), later = rq;

	later.psn = psn_add(rq.psn, 1);
	acknowledge(client, &later, 0x1f);
	later.psn = psn_add(rq.psn, 0x7fffff);
	acknowledge(client, &later, 0x1f);
	expect_silence(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
}
