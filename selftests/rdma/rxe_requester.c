// SPDX-License-Identifier: GPL-2.0
/* For cases in which the kernel is the requester, see rxe_requester.h. */
#include <err.h>

#include "rxe_requester.h"

static void line_begin(struct line *line, const struct rxe_qp_config *config)
{
	line->psn = config->own_psn;
	line->msn = 0;
	line->peer_psn = config->peer_psn;
	line->peer_asked = 0;
}

void line_open(struct client *client, struct line *line, const struct rxe_qp_config *config)
{
	rxe_make_qp(&client->end, config, &line->qp);
	line_begin(line, config);
	line->id = line == &client->pulse ? 1000000 : 0;
}

void line_reopen(struct client *client, struct line *line, const struct rxe_qp_config *config)
{
	rxe_reconnect_qp(&client->end, config, &line->qp);
	line_begin(line, config);
}

void client_open(struct client *client, const struct rxe_qp_config *config)
{
	peer_forget_qpns();
	rxe_open(&client->end, false);
	client->mr = rxe_reg_mr(&client->end, 0, MEMORY_LEN, ACCESS_DRAM);
	if (!client->mr)
		err(1, "a memory region");
	line_open(client, &client->line, config);
	line_meet(client, &client->line);
	line_open(client, &client->pulse, &RXE_QP_DEFAULT);
}

struct rxe_qp_config with_timeout(unsigned int timeout, unsigned int retries)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	unsigned int scale;

	config.timeout = timeout;
	for (scale = wait_scale(); scale > 1; scale /= 2)
		config.timeout++;
	config.retries = retries;
	return config;
}

/* Work requests. */

struct wr wr_to(enum ibv_wr_opcode opcode, __u64 va, __u32 len)
{
	return (struct wr) { .opcode = opcode, .va = va, .len = len, .flags = IBV_SEND_SIGNALED };
}

struct wr wr_flush(void)
{
	struct wr wr = wr_to(IBV_WR_FLUSH, REMOTE_VA, 192);

	wr.placement = GLOBAL;
	return wr;
}

struct wr wr_flush_region(void)
{
	struct wr wr = wr_to(IBV_WR_FLUSH, 0, 0);

	wr.placement = GLOBAL | REGION;
	return wr;
}

struct wr wr_atomic_write(void)
{
	struct wr wr = wr_to(IBV_WR_ATOMIC_WRITE, REMOTE_VA, 8);

	wr.value = 0x8877665544332211;
	return wr;
}

struct wr wr_write(void)
{
	return wr_to(IBV_WR_RDMA_WRITE, REMOTE_VA + 64, 32);
}

struct wr wr_read(void)
{
	return wr_to(IBV_WR_RDMA_READ, REMOTE_VA + 128, 40);
}

struct wr wr_fetch_add(void)
{
	return wr_to(IBV_WR_ATOMIC_FETCH_AND_ADD, REMOTE_VA + 256, 8);
}

struct wr wr_send(void)
{
	return wr_to(IBV_WR_SEND, 0, 16);
}

struct wr wr_of_depth(int i)
{
	switch (i % 5) {
	case 0:
		return wr_flush();
	case 1:
		return wr_read();
	case 2:
		return wr_atomic_write();
	case 3:
		return wr_fetch_add();
	default:
		return wr_flush_region();
	}
}

void set_sge(struct client *client, struct ibv_qp_ex *qpx, __u32 len)
{
	ibv_wr_set_sge(qpx, client->mr->lkey, (uintptr_t)client->end.memory, len);
}

void build_wr(struct client *client, struct ibv_qp_ex *qpx, const struct wr *wr)
{
	switch (wr->opcode) {
	case IBV_WR_FLUSH:
		ibv_wr_flush(qpx, REMOTE_RKEY, wr->va, wr->len, wr->placement & 0xf,
			     wr->placement >> 4);
		break;
	case IBV_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(qpx, REMOTE_RKEY, wr->va, &wr->value);
		break;
	case IBV_WR_RDMA_WRITE:
		ibv_wr_rdma_write(qpx, REMOTE_RKEY, wr->va);
		ibv_wr_set_sge(qpx, client->mr->lkey, (uintptr_t)client->end.memory +
			       (wr->outside ? MEMORY_LEN : 0), wr->len);
		break;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qpx, REMOTE_RKEY, wr->va);
		set_sge(client, qpx, wr->len);
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		ibv_wr_atomic_fetch_add(qpx, REMOTE_RKEY, wr->va, 1);
		set_sge(client, qpx, 8);
		break;
	default:
		ibv_wr_send(qpx);
		set_sge(client, qpx, wr->len);
	}
}

void fill_request(struct client *client, const struct wr *wr, struct packet *rq)
{
	switch (wr->opcode) {
	case IBV_WR_FLUSH:
		rq->opcode = ROCE_RC_FLUSH;
		rq->placement = wr->placement;
		break;
	case IBV_WR_ATOMIC_WRITE:
		rq->opcode = ROCE_RC_ATOMIC_WRITE;
		rq->payload_len = 8;
		memcpy(rq->payload, &wr->value, 8);
		break;
	case IBV_WR_RDMA_WRITE:
		rq->opcode = ROCE_RC_WRITE_ONLY;
		rq->payload_len = wr->len;
		memcpy(rq->payload, client->end.memory, wr->len);
		break;
	case IBV_WR_RDMA_READ:
		rq->opcode = ROCE_RC_READ_REQUEST;
		break;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		rq->opcode = ROCE_RC_FETCH_ADD;
		rq->swap_or_add = 1;
		break;
	default:
		rq->opcode = ROCE_RC_SEND_ONLY;
		rq->payload_len = wr->len;
		memcpy(rq->payload, client->end.memory, wr->len);
	}
}

void build_bind(struct __test_metadata *_metadata, struct client *client, struct ibv_qp_ex *qpx)
{
	struct ibv_mw *mw = ibv_alloc_mw(client->end.pd, IBV_MW_TYPE_2);
	const struct ibv_mw_bind_info info = {
		client->mr, (uintptr_t)client->end.memory, PAGE, IBV_ACCESS_REMOTE_READ,
	};

	ASSERT_NE(NULL, mw);
	ibv_wr_bind_mw(qpx, mw, ibv_inc_rkey(mw->rkey), &info);
}

struct packet build_on(struct client *client, struct line *line, const struct wr *wr)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(line->qp.qp);
	struct packet rq = {
		.qpn = line->qp.peer_qpn, .psn = line->psn, .ack_req = true,
		.va = wr->va, .rkey = REMOTE_RKEY, .dmalen = wr->len,
	};

	qpx->wr_id = ++line->id;
	qpx->wr_flags = wr->flags;
	build_wr(client, qpx, wr);
	line->psn = psn_add(line->psn, wr->len > peer_link.mtu && wr->opcode == IBV_WR_RDMA_READ ?
			    (wr->len + MTU - 1) / MTU : 1);
	fill_request(client, wr, &rq);
	return rq;
}

struct packet post_on(struct __test_metadata *_metadata, struct client *client, struct line *line,
		      struct wr wr)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(line->qp.qp);
	struct packet rq;

	ibv_wr_start(qpx);
	rq = build_on(client, line, &wr);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	return rq;
}

struct packet post(struct __test_metadata *_metadata, struct client *client, struct wr wr)
{
	return post_on(_metadata, client, &client->line, wr);
}

struct ibv_mr *post_long(struct __test_metadata *_metadata, struct client *client,
			 enum ibv_wr_opcode opcode, void *data, size_t registered, size_t len)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	struct ibv_mr *mr = ibv_reg_mr(client->end.pd, data, registered, 0);

	ASSERT_NE(NULL, mr);
	ibv_wr_start(qpx);
	qpx->wr_id = ++client->line.id;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	if (opcode == IBV_WR_RDMA_WRITE)
		ibv_wr_rdma_write(qpx, REMOTE_RKEY, REMOTE_VA);
	else
		ibv_wr_send(qpx);
	ibv_wr_set_sge(qpx, mr->lkey, (uintptr_t)data, len);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	return mr;
}

void post_all(struct __test_metadata *_metadata, struct client *client, const struct wr *wr, int n,
	      struct packet *rq)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(client->line.qp.qp);
	int i;

	ibv_wr_start(qpx);
	for (i = 0; i < n; i++)
		rq[i] = build_on(client, &client->line, &wr[i]);
	ASSERT_EQ(0, ibv_wr_complete(qpx));
}

struct packet post_and_expect(struct __test_metadata *_metadata, struct client *client,
			      struct wr wr)
{
	struct packet rq = post(_metadata, client, wr);

	expect_packet(_metadata, &rq);
	return rq;
}

struct packet response_on(struct line *line, const struct packet *rq)
{
	const __u64 data = REMOTE_DATA;
	struct packet answer = {
		.opcode = ROCE_RC_READ_RESPONSE_ONLY, .qpn = line->qp.qp->qp_num, .psn = rq->psn,
		.syndrome = 0x1f, .msn = ++line->msn,
	};

	switch (rq->opcode) {
	case ROCE_RC_READ_REQUEST:
		answer.payload_len = rq->dmalen;
		memcpy(answer.payload, &data, sizeof(data));
		break;
	case ROCE_RC_FETCH_ADD:
		answer.opcode = ROCE_RC_ATOMIC_ACK;
		answer.orig = REMOTE_DATA;
		break;
	case ROCE_RC_WRITE_ONLY:
	case ROCE_RC_SEND_ONLY:
		answer.opcode = ROCE_RC_ACK;
		break;
	}
	return answer;
}

struct packet response(struct client *client, const struct packet *rq)
{
	return response_on(&client->line, rq);
}

void respond(struct client *client, const struct packet *rq)
{
	struct packet answer = response(client, rq);

	peer_send(&answer);
}

void acknowledge_on(struct line *line, const struct packet *rq, __u8 syndrome)
{
	struct packet ack = {
		.opcode = ROCE_RC_ACK, .qpn = line->qp.qp->qp_num, .psn = rq->psn,
		.syndrome = syndrome, .msn = line->msn,
	};

	peer_send(&ack);
}

void acknowledge(struct client *client, const struct packet *rq, __u8 syndrome)
{
	acknowledge_on(&client->line, rq, syndrome);
}

struct packet peer_flush(struct client *client, struct line *line)
{
	return (struct packet) {
		.opcode = ROCE_RC_FLUSH, .ack_req = true, .placement = GLOBAL,
		.va = (uintptr_t)client->end.memory, .rkey = client->mr->rkey, .dmalen = 64,
		.qpn = line->qp.qp->qp_num, .psn = psn_add(line->peer_psn, line->peer_asked++),
	};
}

/* For line_meet(): the next packet with @opcode. */
static void next_of_opcode(__u8 opcode, struct frame *frame)
{
	do {
		if (!peer_recv_frame(frame, ANSWER_MS))
			errx(1, "no FLUSH with the ICRC that the peer takes");
	} while (frame->wire.bth.opcode != opcode);
}

static void show_icrc(struct client *client, struct line *line, const struct packet *missed)
{
	struct packet own = peer_flush(client, line);
	struct frame frame;

	peer_send(&own);
	next_of_opcode(ROCE_RC_READ_RESPONSE_ONLY, &frame);
	acknowledge_on(line, missed, ROCE_AETH_NAK_PSN);
}

void line_meet(struct client *client, struct line *line)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(line->qp.qp);
	struct wr wr = wr_flush();
	struct packet rq, answer;
	unsigned int sent;
	struct frame frame;
	struct ibv_wc wc;

	do {
		ibv_wr_start(qpx);
		rq = build_on(client, line, &wr);
		if (ibv_wr_complete(qpx))
			errx(1, "posting the first FLUSH");
		for (sent = 1;; sent++) {
			next_of_opcode(ROCE_RC_FLUSH, &frame);
			if (frame.icrc == peer_icrc(ROCE_RC_FLUSH))
				break;
			show_icrc(client, line, &rq);
		}
		answer = response_on(line, &rq);
		peer_send(&answer);
		if (!rxe_wait_wc(&client->end, &wc, ANSWER_MS) || wc.status != IBV_WC_SUCCESS)
			errx(1, "the first FLUSH does not complete");
		line->id--;
		/* A time-out may have been faster. */
		for (; peer_recv_frame(&frame, 0); sent++)
			;
	} while (sent > 1);
}

void expect_wc(struct __test_metadata *_metadata, struct client *client, __u64 id,
	       enum ibv_wc_status status)
{
	struct ibv_wc wc;

	ASSERT_TRUE(rxe_wait_wc(&client->end, &wc, ANSWER_MS)) {
		TH_LOG("no completion of request %llu", (unsigned long long)id);
	}
	ASSERT_EQ(id, wc.wr_id);
	ASSERT_STREQ(ibv_wc_status_str(status), ibv_wc_status_str(wc.status));
}

void expect_successes(struct __test_metadata *_metadata, struct client *client, __u64 first)
{
	for (; first <= client->line.id; first++)
		expect_wc(_metadata, client, first, IBV_WC_SUCCESS);
}

void expect_silence(struct __test_metadata *_metadata, struct client *client)
{
	struct packet rq = post_on(_metadata, client, &client->pulse, wr_write());
	struct packet answer = response_on(&client->pulse, &rq);

	expect_packet(_metadata, &rq);
	peer_send(&answer);
	expect_wc(_metadata, client, client->pulse.id, IBV_WC_SUCCESS);
}

void expect_retransmission(struct __test_metadata *_metadata, const struct packet *rq, int n)
{
	int i;

	for (i = 0; i < n; i++)
		expect_packet(_metadata, &rq[i]);
}

void expect_healing(struct __test_metadata *_metadata, struct client *client,
		    const struct packet *rq, int n)
{
	int i;

	expect_retransmission(_metadata, rq, n);
	for (i = 0; i < n; i++)
		respond(client, &rq[i]);
	expect_successes(_metadata, client, 1);
}

void expect_again_roughly(struct __test_metadata *_metadata, const struct packet *rq)
{
	char want[WORDS_LEN], got[WORDS_LEN];
	struct frame frame;
	bool any = peer_recv_frame(&frame, ANSWER_MS);

	ASSERT_STREQ(wanted_words(rq, want), words_or_nothing(&frame, any, got));
}

bool next_is_completion(struct __test_metadata *_metadata, struct client *client,
			struct frame *frame, struct ibv_wc *wc)
{
	unsigned int ms;

	for (ms = 0; ms < ANSWER_MS; ms++) {
		if (ibv_poll_cq(client->end.cq, 1, wc))
			return true;
		if (peer_recv_frame(frame, 1))
			return false;
	}
	ASSERT_TRUE(false) {
		TH_LOG("neither a retransmission nor a completion");
	}
	return false;
}

void expect_consequence(struct __test_metadata *_metadata, struct client *client,
			const struct packet *rq, enum consequence consequence)
{
	char want[WORDS_LEN], got[WORDS_LEN];
	struct packet next;
	struct frame frame;
	struct ibv_wc wc;

	if (consequence == ANSWER_IS_BAD) {
		expect_wc(_metadata, client, client->line.id, IBV_WC_BAD_RESP_ERR);
		expect_silence(_metadata, client);
		post(_metadata, client, wr_write());
		expect_wc(_metadata, client, client->line.id, IBV_WC_WR_FLUSH_ERR);
		return;
	}
	expect_packet(_metadata, rq);
	/* What is sent again has not completed. */
	ASSERT_EQ(0, ibv_poll_cq(client->end.cq, 1, &wc));
	respond(client, rq);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
	/* A slow machine may have sent it again once more; nothing else. */
	while (peer_recv_frame(&frame, 0))
		ASSERT_STREQ(wanted_words(rq, want), words_or_nothing(&frame, true, got));
	/* The connection lives. */
	next = post_and_expect(_metadata, client, wr_write());
	respond(client, &next);
	expect_wc(_metadata, client, client->line.id, IBV_WC_SUCCESS);
}

void client_close(struct client *client)
{
	rxe_close(&client->end);
}
