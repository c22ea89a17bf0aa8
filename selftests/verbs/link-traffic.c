// SPDX-License-Identifier: GPL-2.0
/*
 * One connection whose two ends say how it is, while links come and go (suite churn).
 *
 *	link-traffic serve ADDRESS				any number of them; prints "ready" when it listens
 *	link-traffic talk DEVICE LOCAL ADDRESS REMOTE		one: by DEVICE, from LOCAL to REMOTE
 *
 * ADDRESS is where the two ends talk over TCP, which no step takes away.  Each end has an RC QP, with one request to
 * the other's memory at a time: a WRITE of two packets, then a READ of two, and so on.  It takes lines from stdin:
 *
 *	?			nothing
 *	pause, go		this end posts no request meanwhile
 *	pause there, go there	the other end
 *
 * Neither end posts before it is told to go.  With the user of the kernel module in place of `talk`, the first question is
 * enough.
 *
 * and answers each by "HERE ERROR THERE ERROR": how many requests each end has completed, and the status of the
 * completion that ended it (enum ibv_wc_status), or 0.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "timeout-scale.h"

#define TCP_PORT	7473
#define RDMA_PORT	1
#define BYTES		2048	/* two packets */
#define EVERY_MS	25
#define ACK_TIMEOUT	18	/* 1.1 s, as in struct ibv_qp_attr, and */
#define RETRIES		6	/* seven of these until a connection ends with an error */

/* Sent as it is: both ends are of one build. */
struct address {
	union ibv_gid gid;
	__u64 memory;
	__u32 rkey;
	__u32 qpn;
};

struct question {
	__u32 paused;
};

struct state {
	__u64 completed;
	__u64 error;	/* no padding, whose bytes would be anything */
};

static int every_ms;	/* EVERY_MS times timeout_scale(): a slow guest is there for more than the traffic */

struct traffic {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct address peer;
	struct state state;
	bool in_flight, goes;
	char memory[2 * BYTES];
};

static union ibv_gid gid_of(const char *address)
{
	union ibv_gid gid = {};

	if (inet_pton(AF_INET6, address, gid.raw) == 1)
		return gid;
	gid.raw[10] = gid.raw[11] = 0xff;
	if (inet_pton(AF_INET, address, gid.raw + 12) != 1)
		errx(2, "%s is no address", address);
	return gid;
}

static int gid_index(struct ibv_context *context, const union ibv_gid *gid)
{
	struct ibv_gid_entry entry;
	int i;

	for (i = 0; i < 64; i++)
		if (!ibv_query_gid_ex(context, RDMA_PORT, i, &entry, 0) && !memcmp(&entry.gid, gid, sizeof(*gid)))
			return i;
	return -1;
}

/* That of the name, or the first, which has the GID: its index, or -1. */
static int open_device(struct traffic *t, const char *name, const union ibv_gid *gid)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	int i, index = -1;

	for (i = 0; list && list[i] && index < 0; i++) {
		if (name && strcmp(ibv_get_device_name(list[i]), name))
			continue;
		t->context = ibv_open_device(list[i]);
		if (!t->context)
			continue;
		index = gid_index(t->context, gid);
		if (index < 0)
			ibv_close_device(t->context);
	}
	if (list)
		ibv_free_device_list(list);
	return index;
}

static void make_qp(struct traffic *t)
{
	struct ibv_qp_init_attr init = {
		.cap = { .max_send_wr = 4, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
	};

	t->pd = ibv_alloc_pd(t->context);
	t->cq = ibv_create_cq(t->context, 8, NULL, NULL, 0);
	if (!t->pd || !t->cq)
		err(2, "ibv_create_cq");
	t->mr = ibv_reg_mr(t->pd, t->memory, sizeof(t->memory),
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	init.send_cq = init.recv_cq = t->cq;
	t->qp = ibv_create_qp(t->pd, &init);
	if (!t->mr || !t->qp)
		err(2, "ibv_create_qp");
}

/* What a step does takes longer on a debug kernel, too. */
static int ack_timeout(void)
{
	unsigned int scale = timeout_scale();
	int timeout = ACK_TIMEOUT;

	for (; scale > 1; scale /= 2)
		timeout++;
	return timeout;
}

static void connect_qp(struct traffic *t, int index)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = RDMA_PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = t->peer.qpn,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = ack_timeout(),
		.retry_cnt = RETRIES,
		.ah_attr = {
			.is_global = 1,
			.port_num = RDMA_PORT,
			.grh = { .dgid = t->peer.gid, .sgid_index = index, .hop_limit = 64 },
		},
	};

	if (ibv_modify_qp(t->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		err(2, "ibv_modify_qp to INIT");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(t->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		err(2, "ibv_modify_qp to RTR");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(t->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
					IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC))
		err(2, "ibv_modify_qp to RTS");
}

/* At most one request is under way. */
static void go_on(struct traffic *t)
{
	struct ibv_sge sge = { .addr = (uintptr_t)t->memory, .length = BYTES, .lkey = t->mr->lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = t->state.completed % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = t->peer.memory + BYTES, .rkey = t->peer.rkey },
	};
	struct ibv_wc wc;

	if (t->state.error)
		return;
	if (t->in_flight && ibv_poll_cq(t->cq, 1, &wc) == 1) {
		t->in_flight = false;
		t->state.error = wc.status;
		t->state.completed += !wc.status;
	}
	if (t->in_flight || t->state.error || !t->goes)
		return;
	if (ibv_post_send(t->qp, &wr, &bad))
		t->state.error = IBV_WC_GENERAL_ERR;
	else
		t->in_flight = true;
}

static bool receive(int fd, void *data, size_t size)
{
	return recv(fd, data, size, MSG_WAITALL) == (ssize_t)size;
}

static void tell(int fd, const void *data, size_t size)
{
	if (send(fd, data, size, MSG_NOSIGNAL) != (ssize_t)size)
		errx(2, "the other end is gone");
}

/* LOCAL of the one that serves is the address that the other wants to reach. */
static void open_traffic(struct traffic *t, int fd, const char *device, const union ibv_gid *local)
{
	struct address own = { .gid = *local };
	unsigned int tries = 200 * timeout_scale();
	int index;

	/* A new GID comes a moment after its address. */
	while ((index = open_device(t, device, local)) < 0) {
		if (!--tries)
			errx(2, "no device %s has the address", device ?: "");
		usleep(20000);
	}
	make_qp(t);
	own.memory = (uintptr_t)t->memory;
	own.rkey = t->mr->rkey;
	own.qpn = t->qp->qp_num;
	tell(fd, &own, sizeof(own));
	if (!receive(fd, &t->peer, sizeof(t->peer)))
		errx(2, "the other end is gone");
	connect_qp(t, index);
}

static void serve_one(int fd)
{
	static struct traffic traffic;
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	struct question question;
	union ibv_gid local;

	if (!receive(fd, &local, sizeof(local)))
		return;
	open_traffic(&traffic, fd, NULL, &local);
	for (;;) {
		go_on(&traffic);
		if (!poll(&ready, 1, every_ms))
			continue;
		if (!receive(fd, &question, sizeof(question)))
			return;
		traffic.goes = !question.paused;
		tell(fd, &traffic.state, sizeof(traffic.state));
	}
}

static void serve(const char *address)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT) };
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int fd, on = 1;

	signal(SIGCHLD, SIG_IGN);
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	inet_pton(AF_INET, address, &name.sin_addr);
	if (bind(listener, (void *)&name, sizeof(name)) || listen(listener, 16))
		err(2, "%s", address);
	puts("ready");
	fflush(stdout);
	while ((fd = accept(listener, NULL, NULL)) >= 0) {
		if (!fork()) {
			close(listener);
			serve_one(fd);
			_exit(0);
		}
		close(fd);
	}
	err(2, "accept");
}

static int dial(const char *address)
{
	struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(TCP_PORT) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	inet_pton(AF_INET, address, &name.sin_addr);
	if (connect(fd, (void *)&name, sizeof(name)))
		err(2, "%s", address);
	return fd;
}

/* This end goes on while it waits for the answer. */
static struct state ask(struct traffic *t, int fd, bool paused)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };
	struct question question = { .paused = paused };
	struct state there;

	tell(fd, &question, sizeof(question));
	while (!poll(&ready, 1, every_ms))
		go_on(t);
	if (!receive(fd, &there, sizeof(there)))
		errx(2, "the other end is gone");
	return there;
}

static void talk(char **argv)
{
	static struct traffic traffic;
	union ibv_gid local = gid_of(argv[1]), remote = gid_of(argv[3]);
	struct pollfd ready = { .fd = STDIN_FILENO, .events = POLLIN };
	int fd = dial(argv[2]);
	bool paused_there = true;
	struct state there;
	char line[32];
	ssize_t got;

	tell(fd, &remote, sizeof(remote));
	open_traffic(&traffic, fd, argv[0], &local);
	puts("connected");
	fflush(stdout);
	for (;;) {
		go_on(&traffic);
		if (!poll(&ready, 1, every_ms))
			continue;
		got = read(STDIN_FILENO, line, sizeof(line) - 1);
		if (got <= 0)
			return;
		line[got] = 0;
		if (strstr(line, "there"))
			paused_there = !strcmp(line, "pause there\n");
		else if (line[0] != '?')
			traffic.goes = !strcmp(line, "go\n");
		there = ask(&traffic, fd, paused_there);
		printf("%llu %llu %llu %llu\n", traffic.state.completed, traffic.state.error,
		       there.completed, there.error);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	every_ms = EVERY_MS * timeout_scale();
	if (argc == 3 && !strcmp(argv[1], "serve"))
		serve(argv[2]);
	else if (argc == 6 && !strcmp(argv[1], "talk"))
		talk(argv + 2);
	else
		errx(2, "usage: link-traffic serve ADDRESS | talk DEVICE LOCAL ADDRESS REMOTE");
	return 0;
}
