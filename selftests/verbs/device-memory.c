// SPDX-License-Identifier: GPL-2.0
/*
 * A client places data in the memory of the target's NVMe device.
 *
 *	device-memory target ADDRESS cmb	a block, in the controller memory buffer; stored to the disk from there
 *	device-memory target ADDRESS bounce	the same, but stored by way of the target's own memory
 *	device-memory target ADDRESS flag	data in the controller memory buffer, and a flag there, which the target polls
 *	device-memory target ADDRESS pmr	a log, in the persistent memory region
 *	device-memory store ADDRESS FILE	the client of cmb and bounce: the block is this file
 *	device-memory produce ADDRESS [read|early]	that of flag
 *	device-memory append ADDRESS [unflushed]	that of pmr: appends until its stdout is closed
 *
 * The client of a block WRITEs and FLUSHes it.  So when it asks the target to store the block, the device has all of
 * it.  It ends when the target has answered that the block is stored.
 *
 * A producer posts the WRITE of its data, a FLUSH of it and an ATOMIC WRITE of the flag at once.  The target, which polls the
 * flag, finds all of the data there, and answers.  With read there is a READ in place of the FLUSH, as in programs for
 * devices without it, and the producer has to wait for it.  With early the flag is posted first, which is wrong.
 *
 * The log is the ring of crash-states/ring.c, whose checker can judge it.  A line says that a record is appended.
 * With unflushed, no FLUSH comes between a record and the tail that covers it, which is wrong.
 */
#include <err.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dma-buf-memory.h"

#define PORT	"7474"
#define SIZE	(256ul << 10)	/* of the device's memory that is lent */
#define ALIGN	4096
#define DISK	"/dev/nvme0n1"

/* Of data with a flag, which is at 0. */
#define ROUNDS	50
#define DATA	ALIGN
#define LENGTH	4096

/* Of the ring. */
#define SLOTS	32
#define WORDS	8

/* What the target tells: a dma-buf's region begins at 0. */
struct region {
	uint32_t size, rkey;
};

#define CREDITS	4	/* requests in flight that have a response of their own */

static const struct ibv_qp_cap queues = {
	.max_send_wr = 4,
	.max_recv_wr = 1,
	.max_send_sge = 1,
	.max_recv_sge = 1,
};

static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;

	if (rdma_getaddrinfo(address, PORT, &hints, &info) || rdma_create_ep(&id, info, NULL, NULL))
		err(1, "%s", address);
	rdma_freeaddrinfo(info);
	return id;
}

static void received(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		errx(1, "the peer is gone");
}

static void sent(struct rdma_cm_id *id)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(id, &wc) != 1)
		err(1, "rdma_get_send_comp");
	if (wc.status != IBV_WC_SUCCESS)
		errx(1, "%s", ibv_wc_status_str(wc.status));
}

/* ---- The target ---- */

/* The peer has posted a receive. */
static void tell(struct rdma_cm_id *id, uint32_t *message, struct ibv_mr *mr)
{
	if (rdma_post_send(id, NULL, message, sizeof(*message), mr, IBV_SEND_SIGNALED))
		err(1, "rdma_post_send");
	sent(id);
}

static void store(const void *block, uint32_t length)
{
	int disk = open(DISK, O_WRONLY | O_DIRECT);

	if (disk < 0)
		err(1, DISK);
	if (pwrite(disk, block, length, 0) != length || fsync(disk))
		err(1, "storing %u bytes to " DISK, length);
	close(disk);
}

/* Stores the block that the client asks for, and answers. */
static void serve_block(struct rdma_cm_id *id, uint32_t *length, struct ibv_mr *message_mr, bool bounce)
{
	const void *block = dmabuf_pages();
	void *own;

	received(id);
	if (*length > SIZE)
		errx(1, "the block has %u bytes, and there is room for %lu", *length, SIZE);
	if (bounce) {
		if (posix_memalign(&own, ALIGN, *length))
			errx(1, "no memory");
		block = memcpy(own, block, *length);
	}
	store(block, *length);
	tell(id, length, message_mr);
}

/* Answers to each flag when all of its data is there. */
static void poll_flag(struct rdma_cm_id *id, uint32_t *n, struct ibv_mr *message_mr)
{
	const volatile uint64_t *flag = dmabuf_pages(), *data = flag + DATA / sizeof(*flag);
	size_t i;

	for (*n = 1; *n <= ROUNDS; ++*n) {
		while (*flag != *n)
			;
		for (i = 0; i < LENGTH / sizeof(*data); i++)
			if (data[i] != *n)
				errx(1, "flag %u came before word %zu of its data, which is %lu", *n, i, data[i]);
		tell(id, n, message_mr);
	}
}

static void target(const char *address, const char *where)
{
	bool pmr = !strcmp(where, "pmr"), bounce = !strcmp(where, "bounce"), flag = !strcmp(where, "flag");
	struct rdma_conn_param param = { .responder_resources = CREDITS, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = queues };
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *mr, *message_mr;
	static uint32_t length;
	struct region region;
	int fd;

	if (!pmr && !bounce && !flag && strcmp(where, "cmb"))
		errx(2, "no memory \"%s\": choose of cmb, bounce, flag, pmr", where);
	fd = dmabuf_make(pmr ? "pmr" : "bar", SIZE);
	listener = endpoint(address, RAI_PASSIVE);
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "no client");
	if (rdma_create_qp(id, NULL, &attr))
		err(1, "rdma_create_qp");
	mr = ibv_reg_dmabuf_mr(id->pd, 0, SIZE, 0, fd,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL |
			       (flag ? IBV_ACCESS_REMOTE_READ : 0));
	message_mr = rdma_reg_msgs(id, &length, sizeof(length));
	if (!mr || !message_mr)
		err(1, "ibv_reg_dmabuf_mr, rdma_reg_msgs");
	/* For crash-states, which looks only at device DAX by itself. */
	printf("region 0x%x 0x%x 0x0 %lu\npiece 0 %lu %s 0\n", mr->rkey, mr->lkey, SIZE, SIZE, where);
	fflush(stdout);
	region = (struct region) { .size = SIZE, .rkey = mr->rkey };
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	if (rdma_post_recv(id, NULL, &length, sizeof(length), message_mr) || rdma_accept(id, &param))
		err(1, "rdma_accept");
	if (pmr)
		pause();
	if (flag)
		poll_flag(id, &length, message_mr);
	else
		serve_block(id, &length, message_mr, bounce);
}

/* ---- The client ---- */

static uint32_t message;
static struct ibv_mr *message_mr;

static struct rdma_cm_id *connect_to(const char *address, struct region *region)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = queues,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_READ,
	};
	/* Soft-RoCE takes 7 for endless, and the target may lose its power. */
	struct rdma_conn_param param = { .initiator_depth = CREDITS, .retry_count = 6, .rnr_retry_count = 7 };
	struct rdma_cm_id *id = endpoint(address, 0);

	if (rdma_create_qp_ex(id, &attr))
		err(1, "rdma_create_qp_ex");
	message_mr = rdma_reg_msgs(id, &message, sizeof(message));
	if (!message_mr)
		err(1, "rdma_reg_msgs");
	if (rdma_post_recv(id, NULL, &message, sizeof(message), message_mr) || rdma_connect(id, &param))
		err(1, "rdma_connect");
	memcpy(region, id->event->param.conn.private_data, sizeof(*region));
	return id;
}

static void complete(struct rdma_cm_id *id, struct ibv_qp_ex *qp)
{
	if (ibv_wr_complete(qp))
		errx(1, "ibv_wr_complete");
	sent(id);
}

static void *read_block(const char *name, uint32_t *length)
{
	FILE *file = fopen(name, "re");
	struct stat st;
	void *block;

	if (!file || fstat(fileno(file), &st))
		err(1, "%s", name);
	if (!st.st_size || (size_t)st.st_size > SIZE || st.st_size % ALIGN)
		errx(1, "%s: a block has up to %lu bytes, a multiple of %d", name, SIZE, ALIGN);
	*length = st.st_size;
	block = malloc(*length);
	if (!block || fread(block, *length, 1, file) != 1)
		err(1, "%s", name);
	fclose(file);
	return block;
}

static void store_block(const char *address, const char *name)
{
	struct region region;
	uint32_t length;
	void *block = read_block(name, &length);
	struct rdma_cm_id *id = connect_to(address, &region);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);
	struct ibv_mr *mr = rdma_reg_msgs(id, block, length);

	if (!mr)
		err(1, "rdma_reg_msgs");
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, region.rkey, 0);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)block, length);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, region.rkey, 0, length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	complete(id, qp);
	message = length;
	tell(id, &message, message_mr);
	received(id);
	printf("the target has stored %u bytes\n", length);
}

/* @mr has the data, and after it room for what a READ brings. */
static void post(struct rdma_cm_id *id, struct ibv_qp_ex *qp, uint32_t rkey, struct ibv_mr *mr, const uint64_t *n,
		 const char *how)
{
	uint64_t data = (uintptr_t)mr->addr;

	ibv_wr_start(qp);
	qp->wr_flags = 0;
	if (!strcmp(how, "early"))
		ibv_wr_atomic_write(qp, rkey, 0, n);
	ibv_wr_rdma_write(qp, rkey, DATA);
	ibv_wr_set_sge(qp, mr->lkey, data, LENGTH);
	if (!strcmp(how, "read")) {
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_read(qp, rkey, DATA);
		ibv_wr_set_sge(qp, mr->lkey, data + LENGTH, sizeof(*n));
		complete(id, qp);
		ibv_wr_start(qp);
		ibv_wr_rdma_write(qp, rkey, 0);
		ibv_wr_set_sge(qp, mr->lkey, data, sizeof(*n));
	} else {
		ibv_wr_flush(qp, rkey, DATA, LENGTH, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_atomic_write(qp, rkey, 0, n);
	}
	complete(id, qp);
}

static void produce(const char *address, const char *how)
{
	struct region region;
	static uint64_t data[LENGTH / sizeof(uint64_t) + 1], n;
	struct rdma_cm_id *id = connect_to(address, &region);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);
	struct ibv_mr *mr = rdma_reg_msgs(id, data, sizeof(data));
	size_t i;

	if (!mr)
		err(1, "rdma_reg_msgs");
	for (n = 1; n <= ROUNDS; n++) {
		for (i = 0; i < LENGTH / sizeof(*data); i++)
			data[i] = n;
		post(id, qp, region.rkey, mr, &n, how);
		received(id);
		if (n < ROUNDS && rdma_post_recv(id, NULL, &message, sizeof(message), message_mr))
			err(1, "rdma_post_recv");
	}
	printf("%d times the data was there when its flag was\n", ROUNDS);
}

static void append(const char *address, bool flushes)
{
	struct region region;
	static uint64_t record[WORDS], n;
	struct rdma_cm_id *id = connect_to(address, &region);
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);
	struct ibv_mr *mr = rdma_reg_msgs(id, record, sizeof(record));
	uint64_t slot;
	int i;

	if (!mr)
		err(1, "rdma_reg_msgs");
	setlinebuf(stdout);
	for (n = 1;; n++) {
		for (i = 0; i < WORDS; i++)
			record[i] = n;
		slot = sizeof(record) * (1 + n % SLOTS);
		ibv_wr_start(qp);
		qp->wr_flags = 0;
		ibv_wr_rdma_write(qp, region.rkey, slot);
		ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)record, sizeof(record));
		if (flushes)
			ibv_wr_flush(qp, region.rkey, slot, sizeof(record), IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		ibv_wr_atomic_write(qp, region.rkey, 0, &n);
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_flush(qp, region.rkey, 0, sizeof(n), IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
		complete(id, qp);
		printf("record %lu is appended\n", n);
	}
}

int main(int argc, char **argv)
{
	const char *mode = argc == 4 ? argv[3] : "";

	if (argc == 4 && !strcmp(argv[1], "target"))
		target(argv[2], mode);
	else if (argc == 4 && !strcmp(argv[1], "store"))
		store_block(argv[2], mode);
	else if (argc >= 3 && !strcmp(argv[1], "produce"))
		produce(argv[2], mode);
	else if (argc >= 3 && !strcmp(argv[1], "append"))
		append(argv[2], strcmp(mode, "unflushed"));
	else
		errx(2, "usage: device-memory target ADDRESS cmb|bounce|flag|pmr | store ADDRESS FILE |\n"
			"produce ADDRESS [read|early] | append ADDRESS [unflushed]");
	return 0;
}
