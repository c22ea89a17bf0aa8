// SPDX-License-Identifier: GPL-2.0
/*
 * The client of the benchmark: durable remote append by several methods, and the requests that it
 * is made of, against bench-target.
 *
 *	bench-client ADDRESS ROUNDS BATCH SEED "SIZE..." "MIB..."
 *
 * Appends records of each SIZE, and flushes regions of each MIB.  All cases, methods and sizes, are
 * connected first.  Then each has a batch of BATCH appends per round (FLUSH of a region: one).  SEED
 * decides their order, which differs from round to round, so that other load on the machine affects
 * all cases alike.  A first round, to warm up, does not count.  After each batch the target compares
 * its memory with what it must be.  A case that goes wrong is not run again, and says why.
 *
 * Prints one line of JSON for each case.  In a machine with one CPU, the line also has the CPU time
 * of both ends.
 */
#include <err.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <unistd.h>

#include "bench.h"
#include "prng.h"
#include "remote-log.h"

#define MAX_CASES	64
#define MIB		(1024ull * 1024)
#define MAX_SIZE	(64u << 10)
#define SEND_QUEUE	64
#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))
#define SIXTEEN(s)	s s s s s s s s s s s s s s s s

/*
 * The steps of an append, each one post of some requests; the client waits where there is a space,
 * and at the end.
 *
 *	W  WRITE of the record		P  WRITE of the pointer
 *	R  READ of its last 8 bytes	Q  READ of the pointer
 *	F  FLUSH of the record		T  FLUSH of the pointer
 *	A  ATOMIC WRITE of the pointer	M  FLUSH of the whole region
 *	S  SEND to the daemon, which makes the record durable, then the pointer, and answers by SEND
 */
static const struct method {
	const char *set, *name, *title, *steps;
	unsigned int in_flight;
} methods[] = {
	{ "append", "a", "WRITE, SEND; a daemon writes back and answers", "WS", 1 },
	{ "append", "b", "WRITE, READ; WRITE pointer, READ", "WR PQ", 1 },
	{ "append", "c", "WRITE; FLUSH; ATOMIC WRITE pointer; FLUSH", "W F A T", 1 },
	{ "append", "d", "WRITE, FLUSH, ATOMIC WRITE pointer, FLUSH", "WFAT", 1 },
	{ "append", "e", "d, five in flight", "WFAT", 5 },
	{ "latency", "write", "WRITE", "W", 1 },
	{ "latency", "read", "READ", "R", 1 },
	{ "latency", "flush", "FLUSH", "F", 1 },
	{ "latency", "atomic_write", "ATOMIC WRITE", "A", 1 },
	{ "rate", "write", "WRITE", SIXTEEN("W"), 4 },
	{ "rate", "read", "READ", SIXTEEN("R"), 4 },
	{ "rate", "flush", "FLUSH", SIXTEEN("F"), 4 },
	{ "rate", "atomic_write", "ATOMIC WRITE", SIXTEEN("A"), 4 },
	{ "region", "flush", "FLUSH of a region", "M", 1 },
	/* What a batch costs by itself: its busy time is taken off that of the others. */
	{ "nothing", "", "", "", 1 },
};

struct bench_case {
	const struct method *method;
	__u32 size;
	__u64 region;
	unsigned int batch;	/* appends in a batch */
	__u32 qp_index;
	struct ibv_qp_ex *qp;
	struct bench_told target;
	/* What came of it. */
	const char *failure;
	double *latencies;	/* us */
	unsigned int iterations;
	unsigned int appends;	/* those to warm up, too */
	double *seconds;	/* that each batch took */
	__u64 busy, target_busy;	/* ns */
};

struct client {
	struct end end;
	int fd;
	unsigned int rounds, batch;
	bool counts_cpu;
	struct prng prng;
	struct bench_case cases[MAX_CASES];
	unsigned int nr_cases;
	__u32 number;		/* of the next record */
	/* Of a batch; nothing is used twice in it. */
	struct memory {
		char *records;
		__u64 *pointers;
		struct bench_message *messages;
		struct bench_message answer;
		__u64 read;
		size_t size;
	} *memory;
	struct ibv_mr *mr;
};

/* --- Preparation --- */

static void *part(char **next, size_t size)
{
	void *part = *next;

	*next += size;
	return part;
}

/* One registration for everything. */
static void make_memory(struct client *me)
{
	size_t records = (size_t)me->batch * MAX_SIZE, pointers = me->batch * sizeof(__u64);
	size_t messages = me->batch * sizeof(struct bench_message);
	size_t size = sizeof(*me->memory) + records + pointers + messages;
	char *next = calloc(1, size);

	if (!next)
		err(1, "memory");
	me->mr = ibv_reg_mr(me->end.pd, next, size, IBV_ACCESS_LOCAL_WRITE);
	if (!me->mr)
		err(1, "ibv_reg_mr");
	me->memory = part(&next, sizeof(*me->memory));
	me->memory->pointers = part(&next, pointers);
	me->memory->messages = part(&next, messages);
	me->memory->records = part(&next, records);
}

static void ask(struct client *me, const struct bench_ask *ask, struct bench_told *told)
{
	end_send(me->fd, ask, sizeof(*ask));
	if (!end_receive(me->fd, told, sizeof(*told)))
		errx(1, "the target is gone");
}

static void connect_case(struct client *me, struct bench_case *it)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = me->end.cq,
		.recv_cq = me->end.cq,
		.pd = me->end.pd,
		.cap = { .max_send_wr = SEND_QUEUE, .max_recv_wr = 1, .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_FLUSH |
				  IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct bench_ask connect = { .what = BENCH_CONNECT, .size = it->region };
	struct ibv_qp *qp = ibv_create_qp_ex(me->end.context, &attr);

	if (!qp && errno == EOPNOTSUPP)
		errx(1, "this kernel has no FLUSH or no ATOMIC WRITE");
	if (!qp)
		err(1, "ibv_create_qp_ex");
	it->qp = ibv_qp_to_qp_ex(qp);
	connect.address = end_address(&me->end, qp);
	ask(me, &connect, &it->target);
	if (it->target.error)
		errx(1, "the target cannot register %llu bytes: %s", it->region,
		     strerror(it->target.error));
	end_connect_qp(&me->end, qp, 0, &it->target.address);
}

static bool is_of_regions(const struct method *method)
{
	return !strcmp(method->set, "region");
}

static void add_case(struct client *me, const struct method *method, __u32 size, __u64 region)
{
	struct bench_case *it = &me->cases[me->nr_cases];

	if (me->nr_cases == MAX_CASES)
		errx(1, "more than %d cases", MAX_CASES);
	it->method = method;
	it->size = size;
	it->region = region;
	/* On a kernel that walks the region each takes long. */
	it->batch = is_of_regions(method) ? 1 : me->batch;
	it->qp_index = me->nr_cases++;
	it->latencies = calloc(me->rounds * it->batch, sizeof(*it->latencies));
	it->seconds = calloc(me->rounds, sizeof(*it->seconds));
	if (!it->latencies || !it->seconds)
		err(1, "memory");
	connect_case(me, it);
}

/* Each of @sizes for appends, each of @regions for FLUSH of a region; 8 bytes for the rest. */
static void add_cases(struct client *me, char *sizes, char *regions)
{
	__u64 region = roundup(BENCH_RECORDS + (__u64)me->batch * MAX_SIZE, 2 * MIB);
	const struct method *method;
	char *word, *rest;

	for (method = methods; method < methods + ARRAY_SIZE(methods); method++) {
		bool of_regions = is_of_regions(method), of_sizes = !strcmp(method->set, "append");
		char *list = strdup(of_regions ? regions : of_sizes ? sizes : "8");

		for (word = strtok_r(list, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
			__u32 value = log_number(word);

			if (of_regions)
				add_case(me, method, 8, value * MIB);
			else if (value % 8 || !value || value > MAX_SIZE)
				errx(1, "a record of %u bytes? Say a multiple of 8, up to %u",
				     value, MAX_SIZE);
			else
				add_case(me, method, value, region);
		}
		free(list);
	}
}

/* --- A batch --- */

static void *record(const struct client *me, const struct bench_case *it, unsigned int n)
{
	return me->memory->records + (size_t)n * it->size;
}

static void set_sge(const struct client *me, const struct bench_case *it, void *data, size_t size)
{
	ibv_wr_set_sge(it->qp, me->mr->lkey, (uintptr_t)data, size);
}

static void send_message(const struct client *me, const struct bench_case *it, unsigned int n)
{
	struct memory *memory = me->memory;
	struct ibv_sge sge = {
		.addr = (uintptr_t)&memory->answer,
		.length = sizeof(memory->answer),
		.lkey = me->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(&it->qp->qp_base, &wr, &bad))
		errx(1, "ibv_post_recv");
	memory->messages[n] = (struct bench_message){
		.record = BENCH_RECORDS + (__u64)n * it->size,
		.size = it->size,
		.pointer = memory->pointers[n],
	};
	ibv_wr_send(it->qp);
	set_sge(me, it, &memory->messages[n], sizeof(memory->messages[n]));
}

/* Of append @n of the batch. */
static void post_request(const struct client *me, const struct bench_case *it, char request,
			 unsigned int n)
{
	struct memory *memory = me->memory;
	__u64 pointer = it->target.addr + BENCH_POINTER;
	__u64 where = it->target.addr + BENCH_RECORDS + (__u64)n * it->size;
	__u32 rkey = it->target.rkey;
	struct ibv_qp_ex *qp = it->qp;

	switch (request) {
	case 'W':
		ibv_wr_rdma_write(qp, rkey, where);
		set_sge(me, it, record(me, it, n), it->size);
		break;
	case 'R':
		ibv_wr_rdma_read(qp, rkey, where + it->size - 8);
		set_sge(me, it, &memory->read, 8);
		break;
	case 'P':
		ibv_wr_rdma_write(qp, rkey, pointer);
		set_sge(me, it, &memory->pointers[n], 8);
		break;
	case 'Q':
		ibv_wr_rdma_read(qp, rkey, pointer);
		set_sge(me, it, &memory->read, 8);
		break;
	case 'F':
		ibv_wr_flush(qp, rkey, where, it->size, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
		break;
	case 'T':
		ibv_wr_flush(qp, rkey, pointer, 8, IBV_FLUSH_PERSISTENT, IBV_FLUSH_RANGE);
		break;
	case 'M':
		ibv_wr_flush(qp, rkey, 0, 0, IBV_FLUSH_PERSISTENT, IBV_FLUSH_MR);
		break;
	case 'A':
		ibv_wr_atomic_write(qp, rkey, pointer, &memory->pointers[n]);
		break;
	case 'S':
		send_message(me, it, n);
		break;
	default:
		errx(1, "no such request: %c", request);
	}
}

/* One post of the requests up to the next space; only the last has a completion, or its answer. */
static const char *post(const struct client *me, const struct bench_case *it, const char *steps,
			unsigned int n)
{
	const char *end = strchrnul(steps, ' ');
	int ret;

	ibv_wr_start(it->qp);
	for (; steps < end; steps++) {
		it->qp->wr_flags = steps + 1 == end && *steps != 'S' ? IBV_SEND_SIGNALED : 0;
		post_request(me, it, *steps, n);
	}
	ret = ibv_wr_complete(it->qp);
	if (ret)
		errx(1, "ibv_wr_complete: %s", strerror(ret));
	return *end ? end + 1 : end;
}

/* What comes of a QP that has failed before is no news. */
static bool completed(struct client *me, struct bench_case *it)
{
	struct ibv_wc wc;

	do
		wc = end_completion(&me->end);
	while (wc.qp_num != it->qp->qp_base.qp_num);
	if (wc.status != IBV_WC_SUCCESS)
		it->failure = ibv_wc_status_str(wc.status);
	return wc.status == IBV_WC_SUCCESS;
}

/* Latencies go to @latencies. */
static bool append_batch(struct client *me, struct bench_case *it, double *latencies)
{
	const char *steps = it->method->steps;
	__u64 started[it->batch];
	unsigned int posted = 0, done;

	for (done = 0; done < it->batch; done++) {
		/* Only those of a single step are more than one in flight. */
		while (posted < it->batch && posted - done < it->method->in_flight) {
			started[posted] = bench_now();
			steps = post(me, it, it->method->steps, posted);
			posted++;
		}
		if (!completed(me, it))
			return false;
		while (*steps) {
			steps = post(me, it, steps, done);
			if (!completed(me, it))
				return false;
		}
		latencies[done] = (bench_now() - started[done]) / 1000.0;
	}
	return true;
}

/* Records that no batch had before, so that nothing of an older one can pass for them. */
static void make_records(struct client *me, const struct bench_case *it)
{
	unsigned int n;
	size_t i;

	for (n = 0; n < it->batch; n++) {
		__u64 *words = record(me, it, n);

		for (i = 0; i < it->size / sizeof(*words); i++)
			words[i] = bench_word(me->number, i);
		me->memory->pointers[n] = me->number++;
	}
}

static void run_batch(struct client *me, struct bench_case *it, bool counts)
{
	const char *steps = it->method->steps;
	struct bench_ask batch = {
		.what = BENCH_BEGIN,
		.count = it->batch,
		.size = it->size,
		.qp = it->qp_index,
		.first = me->number,
		.serve = strchr(steps, 'S'),
		.records = strchr(steps, 'W'),
		.pointer = strpbrk(steps, "PAS"),
	}, end = { .what = BENCH_END };
	double latencies[it->batch];
	struct bench_told told;
	__u64 start, elapsed, busy;

	make_records(me, it);
	ask(me, &batch, &told);
	busy = bench_busy();
	start = bench_now();
	if (*steps && !append_batch(me, it, latencies))
		return;
	elapsed = bench_now() - start;
	busy = bench_busy() - busy;
	ask(me, &end, &told);
	if (told.wrong)
		it->failure = "the target's memory is not what was written";
	it->appends += it->batch;
	if (!counts)
		return;
	it->seconds[it->iterations / it->batch] = elapsed / 1e9;
	memcpy(it->latencies + it->iterations, latencies, sizeof(latencies));
	it->iterations += it->batch;
	it->busy += busy;
	it->target_busy += told.busy;
}

static void run_round(struct client *me, bool counts)
{
	struct bench_case *order[MAX_CASES], *it;
	unsigned int i, other;

	for (i = 0; i < me->nr_cases; i++) {
		other = prng_below(&me->prng, i + 1);
		order[i] = order[other];
		order[other] = &me->cases[i];
	}
	for (i = 0; i < me->nr_cases; i++) {
		it = order[i];
		if (!it->failure)
			run_batch(me, it, counts);
	}
}

/* --- Result --- */

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

/* Appends per second of the typical batch: one that the machine has stalled does not spoil it. */
static double per_second(const struct client *me, const struct bench_case *it)
{
	qsort(it->seconds, me->rounds, sizeof(*it->seconds), compare);
	return it->batch / it->seconds[me->rounds / 2];
}

/* Of sorted latencies, as perftest takes it. */
static double percentile(const struct bench_case *it, double share)
{
	return it->latencies[(unsigned int)MIN(it->iterations * share, it->iterations - 1.0)];
}

/* The columns of perftest. */
static void print_latency(const struct bench_case *it)
{
	double sum = 0, squares = 0, average;
	unsigned int i;

	qsort(it->latencies, it->iterations, sizeof(*it->latencies), compare);
	for (i = 0; i < it->iterations; i++)
		sum += it->latencies[i];
	average = sum / it->iterations;
	for (i = 0; i < it->iterations; i++)
		squares += (it->latencies[i] - average) * (it->latencies[i] - average);
	printf(", \"t_min\": %.2f, \"t_max\": %.2f, \"t_typical\": %.2f, \"t_avg\": %.2f",
	       it->latencies[0], percentile(it, 1), percentile(it, 0.5), average);
	printf(", \"t_stdev\": %.2f, \"percentile_99\": %.2f, \"percentile_99.9\": %.2f",
	       sqrt(squares / it->iterations), percentile(it, 0.99), percentile(it, 0.999));
}

/* Per append; the last case is that of nothing. */
static double net(const struct client *me, const struct bench_case *it, __u64 busy,
		  __u64 of_nothing)
{
	double per_batch = (double)of_nothing / me->rounds;

	return (busy - per_batch * it->iterations / it->batch) / it->iterations;
}

static void print_case(const struct client *me, const struct bench_case *it)
{
	const struct bench_case *nothing = &me->cases[me->nr_cases - 1];
	const struct method *method = it->method;
	double rate;

	printf("{\"set\": \"%s\", \"method\": \"%s\", \"title\": \"%s\", \"steps\": \"%s\"",
	       method->set, method->name, method->title, method->steps);
	printf(", \"in_flight\": %u, \"size\": %u, \"region\": %llu, \"appends\": %u",
	       method->in_flight, it->size, it->region, it->appends);
	printf(", \"client_qpn\": \"0x%06x\", \"target_qpn\": \"0x%06llx\"",
	       it->qp->qp_base.qp_num, it->target.address.qpn);
	if (it->failure) {
		printf(", \"failure\": \"%s\"}\n", it->failure);
		return;
	}
	printf(", \"iterations\": %u", it->iterations);
	print_latency(it);
	rate = per_second(me, it);
	printf(", \"per_second\": %.2f, \"messages_per_second\": %.2f", rate,
	       rate * strlen(method->steps));
	if (me->counts_cpu)
		printf(", \"client_cpu\": %.0f, \"target_cpu\": %.0f",
		       net(me, it, it->busy, nothing->busy),
		       net(me, it, it->target_busy, nothing->target_busy));
	puts("}");
}

int main(int argc, char **argv)
{
	static struct client me;
	unsigned int i;

	if (argc != 7)
		errx(2, "usage: bench-client ADDRESS ROUNDS BATCH SEED \"SIZE...\" \"MIB...\"");
	me.rounds = log_number(argv[2]);
	me.batch = log_number(argv[3]);
	me.prng = prng_of_seed(log_number(argv[4]));
	me.counts_cpu = bench_count_cpu();
	end_open(&me.end);
	me.end.timeout = BENCH_TIMEOUT;
	me.fd = end_dial(argv[1]);
	make_memory(&me);
	add_cases(&me, argv[5], argv[6]);
	run_round(&me, false);
	for (i = 1; i <= me.rounds; i++) {
		fprintf(stderr, "round %u of %u\n", i, me.rounds);
		run_round(&me, true);
	}
	for (i = 0; i < me.nr_cases - 1; i++)
		print_case(&me, &me.cases[i]);
	return 0;
}
