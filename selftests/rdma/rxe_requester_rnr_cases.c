// SPDX-License-Identifier: GPL-2.0
/* The kernel as requester: SENDs that find no receive request, and RNR NAKs. */
#include "rxe_requester.h"

PATIENT_FIXTURE(rnr)

CASE(rnr, failing_behind, "4 retransmission",
     "RNR NAK for a SEND with a failure after it: sent again; then success, and the error")
{
	struct client *client = &self->client;
	struct wr bad = wr_write();
	struct packet rq;

	bad.outside = true;
	rq = post_and_expect(_metadata, client, wr_send());
	post(_metadata, client, bad);
	post(_metadata, client, wr_write());
	acknowledge(client, &rq, ROCE_AETH_RNR_NAK | 1);
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_wc(_metadata, client, 2, IBV_WC_LOC_PROT_ERR);
	expect_wc(_metadata, client, 3, IBV_WC_WR_FLUSH_ERR);
	expect_silence(_metadata, client);
}

/*
 * More packets than may be unanswered, so that the requester stops amid them; only these are in the
 * region.
 */
#define SENDABLE	140

/* Post a SEND whose last packet cannot be sent, which the requester does not come to yet. */
static void post_half_sendable(struct __test_metadata *_metadata, struct client *client)
{
	static __u8 data[SENDABLE * MAX_MTU];

	post_long(_metadata, client, IBV_WR_SEND, data, SENDABLE * MTU, (SENDABLE + 1) * MTU);
}

/*
 * What comes before a pulse is packets of the SEND that begins with PSN @first, in order: so many.
 * Where each QP has a worker, the pulse may overtake them. So pulses go on until one of them brings
 * no more.
 */
static int expect_part_of_send(struct __test_metadata *_metadata, struct client *client,
			       __u32 first)
{
	struct packet packet, pulse, answer;
	int n = 0, before;
	struct frame frame;

	do {
		before = n;
		pulse = post_on(_metadata, client, &client->pulse, wr_write());
		for (;; n++) {
			ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
			ASSERT_TRUE(frame_to_packet(&frame, &packet));
			if (packet.qpn == pulse.qpn)
				break;
			ASSERT_EQ(n ? ROCE_RC_SEND_MIDDLE : ROCE_RC_SEND_FIRST, packet.opcode);
			ASSERT_EQ(psn_add(first, n), packet.psn);
		}
		answer = response_on(&client->pulse, &pulse);
		peer_send(&answer);
		expect_wc(_metadata, client, client->pulse.id, IBV_WC_SUCCESS);
	} while (n < SENDABLE / 2 || n != before);
	return n;
}

CASE(rnr, longer_than_the_timeout, "4 retry counters",
     "without a retry, RNR waits that are longer than the timeout use up none; then success")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 0);
	struct client *client = &self->client;
	struct packet rq;
	int i;

	line_open(client, &client->line, &config);
	rq = post_and_expect(_metadata, client, wr_send());
	for (i = 0; i < 2; i++) {
		/* 0: the longest time, 655 ms */
		acknowledge(client, &rq, ROCE_AETH_RNR_NAK);
		expect_packet(_metadata, &rq);
	}
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
}

CASE(rnr, resets_retries, "4 retry counters",
     "with one retry, each SEND may be lost once before an RNR NAK, which starts the count anew")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 1);
	struct client *client = &self->client;
	struct packet rq;
	int i;

	line_open(client, &client->line, &config);
	rq = post_and_expect(_metadata, client, wr_send());
	for (i = 0; i < 2; i++) {
		expect_again_roughly(_metadata, &rq);
		acknowledge(client, &rq, ROCE_AETH_RNR_NAK | 1);
		expect_packet(_metadata, &rq);
	}
	respond(client, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
}

/* A SEND that begins with PSN @first comes on from its packet @from. */
static void expect_rest_of_send(struct __test_metadata *_metadata, __u32 first, int from, int n)
{
	struct packet packet;
	struct frame frame;
	int i;

	for (i = from; i < n; i++) {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
			TH_LOG("packet %d does not come", i);
		}
		ASSERT_TRUE(frame_to_packet(&frame, &packet));
		ASSERT_EQ(psn_add(first, i), packet.psn);
	}
}

CASE(rnr, naks_reset_retries, "4 retry counters",
     "with one retry, a SEND of which each NAK acknowledges one more packet comes to its end")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 1);
	struct client *client = &self->client;
	struct packet part = { .psn = config.own_psn };
	static __u8 data[4 * MAX_MTU];
	int i;

	line_open(client, &client->line, &config);
	post_long(_metadata, client, IBV_WR_SEND, data, 4 * MTU, 4 * MTU);
	expect_rest_of_send(_metadata, config.own_psn, 0, 4);
	for (i = 1; i < 4; i++) {
		part.psn = psn_add(config.own_psn, i);
		acknowledge(client, &part, ROCE_AETH_NAK_PSN);
		/* At once, or when the time is over: it is for one such NAK to begin anew. */
		expect_rest_of_send(_metadata, config.own_psn, i, 4);
	}
	acknowledge(client, &part, ROCE_AETH_ACK);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
}

CASE(rnr, without_end, "4 retry counters",
     "rnr_retry 7: a SEND to a QP of the device waits two seconds for its receive, then succeeds")
{
	struct rxe_qp_config config = with_timeout(SHORT_TIMEOUT, 7);
	struct client *client = &self->client;
	struct ibv_sge sge = { (uintptr_t)client->mr->addr, 8, client->mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad_wr;
	struct rxe_qp pair[2];
	struct ibv_wc wc;
	int i;

	rxe_make_pair(&client->end, &config, pair);
	ASSERT_EQ(0, ibv_post_send(pair[0].qp, &wr, &bad_wr));
	ASSERT_FALSE(rxe_wait_wc(&client->end, &wc, 2000)) {
		TH_LOG("%s", ibv_wc_status_str(wc.status));
	}
	rxe_post_recv(&pair[1], client->mr, sge.addr + PAGE, 8);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS));
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
	}
}

CASE(rnr, failing_itself, "4 retransmission",
     "RNR NAK, then NAK PSN sequence, for a SEND whose end cannot be sent: error, the rest flushed")
{
	struct client *client = &self->client;
	struct packet first = { .psn = client->line.psn }, later;
	struct frame frame;
	int sent;

	post_half_sendable(_metadata, client);
	sent = expect_part_of_send(_metadata, client, first.psn);
	ASSERT_LT(sent, SENDABLE) {
		TH_LOG("the requester has not stopped, so nothing is shown");
	}
	post(_metadata, client, wr_write());

	/*
	 * 0: the longest time, so that the second NAK comes before it ends, and lets the requester
	 * go on.
	 */
	acknowledge(client, &first, ROCE_AETH_RNR_NAK);
	later.psn = psn_add(first.psn, sent / 2);
	acknowledge(client, &later, ROCE_AETH_NAK_PSN);
	expect_wc(_metadata, client, 1, IBV_WC_LOC_PROT_ERR);
	expect_wc(_metadata, client, 2, IBV_WC_WR_FLUSH_ERR);
	while (peer_recv_frame(&frame, 0))
		;
	expect_silence(_metadata, client);
}

/*
 * Answers of before keep coming while the kernel waits for the time that the RNR NAK says, and ends
 * to wait.
 */
static void expect_amid_old_answers(struct __test_metadata *_metadata,
				    const struct packet old[2], const struct packet *rq)
{
	char want[WORDS_LEN], got[WORDS_LEN];
	struct frame frame;
	unsigned int i;

	for (i = 0; i < 100000 && !peer_recv_frame(&frame, 0); i++)
		peer_send(&old[i & 1]);
	ASSERT_LT(i, 100000);
	ASSERT_STREQ(wanted_words(rq, want), words_or_nothing(&frame, true, got));
	ASSERT_EQ(0, memcmp(frame.wire.roce + headers_len(rq->opcode), rq->payload,
			    rq->payload_len));
}

CASE(rnr, amid_answers, "4 retransmission",
     "the kernel begins again while answers come in: each request keeps its PSN, none is left out")
{
	struct client *client = &self->client;
	struct packet rq[4], old[2];
	int i, round;

	for (round = 0; round < 30; round++) {
		rq[0] = post_and_expect(_metadata, client, wr_write());
		rq[1] = post_and_expect(_metadata, client, wr_flush());
		rq[2] = post_and_expect(_metadata, client, wr_send());
		rq[3] = post_and_expect(_metadata, client, wr_atomic_write());
		for (i = 0; i < 2; i++) {
			old[i] = response(client, &rq[i]);
			peer_send(&old[i]);
			expect_wc(_metadata, client, 4 * round + i + 1, IBV_WC_SUCCESS);
		}
		/* 1: the shortest time */
		acknowledge(client, &rq[2], ROCE_AETH_RNR_NAK | 1);
		expect_amid_old_answers(_metadata, old, &rq[2]);
		expect_packet(_metadata, &rq[3]);
		respond(client, &rq[2]);
		respond(client, &rq[3]);
		expect_successes(_metadata, client, 4 * round + 3);
	}
	expect_silence(_metadata, client);
}
