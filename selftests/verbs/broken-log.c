// SPDX-License-Identifier: GPL-2.0
/*
 * remote-log-append with a mistake, for crash-states to find:
 *
 *	broken-log MISTAKE ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]
 *
 * MISTAKE is one of the names below; "none" makes none.  All of these pass on Soft-RoCE, which writes
 * through.  The program itself is remote-log-append.c, and remote-log-connection.c, as they are: only what
 * they post is changed.
 */
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "remote-log.h"

static enum mistake {
	NONE,
	NO_FLUSH,	/* before the tail; the last FLUSH is of the whole region */
	NO_FLUSH_ONCE,	/* the same for one record only */
	TAIL_ONLY,	/* the only FLUSH is that of the tail's 8 bytes */
	SHORT_RANGE,	/* the record's FLUSH is one byte short */
	WRITE_TAIL,	/* the tail by WRITE, behind a FLUSH that is not waited for */
	HALF_TAILS,	/* the tail by two WRITEs of 4 bytes, when the record is durable */
	GLOBAL_FLUSH,	/* of the record, for persistence */
	EARLY,		/* acknowledges when the record is durable, and the tail may not be */
	OTHER_QP,	/* the record's FLUSH on a QP of its own */
	NO_CHECKSUM,	/* relies on the record's checksum in place of its FLUSH, and leaves it out */
	CHECKSUM,	/* the same with the checksum, which is right */
	READ_FLUSH,	/* READ in place of each FLUSH */
} mistake;

static const char *const names[] = {
	"none", "no-flush", "no-flush-once", "tail-only", "short-range", "write-tail", "half-tails", "global",
	"early", "other-qp", "no-checksum", "checksum", "read",
};

/* Each append has two, the first of the record; so has the making of the log, where none is made. */
static unsigned int flushes;
static const char *target;
static struct rdma_cm_id *main_id, *other_id;

static void connect_other(void);

static void die(const char *what)
{
	fprintf(stderr, "broken-log: %s\n", what);
	exit(1);
}

/* On another connection, when the WRITE is on its way; and it has completed. */
static void flush_on_other_qp(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len)
{
	struct ibv_qp_ex *other;
	struct ibv_wc wc;

	if (ibv_wr_complete(qp))
		die("the WRITE cannot be posted");
	if (!other_id)
		connect_other();
	other = ibv_qp_to_qp_ex(other_id->qp);
	ibv_wr_start(other);
	other->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_flush(other, rkey, addr, len, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	if (ibv_wr_complete(other) || rdma_get_send_comp(other_id, &wc) != 1 || wc.status)
		die("the other QP does not flush");
	ibv_wr_start(qp);
	qp->wr_flags = 0;
}

static void flush_by_read(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len)
{
	static char sink[8192];
	static struct ibv_mr *mr;

	if (!mr)
		mr = ibv_reg_mr(main_id->pd, sink, sizeof(sink), IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		die("ibv_reg_mr");
	ibv_wr_rdma_read(qp, rkey, addr);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)sink, len);
}

/* Is the FLUSH of this record left to that of its tail? */
static bool leaves_it_to_the_tail(unsigned int record)
{
	return mistake == NO_FLUSH || mistake == NO_CHECKSUM || mistake == CHECKSUM ||
	       (mistake == NO_FLUSH_ONCE && record == 12);
}

static void flush_record(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len)
{
	enum ibv_placement_type type = IBV_FLUSH_PERSISTENT;

	switch (mistake) {
	case TAIL_ONLY:
		return;
	case OTHER_QP:
		flush_on_other_qp(qp, rkey, addr, len);
		return;
	case SHORT_RANGE:
		len--;
		break;
	case GLOBAL_FLUSH:
		type = IBV_FLUSH_GLOBAL;
		break;
	case EARLY:
		qp->wr_flags = IBV_SEND_SIGNALED;
		break;
	default:
		break;
	}
	ibv_wr_flush(qp, rkey, addr, len, type, IBV_FLUSH_RANGE);
	qp->wr_flags = 0;
}

static void flush_tail(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, unsigned int record)
{
	if (mistake == EARLY)
		qp->wr_flags = 0;
	if (leaves_it_to_the_tail(record))
		ibv_wr_flush(qp, rkey, 0, 0, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	else
		ibv_wr_flush(qp, rkey, addr, len, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
}

static void broken_flush(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len)
{
	unsigned int n = flushes++;

	if (mistake == READ_FLUSH)
		flush_by_read(qp, rkey, addr, len);
	else if (n < 2)
		ibv_wr_flush(qp, rkey, addr, len, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
	else if (n % 2)
		flush_tail(qp, rkey, addr, len, n / 2 - 1);
	else if (!leaves_it_to_the_tail(n / 2 - 1))
		flush_record(qp, rkey, addr, len);
}

static void broken_atomic_write(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, const void *data)
{
	if (flushes > 2 && mistake == WRITE_TAIL) {
		ibv_wr_rdma_write(qp, rkey, addr);
		ibv_wr_set_inline_data(qp, (void *)data, 8);
	} else if (flushes > 2 && mistake == HALF_TAILS) {
		/* The fence waits for the FLUSH. */
		qp->wr_flags = IBV_SEND_FENCE;
		ibv_wr_rdma_write(qp, rkey, addr);
		ibv_wr_set_inline_data(qp, (void *)data, 4);
		qp->wr_flags = 0;
		ibv_wr_rdma_write(qp, rkey, addr + 4);
		ibv_wr_set_inline_data(qp, (char *)data + 4, 4);
	} else {
		ibv_wr_atomic_write(qp, rkey, addr, data);
	}
}

/* Remember the QP, and give it room for one request more of each append, and for inline data. */
static int broken_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	attr->cap.max_inline_data = 16;
	attr->cap.max_send_wr *= 2;
	main_id = id;
	return rdma_create_qp_ex(id, attr);
}

static size_t broken_record_make(struct log_record *record, __u64 seq, const void *data, size_t length)
{
	size_t size = log_record_make(record, seq, data, length);

	if (mistake == NO_CHECKSUM)
		record->crc = 0;
	return size;
}

#define ibv_wr_flush(qp, rkey, addr, len, type, level)	broken_flush(qp, rkey, addr, len)
#define ibv_wr_atomic_write	broken_atomic_write
#define rdma_create_qp_ex	broken_create_qp_ex
#define log_record_make		broken_record_make
#define IBV_WC_FLUSH		(mistake == READ_FLUSH ? IBV_WC_RDMA_READ : IBV_WC_FLUSH)
#define main			right_main
#include "remote-log-connection.c"
#include "remote-log-append.c"
#undef main

static void connect_other(void)
{
	struct rdma_cm_id *id = main_id;
	static struct log other;

	connect_to(&other, target);
	other_id = other.connection.id;
	main_id = id;
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(names) / sizeof(*names);
	size_t i;

	for (i = 0; argc > 2 && i < n; i++)
		if (!strcmp(argv[1], names[i]))
			break;
	if (argc <= 2 || i == n)
		errx(1, "usage: broken-log MISTAKE ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]");
	mistake = i;
	target = argv[2];
	return right_main(argc - 1, argv + 1);
}
