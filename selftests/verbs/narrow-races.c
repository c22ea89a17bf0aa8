// SPDX-License-Identifier: GPL-2.0
/*
 * Races that a few instructions of the kernel decide.  The module hold.c holds one task between these instructions;
 * meanwhile the case lets the other one act.
 *
 *	narrow-races [PATTERN...]	as root, with hold.ko loaded, where rxe's workers leave CPUs 0 to 2 alone
 *
 * If the kernel has a function to hold a task in under no name that is known here, the case is skipped.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "rxe_case_runner.h"
#include "rxe_send_ring.h"

#define PATIENCE	600	/* seconds: enough for an emulated debug kernel */
#define COME_MS		10000	/* for a task to come to where it is held */
#define WAIT_MS		2000	/* for the other one, if the kernel lets it */
#define END_MS		20000	/* for what was held to end */
#define PIECE		64
#define REFILL		3	/* WQEs */

static int open_parameter(const char *name, int flags)
{
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/hold/parameters/%s", name);
	fd = open(path, flags);
	if (fd < 0)
		err(1, "%s", path);
	return fd;
}

/* False: the kernel has no function of this name. */
static bool set_parameter(const char *name, const char *value)
{
	int fd = open_parameter(name, O_WRONLY);
	bool done = write(fd, value, strlen(value)) > 0;

	if (!done && errno != ENOENT)
		err(1, "%s: %s", name, value);
	close(fd);
	return done;
}

static char parameter(const char *name)
{
	int fd = open_parameter(name, O_RDONLY);
	char value;

	if (read(fd, &value, 1) != 1)
		err(1, "%s", name);
	close(fd);
	return value;
}

static bool comes_within(char state, unsigned int ms)
{
	const long long end = now_ms() + (long long)ms * wait_scale();

	while (parameter("held") != state)
		if (now_ms() >= end)
			return false;
	return true;
}

FIXTURE(held) {
	struct rxe_end end;
	struct ibv_mr *mr;
	struct rxe_qp pair[2];		/* the one that is asked, the one that asks */
	pthread_t posters[2];
	unsigned int num_posters;
	__u32 rkey;			/* what is written to or invalidated */
};

FIXTURE_SETUP(held)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;

	config.resources = 2;
	self->num_posters = 0;
	rxe_open(&self->end, false);
	self->mr = rxe_reg_mr(&self->end, 0, PAGE, ACCESS_DRAM);
	if (!self->mr)
		err(1, "a memory region");
	self->rkey = self->mr->rkey;
	rxe_make_pair(&self->end, &config, self->pair);
}

FIXTURE_TEARDOWN(held)
{
	while (self->num_posters)
		pthread_join(self->posters[--self->num_posters], NULL);
	rxe_close(&self->end);
}

/* From now on the next task that comes to this point is held. */
#define HOLD(point) do {						\
	if (!set_parameter("point", point))				\
		SKIP(return, "the kernel has no function to hold: " point);	\
} while (0)

/* One is held now. */
static void expect_held(struct __test_metadata *_metadata)
{
	ASSERT_TRUE(comes_within('1', COME_MS)) {
		TH_LOG("no task came to where it is to be held");
	}
}

/* It was held all the time, until now. */
static void let_go(struct __test_metadata *_metadata)
{
	EXPECT_EQ('1', parameter("held")) {
		TH_LOG("the task was let go too early");
	}
	set_parameter("release", "1");
	ASSERT_TRUE(comes_within('2', COME_MS));
}

static void *post_write(void *arg)
{
	FIXTURE_DATA(held) *self = arg;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(self->pair[1].qp);
	const __u64 start = (__u64)self->mr->addr;

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(qpx, self->rkey, start);
	ibv_wr_set_sge(qpx, self->mr->lkey, start + PIECE, PIECE);
	if (ibv_wr_complete(qpx))
		errx(1, "posting a WRITE");
	return NULL;
}

/* In a thread of its own, for some kernels let the thread that posts do all the work, which may be held. */
static void start_posting(FIXTURE_DATA(held) *self, void *(*post)(void *self))
{
	errno = pthread_create(&self->posters[self->num_posters++], NULL, post, self);
	if (errno)
		err(1, "a thread");
}

/* How the next request of the QP completes. */
static enum ibv_wc_status completion_of(struct __test_metadata *_metadata, FIXTURE_DATA(held) *self, struct rxe_qp *qp)
{
	struct ibv_wc wc;

	do {
		ASSERT_TRUE(rxe_wait_wc(&self->end, &wc, END_MS)) {
			TH_LOG("no completion comes");
		}
	} while (wc.qp_num != qp->qp->qp_num);
	return wc.status;
}

/* A call by which a function ends is one of its caller. */
#define THE_RECEIVER " rxe_resp_queue_pkt rxe_rcv rxe_loopback rxe_xmit_packet"

/*
 * The receiver has queued a packet for the QP, and is to schedule the task.  The QP goes to the error state, in which
 * the task drops the packet and with it the reference, and is destroyed.
 */
TEST_F_TIMEOUT(held, qp_destroyed_amid_the_receiver, PATIENCE)
{
	struct rxe_destroy destroy = { .qp = self->pair[0].qp };

	/* 6.1 lets the receiver do what the task does. */
	if (!set_parameter("point", "at rxe_do_task" THE_RECEIVER))
		HOLD("at rxe_sched_task" THE_RECEIVER);
	start_posting(self, post_write);
	expect_held(_metadata);
	rxe_modify_qp(&self->pair[0], IBV_QPS_ERR);
	EXPECT_FALSE(rxe_destroys_within(&destroy, WAIT_MS)) {
		TH_LOG("ibv_destroy_qp() has returned while the receiver uses the QP");
	}
	let_go(_metadata);
	rxe_destroyed(&destroy);
}

/* A call of ibv_modify_qp(), in a thread of its own. */
struct modifier {
	pthread_t thread;
	struct ibv_qp *qp;
	atomic_int error;	/* -1: not known yet */
};

static void *modify_depth(void *arg)
{
	struct ibv_qp_attr attr = { .max_dest_rd_atomic = 4 };
	struct modifier *modifier = arg;

	modifier->error = ibv_modify_qp(modifier->qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC);
	return NULL;
}

static void *reset(void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	struct modifier *modifier = arg;

	modifier->error = ibv_modify_qp(modifier->qp, &attr, IBV_QP_STATE);
	return NULL;
}

static void start_modifying(struct modifier *modifier, struct rxe_qp *qp, void *(*modify)(void *modifier))
{
	modifier->qp = qp->qp;
	modifier->error = -1;
	errno = pthread_create(&modifier->thread, NULL, modify, modifier);
	if (errno)
		err(1, "a thread");
}

static bool modifies_within(const struct modifier *modifier, unsigned int ms)
{
	const long long end = now_ms() + (long long)ms * wait_scale();

	while (modifier->error == -1)
		if (now_ms() >= end)
			return false;
	return true;
}

static void end_modifying(struct __test_metadata *_metadata, struct modifier *modifier)
{
	pthread_join(modifier->thread, NULL);
	EXPECT_EQ(0, modifier->error);
}

/* modify_qp is to enable the responder again, when the only packet comes. */
TEST_F_TIMEOUT(held, packet_amid_a_modification, PATIENCE)
{
	unsigned long long sent = rxe_counter("sent_pkts");
	struct modifier modifier;
	struct ibv_wc wc;
	bool came;

	rxe_modify_qp(&self->pair[0], IBV_QPS_SQD);
	HOLD("at rxe_enable_task rxe_qp_from_attr rxe_modify_qp");
	start_modifying(&modifier, &self->pair[0], modify_depth);
	expect_held(_metadata);
	start_posting(self, post_write);
	ASSERT_EQ(sent + 1, rxe_wait_counter("sent_pkts", sent + 1, COME_MS));
	let_go(_metadata);
	end_modifying(_metadata, &modifier);
	came = rxe_wait_wc(&self->end, &wc, WAIT_MS);
	EXPECT_TRUE(came) {
		TH_LOG("the request is never answered");
		/* Otherwise the QP can't be destroyed. */
		rxe_modify_qp(&self->pair[0], IBV_QPS_ERR);
	}
	if (came)
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
}

/* One thread is to free the responder resources when another one modifies the QP, too. */
TEST_F_TIMEOUT(held, two_modifications, PATIENCE)
{
	struct modifier first, second;

	rxe_modify_qp(&self->pair[0], IBV_QPS_SQD);
	HOLD("at kfree free_rd_atomic_resources rxe_qp_from_attr");
	start_modifying(&first, &self->pair[0], modify_depth);
	expect_held(_metadata);
	start_modifying(&second, &self->pair[0], modify_depth);
	EXPECT_FALSE(modifies_within(&second, WAIT_MS)) {
		TH_LOG("ibv_modify_qp() has returned amid another one");
	}
	let_go(_metadata);
	end_modifying(_metadata, &first);
	end_modifying(_metadata, &second);
}

/* By the next key; it completes before this returns. */
static bool is_bound(FIXTURE_DATA(held) *self, struct ibv_mw *mw)
{
	return rxe_try_bind_mw(&self->end, &self->pair[0], mw, self->mr, (__u64)self->mr->addr, PAGE, ACCESS_WINDOW);
}

static void *post_send_with_inv(void *arg)
{
	FIXTURE_DATA(held) *self = arg;
	struct ibv_sge sge = { (__u64)self->mr->addr, PIECE, self->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = self->rkey, .sg_list = &sge, .num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
	}, *bad_wr;

	errno = ibv_post_send(self->pair[1].qp, &wr, &bad_wr);
	if (errno)
		err(1, "posting a SEND with Invalidate");
	return NULL;
}

/*
 * The peer's invalidation by a key has found the window when its owner invalidates it himself and binds it by another
 * key.
 */
TEST_F_TIMEOUT(held, window_bound_amid_an_invalidation, PATIENCE)
{
	struct ibv_mw *mw = rxe_bind_mw(&self->end, &self->pair[0], self->mr, 2, (__u64)self->mr->addr, PAGE,
					ACCESS_WINDOW);

	self->rkey = mw->rkey;
	rxe_post_recv(&self->pair[0], self->mr, (__u64)self->mr->addr + PIECE, PIECE);
	HOLD("at _raw_spin_lock_bh rxe_invalidate_mw");
	start_posting(self, post_send_with_inv);
	expect_held(_metadata);
	rxe_local_invalidate(&self->end, &self->pair[0], self->rkey);
	ASSERT_TRUE(is_bound(self, mw));
	let_go(_metadata);
	/* The receive fails, and the QP with it.  A window that is bound still holds its region. */
	EXPECT_NE(IBV_WC_SUCCESS, completion_of(_metadata, self, &self->pair[0]));
	EXPECT_NE(0, ibv_dereg_mr(self->mr)) {
		TH_LOG("the old key has invalidated the window, which has a new one");
	}
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

/* ibv_dereg_mr() has seen that no window is bound to the region when one is bound. */
TEST_F_TIMEOUT(held, window_bound_amid_a_deregistration, PATIENCE)
{
	struct ibv_mw *mw = rxe_alloc_mw(&self->end, 2);
	struct rxe_destroy destroy = { .mr = self->mr };
	bool bound;

	HOLD("at __rxe_cleanup rxe_dereg_mr");
	ASSERT_FALSE(rxe_destroys_within(&destroy, 0));
	expect_held(_metadata);
	bound = is_bound(self, mw);
	let_go(_metadata);
	EXPECT_TRUE(rxe_ends_within(&destroy, WAIT_MS)) {
		TH_LOG("ibv_dereg_mr() waits for the window, whose bind %s", bound ? "succeeded" : "failed");
	}
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
	rxe_destroyed(&destroy);
}

static void *post_local_inv(void *arg)
{
	FIXTURE_DATA(held) *self = arg;
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(self->pair[0].qp);

	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_local_inv(qpx, self->rkey);
	if (ibv_wr_complete(qpx))
		errx(1, "posting an invalidation");
	return NULL;
}

/*
 * A request has found the window, and is to take a reference when the window is deallocated.  The request is a local
 * one, because a packet would first look up its QP.
 */
TEST_F_TIMEOUT(held, window_deallocated_amid_its_lookup, PATIENCE)
{
	struct ibv_mw *mw = rxe_bind_mw(&self->end, &self->pair[0], self->mr, 2, (__u64)self->mr->addr, PAGE,
					ACCESS_WINDOW);
	struct rxe_destroy dealloc = { .mw = mw };

	self->rkey = mw->rkey;
	HOLD("after xa_load rxe_pool_get_index rxe_invalidate_mw");
	start_posting(self, post_local_inv);
	expect_held(_metadata);
	/* It may wait for the lookup. */
	rxe_destroys_within(&dealloc, WAIT_MS);
	let_go(_metadata);
	rxe_destroyed(&dealloc);
	EXPECT_EQ('N', parameter("freed")) {
		TH_LOG("the kernel has freed the window while it was looked up");
	}
	EXPECT_NE(IBV_WC_SUCCESS, completion_of(_metadata, self, &self->pair[0]));
}

/*
 * A peer's WRITE by the key of a window has passed all checks, and is to be stored, when the owner invalidates the window.
 * What is in the memory once the invalidation has completed is the owner's.
 */
TEST_F_TIMEOUT(held, window_invalidated_amid_a_write, PATIENCE)
{
	struct ibv_mw *mw = rxe_bind_mw(&self->end, &self->pair[0], self->mr, 2, (__u64)self->mr->addr, PAGE,
					ACCESS_WINDOW);
	unsigned int completed;
	struct ibv_wc wc;

	self->rkey = mw->rkey;
	HOLD("at rxe_mr_copy write_data_in execute rxe_receiver rxe_responder");
	start_posting(self, post_write);
	expect_held(_metadata);
	start_posting(self, post_local_inv);
	completed = rxe_wait_wc(&self->end, &wc, WAIT_MS);
	EXPECT_EQ(0, completed) {
		TH_LOG("the invalidation has completed, but the WRITE is still to be stored");
	}
	let_go(_metadata);
	for (; completed < 2; completed++) {
		ASSERT_TRUE(rxe_wait_wc(&self->end, &wc, END_MS)) {
			TH_LOG("no completion comes");
		}
		EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	}
	EXPECT_EQ(0, ibv_dealloc_mw(mw));
}

/*
 * A user who is fast enough refills the ring while the kernel flushes it, with a lock held and interrupts off.  A reset
 * waits for the lock, and drops what is in the ring then: what came after the flush had begun.
 */
TEST_F_TIMEOUT(held, ring_refilled_amid_its_flush, PATIENCE)
{
	unsigned int i, flushed = 0;
	struct modifier modifier;
	struct send_ring ring;
	struct ibv_wc wc;

	send_ring_open(&ring);
	rxe_modify_qp(&self->pair[1], IBV_QPS_ERR);
	HOLD("at rxe_cq_post do_complete flush_send_wqe rxe_completer");
	start_posting(self, post_write);
	expect_held(_metadata);
	for (i = 1; i <= REFILL; i++)
		*send_ring_slot(&ring, i) = (struct rxe_send_wqe) { .wr.wr_id = i };
	ring.queue->producer_index += REFILL;
	start_modifying(&modifier, &self->pair[1], reset);
	EXPECT_FALSE(modifies_within(&modifier, WAIT_MS)) {
		TH_LOG("ibv_modify_qp() has returned amid a flush");
	}
	let_go(_metadata);
	end_modifying(_metadata, &modifier);
	while (rxe_wait_wc(&self->end, &wc, 0))
		flushed++;
	EXPECT_EQ(1, flushed) {
		TH_LOG("the flush goes on with what came after it had begun");
	}
}

/*
 * The case has CPU 0, and each thread that it starts CPU 1 or 2: what is held or spins there, with interrupts off, does not
 * keep the case from running.
 */
static void place_threads(void)
{
	cpu_set_t own, others;
	pthread_attr_t attr;

	CPU_ZERO(&own);
	CPU_SET(0, &own);
	if (sched_setaffinity(0, sizeof(own), &own))
		err(1, "sched_setaffinity");
	CPU_ZERO(&others);
	CPU_SET(1, &others);
	CPU_SET(2, &others);
	if (pthread_attr_init(&attr) || pthread_attr_setaffinity_np(&attr, sizeof(others), &others) ||
	    pthread_setattr_default_np(&attr))
		errx(1, "the threads cannot be placed on CPUs");
}

int main(int argc __attribute__((unused)), char **argv)
{
	struct selection selection = { .patterns = argv + 1 };

	place_threads();
	run_cases(selection);
}
