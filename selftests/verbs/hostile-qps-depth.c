// SPDX-License-Identifier: GPL-2.0
/*
 * hostile-qps changes how many responder resources the QP has (max_dest_rd_atomic, in SQD) while requests come to it:
 * from another QP of the same device, which are handled by the very call that posts them, and from the wire, which are
 * handled in softirq context.  Each request is executed once and as it was asked for, or it fails in a way that is
 * documented, and the kernel stays sound.
 *
 * It asks for an attribute that the state of the QP does not allow, without a new state, and gets EINVAL.  It moves a
 * QP to the error state while another thread modifies it and a peer floods it.
 */
#include "hostile-qps.h"

#define BATCH		16	/* requests posted at once, as many as the depth allows */
#define LONG_READ	3000	/* bytes: three packets */

/*
 * What is where in the region.  What a batch stores to, the next one reads; so it does not matter how often a READ
 * is executed.  A long READ goes from the first bank, or ends with the second, and has no counter in it.
 */
#define BANK_WORDS	8
#define SECOND_BANK	3072
#define COUNTERS	3600

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
