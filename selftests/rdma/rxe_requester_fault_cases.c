// SPDX-License-Identifier: GPL-2.0
/* The kernel as requester: lost packets, wrong answers, NAKs. */
#include "rxe_requester.h"

/* ---- Time-outs ---- */

FIXTURE_VARIANT(lost) {
	struct wr (*make)(void);
};

IMPATIENT_FIXTURE(lost, LONG_TIMEOUT)

ROW(lost, flush, "1 FLUSH", "FLUSH") { wr_flush };
ROW(lost, atomic_write, "1 ATOMIC WRITE", "ATOMIC WRITE") { wr_atomic_write };

CASE(lost, alone, "4 retransmission", "byte-identical after a time-out, then completed")
{
	struct client *client = &self->client;
	struct packet rq = post_and_expect(_metadata, client, variant->make());

	expect_healing(_metadata, client, &rq, 1);
}

CASE(lost, on_its_way_out, "4 retransmission",
     "dropped by the link of the kernel itself: sent after a time-out, as if it was lost elsewhere")
{
	/* One second: the end of the stall may take longer than seven retries. */
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT + 2, 7);
	struct client *client = &self->client;
	unsigned long long errors;
	struct packet rq;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	errors = rxe_counter("send_err");
	peer_choke_link();
	rq = post(_metadata, client, variant->make());
	EXPECT_LT(errors, rxe_wait_counter("send_err", errors + 1, ANSWER_MS)) {
		TH_LOG("it could be sent, so nothing is shown");
	}
	peer_end_stall();
	expect_packet(_metadata, &rq);
	respond(client, &rq);
	expect_successes(_metadata, client, 1);
}

CASE(lost, dropped_each_time, "4 retransmission",
     "with two retries, each dropped by the link of the kernel itself: RETRY_EXC_ERR")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 2);
	struct client *client = &self->client;
	unsigned long long errors;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	errors = rxe_counter("send_err");
	peer_choke_link();
	post(_metadata, client, variant->make());
	expect_wc(_metadata, client, 1, IBV_WC_RETRY_EXC_ERR);
	peer_end_stall();
	EXPECT_EQ(errors + 3, rxe_counter("send_err"));
}

CASE(lost, dropped_without_a_timeout, "4 retransmission",
     "dropped by the link of the kernel itself, where no timer would tell: an error, and no hang")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct client *client = &self->client;
	struct ibv_wc wc;
	bool any;

	config.retries = 2;
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	peer_choke_link();
	post(_metadata, client, variant->make());
	any = rxe_wait_wc(&client->end, &wc, ANSWER_MS);
	peer_end_stall();
	ASSERT_TRUE(any) {
		TH_LOG("it never completes");
	}
	ASSERT_EQ(1, wc.wr_id);
	/* A kernel that moves the QP to the error state at once flushes it. */
	EXPECT_TRUE(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_LOC_QP_OP_ERR ||
		    wc.status == IBV_WC_WR_FLUSH_ERR) {
		TH_LOG("%s", ibv_wc_status_str(wc.status));
	}
}

CASE(lost, among_others, "4 retransmission",
     "byte-identical, and so are its neighbours, WRITE, READ and Atomic")
{
	struct client *client = &self->client;
	const struct wr wr[5] = {
		wr_write(), variant->make(), wr_read(), variant->make(), wr_fetch_add(),
	};
	struct packet rq[5];
	int i;

	/* At once: on a slow machine the first would be sent again before the last is posted. */
	post_all(_metadata, client, wr, 5, rq);
	for (i = 0; i < 2; i++)
		expect_retransmission(_metadata, rq, 5);
	for (i = 0; i < 5; i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 1);
}

CASE(lost, all_but_the_first, "4 retransmission", "what was answered is not sent again")
{
	struct client *client = &self->client;
	const struct wr wr[3] = { variant->make(), variant->make(), variant->make() };
	struct packet rq[3];
	int i;

	post_all(_metadata, client, wr, 3, rq);
	for (i = 0; i < 3; i++)
		expect_packet(_metadata, &rq[i]);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_retransmission(_metadata, rq + 1, 2);
	for (i = 1; i < 3; i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 2);
}

CASE(lost, behind_a_half_answered_read, "4 retransmission",
     "byte-identical after a READ of which the second half is asked for again")
{
	struct client *client = &self->client;
	struct packet rq[2], half;

	rq[0] = post_and_expect(_metadata, client,
				wr_to(IBV_WR_RDMA_READ, REMOTE_VA, 2 * MTU));
	rq[1] = post_and_expect(_metadata, client, variant->make());
	half = response(client, &rq[0]);
	half.opcode = ROCE_RC_READ_RESPONSE_FIRST;
	half.payload_len = MTU;
	peer_send(&half);

	rq[0].psn = psn_add(rq[0].psn, 1);
	rq[0].va += MTU;
	rq[0].dmalen -= MTU;
	expect_retransmission(_metadata, rq, 2);
	half.opcode = ROCE_RC_READ_RESPONSE_LAST;
	half.psn = rq[0].psn;
	peer_send(&half);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(lost, rnr_of_a_neighbour_behind, "3 completion",
     "an RNR NAK of the SEND after it is no response to it")
{
	struct client *client = &self->client;
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, variant->make());
	rq[1] = post_and_expect(_metadata, client, wr_send());
	acknowledge(client, &rq[1], ROCE_AETH_RNR_NAK | 1);
	expect_retransmission(_metadata, rq, 2);
	respond(client, &rq[0]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(lost, for_good, "4 retransmission",
     "with one retry: sent twice, then RETRY_EXC_ERR, and what waits after it is flushed")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 1);
	struct client *client = &self->client;
	struct packet rq;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	rq = post_and_expect(_metadata, client, variant->make());
	expect_again_roughly(_metadata, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_RETRY_EXC_ERR);
	post(_metadata, client, variant->make());
	expect_wc(_metadata, client, 2, IBV_WC_WR_FLUSH_ERR);
}

CASE(lost, seven_times, "4 retry counters",
     "with seven retries, the most there are: sent eight times, then RETRY_EXC_ERR")
{
	struct rxe_qp_config config = with_timeout(SHORT_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq;
	int i;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	rq = post_and_expect(_metadata, client, variant->make());
	for (i = 0; i < 7; i++)
		expect_again_roughly(_metadata, &rq);
	expect_wc(_metadata, client, 1, IBV_WC_RETRY_EXC_ERR);
}

CASE(lost, progress_resets_retries, "4 retry counters",
     "with one retry, each of four may be lost once: a response starts the count anew")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 1);
	struct client *client = &self->client;
	struct packet rq;
	int i;

	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	for (i = 1; i <= 4; i++) {
		rq = post_and_expect(_metadata, client, variant->make());
		expect_again_roughly(_metadata, &rq);
		respond(client, &rq);
		expect_wc(_metadata, client, i, IBV_WC_SUCCESS);
	}
}

CASE(lost, takes_no_second_credit, "3 credits",
     "sent again, it still takes and returns one of the initiator depth")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq[3];
	int i;

	config.depth = 1;
	line_open(client, &client->line, &config);
	line_meet(client, &client->line);
	rq[0] = post_and_expect(_metadata, client, variant->make());
	expect_again_roughly(_metadata, &rq[0]);
	respond(client, &rq[0]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);

	for (i = 1; i < 3; i++)
		rq[i] = post(_metadata, client, variant->make());
	expect_packet(_metadata, &rq[1]);
	/* Not rq[2], but: */
	expect_again_roughly(_metadata, &rq[1]);
	respond(client, &rq[1]);
	expect_packet(_metadata, &rq[2]);
	respond(client, &rq[2]);
	expect_successes(_metadata, client, 2);
}

CASE(lost, fenced, "3 fence", "with a fence: sent again, it does not wait for its own response")
{
	struct client *client = &self->client;
	struct wr wr = variant->make();
	struct packet rq;

	wr.flags |= IBV_SEND_FENCE;
	rq = post_and_expect(_metadata, client, wr);
	expect_healing(_metadata, client, &rq, 1);
}

IMPATIENT_FIXTURE(lost_read, LONG_TIMEOUT)

CASE(lost_read, fenced, "3 fence",
     "one READ with a fence: sent again, it does not wait for its own response")
{
	struct client *client = &self->client;
	struct wr wr = wr_read();
	struct packet rq;

	wr.flags |= IBV_SEND_FENCE;
	rq = post_and_expect(_metadata, client, wr);
	expect_healing(_metadata, client, &rq, 1);
}

CASE(lost, behind_a_fence, "3 fence",
     "a SEND with a fence, sent again, does not wait for the response to the next")
{
	struct client *client = &self->client;
	struct wr send = wr_send();
	struct packet rq[2];

	send.flags |= IBV_SEND_FENCE;
	rq[0] = post_and_expect(_metadata, client, send);
	rq[1] = post_and_expect(_metadata, client, variant->make());
	expect_healing(_metadata, client, rq, 2);
}

CASE(lost, before_a_fence, "3 fence", "the next request, with a fence, waits for its response")
{
	struct client *client = &self->client;
	struct wr send = wr_send();
	struct packet rq[2];

	send.flags |= IBV_SEND_FENCE;
	rq[0] = post_and_expect(_metadata, client, variant->make());
	rq[1] = post(_metadata, client, send);
	/* Not rq[1], but: */
	expect_again_roughly(_metadata, &rq[0]);
	respond(client, &rq[0]);
	expect_packet(_metadata, &rq[1]);
	respond(client, &rq[1]);
	expect_successes(_metadata, client, 1);
}

CASE(lost, around_a_bind, "4 retransmission",
     "what was bound between it and a WRITE before it is not bound again")
{
	struct client *client = &self->client;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct packet rq[2];

	rq[0] = post_and_expect(_metadata, client, wr_write());
	ibv_wr_start(qpx);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	build_bind(_metadata, client, qpx);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	rq[1] = post_and_expect(_metadata, client, variant->make());
	expect_healing(_metadata, client, rq, 2);
}

/* ---- A READ of three packets, which is sent again from its middle ---- */

#define READ_PACKETS	3

/* The packet of the READ that has this number; each has bytes of its own. */
static struct packet read_part(struct client *client, const struct packet *rq, int n, __u8 opcode)
{
	struct packet part = {
		.opcode = opcode, .qpn = client->line.qp.qp->qp_num, .psn = psn_add(rq->psn, n),
		.syndrome = 0x1f, .msn = 1, .payload_len = MTU,
	};

	memset(part.payload, 0xa1 + n, MTU);
	return part;
}

static void send_read_part(struct client *client, const struct packet *rq, int n, __u8 opcode)
{
	struct packet part = read_part(client, rq, n, opcode);

	peer_send(&part);
}

/* It is sent, and its first @n packets come in time: the request of the rest. */
static struct packet begin_read(struct __test_metadata *_metadata, struct client *client,
				struct packet *rq, int n)
{
	struct packet rest;
	int i;

	memset(client->end.memory, 0, READ_PACKETS * MTU);
	*rq = post_and_expect(_metadata, client,
			      wr_to(IBV_WR_RDMA_READ, REMOTE_VA, READ_PACKETS * MTU));
	for (i = 0; i < n; i++)
		send_read_part(client, rq, i, i ? ROCE_RC_READ_RESPONSE_MIDDLE :
						  ROCE_RC_READ_RESPONSE_FIRST);
	rest = *rq;
	rest.psn = psn_add(rq->psn, n);
	rest.va += n * MTU;
	rest.dmalen -= n * MTU;
	return rest;
}

FIXTURE_VARIANT(resumed) {
	__u8 opcodes[READ_PACKETS];	/* of those after the time-out; 0: it has come before */
};

IMPATIENT_FIXTURE(resumed, LONG_TIMEOUT)

/* The peer goes on, or answers what is a READ of its own. */
ROW(resumed, middle_and_last, "4 retransmission", "MIDDLE and LAST of the READ as it was") {
	{ 0, ROCE_RC_READ_RESPONSE_MIDDLE, ROCE_RC_READ_RESPONSE_LAST } };
ROW(resumed, first_and_last, "4 retransmission", "FIRST and LAST of the rest") {
	{ 0, ROCE_RC_READ_RESPONSE_FIRST, ROCE_RC_READ_RESPONSE_LAST } };
ROW(resumed, last, "4 retransmission", "LAST of the READ as it was") {
	{ 0, 0, ROCE_RC_READ_RESPONSE_LAST } };
ROW(resumed, only, "4 retransmission", "ONLY of the rest") {
	{ 0, 0, ROCE_RC_READ_RESPONSE_ONLY } };

CASE(resumed, completed, "4 retransmission",
     "the packets before have come, the rest is asked for and comes: success, with all the data")
{
	struct client *client = &self->client;
	struct packet rq, rest;
	int i, n;

	for (n = 0; !variant->opcodes[n]; n++)
		;
	rest = begin_read(_metadata, client, &rq, n);
	expect_retransmission(_metadata, &rest, 1);
	for (i = n; i < READ_PACKETS; i++)
		send_read_part(client, &rq, i, variant->opcodes[i]);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	for (i = 0; i < READ_PACKETS * MTU; i++)
		ASSERT_EQ(0xa1 + i / MTU, client->end.memory[i]);
}

/* ---- A READ that takes half of all PSNs ---- */

#define HUGE_READ	0x80000000

FIXTURE(huge) {
	struct client client;
	__u8 *memory;
	struct ibv_mr *mr;
};

FIXTURE_SETUP(huge)
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);

	client_open(&self->client, &RXE_QP_DEFAULT);
	config.mtu = 256;
	line_open(&self->client, &self->client.line, &config);
	self->memory = rxe_map_pieces(HUGE_READ);
	self->mr = ibv_reg_mr(self->client.end.pd, self->memory, HUGE_READ, IBV_ACCESS_LOCAL_WRITE);
	if (!self->mr)
		err(1, "a region of 2 GiB");
}

FIXTURE_TEARDOWN(huge)
{
	client_close(&self->client);
	munmap(self->memory, HUGE_READ);
}

CASE(huge, lost, "4 retransmission",
     "2 GiB in packets of 256 bytes: sent again after a time-out, then from where it was answered")
{
	struct client *client = &self->client;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct wr wr = wr_to(IBV_WR_RDMA_READ, REMOTE_VA, HUGE_READ);
	struct packet rq, first;

	ibv_wr_start(qpx);
	rq = build_on(client, &client->line, &wr);
	ibv_wr_set_sge(qpx, self->mr->lkey, (uintptr_t)self->memory, wr.len);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	expect_packet(_metadata, &rq);
	expect_retransmission(_metadata, &rq, 1);
	expect_retransmission(_metadata, &rq, 1);
	first = read_part(client, &rq, 0, ROCE_RC_READ_RESPONSE_FIRST);
	first.payload_len = 256;
	peer_send(&first);
	rq.psn = psn_add(rq.psn, 1);
	rq.va += 256;
	rq.dmalen -= 256;
	expect_retransmission(_metadata, &rq, 1);
	EXPECT_EQ(0xa1, self->memory[0]);
	rxe_modify_qp(&client->line.qp, IBV_QPS_ERR);
	expect_wc(_metadata, client, 1, IBV_WC_WR_FLUSH_ERR);
}

/* ---- A loopback: responses come while the request is being sent ---- */

/*
 * The SEND waits for a receive request, by RNR NAKs and retries, which come to the bind again.
 * When the SEND is at last sent with success, it has completed before the requester comes to the
 * bind.
 */
CASE(lost, with_a_fenced_bind_in_a_loopback, "4 retransmission",
     "a bind with a fence between it and a SEND without a receive request is passed by the retries")
{
	struct client *client = &self->client;
	const __u64 value = 0x1122334455667788;
	__u64 *target = (__u64 *)(client->end.memory + PAGE);
	struct rxe_qp pair[2];
	struct ibv_qp_ex *qpx;
	struct ibv_wc wc;
	int id;

	rxe_make_pair(&client->end, &RXE_QP_DEFAULT, pair);
	qpx = ibv_qp_to_qp_ex(pair[0].qp);
	ibv_wr_start(qpx);
	qpx->wr_flags = 0;
	ibv_wr_send(qpx);
	set_sge(client, qpx, 16);
	qpx->wr_id = 1;
	qpx->wr_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
	build_bind(_metadata, client, qpx);
	qpx->wr_id = 2;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	if (variant->make().opcode == IBV_WR_FLUSH)
		ibv_wr_flush(qpx, client->mr->rkey, (uintptr_t)target, 8, IBV_FLUSH_GLOBAL,
			     IBV_FLUSH_RANGE);
	else
		ibv_wr_atomic_write(qpx, client->mr->rkey, (uintptr_t)target, &value);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	ASSERT_EQ(0, ibv_poll_cq(client->end.cq, 1, &wc));

	rxe_post_recv(&pair[1], client->mr, (uintptr_t)client->end.memory + 2 * PAGE, 16);
	for (id = 1; id <= 2;) {
		ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS)) {
			TH_LOG("no completion of request %d", id);
		}
		ASSERT_STREQ("success", ibv_wc_status_str(wc.status));
		if (wc.qp_num != pair[0].qp->qp_num)
			continue;
		ASSERT_EQ(id, (int)wc.wr_id);
		id++;
	}
	ASSERT_EQ(variant->make().opcode == IBV_WR_FLUSH ? 0 : value, *target);
}

/* ---- An acknowledgment of what is being sent again ---- */

/*
 * rxe has up to 65 packets of a QP in its network device.  If that is stalled, it stops within
 * these.
 */
#define LONG_SEND	80

/* A WRITE, a SEND of LONG_SEND packets, and another WRITE, at their PSNs. */
#define STALLED_PACKETS	(LONG_SEND + 2)

FIXTURE(stalled) {
	struct client	client;
	__u8		data[LONG_SEND * MAX_MTU];
	struct packet	rq[STALLED_PACKETS];
};

FIXTURE_SETUP(stalled)
{
	/*
	 * 2 s: what is sent again before the stall is not stopped by it, and commands take their
	 * time.
	 */
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT + 3, 7);
	size_t i;

	client_open(&self->client, &config);
	for (i = 0; i < sizeof(self->data); i++)
		self->data[i] = i / MTU + i;
}

FIXTURE_TEARDOWN(stalled)
{
	peer_end_stall();
	client_close(&self->client);
}

static void post_long_send(struct __test_metadata *_metadata, struct client *client, __u8 *data,
			   struct packet rq[LONG_SEND])
{
	int i;

	post_long(_metadata, client, IBV_WR_SEND, data, LONG_SEND * MTU, LONG_SEND * MTU);
	for (i = 0; i < LONG_SEND; i++) {
		rq[i] = (struct packet) {
			.opcode = !i ? ROCE_RC_SEND_FIRST :
				  i < LONG_SEND - 1 ? ROCE_RC_SEND_MIDDLE : ROCE_RC_SEND_LAST,
			.qpn = client->line.qp.peer_qpn, .psn = client->line.psn,
			.ack_req = i == LONG_SEND - 1, .payload_len = MTU,
		};
		memcpy(rq[i].payload, data + i * MTU, MTU);
		client->line.psn = psn_add(client->line.psn, 1);
	}
}

/*
 * @frame is the request of @rq that has its PSN: the index.  An acknowledgment may be wanted of
 * any packet of a SEND, and must be of the last.
 */
static int expect_one_of(struct __test_metadata *_metadata, const struct frame *frame,
			 const struct packet rq[STALLED_PACKETS])
{
	char want[WORDS_LEN], got[WORDS_LEN];
	struct packet packet;
	__u32 i;

	ASSERT_TRUE(frame_to_packet(frame, &packet));
	i = psn_add(packet.psn, -rq[0].psn);
	ASSERT_LT(i, STALLED_PACKETS) {
		TH_LOG("no request has the PSN of: %s", packet_in_words(&packet, got));
	}
	if (packet.opcode == ROCE_RC_SEND_FIRST || packet.opcode == ROCE_RC_SEND_MIDDLE)
		packet.ack_req = false;
	ASSERT_STREQ(packet_in_words(&rq[i], want), packet_in_words(&packet, got));
	ASSERT_EQ(0, memcmp(rq[i].payload, packet.payload, packet.payload_len));
	return i;
}

/* The next @n frames are the first @n of @rq. */
static void expect_first(struct __test_metadata *_metadata,
			 const struct packet rq[STALLED_PACKETS], int n)
{
	struct frame frame;
	int i;

	for (i = 0; i < n; i++) {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
		ASSERT_EQ(i, expect_one_of(_metadata, &frame, rq));
	}
}

CASE(stalled, acknowledged, "4 retransmission",
     "a SEND is acknowledged while it is sent again: no PSN becomes that of another request")
{
	struct client *client = &self->client;
	struct packet *rq = self->rq;
	struct frame frame;
	struct ibv_wc wc;
	int rounds = 0;

	rq[0] = post(_metadata, client, wr_write());
	post_long_send(_metadata, client, self->data, &rq[1]);
	rq[LONG_SEND + 1] = post(_metadata, client, wr_write());
	expect_first(_metadata, rq, STALLED_PACKETS);

	/* The kernel begins anew, and stops within the SEND. */
	peer_stall_link();
	acknowledge(client, &rq[0], ROCE_AETH_NAK_PSN);
	expect_first(_metadata, rq, 2);
	acknowledge(client, &rq[LONG_SEND], ROCE_AETH_ACK);
	/* That is seen with: */
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	peer_end_stall();

	/* What it stopped at, once; all that is not acknowledged, again, after a time-out. */
	while (!next_is_completion(_metadata, client, &frame, &wc))
		if (expect_one_of(_metadata, &frame, rq) == LONG_SEND + 1 && ++rounds >= 2)
			acknowledge(client, &rq[LONG_SEND + 1], ROCE_AETH_ACK);
	ASSERT_GE(rounds, 2) {
		TH_LOG("the SEND was completed before it was sent again: no stop in it");
	}
	ASSERT_EQ(2, wc.wr_id);
	ASSERT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), ibv_wc_status_str(wc.status));
	expect_wc(_metadata, client, 3, IBV_WC_SUCCESS);
}

/* Destroying a QP takes a fraction of it; on a debug kernel on a busy machine, too. */
#define AT_ONCE_MS	1000

CASE(stalled, leaves_its_qp, "4 retransmission",
     "a QP is destroyed at once while its packets wait in the device; dropping them harms nothing")
{
	struct client *client = &self->client;
	struct rxe_destroy destroy = { .qp = client->line.qp.qp };
	unsigned long long sent = rxe_counter("sent_pkts");
	struct frame frame;

	peer_stall_link();
	post_long_send(_metadata, client, self->data, self->rq);
	ASSERT_LE(sent + 10, rxe_wait_counter("sent_pkts", sent + 10, ANSWER_MS)) {
		TH_LOG("it does not send: nothing is shown");
	}
	EXPECT_TRUE(rxe_destroys_within(&destroy, AT_ONCE_MS)) {
		TH_LOG("destroying the QP waited for its packets");
	}
	/* Now what the QP has sent is freed. */
	peer_end_stall();
	rxe_destroyed(&destroy);
	while (peer_recv_frame(&frame, 0))
		;
	expect_silence(_metadata, client);
}

/* ---- Answers that are none ---- */

FIXTURE_VARIANT(bad_response) {
	void (*spoil)(struct packet *answer);
	enum consequence consequence;
};

IMPATIENT_FIXTURE(bad_response, SHORT_TIMEOUT)

static void spoil_plain_ack(struct packet *answer)
{
	answer->opcode = ROCE_RC_ACK;
}

static void spoil_payload_8(struct packet *answer)
{
	answer->payload_len = 8;
}

static void spoil_payload_1(struct packet *answer)
{
	answer->payload_len = 1;
	answer->pad = 3;
}

static void spoil_payload_mtu(struct packet *answer)
{
	answer->payload_len = MTU;
}

static void spoil_psn_before(struct packet *answer)
{
	answer->psn = psn_add(answer->psn, -1);
}

static void spoil_psn_behind(struct packet *answer)
{
	answer->psn = psn_add(answer->psn, 1);
}

static void spoil_psn_far(struct packet *answer)
{
	answer->psn = psn_add(answer->psn, 0x7fffff);
}

static void spoil_atomic_ack(struct packet *answer)
{
	answer->opcode = ROCE_RC_ATOMIC_ACK;
}

static void spoil_read_first(struct packet *answer)
{
	answer->opcode = ROCE_RC_READ_RESPONSE_FIRST;
}

static void spoil_read_middle(struct packet *answer)
{
	answer->opcode = ROCE_RC_READ_RESPONSE_MIDDLE;
}

static void spoil_read_last(struct packet *answer)
{
	answer->opcode = ROCE_RC_READ_RESPONSE_LAST;
}

static void spoil_read_first_mtu(struct packet *answer)
{
	answer->opcode = ROCE_RC_READ_RESPONSE_FIRST;
	answer->payload_len = MTU;
}

static void spoil_read_last_8(struct packet *answer)
{
	answer->opcode = ROCE_RC_READ_RESPONSE_LAST;
	answer->payload_len = 8;
}

static void spoil_nak_inside(struct packet *answer)
{
	answer->syndrome = ROCE_AETH_NAK_ACCESS;
}

static void spoil_rnr_inside(struct packet *answer)
{
	answer->syndrome = ROCE_AETH_RNR_NAK | 1;
}

static void spoil_reserved_inside(struct packet *answer)
{
	answer->syndrome = 0x40;
}

static void spoil_qpn(struct packet *answer)
{
	answer->qpn ^= 0x800000;
}

ROW(bad_response, plain_ack, "3 completion", "a plain ACKNOWLEDGE with its PSN") {
	spoil_plain_ack, ANSWER_IGNORED };
ROW(bad_response, payload_8, "1 success response", "with 8 bytes of payload") {
	spoil_payload_8, ANSWER_IS_BAD };
ROW(bad_response, payload_1, "1 success response", "with a byte of payload and pad") {
	spoil_payload_1, ANSWER_IS_BAD };
ROW(bad_response, payload_mtu, "1 success response", "with an MTU of payload") {
	spoil_payload_mtu, ANSWER_IS_BAD };
ROW(bad_response, psn_before, "1 success response", "with the PSN before its own") {
	spoil_psn_before, ANSWER_IGNORED };
ROW(bad_response, psn_behind, "1 success response", "with a PSN that was not yet used") {
	spoil_psn_behind, ANSWER_IGNORED };
ROW(bad_response, psn_far, "1 success response", "with a PSN half the circle away") {
	spoil_psn_far, ANSWER_IGNORED };
ROW(bad_response, atomic_ack, "1 success response", "an ATOMIC ACKNOWLEDGE") {
	spoil_atomic_ack, ANSWER_IS_BAD };
ROW(bad_response, read_first, "1 success response", "a READ RESPONSE FIRST, empty") {
	spoil_read_first, ANSWER_IS_BAD };
ROW(bad_response, read_middle, "1 success response", "a READ RESPONSE MIDDLE, empty") {
	spoil_read_middle, ANSWER_IS_BAD };
ROW(bad_response, read_last, "1 success response", "a READ RESPONSE LAST, empty") {
	spoil_read_last, ANSWER_IS_BAD };
ROW(bad_response, read_first_mtu, "1 success response", "a READ RESPONSE FIRST of an MTU") {
	spoil_read_first_mtu, ANSWER_IS_BAD };
ROW(bad_response, read_last_8, "1 success response", "a READ RESPONSE LAST of 8 bytes") {
	spoil_read_last_8, ANSWER_IS_BAD };
ROW(bad_response, nak_inside, "1 success response", "its AETH is a NAK") {
	spoil_nak_inside, ANSWER_IS_BAD };
ROW(bad_response, rnr_inside, "1 success response", "its AETH is an RNR NAK") {
	spoil_rnr_inside, ANSWER_IS_BAD };
ROW(bad_response, reserved_inside, "1 success response", "its AETH is of a reserved kind") {
	spoil_reserved_inside, ANSWER_IS_BAD };
ROW(bad_response, qpn, "1 success response", "for another QP") {
	spoil_qpn, ANSWER_IGNORED };

static void expect_consequence_of(struct __test_metadata *_metadata, struct client *client,
				  struct wr wr, void (*spoil)(struct packet *answer),
				  enum consequence consequence)
{
	struct packet rq = post_and_expect(_metadata, client, wr);
	struct packet answer = response(client, &rq);

	client->line.msn--;
	spoil(&answer);
	peer_send(&answer);
	expect_consequence(_metadata, client, &rq, consequence);
}

CASE(bad_response, flush, "3 completion", "FLUSH is not completed by an answer that is not its own")
{
	expect_consequence_of(_metadata, &self->client, wr_flush(), variant->spoil,
			      variant->consequence);
}

CASE(bad_response, atomic_write, "3 completion",
     "ATOMIC WRITE is not completed by an answer that is not its own")
{
	expect_consequence_of(_metadata, &self->client, wr_atomic_write(), variant->spoil,
			      variant->consequence);
}

FIXTURE_VARIANT(bad_frame) {
	void (*spoil)(struct frame *frame);
};

IMPATIENT_FIXTURE(bad_frame, SHORT_TIMEOUT)

static void spoil_aeth(struct frame *frame)
{
	frame->len -= sizeof(struct roce_aeth);
}

static void spoil_half_aeth(struct frame *frame)
{
	frame->len -= sizeof(struct roce_aeth) / 2;
}

ROW(bad_frame, wrong_icrc, "1 ICRC", "its ICRC is wrong") { spoil_icrc };
ROW(bad_frame, foreign_source, "1 success response", "it comes from elsewhere") { spoil_source };
ROW(bad_frame, without_aeth, "5 packet shorter than its headers", "its AETH is missing") {
	spoil_aeth };
ROW(bad_frame, half_an_aeth, "5 packet shorter than its headers", "its AETH is cut in two") {
	spoil_half_aeth };
ROW(bad_frame, foreign_partition, "1 BTH", "its P_Key is unknown") { spoil_pkey };

static void ignores_frame(struct __test_metadata *_metadata, struct client *client, struct wr wr,
			  void (*spoil)(struct frame *frame))
{
	struct packet rq = post_and_expect(_metadata, client, wr);
	struct packet answer = response(client, &rq);
	struct frame frame;

	client->line.msn--;
	packet_to_frame(&answer, &frame);
	spoil(&frame);
	peer_send_frame(&frame);
	expect_consequence(_metadata, client, &rq, ANSWER_IGNORED);
}

CASE(bad_frame, flush, "3 completion", "FLUSH is not completed by a damaged response")
{
	ignores_frame(_metadata, &self->client, wr_flush(), variant->spoil);
}

CASE(bad_frame, atomic_write, "3 completion", "ATOMIC WRITE is not completed by a damaged response")
{
	ignores_frame(_metadata, &self->client, wr_atomic_write(), variant->spoil);
}

/* ---- NAKs ---- */

FIXTURE_VARIANT(nak) {
	__u8			syndrome;
	enum ibv_wc_status	status;
};

PATIENT_FIXTURE(nak)

ROW(nak, invalid_request, "5 answers", "NAK Invalid Request: REM_INV_REQ_ERR") {
	ROCE_AETH_NAK_INVALID, IBV_WC_REM_INV_REQ_ERR };
ROW(nak, remote_access, "5 answers", "NAK Remote Access Error: REM_ACCESS_ERR") {
	ROCE_AETH_NAK_ACCESS, IBV_WC_REM_ACCESS_ERR };
ROW(nak, remote_operation, "5 answers", "NAK Remote Operational Error: REM_OP_ERR") {
	ROCE_AETH_NAK_OPERATION, IBV_WC_REM_OP_ERR };
ROW(nak, reserved_code, "5 answers", "a NAK code that is reserved: REM_OP_ERR") {
	0x7f, IBV_WC_REM_OP_ERR };

/* A WRITE, then what is refused, then more: the first succeeds, the last are flushed, in order. */
static void fails_by_nak(struct __test_metadata *_metadata, struct client *client, struct wr wr,
			 __u8 syndrome, enum ibv_wc_status status)
{
	struct packet rq;
	__u64 id;

	post_and_expect(_metadata, client, wr_write());
	rq = post_and_expect(_metadata, client, wr);
	post_and_expect(_metadata, client, wr_write());
	post_and_expect(_metadata, client, wr);
	post_and_expect(_metadata, client, wr_read());
	client->line.msn = 1;
	acknowledge(client, &rq, syndrome);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
	expect_wc(_metadata, client, 2, status);
	for (id = 3; id <= client->line.id; id++)
		expect_wc(_metadata, client, id, IBV_WC_WR_FLUSH_ERR);
	expect_silence(_metadata, client);
}

CASE(nak, flush, "5 answers", "of FLUSH; the WRITE before it succeeded, the rest is flushed")
{
	fails_by_nak(_metadata, &self->client, wr_flush(), variant->syndrome, variant->status);
}

CASE(nak, atomic_write, "5 answers",
     "of ATOMIC WRITE; the WRITE before it succeeded, the rest is flushed")
{
	fails_by_nak(_metadata, &self->client, wr_atomic_write(), variant->syndrome,
		     variant->status);
}

/* rxe as responder says so by the PSN that the READ has begun with, however far it has answered. */

CASE(nak, of_a_read_amid_its_answer, "5 answers", "of a READ whose first response has come")
{
	struct client *client = &self->client;
	struct packet rq;

	begin_read(_metadata, client, &rq, 1);
	acknowledge(client, &rq, variant->syndrome);
	expect_wc(_metadata, client, 1, variant->status);
}

CASE(nak, of_a_read_too_late, "5 answers",
     "of a READ as it was sent first, after the rest was asked for again: the READ fails anyway")
{
	struct rxe_qp_config config = with_timeout(LONG_TIMEOUT, 7);
	struct client *client = &self->client;
	struct packet rq, rest;

	line_open(client, &client->line, &config);
	rest = begin_read(_metadata, client, &rq, 1);
	expect_retransmission(_metadata, &rest, 1);
	acknowledge(client, &rq, variant->syndrome);
	expect_wc(_metadata, client, 1, variant->status);
}

/* Such as a late one of what the same QP was connected to before. */
CASE(nak, of_another_amid_a_read, "5 answers",
     "of what was before a READ whose first response has come: the READ goes on")
{
	static const int distances[] = { -1, -0x1000, -0x7ffff0 };
	struct client *client = &self->client;
	struct packet rq, earlier;
	size_t i;

	begin_read(_metadata, client, &rq, 1);
	for (i = 0; i < ARRAY_SIZE(distances); i++) {
		earlier = rq;
		earlier.psn = psn_add(rq.psn, distances[i]);
		acknowledge(client, &earlier, variant->syndrome);
	}
	send_read_part(client, &rq, 1, ROCE_RC_READ_RESPONSE_MIDDLE);
	send_read_part(client, &rq, 2, ROCE_RC_READ_RESPONSE_LAST);
	expect_wc(_metadata, client, 1, IBV_WC_SUCCESS);
}
