// SPDX-License-Identifier: GPL-2.0
/*
 * The client of the benchmark: durable remote append by several methods, and the requests that it
 * is made of, against bench-target.
 *
 *	bench-client [OPTION...] ADDRESS
 *
 *	--rounds N	each has one batch of every case (20)
 *	--batch N	appends in a batch (10); FLUSH of a region: one
 *	--seed N	decides the order in a round
 *	--sizes LIST	of records, in bytes
 *	--regions LIST	to flush, in MiB
 *	--delays LIST	one way, in us
 *	--busy LIST	programs for each CPU of the target
 *	--clients LIST	that append at the same time, each to a log of its own
 *	--methods LIST	of append, and nothing but these
 *	--count-cpu	of both ends, in place of times that mean something
 *
 * A condition is a delay, a number of busy programs and a number of clients.  The first of each
 * list make the plain one, which all cases are measured in.  Every other one differs from it in one
 * of the three; in it, appends of the smallest size and single requests are measured.
 *
 * In each round the conditions come in an order of their own, and in each condition the cases, so
 * that other load on the machine affects all of them alike.  A first round, to warm up, does not
 * count.  After each batch the target compares its memory with what it must be.  A case that goes
 * wrong is not run again, and says why.
 *
 * Prints raw samples, one line of JSON for each case, and then one for each batch.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"
#include "prng.h"
#include "remote-log.h"

#define MAX_CASES	1024
#define MAX_CONDITIONS	64
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
 *	S  SEND to a daemon that sleeps; it makes the record durable, then the pointer, and
 *	   answers by SEND
 *	L  SEND to one that polls
 *	I  WRITE_WITH_IMM of the record; to the daemon, the immediate says which it is
 *	N  SEND of the record; the daemon stores it in the log
 *	X  WRITE of the pointer with a fence: the client sends it when the READ before it is done
 *
 * "further" are other ways to append records of the smallest size, and the same ways with several
 * in flight; in "polling" the client polls for its completions.
 */
static const struct method {
	const char *set, *name, *title, *steps;
	unsigned int in_flight;
} methods[] = {
	{ "append", "a", "WRITE, SEND; a daemon that sleeps writes back and answers", "WS", 1 },
	{ "append", "p", "the same; the daemon polls", "WL", 1 },
	{ "append", "b", "WRITE, READ; WRITE pointer, READ", "WR PQ", 1 },
	{ "append", "c", "WRITE; FLUSH; ATOMIC WRITE pointer; FLUSH", "W F A T", 1 },
	{ "append", "d", "WRITE, FLUSH, ATOMIC WRITE pointer, FLUSH", "WFAT", 1 },
	{ "append", "e", "d, five in flight", "WFAT", 5 },
	{ "further", "w", "a, but WRITE_WITH_IMM in place of WRITE, SEND", "I", 1 },
	{ "further", "s", "a, but SEND of the record", "N", 1 },
	{ "further", "r", "WRITE of a record with a checksum, READ; no pointer", "WR", 1 },
	{ "further", "k", "WRITE of a record with a checksum, FLUSH; no pointer", "WF", 1 },
	{ "further", "b-fence", "b in one post, with a fence", "WRXQ", 1 },
	{ "polling", "a", "a; the client polls", "WS", 1 },
	{ "polling", "p", "p; the client polls", "WL", 1 },
	{ "polling", "b", "b; the client polls", "WR PQ", 1 },
	{ "polling", "c", "c; the client polls", "W F A T", 1 },
	{ "polling", "d", "d; the client polls", "WFAT", 1 },
	{ "further", "a-5", "a, five in flight", "WS", 5 },
	{ "further", "p-5", "p, five in flight", "WL", 5 },
	{ "further", "b-5", "b, five in flight", "WR PQ", 5 },
	{ "latency", "write", "WRITE", "W", 1 },
	{ "latency", "read", "READ", "R", 1 },
	{ "latency", "flush", "FLUSH", "F", 1 },
	{ "latency", "atomic_write", "ATOMIC WRITE", "A", 1 },
	{ "rate", "write", "WRITE", SIXTEEN("W"), 4 },
	{ "rate", "read", "READ", SIXTEEN("R"), 4 },
	{ "rate", "flush", "FLUSH", SIXTEEN("F"), 4 },
	{ "rate", "atomic_write", "ATOMIC WRITE", SIXTEEN("A"), 4 },
	{ "region", "flush", "FLUSH of a region", "M", 1 },
	/* What a batch costs by itself: its CPU is taken off that of the others. */
	{ "nothing", "", "", "", 1 },
};

enum knob { DELAY, BUSY, CLIENTS, NR_KNOBS };

struct condition {
	__u32 of[NR_KNOBS];
};

#define MAX_IN_FLIGHT	8	/* a power of 2 */

/* One client of a case.  It waits for one step of an append before it takes the next. */
struct connection {
	struct ibv_qp_ex *qp;
	struct bench_told target;
	/* In this batch: appends that have begun, and posts, which are done in their order. */
	unsigned int begun, done, posts, posts_done;
	struct post {
		unsigned int append;
		const char *left;	/* the steps after it */
	} in_flight[MAX_IN_FLIGHT];
};

struct bench_case {
	const struct method *method;
	unsigned int condition;
	__u32 size;
	__u64 region;
	unsigned int clients, batch;	/* of each client */
	struct connection *connections;
	const char *failure;
};

struct client {
	struct end end;
	int fd;
	unsigned int rounds, batch;
	struct prng prng;
	struct condition conditions[MAX_CONDITIONS];
	unsigned int nr_conditions;
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
	} *memory;
	struct ibv_mr *mr;
};

/* --- Preparation --- */

typedef void use_number(struct client *me, __u64 number, const void *with);

/* Calls @use with each number of @list. */
static void each_number(struct client *me, const char *list, use_number *use, const void *with)
{
	char *copy = strdup(list), *rest, *word;

	for (word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
		use(me, log_number(word), with);
	free(copy);
}

static void *part(char **next, size_t size)
{
	void *part = *next;

	*next += size;
	return part;
}

/* Of any batch of any case. */
static void largest_batch(const struct client *me, size_t *appends, size_t *bytes)
{
	const struct bench_case *it;

	for (it = me->cases; it < me->cases + me->nr_cases; it++) {
		*appends = MAX(*appends, (size_t)it->batch * it->clients);
		*bytes = MAX(*bytes, (size_t)it->batch * it->clients * it->size);
	}
}

/* One registration for everything. */
static void make_memory(struct client *me)
{
	size_t appends = 0, records = 0, size;
	char *next;

	largest_batch(me, &appends, &records);
	size = sizeof(*me->memory) + records +
	       appends * (sizeof(__u64) + sizeof(struct bench_message));
	next = calloc(1, size);
	if (!next)
		err(1, "memory");
	me->mr = ibv_reg_mr(me->end.pd, next, size, IBV_ACCESS_LOCAL_WRITE);
	if (!me->mr)
		err(1, "ibv_reg_mr");
	me->memory = part(&next, sizeof(*me->memory));
	me->memory->pointers = part(&next, appends * sizeof(__u64));
	me->memory->messages = part(&next, appends * sizeof(struct bench_message));
	me->memory->records = part(&next, records);
}

static void ask(struct client *me, const struct bench_ask *ask, struct bench_told *told)
{
	end_send(me->fd, ask, sizeof(*ask));
	if (!end_receive(me->fd, told, sizeof(*told)))
		errx(1, "the target is gone");
}

static void connect_client(struct client *me, const struct bench_case *it,
			   struct connection *connection)
{
	struct ibv_qp_init_attr_ex attr = {
		.qp_type = IBV_QPT_RC,
		.send_cq = me->end.cq,
		.recv_cq = me->end.cq,
		.pd = me->end.pd,
		.cap = { .max_send_wr = SEND_QUEUE, .max_recv_wr = MAX_IN_FLIGHT,
			 .max_send_sge = 2, .max_recv_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_RDMA_WRITE |
				  IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
				  IBV_QP_EX_WITH_FLUSH | IBV_QP_EX_WITH_ATOMIC_WRITE,
	};
	struct bench_ask connect = {
		.what = BENCH_CONNECT,
		.size = it->region,
		.message = strchr(it->method->steps, 'N') ? it->size : 0,
	};
	struct ibv_qp *qp = ibv_create_qp_ex(me->end.context, &attr);

	if (!qp && errno == EOPNOTSUPP)
		errx(1, "this kernel has no FLUSH or no ATOMIC WRITE");
	if (!qp)
		err(1, "ibv_create_qp_ex");
	connection->qp = ibv_qp_to_qp_ex(qp);
	connect.address = end_address(&me->end, qp);
	ask(me, &connect, &connection->target);
	if (connection->target.error)
		errx(1, "the target cannot register %llu bytes: %s", it->region,
		     strerror(connection->target.error));
	end_connect_qp(&me->end, qp, 0, &connection->target.address);
}

static bool is_of(const struct method *method, const char *set)
{
	return !strcmp(method->set, set);
}

static void add_case(struct client *me, const struct method *method, unsigned int condition,
		     __u32 size, __u64 region)
{
	struct bench_case *it = &me->cases[me->nr_cases++];
	unsigned int i;

	if (me->nr_cases > MAX_CASES)
		errx(1, "more than %d cases", MAX_CASES);
	it->method = method;
	it->condition = condition;
	it->clients = me->conditions[condition].of[CLIENTS];
	it->size = size;
	/* On a kernel that walks the region each takes long. */
	it->batch = is_of(method, "region") ? 1 : me->batch;
	it->region = region ?: roundup(bench_log(it->clients, it->batch, size), 2 * MIB);
	it->connections = calloc(it->clients, sizeof(*it->connections));
	if (!it->connections)
		err(1, "memory");
	for (i = 0; i < it->clients; i++)
		connect_client(me, it, &it->connections[i]);
}

static void add_append(struct client *me, __u64 size, const void *method)
{
	if (size % 8 || !size || size > MAX_SIZE)
		errx(1, "--sizes: a record of %llu bytes? Say a multiple of 8, up to %u", size,
		     MAX_SIZE);
	add_case(me, method, 0, size, 0);
}

static void add_region(struct client *me, __u64 mib, const void *method)
{
	if (!mib)
		errx(1, "--regions: a region of 0 MiB?");
	add_case(me, method, 0, 8, mib * MIB);
}

static bool has_word(const char *list, const char *word)
{
	size_t length = strlen(word);
	const char *at;

	for (at = list; (at = strstr(at, word)); at += length)
		if ((at == list || at[-1] == ' ') && (!at[length] || at[length] == ' '))
			return true;
	return false;
}

static void add_cases(struct client *me, const char *sizes, const char *regions,
		      const char *only)
{
	const struct method *method;
	unsigned int condition;
	__u32 size = atoi(sizes);

	for (method = methods; method < methods + ARRAY_SIZE(methods); method++) {
		bool of_sizes = is_of(method, "append");
		bool further = is_of(method, "further") || is_of(method, "polling");

		if (only && !((of_sizes || further) && has_word(only, method->name)))
			continue;
		if (of_sizes)
			each_number(me, sizes, add_append, method);
		else if (further)
			add_append(me, size, method);
		else if (is_of(method, "region"))
			each_number(me, regions, add_region, method);
		else
			add_case(me, method, 0, 8, 0);
		if ((!of_sizes || method->in_flight > 1) && !is_of(method, "latency"))
			continue;
		for (condition = 1; condition < me->nr_conditions; condition++)
			add_case(me, method, condition, of_sizes ? size : 8, 0);
	}
	if (!me->nr_cases)
		errx(1, "--methods %s: there is none of this name", only);
}

/* --- A batch.  Append @n of it is of client @n % clients. --- */

static void *record(const struct client *me, const struct bench_case *it, unsigned int n)
{
	return me->memory->records + (size_t)n * it->size;
}

static __u64 log_place(const struct bench_case *it, unsigned int n)
{
	return bench_log(n % it->clients, it->batch, it->size);
}

static __u64 record_place(const struct bench_case *it, unsigned int n)
{
	return bench_record(n % it->clients, it->batch, it->size, n / it->clients);
}

static void post_receive(const struct client *me, struct ibv_qp_ex *qp)
{
	struct memory *memory = me->memory;
	struct ibv_sge sge = {
		.addr = (uintptr_t)&memory->answer,
		.length = sizeof(memory->answer),
		.lkey = me->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

	if (ibv_post_recv(&qp->qp_base, &wr, &bad))
		errx(1, "ibv_post_recv");
}

/* With the record or without it */
static void send_message(const struct client *me, const struct bench_case *it,
			 struct ibv_qp_ex *qp, unsigned int n, bool with_record)
{
	struct memory *memory = me->memory;
	struct ibv_sge parts[] = {
		{ (uintptr_t)&memory->messages[n], sizeof(memory->messages[n]), me->mr->lkey },
		{ (uintptr_t)record(me, it, n), it->size, me->mr->lkey },
	};

	post_receive(me, qp);
	memory->messages[n] = (struct bench_message){
		.record = record_place(it, n),
		.size = it->size,
		.pointer = log_place(it, n) + BENCH_POINTER,
		.number = memory->pointers[n],
	};
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, with_record ? 2 : 1, parts);
}

static void post_request(const struct client *me, const struct bench_case *it, char request,
			 unsigned int n)
{
	struct connection *connection = &it->connections[n % it->clients];
	struct memory *memory = me->memory;
	__u64 pointer = connection->target.addr + log_place(it, n) + BENCH_POINTER;
	__u64 where = connection->target.addr + record_place(it, n);
	__u32 rkey = connection->target.rkey;
	struct ibv_qp_ex *qp = connection->qp;

	switch (request) {
	case 'W':
		ibv_wr_rdma_write(qp, rkey, where);
		ibv_wr_set_sge(qp, me->mr->lkey, (uintptr_t)record(me, it, n), it->size);
		break;
	case 'R':
		ibv_wr_rdma_read(qp, rkey, where + it->size - 8);
		ibv_wr_set_sge(qp, me->mr->lkey, (uintptr_t)&memory->read, 8);
		break;
	case 'X':
		qp->wr_flags |= IBV_SEND_FENCE;
		/* fallthrough */
	case 'P':
		ibv_wr_rdma_write(qp, rkey, pointer);
		ibv_wr_set_sge(qp, me->mr->lkey, (uintptr_t)&memory->pointers[n], 8);
		break;
	case 'Q':
		ibv_wr_rdma_read(qp, rkey, pointer);
		ibv_wr_set_sge(qp, me->mr->lkey, (uintptr_t)&memory->read, 8);
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
	case 'L':
		send_message(me, it, qp, n, false);
		break;
	case 'N':
		send_message(me, it, qp, n, true);
		break;
	case 'I':
		post_receive(me, qp);
		ibv_wr_rdma_write_imm(qp, rkey, where, htonl(n));
		ibv_wr_set_sge(qp, me->mr->lkey, (uintptr_t)record(me, it, n), it->size);
		break;
	default:
		errx(1, "no such request: %c", request);
	}
}

/* The daemon answers it. */
static bool is_for_daemon(char request)
{
	return strchr("SLIN", request);
}

/*
 * One post: the requests of @steps up to the next space.  Only the last has a completion, or its
 * answer.
 */
static void post(const struct client *me, const struct bench_case *it,
		 struct connection *connection, const char *steps, unsigned int n)
{
	struct ibv_qp_ex *qp = connection->qp;
	const char *end = strchrnul(steps, ' ');
	int ret;

	connection->in_flight[connection->posts++ % MAX_IN_FLIGHT] = (struct post){
		.append = n,
		.left = *end ? end + 1 : end,
	};
	ibv_wr_start(qp);
	for (; steps < end; steps++) {
		qp->wr_flags = steps + 1 == end && !is_for_daemon(*steps) ? IBV_SEND_SIGNALED : 0;
		post_request(me, it, *steps, n);
	}
	ret = ibv_wr_complete(qp);
	if (ret)
		errx(1, "ibv_wr_complete: %s", strerror(ret));
}

static struct ibv_wc wait_for_completion(struct client *me, const struct bench_case *it)
{
	return is_of(it->method, "polling") ? bench_poll(&me->end) : end_completion(&me->end);
}

/* Whose step is done.  What comes of a QP that has failed before is no news. */
static struct connection *completed(struct client *me, struct bench_case *it)
{
	struct connection *connection;
	struct ibv_wc wc;

	while (true) {
		wc = wait_for_completion(me, it);
		for (connection = it->connections; connection < it->connections + it->clients;
		     connection++) {
			if (connection->qp->qp_base.qp_num != wc.qp_num)
				continue;
			if (wc.status == IBV_WC_SUCCESS)
				return connection;
			it->failure = ibv_wc_status_str(wc.status);
			return NULL;
		}
	}
}

/* As many appends as may be in flight */
static void post_appends(struct client *me, struct bench_case *it, struct connection *connection,
			 __u64 *started)
{
	unsigned int n;

	while (connection->begun < it->batch &&
	       connection->begun - connection->done < it->method->in_flight) {
		n = connection->begun++ * it->clients + (connection - it->connections);
		started[n] = bench_now();
		post(me, it, connection, it->method->steps, n);
	}
}

/* To @latencies goes the start of each append, and its latency in place of that. */
static bool append_batch(struct client *me, struct bench_case *it, __u64 *latencies)
{
	unsigned int i, left = it->batch * it->clients;
	struct connection *connection;
	struct post *done;

	for (i = 0; i < it->clients; i++) {
		connection = &it->connections[i];
		connection->begun = connection->done = 0;
		connection->posts = connection->posts_done = 0;
		post_appends(me, it, connection, latencies);
	}
	while (left) {
		connection = completed(me, it);
		if (!connection)
			return false;
		done = &connection->in_flight[connection->posts_done++ % MAX_IN_FLIGHT];
		if (*done->left) {
			post(me, it, connection, done->left, done->append);
			continue;
		}
		latencies[done->append] = bench_now() - latencies[done->append];
		connection->done++;
		left--;
		post_appends(me, it, connection, latencies);
	}
	return true;
}

/* Records that no batch had before, so that nothing of an older one can pass for them. */
static void make_records(struct client *me, const struct bench_case *it)
{
	unsigned int n;
	size_t i;

	for (n = 0; n < it->batch * it->clients; n++) {
		__u64 *words = record(me, it, n);

		for (i = 0; i < it->size / sizeof(*words); i++)
			words[i] = bench_word(me->number, i);
		me->memory->pointers[n] = me->number++;
	}
}

static void print_batch(const struct client *me, const struct bench_case *it, unsigned int round,
			__u64 elapsed, __u64 client_cpu, __u64 target_cpu, const __u64 *latencies)
{
	unsigned int n;

	printf("{\"case\": %td, \"round\": %u, \"us\": %.1f", it - me->cases, round, elapsed / 1e3);
	printf(", \"client_cpu\": %llu, \"target_cpu\": %llu", client_cpu, target_cpu);
	printf(", \"latencies\": [");
	for (n = 0; *it->method->steps && n < it->batch * it->clients; n++)
		printf("%s%.1f", n ? ", " : "", latencies[n] / 1e3);
	puts("]}");
}

static enum bench_daemon daemon_of(const char *steps)
{
	if (strpbrk(steps, "SIN"))
		return BENCH_SLEEPS;
	return strchr(steps, 'L') ? BENCH_POLLS : BENCH_NO_DAEMON;
}

/* Round 0 is to warm up. */
static void run_batch(struct client *me, struct bench_case *it, unsigned int round)
{
	const char *steps = it->method->steps;
	struct bench_ask batch = {
		.what = BENCH_BEGIN,
		.clients = it->clients,
		.count = it->batch,
		.size = it->size,
		.first = me->number,
		.daemon = daemon_of(steps),
		.records = strpbrk(steps, "WIN"),
		.pointer = strpbrk(steps, "PXASLIN"),
	}, end = { .what = BENCH_END };
	__u64 latencies[it->batch * it->clients];
	struct bench_told told;
	__u64 start, elapsed, cpu;

	make_records(me, it);
	ask(me, &batch, &told);
	cpu = bench_busy();
	start = bench_now();
	if (*steps && !append_batch(me, it, latencies))
		return;
	elapsed = bench_now() - start;
	cpu = bench_busy() - cpu;
	ask(me, &end, &told);
	if (told.wrong)
		it->failure = "the target's memory is not what was written";
	else if (round)
		print_batch(me, it, round, elapsed, cpu, told.busy, latencies);
}

/* Fills @order with 0 to @n - 1. */
static void shuffle(struct client *me, unsigned int *order, unsigned int n)
{
	unsigned int i, other;

	for (i = 0; i < n; i++) {
		other = prng_below(&me->prng, i + 1);
		order[i] = order[other];
		order[other] = i;
	}
}

static void set_condition(struct client *me, const struct condition *condition)
{
	struct bench_ask change = {
		.what = BENCH_CONDITION,
		.delay = condition->of[DELAY],
		.busy = condition->of[BUSY],
	};
	struct bench_told told;

	bench_delay(condition->of[DELAY]);
	ask(me, &change, &told);
}

static void run_round(struct client *me, unsigned int round)
{
	unsigned int conditions[MAX_CONDITIONS], cases[MAX_CASES], i, j;

	fprintf(stderr, "round %u of %u\n", round, me->rounds);
	shuffle(me, conditions, me->nr_conditions);
	for (i = 0; i < me->nr_conditions; i++) {
		set_condition(me, &me->conditions[conditions[i]]);
		shuffle(me, cases, me->nr_cases);
		for (j = 0; j < me->nr_cases; j++) {
			struct bench_case *it = &me->cases[cases[j]];

			if (it->condition == conditions[i] && !it->failure)
				run_batch(me, it, round);
		}
	}
	fflush(stdout);
}

/* --- What the samples are of, and main() --- */

static void print_case(const struct client *me, const struct bench_case *it)
{
	const struct condition *condition = &me->conditions[it->condition];
	const struct method *method = it->method;

	printf("{\"case\": %td, \"set\": \"%s\", \"method\": \"%s\"", it - me->cases, method->set,
	       method->name);
	printf(", \"title\": \"%s\", \"steps\": \"%s\"", method->title, method->steps);
	printf(", \"in_flight\": %u, \"size\": %u, \"region\": %llu, \"batch\": %u",
	       method->in_flight, it->size, it->region, it->batch);
	printf(", \"delay\": %u, \"busy\": %u, \"clients\": %u", condition->of[DELAY],
	       condition->of[BUSY], condition->of[CLIENTS]);
	printf(", \"client_qpn\": \"0x%06x\", \"target_qpn\": \"0x%06llx\"}\n",
	       it->connections->qp->qp_base.qp_num, it->connections->target.address.qpn);
}

static void add_condition(struct client *me, struct condition condition)
{
	if (me->nr_conditions == MAX_CONDITIONS)
		errx(1, "more than %d conditions", MAX_CONDITIONS);
	if (!condition.of[CLIENTS])
		errx(1, "--clients: 0 clients?");
	me->conditions[me->nr_conditions++] = condition;
}

static void add_other(struct client *me, __u64 value, const void *knob)
{
	struct condition condition = me->conditions[0];
	__u32 *it = &condition.of[*(const enum knob *)knob];

	if (*it == value)
		return;
	*it = value;
	add_condition(me, condition);
}

/* The plain one, then those that differ from it in one. */
static void add_conditions(struct client *me, const char *const lists[NR_KNOBS])
{
	struct condition plain;
	enum knob knob;

	for (knob = 0; knob < NR_KNOBS; knob++)
		plain.of[knob] = atoi(lists[knob]);
	add_condition(me, plain);
	for (knob = 0; knob < NR_KNOBS; knob++)
		each_number(me, lists[knob], add_other, &knob);
}

static const struct option options[] = {
	{ "rounds", required_argument, NULL, 'r' },
	{ "batch", required_argument, NULL, 'n' },
	{ "seed", required_argument, NULL, 's' },
	{ "sizes", required_argument, NULL, 'S' },
	{ "regions", required_argument, NULL, 'R' },
	{ "delays", required_argument, NULL, 'd' },
	{ "busy", required_argument, NULL, 'b' },
	{ "clients", required_argument, NULL, 'c' },
	{ "methods", required_argument, NULL, 'm' },
	{ "count-cpu", no_argument, NULL, 'C' },
	{}
};

int main(int argc, char **argv)
{
	static struct client me = { .rounds = 20, .batch = 10 };
	const char *sizes = "64", *regions = "2", *lists[NR_KNOBS] = { "0", "0", "1" };
	const char *only = NULL;
	__u64 seed = 1;
	bool count_cpu = false;
	unsigned int i;
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		switch (option) {
		case 'r': me.rounds = log_number(optarg); break;
		case 'n': me.batch = log_number(optarg); break;
		case 's': seed = log_number(optarg); break;
		case 'S': sizes = optarg; break;
		case 'R': regions = optarg; break;
		case 'd': lists[DELAY] = optarg; break;
		case 'b': lists[BUSY] = optarg; break;
		case 'c': lists[CLIENTS] = optarg; break;
		case 'm': only = optarg; break;
		case 'C': count_cpu = true; break;
		default: return 2;
		}
	}
	if (optind != argc - 1 || !me.rounds || !me.batch)
		errx(2, "usage: bench-client [OPTION...] ADDRESS (one round or more)");
	me.prng = prng_of_seed(seed);
	if (count_cpu)
		bench_count_cpu();
	end_open(&me.end);
	me.end.timeout = BENCH_TIMEOUT;
	me.fd = end_dial(argv[optind]);
	add_conditions(&me, lists);
	add_cases(&me, sizes, regions, only);
	make_memory(&me);
	for (i = 0; i < me.nr_cases; i++)
		print_case(&me, &me.cases[i]);
	for (i = 0; i <= me.rounds; i++)
		run_round(&me, i);
	for (i = 0; i < me.nr_cases; i++)
		if (me.cases[i].failure)
			printf("{\"case\": %u, \"failure\": \"%s\"}\n", i, me.cases[i].failure);
	return 0;
}
