// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel as requester: what becomes of requests that are not answered yet when a later one
 * fails, or when the QP is drained or reset.
 */
#include <poll.h>

#include "rxe_requester.h"
#include "rxe_send_ring.h"

/* ---- A request that cannot be sent, after one that is not answered ---- */

enum failure { BAD_ADDRESS, BAD_LKEY, BAD_BIND, BAD_OPCODE, BAD_LENGTH };

FIXTURE_VARIANT(failing_behind) {
	struct wr (*make)(void);
	enum failure failure;
};

FIXTURE(failing_behind) {
	struct client client;
	struct send_ring ring;
};

FIXTURE_SETUP(failing_behind)
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;

	client_open(client, &RXE_QP_DEFAULT);
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	send_ring_open(&self->ring);
}

FIXTURE_TEARDOWN(failing_behind)
{
	client_close(&self->client);
}

ROW(failing_behind, write, "3 completion", "a WRITE") { wr_write, BAD_ADDRESS };
ROW(failing_behind, send, "3 completion", "a SEND") { wr_send, BAD_ADDRESS };
ROW(failing_behind, read, "3 completion", "a READ") { wr_read, BAD_ADDRESS };
ROW(failing_behind, fetch_add, "3 completion", "a FETCH ADD") { wr_fetch_add, BAD_ADDRESS };
ROW(failing_behind, flush, "3 completion", "a FLUSH") { wr_flush, BAD_ADDRESS };
ROW(failing_behind, atomic_write, "3 completion", "an ATOMIC WRITE") {
	wr_atomic_write, BAD_ADDRESS };
ROW(failing_behind, write_then_bad_lkey, "3 completion", "a WRITE, and an L_Key of no region") {
	wr_write, BAD_LKEY };
ROW(failing_behind, write_then_bad_bind, "3 completion", "a WRITE, and a bind of nothing") {
	wr_write, BAD_BIND };
ROW(failing_behind, flush_then_bad_bind, "3 completion", "a FLUSH, and a bind of nothing") {
	wr_flush, BAD_BIND };
ROW(failing_behind, write_then_bad_opcode, "3 completion", "a WRITE, and an opcode of no verb") {
	wr_write, BAD_OPCODE };
ROW(failing_behind, flush_then_bad_opcode, "3 completion", "a FLUSH, and an opcode of no verb") {
	wr_flush, BAD_OPCODE };
/* The fence does not wait for it, so that what fails may have a credit by then. */
ROW(failing_behind, write_then_bad_length, "3 fence",
    "a WRITE, and a fenced ATOMIC WRITE of 16 bytes") {
	wr_write, BAD_LENGTH };
ROW(failing_behind, send_then_bad_length, "3 fence",
    "a SEND, and a fenced ATOMIC WRITE of 16 bytes") {
	wr_send, BAD_LENGTH };

/*
 * Post what fails, and how; NOT_PINNED: 6.1 has another status than 7.3 with the fixes, and says
 * that the WQE is bad.
 */
#define NOT_PINNED	IBV_WC_SUCCESS

static enum ibv_wc_status post_failing(struct __test_metadata *_metadata, struct client *client,
				       const struct send_ring *ring, enum failure failure)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	const struct ibv_mw_bind_info nothing = { client->mr, 0, 0, 0 };
	enum ibv_wc_status status = IBV_WC_LOC_PROT_ERR;
	struct wr wr = wr_write();
	struct ibv_mw *mw;

	ibv_wr_start(qpx);
	switch (failure) {
	case BAD_ADDRESS:
		wr.outside = true;
		build_on(client, &client->line, &wr);
		break;
	case BAD_LKEY:
		status = NOT_PINNED;
		build_on(client, &client->line, &wr);
		ibv_wr_set_sge(qpx, client->mr->lkey + (100 << 8),
			       (uintptr_t)client->end.memory, wr.len);
		break;
	case BAD_BIND:
		status = IBV_WC_MW_BIND_ERR;
		mw = ibv_alloc_mw(client->end.pd, IBV_MW_TYPE_2);
		ASSERT_NE(NULL, mw);
		qpx->wr_id = ++client->line.id;
		ibv_wr_bind_mw(qpx, mw, ibv_inc_rkey(mw->rkey), &nothing);
		break;
	case BAD_OPCODE:
		status = IBV_WC_LOC_QP_OP_ERR;
		build_on(client, &client->line, &wr);
		send_ring_slot(ring, ring->queue->producer_index)->wr.opcode = 0xff;
		break;
	case BAD_LENGTH:
		status = IBV_WC_LOC_QP_OP_ERR;
		wr = wr_atomic_write();
		wr.flags |= IBV_SEND_FENCE;
		build_on(client, &client->line, &wr);
		send_ring_slot(ring, ring->queue->producer_index)->dma.length = 16;
		break;
	}
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	return status;
}

/* @rq is answered; it succeeds, the next one fails, the last one is flushed. */
static void expect_failure_behind(struct __test_metadata *_metadata, struct client *client,
				  const struct packet *rq, enum ibv_wc_status failure)
{
	struct ibv_wc wc;

	respond(client, rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	if (failure == NOT_PINNED) {
		ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS));
		ASSERT_EQ(2, wc.wr_id);
		ASSERT_TRUE(wc.status == IBV_WC_LOC_PROT_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR);
	} else {
		expect_wc(_metadata, client, 2, failure);
	}
	expect_wc(_metadata, client, 3, IBV_WC_WR_FLUSH_ERR);
	expect_silence(_metadata, client);
}

CASE(failing_behind, answered, "3 completion",
     "the answer comes after the failure: success, the error, the rest is flushed")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());
	enum ibv_wc_status failure = post_failing(_metadata, client, &self->ring,
						  variant->failure);

	post(_metadata, client, wr_write());
	expect_failure_behind(_metadata, client, &rq, failure);
}

CASE(failing_behind, lost, "4 retransmission",
     "no answer before the time-out: sent again; then success, the error, the rest is flushed")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());
	enum ibv_wc_status failure = post_failing(_metadata, client, &self->ring,
						  variant->failure);

	post(_metadata, client, wr_write());
	expect_retransmission(_metadata, &rq, 1);
	expect_retransmission(_metadata, &rq, 1);
	expect_failure_behind(_metadata, client, &rq, failure);
}

CASE(failing_behind, nak_psn, "4 retransmission",
     "a NAK PSN sequence for it: sent again; then success, the error, the rest is flushed")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct client *client = &self->client;
	enum ibv_wc_status failure;
	struct packet rq;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	send_ring_open(&self->ring);
	rq = post_and_expect(_metadata, client, variant->make());
	failure = post_failing(_metadata, client, &self->ring, variant->failure);
	post(_metadata, client, wr_write());
	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, &rq, 1);
	expect_failure_behind(_metadata, client, &rq, failure);
}

CASE(failing_behind, for_good, "4 retransmission",
     "never answered, with one retry: RETRY_EXC_ERR for it, and all after it is flushed")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 1);
	struct client *client = &self->client;
	struct packet rq;
	__u64 id;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	send_ring_open(&self->ring);
	rq = post_and_expect(_metadata, client, variant->make());
	post_failing(_metadata, client, &self->ring, variant->failure);
	post(_metadata, client, wr_write());
	expect_retransmission(_metadata, &rq, 1);
	expect_wc(_metadata, client, 1, IBV_WC_RETRY_EXC_ERR);
	for (id = 2; id <= 3; id++)
		expect_wc(_metadata, client, id, IBV_WC_WR_FLUSH_ERR);
	expect_silence(_metadata, client);
}

/* ---- A request whose answer has no place to go to, after one that is not answered ---- */

FIXTURE_VARIANT(homeless) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(homeless)

ROW(homeless, read, "3 fence", "a READ") { wr_read };
ROW(homeless, fetch_add, "3 fence", "a FETCH ADD") { wr_fetch_add };

CASE(homeless, fenced, "3 fence",
     "fenced, its L_Key of no region: the WRITE before it succeeds, it fails, the rest is flushed")
{
	struct client *client = &self->client;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct packet write = post_and_expect(_metadata, client, wr_write()), rq;
	struct wr wr = variant->make();
	struct frame frame;
	struct ibv_wc wc;

	wr.flags |= IBV_SEND_FENCE;
	ibv_wr_start(qpx);
	rq = build_on(client, &client->line, &wr);
	ibv_wr_set_sge(qpx, client->mr->lkey + (100 << 8), (uintptr_t)client->end.memory, wr.len);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	post(_metadata, client, wr_write());
	respond(client, &write);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	/* Whether it is sent is not said. */
	while (!next_is_completion(_metadata, client, &frame, &wc))
		if (frame.wire.bth.opcode == rq.opcode)
			respond(client, &rq);
	ASSERT_EQ(2, wc.wr_id);
	ASSERT_STREQ(ibv_wc_status_str(IBV_WC_LOC_PROT_ERR), ibv_wc_status_str(wc.status));
	expect_wc(_metadata, client, 3, IBV_WC_WR_FLUSH_ERR);
}

/* ---- SQD ---- */

FIXTURE_VARIANT(drain) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(drain)

ROW(drain, write, "3 SQD", "a WRITE") { wr_write };
ROW(drain, send, "3 SQD", "a SEND") { wr_send };
ROW(drain, read, "3 SQD", "a READ") { wr_read };
ROW(drain, fetch_add, "3 SQD", "a FETCH ADD") { wr_fetch_add };
ROW(drain, flush, "3 SQD", "a FLUSH") { wr_flush };
ROW(drain, atomic_write, "3 SQD", "an ATOMIC WRITE") { wr_atomic_write };

static void expect_drained(struct __test_metadata *_metadata, struct client *client)
{
	ASSERT_TRUE(rxe_wait_drained(&client->end, &client->line.qp, ANSWER_MS)) {
		TH_LOG("no event IBV_EVENT_SQ_DRAINED");
	}
}

static void expect_not_drained(struct __test_metadata *_metadata, struct client *client)
{
	expect_silence(_metadata, client);
	ASSERT_FALSE(rxe_wait_drained(&client->end, &client->line.qp, 0)) {
		TH_LOG("IBV_EVENT_SQ_DRAINED, but something is not answered");
	}
}

/* All that was posted has completed.  The QP goes on in RTS. */
static void works_on(struct __test_metadata *_metadata, struct client *client)
{
	struct packet rq;

	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	rq = post_and_expect(_metadata, client, wr_flush());
	respond(client, &rq);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(drain, outstanding, "3 SQD",
     "SQD while it is not answered: drained when it is, with an event; in RTS the QP works on")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());

	rxe_drain_qp(&client->line.qp);
	expect_not_drained(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

CASE(drain, last_of_two, "3 SQD",
     "of two not answered, the answer to the last one makes it drained")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, wr_flush());
	rq[1] = post_and_expect(_metadata, client, variant->make());
	rxe_drain_qp(&client->line.qp);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_not_drained(_metadata, client);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

CASE(drain, answered_at_once, "3 SQD",
     "of two not answered, the answer to the last one is for both")
{
	struct client *client = &self->client;
	struct packet rq;

	post_and_expect(_metadata, client, wr_write());
	rq = post_and_expect(_metadata, client, variant->make());
	rxe_drain_qp(&client->line.qp);
	client->line.msn++;
	respond(client, &rq);
	expect_successes(_metadata, client, 1);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

CASE(drain, posted_in_sqd, "3 SQD",
     "what is posted in SQD waits for RTS, and then goes out by itself")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, wr_flush());

	rxe_drain_qp(&client->line.qp);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	rq = post(_metadata, client, variant->make());
	expect_silence(_metadata, client);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(drain, behind_a_retry, "3 SQD",
     "sent again in RTS, and answered: drained at once, and what is posted then waits for RTS")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());

	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	rxe_drain_qp(&client->line.qp);
	expect_drained(_metadata, client);
	rq = post(_metadata, client, wr_flush());
	expect_silence(_metadata, client);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(drain, lost, "4 retransmission",
     "lost, it is sent again in SQD, too: not drained before it is answered")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	rq = post_and_expect(_metadata, client, variant->make());
	rxe_drain_qp(&client->line.qp);
	expect_retransmission(_metadata, &rq, 1);
	expect_retransmission(_metadata, &rq, 1);
	expect_not_drained(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

CASE(drain, nak_psn, "4 retransmission",
     "a NAK PSN sequence for it in SQD: sent again; not drained before it is answered")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());

	rxe_drain_qp(&client->line.qp);
	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, &rq, 1);
	expect_not_drained(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

PATIENT_FIXTURE(drain_of)

CASE(drain_of, nothing, "3 SQD", "SQD with nothing outstanding: drained at once, as often as asked")
{
	struct client *client = &self->client;
	int i;

	for (i = 0; i < 3; i++) {
		rxe_drain_qp(&client->line.qp);
		expect_drained(_metadata, client);
		works_on(_metadata, client);
	}
}

FIXTURE(drain_amid) { struct client client; };

FIXTURE_TEARDOWN(drain_amid)
{
	peer_end_stall();
	client_close(&self->client);
}

/* 2 s: none runs out before the link is stalled, which takes a command. */
FIXTURE_SETUP(drain_amid)
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT + 3, 7);

	client_open(&self->client, &config);
}

/* So many packets the kernel sends before it waits for an acknowledgment. */
#define UNACKED	129

CASE(drain_amid, a_message, "3 SQD",
     "what was sent of a WRITE is acknowledged while it is sent again: drained after the rest")
{
	struct client *client = &self->client;
	struct line *line = &client->line;
	struct packet first = { .psn = line->psn };
	struct packet newest = { .psn = psn_add(line->psn, UNACKED - 1) };
	struct packet last = { .psn = psn_add(line->psn, UNACKED) };
	size_t len = (UNACKED + 1) * MTU;
	static __u8 data[(UNACKED + 1) * MAX_MTU];
	unsigned long long retries = rxe_counter("completer_retry_err");
	struct ibv_mr *mr = post_long(_metadata, client, IBV_WR_RDMA_WRITE, data, len, len);
	struct frame frame;
	int i;

	line->psn = psn_add(line->psn, UNACKED + 1);
	for (i = 0; i < UNACKED; i++)
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));

	/* The kernel begins anew, and stops amid that. */
	rxe_drain_qp(&line->qp);
	peer_stall_link();
	acknowledge(client, &first, ROCE_AETH_NAK_PSN);
	ASSERT_EQ(retries + 1, rxe_wait_counter("completer_retry_err", retries + 1, ANSWER_MS));
	/* It is told that all of it has arrived, and a time-out lets it begin anew once more. */
	acknowledge(client, &newest, ROCE_AETH_ACK);
	ASSERT_LE(retries + 2, rxe_wait_counter("completer_retry_err", retries + 2, ANSWER_MS));
	peer_end_stall();

	do {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
			TH_LOG("the last packet does not come in SQD");
		}
	} while ((be32toh(frame.wire.bth.apsn) & ROCE_24BITS) != last.psn);
	ASSERT_FALSE(rxe_wait_drained(&client->end, &line->qp, 0)) {
		TH_LOG("IBV_EVENT_SQ_DRAINED, but the last packet is not answered");
	}
	line->msn++;
	acknowledge(client, &last, ROCE_AETH_ACK);
	expect_wc(_metadata, client, line->id, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
	EXPECT_EQ(0, ibv_dereg_mr(mr));
}

FIXTURE(moved_in_sqd) { struct client client; };

FIXTURE_TEARDOWN(moved_in_sqd)
{
	client_close(&self->client);
	peer_end_far_route();
}

FIXTURE_SETUP(moved_in_sqd)
{
	peer_add_far_route();
	client_open(&self->client, &RXE_QP_DEFAULT);
}

CASE(moved_in_sqd, to_another_network, "3 SQD",
     "the peer moves to an address beyond a router: the next request goes to the router")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, wr_write()), answer;
	struct frame frame;

	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	rxe_drain_qp(&client->line.qp);
	expect_drained(_metadata, client);
	rxe_move_peer(&client->end, &client->line.qp, FAR_ADDR);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	rq = post_and_expect(_metadata, client, wr_write());
	answer = response(client, &rq);
	packet_to_frame(&answer, &frame);
	frame.source = FAR_ADDR;
	peer_send_frame(&frame);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(drain_of, nothing_new, "3 SQD", "SQD of a QP that has never sent anything: drained at once")
{
	struct client *client = &self->client;

	line_open(client, &client->line, &RXE_QP_DEFAULT);
	rxe_drain_qp(&client->line.qp);
	expect_drained(_metadata, client);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	line_meet(client, &client->line);
}

CASE(drain_of, without_a_credit, "3 SQD",
     "what had no credit before SQD is not sent in SQD, and need not be for drained; in RTS it is")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct client *client = &self->client;
	struct packet rq[2];

	config.depth = 1;
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	rq[0] = post_and_expect(_metadata, client, wr_read());
	rq[1] = post(_metadata, client, wr_atomic_write());
	rxe_drain_qp(&client->line.qp);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	expect_silence(_metadata, client);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RTS);
	expect_packet(_metadata, &rq[1]);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

CASE(drain_of, sixteen, "3 SQD", "16 not answered, of all kinds, answered one by one")
{
	struct client *client = &self->client;
	struct packet rq[16];
	int i;

	for (i = 0; i < 16; i++)
		rq[i] = post_and_expect(_metadata, client, wr_of_depth(i));
	rxe_drain_qp(&client->line.qp);
	for (i = 0; i < 16; i++) {
		expect_not_drained(_metadata, client);
		respond(client, &rq[i]);
		expect_wc(_metadata, client, i + 1, IBV_WC_SUCCESS);
	}
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

CASE(drain_of, a_used_ring, "3 SQD",
     "all slots of the send ring have been used: what is left there does not count")
{
	struct client *client = &self->client;
	unsigned int slots = 4 * RXE_QP_DEFAULT.queue;
	struct packet rq;

	while (client->line.id < slots) {
		rq = post_and_expect(_metadata, client, wr_write());
		respond(client, &rq);
		expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	}
	rq = post_and_expect(_metadata, client, wr_write());
	rxe_drain_qp(&client->line.qp);
	expect_not_drained(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}

/* ---- RESET ---- */

/* Through RESET to a new connection.  Nothing that was sent before is left. */
static void reset_line(struct client *client, const struct rxe_qp_config *config)
{
	struct frame frame;

	line_reopen(client, &client->line, config);
	while (peer_recv_frame(&frame, 0))
		;
}

/* The peer gets @rq once, answers, and gets nothing more. */
static void expect_one_round(struct __test_metadata *_metadata, struct client *client,
			     const struct packet *rq)
{
	respond(client, rq);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

/* Not those that a READ response answers: one may begin anew at any time. */
FIXTURE_VARIANT(reset_amid) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(reset_amid)

ROW(reset_amid, write, "3 completion", "a WRITE") { wr_write };
ROW(reset_amid, send, "3 completion", "a SEND") { wr_send };
ROW(reset_amid, fetch_add, "3 completion", "a FETCH ADD") { wr_fetch_add };

CASE(reset_amid, a_read, "3 completion",
     "RESET when half of a READ is answered: the first request of the next connection succeeds")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client,
					   wr_to(IBV_WR_RDMA_READ, REMOTE_VA, 2 * MTU));
	struct packet half = response(client, &rq);
	const __u64 data = REMOTE_DATA;
	unsigned int ms;

	half.opcode = ROCE_RC_READ_RESPONSE_FIRST;
	half.payload_len = MTU;
	peer_send(&half);
	/* Once it has come, what is sent from this memory does not change any more. */
	for (ms = 0; ms < ANSWER_MS && memcmp(client->end.memory, &data, sizeof(data)); ms++)
		poll(NULL, 0, 1);
	ASSERT_EQ(0, memcmp(client->end.memory, &data, sizeof(data)));
	reset_line(client, &RXE_QP_DEFAULT);
	rq = post_and_expect(_metadata, client, variant->make());
	expect_one_round(_metadata, client, &rq);
}

PATIENT_FIXTURE(reset)

CASE(reset, amid_a_retry, "4 retransmission",
     "RESET when a retry is not answered: a NAK PSN sequence in the next connection starts one")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, wr_write());

	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_packet(_metadata, &rq);
	reset_line(client, &RXE_QP_DEFAULT);
	rq = post_and_expect(_metadata, client, wr_write());
	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_packet(_metadata, &rq);
	expect_one_round(_metadata, client, &rq);
}

/*
 * That its timer has run out is shown by another QP whose timer was started later, for the same
 * time.
 */

CASE(reset, amid_a_time_out, "4 time-outs",
     "RESET while an ACK timeout runs: the next connection has none, and gets none")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq, later;

	line_open(client, &client->line, &config);
	line_open(client, &client->pulse, &config);
	post_and_expect(_metadata, client, wr_write());
	reset_line(client, &RXE_QP_DEFAULT);
	rq = post_and_expect(_metadata, client, wr_write());
	later = post_on(_metadata, client, &client->pulse, wr_write());
	expect_packet(_metadata, &later);
	expect_retransmission(_metadata, &later, 1);
	expect_retransmission(_metadata, &later, 1);
	later = response_on(&client->pulse, &later);
	peer_send(&later);
	expect_wc(_metadata, client, client->pulse.id, IBV_WC_SUCCESS);
	expect_one_round(_metadata, client, &rq);
}

CASE(reset, amid_an_rnr_wait, "4 retransmission",
     "RESET while the time of an RNR NAK runs: the next connection sends nothing again")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, wr_send()), later;

	acknowledge(client, &rq, ROCE_AETH_RNR_NAK);
	expect_silence(_metadata, client);
	reset_line(client, &RXE_QP_DEFAULT);
	rq = post_and_expect(_metadata, client, wr_write());
	later = post_on(_metadata, client, &client->pulse, wr_send());
	expect_packet(_metadata, &later);
	acknowledge_on(&client->pulse, &later, ROCE_AETH_RNR_NAK);
	expect_retransmission(_metadata, &later, 1);
	later = response_on(&client->pulse, &later);
	peer_send(&later);
	expect_wc(_metadata, client, client->pulse.id, IBV_WC_SUCCESS);
	expect_one_round(_metadata, client, &rq);
}

CASE(reset, amid_a_drain, "3 SQD",
     "RESET in SQD while a WRITE is unanswered; the next connection works, and is drained at once")
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct client *client = &self->client;
	struct packet rq;

	post_and_expect(_metadata, client, wr_write());
	rxe_drain_qp(&client->line.qp);
	expect_not_drained(_metadata, client);
	ASSERT_EQ(0, ibv_modify_qp(client->line.qp.qp, &attr, IBV_QP_STATE));
	reset_line(client, &RXE_QP_DEFAULT);
	line_meet(client, &client->line);
	rq = post_and_expect(_metadata, client, wr_write());
	expect_one_round(_metadata, client, &rq);
	ASSERT_FALSE(rxe_wait_drained(&client->end, &client->line.qp, 0)) {
		TH_LOG("IBV_EVENT_SQ_DRAINED of a QP that was reset");
	}
	rxe_drain_qp(&client->line.qp);
	expect_drained(_metadata, client);
	works_on(_metadata, client);
}
