// SPDX-License-Identifier: GPL-2.0
/* The kernel as requester: bytes on the wire, order, completions. */
#include "rxe_requester.h"

/* ---- Bytes on the wire ---- */

FIXTURE_VARIANT(flush_wire) {
	__u32 placement;
	__u64 va;
	__u32 len;
};

PATIENT_FIXTURE(flush_wire)

ROW(flush_wire, global, "1 PLT", "global visibility") { GLOBAL, REMOTE_VA, 192 };
ROW(flush_wire, persistent, "1 PLT", "persistence") { PERSISTENT, REMOTE_VA, 192 };
ROW(flush_wire, both, "1 PLT", "both placements") { GLOBAL | PERSISTENT, REMOTE_VA, 192 };
ROW(flush_wire, nothing, "1 RETH", "length 0") { GLOBAL, REMOTE_VA, 0 };
ROW(flush_wire, one_byte, "1 RETH", "length 1, an odd VA") { GLOBAL, REMOTE_VA + 1, 1 };
ROW(flush_wire, longest, "1 RETH", "length 2^31 - 1") { GLOBAL, REMOTE_VA, 0x7fffffff };
ROW(flush_wire, va_0, "1 RETH", "VA 0") { PERSISTENT, 0, 64 };
ROW(flush_wire, va_highest, "1 RETH", "the highest VA") { PERSISTENT, -1ull, 1 };

CASE(flush_wire, exact, "1 FLUSH headers",
     "BTH, FETH, RETH, each bit as it must be; no payload; completed by its response")
{
	struct wr wr = wr_to(IBV_WR_FLUSH, variant->va, variant->len);
	struct packet rq;

	wr.placement = variant->placement;
	rq = post_and_expect(_metadata, &self->client, wr);
	respond(&self->client, &rq);
	expect_successes(_metadata, &self->client, 1);
}

FIXTURE_VARIANT(region_wire) {
	__u32 placement;
};

PATIENT_FIXTURE(region_wire)

ROW(region_wire, global, "1 PLT", "global visibility") { GLOBAL };
ROW(region_wire, persistent, "1 PLT", "persistence") { PERSISTENT };
ROW(region_wire, both, "1 PLT", "both placements") { GLOBAL | PERSISTENT };

CASE(region_wire, exact, "1 SEL", "SEL is 1 and the R_Key counts; VA and length may be anything")
{
	struct wr wr = wr_flush_region();
	struct packet want, got;
	struct frame frame;

	wr.placement = variant->placement | REGION;
	want = post(_metadata, &self->client, wr);
	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	ASSERT_TRUE(frame_to_packet(&frame, &got));
	want.va = got.va;
	want.dmalen = got.dmalen;
	ASSERT_EQ(0, memcmp(&want, &got, sizeof(want)));
	respond(&self->client, &got);
	expect_successes(_metadata, &self->client, 1);
}

FIXTURE_VARIANT(atomic_write_wire) {
	__u64		va;
	__u64		value;
	unsigned int	flags;
};

PATIENT_FIXTURE(atomic_write_wire)

ROW(atomic_write_wire, plain, "1 ATOMIC WRITE", "8 different bytes") {
	REMOTE_VA, 0x0807060504030201, 0 };
ROW(atomic_write_wire, inline_, "2 ATOMIC WRITE WQE", "posted with the inline flag") {
	REMOTE_VA, 0x0807060504030201, IBV_SEND_INLINE };
ROW(atomic_write_wire, zeros, "1 ATOMIC WRITE", "8 zeros") { REMOTE_VA, 0, 0 };
ROW(atomic_write_wire, va_0, "1 RETH", "VA 0") { 0, -1ull, 0 };
ROW(atomic_write_wire, va_highest, "1 RETH", "the highest aligned VA") { -8ull, 0xff, 0 };

CASE(atomic_write_wire, exact, "1 ATOMIC WRITE",
     "BTH, RETH with length 8, the 8 bytes as they lie in memory; completed by its response")
{
	struct wr wr = wr_to(IBV_WR_ATOMIC_WRITE, variant->va, 8);
	struct packet rq;

	wr.value = variant->value;
	wr.flags |= variant->flags;
	rq = post_and_expect(_metadata, &self->client, wr);
	respond(&self->client, &rq);
	expect_successes(_metadata, &self->client, 1);
}

PATIENT_FIXTURE(requester)

CASE(requester, flush_icrc, "1 ICRC", "FLUSH goes out with the ICRC over every byte exactly once")
{
	struct client *client = &self->client;
	struct frame frame;

	/* Whatever the peer will turn out to be. */
	line_open(client, &client->line, &RXE_QP_DEFAULT);
	post(_metadata, client, wr_flush());
	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	EXPECT_EQ(ROCE_RC_FLUSH, frame.wire.bth.opcode);
	EXPECT_EQ(ICRC_CONFORMING, frame.icrc);
}

CASE(requester, late_ack_amid_a_read, "3 completion",
     "an ACK of the WRITE before it, repeated between the responses to a READ, changes nothing")
{
	struct client *client = &self->client;
	struct packet write, read, part;
	const __u64 *got = (__u64 *)client->end.memory;
	int i;

	write = post_and_expect(_metadata, client, wr_write());
	respond(client, &write);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	memset(client->end.memory, 0, 3 * MTU);
	read = post_and_expect(_metadata, client, wr_to(IBV_WR_RDMA_READ, REMOTE_VA, 3 * MTU));
	part = response(client, &read);
	part.payload_len = MTU;
	for (i = 0; i < 3; i++) {
		part.opcode = i == 0 ? ROCE_RC_READ_RESPONSE_FIRST :
			      i == 1 ? ROCE_RC_READ_RESPONSE_MIDDLE :
				       ROCE_RC_READ_RESPONSE_LAST;
		peer_send(&part);
		part.psn = psn_add(part.psn, 1);
		acknowledge(client, &write, ROCE_AETH_ACK);
	}
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
	for (i = 0; i < 3; i++)
		ASSERT_EQ(REMOTE_DATA, got[i * MTU / sizeof(*got)]);
	expect_silence(_metadata, client);
}

CASE(requester, read_answered_in_part, "3 completion",
     "a READ whose last response comes before all of its data: BAD_RESP_ERR")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, wr_read());
	struct packet answer = response(client, &rq);

	answer.payload_len -= 16;
	peer_send(&answer);
	expect_wc(_metadata, client, 1, IBV_WC_BAD_RESP_ERR);
}

/* Those whose response brings data. */
FIXTURE_VARIANT(fetched) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(fetched)

ROW(fetched, read, "3 completion", "a READ of 40 bytes") { wr_read };
ROW(fetched, fetch_add, "3 completion", "a FETCH ADD") { wr_fetch_add };

CASE(fetched, plain_ack, "3 completion",
     "a plain ACKNOWLEDGE with its PSN does not complete it; its own response does, with the data")
{
	struct client *client = &self->client;
	const struct wr wr = variant->make();
	const __u64 data[8] = { REMOTE_DATA };
	struct packet rq;

	memset(client->end.memory, 0x5a, MEMORY_LEN);
	rq = post_and_expect(_metadata, client, wr);
	acknowledge(client, &rq, ROCE_AETH_ACK);
	expect_silence(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(0, memcmp(client->end.memory, data, wr.len));
}

/*
 * The answers to a READ: its last response is the one with the last PSN, and brings the rest of the
 * data.
 */
FIXTURE_VARIANT(misshapen) {
	unsigned int len;
	struct {
		__u8	     opcode;
		unsigned int len;
	} answers[3];
};

PATIENT_FIXTURE(misshapen)

ROW(misshapen, first_of_one, "3 completion", "FIRST in the place of ONLY, with all of the data") {
	MTUS(1, 0), { { ROCE_RC_READ_RESPONSE_FIRST, MTUS(1, 0) } } };
ROW(misshapen, empty_first_of_one, "3 completion", "FIRST in the place of ONLY, empty") {
	MTUS(1, 0), { { ROCE_RC_READ_RESPONSE_FIRST, 0 } } };
ROW(misshapen, middle_as_last, "3 completion",
    "MIDDLE in the place of LAST, with all of the data") {
	MTUS(3, 0), { { ROCE_RC_READ_RESPONSE_FIRST, MTUS(1, 0) },
		      { ROCE_RC_READ_RESPONSE_MIDDLE, MTUS(1, 0) },
		      { ROCE_RC_READ_RESPONSE_MIDDLE, MTUS(1, 0) } } };
ROW(misshapen, only_of_two, "3 completion", "ONLY in the place of FIRST, with all of the data") {
	MTUS(1, 16), { { ROCE_RC_READ_RESPONSE_ONLY, MTUS(1, 16) } } };
ROW(misshapen, last_of_three, "3 completion", "LAST in the place of MIDDLE, with all of the data") {
	MTUS(2, 16), { { ROCE_RC_READ_RESPONSE_FIRST, MTUS(1, 0) },
		       { ROCE_RC_READ_RESPONSE_LAST, MTUS(1, 16) } } };

CASE(misshapen, refused, "3 completion", "BAD_RESP_ERR, and at once")
{
	struct client *client = &self->client;
	struct packet rq, answer;
	int i;

	rq = post_and_expect(_metadata, client,
			     wr_to(IBV_WR_RDMA_READ, REMOTE_VA, row_len(variant->len)));
	answer = response(client, &rq);
	for (i = 0; i < 3 && variant->answers[i].opcode; i++) {
		answer.opcode = variant->answers[i].opcode;
		answer.payload_len = row_len(variant->answers[i].len);
		peer_send(&answer);
		answer.psn = psn_add(answer.psn, 1);
	}
	expect_wc(_metadata, client, 1, IBV_WC_BAD_RESP_ERR);
}

static void need_depth(struct __test_metadata *_metadata, struct client *client, struct wr wr)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.depth = 0;
	line_open(client, &client->line, &config);
	post(_metadata, client, wr);
	expect_wc(_metadata, client, 1, rxe_refused_status(IBV_WC_LOC_QP_OP_ERR));
	expect_silence(_metadata, client);
}

CASE(requester, flush_without_depth, "3 initiator depth", "with depth 0 FLUSH fails at once")
{
	need_depth(_metadata, &self->client, wr_flush());
}

CASE(requester, atomic_write_without_depth, "3 initiator depth",
     "with depth 0 ATOMIC WRITE fails at once")
{
	need_depth(_metadata, &self->client, wr_atomic_write());
}

CASE(requester, read_without_depth, "3 initiator depth", "with depth 0 READ fails at once")
{
	need_depth(_metadata, &self->client, wr_read());
}

CASE(requester, psns, "1 PSN use", "one PSN each, and 0 after ffffff")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct client *client = &self->client;
	struct packet rq[10];
	int i;

	config.own_psn = 0xfffffa;
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	for (i = 0; i < 10; i++)
		rq[i] = post_and_expect(_metadata, client, i & 1 ? wr_flush() : wr_atomic_write());
	for (i = 0; i < 10; i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 1);
}

CASE(requester, mixed_completions, "2 WC opcode",
     "opcode and order of the completions of a mixed queue; ATOMIC WRITE has 8 bytes")
{
	static const enum ibv_wc_opcode opcodes_wanted[] = {
		IBV_WC_FLUSH, IBV_WC_RDMA_READ, IBV_WC_ATOMIC_WRITE, IBV_WC_FETCH_ADD, IBV_WC_FLUSH,
	};
	struct client *client = &self->client;
	struct packet rq[5];
	struct ibv_wc wc;
	__u64 i;

	for (i = 0; i < 5; i++)
		rq[i] = post_and_expect(_metadata, client, wr_of_depth(i));
	for (i = 0; i < 5; i++)
		respond(client, &rq[i]);
	for (i = 0; i < 5; i++) {
		ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS));
		EXPECT_EQ(i + 1, wc.wr_id);
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
		EXPECT_EQ(opcodes_wanted[i], wc.opcode);
		if (wc.opcode == IBV_WC_ATOMIC_WRITE)
			EXPECT_EQ(8, wc.byte_len);
	}
}

CASE(requester, data_of_a_neighbour, "3 credits",
     "an Atomic between both verbs gets its data, and nothing else is stored anywhere")
{
	struct client *client = &self->client;
	struct wr wr[] = { wr_atomic_write(), wr_fetch_add(), wr_flush() };
	struct packet rq[ARRAY_SIZE(wr)];
	__u64 data = REMOTE_DATA;
	int i;

	memset(client->end.memory, 0x5a, MEMORY_LEN);
	for (i = 0; i < (int)ARRAY_SIZE(wr); i++)
		rq[i] = post_and_expect(_metadata, client, wr[i]);
	for (i = 0; i < (int)ARRAY_SIZE(wr); i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 1);
	EXPECT_EQ(0, memcmp(client->end.memory, &data, 8));
	for (i = 8; i < (int)MEMORY_LEN; i++)
		ASSERT_EQ(0x5a, client->end.memory[i]);
}

/* ---- Both verbs alike ---- */

FIXTURE_VARIANT(posted) {
	struct wr (*make)(void);
};

PATIENT_FIXTURE(posted)

ROW(posted, flush, "1 FLUSH", "FLUSH") { wr_flush };
ROW(posted, atomic_write, "1 ATOMIC WRITE", "ATOMIC WRITE") { wr_atomic_write };

CASE(posted, unsolicited, "1 BTH.SE", "posted as solicited, it still has no SE bit")
{
	struct wr wr = variant->make();
	struct packet rq;

	wr.flags |= IBV_SEND_SOLICITED;
	rq = post_and_expect(_metadata, &self->client, wr);
	respond(&self->client, &rq);
	expect_successes(_metadata, &self->client, 1);
}

CASE(posted, unsignaled, "2 completions", "completes without a word if that is asked for")
{
	struct wr wr = variant->make();
	struct packet rq;

	wr.flags = 0;
	rq = post_and_expect(_metadata, &self->client, wr);
	respond(&self->client, &rq);
	expect_silence(_metadata, &self->client);
}

CASE(posted, waits_for_its_response, "3 completion", "without an answer there is no completion")
{
	post_and_expect(_metadata, &self->client, variant->make());
	expect_silence(_metadata, &self->client);
}

CASE(posted, many, "3 completion", "100 of them, 16 at a time")
{
	struct client *client = &self->client;
	struct packet rq[100];
	int i;

	for (i = 0; i < 100; i++)
		rq[i] = post(_metadata, client, variant->make());
	for (i = 0; i < 100; i++) {
		expect_packet(_metadata, &rq[i]);
		respond(client, &rq[i]);
	}
	expect_successes(_metadata, client, 1);
}

CASE(posted, write_goes_ahead, "3 pipelining", "a WRITE after it does not wait for its response")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());
	struct packet write = post_and_expect(_metadata, client, wr_write());

	respond(client, &rq);
	respond(client, &write);
	expect_successes(_metadata, client, 1);
}

CASE(posted, fence_waits_for_it, "3 IB_SEND_FENCE", "a fenced WRITE waits for its response")
{
	struct client *client = &self->client;
	struct wr fenced = wr_write();
	struct packet rq = post_and_expect(_metadata, client, variant->make()), write;

	fenced.flags |= IBV_SEND_FENCE;
	write = post(_metadata, client, fenced);
	expect_silence(_metadata, client);
	respond(client, &rq);
	expect_packet(_metadata, &write);
	respond(client, &write);
	expect_successes(_metadata, client, 1);
}

CASE(posted, fence_outlives_its_failure, "3 IB_SEND_FENCE",
     "its response is bad: a fenced WRITE that waits for it is flushed, and not sent")
{
	struct client *client = &self->client;
	struct wr fenced = wr_write();
	struct packet rq = post_and_expect(_metadata, client, variant->make()), answer;

	fenced.flags |= IBV_SEND_FENCE;
	post(_metadata, client, fenced);
	expect_silence(_metadata, client);
	answer = response(client, &rq);
	answer.payload_len = 8;
	peer_send(&answer);
	expect_wc(_metadata, client, 1, IBV_WC_BAD_RESP_ERR);
	expect_wc(_metadata, client, 2, IBV_WC_WR_FLUSH_ERR);
	expect_silence(_metadata, client);
}

CASE(posted, fence_waits_for_all, "3 IB_SEND_FENCE",
     "of three outstanding, the fenced one after them waits for the last")
{
	struct client *client = &self->client;
	struct wr fenced = variant->make();
	struct packet rq[3], last;
	int i;

	fenced.flags |= IBV_SEND_FENCE;
	for (i = 0; i < 3; i++)
		rq[i] = post_and_expect(_metadata, client, variant->make());
	last = post(_metadata, client, fenced);
	for (i = 0; i < 3; i++) {
		expect_silence(_metadata, client);
		respond(client, &rq[i]);
		expect_wc(_metadata, client, i + 1, IBV_WC_SUCCESS);
	}
	expect_packet(_metadata, &last);
	respond(client, &last);
	expect_successes(_metadata, client, 4);
}

CASE(posted, fenced_waits_for_read, "3 IB_SEND_FENCE", "fenced, it waits for a READ")
{
	struct client *client = &self->client;
	struct wr fenced = variant->make();
	struct packet read = post_and_expect(_metadata, client, wr_read()), rq;

	fenced.flags |= IBV_SEND_FENCE;
	rq = post(_metadata, client, fenced);
	expect_silence(_metadata, client);
	respond(client, &read);
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_successes(_metadata, client, 1);
}

CASE(posted, response_covers_earlier_write, "3 completion",
     "its response acknowledges the WRITE before it: both complete, in order")
{
	struct client *client = &self->client;
	struct packet rq;

	post_and_expect(_metadata, client, wr_write());
	rq = post_and_expect(_metadata, client, variant->make());
	client->line.msn++;
	respond(client, &rq);
	expect_successes(_metadata, client, 1);
}

CASE(posted, earlier_ack_is_not_its_own, "3 completion",
     "the acknowledgment of the WRITE before it completes that only")
{
	struct client *client = &self->client;
	struct packet write = post_and_expect(_metadata, client, wr_write());
	struct packet rq = post_and_expect(_metadata, client, variant->make());

	respond(client, &write);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
	respond(client, &rq);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
}

CASE(posted, response_again, "3 completion",
     "its response comes a second time, which completes nothing after it")
{
	struct client *client = &self->client;
	struct packet rq[2], answer;
	int i;

	for (i = 0; i < 2; i++)
		rq[i] = post_and_expect(_metadata, client, variant->make());
	answer = response(client, &rq[0]);
	peer_send(&answer);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	peer_send(&answer);
	expect_silence(_metadata, client);
	respond(client, &rq[1]);
	expect_wc(_metadata, client, 2, IBV_WC_SUCCESS);
}

CASE(posted, later_ack, "3 completion",
     "the acknowledgment of a WRITE after it says nothing about it: sent again, both complete")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, variant->make());
	rq[1] = post_and_expect(_metadata, client, wr_write());
	acknowledge(client, &rq[1], 0x1f);
	expect_retransmission(_metadata, rq, 2);
	expect_silence(_metadata, client);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(posted, later_response, "3 completion",
     "the response to the one after it says nothing about it: sent again, both complete")
{
	struct client *client = &self->client;
	struct packet rq[2], answer;
	int i;

	for (i = 0; i < 2; i++)
		rq[i] = post_and_expect(_metadata, client, variant->make());
	answer = response(client, &rq[1]);
	peer_send(&answer);
	expect_retransmission(_metadata, rq, 2);
	expect_silence(_metadata, client);
	client->line.msn = 0;
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(posted, nak_psn, "4 retransmission", "byte-identical after a NAK PSN sequence, then completed")
{
	struct client *client = &self->client;
	struct packet rq[3];
	int i;

	for (i = 0; i < 3; i++)
		rq[i] = post_and_expect(_metadata, client, variant->make());
	acknowledge(client, &rq[0], ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, rq, 3);
	for (i = 0; i < 3; i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 1);
}

CASE(posted, nak_psn_in_the_middle, "4 retransmission",
     "a NAK PSN sequence for the third sends what is not answered yet; no earlier one is lost")
{
	struct client *client = &self->client;
	struct packet rq[4];
	int i;

	for (i = 0; i < 4; i++)
		rq[i] = post_and_expect(_metadata, client, variant->make());
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	acknowledge(client, &rq[1], ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, rq + 1, 3);
	for (i = 1; i < 4; i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 2);
}

CASE(posted, nak_psn_behind_it, "3 completion",
     "a NAK PSN sequence for the WRITE after it is no response to it")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, variant->make());
	rq[1] = post_and_expect(_metadata, client, wr_write());
	acknowledge(client, &rq[1], ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, rq, 2);
	expect_silence(_metadata, client);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(posted, rnr_of_a_neighbour, "4 retransmission",
     "byte-identical when the SEND before it found no receiver and all is sent again")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, wr_send());
	rq[1] = post_and_expect(_metadata, client, variant->make());
	acknowledge(client, &rq[0], ROCE_AETH_RNR_NAK | 1);
	expect_healing(_metadata, client, rq, 2);
}

CASE(posted, qp_to_error, "3 completion", "outstanding and waiting ones are flushed, in order")
{
	struct client *client = &self->client;
	int i;

	for (i = 0; i < 20; i++)
		post(_metadata, client, variant->make());
	rxe_modify_qp(&client->line.qp, IBV_QPS_ERR);
	for (i = 1; i <= 20; i++)
		expect_wc(_metadata, client, i, IBV_WC_WR_FLUSH_ERR);
}

/* ---- Initiator depth ---- */

FIXTURE_VARIANT(depth) {
	int depth;
};

CLIENT_FIXTURE(depth)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.depth = variant->depth;
	client_open(&self->client, &config);
}

ROW(depth, of_1, "3 initiator depth", "depth 1") { 1 };
ROW(depth, of_2, "3 initiator depth", "depth 2") { 2 };
ROW(depth, of_3, "3 initiator depth", "depth 3, which is no power of two") { 3 };
ROW(depth, of_4, "3 initiator depth", "depth 4") { 4 };
ROW(depth, of_16, "3 initiator depth", "depth 16") { 16 };

/* Post more than may be outstanding; see that no more are, ever, and that all complete. */
static void keeps_to_depth(struct __test_metadata *_metadata, struct client *client, int depth,
			   struct wr (*make)(int i))
{
	struct packet rq[40];
	int n = depth * 2 + 3, sent, answered;

	for (sent = 0; sent < n; sent++)
		rq[sent] = post(_metadata, client, make(sent));
	for (sent = 0; sent < depth; sent++)
		expect_packet(_metadata, &rq[sent]);
	for (answered = 0; answered < n; answered++) {
		expect_silence(_metadata, client);
		respond(client, &rq[answered]);
		expect_wc(_metadata, client, answered + 1, IBV_WC_SUCCESS);
		if (sent < n)
			expect_packet(_metadata, &rq[sent++]);
	}
	expect_silence(_metadata, client);
}

static struct wr only_flush(int i)
{
	return i & 1 ? wr_flush_region() : wr_flush();
}

static struct wr only_atomic_write(int i __attribute__((unused)))
{
	return wr_atomic_write();
}

CASE(depth, flush, "3 initiator depth", "no more FLUSHes are outstanding")
{
	keeps_to_depth(_metadata, &self->client, variant->depth, only_flush);
}

CASE(depth, atomic_write, "3 initiator depth", "no more ATOMIC WRITEs are outstanding")
{
	keeps_to_depth(_metadata, &self->client, variant->depth, only_atomic_write);
}

CASE(depth, mixed, "3 initiator depth",
     "no more FLUSHes, ATOMIC WRITEs, READs and Atomics together are outstanding")
{
	keeps_to_depth(_metadata, &self->client, variant->depth, wr_of_depth);
}

/* ---- Counters of the series ---- */

FIXTURE_VARIANT(told_request) {
	struct wr	(*make)(void);
	const char	*counter;
};

FIXTURE(told_request) { struct client client; };

FIXTURE_SETUP(told_request)
{
	NEED_COUNTERS();
	client_open(&self->client, &RXE_QP_DEFAULT);
}

FIXTURE_TEARDOWN(told_request)
{
	client_close(&self->client);
}

ROW(told_request, flush_range, "counters", "FLUSH of a range") { wr_flush, "flush_sent" };
ROW(told_request, flush_region, "counters", "FLUSH of the whole region") {
	wr_flush_region, "flush_sent" };
ROW(told_request, atomic_write, "counters", "ATOMIC WRITE") {
	wr_atomic_write, "atomic_write_sent" };

CASE(told_request, sent, "counters", "counted when it is sent, and when it is sent again")
{
	unsigned long long before = rxe_counter(variant->counter);
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());

	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_retransmission(_metadata, &rq, 1);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	EXPECT_EQ(before + 2, rxe_wait_counter(variant->counter, before + 2, ANSWER_MS));
}
