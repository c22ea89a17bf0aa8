// SPDX-License-Identifier: GPL-2.0
/* Shared by the programs of the remote log that use RDMA, see remote-log-connection.h. */
#include <err.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "remote-log-connection.h"
#include "remote-log.h"

const struct rdma_conn_param log_conn_param = {
	.initiator_depth = DEPTH,
	.retry_count = RETRIES,
	.rnr_retry_count = 7,
};

struct rdma_addrinfo *log_address(const char *text, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;
	char *address = strdup(text);
	char *name = address, *colon;
	char port[8];

	if (!address)
		err(1, "%s", text);
	snprintf(port, sizeof(port), "%d", LOG_PORT);
	colon = strrchr(address, ':');
	/* An IPv6 address has several colons, and in brackets if a port follows. */
	if (colon && (colon == strchr(address, ':') || colon[-1] == ']')) {
		*colon = 0;
		snprintf(port, sizeof(port), "%s", colon + 1);
	}
	if (*name == '[' && name[strlen(name) - 1] == ']') {
		name[strlen(name) - 1] = 0;
		name++;
	}
	if (rdma_getaddrinfo(name, port, &hints, &info))
		err(1, "%s", text);
	free(address);
	return info;
}

void log_ask_device(struct ibv_context *context)
{
	const __u64 needed = IB_UVERBS_DEVICE_FLUSH_PERSISTENT | /* in the headers of Linux 6.2 or newer */
			     IB_UVERBS_DEVICE_ATOMIC_WRITE;
	struct ibv_device_attr_ex attr = {};

	if (ibv_query_device_ex(context, NULL, &attr))
		err(1, "ibv_query_device_ex");
	if ((attr.device_cap_flags_ex & needed) != needed)
		errx(1, "%s has no FLUSH to persistence, or no ATOMIC WRITE: use Soft-RoCE of Linux 6.2 or newer, or SEND to a program of the target that makes the data durable and answers",
		     ibv_get_device_name(context->device));
}

/* ibv_wr_flush() and ibv_wr_atomic_write() want an extended queue pair, which names what it will post. */
void log_create_qp(struct log_connection *connection, struct ibv_pd *pd, __u8 ack_timeout)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			/* One more, for what is stored beside the appends. */
			.max_send_wr = (MAX_APPENDS + 1) * REQUESTS_PER_APPEND,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | (pd ? IBV_QP_INIT_ATTR_PD : 0),
		.pd = pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};

	if (rdma_set_option(connection->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
			    sizeof(ack_timeout)))
		err(1, "rdma_set_option");
	log_ask_device(connection->id->verbs);
	if (rdma_create_qp_ex(connection->id, &attr)) {
		if (errno == EOPNOTSUPP)
			errx(1, "libibverbs posts no FLUSH or no ATOMIC WRITE to %s: install rdma-core 45 or newer",
			     ibv_get_device_name(connection->id->verbs->device));
		err(1, "rdma_create_qp_ex");
	}
	connection->qp = ibv_qp_to_qp_ex(connection->id->qp);
}

void log_learn_region(struct log_connection *connection, const struct rdma_conn_param *got,
		      const char *address)
{
	if (got->private_data_len < sizeof(connection->region))
		errx(1, "%s: the target does not say where its log is", address);
	memcpy(&connection->region, got->private_data, sizeof(connection->region));
	/* Not more at once than the target has resources for, which may be less than was asked. */
	connection->max_appends = MIN(got->initiator_depth, DEPTH) / CREDITS_PER_APPEND;
	if (!connection->max_appends)
		errx(1, "%s: the target takes %u requests at once, an append has %u", address,
		     got->initiator_depth, CREDITS_PER_APPEND);
}

bool log_completed(struct log_connection *connection, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(connection->id, &wc) != 1)
		err(1, "rdma_get_send_comp");
	if (wc.status != IBV_WC_SUCCESS) {
		warnx("completion with status: %s", ibv_wc_status_str(wc.status));
		return false;
	}
	if (wc.opcode != opcode)
		errx(1, "completion of opcode %d, not %d", wc.opcode, opcode);
	return true;
}

/*
 * Write @size bytes of @data to @where in the log, then make them count with a store of 8 bytes,
 * @pointer, to @pointer_where: four requests in one post, with no waiting in between.
 *
 * The order holds although nothing is waited for: ATOMIC WRITE takes effect only after the FLUSH
 * before it, so the pointer is never durable before what it points to.  Each FLUSH speaks for the
 * bytes that it names and no others: the first for the data, the second for the pointer.  The only
 * completion is that of the second; FLUSHes are executed in order, so with it both are durable.
 */
int log_publish(struct log_connection *connection, __u64 where, const void *data, size_t size, __u32 lkey,
		__u64 pointer_where, const void *pointer, __u64 wr_id)
{
	__u64 base = connection->region.addr;
	__u32 rkey = connection->region.rkey;
	struct ibv_qp_ex *qp = connection->qp;

	ibv_wr_start(qp);

	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, rkey, base + where);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)data, size);
	ibv_wr_flush(qp, rkey, base + where, size, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	ibv_wr_atomic_write(qp, rkey, base + pointer_where, pointer);

	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, rkey, base + pointer_where, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);

	return ibv_wr_complete(qp);
}

/* Store 8 bytes, @value, at @where in the log, untorn; durable with the only completion. */
int log_store(struct log_connection *connection, __u64 where, const void *value, __u64 wr_id)
{
	__u64 base = connection->region.addr;
	__u32 rkey = connection->region.rkey;
	struct ibv_qp_ex *qp = connection->qp;

	ibv_wr_start(qp);

	qp->wr_flags = 0;
	ibv_wr_atomic_write(qp, rkey, base + where, value);

	qp->wr_id = wr_id;
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, rkey, base + where, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);

	return ibv_wr_complete(qp);
}
