// SPDX-License-Identifier: GPL-2.0
/*
 * The smallest log in the persistent memory of a target; first-log-survives.c is its checker.
 *
 *	first-log target ADDRESS DEVICE		lends the memory, such as /dev/dax0.0, and prints the tail in the end
 *	first-log initiator ADDRESS RECORDS	appends records, one by one
 *
 * The tail, 8 bytes at offset 0, counts the records.  Record i is at 64 * (i + 1): 8 words, each i + 1.
 * The memory holds zeros at first, an empty log: rxe-vm's --server-pmem SIZE makes it so.
 *
 * It needs rdma-core 45 or newer, and the headers of Linux 6.2 or newer:
 *
 *	cc -o first-log first-log.c -lrdmacm -libverbs
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PORT	"7474"
#define SIZE	(2 << 20)
#define RECORD	64
#define MOST	(SIZE / RECORD - 1)

/* Since rdma-core 45 the struct has wr_flush, the second member after wr_abort. */
_Static_assert(sizeof(struct ibv_qp_ex) >= offsetof(struct ibv_qp_ex, wr_abort) + 3 * sizeof(void *),
	       "this libibverbs has no ibv_wr_flush(): install rdma-core 45 or newer (libibverbs-dev)");

/* What the target tells: where its memory is, and by which key it can be reached. */
struct region {
	uint64_t addr;
	uint32_t rkey;
};

/* Four requests are posted at once. */
static const struct ibv_qp_cap queues = {
	.max_send_wr = 4,
	.max_recv_wr = 1,
	.max_send_sge = 1,
	.max_recv_sge = 1,
};

/* An end of the connection, still without a queue pair, as in first-flush.c. */
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

static void ask_device(struct ibv_context *context)
{
	const uint64_t needed = IB_UVERBS_DEVICE_FLUSH_PERSISTENT | /* in the headers of Linux 6.2 or newer */
				IB_UVERBS_DEVICE_ATOMIC_WRITE;
	struct ibv_device_attr_ex attr = {};

	if (ibv_query_device_ex(context, NULL, &attr))
		err(1, "ibv_query_device_ex");
	if ((attr.device_cap_flags_ex & needed) != needed)
		errx(1, "%s has no FLUSH to persistence, or no ATOMIC WRITE: use Soft-RoCE of Linux 6.2 or newer, or SEND to a program of the target that makes the data durable and answers",
		     ibv_get_device_name(context->device));
}

/* An extended queue pair names what it will post, so the library can say at once that it does not post it. */
static void make_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = queues,
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_FLUSH |
				  IBV_QP_EX_WITH_ATOMIC_WRITE | IBV_QP_EX_WITH_SEND,
	};

	if (!rdma_create_qp_ex(id, &attr))
		return;
	if (errno == EOPNOTSUPP)
		errx(1, "libibverbs posts no FLUSH or no ATOMIC WRITE to %s: install rdma-core 45 or newer",
		     ibv_get_device_name(id->verbs->device));
	err(1, "rdma_create_qp_ex");
}

/* target-begin */
static void target(const char *address, const char *device)
{
	struct rdma_cm_id *listener = endpoint(address, RAI_PASSIVE), *id;
	/* Of one post: FLUSH, ATOMIC WRITE, FLUSH. */
	struct rdma_conn_param param = { .responder_resources = 3, .rnr_retry_count = 7 };
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC, .cap = queues };
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
	ask_device(id->verbs);
	if (rdma_create_qp(id, NULL, &attr))
		err(1, "rdma_create_qp");
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
/* @words has room for a record.  The tail needs none: ibv_wr_atomic_write() takes its eight bytes at once. */
static void append(struct rdma_cm_id *id, const struct region *log, struct ibv_mr *words, uint64_t record)
{
	uint64_t to = log->addr + RECORD * (record + 1), *word = words->addr;
	struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(id->qp);
	const uint64_t tail = record + 1;
	int ret;

	for (int i = 0; i < RECORD / 8; i++)
		word[i] = record + 1;
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, log->rkey, to);
	ibv_wr_set_sge(qp, words->lkey, (uintptr_t)word, RECORD);
	ibv_wr_flush(qp, log->rkey, to, RECORD, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	ibv_wr_atomic_write(qp, log->rkey, log->addr, &tail);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, log->rkey, log->addr, sizeof(tail), IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	ret = ibv_wr_complete(qp);
	if (ret)
		errx(1, "record %" PRIu64 ": %s", record, strerror(ret));
	completed(id, IBV_WC_FLUSH);
}
/* append-end */

static void initiator(const char *address, unsigned long records)
{
	static uint64_t record[RECORD / 8];
	struct rdma_conn_param param = { .initiator_depth = 3, .retry_count = 6 };
	struct rdma_cm_id *id = endpoint(address, 0);
	struct region log;
	struct ibv_mr *words;

	ask_device(id->verbs);
	make_qp(id);
	words = rdma_reg_msgs(id, record, sizeof(record));
	if (!words || rdma_connect(id, &param))
		err(1, "%s", address);
	memcpy(&log, id->event->param.conn.private_data, sizeof(log));
	setvbuf(stdout, NULL, _IOLBF, 0);	/* a promise counts when it is out */
	for (unsigned long i = 0; i < records; i++) {
		append(id, &log, words, i);
		printf("record %lu is durable\n", i);
	}

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
