// SPDX-License-Identifier: GPL-2.0
/*
 * remote-log-replicate on a bad network, and with a mistake for the tests to find:
 *
 *	broken-replicas MISTAKE SEED TEXT RECORDS ACKNOWLEDGED STEP ADDRESS[:PORT]...
 *
 * MISTAKE is one of the names below; "none" makes none.  With a SEED other than 0, what is appended gets
 * to each target after a random while, so that the targets differ when something dies.  The
 * initiator itself is that of remote-log-replicate: the linker's option --wrap puts the functions __wrap_*()
 * below in the place of those that it calls, and these are __real_*() here.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "prng.h"
#include "remote-log-connection.h"
#include "remote-log-replicas.h"
#include "replicas-initiator.h"
#include "timeout-scale.h"

typeof(replicas_acknowledged) __real_replicas_acknowledged, __wrap_replicas_acknowledged;
typeof(replicas_choose) __real_replicas_choose, __wrap_replicas_choose;
typeof(replicas_common) __real_replicas_common, __wrap_replicas_common;
typeof(log_publish) __real_log_publish, __wrap_log_publish;
typeof(log_store) __real_log_store, __wrap_log_store;
typeof(poll) __real_poll, __wrap_poll;
typeof(rdma_destroy_qp) __real_rdma_destroy_qp, __wrap_rdma_destroy_qp;

static enum mistake {
	NONE,
	ONE_ANSWER,	/* acknowledges when one target has answered */
	ONE_TARGET,	/* recovers from one target */
	NO_REPAIR,	/* takes a target for the same as the log that has a tail, whatever it lacks before */
	LONGEST,	/* goes on with the longest copy, whatever its epoch */
	NO_FLUSH,	/* lets the tail come without a FLUSH of the records */
} mistake;

static const char *const names[] = { "none", "one-answer", "one-target", "no-repair", "longest", "no-flush" };

__u32 __wrap_replicas_acknowledged(const __u32 durable[], unsigned int targets)
{
	__u32 most = 0;

	if (mistake != ONE_ANSWER)
		return __real_replicas_acknowledged(durable, targets);
	for (unsigned int i = 0; i < targets; i++)
		most = durable[i] > most ? durable[i] : most;
	return most;
}

struct log_tail __wrap_replicas_common(const struct log_header *copy, const struct log_header *log)
{
	return mistake == NO_REPAIR ? log->tail : __real_replicas_common(copy, log);
}

const struct log_header *__wrap_replicas_choose(const struct log_header *const copies[], unsigned int n)
{
	const struct log_header *best = NULL;

	if (mistake != LONGEST && mistake != ONE_TARGET)
		return __real_replicas_choose(copies, n);
	for (unsigned int i = 0; i < n; i++)
		if (copies[i] && (!best || (mistake == LONGEST &&
					    copies[i]->tail.records > best->tail.records)))
			best = copies[i];
	return best;
}

/*
 * The bad network: what is posted to a target leaves later, in order.
 */
static bool lags;
static struct prng prng;
static struct request {
	struct log_connection *connection;
	long due;			/* ms */
	const void *data;		/* NULL: a store alone */
	size_t size;
	__u32 lkey;
	__u64 where, pointer_where, pointer, wr_id;
} requests[256];
static unsigned int n_requests;

static long lag_now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 + time.tv_nsec / 1000000;
}

/* Mostly soon; at times it stalls. */
static int late(struct request request)
{
	request.due = lag_now() + (prng_once_in(&prng, 8) ? prng_below(&prng, 60) : prng_below(&prng, 2));
	for (unsigned int i = 0; i < n_requests; i++)
		if (requests[i].connection == request.connection)
			request.due = MAX(request.due, requests[i].due);
	if (n_requests == sizeof(requests) / sizeof(*requests))
		return ENOMEM;
	requests[n_requests++] = request;
	return 0;
}

static int publish(struct log_connection *connection, __u64 where, const void *data, size_t size, __u32 lkey,
		   __u64 pointer_where, const void *pointer, __u64 wr_id)
{
	struct ibv_qp_ex *qp = connection->qp;
	__u64 base = connection->region.addr;

	if (mistake != NO_FLUSH)
		return __real_log_publish(connection, where, data, size, lkey, pointer_where, pointer, wr_id);
	ibv_wr_start(qp);
	qp->wr_flags = 0;
	ibv_wr_rdma_write(qp, connection->region.rkey, base + where);
	ibv_wr_set_sge(qp, lkey, (uintptr_t)data, size);
	if (ibv_wr_complete(qp))
		return ENOMEM;
	return __real_log_store(connection, pointer_where, pointer, wr_id);
}

int __wrap_log_publish(struct log_connection *connection, __u64 where, const void *data, size_t size,
		       __u32 lkey, __u64 pointer_where, const void *pointer, __u64 wr_id)
{
	struct request request = { connection, 0, data, size, lkey, where, pointer_where, 0, wr_id };

	if (!lags)
		return publish(connection, where, data, size, lkey, pointer_where, pointer, wr_id);
	memcpy(&request.pointer, pointer, sizeof(request.pointer));
	return late(request);
}

int __wrap_log_store(struct log_connection *connection, __u64 where, const void *value, __u64 wr_id)
{
	struct request request = { .connection = connection, .pointer_where = where, .wr_id = wr_id };

	if (!lags)
		return __real_log_store(connection, where, value, wr_id);
	memcpy(&request.pointer, value, sizeof(request.pointer));
	return late(request);
}

/* Send those whose time has come, or drop them, if @gone is their connection. */
static void let_go(long now, const struct rdma_cm_id *gone)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < n_requests; i++) {
		struct request *r = &requests[i];

		if (r->connection->id == gone)
			continue;
		if (r->due > now)
			requests[kept++] = *r;
		else if (r->data)
			publish(r->connection, r->where, r->data, r->size, r->lkey, r->pointer_where, &r->pointer,
				r->wr_id);
		else
			__real_log_store(r->connection, r->pointer_where, &r->pointer, r->wr_id);
	}
	n_requests = kept;
}

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	long now = lag_now();

	let_go(now, NULL);
	for (unsigned int i = 0; i < n_requests; i++)
		timeout = MIN(timeout, requests[i].due - now);
	return __real_poll(fds, n, timeout);
}

void __wrap_rdma_destroy_qp(struct rdma_cm_id *id)
{
	let_go(0, id);
	__real_rdma_destroy_qp(id);
}

int main(int argc, char **argv)
{
	const size_t n = sizeof(names) / sizeof(*names);
	size_t i;

	for (i = 0; argc > 1 && i < n; i++)
		if (!strcmp(argv[1], names[i]))
			break;
	if (argc < 8 || argc > 7 + REPLICAS_MAX || i == n)
		errx(1, "usage: broken-replicas MISTAKE SEED TEXT RECORDS ACKNOWLEDGED STEP ADDRESS[:PORT]...");
	mistake = i;
	lags = strcmp(argv[2], "0");
	prng = prng_of_seed(log_number(argv[2]));
	replicas_append(&(struct replicas_job){
		.text = argv[3],
		.records = log_number(argv[4]),
		.acknowledged = argv[5],
		.step = log_number(argv[6]),
		.addresses = argv + 7,
		.targets = argc - 7,
		.patience_ms = 20000 * timeout_scale(),
	});
	return 0;
}
