// SPDX-License-Identifier: GPL-2.0
/*
 * remote-log-replicate on a bad network, and with a mistake for the tests to find:
 *
 *	broken-replicas MISTAKE SEED TEXT RECORDS ACKNOWLEDGED STEP ADDRESS[:PORT]...
 *
 * MISTAKE is one of the names below; "none" makes none.  With a SEED other than 0, what is appended stays
 * on its way to each target for a random while, so that the targets differ when something dies.  The
 * program itself is remote-log-replicate.c, as it is: only the rules that it asks, when what it posts
 * leaves, and how long it waits for a majority are changed.
 */
#include <err.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <string.h>
#include <sys/param.h>
#include <time.h>

#include "prng.h"
#include "remote-log-connection.h"
#include "remote-log-replicas.h"

static enum mistake {
	NONE,
	ONE_ANSWER,	/* acknowledges when one target has answered */
	ONE_TARGET,	/* recovers from one target */
	NO_REPAIR,	/* takes a target for the same as the log that has a tail, whatever it lacks before */
	LONGEST,	/* goes on with the longest copy, whatever its epoch */
} mistake;

static const char *const names[] = { "none", "one-answer", "one-target", "no-repair", "longest" };

static __u32 broken_acknowledged(const __u32 durable[], unsigned int targets)
{
	__u32 most = 0;

	if (mistake != ONE_ANSWER)
		return replicas_acknowledged(durable, targets);
	for (unsigned int i = 0; i < targets; i++)
		most = durable[i] > most ? durable[i] : most;
	return most;
}

static struct log_tail broken_common(const struct log_header *copy, const struct log_header *log)
{
	return mistake == NO_REPAIR ? log->tail : replicas_common(copy, log);
}

static const struct log_header *broken_choose(const struct log_header *const copies[], unsigned int n)
{
	const struct log_header *best = NULL;

	if (mistake != LONGEST && mistake != ONE_TARGET)
		return replicas_choose(copies, n);
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

static int late_publish(struct log_connection *connection, __u64 where, const void *data, size_t size,
			__u32 lkey, __u64 pointer_where, const void *pointer, __u64 wr_id)
{
	struct request request = { connection, 0, data, size, lkey, where, pointer_where, 0, wr_id };

	if (!lags)
		return log_publish(connection, where, data, size, lkey, pointer_where, pointer, wr_id);
	memcpy(&request.pointer, pointer, sizeof(request.pointer));
	return late(request);
}

static int late_store(struct log_connection *connection, __u64 where, const void *value, __u64 wr_id)
{
	struct request request = { .connection = connection, .pointer_where = where, .wr_id = wr_id };

	if (!lags)
		return log_store(connection, where, value, wr_id);
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
			log_publish(r->connection, r->where, r->data, r->size, r->lkey, r->pointer_where,
				    &r->pointer, r->wr_id);
		else
			log_store(r->connection, r->pointer_where, &r->pointer, r->wr_id);
	}
	n_requests = kept;
}

static int late_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	long now = lag_now();

	let_go(now, NULL);
	for (unsigned int i = 0; i < n_requests; i++)
		timeout = MIN(timeout, requests[i].due - now);
	return poll(fds, n, timeout);
}

static void late_destroy_qp(struct rdma_cm_id *id)
{
	let_go(0, id);
	rdma_destroy_qp(id);
}

/* A slow kernel needs more of it. */
static int time_scale = 1;

#define PATIENCE_MS		(20000 * time_scale)
#define replicas_acknowledged	broken_acknowledged
#define replicas_common		broken_common
#define replicas_choose		broken_choose
#define log_publish		late_publish
#define log_store		late_store
#define poll			late_poll
#define rdma_destroy_qp		late_destroy_qp
#define main			right_main
#include "remote-log-replicate.c"
#undef main

int main(int argc, char **argv)
{
	const size_t n = sizeof(names) / sizeof(*names);
	const char *scale = getenv("KSFT_TIMEOUT_SCALE");
	size_t i;

	for (i = 0; argc > 3 && i < n; i++)
		if (!strcmp(argv[1], names[i]))
			break;
	if (argc <= 3 || i == n)
		errx(1, "usage: broken-replicas MISTAKE SEED TEXT RECORDS ACKNOWLEDGED STEP ADDRESS[:PORT]...");
	if (scale)
		time_scale = atoi(scale);
	mistake = i;
	lags = strcmp(argv[2], "0");
	prng = prng_of_seed(log_number(argv[2]));
	return right_main(argc - 2, argv + 2);
}
