// SPDX-License-Identifier: GPL-2.0
/* The initiator of the remote log, see remote-log-initiator.h. */
#include <err.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "remote-log-initiator.h"

/* 0.13 s; so a target is given up after a second.  With rdma_cm's default that would take 17 s. */
#define ACK_TIMEOUT	15

/* What is sent must stay as it is until the append completes, because it may have to be sent again. */
union slot {
	struct log_record record;
	char bytes[sizeof(struct log_record) + LOG_MAX_DATA];
};

struct log {
	struct log_connection connection;
	struct log_header header;	/* the tail is that of the last append posted */
	struct ibv_mr *header_mr;
	union slot slots[MAX_APPENDS];
	struct ibv_mr *slots_mr;
	__u32 acknowledged;		/* records */
};

/* Without an event channel every step waits until it is done. */
static struct rdma_cm_id *resolve(const char *address)
{
	struct rdma_addrinfo *info = log_address(address, 0);
	const int timeout_ms = 10000;
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, info->ai_dst_addr, timeout_ms) ||
	    rdma_resolve_route(id, timeout_ms))
		err(1, "no way to %s by RDMA", address);
	rdma_freeaddrinfo(info);
	return id;
}

static void register_buffers(struct log *log)
{
	log->header_mr = ibv_reg_mr(log->connection.id->pd, &log->header, sizeof(log->header),
				    IBV_ACCESS_LOCAL_WRITE);
	log->slots_mr = ibv_reg_mr(log->connection.id->pd, log->slots, sizeof(log->slots),
				   IBV_ACCESS_LOCAL_WRITE);
	if (!log->header_mr || !log->slots_mr)
		err(1, "ibv_reg_mr");
}

void log_connect(struct log_connection *connection, const char *address)
{
	struct rdma_conn_param param = log_conn_param;

	connection->id = resolve(address);
	log_create_qp(connection, NULL, ACK_TIMEOUT);
	if (rdma_connect(connection->id, &param))
		err(1, "%s: rdma_connect", address);
	log_learn_region(connection, &connection->id->event->param.conn, address);
}

static void publish(struct log *log, __u64 where, const void *data, size_t size, __u32 lkey,
		    __u64 pointer_where, const void *pointer)
{
	int ret = log_publish(&log->connection, where, data, size, lkey, pointer_where, pointer, 0);

	if (ret)
		errx(1, "ibv_wr_complete: %s", strerror(ret));
}

/* Learn where the log ends, or make one that is empty. */
static void open_log(struct log *log)
{
	struct log_header *header = &log->header;
	struct ibv_qp_ex *qp = log->connection.qp;
	static const __u64 magic = LOG_MAGIC;
	int ret;

	ibv_wr_start(qp);
	qp->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_read(qp, log->connection.region.rkey, log->connection.region.addr);
	ibv_wr_set_sge(qp, log->header_mr->lkey, (uintptr_t)header, sizeof(*header));
	ret = ibv_wr_complete(qp);
	if (ret || !log_completed(&log->connection, IBV_WC_RDMA_READ))
		errx(1, "the log cannot be read");

	if (header->magic == LOG_MAGIC) {
		if (header->epoch)
			errx(1, "this is one copy of a replicated log: remote-log-replicate appends to all of them");
		log->acknowledged = header->tail.records;
		return;
	}
	memset(header, 0, sizeof(*header));
	publish(log, offsetof(struct log_header, tail), &header->tail, sizeof(header->tail),
		log->header_mr->lkey, offsetof(struct log_header, magic), &magic);
	if (!log_completed(&log->connection, IBV_WC_FLUSH))
		errx(1, "the log cannot be made");
}

static void append(struct log *log, const char *line, size_t length)
{
	struct log_tail *tail = &log->header.tail;
	struct log_record *record = &log->slots[tail->records % log->connection.max_appends].record;
	__u64 where = LOG_RECORDS + (__u64)tail->bytes;
	size_t size;

	if (length > LOG_MAX_DATA)
		errx(1, "line %u is too long: %zu bytes", tail->records + 1, length);
	size = log_record_size(length);
	if (where + size > log->connection.region.size || tail->bytes + size > UINT32_MAX)
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
		       tail->records - log->acknowledged < log->connection.max_appends) {
			length = getline(&line, &line_size, text);
			if (length < 0)
				errx(1, "the text has only %u lines", tail->records);
			append(log, line, length);
		}
		if (!log_completed(&log->connection, IBV_WC_FLUSH))
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

void log_append_text(const char *address, const char *text, __u32 records, const char *acknowledged, __u32 step)
{
	static struct log log;
	FILE *lines = fopen(text, "r");
	bool complete;

	setlinebuf(stdout);
	if (!lines)
		err(1, "%s", text);

	log_connect(&log.connection, address);
	register_buffers(&log);
	open_log(&log);
	printf("the log holds %u records; appending %u, up to %u at once\n", log.acknowledged,
	       records, log.connection.max_appends);
	complete = append_lines(&log, lines, log.acknowledged + records, MAX(step ?: records / 10, 1u));
	keep_acknowledged(acknowledged, log.acknowledged);
	if (!complete)
		errx(1, "cut short; %u records are acknowledged", log.acknowledged);

	rdma_disconnect(log.connection.id);
	ibv_dereg_mr(log.slots_mr);
	ibv_dereg_mr(log.header_mr);
	rdma_destroy_qp(log.connection.id);
	rdma_destroy_id(log.connection.id);
	fclose(lines);
}
