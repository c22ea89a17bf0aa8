// SPDX-License-Identifier: GPL-2.0
/*
 * A QP uses the depth that rdma_cm has agreed on.  If the target has no responder resources, a request that takes depth
 * is not sent and fails at once; a WRITE succeeds as always.  An initiator that asks for no depth gets what the target
 * offers; but the target's QP already has its rights by then, which are only the right to be written to.
 *
 *	cm-depth ADDRESS	both ends, on this machine, whose RDMA device has ADDRESS; prints KTAP
 */
#include <err.h>
#include <kselftest_harness.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <unistd.h>

#define PORT	"7474"
#define PATIENCE	300	/* seconds: of an emulated machine that is busy */
#define OPS	(IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
		 IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE)
#define ACCESS	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL)
#define OLD	0x0123456789abcdefull
#define NEW	0xfedcba9876543210ull

static const char *address;

FIXTURE(agreed) {
	struct rdma_cm_id *listener, *target, *initiator;
	struct ibv_mr *theirs, *ours;
	pthread_t accepter;
	__u64 memory, data;
	__u8 resources;
};

FIXTURE_VARIANT(agreed) {
	__u8 resources;	/* that the target offers */
	__u8 depth;	/* that the initiator asks for */
	enum ibv_wc_status status;
	enum ibv_wc_status of_atomic_write;
};

FIXTURE_VARIANT_ADD(agreed, nothing_offered) {
	.depth = 1, .status = IBV_WC_LOC_QP_OP_ERR, .of_atomic_write = IBV_WC_LOC_QP_OP_ERR };
FIXTURE_VARIANT_ADD(agreed, nothing_asked_for) {
	.resources = 1, .status = IBV_WC_REM_INV_REQ_ERR, .of_atomic_write = IBV_WC_SUCCESS };
FIXTURE_VARIANT_ADD(agreed, one) {
	.resources = 1, .depth = 1, .status = IBV_WC_SUCCESS, .of_atomic_write = IBV_WC_SUCCESS };

static struct rdma_cm_id *endpoint(int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP }, *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info) || rdma_create_ep(&id, info, NULL, NULL))
		err(1, "%s", address);
	rdma_freeaddrinfo(info);
	return id;
}

static void create_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = OPS,
	};

	if (rdma_create_qp_ex(id, &attr))
		err(1, "a QP with all requests that take depth");
}

static void *accept_one(void *arg)
{
	FIXTURE_DATA(agreed) *self = arg;
	struct rdma_conn_param param = { .responder_resources = self->resources, .rnr_retry_count = 7 };

	if (rdma_get_request(self->listener, &self->target))
		err(1, "no initiator");
	create_qp(self->target);
	self->theirs = ibv_reg_mr(self->target->pd, &self->memory, sizeof(self->memory), ACCESS);
	if (!self->theirs || rdma_accept(self->target, &param))
		err(1, "rdma_accept");
	return NULL;
}

FIXTURE_SETUP(agreed)
{
	struct rdma_conn_param param = { .initiator_depth = variant->depth, .retry_count = 7 };

	self->memory = OLD;
	self->data = NEW;
	self->resources = variant->resources;
	self->listener = endpoint(RAI_PASSIVE);
	ASSERT_EQ(0, rdma_listen(self->listener, 1));
	ASSERT_EQ(0, pthread_create(&self->accepter, NULL, accept_one, self));
	self->initiator = endpoint(0);
	create_qp(self->initiator);
	self->ours = ibv_reg_mr(self->initiator->pd, &self->data, sizeof(self->data), IBV_ACCESS_LOCAL_WRITE);
	ASSERT_NE(NULL, self->ours);
	ASSERT_EQ(0, rdma_connect(self->initiator, &param));
	ASSERT_EQ(0, pthread_join(self->accepter, NULL));
}

FIXTURE_TEARDOWN(agreed)
{
	ibv_dereg_mr(self->ours);
	ibv_dereg_mr(self->theirs);
	rdma_destroy_ep(self->initiator);
	rdma_destroy_ep(self->target);
	rdma_destroy_ep(self->listener);
}

/* The completion of what was posted since ibv_wr_start(). */
static enum ibv_wc_status completed(struct __test_metadata *_metadata, struct rdma_cm_id *id)
{
	struct ibv_wc wc = { .status = IBV_WC_GENERAL_ERR };

	EXPECT_EQ(0, ibv_wr_complete(ibv_qp_to_qp_ex(id->qp)));
	EXPECT_EQ(1, rdma_get_send_comp(id, &wc));
	return wc.status;
}

static struct ibv_qp_ex *start(struct rdma_cm_id *id)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	return qp;
}

/* A WRITE takes no depth.  What does, is as the variant says, and what is not sent changes nothing. */
#define AGREED(name, want, post, after) \
TEST_F_TIMEOUT(agreed, name, PATIENCE) \
{ \
	__u32 rkey = self->theirs->rkey, lkey = self->ours->lkey; \
	__u64 va = (uintptr_t)&self->memory, value = OLD + 1; \
	struct ibv_qp_ex *qp = start(self->initiator); \
\
	ibv_wr_rdma_write(qp, rkey, va); \
	ibv_wr_set_sge(qp, lkey, (uintptr_t)&self->data, sizeof(self->data)); \
	ASSERT_EQ(IBV_WC_SUCCESS, completed(_metadata, self->initiator)); \
	EXPECT_EQ(NEW, self->memory); \
	qp = start(self->initiator); \
	post; \
	EXPECT_EQ(variant->want, completed(_metadata, self->initiator)); \
	EXPECT_EQ(variant->want == IBV_WC_SUCCESS ? (after) : NEW, self->memory); \
	(void)value; \
}

AGREED(flush, status, ibv_wr_flush(qp, rkey, va, 8, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE), NEW)
AGREED(atomic_write, of_atomic_write, ibv_wr_atomic_write(qp, rkey, va, &value), value)
AGREED(read, status, ({ ibv_wr_rdma_read(qp, rkey, va);
			ibv_wr_set_sge(qp, lkey, (uintptr_t)&self->data, 8); }), NEW)
AGREED(fetch_add, status, ({ ibv_wr_atomic_fetch_add(qp, rkey, va, 1);
			     ibv_wr_set_sge(qp, lkey, (uintptr_t)&self->data, 8); }), NEW + 1)

int main(int argc, char **argv)
{
	if (argc != 2)
		errx(2, "usage: cm-depth ADDRESS");
	address = argv[1];
	return test_harness_run(1, argv);
}
