// SPDX-License-Identifier: GPL-2.0
/*
 * All operations of an RC queue pair, mixed by chance and many at once, some of them with a fence, against a
 * model.
 *
 *	mixed-ops target ADDRESS DEVICE [INITIATORS]	lends a device DAX until it is killed; several
 *							initiators get a part each, when all of
 *							them are connected
 *	mixed-ops initiator ADDRESS OPERATIONS SEED MODEL [KIND...]
 *	mixed-ops compare DEVICE MODEL			is the device's first part as the model has it?
 *
 * KIND is send, write, read, flush, atomic-write, fetch-add or cmp-swap; all of them if none is given.
 * ACK_TIMEOUT in the environment is when to send again, as in struct ibv_qp_attr.
 *
 * The initiator keeps a model of the target's memory: each operation that it posts it also executes
 * there.  A queue pair executes its operations in order, so the model knows what each READ, FETCH
 * ADD and CMP SWAP has to bring back, whatever the network loses, doubles or reorders.  At the end
 * the model goes to the file MODEL.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "prng.h"
#include "remote-log.h"

#define DEPTH		16	/* READ, Atomics, FLUSH, ATOMIC WRITE in flight */
#define WINDOW		32	/* all that is in flight */
#define BLOCK		4096	/* more than one packet, so that a part of a message can get lost */
#define BLOCKS		64
#define RECEIVES	64	/* blocks for what is sent, after the others, taken in turn */
#define MEMORY		((BLOCKS + RECEIVES) * BLOCK)
#define START		2040	/* of the first part; a block does not begin where a page does */
#define RIGHTS		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | \
			 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
			 IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT)

/* 16 ms: most of what is lost is found out by what follows it. */
#define ACK_TIMEOUT	16		/* 268 ms: after eight of them the request fails */

enum kind { SEND, WRITE, READ, FLUSH, ATOMIC_WRITE, FETCH_ADD, CMP_SWAP, KINDS };

static const char *const name_of[KINDS] = {
	[SEND]		= "send",
	[WRITE]		= "write",
	[READ]		= "read",
	[FLUSH]		= "flush",
	[ATOMIC_WRITE]	= "atomic-write",
	[FETCH_ADD]	= "fetch-add",
	[CMP_SWAP]	= "cmp-swap",
};

static const enum ibv_wc_opcode completion_of[KINDS] = {
	[SEND]		= IBV_WC_SEND,
	[WRITE]		= IBV_WC_RDMA_WRITE,
	[READ]		= IBV_WC_RDMA_READ,
	[FLUSH]		= IBV_WC_FLUSH,
	[ATOMIC_WRITE]	= IBV_WC_ATOMIC_WRITE,
	[FETCH_ADD]	= IBV_WC_FETCH_ADD,
	[CMP_SWAP]	= IBV_WC_COMP_SWAP,
};

/* One operation in flight. */
struct operation {
	enum kind kind;
	unsigned int block;
	size_t len;
	char expected[BLOCK];	/* what is to come back */
	char buffer[BLOCK];	/* what comes back, or what is written */
};

struct initiator {
	struct rdma_cm_id *id;
	struct ibv_qp_ex *qp;
	struct log_region region;
	struct prng prng;
	enum kind kinds[KINDS];		/* to choose from */
	unsigned int num_kinds;
	struct operation operations[WINDOW];
	struct ibv_mr *mr;
	__u64 posted, completed;
	__u64 count[KINDS];
	__u64 persistent;		/* of the FLUSHes */
	unsigned int reads[BLOCKS];	/* in flight */
	char model[MEMORY] __attribute__((aligned(8)));
};

static void check(int ret, const char *what)
{
	if (ret)
		err(1, "%s", what);
}

/* Without a channel each step waits until it is done. */
static struct rdma_cm_id *make_id(const char *address, int flags, struct rdma_event_channel *channel)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;
	char port[8];

	snprintf(port, sizeof(port), "%d", LOG_PORT);
	check(rdma_getaddrinfo(address, port, &hints, &info), address);
	check(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), "rdma_create_id");
	if (flags & RAI_PASSIVE) {
		check(rdma_bind_addr(id, info->ai_src_addr), address);
	} else {
		check(rdma_resolve_addr(id, NULL, info->ai_dst_addr, 10000), address);
		check(rdma_resolve_route(id, 10000), address);
	}
	rdma_freeaddrinfo(info);
	return id;
}

/* What a target does for one initiator. */
struct connection {
	struct rdma_cm_id *id;
	struct ibv_mr *mr, *blocks;
	char *memory;
	unsigned int received;
};

static void receive(struct connection *me)
{
	char *block = (char *)me->blocks->addr + me->received++ % RECEIVES * BLOCK;

	check(rdma_post_recv(me->id, NULL, block, BLOCK, me->blocks), "rdma_post_recv");
}

/* Until the initiator goes. */
static void *receive_all(void *connection)
{
	struct connection *me = connection;
	struct ibv_wc wc;

	while (rdma_get_recv_comp(me->id, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
		receive(me);
	return NULL;
}

/* All that is to be done for it before it may begin. */
static void prepare(struct connection *me, struct rdma_cm_id *id, struct ibv_pd *pd, char *memory)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 1, .max_recv_wr = RECEIVES, .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};

	me->id = id;
	me->memory = memory;
	memset(memory, 0, MEMORY);
	me->mr = ibv_reg_mr(pd, memory, MEMORY, RIGHTS);
	if (!me->mr)
		err(1, "ibv_reg_mr");
	/* The same memory by a key that permits no FLUSH. */
	me->blocks = ibv_reg_mr(pd, memory + BLOCKS * BLOCK, RECEIVES * BLOCK,
				IBV_ACCESS_LOCAL_WRITE);
	if (!me->blocks)
		err(1, "ibv_reg_mr to receive into");
	check(rdma_create_qp(id, pd, &attr), "rdma_create_qp");
	while (me->received < RECEIVES)
		receive(me);
}

static void accept_initiator(struct connection *me)
{
	struct log_region region = {
		.addr = (uintptr_t)me->memory, .size = MEMORY, .rkey = me->mr->rkey,
	};
	struct rdma_conn_param param = {
		.private_data = &region, .private_data_len = sizeof(region),
		.responder_resources = DEPTH, .initiator_depth = DEPTH, .rnr_retry_count = 7,
	};
	pthread_t thread;

	check(rdma_accept(me->id, &param), "rdma_accept");
	errno = pthread_create(&thread, NULL, receive_all, me);
	check(errno, "pthread_create");
}

static int target(const char *address, const char *device, unsigned int initiators)
{
	struct connection *connections = calloc(initiators, sizeof(*connections));
	struct rdma_event_channel *channel = rdma_create_event_channel();
	struct rdma_cm_id *listener;
	struct rdma_cm_event *event;
	unsigned int n = 0;
	struct ibv_pd *pd;
	char *memory;
	size_t size;

	if (!connections || !channel)
		err(1, "rdma_create_event_channel");
	memory = log_map(device, O_RDWR, &size);
	listener = make_id(address, RAI_PASSIVE, channel);
	pd = ibv_alloc_pd(listener->verbs);
	if (!pd)
		err(1, "ibv_alloc_pd");
	if (size < START + initiators * MEMORY)
		errx(1, "%s is too small: %zu bytes", device, size);
	check(rdma_listen(listener, initiators), "rdma_listen");
	while (n < initiators && !rdma_get_cm_event(channel, &event)) {
		if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			prepare(&connections[n], event->id, pd, memory + START + n * MEMORY);
			n++;
		}
		rdma_ack_cm_event(event);
	}
	while (n)
		accept_initiator(&connections[--n]);
	while (!rdma_get_cm_event(channel, &event))
		rdma_ack_cm_event(event);
	err(1, "rdma_get_cm_event");
}

static void connect_to(struct initiator *me, const char *address)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = WINDOW, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE |
				  IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
				  IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
	};
	struct rdma_conn_param param = {
		.responder_resources = DEPTH, .initiator_depth = DEPTH,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
	const char *asked = getenv("ACK_TIMEOUT");
	__u8 timeout = asked ? log_number(asked) : ACK_TIMEOUT;

	me->id = make_id(address, 0, NULL);
	check(rdma_set_option(me->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			      sizeof(timeout)), "RDMA_OPTION_ID_ACK_TIMEOUT");
	check(rdma_create_qp_ex(me->id, &attr), "rdma_create_qp_ex");
	me->qp = ibv_qp_to_qp_ex(me->id->qp);
	me->mr = ibv_reg_mr(me->id->pd, me->operations, sizeof(me->operations),
			    IBV_ACCESS_LOCAL_WRITE);
	if (!me->mr)
		err(1, "ibv_reg_mr");
	check(rdma_connect(me->id, &param), "rdma_connect");
	memcpy(&me->region, me->id->event->param.conn.private_data, sizeof(me->region));
}

/*
 * A READ whose response was lost is executed again, and may then see what later operations have
 * stored, since nothing is stored to a block that is being read.
 */
static unsigned int choose_block(struct initiator *me, enum kind kind)
{
	unsigned int block;

	if (kind == SEND)
		return BLOCKS + me->count[SEND] % RECEIVES;
	if (kind == FLUSH)
		return prng_below(&me->prng, BLOCKS + RECEIVES);
	do
		block = prng_below(&me->prng, BLOCKS);
	while (kind != READ && me->reads[block]);
	return block;
}

/* The place in the block: any bytes, or eight that are aligned. */
static unsigned int choose_range(struct initiator *me, struct operation *op)
{
	if (op->kind > FLUSH) {
		op->len = 8;
		return prng_below(&me->prng, BLOCK / 8) * 8;
	}
	op->len = 1 + prng_below(&me->prng, prng_once_in(&me->prng, 4) ? BLOCK : 64);
	return op->kind == SEND ? 0 : prng_below(&me->prng, BLOCK - op->len + 1);
}

static void post_flush(struct initiator *me, struct operation *op, __u64 va)
{
	__u32 type = 1 + prng_below(&me->prng, 3);

	me->persistent += !!(type & IBV_FLUSH_PERSISTENT);
	if (prng_once_in(&me->prng, 4))
		ibv_wr_flush(me->qp, me->region.rkey, 0, 0, type, IBV_FLUSH_MR);
	else
		ibv_wr_flush(me->qp, me->region.rkey, va, op->len, type, IBV_FLUSH_RANGE);
}

/* Post the operation and execute it in the model. */
static void perform(struct initiator *me, struct operation *op)
{
	unsigned int start = choose_range(me, op), i;
	char *place = me->model + op->block * BLOCK + start;
	__u64 va = me->region.addr + (place - me->model);
	__u32 rkey = me->region.rkey;
	__u64 value, old, compare;

	memcpy(op->expected, place, op->len);
	memcpy(&old, place, sizeof(old));
	value = (__u64)prng_next(&me->prng) << 32 | prng_next(&me->prng);
	switch (op->kind) {
	case SEND:
	case WRITE:
		for (i = 0; i < op->len; i++)
			op->buffer[i] = prng_next(&me->prng);
		memcpy(place, op->buffer, op->len);
		if (op->kind == SEND)
			ibv_wr_send(me->qp);
		else
			ibv_wr_rdma_write(me->qp, rkey, va);
		break;
	case READ:
		memset(op->buffer, 0, op->len);
		ibv_wr_rdma_read(me->qp, rkey, va);
		break;
	case FLUSH:
		post_flush(me, op, va);
		return;
	case ATOMIC_WRITE:
		memcpy(place, &value, 8);
		ibv_wr_atomic_write(me->qp, rkey, va, &value);
		return;
	case FETCH_ADD:
		ibv_wr_atomic_fetch_add(me->qp, rkey, va, value);
		value += old;
		memcpy(place, &value, 8);
		break;
	default:
		compare = prng_once_in(&me->prng, 2) ? old : ~old;
		ibv_wr_atomic_cmp_swp(me->qp, rkey, va, compare, value);
		if (compare == old)
			memcpy(place, &value, 8);
	}
	ibv_wr_set_sge(me->qp, me->mr->lkey, (uintptr_t)op->buffer, op->len);
}

static void post(struct initiator *me, enum kind kind)
{
	struct operation *op = &me->operations[me->posted % WINDOW];

	op->kind = kind;
	op->block = choose_block(me, kind);
	ibv_wr_start(me->qp);
	me->qp->wr_id = me->posted++;
	me->qp->wr_flags = IBV_SEND_SIGNALED | (prng_once_in(&me->prng, 8) ? IBV_SEND_FENCE : 0);
	perform(me, op);
	errno = ibv_wr_complete(me->qp);
	check(errno, "ibv_wr_complete");
	me->count[kind]++;
	me->reads[op->block] += kind == READ;
}

static void complete(struct initiator *me)
{
	struct operation *op = &me->operations[me->completed % WINDOW];
	struct ibv_wc wc;

	if (rdma_get_send_comp(me->id, &wc) != 1)
		err(1, "rdma_get_send_comp");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "operation %llu: %s", me->completed, ibv_wc_status_str(wc.status));
	if (wc.wr_id != me->completed || wc.opcode != completion_of[op->kind])
		errx(1, "operation %llu: completed as %llu with opcode %d", me->completed,
		     (unsigned long long)wc.wr_id, wc.opcode);
	if ((op->kind == READ || op->kind == FETCH_ADD || op->kind == CMP_SWAP) &&
	    memcmp(op->buffer, op->expected, op->len))
		errx(1, "operation %llu brought back other bytes than the model has",
		     me->completed);
	me->reads[op->block] -= op->kind == READ;
	me->completed++;
}

static void write_model(struct initiator *me, const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	if (fd < 0 || write(fd, me->model, MEMORY) != MEMORY || close(fd))
		err(1, "%s", path);
}

static enum kind kind_of(const char *name)
{
	enum kind kind = 0;

	while (strcmp(name, name_of[kind]))
		if (++kind == KINDS)
			errx(2, "%s: no such operation", name);
	return kind;
}

static int initiator(const char *address, __u64 operations, __u64 seed, const char *path,
		     char **kinds)
{
	static struct initiator me = {
		.kinds = { FLUSH, SEND, WRITE, READ, ATOMIC_WRITE, FETCH_ADD, CMP_SWAP },
	};

	for (; kinds[me.num_kinds]; me.num_kinds++)
		me.kinds[me.num_kinds] = kind_of(kinds[me.num_kinds]);
	if (!me.num_kinds)
		me.num_kinds = KINDS;
	me.prng = prng_of_seed(seed);
	connect_to(&me, address);
	/* Even the shortest run has the first kind, FLUSH unless told otherwise. */
	while (me.posted < operations) {
		if (me.posted - me.completed == WINDOW)
			complete(&me);
		post(&me, me.posted && me.posted + 1 < operations ?
		     me.kinds[prng_below(&me.prng, me.num_kinds)] : me.kinds[0]);
	}
	while (me.completed < me.posted)
		complete(&me);
	write_model(&me, path);
	printf("# SEED=%llu: %llu SEND, %llu WRITE, %llu READ, %llu FLUSH (%llu persistent), ", seed,
	       me.count[SEND], me.count[WRITE], me.count[READ], me.count[FLUSH], me.persistent);
	printf("%llu ATOMIC WRITE, %llu FETCH ADD, %llu CMP SWAP\n", me.count[ATOMIC_WRITE],
	       me.count[FETCH_ADD], me.count[CMP_SWAP]);
	return 0;
}

static int compare(const char *device, const char *path)
{
	static char model[MEMORY];
	int fd = open(path, O_RDONLY);
	const char *memory;
	size_t size, i;

	if (fd < 0 || read(fd, model, MEMORY) != MEMORY)
		err(1, "%s", path);
	memory = log_map(device, O_RDONLY, &size);
	if (size < START + MEMORY)
		errx(1, "%s is too small: %zu bytes", device, size);
	memory += START;
	for (i = 0; i < MEMORY; i++)
		if (memory[i] != model[i])
			errx(1, "byte %zu is 0x%02hhx, and in the model 0x%02hhx", i, memory[i],
			     model[i]);
	return 0;
}

int main(int argc, char **argv)
{
	if ((argc == 4 || argc == 5) && !strcmp(argv[1], "target"))
		return target(argv[2], argv[3], argc == 5 ? log_number(argv[4]) : 1);
	if (argc == 4 && !strcmp(argv[1], "compare"))
		return compare(argv[2], argv[3]);
	if (argc >= 6 && argc <= 6 + KINDS && !strcmp(argv[1], "initiator"))
		return initiator(argv[2], log_number(argv[3]), log_number(argv[4]), argv[5],
				 argv + 6);
	errx(2, "usage: mixed-ops target ADDRESS DEVICE [INITIATORS] | "
		"initiator ADDRESS OPERATIONS SEED MODEL [KIND...] | compare DEVICE MODEL");
}
