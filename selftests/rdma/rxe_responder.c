// SPDX-License-Identifier: GPL-2.0
/* For cases in which the kernel is the responder, see rxe_responder.h. */
#include <err.h>

#include "rxe_responder.h"

void flow_open(struct rig *rig, struct flow *flow, const struct rxe_qp_config *config)
{
	rxe_make_qp(&rig->end, config, &flow->qp);
	flow->psn = config->peer_psn;
	flow->msn = 0;
}

void rig_open(struct rig *rig, bool pmem, unsigned int mr_access,
	      const struct rxe_qp_config *config)
{
	size_t i;

	peer_forget_qpns();
	rxe_open(&rig->end, pmem);
	for (i = 0; i < MEMORY_LEN; i++)
		rig->end.memory[i] = i * 7 + i / PAGE + 1;
	memcpy(rig->model, rig->end.memory, MEMORY_LEN);
	rig->start = (uintptr_t)rig->end.memory + REGION_OFFSET;
	rig->mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, mr_access);
	rig->open_mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN,
				  pmem ? ACCESS_ALL : ACCESS_DRAM);
	if (!rig->mr || !rig->open_mr)
		err(1, "memory regions (access 0x%x)", mr_access);
	flow_open(rig, &rig->flow, config);
}

void flow_reopen(struct rig *rig, const struct rxe_qp_config *config)
{
	flow_open(rig, &rig->flow, config);
}

void flow_with_resources(struct rig *rig, unsigned int resources)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.resources = resources;
	flow_reopen(rig, &config);
}

void flow_from_psn(struct rig *rig, __u32 psn)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.peer_psn = psn;
	flow_reopen(rig, &config);
}

void flow_in_state(struct rig *rig, enum ibv_qp_state state)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.state = state;
	flow_reopen(rig, &config);
}

__u32 bind_window(struct rig *rig, int type, unsigned int access)
{
	return rxe_bind_mw(&rig->end, &rig->flow.qp, rig->mr, type,
			   (uintptr_t)rig->end.memory + WINDOW_OFFSET, WINDOW_LEN, access)->rkey;
}

struct ibv_mw *bind_all(struct rig *rig, struct flow *flow, int type, unsigned int access)
{
	return rxe_bind_mw(&rig->end, &flow->qp, rig->mr, type, rig->start, REGION_LEN, access);
}

/* Requests, sound unless spoilt.  QP number and PSN are filled in when they are sent. */

struct packet flush(struct rig *rig, __u32 placement, __u64 va, __u32 len)
{
	return (struct packet) {
		.opcode = ROCE_RC_FLUSH, .ack_req = true, .placement = placement,
		.va = va, .rkey = rig->mr->rkey, .dmalen = len,
	};
}

struct packet flush_range(struct rig *rig)
{
	return flush(rig, GLOBAL, rig->start, 64);
}

struct packet flush_region(struct rig *rig)
{
	return flush(rig, GLOBAL | REGION, 0xdeadbeefdeadbeef, 0x12345678);
}

struct packet atomic_write_to(struct rig *rig, __u64 va)
{
	static __u8 count;
	struct packet packet = {
		.opcode = ROCE_RC_ATOMIC_WRITE, .ack_req = true, .va = va,
		.rkey = rig->mr->rkey, .dmalen = 8, .payload_len = 8,
		.payload = { 0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, ++count },
	};

	return packet;
}

struct packet atomic_write(struct rig *rig)
{
	return atomic_write_to(rig, rig->start + 64);
}

struct packet write_part(struct rig *rig, __u8 opcode, __u32 dmalen, size_t len)
{
	static __u8 fill = 0x80;
	struct packet packet = {
		.opcode = opcode, .ack_req = true, .va = rig->start + 128,
		.rkey = rig->mr->rkey, .dmalen = dmalen, .payload_len = len,
	};

	memset(packet.payload, fill++, len);
	return packet;
}

struct packet write_only(struct rig *rig)
{
	return write_part(rig, ROCE_RC_WRITE_ONLY, 32, 32);
}

struct packet write_first(struct rig *rig)
{
	return write_part(rig, ROCE_RC_WRITE_FIRST, 2 * MTU, MTU);
}

struct packet write_last(struct rig *rig)
{
	struct packet packet = write_part(rig, ROCE_RC_WRITE_LAST, 0, MTU);

	packet.va += MTU;	/* for the model; it is not on the wire */
	return packet;
}

struct packet read_only(struct rig *rig)
{
	return (struct packet) {
		.opcode = ROCE_RC_READ_REQUEST, .ack_req = true, .va = rig->start + 160,
		.rkey = rig->mr->rkey, .dmalen = 40,
	};
}

struct packet fetch_add(struct rig *rig)
{
	return (struct packet) {
		.opcode = ROCE_RC_FETCH_ADD, .ack_req = true, .va = rig->start + 200,
		.rkey = rig->mr->rkey, .swap_or_add = 0x0101,
	};
}

/* Execution in the model, and the answer that the kernel owes. */

void *model_at(struct rig *rig, __u64 va)
{
	return rig->model + (va - (uintptr_t)rig->end.memory);
}

static void model_fetch_add(struct rig *rig, const struct packet *rq, struct packet *answer)
{
	__u64 value;

	memcpy(&value, model_at(rig, rq->va), sizeof(value));
	answer->orig = value;
	value += rq->swap_or_add;
	memcpy(model_at(rig, rq->va), &value, sizeof(value));
}

struct packet model_execute(struct rig *rig, struct flow *flow, const struct packet *rq)
{
	struct packet answer = { .psn = flow->psn, .qpn = flow->qp.peer_qpn };

	switch (rq->opcode) {
	case ROCE_RC_FLUSH:
		answer.opcode = ROCE_RC_READ_RESPONSE_ONLY;
		break;
	case ROCE_RC_ATOMIC_WRITE:
		answer.opcode = ROCE_RC_READ_RESPONSE_ONLY;
		memcpy(model_at(rig, rq->va), rq->payload, rq->payload_len);
		break;
	case ROCE_RC_READ_REQUEST:
		answer.opcode = ROCE_RC_READ_RESPONSE_ONLY;
		answer.payload_len = rq->dmalen;
		memcpy(answer.payload, model_at(rig, rq->va), rq->dmalen);
		break;
	case ROCE_RC_FETCH_ADD:
		answer.opcode = ROCE_RC_ATOMIC_ACK;
		model_fetch_add(rig, rq, &answer);
		break;
	default:
		answer.opcode = ROCE_RC_ACK;
		memcpy(model_at(rig, rq->va), rq->payload, rq->payload_len);
	}
	if (rq->opcode != ROCE_RC_WRITE_FIRST && rq->opcode != ROCE_RC_SEND_FIRST)
		flow->msn = psn_add(flow->msn, 1);
	answer.msn = flow->msn;
	return answer;
}

void send_raw(struct flow *flow, struct packet *rq)
{
	rq->qpn = flow->qp.qp->qp_num;
	rq->psn = flow->psn;
	peer_send(rq);
}

void send_raw_frame(struct flow *flow, struct frame *frame)
{
	__u32 reserved = be32toh(frame->wire.bth.qpn) & ~ROCE_24BITS;
	__u32 ack_req = be32toh(frame->wire.bth.apsn) & ~ROCE_24BITS;

	frame->wire.bth.qpn = htobe32(reserved | flow->qp.qp->qp_num);
	frame->wire.bth.apsn = htobe32(ack_req | flow->psn);
	peer_send_frame(frame);
}

void send_by_service(struct flow *flow, const struct packet *rq, __u8 service)
{
	struct frame frame;

	packet_to_frame(rq, &frame);
	frame.wire.bth.opcode |= service;
	send_raw_frame(flow, &frame);
}

struct packet ask(struct rig *rig, struct flow *flow, struct packet *rq)
{
	struct packet answer = model_execute(rig, flow, rq);

	send_raw(flow, rq);
	flow->psn = psn_add(flow->psn, 1);
	return answer;
}

void expect_memory(struct __test_metadata *_metadata, struct rig *rig)
{
	size_t i;

	if (!memcmp(rig->model, rig->end.memory, MEMORY_LEN))
		return;
	for (i = 0; i < MEMORY_LEN; i++)
		ASSERT_EQ(rig->model[i], rig->end.memory[i]) {
			TH_LOG("the memory differs from the model at offset %zu", i);
		}
}

static struct packet serve_on(struct __test_metadata *_metadata, struct rig *rig,
			      struct flow *flow, struct packet *rq)
{
	struct packet answer = ask(rig, flow, rq);

	expect_packet(_metadata, &answer);
	expect_memory(_metadata, rig);
	return answer;
}

struct packet serve(struct __test_metadata *_metadata, struct rig *rig, struct packet *rq)
{
	return serve_on(_metadata, rig, &rig->flow, rq);
}

void served(struct __test_metadata *_metadata, struct rig *rig, struct packet rq)
{
	serve(_metadata, rig, &rq);
}

void window_serves(struct __test_metadata *_metadata, struct rig *rig, struct ibv_mw *mw)
{
	struct packet rq = read_only(rig);

	rq.rkey = mw->rkey;
	served(_metadata, rig, rq);
}

void both_verbs_served_elsewhere(struct __test_metadata *_metadata, struct rig *rig)
{
	struct packet good[] = { flush_range(rig), atomic_write(rig), read_only(rig) };
	struct flow fresh;
	size_t i;

	flow_open(rig, &fresh, &RXE_QP_DEFAULT);
	for (i = 0; i < ARRAY_SIZE(good); i++) {
		good[i].rkey = rig->open_mr->rkey;
		serve_on(_metadata, rig, &fresh, &good[i]);
	}
}

struct ibv_wc peer_invalidates(struct __test_metadata *_metadata, struct rig *rig,
			       struct flow *flow, __u32 rkey, bool ack_req)
{
	struct packet rq = { .opcode = ROCE_RC_SEND_ONLY_INV, .ack_req = ack_req };
	__be32 key = htobe32(rkey);
	struct frame frame;
	struct ibv_wc wc;

	rxe_post_recv(&flow->qp, rig->mr, rig->start + 512, 256);
	packet_to_frame(&rq, &frame);
	memcpy(frame.wire.roce + sizeof(struct roce_bth), &key, sizeof(key));
	send_raw_frame(flow, &frame);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	ASSERT_EQ(flow->qp.qp->qp_num, wc.qp_num);
	return wc;
}

void peer_cannot_invalidate(struct __test_metadata *_metadata, struct rig *rig, struct flow *flow,
			    __u32 rkey)
{
	struct ibv_wc wc = peer_invalidates(_metadata, rig, flow, rkey, false);

	EXPECT_EQ(IBV_WC_REM_INV_REQ_ERR, wc.status);
	both_verbs_served_elsewhere(_metadata, rig);
}

void expect_nak(struct __test_metadata *_metadata, struct rig *rig, __u8 syndrome)
{
	struct packet nak = {
		.opcode = ROCE_RC_ACK, .syndrome = syndrome, .psn = rig->flow.psn,
		.msn = rig->flow.msn, .qpn = rig->flow.qp.peer_qpn,
	};

	expect_packet(_metadata, &nak);
	expect_memory(_metadata, rig);
	both_verbs_served_elsewhere(_metadata, rig);
}

bool is_nak(const struct packet *answer, __u8 syndrome)
{
	return answer->opcode == ROCE_RC_ACK && answer->syndrome == syndrome;
}

void refused(struct __test_metadata *_metadata, struct rig *rig, struct packet rq, __u8 syndrome)
{
	send_raw(&rig->flow, &rq);
	expect_nak(_metadata, rig, syndrome);
}

void expect_dropped(struct __test_metadata *_metadata, struct rig *rig)
{
	struct packet probe = read_only(rig);

	probe.rkey = rig->open_mr->rkey;
	served(_metadata, rig, probe);
}

void send_again(const struct packet *rq)
{
	peer_send(rq);
}

void expect_again(struct __test_metadata *_metadata, struct rig *rig, const struct packet *answer)
{
	char want_words[WORDS_LEN], got_words[WORDS_LEN];
	struct packet want = *answer, packet;
	struct frame frame;
	bool got = peer_recv_frame(&frame, ANSWER_MS);

	if (got && frame_to_packet(&frame, &packet) && packet.msn > answer->msn &&
	    packet.msn <= rig->flow.msn)
		want.msn = packet.msn;
	ASSERT_STREQ(wanted_words(&want, want_words), words_or_nothing(&frame, got, got_words));
	ASSERT_EQ(0, memcmp(want.payload, packet.payload, want.payload_len));
	expect_memory(_metadata, rig);
}

void answered_again(struct __test_metadata *_metadata, struct rig *rig, const struct packet *rq,
		    const struct packet *answer)
{
	send_again(rq);
	expect_again(_metadata, rig, answer);
}

void need_odp(struct __test_metadata *_metadata)
{
	if (!rxe_has_odp())
		SKIP_CASE("the kernel's rxe has no on-demand paging");
}

void rig_close(struct __test_metadata *_metadata, struct rig *rig)
{
	char words[WORDS_LEN];
	struct packet rq, answer;
	struct frame frame;
	struct flow fresh;
	bool got;

	if (HAS_PASSED()) {
		rq = read_only(rig);
		rq.rkey = rig->open_mr->rkey;
		flow_open(rig, &fresh, &RXE_QP_DEFAULT);
		answer = ask(rig, &fresh, &rq);
		got = peer_recv_frame(&frame, ANSWER_MS);
		EXPECT_TRUE(got && be32toh(frame.wire.bth.qpn) == answer.qpn) {
			TH_LOG("not the last answer, but also: %s",
			       words_or_nothing(&frame, got, words));
		}
	}
	rxe_close(&rig->end);
}

void need_pmem(struct __test_metadata *_metadata)
{
	if (!rxe_has_pmem())
		SKIP_CASE("there is no " DAX_DEVICE ": give the machine persistent memory");
}
