// SPDX-License-Identifier: GPL-2.0
/*
 * hostile-qps destroys a QP that is binding windows.  That waits for nothing, and the windows can be deallocated.  It
 * lets two QPs bind one window by the same key: one of them can.  It can't take rights from a region whose window has
 * them.
 *
 * It gives pages of an on-demand region back while a prefetch of the region fails.
 */
#include <sys/mman.h>

#include "advise-mr.h"
#include "change-access.h"
#include "hostile-qps.h"

/* ---- A QP that binds windows when it is destroyed ---- */

#define WINDOWS		8
/*
 * So many are posted at once that the call which posts them leaves most to the tasklet.  Each is followed by an
 * invalidation, which waits for all before it, but the last ones.
 */
#define BINDS		8192
#define BINDS_PER_WC	32
#define HOPELESS_ROUNDS	200	/* none of them amid the binds: there will be none */

NOBODY_FIXTURE(windows)

struct destroyer {
	pthread_t thread;
	struct ibv_qp *_Atomic qp;	/* to be destroyed; NULL: it is */
	atomic_bool stop;
	int error;
	unsigned int ms;		/* that the last took, */
	unsigned int most_ms;		/* and the longest */
};

static void *destroy(void *arg)
{
	struct destroyer *destroyer = arg;
	long long start;
	struct ibv_qp *qp;

	stay_on_cpu(1);
	while (!destroyer->stop) {
		qp = destroyer->qp;
		if (!qp)
			continue;
		/* As long as the other thread is posting, the kernel has it busy. */
		do {
			start = now_ms();
			destroyer->error = ibv_destroy_qp(qp);
		} while (destroyer->error == EBUSY);
		destroyer->ms = now_ms() - start;
		if (destroyer->ms > destroyer->most_ms)
			destroyer->most_ms = destroyer->ms;
		destroyer->qp = NULL;
	}
	return NULL;
}

static void post_binds(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *qp,
		       struct ibv_mw *mw[WINDOWS])
{
	const struct ibv_mw_bind_info info = { rig->mr, rig->start, REGION_LEN, ACCESS_WINDOW };
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(qp->qp);
	struct ibv_mw *this;
	__u32 rkey;
	int i;

	ibv_wr_start(qpx);
	for (i = 0; i < BINDS; i++) {
		this = mw[i % WINDOWS];
		rkey = ibv_inc_rkey(this->rkey);
		qpx->wr_flags = i % BINDS_PER_WC == BINDS_PER_WC - 1 ? IBV_SEND_SIGNALED : 0;
		ibv_wr_bind_mw(qpx, this, rkey, &info);
		this->rkey = rkey;
		qpx->wr_flags = 0;
		if (i < BINDS - WINDOWS)
			ibv_wr_local_inv(qpx, rkey);
	}
	ASSERT_EQ(0, ibv_wr_complete(qpx));
}

/* One QP; how many of its completions have come when it is gone. */
static unsigned int bind_and_destroy(struct __test_metadata *_metadata, struct rig *rig,
				     struct destroyer *destroyer)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct ibv_mw *mw[WINDOWS];
	unsigned int completions = 0;
	struct ibv_mr *mr = rig->mr;
	struct rxe_qp qp;
	struct ibv_wc wc;
	int i;

	rig->mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, ACCESS_DRAM);
	if (!rig->mr)
		err(1, "a memory region");
	for (i = 0; i < WINDOWS; i++)
		mw[i] = rxe_alloc_mw(&rig->end, 2);
	config.queue = 2 * BINDS;
	rxe_make_qp(&rig->end, &config, &qp);
	post_binds(_metadata, rig, &qp, mw);
	destroyer->qp = qp.qp;
	while (destroyer->qp)
		;
	ASSERT_EQ(0, destroyer->error);
	ASSERT_LT(destroyer->ms, SOON_MS * wait_scale()) {
		TH_LOG("destroying a QP took %u ms", destroyer->ms);
	}
	while (ibv_poll_cq(rig->end.cq, 1, &wc))
		completions += wc.status == IBV_WC_SUCCESS;
	for (i = 0; i < WINDOWS; i++)
		ASSERT_EQ(0, ibv_dealloc_mw(mw[i]));
	ASSERT_EQ(0, ibv_dereg_mr(rig->mr));
	rig->mr = mr;
	return completions;
}

TEST_F_TIMEOUT(windows, bound_and_destroyed, PATIENCE)
{
	struct destroyer destroyer = { };
	unsigned int rounds, amid = 0;
	const long long end = now_ms() + milliseconds;

	if (pthread_create(&destroyer.thread, NULL, destroy, &destroyer))
		errx(1, "no thread");
	for (rounds = 0; rounds < MOST_ROUNDS && (amid < LEAST || now_ms() < end); rounds++) {
		amid += bind_and_destroy(_metadata, &self->rig, &destroyer) < BINDS / BINDS_PER_WC;
		if (rounds == HOPELESS_ROUNDS && !amid)
			break;
	}
	destroyer.stop = true;
	pthread_join(destroyer.thread, NULL);
	if (!amid)
		SKIP(return, "the kernel destroys no QP before all is bound");
	TH_LOG("%u QPs destroyed, %u of them before all was bound; it took %u ms at most", rounds, amid,
	       destroyer.most_ms);
	EXPECT_GE(amid, LEAST);
}

/* ---- Two QPs that bind one window ---- */

struct binder {
	pthread_t thread;
	struct rxe_qp qp[2];		/* this thread's, the other's */
	struct ibv_mw *mw;
	struct ibv_mw_bind_info info;
	atomic_bool go;			/* the other is to bind now; false: it has posted that */
	atomic_bool stop;
	int error;			/* of the other's posting */
};

/* By the key that the window has; the n-th QP gives it the n-th key after that. */
static int post_bind(struct binder *binder, int n)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(binder->qp[n].qp);
	__u32 rkey = ibv_inc_rkey(binder->mw->rkey);

	ibv_wr_start(qpx);
	qpx->wr_id = n;
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qpx, binder->mw, n ? ibv_inc_rkey(rkey) : rkey, &binder->info);
	return ibv_wr_complete(qpx);
}

static void *bind_too(void *arg)
{
	struct binder *binder = arg;

	stay_on_cpu(1);
	while (!binder->stop) {
		if (!binder->go)
			continue;
		binder->error = post_bind(binder, 1);
		binder->go = false;
	}
	return NULL;
}

/* The QP that has bound it; the other one has failed, and is made ready anew. */
static int bind_twice(struct __test_metadata *_metadata, struct rig *rig, struct binder *binder)
{
	struct ibv_wc wc;
	int i, winner = -1;
	__u32 rkey;

	binder->go = true;
	ASSERT_EQ(0, post_bind(binder, 0));
	while (binder->go)
		;
	ASSERT_EQ(0, binder->error);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
		if (wc.status == IBV_WC_SUCCESS) {
			ASSERT_EQ(-1, winner) {
				TH_LOG("both were bound by the same key");
			}
			winner = wc.wr_id;
		} else {
			ASSERT_EQ(IBV_WC_MW_BIND_ERR, wc.status);
			rxe_reconnect_qp(&rig->end, &RXE_QP_DEFAULT, &binder->qp[wc.wr_id]);
		}
	}
	ASSERT_NE(-1, winner);
	rkey = ibv_inc_rkey(binder->mw->rkey);
	binder->mw->rkey = winner ? ibv_inc_rkey(rkey) : rkey;
	return winner;
}

/* The type is 1, for one of type 2 is not bound again before it was invalidated. */
TEST_F_TIMEOUT(windows, bound_by_two, PATIENCE)
{
	const long long end = now_ms() + milliseconds;
	struct rig *rig = &self->rig;
	struct binder binder = {
		.mw = rxe_alloc_mw(&rig->end, 1),
		.info = { rig->mr, rig->start, REGION_LEN, ACCESS_WINDOW },
	};
	unsigned int rounds, second = 0;
	int i;

	for (i = 0; i < 2; i++)
		rxe_make_qp(&rig->end, &RXE_QP_DEFAULT, &binder.qp[i]);
	if (pthread_create(&binder.thread, NULL, bind_too, &binder))
		errx(1, "no thread");
	for (rounds = 0; rounds < LEAST || now_ms() < end; rounds++)
		second += bind_twice(_metadata, rig, &binder);
	binder.stop = true;
	pthread_join(binder.thread, NULL);
	TH_LOG("bound %u times, %u times by the second QP", rounds, second);
}

/* ---- Rights that are taken from a region with a window ---- */

/* A driver need not have rereg_mr, but what it has must not leave a window with more than its region. */
TEST_F(windows, keep_the_rights_of_their_region)
{
	struct rig *rig = &self->rig;
	struct rxe_qp qp;
	struct ibv_mw *mw;
	int ret;

	rxe_make_qp(&rig->end, &RXE_QP_DEFAULT, &qp);
	mw = rxe_bind_mw(&rig->end, &qp, rig->mr, 2, rig->start, REGION_LEN, ACCESS_WINDOW);
	ret = change_access(rig->mr, IBV_ACCESS_LOCAL_WRITE);
	if (ret != EOPNOTSUPP) {
		EXPECT_EQ(EINVAL, ret);
		/* Only the window is the reason. */
		EXPECT_EQ(EINVAL, change_access(rig->mr, ACCESS_DRAM));
		rxe_local_invalidate(&rig->end, &qp, mw->rkey);
		EXPECT_EQ(0, change_access(rig->mr, ACCESS_DRAM));
		/* After that a window can be bound again. */
		rxe_rebind_mw(&rig->end, &qp, mw, rig->mr, rig->start, REGION_LEN, ACCESS_WINDOW);
	}
	/* In this order, for a kernel that waits for the window otherwise */
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
	ASSERT_EQ(0, ibv_destroy_qp(qp.qp));
}

/* ---- On-demand regions ---- */

#define ON_DEMAND	(4 << 20)	/* bytes: long enough to go and to be looked at in the middle of it */
#define PREFETCHED	20

struct prefetcher {
	pthread_t thread;
	struct rxe_end *end;
	struct ibv_mr *mr;
	atomic_bool over;
	atomic_uint times;
	int error;
};

FIXTURE(on_demand) {
	struct rig rig;
	struct rxe_qp pair[2];
	struct ibv_mr *local;
	__u8 *memory;			/* the page behind it is not accessible */
	struct ibv_mr *mr;
	struct prefetcher prefetcher;
};

/* The whole region */
static int prefetch(struct rxe_end *end, __u32 flags, const struct ibv_mr *mr)
{
	return advise_mr(end->pd, flags, (struct ib_uverbs_sge) { (uintptr_t)mr->addr, mr->length, mr->lkey });
}

/* Until it does not fail for lack of rights, or because pages keep going */
static void *prefetch_again(void *arg)
{
	struct prefetcher *prefetcher = arg;

	stay_on_cpu(1);
	do {
		prefetcher->error = prefetch(prefetcher->end, IB_UVERBS_ADVISE_MR_FLAG_FLUSH, prefetcher->mr);
		prefetcher->times++;
	} while (prefetcher->error == EFAULT || prefetcher->error == EBUSY);
	prefetcher->over = true;
	return NULL;
}

FIXTURE_SETUP(on_demand)
{
	need_odp(_metadata);
	open_as_nobody(&self->rig, 0);
	self->local = rxe_reg_mr(&self->rig.end, MEMORY_LEN - PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	self->memory = mmap(NULL, ON_DEMAND + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (self->memory == MAP_FAILED)
		err(1, "memory");
	madvise(self->memory, ON_DEMAND, MADV_NOHUGEPAGE);	/* it fails if the kernel has no huge pages */
	self->mr = ibv_reg_mr(self->rig.end.pd, self->memory, ON_DEMAND + PAGE, ACCESS_DRAM | IBV_ACCESS_ON_DEMAND);
	if (!self->local || !self->mr || mprotect(self->memory + ON_DEMAND, PAGE, PROT_NONE))
		err(1, "a memory region");
	make_pair(&self->rig.end, self->pair);
	self->prefetcher = (struct prefetcher) { .end = &self->rig.end, .mr = self->mr };
	if (pthread_create(&self->prefetcher.thread, NULL, prefetch_again, &self->prefetcher))
		errx(1, "no thread");
}

/* The last page becomes accessible, so the prefetcher ends. */
FIXTURE_TEARDOWN(on_demand)
{
	if (mprotect(self->memory + ON_DEMAND, PAGE, PROT_READ | PROT_WRITE))
		err(1, "mprotect");
	pthread_join(self->prefetcher.thread, NULL);
	EXPECT_STREQ(strerror(0), strerror(self->prefetcher.error));
	rxe_close(&self->rig.end);
}

static void write_byte(struct __test_metadata *_metadata, FIXTURE_DATA(on_demand) *self, __u8 *to, __u8 value)
{
	struct ibv_sge sge = { (uintptr_t)self->local->addr, 1, self->local->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { (uintptr_t)to, self->mr->rkey },
	};
	struct ibv_wc wc;

	*(__u8 *)self->local->addr = value;
	ASSERT_EQ(0, ibv_post_send(self->pair[0].qp, &wr, &bad));
	ASSERT_TRUE(rxe_wait_wc(&self->rig.end, &wc, ANSWER_MS));
	ASSERT_STREQ("success", ibv_wc_status_str(wc.status));
}

/*
 * The prefetch looks at a page after the kernel was told that the page goes, and before it has gone.  Then it fails at
 * the last page.  A WRITE must not be stored to the page that has gone.
 */
TEST_F_TIMEOUT(on_demand, page_goes_beside_a_prefetch, PATIENCE)
{
	struct prefetcher *prefetcher = &self->prefetcher;
	const long long end = now_ms() + 4 * milliseconds;
	__u8 *byte = self->memory + ON_DEMAND - PAGE;
	unsigned int rounds;
	__u8 value;

	for (rounds = 0; now_ms() < end || prefetcher->times < PREFETCHED; rounds++) {
		ASSERT_FALSE(prefetcher->over);
		ASSERT_EQ(0, madvise(self->memory, ON_DEMAND, MADV_POPULATE_WRITE));
		ASSERT_EQ(0, madvise(self->memory, ON_DEMAND, MADV_DONTNEED));
		value = 1 + rounds % 255;
		write_byte(_metadata, self, byte, value);
		ASSERT_EQ(value, *byte);
	}
	TH_LOG("%u rounds, %u prefetches", rounds, prefetcher->times);
}

/* A region whose memory is pinned has nothing to prefetch, and no room for what a prefetch would change. */
TEST_F_TIMEOUT(on_demand, pinned_region_is_prefetched, PATIENCE)
{
	EXPECT_STREQ(strerror(EINVAL), strerror(prefetch(&self->rig.end, 0, self->local)));
	EXPECT_STREQ(strerror(EINVAL), strerror(prefetch(&self->rig.end, IB_UVERBS_ADVISE_MR_FLAG_FLUSH, self->local)));
}
