// SPDX-License-Identifier: GPL-2.0
/* The kernel as responder: regions of more than 1 GiB. */
#include "rxe_responder.h"

#define MIB(n)	((size_t)(n) << 20)

FIXTURE(big) {
	struct rig rig;
	__u8 *memory;
	size_t len;
	struct ibv_mr *mr;
};

FIXTURE_VARIANT(big) {
	size_t len;
	bool on_demand;
};

ROW(big, mib_1200, "5 range", "of 1200 MiB") { MIB(1200) };
ROW(big, gib_2, "5 range", "of 2 GiB") { MIB(2048) };
ROW(big, gib_2_on_demand, "5 range", "of 2 GiB, paged on demand") { MIB(2048), true };

FIXTURE_TEARDOWN(big)
{
	rig_close(_metadata, &self->rig);
	munmap(self->memory, self->len);
}

FIXTURE_SETUP(big)
{
	if (variant->on_demand)
		need_odp(_metadata);
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	self->len = variant->len;
	self->memory = rxe_map_pieces(self->len);
	self->mr = ibv_reg_mr(self->rig.end.pd, self->memory, self->len,
			      ACCESS_DRAM | (variant->on_demand ? IBV_ACCESS_ON_DEMAND : 0));
}

static void acknowledged(struct __test_metadata *_metadata, struct rig *rig, struct packet rq)
{
	struct packet ack = {
		.opcode = ROCE_RC_ACK, .psn = rig->flow.psn, .msn = ++rig->flow.msn,
		.qpn = rig->flow.qp.peer_qpn,
	};

	send_raw(&rig->flow, &rq);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	expect_packet(_metadata, &ack);
}

CASE(big, stored_everywhere, "5 range",
     "a region is registered, and holds what is written at its ends")
{
	struct rig *rig = &self->rig;
	const size_t places[] = { 0, self->len / 2 + PAGE - 16, self->len - 32 };
	struct packet rq;
	size_t i;

	ASSERT_NE(NULL, self->mr) {
		TH_LOG("registering %zu MiB: %m", self->len >> 20);
	}
	for (i = 0; i < ARRAY_SIZE(places); i++) {
		rq = write_only(rig);
		rq.va = (uintptr_t)self->memory + places[i];
		rq.rkey = self->mr->rkey;
		acknowledged(_metadata, rig, rq);
		ASSERT_EQ(0, memcmp(rq.payload, self->memory + places[i], rq.payload_len));
	}
	expect_memory(_metadata, rig);
}

FIXTURE(longest) {
	struct rig rig;
	__u8 *memory;
	struct ibv_mr *mr;
};

FIXTURE_TEARDOWN(longest)
{
	rig_close(_metadata, &self->rig);
	munmap(self->memory, MIB(2048));
}

FIXTURE_SETUP(longest)
{
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	self->memory = rxe_map_pieces(MIB(2048));
	self->mr = ibv_reg_mr(self->rig.end.pd, self->memory, MIB(2048), ACCESS_DRAM);
}

CASE(longest, read, "5 range", "a READ of 2^31 bytes, the longest message there is, is answered")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig), first, last;
	struct frame frame;
	struct flow fresh;

	ASSERT_NE(NULL, self->mr);
	memset(self->memory, 0x5a, MTU);
	rq.va = (uintptr_t)self->memory;
	rq.rkey = self->mr->rkey;
	rq.dmalen = 0x80000000;
	first = (struct packet) {
		.opcode = ROCE_RC_READ_RESPONSE_FIRST, .psn = rig->flow.psn, .msn = 1,
		.qpn = rig->flow.qp.peer_qpn, .payload_len = MTU,
	};
	memset(first.payload, 0x5a, MTU);
	send_raw(&rig->flow, &rq);
	expect_packet(_metadata, &first);
	/* Two million packets more are of no use. */
	rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	ASSERT_EQ(0, ibv_destroy_qp(rig->flow.qp.qp));
	/* What the QP has sent may still be on its way; it arrives before the answer of another. */
	flow_open(rig, &fresh, &RXE_QP_DEFAULT);
	rq = read_only(rig);
	rq.rkey = rig->open_mr->rkey;
	last = ask(rig, &fresh, &rq);
	do {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
	} while (be32toh(frame.wire.bth.qpn) != last.qpn);
}

/*
 * rxe goes on where it has begun, on the CPU of all cases. With many packets to send it leaves
 * little of that to others.
 */
static void leave_the_cpu_to_rxe(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(1, &cpus);
	/* Without a second CPU the case only takes longer. */
	(void)sched_setaffinity(0, sizeof(cpus), &cpus);
}

/* Half of the 50 s after which the kernel warns. */
static void destroy_in_time(struct __test_metadata *_metadata, struct ibv_qp *qp)
{
	long long start = now_ms(), ms;

	ASSERT_EQ(0, ibv_destroy_qp(qp));
	ms = now_ms() - start;
	TH_LOG("destroying the QP took %lld ms", ms);
	EXPECT_LT(ms, 25000);
}

/*
 * To answer them takes longer than half of 50 s. A kernel that answers all of them first has
 * destroyed the QP after minutes.
 */
#define READS		2
/* One less than 2 GiB has: a READ of 2 GiB needs a fix of its own. */
#define READ_PACKETS	(0x80000000 / MTU - 1)

CASE(longest, reads_beside_the_end, "5 range", "a QP that is asked for 4 GiB is destroyed at once")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig);
	unsigned long long sent = rxe_counter("sent_pkts");
	int i;

	ASSERT_NE(NULL, self->mr);
	rq.va = (uintptr_t)self->memory;
	rq.rkey = self->mr->rkey;
	rq.dmalen = READ_PACKETS * MTU;
	/* The responder gives up a READ whose response can't be sent. */
	peer_lose_all();
	for (i = 0; i < READS; i++) {
		send_raw(&rig->flow, &rq);
		rig->flow.psn = psn_add(rig->flow.psn, READ_PACKETS);
		leave_the_cpu_to_rxe();
	}
	ASSERT_LE(sent + 100, rxe_wait_counter("sent_pkts", sent + 100, ANSWER_MS)) {
		TH_LOG("it does not answer, so nothing is shown");
	}
	destroy_in_time(_metadata, rig->flow.qp.qp);
	peer_end_stall();
	both_verbs_served_elsewhere(_metadata, rig);
}

/* With a READ of 2 GiB each: to answer them takes longer than the kernel waits. */
#define PAIRS		2

CASE(longest, reads_of_who_is_gone, "5 range",
     "a QP whose READ of 2 GiB is answered by a QP of the same device is destroyed at once")
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct rig *rig = &self->rig;
	struct rxe_qp pair[PAIRS][2];
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct ibv_qp_ex *qpx;
	long long start;
	int i;

	ASSERT_NE(NULL, self->mr);
	config.mtu = 256;
	config.queue = 1;
	for (i = 0; i < PAIRS; i++)
		rxe_make_pair(&rig->end, &config, pair[i]);
	for (i = 0; i < PAIRS; i++) {
		qpx = ibv_qp_to_qp_ex(pair[i][1].qp);
		ibv_wr_start(qpx);
		qpx->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_read(qpx, self->mr->rkey, (uintptr_t)self->memory);
		ibv_wr_set_sge(qpx, self->mr->lkey, (uintptr_t)self->memory, 0x80000000);
		ASSERT_EQ(0, ibv_wr_complete(qpx));
	}
	leave_the_cpu_to_rxe();
	/*
	 * When it has used the PSNs of the READ, the READ is with the other QP, and stays there
	 * until it is answered.
	 */
	start = now_ms();
	do {
		ASSERT_LT(now_ms() - start, ANSWER_MS * wait_scale());
		ASSERT_EQ(0, ibv_query_qp(pair[0][1].qp, &attr, IBV_QP_SQ_PSN, &init_attr));
	} while (attr.sq_psn == config.peer_psn);
	destroy_in_time(_metadata, pair[0][1].qp);
	/* Destroy the responders first, so that nothing holds the requesters. */
	for (i = 0; i < PAIRS; i++)
		ASSERT_EQ(0, ibv_destroy_qp(pair[i][0].qp));
	for (i = 1; i < PAIRS; i++)
		ASSERT_EQ(0, ibv_destroy_qp(pair[i][1].qp));
	both_verbs_served_elsewhere(_metadata, rig);
}
