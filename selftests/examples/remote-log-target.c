// SPDX-License-Identifier: GPL-2.0
/*
 * The target of the remote log: lends its persistent memory to initiators, and does nothing else.
 *
 *	remote-log-target ADDRESS DEVICE
 *
 * DEVICE is a device DAX such as /dev/dax0.0.  Serves on ADDRESS, or ADDRESS:PORT, until it is killed.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>

#include "remote-log-connection.h"
#include "remote-log.h"

/* Listen on @address, so that it is known which RDMA device serves. */
static struct rdma_cm_id *bind_to(const char *address)
{
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_addrinfo *info = log_address(address, RAI_PASSIVE);
	struct rdma_cm_id *id;

	if (!channel || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP))
		err(1, "rdma_cm");
	if (rdma_bind_addr(id, info->ai_src_addr) || !id->verbs)
		err(1, "%s is no address of an RDMA device", address);
	rdma_freeaddrinfo(info);
	return id;
}

/*
 * What an initiator may do with the memory: write and read it, and have it flushed.  FLUSH has
 * access flags of its own because not all memory can keep its promise.
 */
static struct ibv_mr *register_memory(struct ibv_pd *pd, void *memory, size_t size)
{
	struct ibv_mr *mr;

	log_ask_device(pd->context);
	mr = ibv_reg_mr(pd, memory, size,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
			IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT);
	if (!mr && errno == EINVAL)
		errx(1, "ibv_reg_mr: refused: not persistent memory");
	if (!mr)
		err(1, "ibv_reg_mr");
	return mr;
}

/* The private data of the connection carries all that the initiator has to know. */
static void accept_initiator(struct rdma_cm_id *id, const struct rdma_conn_param *asked,
			     struct ibv_pd *pd, const struct log_region *region)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct rdma_conn_param param = {
		.private_data = region,
		.private_data_len = sizeof(*region),
		/* As many READ, FLUSH and ATOMIC WRITE at once as the initiator would like. */
		.responder_resources = asked->responder_resources,
		.rnr_retry_count = 7,
	};

	/* An initiator may have changed its mind.  That is no reason to leave the others. */
	if (rdma_create_qp(id, pd, &attr)) {
		warn("an initiator has gone: rdma_create_qp");
		rdma_destroy_id(id);
	} else if (rdma_accept(id, &param)) {
		warn("an initiator has gone: rdma_accept");
		rdma_destroy_qp(id);
		rdma_destroy_id(id);
	}
}

static void serve(struct rdma_cm_id *listener, struct ibv_pd *pd, const struct log_region *region)
{
	struct rdma_conn_param asked;
	struct rdma_cm_event *event;
	struct rdma_cm_id *id;

	while (!rdma_get_cm_event(listener->channel, &event)) {
		id = event->id;
		switch (event->event) {
		case RDMA_CM_EVENT_CONNECT_REQUEST:
			/* An id can't go while one of its events is not given back. */
			asked = event->param.conn;
			rdma_ack_cm_event(event);
			accept_initiator(id, &asked, pd, region);
			break;
		case RDMA_CM_EVENT_CONNECT_ERROR:
		case RDMA_CM_EVENT_UNREACHABLE:
		case RDMA_CM_EVENT_REJECTED:
			rdma_ack_cm_event(event);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			break;
		case RDMA_CM_EVENT_DISCONNECTED:
			rdma_ack_cm_event(event);
			rdma_disconnect(id);
			rdma_destroy_qp(id);
			rdma_destroy_id(id);
			puts("an initiator has left");
			break;
		case RDMA_CM_EVENT_ESTABLISHED:
			rdma_ack_cm_event(event);
			puts("an initiator is connected");
			break;
		default:
			rdma_ack_cm_event(event);
		}
	}
	err(1, "rdma_get_cm_event");
}

int main(int argc, char **argv)
{
	struct log_region region = { };
	struct rdma_cm_id *listener;
	struct ibv_mr *mr;
	struct ibv_pd *pd;
	void *memory;
	size_t size;

	if (argc != 3)
		errx(1, "usage: remote-log-target ADDRESS DEVICE");
	setlinebuf(stdout);
	memory = log_map(argv[2], O_RDWR, &size);
	listener = bind_to(argv[1]);
	pd = ibv_alloc_pd(listener->verbs);
	if (!pd)
		err(1, "ibv_alloc_pd");
	mr = register_memory(pd, memory, size);
	region.addr = (uintptr_t)memory;
	region.size = size;
	region.rkey = mr->rkey;
	if (rdma_listen(listener, 1))
		err(1, "rdma_listen");
	/* An initiator may connect once this is printed. */
	printf("%zu MiB of %s registered: write, read, FLUSH global and persistent\n", size >> 20,
	       argv[2]);
	serve(listener, pd, &region);
}
