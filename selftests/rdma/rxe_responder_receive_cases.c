// SPDX-License-Identifier: GPL-2.0
/* The kernel as responder: what becomes of a receive when a message is lost, wrong, or cut off. */
#include "rxe_responder.h"

/* A QP that takes its only receive from an SRQ. */

DRAM_FIXTURE(shared_receives)

static void post_shared_receive(struct __test_metadata *_metadata, struct rig *rig,
				struct ibv_srq *srq)
{
	struct ibv_sge sge = { .addr = rig->start, .length = 2 * MTU, .lkey = rig->mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad_wr;

	ASSERT_EQ(0, ibv_post_srq_recv(srq, &wr, &bad_wr));
}

/* The SRQ of a new QP. */
static struct ibv_srq *open_with_srq(struct __test_metadata *_metadata, struct rig *rig,
				     enum ibv_qp_type type)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.type = type;
	config.srq = ibv_create_srq(rig->end.pd, &attr);
	ASSERT_NE(NULL, config.srq);
	flow_reopen(rig, &config);
	return config.srq;
}

static void close_with_srq(struct __test_metadata *_metadata, struct rig *rig,
			   struct ibv_srq *srq)
{
	EXPECT_EQ(0, ibv_destroy_qp(rig->flow.qp.qp));
	EXPECT_EQ(0, ibv_destroy_srq(srq));
}

static struct ibv_srq *uc_with_srq(struct __test_metadata *_metadata, struct rig *rig)
{
	struct ibv_srq *srq = open_with_srq(_metadata, rig, IBV_QPT_UC);

	post_shared_receive(_metadata, rig, srq);
	return srq;
}

/*
 * A UC packet of a SEND.  Its payload is what memory holds at @offset of the receive, which stays
 * as it is.
 */
static void send_uc(struct rig *rig, __u8 opcode, __u64 offset, __u32 len)
{
	struct packet rq = { .opcode = opcode, .payload_len = len };

	memcpy(rq.payload, rig->model + REGION_OFFSET + offset, len);
	send_by_service(&rig->flow, &rq, ROCE_SERVICE_UC);
}

static void finish_uc_with_srq(struct __test_metadata *_metadata, struct rig *rig,
			       struct ibv_srq *srq)
{
	both_verbs_served_elsewhere(_metadata, rig);
	close_with_srq(_metadata, rig, srq);
}

/* A message has ended with its receive. */
static void takes_next_message(struct __test_metadata *_metadata, struct rig *rig,
			       struct ibv_srq *srq)
{
	struct ibv_wc wc;

	post_shared_receive(_metadata, rig, srq);
	send_uc(rig, ROCE_RC_SEND_ONLY, 0, MTU);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
}

CASE(shared_receives, uc_after_a_wrong_length, "1 payload",
     "a UC message goes on after a packet of a wrong length: the kernel lives")
{
	struct rig *rig = &self->rig;
	struct ibv_srq *srq = uc_with_srq(_metadata, rig);

	send_uc(rig, ROCE_RC_SEND_FIRST, 0, MTU);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	send_uc(rig, ROCE_RC_SEND_MIDDLE, MTU, MTU / 2);
	/* If that has ended the message, its receive is gone, and this one has none. */
	send_uc(rig, ROCE_RC_SEND_MIDDLE, MTU, MTU);
	finish_uc_with_srq(_metadata, rig, srq);
}

CASE(shared_receives, uc_next_after_a_wrong_length, "1 payload",
     "a packet of a wrong length ends a UC message: the QP takes the next message")
{
	struct rig *rig = &self->rig;
	struct ibv_srq *srq = uc_with_srq(_metadata, rig);
	struct ibv_wc wc;

	send_uc(rig, ROCE_RC_SEND_FIRST, 0, MTU);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	send_uc(rig, ROCE_RC_SEND_MIDDLE, MTU, MTU / 2);
	if (!rxe_wait_wc(&rig->end, &wc, ANSWER_MS))
		SKIP_CASE("this kernel takes a UC packet of any length");
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
	takes_next_message(_metadata, rig, srq);
	finish_uc_with_srq(_metadata, rig, srq);
}

CASE(shared_receives, uc_next_after_a_loss, "1 payload",
     "a packet of a UC SEND is lost: the QP takes a later message")
{
	struct rig *rig = &self->rig;
	struct ibv_srq *srq = uc_with_srq(_metadata, rig);
	struct ibv_wc wc;

	send_uc(rig, ROCE_RC_SEND_FIRST, 0, MTU);
	rig->flow.psn = psn_add(rig->flow.psn, 2);
	/* Shows the loss: the message that was cut ends with its receive. */
	send_uc(rig, ROCE_RC_SEND_ONLY, 0, MTU);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
	takes_next_message(_metadata, rig, srq);
	finish_uc_with_srq(_metadata, rig, srq);
}

CASE(shared_receives, uc_beyond_the_receive, "1 payload",
     "a UC message outgrows its receive: the kernel lives, and the QP takes the next message")
{
	struct rig *rig = &self->rig;
	struct ibv_srq *srq = uc_with_srq(_metadata, rig);
	struct ibv_wc wc;

	send_uc(rig, ROCE_RC_SEND_FIRST, 0, MTU);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	send_uc(rig, ROCE_RC_SEND_MIDDLE, MTU, MTU);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	/*
	 * The receive is full.  The first of these ends the message and its receive; the second has
	 * none.
	 */
	send_uc(rig, ROCE_RC_SEND_MIDDLE, 0, MTU);
	send_uc(rig, ROCE_RC_SEND_MIDDLE, 0, MTU);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
	takes_next_message(_metadata, rig, srq);
	finish_uc_with_srq(_metadata, rig, srq);
}

CASE(shared_receives, end_is_told_once, "1 QP state",
     "in the error state the QP tells once that no receive is left, however many packets come")
{
	struct rig *rig = &self->rig;
	struct ibv_srq *srq = open_with_srq(_metadata, rig, IBV_QPT_RC);
	int i;

	rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	if (!rxe_wait_event(&rig->end, &rig->flow.qp, IBV_EVENT_QP_LAST_WQE_REACHED, ANSWER_MS))
		SKIP_CASE("this kernel does not tell that no receive is left");
	for (i = 0; i < 20; i++) {
		struct packet rq = write_only(rig);

		send_raw(&rig->flow, &rq);
		both_verbs_served_elsewhere(_metadata, rig);
	}
	EXPECT_FALSE(rxe_wait_event(&rig->end, &rig->flow.qp, IBV_EVENT_QP_LAST_WQE_REACHED, 1));
	close_with_srq(_metadata, rig, srq);
}

CASE(shared_receives, end_amid_a_send, "1 QP state",
     "the QP moves to the error state amid a SEND: the receive that it has taken is flushed")
{
	struct rig *rig = &self->rig;
	struct ibv_srq *srq = open_with_srq(_metadata, rig, IBV_QPT_RC);
	struct packet part = write_part(rig, ROCE_RC_SEND_FIRST, 0, MTU);
	struct ibv_wc wc;

	post_shared_receive(_metadata, rig, srq);
	part.va = rig->start;	/* for the model */
	served(_metadata, rig, part);
	rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_STREQ(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), ibv_wc_status_str(wc.status));
	EXPECT_EQ(rig->flow.qp.qp->qp_num, wc.qp_num);
	close_with_srq(_metadata, rig, srq);
	EXPECT_EQ(0, ibv_poll_cq(rig->end.cq, 1, &wc));
}

/* A UC QP with receives of its own. */

DRAM_FIXTURE(own_receives)

CASE(own_receives, uc_next_after_a_loss, "1 payload",
     "a packet of a UC WRITE is lost: the QP takes a later message")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;
	struct packet first = {
		.opcode = ROCE_RC_WRITE_FIRST, .va = rig->start, .rkey = rig->mr->rkey,
		.dmalen = 3 * MTU, .payload_len = MTU,
	};
	struct ibv_wc wc;

	config.type = IBV_QPT_UC;
	flow_reopen(rig, &config);
	rxe_post_recv(&rig->flow.qp, rig->mr, rig->start, MTU);
	memcpy(first.payload, rig->model + REGION_OFFSET, MTU);
	send_by_service(&rig->flow, &first, ROCE_SERVICE_UC);
	rig->flow.psn = psn_add(rig->flow.psn, 2);
	/* Shows the loss, and may be dropped with it. */
	send_uc(rig, ROCE_RC_SEND_ONLY, 0, MTU);
	send_uc(rig, ROCE_RC_SEND_ONLY, 0, MTU);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	both_verbs_served_elsewhere(_metadata, rig);
}
