// SPDX-License-Identifier: GPL-2.0
/*
 * A client puts a block into the memory of the target's NVMe device, and the device stores it.
 *
 *	device-memory target ADDRESS cmb	in the controller memory buffer; stored to the start of its disk, from there
 *	device-memory target ADDRESS bounce	the same, but stored by way of the target's own memory
 *	device-memory target ADDRESS pmr	in the persistent memory region
 *	device-memory initiator ADDRESS FILE	the block is this file
 *
 * The client WRITEs and FLUSHes.  So when it has asked the target to store the block, the device has all of it.  It
 * ends when the target has answered that the block is stored.
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

/* What the target tells: a dma-buf's region begins at 0. */
struct region {
	uint32_t size, rkey;
};

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

static void store(const void *block, uint32_t length)
{
	int disk = open(DISK, O_WRONLY | O_DIRECT);

	if (disk < 0)
		err(1, DISK);
	if (pwrite(disk, block, length, 0) != length || fsync(disk))
		err(1, "storing %u bytes to " DISK, length);
	close(disk);
}

static void target(const char *address, const char *where)
{
	bool pmr = !strcmp(where, "pmr"), bounce = !strcmp(where, "bounce");
	struct rdma_conn_param param = { .responder_resources = 1, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = queues };
	struct rdma_cm_id *listener, *id;
	struct ibv_mr *mr, *message_mr;
	static uint32_t length;
	struct region region;
	void *own;
	int fd;

	if (!pmr && !bounce && strcmp(where, "cmb"))
		errx(2, "no memory \"%s\": choose of cmb, bounce, pmr", where);
	fd = dmabuf_make(pmr ? "pmr" : "bar", SIZE);
	listener = endpoint(address, RAI_PASSIVE);
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "no initiator");
	if (rdma_create_qp(id, NULL, &attr))
		err(1, "rdma_create_qp");
	mr = ibv_reg_dmabuf_mr(id->pd, 0, SIZE, 0, fd,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_FLUSH_GLOBAL);
	message_mr = rdma_reg_msgs(id, &length, sizeof(length));
	if (!mr || !message_mr)
		err(1, "ibv_reg_dmabuf_mr, rdma_reg_msgs");
	region = (struct region) { .size = SIZE, .rkey = mr->rkey };
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	if (rdma_post_recv(id, NULL, &length, sizeof(length), message_mr) || rdma_accept(id, &param))
		err(1, "rdma_accept");

	received(id);
	if (pmr) {
		dmabuf_pmr_persist();
	} else if (bounce) {
		if (posix_memalign(&own, ALIGN, length))
			errx(1, "no memory");
		memcpy(own, dmabuf_pages(), length);
		store(own, length);
	} else {
		store(dmabuf_pages(), length);
	}
	printf("stored %u bytes from the %s\n", length, pmr ? "persistent memory region" : "controller memory buffer");
	fflush(stdout);
	if (rdma_post_send(id, NULL, &length, sizeof(length), message_mr, IBV_SEND_SIGNALED))
		err(1, "rdma_post_send");
	sent(id);
}

/* ---- The initiator ---- */

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

static void initiator(const char *address, const char *name)
{
	static uint32_t length;
	void *block = read_block(name, &length);
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = queues,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_SEND,
	};
	struct rdma_conn_param param = { .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7 };
	struct rdma_cm_id *id = endpoint(address, 0);
	struct ibv_mr *block_mr, *message_mr;
	struct region region;
	struct ibv_qp_ex *qp;

	if (rdma_create_qp_ex(id, &attr))
		err(1, "rdma_create_qp_ex");
	block_mr = rdma_reg_msgs(id, block, length);
	message_mr = rdma_reg_msgs(id, &length, sizeof(length));
	if (!block_mr || !message_mr)
		err(1, "rdma_reg_msgs");
	if (rdma_post_recv(id, NULL, &length, sizeof(length), message_mr) || rdma_connect(id, &param))
		err(1, "rdma_connect");
	memcpy(&region, id->event->param.conn.private_data, sizeof(region));

	qp = ibv_qp_to_qp_ex(id->qp);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, region.rkey, 0);
	ibv_wr_set_sge(qp, block_mr->lkey, (uintptr_t)block, length);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, region.rkey, 0, length, IBV_FLUSH_GLOBAL, IBV_FLUSH_RANGE);
	if (ibv_wr_complete(qp))
		errx(1, "ibv_wr_complete");
	sent(id);
	if (rdma_post_send(id, NULL, &length, sizeof(length), message_mr, IBV_SEND_SIGNALED))
		err(1, "rdma_post_send");
	sent(id);
	received(id);
	printf("the target has stored %u bytes\n", length);
}

int main(int argc, char **argv)
{
	if (argc == 4 && !strcmp(argv[1], "target"))
		target(argv[2], argv[3]);
	else if (argc == 4 && !strcmp(argv[1], "initiator"))
		initiator(argv[2], argv[3]);
	else
		errx(2, "usage: device-memory target ADDRESS cmb|bounce|pmr | initiator ADDRESS FILE");
	return 0;
}
