// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel as responder: memory that a peer must not reach, by duplicates, by windows, or by
 * memory that is not there.  A duplicate is judged by its original, and by nothing that came later;
 * it reads no more than the original.
 */
#include "rxe_responder.h"

DRAM_FIXTURE(again)

/* A READ of @rig's region, or by another key for it. */
static struct packet read_at(struct rig *rig, __u32 rkey, __u64 va, __u32 len)
{
	struct packet rq = read_only(rig);

	rq.rkey = rkey;
	rq.va = va;
	rq.dmalen = len;
	return rq;
}

static struct packet write_nothing(struct rig *rig)
{
	return write_part(rig, ROCE_RC_WRITE_ONLY, 0, 0);
}

/*
 * A READ with the PSN of @original, which is not answered: what comes is the answer to a READ sent
 * after it.
 */
static void read_is_ignored(struct __test_metadata *_metadata, struct rig *rig,
			    const struct packet *original, struct packet rq)
{
	rq.qpn = original->qpn;
	rq.psn = original->psn;
	peer_send(&rq);
	expect_dropped(_metadata, rig);
}

/* ---- The length of the latest request ---- */

CASE(again, read_behind_an_empty_write, "4 duplicates",
     "a READ that comes again after a WRITE of 0 bytes is answered as it was")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig), answer = serve(_metadata, rig, &rq);

	served(_metadata, rig, write_nothing(rig));
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_only(rig));
}

CASE(again, read_behind_an_empty_read, "4 duplicates",
     "a READ that comes again after a READ of 0 bytes is answered as it was")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig), answer = serve(_metadata, rig, &rq);

	served(_metadata, rig, read_at(rig, 0, 0, 0));
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_only(rig));
}

CASE(again, empty_read_behind_a_write, "4 duplicates",
     "a READ of 0 bytes by R_Key 0 that comes again after a WRITE is answered as it was")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_at(rig, 0, 0, 0), answer = serve(_metadata, rig, &rq);

	served(_metadata, rig, write_only(rig));
	answered_again(_metadata, rig, &rq, &answer);
	served(_metadata, rig, write_only(rig));
}

/* ---- The range of the original ---- */

FIXTURE_VARIANT(walking) {
	int window;	/* its type, 0: the region */
};

FIXTURE(walking) {
	struct rig rig;
	__u32 rkey;
	__u64 start;
};

FIXTURE_TEARDOWN(walking)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(walking)
{
	struct rig *rig = &self->rig;

	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	self->rkey = rig->mr->rkey;
	self->start = rig->start;
	if (variant->window) {
		self->rkey = bind_window(rig, variant->window, ACCESS_WINDOW);
		self->start = (uintptr_t)rig->end.memory + WINDOW_OFFSET;
	}
}

ROW(walking, region, "4 duplicates", "the region") { };
ROW(walking, window_1, "4 duplicates", "a type 1 window") { 1 };
ROW(walking, window_2, "4 duplicates", "a type 2 window") { 2 };

CASE(walking, forward, "4 duplicates",
     "duplicates that each start where the last one ended are answered within the original only")
{
	struct rig *rig = &self->rig;
	struct packet original = read_at(rig, self->rkey, self->start, 64), rq, answer;
	__u32 at;

	serve(_metadata, rig, &original);
	for (at = 0; at <= 60; at += 20) {
		rq = read_at(rig, self->rkey, self->start + at, 4);
		rq.qpn = original.qpn;
		rq.psn = original.psn;
		answer = (struct packet) {
			.opcode = ROCE_RC_READ_RESPONSE_ONLY, .qpn = rig->flow.qp.peer_qpn,
			.psn = rq.psn, .msn = rig->flow.msn, .payload_len = 4,
		};
		memcpy(answer.payload, model_at(rig, rq.va), 4);
		answered_again(_metadata, rig, &rq, &answer);
	}
	for (at = 64; at <= 120; at += 28)
		read_is_ignored(_metadata, rig, &original,
				read_at(rig, self->rkey, self->start + at, 4));
}

CASE(walking, wrapping, "4 duplicates", "a duplicate whose address and length wrap is ignored")
{
	struct rig *rig = &self->rig;
	struct packet original = read_at(rig, self->rkey, self->start, 64);

	serve(_metadata, rig, &original);
	read_is_ignored(_metadata, rig, &original, read_at(rig, self->rkey, -32ull, 64));
	read_is_ignored(_metadata, rig, &original, read_at(rig, self->rkey, self->start + 32, 64));
	read_is_ignored(_metadata, rig, &original, read_at(rig, self->rkey, self->start - 1, 64));
}

/* ---- Memory of another protection domain ---- */

FIXTURE(other_pd) {
	struct rig rig;
	struct ibv_mr *victim;
};

FIXTURE_TEARDOWN(other_pd)
{
	rig_close(_metadata, &self->rig);
}

/* A page of its own, in a protection domain that the QP is not of. */
FIXTURE_SETUP(other_pd)
{
	struct rig *rig = &self->rig;
	struct ibv_pd *pd;

	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	pd = ibv_alloc_pd(rig->end.context);
	if (!pd)
		err(1, "a protection domain");
	self->victim = ibv_reg_mr(pd, rig->end.memory, PAGE, ACCESS_DRAM);
	if (!self->victim)
		err(1, "a memory region");
	flow_with_resources(rig, 1);
}

/*
 * A responder that leaves the PSN of the READ in a resource that FLUSH takes, and looks for no
 * type, takes address, R_Key and length of the READ from where FLUSH has its own: little endian,
 * length of the FLUSH where the low half of the address is, and VA of the FLUSH where R_Key and
 * length are.
 */
CASE(other_pd, read_by_a_forged_flush, "4 duplicates",
     "a duplicate READ by another's key, after a READ of 0 bytes and a FLUSH: ignored")
{
	struct rig *rig = &self->rig;
	const __u64 target = (uintptr_t)self->victim->addr;
	__u32 low = target, lowest = low < 0x80000000 ? low : 0x80000000;
	struct packet original = read_at(rig, 0, target, 0);
	struct packet forged = flush(rig, GLOBAL | REGION,
				     0xffffffffull << 32 | self->victim->rkey, lowest);

	serve(_metadata, rig, &original);
	serve(_metadata, rig, &forged);
	read_is_ignored(_metadata, rig, &original, read_at(rig, self->victim->rkey, target, 64));
}

/* ---- Data for nothing ---- */

DRAM_FIXTURE(empty_write)

CASE(empty_write, with_data, "5 length", "a WRITE of 0 bytes that has data is an invalid request")
{
	struct rig *rig = &self->rig;

	refused(_metadata, rig, write_part(rig, ROCE_RC_WRITE_ONLY, 0, 16), ROCE_AETH_NAK_INVALID);
	flow_reopen(rig, &RXE_QP_DEFAULT);
	refused(_metadata, rig, write_part(rig, ROCE_RC_WRITE_FIRST, 0, MTU),
		ROCE_AETH_NAK_INVALID);
}

/* ---- Regions by UVERBS_METHOD_REG_MR ---- */

DRAM_FIXTURE(by_method)

CASE(by_method, reached, "5 range",
     "a region that UVERBS_METHOD_REG_MR has registered can be written and read")
{
	struct rig *rig = &self->rig;
	struct packet rq[] = { write_only(rig), read_only(rig) };
	__u32 lkey = 0, rkey = 0;
	size_t i;

	if (!rxe_reg_mr_by_method(&rig->end, REGION_OFFSET, REGION_LEN, ACCESS_DRAM, &lkey,
				  &rkey)) {
		ASSERT_EQ(EPROTONOSUPPORT, errno);
		SKIP_CASE("the kernel has no UVERBS_METHOD_REG_MR");
	}
	for (i = 0; i < ARRAY_SIZE(rq); i++) {
		rq[i].rkey = rkey;
		serve(_metadata, rig, &rq[i]);
	}
}

/* ---- Binds ---- */

DRAM_FIXTURE(bound)

/* A bind fails, and the QP is in error. */
static void bind_is_refused(struct __test_metadata *_metadata, struct rig *rig, int type,
			    __u64 addr, size_t len, unsigned int access)
{
	struct ibv_mw *mw = rxe_alloc_mw(&rig->end, type);

	EXPECT_FALSE(rxe_try_bind_mw(&rig->end, &rig->flow.qp, mw, rig->mr, addr, len, access)) {
		TH_LOG("a type %d window of %#zx bytes at %#llx was bound", type, len,
		       (unsigned long long)addr);
	}
	flow_reopen(rig, &RXE_QP_DEFAULT);
}

CASE(bound, range_wraps, "5 range", "a window whose address and length wrap is not bound")
{
	int type;

	for (type = 1; type <= 2; type++) {
		bind_is_refused(_metadata, &self->rig, type, -16ull, 32, ACCESS_WINDOW);
		bind_is_refused(_metadata, &self->rig, type, self->rig.start + 8, -8ull,
				ACCESS_WINDOW);
	}
}

CASE(bound, zero_based_elsewhere, "5 range",
     "a zero based window that is not within the region is not bound")
{
	const unsigned int access = ACCESS_WINDOW | IBV_ACCESS_ZERO_BASED;
	struct rig *rig = &self->rig;

	bind_is_refused(_metadata, rig, 2, rig->start - 8, 64, access);
	bind_is_refused(_metadata, rig, 2, rig->start + 8, REGION_LEN, access);
	bind_is_refused(_metadata, rig, 2, -16ull, 32, access);
}
