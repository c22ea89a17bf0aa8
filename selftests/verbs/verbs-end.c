// SPDX-License-Identifier: GPL-2.0
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "verbs-end.h"

#define PORT		1
#define DEADLINE_MS	60000
#define CQ_ENTRIES	1024
#define TIMEOUT		14	/* 67 ms */

/* Over Ethernet, the one of the interface's IPv4 address. */
static void find_gid(struct end *end)
{
	struct ibv_gid_entry entry;

	for (end->gid_index = 0;
	     !ibv_query_gid_ex(end->context, PORT, end->gid_index, &entry, 0); end->gid_index++) {
		end->gid = entry.gid;
		if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && !entry.gid.global.subnet_prefix)
			return;
	}
	errx(1, "no RoCEv2 GID with an IPv4 address");
}

void end_open(struct end *end)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list || !*list)
		errx(1, "no RDMA device");
	end->context = ibv_open_device(*list);
	ibv_free_device_list(list);
	if (!end->context)
		err(1, "ibv_open_device");
	find_gid(end);
	end->timeout = TIMEOUT;
	end->pd = ibv_alloc_pd(end->context);
	end->channel = ibv_create_comp_channel(end->context);
	end->cq = ibv_create_cq(end->context, CQ_ENTRIES, NULL, end->channel, 0);
	if (!end->pd || !end->cq)
		err(1, "ibv_create_cq");
}

struct end_address end_address(const struct end *end, const struct ibv_qp *qp)
{
	return (struct end_address){ .gid = end->gid, .qpn = qp->qp_num };
}

void end_connect_qp(struct end *end, struct ibv_qp *qp, unsigned int access,
		    const struct end_address *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = PORT,
		.qp_access_flags = access,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 16,
		.max_rd_atomic = 16,
		.min_rnr_timer = 12,
		.timeout = 19,		/* 2 s: the link loses nothing, but may be slow */
		.retry_cnt = 2,
		.rnr_retry = 7,
		.ah_attr = {
			.is_global = 1,
			.port_num = PORT,
			.grh = {
				.dgid = peer->gid,
				.sgid_index = end->gid_index,
				.hop_limit = 64,
			},
		},
	};

	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS))
		err(1, "ibv_modify_qp to INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				     IBV_QP_MIN_RNR_TIMER))
		err(1, "ibv_modify_qp to RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		err(1, "ibv_modify_qp to RTS");
}

struct ibv_wc end_completion(struct end *end)
{
	struct pollfd ready = { .fd = end->channel->fd, .events = POLLIN };
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *context;

	/* What comes between the two looks into the CQ raises an event. */
	while (!ibv_poll_cq(end->cq, 1, &wc)) {
		if (ibv_req_notify_cq(end->cq, 0))
			err(1, "ibv_req_notify_cq");
		if (ibv_poll_cq(end->cq, 1, &wc))
			break;
		if (poll(&ready, 1, DEADLINE_MS) != 1)
			errx(1, "no completion within %d s", DEADLINE_MS / 1000);
		if (ibv_get_cq_event(end->channel, &cq, &context))
			err(1, "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
	}
	return wc;
}

static struct addrinfo *resolve(const char *address)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *info;

	if (getaddrinfo(address, END_PORT, &hints, &info))
		errx(1, "%s: no address", address);
	return info;
}

int end_dial(const char *address)
{
	struct addrinfo *info = resolve(address);
	int fd = socket(info->ai_family, info->ai_socktype, 0);

	if (fd < 0 || connect(fd, info->ai_addr, info->ai_addrlen))
		err(1, "%s: no target", address);
	freeaddrinfo(info);
	return fd;
}

int end_serve(const char *address)
{
	struct addrinfo *info = resolve(address);
	int listener = socket(info->ai_family, info->ai_socktype, 0);
	int fd;

	if (listener < 0 || bind(listener, info->ai_addr, info->ai_addrlen) || listen(listener, 1))
		err(1, "%s", address);
	freeaddrinfo(info);
	puts("ready");
	fflush(stdout);
	fd = accept(listener, NULL, NULL);
	if (fd < 0)
		err(1, "accept");
	close(listener);
	return fd;
}

void end_send(int fd, const void *data, size_t size)
{
	if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
		err(1, "the other end is gone");
}

bool end_receive(int fd, void *data, size_t size)
{
	ssize_t got = recv(fd, data, size, MSG_WAITALL);

	if (got && got != (ssize_t)size)
		err(1, "the other end is gone");
	return got;
}
