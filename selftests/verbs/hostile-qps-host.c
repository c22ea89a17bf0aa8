// SPDX-License-Identifier: GPL-2.0
/*
 * What hostile-qps leaves at the host.  A peer that repeats one captured request does not fill the memory of the
 * kernel, and wrong calls do not fill its log.
 *
 * It has QPs join and leave multicast groups, also while another QP, the last one in the group, leaves.
 */
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>

#include "hostile-qps.h"

/* ---- The memory of the kernel ---- */

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
	/* A kernel that has queued all of them would answer them first. */
	ASSERT_LT(most, MOST_KIB) {
		rxe_modify_qp(&rig->flow.qp, IBV_QPS_ERR);
	}
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
