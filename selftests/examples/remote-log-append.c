// SPDX-License-Identifier: GPL-2.0
/*
 * The initiator of the remote log: appends lines of a text to it.
 *
 *	remote-log-append ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]
 *
 * ADDRESS is the target's.  The log goes on where it ended, or is made if there is none: its record
 * n is line n + 1 of the file TEXT, and RECORDS more are appended; a line is printed when STEP more
 * (a tenth of RECORDS) are acknowledged.  How many the log then holds for sure, whatever happens to
 * the target, goes to the file ACKNOWLEDGED, also if the target is lost on the way.
 *
 * See publish() for the heart of it.
 */
#include <err.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "remote-log.h"

/*
 * FLUSH and ATOMIC WRITE share the credits of READ: so many may be on their way at once.  What is
 * posted beyond that waits in the send queue, so more appends in flight would gain nothing.
 */
#define DEPTH			16
#define CREDITS_PER_APPEND	3
#define REQUESTS_PER_APPEND	4
#define MAX_APPENDS		(DEPTH / CREDITS_PER_APPEND)

/*
 * 4.096 us times 2 to the power of this, 0.13 s, is how long an answer may take; after RETRIES more
 * attempts the target is given up.  With rdma_cm's default that would take 17 s.
 */
#define ACK_TIMEOUT		15
#define RETRIES			6	/* Soft-RoCE takes 7 for endless */

/* What is sent must stay as it is until the append completes: it may have to be sent again. */
union slot {
	struct log_record record;
	char bytes[sizeof(struct log_record) + LOG_MAX_DATA];
};

struct log {
	struct rdma_cm_id *id;
	struct ibv_qp_ex *qp;
	struct log_region region;	/* the target's memory */
	unsigned int max_appends;	/* in flight */
	struct log_header header;	/* the tail is that of the last append posted */
	struct ibv_mr *header_mr;
	union slot slots[MAX_APPENDS];
	struct ibv_mr *slots_mr;
	__u32 acknowledged;		/* records */
};

static struct rdma_cm_id *resolve(const char *address)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP };
	const int timeout_ms = 10000;
	struct rdma_addrinfo *info;
	struct rdma_cm_id *id;
	char port[8];

	snprintf(port, sizeof(port), "%d", LOG_PORT);
	if (rdma_getaddrinfo(address, port, &hints, &info))
		err(1, "%s", address);
	/* Without an event channel every step waits until it is done. */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, info->ai_dst_addr, timeout_ms) ||
	    rdma_resolve_route(id, timeout_ms))
		err(1, "no way to %s by RDMA", address);
	rdma_freeaddrinfo(info);
	return id;
}

/* ibv_wr_flush() and ibv_wr_atomic_write() want an extended queue pair, which names what it will post. */
static void create_qp(struct log *log)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = MAX_APPENDS * REQUESTS_PER_APPEND,
			.max_recv_wr = 1,
			.max_send_sge = 1,
			.max_recv_sge = 1,
		},
		.comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};

	if (rdma_create_qp_ex(log->id, &attr)) {
		if (errno == EOPNOTSUPP)
			errx(1, "this kernel or rdma-core has no FLUSH or no ATOMIC WRITE");
		err(1, "rdma_create_qp_ex");
	}
	log->qp = ibv_qp_to_qp_ex(log->id->qp);
}

static void register_buffers(struct log *log)
{
	log->header_mr = ibv_reg_mr(log->id->pd, &log->header, sizeof(log->header),
				    IBV_ACCESS_LOCAL_WRITE);
	log->slots_mr = ibv_reg_mr(log->id->pd, log->slots, sizeof(log->slots),
				   IBV_ACCESS_LOCAL_WRITE);
	if (!log->header_mr || !log->slots_mr)
		err(1, "ibv_reg_mr");
}

static void connect_to(struct log *log, const char *address)
{
	struct rdma_conn_param param = {
		.initiator_depth = DEPTH,
		.retry_count = RETRIES,
		.rnr_retry_count = 7,
	};
	const struct rdma_conn_param *got;
	__u8 ack_timeout = ACK_TIMEOUT;

	log->id = resolve(address);
	if (rdma_set_option(log->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &ack_timeout,
			    sizeof(ack_timeout)))
		err(1, "rdma_set_option");
	create_qp(log);
	register_buffers(log);
	if (rdma_connect(log->id, &param))
		err(1, "%s: rdma_connect", address);

	got = &log->id->event->param.conn;
	if (got->private_data_len < sizeof(log->region))
		errx(1, "%s: the target does not say where its log is", address);
	memcpy(&log->region, got->private_data, sizeof(log->region));
	/* Not more at once than the target has resources for, which may be less than was asked. */
	log->max_appends = MIN(got->initiator_depth, DEPTH) / CREDITS_PER_APPEND;
	if (!log->max_appends)
		errx(1, "%s: the target takes %u requests at once, an append has %u", address,
		     got->initiator_depth, CREDITS_PER_APPEND);
}

/* Wait for the next completion.  False if the target refused or did not answer. */
static bool completed(struct log *log, enum ibv_wc_opcode opcode)
{
	struct ibv_wc wc;

	if (rdma_get_send_comp(log->id, &wc) != 1)
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
static void publish(struct log *log, __u64 where, const void *data, size_t size, __u32 lkey,
		    __u64 pointer_where, const void *pointer)
{
	__u64 base = log->region.addr;
	__u32 rkey = log->region.rkey;
	struct ibv_qp_ex *qp = log->qp;
	int ret;

	ibv_wr_start(qp);

	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, rkey, base + where);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)data, size);
	ibv_wr_flush(qp, rkey, base + where, size, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	ibv_wr_atomic_write(qp, rkey, base + pointer_where, pointer);

	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(qp, rkey, base + pointer_where, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);

	ret = ibv_wr_complete(qp);
	if (ret)
		errx(1, "ibv_wr_complete: %s", strerror(ret));
}

/* Learn where the log ends, or make one that is empty. */
static void open_log(struct log *log)
{
	struct log_header *header = &log->header;
	static const __u64 magic = LOG_MAGIC;
	int ret;

	ibv_wr_start(log->qp);
	log->qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(log->qp, log->region.rkey, log->region.addr);
	ibv_wr_set_sge(log->qp, log->header_mr->lkey, (uintptr_t)header, sizeof(*header));
	ret = ibv_wr_complete(log->qp);
	if (ret || !completed(log, IBV_WC_RDMA_READ))
		errx(1, "the log cannot be read");

	if (header->magic == LOG_MAGIC) {
		log->acknowledged = header->tail.records;
		return;
	}
	memset(header, 0, sizeof(*header));
	publish(log, offsetof(struct log_header, tail), &header->tail, sizeof(header->tail),
		log->header_mr->lkey, offsetof(struct log_header, magic), &magic);
	if (!completed(log, IBV_WC_FLUSH))
		errx(1, "the log cannot be made");
}

static void append(struct log *log, const char *line, size_t length)
{
	struct log_tail *tail = &log->header.tail;
	struct log_record *record = &log->slots[tail->records % log->max_appends].record;
	__u64 where = LOG_RECORDS + (__u64)tail->bytes;
	size_t size;

	if (length > LOG_MAX_DATA)
		errx(1, "line %u is too long: %zu bytes", tail->records + 1, length);
	size = log_record_size(length);
	if (where + size > log->region.size || tail->bytes + size > UINT32_MAX)
		errx(1, "the log is full");
	log_record_make(record, tail->records, line, length);
	tail->records++;
	tail->bytes += size;
	publish(log, where, record, size, log->slots_mr->lkey,
		offsetof(struct log_header, tail), tail);
}

/* Append lines of @text up to record @goal; false if the connection was lost on the way. */
static bool append_lines(struct log *log, FILE *text, __u32 goal, __u32 step)
{
	const struct log_tail *tail = &log->header.tail;
	__u32 first = log->acknowledged;
	size_t line_size = 0;
	char *line = NULL;
	ssize_t length;

	for (__u32 i = 0; i < first; i++)
		if (getline(&line, &line_size, text) < 0)
			errx(1, "the log holds more records than the text has lines");

	while (log->acknowledged < goal) {
		while (tail->records < goal &&
		       tail->records - log->acknowledged < log->max_appends) {
			length = getline(&line, &line_size, text);
			if (length < 0)
				errx(1, "the text has only %u lines", tail->records);
			append(log, line, length);
		}
		if (!completed(log, IBV_WC_FLUSH))
			return false;
		log->acknowledged++;
		if ((log->acknowledged - first) % step == 0)
			printf("%u of %u records acknowledged\n", log->acknowledged, goal);
	}
	free(line);
	return true;
}

static void keep_acknowledged(const char *path, __u32 records)
{
	FILE *file = fopen(path, "w");

	if (!file || fprintf(file, "%u\n", records) < 0 || fclose(file))
		err(1, "%s", path);
}

int main(int argc, char **argv)
{
	static struct log log;
	__u32 records, step;
	FILE *text;
	bool complete;

	if (argc < 5 || argc > 6)
		errx(1, "usage: remote-log-append ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]");
	records = log_number(argv[3]);
	step = argc == 6 ? log_number(argv[5]) : records / 10;
	setlinebuf(stdout);
	text = fopen(argv[2], "r");
	if (!text)
		err(1, "%s", argv[2]);

	connect_to(&log, argv[1]);
	open_log(&log);
	printf("the log holds %u records; appending %u, up to %u at once\n", log.acknowledged,
	       records, log.max_appends);
	complete = append_lines(&log, text, log.acknowledged + records, MAX(step, 1u));
	keep_acknowledged(argv[4], log.acknowledged);
	if (!complete)
		errx(1, "cut short; %u records are acknowledged", log.acknowledged);

	rdma_disconnect(log.id);
	ibv_dereg_mr(log.slots_mr);
	ibv_dereg_mr(log.header_mr);
	rdma_destroy_qp(log.id);
	rdma_destroy_id(log.id);
	return 0;
}
