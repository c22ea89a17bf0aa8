// SPDX-License-Identifier: GPL-2.0
/*
 * remote-log-append with a mistake, for crash-states to find:
 *
 *	broken-log MISTAKE ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]
 *
 * MISTAKE is one of the names below; "none" makes none.  All of these pass on Soft-RoCE, which writes
 * through.  The initiator itself is that of remote-log-append: the linker's option --wrap puts the functions
 * __wrap_*() below in the place of those that it calls, and these are __real_*() here.
 */
#include <err.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "remote-log-initiator.h"

static enum mistake {
	NONE,
	NO_FLUSH,	/* before the tail; the last FLUSH is of the whole region */
	NO_FLUSH_ONCE,	/* the same for one record only */
	TAIL_ONLY,	/* the only FLUSH is that of the tail's 8 bytes */
	SHORT_RANGE,	/* the record's FLUSH is one byte short */
	WRITE_TAIL,	/* the tail by WRITE, after a FLUSH that is not waited for */
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

static const char *target;

typeof(log_publish) __real_log_publish, __wrap_log_publish;
typeof(log_completed) __real_log_completed, __wrap_log_completed;
typeof(log_record_make) __real_log_record_make, __wrap_log_record_make;
typeof(rdma_create_qp_ex) __real_rdma_create_qp_ex, __wrap_rdma_create_qp_ex;

/* What a request is about: memory of the target. */
struct range {
	__u32 rkey;
	__u64 addr;
	size_t len;
};

static void flush(struct ibv_qp_ex *qp, const struct range *range, enum ibv_placement_type type)
{
	ibv_wr_flush(qp, range->rkey, range->addr, range->len, type, IBV_FLUSH_RANGE);
}

/* On another connection, once the WRITE is posted; and it has completed. */
static void flush_on_other_qp(struct ibv_qp_ex *qp, const struct range *range)
{
	static struct log_connection other;
	struct ibv_wc wc;

	if (ibv_wr_complete(qp))
		errx(1, "the WRITE cannot be posted");
	if (!other.qp)
		log_connect(&other, target);
	ibv_wr_start(other.qp);
	other.qp->wr_flags = IBV_SEND_SIGNALED;
	flush(other.qp, range, IBV_FLUSH_PERSISTENT);
	if (ibv_wr_complete(other.qp) || rdma_get_send_comp(other.id, &wc) != 1 || wc.status)
		errx(1, "the other QP does not flush");
	ibv_wr_start(qp);
	qp->wr_flags = 0;
}

static void read_range(struct ibv_qp_ex *qp, const struct range *range)
{
	static char sink[8192];
	static struct ibv_mr *mr;

	if (!mr)
		mr = ibv_reg_mr(qp->qp_base.pd, sink, sizeof(sink), IBV_ACCESS_LOCAL_WRITE);
	if (!mr)
		err(1, "ibv_reg_mr");
	ibv_wr_rdma_read(qp, range->rkey, range->addr);
	ibv_wr_set_sge(qp, mr->lkey, (uintptr_t)sink, range->len);
}

/* Is the FLUSH of this record left to that of its tail? */
static bool leaves_it_to_the_tail(unsigned int record)
{
	return mistake == NO_FLUSH || mistake == NO_CHECKSUM || mistake == CHECKSUM ||
	       (mistake == NO_FLUSH_ONCE && record == 12);
}

static void flush_record(struct ibv_qp_ex *qp, struct range range, unsigned int record)
{
	if (leaves_it_to_the_tail(record))
		return;
	switch (mistake) {
	case TAIL_ONLY:
		return;
	case OTHER_QP:
		flush_on_other_qp(qp, &range);
		return;
	case READ_FLUSH:
		read_range(qp, &range);
		return;
	case SHORT_RANGE:
		range.len--;
		break;
	case EARLY:
		qp->wr_flags = IBV_SEND_SIGNALED;
		break;
	default:
		break;
	}
	flush(qp, &range, mistake == GLOBAL_FLUSH ? IBV_FLUSH_GLOBAL : IBV_FLUSH_PERSISTENT);
	qp->wr_flags = 0;
}

static void store_tail(struct ibv_qp_ex *qp, const struct range *range, const void *tail)
{
	switch (mistake) {
	case WRITE_TAIL:
		ibv_wr_rdma_write(qp, range->rkey, range->addr);
		ibv_wr_set_inline_data(qp, (void *)tail, 8);
		break;
	case HALF_TAILS:
		/* The fence waits for the FLUSH. */
		qp->wr_flags = IBV_SEND_FENCE;
		ibv_wr_rdma_write(qp, range->rkey, range->addr);
		ibv_wr_set_inline_data(qp, (void *)tail, 4);
		qp->wr_flags = 0;
		ibv_wr_rdma_write(qp, range->rkey, range->addr + 4);
		ibv_wr_set_inline_data(qp, (char *)tail + 4, 4);
		break;
	default:
		ibv_wr_atomic_write(qp, range->rkey, range->addr, tail);
	}
}

static void flush_tail(struct ibv_qp_ex *qp, const struct range *range, unsigned int record)
{
	qp->wr_flags = mistake == EARLY ? 0 : IBV_SEND_SIGNALED;
	if (leaves_it_to_the_tail(record))
		ibv_wr_flush(qp, range->rkey, 0, 0, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
	else if (mistake == READ_FLUSH)
		read_range(qp, range);
	else
		flush(qp, range, IBV_FLUSH_PERSISTENT);
}

/* The log is made without a mistake; but READ takes the place of these FLUSHes, too. */
int __wrap_log_publish(struct log_connection *connection, __u64 where, const void *data, size_t size, __u32 lkey,
		       __u64 pointer_where, const void *pointer, __u64 wr_id)
{
	__u64 base = connection->region.addr;
	__u32 rkey = connection->region.rkey;
	const struct range range = { rkey, base + where, size }, tail = { rkey, base + pointer_where, 8 };
	struct ibv_qp_ex *qp = connection->qp;
	static unsigned int appends;
	unsigned int record;

	if (pointer_where != offsetof(struct log_header, tail) && mistake != READ_FLUSH)
		return __real_log_publish(connection, where, data, size, lkey, pointer_where, pointer, wr_id);
	record = appends++;

	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, rkey, range.addr);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)data, size);
	flush_record(qp, range, record);
	store_tail(qp, &tail, pointer);
	qp->wr_id = wr_id;
	flush_tail(qp, &tail, record);
	return ibv_wr_complete(qp);
}

bool __wrap_log_completed(struct log_connection *connection, enum ibv_wc_opcode opcode)
{
	if (mistake == READ_FLUSH && opcode == IBV_WC_FLUSH)
		opcode = IBV_WC_RDMA_READ;
	return __real_log_completed(connection, opcode);
}

/* With room for one request more of each append, and for inline data. */
int __wrap_rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
	attr->cap.max_inline_data = 16;
	attr->cap.max_send_wr *= 2;
	return __real_rdma_create_qp_ex(id, attr);
}

size_t __wrap_log_record_make(struct log_record *record, __u64 seq, const void *data, size_t length)
{
	size_t size = __real_log_record_make(record, seq, data, length);

	if (mistake == NO_CHECKSUM)
		record->crc = 0;
	return size;
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(names) / sizeof(*names);
	size_t i;

	for (i = 0; argc > 2 && i < n; i++)
		if (!strcmp(argv[1], names[i]))
			break;
	if (argc < 6 || argc > 7 || i == n)
		errx(1, "usage: broken-log MISTAKE ADDRESS TEXT RECORDS ACKNOWLEDGED [STEP]");
	mistake = i;
	target = argv[2];
	log_append_text(target, argv[3], log_number(argv[4]), argv[5], argc == 7 ? log_number(argv[6]) : 0);
	return 0;
}
