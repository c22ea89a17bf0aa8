// SPDX-License-Identifier: GPL-2.0
/* The kernel as responder: which keys, rights and ranges let a request in. */
#include <sys/mman.h>

#include "rxe_responder.h"

/* ---- Keys that open nothing ---- */

enum bad_key {
	KEY_UNKNOWN, KEY_ZERO, KEY_BYTE, KEY_OTHER_PD, KEY_DEREGISTERED,
	KEY_UNBOUND, KEY_INVALIDATED, KEY_FREED_WINDOW, KEY_OTHER_QP,
};

FIXTURE_VARIANT(bad_key) {
	enum bad_key kind;
};

DRAM_FIXTURE(bad_key)

ROW(bad_key, unknown, "5 R_Key", "no region has this key") { .kind = KEY_UNKNOWN };
ROW(bad_key, zero, "5 R_Key", "key 0") { .kind = KEY_ZERO };
ROW(bad_key, other_key_byte, "5 R_Key", "an old key byte of a live region") { .kind = KEY_BYTE };
ROW(bad_key, other_pd, "5 R_Key", "a region of another protection domain") {
	.kind = KEY_OTHER_PD };
ROW(bad_key, deregistered, "5 R_Key", "a region that is deregistered") {
	.kind = KEY_DEREGISTERED };
ROW(bad_key, unbound_window, "5 R_Key", "a memory window that is not bound") {
	.kind = KEY_UNBOUND };
ROW(bad_key, invalidated_window, "5 R_Key", "a memory window that was invalidated") {
	.kind = KEY_INVALIDATED };
ROW(bad_key, freed_window, "5 R_Key", "a memory window that is deallocated") {
	.kind = KEY_FREED_WINDOW };
ROW(bad_key, window_of_other_qp, "5 R_Key", "a type 2 window bound to another QP") {
	.kind = KEY_OTHER_QP };

static __u32 key_of_other_pd(struct rig *rig)
{
	struct ibv_pd *pd = ibv_alloc_pd(rig->end.context);
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, (void *)(uintptr_t)rig->start, REGION_LEN,
					    ACCESS_DRAM) : NULL;

	if (!mr)
		err(1, "a memory region in another protection domain");
	return mr->rkey;
}

static __u32 key_of_deregistered(struct rig *rig)
{
	struct ibv_mr *mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, ACCESS_DRAM);
	__u32 rkey;

	if (!mr)
		err(1, "a second memory region");
	rkey = mr->rkey;
	ibv_dereg_mr(mr);
	return rkey;
}

static __u32 key_of_bad_window(struct rig *rig, enum bad_key kind)
{
	struct ibv_mw *mw;
	struct flow other;
	__u32 rkey;

	if (kind == KEY_UNBOUND)
		return rxe_alloc_mw(&rig->end, 2)->rkey;
	flow_open(rig, &other, &RXE_QP_DEFAULT);
	mw = bind_all(rig, kind == KEY_OTHER_QP ? &other : &rig->flow, 2, ACCESS_DRAM);
	rkey = mw->rkey;
	if (kind == KEY_INVALIDATED)
		rxe_local_invalidate(&rig->end, &rig->flow.qp, rkey);
	if (kind == KEY_FREED_WINDOW)
		ibv_dealloc_mw(mw);
	return rkey;
}

static __u32 key_that_is_bad(struct rig *rig, enum bad_key kind)
{
	switch (kind) {
	case KEY_UNKNOWN:
		return rig->mr->rkey + (100 << 8);
	case KEY_ZERO:
		return 0;
	case KEY_BYTE:
		return rig->mr->rkey ^ 0x55;
	case KEY_OTHER_PD:
		return key_of_other_pd(rig);
	case KEY_DEREGISTERED:
		return key_of_deregistered(rig);
	default:
		return key_of_bad_window(rig, kind);
	}
}

static void refused_with_key(struct __test_metadata *_metadata, struct rig *rig, enum bad_key kind,
			     struct packet rq)
{
	rq.rkey = key_that_is_bad(rig, kind);
	refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
}

CASE(bad_key, flush_range, "5 R_Key", "FLUSH of a range: NAK Remote Access Error")
{
	refused_with_key(_metadata, &self->rig, variant->kind, flush_range(&self->rig));
}

CASE(bad_key, flush_region, "5 R_Key", "FLUSH of the region: NAK Remote Access Error")
{
	refused_with_key(_metadata, &self->rig, variant->kind, flush_region(&self->rig));
}

CASE(bad_key, flush_nothing, "5 zero-length", "FLUSH of length 0: NAK Remote Access Error")
{
	refused_with_key(_metadata, &self->rig, variant->kind,
			 flush(&self->rig, GLOBAL, self->rig.start, 0));
}

CASE(bad_key, atomic_write, "5 R_Key", "ATOMIC WRITE: NAK Remote Access Error")
{
	refused_with_key(_metadata, &self->rig, variant->kind, atomic_write(&self->rig));
}

CASE(bad_key, flushes_receives, "5 R_Key", "refused: all that is posted to receive is flushed")
{
	struct rig *rig = &self->rig;
	struct ibv_wc wc;
	int i;

	for (i = 0; i < 4; i++)
		rxe_post_recv(&rig->flow.qp, rig->mr, rig->start, 16);
	refused_with_key(_metadata, rig, variant->kind, atomic_write(rig));
	for (i = 0; i < 4; i++) {
		ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
		ASSERT_STREQ(ibv_wc_status_str(IBV_WC_WR_FLUSH_ERR), ibv_wc_status_str(wc.status));
		ASSERT_EQ(rig->flow.qp.qp->qp_num, wc.qp_num);
	}
}

/* ---- Rights to FLUSH, of QP, region and window ---- */

#define REMOTE_RIGHTS	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_ATOMIC)
/* Placements become access flags so. */
#define ACCESS_FLUSH_SHIFT	8

enum holder { OF_QP, OF_REGION, OF_WINDOW_1, OF_WINDOW_2 };

FIXTURE_VARIANT(flush_right) {
	enum holder	holder;		/* whose rights are restricted: all others have all */
	unsigned int	has;		/* placements permitted */
};

RIG_FIXTURE(flush_right)
{
	bool pmem = variant->holder == OF_QP || variant->has & PERSISTENT;
	unsigned int rest = pmem ? ACCESS_ALL : ACCESS_DRAM;

	/*
	 * Only then does a region permit persistence, and the QP's lack of it is the only reason.
	 */
	if (pmem)
		need_pmem(_metadata);
	if (variant->holder == OF_REGION)
		rest = (rest & ~ACCESS_FLUSH) | variant->has << ACCESS_FLUSH_SHIFT;
	rig_open(&self->rig, pmem, rest, &RXE_QP_DEFAULT);
}

#define RIGHT_ROWS(who, holder_, text)								\
	ROW(flush_right, who##_none, "5 rights", text " permits no placement") {		\
		.holder = holder_ };								\
	ROW(flush_right, who##_global, "5 rights", text " permits global visibility") {	\
		.holder = holder_, .has = GLOBAL };						\
	ROW(flush_right, who##_persistent, "5 rights", text " permits persistence") {		\
		.holder = holder_, .has = PERSISTENT };						\
	ROW(flush_right, who##_both, "5 rights", text " permits both placements") {		\
		.holder = holder_, .has = GLOBAL | PERSISTENT }

RIGHT_ROWS(qp, OF_QP, "the QP");
RIGHT_ROWS(region, OF_REGION, "the region");
RIGHT_ROWS(window_1, OF_WINDOW_1, "the type 1 window");
RIGHT_ROWS(window_2, OF_WINDOW_2, "the type 2 window");

/*
 * A new QP, and the key to use with it; @holder, if it is the QP or a window, has the rights
 * @access.
 */
static __u32 grant(struct rig *rig, enum holder holder, unsigned int access)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	if (holder == OF_QP)
		config.access = access;
	flow_reopen(rig, &config);
	if (holder == OF_QP || holder == OF_REGION)
		return rig->mr->rkey;
	return bind_all(rig, &rig->flow, holder == OF_WINDOW_1 ? 1 : 2, access)->rkey;
}

static void flush_by_right(struct __test_metadata *_metadata, struct rig *rig, enum holder holder,
			   unsigned int has, unsigned int placement)
{
	__u8 nak = holder == OF_QP ? ROCE_AETH_NAK_INVALID : ROCE_AETH_NAK_ACCESS;
	unsigned int access = REMOTE_RIGHTS | has << ACCESS_FLUSH_SHIFT;
	struct packet kinds[] = {
		flush(rig, placement, rig->start, 64),
		flush(rig, placement, rig->start, 0),
		flush(rig, placement | REGION, 0, 0),
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		kinds[i].rkey = grant(rig, holder, access);
		if (placement & ~has)
			refused(_metadata, rig, kinds[i], nak);
		else
			served(_metadata, rig, kinds[i]);
	}
}

CASE(flush_right, global, "5 rights", "FLUSH global, of a range, of nothing, of the region")
{
	flush_by_right(_metadata, &self->rig, variant->holder, variant->has, GLOBAL);
}

CASE(flush_right, persistent, "5 rights", "FLUSH persistent, of a range, of nothing, of the region")
{
	flush_by_right(_metadata, &self->rig, variant->holder, variant->has, PERSISTENT);
}

CASE(flush_right, both, "5 rights",
     "FLUSH global and persistent, of a range, of nothing, of the region")
{
	flush_by_right(_metadata, &self->rig, variant->holder, variant->has, GLOBAL | PERSISTENT);
}

/* ---- Persistence is not for ordinary memory ---- */

DRAM_FIXTURE(dram)

CASE(dram, region_persistent, "5 persistence on DRAM", "such a region is not registered: EINVAL")
{
	EXPECT_EQ(NULL, rxe_reg_mr(&self->rig.end, 0, PAGE, ACCESS_ALL));
	EXPECT_EQ(EINVAL, errno);
}

CASE(dram, on_demand_persistent, "5 persistence on DRAM",
     "nor is one whose pages come on demand, whatever they are: EINVAL")
{
	need_odp(_metadata);
	EXPECT_EQ(NULL, rxe_reg_mr(&self->rig.end, 0, PAGE, ACCESS_ALL | IBV_ACCESS_ON_DEMAND));
	EXPECT_EQ(EINVAL, errno);
	/* That was the only reason. */
	EXPECT_NE(NULL, rxe_reg_mr(&self->rig.end, 0, PAGE, ACCESS_DRAM | IBV_ACCESS_ON_DEMAND));
}

CASE(dram, on_demand_of_2_gib, "5 range",
     "a region of 2 GiB whose pages come on demand is registered")
{
	const size_t len = 2ul << 30;
	void *memory = mmap(NULL, len, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	struct ibv_mr *mr;

	need_odp(_metadata);
	ASSERT_NE(MAP_FAILED, memory);
	mr = ibv_reg_mr(self->rig.end.pd, memory, len, ACCESS_DRAM | IBV_ACCESS_ON_DEMAND);
	EXPECT_NE(NULL, mr) {
		TH_LOG("%m");
	}
	if (mr)
		ibv_dereg_mr(mr);
	munmap(memory, len);
}

static void window_refuses_persistence(struct __test_metadata *_metadata, struct rig *rig, int type)
{
	EXPECT_FALSE(rxe_try_bind_mw(&rig->end, &rig->flow.qp, rxe_alloc_mw(&rig->end, type),
				     rig->mr, rig->start, 64, IBV_ACCESS_FLUSH_PERSISTENT));
}

CASE(dram, window_1_persistent, "5 persistence on DRAM", "such a type 1 window is not bound")
{
	window_refuses_persistence(_metadata, &self->rig, 1);
}

CASE(dram, window_2_persistent, "5 persistence on DRAM", "such a type 2 window is not bound")
{
	window_refuses_persistence(_metadata, &self->rig, 2);
}

/* ---- Which QP may bind and invalidate a window ---- */

DRAM_FIXTURE(window)

CASE(window, read_again_of_zero_based, "4 duplicates",
     "a READ through a zero-based window, whole and in part, is answered again")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig), answer;

	rq.rkey = bind_window(rig, 2, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_ZERO_BASED);
	rq.va = 24;
	send_raw(&rig->flow, &rq);
	answer = (struct packet) {
		.opcode = ROCE_RC_READ_RESPONSE_ONLY, .qpn = rig->flow.qp.peer_qpn,
		.psn = rig->flow.psn, .syndrome = 0x1f, .msn = ++rig->flow.msn,
		.payload_len = rq.dmalen,
	};
	memcpy(answer.payload, rig->model + WINDOW_OFFSET + rq.va, rq.dmalen);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	expect_packet(_metadata, &answer);
	answered_again(_metadata, rig, &rq, &answer);
	answered_again(_metadata, rig, &rq, &answer);
}

CASE(window, unbound_and_invalidated_by_the_peer, "5 R_Key", "an error, no more")
{
	peer_cannot_invalidate(_metadata, &self->rig, &self->rig.flow,
			       key_that_is_bad(&self->rig, KEY_UNBOUND));
}

CASE(window, invalidated_once_more_by_the_peer, "5 R_Key", "an error, no more")
{
	peer_cannot_invalidate(_metadata, &self->rig, &self->rig.flow,
			       key_that_is_bad(&self->rig, KEY_INVALIDATED));
}

CASE(window, unbound_and_invalidated, "5 R_Key", "an error, no more")
{
	struct rig *rig = &self->rig;

	EXPECT_TRUE(rxe_refuses_local_invalidate(&rig->end, &rig->flow.qp,
						 key_that_is_bad(rig, KEY_UNBOUND)));
	both_verbs_served_elsewhere(_metadata, rig);
}

/* @stranger becomes a QP of another protection domain, whose region is returned. */
static struct ibv_mr *open_stranger(struct rig *rig, struct flow *stranger)
{
	struct ibv_pd *own = rig->end.pd;
	struct ibv_mr *mr;

	rig->end.pd = ibv_alloc_pd(rig->end.context);
	if (!rig->end.pd)
		err(1, "a second protection domain");
	flow_open(rig, stranger, &RXE_QP_DEFAULT);
	mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, ACCESS_DRAM);
	if (!mr)
		err(1, "a memory region in another protection domain");
	rig->end.pd = own;
	return mr;
}

CASE(window, invalidated_by_a_stranger, "5 R_Key",
     "it stays when a QP of another protection domain does it")
{
	struct rig *rig = &self->rig;
	struct ibv_mw *mw = bind_all(rig, &rig->flow, 2, ACCESS_WINDOW);
	struct flow stranger;

	open_stranger(rig, &stranger);
	EXPECT_TRUE(rxe_refuses_local_invalidate(&rig->end, &stranger.qp, mw->rkey));
	window_serves(_metadata, rig, mw);
}

CASE(window, bound_anew_by_a_stranger, "5 R_Key",
     "a type 1 window stays bound when a QP of another protection domain unbinds it")
{
	struct rig *rig = &self->rig;
	struct ibv_mw *mw = bind_all(rig, &rig->flow, 1, ACCESS_WINDOW);
	struct flow stranger;
	struct ibv_mr *mr = open_stranger(rig, &stranger);

	EXPECT_FALSE(rxe_try_bind_mw(&rig->end, &stranger.qp, mw, mr, 0, 0, 0));
	window_serves(_metadata, rig, mw);
}

CASE(window, bound_to_a_strangers_region, "5 R_Key",
     "a window is not bound to a region of another protection domain")
{
	struct rig *rig = &self->rig;
	struct flow stranger;
	struct ibv_mr *mr = open_stranger(rig, &stranger);
	struct ibv_mw *mw;
	int type;

	for (type = 1; type <= 2; type++) {
		mw = rxe_alloc_mw(&rig->end, type);
		EXPECT_FALSE(rxe_try_bind_mw(&rig->end, &rig->flow.qp, mw, mr, rig->start, 64,
					     ACCESS_WINDOW));
		/* The QP is in error now. */
		flow_reopen(rig, &RXE_QP_DEFAULT);
	}
}

/* ---- Which QP may invalidate a region ---- */

FIXTURE_VARIANT(region) {
	unsigned int access;
};

RIG_FIXTURE(region)
{
	rig_open(&self->rig, false, variant->access, &RXE_QP_DEFAULT);
}

ROW(region, local, "5 R_Key", "a region that the peer has no right to") { IBV_ACCESS_LOCAL_WRITE };
ROW(region, remote, "5 R_Key", "a region that the peer has all rights to") { ACCESS_DRAM };

/*
 * What was registered by a command is not for work requests to invalidate, the peer's least of all.
 */
CASE(region, invalidated_by_the_peer, "5 R_Key",
     "an error, no more: the region takes the next SEND")
{
	struct rig *rig = &self->rig;
	struct packet send;
	struct ibv_wc wc;

	/* The R_Key is the same number, if there is one. */
	peer_cannot_invalidate(_metadata, rig, &rig->flow, rig->mr->lkey);
	flow_reopen(rig, &RXE_QP_DEFAULT);
	send = write_part(rig, ROCE_RC_SEND_ONLY, 0, 32);
	rxe_post_recv(&rig->flow.qp, rig->mr, send.va, 32);
	served(_metadata, rig, send);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), ibv_wc_status_str(wc.status));
	EXPECT_EQ(32, wc.byte_len);
}

/* ---- A READ comes again, and its key names something else by now ---- */

/* What the window is bound to before the READ comes again. */
FIXTURE_VARIANT(rebound) {
	__u64		moved;		/* bytes further on in the region */
	size_t		len;
	unsigned int	access;		/* in place of the right to read */
	bool		to_another_qp;
	bool		zero_based;	/* each time */
};

FIXTURE(rebound) {
	struct rig	rig;
	struct flow	other;
	struct ibv_mw	*mw;
};

FIXTURE_SETUP(rebound)
{
	struct rig *rig = &self->rig;

	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	flow_open(rig, &self->other, &RXE_QP_DEFAULT);
	/* Now: when all is closed it goes before both QPs. */
	self->mw = rxe_alloc_mw(&rig->end, 2);
}

FIXTURE_TEARDOWN(rebound)
{
	rig_close(_metadata, &self->rig);
}

ROW(rebound, moved, "5 R_Key", "the window is beyond what is read") { .moved = 2000, .len = 1000 };
ROW(rebound, cut, "5 R_Key", "the window ends in the midst of what is read") { .len = 199 };
ROW(rebound, without_its_right, "5 R_Key", "the window can be stored to, not read") {
	.len = 1000, .access = IBV_ACCESS_REMOTE_WRITE };
ROW(rebound, to_another_qp, "5 R_Key", "the window is another QP's") {
	.len = 1000, .to_another_qp = true };
ROW(rebound, zero_based, "5 R_Key", "the zero-based window is of memory further on") {
	.moved = 200, .len = 1000, .zero_based = true };

CASE(rebound, not_read_again, "4 duplicates",
     "the READ that comes again is refused, and brings nothing")
{
	struct rig *rig = &self->rig;
	struct packet rq = read_only(rig), answer;
	struct packet nak = {
		.opcode = ROCE_RC_ACK, .syndrome = ROCE_AETH_NAK_ACCESS, .psn = rig->flow.psn,
		.msn = rig->flow.msn + 1, .qpn = rig->flow.qp.peer_qpn,
	};
	struct rxe_qp *owner = variant->to_another_qp ? &self->other.qp : &rig->flow.qp;
	unsigned int based = variant->zero_based ? IBV_ACCESS_ZERO_BASED : 0;

	ASSERT_TRUE(rxe_try_bind_mw(&rig->end, &rig->flow.qp, self->mw, rig->mr, rig->start, 1000,
				    IBV_ACCESS_REMOTE_READ | based));
	answer = model_execute(rig, &rig->flow, &rq);
	rq.rkey = self->mw->rkey;
	rq.va -= based ? rig->start : 0;
	send_raw(&rig->flow, &rq);
	rig->flow.psn = psn_add(rig->flow.psn, 1);
	expect_packet(_metadata, &answer);
	answered_again(_metadata, rig, &rq, &answer);
	rxe_local_invalidate(&rig->end, &rig->flow.qp, self->mw->rkey);
	rxe_rebind_mw(&rig->end, &rig->flow.qp, self->mw, rig->mr, rig->start, 1000,
		      IBV_ACCESS_REMOTE_READ | based);
	answered_again(_metadata, rig, &rq, &answer);
	rxe_local_invalidate(&rig->end, &rig->flow.qp, self->mw->rkey);
	rxe_rebind_mw(&rig->end, owner, self->mw, rig->mr, rig->start + variant->moved,
		      variant->len, (variant->access ?: IBV_ACCESS_REMOTE_READ) | based);
	send_again(&rq);
	expect_packet(_metadata, &nak);
	expect_memory(_metadata, rig);
}

/* ---- Which QP may invalidate a window that is bound to a QP ---- */

enum window_of { BOUND, INVALIDATED, BOUND_ANEW, BOUND_ANEW_OLD_KEY, MOVED };

FIXTURE_VARIANT(window_of_qp) {
	enum window_of state;
};

/* The main flow is that of the owner, the other one has a QP of the same protection domain. */
FIXTURE(window_of_qp) {
	struct rig	rig;
	struct flow	other;
	struct ibv_mw	*mw;
	__u32		key;	/* that is tried */
};

static void bind_again(struct rig *rig, struct flow *flow, struct ibv_mw *mw)
{
	if (!rxe_try_bind_mw(&rig->end, &flow->qp, mw, rig->mr, rig->start, REGION_LEN,
			     ACCESS_WINDOW))
		errx(1, "cannot bind a memory window again");
}

FIXTURE_SETUP(window_of_qp)
{
	struct rig *rig = &self->rig;

	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	flow_open(rig, &self->other, &RXE_QP_DEFAULT);
	/* Now: when all is closed it goes before both QPs. */
	self->mw = bind_all(rig, variant->state == MOVED ? &self->other : &rig->flow, 2,
			    ACCESS_WINDOW);
	self->key = self->mw->rkey;
	switch (variant->state) {
	case BOUND:
		return;
	case MOVED:
		rxe_local_invalidate(&rig->end, &self->other.qp, self->key);
		break;
	default:
		rxe_local_invalidate(&rig->end, &rig->flow.qp, self->key);
	}
	if (variant->state == INVALIDATED)
		return;
	bind_again(rig, &rig->flow, self->mw);
	if (variant->state != BOUND_ANEW_OLD_KEY)
		self->key = self->mw->rkey;
}

FIXTURE_TEARDOWN(window_of_qp)
{
	rig_close(_metadata, &self->rig);
}

ROW(window_of_qp, bound, "5 R_Key", "bound to a QP") { BOUND };
ROW(window_of_qp, invalidated, "5 R_Key", "invalidated by the QP that it was bound to") {
	INVALIDATED };
ROW(window_of_qp, bound_anew, "5 R_Key", "invalidated and bound anew, by its new key") {
	BOUND_ANEW };
ROW(window_of_qp, bound_anew_old_key, "5 R_Key", "invalidated and bound anew, by its old key") {
	BOUND_ANEW_OLD_KEY };
ROW(window_of_qp, moved, "5 R_Key", "bound to the other QP before") { MOVED };

static struct packet write_by(struct rig *rig, struct ibv_mw *mw)
{
	struct packet rq = write_only(rig);

	rq.rkey = mw->rkey;
	return rq;
}

/*
 * The window is as before, bound or free to be bound: the peer of its QP stores and reads through
 * it.
 */
static void expect_as_before(struct __test_metadata *_metadata, struct rig *rig,
			     struct ibv_mw *mw, enum window_of state)
{
	if (state == INVALIDATED)
		bind_again(rig, &rig->flow, mw);
	served(_metadata, rig, write_by(rig, mw));
	window_serves(_metadata, rig, mw);
	rxe_local_invalidate(&rig->end, &rig->flow.qp, mw->rkey);
	refused(_metadata, rig, write_by(rig, mw), ROCE_AETH_NAK_ACCESS);
}

CASE(window_of_qp, invalidated_by_another_peer, "5 R_Key",
     "SEND with Invalidate to another QP: an error there; the window is as before")
{
	peer_cannot_invalidate(_metadata, &self->rig, &self->other, self->key);
	expect_as_before(_metadata, &self->rig, self->mw, variant->state);
}

CASE(window_of_qp, invalidated_by_another_qp, "5 R_Key",
     "local invalidate by another QP: an error there; the window is as before")
{
	EXPECT_TRUE(rxe_refuses_local_invalidate(&self->rig.end, &self->other.qp, self->key));
	expect_as_before(_metadata, &self->rig, self->mw, variant->state);
}

static bool may_be_invalidated(enum window_of state)
{
	return state != INVALIDATED && state != BOUND_ANEW_OLD_KEY;
}

CASE(window_of_qp, invalidated_by_its_peer, "5 R_Key",
     "SEND with Invalidate to its own QP ends the window if it has this key, and is else an error")
{
	struct rig *rig = &self->rig;
	struct packet ack = { .opcode = ROCE_RC_ACK, .msn = 1 };
	struct ibv_wc wc;

	if (!may_be_invalidated(variant->state)) {
		peer_cannot_invalidate(_metadata, rig, &rig->flow, self->key);
		return;
	}
	wc = peer_invalidates(_metadata, rig, &rig->flow, self->key, true);
	EXPECT_STREQ("success", ibv_wc_status_str(wc.status));
	EXPECT_EQ(self->key, wc.invalidated_rkey);
	ack.qpn = rig->flow.qp.peer_qpn;
	ack.psn = rig->flow.psn++;
	rig->flow.msn++;
	expect_packet(_metadata, &ack);
	refused(_metadata, rig, write_by(rig, self->mw), ROCE_AETH_NAK_ACCESS);
}

CASE(window_of_qp, invalidated_by_its_qp, "5 R_Key",
     "local invalidate by its own QP ends the window if it has this key, and is else an error")
{
	struct rig *rig = &self->rig;

	if (!may_be_invalidated(variant->state)) {
		EXPECT_TRUE(rxe_refuses_local_invalidate(&rig->end, &rig->flow.qp, self->key));
		both_verbs_served_elsewhere(_metadata, rig);
		return;
	}
	rxe_local_invalidate(&rig->end, &rig->flow.qp, self->key);
	refused(_metadata, rig, write_by(rig, self->mw), ROCE_AETH_NAK_ACCESS);
}

/* ---- Rights to ATOMIC WRITE ---- */

FIXTURE_VARIANT(write_right) {
	enum holder	holder;
	unsigned int	has;
	__u8		nak;	/* 0: served */
};

RIG_FIXTURE(write_right)
{
	unsigned int access = ACCESS_DRAM;

	if (variant->holder == OF_REGION)
		access = (access & ~REMOTE_RIGHTS) | variant->has;
	rig_open(&self->rig, false, access, &RXE_QP_DEFAULT);
}

#define WRITE_RIGHT_ROWS(who, holder_, nak_, text)						\
	ROW(write_right, who##_write, "5 ATOMIC WRITE right", text " permits WRITE only") {	\
		.holder = holder_, .has = IBV_ACCESS_REMOTE_WRITE };				\
	ROW(write_right, who##_atomic, "5 ATOMIC WRITE right", text " permits Atomics only") {	\
		.holder = holder_, .has = IBV_ACCESS_REMOTE_ATOMIC, .nak = nak_ };		\
	ROW(write_right, who##_read, "5 ATOMIC WRITE right", text " permits READ only") {	\
		.holder = holder_, .has = IBV_ACCESS_REMOTE_READ, .nak = nak_ }

WRITE_RIGHT_ROWS(qp, OF_QP, ROCE_AETH_NAK_INVALID, "the QP");
WRITE_RIGHT_ROWS(region, OF_REGION, ROCE_AETH_NAK_ACCESS, "the region");
WRITE_RIGHT_ROWS(window_1, OF_WINDOW_1, ROCE_AETH_NAK_ACCESS, "the type 1 window");
WRITE_RIGHT_ROWS(window_2, OF_WINDOW_2, ROCE_AETH_NAK_ACCESS, "the type 2 window");

CASE(write_right, atomic_write, "5 ATOMIC WRITE right",
     "REMOTE_WRITE is all that ATOMIC WRITE needs, and it does need it")
{
	struct packet rq = atomic_write(&self->rig);

	rq.rkey = grant(&self->rig, variant->holder, variant->has);
	if (variant->nak)
		refused(_metadata, &self->rig, rq, variant->nak);
	else
		served(_metadata, &self->rig, rq);
}

/* ---- Ranges: through the region, and through a window in the midst of it ---- */

enum verdict { SERVED, OUTSIDE, INVALID };

/*
 * Where a range begins: so far from the start or end of region or window, or from the page
 * boundary in it.
 */
struct place {
	enum { FROM_START, FROM_END, FROM_PAGE } from;
	__s64 offset;
};

static __u64 place_va(struct place place, __u64 start, size_t len)
{
	switch (place.from) {
	case FROM_END:
		start += len;
		break;
	case FROM_PAGE:
		start = (start + len) & ~(PAGE - 1);
		break;
	case FROM_START:
		break;
	}
	return start + place.offset;
}

static void judge(struct __test_metadata *_metadata, struct rig *rig, struct packet rq,
		  enum verdict verdict)
{
	switch (verdict) {
	case SERVED:
		served(_metadata, rig, rq);
		break;
	case OUTSIDE:
		refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
		break;
	case INVALID:
		refused(_metadata, rig, rq, ROCE_AETH_NAK_INVALID);
		break;
	}
}

FIXTURE_VARIANT(flush_range) {
	struct place	place;
	__u32		len;
	size_t		len_is_whole;	/* 1: @len is added to the whole length */
	enum verdict	verdict;
	bool		open;		/* other verdicts are right, too */
};

DRAM_FIXTURE(flush_range)

ROW(flush_range, first_byte, "5 range", "the first byte") { .len = 1 };
ROW(flush_range, last_byte, "5 range", "the last byte") {
	.place = { FROM_END, -1 }, .len = 1 };
ROW(flush_range, whole, "5 range", "every byte") { .len_is_whole = 1 };
ROW(flush_range, odd_bytes, "5 range", "any alignment and length will do") {
	.place = { FROM_START, 13 }, .len = 777 };
ROW(flush_range, page_end, "5 range", "across the page boundary, one byte on each side") {
	.place = { FROM_PAGE, -1 }, .len = 2 };
ROW(flush_range, byte_before, "5 range", "the byte before the first") {
	.place = { FROM_START, -1 }, .len = 1, .verdict = OUTSIDE };
ROW(flush_range, byte_behind, "5 range", "the byte after the last") {
	.place = { FROM_END }, .len = 1, .verdict = OUTSIDE };
ROW(flush_range, one_too_early, "5 range", "starts one byte too early") {
	.place = { FROM_START, -1 }, .len = 64, .verdict = OUTSIDE };
ROW(flush_range, one_too_long, "5 range", "ends one byte too late") {
	.place = { FROM_END, -63 }, .len = 64, .verdict = OUTSIDE };
ROW(flush_range, whole_and_one, "5 range", "every byte and one more") {
	.len_is_whole = 1, .len = 1, .verdict = OUTSIDE };
ROW(flush_range, page_away, "5 range", "a page away") {
	.place = { FROM_END, PAGE }, .len = 8, .verdict = OUTSIDE };
ROW(flush_range, longest, "5 range", "the longest length there is, 2^31 - 1") {
	.len = 0x7fffffff, .verdict = OUTSIDE };
ROW(flush_range, bit_31, "5 range", "length 2^31, beyond the longest there is") {
	.len = 0x80000000, .verdict = INVALID, .open = true };
ROW(flush_range, all_ones, "5 range", "length 2^32 - 1, which is no -1") {
	.len = 0xffffffff, .verdict = INVALID };
ROW(flush_range, bit_31_and_whole, "5 range", "a good length with bit 31 set") {
	.len = 0x80000040, .verdict = INVALID };
ROW(flush_range, empty_first, "5 zero-length", "length 0 at the start") { .len = 0 };
ROW(flush_range, empty_behind, "5 zero-length", "length 0 just after the last byte") {
	.place = { FROM_END } };

static void flush_range_of(struct __test_metadata *_metadata, struct rig *rig,
			   const FIXTURE_VARIANT(flush_range) *row, __u32 rkey, __u64 start,
			   size_t whole)
{
	struct packet rq = flush(rig, GLOBAL, place_va(row->place, start, whole),
				 row->len_is_whole * whole + row->len);

	if (row->open)
		NEED_OUR_ANSWER();
	rq.rkey = rkey;
	judge(_metadata, rig, rq, row->verdict);
}

CASE(flush_range, region, "5 range", "FLUSH of a range of the region")
{
	flush_range_of(_metadata, &self->rig, variant, self->rig.mr->rkey, self->rig.start,
		       REGION_LEN);
}

CASE(flush_range, window_1, "5 range", "FLUSH of a range of a type 1 window")
{
	flush_range_of(_metadata, &self->rig, variant, bind_window(&self->rig, 1, ACCESS_WINDOW),
		       (uintptr_t)self->rig.end.memory + WINDOW_OFFSET, WINDOW_LEN);
}

CASE(flush_range, window_2, "5 range", "FLUSH of a range of a type 2 window")
{
	flush_range_of(_metadata, &self->rig, variant, bind_window(&self->rig, 2, ACCESS_WINDOW),
		       (uintptr_t)self->rig.end.memory + WINDOW_OFFSET, WINDOW_LEN);
}

FIXTURE_VARIANT(atomic_write_at) {
	struct place	place;
	enum verdict	verdict;
};

DRAM_FIXTURE(atomic_write_at)

ROW(atomic_write_at, first, "5 range", "the first 8 bytes") { };
ROW(atomic_write_at, last, "5 range", "the last aligned 8 bytes") {
	.place = { FROM_END, -12 } };
ROW(atomic_write_at, page_end, "5 range", "the last 8 bytes of a page") {
	.place = { FROM_PAGE, -8 } };
ROW(atomic_write_at, page_start, "5 range", "the first 8 bytes of a page") {
	.place = { FROM_PAGE } };
ROW(atomic_write_at, before, "5 range", "the 8 bytes before the first") {
	.place = { FROM_START, -8 }, .verdict = OUTSIDE };
ROW(atomic_write_at, half_out, "5 range", "4 bytes within, 4 bytes beyond the end") {
	.place = { FROM_END, -4 }, .verdict = OUTSIDE };
ROW(atomic_write_at, behind, "5 range", "the first aligned 8 bytes beyond the end") {
	.place = { FROM_END, 4 }, .verdict = OUTSIDE };

static void atomic_write_of(struct __test_metadata *_metadata, struct rig *rig,
			    const FIXTURE_VARIANT(atomic_write_at) *row, __u32 rkey, __u64 start,
			    size_t whole)
{
	struct packet rq = atomic_write_to(rig, place_va(row->place, start, whole));

	rq.rkey = rkey;
	judge(_metadata, rig, rq, row->verdict);
}

CASE(atomic_write_at, region, "5 range", "ATOMIC WRITE into the region")
{
	atomic_write_of(_metadata, &self->rig, variant, self->rig.mr->rkey, self->rig.start,
			REGION_LEN);
}

CASE(atomic_write_at, window_1, "5 range", "ATOMIC WRITE into a type 1 window")
{
	atomic_write_of(_metadata, &self->rig, variant, bind_window(&self->rig, 1, ACCESS_WINDOW),
			(uintptr_t)self->rig.end.memory + WINDOW_OFFSET, WINDOW_LEN);
}

CASE(atomic_write_at, window_2, "5 range", "ATOMIC WRITE into a type 2 window")
{
	atomic_write_of(_metadata, &self->rig, variant, bind_window(&self->rig, 2, ACCESS_WINDOW),
			(uintptr_t)self->rig.end.memory + WINDOW_OFFSET, WINDOW_LEN);
}
