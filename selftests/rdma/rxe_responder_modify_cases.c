// SPDX-License-Identifier: GPL-2.0
/* The kernel as responder: what ibv_modify_qp() refuses, and that it changes nothing. */
#include "rxe_responder.h"

/* ---- Path MTU ---- */

FIXTURE_VARIANT(path_mtu) {
	unsigned int mtu;	/* as in struct ibv_qp_attr */
	bool taken;
};

DRAM_FIXTURE(path_mtu)

ROW(path_mtu, none, "2 user API", "0, which is no MTU") { 0, false };
ROW(path_mtu, of_256, "2 user API", "256 bytes") { IBV_MTU_256, true };
ROW(path_mtu, of_512, "2 user API", "512 bytes") { IBV_MTU_512, true };
ROW(path_mtu, of_1024, "2 user API", "1024 bytes") { IBV_MTU_1024, true };
ROW(path_mtu, of_2048, "2 user API", "2048 bytes") { IBV_MTU_2048, true };
ROW(path_mtu, of_4096, "2 user API", "4096 bytes") { IBV_MTU_4096, true };
ROW(path_mtu, of_8192, "2 user API", "6, which would be 8192 bytes") { IBV_MTU_4096 + 1, false };
ROW(path_mtu, of_ones, "2 user API", "255") { 0xff, false };

/*
 * A SEND of 65520 bytes is one packet if the path MTU has no bound: 65536 bytes with BTH and ICRC.
 * A kernel that keeps the length of a packet in 16 bits takes it for 0.
 */
static void send_as_one_packet(struct rxe_qp *qp, const struct ibv_mr *mr, __u64 addr)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp->qp);
	struct ibv_sge sge[4];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(sge); i++)
		sge[i] = (struct ibv_sge) {
			.addr = addr, .length = 65520 / ARRAY_SIZE(sge), .lkey = mr->lkey,
		};
	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	ibv_wr_set_sge_list(qpx, ARRAY_SIZE(sge), sge);
	if (ibv_wr_complete(qpx))
		errx(1, "a SEND of 65520 bytes can't be posted");
}

/* What the port can carry, as in struct ibv_qp_attr. */
static unsigned int active_mtu(struct rig *rig)
{
	struct ibv_port_attr attr;

	if (ibv_query_port(rig->end.context, 1, &attr))
		err(1, "the port");
	return attr.active_mtu;
}

CASE(path_mtu, given, "2 user API",
     "RTR with it is EINVAL if the port cannot carry such an MTU, and the QP stays in INIT")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;
	bool taken = variant->taken && variant->mtu <= active_mtu(rig);
	int error;

	config.state = IBV_QPS_INIT;
	flow_reopen(rig, &config);
	error = rxe_try_path_mtu(&rig->end, &config, &rig->flow.qp, variant->mtu);
	if (!error && !variant->mtu) {
		/* What that does on this kernel */
		config.state = IBV_QPS_RTR;
		rxe_finish_qp(&rig->end, &config, &rig->flow.qp);
		send_as_one_packet(&rig->flow.qp, rig->open_mr, rig->start);
	}
	ASSERT_EQ(taken ? 0 : EINVAL, error);
	if (!taken) {
		ASSERT_EQ(IBV_QPS_INIT, rxe_qp_state(&rig->flow.qp));
		rxe_finish_qp(&rig->end, &config, &rig->flow.qp);
	}
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
}

DRAM_FIXTURE(looped_back)

CASE(looped_back, more_than_the_port_can_carry, "2 user API",
     "what stays in the device has no bound by the port: 4096 bytes in one packet")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;
	struct ibv_sge sge = { rig->start, MAX_MTU, rig->open_mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = rig->start, .rkey = rig->open_mr->rkey },
	}, *bad_wr;
	struct rxe_qp pair[2];
	struct ibv_wc wc;

	config.mtu = MAX_MTU;
	rxe_make_pair(&rig->end, &config, pair);
	ASSERT_EQ(0, ibv_post_send(pair[0].qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
}

/* ---- Responder resources ---- */

FIXTURE_VARIANT(resources) {
	unsigned int resources;
};

DRAM_FIXTURE(resources)

ROW(resources, of_3, "5 max_dest_rd_atomic", "3, no power of two") { 3 };
ROW(resources, of_128, "5 max_dest_rd_atomic", "128, the most that the device offers") { 128 };
ROW(resources, of_129, "5 max_dest_rd_atomic", "129, which rounded up is 0 in 8 bits") { 129 };
ROW(resources, of_255, "5 max_dest_rd_atomic", "255, the same") { 255 };

CASE(resources, used, "5 max_dest_rd_atomic", "READ and WRITE are served")
{
	struct rig *rig = &self->rig;

	flow_with_resources(rig, variant->resources);
	served(_metadata, rig, read_only(rig));
	served(_metadata, rig, write_only(rig));
}

/* ---- The state that the QP is said to be in ---- */

FIXTURE(said_state) {
	struct rig rig;
};

FIXTURE_VARIANT(said_state) {
	enum ibv_qp_state state;	/* that it is in */
	enum ibv_qp_type  type;
};

FIXTURE_TEARDOWN(said_state)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(said_state)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;

	rig_open(rig, false, ACCESS_DRAM, &config);
	config.type = variant->type;
	if (variant->state <= IBV_QPS_RTS)
		config.state = variant->state;
	flow_reopen(rig, &config);
	if (variant->state == IBV_QPS_ERR)
		rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	if (variant->state != IBV_QPS_SQD)
		return;
	rxe_drain_qp(&rig->flow.qp);
	if (!rxe_wait_drained(&rig->end, &rig->flow.qp, ANSWER_MS))
		errx(1, "a queue pair without requests is not drained");
}

ROW(said_state, reset, "2 user API", "in RESET") { IBV_QPS_RESET, IBV_QPT_RC };
ROW(said_state, init, "2 user API", "in INIT") { IBV_QPS_INIT, IBV_QPT_RC };
ROW(said_state, rtr, "2 user API", "in RTR") { IBV_QPS_RTR, IBV_QPT_RC };
ROW(said_state, rts, "2 user API", "in RTS") { IBV_QPS_RTS, IBV_QPT_RC };
ROW(said_state, sqd, "2 user API", "in SQD, and drained") { IBV_QPS_SQD, IBV_QPT_RC };
ROW(said_state, error, "2 user API", "in error") { IBV_QPS_ERR, IBV_QPT_RC };
/* UC may say the state SQE, too. */
ROW(said_state, init_of_uc, "2 user API", "in INIT, of type UC") { IBV_QPS_INIT, IBV_QPT_UC };
ROW(said_state, error_of_uc, "2 user API", "in error, of type UC") { IBV_QPS_ERR, IBV_QPT_UC };
ROW(said_state, error_of_ud, "2 user API", "in error, of type UD") { IBV_QPS_ERR, IBV_QPT_UD };

/* On to RTS, from the state that @said says; with all that this step needs. */
static int modify_from(struct rxe_qp *qp, enum ibv_qp_state said)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTS, .cur_qp_state = said, .sq_psn = RXE_QP_DEFAULT.own_psn,
		.retry_cnt = RXE_QP_DEFAULT.retries, .rnr_retry = RXE_QP_DEFAULT.rnr_retries,
		.max_rd_atomic = RXE_QP_DEFAULT.depth,
	};
	int mask = IBV_QP_STATE | IBV_QP_CUR_STATE;

	if (said == IBV_QPS_RTR)
		mask |= IBV_QP_SQ_PSN;
	if (said == IBV_QPS_RTR && qp->qp->qp_type == IBV_QPT_RC)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return ibv_modify_qp(qp->qp, &attr, mask);
}

/* From RTR, RTS and SQD there is a way to RTS. */
static bool leads_to_rts(enum ibv_qp_state state)
{
	return state >= IBV_QPS_RTR && state <= IBV_QPS_SQD;
}

CASE(said_state, wrongly, "2 user API",
     "IBV_QP_CUR_STATE says another state: EINVAL, and it stays where it is")
{
	struct rxe_qp *qp = &self->rig.flow.qp;
	int said;

	for (said = IBV_QPS_RESET; said <= IBV_QPS_ERR; said++) {
		if (said == (int)variant->state)
			continue;
		/* A kernel without this state may take ERR for it: see failing.* of hostile-qps. */
		if (said == IBV_QPS_SQE && variant->type == IBV_QPT_UD)
			continue;
		EXPECT_EQ(EINVAL, modify_from(qp, said)) {
			TH_LOG("it was said to be in state %d", said);
		}
		EXPECT_EQ(variant->state, rxe_qp_state(qp));
	}
}

CASE(said_state, rightly, "2 user API",
     "IBV_QP_CUR_STATE says its state: to RTS if a way leads there")
{
	struct rig *rig = &self->rig;
	bool leads = leads_to_rts(variant->state);

	ASSERT_EQ(leads ? 0 : EINVAL, modify_from(&rig->flow.qp, variant->state));
	ASSERT_EQ(leads ? IBV_QPS_RTS : variant->state, rxe_qp_state(&rig->flow.qp));
	if (leads)
		served(_metadata, rig, write_only(rig));
}

/* ---- The error state ---- */

DRAM_FIXTURE(in_error)

CASE(in_error, said_to_work, "5 QP states",
     "amid a SEND it is said to be in RTR, RTS, SQD: EINVAL, and the rest of the SEND is ignored")
{
	struct rig *rig = &self->rig;
	struct packet part = write_part(rig, ROCE_RC_SEND_FIRST, 0, MTU);
	struct ibv_wc wc;
	int said;

	rxe_post_recv(&rig->flow.qp, rig->mr, part.va, 2 * MTU);
	served(_metadata, rig, part);
	rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	ASSERT_STREQ(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), ibv_wc_status_str(wc.status));
	for (said = IBV_QPS_RTR; leads_to_rts(said); said++)
		EXPECT_EQ(EINVAL, modify_from(&rig->flow.qp, said));
	part = write_part(rig, ROCE_RC_SEND_LAST, 0, MTU);
	send_raw(&rig->flow, &part);
	both_verbs_served_elsewhere(_metadata, rig);
	expect_memory(_metadata, rig);
	EXPECT_EQ(0, ibv_poll_cq(rig->end.cq, 1, &wc));
}
