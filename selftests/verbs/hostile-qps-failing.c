// SPDX-License-Identifier: GPL-2.0
/*
 * hostile-qps resets a QP that is refusing a request: the QP stays in RESET.
 *
 * It lets a QP fail amid a request, also while another thread posts, and sends more than a receive has room for.
 *
 * It sends a datagram from the link-local GID, which the device also has if IPv6 is disabled.
 */
#include <poll.h>

#include "hostile-qps.h"

/* ---- A QP that is reset while it refuses a request ---- */

FIXTURE(refusing) {
	struct rig rig;
	struct flow pulse;
};

FIXTURE_SETUP(refusing)
{
	open_as_nobody(&self->rig, 1);
	flow_open(&self->rig, &self->pulse, &RXE_QP_DEFAULT);
}

FIXTURE_TEARDOWN(refusing)
{
	rxe_close(&self->rig.end);
}

/* Was the last request of the main flow refused?  A NAK comes before the answer to what was sent after it. */
static bool was_refused(struct __test_metadata *_metadata, FIXTURE_DATA(refusing) *self)
{
	struct packet rq = read_only(&self->rig), packet;
	bool refused = false;
	struct frame frame;

	ask(&self->rig, &self->pulse, &rq);
	for (;;) {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
			TH_LOG("no answer: %llu packets received, %llu out of sequence, %llu sent, %llu failed",
			       rxe_counter("rcvd_pkts"), rxe_counter("out_of_seq_request"),
			       rxe_counter("sent_pkts"), rxe_counter("send_err"));
		}
		ASSERT_TRUE(frame_to_packet(&frame, &packet));
		if (packet.qpn == self->pulse.qp.peer_qpn)
			return refused;
		ASSERT_TRUE(is_nak(&packet, ROCE_AETH_NAK_ACCESS));
		refused = true;
	}
}

/* RESET comes earlier or later each time, so that it meets the refusal. */
TEST_F_TIMEOUT(refusing, reset, PATIENCE)
{
	const long long end = now_ms() + milliseconds;
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	unsigned int rounds, refused = 0;
	struct rig *rig = &self->rig;
	volatile unsigned int spin;
	unsigned int delay = 0;
	struct packet rq;

	config.state = IBV_QPS_RESET;
	for (rounds = 0; rounds < MOST_ROUNDS &&
	     (refused < LEAST || rounds - refused < LEAST || now_ms() < end); rounds++) {
		rq = write_only(rig);
		rq.rkey ^= 1;
		send_raw(&rig->flow, &rq);
		for (spin = 0; spin < delay; spin++)
			;
		rxe_modify_qp(&rig->flow.qp, IBV_QPS_RESET);
		if (was_refused(_metadata, self)) {
			refused++;
			delay -= delay / 8 + !!delay;
		} else {
			delay += delay / 8 + 8;
		}
		ASSERT_EQ(IBV_QPS_RESET, rxe_qp_state(&rig->flow.qp)) {
			TH_LOG("in round %u", rounds);
		}
		rxe_finish_qp(&rig->end, &config, &rig->flow.qp);
	}
	TH_LOG("%u times reset, %u times when the request was refused", rounds, refused);
	EXPECT_GE(refused, LEAST);
	EXPECT_GE(rounds - refused, LEAST);
}

/* ---- A QP that is destroyed when its last receive has completed ---- */

FIXTURE(leaving) {
	struct rig rig;
};

FIXTURE_SETUP(leaving)
{
	open_as_nobody(&self->rig, 1);
}

FIXTURE_TEARDOWN(leaving)
{
	rxe_close(&self->rig.end);
}

/* A message whose completion was seen was received: its sender is told so. */
TEST_F_TIMEOUT(leaving, acknowledges_what_it_has_received, PATIENCE)
{
	const long long end = now_ms() + milliseconds;
	struct rig *rig = &self->rig;
	struct packet rq, answer;
	unsigned int rounds;
	struct frame frame;
	struct ibv_wc wc;

	for (rounds = 0; rounds < MOST_ROUNDS && (rounds < LEAST || now_ms() < end); rounds++) {
		flow_reopen(rig, &RXE_QP_DEFAULT);
		rq = write_part(rig, ROCE_RC_SEND_ONLY, 0, 32);
		rxe_post_recv(&rig->flow.qp, rig->mr, rq.va, 32);
		send_raw(&rig->flow, &rq);
		while (!ibv_poll_cq(rig->end.cq, 1, &wc))
			;
		ASSERT_EQ(0, ibv_destroy_qp(rig->flow.qp.qp));
		ASSERT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), ibv_wc_status_str(wc.status));
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
			TH_LOG("not acknowledged in round %u", rounds);
		}
		ASSERT_TRUE(frame_to_packet(&frame, &answer));
		ASSERT_EQ(ROCE_RC_ACK, answer.opcode);
		ASSERT_EQ(ROCE_AETH_ACK, answer.syndrome & ROCE_AETH_KIND_MASK);
	}
	TH_LOG("%u rounds", rounds);
}

/* ---- A QP that fails amid a request ---- */

FIXTURE(failing) {
	struct rig rig;
	struct rxe_qp_config config;
};

FIXTURE_SETUP(failing)
{
	become_nobody();
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	self->config = RXE_QP_DEFAULT;
}

FIXTURE_TEARDOWN(failing)
{
	rxe_close(&self->rig.end);
}

/* The completion of a RDMA WRITE with immediate finds the CQ full. */
TEST_F_TIMEOUT(failing, leaves_its_region, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_mr *local = rig->mr;
	struct ibv_sge sge = { rig->start, 8, local->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &sge, .num_sge = 1,
	}, *bad_wr;
	struct rxe_destroy dereg = {};
	struct rxe_qp pair[2];
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct ibv_mr *mr;
	long long start;
	int i;

	mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, ACCESS_DRAM);
	ASSERT_NE(NULL, mr);
	rig->end.cq = ibv_create_cq(rig->end.context, 1, NULL, NULL, 0);
	ASSERT_NE(NULL, rig->end.cq);
	/* So many receives does a QP have room for. */
	ASSERT_LT(rig->end.cq->cqe, 4);
	rxe_make_pair(&rig->end, &self->config, pair);
	wr.wr.rdma.remote_addr = rig->start;
	wr.wr.rdma.rkey = mr->rkey;
	for (i = 0; i < 4; i++)
		rxe_post_recv(&pair[0], local, rig->start, 8);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, ibv_post_send(pair[1].qp, &wr, &bad_wr));
	start = now_ms();
	do {
		ASSERT_EQ(0, ibv_query_qp(pair[0].qp, &attr, IBV_QP_STATE, &init_attr));
		ASSERT_LT(now_ms() - start, SOON_MS * wait_scale());
	} while (attr.qp_state != IBV_QPS_ERR);
	dereg.mr = mr;
	EXPECT_TRUE(rxe_destroys_within(&dereg, SOON_MS)) {
		TH_LOG("deregistering a region waited for the QP");
	}
	ASSERT_EQ(0, ibv_destroy_qp(pair[0].qp));
	rxe_destroyed(&dereg);
}

/* For datagrams to a QP of the same device. */
static struct ibv_ah *make_ah(struct __test_metadata *_metadata, struct rig *rig)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .hop_limit = 64, .sgid_index = rig->end.gid_index },
	};
	struct ibv_ah *ah;

	peer_gid(RXE_ADDR, attr.grh.dgid.raw);
	ah = ibv_create_ah(rig->end.pd, &attr);
	ASSERT_NE(NULL, ah);
	return ah;
}

/* More comes than a receive has room for. */
TEST_F_TIMEOUT(failing, ignores_what_is_too_long, PATIENCE)
{
	const __u32 grh = 40, room = 64;
	struct rig *rig = &self->rig;
	struct ibv_sge sge = { rig->start, room + 1, rig->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
	}, *bad_wr;
	struct rxe_qp from, to;
	struct ibv_wc wc;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	wr.wr.ud.ah = make_ah(_metadata, rig);
	wr.wr.ud.remote_qpn = to.qp->qp_num;
	wr.wr.ud.remote_qkey = RXE_QKEY;
	rxe_post_recv(&to, rig->mr, rig->start + 256, grh + room);
	/* It is lost, which its sender does not learn. */
	ASSERT_EQ(0, ibv_post_send(from.qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	ASSERT_EQ(from.qp->qp_num, wc.qp_num);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	/* What fits comes in the same receive. */
	sge.length = room;
	wr.send_flags = 0;
	ASSERT_EQ(0, ibv_post_send(from.qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(to.qp->qp_num, wc.qp_num);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(grh + room, wc.byte_len);
}

/* A send from @from to @to; without memory that it may read it fails. */
static void send_datagram(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *from,
			  struct rxe_qp *to, __u32 lkey, unsigned int flags)
{
	struct ibv_sge sge = { rig->start, 64, lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = flags,
		.wr.ud = {
			.ah = make_ah(_metadata, rig),
			.remote_qpn = to->qp->qp_num, .remote_qkey = RXE_QKEY,
		},
	}, *bad_wr;

	ASSERT_EQ(0, ibv_post_send(from->qp, &wr, &bad_wr));
}

static void expect_wc(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *qp,
		      enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(qp->qp->qp_num, wc.qp_num);
	EXPECT_STREQ(ibv_wc_status_str(status), ibv_wc_status_str(wc.status));
	if (status == IBV_WC_SUCCESS)
		EXPECT_EQ(opcode, wc.opcode);
}

/* As ib_mad does after a MAD that could not be sent. */
static void leave_sqe(struct __test_metadata *_metadata, struct rxe_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };

	ASSERT_EQ(0, ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	EXPECT_EQ(IBV_QPS_RTS, rxe_qp_state(qp));
}

/* A send of a datagram QP fails, and takes it to SQE and back.  Which error it is, datagrams_are_sent_again looks at. */
static void fail_datagram(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *from,
			  struct rxe_qp *to)
{
	struct ibv_wc wc;

	send_datagram(_metadata, rig, from, to, ~rig->mr->lkey, 0);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(from->qp->qp_num, wc.qp_num);
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_QPS_SQE, rxe_qp_state(from));
	leave_sqe(_metadata, from);
}

/* After a send that failed, a datagram QP sends again as soon as it is taken to RTS. */
TEST_F_TIMEOUT(failing, datagrams_are_sent_again, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct rxe_qp from, to;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	send_datagram(_metadata, rig, &from, &to, ~rig->mr->lkey, 0);
	expect_wc(_metadata, rig, &from, IBV_WC_SEND, IBV_WC_LOC_PROT_ERR);
	leave_sqe(_metadata, &from);
	send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, IBV_SEND_SIGNALED);
	expect_wc(_metadata, rig, &from, IBV_WC_SEND, IBV_WC_SUCCESS);
}

/* It does so from each slot of its queue, also from that of the send that has failed. */
TEST_F_TIMEOUT(failing, datagrams_are_sent_from_each_slot, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct rxe_qp from, to;
	unsigned int i;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	fail_datagram(_metadata, rig, &from, &to);
	ASSERT_EQ(0, ibv_query_qp(from.qp, &attr, IBV_QP_CAP, &init_attr));
	/* The queue has at least one slot more, and at most twice as many. */
	for (i = 0; i <= 2 * init_attr.cap.max_send_wr; i++) {
		send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, IBV_SEND_SIGNALED);
		expect_wc(_metadata, rig, &from, IBV_WC_SEND, IBV_WC_SUCCESS);
	}
}

/* The receives of a datagram QP stay when a send of it fails, and one takes what comes afterwards. */
TEST_F_TIMEOUT(failing, datagrams_are_still_received, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct rxe_qp from, to;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	rxe_post_recv(&to, rig->mr, rig->start + 256, 40 + 64);
	fail_datagram(_metadata, rig, &to, &from);
	send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, 0);
	expect_wc(_metadata, rig, &to, IBV_WC_RECV, IBV_WC_SUCCESS);
}

/* Sends that are posted in the error state are flushed, also if there are many for each doorbell. */
TEST_F_TIMEOUT(failing, flushes_what_is_posted_later, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sge = { rig->start, 8, rig->mr->lkey };
	struct ibv_send_wr wr[8] = {}, *bad_wr;
	const int posted = ARRAY_SIZE(wr), rounds = 40;
	struct rxe_qp qp;
	int i, round;

	self->config.queue = 15;
	rxe_make_qp(&rig->end, &self->config, &qp);
	rxe_modify_qp(&qp, IBV_QPS_ERR);
	for (i = 0; i < posted; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < posted ? &wr[i + 1] : NULL;
	}
	for (round = 0; round < rounds; round++) {
		ASSERT_EQ(0, ibv_post_send(qp.qp, wr, &bad_wr));
		for (i = 0; i < posted; i++)
			expect_wc(_metadata, rig, &qp, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
	}
}

/* A user who waits for solicited completions only is told that a QP has failed. */
TEST_F_TIMEOUT(failing, wakes_for_a_receive_that_is_flushed, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct pollfd wait = { .events = POLLIN };
	struct ibv_comp_channel *channel;
	struct rxe_qp qp;

	channel = ibv_create_comp_channel(rig->end.context);
	ASSERT_NE(NULL, channel);
	wait.fd = channel->fd;
	rig->end.cq = ibv_create_cq(rig->end.context, 4, NULL, channel, 0);
	ASSERT_NE(NULL, rig->end.cq);
	rxe_make_qp(&rig->end, &self->config, &qp);
	rxe_post_recv(&qp, rig->mr, rig->start, 8);
	ASSERT_EQ(0, ibv_req_notify_cq(rig->end.cq, true));
	rxe_modify_qp(&qp, IBV_QPS_ERR);
	EXPECT_EQ(1, poll(&wait, 1, SOON_MS * wait_scale()));
}

/* A datagram QP goes on when its CQ is full, and each event that says so takes memory until the user reads it. */
TEST_F_TIMEOUT(failing, tells_once_that_a_cq_is_full, PATIENCE)
{
	const int sent = 20;
	struct rig *rig = &self->rig;
	struct pollfd wait = { .fd = rig->end.context->async_fd, .events = POLLIN };
	struct ibv_cq *full = ibv_create_cq(rig->end.context, 1, NULL, NULL, 0), *cq = rig->end.cq;
	struct ibv_async_event event;
	struct rxe_qp from, to;
	int i;

	ASSERT_NE(NULL, full);
	ASSERT_LT(full->cqe, sent);
	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &to);
	rig->end.cq = full;
	rxe_make_qp(&rig->end, &self->config, &from);
	rig->end.cq = cq;
	for (i = 0; i < sent; i++) {
		rxe_post_recv(&to, rig->mr, rig->start + 256, 40 + 64);
		send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, IBV_SEND_SIGNALED);
		expect_wc(_metadata, rig, &to, IBV_WC_RECV, IBV_WC_SUCCESS);
	}
	ASSERT_EQ(1, poll(&wait, 1, SOON_MS * wait_scale()));
	ASSERT_EQ(0, ibv_get_async_event(rig->end.context, &event));
	EXPECT_EQ(IBV_EVENT_CQ_ERR, event.event_type);
	EXPECT_EQ(full, event.element.cq);
	ibv_ack_async_event(&event);
	EXPECT_EQ(0, poll(&wait, 1, 0));
}

/*
 * If IPv6 is disabled, there is no route from this GID, and the datagram can't be sent.  It is to a multicast address,
 * for which the kernel needs no route to make the AH.
 */
TEST_F_TIMEOUT(failing, datagrams_from_the_link_local_gid, PATIENCE)
{
	const bool ipv6 = !access("/proc/net/if_inet6", F_OK);
	const __u8 link_local[8] = { 0xfe, 0x80 };
	struct rig *rig = &self->rig;
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .hop_limit = 64, .dgid.raw = { 0xff, 0x02, [15] = 1 } },
	};
	struct ibv_sge sge = { rig->start, 64, rig->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .remote_qpn = 0xffffff, .remote_qkey = RXE_QKEY },
	}, *bad_wr;
	union ibv_gid gid;
	struct ibv_wc wc;
	struct rxe_qp qp;

	while (true) {
		ASSERT_EQ(0, ibv_query_gid(rig->end.context, 1, attr.grh.sgid_index, &gid)) {
			TH_LOG("the device has no link-local GID");
		}
		if (!memcmp(gid.raw, link_local, sizeof(link_local)))
			break;
		attr.grh.sgid_index++;
	}
	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &qp);
	wr.wr.ud.ah = ibv_create_ah(rig->end.pd, &attr);
	ASSERT_NE(NULL, wr.wr.ud.ah);
	ASSERT_EQ(0, ibv_post_send(qp.qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(ipv6, wc.status == IBV_WC_SUCCESS) {
		TH_LOG("%s IPv6: %s", ipv6 ? "with" : "without", ibv_wc_status_str(wc.status));
	}
}

#define DATAGRAMS	64

struct failer {
	pthread_t thread;
	struct ibv_qp *_Atomic qp;	/* to be put in error when half is posted; NULL: it is */
	atomic_int posted;
	atomic_bool stop;
	int error;
};

static void *fail(void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct failer *failer = arg;

	stay_on_cpu(1);
	while (!failer->stop) {
		if (!failer->qp || failer->posted < DATAGRAMS / 2)
			continue;
		failer->error = ibv_modify_qp(failer->qp, &attr, IBV_QP_STATE);
		failer->qp = NULL;
	}
	return NULL;
}

/* The next completion is that of the datagram @id. */
static enum ibv_wc_status complete_datagram(struct __test_metadata *_metadata, struct rig *rig, __u64 id)
{
	struct ibv_wc wc;

	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS)) {
		TH_LOG("datagram %llu never completes", id);
	}
	ASSERT_EQ(id, wc.wr_id);
	ASSERT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR);
	return wc.status;
}

/* Datagrams are sent while their QP fails: each completes once, in order, and none twice. */
TEST_F_TIMEOUT(failing, completes_each_datagram_once, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_ah *ah = make_ah(_metadata, rig);
	struct ibv_sge sge = { rig->start, 8, rig->mr->lkey };
	struct ibv_send_wr wr[DATAGRAMS + 1] = { }, *bad_wr;	/* and one more */
	const long long end = now_ms() + milliseconds;
	unsigned int rounds, sent, amid = 0;
	struct failer failer = { };
	struct rxe_qp qp;
	int i;

	stay_on_cpu(0);
	self->config.type = IBV_QPT_UD;
	self->config.queue = DATAGRAMS;
	for (i = 0; i <= DATAGRAMS; i++)
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { .ah = ah, .remote_qkey = RXE_QKEY },
		};
	if (pthread_create(&failer.thread, NULL, fail, &failer))
		errx(1, "no thread");
	for (rounds = 0; rounds < MOST_ROUNDS && (amid < LEAST || now_ms() < end); rounds++) {
		rxe_make_qp(&rig->end, &self->config, &qp);
		failer.posted = 0;
		failer.qp = qp.qp;
		/* One by one, for the kernel sends all that it is given before it returns. */
		for (i = 0; i < DATAGRAMS; i++) {
			ASSERT_EQ(0, ibv_post_send(qp.qp, &wr[i], &bad_wr));
			failer.posted++;
		}
		while (failer.qp)
			;
		ASSERT_EQ(0, failer.error);
		for (sent = 0, i = 0; i < DATAGRAMS; i++)
			sent += complete_datagram(_metadata, rig, i) == IBV_WC_SUCCESS;
		amid += sent && sent < DATAGRAMS;
		/* What would be completed once more comes before this one. */
		ASSERT_EQ(0, ibv_post_send(qp.qp, &wr[DATAGRAMS], &bad_wr));
		ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, complete_datagram(_metadata, rig, DATAGRAMS));
		ASSERT_EQ(0, ibv_destroy_qp(qp.qp));
	}
	failer.stop = true;
	pthread_join(failer.thread, NULL);
	TH_LOG("%u QPs, %u failed before all was sent", rounds, amid);
	EXPECT_GE(amid, LEAST);
}
