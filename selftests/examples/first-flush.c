// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest program with a FLUSH in it; Documentation/first-flush.rst explains it.
 *
 *	first-flush target ADDRESS	lends some memory, and prints what is there in the end
 *	first-flush initiator ADDRESS	writes into it, and learns when all can see it
 */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define PORT	"7473"

/* What the target tells: where its memory is, and by which key it can be reached. */
struct region {
	uint64_t addr;
	uint32_t rkey;
};

/*
 * An end of the connection with its queue pair; a listener makes one for each end that it accepts.
 * Without an event channel of our own, each call of rdma_cm waits until it is done.
 */
static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 2,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
	};
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info) ||
	    rdma_create_ep(&id, info, NULL, &attr))
		err(1, "%s", address);
	rdma_freeaddrinfo(info);
	return id;
}

/* ask-begin */
static void ask(struct ibv_context *context, bool posts)
{
	struct ibv_device_attr_ex attr = {};

	if (ibv_query_device_ex(context, NULL, &attr))
		err(1, "ibv_query_device_ex");
	if (!(attr.device_cap_flags_ex & IBV_DEVICE_FLUSH_GLOBAL))
		errx(1, "%s has no FLUSH: ibv_devinfo -v tells what it has",
		     ibv_get_device_name(context->device));
	/* Only who posts cares: rdma_post_flush() calls ibv_post_send(). */
	if (posts && !(attr.post_send_ops_flags & IBV_QP_EX_WITH_FLUSH))
		errx(1, "ibv_post_send() of this rdma-core does not take FLUSH");
}
/* ask-end */

/* target-begin */
static void target(const char *address)
{
	static char memory[64] = "nothing";
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	struct rdma_conn_param param = { .responder_resources = 1, .rnr_retry_count = 7 };
	struct region region;
	struct ibv_mr *mr;
	struct ibv_wc wc;

	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "no initiator");
	ask(id->verbs, false);
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
static void write_and_flush(struct rdma_cm_id *id, const struct region *region,
			    struct ibv_mr *text)
{
	if (rdma_post_write(id, NULL, text->addr, text->length, text, 0,
			    region->addr, region->rkey))
		err(1, "rdma_post_write");
	if (rdma_post_flush(id, NULL, text->length, IBV_SEND_SIGNALED,
			    region->addr, region->rkey,
			    IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE))
		err(1, "rdma_post_flush");
}
/* post-end */

static void initiator(const char *address)
{
	static char text[] = "hello, all of you";
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 6 };
	struct rdma_cm_id *id = endpoint(address, 0);
	struct region region;
	struct ibv_mr *mr;

	ask(id->verbs, true);
	mr = rdma_reg_msgs(id, text, sizeof(text));
	if (!mr || rdma_connect(id, &param))
		err(1, "%s", address);
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));

	write_and_flush(id, &region, mr);
	completed(id, IBV_WC_FLUSH);
	puts("flushed: whoever looks at the memory sees the text");

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
