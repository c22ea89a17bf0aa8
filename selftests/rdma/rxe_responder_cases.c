// SPDX-License-Identifier: GPL-2.0
/* The kernel as responder: what holds for FLUSH and ATOMIC WRITE alike. */
#include "rxe_responder.h"

FIXTURE_VARIANT(verb) {
	struct packet (*make)(struct rig *rig);
};

DRAM_FIXTURE(verb)

ROW(verb, flush_range, "1 SEL", "FLUSH of a range") { .make = flush_range };
ROW(verb, flush_region, "1 SEL", "FLUSH of the whole region") { .make = flush_region };
ROW(verb, atomic_write, "1 ATOMIC WRITE", "ATOMIC WRITE") { .make = atomic_write };

CASE(verb, answered, "1 success response",
     "READ RESPONSE ONLY without payload, PSN of the request, MSN + 1")
{
	served(_metadata, &self->rig, variant->make(&self->rig));
}

CASE(verb, answered_unasked, "1 success response",
     "the answer comes whether or not the request asks for an acknowledgment")
{
	struct packet rq = variant->make(&self->rig);

	rq.ack_req = false;
	served(_metadata, &self->rig, rq);
}

CASE(verb, one_psn_each, "1 PSN use", "each takes one PSN and counts one in the MSN")
{
	int i;

	for (i = 0; i < 5; i++)
		served(_metadata, &self->rig, variant->make(&self->rig));
}

CASE(verb, psn_wraps, "1 PSN use", "the PSN after ffffff is 0")
{
	int i;

	flow_from_psn(&self->rig, 0xfffffe);
	for (i = 0; i < 4; i++)
		served(_metadata, &self->rig, variant->make(&self->rig));
}

CASE(verb, amid_all_requests, "1 PSN use", "PSN and MSN of every answer of a mixed stream")
{
	struct rig *rig = &self->rig;
	int i;

	for (i = 0; i < 2; i++) {
		served(_metadata, rig, write_only(rig));
		served(_metadata, rig, variant->make(rig));
		served(_metadata, rig, read_only(rig));
		served(_metadata, rig, variant->make(rig));
		served(_metadata, rig, fetch_add(rig));
		served(_metadata, rig, variant->make(rig));
	}
}

CASE(verb, pipelined, "3 order", "a burst is answered in order, and each answer means done")
{
	struct packet rq[6], answer[6];
	struct rig *rig = &self->rig;
	int i;

	for (i = 0; i < 6; i++) {
		rq[i] = i & 1 ? variant->make(rig) : write_only(rig);
		answer[i] = ask(rig, &rig->flow, &rq[i]);
	}
	for (i = 0; i < 6; i++)
		expect_packet(_metadata, &answer[i]);
	expect_memory(_metadata, rig);
}

CASE(verb, answers_for_a_silent_write, "3 order",
     "a WRITE that wants no acknowledgment is done when what follows is answered")
{
	struct rig *rig = &self->rig;
	struct packet rq = write_only(rig);

	rq.ack_req = false;
	ask(rig, &rig->flow, &rq);
	served(_metadata, rig, variant->make(rig));
}

CASE(verb, not_after_a_lost_write, "3 order",
     "no success while a preceding WRITE is missing: NAK PSN sequence, then both in order")
{
	struct rig *rig = &self->rig;
	struct packet rq = variant->make(rig);
	struct packet nak = {
		.opcode = ROCE_RC_ACK, .syndrome = ROCE_AETH_NAK_PSN, .psn = rig->flow.psn,
		.qpn = rig->flow.qp.peer_qpn,
	};

	rig->flow.psn++;
	send_raw(&rig->flow, &rq);
	rig->flow.psn--;
	expect_packet(_metadata, &nak);
	expect_memory(_metadata, rig);
	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, rq);
}

CASE(verb, icrc_once, "1 ICRC", "the ICRC covers every byte exactly once")
{
	struct packet rq = variant->make(&self->rig), answer;
	struct frame frame;

	answer = model_execute(&self->rig, &self->rig.flow, &rq);
	packet_to_frame(&rq, &frame);
	frame.icrc = ICRC_CONFORMING;
	send_raw_frame(&self->rig.flow, &frame);
	self->rig.flow.psn++;
	expect_packet(_metadata, &answer);
	expect_memory(_metadata, &self->rig);
}

static void ignored_if_truncated(struct __test_metadata *_metadata, struct rig *rig,
				 struct packet rq, bool ip_options)
{
	struct frame frame;
	size_t len;

	for (len = 0; len < headers_len(rq.opcode); len++) {
		packet_to_frame(&rq, &frame);
		frame.len = len;
		frame.options = ip_options;
		send_raw_frame(&rig->flow, &frame);
		expect_dropped(_metadata, rig);
	}
}

CASE(verb, truncated_headers, "5 packet shorter than its headers",
     "cut anywhere within its headers, a packet is ignored")
{
	ignored_if_truncated(_metadata, &self->rig, variant->make(&self->rig), false);
}

CASE(verb, truncated_behind_ip_options, "5 packet shorter than its headers",
     "cut anywhere within its headers, after an IPv4 header with options, it is ignored")
{
	ignored_if_truncated(_metadata, &self->rig, variant->make(&self->rig), true);
}

CASE(verb, without_udp_length, "5 packet shorter than its headers",
     "with a UDP length of 0, a packet is ignored (IPv6 hands it on; KASAN sees reads beyond it)")
{
	struct packet rq = variant->make(&self->rig);
	struct frame frame;

	packet_to_frame(&rq, &frame);
	frame.no_udp_len = true;
	send_raw_frame(&self->rig.flow, &frame);
	expect_dropped(_metadata, &self->rig);
	served(_metadata, &self->rig, rq);
}

CASE(verb, variant_bits, "1 ICRC", "bits that routers and path migration set change nothing")
{
	struct packet rq = variant->make(&self->rig), answer;
	struct frame frame;

	answer = model_execute(&self->rig, &self->rig.flow, &rq);
	packet_to_frame(&rq, &frame);
	frame.wire.bth.flags |= ROCE_BTH_MIG;
	frame.wire.bth.qpn |= htobe32(0xff000000);
	send_raw_frame(&self->rig.flow, &frame);
	self->rig.flow.psn++;
	expect_packet(_metadata, &answer);
	expect_memory(_metadata, &self->rig);
}

CASE(verb, within_a_write, "5 opcode sequence",
     "between WRITE FIRST and LAST it is an invalid request")
{
	struct packet first = write_first(&self->rig);

	first.ack_req = false;
	ask(&self->rig, &self->rig.flow, &first);
	refused(_metadata, &self->rig, variant->make(&self->rig), ROCE_AETH_NAK_INVALID);
}

CASE(verb, within_a_send, "5 opcode sequence",
     "between SEND FIRST and LAST it is an invalid request")
{
	struct rig *rig = &self->rig;
	struct packet first = write_part(rig, ROCE_RC_SEND_FIRST, 0, MTU);

	rxe_post_recv(&rig->flow.qp, rig->mr, first.va, 2 * MTU);
	first.ack_req = false;
	ask(rig, &rig->flow, &first);
	refused(_metadata, rig, variant->make(rig), ROCE_AETH_NAK_INVALID);
}

CASE(verb, ends_no_write, "5 opcode sequence",
     "a WRITE MIDDLE or LAST right after it is an invalid request")
{
	struct rig *rig = &self->rig;
	struct packet rq;

	served(_metadata, rig, variant->make(rig));
	rq = write_last(rig);
	refused(_metadata, rig, rq, ROCE_AETH_NAK_INVALID);

	flow_reopen(rig, &RXE_QP_DEFAULT);
	served(_metadata, rig, variant->make(rig));
	rq.opcode = ROCE_RC_WRITE_MIDDLE;
	refused(_metadata, rig, rq, ROCE_AETH_NAK_INVALID);
}

CASE(verb, nak_ends_the_qp, "5 bad requests", "after a NAK the QP answers nothing")
{
	struct rig *rig = &self->rig;
	struct packet rq = variant->make(rig);

	rq.rkey ^= 1;
	refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
	rq = variant->make(rig);
	send_raw(&rig->flow, &rq);
	rig->flow.psn++;
	send_raw(&rig->flow, &rq);
	both_verbs_served_elsewhere(_metadata, rig);
}

CASE(verb, no_resources, "5 max_dest_rd_atomic = 0", "NAK Invalid Request, as for READ")
{
	flow_with_resources(&self->rig, 0);
	refused(_metadata, &self->rig, variant->make(&self->rig), ROCE_AETH_NAK_INVALID);
}

CASE(verb, one_resource, "3 responder resources", "one resource serves any number, one by one")
{
	struct rig *rig = &self->rig;
	struct packet rq, answer;
	int i;

	flow_with_resources(rig, 1);
	for (i = 0; i < 4; i++) {
		rq = variant->make(rig);
		answer = serve(_metadata, rig, &rq);
		answered_again(_metadata, rig, &rq, &answer);
	}
}

CASE(verb, many_resources, "4 duplicates", "with 64 resources the 64th newest is answered again")
{
	struct packet rq[64], answer[64];
	struct rig *rig = &self->rig;
	int i;

	flow_with_resources(rig, 64);
	for (i = 0; i < 64; i++) {
		rq[i] = variant->make(rig);
		answer[i] = serve(_metadata, rig, &rq[i]);
	}
	answered_again(_metadata, rig, &rq[0], &answer[0]);
	answered_again(_metadata, rig, &rq[63], &answer[63]);
}

CASE(verb, duplicate, "4 duplicates", "the response is sent again, as often as asked")
{
	struct rig *rig = &self->rig;
	struct packet rq = variant->make(rig);
	struct packet answer = serve(_metadata, rig, &rq);
	int i;

	for (i = 0; i < 3; i++)
		answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, variant->make(rig));
}

CASE(verb, duplicate_not_executed, "4 duplicates",
     "a newer value in the target survives, and a target that is gone is not missed")
{
	struct rig *rig = &self->rig;
	struct packet rq = variant->make(rig);
	struct packet answer = serve(_metadata, rig, &rq);

	memset(rig->end.memory + REGION_OFFSET + 64, 0x99, 8);
	memset(rig->model + REGION_OFFSET + 64, 0x99, 8);
	answered_again(_metadata, rig, &rq, &answer);

	ASSERT_EQ(0, ibv_dereg_mr(rig->mr));
	answered_again(_metadata, rig, &rq, &answer);
}

CASE(verb, duplicate_after_newer_work, "4 duplicates", "newer requests do not make it forgotten")
{
	struct rig *rig = &self->rig;
	struct packet rq = variant->make(rig);
	struct packet answer = serve(_metadata, rig, &rq);

	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, read_only(rig));
	served(_metadata, rig, write_only(rig));
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, variant->make(rig));
}

CASE(verb, duplicate_after_psn_wrap, "4 duplicates", "PSN ffffff is still found from PSN 1")
{
	struct rig *rig = &self->rig;
	struct packet rq, answer;

	flow_from_psn(rig, 0xffffff);
	rq = variant->make(rig);
	answer = serve(_metadata, rig, &rq);
	served(_metadata, rig, variant->make(rig));
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, variant->make(rig));
}

CASE(verb, duplicate_within_a_write, "4 duplicates",
     "answered between WRITE FIRST and LAST, which then go on as if nothing had happened")
{
	struct rig *rig = &self->rig;
	struct packet rq = variant->make(rig), first = write_first(rig);
	struct packet answer = serve(_metadata, rig, &rq);

	first.ack_req = false;
	ask(rig, &rig->flow, &first);
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_last(rig));
}

CASE(verb, duplicate_too_old, "4 duplicates",
     "what as many newer ones as there are resources have pushed out is dropped silently")
{
	struct packet rq[3], answer[3];
	struct rig *rig = &self->rig;
	int i;

	flow_with_resources(rig, 2);
	for (i = 0; i < 3; i++) {
		rq[i] = variant->make(rig);
		answer[i] = serve(_metadata, rig, &rq[i]);
	}
	send_again(&rq[0]);
	answered_again(_metadata, rig, &rq[1], &answer[1]);
	answered_again(_metadata, rig, &rq[2], &answer[2]);
}

CASE(verb, one_more_than_three_resources, "4 duplicates",
     "with 3 resources 4 are kept, for a requester that rounds its depth up, as those of Linux do")
{
	struct packet rq[4], answer[4];
	struct rig *rig = &self->rig;
	int i;

	flow_with_resources(rig, 3);
	for (i = 0; i < 4; i++) {
		rq[i] = variant->make(rig);
		answer[i] = serve(_metadata, rig, &rq[i]);
	}
	answered_again(_metadata, rig, &rq[0], &answer[0]);
}

CASE(verb, pushed_out_by_read_and_atomic, "3 responder resources",
     "READ and Atomics take from the same resources")
{
	struct rig *rig = &self->rig;
	struct packet rq, answer;

	flow_with_resources(rig, 2);
	rq = variant->make(rig);
	answer = serve(_metadata, rig, &rq);
	served(_metadata, rig, read_only(rig));
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, fetch_add(rig));
	send_again(&rq);
	expect_dropped(_metadata, rig);
}

CASE(verb, pushes_out_an_atomic, "3 responder resources", "it takes a resource, as Atomics do")
{
	struct rig *rig = &self->rig;
	struct packet atomic, answer;

	flow_with_resources(rig, 2);
	atomic = fetch_add(rig);
	answer = serve(_metadata, rig, &atomic);
	served(_metadata, rig, variant->make(rig));
	answered_again(_metadata, rig, &atomic, &answer);
	served(_metadata, rig, variant->make(rig));
	send_again(&atomic);
	expect_dropped(_metadata, rig);
}

CASE(verb, duplicate_takes_no_resource, "4 duplicates",
     "duplicates push out nothing: what was remembered before them still is")
{
	struct packet rq[2], answer[2];
	struct rig *rig = &self->rig;
	int i;

	flow_with_resources(rig, 2);
	rq[0] = fetch_add(rig);
	rq[1] = variant->make(rig);
	for (i = 0; i < 2; i++)
		answer[i] = serve(_metadata, rig, &rq[i]);
	for (i = 0; i < 3; i++)
		answered_again(_metadata, rig, &rq[1], &answer[1]);
	answered_again(_metadata, rig, &rq[0], &answer[0]);
}

CASE(verb, duplicates_of_all_kinds, "4 duplicates",
     "the resources of READ and Atomics survive beside it: each duplicate gets its own answer")
{
	struct packet rq[4], answer[4];
	struct rig *rig = &self->rig;
	int i;

	rq[0] = read_only(rig);
	rq[1] = variant->make(rig);
	rq[2] = fetch_add(rig);
	rq[3] = variant->make(rig);
	for (i = 0; i < 4; i++)
		answer[i] = serve(_metadata, rig, &rq[i]);
	for (i = 3; i >= 0; i--)
		answered_again(_metadata, rig, &rq[i], &answer[i]);
	for (i = 0; i < 4; i++)
		answered_again(_metadata, rig, &rq[i], &answer[i]);
}

/* The two packets of the answer to a READ of two MTUs; its MSN as expect_again() has it. */
static void expect_long_read(struct __test_metadata *_metadata, struct rig *rig,
			     const struct packet *read, __u32 msn)
{
	struct packet part = {
		.opcode = ROCE_RC_READ_RESPONSE_FIRST, .qpn = rig->flow.qp.peer_qpn,
		.psn = read->psn, .msn = msn, .payload_len = MTU,
	};

	memcpy(part.payload, model_at(rig, read->va), MTU);
	expect_again(_metadata, rig, &part);
	part.opcode = ROCE_RC_READ_RESPONSE_LAST;
	part.psn = psn_add(part.psn, 1);
	memcpy(part.payload, model_at(rig, read->va + MTU), MTU);
	expect_again(_metadata, rig, &part);
}

CASE(verb, beside_a_long_read, "4 duplicates",
     "a READ of two packets and its duplicate keep their PSNs and resource, and so does it")
{
	struct rig *rig = &self->rig;
	struct packet read = read_only(rig), rq = variant->make(rig), answer;

	read.dmalen = 2 * MTU;
	send_raw(&rig->flow, &read);
	rig->flow.psn = psn_add(rig->flow.psn, 2);
	rig->flow.msn++;
	expect_long_read(_metadata, rig, &read, 1);
	answer = serve(_metadata, rig, &rq);
	send_again(&read);
	/* The duplicate reads what the memory holds now. */
	expect_long_read(_metadata, rig, &read, 1);
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, variant->make(rig));
}

/*
 * The next answer does not pass for one to @rq; it is no answer to it, but that of a READ sent
 * after it.
 */
static void not_answered_as(struct __test_metadata *_metadata, struct rig *rig, struct packet *rq,
			    __u32 psn)
{
	rq->qpn = rig->flow.qp.qp->qp_num;
	rq->psn = psn;
	peer_send(rq);
	expect_dropped(_metadata, rig);
}

CASE(verb, old_psn_as_read, "4 duplicates",
     "a READ with its PSN is no duplicate of it, and nothing is sent")
{
	struct rig *rig = &self->rig;
	struct packet other = read_only(rig);
	__u32 psn = rig->flow.psn;

	served(_metadata, rig, variant->make(rig));
	not_answered_as(_metadata, rig, &other, psn);
}

CASE(verb, old_psn_as_atomic, "4 duplicates",
     "an Atomic with its PSN is no duplicate of it, and is neither answered nor executed")
{
	struct rig *rig = &self->rig;
	struct packet other = fetch_add(rig);
	__u32 psn = rig->flow.psn;

	served(_metadata, rig, variant->make(rig));
	not_answered_as(_metadata, rig, &other, psn);
}

CASE(verb, old_psn_of_read, "4 duplicates",
     "it is no duplicate of a READ with its PSN: no success without having been executed")
{
	struct rig *rig = &self->rig;
	struct packet other = variant->make(rig);
	__u32 psn = rig->flow.psn;

	served(_metadata, rig, read_only(rig));
	not_answered_as(_metadata, rig, &other, psn);
}

CASE(verb, old_psn_of_atomic, "4 duplicates",
     "it is no duplicate of an Atomic with its PSN: no success without having been executed")
{
	struct rig *rig = &self->rig;
	struct packet other = variant->make(rig);
	__u32 psn = rig->flow.psn;

	served(_metadata, rig, fetch_add(rig));
	not_answered_as(_metadata, rig, &other, psn);
}

CASE(verb, old_psn_of_the_other_verb, "4 duplicates",
     "FLUSH is no duplicate of an ATOMIC WRITE with its PSN, nor the reverse")
{
	struct rig *rig = &self->rig;
	struct packet first = variant->make(rig);
	struct packet other = first.opcode == ROCE_RC_FLUSH ? atomic_write(rig) : flush_range(rig);
	__u32 psn = rig->flow.psn;

	served(_metadata, rig, first);
	not_answered_as(_metadata, rig, &other, psn);
}

CASE(verb, old_psn_of_write, "4 duplicates",
     "it is no duplicate of a WRITE with its PSN: no success without having been executed")
{
	struct rig *rig = &self->rig;
	struct packet other = variant->make(rig);
	__u32 psn = rig->flow.psn;

	served(_metadata, rig, write_only(rig));
	not_answered_as(_metadata, rig, &other, psn);
}

/*
 * @rq is not answered, and not kept either, to be executed when the QP is ready: its PSN is still
 * to come.
 */
static void ignored_in_state(struct __test_metadata *_metadata, struct rig *rig, struct packet rq,
			     enum ibv_qp_state state)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.state = state;
	flow_reopen(rig, &config);
	send_raw(&rig->flow, &rq);
	both_verbs_served_elsewhere(_metadata, rig);
	rxe_finish_qp(&rig->end, &config, &rig->flow.qp);
	served(_metadata, rig, write_only(rig));
}

CASE(verb, qp_in_reset, "5 QP states", "a QP in RESET ignores it")
{
	ignored_in_state(_metadata, &self->rig, variant->make(&self->rig), IBV_QPS_RESET);
}

CASE(verb, qp_in_init, "5 QP states", "a QP in INIT ignores it")
{
	ignored_in_state(_metadata, &self->rig, variant->make(&self->rig), IBV_QPS_INIT);
}

CASE(verb, qp_in_rtr, "5 QP states", "a QP that is ready to receive serves it")
{
	flow_in_state(&self->rig, IBV_QPS_RTR);
	served(_metadata, &self->rig, variant->make(&self->rig));
}

CASE(verb, qp_in_sqd, "5 QP states", "a QP whose send queue is drained serves it")
{
	rxe_modify_qp(&self->rig.flow.qp, IBV_QPS_SQD);
	served(_metadata, &self->rig, variant->make(&self->rig));
}

CASE(verb, qp_in_error, "5 QP states", "a QP in error ignores it")
{
	struct packet rq = variant->make(&self->rig);

	rxe_modify_qp(&self->rig.flow.qp, IBV_QPS_ERR);
	send_raw(&self->rig.flow, &rq);
	both_verbs_served_elsewhere(_metadata, &self->rig);
}

/* Send @rq with the opcode bits of each service. */
static void send_for_all_services(struct flow *flow, const struct packet *rq, __u8 but_for)
{
	__u8 services[] = { 0, ROCE_SERVICE_UC, ROCE_SERVICE_RD, ROCE_SERVICE_UD };
	size_t i;

	for (i = 0; i < ARRAY_SIZE(services); i++)
		if (services[i] != but_for)
			send_by_service(flow, rq, services[i]);
}

CASE(verb, of_another_service, "1 opcode", "an RC QP ignores the opcodes of UC, RD and UD")
{
	struct packet rq = variant->make(&self->rig);

	send_for_all_services(&self->rig.flow, &rq, 0);
	expect_dropped(_metadata, &self->rig);
}

/* A QP of an unreliable service is alive: a SEND, which gets no answer, arrives. */
static void send_arrives(struct __test_metadata *_metadata, struct rig *rig, struct flow *flow,
			 __u8 service)
{
	struct packet rq = { .opcode = ROCE_RC_SEND_ONLY };
	struct frame frame;
	struct ibv_wc wc;

	packet_to_frame(&rq, &frame);
	frame.wire.bth.opcode |= service;
	if (service == ROCE_SERVICE_UD) {
		/* Datagram header: Q_Key, source QP. */
		__be32 deth[2] = { htobe32(RXE_QKEY), htobe32(flow->qp.peer_qpn) };

		memcpy(frame.wire.roce + frame.len, deth, sizeof(deth));
		frame.len += sizeof(deth);
	}
	send_raw_frame(flow, &frame);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(IBV_WC_RECV, wc.opcode);
}

static void ignored_by_service(struct __test_metadata *_metadata, struct rig *rig,
			       struct packet rq, enum ibv_qp_type type, __u8 service)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.type = type;
	flow_reopen(rig, &config);
	rxe_post_recv(&rig->flow.qp, rig->mr, rig->start + 512, 256);
	send_for_all_services(&rig->flow, &rq, 0xff);
	both_verbs_served_elsewhere(_metadata, rig);
	send_arrives(_metadata, rig, &rig->flow, service);
	/* The address of the sender, which UD puts in front. */
	memcpy(rig->model, rig->end.memory, MEMORY_LEN);
}

CASE(verb, to_a_uc_qp, "1 opcode", "reserved on UC: ignored, whatever service the opcode names")
{
	ignored_by_service(_metadata, &self->rig, variant->make(&self->rig), IBV_QPT_UC,
			   ROCE_SERVICE_UC);
}

CASE(verb, to_a_ud_qp, "1 opcode", "reserved on UD: ignored, whatever service the opcode names")
{
	ignored_by_service(_metadata, &self->rig, variant->make(&self->rig), IBV_QPT_UD,
			   ROCE_SERVICE_UD);
}

/* A READ of nothing. */

DRAM_FIXTURE(empty_read)

CASE(empty_read, duplicate, "4 duplicates",
     "its key is not looked at, nor is that of its duplicate")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig), answer;

	rq.rkey = rig->mr->rkey + (100 << 8);
	rq.dmalen = 0;
	answer = serve(_metadata, rig, &rq);
	answered_again(_metadata, rig, &rq, &answer);
}

/* Damaged requests. */

FIXTURE_VARIANT(damaged) {
	void (*spoil)(struct frame *frame);
};

DRAM_FIXTURE(damaged)

ROW(damaged, wrong_icrc, "1 ICRC", "its ICRC is off by one bit") { spoil_icrc };
ROW(damaged, foreign_source, "1 BTH", "it comes from an address that is not the QP's peer") {
	spoil_source };
ROW(damaged, foreign_partition, "1 BTH", "its P_Key is unknown") { spoil_pkey };
ROW(damaged, unknown_version, "1 BTH", "its transport version is unknown") { spoil_version };

static void ignores_damaged(struct __test_metadata *_metadata, struct rig *rig, struct packet rq,
			    void (*spoil)(struct frame *frame))
{
	struct frame frame;

	packet_to_frame(&rq, &frame);
	spoil(&frame);
	send_raw_frame(&rig->flow, &frame);
	expect_dropped(_metadata, rig);
}

CASE(damaged, flush, "1 FLUSH", "a FLUSH that is damaged is ignored")
{
	ignores_damaged(_metadata, &self->rig, flush_range(&self->rig), variant->spoil);
}

CASE(damaged, atomic_write, "1 ATOMIC WRITE", "an ATOMIC WRITE that is damaged is ignored")
{
	ignores_damaged(_metadata, &self->rig, atomic_write(&self->rig), variant->spoil);
}

/* ---- What a user can look at: counters and tracepoints of the series ---- */

enum outcome { SUCCESS, AGAIN, INVALID, NO_ACCESS, OUTCOMES };

FIXTURE_VARIANT(told) {
	struct packet	(*make)(struct rig *rig);
	const char	*counter;	/* of those that were executed */
	const char	*event;
	const char	*asked;		/* what only this one's tracepoint tells */
};

FIXTURE(told) {
	struct rig		rig;
	unsigned long long	before[OUTCOMES];
};

ROW(told, flush_range, "counters", "FLUSH of a range") {
	flush_range, "flush_rcvd", "rxe_flush", " plt=GLOBAL sel=RANGE " };
ROW(told, flush_region, "counters", "FLUSH of the whole region") {
	flush_region, "flush_rcvd", "rxe_flush", " plt=GLOBAL sel=MR " };
ROW(told, atomic_write, "counters", "ATOMIC WRITE") {
	atomic_write, "atomic_write_rcvd", "rxe_atomic_write", " length=8 " };

static const char *told_counter(const FIXTURE_VARIANT(told) *row, enum outcome which)
{
	const char * const names[OUTCOMES] = {
		[SUCCESS] = row->counter,
		[AGAIN] = "mpe_duplicate",
		[INVALID] = "mpe_invalid_request",
		[NO_ACCESS] = "mpe_access_error",
	};

	return names[which];
}

FIXTURE_SETUP(told)
{
	enum outcome which;

	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	NEED_COUNTERS();
	for (which = SUCCESS; which < OUTCOMES; which++)
		self->before[which] = rxe_counter(told_counter(variant, which));
	if (!rxe_trace(variant->event))
		SKIP_CASE("this kernel has no tracing");
}

FIXTURE_TEARDOWN(told)
{
	rig_close(_metadata, &self->rig);
}

/*
 * One counter has gone up, by one, the others have not; the tracepoint has told what was asked, and
 * the @result.
 */
static void expect_told(struct __test_metadata *_metadata, FIXTURE_DATA(told) *self,
			const FIXTURE_VARIANT(told) *row, const struct packet *rq,
			enum outcome which, unsigned long long served, const char *result)
{
	unsigned long long want[OUTCOMES];
	char line[512], words[128];
	enum outcome each;

	memcpy(want, self->before, sizeof(want));
	want[SUCCESS] += served;
	if (which != SUCCESS)
		want[which]++;
	rxe_wait_counter(told_counter(row, which), want[which], ANSWER_MS);
	for (each = SUCCESS; each < OUTCOMES; each++) {
		EXPECT_EQ(want[each], rxe_counter(told_counter(row, each))) {
			TH_LOG("%s", told_counter(row, each));
		}
	}

	rxe_end_trace(row->event, line, sizeof(line));
	snprintf(words, sizeof(words), " %s: " RXE_DEVICE " qpn=0x%x psn=0x%x rkey=0x%x va=0x%llx ",
		 row->event, self->rig.flow.qp.qp->qp_num, rq->psn, rq->rkey,
		 (unsigned long long)rq->va);
	EXPECT_NE(NULL, strstr(line, words)) {
		TH_LOG("no \"%s\" in: %s", words, line);
	}
	EXPECT_NE(NULL, strstr(line, row->asked)) {
		TH_LOG("no \"%s\" in: %s", row->asked, line);
	}
	snprintf(words, sizeof(words), " result=%s\n", result);
	EXPECT_NE(NULL, strstr(line, words)) {
		TH_LOG("no \"%s\" in: %s", words, line);
	}
}

CASE(told, success, "counters", "executed: counted once, and traced")
{
	struct packet rq = variant->make(&self->rig);

	serve(_metadata, &self->rig, &rq);
	expect_told(_metadata, self, variant, &rq, SUCCESS, 1, "ok");
}

CASE(told, duplicate, "counters", "answered again: counted as that, not executed, not traced anew")
{
	struct packet rq = variant->make(&self->rig), answer = serve(_metadata, &self->rig, &rq);

	answered_again(_metadata, &self->rig, &rq, &answer);
	expect_told(_metadata, self, variant, &rq, AGAIN, 1, "ok");
}

static void expect_refusal(struct __test_metadata *_metadata, FIXTURE_DATA(told) *self,
			   const FIXTURE_VARIANT(told) *row, struct packet rq, enum outcome which,
			   __u8 syndrome, const char *result)
{
	struct packet nak = {
		.opcode = ROCE_RC_ACK, .syndrome = syndrome, .psn = self->rig.flow.psn,
		.qpn = self->rig.flow.qp.peer_qpn,
	};

	rq.psn = self->rig.flow.psn;
	send_raw(&self->rig.flow, &rq);
	expect_packet(_metadata, &nak);
	expect_told(_metadata, self, row, &rq, which, 0, result);
}

CASE(told, invalid, "counters", "refused as an invalid request: counted and traced as that")
{
	struct packet rq = variant->make(&self->rig);

	rq.payload_len += 4;
	expect_refusal(_metadata, self, variant, rq, INVALID, ROCE_AETH_NAK_INVALID,
		       "invalid request");
}

CASE(told, no_access, "counters", "refused for its key: counted and traced as that")
{
	struct packet rq = variant->make(&self->rig);

	rq.rkey ^= 1;
	expect_refusal(_metadata, self, variant, rq, NO_ACCESS, ROCE_AETH_NAK_ACCESS,
		       "remote access error");
}
