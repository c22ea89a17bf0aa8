// SPDX-License-Identifier: GPL-2.0
/*
 * The kernel as responder: windows of type 2 whose queue pair is destroyed.  Destroying it waits
 * for nothing.  The windows then give access to nothing, hold nothing, and can be deallocated.
 */
#include <signal.h>
#include <sys/wait.h>

#include "rxe_responder.h"

#define MANY_WINDOWS	64
/*
 * Destroying a QP, or all that a program has, takes a fraction of it; a debug kernel on a busy
 * machine, too.
 */
#define AT_ONCE_MS	1000

FIXTURE(orphan) {
	struct rig rig;
	struct flow owner;
	struct ibv_mw *mw[MANY_WINDOWS];
};

FIXTURE_TEARDOWN(orphan)
{
	rig_close(_metadata, &self->rig);
}

FIXTURE_SETUP(orphan)
{
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	flow_open(&self->rig, &self->owner, &RXE_QP_DEFAULT);
}

static void expect_at_once(struct __test_metadata *_metadata, long long start,
			   const char *what)
{
	long long ms = now_ms() - start;

	TH_LOG("%s took %lld ms", what, ms);
	EXPECT_LT(ms, AT_ONCE_MS * wait_scale());
}

static void bind_windows(FIXTURE_DATA(orphan) *self, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		self->mw[i] = bind_all(&self->rig, &self->owner, 2, ACCESS_WINDOW);
}

static void destroy_owner(struct __test_metadata *_metadata, FIXTURE_DATA(orphan) *self)
{
	struct rxe_destroy destroy = { .qp = self->owner.qp.qp };
	bool at_once = rxe_destroys_within(&destroy, AT_ONCE_MS);
	int i;

	/* A kernel that waits for the windows would do so for ever. */
	for (i = 0; !at_once && i < MANY_WINDOWS && self->mw[i]; i++)
		ibv_dealloc_mw(self->mw[i]);
	rxe_destroyed(&destroy);
	ASSERT_TRUE(at_once) {
		TH_LOG("destroying the QP waited for its windows");
	}
}

/* Neither of these requests comes in by the key, on the main flow, which is a new one for each. */
static void key_opens_nothing(struct __test_metadata *_metadata, struct rig *rig, __u32 rkey)
{
	struct packet requests[] = {
		write_only(rig), read_only(rig), atomic_write(rig), fetch_add(rig),
		flush_range(rig),
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(requests); i++) {
		requests[i].rkey = rkey;
		refused(_metadata, rig, requests[i], ROCE_AETH_NAK_ACCESS);
		flow_reopen(rig, &RXE_QP_DEFAULT);
	}
}

/* The same again by another QP, which is made now; it fails and is in error then. */
static void nobody_takes_it(struct __test_metadata *_metadata, struct rig *rig, struct ibv_mw *mw)
{
	flow_reopen(rig, &RXE_QP_DEFAULT);
	EXPECT_FALSE(rxe_try_bind_mw(&rig->end, &rig->flow.qp, mw, rig->open_mr, rig->start,
				     REGION_LEN, ACCESS_WINDOW));
	flow_reopen(rig, &RXE_QP_DEFAULT);
	EXPECT_TRUE(rxe_refuses_local_invalidate(&rig->end, &rig->flow.qp, mw->rkey));
	flow_reopen(rig, &RXE_QP_DEFAULT);
	peer_cannot_invalidate(_metadata, rig, &rig->flow, mw->rkey);
	flow_reopen(rig, &RXE_QP_DEFAULT);
}

CASE(orphan, destroyed_with_one, "5 R_Key", "a QP that has a window is destroyed at once")
{
	bind_windows(self, 1);
	destroy_owner(_metadata, self);
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
}

CASE(orphan, destroyed_with_many, "5 R_Key", "a QP that has 64 windows, too")
{
	int i;

	bind_windows(self, MANY_WINDOWS);
	destroy_owner(_metadata, self);
	for (i = 0; i < MANY_WINDOWS; i++)
		EXPECT_EQ(0, ibv_dealloc_mw(self->mw[i]));
}

/* The states that it may be in when it goes. */
FIXTURE_VARIANT(orphan_in) {
	enum ibv_qp_state state;
};

DRAM_FIXTURE(orphan_in)

ROW(orphan_in, error, "5 R_Key", "a QP in error") { .state = IBV_QPS_ERR };
ROW(orphan_in, reset, "5 R_Key", "a QP that was reset") { .state = IBV_QPS_RESET };
ROW(orphan_in, sqd, "5 R_Key", "a QP in SQD") { .state = IBV_QPS_SQD };

CASE(orphan_in, destroyed, "5 R_Key", "is destroyed at once, and its window opens nothing")
{
	struct rig *rig = &self->rig;
	long long start;
	struct ibv_mw *mw;
	struct flow owner;

	flow_open(rig, &owner, &RXE_QP_DEFAULT);
	mw = bind_all(rig, &owner, 2, ACCESS_WINDOW);
	rxe_modify_qp(&owner.qp, variant->state);
	start = now_ms();
	ASSERT_EQ(0, ibv_destroy_qp(owner.qp.qp));
	expect_at_once(_metadata, start, "destroying the QP");
	key_opens_nothing(_metadata, rig, mw->rkey);
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

CASE(orphan, destroyed_under_traffic, "5 R_Key", "while requests come by the window: the same")
{
	struct rig *rig = &self->rig;
	struct rxe_qp pair[2];
	struct ibv_qp_ex *qpx;
	struct ibv_mw *mw;
	struct packet rq;
	struct frame frame;
	int i;

	/*
	 * From the wire; the last one is the first of two packets, and keeps its region until the
	 * other has come.
	 */
	bind_windows(self, 1);
	for (i = 0; i < 64; i++) {
		rq = i % 2 ? i == 63 ? write_first(rig) : read_only(rig) : write_only(rig);
		rq.rkey = self->mw[0]->rkey;
		rq.qpn = self->owner.qp.qp->qp_num;
		rq.psn = psn_add(self->owner.psn, i);
		peer_send(&rq);
	}
	destroy_owner(_metadata, self);
	/* From the same device, perhaps before all is answered. */
	rxe_make_pair(&rig->end, &RXE_QP_DEFAULT, pair);
	self->owner.qp = pair[0];
	mw = bind_all(rig, &self->owner, 2, ACCESS_WINDOW);
	qpx = ibv_qp_to_qp_ex(pair[1].qp);
	ibv_wr_start(qpx);
	qpx->wr_flags = 0;
	for (i = 0; i < 64; i++) {
		ibv_wr_rdma_read(qpx, mw->rkey, rig->start);
		ibv_wr_set_sge(qpx, rig->open_mr->lkey, rig->start, REGION_LEN);
	}
	ASSERT_EQ(0, ibv_wr_complete(qpx));
	destroy_owner(_metadata, self);
	ASSERT_EQ(0, ibv_destroy_qp(pair[1].qp));
	while (peer_recv_frame(&frame, 0))
		;
	memcpy(rig->model, rig->end.memory, MEMORY_LEN);
	key_opens_nothing(_metadata, rig, self->mw[0]->rkey);
	key_opens_nothing(_metadata, rig, mw->rkey);
	EXPECT_EQ(0, ibv_dereg_mr(rig->mr));
	rig->mr = rig->open_mr;
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

CASE(orphan, opens_nothing, "5 R_Key",
     "its key is refused on a QP that was made before, and on one made later")
{
	bind_windows(self, 1);
	destroy_owner(_metadata, self);
	key_opens_nothing(_metadata, &self->rig, self->mw[0]->rkey);
	key_opens_nothing(_metadata, &self->rig, self->mw[0]->rkey);
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
}

CASE(orphan, opens_nothing_to_its_successors, "5 R_Key",
     "its key is refused on the next QPs, one of which is where the destroyed one was in memory")
{
	struct rig *rig = &self->rig;
	struct flow later[5];
	size_t i;

	bind_windows(self, 1);
	destroy_owner(_metadata, self);
	for (i = 0; i < ARRAY_SIZE(later); i++)
		flow_open(rig, &later[i], &RXE_QP_DEFAULT);
	for (i = 0; i < ARRAY_SIZE(later); i++) {
		struct packet rq = i % 2 ? read_only(rig) : write_only(rig);

		rig->flow = later[i];
		rq.rkey = self->mw[0]->rkey;
		refused(_metadata, rig, rq, ROCE_AETH_NAK_ACCESS);
	}
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
}

CASE(orphan, is_taken_by_nobody, "5 R_Key",
     "no QP of its protection domain binds or invalidates it, nor does the peer invalidate it")
{
	bind_windows(self, 1);
	destroy_owner(_metadata, self);
	nobody_takes_it(_metadata, &self->rig, self->mw[0]);
	key_opens_nothing(_metadata, &self->rig, self->mw[0]->rkey);
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
}

CASE(orphan, is_deallocated, "5 R_Key", "and then its key is refused as before")
{
	__u32 rkey;

	bind_windows(self, 1);
	destroy_owner(_metadata, self);
	rkey = self->mw[0]->rkey;
	ASSERT_EQ(0, ibv_dealloc_mw(self->mw[0]));
	key_opens_nothing(_metadata, &self->rig, rkey);
}

CASE(orphan, holds_no_region, "5 R_Key",
     "the region can be deregistered as soon as the QP is destroyed")
{
	struct rig *rig = &self->rig;
	__u32 rkey = rig->mr->rkey;

	bind_windows(self, 2);
	destroy_owner(_metadata, self);
	EXPECT_EQ(0, ibv_dereg_mr(rig->mr));
	/* The requests are built with its key, which they do not keep. */
	rig->mr = rig->open_mr;
	key_opens_nothing(_metadata, rig, rkey);
	key_opens_nothing(_metadata, rig, self->mw[0]->rkey);
	nobody_takes_it(_metadata, rig, self->mw[1]);
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[1]));
}

CASE(orphan, deallocated_first, "5 R_Key", "a window may go before its QP does")
{
	struct rig *rig = &self->rig;

	bind_windows(self, 2);
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[0]));
	EXPECT_EQ(0, ibv_dealloc_mw(self->mw[1]));
	destroy_owner(_metadata, self);
	EXPECT_EQ(0, ibv_dereg_mr(rig->mr));
	rig->mr = rig->open_mr;
	both_verbs_served_elsewhere(_metadata, rig);
}

CASE(orphan, invalidated_first, "5 R_Key",
     "a window that was invalidated has no owner, and is bound again")
{
	struct rig *rig = &self->rig;

	bind_windows(self, 1);
	rxe_local_invalidate(&rig->end, &self->owner.qp, self->mw[0]->rkey);
	destroy_owner(_metadata, self);
	ASSERT_TRUE(rxe_try_bind_mw(&rig->end, &rig->flow.qp, self->mw[0], rig->mr, rig->start,
				    REGION_LEN, ACCESS_WINDOW));
	window_serves(_metadata, rig, self->mw[0]);
}

CASE(orphan, others_stay, "5 R_Key",
     "a window of another QP, and one of type 1, which no QP has, serve on and hold the region")
{
	struct rig *rig = &self->rig;
	struct ibv_mw *others = bind_all(rig, &rig->flow, 2, ACCESS_WINDOW);
	struct ibv_mw *type_1 = bind_all(rig, &self->owner, 1, ACCESS_WINDOW);

	bind_windows(self, 1);
	destroy_owner(_metadata, self);
	window_serves(_metadata, rig, others);
	window_serves(_metadata, rig, type_1);
	EXPECT_NE(0, ibv_dereg_mr(rig->mr));
	EXPECT_EQ(0, ibv_dealloc_mw(others));
	EXPECT_NE(0, ibv_dereg_mr(rig->mr));
	EXPECT_EQ(0, ibv_dealloc_mw(type_1));
	EXPECT_EQ(0, ibv_dereg_mr(rig->mr));
	rig->mr = rig->open_mr;
}

/* ---- Programs that end with all of it still there ---- */

FIXTURE_VARIANT(left_behind) {
	bool windows_first;	/* made before the QP: the kernel destroys the newest first */
	bool killed;
};

DRAM_FIXTURE(left_behind)

ROW(left_behind, windows_ended, "5 R_Key", "the windows are older than the QP, the program ends") {
	.windows_first = true };
ROW(left_behind, windows_killed, "5 R_Key",
    "the windows are older than the QP, the program is killed") {
	.windows_first = true, .killed = true };
ROW(left_behind, qp_ended, "5 R_Key", "the QP is older than the windows, the program ends") { };
ROW(left_behind, qp_killed, "5 R_Key", "the QP is older than the windows, the program is killed") {
	.killed = true };

/* The program: binds windows, says so and ends, or waits. */
static void leave_behind(bool windows_first, int ready)
{
	struct ibv_mw *mw[MANY_WINDOWS] = { };
	struct rxe_end end;
	struct ibv_mr *mr;
	struct rxe_qp qp;
	int i;

	rxe_open(&end, false);
	for (i = 0; windows_first && i < MANY_WINDOWS; i++)
		mw[i] = rxe_alloc_mw(&end, 2);
	mr = rxe_reg_mr(&end, 0, MEMORY_LEN, ACCESS_DRAM);
	if (!mr)
		err(1, "a memory region");
	rxe_make_qp(&end, &RXE_QP_DEFAULT, &qp);
	for (i = 0; i < MANY_WINDOWS; i++)
		if (!rxe_try_bind_mw(&end, &qp, mw[i] ?: rxe_alloc_mw(&end, 2), mr,
				     (uintptr_t)end.memory, MEMORY_LEN, ACCESS_WINDOW))
			errx(1, "cannot bind a memory window");
	if (write(ready, "", 1) != 1)
		err(1, "the parent");
}

CASE(left_behind, with_windows, "5 R_Key",
     "a program that has a QP with 64 windows is gone at once, and the next one is served")
{
	struct rig *rig = &self->rig;
	long long start;
	int ready[2], status;
	pid_t pid;
	char byte;

	ASSERT_EQ(0, pipe(ready));
	pid = fork();
	ASSERT_GE(pid, 0);
	if (!pid) {
		leave_behind(variant->windows_first, ready[1]);
		while (variant->killed)
			pause();
		_exit(0);
	}
	close(ready[1]);
	ASSERT_EQ(1, read(ready[0], &byte, 1));
	start = now_ms();
	if (variant->killed)
		kill(pid, SIGKILL);
	ASSERT_EQ(pid, waitpid(pid, &status, 0));
	expect_at_once(_metadata, start, "the end of the program");
	EXPECT_EQ(variant->killed ? SIGKILL : 0, status);
	window_serves(_metadata, rig, bind_all(rig, &rig->flow, 2, ACCESS_WINDOW));
	both_verbs_served_elsewhere(_metadata, rig);
}
