// SPDX-License-Identifier: GPL-2.0
/*
 * A program that needs no rights changes its QP, or destroys it, while it is in use.
 *
 * It changes how many responder resources the QP has (max_dest_rd_atomic, in SQD) while requests come to it: from
 * another QP of the same device, which are handled by the very call that posts them, and from the wire, which are
 * handled in softirq context.  Each request is executed once and as it was asked for, or it fails in a way that is
 * documented, and the kernel stays sound.
 *
 * It destroys a QP that is binding windows.  That waits for nothing, and the windows can be deallocated.  It lets two
 * QPs bind one window by the same key: one of them can.  It can't take rights from a region whose window has them.
 *
 * It resizes a queue that is in use, in one thread, while another asks for what depends on its size.  Nothing is lost,
 * and nothing comes twice.
 *
 * It has CQs created whose response can't be written: their memory is freed.
 *
 * It asks for an attribute that the state of the QP does not allow, without a new state, and gets EINVAL.
 *
 * It resets a QP that is refusing a request: the QP stays in RESET.
 *
 * It lets a QP fail amid a request, also while another thread posts, and sends more than a receive has room for.
 *
 * It moves a QP to the error state while another thread modifies it and a peer floods it.  A host that repeats one
 * captured request does not fill the memory of the kernel, and wrong calls do not fill its log.
 *
 * It sends a datagram from the link-local GID, which the device also has if IPv6 is disabled.
 *
 * It has QPs join and leave multicast groups, also while another QP, the last one in the group, leaves.
 *
 * It gives pages of an on-demand region back while a prefetch of the region fails.
 *
 *	hostile-qps [--milliseconds N] [PATTERN...]
 *
 *	--milliseconds	how long each case goes on, at least; 500 without it
 *	PATTERN		only cases whose names match, as in rxe_mpe_conformance
 *
 * Root makes the link, as in rxe_mpe_conformance; then each case goes on as nobody.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <grp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "advise-mr.h"
#include "change-access.h"
#include "rxe_mpe_case_runner.h"
#include "rxe_mpe_responder.h"

#define NOBODY		65534
#define PATIENCE	1800	/* seconds: enough for an emulated debug kernel */
#define BATCH		16	/* requests posted at once, as many as the depth allows */
#define LONG_READ	3000	/* bytes: three packets */

/* The depth has to change so often while requests are in flight; otherwise nothing is shown. */
#define LEAST		50

/*
 * What is where in the region.  What a batch stores to, the next one reads; so it does not matter how often a READ
 * is executed.  A long READ goes from the first bank, or ends with the second, and has no counter in it.
 */
#define BANK_WORDS	8
#define SECOND_BANK	3072
#define COUNTERS	3600

static unsigned int milliseconds = 500;

static void stay_on_cpu(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (pthread_setaffinity_np(pthread_self(), sizeof(cpus), &cpus))
		errx(1, "no CPU %d: a race wants two", cpu);
}

static void become_nobody(void)
{
	if (setgroups(0, NULL) || setgid(NOBODY) || setuid(NOBODY))
		err(1, "becoming nobody");
}

/* CPU 0 receives what the peer sends.  A case that runs beside that stays on CPU 1. */
static void open_as_nobody(struct rig *rig, int cpu)
{
	become_nobody();
	stay_on_cpu(cpu);
	rig_open(rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
}

/* A fixture that has a rig and nothing more. */
#define NOBODY_FIXTURE(name)			\
	FIXTURE(name) { struct rig rig; };	\
	FIXTURE_SETUP(name)			\
	{					\
		open_as_nobody(&self->rig, 0);	\
	}					\
	FIXTURE_TEARDOWN(name)			\
	{					\
		rxe_close(&self->rig.end);	\
	}

/* ---- The thread that modifies ---- */

struct modifier {
	pthread_t thread;
	struct ibv_qp *qp;
	unsigned int depth[2];		/* taken in turn; after 0 the QP may be in error */
	atomic_bool stop;
	atomic_uint times;
	atomic_int error;
};

static void *modify_depth(void *arg)
{
	struct modifier *modifier = arg;
	struct ibv_qp_attr attr = { };
	unsigned int i;
	int error = 0;

	stay_on_cpu(1);
	for (i = 0; !modifier->stop && !error; i++) {
		attr.max_dest_rd_atomic = modifier->depth[i % 2];
		error = ibv_modify_qp(modifier->qp, &attr, IBV_QP_MAX_DEST_RD_ATOMIC);
		modifier->times++;
	}
	if (error != EINVAL || modifier->depth[0])
		modifier->error = error;
	return NULL;
}

static void start_modifying(struct modifier *modifier, struct rxe_qp *qp)
{
	rxe_modify_qp(qp, IBV_QPS_SQD);
	modifier->qp = qp->qp;
	modifier->stop = false;
	if (pthread_create(&modifier->thread, NULL, modify_depth, modifier))
		errx(1, "no thread");
}

static void stop_modifying(struct __test_metadata *_metadata, struct modifier *modifier)
{
	modifier->stop = true;
	pthread_join(modifier->thread, NULL);
	EXPECT_EQ(0, modifier->error) {
		TH_LOG("modifying: %s", strerror(modifier->error));
	}
}

/* How a case has gone on so far; it ends when the time is over and enough has been seen. */
struct course {
	long long end;
	unsigned int rounds;
	unsigned int met;		/* rounds in which the depth was changed */
	unsigned int before;		/* times it was changed until the round began */
};

static bool next_round(struct course *course, struct modifier *modifier)
{
	if (!course->end)
		course->end = now_ms() + milliseconds;
	if (modifier->error || (course->met >= LEAST && now_ms() >= course->end))
		return false;
	course->before = modifier->times;
	return true;
}

static void end_round(struct course *course, struct modifier *modifier)
{
	course->rounds++;
	course->met += modifier->times != course->before;
}

static void show_course(struct __test_metadata *_metadata, const struct course *course,
			const struct modifier *modifier)
{
	TH_LOG("%u rounds; the depth was changed %u times, in %u of the rounds", course->rounds,
	       modifier->times, course->met);
	EXPECT_GE(modifier->times, LEAST);
}

/* ---- Requests of a QP of the same device ---- */

FIXTURE(loopback) {
	struct rig rig;
	struct modifier modifier;
	struct ibv_mr *local;		/* of the last page: what is read comes here */
	struct rxe_qp pair[2];		/* the one that is modified, the one that asks */
	unsigned int bank;
	unsigned int successes, failures;
	__u64 expected[BATCH];		/* what Atomics find */
};

FIXTURE_VARIANT(loopback) {
	/*
	 * What is posted: W ATOMIC WRITE, R READ of a bank, L long READ, A FETCH ADD, C CMP SWAP, F FLUSH.  One L at
	 * most.
	 */
	const char *batch;
	unsigned int depth[2];
	/* A request may fail so, because there was no resource at all. */
	enum ibv_wc_status no_resource;
};

#define DEPTHS(one, other)	.depth = { one, other }

FIXTURE_VARIANT_ADD(loopback, atomic_write) { .batch = "WWWWWWWW", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, read) { .batch = "RRRRRRRR", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, long_read) { .batch = "LW", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, fetch_add) { .batch = "AAAAAAAA", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, cmp_swap) { .batch = "CCCCCCCC", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, flush) { .batch = "FFFFFFFF", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, mixed) { .batch = "WRAFLCWFWWARCFWR", DEPTHS(1, 128) };
FIXTURE_VARIANT_ADD(loopback, mixed_and_no_resources) {
	.batch = "WRAFLCWF", DEPTHS(0, 128), .no_resource = IBV_WC_REM_INV_REQ_ERR,
};

/*
 * What is not answered is sent again, for a while: a READ whose resource went while it was answered.  Then it may
 * fail: a duplicate is answered only as long as its resource is kept.
 */
static void make_pair(struct rxe_end *end, struct rxe_qp pair[2])
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	unsigned int scale;

	config.timeout = 17;	/* half a second */
	for (scale = wait_scale(); scale > 1; scale /= 2)
		config.timeout++;
	config.retries = 2;
	rxe_make_pair(end, &config, pair);
}

FIXTURE_SETUP(loopback)
{
	self->modifier = (struct modifier) { .depth = { variant->depth[0], variant->depth[1] } };
	self->bank = self->successes = self->failures = 0;
	open_as_nobody(&self->rig, 0);
	self->local = rxe_reg_mr(&self->rig.end, MEMORY_LEN - PAGE, PAGE, IBV_ACCESS_LOCAL_WRITE);
	if (!self->local)
		err(1, "a memory region");
	make_pair(&self->rig.end, self->pair);
	start_modifying(&self->modifier, &self->pair[0]);
}

FIXTURE_TEARDOWN(loopback)
{
	rxe_close(&self->rig.end);
}

static __u64 bank_va(struct rig *rig, unsigned int bank)
{
	return rig->start + bank * SECOND_BANK;
}

/* The long READ that holds the bank. */
static __u64 long_va(struct rig *rig, unsigned int bank)
{
	return rig->start + bank * (SECOND_BANK + BANK_WORDS * 8 - LONG_READ);
}

/* Where the answer to the n-th request of a batch comes. */
static __u8 *place_of(FIXTURE_DATA(loopback) *self, unsigned int n, char kind)
{
	return (__u8 *)self->local->addr + (kind == 'L' ? PAGE - LONG_READ : n * 64);
}

static void post_one(FIXTURE_DATA(loopback) *self, unsigned int n, char kind)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(self->pair[1].qp);
	static __u64 value = 0x0101010100000000;
	struct rig *rig = &self->rig;
	__u32 rkey = rig->mr->rkey, len = 8;
	__u64 va = rig->start + COUNTERS;

	value++;
	memcpy(&self->expected[n], model_at(rig, va), 8);
	switch (kind) {
	case 'W':
		va = bank_va(rig, self->bank) + n % BANK_WORDS * 8;
		memcpy(model_at(rig, va), &value, 8);
		ibv_wr_atomic_write(qpx, rkey, va, &value);
		return;
	case 'F':
		ibv_wr_flush(qpx, rkey, rig->start, REGION_LEN, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		return;
	case 'A':
		value += self->expected[n];
		memcpy(model_at(rig, va), &value, 8);
		ibv_wr_atomic_fetch_add(qpx, rkey, va, value - self->expected[n]);
		break;
	case 'C':
		memcpy(model_at(rig, va), &value, 8);
		ibv_wr_atomic_cmp_swp(qpx, rkey, va, self->expected[n], value);
		break;
	case 'R':
		len = BANK_WORDS * 8;
		ibv_wr_rdma_read(qpx, rkey, bank_va(rig, !self->bank));
		break;
	default:
		len = LONG_READ;
		ibv_wr_rdma_read(qpx, rkey, long_va(rig, !self->bank));
	}
	memset(place_of(self, n, kind), 0xee, len);
	ibv_wr_set_sge(qpx, self->local->lkey, (uintptr_t)place_of(self, n, kind), len);
}

static void post_batch(struct __test_metadata *_metadata, FIXTURE_DATA(loopback) *self,
		       const char *batch)
{
	struct ibv_qp_ex *qpx = ibv_qp_to_qp_ex(self->pair[1].qp);
	unsigned int n;

	self->bank = !self->bank;
	ibv_wr_start(qpx);
	qpx->wr_flags = IBV_SEND_SIGNALED;
	for (n = 0; batch[n]; n++) {
		qpx->wr_id = n;
		post_one(self, n, batch[n]);
	}
	ASSERT_EQ(0, ibv_wr_complete(qpx));
}

/* The n-th request has succeeded: what it brought back is what the model says. */
static void check_result(struct __test_metadata *_metadata, FIXTURE_DATA(loopback) *self,
			 unsigned int n, char kind)
{
	const __u8 *place = place_of(self, n, kind);
	struct rig *rig = &self->rig;

	switch (kind) {
	case 'A':
	case 'C':
		ASSERT_EQ(0, memcmp(&self->expected[n], place, 8)) {
			TH_LOG("request %u of the batch (%c) found another value", n, kind);
		}
		break;
	case 'R':
		ASSERT_EQ(0, memcmp(model_at(rig, bank_va(rig, !self->bank)), place, BANK_WORDS * 8)) {
			TH_LOG("request %u of the batch (READ) brought other bytes", n);
		}
		break;
	case 'L':
		ASSERT_EQ(0, memcmp(model_at(rig, long_va(rig, !self->bank)), place, LONG_READ)) {
			TH_LOG("request %u of the batch (long READ) brought other bytes", n);
		}
		break;
	}
}

/* False: the QP is in error now, by a request that may fail so; all after it were flushed. */
static bool complete_batch(struct __test_metadata *_metadata, FIXTURE_DATA(loopback) *self,
			   const char *batch, enum ibv_wc_status no_resource)
{
	bool failed = false;
	struct ibv_wc wc;
	unsigned int n;

	for (n = 0; batch[n]; n++) {
		ASSERT_TRUE(rxe_wait_wc(&self->rig.end, &wc, ANSWER_MS)) {
			TH_LOG("request %u of the batch (%c) never completes", n, batch[n]);
		}
		ASSERT_EQ(n, wc.wr_id);
		if (failed) {
			ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, wc.status);
		} else if (wc.status == IBV_WC_SUCCESS) {
			check_result(_metadata, self, n, batch[n]);
			self->successes++;
		} else {
			ASSERT_TRUE(wc.status == IBV_WC_RETRY_EXC_ERR ||
				    (no_resource && wc.status == no_resource)) {
				TH_LOG("request %u of the batch (%c) completed with: %s", n, batch[n],
				       ibv_wc_status_str(wc.status));
			}
			failed = true;
			self->failures++;
		}
	}
	return !failed;
}

static void check_region(struct __test_metadata *_metadata, struct rig *rig)
{
	ASSERT_EQ(0, memcmp(model_at(rig, rig->start), (void *)(uintptr_t)rig->start, REGION_LEN)) {
		TH_LOG("the region differs from the model");
	}
}

/* Some requests of the last batch were executed, and some were not. */
static void begin_anew(struct __test_metadata *_metadata, FIXTURE_DATA(loopback) *self)
{
	struct rig *rig = &self->rig;
	int i;

	stop_modifying(_metadata, &self->modifier);
	for (i = 0; i < 2; i++)
		ASSERT_EQ(0, ibv_destroy_qp(self->pair[i].qp));
	memcpy(model_at(rig, rig->start), (void *)(uintptr_t)rig->start, REGION_LEN);
	make_pair(&rig->end, self->pair);
	start_modifying(&self->modifier, &self->pair[0]);
}

TEST_F_TIMEOUT(loopback, requests, PATIENCE)
{
	struct course course = { };

	while (next_round(&course, &self->modifier)) {
		post_batch(_metadata, self, variant->batch);
		if (complete_batch(_metadata, self, variant->batch, variant->no_resource))
			check_region(_metadata, &self->rig);
		else
			begin_anew(_metadata, self);
		end_round(&course, &self->modifier);
	}
	stop_modifying(_metadata, &self->modifier);
	show_course(_metadata, &course, &self->modifier);
	TH_LOG("%u requests succeeded, %u failed", self->successes, self->failures);
	EXPECT_GE(self->successes, LEAST);
	/* All that has a resource is served at once, so the time seldom runs out. */
	if (!variant->no_resource)
		EXPECT_LE(self->failures, course.rounds / 10);
}

/* ---- Requests from the wire ---- */

FIXTURE(wire) {
	struct rig rig;
	struct modifier modifier;
};

FIXTURE_SETUP(wire)
{
	open_as_nobody(&self->rig, 0);
	self->modifier = (struct modifier) { .depth = { 1, 128 } };
	start_modifying(&self->modifier, &self->rig.flow.qp);
}

FIXTURE_TEARDOWN(wire)
{
	rig_close(_metadata, &self->rig);
}

static struct packet request_of(struct rig *rig, unsigned int n)
{
	switch (n % 4) {
	case 0:
		return atomic_write(rig);
	case 1:
		return fetch_add(rig);
	case 2:
		return flush_range(rig);
	default:
		return read_only(rig);
	}
}

TEST_F_TIMEOUT(wire, requests, PATIENCE)
{
	struct course course = { };
	struct packet rq;

	while (next_round(&course, &self->modifier)) {
		rq = request_of(&self->rig, course.rounds);
		serve(_metadata, &self->rig, &rq);
		end_round(&course, &self->modifier);
	}
	stop_modifying(_metadata, &self->modifier);
	show_course(_metadata, &course, &self->modifier);
}

/* Is this frame @answer?  The MSN may have moved on. */
static bool is_answer(struct rig *rig, const struct frame *frame, const struct packet *answer)
{
	char want[WORDS_LEN], got[WORDS_LEN];
	struct packet packet, sent = *answer;

	if (frame_to_packet(frame, &packet) && packet.msn > sent.msn && packet.msn <= rig->flow.msn)
		sent.msn = packet.msn;
	return !strcmp(packet_in_words(&sent, want), words_or_nothing(frame, true, got)) &&
	       !memcmp(sent.payload, packet.payload, sent.payload_len);
}

/*
 * Each request comes twice.  The second is answered as the first was if the resource is still there, or is not; it is
 * never executed.
 */
TEST_F_TIMEOUT(wire, duplicates, PATIENCE)
{
	struct course course = { };
	struct rig *rig = &self->rig;
	struct packet rq, answer, last = { };
	unsigned int again = 0;
	char words[WORDS_LEN];
	struct frame frame;
	bool got;

	/* On a slow machine the depth may change between each request and its duplicate for long. */
	while (next_round(&course, &self->modifier) || (!again && !self->modifier.error)) {
		rq = request_of(rig, course.rounds);
		answer = ask(rig, &rig->flow, &rq);
		for (;;) {
			got = peer_recv_frame(&frame, ANSWER_MS);
			if (got && is_answer(rig, &frame, &answer))
				break;
			ASSERT_TRUE(got && is_answer(rig, &frame, &last)) {
				TH_LOG("neither the answer nor the last one again, but: %s",
				       words_or_nothing(&frame, got, words));
			}
			again++;
		}
		expect_memory(_metadata, rig);
		send_again(&rq);
		last = answer;
		end_round(&course, &self->modifier);
	}
	stop_modifying(_metadata, &self->modifier);
	show_course(_metadata, &course, &self->modifier);
	TH_LOG("%u of the duplicates were answered", again);
	/* What answers the last duplicate comes before what answers this one. */
	rq = read_only(rig);
	answer = ask(rig, &rig->flow, &rq);
	while (peer_recv_frame(&frame, ANSWER_MS) && !is_answer(rig, &frame, &answer))
		;
}

/* ---- A QP that binds windows when it is destroyed ---- */

#define WINDOWS		8
/*
 * So many are posted at once that the call which posts them leaves most to the tasklet.  Each is followed by an
 * invalidation, which waits for all before it, but the last ones.
 */
#define BINDS		8192
#define BINDS_PER_WC	32
#define MOST_ROUNDS	5000
#define HOPELESS_ROUNDS	200	/* none of them amid the binds: there will be none */
#define SOON_MS		10000	/* what is being done may come to its end before */

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
	ASSERT_EQ(0, ibv_destroy_qp(qp.qp));
	ASSERT_EQ(0, ibv_dealloc_mw(mw));
}

/* ---- Attributes without a state ---- */

NOBODY_FIXTURE(modified)

/* Not a timeout for a QP that has no timers, nor a PSN for one that is sending. */
TEST_F(modified, by_what_its_state_allows)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	struct ibv_qp_attr attr = { .timeout = 14, .min_rnr_timer = 14 };
	struct rxe_qp rc, uc;

	rxe_make_qp(&self->rig.end, &config, &rc);
	config.type = IBV_QPT_UC;
	rxe_make_qp(&self->rig.end, &config, &uc);
	EXPECT_EQ(EINVAL, ibv_modify_qp(uc.qp, &attr, IBV_QP_TIMEOUT));
	EXPECT_EQ(EINVAL, ibv_modify_qp(rc.qp, &attr, IBV_QP_SQ_PSN));
	EXPECT_EQ(0, ibv_modify_qp(rc.qp, &attr, IBV_QP_MIN_RNR_TIMER));
	ASSERT_EQ(0, ibv_destroy_qp(uc.qp));
	ASSERT_EQ(0, ibv_destroy_qp(rc.qp));
}

/* ---- A peer that sends without a pause ---- */

struct flood {
	pthread_t thread;
	struct packet rq;
	atomic_bool stop;
	atomic_uint sent;
};

static void *send_without_a_pause(void *arg)
{
	struct flood *flood = arg;

	stay_on_cpu(1);
	for (; !flood->stop; flood->sent++)
		send_again(&flood->rq);
	return NULL;
}

static void start_flood(struct flood *flood, struct packet rq)
{
	*flood = (struct flood) { .rq = rq };
	if (pthread_create(&flood->thread, NULL, send_without_a_pause, flood))
		errx(1, "no thread");
	while (flood->sent < LEAST)
		;
}

static void stop_flood(struct flood *flood)
{
	flood->stop = true;
	pthread_join(flood->thread, NULL);
}

/* Another thread may be in ibv_modify_qp() when the QP is moved to the error state: the peer keeps neither waiting. */
TEST_F_TIMEOUT(modified, to_an_error_amid_a_flood, PATIENCE)
{
	struct modifier modifier = { .depth = { 1, 128 } };
	struct rig *rig = &self->rig;
	struct packet rq = write_only(rig);
	struct flood flood;
	long long start;
	int i;

	for (i = 0; i < 10; i++) {
		flow_reopen(rig, &RXE_QP_DEFAULT);
		rq.qpn = rig->flow.qp.qp->qp_num;
		rq.psn = rig->flow.psn;
		start_flood(&flood, rq);
		start_modifying(&modifier, &rig->flow.qp);
		start = now_ms();
		while (now_ms() < start + 50)
			;
		start = now_ms();
		rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
		EXPECT_LT(now_ms() - start, ANSWER_MS * wait_scale()) {
			TH_LOG("it took %lld ms", now_ms() - start);
		}
		stop_flood(&flood);
		modifier.stop = true;
		pthread_join(modifier.thread, NULL);
		ASSERT_EQ(0, ibv_destroy_qp(rig->flow.qp.qp));
	}
	flow_reopen(rig, &RXE_QP_DEFAULT);
}

/* By root, for the link has to lose the answers: they would take the place of what the peer sends. */
FIXTURE(flooded) {
	struct rig rig;
};

FIXTURE_SETUP(flooded)
{
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
}

FIXTURE_TEARDOWN(flooded)
{
	peer_end_stall();
	rig_close(_metadata, &self->rig);
}

#define MEGABYTE	(1u << 20)
#define REPLAYS		(43 * milliseconds)	/* with --milliseconds 6000 as many as have filled 190 MiB */
#define MOST_KIB	(8 * 1024)

static long slab_kib(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	char line[100];
	long kib = -1;

	if (!file)
		err(1, "/proc/meminfo");
	while (fgets(line, sizeof(line), file) && sscanf(line, "SUnreclaim: %ld kB", &kib) != 1)
		;
	fclose(file);
	return kib;
}

/* Requests for READs of 1 MiB come faster than they can be answered, and are all the same one. */
TEST_F_TIMEOUT(flooded, by_replayed_reads, PATIENCE)
{
	struct rig *rig = &self->rig;
	void *memory = mmap(NULL, MEGABYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct packet rq = { .opcode = ROCE_RC_READ_REQUEST, .ack_req = true, .dmalen = MEGABYTE };
	long before, most = 0, now;
	struct frame frame;
	struct flood flood;
	struct ibv_mr *mr;

	ASSERT_NE(MAP_FAILED, memory);
	mr = ibv_reg_mr(rig->end.pd, memory, MEGABYTE, ACCESS_DRAM);
	ASSERT_NE(NULL, mr) {
		TH_LOG("registering 1 MiB: %m");
	}
	rq.va = (uintptr_t)memory;
	rq.rkey = mr->rkey;
	peer_lose_all();
	before = slab_kib();
	send_raw(&rig->flow, &rq);
	start_flood(&flood, rq);
	while (flood.sent < REPLAYS && most < 2 * MOST_KIB) {
		poll(NULL, 0, 20);
		now = slab_kib() - before;
		most = now > most ? now : most;
	}
	stop_flood(&flood);
	TH_LOG("%u requests, at most %ld KiB of the kernel's memory", flood.sent, most);
	EXPECT_LT(most, MOST_KIB);
	ASSERT_EQ(0, ibv_destroy_qp(rig->flow.qp.qp));
	peer_end_stall();
	/* What is left of the flood is not what the next request gets. */
	while (peer_recv_frame(&frame, 0))
		;
	flow_reopen(rig, &RXE_QP_DEFAULT);
	served(_metadata, rig, read_only(rig));
}

/* ---- The log of the kernel ---- */

FIXTURE(log) {
	struct rig rig;
	int kmsg;
};

FIXTURE_SETUP(log)
{
	self->kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK);
	if (self->kmsg < 0 || lseek(self->kmsg, 0, SEEK_END) < 0)
		err(1, "/dev/kmsg");
	open_as_nobody(&self->rig, 0);
}

FIXTURE_TEARDOWN(log)
{
	rxe_close(&self->rig.end);
}

/* What is wrong in each of these calls, only the driver finds out. */
static void call_wrongly(struct __test_metadata *_metadata, struct rig *rig, struct ibv_srq *srq, void *nothing)
{
	struct ibv_srq_init_attr init_attr = { .attr = { .max_wr = 0x7fffffff, .max_sge = 1 } };
	struct ibv_srq_attr attr = { .srq_limit = 0x7fffffff };

	ASSERT_EQ(NULL, ibv_reg_mr(rig->end.pd, nothing, PAGE, IBV_ACCESS_LOCAL_WRITE));
	ASSERT_EQ(NULL, ibv_create_srq(rig->end.pd, &init_attr));
	ASSERT_NE(0, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	ASSERT_EQ(MAP_FAILED, mmap(NULL, PAGE, PROT_READ, MAP_SHARED, rig->end.context->cmd_fd, 1l << 40));
}

TEST_F_TIMEOUT(log, stays_short, PATIENCE)
{
	struct ibv_srq_init_attr init_attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct rig *rig = &self->rig;
	int lines = 0, rounds;
	char record[8192];
	struct ibv_srq *srq = ibv_create_srq(rig->end.pd, &init_attr);
	void *nothing = mmap(NULL, PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ssize_t len;

	ASSERT_NE(NULL, srq);
	ASSERT_NE(MAP_FAILED, nothing);
	ASSERT_EQ(0, munmap(nothing, PAGE));
	for (rounds = 0; rounds < 1000; rounds++) {
		call_wrongly(_metadata, rig, srq, nothing);
		/* EPIPE: some are gone already */
		while ((len = read(self->kmsg, record, sizeof(record) - 1)) > 0 || errno == EPIPE) {
			record[len > 0 ? len : 0] = '\0';
			if (!lines++)
				TH_LOG("%s", record);
		}
	}
	/* A kernel may limit how often each message comes, or leave them out. */
	EXPECT_LT(lines, 200);
}

/* ---- A queue that is resized while it is in use ---- */

/* The ring has one slot more, and is as long as was asked for. */
static const int sizes[] = { 15, 255 };
#define BACKLOG		8	/* so many are in the queue all the time */

struct resizer {
	pthread_t thread;
	struct ibv_srq *srq;
	struct ibv_cq *cq;		/* if there is no @srq */
	atomic_bool stop;
	atomic_uint times;
	atomic_int error;
};

static void *resize(void *arg)
{
	struct resizer *resizer = arg;
	struct ibv_srq_attr attr = { };
	int error = 0, size;

	stay_on_cpu(1);
	while (!resizer->stop && !error) {
		size = sizes[resizer->times % ARRAY_SIZE(sizes)];
		attr.max_wr = size;
		/* The second call also lets the other thread have the lock that libibverbs has for the first. */
		if (resizer->srq)
			error = ibv_modify_srq(resizer->srq, &attr, IBV_SRQ_MAX_WR) ? :
				ibv_query_srq(resizer->srq, &attr);
		else
			error = ibv_resize_cq(resizer->cq, size) ? : ibv_req_notify_cq(resizer->cq, 0);
		resizer->times++;
	}
	resizer->error = error;
	return NULL;
}

FIXTURE(resized) {
	struct rig rig;
	struct rxe_qp_config config;
	struct rxe_qp pair[2];		/* the receiver, the sender */
	struct resizer resizer;
	long long end;
};

FIXTURE_SETUP(resized)
{
	open_as_nobody(&self->rig, 0);
	self->config = RXE_QP_DEFAULT;
	self->resizer = (struct resizer) { };
}

FIXTURE_TEARDOWN(resized)
{
	rxe_close(&self->rig.end);
}

static void start_resizing(FIXTURE_DATA(resized) *self)
{
	self->end = now_ms() + milliseconds;
	if (pthread_create(&self->resizer.thread, NULL, resize, &self->resizer))
		errx(1, "no thread");
}

static bool goes_on_resizing(FIXTURE_DATA(resized) *self, unsigned int rounds)
{
	return !self->resizer.error &&
	       (rounds < LEAST || self->resizer.times < LEAST || now_ms() < self->end);
}

static void stop_resizing(struct __test_metadata *_metadata, FIXTURE_DATA(resized) *self, unsigned int rounds)
{
	self->resizer.stop = true;
	pthread_join(self->resizer.thread, NULL);
	EXPECT_EQ(0, self->resizer.error) {
		TH_LOG("resizing: %s", strerror(self->resizer.error));
	}
	TH_LOG("%u rounds; the queue was resized %u times", rounds, self->resizer.times);
}

/* The n-th message has its number in it. */
static void post_number(struct __test_metadata *_metadata, FIXTURE_DATA(resized) *self, __u64 n, enum ibv_wr_opcode opcode)
{
	struct ibv_mr *mr = self->rig.mr;
	struct ibv_sge sge = { self->rig.start, sizeof(n), mr->lkey };
	struct ibv_send_wr wr = {
		.wr_id = n, .opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = self->rig.start + PAGE, .rkey = mr->rkey },
	}, *bad_wr;

	memcpy((void *)(uintptr_t)self->rig.start, &n, sizeof(n));
	ASSERT_EQ(0, ibv_post_send(self->pair[1].qp, &wr, &bad_wr));
}

/* Where the n-th receive is for. */
static __u64 place_of_receive(struct rig *rig, __u64 n)
{
	return rig->start + PAGE + n % (2 * BACKLOG) * sizeof(n);
}

static void post_shared(struct __test_metadata *_metadata, FIXTURE_DATA(resized) *self, __u64 n)
{
	struct ibv_sge sge = { place_of_receive(&self->rig, n), sizeof(n), self->rig.mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = n, .sg_list = &sge, .num_sge = 1 }, *bad_wr;

	ASSERT_EQ(0, ibv_post_srq_recv(self->resizer.srq, &wr, &bad_wr));
}

/* The n-th SEND comes in the n-th receive. */
static void send_number(struct __test_metadata *_metadata, FIXTURE_DATA(resized) *self, __u64 n)
{
	struct ibv_wc wc;
	__u64 got;
	int i;

	post_number(_metadata, self, n, IBV_WR_SEND);
	for (i = 0; i < 2; i++) {
		ASSERT_TRUE(rxe_wait_wc(&self->rig.end, &wc, ANSWER_MS));
		ASSERT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), ibv_wc_status_str(wc.status));
		ASSERT_EQ(n, wc.wr_id);
	}
	memcpy(&got, (void *)(uintptr_t)place_of_receive(&self->rig, n), sizeof(got));
	ASSERT_EQ(n, got);
}

TEST_F_TIMEOUT(resized, shared_receives, PATIENCE)
{
	struct ibv_srq_init_attr init_attr = { .attr = { .max_wr = sizes[0], .max_sge = 1 } };
	struct ibv_srq_attr attr = { };
	unsigned int limit;
	__u64 n;

	self->resizer.srq = ibv_create_srq(self->rig.end.pd, &init_attr);
	ASSERT_NE(NULL, self->resizer.srq);
	self->config.srq = self->resizer.srq;
	rxe_make_pair(&self->rig.end, &self->config, self->pair);
	for (n = 0; n < BACKLOG; n++)
		post_shared(_metadata, self, n);
	start_resizing(self);
	for (n = 0; goes_on_resizing(self, n); n++) {
		/* Always less than the backlog, which is never reached. */
		limit = 1 + n % 2;
		attr.srq_limit = limit;
		ASSERT_EQ(0, ibv_modify_srq(self->resizer.srq, &attr, IBV_SRQ_LIMIT));
		ASSERT_EQ(0, ibv_query_srq(self->resizer.srq, &attr));
		ASSERT_EQ(limit, attr.srq_limit);
		ASSERT_TRUE((int)attr.max_wr == sizes[0] || (int)attr.max_wr == sizes[1]) {
			TH_LOG("it has %u slots", attr.max_wr);
		}
		post_shared(_metadata, self, n + BACKLOG);
		send_number(_metadata, self, n);
	}
	stop_resizing(_metadata, self, n);
}

/* By a command to the kernel: libibverbs lets no two threads resize a CQ at once. */
static int try_resize(struct ibv_cq *cq, __u32 cqe)
{
	__u64 response[(sizeof(struct ib_uverbs_resize_cq_resp) + sizeof(struct rxe_resize_cq_resp)) / sizeof(__u64)];
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_resize_cq command;
	} request = {
		.hdr = { IB_USER_VERBS_CMD_RESIZE_CQ, sizeof(request) / 4, sizeof(response) / 4 },
		.command = { .response = (uintptr_t)response, .cq_handle = cq->handle, .cqe = cqe },
	};

	return write(cq->context->cmd_fd, &request, sizeof(request)) == sizeof(request) ? 0 : errno;
}

/* The CQ is armed, and tells of the n-th completion. */
static void complete_number(struct __test_metadata *_metadata, FIXTURE_DATA(resized) *self, __u64 n)
{
	struct pollfd poll_channel = { .fd = self->rig.end.channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	void *context;

	ASSERT_EQ(0, ibv_req_notify_cq(self->rig.end.cq, 0));
	post_number(_metadata, self, n, IBV_WR_RDMA_WRITE);
	ASSERT_EQ(1, poll(&poll_channel, 1, ANSWER_MS * wait_scale())) {
		TH_LOG("no event of completion %llu", n);
	}
	ASSERT_EQ(0, ibv_get_cq_event(self->rig.end.channel, &cq, &context));
	ibv_ack_cq_events(cq, 1);
}

TEST_F_TIMEOUT(resized, completions, PATIENCE)
{
	struct ibv_wc wc;
	__u64 n;

	self->resizer.cq = self->rig.end.cq;
	rxe_make_pair(&self->rig.end, &self->config, self->pair);
	for (n = 0; n < BACKLOG; n++)
		complete_number(_metadata, self, n);
	start_resizing(self);
	for (n = 0; goes_on_resizing(self, n); n++) {
		complete_number(_metadata, self, n + BACKLOG);
		/* It has more completions than that. */
		ASSERT_EQ(EINVAL, try_resize(self->rig.end.cq, BACKLOG / 2));
		ASSERT_EQ(1, ibv_poll_cq(self->rig.end.cq, 1, &wc));
		ASSERT_EQ(n, wc.wr_id);
		ASSERT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), ibv_wc_status_str(wc.status));
	}
	stop_resizing(_metadata, self, n);
}

/* ---- CQs that can't be created ---- */

#define FAILED_CQS	32
#define LARGEST_CQ	32767	/* its queue has 2 MiB */

/* The core's part of the response can be written, the driver's part, which is behind it, can't. */
static int try_create_cq(struct ibv_context *context, struct ib_uverbs_create_cq_resp *response)
{
	struct {
		struct ib_uverbs_cmd_hdr hdr;
		struct ib_uverbs_create_cq command;
	} request = {
		.hdr = {
			IB_USER_VERBS_CMD_CREATE_CQ, sizeof(request) / 4,
			(sizeof(*response) + sizeof(struct rxe_create_cq_resp)) / 4,
		},
		.command = { .response = (uintptr_t)response, .cqe = LARGEST_CQ, .comp_channel = -1 },
	};

	return write(context->cmd_fd, &request, sizeof(request)) == sizeof(request) ? 0 : errno;
}

/* What the kernel has of such memory as queues are made of. */
static long long vmalloc_kib(void)
{
	FILE *file = fopen("/proc/meminfo", "r");
	long long kib = -1;
	char line[128];

	while (file && kib < 0 && fgets(line, sizeof(line), file))
		sscanf(line, "VmallocUsed: %lld", &kib);
	if (kib < 0)
		errx(1, "/proc/meminfo does not tell VmallocUsed");
	fclose(file);
	return kib;
}

FIXTURE(failed) {
	struct rig rig;
	char *memory;
};

FIXTURE_SETUP(failed)
{
	open_as_nobody(&self->rig, 1);
	self->memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (self->memory == MAP_FAILED || mprotect(self->memory + PAGE, PAGE, PROT_NONE))
		err(1, "a page that can't be written");
}

FIXTURE_TEARDOWN(failed)
{
	munmap(self->memory, 2 * PAGE);
	rxe_close(&self->rig.end);
}

TEST_F_TIMEOUT(failed, cqs_leave_no_queue, PATIENCE)
{
	struct ib_uverbs_create_cq_resp *response = (void *)(self->memory + PAGE - sizeof(*response));
	const long long before = vmalloc_kib();
	int i;

	for (i = 0; i < FAILED_CQS; i++)
		ASSERT_EQ(EFAULT, try_create_cq(self->rig.end.context, response));
	/* Half of one queue for each: there are other users of this memory. */
	EXPECT_GT(before + FAILED_CQS * 1024, vmalloc_kib());
}

/* ---- A QP that is reset while it refuses a request ---- */

FIXTURE(refusing) {
	struct rig rig;
	struct flow pulse;
};

FIXTURE_SETUP(refusing)
{
	open_as_nobody(&self->rig, 1);
	flow_open(&self->rig, &self->pulse, &RXE_QP_DEFAULT);
}

FIXTURE_TEARDOWN(refusing)
{
	rxe_close(&self->rig.end);
}

/* Was the last request of the main flow refused?  A NAK comes before the answer to what was sent after it. */
static bool was_refused(struct __test_metadata *_metadata, FIXTURE_DATA(refusing) *self)
{
	struct packet rq = read_only(&self->rig), packet;
	bool refused = false;
	struct frame frame;

	ask(&self->rig, &self->pulse, &rq);
	for (;;) {
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS));
		ASSERT_TRUE(frame_to_packet(&frame, &packet));
		if (packet.qpn == self->pulse.qp.peer_qpn)
			return refused;
		ASSERT_TRUE(is_nak(&packet, ROCE_AETH_NAK_ACCESS));
		refused = true;
	}
}

/* RESET comes earlier or later each time, so that it meets the refusal. */
TEST_F_TIMEOUT(refusing, reset, PATIENCE)
{
	const long long end = now_ms() + milliseconds;
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	unsigned int rounds, refused = 0;
	struct rig *rig = &self->rig;
	volatile unsigned int spin;
	unsigned int delay = 0;
	struct packet rq;

	config.state = IBV_QPS_RESET;
	for (rounds = 0; rounds < MOST_ROUNDS &&
	     (refused < LEAST || rounds - refused < LEAST || now_ms() < end); rounds++) {
		rq = write_only(rig);
		rq.rkey ^= 1;
		send_raw(&rig->flow, &rq);
		for (spin = 0; spin < delay; spin++)
			;
		rxe_modify_qp(&rig->flow.qp, IBV_QPS_RESET);
		if (was_refused(_metadata, self)) {
			refused++;
			delay -= delay / 8 + !!delay;
		} else {
			delay += delay / 8 + 8;
		}
		ASSERT_EQ(IBV_QPS_RESET, rxe_qp_state(&rig->flow.qp)) {
			TH_LOG("in round %u", rounds);
		}
		rxe_finish_qp(&rig->end, &config, &rig->flow.qp);
	}
	TH_LOG("%u times reset, %u times when the request was refused", rounds, refused);
	EXPECT_GE(refused, LEAST);
	EXPECT_GE(rounds - refused, LEAST);
}

/* ---- A QP that is destroyed when its last receive has completed ---- */

FIXTURE(leaving) {
	struct rig rig;
};

FIXTURE_SETUP(leaving)
{
	open_as_nobody(&self->rig, 1);
}

FIXTURE_TEARDOWN(leaving)
{
	rxe_close(&self->rig.end);
}

/* A message whose completion was seen was received: its sender is told so. */
TEST_F_TIMEOUT(leaving, acknowledges_what_it_has_received, PATIENCE)
{
	const long long end = now_ms() + milliseconds;
	struct rig *rig = &self->rig;
	struct packet rq, answer;
	unsigned int rounds;
	struct frame frame;
	struct ibv_wc wc;

	for (rounds = 0; rounds < MOST_ROUNDS && (rounds < LEAST || now_ms() < end); rounds++) {
		flow_reopen(rig, &RXE_QP_DEFAULT);
		rq = write_part(rig, ROCE_RC_SEND_ONLY, 0, 32);
		rxe_post_recv(&rig->flow.qp, rig->mr, rq.va, 32);
		send_raw(&rig->flow, &rq);
		while (!ibv_poll_cq(rig->end.cq, 1, &wc))
			;
		ASSERT_EQ(0, ibv_destroy_qp(rig->flow.qp.qp));
		ASSERT_STREQ(ibv_wc_status_str(IBV_WC_SUCCESS), ibv_wc_status_str(wc.status));
		ASSERT_TRUE(peer_recv_frame(&frame, ANSWER_MS)) {
			TH_LOG("not acknowledged in round %u", rounds);
		}
		ASSERT_TRUE(frame_to_packet(&frame, &answer));
		ASSERT_EQ(ROCE_RC_ACK, answer.opcode);
		ASSERT_EQ(ROCE_AETH_ACK, answer.syndrome & ROCE_AETH_KIND_MASK);
	}
	TH_LOG("%u rounds", rounds);
}

/* ---- A QP that fails amid a request ---- */

FIXTURE(failing) {
	struct rig rig;
	struct rxe_qp_config config;
};

FIXTURE_SETUP(failing)
{
	become_nobody();
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	self->config = RXE_QP_DEFAULT;
}

FIXTURE_TEARDOWN(failing)
{
	rxe_close(&self->rig.end);
}

/* The completion of a RDMA WRITE with immediate finds the CQ full. */
TEST_F_TIMEOUT(failing, leaves_its_region, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_mr *local = rig->mr;
	struct ibv_sge sge = { rig->start, 8, local->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .sg_list = &sge, .num_sge = 1,
	}, *bad_wr;
	struct rxe_destroy dereg = {};
	struct rxe_qp pair[2];
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct ibv_mr *mr;
	long long start;
	int i;

	mr = rxe_reg_mr(&rig->end, REGION_OFFSET, REGION_LEN, ACCESS_DRAM);
	ASSERT_NE(NULL, mr);
	rig->end.cq = ibv_create_cq(rig->end.context, 1, NULL, NULL, 0);
	ASSERT_NE(NULL, rig->end.cq);
	/* So many receives does a QP have room for. */
	ASSERT_LT(rig->end.cq->cqe, 4);
	rxe_make_pair(&rig->end, &self->config, pair);
	wr.wr.rdma.remote_addr = rig->start;
	wr.wr.rdma.rkey = mr->rkey;
	for (i = 0; i < 4; i++)
		rxe_post_recv(&pair[0], local, rig->start, 8);
	for (i = 0; i < 4; i++)
		ASSERT_EQ(0, ibv_post_send(pair[1].qp, &wr, &bad_wr));
	start = now_ms();
	do {
		ASSERT_EQ(0, ibv_query_qp(pair[0].qp, &attr, IBV_QP_STATE, &init_attr));
		ASSERT_LT(now_ms() - start, SOON_MS * wait_scale());
	} while (attr.qp_state != IBV_QPS_ERR);
	dereg.mr = mr;
	EXPECT_TRUE(rxe_destroys_within(&dereg, SOON_MS)) {
		TH_LOG("deregistering a region waited for the QP");
	}
	ASSERT_EQ(0, ibv_destroy_qp(pair[0].qp));
	rxe_destroyed(&dereg);
}

/* For datagrams to a QP of the same device. */
static struct ibv_ah *make_ah(struct __test_metadata *_metadata, struct rig *rig)
{
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .hop_limit = 64, .sgid_index = rig->end.gid_index },
	};
	struct ibv_ah *ah;

	peer_gid(RXE_ADDR, attr.grh.dgid.raw);
	ah = ibv_create_ah(rig->end.pd, &attr);
	ASSERT_NE(NULL, ah);
	return ah;
}

/* More comes than a receive has room for. */
TEST_F_TIMEOUT(failing, ignores_what_is_too_long, PATIENCE)
{
	const __u32 grh = 40, room = 64;
	struct rig *rig = &self->rig;
	struct ibv_sge sge = { rig->start, room + 1, rig->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
	}, *bad_wr;
	struct rxe_qp from, to;
	struct ibv_wc wc;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	wr.wr.ud.ah = make_ah(_metadata, rig);
	wr.wr.ud.remote_qpn = to.qp->qp_num;
	wr.wr.ud.remote_qkey = RXE_QKEY;
	rxe_post_recv(&to, rig->mr, rig->start + 256, grh + room);
	/* It is lost, which its sender does not learn. */
	ASSERT_EQ(0, ibv_post_send(from.qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	ASSERT_EQ(from.qp->qp_num, wc.qp_num);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	/* What fits comes in the same receive. */
	sge.length = room;
	wr.send_flags = 0;
	ASSERT_EQ(0, ibv_post_send(from.qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(to.qp->qp_num, wc.qp_num);
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(grh + room, wc.byte_len);
}

/* A send from @from to @to; without memory that it may read it fails. */
static void send_datagram(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *from,
			  struct rxe_qp *to, __u32 lkey, unsigned int flags)
{
	struct ibv_sge sge = { rig->start, 64, lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = flags,
		.wr.ud = {
			.ah = make_ah(_metadata, rig),
			.remote_qpn = to->qp->qp_num, .remote_qkey = RXE_QKEY,
		},
	}, *bad_wr;

	ASSERT_EQ(0, ibv_post_send(from->qp, &wr, &bad_wr));
}

static void expect_wc(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *qp,
		      enum ibv_wc_opcode opcode, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(qp->qp->qp_num, wc.qp_num);
	EXPECT_STREQ(ibv_wc_status_str(status), ibv_wc_status_str(wc.status));
	if (status == IBV_WC_SUCCESS)
		EXPECT_EQ(opcode, wc.opcode);
}

/* As ib_mad does after a MAD that could not be sent. */
static void leave_sqe(struct __test_metadata *_metadata, struct rxe_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_SQE };

	ASSERT_EQ(0, ibv_modify_qp(qp->qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	EXPECT_EQ(IBV_QPS_RTS, rxe_qp_state(qp));
}

/* A send of a datagram QP fails, and takes it to SQE and back.  Which error it is, datagrams_are_sent_again looks at. */
static void fail_datagram(struct __test_metadata *_metadata, struct rig *rig, struct rxe_qp *from,
			  struct rxe_qp *to)
{
	struct ibv_wc wc;

	send_datagram(_metadata, rig, from, to, ~rig->mr->lkey, 0);
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(from->qp->qp_num, wc.qp_num);
	EXPECT_NE(IBV_WC_SUCCESS, wc.status);
	EXPECT_EQ(IBV_QPS_SQE, rxe_qp_state(from));
	leave_sqe(_metadata, from);
}

/* After a send that failed, a datagram QP sends again as soon as it is taken to RTS. */
TEST_F_TIMEOUT(failing, datagrams_are_sent_again, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct rxe_qp from, to;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	send_datagram(_metadata, rig, &from, &to, ~rig->mr->lkey, 0);
	expect_wc(_metadata, rig, &from, IBV_WC_SEND, IBV_WC_LOC_PROT_ERR);
	leave_sqe(_metadata, &from);
	send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, IBV_SEND_SIGNALED);
	expect_wc(_metadata, rig, &from, IBV_WC_SEND, IBV_WC_SUCCESS);
}

/* It does so from each slot of its queue, also from that of the send that has failed. */
TEST_F_TIMEOUT(failing, datagrams_are_sent_from_each_slot, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_qp_init_attr init_attr;
	struct ibv_qp_attr attr;
	struct rxe_qp from, to;
	unsigned int i;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	fail_datagram(_metadata, rig, &from, &to);
	ASSERT_EQ(0, ibv_query_qp(from.qp, &attr, IBV_QP_CAP, &init_attr));
	/* The queue has at least one slot more, and at most twice as many. */
	for (i = 0; i <= 2 * init_attr.cap.max_send_wr; i++) {
		send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, IBV_SEND_SIGNALED);
		expect_wc(_metadata, rig, &from, IBV_WC_SEND, IBV_WC_SUCCESS);
	}
}

/* The receives of a datagram QP stay when a send of it fails, and one takes what comes afterwards. */
TEST_F_TIMEOUT(failing, datagrams_are_still_received, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct rxe_qp from, to;

	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &from);
	rxe_make_qp(&rig->end, &self->config, &to);
	rxe_post_recv(&to, rig->mr, rig->start + 256, 40 + 64);
	fail_datagram(_metadata, rig, &to, &from);
	send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, 0);
	expect_wc(_metadata, rig, &to, IBV_WC_RECV, IBV_WC_SUCCESS);
}

/* Sends that are posted in the error state are flushed, also if there are many for each doorbell. */
TEST_F_TIMEOUT(failing, flushes_what_is_posted_later, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_sge sge = { rig->start, 8, rig->mr->lkey };
	struct ibv_send_wr wr[8] = {}, *bad_wr;
	const int posted = ARRAY_SIZE(wr), rounds = 40;
	struct rxe_qp qp;
	int i, round;

	self->config.queue = 15;
	rxe_make_qp(&rig->end, &self->config, &qp);
	rxe_modify_qp(&qp, IBV_QPS_ERR);
	for (i = 0; i < posted; i++) {
		wr[i].opcode = IBV_WR_SEND;
		wr[i].sg_list = &sge;
		wr[i].num_sge = 1;
		wr[i].next = i + 1 < posted ? &wr[i + 1] : NULL;
	}
	for (round = 0; round < rounds; round++) {
		ASSERT_EQ(0, ibv_post_send(qp.qp, wr, &bad_wr));
		for (i = 0; i < posted; i++)
			expect_wc(_metadata, rig, &qp, IBV_WC_SEND, IBV_WC_WR_FLUSH_ERR);
	}
}

/* A user who waits for solicited completions only is told that a QP has failed. */
TEST_F_TIMEOUT(failing, wakes_for_a_receive_that_is_flushed, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct pollfd wait = { .events = POLLIN };
	struct ibv_comp_channel *channel;
	struct rxe_qp qp;

	channel = ibv_create_comp_channel(rig->end.context);
	ASSERT_NE(NULL, channel);
	wait.fd = channel->fd;
	rig->end.cq = ibv_create_cq(rig->end.context, 4, NULL, channel, 0);
	ASSERT_NE(NULL, rig->end.cq);
	rxe_make_qp(&rig->end, &self->config, &qp);
	rxe_post_recv(&qp, rig->mr, rig->start, 8);
	ASSERT_EQ(0, ibv_req_notify_cq(rig->end.cq, true));
	rxe_modify_qp(&qp, IBV_QPS_ERR);
	EXPECT_EQ(1, poll(&wait, 1, SOON_MS * wait_scale()));
}

/* A datagram QP goes on when its CQ is full, and each event that says so takes memory until the user reads it. */
TEST_F_TIMEOUT(failing, tells_once_that_a_cq_is_full, PATIENCE)
{
	const int sent = 20;
	struct rig *rig = &self->rig;
	struct pollfd wait = { .fd = rig->end.context->async_fd, .events = POLLIN };
	struct ibv_cq *full = ibv_create_cq(rig->end.context, 1, NULL, NULL, 0), *cq = rig->end.cq;
	struct ibv_async_event event;
	struct rxe_qp from, to;
	int i;

	ASSERT_NE(NULL, full);
	ASSERT_LT(full->cqe, sent);
	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &to);
	rig->end.cq = full;
	rxe_make_qp(&rig->end, &self->config, &from);
	rig->end.cq = cq;
	for (i = 0; i < sent; i++) {
		rxe_post_recv(&to, rig->mr, rig->start + 256, 40 + 64);
		send_datagram(_metadata, rig, &from, &to, rig->mr->lkey, IBV_SEND_SIGNALED);
		expect_wc(_metadata, rig, &to, IBV_WC_RECV, IBV_WC_SUCCESS);
	}
	ASSERT_EQ(1, poll(&wait, 1, SOON_MS * wait_scale()));
	ASSERT_EQ(0, ibv_get_async_event(rig->end.context, &event));
	EXPECT_EQ(IBV_EVENT_CQ_ERR, event.event_type);
	EXPECT_EQ(full, event.element.cq);
	ibv_ack_async_event(&event);
	EXPECT_EQ(0, poll(&wait, 1, 0));
}

/*
 * If IPv6 is disabled, there is no route from this GID, and the datagram can't be sent.  It is to a multicast address,
 * for which the kernel needs no route to make the AH.
 */
TEST_F_TIMEOUT(failing, datagrams_from_the_link_local_gid, PATIENCE)
{
	const bool ipv6 = !access("/proc/net/if_inet6", F_OK);
	const __u8 link_local[8] = { 0xfe, 0x80 };
	struct rig *rig = &self->rig;
	struct ibv_ah_attr attr = {
		.is_global = 1, .port_num = 1,
		.grh = { .hop_limit = 64, .dgid.raw = { 0xff, 0x02, [15] = 1 } },
	};
	struct ibv_sge sge = { rig->start, 64, rig->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { .remote_qpn = 0xffffff, .remote_qkey = RXE_QKEY },
	}, *bad_wr;
	union ibv_gid gid;
	struct ibv_wc wc;
	struct rxe_qp qp;

	while (true) {
		ASSERT_EQ(0, ibv_query_gid(rig->end.context, 1, attr.grh.sgid_index, &gid)) {
			TH_LOG("the device has no link-local GID");
		}
		if (!memcmp(gid.raw, link_local, sizeof(link_local)))
			break;
		attr.grh.sgid_index++;
	}
	self->config.type = IBV_QPT_UD;
	rxe_make_qp(&rig->end, &self->config, &qp);
	wr.wr.ud.ah = ibv_create_ah(rig->end.pd, &attr);
	ASSERT_NE(NULL, wr.wr.ud.ah);
	ASSERT_EQ(0, ibv_post_send(qp.qp, &wr, &bad_wr));
	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS));
	EXPECT_EQ(ipv6, wc.status == IBV_WC_SUCCESS) {
		TH_LOG("%s IPv6: %s", ipv6 ? "with" : "without", ibv_wc_status_str(wc.status));
	}
}

#define DATAGRAMS	64

struct failer {
	pthread_t thread;
	struct ibv_qp *_Atomic qp;	/* to be put in error when half is posted; NULL: it is */
	atomic_int posted;
	atomic_bool stop;
	int error;
};

static void *fail(void *arg)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };
	struct failer *failer = arg;

	stay_on_cpu(1);
	while (!failer->stop) {
		if (!failer->qp || failer->posted < DATAGRAMS / 2)
			continue;
		failer->error = ibv_modify_qp(failer->qp, &attr, IBV_QP_STATE);
		failer->qp = NULL;
	}
	return NULL;
}

/* The next completion is that of the datagram @id. */
static enum ibv_wc_status complete_datagram(struct __test_metadata *_metadata, struct rig *rig, __u64 id)
{
	struct ibv_wc wc;

	ASSERT_TRUE(rxe_wait_wc(&rig->end, &wc, ANSWER_MS)) {
		TH_LOG("datagram %llu never completes", id);
	}
	ASSERT_EQ(id, wc.wr_id);
	ASSERT_TRUE(wc.status == IBV_WC_SUCCESS || wc.status == IBV_WC_WR_FLUSH_ERR);
	return wc.status;
}

/* Datagrams are sent while their QP fails: each completes once, in order, and none twice. */
TEST_F_TIMEOUT(failing, completes_each_datagram_once, PATIENCE)
{
	struct rig *rig = &self->rig;
	struct ibv_ah *ah = make_ah(_metadata, rig);
	struct ibv_sge sge = { rig->start, 8, rig->mr->lkey };
	struct ibv_send_wr wr[DATAGRAMS + 1] = { }, *bad_wr;	/* and one more */
	const long long end = now_ms() + milliseconds;
	unsigned int rounds, sent, amid = 0;
	struct failer failer = { };
	struct rxe_qp qp;
	int i;

	stay_on_cpu(0);
	self->config.type = IBV_QPT_UD;
	self->config.queue = DATAGRAMS;
	for (i = 0; i <= DATAGRAMS; i++)
		wr[i] = (struct ibv_send_wr) {
			.wr_id = i, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.ud = { .ah = ah, .remote_qkey = RXE_QKEY },
		};
	if (pthread_create(&failer.thread, NULL, fail, &failer))
		errx(1, "no thread");
	for (rounds = 0; rounds < MOST_ROUNDS && (amid < LEAST || now_ms() < end); rounds++) {
		rxe_make_qp(&rig->end, &self->config, &qp);
		failer.posted = 0;
		failer.qp = qp.qp;
		/* One by one, for the kernel sends all that it is given before it returns. */
		for (i = 0; i < DATAGRAMS; i++) {
			ASSERT_EQ(0, ibv_post_send(qp.qp, &wr[i], &bad_wr));
			failer.posted++;
		}
		while (failer.qp)
			;
		ASSERT_EQ(0, failer.error);
		for (sent = 0, i = 0; i < DATAGRAMS; i++)
			sent += complete_datagram(_metadata, rig, i) == IBV_WC_SUCCESS;
		amid += sent && sent < DATAGRAMS;
		/* What would be completed once more comes before this one. */
		ASSERT_EQ(0, ibv_post_send(qp.qp, &wr[DATAGRAMS], &bad_wr));
		ASSERT_EQ(IBV_WC_WR_FLUSH_ERR, complete_datagram(_metadata, rig, DATAGRAMS));
		ASSERT_EQ(0, ibv_destroy_qp(qp.qp));
	}
	failer.stop = true;
	pthread_join(failer.thread, NULL);
	TH_LOG("%u QPs, %u failed before all was sent", rounds, amid);
	EXPECT_GE(amid, LEAST);
}

/* ---- Multicast groups ---- */

#define GROUPS	100

FIXTURE(multicast) {
	struct rig rig;
	struct rxe_qp qp[2];
};

FIXTURE_SETUP(multicast)
{
	struct rxe_qp_config config = RXE_QP_DEFAULT;
	int i;

	become_nobody();
	rig_open(&self->rig, false, ACCESS_DRAM, &RXE_QP_DEFAULT);
	config.type = IBV_QPT_UD;
	for (i = 0; i < 2; i++)
		rxe_make_qp(&self->rig.end, &config, &self->qp[i]);
}

FIXTURE_TEARDOWN(multicast)
{
	rxe_close(&self->rig.end);
}

static union ibv_gid group_gid(int n)
{
	return (union ibv_gid) { .raw = { 0xff, 0x0e, [13] = 0x77, [14] = n >> 8, [15] = n } };
}

/* How many addresses of such groups the network devices listen to. */
static int group_addresses(void)
{
	FILE *file = fopen("/proc/net/dev_mcast", "r");
	char line[200];
	int found = 0;

	if (!file)
		err(1, "/proc/net/dev_mcast");
	while (fgets(line, sizeof(line), file))
		found += !!strstr(line, "333300770");
	fclose(file);
	return found;
}

/* The last QP that leaves a group takes the address of the group from the network device. */
TEST_F_TIMEOUT(multicast, leaves_no_address, PATIENCE)
{
	union ibv_gid group;
	int i;

	for (i = 0; i < GROUPS; i++) {
		group = group_gid(i);
		ASSERT_EQ(0, ibv_attach_mcast(self->qp[0].qp, &group, 0));
		ASSERT_EQ(0, ibv_attach_mcast(self->qp[1].qp, &group, 0));
		ASSERT_EQ(0, ibv_detach_mcast(self->qp[0].qp, &group, 0));
		if (!i)
			EXPECT_EQ(1, group_addresses());
		ASSERT_EQ(0, ibv_detach_mcast(self->qp[1].qp, &group, 0));
	}
	EXPECT_EQ(0, group_addresses());
}

struct joiner {
	pthread_t thread;
	int cpu;
	struct ibv_qp *qp;
	atomic_bool stop;
	atomic_uint times;
	atomic_int error;
};

static void *join_and_leave(void *arg)
{
	union ibv_gid group = group_gid(1);
	struct joiner *joiner = arg;

	stay_on_cpu(joiner->cpu);
	for (; !joiner->stop && !joiner->error; joiner->times++) {
		joiner->error = ibv_attach_mcast(joiner->qp, &group, 0);
		if (!joiner->error)
			joiner->error = ibv_detach_mcast(joiner->qp, &group, 0);
	}
	return NULL;
}

/* A QP joins a group while the last one in it leaves.  If it has joined, it can leave. */
TEST_F_TIMEOUT(multicast, joined_while_it_ends, PATIENCE)
{
	const long long end = now_ms() + 4 * milliseconds;
	struct joiner joiner[2] = { };
	int i;

	for (i = 0; i < 2; i++) {
		joiner[i].cpu = i;
		joiner[i].qp = self->qp[i].qp;
		if (pthread_create(&joiner[i].thread, NULL, join_and_leave, &joiner[i]))
			errx(1, "no thread");
	}
	while ((now_ms() < end || joiner[0].times < LEAST || joiner[1].times < LEAST) &&
	       !joiner[0].error && !joiner[1].error)
		poll(NULL, 0, 1);
	for (i = 0; i < 2; i++)
		joiner[i].stop = true;
	for (i = 0; i < 2; i++) {
		pthread_join(joiner[i].thread, NULL);
		EXPECT_STREQ(strerror(0), strerror(joiner[i].error));
	}
	TH_LOG("the two have joined %u and %u times", joiner[0].times, joiner[1].times);
	for (i = 0; i < 2; i++)
		EXPECT_EQ(0, ibv_destroy_qp(self->qp[i].qp));
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

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "milliseconds", required_argument, NULL, 'm' },
		{ }
	};
	struct selection selection = { 0 };
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == 'm')
			milliseconds = atoi(optarg);
		if (option == '?' || !milliseconds)
			errx(2, "usage: hostile-qps [--milliseconds N] [PATTERN...]");
	}
	selection.patterns = argv + optind;
	run_cases(selection);
}
