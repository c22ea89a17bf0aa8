// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest program with a FLUSH in it; Documentation/first-flush.rst explains it.
 *
 *	first-flush target ADDRESS	lends some memory, and prints what is there in the end
 *	first-flush initiator ADDRESS	writes into it, and learns when all can see it
 *
 * It needs rdma-core 45 or newer, and the headers of Linux 6.2 or newer:
 *
 *	cc -o first-flush first-flush.c -lrdmacm -libverbs
 */
#include <err.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PORT	"7473"

/* Since rdma-core 45 the struct has wr_flush, the second member after wr_abort. */
_Static_assert(sizeof(struct ibv_qp_ex) >= offsetof(struct ibv_qp_ex, wr_abort) + 3 * sizeof(void *),
	       "this libibverbs has no ibv_wr_flush(): install rdma-core 45 or newer (libibverbs-dev)");

/* What the target tells: where its memory is, and by which key it can be reached. */
struct region {
	uint64_t addr;
	uint32_t rkey;
};

static const struct ibv_qp_cap queues = {
	.max_send_wr = 2,
	.max_recv_wr = 1,
	.max_send_sge = 1,
	.max_recv_sge = 1,
};

/*
 * An end of the connection, still without a queue pair.  It has no event channel of our own, so each call of
 * rdma_cm waits until it is done.
 */
static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info) ||
	    rdma_create_ep(&id, info, NULL, NULL))
		err(1, "%s", address);
	rdma_freeaddrinfo(info);
	return id;
}

/* ask-begin */
static void ask_device(struct ibv_context *context)
{
	struct ibv_device_attr_ex attr = {};

	if (ibv_query_device_ex(context, NULL, &attr))
		err(1, "ibv_query_device_ex");
	if (!(attr.device_cap_flags_ex & IB_UVERBS_DEVICE_FLUSH_GLOBAL)) /* in the headers of Linux 6.2 or newer */
		errx(1, "%s has no FLUSH: use Soft-RoCE of Linux 6.2 or newer, or SEND to a program of the target that answers",
		     ibv_get_device_name(context->device));
}

/* An extended queue pair names what it will post, so the library can say at once that it does not post it. */
static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = queues,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_SEND,
	};

	if (!rdma_create_qp_ex(id, &attr))
		return;
	if (errno == EOPNOTSUPP)
		errx(1, "libibverbs posts no FLUSH to %s: install rdma-core 45 or newer",
		     ibv_get_device_name(id->verbs->device));
	err(1, "rdma_create_qp_ex");
}
/* ask-end */

/* target-begin */
static void target(const char *address)
{
	static char memory[64] = "nothing";
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	struct rdma_conn_param param = { .responder_resources = 1, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = queues };
	struct region region;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "no initiator");
	ask_device(id->verbs);
	if (rdma_create_qp(id, NULL, &attr))
		err(1, "rdma_create_qp");
	mr = ibv_reg_mr(id->pd, memory, sizeof(memory),
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_FLUSH_GLOBAL);
	if (!mr)
		err(1, "ibv_reg_mr");
	region = (struct region){ .addr = (uintptr_t)memory, .rkey = mr->rkey };
	param.private_data = &region;
	param.private_data_len = sizeof(region);

	/* The initiator says by an empty message that it is done. */
	if (rdma_post_recvv(id, NULL, NULL, 0) || rdma_accept(id, &param))
		err(1, "rdma_accept");
	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		errx(1, "the initiator is gone");
	printf("in the target's memory: %s\n", memory);
}
/* target-end */

/* Wait for a request to be done. */
static void completed(struct rdma_cm_id *id, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(id, &wc) != 1)
		err(1, "rdma_get_send_comp");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "%s", ibv_wc_status_str(wc.status));
	if (wc.opcode != opcode)
		errx(1, "completion of opcode %d, not %d", wc.opcode, opcode);
}

/* post-begin */
static void write_and_flush(struct rdma_cm_id *id, const struct region *region, struct ibv_mr *text)
{
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);
	int ret;

	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, region->rkey, region->addr);
	ibv_wr_set_sge(qp, text->lkey, (uintptr_t)text->addr, text->length);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, region->rkey, region->addr, text->length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	ret = ibv_wr_complete(qp);
	if (ret)
		errx(1, "ibv_wr_complete: %s", strerror(ret));
}
/* post-end */

static void initiator(const char *address)
{
	static char text[] = "hello, all of you";
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 6 };
	struct rdma_cm_id *id = endpoint(address, 0);
	struct region region;
	struct ibv_mr *mr;

	ask_device(id->verbs);
	make_qp(id);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	if (!mr || rdma_connect(id, &param))
		err(1, "%s", address);
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));

	write_and_flush(id, &region, mr);
	completed(id, IBV_WC_FLUSH);
	puts("flushed: all that access the memory see the text");

	if (rdma_post_sendv(id, NULL, NULL, 0, IBV_SEND_SIGNALED))
		err(1, "rdma_post_sendv");
	completed(id, IBV_WC_SEND);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "target"))
		target(argv[2]);
	else if (argc == 3 && !strcmp(argv[1], "initiator"))
		initiator(argv[2]);
	else
		errx(1, "usage: first-flush target|initiator ADDRESS");
	return 0;
}
