// SPDX-License-Identifier: GPL-2.0
/*
 * Persistence: who may register it, what it costs, and who waits for a FLUSH, on the RDMA device of this
 * machine, which talks to itself.  Prints KTAP.
 *
 *	persistence NVDIMM VIRTIO_PMEM FSDAX_FILE LEND MARGIN
 *
 * NVDIMM is a device DAX of more than 4 GiB, VIRTIO_PMEM one whose durability needs the host,
 * FSDAX_FILE a file on a file system that maps an NVDIMM, LEND a command that lends one more NVDIMM
 * to the page allocator (dax/kmem), which then takes from that first, and MARGIN by how many per cent
 * a ratio of costs may be above what is allowed: the detectors of a debug kernel blur it.
 *
 * Times are those of an emulator, as a rule: only ratios of what was measured in turn are judged.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <kselftest_harness.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <time.h>
#include <unistd.h>

#include "change-access.h"
#include "remote-log.h"
#include "verbs-end.h"

#define KIB		(1ul << 10)
#define MIB		(1ul << 20)
#define GIB		(1ul << 30)
#define DAX_PAGE	(2 * MIB)
#define DAX_PAGES	3	/* in a layout, at most */

#define ACCESS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_FLUSH_GLOBAL)
#define PERSISTENT	(ACCESS | IBV_ACCESS_FLUSH_PERSISTENT)

#define QUEUE		128
#define MINUTE		(60 * 1000000000ull)	/* in nanoseconds, as now() */
#define PATIENCE	600	/* seconds: for an emulated debug kernel on a busy machine */

static const char *nvdimm_path, *virtio_pmem_path, *fsdax_path, *lend_command;
static unsigned int margin;

/* --- One work request at a time, or many at once, from a QP to its neighbour --- */

struct loop {
	struct end end;
	struct ibv_qp *requester, *responder;
	struct ibv_mr *local;
	char buffer[64 * KIB];
};

struct request {
	enum ibv_wr_opcode opcode;
	const struct ibv_mr *mr;
	__u64 offset;			/* in the MR */
	__u32 length;
	enum ibv_selectivity_level level;	/* of a FLUSH, which is always for persistence */
};

/* The QPs of a loop whose end is open. */
static void connect_loop(struct loop *loop)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = QUEUE,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct end_address address;

	attr.send_cq = loop->end.cq;
	attr.recv_cq = loop->end.cq;
	attr.pd = loop->end.pd;
	loop->requester = ibv_create_qp_ex(loop->end.context, &attr);
	loop->responder = ibv_create_qp_ex(loop->end.context, &attr);
	loop->local = ibv_reg_mr(loop->end.pd, loop->buffer, sizeof(loop->buffer),
				 IBV_ACCESS_LOCAL_WRITE);
	if (!loop->requester || !loop->responder || !loop->local)
		err(1, "a queue pair");
	address = end_address(&loop->end, loop->responder);
	end_connect_qp(&loop->end, loop->requester, 0, &address);
	address = end_address(&loop->end, loop->requester);
	end_connect_qp(&loop->end, loop->responder, PERSISTENT, &address);
}

static void open_loop(struct loop *loop)
{
	end_open(&loop->end);
	connect_loop(loop);
}

static void build(struct loop *loop, const struct request *request)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(loop->requester);
	__u64 addr = (uintptr_t)request->mr->addr + request->offset;

	qp->wr_flags = IBV_SEND_SIGNALED;
	switch (request->opcode) {
	case IBV_WR_FLUSH:
		ibv_wr_flush(qp, request->mr->rkey, addr, request->length, IBV_FLUSH_PERSISTENT,
			     request->level);
		return;
	case IBV_WR_ATOMIC_WRITE:
		ibv_wr_atomic_write(qp, request->mr->rkey, addr, loop->buffer);
		return;
	case IBV_WR_RDMA_READ:
		ibv_wr_rdma_read(qp, request->mr->rkey, addr);
		break;
	default:
		ibv_wr_rdma_write(qp, request->mr->rkey, addr);
	}
	ibv_wr_set_sge(qp, loop->local->lkey, (uintptr_t)loop->buffer, request->length);
}

/* Post @request @times at once. */
static void post(struct loop *loop, const struct request *request, unsigned int times)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(loop->requester);

	ibv_wr_start(qp);
	while (times--)
		build(loop, request);
	if (ibv_wr_complete(qp))
		errx(1, "ibv_wr_complete");
}

static void expect_completions(struct __test_metadata *_metadata, struct loop *loop,
			       unsigned int times, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	while (times--) {
		wc = end_completion(&loop->end);
		ASSERT_EQ(status, wc.status) {
			TH_LOG("completion: %s", ibv_wc_status_str(wc.status));
		}
	}
}

static struct request request_of(enum ibv_wr_opcode opcode, const struct ibv_mr *mr, __u64 offset,
				 __u32 length)
{
	return (struct request){ .opcode = opcode, .mr = mr, .offset = offset, .length = length };
}

static struct request flush_region(const struct ibv_mr *mr)
{
	return (struct request){ .opcode = IBV_WR_FLUSH, .mr = mr, .level = IBV_FLUSH_MR };
}

static void succeed(struct __test_metadata *_metadata, struct loop *loop, struct request request)
{
	post(loop, &request, 1);
	expect_completions(_metadata, loop, 1, IBV_WC_SUCCESS);
}

/* --- Who may register it --- */

static void *map_dax(const char *path, void *where, size_t size)
{
	int fd = open(path, O_RDWR);
	void *map = fd < 0 ? MAP_FAILED : mmap(where, size, PROT_READ | PROT_WRITE,
					       MAP_SHARED | (where ? MAP_FIXED : 0), fd, 0);

	if (map == MAP_FAILED)
		err(1, "%s", path);
	close(fd);
	return map;
}

/* One letter for each 2 MiB, which follow one another: d DRAM, n NVDIMM, v virtio-pmem. */
static char *map_layout(const char *layout)
{
	char *map = mmap(NULL, (DAX_PAGES + 1) * DAX_PAGE, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *start = (char *)(((uintptr_t)map + DAX_PAGE - 1) & ~(DAX_PAGE - 1));
	size_t i;

	if (map == MAP_FAILED)
		err(1, "mmap");
	for (i = 0; layout[i]; i++) {
		if (layout[i] == 'n')
			map_dax(nvdimm_path, start + i * DAX_PAGE, DAX_PAGE);
		if (layout[i] == 'v')
			map_dax(virtio_pmem_path, start + i * DAX_PAGE, DAX_PAGE);
	}
	return start;
}

FIXTURE(memory) {
	struct loop loop;
	char *start;
	size_t size;
};

FIXTURE_VARIANT(memory) {
	const char *layout;
	size_t from, to;	/* what is left out at the start, and at the end */
	bool persistent;
};

FIXTURE_VARIANT_ADD(memory, nvdimm) { .layout = "nnn", .persistent = true };
FIXTURE_VARIANT_ADD(memory, nvdimm_unaligned) { .layout = "nn", .from = 4095, .to = 1,
						 .persistent = true };
FIXTURE_VARIANT_ADD(memory, dram) { .layout = "ddd" };
FIXTURE_VARIANT_ADD(memory, dram_one_byte) { .layout = "d", .from = 8, .to = DAX_PAGE - 9 };
FIXTURE_VARIANT_ADD(memory, dram_then_nvdimm) { .layout = "dn" };
FIXTURE_VARIANT_ADD(memory, nvdimm_then_dram) { .layout = "nd" };
FIXTURE_VARIANT_ADD(memory, dram_within_nvdimm) { .layout = "ndn" };
FIXTURE_VARIANT_ADD(memory, first_byte_dram) { .layout = "dn", .from = DAX_PAGE - 1 };
FIXTURE_VARIANT_ADD(memory, last_byte_dram) { .layout = "nd", .to = DAX_PAGE - 1 };
FIXTURE_VARIANT_ADD(memory, virtio_pmem) { .layout = "vv" };
FIXTURE_VARIANT_ADD(memory, nvdimm_then_virtio_pmem) { .layout = "nv" };
FIXTURE_VARIANT_ADD(memory, virtio_pmem_then_nvdimm) { .layout = "vn" };

FIXTURE_SETUP(memory)
{
	open_loop(&self->loop);
	self->start = map_layout(variant->layout) + variant->from;
	self->size = strlen(variant->layout) * DAX_PAGE - variant->from - variant->to;
}

FIXTURE_TEARDOWN(memory)
{
}

static struct ibv_mr *reg_mr(struct loop *loop, void *start, size_t size, unsigned int access)
{
	struct ibv_mr *mr = ibv_reg_mr(loop->end.pd, start, size, access);

	if (!mr)
		err(1, "registering %zu bytes", size);
	return mr;
}

TEST_F(memory, registration)
{
	struct ibv_mr *mr = ibv_reg_mr(self->loop.end.pd, self->start, self->size, PERSISTENT);

	if (variant->persistent) {
		ASSERT_NE(NULL, mr);
		succeed(_metadata, &self->loop, flush_region(mr));
	} else {
		ASSERT_EQ(NULL, mr);
		EXPECT_EQ(EINVAL, errno);
		/* That was the only reason. */
		reg_mr(&self->loop, self->start, self->size, ACCESS);
	}
}

/* A driver need not have rereg_mr, but what it has must not be a back door. */
TEST_F(memory, registering_again)
{
	struct ibv_mr *mr = reg_mr(&self->loop, self->start, self->size, ACCESS);
	struct request flush = flush_region(mr);
	int ret = change_access(mr, PERSISTENT);

	if (ret != EOPNOTSUPP)
		EXPECT_EQ(variant->persistent ? 0 : EINVAL, ret);
	post(&self->loop, &flush, 1);
	expect_completions(_metadata, &self->loop, 1,
			   ret ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS);
}

/*
 * The kernel lends no file's pages for as long as an MR lives, since the file system could not move
 * them: with or without persistence.  Should that change, the rules of NVDIMM and page cache apply.
 */
TEST(files_cannot_be_registered_at_all)
{
	struct loop loop;
	int fd = open(fsdax_path, O_RDWR);
	void *map = mmap(NULL, DAX_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED_VALIDATE | MAP_SYNC,
			 fd, 0);

	open_loop(&loop);
	ASSERT_NE(MAP_FAILED, map);
	memset(map, 1, DAX_PAGE);
	ASSERT_EQ(NULL, ibv_reg_mr(loop.end.pd, map, DAX_PAGE, PERSISTENT));
	EXPECT_EQ(EOPNOTSUPP, errno);
	ASSERT_EQ(NULL, ibv_reg_mr(loop.end.pd, map, DAX_PAGE, ACCESS));
	EXPECT_EQ(EOPNOTSUPP, errno);
}

/* --- What it costs --- */

struct sample {
	const char *name;
	struct request request;		/* @burst of them */
	__u64 *times;			/* ns */
};

static __u64 now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ull + ts.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
	const __u64 *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static __u64 median(__u64 *times, unsigned int n)
{
	qsort(times, n, sizeof(*times), by_value);
	return times[n / 2];
}

/* From posting to the last completion, for which the CPU is kept busy: sleeping is not to be measured. */
static __u64 time_requests(struct __test_metadata *_metadata, struct loop *loop,
			   const struct request *request, unsigned int burst)
{
	__u64 start = now();
	struct ibv_wc wc;

	post(loop, request, burst);
	while (burst) {
		if (!ibv_poll_cq(loop->end.cq, 1, &wc))
			continue;
		ASSERT_EQ(IBV_WC_SUCCESS, wc.status);
		burst--;
	}
	return now() - start;
}

/* In thousandths. */
static unsigned int tell_ratio(const struct sample pair[2], unsigned int n)
{
	double a = median(pair[0].times, n), b = median(pair[1].times, n);

	printf("# %s %.1f us, %s %.1f us (medians of %u): ratio %.3f\n", pair[0].name, a / 1000,
	       pair[1].name, b / 1000, n, a / b);
	return a / b * 1000;
}

/* What takes long needs few samples: a disturbance is short beside it. */
#define FEW_SAMPLES	20
#define SAMPLING_MS	10000

/* The ratio of the medians of up to @n samples each, taken in turn, in thousandths. */
static unsigned int compare(struct __test_metadata *_metadata, struct loop *loop,
			    struct sample pair[2], unsigned int n, unsigned int burst)
{
	const __u64 enough = now() + SAMPLING_MS * 1000000ull;
	__u64 times[2][n];
	unsigned int i;

	pair[0].times = times[0];
	pair[1].times = times[1];
	/* The first of each is not counted: the QP and the caches are cold. */
	for (i = 0; i <= n && (i <= FEW_SAMPLES || now() < enough); i++) {
		times[0][i ? i - 1 : 0] = time_requests(_metadata, loop, &pair[0].request, burst);
		times[1][i ? i - 1 : 0] = time_requests(_metadata, loop, &pair[1].request, burst);
	}
	return tell_ratio(pair, i - 1);
}

/* In thousandths, as the ratios are. */
static unsigned int limit(unsigned int ratio)
{
	return ratio + ratio * margin / 100;
}

FIXTURE(cost) {
	struct loop loop;
	void *nvdimm;
	size_t size;
};

FIXTURE_SETUP(cost)
{
	open_loop(&self->loop);
	self->nvdimm = log_map(nvdimm_path, O_RDWR, &self->size);
	ASSERT_GT(self->size, 4 * GIB + DAX_PAGE);
}

FIXTURE_TEARDOWN(cost)
{
}

TEST_F_TIMEOUT(cost, of_a_region_does_not_depend_on_its_size, PATIENCE)
{
	struct ibv_mr *large = reg_mr(&self->loop, self->nvdimm, GIB, PERSISTENT);
	struct ibv_mr *small = reg_mr(&self->loop, self->nvdimm, 2 * MIB, PERSISTENT);
	struct sample pair[] = {
		{ .name = "FLUSH of a region of 1 GiB", .request = flush_region(large) },
		{ .name = "of 2 MiB", .request = flush_region(small) },
	};

	EXPECT_LE(compare(_metadata, &self->loop, pair, 500, 1), limit(1200));
}

TEST_F_TIMEOUT(cost, of_a_small_range_is_below_that_of_a_read, PATIENCE)
{
	struct ibv_mr *mr = reg_mr(&self->loop, self->nvdimm, 2 * MIB, PERSISTENT);
	struct sample pair[] = {
		{ .name = "FLUSH of 64 bytes",
		  .request = request_of(IBV_WR_FLUSH, mr, 0, 64) },
		{ .name = "READ of 8 bytes",
		  .request = request_of(IBV_WR_RDMA_READ, mr, 0, 8) },
	};

	EXPECT_LE(compare(_metadata, &self->loop, pair, 2000, 1), limit(1000));
}

/* Cut to 32 bits, this length is 0: there would be nothing to do. */
TEST_F_TIMEOUT(cost, of_a_region_of_4_gib_is_that_of_a_little_less, PATIENCE)
{
	struct ibv_mr *all = reg_mr(&self->loop, self->nvdimm, 4 * GIB, PERSISTENT);
	struct ibv_mr *less = reg_mr(&self->loop, self->nvdimm, 4 * GIB - DAX_PAGE, PERSISTENT);
	struct sample pair[] = {
		{ .name = "FLUSH of a region of 4 GiB", .request = flush_region(all) },
		{ .name = "of 2 MiB less", .request = flush_region(less) },
	};
	unsigned int ratio = compare(_metadata, &self->loop, pair, 500, 1);

	EXPECT_GE(ratio, 500);
	EXPECT_LE(ratio, 2000);
}

/* A QP that stores nothing persistent pays nothing, another one little; on hardware the memory decides. */
TEST_F_TIMEOUT(cost, of_writing_through_the_cache_is_low, PATIENCE)
{
	void *dram = mmap(NULL, DAX_PAGE, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	struct ibv_mr *to_dram = reg_mr(&self->loop, dram, DAX_PAGE, ACCESS);
	struct ibv_mr *to_nvdimm = reg_mr(&self->loop, self->nvdimm, DAX_PAGE, ACCESS);
	struct sample one[] = {
		{ .name = "WRITE of 8 bytes to NVDIMM",
		  .request = request_of(IBV_WR_RDMA_WRITE, to_nvdimm, 0, 8) },
		{ .name = "to DRAM",
		  .request = request_of(IBV_WR_RDMA_WRITE, to_dram, 0, 8) },
	};
	struct sample many[] = {
		{ .name = "16 WRITE of 64 KiB to NVDIMM",
		  .request = request_of(IBV_WR_RDMA_WRITE, to_nvdimm, 0, 64 * KIB) },
		{ .name = "to DRAM",
		  .request = request_of(IBV_WR_RDMA_WRITE, to_dram, 0, 64 * KIB) },
	};

	EXPECT_GT(limit(1250), compare(_metadata, &self->loop, one, 500, 1));
	EXPECT_GT(limit(1250), compare(_metadata, &self->loop, many, 50, 16));
}

static __u64 time_registration(struct loop *loop, void *memory, unsigned int access)
{
	__u64 start = now();
	struct ibv_mr *mr = reg_mr(loop, memory, GIB, access);
	__u64 time = now() - start;

	ibv_dereg_mr(mr);
	return time;
}

TEST_F_TIMEOUT(cost, of_registration_does_not_grow_with_the_check, PATIENCE)
{
	enum { N = 50 };
	__u64 times[2][N];
	const struct sample pair[] = {
		{ .name = "registering 1 GiB with persistence", .times = times[0] },
		{ .name = "without", .times = times[1] },
	};
	int i;

	for (i = 0; i <= N; i++) {
		times[0][i % N] = time_registration(&self->loop, self->nvdimm, PERSISTENT);
		times[1][i % N] = time_registration(&self->loop, self->nvdimm, ACCESS);
	}
	EXPECT_LE(tell_ratio(pair, N), limit(1200));
}

/* --- 4 GiB and more, under the eyes of the detectors of soft lockups and RCU stalls --- */

FIXTURE(huge) {
	struct loop loop;
	struct ibv_mr *mr;
	char *memory;
};

FIXTURE_VARIANT(huge) {
	size_t size;
};

/* The most that 32 bits can count, so that even a driver with such a counter would be at it for long. */
FIXTURE_VARIANT_ADD(huge, almost_4_gib) { .size = 4 * GIB - DAX_PAGE };
FIXTURE_VARIANT_ADD(huge, exactly_4_gib) { .size = 4 * GIB };
FIXTURE_VARIANT_ADD(huge, more_than_4_gib) { .size = 4 * GIB + DAX_PAGE };

FIXTURE_SETUP(huge)
{
	size_t size;

	open_loop(&self->loop);
	self->memory = log_map(nvdimm_path, O_RDWR, &size);
	ASSERT_GE(size, variant->size);
	self->mr = reg_mr(&self->loop, self->memory, variant->size, PERSISTENT);
}

FIXTURE_TEARDOWN(huge)
{
}

TEST_F_TIMEOUT(huge, region_is_flushed_in_a_loop, PATIENCE)
{
	const struct request whole = flush_region(self->mr);
	const struct request end = request_of(IBV_WR_FLUSH, self->mr, variant->size - DAX_PAGE,
					      DAX_PAGE);
	__u64 started = now(), one;
	unsigned int left, n;

	succeed(_metadata, &self->loop, whole);
	one = now() - started;
	/* Many at once, for the responder to be at it for long: a minute, if it takes longer the larger the region is. */
	left = MIN(50 * QUEUE, MAX(4, MINUTE / one));
	TH_LOG("FLUSH of all takes %llu us: %u of them", one / 1000, left);
	while (left) {
		n = MIN(left, QUEUE);
		post(&self->loop, left / QUEUE % 2 ? &end : &whole, n);
		expect_completions(_metadata, &self->loop, n, IBV_WC_SUCCESS);
		left -= n;
	}
}

TEST_F_TIMEOUT(huge, last_bytes_are_where_they_belong, PATIENCE)
{
	const size_t end = variant->size;
	struct request beyond = request_of(IBV_WR_FLUSH, self->mr, end - 64, 65);
	struct loop *loop = &self->loop;
	int i;

	memset(self->memory + end - 2 * 64, 0, 2 * 64);
	/* An offset that is cut to 32 bits would end up here. */
	memset(self->memory, 0, DAX_PAGE);
	for (i = 0; i < 64; i++)
		loop->buffer[i] = i + 1;
	succeed(_metadata, loop, request_of(IBV_WR_RDMA_WRITE, self->mr, end - 64, 64));
	succeed(_metadata, loop, request_of(IBV_WR_FLUSH, self->mr, end - 64, 64));
	succeed(_metadata, loop, request_of(IBV_WR_ATOMIC_WRITE, self->mr, end - 16, 8));
	succeed(_metadata, loop, request_of(IBV_WR_FLUSH, self->mr, end - 16, 8));
	for (i = 0; i < 64; i++)
		EXPECT_EQ(i / 8 == 6 ? i % 8 + 1 : i + 1, self->memory[end - 64 + i]);
	for (i = 0; i < 64; i++)
		EXPECT_EQ(0, self->memory[end - 2 * 64 + i]);
	for (i = 0; i < (int)DAX_PAGE && !self->memory[i]; i++)
		;
	EXPECT_EQ((int)DAX_PAGE, i);

	post(loop, &beyond, 1);
	expect_completions(_metadata, loop, 1, IBV_WC_REM_ACCESS_ERR);
}

/* --- What a FLUSH needs is taken away while it is executed --- */

#define CROWD		8	/* QPs that flush together, at most */
#define LONG_ENOUGH	500000000ull	/* ns: this can be disturbed in time */
#define TAKEN_SIZE	(4 * GIB - DAX_PAGE)

enum what { REGION, QP, STATE_OF_QP };

FIXTURE(taken_away) {
	struct loop loops[CROWD];	/* of one PD, with one CQ */
	struct loop idle;		/* one more */
	char *memory;
	struct ibv_mr *mr;
};

FIXTURE_VARIANT(taken_away) {
	enum what what;
};

FIXTURE_VARIANT_ADD(taken_away, region) { .what = REGION };
FIXTURE_VARIANT_ADD(taken_away, destroyed_qp) { .what = QP };
FIXTURE_VARIANT_ADD(taken_away, reset_qp) { .what = STATE_OF_QP };

FIXTURE_SETUP(taken_away)
{
	size_t size;
	int i;

	open_loop(&self->idle);
	for (i = 0; i < CROWD; i++) {
		self->loops[i].end = self->idle.end;
		connect_loop(&self->loops[i]);
	}
	self->memory = log_map(nvdimm_path, O_RDWR, &size);
	ASSERT_GE(size, TAKEN_SIZE);
	self->mr = reg_mr(&self->idle, self->memory, TAKEN_SIZE, PERSISTENT);
}

FIXTURE_TEARDOWN(taken_away)
{
}

/* The target takes away @mr, or the QP that responds: how long this takes. */
static __u64 time_taking(struct __test_metadata *_metadata, struct loop *loop, struct ibv_mr *mr,
			 enum what what)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	__u64 start = now();

	switch (what) {
	case REGION:
		ASSERT_EQ(0, ibv_dereg_mr(mr));
		break;
	case QP:
		ASSERT_EQ(0, ibv_destroy_qp(loop->responder));
		break;
	case STATE_OF_QP:
		ASSERT_EQ(0, ibv_modify_qp(loop->responder, &reset, IBV_QP_STATE));
		break;
	}
	return now() - start;
}

static void post_on_each(struct loop *loops, unsigned int n, const struct request *request)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		post(&loops[i], request, 1);
}

/* The shortest of three times from the first posting to the last completion. */
static __u64 time_together(struct __test_metadata *_metadata, struct loop *loops, unsigned int n,
			   const struct request *request)
{
	__u64 start, time, shortest = -1;
	int i;

	for (i = 0; i < 3; i++) {
		start = now();
		post_on_each(loops, n, request);
		expect_completions(_metadata, &loops[0], n, IBV_WC_SUCCESS);
		time = now() - start;
		shortest = MIN(shortest, time);
	}
	return shortest;
}

/* Taking it away does not wait for the FLUSH, and the initiator learns of no success. */
TEST_F_TIMEOUT(taken_away, amid_a_flush, PATIENCE)
{
	struct ibv_mr *small = reg_mr(&self->idle, self->memory, DAX_PAGE, PERSISTENT);
	const struct request flush = flush_region(self->mr);
	struct sample pair[] = {
		{ .name = "FLUSH of a region of almost 4 GiB", .request = flush },
		{ .name = "of 2 MiB", .request = flush_region(small) },
	};
	struct ibv_qp_attr error = { .qp_state = IBV_QPS_ERR };
	__u64 together, alone, amid;
	struct ibv_mr *other;
	struct loop *last;
	unsigned int n = 1;

	if (compare(_metadata, &self->idle, pair, 5, 1) < 10000)
		SKIP(return, "a large region is flushed as fast as a small one");
	/* The more share the CPUs, the longer each takes. */
	while ((together = time_together(_metadata, self->loops, n, &flush)) < LONG_ENOUGH &&
	       n < CROWD)
		n *= 2;
	last = &self->loops[n - 1];
	other = reg_mr(&self->idle, self->memory, TAKEN_SIZE, PERSISTENT);
	alone = time_taking(_metadata, &self->idle, other, variant->what);

	post_on_each(self->loops, n, &flush);
	/* Each has begun by then, and none is done. */
	poll(NULL, 0, together / 8 / 1000000);
	amid = time_taking(_metadata, last, self->mr, variant->what);
	printf("# %u FLUSHes %llu us; taken away amid them %llu us, without them %llu us\n", n,
	       together / 1000, amid / 1000, alone / 1000);
	EXPECT_LT(amid, alone + together / 2);
	if (variant->what == REGION) {
		expect_completions(_metadata, last, n, IBV_WC_REM_ACCESS_ERR);
		return;
	}
	/* The others go on, and are answered. */
	expect_completions(_metadata, last, n - 1, IBV_WC_SUCCESS);
	ASSERT_EQ(0, ibv_modify_qp(last->requester, &error, IBV_QP_STATE));
	expect_completions(_metadata, last, 1, IBV_WC_WR_FLUSH_ERR);
}

/* --- Persistent memory that is lent to the page allocator --- */

/* Is the page at @addr in what /proc/iomem says dax/kmem has taken? */
static bool is_lent(const void *addr)
{
	unsigned long start, end, physical, page_size = sysconf(_SC_PAGESIZE);
	FILE *pagemap = fopen("/proc/self/pagemap", "r"), *iomem = fopen("/proc/iomem", "r");
	__u64 entry;
	char line[256];
	bool lent = false;

	if (!pagemap || !iomem ||
	    fseek(pagemap, (uintptr_t)addr / page_size * sizeof(entry), SEEK_SET) ||
	    fread(&entry, sizeof(entry), 1, pagemap) != 1)
		err(1, "where is a page?");
	/* Documentation/admin-guide/mm/pagemap.rst: bits 0-54, the page frame's number */
	physical = (entry & ((1ull << 55) - 1)) * page_size;
	while (fgets(line, sizeof(line), iomem))
		if (strstr(line, "System RAM (kmem)") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2 &&
		    physical >= start && physical <= end)
			lent = true;
	fclose(pagemap);
	fclose(iomem);
	return lent;
}

FIXTURE(lent) {
	struct loop loop;
};

FIXTURE_SETUP(lent)
{
	open_loop(&self->loop);
	ASSERT_EQ(0, system(lend_command));
}

FIXTURE_TEARDOWN(lent)
{
}

/* The last test, for the last fixture, because nothing gives back what is lent, and a later one would be in it. */
TEST_F(lent, memory_is_not_persistent)
{
	char *page, *map;

	map = mmap(NULL, DAX_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	ASSERT_NE(MAP_FAILED, map);
	memset(map, 1, DAX_PAGE);
	/* All of it; otherwise it is refused for its DRAM. */
	for (page = map; page < map + DAX_PAGE; page += sysconf(_SC_PAGESIZE))
		ASSERT_TRUE(is_lent(page));
	ASSERT_EQ(NULL, ibv_reg_mr(self->loop.end.pd, map, DAX_PAGE, PERSISTENT));
	EXPECT_EQ(EINVAL, errno);
	reg_mr(&self->loop, map, DAX_PAGE, ACCESS);
}

int main(int argc, char **argv)
{
	char *end = "";

	if (argc == 6)
		margin = strtoul(argv[5], &end, 10);
	if (argc != 6 || end == argv[5] || *end)
		errx(2, "usage: persistence NVDIMM VIRTIO_PMEM FSDAX_FILE LEND MARGIN");
	nvdimm_path = argv[1];
	virtio_pmem_path = argv[2];
	fsdax_path = argv[3];
	lend_command = argv[4];
	setlinebuf(stdout);
	return test_harness_run(1, argv);
}
