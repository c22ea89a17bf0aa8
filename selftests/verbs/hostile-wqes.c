// SPDX-License-Identifier: GPL-2.0
/*
 * WQEs that libibverbs would never build.  The send ring is memory of the user, and rxe has to
 * cope with what it finds there.  Each WQE ends in its error and nothing on the wire; or the
 * fault is ignored and the packet is exactly that of the sound WQE.  No kernel memory, and nothing
 * that is beside the WQE in the ring, ever gets out: all packets are compared.
 *
 *	hostile-wqes [OPTION...] [PATTERN...]	run the cases that match, as KTAP
 *
 *	--legacy-icrc	as for rxe_conformance
 *	--flushes-refused	the same
 *	--on-demand	the data is in a region that is paged on demand
 *	--races N	N tries of each race between the kernel and a thread
 *	--once		as for rxe_conformance
 *
 * Needs root, as rxe_conformance does, and makes the same link.
 */
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "rxe_case_runner.h"
#include "rxe_requester.h"
#include "rxe_send_ring.h"

#define FORGED_POINTER	0xffff888000001000ull
#define INLINE_BYTES	64	/* what rxe_make_qp() asks for */
#define PATIENCE	1800	/* seconds: enough for many races on an emulated debug kernel */

static int races = 15;	/* of each kind */

/* Post @wr, changed by @spoil: what its packet would be if it were sound. */
static struct packet post_spoilt(struct __test_metadata *_metadata, struct client *client,
				 struct send_ring *ring, struct wr wr,
				 void (*spoil)(struct rxe_send_wqe *wqe))
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct packet rq = {
		.qpn = client->line.qp.peer_qpn, .psn = client->line.psn, .ack_req = true,
		.va = wr.va, .rkey = REMOTE_RKEY, .dmalen = wr.len,
	};

	ibv_wr_start(qpx);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = wr.flags;
	build_wr(client, qpx, &wr);
	spoil(send_ring_next(ring));
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	client->line.psn = psn_add(client->line.psn, 1);
	fill_request(client, &wr, &rq);
	return rq;
}

/* What must become of a WQE: its status, and a packet in the first case only. */
enum verdict {
	IGNORED = IBV_WC_SUCCESS,		/* as if nothing were wrong */
	REFUSED = IBV_WC_LOC_QP_OP_ERR,		/* the WQE is not well-formed */
	OUT_OF_REACH = IBV_WC_LOC_PROT_ERR,	/* it is, but its memory is not the user's */
	NOT_BOUND = IBV_WC_MW_BIND_ERR,
};

static void expect_refused_wc(struct __test_metadata *_metadata, const struct ibv_wc *wc,
			      enum ibv_wc_status own)
{
	ASSERT_STREQ(ibv_wc_status_str(rxe_refused_status(own)), ibv_wc_status_str(wc->status));
}

static void expect_refusal(struct __test_metadata *_metadata, struct client *client,
			   enum verdict verdict)
{
	expect_wc(_metadata, client, client->line.id, rxe_refused_status((enum ibv_wc_status)verdict));
	expect_silence(_metadata, client);
}

/* As if nothing were wrong. */
static void expect_service(struct __test_metadata *_metadata, struct client *client,
			   const struct packet *rq)
{
	expect_packet(_metadata, rq);
	respond(client, rq);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	expect_silence(_metadata, client);
}

/* ---- One WQE, one thing wrong with it ---- */

FIXTURE(spoilt) {
	struct client client;
	struct send_ring ring;
};

FIXTURE_VARIANT(spoilt) {
	enum ibv_qp_type type;
	struct wr (*make)(void);
	void (*spoil)(struct rxe_send_wqe *wqe);
	enum verdict verdict;
};

FIXTURE_SETUP(spoilt)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	client_open(&self->client, &config);
	config.type = variant->type;
	line_open(&self->client, &self->client.line, &config);
	send_ring_open(&self->ring);
	memset(self->client.end.memory, 0x11, MEMORY_LEN);
}

FIXTURE_TEARDOWN(spoilt)
{
	client_close(&self->client);
}

TEST_F_TIMEOUT(spoilt, wqe, PATIENCE)
{
	struct packet rq = post_spoilt(_metadata, &self->client, &self->ring, variant->make(),
				       variant->spoil);

	if (variant->verdict == IGNORED)
		expect_service(_metadata, &self->client, &rq);
	else
		expect_refusal(_metadata, &self->client, variant->verdict);
}

/* A sound work request of a QP, what is changed in its WQE, and what must become of it. */
#define SPOILT_ON(qp_type, name, make_wr, verdict_, ...)				\
	static void spoil_##name(struct rxe_send_wqe *wqe) { __VA_ARGS__; }		\
	FIXTURE_VARIANT_ADD(spoilt, name) {						\
		.type = qp_type, .make = make_wr, .spoil = spoil_##name,		\
		.verdict = verdict_,							\
	}
#define SPOILT(name, make_wr, verdict, ...)						\
	SPOILT_ON(IBV_QPT_RC, name, make_wr, verdict, __VA_ARGS__)

/* The same data, in the WQE. */
static void make_inline(struct rxe_send_wqe *wqe)
{
	const void *data = (const void *)(uintptr_t)wqe->dma.sge[0].addr;

	wqe->wr.send_flags |= IBV_SEND_INLINE;
	memcpy(wqe->dma.inline_data, data, wqe->dma.length);
}

/* Nothing is wrong with these.  They show that the test's own ways are right. */
SPOILT(sound_flush, wr_flush, IGNORED, (void)wqe);
SPOILT(sound_atomic_write, wr_atomic_write, IGNORED, (void)wqe);
SPOILT(sound_write, wr_write, IGNORED, (void)wqe);
SPOILT(sound_inline_write, wr_write, IGNORED, make_inline(wqe));
SPOILT(sound_read, wr_read, IGNORED, (void)wqe);
SPOILT(sound_fetch_add, wr_fetch_add, IGNORED, (void)wqe);

/* The opcode.  32 is IB_WR_REG_MR, whose WQE holds a pointer of the kernel. */
SPOILT(opcode_lso, wr_write, REFUSED, wqe->wr.opcode = 10);
SPOILT(opcode_read_with_inv, wr_read, REFUSED, wqe->wr.opcode = 11);
SPOILT(opcode_masked_cmp_swap, wr_fetch_add, REFUSED, wqe->wr.opcode = 12);
SPOILT(opcode_masked_fetch_add, wr_fetch_add, REFUSED, wqe->wr.opcode = 13);
SPOILT(opcode_16, wr_flush, REFUSED, wqe->wr.opcode = 16);
SPOILT(opcode_31, wr_flush, REFUSED, wqe->wr.opcode = 31);
SPOILT(opcode_reg_mr, wr_write, REFUSED, wqe->wr.opcode = 32;
       memcpy(&wqe->wr.wr, &(__u64) { FORGED_POINTER }, 8));
SPOILT(opcode_reg_mr_null, wr_write, REFUSED, wqe->wr.opcode = 32; memset(&wqe->wr.wr, 0, 8));
SPOILT(opcode_33, wr_write, REFUSED, wqe->wr.opcode = 33);
SPOILT(opcode_256, wr_write, REFUSED, wqe->wr.opcode = 256);
SPOILT(opcode_of_a_sign, wr_write, REFUSED, wqe->wr.opcode = 0x80000000);
SPOILT(opcode_of_ones, wr_write, REFUSED, wqe->wr.opcode = 0xffffffff);
SPOILT(opcode_of_a_wrap, wr_flush, REFUSED, wqe->wr.opcode = 0x8000000e);

/* The opcode of another kind of QP. */
SPOILT_ON(IBV_QPT_UC, flush_on_uc, wr_send, REFUSED, wqe->wr.opcode = IBV_WR_FLUSH);
SPOILT_ON(IBV_QPT_UC, atomic_write_on_uc, wr_send, REFUSED, wqe->wr.opcode = IBV_WR_ATOMIC_WRITE);
SPOILT_ON(IBV_QPT_UC, read_on_uc, wr_send, REFUSED, wqe->wr.opcode = IBV_WR_RDMA_READ);
SPOILT_ON(IBV_QPT_UC, reg_mr_on_uc, wr_send, REFUSED, wqe->wr.opcode = 32);
SPOILT_ON(IBV_QPT_UD, flush_on_ud, wr_send, REFUSED, wqe->wr.opcode = IBV_WR_FLUSH);
SPOILT_ON(IBV_QPT_UD, atomic_write_on_ud, wr_send, REFUSED, wqe->wr.opcode = IBV_WR_ATOMIC_WRITE);
SPOILT_ON(IBV_QPT_UD, write_on_ud, wr_send, REFUSED, wqe->wr.opcode = IBV_WR_RDMA_WRITE);
SPOILT_ON(IBV_QPT_UD, fetch_add_on_ud, wr_send, REFUSED,
	  wqe->wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD);
SPOILT_ON(IBV_QPT_UD, unknown_ah, wr_send, REFUSED, wqe->wr.wr.ud.ah_num = 0x00ffffff);

/* FLUSH: no guarantee, or reserved bits in type and level; too long; and what it does not use. */
SPOILT(flush_type_0, wr_flush, REFUSED, wqe->wr.wr.flush.type = 0);
SPOILT(flush_type_4, wr_flush, REFUSED, wqe->wr.wr.flush.type = 4);
SPOILT(flush_type_5, wr_flush, REFUSED, wqe->wr.wr.flush.type = 5);
SPOILT(flush_type_8, wr_flush, REFUSED, wqe->wr.wr.flush.type = 8);
SPOILT(flush_type_17, wr_flush, REFUSED, wqe->wr.wr.flush.type = 17);
SPOILT(flush_type_255, wr_flush, REFUSED, wqe->wr.wr.flush.type = 255);
SPOILT(flush_level_2, wr_flush, REFUSED, wqe->wr.wr.flush.level = 2);
SPOILT(flush_level_3, wr_flush, REFUSED, wqe->wr.wr.flush.level = 3);
SPOILT(flush_level_16, wr_flush, REFUSED, wqe->wr.wr.flush.level = 16);
SPOILT(flush_level_255, wr_flush, REFUSED, wqe->wr.wr.flush.level = 255);
SPOILT(flush_length_2g, wr_flush, REFUSED, wqe->dma.length = 0x80000000);
SPOILT(flush_length_of_ones, wr_flush, REFUSED, wqe->dma.length = 0xffffffff);
SPOILT(flush_other_length, wr_flush, IGNORED, wqe->wr.wr.flush.length = 0xffffffff);
SPOILT(flush_resid, wr_flush, IGNORED, wqe->dma.resid = 0xffffffff);
SPOILT(flush_resid_of_an_mtu, wr_flush, IGNORED, wqe->dma.resid = MTU);
SPOILT(flush_inline, wr_flush, IGNORED, wqe->wr.send_flags |= IBV_SEND_INLINE;
       wqe->dma.resid = 64);
SPOILT(flush_sges, wr_flush, IGNORED, wqe->dma.num_sge = 0xffffffff;
       wqe->dma.cur_sge = 0x7fffffff; wqe->dma.sge_offset = 0x7fffffff; wqe->dma.resid = MTU);

/* ATOMIC WRITE: eight bytes at a multiple of eight, whatever dma.resid and the SGEs say. */
SPOILT(atomic_write_length_0, wr_atomic_write, REFUSED, wqe->dma.length = 0);
SPOILT(atomic_write_length_4, wr_atomic_write, REFUSED, wqe->dma.length = 4);
SPOILT(atomic_write_length_7, wr_atomic_write, REFUSED, wqe->dma.length = 7);
SPOILT(atomic_write_length_16, wr_atomic_write, REFUSED, wqe->dma.length = 16);
SPOILT(atomic_write_length_of_an_mtu, wr_atomic_write, REFUSED, wqe->dma.length = MTU);
SPOILT(atomic_write_length_of_ones, wr_atomic_write, REFUSED, wqe->dma.length = 0xffffffff);
SPOILT(atomic_write_all_lengths_16, wr_atomic_write, REFUSED, wqe->dma.length = 16;
       wqe->dma.resid = 16);
SPOILT(atomic_write_all_lengths_of_an_mtu, wr_atomic_write, REFUSED, wqe->dma.length = MTU;
       wqe->dma.resid = MTU);
SPOILT(atomic_write_all_lengths_0, wr_atomic_write, REFUSED, wqe->dma.length = 0;
       wqe->dma.resid = 0);
SPOILT(atomic_write_at_1, wr_atomic_write, REFUSED, wqe->wr.wr.rdma.remote_addr += 1);
SPOILT(atomic_write_at_4, wr_atomic_write, REFUSED, wqe->wr.wr.rdma.remote_addr += 4);
SPOILT(atomic_write_at_7, wr_atomic_write, REFUSED, wqe->wr.wr.rdma.remote_addr += 7);
SPOILT(atomic_write_resid_0, wr_atomic_write, IGNORED, wqe->dma.resid = 0);
SPOILT(atomic_write_resid_4, wr_atomic_write, IGNORED, wqe->dma.resid = 4);
SPOILT(atomic_write_resid_16, wr_atomic_write, IGNORED, wqe->dma.resid = 16);
SPOILT(atomic_write_resid_of_an_mtu, wr_atomic_write, IGNORED, wqe->dma.resid = MTU);
SPOILT(atomic_write_resid_of_ones, wr_atomic_write, IGNORED, wqe->dma.resid = 0xffffffff);
SPOILT(atomic_write_inline, wr_atomic_write, IGNORED, wqe->wr.send_flags |= IBV_SEND_INLINE;
       wqe->dma.sge_offset = 0xfffffff8);
SPOILT(atomic_write_sges, wr_atomic_write, IGNORED, wqe->dma.num_sge = 0xffffffff;
       wqe->dma.cur_sge = 0xffffffff; wqe->dma.sge_offset = 0x7fffffff);
SPOILT(atomic_write_iova, wr_atomic_write, IGNORED, wqe->iova = FORGED_POINTER);

/* SGEs: the WQE has room for four. */
SPOILT(num_sge_0, wr_write, REFUSED, wqe->dma.num_sge = 0);
SPOILT(num_sge_5, wr_write, REFUSED, wqe->dma.num_sge = 5);
SPOILT(num_sge_of_ones, wr_write, REFUSED, wqe->dma.num_sge = 0xffffffff);
SPOILT(cur_sge_1, wr_write, REFUSED, wqe->dma.cur_sge = 1);
SPOILT(cur_sge_4, wr_write, REFUSED, wqe->dma.num_sge = 4; wqe->dma.cur_sge = 4);
SPOILT(cur_sge_of_ones, wr_write, REFUSED, wqe->dma.cur_sge = 0xffffffff);
SPOILT(cur_sge_of_a_sign, wr_write, REFUSED, wqe->dma.cur_sge = 0x80000000);
SPOILT(sge_offset_behind_the_end, wr_write, REFUSED, wqe->dma.sge_offset = 33);
SPOILT(sge_offset_in_the_midst, wr_write, REFUSED, wqe->dma.sge_offset = 8);
SPOILT(sge_offset_of_ones, wr_write, REFUSED, wqe->dma.sge_offset = 0xffffffff);
SPOILT(sge_longer_than_its_region, wr_write, OUT_OF_REACH, wqe->dma.sge[0].length = 0x10000;
       wqe->dma.sge_offset = MEMORY_LEN - 8);
SPOILT(sge_outside_its_region, wr_write, OUT_OF_REACH, wqe->dma.sge[0].addr = FORGED_POINTER);
SPOILT(sge_wraps, wr_write, OUT_OF_REACH, wqe->dma.sge[0].addr = -16);
SPOILT(sge_key, wr_write, OUT_OF_REACH, wqe->dma.sge[0].lkey ^= 0xff);
SPOILT(more_than_the_sges_hold, wr_write, REFUSED, wqe->dma.length = wqe->dma.resid = 33);
SPOILT(more_sges_than_were_written, wr_write, OUT_OF_REACH, wqe->dma.num_sge = 4;
       wqe->dma.length = wqe->dma.resid = 64);

/* Inline data: the WQE has room for 64 bytes. */
SPOILT(inline_65, wr_write, REFUSED, make_inline(wqe); wqe->dma.length = wqe->dma.resid = 65);
SPOILT(inline_of_an_mtu, wr_write, REFUSED, make_inline(wqe);
       wqe->dma.length = wqe->dma.resid = MTU);
SPOILT(inline_of_ones, wr_write, REFUSED, make_inline(wqe);
       wqe->dma.length = wqe->dma.resid = 0xffffffff);
SPOILT(inline_offset_33, wr_write, REFUSED, make_inline(wqe); wqe->dma.sge_offset = 33);
SPOILT(inline_offset_64, wr_write, REFUSED, make_inline(wqe); wqe->dma.sge_offset = 64);
SPOILT(inline_offset_4096, wr_write, REFUSED, make_inline(wqe); wqe->dma.sge_offset = 4096);
SPOILT(inline_offset_of_a_sign, wr_write, REFUSED, make_inline(wqe);
       wqe->dma.sge_offset = 0x80000000);
SPOILT(inline_offset_wraps, wr_write, REFUSED, make_inline(wqe);
       wqe->dma.sge_offset = 0xfffffff0);

/* Local operations, with keys of nothing. */
SPOILT(bind_nothing, wr_write, NOT_BOUND, wqe->wr.opcode = IBV_WR_BIND_MW;
       memset(&wqe->wr.wr, 0xff, sizeof(wqe->wr.wr)));
SPOILT(invalidate_nothing, wr_write, REFUSED, wqe->wr.opcode = IBV_WR_LOCAL_INV;
       wqe->wr.ex.invalidate_rkey = 0xffffffff);

/* What belongs to the kernel, which sets these itself. */
SPOILT(status, wr_flush, IGNORED, wqe->status = 0);
SPOILT(mask, wr_flush, IGNORED, wqe->mask = 0xffffffff);
SPOILT(mask_0, wr_atomic_write, IGNORED, wqe->mask = 0);
SPOILT(psns, wr_flush, IGNORED, wqe->first_psn = wqe->last_psn = 0x12345);

/* ---- The ring itself ---- */

PATIENT_FIXTURE(ring)

/* All slots at once, by a producer index that is none, and nothing sound in any of them. */
TEST_F_TIMEOUT(ring, producer_index_out_of_range, PATIENCE)
{
	struct client *client = &self->client;
	struct send_ring ring;
	struct ibv_wc wc;
	__u32 i;

	line_open(client, &client->line, &RXE_QP_DEFAULT);
	send_ring_open(&ring);
	for (i = 0; i <= ring.index_mask; i++)
		*send_ring_slot(&ring, i) = (struct rxe_send_wqe) {
			.wr = { .wr_id = i, .opcode = 0xffffffff }
		};
	ring.queue->producer_index = 0xffffffff;
	send_ring_doorbell(&client->line.qp);
	for (i = 0; i < ring.index_mask; i++) {
		ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS)) {
			TH_LOG("%u of %u completions", i, ring.index_mask);
		}
		ASSERT_EQ(i, wc.wr_id);
		expect_refused_wc(_metadata, &wc, i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_LOC_QP_OP_ERR);
	}
	expect_silence(_metadata, client);
}

/* The kernel goes by what it knows of the ring, not by what the ring says. */
TEST_F_TIMEOUT(ring, header_means_nothing, PATIENCE)
{
	struct client *client = &self->client;
	struct ibv_qp_ex *qpx;
	struct send_ring ring;
	struct packet rq = {
		.ack_req = true, .va = REMOTE_VA, .rkey = REMOTE_RKEY, .dmalen = 192,
	};
	struct wr wr = wr_flush();

	line_open(client, &client->line, &RXE_QP_DEFAULT);
	send_ring_open(&ring);
	qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	ibv_wr_start(qpx);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	build_wr(client, qpx, &wr);
	ring.queue->log2_elem_size = 31;
	ring.queue->index_mask = 0xffffffff;
	ring.queue->consumer_index = 0x7fffffff;
	ASSERT_EQ(0, ibv_wr_complete(qpx));

	rq.qpn = client->line.qp.peer_qpn;
	rq.psn = client->line.psn;
	fill_request(client, &wr, &rq);
	expect_service(_metadata, client, &rq);
}

#define SHARED_RECEIVES	15	/* the ring has 16 slots then, of which one stays free */

static unsigned int max_wr_of(struct __test_metadata *_metadata, struct ibv_srq *srq)
{
	struct ibv_srq_attr attr;

	ASSERT_EQ(0, ibv_query_srq(srq, &attr));
	return attr.max_wr;
}

/* The same of a shared receive queue: how long it is, and what may be its limit. */
TEST_F_TIMEOUT(ring, shared_header_means_nothing, PATIENCE)
{
	struct ibv_srq_init_attr init_attr = { .attr = { .max_wr = SHARED_RECEIVES, .max_sge = 1 } };
	struct ibv_srq_attr within = { .srq_limit = SHARED_RECEIVES };
	struct ibv_srq_attr beyond = { .srq_limit = SHARED_RECEIVES + 1 };
	static const __u32 masks[] = { 0, 1, 0xffff, 0xffffffff };
	struct rxe_queue_buf *queue;
	struct ibv_srq *srq;
	size_t i;

	srq = ibv_create_srq(self->client.end.pd, &init_attr);
	ASSERT_NE(NULL, srq);
	queue = last_queue();
	ASSERT_EQ(SHARED_RECEIVES, queue->index_mask);
	for (i = 0; i < ARRAY_SIZE(masks); i++) {
		queue->index_mask = masks[i];
		EXPECT_EQ(SHARED_RECEIVES, max_wr_of(_metadata, srq));
		EXPECT_EQ(0, ibv_modify_srq(srq, &within, IBV_SRQ_LIMIT));
		EXPECT_EQ(EINVAL, ibv_modify_srq(srq, &beyond, IBV_SRQ_LIMIT));
	}
}

/* ---- WQEs that are spoilt after their request was posted ---- */

FIXTURE(late) {
	struct client client;
	struct send_ring ring;
};

FIXTURE_VARIANT(late) {
	struct wr (*make)(void);
	void (*spoil)(struct rxe_send_wqe *wqe);
};

#define LATE(name, make_wr, ...)							\
	static void spoil_late_##name(struct rxe_send_wqe *wqe) { __VA_ARGS__; }	\
	FIXTURE_VARIANT_ADD(late, name) { make_wr, spoil_late_##name }

LATE(cur_sge_of_read, wr_read, wqe->dma.cur_sge = 0x7fffffff; wqe->dma.num_sge = 0xffffffff);
LATE(cur_sge_of_fetch_add, wr_fetch_add, wqe->dma.cur_sge = 0x7fffffff; wqe->dma.num_sge = 0xffffffff);
LATE(num_sge_of_read, wr_read, wqe->dma.sge_offset = 40; wqe->dma.num_sge = 0xffffffff;
     memset(&wqe->dma.sge[1], 0, 3 * sizeof(wqe->dma.sge[0])));

FIXTURE_SETUP(late)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
	line_open(&self->client, &self->client.line, &RXE_QP_DEFAULT);
	send_ring_open(&self->ring);
}

FIXTURE_TEARDOWN(late)
{
	client_close(&self->client);
}

/* The response has no place to go to. */
TEST_F_TIMEOUT(late, wqe, PATIENCE)
{
	struct rxe_send_wqe *wqe = send_ring_next(&self->ring);
	struct packet rq = post_and_expect(_metadata, &self->client, variant->make());

	variant->spoil(wqe);
	respond(&self->client, &rq);
	expect_refusal(_metadata, &self->client, OUT_OF_REACH);
}

/* ---- A ring that never gets empty ---- */

#define REFILL_MS	30000	/* then it stops by itself: a debug kernel needs up to 68 s for a reset, scaled by 4 */
#define WQE_PENDING	2	/* wqe_state_pending: sent */
#define WQE_DONE	3	/* wqe_state_done, of what the completer has only to take */

struct refiller {
	struct send_ring ring;
	pthread_t thread;
	char *workers;		/* the CPUs of the kernel's workers before */
	_Atomic long long end;	/* when it stops by itself, as now_ms() tells; 0: never */
	atomic_bool busy, stop, over;
	atomic_bool late;	/* the consumer has found nothing, and stopped */
	atomic_uint laps;	/* of the consumer */
};

static void stay_on_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus))
		errx(1, "no CPU %d: a race wants two", cpu);
}

/* The unbound workers of the kernel, and so rxe's, are on the CPUs of @mask; returns the mask before, to be freed. */
static char *move_workers(const char *mask)
{
	static const char path[] = "/sys/devices/virtual/workqueue/cpumask";
	FILE *file = fopen(path, "r+");
	char *before = NULL;
	size_t size = 0;

	if (!file || getline(&before, &size, file) < 0)
		err(1, "%s", path);
	rewind(file);
	if (fputs(mask, file) < 0 || fclose(file))
		err(1, "%s: cannot write %s", path, mask);
	return before;
}

static void *refill(void *arg)
{
	struct refiller *refiller = arg;
	volatile struct rxe_queue_buf *queue = refiller->ring.queue;
	__u32 last = 0, consumer;

	stay_on_cpu(1);
	while (!refiller->stop && (!refiller->end || now_ms() < refiller->end)) {
		consumer = queue->consumer_index;
		if (consumer == queue->producer_index)
			refiller->late = true;
		queue->producer_index = (consumer - 1) & refiller->ring.index_mask;
		refiller->laps += consumer < last;
		last = consumer;
		refiller->busy = true;
	}
	refiller->over = true;
	return NULL;
}

/* A line whose ring is so large that it is refilled in time even if an emulator stops this CPU for a while. */
static void open_large_ring(struct client *client, struct refiller *refiller)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.queue = 1 << 17;
	line_open(client, &client->line, &config);
	send_ring_open(&refiller->ring);
}

/* Without preemption a worker in a loop leaves nothing of its CPU: it must not be that of the refiller. */
static void start_refiller(struct refiller *refiller)
{
	refiller->workers = move_workers("1");
	if (pthread_create(&refiller->thread, NULL, refill, refiller))
		errx(1, "no thread");
	while (!refiller->busy)
		;
}

static void stop_refiller(struct refiller *refiller)
{
	refiller->stop = true;
	pthread_join(refiller->thread, NULL);
	free(move_workers(refiller->workers));
	free(refiller->workers);
}

/* The ring is full of what is done, behind a READ: the response to it lets the completer begin. */
static struct packet refill_with_what_is_done(struct __test_metadata *_metadata, struct client *client,
					      struct refiller *refiller)
{
	const struct send_ring *ring = &refiller->ring;
	volatile struct rxe_send_wqe *read;
	struct packet rq;
	__u32 i;

	stay_on_cpu(0);
	open_large_ring(client, refiller);
	read = send_ring_next(ring);
	rq = post_and_expect(_metadata, client, wr_read());
	/* The requester writes the state after it has sent the packet. */
	while (read->state != WQE_PENDING)
		;
	rxe_modify_qp(&client->line.qp, IBV_QPS_SQD);
	for (i = 0; i <= ring->index_mask; i++)
		*send_ring_slot(ring, i) = (struct rxe_send_wqe) { .state = WQE_DONE };
	start_refiller(refiller);
	return response(client, &rq);
}

/*
 * In SQD nothing is begun, so that all WQEs stay as they are.  A kernel that takes them until there is none comes
 * back from the response that makes it begin when the refiller was stopped for long, by an emulator, or never.  On a
 * host with other load it was seen to take more than a minute.
 */
TEST_F_TIMEOUT(ring, refilled_with_what_is_done, 240)
{
	struct client *client = &self->client;
	struct refiller refiller = { };
	struct packet answer = refill_with_what_is_done(_metadata, client, &refiller);

	peer_send(&answer);
	EXPECT_LT(refiller.laps, 100);
	/* It goes on by itself, unless an emulator has stopped the refiller for too long. */
	while (refiller.laps < 3)
		if (atomic_exchange(&refiller.late, false))
			peer_send(&answer);
	expect_silence(_metadata, client);
	stop_refiller(&refiller);
	expect_silence(_metadata, client);
}

/* The same, and the QP is reset meanwhile, which waits for what the completer does. */
TEST_F_TIMEOUT(ring, reset_while_it_is_refilled, PATIENCE)
{
	struct client *client = &self->client;
	struct refiller refiller = { };
	struct packet answer = refill_with_what_is_done(_metadata, client, &refiller);

	/* Begin again if an emulator has stopped the refiller for too long. */
	do {
		refiller.late = false;
		refiller.laps = 0;
		peer_send(&answer);
		while (!refiller.laps && !refiller.late)
			;
	} while (refiller.late);
	refiller.end = now_ms() + REFILL_MS * wait_scale();
	/* Some kernels refuse to reset a QP that drains. */
	rxe_modify_qp(&client->line.qp, IBV_QPS_ERR);
	rxe_modify_qp(&client->line.qp, IBV_QPS_RESET);
	EXPECT_FALSE(refiller.over) {
		TH_LOG("ibv_modify_qp() has waited for the refiller");
	}
	stop_refiller(&refiller);
}

/* A retry goes through the ring up to the producer index, past what is done. */
TEST_F_TIMEOUT(ring, retried_with_a_producer_index_out_of_range, 60)
{
	struct client *client = &self->client;
	struct send_ring ring;
	struct packet rq;
	__u32 i;

	line_open(client, &client->line, &RXE_QP_DEFAULT);
	send_ring_open(&ring);
	rq = post_and_expect(_metadata, client, wr_write());
	for (i = 1; i <= ring.index_mask; i++)
		send_ring_slot(&ring, i)->state = WQE_DONE;
	ring.queue->producer_index |= ~ring.index_mask;
	acknowledge(client, &rq, ROCE_AETH_NAK_PSN);
	expect_healing(_metadata, client, &rq, 1);
	expect_silence(_metadata, client);
	/* Nothing of what follows it was taken for a request. */
	ring.queue->producer_index &= ring.index_mask;
	rq = post_and_expect(_metadata, client, wr_write());
	respond(client, &rq);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
}

/* ---- WQEs that change while the kernel reads them ---- */

/* What the racer flips, NULL: nothing; and how often it has done so. */
static struct rxe_send_wqe *_Atomic target;
static atomic_uint flips;

struct racer {
	void (*flip)(volatile struct rxe_send_wqe *wqe, bool back);
	pthread_t thread;
	atomic_bool busy, stop;
};

static void *race(void *arg)
{
	struct racer *racer = arg;
	struct rxe_send_wqe *wqe;
	bool back = false;

	stay_on_cpu(1);
	while (!racer->stop) {
		racer->busy = true;
		wqe = target;
		if (wqe) {
			back = !back;
			racer->flip(wqe, back);
			flips++;
		}
		racer->busy = false;
	}
	return NULL;
}

static void start_racer(struct racer *racer, void (*flip)(volatile struct rxe_send_wqe *wqe, bool back))
{
	*racer = (struct racer) { .flip = flip };
	if (pthread_create(&racer->thread, NULL, race, racer))
		errx(1, "no thread");
}

static void stop_racer(struct racer *racer)
{
	racer->stop = true;
	pthread_join(racer->thread, NULL);
}

/* It does not touch the WQE any more. */
static void end_race(struct racer *racer)
{
	target = NULL;
	while (racer->busy)
		;
}

FIXTURE(race) {
	struct client client;
	struct send_ring ring;
	struct racer racer;
	unsigned int sent, refused;
};

FIXTURE_VARIANT(race) {
	struct wr (*make)(void);
	/* Make the WQE one thing and another; all that is sent must be one of them, entirely. */
	void (*flip)(volatile struct rxe_send_wqe *wqe, bool back);
};

#define RACE(name, make_wr, field, one, other)						\
	static void flip_##name(volatile struct rxe_send_wqe *wqe, bool back)		\
	{										\
		wqe->field = back ? (one) : (other);					\
	}										\
	FIXTURE_VARIANT_ADD(race, name) { make_wr, flip_##name }

RACE(opcode_of_both, wr_atomic_write, wr.opcode, IBV_WR_ATOMIC_WRITE, IBV_WR_FLUSH);
RACE(opcode_and_none, wr_flush, wr.opcode, IBV_WR_FLUSH, 0xffffffff);
RACE(opcode_and_reg_mr, wr_atomic_write, wr.opcode, IBV_WR_ATOMIC_WRITE, 32);
RACE(opcode_and_write, wr_write, wr.opcode, IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_WRITE);
RACE(opcode_and_read, wr_write, wr.opcode, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ);
RACE(length, wr_atomic_write, dma.length, 8, MTU);
RACE(resid, wr_atomic_write, dma.resid, 8, 0xffffff);
RACE(type, wr_flush, wr.wr.flush.type, 1, 0xff);
RACE(level, wr_flush, wr.wr.flush.level, 0, 3);
RACE(address, wr_atomic_write, wr.wr.rdma.remote_addr, REMOTE_VA, REMOTE_VA + 1);
RACE(write_resid, wr_write, dma.resid, 32, 0x10000);
RACE(write_num_sge, wr_write, dma.num_sge, 1, 0xffffffff);
RACE(write_cur_sge, wr_write, dma.cur_sge, 0, 0x7fffffff);
RACE(write_sge_offset, wr_write, dma.sge_offset, 0, 0x7fffff00);
RACE(write_inline_offset, wr_write, dma.sge_offset, 0, 0x40000);
RACE(write_inline_resid, wr_write, dma.resid, 32, MTU);
RACE(write_is_inline, wr_write, wr.send_flags, IBV_SEND_SIGNALED,
     IBV_SEND_SIGNALED | IBV_SEND_INLINE);

FIXTURE_SETUP(race)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
	memset(self->client.end.memory, 0x11, MEMORY_LEN);
	self->sent = self->refused = 0;
	stay_on_cpu(0);
}

FIXTURE_TEARDOWN(race)
{
	client_close(&self->client);
}

/* Nothing but what the program has put into its memory and into this WQE may be in a packet. */
static void expect_no_leak(struct __test_metadata *_metadata, struct client *client,
			   const struct frame *frame)
{
	/* Part of the WQE; an address may look like anything. */
	const struct ibv_sge sge = {
		(uintptr_t)client->end.memory, wr_write().len, client->mr->lkey,
	};
	struct packet packet;
	size_t i;

	ASSERT_TRUE(frame_to_packet(frame, &packet)) {
		TH_LOG("opcode 0x%02x, shorter than its headers", frame->wire.bth.opcode);
	}
	switch (packet.opcode) {
	case ROCE_RC_FLUSH:
		ASSERT_EQ(0, packet.payload_len);
		ASSERT_EQ(GLOBAL, packet.placement);
		break;
	case ROCE_RC_ATOMIC_WRITE:
		ASSERT_EQ(8, packet.payload_len);
		ASSERT_EQ(8, packet.dmalen);
		ASSERT_EQ(0, packet.va % 8);
		break;
	default:
		for (i = 0; i < packet.payload_len; i++)
			if (packet.payload[i] == RING_PATTERN &&
			    !(i < sizeof(sge) && ((const __u8 *)&sge)[i] == RING_PATTERN))
				break;
		ASSERT_EQ(packet.payload_len, i) {
			TH_LOG("byte %zu of the payload is from elsewhere in the ring", i);
		}
	}
	ASSERT_EQ(peer_icrc(packet.opcode), frame->icrc);
}

/* The race is on before the kernel is told, but after libibverbs is done with the WQE. */
static void start_race(struct rxe_send_wqe *wqe)
{
	unsigned int start = flips;

	target = wqe;
	while (flips - start < 2)
		;
}

static void prepare_plain(struct rxe_send_wqe *wqe)
{
	start_race(wqe);
}

static void prepare_inline(struct rxe_send_wqe *wqe)
{
	make_inline(wqe);
	start_race(wqe);
}

static void race_once(struct __test_metadata *_metadata, FIXTURE_DATA(race) *self,
		      struct wr (*make)(void), void (*prepare)(struct rxe_send_wqe *wqe))
{
	struct client *client = &self->client;
	struct frame frame;
	struct ibv_wc wc;

	line_open(client, &client->line, &RXE_QP_DEFAULT);
	send_ring_open(&self->ring);
	/* All of the WQE is the program's own, and may be sent. */
	memset(send_ring_next(&self->ring), 0x11, sizeof(struct rxe_send_wqe) + INLINE_BYTES);
	post_spoilt(_metadata, client, &self->ring, make(), prepare);
	if (next_is_completion(_metadata, client, &frame, &wc)) {
		self->refused++;
		expect_refused_wc(_metadata, &wc, IBV_WC_LOC_QP_OP_ERR);
	} else {
		self->sent++;
		expect_no_leak(_metadata, client, &frame);
	}
	end_race(&self->racer);
	if (ibv_destroy_qp(client->line.qp.qp))
		err(1, "destroying a queue pair");
	/* What it still sent, and that it was flushed, is of no interest. */
	while (peer_recv_frame(&frame, 0))
		expect_no_leak(_metadata, client, &frame);
	while (ibv_poll_cq(client->end.cq, 1, &wc))
		;
}

TEST_F_TIMEOUT(race, wqe, PATIENCE)
{
	void (*prepare)(struct rxe_send_wqe *wqe) = prepare_plain;
	int i;

	if (variant->flip == flip_write_inline_offset || variant->flip == flip_write_inline_resid)
		prepare = prepare_inline;
	start_racer(&self->racer, variant->flip);
	for (i = 0; i < races; i++)
		race_once(_metadata, self, variant->make, prepare);
	stop_racer(&self->racer);
	TH_LOG("%u sent, %u refused", self->sent, self->refused);
	expect_silence(_metadata, &self->client);
}

/* ---- Binds that change while the kernel reads them ---- */

FIXTURE(bind_race) {
	struct client client;
	struct racer racer;
};

FIXTURE_VARIANT(bind_race) {
	void (*flip)(volatile struct rxe_send_wqe *wqe, bool back);
};

#define BIND_RACE(name, field, one, other)						\
	static void flip_bind_##name(volatile struct rxe_send_wqe *wqe, bool back)	\
	{										\
		wqe->wr.wr.mw.field = back ? (one) : (other);				\
	}										\
	FIXTURE_VARIANT_ADD(bind_race, name) { flip_bind_##name }

/* Of length 0 there is no region. */
BIND_RACE(length, length, 64, 0);
BIND_RACE(length_and_none, length, 64, -1ull);
BIND_RACE(access, access, IBV_ACCESS_REMOTE_READ, 0xffffffff);

FIXTURE_SETUP(bind_race)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
	stay_on_cpu(0);
}

FIXTURE_TEARDOWN(bind_race)
{
	client_close(&self->client);
}

/* One bind, after which window and region can go as if nothing were wrong.  Was it done? */
static bool bind_once(struct __test_metadata *_metadata, FIXTURE_DATA(bind_race) *self, struct ibv_qp_ex *qpx,
		      struct send_ring *ring)
{
	struct client *client = &self->client;
	struct ibv_mr *mr = rxe_reg_mr(&client->end, 0, PAGE, ACCESS_DRAM);
	struct ibv_mw *mw = rxe_alloc_mw(&client->end, 1);
	const struct ibv_mw_bind_info info = { mr, (uintptr_t)mr->addr, 64, IBV_ACCESS_REMOTE_READ };
	struct ibv_wc wc;

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qpx, mw, mw->rkey, &info);
	start_race(send_ring_next(ring));
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS));
	end_race(&self->racer);
	if (wc.status != IBV_WC_SUCCESS) {
		expect_refused_wc(_metadata, &wc, IBV_WC_MW_BIND_ERR);
	}
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	ASSERT_EQ(0, ibv_dereg_mr(mr));
	return wc.status == IBV_WC_SUCCESS;
}

TEST_F_TIMEOUT(bind_race, wqe, PATIENCE)
{
	struct client *client = &self->client;
	unsigned int bound = 0, refused = 0;
	struct send_ring ring;
	struct ibv_qp_ex *qpx;

	start_racer(&self->racer, variant->flip);
	while (bound + refused < 40u * races) {
		line_open(client, &client->line, &RXE_QP_DEFAULT);
		send_ring_open(&ring);
		qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
		while (bound + refused < 40u * races && bind_once(_metadata, self, qpx, &ring))
			bound++;
		/* The QP is in error now. */
		refused++;
		ASSERT_EQ(0, ibv_destroy_qp(client->line.qp.qp));
	}
	stop_racer(&self->racer);
	TH_LOG("%u bound, %u refused", bound, refused);
}

/* ---- The address vector of a datagram, which a library without handles of vectors leaves in the WQE ---- */

/* As such a library fills it in. */
static struct rxe_av sound_vector(const struct client *client)
{
	struct rxe_av av = {
		.port_num = 1, .network_type = RXE_NETWORK_TYPE_IPV4,
		.grh = { .sgid_index = client->end.gid_index, .hop_limit = 64 },
	};

	peer_gid(PEER_ADDR, av.grh.dgid.raw);
	av.sgid_addr._sockaddr_in.sin_addr.s_addr = htobe32(RXE_ADDR);
	av.dgid_addr._sockaddr_in.sin_addr.s_addr = htobe32(PEER_ADDR);
	return av;
}

/* There is room for addresses of IPv6, too: fe80::bad1 to all nodes of the link. */
static void add_ipv6(struct rxe_av *av)
{
	static const __u8 source[16] = { 0xfe, 0x80, [14] = 0xba, 0xd1 };
	static const __u8 all_nodes[16] = { 0xff, 0x02, [15] = 1 };

	memcpy(&av->sgid_addr._sockaddr_in6.sin6_addr, source, sizeof(source));
	memcpy(&av->dgid_addr._sockaddr_in6.sin6_addr, all_nodes, sizeof(all_nodes));
}

static void open_datagram_line(struct client *client, struct send_ring *ring)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.type = IBV_QPT_UD;
	line_open(client, &client->line, &config);
	send_ring_open(ring);
}

static void post_datagram(struct __test_metadata *_metadata, struct client *client, struct send_ring *ring,
			  void (*prepare)(struct rxe_send_wqe *wqe))
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct rxe_send_wqe *wqe = send_ring_next(ring);

	ibv_wr_start(qpx);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(qpx);
	set_sge(client, qpx, wr_send().len);
	wqe->wr.wr.ud.remote_qpn = client->line.qp.peer_qpn;
	wqe->wr.wr.ud.remote_qkey = RXE_QKEY;
	wqe->wr.wr.ud.ah_num = 0;
	wqe->wr.wr.ud.av = sound_vector(client);
	prepare(wqe);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
}

/* It has completed, so the peer gets it: from the address of the GID, as IPv4, and with this Q_Key. */
static void expect_datagram(struct __test_metadata *_metadata, struct client *client, __u32 qkey)
{
	const size_t headers = sizeof(struct roce_bth) + 8;
	struct frame frame;
	__be32 sent_qkey;

	ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
		TH_LOG("it has completed, but no packet of IPv4 came");
	}
	ASSERT_EQ(ROCE_SERVICE_UD | ROCE_RC_SEND_ONLY, frame.wire.bth.opcode);
	ASSERT_EQ(RXE_ADDR, frame.source);
	ASSERT_EQ(ICRC_CONFORMING, frame.icrc);
	ASSERT_EQ(headers + wr_send().len, frame.len);
	memcpy(&sent_qkey, frame.wire.roce + sizeof(struct roce_bth), sizeof(sent_qkey));
	ASSERT_EQ(qkey, be32toh(sent_qkey));
	ASSERT_EQ(0, memcmp(frame.wire.roce + headers, client->end.memory, wr_send().len));
}

FIXTURE(vector) {
	struct client client;
	struct send_ring ring;
};

FIXTURE_VARIANT(vector) {
	void (*spoil)(struct rxe_send_wqe *wqe);
	enum verdict verdict;
	__u32 qkey;
};

#define VECTOR(name, verdict, ...)							\
	static void spoil_vector_##name(struct rxe_send_wqe *wqe)			\
	{										\
		struct rxe_av *av = &wqe->wr.wr.ud.av;					\
		(void)av;								\
		__VA_ARGS__;								\
	}										\
	FIXTURE_VARIANT_ADD(vector, name) { spoil_vector_##name, verdict, RXE_QKEY }

VECTOR(sound, IGNORED, );
VECTOR(sound_with_ipv6, IGNORED, add_ipv6(av));
VECTOR(source, REFUSED, av->sgid_addr._sockaddr_in.sin_addr.s_addr = htobe32(RXE_ADDR + 77));
VECTOR(source_of_zeroes, REFUSED, av->sgid_addr._sockaddr_in.sin_addr.s_addr = 0);
VECTOR(kind, REFUSED, add_ipv6(av); av->network_type = RXE_NETWORK_TYPE_IPV6);
VECTOR(kind_of_none, REFUSED, av->network_type = 0);
VECTOR(gid_of_another, REFUSED, av->grh.sgid_index = !av->grh.sgid_index);
VECTOR(gid_of_none, REFUSED, av->grh.sgid_index = 255);

/* The Q_Key of the request, and the one that is sent: bit 31 asks for that of the QP. */
#define QKEY(name, asked, sent)								\
	static void set_qkey_##name(struct rxe_send_wqe *wqe)				\
	{										\
		wqe->wr.wr.ud.remote_qkey = asked;					\
	}										\
	FIXTURE_VARIANT_ADD(vector, qkey_##name) { set_qkey_##name, IGNORED, sent }

QKEY(of_another, RXE_QKEY + 1, RXE_QKEY + 1);
QKEY(of_the_mad_layer, 0x80010000, RXE_QKEY);

FIXTURE_SETUP(vector)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
	memset(self->client.end.memory, 0x11, MEMORY_LEN);
	open_datagram_line(&self->client, &self->ring);
}

FIXTURE_TEARDOWN(vector)
{
	client_close(&self->client);
}

TEST_F_TIMEOUT(vector, datagram, PATIENCE)
{
	struct client *client = &self->client;

	post_datagram(_metadata, client, &self->ring, variant->spoil);
	if (variant->verdict != IGNORED) {
		expect_refusal(_metadata, client, variant->verdict);
		return;
	}
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	expect_datagram(_metadata, client, variant->qkey);
	expect_silence(_metadata, client);
}

FIXTURE(vector_race) {
	struct client client;
	struct racer racer;
};

FIXTURE_VARIANT(vector_race) {
	void (*flip)(volatile struct rxe_send_wqe *wqe, bool back);
};

#define VECTOR_RACE(name, field, one, other)						\
	static void flip_vector_##name(volatile struct rxe_send_wqe *wqe, bool back)	\
	{										\
		wqe->wr.wr.ud.av.field = back ? (one) : (other);			\
	}										\
	FIXTURE_VARIANT_ADD(vector_race, name) { flip_vector_##name }

VECTOR_RACE(source, sgid_addr._sockaddr_in.sin_addr.s_addr, htobe32(RXE_ADDR), htobe32(RXE_ADDR + 77));
VECTOR_RACE(kind, network_type, RXE_NETWORK_TYPE_IPV4, RXE_NETWORK_TYPE_IPV6);

FIXTURE_SETUP(vector_race)
{
	client_open(&self->client, &RXE_QP_DEFAULT);
	memset(self->client.end.memory, 0x11, MEMORY_LEN);
	stay_on_cpu(0);
}

FIXTURE_TEARDOWN(vector_race)
{
	client_close(&self->client);
}

static void prepare_vector_race(struct rxe_send_wqe *wqe)
{
	add_ipv6(&wqe->wr.wr.ud.av);
	start_race(wqe);
}

/* One datagram on a QP of its own, which a refusal puts in error.  Was it sent? */
static bool send_raced_datagram(struct __test_metadata *_metadata, FIXTURE_DATA(vector_race) *self)
{
	struct client *client = &self->client;
	struct send_ring ring;
	struct ibv_wc wc;

	open_datagram_line(client, &ring);
	post_datagram(_metadata, client, &ring, prepare_vector_race);
	ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS));
	end_race(&self->racer);
	if (wc.status == IBV_WC_SUCCESS) {
		expect_datagram(_metadata, client, RXE_QKEY);
	} else {
		expect_refused_wc(_metadata, &wc, IBV_WC_LOC_QP_OP_ERR);
	}
	ASSERT_EQ(0, ibv_destroy_qp(client->line.qp.qp));
	return wc.status == IBV_WC_SUCCESS;
}

TEST_F_TIMEOUT(vector_race, datagram, PATIENCE)
{
	int sent = 0, i;

	start_racer(&self->racer, variant->flip);
	for (i = 0; i < 4 * races; i++)
		sent += send_raced_datagram(_metadata, self);
	stop_racer(&self->racer);
	TH_LOG("%d sent, %d refused", sent, i - sent);
	expect_silence(_metadata, &self->client);
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "legacy-icrc", no_argument, NULL, 'i' },
		{ "flushes-refused", no_argument, NULL, 'f' },
		{ "on-demand", no_argument, NULL, 'o' },
		{ "races", required_argument, NULL, 'r' },
		{ "once", no_argument, NULL, '1' },
		{ }
	};
	struct selection selection = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'i')
			peer_legacy_icrc = true;
		else if (option == 'f')
			rxe_flushes_refused = true;
		else if (option == 'o')
			rxe_on_demand = true;
		else if (option == 'r')
			races = atoi(optarg);
		else if (option == '1')
			selection.once = true;
		if (option == '?' || races < 1)
			errx(2, "usage: hostile-wqes [--legacy-icrc] [--flushes-refused] [--on-demand] [--races N] [--once] [PATTERN...]");
	}
	selection.patterns = argv + optind;
	run_cases(selection);
}
