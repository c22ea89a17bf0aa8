// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest log in the persistent memory of a target; Documentation/crash-states.rst has its checker.
 *
 *	first-log target ADDRESS DEVICE		lends the memory, such as /dev/dax0.0, and prints the tail in the end
 *	first-log initiator ADDRESS RECORDS	appends records, one by one
 *
 * The tail, 8 bytes at offset 0, counts the records.  Record i is at 64 * (i + 1): 8 words, each i + 1.
 * The memory holds zeros at first, an empty log: rxe-vm's --server-pmem SIZE makes it so.
 */
#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PORT	"7474"
#define SIZE	(2 << 20)
#define RECORD	64
#define MOST	(SIZE / RECORD - 1)

/* What the target tells: where its memory is, and by which key it can be reached. */
struct region {
	uint64_t addr;
	uint32_t rkey;
};

/* An end of the connection with its queue pair, as in first-flush.c: four requests are posted at once. */
static struct rdma_cm_id *endpoint(const char *address, int flags)
{
	struct rdma_addrinfo hints = { .ai_flags = flags, .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = 4,
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

/* target-begin */
static void target(const char *address, const char *device)
{
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	/* Of one post: FLUSH, ATOMIC WRITE, FLUSH. */
	struct rdma_conn_param param = { .responder_resources = 3, .rnr_retry_count = 7 };
	int fd = open(device, O_RDWR);
	struct region region;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint64_t *memory;

	if (fd < 0)
		err(1, "%s", device);
	memory = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		err(1, "%s", device);
	if (rdma_listen(listener, 1) || rdma_get_request(listener, &id))
		err(1, "no initiator");
	mr = ibv_reg_mr(id->pd, memory, SIZE,
			IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_FLUSH_PERSISTENT);
	if (!mr)
		err(1, "ibv_reg_mr");
	region = (struct region){ .addr = (uintptr_t)memory, .rkey = mr->rkey };
	param.private_data = &region;
	param.private_data_len = sizeof(region);
	if (rdma_post_recvv(id, NULL, NULL, 0) || rdma_accept(id, &param))
		err(1, "rdma_accept");
	if (rdma_get_recv_comp(id, &wc) != 1 || wc.status != IBV_WC_SUCCESS)
		errx(1, "the initiator is gone");
	printf("the tail is %" PRIu64 "\n", *memory);
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

/* append-begin */
/* @data has room for a record and the tail. */
static void append(struct rdma_cm_id *id, const struct region *log,
		   struct ibv_mr *data, uint64_t record)
{
	uint64_t *words = data->addr, *tail = words + RECORD / 8;
	uint64_t to = log->addr + RECORD * (record + 1);

	for (int i = 0; i < RECORD / 8; i++)
		words[i] = record + 1;
	*tail = record + 1;
	if (rdma_post_write(id, NULL, words, RECORD, data, 0, to, log->rkey) ||
	    rdma_post_flush(id, NULL, RECORD, 0, to, log->rkey,
			    IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE) ||
	    rdma_post_atomic_write(id, NULL, tail, data, 0, log->addr, log->rkey) ||
	    rdma_post_flush(id, NULL, sizeof(*tail), IBV_SEND_SIGNALED, log->addr,
			    log->rkey, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE))
		err(1, "record %" PRIu64, record);
	completed(id, IBV_WC_FLUSH);
}
/* append-end */

static void initiator(const char *address, unsigned long records)
{
	static uint64_t words[RECORD / 8 + 1];
	struct rdma_conn_param param = { .initiator_depth = 3, .retry_count = 6 };
	struct rdma_cm_id *id = endpoint(address, 0);
	struct region log;
	struct ibv_mr *data;

	data = rdma_reg_msgs(id, words, sizeof(words));
	if (!data || rdma_connect(id, &param))
		err(1, "%s", address);
	memcpy(&log, id->event->param.conn.private_data, sizeof(log));
	for (unsigned long i = 0; i < records; i++)
		append(id, &log, data, i);
	printf("%lu records are durable\n", records);

	if (rdma_post_sendv(id, NULL, NULL, 0, IBV_SEND_SIGNALED))
		err(1, "rdma_post_sendv");
	completed(id, IBV_WC_SEND);
}

int main(int argc, char **argv)
{
	unsigned long records = 0;
	char *end = "";

	if (argc == 4 && !strcmp(argv[1], "initiator"))
		records = strtoul(argv[3], &end, 10);
	if (argc == 4 && !strcmp(argv[1], "target"))
		target(argv[2], argv[3]);
	else if (records && !*end && records <= MOST)
		initiator(argv[2], records);
	else
		errx(1, "usage: first-log target ADDRESS DEVICE | first-log initiator ADDRESS RECORDS (1 to %d)", MOST);
	return 0;
}
