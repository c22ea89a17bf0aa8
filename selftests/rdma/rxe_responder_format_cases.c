// SPDX-License-Identifier: GPL-2.0
/* The kernel as responder: what the fields of a request may hold, and how long it may be. */
#include "rxe_responder.h"

/* ---- FLUSH: its fields ---- */

DRAM_FIXTURE(flush)

CASE(flush, range_wraps, "5 range", "VA + length beyond 2^64")
{
	refused(_metadata, &self->rig, flush(&self->rig, GLOBAL, -64ull, 0x7fffffff),
		ROCE_AETH_NAK_ACCESS);
}

CASE(flush, range_wraps_to_0, "5 range", "VA + length is 2^64 exactly")
{
	refused(_metadata, &self->rig, flush(&self->rig, GLOBAL, -64ull, 64),
		ROCE_AETH_NAK_ACCESS);
}

CASE(flush, only_right_is_flush, "5 rights", "a region that permits FLUSH and nothing else")
{
	struct rig *rig = &self->rig;
	struct packet rq = flush_range(rig);
	struct ibv_mr *mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN,
				       IBV_ACCESS_FLUSH_GLOBAL);

	ASSERT_NE(NULL, mr);
	rq.rkey = mr->rkey;
	served(_metadata, rig, rq);
	rq = atomic_write(rig);
	rq.rkey = mr->rkey;
	refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
}

CASE(flush, of_zero_based_window, "5 range", "VAs within a zero-based window start at 0")
{
	struct rig *rig = &self->rig;
	struct packet rq = flush(rig, GLOBAL, 0, WINDOW_LEN);

	rq.rkey = bind_window(rig, 2, IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_ZERO_BASED);
	served(_metadata, rig, rq);
	rq.va = 1;
	refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
}

CASE(flush, icrc_legacy_is_accepted, "1 ICRC trap", "the ICRC of Linux 6.2 to 7.3 is accepted, too")
{
	struct rig *rig = &self->rig;
	struct packet rq = flush_range(rig), answer = model_execute(rig, &rig->flow, &rq);
	struct frame frame;

	packet_to_frame(&rq, &frame);
	frame.icrc = ICRC_LEGACY;
	send_raw_frame(&rig->flow, &frame);
	rig->flow.psn++;
	expect_packet(_metadata, &answer);
	expect_memory(_metadata, rig);
}

CASE(flush, empty_anywhere, "5 zero-length", "length 0 at a VA outside the region is success")
{
	struct rig *rig = &self->rig;

	NEED_OUR_ANSWER();
	served(_metadata, rig, flush(rig, GLOBAL, 0x1000, 0));
}

FIXTURE_VARIANT(feth) {
	__u32 placement;
};

DRAM_FIXTURE(feth)

ROW(feth, plt_0, "5 PLT = 0", "PLT 0, a range") { 0x00 };
ROW(feth, plt_0_region, "5 PLT = 0", "PLT 0, the region") { 0x10 };
ROW(feth, plt_4, "5 reserved PLT bit", "PLT 4") { 0x04 };
ROW(feth, plt_5, "5 reserved PLT bit", "PLT 5: global visibility and a reserved bit") { 0x05 };
ROW(feth, plt_8, "5 reserved PLT bit", "PLT 8") { 0x08 };
ROW(feth, plt_9, "5 reserved PLT bit", "PLT 9: global visibility and a reserved bit") { 0x09 };
ROW(feth, plt_c, "5 reserved PLT bit", "PLT 12: both reserved bits") { 0x0c };
ROW(feth, plt_d, "5 reserved PLT bit", "PLT 13: global visibility, both reserved bits") { 0x0d };
ROW(feth, plt_4_region, "5 reserved PLT bit", "PLT 4, the region") { 0x14 };
ROW(feth, plt_9_region, "5 reserved PLT bit", "PLT 9, the region") { 0x19 };
ROW(feth, sel_2, "5 reserved SEL", "SEL 2") { 0x21 };
ROW(feth, sel_3, "5 reserved SEL", "SEL 3") { 0x31 };
ROW(feth, sel_2_plt_0, "5 reserved SEL", "SEL 2, PLT 0") { 0x20 };
ROW(feth, sel_3_plt_f, "5 reserved SEL", "SEL 3, all PLT bits but persistence") { 0x3d };

CASE(feth, refused, "5 PLT and SEL", "no such guarantee can be given: NAK Invalid Request")
{
	refused(_metadata, &self->rig,
		flush(&self->rig, variant->placement, self->rig.start, 64),
		ROCE_AETH_NAK_INVALID);
}

CASE(feth, refused_of_nothing, "5 PLT and SEL", "with length 0, too")
{
	refused(_metadata, &self->rig,
		flush(&self->rig, variant->placement, self->rig.start, 0),
		ROCE_AETH_NAK_INVALID);
}

FIXTURE_VARIANT(flush_payload) {
	size_t	payload_len;
	__u8	pad;
};

RIG_FIXTURE(flush_payload)
{
	/* No kernel has ever sent such a FLUSH, so it has no other ICRC. */
	peer_legacy_icrc = false;
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
}

ROW(flush_payload, bytes_4, "5 FLUSH with payload", "4 bytes") { .payload_len = 4 };
ROW(flush_payload, bytes_8, "5 FLUSH with payload", "8 bytes") { .payload_len = 8 };
ROW(flush_payload, bytes_64, "5 FLUSH with payload", "as many as the length says") {
	.payload_len = 64 };
ROW(flush_payload, mtu, "5 FLUSH with payload", "a whole MTU") { .payload_len = MTUS(1, 0) };
ROW(flush_payload, byte_1, "5 FLUSH with payload", "1 byte, no pad") { .payload_len = 1 };
ROW(flush_payload, byte_1_pad_3, "5 FLUSH with payload", "1 byte and 3 bytes of pad") {
	.payload_len = 1, .pad = 3 };
ROW(flush_payload, pad_1, "5 FLUSH with pad", "a byte of pad") { .pad = 1 };
ROW(flush_payload, pad_3, "5 FLUSH with pad", "3 bytes of pad") { .pad = 3 };

CASE(flush_payload, range, "5 FLUSH with payload", "NAK Invalid Request")
{
	struct packet rq = flush_range(&self->rig);

	rq.payload_len = row_len(variant->payload_len);
	rq.pad = variant->pad;
	refused(_metadata, &self->rig, rq, ROCE_AETH_NAK_INVALID);
}

CASE(flush_payload, region, "5 FLUSH with payload", "NAK Invalid Request, of the region")
{
	struct packet rq = flush_region(&self->rig);

	rq.payload_len = row_len(variant->payload_len);
	rq.pad = variant->pad;
	refused(_metadata, &self->rig, rq, ROCE_AETH_NAK_INVALID);
}

CASE(flush, pad_that_is_not_there, "5 FLUSH with pad",
     "pad bits without the bytes: too short, and ignored")
{
	struct rig *rig = &self->rig;
	struct packet rq = flush_range(rig);
	struct frame frame;

	packet_to_frame(&rq, &frame);
	frame.wire.bth.flags |= 3 << ROCE_BTH_PAD_SHIFT;
	send_raw_frame(&rig->flow, &frame);
	expect_dropped(_metadata, rig);
}

/* What a region FLUSH carries beside the key does not matter. */

FIXTURE_VARIANT(region_fields) {
	__u64	va;
	__u32	len;
};

DRAM_FIXTURE(region_fields)

ROW(region_fields, zero, "1 SEL=MR", "VA 0, length 0") { };
ROW(region_fields, ones, "1 SEL=MR", "all bits set in both") { -1ull, -1 };
ROW(region_fields, wrapping, "1 SEL=MR", "VA + length beyond 2^64") { -8ull, 16 };
ROW(region_fields, long_, "1 SEL=MR", "length 2^31") { 0x1000, 0x80000000 };
ROW(region_fields, elsewhere, "1 SEL=MR", "a VA outside, a length beyond the region's") {
	0x123456789, 0x100000 };

CASE(region_fields, region, "1 SEL=MR", "FLUSH of the region ignores VA and length")
{
	served(_metadata, &self->rig,
	       flush(&self->rig, GLOBAL | REGION, variant->va, variant->len));
}

CASE(region_fields, window_1, "5 SEL=MR through a window",
     "FLUSH of a type 1 window ignores VA and length")
{
	struct packet rq = flush(&self->rig, GLOBAL | REGION, variant->va, variant->len);

	rq.rkey = bind_window(&self->rig, 1, ACCESS_WINDOW);
	served(_metadata, &self->rig, rq);
}

CASE(region_fields, window_2, "5 SEL=MR through a window",
     "FLUSH of a type 2 window ignores VA and length")
{
	struct packet rq = flush(&self->rig, GLOBAL | REGION, variant->va, variant->len);

	rq.rkey = bind_window(&self->rig, 2, ACCESS_WINDOW);
	served(_metadata, &self->rig, rq);
}

/* ---- FLUSH of persistent memory ---- */

FIXTURE_VARIANT(pmem) {
	__u32 placement;
};

RIG_FIXTURE(pmem)
{
	need_pmem(_metadata);
	rig_open(&self->rig, true, ACCESS_ALL, &RXE_QP_DEFAULT);
}

ROW(pmem, global, "1 PLT", "global visibility") { GLOBAL };
ROW(pmem, persistent, "1 PLT", "persistence") { PERSISTENT };
ROW(pmem, both, "1 PLT", "both") { GLOBAL | PERSISTENT };

CASE(pmem, range, "1 SEL", "FLUSH of a range after WRITE and ATOMIC WRITE")
{
	struct rig *rig = &self->rig;

	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, flush(rig, variant->placement, rig->start + 128, 32));
	served(_metadata, rig, atomic_write(rig));
	served(_metadata, rig, flush(rig, variant->placement, rig->start + 64, 8));
}

CASE(pmem, region, "1 SEL", "FLUSH of the region after WRITE and ATOMIC WRITE")
{
	struct rig *rig = &self->rig;

	served(_metadata, rig, write_only(rig));
	served(_metadata, rig, flush(rig, variant->placement | REGION, -1, 0x12345678));
	served(_metadata, rig, atomic_write(rig));
	served(_metadata, rig, flush(rig, variant->placement | REGION, 0, 0));
}

CASE(pmem, reserved_bits, "5 reserved PLT bit", "a reserved bit beside it: NAK Invalid Request")
{
	refused(_metadata, &self->rig,
		flush(&self->rig, variant->placement | 0x8, self->rig.start, 8),
		ROCE_AETH_NAK_INVALID);
}

CASE(flush, feth_reserved_bits, "1 FETH", "bits 31..6 are ignored")
{
	struct rig *rig = &self->rig;

	served(_metadata, rig, flush(rig, GLOBAL | 0xffffffc0, rig->start, 64));
}

/* ---- ATOMIC WRITE: length, alignment ---- */

FIXTURE_VARIANT(length) {
	__u32	dmalen;
	size_t	payload_len;
	__u8	pad;
};

DRAM_FIXTURE(length)

#define LENGTH_ROW(name, dmalen, payload_len, pad, text)	\
	ROW(length, name, "5 ATOMIC WRITE length", text) { dmalen, payload_len, pad }

LENGTH_ROW(dma_0, 0, 8, 0, "DMALen 0 with 8 bytes of payload");
LENGTH_ROW(dma_1, 1, 8, 0, "DMALen 1 with 8 bytes of payload");
LENGTH_ROW(dma_4, 4, 8, 0, "DMALen 4 with 8 bytes of payload");
LENGTH_ROW(dma_7, 7, 8, 0, "DMALen 7 with 8 bytes of payload");
LENGTH_ROW(dma_9, 9, 8, 0, "DMALen 9 with 8 bytes of payload");
LENGTH_ROW(dma_16, 16, 8, 0, "DMALen 16 with 8 bytes of payload");
LENGTH_ROW(dma_mtu, MTUS(1, 0), 8, 0, "DMALen of an MTU with 8 bytes of payload");
LENGTH_ROW(dma_bit_31, 0x80000008, 8, 0, "DMALen 2^31 + 8 with 8 bytes of payload");
LENGTH_ROW(dma_ones, 0xffffffff, 8, 0, "DMALen 2^32 - 1 with 8 bytes of payload");
LENGTH_ROW(payload_0, 8, 0, 0, "no payload");
LENGTH_ROW(payload_4, 8, 4, 0, "4 bytes of payload");
LENGTH_ROW(payload_7_pad_1, 8, 7, 1, "7 bytes of payload and a byte of pad");
LENGTH_ROW(payload_5_pad_3, 8, 5, 3, "5 bytes of payload and 3 of pad");
LENGTH_ROW(payload_9_pad_3, 8, 9, 3, "9 bytes of payload and 3 of pad");
LENGTH_ROW(payload_12, 8, 12, 0, "12 bytes of payload");
LENGTH_ROW(payload_16, 8, 16, 0, "16 bytes of payload");
LENGTH_ROW(payload_mtu, 8, MTUS(1, 0), 0, "an MTU of payload");
LENGTH_ROW(payload_beyond_mtu, 8, MTUS(1, 8), 0, "more payload than an MTU");
LENGTH_ROW(pad_1, 8, 8, 1, "8 bytes of payload and a byte of pad");
LENGTH_ROW(pad_3, 8, 8, 3, "8 bytes of payload and 3 of pad");
LENGTH_ROW(both_0, 0, 0, 0, "DMALen and payload 0");
LENGTH_ROW(both_4, 4, 4, 0, "DMALen and payload 4");
LENGTH_ROW(both_7, 7, 7, 1, "DMALen and payload 7, padded");
LENGTH_ROW(both_16, 16, 16, 0, "DMALen and payload 16");
LENGTH_ROW(both_mtu, MTUS(1, 0), MTUS(1, 0), 0, "DMALen and payload of an MTU");

CASE(length, refused, "5 ATOMIC WRITE length", "NAK Invalid Request, nothing is stored")
{
	struct packet rq = atomic_write(&self->rig);

	memset(rq.payload, 0xee, sizeof(rq.payload));
	rq.dmalen = row_len(variant->dmalen);
	rq.payload_len = row_len(variant->payload_len);
	rq.pad = variant->pad;
	refused(_metadata, &self->rig, rq, ROCE_AETH_NAK_INVALID);
}

DRAM_FIXTURE(atomic_write)

CASE(atomic_write, misaligned, "5 ATOMIC WRITE alignment",
     "a target 1 to 7 bytes off: NAK Invalid Request, nothing is stored")
{
	struct rig *rig = &self->rig;
	int off;

	for (off = 1; off < 8; off++) {
		refused(_metadata, rig, atomic_write_to(rig, rig->start + 64 + off),
			ROCE_AETH_NAK_INVALID);
		flow_reopen(rig, &RXE_QP_DEFAULT);
	}
}

CASE(atomic_write, misaligned_and_outside, "5 ATOMIC WRITE alignment",
     "misaligned, and across the end of the region or of the page")
{
	struct rig *rig = &self->rig;

	NEED_OUR_ANSWER();
	refused(_metadata, rig, atomic_write_to(rig, rig->start + REGION_LEN - 7),
		ROCE_AETH_NAK_INVALID);
	flow_reopen(rig, &RXE_QP_DEFAULT);
	refused(_metadata, rig,
		atomic_write_to(rig, (uintptr_t)rig->end.memory + 2 * PAGE - 4),
		ROCE_AETH_NAK_INVALID);
}

CASE(atomic_write, truncated_payload, "5 ATOMIC WRITE length",
     "cut within its payload: NAK Invalid Request, nothing is stored")
{
	struct rig *rig = &self->rig;
	struct packet rq;
	struct frame frame;
	size_t cut;

	for (cut = 1; cut <= 8; cut++) {
		rq = atomic_write(rig);
		packet_to_frame(&rq, &frame);
		frame.len -= cut;
		send_raw_frame(&rig->flow, &frame);
		expect_nak(_metadata, rig, ROCE_AETH_NAK_INVALID);
		flow_reopen(rig, &RXE_QP_DEFAULT);
	}
}

CASE(atomic_write, pad_that_is_not_there, "5 ATOMIC WRITE pad",
     "pad bits on a packet of 8 bytes leave less than 8 of payload: NAK Invalid Request")
{
	struct rig *rig = &self->rig;
	struct packet rq;
	struct frame frame;
	int pad;

	for (pad = 1; pad <= 3; pad++) {
		rq = atomic_write(rig);
		packet_to_frame(&rq, &frame);
		frame.wire.bth.flags |= pad << ROCE_BTH_PAD_SHIFT;
		send_raw_frame(&rig->flow, &frame);
		expect_nak(_metadata, rig, ROCE_AETH_NAK_INVALID);
		flow_reopen(rig, &RXE_QP_DEFAULT);
	}
}

CASE(atomic_write, wraps, "5 range", "the last 8 bytes below 2^64")
{
	refused(_metadata, &self->rig, atomic_write_to(&self->rig, -8ull), ROCE_AETH_NAK_ACCESS);
}

CASE(atomic_write, icrc_twice, "1 ICRC trap",
     "only FLUSH ever went out with the double ICRC: an ATOMIC WRITE with it is ignored")
{
	struct packet rq = atomic_write(&self->rig);
	struct frame frame;

	packet_to_frame(&rq, &frame);
	frame.icrc = ICRC_LEGACY;
	send_raw_frame(&self->rig.flow, &frame);
	expect_dropped(_metadata, &self->rig);
}

CASE(atomic_write, zero_based_window, "5 ATOMIC WRITE alignment",
     "in a zero-based window both must be aligned, the target and, as for Atomics, the VA")
{
	struct rig *rig = &self->rig;
	__u64 misaligned = rig->start + 100, va;	/* by 4 */

	NEED_OUR_ANSWER();
	for (va = 0; va <= 4; va += 4) {
		struct packet rq = atomic_write_to(rig, va);

		rq.rkey = rxe_bind_mw(&rig->end, &rig->flow.qp, rig->mr, 2, misaligned, 256,
				      IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ZERO_BASED)->rkey;
		refused(_metadata, rig, rq, ROCE_AETH_NAK_INVALID);
		flow_reopen(rig, &RXE_QP_DEFAULT);
	}
}

CASE(atomic_write, tail_behind_its_data, "3 order",
     "WRITE, FLUSH, ATOMIC WRITE, FLUSH posted at once: four answers, in order")
{
	struct rig *rig = &self->rig;
	struct packet rq[] = {
		write_only(rig),
		flush(rig, GLOBAL, rig->start + 128, 32),
		atomic_write(rig),
		flush(rig, GLOBAL, rig->start + 64, 8),
	};
	struct packet answer[ARRAY_SIZE(rq)];
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rq); i++)
		answer[i] = ask(rig, &rig->flow, &rq[i]);
	for (i = 0; i < ARRAY_SIZE(rq); i++)
		expect_packet(_metadata, &answer[i]);
	expect_memory(_metadata, rig);
}

CASE(atomic_write, nothing_behind_a_nak, "3 order",
     "what was posted at once after a refused FLUSH is not stored")
{
	struct rig *rig = &self->rig;
	struct packet bad = flush(rig, 0, rig->start, 8), tail = atomic_write(rig);
	struct packet nak = {
		.opcode = ROCE_RC_ACK, .syndrome = ROCE_AETH_NAK_INVALID, .psn = rig->flow.psn,
		.qpn = rig->flow.qp.peer_qpn,
	};

	send_raw(&rig->flow, &bad);
	rig->flow.psn++;
	send_raw(&rig->flow, &tail);
	expect_packet(_metadata, &nak);
	both_verbs_served_elsewhere(_metadata, rig);
}
