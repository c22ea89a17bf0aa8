// SPDX-License-Identifier: GPL-2.0
/*
 * hostile-qps resizes a queue that is in use, in one thread, while another asks for what depends on its size.  Nothing
 * is lost, and nothing comes twice.
 *
 * It has CQs created whose response can't be written: their memory is freed.
 */
#include <poll.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_rxe.h>
#include <sys/mman.h>

#include "hostile-qps.h"

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
