// SPDX-License-Identifier: GPL-2.0
/*
 * The provider of siw (iWARP in software) refuses what its device does not have, with a positive error that names the first
 * request that was not posted.
 *
 *	siw-post ADDRESS	both ends, on this machine, whose siw device has ADDRESS; prints KTAP
 */
#include <err.h>
#include <kselftest_harness.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>

#define PORT	"7475"
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)
#define DEPTH	8
#define PATIENCE	300	/* seconds: of an emulated machine that is busy */

static const char *address;
static struct rdma_conn_param param = { .responder_resources = 1, .initiator_depth = 1 };

FIXTURE(connected) {
	struct rdma_cm_id *listener, *target, *initiator;
	struct ibv_mr *theirs, *ours;
	pthread_t accepter;
	__u64 memory, data;
	struct ibv_sge sge;
	struct ibv_send_wr write, *bad;
};

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info) || rdma_create_ep(&id, info, NULL, &attr))
		err(1, "%s", address);
	rdma_freeaddrinfo(info);
	return id;
}

static void *accept_one(void *arg)
{
	FIXTURE_DATA(connected) *self = arg;

	if (rdma_get_request(self->listener, &self->target) || rdma_accept(self->target, &param))
		err(1, "accept");
	return NULL;
}

FIXTURE_SETUP(connected)
{
	self->listener = endpoint(RAI_PASSIVE);
	ASSERT_EQ(0, rdma_listen(self->listener, 1));
	ASSERT_EQ(0, pthread_create(&self->accepter, NULL, accept_one, self));
	self->initiator = endpoint(0);
	ASSERT_EQ(0, rdma_connect(self->initiator, &param));
	ASSERT_EQ(0, pthread_join(self->accepter, NULL));
	self->data = 0x0123456789abcdef;
	self->ours = ibv_reg_mr(self->initiator->pd, &self->data, sizeof(self->data), ACCESS);
	self->theirs = ibv_reg_mr(self->target->pd, &self->memory, sizeof(self->memory), ACCESS);
	ASSERT_NE(NULL, self->ours);
	ASSERT_NE(NULL, self->theirs);
	self->sge = (struct ibv_sge){
		.addr = (uintptr_t)&self->data, .length = sizeof(self->data), .lkey = self->ours->lkey };
	self->write = (struct ibv_send_wr){
		.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .sg_list = &self->sge, .num_sge = 1,
		.wr.rdma = { .remote_addr = (uintptr_t)&self->memory, .rkey = self->theirs->rkey } };
}

FIXTURE_TEARDOWN(connected)
{
	rdma_disconnect(self->initiator);
	ibv_dereg_mr(self->ours);
	ibv_dereg_mr(self->theirs);
	rdma_destroy_ep(self->initiator);
	rdma_destroy_ep(self->target);
	rdma_destroy_ep(self->listener);
}

#define EXPECT_WRITTEN() do {								\
	struct ibv_wc wc;								\
	while (!ibv_poll_cq(self->initiator->send_cq, 1, &wc))				\
		;									\
	EXPECT_EQ(IBV_WC_SUCCESS, wc.status);						\
} while (0)

/* So the errors below are not those of a connection that does nothing. */
TEST_F_TIMEOUT(connected, posts_what_it_has, PATIENCE)
{
	ASSERT_EQ(0, ibv_post_send(self->initiator->qp, &self->write, &self->bad));
	EXPECT_WRITTEN();
	while (*(volatile __u64 *)&self->memory != self->data)
		;
}

FIXTURE(opcode) {};
FIXTURE_VARIANT(opcode) { enum ibv_wr_opcode opcode; };
#define OPCODE(name_, opcode_) FIXTURE_VARIANT_ADD(opcode, name_) { .opcode = opcode_ }
OPCODE(flush, IBV_WR_FLUSH);
OPCODE(atomic_write, IBV_WR_ATOMIC_WRITE);
OPCODE(compare_and_swap, IBV_WR_ATOMIC_CMP_AND_SWP);
OPCODE(fetch_and_add, IBV_WR_ATOMIC_FETCH_AND_ADD);
OPCODE(far_beyond, 4096);
FIXTURE_SETUP(opcode) {}
FIXTURE_TEARDOWN(opcode) {}

/* A QP that is not connected will do: an opcode is looked at before. */
TEST_F_TIMEOUT(opcode, is_refused, PATIENCE)
{
	struct ibv_send_wr wr = { .opcode = variant->opcode }, *bad = NULL;
	struct rdma_cm_id *id = endpoint(0);

	EXPECT_EQ(EINVAL, ibv_post_send(id->qp, &wr, &bad));
	EXPECT_EQ(&wr, bad);
	rdma_destroy_ep(id);
}

/* The WRITE is sent, and the doorbell for it succeeds. */
TEST_F_TIMEOUT(connected, names_the_request_of_a_list_that_it_refuses, PATIENCE)
{
	struct ibv_send_wr atomic = { .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD };

	self->write.next = &atomic;
	EXPECT_EQ(EINVAL, ibv_post_send(self->initiator->qp, &self->write, &self->bad));
	EXPECT_EQ(&atomic, self->bad);
	EXPECT_WRITTEN();
}

TEST_F_TIMEOUT(connected, returns_positive_errors, PATIENCE)
{
	struct ibv_recv_wr wr = { .num_sge = 1, .sg_list = &self->sge }, *bad = NULL;
	int posted = 0, error;

	while (!(error = ibv_post_recv(self->initiator->qp, &wr, &bad)) && posted < 4096)
		posted++;
	EXPECT_LE(DEPTH, posted);
	EXPECT_EQ(ENOMEM, error);
	EXPECT_EQ(&wr, bad);

	wr.num_sge = 64;
	EXPECT_LT(0, ibv_post_recv(self->initiator->qp, &wr, &bad));
	self->write.num_sge = 64;
	EXPECT_EQ(EINVAL, ibv_post_send(self->initiator->qp, &self->write, &self->bad));
	EXPECT_EQ(&self->write, self->bad);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		errx(2, "usage: siw-post ADDRESS");
	address = argv[1];
	/* The harness has options of its own. */
	return test_harness_run(1, argv);
}
